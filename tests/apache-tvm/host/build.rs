//! Makes the programs hosts for every library, and links the static library that a test names into
//! one of them.

fn main() {
    kernpack_build::export_abi();
    println!("cargo::rerun-if-env-changed=KERNPACK_TEST_SYSTEM_LIBRARY");
    if let Ok(archive) = std::env::var("KERNPACK_TEST_SYSTEM_LIBRARY") {
        println!("cargo::rerun-if-changed={archive}");
        // No code refers to the library: its constructor registers its contents.
        for argument in ["-Wl,--whole-archive", &archive, "-Wl,--no-whole-archive"] {
            println!("cargo::rustc-link-arg-bin=system={argument}");
        }
    }
}
