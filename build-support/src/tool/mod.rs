pub(crate) mod policy;
pub(crate) mod program;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kernpack_formats::export::shell::shown;

use crate::{Error, Result};

/// Runs `tool` on `source` and returns its output. An error shows the source, the tool, the command
/// and the output.
pub(crate) fn run(mut command: Command, tool: &str, source: &str) -> Result<String> {
    command.stdin(Stdio::null());
    let output = command.output().map_err(|error| {
        Error::new(format!("{source}: {tool} cannot be run: {error}\n  command: {}", shown(&command)))
    })?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(text);
    }
    Err(failure(source, &format!("{tool} failed ({})", output.status), &shown(&command), &text))
}

/// The common form of a tool's failure.
pub(crate) fn failure(source: &str, what: &str, command: &str, output: &str) -> Error {
    let output = output.trim_end();
    let output = if output.is_empty() { "    (none)".to_owned() } else { indented(output) };
    Error::new(format!("{source}: {what}\n  command: {command}\n  output:\n{output}"))
}

/// Indents every line by four spaces.
pub(crate) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Calls `work` with every item, on at most `threads` threads. The results are in the order of the
/// items.
pub(crate) fn in_parallel<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let count = items.len();
    let queue = Mutex::new(items.into_iter().enumerate());
    let results: Vec<Mutex<Option<R>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                while let Some((index, item)) = next() {
                    let result = work(item);
                    *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// A path for the start of a message: relative to the package if possible.
pub(crate) fn display_path(path: &Path, package_dir: &Path) -> String {
    path.strip_prefix(package_dir).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_file_tool_command_and_output() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let error = run(command, "the shell", "kernels/a.c").unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernels/a.c: the shell failed (exit status: 3)\n  command: sh -c 'echo one; echo two >&2; exit 3'\n  output:\n    one\n    two"
        );
        let error = run(Command::new("/no/such/tool"), "the tool", "kernels/a.c").unwrap_err();
        assert!(error.to_string().starts_with("kernels/a.c: the tool cannot be run: "), "{error}");
    }

    #[test]
    fn results_keep_their_order() {
        let squares = in_parallel(4, (0..100).collect(), |n: usize| n * n);
        assert_eq!(squares, (0..100).map(|n| n * n).collect::<Vec<_>>());
        assert_eq!(in_parallel(4, Vec::<u8>::new(), |n| n), Vec::<u8>::new());
    }
}
