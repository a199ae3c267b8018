//! The C and C++ compilers and the headers of the PyPI wheel, for tests that compare with them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The include folders of the headers: `KERNPACK_TVM_FFI_INCLUDE`, else the folders that the
/// `tvm_ffi` package of `KERNPACK_PYTHON` or of `target/venv` reports.
///
/// # Errors
/// A line with the reason if the headers are missing.
pub fn include_dirs() -> Result<Vec<PathBuf>, String> {
    if let Some(dir) = std::env::var_os("KERNPACK_TVM_FFI_INCLUDE") {
        let dir = PathBuf::from(dir);
        return if dir.join("tvm/ffi/c_api.h").is_file() {
            Ok(vec![dir])
        } else {
            Err(format!("KERNPACK_TVM_FFI_INCLUDE={} has no tvm/ffi/c_api.h", dir.display()))
        };
    }
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/venv/bin/python");
    let python = std::env::var_os("KERNPACK_PYTHON").map_or(venv, PathBuf::from);
    let script = "import tvm_ffi.libinfo as l; print(l.find_include_path()); print(l.find_dlpack_include_path())";
    match Command::new(&python).args(["-c", script]).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect())
        }
        Ok(_) => Err(format!("{} has no tvm_ffi package", python.display())),
        Err(_) => Err(format!(
            "no headers: set KERNPACK_TVM_FFI_INCLUDE, or KERNPACK_PYTHON to a Python with apache-tvm-ffi (tried {})",
            python.display()
        )),
    }
}

/// The headers; without them, prints a line with the reason for skipping the test, or panics on CI.
pub fn include_dirs_or_skip() -> Option<Vec<PathBuf>> {
    include_dirs().map_err(crate::skip::skip).ok()
}

/// Runs a command and asserts that it succeeds; prints its output if it fails.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed with {}:\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Compiles a C or C++ source into `output`, with the headers.
pub fn compile(compiler: &str, source: &Path, output: &Path, include_dirs: &[PathBuf], options: &[&str]) {
    let mut command = Command::new(compiler);
    for dir in include_dirs {
        // As system headers, so that the compiler does not report their warnings.
        command.arg("-isystem").arg(dir);
    }
    run(command.arg("-Wall").arg("-Wextra").arg("-Werror").arg(source).arg("-o").arg(output).args(options));
}

/// An empty folder for the files that a test builds.
pub fn scratch_dir(test: &str) -> PathBuf {
    let dir = crate::beside::scratch().join(test);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
