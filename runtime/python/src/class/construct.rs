//! Constructors: `Class(...)`, and `__init__` of classes that Python derives.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use kernpack_core::abi::{TVMFFIFieldSetter, TVMFFIObject, field_flag, type_index};
use kernpack_core::generated_code::{MethodDef, ParamInfo, ParamKind};
use kernpack_core::reflect::{AttrColumn, TypeInfo};
use kernpack_core::{Any, Error, embedded};

use super::declared::blocks;
use crate::call::arguments::Arguments;
use crate::call::function::invoke;
use crate::call::given::Given;
use crate::call::handle;
use crate::cpython::alive;
use crate::cpython::capi::{Py, PyObject, constant};
use crate::cpython::exception;
use crate::cpython::heap_type::pointer_place;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::pending;
use crate::cpython::state::State;
use crate::instance::table::{self, Class};
use crate::signature::callable::{Callable, Origin};
use crate::signature::constructor::{Constructor, Fields};
use crate::signature::refused::Refused;
use crate::signature::text;
use crate::signature::wanted::Wanted;

/// The constructor, as a type attribute.
static INIT: AttrColumn = AttrColumn::new("__ffi_init__");

impl Constructor {
    /// The constructor of a type.
    pub(crate) fn of(py: Py, info: TypeInfo) -> PyResult<Self> {
        let Some(value) = INIT.get(info.index()).filter(|value| value.type_index() == type_index::FUNCTION) else {
            return Ok(Self::None);
        };
        let declared = blocks(py, &info.key()).find_map(|member| match member {
            MethodDef::Constructor { info } => Some(*info),
            _ => None,
        });
        match (declared, value.object()) {
            (Some(info), _) => {
                Ok(Self::Own(Callable::new(py, info, "", vec!["__init__".to_owned()], Origin::Constructor)?))
            }
            (None, Some(function)) => Ok(Self::Function(function, Fields::of(py, info))),
            (None, None) => Ok(Self::None),
        }
    }
}

impl Fields {
    fn of(py: Py, info: TypeInfo) -> Option<Self> {
        let def = |info: TypeInfo| {
            let key = info.key();
            State::get(py).collected.types.iter().find(move |def| def.key == key)
        };
        let own = def(info).filter(|def| def.generated_init.is_some())?;
        let mut all: Vec<(usize, TVMFFIFieldSetter, Wanted)> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        let mut has_default = false;
        for info in info.lineage().filter(|info| info.index() != type_index::OBJECT) {
            for field in def(info)?.fields {
                // Positional parameters without a default come first.
                let is_in_order = field.default.is_some() || !has_default;
                has_default = field.default.is_some();
                if !is_in_order
                    || names.contains(&field.name)
                    || field.flags & (field_flag::INIT_OFF | field_flag::KW_ONLY) != 0
                {
                    return None;
                }
                names.push(field.name);
                all.push((field.offset, field.setter?, Wanted::field(&field.ty)));
            }
        }
        Some(Self { create: own.create?, all: all.into(), names: names.into() })
    }

    /// Creates an object with these values, with a reference for the caller; `None` if the general
    /// constructor has to handle missing or invalid arguments.
    ///
    /// # Safety
    /// The arguments live for the call.
    unsafe fn make(&self, py: Py, given: Given) -> PyResult<Option<Made>> {
        if given.positional() != self.all.len() || !given.names().is_null() {
            return Ok(None);
        }
        let mut arguments = Arguments::new();
        // SAFETY: promised by the caller; the creator returns an owned reference to an object of
        // the type that the fields belong to, and the views live as long as the arguments.
        unsafe {
            for (place, (_, _, wanted)) in self.all.iter().enumerate() {
                match arguments.convert(py, given.value(place), wanted) {
                    Ok(()) => {}
                    Err(Refused::Raised(raised)) => return Err(raised),
                    Err(Refused::Because { .. }) => return Ok(None),
                }
            }
            let mut object = ptr::null_mut();
            if (self.create)(&mut object) != 0 {
                drop(Error::take_raised());
                return Ok(None);
            }
            for ((offset, setter, _), view) in self.all.iter().zip(arguments.views()) {
                if setter(object.byte_add(*offset).cast(), view) != 0 {
                    drop(Error::take_raised());
                    embedded::dec_ref(object.cast());
                    return Ok(None);
                }
            }
            Ok(Made::new(object.cast()))
        }
    }
}

