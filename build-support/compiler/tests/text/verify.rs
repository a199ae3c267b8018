//! The verifier: the programs that it accepts, and its errors for invalid ones.

use kernpack_compiler::ir::verify::{Stage, verify, verify_module};
use kernpack_compiler::ir::{BinaryOp, Buffer, Expr, ExprNode, F32, ForKind, I64, LoweredFunc, Stmt, StmtNode, Var};
use kernpack_compiler::text;

fn body(source: &str) -> LoweredFunc {
    text::parse_func(&format!("func f(a: mut f32[n], b: i32[8], m: i64) {{\n{source}\n}}")).unwrap()
}

#[track_caller]
fn accepts(source: &str, stage: Stage) {
    if let Err(error) = verify(&body(source), stage) {
        panic!("{error}");
    }
}

#[track_caller]
fn rejects(func: &LoweredFunc, stage: Stage, what: &str) {
    let error = verify(func, stage).expect_err(what);
    assert_eq!(error.what(), what);
}

#[test]
fn sound_programs_pass() {
    accepts("for i in 0..n { let x = a[i]; a[i] = x * 2.0 }\nfor i in 0..n { a[i] = 0.0 }", Stage::Vectorized);
    accepts("vectorized i in 0..8 { if likely(i < n) { a[i] = 0.0 } }", Stage::Flat);
    accepts("a[0 : 8] = (a[m : 8] where broadcast(m < n, 8)) where broadcast(m < n, 8)", Stage::Vectorized);
    accepts("alloc t: f32x4[2] @local\nt[0] = broadcast(1.0, 4)\na[0 : 8] = t[0 : 2]", Stage::Vectorized);
    accepts("a[0] = (let x = a[1] in x * x) + 1.0", Stage::Vectorized);
    accepts("while b[0] < 3 {\n break_loop::<i32>()\n}", Stage::Vectorized);
    let twice = "attr thread_extent(axis t thread \"threadIdx.x\") = 8 { a[t] = 0.0 }
        attr thread_extent(axis same t thread \"threadIdx.x\") = 8 { a[t] = 0.0 }";
    accepts(twice, Stage::Vectorized);
}

#[test]
fn variables_are_defined_once_and_in_scope() {
    let again = "for i in 0..n { a[i] = 0.0 }\nfor same i in 0..n { a[i] = 0.0 }";
    rejects(&body(again), Stage::Flat, "variable `i` is defined twice");
    let outside = "for i in 0..n { let x = i }\nvar_out::<i64>()";
    assert!(verify(&body(outside), Stage::Flat).unwrap_err().what().contains("unknown builtin `var_out`"));
    let (i, x) = (Var::index("i"), Var::index("x"));
    let func = body("");
    let a = func.params.get(0).unwrap().buffer.clone().unwrap();
    let one = |stmts: Vec<Stmt>| func.with_body(Stmt::seq(stmts));
    let inner = Stmt::for_loop(i.clone(), 0, 4, ForKind::Serial, Stmt::bind(x.clone(), &i));
    let after = Stmt::store(a.clone(), &x, Expr::float(F32, 0.0));
    rejects(&one(vec![inner, after.clone()]), Stage::Flat, "variable `x` is used outside of its scope");
    rejects(&one(vec![after]), Stage::Flat, "variable `x` is used and not defined");
    // A shared node is checked again where its variables are out of scope.
    let sum = x.expr() + &x;
    let known = Stmt::for_loop(
        i,
        0,
        4,
        ForKind::Serial,
        Stmt::seq([Stmt::bind(x.clone(), 1), Stmt::store(a.clone(), &sum, Expr::float(F32, 0.0))]),
    );
    let shared = Stmt::store(a, &sum, Expr::float(F32, 0.0));
    rejects(&one(vec![known, shared]), Stage::Flat, "variable `x` is used outside of its scope");
    let t = Buffer::new("t", F32, [Expr::int(4)], "local");
    let load = Stmt::bind(Var::new("v", F32), Expr::load(&t, 0));
    rejects(&one(vec![load]), Stage::Flat, "variable `t` is used and not defined");
}

#[test]
fn types_and_lanes_agree() {
    let func = body("");
    let a = func.params.get(0).unwrap().buffer.clone().unwrap();
    let (x, n) = (Expr::float(F32, 1.0), Expr::int(1));
    let node = |node: ExprNode| Expr::from_node(node);
    let mixed = node(ExprNode::Binary { op: BinaryOp::Add, a: x.clone(), b: n.clone(), dtype: F32 });
    let shift = node(ExprNode::Binary { op: BinaryOp::ShiftLeft, a: x.clone(), b: x.clone(), dtype: F32 });
    let choice = node(ExprNode::Select {
        condition: Expr::bool(true).broadcast(4),
        true_value: x.clone(),
        false_value: x.clone(),
    });
    let mask = Expr::load_masked(&a, Expr::int(0).ramp(1, 8), Some(Expr::bool(true).broadcast(4)));
    let index = Expr::load(&a, &x);
    let ramp = node(ExprNode::Ramp { base: n.clone(), stride: x.clone(), lanes: 4 });
    let lane =
        node(ExprNode::Shuffle { vectors: [x.clone()].into_iter().collect(), indices: [3i64].into_iter().collect() });
    for (expr, what) in [
        (mixed, "arithmetic of f32 and i64"),
        (shift, "ShiftLeft of f32"),
        (choice, "a choice between values of f32 by boolx4"),
        (mask, "a load of 8 lanes has a mask of boolx4"),
        (index, "an index of f32"),
        (ramp, "a ramp of i64 and f32"),
        (lane, "a shuffle of 1 lanes takes lane 3"),
        (Expr::builtin("exp", I64, [x.clone()]), "`exp` of f32 and i64"),
        (Expr::builtin("no_such", I64, [x.clone()]), "unknown builtin `no_such`"),
        (Expr::builtin("reinterpret", I64, [x.clone()]), "`reinterpret` as i64 of another size"),
    ] {
        rejects(&func.with_body(Stmt::evaluate(expr)), Stage::Flat, what);
    }
    for (stmt, what) in [
        (Stmt::store(a.clone(), 0, 1), "a store of i64 at 1 places of `a`, whose elements are f32"),
        (Stmt::store(a.clone(), 0, x.broadcast(4)), "a store of f32x4 at 1 places of `a`, whose elements are f32"),
        (Stmt::if_then(1, Stmt::nothing(), None), "a condition of i64"),
        (Stmt::bind(Var::index("i"), x.clone()), "a binding of i64 and f32"),
        (Stmt::for_loop(Var::new("i", F32), 0, 4, ForKind::Serial, Stmt::nothing()), "a loop over f32"),
        (
            Stmt::from_node(StmtNode::Seq { stmts: [Stmt::nothing()].into_iter().collect() }),
            "a sequence inside a sequence",
        ),
    ] {
        rejects(&func.with_body(stmt), Stage::Flat, what);
    }
}

#[test]
fn stages_rule_things_out() {
    let vector = body("vectorized i in 0..8 { a[i] = 0.0 }");
    verify(&vector, Stage::Partitioned).unwrap();
    rejects(&vector, Stage::Vectorized, "a vectorized loop after loops are vectorized");
    let guard = body("if likely(m < n) { a[m] = 0.0 }");
    verify(&guard, Stage::Flat).unwrap();
    rejects(&guard, Stage::Partitioned, "`likely` after loops are partitioned");
    let tensor = text::parse_func("tensor t: f32[4]\nfunc f() {\n  realize t[0..4]\n  t[1] = t[0]\n}").unwrap();
    verify(&tensor, Stage::Scheduled).unwrap();
    rejects(&tensor, Stage::Flat, "a tensor after storage is flattened");
}

#[test]
fn messages_show_the_statement_in_its_function() {
    let func = body("for i in 0..n {\n  a[i] = 0.0\n  vectorized j in 0..8 {\n    a[j] = 1.0\n  }\n}");
    let error = verify(&func, Stage::Vectorized).unwrap_err().to_string();
    assert_eq!(
        error,
        "InternalError: a vectorized loop after loops are vectorized
   = in function `f`
   = in `vectorized j in 0..8`
   = which is here:
     1 func f(a: mut f32[n], b: i32[8], m: i64) {
     2   for i in 0..n {
     3     a[i] = 0.0
>    4     vectorized j in 0..8 {
     5       a[j] = 1.0
     6     }
     7   }
     8 }"
    );
}

#[test]
fn calls_in_a_module_fit() {
    let module =
        |call: &str| text::parse(&format!("func f(x: i64) {{\n  {call}\n}}\ninternal func g(x: i64) {{\n}}")).unwrap();
    verify_module(&module("function \"g\"::<i32>(x)"), Stage::Flat).unwrap();
    let error = verify_module(&module("function \"g\"::<i32>(x, x)"), Stage::Flat).unwrap_err();
    assert_eq!(error.what(), "call of `g` with 2 arguments, not 1");
    let error = verify_module(&module("function \"h\"::<i32>()"), Stage::Flat).unwrap_err();
    assert_eq!(error.what(), "call of function `h`, which the module does not have");
}
