//! Statements and expressions on the CPU.

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{BOOLEAN, F16, F32, F64, I8, I32, I64, U8};
use kernpack_compiler::text;

use crate::{fails, run_text};

#[track_caller]
fn output(source: &str, extent: i64) -> Vec<f32> {
    let out = Block::uninit(F32, &[extent]);
    run_text(source, &[(&out).into()]).unwrap_or_else(|error| panic!("{error}"));
    out.to_f32().unwrap()
}

/// The value of an expression over `x`, which has this value.
#[track_caller]
fn value(dtype: &str, expression: &str, x: Arg, x_type: &str) -> Arg {
    let source = format!("func f(x: {x_type}) -> {dtype} {{\n return {expression}\n}}");
    run_text(&source, &[x]).unwrap_or_else(|error| panic!("{error}")).expect("a value")
}

#[track_caller]
fn int(dtype: &str, expression: &str, x: i64) -> i64 {
    match value(dtype, expression, x.into(), "i64") {
        Arg::Int(value) => value,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn float(dtype: &str, expression: &str, x: f64, x_type: &str) -> f64 {
    match value(dtype, expression, x.into(), x_type) {
        Arg::Float(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn integers_wrap_where_they_are_data() {
    assert_eq!(int("i8", "x as i8 + 100i8", 100), -56);
    assert_eq!(int("u8", "x as u8 * 3u8", 200), 88);
    assert_eq!(int("i64", "x / 2", -7), -3);
    assert_eq!(int("i64", "x % 2", -7), -1);
    assert_eq!(int("i64", "floordiv(x, 2)", -7), -4);
    assert_eq!(int("i64", "floormod(x, 2)", -7), 1);
    assert_eq!(int("i64", "x + 1", i64::MAX), i64::MIN);
    assert_eq!(int("i32", "(x as i32 << 31i32) >> 40i32", 1), -1);
    assert_eq!(int("u64", "x as u64 / 3u64", -1), (u64::MAX / 3) as i64);
    assert_eq!(int("i32", "popcount::<i32>(x as i32)", -1), 32);
    assert_eq!(int("i32", "clz::<i32>(x as i32)", 1), 31);
    assert_eq!(int("i64", "bitnot::<i64>(x)", 0), -1);
    assert_eq!(int("i64", "max(x, 3) + min(x, 3)", 5), 8);
}

#[test]
fn floats_are_rounded_in_their_type() {
    let (x, third) = (0.1f32, 1.0f32 / 3.0);
    assert_eq!(float("f32", "x * 3.0 + 0.3", x.into(), "f32"), f64::from(x * 3.0 + 0.3));
    assert_eq!(float("f32", "fma(x, 3.0, 0.3)", third.into(), "f32"), f64::from(third.mul_add(3.0, 0.3)));
    assert_eq!(float("f64", "x as f64 * 3.0", x.into(), "f32"), f64::from(x) * 3.0);
    assert_eq!(float("f16", "x + 0.0004f16", 1.0, "f16"), 1.0);
    assert_eq!(float("f16", "x * x", 300.0, "f16"), f64::INFINITY);
    assert_eq!(float("bf16", "x + 1.0bf16", 256.0, "bf16"), 256.0);
    assert_eq!(float("f32", "round(x)", 2.5, "f32"), 2.0);
    assert_eq!(float("f32", "max(x, 1.0)", f64::NAN, "f32"), 1.0);
    assert!(float("f32", "nanmax(x, 1.0)", f64::NAN, "f32").is_nan());
    assert_eq!(float("f32", "exp(x)", 1.0, "f32"), f64::from(core::f32::consts::E));
    assert_eq!(float("f32", "erf(x)", 0.5, "f32"), f64::from(0.520_499_9_f32));
    assert_eq!(
        float("f32", "reinterpret::<f32>(reinterpret::<i32>(x) + 1i32)", 1.0, "f32"),
        f64::from(1.0f32.next_up())
    );
}

#[test]
fn casts_saturate() {
    let cast = |to: &str, x: f64| match value(to, &format!("x as {to}"), x.into(), "f64") {
        Arg::Int(value) => value,
        other => panic!("{other:?}"),
    };
    assert_eq!(cast("i8", 1000.0), 127);
    assert_eq!(cast("i8", -1000.0), -128);
    assert_eq!(cast("u8", -3.0), 0);
    assert_eq!(cast("i32", f64::NAN), 0);
    assert_eq!(cast("i64", 1e30), i64::MAX);
    assert_eq!(cast("i32", -2.9), -2);
    assert_eq!(cast("bool", 0.5), 1);
    assert_eq!(int("u8", "x as u8", 511), 255);
}

#[test]
fn vectors_go_lane_by_lane() {
    let source = "func f(o: mut f32[8]) {
        let r = ramp(0, 1, 8)
        let v = r as f32x8 * broadcast(2.0, 8)
        o[0 : 8] = select(r < broadcast(4, 8), v, shuffle([v, broadcast(-1.0, 8)], [7, 6, 5, 4, 8, 9, 0, 1]))
    }";
    assert_eq!(output(source, 8), [0.0, 2.0, 4.0, 6.0, -1.0, -1.0, 0.0, 2.0]);
    // Only the lanes of the selected side are evaluated, and only they access memory.
    let lazy = "func f(o: mut f32[8]) {
        alloc t: f32[4] @local
        t[0 : 4] = broadcast(3.0, 4)
        let r = ramp(0, 1, 8)
        o[0 : 8] = if_then_else(r < broadcast(4, 8), t[0 : 8], (broadcast(8, 8) / (r - broadcast(3, 8))) as f32x8)
    }";
    assert_eq!(output(lazy, 8), [3.0, 3.0, 3.0, 3.0, 8.0, 4.0, 2.0, 2.0]);
    let eager = lazy.replace("if_then_else", "select");
    fails(
        run_text(&eager, &[Block::uninit(F32, &[8]).into()]),
        &["out of bounds: `t`[4] is not in 0..4", "r = [0, 1, 2"],
    );
    // A buffer of vectors; a mask with a lane for each location.
    let wide = "func f(o: mut f32x4[2]) {
        o[0 : 2] = broadcast(1.0, 8) where ramp(0, 1, 2) < broadcast(1, 2)
    }";
    let out = Block::uninit(F32.with(4), &[2]);
    run_text(wide, &[(&out).into()]).unwrap();
    let known: Vec<bool> = out.known_lanes().iter().map(Option::is_some).collect();
    assert_eq!(known, [true, true, true, true, false, false, false, false]);
}

trait With {
    fn with(self, lanes: u16) -> Self;
}

impl With for kernpack::DataType {
    fn with(self, lanes: u16) -> Self {
        kernpack_compiler::ir::DataTypeExt::with_lanes(self, lanes)
    }
}

#[test]
fn loops_end_as_they_say() {
    let source = "func f(o: mut f32[6]) {
        for i in 2..+4 {
            if i == 3 { continue_loop::<i32>() }
            if i == 5 { break_loop::<i32>() }
            o[i] = 1.0
        }
        let k = 0
        alloc n: i64[1] @local
        n[0] = 0
        while n[0] < 2 {
            alloc t: f32[1] @local
            t[0] = 7.0
            o[n[0]] = t[0]
            n[0] = n[0] + 1
            if n[0] < 2 { continue_loop::<i32>() }
        }
        for i in 0..0 - 3 { o[9] = 0.0 }
        o[3] = 5.0
        o[5] = 6.0
    }";
    assert_eq!(output(source, 6), [7.0, 7.0, 1.0, 5.0, 1.0, 6.0]);
    let early = "func f(x: i64) -> i64 {
        parallel i in 0..10 {
            alloc t: f32[1]
            if i == x { return i * 100 }
        }
        return 0 - 1
    }";
    for (x, expected) in [(4, 400), (11, -1)] {
        assert!(matches!(run_text(early, &[x.into()]), Ok(Some(Arg::Int(value))) if value == expected));
    }
}

