//! A package that is generated for one test.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::library::BuiltLibrary;

/// A C kernel that returns a number.
pub(crate) fn c_kernel(name: &str, value: &str) -> String {
    format!(
        "#include <kernpack/kernel.h>\n\
         KERNPACK_KERNEL({name}) {{ return kernpack_return_int(result, {value}); }}\n"
    )
}

/// An LLVM IR kernel that returns None.
pub(crate) fn ir_kernel(name: &str) -> String {
    format!("define i32 @__tvm_ffi_{name}(ptr %self, ptr %args, i32 %n, ptr %result) {{\n  ret i32 0\n}}\n")
}

/// A loop that LLVM vectorizes with the instructions of the CPU. It is never run.
pub(crate) fn loop_ir(name: &str, attributes: &str) -> String {
    format!(
        "define i32 @__tvm_ffi_{name}(ptr %self, ptr %args, i32 %n, ptr %result) {attributes} {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %args, i64 %i
  %to = getelementptr float, ptr %result, i64 %i
  %x = load float, ptr %from
  %y = fadd float %x, 1.0
  store float %y, ptr %to
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, 1024
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}\n"
    )
}

/// The features of the runtime in the manifest of a package that needs any of them. It is always
/// the full set, so that the runtime is built twice for all packages, not once for each set of
/// features.
pub(crate) const ALL_FEATURES: &str = ", features = [\"cuda\", \"opencl\", \"zstd\"]";

/// The name under which the tests pass `CUDA_HOME` to build scripts.
///
/// cudarc does not see this variable. All packages share one build of cudarc; with `CUDA_HOME`, it
/// would be rebuilt, and the runtime with it, for each change of the toolkit.
const CUDA_HOME_OF_SCRIPT: &str = "KERNPACK_TEST_SCRIPT_CUDA_HOME";

