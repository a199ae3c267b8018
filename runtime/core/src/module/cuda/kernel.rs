use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{
    CUdevice_attribute as Number, CUfunction, CUfunction_attribute as Property, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchAttributeValue, CUlaunchConfig,
};

use crate::device::RawStream;
use crate::device::cuda::device::CudaDevice;
use crate::module::launch::{KernelArg, LaunchConfig};
use crate::{Error, Result};

/// Dynamic shared memory that a kernel may use without raising its limit.
const PLAIN_SHARED_MEMORY: u32 = 48 * 1024;
/// Number of parameters of a launch that are stored on the stack; more are allocated on the heap.
const ON_STACK: usize = 32;

/// A kernel of a loaded image.
pub(super) struct CudaKernel {
    device: &'static CudaDevice,
    function: CUfunction,
    /// The current limit of its dynamic shared memory.
    shared_memory: AtomicU32,
    /// Locked while the limit is raised.
    raising: Mutex<()>,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for CudaKernel {}
// SAFETY: as above.
unsafe impl Sync for CudaKernel {}

impl CudaKernel {
    #[inline]
    pub(super) fn new(device: &'static CudaDevice, function: CUfunction) -> Self {
        Self { device, function, shared_memory: AtomicU32::new(PLAIN_SHARED_MEMORY), raising: Mutex::new(()) }
    }

    /// Launches the kernel.
    ///
    /// # Safety
    /// The arguments match the kernel's types and stay valid until the work is done; the stream
    /// belongs to the device; the image is loaded.
    #[inline]
    pub(super) unsafe fn launch(&self, config: &LaunchConfig, args: &[KernelArg], stream: RawStream) -> Result<()> {
        let _entered = self.device.enter()?;
        if config.dynamic_shared_memory > self.shared_memory.load(Ordering::Acquire) {
            self.raise_shared_memory(config.dynamic_shared_memory)?;
        }
        let mut addresses = [const { MaybeUninit::<u64>::uninit() }; ON_STACK];
        let mut params = [const { MaybeUninit::<*mut c_void>::uninit() }; ON_STACK];
        let mut heap: (Vec<MaybeUninit<u64>>, Vec<MaybeUninit<*mut c_void>>);
        let (addresses, params) = if args.len() <= ON_STACK {
            (&mut addresses[..args.len()], &mut params[..args.len()])
        } else {
            heap = (vec![MaybeUninit::uninit(); args.len()], vec![MaybeUninit::uninit(); args.len()]);
            (&mut heap.0[..], &mut heap.1[..])
        };
        for ((arg, address), param) in args.iter().zip(addresses).zip(params.iter_mut()) {
            let value: *const c_void = match arg {
                KernelArg::Pointer { data, byte_offset, .. } => {
                    let start = data.expose_provenance() as u64;
                    ptr::from_ref(address.write(start.wrapping_add(*byte_offset))).cast()
                }
                // The lowest bytes come first: CUDA's hosts are little endian.
                KernelArg::Number { bits, .. } => ptr::from_ref(bits).cast(),
                KernelArg::TensorMap { address } => *address,
            };
            param.write(value.cast_mut());
        }
        let params = params.as_mut_ptr().cast::<*mut c_void>();
        // SAFETY: one value for each parameter, at least as large as the parameter; the driver
        // copies them before it returns. The caller promises the rest.
        let status = unsafe {
            if config.cluster.is_none() && !config.cooperative && !config.programmatic {
                let ([grid_x, grid_y, grid_z], [x, y, z]) = (config.grid, config.block);
                (self.device.driver().launch)(
                    self.function,
                    grid_x,
                    grid_y,
                    grid_z,
                    x,
                    y,
                    z,
                    config.dynamic_shared_memory,
                    stream.0.cast(),
                    params,
                    ptr::null_mut(),
                )
            } else {
                self.launch_with_attributes(config, params, stream)
            }
        };
        if status == 0 { Ok(()) } else { Err(self.refused(status, config)) }
    }

