//! Commands that run one after the other beside everything else, so that no core is idle while a test or a linker uses only one.
//!
//! What they write is kept, and printed as a whole when somebody asks for it: it never mixes with the lines of other steps.

use crate::Result;
use std::process::{Command, Output};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A line at least this often while somebody waits.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// A row of commands that was started.
pub(crate) struct Beside {
    names: Vec<String>,
    ended: Receiver<Ended>,
}

/// What a command wrote, and how long it took.
struct Ended {
    output: std::io::Result<Output>,
    time: Duration,
}

impl Beside {
    /// Starts the first command; each other one starts when the one before it has ended, however it ended.
    pub(crate) fn start(commands: Vec<(String, Command)>) -> Self {
        let names = commands.iter().map(|(name, _)| name.clone()).collect();
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            for (_, mut command) in commands {
                let start = Instant::now();
                let output = command.output();
                if sender.send(Ended { output, time: start.elapsed() }).is_err() {
                    return;
                }
            }
        });
        Beside { names, ended }
    }

    /// Waits for the commands in their order, and prints what each wrote. The result is the outcome of each, by its name.
    pub(crate) fn finish(self) -> Vec<(String, Result)> {
        let Beside { names, ended } = self;
        names
            .into_iter()
            .map(|name| {
                let outcome = wait(&name, &ended);
                (name, outcome)
            })
            .collect()
    }
}

/// Waits for the next command, which has this name.
fn wait(name: &str, ended: &Receiver<Ended>) -> Result {
    println!("> {name}, beside the steps above");
    let start = Instant::now();
    let Ended { output, time } = loop {
        match ended.recv_timeout(SIGN_OF_LIFE) {
            Ok(ended) => break ended,
            Err(RecvTimeoutError::Timeout) => println!("  ... {name}: waited {} s for it", start.elapsed().as_secs()),
            Err(RecvTimeoutError::Disconnected) => return Err(format!("{name}: nobody ran it").into()),
        }
    };
    let output = output.map_err(|error| format!("{name}: cannot start it: {error}"))?;
    for stream in [&output.stdout, &output.stderr] {
        String::from_utf8_lossy(stream).lines().for_each(|line| println!("  {line}"));
    }
    let verdict = if output.status.success() { "done" } else { "FAILED" };
    println!("  {verdict} in {:.1} s", time.as_secs_f64());
    if output.status.success() { Ok(()) } else { Err(format!("{name}: ended with {}", output.status).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::shell;

    #[test]
    fn every_outcome_comes_back_in_order() {
        let commands = [
            ("good", shell("sleep 0.1; echo out; echo err >&2")),
            ("bad", shell("echo why >&2; exit 3")),
            ("absent", Command::new("no-such-program")),
            ("last", shell("exit 0")),
        ];
        let beside = Beside::start(commands.map(|(name, command)| (name.to_string(), command)).into());
        let outcomes = beside.finish();
        let errors: Vec<(String, Option<String>)> =
            outcomes.into_iter().map(|(name, outcome)| (name, outcome.err().map(|error| error.to_string()))).collect();
        assert_eq!(errors[0], ("good".to_string(), None));
        assert_eq!(errors[1], ("bad".to_string(), Some("bad: ended with exit status: 3".to_string())));
        assert!(errors[2].1.as_ref().is_some_and(|error| error.starts_with("absent: cannot start it: ")), "{errors:?}");
        assert_eq!(errors[3], ("last".to_string(), None));
    }
}
