//! The default visit of a value: by its type's hook, else its structural children through the
//! visitor's table.

use core::ffi::c_void;

use super::children::{Children, Step};
use super::interrupt::interrupt_or_error;
use super::outcome::{PENDING, call, failed, is_pending, type_error};
use super::plans::{LEAF, Way};
use super::region::Region;
use super::visitor::{Visit, as_argument, visit};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::walker::stack_space;
use kernpack_core::reflect::{AttrColumn, TypeInfo};

static HOOKS: AttrColumn = AttrColumn::new("__s_visit__");

/// An array or list.
pub(super) const SEQUENCE: Way = 1;
/// A map or dict.
pub(super) const MAP: Way = 2;
/// An object whose fields are visited.
pub(super) const FIELDS: Way = 3;
/// A type with a hook.
const HOOK: Way = 4;

/// The default way of visiting values of a type.
pub(super) fn way_of(type_index: i32) -> Way {
    match type_index {
        type_index::ARRAY | type_index::LIST => SEQUENCE,
        type_index::MAP | type_index::DICT => MAP,
        _ if HOOKS.get(type_index).is_some() => HOOK,
        _ if type_index >= type_index::STATIC_OBJECT_BEGIN => FIELDS,
        _ => LEAF,
    }
}

/// Writes the children of a value in place, without copying them.
///
/// # Safety
/// `visitor` is a live visitor or mutator, and `way` is that of the value's type: [`SEQUENCE`],
/// [`MAP`] or [`FIELDS`]. `place` is writable.
#[inline]
pub(super) unsafe fn begin(place: *mut Children, visitor: *mut TVMFFIObject, value: &TVMFFIAny, way: Way) {
    // SAFETY: promised by the caller: the payload is an object of this type.
    unsafe {
        let object = value.payload.v_obj;
        match way {
            SEQUENCE => place.write(Children::of_sequence(object)),
            MAP => place.write(Children::of_map(object)),
            _ => place.write(Children::of_object(object, TypeInfo::find(value.type_index), Region::of(visitor))),
        }
    }
}

/// The children of a value.
///
/// # Safety
/// As for [`begin`].
#[inline]
pub(super) unsafe fn children(visitor: *mut TVMFFIObject, value: &TVMFFIAny, way: Way) -> Children {
    let mut children = core::mem::MaybeUninit::uninit();
    // SAFETY: promised by the caller; afterwards the children are there.
    unsafe {
        begin(children.as_mut_ptr(), visitor, value, way);
        children.assume_init()
    }
}

/// The outcome of visiting a value that has no children, or that a hook visits; else [`PENDING`].
///
/// # Safety
/// As for [`visit`]; `way` is that of the value's type.
#[inline]
pub(super) unsafe fn visit_whole(visitor: *mut TVMFFIObject, value: &TVMFFIAny, way: Way) -> TVMFFIAny {
    match way {
        LEAF => TVMFFIAny::NONE,
        // SAFETY: promised by the caller.
        HOOK => unsafe { call_hook(visitor, value) },
        _ => PENDING,
    }
}

unsafe fn call_hook(visitor: *mut TVMFFIObject, value: &TVMFFIAny) -> TVMFFIAny {
    let Some(hook) = HOOKS.get(value.type_index) else { return TVMFFIAny::NONE };
    // SAFETY: the caller promises a live visitor and a valid value; a hook that is a pointer is of
    // the column's own convention.
    unsafe {
        let payload = hook.as_raw().payload;
        match hook.type_index() {
            type_index::OPAQUE_PTR if !payload.v_ptr.is_null() => {
                core::mem::transmute::<*mut c_void, Visit>(payload.v_ptr)(visitor, *value)
            }
            type_index::FUNCTION => interrupt_or_error(call(payload.v_obj, &[as_argument(visitor), *value])),
            _ => type_error("__s_visit__ must be an opaque function pointer or ffi.Function"),
        }
    }
}

/// Visits a value by default, its children through the visitor's table.
///
/// # Safety
/// As for [`visit`].
pub(super) unsafe fn default_visit(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    if let Err(error) = stack_space::check() {
        return failed(error);
    }
    // SAFETY: promised by the caller.
    unsafe {
        let way = way_of(value.type_index);
        let outcome = visit_whole(visitor, &value, way);
        if !is_pending(&outcome) {
            return outcome;
        }
        let mut children = children(visitor, &value, way);
        let region = Region::of(visitor);
        let outcome = loop {
            match children.step(region) {
                Step::Child => {}
                Step::Failed(error) => break error,
                Step::Done => break TVMFFIAny::NONE,
            }
            let outcome = visit(visitor, *children.child());
            if outcome.type_index != type_index::NONE {
                break outcome;
            }
        };
        children.end(region);
        outcome
    }
}
