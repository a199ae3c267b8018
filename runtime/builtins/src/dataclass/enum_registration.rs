//! Registers a Rust enum as an enum of the ABI: a type derived from `ffi.IntEnum` or `ffi.StrEnum`,
//! and one object for each variant, which the type's `ffi.EnumState` lists under its integer and
//! its name.

use core::ffi::c_void;

use crate::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFIObject, TVMFFITypeMetadata, seq_hash_kind, type_index};
use crate::definition::type_def::BuiltinType;
use crate::embedded::failure::Failure;
use crate::embedded::{self, list, map, new_string};
use crate::function::{guard_nameless, views};
use crate::object::{EnumDef, EnumKind, RegisteredEnum, VariantDef, register_attr};
use crate::value::{Any, IntoAny};
use crate::{Error, Result, bail, ensure, provider};
use kernpack_core::reflect::{AttrColumn, TypeInfo};

use super::enums::{ENUM, ENUM_STATE, EnumBody, EnumStateBody, INT_ENUM, STR_ENUM};
use crate::definition::instance::instance;

static STATES: AttrColumn = AttrColumn::new("__ffi_enum__");

/// Size of an instance, header included.
const SIZE: i32 = (embedded::HEADER_SIZE + size_of::<EnumBody>()) as i32;

/// Registers an enum and its instances with the provider. If an enum with the same variants is
/// registered already, its instances are used.
///
/// If the key belongs to another type, this artifact's enum gets a key of its own.
#[inline]
pub fn register_enum(def: &'static EnumDef) -> RegisteredEnum {
    let registered = |(type_index, objects): (i32, Vec<*mut TVMFFIObject>), problem| {
        // SAFETY: `register_as` gives the instances of the type, with a reference to each.
        unsafe { RegisteredEnum::new(type_index, &objects, problem) }
    };
    let problem = match parent(def.kind).and_then(|parent| register_as(def, def.key, parent)) {
        Ok(ours) => return registered(ours, None),
        Err(error) => crate::error!(
            TypeError,
            "enum '{}' ({}:{}, crate {}): {}",
            def.key,
            def.file,
            def.line,
            def.crate_name,
            error.message()
        ),
    };
    let own_key = format!("{}@{}:{}", def.key, def.file, def.line);
    let ours = parent(def.kind).and_then(|parent| register_as(def, &own_key, parent)).unwrap_or((-1, vec![]));
    registered(ours, Some(problem))
}

/// The type that enums of this kind are derived from. It is registered if the provider does not
/// have it.
#[inline]
fn parent(kind: EnumKind) -> Result<&'static BuiltinType> {
    for builtin in [&ENUM_STATE, &ENUM, &INT_ENUM, &STR_ENUM] {
        builtin.allocate()?;
        if !builtin.is_registered() {
            builtin.register()?;
        }
    }
    Ok(match kind {
        EnumKind::Int => &INT_ENUM,
        EnumKind::Str => &STR_ENUM,
    })
}

