//! Random expressions over loaded integers with extreme values: the oracle, the interpreter and
//! compiled code have the same results.

use kernpack_compiler::codegen::Target;
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{
    BOOLEAN, BinaryOp, Buffer, Expr, ForKind, I16, I32, I64, IrModule, LoweredFunc, Stmt, Var,
};
use kernpack_compiler::te::compute;
use kernpack_compiler::{Kernel, PassContext, TargetDescription, build};

use crate::evaluate::{Random, text};
use crate::integers::{ELEMENTS, Space, TYPES, Values, arithmetic, cases, in_parallel, value, wrapped};
use crate::numbers::{block_of, numbers_in, numbers_of, tensor_of};
use crate::{function, tensor, written};

/// The number of expressions of one function.
const BATCH: usize = 200;
/// The number of iterations of its loop.
const ROUNDS: i64 = 8;

/// `out[k * ROUNDS + i]` is expression `k`.
fn batch(name: &str, space: &Space, random: &mut Random) -> (Vec<Expr>, LoweredFunc) {
    let out = Buffer::new("out", I64, [Expr::int(BATCH as i64 * ROUNDS)], "global");
    let (mut exprs, mut stores) = (Vec::new(), Vec::new());
    for k in 0..BATCH {
        let dtype = *random.of(&TYPES);
        let depth = random.between(1, 3) as u32;
        let expr = if random.between(0, 3) == 0 {
            let condition = space.condition(random, depth - 1, &mut Vec::new());
            Expr::select(condition, Expr::int(1), Expr::int(0))
        } else {
            space.integer(random, dtype, depth, &mut Vec::new()).cast(I64)
        };
        stores.push(Stmt::store(out.clone(), space.index.expr() + k as i64 * ROUNDS, expr.clone()));
        exprs.push(expr);
    }
    let body = Stmt::for_loop(space.index.clone(), 0, ROUNDS, ForKind::Serial, Stmt::seq(stores));
    let params = space.buffers.iter().map(tensor).chain([written(&out)]);
    (exprs, function(name, params, body))
}

fn check(seed: u64, batches: usize) {
    let mut random = Random(seed);
    let space = Space::new();
    let functions: Vec<(Vec<Expr>, LoweredFunc)> =
        (0..batches).map(|number| batch(&format!("f{number}"), &space, &mut random)).collect();
    let all: Vec<LoweredFunc> = functions.iter().map(|(_, function)| function.clone()).collect();
    let module = build(IrModule::new(all), &Target::host()).unwrap();
    for (number, (exprs, function)) in functions.iter().enumerate() {
        for round in 0..4 {
            let mut values = Values::random(&space, &mut random, 0);
            let inputs: Vec<Vec<i128>> = space
                .buffers
                .iter()
                .map(|buffer| (0..ELEMENTS).map(|at| values.elements[&(buffer.name.to_string(), at)]).collect())
                .collect();
            let t: Vec<_> = TYPES.iter().zip(&inputs).map(|(dtype, values)| tensor_of(*dtype, values)).collect();
            let out = tensor_of(I64, &vec![0; BATCH * ROUNDS as usize]);
            let call = module.function(&format!("f{number}")).unwrap();
            call.call((&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7], &out)).unwrap();
            let compiled = numbers_of(I64, &out);
            let block = Block::uninit(I64, &[BATCH as i64 * ROUNDS]);
            let blocks: Vec<Block> =
                TYPES.iter().zip(&inputs).map(|(dtype, values)| block_of(*dtype, values)).collect();
            let args: Vec<Arg> = blocks.iter().chain([&block]).map(Arg::from).collect();
            Machine::new(function).unwrap().run(&format!("f{number}"), &args).unwrap();
            let interpreted = numbers_in(I64, &block);
            for (k, expr) in exprs.iter().enumerate() {
                for i in 0..ROUNDS {
                    values.vars.insert(space.index.clone(), i128::from(i));
                    let expected = wrapped(I64, value(expr, &values));
                    let place = k * ROUNDS as usize + i as usize;
                    let about = || format!("round {round}, i = {i}: {} of {:?}", text(expr), values.elements);
                    assert_eq!(interpreted[place], expected, "interpreted: {}", about());
                    assert_eq!(compiled[place], expected, "compiled: {}", about());
                }
            }
        }
    }
}

#[test]
fn compiled_data_keeps_its_values() {
    check(21, cases(2000).div_ceil(BATCH));
}

