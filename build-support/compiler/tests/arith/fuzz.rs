//! Random expressions under random facts: what the analyzer makes of them has the same value, and what it claims is true.

use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::ir::{BinaryOp, CompareOp, Expr, I64, Range, Var};

use super::evaluate::{Random, Values, lanes, text, value};

/// Variables, each with its range.
struct Space {
    vars: Vec<(Var, i64, i64)>,
}

impl Space {
    fn new(random: &mut Random) -> Self {
        let mut vars = Vec::new();
        for name in ["x", "y", "z", "n"] {
            let min = if name == "n" { 1 } else { random.between(-9, 3) };
            let extent = *random.of(&[1, 2, 3, 4, 7, 8, 16]);
            vars.push((Var::new(name, I64), min, min + extent - 1));
        }
        Self { vars }
    }

    fn values(&self, random: &mut Random) -> Values {
        self.vars.iter().map(|(var, min, max)| (var.clone(), random.between(*min, *max))).collect()
    }

    fn integer(&self, random: &mut Random, depth: u32) -> Expr {
        if depth == 0 || random.between(0, 7) == 0 {
            return if random.between(0, 3) == 0 {
                Expr::int(*random.of(&[-8, -3, -1, 0, 1, 2, 3, 4, 7, 8, 16]))
            } else {
                random.of(&self.vars).0.expr().clone()
            };
        }
        let a = self.integer(random, depth - 1);
        match random.between(0, 13) {
            0..=2 => a + self.integer(random, depth - 1),
            3..=4 => a - self.integer(random, depth - 1),
            5 => a * *random.of(&[-4, -1, 2, 3, 4, 8]),
            6 => a * self.integer(random, depth - 1),
            7 | 8 => a.floor_div(*random.of(&[2, 3, 4, 8, 16, -4])),
            9 | 10 => a.floor_mod(*random.of(&[2, 3, 4, 8, 16, -4])),
            11 => {
                let op = *random.of(&[BinaryOp::Min, BinaryOp::Max]);
                Expr::binary(op, a, self.integer(random, depth - 1))
            }
            12 => {
                let condition = self.condition(random, depth - 1);
                if random.between(0, 1) == 0 {
                    Expr::select(condition, a, self.integer(random, depth - 1))
                } else {
                    Expr::if_then_else(condition, a, self.integer(random, depth - 1))
                }
            }
            _ => {
                let op = *random.of(&[BinaryOp::FloorDiv, BinaryOp::FloorMod, BinaryOp::Div, BinaryOp::Mod]);
                let divisor = match random.between(0, 2) {
                    0 => self.vars[3].0.expr().clone(),
                    1 => Expr::int(*random.of(&[2, 5, 8, -3])),
                    _ => self.integer(random, depth - 1),
                };
                if divisor.is_int(0) { a } else { Expr::binary(op, a, divisor) }
            }
        }
    }

    fn condition(&self, random: &mut Random, depth: u32) -> Expr {
        if depth > 0 {
            match random.between(0, 5) {
                0 => return self.condition(random, depth - 1).and(self.condition(random, depth - 1)),
                1 => return self.condition(random, depth - 1).or(self.condition(random, depth - 1)),
                2 => return self.condition(random, depth - 1).negated(),
                _ => {}
            }
        }
        let op =
            *random.of(&[CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge]);
        let depth = depth.saturating_sub(1).min(2);
        Expr::compare(op, self.integer(random, depth), self.integer(random, depth))
    }

