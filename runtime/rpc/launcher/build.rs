//! Compresses the server that the launcher contains. `cargo xtask rpc-server` sets its path;
//! without a path, the launcher contains none.

#[path = "src/branches.rs"]
mod branches;

use std::path::PathBuf;
use std::{env, fs};

const VARIABLE: &str = "KERNPACK_RPC_SERVER";

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/branches.rs");
    let arch = env::var("CARGO_CFG_TARGET_ARCH").map_err(|problem| format!("CARGO_CFG_TARGET_ARCH: {problem}"))?;
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let compressed = match env::var_os(VARIABLE).map(PathBuf::from) {
        None => Vec::new(),
        Some(path) => {
            println!("cargo::rerun-if-changed={}", path.display());
            let mut program =
                fs::read(&path).map_err(|problem| format!("cannot read {}: {problem}", path.display()))?;
            branches::shift(&mut program, &arch, 1);
            miniz_oxide::deflate::compress_to_vec(&program, 10)
        }
    };
    let path = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is for cargo to set")?).join("server.deflate");
    fs::write(&path, compressed).map_err(|problem| format!("cannot write {}: {problem}", path.display()))
}
