use proc_macro2::TokenStream;
use syn::{Attribute, Ident, LitStr, Meta};

use super::operator::{self, Operator};
use crate::mistakes::Mistakes;
use crate::name::is_slip;
use crate::options::entries;

/// The role that an attribute gives to a function or constant.
pub(super) enum Role {
    Method { name: Option<LitStr>, signature: Option<LitStr>, is_class: bool, detach: Option<bool> },
    Init { signature: Option<LitStr>, detach: Option<bool> },
    Getter { name: Option<LitStr> },
    Setter { name: Option<LitStr>, detach: Option<bool> },
    Operator(Operator),
    TypeAttr { name: LitStr },
    Constant { name: Option<LitStr> },
    Skip,
}

/// Removes this macro's attributes from an item. Returns `Err` if an error was reported, and
/// `Ok(None)` without such an attribute.
pub(super) fn take(attributes: &mut Vec<Attribute>, mistakes: &mut Mistakes) -> Result<Option<Role>, ()> {
    let mut ours = Vec::new();
    attributes.retain(|attribute| {
        let is_ours = NAMES.iter().any(|name| attribute.path().is_ident(name));
        if is_ours {
            ours.push(attribute.clone());
        }
        let advice = attribute.path().get_ident().filter(|_| !is_ours).and_then(|name| advice(&name.to_string()));
        if let Some(advice) = &advice {
            mistakes.at(attribute, format_args!("#[object_methods] has no such attribute; {advice}"));
        }
        !is_ours && advice.is_none()
    });
    let [attribute] = ours.as_slice() else {
        if let Some(second) = ours.get(1) {
            mistakes.at(
                second,
                "one function has one of #[method], #[init], #[getter], #[setter], #[operator], #[type_attr], #[skip]; keep one",
            );
            return Err(());
        }
        return Ok(None);
    };
    role(attribute, mistakes).map(Some).ok_or(())
}

const NAMES: [&str; 8] = ["method", "init", "getter", "setter", "operator", "type_attr", "constant", "skip"];

/// A suggestion for an attribute of another framework, or for a misspelled one of Kernpack.
fn advice(name: &str) -> Option<String> {
    const OF_OTHERS: [(&str, &str); 13] = [
        ("new", "write #[init] on the constructor"),
        ("constructor", "write #[init] on the constructor"),
        ("property", "write #[getter]"),
        ("get", "write #[getter]"),
        ("set", "write #[setter]"),
        ("deleter", "write a method: attributes cannot be deleted"),
        ("staticmethod", "remove it: a function without `self` is a static method"),
        ("classmethod", "write #[method(class)] on a function that returns `Self`"),
        ("static_method", "remove it: a function without `self` is a static method"),
        ("classattr", "write #[constant] on a `const`"),
        ("pyo3", "write #[method(name = \"...\")] for another name, and #[default(...)] on a parameter"),
        ("pymethod", "write #[method], or nothing on a `pub fn`"),
        (
            "packed_func",
            "remove it: each `pub fn` of the impl is a method, and #[method] makes one of a private function",
        ),
    ];
    if let Some((_, instead)) = OF_OTHERS.iter().find(|(other, _)| *other == name) {
        return Some((*instead).to_owned());
    }
    if let Some(meant) = NAMES.iter().find(|known| is_slip(name, known)) {
        return Some(format!("write #[{meant}]"));
    }
    OF_OTHERS.iter().find(|(other, _)| is_slip(name, other)).map(|(_, instead)| (*instead).to_owned())
}

