//! Each rewrite rule: the left side is rewritten to the right side, and both have the same value at
//! 10,000 points.

use kernpack_compiler::arith::{Analyzer, same};
use kernpack_compiler::ir::{BOOLEAN, BinaryOp, CompareOp, Expr, F32, I64, Range, Var};

use super::evaluate::{Random, Values, lanes, text};

/// Variables with ranges, and the constants of one instance of a rule.
struct Setup {
    random: Random,
    analyzer: Analyzer,
    vars: Vec<(Var, i64, i64)>,
    /// Variables with their remainder modulo 12.
    multiples: Vec<(Var, i64)>,
}

impl Setup {
    fn new(seed: u64) -> Self {
        Self { random: Random(seed), analyzer: Analyzer::new(), vars: Vec::new(), multiples: Vec::new() }
    }

    /// Any integer, without facts.
    fn any(&mut self, name: &str) -> Expr {
        let var = Var::new(name, I64);
        self.vars.push((var.clone(), -40, 40));
        var.into()
    }

    /// A variable with a range that the analyzer knows.
    fn within(&mut self, name: &str, min: i64, extent: i64) -> Expr {
        let var = Var::new(name, I64);
        self.analyzer.bind(&var, &Range::new(min, extent));
        self.vars.push((var.clone(), min, min + extent - 1));
        var.into()
    }

    /// `0 .. extent`, where the extent is a variable; points outside of it are skipped.
    fn below(&mut self, name: &str, extent: &Expr) -> Expr {
        let var = Var::new(name, I64);
        self.analyzer.bind(&var, &Range::until(extent));
        self.vars.push((var.clone(), 0, 12));
        var.into()
    }

    /// `12 * k + remainder`, which the analyzer knows from a condition.
    fn multiple(&mut self, name: &str, remainder: i64) -> Expr {
        let var = Var::new(name, I64);
        self.analyzer.enter(&var.floor_mod(12).equals(remainder));
        self.multiples.push((var.clone(), remainder));
        var.into()
    }

    fn truth(&mut self, name: &str) -> Expr {
        let var = Var::new(name, BOOLEAN);
        self.vars.push((var.clone(), 0, 1));
        var.into()
    }

    /// A constant.
    fn c(&mut self, min: i64, max: i64) -> i64 {
        self.random.between(min, max)
    }
}

/// Left and right side, and a condition on the points.
type Sides = (Expr, Expr, Option<Expr>);

fn sides(left: impl Into<Expr>, right: impl Into<Expr>) -> Sides {
    (left.into(), right.into(), None)
}

fn when(condition: Expr, left: impl Into<Expr>, right: impl Into<Expr>) -> Sides {
    (left.into(), right.into(), Some(condition))
}

fn ramp(base: &Expr, stride: i64) -> Expr {
    base.ramp(stride, 4)
}

type Rule = (&'static str, fn(&mut Setup) -> Sides);

const SUMS: &[Rule] = &[
    ("x + 0", |s| sides(raw(BinaryOp::Add, s.any("x"), 0), s.vars[0].0.clone())),
    ("x * 1", |s| sides(raw(BinaryOp::Mul, s.any("x"), 1), s.vars[0].0.clone())),
    ("x * 0", |s| sides(raw(BinaryOp::Mul, s.any("x"), 0), 0)),
    ("x / 1", |s| sides(raw(BinaryOp::FloorDiv, s.any("x"), 1), s.vars[0].0.clone())),
    ("x % 1", |s| sides(raw(BinaryOp::FloorMod, s.any("x"), 1), 0)),
    ("x - x", |s| {
        let x = s.any("x");
        sides(&x - &x, 0)
    }),
    ("(x + c1) + c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(1, 9), s.c(1, 9));
        sides((&x + a) + b, &x + (a + b))
    }),
    ("(x * c1) * c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(2, 9), s.c(2, 9));
        sides((&x * a) * b, &x * (a * b))
    }),
    ("x*c1 + x*c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(2, 9), s.c(2, 9));
        sides(&x * a + &x * b, &x * (a + b))
    }),
    ("x*c1 - x*c1", |s| {
        let (x, a) = (s.any("x"), s.c(2, 9));
        sides(&x * a - &x * a, 0)
    }),
    ("(x + y) - y", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides((&x + &y) - &y, x)
    }),
    ("(x + y) - (y + x)", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides((&x + &y) - (&y + &x), 0)
    }),
    ("c - (c - x)", |s| {
        let (x, c) = (s.any("x"), s.c(-9, 9));
        sides(c - (c - &x), x)
    }),
    ("x*y + x*z - x*z", |s| {
        let (x, y, z) = (s.any("x"), s.any("y"), s.any("z"));
        sides(&x * &y + &x * &z - &z * &x, &x * &y)
    }),
];

