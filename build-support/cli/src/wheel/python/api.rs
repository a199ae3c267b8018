//! The Python API of a library, under the names that it has in Python.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Host;
use super::names::{attribute, is_identifier, own_name, place};
use super::setter::Setter;
use crate::Result;
use crate::library::inspection::Inspection;
use crate::library::signature;

/// All items that become attributes of the package.
pub(crate) struct Api {
    pub(super) functions: Vec<Function>,
    /// The types. A type comes after its parent.
    pub(super) types: Vec<Type>,
    /// Exception classes with their base classes. A class comes after its base.
    pub(super) exceptions: Vec<(String, String)>,
    /// Items without a name in Python, which are accessible through `__library__`.
    pub(crate) nameless: Vec<String>,
}

pub(super) struct Function {
    /// The inner module that contains it, with dots. Empty for the package itself.
    pub(super) module: String,
    /// The name in Python.
    pub(super) name: String,
    /// The name in the library, or in the registry.
    pub(super) key: String,
    pub(super) is_global: bool,
    /// True if the function launches a device kernel directly: its last parameters are the grid and
    /// the block.
    pub(super) is_device_kernel: bool,
    /// True if the function has no description, like a device kernel that was not built. Only
    /// tvm_ffi finds it.
    pub(super) is_silent: bool,
    pub(super) is_hidden: bool,
    pub(super) signature: Option<signature::Schema>,
    pub(super) doc: String,
}

pub(super) struct Type {
    /// The inner module that contains it, with dots. Empty for the package itself.
    pub(super) module: String,
    /// The name of its class. A class that is an attribute of another class has a separate name in
    /// the stub.
    pub(super) name: String,
    /// Classes that are attributes of this one: their names in it, and their keys.
    pub(super) inner: Vec<(String, String)>,
    pub(super) is_hidden: bool,
    pub(super) key: String,
    pub(super) base: Base,
    pub(super) doc: String,
    pub(super) fields: Vec<Field>,
    pub(super) methods: Vec<Method>,
    /// The methods that write attributes.
    pub(super) setters: Vec<Setter>,
    pub(super) constructor: Constructor,
    pub(super) comparison: Comparison,
    /// The variants of an enum.
    pub(super) variants: Vec<String>,
}

/// The operations that the library defines for objects of a type in addition to their members.
pub(super) struct Comparison {
    pub(super) equal: bool,
    pub(super) hash: bool,
    pub(super) order: bool,
}

impl Comparison {
    /// Returns true if objects are hashable. As in Python, objects with their own comparison
    /// operator only have a hash if they define one.
    pub(super) fn is_hashable(&self) -> bool {
        self.hash || !self.equal && !self.order
    }
}

pub(super) enum Base {
    Object,
    IntEnum,
    StrEnum,
    /// Another type of the library, by its key.
    Own(String),
}

