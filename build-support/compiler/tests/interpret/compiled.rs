//! Random programs: compiled code computes the same as the interpreter.
#![cfg(feature = "llvm")]

use core::fmt::Write;

use kernpack::{Device, Tensor};
use kernpack_compiler::build;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::dtype::parse_short_name;
use kernpack_compiler::ir::{DataType, DataTypeExt};
use kernpack_compiler::text;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const INTS: [&str; 8] = ["i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"];
const FLOATS: [&str; 3] = ["f32", "f64", "f16"];
/// Without bfloat16: conversions to it call functions of the compiler's runtime library, which may
/// be missing in a process.
const ALL: [&str; 12] = ["f32", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "f64", "f16", "bool"];
/// The number of elements of each input and output.
const COUNT: usize = 32;

/// A program from a list of choices. Products of floats are of small integers, and so exact: a
/// multiplication and an addition may be fused.
struct Program<'a> {
    choices: &'a [u8],
    lets: Vec<(String, &'static str, u16)>,
    names: usize,
}

impl Program<'_> {
    fn choose(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.choices.split_first() else { return 0 };
        self.choices = rest;
        usize::from(*first) % count
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.choose(from.len())]
    }

    fn vector(&self, scalar: String, lanes: u16) -> String {
        if lanes == 1 { scalar } else { format!("broadcast({scalar}, {lanes})") }
    }

    fn constant(&mut self, dtype: &str, lanes: u16) -> String {
        let number = [0, 1, 2, 3, 7, 31, 100][self.choose(7)];
        let scalar = match dtype {
            "bool" => (number % 2 == 1).to_string(),
            _ if FLOATS.contains(&dtype) => format!("{}.0{dtype}", number % 8),
            _ => format!("{number}{dtype}"),
        };
        self.vector(scalar, lanes)
    }

    fn leaf(&mut self, dtype: &'static str, lanes: u16) -> String {
        let at = self.choose(16);
        match self.choose(5) {
            0 => self.constant(dtype, lanes),
            1 => {
                let known: Vec<String> = self
                    .lets
                    .iter()
                    .filter(|(_, known, count)| *known == dtype && *count == lanes)
                    .map(|(name, ..)| name.clone())
                    .collect();
                if known.is_empty() { self.constant(dtype, lanes) } else { known[self.choose(known.len())].clone() }
            }
            _ if lanes == 1 => format!("a_{dtype}[{at}]"),
            2 => format!("(a_{dtype}[{at} : {lanes}] where a_bool[{} : {lanes}])", 15 - at),
            3 => format!("a_{dtype}[{} ; -1 : {lanes}]", 16 + at),
            _ => format!("a_{dtype}[{at} : {lanes}]"),
        }
    }

    fn expr(&mut self, dtype: &'static str, lanes: u16, depth: usize) -> String {
        if depth == 0 {
            return self.leaf(dtype, lanes);
        }
        let typed = |dtype: &str| if lanes == 1 { dtype.to_owned() } else { format!("{dtype}x{lanes}") };
        match self.choose(8) {
            1 => {
                let from = self.pick(&ALL);
                let value = self.expr(from, lanes, depth - 1);
                return format!("({value} as {})", typed(dtype));
            }
            2 => {
                let condition = self.expr("bool", lanes, depth - 1);
                let form = if lanes == 1 { self.pick(&["select", "if_then_else"]) } else { "select" };
                let (a, b) = (self.expr(dtype, lanes, depth - 1), self.expr(dtype, lanes, depth - 1));
                return format!("{form}({condition}, {a}, {b})");
            }
            3 if lanes > 1 => {
                let (a, b) = (self.expr(dtype, lanes, depth - 1), self.leaf(dtype, 1));
                let indices: Vec<String> =
                    (0..lanes).map(|_| self.choose(usize::from(lanes) + 1).to_string()).collect();
                return format!("shuffle([{a}, {b}], [{}])", indices.join(", "));
            }
            _ => {}
        }
        if dtype == "bool" {
            let of = self.pick(&ALL[..11]);
            return match self.choose(4) {
                0 => format!("!{}", self.expr(dtype, lanes, depth - 1)),
                1 => {
                    let op = self.pick(&["&&", "||"]);
                    format!("({} {op} {})", self.expr(dtype, lanes, depth - 1), self.expr(dtype, lanes, depth - 1))
                }
                _ => {
                    let op = self.pick(&["<", "<=", "==", "!=", ">", ">="]);
                    format!("({} {op} {})", self.expr(of, lanes, depth - 1), self.expr(of, lanes, depth - 1))
                }
            };
        }
        if FLOATS.contains(&dtype) {
            return self.float(dtype, lanes, depth);
        }
        let a = self.expr(dtype, lanes, depth - 1);
        match self.choose(9) {
            0..=2 => {
                let op = self.pick(&["+", "-", "*", "&", "|", "^"]);
                format!("({a} {op} {})", self.expr(dtype, lanes, depth - 1))
            }
            3 => {
                let form = self.pick(&["min", "max"]);
                format!("{form}({a}, {})", self.expr(dtype, lanes, depth - 1))
            }
            4 | 5 => {
                // No division by 0 or -1.
                let b = if self.choose(2) == 0 {
                    let number = [1, 2, 3, 8, 100][self.choose(5)];
                    self.vector(format!("{number}{dtype}"), lanes)
                } else {
                    format!("max({}, {})", self.expr(dtype, lanes, depth - 1), self.vector(format!("3{dtype}"), lanes))
                };
                match self.choose(4) {
                    0 => format!("({a} / {b})"),
                    1 => format!("({a} % {b})"),
                    2 => format!("floordiv({a}, {b})"),
                    _ => format!("floormod({a}, {b})"),
                }
            }
            6 => {
                let op = self.pick(&["<<", ">>"]);
                format!("({a} {op} {})", self.expr(dtype, lanes, depth - 1))
            }
            7 => {
                let name = self.pick(&["popcount", "bitnot", "clz", "ctz"]);
                format!("{name}::<{}>({a})", typed(dtype))
            }
            _ => {
                let from = if dtype.starts_with('u') { dtype.replace('u', "i") } else { dtype.replace('i', "u") };
                let from = INTS.iter().find(|name| **name == from).copied().unwrap_or(dtype);
                format!("reinterpret::<{}>({})", typed(dtype), self.expr(from, lanes, depth - 1))
            }
        }
    }

    fn float(&mut self, dtype: &'static str, lanes: u16, depth: usize) -> String {
        let a = self.expr(dtype, lanes, depth - 1);
        // Integers from -8 to 8.
        let small = |this: &mut Self| {
            let at = this.choose(16);
            if lanes == 1 { format!("a_{dtype}[{at}]") } else { format!("a_{dtype}[{at} : {lanes}]") }
        };
        match self.choose(8) {
            0 => format!("({a} + {})", self.expr(dtype, lanes, depth - 1)),
            1 => format!("({a} - {})", self.expr(dtype, lanes, depth - 1)),
            2 => format!("({} * {})", small(self), small(self)),
            3 => {
                let form = self.pick(&["min", "max"]);
                format!("{form}({a}, {})", self.expr(dtype, lanes, depth - 1))
            }
            4 => {
                let by = self.pick(&["2.0", "3.0", "7.0"]);
                format!("({a} / {})", self.vector(format!("{by}{dtype}"), lanes))
            }
            5 => {
                let name = self.pick(&["abs", "floor", "ceil", "trunc", "round"]);
                format!("{name}({a})")
            }
            6 => format!("sqrt(abs({a}))"),
            _ => format!("fma({}, {}, {a})", small(self), small(self)),
        }
    }

    fn statement(&mut self, out: &mut String, depth: usize, index: Option<&str>) {
        match self.choose(7) {
            1 => {
                let (dtype, lanes) = (self.pick(&ALL), [1, 4, 8][self.choose(3)]);
                let value = self.expr(dtype, lanes, 2);
                self.names += 1;
                let name = format!("x{}", self.names);
                let _ = writeln!(out, "let {name} = {value}");
                self.lets.push((name, dtype, lanes));
            }
            2 if depth > 0 => {
                let known = self.lets.len();
                self.names += 1;
                let name = format!("i{}", self.names);
                let _ = writeln!(out, "for {name} in 0..4 {{");
                self.lets.push((name.clone(), "i64", 1));
                for _ in 0..=self.choose(2) {
                    self.statement(out, depth - 1, Some(&name));
                }
                out.push_str("}\n");
                self.lets.truncate(known);
            }
            3 if depth > 0 => {
                let known = self.lets.len();
                // No arithmetic: in a guard it must not overflow.
                let condition = self.expr("bool", 1, 1);
                let _ = writeln!(out, "if {condition} {{");
                self.statement(out, depth - 1, index);
                self.lets.truncate(known);
                out.push_str("} else {\n");
                self.statement(out, depth - 1, index);
                self.lets.truncate(known);
                out.push_str("}\n");
            }
            _ => {
                let (dtype, lanes) = (self.pick(&ALL), [1, 1, 4, 8, 3, 16][self.choose(6)]);
                let value = self.expr(dtype, lanes, 3);
                let at = self.choose(16);
                let place = match index {
                    Some(index) => format!("{at} + {index} * 3"),
                    None => at.to_string(),
                };
                // Statements in loops write up to element 15 + 9 + 7.
                let lanes_fit = lanes.min(if index.is_some() { 8 } else { 16 });
                if lanes_fit != lanes || lanes == 1 {
                    let value = if lanes == 1 { value } else { self.expr(dtype, 1, 2) };
                    let _ = writeln!(out, "o_{dtype}[{place}] = {value}");
                    return;
                }
                let mask =
                    if self.choose(3) == 1 { format!(" where {}", self.expr("bool", lanes, 1)) } else { String::new() };
                let _ = writeln!(out, "o_{dtype}[{place} : {lanes}] = {value}{mask}");
            }
        }
    }

    fn text(&mut self) -> String {
        let params: Vec<String> = ALL
            .iter()
            .map(|dtype| format!("a_{dtype}: {dtype}[{COUNT}]"))
            .chain(ALL.iter().map(|dtype| format!("o_{dtype}: mut {dtype}[{COUNT}]")))
            .collect();
        let mut out = format!("func f({}) {{\n", params.join(", "));
        for _ in 0..8 {
            self.statement(&mut out, 2, None);
        }
        out.push_str("}\n");
        out
    }
}

