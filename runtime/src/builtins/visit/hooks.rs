//! The native hooks of the built-in types: containers visit and mutate what is in them, texts and numbers stay what they are.

use core::ffi::c_void;

use super::mutator::{maybe_inplace_mutate_container, mutate_container, mutate_leaf};
use super::visitor::{Visit, visit_container};
use crate::abi::type_index;
use crate::builtins::type_def::Attr;
use crate::builtins::types::FixedTypeAttrs;

const VISIT: &str = "__s_visit__";
const MUTATE: &str = "__s_mutate__";
const INPLACE: &str = "__s_maybe_inplace_mutate__";

/// Hooks of all three columns have the same type.
const fn native(hook: Visit) -> Attr {
    Attr::Native(hook as *const c_void)
}

/// The hooks, as attributes.
pub(in crate::builtins) const ATTRS: FixedTypeAttrs = &[
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
