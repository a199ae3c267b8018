//! Conditions at the limits of types, and on data that wraps: conditions solved for a variable hold
//! for machine integers, and so do the bounds of partitioned loops.

use kernpack::DataType;
use kernpack_compiler::arith::{Analyzer, IntSet, SetMap, deduce_bound};
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{
    Buffer, CompareOp, Expr, ForKind, FuncKind, I32, I64, LoweredFunc, LoweredFuncNode, POINTER, Param, ParamNode,
    Range, Stmt, Var,
};
use kernpack_compiler::pass::loop_partition::loop_partition;
use kernpack_compiler::pass::simplify::simplify;
use kernpack_compiler::pass::{PassContext, PassOptions};
use kernpack_compiler::text as programs;

use crate::evaluate::{Random, text};
use crate::integers::{Space, Values, constant, ends, extreme, keeps_indices, value};
use crate::wrapping::mixed_sum;

const ORDERED: [CompareOp; 5] = [CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge, CompareOp::Eq];

/// A factor: small, or so large that few multiples fit.
fn factor(random: &mut Random, most: i128) -> i128 {
    let large = most >> random.between(0, 3);
    *random.of(&[1, 1, -1, 2, 3, -4, 8, large])
}

/// `outer * a + inner * b + c`, possibly as a dividend, or times data. Numbers are up to a part of
/// the type.
fn indices(random: &mut Random, outer: &Expr, inner: &Expr, data: &Expr, part: i128) -> Expr {
    let dtype = outer.dtype();
    let number = |value: i128| constant(dtype, value);
    let (min, max) = (ends(dtype).0 / part, ends(dtype).1 / part);
    let most = max / if part == 1 { 1 } else { 16 };
    let first = if random.between(0, 9) == 0 { outer * data } else { outer * number(factor(random, most)) };
    let near = i128::from(random.between(-3, 3));
    let offset = match random.between(0, 5) {
        0 => min + 8 + near,
        1 => max - 8 + near,
        _ => near,
    };
    let mut sum = first + number(offset);
    if random.between(0, 1) == 0 {
        sum = sum + inner * number(*random.of(&[1, -1, 3]));
    }
    if random.between(0, 3) == 0 {
        sum = sum.floor_div(number(factor(random, most).abs().max(2)));
    }
    sum
}

/// The bound with which indices are compared: data with a sum that may wrap, or a constant.
fn limit(random: &mut Random, data: &Expr) -> Expr {
    let dtype = data.dtype();
    let number = constant(dtype, extreme(random, dtype));
    let near = constant(dtype, random.between(-3, 3).into());
    match random.between(0, 4) {
        0 => number,
        1 => data + near,
        2 => data - number,
        3 => data * constant(dtype, factor(random, ends(dtype).1)),
        _ => data.clone(),
    }
}

fn condition(random: &mut Random, left: Expr, right: Expr) -> Expr {
    let op = *random.of(&ORDERED);
    if random.between(0, 3) == 0 { Expr::compare(op, right, left) } else { Expr::compare(op, left, right) }
}

/// In the interval that is found, the condition holds for all values of the inner variable.
#[test]
fn solved_conditions_hold_at_the_limits_of_types() {
    let mut random = Random(31);
    let space = Space::new();
    let mut solved = 0;
    for _ in 0..6000 {
        let dtype = *random.of(&[I32, I64]);
        let (outer, inner) = (Var::new("outer", dtype), Var::new("inner", dtype));
        let data = space.load(&mut random, dtype);
        let right = limit(&mut random, &data);
        let left = indices(&mut random, outer.expr(), inner.expr(), &data, 1);
        let condition = condition(&mut random, left, right);
        let least = random.between(-3, 3);
        let most = least + random.between(0, 4);
        let end = |at: i64| constant(dtype, at.into());
        let relaxed = SetMap::from([(inner.clone(), IntSet::interval(end(least), end(most)))]);
        let Some(set) = deduce_bound(&outer, &condition, &relaxed, &Analyzer::new()) else { continue };
        let IntSet::Interval { min, max } = set else { continue };
        solved += 1;
        for _ in 0..4 {
            let index = random.between(0, 7);
            let mut values = Values::random(&space, &mut random, index);
            let (low, high) = ends(dtype);
            let first = min.as_ref().map_or(low, |min| value(min, &values));
            let last = max.as_ref().map_or(high, |max| value(max, &values));
            let points = [first, first + 1, last - 1, last, low, -2, -1, 0, 1, 2, high, extreme(&mut random, dtype)];
            for at in points {
                if !(first.max(low)..=last.min(high)).contains(&at) {
                    continue;
                }
                values.vars.insert(outer.clone(), at);
                for other in [least, most] {
                    values.vars.insert(inner.clone(), other.into());
                    if keeps_indices(&condition, &values) {
                        let about = (text(&condition), dtype.to_string());
                        assert_eq!(value(&condition, &values), 1, "{about:?} at {at}, {other} of {first} to {last}");
                    }
                }
            }
        }
    }
    assert!(solved > 400, "{solved} of 6000 conditions were solved");
}

