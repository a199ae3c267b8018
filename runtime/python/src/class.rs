//! One Python class for each registered type, made when it is first needed from what the type table says: fields, methods, a constructor.

use core::cmp::Ordering;
use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use std::sync::{Mutex, PoisonError};

use kernpack_builtins::{reflect, structural};
use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, field_flag, type_index};
use kernpack_core::generated_code::{MethodDef, MethodsDef, ParamInfo};
use kernpack_core::reflect::{AttrColumn, Field, TypeInfo};
use kernpack_core::value::TypeSchema;
use kernpack_core::{Any, embedded};

use crate::arguments::Arguments;
use crate::capi::{Py, PyGetSet, PyMember, PyMethodDef, PyObject, Slot, constant};
use crate::function::{self, Shared, dealloc, leaked, new_class, new_class_of, pointer_place};
use crate::object::{Owned, PyResult, Raised};
use crate::state::State;
use crate::{exception, from_python, handle, to_python};

const ANY: TypeSchema = TypeSchema::new("Any");

/// The class of a type.
#[derive(Clone, Copy)]
struct Known {
    index: i32,
    class: *mut PyObject,
}

// SAFETY: the pointers are only used with the interpreter's lock, and the classes live forever.
unsafe impl Send for Known {}

/// The classes that were made. Nothing of Python runs while it is locked.
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

fn known(is_it: impl Fn(&Known) -> bool) -> Option<Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().find(is_it)
}

/// Makes the class that all others are derived from: an object and its weak references.
pub(crate) fn base(py: Py) -> PyResult<Owned> {
    static METHODS: Shared<[PyMethodDef; 2]> = Shared([
        PyMethodDef {
            name: c"__reduce__".as_ptr(),
            function: reduce as *const c_void,
            flags: constant::METH_NOARGS,
            doc: c"The class, and the values that its constructor takes.".as_ptr(),
        },
        PyMethodDef::END,
    ]);
    let members = [
        PyMember {
            name: c"__weaklistoffset__".as_ptr(),
            kind: constant::MEMBER_OFFSET,
            offset: (py.header() + size_of::<*mut c_void>()) as isize,
            flags: constant::MEMBER_READ_ONLY,
            doc: ptr::null(),
        },
        PyMember { name: ptr::null(), kind: 0, offset: 0, flags: 0, doc: ptr::null() },
    ];
    let slots = [
        Slot { id: constant::TP_DEALLOC, value: release as *const c_void },
        Slot { id: constant::TP_INIT, value: init as *const c_void },
        Slot { id: constant::TP_REPR, value: repr as *const c_void },
        Slot { id: constant::TP_HASH, value: hash as *const c_void },
        Slot { id: constant::TP_RICHCOMPARE, value: compare as *const c_void },
        Slot { id: constant::TP_METHODS, value: (&raw const METHODS.0).cast() },
        Slot { id: constant::TP_MEMBERS, value: members.as_ptr().cast() },
        Slot { id: constant::TP_DOC, value: c"An object of a Kernpack library.".as_ptr().cast() },
        Slot::END,
    ];
    let flags = constant::TPFLAGS_DEFAULT | constant::TPFLAGS_BASETYPE;
    new_class(py, c"kernpack.Object", 2 * size_of::<*mut c_void>(), flags, &slots)
}

/// The object behind a Python object of one of the classes, borrowed from it.
///
/// # Safety
/// `object` is alive and of a class derived from the base.
pub(crate) unsafe fn object_of(py: Py, object: *mut PyObject) -> PyResult<*mut TVMFFIObject> {
    // SAFETY: promised by the caller.
    let found = unsafe { (*pointer_place(py, object)).cast::<TVMFFIObject>() };
    if found.is_null() {
        let text = "the object is empty: its constructor was not called; a derived class calls super().__init__(...)";
        return Err(py.raise(py.PyExc_ValueError(), text));
    }
    Ok(found)
}

/// The Python object for an object, which holds a further reference to it.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn wrap(py: Py, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; an object of the class has its pointer behind the header.
    unsafe {
        let class = of_type(py, (*object).type_index)?;
        let wrapped = Owned::take(py, py.PyType_GenericAlloc(class, 0))?;
        embedded::inc_ref(object);
        *pointer_place(py, wrapped.as_ptr()) = object.cast();
        Ok(wrapped)
    }
}

