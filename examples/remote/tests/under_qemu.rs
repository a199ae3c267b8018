//! The example on a board that qemu makes of this machine, from Rust and from Python. `cargo xtask rpc` gives it a photograph (`REMOTE_PHOTO`) and a Python with Apache
//! TVM (`KERNPACK_APACHE_TVM`).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const PICTURES: [&str; 4] = ["gray", "blur", "sobel", "edges"];

/// Says what is missing; on CI everything is there.
fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "{what}");
    skip_anywhere(what);
}

/// Past the test harness, which hides what a test prints that passes.
fn skip_anywhere(what: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {what}\n").as_bytes());
}

/// Whether the tools are there.
fn can_run() -> bool {
    if cfg!(target_arch = "aarch64") {
        skip_anywhere("this machine is a board of 64-bit ARM itself");
        return false;
    }
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    for (program, package) in [("qemu-aarch64", "qemu-user"), ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")] {
        if !has(program) {
            skip(&format!("{program} is missing (apt-get install {package})"));
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

/// The photograph; without one, a picture with an edge in every direction.
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
    let Some(interpreter) = std::env::var_os("KERNPACK_APACHE_TVM") else {
        return skip("KERNPACK_APACHE_TVM names no Python with Apache TVM");
    };
    let mut script = Command::new(interpreter);
    script.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/remote.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    check(script, &python);
    // Both are what the same board has made.
    for name in PICTURES {
        let read = |folder: &Path| std::fs::read(folder.join(format!("{name}.pgm"))).unwrap();
        assert!(read(&rust) == read(&python), "{name} is another picture from Python");
    }
}