fn dtype_of(name: &str) -> DataType {
    parse_short_name(name).expect("a type")
}

/// The values of an input: integers up to 8 for floats, any bits for integers.
fn values(name: &str) -> Block {
    let dtype = dtype_of(name);
    let mut state = 0x9e37_79b9_7f4a_7c15u64 ^ name.bytes().map(u64::from).sum::<u64>();
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let values: Vec<i64> = (0..COUNT)
        .map(|_| match next() % 4 {
            _ if dtype.is_float() => (next() % 17) as i64 - 8,
            _ if dtype.is_bool() => (next() % 2) as i64,
            0 => (next() % 17) as i64 - 8,
            1 => [i64::MAX, i64::MIN, 0, 1 << 31, 1 << 15, 127, 128, -1][(next() % 8) as usize],
            _ => (next() << 33 | next() << 5) as i64,
        })
        .collect();
    if dtype.is_float() {
        return Block::from_f64(dtype, &[COUNT as i64], &values.iter().map(|value| *value as f64).collect::<Vec<_>>());
    }
    Block::from_i64(dtype, &[COUNT as i64], &values)
}

fn to_tensor(block: &Block) -> Tensor {
    let (dtype, lanes) = (block.dtype(), block.to_lanes().expect("all elements have a value"));
    let tensor = Tensor::empty(dtype, &[COUNT as i64], Device::CPU).expect("memory");
    let size = dtype.lane_bytes();
    let data = tensor.dl_tensor().data.cast::<u8>();
    for (position, bits) in lanes.iter().enumerate() {
        // SAFETY: the tensor is new, compact and has `COUNT` elements of this size.
        unsafe { core::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), data.add(position * size), size) };
    }
    tensor
}