pub(super) enum Constructor {
    /// A constructor with all fields, the parent's first.
    Fields(Vec<Field>),
    /// A function of the library.
    Function(Option<signature::Schema>),
    /// Only the library creates objects of the type.
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
    /// Reads the API of a loaded library. `package` is the name of the Python package. In an
    /// extension module, dots in names create inner modules and classes: `colors.mix` is in an
    /// inner module, and `Expr.Add` in a class; a global function that the library registers by
    /// hand is not included. With tvm_ffi, dots become underscores.
    ///
    /// # Errors
    /// Returns an error for two items with the same name.
    pub(crate) fn of(inspection: &Inspection<'_>, package: &str, host: Host) -> Result<Self> {
        let find = |name: &str| match host {
            Host::Extension => place(name, package).map(|(module, name)| (module.to_owned(), name.to_owned())),
            Host::TvmFfi => attribute(name, package).map(|name| (String::new(), name)),
        };
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        let mut api = Api { functions: Vec::new(), types: Vec::new(), exceptions: Vec::new(), nameless: Vec::new() };
        let loaded = inspection.loaded.as_ref().ok_or("the library was not loaded")?;
        for function in &inspection.functions {
            let Some((module, name)) = find(function.name) else {
                api.nameless.push(function.name.to_owned());
                continue;
            };
            take(&mut taken, &module, &name, format!("function {}", function.name))?;
            let name_is_hidden = name.starts_with('_');
            api.functions.push(Function {
                module,
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
        for key in globals.filter(|_| host == Host::TvmFfi) {
            // An exported function is often a global function, too.
            let own = own_name(key, package);
            if api.functions.iter().any(|function| function.key == key || function.key == own) {
                continue;
            }
            let Some((module, name)) = find(key) else {
                api.nameless.push(key.to_owned());
                continue;
            };
            take(&mut taken, &module, &name, format!("global function {key}"))?;
            let name_is_hidden = name.starts_with('_');
            api.functions.push(Function {
                module,
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
                take(&mut taken, "", &kind, format!("kind of errors {kind}"))?;
                api.exceptions.push((kind, base));
            }
        }
        api.functions.sort_by(|a, b| (&a.module, &a.name).cmp(&(&b.module, &b.name)));
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
                let key = text(ty, "key");
                match find(key) {
                    Some((module, name)) => {
                        take(&mut taken, &module, &name, format!("type {key}"))?;
                        let new = Type::of(ty, module, name, &types, &api.types);
                        api.types.push(new);
                    }
                    None => api.nameless.push(key.to_owned()),
                }
            }
            left = rest;
        }
        if host == Host::Extension {
            api.move_into_classes(package);
        }
        Ok(api)
    }

    /// Turns types and functions whose names start with the name of a type into attributes of its
    /// class. The library lists its items in no particular order, so the classes are only known at
    /// this point.
    fn move_into_classes(&mut self, package: &str) {
        let places: BTreeMap<String, usize> =
            self.types.iter().enumerate().map(|(at, ty)| (own_name(&ty.key, package).to_owned(), at)).collect();
        // By depth: the module of a class is that of the outermost class.
        let mut order: Vec<usize> = (0..self.types.len()).collect();
        order.sort_by_key(|at| own_name(&self.types[*at].key, package).split('.').count());
        for at in order {
            if let Some(outer) = places.get(&self.types[at].module).copied() {
                let module = self.types[outer].module.clone();
                let inner = self.types[at].move_into_class(module, package);
                self.types[outer].inner.push(inner);
            }
        }
        let (inside, functions) =
            std::mem::take(&mut self.functions).into_iter().partition(|function| places.contains_key(&function.module));
        self.functions = functions;
        for Function { module, name, signature, doc, .. } in inside {
            self.types[places[&module]].methods.push(Method { name, is_static: true, signature, doc });
        }
    }

    /// Returns the type of the library with this key.
    pub(super) fn type_of(&self, key: &str) -> Option<&Type> {
        self.types.iter().find(|ty| ty.key == key)
    }

    /// Returns the inner modules, by their names with dots. A module comes after the one that
    /// contains it.
    pub(crate) fn modules(&self) -> Vec<String> {
        let functions = self.functions.iter().map(|function| function.module.as_str());
        let modules =
            functions.chain(self.types.iter().map(|ty| ty.module.as_str())).filter(|module| !module.is_empty());
        let mut all = BTreeSet::new();
        for module in modules {
            let ends = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
            all.extend(ends.map(|end| module[..end].to_owned()));
        }
        all.into_iter().collect()
    }

    /// Returns the exception classes of the library.
    pub(super) fn exceptions(&self) -> impl Iterator<Item = &str> {
        self.exceptions.iter().map(|(name, _)| name.as_str())
    }

    /// The numbers of public functions and types.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let functions = self.functions.iter().filter(|function| !function.is_hidden).count();
        (functions, self.types.iter().filter(|ty| !ty.is_hidden).count())
    }
}

/// Returns true if the name belongs to the runtime, not to the library's author.
fn is_internal(name: &str) -> bool {
    name.starts_with("ffi.") || name.starts_with("kernpack.")
}

fn take(taken: &mut BTreeMap<String, String>, module: &str, name: &str, what: String) -> Result<()> {
    let name = if module.is_empty() { name.to_owned() } else { format!("{module}.{name}") };
    match taken.insert(name.clone(), what.clone()) {
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
    fn of(ty: &Value, module: String, name: String, all: &[&Value], known: &[Type]) -> Self {
        let parent = text(ty, "parent");
        let base = match known.iter().find(|known| known.key == parent) {
            Some(known) => Base::Own(known.key.clone()),
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
        let (setters, methods): (Vec<Method>, Vec<Method>) = methods
            .map(Method::of)
            .partition(|method| method.signature.as_ref().is_some_and(|schema| schema.is_setter));
        let inherited: Vec<Field> = lineage(ty, all).into_iter().skip(1).flat_map(fields).collect();
        let variants = list(ty, "variants").iter().filter_map(Value::as_str).filter(|name| is_identifier(name));
        Self {
            is_hidden: name.starts_with('_'),
            module,
            name,
            inner: Vec::new(),
            key: text(ty, "key").to_owned(),
            base,
            doc: text(ty, "doc").to_owned(),
            fields: fields(ty).collect(),
            methods,
            setters: setters.iter().filter_map(|method| Setter::of(method, &inherited)).collect(),
            constructor,
            comparison: Comparison { equal: flag(ty, "equal"), hash: flag(ty, "hash"), order: flag(ty, "order") },
            variants: variants.map(str::to_owned).collect(),
        }
    }
}

impl Type {
    /// Turns the type into an attribute of another class in this module: a class of the module with
    /// a separate name. Returns the name of the attribute, and the key.
    fn move_into_class(&mut self, module: String, package: &str) -> (String, String) {
        let own = own_name(&self.key, package);
        let inside = own.strip_prefix(&module).unwrap_or(own).trim_start_matches('.');
        let name = std::mem::replace(&mut self.name, format!("_{}", inside.replace('.', "_")));
        self.module = module;
        (name, self.key.clone())
    }
}

/// Returns true for operators, which are part of the interface, and false for hooks of the runtime.
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

/// Returns a type and its ancestors.
fn lineage<'a>(ty: &'a Value, all: &[&'a Value]) -> Vec<&'a Value> {
    let mut lineage = vec![ty];
    // More generations would be an attack.
    while let Some(parent) =
        lineage.last().and_then(|ty| all.iter().find(|other| text(other, "key") == text(ty, "parent")))
        && lineage.len() < 64
    {
        lineage.push(*parent);
    }
    lineage
}

/// Returns the fields of a type and all its ancestors in the order of the generated constructor:
/// positional ones first, then keyword-only ones.
fn constructor_fields(ty: &Value, all: &[&Value]) -> Vec<Field> {
    let all = lineage(ty, all).into_iter().rev().flat_map(fields).filter(|field| field.in_constructor);
    let (keyword, mut position): (Vec<Field>, Vec<Field>) = all.partition(|field| field.keyword_only);
    // Fields without a default come first.
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
        take(&mut taken, "", "crop", "function crop".to_owned()).unwrap();
        assert_eq!(
            take(&mut taken, "", "crop", "function kit.crop".to_owned()).unwrap_err(),
            "the function crop and the function kit.crop would both be called 'crop' in Python; rename one of them"
        );
    }
}