/// The parameters of the constructor as in its signature; `None` if there is none.
pub(crate) fn signature(py: Py, info: TypeInfo) -> Option<Vec<String>> {
    let declared = blocks(py, &info.key()).find_map(|member| match member {
        MethodDef::Constructor { info } => Some(*info),
        _ => None,
    });
    match declared {
        Some(declared) if INIT.get(info.index()).is_some() => Some(text::parameters(declared, "", 0)),
        _ => parameters(py, info),
    }
}

/// The names of the constructor's parameters; `None` if there is none.
pub(crate) fn parameters(py: Py, info: TypeInfo) -> Option<Vec<String>> {
    INIT.get(info.index())?;
    let declared: Option<&'static [ParamInfo]> = blocks(py, &info.key()).find_map(|member| match member {
        MethodDef::Constructor { info } => Some(info.params),
        _ => None,
    });
    Some(match declared {
        Some(params) => params.iter().map(|param| param.name.to_owned()).collect(),
        // The fields of the ancestors come first.
        None => info
            .fields()
            .filter(|field| !field.has(field_flag::INIT_OFF))
            .map(|field| field.name().into_owned())
            .collect(),
    })
}

/// The names and the kinds of the parameters of a class's constructor that declares a signature.
///
/// # Safety
/// `class` is alive.
unsafe fn declared_kinds(py: Py, class: *mut PyObject) -> Option<(&'static [*mut PyObject], &'static [ParamKind])> {
    // SAFETY: promised by the caller.
    unsafe {
        if py.PyType_GetFlags(py.type_of(class)) & constant::TYPE_SUBCLASS == 0
            || py.PyType_IsSubtype(class, State::get(py).object) == 0
        {
            return None;
        }
    }
    match &table::nearest(py, class)?.constructor {
        Constructor::Own(callable) => Some((&callable.names, callable.info.kinds?)),
        _ => None,
    }
}

/// Calls a class with arguments by the names of the constructor's parameters. A constructor that
/// declares a signature gets them as it requires.
///
/// # Safety
/// `class` is alive, and `named` is a live dict.
pub(crate) unsafe fn call_by_name(py: Py, class: *mut PyObject, named: &Owned) -> PyResult<Owned> {
    // SAFETY: promised by the caller; all objects used are alive.
    unsafe {
        let Some((names, kinds)) = declared_kinds(py, class) else {
            return Owned::take(py, py.PyObject_Call(class, py.tuple([])?.as_ptr(), named.as_ptr()));
        };
        let last = match kinds.contains(&ParamKind::VarPositional) {
            true => ParamKind::VarPositional,
            false => ParamKind::PositionalOnly,
        };
        let rest = Owned::take(py, py.PyDict_New())?;
        if py.PyDict_Update(rest.as_ptr(), named.as_ptr()) != 0 {
            return Err(Raised);
        }
        let mut values = Vec::new();
        for (kind, name) in kinds.iter().zip(names) {
            if *kind > last && *kind != ParamKind::VarKeyword {
                continue;
            }
            let Some(value) = py.dict_item(rest.as_ptr(), *name)? else { continue };
            if py.PyDict_DelItem(rest.as_ptr(), *name) != 0 {
                return Err(Raised);
            }
            match kind {
                ParamKind::VarPositional => {
                    let list = py.list_of(value.as_ptr())?;
                    let mut place = 0;
                    while let Some(value) = py.list_item(list.as_ptr(), place)? {
                        values.push(value);
                        place += 1;
                    }
                }
                ParamKind::VarKeyword if py.PyDict_Update(rest.as_ptr(), value.as_ptr()) != 0 => return Err(Raised),
                ParamKind::VarKeyword => {}
                _ => values.push(value),
            }
        }
        let arguments = Owned::take(py, py.PyTuple_New(values.len() as isize))?;
        for (place, value) in values.into_iter().enumerate() {
            py.put(&arguments, place, value)?;
        }
        Owned::take(py, py.PyObject_Call(class, arguments.as_ptr(), rest.as_ptr()))
    }
}

/// A new object, with a reference that belongs to the caller.
type Made = ptr::NonNull<TVMFFIObject>;

/// Creates an object with the constructor of a class.
///
/// # Safety
/// The arguments live for the call.
unsafe fn made(py: Py, class: &Class, given: Given) -> PyResult<Made> {
    // SAFETY: promised by the caller.
    unsafe {
        if let Constructor::Function(_, Some(fields)) = &class.constructor
            && let Some(made) = fields.make(py, given)?
        {
            return pending::or(Ok(made)).map_err(|error| {
                embedded::dec_ref(made.as_ptr());
                exception::raise(py, &error)
            });
        }
        made_in_general(py, class, given)
    }
}

