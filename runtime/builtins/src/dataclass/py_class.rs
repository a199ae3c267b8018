//! Types that a language with classes defines at run time: the layout of their objects, and how
//! these are created, copied and destroyed.
//!
//! The fields of such a type, and of its ancestors, determine the places of owned values. An object
//! is initialized with zeros, which are `None` in a value, NULL in a reference and zero in a
//! number.

use core::ffi::c_void;

use crate::abi::{SafeCall, TVMFFIAny, TVMFFIFieldInfo, TVMFFIFunctionCell, TVMFFIObject, deleter_flag, type_index};
use crate::definition::function::{Arguments, check};
use crate::definition::signature::{OBJECT, Signature, type_key};
use crate::embedded::release::{release_elements, retain};
use crate::embedded::{self, HEADER_SIZE, type_attr};
use crate::function::{guard_nameless, views};
use crate::value::Any;
use crate::{Result, bail};
use kernpack_core::reflect::{AttrColumn, TypeInfo};

use super::init;

static NEW: AttrColumn = AttrColumn::new("__ffi_new__");

/// The memory layout of a type's objects. Lives as long as the process, in the type's
/// `__ffi_new__`.
pub(crate) struct Layout {
    info: TypeInfo,
    total_size: usize,
    /// Fields that own their values, each place once.
    owners: Box<[Owner]>,
}

/// A field that owns its value.
struct Owner {
    offset: u32,
    kind: Storage,
}

/// The representation of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Storage {
    /// Plain data.
    Plain,
    /// A value of any type.
    Any,
    /// A reference to an object, which may be NULL.
    Object,
}

impl Storage {
    const fn of(field: &TVMFFIFieldInfo) -> Self {
        match field.field_static_type_index {
            // A field of C++ may be declared as any value and hold a reference.
            type_index::ANY if field.size == size_of::<*mut TVMFFIObject>() as i64 => Self::Object,
            type_index::ANY => Self::Any,
            index if index >= type_index::STATIC_OBJECT_BEGIN => Self::Object,
            _ => Self::Plain,
        }
    }

    const fn size(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Any => size_of::<TVMFFIAny>(),
            Self::Object => size_of::<*mut TVMFFIObject>(),
        }
    }
}

impl Layout {
    fn of(info: TypeInfo, total_size: i32) -> Result<Self> {
        let total_size = usize::try_from(total_size).unwrap_or(0);
        let mut owners: Vec<Owner> = Vec::new();
        for field in info.fields() {
            let (kind, offset) = (Storage::of(field.as_raw()), field.as_raw().offset);
            let begins_behind_header = offset >= HEADER_SIZE as i64 && offset % 8 == 0;
            if kind == Storage::Plain {
                continue;
            }
            if !begins_behind_header || offset as usize + kind.size() > total_size {
                bail!(
                    ValueError,
                    "field '{}' of type `{}` is not within the {total_size} bytes of its objects",
                    field.name(),
                    info.key()
                );
            }
            // A type may have several fields in one place: enums have two names for their values.
            if owners.iter().all(|owner| i64::from(owner.offset) != offset) {
                owners.push(Owner { offset: offset as u32, kind });
            }
        }
        Ok(Self { info, total_size, owners: owners.into() })
    }

    /// Creates an object with empty fields.
    pub(super) fn new_object(&self) -> Result<Any> {
        let Some(tail) = self.total_size.checked_sub(HEADER_SIZE) else {
            bail!(RuntimeError, "Failed to allocate {} bytes for type {}", self.total_size, self.info.key());
        };
        let object = embedded::new_object_with_tail(self.info.index(), (), tail);
        // SAFETY: the object is new and ours, with that many bytes behind its header.
        unsafe {
            object.byte_add(HEADER_SIZE).cast::<u8>().write_bytes(0, tail);
            (*object).deleter = Some(delete);
            Ok(Any::from_object(object))
        }
    }

    /// Copies an object; the copy shares the values that its fields refer to.
    ///
    /// # Safety
    /// The object is alive, of this type or derived from it, and not changed meanwhile.
    pub(crate) unsafe fn copy(&self, source: *mut TVMFFIObject) -> Result<Any> {
        let copy = self.new_object()?;
        // SAFETY: both have the fields of this type, which are within its size; each owner is
        // retained once.
        unsafe {
            let object = copy.as_view().as_raw().payload.v_obj;
            let (from, to) = (source.byte_add(HEADER_SIZE), object.byte_add(HEADER_SIZE));
            for owned in self.owned(source) {
                retain(&owned);
            }
            to.cast::<u8>().copy_from_nonoverlapping(from.cast(), self.total_size - HEADER_SIZE);
        }
        Ok(copy)
    }

