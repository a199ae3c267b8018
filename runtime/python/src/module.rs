//! The module that `import` creates: the functions of the library under their names.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use std::sync::OnceLock;

use kernpack_core::generated_code::{Collected, EnumDef, TypeDef};
use kernpack_core::reflect::TypeInfo;
use kernpack_core::{load_problems, provider};

use crate::call::{function, handle};
use crate::class::{container, declared, enumeration, pickle, tensor, types};
use crate::convert::{callback, number, to_python};
use crate::cpython::capi::{Py, PyObject, Slot, constant};
use crate::cpython::heap_type::leaked;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::state::{Classes, Higher, State};
use crate::cpython::{exception, interpreter, signals, tvm_ffi};
use crate::instance::wrap;
use crate::signature::callable::{Origin, of_kernel};

/// A module of this library, which `PyInit_<name>` returns to Python.
pub struct Module {
    name: &'static str,
    doc: &'static str,
    collected: fn() -> Collected,
    definition: OnceLock<Definition>,
}

/// `PyModuleDef`, in memory that is never freed.
#[derive(Clone, Copy)]
struct Definition(*mut c_void);

// SAFETY: only CPython writes to the definition, with its own lock.
unsafe impl Send for Definition {}
// SAFETY: as above.
unsafe impl Sync for Definition {}

/// The fields after the header in `PyModuleDef`.
#[repr(C)]
struct DefinitionBody {
    init: *const c_void,
    index: isize,
    copy: *const c_void,
    name: *const c_char,
    doc: *const c_char,
    size: isize,
    methods: *const c_void,
    slots: *const Slot,
    traverse: *const c_void,
    clear: *const c_void,
    free: *const c_void,
}

/// The modules of this artifact by name, for the function that fills one: CPython passes it only
/// the module.
static MODULES: std::sync::Mutex<Vec<&'static Module>> = std::sync::Mutex::new(Vec::new());

impl Module {
    /// Creates a module of this name with everything that the artifact registers.
    pub const fn new(name: &'static str, doc: &'static str, collected: fn() -> Collected) -> Self {
        Self { name, doc, collected, definition: OnceLock::new() }
    }

    /// The result of `PyInit_<name>`.
    ///
    /// # Safety
    /// CPython calls: this thread runs in an interpreter and holds its lock.
    pub unsafe fn init(&'static self) -> *mut PyObject {
        // SAFETY: promised by the caller.
        let py = match unsafe { interpreter::enter() } {
            Ok(py) => py,
            Err(problem) => {
                // SAFETY: as above.
                unsafe { refuse_import(self.name, &problem) };
                return ptr::null_mut();
            }
        };
        let definition = self.definition.get_or_init(|| self.define(py));
        // SAFETY: a complete definition that lives forever.
        unsafe { py.PyModuleDef_Init(definition.0) }
    }

    fn define(&'static self, py: Py) -> Definition {
        let mut modules = MODULES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        modules.push(self);
        let mut slots = vec![Slot { id: constant::MOD_EXEC, value: execute as *const c_void }];
        if py.PyErr_GetRaisedException().is_some() {
            // Since 3.12, like that function. Older versions treat an unknown slot as an error, and
            // `enter` rejects other interpreters there.
            slots.push(Slot { id: constant::MOD_MULTIPLE_INTERPRETERS, value: ptr::null() });
        }
        if py.PyDict_GetItemRef().is_some() {
            // Since 3.13, like that function. The state of this crate is in atomics and behind its
            // own locks: builds without the interpreter's lock keep it disabled.
            slots.push(Slot { id: constant::MOD_GIL, value: ptr::without_provenance(constant::MOD_GIL_NOT_USED) });
        }
        slots.push(Slot::END);
        let body = DefinitionBody {
            init: ptr::null(),
            index: 0,
            copy: ptr::null(),
            name: leaked(self.name),
            doc: leaked(self.doc),
            size: 0,
            methods: ptr::null(),
            slots: Vec::leak(slots).as_ptr(),
            traverse: ptr::null(),
            clear: ptr::null(),
            free: ptr::null(),
        };
        let words = (py.header() + size_of::<DefinitionBody>()) / size_of::<usize>();
        let memory = Vec::leak(vec![0usize; words]).as_mut_ptr();
        // SAFETY: the memory is ours and has room for a header, which CPython fills, and the body
        // behind it.
        unsafe { memory.byte_add(py.header()).cast::<DefinitionBody>().write(body) };
        Definition(memory.cast())
    }