/// # Safety
/// As for [`made`].
#[inline(never)]
unsafe fn made_in_general(py: Py, class: &Class, given: Given) -> PyResult<Made> {
    let mut arguments = Arguments::new();
    let name = &class.name;
    // SAFETY: promised by the caller; the type table keeps the function; the views live as long as
    // the arguments.
    let result = unsafe {
        match &class.constructor {
            Constructor::None => {
                return Err(py.raise(
                    py.PyExc_TypeError(),
                    &format!("{name} has no constructor; functions of the library make its objects"),
                ));
            }
            Constructor::Own(callable) => {
                arguments.bind_any(py, callable, given)?;
                let mut result = callable.before;
                invoke(py, callable, arguments.views(), &mut result).map(|()| Any::from_raw(result))
            }
            Constructor::Function(function, fields) => {
                add_all(py, &mut arguments, given, name, fields.as_ref())?;
                handle::call_object(*function, arguments.views())
            }
        }
    };
    let result = pending::or(result).map_err(|error| exception::raise(py, &error))?;
    match result.as_view().object().and_then(Made::new) {
        Some(object) if table::is_a(result.type_index(), class.index) => {
            core::mem::forget(result);
            Ok(object)
        }
        _ => Err(py.raise(py.PyExc_TypeError(), &format!("the constructor of {name} gave no {name}"))),
    }
}

/// Converts arguments for a function that takes them by position, then by name.
///
/// # Safety
/// The arguments live for the call.
unsafe fn add_all(
    py: Py,
    arguments: &mut Arguments,
    given: Given,
    name: &str,
    fields: Option<&Fields>,
) -> PyResult<()> {
    let wanted = |place: Option<usize>| match fields.zip(place).and_then(|(fields, place)| fields.all.get(place)) {
        // The function may copy a text, so it is not lent.
        Some((.., wanted)) if !wanted.lends_text => wanted,
        _ => &Wanted::ANY,
    };
    // SAFETY: promised by the caller: values by position, then one for each of the names, which are
    // a tuple of texts.
    unsafe {
        for place in 0..given.positional() {
            arguments.add(py, given.value(place), wanted(Some(place)), &name)?;
        }
        let names = given.names();
        if names.is_null() || py.PyTuple_Size(names) == 0 {
            return Ok(());
        }
        arguments.push_marker(py)?;
        for place in 0..py.PyTuple_Size(names) {
            let field = py.PyTuple_GetItem(names, place);
            arguments.add(py, field, &Wanted::ANY, &name)?;
            let field = py.utf8(field)?;
            let field = fields.and_then(|fields| fields.names.iter().position(|name| name.as_bytes() == field));
            arguments.add(py, given.value(given.positional() + place as usize), wanted(field), &name)?;
        }
        Ok(())
    }
}

/// Offsets in `PyTypeObject`, which are the same since 3.8 in builds with the interpreter's lock.
mod offset {
    pub(super) const FLAGS: usize = 168;
    pub(super) const INIT: usize = 296;
    pub(super) const NEW: usize = 312;
    pub(super) const FREE: usize = 320;
    pub(super) const VECTORCALL: usize = 400;
}

/// The word at an offset of a class.
///
/// # Safety
/// `class` is alive, and its interpreter has the interpreter's lock.
unsafe fn word(class: *mut PyObject, offset: usize) -> *mut *mut c_void {
    // SAFETY: promised by the caller: the struct is larger.
    unsafe { class.byte_add(offset).cast() }
}

/// Lets the interpreter call a class without a tuple of arguments, if the memory layout of classes
/// is known. Otherwise `__init__` does the same.
///
/// # Safety
/// `class` is a class of this room.
pub(crate) unsafe fn take_calls(py: Py, class: *mut PyObject) {
    if !py.is_plain() {
        return;
    }
    // SAFETY: promised by the caller. Four known values at their places, and a class of CPython's
    // own that is called this way, say that the struct is the known one.
    unsafe {
        let is_known = (*word(class, offset::FLAGS)).addr() as u64 == py.PyType_GetFlags(class)
            && *word(class, offset::INIT) == py.PyType_GetSlot(class, constant::TP_INIT)
            && *word(class, offset::NEW) == py.PyType_GetSlot(class, constant::TP_NEW)
            && *word(class, offset::FREE) == py.PyType_GetSlot(class, constant::TP_FREE)
            && (*word(class, offset::VECTORCALL)).is_null()
            && !(*word(py.PyList_Type(), offset::VECTORCALL)).is_null();
        if is_known {
            *word(class, offset::VECTORCALL) = call as *mut c_void;
        }
    }
}

