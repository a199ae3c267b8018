//! `runtime/capi/include/kernpack/c_api.h` is generated from `kernpack::sys::abi`; this test
//! generates it again and compares. After a change:
//! `UPDATE_EXPECT=1 cargo test -p kernpack-tests --test abi c_header`.
//!
//! `headers.rs` checks that the header agrees with the stock headers: its C program is compiled
//! with both. Here a C compiler and a C++ compiler read it with all warnings enabled.

mod generate;

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_header_is_up_to_date() {
    let path = root().join("runtime/capi/include/kernpack/c_api.h");
    let expected = generate::header(&root());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &expected).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let line = there.lines().zip(expected.lines()).position(|(there, expected)| there != expected);
    assert!(
        there == expected,
        "{} is out of date (line {}); run UPDATE_EXPECT=1 cargo test -p kernpack-tests --test abi c_header",
        path.display(),
        line.unwrap_or(there.lines().count().min(expected.lines().count())) + 1,
    );
}

#[test]
fn compilers_read_it_without_a_warning() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_header");
    std::fs::create_dir_all(&folder).unwrap();
    for (compiler, name, options) in [
        ("cc", "alone.c", &["-std=c11", "-Wpedantic"][..]),
        ("cc", "alone.c", &["-std=gnu17"]),
        ("c++", "alone.cc", &["-std=c++17"]),
    ] {
        let check = |includes: [&str; 2]| {
            let source = folder.join(name);
            let [first, second] = includes;
            let text = format!(
                "#include <{first}>\n#include <{second}>\nint main(void) {{\n  TVMFFIAny any;\n  any.v_int64 = kTVMFFIInt;\n  \
                 return TVMFFIObjectDecRef((void*)(intptr_t)any.v_int64);\n}}\n"
            );
            std::fs::write(&source, text).unwrap();
            let mut command = Command::new(compiler);
            command.args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]).args(options).arg(&source);
            for folder in ["runtime/capi/include", "build-support/include"] {
                command.arg("-I").arg(root().join(folder));
            }
            let output = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
            (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        // Together with the header of kernels, which declares some of the same types.
        for includes in [["kernpack/c_api.h", "stdio.h"], ["kernpack/c_api.h", "kernpack/kernel.h"]] {
            let (good, messages) = check(includes);
            assert!(good, "{compiler} {options:?} {includes:?}\n{messages}");
        }
        let (good, messages) = check(["kernpack/kernel.h", "kernpack/c_api.h"]);
        assert!(!good && messages.contains("include <kernpack/c_api.h> before <kernpack/kernel.h>"), "{messages}");
    }
}
