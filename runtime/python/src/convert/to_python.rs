//! Conversion of values of the ABI to Python objects. The declared type decides if there is a
//! choice: a tuple and a list are both arrays of the ABI.

use core::mem::ManuallyDrop;

use kernpack_core::abi::{DLDataType, TVMFFIAny, TVMFFIObject, TVMFFIOpaqueObjectCell, dtype_code, type_index};
use kernpack_core::value::{AnyView, TypeSchema};
use kernpack_core::{Any, DataType, Device, embedded};

use super::lent::python_callable;
use super::origin;
use super::parts::Parts;
use super::{number, standard};
use crate::cpython::capi::Py;
use crate::cpython::heap_type::{holder, holder_of_owned};
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::state::State;
use crate::instance::{container, wrap};
use crate::signature::wanted::{element, inner};
use crate::tensor::managed;

/// The Python object for a result.
pub(crate) fn value(py: Py, value: Any, ty: &TypeSchema) -> PyResult<Owned> {
    let value = ManuallyDrop::new(value);
    // SAFETY: the value is not used afterwards.
    unsafe { owned(py, value.as_raw(), ty) }
}

/// The Python object for a value whose type is not declared.
pub(crate) fn undeclared(py: Py, value: &Any) -> PyResult<Owned> {
    // SAFETY: the value lives for the call.
    unsafe { view(py, value.as_raw(), const { &TypeSchema::new("Any") }) }
}

/// Creates the Python object for an owned value, which is taken over in place: a copy of the whole
/// would wait for the callee's stores.
///
/// # Safety
/// The value belongs to the caller, which does not use it afterwards.
#[inline]
pub(crate) unsafe fn owned(py: Py, value: &TVMFFIAny, ty: &TypeSchema) -> PyResult<Owned> {
    let index = value.type_index;
    // SAFETY: promised by the caller; with a type index of objects there is an object.
    unsafe {
        if index >= type_index::DYN_OBJECT_BEGIN {
            return wrap::wrap_owned(py, value.payload.v_obj);
        }
        if index == type_index::TENSOR {
            return holder_of_owned(py, State::get(py).tensor, value.payload.v_obj);
        }
        let object = view(py, value, ty);
        if index >= type_index::STATIC_OBJECT_BEGIN {
            embedded::dec_ref(value.payload.v_obj);
        }
        object
    }
}

/// Creates the Python object for a borrowed value.
///
/// # Safety
/// `value` is valid, and stays so for the call.
#[inline]
pub(crate) unsafe fn view(py: Py, value: &TVMFFIAny, ty: &TypeSchema) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the member read is the one that the type index names.
    unsafe {
        match value.type_index {
            type_index::INT => Owned::take(py, py.PyLong_FromLongLong(value.payload.v_int64)),
            type_index::FLOAT => Owned::take(py, py.PyFloat_FromDouble(value.payload.v_float64)),
            type_index::NONE => Ok(Owned::share(py, py.none())),
            type_index::BOOL => Owned::take(py, py.PyBool_FromLong((value.payload.v_int64 != 0).into())),
            _ => other(py, value, ty),
        }
    }
}

/// # Safety
/// As for [`view`].
#[inline(never)]
unsafe fn other(py: Py, value: &TVMFFIAny, ty: &TypeSchema) -> PyResult<Owned> {
    // SAFETY: promised by the caller; each object is read as the type of its type index, and lives
    // for the call.
    unsafe {
        if matches!(value.type_index, type_index::STR | type_index::BYTES)
            && let Some(made) = same_class(py, value.payload.v_obj, ty)?
        {
            return Ok(made);
        }
        match value.type_index {
            type_index::RAW_STR | type_index::SMALL_STR | type_index::STR => {
                let text = py.new_text(embedded::text_of(value).unwrap_or_default())?;
                standard::of_text(py, inner(ty).key, text)
            }
            type_index::BYTE_ARRAY_PTR | type_index::SMALL_BYTES | type_index::BYTES => {
                let bytes = embedded::text_of(value).unwrap_or_default();
                Owned::take(py, py.PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize))
            }
            type_index::DATA_TYPE => py.text(&dtype_name(value.payload.v_dtype)),
            type_index::DEVICE => py.text(&Device::from_raw(value.payload.v_device).to_string()),
            type_index::BIG_INT => number::from_big(py, value),
            index if index >= type_index::STATIC_OBJECT_BEGIN => object(py, value.payload.v_obj, inner(ty)),
            _ => {
                let name = AnyView::from_raw(*value).type_name();
                Err(py.raise(py.PyExc_TypeError(), &format!("a value of type {name} has no form in Python")))
            }
        }
    }
}

