//! Conversions to and from types without arithmetic, code by code, and bits as other types.

use kernpack::DataType;
use kernpack_compiler::ir::{BOOLEAN, F16, F32, F64, I8, I16, I64, U8, U16};
use kernpack_graph::onnx::{read_tensor, to_constant};
use kernpack_graph::{Attr, Constant};

use super::program::{Program, known};
use super::{ints, run, text};

/// The integers of few bits, with their numbers in ONNX.
const FEW: [(i64, DataType); 4] = [
    (21, DataType::scalar(1, 4)),
    (22, DataType::scalar(0, 4)),
    (25, DataType::scalar(1, 2)),
    (26, DataType::scalar(0, 2)),
];
const POWER: DataType = DataType::scalar(14, 8);
/// 6-bit floats: the number in ONNX, the type, bits of the fraction, and the bias.
const SIX: [(i64, DataType, i32, i32); 2] = [(27, DataType::scalar(15, 6), 3, 1), (28, DataType::scalar(16, 6), 2, 3)];

fn cast(x: Constant, to: i64) -> Constant {
    run("Cast", &[("to", Attr::Int(to))], &[Some(x)]).unwrap().remove(0)
}

fn doubles(values: &[f64]) -> Constant {
    known(F64, &[i64::try_from(values.len()).unwrap()], values)
}

/// The excess bits are dropped.
fn wrapped(value: i64, dtype: DataType) -> i64 {
    let bits = u32::from(dtype.bits());
    if dtype.code() == 1 { value & ((1 << bits) - 1) } else { value << (64 - bits) >> (64 - bits) }
}

#[test]
fn integers_of_few_bits_wrap() {
    let values: Vec<i64> = (-40..40).collect();
    let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    for (number, dtype) in FEW {
        let expected: Vec<i64> = values.iter().map(|value| wrapped(*value, dtype)).collect();
        let given = [ints(&[80], &values), doubles(&floats), known(F32, &[80], &floats), known(F16, &[80], &floats)];
        for x in given {
            let what = format!("{} as {dtype}", x.dtype());
            let result = cast(x, number);
            assert_eq!(result.dtype(), dtype);
            assert_eq!(result.to_ints().unwrap(), expected, "{what}");
            assert_eq!(cast(result, 7).to_ints().unwrap(), expected, "{what} and back");
        }
        // Quantization saturates instead.
        let zero = Constant::new(dtype, &[], [0_u8].as_slice()).unwrap();
        let given = [Some(known(F32, &[80], &floats)), Some(known(F32, &[], &[1.0])), Some(zero)];
        let quantized = run("QuantizeLinear", &[], &given).unwrap().remove(0);
        let bits = u32::from(dtype.bits());
        let (low, high) =
            if dtype.code() == 1 { (0, (1 << bits) - 1) } else { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) };
        let expected: Vec<i64> = values.iter().map(|value| *value.clamp(&low, &high)).collect();
        assert_eq!(quantized.to_ints().unwrap(), expected, "quantized to {dtype}");
    }
}

