//! `cargo kernpack doctor` on this machine, on a machine without tools, and with a fake driver.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

// The build script makes every program of this crate a host, which contains this crate.
use kernpack as _;

fn doctor() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kernpack"));
    command.args(["kernpack", "doctor"]);
    command
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[track_caller]
fn text(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap()
}

fn finding<'a>(report: &'a Value, topic: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["topic"] == topic).unwrap()
}

#[test]
fn this_machine_can_build() {
    let output = doctor().arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_str(&text(output)).unwrap();
    assert_eq!((&report["schema"], &report["can_build"]), (&1.into(), &true.into()));
    for topic in ["Rust", "C compiler"] {
        assert_eq!(
            (&finding(&report, topic)["state"], &finding(&report, topic)["required"]),
            (&"found".into(), &true.into())
        );
    }
    let topics = report["findings"].as_array().unwrap().iter().map(|finding| finding["topic"].as_str().unwrap());
    let expected =
        ["Rust", "C compiler", "C++ compiler", "LLVM", "CUDA compiler", "CUDA driver", "NVRTC", "OpenCL", "Python"];
    assert_eq!(topics.collect::<Vec<_>>(), expected);
}

#[test]
fn a_machine_without_a_toolchain_cannot() {
    let mut command = doctor();
    let names = ["RUSTC", "CARGO", "CC", "CXX", "NVCC", "CUDA_HOME", "CUDA_PATH", "PYTHON"];
    for name in names.iter().chain(kernpack_llvm_find::PREFIX_VARIABLES) {
        command.env_remove(name);
    }
    let output = command.env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: a library without kernels cannot be built here; see what is marked as needed above\n"
    );
    let text = text(output);
    assert!(text.starts_with("missing  Rust           rustc not found in RUSTC or PATH\n"), "{text}");
    assert!(text.contains("missing  CUDA compiler  nvcc not found in NVCC, CUDA_HOME, CUDA_PATH or PATH"), "{text}");
}

/// Fake programs that print what the real ones print.
#[test]
fn programs_of_every_kind() {
    let bin = folder("doctor-bin");
    let write = |name: &str, script: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    write(
        "rustc",
        "printf 'rustc 1.80.1\\nhost: x86_64-unknown-linux-gnu\\nrelease: 1.80.1\\nLLVM version: 18.1.7\\n'",
    );
    write("cargo", "echo 'cargo 1.80.1'");
    write(
        "cc",
        "test \"$1\" = --version && echo 'cc 12.2.0' && exit; echo 'stdlib.h: No such file or directory' >&2; exit 1",
    );
    write("c++", "echo 'c++ (Debian) 12.2.0'");
    write(
        "nvcc",
        "case $1 in --version) echo 'Cuda compilation tools, release 13.0, V13.0.88';; *) echo 'compute_75 compute_90';; esac",
    );
    write("python3", "printf '3.11.7\\n/usr/bin/python3\\n0.1.14.post1\\n2.2.6\\n\\n'");
    write("nvidia-smi", "echo asked > \"$0.was-started\"");
    write("llvm-config-22", "case $1 in --version) echo 22.1.2;; *) echo /nowhere/lib;; esac");
    let mut command = doctor();
    let names = ["RUSTC", "CARGO", "CC", "CXX", "NVCC", "CUDA_HOME", "CUDA_PATH", "PYTHON"];
    for name in names.iter().chain(kernpack_llvm_find::PREFIX_VARIABLES) {
        command.env_remove(name);
    }
    let output = command.env("PATH", &bin).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_str(&text(output)).unwrap();
    let cc = bin.join("cc");
    for (topic, state, summary) in [
        ("Rust", "broken", "rustc 1.80.1 is too old: 1.89 or newer is needed".to_owned()),
        (
            "C compiler",
            "broken",
            format!(
                "{} links no program: cc failed (exit status: 1): stdlib.h: No such file or directory",
                cc.display()
            ),
        ),
        ("C++ compiler", "found", "c++ (Debian) 12.2.0".to_owned()),
        (
            "LLVM",
            "broken",
            format!(
                "the Rust toolchain ({}) is of LLVM 18.1.7, which is too old: 22 is the oldest that serves, and LLVM \
                 22.1.2 has no shared library (libLLVM) in /nowhere/lib",
                bin.join("rustc").display()
            ),
        ),
        ("CUDA compiler", "found", "nvcc 13.0.88".to_owned()),
        (
            "Python",
            "broken",
            "apache-tvm-ffi 0.1.14.post1 does not fit: 0.1.15 or newer, and older than 0.2, is needed".to_owned(),
        ),
    ] {
        let finding = finding(&report, topic);
        assert_eq!((&finding["state"], &finding["summary"]), (&state.into(), &summary.into()));
    }
    assert_eq!(finding(&report, "CUDA compiler")["details"]["architectures"], "sm_75, sm_90");
    assert!(!bin.join("nvidia-smi.was-started").exists());
}

