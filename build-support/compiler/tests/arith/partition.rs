//! The pass `LoopPartition`: loops without guards after it, and unchanged results of programs.

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::visit::{for_each_expr_in, for_each_stmt};
use kernpack_compiler::ir::{ExprNode, I64, LoweredFunc, Stmt, StmtNode};
use kernpack_compiler::pass::loop_partition::loop_partition;
use kernpack_compiler::pass::simplify::simplify;
use kernpack_compiler::pass::{PassContext, PassOptions};
use kernpack_compiler::text;

/// The number of conditions in a statement: those of `if`, and of selects.
fn conditions(stmt: &Stmt) -> usize {
    let mut found = 0;
    for_each_stmt(stmt, |part| found += usize::from(matches!(**part, StmtNode::If { .. })));
    for_each_expr_in(stmt, |part| {
        found += usize::from(matches!(**part, ExprNode::Select { .. } | ExprNode::IfThenElse { .. }))
    });
    found
}

/// The innermost loops, with the conditions in each.
fn innermost(function: &LoweredFunc) -> Vec<usize> {
    let mut found = Vec::new();
    for_each_stmt(&function.body, |stmt| {
        let StmtNode::For { body, .. } = &**stmt else { return };
        let mut inside = 0;
        for_each_stmt(body, |part| inside += usize::from(matches!(**part, StmtNode::For { .. })));
        if inside == 0 {
            found.push(conditions(body));
        }
    });
    found
}

fn partitioned(function: &LoweredFunc) -> LoweredFunc {
    let context = PassContext::new(PassOptions::default());
    let split = loop_partition(&simplify(function, &context).unwrap(), &context).unwrap();
    let mut likely = 0;
    for_each_expr_in(&split.body, |part| likely += usize::from(part.without_likely().1));
    assert_eq!(likely, 0);
    simplify(&split, &context).unwrap()
}

fn run(function: &LoweredFunc, m: i64, n: i64) -> Vec<i64> {
    let cells = Block::from_f64(I64, &[256], &[0.0; 256]);
    let machine = Machine::new(function).unwrap();
    machine.run("f", &[Arg::from(m), Arg::from(n), Arg::from(&cells)]).unwrap_or_else(|error| panic!("{error}"));
    cells.to_f64().unwrap().into_iter().map(|value| value as i64).collect()
}

/// The subject of a program, its body, and the minimum number of innermost loops without a
/// condition; 0 if the guard stays.
type Row = (&'static str, &'static str, usize);

const ROWS: &[Row] = &[
    (
        "a split with a rest",
        "for o in 0..floordiv(n + 3, 4) {
           for i in 0..4 {
             if likely(o * 4 + i < n) {
               a[o * 4 + i] = a[o * 4 + i] + 1
             }
           }
         }",
        1,
    ),
    (
        "three loops around a guard with two sides",
        "for i in 0..4 {
           for j in 0..n {
             for k in 0..m {
               if likely(i * m + j + k < n) {
                 a[k] = a[k] + m
               } else {
                 a[k] = a[k] + n * 100
               }
             }
           }
         }",
        1,
    ),
    (
        "two guards in one loop",
        "for i in 0..4 {
           for j in 0..n {
             for k in 0..m {
               if likely(i * m + j + k < n) {
                 a[k] = a[k] + 1
               } else {
                 a[k] = a[k] + 100
               }
               if likely(i * m + j - k < n) {
                 a[k + 50] = a[k + 50] + 1
               } else {
                 a[k + 50] = a[k + 50] + 100
               }
             }
           }
         }",
        1,
    ),
    (
        "a choice",
        "for o in 0..floordiv(n + 3, 4) {
           for i in 0..4 {
             a[o * 4 + i] = select(likely(o * 4 + i < n), m, n)
           }
         }",
        1,
    ),
    (
        "padding at both ends",
        "for i in 0..n + 2 {
           if likely(i >= 1 && i < n + 1) {
             a[i] = m
           }
         }",
        1,
    ),
    (
        "a guard that says nothing of the loops",
        "for i in 0..n {
           if likely(m < 5) {
             a[i] = 1
           }
         }",
        0,
    ),
    (
        "a quotient by the variable of the loop inside",
        "for i in 0..n {
           for j in 1..+6 {
             if likely(floordiv(i, j) < m) {
               a[i] = a[i] + j
             }
           }
         }",
        1,
    ),
    (
        "a remainder",
        "for i in 0..n {
           if likely(floormod(i, 4) < m) {
             a[i] = 1
           }
         }",
        0,
    ),
];

#[test]
fn clean_loops_have_no_guards_and_programs_do_the_same() {
    for (name, body, clean) in ROWS {
        let source = format!("func f(m: size i64, n: size i64, a: mut i64[256]) {{\n{body}\n}}\n");
        let function = text::parse_func(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
        let after = partitioned(&function);
        let loops = innermost(&after);
        let free = loops.iter().filter(|conditions| **conditions == 0).count();
        assert!(free >= *clean && (*clean > 0 || free == 0), "{name}: {loops:?}\n{}", text::print(&after));
        for (m, n) in [(0, 0), (1, 0), (1, 1), (2, 3), (3, 2), (5, 4), (4, 8), (7, 9), (3, 17)] {
            let (expected, found) = (run(&function, m, n), run(&after, m, n));
            assert_eq!(expected, found, "{name}: m = {m}, n = {n}\n{}", text::print(&after));
        }
    }
}

#[test]
fn vectors_are_behind_one_scalar_condition() {
    // The surrounding loops solve the condition of a vectorized loop: its clean part stores without
    // a mask.
    let function = text::parse_func(
        "func f(m: size i64, n: size i64, a: mut i64[256]) {
           for o in 0..floordiv(n + 15, 16) {
             for i in 0..4 {
               vectorized v in 0..4 {
                 if likely(o * 16 + i * 4 + v < n) {
                   a[o * 16 + i * 4 + v] = m + v
                 }
               }
             }
           }
         }",
    )
    .unwrap();
    let context = PassContext::new(PassOptions::default());
    let after = kernpack_compiler::pass::vectorize_loop::vectorize_loop(&partitioned(&function), &context).unwrap();
    let mut plain = 0;
    for_each_stmt(&after.body, |stmt| {
        if let StmtNode::Store { index, mask: None, .. } = &**stmt {
            plain += usize::from(index.lanes() == 4);
        }
    });
    assert!(plain >= 1, "{}", text::print(&after));
    for (m, n) in [(1, 0), (2, 3), (3, 16), (4, 17), (5, 31), (6, 100)] {
        assert_eq!(run(&function, m, n), run(&after, m, n), "n = {n}");
    }
}

/// An integer that is not a size is data: a loaded or passed value may be arbitrary, but a split
/// loop over it has a clean part.
#[test]
fn splits_of_data_have_a_clean_part() {
    let body = "for o in 0..floordiv(n + 3, 4) {
           for i in 0..4 {
             if likely(o * 4 + i < n) {
               a[o * 4 + i] = a[o * 4 + i] + m
             }
           }
         }";
    let function = text::parse_func(&format!("func f(m: i64, n: i64, a: mut i64[256]) {{\n{body}\n}}\n")).unwrap();
    let after = partitioned(&function);
    assert!(innermost(&after).contains(&0), "{}", text::print(&after));
    for n in [-5, 0, 1, 4, 7, 30] {
        assert_eq!(run(&function, 3, n), run(&after, 3, n), "n = {n}");
    }
}