fn param(buffer: &Buffer, output: bool) -> Param {
    Param::from_node(ParamNode { var: Var::new(&buffer.name, POINTER), buffer: Some(buffer.clone()), output })
}

fn function(buffers: &[(&Buffer, bool)], body: Stmt) -> LoweredFunc {
    LoweredFunc::from_node(LoweredFuncNode {
        name: "f".into(),
        params: buffers.iter().map(|(buffer, output)| param(buffer, *output)).collect(),
        ret: kernpack_compiler::codegen::c::nothing(),
        kind: FuncKind::Mixed,
        thread_axes: Default::default(),
        body,
        attrs: Default::default(),
    })
}

/// The output of a function; `None` if the interpreter rejects it, because it allows no overflow in
/// conditions of statements.
fn run(function: &LoweredFunc, values: &[(DataType, Vec<i128>)], cells: usize) -> Option<Vec<i64>> {
    let block = |dtype: DataType, values: &[i128]| {
        let mask = u64::MAX >> (64 - u32::from(dtype.bits()));
        let lanes: Vec<u64> = values.iter().map(|value| *value as u64 & mask).collect();
        Block::from_lanes(dtype, &[values.len() as i64], &lanes)
    };
    let data: Vec<Block> = values.iter().map(|(dtype, values)| block(*dtype, values)).collect();
    let out = block(I64, &vec![0; cells]);
    let args: Vec<Arg> = data.iter().chain([&out]).map(Arg::from).collect();
    Machine::new(function).unwrap().run("f", &args).ok()?;
    Some(out.to_lanes().unwrap().into_iter().map(|lane| lane as i64).collect())
}

/// Programs compute the same after `LoopPartition`, for any data with which their guards compare,
/// and also if they store to memory that guards read.
#[test]
fn partitioned_loops_do_the_same_at_the_limits_of_types() {
    const OUTER: i64 = 5;
    const INNER: i64 = 3;
    let mut random = Random(32);
    let context = PassContext::new(PassOptions { partition_const_loop: true, ..PassOptions::default() });
    let (mut split, mut runs) = (0, 0);
    for case in 0..800 {
        let dtype = *random.of(&[I32, I64]);
        let table = Buffer::new("table", dtype, [Expr::int(2)], "global");
        let out = Buffer::new("out", I64, [Expr::int(OUTER * INNER)], "global");
        let (outer, inner) = (Var::new("outer", dtype), Var::new("inner", dtype));
        let start = constant(dtype, random.between(0, 2).into());
        // The bound is loaded in the loop or computed before it: the interpreter allows no overflow
        // in extents.
        let data = Expr::load(&table, random.between(0, 1));
        let name = Var::new("name", dtype);
        let right = limit(&mut random, &data);
        let bound = Stmt::bind(name.clone(), &right);
        let data = match random.between(0, 3) {
            0 => data,
            1 => data.max(constant(dtype, -9)).min(constant(dtype, 9)),
            _ if right.as_int().is_some() => right,
            _ => name.expr().clone(),
        };
        // Parts of sums do not overflow either, in any order.
        let left = indices(&mut random, outer.expr(), inner.expr(), &data, 2);
        let mut guard = condition(&mut random, left, data);
        let at = |var: &Var| var.expr().cast(I64);
        let place = at(&outer) * INNER + at(&inner);
        let mut then = vec![Stmt::store(out.clone(), &place, at(&outer) * 10 + at(&inner) + 1)];
        let stores = random.between(0, 4) == 0;
        if stores {
            then.push(Stmt::store(table.clone(), random.between(0, 1), constant(dtype, extreme(&mut random, dtype))));
        }
        let other = (random.between(0, 1) == 0).then(|| Stmt::store(out.clone(), &place, Expr::int(-1)));
        if random.between(0, 2) > 0 {
            guard = guard.likely();
        }
        let mut body = Stmt::if_then(guard.clone(), Stmt::seq(then), other);
        if random.between(0, 3) > 0 {
            guard = guard.without_likely().0.likely();
            body = Stmt::store(out.clone(), &place, Expr::select(guard.clone(), at(&outer) * 10 + at(&inner) + 1, -1));
        }
        let body =
            Stmt::for_loop(inner.clone(), constant(dtype, 0), constant(dtype, INNER.into()), ForKind::Serial, body);
        let extent = constant(dtype, OUTER.into()) - &start;
        let body = Stmt::for_loop(outer.clone(), start, extent, ForKind::Serial, body);
        let before = function(&[(&table, true), (&out, true)], Stmt::seq([bound, body]));
        let after = loop_partition(&before, &context).unwrap();
        split += usize::from(programs::print(&after).matches("for ").count() != 2);
        let after = simplify(&after, &context).unwrap();
        let keeps = (0..OUTER).all(|i| {
            (0..INNER).all(|j| {
                let mut values = Values::default();
                values.vars.insert(name.clone(), 1);
                values.vars.insert(outer.clone(), i.into());
                values.vars.insert(inner.clone(), j.into());
                for element in 0..2 {
                    values.elements.insert(("table".to_owned(), element), 1);
                }
                keeps_indices(&guard.without_likely().0, &values)
            })
        });
        if !keeps {
            continue;
        }
        for _ in 0..6 {
            let values = [(dtype, vec![extreme(&mut random, dtype), extreme(&mut random, dtype)])];
            let cells = (OUTER * INNER) as usize;
            let about =
                || format!("case {case} with {values:?}:\n{}{}", programs::print(&before), programs::print(&after));
            let Some(expected) = run(&before, &values, cells) else { continue };
            runs += 1;
            assert_eq!(run(&after, &values, cells), Some(expected), "{}", about());
        }
    }
    assert!(split > 40 && runs > 1000, "{split} of 800 loops were split, {runs} runs");
}

