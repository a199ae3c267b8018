//! `cargo xtask bench parallel`: loops of `kernpack::parallel` and a `#[packed_func(parallel)]`
//! beside rayon's and a plain loop, in interleaved rounds. Each contender is a process of its own,
//! which is stopped while another one is measured.

use super::caller::Caller;
use super::figures::{duration, verdict};
use super::machine::Machine;
use super::programs;
use super::samples::Samples;
use crate::Result;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fmt::Write as _;
use std::fs;

/// The limit for our time as a fraction of rayon's `par_iter`, on the cases of 1 M elements.
const LIMIT: f64 = 1.0;

/// The cases with a goal.
const JUDGED: [&str; 3] = ["a x + b, 1 M", "sqrt(exp(x) + 1), 1 M", "#[packed_func(parallel)] saxpy, 1 M"];

/// The contenders, as the program calls them.
const CONTENDERS: [&str; 4] = ["ours", "par_iter", "par_chunks", "plain"];

/// The minimum number of elements in one batch of loops, so that the cost of reading the clock is
/// negligible.
const BATCH: u64 = 1 << 18;

/// Rounds in which programs warm up.
const WARM_UP: usize = 2;

/// A case of the program: its name, and the number of loops in a batch.
#[derive(Debug, PartialEq)]
struct Case {
    name: String,
    loops: u64,
}

impl Case {
    /// Reads a line of `kernpack-bench-parallel cases`: elements, milliseconds of pause, name. If
    /// there is a pause before each batch, a batch is one loop.
    fn parse(line: &str) -> Option<Self> {
        let mut columns = line.splitn(3, '\t');
        let (elements, pause): (u64, u64) = (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
        let loops = if pause == 0 { (BATCH / elements.max(1)).clamp(1, 256) } else { 1 };
        Some(Self { name: columns.next()?.to_owned(), loops })
    }
}

/// The figures of one case: nanoseconds of one loop, in the order of [`CONTENDERS`].
struct Line {
    name: String,
    medians: [f64; 4],
    /// The ratios of ours to `par_iter` and to `par_chunks`: medians over the rounds.
    ratios: [f64; 2],
    lowest: [f64; 4],
}

/// Builds, measures, prints the table and writes it to `target/bench/parallel.md`.
pub(crate) fn run(rounds: usize) -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let sources = workspace.root().join("tests/bench");
    let package = "kernpack-bench-parallel";
    let folder =
        programs::build_cargo(&workspace, &python, &sources, "bench-ours", "release", &["--package", package])?;
    let program = folder.join(package);
    let listed = step::run("list the loops", workspace.command(&program).arg("cases"), Show::Warnings)?;
    let cases: Vec<Case> = listed.lines().filter_map(Case::parse).collect();
    if cases.is_empty() {
        return Err(format!("{package} has no cases").into());
    }
    let start = |who: &str| Caller::start_stopped(who, workspace.command(&program).arg("run"));
    let mut callers = CONTENDERS.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    let lines = measure(&cases, &mut callers, rounds)?;
    let machine =
        Machine::find(&workspace).program("rustc").crates("tests/bench/Cargo.lock", package, &["rayon"])?.to_string();
    let report = report(&lines, rounds, &machine);
    println!("\n{report}");
    let file = workspace.folder("bench")?.join("parallel.md");
    fs::write(&file, report).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("written to {}", file.display());
    Ok(())
}

/// Measures all cases in turns.
fn measure(cases: &[Case], callers: &mut [Caller], rounds: usize) -> Result<Vec<Line>> {
    println!("> measure {} loops beside rayon in {rounds} rounds", cases.len());
    let mut lines = Vec::new();
    for (number, Case { name, loops }) in cases.iter().enumerate() {
        let mut samples: [Samples; 4] = Default::default();
        for round in 0..rounds + WARM_UP {
            for turn in 0..CONTENDERS.len() {
                let who = (turn + round) % CONTENDERS.len();
                let time = callers[who].measure(&number.to_string(), CONTENDERS[who], *loops)?;
                if round >= WARM_UP {
                    samples[who].push(time);
                }
            }
        }
        println!("  {name}");
        lines.push(Line::of(name, &samples));
    }
    Ok(lines)
}