/// # Safety
/// The object is alive for the call.
unsafe fn object(py: Py, object: *mut TVMFFIObject, ty: &TypeSchema) -> PyResult<Owned> {
    // SAFETY: promised by the caller; each object is read as the type of its type index.
    unsafe {
        match (*object).type_index {
            // They are shared, unless the declared type is an immutable one.
            type_index::LIST | type_index::DICT if !matches!(ty.key, "Tuple" | "ffi.Array" | "ffi.Map") => {
                container::new(py, object)
            }
            _ => contents(py, object, ty),
        }
    }
}

/// The Python object for a value that has kept its original object, and the `bytearray` for bytes
/// that were one; `None` for other values, and for a declared type.
///
/// # Safety
/// The object is a live text, bytes or container.
unsafe fn same_class(py: Py, object: *mut TVMFFIObject, ty: &TypeSchema) -> PyResult<Option<Owned>> {
    if !is_any(ty) {
        return Ok(None);
    }
    // SAFETY: promised by the caller.
    unsafe {
        if let Some(original) = origin::original(py, object) {
            return Ok(Some(original));
        }
        if (*object).type_index != type_index::BYTES || !origin::is_marked(object) {
            return Ok(None);
        }
        let value = TVMFFIAny::pointer(type_index::BYTES, object.cast());
        let bytes = embedded::text_of(&value).unwrap_or_default();
        let bytes = Owned::take(py, py.PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize))?;
        py.call(py.PyByteArray_Type(), [bytes]).map(Some)
    }
}

/// Returns true for a type that does not determine the class in Python.
fn is_any(ty: &TypeSchema) -> bool {
    matches!(inner(ty).key, "Any" | "ffi.Object")
}

/// Creates the Python object for an object, and for a list or dict, a list or dict of Python with
/// its contents.
///
/// # Safety
/// The object is alive for the call.
pub(crate) unsafe fn contents(py: Py, object: *mut TVMFFIObject, ty: &TypeSchema) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe { contents_with(py, object, ty, &mut Parts::new()) }
}

/// Creates the Python object for a function, which holds another reference to it.
///
/// # Safety
/// `function` is a live function object.
pub(crate) unsafe fn function(py: Py, function: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe { holder(py, State::get(py).function, function) }
}

/// The conversions of the containers in a value.
type Made = Parts<Any, Owned>;

