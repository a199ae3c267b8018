use super::{Any, AnyView, Arg, Changed, FromAny, IntoAny, Mismatch, Narrow, Schema, Shown, ToArg, TypeSchema};
use crate::abi::{TVMFFIAny, type_index};
use crate::value::{Storage, python_number};
use crate::{embedded, provider};

#[inline]
fn view<'a>(raw: TVMFFIAny) -> AnyView<'a> {
    // SAFETY: only called with plain values, which do not refer to anything.
    unsafe { AnyView::from_raw(raw) }
}

#[inline]
fn any(raw: TVMFFIAny) -> Any {
    // SAFETY: only called with plain values, which do not own anything.
    unsafe { Any::from_raw(raw) }
}

/// The integer of a value that has another type; a Python object may hold one.
#[inline]
fn other_int(value: &AnyView<'_>) -> Result<i64, Mismatch> {
    match python_number::of(value, false) {
        Some(number) => i64::from_any(number.as_view()),
        None => Err(not_an_int(value)),
    }
}

#[cold]
fn not_an_int(value: &AnyView<'_>) -> Mismatch {
    if value.type_index() == type_index::BIG_INT {
        return Mismatch::range("the integer does not fit into 64 bits".to_owned());
    }
    Mismatch::TYPE
}

#[cold]
fn out_of_range(value: impl core::fmt::Display, name: &str, min: impl core::fmt::Display, max: u64) -> Mismatch {
    Mismatch::range(format!("{value} is out of range for {name} ({min} to {max})"))
}

/// The view that visitors get of a field of this type.
macro_rules! seen_as {
    ($kind:ident) => {
        #[inline]
        fn shown(&self) -> Shown<'_> {
            Shown::$kind(*self)
        }

        #[inline]
        fn changed(&mut self) -> Changed<'_> {
            Changed::$kind(self)
        }
    };
    // A type without its own kind is visited as a wider type.
    ($kind:ident as $wide:ty, $changed:ident) => {
        #[inline]
        fn shown(&self) -> Shown<'_> {
            Shown::$kind(*self as $wide)
        }

        #[inline]
        fn changed(&mut self) -> Changed<'_> {
            Changed::$changed(self)
        }
    };
}

/// An integer that a visitor may assign a wider number to.
macro_rules! narrow {
    ($type:ty as $wide:ty) => {
        impl Narrow<$wide> for $type {
            #[inline]
            fn widened(&self) -> $wide {
                *self as $wide
            }

            fn narrow(&mut self, wide: $wide) -> Result<(), String> {
                *self = Self::try_from(wide).map_err(|_| does_not_fit(&wide, Self::MIN as i64, Self::MAX as u64))?;
                Ok(())
            }
        }
    };
}

#[cold]
fn does_not_fit(value: &dyn core::fmt::Display, min: i64, max: u64) -> String {
    format!("{value} is out of range ({min} to {max})")
}

impl Schema for i64 {
    const TYPE: TypeSchema = TypeSchema::new("int");
    const STORAGE: Storage = Storage::Plain;
}

impl<'a> FromAny<'a> for i64 {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        match value.type_index() {
            // SAFETY: integers and booleans have an integer payload.
            type_index::INT | type_index::BOOL => Ok(unsafe { value.as_raw().payload.v_int64 }),
            _ => other_int(value),
        }
    }
}

impl IntoAny for i64 {
    #[inline]
    fn into_any(self) -> Any {
        any(TVMFFIAny::int(self))
    }

    seen_as!(I64);
}

impl ToArg for i64 {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::borrowed(view(TVMFFIAny::int(*self)))
    }
}

macro_rules! narrow_int {
    ($($type:ident: $kind:ident $(as $wide:ident, $changed:ident)?; $is_unsigned:literal;)*) => {$(
        impl Schema for $type {
            const TYPE: TypeSchema = TypeSchema::new("int");
            const STORAGE: Storage = Storage::Plain;
            const IS_UNSIGNED: bool = $is_unsigned;
        }

        impl<'a> FromAny<'a> for $type {
            #[inline]
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                let wide = i64::from_any(value)?;
                $type::try_from(wide).map_err(|_| out_of_range(wide, stringify!($type), $type::MIN, $type::MAX as u64))
            }
        }

        impl IntoAny for $type {
            #[inline]
            fn into_any(self) -> Any {
                any(TVMFFIAny::int(self as i64))
            }

            seen_as!($kind $(as $wide, $changed)?);
        }

        $(narrow!($type as $wide);)?

        impl ToArg for $type {
            #[inline]
            fn to_arg(&self) -> Arg<'_> {
                Arg::borrowed(view(TVMFFIAny::int(*self as i64)))
            }
        }
    )*};
}
narrow_int! {
    i8: I32 as i32, NarrowI32; false;
    i16: I32 as i32, NarrowI32; false;
    i32: I32; false;
    u8: I32 as i32, NarrowI32; false;
    u16: I32 as i32, NarrowI32; false;
    u32: U64 as u64, NarrowU64; true;
    isize: I64 as i64, NarrowI64; false;
}