fn role(attribute: &Attribute, mistakes: &mut Mistakes) -> Option<Role> {
    let path = attribute.path();
    if path.is_ident("method") {
        let Options { name, signature, is_class, detach } = options(attribute, OF_METHOD, mistakes)?;
        return Some(Role::Method { name, signature, is_class, detach });
    }
    if path.is_ident("init") {
        let Options { signature, detach, .. } = options(attribute, OF_INIT, mistakes)?;
        return Some(Role::Init { signature, detach });
    }
    if path.is_ident("getter") {
        return Some(Role::Getter { name: options(attribute, NAME, mistakes)?.name });
    }
    if path.is_ident("setter") {
        let Options { name, detach, .. } = options(attribute, OF_SETTER, mistakes)?;
        return Some(Role::Setter { name, detach });
    }
    if path.is_ident("constant") {
        return Some(Role::Constant { name: options(attribute, NAME, mistakes)?.name });
    }
    if path.is_ident("operator") {
        return operator(attribute, mistakes).map(Role::Operator);
    }
    if path.is_ident("type_attr") {
        const EXAMPLE: &str = "#[type_attr(name = \"...\")]";
        let Some(name) = options(attribute, NAME, mistakes)?.name else {
            mistakes.at(attribute, format_args!("a type attribute needs a name; write {EXAMPLE}"));
            return None;
        };
        if let Some(fault) = attribute_name_fault(&name.value()) {
            mistakes.at(&name, fault);
        }
        return Some(Role::TypeAttr { name });
    }
    if !matches!(attribute.meta, Meta::Path(_)) {
        let name = path.get_ident().map(Ident::to_string).unwrap_or_default();
        mistakes.at(attribute, format_args!("#[{name}] takes no options; write #[{name}]"));
    }
    Some(Role::Skip)
}

/// The option of an attribute that only takes a name.
const NAME: &str = "`name = \"...\"`";
/// The options of a method.
const OF_METHOD: &str = "`name = \"...\"`, `signature = \"...\"`, `class` and `detach`";
/// The options of a constructor.
const OF_INIT: &str = "`signature = \"...\"` and `detach`";
/// The options of a setter.
const OF_SETTER: &str = "`name = \"...\"` and `detach`";

/// The options of an attribute.
#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    signature: Option<LitStr>,
    is_class: bool,
    detach: Option<bool>,
}

/// Reads the options that are among the known ones. Returns `None` if an error was reported.
fn options(attribute: &Attribute, known: &'static str, mistakes: &mut Mistakes) -> Option<Options> {
    let mut options = Options::default();
    let tokens = match &attribute.meta {
        Meta::Path(_) => return Some(options),
        Meta::List(list) => list.tokens.clone(),
        Meta::NameValue(_) => {
            let key = attribute.path().get_ident().map(Ident::to_string).unwrap_or_default();
            let option = if known.starts_with("`name") { "name" } else { "signature" };
            mistakes.at(attribute, format_args!("write #[{key}({option} = \"...\")], with the options in parentheses"));
            return None;
        }
    };
    for entry in entries(tokens, known, mistakes) {
        let is_known = known.contains(&format!("`{}", entry.key));
        if is_known && entry.key == "name" {
            options.name = Some(entry.string(mistakes)?);
        } else if is_known && entry.key == "signature" {
            options.signature = Some(entry.string(mistakes)?);
        } else if is_known && entry.key == "class" {
            entry.flag(mistakes);
            options.is_class = true;
        } else if is_known && entry.key == "detach" {
            options.detach = Some(entry.flag_or_boolean(mistakes)?);
        } else {
            entry.unknown(known, mistakes);
            return None;
        }
    }
    Some(options)
}

