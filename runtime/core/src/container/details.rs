//! The arguments, attributes and notes of the Python exception that an error becomes. All functions
//! are inline: a library that does not call them does not have their unwind tables.

use super::Array;
use crate::abi::type_index;
use crate::embedded;
use crate::function::Args;
use crate::value::{Any, AnyView, IntoAny, Str, ToArg};
use crate::{Error, Result};

/// The first element of an error's extra context that is such a list.
const MARK: &str = "kernpack.exception";

/// The form of the details in an error's extra context, after the mark.
type Parts = (Str, Option<Array<Any>>, Vec<(Str, Any)>, Vec<Str>, Any);

/// The details of an error for the Python exception that it becomes.
#[doc(hidden)]
#[derive(Default)]
pub struct Details {
    /// The arguments of the exception; without them, the message is the only one.
    pub args: Option<Array<Any>>,
    /// Names and values of attributes.
    pub attributes: Vec<(Str, Any)>,
    /// Notes, as those of `add_note`.
    pub notes: Vec<Str>,
    /// The extra context of the error without details.
    context: Any,
}

impl Details {
    /// The details of an error, and the error without them.
    #[inline]
    #[must_use]
    pub fn of(error: &Error) -> Option<(Self, Error)> {
        let context = error.extra_context();
        // SAFETY: NULL or an object that the error keeps alive; the value gets another reference.
        let parts = unsafe {
            if context.is_null() || (*context).type_index != type_index::ARRAY {
                return None;
            }
            embedded::inc_ref(context);
            Any::from_object(context).to::<Parts>()
        };
        let (_, args, attributes, notes, context) = parts.ok().filter(|(mark, ..)| mark.as_str() == MARK)?;
        // SAFETY: an object that the value keeps alive.
        let plain = unsafe { error.with_extra_context(object_in(&context)) };
        Some((Self { args, attributes, notes, context }, plain))
    }

    /// The error with these details.
    #[inline]
    fn put(self, error: &Error) -> Error {
        let parts: Parts = (Str::from(MARK), self.args, self.attributes, self.notes, self.context);
        let parts = parts.into_any();
        // SAFETY: as in `of`.
        unsafe { error.with_extra_context(object_in(&parts)) }
    }
}

/// The object of a value; NULL without one.
#[inline]
fn object_in(value: &Any) -> *mut crate::abi::TVMFFIObject {
    value.as_view().object().unwrap_or(core::ptr::null_mut())
}

/// The same error with changed details. If a value cannot be kept, the result is the error about
/// that, whose cause is the original one.
fn changed(error: Error, change: impl FnOnce(&mut Details) -> Result<()>) -> Error {
    let (mut details, plain) = Details::of(&error).unwrap_or_else(|| {
        let context = error.extra_context();
        // SAFETY: an object that the error keeps alive; the value gets another reference.
        let context = (!context.is_null()).then(|| unsafe {
            embedded::inc_ref(context);
            Any::from_object(context)
        });
        (Details { context: context.unwrap_or_default(), ..Details::default() }, error.clone())
    });
    match change(&mut details) {
        Ok(()) => details.put(&plain),
        Err(problem) => problem.caused_by(error),
    }
}

/// Parts of the exception that Python raises if it imports the library. Callers in other
/// languages, including the package `tvm_ffi`, get the kind and the message.
impl Error {
    /// Returns the same error with arguments for the exception's class in Python, in place of the
    /// message.
    ///
    /// ```
    /// use kernpack::Error;
    /// let error = Error::new("KeyError", "there is no key 5").with_args((5,));
    /// assert_eq!(error.message(), "there is no key 5");
    /// ```
    ///
    /// The exception is `KeyError(5)`. If a value cannot be kept after the call, such as a lent
    /// tensor, the result is an error that says so, with this one as its cause.
    #[cold]
    #[must_use]
    pub fn with_args(self, args: impl Args) -> Self {
        args.with_raw(|args| {
            // SAFETY: valid views for the call, each of which is transparent over the raw struct.
            let args = unsafe { core::slice::from_raw_parts(args.as_ptr().cast::<AnyView<'_>>(), args.len()) };
            changed(self, |details| {
                let args = args.iter().map(|arg| arg.lent().try_to_owned()).collect::<Result<Vec<_>>>()?;
                details.args = Some(args.into());
                Ok(())
            })
        })
    }

    /// Returns the same error with an attribute for the exception in Python; the last one of a name
    /// counts.
    #[cold]
    #[must_use]
    pub fn with_attribute(self, name: impl AsRef<str>, value: impl ToArg) -> Self {
        let value = value.to_arg();
        changed(self, |details| {
            // SAFETY: an argument is a valid view as long as it lives.
            let value = unsafe { AnyView::from_raw(value.as_raw()) }.lent().try_to_owned()?;
            details.attributes.push((Str::from(name.as_ref()), value));
            Ok(())
        })
    }

    /// Returns the same error with a note, as that of the method `add_note` in Python 3.11. Older
    /// versions have it in the attribute `__notes__`, which their tracebacks do not show.
    #[cold]
    #[must_use]
    pub fn with_note(self, note: impl AsRef<str>) -> Self {
        changed(self, |details| {
            details.notes.push(Str::from(note.as_ref()));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_kept_with_the_error() {
        let cause = Error::new("OSError", "the disk is full");
        let error = Error::new("KeyError", "no key 5").with_args((5, "x")).with_note("first");
        let error = error.caused_by(cause).with_attribute("offset", 3).with_note("second");
        assert_eq!((error.kind(), error.message()), ("KeyError", "no key 5"));
        assert_eq!(error.cause().unwrap().kind(), "OSError");
        let (details, plain) = Details::of(&error).unwrap();
        assert_eq!(details.args.unwrap().at(1).to::<String>().unwrap(), "x");
        assert_eq!(details.notes.iter().map(Str::as_str).collect::<Vec<_>>(), ["first", "second"]);
        let (name, value) = &details.attributes[0];
        assert_eq!((name.as_str(), value.to::<i64>().unwrap()), ("offset", 3));
        assert!(Details::of(&plain).is_none() && plain.extra_context().is_null());
        assert_eq!((plain.backtrace(), plain.cause().unwrap().kind()), (error.backtrace(), "OSError"));
    }

    #[test]
    fn the_other_context_of_an_error_stays() {
        let range = Error::value_error("300 is out of range for u8").out_of_range();
        let (_, plain) = Details::of(&range.with_note("in line 7")).unwrap();
        assert!(plain.is_out_of_range());
    }
}