fn to_lanes(tensor: &Tensor, dtype: DataType) -> Vec<u64> {
    let size = dtype.lane_bytes();
    let data = tensor.dl_tensor().data.cast::<u8>();
    let read = |position: usize| {
        let mut bytes = [0; 8];
        // SAFETY: as in `to_tensor`; the function that wrote it has returned.
        unsafe { core::ptr::copy_nonoverlapping(data.add(position * size), bytes.as_mut_ptr(), size) };
        u64::from_le_bytes(bytes)
    };
    (0..COUNT).map(read).collect()
}

fn is_nan(dtype: DataType, bits: u64) -> bool {
    let block = Block::from_lanes(dtype, &[1], &[bits]);
    dtype.is_float() && block.to_f64().is_ok_and(|values| values[0].is_nan())
}

/// Runs a program both ways; returns the first difference.
fn difference(source: &str, target: &Target) -> Result<Option<String>, String> {
    let func = text::parse_func(source).map_err(|error| format!("{error}"))?;
    let inputs: Vec<Block> = ALL.iter().map(|name| values(name)).collect();
    let outputs: Vec<Block> =
        ALL.iter().map(|name| Block::from_i64(dtype_of(name), &[COUNT as i64], &[0; COUNT])).collect();
    let tensors: Vec<Tensor> = inputs.iter().chain(&outputs).map(to_tensor).collect();
    let args: Vec<Arg> = inputs.iter().chain(&outputs).map(Arg::from).collect();
    let machine = Machine::new(&func).map_err(|error| error.to_string())?;
    machine.run("f", &args).map_err(|error| error.to_string())?;
    if let Ok(path) = std::env::var("KERNPACK_KEEP") {
        std::fs::write(path, source).map_err(|error| error.to_string())?;
    }
    let module = build(&func, target).map_err(|error| format!("{error}"))?;
    let compiled = module.function("f").map_err(|error| error.to_string())?;
    let values: Vec<kernpack::Any> = tensors.iter().map(|tensor| kernpack::Any::from(tensor.clone())).collect();
    let views: Vec<kernpack::AnyView<'_>> = values.iter().map(|value| *value.as_view()).collect();
    compiled.call(&views[..]).map_err(|error| error.to_string())?;
    for ((name, block), tensor) in ALL.iter().zip(&outputs).zip(&tensors[ALL.len()..]) {
        let dtype = dtype_of(name);
        let mask = if dtype.bits() == 64 { u64::MAX } else { (1 << dtype.bits()) - 1 };
        let (expected, found) = (block.to_lanes().expect("all were given"), to_lanes(tensor, dtype));
        for (position, (expected, found)) in expected.iter().zip(&found).enumerate() {
            if expected & mask != *found && !(is_nan(dtype, *expected) && is_nan(dtype, *found)) {
                let show = |bits: u64| Block::from_lanes(dtype, &[1], &[bits]).to_f64().map_or(f64::NAN, |all| all[0]);
                return Ok(Some(format!(
                    "o_{name}[{position}]: the interpreter has {} ({:#x}), compiled code {} ({found:#x})",
                    show(expected & mask),
                    expected & mask,
                    show(*found)
                )));
            }
        }
    }
    Ok(None)
}

