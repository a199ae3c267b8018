//! The generated constructor of a type, `__ffi_init__`: positional arguments and, after a marker,
//! keyword arguments.
//!
//! The call is `init(positional..., KWARGS, name, value, name, value...)`. Parameters are the
//! fields that are not excluded, ancestors' fields first; among positional ones, those without a
//! default first. A field without an argument gets its default.

use core::ffi::c_void;

use super::creation::create_empty;
use super::py_class::known_type;
use crate::abi::{TVMFFIAny, TVMFFIErrorCell, TVMFFIFieldInfo, TVMFFIObject, field_flag, type_index};
use crate::definition::function::Arguments;
use crate::definition::signature::type_key;
use crate::embedded;
use crate::function::{guard_nameless, views};
use crate::functions::values;
use crate::object::register_attr;
use crate::value::{Any, AnyView};
use crate::{Error, Result, bail, error};
use kernpack_core::reflect::{Field, TypeInfo, call_function};

/// The parameters of a type's constructor.
struct Init {
    info: TypeInfo,
    fields: Box<[Field]>,
    /// The positional parameters, as indices of fields.
    positional: Box<[u32]>,
    /// True if all fields have different names.
    distinct: bool,
    /// The address of the marker before the keyword arguments, which lives as long as the process.
    marker: u64,
}

/// The set of fields that have a value.
struct FieldSet {
    few: u64,
    more: Vec<u64>,
}

/// The origin of a value that a field does not accept, for error messages.
enum Origin {
    Argument,
    Default,
}

impl FieldSet {
    fn new(fields: usize) -> Self {
        Self { few: 0, more: vec![0; fields.saturating_sub(1) / 64] }
    }

    fn word(&mut self, field: usize) -> &mut u64 {
        match field / 64 {
            0 => &mut self.few,
            word => &mut self.more[word - 1],
        }
    }

    fn insert(&mut self, field: usize) {
        *self.word(field) |= 1 << (field % 64);
    }

    fn contains(&mut self, field: usize) -> bool {
        *self.word(field) & 1 << (field % 64) != 0
    }
}

impl Init {
    fn of(info: TypeInfo) -> Self {
        let fields: Box<[Field]> = info.fields().collect();
        let is_positional = |field: &&Field| field.as_raw().flags & (field_flag::INIT_OFF | field_flag::KW_ONLY) == 0;
        let indices = |with_default: bool| {
            let chosen = fields
                .iter()
                .enumerate()
                .filter(move |(_, field)| is_positional(field) && field.has(field_flag::HAS_DEFAULT) == with_default);
            chosen.map(|(index, _)| index as u32)
        };
        let positional = indices(false).chain(indices(true)).collect();
        let is_new =
            |(at, field): (usize, &Field)| fields[..at].iter().all(|other| other.name_bytes() != field.name_bytes());
        let distinct = fields.iter().enumerate().all(is_new);
        let marker = values::keyword_arguments().as_view().as_raw().bits();
        Self { info, fields, positional, distinct, marker }
    }

    /// Finds the parameter of this name. Names are usually given in the order of the fields, so the
    /// search begins at `expected`.
    fn find(&self, name: &[u8], expected: usize) -> Option<usize> {
        let fits = |index: &usize| {
            let field = &self.fields[*index];
            field.name_bytes() == name && !field.has(field_flag::INIT_OFF)
        };
        if self.distinct && expected < self.fields.len() && fits(&expected) {
            return Some(expected);
        }
        // If an ancestor and the type itself have fields of the same name, the type's own is used.
        (0..self.fields.len()).rev().find(fits)
    }

    /// Creates an object.
    ///
    /// # Safety
    /// The arguments are valid views for the call.
    unsafe fn call(&self, args: &[TVMFFIAny]) -> Result<Any> {
        let object = create_empty(self.info)?;
        // SAFETY: the object is of the type and no other code knows it.
        unsafe { self.bind(object.as_view().as_raw().payload.v_obj, args)? };
        Ok(object)
    }

    unsafe fn bind(&self, object: *mut TVMFFIObject, args: &[TVMFFIAny]) -> Result<()> {
        let mut set = FieldSet::new(self.fields.len());
        let is_marker = |arg: &TVMFFIAny| arg.type_index == type_index::OBJECT && arg.bits() == self.marker;
        let positional = args.iter().position(is_marker).unwrap_or(args.len());
        if args.len() == positional && positional > self.positional.len() {
            return Err(self.too_many(positional));
        }
        for (index, arg) in self.positional.iter().zip(&args[..positional]) {
            // SAFETY: the caller passes an object of the type that is under construction, and valid
            // views.
            unsafe { self.set(object, *index as usize, arg, Origin::Argument)? };
            set.insert(*index as usize);
        }
        if positional > self.positional.len() {
            return Err(self.too_many(positional));
        }
        if let Some((_, named)) = args[positional..].split_first() {
            // SAFETY: as above.
            unsafe { self.bind_named(object, named, &mut set)? };
        }
        for (index, field) in self.fields.iter().enumerate() {
            if set.contains(index) {
                continue;
            }
            if field.has(field_flag::HAS_DEFAULT) {
                // SAFETY: as above.
                unsafe { self.set_default(object, index)? };
            } else if !field.has(field_flag::INIT_OFF) {
                let kind = if field.has(field_flag::KW_ONLY) { "keyword-only argument" } else { "argument" };
                bail!(TypeError, "{}.__ffi_init__() missing required {kind}: '{}'", self.info.key(), field.name());
            }
        }
        Ok(())
    }

