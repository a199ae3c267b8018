//! Structural visit, walk, map and mutate, and the record of visited objects in errors.
//!
//! A visitor or mutator is an object with a table of functions that any language fills (`visitor`,
//! `mutator`). By default, a value is visited by its type's hook (`__s_visit__`, `__s_mutate__`,
//! `__s_maybe_inplace_mutate__`; `hooks` has those of the built-in types), else through its
//! structural children (`default_visit`, `children`; `default_mutate`, `rebuild`). `walk` and `map`
//! are our own visitors and mutators, which call callbacks (`links`, `plans`). They keep their
//! position in a value on the heap (`frames`), so that only foreign hooks recurse on the native
//! stack.

mod children;
mod default_mutate;
mod default_visit;
pub(crate) mod error_context;
mod error_paths;
mod frames;
mod hooks;
pub(crate) mod interrupt;
mod links;
mod map;
mod mutation;
pub(crate) mod mutator;
mod outcome;
mod plans;
mod rebuild;
mod region;
mod remap;
mod running;
#[cfg(test)]
mod tests;
mod traversal;
pub(crate) mod visitor;
mod walk;

use super::access_path::ARRAY_OF_ACCESS_PATHS;
use crate::definition::function::Builtin;
use crate::definition::signature::{ANY, ANY_VIEW, Accepts, BOOL, FUNCTION, INT, Signature, Type, VOID};
pub(crate) use error_context::own;
pub(crate) use error_paths::places;
pub(crate) use hooks::ATTRS;
pub(crate) use interrupt::{interrupt_value, new_interrupt};
pub(crate) use links::{Callback, MAX_PAIRED};
pub(crate) use map::{map, mutate};
pub(crate) use outcome::UNCHANGED;
pub(crate) use running::Running;
pub(crate) use walk::walk;

static CALLBACK: Type = Type {
    schema: r#"{"type":"Tuple","args":[{"type":"int"},{"type":"ffi.Function"}]}"#,
    text: "Tuple<int, ffi.Function>",
    accepts: Accepts::Tuple(&[&INT, &FUNCTION]),
};

static CALLBACKS: Type = Type {
    schema: r#"{"type":"ffi.Array","args":[{"type":"Tuple","args":[{"type":"int"},{"type":"ffi.Function"}]}]}"#,
    text: "Array<Tuple<int, ffi.Function>>",
    accepts: Accepts::Items(&CALLBACK),
};

/// A callback and whether it gets the mode: whether the value may be changed in place.
static MUTATE_CALLBACK: Type = Type {
    schema: r#"{"type":"Tuple","args":[{"type":"int"},{"type":"ffi.Function"},{"type":"bool"}]}"#,
    text: "Tuple<int, ffi.Function, bool>",
    accepts: Accepts::Tuple(&[&INT, &FUNCTION, &BOOL]),
};

static MUTATE_CALLBACKS: Type = Type {
    schema: r#"{"type":"ffi.Array","args":[{"type":"Tuple","args":[{"type":"int"},{"type":"ffi.Function"},{"type":"bool"}]}]}"#,
    text: "Array<Tuple<int, ffi.Function, bool>>",
    accepts: Accepts::Items(&MUTATE_CALLBACK),
};

macro_rules! builtins {
    ($($name:literal: [$($param:path),*] -> $ret:path = $run:path;)*) => {
        /// The global functions.
        #[cfg(feature = "all")]
        pub(crate) const BUILTINS: &[Builtin] = &[
            $(Builtin { name: $name, signature: Signature::Typed(&[$(&$param),*], &$ret), run: $run },)*
        ];
    };
}

builtins! {
    "ffi.VisitInterrupt": [ANY] -> interrupt::TYPE = interrupt::create;
    "ffi.StructuralVisitorVisit": [visitor::TYPE, ANY_VIEW] -> interrupt::OPTIONAL = visitor::run_visit;
    "ffi.StructuralVisitorDefaultVisit": [visitor::TYPE, ANY_VIEW] -> interrupt::OPTIONAL = walk::run_default_visit;
    "ffi.StructuralVisitorDefRegionKind": [visitor::TYPE] -> INT = visitor::run_region_kind;
    "ffi.StructuralVisitorWithDefRegionKind": [visitor::TYPE, INT, FUNCTION] -> ANY = visitor::run_with_region_kind;
    "ffi.StructuralWalk": [ANY_VIEW, CALLBACKS, CALLBACKS, INT] -> interrupt::OPTIONAL = walk::run_walk;
    "ffi.StructuralVisit": [ANY_VIEW, CALLBACKS] -> interrupt::OPTIONAL = walk::run_visit;
    "ffi.StructuralMutatorMutate": [mutator::TYPE, ANY_VIEW] -> ANY = mutator::run_mutate;
    "ffi.StructuralMutatorDefaultMutate": [mutator::TYPE, ANY_VIEW] -> ANY = map::run_default_mutate;
    "ffi.StructuralMutatorVarRemapGet": [mutator::TYPE, ANY_VIEW] -> ANY = mutator::run_remap_get;
    "ffi.StructuralMutatorVarRemapSet": [mutator::TYPE, ANY_VIEW, ANY_VIEW] -> VOID = mutator::run_remap_set;
    "ffi.StructuralMutatorDefRegionKind": [mutator::TYPE] -> INT = visitor::run_region_kind;
    "ffi.StructuralMutatorWithDefRegionKind": [mutator::TYPE, INT, FUNCTION] -> ANY = visitor::run_with_region_kind;
    "ffi.StructuralMap": [ANY, CALLBACKS, CALLBACKS, INT] -> ANY = map::run_map;
    "ffi.StructuralMutate": [ANY, MUTATE_CALLBACKS] -> ANY = map::run_mutate;
    "ffi.VisitErrorContext.FindAccessPaths":
        [error_paths::ROOT, error_context::TYPE, BOOL] -> ARRAY_OF_ACCESS_PATHS = error_paths::run;
}
