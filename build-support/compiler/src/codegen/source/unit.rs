//! One file: its declarations so far, and the helper functions that its code needs.

use std::collections::HashMap;

use kernpack::DataType;

use super::names::Names;
use super::vocabulary::{Vectors, Vocabulary, is_half, is_native, lane_bits};
use crate::codegen::RuntimeSymbols;
use crate::error::{Result, require};
use crate::ir::DataTypeExt;

/// The lanes of vectors that are built in.
const LANES: [u16; 5] = [2, 3, 4, 8, 16];

/// The parts of the file, in their order.
pub(crate) struct Unit {
    pub(crate) words: &'static Vocabulary,
    /// Names at file scope.
    pub(crate) names: Names,
    /// Types, helper functions and prototypes by name, so that each is declared once, with their
    /// text.
    pub(crate) declared: HashMap<String, String>,
    /// The text of types and helper functions.
    prelude: String,
    /// True if the code uses double precision.
    has_double: bool,
    /// The declarations of functions that are defined elsewhere.
    pub(crate) prototypes: String,
    /// The text of functions or kernels.
    pub(crate) functions: String,
    /// The way in which code accesses the runtime.
    pub(crate) symbols: RuntimeSymbols,
    /// The symbols of the functions of the module, by name.
    pub(crate) callees: HashMap<String, String>,
}

impl Unit {
    pub(crate) fn new(words: &'static Vocabulary) -> Self {
        Self {
            words,
            names: Names::new(words),
            declared: HashMap::new(),
            prelude: String::new(),
            has_double: false,
            prototypes: String::new(),
            functions: String::new(),
            symbols: RuntimeSymbols::Direct,
            callees: HashMap::new(),
        }
    }

    /// Returns the text of the file.
    pub(crate) fn finish(self) -> String {
        let double = if self.has_double { self.words.double } else { "" };
        let head = format!("{}{double}{}", self.words.preamble, self.prelude);
        let blank = if head.is_empty() { "" } else { "\n" };
        let gap = if self.words.is_host { "\n" } else { "" };
        format!("{head}{blank}{}{gap}{}", self.prototypes, self.functions)
    }

    fn declare(&mut self, name: &str, text: impl FnOnce() -> String) {
        if !self.has(name) {
            let text = text();
            self.prelude.push_str(&text);
            self.declared.insert(name.to_owned(), text);
        }
    }

