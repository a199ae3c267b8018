use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;

use super::{Any, AnyView, Arg, Changed, FromAny, IntoAny, Mismatch, ResultPlace, Schema, Shown, ToArg, TypeSchema};
use crate::abi::{TVMFFIAny, TVMFFIByteArray, type_index};
use crate::embedded;

pub(super) const STR: TypeSchema = TypeSchema::new("ffi.String");
const BYTES: TypeSchema = TypeSchema::new("ffi.Bytes");

/// Returns the bytes of a string value, which need not be UTF-8.
pub(super) fn raw_text<'a>(value: &'a AnyView<'a>) -> Result<&'a [u8], Mismatch> {
    // SAFETY: a view follows the ABI's rules, and a string with this artifact's mark was marked by
    // this artifact.
    match unsafe { embedded::lent_text(value.as_raw()) } {
        Some(text) => Ok(text.as_bytes()),
        None => str_bytes(value),
    }
}

/// Returns the bytes of a string value. Small strings are read in place, so the result borrows from
/// `value`.
#[inline]
fn str_bytes<'a>(value: &'a AnyView<'a>) -> Result<&'a [u8], Mismatch> {
    match value.type_index() {
        type_index::RAW_STR | type_index::SMALL_STR | type_index::STR => {
            // SAFETY: the view's invariant.
            unsafe { embedded::text_of(value.as_raw()) }.ok_or(Mismatch::TYPE)
        }
        type_index::OBJECT_RVALUE_REF => moved_text(value, type_index::STR),
        _ => Err(Mismatch::TYPE),
    }
}

#[inline]
fn plain_bytes<'a>(value: &'a AnyView<'a>) -> Result<&'a [u8], Mismatch> {
    match value.type_index() {
        type_index::BYTE_ARRAY_PTR | type_index::SMALL_BYTES | type_index::BYTES => {
            // SAFETY: the view's invariant.
            unsafe { embedded::text_of(value.as_raw()) }.ok_or(Mismatch::TYPE)
        }
        type_index::OBJECT_RVALUE_REF => moved_text(value, type_index::BYTES),
        _ => Err(Mismatch::TYPE),
    }
}

/// Returns the bytes of a string object behind an rvalue reference.
#[cold]
fn moved_text<'a>(value: &'a AnyView<'a>, index: i32) -> Result<&'a [u8], Mismatch> {
    let object = value.object().ok_or(Mismatch::TYPE)?;
    // SAFETY: the object is alive for `'a`, and its index says that its body is a byte array.
    unsafe {
        if (*object).type_index != index {
            return Err(Mismatch::TYPE);
        }
        Ok(embedded::body::<TVMFFIByteArray>(object).as_slice())
    }
}

impl Schema for &str {
    const TYPE: TypeSchema = STR;
}

impl<'a> FromAny<'a> for &'a str {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        // SAFETY: a view follows the ABI's rules, and a string with this artifact's mark was marked
        // by this artifact.
        if let Some(text) = unsafe { embedded::lent_text(value.as_raw()) } {
            return Ok(text);
        }
        core::str::from_utf8(str_bytes(value)?).map_err(|error| {
            Mismatch::value(format!(
                "the string is not valid UTF-8 at byte {}; pass bytes instead",
                error.valid_up_to()
            ))
        })
    }
}

impl IntoAny for &str {
    #[inline]
    fn into_any(self) -> Any {
        // SAFETY: the value is new.
        unsafe { Any::from_raw(embedded::new_string(self.as_bytes())) }
    }
}

/// Strings of up to 7 bytes are stored inside the value; longer ones are copied into a string
/// object.
impl ToArg for str {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::owned(self.into_any())
    }
}

impl Schema for String {
    const TYPE: TypeSchema = STR;
    const AS_TEXT: Option<fn(&Self) -> &[u8]> = Some(|text| text.as_bytes());
}

impl<'a> FromAny<'a> for String {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        <&str>::from_any(value).map(str::to_owned)
    }
}

impl IntoAny for String {
    #[inline]
    fn into_any(self) -> Any {
        self.as_str().into_any()
    }

    #[inline]
    fn into_result(self, place: ResultPlace) -> Any {
        place.put_text(self).unwrap_or_else(Self::into_any)
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Str(self)
    }

    #[inline]
    fn changed(&mut self) -> Changed<'_> {
        Changed::Str(self)
    }
}

impl ToArg for String {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        self.as_str().to_arg()
    }
}

impl Schema for &[u8] {
    const TYPE: TypeSchema = BYTES;
}

impl<'a> FromAny<'a> for &'a [u8] {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        plain_bytes(value)
    }
}

