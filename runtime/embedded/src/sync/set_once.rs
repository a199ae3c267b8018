//! A value that is set once.

use core::ptr::null_mut;

use super::atomic::{AtomicPtr, Ordering};

/// A value that the first thread to set it determines, and that stays for the life of the process.
/// No thread waits for another, so it needs less code than a `OnceLock`.
pub struct SetOnce<T: Sync + 'static> {
    value: AtomicPtr<T>,
}

impl<T: Sync + 'static> SetOnce<T> {
    /// Creates it without a value.
    pub const fn new() -> Self {
        Self { value: AtomicPtr::new(null_mut()) }
    }

    /// The value, once it is set.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: NULL, or the value passed to `set`, which lives forever and was written before
        // the pointer.
        unsafe { self.value.load(Ordering::Acquire).as_ref() }
    }

    /// Sets the value; returns false if it is already set, and keeps the old value.
    #[inline]
    pub fn set(&self, value: &'static T) -> bool {
        let value = core::ptr::from_ref(value).cast_mut();
        self.value.compare_exchange(null_mut(), value, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl<T: Sync + 'static> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_threads_sets_the_value() {
        static VALUES: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
        static PLACE: SetOnce<usize> = SetOnce::new();
        assert!(PLACE.get().is_none());
        let threads = VALUES.iter().map(|value| std::thread::spawn(move || (PLACE.set(value), PLACE.get())));
        let seen: Vec<_> = threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(seen.iter().filter(|(is_first, _)| *is_first).count(), 1);
        assert!(seen.iter().all(|(_, value)| *value == PLACE.get()));
    }
}
