//! Our half of `cargo xtask bench modules`. See ../../README.md for its tasks and output.

use kernpack::module::{ModuleImpl, ModuleProperties};
use kernpack::{Bytes, Error, Function, Module, Result, packed_func};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes of a module of the tree that is serialized, the same as for Apache TVM's modules of this
/// kind.
const SIZE: usize = 58;

/// A module that consists of its bytes.
struct Kept {
    kind: &'static str,
    bytes: Bytes,
}

impl ModuleImpl for Kept {
    fn kind(&self) -> &str {
        self.kind
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE
    }

    fn find_function(&self, _name: &str) -> Result<Option<Function>> {
        Ok(None)
    }

    fn save_to_bytes(&self) -> Result<Bytes> {
        Ok(self.bytes.clone())
    }
}

/// Restores a module of the kind of the benchmark.
#[packed_func(name = "ffi.Module.load_from_bytes.bench_kept")]
fn load_kept(bytes: Bytes) -> Module {
    Module::new(Kept { kind: "bench_kept", bytes })
}

fn print(what: &str, time: Duration, count: usize) {
    println!("{what}\t{}", time.as_nanos() as f64 / count as f64);
}

/// Loads a library, then looks up its functions, twice.
fn load(path: &str, functions: usize) -> Result<()> {
    // Any program has called this before it loads its second library.
    Function::global("ffi.ModuleLoadFromFile")?;
    let start = Instant::now();
    let module = Module::load(path)?;
    print("load", start.elapsed(), 1);
    if functions == 0 {
        return Ok(());
    }
    let names: Vec<String> = (0..functions).map(|number| format!("function_{number}")).collect();
    let look = || -> Result<Duration> {
        let start = Instant::now();
        for name in &names {
            let function = module.find_function(black_box(name))?;
            black_box(function).ok_or_else(|| Error::runtime_error("a function is missing"))?;
        }
        Ok(start.elapsed())
    };
    print("first", look()?, functions);
    look()?;
    print("later", look()?, functions);
    let last = module.function(&names[functions - 1])?;
    assert_eq!(last.call_as::<i64>(())?, functions as i64 - 1, "the last function returns its number");
    Ok(())
}

/// Builds the tree of modules that a file describes (line `i` lists the imports of module `i`), and
/// serializes it.
fn serialize(file: &str, times: usize) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    let new =
        |number: usize| Module::new(Kept { kind: "const_loader", bytes: Bytes::from(vec![number as u8 | 1; SIZE]) });
    let modules: Vec<Module> = (0..text.lines().count()).map(new).collect();
    for (parent, line) in modules.iter().zip(text.lines()) {
        for child in line.split_whitespace() {
            parent.import(&modules[child.parse::<usize>().expect("the number of a module")])?;
        }
    }
    println!("bytes\t{}", modules[0].serialize()?.len());
    for _ in 0..times {
        let start = Instant::now();
        let blob = black_box(modules[0].serialize()?);
        print("serialize", start.elapsed(), 1);
        drop(blob);
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", path, functions] => load(path, functions.parse().expect("a number of functions")),
        ["serialize", file, times] => serialize(file, times.parse().expect("how often")),
        _ => Err(Error::value_error("expected: load PATH FUNCTIONS, or serialize FILE TIMES")),
    }
}
