//! Calls of functions that declare a signature: arguments are bound to parameters by Python's
//! rules.

use core::ptr;

use kernpack_core::function::{FunctionRole, ParamKind};

use super::arguments::{Arguments, INLINE, places};
use super::given::Given;
use crate::convert::keep::Keep;
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::state::State;
use crate::signature::callable::{Callable, Origin};
use crate::signature::text;

impl Arguments {
    /// Binds arguments to the parameters of a function that declares a signature, and converts
    /// them. A call that does not fit raises the exception of a Python function.
    ///
    /// # Safety
    /// The arguments live for the call.
    #[inline(never)]
    pub(super) unsafe fn bind_signed(&mut self, py: Py, callable: &Callable, given: Given) -> PyResult<()> {
        let kinds = callable.info.kinds.unwrap_or_default();
        let mut few = [ptr::null_mut(); INLINE];
        let mut many = Vec::new();
        let places = places(&mut few, &mut many, kinds.len());
        // SAFETY: promised by the caller.
        unsafe {
            let is_bound = self.positional(py, kinds, given, places)?
                && (given.names().is_null() || self.named(py, callable, given, places)?);
            let is_missing = |(place, object): (usize, &*mut PyObject)| {
                object.is_null() && text::default(callable.info, place).is_none()
            };
            if !is_bound || places.iter().enumerate().any(is_missing) {
                return Err(refuse(py, callable, given));
            }
            self.bind_places(py, callable, places)
        }
    }

    /// Assigns the arguments by position. Returns `false` if there are too many.
    ///
    /// # Safety
    /// As for [`Arguments::bind_signed`].
    unsafe fn positional(
        &mut self,
        py: Py,
        kinds: &[ParamKind],
        given: Given,
        places: &mut [*mut PyObject],
    ) -> PyResult<bool> {
        let most = kinds.iter().take_while(|kind| **kind <= ParamKind::PositionalOrKeyword).count();
        for (index, place) in places.iter_mut().enumerate().take(most.min(given.positional())) {
            // SAFETY: promised by the caller: there are this many.
            *place = unsafe { given.value(index) };
        }
        if given.positional() <= most {
            return Ok(true);
        }
        if kinds.get(most) != Some(&ParamKind::VarPositional) {
            return Ok(false);
        }
        // SAFETY: as above.
        let rest = unsafe { given.positional_from(py, most, None)? };
        places[most] = rest.as_ptr();
        self.keep(Keep::Object(rest));
        Ok(true)
    }

    /// Assigns the arguments by name. Returns `false` if one does not have a parameter, or its
    /// parameter has an argument.
    ///
    /// # Safety
    /// As for [`Arguments::bind_signed`]; there are names.
    unsafe fn named(
        &mut self,
        py: Py,
        callable: &Callable,
        given: Given,
        places: &mut [*mut PyObject],
    ) -> PyResult<bool> {
        let kinds = callable.info.kinds.unwrap_or_default();
        let has_name =
            |place: usize| matches!(kinds.get(place), Some(ParamKind::PositionalOrKeyword | ParamKind::KeywordOnly));
        let options = kinds.len().wrapping_sub(1);
        // SAFETY: promised by the caller: a tuple of texts, with one value for each of them behind
        // the positional arguments.
        unsafe {
            for index in 0..py.PyTuple_Size(given.names()) {
                let name = py.PyTuple_GetItem(given.names(), index);
                let value = given.value(given.positional() + index as usize);
                let mut known = callable.names.iter().enumerate().filter(|(place, _)| has_name(*place));
                // Names in a program are interned, so nearly always they are the same object.
                let found = known.clone().find(|(_, known)| **known == name);
                let found = found.or_else(|| known.find(|(_, known)| py.PyUnicode_Compare(**known, name) == 0));
                if let Some((place, _)) = found {
                    if !places[place].is_null() {
                        return Ok(false);
                    }
                    places[place] = value;
                    continue;
                }
                if kinds.last() != Some(&ParamKind::VarKeyword) {
                    return Ok(false);
                }
                if places[options].is_null() {
                    let dict = Owned::take(py, py.PyDict_New())?;
                    places[options] = dict.as_ptr();
                    self.keep(Keep::Object(dict));
                }
                if py.PyDict_SetItem(places[options], name, value) != 0 {
                    return Err(Raised);
                }
            }
        }
        Ok(true)
    }
}

/// Raises the exception that a call with these arguments raises in Python: a function of the same
/// signature is created and called, so the text is that of the interpreter.
///
/// # Safety
/// The arguments live for the call, and do not fit the signature.
#[cold]
#[inline(never)]
unsafe fn refuse(py: Py, callable: &Callable, given: Given) -> Raised {
    // The object or the class, which is not among the arguments here.
    let first = match (callable.origin, callable.info.role) {
        (Origin::Constructor, _) => "$self",
        (_, FunctionRole::ClassMethod) => "$cls",
        _ => "",
    };
    let name = callable.path.last().map_or("f", String::as_str);
    let name = text::written(name);
    let parameters = text::parameters(callable.info, first, 0).join(", ").replace('$', "");
    let source = format!("def {name}({parameters}): pass");
    let call = || -> PyResult<()> {
        let builtins = py.import(c"builtins")?;
        // SAFETY: all objects are alive, and the arguments are as the caller promises.
        unsafe {
            let execute = py.attribute(builtins.as_ptr(), c"exec")?;
            let names = Owned::take(py, py.PyDict_New())?;
            let globals = Owned::share(py, names.as_ptr());
            py.call(execute.as_ptr(), [py.text(&source)?, globals])?;
            let key = py.text(&name)?;
            let Some(function) = py.dict_item(names.as_ptr(), key.as_ptr())? else { return Ok(()) };
            // A function refers to its globals; with a reference back, only the garbage collector
            // would free the two.
            if py.PyDict_DelItem(names.as_ptr(), key.as_ptr()) != 0 {
                return Err(Raised);
            }
            let qualified = py.text(&qualified_name(py, callable))?;
            if py.PyObject_SetAttrString(function.as_ptr(), c"__qualname__".as_ptr(), qualified.as_ptr()) != 0 {
                return Err(Raised);
            }
            let receiver = (!first.is_empty()).then(|| Owned::share(py, py.none()));
            given.call_behind(py, function.as_ptr(), receiver)?;
        }
        Ok(())
    };
    match call() {
        Err(raised) => raised,
        Ok(()) => py.raise(py.PyExc_TypeError(), &format!("{source}: the arguments do not fit")),
    }
}

/// The name of a function in messages: that of a method begins with its class.
fn qualified_name(py: Py, callable: &Callable) -> String {
    let module = State::get(py).module.rsplit('.').next().unwrap_or_default();
    let name = callable.info.name;
    let inside = name.strip_prefix(module).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
    // The path of a method is its name alone.
    match inside.split('.').count() == callable.path.len() {
        true => callable.path.last().cloned().unwrap_or_default(),
        false => inside.replace("__ffi_init__", "__init__"),
    }
}
