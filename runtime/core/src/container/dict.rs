use core::fmt;
use core::marker::PhantomData;

use super::map::{Checked, convert};
use crate::abi::{TVMFFIAny, type_index};
use crate::embedded::failure::Failure;
use crate::embedded::map::shared;
use crate::embedded::{self, map};
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{Any, Arg, FromAny, IntoAny, Mismatch, Schema, Shown, ToArg, TypeSchema, entries, raw_handle};
use crate::{AnyView, Result};

/// A mutable map, shared with every language: `tvm_ffi.Dict` in Python, `tvm::ffi::Dict` in C++.
///
/// A `Dict` is a handle. Its clones, the fields and arguments that hold it, and the handles of
/// other languages all refer to the same dict, and all of them see a change. For an immutable map
/// use [`Map`](super::Map), for one that only Rust code uses a `HashMap`.
///
/// As for a [`List`](super::List), each method is one atomic step, and methods that read entries
/// return a [`Result`]. Keys are compared as those of a [`Map`](super::Map): texts by content,
/// numbers by type and value, objects by identity or by the equality of their type. If a key type
/// has its own hash and equality functions, each step takes time proportional to the number of
/// entries.
///
/// ```
/// use kernpack::Dict;
/// let ages: Dict<String, i64> = [("Ada".to_owned(), 36)].into_iter().collect();
/// let same = ages.clone();
/// same.insert("Alan".to_owned(), 41)?;
/// assert_eq!((ages.get("Alan")?, ages.len()), (Some(41), 2));
/// assert_eq!(ages.remove("Ada")?, Some(36));
/// assert_eq!(ages.at("Ada").unwrap_err().to_string(), "KeyError: Ada");
/// # Ok::<(), kernpack::Error>(())
/// ```
#[repr(transparent)]
pub struct Dict<K, V> {
    object: ObjRef<ObjectRoot>,
    entries: PhantomData<fn() -> (K, V)>,
}

raw_handle!(ObjRef: K V => Dict<K, V>, "`ffi.Dict`", entries: PhantomData);

/// Creates a dict from owned entries.
#[inline]
fn dict_of(entries: Vec<(TVMFFIAny, TVMFFIAny)>) -> core::result::Result<ObjRef<ObjectRoot>, Failure> {
    // SAFETY: a new object, whose one reference is this one.
    map::new_dict(entries).map(|object| unsafe { ObjRef::from_raw(object) })
}

// SAFETY of the methods: the object is a dict and lives as long as `self`; values that are passed
// on are owned, and views are valid for the call.

impl<K, V> Dict<K, V> {
    /// Creates an empty dict.
    #[must_use]
    pub fn new() -> Self {
        match dict_of(Vec::new()) {
            Ok(object) => Self { object, entries: PhantomData },
            Err(failure) => panic!("an empty dict has no keys to hash: {}", failure.message()),
        }
    }

    /// Number of entries at this moment.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: see above.
        unsafe { shared::len(self.as_ptr()) }
    }

    /// Returns true if there are no entries at this moment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether both handles refer to one dict.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.as_ptr() == other.as_ptr()
    }

    /// Removes all entries.
    pub fn clear(&self) {
        // SAFETY: see above.
        unsafe { shared::clear(self.as_ptr()) }
    }

    /// Returns whether there is an entry with this key.
    ///
    /// # Errors
    /// Returns the error of the key's own hash or equality function.
    pub fn contains_key<Q: ToArg + ?Sized>(&self, key: &Q) -> Result<bool> {
        Ok(self.raw(key)?.is_some())
    }

    fn raw<Q: ToArg + ?Sized>(&self, key: &Q) -> Result<Option<Any>> {
        let key = key.to_arg();
        // SAFETY: see above; the value is owned.
        unsafe {
            let value = shared::get(self.as_ptr(), &key.as_raw())?;
            Ok(value.map(|value| Any::from_raw(value)))
        }
    }
}

