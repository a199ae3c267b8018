//! Values by name. A sorted vector: for the hundreds of names of a process as fast as a hash table, a quarter of its code, and
//! no random numbers to ask the system for.

/// A table from names to values.
pub(super) struct NameTable<V> {
    entries: Vec<(Box<[u8]>, V)>,
}

impl<V> NameTable<V> {
    /// An empty table.
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    fn position(&self, name: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| (*entry.0).cmp(name))
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &[u8]) -> Option<&V> {
        let position = self.position(name).ok()?;
        self.entries.get(position).map(|entry| &entry.1)
    }

    /// The value of a name, to be changed; made by `new` when the name is new.
    pub(super) fn get_or_insert(&mut self, name: &[u8], new: impl FnOnce() -> V) -> &mut V {
        let position = match self.position(name) {
            Ok(position) => position,
            Err(position) => {
                self.entries.insert(position, (name.into(), new()));
                position
            }
        };
        &mut self.entries[position].1
    }

    /// Sets the value of a name; gives the one before.
    pub(super) fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        match self.position(name) {
            Ok(position) => Some(core::mem::replace(&mut self.entries[position].1, value)),
            Err(position) => {
                self.entries.insert(position, (name.into(), value));
                None
            }
        }
    }

    /// Takes a name and its value out.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<V> {
        let position = self.position(name).ok()?;
        Some(self.entries.remove(position).1)
    }

    /// All names and values, by name.
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
        let all: Vec<_> = table.iter().map(|(name, value)| (name.to_vec(), *value)).collect();
        assert_eq!(all, [(b"a".to_vec(), 4), (b"c".to_vec(), 3), (b"d".to_vec(), 6)]);
    }
}
