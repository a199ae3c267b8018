//! `cargo kernpack rpc runner` with a server on this machine: on its own, and under cargo; and
//! `query`.

#[path = "../../../runtime/rpc/tests/ports/mod.rs"]
mod ports;
#[path = "rpc/query.rs"]
mod query;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

// The build script makes every program of this crate a host, which contains this crate.
use kernpack as _;

const TIME: Duration = Duration::from_secs(30);

fn rpc(command: &str) -> Command {
    let mut process = Command::new(env!("CARGO_BIN_EXE_cargo-kernpack"));
    process.args(["kernpack", "rpc", command]).env_remove("RUST_BACKTRACE");
    process
}

/// A server, with a folder for its sessions and one for the programs of a test.
struct Tested {
    server: Child,
    address: String,
    folder: PathBuf,
}

impl Tested {
    fn new(options: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rpc-runner-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(folder.join("sessions")).unwrap();
        fs::write(folder.join("token"), "a token of this test\n".replace(' ', "-")).unwrap();
        let mut server = rpc("serve");
        server
            .args(["--port", "0", "--folder"])
            .arg(folder.join("sessions"))
            .args(["--token-file"])
            .arg(folder.join("token"));
        let mut server = server.args(options).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { server, address, folder }
    }

    /// Writes a shell script as a program.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Returns the runner with options, to which the program is appended.
    fn runner(&self, options: &[&str]) -> Command {
        let mut runner = rpc("runner");
        runner.arg(&self.address).arg("--token-file").arg(self.folder.join("token")).args(options).arg("--");
        runner.stdin(Stdio::null());
        runner
    }

    fn run(&self, options: &[&str], text: &str, arguments: &[&str]) -> Output {
        self.runner(options).arg(self.script("program", text)).args(arguments).output().unwrap()
    }

