//! Registration of the members that `#[object_methods]` describes: methods, constructors,
//! properties, operators and type attributes.

use core::ffi::c_void;

use super::brought::brought;
use super::registration::{register_attr, type_metadata};
use super::{Object, TypeDef};
use crate::abi::{
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldGetter, TVMFFIFieldInfo, TVMFFIFieldSetter, TVMFFIMethodInfo, field_flag,
    type_index,
};
use crate::function::{FunctionInfo, FunctionRole, guard_nameless};
use crate::value::Any;
use crate::{Error, Result, embedded, provider};

/// The methods of one impl block.
pub struct MethodsDef {
    /// The type's definition.
    pub ty: fn() -> Option<&'static TypeDef>,
    /// The type's key.
    pub key: &'static str,
    /// The methods of the block.
    pub members: &'static [MethodDef],
    /// Crate that contains the block.
    pub crate_name: &'static str,
    /// Source file of the block.
    pub file: &'static str,
    /// Line of the block in `file`.
    pub line: u32,
}

/// A member of an impl block.
pub enum MethodDef {
    /// A method.
    Method {
        /// Name.
        name: &'static str,
        /// The function.
        info: &'static FunctionInfo,
        /// True if the method does not take the object.
        is_static: bool,
    },
    /// The constructor.
    Constructor {
        /// The function.
        info: &'static FunctionInfo,
    },
    /// A value that is computed from the object and read like a field.
    Property {
        /// Name.
        name: &'static str,
        /// Documentation and result.
        info: &'static FunctionInfo,
        /// Computes the value; called with the object itself.
        getter: TVMFFIFieldGetter,
    },
    /// A type attribute that is a function.
    Hook {
        /// Name of the attribute.
        attribute: &'static str,
        /// The function.
        info: &'static FunctionInfo,
        /// Compares and hashes such objects for callers that do not traverse values themselves;
        /// `None` in artifacts without such callers.
        recursion: Option<&'static Recursion>,
    },
    /// A type attribute that is a value.
    Constant {
        /// Name of the attribute.
        attribute: &'static str,
        /// Creates the value.
        value: fn() -> Any,
    },
}

/// `==`, `<` and `hash` of values, recursively, by the hooks of their types. Only present in
/// artifacts with a type that has such a hook.
pub struct Recursion {
    /// Returns whether two values are equal.
    pub equal: fn(&Any, &Any) -> Result<bool>,
    /// Returns the order of two values.
    pub compare: fn(&Any, &Any) -> Result<core::cmp::Ordering>,
    /// Returns the hash of a value.
    pub hash: fn(&Any) -> Result<u64>,
}

/// A type that has its own constructor. Only generated code implements it, once per type, so that a
/// second `#[init]` does not compile.
pub trait HasConstructor: Object {}

/// The name of a method in messages, `<type key>.<method>`, concatenated at compile time.
pub struct MethodName<const N: usize>([u8; N]);

/// Length of a [`MethodName`].
pub const fn method_name_len(key: &str, name: &str) -> usize {
    key.len() + 1 + name.len()
}

impl<const N: usize> MethodName<N> {
    /// Joins the type key and the name; `N` is their [`method_name_len`].
    pub const fn new(key: &str, name: &str) -> Self {
        let mut text = [b'.'; N];
        let (start, end) = text.split_at_mut(key.len());
        start.copy_from_slice(key.as_bytes());
        end.split_at_mut(1).1.copy_from_slice(name.as_bytes());
        Self(text)
    }

