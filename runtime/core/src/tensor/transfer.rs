//! Copies of tensors between devices.

use core::ptr;

use super::Tensor;
use super::borrow::Borrow;
use super::part::is_direct;
use crate::abi::{DLTensor, device_type};
use crate::device::{self, DeviceMemory, Place};
use crate::layout::{Layout, addresses, size_of_elements};
use crate::value::{DataType, Device};
use crate::{Error, Result, ensure};

impl Tensor {
    /// Returns a copy on a device, in row-major order: from any device to any other, or on the same
    /// one.
    ///
    /// A copy to or from CPU memory is complete when this returns, and so is one between two kinds
    /// of devices. A copy between devices of one kind is enqueued in the current stream of the
    /// target.
    ///
    /// ```
    /// use kernpack::{Device, Tensor};
    /// let here = Tensor::from_slice(&[1i32, 2, 3], &[3])?;
    /// let there = here.to(Device::CPU)?; // or Device::cuda(0), ...
    /// assert_eq!(there.to(Device::CPU)?.view::<i32>()?.to_vec(), [1, 2, 3]);
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Tensor::empty`]; a ValueError if the tensor is neither contiguous nor in CPU
    /// memory, or if a view is writing to it; a RuntimeError if a device fails.
    pub fn to(&self, device: Device) -> Result<Self> {
        let source = self.dl_tensor();
        let layout = Layout::of(source).map_err(Error::value_error)?;
        let target = Self::uninitialized(self.dtype(), layout.shape, device)?;
        // SAFETY: the target is new and contiguous, and has as many elements of the same type.
        unsafe { copy_elements(source, &layout, target.dl_tensor())? };
        Ok(target)
    }

    /// Copies the elements of a tensor of the same shape and element type into this one, which is
    /// contiguous.
    ///
    /// A tensor in CPU memory needs the only reference, and must be created by Rust, as for
    /// [`Tensor::view_mut`]: other code may be reading it. Memory of other devices is written in
    /// stream order, even if there are other references.
    ///
    /// # Errors
    /// Returns a ValueError if shapes, element types or layouts do not match or this tensor is
    /// shared; other errors as for [`Tensor::to`].
    pub fn copy_from(&mut self, source: &Self) -> Result<()> {
        let (from, to) = (source.dl_tensor(), self.dl_tensor());
        let layout = Layout::of(from).map_err(Error::value_error)?;
        let target = Layout::of(to).map_err(Error::value_error)?;
        ensure!(
            layout.shape == target.shape && source.dtype() == self.dtype(),
            ValueError,
            "a tensor of {} with shape {:?} cannot be copied into one of {} with shape {:?}",
            source.dtype(),
            layout.shape,
            self.dtype(),
            target.shape
        );
        ensure!(
            target.is_contiguous(),
            ValueError,
            "the tensor to copy into is not contiguous; copy into a contiguous one"
        );
        if layout.len == 0 {
            return Ok(());
        }
        ensure!(!self.is_read_only(), ValueError, "the tensor to copy into is read-only");
        let mut _writing = None;
        if self.device().is_host_accessible() {
            self.check_not_shared()?;
            let range = addresses(to, &target).unwrap_or_default();
            let borrow = Borrow::new(range, true);
            ensure!(borrow.is_some(), ValueError, "the tensor's memory is in use by a view that is still alive");
            _writing = borrow;
        } else if overlap(from, to, source.size_in_bytes()) {
            let size = source.size_in_bytes();
            let (start, end) = (place(from, &layout)?, place(to, &target)?);
            if start == end && layout.is_contiguous() {
                return Ok(());
            }
            check_contiguous(from, &layout)?;
            let between = DeviceMemory::new(end.device, size, 64)?;
            // SAFETY: all three have `size` bytes; the temporary memory is not shared. The device
            // keeps it until the copy is done.
            return unsafe {
                device::copy(start, between.place(), size).and_then(|()| device::copy(between.place(), end, size))
            };
        }
        // SAFETY: the same shape and type, and contiguous; CPU memory is not shared, other memory
        // does not overlap.
        unsafe { copy_elements(from, &layout, to) }
    }
}

/// Returns whether two tensors of the same number of bytes share memory. Two handles are two
/// blocks.
fn overlap(a: &DLTensor, b: &DLTensor, size: usize) -> bool {
    let device = Device::from_raw(a.device);
    let start = |tensor: &DLTensor| {
        let base = if is_direct(device) { tensor.data as u128 } else { 0 };
        base + u128::from(tensor.byte_offset)
    };
    let near = start(a) < start(b) + size as u128 && start(b) < start(a) + size as u128;
    near && device.device_type() == b.device.device_type && (is_direct(device) || a.data == b.data)
}

/// The memory location of the elements.
fn place(tensor: &DLTensor, layout: &Layout<'_>) -> Result<Place> {
    let device = Device::from_raw(tensor.device);
    ensure!(!tensor.data.is_null(), ValueError, "the tensor on {device} has shape {:?} but no data", layout.shape);
    Ok(Place { device, data: tensor.data, byte_offset: tensor.byte_offset })
}

#[track_caller]
fn check_contiguous(tensor: &DLTensor, layout: &Layout<'_>) -> Result<()> {
    ensure!(
        layout.is_contiguous(),
        ValueError,
        "the tensor on {} is not contiguous: shape {:?}, strides {:?} (in elements); make it contiguous there, and copy that",
        Device::from_raw(tensor.device),
        layout.shape,
        layout.strides.unwrap_or_default()
    );
    Ok(())
}

/// Copies all elements, in row-major order.
///
/// # Safety
/// The target is contiguous, has the same number of elements of the same type, may be written to,
/// and does not overlap the source.
unsafe fn copy_elements(source: &DLTensor, layout: &Layout<'_>, target: &DLTensor) -> Result<()> {
    if layout.len == 0 {
        return Ok(());
    }
    let dtype = DataType::from_raw(source.dtype);
    let Some(size) = size_of_elements(dtype, layout.len) else {
        return Err(crate::error!(ValueError, "the tensor's shape {:?} is larger than memory", layout.shape));
    };
    let (from, to) = (place(source, layout)?, place(target, layout)?);
    // Keeps other views from writing to the source.
    let reading = Borrow::new(addresses(source, layout).unwrap_or_default(), false);
    ensure!(
        reading.is_some(),
        ValueError,
        "the tensor's memory is being written to by a view that is still alive; wait for it"
    );
    if layout.is_contiguous() {
        // SAFETY: both have `size` bytes; the rest is promised by the caller.
        return unsafe { device::copy(from, to, size) };
    }
    if !is_host_memory(from.device) {
        return check_contiguous(source, layout);
    }
    let gather = Gather::new(dtype, layout)?;
    if is_host_memory(to.device) {
        // SAFETY: the target has `size` bytes of CPU memory that only this code writes to.
        unsafe { gather.run(from.address().cast(), to.address().cast()) };
        return Ok(());
    }
    let mut dense = Vec::<u8>::new();
    dense.try_reserve_exact(size).map_err(|_| {
        Error::new("MemoryError", format!("no {size} bytes to make the tensor contiguous for {}", to.device))
    })?;
    let start = Place { device: Device::CPU, data: dense.as_mut_ptr().cast(), byte_offset: 0 };
    // SAFETY: the vector has room for `size` bytes; a copy from CPU memory is complete when it
    // returns.
    unsafe {
        gather.run(from.address().cast(), start.data.cast());
        device::copy(start, to, size)
    }
}

/// Returns whether the memory is readable by ordinary code and no device accesses it on its own.
fn is_host_memory(device: Device) -> bool {
    matches!(device.device_type(), device_type::CPU | device_type::CUDA_HOST | device_type::ROCM_HOST)
}

/// Copies elements with gaps in CPU memory to a dense block.
struct Gather<'a> {
    layout: &'a Layout<'a>,
    strides: &'a [i64],
    /// Size of an element in bytes.
    size: usize,
}

impl<'a> Gather<'a> {
    /// Checks that every element's distance from the first one can be computed.
    fn new(dtype: DataType, layout: &'a Layout<'a>) -> Result<Self> {
        ensure!(
            (usize::from(dtype.bits()) * usize::from(dtype.lanes())).is_multiple_of(8),
            ValueError,
            "elements of {dtype} are packed, so only a contiguous tensor of them can be copied"
        );
        ensure!(
            layout.reach(dtype).is_some(),
            ValueError,
            "the tensor's strides {:?} lead out of memory",
            layout.strides.unwrap_or_default()
        );
        Ok(Self { layout, strides: layout.strides.unwrap_or_default(), size: dtype.size() })
    }

    /// # Safety
    /// `source` is the first of the elements, which can be read; `target` has room for all of them.
    /// The target is not the source.
    unsafe fn run(&self, source: *const u8, target: *mut u8) {
        let shape = self.layout.shape;
        // The last axis is copied as one piece if it does not have gaps.
        let (row, inner) = match (shape.split_last(), self.strides.last()) {
            (Some((&last, outer)), Some(1)) => (last as usize, outer),
            _ => (1, shape),
        };
        let mut index = vec![0i64; inner.len()];
        let (mut from, bytes) = (0isize, row * self.size);
        for piece in 0..self.layout.len / row {
            // SAFETY: all distances between elements fit (`new`), and the index is within the
            // shape; the target has room for that many pieces.
            unsafe {
                ptr::copy_nonoverlapping(source.offset(from * self.size as isize), target.add(piece * bytes), bytes)
            };
            for axis in (0..inner.len()).rev() {
                let stride = self.strides[axis] as isize;
                index[axis] += 1;
                if index[axis] < inner[axis] {
                    from += stride;
                    break;
                }
                index[axis] = 0;
                from -= stride * (inner[axis] as isize - 1);
            }
        }
    }
}
