//! One Python class for each registered type, created when it is first needed from the type table:
//! fields, methods, a constructor.

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, field_flag, type_index};
use kernpack_core::embedded;
use kernpack_core::generated_code::{FieldDef, MethodDef, MethodsDef};
use kernpack_core::reflect::TypeInfo;
use kernpack_core::value::TypeSchema;

use crate::capi::{Py, PyGetSet, PyMember, PyMethodDef, PyObject, Slot, constant};
use crate::construct::{self, Constructor};
use crate::field::Property;
use crate::freelist::FreeList;
use crate::gc::{self, Edge};
use crate::heap_type::{self, Shared, dealloc, leaked, pointer_place};
use crate::object::{Owned, PyResult, Raised};
use crate::state::State;
use crate::{deep_copy, enumeration, function, handle, identity, iteration, method, operators, pickle};

/// The class of a type. It lives forever.
pub(crate) struct Class {
    /// The type.
    pub(crate) index: i32,
    /// The last part of the type's key.
    pub(crate) name: String,
    /// The constructor of its objects.
    pub(crate) constructor: Constructor,
    /// Fields that may hold Python callables.
    pub(crate) edges: Vec<Edge>,
    object: *mut PyObject,
}

// SAFETY: it is not changed after its creation, and its pointers are only used with the
// interpreter's lock held.
unsafe impl Send for Class {}
// SAFETY: as above.
unsafe impl Sync for Class {}

/// The classes created so far. No Python code runs while it is locked.
static CLASSES: Mutex<Vec<&'static Class>> = Mutex::new(Vec::new());

/// Freed memory of objects of classes that were created for types, except for those that the
/// garbage collector tracks. All blocks have the same size.
static FREED: FreeList = FreeList::new();

/// Classes of types with a low index, by the index: used to find the class of a result.
static BY_INDEX: [AtomicPtr<Class>; 1024] = [const { AtomicPtr::new(ptr::null_mut()) }; 1024];
/// Classes by their address, unless they share a slot: used to recognize the class of an argument.
static BY_ADDRESS: [AtomicPtr<Class>; 256] = [const { AtomicPtr::new(ptr::null_mut()) }; 256];

fn place(class: *mut PyObject) -> &'static AtomicPtr<Class> {
    // Classes are at least 16 bytes apart, and usually about a kilobyte.
    &BY_ADDRESS[((class.addr() >> 4) ^ (class.addr() >> 12)) % BY_ADDRESS.len()]
}

/// The description of a class that was created for a type.
#[inline]
pub(crate) fn of_class(class: *mut PyObject) -> Option<&'static Class> {
    // SAFETY: stored values live forever.
    let found = unsafe { place(class).load(Ordering::Acquire).as_ref() };
    match found {
        Some(found) if found.object == class => Some(found),
        None => None,
        // Another class has the slot.
        Some(_) => search(|other| other.object == class),
    }
}

/// Returns true if a class was created for a type.
#[inline]
pub(crate) fn is_known(class: *mut PyObject) -> bool {
    of_class(class).is_some()
}

#[cold]
fn search(is_it: impl Fn(&Class) -> bool) -> Option<&'static Class> {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().find(|class| is_it(class))
}