    unsafe fn bind_named(&self, object: *mut TVMFFIObject, named: &[TVMFFIAny], set: &mut FieldSet) -> Result<()> {
        let (pairs, rest) = named.as_chunks::<2>();
        if !rest.is_empty() {
            bail!(
                TypeError,
                "{}.__ffi_init__() KWARGS requires an even number of key-value arguments",
                self.info.key()
            );
        }
        let mut expected = 0;
        for [name, value] in pairs {
            let is_text = matches!(name.type_index, type_index::SMALL_STR | type_index::STR | type_index::RAW_STR);
            // SAFETY: the caller passes valid views, and an object under construction.
            unsafe {
                let Some(name) = embedded::text_of(name).filter(|_| is_text) else {
                    let key = type_key(&AnyView::from_raw(*name));
                    bail!(TypeError, "Cannot convert from type `{key}` to `str`");
                };
                let Some(index) = self.find(name, expected) else { return Err(self.unexpected(name)) };
                if set.contains(index) {
                    bail!(
                        TypeError,
                        "{}.__ffi_init__() got multiple values for argument '{}'",
                        self.info.key(),
                        String::from_utf8_lossy(name)
                    );
                }
                self.set(object, index, value, Origin::Argument)?;
                set.insert(index);
                expected = index + 1;
            }
        }
        Ok(())
    }

    unsafe fn set_default(&self, object: *mut TVMFFIObject, index: usize) -> Result<()> {
        let field = self.fields[index];
        let default = field.as_raw().default_value_or_factory;
        // SAFETY: the table owns the default; the caller passes an object under construction.
        unsafe {
            if !field.has(field_flag::DEFAULT_FROM_FACTORY) {
                return self.set(object, index, &default, Origin::Default);
            }
            if default.type_index != type_index::FUNCTION {
                let key = type_key(&AnyView::from_raw(default));
                bail!(TypeError, "Cannot convert from type `{key}` to `ffi.Function`");
            }
            let value = call_function(default.payload.v_obj, &[])?;
            self.set(object, index, value.as_view().as_raw(), Origin::Default)
        }
    }

    #[inline]
    unsafe fn set(&self, object: *mut TVMFFIObject, index: usize, value: &TVMFFIAny, origin: Origin) -> Result<()> {
        let field = self.fields[index];
        // SAFETY: the caller passes an object of the type that is under construction, and a valid
        // view.
        match unsafe { field.set(object, &AnyView::from_raw(*value)) } {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refused(field.as_raw(), error, origin)),
        }
    }

    /// Adds the field's name to the error of a setter.
    #[cold]
    fn refused(&self, field: &TVMFFIFieldInfo, error: Error, origin: Origin) -> Error {
        let origin: &[u8] = match origin {
            Origin::Argument => b"field",
            Origin::Default => b"default for field",
        };
        let cause = error.into_raw();
        // SAFETY: the error object is alive until its reference is given up, and so are its texts;
        // the table keeps the names.
        unsafe {
            let cell = embedded::body::<TVMFFIErrorCell>(cause);
            let mut message =
                [self.info.key_bytes(), b".__ffi_init__() ", origin, b" '", field.name.as_slice(), b"':\n  "].concat();
            for byte in cell.message.as_slice() {
                message.push(*byte);
                if *byte == b'\n' {
                    message.extend_from_slice(b"  ");
                }
            }
            let kind = cell.kind.as_slice();
            let error = embedded::new_error(kind, &message, cell.backtrace.as_slice(), cause, core::ptr::null_mut());
            embedded::dec_ref(cause);
            Error::from_raw(error)
        }
    }

    #[cold]
    fn too_many(&self, given: usize) -> Error {
        error!(
            TypeError,
            "{}.__ffi_init__() takes at most {} positional argument(s), but {given} were given",
            self.info.key(),
            self.positional.len()
        )
    }

    #[cold]
    fn unexpected(&self, name: &[u8]) -> Error {
        error!(
            TypeError,
            "{}.__ffi_init__() got an unexpected keyword argument '{}'",
            self.info.key(),
            String::from_utf8_lossy(name)
        )
    }
}

unsafe extern "C" fn call(this: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function object that `register` made; the rest is the ABI's calling
    // convention, in which a view is transparent over the raw struct.
    unsafe {
        let init: &Init = embedded::closure_of(this);
        let views = views(args, num_args);
        let args = core::slice::from_raw_parts(views.as_ptr().cast(), views.len());
        guard_nameless(|| {
            result.write(init.call(args)?.into_raw());
            Ok(())
        })
    }
}

/// Registers the generated constructor of a type whose fields are registered.
///
/// # Errors
/// RuntimeError when the type already has a constructor.
pub(super) fn register(info: TypeInfo) -> Result<()> {
    // SAFETY: a new function, whose reference is transferred to the value.
    let function = unsafe { Any::from_object(embedded::new_function(call, Init::of(info))) };
    register_attr(info.index(), "__ffi_init__", &function)
}

/// `ffi._RegisterFFIInit`.
pub(super) fn register_init(args: &Arguments<'_>) -> Result<Any> {
    register(known_type(args.int(0) as i32)?)?;
    Ok(Any::NONE)
}
