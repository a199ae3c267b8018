//! Programs that export the C functions for the libraries that they load.

use kernpack::sys::abi::ApiTable;

use crate::package::Package;

/// A package with a library, and a program that is set up as `host()` requires.
fn package(name: &str) -> Package {
    Package::new(name, "")
        .file(
            "build.rs",
            "fn main() -> kernpack_build::Result<()> {\n    kernpack_build::export_abi();\n    kernpack_build::Library::new().build()\n}\n",
        )
        .file(
            "src/main.rs",
            "fn main() {\n    println!(\"{:?}\", kernpack::sys::provider::origin());\n}\n",
        )
        .file("tests/nothing.rs", "#[test]\nfn nothing() {}\n")
}

fn check(package: &Package, profile: &str) {
    let program = package.program(profile);
    let expected: Vec<&str> = {
        let mut names = ApiTable::NAMES.to_vec();
        names.extend(["TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace"]);
        names.extend(["TVMBackendParallelLaunch", "TVMBackendParallelBarrier"]);
        names.sort_unstable();
        names
    };
    assert_eq!(program.exported("TVM"), expected);
    let exported = ["__kernpack_exported_api_v1", "__kernpack_exported_functions_v1"];
    assert_eq!(program.exported("__kernpack_exported"), exported);
    assert_eq!(program.shared_object_name().as_deref(), Some("libtvm_ffi.so"));
    let library = package.library(profile);
    assert!(library.exported("TVM").is_empty() && library.exported("__kernpack_exported").is_empty());
    assert_eq!(library.shared_object_name(), None);
}

#[test]
fn a_program_exports_the_functions_and_its_library_does_not() {
    let package = package("host-program");
    // The program does not mistake its own functions for those of a libtvm_ffi.
    assert_eq!(package.run(&[]), "Embedded\n");
    check(&package, "debug");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn gnu_ld_links_it_too() {
    let package = package("host-program-gnu");
    package.build();
    // Only the program: with RUSTFLAGS, the whole runtime would be rebuilt.
    package.build_with(&["rustc", "--bin", "host-program-gnu", "--", "-Clinker-features=-lld"], &[]);
    check(&package, "debug");
}
