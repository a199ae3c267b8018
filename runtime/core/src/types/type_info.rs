use core::ffi::c_void;

use crate::abi::{
    SafeCall, TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFIFieldSetter, TVMFFIFunctionCell, TVMFFIMethodInfo,
    TVMFFIObject, TVMFFITypeInfo, TVMFFITypeMetadata, field_flag, type_index,
};
use crate::value::{Any, AnyView};
use crate::{Error, Result, embedded, provider};

/// A registered type. Types live as long as the process.
#[derive(Clone, Copy)]
pub struct TypeInfo {
    raw: &'static TVMFFITypeInfo,
}

/// A field of a registered type.
#[derive(Clone, Copy)]
pub struct Field {
    raw: &'static TVMFFIFieldInfo,
}

/// The fields of a type, those of its ancestors first: an iterator that a visitor can keep on a
/// stack.
#[derive(Clone)]
pub struct Fields {
    info: TypeInfo,
    /// Depth of the next type in the lineage; the type itself comes last.
    depth: i32,
    /// Remaining fields of the ancestor at the previous depth.
    own: core::slice::Iter<'static, TVMFFIFieldInfo>,
}

/// A method of a registered type.
#[derive(Clone, Copy)]
pub struct Method {
    raw: &'static TVMFFIMethodInfo,
}

// SAFETY: the records live forever. Any thread may look up a type, so sending one does not give
// access to anything else.
unsafe impl Send for TypeInfo {}
// SAFETY: as above.
unsafe impl Sync for TypeInfo {}
// SAFETY: as above.
unsafe impl Send for Field {}
// SAFETY: as above.
unsafe impl Sync for Field {}
// SAFETY: as above.
unsafe impl Send for Fields {}
// SAFETY: as above.
unsafe impl Sync for Fields {}
// SAFETY: as above.
unsafe impl Send for Method {}
// SAFETY: as above.
unsafe impl Sync for Method {}

impl TypeInfo {
    /// The type with this index, if there is one.
    #[inline]
    pub fn find(index: i32) -> Option<Self> {
        // The stock library ends the process if the index is not registered.
        if index < 0 {
            return None;
        }
        // SAFETY: the returned record lives forever.
        unsafe { (provider::api().get_type_info)(index).as_ref() }.map(|raw| Self { raw })
    }

    /// Returns the type with this key.
    ///
    /// # Errors
    /// Returns an InternalError if it does not exist.
    pub fn by_key(key: &[u8]) -> Result<Self> {
        let mut index = 0;
        // SAFETY: the key is valid for the call and `index` is writable.
        Error::check(unsafe { (provider::api().type_key_to_index)(&TVMFFIByteArray::new(key), &mut index) })?;
        Self::find(index).ok_or_else(|| crate::error!(InternalError, "type index {index} is not registered"))
    }

    /// Wraps a record.
    ///
    /// # Safety
    /// The record belongs to the type table and lives forever, with everything that it points to.
    #[doc(hidden)]
    pub const unsafe fn from_raw(raw: &'static TVMFFITypeInfo) -> Self {
        Self { raw }
    }

