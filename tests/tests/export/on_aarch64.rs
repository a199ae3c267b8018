//! Cross compiling: the workspace's libraries and programs for 64-bit ARM, built on this machine
//! and run under qemu. Their results are the same as here.

#[path = "../../aarch64/src/report.rs"]
mod report;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::aarch64_machine::{self as machine, PREFIX, TARGET};
use kernpack::Module;
use kernpack::module::{AssemblyPacker, CPacker, ExportOptions, ModuleImpl, ModuleProperties};
use kernpack::{Bytes, Function, Result};
use kernpack_build::{LlvmPacker, ObjectPacker, llvm_module_for};
use kernpack_tests::headers;
use kernpack_tests::skip::skip;

fn stdout(command: &mut Command) -> String {
    String::from_utf8(headers::run(command).stdout).unwrap()
}

/// The output of a program of the compiler's package for a file.
fn about(program: &str, arguments: &[&str], file: &Path) -> String {
    stdout(Command::new(format!("{PREFIX}{program}")).args(arguments).arg(file))
}

#[test]
fn a_whole_library_does_what_it_does_here() {
    let Some(programs) = machine::programs() else { return };
    let library = programs.join("libimagekit.so");
    let there = stdout(machine::run(programs.join("aarch64-host"), &[]).arg("report").arg(&library));
    for line in [
        "error of C, with a number: ValueError: blur(src: float32[height, width], dst: float32[height, width], radius: int): argument \
         'radius': -5000000000 is not from 0 to 1000",
        "error of a callback: KeyError: no row 0",
        "histogram as a type of the program: 1961",
        "imports: 1 \"library\"",
    ] {
        assert!(there.lines().any(|printed| printed == line), "{line}\n{there}");
    }
    let Some(here) = std::env::var_os("IMAGEKIT_LIBRARY") else {
        return skip("IMAGEKIT_LIBRARY does not say where this machine's libimagekit.so is (cargo xtask test does)");
    };
    assert_eq!(there, report::report(Path::new(&here)).unwrap());
}

#[test]
fn functions_for_devices_say_what_is_missing() {
    let Some(programs) = machine::programs() else { return };
    let library = programs.join("libimagekit.so");
    let printed = stdout(machine::run(programs.join("aarch64-host"), &[]).arg("devices").arg(library));
    let lines: Vec<&str> = printed.lines().collect();
    let on_cuda = [
        // For a build with nvcc, and for one without.
        "ValueError: cuda kernel 'sobel_cuda': argument 'src': expected a tensor on cuda, got one on cpu:0; copy it there first",
        "RuntimeError: cuda kernel 'sobel_cuda' is not in this library: kernels/sobel.cu was not compiled when this library was built",
    ];
    assert!(on_cuda.iter().any(|message| lines[0].starts_with(message)), "{printed}");
    for line in &lines[1..3] {
        assert!(
            line.starts_with("RuntimeError: opencl: there is no OpenCL on this machine (libOpenCL.so.1 was not found)"),
            "{printed}"
        );
    }
    assert!(["images: opencl", "images: opencl cuda"].contains(&lines[3]), "{printed}");
}

#[test]
fn the_c_host_runs() {
    let Some(programs) = machine::programs() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let host = headers::scratch_dir("aarch64_c").join("c-host");
    let mut cc = Command::new(format!("{PREFIX}gcc"));
    cc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    cc.arg(root.join("runtime/capi/include")).arg(root.join("examples/c-host/host.c"));
    headers::run(cc.arg("-L").arg(programs).args(["-ltvm_ffi", "-lm", "-o"]).arg(&host));
    let variables = [("LD_LIBRARY_PATH", programs.as_os_str())];
    let printed = stdout(machine::run(&host, &variables).arg(programs.join("libimagekit.so")));
    for expected in [
        "to_gray (Rust): 48 x 64, pixel (7, 9) is 71.600",
        "map_rows (Rust): 48 calls of a C function",
        "an object of type imagekit.Histogram: total 3072",
        "JSON: {\"kernel\":\"blur\",\"radius\":2}",
        "every check holds",
    ] {
        assert!(printed.contains(expected), "{expected}\n{printed}");
    }
}

/// A C program that links no library and only opens this one.
#[test]
fn a_plain_c_program_opens_a_library() {
    let Some(programs) = machine::programs() else { return };
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let host = headers::scratch_dir("aarch64_plain_c").join("host");
    let mut cc = Command::new(format!("{PREFIX}gcc"));
    cc.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(tests.join("../build-support/include"));
    headers::run(cc.arg(tests.join("c/host.c")).arg("-ldl").arg("-o").arg(&host));
    let printed = stdout(machine::run(&host, &[]).arg(programs.join("libconversions.so")));
    assert_eq!(printed, "TypeError: add(a: int, b: int): argument 'a': expected int, got str\nok\n");
}

/// `kernpack_build::export_abi()`: the program exports the C functions, and loads libraries that
/// call them by name.
#[test]
fn a_program_hosts_every_library() {
    let Some(programs) = machine::programs() else { return };
    let host = programs.join("kernpack-loading-host");
    let dynamic = about("nm", &["-D", "--defined-only"], &host);
    let exported = |name: &&&str| dynamic.lines().any(|line| line.ends_with(&format!(" {name}")));
    assert_eq!(kernpack::sys::abi::ApiTable::NAMES.iter().filter(exported).count(), 50, "{dynamic}");
    let folder = headers::scratch_dir("aarch64_host");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = tests.join("../build-support/include");
    let compile = |name: &str, options: &[&str]| {
        let library = folder.join(name);
        let options = [&["-std=gnu11", "-shared", "-fPIC", "-O1"], options].concat();
        let gcc = format!("{PREFIX}gcc");
        headers::compile(&gcc, &tests.join("c/generated.c"), &library, std::slice::from_ref(&include), &options);
        library
    };
    let libraries =
        [compile("plain.so", &[]), compile("by_name.so", &["-DBY_NAME"]), programs.join("libconversions.so")];
    let printed = stdout(machine::run(&host, &[]).arg("Embedded").args(&libraries));
    assert_eq!(printed.matches("all checks passed").count(), 3, "{printed}");
    let ours = programs.join("libtvm_ffi.so");
    let printed = stdout(machine::run(&host, &[("LD_PRELOAD", ours.as_os_str())]).arg("Process").args(&libraries));
    assert_eq!(printed.matches("all checks passed").count(), 3, "{printed}");
}

