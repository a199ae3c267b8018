//! Guards over loaded values: a loaded value wraps, and a load is hoisted out of a loop only where
//! it is executed anyway.

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::visit::{for_each_stmt, has_part};
use kernpack_compiler::ir::{ExprNode, I64, LoweredFunc, StmtNode};
use kernpack_compiler::pass::hoist_if::hoist_if;
use kernpack_compiler::pass::loop_partition::loop_partition;
use kernpack_compiler::pass::simplify::simplify;
use kernpack_compiler::pass::{PassContext, PassOptions};
use kernpack_compiler::text;

fn parsed(name: &str, body: &str) -> LoweredFunc {
    let source = format!("func f(m: size i64, n: size i64, data: i64[n], a: mut i64[256]) {{\n{body}\n}}\n");
    text::parse_func(&source).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn optimized(function: &LoweredFunc) -> LoweredFunc {
    let context = PassContext::new(PassOptions::default());
    let after = loop_partition(&simplify(function, &context).unwrap(), &context).unwrap();
    hoist_if(&simplify(&after, &context).unwrap(), &context).unwrap()
}

/// Returns the result, or the interpreter's error, for example for a read that is out of range.
fn run(function: &LoweredFunc, m: i64, data: &[i64]) -> Result<Vec<i64>, String> {
    let data = Block::from_i64(I64, &[data.len() as i64], data);
    let a = Block::from_f64(I64, &[256], &[0.0; 256]);
    let machine = Machine::new(function).unwrap();
    let n = data.shape()[0];
    machine
        .run("f", &[Arg::from(m), Arg::from(n), Arg::from(&data), Arg::from(&a)])
        .map_err(|error| error.to_string())?;
    Ok(a.to_i64().unwrap())
}

/// The subject of a program, its body, and true if a loop has a bound that is loaded.
const ROWS: &[(&str, &str, bool)] = &[
    (
        "a name for a load",
        "for i in 0..16 {
           for o in 0..n {
             let x = data[o]
             a[i] = a[i] + select(likely(i < select(x + 1 > x, 3, 7)), 1, 2)
           }
         }",
        false,
    ),
    (
        "a name for a name, in a loop inside",
        "for i in 0..16 {
           for o in 0..n {
             let x = data[o]
             let y = x
             a[i] = a[i] + select(likely(i < select(floordiv(y * 2, 2) == y, 5, 9)), 1, 2)
           }
         }",
        false,
    ),
    (
        "a name inside of an expression",
        "for i in 0..16 {
           for o in 0..n {
             a[i] = a[i] + (let x = data[o] in select(likely(i < select(x - 1 < x, 3, 7)), 1, 2))
           }
         }",
        false,
    ),
    ("a load in a guard", "for i in 0..n {\n if likely(i < data[n - 1]) {\n a[i] = 1\n }\n }", true),
    (
        "in a loop around the guard's",
        "for o in 0..m {\n for i in 0..n {\n if likely(i < data[n - 1]) {\n a[o] = a[o] + 1\n }\n }\n }",
        true,
    ),
    ("a load in a condition of all", "for i in 0..n {\n if i < data[n - 1] {\n a[i] = 1\n }\n }", true),
    ("threads", "parallel i in 0..n {\n if likely(i < data[n - 1]) {\n a[i] = 1\n } else {\n a[i] = 2\n }\n }", false),
    (
        "a loop without iterations inside",
        "for i in 0..4 {\n for j in 0..n {\n if likely(i < data[n - 1]) {\n a[i] = a[i] + j\n }\n }\n }",
        false,
    ),
    (
        "a condition around the guard",
        "for i in 0..4 {\n if n > 0 {\n if likely(i < data[n - 1]) {\n a[i] = 1\n }\n }\n }",
        false,
    ),
    (
        "a choice around the guard",
        "for i in 0..4 {\n a[i] = if_then_else(n > 0, select(likely(i < data[n - 1]), 1, 2), 3)\n }",
        false,
    ),
    (
        "a bound that depends on the loop around, in range",
        "for i in 0..n {\n for j in 0..8 {\n if likely(j < data[i]) {\n a[i] = a[i] + j\n }\n }\n }",
        true,
    ),
    (
        "a loop that has iterations",
        "for o in 0..n {\n for j in 0..8 {\n if likely(j < data[n - 1]) {\n a[j] = a[j] + o\n }\n }\n }",
        true,
    ),
    (
        "a divisor that is 0 where there are no iterations",
        "for i in 0..n {\n if floormod(m, n) < 3 {\n a[i] = 1\n }\n }",
        false,
    ),
];

#[test]
fn guards_of_loads_do_the_same() {
    let data: [&[i64]; 8] = [
        &[],
        &[3],
        &[i64::MAX],
        &[i64::MIN],
        &[1 << 62, 5, -1],
        &[i64::MAX - 1, i64::MIN, 2],
        &[-(1 << 61), i64::MAX, 4, 2],
        &[0, 9, 1, 7, 5, 3],
    ];
    for (name, body, splits) in ROWS {
        let function = parsed(name, body);
        let after = optimized(&function);
        let mut is_split = false;
        for_each_stmt(&after.body, |stmt| {
            let StmtNode::For { min, extent, .. } = &**stmt else { return };
            is_split |=
                [min, extent].into_iter().any(|end| has_part(end, |part| matches!(**part, ExprNode::Load { .. })));
        });
        assert_eq!(is_split, *splits, "{name}\n{}", text::print(&after));
        for (m, values) in [0, 1, 2, 5].into_iter().flat_map(|m| data.map(|values| (m, values))) {
            let (expected, found) = (run(&function, m, values), run(&after, m, values));
            assert!(expected.is_ok(), "{name}: {expected:?}");
            assert_eq!(expected, found, "{name}: m = {m}, {values:?}\n{}", text::print(&after));
        }
    }
}
