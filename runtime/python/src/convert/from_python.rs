//! Conversion of Python objects to values of the ABI. An argument borrows if possible: text and
//! bytes from the Python object, objects from their wrappers.

use core::ptr;

use kernpack_core::abi::{TVMFFIAny, TVMFFIByteArray, type_index};
use kernpack_core::value::{AnyView, TypeSchema};
use kernpack_core::{Any, DataType, Device, IntoAny, embedded};

use super::keep::{Keep, kept, kept_object};
use super::lent::Lent;
use super::lent_object::LentObject;
use super::origin;
use super::parts::Parts;
use super::{number, standard};
use crate::cpython::capi::{Py, PyObject, constant};
use crate::cpython::heap_type::pointer_place;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::state::State;
use crate::cpython::{exception, tvm_ffi};
use crate::instance::{container, member, table};
use crate::signature::refused::{self, Refused};
use crate::signature::wanted::{Kind, Wanted};
use crate::tensor::array;

/// Writes the value for an object of one of the five most common classes, for which nothing has to
/// be kept. Returns `false` if it is of another class, or needs a conversion.
///
/// The value is written in its final place: copying it as a whole before its parts have reached the
/// cache costs more than the rest of a call.
///
/// # Safety
/// `object` is alive, and stays so for as long as the value is used; `place` is writable.
#[inline(always)]
pub(crate) unsafe fn simple(py: Py, object: *mut PyObject, wanted: &Wanted, place: *mut TVMFFIAny) -> bool {
    // SAFETY: promised by the caller.
    unsafe { in_place(py, object, wanted, place).unwrap_or_else(|| by_call(py, object, wanted, place)) }
}

/// Like [`simple`], by reading alone; `None` if [`by_call`] has to decide. For a text, that may
/// raise an exception and clear it; Python code may run then, if the interpreter collects garbage
/// when it creates an object.
///
/// # Safety
/// As for [`simple`].
#[inline(always)]
unsafe fn in_place(py: Py, object: *mut PyObject, wanted: &Wanted, place: *mut TVMFFIAny) -> Option<bool> {
    // SAFETY: promised by the caller; the functions are only called for objects of the class that
    // they are for.
    unsafe {
        let class = py.type_of(object);
        if class == py.PyLong_Type() {
            place.write(TVMFFIAny::int(py.small_int(object)?));
        } else if class == py.PyFloat_Type() {
            let value = match py.float_in_place(object) {
                Some(value) => value,
                None => py.PyFloat_AsDouble(object),
            };
            place.write(TVMFFIAny::float(value));
        } else if class == py.PyUnicode_Type() {
            return Some(simple_text(py.ascii(object)?, wanted, place));
        } else if object == py.none() {
            place.write(TVMFFIAny::NONE);
        } else if class == py.PyBool_Type() {
            place.write(TVMFFIAny::bool(object == py._Py_TrueStruct()));
        } else {
            return Some(false);
        }
        Some(true)
    }
}

/// Writes the values that [`in_place`] does not handle.
///
/// # Safety
/// As for [`simple`]; `object` is an `int` or a `str`.
#[inline]
unsafe fn by_call(py: Py, object: *mut PyObject, wanted: &Wanted, place: *mut TVMFFIAny) -> bool {
    // SAFETY: promised by the caller; the function for texts returns `size` bytes of the object.
    unsafe {
        if py.type_of(object) == py.PyLong_Type() {
            // An integer that is too large is left to `argument`, without an exception.
            let mut overflow = 0;
            let value = py.PyLong_AsLongLongAndOverflow(object, &mut overflow);
            place.write(TVMFFIAny::int(value));
            return overflow == 0;
        }
        let mut size = 0;
        let start = py.PyUnicode_AsUTF8AndSize(object, &mut size);
        if start.is_null() {
            py.PyErr_Clear();
            return false;
        }
        simple_text(core::slice::from_raw_parts(start.cast(), size as usize), wanted, place)
    }
}