impl<K: IntoAny, V: IntoAny> Dict<K, V> {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// Returns the error of the key's own hash or equality function; the dict is then unchanged.
    pub fn insert(&self, key: K, value: V) -> Result<()> {
        let (key, value) = (key.into_any().into_raw(), value.into_any().into_raw());
        // SAFETY: see above.
        unsafe { shared::set(self.as_ptr(), key, value)? };
        Ok(())
    }

    /// Sets the values of several keys, one after the other.
    ///
    /// # Errors
    /// As for [`Dict::insert`]; the entries before the failed one have been set.
    pub fn extend(&self, entries: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        entries.into_iter().try_for_each(|(key, value)| self.insert(key, value))
    }
}

/// Converts a value; `what` describes it in the error if it does not convert.
fn converted<T: for<'a> FromAny<'a>>(value: &Any, what: impl FnOnce() -> String) -> Result<T> {
    let view = value.as_view();
    T::from_any(view).map_err(|mismatch| mismatch.into_error(&format!("{}: ", what()), &T::TYPE, view))
}

/// Formats a key for errors.
fn shown<Q: ToArg + ?Sized>(key: &Q) -> String {
    let key = key.to_arg();
    // SAFETY: the argument keeps the view's target alive.
    format!("{:?}", unsafe { AnyView::from_raw(key.as_raw()) })
}

impl<K, V: for<'a> FromAny<'a>> Dict<K, V> {
    /// Returns the value of a key; `None` if the key is not in the dict.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError if the value does not convert to `V`, or the error of the
    /// key's own hash or equality function.
    pub fn get<Q: ToArg + ?Sized>(&self, key: &Q) -> Result<Option<V>> {
        let Some(value) = self.raw(key)? else { return Ok(None) };
        converted(&value, || format!("the value of {}", shown(key))).map(Some)
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// Returns a KeyError if the key is not in the dict. Other errors as for [`Dict::get`].
    pub fn at<Q: ToArg + ?Sized>(&self, key: &Q) -> Result<V> {
        self.get(key)?.ok_or_else(|| {
            let key = key.to_arg();
            // SAFETY: the argument keeps the view's target alive.
            let view = unsafe { AnyView::from_raw(key.as_raw()) };
            // A string without quotes, which Python adds.
            let text = <&str>::from_any(&view).map_or_else(|_| format!("{view:?}"), str::to_owned);
            crate::error!(KeyError, "{text}")
        })
    }

    /// Removes the entry of a key. Returns its value, or `None` if the key is not in the dict.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError if the value does not convert to `V`; the entry then
    /// stays. Returns the error of the key's own hash or equality function.
    pub fn remove<Q: ToArg + ?Sized>(&self, key: &Q) -> Result<Option<V>> {
        let raw = key.to_arg();
        loop {
            // Converted before it is removed, so that a value that does not convert stays.
            let Some(value) = self.raw(key)? else { return Ok(None) };
            let converted = converted(&value, || format!("the value of {}", shown(key)))?;
            // SAFETY: see above; this code owns a reference to the value. Another thread may have
            // replaced it.
            if unsafe { shared::erase_expected(self.as_ptr(), &raw.as_raw(), value.as_raw())? } {
                return Ok(Some(converted));
            }
        }
    }
}

impl<K: for<'a> FromAny<'a>, V: for<'a> FromAny<'a>> Dict<K, V> {
    /// Returns a snapshot of the entries in the order in which they were added. (In a dict that has
    /// had more than four, setting an existing key counts as adding it again.)
    ///
    /// # Errors
    /// Returns a TypeError or ValueError if a key does not convert to `K`, or a value to `V`.
    pub fn entries(&self) -> Result<Vec<(K, V)>> {
        self.iter().collect()
    }

    /// Like [`Dict::entries`], without the values.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError if a key does not convert to `K`.
    pub fn keys(&self) -> Result<Vec<K>> {
        self.owned_entries().map(|(key, _)| converted(&key, || format!("key {key:?}"))).collect()
    }

    /// Like [`Dict::entries`], without the keys.
    ///
    /// # Errors
    /// Returns a TypeError or ValueError if a value does not convert to `V`.
    pub fn values(&self) -> Result<Vec<V>> {
        self.owned_entries().map(|(key, value)| converted(&value, || format!("the value of {key:?}"))).collect()
    }

