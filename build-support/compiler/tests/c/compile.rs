//! Compiles a module and returns the output of a C program that calls it.

use std::path::{Path, PathBuf};
use std::process::Command;

use kernpack_compiler::codegen::{RuntimeSymbols, c};
use kernpack_compiler::ir::{
    Buffer, DataType, Expr, FuncKind, IrModule, LoweredFunc, LoweredFuncNode, Param, ParamNode, Stmt, Var,
};

/// A memory parameter.
pub(crate) fn memory(buffer: &Buffer) -> Param {
    Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer.clone()), output: true })
}

/// A scalar parameter.
pub(crate) fn value(var: &Var) -> Param {
    Param::from_node(ParamNode { var: var.clone(), buffer: None, output: false })
}

/// A buffer of `count` elements.
pub(crate) fn buffer(name: &str, dtype: DataType, count: i64) -> Buffer {
    Buffer::new(name, dtype, [Expr::int(count)], "global")
}

/// A function before `MakePackedAPI`.
pub(crate) fn function(name: &str, params: impl IntoIterator<Item = Param>, body: Stmt) -> LoweredFunc {
    returning(name, params, c::nothing(), body)
}

/// The same, with a return type.
pub(crate) fn returning(name: &str, params: impl IntoIterator<Item = Param>, ret: DataType, body: Stmt) -> LoweredFunc {
    LoweredFunc::from_node(LoweredFuncNode {
        name: name.into(),
        params: params.into_iter().collect(),
        ret,
        kind: FuncKind::Mixed,
        thread_axes: Default::default(),
        body,
        attrs: Default::default(),
    })
}

/// Warnings are errors, including those that are errors in GCC 14 and newer.
pub(crate) const WARNINGS: &[&str] = &[
    "-Wall",
    "-Wno-unused",
    "-Werror",
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
];

/// The ways in which the same file is compiled.
pub(crate) const WAYS: &[(&str, &[&str])] = &[
    ("vectors", &["-O1", "-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all"]),
    ("arrays", &["-O1", "-DKP_VECTORS=0", "-std=c11"]),
    ("fast", &["-O3"]),
];

/// The output of a program with this `main`, compiled in one of the [`WAYS`].
pub(crate) fn run(name: &str, way: (&str, &[&str]), functions: &[LoweredFunc], main: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("c").join(format!("{name}-{}", way.0));
    std::fs::create_dir_all(&folder).unwrap();
    let source = c::source(&IrModule::new(functions.iter().cloned()), &RuntimeSymbols::Direct)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    std::fs::write(folder.join("kernel.c"), &source).unwrap();
    std::fs::write(folder.join("main.c"), main).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include");
    let mut command = Command::new(compiler);
    command.current_dir(&folder).arg("-I").arg(include).args(c::FLAGS).args(way.1);
    command.args(WARNINGS).args(["main.c", "kernel.c", "-o", "program", "-lm"]);
    let output = command.output().expect("a C compiler: install one, or name it in CC");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {}: {errors}\n{source}", way.0);
    let output = Command::new(folder.join("program")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {}: {:?} {errors}\n{source}", way.0, output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers that a program prints.
pub(crate) fn numbers(text: &str) -> Vec<i64> {
    text.split_whitespace().map(|word| word.parse().unwrap_or_else(|_| panic!("{word} is not a number"))).collect()
}
