//! The default mutation of a value: by its type's hook, else its structural children through the
//! mutator's table.

use core::ffi::c_void;

use super::default_visit::{self, children};
use super::error_context::record;
use super::mutator::{Mutate, table};
use super::outcome::{PENDING, UNCHANGED, call, failed, is_error, is_pending, same, type_error};
use super::plans::{LEAF, Way};
use super::rebuild::{Identity, Next, Rebuild};
use super::region::{self, Region};
use super::visitor::as_argument;
use crate::abi::{TVMFFIAny, TVMFFIObject, seq_hash_kind, type_index};
use crate::embedded::release::{is_object, release, to_owned};
use crate::object::is_made_by_rust;
use crate::walker::stack_space;
use kernpack_core::reflect::{AttrColumn, TypeInfo};

static HOOKS: AttrColumn = AttrColumn::new("__s_mutate__");
static INPLACE_HOOKS: AttrColumn = AttrColumn::new("__s_maybe_inplace_mutate__");
static COPIES: AttrColumn = AttrColumn::new("__ffi_shallow_copy__");

/// An array or list.
const SEQUENCE: Way = default_visit::SEQUENCE;
/// A map or dict.
const MAP: Way = default_visit::MAP;
/// An object that is copied field by field.
const FIELDS: Way = default_visit::FIELDS;
/// A type with a hook.
const HOOK: Way = 4;
/// Added to one of the other ways: a type with a hook for values that may be changed in place.
const INPLACE_HOOK: Way = 8;

/// The default way of mutating values of a type.
pub(super) fn way_of(type_index: i32) -> Way {
    match type_index {
        type_index::ARRAY | type_index::LIST => return SEQUENCE,
        type_index::MAP | type_index::DICT => return MAP,
        type_index::STR | type_index::BYTES | type_index::BIG_INT => return LEAF,
        _ => {}
    }
    let way = match HOOKS.get(type_index) {
        Some(_) => HOOK,
        None if type_index >= type_index::STATIC_OBJECT_BEGIN => FIELDS,
        None => LEAF,
    };
    // A value of another kind is treated as no hook.
    match INPLACE_HOOKS.get(type_index).map(|hook| hook.type_index()) {
        Some(type_index::OPAQUE_PTR | type_index::FUNCTION) => way | INPLACE_HOOK,
        _ => way,
    }
}

/// The outcome of mutating a value that has no children, or that a hook mutates; else [`PENDING`].
/// The caller adds the value to the context of a failure.
///
/// # Safety
/// `mutator` is a live mutator, `value` a valid view, and `way` is that of the value's type. With
/// `in_place`, there is no other reference to the value, and no other code uses its content.
#[inline]
pub(super) unsafe fn mutate_whole(
    mutator: *mut TVMFFIObject,
    value: &TVMFFIAny,
    way: Way,
    in_place: bool,
) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    unsafe {
        if way & INPLACE_HOOK != 0 && in_place {
            return call_hook(&INPLACE_HOOKS, mutator, value);
        }
        match way & !INPLACE_HOOK {
            LEAF => leaf(value),
            HOOK => call_hook(&HOOKS, mutator, value),
            _ => PENDING,
        }
    }
}

/// The outcome of a value without children: text and numbers on the heap stay unchanged, other
/// values become themselves, owned.
///
/// # Safety
/// `value` is a valid view.
#[inline]
pub(super) unsafe fn leaf(value: &TVMFFIAny) -> TVMFFIAny {
    if is_object(value) {
        return UNCHANGED;
    }
    match value.type_index {
        // SAFETY: the caller promises a valid view.
        type_index::RAW_STR..=type_index::OBJECT_RVALUE_REF => unsafe {
            to_owned(value).unwrap_or_else(|failure| failed(failure.into()))
        },
        _ => *value,
    }
}

unsafe fn call_hook(column: &AttrColumn, mutator: *mut TVMFFIObject, value: &TVMFFIAny) -> TVMFFIAny {
    let Some(hook) = column.get(value.type_index) else { return UNCHANGED };
    // SAFETY: the caller promises a live mutator and a valid value; a hook that is a pointer is of
    // the column's own convention.
    unsafe {
        let payload = hook.as_raw().payload;
        match hook.type_index() {
            type_index::OPAQUE_PTR if !payload.v_ptr.is_null() => {
                core::mem::transmute::<*mut c_void, Mutate>(payload.v_ptr)(mutator, *value)
            }
            type_index::FUNCTION => call(payload.v_obj, &[as_argument(mutator), *value]),
            _ => type_error("__s_mutate__ must be a direct hook pointer or ffi.Function"),
        }
    }
}

/// The beginning of a mutation child by child.
pub(super) enum Begun {
    /// A container.
    Container,
    /// An owned copy of an object, and whether its outcome is recorded.
    Object(*mut TVMFFIObject, Identity),
    /// The final outcome.
    Done(TVMFFIAny),
}

