//! Objects of the interpreter that the crate keeps: created at the first import, never released.

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::ffi::CString;

use kernpack_core::Any;
use kernpack_core::abi::SafeCall;
use kernpack_core::generated_code::{Collected, EnumKind, MethodDef, Recursion};

use super::capi::{Py, PyObject};
use super::object::{Owned, PyResult};

/// Objects of the interpreter that imported the library.
pub(crate) struct State {
    /// The name of the module that was imported first, to which later definitions belong.
    pub(crate) module: String,
    /// The contents of the artifact.
    pub(crate) collected: Collected,
    /// The comparison and hash of objects by hooks, if a type of the artifact has one.
    pub(crate) recursion: Option<&'static Recursion>,
    /// Exception classes by kind of error.
    pub(crate) exceptions: *mut PyObject,
    /// The class of the `self` of the module's functions.
    pub(crate) bound: *mut PyObject,
    /// The class of functions as values.
    pub(crate) function: *mut PyObject,
    /// The class of tensors.
    pub(crate) tensor: *mut PyObject,
    /// The base class of the classes of all registered types.
    pub(crate) object: *mut PyObject,
    /// The functions of higher rooms.
    pub(crate) higher: Higher,
}

/// Functions of higher rooms that lower rooms call.
pub(crate) struct Higher {
    /// Creates the class of a type, which has none yet.
    pub(crate) class_of_type: fn(Py, i32) -> PyResult<*mut PyObject>,
    /// Creates the class of lists or, if `is_dict`, of dicts.
    pub(crate) class_of_container: fn(Py, is_dict: bool) -> PyResult<Owned>,
    /// The Python object for a value whose type is not declared.
    pub(crate) object_of_value: fn(Py, &Any) -> PyResult<Owned>,
    /// The entry point of functions that call Python objects.
    pub(crate) call_of_callable: SafeCall,
}

/// Classes that are created before the state.
pub(crate) struct Classes {
    pub(crate) bound: Owned,
    pub(crate) function: Owned,
    pub(crate) tensor: Owned,
    pub(crate) object: Owned,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());

impl State {
    /// The state that was created at the first import; it lives as long as the interpreter.
    #[inline]
    pub(crate) fn get(_: Py) -> &'static Self {
        // SAFETY: `prepare` stores a state that lives forever, before anything of the module can be
        // called.
        unsafe { &*STATE.load(Ordering::Acquire) }
    }

    /// The `__module__` of classes: the module, or the package around it if both have one name,
    /// such as `mylib` for `mylib.mylib`. Such a package imports everything from the module.
    pub(crate) fn module_of_classes(&self) -> &str {
        match self.module.rsplit_once('.') {
            Some((package, name)) if package.rsplit('.').next() == Some(name) => package,
            _ => &self.module,
        }
    }

    /// Returns true if the artifact has an enum of integers with this type key.
    pub(crate) fn has_int_enum(key: &str) -> bool {
        // SAFETY: as for `get`; before that there is nothing to convert.
        let state = unsafe { STATE.load(Ordering::Acquire).as_ref() };
        let has = |state: &Self| state.collected.enums.iter().any(|def| def.kind == EnumKind::Int && def.key == key);
        state.is_some_and(has)
    }

    /// Returns true if the artifact has a type with this key.
    pub(crate) fn has_type(key: &str) -> bool {
        // SAFETY: as for `has_int_enum`.
        let state = unsafe { STATE.load(Ordering::Acquire).as_ref() };
        state.is_some_and(|state| state.collected.types.iter().any(|def| def.key == key))
    }

    /// Creates the state, once.
    pub(crate) fn prepare(
        py: Py,
        module: &str,
        collected: Collected,
        higher: Higher,
        classes: fn(Py) -> PyResult<Classes>,
    ) -> PyResult<()> {
        if !STATE.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        // SAFETY: a new dict.
        let exceptions = unsafe { Owned::take(py, py.PyDict_New())? };
        let Classes { bound, function, tensor, object } = classes(py)?;
        let recursion = collected.methods.iter().flat_map(|block| block.members).find_map(|member| match member {
            MethodDef::Hook { recursion, .. } => *recursion,
            _ => None,
        });
        let state = Self {
            module: module.to_owned(),
            collected,
            recursion,
            exceptions: exceptions.into_ptr(),
            bound: bound.into_ptr(),
            function: function.into_ptr(),
            tensor: tensor.into_ptr(),
            object: object.into_ptr(),
            higher,
        };
        let state = Box::into_raw(Box::new(state));
        if STATE.compare_exchange(ptr::null_mut(), state, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: this one was made above and stored nowhere. Its objects are leaked, which is
            // harmless: another thread was faster.
            drop(unsafe { Box::from_raw(state) });
        }
        Ok(())
    }

    /// An attribute of the module that was imported first.
    pub(crate) fn attribute_of_module(py: Py, name: &CStr) -> PyResult<Owned> {
        let module = CString::new(Self::get(py).module.as_str()).unwrap_or_default();
        let module = py.import(&module)?;
        // SAFETY: the module is alive.
        unsafe { py.attribute(module.as_ptr(), name) }
    }
}
