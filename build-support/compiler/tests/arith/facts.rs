//! Facts from bindings and conditions, for the lifetime of their scopes.

use kernpack_compiler::arith::{Analyzer, ConstInterval, ModularSet};
use kernpack_compiler::ir::{Buffer, Expr, F32, I32, I64, Range, Var};

use super::evaluate::text;

fn vars<const N: usize>(names: [&str; N]) -> [Var; N] {
    names.map(Var::index)
}

#[test]
fn divisibility_is_known_through_facts_only() {
    let [n, m, x] = vars(["n", "m", "x"]);
    let analyzer = Analyzer::new();
    let mark = analyzer.mark();
    analyzer.enter(&n.equals(&m * 16));
    assert!(analyzer.simplify(&n.floor_mod(8)).is_int(0));
    assert_eq!(analyzer.modular_set(&n), ModularSet::new(16, 0));
    assert!(analyzer.can_prove(&(n.floor_div(16) * 16).equals(&n)));
    analyzer.restore(mark);
    assert_eq!(analyzer.modular_set(&n), ModularSet::EVERYTHING);
    analyzer.enter(&n.floor_mod(8).equals(3));
    assert!(analyzer.simplify(&n.floor_mod(8)).is_int(3));
    assert!(analyzer.simplify(&(&n + 5).floor_mod(4)).is_int(0));
    analyzer.restore(mark);
    analyzer.bind_value(&n, &(&m * 16));
    assert_eq!(text(&analyzer.simplify(&(&n + &x).floor_div(16))), "(m + (x // 16))");
    analyzer.restore(mark);
    analyzer.bind_equal(&n, &(&m * 16 + 4));
    assert!(analyzer.simplify(&n.floor_mod(16)).is_int(4));
    assert_eq!(text(&analyzer.simplify(&(&n + &x))), "(n + x)");
    assert!(analyzer.can_prove(&n.greater(&m * 16 + 3)));
}

#[test]
fn conditions_bound_variables_and_expressions() {
    let [x, y, n] = vars(["x", "y", "n"]);
    let analyzer = Analyzer::new();
    let interval = |expr: &Expr| analyzer.const_interval(expr);
    let rows: &[(Expr, Expr, (i64, i64))] = &[
        (x.less(8).and(x.greater_equal(0)), x.expr().clone(), (0, 7)),
        (x.greater(3).and(x.less_equal(9)), &x * -2, (-18, -8)),
        (x.equals(5), &x + 1, (6, 6)),
        (x.less(0).or(x.greater(7)).negated(), x.expr().clone(), (0, 7)),
        ((&x + &y).less(9).and((&x + &y).greater_equal(0)), &x + &y, (0, 8)),
        (x.floor_div(8).equals(2), x.expr().clone(), (16, 23)),
        (x.floor_div(8).less(3).and(x.greater_equal(0)), x.floor_div(8), (0, 2)),
        ((&x * 3).less(10).and(x.greater(0)), x.expr().clone(), (1, 3)),
        (x.min(&y).greater_equal(4).and(y.less_equal(6)), y.expr().clone(), (4, 6)),
        (x.max(4).less(6).and(x.greater_equal(1)), x.expr().clone(), (1, 5)),
        (x.greater_equal(0).and(x.less(&n)).and(n.less(10)), x.expr().clone(), (0, 8)),
        (x.greater_equal(0).and(x.less_equal(4)).and(x.differs(0)), x.expr().clone(), (1, 4)),
    ];
    for (fact, expr, (min, max)) in rows {
        let mark = analyzer.mark();
        analyzer.enter(fact);
        assert_eq!(interval(expr), ConstInterval::new(*min, *max), "{} under {}", text(expr), text(fact));
        analyzer.restore(mark);
        assert_eq!(interval(&x), ConstInterval::EVERYTHING);
    }
}

#[test]
fn scopes_restore_every_part() {
    let [x, y] = vars(["x", "y"]);
    let p = Var::new("p", kernpack_compiler::ir::BOOLEAN);
    let analyzer = Analyzer::new();
    let probes = [x.less(&y), x.floor_mod(4).equals(1), x.floor_div(4).less(2), p.expr().clone(), x.equals(3)];
    let before: Vec<String> = probes.iter().map(|probe| text(&analyzer.simplify(probe))).collect();
    for fact in [
        x.less(&y).and(&p),
        x.floor_mod(4).equals(1),
        x.equals(3),
        x.floor_div(4).less(2).and(x.floor_div(4).greater(-1)),
        p.negated(),
    ] {
        let mark = analyzer.mark();
        analyzer.enter(&fact);
        let inside: Vec<String> = probes.iter().map(|probe| text(&analyzer.simplify(probe))).collect();
        assert_ne!(before, inside, "{}", text(&fact));
        analyzer.restore(mark);
        let after: Vec<String> = probes.iter().map(|probe| text(&analyzer.simplify(probe))).collect();
        assert_eq!(before, after, "{}", text(&fact));
    }
}

