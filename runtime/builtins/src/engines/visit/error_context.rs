//! `ffi.VisitErrorContext`: an error's record of the objects that were being visited, the innermost
//! first.

use core::ffi::c_void;
use core::ptr::null_mut;

use super::outcome::is_error;
use crate::Error;
use crate::abi::{TVMFFIAny, TVMFFIErrorCell, TVMFFIObject, seq_hash_kind, type_index};
use crate::definition::field::{self, BuiltinField};
use crate::definition::instance::{metadata_of, new_instance, object_attrs, object_body};
use crate::definition::setters::{OptionalObject, set_object};
use crate::definition::signature::{Accepts, OPTIONAL_OBJECT, Type};
use crate::definition::type_def::BuiltinType;
use crate::embedded::list::shared::{self, Contents};
use crate::embedded::release::{is_object, retain};
use crate::embedded::{self, dec_ref, inc_ref, seq};
use crate::function::guard_nameless;
use crate::object::{ObjRef, ObjectRoot};
use crate::value::AnyView;

/// The part of a context that follows the header.
#[derive(Clone)]
#[repr(C)]
struct ContextBody {
    // A list of objects; never empty.
    pattern: ObjRef<ObjectRoot>,
    previous: Option<ObjRef<ObjectRoot>>,
}

impl Default for ContextBody {
    fn default() -> Self {
        Self::new(Vec::new(), null_mut())
    }
}

impl ContextBody {
    /// `previous` is NULL or a reference that goes over to the context.
    fn new(pattern: Vec<TVMFFIAny>, previous: *mut TVMFFIObject) -> Self {
        // SAFETY: a new list, whose reference is transferred to the context; the other one is the
        // caller's promise.
        unsafe {
            Self {
                pattern: ObjRef::from_raw(seq::new_list(pattern)),
                previous: (!previous.is_null()).then(|| ObjRef::from_raw(previous)),
            }
        }
    }
}

object_body!(
    ContextBody,
    CONTEXT,
    /// The type in signatures.
    pub(super) TYPE = "ffi.VisitErrorContext"
);

/// The type.
pub(crate) static CONTEXT: BuiltinType = BuiltinType {
    metadata: Some(metadata_of::<ContextBody>(seq_hash_kind::UNSUPPORTED)),
    fields: &[
        BuiltinField {
            name: "reverse_visit_pattern",
            schema: LIST_OF_OBJECTS.schema,
            static_type_index: type_index::LIST,
            setter: set_pattern,
            ..BuiltinField::OBJECT
        },
        BuiltinField {
            name: "prev_error_context",
            schema: OPTIONAL_OBJECT.schema,
            offset: 32,
            setter: set_object::<OptionalObject>,
            ..BuiltinField::OBJECT
        },
    ],
    attrs: object_attrs!("ffi.VisitErrorContext", ContextBody, final: true, first: [], last: []),
    ..BuiltinType::new("ffi.VisitErrorContext")
};

static LIST_OF_OBJECTS: Type = Type {
    schema: r#"{"type":"ffi.List","args":[{"type":"ffi.Object"}]}"#,
    text: "List<ffi.Object>",
    accepts: Accepts::Items(&OPTIONAL_OBJECT),
};

/// Stores a list of objects; an array is copied.
///
/// # Safety
/// The ABI's convention of setters.
unsafe extern "C" fn set_pattern(slot: *mut c_void, value: *const TVMFFIAny) -> i32 {
    // SAFETY: the convention; the signature lets arrays and lists through.
    guard_nameless(|| unsafe {
        let view = AnyView::from_raw(*value);
        field::check(&view, &LIST_OF_OBJECTS)?;
        let Some(object) = view.object() else { return Ok(()) };
        let list = if (*object).type_index == type_index::LIST {
            inc_ref(object);
            object
        } else {
            seq::new_list_of_shared(seq::elements(object))
        };
        dec_ref(slot.cast::<*mut TVMFFIObject>().replace(list));
        Ok(())
    })
}

/// Returns true if an object is such a context.
///
/// # Safety
/// It is alive, or NULL.
pub(super) unsafe fn is_context(object: *mut TVMFFIObject) -> bool {
    // SAFETY: promised by the caller.
    !object.is_null() && unsafe { (*object).type_index } == CONTEXT.host_index()
}

/// The objects that a context recorded.
///
/// # Safety
/// `context` is a live context.
pub(super) unsafe fn pattern<'a>(context: *mut TVMFFIObject) -> Contents<'a> {
    // SAFETY: promised by the caller.
    unsafe { shared::elements(embedded::body::<ContextBody>(context).pattern.as_ptr()) }
}

/// Returns the error, or a copy if it is shared: nodes are recorded in the error itself, which
/// others may be reading.
pub(crate) fn own(error: Error) -> Error {
    // SAFETY: the error is alive until its reference is given up, and so are the values that its
    // cell refers to; the copy gets its own references.
    unsafe {
        let object = error.into_raw();
        let original = Error::from_raw(object);
        if embedded::is_unique(object) {
            return original;
        }
        let cell = embedded::body::<TVMFFIErrorCell>(object);
        let mut extra = cell.extra_context;
        let mut own_context = null_mut();
        if is_context(extra) {
            let body = embedded::body::<ContextBody>(extra);
            let nodes = pattern(extra).into_owned();
            let previous = body.previous.clone().map_or(null_mut(), ObjRef::into_raw);
            own_context = new_instance(ContextBody::new(nodes, previous));
            extra = own_context;
        }
        let (kind, message, backtrace) = (cell.kind.as_slice(), cell.message.as_slice(), cell.backtrace.as_slice());
        let copy = embedded::new_error(kind, message, backtrace, cell.cause_chain, extra);
        if !own_context.is_null() {
            dec_ref(own_context);
        }
        Error::from_raw(copy)
    }
}

/// Adds a node to a failure's context; values that are not objects are not recorded. The error is
/// changed in place, even if it is shared: all languages do this while an error propagates, when it
/// has one owner.
///
/// # Safety
/// `outcome` is a live error outcome, and `node` is a valid view.
#[cold]
pub(super) unsafe fn record(outcome: &TVMFFIAny, node: &TVMFFIAny) {
    debug_assert!(is_error(outcome));
    if !is_object(node) {
        return;
    }
    // SAFETY: promised by the caller; an error's cell owns its context.
    unsafe {
        let cell = embedded::body_ptr::<TVMFFIErrorCell>(outcome.payload.v_obj);
        let extra = (*cell).extra_context;
        if is_context(extra) {
            let pattern = embedded::body::<ContextBody>(extra).pattern.as_ptr();
            // The only failure is lack of memory; then the record lacks a node.
            let _ = shared::push(pattern, retain(node));
            return;
        }
        // The reference to the previous context moves into the new context.
        (*cell).extra_context = new_instance(ContextBody::new(vec![retain(node)], extra));
    }
}

/// Returns an outcome; if it is an error, the value is added to its context.
///
/// # Safety
/// The outcome is valid, and `value` is a valid view.
pub(super) unsafe fn with_context(outcome: TVMFFIAny, value: &TVMFFIAny) -> TVMFFIAny {
    if is_error(&outcome) {
        // SAFETY: promised by the caller.
        unsafe { record(&outcome, value) };
    }
    outcome
}
