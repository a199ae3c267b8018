//! Tensors in OpenCL memory: element types, views, DLPack.

use kernpack::sys::abi::DLManagedTensorVersioned;
use kernpack::{Any, DataType, Device, Element, Tensor};

use super::machine;

fn there_and_back<T: Element + PartialEq + std::fmt::Debug>(device: Device, values: &[T]) {
    let shape = [values.len() as i64 / 2, 2];
    let there = Tensor::from_slice(values, &shape).unwrap().to(device).unwrap();
    assert_eq!((there.device(), there.dtype(), there.shape()), (device, T::DTYPE, &shape[..]));
    assert_eq!(there.to(Device::CPU).unwrap().view::<T>().unwrap().to_vec(), values);
}

#[test]
fn elements_of_every_type_come_back() {
    let Some(devices) = machine::devices() else { return };
    for device in devices {
        there_and_back::<u8>(device, &[0, 1, 254, 255]);
        there_and_back::<i8>(device, &[-128, -1, 0, 127]);
        there_and_back::<u16>(device, &[0, 1, 2, 65535]);
        there_and_back::<i16>(device, &[-32768, 0, 1, 32767]);
        there_and_back::<u32>(device, &[0, 1, 2, u32::MAX]);
        there_and_back::<i32>(device, &[i32::MIN, -1, 0, i32::MAX]);
        there_and_back::<u64>(device, &[0, 1, 2, u64::MAX]);
        there_and_back::<i64>(device, &[i64::MIN, -1, 0, i64::MAX]);
        there_and_back::<f32>(device, &[-0.5, 0.0, f32::MIN_POSITIVE, f32::INFINITY]);
        there_and_back::<f64>(device, &[-0.5, 0.0, f64::MIN_POSITIVE, f64::MAX]);
        there_and_back::<f32>(device, &[]);
    }
}

#[test]
fn views_share_the_buffer() {
    let Some(device) = machine::first() else { return };
    let values: Vec<i32> = (0..64).collect();
    let whole = Tensor::from_slice(&values, &[8, 8]).unwrap().to(device).unwrap();
    let rows = whole.slice(4..6).unwrap();
    let last = rows.view_as(&[4], DataType::INT32, 48).unwrap();
    for view in [&rows, &last] {
        assert_eq!(view.dl_tensor().data, whole.dl_tensor().data, "a cl_mem is not an address: nothing is added to it");
    }
    assert_eq!((rows.dl_tensor().byte_offset, last.dl_tensor().byte_offset), (128, 176));
    drop(whole);
    drop(rows);
    assert_eq!(last.to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec(), [44, 45, 46, 47]);
}

#[test]
fn tensors_on_one_device_are_copied_to_all_others() {
    let Some(devices) = machine::devices() else { return };
    let values: Vec<f32> = (0..1000).map(|number| number as f32).collect();
    for &first in &devices {
        for &second in &devices {
            let there = Tensor::from_slice(&values, &[10, 100]).unwrap().to(first).unwrap();
            let mut target = Tensor::empty(DataType::FLOAT32, &[10, 100], second).unwrap();
            target.copy_from(&there.to(second).unwrap()).unwrap();
            let back = target.slice(3..5).unwrap().to(Device::CPU).unwrap();
            assert_eq!(back.view::<f32>().unwrap().to_vec(), values[300..500]);
        }
    }
}

#[test]
fn dlpack_carries_the_buffer() {
    let Some(device) = machine::first() else { return };
    let there = Tensor::from_slice(&[1u8, 2, 3], &[3]).unwrap().to(device).unwrap();
    let managed: *mut DLManagedTensorVersioned = there.to_dlpack().unwrap();
    // SAFETY: just created; it is freed below.
    let tensor = unsafe { &(*managed).dl_tensor };
    assert_eq!((tensor.data, tensor.byte_offset), (there.dl_tensor().data, 0));
    assert_eq!(Device::from_raw(tensor.device), device);
    drop(there);
    // SAFETY: the pointer came from `to_dlpack`, and is used once.
    let back: Tensor = unsafe { Tensor::from_dlpack(managed) }.unwrap();
    assert_eq!(
        Any::from(back.clone()).to::<Tensor>().unwrap().to(Device::CPU).unwrap().view::<u8>().unwrap().to_vec(),
        [1, 2, 3]
    );
}
