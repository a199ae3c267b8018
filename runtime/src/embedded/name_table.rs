//! Values by name: a sorted vector of hashes. For the names of a process about as fast as the standard hash table, a quarter of
//! its code, and no random numbers to ask the system for.

use super::type_hash::type_key_hash;

/// A table from names to values.
pub(super) struct NameTable<V> {
    /// The hashes of the names, in ascending order.
    hashes: Vec<u64>,
    /// Name and value behind each hash.
    entries: Vec<(Box<[u8]>, V)>,
}

impl<V> NameTable<V> {
    /// An empty table.
    pub(super) const fn new() -> Self {
        Self { hashes: Vec::new(), entries: Vec::new() }
    }

    /// Where a name is, or where it belongs.
    fn position(&self, name: &[u8], hash: u64) -> Result<usize, usize> {
        let start = self.hashes.partition_point(|known| *known < hash);
        let same_hash = self.hashes[start..].iter().take_while(|known| **known == hash).count();
        let found = self.entries[start..start + same_hash].iter().position(|entry| *entry.0 == *name);
        found.map(|offset| start + offset).ok_or(start)
    }

    fn insert_at(&mut self, position: usize, name: &[u8], hash: u64, value: V) {
        self.hashes.insert(position, hash);
        self.entries.insert(position, (name.into(), value));
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &[u8]) -> Option<&V> {
        let position = self.position(name, type_key_hash(name)).ok()?;
        self.entries.get(position).map(|entry| &entry.1)
    }

    /// The value of a name, to be changed; made by `new` when the name is new.
    pub(super) fn get_or_insert(&mut self, name: &[u8], new: impl FnOnce() -> V) -> &mut V {
        let hash = type_key_hash(name);
        let position = match self.position(name, hash) {
            Ok(position) => position,
            Err(position) => {
                self.insert_at(position, name, hash, new());
                position
            }
        };
        &mut self.entries[position].1
    }

    /// Sets the value of a name; gives the one before.
    pub(super) fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        let hash = type_key_hash(name);
        match self.position(name, hash) {
            Ok(position) => Some(core::mem::replace(&mut self.entries[position].1, value)),
            Err(position) => {
                self.insert_at(position, name, hash, value);
                None
            }
        }
    }

    /// Takes a name and its value out.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<V> {
        let position = self.position(name, type_key_hash(name)).ok()?;
        self.hashes.remove(position);
        Some(self.entries.remove(position).1)
    }

    /// All names and values, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.entries.iter().map(|(name, value)| (&**name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_replaced_and_removed() {
        let mut table = NameTable::new();
        for (name, value) in [("b", 1), ("a", 2), ("c", 3), ("a", 4)] {
            let before = table.insert(name.as_bytes(), value);
            assert_eq!(before, (value == 4).then_some(2));
        }
        assert_eq!(table.get(b"a"), Some(&4));
        assert_eq!(table.get(b"d"), None);
        *table.get_or_insert(b"d", || 5) += 1;
        assert_eq!(*table.get_or_insert(b"d", || 0), 6);
        assert_eq!((table.remove(b"b"), table.remove(b"b")), (Some(1), None));
        let mut all: Vec<_> = table.iter().map(|(name, value)| (name.to_vec(), *value)).collect();
        all.sort();
        assert_eq!(all, [(b"a".to_vec(), 4), (b"c".to_vec(), 3), (b"d".to_vec(), 6)]);
    }
}
