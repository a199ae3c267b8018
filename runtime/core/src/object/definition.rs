//! The output of `#[derive(Object)]` for a type: the data for registration, construction and
//! reflection.

use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, Ordering};

use super::copy::CopyFn;
use super::registration::register_type;
use crate::Result;
use crate::abi::{TVMFFIFieldGetter, TVMFFIFieldSetter, TVMFFIObjectCreator};
use crate::value::{Any, Storage, TypeSchema};

/// An object type as `#[derive(Object)]` describes it.
pub struct TypeDef {
    /// Type key.
    pub key: &'static str,
    /// Type index of the base type.
    pub parent: fn() -> i32,
    /// The base type's definition; `None` when it is the root or another library's.
    pub parent_def: fn() -> Option<&'static TypeDef>,
    /// Documentation.
    pub doc: &'static str,
    /// Size of the object in bytes, header included.
    pub size: usize,
    /// Type indices to reserve for derived types.
    pub child_slots: i32,
    /// One of [`crate::abi::seq_hash_kind`].
    pub structural_kind: i32,
    /// True if no type may be derived from this one.
    pub is_final: bool,
    /// Fields that other languages see.
    pub fields: &'static [FieldDef],
    /// The other fields, but for the base.
    pub hidden: &'static [HiddenDef],
    /// Makes an object whose fields are to be set.
    pub create: Option<TVMFFIObjectCreator>,
    /// Makes an object of the same content.
    pub copy: Option<CopyFn>,
    /// Gives other languages a constructor made of the fields, unless the type has one of its own: for a provider that cannot make it.
    pub generated_init: Option<RegisterInit>,
    /// Registers how tensors are copied and written as JSON, for a type with tensors among its fields.
    pub tensor_hooks: Option<fn() -> Result<()>>,
    /// A number made of the names and types of all fields, private ones too.
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

/// A field that other languages see.
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
    /// Bits of [`crate::abi::field_flag`], without those about the default.
    pub flags: i64,
    /// The memory representation of the field.
    pub storage: Storage,
    /// True if the field is an unsigned integer of 32 bits or more.
    pub is_unsigned: bool,
    /// Reads the field.
    pub getter: TVMFFIFieldGetter,
    /// Finds the field's text in place, where it is one of Rust's: from the field's address in a live object. `None`: the getter says why.
    pub text: Option<TextInPlace>,
    /// Sets the field of an object that is under construction or has no other reference; always, when the field is writable.
    pub setter: Option<TVMFFIFieldSetter>,
    /// Default.
    pub default: Option<DefaultDef>,
    /// Drops the value in place.
    pub drop: unsafe fn(*mut c_void),
    /// Returns whether a field of an object that was created from zeros has a value.
    pub is_set: unsafe fn(*const c_void) -> bool,
}

/// Finds the text of a field at an address, if its object is complete; the text is as valid as the object.
pub type TextInPlace = unsafe fn(*mut c_void) -> Option<*const [u8]>;

/// The default of a field.
pub enum DefaultDef {
    /// A value, made once.
    Value(fn() -> Any),
    /// Makes a new value for each object.
    Factory(fn() -> Any),
}

/// A field that other languages do not see.
pub struct HiddenDef {
    /// Name.
    pub name: &'static str,
    /// Offset in bytes from the object's handle.
    pub offset: usize,
    /// Makes its value in an object that another language creates; `None` when nothing says which.
    pub make: Option<unsafe fn(*mut c_void)>,
    /// Drops the value in place.
    pub drop: unsafe fn(*mut c_void),
}

/// Registers the constructor that is made of the fields of a type, by the type's index.
pub type RegisterInit = fn(type_index: i32) -> Result<()>;

/// A type's index, filled in when the type is registered; and what registers it, so that only an artifact with types has that.
pub struct TypeIndexCell {
    index: AtomicI32,
    register: fn(&'static TypeDef) -> Result<()>,
}

impl TypeIndexCell {
    /// Not registered yet.
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
    /// Registers the type with the provider, or joins the same type of another Kernpack library; its ancestors first.
    ///
    /// # Errors
    /// When the key is taken by another type; this artifact's type then has a key of its own.
    pub(crate) fn register(&'static self) -> Result<()> {
        (self.index.register)(self)
    }

    /// The type and its ancestors, as far as Kernpack crates define them.
    pub(crate) fn lineage(&'static self) -> impl Iterator<Item = &'static Self> {
        core::iter::successors(Some(self), |def| (def.parent_def)())
    }

    /// Fields of the ancestors that other languages see.
    pub(super) fn inherited_fields(&'static self) -> usize {
        self.lineage().skip(1).map(|def| def.fields.len()).sum()
    }
}

/// Gives access to a definition, for code that is generated per object type. Implemented by a
/// struct itself, or by a marker type for an enum's variant.
///
/// # Safety
/// `type_def` describes objects with a `Body` as [`Object`](super::Object) demands.
pub unsafe trait Defined: 'static {
    /// The value of the objects.
    type Body: 'static;

    /// The definition.
    fn type_def() -> &'static TypeDef;
}
