//! A tensor in one line.

use core::fmt::Debug;

use crate::{DataType, Element, Tensor};

/// Formats a tensor, such as `float32[2, 3] on cpu:0, 1.0, 2.0, ... 4 more`: type, shape, and the
/// first elements if the memory can be read directly.
#[inline]
pub(super) fn tensor_text(tensor: &Tensor, items: usize) -> String {
    let mut text = format!("{}{:?} on {}", tensor.dtype(), tensor.shape(), tensor.device());
    let shown = match tensor.dtype() {
        DataType::FLOAT32 => elements::<f32>(tensor, items),
        DataType::FLOAT64 => elements::<f64>(tensor, items),
        DataType::INT8 => elements::<i8>(tensor, items),
        DataType::INT16 => elements::<i16>(tensor, items),
        DataType::INT32 => elements::<i32>(tensor, items),
        DataType::INT64 => elements::<i64>(tensor, items),
        DataType::UINT8 => elements::<u8>(tensor, items),
        DataType::UINT16 => elements::<u16>(tensor, items),
        DataType::UINT32 => elements::<u32>(tensor, items),
        DataType::UINT64 => elements::<u64>(tensor, items),
        _ => None,
    };
    for element in shown.iter().flatten() {
        text.push_str(", ");
        text.push_str(element);
    }
    if let Some(shown) = shown
        && tensor.len() > shown.len()
    {
        text.push_str(&format!(", ... {} more", tensor.len() - shown.len()));
    }
    text
}

/// The first elements; `None` for memory that this process cannot read in order, and while it is
/// written to.
#[inline]
fn elements<T: Element + Debug>(tensor: &Tensor, items: usize) -> Option<Vec<String>> {
    let view = tensor.find_view::<T>()?;
    Some(view.iter().take(items).map(|element| format!("{element:?}")).collect())
}
