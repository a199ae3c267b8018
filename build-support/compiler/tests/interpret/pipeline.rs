//! Random programs: each pass preserves the results of a program.

use core::fmt::Write;

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::F32;
use kernpack_compiler::pass::{PassOptions, pipeline};
use kernpack_compiler::{PassContext, text};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The numbers of elements of the input and of the output.
const INPUT: i64 = 64;
const OUTPUT: i64 = 512;

/// A program from a list of choices: loops of all kinds with guards, index arithmetic with floor
/// division, local memory, padding.
struct Program<'a> {
    choices: &'a [u8],
    /// The loop variables and other integers in scope, and a bound of each.
    vars: Vec<String>,
    /// The variable of the surrounding vectorized loop, with its extent: each lane stores to a
    /// separate location.
    lanes: Option<(String, usize)>,
    parallel: bool,
    locals: Vec<String>,
    names: usize,
}

impl Program<'_> {
    fn choose(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.choices.split_first() else { return 0 };
        self.choices = rest;
        usize::from(*first) % count
    }

    fn name(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    /// A small integer.
    fn index(&mut self, depth: usize) -> String {
        if depth == 0 {
            let known = self.vars.clone();
            return match self.choose(3) {
                0 => ["0", "1", "2", "3", "7", "8", "9", "16"][self.choose(8)].to_owned(),
                _ if known.is_empty() => "n".to_owned(),
                _ => known[self.choose(known.len())].clone(),
            };
        }
        let a = self.index(depth - 1);
        let c = [1, 2, 3, 4, 7, 8, 16][self.choose(7)];
        match self.choose(9) {
            0 => format!("({a} * {c} + {})", self.index(0)),
            1 => format!("({a} - {})", self.index(0)),
            2 => format!("floordiv({a}, {c})"),
            3 => format!("floormod({a}, {c})"),
            4 => format!("min({a}, {})", self.index(0)),
            5 => format!("max({a}, {})", self.index(0)),
            6 => format!("select({}, {a}, {})", self.condition(0), self.index(0)),
            7 => format!("(floordiv({a}, {c}) * {c} + floormod({a}, {c}))"),
            _ => a,
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        if depth > 0 {
            let op = ["&&", "||"][self.choose(2)];
            return format!("({} {op} {})", self.condition(depth - 1), self.condition(depth - 1));
        }
        let a = self.index(1);
        match self.choose(5) {
            0 | 1 => format!("({a} < n)"),
            2 => format!("({a} >= {})", self.index(0)),
            3 => format!("(floormod({a}, 3) == 1)"),
            _ => format!("({a} < {})", self.index(0)),
        }
    }

    fn value(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.choose(4) {
                0 => "1.0".to_owned(),
                1 if !self.locals.is_empty() => {
                    let known = self.locals.clone();
                    known[self.choose(known.len())].clone()
                }
                2 => format!("({} as f32)", self.index(1)),
                _ => format!("a[floormod({}, {INPUT})]", self.index(2)),
            };
        }
        let a = self.value(depth - 1);
        match self.choose(5) {
            0 => format!("({a} + {})", self.value(depth - 1)),
            1 => format!("max({a}, {})", self.value(depth - 1)),
            2 => format!("select({}, {a}, {})", self.condition(0), self.value(depth - 1)),
            3 => {
                // A window with padding.
                let at = self.index(1);
                format!("if_then_else({at} >= 0 && {at} < {INPUT}, a[{at}], {a})")
            }
            _ => a,
        }
    }

    /// A location in the output: a separate one for each lane, and each iteration of a parallel
    /// loop.
    fn place(&mut self) -> String {
        let at = self.index(2);
        match (&self.lanes, self.parallel) {
            (Some((lane, extent)), false) => {
                let extent = *extent as i64;
                format!("floormod({at}, {}) * {extent} + {lane}", OUTPUT / extent - 1)
            }
            (Some((lane, extent)), true) => {
                let extent = *extent as i64;
                format!("p * 32 + floormod({at}, {}) * {extent} + {lane}", 32 / extent)
            }
            (None, false) => format!("floormod({at}, {OUTPUT})"),
            (None, true) => format!("p * 32 + floormod({at}, 32)"),
        }
    }

    fn store(&mut self, out: &mut String) {
        let place = self.place();
        let value = self.value(2);
        // A lane that reads the output reads its own location.
        let value = if self.choose(3) == 1 { format!("o[{place}] + {value}") } else { value };
        let _ = writeln!(out, "o[{place}] = {value}");
    }

    fn block(&mut self, out: &mut String, depth: usize) {
        let (vars, locals) = (self.vars.len(), self.locals.len());
        for _ in 0..=self.choose(2) {
            self.statement(out, depth);
        }
        self.vars.truncate(vars);
        self.locals.truncate(locals);
    }

    fn statement(&mut self, out: &mut String, depth: usize) {
        match self.choose(9) {
            0..=2 if depth > 0 => self.for_loop(out, depth),
            3 | 4 if depth > 0 => {
                let condition = self.condition(0);
                let condition = if self.choose(2) == 0 { format!("likely({condition})") } else { condition };
                let _ = writeln!(out, "if {condition} {{");
                self.block(out, depth - 1);
                if self.choose(3) == 1 {
                    out.push_str("} else {\n");
                    self.block(out, depth - 1);
                }
                out.push_str("}\n");
            }
            5 => {
                let (name, value) = (self.name("x"), self.index(2));
                let _ = writeln!(out, "let {name} = {value}");
                self.vars.push(name);
            }
            6 => {
                let (name, at) = (self.name("t"), self.choose(3));
                let _ = writeln!(out, "alloc {name}: f32[4] @local");
                for position in 0..4 {
                    let value = self.value(1);
                    let _ = writeln!(out, "{name}[{position}] = {value}");
                }
                self.locals.push(format!("{name}[{at}]"));
            }
            _ => self.store(out),
        }
    }

    fn for_loop(&mut self, out: &mut String, depth: usize) {
        let name = self.name("i");
        let fixed = [1, 2, 3, 4, 8, 16][self.choose(6)];
        let extent = match self.choose(6) {
            0 => "n".to_owned(),
            1 => "floordiv(n + 7, 8)".to_owned(),
            2 => "min(n, 8)".to_owned(),
            3 => "max(n - 3, 0)".to_owned(),
            _ => fixed.to_string(),
        };
        let begin = if self.choose(5) == 1 { format!("{}..+", self.index(0)) } else { "0..".to_owned() };
        let (kind, extent, begin) = match self.choose(6) {
            1 | 2 if self.lanes.is_none() && fixed > 1 => ("vectorized", fixed.to_string(), "0..".to_owned()),
            3 => ("unrolled", fixed.to_string(), begin),
            _ => ("for", extent, begin),
        };
        let _ = writeln!(out, "{kind} {name} in {begin}{extent} {{");
        let outer = self.lanes.clone();
        if kind == "vectorized" {
            self.lanes = Some((name.clone(), fixed));
        }
        self.vars.push(name);
        self.block(out, depth - 1);
        self.vars.pop();
        self.lanes = outer;
        out.push_str("}\n");
    }

    fn text(&mut self) -> String {
        let mut out = format!("func f(a: f32[{INPUT}], o: mut f32[{OUTPUT}], n: size i64) {{\n");
        if self.choose(4) == 1 {
            self.parallel = true;
            self.vars.push("p".to_owned());
            out.push_str("parallel p in 0..16 {\n");
            self.block(&mut out, 4);
            out.push_str("}\n");
            self.vars.pop();
            self.parallel = false;
        }
        self.block(&mut out, 4);
        out.push_str("}\n");
        out
    }
}

