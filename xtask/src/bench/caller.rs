//! A calling program as a long-lived child: one line asks for a batch, one line answers with its nanoseconds.

use crate::Result;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// One running caller. It ends when this value goes away.
pub(crate) struct Caller {
    name: String,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
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
        let mut caller = Caller { name: name.to_string(), child, requests, answers };
        match caller.answer()?.as_str() {
            "ready" => Ok(caller),
            other => Err(format!("{name}: expected 'ready', got '{other}'").into()),
        }
    }

    /// The nanoseconds that one call takes, from a batch of `iterations` calls.
    pub(crate) fn measure(&mut self, case: &str, library: &str, iterations: u64) -> Result<f64> {
        writeln!(self.requests, "{case} {library} {iterations}").map_err(|error| format!("{}: {error}", self.name))?;
        let answer = self.answer()?;
        let nanoseconds: f64 =
            answer.parse().map_err(|_| format!("{}: expected nanoseconds, got '{answer}'", self.name))?;
        Ok(nanoseconds / iterations as f64)
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
        // Our own child, and only that; it may have ended already, then there is nothing to do.
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
