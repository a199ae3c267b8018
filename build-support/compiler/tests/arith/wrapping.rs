//! Data wraps: random expressions over loaded integers of all types, with values at the ends of the types, against an oracle of 128 bits.

use std::collections::HashMap;

use kernpack::DataType;
use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::ir::mutate::{Mutate, mutate_expr_parts};
use kernpack_compiler::ir::{
    BinaryOp, Buffer, CompareOp, DataTypeExt, Expr, ExprNode, I8, I16, I32, I64, LogicOp, Range, U8, U16, U32, U64, Var,
};

use crate::evaluate::{Random, text};

const TYPES: [DataType; 8] = [I8, I16, I32, I64, U8, U16, U32, U64];
const OPS: [BinaryOp; 13] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Mod,
    BinaryOp::FloorDiv,
    BinaryOp::FloorMod,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::BitAnd,
    BinaryOp::BitXor,
    BinaryOp::ShiftLeft,
    BinaryOp::ShiftRight,
];
const COMPARISONS: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

/// The value that a type has with the low bits of a number.
fn wrapped(dtype: DataType, value: i128) -> i128 {
    let bits = u32::from(dtype.bits());
    let low = value & ((1i128 << bits) - 1);
    if dtype.is_int() && low >> (bits - 1) & 1 == 1 { low - (1i128 << bits) } else { low }
}

fn ends(dtype: DataType) -> (i128, i128) {
    let bits = u32::from(dtype.bits());
    if dtype.is_int() { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) }
}

/// A value that rules are wrong for, if they are wrong.
fn extreme(random: &mut Random, dtype: DataType) -> i128 {
    let (min, max) = ends(dtype);
    let near = i128::from(random.between(0, 3));
    wrapped(
        dtype,
        match random.between(0, 7) {
            0 => min + near,
            1 => max - near,
            2 => max / 2 + near,
            3 => min / 2 - near,
            4 => i128::from(random.next() as i64),
            5 => -1 - near,
            _ => near,
        },
    )
}

fn constant(dtype: DataType, value: i128) -> Expr {
    Expr::constant(dtype, value as i64)
}

/// Loads of each type, the variables of the expression, and an index.
struct Space {
    buffers: Vec<Buffer>,
    index: Var,
}

const ELEMENTS: i64 = 3;

impl Space {
    fn new() -> Self {
        let buffer = |dtype: DataType| Buffer::new(&dtype.short_name(), dtype, [Expr::int(ELEMENTS)], "global");
        Self { buffers: TYPES.map(buffer).to_vec(), index: Var::index("i") }
    }

    fn leaf(&self, random: &mut Random, dtype: DataType, names: &[Var]) -> Expr {
        let own: Vec<&Var> = names.iter().filter(|name| name.dtype() == dtype).collect();
        if !own.is_empty() && random.between(0, 1) == 0 {
            return random.of(&own).expr().clone();
        }
        match random.between(0, 6) {
            0 => constant(dtype, extreme(random, dtype)),
            1 => constant(dtype, wrapped(dtype, i128::from(random.between(-4, 8)))),
            // Indices alone do not overflow.
            2 => {
                let op = *random.of(&OPS);
                let (a, b) = (self.load(random, dtype), self.index.expr().cast(dtype));
                Expr::from_node(ExprNode::Binary { op, a, b, dtype })
            }
            3 => {
                let from = *random.of(&TYPES);
                self.load(random, from).cast(dtype)
            }
            _ => self.load(random, dtype),
        }
    }

    fn load(&self, random: &mut Random, dtype: DataType) -> Expr {
        let place = TYPES.iter().position(|own| *own == dtype).unwrap();
        Expr::load(&self.buffers[place], random.between(0, ELEMENTS - 1))
    }

    fn integer(&self, random: &mut Random, dtype: DataType, depth: u32, names: &mut Vec<Var>) -> Expr {
        if depth == 0 {
            return self.leaf(random, dtype, names);
        }
        match random.between(0, 11) {
            0 => {
                let from = *random.of(&TYPES);
                self.integer(random, from, depth - 1, names).cast(dtype)
            }
            1 | 2 => {
                let condition = self.condition(random, depth - 1, names);
                let (a, b) = (self.integer(random, dtype, depth - 1, names), self.integer(random, dtype, depth - 1, names));
                if random.between(0, 1) == 0 {
                    Expr::select(condition, a, b)
                } else {
                    Expr::if_then_else(condition, a, b)
                }
            }
            3 if names.len() < 4 => {
                let own = *random.of(&TYPES);
                let value = self.integer(random, own, depth - 1, names);
                let var = Var::new("x", own);
                names.push(var.clone());
                let body = self.integer(random, dtype, depth - 1, names);
                names.pop();
                Expr::from_node(ExprNode::Let { var, value, body })
            }
            _ => {
                let op = *random.of(&OPS);
                let a = self.integer(random, dtype, depth - 1, names);
                let b = if random.between(0, 2) == 0 {
                    constant(dtype, extreme(random, dtype))
                } else {
                    self.integer(random, dtype, depth - 1, names)
                };
                // Division by the constant 0 is an error of whoever writes it.
                Expr::from_node(ExprNode::Binary { op, a, b, dtype })
            }
        }
    }

    fn condition(&self, random: &mut Random, depth: u32, names: &mut Vec<Var>) -> Expr {
        match random.between(0, 8) {
            0 if depth > 0 => {
                let (a, b) = (self.condition(random, depth - 1, names), self.condition(random, depth - 1, names));
                let op = *random.of(&[LogicOp::And, LogicOp::Or]);
                Expr::from_node(ExprNode::Logic { op, a, b })
            }
            1 if depth > 0 => Expr::from_node(ExprNode::Not { value: self.condition(random, depth - 1, names) }),
            _ => {
                let dtype = *random.of(&TYPES);
                let (a, b) = (self.integer(random, dtype, depth, names), self.integer(random, dtype, depth, names));
                Expr::from_node(ExprNode::Compare { op: *random.of(&COMPARISONS), a, b })
            }
        }
    }
}