#[test]
fn compiled_code_computes_what_the_interpreter_computes() {
    let cases = std::env::var("KERNPACK_PROGRAMS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let seed = std::env::var("KERNPACK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(3u8);
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]));
    let baseline = Target::llvm(&Target::host().triple, "", "");
    let result = runner.run(&vec(any::<u8>(), 50..400), |choices| {
        let source = Program { choices: &choices, lets: Vec::new(), names: 0 }.text();
        for target in [Target::host(), baseline.clone()] {
            match difference(&source, &target) {
                Ok(None) => {}
                Ok(Some(difference)) => return Err(TestCaseError::fail(format!("{difference} in\n{source}"))),
                Err(error) => return Err(TestCaseError::fail(format!("{error} in\n{source}"))),
            }
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn shifts_by_a_constant_zero() {
    let source = "func f(a: u32[8], o: mut u32[8]) {\n  o[0 : 4] = a[3 : 4] >> broadcast(0u32, 4)\n}";
    build(&text::parse_func(source).unwrap(), &Target::host()).unwrap();
}

#[test]
#[ignore = "for one program: KERNPACK_PROGRAM=path"]
fn one_program() {
    let source = std::fs::read_to_string(std::env::var("KERNPACK_PROGRAM").unwrap()).unwrap();
    for target in [Target::host(), Target::llvm(&Target::host().triple, "", "")] {
        println!("{}: {:?}", target.cpu, difference(&source, &target));
    }
}
