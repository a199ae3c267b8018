//! Getters and setters of the fields that `#[derive(Object)]` registers.
//!
//! Even a read-only field has a setter, as in C++: constructors, copies, JSON and rebuilding create
//! an object and set its fields. Such a setter works while the object is incomplete, or for the
//! holder of the only reference (`write_access.rs`).

use core::cell::Cell;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;

use super::field_value::{FieldValue, FromFieldValue, MutableField};
use super::foreign::{is_made_by_rust, key_of};
use super::write_access;
use super::{DefaultDef, Defined, FieldDef, HiddenDef, construction};
use crate::abi::{TVMFFIAny, TVMFFIFieldSetter, TVMFFIObject, field_flag};
use crate::embedded::HEADER_SIZE;
use crate::function::guard_nameless;
use crate::value::{Any, AnyView, Schema, Storage};
use crate::{Result, bail, ensure};

/// A registered field of an object type: a marker type in generated code.
///
/// # Safety
/// `Owner`'s definition describes, at `INDEX`, a field of type `Value` at `OFFSET` of its `Body`.
pub unsafe trait FieldAt: 'static {
    /// The type that the field belongs to.
    type Owner: Defined;
    /// The field's type.
    type Value: FieldValue;
    /// Index of the field among the owner's own registered fields.
    const INDEX: usize;
    /// Offset in bytes in the body.
    const OFFSET: usize;
}

/// The definition of a field that only constructors set.
pub const fn field_def<F: FieldAt>(
    name: &'static str,
    doc: &'static str,
    flags: i64,
    default: Option<DefaultDef>,
    setter: Option<TVMFFIFieldSetter>,
) -> FieldDef {
    FieldDef {
        name,
        doc,
        ty: <F::Value as Schema>::TYPE,
        offset: HEADER_SIZE + F::OFFSET,
        size: size_of::<F::Value>(),
        align: align_of::<F::Value>(),
        flags,
        storage: <F::Value as Schema>::STORAGE,
        is_unsigned: <F::Value as Schema>::IS_UNSIGNED,
        getter: match <F::Value as Schema>::STORAGE {
            // A 64-bit unsigned integer may become an object.
            Storage::Plain if !(<F::Value as Schema>::IS_UNSIGNED && size_of::<F::Value>() == 8) => get_plain::<F>,
            _ => get::<F>,
        },
        text: match <F::Value as Schema>::AS_TEXT {
            Some(_) => Some(text_in_place::<F>),
            None => None,
        },
        setter,
        default: of_its_own(default, <F::Value as Schema>::TYPE),
        drop: drop_value::<F::Value>,
        is_set: is_set::<F::Value>,
    }
}

/// Turns a default that contains a list or dict into one that is created for each object: otherwise
/// all objects would share one list.
const fn of_its_own(default: Option<DefaultDef>, ty: crate::value::TypeSchema) -> Option<DefaultDef> {
    match default {
        Some(DefaultDef::Value(make)) if ty.mentions("ffi.List") || ty.mentions("ffi.Dict") => {
            Some(DefaultDef::Factory(make))
        }
        default => default,
    }
}

/// The definition of a field that every language may write to.
pub const fn writable_field_def<F: FieldAt>(
    name: &'static str,
    doc: &'static str,
    flags: i64,
    default: Option<DefaultDef>,
) -> FieldDef
where
    F::Value: MutableField,
{
    field_def::<F>(name, doc, flags | field_flag::WRITABLE, default, Some(set_writable::<F>))
}

/// The definition of a field that is not visible to other languages.
pub const fn hidden_def<T>(name: &'static str, offset: usize, make: Option<unsafe fn(*mut c_void)>) -> HiddenDef {
    HiddenDef { name, offset: HEADER_SIZE + offset, make, drop: drop_value::<T> }
}

/// The setter of a read-only field, `SetterOf::<F>::FN`; `None` for a type that values do not
/// convert to (from [`NoSetter`]).
pub struct SetterOf<F>(PhantomData<F>);