/// # Safety
/// The bytes are those of a text, which lives for as long as the value is used; `place` is
/// writable.
#[inline]
unsafe fn simple_text(bytes: &[u8], wanted: &Wanted, place: *mut TVMFFIAny) -> bool {
    // SAFETY: promised by the caller; the bytes are those of a text, in UTF-8 and with a NUL behind
    // them, and live as long as it. A function that is lent them takes a text and is of this
    // artifact.
    unsafe {
        if wanted.lends_text {
            return embedded::lend_text(core::str::from_utf8_unchecked(bytes), place);
        }
        let is_small = bytes.len() <= SMALL && !matches!(wanted.kind, Kind::Device | Kind::Enum);
        if is_small {
            place.write(embedded::new_string(bytes));
        }
        is_small
    }
}

/// Converts an argument to a value, borrowed from the object and from the returned [`Keep`].
///
/// # Safety
/// `object` is alive, and stays so for as long as the value is used.
#[inline(never)]
pub(crate) unsafe fn argument(py: Py, object: *mut PyObject, wanted: &Wanted) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller; the functions are only called for objects of the class that
    // they are for.
    unsafe {
        if wanted.is_python() {
            return Ok(python(py, object, wanted));
        }
        let mut view = TVMFFIAny::NONE;
        if simple(py, object, wanted, &mut view) {
            return Ok((view, Keep::Nothing));
        }
        let class = py.type_of(object);
        if class == py.PyUnicode_Type() {
            return text(py, object, wanted);
        }
        other(py, object, class, wanted, &mut Parts::new(), NOT_A_PART)
    }
}

/// The conversions of the containers in an argument.
type Made = Parts<Owned, Any>;

/// Replaces the number of references to a part if the whole argument is converted.
const NOT_A_PART: usize = usize::MAX;

/// The longest text, in bytes, that is stored in the value itself.
const SMALL: usize = 7;

/// # Safety
/// `object` is a live `str`.
unsafe fn text(py: Py, object: *mut PyObject, wanted: &Wanted) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller; the bytes live as long as the text.
    let bytes = match unsafe { py.utf8(object) } {
        Ok(bytes) => bytes,
        // SAFETY: promised by the caller; an exception is set.
        Err(Raised) => return unsafe { escaped_text(py, object) },
    };
    if wanted.kind == Kind::Device {
        let device: Device = String::from_utf8_lossy(bytes).parse()?;
        return Ok((*device.into_any().as_raw(), Keep::Nothing));
    }
    if wanted.kind == Kind::Enum
        && let Some(object) = member::of_name(py, wanted.ty.key, bytes)
    {
        // SAFETY: the enum keeps its objects forever.
        return Ok((unsafe { TVMFFIAny::pointer((*object).type_index, object.cast()) }, Keep::Nothing));
    }
    if bytes.len() <= SMALL {
        return Ok((embedded::new_string(bytes), Keep::Nothing));
    }
    if bytes.contains(&0) {
        // A borrowed text ends at its first NUL.
        return Ok(kept(embedded::new_string(bytes)));
    }
    let mut view = TVMFFIAny::pointer(type_index::RAW_STR, ptr::null_mut());
    // Python stores a NUL after the bytes.
    view.payload.v_c_str = bytes.as_ptr().cast();
    Ok((view, Keep::Nothing))
}

/// Converts a text that is not valid UTF-8: text of other languages, whose invalid bytes were
/// converted to surrogates, is converted back to the same bytes.
///
/// # Safety
/// `object` is a live `str`, and the exception about invalid UTF-8 is set.
#[cold]
unsafe fn escaped_text(py: Py, object: *mut PyObject) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller; the bytes live until they were copied.
    unsafe {
        py.PyErr_Clear();
        let encoded = py.PyUnicode_AsEncodedString(object, c"utf-8".as_ptr(), c"surrogateescape".as_ptr());
        let encoded = Owned::take(py, encoded)?;
        let (mut start, mut size) = (ptr::null_mut(), 0);
        if py.PyBytes_AsStringAndSize(encoded.as_ptr(), &mut start, &mut size) != 0 {
            return Err(Raised.into());
        }
        Ok(kept(embedded::new_string(core::slice::from_raw_parts(start.cast(), size as usize))))
    }
}

