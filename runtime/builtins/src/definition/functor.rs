//! Functions of one integer with a state: the results of the `...Functor` functions.

use core::ffi::c_void;

use super::function::check;
use super::signature::{ANY, INT, Signature};
use crate::Result;
use crate::abi::{TVMFFIAny, type_index};
use crate::embedded;
use crate::function::{guard_nameless, views};
use crate::value::Any;

static SIGNATURE: Signature = Signature::Typed(&[&INT], &ANY);

struct Functor<T> {
    state: T,
    step: fn(&T, i64) -> Result<Any>,
}

/// A function that calls `step` with its state and its argument.
pub(crate) fn functor<T: Send + Sync + 'static>(state: T, step: fn(&T, i64) -> Result<Any>) -> Any {
    let function = embedded::new_function(call::<T>, Functor { state, step });
    // SAFETY: a new object; its only reference is transferred to the value.
    unsafe { Any::from_raw(TVMFFIAny::pointer(type_index::FUNCTION, function.cast())) }
}

unsafe extern "C" fn call<T>(this: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function object made by `functor`; the rest is the ABI's calling
    // convention.
    unsafe {
        let functor: &Functor<T> = embedded::closure_of(this);
        let views = views(args, num_args);
        if !check("", &SIGNATURE, views) {
            return -1;
        }
        guard_nameless(|| {
            let value = (functor.step)(&functor.state, views[0].as_raw().bits().cast_signed())?;
            result.write(value.into_raw());
            Ok(())
        })
    }
}
