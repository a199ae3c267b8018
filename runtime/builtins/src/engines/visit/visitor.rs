//! `ffi.StructuralVisitor`: an object whose table determines how a value is visited.

use super::default_visit::default_visit;
use super::outcome::{call, failed, guard, into_result};
use super::region::Region;
use super::traversal::{self, Table, Traversal};
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::definition::function::Arguments;
use crate::definition::instance::{copy_function, object_body};
use crate::definition::type_def::{Attr, BuiltinType};
use crate::value::{Any, IntoAny};

/// Visits a value and returns an outcome, see [`super::outcome`]. Also the type of native
/// `__s_visit__` hooks.
pub(super) type Visit = unsafe extern "C" fn(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny;

/// The functions of a visitor.
#[repr(C)]
pub(super) struct VisitorTable {
    pub(super) visit: Visit,
}

impl Table for VisitorTable {
    fn default_table() -> &'static Self {
        &DEFAULT_TABLE
    }
}

object_body!(
    Traversal<VisitorTable>,
    VISITOR,
    /// The type in signatures.
    pub(super) TYPE = "ffi.StructuralVisitor"
);

/// The type.
pub(crate) static VISITOR: BuiltinType = BuiltinType {
    attrs: &[
        (
            "__ffi_shallow_copy__",
            copy_function::<Traversal<VisitorTable>>("ffi.StructuralVisitor.__ffi_shallow_copy__"),
        ),
        ("__ffi_type_final__", Attr::Flag(false)),
    ],
    ..traversal::type_of::<VisitorTable>("ffi.StructuralVisitor")
};

static DEFAULT_TABLE: VisitorTable = VisitorTable { visit: visit_by_default };

unsafe extern "C" fn visit_by_default(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of the table.
    guard(|| unsafe { default_visit(visitor, value) })
}

/// Visits a value with the visitor's table.
///
/// # Safety
/// `visitor` is a live visitor, and `value` is a valid view.
pub(super) unsafe fn visit(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: promised by the caller; a table lives as long as its visitors.
    unsafe {
        match Traversal::<VisitorTable>::table(visitor).as_ref() {
            Some(table) => (table.visit)(visitor, value),
            None => failed(crate::error!(RuntimeError, "a StructuralVisitor without a function table cannot visit")),
        }
    }
}

/// Converts a visitor or mutator to an argument.
///
/// # Safety
/// It is alive.
pub(super) const unsafe fn as_argument(object: *mut TVMFFIObject) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    TVMFFIAny::pointer(unsafe { (*object).type_index }, object.cast())
}

/// `ffi.StructuralVisitorVisit`.
pub(super) fn run_visit(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the signature requires a visitor; the caller keeps the arguments alive.
    unsafe { into_result(visit(args.object(0), *args.view(1).as_raw())) }
}

/// `ffi.StructuralVisitorDefRegionKind`, and the corresponding function of mutators.
pub(super) fn run_region_kind(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the signature requires a visitor or mutator.
    Ok(i64::from(unsafe { Region::of(args.object(0)) }.get()).into_any())
}

/// `ffi.StructuralVisitorWithDefRegionKind`, and the corresponding function of mutators.
pub(super) fn run_with_region_kind(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the signature requires a visitor or mutator, which the caller keeps alive, and a
    // function.
    unsafe {
        let region = Region::of(args.object(0));
        let scope = region.enter(args.int(1) as i32);
        let outcome = call(args.object(2), &[]);
        region.leave(scope);
        into_result(outcome)
    }
}
