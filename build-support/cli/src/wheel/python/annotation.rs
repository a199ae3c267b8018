//! Types of the TVM FFI as Python's type hints.

use std::collections::BTreeSet;

use serde_json::Value;

use super::api::{Api, Constructor};
use crate::library::signature::Schema;

/// Deeper types are `Any`.
const DEPTH: usize = 16;

/// Where a type stands: what a function takes is wider than what it gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Parameter,
    Result,
}

/// Writes types with the names that the stub imports.
pub(super) struct Annotations<'a> {
    api: &'a Api,
    /// Every name that something of the library has: a builtin type of this name is written with its module.
    own: BTreeSet<&'a str>,
}

impl<'a> Annotations<'a> {
    pub(super) fn new(api: &'a Api) -> Self {
        let functions = api.functions.iter().map(|function| function.name.as_str());
        let types = api.types.iter().flat_map(|ty| {
            let fields = ty.fields.iter().map(|field| field.name.as_str());
            let methods = ty.methods.iter().map(|method| method.name.as_str());
            [ty.name.as_str()].into_iter().chain(fields).chain(methods).chain(ty.variants.iter().map(String::as_str))
        });
        Self { api, own: functions.chain(types).collect() }
    }

    fn builtin(&self, name: &str) -> String {
        if self.own.contains(name) { format!("_builtins.{name}") } else { name.to_owned() }
    }

    /// The type hint of a schema.
    pub(super) fn of(&self, schema: &Value, position: Position) -> String {
        self.at(schema, position, DEPTH)
    }

    fn at(&self, schema: &Value, position: Position, depth: usize) -> String {
        let key = schema.get("type").and_then(Value::as_str).unwrap_or("Any");
        let args = schema.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if depth == 0 {
            return "_Any".to_owned();
        }
        let of = |arg: Option<&Value>| arg.map_or_else(|| "_Any".to_owned(), |arg| self.at(arg, position, depth - 1));
        let all = || args.iter().map(|arg| of(Some(arg))).collect::<Vec<_>>();
        let is_parameter = position == Position::Parameter;
        match key {
            "None" => "None".to_owned(),
            "bool" | "int" | "float" => self.builtin(key),
            "ffi.String" | "ffi.SmallStr" | "str" | "std::string" | "const char*" => self.builtin("str"),
            "ffi.Bytes" | "ffi.SmallBytes" | "bytes" => self.builtin("bytes"),
            "ffi.Array" | "list" => format!("_Sequence[{}]", of(args.first())),
            "ffi.List" if is_parameter => format!("_Sequence[{}]", of(args.first())),
            "ffi.List" => format!("_MutableSequence[{}]", of(args.first())),
            "ffi.Map" | "dict" => format!("_Mapping[{}, {}]", of(args.first()), of(args.get(1))),
            "ffi.Dict" if is_parameter => format!("_Mapping[{}, {}]", of(args.first()), of(args.get(1))),
            "ffi.Dict" => format!("_MutableMapping[{}, {}]", of(args.first()), of(args.get(1))),
            "Optional" => format!("{} | None", of(args.first())),
            "Union" | "Variant" if !args.is_empty() => all().join(" | "),
            "Tuple" | "std::tuple" if !args.is_empty() => format!("{}[{}]", self.builtin("tuple"), all().join(", ")),
            "Tuple" => format!("{}[()]", self.builtin("tuple")),
            "ffi.Function" => "_Callable[..., _Any]".to_owned(),
            "ffi.Tensor" | "Tensor" | "DLTensor*" if is_parameter => "_DLPack".to_owned(),
            "ffi.Tensor" | "Tensor" | "DLTensor*" => "_ffi.Tensor".to_owned(),
            "ffi.Shape" => "_ffi.Shape".to_owned(),
            "ffi.Module" => "_ffi.Module".to_owned(),
            "ffi.Object" => "_ffi.Object".to_owned(),
            "DataType" | "dtype" if is_parameter => format!("_ffi.dtype | {}", self.builtin("str")),
            "DataType" | "dtype" => "_ffi.dtype".to_owned(),
            "Device" => "_ffi.Device".to_owned(),
            other => self.api.type_name(other).unwrap_or("_Any").to_owned(),
        }
    }