impl Schema for u64 {
    const TYPE: TypeSchema = TypeSchema::new("int");
    const STORAGE: Storage = Storage::Plain;
    const IS_UNSIGNED: bool = true;
}

impl<'a> FromAny<'a> for u64 {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        unsigned(value, "u64")
    }
}

/// Converts to a 64-bit unsigned integer; the value may be a big integer of the ABI. `name` is the
/// Rust type's.
#[inline]
fn unsigned(value: &AnyView<'_>, name: &str) -> Result<u64, Mismatch> {
    if !matches!(value.type_index(), type_index::INT | type_index::BOOL) {
        return other_unsigned(value, name);
    }
    let wide = i64::from_any(value)?;
    u64::try_from(wide).map_err(|_| out_of_range(wide, name, 0, u64::MAX))
}

#[cold]
fn other_unsigned(value: &AnyView<'_>, name: &str) -> Result<u64, Mismatch> {
    if value.type_index() == type_index::BIG_INT {
        return from_big_int(value, name);
    }
    match python_number::of(value, false) {
        Some(number) => unsigned(number.as_view(), name),
        None => Err(Mismatch::TYPE),
    }
}

/// Converts a big integer whose two words represent a number between 2^63 and 2^64 - 1.
fn from_big_int(value: &AnyView<'_>, name: &str) -> Result<u64, Mismatch> {
    // SAFETY: the type index says that the payload is a big integer; its words live as long as the
    // view.
    let words = unsafe { embedded::big_int::content(value.as_raw()).as_slice() };
    match words.as_chunks().0 {
        [low, [0, 0, 0, 0, 0, 0, 0, 0]] => Ok(u64::from_ne_bytes(*low)),
        _ => Err(Mismatch::range(format!("the integer is out of range for {name} (0 to {})", u64::MAX))),
    }
}

impl IntoAny for u64 {
    #[inline]
    fn into_any(self) -> Any {
        match i64::try_from(self) {
            Ok(small) => small.into_any(),
            Err(_) => big_int(self),
        }
    }

    seen_as!(U64);
}

/// Creates a value beyond the range of the ABI's plain integers.
///
/// # Panics
/// Panics if the process's implementation is older than 0.1.15 and does not have big integers; a
/// packed function's guard converts the panic to an error.
#[cold]
fn big_int(value: u64) -> Any {
    require_big_int(&value);
    let words = u128::from(value).to_le_bytes();
    // Two whole words are always valid content.
    // SAFETY: the value is new.
    embedded::big_int::from_words(&words).map_or(Any::NONE, |value| unsafe { Any::from_raw(value) })
}

/// # Panics
/// Panics if the process's implementation does not have integers beyond 64 bits.
#[cold]
pub(super) fn require_big_int(value: &dyn core::fmt::Display) {
    if provider::api().big_int_from_byte_array.is_none() {
        let version = provider::version();
        panic!(
            "{value} does not fit into a 64-bit signed integer, and the TVM FFI in this process (version {}.{}.{}) has no larger \
             ones; install apache-tvm-ffi 0.1.15 or newer",
            version.major, version.minor, version.patch
        );
    }
}

impl ToArg for u64 {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        match i64::try_from(*self) {
            Ok(small) => Arg::borrowed(view(TVMFFIAny::int(small))),
            Err(_) => Arg::owned(self.into_any()),
        }
    }
}

impl Schema for usize {
    const TYPE: TypeSchema = TypeSchema::new("int");
    const STORAGE: Storage = Storage::Plain;
    const IS_UNSIGNED: bool = true;
}

impl<'a> FromAny<'a> for usize {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        unsigned(value, "usize").map(|wide| wide as usize)
    }
}

impl IntoAny for usize {
    #[inline]
    fn into_any(self) -> Any {
        (self as u64).into_any()
    }

    seen_as!(U64 as u64, NarrowU64);
}

narrow!(usize as u64);

impl ToArg for usize {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        match i64::try_from(*self) {
            Ok(small) => Arg::borrowed(view(TVMFFIAny::int(small))),
            Err(_) => Arg::owned(self.into_any()),
        }
    }
}

impl Schema for bool {
    const TYPE: TypeSchema = TypeSchema::new("bool");
    const STORAGE: Storage = Storage::Plain;
}

impl<'a> FromAny<'a> for bool {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        match value.type_index() {
            // SAFETY: booleans and integers have an integer payload.
            type_index::BOOL | type_index::INT => Ok(unsafe { value.as_raw().payload.v_int64 } != 0),
            _ => match python_number::of(value, false) {
                Some(number) => Self::from_any(number.as_view()),
                None => Err(Mismatch::TYPE),
            },
        }
    }
}

