use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicI32, Ordering};

use crate::abi::{
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFITypeInfo, TVMFFITypeMetadata, seq_hash_kind, type_index,
};
use crate::function::guard_nameless;
use crate::value::{Any, IntoAny, Schema, TypeSchema};
use crate::{Error, Result, host};

/// An object type as `#[derive(Object)]` describes it.
pub struct TypeDef {
    /// Type key.
    pub key: &'static str,
    /// Type index of the base type.
    pub parent: fn() -> i32,
    /// Documentation.
    pub doc: &'static str,
    /// Size of the object in bytes, header included.
    pub size: usize,
    /// Readable fields.
    pub fields: &'static [FieldDef],
    /// A number made of the names and types of all fields, private ones too.
    pub fingerprint: u64,
    /// The index, once registered.
    pub index: TypeIndexCell,
    /// Crate that defines the type.
    pub crate_name: &'static str,
    /// Where the struct stands.
    pub file: &'static str,
    /// Where the struct stands.
    pub line: u32,
}

/// A readable field of an object type.
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
    /// Reads the field.
    pub getter: unsafe extern "C" fn(field: *mut c_void, result: *mut TVMFFIAny) -> i32,
}

/// A type that a readable field of an object may have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can not be a readable field of an object",
    label = "a public field must be `Clone` and convert to an FFI value",
    note = "make the field private, or use a type that converts: numbers, String, Option, Vec, Array<T>, Tensor, ObjRef<T>, ..."
)]
pub trait FieldValue: Schema {
    /// A copy of the field's value.
    fn field_value(&self) -> Any;
}

// One error for a type that does not fit, about this trait, in place of one for each bound.
#[diagnostic::do_not_recommend]
impl<T: IntoAny + Clone> FieldValue for T {
    fn field_value(&self) -> Any {
        self.clone().into_any()
    }
}

/// Reads a field of type `T`; the getter that generated code registers.
///
/// # Safety
/// `field` is the address of a live `T` and `result` is writable (the ABI's rule for getters).
pub unsafe extern "C" fn field_getter<T: FieldValue>(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    guard_nameless(|| {
        // SAFETY: promised by the caller.
        unsafe { result.write((*field.cast::<T>()).field_value().into_raw()) };
        Ok(())
    })
}

/// A type's index, filled in when the type is registered.
pub struct TypeIndexCell(AtomicI32);

impl TypeIndexCell {
    /// Not registered yet.
    #[expect(clippy::new_without_default, reason = "only generated code makes one, in a static")]
    pub const fn new() -> Self {
        Self(AtomicI32::new(-1))
    }
}

/// The type's index; binds this artifact to its host and registers the type when that has not happened.
#[inline]
pub fn type_index_of(def: &'static TypeDef) -> i32 {
    let index = def.index.0.load(Ordering::Acquire);
    if index >= 0 { index } else { register_late(def) }
}

#[cold]
fn register_late(def: &'static TypeDef) -> i32 {
    // Binding registers every type of this artifact, this one included, unless this call is part of that.
    host::api();
    if def.index.0.load(Ordering::Acquire) < 0 {
        // A problem was recorded where it was found; the index is valid even then.
        let _ = register_type(def);
    }
    def.index.0.load(Ordering::Acquire)
}

/// Registers a type with the host. A type that is there already with the same layout is joined.
///
/// # Errors
/// When the key is taken by a type of another layout; this artifact's type then gets a key of its own, so that objects of
/// the two are never confused.
pub(crate) fn register_type(def: &'static TypeDef) -> Result<()> {
    if def.index.0.load(Ordering::Acquire) >= 0 {
        return Ok(());
    }
    let parent = (def.parent)();
    let index = allocate(def.key, parent)?;
    // SAFETY: the index was just given out, so it is registered; descriptions live forever.
    let info = unsafe { (host::api().get_type_info)(index) };
    if info.is_null() {
        return Err(crate::error!(RuntimeError, "the host knows no type '{}' right after registering it", def.key));
    }
    // SAFETY: not NULL, lives forever.
    let info = unsafe { &*info };
    if info.metadata.is_null() && info.num_fields == 0 {
        register_content(def, index)?;
        def.index.0.store(index, Ordering::Release);
        return Ok(());
    }
    let Some(difference) = difference(def, info, parent) else {
        def.index.0.store(index, Ordering::Release);
        return Ok(());
    };
    let own = allocate(&format!("{}@{}:{}", def.key, def.file, def.line), parent)?;
    def.index.0.store(own, Ordering::Release);
    Err(crate::error!(
        TypeError,
        "type '{}' ({}:{}, crate {}) is already registered in this process with another layout: {difference}; give one of \
         them another key, or build both from the same version",
        def.key,
        def.file,
        def.line,
        def.crate_name
    ))
}

fn allocate(key: &str, parent: i32) -> Result<i32> {
    let api = host::api();
    // SAFETY: the parent is registered; all pointers live for the call.
    let index = unsafe {
        let depth = match (api.get_type_info)(parent) {
            info if info.is_null() => 1,
            info => (*info).type_depth + 1,
        };
        (api.type_get_or_alloc_index)(&TVMFFIByteArray::new(key.as_bytes()), -1, depth, 0, 1, parent)
    };
    if index < 0 {
        return Err(crate::error!(RuntimeError, "the host refused to register type '{key}'"));
    }
    Ok(index)
}

