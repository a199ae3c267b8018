//! A server of libraries of packed functions, as a single program for a board. `--help` lists its
//! options.

use std::process::ExitCode;

fn main() -> ExitCode {
    kernpack_rpc::program::main("kernpack-rpc-server")
}