/// The command is in the tests of the analyzer.
#[test]
#[ignore = "takes half an hour"]
fn compiled_data_keeps_its_values_in_a_million_expressions() {
    in_parallel(cases(1_000_000), 10 * BATCH, |part| check(1000 + part, 10));
}

/// The scalar arguments of a kernel are data, and so are values computed from them.
#[test]
fn parameters_of_kernels_wrap() {
    let mut kernel = Kernel::new("wrap");
    let x = kernel.scalar("x", I32);
    let by = kernel.scalar("by", I32);
    let number = |condition: Expr| Expr::select(condition, Expr::constant(I32, 1), Expr::constant(I32, 0));
    let parts = [
        number((x.expr() + 1).greater(&x)),
        (x.expr() * 2).floor_div(2),
        x.floor_div(&by),
        Expr::binary(BinaryOp::Mod, &x, &by),
        (x.expr() * by.expr()).floor_div(&by),
        number((x.expr() - by.expr()).less(0)),
    ];
    let out = compute([4], |[i]| {
        let sum = parts.iter().fold(Expr::constant(I32, 0), |sum, part| sum * 7 + part);
        sum + i.expr().cast(I32)
    });
    kernel.output("out", out);
    let function = kernel.lower(&TargetDescription::of(&Target::host()), &PassContext::default()).unwrap();
    let module = build(&function, &Target::host()).unwrap();
    for (x, by) in [(i32::MAX, 0), (i32::MIN, -1), (1 << 30, 2), (i32::MIN, 1), (-7, 2), (i32::MAX, i32::MAX)] {
        let floor_div = |a: i32, b: i32| arithmetic(BinaryOp::FloorDiv, I32, a.into(), b.into()) as i32;
        let parts = [
            i32::from(x.wrapping_add(1) > x),
            floor_div(x.wrapping_mul(2), 2),
            floor_div(x, by),
            if by == 0 { 0 } else { x.wrapping_rem(by) },
            floor_div(x.wrapping_mul(by), by),
            i32::from(x.wrapping_sub(by) < 0),
        ];
        let sum = parts.iter().fold(0i32, |sum, part| sum.wrapping_mul(7).wrapping_add(*part));
        let expected: Vec<i128> = (0..4).map(|i| sum.wrapping_add(i).into()).collect();
        let out = tensor_of(I32, &[0; 4]);
        module.function("wrap").unwrap().call((x, by, &out)).unwrap();
        assert_eq!(numbers_of(I32, &out), expected, "x = {x}, by = {by}");
    }
}

/// A choice of constants by data is data, and integers of 16 bits are no indices: arithmetic on
/// both wraps in conditions, too.
#[test]
fn choices_of_data_wrap_in_conditions() {
    for dtype in [I16, I32, I64] {
        let buffer = |name, dtype| Buffer::new(name, dtype, [Expr::int(1)], "global");
        let (x, out) = (buffer("x", dtype), buffer("out", I64));
        let number = |value: i64| Expr::constant(dtype, value);
        let most = i64::MAX >> (64 - dtype.bits());
        for (lazy, is_named) in [(false, false), (true, false), (false, true), (true, true)] {
            // The smallest numbers but two, or 4, without the largest number: 3, or less than 0.
            let is_positive = Expr::load(&x, 0).greater(number(0));
            let name = Var::new("c", BOOLEAN);
            let (bind, is_positive) = match is_named {
                true => (Stmt::bind(name.clone(), is_positive), name.expr().clone()),
                false => (Stmt::nothing(), is_positive),
            };
            let choose = if lazy { Expr::if_then_else } else { Expr::select };
            let condition = (choose(is_positive, number(1 - most), number(4)) - number(most)).greater_equal(number(0));
            let value = Expr::if_then_else(condition, Expr::int(1), Expr::int(0));
            let body = Stmt::seq([bind, Stmt::store(out.clone(), 0, value)]);
            let module =
                build(IrModule::new([function("f", [tensor(&x), written(&out)], body)]), &Target::host()).unwrap();
            for (at, expected) in [(5, 1), (-5, 0)] {
                let (x, out) = (tensor_of(dtype, &[at]), tensor_of(I64, &[7]));
                module.function("f").unwrap().call((&x, &out)).unwrap();
                assert_eq!(numbers_of(I64, &out), [expected], "{dtype:?}, lazy: {lazy}, x = {at}");
            }
        }
    }
}
