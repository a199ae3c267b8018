//! The output of `#[derive(Object)]` for a type: the data for registration, construction and
//! reflection.

use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, Ordering};

use super::copy::CopyFn;
use super::registration::register_type;
use crate::Result;
use crate::abi::{TVMFFIFieldGetter, TVMFFIFieldSetter, TVMFFIObjectCreator};
use crate::value::{Any, Storage, TypeSchema};

/// The description of an object type by `#[derive(Object)]`.
pub struct TypeDef {
    /// Type key.
    pub key: &'static str,
    /// Type index of the base type.
    pub parent: fn() -> i32,
    /// The base type's definition; `None` if it is the root or belongs to another library.
    pub parent_def: fn() -> Option<&'static TypeDef>,
    /// Documentation.
    pub doc: &'static str,
    /// Size of the object in bytes including the header.
    pub size: usize,
    /// Number of type indices to reserve for derived types.
    pub child_slots: i32,
    /// One of [`crate::abi::seq_hash_kind`].
    pub structural_kind: i32,
    /// True if no type may be derived from this one.
    pub is_final: bool,
    /// Fields that are visible to other languages.
    pub fields: &'static [FieldDef],
    /// The other fields, except the base.
    pub hidden: &'static [HiddenDef],
    /// Creates an object whose fields are set afterwards.
    pub create: Option<TVMFFIObjectCreator>,
    /// Creates an object with the same content.
    pub copy: Option<CopyFn>,
    /// Registers a constructor that takes the fields, unless the type has its own constructor. For
    /// providers that cannot generate one.
    pub generated_init: Option<RegisterInit>,
    /// Registers the copying and JSON serialization of tensors, for a type with tensors among its
    /// fields.
    pub tensor_hooks: Option<fn() -> Result<()>>,
    /// A hash of the names and types of all fields, including private ones.
    pub fingerprint: u64,
    /// The index, once registered.
    pub index: TypeIndexCell,
    /// Crate that defines the type.
    pub crate_name: &'static str,
    /// Source file of the definition.
    pub file: &'static str,
    /// Line of the definition in `file`.
    pub line: u32,
}

/// A field that is visible to other languages.
pub struct FieldDef {
    /// Name.
    pub name: &'static str,
    /// Documentation.
    pub doc: &'static str,
    /// Type schema.
    pub ty: TypeSchema,
    /// Offset in bytes from the object's handle.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Bits of [`crate::abi::field_flag`], except those about the default.
    pub flags: i64,
    /// The memory representation of the field.
    pub storage: Storage,
    /// True if the field is an unsigned integer of 32 bits or more.
    pub is_unsigned: bool,
    /// Reads the field.
    pub getter: TVMFFIFieldGetter,
    /// Returns the field's text without a copy if the field is a Rust string: takes the field's
    /// address in a live object. If this returns `None`, the getter reports the reason.
    pub text: Option<TextInPlace>,
    /// Sets the field of an object that is under construction or does not have other references; a
    /// writable field can always be set.
    pub setter: Option<TVMFFIFieldSetter>,
    /// Default value.
    pub default: Option<DefaultDef>,
    /// Drops the value in place.
    pub drop: unsafe fn(*mut c_void),
    /// Returns whether a field of an object that was created from zeros has a value.
    pub is_set: unsafe fn(*const c_void) -> bool,
}

/// Returns the text of the field at an address if its object is complete; the text is valid as long
/// as the object.
pub type TextInPlace = unsafe fn(*mut c_void) -> Option<*const [u8]>;

/// The default of a field.
pub enum DefaultDef {
    /// A value that is created once.
    Value(fn() -> Any),
    /// Creates a new value for each object.
    Factory(fn() -> Any),
}

/// A field that is not visible to other languages.
pub struct HiddenDef {
    /// Name.
    pub name: &'static str,
    /// Offset in bytes from the object's handle.
    pub offset: usize,
    /// Initializes the field in an object that another language creates; `None` if the type does
    /// not define an initial value.
    pub make: Option<unsafe fn(*mut c_void)>,
    /// Drops the value in place.
    pub drop: unsafe fn(*mut c_void),
}

/// Registers the constructor that takes the fields of a type, given the type's index.
pub type RegisterInit = fn(type_index: i32) -> Result<()>;

/// A type's index, set when the type is registered, and the function that registers it. The
/// function is a field, so that only artifacts with types link that code.
pub struct TypeIndexCell {
    index: AtomicI32,
    register: fn(&'static TypeDef) -> Result<()>,
}

impl TypeIndexCell {
    /// Creates the cell of a type that is not registered yet.
    #[expect(clippy::new_without_default, reason = "only generated code makes one, in a static")]
    pub const fn new() -> Self {
        Self { index: AtomicI32::new(-1), register: register_type }
    }

    /// The index; negative before registration.
    #[inline]
    pub(super) fn get(&self) -> i32 {
        self.index.load(Ordering::Acquire)
    }

    pub(super) fn set(&self, index: i32) {
        self.index.store(index, Ordering::Release);
    }
}

impl TypeDef {
    /// Registers the type with the provider, or joins the same type of another Kernpack library;
    /// its ancestors first.
    ///
    /// # Errors
    /// Returns an error if the key is taken by another type; this artifact's type then gets its own
    /// key.
    pub(crate) fn register(&'static self) -> Result<()> {
        (self.index.register)(self)
    }

    /// The type and its ancestors that are defined by Kernpack crates.
    pub(crate) fn lineage(&'static self) -> impl Iterator<Item = &'static Self> {
        core::iter::successors(Some(self), |def| (def.parent_def)())
    }

    /// Number of fields of the ancestors that are visible to other languages.
    pub(super) fn inherited_fields(&'static self) -> usize {
        self.lineage().skip(1).map(|def| def.fields.len()).sum()
    }
}

/// Gives access to a definition, for code that is generated per object type. Implemented by a
/// struct itself, or by a marker type for an enum's variant.
///
/// # Safety
/// `type_def` describes objects with a `Body` as [`Object`](super::Object) requires.
pub unsafe trait Defined: 'static {
    /// Type of the objects' value.
    type Body: 'static;

    /// The definition.
    fn type_def() -> &'static TypeDef;
}
