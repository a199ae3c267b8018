use core::ffi::c_void;

use super::{TVMFFIAny, TVMFFIByteArray, TVMFFIObjectHandle, assert_layout};

/// Reads a field: `field` is the field's address, `result` receives an owned value.
pub type TVMFFIFieldGetter = unsafe extern "C" fn(field: *mut c_void, result: *mut TVMFFIAny) -> i32;

/// Writes a field: `field` is the field's address, `value` is a view.
pub type TVMFFIFieldSetter = unsafe extern "C" fn(field: *mut c_void, value: *const TVMFFIAny) -> i32;

/// Creates an empty instance of a type.
pub type TVMFFIObjectCreator = unsafe extern "C" fn(result: *mut TVMFFIObjectHandle) -> i32;

/// A field that any language can read. All strings are UTF-8.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFIFieldInfo {
    /// Name.
    pub name: TVMFFIByteArray,
    /// Documentation.
    pub doc: TVMFFIByteArray,
    /// JSON object with the type schema.
    pub metadata: TVMFFIByteArray,
    /// Bits of [`field_flag`].
    pub flags: i64,
    /// Size in bytes.
    pub size: i64,
    /// Alignment in bytes.
    pub alignment: i64,
    /// Offset in bytes from the object's handle.
    pub offset: i64,
    /// Reads the field.
    pub getter: Option<TVMFFIFieldGetter>,
    /// A [`TVMFFIFieldSetter`], or a function object when [`field_flag::SETTER_IS_FUNCTION_OBJ`] is
    /// set.
    pub setter: *mut c_void,
    /// Default value, or its factory.
    pub default_value_or_factory: TVMFFIAny,
    /// Declared type if it has a static index; else [`super::type_index::ANY`] or an object's
    /// index.
    pub field_static_type_index: i32,
}

/// Bits of a field's or method's `flags`.
pub mod field_flag {
    /// May be set after construction.
    pub const WRITABLE: i64 = 1;
    /// Has a default.
    pub const HAS_DEFAULT: i64 = 1 << 1;
    /// The method does not take `self`.
    pub const IS_STATIC_METHOD: i64 = 1 << 2;
    /// Ignored by structural equality and hash.
    pub const SEQ_HASH_IGNORE: i64 = 1 << 3;
    /// Enters a pattern definition region.
    pub const SEQ_HASH_DEF_PATTERN: i64 = 1 << 4;
    /// The default is the result of calling a function.
    pub const DEFAULT_FROM_FACTORY: i64 = 1 << 5;
    /// Not shown by repr.
    pub const REPR_OFF: i64 = 1 << 6;
    /// Not compared.
    pub const COMPARE_OFF: i64 = 1 << 7;
    /// Not hashed.
    pub const HASH_OFF: i64 = 1 << 8;
    /// Not a parameter of the generated constructor.
    pub const INIT_OFF: i64 = 1 << 9;
    /// Keyword-only in the generated constructor.
    pub const KW_ONLY: i64 = 1 << 10;
    /// The setter is a function object.
    pub const SETTER_IS_FUNCTION_OBJ: i64 = 1 << 11;
    /// Enters a simple definition region.
    pub const SEQ_HASH_DEF_SIMPLE: i64 = 1 << 12;
}

/// Values of [`TVMFFITypeMetadata::structural_eq_hash_kind`].
pub mod seq_hash_kind {
    /// No structural equality.
    pub const UNSUPPORTED: i32 = 0;
    /// Compared as a tree node.
    pub const TREE_NODE: i32 = 1;
    /// A free variable.
    pub const FREE_VAR: i32 = 2;
    /// Compared as a node of a directed acyclic graph.
    pub const DAG_NODE: i32 = 3;
    /// A tree node without free variables.
    pub const CONST_TREE_NODE: i32 = 4;
    /// Compared by address.
    pub const UNIQUE_INSTANCE: i32 = 5;
}

/// A method that any language can call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFIMethodInfo {
    /// Name.
    pub name: TVMFFIByteArray,
    /// Documentation.
    pub doc: TVMFFIByteArray,
    /// JSON object with the type schema.
    pub metadata: TVMFFIByteArray,
    /// Bits of [`field_flag`].
    pub flags: i64,
    /// The function; its first argument is the object unless static.
    pub method: TVMFFIAny,
}

/// Metadata that a type registers about itself.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFITypeMetadata {
    /// Documentation.
    pub doc: TVMFFIByteArray,
    /// Creates an empty instance; may be NULL.
    pub creator: Option<TVMFFIObjectCreator>,
    /// Size of the object in bytes including the header; 0 if unknown.
    pub total_size: i32,
    /// One of [`seq_hash_kind`].
    pub structural_eq_hash_kind: i32,
}

/// A type's record in the type table. Its address never changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFITypeInfo {
    /// Run-time index.
    pub type_index: i32,
    /// Number of ancestors.
    pub type_depth: i32,
    /// Unique name.
    pub type_key: TVMFFIByteArray,
    /// `type_depth` ancestors, root first.
    pub type_ancestors: *const *const TVMFFITypeInfo,
    /// Hash of the key (libstdc++ `std::hash<string_view>`).
    pub type_key_hash: u64,
    /// Number of own fields.
    pub num_fields: i32,
    /// Number of own methods.
    pub num_methods: i32,
    /// Own fields.
    pub fields: *const TVMFFIFieldInfo,
    /// Own methods.
    pub methods: *const TVMFFIMethodInfo,
    /// NULL until registered.
    pub metadata: *const TVMFFITypeMetadata,
}

/// One attribute of all types, indexed by type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFITypeAttrColumn {
    /// Value of type `begin_index + i` at `data[i]`.
    pub data: *const TVMFFIAny,
    /// Number of values.
    pub size: i32,
    /// Type of the first value.
    pub begin_index: i32,
}

assert_layout!(TVMFFIFieldInfo, size = 120, align = 8, {
    name @ 0, doc @ 16, metadata @ 32, flags @ 48, size @ 56, alignment @ 64, offset @ 72, getter @ 80, setter @ 88,
    default_value_or_factory @ 96, field_static_type_index @ 112,
});
assert_layout!(TVMFFIMethodInfo, size = 72, align = 8, { name @ 0, doc @ 16, metadata @ 32, flags @ 48, method @ 56 });
assert_layout!(TVMFFITypeMetadata, size = 32, align = 8, {
    doc @ 0, creator @ 16, total_size @ 24, structural_eq_hash_kind @ 28,
});
assert_layout!(TVMFFITypeInfo, size = 72, align = 8, {
    type_index @ 0, type_depth @ 4, type_key @ 8, type_ancestors @ 24, type_key_hash @ 32, num_fields @ 40,
    num_methods @ 44, fields @ 48, methods @ 56, metadata @ 64,
});
assert_layout!(TVMFFITypeAttrColumn, size = 16, align = 8, { data @ 0, size @ 8, begin_index @ 12 });
