//! The native hooks of the built-in types: containers visit and mutate their content, texts and
//! numbers are unchanged.

use core::ffi::c_void;

use super::default_mutate::{mutate_by_way, way_of};
use super::default_visit::default_visit;
use super::mutator::table;
use super::outcome::{UNCHANGED, failed, guard, is_error, same};
use super::rebuild::{append, new_like};
use super::visitor::{Visit, as_argument, visit};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::definition::type_def::Attr;
use crate::definition::type_def::FixedTypeAttrs;
use crate::embedded::release::{release, retain};
use crate::embedded::{dec_ref, seq};
use crate::walker::stack_space;

const VISIT: &str = "__s_visit__";
const MUTATE: &str = "__s_mutate__";
const INPLACE: &str = "__s_maybe_inplace_mutate__";

/// Converts a hook; the hooks of all three columns have the same type.
const fn native(hook: Visit) -> Attr {
    Attr::Native(hook as *const c_void)
}

/// The hooks, as attributes.
pub(crate) const ATTRS: FixedTypeAttrs = &[
    (type_index::ARRAY, VISIT, native(visit_container)),
    (type_index::LIST, VISIT, native(visit_container)),
    (type_index::MAP, VISIT, native(visit_container)),
    (type_index::DICT, VISIT, native(visit_container)),
    (type_index::BIG_INT, MUTATE, native(mutate_leaf)),
    (type_index::BIG_INT, INPLACE, native(mutate_leaf)),
    (type_index::STR, MUTATE, native(mutate_leaf)),
    (type_index::STR, INPLACE, native(mutate_leaf)),
    (type_index::BYTES, MUTATE, native(mutate_leaf)),
    (type_index::BYTES, INPLACE, native(mutate_leaf)),
    (type_index::ARRAY, MUTATE, native(mutate_container)),
    (type_index::ARRAY, INPLACE, native(maybe_inplace_mutate_container)),
    (type_index::LIST, MUTATE, native(mutate_container)),
    (type_index::LIST, INPLACE, native(maybe_inplace_mutate_container)),
    (type_index::MAP, MUTATE, native(mutate_container)),
    (type_index::MAP, INPLACE, native(maybe_inplace_mutate_container)),
    (type_index::DICT, MUTATE, native(mutate_container)),
    (type_index::DICT, INPLACE, native(maybe_inplace_mutate_container)),
];

/// The `__s_visit__` hook of containers.
///
/// # Safety
/// The convention of native hooks: `visitor` is a live visitor and `value` a valid view of a
/// container.
unsafe extern "C" fn visit_container(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    unsafe {
        if value.type_index == type_index::ARRAY {
            return visit_array(visitor, value.payload.v_obj);
        }
        guard(|| default_visit(visitor, value))
    }
}

/// An array does not change while other code has a reference to it, so its elements can be
/// borrowed. This cannot panic.
unsafe fn visit_array(visitor: *mut TVMFFIObject, array: *mut TVMFFIObject) -> TVMFFIAny {
    if let Err(error) = stack_space::check() {
        return failed(error);
    }
    // SAFETY: the caller promises a live visitor and a live array.
    unsafe {
        for element in seq::elements(array) {
            let outcome = visit(visitor, *element);
            if outcome.type_index != type_index::NONE {
                return outcome;
            }
        }
    }
    TVMFFIAny::NONE
}

/// The `__s_mutate__` hook of containers.
///
/// # Safety
/// The convention of native hooks: `mutator` is a live mutator and `value` a valid view of a
/// container.
unsafe extern "C" fn mutate_container(mutator: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    unsafe {
        if value.type_index == type_index::ARRAY {
            return mutate_array(mutator, value.payload.v_obj);
        }
        guard(|| mutate_by_way(mutator, &value, way_of(value.type_index), false))
    }
}

/// The `__s_maybe_inplace_mutate__` hook of containers.
///
/// # Safety
/// As for [`mutate_container`]; there is no other reference to the container.
unsafe extern "C" fn maybe_inplace_mutate_container(mutator: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    guard(|| unsafe { mutate_by_way(mutator, &value, way_of(value.type_index), true) })
}

/// An array does not change while other code has a reference to it, so its elements can be
/// borrowed. This cannot panic.
unsafe fn mutate_array(mutator: *mut TVMFFIObject, array: *mut TVMFFIObject) -> TVMFFIAny {
    // SAFETY: the caller promises a live mutator and a live array; the copy is ours and has room
    // for all elements.
    unsafe {
        let mutate = match stack_space::check().and_then(|()| table(mutator)) {
            Ok(table) => table.mutate,
            Err(error) => return failed(error),
        };
        let elements = seq::elements(array);
        let mut copy: *mut TVMFFIObject = core::ptr::null_mut();
        for (index, element) in elements.iter().enumerate() {
            let mut outcome = mutate(mutator, *element);
            if outcome.type_index == type_index::UNCHANGED {
                if copy.is_null() {
                    continue;
                }
                outcome = retain(element);
            } else if is_error(&outcome) {
                if !copy.is_null() {
                    dec_ref(copy);
                }
                return outcome;
            } else if copy.is_null() {
                if same(&outcome, element) {
                    release(outcome);
                    continue;
                }
                copy = new_like(array, elements.len());
                for element in &elements[..index] {
                    append(copy, retain(element));
                }
            }
            append(copy, outcome);
        }
        if copy.is_null() { UNCHANGED } else { as_argument(copy) }
    }
}

/// The hook for visits and mutations of values that have no children and are never changed.
///
/// # Safety
/// None: the arguments are not read.
unsafe extern "C" fn mutate_leaf(_: *mut TVMFFIObject, _: TVMFFIAny) -> TVMFFIAny {
    UNCHANGED
}