    /// The ABI's record.
    pub const fn as_raw(self) -> &'static TVMFFITypeInfo {
        self.raw
    }

    /// Run-time index.
    pub const fn index(self) -> i32 {
        self.raw.type_index
    }

    /// The unique key, as bytes: keys of other languages are not checked to be UTF-8.
    pub const fn key_bytes(self) -> &'static [u8] {
        // SAFETY: the table keeps keys forever.
        unsafe { self.raw.type_key.as_slice() }
    }

    /// The unique key as a string.
    pub fn key(self) -> std::borrow::Cow<'static, str> {
        String::from_utf8_lossy(self.key_bytes())
    }

    /// Number of ancestors.
    pub const fn depth(self) -> i32 {
        self.raw.type_depth
    }

    /// Returns the ancestor at this depth; 0 is the root.
    pub fn ancestor(self, depth: i32) -> Option<Self> {
        if depth < 0 || depth >= self.raw.type_depth {
            return None;
        }
        // SAFETY: a type has `type_depth` ancestors, which live forever.
        unsafe { (*self.raw.type_ancestors.add(depth as usize)).as_ref() }.map(|raw| Self { raw })
    }

    /// Returns whether objects of this type are also of type `other`.
    pub fn is_a(self, other: i32) -> bool {
        if self.raw.type_index == other {
            return true;
        }
        (0..self.raw.type_depth)
            .rev()
            .filter_map(|depth| self.ancestor(depth))
            .any(|ancestor| ancestor.index() == other)
    }

    /// The metadata that the type registered about itself.
    pub fn metadata(self) -> Option<&'static TVMFFITypeMetadata> {
        // SAFETY: NULL, or a record that lives forever.
        unsafe { self.raw.metadata.as_ref() }
    }

    /// One of [`crate::abi::seq_hash_kind`]; 0 without metadata.
    pub fn structural_kind(self) -> i32 {
        self.metadata().map_or(0, |metadata| metadata.structural_eq_hash_kind)
    }

    /// The type's own fields, without those of its ancestors.
    pub fn own_fields(self) -> impl DoubleEndedIterator<Item = Field> + ExactSizeIterator {
        let raw = self.raw;
        // SAFETY: the table keeps fields forever, and the count says how many there are.
        let fields: &'static [TVMFFIFieldInfo] = unsafe { slice(raw.fields, raw.num_fields) };
        fields.iter().map(|raw| Field { raw })
    }

    /// All fields, those of the ancestors first.
    pub fn fields(self) -> Fields {
        Fields { info: self, depth: 1, own: [].iter() }
    }

    /// The ancestors below the root of all objects, then the type itself.
    pub fn lineage(self) -> impl Iterator<Item = Self> {
        (1..self.raw.type_depth).filter_map(move |depth| self.ancestor(depth)).chain([self])
    }

    /// The type's own methods, without those of its ancestors.
    pub fn own_methods(self) -> impl ExactSizeIterator<Item = Method> {
        let raw = self.raw;
        // SAFETY: the table keeps methods forever, and the count says how many there are.
        let methods: &'static [TVMFFIMethodInfo] = unsafe { slice(raw.methods, raw.num_methods) };
        methods.iter().map(|raw| Method { raw })
    }
}

impl Fields {
    /// The type whose fields these are.
    pub const fn type_info(&self) -> TypeInfo {
        self.info
    }
}

impl Iterator for Fields {
    type Item = Field;

    #[inline]
    fn next(&mut self) -> Option<Field> {
        loop {
            if let Some(raw) = self.own.next() {
                return Some(Field { raw });
            }
            let TVMFFITypeInfo { fields, num_fields, .. } = match self.depth.cmp(&self.info.depth().max(1)) {
                core::cmp::Ordering::Less => *self.info.ancestor(self.depth)?.raw,
                core::cmp::Ordering::Equal => *self.info.raw,
                core::cmp::Ordering::Greater => return None,
            };
            // SAFETY: the table keeps fields forever, and the count says how many there are.
            self.own = unsafe { slice(fields, num_fields) }.iter();
            self.depth += 1;
        }
    }
}

/// # Safety
/// `data` has `count` elements that live forever, or `count` is not positive.
unsafe fn slice<T>(data: *const T, count: i32) -> &'static [T] {
    match usize::try_from(count) {
        // SAFETY: promised by the caller.
        Ok(count) if count > 0 && !data.is_null() => unsafe { core::slice::from_raw_parts(data, count) },
        _ => &[],
    }
}

