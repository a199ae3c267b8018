use core::ffi::c_void;
use core::fmt;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use super::driver::{Driver, Handle};
use crate::abi::{device_type, type_index};
use crate::function::Function;
use crate::module::device_image::{ArgType, DYNAMIC_SHARED_MEMORY, DeviceFunction, DeviceImage, GRID_AND_BLOCK};
use crate::tensor::cuda_address;
use crate::value::{Any, AnyView, Bytes, FromAny};
use crate::{Error, Result, host};

/// Dynamic shared memory that a kernel may have without asking.
const PLAIN_SHARED_MEMORY: u32 = 48 * 1024;

/// An image, and where it has been loaded.
pub(in crate::module) struct CudaImage {
    payload: Bytes,
    /// Context and module on each device.
    loaded: Mutex<Vec<(i32, Address, Address)>>,
}

/// A handle of the driver, which may be used from any thread.
#[derive(Clone, Copy)]
struct Address(Handle);

// SAFETY: the driver API is thread-safe.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl CudaImage {
    pub(super) fn new(payload: Bytes) -> Self {
        Self { payload, loaded: Mutex::default() }
    }

    /// Context and module on a device; loads the image there at first.
    fn on_device(&self, driver: &Driver, device: i32) -> Result<(Handle, Handle), String> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, context, module)) = loaded.iter().find(|entry| entry.0 == device) {
            return Ok((context.0, module.0));
        }
        let image = DeviceImage::parse(&self.payload).map_err(|error| error.to_string())?;
        let mut code = image.code().to_vec();
        // The driver finds the end of PTX by its NUL.
        code.push(0);
        let context = driver.primary_context(device)?;
        let module = driver.within(context, || driver.load_module(&code))?;
        loaded.push((device, Address(context), Address(module)));
        Ok((context, module))
    }
}

/// A kernel's entry in the function table, owned.
struct Kernel {
    image: Arc<CudaImage>,
    name: String,
    symbol: CString,
    arg_types: Vec<ArgType>,
    launch_params: Vec<String>,
    /// The kernel on each device.
    functions: Mutex<Vec<(i32, Address)>>,
}

/// The packed function that launches a kernel of `image`.
pub(in crate::module) fn kernel(image: &Arc<CudaImage>, kernel: &DeviceFunction<'_>) -> Result<Function> {
    let unknown =
        kernel.launch_params.iter().find(|tag| !GRID_AND_BLOCK.contains(tag) && **tag != DYNAMIC_SHARED_MEMORY);
    if let Some(tag) = unknown {
        return Err(crate::error!(
            RuntimeError,
            "cuda kernel '{}' wants the launch parameter '{tag}', which is not supported",
            kernel.name
        ));
    }
    if kernel.extra_tags.iter().any(|tag| *tag != 0) {
        return Err(crate::error!(
            RuntimeError,
            "cuda kernel '{}' takes a tensor map, which is not supported",
            kernel.name
        ));
    }
    let kernel = Kernel {
        image: Arc::clone(image),
        name: kernel.name.to_owned(),
        symbol: CString::new(kernel.name).map_err(|_| Error::value_error("a kernel's name contains a NUL byte"))?,
        arg_types: kernel.arg_types.clone(),
        launch_params: kernel.launch_params.iter().map(|tag| (*tag).to_owned()).collect(),
        functions: Mutex::default(),
    };
    Ok(Function::from_packed(move |args| kernel.launch(args)))
}

/// Sizes of a launch.
struct Extents {
    grid: [u32; 3],
    block: [u32; 3],
    shared_memory: u32,
}