#[inline]
fn register_as(def: &'static EnumDef, key: &str, parent: &BuiltinType) -> Result<(i32, Vec<*mut TVMFFIObject>)> {
    const DEPTH: i32 = 3;
    let api = provider::api();
    let name = TVMFFIByteArray::new(key.as_bytes());
    // SAFETY: the key lives for the call, and the parent is registered.
    let index = unsafe { (api.type_get_or_alloc_index)(&name, -1, DEPTH, 0, 1, parent.index.get()) };
    let Some(info) = TypeInfo::find(index) else {
        bail!(RuntimeError, "the provider refused to register the type");
    };
    let theirs = info.ancestor(DEPTH - 1).filter(|_| info.depth() == DEPTH);
    ensure!(
        theirs.is_some_and(|theirs| theirs.index() == parent.index.get()),
        TypeError,
        "the key is taken by a type that is not derived from {}; use another key",
        parent.key
    );
    match info.metadata() {
        None => register_content(def, index)?,
        Some(metadata) => ensure!(
            metadata.total_size == SIZE && info.own_fields().len() == 0,
            TypeError,
            "the key is taken by an enum with fields of its own; use another key"
        ),
    }
    let objects = match STATES.get(index) {
        None => {
            let state = EnumStateBody::default();
            let objects = add_instances(def, index, &state)?;
            let state = instance(state);
            register_attr(index, "__ffi_enum__", &state)?;
            objects
        }
        Some(value) => {
            ensure!(
                value.type_index() == ENUM_STATE.index.get(),
                TypeError,
                "the type has no {} but a {}",
                ENUM_STATE.key,
                value.type_name()
            );
            // SAFETY: the column keeps the value alive, whose type was checked.
            let state: &EnumStateBody = unsafe { embedded::body(value.as_raw().payload.v_obj) };
            // SAFETY: the state holds a list.
            match &*unsafe { list::shared::elements(state.entries.as_ptr()) } {
                [] => add_instances(def, index, state)?,
                entries => join_instances(def, index, entries)?,
            }
        }
    };
    Ok((index, objects))
}

#[inline]
fn register_content(def: &'static EnumDef, index: i32) -> Result<()> {
    let metadata = TVMFFITypeMetadata {
        doc: TVMFFIByteArray::new(def.doc.as_bytes()),
        // No other code creates instances.
        creator: None,
        total_size: SIZE,
        structural_eq_hash_kind: seq_hash_kind::UNIQUE_INSTANCE,
    };
    // SAFETY: the provider copies the data that it keeps.
    Error::check(unsafe { (provider::api().type_register_metadata)(index, &metadata) })?;
    register_attr(index, "__ffi_type_final__", &true.into_any())?;
    // SAFETY: a new function, whose reference is transferred to the value.
    let to_instance = unsafe { Any::from_object(embedded::new_function(to_instance, def)) };
    register_attr(index, "__ffi_convert__", &to_instance)?;
    // A copy of an instance is the instance.
    register_attr(index, "__ffi_shallow_copy__", &to_instance)?;
    // A rewrite leaves it unchanged. Without this hook it would make a copy, which has to be
    // another object.
    let unchanged: unsafe extern "C" fn(*mut TVMFFIObject, TVMFFIAny) -> TVMFFIAny = unchanged;
    // SAFETY: a plain pointer owns nothing.
    let unchanged = unsafe { Any::from_raw(TVMFFIAny::pointer(type_index::OPAQUE_PTR, unchanged as *mut c_void)) };
    register_attr(index, "__s_mutate__", &unchanged)?;
    register_attr(index, "__s_maybe_inplace_mutate__", &unchanged)
}

/// The ABI's native hook for rewriting: an instance is unchanged.
#[inline]
unsafe extern "C" fn unchanged(_: *mut TVMFFIObject, _: TVMFFIAny) -> TVMFFIAny {
    TVMFFIAny { type_index: type_index::UNCHANGED, ..TVMFFIAny::NONE }
}