    /// Iterates over a snapshot of the entries, in order. The loop may change the dict.
    pub fn iter(&self) -> impl Iterator<Item = Result<(K, V)>> + use<K, V> {
        self.owned_entries().map(|(key, value)| {
            let converted_key = converted(&key, || format!("key {key:?}"))?;
            Ok((converted_key, converted(&value, || format!("the value of {key:?}"))?))
        })
    }

    fn owned_entries(&self) -> impl Iterator<Item = (Any, Any)> + use<K, V> {
        // SAFETY: see above.
        let raw = unsafe { shared::contents(self.as_ptr()) }.into_owned();
        // SAFETY: the values are owned, and each goes to one `Any`.
        let values: Vec<Any> = raw.into_iter().map(|value| unsafe { Any::from_raw(value) }).collect();
        let mut values = values.into_iter();
        core::iter::from_fn(move || Some((values.next()?, values.next()?)))
    }
}

impl<K: for<'a> FromAny<'a>, V: for<'a> FromAny<'a>> IntoIterator for &Dict<K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = std::vec::IntoIter<Result<(K, V)>>;

    /// Like [`Dict::iter`].
    fn into_iter(self) -> Self::IntoIter {
        self.iter().collect::<Vec<_>>().into_iter()
    }
}

impl<K, V> Default for Dict<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: IntoAny, V: IntoAny> FromIterator<(K, V)> for Dict<K, V> {
    /// # Panics
    /// Panics if the type of a key has its own hash function and that raises an error.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into_any().into_raw(), value.into_any().into_raw()));
        match dict_of(entries.collect()) {
            Ok(object) => Self { object, entries: PhantomData },
            Err(failure) => panic!("a key cannot be hashed: {}", failure.message()),
        }
    }
}

impl<K: IntoAny, V: IntoAny, const N: usize> From<[(K, V); N]> for Dict<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

/// Creates a second handle of the same dict.
impl<K, V> Clone for Dict<K, V> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), entries: PhantomData }
    }
}

/// Formats a snapshot of the entries, without their nested contents.
impl<K, V> fmt::Debug for Dict<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: see above. The values are owned by the contents.
        let entries = unsafe { shared::contents(self.as_ptr()) };
        // SAFETY: as above.
        let view = |value: &TVMFFIAny| unsafe { AnyView::from_raw(*value) };
        f.debug_map().entries(entries.as_chunks().0.iter().map(|[key, value]| (view(key), view(value)))).finish()
    }
}

impl<K: Schema, V: Schema> Schema for Dict<K, V> {
    const TYPE: TypeSchema = TypeSchema { key: "ffi.Dict", args: &[K::TYPE, V::TYPE] };
    const STORAGE: crate::value::Storage = crate::value::Storage::Object;

    unsafe fn is_set(place: *const core::ffi::c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const core::ffi::c_void>().read().is_null() }
    }
}

impl<'a, K: for<'b> FromAny<'b>, V: for<'b> FromAny<'b>> FromAny<'a> for Dict<K, V> {
    /// Creates a second handle of a dict whose entries all convert at this moment. A map, which
    /// cannot change, is copied to a new dict.
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        let found = entries(value)?;
        convert::<K, V, Checked<Self>>(&found)?;
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the object is a map or dict, kept alive by the view; the reference is this one.
        if unsafe { (*object).type_index } == type_index::DICT {
            // SAFETY: as above.
            return unsafe {
                embedded::inc_ref(object);
                Ok(Self::from_raw(object))
            };
        }
        let owned = found.into_owned();
        let object = dict_of(owned.as_chunks().0.iter().map(|[key, value]| (*key, *value)).collect())
            .map_err(|failure| Mismatch::value(format!("a key cannot be hashed: {}", failure.message())))?;
        Ok(Self { object, entries: PhantomData })
    }
}

