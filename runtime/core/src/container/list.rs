use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ops::{Bound, RangeBounds};

use super::array::in_element;
use crate::abi::{TVMFFIAny, type_index};
use crate::embedded::list::shared;
use crate::embedded::{self, seq};
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{Any, Arg, FromAny, IntoAny, Mismatch, Schema, Shown, ToArg, TypeSchema, raw_handle, sequence};
use crate::{AnyView, Error, Result};

/// A mutable sequence of values, shared with every language: `tvm_ffi.List` in Python,
/// `tvm::ffi::List` in C++.
///
/// A `List` is a handle. Its clones, the fields and arguments that hold it, and the handles of
/// other languages all refer to the same list, and all of them see a change. For an immutable
/// sequence use [`Array`](super::Array), for one that only Rust code uses a `Vec`.
///
/// Each method is one atomic step: Rust threads, in all libraries of a process, may use a list at
/// the same time, and each step sees the result of complete previous steps. C++ code and the stock
/// library do not take part in this: as with their own threads, the program must ensure that they
/// change a list only while no other thread uses it.
///
/// Other code can put any value into a list at any time, including one that does not convert to
/// `T`. So methods that read elements return a [`Result`]; `List<Any>` accepts all values. A list
/// that contains itself is never freed.
///
/// ```
/// use kernpack::List;
/// let list: List<i64> = [1, 2].into_iter().collect();
/// let same = list.clone();
/// same.push(3);
/// list.set(0, 10)?;
/// assert_eq!(list.to_vec()?, [10, 2, 3]);
/// assert_eq!((list.pop()?, same.len()), (Some(3), 2));
/// assert_eq!(list.get(7)?, None);
/// assert_eq!(list.at(7).unwrap_err().to_string(), "IndexError: there is no element 7 in a list of 2");
/// # Ok::<(), kernpack::Error>(())
/// ```
#[repr(transparent)]
pub struct List<T> {
    object: ObjRef<ObjectRoot>,
    elements: PhantomData<fn() -> T>,
}

raw_handle!(ObjRef: T => List<T>, "`ffi.List`", elements: PhantomData);

/// Converts Rust values to owned raw values.
fn raw_values<T: IntoAny>(values: impl IntoIterator<Item = T>) -> Vec<TVMFFIAny> {
    values.into_iter().map(|value| value.into_any().into_raw()).collect()
}

#[cold]
#[inline]
fn no_element(index: usize, len: usize) -> Error {
    crate::error!(IndexError, "there is no element {index} in a list of {len}")
}

/// Unwraps the result of an operation that only fails if memory runs out.
fn in_memory<T>(outcome: core::result::Result<T, embedded::failure::Failure>) -> T {
    outcome.unwrap_or_else(|failure| panic!("a list cannot grow: {}", failure.message()))
}

// SAFETY of the methods: the object is a list and lives as long as `self`; values that are passed
// on are owned.

impl<T> List<T> {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: a new object, whose one reference is this one.
        unsafe { Self::from_raw(seq::new_list(Vec::new())) }
    }

    /// Number of elements at this moment.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: see above.
        unsafe { shared::len(self.as_ptr()) }
    }

    /// Returns true if there are no elements at this moment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether both handles refer to one list.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.as_ptr() == other.as_ptr()
    }

    /// Removes all elements.
    pub fn clear(&self) {
        // SAFETY: see above.
        unsafe { shared::clear(self.as_ptr()) }
    }

    /// Removes the elements from `len` on; has no effect if the list is not longer.
    pub fn truncate(&self, len: usize) {
        // SAFETY: see above.
        unsafe { shared::truncate(self.as_ptr(), len) }
    }

    /// Reverses the order of the elements.
    pub fn reverse(&self) {
        // SAFETY: see above.
        unsafe { shared::reverse(self.as_ptr()) }
    }

    /// Returns whether an element equals `value`, by the rules for keys of maps: texts by content,
    /// numbers by type and value, objects by identity or by the equality of their type.
    ///
    /// # Errors
    /// Returns the error of a type's own equality function.
    pub fn contains<Q: ToArg + ?Sized>(&self, value: &Q) -> Result<bool> {
        let value = value.to_arg();
        // SAFETY: see above; `value` is a valid view for the call.
        Ok(unsafe { shared::contains(self.as_ptr(), &value.as_raw())? })
    }

    /// Returns the element at `index` without converting it.
    fn raw(&self, index: usize) -> Option<Any> {
        // SAFETY: see above; the element is owned.
        unsafe { shared::element(self.as_ptr(), index).map(|element| Any::from_raw(element)) }
    }
}

