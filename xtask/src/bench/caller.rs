//! A calling program as a long-lived child process: it reads one line for each batch, and answers
//! with one line with the nanoseconds.
//!
//! A caller with threads of its own is stopped while another one is measured: the threads of a pool
//! often spin for a while after a call, and would take a CPU from the next measured process.

use crate::Result;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// One running caller. The process ends when this value is dropped.
pub(crate) struct Caller {
    name: String,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// True if the process only runs between a request and its answer.
    is_stopped_between: bool,
}

impl Caller {
    /// Starts the program and waits until it has loaded its libraries.
    pub(crate) fn start(name: &str, command: &mut Command) -> Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| {
                format!("{name}: cannot start {}: {error}", command.get_program().to_string_lossy())
            })?;
        let requests = child.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut caller = Caller { name: name.to_string(), child, requests, answers, is_stopped_between: false };
        match caller.answer()?.as_str() {
            "ready" => Ok(caller),
            other => Err(format!("{name}: expected 'ready', got '{other}'").into()),
        }
    }

    /// The same for a program with threads of its own: it is stopped except while it is measured.
    pub(crate) fn start_stopped(name: &str, command: &mut Command) -> Result<Self> {
        // A group of its own: if we are killed, the system continues the group and ends it.
        let mut caller = Self::start(name, command.process_group(0))?;
        caller.is_stopped_between = true;
        caller.signal(libc::SIGSTOP)?;
        Ok(caller)
    }

    /// The nanoseconds that one call takes, from a batch of `iterations` calls.
    pub(crate) fn measure(&mut self, case: &str, library: &str, iterations: u64) -> Result<f64> {
        self.signal(libc::SIGCONT)?;
        let time = self.measure_running(case, library, iterations);
        self.signal(libc::SIGSTOP)?;
        time
    }

    fn measure_running(&mut self, case: &str, library: &str, iterations: u64) -> Result<f64> {
        writeln!(self.requests, "{case} {library} {iterations}").map_err(|error| format!("{}: {error}", self.name))?;
        let answer = self.answer()?;
        let nanoseconds: f64 =
            answer.parse().map_err(|_| format!("{}: expected nanoseconds, got '{answer}'", self.name))?;
        Ok(nanoseconds / iterations as f64)
    }

    fn signal(&self, signal: i32) -> Result {
        // SAFETY: the process is our child, which has not been waited for: its process id is still
        // valid.
        if self.is_stopped_between && unsafe { libc::kill(self.child.id() as i32, signal) } != 0 {
            return Err(format!("{}: cannot be stopped: {}", self.name, std::io::Error::last_os_error()).into());
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("{} ended before it answered (its message is above)", self.name).into());
        }
        Ok(line.trim().to_string())
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // Kills our own child only; if it has ended already, the error is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::shell;

    #[test]
    fn asks_and_divides() {
        let mut caller =
            Caller::start("sh", &mut shell("echo ready; while read case library n; do echo $((n * 3)); done")).unwrap();
        assert_eq!(caller.measure("add", "ours", 100).unwrap(), 3.0);
        assert_eq!(caller.measure("add", "ours", 7).unwrap(), 3.0);
    }

    /// Returns whether a caller is stopped, or becomes stopped soon: a signal takes time.
    #[cfg(target_os = "linux")]
    fn is_stopped(caller: &Caller) -> bool {
        (0..500).any(|_| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", caller.child.id())).unwrap();
            let stopped = stat.rsplit_once(") ").unwrap().1.starts_with('T');
            if !stopped {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            stopped
        })
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_caller_with_threads_runs_only_while_it_is_measured() {
        // The program continues to compute after its answer, like the spinning threads of a pool.
        let script = "echo ready; for t in 700 1400; do read line; echo $t; for i in $(seq 100000); do :; done; done";
        let mut caller = Caller::start_stopped("sh", &mut shell(script)).unwrap();
        assert!(is_stopped(&caller));
        for expected in [7.0, 14.0] {
            assert_eq!(caller.measure("add", "ours", 100).unwrap(), expected);
            assert!(is_stopped(&caller));
        }
        let mut running = Caller::start("sh", &mut shell("echo ready; read line; echo 100; read line")).unwrap();
        assert_eq!(running.measure("add", "ours", 100).unwrap(), 1.0);
        assert!(!std::fs::read_to_string(format!("/proc/{}/stat", running.child.id())).unwrap().contains(") T "));
    }

    #[test]
    fn says_what_went_wrong() {
        for (script, expected) in [
            ("echo hello", "expected 'ready', got 'hello'"),
            ("exit 1", "ended before it answered"),
            ("echo ready; read line; echo soon", "expected nanoseconds, got 'soon'"),
        ] {
            let outcome =
                Caller::start("sh", &mut shell(script)).and_then(|mut caller| caller.measure("add", "ours", 1));
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(expected), "{script}: {error}");
        }
    }
}
