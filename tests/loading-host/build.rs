//! Makes the program a host for every library.

fn main() {
    kernpack_build::export_abi();
}
