//! What a library offers to Python, under the names that it has there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Host;
use super::names::{attribute, is_identifier, own_name};
use crate::Result;
use crate::library::inspection::Inspection;
use crate::library::signature;

/// Everything that becomes an attribute of the package.
pub(crate) struct Api {
    pub(super) functions: Vec<Function>,
    /// A type comes after its parent.
    pub(super) types: Vec<Type>,
    /// Classes of exceptions, and what each is derived from; one comes after its base.
    pub(super) exceptions: Vec<(String, String)>,
    /// What has no name in Python: reached through `__library__`.
    pub(crate) nameless: Vec<String>,
}

pub(super) struct Function {
    /// In Python.
    pub(super) name: String,
    /// In the library, or in the registry.
    pub(super) key: String,
    pub(super) is_global: bool,
    /// Whether it launches a kernel of a device as it is: its last parameters are the grid and the block.
    is_device_kernel: bool,
    /// Whether it says nothing of itself, as a kernel of a device that was not built: only tvm_ffi finds it.
    is_silent: bool,
    pub(super) is_hidden: bool,
    pub(super) signature: Option<signature::Schema>,
    pub(super) doc: String,
}

pub(super) struct Type {
    pub(super) name: String,
    pub(super) is_hidden: bool,
    pub(super) key: String,
    pub(super) base: Base,
    pub(super) doc: String,
    pub(super) fields: Vec<Field>,
    pub(super) methods: Vec<Method>,
    pub(super) constructor: Constructor,
    pub(super) comparison: Comparison,
    /// Of an enum.
    pub(super) variants: Vec<String>,
}

/// What the library defines for objects of a type beyond their members.
pub(super) struct Comparison {
    pub(super) equal: bool,
    pub(super) hash: bool,
    pub(super) order: bool,
}

pub(super) enum Base {
    Object,
    IntEnum,
    StrEnum,
    /// Another type of the library, by its name in Python.
    Own(String),
}

pub(super) enum Constructor {
    /// Of all fields, its parent's first.
    Fields(Vec<Field>),
    /// A function of the library.
    Function(Option<signature::Schema>),
    /// Only the library makes objects of the type.
    None,
}

#[derive(Clone)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) schema: Value,
    pub(super) writable: bool,
    in_constructor: bool,
    pub(super) keyword_only: bool,
    pub(super) has_default: bool,
}

pub(super) struct Method {
    pub(super) name: String,
    pub(super) is_static: bool,
    pub(super) signature: Option<signature::Schema>,
    pub(super) doc: String,
}

impl Api {
    /// Of a loaded library; `package` is the name of the Python package.
    ///
    /// # Errors
    /// Two things that would have the same name.
    pub(crate) fn of(inspection: &Inspection<'_>, package: &str) -> Result<Self> {
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        let mut api = Api { functions: Vec::new(), types: Vec::new(), exceptions: Vec::new(), nameless: Vec::new() };
        let loaded = inspection.loaded.as_ref().ok_or("the library was not loaded")?;
        for function in &inspection.functions {
            let Some(name) = attribute(function.name, package) else {
                api.nameless.push(function.name.to_owned());
                continue;
            };
            take(&mut taken, &name, format!("function {}", function.name))?;
            let name_is_hidden = name.starts_with('_');
            api.functions.push(Function {
                name,
                key: function.name.to_owned(),
                is_global: false,
                is_device_kernel: loaded.metadata(function.name).is_some_and(signature::is_device_kernel),
                is_silent: loaded.metadata(function.name).is_none(),
                is_hidden: name_is_hidden,
                signature: loaded.metadata(function.name).and_then(signature::schema_of_function),
                doc: loaded.doc(function.name).unwrap_or_default().to_owned(),
            });
        }
        let globals = loaded.global_functions().iter().filter_map(Value::as_str).filter(|name| !is_internal(name));
        for key in globals {
            // An exported function often is a global one, too.
            let own = own_name(key, package);
            if api.functions.iter().any(|function| function.key == key || function.key == own) {
                continue;
            }
            let Some(name) = attribute(key, package) else {
                api.nameless.push(key.to_owned());
                continue;
            };
            take(&mut taken, &name, format!("global function {key}"))?;
            let name_is_hidden = name.starts_with('_');
            api.functions.push(Function {
                name,
                key: key.to_owned(),
                is_global: true,
                is_device_kernel: false,
                is_silent: false,
                is_hidden: name_is_hidden,
                signature: loaded.global_metadata(key).and_then(signature::schema_of_function),
                doc: String::new(),
            });
        }
        let mut kinds = loaded.exceptions();
        while let Some(kind) = kinds.keys().find(|kind| !kinds.contains_key(&kinds[*kind])).cloned() {
            let base = kinds.remove(&kind).unwrap_or_default();
            if is_identifier(&kind) && is_identifier(&base) {
                take(&mut taken, &kind, format!("kind of errors {kind}"))?;
                api.exceptions.push((kind, base));
            }
        }
        api.functions.sort_by(|a, b| a.name.cmp(&b.name));
        let types: Vec<&Value> = loaded.types().iter().filter(|ty| !is_internal(text(ty, "key"))).collect();
        let mut left: Vec<&Value> = types.clone();
        // Parents first.
        while !left.is_empty() {
            let waiting = |ty: &Value| left.iter().any(|other| text(other, "key") == text(ty, "parent"));
            let (next, rest): (Vec<&Value>, Vec<&Value>) = left.iter().copied().partition(|ty| !waiting(ty));
            if next.is_empty() {
                return Err("the library's types inherit from each other in a circle".to_owned());
            }
            for ty in next {
                match attribute(text(ty, "key"), package) {
                    Some(name) => {
                        take(&mut taken, &name, format!("type {}", text(ty, "key")))?;
                        let ty = Type::of(ty, name, &types, &api.types);
                        api.types.push(ty);
                    }
                    None => api.nameless.push(text(ty, "key").to_owned()),
                }
            }
            left = rest;
        }
        Ok(api)
    }

