//! Solved conditions and linear forms, checked against all values.

use kernpack_compiler::arith::{Analyzer, IntSet, SetMap, deduce_bound, detect_linear};
use kernpack_compiler::ir::{Expr, I64, Range, Var};

use super::evaluate::{Random, Values, text, value};

struct Loops {
    outer: Var,
    inner: Var,
    more: Var,
    n: Var,
}

fn loops() -> Loops {
    Loops { outer: Var::index("o"), inner: Var::index("i"), more: Var::index("k"), n: Var::size("n", I64) }
}

/// The condition, and the ends of the interval; an empty string for no end.
type Row = (&'static str, fn(&Loops) -> Expr, &'static str, &'static str);

const ROWS: &[Row] = &[
    ("a split", |l| (&l.outer * 8 + &l.inner).less(&l.n), "", "((n // 8) - 1)"),
    ("a constant", |l| (&l.outer * 8 + &l.inner).less(100), "", "11"),
    ("from below", |l| (&l.outer * 8 + &l.inner - 1).greater_equal(0), "1", ""),
    (
        "both ends of padding",
        |l| (&l.outer + &l.inner - 1).greater_equal(0).and((&l.outer + &l.inner - 1).less(&l.n)),
        "1",
        "(n - 7)",
    ),
    ("likely", |l| (&l.outer * 8 + &l.inner).less(&l.n).likely(), "", "((n // 8) - 1)"),
    ("negated", |l| (&l.outer * 8 + &l.inner).greater_equal(100).negated(), "", "11"),
    ("a quotient", |l| (&l.outer * 3 + &l.inner).floor_div(4).less(&l.n), "", "((((n*4) + 1) // 3) - 3)"),
    ("a quotient from below", |l| (&l.outer + &l.inner).floor_div(4).greater(2), "12", ""),
    ("a negative factor", |l| (&l.n - &l.outer * 8).greater(&l.inner), "", "((n // 8) - 1)"),
    ("min", |l| (&l.outer * 8 + &l.inner).less(l.n.min(100)), "", "((min(n, 100) // 8) - 1)"),
    ("max", |l| (&l.outer * 8).max(&l.inner).less(50), "", "6"),
    ("one of both", |l| (&l.outer * 8 + &l.inner).less(&l.n).or(l.n.less(0)), "", "((n // 8) - 1)"),
    ("always", |l| l.inner.less(8), "-", "-"),
    ("a symbolic factor", |l| (&l.outer * (&l.n + 1) + &l.inner).less(1000), "", "(992 // (n + 1))"),
    ("equal", |l| (&l.outer - 2).equals(&l.n), "(n + 2)", "(n + 2)"),
];

#[test]
fn conditions_are_solved() {
    for (name, condition, min, max) in ROWS {
        let loops = loops();
        let analyzer = Analyzer::new();
        let relaxed: SetMap = [
            (loops.inner.clone(), IntSet::of_range(&Range::until(8))),
            (loops.more.clone(), IntSet::of_range(&Range::until(3))),
        ]
        .into_iter()
        .collect();
        let condition = condition(&loops);
        let set = deduce_bound(&loops.outer, &condition, &relaxed, &analyzer).unwrap_or_else(|| panic!("{name}"));
        let show = |end: Option<&Expr>| end.map_or(String::new(), text);
        if *min == "-" {
            assert!(set.is_everything(), "{name}");
        } else {
            assert_eq!((show(set.min()).as_str(), show(set.max()).as_str()), (*min, *max), "{name}");
        }
        // In the interval the condition holds for all values of the inner loop; beyond its end it
        // fails for one of them, or for the next one.
        for n in 0..40 {
            let at = |outer: i64, inner: i64| -> Values {
                [(&loops.outer, outer), (&loops.inner, inner), (&loops.more, 0), (&loops.n, n)]
                    .into_iter()
                    .map(|(var, value)| (var.clone(), value))
                    .collect()
            };
            let holds = |outer: i64| (0..8).all(|inner| value(&condition, &at(outer, inner)) == Some(1));
            let low = set.min().map_or(-60, |min| value(min, &at(0, 0)).unwrap());
            let high = set.max().map_or(60, |max| value(max, &at(0, 0)).unwrap());
            for outer in -60..=60 {
                let inside = (low..=high).contains(&outer);
                assert!(!inside || holds(outer), "{name}: n = {n}, outer = {outer} of {low}..={high}");
                // Sides of a disjunction are not united; nothing else is lost.
                let exact = *name != "one of both";
                assert!(!exact || inside || !holds(outer), "{name}: n = {n}, outer = {outer} not in {low}..={high}");
            }
        }
    }
}

#[test]
fn loops_inside_that_end_with_the_one_outside() {
    let loops = loops();
    let analyzer = Analyzer::new();
    let clipped = Range::until(Expr::int(8).min(&loops.n - &loops.outer * 8));
    let relaxed: SetMap = [(loops.inner.clone(), IntSet::of_range(&clipped))].into_iter().collect();
    let set = deduce_bound(&loops.outer, &(&loops.outer * 8 + &loops.inner).less(&loops.n), &relaxed, &analyzer);
    assert!(set.is_some_and(|set| set.is_everything() || set.max().is_some()));
}

#[test]
fn what_is_not_monotone_is_not_solved() {
    let loops = loops();
    let analyzer = Analyzer::new();
    let relaxed = SetMap::new();
    for condition in [
        (loops.outer.floor_mod(4)).less(&loops.n),
        (&loops.outer * &loops.outer).less(9),
        loops.outer.differs(&loops.n),
        (&loops.outer * &loops.more).less(&loops.n),
        loops.n.less(3),
        loops.outer.cast(kernpack_compiler::ir::F32).less(3.0),
    ] {
        assert!(deduce_bound(&loops.outer, &condition, &relaxed, &analyzer).is_none(), "{}", text(&condition));
    }
}

#[test]
fn linear_forms_have_the_value_of_the_expression() {
    let Loops { outer, inner, more, n } = loops();
    let analyzer = Analyzer::new();
    analyzer.bind(&inner, &Range::until(8));
    let vars = [outer.clone(), inner.clone()];
    let rows: &[(Expr, Option<[&str; 3]>)] = &[
        (&outer * 8 + &inner + 3, Some(["8", "1", "3"])),
        ((&outer * &n + &inner) * 4 - &more, Some(["(n*4)", "4", "(0 - more)"])),
        (((&outer + &more) * &n + &inner) * &n, Some(["(n*n)", "n", "(more*(n*n))"])),
        ((&outer * 8 + &inner).floor_div(8), Some(["1", "0", "0"])),
        (&outer - &outer + &n.floor_div(2), Some(["0", "0", "(n // 2)"])),
        (&n - &outer * 2, Some(["-2", "0", "n"])),
        (outer.floor_div(2), None),
        (&outer * &inner, None),
        (outer.min(&inner), None),
        (Expr::select(outer.less(3), &inner, 0), None),
    ];
    let mut random = Random(3);
    for (expr, expected) in rows {
        let form = detect_linear(expr, &vars, &analyzer);
        let Some([first, second, base]) = expected else {
            assert!(form.is_none(), "{}", text(expr));
            continue;
        };
        let form = form.unwrap_or_else(|| panic!("{}", text(expr)));
        let rebuilt = &outer * &form.coefficients[0] + &inner * &form.coefficients[1] + &form.base;
        let show = |expr: &Expr| text(expr).replace("k", "more");
        assert_eq!([&form.coefficients[0], &form.coefficients[1], &form.base].map(show), [*first, *second, *base]);
        for _ in 0..1000 {
            let values: Values = [(&outer, -20, 20), (&more, -20, 20), (&n, 0, 20), (&inner, 0, 7)]
                .into_iter()
                .map(|(var, min, max)| (var.clone(), random.between(min, max)))
                .collect();
            assert_eq!(value(&rebuilt, &values), value(expr, &values), "{}", text(expr));
        }
    }
}

/// Conditions on `a` with one more variable that takes all values of an interval: both signs of the
/// factor, all relations, `a` on either side.
#[test]
fn conditions_of_both_signs_are_solved() {
    use kernpack_compiler::ir::CompareOp;
    let (a, b) = (Var::index("a"), Var::index("b"));
    let analyzer = Analyzer::new();
    let forms: [fn(&Var, &Var, i64) -> Expr; 3] =
        [|a, b, by| b + &(a * by) + 3, |a, b, by| (b * 3 + &(a * by)) * 4, |a, b, by| (a * by + b).floor_div(3) - 2];
    let relations = [CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
    for (low, high) in [(0, 4), (1, 5), (2, 6), (10, 17), (-7, -3)] {
        let relaxed: SetMap = [(b.clone(), IntSet::interval(low, high))].into_iter().collect();
        for (form, by) in forms.iter().flat_map(|form| [4, -4, 1].map(|by| (form, by))) {
            for (relation, swapped) in relations.iter().flat_map(|op| [(*op, false), (*op, true)]) {
                let (x, y) = (form(&a, &b, by), Expr::int(17));
                let condition = if swapped { Expr::compare(relation, y, x) } else { Expr::compare(relation, x, y) };
                let set =
                    deduce_bound(&a, &condition, &relaxed, &analyzer).unwrap_or_else(|| panic!("{}", text(&condition)));
                let end = |end: Option<&Expr>, other: i64| end.map_or(other, |end| end.as_int().unwrap());
                let (least, most) = (end(set.min(), -40), end(set.max(), 40));
                for at in -40..=40 {
                    let holds = (low..=high).all(|inner| {
                        let values: Values = [(a.clone(), at), (b.clone(), inner)].into_iter().collect();
                        value(&condition, &values) == Some(1)
                    });
                    assert_eq!(
                        holds,
                        (least..=most).contains(&at),
                        "{} at {at}, b in {low}..={high}",
                        text(&condition)
                    );
                }
            }
        }
    }
}

#[test]
fn equations_and_what_is_no_condition() {
    let [a, b, c, d] = ["a", "b", "c", "d"].map(Var::index);
    let analyzer = Analyzer::new();
    let (fixed, relaxed) = (SetMap::new(), SetMap::from([(b.clone(), IntSet::interval(2, 3))]));
    let ends = |condition: &Expr, sets: &SetMap| {
        deduce_bound(&a, condition, sets, &analyzer).map(|set| {
            let show = |end: Option<&Expr>| end.map_or(String::new(), text);
            (show(set.min()), show(set.max()))
        })
    };
    for (condition, expected) in [
        (a.equals(&b), "b"),
        (Expr::int(10).equals(&a), "10"),
        ((&a - &c).equals(&b + &d), "((c + b) + d)"),
        ((&a * 5).equals(-10), "-2"),
    ] {
        let (least, most) = ends(&condition, &fixed).unwrap_or_else(|| panic!("{}", text(&condition)));
        assert_eq!((least.as_str(), most.as_str()), (expected, expected), "{}", text(&condition));
    }
    // No value of `a` is equal to both 2 and 3, and neither is 4 a.
    for condition in [a.equals(&b), (&a * 4).equals(&b)] {
        let Some(set) = deduce_bound(&a, &condition, &relaxed, &analyzer) else { continue };
        let empty = match (set.min().and_then(|min| min.as_int()), set.max().and_then(|max| max.as_int())) {
            (Some(min), Some(max)) => max < min,
            _ => set.is_nothing(),
        };
        assert!(empty, "{}", text(&condition));
    }
    for condition in [&a + &b, (&a * &a).less(9).cast(I64).greater(&c), (&a * &b).equals(&b)] {
        assert!(deduce_bound(&a, &condition, &fixed, &analyzer).is_none(), "{}", text(&condition));
    }
    // Two occurrences that become one after simplification.
    let (least, _) = ends(&(&a * 2 - &a).greater(&b), &fixed).unwrap();
    assert_eq!(least, "(b + 1)");
}
