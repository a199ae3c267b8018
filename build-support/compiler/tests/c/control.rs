//! Statements: loops, conditions, evaluation order, memory with all kinds of indices.

use kernpack_compiler::codegen::{RuntimeSymbols, c};
use kernpack_compiler::ir::builtin::{BREAK_LOOP, CONTINUE_LOOP};
use kernpack_compiler::ir::{
    BOOLEAN, Buffer, CallKind, DataTypeExt, Expr, ExprNode, F32, ForKind, I32, I64, IrModule, Stmt, StmtNode, Var,
};

use crate::compile::{WAYS, buffer, function, memory, numbers, returning, run, value};

const HEAD: &str = "#include <inttypes.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n\
    #define SHOW(a, n) for (int i = 0; i < (n); ++i) printf(\"%\" PRId64 \"\\n\", (int64_t)(a)[i])\n";

fn let_in(var: &Var, value: Expr, body: Expr) -> Expr {
    Expr::from_node(ExprNode::Let { var: var.clone(), value, body })
}

#[test]
fn only_the_chosen_side_is_read() {
    // a[i] where i is in bounds, otherwise a value with its own name: neither side may be read
    // early.
    let (a, out) = (buffer("a", I32, 4), buffer("out", I32, 8));
    let (i, t) = (Var::index("i"), Var::new("t", I32));
    let inside = i.less(4);
    let square = let_in(&t, Expr::load(&a, &i), &t * &t);
    let chosen = Expr::if_then_else(inside, square, Expr::load(&a, i.expr() - 4) + 100);
    let body = Stmt::for_loop(i.clone(), 0, 8, ForKind::Serial, Stmt::store(out.clone(), &i, chosen));
    let f = function("f", [memory(&a), memory(&out), value(&Var::size("n", I64))], body);
    let main = at_the_end_of_a_page("f(a, out, 8)", 8);
    for way in WAYS {
        assert_eq!(numbers(&run("lazy", *way, std::slice::from_ref(&f), &main)), [1, 4, 9, 16, 101, 102, 103, 104]);
    }
}

/// A program whose array `a` of 4 numbers ends at the end of a mapped page.
fn at_the_end_of_a_page(call: &str, shown: usize) -> String {
    format!(
        "#define _GNU_SOURCE\n{HEAD}#include <sys/mman.h>\nvoid f(int32_t*, int32_t*, int64_t);\nint main(void) {{\n  \
         char* page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n  \
         mprotect(page + 4096, 4096, PROT_NONE);\n  int32_t* a = (int32_t*)(page + 4096) - 4;\n  \
         for (int i = 0; i < 4; ++i) a[i] = i + 1;\n  int32_t out[{shown}] = {{0}};\n  {call};\n  SHOW(out, {shown});\n  \
         return 0;\n}}\n"
    )
}

#[test]
fn conditions_and_masks_guard_reads() {
    let (a, out, n) = (buffer("a", I32, 4096), buffer("out", I32, 4096), Var::size("n", I64));
    let params = || [memory(&a), memory(&out), value(&n)];
    let (i, t) = (Var::index("i"), Var::new("t", I32));
    // The square of an element, which has a name.
    let square = |index: Expr| let_in(&t, Expr::load(&a, index), &t * &t);
    let is_large = || square(i.expr() * 1000).greater(0);
    let both = Expr::if_then_else(i.less(&n).and(is_large()), Expr::constant(I32, 1), Expr::constant(I32, 2));
    let either = Expr::if_then_else(i.greater_equal(&n).or(is_large()), Expr::constant(I32, 1), Expr::constant(I32, 2));
    let named = let_in(&t, Expr::load(&a, i.expr() * 1000), &t + 0).cast(I64);
    let cases = [
        ("both", Stmt::store(out.clone(), &i, both), [1, 2, 2, 2]),
        ("either", Stmt::store(out.clone(), &i, either), [1, 1, 1, 1]),
        ("load", Stmt::store(out.clone(), &i, Expr::load_masked(&a, named, Some(i.less(&n)))), [2, 0, 0, 0]),
        ("store", Stmt::store_masked(out.clone(), &i, square(i.expr() * 1000) + 4, Some(i.less(&n))), [5, 0, 0, 0]),
    ];
    let main = at_the_end_of_a_page("f(a, out, 1)", 4);
    for (name, body, expected) in cases {
        let f = function("f", params(), Stmt::for_loop(i.clone(), 0, 4, ForKind::Serial, body));
        for way in WAYS {
            assert_eq!(
                numbers(&run(&format!("guard-{name}"), *way, std::slice::from_ref(&f), &main)),
                expected,
                "{name} {}",
                way.0
            );
        }
    }
}