    /// The name.
    pub const fn as_str(&self) -> &str {
        match core::str::from_utf8(&self.0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

/// Expands to a [`MethodName`] as a string.
#[doc(hidden)]
#[macro_export]
macro_rules! __method_name {
    ($key:ident, $name:literal) => {{
        const NAME: &$crate::generated_code::MethodName<{ $crate::generated_code::method_name_len($key, $name) }> =
            &$crate::generated_code::MethodName::new($key, $name);
        NAME.as_str()
    }};
}

/// Name of the constructor, both as a method and as a type attribute.
const INIT: &str = "__ffi_init__";

/// The members that the impl blocks of this artifact define for a type.
fn members(def: &'static TypeDef) -> impl Iterator<Item = (&'static MethodsDef, &'static MethodDef)> {
    let of_type = move |block: &&MethodsDef| (block.ty)().is_some_and(|ty| core::ptr::eq(ty, def));
    brought().methods.iter().filter(of_type).flat_map(|block| block.members.iter().map(move |member| (block, member)))
}

/// Returns whether a type has its own constructor.
pub(crate) fn has_constructor(def: &'static TypeDef) -> bool {
    members(def).any(|(_, member)| matches!(member, MethodDef::Constructor { .. }))
}

/// Registers all members that the impl blocks of this artifact define for a type whose own fields
/// are registered. Returns whether the type has a constructor now.
///
/// # Errors
/// Describes all members that could not be registered, one sentence each; the others are registered
/// nevertheless.
pub(crate) fn register(def: &'static TypeDef, index: i32) -> Result<bool> {
    let mut problems = Vec::new();
    let mut seen = Vec::new();
    let mut has_constructor = false;
    for (block, member) in members(def) {
        if let Err(problem) = check_name(def, member, &mut seen) {
            problems.push(format!(
                "type '{}' ({}:{}, crate {}): {problem}",
                def.key, block.file, block.line, block.crate_name
            ));
            continue;
        }
        has_constructor |= matches!(member, MethodDef::Constructor { .. });
        if let Err(error) = member.register(index) {
            problems.push(error.message().to_owned());
        }
    }
    if problems.is_empty() { Ok(has_constructor) } else { Err(Error::runtime_error(problems.join("\n"))) }
}

/// Checks that no other member has the same name.
fn check_name(
    def: &'static TypeDef,
    member: &MethodDef,
    seen: &mut Vec<(bool, &'static str)>,
) -> core::result::Result<(), String> {
    let (is_attribute, name) = match member {
        MethodDef::Method { name, .. } | MethodDef::Property { name, .. } => (false, *name),
        MethodDef::Constructor { .. } => (true, INIT),
        MethodDef::Hook { attribute, .. } | MethodDef::Constant { attribute, .. } => (true, *attribute),
    };
    if seen.contains(&(is_attribute, name)) {
        let what = if is_attribute { "type attributes are" } else { "methods are" };
        return Err(format!("two {what} called '{name}'; give one of them another name"));
    }
    seen.push((is_attribute, name));
    if is_attribute {
        return Ok(());
    }
    if let MethodDef::Method { name, info, .. } = member
        && info.role == FunctionRole::Setter
    {
        check_setter(def, name)?;
    }
    let mut owner = Some(def);
    while let Some(ty) = owner {
        if ty.fields.iter().any(|field| field.name == name) {
            let attribute = if matches!(member, MethodDef::Property { .. }) { "getter" } else { "method" };
            return Err(format!(
                "'{name}' is a field of {} already, so other languages cannot reach the function of this name; use \
                 #[{attribute}(name = \"...\")], or #[skip] to keep it for Rust alone",
                ty.key
            ));
        }
        let is_same = |other: &MethodDef| match other {
            // The setter of an ancestor would not write the attribute of this type.
            MethodDef::Method { name: taken, info, .. } if info.role == FunctionRole::Setter => {
                *taken == name || taken.strip_prefix("set_") == Some(name)
            }
            MethodDef::Method { name: taken, .. } | MethodDef::Property { name: taken, .. } => *taken == name,
            _ => false,
        };
        if !core::ptr::eq(ty, def) && members(ty).any(|(_, other)| is_same(other)) {
            return Err(format!(
                "'{name}' is a function of its ancestor {} already, and Python's classes keep that one; use another name, or one function in \
                 {} that does what each type needs",
                ty.key, ty.key
            ));
        }
        owner = (ty.parent_def)();
    }
    Ok(())
}

/// Checks that the attribute of a setter, a method of this name, can be read at most.
fn check_setter(def: &'static TypeDef, name: &str) -> core::result::Result<(), String> {
    let attribute = name.strip_prefix("set_").unwrap_or(name);
    let mut owner = Some(def);
    while let Some(ty) = owner {
        let is_writable =
            ty.fields.iter().any(|field| field.name == attribute && field.flags & field_flag::WRITABLE != 0);
        let is_method =
            members(ty).any(|(_, other)| matches!(other, MethodDef::Method { name: taken, .. } if *taken == attribute));
        if is_writable || is_method {
            let what = if is_writable { "a writable field" } else { "a method" };
            return Err(format!(
                "'{attribute}' is {what} of {} already, so a setter cannot write it; use another name with #[setter(name = \"...\")]",
                ty.key
            ));
        }
        owner = (ty.parent_def)();
    }
    Ok(())
}

impl MethodDef {
    fn register(&self, index: i32) -> Result<()> {
        match *self {
            Self::Method { name, info, is_static } => {
                register_method(index, name, info, is_static, function(info).as_view().as_raw())
            }
            Self::Constructor { info } => {
                let function = function(info);
                register_method(index, INIT, info, true, function.as_view().as_raw())?;
                register_attr(index, INIT, &function)
            }
            Self::Property { name, info, getter } => register_property(index, name, info, getter),
            Self::Hook { attribute, info, .. } => register_attr(index, attribute, &function(info)),
            Self::Constant { attribute, value } => register_attr(index, attribute, &value()),
        }
    }
}

/// Creates a function object for an entry point of this artifact.
fn function(info: &FunctionInfo) -> Any {
    // SAFETY: a new object; the value takes ownership of its one reference.
    unsafe { Any::from_object(embedded::new_function(info.call, ())) }
}

fn register_method(index: i32, name: &str, info: &FunctionInfo, is_static: bool, function: &TVMFFIAny) -> Result<()> {
    let metadata = info.metadata_json();
    let method = TVMFFIMethodInfo {
        name: TVMFFIByteArray::new(name.as_bytes()),
        doc: TVMFFIByteArray::new(info.doc.as_bytes()),
        metadata: TVMFFIByteArray::new(metadata.as_bytes()),
        flags: if is_static { field_flag::IS_STATIC_METHOD } else { 0 },
        method: *function,
    };
    // SAFETY: the provider copies the strings and takes its own reference; all of it lives for the
    // call.
    Error::check(unsafe { (provider::api().type_register_method)(index, &method) })
}

/// Registers a property as a field of size 0 at the object's own address, so that the getter
/// receives the object. Its static type is None, so that serializers write null for it and copies
/// do not copy bytes; its default, None, is set when an object is created.
fn register_property(index: i32, name: &str, info: &FunctionInfo, getter: TVMFFIFieldGetter) -> Result<()> {
    const FLAGS: i64 = field_flag::HAS_DEFAULT
        | field_flag::INIT_OFF
        | field_flag::REPR_OFF
        | field_flag::COMPARE_OFF
        | field_flag::HASH_OFF
        | field_flag::SEQ_HASH_IGNORE;
    let metadata = type_metadata(&info.ret, "");
    let setter: TVMFFIFieldSetter = set_property;
    let field = TVMFFIFieldInfo {
        name: TVMFFIByteArray::new(name.as_bytes()),
        doc: TVMFFIByteArray::new(info.doc.as_bytes()),
        metadata: TVMFFIByteArray::new(metadata.as_bytes()),
        flags: FLAGS,
        size: 0,
        alignment: 1,
        offset: 0,
        getter: Some(getter),
        setter: setter as *mut c_void,
        default_value_or_factory: TVMFFIAny::NONE,
        field_static_type_index: type_index::NONE,
    };
    // SAFETY: the provider copies the data that it keeps; `field` and the data that it points to
    // live for the call.
    Error::check(unsafe { (provider::api().type_register_field)(index, &field) })
}

/// The setter of properties. Code that loads and copies objects sets every field: to None from JSON
/// and as the default, and to the getter's result when copying. A property follows from the fields,
/// so None is ignored; anything else is an error.
unsafe extern "C" fn set_property(_: *mut c_void, value: *const TVMFFIAny) -> i32 {
    guard_nameless(|| {
        // SAFETY: the caller of a setter passes a valid view.
        let index = unsafe { (*value).type_index };
        if index == type_index::NONE || index >= type_index::STATIC_OBJECT_BEGIN {
            return Ok(());
        }
        Err(Error::new("AttributeError", "a property is computed from the fields of its object and cannot be set"))
    })
}