const QUOTIENTS: &[Rule] = &[
    ("floordiv(x*c1 + y, c2), c2 | c1", |s| {
        let (x, y, c, k) = (s.any("x"), s.any("y"), s.c(2, 9), s.c(2, 5));
        sides((&x * (c * k) + &y).floor_div(c), &x * k + y.floor_div(c))
    }),
    ("floordiv(x*c1 + y, c2), c1 | c2, 0 <= y < c1", |s| {
        let (c, k) = (s.c(2, 9), s.c(2, 5));
        let (x, y) = (s.any("x"), s.within("y", 0, c));
        sides((&x * c + &y).floor_div(c * k), x.floor_div(k))
    }),
    ("floordiv(floordiv(x, c1), c2)", |s| {
        let (x, a, b) = (s.any("x"), s.c(2, 9), s.c(2, 5));
        sides(x.floor_div(a).floor_div(b), x.floor_div(a * b))
    }),
    ("floordiv(floordiv(x, c1) + c2, c3)", |s| {
        let (x, a, b) = (s.any("x"), s.c(2, 9), s.c(3, 7));
        let c = s.c(1, b - 1);
        sides((x.floor_div(a) + c).floor_div(b), (&x + a * c).floor_div(a * b))
    }),
    ("floordiv(x + c1, c2), c2 | c1", |s| {
        let (x, c, k) = (s.any("x"), s.c(2, 9), s.c(1, 4));
        sides((&x + c * k).floor_div(c), x.floor_div(c) + k)
    }),
    ("floordiv(x, c), 0 <= x < c", |s| {
        let c = s.c(2, 12);
        sides(s.within("x", 0, c).floor_div(c), 0)
    }),
    ("floordiv(x, c), k*c <= x < (k+1)*c", |s| {
        let (c, k) = (s.c(2, 12), s.c(-3, 3));
        sides(s.within("x", k * c, c).floor_div(c), k)
    }),
    ("floordiv(2*x + 1, 2)", |s| {
        let x = s.any("x");
        sides((&x * 2 + 1).floor_div(2), x)
    }),
    ("floordiv(x, -c)", |s| {
        let (x, c) = (s.any("x"), s.c(2, 9));
        sides((&x * c).floor_div(-c), 0 - &x)
    }),
    ("floordiv(c*x + y, c*k) with y below 0", |s| {
        let (c, k) = (s.c(2, 9), s.c(2, 5));
        let (x, y) = (s.any("x"), s.within("y", -c, c));
        sides((&x * c + &y).floor_div(c * k), (&x + (k - 1)).floor_div(k) - 1)
    }),
    ("floormod(x*c1 + y, c2), c2 | c1", |s| {
        let (x, y, c, k) = (s.any("x"), s.any("y"), s.c(2, 9), s.c(2, 5));
        sides((&x * (c * k) + &y).floor_mod(c), y.floor_mod(c))
    }),
    ("floormod(x*c1 + y, c2), c1 | c2, 0 <= y < c1", |s| {
        let (c, k) = (s.c(2, 9), s.c(2, 5));
        let (x, y) = (s.any("x"), s.within("y", 0, c));
        sides((&x * c + &y).floor_mod(c * k), x.floor_mod(k) * c + y)
    }),
    ("floormod(x + c1, c2), c1 reduced", |s| {
        let (x, c, k) = (s.any("x"), s.c(3, 9), s.c(1, 4));
        let r = s.c(1, c - 1);
        sides((&x + (c * k + r)).floor_mod(c), (&x + r).floor_mod(c))
    }),
    ("floormod(x, c), 0 <= x < c", |s| {
        let c = s.c(2, 12);
        let x = s.within("x", 0, c);
        sides(x.floor_mod(c), x)
    }),
    ("floormod(x, c), k*c <= x < (k+1)*c", |s| {
        let (c, k) = (s.c(2, 12), s.c(1, 3));
        let x = s.within("x", k * c, c);
        sides(x.floor_mod(c), &x - k * c)
    }),
    ("floormod(x*c*k + r, c)", |s| {
        let (x, c, k) = (s.any("x"), s.c(3, 9), s.c(1, 4));
        let r = s.c(1, c - 1);
        sides((&x * (c * k) + r).floor_mod(c), r)
    }),
    ("floormod(floormod(x, c*k), c)", |s| {
        let (x, c, k) = (s.any("x"), s.c(2, 9), s.c(2, 4));
        sides(x.floor_mod(c * k).floor_mod(c), x.floor_mod(c))
    }),
    ("floormod(floormod(x, c*k) + y, c)", |s| {
        let (x, y, c, k) = (s.any("x"), s.any("y"), s.c(2, 9), s.c(2, 4));
        sides((x.floor_mod(c * k) + &y).floor_mod(c), (x + y).floor_mod(c))
    }),
    ("floormod(y - floormod(x, c*k)*2, c)", |s| {
        let (x, y, c, k) = (s.any("x"), s.any("y"), s.c(3, 9), s.c(2, 4));
        sides((&y - x.floor_mod(c * k) * 2).floor_mod(c), (y - x * 2).floor_mod(c))
    }),
    ("floormod(floordiv(x, c1), c2) of a small x", |s| {
        let (a, b) = (s.c(2, 6), s.c(2, 6));
        let x = s.within("x", 0, a * b);
        sides(x.floor_div(a).floor_mod(b), x.floor_div(a))
    }),
    ("floordiv(x, c)*c + floormod(x, c)", |s| {
        let (x, c) = (s.any("x"), s.c(2, 12));
        sides(x.floor_div(c) * c + x.floor_mod(c), x)
    }),
    ("x - floordiv(x, c)*c", |s| {
        let (x, c) = (s.any("x"), s.c(2, 12));
        sides(&x - x.floor_div(c) * c, x.floor_mod(c))
    }),
    ("x - floormod(x, c)", |s| {
        let (x, c) = (s.any("x"), s.c(2, 12));
        sides(&x - x.floor_mod(c), x.floor_div(c) * c)
    }),
    ("three parts of a fused index", |s| {
        let (f, b, c) = (s.any("f"), s.c(2, 6), s.c(2, 6));
        sides(f.floor_div(b * c) * (b * c) + f.floor_div(c).floor_mod(b) * c + f.floor_mod(c), f)
    }),
    ("quotient and remainder of a sum", |s| {
        let (x, y, c) = (s.any("x"), s.any("y"), s.c(2, 9));
        let sum = &x * 3 + &y;
        sides(sum.floor_div(c) * c + sum.floor_mod(c), sum)
    }),
    ("truncating division of what is not negative", |s| {
        let (x, c) = (s.within("x", 0, 60), s.c(2, 9));
        sides(&x / c, x.floor_div(c))
    }),
    ("truncating remainder of what is not negative", |s| {
        let (x, c) = (s.within("x", 0, 60), s.c(2, 9));
        sides(&x % c, x.floor_mod(c))
    }),
    ("truncating division without remainder", |s| {
        let (x, c, k) = (s.any("x"), s.c(2, 9), s.c(1, 5));
        sides((&x * (c * k)) / c, &x * k)
    }),
];