    /// Waits until all sessions and these processes have ended.
    fn wait_until_clean(&self, processes: &[&str]) {
        let end = Instant::now() + TIME;
        let is_left = |process: &&&str| {
            let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            // A zombie has ended, but its parent has not waited for it yet.
            !state.is_empty() && !state.contains(") Z ")
        };
        while processes.iter().any(|process| is_left(&process))
            || fs::read_dir(self.folder.join("sessions")).unwrap().count() > 0
        {
            assert!(Instant::now() < end, "something is left of {processes:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tested {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[track_caller]
fn check(output: &Output, code: i32, out: &str, error: &str) {
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!((output.status.code(), texts[0].as_str()), (Some(code), out), "stderr: {}", texts[1]);
    if error.is_empty() {
        assert_eq!(texts[1], "");
    } else {
        assert!(texts[1].contains(error), "{}", texts[1]);
    }
}

#[test]
fn codes_streams_arguments_and_environment() {
    let tested = Tested::new(&["--allow-run"]);
    check(&tested.run(&[], "exit 0", &[]), 0, "", "");
    let text = "echo out; echo err >&2; printf '[%s]' \"$@\"; exit 7";
    check(&tested.run(&[], text, &["a b", "", "--", "--lib", "é"]), 7, "out\n[a b][][--][--lib][é]", "err\n");
    check(&tested.run(&[], "kill -SEGV $$", &[]), 139, "", "ended by signal 11 (SIGSEGV)");
    check(&tested.run(&["--env", "A=1=2", "--env", "EMPTY="], "echo $A${EMPTY-unset} $RUST_LOG", &[]), 0, "1=2\n", "");
    let script = tested.script("program", "echo $RUST_LOG; pwd; ls");
    let output = tested.runner(&[]).arg(script).env("RUST_LOG", "debug").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let [log, folder, files] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!((log, files), ("debug", "program"));
    assert!(folder.starts_with(tested.folder.join("sessions").to_str().unwrap()), "{folder}");
    let data = tested.folder.join("data.txt");
    fs::write(&data, "beside").unwrap();
    check(&tested.run(&["--lib", data.to_str().unwrap()], "cat data.txt", &[]), 0, "beside", "");
    let output = tested.run(&[], "head -c 3000000 /dev/zero", &[]);
    assert!(output.status.success() && output.stdout.len() == 3_000_000, "{}", output.stdout.len());
    // A background process of a program does not delay the end of the program, and ends with the
    // session.
    let output = tested.run(&[], "sleep 1000 & echo $!", &[]);
    assert!(output.status.success());
    tested.wait_until_clean(&[String::from_utf8(output.stdout).unwrap().trim()]);
}

#[test]
fn input_and_output_go_at_once() {
    let tested = Tested::new(&["--allow-run"]);
    let mut runner = tested.runner(&[]);
    let script = tested.script("program", "echo first; read line; echo \"got $line\"; cat; exit 3");
    let mut runner = runner.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(runner.stdout.take().unwrap());
    let mut input = runner.stdin.take().unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    input.write_all(b"a line\n").unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "got a line\n");
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7) as u8).collect();
    let sent = bytes.clone();
    let writer = thread::spawn(move || input.write_all(&sent).unwrap());
    let mut back = Vec::new();
    output.read_to_end(&mut back).unwrap();
    writer.join().unwrap();
    assert!(back == bytes, "{} bytes came back", back.len());
    assert_eq!(runner.wait().unwrap().code(), Some(3));
    // A program that does not read its input does not block.
    let mut runner = tested.runner(&[]);
    let script = tested.script("program", "exec <&-; sleep 0.2; exit 5");
    let mut runner = runner.arg(script).stdin(Stdio::piped()).spawn().unwrap();
    let _ = runner.stdin.take().unwrap().write_all(&vec![0; 300_000]);
    assert_eq!(runner.wait().unwrap().code(), Some(5));
    tested.wait_until_clean(&[]);
}

#[test]
fn refusals() {
    let tested = Tested::new(&[]);
    check(&tested.run(&[], "echo ran", &[]), 125, "", "start it with --token-file and --allow-run");
    let output = rpc("serve").args(["--port", "0", "--allow-run", "--no-token"]).output().unwrap();
    check(&output, 1, "", "--allow-run goes with --token-file");
    let tested = Tested::new(&["--allow-run"]);
    let script = tested.script("program", "echo ran");
    let output = rpc("runner").args([&tested.address, "--"]).arg(&script).output().unwrap();
    check(&output, 125, "", "closed the connection: it is not an RPC server, or wants a token");
    // A program for another machine: this program with another machine number in its header.
    let mut bytes = fs::read(env!("CARGO_BIN_EXE_cargo-kernpack")).unwrap();
    bytes.truncate(4096);
    bytes[18..20].copy_from_slice(&if cfg!(target_arch = "x86_64") { 183u16 } else { 62 }.to_le_bytes());
    let path = tested.folder.join("foreign");
    fs::write(&path, bytes).unwrap();
    let output = tested.runner(&[]).arg(&path).output().unwrap();
    let names = if cfg!(target_arch = "x86_64") { ["AArch64", "x86-64"] } else { ["x86-64", "AArch64"] };
    check(&output, 125, "", &format!("'foreign' cannot run: it is for {}, this server is {}", names[0], names[1]));
    check(&tested.runner(&[]).arg("/no/such").output().unwrap(), 125, "", "/no/such cannot be read");
    fs::write(&path, "neither").unwrap();
    check(&tested.runner(&[]).arg(&path).output().unwrap(), 125, "", "neither an ELF program of 64 bits nor a script");
    tested.wait_until_clean(&[]);
}

/// Starts a long-running program, and returns the runner and the remote processes. Ctrl+C ends the
/// runner, even if this test runs in a shell whose background jobs ignore it.
fn start_long(tested: &Tested, options: &[&str]) -> (Child, Vec<String>) {
    let script = tested.script("program", "sleep 1000 & echo $$ $!; wait");
    let runner = tested.runner(options);
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(runner.get_program()).args(runner.get_args());
    let mut runner = command.arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(runner.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (runner, line.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn a_client_that_goes_leaves_nothing() {
    let tested = Tested::new(&["--allow-run", "--stall-time", "4"]);
    // Killed, and ended by Ctrl+C.
    for signal in ["KILL", "INT"] {
        let (mut runner, processes) = start_long(&tested, &[]);
        assert_eq!(processes.len(), 2);
        Command::new("kill").args([&format!("-{signal}"), &runner.id().to_string()]).status().unwrap();
        runner.wait().unwrap();
        tested.wait_until_clean(&processes.iter().map(String::as_str).collect::<Vec<_>>());
    }
    // With a timeout.
    let (mut runner, processes) = start_long(&tested, &["--timeout", "0.5"]);
    assert_eq!(runner.wait().unwrap().code(), Some(124));
    tested.wait_until_clean(&processes.iter().map(String::as_str).collect::<Vec<_>>());
    // A silent server, as if the network were gone: the connection stays open, and no data arrives
    // during the stall time.
    let (mut runner, processes) = start_long(&tested, &[]);
    Command::new("kill").args(["-STOP", &runner.id().to_string()]).status().unwrap();
    let end = Instant::now() + TIME;
    while processes.iter().any(|process| Path::new("/proc").join(process).join("fd/0").exists()) {
        assert!(Instant::now() < end, "{processes:?}");
        thread::sleep(Duration::from_millis(50));
    }
    runner.kill().unwrap();
    runner.wait().unwrap();
    tested.wait_until_clean(&[]);
}

#[test]
fn under_cargo() {
    let tested = Tested::new(&["--allow-run"]);
    let package = tested.folder.join("package");
    fs::create_dir_all(package.join("src")).unwrap();
    let write = |name: &str, text: &str| fs::write(package.join(name), text).unwrap();
    write("Cargo.toml", "[package]\nname = \"there\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n");
    write(
        "src/main.rs",
        "fn main() {\n    println!(\"{:?}\", std::env::args().skip(1).collect::<Vec<_>>());\n    std::process::exit(4);\n}\n\
         #[test]\nfn passes() {\n    assert_eq!(std::env::var(\"WHERE\").unwrap(), \"there\");\n    assert!(!std::env::current_dir().unwrap().join(\"Cargo.toml\").exists());\n}\n\
         #[test]\nfn fails() {\n    panic!(\"this one fails\");\n}\n",
    );
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let runner = format!(
        "{} kernpack rpc runner {} --token-file {} --env WHERE=there --",
        env!("CARGO_BIN_EXE_cargo-kernpack"),
        tested.address,
        tested.folder.join("token").display()
    );
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(arguments).args(["--quiet", "--target", &target]).current_dir(&package);
        cargo.env("CARGO_TARGET_DIR", package.join("target")).env("CARGO_TERM_COLOR", "never").env_remove("RUSTFLAGS");
        cargo.env(format!("CARGO_TARGET_{}_RUNNER", target.to_uppercase().replace('-', "_")), &runner);
        cargo
    };
    let output = cargo(&["run"]).args(["--", "a", "b c"]).output().unwrap();
    check(&output, 4, "[\"a\", \"b c\"]\n", "");
    let output = cargo(&["test"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("this one fails") && text.contains("1 passed; 1 failed"), "{text}");
    assert_eq!(output.status.code(), Some(101));
    let output = cargo(&["test", "passes"]).output().unwrap();
    assert!(output.status.success());
    tested.wait_until_clean(&[]);
}
