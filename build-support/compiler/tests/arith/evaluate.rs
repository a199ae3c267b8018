//! Values of expressions, expressions as text, and reproducible random numbers.

use std::collections::HashMap;

use kernpack_compiler::ir::builder::{fold_int, wrap_int};
use kernpack_compiler::ir::{BinaryOp, CompareOp, DataTypeExt, Expr, ExprNode, LogicOp, Var};

/// Values of variables.
pub(crate) type Values = HashMap<Var, i64>;

/// Applies a comparison to numbers.
pub(crate) fn compares<T: Ord>(op: CompareOp, a: T, b: T) -> bool {
    match op {
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
    }
}

/// The value of each lane; `None` where it is undefined (division by zero).
pub(crate) fn lanes(expr: &Expr, values: &Values) -> Option<Vec<i64>> {
    let two = |a: &Expr, b: &Expr| Some(lanes(a, values)?.into_iter().zip(lanes(b, values)?).collect::<Vec<_>>());
    Some(match &**expr {
        ExprNode::Int { value, .. } => vec![*value],
        ExprNode::Var { .. } => vec![*values.get(&Var::of(expr)?)?],
        ExprNode::Cast { dtype, value } => {
            lanes(value, values)?.into_iter().map(|value| wrap_int(dtype.element(), value)).collect()
        }
        ExprNode::Binary { op, a, b, dtype } => {
            use BinaryOp::{Div, FloorDiv, FloorMod, Mod};
            let divides = matches!(op, Div | Mod | FloorDiv | FloorMod);
            // Indices are not divided by 0.
            let value = |(a, b)| if divides && b == 0 { None } else { fold_int(*op, dtype.element(), a, b) };
            two(a, b)?.into_iter().map(value).collect::<Option<_>>()?
        }
        ExprNode::Compare { op, a, b } => two(a, b)?.into_iter().map(|(a, b)| i64::from(compares(*op, a, b))).collect(),
        ExprNode::Logic { op, a, b } => {
            two(a, b)?.into_iter().map(|(a, b)| if *op == LogicOp::And { a & b } else { a | b }).collect()
        }
        ExprNode::Not { value } => lanes(value, values)?.into_iter().map(|value| 1 - value).collect(),
        ExprNode::Select { condition, true_value: a, false_value: b }
        | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
            let lazy = matches!(**expr, ExprNode::IfThenElse { .. });
            let condition = lanes(condition, values)?;
            if lazy && condition.len() == 1 {
                return lanes(if condition[0] != 0 { a } else { b }, values);
            }
            let pick = |lane: usize| condition[if condition.len() == 1 { 0 } else { lane }] != 0;
            let both = two(a, b)?;
            both.into_iter().enumerate().map(|(lane, (a, b))| if pick(lane) { a } else { b }).collect()
        }
        ExprNode::Ramp { base, stride, lanes: count } => {
            let (base, stride) = (value(base, values)?, value(stride, values)?);
            (0..i64::from(*count)).map(|lane| base + lane * stride).collect()
        }
        ExprNode::Broadcast { value: scalar, lanes: count } => vec![value(scalar, values)?; usize::from(*count)],
        ExprNode::Let { var, value: bound, body } => {
            let mut inside = values.clone();
            inside.insert(var.clone(), value(bound, values)?);
            return lanes(body, &inside);
        }
        ExprNode::Call { args, .. } if expr.without_likely().1 => return lanes(&args.get(0)?, values),
        _ => return None,
    })
}

/// The value of a scalar.
pub(crate) fn value(expr: &Expr, values: &Values) -> Option<i64> {
    lanes(expr, values)?.first().copied()
}

/// An expression as text with all parentheses.
pub(crate) fn text(expr: &Expr) -> String {
    match &**expr {
        ExprNode::Int { value, dtype } if dtype.is_bool() => (*value != 0).to_string(),
        ExprNode::Int { value, .. } => value.to_string(),
        ExprNode::Float { value, .. } => format!("{value:?}"),
        ExprNode::Var { name, .. } => name.to_string(),
        ExprNode::Cast { dtype, value } => format!("{}({})", dtype.short_name(), text(value)),
        ExprNode::Binary { op, a, b, .. } => {
            let (a, b) = (text(a), text(b));
            match op {
                BinaryOp::Add => format!("({a} + {b})"),
                BinaryOp::Sub => format!("({a} - {b})"),
                BinaryOp::Mul => format!("({a}*{b})"),
                BinaryOp::Div => format!("tdiv({a}, {b})"),
                BinaryOp::Mod => format!("tmod({a}, {b})"),
                BinaryOp::FloorDiv => format!("({a} // {b})"),
                BinaryOp::FloorMod => format!("({a} % {b})"),
                BinaryOp::Min => format!("min({a}, {b})"),
                BinaryOp::Max => format!("max({a}, {b})"),
                _ => format!("{op:?}({a}, {b})"),
            }
        }
        ExprNode::Compare { op, a, b } => {
            let symbol = ["==", "!=", "<", "<=", ">", ">="][*op as usize];
            format!("({} {symbol} {})", text(a), text(b))
        }
        ExprNode::Logic { op, a, b } => {
            format!("({} {} {})", text(a), if *op == LogicOp::And { "&&" } else { "||" }, text(b))
        }
        ExprNode::Not { value } => format!("!{}", text(value)),
        ExprNode::Select { condition, true_value: a, false_value: b } => {
            format!("select({}, {}, {})", text(condition), text(a), text(b))
        }
        ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
            format!("if({}, {}, {})", text(condition), text(a), text(b))
        }
        ExprNode::Ramp { base, stride, lanes } => format!("ramp({}, {}, {lanes})", text(base), text(stride)),
        ExprNode::Broadcast { value, lanes } => format!("broadcast({}, {lanes})", text(value)),
        ExprNode::Let { var, value, body } => format!("let {} = {} in {}", var.name(), text(value), text(body)),
        ExprNode::Load { buffer, index, .. } => format!("{}[{}]", buffer.name, text(index)),
        ExprNode::Call { name, args, .. } => {
            let args: Vec<String> = args.iter().map(|arg| text(&arg)).collect();
            format!("{name}({})", args.join(", "))
        }
        _ => "..".to_owned(),
    }
}

/// Pseudo-random numbers: SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `min ..= max`.
    pub(crate) fn between(&mut self, min: i64, max: i64) -> i64 {
        min + (self.next() % ((max - min + 1) as u64)) as i64
    }

    /// An element of a list.
    pub(crate) fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.between(0, all.len() as i64 - 1) as usize]
    }
}