/// Quotients of quotients, and their remainders, at the limits of the types of indices.
#[test]
fn nested_quotients_of_indices_keep_their_values() {
    let mut random = Random(33);
    for _ in 0..3000 {
        let dtype = *random.of(&[I32, I64]);
        let x = Var::new("x", dtype);
        let analyzer = Analyzer::new();
        if random.between(0, 1) == 0 {
            analyzer.bind(&x, &Range::new(constant(dtype, 0), constant(dtype, ends(dtype).1 / 4 + 1)));
        }
        let mut expr = x.expr().clone();
        for _ in 0..random.between(2, 4) {
            let shift = random.between(0, i64::from(dtype.bits()) - 2);
            let number = constant(dtype, (1i128 << shift) + i128::from(random.between(-1, 1)).max(0));
            expr = match random.between(0, 4) {
                0 => expr + number,
                1 => expr.floor_mod(number),
                2 => expr - number,
                _ => expr.floor_div(number),
            };
        }
        let (simple, interval) = (analyzer.simplify(&expr), analyzer.const_interval(&expr));
        for _ in 0..12 {
            let most = ends(dtype).1 / 4;
            let least = if analyzer.const_interval(&x).min == 0 { 0 } else { -most };
            let at = extreme(&mut random, dtype).clamp(least, most);
            let mut values = Values::default();
            values.vars.insert(x.clone(), at);
            if !keeps_indices(&expr, &values) {
                continue;
            }
            let expected = value(&expr, &values);
            assert_eq!(value(&simple, &values), expected, "{} is {} at {at}", text(&expr), text(&simple));
            assert!(interval.contains(expected as i64), "{expected} in {interval}: {} at {at}", text(&expr));
        }
    }
}

/// Loops with large indices do the same after `LoopPartition`: guards of sums with terms of both
/// signs are solved only where the parts of their bounds do not overflow.
#[test]
fn partitioned_loops_of_differences_do_the_same() {
    const SIDE: i64 = 5;
    let mut random = Random(54);
    let context = PassContext::new(PassOptions { partition_const_loop: true, ..PassOptions::default() });
    let (mut split, mut runs) = (0, 0);
    for case in 0..1000 {
        let dtype = *random.of(&[I32, I32, I64]);
        let out = Buffer::new("out", I64, [Expr::int(SIDE * SIDE)], "global");
        let vars = ["outer", "inner"].map(|name| Var::new(name, dtype));
        let [outer, inner] = &vars;
        let start = ends(dtype).1 / *random.of(&[3, 5, 1000, 100_000]);
        let number = |value: i128| constant(dtype, value);
        let left = mixed_sum(&mut random, &vars);
        let at = |outer_at: i64, inner_at: i64| Values {
            vars: [(outer.clone(), start + i128::from(outer_at)), (inner.clone(), start + i128::from(inner_at))].into(),
            ..Values::default()
        };
        let (near, other) = (value(&left, &at(2, 2)), mixed_sum(&mut random, &vars));
        let right = if random.between(0, 1) == 0 { number(near) } else { other };
        let guard = condition(&mut random, left, right);
        let places = (0..SIDE).flat_map(|a| (0..SIDE).map(move |b| (a, b)));
        if !places.into_iter().all(|(a, b)| keeps_indices(&guard, &at(a, b))) {
            continue;
        }
        let place = |var: &Var| (var.expr() - number(start)).cast(I64);
        let then = Stmt::store(out.clone(), place(outer) * SIDE + place(inner), Expr::int(1));
        let body = [inner, outer].into_iter().fold(Stmt::if_then(guard.likely(), then, None), |body, var| {
            Stmt::for_loop(var.clone(), number(start), number(SIDE.into()), ForKind::Serial, body)
        });
        let before = function(&[(&out, true)], body);
        let after = loop_partition(&before, &context).unwrap();
        split += usize::from(programs::print(&after).matches("for ").count() != 2);
        let cells = (SIDE * SIDE) as usize;
        let about = || format!("case {case}:\n{}{}", programs::print(&before), programs::print(&after));
        let expected = run(&before, &[], cells).unwrap_or_else(|| panic!("{}", about()));
        assert_eq!(run(&after, &[], cells), Some(expected), "{}", about());
        runs += 1;
    }
    assert!(split > 50 && runs > 100, "{split} loops were split in {runs} programs");
}
