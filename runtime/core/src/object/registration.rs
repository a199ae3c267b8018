//! Registration of object types with the provider.
//!
//! A type only joins an existing key if another Kernpack library registered the same definition.
//! Otherwise this artifact's type gets its own key, so that objects of the two types are never
//! confused, and the problem is reported.

use core::panic::Location;
use core::ptr;

use super::copy;
use super::definition::{FieldDef, RegisterInit, TypeDef};
use super::field::default_value;
use super::foreign::FINGERPRINT;
use super::refusal;
use super::type_key::index_of_key;
use crate::abi::{TVMFFIByteArray, TVMFFIFieldInfo, TVMFFITypeInfo, TVMFFITypeMetadata, type_index};
use crate::function::schema_metadata;
use crate::types::AttrColumn;
use crate::value::{Any, IntoAny, Storage, TypeSchema};
use crate::{Error, Function, Result, artifact, provider};

/// The type attribute with the place of a type's definition, for messages.
static ORIGIN: AttrColumn = AttrColumn::new("__kernpack_origin__");

/// The type attribute with the compiler and crate version, which determine the layout of `String`,
/// `Vec` and other Rust types.
static BUILD: AttrColumn = AttrColumn::new("__kernpack_build__");

/// Returns the type's index; binds this artifact to its provider and registers the type if
/// necessary.
#[inline]
pub fn type_index_of(def: &'static TypeDef) -> i32 {
    let index = def.index.get();
    if index >= 0 { index } else { register_late(def) }
}

#[cold]
fn register_late(def: &'static TypeDef) -> i32 {
    // Binding registers every type of this artifact, including this one, unless this call is part
    // of binding.
    provider::api();
    if def.index.get() < 0 {
        // The registration recorded its problems; the index is valid even then, unless the provider
        // rejected the type.
        let _ = register_type(def);
    }
    let index = def.index.get();
    // Objects without a type could be confused. While this artifact binds there are no objects, and
    // the other types must still be registered.
    assert!(
        index >= 0 || provider::bound().is_null(),
        "type '{}' could not be registered; kernpack::load_problems() says why",
        def.key
    );
    index
}

/// Registers a type with the provider, or joins the same type of another Kernpack library.
///
/// # Errors
/// Returns an error if the key is taken by another type; this artifact's type then gets its own
/// key.
pub(crate) fn register_type(def: &'static TypeDef) -> Result<()> {
    if def.index.get() >= 0 {
        return Ok(());
    }
    let parent = (def.parent)();
    let Some(info) = find(def.key)? else { return register_as(def, def.key, parent) };
    let Some(obstacle) = obstacle(def, info, parent) else {
        def.index.set(info.type_index);
        return Ok(());
    };
    register_apart(def, parent)?;
    refusal::refuse();
    Err(crate::error!(TypeError, "type '{}' ({}:{}, crate {}) {obstacle}", def.key, def.file, def.line, def.crate_name))
}

/// Registers a type whose key is taken under its own key. That may be taken as well: other builds
/// of the same file use the same one.
fn register_apart(def: &'static TypeDef, parent: i32) -> Result<()> {
    let own = format!("{}@{}:{}", def.key, def.file, def.line);
    let mut key = own.clone();
    let mut number = 1;
    while let Some(info) = find(&key)? {
        if obstacle(def, info, parent).is_none() {
            def.index.set(info.type_index);
            return Ok(());
        }
        number += 1;
        key = format!("{own}#{number}");
    }
    register_as(def, &key, parent)
}

/// Returns the type that is registered under a key.
fn find(key: &str) -> Result<Option<&'static TVMFFITypeInfo>> {
    let Some(index) = index_of_key(key.as_bytes()) else { return Ok(None) };
    // SAFETY: the result lives forever.
    match unsafe { (provider::api().get_type_info)(index).as_ref() } {
        Some(info) => Ok(Some(info)),
        None => Err(crate::error!(RuntimeError, "the provider has no type '{key}' though it has an index for it")),
    }
}