/// # Safety
/// As for [`contents`].
unsafe fn contents_with(py: Py, object: *mut TVMFFIObject, ty: &TypeSchema, parts: &mut Made) -> PyResult<Owned> {
    // SAFETY: promised by the caller; each object is read as the type of its type index.
    unsafe {
        if matches!((*object).type_index, type_index::ARRAY | type_index::MAP)
            && let Some(made) = same_class(py, object, ty)?
        {
            return Ok(made);
        }
        match (*object).type_index {
            type_index::ARRAY if is_any(ty) && origin::is_marked(object) => {
                let elements = embedded::seq::elements(object);
                py.nested(|py| tuple(py, elements, ty, parts))
            }
            type_index::ARRAY | type_index::LIST => {
                let elements = &*embedded::list::shared::elements(object);
                let is_flat = elements.iter().all(|element| element.type_index < type_index::STATIC_OBJECT_BEGIN);
                if is_flat && ty.key == "Tuple" {
                    return tuple(py, elements, ty, parts);
                }
                // The elements of a list are a copy, with references of their own.
                let references = if (*object).type_index == type_index::LIST { 2 } else { 1 };
                py.nested(|py| match ty.key {
                    "Tuple" => tuple(py, elements, ty, parts),
                    key => standard::of_list(py, key, list_with(py, elements, ty, parts, references)?),
                })
            }
            type_index::MAP | type_index::DICT => py.nested(|py| dict(py, object, ty, parts)),
            type_index::SHAPE => shape(py, embedded::shape::dimensions(object)),
            type_index::FUNCTION => match python_callable(py, object) {
                Some(callable) => Ok(Owned::share(py, callable)),
                None => function(py, object),
            },
            type_index::OPAQUE_PY_OBJECT => {
                let handle = embedded::body::<TVMFFIOpaqueObjectCell>(object).handle;
                if handle.is_null() {
                    return Err(py.raise(py.PyExc_ValueError(), "the opaque object is empty"));
                }
                Ok(Owned::share(py, handle.cast()))
            }
            type_index::TENSOR => managed::new(py, object),
            _ => wrap::wrap(py, object),
        }
    }
}

/// # Safety
/// The elements are valid for the call.
pub(crate) unsafe fn list(py: Py, elements: &[TVMFFIAny], ty: &TypeSchema) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe { list_with(py, elements, ty, &mut Parts::new(), 1) }
}

/// Converts a value in a container to a Python object; `references` is the number of references to
/// the value from there. A shared container is converted once.
///
/// # Safety
/// `value` is valid, and stays so for the call.
#[inline]
unsafe fn item(py: Py, value: &TVMFFIAny, ty: &TypeSchema, parts: &mut Made, references: u32) -> PyResult<Owned> {
    parts.count(py, 1)?;
    // SAFETY: promised by the caller; by the type index there is an object.
    unsafe {
        match value.type_index {
            type_index::ARRAY | type_index::MAP => container(py, value.payload.v_obj, inner(ty), parts, references),
            type_index::LIST | type_index::DICT if matches!(inner(ty).key, "Tuple" | "ffi.Array" | "ffi.Map") => {
                container(py, value.payload.v_obj, inner(ty), parts, references)
            }
            _ => view(py, value, ty),
        }
    }
}

/// # Safety
/// The object is a live container.
unsafe fn container(
    py: Py,
    object: *mut TVMFFIObject,
    ty: &TypeSchema,
    parts: &mut Made,
    references: u32,
) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the new reference is transferred to the value, and the
    // created objects are alive.
    unsafe {
        if embedded::strong_count(object) <= references {
            return contents_with(py, object, ty, parts);
        }
        if let Some(made) = parts.get(object.cast(), ty) {
            return Ok(Owned::share(py, made.as_ptr()));
        }
        embedded::inc_ref(object);
        let kept = Any::from_object(object);
        let made = contents_with(py, object, ty, parts)?;
        parts.note(object.cast(), ty, kept, Owned::share(py, made.as_ptr()));
        Ok(made)
    }
}

/// # Safety
/// The elements are valid for the call.
unsafe fn list_with(
    py: Py,
    elements: &[TVMFFIAny],
    ty: &TypeSchema,
    parts: &mut Made,
    references: u32,
) -> PyResult<Owned> {
    // SAFETY: promised by the caller; a new list with that many places, each of which takes over a
    // reference.
    unsafe {
        let list = Owned::take(py, py.PyList_New(elements.len() as isize))?;
        for (index, value) in elements.iter().enumerate() {
            let item = item(py, value, element(ty, index), parts, references)?;
            // It fails if other code has found the list through the garbage collector, and emptied
            // it.
            if py.PyList_SetItem(list.as_ptr(), index as isize, item.into_ptr()) != 0 {
                return Err(Raised);
            }
        }
        Ok(list)
    }
}

