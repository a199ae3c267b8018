use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::c_library::{C_LIBRARIES, CLibrary};
use crate::image::{Image, Place};

/// The argument with which a program only reports that it starts. The same as in
/// `kernpack_rpc::run_session_if_asked`.
const PROBE: &str = "--kernpack-rpc-probe";

/// Replaces this process with the server, as a program of the first C library for which the system
/// can start it, with these arguments (the first is this program's own name). Returns only on
/// failure, with the reason.
pub(crate) fn start(server: &[u8], arguments: &[OsString]) -> String {
    let emulator = emulator(arguments);
    let mut reasons = String::new();
    for library in C_LIBRARIES {
        let mut program = server.to_vec();
        library.adapt(&mut program);
        let reason = match try_start(&program, library, &emulator, arguments) {
            Ok(never) => match never {},
            Err(reason) => reason,
        };
        reasons += &format!("  with {}: {reason}\n", library.name);
    }
    let needs = C_LIBRARIES.map(|library| library.name).join(", or ");
    format!("this system cannot start it. It is for {} and needs {needs}.\n{reasons}", std::env::consts::ARCH)
}

/// A type without values: a program that was started successfully does not return.
enum Never {}

fn try_start(bytes: &[u8], library: CLibrary, emulator: &[OsString], arguments: &[OsString]) -> Result<Never, String> {
    let mut reason = String::new();
    for place in [Place::Memory, Place::File] {
        let image = match Image::new(bytes, place) {
            Ok(image) => image,
            Err(problem) => {
                reason = format!("it cannot be unpacked: {problem}");
                continue;
            }
        };
        let mut words = emulator.iter().cloned().chain([image.path()]);
        let first = words.next().unwrap_or_default();
        let command = || {
            let mut command = Command::new(&first);
            command.args(words.clone());
            command
        };
        match probe(command(), library, emulator) {
            Ok(()) => {
                let mut command = command();
                if let ([], [name, ..]) = (emulator, arguments) {
                    command.arg0(name);
                }
                let problem = command.args(arguments.get(1..).unwrap_or_default()).exec();
                return Err(problem.to_string());
            }
            Err((problem, may_start_elsewhere)) => {
                reason = problem;
                if !may_start_elsewhere {
                    break;
                }
            }
        }
    }
    Err(reason)
}

/// Checks that the system can start the program. The error has the reason, and is true if the
/// program may still start from another place.
fn probe(mut command: Command, library: CLibrary, emulator: &[OsString]) -> Result<(), (String, bool)> {
    match command.arg(PROBE).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            let how = output.status;
            Err((if said.is_empty() { format!("it ended with {how}") } else { said.to_owned() }, false))
        }
        Err(problem) => {
            Err((not_started(&problem, library, emulator), problem.kind() == io::ErrorKind::PermissionDenied))
        }
    }
}

fn not_started(problem: &io::Error, library: CLibrary, emulator: &[OsString]) -> String {
    match (problem.raw_os_error(), emulator) {
        (_, [first, ..]) => format!("{} cannot be started: {problem}", first.display()),
        (Some(libc::ENOENT), []) if !Path::new(library.loader).exists() => {
            format!("there is no {}, which that C library has", library.loader)
        }
        (Some(libc::ENOEXEC), []) => format!(
            "the system does not start programs for {arch}; under an emulator of single programs say which: --emulator \"qemu-{arch}\"",
            arch = std::env::consts::ARCH
        ),
        (Some(libc::EACCES | libc::EPERM), []) => format!(
            "{problem}: the system starts no programs from memory, nor from {}; set TMPDIR to a folder that allows it",
            std::env::temp_dir().display()
        ),
        _ => problem.to_string(),
    }
}

/// The words of the option `--emulator`, parsed as the server itself does.
fn emulator(arguments: &[OsString]) -> Vec<OsString> {
    let mut arguments = arguments.iter().skip(1);
    let mut value = None;
    while let Some(argument) = arguments.next() {
        match argument.as_bytes().strip_prefix(b"--emulator") {
            Some(b"") => value = arguments.next().map(|value| value.as_bytes()),
            Some(rest) => value = rest.strip_prefix(b"=").or(value),
            None => {}
        }
    }
    let words = value.unwrap_or_default().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulators() {
        for (line, words) in [
            (&["server", "--port", "0"][..], &[][..]),
            (&["server", "--emulator", "qemu-aarch64 -L  /usr/x"], &["qemu-aarch64", "-L", "/usr/x"]),
            (&["server", "--port", "0", "--emulator=qemu-aarch64"], &["qemu-aarch64"]),
            (&["server", "--emulator"], &[]),
            (&["--emulator", "a"], &[]),
        ] {
            let line: Vec<OsString> = line.iter().map(OsString::from).collect();
            assert_eq!(emulator(&line), words, "{line:?}");
        }
    }

    #[test]
    fn what_does_not_start_says_why() {
        let arguments = ["server".into()];
        let needs =
            format!("It is for {} and needs glibc 2.17 or newer, or musl 1.2 or newer.\n", std::env::consts::ARCH);
        for (program, part) in [
            (&b"\x7fELF, but no more"[..], "the system does not start programs for"),
            (b"#!/bin/sh\necho too old >&2\nexit 3\n", "  with glibc 2.17 or newer: too old\n"),
            (b"#!/bin/sh\nexit 3\n", "  with musl 1.2 or newer: it ended with exit status: 3\n"),
        ] {
            let text = start(program, &arguments);
            assert!(text.contains(&needs) && text.contains(part), "{text}");
        }
        let gone = CLibrary { name: "a test", loader: "/lib/ld-test.so.1" };
        let Err(reason) = try_start(b"#!/no/such/interpreter\n", gone, &[], &arguments);
        assert_eq!(reason, "there is no /lib/ld-test.so.1, which that C library has");
        let emulated = ["server".into(), "--emulator=/no/such/emulator -x".into()];
        assert!(start(b"", &emulated).contains("/no/such/emulator cannot be started: No such file"));
    }

    #[test]
    fn images_start_from_both_places() {
        for place in [Place::Memory, Place::File] {
            let image = Image::new(&std::fs::read("/bin/true").unwrap(), place).unwrap();
            assert!(Command::new(image.path()).status().unwrap().success());
        }
    }
}