fn register_as(def: &'static TypeDef, key: &str, parent: i32) -> Result<()> {
    let api = provider::api();
    // SAFETY: the parent is registered; all pointers live for the call.
    let index = unsafe {
        let depth = match (api.get_type_info)(parent) {
            info if info.is_null() => 1,
            info => (*info).type_depth + 1,
        };
        (api.type_get_or_alloc_index)(&TVMFFIByteArray::new(key.as_bytes()), -1, depth, def.child_slots, 1, parent)
    };
    if index < 0 {
        return Err(crate::error!(RuntimeError, "the provider refused to register type '{key}'"));
    }
    // First, so that another thread does not mistake a type under registration for another
    // language's.
    register_attr(index, BUILD.name(), &build().into_any())?;
    register_attr(index, FINGERPRINT.name(), &(def.fingerprint as i64).into_any())?;
    register_attr(index, ORIGIN.name(), &origin(def).into_any())?;
    def.index.set(index);
    def.fields.iter().try_for_each(|field| register_field(index, field))?;
    let settable = def.lineage().all(|def| def.fields.iter().all(|field| field.setter.is_some()));
    let creator = def.create.filter(|_| settable);
    let metadata = TVMFFITypeMetadata {
        doc: TVMFFIByteArray::new(def.doc.as_bytes()),
        creator,
        total_size: def.size as i32,
        structural_eq_hash_kind: def.structural_kind,
    };
    // SAFETY: the provider copies the data that it keeps; `metadata` and the data that it points to
    // live for the call.
    Error::check(unsafe { (api.type_register_metadata)(index, &metadata) })?;
    // A problem in an impl block does not make the rest of the type unusable.
    let methods = super::methods::register(def, index);
    let has_init = methods.as_ref().map_or_else(|_| super::methods::has_constructor(def), |has_init| *has_init);
    if let Some(copy) = copy::copy_function(def) {
        register_attr(index, "__ffi_shallow_copy__", &copy.into_any())?;
    }
    if creator.is_some() {
        register_attr(index, "__ffi_new__", &super::construction::new_function(def).into_any())?;
    }
    let has_init = has_init || register_generated_init(index, def.generated_init.filter(|_| creator.is_some()))?;
    if !has_init {
        // Without a constructor, Python's classes would create instances that do not refer to an
        // object.
        register_attr(index, "__ffi_init__", &super::construction::no_constructor(def).into_any())?;
    }
    if let Some(register) = def.tensor_hooks {
        register()?;
    }
    register_attr(index, "__ffi_type_final__", &def.is_final.into_any())?;
    methods.map(drop)
}

/// Registers the constructor that the provider generates from a type's fields, or else this
/// artifact's. Returns false for a type without one.
fn register_generated_init(index: i32, own: Option<RegisterInit>) -> Result<bool> {
    let Some(own) = own else { return Ok(false) };
    match Function::find_global("ffi._RegisterFFIInit")? {
        Some(register) => register.call((index,)).map(drop)?,
        None => own(index)?,
    }
    Ok(true)
}

/// Sets an attribute of a type.
#[doc(hidden)]
pub fn register_attr(index: i32, name: &str, value: &Any) -> Result<()> {
    let name = TVMFFIByteArray::new(name.as_bytes());
    // SAFETY: the provider takes its own reference to the value; all pointers live for the call.
    Error::check(unsafe { (provider::api().type_register_attr)(index, &name, value.as_view().as_raw()) })
}

fn register_field(index: i32, field: &FieldDef) -> Result<()> {
    let metadata = field_metadata(field);
    let (default, default_flags) = field.default.as_ref().map_or((Any::NONE, 0), default_value);
    let info = TVMFFIFieldInfo {
        name: TVMFFIByteArray::new(field.name.as_bytes()),
        doc: TVMFFIByteArray::new(field.doc.as_bytes()),
        metadata: TVMFFIByteArray::new(metadata.as_bytes()),
        flags: field.flags | default_flags,
        size: field.size as i64,
        alignment: field.align as i64,
        offset: field.offset as i64,
        getter: Some(field.getter),
        setter: field.setter.map_or(ptr::null_mut(), |setter| setter as *mut _),
        default_value_or_factory: *default.as_view().as_raw(),
        field_static_type_index: static_type_index(field),
    };
    // SAFETY: the provider copies the data that it keeps and takes its own reference to the
    // default; `info` and the data that it points to live for the call.
    Error::check(unsafe { (provider::api().type_register_field)(index, &info) })
}

/// The compiler and the version of this crate.
fn build() -> String {
    // A call from inside the standard library, whose sources are in a folder with the compiler's
    // version in its name.
    let compiler = core::iter::repeat_with(Location::caller).next().map_or("", Location::file);
    format!("kernpack {}, {compiler}", env!("CARGO_PKG_VERSION"))
}

/// Describes the place where a type was defined.
fn origin(def: &'static TypeDef) -> String {
    let mut origin = format!("{}:{}, crate {}", def.file, def.line, def.crate_name);
    if let Some(file) = artifact::file_of(ptr::from_ref(def).cast()) {
        origin.push_str(", in ");
        origin.push_str(&file);
    }
    origin
}

/// The metadata of a field in the stock format: a JSON object whose `type_schema` is a JSON string.
fn field_metadata(field: &FieldDef) -> String {
    type_metadata(&field.ty, if field.is_unsigned { ",\"kernpack.unsigned\":true" } else { "" })
}

/// The metadata of a value of this type in the stock format; `more` are additional members of the
/// JSON object.
pub(super) fn type_metadata(ty: &TypeSchema, more: &str) -> String {
    let mut schema = String::new();
    ty.write_json(&mut schema);
    schema_metadata(&schema, more)
}

