//! Detection of cycles: objects that contain themselves have no structure that could be compared or
//! hashed. A walk checks for them only when it is deep; until then a long chain and a cycle are
//! indistinguishable.

use crate::{Result, bail};

/// The depth at which a walk next checks for a cycle.
pub(crate) struct CycleCheck {
    next: usize,
}

impl CycleCheck {
    pub(crate) const fn new() -> Self {
        Self { next: 1 << 17 }
    }

    /// Returns true if the check is due.
    #[inline]
    pub(crate) const fn is_due(&self, depth: usize) -> bool {
        depth >= self.next
    }

    /// An error when the walk is at the same place twice; the places are addresses.
    #[cold]
    pub(crate) fn run(&mut self, operation: &str, places: impl Iterator<Item = (usize, usize)>) -> Result<()> {
        let mut places: Vec<_> = places.collect();
        self.next = places.len() * 2;
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0] == pair[1]) {
            bail!(ValueError, "{operation}: cyclic reference detected");
        }
        Ok(())
    }
}