#[test]
fn types_are_kept_in_memory() {
    for (dtype, values) in
        [(I8, vec![-128, 127]), (U8, vec![0, 255]), (I32, vec![i64::from(i32::MIN), 7]), (I64, vec![i64::MIN, 5])]
    {
        let block = Block::from_i64(dtype, &[2], &values);
        assert_eq!(block.to_i64().unwrap(), values);
    }
    let halves = Block::from_f64(F16, &[3], &[1.0, 0.1, -65504.0]);
    assert_eq!(halves.to_f32().unwrap(), [1.0, 0.099_975_586, -65504.0]);
    assert_eq!(Block::from_f64(F64, &[1], &[0.1]).to_f64().unwrap(), [0.1]);
    let truth = "func f(o: mut bool[2], x: i64) {\n o[0] = x < 3\n o[1] = !o[0]\n}";
    let out = Block::uninit(BOOLEAN, &[2]);
    run_text(truth, &[(&out).into(), 1.into()]).unwrap();
    assert_eq!(out.to_i64().unwrap(), [1, 0]);
    let no_truth = "func f(a: i8[1], o: mut bool[1]) {\n alias b: bool[1] = a.data\n o[0] = b[0]\n}";
    let args = [Block::from_i64(I8, &[1], &[2]).into(), Block::uninit(BOOLEAN, &[1]).into()];
    fails(run_text(no_truth, &args), &["byte 0 of `a` is 2: no truth value"]);
}