impl Line {
    fn of(name: &str, samples: &[Samples; 4]) -> Self {
        let [ours, iter, chunks, _] = samples;
        Self {
            name: name.to_owned(),
            medians: samples.each_ref().map(Samples::median),
            ratios: [ours.ratio(iter), ours.ratio(chunks)],
            lowest: samples.each_ref().map(|samples| samples.at(0.0)),
        }
    }
}

/// The table in Markdown.
fn report(lines: &[Line], rounds: usize, machine: &str) -> String {
    let mut text = format!(
        "Loops over float32 on all CPUs: medians of {rounds} interleaved rounds ({machine}). Each contender is a process of its own, which is stopped while another one is measured.\n\n\
         | | ours | rayon `par_iter` | rayon `par_chunks` | one thread | ours / `par_iter` | ours / `par_chunks` | lowest: ours | `par_iter` | `par_chunks` | one thread |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for Line { name, medians, ratios, lowest } in lines {
        let [ours, iter, chunks, plain] = medians.map(duration);
        let [by_iter, by_chunks] = ratios;
        let lowest = lowest.map(duration).join(" | ");
        let _ = writeln!(
            text,
            "| {name} | {ours} | {iter} | {chunks} | {plain} | {by_iter:.2} | {by_chunks:.2} | {lowest} |"
        );
    }
    text.push_str("\n| goal | limit | measured | |\n|---|---:|---:|---|\n");
    for Line { name, ratios: [by_iter, _], .. } in lines.iter().filter(|line| JUDGED.contains(&line.name.as_str())) {
        let _ = writeln!(
            text,
            "| {name}: ours / rayon `par_iter` | {LIMIT:.2} | {by_iter:.2} | {} |",
            verdict(*by_iter < LIMIT + 0.005)
        );
    }
    text.push_str("\nRatios are medians of each round's ratio. Repeat with `cargo xtask bench parallel`.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_lines_become_cases() {
        let case = |line: &str| Case::parse(line).map(|case| (case.name, case.loops));
        for (line, expected) in [
            ("1048576\t0\ta x + b, 1 M", Some(("a x + b, 1 M", 1))),
            ("1024\t0\ta x + b, 1 k", Some(("a x + b, 1 k", 256))),
            ("1024\t10\ta x + b, 1 k, after 10 ms", Some(("a x + b, 1 k, after 10 ms", 1))),
            ("a message", None),
        ] {
            assert_eq!(case(line), expected.map(|(name, loops)| (name.to_owned(), loops)), "{line}");
        }
    }

    #[test]
    fn figures_become_a_table() {
        let line = |name: &str, figures: [[f64; 2]; 4]| {
            let samples = figures.map(|figures| {
                let mut samples = Samples::default();
                figures.into_iter().chain([figures[1]]).for_each(|figure| samples.push(figure));
                samples
            });
            Line::of(name, &samples)
        };
        let lines = [
            line("a x + b, 1 M", [[400.0, 500.0], [900.0, 1000.0], [700.0, 800.0], [1500.0, 2000.0]]),
            line("sqrt(exp(x) + 1), 1 M", [[1.0, 3000.0], [1.0, 2000.0], [1.0, 2000.0], [1.0, 4000.0]]),
        ];
        let report = report(&lines, 3, "a machine");
        for expected in [
            "| a x + b, 1 M | 500 ns | 1.00 us | 800 ns | 2.00 us | 0.50 | 0.62 | 400 ns | 900 ns | 700 ns | 1.50 us |\n",
            "| a x + b, 1 M: ours / rayon `par_iter` | 1.00 | 0.50 | met |\n",
            "| sqrt(exp(x) + 1), 1 M: ours / rayon `par_iter` | 1.00 | 1.50 | missed |\n",
        ] {
            assert!(report.contains(expected), "{expected}\n{report}");
        }
    }
}
