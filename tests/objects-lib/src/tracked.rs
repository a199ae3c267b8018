//! The number of live objects, for leak tests.

use std::sync::atomic::{AtomicI64, Ordering};

use kernpack::{ObjRef, Object, packed_func};

static ALIVE: AtomicI64 = AtomicI64::new(0);

/// Increments the counter while it lives.
struct Presence;

impl Presence {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Clone for Presence {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An object that is counted as long as it lives.
#[derive(Object, Clone)]
#[object(key = "objects.Tracked")]
#[repr(C)]
pub struct Tracked {
    pub value: i64,
    pub text: String,
    pub other: Option<ObjRef<Tracked>>,
    #[field(skip, default_factory = Presence::new)]
    presence: Presence,
}

/// The number of live objects of type `Tracked`.
#[packed_func]
pub fn alive() -> i64 {
    ALIVE.load(Ordering::Relaxed)
}

/// An object made by Rust.
#[packed_func]
pub fn track(value: i64, text: String, other: Option<ObjRef<Tracked>>) -> ObjRef<Tracked> {
    ObjRef::new(Tracked { value, text, other, presence: Presence::new() })
}
