/// Type of a kernel argument, laid out like `DLDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArgType {
    /// One of [`dtype_code`](crate::abi::dtype_code): 0 signed integer, 1 unsigned integer, 2
    /// float, 3 pointer, 6 bool, ...
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Number of lanes.
    pub lanes: u16,
}

impl ArgType {
    /// Type code of pointers.
    pub const POINTER_CODE: u8 = 3;
    /// A pointer to device memory.
    pub const POINTER: Self = Self { code: 3, bits: 64, lanes: 1 };
    /// `char`.
    pub const INT8: Self = Self { code: 0, bits: 8, lanes: 1 };
    /// `short`.
    pub const INT16: Self = Self { code: 0, bits: 16, lanes: 1 };
    /// `unsigned char`.
    pub const UINT8: Self = Self { code: 1, bits: 8, lanes: 1 };
    /// `unsigned short`.
    pub const UINT16: Self = Self { code: 1, bits: 16, lanes: 1 };
    /// `half`.
    pub const FLOAT16: Self = Self { code: 2, bits: 16, lanes: 1 };
    /// `int`.
    pub const INT32: Self = Self { code: 0, bits: 32, lanes: 1 };
    /// `long long`.
    pub const INT64: Self = Self { code: 0, bits: 64, lanes: 1 };
    /// `unsigned`.
    pub const UINT32: Self = Self { code: 1, bits: 32, lanes: 1 };
    /// `unsigned long long`.
    pub const UINT64: Self = Self { code: 1, bits: 64, lanes: 1 };
    /// `float`.
    pub const FLOAT32: Self = Self { code: 2, bits: 32, lanes: 1 };
    /// `double`.
    pub const FLOAT64: Self = Self { code: 2, bits: 64, lanes: 1 };
}
