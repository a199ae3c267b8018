use crate::abi::type_index;

/// A Rust type that lives behind the ABI's object header. Implement it with `#[derive(Object)]`.
///
/// # Safety
/// The type is `#[repr(C)]`, aligned to at most 8 bytes, begins with a `Parent` value at offset 0 (unless the parent is
/// [`ObjectRoot`]), and `type_index` gives the index that its key is registered under with exactly this layout.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an object type",
    label = "not an object type",
    note = "add `#[derive(kernpack::Object)]`, `#[object(key = \"...\")]` and `#[repr(C)]` to the struct"
)]
pub unsafe trait Object: Send + Sync + 'static {
    /// Unique name, for example `imagekit.Histogram`.
    const TYPE_KEY: &'static str;

    /// The base type.
    type Parent: Object;

    /// Run-time type index; registers the type when needed.
    fn type_index() -> i32;
}

/// The root of all object types, `ffi.Object`. A reference to it may be any object.
#[repr(C)]
pub struct ObjectRoot {
    _nothing: (),
}

// SAFETY: a type without content fits every object.
unsafe impl Object for ObjectRoot {
    const TYPE_KEY: &'static str = "ffi.Object";
    type Parent = Self;

    fn type_index() -> i32 {
        type_index::OBJECT
    }
}