    fn fill(&'static self, py: Py, module: &Owned) -> PyResult<()> {
        tvm_ffi::load_library(py)?;
        provider::api();
        let problems = load_problems();
        if !problems.is_empty() {
            return Err(py.raise(py.PyExc_ImportError(), &problems.join("\n")));
        }
        // SAFETY: the module is alive.
        let full_name = unsafe { py.attribute(module.as_ptr(), c"__name__")? };
        // SAFETY: the name is alive until it was copied.
        let full_name = unsafe { py.str_of(full_name.as_ptr()) };
        let higher = Higher {
            class_of_type: types::create,
            class_of_container: container::class,
            object_of_value: to_python::undeclared,
            call_of_callable: callback::call,
        };
        State::prepare(py, &full_name, (self.collected)(), higher, classes)?;
        signals::register(py)?;
        number::register();
        pickle::add(py, module)?;
        let collected = &State::get(py).collected;
        for (path, def) in placed(py, collected) {
            let class = match def {
                ClassDef::Type(def) => match TypeInfo::by_key(def.key.as_bytes()) {
                    Ok(info) => Some(wrap::of_type(py, info.index())?),
                    Err(_) => None,
                },
                ClassDef::Enum(def) => enumeration::class(py, def)?,
            };
            if let Some(class) = class {
                place_class(py, module, &full_name, &path, class)?;
            }
        }
        for info in collected.exceptions {
            let class = exception::class_of(py, info.kind.as_str())?;
            place_class(py, module, &full_name, &[info.kind.as_str()], class.as_ptr())?;
        }
        let functions = collected.functions.iter().map(|info| (info, Origin::Function));
        let kernels = collected.kernels.iter().map(|kernel| (of_kernel(kernel), Origin::Kernel));
        for (info, origin) in functions.chain(kernels) {
            let path: Vec<&str> = self.path(info.name).collect();
            let (place, place_name) = submodule(py, module, &full_name, &path[..path.len().saturating_sub(1)])?;
            let path = path.into_iter().map(str::to_owned).collect();
            function::add(py, &place, &place_name, &full_name, path, info, origin)?;
        }
        Ok(())
    }

    /// The attributes that lead to a function: its name without the name of the module.
    fn path(&self, name: &'static str) -> impl Iterator<Item = &'static str> {
        let inside = name.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('.'));
        inside.unwrap_or(name).split('.')
    }
}

/// Creates the classes that all types share.
fn classes(py: Py) -> PyResult<Classes> {
    let bound = function::class(py)?;
    let function = handle::class(py)?;
    let tensor = tensor::class(py)?;
    let object = types::base(py)?;
    for class in [&function, &tensor, &object] {
        tvm_ffi::offer(py, class)?;
    }
    Ok(Classes { bound, function, tensor, object })
}