/// Divisibility that follows from facts.
const MULTIPLES: &[Rule] = &[
    ("floordiv(n + c - 1, c), c | n", |s| {
        let (n, c) = (s.multiple("n", 0), s.c(2, 4));
        sides((&n + (c - 1)).floor_div(c), n.floor_div(c))
    }),
    ("floordiv(n, c)*c, c | n", |s| {
        let (n, c) = (s.multiple("n", 0), s.c(2, 4));
        sides(n.floor_div(c) * c, n)
    }),
    ("floordiv(n, c)*c, n of remainder 1", |s| {
        let n = s.multiple("n", 1);
        sides(n.floor_div(4) * 4, &n - 1)
    }),
    ("floormod(n + x, c), c | n", |s| {
        let (n, x, c) = (s.multiple("n", 0), s.any("x"), s.c(2, 4));
        sides((&n + &x).floor_mod(c), x.floor_mod(c))
    }),
    ("floordiv(n*3 + x, 6), 0 <= x < 6", |s| {
        let (n, x) = (s.multiple("n", 0), s.within("x", 0, 6));
        sides((&n * 3 + &x).floor_div(6), n.floor_div(2))
    }),
    ("floordiv(n + x, 4)*4 + floormod(n + x, 4)", |s| {
        let (n, x) = (s.multiple("n", 1), s.any("x"));
        sides((&n + &x).floor_div(4) * 4 + (&n + &x).floor_mod(4), n + x)
    }),
];

