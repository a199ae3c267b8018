use core::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering,
};
use std::sync::{PoisonError, RwLock};

use crate::value::{Any, AnyView, Changed, FromAny, IntoAny, Mismatch, Schema, Shown, Storage, TypeSchema};

/// A valid type for a field that is visible to other languages.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a readable field of an object",
    label = "a field that other languages see must be `Clone` and convert to an FFI value",
    note = "hide the field from them (make it private, or add `#[field(skip)]`), or use a type that converts: numbers, String, Option, Vec, Array<T>, Tensor, ObjRef<T>, ..."
)]
pub trait FieldValue: Schema {
    /// Returns a copy of the field's value.
    fn field_value(&self) -> Any;

    /// Returns a second value with the same content.
    #[doc(hidden)]
    fn duplicate(&self) -> Self
    where
        Self: Sized;

    /// Returns the value as a visitor sees it.
    #[doc(hidden)]
    fn shown(&self) -> Shown<'_>;

    /// Returns the value in a form that a visitor can change.
    #[doc(hidden)]
    fn changed(&mut self) -> Changed<'_>
    where
        Self: Sized;
}

// For a type that does not fit, this gives one error about this trait instead of one for each
// bound.
#[diagnostic::do_not_recommend]
impl<T: IntoAny + Clone> FieldValue for T {
    fn field_value(&self) -> Any {
        self.clone().into_any()
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        IntoAny::shown(self)
    }

    #[inline]
    fn changed(&mut self) -> Changed<'_> {
        IntoAny::changed(self)
    }
}

/// A [`FieldValue`] that values of other languages convert to, so that they can create objects with
/// it.
#[doc(hidden)]
pub trait FromFieldValue: FieldValue + Sized {
    /// Converts a value.
    ///
    /// # Errors
    /// Returns the reason that the value does not convert.
    fn from_field_value(value: &AnyView<'_>) -> Result<Self, Mismatch>;
}

#[diagnostic::do_not_recommend]
impl<T: FieldValue + for<'a> FromAny<'a>> FromFieldValue for T {
    fn from_field_value(value: &AnyView<'_>) -> Result<Self, Mismatch> {
        T::from_any(value)
    }
}

/// A field type with interior mutability, which other languages may write to: [`Field<T>`] and
/// atomic numbers.
#[diagnostic::on_unimplemented(
    message = "a field of type `{Self}` cannot be writable",
    label = "not made for shared mutation",
    note = "other languages write while Rust code holds references: use `kernpack::Field<{Self}>`, or an atomic type for a number"
)]
pub trait MutableField: FromFieldValue {
    /// Replaces the value.
    fn store_field_value(&self, value: Self);
}

/// A value in an object that every language may read and replace at any time; reading returns a
/// copy.
///
/// ```
/// use kernpack::{Field, ObjRef, Object};
///
/// #[derive(Object)]
/// #[object(key = "docs.Counter")]
/// #[repr(C)]
/// pub struct Counter {
///     #[field(writable)]
///     pub name: Field<String>,
/// }
///
/// let counter = ObjRef::new(Counter { name: Field::new("a".to_owned()) });
/// counter.name.set("b".to_owned());
/// assert_eq!(counter.name.get(), "b");
/// ```
#[derive(Default)]
pub struct Field<T> {
    value: RwLock<T>,
}

impl<T> Field<T> {
    /// Creates a field with this value.
    pub const fn new(value: T) -> Self {
        Self { value: RwLock::new(value) }
    }

    /// Returns a copy of the value.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.value.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        drop(self.replace(value));
    }

    /// Replaces the value and returns the previous one.
    pub fn replace(&self, value: T) -> T {
        core::mem::replace(&mut *self.value.write().unwrap_or_else(PoisonError::into_inner), value)
    }

    /// Returns a mutable reference, given exclusive access to the field.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Clone for Field<T> {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

impl<T> From<T> for Field<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Clone + core::fmt::Debug> core::fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.get().fmt(f)
    }
}

impl<T: Schema> Schema for Field<T> {
    const TYPE: TypeSchema = T::TYPE;
}

impl<T: IntoAny + Clone> FieldValue for Field<T> {
    fn field_value(&self) -> Any {
        self.get().into_any()
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    // A copy, so that no lock is held while a visitor runs. Shown like registered data, which do
    // not include the size of a number.
    fn shown(&self) -> Shown<'_> {
        Shown::Owned(self.field_value())
    }

    fn changed(&mut self) -> Changed<'_> {
        Changed::Other
    }
}

impl<T: IntoAny + Clone + for<'a> FromAny<'a>> FromFieldValue for Field<T> {
    fn from_field_value(value: &AnyView<'_>) -> Result<Self, Mismatch> {
        T::from_any(value).map(Self::new)
    }
}

impl<T: IntoAny + Clone + for<'a> FromAny<'a>> MutableField for Field<T> {
    fn store_field_value(&self, value: Self) {
        self.set(value.into_inner());
    }
}

macro_rules! atomic_fields {
    ($($atomic:ident of $plain:ty),* $(,)?) => {$(
        impl Schema for $atomic {
            const TYPE: TypeSchema = <$plain as Schema>::TYPE;
            const STORAGE: Storage = Storage::Plain;
            const IS_UNSIGNED: bool = <$plain as Schema>::IS_UNSIGNED;
        }

        impl FieldValue for $atomic {
            fn field_value(&self) -> Any {
                self.load(Ordering::Relaxed).into_any()
            }

            fn duplicate(&self) -> Self {
                Self::new(self.load(Ordering::Relaxed))
            }

            #[inline]
            fn shown(&self) -> Shown<'_> {
                match IntoAny::shown(&self.load(Ordering::Relaxed)) {
                    Shown::Bool(value) => Shown::Bool(value),
                    Shown::I32(value) => Shown::I32(value),
                    Shown::I64(value) => Shown::I64(value),
                    Shown::U64(value) => Shown::U64(value),
                    _ => Shown::Owned(self.field_value()),
                }
            }

            #[inline]
            fn changed(&mut self) -> Changed<'_> {
                IntoAny::changed(self.get_mut())
            }
        }

        impl FromFieldValue for $atomic {
            fn from_field_value(value: &AnyView<'_>) -> Result<Self, Mismatch> {
                <$plain>::from_any(value).map(Self::new)
            }
        }

        impl MutableField for $atomic {
            fn store_field_value(&self, value: Self) {
                self.store(value.into_inner(), Ordering::Relaxed);
            }
        }
    )*};
}
atomic_fields!(
    AtomicBool of bool, AtomicI8 of i8, AtomicI16 of i16, AtomicI32 of i32, AtomicI64 of i64, AtomicIsize of isize, AtomicU8 of u8,
    AtomicU16 of u16, AtomicU32 of u32, AtomicU64 of u64, AtomicUsize of usize,
);
