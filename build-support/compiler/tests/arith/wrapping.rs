//! Data wraps: what the analyzer makes of random expressions, and rules at the limits of types.
//!
//! A million expressions through the analyzer take 12 minutes of one core, and a million of compiled code half an hour; all cores share the work:
//!
//! ```text
//! cargo test -p kernpack-compiler --test arith --test codegen -- --ignored --nocapture in_a_million_expressions
//! ```
//!
//! The environment variable `KERNPACK_WRAPPING_CASES` says another number, for the tests that are not ignored, too.

use std::collections::HashMap;

use kernpack_compiler::arith::{Analyzer, IntSet, SetMap};
use kernpack_compiler::ir::mutate::{Mutate, mutate_expr_parts};
use kernpack_compiler::ir::{BinaryOp, Buffer, Expr, ExprNode, I8, I16, I32, I64, Range, U8, Var};

use crate::evaluate::{Random, text};
use crate::integers::{Space, TYPES, Values, cases, constant, ends, in_parallel, value};

/// Loads and the index as constants.
struct Constants<'a>(&'a Values);

impl Mutate for Constants<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> kernpack_compiler::Result<Expr> {
        match &**expr {
            ExprNode::Load { dtype, .. } => Ok(constant(*dtype, value(expr, self.0))),
            ExprNode::Var { dtype, .. } if self.0.vars.contains_key(&Var::of(expr).unwrap()) => {
                Ok(constant(*dtype, value(expr, self.0)))
            }
            _ => mutate_expr_parts(self, expr),
        }
    }
}

fn check(seed: u64, cases: usize) {
    let mut random = Random(seed);
    let space = Space::new();
    for case in 0..cases {
        let analyzer = Analyzer::new();
        analyzer.bind(&space.index, &Range::until(8));
        let dtype = *random.of(&TYPES);
        let depth = random.between(1, 4) as u32;
        let is_condition = random.between(0, 2) == 0;
        let expr = if is_condition {
            space.condition(&mut random, depth - 1, &mut Vec::new())
        } else {
            space.integer(&mut random, dtype, depth, &mut Vec::new())
        };
        let simple = analyzer.simplify(&expr);
        let again = analyzer.simplify(&simple);
        let (interval, modular) = (analyzer.const_interval(&expr), analyzer.modular_set(&expr));
        let sets = SetMap::from([(space.index.clone(), IntSet::of_range(&Range::until(8)))]);
        let set = IntSet::evaluate(&expr, &sets, &analyzer);
        let proved = is_condition && analyzer.can_prove(&expr);
        for _ in 0..12 {
            let index = random.between(0, 7);
            let values = Values::random(&space, &mut random, index);
            let expected = value(&expr, &values);
            let about = || format!("case {case}: {} gives {} with {:?}", text(&expr), text(&simple), values.elements);
            assert_eq!(value(&simple, &values), expected, "{}", about());
            assert_eq!(value(&again, &values), expected, "again {}: {}", text(&again), about());
            assert!(!proved || expected == 1, "proved: {}", about());
            let within = set.min().is_none_or(|min| value(min, &values) <= expected)
                && set.max().is_none_or(|max| expected <= value(max, &values));
            assert!(within, "{expected} not in {} to {}: {}", end(set.min()), end(set.max()), about());
            if let Ok(number) = i64::try_from(expected) {
                assert!(interval.contains(number), "{number} in {interval}: {}", about());
                assert!(modular.contains(number), "{number} in {modular}: {}", about());
            }
            let constants = Constants(&values).mutate_expr(&expr).unwrap();
            let folded = Analyzer::new().simplify(&constants);
            assert!(
                matches!(*folded, ExprNode::Int { .. }),
                "not constant: {} from {}",
                text(&folded),
                text(&constants)
            );
            assert_eq!(value(&folded, &values), expected, "folded {}: {}", text(&constants), about());
        }
    }
}

fn end(end: Option<&Expr>) -> String {
    end.map_or("no end".to_owned(), text)
}

#[test]
fn data_keeps_its_values() {
    check(11, cases(2000));
}

#[test]
#[ignore = "takes minutes"]
fn data_keeps_its_values_in_a_million_expressions() {
    in_parallel(cases(1_000_000), 1000, |part| check(1000 + part, 1000));
}