const SYMBOLIC: &[Rule] = &[
    ("floordiv(x*n + y, n)", |s| {
        let (x, y, n) = (s.any("x"), s.any("y"), s.within("n", 1, 12));
        sides((&x * &n + &y).floor_div(&n), &x + y.floor_div(&n))
    }),
    ("floormod(x*n + y, n)", |s| {
        let (x, y, n) = (s.any("x"), s.any("y"), s.within("n", 1, 12));
        sides((&x * &n + &y).floor_mod(&n), y.floor_mod(&n))
    }),
    ("floordiv(y, n), y < n", |s| {
        let n = s.any("n");
        let y = s.below("y", &n);
        when(y.less(&n), y.floor_div(&n), 0)
    }),
    ("floormod(y, n), y < n", |s| {
        let n = s.any("n");
        let y = s.below("y", &n);
        when(y.less(&n), y.floor_mod(&n), y)
    }),
    ("floordiv(x*n + y, n), y < n", |s| {
        let (x, n) = (s.any("x"), s.any("n"));
        let y = s.below("y", &n);
        when(y.less(&n), (&x * &n + &y).floor_div(&n), x)
    }),
    ("floormod(x*n*4 + y, n*4), y < n", |s| {
        let (x, n) = (s.any("x"), s.any("n"));
        let y = s.below("y", &n);
        when(y.less(&n), (&x * (&n * 4) + &y).floor_mod(&n * 4), y)
    }),
    ("floordiv(x, n)*n + floormod(x, n)", |s| {
        let (x, n) = (s.any("x"), s.any("n"));
        sides(x.floor_div(&n) * &n + x.floor_mod(&n), x)
    }),
    ("truncating division of a product", |s| {
        let (x, n) = (s.any("x"), s.any("n"));
        sides((&n * &x * 4) / (&n * 2), x * 2)
    }),
    ("truncating remainder of a product", |s| {
        let (x, n) = (s.any("x"), s.any("n"));
        sides((&n * &x * 4) % (&n * 2), 0)
    }),
    ("floordiv(n*(x + 1), n)", |s| {
        let (x, n) = (s.any("x"), s.any("n"));
        sides((&n * (&x + 1)).floor_div(&n), &x + 1)
    }),
];

const EXTREMES: &[Rule] = &[
    ("min(x, x)", |s| {
        let x = s.any("x");
        sides(x.min(&x), x)
    }),
    ("min(x + c1, x + c2)", |s| {
        let (x, a, b) = (s.any("x"), s.c(-9, 9), s.c(-9, 9));
        sides((&x + a).min(&x + b), &x + a.min(b))
    }),
    ("max(x + c1, x + c2)", |s| {
        let (x, a, b) = (s.any("x"), s.c(-9, 9), s.c(-9, 9));
        sides((&x + a).max(&x + b), &x + a.max(b))
    }),
    ("min(min(x, c1), c2)", |s| {
        let (x, a, b) = (s.any("x"), s.c(-9, 9), s.c(-9, 9));
        sides(x.min(a).min(b), x.min(a.min(b)))
    }),
    ("max(max(x, c1), c2)", |s| {
        let (x, a, b) = (s.any("x"), s.c(-9, 9), s.c(-9, 9));
        sides(x.max(a).max(b), x.max(a.max(b)))
    }),
    ("min(x, max(x, y))", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides(x.min(x.max(&y)), x)
    }),
    ("max(min(x, y), x)", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides(x.min(&y).max(&x), x)
    }),
    ("min(a + z, b + z)", |s| {
        let (a, b, z) = (s.any("a"), s.any("b"), s.any("z"));
        sides((&a + &z).min(&b + &z), a.min(&b) + z)
    }),
    ("max(a*c, b*c)", |s| {
        let (a, b, c) = (s.any("a"), s.any("b"), s.c(2, 9));
        sides((&a * c).max(&b * c), a.max(&b) * c)
    }),
    ("min(max(x, c1), c2), c1 <= c2", |s| {
        let (x, c, d) = (s.any("x"), s.c(-9, 0), s.c(0, 9));
        sides(x.max(c).min(d), x.min(d).max(c))
    }),
    ("min(max(x, c1), c2), c1 > c2", |s| {
        let (x, c, d) = (s.any("x"), s.c(1, 9), s.c(-9, 0));
        sides(x.max(c).min(d), d)
    }),
    ("min by bounds", |s| {
        let (x, y) = (s.within("x", 0, 8), s.within("y", 7, 8));
        sides(x.min(&y), x)
    }),
    ("min(n, (n + c-1)/c*c)", |s| {
        let (n, c) = (s.any("n"), s.c(2, 9));
        sides(n.min((&n + (c - 1)).floor_div(c) * c), n)
    }),
    ("max((n + c-1)/c*c, n)", |s| {
        let (n, c) = (s.any("n"), s.c(2, 9));
        let up = (&n + (c - 1)).floor_div(c) * c;
        sides(up.max(&n), up)
    }),
];

