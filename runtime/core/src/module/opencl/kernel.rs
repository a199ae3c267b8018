//! A kernel of a program, and its launch.

use core::ffi::{CStr, c_void};
use core::ptr::{self, null_mut};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use opencl_sys::{
    CL_BUFFER_CREATE_TYPE_REGION, CL_DEVICE_LOCAL_MEM_SIZE, CL_DEVICE_MAX_WORK_ITEM_SIZES,
    CL_DEVICE_MEM_BASE_ADDR_ALIGN, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, CL_KERNEL_LOCAL_MEM_SIZE, CL_KERNEL_NUM_ARGS,
    CL_KERNEL_WORK_GROUP_SIZE, CL_MEM_SIZE, cl_buffer_region, cl_kernel, cl_mem, cl_program,
};

use super::program::Target;
use crate::device::RawStream;
use crate::device::opencl::info;
use crate::device::opencl::library::{Failure, cl_call, cl_make};
use crate::module::launch::{KernelArg, LaunchConfig};
use crate::{Result, bail, ensure};

/// A kernel on a device.
///
/// A `cl_kernel` holds the arguments of the next launch, so only one thread at a time may use it.
/// Each launch takes one from `idle`, or creates one: there are as many as there were concurrent
/// launches.
pub(super) struct Kernel {
    target: Target,
    program: cl_program,
    symbol: CString,
    idle: Mutex<Vec<cl_kernel>>,
    limits: Limits,
}

/// The limits of the device and of the compiled kernel.
struct Limits {
    /// Number of parameters of the kernel in the code.
    params: usize,
    /// Maximum number of work items of a group.
    group: usize,
    /// Maximum number of work items of a group in each dimension.
    items: [usize; 3],
    /// The only group size that the code allows (`reqd_work_group_size`), if it declares one.
    required: Option<[usize; 3]>,
    /// Bytes of local memory of the device, and the number that the kernel itself uses.
    local: (u64, u64),
    /// Required alignment in bytes of an argument's offset in a buffer.
    alignment: u64,
}

// SAFETY: a `cl_kernel` may be used from any thread, by one thread at a time: the one that takes it
// out of `idle`.
unsafe impl Send for Kernel {}
// SAFETY: as above; everything else of OpenCL may be used by several threads.
unsafe impl Sync for Kernel {}

/// Part of a buffer, as a separate object until the launch is queued.
struct SubBuffer<'a> {
    target: &'a Target,
    memory: cl_mem,
}

impl Drop for SubBuffer<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this value owns the reference; OpenCL keeps memory that queued work still needs.
        // A failure cannot be handled.
        let _ = unsafe { cl_call!(self.target.library, clReleaseMemObject(self.memory)) };
    }
}

impl Kernel {
    /// Creates the kernel of a built program.
    #[inline]
    pub(super) fn new(target: &Target, program: cl_program, symbol: &CStr) -> Result<Self> {
        let kernel = make(target, program, symbol).map_err(|why| match why {
            Failure::Status(opencl_sys::CL_INVALID_KERNEL_NAME) => {
                crate::error!(RuntimeError, "the code has no such kernel: {why}")
            }
            why => target.failed(format_args!("the kernel cannot be made"), why),
        })?;
        // From here on it is released in every case.
        let limits = Limits::NONE;
        let (target, symbol, idle) = (target.clone(), symbol.to_owned(), Mutex::new(vec![kernel]));
        let mut this = Self { target, program, symbol, idle, limits };
        this.limits = Limits::of(&this.target, kernel)
            .map_err(|why| this.target.failed(format_args!("the kernel cannot be described"), why))?;
        Ok(this)
    }

    #[inline]
    pub(super) fn symbol(&self) -> &CStr {
        &self.symbol
    }

    /// Enqueues the kernel in a stream.
    ///
    /// # Safety
    /// The arguments match the kernel's types, and the stream belongs to the device.
    #[inline]
    pub(super) unsafe fn launch(&self, config: &LaunchConfig, args: &[KernelArg], stream: RawStream) -> Result<()> {
        let local = self.limits.check(config, args.len())?;
        let taken = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let kernel = match taken {
            Some(kernel) => kernel,
            None => make(&self.target, self.program, &self.symbol)
                .map_err(|why| self.target.failed(format_args!("the kernel cannot be made"), why))?,
        };
        // SAFETY: promised by the caller; no other code uses this `cl_kernel`.
        let outcome = unsafe { self.enqueue(kernel, config, args, local, stream) };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(kernel);
        outcome
    }

