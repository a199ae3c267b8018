//! Tensors in graphs of objects: copies, and conversion to and from JSON. The stock library does
//! not support them, so a library whose types have fields with tensors registers hooks for the type
//! `ffi.Tensor`, if there are none yet.

use kernpack_core::reflect::AttrColumn;

use super::base64;
use crate::abi::type_index;
use crate::value::{Any, IntoAny};
use crate::{DataType, Function, Map, Result, Tensor, ensure, error, object};
use kernpack_core::Device;

static COPY: AttrColumn = AttrColumn::new("__ffi_shallow_copy__");
static TO_JSON: AttrColumn = AttrColumn::new("__data_to_json__");
static FROM_JSON: AttrColumn = AttrColumn::new("__data_from_json__");

/// Registers the hooks that the process does not have.
#[inline]
pub fn register_tensor_hooks() -> Result<()> {
    let missing = |column: &AttrColumn, function: fn() -> Function| match column.get(type_index::TENSOR) {
        Some(_) => Ok(()),
        None => object::register_attr(type_index::TENSOR, column.name(), &function().into_any()),
    };
    missing(&COPY, || Function::from_fn(|tensor: Tensor| tensor.to(tensor.device())))?;
    missing(&TO_JSON, || Function::from_fn(to_json))?;
    missing(&FROM_JSON, || Function::from_fn(from_json))
}

/// Element type, shape, and the bytes in row-major order as base64.
#[inline]
fn to_json(tensor: Tensor) -> Result<Map<String, Any>> {
    ensure!(
        tensor.device().is_host_accessible(),
        ValueError,
        "a tensor on {} is not written as JSON; copy it to the CPU first",
        tensor.device()
    );
    let tensor = tensor.to(Device::CPU)?;
    let described = tensor.dl_tensor();
    let bytes: &[u8] = match tensor.size_in_bytes() {
        0 => &[],
        // SAFETY: a new tensor without strides in host memory has so many bytes from there on, all
        // of them written.
        size => unsafe {
            core::slice::from_raw_parts(described.data.cast::<u8>().byte_add(described.byte_offset as usize), size)
        },
    };
    let digits = String::from_utf8_lossy(&base64::encode(bytes)).into_owned();
    Ok([
        ("dtype".to_owned(), tensor.dtype().to_string().into_any()),
        ("shape".to_owned(), tensor.shape().to_vec().into_any()),
        ("data".to_owned(), digits.into_any()),
    ]
    .into_iter()
    .collect())
}

#[inline]
fn from_json(data: Map<String, Any>) -> Result<Tensor> {
    let part = |name: &str| {
        data.get(name).ok_or_else(|| error!(ValueError, "Invalid JSON Object Graph: a tensor without '{name}'"))
    };
    let dtype: DataType = part("dtype")?.to::<String>()?.parse()?;
    let shape: Vec<i64> = part("shape")?.to()?;
    let bytes = base64::decode(part("data")?.to::<String>()?.as_bytes())?;
    // Check the size first: the shape in a text must not cause an allocation of that size.
    let bits = u128::from(dtype.bits()) * u128::from(dtype.lanes());
    let size = shape.iter().try_fold(bits, |size, extent| size.checked_mul(u128::try_from(*extent).ok()?));
    ensure!(
        size.is_some_and(|size| size.div_ceil(8) == bytes.len() as u128),
        ValueError,
        "Invalid JSON Object Graph: a tensor of {dtype} with shape {shape:?} and {} bytes",
        bytes.len()
    );
    let tensor = Tensor::empty(dtype, &shape, Device::CPU)?;
    if !bytes.is_empty() {
        // SAFETY: memory of that size which only we know.
        unsafe { tensor.dl_tensor().data.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_written_and_read() {
        let tensor = Tensor::from_slice(&[1.5f32, -2.0, 3.25, 0.0, 7.0, 9.0], &[2, 3]).unwrap();
        let again = from_json(to_json(tensor.clone()).unwrap()).unwrap();
        assert_eq!((again.shape(), again.dtype()), (&[2, 3][..], DataType::FLOAT32));
        assert_eq!(again.view::<f32>().unwrap().to_vec(), tensor.view::<f32>().unwrap().to_vec());
        let part = to_json(tensor.slice(1..2).unwrap()).unwrap();
        assert_eq!(from_json(part).unwrap().view::<f32>().unwrap().to_vec(), [0.0, 7.0, 9.0]);
        let empty = to_json(Tensor::from_slice::<i64>(&[], &[0, 4]).unwrap()).unwrap();
        assert_eq!(from_json(empty).unwrap().shape(), [0, 4]);
    }

    #[test]
    fn what_is_no_tensor_is_refused() {
        let map = |dtype: &str, shape: &[i64], data: &str| -> Map<String, Any> {
            [
                ("dtype".to_owned(), dtype.to_owned().into_any()),
                ("shape".to_owned(), shape.to_vec().into_any()),
                ("data".to_owned(), data.to_owned().into_any()),
            ]
            .into_iter()
            .collect()
        };
        for (map, message) in [
            (map("float32", &[2], "AAAA"), "a tensor of float32 with shape [2] and 3 bytes"),
            (map("float32", &[-1], ""), "a tensor of float32 with shape [-1] and 0 bytes"),
            (map("float32", &[i64::MAX, 4], ""), "and 0 bytes"),
            (map("int4", &[-1, -1], ""), "a tensor of int4 with shape [-1, -1] and 0 bytes"),
            ([("dtype".to_owned(), "int8".to_owned().into_any())].into_iter().collect(), "a tensor without 'shape'"),
        ] {
            let error = from_json(map).unwrap_err();
            assert!(error.message().ends_with(message), "{error}");
        }
        assert!(from_json(map("text", &[1], "AA==")).is_err());
    }
}