/// A driver that has one device, one that ends the process, and one that has none.
#[test]
fn drivers() {
    const DRIVER: &str = "
#include <stdlib.h>
#include <string.h>
int cuDriverGetVersion(int* version) { *version = 13020; return 0; }
int cuInit(unsigned flags) { INIT }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDeviceGetName(char* name, int size, int device) { strncpy(name, \"Test GPU\", size); return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
";
    for (name, init, state, summary) in [
        ("works", "return 0;", "found", "driver for CUDA 13.2, 1 device"),
        ("empty", "return 100;", "broken", "cuInit: the driver sees no device (CUDA error 100)"),
        ("crashes", "abort();", "broken", "asking it ended the process: cargo-kernpack failed (signal: 6 (SIGABRT)"),
    ] {
        let folder = folder(&format!("doctor-driver-{name}"));
        let (source, library) = (folder.join("driver.c"), folder.join("libcuda.so.1"));
        std::fs::write(&source, DRIVER.replace("INIT", init)).unwrap();
        let cc = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
        assert!(cc.success());
        let output = doctor().arg("--json").env("LD_LIBRARY_PATH", &folder).output().unwrap();
        let report: Value = serde_json::from_str(&text(output)).unwrap();
        let finding = finding(&report, "CUDA driver");
        assert_eq!(finding["state"], state, "{finding}");
        assert!(finding["summary"].as_str().unwrap().starts_with(summary), "{finding}");
        if state == "found" {
            assert_eq!(finding["details"]["devices"], "Test GPU (sm_90)");
        }
    }
}

/// NVRTC of CUDA 13 before that of CUDA 12, one that fails and one without its functions. For the
/// last two, the package that contains the library is reported.
#[test]
fn compilers_for_cuda_at_run_time() {
    let make = |name: &str, file: &str, version: &str| {
        let folder = folder(&format!("doctor-nvrtc-{name}"));
        let source = folder.join("nvrtc.c");
        let text = format!(
            "int nvrtcVersion(int* major, int* minor) {{ *major = 13; *minor = 0; {version} }}\n\
             int nvrtcGetNumSupportedArchs(int* count) {{ *count = 2; return 0; }}\n\
             int nvrtcGetSupportedArchs(int* all) {{ all[0] = 75; all[1] = 90; return 0; }}\n"
        );
        let text = if version.is_empty() { "int nothing;\n".to_owned() } else { text };
        std::fs::write(&source, text).unwrap();
        let mut cc = Command::new("cc");
        assert!(cc.args(["-shared", "-fPIC", "-o"]).arg(folder.join(file)).arg(&source).status().unwrap().success());
        folder
    };
    for (name, file, version, state, summary) in [
        ("thirteen", "libnvrtc.so.13", "return 0;", "found", "NVRTC 13.0"),
        ("fails", "libnvrtc.so.13", "return 7;", "broken", "nvrtcVersion failed"),
        ("empty", "libnvrtc.so.13", "", "broken", "it has no function nvrtcVersion"),
    ] {
        let folder = make(name, file, version);
        let output = doctor().arg("--json").env("LD_LIBRARY_PATH", &folder).output().unwrap();
        let report: Value = serde_json::from_str(&text(output)).unwrap();
        let finding = finding(&report, "NVRTC");
        assert_eq!((&finding["state"], &finding["summary"]), (&state.into(), &summary.into()), "{finding}");
        if state == "found" {
            assert_eq!(finding["details"]["architectures"], "sm_75, sm_90");
            assert_eq!(finding["details"]["library"], file);
        } else {
            // The package with libnvrtc.so.13, and the path in it.
            let pip = finding["install"]["pip"].as_str().unwrap();
            assert!(pip.starts_with("pip install nvidia-cuda-nvrtc==13.") && pip.contains("nvidia/cu13/lib"), "{pip}");
        }
    }
}
