use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use std::collections::{BTreeMap, HashMap};

use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::embedded;
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{
    Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, Sequence, Shown, ToArg, TypeSchema, entries, raw_handle,
};

/// An immutable map from `K` to `V` in insertion order, shared with every language. Cloning
/// increments a reference count.
///
/// ```
/// use kernpack::{Map, Str};
/// let map: Map<String, i64> = [("a".to_owned(), 1), ("b".to_owned(), 2)].into_iter().collect();
/// assert_eq!(map.get("b"), Some(2));
/// assert_eq!(map.get("c"), None);
/// ```
#[repr(transparent)]
pub struct Map<K, V> {
    object: ObjRef<ObjectRoot>,
    entries: PhantomData<fn() -> (K, V)>,
}

raw_handle!(ObjRef: K V => Map<K, V>, "`ffi.Map` whose keys all convert to `K` and whose values all convert to `V`", entries: PhantomData);

/// Iterates over the entries of a map as views.
///
/// # Safety
/// `map` is a map that lives for `'a` and does not change during that time.
unsafe fn views<'a>(map: *mut TVMFFIObject) -> impl Iterator<Item = (AnyView<'a>, AnyView<'a>)> {
    // SAFETY: promised by the caller; owned entries are valid views.
    unsafe { embedded::map::iter(map).map(|(key, value)| (AnyView::from_raw(key), AnyView::from_raw(value))) }
}

/// Creates a map object that owns the entries.
///
/// # Panics
/// Panics if the type of a key has its own hash function (from Python or C++) and that raises an
/// error.
fn map_of(entries: impl Iterator<Item = (Any, Any)>) -> Any {
    try_map_of(entries).unwrap_or_else(|message| panic!("a key cannot be hashed: {message}"))
}

/// Like [`map_of`]; returns the error of a key's hash function.
fn try_map_of(entries: impl Iterator<Item = (Any, Any)>) -> Result<Any, String> {
    let entries: Vec<(TVMFFIAny, TVMFFIAny)> = entries.map(|(key, value)| (key.into_raw(), value.into_raw())).collect();
    // SAFETY: a new object; the value takes ownership of its one reference.
    match embedded::map::new_map(entries) {
        // SAFETY: a new map; the value takes ownership of its one reference.
        Ok(map) => Ok(unsafe { Any::from_object(map) }),
        Err(failure) => Err(failure.message()),
    }
}

pub(super) fn convert<K, V, C>(entries: &Sequence<'_>) -> Result<C, Mismatch>
where
    K: for<'b> FromAny<'b>,
    V: for<'b> FromAny<'b>,
    C: FromIterator<(K, V)> + Schema,
{
    let describe = |mismatch: Mismatch, place: String, of: TypeSchema, got: &AnyView<'_>| {
        mismatch.within([&place, &place], &C::TYPE, &of, got)
    };
    entries
        .views()
        .as_chunks()
        .0
        .iter()
        .map(|[key, value]| {
            let k = K::from_any(key).map_err(|mismatch| describe(mismatch, format!("in key {key:?}"), K::TYPE, key))?;
            let v = V::from_any(value)
                .map_err(|mismatch| describe(mismatch, format!("in the value of {key:?}"), V::TYPE, value))?;
            Ok((k, v))
        })
        .collect()
}

impl<K, V> Map<K, V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        // SAFETY: the object is a map and lives as long as `self`.
        unsafe { embedded::map::len(self.object.as_ptr()) }
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: for<'a> FromAny<'a>, V: for<'a> FromAny<'a>> Map<K, V> {
    /// Returns the value of `key`; `None` if the key is not in the map.
    ///
    /// # Panics
    /// As for [`Map::iter`].
    pub fn get<Q: ToArg + ?Sized>(&self, key: &Q) -> Option<V> {
        let key = key.to_arg();
        // SAFETY: the object is a map and lives as long as `self`; `key` is a valid view for the
        // call. Maps are only changed by their sole owner, and `self` holds a reference.
        unsafe {
            let value = embedded::map::get(self.object.as_ptr(), &key.as_raw()).ok().flatten()?;
            Some(converted(&AnyView::from_raw(value)))
        }
    }

    /// Iterates over the entries in insertion order.
    ///
    /// # Panics
    /// Panics if a key or value is a mutable list or dict that no longer converts, because other
    /// code changed it.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
        // SAFETY: as in `get`.
        unsafe { views(self.object.as_ptr()) }.map(|(key, value)| (converted(&key), converted(&value)))
    }
}

fn converted<T: for<'a> FromAny<'a>>(value: &AnyView<'_>) -> T {
    match T::from_any(value) {
        Ok(value) => value,
        // Every entry was checked when the map was created, but one that is a list may have changed
        // since.
        Err(mismatch) => panic!("an entry of the map has changed: {}", mismatch.describe(&T::TYPE, value)),
    }
}

impl<K: IntoAny, V: IntoAny> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let map = map_of(entries.into_iter().map(|(key, value)| (key.into_any(), value.into_any())));
        // SAFETY: `map_of` returns a map object; its reference becomes this one.
        Self { object: unsafe { ObjRef::from_raw(map.into_raw().payload.v_obj) }, entries: PhantomData }
    }
}

impl<K, V> Clone for Map<K, V> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), entries: PhantomData }
    }
}

