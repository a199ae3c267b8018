//! `ffi.StructuralVisitor`: an object whose table says how a value is visited, and the default way to visit one.

use core::ffi::c_void;

use super::children::{Children, Step};
use super::interrupt;
use super::outcome::{PENDING, call, failed, guard, into_result, is_pending, type_error};
use super::plans::{LEAF, Way};
use super::region::{self, Region};
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIObject, seq_hash_kind, type_index};
use crate::builtins::builtin::Arguments;
use crate::builtins::dataclass::instance::{Body, copy_function};
use crate::builtins::signature::{Accepts, Type, type_key};
use crate::builtins::stack_space;
use crate::builtins::type_def::{Attr, BuiltinType, Index, Metadata};
use crate::embedded::release::release;
use crate::embedded::{self, seq};
use crate::reflect::{AttrColumn, TypeInfo};
use crate::value::{Any, AnyView, IntoAny};

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
pub(in crate::builtins) static VISITOR: BuiltinType = BuiltinType {
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

static HOOKS: AttrColumn = AttrColumn::new("__s_visit__");

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
            None => failed(crate::error!(RuntimeError, "a StructuralVisitor without a function table can not visit")),
        }
    }
}

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

/// The children of a value.
///
/// # Safety
/// `visitor` is a live visitor or mutator, and the way is that of the value's type: [`SEQUENCE`], [`MAP`] or [`FIELDS`].
#[inline]
pub(super) unsafe fn children(visitor: *mut TVMFFIObject, value: &TVMFFIAny, way: Way) -> Children {
    // SAFETY: promised by the caller: the payload is an object of this type.
    unsafe {
        let object = value.payload.v_obj;
        match way {
            SEQUENCE => Children::of_sequence(object),
            MAP => Children::of_map(object),
            _ => Children::of_object(object, TypeInfo::of(value.type_index), Region::of(visitor)),
        }
    }
}

/// The outcome of visiting a value that has no children, or that a hook visits; else [`PENDING`].
///
/// # Safety
/// As for [`visit`]; the way is that of the value's type.
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
    // SAFETY: the caller promises a live visitor and a valid value; a hook that is a pointer is of the column's own convention.
    unsafe {
        let payload = hook.raw().payload;
        match hook.type_index() {
            type_index::OPAQUE_PTR if !payload.v_ptr.is_null() => {
                core::mem::transmute::<*mut c_void, Visit>(payload.v_ptr)(visitor, *value)
            }
            type_index::FUNCTION => interrupt_or_error(call(payload.v_obj, &[as_argument(visitor), *value])),
            _ => type_error("__s_visit__ must be an opaque function pointer or ffi.Function"),
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

/// What a function gave, which has to be none, an interrupt or an error.
///
/// # Safety
/// The caller owns the outcome and gives it up for the returned one.
pub(super) unsafe fn interrupt_or_error(outcome: TVMFFIAny) -> TVMFFIAny {
    match outcome.type_index {
        type_index::NONE | type_index::VISIT_INTERRUPT | type_index::ERROR => outcome,
        // SAFETY: promised by the caller.
        _ => unsafe { mismatch(interrupt::OPTIONAL.text, outcome) },
    }
}

/// The failure of a callback that gave something else than expected.
///
/// # Safety
/// The caller owns the value and gives it up.
#[cold]
pub(super) unsafe fn mismatch(expected: &str, got: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    unsafe {
        let key = type_key(&AnyView::from_raw(got));
        release(got);
        type_error(&format!("CallExpected: result type mismatch, expected {expected}, but got {key}"))
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
            let child = match children.step(region) {
                Step::Child(child) => child,
                Step::Failed(error) => break error,
                Step::Done => break TVMFFIAny::NONE,
            };
            children.keep();
            let outcome = visit(visitor, child);
            if outcome.type_index != type_index::NONE {
                break outcome;
            }
        };
        children.end(region);
        outcome
    }
}

/// The `__s_visit__` hook of containers.
///
/// # Safety
/// The convention of native hooks: `visitor` is a live visitor and `value` a valid view of a container.
pub(super) unsafe extern "C" fn visit_container(visitor: *mut TVMFFIObject, value: TVMFFIAny) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    unsafe {
        if value.type_index == type_index::ARRAY {
            return visit_array(visitor, value.payload.v_obj);
        }
        guard(|| default_visit(visitor, value))
    }
}

/// An array does not change while somebody else has it, so that its elements need no care. Nothing here panics.
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
        let region: Region = Region::of(args.object(0));
        let scope: region::Scope = region.enter(args.int(1) as i32);
        let outcome = call(args.object(2), &[]);
        region.leave(scope);
        into_result(outcome)
    }
}
