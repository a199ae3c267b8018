//! Functions of the library as functions of its module.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;

use kernpack_core::Error;
use kernpack_core::abi::{TVMFFIAny, type_index};
use kernpack_core::function::{FunctionInfo, FunctionRole, add_frame};
use kernpack_core::generated_code::explained_views;
use kernpack_core::value::{LentPlaces, ResultPlace, Written};

use super::arguments::Arguments;
use super::given::Given;
use super::operator;
use crate::convert::to_python;
use crate::cpython::capi::{FastCall, Py, PyMethodDef, PyObject, Slot, constant};
use crate::cpython::exception;
use crate::cpython::heap_type::{self, Shared, dealloc, leaked, pickled_by, pointer_place, refuse_new};
use crate::cpython::interpreter::{Call, without_lock};
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::pending;
use crate::cpython::state::State;
use crate::instance::{table, wrap};
use crate::signature::callable::{Callable, Origin};
use crate::signature::text::documentation;

/// The value of a constant.
pub(crate) fn constant(py: Py, info: &'static FunctionInfo) -> PyResult<Owned> {
    let callable = Callable::new(py, info, "", Vec::new(), Origin::Function)?;
    // SAFETY: a constant is a function without parameters.
    unsafe { run_with(py, &callable, &[]) }
}

/// Adds a function to a module; a constant as its value.
pub(crate) fn add(
    py: Py,
    module: &Owned,
    module_name: &Owned,
    root: &str,
    path: Vec<String>,
    info: &'static FunctionInfo,
    origin: Origin,
) -> PyResult<()> {
    let Some(name) = path.last().cloned() else { return Ok(()) };
    let function = match info.role {
        FunctionRole::Constant => constant(py, info)?,
        _ => {
            let callable = Box::leak(Box::new(Callable::new(py, info, root, path, origin)?));
            new(py, callable, module_name)?
        }
    };
    let name = py.interned(&name)?;
    // SAFETY: all three are alive.
    match unsafe { py.PyObject_SetAttr(module.as_ptr(), name.as_ptr(), function.as_ptr()) } {
        0 => Ok(()),
        _ => Err(Raised),
    }
}

/// Creates a function that is an attribute of a class: a static method, or one that takes the
/// object first.
pub(crate) fn of_class(py: Py, info: &'static FunctionInfo, name: &str) -> PyResult<Owned> {
    let module = &State::get(py).module;
    let callable = Box::leak(Box::new(Callable::new(py, info, module, vec![name.to_owned()], Origin::Function)?));
    new(py, callable, &py.interned(module)?)
}

/// Creates the function object of a description.
fn new(py: Py, callable: &'static Callable, module: &Owned) -> PyResult<Owned> {
    let name = callable.path.last().map_or(callable.info.name, String::as_str);
    let (first, fast): (&str, FastCall) = match callable.info.role {
        FunctionRole::ClassMethod => ("cls", call_on_class),
        _ if callable.is_undeclared() => ("*args", call),
        _ => ("", call),
    };
    let method = PyMethodDef {
        name: leaked(name),
        function: fast as *const c_void,
        flags: constant::METH_FASTCALL | constant::METH_KEYWORDS,
        doc: leaked(&documentation(name, first, callable.info, 0)),
    };
    // SAFETY: the class is alive and its objects have room for one pointer behind the header; the
    // definition lives forever.
    unsafe {
        let this = Owned::take(py, py.PyType_GenericAlloc(State::get(py).bound, 0))?;
        *pointer_place(py, this.as_ptr()) = ptr::from_ref(callable).cast_mut().cast();
        Owned::take(py, py.PyCFunction_NewEx(Box::leak(Box::new(method)), this.as_ptr(), module.as_ptr()))
    }
}