    /// Sets the arguments and enqueues the kernel.
    ///
    /// # Safety
    /// As for [`Kernel::launch`]; no other code uses `kernel` meanwhile.
    #[inline]
    unsafe fn enqueue(
        &self,
        kernel: cl_kernel,
        config: &LaunchConfig,
        args: &[KernelArg],
        local: Option<usize>,
        stream: RawStream,
    ) -> Result<()> {
        let library = self.target.library;
        let mut parts = Vec::new();
        for (position, arg) in args.iter().enumerate() {
            let value: [u8; 8];
            let (size, value) = match *arg {
                KernelArg::Pointer { data, .. } if data.is_null() => (size_of::<cl_mem>(), ptr::null()),
                KernelArg::Pointer { data, byte_offset, .. } => {
                    let mut memory = data;
                    if byte_offset > 0 {
                        // SAFETY: the argument is memory of the device.
                        let part = unsafe { self.part(position, data, byte_offset) }?;
                        memory = part.memory;
                        parts.push(part);
                    }
                    value = memory.addr().to_ne_bytes();
                    (size_of::<cl_mem>(), value.as_ptr().cast::<c_void>())
                }
                KernelArg::Number { bits, size } => {
                    value = bits.to_le_bytes();
                    (size.min(8), value.as_ptr().cast())
                }
                KernelArg::TensorMap { .. } => {
                    bail!(RuntimeError, "argument {position} is a tensor map; OpenCL has none")
                }
            };
            // SAFETY: the value has this size; OpenCL copies it.
            unsafe { cl_call!(library, clSetKernelArg(kernel, position as u32, size, value)) }
                .map_err(|why| self.wrong_argument(position, size, why))?;
        }
        if let Some(size) = local {
            let position = args.len();
            // SAFETY: local memory has a size but no value.
            unsafe { cl_call!(library, clSetKernelArg(kernel, position as u32, size, ptr::null())) }
                .map_err(|why| self.wrong_argument(position, size, why))?;
        }
        let group = config.block.map(|extent| extent as usize);
        let items: [usize; 3] = core::array::from_fn(|axis| group[axis].saturating_mul(config.grid[axis] as usize));
        let dimensions = (1..=3).rev().find(|axis| items[axis - 1] > 1).unwrap_or(1);
        let queue = if stream == RawStream::DEFAULT { self.target.queue } else { stream.0 };
        // SAFETY: the queue belongs to the device, all arguments are set, and the sizes have as
        // many items as there are dimensions.
        unsafe {
            cl_call!(
                library,
                clEnqueueNDRangeKernel(
                    queue,
                    kernel,
                    dimensions as u32,
                    ptr::null(),
                    items.as_ptr(),
                    group.as_ptr(),
                    0,
                    ptr::null(),
                    null_mut()
                )
            )
        }
        .map_err(|why| self.target.failed(format_args!("the launch failed"), why))
    }

    /// Creates the part of a buffer that begins at `offset` bytes.
    ///
    /// # Safety
    /// `buffer` is memory of the device.
    #[inline]
    unsafe fn part(&self, position: usize, buffer: cl_mem, offset: u64) -> Result<SubBuffer<'_>> {
        let alignment = self.limits.alignment;
        ensure!(
            offset.is_multiple_of(alignment),
            ValueError,
            "argument {position} begins {offset} bytes into its buffer, but this device's kernels can only be given what begins at \
             a multiple of {alignment} bytes; copy the view into a tensor of its own"
        );
        let (library, target) = (self.target.library, &self.target);
        // SAFETY: promised by the caller.
        let whole = info::read(|size, value, needed| unsafe {
            cl_call!(library, clGetMemObjectInfo(buffer, CL_MEM_SIZE, size, value, needed))
        });
        let failed = |why| target.failed(format_args!("argument {position} is not part of its buffer"), why);
        let whole = whole.and_then(|value| info::number(&value)).map_err(failed)?;
        // An empty view at the end of a buffer begins where no part can begin.
        if whole <= offset {
            bail!(ValueError, "argument {position} begins {offset} bytes into a buffer of {whole} bytes");
        }
        let region = cl_buffer_region { origin: offset as usize, size: (whole - offset) as usize };
        // SAFETY: the region is in the buffer. With flags of 0, the part inherits the access of the
        // buffer.
        let memory = unsafe {
            cl_make!(library, clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, (&raw const region).cast()))
        };
        Ok(SubBuffer { target, memory: memory.map_err(failed)? })
    }

    #[cold]
    #[inline]
    fn wrong_argument(&self, position: usize, size: usize, why: Failure) -> crate::Error {
        self.target
            .failed(format_args!("argument {position}, of {size} bytes, is not what the kernel in the code takes"), why)
    }
}

