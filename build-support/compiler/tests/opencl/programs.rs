//! Programs in the text form: operations, types and memory, one kernel each.

use kernpack::{Any, DataType};
use kernpack_compiler::ErrorKind;
use kernpack_compiler::codegen::source::{self, CUDA, OPENCL};
use kernpack_compiler::ir::{F32, F64, I32, I64, IrModule};
use kernpack_compiler::pass::pipeline::run;
use kernpack_compiler::pass::{PassContext, Program};
use kernpack_compiler::text;

use crate::machine::{Value, check};

/// A module of a function with 8 threads in each of `n / 8` blocks, which run the body.
fn program(params: &str, body: &str) -> IrModule {
    let text = format!(
        "func f({params}) {{
           attr thread_extent(axis b thread \"blockIdx.x\") = floordiv(n, 8) {{
             attr thread_extent(axis t thread \"threadIdx.x\") = 8 {{
               {body}
             }}
           }}
         }}"
    );
    split(&text)
}

/// The module of a function, split into the host and its kernels.
fn split(text: &str) -> IrModule {
    let function = text::parse_func(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let passes = ["ThreadSync", "SplitHostDevice"].map(Any::from).into();
    let program = run(function, &passes, &PassContext::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Program::of(&program).expect("a program").module()
}

fn values(dtype: DataType, values: &[f64]) -> Value {
    Value::Tensor(dtype, vec![values.len() as i64], Some(values.to_vec()))
}

fn output(dtype: DataType, count: i64) -> Value {
    Value::Tensor(dtype, vec![count], None)
}

/// Pairs of all of these numbers.
fn pairs(numbers: &[f64]) -> [Vec<f64>; 2] {
    let count = numbers.len();
    let left = (0..count * count).map(|index| numbers[index / count]).collect();
    [left, (0..count * count).map(|index| numbers[index % count]).collect()]
}

#[test]
fn integers_divide_shift_and_wrap_as_the_program_says() {
    let operations = [
        "x[i] / y[i]",
        "x[i] % y[i]",
        "floordiv(x[i], y[i])",
        "floormod(x[i], y[i])",
        "min(x[i], y[i])",
        "max(x[i], y[i])",
        "x[i] + y[i]",
        "x[i] - y[i]",
        "x[i] * y[i]",
        "x[i] & y[i]",
        "x[i] ^ y[i]",
        "x[i] << y[i]",
        "x[i] >> y[i]",
    ];
    for (name, dtype, least, most) in [
        ("i8", DataType::INT8, -128.0, 127.0),
        ("u8", DataType::UINT8, 0.0, 255.0),
        ("i32", I32, -2147483648.0, 2147483647.0),
        ("i64", I64, -9007199254740992.0, 9007199254740992.0),
    ] {
        let small = if least == 0.0 { [0.0, 1.0, 2.0, 3.0, 7.0, 100.0] } else { [0.0, 1.0, -1.0, 3.0, -7.0, 100.0] };
        let numbers: Vec<f64> = small.into_iter().chain([least, most]).collect();
        let [x, y] = pairs(&numbers);
        let count = x.len() as i64;
        // One kernel for all operations: a device's compiler takes long.
        let params: Vec<String> = (0..operations.len()).map(|number| format!("o{number}: mut {name}[n]")).collect();
        let stores: Vec<String> =
            operations.iter().enumerate().map(|(number, operation)| format!("o{number}[i] = {operation}")).collect();
        let module = program(
            &format!("x: {name}[n], y: {name}[n], {}", params.join(", ")),
            &format!("let i = b * 8 + t\n{}", stores.join("\n")),
        );
        let mut args = vec![values(dtype, &x), values(dtype, &y)];
        args.extend(operations.iter().map(|_| output(dtype, count)));
        check(&module, "f", &args, 0.0);
    }
}

#[test]
fn indices_that_may_be_negative_are_rounded_down() {
    let body = "let i = b * 8 + t
        let shifted = i - 5
        o[i] = a[floordiv(i - 5, 3) + 2] + a[floormod(shifted, 4)] * 8.0
        p[i] = a[floormod(k, 8)] + a[floordiv(k, 2) + 2] * 8.0
        if floordiv(shifted, 3) < -1 { q[i] = 1.0 } else { q[i] = 0.0 }";
    let module = program("a: f32[n], k: i64, o: mut f32[n], p: mut f32[n], q: mut f32[n]", body);
    let numbers: Vec<f64> = (0..16).map(f64::from).collect();
    let outputs = [output(F32, 16), output(F32, 16), output(F32, 16)];
    let args: Vec<Value> = [values(F32, &numbers), Value::Int(-3)].into_iter().chain(outputs).collect();
    check(&module, "f", &args, 0.0);
}

#[test]
fn numbers_are_converted() {
    let infinities = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let finite = [0.0, 1.5, -1.5, 0.1, 300.0, -300.0, 1e10, -1e10, 3e38, 2.5, 65504.0, 1e-7, -0.0];
    let numbers: Vec<f64> = infinities.into_iter().chain(finite).collect();
    let types =
        [("i8", DataType::INT8), ("u8", DataType::UINT8), ("i32", I32), ("i64", I64), ("f64", F64), ("f32", F32)];
    let count = numbers.len() as i64;
    for (from, dtype) in [("f32", F32), ("f64", F64)] {
        let params: Vec<String> = types.iter().map(|(name, _)| format!("o_{name}: mut {name}[n]")).collect();
        let stores: Vec<String> = types.iter().map(|(name, _)| format!("o_{name}[i] = x[i] as {name}")).collect();
        let module = program(
            &format!("x: {from}[n], {}", params.join(", ")),
            &format!("let i = b * 8 + t\n{}", stores.join("\n")),
        );
        let mut args = vec![values(dtype, &numbers)];
        args.extend(types.iter().map(|(_, dtype)| output(*dtype, count)));
        check(&module, "f", &args, 0.0);
    }
    // Values that are rounded twice if single precision is in between.
    let ties = [1.0, 9.0, 1e9, -7.0].map(|factor: f64| factor * (2f64.powi(20) + 2f64.powi(12)) + 1.0);
    let ties: Vec<f64> = ties.into_iter().chain([2147483647.0, -2147483648.0, 16777217.0, 33685505.0]).collect();
    for half in ["f16", "bf16"] {
        for (from, dtype, numbers) in
            [("f32", F32, &numbers), ("f64", F64, &numbers), ("f64", F64, &ties), ("i64", I64, &ties)]
        {
            let body = format!("let h = x[b * 8 + t] as {half}\no[b * 8 + t] = (h * 3.0 + h) as f32");
            let module = program(&format!("x: {from}[n], o: mut f32[n]"), &body);
            check(&module, "f", &[values(dtype, numbers), output(F32, numbers.len() as i64)], 0.0);
        }
    }
}

#[test]
fn math_functions_are_those_of_the_language() {
    let numbers: Vec<f64> = (1..=16).map(|number| f64::from(number) / 17.0).collect();
    let functions = [
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "sinh",
        "cosh", "asin", "acos", "atan", "sqrt", "rsqrt", "abs", "floor", "ceil", "trunc", "round",
    ];
    let pairs = ["pow(x, y)", "atan2(x, y)", "copysign(x, x - y)", "fma(x, y, x)", "nanmin(x, y)", "nanmax(x, y)"];
    let calls: Vec<String> = functions.iter().map(|function| format!("{function}(x)")).collect();
    let sum = |parts: &[String]| parts.join(" + ");
    let pairs = pairs.map(str::to_owned);
    for (name, dtype, tolerance) in [("f32", F32, 1e-6), ("f64", F64, 1e-14)] {
        let body = format!(
            "let x = a[b * 8 + t]\nlet y = a[b * 8 + floormod(t + 3, 8)]\no[b * 8 + t] = {}\np[b * 8 + t] = {}",
            sum(&calls),
            sum(&pairs)
        );
        let module = program(&format!("a: {name}[n], o: mut {name}[n], p: mut {name}[n]"), &body);
        check(&module, "f", &[values(dtype, &numbers), output(dtype, 16), output(dtype, 16)], tolerance * 10.0);
    }
}

#[test]
fn vectors_have_masks_strides_and_conditions() {
    let bodies = [
        "o[b * 32 + t * 4 : 4] = a[b * 32 + t * 4 : 4] + broadcast(1.0, 4)",
        "o[b * 32 + t ; 8 : 4] = a[b * 32 + t ; 8 : 4] * ramp(0, 1, 4) as f32x4",
        "let m = ramp(t, 1, 4) < broadcast(6, 4)
         o[b * 32 + t * 4 : 4] = select(m, a[b * 32 + t * 4 : 4], broadcast(0.5, 4))",
        "o[b * 32 + t * 4 : 4] = broadcast(9.0, 4)
         o[b * 32 + t * 4 : 4] = (a[b * 32 + t * 4 : 4] where ramp(0, 1, 4) < broadcast(3, 4)) where ramp(0, 1, 4) > broadcast(t - 4, 4)",
        "o[b * 32 + t * 4 : 4] = max(min(a[b * 32 + t * 4 : 4], broadcast(1.0, 4)), broadcast(-1.0, 4))",
        "o[b * 32 + t * 4 : 4] = (floordiv(ramp(t - 5, 1, 4), broadcast(3, 4)) + floormod(ramp(t - 5, 3, 4), broadcast(4, 4))) as f32x4",
        "o[b * 32 + t * 4 : 4] = exp(a[b * 32 + t * 4 : 4])",
        "o[b * 32 + t * 4 : 4] = if_then_else(t < 4, a[b * 32 + t * 4 : 4], broadcast(2.0, 4))",
        "o[b * 32 + t * 4 : 4] = (a[b * 32 + t * 4 : 4] as i32x4) as f32x4",
    ];
    let numbers: Vec<f64> = (0..64).map(|number| f64::from(number % 13) / 4.0 - 1.5).collect();
    for body in bodies {
        // Four elements for each thread.
        let module = program("n: i64, a: f32[n * 4], o: mut f32[n * 4]", body);
        check(&module, "f", &[Value::Int(16), values(F32, &numbers), output(F32, 64)], 1e-6);
    }
}

#[test]
fn memory_holds_truth_values_and_small_numbers() {
    let body = "alloc s: bool[8] @shared
        s[t] = a[b * 8 + t] > 0.0
        let next = s[floormod(t + 1, 8)]
        o[b * 8 + t] = select(next && s[t] || !(next || s[t]), 1.0, if_then_else(t < 3, a[b * 8 + t], 0.0))";
    let numbers: Vec<f64> = (0..16).map(|number| f64::from(number * 7 % 5) - 2.0).collect();
    let module = program("a: f32[n], o: mut f32[n]", body);
    check(&module, "f", &[values(F32, &numbers), output(F32, 16)], 0.0);
    let body = "alloc h: f16[4] @local
        for i in 0..4 { h[i] = (a[b * 8 + t] * (i as f32)) as f16 }
        let total = (h[0] + h[1]) + (h[2] + h[3])
        o[b * 8 + t] = total as f32";
    let module = program("a: f32[n], o: mut f32[n]", body);
    check(&module, "f", &[values(F32, &numbers), output(F32, 16)], 0.0);
}

#[test]
fn loops_and_names_are_those_of_the_program() {
    let body = "alloc float4: i32[4] @local
        for kernel in 0..4 { float4[kernel] = kernel as i32 }
        let global = b * 8 + t
        let exp = a[global]
        alloc `while`: i32[1] @local
        `while`[0] = 0i32
        for `int` in 0..global {
          if float4[floormod(`int`, 4)] == 2i32 { `while`[0] = `while`[0] + `int` as i32 }
        }
        o[global] = exp + `while`[0] * local";
    let module = program("a: i32[n], o: mut i32[n], local: i32", body);
    let numbers: Vec<f64> = (0..16).map(f64::from).collect();
    check(&module, "f", &[values(I32, &numbers), output(I32, 16), Value::Int(3)], 0.0);
}

#[test]
fn views_of_tensors_are_passed_with_their_offsets() {
    let module = split(
        "func f(a: f32[16], o: mut f32[8]) {
           alias part: f32[8] align 4 = handle_add_byte_offset::<ptr>(a.data, 20i64)
           attr thread_extent(axis t thread \"threadIdx.x\") = 8 {
             o[t] = part[t] * 2.0
           }
         }",
    );
    let numbers: Vec<f64> = (0..16).map(f64::from).collect();
    check(&module, "f", &[values(F32, &numbers), output(F32, 8)], 0.0);
}

#[test]
fn both_languages_have_the_same_kernels() {
    let module = program("a: f32[n], o: mut f32[n]", "o[b * 8 + t] = floordiv(t * 3 + 1, 2) as f32 + a[b * 8 + t]");
    let (opencl, kernels) = source::source(&OPENCL, &module).unwrap();
    let (cuda, same) = source::source(&CUDA, &module).unwrap();
    assert_eq!(kernels, same);
    assert!(opencl.contains("__attribute__((reqd_work_group_size(8, 1, 1))) __kernel void f_kernel0("), "{opencl}");
    assert!(cuda.contains("extern \"C\" __global__ void __launch_bounds__(8) f_kernel0("), "{cuda}");
}

#[test]
fn pointers_with_names_and_empty_blocks_are_valid_source() {
    let text = "device func f_kernel0(p: ptr) threads [axis t thread \"threadIdx.x\" in 0..0] {
          let q = handle_add_byte_offset::<ptr>(p, 16i64)
          alias a: f32[8] align 4 = q
          a[t] = 1.0
        }";
    let module = text::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let (source, _) = source::source(&OPENCL, &module).unwrap();
    assert!(source.contains("__kernel void f_kernel0(__global uchar* restrict p_block,"), "{source}");
    assert!(!source.contains("const __global") && !source.contains("reqd_work_group_size"), "{source}");
}

