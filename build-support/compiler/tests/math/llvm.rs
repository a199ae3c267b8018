//! The functions as LLVM machine code: the complete path from a call of a builtin.
#![cfg(feature = "llvm")]

use std::time::Instant;

use kernpack::Tensor;
use kernpack_compiler::build;
use kernpack_compiler::codegen::{Target, c};
use kernpack_compiler::intrin::FUNCTIONS;
use kernpack_compiler::ir::{
    Buffer, DataType, DataTypeExt, Expr, F32, F64, ForKind, FuncKind, I64, IrModule, LoweredFunc, LoweredFuncNode,
    POINTER, Param, ParamNode, Stmt, Var,
};

/// `name(x, y, out)` for a multiple of `lanes` elements.
fn function(name: &str, arity: usize, dtype: DataType, lanes: u16, flags: &str) -> LoweredFunc {
    let n = Var::size("n", I64);
    let [x, y, out] = ["x", "y", "out"].map(|name| Buffer::new(name, dtype, [n.expr().clone()], "global"));
    let i = Var::index("i");
    let place = (i.expr() * i64::from(lanes)).ramp(1, lanes);
    let args: Vec<Expr> = [&x, &y][..arity].iter().map(|input| Expr::load(input, &place)).collect();
    let store = Stmt::store(out.clone(), &place, Expr::builtin(name, dtype.with_lanes(lanes), args));
    let tensor = |buffer: &Buffer, output: bool| {
        let var = Var::new(buffer.name.as_str(), POINTER);
        Param::from_node(ParamNode { var, buffer: Some(buffer.clone()), output })
    };
    LoweredFunc::from_node(LoweredFuncNode {
        name: format!("{name}_{}", dtype.short_name()).into(),
        params: [tensor(&x, false), tensor(&y, false), tensor(&out, true)].into_iter().collect(),
        ret: c::nothing(),
        kind: FuncKind::Mixed,
        thread_axes: Default::default(),
        body: Stmt::for_loop(i, 0, n.floor_div(i64::from(lanes)), ForKind::Serial, store),
        attrs: [("fastmath".into(), kernpack::Any::from(flags))].into_iter().collect(),
    })
}

fn reference(name: &str, x: f64, y: f64) -> Option<f64> {
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
        "atan2" => x.atan2(y),
        "pow" => x.powf(y),
        "rsqrt" => 1.0 / x.sqrt(),
        _ => return None,
    })
}

/// Numbers of all sizes: two thirds from -4 to 4, the rest any bits.
fn inputs(seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    (0..1 << 15).map(|k| if k % 3 == 0 { f32::from_bits(next()) } else { next() as f32 / 536870912.0 - 4.0 }).collect()
}

fn ulps(exact: f64, found: f32) -> f64 {
    let rounded = exact as f32;
    if exact.is_nan() || found.is_nan() {
        return if exact.is_nan() == found.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if rounded == found {
        return 0.0;
    }
    let limit = 2f64.powi(128);
    let (exact, found) = (exact.clamp(-limit, limit), f64::from(found).clamp(-limit, limit));
    let exponent = exact.abs().log2().floor().clamp(-126.0, 127.0);
    (exact - found).abs() / 2f64.powi(exponent as i32 - 23)
}

fn check(target: &Target, lanes: u16, flags: &str, limit: f64, xs: &[f32], ys: &[f32]) {
    let known: Vec<_> = FUNCTIONS.iter().filter(|(name, _)| reference(name, 1.0, 1.0).is_some()).collect();
    let module = IrModule::new(known.iter().map(|(name, arity)| function(name, *arity, F32, lanes, flags)));
    let module = build(&module, target).unwrap();
    let shape = [xs.len() as i64];
    let (x, y) = (Tensor::from_slice(xs, &shape).unwrap(), Tensor::from_slice(ys, &shape).unwrap());
    for (name, _) in known {
        let out = Tensor::from_slice(&vec![0f32; xs.len()], &shape).unwrap();
        module.function(&format!("{name}_f32")).unwrap().call((&x, &y, &out)).unwrap();
        for ((x, y), found) in xs.iter().zip(ys).zip(out.view::<f32>().unwrap().to_vec()) {
            let exact = reference(name, f64::from(*x), f64::from(*y)).unwrap();
            let error = ulps(exact, found);
            let place = format!("{} {flags} x{lanes}: {name}({x:e}, {y:e}) is {found:e}, not {exact:e}", target.cpu);
            assert!(error <= limit, "{place}: {error} ulps");
        }
    }
}

#[test]
fn machine_code_is_near_libm() {
    let (xs, ys) = (inputs(1), inputs(2));
    let host = Target::host();
    check(&host, 16, "", 2.5, &xs, &ys);
    check(&host, 1, "", 2.5, &xs, &ys);
    if cfg!(target_arch = "x86_64") {
        check(&Target::llvm(&host.triple, "x86-64", ""), 4, "", 2.5, &xs, &ys);
    }
}

#[test]
fn other_orders_of_sums_lose_digits_only() {
    let (xs, ys) = (inputs(1), inputs(2));
    // Small results are sums of large parts here: only arguments without such results are checked.
    let xs: Vec<f32> = xs.iter().map(|x| if x.abs() < 4.0 { x.abs() + 0.25 } else { 1.5 }).collect();
    let ys: Vec<f32> = ys.iter().map(|y| if y.abs() < 4.0 { *y } else { 1.5 }).collect();
    let xs: Vec<f32> = xs.into_iter().map(|x| if (x - 1.0).abs() < 0.2 { 1.25 } else { x }).collect();
    check(&Target::host(), 16, "reassoc,contract,nsz", 64.0, &xs, &ys);
}

#[test]
#[ignore = "a benchmark"]
fn speed_of_machine_code() {
    for (dtype, lanes) in [(F32, 16), (F32, 1), (F64, 8)] {
        let functions = FUNCTIONS.iter().map(|(name, arity)| function(name, *arity, dtype, lanes, ""));
        let module = build(IrModule::new(functions), &Target::host()).unwrap();
        const COUNT: usize = 4096;
        let shape = [COUNT as i64];
        let tensor = |first: f64, last: f64| {
            let value = |k: usize| first + (last - first) * k as f64 / COUNT as f64;
            if dtype == F32 {
                Tensor::from_slice(&(0..COUNT).map(|k| value(k) as f32).collect::<Vec<_>>(), &shape).unwrap()
            } else {
                Tensor::from_slice(&(0..COUNT).map(value).collect::<Vec<_>>(), &shape).unwrap()
            }
        };
        let (x, y, out) = (tensor(0.1, 1.0), tensor(1.0, 1.5), tensor(0.0, 0.0));
        println!("{} x {lanes}: ns per element", dtype.short_name());
        for (name, _) in FUNCTIONS {
            let function = module.function(&format!("{name}_{}", dtype.short_name())).unwrap();
            let mut best = f64::INFINITY;
            for _ in 0..40 {
                let start = Instant::now();
                for _ in 0..20 {
                    function.call((&x, &y, &out)).unwrap();
                }
                best = best.min(start.elapsed().as_secs_f64() * 1e9 / (20 * COUNT) as f64);
            }
            println!("{name} {best:.3}");
        }
    }
}
