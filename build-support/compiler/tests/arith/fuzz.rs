//! Random expressions under random facts: the analyzer's result has the same value, and its claims
//! are true.

use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::ir::{BinaryOp, CompareOp, DataTypeExt, Expr, ExprNode, I32, I64, Range, Var};

use super::evaluate::{Random, Values, lanes, text, value};

/// The binding of a variable.
enum Meaning {
    Range(Range),
    Value(Expr),
    Equal(Expr),
}

/// Variables with their bindings, each over the previous ones.
struct Space {
    vars: Vec<(Var, Meaning)>,
}

impl Space {
    fn new(random: &mut Random) -> Self {
        let dtype = *random.of(&[I64, I64, I32]);
        let number = |value: i64| Expr::constant(dtype, value);
        let mut vars = Vec::new();
        for name in ["x", "y", "z", "n"] {
            let min = if name == "n" { 1 } else { random.between(-9, 3) };
            let extent = *random.of(&[1, 2, 3, 4, 7, 8, 16]);
            vars.push((Var::new(name, dtype), Meaning::Range(Range::new(number(min), number(extent)))));
        }
        let mut space = Self { vars };
        if random.between(0, 1) == 0 {
            for name in ["i", "j"] {
                let n = space.vars[3].0.expr().clone();
                let meaning = match random.between(0, 8) {
                    0 | 1 => Meaning::Range(Range::new(number(0), n)),
                    2 => Meaning::Range(Range::new(number(0), n.floor_div(number(4)))),
                    3 => Meaning::Range(Range::new(number(0), n * number(2))),
                    4 => Meaning::Range(Range::new(number(0), number(4).min(n - &space.vars[0].0))),
                    5 => Meaning::Range(Range::new(space.integer(random, 1), number(3))),
                    6 => Meaning::Range(Range::new(number(0), space.integer(random, 2))),
                    7 => Meaning::Value(space.integer(random, 2)),
                    _ => Meaning::Equal(space.integer(random, 2)),
                };
                space.vars.push((Var::new(name, dtype), meaning));
            }
        }
        space
    }

    fn number(&self, value: i64) -> Expr {
        Expr::constant(self.vars[0].0.dtype(), value)
    }

    fn bind(&self, analyzer: &Analyzer) {
        for (var, meaning) in &self.vars {
            match meaning {
                Meaning::Range(range) => analyzer.bind(var, range),
                Meaning::Value(value) => analyzer.bind_value(var, value),
                Meaning::Equal(value) => analyzer.bind_equal(var, value),
            }
        }
    }

    /// Values of all variables; `None` if a range is empty.
    fn values(&self, random: &mut Random) -> Option<Values> {
        let mut values = Values::new();
        for (var, meaning) in &self.vars {
            let own = match meaning {
                Meaning::Range(range) => {
                    let (min, extent) = (value(&range.min, &values)?, value(&range.extent, &values)?);
                    if extent <= 0 {
                        return None;
                    }
                    random.between(min, min + extent - 1)
                }
                Meaning::Value(expr) | Meaning::Equal(expr) => value(expr, &values)?,
            };
            values.insert(var.clone(), own);
        }
        Some(values)
    }

    fn integer(&self, random: &mut Random, depth: u32) -> Expr {
        if depth == 0 || random.between(0, 7) == 0 {
            return if random.between(0, 3) == 0 {
                self.number(*random.of(&[-8, -3, -1, 0, 1, 2, 3, 4, 7, 8, 16]))
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
                    1 => self.number(*random.of(&[2, 5, 8, -3])),
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
            4 => a.floor_div(self.number(*random.of(&[2, 3, 4, 8])).broadcast(4)),
            5 => a.floor_mod(self.number(*random.of(&[2, 3, 4, 8])).broadcast(4)),
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
        space.bind(&analyzer);
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
            let Some(values) = space.values(&mut random) else { continue };
            if facts.iter().any(|fact| value(fact, &values) != Some(1)) {
                continue;
            }
            let Some(expected) = lanes(&expr, &values) else { continue };
            compared += 1;
            let about = || {
                let facts: Vec<String> = facts.iter().map(text).collect();
                let shown = |(var, meaning): &(Var, Meaning)| match meaning {
                    Meaning::Range(range) => {
                        format!("{} from {} of {}", var.name(), text(&range.min), text(&range.extent))
                    }
                    Meaning::Value(value) | Meaning::Equal(value) => format!("{} = {}", var.name(), text(value)),
                };
                let vars: Vec<String> = space.vars.iter().map(shown).collect();
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
    assert!(compared >= cases * points / 5, "only {compared} points");
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

/// An expression with the same structure and huge constants.
fn huge(expr: &Expr, random: &mut Random) -> Expr {
    match &**expr {
        ExprNode::Int { dtype, .. } if dtype.is_int() => {
            let value =
                *random.of(&[i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 1 << 62, -(1 << 62), 1 << 32, 3, -1]);
            Expr::constant(*dtype, value)
        }
        ExprNode::Binary { op, a, b, dtype } => {
            let (a, b) = (huge(a, random), huge(b, random));
            Expr::from_node(ExprNode::Binary { op: *op, a, b, dtype: *dtype })
        }
        ExprNode::Compare { op, a, b } => {
            let (a, b) = (huge(a, random), huge(b, random));
            Expr::from_node(ExprNode::Compare { op: *op, a, b })
        }
        ExprNode::Logic { op, a, b } => {
            let (a, b) = (huge(a, random), huge(b, random));
            Expr::from_node(ExprNode::Logic { op: *op, a, b })
        }
        ExprNode::Ramp { base, stride, lanes } => huge(base, random).ramp(huge(stride, random), *lanes),
        ExprNode::Broadcast { value, lanes } => huge(value, random).broadcast(*lanes),
        _ => expr.clone(),
    }
}

#[test]
fn huge_numbers_are_no_mistake() {
    let mut random = Random(seed(4));
    for _ in 0..cases(3000) {
        let space = Space::new(&mut random);
        let analyzer = Analyzer::new();
        space.bind(&analyzer);
        let fact = space.condition(&mut random, 1);
        analyzer.enter(&huge(&fact, &mut random));
        for expr in [space.integer(&mut random, 3), space.condition(&mut random, 3), space.vector(&mut random, 2)] {
            let expr = huge(&expr, &mut random);
            let simple = analyzer.simplify(&expr);
            assert_eq!(simple.dtype(), expr.dtype());
            let _ = (analyzer.simplify(&simple), analyzer.const_interval(&expr), analyzer.modular_set(&expr));
            let _ = analyzer.can_prove(&expr);
        }
    }
}

fn seed(own: u64) -> u64 {
    std::env::var("KERNPACK_FUZZ_SEED").ok().and_then(|seed| seed.parse::<u64>().ok()).map_or(own, |seed| seed + own)
}

fn cases(own: usize) -> usize {
    std::env::var("KERNPACK_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(own)
}