impl<T: IntoAny> List<T> {
    /// Adds an element at the end.
    ///
    /// # Panics
    /// Panics if memory runs out.
    pub fn push(&self, value: T) {
        // SAFETY: see above.
        in_memory(unsafe { shared::push(self.as_ptr(), value.into_any().into_raw()) });
    }

    /// Inserts an element before position `index`, which may be the end.
    ///
    /// # Errors
    /// Returns an IndexError if the position is after the end.
    pub fn insert(&self, index: usize, value: T) -> Result<()> {
        self.replace_range(index..index, [value])
    }

    /// Replaces the element at `index`.
    ///
    /// # Errors
    /// Returns an IndexError if there is no such element.
    pub fn set(&self, index: usize, value: T) -> Result<()> {
        let position = i64::try_from(index).unwrap_or(i64::MAX);
        // SAFETY: see above; the old element is owned.
        match unsafe { shared::replace(self.as_ptr(), position, value.into_any().into_raw()) } {
            // SAFETY: as above.
            Ok(old) => drop(unsafe { Any::from_raw(old) }),
            Err(_) => return Err(no_element(index, self.len())),
        }
        Ok(())
    }

    /// Adds elements at the end, all in one step.
    ///
    /// # Panics
    /// Panics if memory runs out.
    pub fn extend(&self, values: impl IntoIterator<Item = T>) {
        let values = raw_values(values);
        // SAFETY: see above.
        in_memory(unsafe { shared::insert(self.as_ptr(), None, &values) });
    }

    /// Replaces all elements in one step, for operations on the whole list such as sorting.
    ///
    /// ```
    /// # use kernpack::List;
    /// let list = List::from(vec![3i64, 1, 2]);
    /// let mut numbers = list.to_vec()?;
    /// numbers.sort_unstable();
    /// list.assign(numbers);
    /// assert_eq!(list.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Panics
    /// Panics if memory runs out.
    pub fn assign(&self, values: impl IntoIterator<Item = T>) {
        let values = raw_values(values);
        // SAFETY: see above.
        in_memory(unsafe { shared::assign(self.as_ptr(), &values) });
    }

    /// Replaces the elements of a range with others, all in one step.
    ///
    /// ```
    /// # use kernpack::List;
    /// let list = List::from(vec![1i64, 2, 3]);
    /// list.replace_range(..2, [7, 8, 9])?;
    /// assert_eq!(list.to_vec()?, [7, 8, 9, 3]);
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an IndexError if the range is not within the list.
    pub fn replace_range(&self, range: impl RangeBounds<usize>, values: impl IntoIterator<Item = T>) -> Result<()> {
        let start = match range.start_bound() {
            Bound::Included(start) => Some(*start),
            Bound::Excluded(before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let stop = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1),
            Bound::Excluded(stop) => Some(*stop),
            Bound::Unbounded => None,
        };
        let position = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
        let values = raw_values(values);
        if values.is_empty() && start.is_none_or(|start| start > self.len()) {
            return Err(self.no_range(start, stop));
        }
        // SAFETY: see above.
        let outcome = unsafe {
            shared::replace_range(self.as_ptr(), position(start.unwrap_or(usize::MAX)), stop.map(position), &values)
        };
        outcome.map_err(|failure| match failure.kind().as_str() {
            "IndexError" => {
                let (start, stop) =
                    (start.unwrap_or(usize::MAX), stop.map(|stop| stop.to_string()).unwrap_or_default());
                crate::error!(IndexError, "there is no range {start}..{stop} in a list of {}", self.len())
            }
            _ => failure.into(),
        })
    }
}