/// The class of a type, borrowed; it lives forever.
pub(crate) fn of_type(py: Py, index: i32) -> PyResult<*mut PyObject> {
    if index == type_index::OBJECT {
        return Ok(State::get(py).object);
    }
    if let Some(known) = known(|known| known.index == index) {
        return Ok(known.class);
    }
    let Some(info) = TypeInfo::find(index) else {
        return Err(py.raise(py.PyExc_TypeError(), &format!("there is no type with the index {index}")));
    };
    let class = make(py, info)?.into_ptr();
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have made it while this one ran code of Python.
    if let Some(other) = all.iter().find(|known| known.index == index) {
        return Ok(other.class);
    }
    all.push(Known { index, class });
    Ok(class)
}

/// What the macros said about a type: the methods of this artifact.
fn blocks(py: Py, key: &str) -> impl Iterator<Item = &'static MethodDef> {
    let methods: &'static [MethodsDef] = State::get(py).collected.methods;
    methods.iter().filter(move |block| block.key == key).flat_map(|block| block.members)
}

/// The declared type of a field or property.
fn declared(py: Py, key: &str, name: &str) -> &'static TypeSchema {
    let types = State::get(py).collected.types;
    let mut fields = types.iter().filter(|def| def.key == key).flat_map(|def| def.fields);
    if let Some(field) = fields.find(|field| field.name == name) {
        return &field.ty;
    }
    for member in blocks(py, key) {
        if let MethodDef::Property { name: own, info, .. } = member
            && *own == name
        {
            return &info.ret;
        }
    }
    &ANY
}

/// The fields that the constructor made of the fields takes, those of the ancestors first.
fn init_fields(info: TypeInfo) -> impl Iterator<Item = Field> {
    info.fields().filter(|field| !field.has(field_flag::INIT_OFF))
}

/// The names of the constructor's parameters; `None` without a constructor.
fn parameters(py: Py, info: TypeInfo) -> Option<Vec<String>> {
    INIT.get(info.index())?;
    let declared: Option<&'static [ParamInfo]> = blocks(py, &info.key()).find_map(|member| match member {
        MethodDef::Constructor { info } => Some(info.params),
        _ => None,
    });
    Some(match declared {
        Some(params) => params.iter().map(|param| param.name.to_owned()).collect(),
        None => init_fields(info).map(|field| field.name().into_owned()).collect(),
    })
}

/// The constructor, as a type attribute.
static INIT: AttrColumn = AttrColumn::new("__ffi_init__");
static EQUAL: AttrColumn = AttrColumn::new("__ffi_eq__");
static COMPARE: AttrColumn = AttrColumn::new("__ffi_compare__");
static HASH: AttrColumn = AttrColumn::new("__ffi_hash__");

/// A field, for its getter and setter.
struct Property {
    field: Field,
    ty: &'static TypeSchema,
}

fn make(py: Py, info: TypeInfo) -> PyResult<Owned> {
    let key = info.key().into_owned();
    let name = key.rsplit('.').next().unwrap_or(&key).to_owned();
    let parent = match info.ancestor(info.depth() - 1) {
        Some(parent) => of_type(py, parent.index())?,
        None => State::get(py).object,
    };
    let mut properties: Vec<PyGetSet> = Vec::new();
    for field in info.own_fields() {
        let property = Property { field, ty: declared(py, &key, &field.name()) };
        // SAFETY: the table keeps the text forever.
        let doc = String::from_utf8_lossy(unsafe { field.as_raw().doc.as_slice() });
        properties.push(PyGetSet {
            name: leaked(&field.name()),
            get: Some(get_field),
            set: field.has(field_flag::WRITABLE).then_some(set_field),
            doc: leaked(&doc),
            closure: Box::into_raw(Box::new(property)).cast(),
        });
    }
    properties.push(PyGetSet::END);
    // SAFETY: the table keeps the text forever.
    let doc = info.metadata().map_or(&b""[..], |metadata| unsafe { metadata.doc.as_slice() });
    let doc = String::from_utf8_lossy(doc);
    let doc = match parameters(py, info) {
        Some(names) => format!("{name}({})\n--\n\n{doc}", names.join(", ")),
        None => doc.into_owned(),
    };
    let slots = [
        Slot { id: constant::TP_GETSET, value: Vec::leak(properties).as_ptr().cast() },
        Slot { id: constant::TP_DOC, value: leaked(&doc).cast() },
        Slot::END,
    ];
    let module = &State::get(py).module;
    // SAFETY: a C string that lives forever.
    let full_name = unsafe { CStr::from_ptr(leaked(&format!("{module}.{name}"))) };
    let flags = constant::TPFLAGS_DEFAULT | constant::TPFLAGS_BASETYPE;
    // SAFETY: the class of the parent lives forever.
    let bases = py.tuple([unsafe { Owned::share(py, parent) }])?;
    let class = new_class_of(py, full_name, 2 * size_of::<*mut c_void>(), flags, &slots, Some(&bases))?;
    // Where the module has it, for pickle.
    let module = py.text(module)?;
    let place = py.text(&path(py, &key).join("."))?;
    for (name, value) in [(c"__module__", &module), (c"__qualname__", &place)] {
        // SAFETY: all three are alive.
        if unsafe { py.PyObject_SetAttrString(class.as_ptr(), name.as_ptr(), value.as_ptr()) } != 0 {
            return Err(Raised);
        }
    }
    add_methods(py, info, &key, &class)?;
    Ok(class)
}

