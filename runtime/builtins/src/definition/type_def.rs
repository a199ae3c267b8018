//! A type of the embedded implementation as data.

use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, Ordering};

use super::field::BuiltinField;
use super::function::Builtin;
use super::signature::type_schema_json;
use crate::abi::{
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFIObjectCreator, TVMFFITypeMetadata, field_flag,
    type_index,
};
use crate::{Error, Result, embedded, provider};
use kernpack_core::reflect::TypeInfo;

/// A type and its registrations. Types are registered in the order of `catalog::types`, which
/// determines their indices.
pub(crate) struct BuiltinType {
    /// Unique key.
    pub(crate) key: &'static str,
    /// The index: fixed by the ABI, or [`Index::dynamic`].
    pub(crate) index: Index,
    /// Index of the parent.
    pub(crate) parent: fn() -> i32,
    /// The metadata of the type; types without metadata have only a key and an index.
    pub(crate) metadata: Option<Metadata>,
    /// Fields.
    pub(crate) fields: &'static [BuiltinField],
    /// Methods; those without a `self` are static.
    pub(crate) methods: &'static [BuiltinMethod],
    /// Attributes: column and value.
    pub(crate) attrs: &'static [(&'static str, Attr)],
}

/// The storage of a type's index.
pub(crate) struct Index(AtomicI32);

/// The metadata that a type registers.
pub(crate) struct Metadata {
    /// Size in bytes, header included.
    pub(crate) total_size: i32,
    /// Creates an empty instance.
    pub(crate) creator: Option<TVMFFIObjectCreator>,
    /// One of [`crate::abi::seq_hash_kind`].
    pub(crate) structural_kind: i32,
}

/// A method; the builtin's name is `<type key>.<method>`.
pub(crate) struct BuiltinMethod {
    pub(crate) function: Builtin,
    pub(crate) is_static: bool,
    pub(crate) doc: &'static str,
}

/// The value of a type in a column of attributes.
pub(crate) enum Attr {
    /// A function.
    Function(Builtin),
    /// A native hook: a C function of the column's own convention.
    Native(*const c_void),
    /// A flag.
    Flag(bool),
}

/// Attributes that a file adds to types with a fixed index: type index, column, value.
pub(crate) type FixedTypeAttrs = &'static [(i32, &'static str, Attr)];

// SAFETY: the pointers are addresses of functions and the defaults are plain values.
unsafe impl Sync for BuiltinType {}
// SAFETY: as above.
unsafe impl Sync for Attr {}

impl Index {
    /// An index that the ABI fixes.
    pub(crate) const fn fixed(index: i32) -> Self {
        Self(AtomicI32::new(index))
    }

    /// An index that is assigned at registration.
    pub(crate) const fn dynamic() -> Self {
        Self(AtomicI32::new(-1))
    }