/// Begins to mutate a value child by child. The caller adds the value to the context of a failure.
///
/// # Safety
/// As for [`mutate_whole`], which gave [`PENDING`].
#[inline]
pub(super) unsafe fn begin(mutator: *mut TVMFFIObject, value: &TVMFFIAny, way: Way) -> Begun {
    if way & !INPLACE_HOOK != FIELDS {
        return Begun::Container;
    }
    let info = TypeInfo::find(value.type_index);
    let identity = match info.map_or(seq_hash_kind::UNSUPPORTED, TypeInfo::structural_kind) {
        seq_hash_kind::FREE_VAR => Identity::Variable,
        seq_hash_kind::DAG_NODE => Identity::Shared,
        _ => Identity::None,
    };
    // SAFETY: the caller promises a live mutator and a live object.
    unsafe {
        if identity != Identity::None {
            // Any value except `None` is an answer, including that a definition was left unchanged.
            let mapped = match table(mutator) {
                Ok(table) => (table.var_remap_get)(mutator, *value),
                Err(error) => failed(error),
            };
            if mapped.type_index != type_index::NONE {
                return Begun::Done(mapped);
            }
        }
        if identity == Identity::Variable && Region::of(mutator).get() == region::NONE {
            // A use of a variable without a definition, or whose definition was not changed.
            return Begun::Done(UNCHANGED);
        }
        match copy(value) {
            Ok(copy) => Begun::Object(copy, identity),
            Err(error) => Begun::Done(error),
        }
    }
}

/// The mutation that [`begin`] began, with a container or a copy.
///
/// # Safety
/// As for [`begin`]; `in_place` as for [`mutate_whole`].
#[inline]
pub(super) unsafe fn rebuild(
    mutator: *mut TVMFFIObject,
    value: &TVMFFIAny,
    way: Way,
    in_place: bool,
    copy: *mut TVMFFIObject,
    identity: Identity,
) -> Rebuild {
    // SAFETY: promised by the caller; a copy is of the value's type, and its fields are the ones
    // that are mutated.
    unsafe {
        let walked = if copy.is_null() { *value } else { as_argument(copy) };
        let children = children(mutator, &walked, way & !INPLACE_HOOK);
        Rebuild::new(children, in_place && copy.is_null(), copy, identity)
    }
}

/// A shallow copy of an object; the caller owns the reference.
unsafe fn copy(value: &TVMFFIAny) -> Result<*mut TVMFFIObject, TVMFFIAny> {
    // SAFETY: the caller promises a live object; the column owns the function.
    unsafe {
        let function = match COPIES.get(value.type_index) {
            Some(function) if function.type_index() == type_index::FUNCTION => function.as_raw().payload.v_obj,
            _ if is_made_by_rust(value.type_index) => return Err(no_copy(value.type_index)),
            _ => return Err(type_error("__ffi_shallow_copy__ must be an ffi.Function")),
        };
        let copied = call(function, &[*value]);
        if is_error(&copied) {
            return Err(copied);
        }
        // The source must not be changed, so the copy must be another object.
        if copied.type_index != value.type_index || same(&copied, value) {
            release(copied);
            return Err(type_error(
                "Shallow copy callback must return a distinct object with the same type as its input",
            ));
        }
        Ok(copied.payload.v_obj)
    }
}

#[cold]
fn no_copy(index: i32) -> TVMFFIAny {
    type_error(&format!(
        "objects of type {0} cannot be rewritten, because they cannot be copied: a field of {0} is not `Clone`, or it says \
         `create = false`",
        crate::value::type_key(index)
    ))
}

/// Mutates a value by default, its children through the mutator's table.
///
/// # Safety
/// As for [`mutate_whole`].
pub(super) unsafe fn default_mutate(mutator: *mut TVMFFIObject, value: TVMFFIAny, in_place: bool) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    unsafe {
        let outcome = mutate_by_way(mutator, &value, way_of(value.type_index), in_place);
        if is_error(&outcome) {
            record(&outcome, &value);
        }
        outcome
    }
}

/// Like [`default_mutate`], for a value whose way is known. The caller adds the value to the
/// context of a failure.
///
/// # Safety
/// As for [`mutate_whole`].
pub(super) unsafe fn mutate_by_way(
    mutator: *mut TVMFFIObject,
    value: &TVMFFIAny,
    way: Way,
    in_place: bool,
) -> TVMFFIAny {
    if let Err(error) = stack_space::check() {
        return failed(error);
    }
    // SAFETY: the caller's promises are those of `mutate_whole`.
    unsafe {
        let outcome = mutate_whole(mutator, value, way, in_place);
        if !is_pending(&outcome) {
            return outcome;
        }
        let (copy, identity) = match begin(mutator, value, way) {
            Begun::Container => (core::ptr::null_mut(), Identity::None),
            Begun::Object(copy, identity) => (copy, identity),
            Begun::Done(outcome) => return outcome,
        };
        mutate_children(mutator, value, &mut rebuild(mutator, value, way, in_place, copy, identity))
    }
}

/// The caller adds the value to the context of a failure.
unsafe fn mutate_children(mutator: *mut TVMFFIObject, value: &TVMFFIAny, rebuild: &mut Rebuild) -> TVMFFIAny {
    // SAFETY: the caller promises a live mutator, and the value that the children are of.
    unsafe {
        let region = Region::of(mutator);
        let table = match table(mutator) {
            Ok(table) => table,
            Err(error) => {
                rebuild.abandon(region);
                return failed(error);
            }
        };
        loop {
            let outcome = match rebuild.step(region) {
                Next::Child { child, in_place: true } => (table.maybe_inplace_mutate)(mutator, child),
                Next::Child { child, in_place: false } => (table.mutate)(mutator, child),
                Next::Failed(error) => {
                    rebuild.abandon(region);
                    return error;
                }
                Next::Done => return rebuild.finish(mutator, value, table),
            };
            rebuild.take(outcome);
        }
    }
}