/// The attributes that lead from the module to the class of a type: its key without the module's own name in front.
pub(crate) fn path(py: Py, key: &str) -> Vec<&str> {
    let module = State::get(py).module.rsplit('.').next().unwrap_or_default();
    key.strip_prefix(module).and_then(|rest| rest.strip_prefix('.')).unwrap_or(key).split('.').collect()
}

/// Adds the methods of a type to its class: those of this artifact with names of parameters, others by position.
fn add_methods(py: Py, info: TypeInfo, key: &str, class: &Owned) -> PyResult<()> {
    let set = |name: &str, function: Owned, is_static: bool| -> PyResult<()> {
        let name = py.interned(name)?;
        // SAFETY: the function and the class are alive.
        unsafe {
            let attribute = match is_static {
                true => py.PyStaticMethod_New(function.as_ptr()),
                false => py.PyInstanceMethod_New(function.as_ptr()),
            };
            let attribute = Owned::take(py, attribute)?;
            match py.PyObject_SetAttr(class.as_ptr(), name.as_ptr(), attribute.as_ptr()) {
                0 => Ok(()),
                _ => Err(Raised),
            }
        }
    };
    let mut own = Vec::new();
    for member in blocks(py, key) {
        if let MethodDef::Method { name, info, is_static } = *member {
            set(name, function::method(py, info, name)?, is_static)?;
            own.push(name);
        }
    }
    for method in info.own_methods() {
        let name = String::from_utf8_lossy(method.name_bytes());
        let value = method.value();
        if name.starts_with("__ffi_") || own.contains(&&*name) || value.type_index() != type_index::FUNCTION {
            continue;
        }
        let Some(object) = value.object() else { continue };
        let is_static = method.as_raw().flags & field_flag::IS_STATIC_METHOD != 0;
        // SAFETY: the type table keeps the function forever.
        set(&name, unsafe { handle::new(py, object)? }, is_static)?;
    }
    Ok(())
}

unsafe extern "C" fn get_field(this: *mut PyObject, property: *mut c_void) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, for an object of the class or one derived from it; the closure is the one above.
    let value = unsafe {
        let py = Py::held();
        let property = &*property.cast::<Property>();
        object_of(py, this).and_then(|object| match property.field.get(object) {
            Ok(value) => to_python::value(py, value, property.ty),
            Err(error) => Err(exception::raise(py, &error)),
        })
    };
    value.map_or(ptr::null_mut(), Owned::into_ptr)
}

unsafe extern "C" fn set_field(this: *mut PyObject, value: *mut PyObject, property: *mut c_void) -> c_int {
    // SAFETY: as for `get_field`; NULL stands for a deletion. The field is one that may be written while others use the object.
    let done = unsafe {
        let py = Py::held();
        let property = &*property.cast::<Property>();
        (|| {
            let object = object_of(py, this)?;
            if value.is_null() {
                return Err(py.raise(py.PyExc_AttributeError(), "a field cannot be deleted"));
            }
            let converted = from_python::result(py, value)?;
            property.field.set(object, converted.as_view()).map_err(|error| exception::raise(py, &error))
        })()
    };
    if done.is_ok() { 0 } else { -1 }
}

unsafe extern "C" fn release(this: *mut PyObject) {
    // SAFETY: the interpreter calls with its lock held for an object without references. Weak references go first.
    unsafe {
        let py = Py::held();
        let place = pointer_place(py, this);
        if !(*place.add(1)).is_null() {
            py.PyObject_ClearWeakRefs(this);
        }
        let object = (*place).cast::<TVMFFIObject>();
        *place = ptr::null_mut();
        dealloc(this);
        if !object.is_null() {
            embedded::dec_ref(object);
        }
    }
}

