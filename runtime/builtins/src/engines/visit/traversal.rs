//! The part of a visitor and of a mutator that follows the header: a table of functions that any
//! language fills, and the definition region.

use crate::abi::{TVMFFIObject, seq_hash_kind};
use crate::definition::instance::{Body, metadata_without_creator};
use crate::definition::type_def::BuiltinType;
use crate::embedded;
use crate::engines::visit::region;

/// The functions of a visitor or mutator.
pub(super) trait Table: Sized + Send + Sync + 'static {
    /// Functions that need only the object itself.
    fn default_table() -> &'static Self;
}

/// A visitor or mutator; those of other languages have more fields after it.
#[repr(C)]
pub(super) struct Traversal<T: Table> {
    table: *const T,
    region: i32,
    padding: u32,
}

// SAFETY: the table is constant; the region belongs to the one traversal that uses the object.
unsafe impl<T: Table> Send for Traversal<T> {}
// SAFETY: as above.
unsafe impl<T: Table> Sync for Traversal<T> {}

impl<T: Table> Traversal<T> {
    /// Creates one that uses these functions, outside of all regions.
    pub(super) const fn new(table: &'static T) -> Self {
        Self { table, region: region::NONE, padding: 0 }
    }

    /// The functions of a visitor or mutator of any language, which live as long as it does; NULL
    /// for an object without functions.
    ///
    /// # Safety
    /// `object` is a live object that begins with this.
    #[inline]
    pub(super) unsafe fn table(object: *mut TVMFFIObject) -> *const T {
        // SAFETY: promised by the caller.
        unsafe { embedded::body::<Self>(object).table }
    }
}

/// A copy is incomplete: the data that its table works on is missing. So it gets a table that needs
/// only the object itself.
impl<T: Table> Clone for Traversal<T> {
    fn clone(&self) -> Self {
        Self { table: T::default_table(), region: self.region, padding: 0 }
    }
}

/// The type of visitors or mutators, without its attributes.
pub(super) const fn type_of<T: Table>(key: &'static str) -> BuiltinType
where
    Traversal<T>: Body,
{
    BuiltinType {
        metadata: Some(metadata_without_creator::<Traversal<T>>(seq_hash_kind::UNSUPPORTED)),
        ..BuiltinType::new(key)
    }
}
