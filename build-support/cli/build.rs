//! Compiled libraries call the C functions of the TVM FFI by name: with `--load` this program is their host.

fn main() {
    kernpack_build::export_abi();
}
