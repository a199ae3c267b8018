//! The pass `Simplify`: random programs with the same results before and after it. Programs before
//! and after it are in `filetests/simplify.kir`.

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{Buffer, Expr, ForKind, I64, LoweredFunc, LoweredFuncNode, Stmt, Var};
use kernpack_compiler::pass::simplify::simplify;
use kernpack_compiler::pass::{PassContext, PassOptions};
use kernpack_compiler::text;

use super::evaluate::Random;

fn simplified(function: &LoweredFunc) -> LoweredFunc {
    simplify(function, &PassContext::new(PassOptions::default())).unwrap()
}

/// Random programs over one buffer.
struct Programs<'a> {
    random: &'a mut Random,
    buffer: Buffer,
    n: Var,
    vars: Vec<Expr>,
    next: usize,
}

impl Programs<'_> {
    fn integer(&mut self, depth: u32) -> Expr {
        if depth == 0 || self.random.between(0, 4) == 0 {
            return match self.random.between(0, 4) {
                0 => Expr::int(*self.random.of(&[-3, 0, 1, 2, 4, 8])),
                1 => self.n.expr().clone(),
                _ if self.vars.is_empty() => Expr::int(3),
                _ => self.random.of(&self.vars).clone(),
            };
        }
        let (a, b) = (self.integer(depth - 1), self.integer(depth - 1));
        match self.random.between(0, 9) {
            0..=2 => a + b,
            3 => a - b,
            4 => a * *self.random.of(&[2, 4, 8, -1]),
            5 => a.floor_div(*self.random.of(&[2, 4, 8])),
            6 => a.floor_mod(*self.random.of(&[2, 4, 8])),
            7 => a.min(b),
            8 => a.max(b),
            _ => Expr::if_then_else(self.condition(1), a, b),
        }
    }

    fn condition(&mut self, depth: u32) -> Expr {
        if depth > 0 && self.random.between(0, 2) == 0 {
            let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.random.between(0, 2) {
                0 => a.and(b),
                1 => a.or(b),
                _ => a.negated(),
            };
        }
        let (a, b) = (self.integer(1), self.integer(1));
        match self.random.between(0, 4) {
            0 => a.less(b),
            1 => a.less_equal(b),
            2 => a.equals(b),
            3 => a.differs(b),
            _ => a.floor_mod(4).equals(*self.random.of(&[0, 1])),
        }
    }

    fn name(&mut self, prefix: &str) -> Var {
        self.next += 1;
        Var::index(format!("{prefix}{}", self.next))
    }

    /// A write to a location inside of the buffer.
    fn store(&mut self) -> Stmt {
        let (place, value) = (self.integer(3), self.integer(3));
        let buffer = self.buffer.clone();
        let read = Expr::load(&buffer, self.integer(2).floor_mod(64));
        let value = if self.random.between(0, 2) == 0 { (value + read).floor_mod(1009) } else { value };
        Stmt::store(
            buffer.clone(),
            place.floor_mod(64),
            (value + Expr::load(&buffer, place.floor_mod(64))).floor_mod(4001),
        )
    }

    fn body(&mut self, depth: u32) -> Stmt {
        let depth_of_vars = self.vars.len();
        let mut stmts = Vec::new();
        for _ in 0..self.random.between(1, 3) {
            let stmt = match self.random.between(0, 5) {
                0 | 1 if depth > 0 => {
                    let var = self.name("i");
                    let kind = *self.random.of(&[ForKind::Serial, ForKind::Unrolled]);
                    let (min, extent) = match self.random.between(0, 3) {
                        0 => (Expr::int(0), self.integer(1).min(5)),
                        1 => (self.integer(1), Expr::int(self.random.between(0, 2))),
                        _ => (Expr::int(0), Expr::int(self.random.between(1, 4))),
                    };
                    self.vars.push(var.expr().clone());
                    let body = self.body(depth - 1);
                    self.vars.pop();
                    Stmt::for_loop(var, min, extent, kind, body)
                }
                2 | 3 if depth > 0 => {
                    let condition = self.condition(2);
                    let then_body = self.body(depth - 1);
                    let else_body = (self.random.between(0, 1) == 0).then(|| self.body(depth - 1));
                    Stmt::if_then(condition, then_body, else_body)
                }
                4 => {
                    let var = self.name("v");
                    let value = self.integer(2);
                    self.vars.push(var.expr().clone());
                    Stmt::bind(var, value)
                }
                _ => self.store(),
            };
            stmts.push(stmt);
        }
        stmts.push(self.store());
        self.vars.truncate(depth_of_vars);
        Stmt::seq(stmts)
    }
}

fn run(function: &LoweredFunc, n: i64) -> Vec<i64> {
    let block = Block::from_i64(I64, &[64], &(0..64).collect::<Vec<_>>());
    let machine = Machine::new(function).unwrap_or_else(|error| panic!("{error}\n{}", text::print(function)));
    let args = [Arg::from(n), Arg::from(&block)];
    machine.run(function.name.as_str(), &args).unwrap_or_else(|error| panic!("{error}\n{}", text::print(function)));
    block.to_i64().unwrap()
}

#[test]
fn random_programs_do_the_same() {
    let number = |name: &str, own: u64| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(own);
    let mut random = Random(number("KERNPACK_FUZZ_SEED", 7));
    let mut changed = 0u64;
    let cases = number("KERNPACK_FUZZ_CASES", 300);
    for _ in 0..cases {
        let template = text::parse_func("func f(n: i64, a: mut i64[64]) {\n a[0] = n\n}\n").unwrap();
        let n = template.params.get(0).unwrap().var.clone();
        let buffer = template.params.get(1).unwrap().buffer.clone().unwrap();
        let mut programs = Programs { random: &mut random, buffer, n, vars: Vec::new(), next: 0 };
        let body = programs.body(3);
        let before = LoweredFunc::from_node(LoweredFuncNode { body, ..template.to_node() });
        let after = simplified(&before);
        changed += u64::from(!after.body.same_as(&before.body));
        for n in [-5, 0, 1, 3, 8] {
            let (expected, found) = (run(&before, n), run(&after, n));
            assert_eq!(expected, found, "n = {n}\n{}\n{}", text::print(&before), text::print(&after));
        }
    }
    assert!(changed * 2 > cases, "{changed}");
}
