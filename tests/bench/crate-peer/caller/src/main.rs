//! The `tvm-ffi` crate's caller. See ../../README.md for its input and output.

use std::hint::black_box;
use std::io::BufRead;
use std::time::Instant;
use tvm_ffi::{into_typed_fn, Function, Module, Result};

/// Times a typed call: the crate's `into_typed_fn!`.
fn typed(add: &Function, iterations: u64) -> u128 {
    let add = into_typed_fn!(add.clone(), Fn(i64, i64) -> Result<i64>);
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..iterations {
        sum += black_box(add(black_box(3), black_box(4)).expect("add works"));
    }
    let elapsed = start.elapsed().as_nanos();
    assert_eq!(sum, 7 * iterations as i64);
    elapsed
}

/// Times a call of a tuple of arguments, and the conversion of its result.
fn tuple(add: &Function, iterations: u64) -> u128 {
    let mut sum = 0;
    let start = Instant::now();
    for _ in 0..iterations {
        let result = add.call_tuple((black_box(3i64), black_box(4i64))).expect("add works");
        sum += black_box(i64::try_from(result).expect("add returns an int"));
    }
    let elapsed = start.elapsed().as_nanos();
    assert_eq!(sum, 7 * iterations as i64);
    elapsed
}

/// Times a call that fails.
fn fail(fail: &Function, iterations: u64) -> u128 {
    let fail = into_typed_fn!(fail.clone(), Fn(i64) -> Result<i64>);
    let mut failures = 0;
    let start = Instant::now();
    for _ in 0..iterations {
        if let Err(error) = black_box(fail(black_box(7))) {
            failures += u64::from(error.kind().as_str() == "ValueError");
        }
    }
    let elapsed = start.elapsed().as_nanos();
    assert_eq!(failures, iterations);
    elapsed
}

fn main() {
    let path = std::env::args().nth(1).expect("one argument: name=path");
    let (name, path) = path.split_once('=').expect("name=path");
    let module = Module::load_from_file(path).expect("the library loads");
    let [add_function, fail_function] =
        ["add", "fail"].map(|name| module.get_function(name).expect("the function exists"));
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
            "typed" => typed(&add_function, iterations),
            "tuple" => tuple(&add_function, iterations),
            "fail" => fail(&fail_function, iterations),
            _ => panic!("unknown case {case:?}"),
        };
        println!("{nanoseconds}");
    }
}
