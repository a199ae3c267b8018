//! One file: the helper functions that its code needs.

use std::collections::HashSet;

use kernpack::DataType;

use super::names::Names;
use super::vocabulary::{Vocabulary, is_half};
use crate::error::{Result, require};
use crate::ir::DataTypeExt;

/// The lanes of vectors that are built in.
const LANES: [u16; 5] = [2, 3, 4, 8, 16];

/// The parts of the file, in their order.
pub(super) struct Unit {
    pub(super) words: &'static Vocabulary,
    /// Names at file scope.
    pub(super) names: Names,
    /// Types and helper functions that are defined.
    declared: HashSet<String>,
    /// The text of types and helper functions.
    prelude: String,
    /// True if the code uses double precision.
    has_double: bool,
    /// The text of the kernels.
    pub(super) kernels: String,
}

impl Unit {
    pub(super) fn new(words: &'static Vocabulary) -> Self {
        Self {
            words,
            names: Names::new(words),
            declared: HashSet::new(),
            prelude: String::new(),
            has_double: false,
            kernels: String::new(),
        }
    }

    /// Returns the text of the file.
    pub(super) fn finish(self) -> String {
        let double = if self.has_double { self.words.double } else { "" };
        let head = format!("{}{double}{}", self.words.preamble, self.prelude);
        let blank = if head.is_empty() { "" } else { "\n" };
        format!("{head}{blank}{}", self.kernels)
    }

    /// Returns true if a helper is already defined: its parts need not be generated.
    pub(super) fn has(&self, name: &str) -> bool {
        self.declared.contains(name)
    }

    /// Adds a helper function with the parameters `a`, `b`, `c`, ..
    pub(super) fn function(&mut self, name: &str, ret: &str, params: &[&str], body: &str) {
        if self.declared.insert(name.to_owned()) {
            let params: Vec<String> = params.iter().zip('a'..).map(|(ty, letter)| format!("{ty} {letter}")).collect();
            let helper = self.words.helper;
            self.prelude.push_str(&format!("{helper}{ret} {name}({}) {{\n  {body}\n}}\n", params.join(", ")));
        }
    }

    /// Checks that the language has values of a type.
    pub(super) fn check(&mut self, dtype: DataType) -> Result<()> {
        let known = match (dtype.is_integer(), dtype.is_float()) {
            (true, _) => matches!(dtype.bits(), 8 | 16 | 32 | 64),
            (_, true) => matches!((dtype.is_bfloat(), dtype.bits()), (true, 16) | (false, 16 | 32 | 64)),
            _ => dtype.is_bool(),
        };
        require!(known, Target, "{} has no values of type {}", self.words.name, dtype.short_name());
        let lanes = dtype.lanes();
        require!(
            lanes <= 1 || !self.words.has_vectors || LANES.contains(&lanes),
            Target,
            "{} has no vectors of {lanes} lanes ({}), only of 2, 3, 4, 8 and 16: split the vectorized loop by one of these",
            self.words.name,
            dtype.short_name()
        );
        self.has_double |= dtype.is_float() && dtype.bits() == 64;
        Ok(())
    }

    /// The type of a value.
    pub(super) fn value_type(&mut self, dtype: DataType) -> Result<String> {
        self.check(dtype)?;
        let lanes = dtype.lanes();
        if lanes <= 1 {
            return Ok(self.words.scalar(dtype).to_owned());
        }
        let lane = self.words.lane(dtype);
        if self.words.has_vectors {
            return Ok(format!("{lane}{lanes}"));
        }
        let name = format!("kp_{}", dtype.short_name());
        if self.declared.insert(name.clone()) {
            self.prelude.push_str(&format!("struct {name} {{ {lane} v[{lanes}]; }};\n"));
        }
        Ok(name)
    }

    /// The type of an element in memory.
    pub(super) fn memory_type(&mut self, dtype: DataType) -> Result<&'static str> {
        self.check(dtype.element())?;
        Ok(self.words.stored(dtype))
    }

    /// A vector of lanes.
    pub(super) fn vector(&mut self, dtype: DataType, lanes: &[String]) -> Result<String> {
        let ty = self.value_type(dtype)?;
        let truth = self.words.lane(dtype);
        let lanes: Vec<String> = match dtype.is_bool() {
            true => lanes.iter().map(|lane| format!("({truth})(({lane}) ? -1 : 0)")).collect(),
            false => lanes.to_vec(),
        };
        let lanes = lanes.join(", ");
        Ok(if self.words.has_vectors { format!("(({ty})({lanes}))") } else { format!("{ty}{{{{{lanes}}}}}") })
    }

    /// A lane of a vector, as a scalar; of a scalar, itself.
    pub(super) fn lane(&self, dtype: DataType, vector: &str, lane: usize) -> String {
        if dtype.lanes() <= 1 {
            return vector.to_owned();
        }
        let text = if self.words.has_vectors { format!("{vector}.s{lane:x}") } else { format!("{vector}.v[{lane}]") };
        if dtype.is_bool() { format!("({text} != 0)") } else { text }
    }

    /// Returns true if the operators of the language apply to values of a type as they do to
    /// scalars.
    pub(super) fn has_operators(&self, dtype: DataType) -> bool {
        self.words.has_vectors && !is_half(dtype) && !dtype.is_bool()
    }
}
