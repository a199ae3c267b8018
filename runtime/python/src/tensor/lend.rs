//! NumPy's arrays as views for the time of a call: an array is read where it stands, and nothing is
//! allocated.

use core::ffi::{c_char, c_int};
use core::mem::MaybeUninit;
use core::ptr;

use kernpack_core::abi::{DLDataType, DLDevice, DLTensor, TVMFFIAny, device_type, dtype_code, type_index};

use super::numpy_memory::{fields, ndarray};
use crate::cpython::capi::{Py, PyObject};
use crate::signature::refused::{Refused, read_only};
use crate::signature::wanted::Wanted;

/// The maximum number of axes of a borrowed array.
const AXES: usize = 4;

/// A tensor over the memory of an array that outlives the call.
pub(crate) struct LentTensor {
    tensor: DLTensor,
    shape: [i64; AXES],
    strides: [i64; AXES],
}

/// The common prefix of `PyArray_Descr` in NumPy 1 and 2, after the object header.
#[repr(C)]
struct DescrFields {
    _scalar: *mut PyObject,
    _kind: c_char,
    _letter: c_char,
    byte_order: c_char,
    _flags: c_char,
    type_number: c_int,
}

const ALIGNED: c_int = 0x0100;
const WRITEABLE: c_int = 0x0400;

/// The view of an array of NumPy's own class, described in `place`, which stays where it is for the
/// call. `None`: the array has to go the way of all others.
///
/// # Safety
/// `object` is alive for the call.
pub(crate) unsafe fn lend(
    py: Py,
    object: *mut PyObject,
    wanted: &Wanted,
    place: &mut MaybeUninit<LentTensor>,
) -> Result<Option<TVMFFIAny>, Refused> {
    // SAFETY: promised by the caller; the class says that the object is an array, whose fields and
    // element type lie so.
    unsafe {
        if !py.is_plain() || py.type_of(object) != ndarray(py)? {
            return Ok(None);
        }
        let array = &*fields(py, object);
        let descr = &*array.descr.byte_add(py.header()).cast::<DescrFields>();
        let ndim = array.ndim.max(0) as usize;
        let Some(dtype) = data_type(descr) else { return Ok(None) };
        if ndim > AXES || array.flags & ALIGNED == 0 {
            return Ok(None);
        }
        if wanted.writes() && array.flags & WRITEABLE == 0 {
            return Err(read_only());
        }
        let item_size = i64::from(dtype.bits) / 8;
        let (mut shape, mut strides) = ([0; AXES], [0; AXES]);
        for axis in 0..ndim {
            let (extent, stride) = (*array.dimensions.add(axis) as i64, *array.strides.add(axis) as i64);
            if stride % item_size != 0 {
                return Ok(None);
            }
            (shape[axis], strides[axis]) = (extent, stride / item_size);
        }
        let device = DLDevice { device_type: device_type::CPU, device_id: 0 };
        let tensor = DLTensor {
            data: array.data,
            device,
            ndim: ndim as i32,
            dtype,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        Ok(Some(LentTensor::put(LentTensor { tensor, shape, strides }, place)))
    }
}

impl LentTensor {
    /// Writes the tensor to `place`, with pointers to its own shape and strides, and returns a
    /// view.
    fn put(lent: Self, place: &mut MaybeUninit<Self>) -> TVMFFIAny {
        let lent = place.write(lent);
        lent.tensor.shape = lent.shape.as_mut_ptr();
        lent.tensor.strides = lent.strides.as_mut_ptr();
        lent.view()
    }

    /// Returns a view of the tensor, which must not move.
    pub(crate) fn view(&self) -> TVMFFIAny {
        TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, (&raw const self.tensor).cast_mut().cast())
    }

    /// A copy of the description of a tensor by another library, whose shape and strides other code
    /// may change meanwhile. `None`: it has too many axes, or no shape.
    ///
    /// # Safety
    /// The description is valid.
    pub(crate) unsafe fn copied(tensor: &DLTensor) -> Option<Box<Self>> {
        let ndim = usize::try_from(tensor.ndim).ok().filter(|ndim| *ndim <= AXES)?;
        if ndim > 0 && tensor.shape.is_null() {
            return None;
        }
        let (mut shape, mut strides) = ([0; AXES], [0; AXES]);
        let mut row_major = 1;
        for axis in (0..ndim).rev() {
            // SAFETY: promised by the caller: as many extents as axes, and strides, if there are
            // any.
            unsafe {
                shape[axis] = *tensor.shape.add(axis);
                strides[axis] = if tensor.strides.is_null() { row_major } else { *tensor.strides.add(axis) };
            }
            row_major = row_major.saturating_mul(shape[axis]);
        }
        let tensor = DLTensor { shape: ptr::null_mut(), strides: ptr::null_mut(), ..*tensor };
        let mut lent = Box::new(Self { tensor, shape, strides });
        (lent.tensor.shape, lent.tensor.strides) = (lent.shape.as_mut_ptr(), lent.strides.as_mut_ptr());
        Some(lent)
    }
}

/// The element type of an array, of this machine's byte order. NumPy numbers its own types: bool,
/// then pairs of signed and unsigned integers from `char` to `long long`, then floats, then complex
/// numbers; float16 is 23.
fn data_type(descr: &DescrFields) -> Option<DLDataType> {
    let other_order = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    if descr.byte_order as u8 == other_order {
        return None;
    }
    const LONG: u8 = core::ffi::c_long::BITS as u8;
    let (code, bits) = match descr.type_number {
        0 => (dtype_code::BOOL, 8),
        1 => (dtype_code::INT, 8),
        2 => (dtype_code::UINT, 8),
        3 => (dtype_code::INT, 16),
        4 => (dtype_code::UINT, 16),
        5 => (dtype_code::INT, 32),
        6 => (dtype_code::UINT, 32),
        7 => (dtype_code::INT, LONG),
        8 => (dtype_code::UINT, LONG),
        9 => (dtype_code::INT, 64),
        10 => (dtype_code::UINT, 64),
        11 => (dtype_code::FLOAT, 32),
        12 => (dtype_code::FLOAT, 64),
        14 => (dtype_code::COMPLEX, 64),
        15 => (dtype_code::COMPLEX, 128),
        23 => (dtype_code::FLOAT, 16),
        _ => return None,
    };
    Some(DLDataType { code, bits, lanes: 1 })
}
