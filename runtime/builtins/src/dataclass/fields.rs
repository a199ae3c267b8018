//! Getters and setters of the fields of types that are defined at run time, by the declared type
//! index of a field.

use core::ffi::c_void;

use crate::abi::{DLDataType, DLDevice, TVMFFIAny, TVMFFIFieldGetter, TVMFFIObject, type_index};
use crate::definition::field::{get_any, get_i64, get_object};
use crate::definition::function::Arguments;
use crate::definition::signature::type_key;
use crate::embedded::release::release;
use crate::embedded::{self, dtype};
use crate::function::{guard_nameless, views};
use crate::value::{Any, AnyView, IntoAny};
use crate::{Error, Result, bail, error};

/// Converts a value to a field's type: returns 0 and an owned value, or raises an error.
type Convert = unsafe extern "C" fn(converter: *mut c_void, value: *const TVMFFIAny, result: *mut TVMFFIAny) -> i32;

/// A setter that applies the language's own conversion first.
struct Setter {
    /// The type index that the field is declared with.
    index: i32,
    /// Borrowed from the language, which keeps it as long as the type.
    converter: *mut c_void,
    convert: Convert,
}

/// The kind of values that a field holds.
#[derive(Clone, Copy)]
enum Kind {
    Int,
    Float,
    Bool,
    Pointer,
    DataType,
    Device,
    Any,
    Object,
}

impl Kind {
    #[inline]
    const fn of(index: i32) -> Option<Self> {
        Some(match index {
            type_index::INT => Self::Int,
            type_index::FLOAT => Self::Float,
            type_index::BOOL => Self::Bool,
            type_index::OPAQUE_PTR => Self::Pointer,
            type_index::DATA_TYPE => Self::DataType,
            type_index::DEVICE => Self::Device,
            type_index::ANY | type_index::NONE => Self::Any,
            index if index >= type_index::STATIC_OBJECT_BEGIN => Self::Object,
            _ => return None,
        })
    }

    #[inline]
    const fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Float => "float",
            Self::Bool => "bool",
            Self::Pointer => "void*",
            Self::DataType => "DataType",
            Self::Device => "Device",
            Self::Any => "Any",
            Self::Object => "ffi.Object",
        }
    }

    #[inline]
    const fn getter(self) -> TVMFFIFieldGetter {
        match self {
            Self::Int => get_i64,
            Self::Float => get_float,
            Self::Bool => get_bool,
            Self::Pointer => get_pointer,
            Self::DataType => get_data_type,
            Self::Device => get_device,
            Self::Any => get_any,
            Self::Object => get_object,
        }
    }
}

// SAFETY of the getters: the ABI's convention: `field` is the address of a field of this kind,
// `result` is writable.

#[inline]
unsafe extern "C" fn get_float(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: see above.
    unsafe { result.write(TVMFFIAny::float(*field.cast::<f64>())) };
    0
}

#[inline]
unsafe extern "C" fn get_bool(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: see above; a byte may be anything.
    unsafe { result.write(TVMFFIAny::bool(*field.cast::<u8>() != 0)) };
    0
}

#[inline]
unsafe extern "C" fn get_pointer(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: see above.
    unsafe {
        result.write(TVMFFIAny::pointer(type_index::OPAQUE_PTR, *field.cast::<*mut c_void>()));
    }
    0
}

#[inline]
unsafe extern "C" fn get_data_type(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: see above.
    unsafe {
        let mut value = TVMFFIAny { type_index: type_index::DATA_TYPE, ..TVMFFIAny::int(0) };
        value.payload.v_dtype = *field.cast::<DLDataType>();
        result.write(value);
    }
    0
}

#[inline]
unsafe extern "C" fn get_device(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: see above.
    unsafe {
        let mut value = TVMFFIAny { type_index: type_index::DEVICE, ..TVMFFIAny::int(0) };
        value.payload.v_device = *field.cast::<DLDevice>();
        result.write(value);
    }
    0
}

/// `ffi.MakeFieldGetter`: the address of the getter.
#[inline]
pub(super) fn make_getter(args: &Arguments<'_>) -> Result<Any> {
    let index = args.int(0) as i32;
    match Kind::of(index) {
        Some(kind) => Ok((kind.getter() as *const c_void).expose_provenance().into_any()),
        None => bail!(ValueError, "Unsupported field type index for getter: {index}"),
    }
}

/// `ffi.MakeFieldSetter`: a function of a field's address and a value.
#[inline]
pub(super) fn make_setter(args: &Arguments<'_>) -> Result<Any> {
    let pointer = |index| core::ptr::with_exposed_provenance_mut::<c_void>(args.int(index) as usize);
    let (converter, convert) = (pointer(1), pointer(2));
    let index = args.int(0) as i32;
    if convert.is_null() {
        bail!(ValueError, "ffi.MakeFieldSetter: the conversion function is NULL");
    }
    // An invalid type index is an error when a field is set.
    let setter = Setter {
        index,
        converter,
        // SAFETY: the caller passes the address of such a function.
        convert: unsafe { core::mem::transmute::<*mut c_void, Convert>(convert) },
    };
    // SAFETY: the function is new, and its reference is transferred to the value.
    Ok(unsafe { Any::from_object(embedded::new_function(call_setter, setter)) })
}

