//! The duties of a loader towards compiled libraries, with a library as Apache TVM's compiler makes
//! them (`c/generated.c`): in a Rust program, in a C program with `libtvm_ffi.so` of ours, and in
//! Python with the stock library (`python/test_generated.py`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use kernpack::Module;
use kernpack_tests::beside::{cargo_build_programs, test_again};
use kernpack_tests::stock::stock_library;
use kernpack_tests::{headers, library};

/// Builds packages of the workspace with the profile of the tests, and returns the folder of the
/// results.
fn build() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let (mut cargo, folder) = cargo_build_programs(&["kernpack-loading-host"]);
        headers::run(&mut cargo);
        library::library();
        folder
    })
}

/// Compiles a file of `c/`.
fn compile(source: &str, output: &Path, options: &[&str]) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = tests.join("../build-support/include");
    headers::compile("cc", &tests.join("c").join(source), output, &[include], options);
}

/// The libraries: one that does not link anything, one that was linked to a `libtvm_ffi.so` that no
/// longer exists, and one that calls all functions by name.
struct Libraries {
    plain: PathBuf,
    linked: PathBuf,
    by_name: PathBuf,
}

fn libraries() -> &'static Libraries {
    static LIBRARIES: OnceLock<Libraries> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let folder = headers::scratch_dir("context_symbols");
        let libraries = Libraries {
            plain: folder.join("generated.so"),
            linked: folder.join("linked.so"),
            by_name: folder.join("by_name.so"),
        };
        compile("generated.c", &libraries.plain, &["-std=gnu11", "-shared", "-fPIC", "-O1"]);
        compile("generated.c", &libraries.by_name, &["-std=gnu11", "-shared", "-fPIC", "-O1", "-DBY_NAME"]);
        let stand_in = folder.join("libtvm_ffi.so");
        compile("empty.c", &stand_in, &["-shared", "-fPIC", "-Wl,-soname,libtvm_ffi.so"]);
        let search = format!("-L{}", folder.display());
        let options = ["-std=gnu11", "-shared", "-fPIC", "-O1", "-Wl,--no-as-needed", &search, "-l:libtvm_ffi.so"];
        compile("generated.c", &libraries.linked, &options);
        std::fs::remove_file(stand_in).unwrap();
        libraries
    })
}

/// Runs the Rust program; it prints a line for each library.
fn run_host(variables: &[(&str, &str)], arguments: &[&str]) {
    let mut host = Command::new(build().join("kernpack-loading-host"));
    // cargo's value contains folders with a libtvm_ffi.so.
    host.env_remove("LD_LIBRARY_PATH").envs(variables.iter().copied()).args(arguments);
    let output = headers::run(&mut host);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("all checks passed").count(), arguments.len() - 1, "{text}");
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_rust_program_loads_what_calls_functions_by_name() {
    let Libraries { plain, linked, by_name } = libraries();
    run_host(&[], &["Embedded", path(plain), path(linked), path(by_name)]);
    for threads in ["1", "2", "7"] {
        run_host(&[("TVM_NUM_THREADS", threads)], &["Embedded", path(linked)]);
    }
    // Our own libraries join it, whether they are loaded first or last.
    let ours = std::env::current_exe().unwrap().with_file_name("libconversions.so");
    run_host(&[], &["Embedded", path(&ours), path(plain)]);
    run_host(&[], &["Embedded", path(plain), path(&ours)]);
}

#[test]
fn a_rust_program_passes_calls_on_to_a_library_that_is_there_before() {
    let Libraries { plain, linked, .. } = libraries();
    let ours = std::env::current_exe().unwrap().with_file_name("libconversions.so");
    let libraries = [path(plain), path(&ours), path(linked)];
    run_host(&[("LD_PRELOAD", path(&build().join("libtvm_ffi.so")))], &[&["Process"], &libraries[..]].concat());
    let Some(stock) = stock_library() else { return };
    run_host(&[("LD_PRELOAD", path(&stock))], &[&["Process"], &libraries[..]].concat());
}

#[test]
fn a_rust_program_refuses_a_library_that_comes_too_late() {
    let late = build().join("libtvm_ffi.so");
    let mut host = Command::new(build().join("kernpack-loading-host"));
    let output =
        host.env_remove("LD_LIBRARY_PATH").args(["Embedded", path(&libraries().plain), path(&late)]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&format!("cannot load {}: this program stands in for it", late.display())), "{text}");
}

#[test]
fn the_program_exports_the_functions_and_our_libraries_do_not() {
    let exported = |file: &Path| {
        let output = headers::run(Command::new("nm").args(["-D", "--defined-only"]).arg(file));
        let symbols = String::from_utf8(output.stdout).unwrap();
        symbols.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut of_program = exported(&build().join("kernpack-loading-host"));
    of_program.retain(|name| name.starts_with("TVM"));
    of_program.sort();
    let mut expected = kernpack::sys::abi::ApiTable::NAMES.to_vec();
    expected.extend(["TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace"]);
    expected.extend(["TVMBackendParallelLaunch", "TVMBackendParallelBarrier"]);
    expected.sort_unstable();
    assert_eq!(of_program, expected);
    let of_library = exported(&std::env::current_exe().unwrap().with_file_name("libconversions.so"));
    assert!(of_library.iter().any(|name| name == "__tvm_ffi_add"));
    let foreign = |name: &&String| name.starts_with("TVM") || name.contains("kernpack_host");
    assert_eq!(of_library.iter().find(foreign), None);
}

#[test]
fn a_c_program_with_our_library() {
    let program = headers::scratch_dir("context_symbols_c").join("host");
    compile("generated_host.c", &program, &["-std=gnu11", "-O1", "-ldl"]);
    for library in [&libraries().plain, &libraries().linked] {
        let output = headers::run(Command::new(&program).arg(build().join("libtvm_ffi.so")).arg(library));
        assert_eq!(output.stdout, b"all checks passed\n");
    }
}

/// This test is a Rust program, too, but its build script does not call
/// `kernpack_build::export_abi()`. It runs itself again without the library folders that cargo
/// sets.
#[test]
fn a_program_that_is_no_host_says_what_to_do() {
    const LIBRARIES: &str = "KERNPACK_TEST_LIBRARIES";
    let Some(inside) = std::env::var_os(LIBRARIES) else {
        let Libraries { plain, linked, .. } = libraries();
        let mut test = test_again(module_path!(), "a_program_that_is_no_host_says_what_to_do");
        test.env_remove("LD_LIBRARY_PATH");
        test.env(LIBRARIES, std::env::join_paths([plain, linked]).unwrap());
        let output = headers::run(&mut test);
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    };
    let problems = [
        "undefined symbol: TVMFFIErrorSetRaisedFromCStrParts",
        "cannot open shared object file: No such file or directory",
    ];
    for (library, problem) in std::env::split_paths(&inside).zip(problems) {
        let message = Module::load(&library).unwrap_err().to_string();
        assert!(message.starts_with(&format!("RuntimeError: cannot load {}: ", library.display())), "{message}");
        let advice = "; a Rust program offers these functions when its build.rs calls kernpack_build::export_abi(); elsewhere, load \
                      libtvm_ffi.so first, with RTLD_GLOBAL";
        assert!(message.ends_with(&format!("{problem}{advice}")), "{message}");
    }
}