/// A function that calls a Python object, for the duration of a call.
///
/// # Safety
/// `object` is alive, and stays alive for as long as the result.
unsafe fn lent_function(py: Py, object: *mut PyObject) -> (TVMFFIAny, Keep) {
    // SAFETY: promised by the caller; the `Keep` is dropped by the call.
    let lent = unsafe { Lent::new(py, object) };
    (lent.view(), Keep::Function(lent))
}

/// A Python object as it is, for the duration of a call; None if it is optional.
///
/// # Safety
/// `object` is alive, and stays alive for as long as the result.
pub(crate) unsafe fn python(py: Py, object: *mut PyObject, wanted: &Wanted) -> (TVMFFIAny, Keep) {
    if wanted.kind == Kind::OptionalPython && object == py.none() {
        return (TVMFFIAny::NONE, Keep::Nothing);
    }
    // SAFETY: promised by the caller; the `Keep` is dropped by the call.
    let lent = unsafe { LentObject::new(py, object) };
    (lent.view(), Keep::Python(lent))
}

/// Converts all objects that are not of the most common classes themselves.
///
/// # Safety
/// `object` is alive and of this class.
#[inline(never)]
unsafe fn other(
    py: Py,
    object: *mut PyObject,
    class: *mut PyObject,
    wanted: &Wanted,
    parts: &mut Made,
    references: usize,
) -> Result<(TVMFFIAny, Keep), Refused> {
    let Wanted { ty, kind, .. } = *wanted;
    // SAFETY: promised by the caller; the functions are only called for objects of the class, or a
    // subclass of it, that they are for.
    unsafe {
        if kind == Kind::Function
            && (class == py.PyFunction_Type() || class == py.PyMethod_Type() || class == py.PyCFunction_Type())
        {
            return Ok(lent_function(py, object));
        }
        if table::is_known(class) {
            return Ok((table::view(py, object)?, Keep::Nothing));
        }
        if class == State::get(py).function {
            let function = *pointer_place(py, object);
            return Ok((TVMFFIAny::pointer(type_index::FUNCTION, function), Keep::Nothing));
        }
        if class == State::get(py).tensor {
            let held = *pointer_place(py, object);
            if wanted.writes() && embedded::tensor::is_read_only(held.cast()) {
                return Err(refused::read_only());
            }
            return Ok((TVMFFIAny::pointer(type_index::TENSOR, held), Keep::Nothing));
        }
        if let Some(shared) = container::object_of(py, object, class) {
            return Ok((shared, Keep::Nothing));
        }
        let flags = py.PyType_GetFlags(class);
        if flags & (constant::LONG_SUBCLASS | constant::UNICODE_SUBCLASS) != 0
            && let Some(member) = member::object(class, object, wanted)
        {
            return Ok((TVMFFIAny::pointer((*member).type_index, member.cast()), Keep::Nothing));
        }
        if wanted.is_any()
            && let Some(made) = unchanged(py, object, class, wanted, parts, references)?
        {
            return Ok(made);
        }
        if flags & constant::LONG_SUBCLASS != 0 {
            return number::integer(py, object);
        }
        if flags & constant::UNICODE_SUBCLASS != 0 {
            return text(py, object, wanted);
        }
        if flags & constant::BYTES_SUBCLASS != 0 {
            return bytes(py, object);
        }
        if flags & constant::LIST_SUBCLASS != 0 {
            return container(py, object, wanted, parts, references, list);
        }
        if flags & constant::TUPLE_SUBCLASS != 0 {
            if kind == Kind::Device {
                return device_of_pair(py, object);
            }
            return container(py, object, wanted, parts, references, tuple);
        }
        if flags & constant::DICT_SUBCLASS != 0 {
            return container(py, object, wanted, parts, references, dict);
        }
        if py.PyType_IsSubtype(class, State::get(py).object) != 0 {
            return Ok((table::view(py, object)?, Keep::Nothing));
        }
        if py.PyType_IsSubtype(class, py.PyFloat_Type()) != 0 {
            return number::float(py, object);
        }
        if kind != Kind::Tensor && py.PyType_IsSubtype(class, py.PyByteArray_Type()) != 0 {
            // It may change while the function runs, so the bytes are copied; while its buffer is
            // exported, no other thread changes its size.
            return Ok(kept(embedded::new_bytes(&array::bytes_of_buffer(py, object)?)));
        }
        if class == py.PySlice_Type() && ty.mentions("slice") {
            return Ok(kept_object(number::slice(py, object)?));
        }
        if let Some(found) = tvm_ffi::object_of(py, object, class)? {
            return Ok((*found.as_raw(), Keep::Value(found)));
        }
        match kind {
            Kind::Function if py.PyCallable_Check(object) != 0 => {
                return Ok(lent_function(py, object));
            }
            Kind::Bytes if py.PyObject_CheckBuffer(object) != 0 => {
                return Ok(kept(embedded::new_bytes(&array::bytes_of_buffer(py, object)?)));
            }
            Kind::DataType => return dtype(py, object),
            Kind::Device => return device(py, object),
            Kind::Map if py.attribute_if_any(object, c"keys")?.is_some() => return mapping(py, object, wanted, parts),
            // A mapping has items, too, but no order of them by number.
            Kind::Sequence if py.PySequence_Check(object) != 0 && py.attribute_if_any(object, c"keys")?.is_none() => {
                return sequence(py, object, wanted, parts);
            }
            Kind::Path | Kind::Address | Kind::Set | Kind::Duration | Kind::Time | Kind::Complex => {
                if let Some(simpler) = standard::simpler(py, object, kind)? {
                    let value = py.nested(|py| part(py, simpler.as_ptr(), wanted, parts, NOT_A_PART))?;
                    return Ok((*value.as_raw(), Keep::Value(value)));
                }
            }
            _ => {}
        }
        if array::is_array(py, object)? {
            return Ok(kept_object(array::of_array(py, object, wanted.writes())?));
        }
        if kind == Kind::Tensor
            && py.PyObject_CheckBuffer(object) != 0
            && let Some(tensor) = array::of_buffer(py, object, wanted.writes())?
        {
            return Ok(kept_object(tensor));
        }
        if let Some(value) = number::like(py, object, kind)? {
            return Ok(value);
        }
        if py.PyCallable_Check(object) != 0 {
            return Ok(lent_function(py, object));
        }
        if wanted.is_any() {
            return Ok(kept_object(exception::opaque(Owned::share(py, object))));
        }
        Err(unlike(py, object, ty))
    }
}

