//! Objects of classes of Python's standard library. Their values are simpler ones: a path and an
//! internet address are texts, a set is an array, and a `timedelta`, a `datetime` and a complex
//! number are pairs of numbers.

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::object::{Owned, PyResult};
use crate::signature::refused::Refused;
use crate::signature::wanted::Kind;

const SECONDS_PER_DAY: i64 = 86_400;
const NANOS_PER_MICRO: i64 = 1_000;

/// The text, list or tuple that represents an object for a parameter of this kind; `None` if the
/// object is not of a class that the parameter accepts.
///
/// # Safety
/// `object` is alive.
#[inline(never)]
pub(super) unsafe fn simpler(py: Py, object: *mut PyObject, kind: Kind) -> Result<Option<Owned>, Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        match kind {
            Kind::Path => path_text(py, object),
            Kind::Address => address_text(py, object),
            Kind::Set => elements(py, object),
            Kind::Duration => {
                let times = Times::get(py)?;
                let is_one = py.PyType_IsSubtype(py.type_of(object), times.span) != 0;
                Ok(if is_one { Some(seconds(py, object)?) } else { None })
            }
            Kind::Time => since_epoch(py, object),
            Kind::Complex => parts(py, object),
            _ => Ok(None),
        }
    }
}

/// Creates the object of the class that a result has, from the list of its elements. `key` is the
/// declared type; the list itself is the result for types that are not of this module.
///
/// # Safety
/// `list` is a new `list`.
#[inline(never)]
pub(super) unsafe fn of_list(py: Py, key: &str, list: Owned) -> PyResult<Owned> {
    // SAFETY: promised by the caller; classes of the interpreter, and attributes of the module.
    unsafe {
        match key {
            "set" => py.call(py.PySet_Type(), [list]),
            "complex" => {
                let [re, im] = both(py, &list)?;
                py.call(py.PyComplex_Type(), [re, im])
            }
            "datetime.timedelta" => span(py, &list),
            "datetime.datetime" => {
                let add = py.attribute(Times::get(py)?.epoch, c"__add__")?;
                py.call(add.as_ptr(), [span(py, &list)?])
            }
            _ => Ok(list),
        }
    }
}

/// Creates the object of the class that a result has, from its text. `key` is the declared type;
/// the text itself is the result for types that are not of this module.
#[inline]
pub(super) fn of_text(py: Py, key: &str, text: Owned) -> PyResult<Owned> {
    match key {
        "pathlib.Path" => made(py, c"pathlib", c"Path", text),
        "ipaddress.IPv4Address" => made(py, c"ipaddress", c"IPv4Address", text),
        "ipaddress.IPv6Address" => made(py, c"ipaddress", c"IPv6Address", text),
        "ipaddress.ip_address" => made(py, c"ipaddress", c"ip_address", text),
        _ => Ok(text),
    }
}

/// Calls a class or a function of a module.
#[inline(never)]
fn made(py: Py, module: &CStr, name: &CStr, text: Owned) -> PyResult<Owned> {
    let module = py.import(module)?;
    // SAFETY: the module and its attribute are alive.
    unsafe {
        let class = py.attribute(module.as_ptr(), name)?;
        py.call(class.as_ptr(), [text])
    }
}

/// # Safety
/// `object` is alive.
unsafe fn address_text(py: Py, object: *mut PyObject) -> Result<Option<Owned>, Refused> {
    let module = py.import(c"ipaddress")?;
    // SAFETY: promised by the caller; the module and its classes are alive.
    unsafe {
        for name in [c"IPv4Address", c"IPv6Address"] {
            let class = py.attribute(module.as_ptr(), name)?;
            if py.PyType_IsSubtype(py.type_of(object), class.as_ptr()) != 0 {
                return Ok(Some(Owned::take(py, py.PyObject_Str(object))?));
            }
        }
        Ok(None)
    }
}

/// # Safety
/// `object` is alive.
unsafe fn path_text(py: Py, object: *mut PyObject) -> Result<Option<Owned>, Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        let class = py.class_of(object);
        let Some(method) = py.attribute_if_any(class.as_ptr(), c"__fspath__")? else { return Ok(None) };
        let text = py.call(method.as_ptr(), [Owned::share(py, object)])?;
        if py.PyType_IsSubtype(py.type_of(text.as_ptr()), py.PyUnicode_Type()) != 0 {
            return Ok(Some(text));
        }
        let (class, found) = (py.class_name(object), py.class_name(text.as_ptr()));
        let clause = format!("expected a path of text, but {class}.__fspath__ returned {found}; use os.fsdecode");
        Err(Refused::Because { kind: "TypeError", clause })
    }
}

/// The elements of a set or sequence, in a list.
///
/// # Safety
/// `object` is alive.
unsafe fn elements(py: Py, object: *mut PyObject) -> Result<Option<Owned>, Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        // `collections.abc.Set` has this method, including the keys of a dict.
        let is_set = py.attribute_if_any(object, c"isdisjoint")?.is_some();
        // A mapping has items, too, but no order of them by number.
        let is_sequence =
            || Ok::<_, Refused>(py.PySequence_Check(object) != 0 && py.attribute_if_any(object, c"keys")?.is_none());
        Ok(if is_set || is_sequence()? { Some(py.list_of(object)?) } else { None })
    }
}

/// Classes and an object of the module `datetime`, which live forever.
#[derive(Clone, Copy)]
struct Times {
    /// The class `timedelta`.
    span: *mut PyObject,
    /// The beginning of 1970 in UTC.
    epoch: *mut PyObject,
}