#[test]
fn masked_and_scattered_lanes() {
    let (a, out) = (buffer("a", F32, 16), buffer("out", F32, 64));
    let lanes = 4;
    let ramp = Expr::int(0).ramp(1, lanes);
    let mask = ramp.less(Expr::int(3).broadcast(lanes));
    let back = Expr::int(15).ramp(-1, lanes);
    let stmts = [
        Stmt::store_masked(
            out.clone(),
            &ramp,
            Expr::load_masked(&a, Expr::int(1).ramp(1, lanes), Some(mask.clone())) + 1.0,
            Some(mask.clone()),
        ),
        Stmt::store(out.clone(), Expr::int(8).ramp(1, lanes), Expr::load(&a, &back)),
        Stmt::store(out.clone(), Expr::int(16).ramp(2, lanes), Expr::load(&a, Expr::int(0).ramp(3, lanes))),
        Stmt::store_masked(
            out.clone(),
            Expr::int(35).ramp(-1, lanes),
            Expr::load_masked(&a, back, Some(mask.clone())),
            Some(mask),
        ),
        Stmt::store(
            out.clone(),
            Expr::int(40).ramp(1, 3),
            Expr::from_node(ExprNode::Shuffle {
                vectors: [Expr::load(&a, &ramp), Expr::load(&a, Expr::int(7))].into_iter().collect(),
                indices: [4i64, 0, 3].into_iter().collect(),
            }),
        ),
    ];
    let f = function("f", [memory(&a), memory(&out)], Stmt::seq(stmts));
    let main = format!(
        "{HEAD}void f(float*, float*);\nint main(void) {{\n  static float a[16], out[64];\n  \
         for (int i = 0; i < 16; ++i) a[i] = (float)i;\n  for (int i = 0; i < 64; ++i) out[i] = -1;\n  f(a, out);\n  SHOW(out, 44);\n  return 0;\n}}\n"
    );
    let mut expected = [-1; 44];
    expected[..3].copy_from_slice(&[2, 3, 4]);
    expected[8..12].copy_from_slice(&[15, 14, 13, 12]);
    for k in 0..4 {
        expected[16 + 2 * k] = 3 * k as i64;
    }
    expected[33..36].copy_from_slice(&[13, 14, 15]);
    expected[40..43].copy_from_slice(&[7, 0, 3]);
    for way in WAYS {
        assert_eq!(numbers(&run("masked", *way, std::slice::from_ref(&f), &main)), expected, "{}", way.0);
    }
}

#[test]
fn truth_values_are_bytes_in_memory() {
    let (a, out) = (buffer("a", BOOLEAN, 8), buffer("out", BOOLEAN, 16));
    let eight = Expr::int(0).ramp(1, 8);
    let i = Var::index("i");
    let stmts = [
        Stmt::store(out.clone(), &eight, Expr::load(&a, &eight).negated()),
        Stmt::for_loop(i.clone(), 0, 8, ForKind::Serial, Stmt::store(out.clone(), &i + 8, Expr::load(&a, &i))),
    ];
    let f = function("f", [memory(&a), memory(&out)], Stmt::seq(stmts));
    let main = format!(
        "{HEAD}void f(uint8_t*, uint8_t*);\nint main(void) {{ uint8_t a[8] = {{0, 1, 1, 0, 1, 0, 0, 1}}, out[16]; f(a, out); SHOW(out, 16); return 0; }}\n"
    );
    for way in WAYS {
        let found = numbers(&run("bool", *way, std::slice::from_ref(&f), &main));
        assert_eq!(found, [1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1], "{}", way.0);
    }
}

#[test]
fn while_break_and_continue() {
    // The sum of the odd numbers below 10, until it exceeds 12: 1 + 3 + 5 + 7.
    let out = buffer("out", I64, 2);
    let local = Buffer::new("state", I64, [Expr::int(2)], "local");
    let (at, sum) = (Expr::load(&local, 0), Expr::load(&local, 1));
    let set = |index: i64, value: Expr| Stmt::store(local.clone(), index, value);
    let call = |name: &str| Stmt::evaluate(Expr::builtin(name, I32, []));
    let body = Stmt::seq([
        set(0, &at + 1),
        Stmt::if_then(at.floor_mod(2).equals(0), call(CONTINUE_LOOP), None),
        set(1, &sum + &at),
        Stmt::if_then(sum.greater(12), call(BREAK_LOOP), None),
    ]);
    let stmts = [
        Stmt::alloc(local.clone()),
        set(0, Expr::int(0)),
        set(1, Expr::int(0)),
        Stmt::from_node(StmtNode::While { condition: at.less(10), body }),
        Stmt::store(out.clone(), 0, &sum),
        Stmt::store(out.clone(), 1, &at),
    ];
    let f = function("f", [memory(&out)], Stmt::seq(stmts));
    let main =
        format!("{HEAD}void f(int64_t*);\nint main(void) {{ int64_t out[2]; f(out); SHOW(out, 2); return 0; }}\n");
    for way in WAYS {
        assert_eq!(numbers(&run("while", *way, std::slice::from_ref(&f), &main)), [16, 7], "{}", way.0);
    }
}

