//! Changes that run the build script again, and changes that do not.

use crate::package::{Package, c_kernel, ir_kernel};

fn package(name: &str) -> Package {
    Package::new(name, ".c([\"kernels/one.c\"]).llvm_ir([\"kernels/two.ll\"]).include(\"kernels/include files\")")
        .file("kernels/one.c", &c_kernel("one", "VALUE").replacen('\n', "\n#include \"outer.h\"\n", 1))
        .file("kernels/include files/outer.h", "#include \"inner value.h\"\n")
        .file("kernels/include files/inner value.h", "#define VALUE 1\n")
        .file("kernels/two.ll", &ir_kernel("two"))
        .file(
            "src/main.rs",
            &format!(
                "fn main() {{\n    println!(\"{{}}\", {}::kernels::one.call_as::<i64>(()).unwrap());\n}}\n",
                name.replace('-', "_")
            ),
        )
}

#[test]
fn a_build_without_changes_runs_nothing() {
    let package = package("no-change");
    let first = package.cargo(&["build", "-v"], &[]);
    assert!(first.success && first.did_work(), "{}", first.stderr);
    for _ in 0..2 {
        let again = package.cargo(&["build", "-v"], &[]);
        assert!(again.success && !again.did_work(), "{}", again.stderr);
    }
    // A file that no kernel includes does not run the build script again.
    package.write("kernels/include files/other.h", "");
    assert!(!package.cargo(&["build", "-v"], &[]).did_work());
}

#[test]
fn a_header_of_a_header_rebuilds() {
    let package = package("header-change");
    assert_eq!(package.run(&[]), "1\n");
    package.write("kernels/include files/inner value.h", "#define VALUE 2\n");
    assert_eq!(package.run(&[]), "2\n");
    package.write("kernels/one.c", &c_kernel("one", "3"));
    assert_eq!(package.run(&[]), "3\n");
}

#[test]
fn ir_and_variables_rebuild() {
    let package = package("input-change");
    package.build();
    package.write("kernels/two.ll", &ir_kernel("second"));
    assert_eq!(package.build().packed_functions(), ["one", "second"]);
    for variables in [[("CFLAGS", "-DX=1")], [("KERNPACK_CUDA", "off")]] {
        let changed = package.cargo(&["build", "-v"], &variables);
        assert!(changed.success && changed.did_work(), "{variables:?}: {}", changed.stderr);
        let again = package.cargo(&["build", "-v"], &variables);
        assert!(again.success && !again.did_work(), "{variables:?}: {}", again.stderr);
    }
}

#[test]
fn a_header_that_the_build_script_writes_does_not_rebuild_every_time() {
    let package = Package::new("made-header", "").file("k.c", &c_kernel("made", "VALUE").replacen('\n', "\n#include \"made.h\"\n", 1)).file(
        "build.rs",
        "fn main() -> kernpack_build::Result<()> {\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    std::fs::write(format!(\"{out}/made.h\"), \"#define VALUE 1\").unwrap();\n    kernpack_build::Library::new().c([\"k.c\"]).include(out).build()\n}\n",
    );
    package.build();
    let again = package.cargo(&["build", "-v"], &[]);
    assert!(again.success && !again.did_work(), "{}", again.stderr);
}
