//! Errors compared with libm.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use kernpack_compiler::intrin::{FUNCTIONS, Features};
use kernpack_compiler::ir::{DataType, F32, F64};

use crate::program::{build, has_fma};

/// The maximum errors, in units in the last place.
const SINGLE: f64 = 2.5;
const DOUBLE: f64 = 2.5;

/// The worst error of one function, and its wrong special values.
#[derive(Debug, Clone)]
struct Finding {
    worst: f64,
    line: String,
    wrong: u64,
}

fn start(program: &Path, args: &[String]) -> Child {
    Command::new(program).args(args).stdout(Stdio::piped()).spawn().unwrap()
}

fn finish(child: Child) -> Finding {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let line = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let words: Vec<&str> = line.split(' ').collect();
    Finding { worst: words[1].parse().unwrap(), wrong: words[4].parse().unwrap(), line: line.clone() }
}

fn worse(a: Finding, b: Finding) -> Finding {
    let wrong = a.wrong + b.wrong;
    let mut worse = if a.worst >= b.worst && b.wrong == 0 || a.wrong > 0 { a.clone() } else { b.clone() };
    worse.worst = a.worst.max(b.worst);
    worse.wrong = wrong;
    worse
}

/// Every `step`-th float, in two processes.
fn all(program: &Path, name: &str, step: u64) -> Finding {
    let half = (1u64 << 31).next_multiple_of(step);
    let args = |first: u64, last: u64| [name.to_owned(), first.to_string(), last.to_string(), step.to_string()];
    let (low, high) = (start(program, &args(0, half)), start(program, &args(half, 1 << 32)));
    worse(finish(low), finish(high))
}

fn random(program: &Path, name: &str, count: u64) -> Finding {
    let args = |seed: u64| [name.to_owned(), "random".to_owned(), seed.to_string(), (count / 2).to_string()];
    let (one, two) = (start(program, &args(1)), start(program, &args(2)));
    worse(finish(one), finish(two))
}

fn check(dtype: DataType, features: Features, step: u64, count: u64, limit: f64) {
    if features.fma && !has_fma() {
        return;
    }
    let single = dtype == F32;
    let title = format!("{}-{}", if single { "f32" } else { "f64" }, if features.fma { "fma" } else { "plain" });
    let program = build(&title, dtype, 1, features);
    let only = std::env::var("MATH_ONLY").unwrap_or_default();
    let mut bad = Vec::new();
    for (name, arity) in FUNCTIONS.iter().filter(|(name, _)| only.is_empty() || only.split(',').any(|x| x == *name)) {
        let finding = if single && *arity == 1 { all(&program, name, step) } else { random(&program, name, count) };
        println!("{title} {}", finding.line);
        if finding.worst > limit || finding.wrong > 0 {
            bad.push(format!("{title} {}", finding.line));
        }
    }
    assert!(
        bad.is_empty(),
        "name, ulps, x, y, wrong special values, the first of them (x, y, result):\n{}",
        bad.join("\n")
    );
}

#[test]
fn single_precision_is_near_libm() {
    check(F32, Features { fma: true, ..Features::default() }, 101, 4_000_000, SINGLE);
}

#[test]
fn single_precision_without_fma_is_near_libm() {
    // The same formulas with more steps: fewer floats are sufficient here.
    check(F32, Features::default(), 1009, 400_000, SINGLE);
}

#[test]
fn double_precision_is_near_libm() {
    check(F64, Features { fma: true, ..Features::default() }, 1, 400_000, DOUBLE);
}

#[test]
fn double_precision_without_fma_is_near_libm() {
    check(F64, Features::default(), 1, 400_000, DOUBLE);
}

#[test]
#[ignore = "minutes for each function: all floats"]
fn all_floats_are_near_libm() {
    check(F32, Features { fma: true, ..Features::default() }, 1, 400_000_000, SINGLE);
}

#[test]
#[ignore = "minutes for each function: all floats"]
fn all_floats_without_fma_are_near_libm() {
    check(F32, Features::default(), 1, 400_000_000, SINGLE);
}

#[test]
#[ignore = "minutes: many doubles"]
fn many_doubles_are_near_libm() {
    for fma in [true, false] {
        check(F64, Features { fma, ..Features::default() }, 1, 20_000_000, DOUBLE);
    }
}
