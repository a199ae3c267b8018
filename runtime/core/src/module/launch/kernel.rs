use core::ffi::c_void;
use std::ffi::CString;
use std::sync::Arc;

use super::arguments::Reach;
use super::handles::Handles;
use super::signature::Signature;
use super::{DeviceCode, KernelArg, LaunchConfig, current_device};
use crate::abi::TVMFFIAny;
use crate::device::RawStream;
use crate::function::{Function, guard_nameless, install_hook, views};
use crate::module::device_image::DeviceFunction;
use crate::value::{AnyView, Device};
use crate::{Error, Result, embedded, provider};

/// A kernel of an image whose code runs here: the closure of its packed function.
pub(crate) struct ImageKernel {
    signature: Signature,
    symbol: CString,
    code: Arc<dyn DeviceCode>,
    device_type: i32,
    handles: Handles,
}

impl ImageKernel {
    /// Creates a kernel of a module of `kind`; `code` runs it.
    ///
    /// # Errors
    /// Returns a RuntimeError for a launch parameter or an argument that the kind does not have.
    #[inline]
    pub(crate) fn new(kind: &str, kernel: &DeviceFunction<'_>, code: Arc<dyn DeviceCode>) -> Result<Self> {
        let signature = Signature::new(kind, kernel)?;
        if kernel.extra_tags.iter().any(|tag| *tag != 0) && !code.takes_tensor_maps() {
            return Err(crate::error!(
                RuntimeError,
                "{} takes a tensor map, which is not supported",
                signature.shown()
            ));
        }
        let symbol =
            CString::new(kernel.name).map_err(|_| Error::value_error("a kernel's name contains a NUL byte"))?;
        let device_type = code.device_type();
        Ok(Self { signature, symbol, code, device_type, handles: Handles::new() })
    }

    /// Converts it to the packed function that launches the kernel.
    #[inline]
    pub(crate) fn into_function(self) -> Function {
        install_hook();
        // SAFETY: a new function object; the result owns its one reference. The entry point finds
        // the closure of this type.
        unsafe { Function::from_raw(embedded::new_function(call_kernel, self)) }
    }

    /// Returns the kernel of a function, if [`ImageKernel::into_function`] of this artifact created
    /// it.
    #[inline]
    pub(crate) fn of(function: &Function) -> Option<&Self> {
        if !function.has_entry_point(call_kernel) {
            return None;
        }
        // SAFETY: only `into_function` creates functions with this entry point; the object lives as
        // long as the borrow.
        Some(unsafe { embedded::closure_of(function.as_ptr().cast()) })
    }

    /// Sets the names of the arguments, for messages.
    #[inline]
    pub(crate) fn name_arguments<S: AsRef<str>>(&self, names: &[S]) {
        self.signature.name_arguments(names);
    }

    /// A packed call: the kernel's own arguments, then launch parameters.
    #[inline]
    fn call(&self, values: &[AnyView<'_>]) -> Result<()> {
        let (args, config) = self.signature.read(values)?;
        self.start(&config, args)
    }

    /// A typed launch: the kernel's own arguments.
    #[inline]
    pub(crate) fn launch(&self, config: &LaunchConfig, args: &[AnyView<'_>]) -> Result<()> {
        match self.signature.tags.complete(config) {
            Ok(config) => self.start(&config, args),
            Err(tag) => Err(self.signature.wrong_extent(tag, 1, "0")),
        }
    }

    #[inline]
    fn start(&self, config: &LaunchConfig, args: &[AnyView<'_>]) -> Result<()> {
        let beyond = |device| self.code.can_reach(device);
        let reach = Reach { device_type: self.device_type, beyond: &beyond };
        self.signature.with_args(
            args,
            &reach,
            || current_device::get(self.device_type),
            |index, args| self.start_on(index, config, args).map_err(|error| self.failed(index, config, &error)),
        )
    }

    #[inline]
    fn start_on(&self, index: i32, config: &LaunchConfig, args: &[KernelArg]) -> Result<()> {
        let kernel = self.handles.get(index, || self.code.kernel(index, &self.symbol))?;
        // SAFETY: reads the thread's stream for the device.
        let stream = RawStream(unsafe { (provider::api().env_get_stream)(self.device_type, index) });
        // SAFETY: the handle belongs to this device, and the arguments were checked against the
        // function table; every caller of a kernel promises that the memory behind them stays valid
        // until the work is done.
        unsafe { self.code.launch(index, kernel, config, args, stream) }
    }

    /// Adds the kernel, the device and the launch configuration to an error.
    #[cold]
    #[inline]
    fn failed(&self, index: i32, config: &LaunchConfig, error: &Error) -> Error {
        let LaunchConfig { grid, block, cluster, dynamic_shared_memory, .. } = config;
        let cluster = cluster.map_or(String::new(), |cluster| format!(" in clusters of {cluster:?}"));
        let message = format!(
            "{}: {}; launched on {} with grid {grid:?}{cluster}, block {block:?} and {dynamic_shared_memory} bytes of dynamic \
             shared memory",
            self.signature.shown(),
            self.signature.with_names(error.message()),
            Device::new(self.device_type, index)
        );
        Error::new(error.kind(), message)
    }
}

/// Entry point of the functions created by [`ImageKernel::into_function`]. Its address identifies
/// them, so it is compiled once, in this crate.
#[inline(never)]
unsafe extern "C" fn call_kernel(
    this: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    guard_nameless(|| {
        // SAFETY: the handle is a function created by `into_function`; the caller passes `num_args`
        // valid views and a writable result.
        unsafe {
            let kernel = embedded::closure_of::<ImageKernel>(this);
            kernel.call(views(args, num_args))?;
            result.write(TVMFFIAny::NONE);
        }
        Ok(())
    })
}
