//! A device API in a form that libraries built by different compilers can share: a table of C
//! functions.
//!
//! Each function returns 0, or -1 with the thread's raised error set; a panic of the API becomes an
//! InternalError. Later versions may add functions at the end; `struct_size` tells which functions
//! exist.

use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;

use super::{DeviceApi, DeviceAttribute, Place, RawEvent, RawStream};
use crate::abi::{TVMFFIAny, TVMFFIByteArray};
use crate::function::guard_nameless;
use crate::value::Any;
use crate::{Error, Result};

macro_rules! device_table {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $out:ty { |$api:ident| $answer:expr })*) => {
        /// The functions of a device API. Each takes the table's `context` as its first argument
        /// and writes its result to `out`.
        #[repr(C)]
        pub(super) struct DeviceTable {
            /// Size of the whole struct in bytes.
            struct_size: usize,
            /// The kind of device.
            device_type: i32,
            /// Name of the kind: UTF-8 that lives forever.
            name: TVMFFIByteArray,
            /// Pointer to the API itself.
            context: *const c_void,
            $($(#[$doc])* $name: unsafe extern "C" fn(*const c_void, $($type,)* *mut $out) -> i32,)*
        }

        impl DeviceTable {
            /// Creates the table of an API of this artifact.
            pub(super) fn new(device_type: i32, api: &'static dyn DeviceApi) -> Self {
                $(
                    /// # Safety
                    /// `context` belongs to a table created here, `out` is writable, and the caller
                    /// fulfills the requirements of the API's function.
                    unsafe extern "C" fn $name(context: *const c_void, $($argument: $type,)* out: *mut $out) -> i32 {
                        guard_nameless(|| {
                            // SAFETY: promised by the caller.
                            let $api = unsafe { *context.cast::<&'static dyn DeviceApi>() };
                            #[allow(unused_unsafe, reason = "some functions of an API are safe")]
                            // SAFETY: promised by the caller.
                            let result: $out = unsafe { $answer }?;
                            // SAFETY: promised by the caller.
                            unsafe { out.write(result) };
                            Ok(())
                        })
                    }
                )*
                // The name is copied: another artifact may keep it indefinitely.
                let name: &'static str = Box::leak(api.name().into());
                let context: *const &'static dyn DeviceApi = Box::leak(Box::new(api));
                Self {
                    struct_size: size_of::<Self>(),
                    device_type,
                    name: TVMFFIByteArray::new(name.as_bytes()),
                    context: context.cast(),
                    $($name,)*
                }
            }
        }
    };
}

device_table! {
    device_count() -> i32 { |api| api.device_count() }
    /// The attribute is one of [`DeviceAttribute`]'s numbers; the result for an unknown one is
    /// None. The result is owned.
    attribute(index: i32, number: i32) -> TVMFFIAny {
        |api| match DeviceAttribute::from_number(number) {
            Some(attribute) => api.attribute(index, attribute).map(Any::into_raw),
            None => Ok(TVMFFIAny::NONE),
        }
    }
    allocate(index: i32, size: usize, alignment: usize) -> *mut c_void { |api| api.allocate(index, size, alignment) }
    free(index: i32, data: *mut c_void) -> () { |api| api.free(index, data) }
    copy(source: Place, target: Place, size: usize, stream: RawStream) -> () {
        |api| api.copy(source, target, size, stream)
    }
    create_stream(index: i32) -> RawStream { |api| api.create_stream(index) }
    free_stream(index: i32, stream: RawStream) -> () { |api| api.free_stream(index, stream) }
    synchronize(index: i32, stream: RawStream) -> () { |api| api.synchronize(index, stream) }
    create_event(index: i32) -> RawEvent { |api| api.create_event(index) }
    free_event(index: i32, event: RawEvent) -> () { |api| api.free_event(index, event) }
    record_event(index: i32, event: RawEvent, stream: RawStream) -> () { |api| api.record_event(index, event, stream) }
    wait_for_event(index: i32, event: RawEvent, stream: RawStream) -> () {
        |api| api.wait_for_event(index, event, stream)
    }
    synchronize_event(index: i32, event: RawEvent) -> () { |api| api.synchronize_event(index, event) }
    elapsed(index: i32, start: RawEvent, end: RawEvent) -> f64 { |api| api.elapsed(index, start, end) }
    allocate_workspace(index: i32, size: usize) -> *mut c_void { |api| api.allocate_workspace(index, size) }
    free_workspace(index: i32, data: *mut c_void) -> () { |api| api.free_workspace(index, data) }
    /// `what` is UTF-8 of `size` bytes.
    native_handle(index: i32, what: *const c_char, size: usize) -> *mut c_void {
        |api| api.native_handle(index, core::str::from_utf8(core::slice::from_raw_parts(what.cast(), size))?)
    }
}

// SAFETY: the table does not change, and a device API may be used from any thread.
unsafe impl Send for DeviceTable {}
// SAFETY: as above.
unsafe impl Sync for DeviceTable {}

impl DeviceTable {
    /// Returns the API of a table that this artifact created.
    ///
    /// # Safety
    /// This artifact created the table.
    pub(super) unsafe fn own_api(&self) -> &'static dyn DeviceApi {
        // SAFETY: set in `new`.
        unsafe { *self.context.cast::<&'static dyn DeviceApi>() }
    }
}

/// An API that another artifact provides, called through its table.
pub(super) struct SharedDevice {
    table: &'static DeviceTable,
    name: String,
}

impl SharedDevice {
    /// # Errors
    /// Returns a RuntimeError if this version does not support the table.
    ///
    /// # Safety
    /// `table` is NULL or a [`DeviceTable`] of some size that lives forever.
    pub(super) unsafe fn new(table: *const DeviceTable) -> Result<Self> {
        // SAFETY: promised by the caller; all tables begin with their size.
        if table.is_null() || unsafe { (*table).struct_size } < size_of::<DeviceTable>() {
            return Err(crate::error!(
                RuntimeError,
                "the library that brings this kind of device was built with another version of kernpack; build both with the same"
            ));
        }
        // SAFETY: promised by the caller, and large enough.
        let table = unsafe { &*table };
        // SAFETY: the name lives as long as the table.
        let name = String::from_utf8_lossy(unsafe { table.name.as_slice() }).into_owned();
        Ok(Self { table, name })
    }

    /// Calls a function of the table with its context and a place for its result.
    fn ask<T>(&self, function: impl FnOnce(*const c_void, *mut T) -> i32) -> Result<T> {
        let mut out = MaybeUninit::uninit();
        Error::check(function(self.table.context, out.as_mut_ptr()))?;
        // SAFETY: a function that returns 0 has written its result.
        Ok(unsafe { out.assume_init() })
    }
}

/// Forwards a function of the trait to the table.
macro_rules! through_the_table {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        // SAFETY: the table's functions are those of a device API: the caller of this function has
        // made the promises that they require; `out` is writable.
        $self.ask(|context, out| unsafe { ($self.table.$name)(context, $($argument,)* out) })
    };
}

impl DeviceApi for SharedDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn device_count(&self) -> Result<i32> {
        through_the_table!(self.device_count())
    }

    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any> {
        let value = through_the_table!(self.attribute(index, attribute as i32))?;
        // SAFETY: the value is owned and was passed to this function.
        Ok(unsafe { Any::from_raw(value) })
    }

    fn allocate(&self, index: i32, size: usize, alignment: usize) -> Result<*mut c_void> {
        through_the_table!(self.allocate(index, size, alignment))
    }

    unsafe fn free(&self, index: i32, data: *mut c_void) -> Result<()> {
        through_the_table!(self.free(index, data))
    }

    unsafe fn copy(&self, source: Place, target: Place, size: usize, stream: RawStream) -> Result<()> {
        through_the_table!(self.copy(source, target, size, stream))
    }

    fn create_stream(&self, index: i32) -> Result<RawStream> {
        through_the_table!(self.create_stream(index))
    }

    unsafe fn free_stream(&self, index: i32, stream: RawStream) -> Result<()> {
        through_the_table!(self.free_stream(index, stream))
    }

    unsafe fn synchronize(&self, index: i32, stream: RawStream) -> Result<()> {
        through_the_table!(self.synchronize(index, stream))
    }

    fn create_event(&self, index: i32) -> Result<RawEvent> {
        through_the_table!(self.create_event(index))
    }

    unsafe fn free_event(&self, index: i32, event: RawEvent) -> Result<()> {
        through_the_table!(self.free_event(index, event))
    }

    unsafe fn record_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        through_the_table!(self.record_event(index, event, stream))
    }

    unsafe fn wait_for_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        through_the_table!(self.wait_for_event(index, event, stream))
    }

    unsafe fn synchronize_event(&self, index: i32, event: RawEvent) -> Result<()> {
        through_the_table!(self.synchronize_event(index, event))
    }

    unsafe fn elapsed(&self, index: i32, start: RawEvent, end: RawEvent) -> Result<f64> {
        through_the_table!(self.elapsed(index, start, end))
    }

    fn allocate_workspace(&self, index: i32, size: usize) -> Result<*mut c_void> {
        through_the_table!(self.allocate_workspace(index, size))
    }

    unsafe fn free_workspace(&self, index: i32, data: *mut c_void) -> Result<()> {
        through_the_table!(self.free_workspace(index, data))
    }

    fn native_handle(&self, index: i32, what: &str) -> Result<*mut c_void> {
        through_the_table!(self.native_handle(index, what.as_ptr().cast(), what.len()))
    }
}
