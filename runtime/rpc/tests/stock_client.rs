//! The client of Apache TVM with Kernpack's server, driven by `stock_client.py`. `cargo xtask rpc`
//! and `cargo xtask test` set `KERNPACK_APACHE_TVM` to a Python that has it, and
//! `CONVERSIONS_LIBRARY` to the library to upload; without them the test is skipped.

use std::process::Command;

use kernpack_skip::skip;

#[test]
fn stock_client() {
    let (Some(python), Some(library)) =
        (std::env::var_os("KERNPACK_APACHE_TVM"), std::env::var_os("CONVERSIONS_LIBRARY"))
    else {
        return skip("KERNPACK_APACHE_TVM and CONVERSIONS_LIBRARY name no Python with Apache TVM and no library");
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stock_client.py");
    let status = Command::new(python)
        .args([script, env!("CARGO_BIN_EXE_kernpack-rpc-server")])
        .arg(library)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // cargo's value has folders with another libtvm_ffi.so.
        .env_remove("LD_LIBRARY_PATH")
        .status()
        .expect("Python starts");
    assert!(status.success(), "{status}; the output above says why");
}
