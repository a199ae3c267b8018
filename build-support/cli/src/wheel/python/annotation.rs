//! Types of the TVM FFI as Python type hints.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Host;
use super::api::{Api, Base, Constructor};
use crate::library::signature::{Kind, Schema, element, literal};

/// More deeply nested types are `Any`.
const DEPTH: usize = 16;

/// The position of a type. Parameters accept more types than results have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Parameter,
    Result,
}

/// Writes types with the names that the stub imports.
pub(super) struct Annotations<'a> {
    api: &'a Api,
    host: Host,
    /// The inner module that is being written. Empty for the package itself.
    module: &'a str,
    /// All names of the library's items: a builtin type with such a name is written with its
    /// module.
    own: BTreeSet<&'a str>,
}

/// The name of a module of the package in the stubs of other modules.
pub(super) fn module_alias(module: &str) -> String {
    if module.is_empty() { "_package".to_owned() } else { format!("_in_{}", module.replace('.', "_")) }
}

impl<'a> Annotations<'a> {
    pub(super) fn new(api: &'a Api, host: Host) -> Self {
        Self::of_module(api, host, "")
    }

    /// Creates annotations for the stub of an inner module.
    pub(super) fn of_module(api: &'a Api, host: Host, module: &'a str) -> Self {
        let functions = api.functions.iter().map(|function| function.name.as_str());
        let types = api.types.iter().flat_map(|ty| {
            let fields = ty.fields.iter().map(|field| field.name.as_str());
            let methods = ty.methods.iter().map(|method| method.name.as_str());
            [ty.name.as_str()].into_iter().chain(fields).chain(methods).chain(ty.variants.iter().map(String::as_str))
        });
        Self { api, host, module, own: functions.chain(types).collect() }
    }

    pub(super) fn host(&self) -> Host {
        self.host
    }

    /// Returns the name of a builtin.
    pub(super) fn builtin(&self, name: &str) -> String {
        if self.own.contains(name) { format!("_builtins.{name}") } else { name.to_owned() }
    }

    /// Returns the name of a class of the library.
    pub(super) fn class(&self, key: &str) -> Option<String> {
        let ty = self.api.type_of(key)?;
        Some(match ty.module == self.module {
            true => ty.name.clone(),
            false => format!("{}.{}", module_alias(&ty.module), ty.name),
        })
    }

