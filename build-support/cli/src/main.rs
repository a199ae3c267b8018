//! `cargo kernpack`: see the library of the same crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    kernpack_cli::run()
}
