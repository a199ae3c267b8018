//! A type that other languages write to.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use kernpack::{Field, Object, object_methods};

/// Counts, from many threads and languages.
#[derive(Object)]
#[object(key = "objects.Counter")]
#[repr(C)]
pub struct Counter {
    /// The name of the counted events.
    pub name: String,
    #[field(writable, default_factory = AtomicI64::default)]
    pub hits: AtomicI64,
    #[field(writable, default = AtomicU32::new(10))]
    pub limit: AtomicU32,
    #[field(writable, default_factory = AtomicBool::default)]
    pub closed: AtomicBool,
    /// Any text.
    #[field(writable, default = Field::new("new".to_owned()))]
    pub state: Field<String>,
    #[field(writable, default = Field::new(None))]
    pub note: Field<Option<Vec<i64>>>,
}

#[object_methods]
impl Counter {
    /// One more; gives the number of hits.
    pub fn hit(&self) -> i64 {
        self.hits.fetch_add(1, Ordering::Relaxed) + 1
    }
}