#[test]
fn powers_have_every_code_and_round_in_three_ways() {
    let codes: Vec<u8> = (0..=255).collect();
    let all = Constant::new(POWER, &[256], codes.as_slice()).unwrap();
    let numbers = cast(all.clone(), 11).to_floats().unwrap();
    for (code, number) in numbers.iter().enumerate().take(255) {
        assert_eq!(*number, 2f64.powi(i32::try_from(code).unwrap() - 127), "code {code}");
    }
    assert!(numbers[255].is_nan());
    assert_eq!(cast(doubles(&numbers), 24).bytes(), all.bytes());
    let parts = [1.0, 1.25, 1.5, 1.75];
    let mut values: Vec<f64> = (-130..=129).flat_map(|power| parts.map(|part| part * 2f64.powi(power))).collect();
    values.extend([0.0, f64::INFINITY, f64::NAN]);
    for (mode, limit) in [("up", 1.0), ("down", 2.0), ("nearest", 1.5)] {
        for saturate in [true, false] {
            let expected = values.iter().map(|value| {
                let exponent = if *value == 0.0 { -200.0 } else { value.log2().floor().min(500.0) };
                let part = if value.is_infinite() { 1.0 } else { value / 2f64.powf(exponent) };
                let goes_up = if mode == "up" { part > limit } else { part >= limit };
                let code = exponent + f64::from(u8::from(goes_up)) + 127.0;
                match code {
                    _ if value.is_nan() => 255,
                    code if saturate => code.clamp(0.0, 254.0) as u8,
                    code if (0.0..=254.0).contains(&code) => code as u8,
                    _ => 255,
                }
            });
            let attrs = [("to", Attr::Int(24)), ("round_mode", text(mode)), ("saturate", Attr::Int(saturate.into()))];
            let found = run("Cast", &attrs, &[Some(doubles(&values))]).unwrap().remove(0);
            for ((value, expected), found) in values.iter().zip(expected).zip(found.bytes()) {
                assert_eq!(*found, expected, "{value:e} {mode}, saturated: {saturate}");
            }
        }
    }
    let wrong = [("to", Attr::Int(24)), ("round_mode", text("sideways"))];
    let error = run("Cast", &wrong, &[Some(doubles(&[1.0]))]).unwrap_err();
    assert!(error.contains("attribute `round_mode` is 'sideways', not up, down or nearest"), "{error}");
    // Scales of blocks are such powers.
    let scale = Constant::new(POWER, &[1], [126_u8].as_slice()).unwrap();
    let bytes = Constant::new(I8, &[1], [6_u8].as_slice()).unwrap();
    let given = [Some(bytes), Some(scale)];
    let result = run("DequantizeLinear", &[("output_dtype", Attr::Int(1))], &given).unwrap().remove(0);
    assert_eq!(result.to_floats().unwrap(), [3.0]);
    assert!(run("DequantizeLinear", &[], &given).unwrap_err().contains("attribute `output_dtype` names another type"));
}

#[test]
fn floats_of_six_bits_have_every_code() {
    for (number, dtype, fraction, bias) in SIX {
        let value = |code: u8| {
            let (exponent, digits) = (i32::from(code & 31) >> fraction, f64::from(code & ((1 << fraction) - 1)));
            let digits = digits / 2f64.powi(fraction);
            let size =
                if exponent == 0 { digits * 2f64.powi(1 - bias) } else { (1.0 + digits) * 2f64.powi(exponent - bias) };
            if code >= 32 { -size } else { size }
        };
        let codes: Vec<u8> = (0..64).collect();
        let all = Constant::new(dtype, &[64], codes.as_slice()).unwrap();
        let numbers = cast(all.clone(), 1).to_floats().unwrap();
        let expected: Vec<f64> = codes.iter().map(|code| value(*code)).collect();
        assert_eq!(numbers, expected, "{dtype}");
        assert_eq!(cast(doubles(&numbers), number).bytes(), all.bytes(), "{dtype}");
        // Ties round to even; numbers that are too large become the largest one; NaN has no code.
        for code in 0..31_u8 {
            let middle = f64::midpoint(value(code), value(code + 1));
            assert_eq!(
                cast(doubles(&[middle]), number).bytes(),
                [code + code % 2],
                "{dtype} between {code} and the next"
            );
        }
        let wide = doubles(&[1e9, f64::NEG_INFINITY, f64::NAN]);
        assert_eq!(cast(wide, number).bytes(), [31, 63, 32], "{dtype}");
    }
}

/// A tensor of a model: one dimension, a type, and its data by the number of the field.
fn message(count: u8, number: u8, field: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x08, count, 0x10, number, field << 3 | 2, u8::try_from(data.len()).unwrap()];
    bytes.extend(data);
    bytes
}

