//! Checks of generated code for thread safety: a field that must not be in an object is an error at
//! the field's type.
//!
//! [`Object`](super::Object) requires `Send` and `Sync`. An error about that bound is reported at
//! the struct and does not suggest a fix, so generated code also checks each field, unless the
//! author of the struct guarantees thread safety with `unsafe impl`.

use core::marker::PhantomData;

/// A type that a field of an object may have; `VOUCHED` is true if the whole object is known to be
/// safe to use from several threads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a field of an object: it is not safe to use from several threads",
    label = "all threads use an object, so its fields have to be `Send` and `Sync`",
    note = "use `Arc` in place of `Rc`, and `kernpack::Field<T>`, an atomic type or `Mutex<T>` in place of `Cell` and `RefCell`",
    note = "for a raw pointer, write `unsafe impl Send` and `unsafe impl Sync` for the struct, and ensure that they hold"
)]
pub trait ObjectPart<const VOUCHED: bool> {}

impl<T> ObjectPart<true> for T {}

#[diagnostic::do_not_recommend]
impl<T: Send + Sync> ObjectPart<false> for T {}

/// Compiles only for a field that may be in an object.
pub const fn assert_object_part<T: ObjectPart<VOUCHED>, const VOUCHED: bool>() {}

/// The thread safety of a type: `ThreadSafety::<T>::HOLDS`, with [`NotThreadSafe`] in scope.
pub struct ThreadSafety<T>(PhantomData<T>);

impl<T: Send + Sync> ThreadSafety<T> {
    /// The type is thread-safe.
    pub const HOLDS: bool = true;
}

/// For types that are not thread-safe; the inherent constant of [`ThreadSafety`] takes precedence
/// over it.
pub trait NotThreadSafe {
    /// The type is not thread-safe.
    const HOLDS: bool = false;
}

impl<T> NotThreadSafe for ThreadSafety<T> {}