impl IntoAny for &[u8] {
    #[inline]
    fn into_any(self) -> Any {
        // SAFETY: the value is new.
        unsafe { Any::from_raw(embedded::new_bytes(self)) }
    }
}

impl ToArg for [u8] {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::owned(self.into_any())
    }
}

macro_rules! text_type {
    ($name:ident, $target:ty, $view:ty, $schema:expr, $what:literal, $get:expr) => {
        #[doc = concat!("Owned ", $what, " in the ABI's own form: copying it is one reference count, or nothing when short.")]
        #[derive(Clone)]
        #[repr(transparent)]
        pub struct $name(Any);

        impl $name {
            /// Copies the content.
            pub fn new(text: $view) -> Self {
                Self(text.into_any())
            }

            fn content(&self) -> &$target {
                #[allow(clippy::redundant_closure_call, reason = "one macro for two types")]
                ($get)(self.0.as_view())
            }
        }

        impl Deref for $name {
            type Target = $target;
            fn deref(&self) -> &$target {
                self.content()
            }
        }

        impl AsRef<$target> for $name {
            fn as_ref(&self) -> &$target {
                self.content()
            }
        }

        impl Borrow<$target> for $name {
            fn borrow(&self) -> &$target {
                self.content()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.content() == other.content()
            }
        }

        impl Eq for $name {}

        impl PartialEq<$target> for $name {
            fn eq(&self, other: &$target) -> bool {
                self.content() == other
            }
        }

        impl PartialEq<$view> for $name {
            fn eq(&self, other: &$view) -> bool {
                self.content() == *other
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> core::cmp::Ordering {
                self.content().cmp(other.content())
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(Default::default())
            }
        }

        impl core::hash::Hash for $name {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.content().hash(state);
            }
        }

        impl From<$view> for $name {
            fn from(text: $view) -> Self {
                Self::new(text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.content().fmt(f)
            }
        }

        impl Schema for $name {
            const TYPE: TypeSchema = $schema;
            const STORAGE: crate::value::Storage = crate::value::Storage::Any;

            unsafe fn is_set(place: *const core::ffi::c_void) -> bool {
                // SAFETY: promised by the caller; zeros are not a string.
                unsafe { place.cast::<TVMFFIAny>().read().type_index != type_index::NONE }
            }
        }

        impl<'a> FromAny<'a> for $name {
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                // Checks type and content once, here.
                <$view>::from_any(value)?;
                Any::from_view(value).map(Self).ok_or(Mismatch::TYPE)
            }
        }

        impl IntoAny for $name {
            #[inline]
            fn into_any(self) -> Any {
                self.0
            }

            #[inline]
            fn shown(&self) -> Shown<'_> {
                Shown::Lent(self.to_arg())
            }
        }

        impl ToArg for $name {
            #[inline]
            fn to_arg(&self) -> Arg<'_> {
                Arg::borrowed(*self.0.as_view())
            }
        }
    };
}

text_type!(Str, str, &str, STR, "text", |view| {
    // `from_any` and `new` only accept valid UTF-8, and strings never change.
    <&str>::from_any(view).unwrap_or_default()
});
text_type!(Bytes, [u8], &[u8], BYTES, "bytes", |view| <&[u8]>::from_any(view).unwrap_or_default());

impl From<Str> for String {
    fn from(text: Str) -> Self {
        text.content().to_owned()
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Self {
        bytes.content().to_vec()
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

/// Takes ownership of the memory; copies at most a few bytes.
impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.len() < 64 {
            return Self::new(&bytes);
        }
        let content: *const [u8] = bytes.as_slice();
        // SAFETY: a vector's memory does not move until the vector is dropped, and it cannot change
        // any more.
        Self(unsafe { Any::from_object(embedded::new_bytes_object_of(content, bytes)) })
    }
}

impl Str {
    /// The string.
    pub fn as_str(&self) -> &str {
        self.content()
    }
}

impl Bytes {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.content()
    }

    /// Creates bytes with static content without copying.
    pub fn from_static(bytes: &'static [u8]) -> Self {
        // SAFETY: a `'static` borrow does not need an owner.
        Self(unsafe { Any::from_object(embedded::new_bytes_object_of(bytes, ())) })
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.content())
    }
}

/// A C string argument that is not copied: borrowed, NUL-terminated.
impl ToArg for core::ffi::CStr {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        let raw = TVMFFIAny::pointer(type_index::RAW_STR, self.as_ptr().cast_mut().cast());
        // SAFETY: the pointer is a NUL-terminated string that lives as long as the borrow.
        Arg::borrowed(unsafe { AnyView::from_raw(raw) })
    }
}
