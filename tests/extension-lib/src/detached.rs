//! Functions that run without Python's lock: methods, constructors and setters, and functions with
//! borrowed bytes.

use std::time::Duration;

use kernpack::{Any, Function, ObjRef, Object, Result, object_methods, packed_func};

use crate::call_kept_on_a_thread;

/// An object whose functions wait for a thread that calls Python: the one that `keep` has kept.
#[derive(Object)]
#[object(key = "extmod.Waiter")]
#[repr(C)]
pub struct Waiter {
    /// The result of the first call.
    pub first: Any,
}

#[object_methods]
impl Waiter {
    /// Waits for the first call.
    #[init(detach)]
    fn new() -> Result<Self> {
        Ok(Self { first: call_kept_on_a_thread()? })
    }

    /// Waits for another call.
    #[method(detach)]
    fn wait(&self) -> Result<Any> {
        call_kept_on_a_thread()
    }

    /// Makes another object without the lock.
    #[method(class, detach)]
    fn another() -> Result<ObjRef<Self>> {
        Ok(ObjRef::new(Self::new()?))
    }

    /// Waits for a call, and does not use the value.
    #[setter(detach)]
    fn set_started(&self, _started: bool) -> Result<()> {
        call_kept_on_a_thread().map(drop)
    }

    /// Calls a function on this thread, which keeps the lock.
    #[method(detach = false)]
    fn apply(&self, f: Function) -> Result<Any> {
        f.call((self.first.clone(),))
    }
}

/// The sum of some bytes, before and after the function has waited without the lock.
#[packed_func(detach)]
pub fn sums_of_bytes(data: &[u8], milliseconds: u64) -> (u64, u64) {
    let sum = || std::hint::black_box(data).iter().map(|byte| u64::from(*byte)).sum();
    let before = sum();
    std::thread::sleep(Duration::from_millis(milliseconds));
    (before, sum())
}
