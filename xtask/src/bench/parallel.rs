//! `cargo xtask bench parallel`: loops of `kernpack::parallel` and a `#[packed_func(parallel)]` beside rayon's and a plain loop, in
//! interleaved rounds of one process.

use super::figures::{duration, verdict};
use super::programs;
use crate::Result;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fmt::Write as _;
use std::fs;

/// How slow we may be beside rayon's `par_iter` on the cases of 1 M elements.
const LIMIT: f64 = 1.0;

/// The cases that the goal is for.
const JUDGED: [&str; 3] = ["a x + b, 1 M", "sqrt(exp(x) + 1), 1 M", "#[packed_func(parallel)] saxpy, 1 M"];

/// What the program says of one case: nanoseconds of one loop, in the order ours, `par_iter`, `par_chunks`, plain.
struct Line {
    name: String,
    medians: [f64; 4],
    /// Ours by `par_iter` and by `par_chunks`: medians of each round's ratio.
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
    let mut program = workspace.command(folder.join(package));
    let output = step::run("loops beside rayon", program.arg(rounds.to_string()), Show::Lines)?;
    let lines: Vec<Line> = output.lines().filter_map(Line::parse).collect();
    if lines.is_empty() {
        return Err(format!("{package} measured nothing").into());
    }
    let report = report(&lines, rounds, &super::calls::machine(&workspace, &python));
    println!("\n{report}");
    let file = workspace.folder("bench")?.join("parallel.md");
    fs::write(&file, report).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("written to {}", file.display());
    Ok(())
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let mut columns = line.split('\t');
        let name = columns.next()?.to_owned();
        let numbers: Vec<f64> = columns.map(|column| column.parse().ok()).collect::<Option<_>>()?;
        let (medians, rest) = numbers.split_first_chunk()?;
        let (ratios, rest) = rest.split_first_chunk()?;
        Some(Self { name, medians: *medians, ratios: *ratios, lowest: rest.try_into().ok()? })
    }
}

/// The table in Markdown.
fn report(lines: &[Line], rounds: usize, machine: &str) -> String {
    let mut text = format!(
        "Loops over float32 on all CPUs: medians of {rounds} interleaved rounds in one process ({machine}).\n\n\
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
    fn lines_become_a_table() {
        let output = "a message\na x + b, 1 M\t500\t1000\t800\t2000\t0.5\t0.625\t400\t900\t700\t1500\nshort\t1\t2\n\
                      sqrt(exp(x) + 1), 1 M\t3000\t2000\t2000\t4000\t1.5\t1.5\t1\t1\t1\t1\n";
        let lines: Vec<Line> = output.lines().filter_map(Line::parse).collect();
        assert_eq!(lines.len(), 2);
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
