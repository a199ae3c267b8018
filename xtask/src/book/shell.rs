//! The shell of a page: each command is a process of its own, and inherits the folder and the
//! exported variables of the one before.

use super::Result;
use crate::step::{self, Show};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The time limit of a command.
const LIMIT: Duration = Duration::from_secs(900);

/// The variable that identifies the shell in the environment of all processes that it starts.
const MARK: &str = "KERNPACK_BOOK_SHELL";

/// The state that is kept between the commands of a page.
pub(crate) struct Shell {
    /// The folder of our files with the shell's folder, its exports, and the status of the last
    /// command.
    state: PathBuf,
}

/// A command that has ended.
pub(crate) struct Ended {
    /// Its output, both streams together.
    pub(crate) output: String,
    /// Its exit status.
    pub(crate) status: i32,
}

impl Shell {
    /// A shell that starts in `folder` and keeps its state in `state`.
    pub(crate) fn new(state: PathBuf, folder: &Path) -> Result<Self> {
        fs::create_dir_all(&state)?;
        fs::write(state.join("folder"), folder.as_os_str().as_encoded_bytes())?;
        fs::write(state.join("exports"), "")?;
        Ok(Self { state })
    }

    /// The current folder of the shell.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        Ok(PathBuf::from(fs::read_to_string(self.state.join("folder"))?.trim_end()))
    }

    /// Kills the background processes of this shell's commands. They have the variable [`MARK`],
    /// which [`Self::run`] sets.
    fn end(&self) {
        let mark = format!("{MARK}={}", self.state.display());
        let is_marked = |process: &Path| {
            fs::read(process.join("environ"))
                .is_ok_and(|all| all.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
        };
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let number = process.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok());
            if let Some(number) = number.filter(|_| is_marked(&process.path())) {
                // SAFETY: kill takes plain numbers; the process was started by a command of the
                // page.
                unsafe { libc::kill(number, libc::SIGKILL) };
            }
        }
    }

    /// Runs one command, or a script. `bash` is the shell with its environment. If `start_in` is
    /// given, the command runs there, and later commands inherit nothing from it.
    pub(crate) fn run(&self, name: &str, mut bash: Command, script: &str, start_in: Option<&Path>) -> Result<Ended> {
        let folder = start_in.map_or_else(|| self.folder(), |folder| Ok(folder.to_path_buf()))?;
        let keep = if start_in.is_none() { "pwd > \"$kept/folder\"; export -p > \"$kept/exports\";" } else { "" };
        let whole = format!(
            "exec 2>&1\nkept=$1; . \"$kept/exports\"; set -euo pipefail\ntrap 'status=$?; {keep} echo $status > \"$kept/status\"; exit 0' EXIT\n{script}\n"
        );
        bash.args(["-c", &whole, "bash"]).arg(&self.state).current_dir(folder).env(MARK, &self.state);
        // A shell that does not reach its end has failed.
        fs::write(self.state.join("status"), "1")?;
        let finished = step::watch_within(LIMIT, name, &mut bash, Show::Warnings)?;
        if !finished.success {
            return Err(format!("{}\n{}", finished.status, finished.output).into());
        }
        let status = fs::read_to_string(self.state.join("status"))?.trim().parse().unwrap_or(1);
        Ok(Ended { output: finished.output, status })
    }

    /// Checks that bash can parse a script.
    pub(crate) fn parses(mut bash: Command, script: &str) -> Result {
        let output = bash.args(["-n", "-c", script]).output()?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned().into()) }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.end();
    }
}

/// A command of a console block, and its output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    /// The text after `$ `, with its continuation lines.
    pub(crate) command: String,
    /// The lines up to the next command.
    pub(crate) output: String,
}

/// The commands of a console block.
///
/// # Errors
/// A block that does not start with a command.
pub(crate) fn read_console(code: &str) -> Result<Vec<Typed>> {
    let mut all: Vec<Typed> = Vec::new();
    let mut goes_on = false;
    for line in code.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) if !goes_on => {
                all.push(Typed { command: command.to_string(), output: String::new() });
            }
            (_, Some(last)) if goes_on => {
                last.command.push('\n');
                last.command.push_str(line);
            }
            (_, Some(last)) => {
                last.output.push_str(line);
                last.output.push('\n');
                continue;
            }
            (_, None) => return Err("a console block begins with a command: '$ ...'".into()),
        }
        goes_on = line.ends_with('\\');
    }
    if all.is_empty() { Err("a console block has a command: '$ ...'".into()) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consoles() {
        let typed = |command: &str, output: &str| Typed { command: command.to_string(), output: output.to_string() };
        assert_eq!(
            read_console("$ a \\\n  --b\nout\n\n$ c\n").unwrap(),
            [typed("a \\\n  --b", "out\n\n"), typed("c", "")]
        );
        assert!(read_console("out\n").is_err() && read_console("").is_err());
    }

    #[test]
    fn folders_and_exports_stay() {
        let state = std::env::temp_dir().join(format!("kernpack-book-shell-{}", std::process::id()));
        let shell = Shell::new(state.clone(), Path::new("/")).unwrap();
        let run = |script: &str, folder| {
            let ended = shell.run("test", Command::new("bash"), script, folder).unwrap();
            (ended.output, ended.status)
        };
        assert_eq!(run("cd tmp; export WHAT='a b'; echo x >&2; pwd", None), ("x\n/tmp\n".to_string(), 0));
        assert_eq!(run("pwd; echo $WHAT; false; echo no", None), ("/tmp\na b\n".to_string(), 1));
        assert_eq!(run("cd dev; exit 3", Some(Path::new("/"))), (String::new(), 3));
        assert_eq!(shell.folder().unwrap(), Path::new("/tmp"));
        assert!(Shell::parses(Command::new("bash"), "if").is_err());
        assert!(Shell::parses(Command::new("bash"), "docker run x").is_ok());
        // A background process lasts as long as the shell. Its command line is empty while it
        // becomes `sleep` and after its end.
        let (number, _) = run("sleep 1000 > /dev/null 2>&1 & echo $!", None);
        let sleeps =
            || fs::read(format!("/proc/{}/cmdline", number.trim())).is_ok_and(|line| line.starts_with(b"sleep"));
        let becomes = |wanted: bool| {
            let end = std::time::Instant::now() + Duration::from_secs(30);
            while sleeps() != wanted {
                assert!(std::time::Instant::now() < end);
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        becomes(true);
        drop(shell);
        becomes(false);
        fs::remove_dir_all(state).unwrap();
    }
}
