//! Operators with two operands. One that does not apply to the other operand returns
//! NotImplemented, so that Python asks that one.

use kernpack_core::Any;
use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, type_index};
use kernpack_core::embedded;
use kernpack_core::function::ParamKind;
use kernpack_core::value::ResultPlace;

use super::arguments::Arguments;
use super::function::invoke;
use super::given::Given;
use crate::convert::to_python;
use crate::cpython::capi::Py;
use crate::cpython::exception;
use crate::cpython::object::{Owned, PyResult};
use crate::cpython::pending;
use crate::signature::callable::Callable;

/// The object of a value.
fn object(value: &TVMFFIAny) -> Option<*mut TVMFFIObject> {
    match value.type_index {
        // SAFETY: with a type index of objects there is an object.
        type_index::STATIC_OBJECT_BEGIN.. => Some(unsafe { value.payload.v_obj }),
        _ => None,
    }
}

/// Calls an operator. It does not apply if an operand has no conversion, or if it returns `None`
/// for an `Option`.
///
/// # Safety
/// The arguments live for the call, and the function is an operator of this artifact.
pub(super) unsafe fn run(py: Py, callable: &Callable, given: Given) -> PyResult<Owned> {
    let mut arguments = Arguments::new();
    // SAFETY: promised by the caller. The place is marked only if the function knows the mark, and
    // holds an owned value otherwise; the interpreter's object lives forever.
    unsafe {
        let not_implemented = || Ok(Owned::share(py, py._Py_NotImplementedStruct()));
        let count = given.positional();
        let are_by_position = callable
            .info
            .kinds
            .is_none_or(|kinds| kinds.iter().take(count).all(|kind| *kind <= ParamKind::PositionalOrKeyword));
        if given.names().is_null() && are_by_position && (2..=callable.wanted.len()).contains(&count) {
            if !arguments.bind_operands(py, callable, given)? {
                return not_implemented();
            }
        } else {
            arguments.bind_any(py, callable, given)?;
        }
        let mut result = callable.before;
        let called = invoke(py, callable, arguments.views(), &mut result);
        if let Some(error) = pending::is_any().then(pending::take).flatten() {
            if called.is_ok() && !ResultPlace::is_inapplicable(&mut result) {
                drop(Any::from_raw(result));
            }
            return Err(exception::raise(py, &error));
        }
        called.map_err(|error| exception::raise(py, &error))?;
        let ty = &callable.info.ret;
        if ResultPlace::is_inapplicable(&mut result) || result.type_index == type_index::NONE && ty.key == "Optional" {
            return not_implemented();
        }
        // `x += 1` leaves the same Python object in `x`.
        if let (Some(made), [this, ..]) = (object(&result), arguments.views())
            && object(this) == Some(made)
        {
            embedded::dec_ref(made);
            return Ok(Owned::share(py, given.value(0)));
        }
        to_python::owned(py, &result, ty)
    }
}
