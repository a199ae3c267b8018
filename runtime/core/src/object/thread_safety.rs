//! Checks of generated code for thread safety: a field that must not be in an object is an error at
//! the field's type.
//!
//! That objects are `Send` and `Sync` is a bound of [`Object`](super::Object). An error about that bound is at the struct and does not
//! say what to do, so generated code checks each field as well, unless the author of the struct vouches for it with `unsafe impl`.

use core::marker::PhantomData;

/// A type that a field of an object may have; `VOUCHED` is whether the whole object is known to be safe to use from several threads.
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

/// Compiles for a field that may be in an object.
pub const fn assert_object_part<T: ObjectPart<VOUCHED>, const VOUCHED: bool>() {}

/// Tells whether a type is safe to use from several threads: `ThreadSafety::<T>::HOLDS`, with
/// [`NotThreadSafe`] in scope.
pub struct ThreadSafety<T>(PhantomData<T>);

impl<T: Send + Sync> ThreadSafety<T> {
    /// It is.
    pub const HOLDS: bool = true;
}

/// For the other types; the inherent constant of [`ThreadSafety`] goes before it.
pub trait NotThreadSafe {
    /// It is not.
    const HOLDS: bool = false;
}

impl<T> NotThreadSafe for ThreadSafety<T> {}
