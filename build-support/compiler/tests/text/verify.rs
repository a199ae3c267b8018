//! The verifier: its errors for programs that the parser rejects, or that have no text. Programs
//! that have one are in `filetests/verifier.kir`.

use kernpack_compiler::ir::verify::{Stage, verify};
use kernpack_compiler::ir::{BinaryOp, Expr, ExprNode, F32, ForKind, LoweredFunc, Stmt, StmtNode, Var};
use kernpack_compiler::text;

fn empty() -> LoweredFunc {
    text::parse_func("func f(a: mut f32[n], b: i32[8], m: i64) {\n}").unwrap()
}

#[track_caller]
fn rejects(func: &LoweredFunc, what: &str) {
    let error = verify(func, Stage::Flat).expect_err(what);
    assert_eq!(error.what(), what);
}

#[test]
fn a_shared_node_is_checked_again_where_its_variables_are_out_of_scope() {
    let (i, x) = (Var::index("i"), Var::index("x"));
    let func = empty();
    let a = func.params.get(0).unwrap().buffer.clone().unwrap();
    let sum = x.expr() + &x;
    let known = Stmt::for_loop(
        i,
        0,
        4,
        ForKind::Serial,
        Stmt::seq([Stmt::bind(x.clone(), 1), Stmt::store(a.clone(), &sum, Expr::float(F32, 0.0))]),
    );
    let shared = Stmt::store(a, &sum, Expr::float(F32, 0.0));
    rejects(&func.with_body(Stmt::seq([known, shared])), "variable `x` is used outside of its scope");
}

#[test]
fn types_agree() {
    let func = empty();
    let a = func.params.get(0).unwrap().buffer.clone().unwrap();
    let (x, n) = (Expr::float(F32, 1.0), Expr::int(1));
    let node = |node: ExprNode| Expr::from_node(node);
    for (expr, what) in [
        (
            node(ExprNode::Binary { op: BinaryOp::Add, a: x.clone(), b: n.clone(), dtype: F32 }),
            "arithmetic of f32 and i64",
        ),
        (Expr::load(&a, &x), "an index of f32"),
        (node(ExprNode::Ramp { base: n, stride: x.clone(), lanes: 4 }), "a ramp of i64 and f32"),
    ] {
        rejects(&func.with_body(Stmt::evaluate(expr)), what);
    }
    for (stmt, what) in [
        (Stmt::store(a.clone(), 0, 1), "a store of i64 at 1 places of `a`, whose elements are f32"),
        (Stmt::store(a, 0, x.broadcast(4)), "a store of f32x4 at 1 places of `a`, whose elements are f32"),
        (Stmt::if_then(1, Stmt::nothing(), None), "a condition of i64"),
        (Stmt::bind(Var::index("i"), x), "a binding of i64 and f32"),
        (Stmt::for_loop(Var::new("i", F32), 0, 4, ForKind::Serial, Stmt::nothing()), "a loop over f32"),
        (
            Stmt::from_node(StmtNode::Seq { stmts: [Stmt::nothing()].into_iter().collect() }),
            "a sequence inside a sequence",
        ),
    ] {
        rejects(&func.with_body(stmt), what);
    }
}