    fn vector(&self, random: &mut Random, depth: u32) -> Expr {
        if depth == 0 {
            let base = self.integer(random, 1);
            return if random.between(0, 1) == 0 { base.broadcast(4) } else { base.ramp(self.integer(random, 0), 4) };
        }
        let (a, b) = (self.vector(random, depth - 1), self.vector(random, depth - 1));
        match random.between(0, 7) {
            0 | 1 => a + b,
            2 => a - b,
            3 => a * b,
            4 => a.floor_div(Expr::int(*random.of(&[2, 3, 4, 8])).broadcast(4)),
            5 => a.floor_mod(Expr::int(*random.of(&[2, 3, 4, 8])).broadcast(4)),
            6 => Expr::binary(*random.of(&[BinaryOp::Min, BinaryOp::Max]), a, b),
            _ => {
                let op = *random.of(&[CompareOp::Eq, CompareOp::Lt, CompareOp::Le, CompareOp::Ge]);
                let (x, y) = (self.vector(random, depth - 1), self.vector(random, depth - 1));
                Expr::select(Expr::compare(op, x, y), a, b)
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Condition,
    Vector,
}

fn check(kind: Kind, seed: u64, cases: usize, points: usize) {
    let mut random = Random(seed);
    let mut compared = 0;
    for case in 0..cases {
        let space = Space::new(&mut random);
        let analyzer = Analyzer::new();
        for (var, min, max) in &space.vars {
            analyzer.bind(var, &Range::new(*min, max - min + 1));
        }
        let mut facts = Vec::new();
        for _ in 0..random.between(0, 2) {
            let fact = space.condition(&mut random, 1);
            analyzer.enter(&fact);
            facts.push(fact);
        }
        let depth = random.between(1, 4) as u32;
        let expr = match kind {
            Kind::Integer => space.integer(&mut random, depth),
            Kind::Condition => space.condition(&mut random, depth),
            Kind::Vector => space.vector(&mut random, depth.min(2)),
        };
        let simple = analyzer.simplify(&expr);
        assert_eq!(simple.dtype(), expr.dtype(), "{}", text(&expr));
        let again = analyzer.simplify(&simple);
        let (interval, modular) = (analyzer.const_interval(&expr), analyzer.modular_set(&expr));
        let proved = matches!(kind, Kind::Condition).then(|| analyzer.can_prove(&expr));
        for _ in 0..points {
            let values = space.values(&mut random);
            if facts.iter().any(|fact| value(fact, &values) != Some(1)) {
                continue;
            }
            let Some(expected) = lanes(&expr, &values) else { continue };
            compared += 1;
            let about = || {
                let facts: Vec<String> = facts.iter().map(text).collect();
                let vars: Vec<String> =
                    space.vars.iter().map(|(v, min, max)| format!("{} {min}..={max}", v.name())).collect();
                let mut point: Vec<String> =
                    values.iter().map(|(var, value)| format!("{}={value}", var.name())).collect();
                point.sort();
                format!("case {case}: {} under {facts:?} {vars:?} gives {}, at {point:?}", text(&expr), text(&simple))
            };
            assert_eq!(lanes(&simple, &values).as_ref(), Some(&expected), "{}", about());
            assert_eq!(lanes(&again, &values).as_ref(), Some(&expected), "again {}: {}", text(&again), about());
            for value in &expected {
                assert!(interval.contains(*value), "{value} in {interval}: {}", about());
                assert!(modular.contains(*value), "{value} in {modular}: {}", about());
            }
            assert!(proved != Some(true) || expected[0] == 1, "proved: {}", about());
        }
    }
    assert!(compared >= cases * points / 4, "only {compared} points");
}

#[test]
fn integers_keep_their_values() {
    check(Kind::Integer, seed(1), cases(4000), 24);
}

#[test]
fn conditions_keep_their_values() {
    check(Kind::Condition, seed(2), cases(4000), 24);
}

#[test]
fn vectors_keep_their_values() {
    check(Kind::Vector, seed(3), cases(2000), 24);
}

fn seed(own: u64) -> u64 {
    std::env::var("KERNPACK_FUZZ_SEED").ok().and_then(|seed| seed.parse::<u64>().ok()).map_or(own, |seed| seed + own)
}

fn cases(own: usize) -> usize {
    std::env::var("KERNPACK_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(own)
}
