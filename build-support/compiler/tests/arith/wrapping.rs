//! Data wraps: random expressions in the analyzer, and rules at the limits of types.
//!
//! A million expressions take 12 minutes of one core in the analyzer, and half an hour in compiled
//! code; all cores share the work:
//!
//! ```text
//! cargo test -p kernpack-compiler --test arith --test codegen -- --ignored --nocapture in_a_million_expressions
//! ```
//!
//! The environment variable `KERNPACK_WRAPPING_CASES` sets another number, also for the tests that
//! are not ignored.

use std::collections::HashMap;

use kernpack_compiler::arith::{Analyzer, ConstInterval, IntSet, ModularSet, SetMap, deduce_bound, same};
use kernpack_compiler::ir::mutate::{Mutate, mutate_expr_parts};
use kernpack_compiler::ir::visit::for_each_expr;
use kernpack_compiler::ir::{
    BOOLEAN, BinaryOp, Buffer, CompareOp, DataTypeExt, Expr, ExprNode, I8, I16, I32, I64, Range, U8, U64, Var,
};

use crate::evaluate::{Random, text};
use crate::integers::{Space, TYPES, Values, cases, constant, ends, in_parallel, keeps_indices, value};

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
    check_all(seed, cases, |space, random| {
        let dtype = *random.of(&TYPES);
        let depth = random.between(1, 4) as u32;
        if random.between(0, 2) == 0 {
            space.condition(random, depth - 1, &mut Vec::new())
        } else {
            space.integer(random, dtype, depth, &mut Vec::new())
        }
    });
}