impl<T> List<T> {
    #[cold]
    fn no_range(&self, start: Option<usize>, stop: Option<usize>) -> Error {
        let (start, stop) = (start.unwrap_or(usize::MAX), stop.map(|stop| stop.to_string()).unwrap_or_default());
        crate::error!(IndexError, "there is no range {start}..{stop} in a list of {}", self.len())
    }
}

impl<T: for<'a> FromAny<'a>> List<T> {
    /// Converts the element with index `index` to a Rust value.
    fn converted(index: usize, element: &Any) -> Result<T> {
        let view = element.as_view();
        T::from_any(view).map_err(|mismatch| mismatch.into_error(&format!("element {index}: "), &T::TYPE, view))
    }

    /// Returns the element at `index`; `None` if out of range.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError if the element does not convert to `T`.
    pub fn get(&self, index: usize) -> Result<Option<T>> {
        self.raw(index).map(|element| Self::converted(index, &element)).transpose()
    }

    /// Returns the element at `index`.
    ///
    /// # Errors
    /// Returns an IndexError if out of range, and a TypeError or ValueError if the element does not
    /// convert to `T`.
    pub fn at(&self, index: usize) -> Result<T> {
        self.get(index)?.ok_or_else(|| no_element(index, self.len()))
    }

    /// Returns a snapshot of the elements.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError if an element does not convert to `T`.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        // SAFETY: see above. The values are owned by the contents.
        let elements = unsafe { shared::elements(self.as_ptr()) };
        // SAFETY: as above; the reference is added here.
        let own = |element: &TVMFFIAny| unsafe { Any::from_raw(embedded::release::retain(element)) };
        elements.iter().enumerate().map(|(index, element)| Self::converted(index, &own(element))).collect()
    }

    /// Iterates over the elements in order. Each is read when the iterator reaches it, so the loop
    /// may change the list and sees other code's changes.
    pub fn iter(&self) -> ListIter<'_, T> {
        ListIter { list: self, next: 0 }
    }

    /// Removes the last element and returns it; `None` if the list is empty.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError if the element does not convert to `T`; it then stays in
    /// the list.
    pub fn pop(&self) -> Result<Option<T>> {
        loop {
            let Some(index) = self.len().checked_sub(1) else { return Ok(None) };
            if let Some(value) = self.take(index)? {
                return Ok(Some(value));
            }
        }
    }

    /// Removes the element at `index` and returns it.
    ///
    /// # Errors
    /// Returns an IndexError if out of range, and a TypeError or ValueError if the element does not
    /// convert to `T`; it then stays in the list.
    pub fn remove(&self, index: usize) -> Result<T> {
        loop {
            if let Some(value) = self.take(index)? {
                return Ok(value);
            }
            let len = self.len();
            if index >= len {
                return Err(no_element(index, len));
            }
        }
    }

    /// Removes an element if it converts. Returns `None` if the index is out of range, or if
    /// another thread replaced the element meanwhile.
    fn take(&self, index: usize) -> Result<Option<T>> {
        let Some(element) = self.raw(index) else { return Ok(None) };
        let value = Self::converted(index, &element)?;
        // SAFETY: see above; if the element was removed, this code owns the list's reference to it.
        unsafe {
            if !shared::pop_expected(self.as_ptr(), index as i64, element.as_raw()) {
                return Ok(None);
            }
            drop(Any::from_raw(*element.as_raw()));
        }
        Ok(Some(value))
    }
}