    /// Returns the type hint of a schema.
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
        if is_parameter && let Some(hint) = self.of_enum(key) {
            return hint;
        }
        if self.host == Host::Extension
            && let Some(hint) = self.of_extension(key, args, position, depth)
        {
            return hint;
        }
        match key {
            "None" => "None".to_owned(),
            "bool" | "int" | "float" | "slice" => self.builtin(key),
            "ffi.String" | "ffi.SmallStr" | "str" | "std::string" | "const char*" => self.builtin("str"),
            "ffi.Bytes" | "ffi.SmallBytes" | "bytes" => self.builtin("bytes"),
            "ffi.Array" | "list" | "set" => format!("_Sequence[{}]", of(args.first())),
            "ffi.List" if is_parameter => format!("_Sequence[{}]", of(args.first())),
            "ffi.List" => format!("_MutableSequence[{}]", of(args.first())),
            "ffi.Map" | "dict" => format!("_Mapping[{}, {}]", of(args.first()), of(args.get(1))),
            "ffi.Dict" if is_parameter => format!("_Mapping[{}, {}]", of(args.first()), of(args.get(1))),
            "ffi.Dict" => format!("_MutableMapping[{}, {}]", of(args.first()), of(args.get(1))),
            "Optional" => format!("{} | None", of(args.first())),
            "Union" | "Variant" if !args.is_empty() => all().join(" | "),
            "Tuple" | "std::tuple" if !args.is_empty() => format!("{}[{}]", self.builtin("tuple"), all().join(", ")),
            "Tuple" => format!("{}[()]", self.builtin("tuple")),
            "ffi.Function" => match args {
                // The parameters of a callback are results of the library, and its result is an
                // argument.
                [result, params @ ..] => {
                    let (given, taken) = match position {
                        Position::Parameter => (Position::Result, Position::Parameter),
                        Position::Result => (Position::Parameter, Position::Result),
                    };
                    let params: Vec<_> = params.iter().map(|param| self.at(param, given, depth - 1)).collect();
                    format!("_Callable[[{}], {}]", params.join(", "), self.at(result, taken, depth - 1))
                }
                [] => "_Callable[..., _Any]".to_owned(),
            },
            "ffi.Tensor" | "Tensor" | "DLTensor*" if is_parameter => "_DLPack".to_owned(),
            "ffi.Tensor" | "Tensor" | "DLTensor*" => "_ffi.Tensor".to_owned(),
            "ffi.Shape" => "_ffi.Shape".to_owned(),
            "ffi.Module" => "_ffi.Module".to_owned(),
            "ffi.Object" => "_ffi.Object".to_owned(),
            "DataType" | "dtype" if is_parameter => format!("_ffi.dtype | {}", self.builtin("str")),
            "DataType" | "dtype" => "_ffi.dtype".to_owned(),
            "Device" => "_ffi.Device".to_owned(),
            "pathlib.Path" | "ipaddress.IPv4Address" | "ipaddress.IPv6Address" | "ipaddress.ip_address" => {
                self.builtin("str")
            }
            // Seconds, or seconds and nanoseconds.
            "datetime.timedelta" | "datetime.datetime" if is_parameter => {
                format!("{} | _Sequence[{}]", self.builtin("float"), self.builtin("int"))
            }
            "datetime.timedelta" | "datetime.datetime" => format!("_Sequence[{}]", self.builtin("int")),
            "complex" if is_parameter => format!("{0} | _Sequence[{0}]", self.builtin("float")),
            "complex" => format!("_Sequence[{}]", self.builtin("float")),
            other => self.class(other).unwrap_or_else(|| "_Any".to_owned()),
        }
    }

    /// The annotation of an enum argument: a member, its value, and in an extension module the
    /// member's name.
    fn of_enum(&self, key: &str) -> Option<String> {
        let class = self.class(key)?;
        let (int, text) = (self.builtin("int"), self.builtin("str"));
        match (&self.api.type_of(key)?.base, self.host) {
            (Base::IntEnum, Host::Extension) => Some(format!("{class} | {int} | {text}")),
            (Base::IntEnum, Host::TvmFfi) => Some(format!("{class} | {int}")),
            (Base::StrEnum, _) => Some(format!("{class} | {text}")),
            _ => None,
        }
    }

    /// Handles types that an extension module accepts or returns in another form than tvm_ffi does:
    /// its containers are Python's own, except for mutable ones.
    fn of_extension(&self, key: &str, args: &[Value], position: Position, depth: usize) -> Option<String> {
        let of = |index: usize| match args.get(index) {
            Some(arg) => self.at(arg, position, depth - 1),
            None => "_Any".to_owned(),
        };
        let (list, tuple, int, text) =
            (self.builtin("list"), self.builtin("tuple"), self.builtin("int"), self.builtin("str"));
        Some(match (key, position) {
            ("ffi.Array" | "list", Position::Result) => format!("{list}[{}]", of(0)),
            ("ffi.Array" | "list", Position::Parameter) => format!("_Sequence[{}]", of(0)),
            ("ffi.Map" | "dict", Position::Result) => format!("{}[{}, {}]", self.builtin("dict"), of(0), of(1)),
            ("ffi.Map" | "dict", Position::Parameter) => format!("_Mapping[{}, {}]", of(0), of(1)),
            ("ffi.Shape", Position::Result) => format!("{tuple}[{int}, ...]"),
            ("ffi.Shape", Position::Parameter) => format!("_Sequence[{int}]"),
            ("ffi.Tensor" | "Tensor" | "DLTensor*", Position::Result) => "_Tensor".to_owned(),
            ("DataType" | "dtype" | "Device", Position::Result) => text,
            ("DataType" | "dtype" | "Device", Position::Parameter) => "_Any".to_owned(),
            ("ffi.Module" | "ffi.Object", _) => "_Any".to_owned(),
            ("pathlib.Path", Position::Result) => "_pathlib.Path".to_owned(),
            ("pathlib.Path", Position::Parameter) => format!("{text} | _os.PathLike[{text}]"),
            ("ipaddress.IPv4Address" | "ipaddress.IPv6Address" | "ipaddress.ip_address", _) => {
                let class = match key {
                    "ipaddress.ip_address" => "_ipaddress.IPv4Address | _ipaddress.IPv6Address".to_owned(),
                    key => format!("_{key}"),
                };
                if position == Position::Result { class } else { format!("{class} | {text}") }
            }
            ("set", Position::Result) => format!("{}[{}]", self.builtin("set"), of(0)),
            ("set", Position::Parameter) => format!("_Set[{}] | _Sequence[{}]", of(0), of(0)),
            ("datetime.timedelta", Position::Result) => "_datetime.timedelta".to_owned(),
            ("datetime.timedelta", Position::Parameter) => format!("_datetime.timedelta | {}", self.builtin("float")),
            ("datetime.datetime", Position::Result) => "_datetime.datetime".to_owned(),
            ("datetime.datetime", Position::Parameter) => format!("_datetime.datetime | {}", self.builtin("float")),
            ("complex", _) => self.builtin("complex"),
            _ => return None,
        })
    }

    /// Formats the parameters and the result of a function: `(_0: int, _1: str, /) -> float`.
    /// `first` is an additional first parameter, such as `self`; for a method, the first `skip`
    /// parameters are the object.
    pub(super) fn signature(&self, schema: Option<&Schema>, first: Option<&str>, skip: usize) -> String {
        self.callable(schema, first, skip, self.host == Host::Extension)
    }

    /// Returns a Python function with the parameters of a library function, for `inspect`:
    /// `lambda x, gain=0.5, /: ...`. With a declared signature, it returns its arguments in a
    /// tuple. `None` if the metadata does not contain the parameters. `first` and `skip` are as in
    /// [`signature`](Self::signature). Constructors accept arguments by name.
    pub(super) fn shape(
        &self,
        schema: Option<&Schema>,
        first: Option<&str>,
        skip: usize,
        by_name: bool,
    ) -> Option<String> {
        let schema = schema?;
        let parts = listed(schema, first, skip, by_name, |index, stars| {
            let default = schema.default(index).map(|default| format!("={}", literal(default))).unwrap_or_default();
            format!("{stars}{}{default}", parameter(schema, index))
        });
        let space = if parts.is_empty() { "" } else { " " };
        let value = match schema.kinds {
            Some(_) => {
                let names = (skip..schema.params.len()).map(|index| parameter(schema, index));
                let names: Vec<String> = first.map(str::to_owned).into_iter().chain(names).collect();
                // A tuple of one element ends with a comma.
                format!("({}{})", names.join(", "), if names.len() == 1 { "," } else { "" })
            }
            None => "...".to_owned(),
        };
        Some(format!("lambda{space}{}: {value}", parts.join(", ")))
    }

    /// `by_name` is true if arguments may be passed by name.
    fn callable(&self, schema: Option<&Schema>, first: Option<&str>, skip: usize, by_name: bool) -> String {
        let Some(schema) = schema else {
            let first = first.map(|first| format!("{first}, ")).unwrap_or_default();
            return format!("({first}*args: _Any) -> _Any");
        };
        let parts = listed(schema, first, skip, by_name, |index, stars| {
            let name = parameter(schema, index);
            let default = schema.default(index).map(|default| format!(" = {}", literal(default))).unwrap_or_default();
            let param = &schema.params[index];
            let ty = self.of(element(param, stars).unwrap_or(param), Position::Parameter);
            format!("{stars}{name}: {ty}{default}")
        });
        format!("({}) -> {}", parts.join(", "), self.of(&schema.result, Position::Result))
    }

    /// The annotation of the iterator of an object with this `__iter__`. The library's method
    /// returns the elements.
    pub(super) fn iterator(&self, schema: Option<&Schema>) -> String {
        let Some(schema) = schema else { return "_Iterator[_Any]".to_owned() };
        let key = schema.result.get("type").and_then(Value::as_str).unwrap_or("Any");
        let first = schema.result.get("args").and_then(|args| args.get(0));
        match (key, first) {
            ("ffi.Array" | "ffi.List" | "ffi.Map" | "ffi.Dict", Some(element)) => {
                format!("_Iterator[{}]", self.of(element, Position::Result))
            }
            // An object of the library that is an iterator itself.
            (key, _) if self.api.type_of(key).is_some() => self.of(&schema.result, Position::Result),
            _ => "_Iterator[_Any]".to_owned(),
        }
    }

    /// Returns the parameters of `__init__`, or `None` if only the library creates objects.
    pub(super) fn constructor(&self, constructor: &Constructor) -> Option<String> {
        match constructor {
            Constructor::None => None,
            Constructor::Function(schema) => {
                // Constructors accept arguments by name in tvm_ffi, too.
                let text = self.callable(schema.as_ref(), Some("self"), 0, true);
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

    /// Returns the name of a builtin decorator.
    pub(super) fn decorator(&self, name: &str) -> String {
        format!("@{}", self.builtin(name))
    }
}

/// Returns the parameters from `skip` on, behind `first`. Parameters that are not declared are
/// positional if `by_name` is false, and if the ABI has no names for them, or Python does not allow
/// the name.
fn listed(
    schema: &Schema,
    first: Option<&str>,
    skip: usize,
    by_name: bool,
    write: impl Fn(usize, &'static str) -> String,
) -> Vec<String> {
    let is_named = |index: &usize| schema.names.get(*index).is_some_and(|name| super::names::is_identifier(name));
    let last_unnamed = (skip..schema.params.len()).rev().find(|index| !is_named(index));
    let kind = |index: usize| match by_name && Some(index) > last_unnamed {
        true => Kind::PositionalOrKeyword,
        false => Kind::PositionalOnly,
    };
    // The further arguments by name may have every name, also that of the first parameter.
    let takes_all_names = |kinds: &Vec<Kind>| skip > 0 || kinds.contains(&Kind::VarKeyword);
    let of_first = match !by_name || schema.kinds.as_ref().is_some_and(takes_all_names) {
        true => Kind::PositionalOnly,
        false => Kind::PositionalOrKeyword,
    };
    schema.listed(first.map(|first| (first, of_first)), skip, kind, write)
}

/// Returns a parameter's name in Python.
fn parameter(schema: &Schema, index: usize) -> String {
    match schema.names.get(index) {
        Some(name) if super::names::is_identifier(name) => name.clone(),
        // A reserved word of Python.
        Some(name) if super::names::is_identifier(&format!("{name}_")) => format!("{name}_"),
        _ => format!("_{index}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::api::{Comparison, Type};
    use super::*;
    use serde_json::json;

    #[test]
    fn types() {
        let api = Api { functions: Vec::new(), types: Vec::new(), exceptions: Vec::new(), nameless: Vec::new() };
        let annotations = Annotations::new(&api, Host::TvmFfi);
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
            (json!({ "type": "pathlib.Path" }), "str", "str"),
            (json!({ "type": "set", "args": [{ "type": "int" }] }), "_Sequence[int]", "_Sequence[int]"),
            (json!({ "type": "datetime.timedelta" }), "float | _Sequence[int]", "_Sequence[int]"),
            (json!({ "type": "complex" }), "float | _Sequence[float]", "_Sequence[float]"),
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

    #[test]
    fn an_extension_module_has_pythons_own_containers_and_keywords() {
        let api = Api { functions: Vec::new(), types: Vec::new(), exceptions: Vec::new(), nameless: Vec::new() };
        let annotations = Annotations::new(&api, Host::Extension);
        let ints = json!({ "type": "ffi.Array", "args": [{ "type": "int" }] });
        for (schema, parameter, result) in [
            (ints.clone(), "_Sequence[int]", "list[int]"),
            (
                json!({ "type": "ffi.Map", "args": [{ "type": "str" }, ints] }),
                "_Mapping[str, _Sequence[int]]",
                "dict[str, list[int]]",
            ),
            (json!({ "type": "ffi.List", "args": [{ "type": "int" }] }), "_Sequence[int]", "_MutableSequence[int]"),
            (json!({ "type": "ffi.Dict" }), "_Mapping[_Any, _Any]", "_MutableMapping[_Any, _Any]"),
            (json!({ "type": "ffi.Tensor" }), "_DLPack", "_Tensor"),
            (json!({ "type": "ffi.Shape" }), "_Sequence[int]", "tuple[int, ...]"),
            (json!({ "type": "ffi.Function" }), "_Callable[..., _Any]", "_Callable[..., _Any]"),
            (
                json!({ "type": "ffi.Function", "args": [{ "type": "ffi.Shape" }, { "type": "ffi.Tensor" }] }),
                "_Callable[[_Tensor], _Sequence[int]]",
                "_Callable[[_DLPack], tuple[int, ...]]",
            ),
            (json!({ "type": "Device" }), "_Any", "str"),
            (json!({ "type": "int" }), "int", "int"),
            (json!({ "type": "pathlib.Path" }), "str | _os.PathLike[str]", "_pathlib.Path"),
            (json!({ "type": "set", "args": [{ "type": "int" }] }), "_Set[int] | _Sequence[int]", "set[int]"),
            (json!({ "type": "datetime.timedelta" }), "_datetime.timedelta | float", "_datetime.timedelta"),
            (json!({ "type": "datetime.datetime" }), "_datetime.datetime | float", "_datetime.datetime"),
            (json!({ "type": "complex" }), "complex", "complex"),
            (
                json!({ "type": "ipaddress.ip_address" }),
                "_ipaddress.IPv4Address | _ipaddress.IPv6Address | str",
                "_ipaddress.IPv4Address | _ipaddress.IPv6Address",
            ),
            (json!({ "type": "ipaddress.IPv6Address" }), "_ipaddress.IPv6Address | str", "_ipaddress.IPv6Address"),
        ] {
            assert_eq!(annotations.of(&schema, Position::Parameter), parameter, "{schema}");
            assert_eq!(annotations.of(&schema, Position::Result), result, "{schema}");
        }
    }

    #[test]
    fn an_enum_is_given_as_a_member_a_value_or_a_name() {
        let ty = |key: &str, base| Type {
            module: String::new(),
            inner: Vec::new(),
            name: key.to_owned(),
            key: format!("kit.{key}"),
            base,
            doc: String::new(),
            fields: Vec::new(),
            methods: Vec::new(),
            setters: Vec::new(),
            constructor: Constructor::None,
            variants: Vec::new(),
            comparison: Comparison { equal: false, hash: false, order: false },
            is_hidden: false,
        };
        let types = vec![ty("Color", Base::IntEnum), ty("Mode", Base::StrEnum), ty("Point", Base::Object)];
        let api = Api { functions: Vec::new(), types, exceptions: Vec::new(), nameless: Vec::new() };
        for (key, parameter) in [("kit.Color", "Color | int"), ("kit.Mode", "Mode | str"), ("kit.Point", "Point")] {
            let annotations = Annotations::new(&api, Host::TvmFfi);
            assert_eq!(annotations.of(&json!({ "type": key }), Position::Parameter), parameter);
        }
        let annotations = Annotations::new(&api, Host::Extension);
        for (key, parameter, result) in [
            ("kit.Color", "Color | int | str", "Color"),
            ("kit.Mode", "Mode | str", "Mode"),
            ("kit.Point", "Point", "Point"),
        ] {
            let schema = json!({ "type": key });
            assert_eq!(annotations.of(&schema, Position::Parameter), parameter);
            assert_eq!(annotations.of(&schema, Position::Result), result);
        }
    }

    #[test]
    fn constructors_take_names_in_both_hosts_and_functions_in_one() {
        let api = Api { functions: Vec::new(), types: Vec::new(), exceptions: Vec::new(), nameless: Vec::new() };
        let schema = || Schema {
            params: vec![json!({ "type": "float" }), json!({ "type": "str" })],
            result: json!({ "type": "None" }),
            names: vec!["x".to_owned(), "meta".to_owned()],
            defaults: vec![json!("none")],
            kinds: None,
            is_constant: false,
            is_class_method: false,
            is_setter: false,
        };
        for (host, end) in [(Host::TvmFfi, ", /"), (Host::Extension, "")] {
            let annotations = Annotations::new(&api, host);
            let parameters = "x: float, meta: str = \"none\"";
            assert_eq!(annotations.signature(Some(&schema()), None, 0), format!("({parameters}{end}) -> None"));
            let constructor = Constructor::Function(Some(schema()));
            assert_eq!(annotations.constructor(&constructor), Some(format!("(self, {parameters}) -> None")));
            let map = json!({ "type": "ffi.Map", "args": [{ "type": "ffi.String" }, { "type": "int" }] });
            let options = Schema {
                params: vec![map],
                names: vec!["options".to_owned()],
                defaults: Vec::new(),
                kinds: Some(vec![Kind::VarKeyword]),
                ..schema()
            };
            let shape = annotations.shape(Some(&options), Some("self"), 0, true);
            assert_eq!(shape.as_deref(), Some("lambda self, /, **options: (self, options)"));
            let constructor = Constructor::Function(Some(options));
            assert_eq!(annotations.constructor(&constructor), Some("(self, /, **options: int) -> None".to_owned()));
        }
    }
}