/// Creates the base of all other classes: an object and its weak references.
pub(crate) fn base(py: Py) -> PyResult<Owned> {
    static METHODS: Shared<[PyMethodDef; 3]> = Shared([
        PyMethodDef::no_arguments(
            c"__reduce__",
            pickle::reduce,
            c"The class, and the values that its constructor takes.",
        ),
        deep_copy::METHOD_OF_OBJECTS,
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
        Slot { id: constant::TP_INIT, value: construct::init as *const c_void },
        Slot { id: constant::TP_REPR, value: operators::repr as *const c_void },
        Slot { id: constant::TP_HASH, value: operators::hash as *const c_void },
        Slot { id: constant::TP_RICHCOMPARE, value: operators::compare as *const c_void },
        Slot { id: constant::TP_METHODS, value: (&raw const METHODS.0).cast() },
        Slot { id: constant::TP_MEMBERS, value: members.as_ptr().cast() },
        Slot { id: constant::TP_DOC, value: c"An object of a Kernpack library.".as_ptr().cast() },
        Slot::END,
    ];
    let flags = constant::TPFLAGS_DEFAULT | constant::TPFLAGS_BASETYPE;
    heap_type::new(py, c"kernpack.Object", 2 * size_of::<*mut c_void>(), flags, &slots)
}

/// The object behind a Python object of one of the classes, borrowed from it.
///
/// # Safety
/// `object` is alive and of a class derived from the base.
pub(crate) unsafe fn object_of(py: Py, object: *mut PyObject) -> PyResult<*mut TVMFFIObject> {
    // SAFETY: promised by the caller. A constructor may write the place at the same time, once.
    let found =
        unsafe { AtomicPtr::from_ptr(pointer_place(py, object)).load(Ordering::Acquire).cast::<TVMFFIObject>() };
    if found.is_null() {
        let text = "the object is empty: its constructor was not called; a derived class calls super().__init__(...)";
        return Err(py.raise(py.PyExc_ValueError(), text));
    }
    Ok(found)
}

/// The view of the object that a Python object of one of the classes holds.
///
/// # Safety
/// As for [`object_of`].
#[inline]
pub(crate) unsafe fn view(py: Py, object: *mut PyObject) -> PyResult<TVMFFIAny> {
    let mut view = TVMFFIAny::NONE;
    // SAFETY: promised by the caller.
    unsafe { write_view(py, object, &mut view)? };
    Ok(view)
}

/// Like [`view`], written in place.
///
/// # Safety
/// As for [`object_of`]; `place` is writable.
#[inline]
pub(crate) unsafe fn write_view(py: Py, object: *mut PyObject, place: *mut TVMFFIAny) -> PyResult<()> {
    // SAFETY: promised by the caller; the object is borrowed from the Python object.
    unsafe {
        let object = object_of(py, object)?;
        place.write(TVMFFIAny::pointer((*object).type_index, object.cast()));
        Ok(())
    }
}

/// Creates the Python object for an object, which holds another reference to it.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn wrap(py: Py, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; members live forever.
    unsafe {
        let index = (*object).type_index;
        match known(py, index) {
            Some(class) => hold_more(py, class, object),
            None => match enumeration::member(index, object) {
                Some(member) => Ok(Owned::share(py, member)),
                None => hold_more(py, slow_of_type(py, index)?, object),
            },
        }
    }
}

/// Creates the Python object for an object, whose reference it takes over.
///
/// # Safety
/// The reference is the caller's.
#[inline]
pub(crate) unsafe fn wrap_owned(py: Py, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the class is that of the type.
    unsafe {
        match known(py, (*object).type_index) {
            Some(class) if identity::is_reading() => identity::hold(py, class, object),
            Some(class) => hold(py, class, object),
            None => {
                let wrapped = wrap(py, object);
                embedded::dec_ref(object);
                wrapped
            }
        }
    }
}

/// Creates a Python object of a class that takes over a reference to an object.
///
/// # Safety
/// The class is that of the object's type, or of one that it is derived from; the caller owns the
/// reference.
pub(crate) unsafe fn hold(py: Py, class: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; an object of the class has two pointers behind its header,
    // that of its weak references is the second. Of classes that are kept in a list all are made
    // here, or by the interpreter when the constructor of a derived class runs.
    unsafe {
        let this = match of_class(class) {
            Some(known) if known.edges.is_empty() => {
                let this = FREED.take(py, class);
                if py.is_plain()
                    && let Ok(this) = &this
                {
                    // The block may have been in use before.
                    *pointer_place(py, this.as_ptr()).add(1) = ptr::null_mut();
                }
                this
            }
            // All zeros. From here on the garbage collector tracks it, so another thread may find
            // it and create weak references to it.
            _ => Owned::take(py, py.PyType_GenericAlloc(class, 0)),
        };
        let Ok(this) = this else {
            embedded::dec_ref(object);
            return this;
        };
        AtomicPtr::from_ptr(pointer_place(py, this.as_ptr())).store(object.cast(), Ordering::Release);
        Ok(this)
    }
}