const COMPARISONS: &[Rule] = &[
    ("x <= c", |s| {
        let (x, c) = (s.any("x"), s.c(-9, 9));
        sides(x.less_equal(c), x.less(c + 1))
    }),
    ("x > c", |s| {
        let (x, c) = (s.any("x"), s.c(-9, 9));
        sides(x.greater(c), Expr::int(c).less(&x))
    }),
    ("x + c1 < c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(-9, 9), s.c(-9, 9));
        sides((&x + a).less(b), x.less(b - a))
    }),
    ("x + y < x + z", |s| {
        let (x, y, z) = (s.any("x"), s.any("y"), s.any("z"));
        sides((&x + &y).less(&x + &z), y.less(&z))
    }),
    ("x*g < y*g", |s| {
        let (x, y, g) = (s.any("x"), s.any("y"), s.c(2, 9));
        sides((&x * g).less(&y * g), x.less(&y))
    }),
    ("floordiv(x, c1) < c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(2, 9), s.c(-5, 5));
        sides(x.floor_div(a).less(b), x.less(a * b))
    }),
    ("c1 < floordiv(x, c2)", |s| {
        let (x, a, b) = (s.any("x"), s.c(-5, 5), s.c(2, 9));
        sides(Expr::int(a).less(x.floor_div(b)), Expr::int((a + 1) * b - 1).less(&x))
    }),
    ("x*c2 < c1", |s| {
        let (x, a, b) = (s.any("x"), s.c(-30, 30), s.c(2, 9));
        sides((&x * b).less(a), x.less(-(-a).div_euclid(b)))
    }),
    ("c1 < x*c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(-30, 30), s.c(2, 9));
        sides(Expr::int(a).less(&x * b), Expr::int(a.div_euclid(b)).less(&x))
    }),
    ("min(x, c1) < c2", |s| {
        let (x, c, d) = (s.any("x"), s.c(0, 9), s.c(-9, 0));
        sides(x.min(c).less(d), x.less(d))
    }),
    ("min(x, y) < c", |s| {
        let (x, y, c) = (s.any("x"), s.any("y"), s.c(-9, 9));
        sides(x.min(&y).less(c), x.less(c).or(y.less(c)))
    }),
    ("max(x, y) < c", |s| {
        let (x, y, c) = (s.any("x"), s.any("y"), s.c(-9, 9));
        sides(x.max(&y).less(c), x.less(c).and(y.less(c)))
    }),
    ("x*8 + y < z*8, 0 <= y < 8", |s| {
        let (x, y, z) = (s.any("x"), s.within("y", 0, 8), s.any("z"));
        sides((&x * 8 + &y).less(&z * 8), x.less(&z))
    }),
    ("x == x + c", |s| {
        let (x, c) = (s.any("x"), s.c(1, 9));
        sides(x.equals(&x + c), false)
    }),
    ("x*c == y*c + r", |s| {
        let (x, y, c) = (s.any("x"), s.any("y"), s.c(3, 9));
        let r = s.c(1, c - 1);
        sides((&x * c).equals(&y * c + r), false)
    }),
    ("x*c1 == c2", |s| {
        let (x, c, k) = (s.any("x"), s.c(2, 9), s.c(-4, 4));
        sides((&x * c).equals(c * k), x.equals(k))
    }),
    ("x != y by bounds", |s| {
        let (x, y) = (s.within("x", 0, 8), s.within("y", 8, 8));
        sides(x.differs(&y), true)
    }),
    ("not x < y", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides(x.less(&y).negated(), y.less_equal(&x))
    }),
    ("x < n of a loop", |s| {
        let n = s.any("n");
        let x = s.below("x", &n);
        when(x.less(&n), x.less(&n), true)
    }),
    ("x*m + y < n*m of two loops", |s| {
        let (n, m) = (s.any("n"), s.any("m"));
        let (x, y) = (s.below("x", &n), s.below("y", &m));
        let provable = (&x * &m + &y).less(&n * &m);
        assert!(s.analyzer.can_prove(&provable));
        when(x.less(&n).and(y.less(&m)), &x * 0, 0)
    }),
];