#[test]
fn packed_elements_are_read() {
    let read = |bytes: &[u8]| -> Result<Constant, String> {
        let raw = read_tensor(bytes).map_err(|error| error.to_string())?;
        to_constant(&raw, &|_, _, _| Ok(Vec::new())).map_err(|error| error.to_string())
    };
    let (raw, ints) = (9, 5);
    let few = |number: u8, count: u8, field: u8, data: &[u8]| read(&message(count, number, field, data)).unwrap();
    for field in [raw, ints] {
        assert_eq!(few(25, 3, field, &[0b0011_1001]).to_ints().unwrap(), [1, 2, 3]);
        assert_eq!(few(26, 3, field, &[0b0011_1001]).to_ints().unwrap(), [1, -2, -1]);
        assert_eq!(few(22, 3, field, &[0x7f, 0x08]).to_ints().unwrap(), [-1, 7, -8]);
    }
    // Four numbers of 6 bits in three bytes; as integers each is separate.
    assert_eq!(few(27, 4, raw, &[0b1000_0001, 0b0011_0000, 0b1111_1100]).bytes(), [1, 2, 3, 63]);
    assert_eq!(few(28, 2, raw, &[0b1100_0001, 0b0000_1111]).bytes(), [1, 63]);
    assert_eq!(few(28, 3, ints, &[1, 63, 2]).bytes(), [1, 63, 2]);
    assert_eq!(few(24, 2, raw, &[0, 255]).bytes(), [0, 255]);
    let error = read(&message(5, 25, raw, &[0])).unwrap_err();
    assert!(error.contains("1 bytes for uint2[5], which has 2"), "{error}");
    // A type newer than all known ones, and a known one without kernels.
    let error = read(&message(1, 29, raw, &[0])).unwrap_err();
    let newest = "tensors of element type 29 are not supported: the newest type of ONNX that is known is float6_e3m2fn, number 28";
    assert!(error.contains(newest), "{error}");
    let error = read(&message(1, 14, raw, &[0])).unwrap_err();
    assert!(error.ends_with("tensors of element type complex64 are not supported"), "{error}");
}

#[test]
fn bits_are_other_types_and_come_back() {
    // Types of one width, with their numbers in ONNX.
    let widths: [&[(i64, DataType)]; 4] = [
        &[(2, U8), (3, I8), (17, DataType::scalar(10, 8)), (24, POWER)],
        &[(4, U16), (5, I16), (10, F16), (16, kernpack_compiler::ir::BF16)],
        &[(21, DataType::scalar(1, 4)), (22, DataType::scalar(0, 4)), (23, DataType::scalar(17, 4))],
        &[(7, I64), (11, F64)],
    ];
    for types in widths {
        for (from_number, from) in types {
            let width = usize::from(from.bits()).div_ceil(8);
            let bytes: Vec<u8> = match from.bits() {
                4 => (0..16).map(|code| wrapped(code, if from.code() == 0 { *from } else { FEW[0].1 }) as u8).collect(),
                _ => (0..16 * width).map(|place| (place * 37 + 11) as u8).collect(),
            };
            let x = Constant::new(*from, &[16], bytes.as_slice()).unwrap();
            for (number, to) in types {
                let there = run("BitCast", &[("to", Attr::Int(*number))], &[Some(x.clone())]).unwrap().remove(0);
                assert_eq!(there.dtype(), *to, "{from} as {to}");
                if from.bits() >= 8 {
                    assert_eq!(there.bytes(), x.bytes(), "{from} as {to}");
                }
                let back = run("BitCast", &[("to", Attr::Int(*from_number))], &[Some(there)]).unwrap().remove(0);
                assert_eq!(back, x, "{from} as {to} and back");
            }
        }
    }
    // Compiled, too, in both directions.
    for (number, from, to) in [(4, F16, U16), (5, kernpack_compiler::ir::BF16, I16), (11, I64, F64)] {
        let bytes: Vec<u8> = (0..16 * usize::from(from.bits()) / 8).map(|place| (place * 37 + 11) as u8).collect();
        let x = Constant::new(from, &[16], bytes).unwrap();
        let there = Program::new("BitCast", &[("to", Attr::Int(number))], &[Some((&x, true))], 1).unwrap().run(&[&x]);
        assert_eq!((there[0].dtype(), there[0].bytes()), (to, x.bytes()), "{from} as {to}");
    }
    let truth = Constant::new(BOOLEAN, &[2], [0_u8, 1].as_slice()).unwrap();
    assert_eq!(run("BitCast", &[("to", Attr::Int(2))], &[Some(truth)]).unwrap()[0].bytes(), [0, 1]);
    let error = run("BitCast", &[("to", Attr::Int(7))], &[Some(known(F32, &[1], &[1.0]))]).unwrap_err();
    assert!(error.contains("the bits of float32 are not as many as those of int64"), "{error}");
}