/// Like [`hold`], with another reference to an object.
///
/// # Safety
/// As for [`hold`]; the object is alive.
unsafe fn hold_more(py: Py, class: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the new reference is transferred to the value.
    unsafe {
        embedded::inc_ref(object);
        if identity::is_reading() { identity::hold(py, class, object) } else { hold(py, class, object) }
    }
}

/// The class of a type, borrowed; it lives forever.
#[inline]
pub(crate) fn of_type(py: Py, index: i32) -> PyResult<*mut PyObject> {
    match known(py, index) {
        Some(class) => Ok(class),
        None => slow_of_type(py, index),
    }
}

/// The class of a type with a low index, if it was created.
#[inline]
fn known(py: Py, index: i32) -> Option<*mut PyObject> {
    if index == type_index::OBJECT {
        return Some(State::get(py).object);
    }
    in_table(index).map(|class| class.object)
}

#[inline]
fn in_table(index: i32) -> Option<&'static Class> {
    let place = BY_INDEX.get(usize::try_from(index).ok()?)?;
    // SAFETY: stored values live forever.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// The class of a type, or of its nearest ancestor that has a class. Does not run Python code.
pub(crate) fn of_index(index: i32) -> Option<&'static Class> {
    let made = |index| in_table(index).or_else(|| search(|class| class.index == index));
    made(index).or_else(|| {
        let info = TypeInfo::find(index)?;
        (0..info.depth()).rev().filter_map(|depth| info.ancestor(depth)).find_map(|ancestor| made(ancestor.index()))
    })
}

/// The class of a type that is not in the table, or is not created yet.
#[cold]
fn slow_of_type(py: Py, index: i32) -> PyResult<*mut PyObject> {
    if let Some(class) = search(|class| class.index == index) {
        return Ok(class.object);
    }
    let Some(info) = TypeInfo::find(index) else {
        return Err(py.raise(py.PyExc_TypeError(), &format!("there is no type with the index {index}")));
    };
    let class: &'static Class = Box::leak(Box::new(make(py, info)?));
    let mut all = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have created it while this one ran Python code.
    if let Some(other) = all.iter().find(|other| other.index == index) {
        return Ok(other.object);
    }
    all.push(class);
    let object = class.object;
    let address = ptr::from_ref(class).cast_mut();
    if let Some(place) = usize::try_from(index).ok().and_then(|index| BY_INDEX.get(index)) {
        place.store(address, Ordering::Release);
    }
    let _ = place(object).compare_exchange(ptr::null_mut(), address, Ordering::AcqRel, Ordering::Acquire);
    // SAFETY: a class of this room, which is known from now on.
    unsafe { construct::take_calls(py, object) };
    Ok(object)
}

/// The methods of a type that this artifact has.
pub(crate) fn blocks(py: Py, key: &str) -> impl Iterator<Item = &'static MethodDef> {
    let methods: &'static [MethodsDef] = State::get(py).collected.methods;
    methods.iter().filter(move |block| block.key == key).flat_map(|block| block.members)
}

/// The definition of a field, where the type is one of this artifact.
pub(crate) fn own_field(py: Py, key: &str, name: &str) -> Option<&'static FieldDef> {
    let types = State::get(py).collected.types;
    types.iter().filter(|def| def.key == key).flat_map(|def| def.fields).find(|field| field.name == name)
}

/// The declared type of a field or property.
pub(crate) fn declared(py: Py, key: &str, name: &str) -> &'static TypeSchema {
    if let Some(field) = own_field(py, key, name) {
        return &field.ty;
    }
    for member in blocks(py, key) {
        if let MethodDef::Property { name: own, info, .. } = member
            && *own == name
        {
            return &info.ret;
        }
    }
    const { &TypeSchema::new("Any") }
}

