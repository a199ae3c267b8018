//! Our Rust caller. See ../../README.md for its input and output.

use kernpack::{Error, Function, Module, Result};
use std::hint::black_box;
use std::io::BufRead;
use std::time::Instant;

mod threads;

/// Times a typed call.
fn typed(add: &Function, iterations: u64) -> Result<u128> {
    let add = add.typed::<(i64, i64), i64>();
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..iterations {
        sum += black_box(add.call((black_box(3), black_box(4)))?);
    }
    let elapsed = start.elapsed().as_nanos();
    assert_eq!(sum, 7 * iterations as i64);
    Ok(elapsed)
}

/// Times a call of a tuple of arguments, and the conversion of its result.
fn tuple(add: &Function, iterations: u64) -> Result<u128> {
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..iterations {
        sum += black_box(add.call((black_box(3i64), black_box(4i64)))?.to::<i64>()?);
    }
    let elapsed = start.elapsed().as_nanos();
    assert_eq!(sum, 7 * iterations as i64);
    Ok(elapsed)
}

/// Times a call that fails.
fn fail(fail: &Function, iterations: u64) -> u128 {
    let fail = fail.typed::<(i64,), i64>();
    let mut failures = 0;
    let start = Instant::now();
    for _ in 0..iterations {
        if let Err(error) = black_box(fail.call((black_box(7),))) {
            failures += u64::from(error.kind() == "ValueError");
        }
    }
    let elapsed = start.elapsed().as_nanos();
    assert_eq!(failures, iterations);
    elapsed
}

/// Times a plain Rust closure behind a pointer: a lower bound for any foreign call.
fn closure(iterations: u64) -> u128 {
    let add: Box<dyn Fn(i64, i64) -> i64> = black_box(Box::new(|a, b| a + b));
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..iterations {
        sum += black_box(add(black_box(3), black_box(4)));
    }
    let elapsed = start.elapsed().as_nanos();
    assert_eq!(sum, 7 * iterations as i64);
    elapsed
}

fn main() -> Result<()> {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let (name, path) =
        argument.split_once('=').ok_or_else(|| Error::value_error("expected one argument, name=path"))?;
    let module = Module::load(path)?;
    let (add_function, fail_function) = (module.function("add")?, module.function("fail")?);
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line of text");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [case, library, iterations] = words[..] else {
            panic!("expected <case> <library> <iterations>, got {line:?}")
        };
        assert_eq!(library, name, "this caller has one library");
        let iterations: u64 = iterations.parse().expect("a number of iterations");
        let nanoseconds = match case {
            "typed" => typed(&add_function, iterations)?,
            "tuple" => tuple(&add_function, iterations)?,
            "fail" => fail(&fail_function, iterations),
            "closure" => closure(iterations),
            _ if case.contains('@') => threads::measure(&module, case, iterations)?,
            _ => panic!("unknown case {case:?}"),
        };
        println!("{nanoseconds}");
    }
    Ok(())
}