const LOGIC: &[Rule] = &[
    ("p && p", |s| {
        let p = s.truth("p");
        sides(p.and(&p), p)
    }),
    ("p && !p", |s| {
        let p = s.truth("p");
        sides(p.and(p.negated()), false)
    }),
    ("p || !p", |s| {
        let p = s.truth("p");
        sides(p.or(p.negated()), true)
    }),
    ("!!p", |s| {
        let p = s.truth("p");
        sides(p.negated().negated(), p)
    }),
    ("x < c1 && x < c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(-9, 9), s.c(-9, 9));
        sides(x.less(a).and(x.less(b)), x.less(a.min(b)))
    }),
    ("x < c1 && x == c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(0, 9), s.c(-9, -1));
        sides(x.less(a).and(x.equals(b)), x.equals(b))
    }),
    ("y < x + c && x == y", |s| {
        let (x, y, c) = (s.any("x"), s.any("y"), s.c(1, 9));
        sides(y.less(&x + c).and(x.equals(&y)), x.equals(&y))
    }),
    ("x < c1 || x < c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(-9, 9), s.c(-9, 9));
        sides(x.less(a).or(x.less(b)), x.less(a.max(b)))
    }),
    ("x < c1 && c2 < x, c1 <= c2", |s| {
        let (x, a, b) = (s.any("x"), s.c(-9, 0), s.c(0, 9));
        sides(x.less(a).and(Expr::int(b).less(&x)), false)
    }),
    ("x < y && y < x + 1", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides(x.less(&y).and(y.less(&x + 1)), false)
    }),
    ("the left operand is a fact for the right one", |s| {
        let x = s.within("x", 0, 16);
        sides(x.less(8).and(x.floor_div(8).equals(0)), x.less(8))
    }),
    ("de Morgan", |s| {
        let (x, y, p) = (s.any("x"), s.any("y"), s.truth("p"));
        sides(x.less(&y).and(&p).negated(), y.less_equal(&x).or(p.negated()))
    }),
    ("select(c, x, x)", |s| {
        let (p, x) = (s.truth("p"), s.any("x"));
        sides(Expr::select(p, &x, &x), x)
    }),
    ("select of a decided condition", |s| {
        let (x, y) = (s.within("x", 0, 8), s.any("y"));
        sides(Expr::select(x.less(8), &y, 0), y)
    }),
    ("select with the condition inside", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides(Expr::select(x.less(&y), x.min(&y), 7), Expr::select(x.less(&y), &x, 7))
    }),
    ("if_then_else with the condition inside", |s| {
        let x = s.within("x", 0, 16);
        sides(Expr::if_then_else(x.less(8), x.floor_mod(8), x.floor_div(8)), Expr::if_then_else(x.less(8), &x, 1))
    }),
];

