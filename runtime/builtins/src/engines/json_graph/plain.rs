//! Values without parts in the data of a node.

use crate::abi::{DLDevice, TVMFFIAny, type_index};
use crate::definition::field::check;
use crate::definition::signature::{Accepts, BOOL, INT, STRING, Type, type_key};
use crate::embedded::{dtype, list, text_of};
use crate::value::AnyView;
use crate::{Result, bail};

static INTEGERS: Type = Type { schema: "", text: "Array<int>", accepts: Accepts::Items(&INT) };

/// A value as a view.
///
/// # Safety
/// The value is alive for `'a`.
#[inline]
pub(super) const unsafe fn view<'a>(value: TVMFFIAny) -> AnyView<'a> {
    // SAFETY: promised by the caller.
    unsafe { AnyView::from_raw(value) }
}

/// Checks a value of the graph before it is read.
///
/// # Safety
/// The value is alive.
#[inline]
pub(super) unsafe fn expect(value: &TVMFFIAny, expected: &Type) -> Result<()> {
    // SAFETY: promised by the caller.
    let value = unsafe { view(*value) };
    check(&value, expected)
}

/// Decodes a flag, a number or a data type.
///
/// # Safety
/// The value is alive.
#[inline]
pub(super) unsafe fn plain(index: i32, data: &TVMFFIAny) -> Result<TVMFFIAny> {
    // SAFETY: promised by the caller; of a value, the member is read that its type index names.
    unsafe {
        match index {
            type_index::BOOL => {
                expect(data, &BOOL)?;
                Ok(TVMFFIAny::bool(data.bits() != 0))
            }
            type_index::INT => {
                expect(data, &INT)?;
                Ok(TVMFFIAny::int(data.bits().cast_signed()))
            }
            type_index::FLOAT => match data.type_index {
                type_index::FLOAT => Ok(*data),
                type_index::INT | type_index::BOOL => Ok(TVMFFIAny::float(data.bits().cast_signed() as f64)),
                _ => bail!(TypeError, "Cannot convert from type `{}` to `float`", type_key(&view(*data))),
            },
            _ => {
                expect(data, &STRING)?;
                let mut value = TVMFFIAny { type_index: type_index::DATA_TYPE, ..TVMFFIAny::int(0) };
                value.payload.v_dtype = dtype::parse(text_of(data).unwrap_or_default())?;
                Ok(value)
            }
        }
    }
}

/// Decodes the numbers in an array.
///
/// # Safety
/// The value is alive.
#[inline]
pub(super) unsafe fn integers(data: &TVMFFIAny) -> Result<Vec<i64>> {
    // SAFETY: promised by the caller.
    unsafe {
        expect(data, &INTEGERS)?;
        let elements = list::shared::elements(data.payload.v_obj);
        Ok(elements.iter().map(|element| element.bits().cast_signed()).collect())
    }
}

/// Decodes a device from the number of its kind and its index.
///
/// # Safety
/// The value is alive.
#[inline]
pub(super) unsafe fn device(data: &TVMFFIAny) -> Result<TVMFFIAny> {
    // SAFETY: promised by the caller.
    let [kind, id] = unsafe { integers(data) }?[..] else {
        // SAFETY: promised by the caller; values other than arrays were rejected before.
        let size = unsafe { list::shared::len(data.payload.v_obj) };
        bail!(
            ValueError,
            "Invalid JSON Object Graph: Device data must be an array of [device_type, device_id], got {size} element(s)"
        );
    };
    let mut value = TVMFFIAny { type_index: type_index::DEVICE, ..TVMFFIAny::int(0) };
    value.payload.v_device = DLDevice { device_type: kind as i32, device_id: id as i32 };
    Ok(value)
}