#[test]
fn shapes_strides_and_offsets_are_bound() {
    let source = "func f(a: f32[n, m] strides [s, 1] offset (o) factor 1, b: mut f32[m, n]) {
        for i in 0..n { for j in 0..m { b[j * n + i] = a[o + i * s + j] } }
    }";
    let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
    let a = Block::from_f32(&values).strided(&[2, 3], &[5, 1], 1);
    let b = Block::uninit(F32, &[3, 2]);
    run_text(source, &[a.into(), (&b).into()]).unwrap();
    assert_eq!(b.to_f32().unwrap(), [1.0, 6.0, 2.0, 7.0, 3.0, 8.0]);
    let compact = "func f(a: f32[n, m]) {\n}";
    let strided = Block::from_f32(&values).strided(&[2, 3], &[5, 1], 0);
    fails(run_text(compact, &[strided.into()]), &["argument 0 (`a`): a compact tensor is expected"]);
    let moved = Block::from_f32(&values).strided(&[3, 3], &[3, 1], 1);
    fails(run_text(compact, &[moved.into()]), &["offset of `a` is 1, expected 0"]);
    let off = Block::from_f32(&values).reshaped(&[3, 4]).misaligned(4);
    fails(run_text(compact, &[off.into()]), &["the address is not a multiple of 64, which the function promises"]);
    let twice = "func f(a: f32[n], b: f32[n * 2]) {\n}";
    let args = [Block::from_f32(&[0.0; 3]).into(), Block::from_f32(&[0.0; 5]).into()];
    fails(run_text(twice, &args), &["extent 0 of `b` is 5, expected 6"]);
    let wrong = [Block::from_i64(I32, &[1], &[1]).into(), Block::from_f32(&[0.0; 2]).into()];
    fails(run_text(twice, &wrong), &["elements of f32 are expected, got i32"]);
    fails(run_text(twice, &[3.into()]), &["`f` takes 2 arguments, got 1"]);
    fails(run_text("func f(x: i8) {\n}", &[300.into()]), &["300 is not a value of type i8"]);
}

#[test]
fn what_is_undefined_is_found() {
    let args = || [Block::uninit(F32, &[4]).into(), Arg::Int(i64::MAX)];
    for (statement, message) in [
        ("o[x + 1] = 0.0", "overflow of index arithmetic: 9223372036854775807 and 1"),
        ("for i in x..+x { }", "overflow of index arithmetic"),
        ("if x + 1 > x { }", "overflow of index arithmetic"),
        ("let y = x * 2", "overflow of index arithmetic"),
        ("o[x / (x - x)] = 0.0", "division by zero in index arithmetic"),
        ("assume::<bool>(x < 3)", "what `assume` says does not hold"),
        ("assert x < 3, \"ValueError\", \"x is \", \"large\"", "ValueError: x is large"),
        ("alloc t: f32[x - x - 1]", "`t` has a negative extent of -1"),
        ("alloc t: f32[x]", "`t` is larger than the 4 GiB"),
        (
            "alias p: f32[4] align 4 = handle_add_byte_offset::<ptr>(o.data, 4i64)\n p[3] = 0.0",
            "bytes 16..20 of `o`, which has 16",
        ),
        ("alias p: f32[2] align 4 = handle_add_byte_offset::<ptr>(o.data, 4i64)\n p[2] = 0.0", "`p`[2] is not in 0..2"),
        ("alias p: f32[1] = handle_add_byte_offset::<ptr>(o.data, 4i64)", "not at a multiple of 64, which it promises"),
        (
            "alias p: f32[1] align 1 = handle_add_byte_offset::<ptr>(o.data, 2i64)\n p[0] = 0.0",
            "is not a multiple of 4",
        ),
        ("alias p: f32[1] align 1 = 0ptr\n p[0] = 0.0", "null pointer"),
        ("packed \"missing\"::<i32>()", "unknown packed function `missing`"),
    ] {
        let source = format!("func f(o: mut f32[4], x: i64) {{\n {statement}\n}}");
        fails(run_text(&source, &args()), &[message, "of function `f`"]);
    }
    let input = "func f(a: f32[1]) {\n a[0] = 1.0\n}";
    fails(run_text(input, &[Block::from_f32(&[0.0]).into()]), &["`a` is written, but is not an output"]);
    let outside = "func f(o: mut f32[1]) {\n alloc p: i64[1]\n if true {\n  alloc t: f32[1]\n  t[0] = 1.0\n  p[0] = t.data as i64\n }\n alias q: f32[1] = p[0] as ptr\n o[0] = q[0]\n}";
    fails(run_text(outside, &[Block::uninit(F32, &[1]).into()]), &["`t` is used after the end of its scope"]);
    let endless = text::parse_func("func f() {\n while true {\n }\n}").unwrap();
    let error = Machine::new(&endless).unwrap().with_step_limit(1000).run("f", &[]).unwrap_err();
    assert_eq!(error.what(), "the limit of 1000 operations is reached");
}

#[test]
fn programs_that_cannot_run_are_refused() {
    for (source, message) in [
        ("tensor t: f32[4]\nfunc f() {\n t[0] = 1.0\n}", "this one has tensors"),
        ("func f() {\n no_such::<i32>()\n}", "unknown builtin `no_such`"),
        ("var x: i64\nfunc f() {\n let y = x\n}", "unknown variable `x`"),
        ("func f() {\n storage_sync::<i32>(\"shared\")\n}", "a barrier outside of a kernel"),
        ("func f() {\n break_loop::<i32>()\n}", "outside of a loop"),
        ("func f() {\n parallel i in 0..4 { break_loop::<i32>() }\n}", "in a parallel loop"),
        ("func f() {\n function \"g\"::<i32>()\n}", "the module has no function `g`"),
    ] {
        let error = run_text(source, &[]).expect_err(message);
        assert!(error.contains(message), "{message}: {error}");
    }
}