/// Converts an object whose class the value itself does not tell, so that Python gets the same
/// class back. A number of a derived class is the Python object itself if the type is declared: the
/// conversions of Rust read it. `None` for objects of all other classes.
///
/// # Safety
/// `object` is alive and of this class.
unsafe fn unchanged(
    py: Py,
    object: *mut PyObject,
    class: *mut PyObject,
    wanted: &Wanted,
    parts: &mut Made,
    references: usize,
) -> Result<Option<(TVMFFIAny, Keep)>, Refused> {
    let usual = [py.PyLong_Type(), py.PyUnicode_Type(), py.PyBytes_Type(), py.PyList_Type(), py.PyDict_Type()];
    if usual.contains(&class) {
        return Ok(None);
    }
    // SAFETY: promised by the caller; the functions are only called for objects of the class that
    // they are for. The values are new, or were made of the same object.
    unsafe {
        let flags = py.PyType_GetFlags(class);
        if class == py.PyTuple_Type() {
            let (view, keep) = container(py, object, wanted, parts, references, tuple)?;
            origin::mark(view.payload.v_obj);
            return Ok(Some((view, keep)));
        }
        let is_number = flags & constant::LONG_SUBCLASS != 0 || py.PyType_IsSubtype(class, py.PyFloat_Type()) != 0;
        if is_number {
            let is_kept = wanted.kind == Kind::Any && class != py.PyFloat_Type() && class != py.PyBool_Type();
            return Ok(is_kept.then(|| kept_object(exception::opaque(Owned::share(py, object)))));
        }
        let (view, keep) = if flags & constant::UNICODE_SUBCLASS != 0 {
            let (view, _kept) = text(py, object, wanted)?;
            kept_object(embedded::new_string_object(embedded::text_of(&view).unwrap_or_default()))
        } else if flags & constant::BYTES_SUBCLASS != 0 {
            let (view, _kept) = bytes(py, object)?;
            kept_object(embedded::new_bytes_object(embedded::text_of(&view).unwrap_or_default()))
        } else if flags & constant::LIST_SUBCLASS != 0 {
            container(py, object, wanted, parts, references, list)?
        } else if flags & constant::TUPLE_SUBCLASS != 0 {
            container(py, object, wanted, parts, references, tuple)?
        } else if flags & constant::DICT_SUBCLASS != 0 {
            container(py, object, wanted, parts, references, dict)?
        } else if class == py.PyByteArray_Type() {
            let bytes = embedded::new_bytes_object(&array::bytes_of_buffer(py, object)?);
            origin::mark(bytes);
            return Ok(Some(kept_object(bytes)));
        } else {
            return Ok(None);
        };
        origin::keep(py, view.payload.v_obj, object);
        Ok(Some((view, keep)))
    }
}

