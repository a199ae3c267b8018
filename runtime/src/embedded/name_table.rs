//! Values by name, in the order of insertion: a quarter of the code of the standard hash table for each type of value, and no
//! random numbers to ask the system for.

use super::type_hash::type_key_hash;

/// A table from names to values.
pub(super) struct NameTable<V> {
    names: Names,
    /// The value of each name.
    values: Vec<V>,
}

/// What is the same for all types of values.
struct Names {
    names: Vec<Box<[u8]>>,
    /// An open-addressing index of a power of two of slots, at least half of them free: 1 + position of a name, or 0.
    slots: Vec<u32>,
}

impl Names {
    fn position(&self, name: &[u8]) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = type_key_hash(name) as usize & mask;
        while let Some(position) = (self.slots[slot] as usize).checked_sub(1) {
            if *self.names[position] == *name {
                return Some(position);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    /// Adds a new name as the last one.
    #[inline(never)]
    fn push(&mut self, name: &[u8]) {
        self.names.push(name.into());
        if 2 * self.names.len() > self.slots.len() {
            self.index_all();
        } else {
            self.index(self.names.len() - 1);
        }
    }

    #[inline(never)]
    fn remove(&mut self, position: usize) {
        self.names.remove(position);
        self.index_all();
    }

    /// Enters a name into the index, which has room for it.
    fn index(&mut self, position: usize) {
        let mask = self.slots.len() - 1;
        let mut slot = type_key_hash(&self.names[position]) as usize & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = position as u32 + 1;
    }

    fn index_all(&mut self) {
        self.slots.clear();
        self.slots.resize((4 * self.names.len()).next_power_of_two(), 0);
        for position in 0..self.names.len() {
            self.index(position);
        }
    }
}

impl<V> NameTable<V> {
    /// An empty table.
    pub(super) const fn new() -> Self {
        Self { names: Names { names: Vec::new(), slots: Vec::new() }, values: Vec::new() }
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &[u8]) -> Option<&V> {
        self.names.position(name).map(|position| &self.values[position])
    }

    /// The value of a name, to be changed; made by `new` when the name is new.
    pub(super) fn get_or_insert(&mut self, name: &[u8], new: impl FnOnce() -> V) -> &mut V {
        let position = match self.names.position(name) {
            Some(position) => position,
            None => {
                self.values.push(new());
                self.names.push(name);
                self.values.len() - 1
            }
        };
        &mut self.values[position]
    }

    /// Adds a name as the last one; gives the value that it had before.
    pub(super) fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        let before = self.remove(name);
        self.values.push(value);
        self.names.push(name);
        before
    }

    /// Takes a name and its value out. Slow, because that is rare.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<V> {
        let position = self.names.position(name)?;
        self.names.remove(position);
        Some(self.values.remove(position))
    }

    /// All names, in the order of insertion.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.names.iter().map(|name| &**name)
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
        assert_eq!(table.names().collect::<Vec<_>>(), [b"c", b"a", b"d"]);
        assert_eq!(table.get(b"d"), Some(&6));
    }

    #[test]
    fn many_names_stay_apart() {
        let mut table = NameTable::new();
        let name = |number: usize| format!("name {number}");
        for number in 0..1000 {
            assert_eq!(table.insert(name(number).as_bytes(), number), None);
        }
        for number in (0..1000).step_by(3) {
            assert_eq!(table.remove(name(number).as_bytes()), Some(number));
        }
        for number in 0..1100 {
            let there = number < 1000 && number % 3 != 0;
            assert_eq!(table.get(name(number).as_bytes()), there.then_some(&number));
        }
        let left: Vec<_> = table.names().map(<[u8]>::to_vec).collect();
        assert_eq!(left.len(), 666);
        for name in left {
            assert!(table.remove(&name).is_some());
        }
        assert_eq!(table.get(b"name 1"), None);
    }
}