/// Values of elements by the name of their buffer, and of variables.
#[derive(Clone, Default)]
struct Values {
    elements: HashMap<(String, i64), i128>,
    vars: HashMap<Var, i128>,
}

/// What an operation gives: it wraps, and a quotient and a remainder by 0 are 0.
fn arithmetic(op: BinaryOp, dtype: DataType, a: i128, b: i128) -> i128 {
    let bits = i128::from(dtype.bits());
    let floored = |quotient: i128| if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient };
    let value = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod if b == 0 => 0,
        BinaryOp::Div => a / b,
        BinaryOp::Mod => a % b,
        BinaryOp::FloorDiv => floored(a / b),
        BinaryOp::FloorMod => a - floored(a / b) * b,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::ShiftLeft if (0..bits).contains(&b) => a << b,
        BinaryOp::ShiftLeft => 0,
        BinaryOp::ShiftRight => a >> if (0..bits).contains(&b) { b } else { 127 },
    };
    wrapped(dtype, value)
}

fn value(expr: &Expr, values: &Values) -> i128 {
    match &**expr {
        ExprNode::Int { dtype, value } if dtype.is_bool() => i128::from(*value),
        ExprNode::Int { dtype, value } => wrapped(*dtype, i128::from(*value)),
        ExprNode::Var { .. } => values.vars[&Var::of(expr).unwrap()],
        ExprNode::Load { buffer, index, .. } => {
            values.elements[&(buffer.name.to_string(), index.as_int().unwrap())]
        }
        ExprNode::Cast { dtype, value: inner } => wrapped(*dtype, value(inner, values)),
        ExprNode::Binary { op, a, b, dtype } => arithmetic(*op, *dtype, value(a, values), value(b, values)),
        ExprNode::Compare { op, a, b } => {
            let (a, b) = (value(a, values), value(b, values));
            i128::from(match op {
                CompareOp::Eq => a == b,
                CompareOp::Ne => a != b,
                CompareOp::Lt => a < b,
                CompareOp::Le => a <= b,
                CompareOp::Gt => a > b,
                CompareOp::Ge => a >= b,
            })
        }
        ExprNode::Logic { op, a, b } => {
            let (a, b) = (value(a, values), value(b, values));
            if *op == LogicOp::And { a & b } else { a | b }
        }
        ExprNode::Not { value: inner } => 1 - value(inner, values),
        ExprNode::Select { condition, true_value: a, false_value: b }
        | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
            value(if value(condition, values) != 0 { a } else { b }, values)
        }
        ExprNode::Let { var, value: bound, body } => {
            let mut inside = values.clone();
            inside.vars.insert(var.clone(), value(bound, values));
            value(body, &inside)
        }
        ExprNode::Call { name, args, dtype, .. } if name.as_str() == "abs" => {
            wrapped(*dtype, value(&args.get(0).unwrap(), values).abs())
        }
        _ => panic!("no value of {}", text(expr)),
    }
}

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
        let proved = is_condition && analyzer.can_prove(&expr);
        for _ in 0..12 {
            let mut values = Values::default();
            for (buffer, dtype) in space.buffers.iter().zip(TYPES) {
                for element in 0..ELEMENTS {
                    values.elements.insert((buffer.name.to_string(), element), extreme(&mut random, dtype));
                }
            }
            values.vars.insert(space.index.clone(), i128::from(random.between(0, 7)));
            let expected = value(&expr, &values);
            let about = || format!("case {case}: {} gives {} with {:?}", text(&expr), text(&simple), values.elements);
            assert_eq!(value(&simple, &values), expected, "{}", about());
            assert_eq!(value(&again, &values), expected, "again {}: {}", text(&again), about());
            assert!(!proved || expected == 1, "proved: {}", about());
            if let Ok(number) = i64::try_from(expected) {
                assert!(interval.contains(number), "{number} in {interval}: {}", about());
                assert!(modular.contains(number), "{number} in {modular}: {}", about());
            }
            let constants = Constants(&values).mutate_expr(&expr).unwrap();
            let folded = Analyzer::new().simplify(&constants);
            assert!(matches!(*folded, ExprNode::Int { .. }), "not constant: {} from {}", text(&folded), text(&constants));
            assert_eq!(value(&folded, &values), expected, "folded {}: {}", text(&constants), about());
        }
    }
}

fn cases(own: usize) -> usize {
    std::env::var("KERNPACK_WRAPPING_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(own)
}

#[test]
fn data_keeps_its_values() {
    check(11, cases(2000));
}

#[test]
#[ignore = "takes minutes"]
fn data_keeps_its_values_in_a_million_expressions() {
    check(12, 1_000_000);
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
            assert!(!analyzer.can_prove(&condition) && !analyzer.can_prove(&condition.negated()), "{}", text(&condition));
        }
        assert!(!analyzer.can_prove_equal(&(&a * 2).floor_div(2), &a));
        assert!(!analyzer.can_prove_equal(&(&a * &b).floor_div(&b), &a));
        // What holds for all values.
        for condition in [a.less_equal(&max), max.greater_equal(&a), (&a + &a).equals(&a * 2), (&a + 1).differs(&a)] {
            assert!(analyzer.can_prove(&condition), "{}", text(&condition));
        }
        assert!(analyzer.simplify(&(&a + 1 - &a)).is_int(1));
    }
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
