//! Containers, strings, big integers and weak references, changed and read in turn by our code and
//! by the inline code of the C++ headers: random operations on the same objects, each performed by
//! one of the two, compared with a plain Rust model.
//!
//! The sequences are the same on each run. `KERNPACK_PROPTEST_CASES` is the number of cases (the
//! default is for CI).

mod cpp;
mod map;
mod operation;
mod seq;
mod single;
mod value;

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Runs `test` on `cases` values of the strategy, the same ones each time.
fn check<S: Strategy<Value: Debug>>(cases: u32, strategy: S, test: impl Fn(S::Value)) {
    let cases = std::env::var("KERNPACK_PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(cases);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    runner
        .run(&strategy, |value| {
            test(value);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