#[inline]
unsafe extern "C" fn call_setter(
    this: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    _result: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the handle is a function object that `make_setter` made; the rest is the ABI's
    // calling convention.
    unsafe {
        let setter: &Setter = embedded::closure_of(this);
        let [field, value, ..] = views(args, num_args) else { return wrong_count(num_args) };
        if field.type_index() != type_index::OPAQUE_PTR && !field.is_none() {
            return raise(mismatch(field, "void*"));
        }
        let field = field.as_raw().payload.v_ptr;
        // A number that already has the field's type does not change in the conversion.
        let is_number = (type_index::INT..=type_index::DEVICE).contains(&setter.index);
        if is_number && value.type_index() == setter.index && store(field, setter.index, value.as_raw()) {
            return 0;
        }
        let mut converted = TVMFFIAny::NONE;
        let status = (setter.convert)(setter.converter, value.as_raw(), &mut converted);
        if status != 0 {
            return status;
        }
        if store(field, setter.index, &converted) {
            return 0;
        }
        let converted = Any::from_raw(converted);
        guard_nameless(|| store_other(field, setter.index, &converted))
    }
}

#[cold]
#[inline]
fn wrong_count(num_args: i32) -> i32 {
    raise(error!(TypeError, "a field's setter takes an address and a value, got {num_args} argument(s)"))
}

#[cold]
#[inline]
fn raise(error: Error) -> i32 {
    error.raise();
    -1
}

/// Stores a value of exactly the field's type; returns false for others. Takes over the ownership
/// of an object.
///
/// # Safety
/// `field` is the address of a field that is declared with this type index, in a live object.
#[inline]
unsafe fn store(field: *mut c_void, index: i32, value: &TVMFFIAny) -> bool {
    // SAFETY: promised by the caller; of a value, the member is read that its type index names.
    unsafe {
        match (index, value.type_index) {
            (type_index::ANY | type_index::NONE, _) => release(field.cast::<TVMFFIAny>().replace(*value)),
            (type_index::STATIC_OBJECT_BEGIN.., type_index::STATIC_OBJECT_BEGIN..) => {
                replace_object(field, value.payload.v_obj);
            }
            (type_index::STATIC_OBJECT_BEGIN.., type_index::NONE) => replace_object(field, core::ptr::null_mut()),
            (type_index::INT, type_index::INT) => field.cast::<i64>().write(value.payload.v_int64),
            (type_index::FLOAT, type_index::FLOAT) => field.cast::<f64>().write(value.payload.v_float64),
            (type_index::BOOL, type_index::BOOL) => field.cast::<bool>().write(value.payload.v_int64 != 0),
            (type_index::OPAQUE_PTR, type_index::OPAQUE_PTR) => field.cast::<*mut c_void>().write(value.payload.v_ptr),
            (type_index::DATA_TYPE, type_index::DATA_TYPE) => field.cast::<DLDataType>().write(value.payload.v_dtype),
            (type_index::DEVICE, type_index::DEVICE) => field.cast::<DLDevice>().write(value.payload.v_device),
            _ => return false,
        }
    }
    true
}

/// Stores a value of another type, if it can be converted to the field's type.
///
/// # Safety
/// As for [`store`].
#[cold]
#[inline]
unsafe fn store_other(field: *mut c_void, index: i32, value: &Any) -> Result<()> {
    let Some(kind) = Kind::of(index) else { bail!(ValueError, "Unsupported field type index for setter: {index}") };
    let view = value.as_view();
    // SAFETY: promised by the caller; of a value, the member is read that its type index names.
    unsafe {
        let payload = view.as_raw().payload;
        match (kind, view.type_index()) {
            (Kind::Int, type_index::BOOL) => field.cast::<i64>().write(payload.v_int64),
            (Kind::Float, type_index::INT | type_index::BOOL) => field.cast::<f64>().write(payload.v_int64 as f64),
            (Kind::Float, type_index::BIG_INT) => field.cast::<f64>().write(view.get()?),
            (Kind::Bool, type_index::INT) => field.cast::<bool>().write(payload.v_int64 != 0),
            (Kind::Pointer, type_index::NONE) => field.cast::<*mut c_void>().write(core::ptr::null_mut()),
            (Kind::DataType, type_index::SMALL_STR | type_index::STR) => {
                let text = embedded::text_of(view.as_raw()).unwrap_or_default();
                field.cast::<DLDataType>().write(dtype::parse(text)?);
            }
            _ => return Err(mismatch(view, kind.name())),
        }
    }
    Ok(())
}

/// # Safety
/// `field` holds NULL or an owned reference, and `new` is NULL or a reference whose ownership is
/// transferred.
#[inline]
unsafe fn replace_object(field: *mut c_void, new: *mut TVMFFIObject) {
    // SAFETY: promised by the caller; the old object is released when the new one is in its place.
    unsafe {
        let old = field.cast::<*mut TVMFFIObject>().replace(new);
        if !old.is_null() {
            embedded::dec_ref(old);
        }
    }
}

#[cold]
#[inline]
fn mismatch(value: &AnyView<'_>, expected: &str) -> Error {
    error!(TypeError, "Cannot convert from type `{}` to `{expected}`", type_key(value))
}
