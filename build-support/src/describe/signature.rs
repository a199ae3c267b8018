//! The signature of a kernel: names and types, from a declaration or from the text of the source.
//!
//! A declaration is a line `kernpack: blur(src: Tensor[float32], dst: mut Tensor[float32], radius:
//! int) -> None` in the comment before a kernel, or `.signature("blur", "(src: ...)")` in build.rs.
//! Types have the same names as in messages and in Python.

use crate::{Error, Result};

/// A kernel's parameters and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) params: Vec<Param>,
    pub(crate) result: Type,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    /// The name in the source, in any language. Empty if there is none.
    pub(crate) name: String,
    pub(crate) ty: Type,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// An integer. The default is 64 bits.
    Int {
        bits: u8,
        signed: bool,
    },
    Float {
        bits: u8,
    },
    Bool,
    Str,
    Bytes,
    /// The type of its elements, if it is known, and whether the kernel writes to it.
    Tensor {
        element: Option<&'static str>,
        written: bool,
    },
    Device,
    Dtype,
    Function,
    Any,
    None,
}

/// Names of element types, as `DataType` shows them.
pub(crate) const ELEMENTS: [&str; 13] = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "bfloat16", "bool",
];

/// The types in declarations, for messages.
const TYPES: &str = "int, int8 to int64, uint8 to uint64, float, float16 to float64, bool, str, bytes, Tensor, Tensor[float32] (or another \
                     type of elements), mut Tensor[..] (one that the kernel writes to), Device, DataType, Function, Any, and for \
                     a result None";

impl Type {
    fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let unknown = || Error::new(format!("`{text}` is not a type of a declaration; these are: {TYPES}"));
        let (written, rest) = match text.strip_prefix("mut ") {
            Some(rest) => (true, rest.trim()),
            None => (false, text),
        };
        if rest == "Tensor" {
            return Ok(Self::Tensor { element: None, written });
        }
        if let Some(inner) = rest.strip_prefix("Tensor[").and_then(|inner| inner.strip_suffix(']')) {
            let element = ELEMENTS.into_iter().find(|name| *name == inner.trim()).ok_or_else(|| {
                Error::new(format!("`{}` is not a type of elements; these are: {}", inner.trim(), ELEMENTS.join(", ")))
            })?;
            return Ok(Self::Tensor { element: Some(element), written });
        }
        if written {
            return Err(unknown());
        }
        Ok(match text {
            "int" => Self::Int { bits: 64, signed: true },
            "float" => Self::Float { bits: 64 },
            "bool" => Self::Bool,
            "str" => Self::Str,
            "bytes" => Self::Bytes,
            "Device" => Self::Device,
            "DataType" => Self::Dtype,
            "Function" => Self::Function,
            "Any" => Self::Any,
            "None" => Self::None,
            _ => {
                let bits = |prefix: &str, sizes: &[u8]| {
                    let bits = text.strip_prefix(prefix)?.parse::<u8>().ok()?;
                    sizes.contains(&bits).then_some(bits)
                };
                if let Some(bits) = bits("int", &[8, 16, 32, 64]) {
                    Self::Int { bits, signed: true }
                } else if let Some(bits) = bits("uint", &[8, 16, 32, 64]) {
                    Self::Int { bits, signed: false }
                } else if let Some(bits) = bits("float", &[16, 32, 64]) {
                    Self::Float { bits }
                } else {
                    return Err(unknown());
                }
            }
        })
    }

    /// The name in declarations and documentation.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Int { bits, signed: true } => format!("int{bits}"),
            Self::Int { bits, signed: false } => format!("uint{bits}"),
            Self::Float { bits } => format!("float{bits}"),
            Self::Bool => "bool".to_owned(),
            Self::Str => "str".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Tensor { element, .. } => element.map_or("Tensor".to_owned(), |element| format!("Tensor[{element}]")),
            Self::Device => "Device".to_owned(),
            Self::Dtype => "DataType".to_owned(),
            Self::Function => "Function".to_owned(),
            Self::Any => "Any".to_owned(),
            Self::None => "None".to_owned(),
        }
    }

    /// The key in the ABI's type schema.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Int { .. } => "int",
            Self::Float { .. } => "float",
            Self::Bool => "bool",
            Self::Str => "ffi.String",
            Self::Bytes => "ffi.Bytes",
            Self::Tensor { .. } => "ffi.Tensor",
            Self::Device => "Device",
            Self::Dtype => "DataType",
            Self::Function => "ffi.Function",
            Self::Any => "Any",
            Self::None => "None",
        }
    }

    /// The Rust type of a parameter, or of a result.
    pub(crate) fn rust(&self, is_result: bool) -> &'static str {
        match (self, is_result) {
            (Self::Int { bits, signed }, _) => match (bits, signed) {
                (8, true) => "i8",
                (16, true) => "i16",
                (32, true) => "i32",
                (_, true) => "i64",
                (8, false) => "u8",
                (16, false) => "u16",
                (32, false) => "u32",
                (_, false) => "u64",
            },
            (Self::Float { bits: 64 }, _) => "f64",
            (Self::Float { .. }, _) => "f32",
            (Self::Bool, _) => "bool",
            (Self::Str, false) => "&str",
            (Self::Str, true) => "String",
            (Self::Bytes, false) => "&[u8]",
            (Self::Bytes, true) => "Bytes",
            (Self::Tensor { .. }, false) => "&Tensor",
            (Self::Tensor { .. }, true) => "Tensor",
            (Self::Device, _) => "Device",
            (Self::Dtype, _) => "DataType",
            (Self::Function, false) => "&Function",
            (Self::Function, true) => "Function",
            (Self::Any, false) => "&Any",
            (Self::Any, true) => "Any",
            (Self::None, _) => "()",
        }
    }
}

