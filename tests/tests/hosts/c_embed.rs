//! The C host in `examples/c-host`: compiled with our header only, linked with our `libtvm_ffi.so`,
//! and nothing else. `cargo xtask valgrind` checks it for leaks.

use std::path::{Path, PathBuf};
use std::process::Command;

use kernpack_tests::skip::skip;
use kernpack_tests::{headers, library};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The example's library, which `cargo xtask` builds.
fn imagekit() -> Option<PathBuf> {
    let path = std::env::var_os("IMAGEKIT_LIBRARY").map(PathBuf::from);
    if path.is_none() {
        skip("IMAGEKIT_LIBRARY does not say where libimagekit.so is (cargo xtask test does)");
    }
    path
}

/// Compiles the host as in its README.
fn host() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-host");
    let folder = library::library().parent().unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    cc.arg(root().join("runtime/capi/include")).arg(root().join("examples/c-host/host.c"));
    cc.arg("-L").arg(folder).args(["-ltvm_ffi", "-lm"]).arg(format!("-Wl,-rpath,{}", folder.display()));
    headers::run(cc.arg("-o").arg(&program));
    program
}

#[test]
fn the_c_host_does_all_that_it_shows() {
    let Some(imagekit) = imagekit() else { return };
    let host = host();
    let output = headers::run(Command::new(&host).arg(&imagekit));
    let printed = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "to_gray (Rust): 48 x 64, pixel (7, 9) is 71.600",
        "map_rows (Rust): 48 calls of a C function",
        "an object of type imagekit.Histogram: total 3072",
        "JSON: {\"kernel\":\"blur\",\"radius\":2}",
        "every check holds",
    ] {
        assert!(printed.contains(expected), "{expected}\n{printed}");
    }
    // It contains nothing of Apache TVM: the only libtvm_ffi is ours.
    let maps = headers::run(Command::new("ldd").arg(&host));
    let maps = String::from_utf8(maps.stdout).unwrap();
    let line = maps.lines().find(|line| line.contains("libtvm_ffi.so")).unwrap();
    assert!(line.contains(library::library().parent().unwrap().to_str().unwrap()), "{line}");

    let missing = Command::new(&host).arg("/nowhere/libimagekit.so").output().unwrap();
    let message = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!missing.status.success() && message.contains("/nowhere/libimagekit.so"), "{message}");
}