/// The entry point of every function of the module.
unsafe extern "C" fn call(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with `this` as `new` made it and arguments
    // that live for the call.
    let result = unsafe {
        let py = Py::held();
        let callable = &*(*pointer_place(py, this)).cast::<Callable>();
        run(py, callable, Given::new(args, count, names))
    };
    result.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// The entry point of class methods, which get the class first.
unsafe extern "C" fn call_on_class(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as for `call`; behind the class are the other arguments.
    let result = unsafe {
        let py = Py::held();
        let callable = &*(*pointer_place(py, this)).cast::<Callable>();
        if count < 1 {
            let text = "a class method is called on its class";
            Err(py.raise(py.PyExc_TypeError(), text))
        } else {
            let given = Given::new(args.add(1), count - 1, names);
            run_in_general(py, callable, given).and_then(|made| wrap::as_derived(py, made, *args))
        }
    };
    result.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// Converts the arguments, calls the function, and converts the result.
///
/// # Safety
/// The arguments live for the call.
#[inline]
pub(crate) unsafe fn run(py: Py, callable: &Callable, given: Given) -> PyResult<Owned> {
    if !callable.is_ordinary {
        // SAFETY: promised by the caller.
        return unsafe { run_in_general(py, callable, given) };
    }
    let mut arguments = Arguments::new();
    // SAFETY: promised by the caller.
    unsafe {
        arguments.bind(py, callable, given)?;
        run_with(py, callable, arguments.views())
    }
}

/// Like [`run`], for every function.
///
/// # Safety
/// The arguments live for the call.
#[inline(never)]
pub(crate) unsafe fn run_in_general(py: Py, callable: &Callable, given: Given) -> PyResult<Owned> {
    // Until the arguments are dropped, including the functions created from callables.
    let _call = callable.calls_back.then(|| Call::enter(py));
    if callable.info.role == FunctionRole::Operator {
        // SAFETY: promised by the caller.
        return unsafe { operator::run(py, callable, given) };
    }
    let mut arguments = Arguments::new();
    // SAFETY: promised by the caller.
    unsafe {
        if callable.is_comparison && given.names().is_null() && given.positional() == 2 {
            if !arguments.bind_operands(py, callable, given)? {
                return Ok(Owned::share(py, py._Py_NotImplementedStruct()));
            }
            return Ok(answered(py, run_with(py, callable, arguments.views())?));
        }
        arguments.bind_any(py, callable, given)?;
        run_with(py, callable, arguments.views())
    }
}

/// The result of a comparison for Python: NotImplemented in place of None, so that Python asks the
/// other operand.
fn answered(py: Py, result: Owned) -> Owned {
    if result.as_ptr() != py.none() {
        return result;
    }
    // SAFETY: the interpreter's object lives forever.
    unsafe { Owned::share(py, py._Py_NotImplementedStruct()) }
}

/// The method of a class for a comparison by another library's function.
pub(crate) fn comparison(py: Py, function: &Owned) -> PyResult<Owned> {
    unsafe extern "C" fn call(this: *mut PyObject, args: *const *mut PyObject, count: isize) -> *mut PyObject {
        // SAFETY: the interpreter calls with its lock held, with the function and arguments that
        // live for the call.
        let result = unsafe {
            let py = Py::held();
            Given::new(args, count, ptr::null_mut()).call_behind(py, this, None).map(|result| answered(py, result))
        };
        result.map_or(ptr::null_mut(), Owned::into_ptr)
    }
    static METHOD: Shared<PyMethodDef> = Shared(PyMethodDef {
        name: c"comparison".as_ptr(),
        function: call as *const c_void,
        flags: constant::METH_FASTCALL,
        doc: ptr::null(),
    });
    // SAFETY: the function is alive, and the definition lives forever.
    unsafe {
        let method = Owned::take(py, py.PyCFunction_NewEx(&raw const METHOD.0, function.as_ptr(), ptr::null_mut()))?;
        Owned::take(py, py.PyInstanceMethod_New(method.as_ptr()))
    }
}

/// Calls a method without arguments.
///
/// # Safety
/// `receiver` is a live object of the method's class.
#[inline]
pub(crate) unsafe fn run_on(py: Py, callable: &Callable, receiver: *mut PyObject) -> PyResult<Owned> {
    let mut view = TVMFFIAny::NONE;
    // SAFETY: promised by the caller; the object lives as long as its Python object.
    unsafe {
        table::write_view(py, receiver, &mut view)?;
        run_with(py, callable, core::slice::from_ref(&view))
    }
}

/// # Safety
/// The views are the arguments of this function, and live for the call.
#[inline(always)]
unsafe fn run_with(py: Py, callable: &Callable, views: &[TVMFFIAny]) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    let result = unsafe { run_unchecked(py, callable, views) };
    if pending::is_any() { raise_pending(py, result) } else { result }
}

/// Raises an error of a comparison or hash that the function could not return.
#[cold]
#[inline(never)]
fn raise_pending(py: Py, result: PyResult<Owned>) -> PyResult<Owned> {
    let Some(error) = pending::take() else { return result };
    match result {
        // Before an exception is set: code of Python may run.
        Ok(result) => drop(result),
        // SAFETY: an exception is set, which the error replaces.
        Err(Raised) => unsafe { py.PyErr_Clear() },
    }
    Err(exception::raise(py, &error))
}

/// # Safety
/// As for [`run_with`].
#[inline(always)]
unsafe fn run_unchecked(py: Py, callable: &Callable, views: &[TVMFFIAny]) -> PyResult<Owned> {
    if callable.has_parts {
        // SAFETY: promised by the caller.
        return unsafe { run_for_parts(py, callable, views) };
    }
    let mut result = callable.before;
    // SAFETY: promised by the caller; on success the result is an owned value, of which numbers and
    // None own nothing.
    unsafe {
        invoke(py, callable, views, &mut result).map_err(|error| exception::raise(py, &error))?;
        if result.type_index < type_index::RAW_STR {
            return to_python::view(py, &result, &callable.info.ret);
        }
        to_python::owned(py, &result, &callable.info.ret)
    }
}

/// # Safety
/// As for [`run_with`]; the function returns a tuple or a text.
#[inline(never)]
unsafe fn run_for_parts(py: Py, callable: &Callable, views: &[TVMFFIAny]) -> PyResult<Owned> {
    let ty = &callable.info.ret;
    let mut parts = MaybeUninit::uninit();
    let mut places = LentPlaces::new(&mut parts);
    // SAFETY: promised by the caller: the function is one of this artifact. The elements are owned
    // values.
    unsafe {
        invoke(py, callable, views, places.result()).map_err(|error| exception::raise(py, &error))?;
        match places.written() {
            Written::Elements(elements) => to_python::tuple_of_owned(py, elements, ty),
            Written::Text(text) => py.new_text(text.as_bytes()),
            Written::Value(value) => to_python::owned(py, &value, ty),
        }
    }
}

/// Calls a function with converted arguments, and leaves an owned value in `result`, whose initial
/// value is [`Callable::before`].
///
/// # Safety
/// The views are the arguments of this function, and live for the call.
#[inline]
pub(crate) unsafe fn invoke(
    py: Py,
    callable: &Callable,
    views: &[TVMFFIAny],
    result: &mut TVMFFIAny,
) -> Result<(), Error> {
    let entry_point = callable.entry_point;
    // SAFETY: the entry point follows the ABI's convention, without a handle; the views live as
    // long as the arguments; the result is writable, and what the function expects there.
    let mut call = || unsafe { entry_point(ptr::null_mut(), views.as_ptr(), views.len() as i32, result) };
    let status = if callable.releases { without_lock(py, call) } else { call() };
    if status != 0 {
        return Err(failed(callable, views, result));
    }
    if (type_index::DL_TENSOR_PTR..=type_index::OBJECT_RVALUE_REF).contains(&result.type_index) {
        return Err(Error::type_error("the function returned a borrowed pointer, which cannot be kept"));
    }
    Ok(())
}

/// The error of a call, which says what a compiled function got; with its frame, if tracebacks show
/// those of Rust.
#[cold]
fn failed(callable: &Callable, views: &[TVMFFIAny], result: &mut TVMFFIAny) -> Error {
    let lacks_frame = ResultPlace::has_error(result);
    // SAFETY: the views live as long as the arguments.
    let mut error = unsafe { explained_views(ResultPlace::error(result), views) };
    if lacks_frame && exception::shows_frames() {
        add_frame(&mut error, callable.info);
    }
    error
}

/// Creates the class of a function's `self`: a pointer to the function's description, and a method
/// to pickle it.
pub(crate) fn class(py: Py) -> PyResult<Owned> {
    static METHODS: Shared<[PyMethodDef; 2]> = pickled_by(reduce, c"The module that the function is an attribute of.");
    let slots = [
        Slot { id: constant::TP_DEALLOC, value: dealloc as *const c_void },
        Slot { id: constant::TP_NEW, value: refuse_new as *const c_void },
        Slot { id: constant::TP_METHODS, value: (&raw const METHODS.0).cast() },
        Slot { id: constant::TP_DOC, value: c"What a function of a Kernpack library is bound to.".as_ptr().cast() },
        Slot::END,
    ];
    heap_type::new(py, c"kernpack.function", size_of::<*mut c_void>(), constant::TPFLAGS_DEFAULT, &slots)
}

/// Pickles a function's `self` as the module that the function is an attribute of, which Python
/// imports again.
unsafe extern "C" fn reduce(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with `this` as `new` made it.
    let (py, callable) = unsafe {
        let py = Py::held();
        (py, &*(*pointer_place(py, this)).cast::<Callable>())
    };
    let reduced = (|| {
        let names = &callable.path[..callable.path.len().saturating_sub(1)];
        if names.is_empty() {
            let import = py.import(c"importlib")?;
            // SAFETY: the module is alive.
            let import = unsafe { py.attribute(import.as_ptr(), c"import_module")? };
            return py.tuple([import, py.tuple([py.text(&callable.module)?])?]);
        }
        // A submodule: pickle finds it by name, because it is in the table of modules once the
        // outer one is imported.
        let resolve = py.import(c"pkgutil")?;
        // SAFETY: as above.
        let resolve = unsafe { py.attribute(resolve.as_ptr(), c"resolve_name")? };
        let place = format!("{}:{}", callable.module, names.join("."));
        py.tuple([resolve, py.tuple([py.text(&place)?])?])
    })();
    reduced.map_or(ptr::null_mut(), Owned::into_ptr)
}
