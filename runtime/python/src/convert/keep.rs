//! The owners that arguments borrow from.

use kernpack_core::Any;
use kernpack_core::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFIObject};

use super::lent::Lent;
use super::lent_object::LentObject;
use crate::cpython::object::Owned;
use crate::tensor::exchange;

/// The owner that an argument borrows from, until the call is over.
#[allow(dead_code, reason = "the values are only kept, for what they free")]
pub(crate) enum Keep {
    /// From the Python object itself, or from nothing.
    Nothing,
    /// From a value that was created for it.
    Value(Any),
    /// From a pair of pointer and length at a fixed address.
    Bytes(Box<TVMFFIByteArray>),
    /// From a Python object that was created for the call.
    Object(Owned),
    /// From a function that calls the Python object.
    Function(Lent),
    /// From the value of a Python object.
    Python(LentObject),
    /// From a tensor that another framework has lent.
    Exchanged(exchange::Exchanged),
    /// Not borrowed from: the current stream of a device, until the call is over.
    Stream(#[expect(dead_code, reason = "dropped when the call is over")] exchange::CurrentStream),
}

/// A new value, together with its owner.
pub(crate) fn kept(value: TVMFFIAny) -> (TVMFFIAny, Keep) {
    // SAFETY: a new value, whose only reference is ours.
    (value, Keep::Value(unsafe { Any::from_raw(value) }))
}

/// A new object, together with its owner.
pub(super) fn kept_object(object: *mut TVMFFIObject) -> (TVMFFIAny, Keep) {
    // SAFETY: a new object; its only reference is transferred to the value.
    kept(unsafe { TVMFFIAny::pointer((*object).type_index, object.cast()) })
}