    /// The name in Python of a type.
    pub(super) fn type_name(&self, key: &str) -> Option<&str> {
        self.types.iter().find(|ty| ty.key == key).map(|ty| ty.name.as_str())
    }

    /// The classes of exceptions that it offers.
    pub(super) fn exceptions(&self) -> impl Iterator<Item = &str> {
        self.exceptions.iter().map(|(name, _)| name.as_str())
    }

    /// How many functions and types it offers.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let functions = self.functions.iter().filter(|function| !function.is_hidden).count();
        (functions, self.types.iter().filter(|ty| !ty.is_hidden).count())
    }

    /// Hides what the package does not offer, by names of the library or of Python. Kernels of devices are left out, unless they are to
    /// be shown: a function that launches one is what callers want.
    ///
    /// # Errors
    /// A name that nothing has, and what cannot be hidden or shown.
    pub(crate) fn hide(&mut self, hidden: &[String], shown: &[String], host: Host, package: &str) -> Result<()> {
        for wanted in shown {
            let kernel = self.functions.iter().find(|function| function.is(wanted));
            match (kernel, host) {
                (Some(function), Host::TvmFfi) if function.is_device_kernel => {}
                (Some(function), Host::Extension) if function.is_device_kernel => {
                    return Err(format!(
                        "`shown` names '{wanted}', a kernel of a device, which an extension module does not have; write a \
                         #[packed_func] that launches it, or make the wheel with --tvm-ffi"
                    ));
                }
                (Some(_), _) => {
                    return Err(format!(
                        "`shown` names '{wanted}', which is no kernel of a device: it is shown anyway"
                    ));
                }
                (None, _) => return Err(format!("`shown` names '{wanted}', which the library does not have")),
            }
        }
        self.functions.retain(|function| {
            let is_left_out = function.is_device_kernel && !shown.iter().any(|wanted| function.is(wanted));
            !(is_left_out || function.is_silent && host == Host::Extension)
        });
        for wanted in hidden {
            let inside = |key: &str| {
                let is_inside = host == Host::Extension && own_name(key, package).contains('.');
                match is_inside {
                    true => Err(format!(
                        "`hidden` names '{wanted}', which is in a module of the library; only what the package itself has can be hidden"
                    )),
                    false => Ok(()),
                }
            };
            if let Some(function) = self.functions.iter_mut().find(|function| function.is(wanted)) {
                inside(&function.key)?;
                function.is_hidden = true;
            } else if let Some(at) = self.types.iter().position(|ty| ty.name == *wanted || ty.key == *wanted) {
                inside(&self.types[at].key)?;
                let name = &self.types[at].name;
                let is_child = |ty: &&Type| matches!(&ty.base, Base::Own(base) if base == name);
                if let Some(child) = self
                    .types
                    .iter()
                    .find(is_child)
                    .filter(|child| !hidden.iter().any(|other| child.name == *other || child.key == *other))
                {
                    return Err(format!(
                        "`hidden` names '{wanted}', from which {} is derived; hide that, too, or neither",
                        child.name
                    ));
                }
                self.types[at].is_hidden = true;
            } else {
                return Err(format!("`hidden` names '{wanted}', which the library does not have"));
            }
        }
        Ok(())
    }

    /// The names of the extension module that the package does not take over: those with an underscore are not taken anyway.
    pub(super) fn hidden_names(&self) -> impl Iterator<Item = &str> {
        let functions = self.functions.iter().filter(|function| function.is_hidden && !function.is_global);
        let types = self.types.iter().filter(|ty| ty.is_hidden).map(|ty| ty.name.as_str());
        functions.map(|function| function.name.as_str()).chain(types).filter(|name| !name.starts_with('_'))
    }

    /// Leaves out what is hidden.
    pub(crate) fn forget_hidden(&mut self) {
        self.functions.retain(|function| !function.is_hidden);
        self.types.retain(|ty| !ty.is_hidden);
    }
}