/// Iterator over the elements of a [`List`], each read when the iterator reaches it.
pub struct ListIter<'a, T> {
    list: &'a List<T>,
    next: usize,
}

impl<T: for<'a> FromAny<'a>> Iterator for ListIter<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let element = self.list.get(self.next).transpose()?;
        self.next += 1;
        Some(element)
    }
}

impl<T: for<'a> FromAny<'a>> FusedIterator for ListIter<'_, T> {}

impl<'a, T: for<'b> FromAny<'b>> IntoIterator for &'a List<T> {
    type Item = Result<T>;
    type IntoIter = ListIter<'a, T>;

    /// Like [`List::iter`].
    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: IntoAny> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        // SAFETY: a new object, whose one reference is this one.
        unsafe { Self::from_raw(seq::new_list(raw_values(values))) }
    }
}

impl<T: IntoAny> From<Vec<T>> for List<T> {
    fn from(values: Vec<T>) -> Self {
        values.into_iter().collect()
    }
}

impl<T: IntoAny, const N: usize> From<[T; N]> for List<T> {
    fn from(values: [T; N]) -> Self {
        values.into_iter().collect()
    }
}

/// Adds to the list that the handle refers to, like [`List::extend`].
impl<T: IntoAny> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        Self::extend(self, values);
    }
}

/// Creates a second handle of the same list.
impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), elements: PhantomData }
    }
}

/// Formats a snapshot of the elements, without their nested contents.
impl<T> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: see above. The values are owned by the contents.
        let elements = unsafe { shared::elements(self.as_ptr()) };
        // SAFETY: as above.
        f.debug_list().entries(elements.iter().map(|element| unsafe { AnyView::from_raw(*element) })).finish()
    }
}

impl<T: Schema> Schema for List<T> {
    const TYPE: TypeSchema = TypeSchema { key: "ffi.List", args: &[T::TYPE] };
    const STORAGE: crate::value::Storage = crate::value::Storage::Object;

    unsafe fn is_set(place: *const core::ffi::c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const core::ffi::c_void>().read().is_null() }
    }
}

impl<'a, T: for<'b> FromAny<'b>> FromAny<'a> for List<T> {
    /// Creates a second handle of a list whose elements all convert at this moment. An array, which
    /// cannot change, is copied to a new list.
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        let elements = sequence(value)?;
        for (index, element) in elements.views().iter().enumerate() {
            T::from_any(element).map_err(|mismatch| in_element::<T, Self>(mismatch, index, element))?;
        }
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the object is an array or list, kept alive by the view; the reference is this
        // one.
        unsafe {
            if (*object).type_index == type_index::LIST {
                embedded::inc_ref(object);
                return Ok(Self::from_raw(object));
            }
            Ok(Self::from_raw(seq::new_list(elements.into_owned())))
        }
    }
}

impl<T: Schema> IntoAny for List<T> {
    fn into_any(self) -> Any {
        self.object.into_any()
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Lent(self.to_arg())
    }
}

impl<T> ToArg for List<T> {
    fn to_arg(&self) -> Arg<'_> {
        self.object.to_arg()
    }
}

impl<T: Schema> From<List<T>> for Any {
    fn from(list: List<T>) -> Self {
        list.into_any()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Array, Function};

    fn message<T: fmt::Debug>(outcome: Result<T>) -> String {
        outcome.unwrap_err().to_string()
    }

