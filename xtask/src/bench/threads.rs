//! The part of `cargo xtask bench calls` with several threads that call at once, each with its own
//! argument. Without shared data, a call takes as long as on one thread.

use super::caller::Caller;
use super::figures::verdict;
use super::samples::Samples;
use crate::Result;
use std::fmt::Write as _;

/// Numbers of threads.
const THREADS: [usize; 3] = [1, 2, 4];

/// The cases of the Kernpack caller, with their descriptions. The first one shares nothing: its
/// slowdown on more threads is that of the machine.
const CASES: [(&str, &str); 8] = [
    ("add", "`add(int, int) -> int`"),
    ("tensor", "`f(Tensor)`"),
    ("view", "`f(TensorView)`"),
    ("view_mut", "`f(TensorViewMut)`"),
    ("object", "`f(ObjRef)`"),
    ("text", "`f(&str)`, 39 characters"),
    ("function", "`f(Function)`"),
    ("new_tensor", "`Tensor::from_slice`, 16 elements"),
];

/// The limit for the time of a call on several threads, as a multiple of its time on one thread,
/// relative to the first case.
const SLOWER: f64 = 1.3;

/// The limit for the additional cost of a view over a reference, in nanoseconds.
const MORE: f64 = 10.0;

/// Calls in a batch.
const ITERATIONS: u64 = 200_000;

/// The samples of a case, by number of threads.
pub(super) type Row = [Samples; THREADS.len()];

/// Measures all cases in turns.
pub(super) fn measure(caller: &mut Caller, rounds: usize) -> Result<Vec<Row>> {
    println!("> measure {} cases on several threads in {rounds} rounds", CASES.len());
    let mut rows = vec![Row::default(); CASES.len()];
    for _ in 0..rounds {
        for ((case, _), row) in CASES.iter().zip(&mut rows) {
            for (threads, samples) in THREADS.iter().zip(row) {
                samples.push(caller.measure(&format!("{case}@{threads}"), "kernpack", ITERATIONS)?);
            }
        }
    }
    Ok(rows)
}

/// The table in Markdown.
pub(super) fn report(rows: &[Row]) -> String {
    let mut text = String::from(
        "\nCalls of a Kernpack library by a Rust program, each thread with an argument of its own: nanoseconds of a CPU for one call.\n\
         \n| call | 1 thread | 2 threads | 4 threads | 2 / 1, beside `add` | 4 / 1, beside `add` | |\n|---|---:|---:|---:|---:|---:|---|\n",
    );
    let slower = |row: &Row, threads: usize| row[threads].ratio(&row[0]);
    for ((_, what), row) in CASES.iter().zip(rows) {
        let [one, two, four] = [0, 1, 2].map(|threads| row[threads].median());
        let beside = [1, 2].map(|threads| slower(row, threads) / slower(&rows[0], threads));
        let met = verdict(beside.iter().all(|ratio| *ratio <= SLOWER));
        let [beside_two, beside_four] = beside;
        let _ =
            writeln!(text, "| {what} | {one:.1} | {two:.1} | {four:.1} | {beside_two:.2} | {beside_four:.2} | {met} |");
    }
    for (index, name) in [(2, "TensorView"), (3, "TensorViewMut")] {
        let more = rows[index][0].median() - rows[1][0].median();
        let _ = writeln!(
            text,
            "\n`{name}` takes {more:.1} ns more than `Tensor`; at most {MORE:.0}: {}.",
            verdict(more <= MORE)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_does_is_no_fault_of_a_case() {
        let row = |numbers: [f64; 3]| {
            numbers.map(|number| {
                let mut samples = Samples::default();
                samples.push(number);
                samples
            })
        };
        let mut rows = vec![row([8.0, 16.0, 16.0]); CASES.len()];
        rows[2] = row([20.0, 400.0, 800.0]);
        let report = report(&rows);
        for expected in [
            "| `f(Tensor)` | 8.0 | 16.0 | 16.0 | 1.00 | 1.00 | met |",
            "| `f(TensorView)` | 20.0 | 400.0 | 800.0 | 10.00 | 20.00 | missed |",
            "`TensorView` takes 12.0 ns more than `Tensor`; at most 10: missed.",
            "`TensorViewMut` takes 0.0 ns more than `Tensor`; at most 10: met.",
        ] {
            assert!(report.contains(expected), "{expected}\n{report}");
        }
    }
}
