//! Devices for other languages: global functions that a library registers which knows devices beside the CPU. Python needs no more than
//! these to bring an array to an OpenCL device, and what comes out of a kernel back.
//!
//! | function | |
//! |---|---|
//! | `kernpack.device.exists(device)` | whether there is such a device |
//! | `kernpack.device.attribute(device, attribute)` | an attribute, by its number ([`DeviceAttribute`]); None when such devices do not have it |
//! | `kernpack.device.synchronize(device)` | waits for the work in the device's current stream |
//! | `kernpack.tensor.empty(shape, dtype, device)` | a tensor on any device; its content is undefined |
//! | `kernpack.tensor.to(tensor, device)` | a copy of a tensor on any device |

use super::{DeviceAttribute, api, attribute, current_stream, exists};
use crate::Result;
use crate::function::{Function, ParamInfo};
use crate::tensor::Tensor;
use crate::value::{Any, DataType, Device, Schema, TypeSchema};

const fn param<T: Schema>(name: &'static str) -> ParamInfo {
    ParamInfo { name, ty: T::TYPE }
}

/// A global function of this file.
struct Row {
    name: &'static str,
    doc: &'static str,
    params: &'static [ParamInfo],
    result: TypeSchema,
    make: fn() -> Function,
}

static ROWS: [Row; 5] = [
    Row {
        name: "kernpack.device.exists",
        doc: "Whether there is such a device.",
        params: &[param::<Device>("device")],
        result: <bool as Schema>::TYPE,
        make: || Function::from_fn(exists),
    },
    Row {
        name: "kernpack.device.attribute",
        doc: "An attribute of a device, by its number; None when such devices do not have it.",
        params: &[param::<Device>("device"), param::<i64>("attribute")],
        result: <Any as Schema>::TYPE,
        make: || Function::from_fn(attribute_of),
    },
    Row {
        name: "kernpack.device.synchronize",
        doc: "Waits for the work in the device's current stream.",
        params: &[param::<Device>("device")],
        result: <() as Schema>::TYPE,
        make: || Function::from_fn(synchronize),
    },
    Row {
        name: "kernpack.tensor.empty",
        doc: "A tensor on any device; its content is undefined.",
        params: &[param::<Vec<i64>>("shape"), param::<DataType>("dtype"), param::<Device>("device")],
        result: <Tensor as Schema>::TYPE,
        make: || {
            Function::from_fn(|shape: Vec<i64>, dtype: DataType, device: Device| Tensor::empty(dtype, &shape, device))
        },
    },
    Row {
        name: "kernpack.tensor.to",
        doc: "A copy of a tensor on any device.",
        params: &[param::<Tensor>("tensor"), param::<Device>("device")],
        result: <Tensor as Schema>::TYPE,
        make: || Function::from_fn(|tensor: Tensor, device: Device| tensor.to(device)),
    },
];

/// Registers the functions, unless another library of the process has.
pub(crate) fn register() -> Result<()> {
    for row in &ROWS {
        if Function::get_global(row.name)?.is_none() {
            (row.make)().register_with_schema(row.name, row.doc, row.params, &row.result)?;
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
    // SAFETY: the environment's stream is one of the device, or its default one.
    unsafe { api(device.kind())?.synchronize(device.index(), current_stream(device)) }
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
        // A second library of the process finds them there.
        register().unwrap();
    }
}
