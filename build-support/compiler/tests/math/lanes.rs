//! The same values in vectors, and half precision.

use std::process::Command;

use kernpack_compiler::codegen::{RuntimeSymbols, c};
use kernpack_compiler::intrin::{FUNCTIONS, Features};
use kernpack_compiler::ir::builder::round_float;
use kernpack_compiler::ir::verify::{Stage, verify_module};
use kernpack_compiler::ir::{BF16, DataType, DataTypeExt, F16, F32, F64};

use crate::program::{cc, cpu, folder, has_fma, module};

/// A program that writes the bits of all results for some inputs.
const DUMP: &str = "
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define X1(name) void run_##name(const bits_t* x, bits_t* out, int64_t n);
#define X2(name) void run_##name(const bits_t* x, const bits_t* y, bits_t* out, int64_t n);
FUNCTIONS
#undef X1
#undef X2
enum { N = 1 << 16 };
static bits_t x[N], y[N], out[N];
int main(void) {
  uint64_t state = 1;
  for (int i = 0; i < N; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    y[i] = (bits_t)(state >> (64 - 8 * sizeof(bits_t)));
    x[i] = sizeof(bits_t) == 2 ? (bits_t)i : (bits_t)((state ^ state >> 29) * 0x9e3779b97f4a7c15u);
  }
#define X1(name) run_##name(x, out, N); fwrite(out, sizeof *out, N, stdout);
#define X2(name) run_##name(x, y, out, N); fwrite(out, sizeof *out, N, stdout);
  FUNCTIONS
  return 0;
}
";

/// The results of all functions, as one sequence of bytes.
fn dump(name: &str, dtype: DataType, lanes: u16, features: Features, options: &[&str]) -> Vec<u8> {
    let folder = folder(name);
    std::fs::write(
        folder.join("kernel.c"),
        c::source(&module(dtype, lanes, features), &RuntimeSymbols::Direct).unwrap(),
    )
    .unwrap();
    std::fs::write(folder.join("dump.c"), DUMP).unwrap();
    let table: Vec<String> = FUNCTIONS.iter().map(|(name, arity)| format!("X{arity}({name})")).collect();
    let table = format!("-DFUNCTIONS={}", table.join(" "));
    let bits = format!("-Dbits_t=uint{}_t", dtype.bits());
    cc(&[&["-c", "kernel.c"], c::FLAGS, cpu(features), options].concat(), &folder);
    cc(&["-O1", &table, &bits, "dump.c", "kernel.o", "-o", "dump", "-lm"], &folder);
    let output = Command::new(folder.join("dump")).output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.len(), FUNCTIONS.len() << 16 << dtype.bits().trailing_zeros() >> 3);
    output.stdout
}

#[test]
fn vectors_have_the_values_of_scalars() {
    let features = Features { fma: has_fma(), ..Features::default() };
    for (title, dtype, lanes) in [("f32", F32, 16), ("f64", F64, 4)] {
        let scalars = dump(&format!("scalars-{title}"), dtype, 1, features, &["-O1"]);
        let vectors = dump(&format!("vectors-{title}"), dtype, lanes, features, &["-O1"]);
        let arrays = dump(&format!("arrays-{title}"), dtype, lanes, features, &["-O0", "-DKP_VECTORS=0"]);
        for (other, kind) in [(vectors, "vectors"), (arrays, "arrays of lanes")] {
            let bytes = dtype.lane_bytes();
            for (at, (a, b)) in scalars.chunks(bytes).zip(other.chunks(bytes)).enumerate() {
                let nan = |bits: &[u8]| match *bits {
                    [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).is_nan(),
                    _ => f64::from_le_bytes(bits.try_into().unwrap()).is_nan(),
                };
                let (name, input) = (FUNCTIONS[at >> 16].0, at & 0xffff);
                assert!(a == b || nan(a) && nan(b), "{title} {kind}: {name} of input {input}: {a:x?} and {b:x?}");
            }
        }
    }
}

/// The half precision functions that Rust has, in double precision.
fn reference(name: &str, x: f64) -> Option<f64> {
    Some(match name {
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "expm1" => x.exp_m1(),
        "sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "log" => x.ln(),
        "log2" => x.log2(),
        "log10" => x.log10(),
        "log1p" => x.ln_1p(),
        "tanh" => x.tanh(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "rsqrt" => 1.0 / x.sqrt(),
        _ => return None,
    })
}

/// The value of a bit pattern.
fn half(dtype: DataType, bits: u16) -> f64 {
    if dtype.is_bfloat() {
        return f64::from(f32::from_bits(u32::from(bits) << 16));
    }
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa != 0.0 => f64::NAN,
        31 => f64::INFINITY,
        _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

#[test]
fn half_precision_is_rounded_from_single_precision() {
    let features = Features { fma: has_fma(), ..Features::default() };
    for (title, dtype) in [("f16", F16), ("bf16", BF16)] {
        let results = dump(&format!("half-{title}"), dtype, 1, features, &["-O1"]);
        let mut checked = 0;
        for (index, bytes) in results.chunks(2).enumerate() {
            let (name, bits) = (FUNCTIONS[index >> 16].0, (index & 0xffff) as u16);
            let x = half(dtype, bits);
            let (Some(exact), result) = (reference(name, x), half(dtype, u16::from_le_bytes([bytes[0], bytes[1]])))
            else {
                continue;
            };
            checked += 1;
            if exact.is_nan() || result.is_nan() {
                assert_eq!(exact.is_nan(), result.is_nan(), "{title} {name}({x}) is {result}, not {exact}");
                continue;
            }
            if exact.is_infinite() {
                assert_eq!(result, exact, "{title} {name}({x})");
                continue;
            }
            // The error of single precision may decide between two neighbors.
            let slack = exact.abs() * 2f64.powi(-21);
            let (low, high) = (round_float(dtype, exact - slack), round_float(dtype, exact + slack));
            assert!((low..=high).contains(&result), "{title} {name}({x}) is {result}, not {exact}");
        }
        assert_eq!(checked, 18 << 16);
    }
}

#[test]
fn lowered_functions_are_valid_programs() {
    for dtype in [F32, F64, F16, BF16] {
        for lanes in [1, 4] {
            for features in [Features::default(), Features { fma: true, scales: true, reassociates: true }] {
                verify_module(&module(dtype, lanes, features), Stage::Vectorized).unwrap();
            }
        }
    }
}