fn make(py: Py, info: TypeInfo) -> PyResult<Class> {
    let key = info.key().into_owned();
    let name = key.rsplit('.').next().unwrap_or(&key).to_owned();
    let parent = match info.ancestor(info.depth() - 1) {
        Some(parent) => of_type(py, parent.index())?,
        None => State::get(py).object,
    };
    let mut properties: Vec<PyGetSet> = Vec::new();
    for field in info.own_fields() {
        let property = Property::new(py, info, &key, field);
        // SAFETY: the table keeps the text forever.
        let doc = String::from_utf8_lossy(unsafe { field.as_raw().doc.as_slice() });
        properties.push(PyGetSet {
            name: leaked(&field.name()),
            get: Some(Property::get),
            set: field.has(field_flag::WRITABLE).then_some(Property::set as _),
            doc: leaked(&doc),
            closure: Box::into_raw(Box::new(property)).cast(),
        });
    }
    properties.push(PyGetSet::END);
    // SAFETY: the table keeps the text forever.
    let doc = info.metadata().map_or(&b""[..], |metadata| unsafe { metadata.doc.as_slice() });
    let doc = String::from_utf8_lossy(doc);
    let doc = match construct::signature(py, info) {
        Some(names) => format!("{name}({})\n--\n\n{doc}", names.join(", ")),
        None => doc.into_owned(),
    };
    let definitions = |info: TypeInfo| {
        let key = info.key();
        State::get(py).collected.types.iter().filter(move |def| def.key == key).flat_map(|def| def.fields)
    };
    let edges: Vec<Edge> = info.lineage().flat_map(definitions).filter_map(Edge::of).collect();
    let mut slots = vec![
        Slot { id: constant::TP_GETSET, value: Vec::leak(properties).as_ptr().cast() },
        Slot { id: constant::TP_DOC, value: leaked(&doc).cast() },
    ];
    let mut flags = constant::TPFLAGS_DEFAULT | constant::TPFLAGS_BASETYPE;
    if !edges.is_empty() {
        slots.extend(gc::slots());
        flags |= constant::TPFLAGS_HAVE_GC;
    } else {
        // Otherwise the interpreter's own destructor would look for data that only classes defined
        // in Python have.
        slots.push(Slot { id: constant::TP_DEALLOC, value: release as *const c_void });
    }
    slots.push(Slot::END);
    let module = &State::get(py).module;
    // SAFETY: a C string that lives forever.
    let full_name = unsafe { CStr::from_ptr(leaked(&format!("{module}.{name}"))) };
    // SAFETY: the class of the parent lives forever.
    let bases = py.tuple([unsafe { Owned::share(py, parent) }])?;
    let class = heap_type::derived(py, full_name, 2 * size_of::<*mut c_void>(), flags, &slots, Some(&bases))?;
    // The place in the module, for pickle.
    let module = py.text(module)?;
    let place = py.text(&path(py, &key).join("."))?;
    for (name, value) in [(c"__module__", &module), (c"__qualname__", &place)] {
        // SAFETY: all three are alive.
        if unsafe { py.PyObject_SetAttrString(class.as_ptr(), name.as_ptr(), value.as_ptr()) } != 0 {
            return Err(Raised);
        }
    }
    if !operators::is_hashable(info.index()) {
        // SAFETY: both are alive.
        if unsafe { py.PyObject_SetAttrString(class.as_ptr(), c"__hash__".as_ptr(), py.none()) } != 0 {
            return Err(Raised);
        }
    }
    add_methods(py, info, &key, &class)?;
    let constructor = Constructor::of(py, info)?;
    Ok(Class { index: info.index(), name, constructor, edges, object: class.into_ptr() })
}