/// The error for an object of an unknown class.
///
/// # Safety
/// `object` is alive.
#[cold]
unsafe fn unlike(py: Py, object: *mut PyObject, ty: &TypeSchema) -> Refused {
    // SAFETY: promised by the caller.
    let class = unsafe { py.class_name(object) };
    Refused::Because { kind: "TypeError", clause: format!("expected {ty}, got {class}") }
}

/// # Safety
/// `object` is a live `bytes`.
unsafe fn bytes(py: Py, object: *mut PyObject) -> Result<(TVMFFIAny, Keep), Refused> {
    let (mut start, mut size) = (ptr::null_mut(), 0);
    // SAFETY: promised by the caller; the bytes live as long as the object, and never change.
    unsafe {
        if py.PyBytes_AsStringAndSize(object, &mut start, &mut size) != 0 {
            return Err(Raised.into());
        }
        let array = Box::new(TVMFFIByteArray { data: start.cast(), size: size as usize });
        let view = TVMFFIAny::pointer(type_index::BYTE_ARRAY_PTR, ptr::from_ref(&*array).cast_mut().cast());
        Ok((view, Keep::Bytes(array)))
    }
}

/// Converts to an owned value, for an element of a container, or a result of a callback.
///
/// # Safety
/// `object` is alive.
#[inline(never)]
pub(crate) unsafe fn owned(py: Py, object: *mut PyObject, wanted: &Wanted) -> Result<Any, Refused> {
    // SAFETY: promised by the caller.
    unsafe { part(py, object, wanted, &mut Parts::new(), NOT_A_PART) }
}

/// Converts an object in a container to an owned value; `references` is the number of references to
/// the object from there and from here.
///
/// # Safety
/// `object` is alive.
#[inline(never)]
unsafe fn part(
    py: Py,
    object: *mut PyObject,
    wanted: &Wanted,
    parts: &mut Made,
    references: usize,
) -> Result<Any, Refused> {
    parts.count(py, 1)?;
    // SAFETY: promised by the caller; the view is used only while the object and the `Keep` live.
    unsafe {
        let mut view = TVMFFIAny::NONE;
        if !wanted.is_python() && simple(py, object, wanted, &mut view) {
            return Ok(AnyView::from_raw(view).try_to_owned()?);
        }
        let class = py.type_of(object);
        let (view, keep) = if wanted.is_python() {
            python(py, object, wanted)
        } else if class == py.PyUnicode_Type() {
            text(py, object, wanted)?
        } else {
            other(py, object, class, wanted, parts, references)?
        };
        match keep {
            Keep::Value(value) => Ok(value),
            Keep::Function(lent) => Ok(lent.into_value(py)),
            Keep::Python(lent) => Ok(lent.into_value(py)),
            Keep::Nothing | Keep::Bytes(_) | Keep::Exchanged(_) | Keep::Stream(_) | Keep::Object(_) => {
                Ok(AnyView::from_raw(view).try_to_owned()?)
            }
        }
    }
}

/// Converts a container of one kind.
type Convert = unsafe fn(Py, *mut PyObject, &Wanted, &mut Made) -> Result<(TVMFFIAny, Keep), Refused>;

