//! The folders of this checkout, and commands that start in it like commands of a terminal.

use crate::Result;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One checkout of the project.
pub(crate) struct Workspace {
    root: PathBuf,
    cargo_target: PathBuf,
}

impl Workspace {
    /// Finds the checkout that this program was built from.
    pub(crate) fn find() -> Result<Self> {
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest_dir).parent().ok_or("xtask has no parent folder")?.to_path_buf();
        // This program is in <target>/<profile>/, also if the target folder was configured.
        let executable = env::current_exe()?;
        let cargo_target =
            executable.ancestors().nth(2).ok_or("xtask does not run from a target folder")?.to_path_buf();
        Ok(Workspace { root, cargo_target })
    }

    /// The root of the checkout.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// cargo's target folder, also if it was configured.
    pub(crate) fn cargo_target(&self) -> &Path {
        &self.cargo_target
    }

    /// A folder of ours below `target/`. Makes it if it does not exist.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join("target").join(name);
        std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// A command that starts in the root, without the variables that `cargo run` set for this
    /// program.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(set_by_cargo_run) {
                command.env_remove(name);
            }
        }
        // cargo run adds the Rust toolchain's own libraries here; a host that works only with them
        // must not pass.
        match env::var_os("LD_LIBRARY_PATH").map(|value| self.without_cargo_folders(&value)) {
            Some(kept) if !kept.is_empty() => command.env("LD_LIBRARY_PATH", kept),
            _ => command.env_remove("LD_LIBRARY_PATH"),
        };
        // Output goes through pipes: unbuffered, and without colours.
        command.env("PYTHONUNBUFFERED", "1").env("NO_COLOR", "1");
        command
    }

    /// cargo, in the root, with the target folder that contains this program, without colours.
    ///
    /// This is the cargo on PATH, as in a terminal: `CARGO` may name the program behind rustup's,
    /// which sets fewer variables.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let on_path = find_on_path("cargo").map(PathBuf::into_os_string);
        let mut command = self.command(on_path.or_else(|| env::var_os("CARGO")).unwrap_or_else(|| "cargo".into()));
        command.arg(subcommand).env("CARGO_TARGET_DIR", &self.cargo_target).env("CARGO_TERM_COLOR", "never");
        if !self.builds_incrementally() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        command
    }

    /// Returns whether the target folder has incremental builds, or `CARGO_INCREMENTAL` is set. In
    /// a build from scratch, the data for a next build would cost a quarter of the compiler's time.
    /// The incremental build of this program does not count: `cargo xtask` compiles it before it
    /// runs.
    fn builds_incrementally(&self) -> bool {
        let notes = std::fs::read_dir(self.cargo_target.join("debug/incremental"));
        env::var_os("CARGO_INCREMENTAL").is_some()
            || notes.is_ok_and(|notes| {
                notes.flatten().any(|entry| !entry.file_name().to_string_lossy().starts_with("xtask-"))
            })
    }

    fn without_cargo_folders(&self, paths: &OsStr) -> OsString {
        let added = |path: &PathBuf| path.starts_with(&self.cargo_target) || path.join("rustlib").is_dir();
        env::join_paths(env::split_paths(paths).filter(|path| !path.as_os_str().is_empty() && !added(path)))
            .unwrap_or_default()
    }
}

/// Returns whether `cargo run` sets this variable for the program that it runs.
fn set_by_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || matches!(
            name,
            "CARGO_MANIFEST_DIR"
                | "CARGO_MANIFEST_PATH"
                | "CARGO_BIN_NAME"
                | "CARGO_CRATE_NAME"
                | "CARGO_PRIMARY_PACKAGE"
        )
}

/// The path of a shared library that cargo built: `libname.so` in `folder`.
pub(crate) fn shared_library(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{}{name}{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX))
}

/// The folder in which cargo keeps the packages of registries: `CARGO_HOME`, or `.cargo` at home.
pub(crate) fn cargo_home() -> PathBuf {
    let at_home = || env::home_dir().unwrap_or_else(|| "/root".into()).join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(at_home, PathBuf::from)
}

/// The first file of this name in the folders of PATH.
pub(crate) fn find_on_path(name: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_run_variables() {
        for (name, expected) in [
            ("CARGO_PKG_NAME", true),
            ("CARGO_MANIFEST_DIR", true),
            ("CARGO_HOME", false),
            ("CARGO_TARGET_DIR", false),
            ("PATH", false),
        ] {
            assert_eq!(set_by_cargo_run(name), expected, "{name}");
        }
    }
}