impl<K: Schema, V: Schema> IntoAny for Dict<K, V> {
    fn into_any(self) -> Any {
        self.object.into_any()
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Lent(self.to_arg())
    }
}

impl<K, V> ToArg for Dict<K, V> {
    fn to_arg(&self) -> Arg<'_> {
        self.object.to_arg()
    }
}

impl<K: Schema, V: Schema> From<Dict<K, V>> for Any {
    fn from(dict: Dict<K, V>) -> Self {
        dict.into_any()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Function, Map};

    fn message<T: fmt::Debug>(outcome: Result<T>) -> String {
        outcome.unwrap_err().to_string()
    }

    #[test]
    fn one_dict_with_many_handles() {
        let dict = Dict::from([("a".to_owned(), 1i64)]);
        let same: Dict<String, i64> = dict.clone().into_any().to().unwrap();
        assert!(same.is_same(&dict) && !same.is_same(&Dict::new()));
        let put = Function::from_fn(|dict: Dict<String, i64>, key: String| dict.insert(key, 7));
        put.call((&dict, "b")).unwrap();
        assert_eq!(same.entries().unwrap(), [("a".to_owned(), 1), ("b".to_owned(), 7)]);
        assert_eq!(format!("{same:?}"), "{\"a\": 1, \"b\": 7}");
        let map: Map<String, i64> = [("a".to_owned(), 1)].into_iter().collect();
        put.call((&map, "b")).unwrap();
        assert_eq!(map.len(), 1, "a map is copied");
        let wrong: Dict<i64, i64> = Dict::from([(1, 1)]);
        assert!(message(put.call((&wrong, "b"))).ends_with("but in key 1: expected str, got int"));
    }

    #[test]
    fn changes() {
        let dict = Dict::<i64, String>::new();
        dict.extend((0..9).map(|number| (number, number.to_string()))).unwrap();
        dict.insert(3, "three".to_owned()).unwrap();
        assert_eq!((dict.len(), dict.at(&3).unwrap().as_str(), dict.get(&10).unwrap()), (9, "three", None));
        for entry in &dict {
            let (key, value) = entry.unwrap();
            assert_eq!(dict.remove(&key).unwrap(), Some(value));
        }
        assert_eq!((dict.is_empty(), dict.remove(&1).unwrap()), (true, None));
        assert_eq!(message(dict.at(&1)), "KeyError: 1");
        assert!(!dict.contains_key("1").unwrap());
    }

    #[test]
    fn other_code_puts_anything_into_it() {
        let dict = Dict::from([("a".to_owned(), 1i64)]);
        let anything: Dict<Any, Any> = dict.clone().into_any().to().unwrap();
        anything.insert("b".into_any(), "text".into_any()).unwrap();
        anything.insert(5.into_any(), 6.into_any()).unwrap();
        assert_eq!(message(dict.get("b")), "TypeError: the value of \"b\": expected int, got str");
        assert_eq!(message(dict.remove("b")), "TypeError: the value of \"b\": expected int, got str");
        assert_eq!(message(dict.keys()), "TypeError: key 5: expected str, got int");
        assert_eq!(message(dict.values()), "TypeError: the value of \"b\": expected int, got str");
        assert_eq!((dict.len(), dict.iter().filter(Result::is_ok).count()), (3, 1));
        dict.clear();
        assert_eq!(dict.entries().unwrap(), []);
    }

    #[test]
    fn destructors_may_use_the_dict() {
        struct Last(Dict<i64, Any>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.insert(1, Any::NONE).unwrap();
            }
        }
        let dict = Dict::<i64, Any>::new();
        for change in [
            |dict: &Dict<i64, Any>| dict.clear(),
            |dict: &Dict<i64, Any>| dict.insert(0, Any::NONE).unwrap(),
            |dict: &Dict<i64, Any>| drop(dict.remove(&0).unwrap()),
        ] {
            let last = Last(dict.clone());
            dict.insert(0, Function::from_fn(move || last.0.len()).into_any()).unwrap();
            change(&dict);
            assert!(dict.contains_key(&1).unwrap());
            dict.clear();
        }
    }
}