impl IntoAny for bool {
    #[inline]
    fn into_any(self) -> Any {
        any(TVMFFIAny::bool(self))
    }

    seen_as!(Bool);
}

impl ToArg for bool {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::borrowed(view(TVMFFIAny::bool(*self)))
    }
}

impl Schema for f64 {
    const TYPE: TypeSchema = TypeSchema::new("float");
    const STORAGE: Storage = Storage::Plain;
}

impl<'a> FromAny<'a> for f64 {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        // SAFETY: the member read is the one that the type index names.
        unsafe {
            match value.type_index() {
                type_index::FLOAT => Ok(value.as_raw().payload.v_float64),
                type_index::INT | type_index::BOOL => Ok(value.as_raw().payload.v_int64 as f64),
                _ => float_of_big_int(value),
            }
        }
    }
}

/// Returns the nearest float of an integer beyond the range of `i64`, like Python's `float`.
#[cold]
#[inline]
fn float_of_big_int(value: &AnyView<'_>) -> Result<f64, Mismatch> {
    if value.type_index() != type_index::BIG_INT {
        return match python_number::of(value, true) {
            Some(number) => f64::from_any(number.as_view()),
            None => Err(Mismatch::TYPE),
        };
    }
    // SAFETY: the type index says that the payload is a big integer; its words live as long as the
    // view.
    let float = unsafe { embedded::big_int::to_float(embedded::big_int::content(value.as_raw()).as_slice()) };
    if float.is_infinite() {
        Err(Mismatch::range("the integer is too large for a float".to_owned()))
    } else {
        Ok(float)
    }
}

impl IntoAny for f64 {
    #[inline]
    fn into_any(self) -> Any {
        any(TVMFFIAny::float(self))
    }

    seen_as!(F64);
}

impl ToArg for f64 {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::borrowed(view(TVMFFIAny::float(*self)))
    }
}

impl Schema for f32 {
    const TYPE: TypeSchema = TypeSchema::new("float");
    const STORAGE: Storage = Storage::Plain;
}

impl<'a> FromAny<'a> for f32 {
    /// Rounds to the nearest f32; a finite number beyond the range of f32 is an error.
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let wide = f64::from_any(value)?;
        let narrow = wide as f32;
        if narrow.is_infinite() && wide.is_finite() {
            return Err(Mismatch::range(format!("{wide:e} is out of range for f32")));
        }
        Ok(narrow)
    }
}

impl IntoAny for f32 {
    #[inline]
    fn into_any(self) -> Any {
        any(TVMFFIAny::float(f64::from(self)))
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::F64(f64::from(*self))
    }

    #[inline]
    fn changed(&mut self) -> Changed<'_> {
        Changed::NarrowF64(self)
    }
}

impl Narrow<f64> for f32 {
    #[inline]
    fn widened(&self) -> f64 {
        f64::from(*self)
    }

    fn narrow(&mut self, wide: f64) -> Result<(), String> {
        let narrow = wide as Self;
        if narrow.is_infinite() && wide.is_finite() {
            return Err(format!("{wide:e} is out of range for f32"));
        }
        *self = narrow;
        Ok(())
    }
}

impl ToArg for f32 {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::borrowed(view(TVMFFIAny::float(f64::from(*self))))
    }
}

impl Schema for () {
    const TYPE: TypeSchema = TypeSchema::new("None");
    const STORAGE: Storage = Storage::Plain;
}

impl<'a> FromAny<'a> for () {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        if value.is_none() { Ok(()) } else { Err(Mismatch::TYPE) }
    }
}

impl IntoAny for () {
    #[inline]
    fn into_any(self) -> Any {
        Any::NONE
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::None
    }
}

impl ToArg for () {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::borrowed(AnyView::NONE)
    }
}

/// An untyped pointer is passed like an integer; it is never dereferenced here.
impl Schema for *mut core::ffi::c_void {
    const TYPE: TypeSchema = TypeSchema::new("void*");
    const STORAGE: Storage = Storage::Plain;
}

impl<'a> FromAny<'a> for *mut core::ffi::c_void {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        match value.type_index() {
            // SAFETY: opaque pointers have a pointer payload.
            type_index::OPAQUE_PTR => Ok(unsafe { value.as_raw().payload.v_ptr }),
            type_index::NONE => Ok(core::ptr::null_mut()),
            _ => Err(Mismatch::TYPE),
        }
    }
}

impl IntoAny for *mut core::ffi::c_void {
    #[inline]
    fn into_any(self) -> Any {
        any(TVMFFIAny::pointer(type_index::OPAQUE_PTR, self))
    }

    seen_as!(Opaque);
}

impl ToArg for *mut core::ffi::c_void {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::borrowed(view(TVMFFIAny::pointer(type_index::OPAQUE_PTR, *self)))
    }
}