    /// The index; negative before the type is registered.
    #[inline]
    pub(crate) fn get(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl BuiltinType {
    /// A type derived from the root of all objects, with only a key.
    pub(crate) const fn new(key: &'static str) -> Self {
        Self {
            key,
            index: Index::dynamic(),
            parent: || type_index::OBJECT,
            metadata: None,
            fields: &[],
            methods: &[],
            attrs: &[],
        }
    }

    /// Assigns the type its index. All types get theirs before anything else about them is
    /// registered, because they refer to each other.
    pub(crate) fn allocate(&self) -> Result<()> {
        if self.index.get() >= 0 {
            return Ok(());
        }
        let parent = (self.parent)();
        let depth = match parent {
            type_index::OBJECT => 1,
            _ => 2,
        };
        let key = TVMFFIByteArray::new(self.key.as_bytes());
        // SAFETY: the key lives for the call, and the parent is registered.
        let index = unsafe { (provider::api().type_get_or_alloc_index)(&key, -1, depth, 0, 1, parent) };
        if index < 0 {
            return Err(crate::error!(InternalError, "the provider refused to register type '{}'", self.key));
        }
        self.index.0.store(index, Ordering::Relaxed);
        Ok(())
    }

    /// Returns true if the provider has this type with all that belongs to it: another
    /// implementation, or another library, registered it.
    pub(crate) fn is_registered(&self) -> bool {
        TypeInfo::find(self.index.get()).is_some_and(|info| info.metadata().is_some())
    }

    /// Registers metadata, fields, methods and attributes.
    pub(crate) fn register(&'static self) -> Result<()> {
        let api = provider::api();
        let index = self.index.get();
        // SAFETY: all texts and values are valid for the calls; the tables copy texts and take
        // references of their own.
        unsafe {
            for field in self.fields {
                let metadata = type_schema_json(field.schema);
                let info = TVMFFIFieldInfo {
                    name: TVMFFIByteArray::new(field.name.as_bytes()),
                    doc: TVMFFIByteArray::new(field.doc.as_bytes()),
                    metadata: TVMFFIByteArray::new(metadata.as_bytes()),
                    flags: field.flags,
                    size: field.size,
                    alignment: field.align,
                    offset: field.offset,
                    getter: Some(field.getter),
                    setter: field.setter as *mut c_void,
                    default_value_or_factory: field.default,
                    field_static_type_index: field.static_type_index,
                };
                Error::check((api.type_register_field)(index, &info))?;
            }
            for method in self.methods {
                method.register(index)?;
            }
            if let Some(metadata) = &self.metadata {
                let metadata = TVMFFITypeMetadata {
                    doc: TVMFFIByteArray::EMPTY,
                    creator: metadata.creator,
                    total_size: metadata.total_size,
                    structural_eq_hash_kind: metadata.structural_kind,
                };
                Error::check((api.type_register_metadata)(index, &metadata))?;
            }
            for (column, value) in self.attrs {
                value.register(index, column)?;
            }
        }
        Ok(())
    }
}

impl BuiltinMethod {
    fn register(&'static self, index: i32) -> Result<()> {
        let builtin = &self.function;
        let name = builtin.name.rsplit('.').next().unwrap_or_default();
        let metadata = builtin.signature.metadata_json();
        let function = builtin.new_object();
        let info = TVMFFIMethodInfo {
            name: TVMFFIByteArray::new(name.as_bytes()),
            doc: TVMFFIByteArray::new(self.doc.as_bytes()),
            metadata: TVMFFIByteArray::new(metadata.as_bytes()),
            flags: if self.is_static { field_flag::IS_STATIC_METHOD } else { 0 },
            method: TVMFFIAny::pointer(type_index::FUNCTION, function.cast()),
        };
        // SAFETY: all texts are valid for the call; the table takes a reference of its own, and
        // ours is released.
        unsafe {
            let status = (provider::api().type_register_method)(index, &info);
            embedded::dec_ref(function);
            Error::check(status)
        }
    }
}

impl Attr {
    /// Registers the value for a type.
    pub(crate) fn register(&'static self, index: i32, column: &str) -> Result<()> {
        match self {
            Self::Function(builtin) => {
                let function = builtin.new_object();
                let outcome = register_value(index, column, &TVMFFIAny::pointer(type_index::FUNCTION, function.cast()));
                // SAFETY: the table has taken a reference of its own; this one is ours.
                unsafe { embedded::dec_ref(function) };
                outcome
            }
            Self::Native(function) => {
                register_value(index, column, &TVMFFIAny::pointer(type_index::OPAQUE_PTR, function.cast_mut()))
            }
            Self::Flag(flag) => {
                let value = TVMFFIAny { type_index: type_index::BOOL, ..TVMFFIAny::int(i64::from(*flag)) };
                register_value(index, column, &value)
            }
        }
    }
}

fn register_value(index: i32, column: &str, value: &TVMFFIAny) -> Result<()> {
    let column = TVMFFIByteArray::new(column.as_bytes());
    // SAFETY: name and value are valid for the call; the callers pass a live function or a plain
    // value.
    Error::check(unsafe { (provider::api().type_register_attr)(index, &column, value) })
}