    /// Launches with attributes: in clusters, cooperatively, or programmatically.
    ///
    /// # Safety
    /// As for [`CudaKernel::launch`]; `params` are the addresses of the parameters.
    #[cold]
    #[inline]
    unsafe fn launch_with_attributes(&self, config: &LaunchConfig, params: *mut *mut c_void, stream: RawStream) -> u32 {
        let mut attributes = Vec::with_capacity(3);
        let mut add = |id, set: &dyn Fn(&mut CUlaunchAttributeValue)| {
            let mut value = CUlaunchAttributeValue { pad: [0; 64] };
            set(&mut value);
            attributes.push(CUlaunchAttribute { id, pad: [0; 4], value });
        };
        if let Some([x, y, z]) = config.cluster {
            add(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &|value| {
                // SAFETY: all zeros are a valid value of each variant.
                let cluster = unsafe { &mut value.clusterDim };
                (cluster.x, cluster.y, cluster.z) = (x, y, z);
            });
        }
        if config.cooperative {
            add(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &|value| value.cooperative = 1);
        }
        if config.programmatic {
            add(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &|value| {
                value.programmaticStreamSerializationAllowed = 1;
            });
        }
        let ([grid_x, grid_y, grid_z], [x, y, z]) = (config.grid, config.block);
        let launch = CUlaunchConfig {
            gridDimX: grid_x,
            gridDimY: grid_y,
            gridDimZ: grid_z,
            blockDimX: x,
            blockDimY: y,
            blockDimZ: z,
            sharedMemBytes: config.dynamic_shared_memory,
            hStream: stream.0.cast(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        // SAFETY: the attributes live until the call returns; the caller promises the rest.
        unsafe { (self.device.driver().launch_with_attributes)(&launch, self.function, params, ptr::null_mut()) }
    }

    /// Raises the kernel's limit of dynamic shared memory.
    #[cold]
    #[inline]
    fn raise_shared_memory(&self, bytes: u32) -> Result<()> {
        let _raising = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= self.shared_memory.load(Ordering::Acquire) {
            return Ok(());
        }
        let size = i32::try_from(bytes).unwrap_or(i32::MAX);
        let property = Property::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let driver = self.device.driver();
        // SAFETY: the function belongs to a loaded image, and its device's context is current.
        let status = unsafe { (driver.function_set_attribute)(self.function, property, size) };
        if status == 0 {
            self.shared_memory.store(bytes, Ordering::Release);
            return Ok(());
        }
        Err(self.too_much_shared_memory(bytes).unwrap_or_else(|| {
            driver.error(status, format_args!("{bytes} bytes of dynamic shared memory are refused"))
        }))
    }

    /// Returns a property of the kernel, if the driver provides it.
    #[inline]
    fn property(&self, property: Property) -> Option<i64> {
        let mut value = 0;
        // SAFETY: the result is writable, and the function belongs to a loaded image.
        let status = unsafe { (self.device.driver().function_attribute)(&mut value, property, self.function) };
        (status == 0).then_some(i64::from(value))
    }

    /// Returns a limit of the device, if the driver provides it.
    #[inline]
    fn limit(&self, number: Number) -> Option<i64> {
        self.device.number(number).ok().map(i64::from)
    }

    #[inline]
    fn too_much_shared_memory(&self, bytes: u32) -> Option<Error> {
        let all = self.limit(Number::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let own = self.property(Property::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES).unwrap_or(0);
        (i64::from(bytes) > all - own).then(|| {
            crate::error!(
                ValueError,
                "{bytes} bytes of dynamic shared memory are too many: a block has at most {all} bytes on cuda:{}, of which the \
                 kernel itself uses {own}",
                self.device.index()
            )
        })
    }

    /// Creates the error for a launch that the driver rejected, with the limit that it exceeds, if
    /// that is the reason.
    #[cold]
    #[inline]
    fn refused(&self, status: u32, config: &LaunchConfig) -> Error {
        // Invalid value, invalid configuration of a cluster, too many resources: other statuses do
        // not concern sizes.
        let exceeded = matches!(status, 1 | 701 | 912).then(|| self.exceeded(config)).flatten();
        exceeded.unwrap_or_else(|| self.device.driver().error(status, format_args!("the launch failed")))
    }

    #[inline]
    fn exceeded(&self, config: &LaunchConfig) -> Option<Error> {
        let place = self.device.index();
        let threads = config.block.iter().map(|extent| u128::from(*extent)).product::<u128>();
        let all = self.limit(Number::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        let own = self.property(Property::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK).unwrap_or(all);
        if threads > own.min(all) as u128 {
            let (limit, whose) = if own < all { (own, "this kernel") } else { (all, "a block") };
            return Some(crate::error!(
                ValueError,
                "{threads} threads in a block are too many: {whose} has at most {limit} on cuda:{place}"
            ));
        }
        let axes = [
            (config.block[0], Number::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, "block", "x"),
            (config.block[1], Number::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, "block", "y"),
            (config.block[2], Number::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, "block", "z"),
            (config.grid[0], Number::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, "grid", "x"),
            (config.grid[1], Number::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, "grid", "y"),
            (config.grid[2], Number::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, "grid", "z"),
        ];
        for (extent, limit, what, axis) in axes {
            if let Some(limit) = self.limit(limit).filter(|limit| i64::from(extent) > *limit) {
                return Some(crate::error!(
                    ValueError,
                    "a {what} of {extent} along {axis} is too large: cuda:{place} has at most {limit}"
                ));
            }
        }
        self.too_much_shared_memory(config.dynamic_shared_memory)
    }
}