impl<F: FieldAt> SetterOf<F>
where
    F::Value: FromFieldValue,
{
    /// The setter.
    pub const FN: Option<TVMFFIFieldSetter> = Some(set::<F>);
}

/// The absence of a setter; the inherent constant of [`SetterOf`] takes precedence over it.
pub trait NoSetter {
    /// No setter.
    const FN: Option<TVMFFIFieldSetter> = None;
}

impl<F> NoSetter for SetterOf<F> {}

/// The function that clones a value, `CloneOf::<T>::FN`; `None` for a type without `Clone` (from
/// [`NoClone`]).
pub struct CloneOf<T>(PhantomData<T>);

impl<T: Clone> CloneOf<T> {
    /// Clones a value.
    pub const FN: Option<fn(&T) -> T> = Some(T::clone);
}

/// The absence of `Clone`; the inherent constant of [`CloneOf`] takes precedence over it.
pub trait NoClone<T> {
    /// No clone function.
    const FN: Option<fn(&T) -> T> = None;
}

impl<T> NoClone<T> for CloneOf<T> {}

unsafe fn drop_value<T>(place: *mut c_void) {
    // SAFETY: the caller passes the place of a `T` and does not use it afterwards.
    unsafe { place.cast::<T>().drop_in_place() }
}

unsafe fn is_set<T: Schema>(place: *const c_void) -> bool {
    // SAFETY: the caller passes the place of a `T`, or of zeros if the type's storage allows them.
    unsafe { T::is_set(place) }
}

/// Returns the object whose field is at this address.
unsafe fn object_of<F: FieldAt>(field: *mut c_void) -> *mut TVMFFIObject {
    // SAFETY: the caller passes the address of the field in an object.
    unsafe { field.byte_sub(HEADER_SIZE + F::OFFSET).cast() }
}

/// Reads a field of plain bytes: the ABI's getter. The field of an incomplete object is zero, as in
/// C++.
///
/// # Safety
/// `field` is the address of the field in a live object of its type, and `result` is writable.
unsafe extern "C" fn get_plain<F: FieldAt>(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: promised by the caller; plain bytes are a valid `Value` even if they are zeros. This
    // code does not panic.
    unsafe {
        if object_of::<F>(field).is_null() {
            return no_object();
        }
        result.write((*field.cast::<F::Value>()).field_value().into_raw());
    }
    0
}

/// The error for a class that was bound to a type without a constructor, and was instantiated
/// anyway.
#[cold]
#[inline(never)]
fn no_object() -> i32 {
    guard_nameless(|| bail!(TypeError, "there is no object: it was not constructed"))
}

/// Reads the field: the ABI's getter.
///
/// # Safety
/// `field` is the address of the field in a live object of its type, and `result` is writable.
unsafe extern "C" fn get<F: FieldAt>(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: promised by the caller; a field that is set holds a `Value`.
    unsafe {
        let object = object_of::<F>(field);
        if object.is_null() {
            return no_object();
        }
        // Only increments a reference count, which cannot panic.
        let is_reference = matches!(<F::Value as Schema>::STORAGE, Storage::Any | Storage::Object);
        // The place holds a value or a reference, or zeros, regardless of which language created
        // the object; for other storage the bytes do not show whether there is a value.
        let is_there = match is_reference {
            true => write_access::is_readable(object) && <F::Value as Schema>::is_set(field.cast_const()),
            false => (*object).type_index == F::Owner::type_def().index.get() && write_access::is_readable(object),
        };
        if is_there || has_value::<F>(object, field) {
            let read = || (*field.cast::<F::Value>()).field_value().into_raw();
            if is_reference {
                result.write(read());
                return 0;
            }
            return guard_nameless(|| {
                result.write(Reading::during(field, read));
                Ok(())
            });
        }
    }
    guard_nameless(|| {
        let def = F::Owner::type_def();
        bail!(AttributeError, "field '{}' of {} has no value yet", def.fields[F::INDEX].name, def.key)
    })
}

