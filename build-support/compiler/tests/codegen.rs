//! Compiled code: results, checks of arguments, errors, formats.
#![cfg(feature = "llvm")]

#[path = "codegen/behaviours.rs"]
mod behaviours;
#[path = "codegen/bounds.rs"]
mod bounds;
#[path = "codegen/casts.rs"]
mod casts;
#[path = "codegen/debug.rs"]
mod debug;
#[path = "codegen/divisions.rs"]
mod divisions;
#[path = "arith/evaluate.rs"]
#[allow(dead_code, reason = "shared with the tests of the analyzer")]
mod evaluate;
#[path = "arith/integers.rs"]
#[allow(dead_code, reason = "shared with the tests of the analyzer")]
mod integers;
#[path = "codegen/numbers.rs"]
mod numbers;
#[path = "codegen/offsets.rs"]
mod offsets;
#[path = "codegen/rounding.rs"]
mod rounding;
#[path = "codegen/time.rs"]
mod time;
#[path = "codegen/wrapping.rs"]
mod wrapping;

use kernpack::{DataType, Tensor};
use kernpack_compiler::build;
use kernpack_compiler::codegen::{Target, c};
use kernpack_compiler::ir::{
    BinaryOp, Buffer, Expr, F32, ForKind, FuncKind, I32, I64, LoweredFunc, LoweredFuncNode, POINTER, Param, ParamNode,
    Stmt, Var,
};

fn tensor(buffer: &Buffer) -> Param {
    let var = Var::new(buffer.name.as_str(), POINTER);
    let output = buffer.name.as_str() == "out";
    Param::from_node(ParamNode { var, buffer: Some(buffer.clone()), output })
}

fn written(buffer: &Buffer) -> Param {
    let var = Var::new(buffer.name.as_str(), POINTER);
    Param::from_node(ParamNode { var, buffer: Some(buffer.clone()), output: true })
}

fn scalar(var: &Var) -> Param {
    Param::from_node(ParamNode { var: var.clone(), buffer: None, output: false })
}

fn function(name: &str, params: impl IntoIterator<Item = Param>, body: Stmt) -> LoweredFunc {
    LoweredFunc::from_node(LoweredFuncNode {
        name: name.into(),
        params: params.into_iter().collect(),
        ret: c::nothing(),
        kind: FuncKind::Mixed,
        thread_axes: Default::default(),
        body,
        attrs: Default::default(),
    })
}

fn sum(kind: ForKind) -> LoweredFunc {
    let n = Var::size("n", I64);
    let [a, b, out] = ["a", "b", "out"].map(|name| Buffer::new(name, F32, [n.expr().clone()], "global"));
    let i = Var::index("i");
    let body = Stmt::store(out.clone(), &i, Expr::load(&a, &i) + Expr::load(&b, &i));
    function("sum", [&a, &b, &out].map(tensor), Stmt::for_loop(i, 0, &n, kind, body))
}