const VECTORS: &[Rule] = &[
    ("broadcast + broadcast", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides(x.broadcast(4) + y.broadcast(4), (&x + &y).broadcast(4))
    }),
    ("ramp + broadcast", |s| {
        let (x, y, c) = (s.any("x"), s.any("y"), s.c(1, 9));
        sides(ramp(&x, c) + y.broadcast(4), ramp(&(&x + &y), c))
    }),
    ("ramp - broadcast", |s| {
        let (x, y, c) = (s.any("x"), s.any("y"), s.c(1, 9));
        sides(ramp(&x, c) - y.broadcast(4), ramp(&(&x - &y), c))
    }),
    ("broadcast - ramp", |s| {
        let (x, y, c) = (s.any("x"), s.any("y"), s.c(1, 9));
        sides(y.broadcast(4) - ramp(&x, c), ramp(&(&y - &x), -c))
    }),
    ("ramp * broadcast", |s| {
        let (x, c, d) = (s.any("x"), s.c(1, 9), s.c(2, 9));
        sides(ramp(&x, c) * Expr::int(d).broadcast(4), ramp(&(&x * d), c * d))
    }),
    ("ramp * broadcast of a variable", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides(ramp(&x, 1) * y.broadcast(4), (&x * &y).ramp(&y, 4))
    }),
    ("ramp + ramp", |s| {
        let (x, y, c, d) = (s.any("x"), s.any("y"), s.c(1, 9), s.c(1, 9));
        sides(ramp(&x, c) + ramp(&y, d), ramp(&(&x + &y), c + d))
    }),
    ("ramp - ramp", |s| {
        let (x, y, c) = (s.any("x"), s.any("y"), s.c(1, 9));
        sides(ramp(&x, c) - ramp(&y, c), (&x - &y).broadcast(4))
    }),
    ("floordiv of a ramp that stays in one block", |s| {
        let x = s.any("x");
        sides(ramp(&(&x * 4), 1).floor_div(Expr::int(4).broadcast(4)), x.broadcast(4))
    }),
    ("floormod of a ramp that stays in one block", |s| {
        let x = s.any("x");
        sides(ramp(&(&x * 8 + 4), 1).floor_mod(Expr::int(8).broadcast(4)), ramp(&Expr::int(4), 1))
    }),
    ("floordiv of a ramp by its stride", |s| {
        let (x, c) = (s.any("x"), s.c(2, 9));
        sides(ramp(&x, c).floor_div(Expr::int(c).broadcast(4)), ramp(&x.floor_div(c), 1))
    }),
    ("floormod of a ramp by its stride", |s| {
        let (x, c) = (s.any("x"), s.c(2, 9));
        sides(ramp(&x, c).floor_mod(Expr::int(c).broadcast(4)), x.floor_mod(c).broadcast(4))
    }),
    ("ramp < broadcast whose last lane fits", |s| {
        let x = s.within("x", 0, 13);
        sides(ramp(&x, 1).less(Expr::int(16).broadcast(4)), Expr::bool(true).broadcast(4))
    }),
    ("ramp < broadcast that never holds", |s| {
        let x = s.within("x", 16, 13);
        sides(ramp(&x, 1).less(Expr::int(16).broadcast(4)), Expr::bool(false).broadcast(4))
    }),
    ("ramp < broadcast, the same in each lane", |s| {
        let (x, n) = (s.any("x"), s.any("n"));
        sides(ramp(&(&x * 4), 1).less((&n * 4).broadcast(4)), x.less(&n).broadcast(4))
    }),
    ("comparison of broadcasts", |s| {
        let (x, y) = (s.any("x"), s.any("y"));
        sides(x.broadcast(4).less(y.broadcast(4)), x.less(&y).broadcast(4))
    }),
    ("min of a ramp and a broadcast", |s| {
        let x = s.within("x", 0, 9);
        sides(ramp(&x, 1).min(Expr::int(20).broadcast(4)), ramp(&x, 1))
    }),
    ("select with one condition for all lanes", |s| {
        let (p, x, y) = (s.truth("p"), s.any("x"), s.any("y"));
        sides(Expr::select(p.broadcast(4), ramp(&x, 1), y.broadcast(4)), Expr::select(p, ramp(&x, 1), y.broadcast(4)))
    }),
];

/// An operation that is not folded.
fn raw(op: BinaryOp, a: Expr, b: i64) -> Expr {
    use kernpack_compiler::ir::ExprNode;
    Expr::from_node(ExprNode::Binary { op, a, b: Expr::int(b), dtype: I64 })
}

