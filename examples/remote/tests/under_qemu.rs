//! The example on a board that qemu emulates, from Rust and from Python. `cargo xtask rpc` passes
//! it a photograph (`REMOTE_PHOTO`) and a Python with Apache TVM (`KERNPACK_APACHE_TVM`).

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kernpack_rpc::program::Runner;
use kernpack_skip::{skip, skip_anywhere};

const PICTURES: [&str; 4] = ["gray", "blur", "sobel", "edges"];

/// Returns true if the tools are installed.
fn can_run() -> bool {
    if cfg!(target_arch = "aarch64") {
        skip_anywhere("this machine is a board of 64-bit ARM itself");
        return false;
    }
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    for (program, package) in [("qemu-aarch64", "qemu-user"), ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")] {
        if !has(program) {
            skip(format_args!("{program} is missing (apt-get install {package})"));
            return false;
        }
    }
    let flags = std::env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS").unwrap_or_default();
    let mut rustc = Command::new("rustc");
    rustc.args(flags.split_whitespace()).args(["--print", "target-libdir", "--target", "aarch64-unknown-linux-gnu"]);
    let folder =
        rustc.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    if !files.any(|file| file.file_name().to_string_lossy().starts_with("libstd-")) {
        skip("Rust's standard library for 64-bit ARM is missing (rustup target add aarch64-unknown-linux-gnu)");
        return false;
    }
    true
}

/// Returns the photograph, or a picture with an edge in every direction.
fn photo(folder: &Path) -> PathBuf {
    if let Some(photo) = std::env::var_os("REMOTE_PHOTO") {
        return photo.into();
    }
    let (width, height) = (160, 120);
    let mut bytes = format!("P6\n{width} {height}\n255\n").into_bytes();
    for y in 0..height {
        for x in 0..width {
            let inside = (x - 80) * (x - 80) + (y - 60) * (y - 60) < 40 * 40;
            bytes.extend([x as u8, (2 * y) as u8, if inside { 250 } else { 5 }]);
        }
    }
    let photo = folder.join("photo.ppm");
    std::fs::write(&photo, bytes).unwrap();
    photo
}

fn check(mut command: Command, folder: &Path) {
    let target = Path::new(env!("CARGO_BIN_EXE_remote")).ancestors().nth(2).unwrap();
    command
        .arg("--photo")
        .arg(photo(Path::new(env!("CARGO_TARGET_TMPDIR"))))
        .args(["--profile", "dev", "--pictures"])
        .arg(folder);
    command.env("CARGO_TARGET_DIR", target).env_remove("LD_LIBRARY_PATH");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    for name in PICTURES {
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{text}");
        let picture = std::fs::read(folder.join(format!("{name}.pgm"))).unwrap();
        assert!(picture.starts_with(b"P5\n") && picture.len() > 160 * 120, "{name}: {} bytes", picture.len());
    }
}

#[test]
fn from_rust_and_from_python() {
    if !can_run() {
        return;
    }
    let folder = |name: &str| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        folder
    };
    let (rust, python) = (folder("remote-rust"), folder("remote-python"));
    check(Command::new(env!("CARGO_BIN_EXE_remote")), &rust);
    programs_run_there();
    let Some(interpreter) = std::env::var_os("KERNPACK_APACHE_TVM") else {
        return skip("KERNPACK_APACHE_TVM names no Python with Apache TVM");
    };
    let mut script = Command::new(interpreter);
    script.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/remote.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    check(script, &python);
    // Both are results of the same board.
    for name in PICTURES {
        let read = |folder: &Path| std::fs::read(folder.join(format!("{name}.pgm"))).unwrap();
        assert!(read(&rust) == read(&python), "{name} is another picture from Python");
    }
}

/// A server that runs programs. It ends when this value is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `cargo kernpack rpc runner` with the server's own program, which exists on the machine.
fn programs_run_there() {
    const EMULATOR: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";
    let target = Path::new(env!("CARGO_BIN_EXE_remote")).ancestors().nth(2).unwrap();
    let program = target.join("aarch64-unknown-linux-gnu/debug/kernpack-rpc-server");
    let token = Path::new(env!("CARGO_TARGET_TMPDIR")).join("token");
    std::fs::write(&token, "a-token-of-this-test").unwrap();
    let mut words = EMULATOR.split(' ').map(OsStr::new).chain([program.as_os_str()]);
    let mut server = Command::new(words.next().unwrap());
    server.args(words).args(["--port", "0", "--allow-run", "--emulator", EMULATOR, "--token-file"]).arg(&token);
    let mut server = Server(server.env_remove("LD_LIBRARY_PATH").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap();
    let run = |program: &Path, argument: &str| {
        let words =
            [address.as_ref(), OsStr::new("--token-file"), token.as_os_str(), OsStr::new("--"), program.as_os_str()];
        let words = words.into_iter().chain([OsStr::new(argument)]).map(OsStr::to_owned);
        Runner::parse(words).unwrap().unwrap().run()
    };
    assert_eq!(run(&program, "--help").unwrap(), 0);
    assert_eq!(run(&program, "--no-such-option").unwrap(), 1);
    let error = run(Path::new(env!("CARGO_BIN_EXE_remote")), "").unwrap_err();
    assert!(error.message().contains("it is for x86-64, this server is AArch64"), "{error}");
}