impl<K: for<'a> FromAny<'a> + fmt::Debug, V: for<'a> FromAny<'a> + fmt::Debug> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Schema, V: Schema> Schema for Map<K, V> {
    const TYPE: TypeSchema = TypeSchema { key: "ffi.Map", args: &[K::TYPE, V::TYPE] };
    const STORAGE: crate::value::Storage = crate::value::Storage::Object;

    unsafe fn is_set(place: *const core::ffi::c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const core::ffi::c_void>().read().is_null() }
    }
}

/// Consumes the results of conversions without keeping them, to check whether all succeed.
pub(super) struct Checked<C>(PhantomData<fn() -> C>);

impl<C: Schema> Schema for Checked<C> {
    const TYPE: TypeSchema = C::TYPE;
}

impl<K, V, C> FromIterator<(K, V)> for Checked<C> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        entries.into_iter().for_each(drop);
        Self(PhantomData)
    }
}

impl<'a, K: for<'b> FromAny<'b>, V: for<'b> FromAny<'b>> FromAny<'a> for Map<K, V> {
    /// Checks every entry. A dict is copied, because it may change later.
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let entries = entries(value)?;
        convert::<K, V, Checked<Self>>(&entries)?;
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: `entries` checked that the object is a map or dict, and the view keeps it alive.
        // The copy takes ownership of the references to the checked entries.
        let object = unsafe {
            if (*object).type_index == type_index::MAP {
                embedded::inc_ref(object);
                object
            } else {
                let owned = entries.into_owned();
                let copies =
                    owned.as_chunks().0.iter().map(|[key, value]| (Any::from_raw(*key), Any::from_raw(*value)));
                let copy = try_map_of(copies)
                    .map_err(|message| Mismatch::value(format!("a key of the dict cannot be hashed: {message}")))?;
                copy.into_raw().payload.v_obj
            }
        };
        // SAFETY: the reference was created above.
        Ok(Self { object: unsafe { ObjRef::from_raw(object) }, entries: PhantomData })
    }
}

impl<K: Schema, V: Schema> IntoAny for Map<K, V> {
    fn into_any(self) -> Any {
        self.object.into_any()
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Lent(self.to_arg())
    }
}

impl<K, V> ToArg for Map<K, V> {
    fn to_arg(&self) -> Arg<'_> {
        self.object.to_arg()
    }
}

macro_rules! std_map {
    ($map:ident<$k:ident: $($bound:path),+; $v:ident $(; $hasher:ident)?>) => {
        impl<$k: Schema, $v: Schema $(, $hasher)?> Schema for $map<$k, $v $(, $hasher)?> {
            const TYPE: TypeSchema = TypeSchema { key: "ffi.Map", args: &[$k::TYPE, $v::TYPE] };
        }

        impl<'a, $k, $v $(, $hasher: BuildHasher + Default)?> FromAny<'a> for $map<$k, $v $(, $hasher)?>
        where
            $k: for<'b> FromAny<'b> $(+ $bound)+,
            $v: for<'b> FromAny<'b>,
        {
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                convert(&entries(value)?)
            }
        }

        impl<$k: IntoAny, $v: IntoAny $(, $hasher)?> IntoAny for $map<$k, $v $(, $hasher)?> {
            fn into_any(self) -> Any {
                map_of(self.into_iter().map(|(key, value)| (key.into_any(), value.into_any())))
            }
        }

        impl<$k: IntoAny + Clone, $v: IntoAny + Clone $(, $hasher)?> ToArg for $map<$k, $v $(, $hasher)?> {
            fn to_arg(&self) -> Arg<'_> {
                Arg::owned(map_of(self.iter().map(|(key, value)| (key.clone().into_any(), value.clone().into_any()))))
            }
        }
    };
}
std_map!(HashMap<K: Eq, Hash; V; S>);
std_map!(BTreeMap<K: Ord; V>);

/// Equal if both have the same entries in any order, like dictionaries in Python.
impl<K: for<'a> FromAny<'a> + ToArg, V: for<'a> FromAny<'a> + PartialEq> PartialEq for Map<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(&key) == Some(value))
    }
}

impl<K: IntoAny, V: IntoAny> Default for Map<K, V> {
    fn default() -> Self {
        core::iter::empty().collect()
    }
}

impl<K: Schema, V: Schema> From<Map<K, V>> for Any {
    fn from(map: Map<K, V>) -> Self {
        map.into_any()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Map, Shape, Str};

    #[test]
    fn equality_ignores_order() {
        let map = |entries: &[(&str, i64)]| entries.iter().map(|(k, v)| (Str::new(k), *v)).collect::<Map<Str, i64>>();
        assert_eq!(map(&[("a", 1), ("b", 2)]), map(&[("b", 2), ("a", 1)]));
        assert_ne!(map(&[("a", 1)]), map(&[("a", 2)]));
        assert_ne!(map(&[("a", 1)]), map(&[("a", 1), ("b", 2)]));
        assert_eq!(Map::default(), map(&[]));
        assert_eq!(Str::new("b"), "b");
        assert!(Str::new("a") < Str::new("b"));
        assert_eq!(String::from(Str::default()), "");
        assert_eq!(Shape::from(vec![2, 3]), [2, 3].into_iter().collect::<Shape>());
    }
}
