use core::ffi::c_void;
use core::fmt;
use core::ptr;

use super::{Args, TypedFunction};
use crate::abi::{SafeCall, TVMFFIAny, TVMFFIFunctionCell, type_index};
use crate::value::{
    Any, AnyView, Arg, Counted, FromAny, IntoAny, Mismatch, Schema, Shown, ToArg, TypeSchema, raw_handle,
};
use crate::{Error, Result, embedded};

/// A function of any language, type-erased: takes any values, returns a value or an error.
///
/// A counted reference; cloning is cheap. It can be called from several threads at the same time.
#[derive(Clone)]
#[repr(transparent)]
pub struct Function {
    object: Counted,
}

raw_handle!(Counted: => Function, "`ffi.Function`");

impl Function {
    /// Creates a function whose entry point is a C function without context.
    ///
    /// # Safety
    /// `call` follows the ABI's calling convention and stays loaded as long as the function lives.
    pub unsafe fn from_safe_call(call: SafeCall) -> Self {
        // SAFETY: a new function object, whose one reference is this one.
        unsafe { Self::from_raw(embedded::new_function(call, ())) }
    }

    #[inline]
    fn entry_point(&self) -> Option<SafeCall> {
        // SAFETY: the object is a function and lives as long as `self`.
        unsafe { embedded::body::<TVMFFIFunctionCell>(self.object.as_ptr()).safe_call }
    }

    /// Returns whether calls go to this entry point.
    #[inline]
    pub(crate) fn has_entry_point(&self, entry_point: SafeCall) -> bool {
        self.entry_point().is_some_and(|own| ptr::fn_addr_eq(own, entry_point))
    }

    /// Calls the function with a tuple of arguments.
    ///
    /// A function may write to the tensors among its arguments. A Kernpack function returns an
    /// error if a view of such a tensor is alive. Before you call any other function, drop the
    /// views of the tensors that it writes to: the ABI does not express which arguments these are.
    ///
    /// # Errors
    /// Returns the error that the function raises, with its kind, message and backtrace unchanged.
    #[inline]
    pub fn call(&self, args: impl Args) -> Result<Any> {
        args.with_raw(|raw| self.call_raw(raw))
    }

    /// Calls the function and converts the result.
    ///
    /// # Errors
    /// As for [`Function::call`], and a TypeError if the result has another type.
    #[inline]
    pub fn call_as<R: for<'a> FromAny<'a>>(&self, args: impl Args) -> Result<R> {
        args.with_raw(|raw| self.call_raw_as(raw))
    }

    #[inline]
    pub(crate) fn call_raw(&self, args: &[TVMFFIAny]) -> Result<Any> {
        let Some(entry_point) = self.entry_point() else { return Err(no_entry_point()) };
        // SAFETY: the entry point belongs to this object; the arguments are valid views for the
        // call.
        unsafe { invoke(entry_point, self.object.as_ptr().cast(), args) }
    }

    #[inline]
    pub(crate) fn call_raw_as<R: for<'a> FromAny<'a>>(&self, args: &[TVMFFIAny]) -> Result<R> {
        let Some(entry_point) = self.entry_point() else { return Err(no_entry_point()) };
        // SAFETY: as in `call_raw`.
        unsafe { invoke_as(entry_point, self.object.as_ptr().cast(), args) }
    }

    /// Returns the same function with fixed types; calls then do not need type annotations.
    pub fn typed<A: Args, R: for<'a> FromAny<'a>>(&self) -> TypedFunction<A, R> {
        TypedFunction::new(self.clone())
    }
}

#[cold]
#[inline(never)]
fn no_entry_point() -> Error {
    Error::internal_error("the function object has no entry point")
}

/// Calls an entry point of the ABI.
///
/// # Safety
/// `entry_point` follows the calling convention, `handle` is the one that it expects, `args` are
/// valid views.
#[inline]
pub(crate) unsafe fn invoke(entry_point: SafeCall, handle: *mut c_void, args: &[TVMFFIAny]) -> Result<Any> {
    let mut result = Any::NONE;
    // SAFETY: promised by the caller.
    unsafe { invoke_into(entry_point, handle, args, &mut result)? };
    Ok(result)
}

