//! A global function as data: all of them share one entry point, which a closure for each would not.

use core::ffi::c_void;

use super::signature::{Signature, Type};
use crate::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFIMethodInfo, TVMFFIObject, type_index};
use crate::embedded::{self, function_table, release};
use crate::function::{guard_nameless, views};
use crate::module::Module;
use crate::value::{Any, AnyView};
use crate::{Error, Result};

/// A global function (or a method or a hook of a type) of the embedded implementation.
pub(super) struct Builtin {
    /// Name in the global registry; `<type key>.<method>` for a method; empty for a hook.
    pub(super) name: &'static str,
    /// Parameters and result.
    pub(super) signature: Signature,
    /// What it does. The arguments are as many as there are parameters, each of a type that its parameter accepts.
    pub(super) run: fn(&Arguments<'_>) -> Result<Any>,
}

/// The arguments of a call, checked against the signature.
pub(super) struct Arguments<'a> {
    views: &'a [AnyView<'a>],
}

impl<'a> Arguments<'a> {
    /// All of them.
    pub(super) const fn all(&self) -> &'a [AnyView<'a>] {
        self.views
    }

    /// One argument as it came.
    pub(super) const fn view(&self, index: usize) -> &'a AnyView<'a> {
        &self.views[index]
    }

    /// An owned copy of an argument; a borrowed string becomes an owned one, and an rvalue reference gives its object away.
    pub(super) fn owned(&self, index: usize) -> Result<Any> {
        // SAFETY: a view that the caller keeps valid for the call.
        unsafe {
            let raw = release::to_owned(self.views[index].raw());
            raw.map(|raw| Any::from_raw(raw)).map_err(|failure| Error::new(failure.kind(), failure.message()))
        }
    }

    /// An argument of a parameter of type [`super::signature::INT`].
    pub(super) const fn int(&self, index: usize) -> i64 {
        self.views[index].raw().bits().cast_signed()
    }

    /// An argument of a parameter of type [`super::signature::BOOL`].
    pub(super) const fn flag(&self, index: usize) -> bool {
        self.int(index) != 0
    }

    /// An argument of a parameter of type [`super::signature::POINTER`].
    pub(super) const fn pointer(&self, index: usize) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.views[index].raw().bits() as usize)
    }

    /// The characters of an argument of a parameter for text or bytes. Text from outside need not be UTF-8.
    pub(super) fn bytes(&self, index: usize) -> &'a [u8] {
        // SAFETY: the view follows the ABI's rules for its type index.
        unsafe { embedded::text_of(self.views[index].raw()) }.unwrap_or_default()
    }

    /// The characters of an argument of a parameter for text, which have to be UTF-8.
    pub(super) fn text(&self, index: usize) -> Result<&'a str> {
        core::str::from_utf8(self.bytes(index))
            .map_err(|_| crate::error!(ValueError, "argument #{index}: expected UTF-8 text, got other bytes"))
    }

    /// The object of an argument of a parameter for objects; NULL for the none of an optional one. Borrowed from the caller.
    pub(super) fn object(&self, index: usize) -> *mut TVMFFIObject {
        self.views[index].object().unwrap_or(core::ptr::null_mut())
    }

    /// An argument of a parameter of type [`super::signature::MODULE`].
    pub(super) fn module(&self, index: usize) -> Result<Module> {
        self.views[index].get()
    }
}

impl Builtin {
    /// A new function object; the caller owns its one reference.
    pub(super) fn new_object(&'static self) -> *mut TVMFFIObject {
        embedded::new_function(call, self)
    }

    /// Registers the function under its name.
    pub(super) fn register(&'static self) -> Result<()> {
        let metadata = self.signature.metadata_json();
        let function = self.new_object();
        let info = TVMFFIMethodInfo {
            name: TVMFFIByteArray::new(self.name.as_bytes()),
            doc: TVMFFIByteArray::EMPTY,
            metadata: TVMFFIByteArray::new(metadata.as_bytes()),
            flags: 0,
            method: TVMFFIAny::pointer(type_index::FUNCTION, function.cast()),
        };
        // SAFETY: all texts are valid for the call; the table takes a reference of its own, and ours is released.
        let outcome = unsafe {
            let outcome = function_table::set_global_with_info(&info, false);
            embedded::dec_ref(function);
            outcome
        };
        outcome.map_err(|failure| Error::new(failure.kind(), failure.message()))
    }
}

unsafe extern "C" fn call(this: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function object made by `new_object`; the rest is the ABI's calling convention.
    unsafe {
        let builtin: &'static Builtin = embedded::closure_of::<&'static Builtin>(this);
        let views = views(args, num_args);
        if let Signature::Typed(params, _) = &builtin.signature {
            if views.len() != params.len() {
                return wrong_count(builtin, params.len(), num_args);
            }
            // From the last to the first, as the stock library does.
            for (at, (view, param)) in views.iter().zip(*params).enumerate().rev() {
                if !param.accepts(view) {
                    return wrong_type(builtin, at, param, view);
                }
            }
        }
        guard_nameless(|| {
            let value = (builtin.run)(&Arguments { views })?;
            result.write(value.into_raw());
            Ok(())
        })
    }
}

#[cold]
fn wrong_count(builtin: &Builtin, expected: usize, got: i32) -> i32 {
    let (name, signature) = (builtin.name, builtin.signature.text());
    crate::error!(
        TypeError,
        "Mismatched number of arguments when calling: `{name}{signature}`. Expected {expected} but got {got} arguments"
    )
    .raise();
    -1
}

#[cold]
fn wrong_type(builtin: &Builtin, at: usize, param: &Type, got: &AnyView<'_>) -> i32 {
    let (name, signature, expected) = (builtin.name, builtin.signature.text(), param.text);
    let got = param.describe(got);
    crate::error!(
        TypeError,
        "Mismatched type on argument #{at} when calling: `{name}{signature}`. Expected `{expected}` but got `{got}`"
    )
    .raise();
    -1
}