/// `Class(...)`.
unsafe extern "C" fn call(
    class: *mut PyObject,
    args: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    /// The highest bit means that the caller reserves a slot before the arguments.
    const COUNT: usize = usize::MAX >> 1;
    // SAFETY: the interpreter calls with its lock held, for a class that `take_calls` has changed,
    // with arguments that live for the call. What the constructor makes goes into a new object of
    // the class, which has its pointer behind the header.
    let object = unsafe {
        let py = Py::held();
        let given = Given::new(args, (count & COUNT) as isize, names);
        (|| {
            // Not if Python code has given the class another `__init__`.
            let is_own = *word(class, offset::INIT) == init as *mut c_void;
            let Some(known) = table::of_class(class).filter(|_| is_own) else { return call_as_usual(py, class, given) };
            let made = made(py, known, given)?.as_ptr();
            // The constructor may return an object that it has returned before.
            if !embedded::is_unique(made)
                && let Some(alive) = alive::find(py, made)?.filter(|alive| py.type_of(alive.as_ptr()) == class)
            {
                embedded::dec_ref(made);
                return Ok(alive);
            }
            table::hold(py, class, made)
        })()
    };
    object.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// Undoes the change of `take_calls` for good, and calls the class as the interpreter does.
///
/// # Safety
/// As for [`call`].
#[cold]
unsafe fn call_as_usual(py: Py, class: *mut PyObject, given: Given) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        *word(class, offset::VECTORCALL) = ptr::null_mut();
        given.call_behind(py, class, None)
    }
}

/// `__init__`: stores the object that the type's constructor creates in the new Python object.
pub(crate) unsafe extern "C" fn init(this: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> c_int {
    // SAFETY: the interpreter calls with its lock held, with a tuple, and a dict or NULL.
    let done = unsafe { construct(Py::held(), this, args, kwargs) };
    if done.is_ok() { 0 } else { -1 }
}

/// # Safety
/// `this` is alive and of a class derived from the base; `args` is a tuple, `kwargs` a dict or
/// NULL.
unsafe fn construct(py: Py, this: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> PyResult<()> {
    // SAFETY: promised by the caller. Arguments by name are held here. Code of Python may run while
    // arguments are converted, so the place is looked at again before it is written; once written
    // it stays, since calls that run without the lock may borrow from it.
    unsafe {
        let Some(class) = table::nearest(py, py.type_of(this)) else {
            let text = "Object has no constructor; functions of the library make its objects";
            return Err(py.raise(py.PyExc_TypeError(), text));
        };
        let positional = py.PyTuple_Size(args);
        let mut values: Vec<*mut PyObject> = (0..positional).map(|place| py.PyTuple_GetItem(args, place)).collect();
        let (mut names, mut entries) = (None, Vec::new());
        if !kwargs.is_null() && py.PyDict_Size(kwargs) > 0 {
            entries = py.entries(kwargs)?;
            let tuple = Owned::take(py, py.PyTuple_New(entries.len() as isize))?;
            for (place, [name, value]) in entries.iter().enumerate() {
                // The interpreter does not check the keys for `__init__`.
                if py.PyType_GetFlags(py.type_of(name.as_ptr())) & constant::UNICODE_SUBCLASS == 0 {
                    return Err(py.raise(py.PyExc_TypeError(), "keywords must be strings"));
                }
                py.put(&tuple, place, Owned::share(py, name.as_ptr()))?;
                values.push(value.as_ptr());
            }
            names = Some(tuple);
        }
        let given = Given::new(values.as_ptr(), positional, names.as_ref().map_or(ptr::null_mut(), Owned::as_ptr));
        let made = made(py, class, given)?;
        drop(entries);
        let place = AtomicPtr::from_ptr(pointer_place(py, this));
        let new = made.as_ptr().cast();
        if place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            embedded::dec_ref(made.as_ptr());
            return Err(py.raise(py.PyExc_TypeError(), &format!("the {} is constructed already", class.name)));
        }
        alive::note_shared(py, this, made.as_ptr())
    }
}
