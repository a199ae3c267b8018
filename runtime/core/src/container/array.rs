use core::fmt;
use core::marker::PhantomData;

use crate::abi::{TVMFFIAny, type_index};
use crate::embedded;
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{
    Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, Shown, ToArg, TypeSchema, raw_handle, sequence, views,
};

/// An immutable sequence of values that all convert to `T`, shared with every language. Cloning
/// increments a reference count.
#[repr(transparent)]
pub struct Array<T> {
    object: ObjRef<ObjectRoot>,
    elements: PhantomData<fn() -> T>,
}

raw_handle!(ObjRef: T => Array<T>, "`ffi.Array` whose elements all convert to `T`", elements: PhantomData);

/// Adds the index of an element that did not convert to its error.
pub(super) fn in_element<T: Schema, C: Schema>(mismatch: Mismatch, index: usize, value: &AnyView<'_>) -> Mismatch {
    let place = format!("in element {index}");
    mismatch.within([&place, &place["in ".len()..]], &C::TYPE, &T::TYPE, value)
}

/// Creates an array object that owns `values`.
pub(super) fn array_of(values: impl Iterator<Item = Any>) -> Any {
    let values: Vec<TVMFFIAny> = values.map(Any::into_raw).collect();
    // SAFETY: a new object; the value takes ownership of its one reference.
    unsafe { Any::from_object(embedded::seq::new_array(values)) }
}

impl<T> Array<T> {
    pub(super) fn as_views(&self) -> &[AnyView<'_>] {
        // SAFETY: the object is an array; arrays are only changed by their sole owner, and `self`
        // holds a reference.
        unsafe { views(self.object.as_ptr()) }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.as_views().len()
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: for<'a> FromAny<'a>> Array<T> {
    /// Returns the element at `index`; `None` if out of range.
    ///
    /// # Panics
    /// As for [`Array::iter`].
    pub fn get(&self, index: usize) -> Option<T> {
        self.as_views().get(index).map(converted)
    }

    /// Returns the element at `index`.
    ///
    /// # Panics
    /// Panics if `index` is out of range, and as for [`Array::iter`].
    pub fn at(&self, index: usize) -> T {
        match self.as_views().get(index) {
            Some(element) => converted(element),
            None => panic!("there is no element {index} in an array of {}", self.len()),
        }
    }

    /// Returns the elements in order.
    ///
    /// # Panics
    /// Panics if an element is a mutable list or dict that no longer converts, because other code
    /// changed it.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + DoubleEndedIterator + '_ {
        self.as_views().iter().map(converted)
    }

    /// Returns the elements in a vector.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }
}

fn converted<'a, T: FromAny<'a>>(element: &'a AnyView<'a>) -> T {
    match T::from_any(element) {
        Ok(value) => value,
        // Every element was checked when the array was created, but one that is a list may have
        // changed since.
        Err(mismatch) => panic!("an element of the array has changed: {}", mismatch.describe(&T::TYPE, element)),
    }
}

impl<T: IntoAny> FromIterator<T> for Array<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let values: Vec<TVMFFIAny> = values.into_iter().map(|value| value.into_any().into_raw()).collect();
        // SAFETY: a new object, whose one reference is this one.
        Self { object: unsafe { ObjRef::from_raw(embedded::seq::new_array(values)) }, elements: PhantomData }
    }
}

impl<T: IntoAny> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Self {
        values.into_iter().collect()
    }
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), elements: PhantomData }
    }
}

impl<T: for<'a> FromAny<'a> + fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: for<'a> FromAny<'a> + PartialEq> PartialEq for Array<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Schema> Schema for Array<T> {
    const TYPE: TypeSchema = TypeSchema { key: "ffi.Array", args: &[T::TYPE] };
    const STORAGE: crate::value::Storage = crate::value::Storage::Object;

    unsafe fn is_set(place: *const core::ffi::c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const core::ffi::c_void>().read().is_null() }
    }
}

impl<'a, T: for<'b> FromAny<'b>> FromAny<'a> for Array<T> {
    /// Checks every element. A list is copied, because it may change later.
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let elements = sequence(value)?;
        let elements = elements.views();
        for (i, element) in elements.iter().enumerate() {
            T::from_any(element).map_err(|mismatch| in_element::<T, Self>(mismatch, i, element))?;
        }
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the object is an array or list, kept alive by the view.
        let object = unsafe {
            if (*object).type_index == type_index::ARRAY {
                embedded::inc_ref(object);
                object
            } else {
                let copies: Option<Vec<_>> =
                    elements.iter().map(|element| Any::from_view(element).map(Any::into_raw)).collect();
                embedded::seq::new_array(copies.ok_or(Mismatch::TYPE)?)
            }
        };
        // SAFETY: the reference was created above.
        Ok(Self { object: unsafe { ObjRef::from_raw(object) }, elements: PhantomData })
    }
}