/// Converts a container. A shared container is converted once.
///
/// # Safety
/// `object` is alive and of the class that `convert` is for.
unsafe fn container(
    py: Py,
    object: *mut PyObject,
    wanted: &Wanted,
    parts: &mut Made,
    references: usize,
    convert: Convert,
) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller; the value lives as long as the `Keep`.
    unsafe {
        if references == NOT_A_PART || !py.may_be_shared(object, references) {
            return py.nested(|py| convert(py, object, wanted, parts));
        }
        let value = match parts.get(object.cast(), wanted.ty) {
            Some(made) => made.clone(),
            None => {
                let held = Owned::share(py, object);
                let (view, _kept) = py.nested(|py| convert(py, object, wanted, parts))?;
                let made = AnyView::from_raw(view).try_to_owned()?;
                parts.note(object.cast(), wanted.ty, held, made.clone());
                made
            }
        };
        Ok((*value.as_raw(), Keep::Value(value)))
    }
}

/// The number of simple elements of a list that are converted in one run.
const RUN: isize = 1 << 14;

/// Converts a list to an array; Python code that runs meanwhile may change the list.
///
/// # Safety
/// `object` is a live `list`.
unsafe fn list(py: Py, object: *mut PyObject, wanted: &Wanted, parts: &mut Made) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller. Each element is shared while it is converted, since the list
    // may lose it.
    unsafe {
        let mut values: Vec<Any> = Vec::with_capacity(py.PyList_Size(object).max(0) as usize);
        let is_tuple = wanted.ty.key == "Tuple";
        let mut element = wanted.element(0);
        let mut index = 0;
        while index < py.PyList_Size(object) {
            if is_tuple {
                element = wanted.element(index as usize);
            }
            if !element.is_python()
                && let Some((size, items)) = py.list_in_place(object)
            {
                // No Python code runs while simple elements are read, so the list does not change;
                // a text that may turn out not to be simple is held. An owned value is transparent
                // over its raw form, and simple ones own nothing.
                let before = index;
                let end = size.min(before + RUN);
                while index < end && !is_tuple || index == before {
                    values.reserve(1);
                    let place = values.spare_capacity_mut().as_mut_ptr().cast();
                    let item = *items.add(index as usize);
                    let is_simple = in_place(py, item, &element, place).unwrap_or_else(|| {
                        let _held = (py.type_of(item) == py.PyUnicode_Type()).then(|| Owned::share(py, item));
                        by_call(py, item, &element, place)
                    });
                    if !is_simple {
                        break;
                    }
                    values.set_len(values.len() + 1);
                    index += 1;
                }
                if index > before {
                    parts.count(py, (index - before) as usize)?;
                    continue;
                }
            }
            let Some(item) = py.list_item(object, index)? else { break };
            values.push(part(py, item.as_ptr(), &element, parts, 2)?);
            index += 1;
        }
        Ok(array(values))
    }
}

/// # Safety
/// `object` is a live `tuple`.
unsafe fn tuple(
    py: Py,
    object: *mut PyObject,
    wanted: &Wanted,
    parts: &mut Made,
) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller; a tuple keeps its elements.
    unsafe {
        let size = py.PyTuple_Size(object).max(0);
        let mut values = Vec::with_capacity(size as usize);
        for index in 0..size {
            let item = py.PyTuple_GetItem(object, index);
            values.push(part(py, item, &wanted.element(index as usize), parts, 1)?);
        }
        Ok(array(values))
    }
}

fn array(values: Vec<Any>) -> (TVMFFIAny, Keep) {
    kept_object(embedded::seq::new_array(values.into_iter().map(Any::into_raw).collect()))
}

/// # Safety
/// `object` is a live `dict`.
unsafe fn dict(py: Py, object: *mut PyObject, wanted: &Wanted, parts: &mut Made) -> Result<(TVMFFIAny, Keep), Refused> {
    let (key_type, value_type) = (wanted.element(0), wanted.value_of_map());
    // SAFETY: promised by the caller. Python code that runs meanwhile may change the dict, so all
    // entries are shared before the first is converted.
    unsafe {
        let entries = py.entries(object)?;
        let mut pairs = Vec::with_capacity(entries.len());
        for [key, value] in &entries {
            let key = part(py, key.as_ptr(), &key_type, parts, 2)?;
            pairs.push((key, part(py, value.as_ptr(), &value_type, parts, 2)?));
        }
        let pairs = pairs.into_iter().map(|(key, value)| (key.into_raw(), value.into_raw())).collect();
        Ok(kept_object(embedded::map::new_map(pairs)?))
    }
}