fn operator(attribute: &Attribute, mistakes: &mut Mistakes) -> Option<Operator> {
    let tokens = match &attribute.meta {
        Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    let Ok(name) = syn::parse2::<Ident>(tokens) else {
        mistakes.at(attribute, format_args!("write #[operator(name)]; the operators are {}", operator::KNOWN));
        return None;
    };
    let found = Operator::named(&name);
    if found.is_none() {
        mistakes.at(
            &name,
            format_args!(
                "unknown operator `{name}`; the operators are {}; others are methods with Python's names, as in \
                 #[method(name = \"__add__\")]",
                operator::KNOWN
            ),
        );
    }
    found
}

/// Returns the problem with the exported name of a method or property, if there is one.
pub(super) fn method_name_fault(name: &str) -> Option<String> {
    let is_identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_identifier {
        return Some(format!(
            "`{name}` is not a name that every language can write; use letters A to Z, digits and `_`"
        ));
    }
    if name.starts_with("__ffi_") {
        return Some(format!("names that begin with `__ffi_` belong to the ABI; use another name than `{name}`"));
    }
    if let Some((_, instead)) = REFUSED_METHODS.iter().find(|(refused, _)| *refused == name) {
        return Some((*instead).to_owned());
    }
    if let Some((_, what)) = TAKEN_METHODS.iter().find(|(taken, _)| *taken == name) {
        return Some(format!("Python would not see `{name}`, which every object or class has; {what}"));
    }
    None
}

/// Methods that Python does not call, or not as written, with what replaces them.
const REFUSED_METHODS: [(&str, &str); 11] = [
    ("__del__", "Python calls `__del__` also when the constructor failed, on no object; implement `Drop`"),
    ("__reduce_ex__", "`__reduce_ex__` returns a class, which Rust code does not have; use `__getnewargs__`"),
    ("__getnewargs_ex__", "a constructor takes all arguments by position; use `__getnewargs__`"),
    ("__getbuffer__", "Python has no method `__getbuffer__`; use `__buffer__`, which returns a `Tensor` or `Bytes`"),
    ("__releasebuffer__", "the result of `__buffer__` is released when its last user is gone; remove the method"),
    ("__release_buffer__", "the result of `__buffer__` is released when its last user is gone; remove the method"),
    (
        "__richcmp__",
        "Python has no method `__richcmp__`; use #[operator(compare)], or `eq`, `ne`, `lt`, `le`, `gt`, `ge`",
    ),
    ("__traverse__", "fields of type `Function` and `Any` are known to Python's garbage collector; remove the method"),
    ("__clear__", "fields of type `Function` and `Any` are known to Python's garbage collector; remove the method"),
    ("__concat__", "Python has no method `__concat__`; use `__add__`"),
    ("__repeat__", "Python has no method `__repeat__`; use `__mul__`"),
];

/// Names that each Python object has, so that stock tvm_ffi does not define a method there.
const TAKEN_METHODS: [(&str, &str); 19] = [
    ("__init__", "use #[init]"),
    ("__new__", "use #[init]"),
    ("__repr__", "use #[operator(repr)]"),
    ("__str__", "use #[operator(str)]"),
    ("__hash__", "use #[operator(hash)]"),
    ("__eq__", "use #[operator(eq)]"),
    ("__ne__", "use #[operator(ne)]"),
    ("__lt__", "use #[operator(lt)]"),
    ("__le__", "use #[operator(le)]"),
    ("__gt__", "use #[operator(gt)]"),
    ("__ge__", "use #[operator(ge)]"),
    ("__getattribute__", "use `__getattr__`, which Python calls for names that the class does not have"),
    ("__setattr__", "use a `Field<T>` with #[field(writable)], or `__setitem__`"),
    ("__class__", "use another name"),
    ("__reduce__", "use `__getnewargs__`, which returns the arguments of the constructor"),
    ("__chandle__", "use another name"),
    ("_move", "use another name"),
    ("mro", "use another name"),
    ("same_as", "use another name"),
];

/// Returns the problem with the name of a type attribute, if there is one.
fn attribute_name_fault(name: &str) -> Option<String> {
    if name.is_empty() || name.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Some("the name of a type attribute is letters, digits and `_`, as in `imagekit.cost`".to_owned());
    }
    let instead = match name {
        "__ffi_init__" => "use #[init]",
        "__ffi_repr__" => "use #[operator(repr)]",
        "__ffi_hash__" => "use #[operator(hash)]",
        "__ffi_eq__" => "use #[operator(eq)]",
        "__ffi_compare__" => "use #[operator(lt)] or #[operator(compare)]",
        "__ffi_new__" | "__ffi_shallow_copy__" | "__ffi_type_final__" | "__ffi_enum__" | "__kernpack_fingerprint__" => {
            "#[derive(Object)] registers it"
        }
        _ => return None,
    };
    Some(format!("the type attribute `{name}` is not free: {instead}"))
}