fn check(rules: &[Rule]) {
    for (name, rule) in rules {
        let mut points = 0;
        for seed in 0..100 {
            let mut setup = Setup::new(seed);
            let (left, right, condition) = rule(&mut setup);
            let simple = setup.analyzer.simplify(&left);
            assert!(same(&simple, &right), "{name}: {} gives {}, not {}", text(&left), text(&simple), text(&right));
            let again = setup.analyzer.simplify(&simple);
            assert!(again.same_as(&simple), "{name}: {} gives {} again", text(&simple), text(&again));
            let mut own = 0;
            for _ in 0..4000 {
                let random = &mut setup.random;
                let mut values: Values =
                    setup.vars.iter().map(|(var, min, max)| (var.clone(), random.between(*min, *max))).collect();
                for (var, remainder) in &setup.multiples {
                    values.insert(var.clone(), random.between(-5, 5) * 12 + remainder);
                }
                if condition.as_ref().is_some_and(|condition| lanes(condition, &values) != Some(vec![1])) {
                    continue;
                }
                let Some(expected) = lanes(&left, &values) else { continue };
                assert_eq!(lanes(&simple, &values), Some(expected), "{name}: {} at {}", text(&left), point(&values));
                own += 1;
                if own == 100 {
                    break;
                }
            }
            points += own;
        }
        assert!(points >= 10_000, "{name}: only {points} points");
    }
}

fn point(values: &Values) -> String {
    let mut all: Vec<String> = values.iter().map(|(var, value)| format!("{}={value}", var.name())).collect();
    all.sort();
    all.join(" ")
}

#[test]
fn sums() {
    check(SUMS);
}

#[test]
fn quotients_and_remainders() {
    check(QUOTIENTS);
}

#[test]
fn multiples() {
    check(MULTIPLES);
}

#[test]
fn symbolic_divisors() {
    check(SYMBOLIC);
}

#[test]
fn minima_and_maxima() {
    check(EXTREMES);
}

#[test]
fn comparisons() {
    check(COMPARISONS);
}

#[test]
fn conditions_and_choices() {
    check(LOGIC);
}

#[test]
fn vectors() {
    check(VECTORS);
}

#[test]
fn floats_are_folded_only_where_nothing_changes() {
    let analyzer = Analyzer::new();
    let (x, y) = (Var::new("x", F32), Var::new("y", F32));
    let float = |value: f64| Expr::float(F32, value);
    let unchanged = [
        &x + 0.0,
        &x * 0.0,
        &x - &x,
        (&x + &y) - &y,
        &x * 2.0 + &x * 3.0,
        (&x + 1.0) + 2.0,
        x.less(&x),
        x.less(&y).negated(),
        x.min(&y),
    ];
    for expr in &unchanged {
        assert!(analyzer.simplify(expr).same_as(expr), "{} gives {}", text(expr), text(&analyzer.simplify(expr)));
    }
    let folded = [
        (&x * 1.0, x.expr().clone()),
        (&x / 1.0, x.expr().clone()),
        (&x - 0.0, x.expr().clone()),
        (&x + -0.0, x.expr().clone()),
        (x.max(&x), x.expr().clone()),
        (float(0.1) + float(0.2), float(f64::from(0.1f32) + f64::from(0.2f32))),
        (Expr::select(Expr::int(3).less(4), &x, &y), x.expr().clone()),
        (x.equals(&y).negated(), x.differs(&y)),
    ];
    for (expr, expected) in &folded {
        let simple = analyzer.simplify(expr);
        assert!(same(&simple, expected), "{} gives {}", text(expr), text(&simple));
    }
}

#[test]
fn unsigned_and_small_integers_wrap_and_are_only_folded() {
    use kernpack_compiler::ir::{I8, U32};
    let analyzer = Analyzer::new();
    for dtype in [U32, I8] {
        let (x, y) = (Var::new("x", dtype), Var::new("y", dtype));
        let c = |value: i64| Expr::constant(dtype, value);
        for expr in [
            (&x + c(100)).less(&x + c(120)),
            (&x * c(4)).floor_div(c(4)),
            (&x - &y).less(c(0)),
            Expr::compare(CompareOp::Lt, &x - c(1), &x),
        ] {
            assert!(analyzer.simplify(&expr).same_as(&expr), "{}", text(&expr));
        }
        assert!(analyzer.simplify(&(&x - &x)).is_int(0));
    }
}