    #[test]
    fn one_list_with_many_handles() {
        let list = List::from(vec![1i64, 2]);
        let any = list.clone().into_any();
        let same: List<i64> = any.to().unwrap();
        assert!(same.is_same(&list) && !same.is_same(&List::new()));
        same.push(3);
        assert_eq!((list.to_vec().unwrap(), format!("{list:?}")), (vec![1, 2, 3], "[1, 2, 3]".to_owned()));
        let add = Function::from_fn(|list: List<i64>, value: i64| list.push(value));
        add.call((&list, 4)).unwrap();
        assert_eq!(same.iter().map(Result::unwrap).collect::<Vec<_>>(), [1, 2, 3, 4]);
        // An array is copied.
        let array = Array::from(vec![1i64]);
        add.call((&array, 4)).unwrap();
        assert_eq!(array.len(), 1);
        assert!(
            message(add.call((vec!["x"], 4))).ends_with("expected List[int], but in element 0: expected int, got str")
        );
    }

    #[test]
    fn changes() {
        let list = List::from([1i64, 2, 3, 4]);
        list.insert(4, 5).unwrap();
        list.insert(0, 0).unwrap();
        list.replace_range(1..=2, [7]).unwrap();
        assert_eq!(list.to_vec().unwrap(), [0, 7, 3, 4, 5]);
        list.replace_range(3.., []).unwrap();
        assert_eq!((list.remove(1).unwrap(), list.to_vec().unwrap()), (7, vec![0, 3]));
        list.extend([8, 9]);
        list.reverse();
        list.truncate(3);
        assert_eq!(list.to_vec().unwrap(), [9, 8, 3]);
        assert!(list.contains(&8).unwrap() && !list.contains(&8.0).unwrap());
        list.clear();
        assert_eq!((list.is_empty(), list.pop().unwrap()), (true, None));
        assert_eq!(message(list.set(0, 1)), "IndexError: there is no element 0 in a list of 0");
        assert_eq!(message(list.insert(1, 1)), "IndexError: there is no range 1..1 in a list of 0");
        assert_eq!(
            message(list.remove(usize::MAX)),
            format!("IndexError: there is no element {} in a list of 0", usize::MAX)
        );
        assert_eq!(message(list.replace_range(9..9, [])), "IndexError: there is no range 9..9 in a list of 0");
        assert_eq!(message(list.replace_range(2.., [1])), "IndexError: there is no range 2.. in a list of 0");
    }

    #[test]
    fn other_code_puts_anything_into_it() {
        let list: List<i64> = List::from([1]);
        let anything: List<Any> = list.clone().into_any().to().unwrap();
        anything.push("two".into_any());
        assert_eq!(message(list.get(1)), "TypeError: element 1: expected int, got str");
        assert_eq!(message(list.to_vec()), "TypeError: element 1: expected int, got str");
        assert_eq!(message(list.pop()), "TypeError: element 1: expected int, got str");
        assert_eq!((list.len(), list.get(0).unwrap(), list.iter().filter(Result::is_err).count()), (2, Some(1), 1));
        assert_eq!(anything.pop().unwrap().unwrap().to::<String>().unwrap(), "two");
        anything.push(anything.clone().into_any());
        assert_eq!(format!("{anything:?}"), "[1, <List>]");
        anything.clear();
    }

    /// Changes the list that contains it when it is dropped.
    struct Last(List<Any>);

    impl Drop for Last {
        fn drop(&mut self) {
            self.0.push(self.0.len().into_any());
        }
    }

    #[test]
    fn destructors_may_use_the_list() {
        let list = List::<Any>::new();
        let element = || {
            let last = Last(list.clone());
            Function::from_fn(move || last.0.len()).into_any()
        };
        for change in [
            |list: &List<Any>| list.clear(),
            |list: &List<Any>| list.set(0, Any::NONE).unwrap(),
            |list: &List<Any>| drop(list.pop().unwrap()),
            |list: &List<Any>| list.assign([]),
            |list: &List<Any>| list.truncate(0),
            |list: &List<Any>| list.replace_range(.., []).unwrap(),
        ] {
            list.push(element());
            change(&list);
            assert!(list.pop().unwrap().is_some(), "the destructor added a number");
            list.clear();
        }
        assert!(list.insert(9, element()).is_err());
        assert_eq!(list.len(), 1);
    }
}