#[test]
fn loops_run_and_arguments_are_checked() {
    for kind in [ForKind::Serial, ForKind::Parallel] {
        let module = build(&sum(kind), &Target::host()).unwrap();
        let sum = module.function("sum").unwrap();
        let values: Vec<f32> = (0..100).map(|i| i as f32).collect();
        let (a, b) = (Tensor::from_slice(&values, &[100]).unwrap(), Tensor::from_slice(&values, &[100]).unwrap());
        let out = Tensor::from_slice(&vec![0f32; 100], &[100]).unwrap();
        sum.call((&a, &b, &out)).unwrap();
        assert_eq!(out.view::<f32>().unwrap().to_vec(), values.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
        let empty = Tensor::from_slice::<f32>(&[], &[0]).unwrap();
        sum.call((&empty, &empty, &empty)).unwrap();

        let signature = "sum(a: Tensor([n], float32), b: Tensor([n], float32), out: Tensor([n], float32))";
        let short = Tensor::from_slice(&[1f32], &[1]).unwrap();
        let whole = Tensor::from_slice(&[1i32; 100], &[100]).unwrap();
        let rows = [
            (sum.call((&a, &b)), format!("TypeError: Expected 3 arguments when calling:\n  `{signature}`")),
            (
                sum.call((&a, 1, &out)),
                format!("TypeError: Mismatched type on argument #1 when calling:\n  `{signature}`,\n  expected Tensor"),
            ),
            (
                sum.call((&a, &whole, &out)),
                format!(
                    "TypeError: Mismatched b.dtype on argument #1 when calling:\n  `{signature}`,\n  expected float32"
                ),
            ),
            (
                sum.call((&a, &b, &short)),
                format!(
                    "ValueError: Mismatched out.shape[0] on argument #2 when calling:\n  `{signature}`,\n  expected to match a.shape[0]"
                ),
            ),
        ];
        for (found, expected) in rows {
            assert_eq!(found.unwrap_err().to_string(), expected);
        }
    }
}

#[test]
fn integer_arithmetic_has_defined_results() {
    // The operation, both operands, the result; `i32` wraps, floor division rounds down, a shift by
    // too many bits shifts out all of them.
    let rows = [
        (BinaryOp::Add, i32::MAX, 1, i32::MIN),
        (BinaryOp::Mul, i32::MIN, -1, i32::MIN),
        (BinaryOp::Div, -7, 2, -3),
        (BinaryOp::Mod, -7, 2, -1),
        (BinaryOp::FloorDiv, -7, 2, -4),
        (BinaryOp::FloorMod, -7, 2, 1),
        (BinaryOp::FloorDiv, 7, -2, -4),
        (BinaryOp::FloorMod, 7, -2, -1),
        (BinaryOp::ShiftLeft, 3, 40, 0),
        (BinaryOp::ShiftRight, -3, 40, -1),
        (BinaryOp::ShiftRight, -8, 1, -4),
        (BinaryOp::Min, -1, 1, -1),
        (BinaryOp::Max, -1, 1, 1),
    ];
    for (op, left, right, expected) in rows {
        let [a, b] = ["a", "b"].map(|name| Var::new(name, I32));
        let body = Stmt::return_value(Expr::binary(op, &a, &b));
        let plain = function("f", [&a, &b].map(scalar), body);
        let returning = LoweredFunc::from_node(LoweredFuncNode { ret: I32, ..plain.to_node() });
        let module = build(&returning, &Target::host()).unwrap();
        let found = module.function("f").unwrap().call_as::<i64>((left, right)).unwrap();
        assert_eq!(found, i64::from(expected), "{op:?} {left} {right}");
    }
}

/// A copy of `from` to `to` with a conversion, in vectors of `lanes` from `start` on with a stride.
fn copy(from: DataType, to: DataType, lanes: u16, start: i64, stride: i64) -> LoweredFunc {
    let a = Buffer::new("a", from, [Expr::int(64)], "global");
    let out = Buffer::new("out", to, [Expr::int(i64::from(lanes))], "global");
    let value = Expr::load(&a, Expr::int(start).ramp(stride, lanes)).cast(to);
    function("copy", [&a, &out].map(tensor), Stmt::store(out.clone(), Expr::int(0).ramp(1, lanes), value))
}

#[test]
fn vectors_of_any_lanes_and_strides() {
    let values: Vec<f32> = (0..64).map(|i| i as f32 - 20.5).collect();
    let a = Tensor::from_slice(&values, &[64]).unwrap();
    for target in [Target::host(), Target::llvm(&Target::host().triple, "", "")] {
        for lanes in [1u16, 2, 3, 4, 7, 8, 9, 15, 16, 17] {
            for (start, stride) in [(3, 1), (40, -1), (1, 2), (2, 3), (5, 0)] {
                let module = build(&copy(F32, I32, lanes, start, stride), &target).unwrap();
                let out = Tensor::from_slice(&vec![0i32; usize::from(lanes)], &[i64::from(lanes)]).unwrap();
                module.function("copy").unwrap().call((&a, &out)).unwrap();
                let place = |lane: u16| (start + stride * i64::from(lane)) as usize;
                let expected: Vec<i32> = (0..lanes).map(|lane| values[place(lane)] as i32).collect();
                assert_eq!(out.view::<i32>().unwrap().to_vec(), expected, "{lanes} lanes, stride {stride}");
            }
        }
    }
}

#[test]
fn masks_leave_other_lanes_alone() {
    for target in [
        Target::host(),
        Target::llvm(&Target::host().triple, "", ""),
        Target::llvm(&Target::host().triple, "haswell", ""),
    ] {
        let n = Var::new("n", I64);
        let a = Buffer::new("a", F32, [n.expr().clone()], "global");
        let out = Buffer::new("out", F32, [Expr::int(20)], "global");
        for stride in [1, -1, 2] {
            let lanes = Expr::int(0).ramp(1, 8);
            let mask = lanes.less(n.expr().broadcast(8));
            let first = if stride < 0 { Expr::int(7) } else { Expr::int(0) };
            let from = Expr::load_masked(&a, lanes.clone(), Some(mask.clone()));
            let body = Stmt::store_masked(out.clone(), first.ramp(stride, 8), from, Some(mask));
            let module = build(&function("f", [&a, &out].map(tensor), body), &target).unwrap();
            for count in [0usize, 1, 5, 8] {
                let values: Vec<f32> = (0..count).map(|i| i as f32 + 1.0).collect();
                let a = Tensor::from_slice(&values, &[count as i64]).unwrap();
                let out = Tensor::from_slice(&[-1f32; 20], &[20]).unwrap();
                module.function("f").unwrap().call((&a, &out)).unwrap();
                let mut expected = [-1f32; 20];
                for (lane, value) in values.iter().enumerate() {
                    expected[(if stride < 0 { 7 } else { 0 } + stride * lane as i64) as usize] = *value;
                }
                assert_eq!(out.view::<f32>().unwrap().to_vec(), expected, "{count} of stride {stride}");
            }
        }
    }
}

#[test]
fn modules_are_written_and_inspected() {
    let module = build(&sum(ForKind::Parallel), &Target::host()).unwrap();
    assert_eq!(module.kind(), "llvm");
    assert_eq!(module.function_names(), ["sum"]);
    let text = module.inspect_source("ll").unwrap();
    for part in ["@__tvm_ffi_sum(", "tvm_target", "alias.scope", "__TVMBackendParallelLaunch"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(module.inspect_source("asm").unwrap().contains("__tvm_ffi_sum:"));
    let path = std::env::temp_dir().join(format!("kernpack-compiler-{}.o", std::process::id()));
    module.write_to_file(&path, "o").unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(b"\x7fELF"));
    std::fs::remove_file(&path).unwrap();
    let other = build(&sum(ForKind::Serial), &Target::llvm("aarch64-unknown-linux-gnu", "", "")).unwrap();
    let error = other.function("sum").unwrap_err().to_string();
    assert!(cfg!(target_arch = "aarch64") || error.contains("the module is for aarch64"), "{error}");
}

fn assert_that(condition: Expr, text: &str) -> Stmt {
    Stmt::assert(condition, "ValueError", [text.into()])
}

fn workspace(name: &str, elements: impl Into<Expr>) -> Buffer {
    Buffer::new(name, F32, [elements.into()], "global")
}

/// The kilobytes of address space of this process.
fn address_space() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn failing_functions_give_back_their_workspaces() {
    // 16 MiB outside, 16 MiB in each iteration; the loop body fails, leaves the loop, or ends the
    // function in the middle.
    for exit in ["fail", "break", "return"] {
        let (n, i) = (Var::new("n", I64), Var::index("i"));
        let (outer, inner) = (workspace("outer", 4 << 20), workspace("inner", &n * 0 + (4 << 20)));
        let leave = match exit {
            "fail" => assert_that(i.less(3), "three is enough"),
            "break" => Stmt::if_then(i.equals(3), Stmt::evaluate(Expr::builtin("break_loop", I32, [])), None),
            _ => Stmt::if_then(i.equals(3), Stmt::return_value(Expr::constant(I32, 0)), None),
        };
        let body = Stmt::seq([
            Stmt::alloc(outer.clone()),
            Stmt::store(outer.clone(), 0, 1.0f32),
            Stmt::for_loop(
                i.clone(),
                0,
                &n,
                ForKind::Serial,
                Stmt::seq([
                    Stmt::alloc(inner.clone()),
                    Stmt::store(inner.clone(), &i, Expr::load(&outer, 0)),
                    leave,
                    Stmt::store(outer.clone(), &i, Expr::load(&inner, &i)),
                ]),
            ),
        ]);
        let module = build(&function("f", [scalar(&n)], body), &Target::host()).unwrap();
        let f = module.function("f").unwrap();
        let before = address_space();
        for _ in 0..200 {
            let outcome = f.call((10,));
            assert_eq!(outcome.is_err(), exit == "fail", "{exit}");
            if let Err(error) = outcome {
                assert_eq!(error.to_string(), "ValueError: three is enough");
            }
        }
        let grown = address_space().saturating_sub(before);
        assert!(grown < 1 << 20, "{exit}: {grown} KiB more after 200 calls");
    }
}

#[test]
fn results_of_packed_functions_are_released() {
    let held = std::sync::Arc::new(());
    let lent = held.clone();
    let make = kernpack::Function::from_fn(move || {
        let inside = lent.clone();
        kernpack::Function::from_fn(move || std::sync::Arc::strong_count(&inside) as i64)
    });
    kernpack::Function::register_global_override("test.codegen.make", &make).unwrap();
    let fail =
        kernpack::Function::from_fn(|x: i64| if x < 3 { Ok(x) } else { Err(kernpack::Error::value_error("too much")) });
    kernpack::Function::register_global_override("test.codegen.fail", &fail).unwrap();
    for dtype in [c::nothing(), I64, POINTER] {
        let (n, i) = (Var::new("n", I64), Var::index("i"));
        let packed = |name: &str, dtype, args: Vec<Expr>| {
            let named = core::iter::once(Expr::text(name)).chain(args);
            Stmt::evaluate(Expr::builtin("call_packed", dtype, named))
        };
        let inside = Stmt::seq([
            packed("test.codegen.make", dtype, vec![]),
            packed("test.codegen.fail", I64, vec![i.expr().clone()]),
        ]);
        let body = Stmt::for_loop(i, 0, &n, ForKind::Serial, inside);
        let module = build(&function("f", [scalar(&n)], body), &Target::host()).unwrap();
        let f = module.function("f").unwrap();
        f.call((3,)).unwrap();
        assert_eq!(f.call((10,)).unwrap_err().to_string(), "ValueError: too much");
        assert_eq!(std::sync::Arc::strong_count(&held), 2, "results as {dtype}");
    }
    let missing = Expr::builtin("call_packed", I64, [Expr::text("test.codegen.nowhere")]);
    let module = build(&function("f", [], Stmt::evaluate(missing)), &Target::host()).unwrap();
    let error = module.function("f").unwrap().call(()).unwrap_err().to_string();
    assert!(error.contains("test.codegen.nowhere"), "{error}");
}

#[test]
fn errors_leave_parallel_loops_and_called_functions() {
    let (n, i) = (Var::new("n", I64), Var::index("i"));
    let out = Buffer::new("out", F32, [Expr::int(1000)], "global");
    let inside = Stmt::seq([assert_that(i.less(&n), "beyond n"), Stmt::store(out.clone(), &i, i.expr().cast(F32))]);
    let body = Stmt::for_loop(i, 0, 1000, ForKind::Parallel, inside);
    let module = build(&function("f", [tensor(&out), scalar(&n)], body), &Target::host()).unwrap();
    let f = module.function("f").unwrap();
    let result = Tensor::from_slice(&[0f32; 1000], &[1000]).unwrap();
    f.call((&result, 1000)).unwrap();
    assert!(result.view::<f32>().unwrap().iter().enumerate().all(|(i, x)| x == i as f32));
    assert_eq!(f.call((&result, 999)).unwrap_err().to_string(), "ValueError: beyond n");

    // A function of the module that returns a value, and checks its argument.
    let x = Var::new("x", I32);
    let checked = Stmt::seq([assert_that(x.greater(0), "x is not positive"), Stmt::return_value(&x * 2)]);
    let inner = LoweredFunc::from_node(LoweredFuncNode {
        ret: I32,
        kind: FuncKind::Internal,
        ..function("twice", [scalar(&x)], checked).to_node()
    });
    let y = Var::new("y", I32);
    let call = Expr::call(kernpack_compiler::ir::CallKind::Function, "twice", I32, [y.expr().clone()]);
    let outer = function("outer", [scalar(&y)], Stmt::return_value(call + 1));
    let outer = LoweredFunc::from_node(LoweredFuncNode { ret: I32, ..outer.to_node() });
    let module = build([outer, inner], &Target::host()).unwrap();
    assert_eq!(module.function_names(), ["outer"]);
    let outer = module.function("outer").unwrap();
    assert_eq!(outer.call_as::<i64>((20,)).unwrap(), 41);
    assert_eq!(outer.call((0,)).unwrap_err().to_string(), "ValueError: x is not positive");
}

#[test]
fn while_loops_break_and_continue() {
    // Sums the odd numbers below 100, and stops after 7 of them.
    let n = Var::new("n", I64);
    let cells = Buffer::new("cells", I64, [Expr::int(3)], "local");
    let (at, sum, count) = (Expr::load(&cells, 0), Expr::load(&cells, 1), Expr::load(&cells, 2));
    let jump = |name: &str| Stmt::evaluate(Expr::builtin(name, I32, []));
    let round = Stmt::seq([
        Stmt::store(cells.clone(), 0, &at + 1),
        Stmt::if_then(at.floor_mod(2).equals(0), jump("continue_loop"), None),
        Stmt::if_then(count.equals(&n), jump("break_loop"), None),
        Stmt::store(cells.clone(), 1, &sum + &at),
        Stmt::store(cells.clone(), 2, &count + 1),
    ]);
    let zero = |cell: i64| Stmt::store(cells.clone(), cell, 0);
    let looped = Stmt::from_node(kernpack_compiler::ir::StmtNode::While { condition: at.less(100), body: round });
    let body = Stmt::seq([
        Stmt::alloc(cells.clone()),
        zero(0),
        zero(1),
        zero(2),
        looped,
        Stmt::return_value(Expr::load(&cells, 1)),
    ]);
    let returning = LoweredFunc::from_node(LoweredFuncNode { ret: I64, ..function("f", [scalar(&n)], body).to_node() });
    let module = build(&returning, &Target::host()).unwrap();
    let f = module.function("f").unwrap();
    assert_eq!(f.call_as::<i64>((7,)).unwrap(), 49);
    assert_eq!(f.call_as::<i64>((1000,)).unwrap(), 2500);
}

#[test]
fn exported_libraries_do_the_same() {
    let echo = kernpack::Function::from_fn(|x: i64| x + 1);
    kernpack::Function::register_global_override("test.codegen.echo", &echo).unwrap();
    let n = Var::new("n", I64);
    let call = Expr::builtin("call_packed", I64, [Expr::text("test.codegen.echo"), n.expr().clone()]);
    let body = Stmt::seq([assert_that(n.greater(0), "n is not positive"), Stmt::return_value(call)]);
    let returning = LoweredFunc::from_node(LoweredFuncNode { ret: I64, ..function("f", [scalar(&n)], body).to_node() });
    let functions = [returning, sum(ForKind::Parallel)];
    let module = build(functions, &Target::host()).unwrap();
    let path = std::env::temp_dir().join(format!("kernpack-compiler-{}.so", std::process::id()));
    module.export_library(&path, &kernpack::module::ExportOptions::new()).unwrap();
    let library = kernpack::Module::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let f = library.function("f").unwrap();
    assert_eq!(f.call_as::<i64>((41,)).unwrap(), 42);
    assert_eq!(f.call((0,)).unwrap_err().to_string(), "ValueError: n is not positive");
    let values = [1f32; 100];
    let a = Tensor::from_slice(&values, &[100]).unwrap();
    let out = Tensor::from_slice(&[0f32; 100], &[100]).unwrap();
    library.function("sum").unwrap().call((&a, &a, &out)).unwrap();
    assert_eq!(out.view::<f32>().unwrap().to_vec(), [2f32; 100]);
}

#[test]
fn conversions_between_types() {
    use kernpack_compiler::ir::{BF16, BOOLEAN, F16, F64, I8, U8};
    // From, to, a value, the result; as doubles.
    let rows = [
        (F32, I8, 300.0, 127.0),
        (F32, I8, -1e9, -128.0),
        (F32, U8, -5.0, 0.0),
        (F32, I32, f64::NAN, 0.0),
        (F32, I32, -7.9, -7.0),
        (I32, U8, 300.0, 44.0),
        (U8, I32, 200.0, 200.0),
        (I8, U8, -1.0, 255.0),
        (I32, BOOLEAN, 7.0, 1.0),
        (F64, BOOLEAN, 0.25, 1.0),
        (F64, F16, 1.0 / 3.0, 0.333251953125),
        (F32, BF16, 1.0 / 3.0, 0.333984375),
        (F16, BF16, 1.0009765625, 1.0),
        (I32, F16, 2049.0, 2048.0),
    ];
    for target in [Target::host(), Target::llvm(&Target::host().triple, "", "")] {
        for (from, to, value, expected) in rows {
            for lanes in [1u16, 5] {
                let x = Var::new("x", F64);
                let cells = Buffer::new("cells", to, [Expr::int(8)], "local");
                let many = |expr: &Expr| expr.broadcast(lanes);
                let converted = many(&x.cast(from)).cast(to);
                let place = Expr::int(0).ramp(1, lanes);
                let last = Expr::load(&cells, i64::from(lanes) - 1).cast(F64);
                let body = Stmt::seq([
                    Stmt::alloc(cells.clone()),
                    Stmt::store(cells, place, converted),
                    Stmt::return_value(last),
                ]);
                let plain = function("f", [scalar(&x)], body);
                let returning = LoweredFunc::from_node(LoweredFuncNode { ret: F64, ..plain.to_node() });
                let module = build(&returning, &target).unwrap();
                let found = module.function("f").unwrap().call_as::<f64>((value,)).unwrap();
                assert_eq!(found, expected, "{from} to {to} of {value}, {lanes} lanes");
            }
        }
    }
}

#[test]
fn half_precisions_round_after_each_operation() {
    use kernpack_compiler::ir::{BF16, F16, F64};
    for (dtype, expected) in [(F16, 2048.0), (BF16, 256.0)] {
        // Adding 1 has no effect from the point where the next number is 2 away.
        let (n, i) = (Var::new("n", I64), Var::index("i"));
        let cell = Buffer::new("cell", dtype, [Expr::int(1)], "local");
        let more = Stmt::store(cell.clone(), 0, Expr::load(&cell, 0) + 1);
        let body = Stmt::seq([
            Stmt::alloc(cell.clone()),
            Stmt::store(cell.clone(), 0, Expr::constant(dtype, 0)),
            Stmt::for_loop(i, 0, &n, ForKind::Serial, more),
            Stmt::return_value(Expr::load(&cell, 0).cast(F64)),
        ]);
        let plain = function("f", [scalar(&n)], body);
        let module =
            build(&LoweredFunc::from_node(LoweredFuncNode { ret: F64, ..plain.to_node() }), &Target::host()).unwrap();
        assert_eq!(module.function("f").unwrap().call_as::<f64>((5000,)).unwrap(), expected);
    }
}

#[test]
fn strides_and_offsets_are_read_from_the_argument() {
    use kernpack_compiler::ir::BufferNode;
    let (n, stride, offset) = (Var::size("n", I64), Var::new("stride", I64), Var::new("offset", I64));
    let plain = Buffer::new("a", F32, [n.expr().clone()], "global");
    let a = Buffer::from_node(BufferNode {
        strides: [stride.expr().clone()].into_iter().collect(),
        elem_offset: offset.expr().clone(),
        offset_factor: 1,
        ..plain.to_node()
    });
    let out = Buffer::new("out", F32, [n.expr().clone()], "global");
    let i = Var::index("i");
    let copied = Stmt::store(out.clone(), &i, Expr::load(&a, a.flat_index(&[i.expr().clone()])));
    let body = Stmt::for_loop(i, 0, &n, ForKind::Serial, copied);
    let module = build(&function("f", [tensor(&a), tensor(&out)], body), &Target::host()).unwrap();
    let f = module.function("f").unwrap();
    let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let whole = Tensor::from_slice(&values, &[12]).unwrap();
    let result = Tensor::from_slice(&[0f32; 12], &[12]).unwrap();
    f.call((&whole, &result)).unwrap();
    assert_eq!(result.view::<f32>().unwrap().to_vec(), values);
    // After the first two elements.
    let part = whole.slice(2..6).unwrap();
    let four = Tensor::from_slice(&[0f32; 4], &[4]).unwrap();
    f.call((&part, &four)).unwrap();
    assert_eq!(four.view::<f32>().unwrap().to_vec(), values[2..6]);
}
