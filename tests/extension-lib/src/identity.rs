//! Objects that go back and forth: the same object of Rust is the same Python object.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use kernpack::{Any, Function, List, ObjRef, Object, Result, WeakRef, object_methods, packed_func, python};

/// A sum of bytes.
#[derive(Object)]
#[object(key = "extmod.Digest")]
#[repr(C)]
pub struct Digest {
    /// The sum.
    pub total: AtomicI64,
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

#[object_methods]
impl Digest {
    /// A sum of nothing.
    #[init]
    pub fn new() -> Self {
        Self { total: AtomicI64::new(0) }
    }

    /// Adds bytes, and returns the sum itself.
    pub fn update(this: &ObjRef<Self>, bytes: &[u8]) -> ObjRef<Self> {
        this.total.fetch_add(bytes.iter().map(|byte| i64::from(*byte)).sum(), Ordering::Relaxed);
        this.clone()
    }

    /// Returns the sum itself.
    pub fn same(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }

    /// A new sum of both.
    pub fn plus(&self, other: &Self) -> Self {
        Self { total: AtomicI64::new(self.total.load(Ordering::Relaxed) + other.total.load(Ordering::Relaxed)) }
    }

    /// A new sum of the class.
    #[method(class)]
    pub fn of(bytes: &[u8]) -> Self {
        Self { total: AtomicI64::new(bytes.iter().map(|byte| i64::from(*byte)).sum()) }
    }
}

/// A node with a list of others.
#[derive(Object)]
#[object(key = "extmod.Branch")]
#[repr(C)]
pub struct Branch {
    /// The name.
    pub name: String,
    /// The sum of the node.
    pub sum: ObjRef<Digest>,
    /// The nodes below.
    pub below: List<ObjRef<Branch>>,
}

/// The larger one of two sums; the first of equal ones.
#[packed_func(name = "extmod.identity.larger")]
pub fn larger(a: ObjRef<Digest>, b: ObjRef<Digest>) -> ObjRef<Digest> {
    if b.total.load(Ordering::Relaxed) > a.total.load(Ordering::Relaxed) { b } else { a }
}

/// A list of sums in the reverse order.
#[packed_func(name = "extmod.identity.reversed")]
pub fn reversed(mut sums: Vec<ObjRef<Digest>>) -> Vec<ObjRef<Digest>> {
    sums.reverse();
    sums
}

/// The results of a function for a sum: as an argument, in a list, and as a Python object.
#[packed_func(name = "extmod.identity.shown_to")]
pub fn shown_to(sum: &ObjRef<Digest>, f: Function) -> Result<Vec<Any>> {
    Ok(vec![f.call((sum,))?, f.call((vec![sum.clone()],))?, f.call((python::Object::new(sum)?,))?])
}

static KEPT: Mutex<Vec<ObjRef<Digest>>> = Mutex::new(Vec::new());
static WEAK: Mutex<Option<WeakRef<Digest>>> = Mutex::new(None);

/// Keeps a sum.
#[packed_func(name = "extmod.identity.keep")]
pub fn keep(sum: ObjRef<Digest>) {
    KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(sum);
}

/// The sums that are kept.
#[packed_func(name = "extmod.identity.kept")]
pub fn kept() -> Vec<ObjRef<Digest>> {
    KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

/// Keeps nothing any more; gives the number of sums that were kept.
#[packed_func(name = "extmod.identity.release")]
pub fn release() -> usize {
    std::mem::take(&mut *KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())).len()
}

/// Makes a sum that Rust keeps a weak reference to.
#[packed_func(name = "extmod.identity.watched")]
pub fn watched() -> ObjRef<Digest> {
    let sum = ObjRef::new(Digest::new());
    *WEAK.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(sum.downgrade());
    sum
}

/// The sum that `watched` made, if it is alive.
#[packed_func(name = "extmod.identity.seen")]
pub fn seen() -> Option<ObjRef<Digest>> {
    WEAK.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).as_ref().and_then(WeakRef::upgrade)
}
