use core::fmt;
use core::ops::Deref;

use crate::abi::type_index;
use crate::embedded;
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema, raw_handle, sequence};

/// The dimensions of a tensor, in elements.
///
/// ```
/// use kernpack::Shape;
/// let shape = Shape::new(&[480, 640, 3]);
/// assert_eq!(shape.iter().product::<i64>(), 921_600);
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Shape {
    object: ObjRef<ObjectRoot>,
}

raw_handle!(ObjRef: => Shape, "`ffi.Shape`");

impl Shape {
    /// Copies the dimensions.
    pub fn new(dimensions: &[i64]) -> Self {
        // SAFETY: a new object, whose one reference is this one.
        unsafe { Self::from_raw(embedded::shape::new_shape(dimensions)) }
    }
}

impl Deref for Shape {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        // SAFETY: the object is a shape and lives as long as `self`; shapes never change.
        unsafe { embedded::shape::dimensions(self.object.as_ptr()) }
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Shape {}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Schema for Shape {
    const TYPE: TypeSchema = TypeSchema::new("ffi.Shape");
    const STORAGE: crate::value::Storage = crate::value::Storage::Object;

    unsafe fn is_set(place: *const core::ffi::c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const core::ffi::c_void>().read().is_null() }
    }
}

impl<'a> FromAny<'a> for Shape {
    /// Accepts a shape, or a sequence of integers.
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive; its index is checked before it is treated as a
        // shape.
        unsafe {
            if (*object).type_index == type_index::SHAPE {
                embedded::inc_ref(object);
                return Ok(Self::from_raw(object));
            }
        }
        let dimensions: Result<Vec<i64>, _> = sequence(value)?.views().iter().map(i64::from_any).collect();
        Ok(Self::new(&dimensions.map_err(|_| Mismatch::TYPE)?))
    }
}

impl IntoAny for Shape {
    fn into_any(self) -> Any {
        self.object.into_any()
    }
}

impl ToArg for Shape {
    fn to_arg(&self) -> Arg<'_> {
        self.object.to_arg()
    }
}

impl core::hash::Hash for Shape {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl AsRef<[i64]> for Shape {
    fn as_ref(&self) -> &[i64] {
        self
    }
}

impl<const N: usize> From<[i64; N]> for Shape {
    fn from(dimensions: [i64; N]) -> Self {
        Self::new(&dimensions)
    }
}

impl From<&[i64]> for Shape {
    fn from(dimensions: &[i64]) -> Self {
        Self::new(dimensions)
    }
}

impl From<Vec<i64>> for Shape {
    fn from(dimensions: Vec<i64>) -> Self {
        Self::new(&dimensions)
    }
}

impl FromIterator<i64> for Shape {
    fn from_iter<I: IntoIterator<Item = i64>>(dimensions: I) -> Self {
        Self::new(&dimensions.into_iter().collect::<Vec<_>>())
    }
}

impl From<Shape> for Any {
    fn from(shape: Shape) -> Self {
        shape.into_any()
    }
}
