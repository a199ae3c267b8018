use crate::value::DataType;

/// A Rust type that a tensor's elements can be viewed as.
///
/// # Safety
/// Every bit pattern is a valid value, and size and layout match `DTYPE`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor element type",
    label = "not a tensor element type",
    note = "use u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, kernpack::F16, BF16, Complex<f32> or Complex<f64>"
)]
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The corresponding element type.
    const DTYPE: DataType;
    /// Name of the element type.
    const NAME: &'static str;
    /// Zero.
    const ZERO: Self;
}

macro_rules! element {
    ($($type:ident $dtype:ident $name:literal $zero:literal),* $(,)?) => {$(
        // SAFETY: a plain number of that size.
        unsafe impl Element for $type {
            const DTYPE: DataType = DataType::$dtype;
            const NAME: &'static str = $name;
            const ZERO: Self = $zero;
        }
    )*};
}
element!(
    u8 UINT8 "uint8" 0, i8 INT8 "int8" 0, u16 UINT16 "uint16" 0, i16 INT16 "int16" 0, u32 UINT32 "uint32" 0,
    i32 INT32 "int32" 0, u64 UINT64 "uint64" 0, i64 INT64 "int64" 0, f32 FLOAT32 "float32" 0.0, f64 FLOAT64 "float64" 0.0,
);
