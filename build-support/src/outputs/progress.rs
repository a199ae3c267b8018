//! Lines of progress during a build.
//!
//! Cargo captures the output of a build script, and only shows it immediately with `-vv`. So the
//! lines also go to the file in `KERNPACK_PROGRESS`, such as a terminal. Without it, no file is
//! written.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After this time a running step is reported, and then repeatedly.
const FIRST: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(30);

/// The file that gets a copy of the lines, in addition to the output of the build script.
static FILE: Mutex<Option<File>> = Mutex::new(None);

/// Opens the file of `KERNPACK_PROGRESS`, which must be absolute.
///
/// # Errors
/// Returns a sentence about the variable if the file cannot be opened.
pub(crate) fn open(file: Option<PathBuf>) -> Result<(), String> {
    let Some(path) = file else { return Ok(()) };
    let shown = path.display();
    if !path.is_absolute() {
        return Err(format!("KERNPACK_PROGRESS is \"{shown}\"; it must be the absolute path of a file or a terminal"));
    }
    let file = File::options().append(true).create(true).open(&path);
    let file = file.map_err(|error| format!("KERNPACK_PROGRESS is \"{shown}\", which cannot be written: {error}"))?;
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    Ok(())
}

/// Prints a line of progress for the console. Cargo stores it with the package's other output, and
/// shows it if the build fails.
pub(crate) fn line(text: &str) {
    let text = format!("kernpack: {text}\n");
    // Write errors are ignored.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Some(file) = FILE.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        let _ = file.write_all(text.as_bytes());
    }
}

/// Runs `work`, and reports it while it takes long.
pub(crate) fn while_at_work<R>(what: &str, work: impl FnOnce() -> R) -> R {
    watched(what, [FIRST, AGAIN], &line, work)
}

fn watched<R>(what: &str, [first, again]: [Duration; 2], say: &(dyn Fn(&str) + Sync), work: impl FnOnce() -> R) -> R {
    let begin = Instant::now();
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut wait = first;
            while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                say(&format!("{what} for {} s so far", begin.elapsed().as_secs()));
                wait = again;
            }
        });
        let result = work();
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_is_mentioned() {
        let lines = Mutex::new(Vec::new());
        let say = |line: &str| lines.lock().unwrap().push(line.to_owned());
        let times = [Duration::from_millis(40), Duration::from_millis(1)];
        assert_eq!(watched("a.cu: nvcc is at work", times, &say, || 7), 7);
        assert!(lines.lock().unwrap().is_empty());
        watched("a.cu: nvcc is at work", times, &say, || {
            while lines.lock().unwrap().len() < 3 {
                thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(
            lines.lock().unwrap()[..2],
            ["a.cu: nvcc is at work for 0 s so far", "a.cu: nvcc is at work for 0 s so far"]
        );
    }

    #[test]
    fn the_file_is_absolute() {
        assert_eq!(
            open(Some("log".into())).unwrap_err(),
            "KERNPACK_PROGRESS is \"log\"; it must be the absolute path of a file or a terminal"
        );
        let problem = open(Some("/no/such/folder/log".into())).unwrap_err();
        assert!(
            problem.starts_with("KERNPACK_PROGRESS is \"/no/such/folder/log\", which cannot be written: "),
            "{problem}"
        );
    }
}
