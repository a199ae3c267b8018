//! Printed text parses to the same program.

use kernpack::structural::Options;
use kernpack_compiler::ir::{Expr, F32, I64, Var};
use kernpack_compiler::text::{self, Scope};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::programs::Builder;

/// The same programs in each run.
fn check(cases: u32, test: impl Fn(&[u8]) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    let choices = vec(any::<u8>(), 0..600);
    if let Err(error) = runner.run(&choices, |choices| test(&choices)) {
        panic!("{error}");
    }
}

#[test]
fn modules_read_back() {
    check(500, |choices| {
        let mut builder = Builder::new(choices);
        let module = builder.module();
        let scope = builder.tensors.iter().fold(Scope::new(), Scope::tensor);
        let printed = text::print(&module);
        let again = text::parse_with(&printed, &scope)
            .map_err(|error| TestCaseError::fail(format!("{error}\nin:\n{printed}")))?;
        let options = Options::new().map_free_vars(true);
        let difference =
            options.first_mismatch(&module, &again).map_err(|error| TestCaseError::fail(error.to_string()))?;
        if let Some(difference) = difference {
            let repeated = text::print(&again);
            return Err(TestCaseError::fail(format!(
                "{} is not {}:\n{printed}\nread back as\n{repeated}",
                difference.left, difference.right
            )));
        }
        prop_assert_eq!(text::print(&again), printed);
        Ok(())
    });
}

#[test]
fn expressions_of_any_depth_read_back() {
    let x = Var::index("x");
    let (mut left, mut right) = (x.expr().clone(), x.expr().clone());
    for _ in 0..20_000 {
        left = left + &x;
        right = &x - right;
    }
    let scope = Scope::new().var(&x);
    for expr in [left, right] {
        let again = text::parse_expr(&text::print(&expr), &scope).unwrap();
        assert!(kernpack::structural::equal(&expr, &again).unwrap());
    }
}

#[test]
fn numbers_without_a_type_take_the_other_ones() {
    let (x, y) = (Var::new("x", kernpack_compiler::ir::F64), Var::new("y", kernpack_compiler::ir::U8));
    let scope = Scope::new().var(&x).var(&y);
    let cases: [(&str, Expr); 4] = [
        ("x * 0.1", &x * 0.1),
        ("200 + y", 200i64 + y.expr()),
        ("max(y, 3)", y.max(3)),
        ("select(y < 3, x, 0.5)", Expr::select(y.less(3), &x, 0.5)),
    ];
    for (source, expected) in cases {
        let parsed = text::parse_expr(source, &scope).unwrap();
        assert!(kernpack::structural::equal(&parsed, &expected).unwrap(), "{source}: {parsed}");
    }
    assert_eq!(text::parse_expr("1 + 2", &scope).unwrap().dtype(), I64);
    assert_eq!(text::parse_expr("0.5", &scope).unwrap().dtype(), F32);
}

/// Host and device code of one function share variables; each function names them separately.
#[test]
fn functions_that_share_variables_read_back() {
    let source = "var free: i64\nfunc f(n: i64, p: ptr, a: mut f32[m, 4]) {\n  function \"g\"::<i32>(p, n)\n  a[free] = 1.0\n}\n";
    let f = text::parse_func(source).unwrap();
    assert_eq!(text::print(&f), source);
    let module = kernpack_compiler::ir::IrModule::new([f.clone(), f]);
    let printed = text::print(&module);
    let again = text::parse(&printed).unwrap();
    assert!(Options::new().map_free_vars(true).equal(&module, &again).unwrap(), "{printed}");
}
