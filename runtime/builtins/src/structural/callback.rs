//! The closures that walks and rewrites call: the nodes that they are called for, and their
//! arguments.

use super::Region;
use crate::abi::type_index;
use crate::value::{Any, AnyView, DataType, Device, FromAny};
use crate::{Array, Map, ObjRef, Object, Result};

/// A closure that is called for nodes of the type that its first parameter names.
///
/// | parameter | called for |
/// | --- | --- |
/// | `&T`, `&ObjRef<T>`, `ObjRef<T>` | objects of the type `T` and of types derived from it |
/// | `i64`, `f64`, `bool`, `String`, `DataType`, `Device` | such values |
/// | `Array<Any>`, `Map<Any, Any>` | arrays and maps |
/// | `&AnyView<'_>`, `Any` | everything |
///
/// A second parameter of type [`Region`] receives whether variables are defined here. Closures
/// implement this trait automatically; the types of their parameters must be written out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be called for nodes",
    note = "write a closure whose first parameter has one of the types &T, &ObjRef<T>, ObjRef<T> (where T: Object), i64, f64, bool, String, \
            Array<Any>, Map<Any, Any>, Any or &AnyView<'_>, and which may have a second one of type Region"
)]
pub trait Callback<Form> {
    /// The return type.
    type Output;

    /// Index of the type that it is called for.
    #[doc(hidden)]
    fn target() -> i32;

    /// Calls it for a node of this type.
    #[doc(hidden)]
    fn call(&mut self, node: &AnyView<'_>, region: Region) -> Result<Self::Output>;
}

/// A value that a callback may take by value.
pub trait NodeValue: for<'a> FromAny<'a> {
    /// Index of the values' type.
    #[doc(hidden)]
    fn target() -> i32;
}

macro_rules! values {
    ($([$($generics:tt)*] $type:ty => $target:expr),* $(,)?) => {$(
        impl<$($generics)*> NodeValue for $type {
            fn target() -> i32 {
                $target
            }
        }
    )*};
}
values!(
    [T: Object] ObjRef<T> => T::type_index(),
    [] Any => type_index::ANY,
    [] i64 => type_index::INT,
    [] f64 => type_index::FLOAT,
    [] bool => type_index::BOOL,
    [] String => type_index::STR,
    [] DataType => type_index::DATA_TYPE,
    [] Device => type_index::DEVICE,
    [] Array<Any> => type_index::ARRAY,
    [] Map<Any, Any> => type_index::MAP,
);

/// The ways a closure takes its node; they exist only so that closures of all forms implement
/// [`Callback`].
#[doc(hidden)]
pub mod forms {
    use core::marker::PhantomData;

    /// `|&T|`
    pub struct Content<T>(PhantomData<T>);
    /// `|&T, Region|`
    pub struct ContentIn<T>(PhantomData<T>);
    /// `|&ObjRef<T>|`
    pub struct Reference<T>(PhantomData<T>);
    /// `|&ObjRef<T>, Region|`
    pub struct ReferenceIn<T>(PhantomData<T>);
    /// `|T|`
    pub struct Value<T>(PhantomData<T>);
    /// `|T, Region|`
    pub struct ValueIn<T>(PhantomData<T>);
    /// `|&AnyView|`
    pub struct View;
    /// `|&AnyView, Region|`
    pub struct ViewIn;
}

macro_rules! callbacks {
    ($([$($generic:ident: $bound:path)?] $plain:ty, $with_region:ty: ($($param:tt)*) => $target:expr, |$node:ident| $argument:expr;)*) => {$(
        impl<F: FnMut($($param)*) -> R, R $(, $generic: $bound)?> Callback<$plain> for F {
            type Output = R;

            fn target() -> i32 {
                $target
            }

            fn call(&mut self, $node: &AnyView<'_>, _: Region) -> Result<R> {
                Ok(self($argument))
            }
        }

        impl<F: FnMut($($param)*, Region) -> R, R $(, $generic: $bound)?> Callback<$with_region> for F {
            type Output = R;

            fn target() -> i32 {
                $target
            }

            fn call(&mut self, $node: &AnyView<'_>, region: Region) -> Result<R> {
                Ok(self($argument, region))
            }
        }
    )*};
}
callbacks! {
    [T: Object] forms::Content<T>, forms::ContentIn<T>: (&T) => T::type_index(), |node| &*node.get::<ObjRef<T>>()?;
    [T: Object] forms::Reference<T>, forms::ReferenceIn<T>: (&ObjRef<T>) => T::type_index(), |node| &node.get::<ObjRef<T>>()?;
    [T: NodeValue] forms::Value<T>, forms::ValueIn<T>: (T) => T::target(), |node| node.get::<T>()?;
    [] forms::View, forms::ViewIn: (&AnyView<'_>) => type_index::ANY, |node| node;
}
