//! Conversions between floats and integers, and `fma` of small floats: folding, the interpreter,
//! the evaluator and compiled code round once.

use kernpack::{DataType, Device, Tensor};
use kernpack_compiler::build;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{BF16, DataTypeExt, Expr, F16, IrModule, LoweredFunc};
use kernpack_compiler::te::eval::{Elements, Evaluator};
use kernpack_compiler::te::{compute, placeholder};
use kernpack_skip::skip_anywhere;

use crate::integers::TYPES;
use crate::rounding::{FLOATS, Fused, Number, Row, inputs, integers, nearest};
use crate::{function, tensor, written};

const LANES: [u16; 2] = [1, 8];

fn function_of(row: &Row, count: usize) -> LoweredFunc {
    let ([a, out], body) = row.program(count);
    function(&row.name(), [tensor(&a), written(&out)], body)
}

/// The CPU of the machine, and older ones.
fn targets() -> [Target; 3] {
    let host = Target::host();
    let older = ["", "haswell"].map(|cpu| Target::llvm(&host.triple, cpu, ""));
    let [baseline, haswell] = older;
    [host, baseline, haswell]
}

/// A tensor of elements with these bits.
fn to_tensor(dtype: DataType, lanes: &[u64]) -> Tensor {
    let tensor = Tensor::empty(dtype, &[lanes.len() as i64], Device::CPU).unwrap();
    let (data, size) = (tensor.dl_tensor().data.cast::<u8>(), dtype.lane_bytes());
    for (at, bits) in lanes.iter().enumerate() {
        // SAFETY: the tensor is new, compact and has as many elements of this size.
        unsafe { core::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), data.add(at * size), size) };
    }
    tensor
}

/// The bits of a tensor's elements.
fn to_lanes(dtype: DataType, tensor: &Tensor, count: usize) -> Vec<u64> {
    let (data, size) = (tensor.dl_tensor().data.cast::<u8>(), dtype.lane_bytes());
    let read = |at: usize| {
        let mut bytes = [0; 8];
        // SAFETY: as in `to_tensor`; the function that wrote it has returned.
        unsafe { core::ptr::copy_nonoverlapping(data.add(at * size), bytes.as_mut_ptr(), size) };
        u64::from_le_bytes(bytes)
    };
    (0..count).map(read).collect()
}

#[test]
fn compiled_casts_round_once_and_saturate() {
    let with_inputs = |row: Row| {
        let inputs = inputs(row.from);
        (row, inputs)
    };
    let rows: Vec<(Row, Vec<u64>)> = Row::all(LANES).into_iter().map(with_inputs).collect();
    let module = || IrModule::new(rows.iter().map(|(row, inputs)| function_of(row, inputs.len())));
    for target in targets() {
        let module = build(module(), &target).unwrap();
        for (row, inputs) in &rows {
            let (a, out) = (to_tensor(row.from, inputs), to_tensor(row.to, &vec![0; inputs.len()]));
            module.function(&row.name()).unwrap().call((&a, &out)).unwrap();
            row.check(&format!("compiled for '{}'", target.cpu), inputs, &to_lanes(row.to, &out, inputs.len()));
        }
    }
}

#[test]
fn interpreted_casts_round_once_and_saturate() {
    for row in Row::all(LANES) {
        let inputs = inputs(row.from);
        let count = [inputs.len() as i64];
        let (a, out) = (Block::from_lanes(row.from, &count, &inputs), Block::uninit(row.to, &count));
        let machine = Machine::new(&function_of(&row, inputs.len())).unwrap();
        machine.run(&row.name(), &[Arg::from(&a), Arg::from(&out)]).unwrap();
        row.check("interpreted", &inputs, &out.to_lanes().unwrap());
    }
}

#[test]
fn evaluated_casts_round_once_and_saturate() {
    for row in Row::all(LANES).into_iter().filter(|row| row.lanes == 1) {
        let inputs = inputs(row.from);
        let size = row.from.lane_bytes();
        let mut elements = Elements::zeros(row.from, &[inputs.len()]);
        for (bits, bytes) in inputs.iter().zip(elements.bytes_mut().chunks_exact_mut(size)) {
            bytes.copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        let a = placeholder((inputs.len() as i64,), row.from, "a");
        let out = compute([inputs.len() as i64], |[i]| a.at([&i]).cast(row.to));
        let found = Evaluator::new().input(&a, elements).run(&[out]).unwrap();
        let lane = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        let found: Vec<u64> = found[0].bytes().chunks_exact(row.to.lane_bytes()).map(lane).collect();
        row.check("evaluated", &inputs, &found);
    }
}

#[test]
fn folded_casts_round_once() {
    for from in TYPES {
        for number in integers(from) {
            for to in FLOATS {
                // The bits of a large unsigned number are not folded.
                let Some(found) = Expr::constant(from, number as i64).cast(to).as_float() else {
                    assert!(i64::try_from(number).is_err(), "{from} to {to} of {number} is not folded");
                    continue;
                };
                let expected = Number::Float(nearest(to, number));
                assert!(Number::Float(found).is(expected), "{from} to {to} of {number} is {found}, not {expected:?}");
            }
        }
    }
}

/// With AVX512-FP16, LLVM's conversion of half precision to `i16` results in -32768 for NaN:
/// compiled code converts through single precision. LLVM 23 may leave out that step in front of a
/// conversion to `i32`.
#[test]
fn halves_become_integers_by_way_of_single_precision() {
    if !cfg!(target_arch = "x86_64") {
        return skip_anywhere("this machine has no CPU of x86-64");
    }
    let rows = Row::all(LANES).into_iter().filter(|row| row.from == F16);
    let module = IrModule::new(rows.map(|row| function_of(&row, 64)));
    let module = build(module, &Target::llvm(&Target::host().triple, "sapphirerapids", "")).unwrap();
    let text = module.inspect_source("ll").unwrap();
    let is_wide = |line: &str| line.contains("x i32>") || line.ends_with("to i32");
    for line in text.lines() {
        assert!(!(line.contains("half") && line.contains("fpto")) || is_wide(line), "{line}");
    }
    let text = module.inspect_source("asm").unwrap();
    for line in text.lines() {
        assert!(!line.contains("vcvttph2w") && !line.contains("vcvttph2uw"), "{line}");
    }
}

#[test]
fn fused_products_of_small_floats_round_once() {
    for dtype in [F16, BF16] {
        let fused = Fused::of(dtype);
        let (columns, shape) = (fused.columns(), [fused.rows.len() as i64]);
        for lanes in LANES {
            let ([a, b, c, out], body) = fused.program(lanes);
            let function = function("fused", [tensor(&a), tensor(&b), tensor(&c), written(&out)], body);
            let blocks = columns.each_ref().map(|column| Block::from_lanes(dtype, &shape, column));
            let out = Block::uninit(dtype, &shape);
            let args: Vec<Arg> = blocks.iter().chain([&out]).map(Arg::from).collect();
            Machine::new(&function).unwrap().run("fused", &args).unwrap();
            fused.check("interpreted", &out.to_lanes().unwrap());
            for target in targets() {
                let [a, b, c] = columns.each_ref().map(|column| to_tensor(dtype, column));
                let out = to_tensor(dtype, &vec![0; fused.rows.len()]);
                let module = build(&function, &target).unwrap();
                module.function("fused").unwrap().call((&a, &b, &c, &out)).unwrap();
                let found = to_lanes(dtype, &out, fused.rows.len());
                fused.check(&format!("compiled for '{}', {lanes} lanes", target.cpu), &found);
            }
        }
    }
}
