use kernpack::{Any, Error, Result, error};

/// A value that a client may refer to by a handle.
pub(super) struct Entry {
    /// The object.
    pub(super) value: Any,
    /// The name of a function, for messages.
    pub(super) name: String,
    /// The address of a tensor's memory, among the session's addresses.
    pub(super) memory: Option<u64>,
}

#[cfg(test)]
impl Entry {
    /// Creates an entry without a name.
    pub(super) fn new(value: Any) -> Self {
        Self { value, name: String::new(), memory: None }
    }
}

/// The objects that a client has handles of. A handle is an index in the table and a generation
/// number, so a freed handle is never mistaken for a later one; it is not an address.
pub(super) struct Handles {
    slots: Vec<Slot>,
    free: Vec<u32>,
    limit: usize,
}

struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

impl Handles {
    /// Creates a table for at most `limit` objects.
    pub(super) fn new(limit: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), limit: limit.min(u32::MAX as usize) }
    }

    /// The number of handles in use.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Allocates a handle for an object. Never 0.
    pub(super) fn insert(&mut self, entry: Entry) -> Result<u64> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.limit => {
                self.slots.push(Slot { generation: 0, entry: None });
                (self.slots.len() - 1) as u32
            }
            None => {
                return Err(error!(
                    MemoryError,
                    "the session has {} open handles, its limit; free functions, modules and tensors that are not needed, or start \
                     the server with a larger `--handles`",
                    self.len()
                ));
            }
        };
        let slot = &mut self.slots[index as usize];
        // Odd while in use.
        slot.generation = slot.generation.wrapping_add(1);
        slot.entry = Some(entry);
        Ok(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// The entry of a handle.
    pub(super) fn get(&self, handle: u64) -> Result<&Entry> {
        let slot = self.slots.get(handle as u32 as usize).filter(|slot| u64::from(slot.generation) == handle >> 32);
        slot.and_then(|slot| slot.entry.as_ref()).ok_or_else(|| unknown(handle))
    }

    /// Removes an entry; its handle is invalid from now on.
    pub(super) fn remove(&mut self, handle: u64) -> Result<Entry> {
        self.get(handle)?;
        let slot = &mut self.slots[handle as u32 as usize];
        let entry = slot.entry.take().ok_or_else(|| unknown(handle))?;
        slot.generation = slot.generation.wrapping_add(1);
        // A slot whose generation numbers are used up is not reused.
        if slot.generation < u32::MAX - 1 {
            self.free.push(handle as u32);
        }
        Ok(entry)
    }
}

#[cold]
fn unknown(handle: u64) -> Error {
    error!(ValueError, "handle {handle:#x} was not given out by this session, or was freed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_handles_are_not_taken_for_later_ones() {
        let mut handles = Handles::new(2);
        let first = handles.insert(Entry::new(Any::from(1i64))).unwrap();
        assert_ne!(first, 0);
        assert_eq!(handles.remove(first).unwrap().value.to::<i64>().unwrap(), 1);
        let second = handles.insert(Entry::new(Any::from(2i64))).unwrap();
        assert_eq!(second as u32, first as u32);
        for stranger in [0, first, first ^ 1, u64::MAX, second + (1 << 32)] {
            assert!(handles.get(stranger).is_err(), "{stranger:#x}");
            assert!(handles.remove(stranger).is_err(), "{stranger:#x}");
        }
        handles.insert(Entry::new(Any::NONE)).unwrap();
        let error = handles.insert(Entry::new(Any::NONE)).unwrap_err();
        assert!(error.message().contains("2 open handles"), "{error}");
        assert_eq!(handles.len(), 2);
    }
}
