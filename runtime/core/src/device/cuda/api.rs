use core::ffi::c_void;
use core::ptr;

use cudarc::driver::sys::{CUdevice_attribute as Number, CUstream};

use super::copy::copy;
use super::device::{CudaDevice, devices};
use super::driver::version;
use super::memory::Memory;
use crate::Result;
use crate::device::{DeviceApi, DeviceAttribute, Place, RawEvent, RawStream};
use crate::value::Any;

/// `CU_STREAM_NON_BLOCKING`: does not wait for the default stream, like PyTorch's streams.
const NON_BLOCKING: u32 = 1;

/// The device API of one of CUDA's memory kinds. All three share devices, streams and events.
pub(super) struct CudaApi {
    pub(super) memory: Memory,
}

impl CudaApi {
    fn gpu(&self, index: i32) -> Result<&'static CudaDevice> {
        self.memory.gpu(index)
    }

    /// The name of a device: `cuda:0`.
    fn place(&self, index: i32) -> String {
        format!("{}:{index}", self.memory.name())
    }
}

impl DeviceApi for CudaApi {
    fn name(&self) -> &str {
        self.memory.name()
    }

    fn device_count(&self) -> Result<i32> {
        let count = devices()?.len() as i32;
        Ok(if self.memory == Memory::Pinned { count.min(1) } else { count })
    }

    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any> {
        if attribute == DeviceAttribute::Exist {
            return Ok(Any::from(i64::from(self.gpu(index).is_ok())));
        }
        let gpu = self.gpu(index)?;
        let number = |number| gpu.number(number).map(|value| Any::from(i64::from(value)));
        match attribute {
            DeviceAttribute::MaxThreadsPerBlock => number(Number::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            DeviceAttribute::WarpSize => number(Number::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
            DeviceAttribute::MaxSharedMemoryPerBlock => number(Number::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
            DeviceAttribute::ComputeVersion => {
                let (major, minor) = gpu.architecture()?;
                Ok(Any::from(format!("{major}.{minor}")))
            }
            DeviceAttribute::DeviceName => Ok(Any::from(gpu.name()?)),
            DeviceAttribute::MaxClockRate => number(Number::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
            DeviceAttribute::MultiProcessorCount => number(Number::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            DeviceAttribute::MaxThreadDimensions => {
                let x = gpu.number(Number::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?;
                let y = gpu.number(Number::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?;
                let z = gpu.number(Number::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?;
                Ok(Any::from(format!("[{x}, {y}, {z}]")))
            }
            DeviceAttribute::MaxRegistersPerBlock => number(Number::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
            DeviceAttribute::ApiVersion => Ok(Any::from(i64::from(version()?))),
            DeviceAttribute::L2CacheSize => number(Number::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
            DeviceAttribute::TotalGlobalMemory => {
                let (mut bytes, driver) = (0, gpu.driver());
                // SAFETY: the result is writable and the handle is the driver's.
                let status = unsafe { (driver.device_total_memory)(&mut bytes, gpu.handle()) };
                driver.check(status, format_args!("{}: its memory cannot be read", self.place(index)))?;
                Ok(Any::from(bytes as i64))
            }
            DeviceAttribute::AvailableGlobalMemory => Ok(Any::from(gpu.memory()?.0 as i64)),
            DeviceAttribute::ImagePitchAlignment => number(Number::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT),
            _ => Ok(Any::NONE),
        }
    }

    fn allocate(&self, index: i32, size: usize, alignment: usize) -> Result<*mut c_void> {
        self.memory.allocate(index, size, alignment)
    }

    unsafe fn free(&self, index: i32, data: *mut c_void) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.memory.free(index, data) }
    }

    unsafe fn copy(&self, source: Place, target: Place, size: usize, stream: RawStream) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { copy(source, target, size, stream) }
    }

    fn create_stream(&self, index: i32) -> Result<RawStream> {
        let gpu = self.gpu(index)?;
        let _entered = gpu.enter()?;
        let mut stream: CUstream = ptr::null_mut();
        // SAFETY: the result is writable and a context is current.
        let status = unsafe { (gpu.driver().stream_create)(&mut stream, NON_BLOCKING) };
        gpu.driver().check(status, format_args!("{}: a stream cannot be made", self.place(index)))?;
        Ok(RawStream(stream.cast()))
    }

    unsafe fn free_stream(&self, index: i32, stream: RawStream) -> Result<()> {
        let gpu = self.gpu(index)?;
        let _entered = gpu.enter()?;
        // SAFETY: the caller promises a stream of this API; the driver keeps it until its work is
        // done.
        let status = unsafe { (gpu.driver().stream_destroy)(stream.0.cast()) };
        gpu.driver().check(status, format_args!("{}: a stream cannot be ended", self.place(index)))
    }

    unsafe fn synchronize(&self, index: i32, stream: RawStream) -> Result<()> {
        let gpu = self.gpu(index)?;
        let _entered = gpu.enter()?;
        // SAFETY: the caller promises a live stream of the device.
        let status = unsafe { (gpu.driver().stream_synchronize)(stream.0.cast()) };
        gpu.driver().check(status, format_args!("{}: the work in a stream failed", self.place(index)))
    }

    fn create_event(&self, index: i32) -> Result<RawEvent> {
        let gpu = self.gpu(index)?;
        let _entered = gpu.enter()?;
        let mut event = ptr::null_mut();
        // SAFETY: the result is writable and a context is current. No flags: it measures time.
        let status = unsafe { (gpu.driver().event_create)(&mut event, 0) };
        gpu.driver().check(status, format_args!("{}: an event cannot be made", self.place(index)))?;
        Ok(RawEvent(event.cast()))
    }

    unsafe fn free_event(&self, index: i32, event: RawEvent) -> Result<()> {
        let gpu = self.gpu(index)?;
        let _entered = gpu.enter()?;
        // SAFETY: the caller promises an event of this API; the driver keeps it until its work is
        // done.
        let status = unsafe { (gpu.driver().event_destroy)(event.0.cast()) };
        gpu.driver().check(status, format_args!("{}: an event cannot be ended", self.place(index)))
    }

    unsafe fn record_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        let gpu = self.gpu(index)?;
        let _entered = gpu.enter()?;
        // SAFETY: the caller promises that both are live.
        let status = unsafe { (gpu.driver().event_record)(event.0.cast(), stream.0.cast()) };
        gpu.driver().check(status, format_args!("{}: an event cannot be recorded", self.place(index)))
    }

    unsafe fn wait_for_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        let gpu = self.gpu(index)?;
        let _entered = gpu.enter()?;
        // SAFETY: the caller promises that both are live.
        let status = unsafe { (gpu.driver().stream_wait_event)(stream.0.cast(), event.0.cast(), 0) };
        gpu.driver().check(status, format_args!("{}: a stream cannot wait for an event", self.place(index)))
    }

    unsafe fn synchronize_event(&self, index: i32, event: RawEvent) -> Result<()> {
        let gpu = self.gpu(index)?;
        let _entered = gpu.enter()?;
        // SAFETY: the caller promises that it is live.
        let status = unsafe { (gpu.driver().event_synchronize)(event.0.cast()) };
        gpu.driver().check(status, format_args!("{}: the work before an event failed", self.place(index)))
    }

    unsafe fn elapsed(&self, index: i32, start: RawEvent, end: RawEvent) -> Result<f64> {
        let gpu = self.gpu(index)?;
        let _entered = gpu.enter()?;
        let mut milliseconds = 0.0f32;
        // SAFETY: the result is writable; the caller promises live events.
        let status = unsafe { (gpu.driver().event_elapsed)(&mut milliseconds, start.0.cast(), end.0.cast()) };
        gpu.driver()
            .check(status, format_args!("{}: the time between two events cannot be read", self.place(index)))?;
        Ok(f64::from(milliseconds) / 1000.0)
    }

    fn native_handle(&self, index: i32, what: &str) -> Result<*mut c_void> {
        let gpu = self.gpu(index)?;
        Ok(match what {
            "context" => gpu.context()?.cast(),
            // A number, not an address.
            "device" => ptr::without_provenance_mut(gpu.handle() as usize),
            _ => ptr::null_mut(),
        })
    }
}
