//! `ffi.VisitInterrupt`: what stops a visit, with a value for the one who started it.

use super::outcome::mismatch;
use crate::abi::{TVMFFIAny, field_flag, seq_hash_kind, type_index};
use crate::definition::function::Arguments;
use crate::definition::instance::{Body, copy_function, creator, instance, new_function};
use crate::definition::setters::set_any;
use crate::definition::signature::{ANY, Accepts, Type};
use crate::definition::type_def::{Attr, BuiltinField, BuiltinType, Index, Metadata, field};
use crate::value::Any;
use crate::{Result, embedded};

/// What follows the header of an interrupt.
#[derive(Clone, Default)]
#[repr(C)]
struct InterruptBody {
    value: Any,
}

impl Body for InterruptBody {
    const SELF: &'static [&'static Type] = &[&TYPE];

    fn definition() -> &'static BuiltinType {
        &INTERRUPT
    }
}

/// The type.
pub(crate) static INTERRUPT: BuiltinType = BuiltinType {
    key: "ffi.VisitInterrupt",
    index: Index::fixed(type_index::VISIT_INTERRUPT),
    parent: || type_index::OBJECT,
    metadata: Some(Metadata {
        total_size: 40,
        creator: Some(creator::<InterruptBody>),
        structural_kind: seq_hash_kind::UNSUPPORTED,
    }),
    fields: &[BuiltinField {
        name: "value",
        doc: "",
        schema: ANY.schema,
        flags: field_flag::HAS_DEFAULT,
        offset: 24,
        size: 16,
        align: 8,
        static_type_index: type_index::ANY,
        default: TVMFFIAny::NONE,
        getter: field::get_any,
        setter: set_any,
    }],
    methods: &[],
    attrs: &[
        ("__ffi_new__", new_function::<InterruptBody>("ffi.VisitInterrupt.__ffi_new__")),
        ("__ffi_shallow_copy__", copy_function::<InterruptBody>("ffi.VisitInterrupt.__ffi_shallow_copy__")),
        ("__ffi_type_final__", Attr::Flag(true)),
    ],
};

/// The type in signatures.
pub(super) static TYPE: Type = Type {
    schema: r#"{"type":"ffi.VisitInterrupt"}"#,
    text: "ffi.VisitInterrupt",
    accepts: Accepts::Exactly(type_index::VISIT_INTERRUPT),
};

/// An interrupt, or none.
pub(super) static OPTIONAL: Type = Type {
    schema: r#"{"type":"Optional","args":[{"type":"ffi.VisitInterrupt"}]}"#,
    text: "Optional<ffi.VisitInterrupt>",
    accepts: Accepts::Optional(&TYPE),
};

/// `ffi.VisitInterrupt`.
pub(super) fn create(args: &Arguments<'_>) -> Result<Any> {
    Ok(instance(InterruptBody { value: args.owned(0)? }))
}

/// A new interrupt without a value.
pub(crate) fn new_interrupt() -> Any {
    instance(InterruptBody::default())
}

/// The value of an interrupt; none for another value.
pub(crate) fn interrupt_value(interrupt: &Any) -> Any {
    match interrupt.as_view().object() {
        // SAFETY: the value keeps the object alive, and the index is that of interrupts.
        Some(object) if interrupt.type_index() == type_index::VISIT_INTERRUPT => unsafe {
            embedded::body::<InterruptBody>(object).value.clone()
        },
        _ => Any::NONE,
    }
}

/// What a function gave, which has to be none, an interrupt or an error.
///
/// # Safety
/// The caller owns the outcome and gives it up for the returned one.
pub(super) unsafe fn interrupt_or_error(outcome: TVMFFIAny) -> TVMFFIAny {
    match outcome.type_index {
        type_index::NONE | type_index::VISIT_INTERRUPT | type_index::ERROR => outcome,
        // SAFETY: promised by the caller.
        _ => unsafe { mismatch(OPTIONAL.text, outcome) },
    }
}