/// Returns the text of a field of an object that Rust created, without a copy; `None` if [`get`]
/// has to report an error.
///
/// # Safety
/// `field` is the address of the field in a live object of its type, to which the caller owns a
/// reference.
unsafe fn text_in_place<F: FieldAt>(field: *mut c_void) -> Option<*const [u8]> {
    // SAFETY: promised by the caller; a complete object of the type has a `Value` there.
    unsafe {
        let object = object_of::<F>(field);
        let is_there = (*object).type_index == F::Owner::type_def().index.get() && write_access::is_readable(object);
        let as_text = <F::Value as Schema>::AS_TEXT.filter(|_| is_there)?;
        Some(as_text(&*field.cast::<F::Value>()))
    }
}

thread_local! {
    /// The innermost of the getters on this thread that run user code.
    static READING: Cell<*const Reading> = const { Cell::new(ptr::null()) };
}

/// A getter that runs user code: a user's `Clone` may do anything.
struct Reading {
    field: *mut c_void,
    around: *const Self,
}

impl Reading {
    /// Runs `read` as a getter of this field.
    #[inline]
    fn during<R>(field: *mut c_void, read: impl FnOnce() -> R) -> R {
        struct End(*const Reading);
        impl Drop for End {
            fn drop(&mut self) {
                READING.set(self.0);
            }
        }
        let reading = Self { field, around: READING.get() };
        let _end = End(reading.around);
        READING.set(&reading);
        read()
    }

    /// Returns whether a getter of this field runs on this thread.
    fn is_running(field: *mut c_void) -> bool {
        let mut reading = READING.get();
        // SAFETY: each entry is on the stack of a getter that has not returned, and removes itself
        // from the list before it returns.
        while let Some(getter) = unsafe { reading.as_ref() } {
            if getter.field == field {
                return true;
            }
            reading = getter.around;
        }
        false
    }
}

/// Checks that no getter of the field is waiting for the code that calls the setter.
#[inline(never)]
fn check_not_read<F: FieldAt>(field: *mut c_void) -> Result<()> {
    if Reading::is_running(field) {
        let def = F::Owner::type_def();
        bail!(
            RuntimeError,
            "field '{}' of {} cannot be set while it is read: the `Clone` of its type led back here",
            def.fields[F::INDEX].name,
            def.key
        );
    }
    Ok(())
}

/// Returns whether the field of an object of any origin holds a value.
#[inline(never)]
unsafe fn has_value<F: FieldAt>(object: *mut TVMFFIObject, field: *mut c_void) -> bool {
    // SAFETY: the caller passes a live object and the field's address in it.
    unsafe {
        if write_access::is_readable(object) {
            return is_made_by_rust((*object).type_index)
                || <F::Value as Schema>::STORAGE != Storage::Rust && <F::Value as Schema>::is_set(field.cast_const());
        }
        write_access::incomplete(object)
            .is_some_and(|record| construction::is_set(object, record, F::Owner::type_def(), F::INDEX))
    }
}

/// Sets a read-only field: the ABI's setter.
///
/// # Safety
/// `field` is the address of the field in a live object of its type, `value` is a valid view, and
/// the caller owns a reference.
unsafe extern "C" fn set<F: FieldAt>(field: *mut c_void, value: *const TVMFFIAny) -> i32
where
    F::Value: FromFieldValue,
{
    // SAFETY: promised by the caller.
    unsafe {
        if object_of::<F>(field).is_null() {
            return no_object();
        }
        guard_nameless(|| store::<F>(field, convert::<F>(&*value.cast())?))
    }
}

