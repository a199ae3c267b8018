//! Metadata of the TVM FFI (a JSON object whose `type_schema` is a JSON string) as a signature that people read.

use serde_json::Value;

/// Deeper types are not spelled out.
const DEPTH: usize = 16;

/// A function's types, as JSON.
pub(crate) struct Schema {
    pub(crate) params: Vec<Value>,
    pub(crate) result: Value,
    /// Names of the parameters, where the metadata has them.
    pub(crate) names: Vec<String>,
}

/// The types of a function's parameters and of its result; `None` when the metadata says nothing.
pub(crate) fn schema_of_function(metadata: &str) -> Option<Schema> {
    let schema = schema(metadata)?;
    let list = |value: &Value| value.as_array().cloned();
    let (result, params) = match schema.get("named_args") {
        // The results stand in a list, which has one element.
        Some(args) => (list(args.get("return")?)?, list(args.get("params")?)?),
        None => {
            let mut args = list(schema.get("args")?)?;
            let params = args.split_off(args.len().min(1));
            (args, params)
        }
    };
    Some(Schema { params, result: result.into_iter().next()?, names: names(metadata) })
}

/// `(int, str) -> float`; `None` when the metadata says nothing.
pub(crate) fn of_function(metadata: &str) -> Option<String> {
    let Schema { params, result, names } = schema_of_function(metadata)?;
    let params = params.iter().enumerate().map(|(index, param)| match names.get(index) {
        Some(name) => format!("{name}: {}", ty(param, DEPTH)),
        None => ty(param, DEPTH),
    });
    Some(format!("({}) -> {}", params.collect::<Vec<_>>().join(", "), ty(&result, DEPTH)))
}

/// The type of a field.
pub(crate) fn of_field(metadata: &str) -> Option<String> {
    Some(ty(&schema(metadata)?, DEPTH))
}

/// The `type_schema` of metadata.
pub(crate) fn schema(metadata: &str) -> Option<Value> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    serde_json::from_str(metadata.get("type_schema")?.as_str()?).ok()
}

/// Whether the metadata is that of a kernel of a device, which takes its grid and block as arguments.
pub(crate) fn is_device_kernel(metadata: &str) -> bool {
    let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
    metadata.get("device_kernel").is_some()
}

/// Names of the parameters, where the metadata has them.
fn names(metadata: &str) -> Vec<String> {
    let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
    let names = ["arg_names", "param_names"].iter().find_map(|key| metadata.get(key)?.as_array());
    names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
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
        assert_eq!(of_function(&metadata(r#"{"type":"ffi.Function"}"#)), None);
        assert_eq!(of_function("not json"), None);
        let optional = metadata(r#"{"type":"Optional","args":[{"type":"ffi.String"}]}"#);
        assert_eq!(of_field(&optional).as_deref(), Some("str | None"));
    }
}
