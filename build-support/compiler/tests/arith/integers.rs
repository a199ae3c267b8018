//! Random expressions over loaded integers of all types, with values at the ends of the types, and
//! a 128-bit oracle that wraps.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kernpack::DataType;
use kernpack_compiler::ir::visit::for_each_expr;
use kernpack_compiler::ir::{
    BinaryOp, Buffer, CompareOp, DataTypeExt, Expr, ExprNode, I8, I16, I32, I64, LogicOp, U8, U16, U32, U64, Var,
};

use crate::evaluate::{Random, compares, text};

pub(crate) const TYPES: [DataType; 8] = [I8, I16, I32, I64, U8, U16, U32, U64];
pub(crate) const OPS: [BinaryOp; 14] = [
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
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::ShiftLeft,
    BinaryOp::ShiftRight,
];
const COMPARISONS: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

/// The value of a type with the low bits of a number.
pub(crate) fn wrapped(dtype: DataType, value: i128) -> i128 {
    let bits = u32::from(dtype.bits());
    let low = value & ((1i128 << bits) - 1);
    if dtype.is_int() && low >> (bits - 1) & 1 == 1 { low - (1i128 << bits) } else { low }
}

pub(crate) fn ends(dtype: DataType) -> (i128, i128) {
    let bits = u32::from(dtype.bits());
    if dtype.is_int() { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) }
}