#[test]
fn calls_that_change_memory_are_in_order() {
    // counter() returns 1, 2, 3, ..: a difference shows which call came first.
    let out = buffer("out", I64, 3);
    let counter = || Expr::call(CallKind::Extern, "counter", I64, []);
    let cell = Expr::load(&out, 2);
    let bump = Expr::call(
        CallKind::Extern,
        "bump",
        I64,
        [Expr::builtin("address_of", kernpack_compiler::ir::POINTER, [cell.clone()])],
    );
    let stmts = [
        Stmt::store(out.clone(), 2, Expr::int(5)),
        Stmt::store(out.clone(), 0, counter() * 10 - counter()),
        // Read before it is raised to 6.
        Stmt::store(out.clone(), 1, &cell * 100 + bump + &cell),
    ];
    let f = function("f", [memory(&out)], Stmt::seq(stmts));
    let main = format!(
        "{HEAD}int64_t counter(void) {{ static int64_t n; return ++n; }}\nint64_t bump(void* p) {{ ++*(int64_t*)p; return 1000; }}\n\
         void f(int64_t*);\nint main(void) {{ int64_t out[3]; f(out); SHOW(out, 3); return 0; }}\n"
    );
    for way in WAYS {
        assert_eq!(numbers(&run("order", *way, std::slice::from_ref(&f), &main)), [8, 1506, 6], "{}", way.0);
    }
}

#[test]
fn names_of_c_are_no_names_of_variables() {
    let out = buffer("float", I32, 4);
    let names = ["int", "int", "printf", "a.b", "_x", "NULL", "f"];
    let vars: Vec<Var> = names.iter().map(|name| Var::new(name, I32)).collect();
    let mut stmts: Vec<Stmt> = Vec::new();
    let mut sum = Expr::constant(I32, 0);
    for (at, var) in vars.iter().enumerate() {
        stmts.push(Stmt::bind(var.clone(), Expr::constant(I32, 1 << at) + Expr::load(&out, 0)));
        sum = sum + var;
    }
    stmts.push(Stmt::store(out.clone(), 1, sum));
    let f = function("f", [memory(&out)], Stmt::seq(stmts));
    let main = format!(
        "{HEAD}void f(int32_t*);\nint main(void) {{ int32_t out[4] = {{0}}; f(out); SHOW(out, 2); return 0; }}\n"
    );
    assert_eq!(numbers(&run("names", WAYS[0], std::slice::from_ref(&f), &main)), [0, 127]);
}

#[test]
fn depth_is_limited_by_memory_only() {
    let out = buffer("out", I64, 2);
    let x = Var::new("x", I64);
    let mut sum = x.expr().clone();
    for step in 0..3000 {
        sum = if step % 3 == 0 { &x - sum } else { sum + &x };
    }
    let f = function("f", [memory(&out), value(&x)], Stmt::store(out.clone(), 0, sum));
    let main = format!(
        "{HEAD}void f(int64_t*, int64_t);\nint main(void) {{ int64_t out[1]; f(out, 7); SHOW(out, 1); return 0; }}\n"
    );
    let mut expected = 7i64;
    for step in 0..3000 {
        expected = if step % 3 == 0 { 7 - expected } else { expected + 7 };
    }
    assert_eq!(numbers(&run("deep", WAYS[0], std::slice::from_ref(&f), &main)), [expected]);
}

#[test]
fn what_c_does_not_have_is_an_error_with_the_fix() {
    let a = buffer("a", F32, 4);
    let n = Var::size("n", I64);
    let grown = Buffer::new("t", F32, [n.expr().clone()], "global");
    let thread = Stmt::for_loop(Var::index("i"), 0, 4, ForKind::ThreadBinding, Stmt::nothing());
    let cases = [
        (
            function("f", [memory(&a)], Stmt::store(a.clone(), &n, 1.0)),
            "variable `n` of function `f` is used where it is not defined",
        ),
        (function("f", [value(&n)], Stmt::alloc(grown)), "the extents of `t` are not constant: run LowerBuiltin first"),
        (function("f", [], thread), "loop `i` is bound to one"),
        (function("f", [], Stmt::assert(Expr::load(&a, 0).less(1.0), "ValueError", [])), "`f` returns no status"),
        (
            function("f", [memory(&a)], Stmt::store(a.clone(), 0, Expr::builtin("nonsense", F32, []))),
            "C has no builtin `nonsense`",
        ),
        (returning("1f", [], I32, Stmt::nothing()), "which is not an identifier of C"),
    ];
    for (function, expected) in cases {
        let error = c::source(&IrModule::new([function]), &RuntimeSymbols::Direct).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(F32.with_lanes(4).short_name(), "f32x4");
}
