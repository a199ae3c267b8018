//! Integer division: by 0 the result is 0, and the smallest number divided by -1 wraps. Nothing
//! terminates the process.

use kernpack::DataType;
use kernpack_compiler::build;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::interpret::{Block, Machine};
use kernpack_compiler::ir::{
    BinaryOp, Buffer, DataTypeExt, Expr, ExprNode, ForKind, I32, IrModule, LoweredFunc, Stmt, U32, Var,
};

use crate::integers::{TYPES, arithmetic, ends, wrapped};
use crate::numbers::{block_of, numbers_in, numbers_of, tensor_of};
use crate::{function, tensor, written};

const OPS: [BinaryOp; 4] = [BinaryOp::Div, BinaryOp::Mod, BinaryOp::FloorDiv, BinaryOp::FloorMod];
/// A multiple of all numbers of lanes.
const STEP: usize = 48;

/// All pairs of numbers at the ends of a type and around 0.
fn pairs(dtype: DataType) -> (Vec<i128>, Vec<i128>) {
    let (min, max) = ends(dtype);
    let numbers = [0, 1, 2, 3, 7, 8, -1, -2, -3, -8, min, min + 1, max, max - 1].map(|value| wrapped(dtype, value));
    let mut pairs: Vec<(i128, i128)> = numbers.iter().flat_map(|a| numbers.iter().map(move |b| (*a, *b))).collect();
    while !pairs.len().is_multiple_of(STEP) {
        pairs.push((5, 0));
    }
    pairs.into_iter().unzip()
}

/// The kind of divisor.
#[derive(Clone, Copy, Debug)]
enum By {
    /// `b[i]`.
    Data,
    Constant(i64),
    /// A constant, shifted by `b[i]`. LLVM assumes that a shifted odd number is never 0, because
    /// otherwise the shift is poison.
    Shifted(BinaryOp, i64),
}

/// `out[i] = a[i] op divisor`.
fn divided(name: &str, op: BinaryOp, dtype: DataType, lanes: u16, count: usize, divisor: By) -> LoweredFunc {
    let [a, b, out] = ["a", "b", "out"].map(|name| Buffer::new(name, dtype, [Expr::int(count as i64)], "global"));
    let i = Var::index("i");
    let place = (i.expr() * i64::from(lanes)).ramp(1, lanes);
    let lane_type = dtype.with_lanes(lanes);
    let data = Expr::load(&b, &place);
    let by = match divisor {
        By::Data => data,
        By::Constant(value) => Expr::constant(lane_type, value),
        By::Shifted(op, value) => {
            Expr::from_node(ExprNode::Binary { op, a: Expr::constant(lane_type, value), b: data, dtype: lane_type })
        }
    };
    let value = ExprNode::Binary { op, a: Expr::load(&a, &place), b: by, dtype: dtype.with_lanes(lanes) };
    let store = Stmt::store(out.clone(), &place, Expr::from_node(value));
    let body = Stmt::for_loop(i, 0, count as i64 / i64::from(lanes), ForKind::Serial, store);
    function(name, [tensor(&a), tensor(&b), written(&out)], body)
}

fn check(target: &Target, all_lanes: &[u16], divisors: &[By]) {
    let mut functions = Vec::new();
    for dtype in TYPES {
        let count = pairs(dtype).0.len();
        for (at, divisor) in divisors.iter().enumerate() {
            for op in OPS {
                for &lanes in all_lanes {
                    let name = format!("{op:?}_{}_{lanes}_{at}", dtype.short_name());
                    functions.push((
                        dtype,
                        op,
                        *divisor,
                        name.clone(),
                        divided(&name, op, dtype, lanes, count, *divisor),
                    ));
                }
            }
        }
    }
    let all: Vec<LoweredFunc> = functions.iter().map(|row| row.4.clone()).collect();
    let module = build(IrModule::new(all), target).unwrap();
    for (dtype, op, divisor, name, lowered) in functions {
        let (a, mut b) = pairs(dtype);
        if let By::Shifted(..) = divisor {
            let bits = i128::from(dtype.bits());
            b = (0..b.len()).map(|at| wrapped(dtype, at as i128 % (bits + 3))).collect();
        }
        let by = |b: i128| match divisor {
            By::Data => b,
            By::Constant(value) => wrapped(dtype, value.into()),
            By::Shifted(op, value) => arithmetic(op, dtype, wrapped(dtype, value.into()), b),
        };
        let expected: Vec<i128> = a.iter().zip(&b).map(|(a, b)| arithmetic(op, dtype, *a, by(*b))).collect();
        let out = tensor_of(dtype, &vec![1; a.len()]);
        module.function(&name).unwrap().call((&tensor_of(dtype, &a), &tensor_of(dtype, &b), &out)).unwrap();
        assert_eq!(numbers_of(dtype, &out), expected, "{name}: {a:?} by {b:?}");
        let out = Block::uninit(dtype, &[a.len() as i64]);
        let args = [(&block_of(dtype, &a)).into(), (&block_of(dtype, &b)).into(), (&out).into()];
        Machine::new(&lowered).unwrap().run(&name, &args).unwrap();
        assert_eq!(numbers_in(dtype, &out), expected, "{name}, interpreted: {a:?} by {b:?}");
    }
}

#[test]
fn divisions_by_any_number_give_a_number() {
    check(&Target::host(), &[1, 3, 4, 16], &[By::Data]);
}

#[test]
fn divisions_by_constants_give_a_number() {
    check(&Target::host(), &[1, 4], &[0, -1, -8].map(By::Constant));
}

#[test]
fn divisions_by_shifted_numbers_give_a_number() {
    let shifts = [BinaryOp::ShiftLeft, BinaryOp::ShiftRight];
    let divisors = shifts.into_iter().flat_map(|op| [5, 6].map(|value| By::Shifted(op, value)));
    check(&Target::host(), &[4], &divisors.collect::<Vec<_>>());
}

/// The instruction of a division by data or by a size is guarded by selects; one by a positive
/// number is not guarded.
#[test]
fn divisions_are_guarded_without_branches_where_they_have_to() {
    // The instructions around the first division.
    let around = |dtype, divisor| {
        let module = build(&divided("f", BinaryOp::Div, dtype, 1, STEP, divisor), &Target::host()).unwrap();
        let text = module.inspect_source("ll").unwrap();
        let at = text.lines().position(|line| line.contains("div <") || line.contains("div i32")).unwrap();
        text.lines().skip(at.saturating_sub(4)).take(8).map(str::to_owned).collect::<Vec<String>>()
    };
    let selects =
        |lines: &[String]| lines.iter().filter(|line| line.contains(" select ") || line.contains("umax")).count();
    for dtype in [I32, U32] {
        let lines = around(dtype, By::Data);
        assert!(selects(&lines) >= 2 && lines.iter().all(|line| !line.contains(" br ")), "{lines:#?}");
        let lines = around(dtype, By::Constant(5));
        assert_eq!(selects(&lines), 0, "{lines:#?}");
    }
}

#[test]
fn divisions_by_the_constant_zero_are_an_error() {
    let x = Var::new("x", I32);
    for op in OPS {
        let error = kernpack_compiler::ir::builder::try_binary(op, &x, &Expr::constant(I32, 0)).unwrap_err();
        assert!(error.what().contains("by the constant 0"), "{}", error.what());
    }
}