fn check_all(seed: u64, cases: usize, make: impl Fn(&Space, &mut Random) -> Expr) {
    let mut random = Random(seed);
    let space = Space::new();
    for case in 0..cases {
        let analyzer = Analyzer::new();
        analyzer.bind(&space.index, &Range::until(8));
        let expr = make(&space, &mut random);
        let simple = analyzer.simplify(&expr);
        let again = analyzer.simplify(&simple);
        let (interval, modular) = (analyzer.const_interval(&expr), analyzer.modular_set(&expr));
        let sets = SetMap::from([(space.index.clone(), IntSet::of_range(&Range::until(8)))]);
        let set = IntSet::evaluate(&expr, &sets, &analyzer);
        let proved = expr.dtype().is_bool() && analyzer.can_prove(&expr);
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

fn bounded_by_eight(var: &Var) -> Analyzer {
    let analyzer = Analyzer::new();
    analyzer.bind(var, &Range::new(constant(var.dtype(), 0), constant(var.dtype(), 8)));
    analyzer
}

/// Data that cancels out leaves indices and constants, but arithmetic on them wraps as before.
#[test]
fn data_that_cancels_out_still_wraps() {
    check_all(13, cases(4000), |space, random| space.of_cancelled(random));
    for dtype in [I32, I64] {
        let space = Space::new();
        let x = space.load(&mut Random(1), dtype);
        let i = Var::new("i", dtype);
        for analyzer in [bounded_by_eight(&i), Analyzer::new()] {
            let back = &x - (&x + &i);
            let zero = Expr::binary(BinaryOp::BitAnd, &x, constant(dtype, 0));
            let product = &back * constant(dtype, 1 - ends(dtype).1);
            let named = |value: &Expr, factor: i128| {
                let (var, number) = (Var::new("y", dtype), constant(dtype, factor));
                let body = (var.expr() * number).less(0);
                Expr::from_node(ExprNode::Let { var, value: value.clone(), body })
            };
            let exprs = [
                back.greater(&product),
                product.less(0),
                product.floor_div(2).less(0),
                (&zero + &i) * constant(dtype, ends(dtype).1),
                (&zero + constant(dtype, ends(dtype).1)) * &i,
                Expr::select(x.equals(&x), i.expr(), x.clone()) * constant(dtype, ends(dtype).1),
                named(&back, 1 - ends(dtype).1),
                named(&back, 3),
                named(&x, 3),
            ];
            for (expr, at) in exprs.iter().flat_map(|expr| (0..8).map(move |at| (expr, at))) {
                let mut values = Values::random(&space, &mut Random(2), 0);
                values.vars.insert(i.clone(), at);
                let simple = analyzer.simplify(expr);
                let again = analyzer.simplify(&simple);
                let about = || format!("{} gives {}, {} with i = {at}", text(expr), text(&simple), text(&again));
                assert_eq!(value(&simple, &values), value(expr, &values), "{}", about());
                assert_eq!(value(&again, &values), value(expr, &values), "{}", about());
            }
            // What is left is simple where it is not an operand, and where it fits.
            assert!(same(&analyzer.simplify(&(&x + &i - &x)), &i));
            assert!(same(&analyzer.simplify(&(&x + &i - &x).less(4)), &analyzer.simplify(&i.less(4))));
            assert!(analyzer.simplify(&((&x + 5 - &x) * 3)).is_int(15));
        }
        // Vectors keep the data of their parts.
        let lanes = (&x - (&x + &i)).broadcast(4) * constant(dtype, ends(dtype).1).broadcast(4);
        let mut reads = false;
        for_each_expr(&bounded_by_eight(&i).simplify(&lanes), |part| reads |= matches!(**part, ExprNode::Load { .. }));
        assert!(reads);
    }
}

/// A choice by a named condition on data is data, as one by the condition itself.
#[test]
fn choices_by_named_conditions_wrap() {
    for dtype in [I32, I64] {
        let space = Space::new();
        let x = space.load(&mut Random(1), dtype);
        let most = ends(dtype).1;
        for condition in [x.greater(0), x.less_equal(0)] {
            let name = Var::new("c", BOOLEAN);
            let chosen = Expr::select(name.expr(), constant(dtype, 1 - most), constant(dtype, 4));
            let body = (chosen - constant(dtype, most)).greater_equal(0);
            let expr = Expr::from_node(ExprNode::Let { var: name, value: condition, body });
            let simple = Analyzer::new().simplify(&expr);
            for seed in 1..9 {
                let values = Values::random(&space, &mut Random(seed), 0);
                assert_eq!(value(&simple, &values), value(&expr, &values), "{} gives {}", text(&expr), text(&simple));
            }
        }
    }
}

#[test]
#[ignore = "takes minutes"]
fn data_keeps_its_values_in_a_million_expressions() {
    in_parallel(cases(1_000_000), 1000, |part| check(1000 + part, 1000));
}

/// Rules that hold for whole numbers, but not for data.
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
        // Conditions that hold for all values.
        for condition in [a.less_equal(&max), max.greater_equal(&a), (&a + &a).equals(&a * 2), (&a + 1).differs(&a)] {
            assert!(analyzer.can_prove(&condition), "{}", text(&condition));
        }
        assert!(analyzer.simplify(&(&a + 1 - &a)).is_int(1));
    }
    // Casts that truncate convert indices to data.
    let i = Var::index("i");
    for (dtype, step) in [(I8, 8), (I16, 256), (I32, 8192)] {
        // Sums in canonical form, and in other forms.
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
    // A sum that wraps does not have the common divisors of its parts.
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

/// A random expression of indices, with factors and quotients that are far apart, and perhaps with
/// differences.
fn of_indices(random: &mut Random, vars: &[Var], depth: u32, differences: bool) -> Expr {
    if depth == 0 {
        return random.of(vars).expr().clone();
    }
    let part = |random: &mut Random| of_indices(random, vars, depth - 1, differences);
    let a = part(random);
    if differences && random.between(0, 2) == 0 {
        return a - part(random);
    }
    match random.between(0, 8) {
        0 | 1 => a + part(random),
        2 => a * *random.of(&[2, 3, 5, 16, 65_536, 262_144]),
        3 => a.floor_mod(*random.of(&[2, 3, 12, 16, 48, 65_536])),
        4 => a.floor_div(*random.of(&[2, 3, 12, 16, 65_536])),
        5 | 6 => {
            let inner = a.floor_mod(*random.of(&[16, 24, 65_536])) * *random.of(&[1, 3, 5, 65_536]);
            (inner + part(random)).floor_mod(*random.of(&[4, 12, 16, 48]))
        }
        7 => a.min(part(random)),
        _ => {
            let op = *random.of(&[BinaryOp::FloorDiv, BinaryOp::FloorMod, BinaryOp::Div, BinaryOp::Mod]);
            let size = vars.last().map_or(a.clone(), |var| var.expr().clone());
            let b = match random.between(0, 3) {
                0 => a.clone(),
                1 => part(random),
                2 => size - 1,
                _ => size.floor_div(*random.of(&[2, 4])),
            };
            let a = if random.between(0, 2) == 0 { &b * *random.of(&[1, 2, 5]) + a } else { a };
            Expr::binary(op, a, b)
        }
    }
}

/// An expression of indices, or a comparison of one with another one or with 0.
fn of_indices_or_truth(random: &mut Random, vars: &[Var], differences: bool) -> Expr {
    let depth = random.between(1, 3) as u32;
    let expr = of_indices(random, vars, depth, differences);
    if random.between(0, 2) > 0 {
        return expr;
    }
    let ops = [CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge, CompareOp::Eq, CompareOp::Ne];
    let other = if random.between(0, 1) == 0 {
        constant(expr.dtype(), 0)
    } else {
        of_indices(random, vars, depth - 1, differences)
    };
    Expr::compare(*random.of(&ops), expr, other)
}

/// Tells whether there is a difference in an expression.
fn takes_away(expr: &Expr) -> bool {
    let mut found = false;
    for_each_expr(expr, |part| found |= matches!(&**part, ExprNode::Binary { op: BinaryOp::Sub, .. }));
    found
}

/// Tells whether all parts lie in the middle half of their types, as is assumed of indices.
fn lies_in_the_middle(expr: &Expr, values: &Values) -> bool {
    let mut lies = true;
    for_each_expr(expr, |part| {
        let (min, max) = ends(part.dtype());
        lies &= !part.dtype().is_int() || (min / 2..=max / 2).contains(&value(part, values));
    });
    lies
}

/// Expressions of indices that are large, but do not overflow, keep their value when they are
/// simplified, and do not overflow then. With differences, parts of sums may wrap in between.
#[test]
fn large_indices_keep_their_values() {
    let mut random = Random(47);
    let mut looked_at = 0;
    for case in 0..cases(4000) {
        let dtype = *random.of(&[I32, I64]);
        let size = Var::size("n", dtype);
        let vars = ["i", "j", "k"].map(|name| Var::new(name, dtype));
        let (differences, is_known) = (random.between(0, 1) == 0, random.between(0, 1) == 0);
        // Ends that are known, and that are not: those are less than 2^47.
        let end = ends(dtype).1;
        let most = *random.of(&[0, 2, 9, 70_000, 1_000_000_000, end / 2, end - 1]);
        let most = if is_known { most } else { most.min(1 << 46) };
        let extent = if is_known { constant(dtype, most + 1) } else { size.expr().clone() };
        let analyzer = Analyzer::new();
        vars.iter().for_each(|var| analyzer.bind(var, &Range::new(constant(dtype, 0), &extent)));
        // Sizes are divisors, too.
        let with_size = [&vars[..], std::slice::from_ref(&size)].concat();
        let vars_of_parts = if random.between(0, 1) == 0 { &vars[..] } else { &with_size };
        let expr = of_indices_or_truth(&mut random, vars_of_parts, differences);
        let simple = analyzer.simplify(&expr);
        let again = analyzer.simplify(&simple);
        let (interval, modular) = (analyzer.const_interval(&expr), analyzer.modular_set(&expr));
        for _ in 0..12 {
            let mut values = Values { vars: HashMap::from([(size.clone(), most + 1)]), ..Values::default() };
            let largest = most.min(end / 2);
            for var in &vars {
                let any = i128::from(random.next() >> 1) % (largest + 1);
                values
                    .vars
                    .insert(var.clone(), *random.of(&[0, largest.min(1), (largest - 1).max(0), largest, any, any]));
            }
            if !lies_in_the_middle(&expr, &values) || !keeps_indices(&expr, &values) {
                continue;
            }
            looked_at += 1;
            let expected = value(&expr, &values);
            let about = || format!("case {case}: {} gives {} with {:?}", text(&expr), text(&simple), values.vars);
            assert_eq!(value(&simple, &values), expected, "{}", about());
            assert_eq!(value(&again, &values), expected, "again {}: {}", text(&again), about());
            assert!(takes_away(&expr) || keeps_indices(&simple, &values), "overflows: {}", about());
            assert!(interval.contains(expected as i64), "{expected} in {interval}: {}", about());
            assert!(modular.contains(expected as i64), "{expected} in {modular}: {}", about());
        }
    }
    assert!(looked_at > cases(4000), "{looked_at}");
}

/// A part of a sum with terms of both signs may be larger than the sum and than its type: it is not
/// computed. Where bounds say that it fits, and where all terms have one sign, sums are taken
/// apart.
#[test]
fn parts_of_differences_are_computed_only_where_they_fit() {
    let named = |dtype| ["i", "j", "k"].map(|name| Var::new(name, dtype));
    let bound = |vars: &[Var], extent: &Expr| {
        let analyzer = Analyzer::new();
        vars.iter().for_each(|var| analyzer.bind(var, &Range::new(constant(var.dtype(), 0), extent)));
        analyzer
    };
    let size = |dtype| Var::size("m", dtype).expr().clone();
    let vars = named(I32);
    let [i, j, k] = &vars;
    let n = &Var::size("n", I32);
    // With the values of i, j, k and n.
    let rows = [
        (((i - j) * 4 + j).floor_div(4), [1_000_000_000, 1_000_000_000, 0, 1], 250_000_000),
        (((i - j) * 6 + j).floor_mod(6), [1_000_000_000, 1_000_000_000, 0, 1], 4),
        (((i - j) * 4 + j).less(0), [600_000_000, 600_000_000, 0, 1], 0),
        (((i - j) * 65_536 + k).less(5), [32_767, 32_767, 70_000, 1], 0),
        (((j - i * n) * 4 - j).floor_div(n), [100_000, 1_000_000_000, 0, 10_000], -100_000),
        (((j - i * n) * 4 - j).floor_mod(n), [100_000, 1_000_000_007, 0, 10_000], 21),
        (((i - j) * 4 + j).min((i - j) * 4 + k), [700_000_000, 700_000_000, 0, 1], 0),
        // A minimum is smaller than its operands.
        ((i.expr().min(3) * 65_536 + k).less(5), [65_536, 0, 0, 1], 0),
    ];
    for extent in [constant(I32, 1_000_000_008), size(I32)] {
        let analyzer = bound(&vars, &extent);
        for (expr, at, expected) in &rows {
            let values = Values { vars: [i, j, k, n].into_iter().cloned().zip(*at).collect(), ..Values::default() };
            assert!(lies_in_the_middle(expr, &values), "{}", text(expr));
            assert_eq!(value(expr, &values), *expected, "{}", text(expr));
            let simple = analyzer.simplify(expr);
            assert_eq!(value(&simple, &values), *expected, "{} gives {}", text(expr), text(&simple));
            let again = analyzer.simplify(&simple);
            assert!(same(&again, &simple), "{} gives {}", text(&simple), text(&again));
        }
        // All terms have one sign.
        let pairs = [
            ((i * 64 + j * 3).floor_div(64), i + (j * 3).floor_div(64)),
            ((i * 64 + j).less(k * 64 + j * 5), (i * 16).less(k * 16 + j)),
        ];
        for (expr, expected) in pairs {
            let simple = analyzer.simplify(&expr);
            assert!(same(&simple, &expected), "{} gives {}", text(&expr), text(&simple));
        }
    }
    // Small indices, and indices of 64 bits whose end is not known.
    for (dtype, extent) in [(I32, constant(I32, 1000)), (I64, constant(I64, 1000)), (I64, size(I64))] {
        let vars = named(dtype);
        let [i, j, k] = &vars;
        let analyzer = bound(&vars, &extent);
        let zero = constant(dtype, 0);
        let pairs = [
            (((i - j) * 4 + j).floor_div(4), i + (&zero - j * 3).floor_div(4)),
            (((i - j) * 6 + j).floor_mod(6), (&zero - j * 5).floor_mod(6)),
            (((i - j) * 4 + j).less(0), (i * 4).less(j * 3)),
            (((i - j) * 8 + k).less(5), (i * 8 + k).less(j * 8 + 5)),
        ];
        for (expr, expected) in pairs {
            let simple = analyzer.simplify(&expr);
            assert!(same(&simple, &expected), "{} gives {}", text(&expr), text(&simple));
        }
    }
}

/// A difference or a quotient of sizes, or what is left of its bits, may be 0, and by 0 quotient
/// and remainder are 0. Inside a loop with that extent it is not.
#[test]
fn divisors_that_are_differences_of_sizes_may_be_zero() {
    for dtype in [I32, I64] {
        let [n, m] = ["n", "m"].map(|name| Var::size(name, dtype));
        let i = Var::new("i", dtype);
        let (less, part, apart) = (n.expr() - 1, n.expr().floor_div(4), n.expr() - &m);
        let bits = |op, by: &Expr| Expr::binary(op, n.expr(), by.clone());
        let one = constant(dtype, 1);
        let divisors = [
            less,
            part,
            apart,
            (n.expr() - 1) * &m,
            m.expr() * n.expr().floor_mod(3),
            bits(BinaryOp::ShiftRight, &constant(dtype, 2)),
            bits(BinaryOp::ShiftLeft, &constant(dtype, i128::from(dtype.bits()))),
            bits(BinaryOp::BitAnd, &one),
            bits(BinaryOp::BitXor, m.expr()),
            Expr::select(n.greater(2), n.expr(), constant(dtype, 0)),
            n.greater(2).cast(dtype) * &m,
        ];
        for divisor in &divisors {
            let rows = [
                (divisor * 2).floor_div(divisor),
                (divisor + &i).floor_div(divisor),
                (divisor * 2 + divisor * &i).floor_div(divisor),
                Expr::binary(BinaryOp::Div, divisor * 3, divisor.clone()),
                i.expr().floor_div(divisor) * divisor + i.expr().floor_mod(divisor),
                (i.expr() - i.expr().floor_mod(divisor)).floor_div(divisor),
            ];
            let analyzer = Analyzer::new();
            for (expr, (size, other)) in rows.iter().flat_map(|expr| [1, 2, 3, 4, 9].map(|n| (expr, (n, 1)))) {
                let vars = HashMap::from([(n.clone(), size), (m.clone(), other), (i.clone(), 7)]);
                let values = Values { vars, ..Values::default() };
                let simple = analyzer.simplify(expr);
                let about = || format!("{} gives {} with n = {size}", text(expr), text(&simple));
                assert_eq!(value(&simple, &values), value(expr, &values), "{}", about());
            }
            // The loops of that extent, and those that were fused of it and another one.
            for extent in [divisor.clone(), divisor * Var::size("k", dtype).expr(), divisor * 8] {
                let analyzer = Analyzer::new();
                analyzer.bind(&i, &Range::new(constant(dtype, 0), &extent));
                let simple = analyzer.simplify(&rows[0]);
                assert!(simple.is_int(2), "{} in a loop of {} gives {}", text(&rows[0]), text(&extent), text(&simple));
            }
        }
    }
}

/// `(x - y)*c + z*d` of indices.
pub(super) fn mixed_sum(random: &mut Random, vars: &[Var]) -> Expr {
    let [x, y, z] = [(); 3].map(|()| random.of(vars).expr().clone());
    let factor = |random: &mut Random| *random.of(&[1, 2, 3, 4, 1000, 65_536]);
    (x - y) * factor(random) + z * factor(random) + random.between(-3, 3)
}

/// Inside of the interval that is found for a variable a comparison of sums with terms of both
/// signs holds, although parts of them are larger than all that it computes.
#[test]
fn bounds_of_differences_hold() {
    let mut random = Random(53);
    let (mut solved, mut looked_at) = (0, 0);
    for case in 0..cases(4000) {
        let dtype = *random.of(&[I32, I64]);
        let vars = ["i", "j", "k"].map(|name| Var::new(name, dtype));
        let [i, j, k] = &vars;
        let left = mixed_sum(&mut random, &vars);
        let right = if random.between(0, 1) == 0 { j.expr().clone() } else { mixed_sum(&mut random, &vars) };
        let ops = [CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge, CompareOp::Eq];
        let condition = Expr::compare(*random.of(&ops), left, right);
        let start = ends(dtype).1 >> random.between(1, 40).min(if dtype == I32 { 8 } else { 40 });
        let start = start.min(1 << 46);
        let number = |at: i128| constant(dtype, at);
        let analyzer = Analyzer::new();
        if random.between(0, 1) == 0 {
            vars.iter().for_each(|var| analyzer.bind(var, &Range::new(number(0), number(start + 8))));
        }
        let relaxed = SetMap::from([(k.clone(), IntSet::interval(number(start), number(start + 4)))]);
        let Some(set) = deduce_bound(i, &condition, &relaxed, &analyzer) else { continue };
        let IntSet::Interval { min, max } = set else { continue };
        solved += 1;
        for _ in 0..12 {
            let mut near = || start + i128::from(random.between(0, 4));
            let vars = HashMap::from([(i.clone(), near()), (j.clone(), near()), (k.clone(), near())]);
            let values = Values { vars, ..Values::default() };
            let at = values.vars[i];
            let is_inside = min.as_ref().is_none_or(|min| value(min, &values) <= at)
                && max.as_ref().is_none_or(|max| at <= value(max, &values));
            if is_inside && lies_in_the_middle(&condition, &values) && keeps_indices(&condition, &values) {
                looked_at += 1;
                let about = (text(&condition), end(min.as_ref()), end(max.as_ref()));
                assert_eq!(value(&condition, &values), 1, "case {case}: {about:?} with {:?}", values.vars);
            }
        }
    }
    assert!(solved > cases(4000) / 10 && looked_at > cases(4000) / 20, "{solved} solved, {looked_at} looked at");
}

/// Tells whether a value lies in an interval, whose infinite ends are no bounds.
fn holds(interval: ConstInterval, value: i128) -> bool {
    (interval.min == ConstInterval::NEG_INF || i128::from(interval.min) <= value)
        && (interval.max == ConstInterval::POS_INF || value <= i128::from(interval.max))
}

/// Facts about multiples, divisors, remainders and bounds imply nothing wrong where values wrap,
/// are 0 or leave `i64`.
#[test]
fn facts_end_at_the_limits_of_types() {
    // A power of two that is greater than all values of the type divides nothing.
    let data = Buffer::new("data", I32, [Expr::int(4)], "global");
    let [x, y] = [0, 1].map(|element| Expr::load(&data, element) * 65_536 + 16_384);
    for least in [x.min(&y), x.max(&y), x.clone()] {
        let product = &least * 262_144;
        let analyzer = Analyzer::new();
        assert!(analyzer.modular_set(&product).contains(0), "{}", analyzer.modular_set(&product));
        let zero = analyzer.simplify(&product.equals(0));
        for at in [[0, 0], [1, -1], [i128::from(i32::MAX), i128::from(i32::MIN)], [12_345, -54_321]] {
            let elements = HashMap::from([(("data".to_owned(), 0), at[0]), (("data".to_owned(), 1), at[1])]);
            let values = Values { elements, ..Values::default() };
            assert_eq!(value(&zero, &values), value(&product.equals(0), &values), "{} at {at:?}", text(&zero));
        }
    }
    assert!(ModularSet::new(3, 1).contains(i64::MIN) && !ModularSet::new(3, 2).contains(i64::MIN));

    // An inner remainder keeps a sum small.
    let (i, j) = (Var::new("i", I32), Var::new("j", I32));
    let analyzer = Analyzer::new();
    [&i, &j]
        .into_iter()
        .for_each(|var| analyzer.bind(var, &Range::new(constant(I32, 0), constant(I32, 1_000_000_001))));
    let sum = (i.floor_mod(16) * 3 + &j).floor_mod(12);
    let simple = analyzer.simplify(&sum);
    let values = Values { vars: HashMap::from([(i.clone(), 1_000_000_000), (j, 0)]), ..Values::default() };
    assert!(keeps_indices(&simple, &values), "{}", text(&simple));
    assert_eq!(value(&simple, &values), value(&sum, &values), "{}", text(&simple));
    // For small indices it is not needed.
    let analyzer = Analyzer::new();
    let (i, j) = (Var::new("i", I32), Var::new("j", I32));
    [&i, &j].into_iter().for_each(|var| analyzer.bind(var, &Range::new(constant(I32, 0), constant(I32, 1000))));
    assert!(analyzer.can_prove_equal(&(i.floor_mod(16) * 3 + &j).floor_mod(12), &(&i * 3 + &j).floor_mod(12)));

    // The first iteration of a loop is 0, for any end.
    for dtype in [I32, I64] {
        let (i, n, k) = (Var::new("i", dtype), Var::size("n", dtype), Var::new("k", dtype));
        let analyzer = Analyzer::new();
        analyzer.bind(&i, &Range::new(constant(dtype, 0), &n));
        analyzer.bind_equal(&k, &(&i * 2));
        let quotients =
            [i.floor_div(&i), (&i * &n).floor_div(&i), k.floor_div(&k), (&i * &n + &i).floor_div(&i * &n + &i)];
        for quotient in quotients {
            let simple = analyzer.simplify(&quotient);
            let vars = HashMap::from([(i.clone(), 0), (n.clone(), 5), (k.clone(), 0)]);
            let values = Values { vars, ..Values::default() };
            assert_eq!(value(&simple, &values), 0, "{} is {}", text(&quotient), text(&simple));
        }
        // A size is a valid divisor.
        assert!(analyzer.simplify(&(&i * &n).floor_div(&n)).same_as(&i));
    }
}

/// A stride with a factor that does not fit in `i64` is not split: no term gets lost.
#[test]
fn strides_beyond_i64_keep_their_terms() {
    let data = Buffer::new("data", I64, [Expr::int(4)], "global");
    let stride = Expr::load(&data, 0) * 3i64.pow(25) + 1;
    let lanes = constant(I64, 0).ramp(1, 4);
    let vector = stride.broadcast(4) * lanes * constant(I64, 3i128.pow(20)).broadcast(4);
    let simple = Analyzer::new().simplify(&vector);
    let mut loads = false;
    for_each_expr(&simple, |part| loads |= matches!(**part, ExprNode::Load { .. }));
    assert!(loads, "{}", text(&simple));
}

/// A difference whose bounds leave `i64` at one term and return at the next ones.
#[test]
fn bounds_come_back_from_beyond_i64() {
    let data = Buffer::new("data", I64, [Expr::int(4)], "global");
    let between =
        |element: i64, least: i128| Expr::load(&data, element).max(constant(I64, least)).min(constant(I64, least + 1));
    let quarter = (1i128 << 62) + 10;
    let left = between(0, 20);
    // From 30 to 33, but the left side minus its first part is greater than 2^63.
    let right = between(1, 10 - (1i128 << 63)) + between(2, quarter) + between(3, quarter);
    let conditions = [
        left.less(&right),
        left.less_equal(&right),
        right.less(&left),
        left.equals(&right),
        left.min(&right).equals(&left),
        left.max(&right).equals(&right),
    ];
    for condition in conditions {
        let simple = Analyzer::new().simplify(&condition);
        for at in [0, 21, 31, i128::from(i64::MAX), i128::from(i64::MIN)] {
            let elements = (0..4).map(|element| (("data".to_owned(), element), at)).collect();
            let values = Values { elements, ..Values::default() };
            let expected = value(&condition, &values);
            assert_eq!(value(&simple, &values), expected, "{} gives {} at {at}", text(&condition), text(&simple));
        }
    }
}

/// Bounds of unsigned 64-bit integers, and of lanes some of which are divided by 0.
#[test]
fn bounds_hold_beyond_i64_and_by_zero() {
    let i = Var::index("i");
    let analyzer = Analyzer::new();
    analyzer.bind(&i, &Range::new(-5, 9));
    let values = |at: i128| Values { vars: HashMap::from([(i.clone(), at)]), ..Values::default() };
    let wide = i.cast(U64);
    for expr in [wide.clone(), wide.clone() + constant(U64, 1), constant(U64, -1)] {
        let interval = analyzer.const_interval(&expr);
        for at in [-5, -1, 0, 3] {
            let expected = value(&expr, &values(at));
            assert!(holds(interval, expected), "{expected} in {interval}: {}", text(&expr));
        }
    }
    let binary =
        |op, a: &Expr, b: &Expr| Expr::from_node(ExprNode::Binary { op, a: a.clone(), b: b.clone(), dtype: a.dtype() });
    let lanes = |first: &Expr, step: i64| first.ramp(step, 4);
    let unsigned = |vector: Expr| vector.cast(U64.with_lanes(4));
    let three = unsigned(lanes(&Expr::int(3), 0));
    let negative = unsigned(lanes(i.expr(), 1));
    // Each with a value of one of its lanes.
    let rows = [
        (negative.clone(), (1i128 << 64) - 5),
        (binary(BinaryOp::Max, &negative, &three), (1i128 << 64) - 5),
        (binary(BinaryOp::Sub, &three, &unsigned(lanes(&Expr::int(4), 1))), (1i128 << 64) - 1),
        (binary(BinaryOp::Mod, &lanes(&Expr::int(9), 1), &lanes(&Expr::int(0), 0)), 0),
        (binary(BinaryOp::Mod, &lanes(&Expr::int(9), 0), &lanes(&Expr::int(-2), 1)), 0),
        (binary(BinaryOp::FloorDiv, &lanes(&Expr::int(9), 0), &lanes(&Expr::int(0), 1)), 0),
        (binary(BinaryOp::FloorMod, &lanes(&Expr::int(9), 1), &lanes(&Expr::int(0), 30)), 0),
    ];
    for (expr, lane) in rows {
        // The part is examined as a lane whose number is not known.
        let nested = binary(BinaryOp::Min, &expr, &expr);
        for expr in [&expr, &nested] {
            let interval = analyzer.const_interval(expr);
            assert!(interval.min <= interval.max && holds(interval, lane), "{lane} in {interval}: {}", text(expr));
        }
    }
}

/// Quotients that are compared with unknown values, with divisors of both signs.
#[test]
fn quotients_are_solved_for_their_dividend() {
    let (i, n) = (Var::index("i"), Var::index("n"));
    let none = SetMap::new();
    let at_least = deduce_bound(&i, &i.floor_div(4).greater_equal(&n), &none, &Analyzer::new()).unwrap();
    assert!(at_least.max().is_none());
    assert!(Analyzer::new().can_prove_equal(at_least.min().unwrap(), &(&n * 4)), "{}", end(at_least.min()));
    for divisor in [4, 3, 1, -1, -3, -4] {
        for offset in [0, 1, -5] {
            let quotient = (&i + offset).floor_div(divisor);
            for condition in [
                quotient.greater_equal(&n),
                quotient.greater(&n),
                quotient.less(&n),
                quotient.less_equal(&n),
                n.expr().less(&quotient),
            ] {
                let Some(set) = deduce_bound(&i, &condition, &none, &Analyzer::new()) else {
                    assert!(divisor < 0, "{}", text(&condition));
                    continue;
                };
                for (at, limit) in (-30..=30).flat_map(|at| (-4..=4).map(move |limit| (at, limit))) {
                    let vars = HashMap::from([(i.clone(), at), (n.clone(), limit)]);
                    let values = Values { vars, ..Values::default() };
                    let inside = set.min().is_none_or(|min| value(min, &values) <= at)
                        && set.max().is_none_or(|max| at <= value(max, &values));
                    let holds = value(&condition, &values) == 1;
                    let about = || format!("{}: {} to {}", text(&condition), end(set.min()), end(set.max()));
                    assert!(!inside || holds, "{} at {at}, {limit}", about());
                    // With a positive divisor the result is exact.
                    assert!(divisor < 0 || inside == holds, "{} at {at}, {limit}", about());
                }
            }
        }
    }
}