/// C++ classes that Rust calls, and Rust modules that C++ calls: the ABI's result registers, and
/// exceptions.
#[test]
fn cpp_modules_and_rust_modules_call_each_other() {
    let Some(programs) = machine::programs() else { return };
    let Some(include_dirs) = headers::include_dirs_or_skip() else { return };
    let library = headers::scratch_dir("aarch64_cpp").join("modules.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/modules.cc");
    let options = ["-std=c++17", "-shared", "-fPIC", "-O1"];
    headers::compile(&format!("{PREFIX}g++"), &source, &library, &include_dirs, &options);

    let host = programs.join("kernpack-loading-host");
    let printed = stdout(machine::run(&host, &[]).arg("Embedded").arg(&library));
    assert_eq!(printed, "modules.so: all checks passed\n");
    let check = |test: &str, preload: &Path| {
        let preload = ("LD_PRELOAD", preload.as_os_str());
        let printed = stdout(machine::run(&host, &[preload]).arg("Process").arg(&library));
        assert_eq!(printed, "modules.so: all checks passed\n");
        // All of tests/tests/module/cpp.rs.
        let variables = [
            preload,
            ("KERNPACK_TEST_INSIDE_HOST", OsStr::new("1")),
            ("KERNPACK_TEST_CPP_LIBRARY", library.as_os_str()),
        ];
        let guest = machine::guest(programs);
        let printed = stdout(machine::run(guest, &variables).args(["--exact", &format!("cpp_modules::{test}")]));
        assert!(printed.contains("1 passed"), "{printed}");
    };
    check("with_our_library", &programs.join("libtvm_ffi.so"));
    if let Some(stock) = machine::stock_library() {
        check("with_the_stock_library", &stock);
    }
}

/// Tests of the runtime: functions, objects of all kinds, walks and comparisons, devices, modules.
#[test]
fn tests_of_the_runtime_pass() {
    let Some(programs) = machine::programs() else { return };
    let variables = [("KERNPACK_CHAIN_LENGTH", OsStr::new("2000"))];
    let mut guest = machine::run(machine::guest(programs), &variables);
    // They start other programs (a compiler, themselves), which the emulator runs on this machine.
    for test in [
        "cpp_modules::",
        "module_lookup::a_later_lookup",
        "module_lookup::a_long_chain",
        "module_lookup::a_wide_tree",
        "structural::under_the_stock_library",
    ] {
        guest.args(["--skip", test]);
    }
    let printed = stdout(&mut guest);
    let passed: u32 = printed
        .lines()
        .find_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{printed}"));
    assert!(passed >= 100, "{printed}");
}

/// A module whose function returns its payload's length.
struct Length(Vec<u8>);

impl ModuleImpl for Length {
    fn kind(&self) -> &str {
        "export.length"
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE
    }

    fn find_function(&self, _name: &str) -> Result<Option<Function>> {
        Ok(None)
    }

    fn save_to_bytes(&self) -> Result<Bytes> {
        Ok(Bytes::from(self.0.clone()))
    }
}

const FAR_IR: &str = "define i32 @__tvm_ffi_far(ptr %self, ptr %args, i32 %n, ptr %result) {\n  store i64 1, ptr %result\n  \
                      %value = getelementptr i64, ptr %result, i64 1\n  store i64 64, ptr %value\n  ret i32 0\n}\n";

const FAR_C: &str = "struct any { int type_index, padding; long long value; };\n\
                     int __tvm_ffi_far(void* self, const struct any* args, int n, struct any* result) {\n\
                     (void)self; (void)args; (void)n;\n  result->type_index = 1; result->padding = 0; result->value = 64;\n\
                     return 0;\n}\n";

#[test]
fn every_packer_writes_for_the_target() {
    let Some(programs) = machine::programs() else { return };
    let folder = headers::scratch_dir("aarch64_packers");
    let options = [
        ("default", ExportOptions::new()),
        ("c", ExportOptions::new().packer(CPacker)),
        ("assembly", ExportOptions::new().packer(AssemblyPacker)),
        ("object", ExportOptions::new().packer(ObjectPacker)),
        ("llvm", ExportOptions::new().packer(LlvmPacker)),
    ];
    let mut libraries: Vec<PathBuf> = Vec::new();
    let mut expected = String::new();
    for (name, options) in options {
        let root = match name {
            "c" => Module::c_source(FAR_C, "c", &["far"]),
            _ => llvm_module_for(FAR_IR, TARGET).unwrap(),
        };
        root.import(&Module::new(Length(vec![7; 100_000]))).unwrap();
        let library = folder.join(format!("{name}.so"));
        root.export_library(&library, &options.target(TARGET)).unwrap();
        assert!(about("readelf", &["-h"], &library).contains("Machine:                           AArch64"), "{name}");
        libraries.push(library);
        expected.push_str(&format!("{name}.so: far 64, length 100000\n"));
    }
    let printed = stdout(machine::run(programs.join("aarch64-host"), &[]).arg("exported").args(&libraries));
    assert_eq!(printed, expected);
}
