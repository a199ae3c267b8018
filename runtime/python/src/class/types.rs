//! One Python class for each registered type, created when it is first needed from the type table:
//! fields, methods, a constructor.

use core::ffi::{CStr, c_void};
use core::ptr;

use kernpack_core::abi::{field_flag, type_index};
use kernpack_core::generated_code::{FunctionRole, MethodDef};
use kernpack_core::reflect::TypeInfo;

use super::declared::{blocks, path};
use super::{construct, deep_copy, field, gc, operators, pickle, special};
use crate::call::{function, method};
use crate::convert::to_python;
use crate::cpython::capi::{Py, PyGetSet, PyMember, PyMethodDef, PyObject, Slot, constant};
use crate::cpython::heap_type::{self, Shared, leaked};
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::state::State;
use crate::instance::edge::Edge;
use crate::instance::table::{self, Class};
use crate::instance::wrap::{of_type, release};
use crate::signature::callable::is_comparison;
use crate::signature::constructor::Constructor;

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

/// Creates the class of a type, which has none yet. Borrowed; it lives forever.
pub(crate) fn create(py: Py, index: i32) -> PyResult<*mut PyObject> {
    let Some(info) = TypeInfo::find(index) else {
        return Err(py.raise(py.PyExc_TypeError(), &format!("there is no type with the index {index}")));
    };
    let class: &'static Class = Box::leak(Box::new(make(py, info)?));
    // Another thread may have created it while this one ran Python code.
    if let Err(other) = table::add(class) {
        return Ok(other.object);
    }
    // SAFETY: a class that `make` created, which is in the table from now on.
    unsafe { construct::take_calls(py, class.object) };
    Ok(class.object)
}

fn make(py: Py, info: TypeInfo) -> PyResult<Class> {
    let key = info.key().into_owned();
    let name = key.rsplit('.').next().unwrap_or(&key).to_owned();
    let parent = match info.ancestor(info.depth() - 1) {
        Some(parent) => of_type(py, parent.index())?,
        None => State::get(py).object,
    };
    let mut properties = field::attributes(py, info, &key)?;
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
    slots.extend(blocks(py, &key).filter_map(|member| match member {
        MethodDef::Method { name, is_static: false, .. } => special::slot(name),
        _ => None,
    }));
    slots.push(Slot::END);
    let module = State::get(py).module_of_classes();
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
    let class_method = |function: Owned| unsafe { Owned::take(py, py.PyClassMethod_New(function.as_ptr())) };
    // SAFETY: as above.
    let instance_method = |function: Owned| unsafe { Owned::take(py, py.PyInstanceMethod_New(function.as_ptr())) };
    let mut own = Vec::new();
    for member in blocks(py, key) {
        if let MethodDef::Method { name, info, is_static } = *member {
            let attribute = match (is_static, info.role) {
                (true, FunctionRole::Constant) => function::constant(py, info)?,
                (true, FunctionRole::ClassMethod) => class_method(function::of_class(py, info, name)?)?,
                (true, _) => static_method(function::of_class(py, info, name)?)?,
                // An attribute, not a method.
                (false, FunctionRole::Setter) => {
                    own.push(name);
                    continue;
                }
                (false, _) => method::new(py, class, info, name)?,
            };
            set(special::name(name), attribute)?;
            if let Some(called) = special::method(py, class, name, info)? {
                set(name, called)?;
            }
            own.push(name);
        }
    }
    for method in info.own_methods() {
        let name = String::from_utf8_lossy(method.name_bytes());
        let value = method.value();
        let is_hidden = name.starts_with("__ffi_") || own.contains(&&*name) || field::is_setter(method);
        if is_hidden || value.type_index() != type_index::FUNCTION {
            continue;
        }
        let Some(object) = value.object() else { continue };
        let is_static = method.as_raw().flags & field_flag::IS_STATIC_METHOD != 0;
        // SAFETY: the type table keeps the function forever.
        let called = unsafe { to_python::function(py, object)? };
        let attribute = match is_static {
            true => static_method(called)?,
            false if is_comparison(&name) => function::comparison(py, &called)?,
            false => instance_method(called)?,
        };
        set(&name, attribute)?;
    }
    Ok(())
}