#[test]
fn what_a_language_does_not_have_is_an_error() {
    let rows = [
        ("extern \"puts\"::<i32>(n)", "calls the C function `puts`"),
        ("assert a[0] > 0.0, \"ValueError\", \"no\"", "cannot raise an error"),
        ("vectorized i in 0..4 { o[i] = a[i] }", "loop `i` of kernel `f_kernel0` is vectorized"),
        ("alloc s: f32[n] @local\ns[0] = a[0]\no[t] = s[0]", "the extent `n"),
        ("alloc s: f32[8] @texture\ns[0] = a[0]\no[t] = s[0]", "no memory of scope `texture`"),
        ("o[t * 5 : 5] = a[t * 5 + 1 : 5]", "no vectors of 5 lanes"),
        ("o[t] = warp_shuffle::<f32>(-1i32, a[t], 1i32, 8i32, 32i32)", "`warp_shuffle`"),
        ("storage_sync::<i32>(\"warp\")", "no barrier of a warp"),
    ];
    for (body, expected) in rows {
        let text = format!(
            "device func f_kernel0(p: ptr, q: ptr, n: i64) threads [axis t thread \"threadIdx.x\" in 0..8] {{
               alias a: f32[64] align 4 = p
               alias o: f32[64] align 4 = q
               {body}
             }}"
        );
        let module = text::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let error = source::source(&OPENCL, &module).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Target | ErrorKind::Lower), "{error}");
        let error = error.to_string();
        assert!(error.contains(expected) && error.contains("in kernel `f_kernel0`"), "{error}");
    }
    let module =
        text::parse("device func barrier(p: ptr) threads [axis t thread \"threadIdx.x\" in 0..8] {\n}").unwrap();
    let error = source::source(&OPENCL, &module).unwrap_err().to_string();
    assert!(error.contains("kernel `barrier` cannot have this name in OpenCL C"), "{error}");
}