/// Calls an entry point of the ABI and converts the result in place: copying it first would stall
/// on the callee's stores.
///
/// # Safety
/// As for [`invoke`].
#[inline]
pub(crate) unsafe fn invoke_as<R: for<'a> FromAny<'a>>(
    entry_point: SafeCall,
    handle: *mut c_void,
    args: &[TVMFFIAny],
) -> Result<R> {
    let mut result = Any::NONE;
    // SAFETY: promised by the caller.
    unsafe { invoke_into(entry_point, handle, args, &mut result)? };
    convert_result(&result)
}

/// # Safety
/// As for [`invoke`]; `result` is None.
#[inline]
unsafe fn invoke_into(entry_point: SafeCall, handle: *mut c_void, args: &[TVMFFIAny], result: &mut Any) -> Result<()> {
    // SAFETY: promised by the caller; on success the callee writes an owned value, else it leaves
    // None.
    let status = unsafe { entry_point(handle, args.as_ptr(), args.len() as i32, result.as_raw_mut()) };
    if status != 0 {
        return Err(Error::take_raised());
    }
    // A borrowed pointer does not own anything, so dropping `result` is correct for it, too.
    if (type_index::DL_TENSOR_PTR..=type_index::OBJECT_RVALUE_REF).contains(&result.type_index()) {
        return Err(borrowed_result());
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn borrowed_result() -> Error {
    Error::type_error("the function returned a borrowed pointer, which cannot be kept; it must return an owned value")
}

/// Converts a call's result.
#[inline]
pub(crate) fn convert_result<R: for<'a> FromAny<'a>>(result: &Any) -> Result<R> {
    match R::from_any(result.as_view()) {
        Ok(value) => Ok(value),
        Err(mismatch) => Err(wrong_result(mismatch, &R::TYPE, result)),
    }
}

#[cold]
#[inline(never)]
fn wrong_result(mismatch: Mismatch, expected: &TypeSchema, result: &Any) -> Error {
    mismatch.into_error("result of the call: ", expected, result.as_view())
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({:p})", self.object.as_ptr())
    }
}

impl PartialEq for Function {
    /// Compares by identity: true for the same function object.
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.object.as_ptr(), other.object.as_ptr())
    }
}

impl Eq for Function {}

impl core::hash::Hash for Function {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.as_ptr().hash(state);
    }
}

impl Schema for Function {
    const TYPE: TypeSchema = TypeSchema::new("ffi.Function");
    const STORAGE: crate::value::Storage = crate::value::Storage::Object;

    unsafe fn is_set(place: *const c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const c_void>().read().is_null() }
    }
}

impl<'a> FromAny<'a> for Function {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive; its index is checked before it is treated as a
        // function.
        unsafe {
            if (*object).type_index != type_index::FUNCTION {
                return Err(Mismatch::TYPE);
            }
            embedded::inc_ref(object);
            Ok(Self::from_raw(object))
        }
    }
}

impl Schema for &Function {
    const TYPE: TypeSchema = <Function as Schema>::TYPE;
}

/// A function that is borrowed for the duration of a call, without its own reference.
impl<'a> FromAny<'a> for &'a Function {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive for `'a`; its index is checked before it is
        // treated as a function. A function is transparent over the pointer to its object, and such
        // a pointer is in the view itself, or where an rvalue reference points.
        unsafe {
            if (*object).type_index != type_index::FUNCTION {
                return Err(Mismatch::TYPE);
            }
            if value.is_rvalue_ref() {
                return Ok(&*value.as_raw().payload.v_ptr.cast::<Function>());
            }
            Ok(&*(&raw const value.as_raw().payload.v_obj).cast::<Function>())
        }
    }
}

impl IntoAny for Function {
    #[inline]
    fn into_any(self) -> Any {
        self.object.into_any()
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Lent(self.to_arg())
    }
}

impl ToArg for Function {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        self.object.to_arg()
    }
}

impl From<Function> for Any {
    fn from(function: Function) -> Self {
        function.into_any()
    }
}