/// Sets a writable field: the ABI's setter.
///
/// # Safety
/// As for [`set`].
unsafe extern "C" fn set_writable<F: FieldAt>(field: *mut c_void, value: *const TVMFFIAny) -> i32
where
    F::Value: MutableField,
{
    // SAFETY: promised by the caller; a field that is set holds a `Value`.
    guard_nameless(|| unsafe {
        let object = object_of::<F>(field);
        ensure!(!object.is_null(), TypeError, "there is no object: it was not constructed");
        let value = convert::<F>(&*value.cast())?;
        let rust = is_made_by_rust((*object).type_index) || <F::Value as Schema>::STORAGE == Storage::Plain;
        if rust && write_access::incomplete(object).is_none() {
            if <F::Value as Schema>::STORAGE == Storage::Rust {
                check_not_read::<F>(field)?;
            }
            (*field.cast::<F::Value>()).store_field_value(value);
            return Ok(());
        }
        store::<F>(field, value)
    })
}

unsafe fn convert<F: FieldAt>(value: &AnyView<'_>) -> Result<F::Value>
where
    F::Value: FromFieldValue,
{
    F::Value::from_field_value(value).map_err(|mismatch| {
        let def = F::Owner::type_def();
        let context = format!("field '{}' of {}: ", def.fields[F::INDEX].name, def.key);
        mismatch.into_error(&context, &<F::Value as Schema>::TYPE, value)
    })
}

unsafe fn store<F: FieldAt>(field: *mut c_void, value: F::Value) -> Result<()> {
    let place = field.cast::<F::Value>();
    // SAFETY: the caller passes the field's address in a live object, and owns a reference to it.
    unsafe {
        let object = object_of::<F>(field);
        if <F::Value as Schema>::STORAGE == Storage::Rust {
            check_not_read::<F>(field)?;
        }
        if let Some(record) = write_access::incomplete(object) {
            if construction::is_set(object, record, F::Owner::type_def(), F::INDEX) {
                drop(place.replace(value));
            } else {
                place.write(value);
                construction::set_done(object, record, F::Owner::type_def(), F::INDEX);
            }
            return Ok(());
        }
        let is_foreign = !is_made_by_rust((*object).type_index);
        if is_foreign && <F::Value as Schema>::STORAGE == Storage::Rust {
            let (def, key) = (F::Owner::type_def(), key_of((*object).type_index));
            bail!(
                TypeError,
                "type {key} cannot be derived from {}: only Rust code can make its field '{}'; hold an object of type {} in a field, or \
                 make the Rust field a type that all languages can store (Str for String, Array for Vec, Map for HashMap)",
                def.key,
                def.fields[F::INDEX].name,
                def.key
            );
        }
        // A value that was never set consists of zeros, which are not dropped.
        let was_set = !is_foreign || <F::Value as Schema>::is_set(field.cast_const());
        let mut value = Some(value);
        let old = write_access::while_unique(object, || {
            let new = value.take()?;
            if was_set {
                return Some(place.replace(new));
            }
            place.write(new);
            None
        });
        // The old value is dropped after the object is unlocked: its destructor may do anything.
        match old {
            Some(old) => drop(old),
            None => {
                let (def, key) = (F::Owner::type_def(), key_of((*object).type_index));
                bail!(
                    AttributeError,
                    "field '{}' of {key} is read-only, and others use the object; make a changed copy (copy.replace), or declare the \
                     field in {} as `#[field(writable)]` with the type `Field<...>`",
                    def.fields[F::INDEX].name,
                    def.key
                );
            }
        }
    }
    Ok(())
}

/// Returns a default in the form that the type table stores.
pub(super) fn default_value(def: &DefaultDef) -> (Any, i64) {
    match def {
        DefaultDef::Value(make) => (make(), field_flag::HAS_DEFAULT),
        DefaultDef::Factory(make) => {
            let make = *make;
            let factory = crate::Function::from_fn(make);
            (crate::value::IntoAny::into_any(factory), field_flag::HAS_DEFAULT | field_flag::DEFAULT_FROM_FACTORY)
        }
    }
}