/// Converts a sequence of another class, such as a range, a deque or a NumPy array.
///
/// # Safety
/// `object` is alive.
unsafe fn sequence(
    py: Py,
    object: *mut PyObject,
    wanted: &Wanted,
    parts: &mut Made,
) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller; the list is new.
    unsafe {
        let elements = py.list_of(object)?;
        py.nested(|py| list(py, elements.as_ptr(), wanted, parts))
    }
}

/// Converts a mapping of another class.
///
/// # Safety
/// `object` is alive.
unsafe fn mapping(
    py: Py,
    object: *mut PyObject,
    wanted: &Wanted,
    parts: &mut Made,
) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller; the dict is new, and read as any other.
    unsafe {
        let entries = Owned::take(py, py.PyDict_New())?;
        if py.PyDict_Update(entries.as_ptr(), object) != 0 {
            return Err(Raised.into());
        }
        py.nested(|py| dict(py, entries.as_ptr(), wanted, parts))
    }
}

/// Converts an object that names a data type: NumPy's and torch's own objects, and Python's number
/// classes.
///
/// # Safety
/// `object` is alive.
unsafe fn dtype(py: Py, object: *mut PyObject) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller; texts live until they were copied.
    unsafe {
        let is_class = py.PyType_GetFlags(py.type_of(object)) & constant::TYPE_SUBCLASS != 0;
        let text = if is_class {
            let name = py.attribute(object, c"__name__")?;
            py.str_of(name.as_ptr())
        } else {
            py.str_of(object)
        };
        let name = match text.strip_prefix("torch.").unwrap_or(&text) {
            "float" if is_class => "float64",
            "int" if is_class => "int64",
            name => name,
        };
        match name.parse::<DataType>() {
            Ok(dtype) => Ok((*dtype.into_any().as_raw(), Keep::Nothing)),
            Err(_) => Err(unlike(py, object, &TypeSchema::new("DataType"))),
        }
    }
}

/// Converts an object whose text is a device such as `cuda:1`, for example torch's.
///
/// # Safety
/// `object` is alive.
unsafe fn device(py: Py, object: *mut PyObject) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        match py.str_of(object).parse::<Device>() {
            Ok(device) => Ok((*device.into_any().as_raw(), Keep::Nothing)),
            Err(_) => Err(unlike(py, object, &TypeSchema::new("Device"))),
        }
    }
}

/// Converts the pair that `__dlpack_device__` returns to a device.
///
/// # Safety
/// `object` is a live `tuple`.
unsafe fn device_of_pair(py: Py, object: *mut PyObject) -> Result<(TVMFFIAny, Keep), Refused> {
    // SAFETY: promised by the caller; a tuple keeps its elements.
    unsafe {
        if py.PyTuple_Size(object) != 2 {
            return Err(unlike(py, object, &TypeSchema::new("Device")));
        }
        let mut numbers = [0; 2];
        for (index, number) in numbers.iter_mut().enumerate() {
            let value = py.integer_of(py.PyTuple_GetItem(object, index as isize))?;
            let Ok(value) = i32::try_from(value) else { return Err(unlike(py, object, &TypeSchema::new("Device"))) };
            *number = value;
        }
        Ok((*Device::new(numbers[0], numbers[1]).into_any().as_raw(), Keep::Nothing))
    }
}

/// Converts a Python object to a value of the ABI, or raises an exception with the reason.
///
/// # Safety
/// `object` is alive.
#[inline(never)]
pub(crate) unsafe fn result(py: Py, object: *mut PyObject) -> PyResult<Any> {
    // SAFETY: promised by the caller.
    unsafe { value(py, object, &Wanted::ANY) }
}

/// Like [`result`], for a value with these requirements.
///
/// # Safety
/// `object` is alive.
#[inline(never)]
pub(crate) unsafe fn value(py: Py, object: *mut PyObject, wanted: &Wanted) -> PyResult<Any> {
    // SAFETY: promised by the caller.
    unsafe { owned(py, object, wanted) }.map_err(|refused| match refused {
        Refused::Raised(raised) => raised,
        Refused::Because { clause, .. } => py.raise(py.PyExc_TypeError(), &clause),
    })
}
