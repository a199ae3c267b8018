//! The program that serves sessions.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path under which Linux has the program that a process runs, even if its file is deleted.
#[cfg(target_os = "linux")]
const OWN: &str = "/proc/self/exe";

/// The program that is started for each session.
pub(super) enum Program {
    /// A program that the user named, with its first arguments: the file at this path when a
    /// session begins.
    Named(PathBuf, Vec<OsString>),
    /// The program that the server is part of: in its current state, even if its file changes.
    Own(Own),
}

/// A program's file.
pub(super) struct Own {
    path: PathBuf,
    /// Device and inode number of the file.
    #[cfg(target_os = "linux")]
    file: Option<(u64, u64)>,
}

impl Program {
    /// Returns the program of these options; `None` is that of the server.
    ///
    /// # Errors
    /// The error of the system if it does not know the program of this process.
    pub(super) fn new(named: Option<(PathBuf, Vec<OsString>)>) -> io::Result<Self> {
        if let Some((path, arguments)) = named {
            return Ok(Self::Named(path, arguments));
        }
        let path = std::env::current_exe()?;
        #[cfg(target_os = "linux")]
        let own = Own { file: identity(&path), path };
        #[cfg(not(target_os = "linux"))]
        let own = Own { path };
        Ok(Self::Own(own))
    }

    /// The path of the program, for messages.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Named(path, _) => path,
            Self::Own(own) => &own.path,
        }
    }

    /// The command that starts it.
    pub(super) fn command(&self) -> Command {
        match self {
            Self::Named(path, arguments) => {
                let mut command = Command::new(path);
                command.args(arguments);
                command
            }
            Self::Own(own) => own.command(),
        }
    }
}

impl Own {
    /// Starts it by its path as long as that is the running file, so that the process has its name
    /// in process lists; else by the system's link to the running program. A server that is updated
    /// in place uses the old program until it is restarted: both halves of a session have the same
    /// version.
    fn command(&self) -> Command {
        #[cfg(target_os = "linux")]
        if self.file.is_none() || identity(&self.path) != self.file {
            use std::os::unix::process::CommandExt;
            let mut command = Command::new(OWN);
            command.arg0(&self.path);
            return command;
        }
        Command::new(&self.path)
    }
}

/// The identity of a file, independent of its name.
#[cfg(target_os = "linux")]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_program_is_named_while_it_is_there() {
        let Program::Own(mut own) = Program::new(None).unwrap() else { panic!("no program was named") };
        assert_eq!(own.command().get_program(), std::env::current_exe().unwrap().as_os_str());
        // Another file is at the path now, or none.
        #[cfg(target_os = "linux")]
        for path in ["/dev/null", "/no/such/file"] {
            own.path = path.into();
            assert_eq!(own.command().get_program(), OWN, "{path}");
        }
        own.path = PathBuf::new();
        let named = Program::new(Some(("server".into(), vec!["--x".into()]))).unwrap();
        assert_eq!((named.path(), named.command().get_args().count()), (Path::new("server"), 1));
    }
}