/// # Safety
/// The elements are valid for the call.
#[inline]
unsafe fn tuple(py: Py, elements: &[TVMFFIAny], ty: &TypeSchema, parts: &mut Made) -> PyResult<Owned> {
    // SAFETY: as for a list.
    unsafe {
        let tuple = Owned::take(py, py.PyTuple_New(elements.len() as isize))?;
        for (index, value) in elements.iter().enumerate() {
            let ty = ty.args.get(index).unwrap_or(const { &TypeSchema::new("Any") });
            let item = item(py, value, ty, parts, 1)?;
            if !py.set_item(tuple.as_ptr(), index, item.into_ptr()) {
                return Err(Raised);
            }
        }
        Ok(tuple)
    }
}

/// Creates a tuple of values that it takes over; each one's type is the tuple type's element at its
/// index.
///
/// # Safety
/// The elements are owned values, and are not used afterwards.
pub(crate) unsafe fn tuple_of_owned(py: Py, elements: &[TVMFFIAny], ty: &TypeSchema) -> PyResult<Owned> {
    // SAFETY: promised by the caller; a new tuple with that many places.
    unsafe {
        let mut tuple = Owned::take(py, py.PyTuple_New(elements.len() as isize));
        for (index, element) in elements.iter().enumerate() {
            // Each value is taken over, even if an earlier one failed. Simple values own nothing.
            let Ok(known) = &tuple else {
                drop(Any::from_raw(*element));
                continue;
            };
            let ty = ty.args.get(index).unwrap_or(const { &TypeSchema::new("Any") });
            let item = match element.type_index < type_index::RAW_STR {
                true => view(py, element, ty),
                false => owned(py, element, ty),
            };
            match item {
                Ok(item) => {
                    if !py.set_item(known.as_ptr(), index, item.into_ptr()) {
                        tuple = Err(Raised);
                    }
                }
                Err(raised) => tuple = Err(raised),
            }
        }
        tuple
    }
}

/// The name of an element type in NumPy and PyTorch; the ABI itself has no names for complex
/// numbers.
#[inline(never)]
pub(crate) fn dtype_name(dtype: DLDataType) -> String {
    match (dtype.code, dtype.lanes) {
        (dtype_code::COMPLEX, 1) => format!("complex{}", dtype.bits),
        _ => DataType::from_raw(dtype).to_string(),
    }
}

#[inline(never)]
pub(crate) fn shape(py: Py, dimensions: &[i64]) -> PyResult<Owned> {
    // SAFETY: as for a list.
    unsafe {
        let tuple = Owned::take(py, py.PyTuple_New(dimensions.len() as isize))?;
        for (index, dimension) in dimensions.iter().enumerate() {
            let item = Owned::take(py, py.PyLong_FromLongLong(*dimension))?;
            py.put(&tuple, index, item)?;
        }
        Ok(tuple)
    }
}

/// # Safety
/// `map` is a live map or dict.
unsafe fn dict(py: Py, map: *mut TVMFFIObject, ty: &TypeSchema, parts: &mut Made) -> PyResult<Owned> {
    static ANY: TypeSchema = TypeSchema::new("Any");
    // SAFETY: promised by the caller. Keys and values are those of this moment, whatever Python
    // code does meanwhile.
    unsafe {
        let dict = Owned::take(py, py.PyDict_New())?;
        // The entries of a dict are a copy, with references of their own.
        let references = if (*map).type_index == type_index::DICT { 2 } else { 1 };
        for [key, value] in embedded::map::shared::contents(map).as_chunks().0 {
            let key = item(py, key, element(ty, 0), parts, references)?;
            let value = item(py, value, ty.args.get(1).unwrap_or(&ANY), parts, references)?;
            if py.PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        Ok(dict)
    }
}
