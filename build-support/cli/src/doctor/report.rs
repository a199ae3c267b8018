//! The findings as text and as JSON. The README of kernpack-cli describes both.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::finding::{Finding, State};
use crate::text::shown;

/// Formats the findings for people.
pub(super) fn text(findings: &[Finding], able: bool) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = try_text(&mut out, findings, able);
    out
}

fn try_text(out: &mut String, findings: &[Finding], able: bool) -> std::fmt::Result {
    for finding in findings {
        writeln!(out, "{:<8} {:<14} {}", finding.state.word(), finding.topic, shown(&finding.summary))?;
        for (name, value) in finding.details.iter().filter(|(_, value)| !value.is_empty()) {
            writeln!(out, "{:24}{name}: {}", "", shown(value))?;
        }
        if finding.state == State::Found {
            continue;
        }
        let needed = if finding.required { "NEEDED for" } else { "for" };
        writeln!(out, "{:24}{needed} {}; to install:", "", finding.purpose)?;
        for (place, _, command) in finding.install.ways() {
            writeln!(out, "{:26}{place}: {command}", "")?;
        }
    }
    out.push_str(match able {
        true => "\na library without kernels can be built here\n",
        false => "\n",
    });
    Ok(())
}

/// Formats the findings for programs.
pub(super) fn json(findings: &[Finding], able: bool) -> String {
    let findings = findings.iter().map(|finding| {
        let details = finding.details.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())));
        let ways = finding.install.ways().map(|(_, key, command)| (key.to_owned(), Value::from(command)));
        json!({
            "topic": finding.topic,
            "state": finding.state.word(),
            "summary": finding.summary,
            "required": finding.required,
            "purpose": finding.purpose,
            "details": details.collect::<Map<_, _>>(),
            "install": ways.collect::<Map<_, _>>(),
        })
    });
    let value = json!({ "schema": 1, "can_build": able, "findings": findings.collect::<Vec<_>>() });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{compilers, environment::Environment, python, rust};

    /// A machine without any tools.
    #[test]
    fn everything_is_missing() {
        let nothing = Environment::fake(&[("PATH", "/nowhere")]);
        let findings = [
            rust::rust(&nothing),
            compilers::c(&nothing),
            compilers::cpp(&nothing),
            rust::llvm(&nothing),
            python::python(&nothing),
        ];
        assert_eq!(
            text(&findings, false),
            "missing  Rust           rustc not found in RUSTC or PATH
                        NEEDED for every library; to install:
                          everywhere: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh    (or: rustup update stable)
missing  C compiler     cc, gcc, clang not found in CC or PATH
                        NEEDED for every library: rustc links with it; to install:
                          Debian, Ubuntu: apt-get install gcc libc6-dev
                          Fedora: dnf install gcc glibc-devel
                          macOS: xcode-select --install
missing  C++ compiler   c++, g++, clang++ not found in CXX or PATH
                        for kernels in C++; to install:
                          Debian, Ubuntu: apt-get install g++
                          Fedora: dnf install gcc-c++
                          macOS: xcode-select --install
missing  LLVM           there is no rustc in PATH, and there is no llvm-config-23, llvm-config-22 or llvm-config in PATH
                        for kernels in LLVM IR (the feature `llvm` of kernpack-build); to install:
                          everywhere: a Rust toolchain of rustup carries it, from 1.95 on: rustup update stable
                          Debian, Ubuntu: apt-get install llvm-22-dev    (or newer; older releases: https://apt.llvm.org)
                          Fedora: dnf install llvm-devel    (where that is LLVM 22 or newer)
                          macOS: brew install llvm; export KERNPACK_LLVM_PREFIX=$(brew --prefix llvm)
missing  Python         python3 and python not found in PATH
                        for loading libraries in Python, and for the tests there; to install:
                          Debian, Ubuntu: apt-get install python3 python3-venv
                          Fedora: dnf install python3
                          macOS: brew install python

"
        );
        let value: Value = serde_json::from_str(&json(&findings, false)).unwrap();
        assert_eq!((&value["schema"], &value["can_build"]), (&json!(1), &json!(false)));
        assert_eq!(
            value["findings"][1],
            json!({
                "topic": "C compiler",
                "state": "missing",
                "summary": "cc, gcc, clang not found in CC or PATH",
                "required": true,
                "purpose": "every library: rustc links with it",
                "details": {},
                "install": {
                    "debian": "apt-get install gcc libc6-dev",
                    "fedora": "dnf install gcc glibc-devel",
                    "macos": "xcode-select --install",
                },
            })
        );
    }
}
