use super::definition::TypeDef;
use super::derived::FieldNames;
use crate::abi::type_index;

/// A Rust type that is stored after the ABI's object header. Implement it with `#[derive(Object)]`.
///
/// # Safety
/// The type is `#[repr(C)]`, aligned to at most 8 bytes, begins with a `Parent` value at offset 0
/// (unless the parent is [`ObjectRoot`]), and `type_index` returns the index under which its key is
/// registered with exactly this layout. `type_def` describes this layout; for a family, `index_of`
/// is the index of the value's own variant, and `variants` are all of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an object type",
    label = "not an object type",
    note = "add `#[derive(kernpack::Object)]`, `#[object(key = \"...\")]` and `#[repr(C)]` to the struct"
)]
pub unsafe trait Object: Send + Sync + Sized + 'static {
    /// Unique name, for example `imagekit.Histogram`.
    const TYPE_KEY: &'static str;

    /// The base type.
    type Parent: Object;

    /// Run-time type index; registers the type if necessary.
    fn type_index() -> i32;

    /// The definition from the derive; `None` for a type that another library defines.
    #[doc(hidden)]
    fn type_def() -> Option<&'static TypeDef> {
        None
    }

    /// The type index of an object with this value.
    #[doc(hidden)]
    fn index_of(&self) -> i32 {
        Self::type_index()
    }

    /// For a family, the object types of its variants: objects of other types do not belong to the
    /// family.
    #[doc(hidden)]
    const VARIANTS: Option<&'static [&'static TypeDef]> = None;

    /// True if other languages can create objects of the type: each field can be set, or is
    /// initialized by Rust code.
    #[doc(hidden)]
    const CREATABLE: bool = false;

    /// True if no type may be derived from this one.
    #[doc(hidden)]
    const FINAL: bool = false;

    /// The names of the fields that are visible to other languages.
    #[doc(hidden)]
    const FIELD_NAMES: FieldNames = FieldNames::NONE;

    /// Creates a second value with the same content, if possible.
    #[doc(hidden)]
    const DUPLICATE: Option<fn(&Self) -> Self> = None;
}

/// An object type that is a struct, whose value may be replaced as a whole. Families are not,
/// because the value determines the object's type.
///
/// # Safety
/// `index_of` and `VARIANTS` of [`Object`] are the provided ones.
#[diagnostic::on_unimplemented(
    message = "the value of `{Self}` cannot be changed in place",
    label = "an enum's object keeps its variant",
    note = "make a new object with `ObjRef::new`"
)]
pub unsafe trait ObjectStruct {}

/// The root of all object types, `ffi.Object`. A reference to it may refer to any object.
#[repr(C)]
pub struct ObjectRoot {
    _nothing: (),
}

// SAFETY: a type without content fits every object.
unsafe impl Object for ObjectRoot {
    const TYPE_KEY: &'static str = "ffi.Object";
    type Parent = Self;
    const CREATABLE: bool = true;
    const DUPLICATE: Option<fn(&Self) -> Self> = Some(|_| Self { _nothing: () });

    fn type_index() -> i32 {
        type_index::OBJECT
    }
}
