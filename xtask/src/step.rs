//! One command as one step: prints its name, its lines or at least one line every ten seconds, and
//! its time.

use crate::{Result, times};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// The part of a command's output that is shown while it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// Every line.
    Lines,
    /// Warnings, and the last lines if it fails.
    Warnings,
}

/// The output of a finished command, standard output and standard error together, and its status.
pub(crate) struct Finished {
    /// Its output.
    pub(crate) output: String,
    /// True if it ended with status 0.
    pub(crate) success: bool,
    /// The status, in words.
    pub(crate) status: String,
}

/// The longest time without a line, also for a silent command.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// The number of lines of a failed command's output that are shown if it was silent until then.
const LAST_LINES: usize = 100;

/// Runs a step. If the command fails, the error names the step.
pub(crate) fn run(name: &str, command: &mut Command, show: Show) -> Result<String> {
    let finished = watch(name, command, show)?;
    if finished.success { Ok(finished.output) } else { Err(format!("{name}: {}", finished.status).into()) }
}

/// Runs a step. A command that does not start is an error; the status of one that fails is in the
/// result.
pub(crate) fn watch(name: &str, command: &mut Command, show: Show) -> Result<Finished> {
    watch_child(name, command, show, None)
}

/// Runs a step with a time limit, after which it is killed with all processes that it started.
pub(crate) fn watch_within(limit: Duration, name: &str, command: &mut Command, show: Show) -> Result<Finished> {
    watch_child(name, command.process_group(0), show, Some(limit))
}

fn watch_child(name: &str, command: &mut Command, show: Show, limit: Option<Duration>) -> Result<Finished> {
    println!("> {name}");
    let start = Instant::now();
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name}: cannot start {}: {error}", command.get_program().to_string_lossy()))?;
    let (sender, lines) = mpsc::channel();
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let stderr = child.stderr.take().ok_or("no standard error")?;
    let error_sender = sender.clone();
    std::thread::spawn(move || forward(stdout, &sender));
    std::thread::spawn(move || forward(stderr, &error_sender));

    let mut output = String::new();
    let mut last_print = Instant::now();
    let mut ended_by_us = false;
    loop {
        let left = limit.map_or(SIGN_OF_LIFE, |limit| limit.saturating_sub(start.elapsed()));
        if left.is_zero() {
            end_group(&mut child);
            ended_by_us = true;
            break;
        }
        let wait = SIGN_OF_LIFE.saturating_sub(last_print.elapsed()).min(left);
        match lines.recv_timeout(wait) {
            Ok(line) => {
                if show == Show::Lines || line.starts_with("warning: ") {
                    println!("  {line}");
                    last_print = Instant::now();
                }
                output.push_str(&line);
                output.push('\n');
            }
            Err(RecvTimeoutError::Timeout) if last_print.elapsed() < SIGN_OF_LIFE => {}
            Err(RecvTimeoutError::Timeout) => {
                let latest = output.lines().last().unwrap_or_default().trim();
                println!("  ... {name}: {} s  {latest}", start.elapsed().as_secs());
                last_print = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let (status, cpu) = times::wait(&mut child)?;
    times::note(name, start.elapsed(), cpu);
    if !status.success() && show == Show::Warnings {
        let all: Vec<&str> = output.lines().collect();
        for line in &all[all.len().saturating_sub(LAST_LINES)..] {
            println!("  {line}");
        }
    }
    let verdict = if status.success() { "done" } else { "FAILED" };
    println!("  {verdict} in {:.1} s", start.elapsed().as_secs_f64());
    let status_text = match limit {
        Some(limit) if ended_by_us => format!("{program} was ended after {} s", limit.as_secs()),
        _ => format!("{program} ended with {status}"),
    };
    Ok(Finished { output, success: status.success(), status: status_text })
}

/// Kills our child, which leads its own process group, and the whole group.
fn end_group(child: &mut Child) {
    let group = format!("-{}", child.id());
    // A process that this does not reach ends when it writes: no process reads its output any more.
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.kill();
}

/// Sends the lines of a stream until it ends. Bytes that are not UTF-8 are replaced.
fn forward(stream: impl Read, lines: &Sender<String>) {
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
        let line = String::from_utf8_lossy(&bytes).trim_end().to_string();
        if lines.send(line).is_err() {
            return;
        }
        bytes.clear();
    }
}

/// A command for tests: a shell script.
#[cfg(test)]
pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collects_both_streams_and_the_status() {
        let finished = watch("two streams", &mut shell("echo out; echo err >&2; exit 3"), Show::Warnings).unwrap();
        assert!(finished.output.contains("out\n") && finished.output.contains("err\n"), "{}", finished.output);
        assert!(!finished.success);
    }

    #[test]
    fn a_failed_step_is_named() {
        let error = run("the step", &mut shell("exit 3"), Show::Warnings).unwrap_err().to_string();
        assert!(error.starts_with("the step: sh ended with"), "{error}");
    }

    #[test]
    fn a_step_that_hangs_is_ended_with_its_children() {
        let start = Instant::now();
        let limit = Duration::from_secs(1);
        let finished = watch_within(limit, "hangs", &mut shell("echo out; sleep 100 & wait"), Show::Lines).unwrap();
        assert!(start.elapsed() < Duration::from_secs(50));
        assert_eq!(finished.output, "out\n");
        assert_eq!((finished.success, finished.status.as_str()), (false, "sh was ended after 1 s"));
        assert!(watch_within(Duration::from_secs(60), "ends", &mut shell("exit 0"), Show::Lines).unwrap().success);
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = run("the step", &mut Command::new("no-such-program"), Show::Lines).unwrap_err().to_string();
        assert!(error.contains("cannot start no-such-program"), "{error}");
    }
}
