//! Functions of the library as functions of its module.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;
use std::borrow::Cow;

use kernpack_core::Error;
use kernpack_core::abi::{SafeCall, TVMFFIAny, type_index};
use kernpack_core::function::{FunctionInfo, ParamInfo};
use kernpack_core::generated_code::KernelInfo;
use kernpack_core::value::{Access, LentPlaces, ResultPlace, TypeSchema, Written};

use crate::arguments::{Arguments, Given};
use crate::capi::{FastCall, Py, PyMethodDef, PyObject, Slot, constant};
use crate::heap_type::{self, Shared, dealloc, leaked, pickled_by, pointer_place, refuse_new};
use crate::interpreter::{Call, without_lock};
use crate::object::{Owned, PyResult, Raised};
use crate::state::State;
use crate::wanted::{Wanted, inner};
use crate::{class, exception, to_python};

/// A function as Python calls it. It lives forever, like the library.
pub(crate) struct Callable {
    pub(crate) info: &'static FunctionInfo,
    /// The function itself.
    entry_point: SafeCall,
    /// The names of the parameters, interned.
    pub(crate) names: Box<[*mut PyObject]>,
    /// The demands of the parameters.
    pub(crate) wanted: Box<[Wanted]>,
    /// True if other threads of Python run during a call.
    releases: bool,
    /// True if a parameter that is a container may contain functions, which may be Python's.
    calls_back: bool,
    /// The initial value of the result's place before a call: the mark of a caller in the same
    /// artifact, if the function knows it.
    pub(crate) before: TVMFFIAny,
    /// True if it returns a tuple or a text, which needs a special result place.
    has_parts: bool,
    /// True if the function itself assigns arguments with names to parameters, as constructors and
    /// functions with defaults do.
    pub(crate) binds: bool,
    /// The path by which Python finds the function: module, then attributes.
    module: String,
    path: Vec<String>,
    /// The method definition by which Python calls it.
    method: PyMethodDef,
}

// SAFETY: it is not changed after its creation, and its pointers are only used with the
// interpreter's lock held.
unsafe impl Sync for Callable {}

/// Returns true if releasing Python's lock during a call is worth its cost, or necessary: a
/// function on tensors may take long, and a function that gets a function may wait for threads that
/// call it.
fn releases(info: &FunctionInfo) -> bool {
    const KEYS: &[&str] = &["ffi.Tensor", "DLTensor*", "ffi.Function", "ffi.Module"];
    info.detach.unwrap_or_else(|| has(info, core::slice::from_ref, KEYS))
}

/// Returns true if a parameter, or a type that `parts` returns for it, is of one of these types, or
/// a container of them.
fn has(info: &FunctionInfo, parts: fn(&TypeSchema) -> &[TypeSchema], keys: &[&str]) -> bool {
    fn is_one(ty: &TypeSchema, keys: &[&str]) -> bool {
        keys.contains(&ty.key) || ty.args.iter().any(|of| is_one(of, keys))
    }
    info.params.iter().flat_map(|param| parts(&param.ty)).any(|ty| is_one(ty, keys))
}

impl Callable {
    /// Describes a function, which is then an attribute of a module under the last of the names in
    /// `path`. `is_constructor`: it assigns arguments with names to parameters itself, whether or
    /// not they have defaults.
    pub(crate) fn new(
        py: Py,
        info: &'static FunctionInfo,
        module: &str,
        path: Vec<String>,
        is_constructor: bool,
    ) -> PyResult<Self> {
        let names: PyResult<Box<[_]>> =
            info.params.iter().map(|param| py.interned(param.name).map(Owned::into_ptr)).collect();
        let name = path.last().map_or(info.name, String::as_str);
        let is_kernel = info.line == 0;
        let first = if is_undeclared(info) { "*args" } else { "" };
        let fast: FastCall = call;
        let method = PyMethodDef {
            name: leaked(name),
            function: fast as *const c_void,
            flags: constant::METH_FASTCALL | constant::METH_KEYWORDS,
            doc: leaked(&documentation(name, first, info, 0)),
        };
        Ok(Self {
            info,
            entry_point: info.call,
            names: names?,
            wanted: info.params.iter().map(|param| Wanted::parameter(param, !is_kernel)).collect(),
            releases: releases(info),
            // A parameter that is a function itself knows the thread that lends it.
            calls_back: has(info, |ty| inner(ty).args, &["ffi.Function"]),
            before: if is_kernel { TVMFFIAny::NONE } else { ResultPlace::LENT },
            has_parts: !is_kernel
                && match info.ret.key {
                    "Tuple" => info.ret.args.len() <= LentPlaces::MOST,
                    key => key == "ffi.String",
                },
            binds: is_constructor || !info.defaults.is_empty(),
            module: module.to_owned(),
            path,
            method,
        })
    }
}