/// The beginning of a build script that compiles for CUDA.
fn find_toolkit() -> String {
    format!(
        "    println!(\"cargo::rerun-if-env-changed={CUDA_HOME_OF_SCRIPT}\");
    if let Some(home) = std::env::var_os(\"{CUDA_HOME_OF_SCRIPT}\") {{
        // SAFETY: this is the only thread.
        unsafe {{ std::env::set_var(\"CUDA_HOME\", home) }};
    }}\n"
    )
}

pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    target_dir: PathBuf,
}

/// The exit status and the output of a run of cargo.
pub(crate) struct Built {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Package {
    /// Creates a package whose build script is `Library::new()` and `calls`. Its library has
    /// `library!()`.
    pub(crate) fn new(name: &str, calls: &str) -> Self {
        Self::in_folder(name, name, calls)
    }

    /// Like [`Self::new`], in a folder of another name.
    pub(crate) fn in_folder(folder: &str, name: &str, calls: &str) -> Self {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernpack-build");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let package = Self { name: name.to_owned(), dir: scratch.join(folder), target_dir: scratch.join("target") };
        if package.dir.exists() {
            fs::remove_dir_all(&package.dir).expect("the old package can be removed");
        }
        package
            .file(
                "Cargo.toml",
                &format!(
                    "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
                     [lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n\n\
                     [dependencies]\nkernpack = {{ path = '{}'{} }}\n\n\
                     [build-dependencies]\nkernpack-build = {{ path = '{}'{} }}\n\n\
                     [profile.dev]\ndebug = false\n\n[workspace]\n",
                    root.join("runtime").display(),
                    if calls.contains(".cuda") { ALL_FEATURES } else { "" },
                    env!("CARGO_MANIFEST_DIR"),
                    if calls.contains(".te(") || calls.contains(".model") { ", features = [\"graph\"]" } else { "" },
                ),
            )
            .file(
                "build.rs",
                &format!(
                    "fn main() -> kernpack_build::Result<()> {{\n{}    kernpack_build::Library::new(){calls}.build()\n}}\n",
                    if calls.contains(".cuda") { find_toolkit() } else { String::new() },
                ),
            )
            .file("src/lib.rs", "#![warn(missing_docs, unreachable_pub)]\n//! Scratch.\nkernpack::library!();\n")
            .file("Cargo.lock", &fs::read_to_string(root.join("Cargo.lock")).expect("the workspace has a lock file"))
    }

    /// Enables OpenCL kernels, and their check by the devices during the build. Removes the results
    /// of earlier builds.
    pub(crate) fn with_opencl(self) -> Self {
        let manifest = fs::read_to_string(self.dir.join("Cargo.toml")).expect("it is there");
        let manifest = manifest.replace("/runtime' }", &format!("/runtime'{ALL_FEATURES} }}"));
        let feature = ", features = [\"opencl\"] }";
        let manifest = manifest.replace("/build-support' }", &format!("/build-support'{feature}"));
        self.write("Cargo.toml", &manifest.replace("features = [\"graph\"] }", "features = [\"graph\", \"opencl\"] }"));
        self.forget();
        self
    }

    /// Turns the package into a program that links other packages. It has no library.
    pub(crate) fn linking(self, packages: &[&Package]) -> Self {
        let manifest = fs::read_to_string(self.dir.join("Cargo.toml")).expect("it is there");
        let (head, rest) = manifest.split_once("[lib]").expect("it has a library");
        let (_, rest) = rest.split_once("[dependencies]\n").expect("it has dependencies");
        let (own, rest) = rest.split_once("[build-dependencies]").expect("it has a build script");
        let profile = rest.split_once("[profile").expect("it has a profile").1;
        let linked =
            packages.iter().map(|package| format!("{} = {{ path = '{}' }}\n", package.name, package.dir.display()));
        let linked: String = linked.collect();
        let own = own.trim_end().replace("/runtime' }", &format!("/runtime'{ALL_FEATURES} }}"));
        self.write("Cargo.toml", &format!("{head}[dependencies]\n{own}\n{linked}\n[profile{profile}"));
        fs::remove_file(self.dir.join("build.rs")).expect("it is there");
        fs::remove_file(self.dir.join("src/lib.rs")).expect("it is there");
        self
    }

    /// Adds a dependency on another package.
    pub(crate) fn depends_on(self, other: &Package) -> Self {
        let manifest = fs::read_to_string(self.dir.join("Cargo.toml")).expect("it is there");
        let line = format!("[dependencies]\n{} = {{ path = '{}' }}\n", other.name, other.dir.display());
        self.write("Cargo.toml", &manifest.replacen("[dependencies]\n", &line, 1));
        self
    }

    /// Writes a file of the package.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        self.write(path, text);
        self
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders can be made");
        fs::write(path, text).expect("files can be written");
    }

    /// Writes an executable shell script.
    #[cfg(unix)]
    pub(crate) fn script(&self, path: &str, body: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        self.write(path, &format!("#!/bin/sh\n{}", body.trim_start_matches("#!/bin/sh\n")));
        fs::set_permissions(self.dir.join(path), fs::Permissions::from_mode(0o755)).expect("it may be run");
    }

    /// Runs cargo without network, and without the environment variables of the user for compilers.
    pub(crate) fn cargo(&self, args: &[&str], variables: &[(&str, &str)]) -> Built {
        let output = self.cargo_command(args, variables).output().expect("cargo runs");
        Built {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn cargo_command(&self, args: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.arg("--offline").args(args).current_dir(&self.dir);
        command.env("CARGO_TARGET_DIR", &self.target_dir);
        for name in [
            "CC",
            "CFLAGS",
            "CXX",
            "CXXFLAGS",
            "CUDA_HOME",
            "CUDA_PATH",
            "KERNPACK_COMPILE_COMMANDS",
            "KERNPACK_CUDA",
            "KERNPACK_DUMP_PASSES",
            "KERNPACK_OPENCL",
            "KERNPACK_OPENCL_DEVICES",
            "KERNPACK_OPENCL_LIBRARY",
            "NVCC",
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
        ] {
            command.env_remove(name);
        }
        command.env("PATH", path_without_nvcc());
        let of_script = |name| if name == "CUDA_HOME" { CUDA_HOME_OF_SCRIPT } else { name };
        command.envs(variables.iter().map(|&(name, value)| (of_script(name), value)));
        command
    }

    /// Builds, which must succeed, and returns the peak memory in bytes of the largest process:
    /// cargo, rustc, the build script, a compiler or the linker.
    #[cfg(target_os = "linux")]
    pub(crate) fn build_measured(&self) -> u64 {
        let mut child = self.cargo_command(&["build", "--quiet"], &[]).spawn().expect("cargo runs");
        let pid = libc::pid_t::try_from(child.id()).expect("a process");
        let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: the process is our child, and no other code waits for it; both variables outlive
        // the call.
        let waited = unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) };
        assert_eq!(waited, pid, "cargo can be waited for");
        // The process has been waited for already.
        let _ = child.try_wait();
        assert_eq!(status, 0, "the build succeeds");
        // SAFETY: zeros are a valid value, and `wait4` has filled it.
        let usage = unsafe { usage.assume_init() };
        u64::try_from(usage.ru_maxrss).expect("a size") * 1024
    }

    /// Builds, which must succeed, and opens the library.
    pub(crate) fn build(&self) -> BuiltLibrary {
        self.build_with(&["build"], &[])
    }

    pub(crate) fn build_with(&self, args: &[&str], variables: &[(&str, &str)]) -> BuiltLibrary {
        let built = self.cargo(args, variables);
        assert!(built.success, "{}", built.stderr);
        for warning in [format!("warning: {}@", self.name), format!("`{}` (lib) generated", self.name)] {
            assert!(!built.stderr.contains(&warning), "{}", built.stderr);
        }
        let profile = if args.contains(&"--release") { "release" } else { "debug" };
        self.library(profile)
    }

    /// Removes the runtime from the package, which leaves the library empty.
    ///
    /// For tests of the outputs of the build script, with options of rustc that would rebuild the
    /// whole runtime.
    pub(crate) fn without_runtime(self) -> Self {
        let manifest = fs::read_to_string(self.dir.join("Cargo.toml")).expect("it is there");
        let lines = manifest.lines().filter(|line| !line.starts_with("kernpack = "));
        self.write("Cargo.toml", &lines.map(|line| format!("{line}\n")).collect::<String>());
        self.write("src/lib.rs", "#![allow(missing_docs)]\n");
        self
    }

    /// Opens an object file of the build script from the last build that had the host as its
    /// `--target`.
    pub(crate) fn object_for_host_target(&self, file: &str) -> BuiltLibrary {
        let folder = self.script_folders_in(&format!("{}/debug/build", host_triple())).pop();
        BuiltLibrary::open(&folder.expect("the build script has run").join("out/kernpack").join(file))
    }

    /// Builds with `--target`, so that flags of rustc apply to the package but not to build scripts
    /// and procedural macros.
    pub(crate) fn build_for_host_target(&self, variables: &[(&str, &str)]) -> BuiltLibrary {
        let triple = host_triple();
        let built = self.cargo(&["build", "--target", &triple], variables);
        assert!(built.success, "{}", built.stderr);
        self.library(&format!("{triple}/debug"))
    }

    /// Opens the library of the last build.
    pub(crate) fn library(&self, profile: &str) -> BuiltLibrary {
        BuiltLibrary::open(&self.library_path(profile))
    }

    /// Returns the path of the shared library.
    pub(crate) fn library_path(&self, profile: &str) -> PathBuf {
        let file = format!("{}{}{}", env::consts::DLL_PREFIX, self.name.replace('-', "_"), env::consts::DLL_SUFFIX);
        self.target_dir.join(profile).join(file)
    }

    /// Removes the results of earlier builds of a package of this name.
    pub(crate) fn forget(&self) {
        for folder in self.script_folders() {
            fs::remove_dir_all(folder).expect("the old folder can be removed");
        }
    }

    /// Returns `OUT_DIR` of the last run of the build script.
    pub(crate) fn out_dir(&self) -> PathBuf {
        self.script_folder().join("out")
    }

    /// Returns the output of the last run of the build script.
    pub(crate) fn script_output(&self) -> String {
        fs::read_to_string(self.script_folder().join("output")).expect("cargo keeps what build scripts print")
    }

    fn script_folder(&self) -> PathBuf {
        self.script_folders().pop().expect("the build script has run")
    }

    /// Returns the output folders of the build script, the latest one last.
    fn script_folders(&self) -> Vec<PathBuf> {
        self.script_folders_in("debug/build")
    }

    fn script_folders_in(&self, folder: &str) -> Vec<PathBuf> {
        let start = format!("{}-", self.name);
        let entries = fs::read_dir(self.target_dir.join(folder)).into_iter().flatten();
        let is_hash = |rest: &str| rest.len() == 16 && rest.chars().all(|c| c.is_ascii_hexdigit());
        let folders = entries.map(|entry| entry.expect("readable").path()).filter(|folder| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.strip_prefix(&start).is_some_and(is_hash) && folder.join("output").is_file()
        });
        let mut folders: Vec<PathBuf> = folders.collect();
        folders.sort_by_key(|folder| fs::metadata(folder.join("output")).and_then(|m| m.modified()).ok());
        folders
    }

    /// Opens the program of the last build.
    pub(crate) fn program(&self, profile: &str) -> BuiltLibrary {
        BuiltLibrary::open(&self.program_path(profile))
    }

    /// Returns the path of the program.
    pub(crate) fn program_path(&self, profile: &str) -> PathBuf {
        self.target_dir.join(profile).join(format!("{}{}", self.name, env::consts::EXE_SUFFIX))
    }

    /// Builds, which must fail in the build script, and returns the message of the script.
    pub(crate) fn failure(&self, variables: &[(&str, &str)]) -> String {
        let built = self.cargo(&["build"], variables);
        assert!(!built.success, "the build succeeded:\n{}", built.stderr);
        let message = built.stderr.split("--- stderr\n").nth(1).unwrap_or_else(|| panic!("{}", built.stderr));
        message
            .lines()
            .take_while(|line| !line.starts_with("warning: build failed"))
            .map(|line| line.strip_prefix("  ").unwrap_or(line))
            .collect::<Vec<_>>()
            .join("\n")
            .trim()
            .to_owned()
    }

    /// Builds, which must fail, and returns the whole message in a form that is the same on every
    /// machine.
    ///
    /// `DIR` is the package, `OUT` its `OUT_DIR`, `HOST` the target, and `$NAME` the value of a
    /// variable that was set. Commands of C compilers are shown from `-c` on, because the options
    /// before it depend on the machine.
    pub(crate) fn message(&self, variables: &[(&str, &str)]) -> String {
        let mut message = self.failure(variables);
        for (name, value) in variables.iter().filter(|(_, value)| value.starts_with('/') && !value.contains(':')) {
            message = message.replace(value, &format!("${name}"));
        }
        let build = self.target_dir.join("debug/build").display().to_string();
        while let Some(start) = message.find(&format!("{build}/{}-", self.name)) {
            let end = start + message[start..].find("/out").expect("it is OUT_DIR") + "/out".len();
            message.replace_range(start..end, "OUT");
        }
        let host = format!("{}-unknown-linux-gnu", env::consts::ARCH);
        let message = message.replace(&self.dir.display().to_string(), "DIR").replace(&host, "HOST");
        let short = |line: &str| {
            let command = line.strip_prefix("  command: ").and_then(|command| command.split_once(' '));
            match command.and_then(|(program, rest)| Some((program, rest.rsplit_once(" -c ")?.1))) {
                Some((program, rest)) => format!("  command: {program} ... -c {rest}\n"),
                None => format!("{}\n", line.trim_end()),
            }
        };
        message.lines().map(short).collect()
    }

    /// Runs `src/main.rs` and returns its stdout.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let built = self.cargo(&[&["run", "--quiet"], args].concat(), &[]);
        assert!(built.success, "{}", built.stderr);
        built.stdout
    }
}

impl Built {
    /// Returns true if cargo compiled or ran anything, according to its output with `-v`.
    pub(crate) fn did_work(&self) -> bool {
        self.stderr
            .lines()
            .any(|line| ["Compiling", "Running", "Dirty"].iter().any(|word| line.trim_start().starts_with(word)))
    }
}

/// Returns the target triple of this machine.
fn host_triple() -> String {
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&rustc.stdout).into_owned();
    version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

fn path_without_nvcc() -> std::ffi::OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let nvcc = format!("nvcc{}", env::consts::EXE_SUFFIX);
    env::join_paths(env::split_paths(&path).filter(|folder| !folder.join(&nvcc).exists())).unwrap_or(path)
}
