//! The arguments of a call: bound to parameters, converted, kept until the call is over.

use kernpack_core::abi::TVMFFIAny;
use kernpack_core::function::{FunctionInfo, did_you_mean};
use kernpack_core::value::TypeSchema;
use kernpack_core::{Any, Error};

use crate::capi::{Py, PyObject};
use crate::from_python::{self, Keep, Refused};
use crate::function::is_undeclared;
use crate::object::{PyResult, Raised};
use crate::{exception, handle};

/// Arguments as CPython's fast calls pass them, borrowed for the call.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    values: *const *mut PyObject,
    positional: usize,
    /// A tuple of names, whose values follow those by position; NULL for none.
    names: *mut PyObject,
}

impl Given {
    /// The arguments of a call.
    pub(crate) fn new(values: *const *mut PyObject, positional: isize, names: *mut PyObject) -> Self {
        Self { values, positional: positional.max(0) as usize, names }
    }

    /// The argument at this place.
    ///
    /// # Safety
    /// There is one.
    unsafe fn value(self, index: usize) -> *mut PyObject {
        // SAFETY: promised by the caller.
        unsafe { *self.values.add(index) }
    }
}

/// Arguments that need no allocation.
const INLINE: usize = 8;

/// The converted arguments of one call, and what they borrow from.
pub(crate) struct Arguments {
    views: [TVMFFIAny; INLINE],
    keeps: [Keep; INLINE],
    count: usize,
    /// All of them, when there are more than fit.
    many: Vec<TVMFFIAny>,
    many_keeps: Vec<Keep>,
}

impl Arguments {
    /// None yet.
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            views: [TVMFFIAny::NONE; INLINE],
            keeps: [const { Keep::Nothing }; INLINE],
            count: 0,
            many: Vec::new(),
            many_keeps: Vec::new(),
        }
    }

    /// The arguments as the ABI passes them; they live as long as this value stays where it is.
    #[inline]
    pub(crate) fn views(&self) -> &[TVMFFIAny] {
        if self.many.is_empty() { &self.views[..self.count] } else { &self.many }
    }

    /// Adds an argument that is converted already.
    #[inline]
    pub(crate) fn push(&mut self, view: TVMFFIAny, keep: Keep) {
        if self.count < INLINE {
            self.views[self.count] = view;
            self.keeps[self.count] = keep;
        } else {
            if self.many.is_empty() {
                self.many.extend_from_slice(&self.views);
            }
            self.many.push(view);
            self.many_keeps.push(keep);
        }
        self.count += 1;
    }

    /// Converts an argument and adds it.
    ///
    /// # Safety
    /// The object lives for the call.
    #[inline]
    unsafe fn convert(&mut self, py: Py, info: &FunctionInfo, object: *mut PyObject, place: usize) -> PyResult<()> {
        const ANY: TypeSchema = TypeSchema::new("Any");
        let (ty, writes) = info.params.get(place).map_or((&ANY, false), |param| (&param.ty, param.writes));
        // SAFETY: promised by the caller.
        match unsafe { from_python::argument(py, object, ty, writes) } {
            Ok((view, keep)) => {
                self.push(view, keep);
                Ok(())
            }
            Err(refused) => Err(refuse(py, info, place, refused)),
        }
    }

    /// Converts an argument of a constructor, whose parameters are not known, and adds it.
    ///
    /// # Safety
    /// The object lives for the call.
    pub(crate) unsafe fn add(&mut self, py: Py, object: *mut PyObject, name: &str) -> PyResult<()> {
        const ANY: TypeSchema = TypeSchema::new("Any");
        // SAFETY: promised by the caller.
        match unsafe { from_python::argument(py, object, &ANY, false) } {
            Ok((view, keep)) => {
                self.push(view, keep);
                Ok(())
            }
            Err(Refused::Raised(raised)) => Err(raised),
            Err(Refused::Because { kind, clause }) => {
                Err(exception::raise(py, &Error::with_backtrace(kind, &format!("{name}: {clause}"), "")))
            }
        }
    }

    /// Binds arguments to the parameters of a function and converts them. Too few by position are passed on as they are: the function says
    /// what it expects, or has defaults.
    ///
    /// # Safety
    /// The arguments live for the call; `names` are the names of the parameters.
    #[inline]
    pub(crate) unsafe fn bind(
        &mut self,
        py: Py,
        info: &FunctionInfo,
        names: &[*mut PyObject],
        has_defaults: bool,
        given: Given,
    ) -> PyResult<()> {
        if given.names.is_null() {
            for index in 0..given.positional {
                // SAFETY: promised by the caller; the index is one of them.
                unsafe { self.convert(py, info, given.value(index), index)? };
            }
            return Ok(());
        }
        // SAFETY: promised by the caller.
        unsafe { self.bind_named(py, info, names, has_defaults, given) }
    }

    /// # Safety
    /// As for [`Arguments::bind`]; there are names.
    #[inline(never)]
    unsafe fn bind_named(
        &mut self,
        py: Py,
        info: &FunctionInfo,
        names: &[*mut PyObject],
        has_defaults: bool,
        given: Given,
    ) -> PyResult<()> {
        let fault = |clause: &str| Err(exception::raise(py, &info.fault(clause)));
        if is_undeclared(info) {
            return fault("the kernel's arguments have no names; pass them by position");
        }
        if given.positional > names.len() {
            let (most, got) = (names.len(), given.positional);
            let noun = if most == 1 { "argument" } else { "arguments" };
            return fault(&format!("expected {most} {noun}, got {got}"));
        }
        let mut few = [core::ptr::null_mut(); INLINE];
        let mut many = Vec::new();
        let places: &mut [*mut PyObject] = if names.len() <= INLINE {
            &mut few[..names.len()]
        } else {
            many.resize(names.len(), core::ptr::null_mut());
            &mut many
        };
        // SAFETY: promised by the caller: values by position, then one for each of the names, which are a tuple of texts.
        unsafe {
            for (index, place) in places[..given.positional].iter_mut().enumerate() {
                *place = given.value(index);
            }
            for index in 0..py.PyTuple_Size(given.names) {
                let name = py.PyTuple_GetItem(given.names, index);
                let same = |known: &*mut PyObject| *known == name;
                // Names in a program are interned, so nearly always they are the same object.
                let found = names.iter().position(same);
                let found = found.or_else(|| names.iter().position(|known| py.PyUnicode_Compare(*known, name) == 0));
                let Some(place) = found else {
                    let name = String::from_utf8_lossy(py.utf8(name)?).into_owned();
                    let hint = did_you_mean(&name, &mut info.params.iter().map(|param| param.name));
                    return fault(&format!("there is no argument '{name}'{hint}"));
                };
                if !places[place].is_null() {
                    return fault(&format!("argument '{}' is given twice", info.params[place].name));
                }
                places[place] = given.value(given.positional + index as usize);
            }
            let end = places.iter().rposition(|place| !place.is_null()).map_or(0, |last| last + 1);
            if has_defaults && places[..end].contains(&core::ptr::null_mut()) {
                return self.bind_around_defaults(py, info, &places[..end]);
            }
            for (place, object) in places[..end].iter().enumerate() {
                if object.is_null() {
                    return fault(&format!("argument '{}' is missing", info.params[place].name));
                }
                self.convert(py, info, *object, place)?;
            }
        }
        Ok(())
    }
}