impl Signature {
    /// Parses `(a: int, b: Tensor[float32]) -> None`. The result may be omitted.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let form = || {
            Error::new(format!("`{text}` is not a declaration, such as `(src: Tensor[float32], radius: int) -> None`"))
        };
        let (params, result) = text.strip_prefix('(').and_then(|rest| rest.rsplit_once(')')).ok_or_else(form)?;
        let result = match result.trim() {
            "" => Type::None,
            result => Type::parse(result.strip_prefix("->").ok_or_else(form)?)?,
        };
        let params = params.trim().trim_end_matches(',');
        if params.is_empty() {
            return Ok(Self { params: Vec::new(), result });
        }
        let params = params.split(',').map(|param| {
            let (name, ty) = param.split_once(':').ok_or_else(|| {
                Error::new(format!("the parameter `{}` has no type; write `name: type`", param.trim()))
            })?;
            let (name, ty) = (name.trim().to_owned(), Type::parse(ty)?);
            if !is_identifier(&name) {
                return Err(Error::new(format!("`{name}` is not a name of a parameter")));
            }
            if ty == Type::None {
                return Err(Error::new(format!("the parameter `{name}` cannot be None")));
            }
            Ok(Param { name, ty })
        });
        let params = Error::collect(params)?;
        for (index, param) in params.iter().enumerate() {
            if params[..index].iter().any(|other| other.name == param.name) {
                return Err(Error::new(format!("two parameters are called `{}`", param.name)));
            }
        }
        Ok(Self { params, result })
    }

    /// Formats `(src: Tensor[float32], radius: int64)` for documentation.
    pub(crate) fn shown(&self) -> String {
        let params: Vec<String> =
            self.params.iter().map(|param| format!("{}: {}", param.name, param.ty.shown())).collect();
        format!("({})", params.join(", "))
    }

    /// Gives a name to each parameter without one.
    pub(crate) fn name_all(mut self) -> Self {
        for (index, param) in self.params.iter_mut().enumerate() {
            if param.name.is_empty() {
                param.name = format!("arg{index}");
            }
        }
        self
    }
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_read() {
        let rows = [
            ("()", "() -> ()"),
            ("( ) -> int", "() -> i64"),
            (
                "(src: Tensor[float32], dst: mut Tensor[ float32 ], radius: int,)",
                "(src: Tensor[float32], dst: Tensor[float32], radius: int64) -> ()",
            ),
            (
                "(a: uint8, b: float16, c: str, d: bytes, e: Any, f: Function, g: Device, h: DataType, i: bool) -> Tensor",
                "(a: uint8, b: float16, c: str, d: bytes, e: Any, f: Function, g: Device, h: DataType, i: bool) -> Tensor",
            ),
        ];
        for (text, expected) in rows {
            let signature = Signature::parse(text).unwrap();
            assert_eq!(format!("{} -> {}", signature.shown(), signature.result.rust(true)), expected, "{text}");
        }
        let signature = Signature::parse("(dst: mut Tensor)").unwrap();
        assert_eq!(signature.params[0].ty, Type::Tensor { element: None, written: true });
    }

    #[test]
    fn mistakes_say_what_is_possible() {
        let types = format!("these are: {TYPES}");
        let rows = [
            (
                "a: int",
                "`a: int` is not a declaration, such as `(src: Tensor[float32], radius: int) -> None`".to_owned(),
            ),
            (
                "(a: int) int",
                "`(a: int) int` is not a declaration, such as `(src: Tensor[float32], radius: int) -> None`".to_owned(),
            ),
            ("(a)", "the parameter `a` has no type; write `name: type`".to_owned()),
            ("(a: i32)", format!("`i32` is not a type of a declaration; {types}")),
            ("(a: int128)", format!("`int128` is not a type of a declaration; {types}")),
            ("(a: mut int)", format!("`mut int` is not a type of a declaration; {types}")),
            ("(a: Tensor[half])", format!("`half` is not a type of elements; these are: {}", ELEMENTS.join(", "))),
            ("(a: None)", "the parameter `a` cannot be None".to_owned()),
            ("(1a: int)", "`1a` is not a name of a parameter".to_owned()),
            ("(a: int, a: int)", "two parameters are called `a`".to_owned()),
        ];
        for (text, expected) in rows {
            assert_eq!(Signature::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