#[test]
fn binding_again_replaces() {
    let [i, n] = vars(["i", "n"]);
    let analyzer = Analyzer::new();
    analyzer.bind(&i, &Range::until(&n));
    analyzer.enter(&i.floor_div(4).less(2));
    assert!(analyzer.can_prove(&i.less(&n)));
    let mark = analyzer.mark();
    analyzer.bind(&i, &Range::until(100));
    assert!(!analyzer.can_prove(&i.less(&n)));
    assert_eq!(analyzer.const_interval(&i), ConstInterval::new(0, 99));
    assert_eq!(analyzer.const_interval(&i.floor_div(4)), ConstInterval::new(0, 24));
    analyzer.restore(mark);
    assert!(analyzer.can_prove(&i.less(&n)));
    assert!(analyzer.can_prove(&i.less(8)));
}

#[test]
fn memory_is_no_fact() {
    let x = Var::index("x");
    let buffer = Buffer::new("a", I64, [Expr::int(8)], "global");
    let condition = Expr::load(&buffer, &x).less(3);
    let analyzer = Analyzer::new();
    analyzer.enter(&condition);
    assert!(!analyzer.can_prove(&condition));
    // Inside one expression memory does not change.
    assert!(analyzer.simplify(&(Expr::load(&buffer, &x) - Expr::load(&buffer, &x + 0))).is_int(0));
    // Both sides of a select are evaluated: the index has to be valid in both cases.
    let guarded = Expr::select(x.less(8), Expr::load(&buffer, x.min(7)), 0);
    assert!(analyzer.simplify(&guarded).same_as(&guarded));
    let lazy = Expr::if_then_else(x.less(8), Expr::load(&buffer, x.min(7)), Expr::int(0));
    assert_eq!(text(&analyzer.simplify(&lazy)), "if((x < 8), a[x], 0)");
}

#[test]
fn extents_of_symbolic_loops_are_positive_inside() {
    let [i, j, n, m] = vars(["i", "j", "n", "m"]);
    let analyzer = Analyzer::new();
    analyzer.bind(&i, &Range::until(&n));
    assert!(analyzer.can_prove(&n.greater(0)));
    analyzer.bind(&j, &Range::until(Expr::int(8).min(&n - &i * 8)));
    assert!(analyzer.can_prove(&(&i * 8 + &j).less(&n)));
    assert!(analyzer.can_prove(&j.less(8)));
    assert!(analyzer.can_prove(&i.less(&n + &m).or(m.less(0))));
    // Extents of parts of a loop are never negative.
    assert_eq!(analyzer.const_interval(&(&m - 8).max(0)).min, 0);
}

#[test]
fn correlated_terms_cancel_before_bounds_are_taken() {
    let i = Var::index("i");
    let analyzer = Analyzer::new();
    analyzer.bind(&i, &Range::until(100));
    assert_eq!(analyzer.const_interval(&(&i - &i)), ConstInterval::point(0));
    assert_eq!(analyzer.const_interval(&((&i + 8) - &i)), ConstInterval::point(8));
    assert_eq!(analyzer.const_interval(&(&i - i.floor_div(8) * 8)), ConstInterval::new(0, 7));
}

#[test]
fn casts_keep_bounds_where_they_fit() {
    let (x, y) = (Var::index("x"), Var::new("y", I32));
    let analyzer = Analyzer::new();
    analyzer.bind(&x, &Range::until(100));
    assert_eq!(analyzer.const_interval(&x.cast(I32)), ConstInterval::new(0, 99));
    assert!(analyzer.simplify(&x.cast(I32).cast(I64)).same_as(&x));
    let wide = Var::index("wide");
    let cut = wide.cast(I32).cast(I64);
    assert!(analyzer.simplify(&cut).same_as(&cut));
    assert!(analyzer.can_prove(&y.cast(I64).less(1i64 << 31)));
    let byte = Var::new("b", kernpack_compiler::ir::U8);
    assert_eq!(analyzer.const_interval(&byte.cast(I32)), ConstInterval::new(0, 255));
}

#[test]
fn numbers_that_do_not_fit_stay_as_they_are() {
    let (x, y) = (Var::index("x"), Var::new("y", I32));
    let analyzer = Analyzer::new();
    let product = &x * i64::MAX * 16;
    assert!(analyzer.simplify(&product).same_as(&product));
    let narrow = &y * 100_000 * 100_000;
    assert!(analyzer.simplify(&narrow).same_as(&narrow));
    let sum = (&x + i64::MAX) + 1;
    assert!(analyzer.simplify(&sum).same_as(&sum));
    assert_eq!(analyzer.const_interval(&(&x * 2)), ConstInterval::EVERYTHING);
    for expr in [x.floor_div(i64::MIN), x.floor_mod(i64::MIN), &x - i64::MIN, x.less(i64::MIN), x.greater(i64::MAX)] {
        let _ = analyzer.simplify(&expr);
        let _ = analyzer.const_interval(&expr);
    }
}

