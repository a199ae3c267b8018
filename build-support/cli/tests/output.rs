//! Commands whose output is closed, full, or not read: an error and an exit code, never a panic.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

// The build script makes every program of this crate a host, which contains this crate.
use kernpack as _;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("output-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a command with its standard output redirected, as a shell does.
fn run(redirect: &str, arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" kernpack \"$@\" {redirect}"), env!("CARGO_BIN_EXE_cargo-kernpack")]);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn outputs_that_take_nothing() {
    let folder = folder("nothing");
    for redirect in [">&-", ">/dev/full"] {
        for arguments in [
            &["--help"][..],
            &["wheel", "--help"],
            &["rpc", "--help"],
            &["rpc", "serve", "--help"],
            &["rpc", "serve", "--port", "0"],
            &["rpc", "serve", "--port", "0", "--no-token"],
            &["rpc", "tracker", "--port", "0"],
            &["rpc", "proxy", "--port", "0"],
            &["rpc", "keygen", "--folder", "keys"],
            &["doctor"],
            &["inspect", "/proc/self/exe"],
        ] {
            let output = run(redirect, arguments, &folder);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{arguments:?} {redirect}: {text}");
            assert!(text.contains("error: ") && !text.contains("panicked"), "{arguments:?} {redirect}: {text}");
            // Keys whose fingerprint was not printed are removed.
            assert!(!folder.join("keys").exists(), "{redirect}");
        }
        // There is no panic if the errors cannot be written either.
        let output = run(&format!("{redirect} 2{redirect}"), &["rpc", "keygen", "--folder", "keys"], &folder);
        assert_eq!(output.status.code(), Some(1), "{redirect}");
    }
    // An existing folder is kept, and so is a key in it.
    fs::create_dir(folder.join("keys")).unwrap();
    run(">/dev/full", &["rpc", "keygen", "--folder", "keys"], &folder);
    assert_eq!(fs::read_dir(folder.join("keys")).unwrap().count(), 0);
    fs::write(folder.join("keys/cert.pem"), "in use").unwrap();
    let output = run("", &["rpc", "keygen", "--folder", "keys"], &folder);
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write keys/cert.pem"), "{output:?}");
    assert_eq!(fs::read_dir(folder.join("keys")).unwrap().count(), 1, "no half of the files");
    assert_eq!(fs::read_to_string(folder.join("keys/cert.pem")).unwrap(), "in use");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn readers_that_have_gone() {
    let folder = folder("gone");
    for (arguments, code) in
        [(&["rpc", "keygen", "--folder", "keys"][..], 1), (&["rpc", "--help"], 0), (&["--help"], 0)]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kernpack"));
        command.arg("kernpack").args(arguments).current_dir(&folder).stderr(Stdio::piped());
        // The read end is closed before the command starts.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).spawn().unwrap().wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(!text.contains("panicked") && !folder.join("keys").exists(), "{arguments:?}: {text}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn words_that_are_not_text() {
    let folder = folder("words");
    let bad = || OsString::from_vec(b"a\xff".to_vec());
    let program = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kernpack"));
        command.arg("kernpack").current_dir(&folder);
        command
    };
    for words in [
        &["rpc", "keygen", "--folder"][..],
        &["rpc", "serve", "--token-file"],
        &["rpc", "serve", "--key"],
        &["rpc", "tracker", "--host"],
        &["rpc", "proxy", "--tls-key"],
        &["rpc", "query", "--tracker"],
        &["rpc", "runner"],
        &["wheel", "--name"],
        &["inspect"],
        &["inspect", "--load"],
        &["new"],
        &["doctor", "--target"],
        &["outputs", "--manifest-path"],
        &["model", "diff"],
        &[],
    ] {
        let output = program().args(words).arg(bad()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.starts_with("error: ") && !text.contains("panicked"), "{words:?}: {text}");
    }
    let output = program().args(["rpc", "serve", "--port", "0"]).env("KERNPACK_RPC_TOKEN", bad()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("KERNPACK_RPC_TOKEN is not UTF-8"), "{text}");
    fs::remove_dir_all(folder).unwrap();
}
