//! Attributes that a method of the library writes.

use std::fmt::Write;

use serde_json::Value;

use super::annotation::{Annotations, Position};
use super::api::{Field, Method, Type};

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
    /// Returns the setter that a method is; `inherited` contains the fields of the ancestors.
    pub(super) fn of(method: &Method, inherited: &[Field]) -> Option<Self> {
        let schema = method.signature.as_ref().filter(|schema| schema.is_setter)?;
        let attribute = method.name.strip_prefix("set_")?;
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

/// Writes the statements that make the attributes of a class of tvm_ffi writable, which knows the
/// setters as methods.
pub(super) fn statements(out: &mut String, ty: &Type) -> std::fmt::Result {
    for Setter { attribute, method, inherited, .. } in &ty.setters {
        let (class, is_own) = (&ty.name, ty.fields.iter().any(|field| field.name == *attribute));
        let (get, doc) = match is_own || inherited.is_some() {
            true => (format!("{class}.{attribute}.fget"), format!("{class}.{attribute}.__doc__")),
            false => ("None".to_owned(), format!("{class}.{method}.__doc__")),
        };
        writeln!(out, "{class}.{attribute} = _ffi.core.FFIProperty({get}, {class}.{method}, False, None, {doc})")?;
    }
    Ok(())
}
