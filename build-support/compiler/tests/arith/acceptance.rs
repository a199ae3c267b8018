//! The expressions that have to be simplified and proved, from the specification.

use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::ir::{Expr, Range, Var};

use super::evaluate::text;

fn vars<const N: usize>(names: [&str; N]) -> [Var; N] {
    names.map(Var::index)
}

fn shows(analyzer: &Analyzer, expr: &Expr, expected: &str) {
    let simple = analyzer.simplify(expr);
    assert_eq!(text(&simple), expected, "from {}", text(expr));
    assert_eq!(text(&analyzer.simplify(&simple)), expected, "again");
}

#[test]
fn quotients_and_remainders_of_split_and_fused_indices() {
    let analyzer = Analyzer::new();
    let [i, j, f, w, s, x] = vars(["i", "j", "f", "w", "s", "x"]);
    analyzer.bind(&j, &Range::until(8));
    shows(&analyzer, &(&i * 8 + &j).floor_div(8), "i");
    shows(&analyzer, &(&i * 8 + &j).floor_mod(8), "j");
    shows(&analyzer, &(f.floor_div(7) * 7 + f.floor_mod(7)), "f");
    shows(&analyzer, &((&w * &s + f.floor_div(64)) * 64 + f.floor_mod(64)), "(((w*s)*64) + f)");
    let n = Var::size("N", kernpack_compiler::ir::I64);
    shows(&analyzer, &((&w * &s + f.floor_div(&n)) * &n + f.floor_mod(&n)), "(((w*s)*N) + f)");
    shows(&analyzer, &((x.floor_div(4)) * 4 + x.floor_mod(4)).floor_mod(16), "(x % 16)");
    shows(&analyzer, &((&x * 2 + 1).floor_div(2)), "x");
    shows(&analyzer, &(((&x + 3).floor_div(4) * 4).less(&x)), "false");
    let y = Var::index("y");
    analyzer.bind(&y, &Range::until(4));
    shows(&analyzer, &(&x * 16 + &y).floor_div(4), "(x*4)");
    shows(&analyzer, &(&x * 4 + &y).floor_mod(16), "(((x % 4)*4) + y)");
    let [i, j, k] = vars(["i", "j", "k"]);
    for var in [&i, &j, &k] {
        analyzer.bind(var, &Range::until(8));
    }
    shows(&analyzer, &(&i * 64 + &j * 8 + &k).floor_div(512), "0");
}

#[test]
fn roundings_up_to_multiples() {
    let analyzer = Analyzer::new();
    let n = Var::size("n", kernpack_compiler::ir::I64);
    let rounded = (&n + 7).floor_div(8) * 8;
    assert!(analyzer.can_prove(&rounded.greater_equal(&n)));
    assert!(analyzer.can_prove(&rounded.less(&n + 8)));
    shows(&analyzer, &n.min(&rounded), "n");
    shows(&analyzer, &rounded.min(&n), "n");
}

#[test]
fn guards_of_symbolic_extents() {
    let analyzer = Analyzer::new();
    let [i, j] = vars(["i", "j"]);
    let (n, m) = (Var::size("n", kernpack_compiler::ir::I64), Var::size("m", kernpack_compiler::ir::I64));
    analyzer.bind(&j, &Range::until(8));
    let guard = (&i * 8 + &j).less(&n);
    assert!(!analyzer.can_prove(&guard));
    analyzer.scoped(|analyzer| {
        analyzer.bind(&i, &Range::until(n.floor_div(8)));
        assert!(analyzer.can_prove(&guard), "{}", text(&analyzer.simplify(&guard)));
    });
    analyzer.scoped(|analyzer| {
        analyzer.bind(&i, &Range::until(&m * 2));
        shows(analyzer, &(&i * 8 + &j).less(&m * 16), "true");
    });
    assert!(!analyzer.can_prove(&guard));
    shows(&analyzer, &(&i * 8 + &j).less(&m * 16), "(i < (m*2))");
}

#[test]
fn symbolic_divisors() {
    let analyzer = Analyzer::new();
    let [i, k] = vars(["i", "k"]);
    let n = Var::size("n", kernpack_compiler::ir::I64);
    analyzer.bind(&i, &Range::until(&n));
    shows(&analyzer, &(&k * &n + &i).floor_div(&n), "k");
    shows(&analyzer, &(&k * &n + &i).floor_mod(&n), "i");
}
