//! Formats metadata of the TVM FFI (a JSON object whose `type_schema` is a JSON string) as a
//! readable signature.

use serde_json::Value;

/// More deeply nested types are not written out.
const DEPTH: usize = 16;

/// A function's types, as JSON.
pub(crate) struct Schema {
    pub(crate) params: Vec<Value>,
    pub(crate) result: Value,
    /// Names of the parameters, if the metadata has them.
    pub(crate) names: Vec<String>,
    /// The defaults of the last parameters, as JSON. An object if only a call can compute the
    /// default.
    pub(crate) defaults: Vec<Value>,
    /// The kinds of the parameters, if the function declares a signature.
    pub(crate) kinds: Option<Vec<Kind>>,
    /// True for a constant, which a function without parameters returns.
    pub(crate) is_constant: bool,
    /// True for a class method, which returns an object of the class that it is called on.
    pub(crate) is_class_method: bool,
    /// True for a method that writes an attribute of its object.
    pub(crate) is_setter: bool,
}

/// The kind of a parameter, as in `inspect.Parameter.kind`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    PositionalOnly,
    PositionalOrKeyword,
    VarPositional,
    KeywordOnly,
    VarKeyword,
}

impl Kind {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "positional_only" => Self::PositionalOnly,
            "positional_or_keyword" => Self::PositionalOrKeyword,
            "var_positional" => Self::VarPositional,
            "keyword_only" => Self::KeywordOnly,
            "var_keyword" => Self::VarKeyword,
            _ => return None,
        })
    }
}

impl Schema {
    /// Returns the default of the parameter at this index, or `None` if the parameter is required.
    pub(crate) fn default(&self, index: usize) -> Option<&Value> {
        let default = self.defaults.get((index + self.defaults.len()).checked_sub(self.params.len())?)?;
        // A declared signature may have a required parameter behind one with a default.
        let is_variadic = |kind: Kind| matches!(kind, Kind::VarPositional | Kind::VarKeyword);
        (default.get("required").is_none() && !self.kind(index).is_some_and(is_variadic)).then_some(default)
    }

    /// Returns the declared kind of the parameter at this index.
    pub(crate) fn kind(&self, index: usize) -> Option<Kind> {
        self.kinds.as_ref()?.get(index).copied()
    }

    /// Returns the parameters from `skip` on in Python's syntax, behind `first`. `kind` determines
    /// the kinds of parameters that are not declared, and `write` formats a parameter with the
    /// stars before its name.
    pub(crate) fn listed(
        &self,
        first: Option<(&str, Kind)>,
        skip: usize,
        kind: impl Fn(usize) -> Kind,
        write: impl Fn(usize, &'static str) -> String,
    ) -> Vec<String> {
        let mut parts: Vec<String> = first.iter().map(|(first, _)| (*first).to_owned()).collect();
        let mut before = first.map_or(Kind::PositionalOrKeyword, |(_, kind)| kind);
        for index in skip..self.params.len() {
            let kind = self.kind(index).unwrap_or_else(|| kind(index));
            if before == Kind::PositionalOnly && kind != before {
                parts.push("/".to_owned());
            }
            if kind == Kind::KeywordOnly && before < Kind::VarPositional {
                parts.push("*".to_owned());
            }
            parts.push(write(
                index,
                match kind {
                    Kind::VarPositional => "*",
                    Kind::VarKeyword => "**",
                    _ => "",
                },
            ));
            before = kind;
        }
        if before == Kind::PositionalOnly {
            parts.push("/".to_owned());
        }
        parts
    }
}

/// Returns the types of a function's parameters and of its result, or `None` if the metadata does
/// not contain them.
pub(crate) fn schema_of_function(metadata: &str) -> Option<Schema> {
    let schema = schema(metadata)?;
    let list = |value: &Value| value.as_array().cloned();
    let (result, params) = match schema.get("named_args") {
        // The results are in a list with one element.
        Some(args) => (list(args.get("return")?)?, list(args.get("params")?)?),
        None => {
            let mut args = list(schema.get("args")?)?;
            let params = args.split_off(args.len().min(1));
            (args, params)
        }
    };
    let (names, defaults) = (names(metadata), defaults(metadata));
    let kinds = kinds(metadata).filter(|kinds| kinds.len() == params.len() && names.len() == params.len());
    Some(Schema {
        params,
        result: result.into_iter().next()?,
        names,
        defaults,
        kinds,
        is_constant: has_member(metadata, "constant"),
        is_class_method: has_member(metadata, "class_method"),
        is_setter: has_member(metadata, "setter"),
    })
}

/// Formats a signature as `(int, str) -> float`. `None` if the metadata does not contain the types.
pub(crate) fn of_function(metadata: &str) -> Option<String> {
    let schema = schema_of_function(metadata)?;
    let write = |index: usize, stars: &str| {
        let param = &schema.params[index];
        let ty = ty(element(param, stars).unwrap_or(param), DEPTH);
        let text = match schema.names.get(index) {
            Some(name) => format!("{stars}{name}: {ty}"),
            None => ty,
        };
        match schema.default(index) {
            Some(default) => format!("{text} = {}", literal(default)),
            None => text,
        }
    };
    let params = schema.listed(None, 0, |_| Kind::PositionalOrKeyword, write);
    Some(format!("({}) -> {}", params.join(", "), ty(&schema.result, DEPTH)))
}

/// Returns the type of one argument of `*args`, which is a list, or of `**kwargs`, which is a map.
pub(crate) fn element<'a>(param: &'a Value, stars: &str) -> Option<&'a Value> {
    param.get("args")?.get(stars.len().checked_sub(1)?)
}