impl Field {
    /// The ABI's record.
    pub const fn as_raw(self) -> &'static TVMFFIFieldInfo {
        self.raw
    }

    /// Name, as bytes: names of other languages are not checked to be UTF-8.
    pub const fn name_bytes(self) -> &'static [u8] {
        // SAFETY: the table keeps names forever.
        unsafe { self.raw.name.as_slice() }
    }

    /// Name as a string.
    pub fn name(self) -> std::borrow::Cow<'static, str> {
        String::from_utf8_lossy(self.name_bytes())
    }

    /// The metadata that the type registered for the field: a JSON object with the type schema.
    pub const fn metadata_bytes(self) -> &'static [u8] {
        // SAFETY: the table keeps metadata forever.
        unsafe { self.raw.metadata.as_slice() }
    }

    /// Returns whether all of these bits of [`field_flag`] are set.
    pub const fn has(self, flags: i64) -> bool {
        self.raw.flags & flags == flags
    }

    /// Returns the field's address in an object.
    ///
    /// # Safety
    /// `object` is an instance of a type that has this field.
    pub const unsafe fn address(self, object: *mut TVMFFIObject) -> *mut c_void {
        // SAFETY: promised by the caller: the offset is inside the object.
        unsafe { object.byte_add(self.raw.offset as usize).cast() }
    }

    /// Returns the field's value.
    ///
    /// # Errors
    /// Returns the getter's error, or a TypeError if the field has no getter.
    ///
    /// # Safety
    /// `object` is alive, and its type has this field.
    pub unsafe fn get(self, object: *mut TVMFFIObject) -> Result<Any> {
        let Some(getter) = self.raw.getter else {
            return Err(crate::error!(TypeError, "field '{}' cannot be read", self.name()));
        };
        let mut value = TVMFFIAny::NONE;
        // SAFETY: promised by the caller; on success `value` is an owned value.
        unsafe {
            Error::check(getter(self.address(object), &mut value))?;
            Ok(Any::from_raw(value))
        }
    }

    /// Sets the field through the setter, which checks and converts the value.
    ///
    /// # Errors
    /// Returns the setter's error, or a TypeError if the field has no setter.
    ///
    /// # Safety
    /// `object` is alive, its type has this field, and no other code uses the object: it is under
    /// construction.
    pub unsafe fn set(self, object: *mut TVMFFIObject, value: &AnyView<'_>) -> Result<()> {
        let setter = self.raw.setter;
        if setter.is_null() {
            return Err(crate::error!(TypeError, "field '{}' cannot be set", self.name()));
        }
        // SAFETY: promised by the caller; the flag says which of the two kinds of setters this is.
        unsafe {
            let field = self.address(object);
            if !self.has(field_flag::SETTER_IS_FUNCTION_OBJ) {
                let setter: TVMFFIFieldSetter = core::mem::transmute(setter);
                return Error::check(setter(field, value.as_raw()));
            }
            let args = [TVMFFIAny::pointer(type_index::OPAQUE_PTR, field), *value.as_raw()];
            call_function(setter.cast(), &args).map(drop)
        }
    }

    /// Sets the field to its default, or to the result of its default factory. Returns false if it
    /// has neither.
    ///
    /// # Errors
    /// Returns the error of the factory or of the setter.
    ///
    /// # Safety
    /// As for [`Field::set`].
    pub unsafe fn set_default(self, object: *mut TVMFFIObject) -> Result<bool> {
        if !self.has(field_flag::HAS_DEFAULT) {
            return Ok(false);
        }
        let default = &self.raw.default_value_or_factory;
        // SAFETY: the table owns the default, and a default that is a factory is a function; the
        // caller promises the rest.
        unsafe {
            if self.has(field_flag::DEFAULT_FROM_FACTORY) {
                let value = call_function(default.payload.v_obj, &[])?;
                self.set(object, value.as_view())?;
            } else {
                self.set(object, &AnyView::from_raw(*default))?;
            }
        }
        Ok(true)
    }
}

impl Method {
    /// The ABI's record.
    pub const fn as_raw(self) -> &'static TVMFFIMethodInfo {
        self.raw
    }

    /// Name, as bytes: names of other languages are not checked to be UTF-8.
    pub const fn name_bytes(self) -> &'static [u8] {
        // SAFETY: the table keeps names forever.
        unsafe { self.raw.name.as_slice() }
    }

    /// The function, or any other value that the type registered under this name.
    pub const fn value(self) -> AnyView<'static> {
        // SAFETY: the table owns the value forever.
        unsafe { AnyView::from_raw(self.raw.method) }
    }
}

/// Calls a function object with raw views.
///
/// # Errors
/// Returns the error that the function raised.
///
/// # Safety
/// `function` is a live function object, and the arguments are valid views.
#[doc(hidden)]
pub unsafe fn call_function(function: *mut TVMFFIObject, args: &[TVMFFIAny]) -> Result<Any> {
    // SAFETY: promised by the caller; on success `result` is an owned value.
    unsafe {
        let call: Option<SafeCall> = embedded::body::<TVMFFIFunctionCell>(function).safe_call;
        let Some(call) = call else {
            return Err(crate::error!(InternalError, "a function object has no entry point"));
        };
        let mut result = TVMFFIAny::NONE;
        Error::check(call(function.cast(), args.as_ptr(), args.len() as i32, &mut result))?;
        Ok(Any::from_raw(result))
    }
}
