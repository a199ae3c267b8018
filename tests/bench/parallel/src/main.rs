//! Loops of `kernpack::parallel` beside rayon's and beside a plain loop on one thread.
//!
//! `kernpack-bench-parallel cases` prints one line for each case: elements, milliseconds of pause
//! before each batch, and its name, separated by tabs. `kernpack-bench-parallel run` is a caller
//! (see ../../README.md): its cases are numbers of those lines, its libraries are `ours`,
//! `par_iter`, `par_chunks` and `plain`. A process measures one of them, so that it has one pool of
//! threads. The result of each case is compared with that of the plain loop before it is measured.

mod jobs;

use jobs::{Case, Who, Work, make};
use kernpack::{Error, Result};
use std::io::BufRead;
use std::thread;
use std::time::{Duration, Instant};

/// Numbers of elements, and their names in messages.
const SIZES: [(usize, &str); 4] = [(1 << 10, "1 k"), (1 << 16, "64 k"), (1 << 20, "1 M"), (1 << 24, "16 M")];

/// The sizes of the softmax: rows, and the width of each.
const ROWS: [(usize, usize); 3] = [(1024, 1024), (8, 128), (2, 1 << 19)];

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, work, elements, pause| {
        cases.push(Case { name, work, elements, pause: Duration::from_millis(pause) });
    };
    for (elements, size) in SIZES {
        let with_pauses = elements == 1 << 16 || elements == 1 << 20;
        let pauses = [(0, ""), (1, ", after 1 ms"), (10, ", after 10 ms")];
        for (pause, after) in pauses.into_iter().take(if with_pauses { 3 } else { 1 }) {
            add(format!("a x + b, {size}{after}"), Work::Line, elements, pause);
            add(format!("sqrt(exp(x) + 1), {size}{after}"), Work::Heavy, elements, pause);
        }
    }
    for (elements, size) in SIZES {
        add(format!("#[packed_func(parallel)] saxpy, {size}"), Work::Saxpy, elements, 0);
    }
    add("sum, 1 M".to_owned(), Work::Sum, 1 << 20, 0);
    for (height, width) in ROWS {
        add(format!("softmax of {height} rows of {width}"), Work::Softmax { width }, height * width, 0);
    }
    cases
}

fn main() -> Result<()> {
    let cases = cases();
    match std::env::args().nth(1).as_deref() {
        Some("cases") => {
            for Case { name, elements, pause, .. } in &cases {
                println!("{elements}\t{}\t{name}", pause.as_millis());
            }
            Ok(())
        }
        Some("run") => run(&cases),
        _ => Err(Error::value_error("usage: kernpack-bench-parallel cases | run")),
    }
}

/// Answers each line `CASE WHO LOOPS` with the nanoseconds of that many loops.
fn run(cases: &[Case]) -> Result<()> {
    println!("ready");
    // Keeps one case at a time: those of 16 M elements are large.
    let mut current = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Error::value_error(error.to_string()))?;
        let words: Vec<&str> = line.split(' ').collect();
        let question = || Error::value_error(format!("expected `CASE WHO LOOPS`, got '{line}'"));
        let &[number, who, loops] = &words[..] else { return Err(question()) };
        let (number, loops): (usize, u64) =
            (number.parse().map_err(|_| question())?, loops.parse().map_err(|_| question())?);
        let (case, who) = (cases.get(number).ok_or_else(question)?, Who::parse(who).ok_or_else(question)?);
        let job = match &mut current {
            Some((known, job)) if *known == (number, who) => job,
            _ => {
                current = None;
                let (mut job, mut plain) = (make(case, who)?, make(case, Who::Plain)?);
                job.run();
                plain.run();
                assert_eq!(job.result()?, plain.result()?, "{}", case.name);
                &mut current.insert(((number, who), job)).1
            }
        };
        thread::sleep(case.pause);
        let start = Instant::now();
        for _ in 0..loops {
            job.run();
        }
        println!("{}", start.elapsed().as_nanos());
    }
    Ok(())
}