    /// The parameters and the result of a function: `(_0: int, _1: str, /) -> float`. `first` stands for the parameter before the
    /// first one that is written, such as `self`; of a method, `skip` parameters are the object.
    pub(super) fn signature(&self, schema: Option<&Schema>, first: Option<&str>, skip: usize) -> String {
        let Some(schema) = schema else {
            let first = first.map(|first| format!("{first}, ")).unwrap_or_default();
            return format!("({first}*args: _Any) -> _Any");
        };
        let mut parts: Vec<String> = first.map(str::to_owned).into_iter().collect();
        for (index, param) in schema.params.iter().enumerate().skip(skip) {
            let name = schema.names.get(index).filter(|name| super::names::is_identifier(name));
            let name = name.cloned().unwrap_or_else(|| format!("_{index}"));
            parts.push(format!("{name}: {}", self.of(param, Position::Parameter)));
        }
        if !parts.is_empty() {
            // Arguments go by position: the ABI has no names for them.
            parts.push("/".to_owned());
        }
        format!("({}) -> {}", parts.join(", "), self.of(&schema.result, Position::Result))
    }

    /// The parameters of `__init__`; `None` when only the library makes objects.
    pub(super) fn constructor(&self, constructor: &Constructor) -> Option<String> {
        match constructor {
            Constructor::None => None,
            Constructor::Function(schema) => {
                let text = self.signature(schema.as_ref(), Some("self"), 0);
                let parameters = text.split_once(") -> ").map_or(text.as_str(), |(parameters, _)| parameters);
                Some(format!("{parameters}) -> None"))
            }
            Constructor::Fields(fields) => {
                let mut parts = vec!["self".to_owned()];
                let mut by_keyword = false;
                for field in fields {
                    if field.keyword_only && !by_keyword {
                        by_keyword = true;
                        parts.push("*".to_owned());
                    }
                    let default = if field.has_default { " = ..." } else { "" };
                    parts.push(format!("{}: {}{default}", field.name, self.of(&field.schema, Position::Parameter)));
                }
                Some(format!("({}) -> None", parts.join(", ")))
            }
        }
    }

    /// A decorator of Python's own.
    pub(super) fn decorator(&self, name: &str) -> String {
        format!("@{}", self.builtin(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types() {
        let api = Api { functions: Vec::new(), types: Vec::new(), nameless: Vec::new() };
        let annotations = Annotations::new(&api);
        let array = |inner: Value| json!({ "type": "ffi.Array", "args": [inner] });
        for (schema, parameter, result) in [
            (json!({ "type": "int" }), "int", "int"),
            (json!({ "type": "ffi.Tensor" }), "_DLPack", "_ffi.Tensor"),
            (array(json!({ "type": "ffi.Tensor" })), "_Sequence[_DLPack]", "_Sequence[_ffi.Tensor]"),
            (json!({ "type": "ffi.Array" }), "_Sequence[_Any]", "_Sequence[_Any]"),
            (json!({ "type": "ffi.List", "args": [{ "type": "int" }] }), "_Sequence[int]", "_MutableSequence[int]"),
            (json!({ "type": "Optional", "args": [{ "type": "ffi.String" }] }), "str | None", "str | None"),
            (
                json!({ "type": "Tuple", "args": [{ "type": "bool" }, { "type": "None" }] }),
                "tuple[bool, None]",
                "tuple[bool, None]",
            ),
            (json!({ "type": "Tuple" }), "tuple[()]", "tuple[()]"),
            (json!({ "type": "DataType" }), "_ffi.dtype | str", "_ffi.dtype"),
            (json!({ "type": "other.Type" }), "_Any", "_Any"),
            (json!(7), "_Any", "_Any"),
        ] {
            assert_eq!(annotations.of(&schema, Position::Parameter), parameter, "{schema}");
            assert_eq!(annotations.of(&schema, Position::Result), result, "{schema}");
        }
        let mut deep = json!({ "type": "int" });
        for _ in 0..100 {
            deep = array(deep);
        }
        assert!(annotations.of(&deep, Position::Result).contains("_Sequence[_Any]"));
        assert_eq!(annotations.signature(None, None, 0), "(*args: _Any) -> _Any");
    }
}
