//! The Python session of a page: one process, in which the names of all blocks persist.

use super::Result;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// The program that runs the blocks.
const PROGRAM: &str = include_str!("session.py");

/// The time limit of a block.
const LIMIT: Duration = Duration::from_secs(300);

/// A running Python.
pub(crate) struct Session {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
    /// The folder for the code and the output of the running block.
    folder: PathBuf,
}

impl Session {
    /// Starts Python; `command` is the interpreter, and `folder` is for files of the session.
    pub(crate) fn start(mut command: Command, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut child = command
            .args(["-u", "-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", command.get_program().to_string_lossy()))?;
        let requests = child.stdin.take();
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(std::io::Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Self { child, requests, answers, folder: folder.to_path_buf() })
    }

    /// Runs one block: `pycon` or `python`. Returns its output.
    ///
    /// # Errors
    /// The output with a traceback if the block failed; a session that ended, or a block that
    /// exceeds the time limit.
    pub(crate) fn run(&mut self, kind: &str, code: &str, page: &str, line: usize, start_in: &Path) -> Result<String> {
        let (code_file, output_file) = (self.folder.join("block.py"), self.folder.join("output.txt"));
        fs::write(&code_file, code)?;
        fs::write(&output_file, "")?;
        let requests = self.requests.as_mut().ok_or("the Python session has ended")?;
        let request = format!(
            "{kind}\t{}\t{}\t{line}\t{page}\t{}\n",
            code_file.display(),
            output_file.display(),
            start_in.display()
        );
        requests.write_all(request.as_bytes()).map_err(|error| format!("the Python session has ended: {error}"))?;
        let answer = self.answers.recv_timeout(LIMIT);
        let output = String::from_utf8_lossy(&fs::read(&output_file)?).into_owned();
        match answer.as_deref() {
            Ok("ok") => Ok(output),
            Ok(_) => Err(output.into()),
            Err(RecvTimeoutError::Timeout) => {
                self.child.kill()?;
                Err(format!("did not end within {} s\n{output}", LIMIT.as_secs()).into())
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(format!("ended its process: {}\n{output}", self.child.wait()?).into())
            }
        }
    }

    /// Ends the session.
    ///
    /// # Errors
    /// A process with an exit status other than 0: destructors of the page's objects run at its
    /// end.
    pub(crate) fn end(mut self) -> Result {
        self.requests = None;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the Python session ended with {status}").into()) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // After `end` there is no process left; otherwise a block failed, and nothing else waits
        // for this one.
        if self.requests.take().is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::find_on_path;

    #[test]
    fn blocks_share_their_names() {
        let Some(python) = find_on_path("python3") else {
            return kernpack_skip::skip("there is no python3");
        };
        let folder = std::env::temp_dir().join(format!("kernpack-book-session-{}", std::process::id()));
        let mut session = Session::start(Command::new(python), &folder).unwrap();
        let mut run = |kind: &str, code: &str| {
            session.run(kind, code, "docs/x.md", 7, &std::env::temp_dir()).map_err(|error| error.to_string())
        };
        assert_eq!(
            run("python", "import os\na = 1\nprint('out')\nos.system('echo native')\n"),
            Ok("out\nnative\n".into())
        );
        assert_eq!(
            run(
                "pycon",
                ">>> a + 1\n2\n>>> 1 / 0\nTraceback (most recent call last):\n    ...\nZeroDivisionError: ...\n"
            ),
            Ok("".into())
        );
        let wrong = run("pycon", ">>> a\n2\n").unwrap_err();
        assert!(wrong.contains("Expected:\n    2\nGot:\n    1\n") && wrong.contains("docs/x.md"), "{wrong}");
        assert!(run("pycon", "a\n").unwrap_err().contains("at least one >>> line"));
        let error = run("python", "\nb\n").unwrap_err();
        assert!(error.contains("File \"docs/x.md\", line 9, in <module>") && error.contains("NameError"), "{error}");
        let ended = run("python", "os._exit(3)\n").unwrap_err();
        assert!(ended.starts_with("ended its process: exit status: 3"), "{ended}");
        fs::remove_dir_all(folder).unwrap();
    }
}