/// What holds of whole numbers, but not of data.
#[test]
fn rules_of_whole_numbers_do_not_hold_for_data() {
    for dtype in [I32, I64] {
        let data = Buffer::new("data", dtype, [Expr::int(4)], "global");
        let (a, b) = (Expr::load(&data, 0), Expr::load(&data, 1));
        let (zero, max) = (constant(dtype, 0), constant(dtype, ends(dtype).1));
        let abs = Expr::builtin("abs", dtype, [a.clone()]);
        let kept = [
            (&a + 1).greater(&a),
            (&a + 1).less(&b + 1),
            abs.less(&zero),
            (&a * 2).equals(&zero),
            (&a * &a).less(&zero),
            (&a - &b).less(&zero),
            (&a.max(0) + 1).less(&zero),
        ];
        let analyzer = Analyzer::new();
        for condition in kept {
            let simple = analyzer.simplify(&condition);
            assert!(simple.as_int().is_none(), "{} is {}", text(&condition), text(&simple));
            assert!(
                !analyzer.can_prove(&condition) && !analyzer.can_prove(&condition.negated()),
                "{}",
                text(&condition)
            );
        }
        assert!(!analyzer.can_prove_equal(&(&a * 2).floor_div(2), &a));
        assert!(!analyzer.can_prove_equal(&(&a * &b).floor_div(&b), &a));
        // What holds for all values.
        for condition in [a.less_equal(&max), max.greater_equal(&a), (&a + &a).equals(&a * 2), (&a + 1).differs(&a)] {
            assert!(analyzer.can_prove(&condition), "{}", text(&condition));
        }
        assert!(analyzer.simplify(&(&a + 1 - &a)).is_int(1));
    }
    // Casts that cut make data of indices.
    let i = Var::index("i");
    for (dtype, step) in [(I8, 8), (I16, 256), (I32, 8192)] {
        // As sums are written, and as they are not.
        for cut in
            [(&i * step).cast(dtype), (step + &i * step).cast(dtype), (&i * (step / 2) + &i * (step / 2)).cast(dtype)]
        {
            for value in [cut.clone(), cut.cast(I32) * (1 << 28)] {
                let step = constant(value.dtype(), step.into());
                let next = &value + &step;
                for condition in [next.greater(&value), next.floor_div(&step).equals(value.floor_div(&step) + 1)] {
                    let analyzer = Analyzer::new();
                    let simple = analyzer.simplify(&condition);
                    assert!(simple.as_int().is_none(), "{} is {}", text(&condition), text(&simple));
                    assert!(!analyzer.can_prove(&simple) && !analyzer.can_prove(&condition), "{}", text(&condition));
                }
            }
        }
    }
    // A sum that wraps is not divisible by what its parts are.
    let data = Buffer::new("data", I32, [Expr::int(4)], "global");
    let x = Var::new("x", I32);
    let analyzer = Analyzer::new();
    analyzer.bind_equal(&x, &Expr::load(&data, 0));
    analyzer.enter(&x.floor_mod(3).equals(0));
    let product = (&x + Expr::load(&data, 1) * 3) * (Expr::load(&data, 2) & 1);
    assert!(analyzer.can_prove(&(&x * 4).floor_mod(4).equals(0)));
    assert!(!analyzer.can_prove(&product.floor_mod(3).equals(0)), "{}", text(&product));
    assert!(analyzer.modular_set(&product).contains(1));
    // Narrow data that is widened does not overflow.
    let bytes = Buffer::new("bytes", U8, [Expr::int(4)], "global");
    let wide = Expr::load(&bytes, 0).cast(I32);
    let analyzer = Analyzer::new();
    assert!(analyzer.can_prove(&(&wide + 1).greater(&wide)));
    assert!(analyzer.can_prove_equal(&(&wide * 2).floor_div(2), &wide));
    assert!(analyzer.can_prove(&(&wide * 16).less(4096)));
}

/// Rules that were wrong at the limits of types even for indices.
#[test]
fn limits_of_types_hold_for_indices() {
    for dtype in [I32, I64] {
        let x = Var::new("x", dtype);
        let (min, max) = ends(dtype);
        let number = |value: i128| constant(dtype, value);
        let third = number(-3);
        let exprs = [
            x.floor_mod(number(max)),
            x.floor_div(number(max)),
            x.floor_div(&third),
            x.floor_mod(&third),
            x.floor_div(number(1 << 20)).floor_div(number(1 << 20)),
            x.floor_mod(number(1 << 20)).floor_div(number(1 << 11)),
            Expr::binary(BinaryOp::Div, &x, -1),
            Expr::binary(BinaryOp::ShiftRight, &x, number(-1)),
            Expr::binary(BinaryOp::ShiftRight, &x, number(i128::from(dtype.bits()))),
            Expr::binary(BinaryOp::ShiftLeft, &x, number(-1)),
            Expr::select(number(max).greater_equal(&x), number(1), number(0)),
            Expr::select(number(min).less_equal(&x), number(1), number(0)),
            Expr::select(x.less_equal(number(max)), number(1), number(0)),
            Expr::select(x.greater(number(max)), number(1), number(0)),
            Expr::select(x.floor_div(&third).greater(number(0)), number(1), number(0)),
        ];
        for expr in exprs {
            let analyzer = Analyzer::new();
            let (simple, interval) = (analyzer.simplify(&expr), analyzer.const_interval(&expr));
            for at in [min, min + 1, -4, -1, 0, 1, 5, max - 1, max] {
                let values = Values { vars: HashMap::from([(x.clone(), at)]), ..Values::default() };
                let expected = value(&expr, &values);
                assert_eq!(value(&simple, &values), expected, "{} is {} at {at}", text(&expr), text(&simple));
                assert!(interval.contains(expected as i64), "{} in {interval} at {at}", text(&expr));
            }
        }
    }
}
