//! The class `HashTrieMap`.

use kernpack::python::Object as PyObject;
use kernpack::{Map, ObjRef, Object, Result, Str, error, object_methods};
use rpds::HashTrieMapSync;

use crate::key::{Key, missing};
use crate::views::{ItemsView, KeysView, ValuesView};

/// The entries of a map and of its views.
pub(crate) type Entries = HashTrieMapSync<Key, PyObject>;

/// A persistent map.
#[derive(Object)]
#[object(key = "rpds.HashTrieMap")]
#[repr(C)]
pub struct HashTrieMap {
    entries: Entries,
}

impl From<Entries> for HashTrieMap {
    fn from(entries: Entries) -> Self {
        Self { entries }
    }
}

/// Adds the entries of a mapping, or of an iterable of pairs.
fn add(entries: &mut Entries, source: &PyObject) -> Result<()> {
    if source.attribute_if_any("items")?.is_some() {
        for (key, value) in source.entries()? {
            entries.insert_mut(Key::new(key)?, value);
        }
        return Ok(());
    }
    for item in source.iterate()? {
        let (key, value): (PyObject, PyObject) = item?.to()?;
        entries.insert_mut(Key::new(key)?, value);
    }
    Ok(())
}

/// Adds the entries that were passed by name.
fn add_named(entries: &mut Entries, named: Map<Str, PyObject>) -> Result<()> {
    for (name, value) in &named {
        entries.insert_mut(Key::new(PyObject::new(name)?)?, value);
    }
    Ok(())
}

/// Returns the entries of a mapping or an iterable of pairs: those of a `HashTrieMap` are shared.
fn entries_of(source: &PyObject) -> Result<Entries> {
    if let Ok(map) = source.to::<ObjRef<HashTrieMap>>() {
        return Ok(map.entries.clone());
    }
    let mut entries = Entries::new_sync();
    add(&mut entries, source)?;
    Ok(entries)
}

#[object_methods]
impl HashTrieMap {
    /// The entries of a mapping, of an iterable of pairs, and those passed by name.
    #[init(signature = "(value=None, **kwds)")]
    pub fn new(value: Option<PyObject>, kwds: Map<Str, PyObject>) -> Result<Self> {
        let mut entries = value.map_or_else(|| Ok(Entries::new_sync()), |value| entries_of(&value))?;
        add_named(&mut entries, kwds)?;
        Ok(entries.into())
    }

    /// Returns the map itself, or a new one with the entries of another mapping.
    #[method(signature = "(value, /)")]
    pub fn convert(value: &PyObject) -> Result<ObjRef<Self>> {
        value.to::<ObjRef<Self>>().or_else(|_| Ok(ObjRef::new(entries_of(value)?.into())))
    }

    /// Returns a map with one value for all keys.
    #[method(class, signature = "(keys, val=None, /)")]
    pub fn fromkeys(keys: &PyObject, val: Option<PyObject>) -> Result<Self> {
        let value = val.map_or_else(PyObject::none, Ok)?;
        let mut entries = Entries::new_sync();
        for key in keys.iterate()? {
            entries.insert_mut(Key::new(key?)?, value.clone());
        }
        Ok(entries.into())
    }

    #[method(name = "__getitem__")]
    fn item(&self, key: PyObject) -> Result<PyObject> {
        let key = Key::new(key)?;
        self.entries.get(&key).cloned().ok_or_else(|| missing(&key.object))
    }

    /// Returns the value of a key, or the default.
    #[method(signature = "(key, default=None)")]
    pub fn get(&self, key: PyObject, default: Option<PyObject>) -> Result<Option<PyObject>> {
        Ok(self.entries.get(&Key::new(key)?).cloned().or(default))
    }

    #[method(name = "__contains__")]
    fn contains(&self, key: PyObject) -> Result<bool> {
        Ok(self.entries.contains_key(&Key::new(key)?))
    }

    #[method(name = "__len__")]
    fn length(&self) -> usize {
        self.entries.size()
    }

    #[method(name = "__iter__")]
    fn iter(&self) -> Vec<PyObject> {
        self.entries.keys().map(|key| key.object.clone()).collect()
    }

    /// Returns the map with one more entry.
    #[method(signature = "(key, value, /)")]
    pub fn insert(&self, key: PyObject, value: PyObject) -> Result<Self> {
        Ok(self.entries.insert(Key::new(key)?, value).into())
    }

    /// Returns the map without a key, which it must have.
    #[method(signature = "(key, /)")]
    pub fn remove(&self, key: PyObject) -> Result<Self> {
        let key = Key::new(key)?;
        let mut entries = self.entries.clone();
        if entries.remove_mut(&key) { Ok(entries.into()) } else { Err(missing(&key.object)) }
    }

    /// Returns the map without a key.
    #[method(signature = "(key, /)")]
    pub fn discard(&self, key: PyObject) -> Result<Self> {
        Ok(self.entries.remove(&Key::new(key)?).into())
    }

    /// Returns the map with the entries of mappings and iterables of pairs, and those passed by
    /// name.
    #[method(signature = "(*maps, **kwds)")]
    pub fn update(&self, maps: Vec<PyObject>, kwds: Map<Str, PyObject>) -> Result<Self> {
        let mut entries = self.entries.clone();
        for map in &maps {
            add(&mut entries, map)?;
        }
        add_named(&mut entries, kwds)?;
        Ok(entries.into())
    }

    /// Returns a view of the keys.
    pub fn keys(&self) -> KeysView {
        self.entries.clone().into()
    }

    /// Returns a view of the values.
    pub fn values(&self) -> ValuesView {
        self.entries.clone().into()
    }

    /// Returns a view of the entries.
    pub fn items(&self) -> ItemsView {
        self.entries.clone().into()
    }

    #[operator(eq)]
    fn equal(&self, other: &Self) -> Result<bool> {
        if self.entries.size() != other.entries.size() {
            return Ok(false);
        }
        for (key, value) in self.entries.iter() {
            match other.entries.get(key) {
                Some(found) if value.equals(found)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Does not depend on the order of the entries.
    #[operator(hash)]
    fn hash(&self) -> Result<u64> {
        let mut sum = self.entries.size() as u64;
        for (key, value) in self.entries.iter() {
            let value = value.hash_value().map_err(|cause| {
                error!(TypeError, "Unhashable type in HashTrieMap of key {:?}", key.object).caused_by(cause)
            })?;
            sum = sum.wrapping_add(key.hash_with(value));
        }
        Ok(sum)
    }

    #[operator(repr)]
    fn repr(&self) -> Result<String> {
        let texts: Result<Vec<String>> =
            self.entries.iter().map(|(key, value)| Ok(format!("{}: {}", key.object.repr()?, value.repr()?))).collect();
        Ok(format!("HashTrieMap({{{}}})", texts?.join(", ")))
    }

    #[method(name = "__getnewargs__")]
    fn arguments(&self) -> (Vec<(PyObject, PyObject)>,) {
        (self.entries.iter().map(|(key, value)| (key.object.clone(), value.clone())).collect(),)
    }
}
