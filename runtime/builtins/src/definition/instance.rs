//! Objects of builtin types: the equivalents of C++'s default and copy constructors, and the
//! attributes that register them.
//!
//! A type implements [`Body`] for the part of its objects after the header, `#[repr(C)]` and made
//! of fields that own their values ([`Any`], [`ObjRef`](crate::object::ObjRef), integers).
//! `Default` and `Clone` are then its constructors.

use super::function::{Arguments, Builtin};
use super::signature::{OBJECT, Signature, Type};
use super::type_def::{Attr, BuiltinType, Metadata};
use crate::abi::{TVMFFIObject, TVMFFIObjectHandle};
use crate::function::guard_nameless;
use crate::value::Any;
use crate::{Result, embedded};

/// The part of a builtin type's object that follows the header.
pub(crate) trait Body: Send + Sync + Sized + 'static {
    /// A parameter list with one object of this type.
    const SELF: &'static [&'static Type];

    /// The registered type.
    fn definition() -> &'static BuiltinType;
}

/// Creates an object; the caller owns its one reference.
pub(crate) fn new_instance<T: Body>(body: T) -> *mut TVMFFIObject {
    embedded::new_object(T::definition().host_index(), body)
}

/// Creates an object as a value.
pub(crate) fn instance<T: Body>(body: T) -> Any {
    // SAFETY: the object is new, and its reference is transferred to the value.
    unsafe { Any::from_object(new_instance(body)) }
}

/// The creator of a type, for [`Metadata`].
///
/// # Safety
/// `result` is writable: the ABI's rule for creators.
pub(crate) unsafe extern "C" fn creator<T: Body + Default>(result: *mut TVMFFIObjectHandle) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        unsafe { result.write(new_instance(T::default())) };
        Ok(())
    })
}

/// The metadata that a type of objects with this body registers.
pub(crate) const fn metadata_of<T: Body + Default>(structural_kind: i32) -> Metadata {
    Metadata { creator: Some(creator::<T>), ..metadata_without_creator::<T>(structural_kind) }
}

/// The same for a type without empty objects.
pub(crate) const fn metadata_without_creator<T: Body>(structural_kind: i32) -> Metadata {
    Metadata { total_size: (embedded::HEADER_SIZE + size_of::<T>()) as i32, creator: None, structural_kind }
}

/// Defines the body of the objects of a type, and the type in signatures: objects of the type and
/// of its descendants.
macro_rules! object_body {
    ($body:ty, $definition:ident, $(#[$doc:meta])* $visibility:vis $type:ident = $key:literal) => {
        $(#[$doc])*
        $visibility static $type: $crate::definition::signature::Type = $crate::definition::signature::Type {
            schema: concat!("{\"type\":\"", $key, "\"}"),
            text: $key,
            accepts: $crate::definition::signature::Accepts::Kind(|| $definition.host_index()),
        };

        impl $crate::definition::instance::Body for $body {
            const SELF: &'static [&'static $crate::definition::signature::Type] = &[&$type];

            fn definition() -> &'static $crate::definition::type_def::BuiltinType {
                &$definition
            }
        }
    };
}
pub(crate) use object_body;

/// The attributes of a type whose objects other languages create empty and copy: whether it has no
/// descendants, and the attributes before and after the common ones.
macro_rules! object_attrs {
    ($key:literal, $body:ty, final: $is_final:literal, first: [$($first:expr),*], last: [$($last:expr),*]) => {
        &[
            $($first,)*
            ("__ffi_new__", $crate::definition::instance::new_function::<$body>(concat!($key, ".__ffi_new__"))),
            (
                "__ffi_shallow_copy__",
                $crate::definition::instance::copy_function::<$body>(concat!($key, ".__ffi_shallow_copy__")),
            ),
            $($last,)*
            ("__ffi_type_final__", $crate::definition::type_def::Attr::Flag($is_final)),
        ]
    };
}
pub(crate) use object_attrs;

/// The value of `__ffi_new__`: a function that creates an empty instance.
pub(crate) const fn new_function<T: Body + Default>(name: &'static str) -> Attr {
    Attr::Function(Builtin { name, signature: Signature::Typed(&[], &OBJECT), run: create::<T> })
}

/// The value of `__ffi_shallow_copy__`: a function that copies the fields of an object, but not the
/// values that they refer to.
pub(crate) const fn copy_function<T: Body + Clone>(name: &'static str) -> Attr {
    Attr::Function(Builtin { name, signature: Signature::Typed(T::SELF, &OBJECT), run: shallow_copy::<T> })
}

/// Creates an empty instance.
pub(crate) fn create<T: Body + Default>(_: &Arguments<'_>) -> Result<Any> {
    Ok(instance(T::default()))
}

fn shallow_copy<T: Body + Clone>(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the signature only accepts objects of this type and of those derived from it, which
    // begin with its body.
    let body = unsafe { embedded::body::<T>(args.object(0)) };
    Ok(instance(body.clone()))
}
