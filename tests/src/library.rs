//! Our `libtvm_ffi.so`, and C++ code that is compiled with the headers of the wheel and linked with
//! it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::beside::cargo_build;
use crate::headers;

/// Builds the library with the profile of the tests, and returns its path.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let (mut cargo, folder) = cargo_build(&["kernpack-capi"]);
        headers::run(&mut cargo);
        folder.join("libtvm_ffi.so")
    })
}

/// A file of `tests/c`.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(name)
}

/// Compiles a C++ file of `tests/c` and links it with our library. At run time, `LD_LIBRARY_PATH`
/// can select another one.
pub fn compile_cpp(name: &str, output: &Path, include_dirs: &[PathBuf], more: &[&str]) {
    let dir = library().parent().unwrap().display();
    let (search, run_path) = (format!("-L{dir}"), format!("-Wl,-rpath,{dir}"));
    let mut options = vec!["-std=c++17", "-O1", &search, "-l:libtvm_ffi.so", &run_path];
    options.extend_from_slice(more);
    headers::compile("g++", &source(name), output, include_dirs, &options);
}
