//! Compiled code: results, checks of arguments, errors, formats.
#![cfg(feature = "llvm")]

use kernpack::{DataType, Tensor};
use kernpack_compiler::build;
use kernpack_compiler::codegen::{Target, c};
use kernpack_compiler::ir::{
    BinaryOp, Buffer, Expr, F32, ForKind, FuncKind, I32, I64, LoweredFunc, LoweredFuncNode, POINTER, Param, ParamNode,
    Stmt, Var,
};

fn tensor(buffer: &Buffer) -> Param {
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
    // The operation, both operands, the result; `i32` wraps, floor division rounds down, shifts by too much shift everything out.
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

/// A copy of `from` to `to` with conversion, in vectors of `lanes` from `start` on with a stride.
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
