//! A mutation in progress in one of our own mutators.

use core::ptr::null_mut;

use crate::abi::{TVMFFIAny, TVMFFIObject};

/// A value whose mutation is in progress. Borrowed: the frame below, the caller or `given` keeps it
/// alive.
#[derive(Clone, Copy)]
pub(super) struct Mutation {
    /// The value.
    pub(super) node: TVMFFIAny,
    /// True if the value may be changed in place.
    pub(super) in_place: bool,
    /// The action after its children are mutated.
    pub(super) then: Then,
    /// The value that a callback returned before, owned.
    pub(super) given: TVMFFIAny,
    /// The object whose outcome is recorded, because it is shared; else NULL. Alive as long as the
    /// mutation.
    pub(super) origin: *mut TVMFFIObject,
}

impl Mutation {
    /// Begins a mutation.
    #[inline]
    pub(super) const fn new(node: TVMFFIAny, in_place: bool) -> Self {
        Self { node, in_place, then: Then::Nothing, given: TVMFFIAny::NONE, origin: null_mut() }
    }
}

/// The action after a value's children are mutated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing.
    Nothing,
    /// The callback was called before; the mutation keeps its result.
    UseGiven,
    /// The callback is called now.
    Call,
    /// A callback was called before, and another one may be called now.
    UseGivenAndCall,
}
