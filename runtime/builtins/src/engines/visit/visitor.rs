//! `ffi.StructuralVisitor`: an object whose table says how a value is visited.

use super::default_visit::default_visit;
use super::outcome::{call, failed, guard, into_result};
use super::region::Region;
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIObject, seq_hash_kind, type_index};
use crate::definition::function::Arguments;
use crate::definition::instance::{Body, copy_function};
use crate::definition::signature::{Accepts, Type};
use crate::definition::type_def::{Attr, BuiltinType, Index, Metadata};
use crate::embedded;
use crate::value::{Any, IntoAny};

/// Visits a value: an outcome, see [`super::outcome`]. Also the type of native `__s_visit__` hooks.
pub(super) type Visit = unsafe extern "C" fn(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny;

/// The functions of a visitor.
#[repr(C)]
pub(super) struct VisitorTable {
    pub(super) visit: Visit,
}

/// What follows the header of a visitor; those of other languages have more behind it.
#[repr(C)]
pub(super) struct VisitorCell {
    pub(super) table: *const VisitorTable,
    pub(super) region: i32,
    pub(super) padding: u32,
}

// SAFETY: the table is constant; the region belongs to the one traversal that uses the visitor.
unsafe impl Send for VisitorCell {}
// SAFETY: as above.
unsafe impl Sync for VisitorCell {}

/// A copy of a visitor is not the whole of it: what its table works on is missing. So it gets a table that needs nothing more.
impl Clone for VisitorCell {
    fn clone(&self) -> Self {
        Self { table: &DEFAULT_TABLE, region: self.region, padding: 0 }
    }
}

impl Body for VisitorCell {
    const SELF: &'static [&'static Type] = &[&TYPE];

    fn definition() -> &'static BuiltinType {
        &VISITOR
    }
}

/// The type.
pub(crate) static VISITOR: BuiltinType = BuiltinType {
    key: "ffi.StructuralVisitor",
    index: Index::dynamic(),
    parent: || type_index::OBJECT,
    metadata: Some(Metadata { total_size: 40, creator: None, structural_kind: seq_hash_kind::UNSUPPORTED }),
    fields: &[],
    methods: &[],
    attrs: &[
        ("__ffi_shallow_copy__", copy_function::<VisitorCell>("ffi.StructuralVisitor.__ffi_shallow_copy__")),
        ("__ffi_type_final__", Attr::Flag(false)),
    ],
};

/// The type in signatures.
pub(super) static TYPE: Type = Type {
    schema: r#"{"type":"ffi.StructuralVisitor"}"#,
    text: "ffi.StructuralVisitor",
    accepts: Accepts::Kind(|| VISITOR.index.get()),
};

static DEFAULT_TABLE: VisitorTable = VisitorTable { visit: visit_by_default };

unsafe extern "C" fn visit_by_default(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of the table.
    guard(|| unsafe { default_visit(visitor, value) })
}

/// The functions of a visitor of any language.
///
/// # Safety
/// `visitor` is a live visitor.
#[inline]
pub(super) unsafe fn table(visitor: *mut TVMFFIObject) -> *const VisitorTable {
    // SAFETY: promised by the caller.
    unsafe { embedded::body::<VisitorCell>(visitor).table }
}

/// Visits a value as the visitor's table says.
///
/// # Safety
/// `visitor` is a live visitor, and `value` is a valid view.
pub(super) unsafe fn visit(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: promised by the caller; a table lives as long as its visitors.
    unsafe {
        match table(visitor).as_ref() {
            Some(table) => (table.visit)(visitor, value),
            None => failed(crate::error!(RuntimeError, "a StructuralVisitor without a function table cannot visit")),
        }
    }
}

/// A visitor or mutator as an argument.
///
/// # Safety
/// It is alive.
pub(super) const unsafe fn as_argument(object: *mut TVMFFIObject) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    TVMFFIAny::pointer(unsafe { (*object).type_index }, object.cast())
}

/// `ffi.StructuralVisitorVisit`.
pub(super) fn run_visit(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the signature asks for a visitor; the caller keeps the arguments alive.
    unsafe { into_result(visit(args.object(0), *args.view(1).raw())) }
}

/// `ffi.StructuralVisitorDefRegionKind` and the mutators' function.
pub(super) fn run_region_kind(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the signature asks for a visitor or mutator.
    Ok(i64::from(unsafe { Region::of(args.object(0)) }.get()).into_any())
}

/// `ffi.StructuralVisitorWithDefRegionKind` and the mutators' function.
pub(super) fn run_with_region_kind(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the signature asks for a visitor or mutator, which the caller keeps alive, and for a function.
    unsafe {
        let region = Region::of(args.object(0));
        let scope = region.enter(args.int(1) as i32);
        let outcome = call(args.object(2), &[]);
        region.leave(scope);
        into_result(outcome)
    }
}
