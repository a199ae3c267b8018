//! Structural visit and mutate between our `libtvm_ffi.so` and C++ code that is compiled with the
//! headers of the wheel.

use kernpack_tests::{headers, library};
use std::process::Command;

#[test]
fn visitors_mutators_and_hooks_cross_the_border() {
    let Some(include_dirs) = headers::include_dirs_or_skip() else { return };
    let program = headers::scratch_dir("traversal").join("traversal");
    library::compile_cpp("traversal.cc", &program, &include_dirs, &[]);
    let output = headers::run(&mut Command::new(&program));
    assert_eq!(output.stdout, b"traversal: all checks passed\n");
}