/// The function that returns the instance for an instance, an integer or a name.
#[inline]
unsafe extern "C" fn to_instance(
    this: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    guard_nameless(|| {
        // SAFETY: the ABI's calling convention; the handle is a function made with an enum's
        // definition.
        let (def, args) = unsafe { (*embedded::closure_of::<&'static EnumDef>(this), views(args, num_args)) };
        let [value] = args else {
            bail!(TypeError, "expected one value to convert to {}, got {}", def.key, args.len());
        };
        let instance = def.convert(value)?;
        // SAFETY: the ABI's calling convention.
        unsafe { result.write(instance.into_raw()) };
        Ok(())
    })
}

/// Creates the instances of an enum that has none.
#[inline]
fn add_instances(def: &EnumDef, index: i32, state: &EnumStateBody) -> Result<Vec<*mut TVMFFIObject>> {
    let objects: Vec<*mut TVMFFIObject> = def.variants.iter().map(|variant| new_variant(variant, index)).collect();
    let mut docs = Vec::new();
    for (variant, object) in def.variants.iter().zip(&objects) {
        // A new reference for each place that keeps the instance; the initial one is for the Rust
        // side.
        let shared = || {
            // SAFETY: the instance is alive.
            unsafe { embedded::inc_ref(*object) };
            TVMFFIAny::pointer(index, object.cast())
        };
        // SAFETY: the state holds a list and a dict.
        unsafe {
            list::shared::push(state.entries.as_ptr(), shared()).map_err(into_error)?;
            map::shared::set(state.indexes.as_ptr(), TVMFFIAny::int(variant.value), shared()).map_err(into_error)?;
            map::shared::set(state.indexes.as_ptr(), new_string(variant.name.as_bytes()), shared())
                .map_err(into_error)?;
        }
        if !variant.doc.is_empty() {
            docs.push((shared(), new_string(variant.doc.as_bytes())));
        }
    }
    if !docs.is_empty() {
        let docs = map::new_dict(docs).map_err(into_error)?;
        let docs = TVMFFIAny::pointer(type_index::DICT, docs.cast());
        // SAFETY: as above; the reference to the new dict is transferred.
        unsafe { map::shared::set(state.attrs.as_ptr(), new_string(b"doc"), docs).map_err(into_error)? };
    }
    Ok(objects)
}

#[inline]
fn new_variant(variant: &VariantDef, index: i32) -> *mut TVMFFIObject {
    // SAFETY: a new text, whose reference is transferred to the field.
    let str_index = unsafe { Any::from_raw(new_string(variant.name.as_bytes())) };
    embedded::new_object(index, EnumBody { int_index: variant.value, str_index })
}

/// The instances of an enum that another library registered, which must have the same variants.
#[inline]
fn join_instances(def: &EnumDef, index: i32, entries: &[TVMFFIAny]) -> Result<Vec<*mut TVMFFIObject>> {
    let entry = |raw: &TVMFFIAny| {
        // SAFETY: the list keeps the entry alive; objects of an enum's type begin with this body.
        (raw.type_index == index).then(|| unsafe { (raw.payload.v_obj, embedded::body::<EnumBody>(raw.payload.v_obj)) })
    };
    let mut found = Vec::with_capacity(def.variants.len());
    for variant in def.variants {
        let same = |body: &EnumBody| {
            name(body) == variant.name.as_bytes() && (def.kind == EnumKind::Str || body.int_index == variant.value)
        };
        found.extend(entries.iter().filter_map(entry).find(|(_, body)| same(body)).map(|(object, _)| object));
    }
    if found.len() == def.variants.len() && entries.len() == found.len() {
        for object in &found {
            // SAFETY: the list keeps the instance alive; the Rust side takes a reference of its
            // own.
            unsafe { embedded::inc_ref(*object) };
        }
        return Ok(found);
    }
    let list = |variants: &mut dyn Iterator<Item = (i64, String)>| match def.kind {
        EnumKind::Int => variants.map(|(value, name)| format!("{name} = {value}")).collect::<Vec<_>>().join(", "),
        EnumKind::Str => variants.map(|(_, name)| format!("'{name}'")).collect::<Vec<_>>().join(", "),
    };
    let theirs = entries.iter().filter_map(entry);
    let theirs = list(&mut theirs.map(|(_, body)| (body.int_index, String::from_utf8_lossy(name(body)).into_owned())));
    let ours = list(&mut def.variants.iter().map(|variant| (variant.value, variant.name.to_owned())));
    bail!(
        TypeError,
        "the type is already registered in this process with other variants ({theirs}; ours are {ours}); give one of them another \
         key, or build both from the same version"
    )
}

#[inline]
fn name(body: &EnumBody) -> &[u8] {
    // SAFETY: the body owns a text.
    unsafe { embedded::text_of(body.str_index.as_view().as_raw()) }.unwrap_or_default()
}

#[inline]
fn into_error(failure: Failure) -> Error {
    Error::new(failure.kind(), failure.message())
}