/// The definition from which a class of the module is created.
enum ClassDef {
    Type(&'static TypeDef),
    Enum(&'static EnumDef),
}

/// The types and enums of the artifact with the attributes that lead to their classes. The linker
/// determines their order in the slices. Here a class comes before those that are its attributes,
/// such as the variants of an enum: otherwise a module would take its place.
fn placed(py: Py, collected: &Collected) -> Vec<(Vec<&'static str>, ClassDef)> {
    let types = collected.types.iter().map(|def| (def.key, ClassDef::Type(def)));
    let enums = collected.enums.iter().map(|def| (def.key, ClassDef::Enum(def)));
    let mut all: Vec<_> = types.chain(enums).map(|(key, def)| (declared::path(py, key), def)).collect();
    all.sort_by_key(|(path, _)| path.len());
    all
}

/// Makes a class an attribute of the module, or of the module or class inside it that its path
/// leads to.
fn place_class(py: Py, module: &Owned, full_name: &str, path: &[&str], class: *mut PyObject) -> PyResult<()> {
    let Some((name, outer)) = path.split_last() else { return Ok(()) };
    let (place, place_name) = submodule(py, module, full_name, outer)?;
    let attribute = py.interned(name)?;
    // SAFETY: all three are alive; if it fails, an exception is set.
    unsafe {
        if py.PyObject_SetAttr(place.as_ptr(), attribute.as_ptr(), class) == 0 {
            return Ok(());
        }
        if py.PyErr_ExceptionMatches(py.PyExc_AttributeError()) == 0 {
            return Err(Raised);
        }
        py.PyErr_Clear();
        let text = format!(
            "the class {place_name}.{name} has no place: {place_name} is an enum with a variant of that name; give the type or the enum another key",
            place_name = py.str_of(place_name.as_ptr()),
        );
        Err(py.raise(py.PyExc_ImportError(), &text))
    }
}

/// The module inside another, created if it does not exist yet; and its full name.
#[inline(never)]
fn submodule(py: Py, module: &Owned, full_name: &str, path: &[&str]) -> PyResult<(Owned, Owned)> {
    // SAFETY: modules are alive while they are used here, and so are the names.
    unsafe {
        let mut place = Owned::share(py, module.as_ptr());
        let mut name = full_name.to_owned();
        for part in path {
            name = format!("{name}.{part}");
            let attribute = py.interned(part)?;
            let known = py.PyObject_GetAttr(place.as_ptr(), attribute.as_ptr());
            let next = match Owned::take(py, known) {
                Ok(known) => known,
                Err(Raised) => {
                    py.PyErr_Clear();
                    let full = py.text(&name)?;
                    let new = Owned::take(py, py.PyModule_NewObject(full.as_ptr()))?;
                    if py.PyObject_SetAttr(place.as_ptr(), attribute.as_ptr(), new.as_ptr()) != 0 {
                        return Err(Raised);
                    }
                    new
                }
            };
            place = next;
        }
        Ok((place, py.interned(&name)?))
    }
}

/// Fills a new module.
unsafe extern "C" fn execute(module: *mut PyObject) -> c_int {
    // SAFETY: CPython calls with its lock held, with a module made from one of our definitions.
    let filled = unsafe {
        let py = Py::held();
        let module = Owned::share(py, module);
        find(py, &module).and_then(|found| {
            let is_main = interpreter::check_main(py);
            is_main.map_err(|text| py.raise(py.PyExc_ImportError(), &format!("{}: {text}", found.name)))?;
            found.fill(py, &module)
        })
    };
    if filled.is_ok() { 0 } else { -1 }
}

/// The module to be filled: its name, without the packages that contain it, identifies it.
fn find(py: Py, module: &Owned) -> PyResult<&'static Module> {
    // SAFETY: the module is alive, and the name until it was copied.
    let name = unsafe {
        let name = py.attribute(module.as_ptr(), c"__name__")?;
        py.str_of(name.as_ptr())
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let modules = MODULES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let found = modules.iter().copied().find(|module| module.name == last);
    found.ok_or_else(|| py.raise(py.PyExc_ImportError(), &format!("this library has no module '{last}'")))
}

/// Sets an ImportError if the functions of Python could not be found: these two are enough for it.
///
/// # Safety
/// This thread runs in a Python interpreter and holds its lock.
unsafe fn refuse_import(name: &str, problem: &str) {
    use kernpack_core::embedded::dynamic_linker::Scope;
    let text = std::ffi::CString::new(format!("{name}: {problem}")).unwrap_or_default();
    // PyPy's functions have different names.
    let either = |name, other| {
        Some(Scope::DEFAULT.symbol(name))
            .filter(|found| !found.is_null())
            .unwrap_or_else(|| Scope::DEFAULT.symbol(other))
    };
    let set = either(c"PyErr_SetString", c"PyPyErr_SetString");
    let class = either(c"PyExc_ImportError", c"PyPyExc_ImportError");
    if set.is_null() || class.is_null() {
        // CPython raises a SystemError for a NULL without an exception.
        kernpack_core::embedded::notice::notice(format_args!("kernpack: {name}: {problem}"));
        return;
    }
    // SAFETY: the function and the variable of these names have these types in every version; the
    // text lives for the call.
    unsafe {
        let set = core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut PyObject, *const c_char)>(set);
        set(*class.cast::<*mut PyObject>(), text.as_ptr());
    }
}
