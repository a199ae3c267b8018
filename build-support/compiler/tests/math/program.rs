//! C programs that call lowered functions.

use std::path::{Path, PathBuf};
use std::process::Command;

use kernpack_compiler::codegen::{RuntimeSymbols, c};
use kernpack_compiler::intrin::{FUNCTIONS, Features, lower_math};
use kernpack_compiler::ir::{
    Buffer, DataType, DataTypeExt, Expr, ForKind, FuncKind, I64, IrModule, LoweredFunc, LoweredFuncNode, Param,
    ParamNode, Stmt, Var,
};

/// `run_<name>(x, .., out, n)`: the function for `n` elements, a multiple of `lanes`.
pub(crate) fn function(name: &str, arity: usize, dtype: DataType, lanes: u16, features: Features) -> LoweredFunc {
    let n = Var::size("n", I64);
    let buffer = |name: &str| Buffer::new(name, dtype, [n.expr().clone()], "global");
    let inputs: Vec<Buffer> = ["x", "y"][..arity].iter().map(|name| buffer(name)).collect();
    let out = buffer("out");
    let i = Var::index("i");
    let place = (i.expr() * i64::from(lanes)).ramp(1, lanes);
    let args: Vec<Expr> = inputs.iter().map(|input| Expr::load(input, &place)).collect();
    let value = lower_math(name, &args, &features).unwrap_or_else(|| panic!("{name} is not lowered"));
    assert_eq!(value.dtype(), dtype.with_lanes(lanes), "{name}");
    let store = Stmt::store(out.clone(), &place, value);
    let body = Stmt::for_loop(i, 0, n.floor_div(i64::from(lanes)), ForKind::Serial, store);
    let param = |var: &Var, buffer: Option<Buffer>| {
        Param::from_node(ParamNode { var: var.clone(), output: buffer.is_some(), buffer })
    };
    let mut params: Vec<Param> = inputs.iter().map(|input| param(&input.data, Some(input.clone()))).collect();
    params.push(param(&out.data, Some(out.clone())));
    params.push(param(&n, None));
    LoweredFunc::from_node(LoweredFuncNode {
        name: format!("run_{name}").into(),
        params: params.into_iter().collect(),
        ret: c::nothing(),
        kind: FuncKind::Mixed,
        thread_axes: Default::default(),
        body,
        attrs: Default::default(),
    })
}

/// All functions that have formulas for a type.
pub(crate) fn module(dtype: DataType, lanes: u16, features: Features) -> IrModule {
    let known = FUNCTIONS.iter().filter(|(name, arity)| {
        let args = vec![Var::new("x", dtype).expr().clone(); *arity];
        lower_math(name, &args, &features).is_some()
    });
    IrModule::new(known.map(|(name, arity)| function(name, *arity, dtype, lanes, features)))
}

/// Returns true if the CPU of this machine, or its C compiler's default, has fused multiply-add.
pub(crate) fn has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return true;
}

/// The compiler options for a CPU with these features.
pub(crate) fn cpu(features: Features) -> &'static [&'static str] {
    match (cfg!(target_arch = "x86_64"), features.fma) {
        (true, true) if has_fma() => &["-march=native"],
        (true, _) => &["-msse4.2", "-mno-fma"],
        _ => &[],
    }
}

/// A folder for the files of one program.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("math").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the C compiler.
pub(crate) fn cc(args: &[&str], folder: &Path) {
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../include");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(compiler);
    // The errors include those of GCC 14 and newer.
    command
        .current_dir(folder)
        .args(["-Werror", "-Wall", "-Wno-unused", "-Wno-unknown-pragmas", "-Wno-pass-failed", "-I", include])
        .args(args);
    let output = command.output().expect("a C compiler: install one, or name it in CC");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles the program that compares a module with libm: `check`, in the folder.
pub(crate) fn build(name: &str, dtype: DataType, lanes: u16, features: Features) -> PathBuf {
    let folder = folder(name);
    let module = module(dtype, lanes, features);
    std::fs::write(folder.join("kernel.c"), c::source(&module, &RuntimeSymbols::Direct).unwrap()).unwrap();
    let names: Vec<String> = FUNCTIONS
        .iter()
        .filter(|(name, _)| module.functions.iter().any(|function| function.name.as_str() == format!("run_{name}")))
        .map(|(name, arity)| format!("X{arity}({name})"))
        .collect();
    let double = if dtype.bits() == 64 { "-DDOUBLE=1" } else { "-DDOUBLE=0" };
    let table = format!("-DFUNCTIONS={}", names.join(" "));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/math/check.c");
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/math/reference.c");
    let kernel: Vec<&str> = [&["-O3", "-c", "kernel.c"][..], c::FLAGS, cpu(features)].concat();
    cc(&kernel, &folder);
    // In double precision the vectors of libm are an equally good reference, and faster; its
    // headers declare them for OpenMP.
    let vectors = if dtype.bits() == 64 { &[][..] } else { &["-fopenmp-simd", "-D_OPENMP=201307"] };
    let native = cpu(Features { fma: true, ..Features::default() });
    let flags = ["-O3", "-fno-math-errno", "-ffp-contract=off", double];
    cc(&[&flags, &["-c", reference, "-o", "reference.o"], vectors, native].concat(), &folder);
    let objects = [&table, source, "kernel.o", "reference.o", "-o", "check", "-lm"];
    cc(&[&flags, &objects[..], native].concat(), &folder);
    folder.join("check")
}