/// A value near the limits, where a wrong rule shows.
pub(crate) fn extreme(random: &mut Random, dtype: DataType) -> i128 {
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

pub(crate) fn constant(dtype: DataType, value: i128) -> Expr {
    Expr::constant(dtype, value as i64)
}

/// The number of expressions that a test checks: `KERNPACK_WRAPPING_CASES`, or `own` by default.
pub(crate) fn cases(own: usize) -> usize {
    std::env::var("KERNPACK_WRAPPING_CASES").map_or(own, |cases| cases.parse().expect("a number of cases"))
}

/// Calls `check` for parts of the cases, each with its number, on all cores.
pub(crate) fn in_parallel(cases: usize, part: usize, check: impl Fn(u64) + Sync) {
    let (next, parts, began) = (AtomicU64::new(0), cases.div_ceil(part) as u64, Instant::now());
    let work = || {
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < parts
        {
            check(number);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    eprintln!("{} expressions in {:?}", parts * part as u64, began.elapsed());
}

/// Loads of each type, the variables of the expression, and an index.
pub(crate) struct Space {
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) index: Var,
}

pub(crate) const ELEMENTS: i64 = 3;

impl Space {
    pub(crate) fn new() -> Self {
        let buffer = |dtype: DataType| Buffer::new(&dtype.short_name(), dtype, [Expr::int(ELEMENTS)], "global");
        Self { buffers: TYPES.map(buffer).to_vec(), index: Var::index("i") }
    }

    fn leaf(&self, random: &mut Random, dtype: DataType, names: &[Var]) -> Expr {
        let own: Vec<&Var> = names.iter().filter(|name| name.dtype() == dtype).collect();
        if !own.is_empty() && random.between(0, 1) == 0 {
            return random.of(&own).expr().clone();
        }
        match random.between(0, 9) {
            0 => constant(dtype, extreme(random, dtype)),
            9 => self.cancelled(random, dtype),
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
            4 => self.cut(random, dtype),
            _ => self.load(random, dtype),
        }
    }

    /// An expression of data in which the data cancels out, or is not chosen: an index, a constant
    /// or a sum of both is left.
    pub(crate) fn cancelled(&self, random: &mut Random, dtype: DataType) -> Expr {
        use BinaryOp::{Add, BitAnd, Max, Min, Mul, Sub};
        let binary =
            |op, a: &Expr, b: &Expr| Expr::from_node(ExprNode::Binary { op, a: a.clone(), b: b.clone(), dtype });
        let number = |value: i128| constant(dtype, value);
        let (x, y) = (self.load(random, dtype), self.load(random, dtype));
        let index = self.index.expr().cast(dtype);
        let left = match random.between(0, 4) {
            0 => number(extreme(random, dtype)),
            1 => binary(Add, &binary(Mul, &index, &number(3)), &number(5)),
            _ => index,
        };
        let zero = number(0);
        match random.between(0, 7) {
            0 => binary(Sub, &x, &binary(Add, &x, &left)),
            1 => binary(Sub, &binary(Add, &x, &left), &x),
            2 => {
                let twice = binary(Sub, &binary(Mul, &x, &number(3)), &binary(Mul, &x, &number(2)));
                binary(Add, &binary(Sub, &twice, &x), &left)
            }
            3 => {
                let both = binary(Add, &binary(Min, &x, &y), &binary(Max, &x, &y));
                binary(Add, &binary(Sub, &binary(Sub, &both, &x), &y), &left)
            }
            4 => binary(Add, &left, &binary(*random.of(&[Mul, BitAnd]), &x, &zero)),
            5 => Expr::from_node(ExprNode::Select {
                condition: Expr::from_node(ExprNode::Compare { op: CompareOp::Eq, a: x.clone(), b: x }),
                true_value: left,
                false_value: y,
            }),
            6 => {
                let factor = number(extreme(random, dtype));
                let product = binary(Mul, &binary(Add, &x, &left), &factor);
                binary(Sub, &product, &binary(Mul, &x, &factor))
            }
            _ => binary(Sub, &binary(Sub, &left, &x), &binary(Sub, &zero, &x)),
        }
    }

    /// Operations on data that [cancels out](Self::cancelled), which wrap.
    pub(crate) fn of_cancelled(&self, random: &mut Random) -> Expr {
        let dtype = *random.of(&[I32, I64]);
        let mut a = self.cancelled(random, dtype);
        for _ in 0..random.between(1, 3) {
            let dtype = a.dtype();
            let b = match random.between(0, 4) {
                0 | 1 => constant(dtype, extreme(random, dtype)),
                2 => self.load(random, dtype),
                3 => a.clone(),
                _ => self.cancelled(random, dtype),
            };
            let op = if random.between(0, 1) == 0 { BinaryOp::Mul } else { *random.of(&OPS) };
            let comparison =
                Expr::from_node(ExprNode::Compare { op: *random.of(&COMPARISONS), a: a.clone(), b: b.clone() });
            a = match random.between(0, 9) {
                0 => a.cast(*random.of(&[I32, I64])),
                1 => Expr::select(comparison, a, b),
                2 => comparison.cast(dtype),
                3 => {
                    let var = Var::new("y", dtype);
                    let body = Expr::from_node(ExprNode::Binary { op, a: var.expr().clone(), b, dtype });
                    Expr::from_node(ExprNode::Let { var, value: a, body })
                }
                4 => Expr::from_node(ExprNode::Binary { op, a: b, b: a, dtype }),
                _ => Expr::from_node(ExprNode::Binary { op, a, b, dtype }),
            };
        }
        if random.between(0, 1) == 0 {
            return a;
        }
        let dtype = a.dtype();
        let b = match random.between(0, 2) {
            0 => constant(dtype, 0),
            1 => Expr::from_node(ExprNode::Binary {
                op: *random.of(&OPS),
                a: a.clone(),
                b: constant(dtype, extreme(random, dtype)),
                dtype,
            }),
            _ => self.cancelled(random, dtype),
        };
        Expr::from_node(ExprNode::Compare { op: *random.of(&COMPARISONS), a, b })
    }

    /// An index that does not fit in the type in all iterations: the cast truncates it, and its
    /// result is data. No signed type is wider than an index.
    fn cut(&self, random: &mut Random, dtype: DataType) -> Expr {
        let near = random.between(-4, 4);
        match u32::from(dtype.bits()) {
            64 if dtype.is_int() => self.load(random, dtype),
            64 => (self.index.expr() - 4 + near).cast(dtype),
            bits => {
                let scale = 1i64 << (bits - 1 - random.between(0, 1) as u32);
                let index = self.index.expr();
                // In canonical form, and in another form.
                let sum = if random.between(0, 1) == 0 { index * scale + near } else { near + index * scale };
                sum.cast(dtype)
            }
        }
    }

    pub(crate) fn load(&self, random: &mut Random, dtype: DataType) -> Expr {
        let place = TYPES.iter().position(|own| *own == dtype).unwrap();
        let element = if random.between(0, 2) == 0 {
            self.index.floor_mod(ELEMENTS)
        } else {
            Expr::int(random.between(0, ELEMENTS - 1))
        };
        Expr::load(&self.buffers[place], element)
    }

    pub(crate) fn integer(&self, random: &mut Random, dtype: DataType, depth: u32, names: &mut Vec<Var>) -> Expr {
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
                let (a, b) =
                    (self.integer(random, dtype, depth - 1, names), self.integer(random, dtype, depth - 1, names));
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
            4 => {
                // Quotients of quotients, with sums in between.
                let ops = [BinaryOp::FloorDiv, BinaryOp::Div, BinaryOp::FloorMod, BinaryOp::Add];
                let mut a = self.integer(random, dtype, depth - 1, names);
                for _ in 0..3 {
                    let shift = random.between(0, i64::from(dtype.bits()) - 2);
                    let b = constant(dtype, wrapped(dtype, (1i128 << shift) + i128::from(random.between(-1, 1))));
                    a = Expr::from_node(ExprNode::Binary { op: *random.of(&ops), a, b, dtype });
                }
                a
            }
            5 => self.multiple(random, dtype, depth - 1, names),
            _ => {
                let op = *random.of(&OPS);
                let a = self.integer(random, dtype, depth - 1, names);
                let b = if random.between(0, 2) == 0 {
                    constant(dtype, extreme(random, dtype))
                } else {
                    self.integer(random, dtype, depth - 1, names)
                };
                // Division by the constant 0 is an error in the program.
                Expr::from_node(ExprNode::Binary { op, a, b, dtype })
            }
        }
    }

    /// Multiples of a power of two with an offset, or the minimum of two of them, times another
    /// power: products that wrap are 0 modulo a number greater than all values of the type.
    fn multiple(&self, random: &mut Random, dtype: DataType, depth: u32, names: &mut Vec<Var>) -> Expr {
        let bits = i64::from(dtype.bits());
        let power = |shift: i64| constant(dtype, wrapped(dtype, 1i128 << shift));
        let binary = |op, a, b| Expr::from_node(ExprNode::Binary { op, a, b, dtype });
        let (step, offset) = (random.between(1, bits - 2), random.between(0, bits - 2));
        let mut side = |random: &mut Random| {
            let product = binary(BinaryOp::Mul, self.integer(random, dtype, depth, names), power(step));
            binary(BinaryOp::Add, product, power(offset))
        };
        let mut sum = side(random);
        if random.between(0, 1) == 0 {
            let op = *random.of(&[BinaryOp::Min, BinaryOp::Max]);
            sum = binary(op, sum, side(random));
        }
        let factor = if random.between(0, 1) == 0 { bits - offset } else { random.between(1, bits - 2) };
        binary(BinaryOp::Mul, sum, power(factor.min(bits - 2)))
    }

    pub(crate) fn condition(&self, random: &mut Random, depth: u32, names: &mut Vec<Var>) -> Expr {
        match random.between(0, 8) {
            0 if depth > 0 => {
                let (a, b) = (self.condition(random, depth - 1, names), self.condition(random, depth - 1, names));
                let op = *random.of(&[LogicOp::And, LogicOp::Or]);
                Expr::from_node(ExprNode::Logic { op, a, b })
            }
            1 if depth > 0 => Expr::from_node(ExprNode::Not { value: self.condition(random, depth - 1, names) }),
            _ => {
                let dtype = *random.of(&TYPES);
                let a = self.integer(random, dtype, depth, names);
                let b = match random.between(0, 4) {
                    // Rules match a value and the same value with an operation.
                    0 => {
                        let (op, b) = (*random.of(&OPS), constant(dtype, extreme(random, dtype)));
                        Expr::from_node(ExprNode::Binary { op, a: a.clone(), b, dtype })
                    }
                    1 => constant(dtype, 0),
                    _ => self.integer(random, dtype, depth, names),
                };
                Expr::from_node(ExprNode::Compare { op: *random.of(&COMPARISONS), a, b })
            }
        }
    }
}

/// The values of elements, by the name of their buffer, and of variables.
#[derive(Clone, Default)]
pub(crate) struct Values {
    pub(crate) elements: HashMap<(String, i64), i128>,
    pub(crate) vars: HashMap<Var, i128>,
}

impl Values {
    /// Values at the ends of types, and an index.
    pub(crate) fn random(space: &Space, random: &mut Random, index: i64) -> Self {
        let mut values = Self::default();
        for (buffer, dtype) in space.buffers.iter().zip(TYPES) {
            for element in 0..ELEMENTS {
                values.elements.insert((buffer.name.to_string(), element), extreme(random, dtype));
            }
        }
        values.vars.insert(space.index.clone(), i128::from(index));
        values
    }
}

/// Returns true if arithmetic on indices does not overflow, as is assumed: sums and products of
/// signed integers without data, of 32 bits or more.
pub(crate) fn keeps_indices(expr: &Expr, values: &Values) -> bool {
    let data = |expr: &Expr| {
        let mut found = false;
        for_each_expr(expr, |part| found |= matches!(**part, ExprNode::Load { .. }));
        found
    };
    let mut keeps = true;
    for_each_expr(expr, |part| {
        if let ExprNode::Binary { op, a, b, dtype } = &**part
            && dtype.is_int()
            && !data(part)
        {
            let (a, b) = (value(a, values), value(b, values));
            let exact = match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                _ => return,
            };
            keeps &= wrapped(*dtype, exact) == exact;
        }
    });
    keeps
}

/// The result of an operation: it wraps, and a quotient and a remainder by 0 are 0.
pub(crate) fn arithmetic(op: BinaryOp, dtype: DataType, a: i128, b: i128) -> i128 {
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

pub(crate) fn value(expr: &Expr, values: &Values) -> i128 {
    match &**expr {
        ExprNode::Int { dtype, value } if dtype.is_bool() => i128::from(*value),
        ExprNode::Int { dtype, value } => wrapped(*dtype, i128::from(*value)),
        ExprNode::Var { .. } => values.vars[&Var::of(expr).unwrap()],
        ExprNode::Load { buffer, index, .. } => {
            values.elements[&(buffer.name.to_string(), value(index, values) as i64)]
        }
        ExprNode::Cast { dtype, value: inner } => wrapped(*dtype, value(inner, values)),
        ExprNode::Binary { op, a, b, dtype } => arithmetic(*op, *dtype, value(a, values), value(b, values)),
        ExprNode::Compare { op, a, b } => i128::from(compares(*op, value(a, values), value(b, values))),
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
