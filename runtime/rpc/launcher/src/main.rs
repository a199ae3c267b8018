//! `kernpack-rpc-server` as one file for a board.
//!
//! The server loads libraries, so it must be a program of the board's own C library; a static program cannot load any. This one is static,
//! starts everywhere, and carries the server, compressed. It unpacks the server into memory, tries whether the board can start it, and becomes
//! that program. Where it does not start, it says what the board lacks.

mod branches;
mod c_library;
mod carried;
mod image;
mod start;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

const NAME: &str = "kernpack-rpc-server";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let problem = match carried::server() {
        Ok(Some(server)) => start::start(&server, &arguments),
        Ok(None) => "this launcher carries no server: build it with `cargo xtask rpc-server`\n".to_owned(),
        Err(problem) => format!("{problem}\n"),
    };
    // An output that is closed or full changes nothing.
    let _ = write!(std::io::stderr(), "{NAME}: {problem}");
    ExitCode::FAILURE
}