impl Drop for Kernel {
    #[inline]
    fn drop(&mut self) {
        for kernel in self.idle.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: this object owns the reference; OpenCL keeps objects that queued work still
            // needs. A failure cannot be handled.
            let _ = unsafe { cl_call!(self.target.library, clReleaseKernel(kernel)) };
        }
    }
}

#[inline]
fn make(target: &Target, program: cl_program, symbol: &CStr) -> Result<cl_kernel, Failure> {
    // SAFETY: the program is alive and built, the name is a C string.
    unsafe { cl_make!(target.library, clCreateKernel(program, symbol.as_ptr())) }
}

impl Limits {
    /// Placeholder until the limits are known.
    const NONE: Self = Self { params: 0, group: 0, items: [0; 3], required: None, local: (0, 0), alignment: 1 };

    #[inline]
    fn of(target: &Target, kernel: cl_kernel) -> Result<Self, Failure> {
        let (library, id) = (target.library, target.id);
        // SAFETY: kernel and device are alive; `read` passes writable places.
        let params = info::read(|size, value, needed| unsafe {
            cl_call!(library, clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, size, value, needed))
        })?;
        let of_kernel = |what| {
            // SAFETY: as above.
            info::read(|size, value, needed| unsafe {
                cl_call!(library, clGetKernelWorkGroupInfo(kernel, id, what, size, value, needed))
            })
        };
        // SAFETY: as above.
        let items = unsafe { info::of_device(library, id, CL_DEVICE_MAX_WORK_ITEM_SIZES) }?;
        let required = extents(&of_kernel(CL_KERNEL_COMPILE_WORK_GROUP_SIZE)?)?;
        Ok(Self {
            params: info::number(&params)? as usize,
            group: info::number(&of_kernel(CL_KERNEL_WORK_GROUP_SIZE)?)? as usize,
            items: extents(&items)?,
            required: Some(required).filter(|required| required.iter().all(|extent| *extent > 0)),
            local: (target.number(CL_DEVICE_LOCAL_MEM_SIZE)?, info::number(&of_kernel(CL_KERNEL_LOCAL_MEM_SIZE)?)?),
            alignment: (target.number(CL_DEVICE_MEM_BASE_ADDR_ALIGN)? / 8).max(1),
        })
    }

    /// Checks a launch against the limits; returns the size of the kernel's `__local` parameter, if
    /// it has one.
    #[inline]
    fn check(&self, config: &LaunchConfig, args: usize) -> Result<Option<usize>> {
        let block = config.block.map(|extent| extent as usize);
        let (x, y, z) = (block[0] as u128, block[1] as u128, block[2] as u128);
        let items = x * y * z;
        ensure!(
            items <= self.group as u128,
            ValueError,
            "a work group of {items} work items is too large; the kernel runs with at most {} on this device",
            self.group
        );
        if let Some(axis) = (0..3).find(|&axis| block[axis] > self.items[axis]) {
            let (name, limit) = (["x", "y", "z"][axis], self.items[axis]);
            bail!(ValueError, "{} work items along {name} are too many; this device allows {limit}", block[axis]);
        }
        if let Some(required) = self.required.filter(|required| *required != block) {
            bail!(ValueError, "the kernel only runs with the block {required:?}, as its reqd_work_group_size says");
        }
        ensure!(
            config.cluster.is_none() && !config.cooperative && !config.programmatic,
            ValueError,
            "OpenCL has no clusters, no cooperative launch and no programmatic dependent launch"
        );
        let (available, own) = self.local;
        let dynamic = config.dynamic_shared_memory;
        let local = if self.params == args {
            ensure!(
                dynamic == 0,
                ValueError,
                "the kernel has no __local parameter after the others, which is what OpenCL gives {dynamic} bytes of dynamic shared \
                 memory to"
            );
            None
        } else if self.params == args + 1 {
            ensure!(
                dynamic > 0,
                ValueError,
                "the kernel has a parameter after those of the function table, which is for local memory; launch it with dynamic \
                 shared memory"
            );
            Some(dynamic as usize)
        } else {
            bail!(
                RuntimeError,
                "the kernel in the code takes {} arguments, the function table names {args}",
                self.params
            );
        };
        let needed = own.saturating_add(dynamic.into());
        ensure!(
            needed <= available,
            ValueError,
            "the kernel needs {needed} bytes of local memory; this device has {available}"
        );
        Ok(local)
    }
}

/// Returns the first three of a list of sizes; missing ones are 1.
#[inline]
fn extents(sizes: &[u8]) -> Result<[usize; 3], Failure> {
    let mut extents = [1; 3];
    for (extent, size) in extents.iter_mut().zip(sizes.chunks(size_of::<usize>())) {
        *extent = info::number(size)? as usize;
    }
    Ok(extents)
}