    /// The values that an object's fields own.
    unsafe fn owned(&self, object: *mut TVMFFIObject) -> impl Iterator<Item = TVMFFIAny> {
        self.owners.iter().filter_map(move |owner| {
            // SAFETY: the caller passes an object of this type, with valid values in its fields.
            unsafe {
                let place = object.byte_add(owner.offset as usize);
                if owner.kind == Storage::Any {
                    return Some(*place.cast::<TVMFFIAny>());
                }
                let target = *place.cast::<*mut TVMFFIObject>();
                // Any index of an object is sufficient.
                (!target.is_null()).then(|| TVMFFIAny::pointer(type_index::OBJECT, target.cast()))
            }
        })
    }
}

/// Destroys an object of such a type: the deleter of the ABI.
unsafe extern "C" fn delete(this: *mut c_void, flags: i32) {
    let object = this.cast::<TVMFFIObject>();
    // SAFETY: the object was made by `Layout::new_object`, so that its type has a layout, and it
    // begins where its storage does. The references that the flags report as released are not used
    // by other code.
    unsafe {
        if flags & deleter_flag::STRONG != 0
            && let Some(new) = NEW.get((*object).type_index)
            && let Some(layout) = layout_of_new(new.as_raw().payload.v_obj)
            && !layout.owners.is_empty()
        {
            release_elements(layout.owned(object));
        }
        if flags & deleter_flag::WEAK != 0 {
            embedded::free_storage(this);
        }
    }
}

/// The layout of a function that creates objects, if it is one of this module.
///
/// # Safety
/// `function` is a live function object.
pub(super) unsafe fn layout_of_new(function: *mut TVMFFIObject) -> Option<&'static Layout> {
    // SAFETY: promised by the caller.
    unsafe { layout_in(function, call_new) }
}

/// The layout of a function that copies objects, if it is one of this module.
///
/// # Safety
/// `function` is a live function object.
pub(crate) unsafe fn layout_of_copy(function: *mut TVMFFIObject) -> Option<&'static Layout> {
    // SAFETY: promised by the caller.
    unsafe { layout_in(function, call_copy) }
}

unsafe fn layout_in(function: *mut TVMFFIObject, ours: SafeCall) -> Option<&'static Layout> {
    // SAFETY: the caller passes a live function; one with such an entry point holds a layout, which
    // lives as long as the process.
    unsafe {
        let call = embedded::body::<TVMFFIFunctionCell>(function).safe_call?;
        core::ptr::fn_addr_eq(call, ours).then(|| *embedded::closure_of(function.cast()))
    }
}

unsafe extern "C" fn call_new(this: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
    static SIGNATURE: Signature = Signature::Typed(&[], &OBJECT);
    // SAFETY: the handle is a function object that `register` made; the rest is the ABI's calling
    // convention.
    unsafe {
        let layout: &Layout = embedded::closure_of::<&Layout>(this);
        if !check("", &SIGNATURE, views(args, num_args)) {
            return -1;
        }
        guard_nameless(|| {
            result.write(layout.new_object()?.into_raw());
            Ok(())
        })
    }
}

unsafe extern "C" fn call_copy(
    this: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    static SIGNATURE: Signature = Signature::Typed(&[&OBJECT], &OBJECT);
    // SAFETY: as in `call_new`; only objects of the type are copied.
    unsafe {
        let layout: &Layout = embedded::closure_of::<&Layout>(this);
        let views = views(args, num_args);
        if !check("", &SIGNATURE, views) {
            return -1;
        }
        guard_nameless(|| {
            let source = views[0].object().unwrap_or(core::ptr::null_mut());
            let is_instance = !source.is_null()
                && ((*source).type_index == layout.info.index()
                    || TypeInfo::find((*source).type_index).is_some_and(|info| info.is_a(layout.info.index())));
            if !is_instance {
                bail!(TypeError, "Cannot convert from type `{}` to `{}`", type_key(&views[0]), layout.info.key());
            }
            result.write(layout.copy(source)?.into_raw());
            Ok(())
        })
    }
}

/// `ffi._PyClassRegisterTypeAttrColumns`: registers `__ffi_init__`, `__ffi_new__` and
/// `__ffi_shallow_copy__` of a type whose fields are registered.
pub(super) fn register(args: &Arguments<'_>) -> Result<Any> {
    let (index, total_size) = (args.int(0) as i32, args.int(1) as i32);
    let info = known_type(index)?;
    init::register(info)?;
    let layout: &'static Layout = Box::leak(Box::new(Layout::of(info, total_size)?));
    for (column, call) in [("__ffi_new__", call_new as SafeCall), ("__ffi_shallow_copy__", call_copy)] {
        let function = embedded::new_function(call, layout);
        // SAFETY: the function is new; the column adds its own reference, and ours is released with
        // the value.
        unsafe {
            let function = Any::from_object(function);
            type_attr::register_attr(index, column.as_bytes(), function.as_view().as_raw())?;
        }
    }
    Ok(Any::NONE)
}

/// The type with this index.
///
/// # Errors
/// InternalError when there is none.
pub(super) fn known_type(index: i32) -> Result<TypeInfo> {
    match TypeInfo::find(index) {
        Some(info) => Ok(info),
        None => bail!(
            InternalError,
            "Check failed: (entry != nullptr) is false: Cannot find type info for type_index={index}"
        ),
    }
}
