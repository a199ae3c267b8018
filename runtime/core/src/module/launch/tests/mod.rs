//! Launches on device code that only records its arguments.

use core::ffi::{CStr, c_void};
use core::ptr::without_provenance_mut;
use std::sync::{Arc, Mutex, PoisonError};

use super::*;
use crate::Result;
use crate::abi::{DLTensor, TVMFFIAny, TVMFFIAnyPayload, device_type, type_index};
use crate::device::RawStream;
use crate::function::{Args, Function};
use crate::module::device_image::{
    ArgType, COOPERATIVE_LAUNCH, DYNAMIC_SHARED_MEMORY, DeviceFunction, DeviceImage, PROGRAMMATIC_LAUNCH,
};
use crate::module::kinds::image_module::image_module;
use crate::module::{Module, ModuleImpl};
use crate::value::{Any, AnyView, Bytes, DataType, Str};

mod arguments;
mod instructions;
mod launches;

/// The launches that the device code received, as text.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn note(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn take(&self) -> Vec<String> {
        core::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Device code for `ext_dev`, with 20 devices.
struct Noted {
    log: Arc<Log>,
    tensor_maps: bool,
}

impl DeviceCode for Noted {
    fn device_type(&self) -> i32 {
        device_type::EXT_DEV
    }

    fn can_reach(&self, device: Device) -> bool {
        matches!(device.device_type(), device_type::EXT_DEV | device_type::CUDA_MANAGED)
    }

    fn takes_tensor_maps(&self) -> bool {
        self.tensor_maps
    }

    fn kernel(&self, index: i32, symbol: &CStr) -> Result<RawKernel> {
        crate::ensure!((0..20).contains(&index), RuntimeError, "there are 20 devices");
        let symbol = symbol.to_str().unwrap_or_default();
        self.log.note(format!("kernel {symbol} on {index}"));
        crate::ensure!(symbol != "broken", MemoryError, "no room for the image");
        Ok(RawKernel(without_provenance_mut(0x100 + index as usize)))
    }

    unsafe fn launch(
        &self,
        index: i32,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg],
        stream: RawStream,
    ) -> Result<()> {
        assert_eq!((kernel.0.addr(), stream), (0x100 + index as usize, RawStream::DEFAULT));
        let arg = |arg: &KernelArg| match arg {
            KernelArg::Pointer { data, byte_offset, device } => format!("{:#x}+{byte_offset}@{device}", data.addr()),
            KernelArg::Number { bits, size } => format!("{bits:#x}:{size}"),
            KernelArg::TensorMap { address } => format!("map {:#x}", address.addr()),
        };
        let LaunchConfig { grid, block, cluster, dynamic_shared_memory, cooperative, programmatic } = config;
        let mut line = format!("{index}: {grid:?} x {block:?}");
        if let Some(cluster) = cluster {
            line += &format!(" in {cluster:?}");
        }
        for (on, what) in [(*cooperative, "cooperative"), (*programmatic, "programmatic")] {
            line += if on { format!(" {what}") } else { String::new() }.as_str();
        }
        line += &format!(" shared {dynamic_shared_memory}: {}", args.iter().map(arg).collect::<Vec<_>>().join(" "));
        self.log.note(line);
        crate::ensure!(grid[0] != 666, RuntimeError, "the launch failed: it is cursed");
        Ok(())
    }
}

fn module_of(kernels: Vec<DeviceFunction<'_>>, tensor_maps: bool) -> (Module, Arc<Log>) {
    let log = Arc::new(Log::default());
    let payload = Bytes::from(DeviceImage::new("cl", kernels, b"code").to_vec());
    let code: Arc<dyn DeviceCode> = Arc::new(Noted { log: Arc::clone(&log), tensor_maps });
    let module = image_module("opencl", payload, |image| {
        assert_eq!((image.format(), &*image.code()), ("cl", &b"code"[..]));
        Ok(code)
    });
    (module.unwrap(), log)
}

fn kernel<'a>(name: &'a str, types: &[ArgType], launch_params: &[&'a str]) -> DeviceFunction<'a> {
    DeviceFunction {
        name,
        arg_types: types.to_vec(),
        launch_params: launch_params.to_vec(),
        extra_tags: vec![0; types.len()],
    }
}

/// A tensor of 2 x 3 elements at 0x1000 + 8.
struct Fake {
    tensor: DLTensor,
    _shape: Box<[i64; 2]>,
    _strides: Box<[i64; 2]>,
}

impl Fake {
    fn new(device: Device, shape: [i64; 2], strides: [i64; 2]) -> Self {
        let (mut shape, mut strides) = (Box::new(shape), Box::new(strides));
        let tensor = DLTensor {
            data: without_provenance_mut(0x1000),
            device: device.as_raw(),
            ndim: 2,
            dtype: DataType::FLOAT32.as_raw(),
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 8,
        };
        Self { tensor, _shape: shape, _strides: strides }
    }

    fn on(index: i32) -> Self {
        Self::new(Device::new(device_type::EXT_DEV, index), [2, 3], [3, 1])
    }

    fn view(&self) -> AnyView<'_> {
        let tensor = (&raw const self.tensor).cast_mut().cast::<c_void>();
        // SAFETY: the pointer is valid for the view's lifetime, and is not written through.
        unsafe { AnyView::from_raw(TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, tensor)) }
    }
}

fn pointer<'a>(address: usize) -> AnyView<'a> {
    let payload = TVMFFIAnyPayload { v_ptr: without_provenance_mut(address) };
    // SAFETY: an opaque pointer does not own anything.
    unsafe { AnyView::from_raw(TVMFFIAny { type_index: type_index::OPAQUE_PTR, small_len: 0, payload }) }
}

fn dtype(code: u8, bits: u8, lanes: u16) -> ArgType {
    ArgType { code, bits, lanes }
}

fn message<T>(result: Result<T>) -> String {
    let error = result.map(drop).unwrap_err();
    format!("{}: {}", error.kind(), error.message())
}