/// Describes a kernel that a build script compiled as a function. The accesses to its arrays are
/// unknown, so they are treated as written: read-only memory is rejected.
pub(crate) fn of_kernel(kernel: &'static KernelInfo) -> &'static FunctionInfo {
    let (params, result) = match &kernel.types {
        Some(types) => {
            let params = types.names.iter().zip(types.keys);
            let params = params.map(|(name, key)| ParamInfo { name, ty: TypeSchema::new(key), access: Access::Writes });
            (params.collect(), types.result)
        }
        None => (Vec::new(), "Any"),
    };
    Box::leak(Box::new(FunctionInfo {
        name: kernel.name,
        global_name: None,
        doc: kernel.doc,
        params: Vec::leak(params),
        defaults: &[],
        more_metadata: "",
        ret: TypeSchema::new(result),
        call: kernel.call,
        detach: None,
        crate_name: kernel.crate_name,
        file: kernel.source,
        line: 0,
    }))
}

/// Returns true if it is a kernel whose arguments are not declared.
pub(crate) fn is_undeclared(info: &FunctionInfo) -> bool {
    info.params.is_empty() && info.line == 0
}

/// The text that `help` shows, preceded by the line that `inspect.signature` parses. `first` is the
/// receiver, if there is one, which takes the first `skip` parameters.
pub(crate) fn documentation(name: &str, first: &str, info: &FunctionInfo, skip: usize) -> String {
    let mut text = format!("{name}({first}");
    let unnamed = info.params.iter().rposition(|param| is_keyword(param.name));
    for (index, parameter) in parameters(info).enumerate().skip(skip) {
        if !text.ends_with('(') {
            text.push_str(", ");
        }
        text.push_str(&parameter);
        if unnamed == Some(index) {
            text.push_str(", /");
        }
    }
    if first.starts_with('$') && info.params.len() <= skip {
        text.push_str(", /");
    }
    text.push_str(")\n--\n\n");
    text.push_str(info.doc);
    text
}

/// The parameters of a function as in its signature: `x`, `gain=0.5`.
pub(crate) fn parameters(info: &FunctionInfo) -> impl Iterator<Item = String> {
    let required = info.params.len().saturating_sub(info.defaults.len());
    info.params.iter().enumerate().map(move |(place, param)| {
        match place.checked_sub(required).and_then(|place| info.defaults.get(place)) {
            Some(default) => format!("{}={}", written(param.name), literal(default)),
            None => written(param.name).into_owned(),
        }
    })
}

/// A parameter's name in a signature: a Python keyword gets an underscore. It can only be passed by
/// position.
fn written(name: &str) -> Cow<'_, str> {
    if is_keyword(name) { Cow::Owned(format!("{name}_")) } else { Cow::Borrowed(name) }
}

fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &str = " False None True and as assert async await break class continue def del elif else except finally for from global \
                            if import in is lambda nonlocal not or pass raise return try while with yield ";
    name.bytes().all(|byte| byte.is_ascii_alphabetic()) && KEYWORDS.contains(&format!(" {name} "))
}

/// A default, which is JSON, in Python's syntax; `...` for a default that only a call can compute.
/// `inspect` parses ASCII only.
fn literal(default: &'static str) -> Cow<'static, str> {
    Cow::Borrowed(match default {
        "null" => "None",
        "true" => "True",
        "false" => "False",
        object if object.starts_with('{') => "...",
        value if value.is_ascii() => value,
        text => {
            let escaped = |c: char| match c.is_ascii() {
                true => c.to_string(),
                false => format!("\\U{:08x}", u32::from(c)),
            };
            return text.chars().map(escaped).collect();
        }
    })
}

/// Adds a function to a module.
pub(crate) fn add(
    py: Py,
    module: &Owned,
    module_name: &Owned,
    root: &str,
    path: Vec<String>,
    info: &'static FunctionInfo,
) -> PyResult<()> {
    let Some(name) = path.last().cloned() else { return Ok(()) };
    let callable = Box::leak(Box::new(Callable::new(py, info, root, path, false)?));
    let function = new(py, callable, module_name)?;
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
    let callable = Box::leak(Box::new(Callable::new(py, info, module, vec![name.to_owned()], false)?));
    new(py, callable, &py.interned(module)?)
}

/// Creates the function object of a description.
fn new(py: Py, callable: &'static Callable, module: &Owned) -> PyResult<Owned> {
    // SAFETY: the class is alive and its objects have room for one pointer behind the header; the
    // definition lives forever.
    unsafe {
        let this = Owned::take(py, py.PyType_GenericAlloc(State::get(py).bound, 0))?;
        *pointer_place(py, this.as_ptr()) = ptr::from_ref(callable).cast_mut().cast();
        Owned::take(py, py.PyCFunction_NewEx(&callable.method, this.as_ptr(), module.as_ptr()))
    }
}

/// The entry point of every function of the module.
unsafe extern "C" fn call(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with `this` as `add` made it and arguments
    // that live for the call.
    let result = unsafe {
        let py = Py::held();
        let callable = &*(*pointer_place(py, this)).cast::<Callable>();
        run(py, callable, Given::new(args, count, names))
    };
    result.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// Converts the arguments, calls the function, and converts the result.
///
/// # Safety
/// The arguments live for the call.
#[inline]
pub(crate) unsafe fn run(py: Py, callable: &Callable, given: Given) -> PyResult<Owned> {
    // Until the arguments are dropped, including the functions created from callables.
    let _call = callable.calls_back.then(|| Call::enter(py));
    let mut arguments = Arguments::new();
    // SAFETY: promised by the caller.
    unsafe {
        arguments.bind(py, callable, given)?;
        run_with(py, callable, arguments.views())
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
        class::write_view(py, receiver, &mut view)?;
        run_with(py, callable, core::slice::from_ref(&view))
    }
}

/// # Safety
/// The views are the arguments of this function, and live for the call.
#[inline(always)]
unsafe fn run_with(py: Py, callable: &Callable, views: &[TVMFFIAny]) -> PyResult<Owned> {
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
        return Err(ResultPlace::error(result));
    }
    if (type_index::DL_TENSOR_PTR..=type_index::OBJECT_RVALUE_REF).contains(&result.type_index) {
        return Err(Error::type_error("the function returned a borrowed pointer, which cannot be kept"));
    }
    Ok(())
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
    // SAFETY: the interpreter calls with its lock held, with `this` as `add` made it.
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