fn register_content(def: &'static TypeDef, index: i32) -> Result<()> {
    let api = host::api();
    for field in def.fields {
        let metadata = field_metadata(field);
        let info = TVMFFIFieldInfo {
            name: TVMFFIByteArray::new(field.name.as_bytes()),
            doc: TVMFFIByteArray::new(field.doc.as_bytes()),
            metadata: TVMFFIByteArray::new(metadata.as_bytes()),
            flags: 0,
            size: field.size as i64,
            alignment: field.align as i64,
            offset: field.offset as i64,
            getter: Some(field.getter),
            setter: ptr::null_mut(),
            default_value_or_factory: TVMFFIAny::NONE,
            field_static_type_index: static_type_index(field.ty.key),
        };
        // SAFETY: the host copies what it keeps; `info` and what it points to live for the call.
        Error::check(unsafe { (api.type_register_field)(index, &info) })?;
    }
    let metadata = TVMFFITypeMetadata {
        doc: TVMFFIByteArray::new(def.doc.as_bytes()),
        creator: None,
        total_size: def.size as i32,
        structural_eq_hash_kind: seq_hash_kind::UNSUPPORTED,
    };
    // SAFETY: as above.
    Error::check(unsafe { (api.type_register_metadata)(index, &metadata) })?;
    let fingerprint = TVMFFIAny::int(def.fingerprint as i64);
    // SAFETY: as above.
    Error::check(unsafe { (api.type_register_attr)(index, &FINGERPRINT.name(), &fingerprint) })
}

/// The type attribute that tells two Rust definitions of a type apart. Layouts that differ only in private fields, say `Vec<u8>`
/// and `[usize; 3]`, look the same in everything else that is registered.
struct Attribute(&'static str);

const FINGERPRINT: Attribute = Attribute("__kernpack_fingerprint__");

impl Attribute {
    fn name(&self) -> TVMFFIByteArray {
        TVMFFIByteArray::new(self.0.as_bytes())
    }

    /// The value of a registered type, if it is an integer.
    fn int_of(&self, index: i32) -> Option<i64> {
        // SAFETY: the name lives for the call; columns live forever and hold `size` values from type `begin_index` on.
        unsafe {
            let column = (host::api().get_type_attr_column)(&self.name()).as_ref()?;
            let offset = index.checked_sub(column.begin_index).filter(|offset| (0..column.size).contains(offset))?;
            let value = column.data.add(offset as usize).read();
            (value.type_index == type_index::INT).then_some(value.payload.v_int64)
        }
    }
}

/// The stock metadata of a field: a JSON object whose `type_schema` is a JSON string.
fn field_metadata(field: &FieldDef) -> String {
    let mut schema = String::new();
    field.ty.write_json(&mut schema);
    let mut metadata = String::from("{\"type_schema\":");
    crate::function::write_json_string(&mut metadata, &schema);
    metadata.push('}');
    metadata
}

/// The first difference between our type and the one registered under its key.
fn difference(def: &TypeDef, info: &TVMFFITypeInfo, parent: i32) -> Option<String> {
    // SAFETY: the description and its arrays live forever; counts say how long the arrays are.
    unsafe {
        let registered_parent = match info.type_depth {
            0 => -1,
            depth => (**info.type_ancestors.add(depth as usize - 1)).type_index,
        };
        if registered_parent != parent {
            return Some(format!("its parent has type index {registered_parent}, ours {parent}"));
        }
        if !info.metadata.is_null() && (*info.metadata).total_size != def.size as i32 {
            return Some(format!("it has {} bytes, ours {}", (*info.metadata).total_size, def.size));
        }
        if info.num_fields as usize != def.fields.len() {
            return Some(format!("it has {} fields, ours {}", info.num_fields, def.fields.len()));
        }
        for (i, ours) in def.fields.iter().enumerate() {
            let theirs = &*info.fields.add(i);
            let same = theirs.name.as_slice() == ours.name.as_bytes()
                && theirs.offset == ours.offset as i64
                && theirs.size == ours.size as i64;
            if !same {
                return Some(format!(
                    "field {i} is '{}' at offset {}, ours is '{}' at offset {}",
                    String::from_utf8_lossy(theirs.name.as_slice()),
                    theirs.offset,
                    ours.name,
                    ours.offset
                ));
            }
            if theirs.metadata.as_slice() != field_metadata(ours).as_bytes() {
                return Some(format!("field {i} ('{}') has another type", ours.name));
            }
        }
    }
    match FINGERPRINT.int_of(info.type_index) {
        Some(fingerprint) if fingerprint != def.fingerprint as i64 => {
            Some("its fields have other names or types, perhaps private ones".to_owned())
        }
        _ => None,
    }
}

/// The static index of a schema key: what serializers use to store plain values directly.
fn static_type_index(key: &str) -> i32 {
    match key {
        "int" => type_index::INT,
        "bool" => type_index::BOOL,
        "float" => type_index::FLOAT,
        "DataType" => type_index::DATA_TYPE,
        "Device" => type_index::DEVICE,
        "ffi.String" => type_index::STR,
        "ffi.Bytes" => type_index::BYTES,
        "ffi.Function" => type_index::FUNCTION,
        "ffi.Shape" => type_index::SHAPE,
        "ffi.Tensor" => type_index::TENSOR,
        "ffi.Array" | "Tuple" => type_index::ARRAY,
        "ffi.Map" => type_index::MAP,
        "ffi.Module" => type_index::MODULE,
        "Any" | "Optional" => type_index::ANY,
        _ => type_index::OBJECT,
    }
}
