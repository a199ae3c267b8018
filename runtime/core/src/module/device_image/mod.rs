//! Device images: the payload of `cuda`, `hip`, `rocm`, `opencl`, `vulkan`, `metal` and `webgpu`
//! modules. They contain the format of the code, the parameters of its kernels, and the code, in
//! the encoding of Apache TVM 0.27.
//!
//! ```
//! use kernpack::module::device_image::{ArgType, DeviceFunction, DeviceImage};
//!
//! let kernel = DeviceFunction::new("scale", vec![ArgType::POINTER, ArgType::FLOAT32, ArgType::INT32], false);
//! let image = DeviceImage::new("fatbin", vec![kernel], b"code");
//! let payload = image.to_vec();
//! assert_eq!(DeviceImage::parse(&payload)?, image);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod owned;

use crate::abi::DLDataType;
use crate::value::DataType;

#[doc(inline)]
pub use kernpack_formats::device_image::{
    ArgType, CLUSTER, COOPERATIVE_LAUNCH, DYNAMIC_SHARED_MEMORY, DeviceFunction, DeviceImage, GRID_AND_BLOCK,
    PROGRAMMATIC_LAUNCH,
};
#[allow(unused_imports, reason = "for kinds of device code, which features bring")]
pub(crate) use owned::{ImageCode, OwnedImage};

/// The type of a number.
///
/// ```
/// use kernpack::DataType;
/// use kernpack::module::device_image::ArgType;
/// assert_eq!(ArgType::from(DataType::FLOAT32), ArgType::FLOAT32);
/// ```
impl From<DataType> for ArgType {
    #[inline]
    fn from(dtype: DataType) -> Self {
        let DLDataType { code, bits, lanes } = dtype.as_raw();
        Self { code, bits, lanes }
    }
}
