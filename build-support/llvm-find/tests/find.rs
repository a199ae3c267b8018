//! The search on fake machines: folders with small ELF files, and programs with fixed outputs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use kernpack_llvm_find::{Machine, OLDEST, Origin, PREFIX_VARIABLES, TESTED, find, functions};

const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// Builds a shared library in the ELF format with dynamic symbols and a version.
fn elf(machine: u16, version: &str, exports: &[&str], imports: &[&str]) -> Vec<u8> {
    let mut names = vec![0];
    let mut name = |text: &str| {
        let at = u32::try_from(names.len()).unwrap();
        names.extend(text.bytes().chain([0]));
        at
    };
    let mut symbols = vec![0; 24];
    for (symbol, section) in exports.iter().map(|it| (it, 7_u16)).chain(imports.iter().map(|it| (it, 0))) {
        symbols.extend(name(symbol).to_le_bytes());
        symbols.extend([0x12, 0]);
        symbols.extend(section.to_le_bytes());
        symbols.extend([0; 16]);
    }
    // The version of the file, then that of the symbols.
    let mut versions = Vec::new();
    for (index, (text, next)) in [("libLLVM.so", 28_u32), (version, 0)].into_iter().enumerate() {
        for number in [1, 0, index as u16 + 1, 1] {
            versions.extend(number.to_le_bytes());
        }
        for number in [0, 20, next, name(text), 0] {
            versions.extend(number.to_le_bytes());
        }
    }
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(18, 0);
    file[16] = 3;
    file.extend(machine.to_le_bytes());
    file.resize(64, 0);
    let mut headers = vec![0; 64];
    for (kind, bytes, link) in [(11_u32, symbols, 2_u32), (3, names, 0), (0x6fff_fffd, versions, 2)] {
        let mut header = vec![0; 64];
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&(file.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        header[40..44].copy_from_slice(&link.to_le_bytes());
        headers.extend(header);
        file.extend(bytes);
    }
    let start = (file.len() as u64).to_le_bytes();
    file[40..48].copy_from_slice(&start);
    file[58..62].copy_from_slice(&[64, 0, 4, 0]);
    file.extend(headers);
    file
}

/// A library with all functions that kernpack calls.
fn library(machine: u16, major: u32) -> Vec<u8> {
    elf(machine, &format!("LLVM_{major}.1"), &functions().collect::<Vec<_>>(), &[])
}

/// The path relative to the machine's folder, the version and the origin of a library, or the
/// message.
type Found = Result<(String, String, Origin), String>;

/// A machine in a separate folder.
struct Fake {
    folder: PathBuf,
    variables: HashMap<&'static str, PathBuf>,
    /// Outputs by program and arguments.
    programs: HashMap<(PathBuf, String), String>,
}

impl Fake {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("kernpack-llvm-find-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        let variables = HashMap::from([("PATH", folder.join("bin"))]);
        Self { folder, variables, programs: HashMap::new() }
    }

    fn file(&self, path: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn program(&mut self, path: &str, answers: &[(&str, String)]) {
        let path = self.file(&format!("{path}{}", std::env::consts::EXE_SUFFIX), b"");
        for (arguments, answer) in answers {
            self.programs.insert((path.clone(), (*arguments).to_owned()), answer.clone());
        }
    }

    fn rustc(&mut self, llvm: &str) {
        let verbose = format!("rustc 1.99.1\nhost: x86_64-unknown-linux-gnu\nrelease: 1.99.1\nLLVM version: {llvm}");
        let sysroot = self.folder.join("rust").display().to_string();
        self.program("bin/rustc", &[("-vV", verbose), ("--print sysroot", sysroot)]);
    }

    fn config(&mut self, path: &str, version: &str, libdir: &str) {
        let libdir = self.folder.join(libdir).display().to_string();
        self.program(path, &[("--version", version.to_owned()), ("--libdir", libdir)]);
    }

    fn prefix(&mut self, variable: &'static str, folder: &str) {
        self.variables.insert(variable, self.folder.join(folder));
    }

    fn find(&self) -> Found {
        let inside = |text: &str| text.replace(&format!("{}/", self.folder.display()), "");
        match find(self, "x86_64") {
            Ok(library) => Ok((inside(&library.path.display().to_string()), library.version, library.origin)),
            Err(problems) => Err(inside(&problems.to_string())),
        }
    }
}

impl Machine for Fake {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).map(|value| value.clone().into_os_string())
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let answer = self.programs.get(&(program.to_owned(), arguments.join(" ")));
        answer.cloned().ok_or_else(|| format!("{} does not start: stand-in", program.display()))
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn found(path: &str, version: &str, origin: Origin) -> Found {
    Ok((path.to_owned(), version.to_owned(), origin))
}

#[test]
fn the_order_of_the_search() {
    let mut machine = Fake::new("order");
    let system = |fake: &Fake, name: &str| Origin::System(fake.folder.join("bin").join(name));
    machine.file("any/libLLVM.so.24.1", &library(X86_64, 24));
    machine.config("bin/llvm-config", "24.1.0", "any");
    assert_eq!(machine.find(), found("any/libLLVM.so.24.1", "24.1.0", system(&machine, "llvm-config")));
    for major in [25, 22, 23] {
        let libdir = format!("llvm-{major}/lib");
        machine.file(&format!("{libdir}/libLLVM.so.{major}.1"), &library(X86_64, major));
        // Another name for it, and one with another version under the name without a version.
        machine.file(&format!("{libdir}/libLLVM-{major}.so"), &library(X86_64, major));
        machine.file(&format!("{libdir}/libLLVM.so"), &library(X86_64, 21));
        machine.config(&format!("bin/llvm-config-{major}"), &format!("{major}.1.0"), &libdir);
        let (path, version) = (format!("llvm-{major}/lib/libLLVM.so.{major}.1"), format!("{major}.1.0"));
        let origin = system(&machine, &format!("llvm-config-{major}"));
        assert_eq!(machine.find(), found(&path, &version, origin));
    }
    // First of all: the Rust toolchain in use, from rustup or a distribution.
    machine.rustc("23.1.2");
    machine.file("rust/lib/x86_64-linux-gnu/libLLVM.so.22.1", &library(X86_64, 22));
    let multiarch = "rust/lib/x86_64-linux-gnu/libLLVM.so.23.1";
    machine.file(multiarch, &library(X86_64, 23));
    assert_eq!(machine.find(), found(multiarch, "23.1.2", Origin::RustToolchain));
    machine.file("rust/lib/libLLVM-23-rust-1.99.1-stable.so", b"INPUT(libLLVM.so.23.1-rust-1.99.1-stable)");
    let own = "rust/lib/libLLVM.so.23.1-rust-1.99.1-stable";
    machine.file(own, &library(X86_64, 23));
    assert_eq!(machine.find(), found(own, "23.1.2", Origin::RustToolchain));
    // The variables of the user take precedence over everything, the neutral variable first.
    for (folder, variable) in ["old", "new", "neutral"].into_iter().zip(PREFIX_VARIABLES.iter().rev()) {
        machine.file(&format!("{folder}/lib/libLLVM.so.22.1"), &library(X86_64, 22));
        machine.prefix(variable, folder);
        assert_eq!(machine.find(), found(&format!("{folder}/lib/libLLVM.so.22.1"), "22.1", Origin::Prefix(variable)));
    }
}

#[test]
fn warnings() {
    for (major, expected) in [
        (22, None),
        (23, None),
        (24, Some("kernpack is not tested with LLVM 24.1.0 (libLLVM.so.24.1); it is tested with 22 and 23")),
    ] {
        let mut machine = Fake::new(&format!("warnings-{major}"));
        machine.rustc(&format!("{major}.1.0"));
        machine.file(&format!("rust/lib/libLLVM.so.{major}.1"), &library(X86_64, major));
        let library = find(&machine, "x86_64").unwrap();
        let warning =
            library.warning().map(|text| text.replace(&format!("{}/rust/lib/", machine.folder.display()), ""));
        assert_eq!((library.major, library.is_checked, warning.as_deref()), (major, true, expected));
    }
}

/// The messages for an unusable Rust toolchain on a machine without another LLVM, each with its
/// advice.
#[test]
fn toolchains_that_do_not_serve() {
    let new =
        elf(X86_64, "LLVM_31.1", &functions().filter(|name| !name.starts_with("LLVMOrc")).collect::<Vec<_>>(), &[]);
    let orc: Vec<&str> = functions().filter(|name| name.starts_with("LLVMOrc")).collect();
    assert!(orc.len() > 9);
    let missing = format!("{} and {} more", orc[..8].join(", "), orc.len() - 8);
    let mut cut = library(X86_64, 22);
    cut.truncate(cut.len() - 10);
    let rows = [
        (
            "too old",
            "21.1.8",
            None,
            "the Rust toolchain (bin/rustc) is of LLVM 21.1.8, which is too old: 22 is the oldest that serves"
                .to_owned(),
            "update it: LLVM 22 or newer is needed, which Rust has since 1.95 (rustup update stable)",
        ),
        (
            "too new",
            "31.1.0",
            Some(new),
            format!(
                "rust/lib/libLLVM.so (LLVM 31.1.0) does not export {missing}, which kernpack calls; tested are LLVM 22 and 23"
            ),
            "update kernpack, or set KERNPACK_LLVM_PREFIX to an LLVM of a tested version",
        ),
        (
            "without a shared library",
            "23.1.4",
            None,
            "LLVM 23.1.4 has no shared library (libLLVM) in rust/lib, rust/lib64, rust/lib/x86_64-linux-gnu".to_owned(),
            "install its shared library (Debian, Ubuntu: llvm-23-dev; from source: -DLLVM_BUILD_LLVM_DYLIB=ON)",
        ),
        (
            "another architecture",
            "22.1.2",
            Some(library(AARCH64, 22)),
            "rust/lib/libLLVM.so is a library for aarch64, but the build is for x86_64".to_owned(),
            "set KERNPACK_LLVM_PREFIX to the folder of an LLVM for x86_64",
        ),
        (
            "not a library",
            "22.1.2",
            Some(b"INPUT(libLLVM.so.22.1)".to_vec()),
            "rust/lib/libLLVM.so cannot be linked: it is not a shared library in the ELF format".to_owned(),
            "install that LLVM again",
        ),
        (
            "cut off",
            "22.1.2",
            Some(cut),
            "rust/lib/libLLVM.so cannot be linked: its ELF file is malformed: a table ends behind the end of the file"
                .to_owned(),
            "install that LLVM again",
        ),
    ];
    for (name, version, file, problem, remedy) in rows {
        let mut machine = Fake::new(&name.replace(' ', "-"));
        machine.rustc(version);
        if let Some(bytes) = file {
            machine.file("rust/lib/libLLVM.so", &bytes);
        }
        let expected = format!(
            "found no LLVM to link (version 22 or newer, as a shared library):

  - {problem}
  - there is no llvm-config-23, llvm-config-22 or llvm-config in PATH

Do one of these:
  - {remedy}
  - build with a Rust toolchain of rustup, 1.95 or newer: it has an LLVM inside
  - install LLVM with its shared library (Debian, Ubuntu: llvm-22-dev or newer)
  - set KERNPACK_LLVM_PREFIX to the folder of an LLVM that has lib/libLLVM.so
  - do without LLVM: kernpack-build = {{ version = \"...\", default-features = false }}"
        );
        assert_eq!(machine.find(), Err(expected), "{name}");
    }
}

/// The folder in a variable is binding: no other place is searched, even if the toolchain would be
/// usable.
#[test]
fn prefixes_that_do_not_serve() {
    let rows = [
        (
            "nothing",
            None,
            None,
            "neither llvm/bin/llvm-config nor a shared library of LLVM in llvm/lib serves",
            "name the folder of an LLVM with bin/llvm-config or lib/libLLVM.so",
        ),
        (
            "old",
            Some("18.1.7"),
            None,
            "llvm/bin/llvm-config is of LLVM 18.1.7, which is too old: 22 is the oldest that serves",
            "update it: LLVM 22 or newer is needed, which Rust has since 1.95 (rustup update stable)",
        ),
        (
            "old-library",
            None,
            Some(library(X86_64, 21)),
            "llvm/lib/libLLVM.so is of LLVM 21.1, which is too old: 22 is the oldest that serves",
            "update it: LLVM 22 or newer is needed, which Rust has since 1.95 (rustup update stable)",
        ),
        (
            "static",
            Some("23.1.4"),
            None,
            "LLVM 23.1.4 has no shared library (libLLVM) in llvm/lib",
            "install its shared library (Debian, Ubuntu: llvm-23-dev; from source: -DLLVM_BUILD_LLVM_DYLIB=ON)",
        ),
        (
            "arm",
            None,
            Some(library(AARCH64, 23)),
            "llvm/lib/libLLVM.so is a library for aarch64, but the build is for x86_64",
            "set KERNPACK_LLVM_PREFIX to the folder of an LLVM for x86_64",
        ),
    ];
    for (name, config, file, problem, remedy) in rows {
        let mut machine = Fake::new(&format!("prefix-{name}"));
        machine.rustc("22.1.2");
        machine.file("rust/lib/libLLVM.so.22.1", &library(X86_64, 22));
        machine.prefix("LLVM_SYS_221_PREFIX", "llvm");
        if let Some(version) = config {
            machine.config("llvm/bin/llvm-config", version, "llvm/lib");
        }
        if let Some(bytes) = file {
            machine.file("llvm/lib/libLLVM.so", &bytes);
        }
        let expected = format!(
            "found no LLVM to link (version 22 or newer, as a shared library):

  - LLVM_SYS_221_PREFIX is FOLDER, but {problem}

Do one of these:
  - {remedy}, or unset LLVM_SYS_221_PREFIX
  - do without LLVM: kernpack-build = {{ version = \"...\", default-features = false }}"
        );
        let expected = expected.replace("FOLDER", &machine.folder.join("llvm").display().to_string());
        let expected = expected.replace(&format!("{}/", machine.folder.display()), "");
        assert_eq!(machine.find(), Err(expected), "{name}");
    }
}

/// Every prefix of a file is an error or a library without symbols, never a panic.
#[test]
fn malformed_files() {
    let machine = Fake::new("malformed");
    let whole = elf(X86_64, "LLVM_22.1", &["LLVMA", "LLVMB", "other"], &["LLVMC"]);
    let read = |bytes: &[u8]| {
        let path = machine.file("lib.so", bytes);
        let elf = kernpack_llvm_find::Elf::open(&path).ok()?;
        Some((elf.exports("LLVM").ok()?, elf.imports("LLVM").ok()?, elf.version_names().ok()?))
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let expected = (names(&["LLVMA", "LLVMB"]), names(&["LLVMC"]), names(&["libLLVM.so", "LLVM_22.1"]));
    assert_eq!(read(&whole), Some(expected));
    for length in 0..whole.len() {
        assert_eq!(read(&whole[..length]), None, "{length}");
    }
    // A wrong byte may change the answer, but has no other effect.
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            let _ = read(&bytes);
        }
    }
}

/// Functions with different meanings in LLVM 22 and LLVM 23 are never called.
#[test]
fn functions_with_two_meanings_are_not_called() {
    let names: Vec<&str> = functions().collect();
    assert!(names.is_sorted() && names.len() > 200, "{}", names.len());
    for name in [
        "LLVMGetCondition",
        "LLVMGetConstOpcode",
        "LLVMIsABranchInst",
        "LLVMIsConditional",
        "LLVMOrcCreateRTDyldObjectLinkingLayerWithMCJITMemoryManagerLikeCallbacks",
        "LLVMOrcCreateStaticLibrarySearchGeneratorForPath",
        "LLVMSetCondition",
    ] {
        assert!(!names.contains(&name), "{name}");
    }
    assert_eq!(TESTED.first(), Some(&OLDEST));
}
