//! Line tables: instructions refer to the lines of the program's text, checked with objdump and
//! gdb.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kernpack_compiler::codegen::Target;
use kernpack_compiler::codegen::llvm::{Compiled, DEBUG_FILE, compile};
use kernpack_compiler::ir::{
    Buffer, Expr, F32, ForKind, FuncKind, I64, IrModule, IrModuleNode, LoweredFunc, LoweredFuncNode, Param, ParamNode,
    Stmt, Var,
};
use kernpack_skip::skip;

use crate::{c, sum};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debug").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// `int add(float* a, float* out, int64_t rows)`, which adds 2 to rows of eight.
fn add() -> LoweredFunc {
    let rows = Var::size("rows", I64);
    let [a, out] = ["a", "out"].map(|name| Buffer::new(name, F32, [&rows * 8], "global"));
    let (i, j) = (Var::index("row"), Var::index("lane"));
    let place = &i * 8 + &j;
    let store = Stmt::store(out.clone(), &place, Expr::load(&a, &place) + 2.0);
    let inner = Stmt::for_loop(j, 0, 8, ForKind::Vectorized, store);
    let buffer = |buffer: &Buffer, output| {
        Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer.clone()), output })
    };
    let count = Param::from_node(ParamNode { var: rows.clone(), buffer: None, output: false });
    LoweredFunc::from_node(LoweredFuncNode {
        name: "add".into(),
        params: [buffer(&a, false), buffer(&out, true), count].into_iter().collect(),
        ret: c::nothing(),
        kind: FuncKind::Internal,
        thread_axes: Default::default(),
        body: Stmt::for_loop(i, 0, &rows, ForKind::Serial, inner),
        attrs: [("global_symbol".into(), kernpack::Any::from("add"))].into_iter().collect(),
    })
}

/// Compiles into a folder: `kernels.o`, and `kernels.kir` with line tables.
fn write(folder: &Path, function: LoweredFunc, debug: bool) -> Compiled {
    let file = folder.join("kernels.kir");
    let attrs = [(DEBUG_FILE.into(), kernpack::Any::from(file.to_str().unwrap()))].into_iter().collect();
    let module = IrModule::from_node(IrModuleNode { functions: [function].into_iter().collect(), attrs });
    let compiled = compile(&module, &Target { debug, ..Target::host() }).unwrap();
    assert_eq!(compiled.listing.is_some(), debug);
    if let Some(listing) = &compiled.listing {
        std::fs::write(file, listing).unwrap();
    }
    std::fs::write(folder.join("kernels.o"), &compiled.object).unwrap();
    compiled
}

/// Runs a tool in a folder; `None` if it is not installed.
fn run(folder: &Path, tool: &str, args: &[&str]) -> Option<Output> {
    match Command::new(tool).current_dir(folder).args(args).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip(format_args!("{tool} is not installed"));
            None
        }
        Err(error) => panic!("{tool}: {error}"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines of a listing that contain a text, counted from 1.
fn lines_with(listing: &str, wanted: &str) -> Vec<usize> {
    let lines = listing.lines().enumerate().filter(|(_, line)| line.contains(wanted));
    lines.map(|(number, _)| number + 1).collect()
}

#[test]
fn instructions_lead_to_lines_of_the_text() {
    for (name, kind) in [("serial", ForKind::Serial), ("parallel", ForKind::Parallel)] {
        let folder = folder(name);
        let compiled = write(&folder, sum(kind), true);
        let listing = compiled.listing.unwrap();
        let Some(output) = run(&folder, "objdump", &["--dwarf=decodedline", "kernels.o"]) else { return };
        let table = text(&output.stdout);
        let rows: Vec<usize> = table
            .lines()
            .filter(|line| line.starts_with("kernels.kir"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse().ok())
            .collect();
        let [head] = lines_with(&listing, if kind == ForKind::Parallel { "parallel i" } else { "for i" })[..] else {
            panic!("{listing}")
        };
        let [store] = lines_with(&listing, "out[i] = ")[..] else { panic!("{listing}") };
        assert!(rows.contains(&head) && rows.contains(&store), "{head}, {store}:\n{table}\n{listing}");
        let last = listing.lines().count();
        assert!(rows.iter().all(|line| (0..=last).contains(line)), "{table}");
        // Checks of arguments have their own lines.
        let checks = lines_with(&listing, "assert");
        assert!(rows.iter().filter(|line| checks.contains(line)).count() > 3, "{table}\n{listing}");
    }
}

#[test]
fn code_is_the_same_with_and_without_lines() {
    let mut code = Vec::new();
    for debug in [false, true] {
        let folder = folder(if debug { "with" } else { "without" });
        write(&folder, add(), debug);
        let Some(headers) = run(&folder, "objdump", &["-h", "kernels.o"]) else { return };
        assert_eq!(text(&headers.stdout).contains(".debug_line"), debug);
        let output = run(&folder, "objdump", &["-d", "--no-show-raw-insn", "kernels.o"]).unwrap();
        code.push(text(&output.stdout));
    }
    assert_eq!(code[0], code[1]);
}

#[test]
fn a_debugger_stops_at_a_loop_of_the_schedule() {
    let folder = folder("gdb");
    let listing = write(&folder, add(), true).listing.unwrap();
    // The first address of the line may be in an unrolled loop that few rows enter.
    let main = "#include <stdint.h>\n#include <stdio.h>\nvoid add(float* a, float* out, int64_t rows);\n\
        static _Alignas(64) float a[536], out[536];\n\
        int main(void) { add(a, out, 67); printf(\"%g\\n\", out[535]); return 0; }\n";
    std::fs::write(folder.join("main.c"), main).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let Some(built) = run(&folder, &compiler, &["-g", "main.c", "kernels.o", "-o", "main", "-no-pie"]) else { return };
    assert!(built.status.success(), "{}", text(&built.stderr));
    let [store] = lines_with(&listing, "out[row")[..] else { panic!("{listing}") };
    let stop = format!("break kernels.kir:{store}");
    let commands =
        ["set confirm off", "set debuginfod enabled off", &stop, "run", "backtrace", "info source", "continue 3"];
    let mut args = vec!["-batch", "-nx"];
    commands.iter().for_each(|command| args.extend(["-ex", command]));
    args.push("main");
    let Some(output) = run(&folder, "gdb", &args) else { return };
    let said = text(&output.stdout) + &text(&output.stderr);
    if said.contains("ptrace") && said.contains("not permitted") {
        return skip("processes cannot be traced here");
    }
    let frame = format!("kernels.kir:{store}");
    assert!(said.contains("#0  ") && said.contains("add (") && said.contains(&frame), "{said}\n{listing}");
    assert!(said.contains("#1  ") && said.contains("main ("), "{said}");
    // The line itself, from the text that was written next to the object.
    let line = listing.lines().nth(store - 1).unwrap().trim();
    assert!(said.contains(line), "{line}:\n{said}");
}
