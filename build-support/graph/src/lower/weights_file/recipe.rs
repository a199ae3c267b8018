//! The options with which a library has compiled a model, as text in the library: from another file
//! with the same graph, they make the same code, and weights for it.
//!
//! A line for each option: its name, and fields after spaces. Other characters than letters, digits
//! and `_.,-+` are `%` and two hexadecimal digits.

use core::fmt::Write as _;

use super::Digest;
use crate::constant::Constant;
use crate::error::{Result, fail};
use crate::graph::RangeDim;
use crate::lower::{LowerOptions, Threads};
use crate::options::ModelOptions;

/// A CPU level of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeLevel {
    /// Its name, for messages.
    pub name: String,
    /// The symbol of the variable with the address of the weights.
    pub symbol: String,
    /// LLVM's target triple.
    pub triple: String,
    /// LLVM's name of the CPU.
    pub cpu: String,
    /// LLVM's features of the CPU.
    pub features: String,
    /// The digest of the program.
    pub program: Digest,
}

/// The options of a model in a library.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// The version of the compiler.
    pub version: String,
    /// The name of the function.
    pub name: String,
    /// The CPU levels.
    pub levels: Vec<RecipeLevel>,
    /// The options of the model, except its own operators.
    pub options: ModelOptions,
    /// The names of its own operators, which a text cannot contain.
    pub operators: Vec<String>,
    /// The options of lowering.
    pub lowering: LowerOptions,
}

const THREADS: [(&str, Threads); 3] =
    [("kernels", Threads::Kernels), ("region", Threads::Region), ("single", Threads::Single)];

/// The version of this compiler.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Recipe {
    /// Describes a model that this compiler has lowered.
    pub fn new(name: &str, options: &ModelOptions, lowering: LowerOptions, levels: Vec<RecipeLevel>) -> Self {
        let operators = options.operators.iter().map(|operator| operator.full_name().to_owned()).collect();
        let options = ModelOptions { operators: Vec::new(), dump: false, ..options.clone() };
        Self { version: VERSION.to_owned(), name: name.to_owned(), levels, options, operators, lowering }
    }

    /// Formats the options.
    pub fn to_text(&self) -> String {
        let mut out = Text(String::new());
        let Self { version, name, levels, options, operators, lowering } = self;
        out.line("version", &[version]);
        out.line("name", &[name]);
        for RecipeLevel { name, symbol, triple, cpu, features, program } in levels {
            out.line("level", &[name, symbol, triple, cpu, features, &program.to_string()]);
        }
        // A new option has to be written here, and read below.
        let ModelOptions {
            dims,
            up_to,
            dims_in,
            ranges,
            sums,
            inputs,
            constants,
            sequences,
            bounds,
            absent,
            weights,
            outputs,
            allow_nan,
            operators: _,
            plain,
            for_any_extents: _,
            dump: _,
        } = options;
        for (key, map) in [("dim", dims), ("up_to", up_to), ("bound", bounds)] {
            map.iter().for_each(|(name, number)| out.line(key, &[name, &number.to_string()]));
        }
        for (key, map) in [("dim_in", dims_in), ("input", inputs)] {
            map.iter().for_each(|(name, numbers)| out.line(key, &[name, &list(numbers)]));
        }
        for RangeDim { name, least, most, step } in ranges {
            out.line("range", &[name, &least.to_string(), &most.to_string(), &step.to_string()]);
        }
        sums.iter().for_each(|(name, sum)| out.line("sum", &[name, sum]));
        for (name, constant) in constants {
            let mut bytes = String::with_capacity(constant.bytes().len() * 2);
            constant.bytes().iter().for_each(|byte| _ = write!(bytes, "{byte:02x}"));
            out.line("constant", &[name, &constant.dtype().to_string(), &list(constant.shape()), &bytes]);
        }
        for (name, shapes) in sequences {
            let shapes: Vec<String> = shapes.iter().map(|shape| list(shape)).collect();
            let fields: Vec<&str> = [name.as_str()].into_iter().chain(shapes.iter().map(String::as_str)).collect();
            out.line("sequence", &fields);
        }
        absent.iter().for_each(|name| out.line("absent", &[name]));
        outputs.iter().for_each(|name| out.line("output", &[name]));
        if let Some(dtype) = weights {
            out.line("store", &[&dtype.to_string()]);
        }
        for (key, is_set) in [("allow_nan", *allow_nan), ("plain", *plain)] {
            if is_set {
                out.line(key, &[]);
            }
        }
        operators.iter().for_each(|name| out.line("operator", &[name]));
        let LowerOptions { fuse, schedule, threads } = lowering;
        let threads = THREADS.iter().find(|(_, known)| known == threads).map_or("", |(name, _)| name);
        out.line("lowering", &[&fuse.to_string(), &schedule.to_string(), threads]);
        out.0
    }

    /// Parses the options.
    ///
    /// # Errors
    /// Returns an error for a text that another version may have written.
    pub fn parse(text: &str) -> Result<Self> {
        let mut recipe = Self::default();
        for line in text.lines() {
            if recipe.read(line).is_none() {
                let key = line.split(' ').next().unwrap_or_default();
                fail!("the library was built with an option that this version ({VERSION}) does not know: `{key}`");
            }
        }
        Ok(recipe)
    }

    /// Reads a line. Returns `None` if it is not known.
    fn read(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let key = words.next()?;
        let fields: Vec<String> = words.map(plain_text).collect::<Option<_>>()?;
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let options = &mut self.options;
        match (key, fields.as_slice()) {
            ("version", [version]) => (*version).clone_into(&mut self.version),
            ("name", [name]) => (*name).clone_into(&mut self.name),
            ("level", [name, symbol, triple, cpu, features, program]) => {
                let program = Digest::from_number(u128::from_str_radix(program, 16).ok()?);
                let [name, symbol, triple, cpu, features] =
                    [name, symbol, triple, cpu, features].map(|text| text.to_string());
                self.levels.push(RecipeLevel { name, symbol, triple, cpu, features, program });
            }
            ("dim", [name, number]) => _ = options.dims.insert((*name).to_owned(), number.parse().ok()?),
            ("up_to", [name, number]) => _ = options.up_to.insert((*name).to_owned(), number.parse().ok()?),
            ("bound", [name, number]) => _ = options.bounds.insert((*name).to_owned(), number.parse().ok()?),
            ("dim_in", [name, numbers]) => _ = options.dims_in.insert((*name).to_owned(), numbers_of(numbers)?),
            ("range", [name, least, most, step]) => {
                let [least, most, step] = [least, most, step].map(|number| number.parse().ok());
                options.ranges.push(RangeDim { name: (*name).to_owned(), least: least?, most: most?, step: step? });
            }
            ("sum", [name, sum]) => _ = options.sums.insert((*name).to_owned(), (*sum).to_owned()),
            ("input", [name, numbers]) => _ = options.inputs.insert((*name).to_owned(), numbers_of(numbers)?),
            ("constant", [name, dtype, shape, bytes]) => {
                let digits = bytes.as_bytes().chunks(2);
                let byte = |digits: &[u8]| u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok();
                let bytes: Vec<u8> = digits.map(byte).collect::<Option<_>>()?;
                let constant = Constant::new(dtype.parse().ok()?, &numbers_of(shape)?, bytes).ok()?;
                options.constants.insert((*name).to_owned(), constant);
            }
            ("sequence", [name, shapes @ ..]) => {
                let shapes = shapes.iter().map(|shape| numbers_of(shape)).collect::<Option<_>>()?;
                options.sequences.insert((*name).to_owned(), shapes);
            }
            ("absent", [name]) => _ = options.absent.insert((*name).to_owned()),
            ("output", [name]) => options.outputs.push((*name).to_owned()),
            ("store", [dtype]) => options.weights = Some(dtype.parse().ok()?),
            ("allow_nan", []) => options.allow_nan = true,
            ("plain", []) => options.plain = true,
            ("operator", [name]) => self.operators.push((*name).to_owned()),
            ("lowering", [fuse, schedule, threads]) => {
                let threads = THREADS.iter().find(|(name, _)| name == threads)?.1;
                self.lowering = LowerOptions { fuse: fuse.parse().ok()?, schedule: schedule.parse().ok()?, threads };
            }
            _ => return None,
        }
        Some(())
    }
}