/// `__init__`: what the type's constructor makes goes into the new Python object.
unsafe extern "C" fn init(this: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> c_int {
    // SAFETY: the interpreter calls with its lock held, with a tuple, and a dict or NULL.
    let done = unsafe { construct(Py::held(), this, args, kwargs) };
    if done.is_ok() { 0 } else { -1 }
}

/// # Safety
/// `this` is alive and of a class derived from the base; `args` is a tuple, `kwargs` a dict or NULL.
unsafe fn construct(py: Py, this: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> PyResult<()> {
    // SAFETY: promised by the caller. Code of Python may run while arguments are converted, so the place is looked at again before it is
    // written; once written it stays, since calls that run without the lock may borrow from it.
    unsafe {
        let class = py.type_of(this);
        let (index, name) = registered(py, class)?;
        let Some(constructor) = INIT.get(index).filter(|value| value.type_index() == type_index::FUNCTION) else {
            return Err(py.raise(
                py.PyExc_TypeError(),
                &format!("{name} has no constructor; functions of the library make its objects"),
            ));
        };
        let mut arguments = Arguments::new();
        for position in 0..py.PyTuple_Size(args) {
            arguments.add(py, py.PyTuple_GetItem(args, position), &name)?;
        }
        let items = match kwargs.is_null() || py.PyDict_Size(kwargs) == 0 {
            true => None,
            false => Some(Owned::take(py, py.PyDict_Items(kwargs))?),
        };
        if let Some(items) = &items {
            let marker = handle::keywords_marker().map_err(|error| exception::raise(py, &error))?;
            arguments.push(*marker.as_raw(), from_python::Keep::Value(marker));
            for position in 0..py.PyList_Size(items.as_ptr()) {
                let pair = py.PyList_GetItem(items.as_ptr(), position);
                arguments.add(py, py.PyTuple_GetItem(pair, 0), &name)?;
                arguments.add(py, py.PyTuple_GetItem(pair, 1), &name)?;
            }
        }
        let Some(function) = constructor.object() else { return Err(Raised) };
        let made = handle::call_object(function, arguments.views());
        let made = made.map_err(|error| exception::raise(py, &error))?;
        let Some(object) = made.as_view().object().filter(|object| is_a((**object).type_index, index)) else {
            return Err(py.raise(py.PyExc_TypeError(), &format!("the constructor of {name} gave no {name}")));
        };
        let place = pointer_place(py, this);
        if !(*place).is_null() {
            return Err(py.raise(py.PyExc_TypeError(), &format!("the {name} is constructed already")));
        }
        embedded::inc_ref(object);
        *place = object.cast();
        Ok(())
    }
}

fn is_a(index: i32, other: i32) -> bool {
    index == other || TypeInfo::find(index).is_some_and(|info| info.is_a(other))
}

/// The type that a class stands for, or the nearest one that it is derived from; and its name.
fn registered(py: Py, class: *mut PyObject) -> PyResult<(i32, String)> {
    /// `Py_tp_base`.
    const BASE: c_int = 48;
    let mut at = class;
    while !at.is_null() && at != State::get(py).object {
        if let Some(found) = known(|known| known.class == at) {
            let key = TypeInfo::find(found.index).map(|info| info.key().into_owned()).unwrap_or_default();
            return Ok((found.index, key.rsplit('.').next().unwrap_or_default().to_owned()));
        }
        // SAFETY: a class, and one made at run time, as all are between ours and a derived one.
        at = unsafe { py.PyType_GetSlot(at, BASE) }.cast();
    }
    Ok((type_index::OBJECT, "Object".to_owned()))
}

/// A value with a further reference to an object.
///
/// # Safety
/// The object is alive.
unsafe fn value_of(object: *mut TVMFFIObject) -> Any {
    // SAFETY: promised by the caller; the new reference goes to the value.
    unsafe {
        embedded::inc_ref(object);
        Any::from_object(object)
    }
}

/// # Safety
/// The object is alive.
unsafe fn view_of(object: *mut TVMFFIObject) -> TVMFFIAny {
    // SAFETY: promised by the caller.
    TVMFFIAny::pointer(unsafe { (*object).type_index }, object.cast())
}

unsafe extern "C" fn repr(this: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with an object of a class derived from the base.
    let text = unsafe {
        let py = Py::held();
        object_of(py, this).and_then(|object| {
            let text = reflect::repr(&value_of(object)).map_err(|error| exception::raise(py, &error))?;
            py.text(&text)
        })
    };
    text.map_or(ptr::null_mut(), Owned::into_ptr)
}

unsafe extern "C" fn hash(this: *mut PyObject) -> isize {
    // SAFETY: as for `repr`.
    let value = unsafe {
        let py = Py::held();
        object_of(py, this).and_then(|object| {
            let index = (*object).type_index;
            if HASH.get(index).is_some() {
                let hash = structural::recursive_hash(&value_of(object));
                return hash.map(|hash| hash as isize).map_err(|error| exception::raise(py, &error));
            }
            if EQUAL.get(index).is_some() || COMPARE.get(index).is_some() {
                let key = kernpack_core::value::type_key(index);
                return Err(py.raise(py.PyExc_TypeError(), &format!("unhashable type: '{key}'")));
            }
            Ok((object as isize) >> 4)
        })
    };
    match value {
        // -1 says that an exception is set.
        Ok(-1) => -2,
        Ok(value) => value,
        Err(Raised) => -1,
    }
}

/// Whether an order is what a relation asks for.
type Asks = fn(Ordering) -> bool;

/// `<`, `<=`, `>` and `>=` in the interpreter's numbers, and whether an order is what they ask for.
const ORDERS: [(c_int, Asks); 4] =
    [(0, Ordering::is_lt), (1, Ordering::is_le), (4, Ordering::is_gt), (5, Ordering::is_ge)];
const EQ: c_int = 2;
const NE: c_int = 3;

unsafe extern "C" fn compare(this: *mut PyObject, other: *mut PyObject, relation: c_int) -> *mut PyObject {
    // SAFETY: as for `repr`; the other object may be of any class.
    let result = unsafe {
        let py = Py::held();
        compared(py, this, other, relation)
    };
    result.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// # Safety
/// Both are alive, and `this` is of a class derived from the base.
unsafe fn compared(py: Py, this: *mut PyObject, other: *mut PyObject, relation: c_int) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the class of `other` says whether it holds an object.
    unsafe {
        let not_implemented = || Ok(Owned::share(py, py._Py_NotImplementedStruct()));
        if py.PyType_IsSubtype(py.type_of(other), State::get(py).object) == 0 {
            return not_implemented();
        }
        let (left, right) = (object_of(py, this)?, object_of(py, other)?);
        let index = (*left).type_index;
        let is_equality = relation == EQ || relation == NE;
        let has_hook = COMPARE.get(index).is_some() || (is_equality && EQUAL.get(index).is_some());
        let order = ORDERS.iter().find(|(own, _)| *own == relation).map(|(_, is_so)| is_so);
        let values = || (value_of(left), value_of(right));
        let answer = match (has_hook, order) {
            (true, None) if is_equality => {
                let (left, right) = values();
                structural::recursive_equal(&left, &right)
            }
            (true, Some(is_so)) => {
                let (left, right) = values();
                structural::recursive_compare(&left, &right).map(is_so)
            }
            (false, None) if is_equality => Ok(left == right),
            _ => return not_implemented(),
        };
        let answer = answer.map_err(|error| exception::raise(py, &error))?;
        Owned::take(py, py.PyBool_FromLong((answer != (relation == NE)).into()))
    }
}

/// How objects are pickled and copied: the class, called with the values of the fields that its constructor takes by name.
unsafe extern "C" fn reduce(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: as for `repr`.
    let reduced = unsafe { reduced(Py::held(), this) };
    reduced.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// # Safety
/// `this` is alive and of a class derived from the base.
unsafe fn reduced(py: Py, this: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; all objects used are alive.
    unsafe {
        object_of(py, this)?;
        let class = py.type_of(this);
        let (index, name) = registered(py, class)?;
        let Some(names) = TypeInfo::find(index).and_then(|info| parameters(py, info)) else {
            return Err(py.raise(
                py.PyExc_TypeError(),
                &format!("{name} has no constructor, so it cannot be pickled or copied"),
            ));
        };
        let named = Owned::take(py, py.PyDict_New())?;
        for parameter in names {
            let parameter = py.interned(&parameter)?;
            let value = Owned::take(py, py.PyObject_GetAttr(this, parameter.as_ptr()))?;
            if py.PyDict_SetItem(named.as_ptr(), parameter.as_ptr(), value.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        let functools = py.import(c"functools")?;
        let partial = py.attribute(functools.as_ptr(), c"partial")?;
        let positional = py.tuple([Owned::share(py, class)])?;
        let again = Owned::take(py, py.PyObject_Call(partial.as_ptr(), positional.as_ptr(), named.as_ptr()))?;
        let nothing = py.tuple([])?;
        match py.attribute_if_any(this, c"__dict__")? {
            // What a derived class adds.
            Some(attributes) => py.tuple([again, nothing, attributes]),
            None => py.tuple([again, nothing]),
        }
    }
}

/// The view of an object that a Python object of one of the classes holds.
///
/// # Safety
/// As for [`object_of`].
pub(crate) unsafe fn view(py: Py, object: *mut PyObject) -> PyResult<TVMFFIAny> {
    // SAFETY: promised by the caller; the object is borrowed from the Python object.
    unsafe { object_of(py, object).map(|object| view_of(object)) }
}
