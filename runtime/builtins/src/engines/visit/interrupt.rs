//! `ffi.VisitInterrupt`: stops a visit, with a value for its caller.

use super::outcome::mismatch;
use crate::abi::{TVMFFIAny, field_flag, seq_hash_kind, type_index};
use crate::definition::field::BuiltinField;
use crate::definition::function::Arguments;
use crate::definition::instance::{Body, instance, metadata_of, object_attrs};
use crate::definition::signature::{Accepts, Type};
use crate::definition::type_def::{BuiltinType, Index};
use crate::value::Any;
use crate::{Result, embedded};

/// The part of an interrupt that follows the header.
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
    index: Index::fixed(type_index::VISIT_INTERRUPT),
    metadata: Some(metadata_of::<InterruptBody>(seq_hash_kind::UNSUPPORTED)),
    fields: &[BuiltinField { name: "value", flags: field_flag::HAS_DEFAULT, ..BuiltinField::ANY }],
    attrs: object_attrs!("ffi.VisitInterrupt", InterruptBody, final: true, first: [], last: []),
    ..BuiltinType::new("ffi.VisitInterrupt")
};

/// The type in signatures.
pub(super) static TYPE: Type = Type {
    schema: r#"{"type":"ffi.VisitInterrupt"}"#,
    text: "ffi.VisitInterrupt",
    accepts: Accepts::Exactly(type_index::VISIT_INTERRUPT),
};

/// An interrupt or `None`.
pub(super) static OPTIONAL: Type = Type {
    schema: r#"{"type":"Optional","args":[{"type":"ffi.VisitInterrupt"}]}"#,
    text: "Optional<ffi.VisitInterrupt>",
    accepts: Accepts::Optional(&TYPE),
};

/// `ffi.VisitInterrupt`.
pub(super) fn create(args: &Arguments<'_>) -> Result<Any> {
    Ok(instance(InterruptBody { value: args.owned(0)? }))
}

/// Creates an interrupt without a value.
pub(crate) fn new_interrupt() -> Any {
    instance(InterruptBody::default())
}

/// The value of an interrupt; `None` for any other value.
pub(crate) fn interrupt_value(interrupt: &Any) -> Any {
    match interrupt.as_view().object() {
        // SAFETY: the value keeps the object alive, and the index is that of interrupts.
        Some(object) if interrupt.type_index() == type_index::VISIT_INTERRUPT => unsafe {
            embedded::body::<InterruptBody>(object).value.clone()
        },
        _ => Any::NONE,
    }
}

/// Checks a function's result, which must be `None`, an interrupt or an error.
///
/// # Safety
/// The ownership of the outcome is transferred, and the caller owns the returned one.
pub(super) unsafe fn interrupt_or_error(outcome: TVMFFIAny) -> TVMFFIAny {
    match outcome.type_index {
        type_index::NONE | type_index::VISIT_INTERRUPT | type_index::ERROR => outcome,
        // SAFETY: promised by the caller.
        _ => unsafe { mismatch(OPTIONAL.text, outcome) },
    }
}
