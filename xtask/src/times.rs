//! The time of each step, on the clock and of the CPU, as a table at the end.

use std::fmt::Write as _;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The step's name.
    pub(crate) name: String,
    /// The time on the clock.
    pub(crate) wall: Duration,
    /// The CPU time of the step's processes, on all cores.
    pub(crate) cpu: Duration,
}

/// The steps of this process, in the order in which they ended.
static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// Steps that take less on the clock and on the CPU share one line.
const SMALL: Duration = Duration::from_secs(2);

/// Notes the times of a step.
pub(crate) fn note(name: &str, wall: Duration, cpu: Duration) {
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(Row { name: name.to_string(), wall, cpu });
}

/// Prints the table of the steps so far, which took `wall` in total, and clears it.
pub(crate) fn print(what: &str, wall: Duration) {
    let rows = std::mem::take(&mut *ROWS.lock().unwrap_or_else(PoisonError::into_inner));
    print!("{}", table(what, &rows, wall));
}

/// The table, for a terminal and for Markdown.
fn table(what: &str, rows: &[Row], wall: Duration) -> String {
    let is_small = |row: &&Row| row.wall < SMALL && row.cpu < SMALL;
    let (small, large): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(is_small);
    let sum = |name: String, rows: &[&Row]| Row {
        name,
        wall: rows.iter().map(|row| row.wall).sum(),
        cpu: rows.iter().map(|row| row.cpu).sum(),
    };
    let mut lines: Vec<Row> = large.iter().map(|row| (*row).clone()).collect();
    if !small.is_empty() {
        lines.push(sum(format!("{} short steps", small.len()), &small));
    }
    let all = sum(String::new(), &rows.iter().collect::<Vec<_>>());
    lines.push(Row { name: what.to_string(), wall, cpu: all.cpu });

    let width = lines.iter().map(|row| row.name.chars().count()).max().unwrap_or_default().max("step".len());
    let mut text = format!("\n| {:width$} | wall s |  CPU s |\n| {:-<width$} | -----: | -----: |\n", "step", "");
    for Row { name, wall, cpu } in lines {
        let _ = writeln!(text, "| {name:width$} | {:6.0} | {:6.0} |", wall.as_secs_f64(), cpu.as_secs_f64());
    }
    text.push('\n');
    text
}

/// Waits for a child. Returns its status and the CPU time of it and of those of its children that
/// it has waited for.
pub(crate) fn wait(child: &mut Child) -> io::Result<(ExitStatus, Duration)> {
    // Without this, a child that reads its standard input to the end would never exit.
    drop(child.stdin.take());
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    loop {
        // SAFETY: the process is our child, and nothing else waits for it: this function borrows it
        // exclusively, and std waits only on request. Both places live long enough.
        if unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) } == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: zeros are a valid usage, and wait4 has filled it.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| {
        let part = |value: i64, unit: Duration| unit * u32::try_from(value).unwrap_or_default();
        part(time.tv_sec, Duration::from_secs(1)) + part(time.tv_usec, Duration::from_micros(1))
    };
    Ok((ExitStatus::from_raw(status), time(usage.ru_utime) + time(usage.ru_stime)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::shell;

    #[test]
    fn the_cpu_time_of_grandchildren_counts() {
        let mut child = shell("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; exit 3").spawn().unwrap();
        let (status, cpu) = wait(&mut child).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(cpu > Duration::from_millis(5) && cpu < Duration::from_secs(60), "{cpu:?}");
    }

    #[test]
    fn short_steps_share_a_line() {
        let row = |name: &str, wall, cpu| Row {
            name: name.to_string(),
            wall: Duration::from_millis(wall),
            cpu: Duration::from_millis(cpu),
        };
        let rows = [row("build", 10_400, 20_000), row("a", 500, 600), row("waits", 5_000, 100), row("b", 1_000, 1_200)];
        assert_eq!(
            table("test", &rows, Duration::from_secs(18)),
            "
| step          | wall s |  CPU s |
| ------------- | -----: | -----: |
| build         |     10 |     20 |
| waits         |      5 |      0 |
| 2 short steps |      2 |      2 |
| test          |     18 |     22 |

"
        );
    }
}
