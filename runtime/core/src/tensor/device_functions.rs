//! Global functions that give other languages access to devices, registered by a library with a
//! device beside the CPU. With these, Python can copy an array to an OpenCL device, and the result
//! of a kernel back.
//!
//! | function | |
//! |---|---|
//! | `kernpack.device.exists(device)` | whether there is such a device |
//! | `kernpack.device.attribute(device, attribute)` | an attribute, by its number ([`DeviceAttribute`]); None when such devices do not have it |
//! | `kernpack.device.synchronize(device)` | waits for the work in the device's current stream |
//! | `kernpack.tensor.empty(shape, dtype, device)` | a tensor on any device; its content is undefined |
//! | `kernpack.tensor.to(tensor, device)` | a copy of a tensor on any device |
//!
//! A device can also be given by its name: `"opencl:0"`. A shape is an ABI shape (`tensor.shape` in
//! Python), or a sequence of integers.

use core::ffi::c_void;

use super::Tensor;
use crate::abi::{SafeCall, TVMFFIAny};
use crate::container::Shape;
use crate::device::{DeviceAttribute, api, attribute, current_stream, exists};
use crate::function::{Function, FunctionInfo, FunctionRole, ParamInfo, arg, call_packed, register_entry_point};
use crate::value::{Access, Any, AnyView, DataType, Device, FromAny, IntoReturn, Mismatch, Schema, TypeSchema};
use crate::{Error, Result};

/// A device, or its name.
struct Named(Device);

impl Schema for Named {
    const TYPE: TypeSchema = TypeSchema { key: "Union", args: &[<Device as Schema>::TYPE, <String as Schema>::TYPE] };
}

impl<'a> FromAny<'a> for Named {
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        match <&str>::from_any(value) {
            Ok(text) => text.parse().map(Self).map_err(|error: Error| Mismatch::value(error.message().to_owned())),
            Err(_) => Device::from_any(value).map(Self),
        }
    }
}

/// Defines a global function of this file: its parameters by position, its name, its documentation,
/// its body.
macro_rules! global {
    ($name:literal, $doc:literal, $count:literal: ($($index:literal $param:ident: $ty:ty),*) -> $ret:ty, $body:expr) => {{
        unsafe extern "C" fn call(
            _: *mut c_void,
            args: *const TVMFFIAny,
            num_args: i32,
            result: *mut TVMFFIAny,
        ) -> i32 {
            // SAFETY: the ABI's calling convention; each argument is converted once.
            unsafe {
                call_packed::<$count, _>(&INFO, args, num_args, result, |args, _| {
                    let body: fn($($ty),*) -> Result<$ret> = $body;
                    body($(arg::<$ty>(&INFO, args, $index)?),*).into_return()
                })
            }
        }
        static INFO: FunctionInfo = FunctionInfo {
            name: $name,
            global_name: Some($name),
            doc: $doc,
            params: &[$(ParamInfo { name: stringify!($param), ty: <$ty as Schema>::TYPE, access: Access::Keeps }),*],
            defaults: &[],
more_metadata: "",
            kinds: None,
            role: FunctionRole::Function,
            ret: <$ret as Schema>::TYPE,
            call: call as SafeCall,
            detach: None,
            crate_name: env!("CARGO_PKG_NAME"),
            file: file!(),
            line: line!(),
        };
        &INFO
    }};
}