impl Arguments {
    /// Arguments of a function whose parameters may have defaults, where one in the middle is left away: those behind it go by name.
    ///
    /// # Safety
    /// The objects that are not NULL live for the call.
    #[cold]
    unsafe fn bind_around_defaults(&mut self, py: Py, info: &FunctionInfo, places: &[*mut PyObject]) -> PyResult<()> {
        let first = places.iter().position(|place| place.is_null()).unwrap_or(places.len());
        // SAFETY: promised by the caller; the names are texts of the library, which are copied.
        unsafe {
            for (place, object) in places[..first].iter().enumerate() {
                self.convert(py, info, *object, place)?;
            }
            let marker = handle::keywords_marker().map_err(|error| exception::raise(py, &error))?;
            self.push(*marker.as_raw(), Keep::Value(marker));
            for (place, object) in places.iter().enumerate().filter(|(_, object)| !object.is_null()).skip(first) {
                let name = Any::from(info.params[place].name);
                self.push(*name.as_raw(), Keep::Value(name));
                self.convert(py, info, *object, place)?;
            }
        }
        Ok(())
    }
}

/// The exception for an argument that no value of the ABI can stand for.
#[cold]
fn refuse(py: Py, info: &FunctionInfo, place: usize, refused: Refused) -> Raised {
    let (kind, clause) = match refused {
        Refused::Raised(raised) => return raised,
        Refused::Because { kind, clause } => (kind, clause),
    };
    let message = match info.params.get(place) {
        Some(param) if !param.name.is_empty() => format!("argument '{}': {clause}", param.name),
        _ => format!("argument {place}: {clause}"),
    };
    let text = info.fault(&message);
    exception::raise(py, &Error::with_backtrace(kind, text.message(), ""))
}
