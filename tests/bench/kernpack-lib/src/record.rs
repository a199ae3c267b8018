//! The type of `cpp/lib.cc`, in Rust.

use kernpack::{ObjRef, Object, Str, object_methods};

/// Fields of four kinds.
#[derive(Object, Clone)]
#[object(key = "bench.kernpack.Record", final)]
#[repr(C)]
pub struct Record {
    /// An integer.
    pub count: i64,
    /// A number.
    pub scale: f64,
    /// A text, as the ABI keeps it.
    pub label: Str,
    /// Another object, if there is one.
    pub next: Option<ObjRef<Record>>,
}

#[object_methods]
impl Record {
    /// No argument.
    pub fn get(&self) -> i64 {
        self.count
    }

    /// One argument.
    pub fn plus(&self, a: i64) -> i64 {
        self.count + a
    }

    /// Two arguments.
    pub fn plus_two(&self, a: i64, b: i64) -> i64 {
        self.count + a + b
    }
}