impl Kernel {
    fn launch(&self, args: &[AnyView<'_>]) -> Result<Any> {
        let driver = Driver::get().map_err(|why| self.error(&why))?;
        let expected = self.arg_types.len() + self.launch_params.len();
        if args.len() != expected {
            return Err(crate::error!(
                TypeError,
                "cuda kernel '{}' takes {} arguments and then {}: {expected} in all, got {}",
                self.name,
                self.arg_types.len(),
                self.launch_params.join(", "),
                args.len()
            ));
        }
        let (own, extents) = args.split_at(self.arg_types.len());
        let mut device = None;
        let mut values = Vec::with_capacity(own.len());
        for (index, (ty, arg)) in self.arg_types.iter().zip(own).enumerate() {
            values.push(self.parameter(index, *ty, arg, &mut device)?);
        }
        let extents = self.extents(extents)?;
        let device = device.unwrap_or(0);
        self.launch_on(driver, device, &extents, &mut values).map_err(|why| {
            let Extents { grid, block, shared_memory } = extents;
            self.error(&format!(
                "{why}; launched on cuda:{device} with grid {grid:?}, block {block:?} and {shared_memory} bytes of dynamic shared \
                 memory"
            ))
        })?;
        Ok(Any::NONE)
    }

    fn launch_on(&self, driver: &Driver, device: i32, extents: &Extents, values: &mut [u64]) -> Result<(), String> {
        let (context, module) = self.image.on_device(driver, device)?;
        driver.within(context, || {
            let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
            let function = match functions.iter().find(|entry| entry.0 == device) {
                Some((_, function)) => function.0,
                None => {
                    let function = driver.function(module, &self.symbol)?;
                    functions.push((device, Address(function)));
                    function
                }
            };
            drop(functions);
            if extents.shared_memory >= PLAIN_SHARED_MEMORY {
                driver.allow_shared_memory(function, extents.shared_memory)?;
            }
            // SAFETY: reads the thread's stream for the device.
            let stream = unsafe { (host::api().env_get_stream)(device_type::CUDA, device) };
            let mut params: Vec<*mut c_void> =
                values.iter_mut().map(|value| core::ptr::from_mut(value).cast()).collect();
            // SAFETY: one value for each parameter of the function table, at least as large as the parameter, little endian.
            unsafe { driver.launch(function, extents.grid, extents.block, extents.shared_memory, stream, &mut params) }
        })
    }

    /// The bits of a parameter, little endian.
    fn parameter(&self, index: usize, ty: ArgType, arg: &AnyView<'_>, device: &mut Option<i32>) -> Result<u64> {
        let wrong = |clause: fmt::Arguments<'_>| {
            crate::error!(TypeError, "cuda kernel '{}': argument {index}: {clause}", self.name)
        };
        let number = |arg: &AnyView<'_>| {
            i64::from_any(arg).map_err(|_| wrong(format_args!("expected int, got {}", arg.type_name())))
        };
        match (ty.code, ty.bits, ty.lanes) {
            (ArgType::POINTER_CODE, 64, 1) if arg.is_none() => Ok(0),
            (ArgType::POINTER_CODE, 64, 1) if arg.type_index() == type_index::OPAQUE_PTR => Ok(arg.raw().bits()),
            (ArgType::POINTER_CODE, 64, 1) => {
                let (address, own_device) = cuda_address(arg).map_err(|clause| wrong(format_args!("{clause}")))?;
                match device {
                    Some(first) if *first != own_device => {
                        return Err(wrong(format_args!(
                            "is on cuda:{own_device}, but an argument before is on cuda:{first}"
                        )));
                    }
                    _ => *device = Some(own_device),
                }
                Ok(address)
            }
            (0, 64, 1) => number(arg).map(|value| value as u64),
            (1, 64, 1) => {
                u64::from_any(arg).map_err(|_| wrong(format_args!("expected an int from 0 up, got {}", shown(arg))))
            }
            (0 | 1, bits @ (8 | 16 | 32), 1) => {
                let value = number(arg)?;
                let (min, max) = if ty.code == 0 {
                    (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1)
                } else {
                    (0, (1i64 << bits) - 1)
                };
                if !(min..=max).contains(&value) {
                    return Err(wrong(format_args!(
                        "{value} is out of range for a {bits}-bit integer ({min} to {max})"
                    )));
                }
                Ok(value as u64)
            }
            (2, 64, 1) => {
                let value =
                    f64::from_any(arg).map_err(|_| wrong(format_args!("expected float, got {}", arg.type_name())))?;
                Ok(value.to_bits())
            }
            (2, 32, 1) => {
                let value = f64::from_any(arg).ok().filter(|wide| !(*wide as f32).is_infinite() || wide.is_infinite());
                let value = value.ok_or_else(|| wrong(format_args!("expected float, got {}", arg.type_name())))?;
                Ok(u64::from((value as f32).to_bits()))
            }
            (code, bits, lanes) => {
                Err(wrong(format_args!("parameters of type code {code} with {bits} bits x {lanes} are not supported")))
            }
        }
    }

    fn extents(&self, args: &[AnyView<'_>]) -> Result<Extents> {
        let mut extents = Extents { grid: [1; 3], block: [1; 3], shared_memory: 0 };
        for (tag, arg) in self.launch_params.iter().zip(args) {
            let least = u32::from(tag != DYNAMIC_SHARED_MEMORY);
            let value = u32::from_any(arg).ok().filter(|value| *value >= least).ok_or_else(|| {
                crate::error!(
                    ValueError,
                    "cuda kernel '{}': {tag} must be an int from {least} up, got {}",
                    self.name,
                    shown(arg)
                )
            })?;
            match GRID_AND_BLOCK.iter().position(|known| known == tag) {
                Some(axis @ 0..=2) => extents.grid[axis] = value,
                Some(axis) => extents.block[axis - 3] = value,
                None => extents.shared_memory = value,
            }
        }
        Ok(extents)
    }

    #[cold]
    fn error(&self, why: &str) -> Error {
        crate::error!(RuntimeError, "cuda kernel '{}': {why}", self.name)
    }
}

/// An argument for a message: an integer's value, or what else it is.
fn shown(arg: &AnyView<'_>) -> String {
    match i64::from_any(arg) {
        Ok(value) => value.to_string(),
        Err(_) => arg.type_name(),
    }
}