/// The attributes that lead from the module to the class of a type: its key without the module's
/// own name.
#[inline(never)]
pub(crate) fn path(py: Py, key: &str) -> Vec<&str> {
    let module = State::get(py).module.rsplit('.').next().unwrap_or_default();
    key.strip_prefix(module).and_then(|rest| rest.strip_prefix('.')).unwrap_or(key).split('.').collect()
}

/// Adds the methods of a type to its class: those of this artifact with parameter names, others
/// with positional parameters.
fn add_methods(py: Py, info: TypeInfo, key: &str, class: &Owned) -> PyResult<()> {
    let set = |name: &str, attribute: Owned| -> PyResult<()> {
        let name = py.interned(name)?;
        // SAFETY: the attribute and the class are alive.
        match unsafe { py.PyObject_SetAttr(class.as_ptr(), name.as_ptr(), attribute.as_ptr()) } {
            0 => Ok(()),
            _ => Err(Raised),
        }
    };
    // SAFETY: the functions are alive.
    let static_method = |function: Owned| unsafe { Owned::take(py, py.PyStaticMethod_New(function.as_ptr())) };
    // SAFETY: as above.
    let instance_method = |function: Owned| unsafe { Owned::take(py, py.PyInstanceMethod_New(function.as_ptr())) };
    let mut own = Vec::new();
    for member in blocks(py, key) {
        if let MethodDef::Method { name, info, is_static } = *member {
            let attribute = match is_static {
                true => static_method(function::of_class(py, info, name)?)?,
                false => method::new(py, class, info, name)?,
            };
            match name {
                iteration::METHOD => {
                    set(iteration::ELEMENTS, attribute)?;
                    set(name, iteration::new(py, class, info)?)?;
                }
                _ => set(name, attribute)?,
            }
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
        let function = unsafe { handle::new(py, object)? };
        set(&name, if is_static { static_method(function)? } else { instance_method(function)? })?;
    }
    Ok(())
}

pub(crate) unsafe extern "C" fn release(this: *mut PyObject) {
    // SAFETY: the interpreter calls with its lock held for an object without references. Weak
    // references go first.
    unsafe {
        let py = Py::held();
        let place = pointer_place(py, this);
        // Without the interpreter's lock another thread may be writing the field of the weak
        // references.
        let object = (*place).cast::<TVMFFIObject>();
        let has_weak = !AtomicPtr::from_ptr(place.add(1)).load(Ordering::Relaxed).is_null();
        if has_weak {
            identity::forget_object(py, this, object);
        }
        if has_weak || !py.is_plain() {
            py.PyObject_ClearWeakRefs(this);
        }
        let class = py.type_of(this);
        let is_kept = of_class(class).is_some_and(|class| class.edges.is_empty()) && FREED.give(py, this, class);
        if !is_kept {
            *place = ptr::null_mut();
            dealloc(this);
        }
        if !object.is_null() {
            embedded::dec_ref(object);
        }
    }
}

/// Returns true if a type is the other one, or derived from it.
pub(crate) fn is_a(index: i32, other: i32) -> bool {
    index == other || TypeInfo::find(index).is_some_and(|info| info.is_a(other))
}

/// The class of a registered type: the given class itself, or its nearest base that is one.
pub(crate) fn nearest(py: Py, class: *mut PyObject) -> Option<&'static Class> {
    let mut at = class;
    while !at.is_null() && at != State::get(py).object {
        if let Some(found) = of_class(at) {
            return Some(found);
        }
        // SAFETY: a class, and one made at run time, as all are between ours and a derived one.
        at = unsafe { py.PyType_GetSlot(at, constant::TP_BASE) }.cast();
    }
    None
}

/// The type of a class, or of its nearest base that has a type; and its name.
pub(crate) fn registered(py: Py, class: *mut PyObject) -> (i32, String) {
    match nearest(py, class) {
        Some(class) => (class.index, class.name.clone()),
        None => (type_index::OBJECT, "Object".to_owned()),
    }
}
