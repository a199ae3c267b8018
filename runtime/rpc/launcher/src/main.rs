//! `kernpack-rpc-server` as one file for a board.
//!
//! The server loads libraries, so it must be linked to the board's own C library; a static program
//! cannot load libraries. The launcher is static, starts on every board, and contains the
//! compressed server. It unpacks the server into memory, checks that the board can start it, and
//! replaces itself with that program. If the server does not start, the launcher reports what the
//! board lacks.

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
    // Errors of a closed or full output are ignored.
    let _ = write!(std::io::stderr(), "{NAME}: {problem}");
    ExitCode::FAILURE
}
