//! Element types: the compiler's extension of `DataType`.

use kernpack::DataType;

// The type codes of the ABI.
const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const HANDLE: u8 = 3;
const BFLOAT: u8 = 4;
const BOOL: u8 = 6;

/// 8-bit signed integer.
pub const I8: DataType = DataType::INT8;
/// 16-bit signed integer.
pub const I16: DataType = DataType::INT16;
/// 32-bit signed integer.
pub const I32: DataType = DataType::INT32;
/// 64-bit signed integer, the type of indices.
pub const I64: DataType = DataType::INT64;
/// 8-bit unsigned integer.
pub const U8: DataType = DataType::UINT8;
/// 16-bit unsigned integer.
pub const U16: DataType = DataType::UINT16;
/// 32-bit unsigned integer.
pub const U32: DataType = DataType::UINT32;
/// 64-bit unsigned integer.
pub const U64: DataType = DataType::UINT64;
/// Half precision.
pub const F16: DataType = DataType::FLOAT16;
/// bfloat16.
pub const BF16: DataType = DataType::BFLOAT16;
/// Single precision.
pub const F32: DataType = DataType::FLOAT32;
/// Double precision.
pub const F64: DataType = DataType::FLOAT64;
/// Truth value: one bit in registers, one byte in memory.
pub const BOOLEAN: DataType = DataType::BOOL;
/// A pointer.
pub const POINTER: DataType = DataType::scalar(HANDLE, 64);

/// The return type of a function that returns nothing: `void` in other languages.
pub const NOTHING: DataType = {
    let mut raw = POINTER.as_raw();
    (raw.bits, raw.lanes) = (0, 0);
    DataType::from_raw(raw)
};

/// Operations on element types.
pub trait DataTypeExt: Copy {
    /// The same element type with another number of lanes.
    fn with_lanes(self, lanes: u16) -> DataType;
    /// The same type with one lane.
    fn element(self) -> DataType;
    /// Returns true for a signed integer.
    fn is_int(self) -> bool;
    /// Returns true for an unsigned integer; `bool` is not one.
    fn is_uint(self) -> bool;
    /// Returns true for a signed or unsigned integer.
    fn is_integer(self) -> bool;
    /// Returns true for a floating point type, including bfloat16.
    fn is_float(self) -> bool;
    /// Returns true for bfloat16.
    fn is_bfloat(self) -> bool;
    /// Returns true for the truth value type.
    fn is_bool(self) -> bool;
    /// Returns true for a pointer.
    fn is_handle(self) -> bool;
    /// Returns true for one lane.
    fn is_scalar(self) -> bool;
    /// The size of one lane in memory, in bytes.
    fn lane_bytes(self) -> usize;
    /// Returns true if an integer of this type can hold the value; for floats, if the value is
    /// exact.
    fn can_hold(self, value: i64) -> bool;
    /// The name in the text form: `f32`, `i64x4`, `bool`, `ptr`.
    fn short_name(self) -> String;
}

impl DataTypeExt for DataType {
    fn with_lanes(self, lanes: u16) -> DataType {
        let mut raw = self.as_raw();
        raw.lanes = lanes;
        Self::from_raw(raw)
    }

    fn element(self) -> DataType {
        self.with_lanes(1)
    }

    fn is_int(self) -> bool {
        self.code() == INT
    }

    fn is_uint(self) -> bool {
        self.code() == UINT
    }

    fn is_integer(self) -> bool {
        self.is_int() || self.is_uint()
    }

    fn is_float(self) -> bool {
        matches!(self.code(), FLOAT | BFLOAT)
    }

    fn is_bfloat(self) -> bool {
        self.code() == BFLOAT
    }

    fn is_bool(self) -> bool {
        self.code() == BOOL
    }

    fn is_handle(self) -> bool {
        self.code() == HANDLE
    }

    fn is_scalar(self) -> bool {
        self.lanes() == 1
    }

    fn lane_bytes(self) -> usize {
        usize::from(self.bits()).div_ceil(8)
    }

    fn can_hold(self, value: i64) -> bool {
        match (self.code(), self.bits()) {
            (INT, 64) => true,
            (INT, bits) => (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value),
            (UINT, 64) => value >= 0,
            (UINT, bits) => (0..1i64 << bits).contains(&value),
            (BOOL, _) => value == 0 || value == 1,
            (FLOAT, 64) => value.unsigned_abs() <= 1 << 53,
            (FLOAT, 32) => value.unsigned_abs() <= 1 << 24,
            (FLOAT, _) => value.unsigned_abs() <= 1 << 11,
            (BFLOAT, _) => value.unsigned_abs() <= 1 << 8,
            _ => false,
        }
    }

    fn short_name(self) -> String {
        let base = match self.code() {
            INT => format!("i{}", self.bits()),
            UINT => format!("u{}", self.bits()),
            FLOAT => format!("f{}", self.bits()),
            BFLOAT => format!("bf{}", self.bits()),
            BOOL => "bool".to_owned(),
            HANDLE => "ptr".to_owned(),
            _ => return self.to_string(),
        };
        if self.lanes() == 1 { base } else { format!("{base}x{}", self.lanes()) }
    }
}

/// Parses the names that [`DataTypeExt::short_name`] returns.
pub fn parse_short_name(text: &str) -> Option<DataType> {
    let (base, lanes) = match text.split_once('x') {
        Some((base, lanes)) => (base, lanes.parse().ok()?),
        None => (text, 1),
    };
    let scalar = match base {
        "bool" => BOOLEAN,
        "ptr" => POINTER,
        _ => {
            let digits = base.find(|c: char| c.is_ascii_digit())?;
            let bits = base[digits..].parse().ok()?;
            match &base[..digits] {
                "i" => DataType::scalar(INT, bits),
                "u" => DataType::scalar(UINT, bits),
                "f" => DataType::scalar(FLOAT, bits),
                "bf" => DataType::scalar(BFLOAT, bits),
                _ => return None,
            }
        }
    };
    Some(scalar.with_lanes(lanes))
}
