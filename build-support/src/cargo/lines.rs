//! The lines that a build script prints to its standard output for cargo.

use std::fmt::{self, Display};
use std::path::Path;

/// The lines, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Lines(String);

impl Lines {
    fn add(&mut self, directive: &str, value: impl Display) {
        self.0.push_str(&format!("cargo::{directive}={value}\n"));
    }

    /// Prints the warnings of a compiler, and the build continues.
    pub(crate) fn warnings(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.add("warning", line);
        }
    }

    /// Prints the errors before cargo's own message about a failed build script. The build fails,
    /// whatever the result of `main` is.
    pub(crate) fn errors(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.add("error", line);
        }
    }

    /// Adds a folder to the library search path of rustc.
    pub(crate) fn link_search(&mut self, folder: &Path) {
        self.add("rustc-link-search", format_args!("native={}", folder.display()));
    }

    /// Adds a library to link, with its kind and modifiers.
    pub(crate) fn link_lib(&mut self, library: &str) {
        self.add("rustc-link-lib", library);
    }

    /// Adds a linker option for shared libraries.
    pub(crate) fn link_arg_cdylib(&mut self, argument: &str) {
        self.add("rustc-link-arg-cdylib", argument);
    }

    /// Sets a variable that `env!` reads in the crate.
    pub(crate) fn rustc_env(&mut self, name: &str, value: &Path) {
        self.add("rustc-env", format_args!("{name}={}", value.display()));
    }

    /// Reruns the build script when this file or folder changes.
    pub(crate) fn rerun_if_changed(&mut self, path: &Path) {
        self.add("rerun-if-changed", path.display());
    }

    /// Reruns the build script when this environment variable changes.
    pub(crate) fn rerun_if_env_changed(&mut self, name: &str) {
        self.add("rerun-if-env-changed", name);
    }
}

impl Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_is_a_line() {
        let mut lines = Lines::default();
        lines.warnings("a.c:1: unused\n\n  x\n");
        lines.errors("b.c:2: no\n\nc.c: none");
        lines.link_search(Path::new("/out"));
        lines.link_lib("static=k");
        lines.link_arg_cdylib("-Wl,-z,nodelete");
        lines.rustc_env("X", Path::new("/x.rs"));
        lines.rerun_if_changed(Path::new("a.c"));
        lines.rerun_if_env_changed("CC");
        let expected = "cargo::warning=a.c:1: unused\ncargo::warning=  x\n\
                        cargo::error=b.c:2: no\ncargo::error=c.c: none\ncargo::rustc-link-search=native=/out\n\
                        cargo::rustc-link-lib=static=k\ncargo::rustc-link-arg-cdylib=-Wl,-z,nodelete\n\
                        cargo::rustc-env=X=/x.rs\ncargo::rerun-if-changed=a.c\ncargo::rerun-if-env-changed=CC\n";
        assert_eq!(lines.to_string(), expected);
    }
}
