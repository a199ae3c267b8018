//! Fields and properties of objects, as attributes of their classes.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};

use kernpack_core::abi::{TVMFFIObject, field_flag, type_index};
use kernpack_core::generated_code::{FieldDef, FunctionRole, MethodDef, TextInPlace};
use kernpack_core::reflect::{Field, Method, TypeInfo};
use kernpack_core::value::{Storage, TypeSchema, type_key};

use super::declared::{blocks, declared, own_field};
use crate::call::function::run_in_general;
use crate::call::given::Given;
use crate::convert::from_python;
use crate::convert::to_python;
use crate::cpython::capi::{Py, PyGetSet, PyObject};
use crate::cpython::exception;
use crate::cpython::heap_type::leaked;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::pending;
use crate::cpython::state::State;
use crate::instance::table::{self, object_of};
use crate::signature::callable::{Callable, Origin};
use crate::signature::wanted::Wanted;

/// The attributes of the class of a type with this key: its fields and properties, and its setters.
pub(crate) fn attributes(py: Py, info: TypeInfo, key: &str) -> PyResult<Vec<PyGetSet>> {
    let mut setters = setters(py, info, key)?;
    let mut all = Vec::new();
    for field in info.own_fields() {
        let name = field.name();
        let place = setters.iter().position(|(_, setter)| setter.name == name);
        let (doc, setter) = place.map(|place| setters.swap_remove(place)).unzip();
        all.push(Property::new(py, info, key, field, setter).attribute(doc.as_deref().unwrap_or_default()));
    }
    for (doc, setter) in setters {
        // The field or property of an ancestor; without one the attribute can only be written.
        let field = info
            .lineage()
            .find_map(|owner| owner.own_fields().find(|field| field.name() == setter.name).map(|field| (owner, field)));
        all.push(match field {
            Some((owner, field)) => Property::new(py, info, &owner.key(), field, Some(setter)).attribute(&doc),
            None => PyGetSet {
                name: leaked(&setter.name),
                get: None,
                set: Some(Setter::set),
                doc: leaked(&doc),
                closure: Box::into_raw(Box::new(setter)).cast(),
            },
        });
    }
    Ok(all)
}

/// The setters of a type with this key, with their documentation.
fn setters(py: Py, info: TypeInfo, key: &str) -> PyResult<Vec<(String, Setter)>> {
    let attribute = |method: &str| method.strip_prefix("set_").unwrap_or(method).to_owned();
    let mut all = Vec::new();
    for member in blocks(py, key) {
        if let MethodDef::Method { name, info, .. } = *member
            && info.role == FunctionRole::Setter
        {
            let module = &State::get(py).module;
            let callable = Callable::new(py, info, module, vec![name.to_owned()], Origin::Function)?;
            let write = Write::Own(Box::new(callable));
            all.push((info.doc.to_owned(), Setter { name: attribute(name), write }));
        }
    }
    for method in info.own_methods().filter(|method| is_setter(*method)) {
        let name = attribute(&String::from_utf8_lossy(method.name_bytes()));
        if let Some(object) = method.value().object().filter(|_| all.iter().all(|(_, known)| known.name != name)) {
            // SAFETY: the type table keeps the function and the text forever.
            let (write, doc) = unsafe { (to_python::function(py, object)?, method.as_raw().doc.as_slice()) };
            let doc = String::from_utf8_lossy(doc).into_owned();
            all.push((doc, Setter { name, write: Write::Other(write.into_ptr()) }));
        }
    }
    Ok(all)
}

/// Returns true if a method writes an attribute of its object.
pub(crate) fn is_setter(method: Method) -> bool {
    const MEMBER: &[u8] = b",\"setter\":true";
    // SAFETY: the type table keeps the text forever.
    let metadata = unsafe { method.as_raw().metadata.as_slice() };
    method.value().type_index() == type_index::FUNCTION && metadata.windows(MEMBER.len()).any(|part| part == MEMBER)
}

/// The setter of an attribute.
struct Setter {
    /// The name of the attribute.
    name: String,
    write: Write,
}

