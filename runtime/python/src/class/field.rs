//! Fields and properties of objects, as attributes of their classes.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};

use kernpack_core::abi::TVMFFIObject;
use kernpack_core::generated_code::{FieldDef, TextInPlace};
use kernpack_core::reflect::{Field, TypeInfo};
use kernpack_core::value::{Storage, TypeSchema, type_key};

use super::declared::{declared, own_field};
use crate::convert::from_python::result_as;
use crate::convert::to_python;
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::exception;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::instance::table::{self, object_of};
use crate::signature::wanted::Wanted;

/// A field, for its getter and setter.
pub(crate) struct Property {
    field: Field,
    ty: &'static TypeSchema,
    wanted: Wanted,
    read: Read,
    owner: Owner,
}

/// The type that a field belongs to. The object behind a Python object determines its type index;
/// the Python class does not: Python code may change it, and derive one class from several.
struct Owner {
    index: i32,
    /// The last seen derived type; the type itself before the first one.
    derived: AtomicI32,
}

impl Owner {
    fn new(index: i32) -> Self {
        Self { index, derived: AtomicI32::new(index) }
    }

    /// Returns true if objects of a type have the field.
    #[inline]
    fn is_of(&self, index: i32) -> bool {
        index == self.index || index == self.derived.load(Ordering::Relaxed) || self.is_derived(index)
    }

    #[cold]
    fn is_derived(&self, index: i32) -> bool {
        let is_derived = table::is_a(index, self.index);
        if is_derived {
            self.derived.store(index, Ordering::Relaxed);
        }
        is_derived
    }
}

/// The way in which a field is read.
#[derive(Clone, Copy)]
enum Read {
    /// By its getter.
    Getter,
    /// An `i64`, at this many bytes from the object.
    Int(usize),
    /// An `f64`.
    Float(usize),
    /// A text.
    Text(usize, TextInPlace),
}

impl Read {
    /// Plain numbers and texts of this artifact's types are read in place.
    fn of(def: &FieldDef) -> Self {
        match (def.storage, def.ty.key, def.size, def.text) {
            (Storage::Plain, "int", 8, _) if !def.is_unsigned => Self::Int(def.offset),
            (Storage::Plain, "float", 8, _) => Self::Float(def.offset),
            (.., Some(text)) => Self::Text(def.offset, text),
            _ => Self::Getter,
        }
    }
}

impl Property {
    /// Creates the property for a field of a type with this key.
    pub(crate) fn new(py: Py, info: TypeInfo, key: &str, field: Field) -> Self {
        let name = field.name();
        let read = own_field(py, key, &name).map_or(Read::Getter, Read::of);
        let ty = declared(py, key, &name);
        Self { ty, wanted: Wanted::field(ty), field, read, owner: Owner::new(info.index()) }
    }

    /// The object behind a Python object, which has the field.
    ///
    /// # Safety
    /// `this` is alive and of a class derived from the base.
    #[inline]
    unsafe fn object(&self, py: Py, this: *mut PyObject) -> PyResult<*mut TVMFFIObject> {
        // SAFETY: promised by the caller; the object lives as long as the Python object.
        unsafe {
            let object = object_of(py, this)?;
            let index = (*object).type_index;
            if self.owner.is_of(index) { Ok(object) } else { Err(self.refuse(py, index)) }
        }
    }

    #[cold]
    fn refuse(&self, py: Py, index: i32) -> Raised {
        let (name, owner, own) = (self.field.name(), type_key(self.owner.index), type_key(index));
        let text = format!(
            "'{name}' belongs to objects of type {owner}, and this one is of type {own}: its Python class was changed, or is derived from \
             both; make an object of the class that the attribute is from"
        );
        py.raise(py.PyExc_TypeError(), &text)
    }

    /// The value of an object's field.
    ///
    /// # Safety
    /// The object is alive and of the type that has the field.
    #[inline]
    unsafe fn value(&self, py: Py, object: *mut TVMFFIObject) -> PyResult<Owned> {
        // SAFETY: promised by the caller; the definition determines the type at the offset, and
        // zeros are also valid for plain values. A number may be an atomic, which other threads
        // write. The text does not change as long as the object, which its Python object keeps, is
        // shared.
        unsafe {
            match self.read {
                Read::Int(offset) => {
                    let value = AtomicI64::from_ptr(object.byte_add(offset).cast()).load(Ordering::Relaxed);
                    Owned::take(py, py.PyLong_FromLongLong(value))
                }
                Read::Float(offset) => {
                    let bits = AtomicU64::from_ptr(object.byte_add(offset).cast()).load(Ordering::Relaxed);
                    Owned::take(py, py.PyFloat_FromDouble(f64::from_bits(bits)))
                }
                Read::Text(offset, text) => match text(object.byte_add(offset).cast()) {
                    Some(text) => py.new_text(&*text),
                    None => self.by_getter(py, object),
                },
                Read::Getter => self.by_getter(py, object),
            }
        }
    }

    /// # Safety
    /// As for [`Property::value`].
    unsafe fn by_getter(&self, py: Py, object: *mut TVMFFIObject) -> PyResult<Owned> {
        // SAFETY: promised by the caller.
        match unsafe { self.field.get(object) } {
            Ok(value) => to_python::value(py, value, self.ty),
            Err(error) => Err(exception::raise(py, &error)),
        }
    }

    /// The getter of all fields.
    pub(crate) unsafe extern "C" fn get(this: *mut PyObject, property: *mut c_void) -> *mut PyObject {
        // SAFETY: the interpreter calls with its lock held, for an object of the class or one
        // derived from it; the closure is a property.
        let value = unsafe {
            let py = Py::held();
            let property = &*property.cast::<Self>();
            property.object(py, this).and_then(|object| property.value(py, object))
        };
        value.map_or(ptr::null_mut(), Owned::into_ptr)
    }

    /// The setter of all fields that may be written.
    pub(crate) unsafe extern "C" fn set(this: *mut PyObject, value: *mut PyObject, property: *mut c_void) -> c_int {
        // SAFETY: as for `get`; NULL stands for a deletion. The field is one that may be written
        // while others use the object.
        let done = unsafe {
            let py = Py::held();
            let property = &*property.cast::<Self>();
            (|| {
                let object = property.object(py, this)?;
                if value.is_null() {
                    return Err(py.raise(py.PyExc_AttributeError(), "a field cannot be deleted"));
                }
                let converted = result_as(py, value, &property.wanted)?;
                property.field.set(object, converted.as_view()).map_err(|error| exception::raise(py, &error))
            })()
        };
        if done.is_ok() { 0 } else { -1 }
    }
}
