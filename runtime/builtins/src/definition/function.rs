//! A global function as data: all of them share one entry point, instead of one closure for each.

use core::ffi::c_void;
use core::marker::PhantomData;

use super::signature::{Signature, Type};
use crate::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFIMethodInfo, TVMFFIObject, type_index};
use crate::embedded::{self, release};
use crate::function::{guard_nameless, views};
use crate::module::Module;
use crate::value::{Any, AnyView};
use crate::{Error, Result, provider};

/// A global function (or a method or a hook of a type) of the embedded implementation.
pub(crate) struct Builtin {
    /// Name in the global registry; `<type key>.<method>` for a method; empty for a hook.
    pub(crate) name: &'static str,
    /// Parameters and result.
    pub(crate) signature: Signature,
    /// The implementation. There is one argument for each parameter, of a type that the parameter
    /// accepts.
    pub(crate) run: fn(&Arguments<'_>) -> Result<Any>,
}

/// The arguments of a call, checked against the signature.
pub(crate) struct Arguments<'a> {
    views: &'a [AnyView<'a>],
}

impl<'a> Arguments<'a> {
    /// Creates the arguments from views that [`check`] has accepted.
    pub(crate) const fn of(views: &'a [AnyView<'a>]) -> Self {
        Self { views }
    }

    /// All arguments.
    pub(crate) const fn all(&self) -> &'a [AnyView<'a>] {
        self.views
    }

    /// One argument, unconverted.
    pub(crate) const fn view(&self, index: usize) -> &'a AnyView<'a> {
        &self.views[index]
    }

    /// All arguments, raw.
    pub(crate) const fn raw(&self) -> &'a [TVMFFIAny] {
        // SAFETY: a view is transparent over the raw struct.
        unsafe { core::slice::from_raw_parts(self.views.as_ptr().cast(), self.views.len()) }
    }

    /// An argument as a lookup key: borrowed, unless it is an rvalue reference, whose object is
    /// moved.
    pub(crate) fn lookup(&self, index: usize) -> Result<Lookup<'a>> {
        let raw = *self.views[index].as_raw();
        if raw.type_index != type_index::OBJECT_RVALUE_REF {
            return Ok(Lookup { raw, _owner: None, borrowed: PhantomData });
        }
        let owner = self.owned(index)?;
        Ok(Lookup { raw: *owner.as_view().as_raw(), _owner: Some(owner), borrowed: PhantomData })
    }

    /// Calls a function with arguments that it only reads: borrowed, unless one is an rvalue
    /// reference. `N` is the minimum number of arguments.
    #[inline]
    pub(crate) fn look_at<const N: usize, T>(&self, function: impl Fn([&TVMFFIAny; N]) -> Result<T>) -> Result<T> {
        let views = core::array::from_fn(|index| self.views[index].as_raw());
        if views.iter().all(|view| view.type_index != type_index::OBJECT_RVALUE_REF) {
            return function(views);
        }
        let mut owners = [const { Any::NONE }; N];
        for (index, owner) in owners.iter_mut().enumerate() {
            *owner = self.owned(index)?;
        }
        function(core::array::from_fn(|index| owners[index].as_view().as_raw()))
    }

    /// An owned copy of an argument; a borrowed string becomes an owned one, and the object of an
    /// rvalue reference is moved.
    pub(crate) fn owned(&self, index: usize) -> Result<Any> {
        // SAFETY: a view that the caller keeps valid for the call.
        unsafe { Ok(Any::from_raw(release::to_owned(self.views[index].as_raw())?)) }
    }

    /// An argument of a parameter of type [`super::signature::INT`].
    pub(crate) const fn int(&self, index: usize) -> i64 {
        self.views[index].as_raw().bits().cast_signed()
    }

    /// An argument of a parameter of type [`super::signature::BOOL`].
    pub(crate) const fn flag(&self, index: usize) -> bool {
        self.int(index) != 0
    }

    /// An argument of a parameter of type [`super::signature::POINTER`].
    pub(crate) fn pointer(&self, index: usize) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.views[index].as_raw().bits() as usize)
    }

    /// The characters of a text or bytes argument. Text from outside may be invalid UTF-8.
    pub(crate) fn bytes(&self, index: usize) -> &'a [u8] {
        // SAFETY: the view follows the ABI's rules for its type index.
        unsafe { embedded::text_of(self.views[index].as_raw()) }.unwrap_or_default()
    }

    /// The characters of a text argument, which must be UTF-8.
    pub(crate) fn text(&self, index: usize) -> Result<&'a str> {
        core::str::from_utf8(self.bytes(index))
            .map_err(|_| crate::error!(ValueError, "argument #{index}: expected UTF-8 text, got other bytes"))
    }

    /// The object of an object argument; NULL for an optional one that is `None`. Borrowed from the
    /// caller.
    pub(crate) fn object(&self, index: usize) -> *mut TVMFFIObject {
        self.views[index].object().unwrap_or(core::ptr::null_mut())
    }

    /// An argument of a parameter of type [`super::signature::MODULE`].
    pub(crate) fn module(&self, index: usize) -> Result<Module> {
        self.views[index].get()
    }
}