fn run(source: &str, n: i64) -> Result<Vec<u64>, String> {
    let func = text::parse_func(source).map_err(|error| error.to_string())?;
    let machine = Machine::new(&func).map_err(|error| error.to_string())?.with_step_limit(400_000);
    let values: Vec<f64> = (0..INPUT).map(|at| ((at * 7) % 31 - 9) as f64).collect();
    let (a, o) = (Block::from_f64(F32, &[INPUT], &values), Block::from_f64(F32, &[OUTPUT], &[0.5; OUTPUT as usize]));
    machine.run("f", &[a.into(), (&o).into(), Arg::Int(n)]).map_err(|error| error.to_string())?;
    o.to_lanes().map_err(|error| error.to_string())
}

#[test]
fn each_pass_keeps_what_a_program_computes() {
    let setting =
        |name: &str, default: u32| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default);
    let config = Config {
        cases: setting("KERNPACK_PROGRAMS", 30),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let seed = setting("KERNPACK_SEED", 5) as u8;
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]));
    let result = runner.run(&vec(any::<u8>(), 30..300), |choices| {
        let mut program =
            Program { choices: &choices, vars: Vec::new(), lanes: None, parallel: false, locals: Vec::new(), names: 0 };
        let source = program.text();
        let func = text::parse_func(&source).map_err(|error| TestCaseError::fail(format!("{error} in\n{source}")))?;
        let sizes = [0, 5, 13];
        let mut expected = Vec::new();
        for n in sizes {
            match run(&source, n) {
                Ok(values) => expected.push(values),
                // The program takes too long, or is not valid.
                Err(error) if error.contains("the limit of") => return Err(TestCaseError::reject("too long")),
                Err(error) => return Err(TestCaseError::fail(format!("n = {n}: {error} in\n{source}"))),
            }
        }
        let options = PassOptions { dump: true, verify: true, ..PassOptions::default() };
        let context = PassContext::new(options);
        let passes = pipeline::of(&context);
        let lowered = pipeline::run(func, &passes, &context);
        let dumps = context.take_dumps();
        prop_assert!(lowered.is_err() || dumps.len() > passes.len(), "{} programs", dumps.len());
        let mut before = source.clone();
        for (pass, printed) in dumps {
            for (n, expected) in sizes.into_iter().zip(&expected) {
                let wrong = match run(&printed, n) {
                    Ok(found) => found.iter().zip(expected).position(|(found, expected)| found != expected).map(|at| {
                        let show = |values: &[u64]| f32::from_bits(values[at] as u32);
                        format!("o[{at}] is {} and was {}", show(&found), show(expected))
                    }),
                    Err(error) if error.contains("the limit of") => None,
                    Err(error) => Some(error),
                };
                if let Some(wrong) = wrong {
                    return Err(TestCaseError::fail(format!(
                        "n = {n}, after {pass}: {wrong}\nbefore:\n{before}after:\n{printed}"
                    )));
                }
            }
            before = printed;
        }
        lowered.map_err(|error| TestCaseError::fail(format!("{error} in\n{source}")))?;
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