    /// Returns true if a helper is already declared: its parts need not be generated.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.declared.contains_key(name)
    }

    /// Adds a helper function with the parameters `a`, `b`, `c`, ..
    pub(crate) fn function(&mut self, name: &str, ret: &str, params: &[&str], body: &str) {
        let helper = self.words.helper;
        self.declare(name, || {
            let params: Vec<String> = params.iter().zip('a'..).map(|(ty, letter)| format!("{ty} {letter}")).collect();
            format!("{helper}{ret} {name}({}) {{\n  {body}\n}}\n", params.join(", "))
        });
    }

    /// A call of a math function in the precision of a type. The file of C declares it itself,
    /// because only `kernel.h` is included; other declarations with this symbol are ignored.
    pub(crate) fn math(&mut self, name: &str, dtype: DataType, args: &[&str]) -> String {
        let symbol = self.words.math(name, dtype);
        if self.words.is_host && !self.has(&symbol) {
            let ty = if dtype.bits() == 64 { "double" } else { "float" };
            self.names.reserve(&symbol);
            self.declare(&symbol, || format!("{ty} {symbol}({});\n", vec![ty; args.len()].join(", ")));
        }
        format!("{symbol}({})", args.join(", "))
    }

    /// Checks that the language has values of a type.
    pub(crate) fn check(&mut self, dtype: DataType) -> Result<()> {
        let lanes = dtype.lanes();
        let known = match (dtype.is_integer(), dtype.is_float()) {
            (true, _) => matches!(dtype.bits(), 8 | 16 | 32 | 64),
            (_, true) => matches!((dtype.is_bfloat(), dtype.bits()), (true, 16) | (false, 16 | 32 | 64)),
            _ => dtype.is_bool() || self.words.is_host && dtype.is_handle() && lanes <= 1,
        };
        require!(known, Target, "{} has no values of type {}", self.words.name, dtype.short_name());
        require!(
            lanes <= 1 || !self.words.has_vectors() || LANES.contains(&lanes),
            Target,
            "{} has no vectors of {lanes} lanes ({}), only of 2, 3, 4, 8 and 16: split the vectorized loop by one of these",
            self.words.name,
            dtype.short_name()
        );
        self.has_double |= dtype.is_float() && dtype.bits() == 64;
        Ok(())
    }

    /// The type of a value.
    pub(crate) fn value_type(&mut self, dtype: DataType) -> Result<String> {
        self.check(dtype)?;
        let (lanes, lane) = (dtype.lanes(), self.words.lane(dtype));
        if lanes <= 1 {
            return Ok(self.words.scalar(dtype).to_owned());
        }
        let name = match self.words.vectors {
            Vectors::BuiltIn => return Ok(format!("{lane}{lanes}")),
            _ => format!("kp_{}", dtype.short_name()),
        };
        let extension = self.words.vectors == Vectors::Extension;
        self.declare(&name, || {
            if !extension {
                return format!("struct {name} {{ {lane} v[{lanes}]; }};\n");
            }
            let plain = format!("typedef struct {{ {lane} v[{lanes}]; }} {name};\n");
            if !is_native(dtype) {
                return plain;
            }
            let bytes = u32::from(lanes) * u32::from(lane_bits(dtype)) / 8;
            format!(
                "#if KP_VECTORS\ntypedef {lane} {name} __attribute__((vector_size({bytes})));\n#else\n{plain}#endif\n"
            )
        });
        Ok(name)
    }

    /// The type of an element in memory. In C, it may alias memory of another type.
    pub(crate) fn memory_type(&mut self, dtype: DataType) -> Result<String> {
        self.check(dtype.element())?;
        let stored = self.words.stored(dtype);
        if !self.words.is_host {
            return Ok(stored.to_owned());
        }
        let name = format!("kp_{}", dtype.element().short_name());
        self.declare(&name, || format!("typedef {stored} KP_MAY_ALIAS {name};\n"));
        Ok(name)
    }

    /// A vector of lanes, in a language with vectors or structures.
    pub(crate) fn vector(&mut self, dtype: DataType, lanes: &[String]) -> Result<String> {
        let ty = self.value_type(dtype)?;
        let truth = self.words.lane(dtype);
        let lanes: Vec<String> = match dtype.is_bool() {
            true => lanes.iter().map(|lane| format!("({truth})(({lane}) ? -1 : 0)")).collect(),
            false => lanes.to_vec(),
        };
        let lanes = lanes.join(", ");
        Ok(if self.words.has_vectors() { format!("(({ty})({lanes}))") } else { format!("{ty}{{{{{lanes}}}}}") })
    }

    /// The place of a lane of a vector that is not built in; `index` may be a variable.
    pub(crate) fn at(&self, dtype: DataType, vector: &str, index: &str) -> String {
        match self.words.vectors == Vectors::Extension && is_native(dtype) {
            true => format!("KP_AT({vector}, {index})"),
            false => format!("{vector}.v[{index}]"),
        }
    }

    /// A lane of a vector, as a scalar; of a scalar, itself.
    pub(crate) fn lane(&self, dtype: DataType, vector: &str, lane: usize) -> String {
        if self.words.has_vectors() && dtype.lanes() > 1 {
            let text = format!("{vector}.s{lane:x}");
            return if dtype.is_bool() { format!("({text} != 0)") } else { text };
        }
        self.lane_at(dtype, vector, &lane.to_string())
    }

    /// [`Self::lane`] at an index that may be a variable.
    pub(crate) fn lane_at(&self, dtype: DataType, vector: &str, index: &str) -> String {
        match () {
            () if dtype.lanes() <= 1 => vector.to_owned(),
            () if dtype.is_bool() => format!("({} != 0)", self.at(dtype, vector, index)),
            () => self.at(dtype, vector, index),
        }
    }

    /// Returns true if the operators of the language apply to values of a type as they do to
    /// scalars.
    pub(crate) fn has_operators(&self, dtype: DataType) -> bool {
        self.words.has_vectors() && !is_half(dtype) && !dtype.is_bool()
    }
}
