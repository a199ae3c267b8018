//! A server of libraries of packed functions, as one program for a board. `--help` shows its options.

use std::process::ExitCode;

fn main() -> ExitCode {
    kernpack_rpc::program::main("kernpack-rpc-server")
}
