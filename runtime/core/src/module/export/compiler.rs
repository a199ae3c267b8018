//! The compiler that links exported libraries, found in the same way as by the `cc` crate.

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

use kernpack_formats::export::shell::shown;

use super::Target;
use crate::Result;

/// A program and the options that are always passed to it.
pub(super) struct Tool {
    program: OsString,
    options: Vec<OsString>,
    /// The setting that selected the program, for messages.
    origin: String,
}

/// Reads an environment variable in the variants for a target: `CC_<triple>`, `TARGET_CC`, `CC`.
#[inline]
fn from_environment(variable: &str, target: &Target) -> Option<(String, String)> {
    let mut names = Vec::new();
    if let Some(triple) = target.triple() {
        names.extend([format!("{variable}_{triple}"), format!("{variable}_{}", triple.replace(['-', '.'], "_"))]);
        names.push(format!("TARGET_{variable}"));
    }
    names.push(variable.to_owned());
    names.into_iter().find_map(|name| {
        let value = std::env::var(&name).ok()?;
        (!value.trim().is_empty()).then_some((name, value))
    })
}

impl Tool {
    /// Returns the tool that the caller specified, else that of the environment, else `fallback`.
    #[inline]
    pub(super) fn find(named: Option<&OsStr>, variable: &str, fallback: &str, target: &Target) -> Self {
        if let Some(program) = named {
            return Self { program: program.to_owned(), options: Vec::new(), origin: "ExportOptions".to_owned() };
        }
        if let Some((name, value)) = from_environment(variable, target) {
            let mut words = value.split_whitespace().map(OsString::from);
            let program = words.next().unwrap_or_default();
            return Self { program, options: words.collect(), origin: format!("the variable {name}") };
        }
        Self { program: fallback.into(), options: Vec::new(), origin: format!("no {variable} in the environment") }
    }

    /// Returns the compiler: `CC` or `CXX`, else `cc` or `c++`; for another machine, the cross
    /// compiler with GNU's name.
    #[inline]
    pub(super) fn compiler(named: Option<&OsStr>, is_cpp: bool, target: &Target) -> Self {
        let (variable, native, cross) = if is_cpp { ("CXX", "c++", "g++") } else { ("CC", "cc", "gcc") };
        let fallback = match target.triple() {
            Some(triple) if target.arch() != std::env::consts::ARCH => format!("{}-{cross}", gnu_triple(triple)),
            _ => native.to_owned(),
        };
        Self::find(named, variable, &fallback, target)
    }

    /// Runs the program with these arguments.
    ///
    /// # Errors
    /// Returns a RuntimeError with the whole command and its output.
    #[inline]
    pub(super) fn run(&self, what: &str, arguments: &[OsString]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(&self.options).args(arguments).stdin(Stdio::null());
        let output = command.output().map_err(|error| {
            crate::error!(
                RuntimeError,
                "{what}: {} cannot be run: {error} ({} says so); install a C compiler, or name one in CC or in \
                 ExportOptions::compiler\n  command: {}",
                self.program.to_string_lossy(),
                self.origin,
                shown(&command)
            )
        })?;
        if output.status.success() {
            return Ok(());
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let lines: String = text.lines().map(|line| format!("\n    {line}")).collect();
        Err(crate::error!(
            RuntimeError,
            "{what}: {} failed ({})\n  command: {}\n  output:{}",
            self.program.to_string_lossy(),
            output.status,
            shown(&command),
            if lines.is_empty() { "\n    (none)" } else { &lines }
        ))
    }
}

/// GNU's name of a target, which does not contain the vendor.
#[inline]
fn gnu_triple(triple: &str) -> String {
    let parts: Vec<&str> = triple.split('-').collect();
    match parts[..] {
        [arch, _, system, environment] => format!("{arch}-{system}-{environment}"),
        _ => triple.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_command_and_output() {
        let target = Target::host().unwrap();
        let shell = Tool::find(Some("sh".as_ref()), "CC", "cc", &target);
        let script = ["-c", "echo one; echo two >&2; exit 3"].map(OsString::from);
        assert_eq!(
            shell.run("cannot export x.so", &script).unwrap_err().to_string(),
            "RuntimeError: cannot export x.so: sh failed (exit status: 3)\n  \
             command: sh -c 'echo one; echo two >&2; exit 3'\n  output:\n    one\n    two"
        );
        let none = Tool::find(Some("/no/such/cc".as_ref()), "CC", "cc", &target);
        let error = none.run("cannot export x.so", &["-v".into()]).unwrap_err().to_string();
        assert!(
            error.starts_with("RuntimeError: cannot export x.so: /no/such/cc cannot be run: No such file"),
            "{error}"
        );
        assert!(error.ends_with("command: /no/such/cc -v"), "{error}");
    }

    #[test]
    fn cross_compilers_have_the_names_of_gnu() {
        assert_eq!(gnu_triple("aarch64-unknown-linux-gnu"), "aarch64-linux-gnu");
        assert_eq!(gnu_triple("riscv64-linux-gnu"), "riscv64-linux-gnu");
    }
}
