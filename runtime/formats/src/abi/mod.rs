//! The C ABI of TVM FFI as data: constants, `#[repr(C)]` structs and assertions about them. This
//! module does not contain code that runs.
//!
//! Source: `tvm/ffi/c_api.h`, `tvm/ffi/extra/c_env_api.h` and `dlpack/dlpack.h` from the
//! apache-tvm-ffi 0.1.15.post2 wheel (64-bit little-endian targets). Every struct's size and every
//! field's offset is asserted at compile time here, and `tests/tests/abi/headers.rs` compares them
//! with the C headers.
//!
//! ```
//! use kernpack_formats::abi::{TVMFFIAny, type_index};
//! let one = TVMFFIAny::int(1);
//! assert_eq!(one.type_index, type_index::INT);
//! ```

mod any;
mod cells;
#[doc(hidden)]
pub mod cpp_names;
mod dlpack;
mod object;
mod table;
pub mod type_index;
mod type_info;

pub use any::{TVMFFIAny, TVMFFIAnyPayload, TVMFFIByteArray};
pub use cells::{
    SafeCall, TVMFFIBigIntCell, TVMFFIErrorCell, TVMFFIFunctionCell, TVMFFIMapCell, TVMFFIModuleCell,
    TVMFFIOpaqueObjectCell, TVMFFISeqCell, TVMFFIShapeCell, backtrace_update,
};
pub use dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackManagedTensorAllocator, DLPackSetError,
    DLPackVersion, DLTensor, device_type, dlpack_flags, dtype_code,
};
pub use object::{
    ObjectDeleter, TVMFFICustomAllocator, TVMFFIObject, TVMFFIObjectAllocHeader, TVMFFIObjectHandle, deleter_flag,
};
#[doc(hidden)]
pub use table::for_each_function;
pub use table::{ApiTable, TVMFFIStreamHandle, TVMFFIVersion};
pub use type_info::{
    TVMFFIFieldGetter, TVMFFIFieldInfo, TVMFFIFieldSetter, TVMFFIMethodInfo, TVMFFIObjectCreator, TVMFFITypeAttrColumn,
    TVMFFITypeInfo, TVMFFITypeMetadata, field_flag, seq_hash_kind,
};

/// Asserts the size of a `#[repr(C)]` struct and the offsets of its fields at compile time.
macro_rules! assert_layout {
    ($type:ty, size = $size:expr, align = $align:expr, { $($field:ident @ $offset:expr),* $(,)? }) => {
        const _: () = {
            assert!(core::mem::size_of::<$type>() == $size);
            assert!(core::mem::align_of::<$type>() == $align);
            $(assert!(core::mem::offset_of!($type, $field) == $offset);)*
        };
    };
}
use assert_layout;