/// Formats the type of a field.
pub(crate) fn of_field(metadata: &str) -> Option<String> {
    Some(ty(&schema(metadata)?, DEPTH))
}

/// Returns the `type_schema` of metadata.
pub(crate) fn schema(metadata: &str) -> Option<Value> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    serde_json::from_str(metadata.get("type_schema")?.as_str()?).ok()
}

/// Returns true if the metadata describes a device kernel, which takes its grid and block as
/// arguments.
pub(crate) fn is_device_kernel(metadata: &str) -> bool {
    let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
    metadata.get("device_kernel").is_some()
}

/// Returns the names of the parameters, if the metadata has them.
fn names(metadata: &str) -> Vec<String> {
    let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
    let names = ["arg_names", "param_names"].iter().find_map(|key| metadata.get(key)?.as_array());
    names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn defaults(metadata: &str) -> Vec<Value> {
    let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
    metadata.get("arg_defaults").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn has_member(metadata: &str, name: &str) -> bool {
    let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
    metadata.get(name).is_some()
}

/// Returns the kinds of the parameters, if the function declares a signature.
fn kinds(metadata: &str) -> Option<Vec<Kind>> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    metadata.get("arg_kinds")?.as_array()?.iter().map(|kind| Kind::parse(kind.as_str()?)).collect()
}

/// Formats a default in Python syntax.
pub(crate) fn literal(default: &Value) -> String {
    match default {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Object(_) => "...".to_owned(),
        value => value.to_string(),
    }
}

fn ty(schema: &Value, depth: usize) -> String {
    let key = schema.get("type").and_then(Value::as_str).unwrap_or("Any");
    let args = schema.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if depth == 0 {
        return "...".to_owned();
    }
    let args: Vec<String> = args.iter().map(|arg| ty(arg, depth - 1)).collect();
    let name = match key {
        "None" | "bool" | "int" | "float" | "Any" => key,
        "ffi.String" | "std::string" | "const char*" => "str",
        "ffi.Bytes" => "bytes",
        other => other.strip_prefix("ffi.").unwrap_or(other),
    };
    match (name, args.as_slice()) {
        ("Function", [result, params @ ..]) => format!("Callable[[{}], {result}]", params.join(", ")),
        ("Optional", [inner]) => format!("{inner} | None"),
        ("Union" | "Variant", [_, ..]) => args.join(" | "),
        (_, []) => name.to_owned(),
        _ => format!("{name}[{}]", args.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures() {
        let metadata = |schema: &str| serde_json::json!({ "type_schema": schema }).to_string();
        let function = metadata(
            r#"{"type":"ffi.Function","args":[{"type":"None"},{"type":"ffi.Array","args":[{"type":"int"}]}]}"#,
        );
        assert_eq!(of_function(&function).as_deref(), Some("(Array[int]) -> None"));
        let named =
            r#"{"type":"ffi.Function","named_args":{"return":[{"type":"int"}],"params":[{"type":"ffi.String"}]}}"#;
        assert_eq!(of_function(&metadata(named)).as_deref(), Some("(str) -> int"));
        let mut with_defaults: Value = serde_json::from_str(&function).unwrap();
        with_defaults["arg_names"] = serde_json::json!(["values"]);
        for (default, expected) in
            [("[1.5]", "1.5"), ("[null]", "None"), ("[true]", "True"), (r#"[{"rust":"x()"}]"#, "...")]
        {
            with_defaults["arg_defaults"] = serde_json::from_str(default).unwrap();
            let found = of_function(&with_defaults.to_string());
            assert_eq!(found, Some(format!("(values: Array[int] = {expected}) -> None")));
        }
        let declared = serde_json::json!({
            "type_schema": r#"{"type":"ffi.Function","named_args":{"return":[{"type":"int"}],"params":[
                {"type":"int"},{"type":"ffi.Array","args":[{"type":"int"}]},{"type":"bool"},{"type":"float"},
                {"type":"ffi.Map","args":[{"type":"ffi.String"},{"type":"Any"}]}]}}"#,
            "arg_names": ["data", "rest", "key", "scale", "options"],
            "arg_defaults": [[], true, { "required": true }, {}],
            "arg_kinds": ["positional_only", "var_positional", "keyword_only", "keyword_only", "var_keyword"],
        });
        let expected = "(data: int, /, *rest: int, key: bool = True, scale: float, **options: Any) -> int";
        assert_eq!(of_function(&declared.to_string()).as_deref(), Some(expected));
        assert_eq!(of_function(&metadata(r#"{"type":"ffi.Function"}"#)), None);
        assert_eq!(of_function("not json"), None);
        let optional = metadata(r#"{"type":"Optional","args":[{"type":"ffi.String"}]}"#);
        assert_eq!(of_field(&optional).as_deref(), Some("str | None"));
        let callback = metadata(r#"{"type":"ffi.Function","args":[{"type":"float"},{"type":"int"}]}"#);
        assert_eq!(of_field(&callback).as_deref(), Some("Callable[[int], float]"));
    }
}