/// `2,3`; `-` for no numbers.
fn list(numbers: &[i64]) -> String {
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    if texts.is_empty() { "-".to_owned() } else { texts.join(",") }
}

fn numbers_of(text: &str) -> Option<Vec<i64>> {
    if text == "-" {
        return Some(Vec::new());
    }
    text.split(',').map(|number| number.parse().ok()).collect()
}

/// Lines of fields.
struct Text(String);

impl Text {
    fn line(&mut self, key: &str, fields: &[&str]) {
        self.0.push_str(key);
        for field in fields {
            self.0.push(' ');
            for byte in field.bytes() {
                if byte.is_ascii_alphanumeric() || b"_.,-+".contains(&byte) {
                    self.0.push(char::from(byte));
                } else {
                    let _ = write!(self.0, "%{byte:02x}");
                }
            }
        }
        self.0.push('\n');
    }
}

/// Returns the text of a field.
fn plain_text(field: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, others) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = others;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use kernpack_compiler::ir::F16;

    use super::*;

    #[test]
    fn options_survive_as_text() {
        let name = || "a b\n%é".to_owned();
        let mut options = ModelOptions::default();
        options.dims.insert(name(), 3);
        options.up_to.insert("batch".into(), 64);
        options.dims_in.insert("words".into(), vec![32, 64]);
        options.ranges = vec![RangeDim { name: "height".into(), least: 32, most: 2048, step: 32 }];
        options.sums.insert("all".into(), "words + 1".into());
        options.inputs.insert("x".into(), vec![1, 3]);
        options.inputs.insert("scalar".into(), Vec::new());
        options.constants.insert("axes".into(), Constant::of_ints(&[-1, 2]));
        options.constants.insert("none".into(), Constant::of_floats(&[]));
        options.sequences.insert("xs".into(), vec![vec![2, 3], Vec::new()]);
        options.bounds.insert("loop".into(), 512);
        options.absent.insert("mask".into());
        options.outputs = vec!["b".into(), "a".into()];
        options.weights = Some(F16);
        (options.allow_nan, options.plain) = (true, true);
        let lowering = LowerOptions { fuse: false, schedule: true, threads: Threads::Region };
        let level = RecipeLevel {
            name: "x86-64-v3".into(),
            symbol: "__kernpack_weights_of_net.x86_64_v3".into(),
            triple: "x86_64-unknown-linux-gnu".into(),
            cpu: "x86-64-v3".into(),
            features: String::new(),
            program: Digest::from_number(7),
        };
        let recipe = Recipe::new("net", &options, lowering, vec![level]);
        let text = recipe.to_text();
        let parsed = Recipe::parse(&text).unwrap();
        assert_eq!(format!("{parsed:?}"), format!("{recipe:?}"));
        assert_eq!(parsed.to_text(), text);
        let unknown = Recipe::parse(&format!("{text}dim_range batch 1 64\n")).unwrap_err().to_string();
        assert!(unknown.contains("does not know: `dim_range`"), "{unknown}");
        for bad in ["dim batch", "dim batch x", "constant a float32 2 00", "level a", "store x9"] {
            Recipe::parse(bad).unwrap_err();
        }
    }
}
