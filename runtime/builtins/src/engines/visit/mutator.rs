//! `ffi.StructuralMutator`: an object whose table determines how a value is mutated.

use super::default_mutate::default_mutate;
use super::outcome::{guard, into_result};
use super::traversal::{self, Table, Traversal};
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::definition::function::Arguments;
use crate::definition::instance::{copy_function, object_body};
use crate::definition::type_def::{Attr, BuiltinType};
use crate::embedded::is_unique;
use crate::embedded::release::is_object;
use crate::object::is_shared;
use crate::value::Any;

/// Mutates a value and returns an outcome, see [`super::outcome`]. Also the type of native
/// `__s_mutate__` hooks.
pub(super) type Mutate = unsafe extern "C" fn(mutator: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny;

/// The functions of a mutator.
#[repr(C)]
pub(super) struct MutatorTable {
    /// Does not change the value itself.
    pub(super) mutate: Mutate,
    /// May change the value in place: there is no other reference to it.
    pub(super) maybe_inplace_mutate: Mutate,
    /// Returns the value that a variable or shared node was mapped to; `None` if it was not mapped.
    pub(super) var_remap_get: Mutate,
    /// Records the value that a variable or shared node is mapped to.
    pub(super) var_remap_set: RemapSet,
}

/// See [`MutatorTable::var_remap_set`].
pub(super) type RemapSet =
    unsafe extern "C" fn(mutator: *mut TVMFFIObject, var: TVMFFIAny, mapped: TVMFFIAny) -> TVMFFIAny;

impl Table for MutatorTable {
    fn default_table() -> &'static Self {
        &DEFAULT_TABLE
    }
}

object_body!(
    Traversal<MutatorTable>,
    MUTATOR,
    /// The type in signatures.
    pub(super) TYPE = "ffi.StructuralMutator"
);

/// The type.
pub(crate) static MUTATOR: BuiltinType = BuiltinType {
    attrs: &[
        (
            "__ffi_shallow_copy__",
            copy_function::<Traversal<MutatorTable>>("ffi.StructuralMutator.__ffi_shallow_copy__"),
        ),
        ("__ffi_type_final__", Attr::Flag(false)),
    ],
    ..traversal::type_of::<MutatorTable>("ffi.StructuralMutator")
};

static DEFAULT_TABLE: MutatorTable = MutatorTable {
    mutate: mutate_by_default,
    maybe_inplace_mutate: maybe_inplace_mutate_by_default,
    var_remap_get: remember_nothing,
    var_remap_set: forget,
};

unsafe extern "C" fn mutate_by_default(mutator: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of the table.
    guard(|| unsafe { default_mutate(mutator, value, false) })
}

unsafe extern "C" fn maybe_inplace_mutate_by_default(mutator: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of the table.
    guard(|| unsafe { default_mutate(mutator, value, true) })
}

unsafe extern "C" fn remember_nothing(_: *mut TVMFFIObject, _: TVMFFIAny) -> TVMFFIAny {
    TVMFFIAny::NONE
}

unsafe extern "C" fn forget(_: *mut TVMFFIObject, _: TVMFFIAny, _: TVMFFIAny) -> TVMFFIAny {
    TVMFFIAny::NONE
}

/// The functions of a mutator of any language; an error for an object without functions.
///
/// # Safety
/// `mutator` is a live mutator, and the table lives as long as it does.
#[inline]
pub(super) unsafe fn table<'a>(mutator: *mut TVMFFIObject) -> Result<&'a MutatorTable> {
    // SAFETY: promised by the caller.
    unsafe { Traversal::<MutatorTable>::table(mutator).as_ref() }
        .ok_or_else(|| crate::error!(RuntimeError, "a StructuralMutator without a function table cannot mutate"))
}

/// Returns true if a value may be changed in place: an object without other references, which Rust
/// code cannot be reading without a reference of its own.
///
/// # Safety
/// `value` is a valid view.
#[inline]
pub(super) unsafe fn is_exclusive(value: &TVMFFIAny) -> bool {
    // SAFETY: promised by the caller.
    is_object(value) && unsafe { is_unique(value.payload.v_obj) && !is_shared(value.payload.v_obj) }
}

/// Returns the value itself if the outcome is [`UNCHANGED`](super::outcome::UNCHANGED).
pub(super) fn value_or_unchanged(args: &Arguments<'_>, outcome: TVMFFIAny) -> Result<Any> {
    if outcome.type_index == type_index::UNCHANGED {
        return args.owned(1);
    }
    // SAFETY: the outcome is owned and given up.
    unsafe { into_result(outcome) }
}

/// `ffi.StructuralMutatorMutate`.
pub(super) fn run_mutate(args: &Arguments<'_>) -> Result<Any> {
    let mutator = args.object(0);
    // SAFETY: the signature requires a mutator; the caller keeps the arguments alive.
    value_or_unchanged(args, unsafe { (table(mutator)?.mutate)(mutator, *args.view(1).as_raw()) })
}

/// `ffi.StructuralMutatorVarRemapGet`.
pub(super) fn run_remap_get(args: &Arguments<'_>) -> Result<Any> {
    let mutator = args.object(0);
    // SAFETY: the signature requires a mutator; the caller keeps the arguments alive.
    unsafe { into_result((table(mutator)?.var_remap_get)(mutator, *args.view(1).as_raw())) }
}

/// `ffi.StructuralMutatorVarRemapSet`.
pub(super) fn run_remap_set(args: &Arguments<'_>) -> Result<Any> {
    let (mutator, var, mapped) = (args.object(0), *args.view(1).as_raw(), *args.view(2).as_raw());
    // SAFETY: the signature requires a mutator; the caller keeps the arguments alive.
    unsafe { into_result((table(mutator)?.var_remap_set)(mutator, var, mapped)).map(|_| Any::NONE) }
}
