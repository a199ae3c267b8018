//! Structural hashes of containers and tensors that are parts of several objects.
//!
//! A graph with shared parts has as many paths as a tree of exponential size. A container is hashed once, unless its hash may be
//! another one by now: that of a map whose key was not hashed yet, of a list or tensor that a hook may have changed, and of what
//! contains them.

use crate::abi::TVMFFIObject;
use crate::embedded;
use crate::walker::address_map::AddressMap;
use crate::walker::field_value::Read;
use crate::walker::held_objects::HeldObjects;

/// The time at which the hash of a container was begun, and what makes it another one.
#[derive(Clone, Copy)]
pub(super) struct Since {
    time: Time,
    /// Hooks may change a list, dict or tensor in it.
    pub(super) may_be_changed: bool,
    /// An object that is the key of a map in it had no hash.
    pub(super) lacks_keys: bool,
}

/// Numbers of what has happened so far.
#[derive(Clone, Copy, Default)]
struct Time {
    /// Objects that were hashed.
    objects: u64,
    /// Hooks that have run.
    hooks: u64,
}

impl Since {
    /// Tells whether the hash is still the same.
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

    /// The hash of a container if it is the same as before, and what makes it another one.
    #[inline]
    pub(super) fn get(&self, container: *mut TVMFFIObject) -> Option<(u64, Since)> {
        let (hash, since) = self.hashes[self.indices.get(container)? as usize];
        since.is_valid(self.time).then_some((hash, since))
    }

    /// Notes a hash, if the container can be met again: there is another reference than the one that led to it.
    ///
    /// # Safety
    /// The container is alive, and kept by what it was read from or by a reference that the caller has.
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
                        // A getter made it: nothing that the operation knows keeps it alive.
                        self.before_hook();
                    }
                    self.held.keep(Read { owned: false, ..part });
                    self.indices.insert(container, self.hashes.len() as u64);
                    self.hashes.push((hash, since));
                }
            }
        }
    }

    /// An object has a hash from now on: a map that has it as a key has another one.
    #[inline]
    pub(super) const fn object_is_done(&mut self) {
        self.time.objects += 1;
    }

    /// A hook may have changed lists, dicts and tensors.
    #[inline]
    pub(super) const fn hook_has_run(&mut self) {
        self.time.hooks += 1;
    }

    /// Before the first hook runs: keeps all containers, which what they were read from kept so far.
    ///
    /// # Safety
    /// No hook has run since the first container was noted, or this was called before it.
    pub(super) unsafe fn before_hook(&mut self) {
        // SAFETY: promised by the caller: the containers are alive.
        unsafe { self.held.before_hook(self.indices.iter().map(|(container, _)| container)) };
    }
}