static SPAN: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static EPOCH: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

impl Times {
    fn get(py: Py) -> PyResult<Self> {
        let (span, epoch) = (SPAN.load(Ordering::Acquire), EPOCH.load(Ordering::Acquire));
        if span.is_null() || epoch.is_null() { Self::find(py) } else { Ok(Self { span, epoch }) }
    }

    /// Imports the module. Another thread may do the same meanwhile: its objects are equal.
    #[cold]
    fn find(py: Py) -> PyResult<Self> {
        let module = py.import(c"datetime")?;
        // SAFETY: the module and its attributes are alive.
        unsafe {
            let span = py.attribute(module.as_ptr(), c"timedelta")?;
            let zone = py.attribute(module.as_ptr(), c"timezone")?;
            let zone = py.attribute(zone.as_ptr(), c"utc")?;
            let time = py.attribute(module.as_ptr(), c"datetime")?;
            let make = py.attribute(time.as_ptr(), c"fromtimestamp")?;
            let zero = Owned::take(py, py.PyLong_FromLongLong(0))?;
            let epoch = py.call(make.as_ptr(), [zero, zone])?;
            let found = Self { span: span.into_ptr(), epoch: epoch.into_ptr() };
            SPAN.store(found.span, Ordering::Release);
            EPOCH.store(found.epoch, Ordering::Release);
            Ok(found)
        }
    }
}

/// The seconds and nanoseconds of a `timedelta`.
///
/// # Safety
/// `object` is a live `timedelta`.
unsafe fn seconds(py: Py, object: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        let number = |name| py.integer_of(py.attribute(object, name)?.as_ptr());
        let days = number(c"days")?;
        let seconds = days.saturating_mul(SECONDS_PER_DAY).saturating_add(number(c"seconds")?);
        let mut nanos = number(c"microseconds")?.saturating_mul(NANOS_PER_MICRO);
        // The derived class of pandas has this part as well.
        if py.type_of(object) != Times::get(py)?.span
            && let Some(more) = py.attribute_if_any(object, c"nanoseconds")?
        {
            nanos = nanos.saturating_add(py.integer_of(more.as_ptr())?);
        }
        let seconds = Owned::take(py, py.PyLong_FromLongLong(seconds))?;
        py.tuple([seconds, Owned::take(py, py.PyLong_FromLongLong(nanos))?])
    }
}

/// The seconds and nanoseconds of a `datetime` since the beginning of 1970 in UTC.
///
/// # Safety
/// `object` is alive.
unsafe fn since_epoch(py: Py, object: *mut PyObject) -> Result<Option<Owned>, Refused> {
    // SAFETY: promised by the caller; a `datetime` minus another one is a `timedelta`.
    unsafe {
        let Times { span, epoch } = Times::get(py)?;
        if py.PyType_IsSubtype(py.type_of(object), py.type_of(epoch)) == 0 {
            return Ok(None);
        }
        let offset = py.attribute(object, c"utcoffset")?;
        if py.call(offset.as_ptr(), [])?.as_ptr() == py.none() {
            let clause = "expected a datetime with a time zone, got one without; use datetime.astimezone() or tzinfo=timezone.utc";
            return Err(Refused::Because { kind: "TypeError", clause: clause.to_owned() });
        }
        let subtract = py.attribute(object, c"__sub__")?;
        let since = py.call(subtract.as_ptr(), [Owned::share(py, epoch)])?;
        if py.PyType_IsSubtype(py.type_of(since.as_ptr()), span) == 0 {
            return Ok(None);
        }
        Ok(Some(seconds(py, since.as_ptr())?))
    }
}

/// The two elements of a list.
///
/// # Safety
/// `list` is a new `list`.
unsafe fn both(py: Py, list: &Owned) -> PyResult<[Owned; 2]> {
    // SAFETY: promised by the caller.
    unsafe {
        match (py.list_item(list.as_ptr(), 0)?, py.list_item(list.as_ptr(), 1)?) {
            (Some(first), Some(second)) => Ok([first, second]),
            _ => Err(py.raise(py.PyExc_ValueError(), "expected a pair of numbers as the result of the function")),
        }
    }
}

/// Creates a `timedelta` from seconds and nanoseconds; what is below a microsecond is dropped.
///
/// # Safety
/// `list` is a new `list`.
unsafe fn span(py: Py, list: &Owned) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the class lives forever.
    unsafe {
        let [seconds, nanos] = both(py, list)?;
        let micros = py.integer_of(nanos.as_ptr())? / NANOS_PER_MICRO;
        let days = Owned::take(py, py.PyLong_FromLongLong(0))?;
        let micros = Owned::take(py, py.PyLong_FromLongLong(micros))?;
        py.call(Times::get(py)?.span, [days, seconds, micros])
    }
}

/// The parts of a complex number, or of an object with `__complex__`.
///
/// # Safety
/// `object` is alive.
unsafe fn parts(py: Py, object: *mut PyObject) -> Result<Option<Owned>, Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        let is_complex = |object| py.PyType_IsSubtype(py.type_of(object), py.PyComplex_Type()) != 0;
        let number = match py.attribute_if_any(object, c"__complex__")? {
            _ if is_complex(object) => Owned::share(py, object),
            Some(method) => py.call(method.as_ptr(), [])?,
            None => return Ok(None),
        };
        if !is_complex(number.as_ptr()) {
            return Ok(None);
        }
        let re = py.attribute(number.as_ptr(), c"real")?;
        Ok(Some(py.tuple([re, py.attribute(number.as_ptr(), c"imag")?])?))
    }
}