impl<T: Schema> IntoAny for Array<T> {
    fn into_any(self) -> Any {
        self.object.into_any()
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Lent(self.to_arg())
    }
}

impl<T> ToArg for Array<T> {
    fn to_arg(&self) -> Arg<'_> {
        self.object.to_arg()
    }
}

impl<T: Schema> Schema for Vec<T> {
    const TYPE: TypeSchema = TypeSchema { key: "ffi.Array", args: &[T::TYPE] };
}

impl<'a, T: for<'b> FromAny<'b>> FromAny<'a> for Vec<T> {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        // Not `collect`, which loses the number of elements if a conversion may fail.
        let elements = sequence(value)?;
        let elements = elements.views();
        let mut converted = Self::with_capacity(elements.len());
        for (i, element) in elements.iter().enumerate() {
            converted.push(T::from_any(element).map_err(|mismatch| in_element::<T, Self>(mismatch, i, element))?);
        }
        Ok(converted)
    }
}

impl<T: IntoAny> IntoAny for Vec<T> {
    fn into_any(self) -> Any {
        array_of(self.into_iter().map(IntoAny::into_any))
    }
}

/// Copies the elements into an array.
fn copied<T: ToArg>(elements: &[T]) -> Arg<'_> {
    Arg::owned(array_of(elements.iter().map(|element| {
        let arg = element.to_arg();
        // SAFETY: `arg` keeps the view's target alive.
        let view = unsafe { AnyView::from_raw(arg.as_raw()) };
        Any::from_view(&view).unwrap_or_default()
    })))
}

/// Copies the elements into an array.
impl<T: ToArg> ToArg for Vec<T> {
    fn to_arg(&self) -> Arg<'_> {
        copied(self)
    }
}

impl<T: Schema, const N: usize> Schema for [T; N] {
    const TYPE: TypeSchema = TypeSchema { key: "ffi.Array", args: &[T::TYPE] };
}

impl<'a, T: for<'b> FromAny<'b>, const N: usize> FromAny<'a> for [T; N] {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let elements = Vec::<T>::from_any(value)?;
        elements.try_into().map_err(|elements: Vec<T>| {
            Mismatch::value(format!("expected {} with {N} elements, got {}", Self::TYPE, elements.len()))
        })
    }
}

impl<T: IntoAny, const N: usize> IntoAny for [T; N] {
    fn into_any(self) -> Any {
        array_of(self.into_iter().map(IntoAny::into_any))
    }
}

/// Copies the elements into an array.
impl<T: ToArg, const N: usize> ToArg for [T; N] {
    fn to_arg(&self) -> Arg<'_> {
        copied(self)
    }
}

impl<T: IntoAny, const N: usize> From<[T; N]> for Array<T> {
    fn from(values: [T; N]) -> Self {
        values.into_iter().collect()
    }
}

impl<T> Default for Array<T> {
    fn default() -> Self {
        // SAFETY: a new object, whose one reference is this one.
        Self { object: unsafe { ObjRef::from_raw(embedded::seq::new_array(Vec::new())) }, elements: PhantomData }
    }
}

impl<T: Schema> From<Array<T>> for Any {
    fn from(array: Array<T>) -> Self {
        array.into_any()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Array, Function};

    #[test]
    fn arrays_of_a_fixed_length() {
        let sum = Function::from_fn(|values: [i64; 3]| values.iter().sum::<i64>());
        assert_eq!(sum.call_as::<i64>(([1, 2, 3],)).unwrap(), 6);
        assert_eq!(sum.call_as::<i64>((vec![1, 2, 3],)).unwrap(), 6);
        let error = sum.call(([1, 2],)).unwrap_err();
        assert_eq!(error.kind(), "ValueError");
        assert!(error.message().ends_with("argument 0: expected Array[int] with 3 elements, got 2"), "{error}");
        let texts = Function::from_fn(|| ["a".to_owned(), "b".to_owned()]);
        assert_eq!(texts.call_as::<Vec<String>>(()).unwrap(), ["a", "b"]);
        assert_eq!(Array::from([1i64, 2]).to_vec(), [1, 2]);
        assert!(Array::<i64>::default().is_empty());
    }
}