/// A lookup key. Never an rvalue reference.
pub(crate) struct Lookup<'a> {
    raw: TVMFFIAny,
    _owner: Option<Any>,
    borrowed: PhantomData<&'a TVMFFIAny>,
}

impl core::ops::Deref for Lookup<'_> {
    type Target = TVMFFIAny;

    #[inline]
    fn deref(&self) -> &TVMFFIAny {
        &self.raw
    }
}

impl Builtin {
    /// Creates a function object; the caller owns its one reference.
    pub(crate) fn new_object(&'static self) -> *mut TVMFFIObject {
        embedded::new_function(call, self)
    }

    /// Registers the function under its name.
    pub(crate) fn register(&'static self) -> Result<()> {
        let metadata = self.signature.metadata_json();
        let function = self.new_object();
        let info = TVMFFIMethodInfo {
            name: TVMFFIByteArray::new(self.name.as_bytes()),
            doc: TVMFFIByteArray::EMPTY,
            metadata: TVMFFIByteArray::new(metadata.as_bytes()),
            flags: 0,
            method: TVMFFIAny::pointer(type_index::FUNCTION, function.cast()),
        };
        // SAFETY: all texts are valid for the call; the table takes a reference of its own, and
        // ours is released.
        unsafe {
            let status = (provider::api().function_set_global_from_method_info)(&info, 0);
            embedded::dec_ref(function);
            Error::check(status)
        }
    }
}

unsafe extern "C" fn call(this: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function object made by `new_object`; the rest is the ABI's calling
    // convention.
    unsafe {
        let builtin: &'static Builtin = embedded::closure_of::<&'static Builtin>(this);
        let views = views(args, num_args);
        if builtin.signature.takes(views) { run(builtin, views, result) } else { call_closely(builtin, views, result) }
    }
}

/// Handles a call with arguments of a less usual form. A separate function, so that calls with the
/// usual forms save no registers.
///
/// # Safety
/// As for [`run`].
#[inline(never)]
unsafe fn call_closely(builtin: &'static Builtin, views: &[AnyView<'_>], result: *mut TVMFFIAny) -> i32 {
    if !check_closely(builtin.name, &builtin.signature, views) {
        return -1;
    }
    // SAFETY: promised by the caller.
    unsafe { run(builtin, views, result) }
}

/// Runs a function with arguments that it accepts.
///
/// # Safety
/// `result` may be written.
#[inline(always)]
unsafe fn run(builtin: &'static Builtin, views: &[AnyView<'_>], result: *mut TVMFFIAny) -> i32 {
    guard_nameless(|| {
        let value = (builtin.run)(&Arguments { views })?;
        // SAFETY: promised by the caller.
        unsafe { result.write(value.into_raw()) };
        Ok(())
    })
}

/// Returns true if a function can be called with these arguments; else raises an error that
/// describes the problem.
#[inline(always)]
pub(crate) fn check(name: &str, signature: &Signature, views: &[AnyView<'_>]) -> bool {
    signature.takes(views) || check_closely(name, signature, views)
}

#[inline(never)]
fn check_closely(name: &str, signature: &Signature, views: &[AnyView<'_>]) -> bool {
    let Signature::Typed(params, _) = signature else { return true };
    let fits = views.len() == params.len() && params.iter().zip(views).all(|(param, view)| param.accepts(view));
    if !fits {
        raise_mismatch(name, signature, params, views);
    }
    fits
}

#[cold]
#[inline(never)]
fn raise_mismatch(name: &str, signature: &Signature, params: &[&Type], views: &[AnyView<'_>]) {
    let signature = signature.text();
    let (expected, got) = (params.len(), views.len());
    if expected != got {
        return crate::error!(
            TypeError,
            "Mismatched number of arguments when calling: `{name}{signature}`. Expected {expected} but got {got} arguments"
        )
        .raise();
    }
    // In reverse order, as in the stock library.
    for (at, (view, param)) in views.iter().zip(params).enumerate().rev() {
        if !param.accepts(view) {
            let (expected, got) = (param.text, param.describe(view));
            return crate::error!(
                TypeError,
                "Mismatched type on argument #{at} when calling: `{name}{signature}`. Expected `{expected}` but got `{got}`"
            )
            .raise();
        }
    }
}
