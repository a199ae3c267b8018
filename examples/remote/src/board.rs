use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Failure;

/// The emulator for 64-bit ARM programs, with the folder of their C library: the Debian and Ubuntu
/// packages `qemu-user` and `libc6-arm64-cross`.
const EMULATOR: [&str; 3] = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];

/// A server on another machine, or on one that qemu emulates.
pub(crate) struct Board {
    address: String,
    server: Option<Child>,
}

impl Board {
    /// A server that is already running.
    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.to_owned(), server: None }
    }

    /// Starts the server under qemu, on a free port. It ends when this value is dropped.
    pub(crate) fn under_qemu(server: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(EMULATOR[0]);
        command.args(&EMULATOR[1..]).arg(server).args(["--no-token", "--port", "0"]);
        // Each session has a process, which qemu runs, too.
        command.args(["--emulator", &EMULATOR.join(" ")]);
        command.stdout(Stdio::piped()).env_remove("LD_LIBRARY_PATH");
        let mut server = command
            .spawn()
            .map_err(|error| format!("cannot start {} ({error}): apt-get install qemu-user", EMULATOR[0]))?;
        let mut line = String::new();
        let read = server.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
        // From here on the server ends when this value is dropped.
        let mut board = Self { address: String::new(), server: Some(server) };
        match (read, line.trim().strip_prefix("listening on ")) {
            (Some(Ok(_)), Some(address)) => board.address = address.to_owned(),
            _ => return Err("the server did not start under qemu".into()),
        }
        println!("kernpack-rpc-server under {}: {}", EMULATOR[0], board.address);
        Ok(board)
    }

    /// Returns `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // The server may have ended already.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