/// Returns the reason that a type is not the same as the one that is registered under its key;
/// `None` if they are the same.
fn obstacle(def: &TypeDef, info: &'static TVMFFITypeInfo, parent: i32) -> Option<String> {
    const ADVICE: &str = "give one of them another key";
    let Some(fingerprint) = FINGERPRINT.get(info.type_index) else {
        return Some(if info.metadata.is_null() {
            format!(
                "is reserved in this process by another language (a Python class, or a C++ type without reflection); load this library \
                 first, or {ADVICE}"
            )
        } else {
            format!("is already registered in this process by another language, not by a Kernpack crate; {ADVICE}")
        });
    };
    let theirs = ORIGIN.get(info.type_index).and_then(|origin| origin.get::<String>().ok());
    let theirs = theirs.unwrap_or_else(|| "another Kernpack library".to_owned());
    let same_fingerprint = fingerprint.get::<i64>().is_ok_and(|fingerprint| fingerprint == def.fingerprint as i64);
    let their_build = BUILD.get(info.type_index).and_then(|build| build.get::<String>().ok());
    let difference = difference(def, info, parent)
        .or_else(|| {
            (!same_fingerprint).then(|| "its fields have other names or types, perhaps private ones".to_owned())
        })
        .or_else(|| {
            (their_build != Some(build()))
                .then(|| "it was built by another compiler, or on another kernpack".to_owned())
        })?;
    Some(format!(
        "is already registered in this process by {theirs}, with another layout: {difference}; {ADVICE}, or build both from the same \
         version"
    ))
}

/// Describes the first difference between this artifact's type and the one registered under its
/// key.
fn difference(def: &TypeDef, info: &TVMFFITypeInfo, parent: i32) -> Option<String> {
    // SAFETY: the description and its arrays live forever; the counts are the lengths of the
    // arrays.
    unsafe {
        let registered_parent = match info.type_depth {
            0 => -1,
            depth => (**info.type_ancestors.add(depth as usize - 1)).type_index,
        };
        if registered_parent != parent {
            return Some(format!("its parent has type index {registered_parent}, ours {parent}"));
        }
        if !info.metadata.is_null() && (*info.metadata).total_size != def.size as i32 {
            return Some(format!("it has {} bytes, ours {}", (*info.metadata).total_size, def.size));
        }
        // The registered type may have more fields: properties are registered as fields, too.
        if (info.num_fields as usize) < def.fields.len() {
            return Some(format!("it has {} fields, ours {}", info.num_fields, def.fields.len()));
        }
        for (i, ours) in def.fields.iter().enumerate() {
            let theirs = &*info.fields.add(i);
            let name = String::from_utf8_lossy(theirs.name.as_slice());
            if name != ours.name {
                return Some(format!("field {i} is '{name}', ours is '{}'", ours.name));
            }
            if theirs.metadata.as_slice() != field_metadata(ours).as_bytes() || theirs.size != ours.size as i64 {
                return Some(format!(
                    "field '{name}' has another type ({} bytes) than ours ({}, {} bytes)",
                    theirs.size, ours.ty, ours.size
                ));
            }
            if theirs.offset != ours.offset as i64 {
                return Some(format!("field '{name}' is at offset {}, ours at {}", theirs.offset, ours.offset));
            }
        }
    }
    None
}

/// The static index of a field's type. Serializers store values of some of these in place. The
/// stock library also derives the memory representation of the field from it when a Python class
/// derived from the type creates, copies and destroys objects: a value (16 bytes), an object
/// reference (8 bytes, also for an `Option` of one), or else bytes.
fn static_type_index(field: &FieldDef) -> i32 {
    /// Not stored in place; treated as bytes.
    const OTHER: i32 = type_index::OPAQUE_PTR;
    match field.ty.key {
        // May be a big integer, which serializers cannot store in place.
        "int" if field.is_unsigned && field.size == 8 => OTHER,
        // A `NonZero`, which must not be set to 0 in place; a `Field` is larger.
        "int" if field.storage == Storage::Rust && field.size <= 8 => OTHER,
        "int" => type_index::INT,
        "bool" => type_index::BOOL,
        "float" => type_index::FLOAT,
        "DataType" => type_index::DATA_TYPE,
        "Device" => type_index::DEVICE,
        _ if matches!(field.storage, Storage::Rust | Storage::Plain) => OTHER,
        _ if field.storage == Storage::Any => type_index::ANY,
        "ffi.Function" => type_index::FUNCTION,
        "ffi.Shape" => type_index::SHAPE,
        "ffi.Tensor" => type_index::TENSOR,
        "ffi.Array" | "Tuple" => type_index::ARRAY,
        "ffi.Map" => type_index::MAP,
        "ffi.Module" => type_index::MODULE,
        _ => type_index::OBJECT,
    }
}
