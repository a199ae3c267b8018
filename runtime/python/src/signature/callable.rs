//! Functions as Python calls them.

use kernpack_core::abi::{SafeCall, TVMFFIAny};
use kernpack_core::function::{FunctionInfo, FunctionRole, ParamInfo};
use kernpack_core::generated_code::KernelInfo;
use kernpack_core::value::{Access, LentPlaces, ResultPlace, TypeSchema};

use super::wanted::{Wanted, inner};
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::object::{Owned, PyResult};

/// The origin of a function, which determines the conversion of its arguments and its result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A function of this artifact, written in Rust.
    Function,
    /// A constructor of this artifact. It assigns arguments with names to parameters itself,
    /// whether or not they have defaults.
    Constructor,
    /// A kernel that a build script compiled.
    Kernel,
}

/// A function as Python calls it. It lives forever, like the library.
pub(crate) struct Callable {
    pub(crate) info: &'static FunctionInfo,
    /// The function itself.
    pub(crate) entry_point: SafeCall,
    /// The names of the parameters, interned.
    pub(crate) names: Box<[*mut PyObject]>,
    /// The demands of the parameters.
    pub(crate) wanted: Box<[Wanted]>,
    /// True if other threads of Python run during a call.
    pub(crate) releases: bool,
    /// True if a parameter that is a container may contain functions, which may be Python's.
    pub(crate) calls_back: bool,
    /// The initial value of the result's place before a call: the mark of a caller in the same
    /// artifact, if the function knows it.
    pub(crate) before: TVMFFIAny,
    /// True if it returns a tuple or a text, which needs a special result place.
    pub(crate) has_parts: bool,
    /// True if the function itself assigns arguments with names to parameters, as constructors and
    /// functions with defaults do.
    pub(crate) binds: bool,
    /// True if it declares a signature.
    pub(crate) is_signed: bool,
    /// True for a comparison of two objects, which may not apply to the other one.
    pub(crate) is_comparison: bool,
    /// True if `calls_back`, `is_signed` and `is_comparison` are false, and its role is not that of
    /// an operator: a single test on the path of most calls.
    pub(crate) is_ordinary: bool,
    /// The path by which Python finds the function: module, then attributes.
    pub(crate) module: String,
    pub(crate) path: Vec<String>,
    pub(crate) origin: Origin,
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

/// Returns true for the names of the methods that Python calls for `==`, `<` and their siblings.
/// Such a method of a type returns None if it does not apply to the other operand.
pub(crate) fn is_comparison(method: &str) -> bool {
    matches!(method, "__eq__" | "__ne__" | "__lt__" | "__le__" | "__gt__" | "__ge__")
}

impl Callable {
    /// Describes a function, which is an attribute of a module under the last of the names in
    /// `path`.
    pub(crate) fn new(
        py: Py,
        info: &'static FunctionInfo,
        module: &str,
        path: Vec<String>,
        origin: Origin,
    ) -> PyResult<Self> {
        let names: PyResult<Box<[_]>> =
            info.params.iter().map(|param| py.interned(param.name).map(Owned::into_ptr)).collect();
        let is_kernel = origin == Origin::Kernel;
        // A parameter that is a function itself knows the thread that lends it.
        let calls_back = has(info, |ty| inner(ty).args, &["ffi.Function"]);
        let is_signed = info.kinds.is_some();
        let is_comparison = info.params.len() == 2
            && info.params[0].name == "self"
            && path.last().is_some_and(|name| is_comparison(name));
        Ok(Self {
            info,
            entry_point: info.call,
            names: names?,
            wanted: info.params.iter().map(|param| Wanted::parameter(param, !is_kernel)).collect(),
            releases: releases(info),
            calls_back,
            before: if is_kernel { TVMFFIAny::NONE } else { ResultPlace::LENT },
            has_parts: !is_kernel
                && match info.ret.key {
                    "Tuple" => info.ret.args.len() <= LentPlaces::MOST,
                    key => key == "ffi.String",
                },
            is_signed,
            is_comparison,
            is_ordinary: !calls_back && !is_signed && !is_comparison && info.role != FunctionRole::Operator,
            binds: origin == Origin::Constructor || !info.defaults.is_empty(),
            module: module.to_owned(),
            path,
            origin,
        })
    }

    /// Returns true if it is a kernel whose arguments are not declared.
    pub(crate) fn is_undeclared(&self) -> bool {
        self.origin == Origin::Kernel && self.info.params.is_empty()
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
        kinds: None,
        role: FunctionRole::Function,
        ret: TypeSchema::new(result),
        call: kernel.call,
        detach: None,
        crate_name: kernel.crate_name,
        file: kernel.source,
        line: 0,
    }))
}