/// Of the runtime, not of the library's author.
fn is_internal(name: &str) -> bool {
    name.starts_with("ffi.") || name.starts_with("kernpack.")
}

impl Function {
    /// Whether it has this name, in the library or in Python.
    fn is(&self, name: &str) -> bool {
        self.key == name || self.name == name
    }
}

fn take(taken: &mut BTreeMap<String, String>, name: &str, what: String) -> Result<()> {
    match taken.insert(name.to_owned(), what.clone()) {
        None => Ok(()),
        Some(other) => {
            Err(format!("the {other} and the {what} would both be called '{name}' in Python; rename one of them"))
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

impl Type {
    fn of(ty: &Value, name: String, all: &[&Value], known: &[Type]) -> Self {
        let parent = text(ty, "parent");
        let base = match known.iter().find(|known| known.key == parent) {
            Some(known) => Base::Own(known.name.clone()),
            None if parent == "ffi.IntEnum" => Base::IntEnum,
            None if parent == "ffi.StrEnum" => Base::StrEnum,
            None => Base::Object,
        };
        let methods = list(ty, "methods");
        let init = methods.iter().find(|method| text(method, "name") == "__ffi_init__");
        let constructor = match init {
            Some(init) => Constructor::Function(signature::schema_of_function(text(init, "metadata"))),
            None if flag(ty, "constructible") => Constructor::Fields(constructor_fields(ty, all)),
            None => Constructor::None,
        };
        let methods = methods.iter().filter(|method| is_shown(text(method, "name")));
        let variants = list(ty, "variants").iter().filter_map(Value::as_str).filter(|name| is_identifier(name));
        Self {
            is_hidden: name.starts_with('_'),
            name,
            key: text(ty, "key").to_owned(),
            base,
            doc: text(ty, "doc").to_owned(),
            fields: fields(ty).collect(),
            methods: methods.map(Method::of).collect(),
            constructor,
            comparison: Comparison { equal: flag(ty, "equal"), hash: flag(ty, "hash"), order: flag(ty, "order") },
            variants: variants.map(str::to_owned).collect(),
        }
    }
}

/// Operators are part of the interface, hooks of the runtime are not.
fn is_shown(method: &str) -> bool {
    is_identifier(method) && !method.starts_with("__ffi_") && !method.starts_with("__s_")
}

fn fields(ty: &Value) -> impl Iterator<Item = Field> {
    list(ty, "fields").iter().filter(|field| is_identifier(text(field, "name"))).map(|field| Field {
        name: text(field, "name").to_owned(),
        schema: signature::schema(text(field, "metadata")).unwrap_or_default(),
        writable: flag(field, "writable"),
        in_constructor: flag(field, "in_constructor"),
        keyword_only: flag(field, "keyword_only"),
        has_default: flag(field, "has_default"),
    })
}

/// Fields of the whole lineage in the order of the generated constructor: by position first, then by keyword only.
fn constructor_fields(ty: &Value, all: &[&Value]) -> Vec<Field> {
    let mut lineage = vec![ty];
    // More generations would be an attack.
    while let Some(parent) =
        lineage.last().and_then(|ty| all.iter().find(|other| text(other, "key") == text(ty, "parent")))
        && lineage.len() < 64
    {
        lineage.push(parent);
    }
    let all = lineage.into_iter().rev().flat_map(fields).filter(|field| field.in_constructor);
    let (keyword, mut position): (Vec<Field>, Vec<Field>) = all.partition(|field| field.keyword_only);
    // What has no default comes first.
    position.sort_by_key(|field| field.has_default);
    position.extend(keyword);
    position
}

impl Method {
    fn of(method: &Value) -> Self {
        Self {
            name: text(method, "name").to_owned(),
            is_static: flag(method, "static"),
            signature: signature::schema_of_function(text(method, "metadata")),
            doc: text(method, "doc").to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_once() {
        let mut taken = BTreeMap::new();
        take(&mut taken, "crop", "function crop".to_owned()).unwrap();
        assert_eq!(
            take(&mut taken, "crop", "function kit.crop".to_owned()).unwrap_err(),
            "the function crop and the function kit.crop would both be called 'crop' in Python; rename one of them"
        );
    }
}
