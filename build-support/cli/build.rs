//! Exports the C functions of the TVM FFI, which compiled libraries call by name: with `--load`
//! this program is their host.

fn main() {
    kernpack_build::export_abi();
}