static FUNCTIONS: [&FunctionInfo; 5] = [
    global!(
        "kernpack.device.exists",
        "Whether there is such a device.",
        1: (0 device: Named) -> bool,
        |device| Ok(exists(device.0))
    ),
    global!(
        "kernpack.device.attribute",
        "An attribute of a device, by its number; None when such devices do not have it.",
        2: (0 device: Named, 1 attribute: i64) -> Any,
        |device, number| attribute_of(device.0, number)
    ),
    global!(
        "kernpack.device.synchronize",
        "Waits for the work in the device's current stream.",
        1: (0 device: Named) -> (),
        |device| synchronize(device.0)
    ),
    global!(
        "kernpack.tensor.empty",
        "A tensor on any device; its content is undefined.",
        3: (0 shape: Shape, 1 dtype: DataType, 2 device: Named) -> Tensor,
        |shape, dtype, device| Tensor::empty(dtype, &shape, device.0)
    ),
    global!(
        "kernpack.tensor.to",
        "A copy of a tensor on any device.",
        2: (0 tensor: Tensor, 1 device: Named) -> Tensor,
        |tensor, device| tensor.to(device.0)
    ),
];

/// Registers the functions, unless another library of the process has registered them.
pub(crate) fn register() -> Result<()> {
    for info in FUNCTIONS {
        if Function::find_global(info.name)?.is_none() {
            register_entry_point(info.name, info.doc, &info.metadata_json(), info.call, || "kernpack".to_owned())?;
        }
    }
    Ok(())
}

fn attribute_of(device: Device, number: i64) -> Result<Any> {
    let known = i32::try_from(number).ok().and_then(DeviceAttribute::from_number);
    let known = known.ok_or_else(|| {
        crate::error!(
            ValueError,
            "there is no device attribute {number}; they are numbered from 0 to {}",
            DeviceAttribute::ALL.len() - 1
        )
    })?;
    attribute(device, known)
}

fn synchronize(device: Device) -> Result<()> {
    // SAFETY: the environment's stream belongs to the device, or is its default stream.
    unsafe { api(device.device_type())?.synchronize(device.index(), current_stream(device)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_for_other_languages() {
        register().unwrap();
        let call = |name: &str| Function::global(name).unwrap();
        assert!(call("kernpack.device.exists").call_as::<bool>((Device::CPU,)).unwrap());
        assert!(!call("kernpack.device.exists").call_as::<bool>((Device::new(7, 0),)).unwrap());
        call("kernpack.device.synchronize").call((Device::CPU,)).unwrap();
        let exist = call("kernpack.device.attribute").call_as::<i64>((Device::CPU, 0)).unwrap();
        assert_eq!(exist, 1);
        let error = call("kernpack.device.attribute").call((Device::CPU, 17)).unwrap_err();
        assert_eq!(error.to_string(), "ValueError: there is no device attribute 17; they are numbered from 0 to 16");
        let tensor = Tensor::from_slice(&[1.5f32, 2.5], &[2]).unwrap();
        let copy: Tensor = call("kernpack.tensor.to").call_as((&tensor, Device::CPU)).unwrap();
        assert_eq!(copy.view::<f32>().unwrap().to_vec(), [1.5, 2.5]);
        let empty: Tensor =
            call("kernpack.tensor.empty").call_as((vec![2i64, 3], DataType::FLOAT32, Device::CPU)).unwrap();
        assert_eq!((empty.shape(), empty.dtype()), (&[2i64, 3][..], DataType::FLOAT32));
        // The values that Python code has: another tensor's shape, and a device's name.
        let other: Tensor = call("kernpack.tensor.empty").call_as((Shape::new(tensor.shape()), "int8", "cpu")).unwrap();
        assert_eq!((other.shape(), other.device()), (tensor.shape(), Device::CPU));
        assert!(call("kernpack.device.exists").call_as::<bool>(("cpu:0",)).unwrap());
        let error = call("kernpack.tensor.to").call((&tensor, "cpu:x")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ValueError: kernpack.tensor.to(tensor: Tensor, device: Union[Device, str]): argument 'device': 'cpu:x' names no device; \
             write a kind and an index, such as cpu:0 or cuda:1"
        );
        let error = call("kernpack.tensor.to").call((&tensor, 0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "TypeError: kernpack.tensor.to(tensor: Tensor, device: Union[Device, str]): argument 'device': expected Union[Device, str], got int"
        );
        // A second library of the process finds them registered.
        register().unwrap();
    }
}
