//! Structural hashes of containers and tensors that are parts of several objects.
//!
//! A graph with shared parts has as many paths as a tree of exponential size. A container is hashed
//! once, unless its hash may have changed since: the hash of a map one of whose keys was not hashed
//! yet, of a list or tensor that a hook may have changed, and of any value that contains them.

use crate::abi::TVMFFIObject;
use crate::embedded;
use crate::walker::address_map::AddressMap;
use crate::walker::field_value::Read;
use crate::walker::held_objects::HeldObjects;

/// The time at which the hash of a container was begun, and the events that invalidate it.
#[derive(Clone, Copy)]
pub(super) struct Since {
    time: Time,
    /// Hooks may change a list, dict or tensor in it.
    pub(super) may_be_changed: bool,
    /// An object that is a key of a map in it had no hash.
    pub(super) lacks_keys: bool,
}

/// Counters of the events so far.
#[derive(Clone, Copy, Default)]
struct Time {
    /// Objects that were hashed.
    objects: u64,
    /// Hooks that have run.
    hooks: u64,
}

impl Since {
    /// Returns true if the hash is still valid.
    const fn is_valid(self, now: Time) -> bool {
        (!self.may_be_changed || self.time.hooks == now.hooks) && (!self.lacks_keys || self.time.objects == now.objects)
    }
}

/// Hashes by address.
#[derive(Default)]
pub(super) struct ContainerHashes {
    /// The index of the hash.
    indices: AddressMap,
    hashes: Vec<(u64, Since)>,
    /// Keeps the containers alive.
    held: HeldObjects,
    time: Time,
}

impl ContainerHashes {
    pub(super) const fn now(&self) -> Since {
        Since { time: self.time, may_be_changed: false, lacks_keys: false }
    }

    /// The hash of a container, if it is still valid, and the events that invalidate it.
    #[inline]
    pub(super) fn get(&self, container: *mut TVMFFIObject) -> Option<(u64, Since)> {
        let (hash, since) = self.hashes[self.indices.get(container)? as usize];
        since.is_valid(self.time).then_some((hash, since))
    }

    /// Records a hash, if the container can occur again: it has another reference than the one
    /// through which it was reached.
    ///
    /// # Safety
    /// The container is alive, and kept alive by the object that it was read from or by a reference
    /// of the caller.
    pub(super) unsafe fn note(&mut self, part: Read, hash: u64, since: Since) {
        // SAFETY: promised by the caller.
        unsafe {
            let container = part.value.payload.v_obj;
            let is_shared = embedded::strong_count(container) > 1 + u32::from(part.owned);
            if !is_shared || !since.is_valid(self.time) {
                return;
            }
            match self.indices.get(container) {
                Some(index) => self.hashes[index as usize] = (hash, since),
                None => {
                    if part.owned {
                        // A getter created it: nothing that the operation knows keeps it alive.
                        self.before_hook();
                    }
                    self.held.keep(Read { owned: false, ..part });
                    self.indices.insert(container, self.hashes.len() as u64);
                    self.hashes.push((hash, since));
                }
            }
        }
    }

    /// Counts an object that has a hash from now on: the hash of a map that has it as a key
    /// changes.
    #[inline]
    pub(super) const fn object_is_done(&mut self) {
        self.time.objects += 1;
    }

    /// Counts a hook, which may have changed lists, dicts and tensors.
    #[inline]
    pub(super) const fn hook_has_run(&mut self) {
        self.time.hooks += 1;
    }

    /// Called before the first hook runs: takes references to all containers, which were kept alive
    /// by their parents so far.
    ///
    /// # Safety
    /// No hook has run since the first container was noted, or this was called before it.
    pub(super) unsafe fn before_hook(&mut self) {
        // SAFETY: promised by the caller: the containers are alive.
        unsafe { self.held.before_hook(self.indices.iter().map(|(container, _)| container)) };
    }
}