/// The function that writes an attribute. It gets the object and the value.
enum Write {
    /// A function of this artifact.
    Own(Box<Callable>),
    /// Another library's function, as a Python object that lives forever.
    Other(*mut PyObject),
}

impl Setter {
    /// # Safety
    /// `this` is alive and of a class derived from the base; the value is alive, or NULL, which
    /// stands for a deletion.
    #[inline(never)]
    unsafe fn call(&self, py: Py, this: *mut PyObject, value: *mut PyObject) -> PyResult<()> {
        // SAFETY: promised by the caller; the arguments live for the call.
        unsafe {
            if value.is_null() {
                let text = format!("property '{}' of '{}' object has no deleter", self.name, py.class_name(this));
                return Err(py.raise(py.PyExc_AttributeError(), &text));
            }
            let values = [value];
            let given = Given::behind(this, Given::new(values.as_ptr(), 1, ptr::null_mut()));
            match &self.write {
                Write::Own(callable) => run_in_general(py, callable, given).map(drop),
                Write::Other(function) => given.call_behind(py, *function, None).map(drop),
            }
        }
    }

    /// The setter of attributes that can only be written.
    unsafe extern "C" fn set(this: *mut PyObject, value: *mut PyObject, setter: *mut c_void) -> c_int {
        // SAFETY: the interpreter calls with its lock held, for an object of the class or one
        // derived from it; the closure is a setter.
        let done = unsafe { (*setter.cast::<Self>()).call(Py::held(), this, value) };
        if done.is_ok() { 0 } else { -1 }
    }
}

/// A field, for its getter and setter.
struct Property {
    field: Field,
    ty: &'static TypeSchema,
    wanted: Wanted,
    read: Read,
    owner: Owner,
    setter: Option<Setter>,
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
    /// Creates the property of a type for a field of the type or ancestor with this key.
    fn new(py: Py, info: TypeInfo, key: &str, field: Field, setter: Option<Setter>) -> Self {
        let name = field.name();
        let read = own_field(py, key, &name).map_or(Read::Getter, Read::of);
        let ty = declared(py, key, &name);
        // The setter gets a value of its own, which is not lent.
        let wanted = Wanted { lends_text: false, ..Wanted::field(ty) };
        Self { ty, wanted, field, read, owner: Owner::new(info.index()), setter }
    }

    /// Returns the attribute of the class, which lives forever; `more` is documentation for a field
    /// without one.
    fn attribute(self, more: &str) -> PyGetSet {
        // SAFETY: the table keeps the text forever.
        let doc = String::from_utf8_lossy(unsafe { self.field.as_raw().doc.as_slice() });
        PyGetSet {
            name: leaked(&self.field.name()),
            get: Some(Self::get),
            set: match self.setter {
                Some(_) => Some(Self::set_by_method),
                None => self.field.has(field_flag::WRITABLE).then_some(Self::set as _),
            },
            doc: leaked(if doc.is_empty() { more } else { &doc }),
            closure: Box::into_raw(Box::new(self)).cast(),
        }
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
        match pending::or(unsafe { self.field.get(object) }) {
            Ok(value) => to_python::value(py, value, self.ty),
            Err(error) => Err(exception::raise(py, &error)),
        }
    }

    /// The getter of all fields.
    unsafe extern "C" fn get(this: *mut PyObject, property: *mut c_void) -> *mut PyObject {
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
    unsafe extern "C" fn set(this: *mut PyObject, value: *mut PyObject, property: *mut c_void) -> c_int {
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
                let converted = from_python::value(py, value, &property.wanted)?;
                pending::or(property.field.set(object, converted.as_view()))
                    .map_err(|error| exception::raise(py, &error))
            })()
        };
        if done.is_ok() { 0 } else { -1 }
    }

    /// The setter of attributes that a method writes.
    unsafe extern "C" fn set_by_method(this: *mut PyObject, value: *mut PyObject, property: *mut c_void) -> c_int {
        // SAFETY: as for `get`; NULL stands for a deletion.
        let done = unsafe {
            let property = &*property.cast::<Self>();
            property.setter.as_ref().map_or(Ok(()), |setter| setter.call(Py::held(), this, value))
        };
        if done.is_ok() { 0 } else { -1 }
    }
}
