//! Commands that run one after the other in the background, so that no core is idle while a test or
//! a linker uses only one.
//!
//! Their output is collected and printed as a whole on request: it never mixes with the lines of
//! other steps.

use crate::{Result, times};
use std::io::{self, Read};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time without a line while a step waits.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// A sequence of started commands.
pub(crate) struct Beside {
    names: Vec<String>,
    ended: Receiver<Ended>,
}

/// The output of a command, and the time that it took.
struct Ended {
    output: io::Result<(Output, Duration)>,
    time: Duration,
}

/// The result of a command.
pub(crate) struct Done {
    /// Its name.
    pub(crate) name: String,
    /// Its output.
    pub(crate) output: String,
    /// An error if the command did not start, or did not end with status 0.
    pub(crate) outcome: Result,
}

impl Beside {
    /// Starts the first command; each other one starts when the one before it has ended, with any
    /// status.
    pub(crate) fn start(commands: Vec<(String, Command)>) -> Self {
        let names = commands.iter().map(|(name, _)| name.clone()).collect();
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            for (_, mut command) in commands {
                let start = Instant::now();
                let output = run(&mut command);
                if sender.send(Ended { output, time: start.elapsed() }).is_err() {
                    return;
                }
            }
        });
        Beside { names, ended }
    }

    /// Waits for the commands in their order, and prints their outputs.
    pub(crate) fn finish(self) -> Vec<Done> {
        let Beside { names, ended } = self;
        names
            .into_iter()
            .map(|name| match wait(&name, &ended) {
                Ok((output, outcome)) => Done { name, output, outcome },
                Err(error) => Done { name, output: String::new(), outcome: Err(error) },
            })
            .collect()
    }
}

/// Runs a command to its end. Returns its output and the CPU time that it used.
fn run(command: &mut Command) -> io::Result<(Output, Duration)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let read = thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut bytes)).map(|_| bytes)
    });
    let mut errors = Vec::new();
    let read_errors = stderr.as_mut().map_or(Ok(0), |stderr| stderr.read_to_end(&mut errors));
    let (status, cpu) = times::wait(&mut child)?;
    read_errors?;
    let stdout = read.join().map_err(|_| io::Error::other("the reader of its output panicked"))??;
    Ok((Output { status, stdout, stderr: errors }, cpu))
}

/// Waits for the next command, which has this name. Returns its output and its outcome.
fn wait(name: &str, ended: &Receiver<Ended>) -> Result<(String, Result)> {
    println!("> {name}, beside the steps above");
    let start = Instant::now();
    let Ended { output, time } = loop {
        match ended.recv_timeout(SIGN_OF_LIFE) {
            Ok(ended) => break ended,
            Err(RecvTimeoutError::Timeout) => println!("  ... {name}: waited {} s for it", start.elapsed().as_secs()),
            Err(RecvTimeoutError::Disconnected) => return Err(format!("{name}: it did not run").into()),
        }
    };
    let (output, cpu) = output.map_err(|error| format!("{name}: cannot start it: {error}"))?;
    times::note(&format!("{name} (beside)"), time, cpu);
    let text: String = [&output.stdout, &output.stderr].map(|stream| String::from_utf8_lossy(stream)).concat();
    text.lines().for_each(|line| println!("  {line}"));
    let verdict = if output.status.success() { "done" } else { "FAILED" };
    println!("  {verdict} in {:.1} s", time.as_secs_f64());
    let outcome =
        if output.status.success() { Ok(()) } else { Err(format!("{name}: ended with {}", output.status).into()) };
    Ok((text, outcome))
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
        assert_eq!(outcomes[0].output, "out\nerr\n");
        let errors: Vec<(String, Option<String>)> =
            outcomes.into_iter().map(|done| (done.name, done.outcome.err().map(|error| error.to_string()))).collect();
        assert_eq!(errors[0], ("good".to_string(), None));
        assert_eq!(errors[1], ("bad".to_string(), Some("bad: ended with exit status: 3".to_string())));
        assert!(errors[2].1.as_ref().is_some_and(|error| error.starts_with("absent: cannot start it: ")), "{errors:?}");
        assert_eq!(errors[3], ("last".to_string(), None));
    }
}