#[test]
fn what_is_simple_is_the_same_node() {
    let [i, j, k, n] = vars(["i", "j", "k", "n"]);
    let buffer = Buffer::new("a", F32, [Expr::int(8)], "global");
    let analyzer = Analyzer::new();
    for expr in [
        &i * 64 + &j * 8 + &k + 3,
        &i * 4 + 1 - &k * 2,
        (&i + &j).floor_div(8),
        i.floor_div(8).floor_mod(4) * 8 + &j,
        (&i * &n + &j) * &n + &k,
        i.min(&j) + &k,
        Expr::select(i.less(&j), &i * 2, &k),
        Expr::load(&buffer, &i * 8 + &j) * 2.0,
        i.less(&j).and(j.less(&k)).or(k.less(3)),
        (&i + 2).less(&j),
        (&i * 8).ramp(1, 8),
        Expr::int(0) - &i,
    ] {
        let simple = analyzer.simplify(&expr);
        let canonical = analyzer.simplify(&simple);
        assert!(canonical.same_as(&simple), "{} gives {}", text(&simple), text(&canonical));
        assert_eq!(text(&simple).len(), text(&expr).len(), "{} gives {}", text(&expr), text(&simple));
    }
}

#[test]
fn depth_is_limited_by_memory_only() {
    let (x, y) = (Var::index("x"), Var::index("y"));
    let analyzer = Analyzer::new();
    let (mut sum, mut nested, mut choice) = (x.expr().clone(), x.expr().clone(), x.expr().clone());
    for step in 0..20_000 {
        sum = sum + &y;
        if step < 2_000 {
            nested = nested.min(&y + &nested * 0 + i64::from(step % 7));
        }
        if step < 1_000 {
            choice = Expr::select(y.less(step), choice, &y + step);
        }
    }
    assert_eq!(text(&analyzer.simplify(&sum)), "((y*20000) + x)");
    assert_eq!(text(&analyzer.simplify(&nested)), "min(x, y)");
    let _ = analyzer.simplify(&choice);
    let (mut least, mut product) = (x.expr().clone(), x.expr().clone());
    for step in 0..2_000 {
        let var = Var::index("v");
        least = if step % 3 == 0 { least.max(&var) } else { least.min(&var) };
        product = &product * &var;
    }
    let _ = analyzer.simplify(&least.less(&y));
    analyzer.enter(&least.greater(3));
    let _ = analyzer.can_prove(&least.greater(&y));
    let _ = analyzer.simplify(&(&product + 1).less(&product));
    let _ = analyzer.simplify(&product.floor_div(&x));
    let mut doubled = x.expr().clone();
    for _ in 0..40 {
        doubled = &doubled + &doubled;
    }
    assert_eq!(text(&analyzer.simplify(&doubled)), format!("(x*{})", 1i64 << 40));
    let mut both = x.less(0);
    for step in 1..5_000 {
        both = both.and(y.less(step));
    }
    assert_eq!(text(&analyzer.simplify(&both)), "((x < 0) && (y < 1))");
    let mut either = x.less(0);
    for _ in 0..24 {
        either = either.and(y.less(3)).or(x.less(&y));
    }
    let _ = analyzer.simplify(&either);
}

#[test]
fn other_languages_call_functions() {
    use kernpack::{Array, Function};
    use kernpack_compiler::ir::{IterKind, IterVar};
    let call = |name: &str| Function::find_global(&format!("kernpack.arith.{name}")).unwrap().expect("is registered");
    let [i, j] = vars(["i", "j"]);
    let axes: Array<IterVar> =
        [IterVar::new(Some(Range::until(8)), j.clone(), IterKind::DataPar)].into_iter().collect();
    let none: Array<Expr> = Array::default();
    let fused = &i * 8 + &j;
    let simple = call("simplify").call((fused.floor_div(8), axes.clone(), none.clone())).unwrap().to::<Expr>().unwrap();
    assert!(simple.same_as(&i));
    let facts: Array<Expr> = [i.less(4)].into_iter().collect();
    assert!(call("can_prove").call((fused.less(32), axes.clone(), facts)).unwrap().to::<bool>().unwrap());
    let numbers = |name: &str, expr: Expr| {
        let result = call(name).call((expr, axes.clone(), none.clone())).unwrap();
        result.to::<Array<i64>>().unwrap().to_vec()
    };
    assert_eq!(numbers("const_interval", &j * 2), [0, 14]);
    assert_eq!(numbers("modular_set", &i * 8 + 3), [8, 3]);
    let form = call("detect_linear").call((fused.clone(), [i.clone(), j.clone()].into_iter().collect::<Array<Var>>()));
    assert_eq!(
        form.unwrap().to::<Array<Expr>>().unwrap().iter().map(|part| text(&part)).collect::<Vec<_>>(),
        ["8", "1", "0"]
    );
    let ends = call("deduce_bound").call((i, fused.less(100), axes)).unwrap().to::<Array<Option<Expr>>>().unwrap();
    assert!(ends.get(0).unwrap().is_none() && ends.get(1).unwrap().unwrap().is_int(11));
}
