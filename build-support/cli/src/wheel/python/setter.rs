//! Attributes that a method of the library writes.

use std::fmt::Write;

use serde_json::Value;

use super::annotation::{Annotations, Position};
use super::api::{Api, Field, Method, Type};
use super::names::is_identifier;

/// A method that writes an attribute of its object.
pub(super) struct Setter {
    /// The name of the attribute.
    pub(super) attribute: String,
    /// The name of the method.
    method: String,
    /// The type of the value.
    value: Value,
    /// The type of the attribute if it is a field or property of an ancestor.
    inherited: Option<Value>,
}

impl Setter {
    /// Returns the setter that a method is, unless the attribute's name is reserved in Python;
    /// `inherited` contains the fields of the ancestors.
    pub(super) fn of(method: &Method, inherited: &[Field]) -> Option<Self> {
        let schema = method.signature.as_ref().filter(|schema| schema.is_setter)?;
        let attribute = method.name.strip_prefix("set_").filter(|attribute| is_identifier(attribute))?;
        let field = inherited.iter().find(|field| field.name == attribute);
        Some(Self {
            attribute: attribute.to_owned(),
            method: method.name.clone(),
            value: schema.params.get(1).cloned().unwrap_or_default(),
            inherited: field.map(|field| field.schema.clone()),
        })
    }
}

/// Writes the fields, properties and setters of a class for type checkers.
pub(super) fn stubs(out: &mut String, ty: &Type, annotations: &Annotations<'_>) -> std::fmt::Result {
    for field in &ty.fields {
        let annotation = annotations.of(&field.schema, Position::Result);
        let setter = ty.setters.iter().find(|setter| setter.attribute == field.name);
        match setter {
            None if field.writable => writeln!(out, "    {}: {annotation}", field.name)?,
            _ => property(out, &field.name, &annotation, setter, annotations)?,
        }
    }
    for setter in ty.setters.iter().filter(|setter| ty.fields.iter().all(|field| field.name != setter.attribute)) {
        let annotation = match &setter.inherited {
            Some(schema) => annotations.of(schema, Position::Result),
            // Reading it is an error.
            None => "_Never".to_owned(),
        };
        property(out, &setter.attribute, &annotation, Some(setter), annotations)?;
    }
    Ok(())
}

fn property(
    out: &mut String,
    name: &str,
    annotation: &str,
    setter: Option<&Setter>,
    annotations: &Annotations<'_>,
) -> std::fmt::Result {
    writeln!(out, "    {}\n    def {name}(self) -> {annotation}: ...", annotations.decorator("property"))?;
    let Some(setter) = setter else { return Ok(()) };
    let value = annotations.of(&setter.value, Position::Parameter);
    writeln!(out, "    @{name}.setter\n    def {name}(self, value: {value}) -> None: ...")
}

/// Makes an attribute of a class of tvm_ffi writable by a method. `set` belongs to `__replace__`,
/// which still sets the field. tvm_ffi's class ignores documentation that its constructor gets.
const WRITTEN: &str = r#"

def _written(attribute, write):
    written = _ffi.core.FFIProperty(attribute.fget, write, False)
    written.set, written.__doc__ = attribute.set, attribute.__doc__
    return written
"#;

/// Writes the function that the statements of setters call, if there are any.
pub(super) fn helper(out: &mut String, api: &Api) {
    if api.types.iter().any(|ty| !ty.setters.is_empty()) {
        out.push_str(WRITTEN);
    }
}

/// Writes the statements that make the attributes of a class of tvm_ffi writable, which knows the
/// setters as methods.
pub(super) fn statements(out: &mut String, ty: &Type) -> std::fmt::Result {
    for Setter { attribute, method, inherited, .. } in &ty.setters {
        let (place, write) = (format!("{}.{attribute}", ty.name), format!("{}.{method}", ty.name));
        match inherited.is_some() || ty.fields.iter().any(|field| field.name == *attribute) {
            true => writeln!(out, "{place} = _written({place}, {write})")?,
            false => writeln!(out, "{place} = _builtins.property(None, {write}, None, {write}.__doc__)")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::signature::schema_of_function;

    #[test]
    fn reserved_names() {
        let schema = r#"{"type":"ffi.Function","args":[{"type":"None"},{"type":"kit.Dial"},{"type":"int"}]}"#;
        let metadata = serde_json::json!({ "type_schema": schema, "setter": true }).to_string();
        for (name, attribute) in [("set_size", Some("size")), ("set_class", None), ("set_1", None)] {
            let signature = schema_of_function(&metadata);
            let method = Method { name: name.to_owned(), is_static: false, signature, doc: String::new() };
            assert_eq!(Setter::of(&method, &[]).map(|setter| setter.attribute).as_deref(), attribute);
        }
    }
}
