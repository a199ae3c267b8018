//! Iteration over containers, and elements by index.

use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ops::{Index, Range};

use super::{Array, Map};
use crate::object::{ObjRef, Object};
use crate::value::{Any, AnyView, FromAny};

/// Iterator over the elements of a borrowed [`Array`].
pub struct ArrayIter<'a, T> {
    array: &'a Array<T>,
    left: Range<usize>,
}

/// Iterator over the elements of an owned [`Array`].
pub struct ArrayIntoIter<T> {
    array: Array<T>,
    left: Range<usize>,
    elements: PhantomData<T>,
}

impl<'a, T: for<'b> FromAny<'b>> IntoIterator for &'a Array<T> {
    type Item = T;
    type IntoIter = ArrayIter<'a, T>;

    /// Like [`Array::iter`].
    fn into_iter(self) -> ArrayIter<'a, T> {
        ArrayIter { array: self, left: 0..self.len() }
    }
}

/// ```
/// use kernpack::Array;
/// let mut sum = 0;
/// for number in Array::from(vec![1i64, 2, 3]) {
///     sum += number;
/// }
/// assert_eq!(sum, 6);
/// ```
impl<T: for<'b> FromAny<'b>> IntoIterator for Array<T> {
    type Item = T;
    type IntoIter = ArrayIntoIter<T>;

    fn into_iter(self) -> ArrayIntoIter<T> {
        ArrayIntoIter { left: 0..self.len(), array: self, elements: PhantomData }
    }
}

macro_rules! iterator {
    ([$($generics:tt)*] $iterator:ty) => {
        impl<$($generics)*> Iterator for $iterator {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.left.next().map(|index| self.array.at(index))
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.left.size_hint()
            }

            fn nth(&mut self, count: usize) -> Option<T> {
                self.left.nth(count).map(|index| self.array.at(index))
            }
        }

        impl<$($generics)*> DoubleEndedIterator for $iterator {
            fn next_back(&mut self) -> Option<T> {
                self.left.next_back().map(|index| self.array.at(index))
            }
        }

        impl<$($generics)*> ExactSizeIterator for $iterator {}
        impl<$($generics)*> FusedIterator for $iterator {}
    };
}
iterator!(['a, T: for<'b> FromAny<'b>] ArrayIter<'a, T>);
iterator!([T: for<'b> FromAny<'b>] ArrayIntoIter<T>);

/// Iterates over the entries in insertion order.
///
/// ```
/// use kernpack::Map;
/// let map: Map<String, i64> = [("a".to_owned(), 1), ("b".to_owned(), 2)].into_iter().collect();
/// let mut text = String::new();
/// for (key, value) in &map {
///     text += &format!("{key}{value}");
/// }
/// assert_eq!(text, "a1b2");
/// ```
impl<K: for<'a> FromAny<'a>, V: for<'a> FromAny<'a>> IntoIterator for &Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter().collect::<Vec<_>>().into_iter()
    }
}

impl<K: for<'a> FromAny<'a>, V: for<'a> FromAny<'a>> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        (&self).into_iter()
    }
}

/// A type whose values are stored directly in an array, so that they can be borrowed. Elements of
/// other types are converted: use [`Array::get`] and [`Array::at`].
///
/// # Safety
/// If an element converts to the type, the function returns the value that it converts to.
pub unsafe trait InPlace: for<'a> FromAny<'a> {
    /// Borrows the value of an element.
    #[doc(hidden)]
    fn in_place<'a>(element: &'a AnyView<'a>) -> &'a Self;
}

// SAFETY: an element is an owned value; an `Any` is transparent over the same raw struct.
unsafe impl InPlace for Any {
    fn in_place<'a>(element: &'a AnyView<'a>) -> &'a Self {
        // SAFETY: as above; it is only borrowed.
        unsafe { &*core::ptr::from_ref(element.as_raw()).cast() }
    }
}

// SAFETY: an element that converts is a pointer to an object of the type; a reference is
// transparent over that pointer.
unsafe impl<T: Object> InPlace for ObjRef<T> {
    fn in_place<'a>(element: &'a AnyView<'a>) -> &'a Self {
        // SAFETY: as above; it is only borrowed.
        unsafe { &*(&raw const element.as_raw().payload.v_obj).cast() }
    }
}

/// ```
/// use kernpack::{Any, Array, IntoAny};
/// let array = Array::from(vec![1.into_any(), "two".into_any()]);
/// assert_eq!(array[1].to::<String>()?, "two");
/// # Ok::<(), kernpack::Error>(())
/// ```
impl<T: InPlace> Index<usize> for Array<T> {
    type Output = T;

    /// # Panics
    /// Panics if `index` is out of range.
    fn index(&self, index: usize) -> &T {
        let len = self.len();
        match self.as_views().get(index) {
            Some(element) => T::in_place(element),
            None => panic!("there is no element {index} in an array of {len}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IntoAny, ObjectRoot};

    #[test]
    fn arrays_are_looped_over() {
        let array = Array::from(vec![1i64, 2, 3]);
        let mut found = Vec::new();
        for number in &array {
            found.push(number);
        }
        assert_eq!(found, [1, 2, 3]);
        assert_eq!((&array).into_iter().rev().collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!((array.at(2), array.clone().into_iter().len(), array.into_iter().nth(1)), (3, 3, Some(2)));
    }

    #[test]
    fn elements_are_lent() {
        let inner = Array::from(vec![7i64]);
        let array: Array<ObjRef<ObjectRoot>> = Array::from(vec![inner.into_any().to().unwrap()]);
        assert_eq!(array[0].type_key(), "ffi.Array");
        let array: Array<Any> = array.into_any().to().unwrap();
        assert_eq!(array[0].to::<Array<i64>>().unwrap().at(0), 7);
        let caught = std::panic::catch_unwind(|| array[1].type_index()).unwrap_err();
        assert_eq!(caught.downcast_ref::<String>().unwrap(), "there is no element 1 in an array of 1");
    }
}
