//! Sets the path where the library finds libLLVM when a program without Rust loads it: the
//! toolchain that compiled it.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").expect("cargo says which rustc it uses");
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().expect("rustc runs");
    let sysroot = String::from_utf8(output.stdout).expect("the sysroot is a path in UTF-8");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-rpath,{}", Path::new(sysroot.trim()).join("lib").display());
}
