//! The arguments, attributes and notes that an error has for its exception.

use kernpack_core::container::Details;
use kernpack_core::{Any, Array};

use super::super::capi::{Py, PyObject};
use super::super::object::{Owned, PyResult, Raised};
use super::super::state::State;

/// The Python object for a value whose type is not declared.
fn object_of(py: Py, value: &Any) -> PyResult<Owned> {
    (State::get(py).higher.object_of_value)(py, value)
}

/// The arguments of an exception, as a tuple.
pub(super) fn tuple(py: Py, args: &Array<Any>) -> PyResult<Owned> {
    // SAFETY: a new tuple with that many places.
    unsafe {
        let tuple = Owned::take(py, py.PyTuple_New(args.len() as isize))?;
        for (index, value) in args.iter().enumerate() {
            py.put(&tuple, index, object_of(py, &value)?)?;
        }
        Ok(tuple)
    }
}

/// Sets the attributes, and adds the notes.
///
/// # Safety
/// `exception` is a live exception.
pub(super) unsafe fn apply(py: Py, exception: *mut PyObject, details: &Details) -> PyResult<()> {
    for (name, value) in &details.attributes {
        let (name, value) = (py.interned(name.as_str())?, object_of(py, value)?);
        // SAFETY: promised by the caller; name and value are alive.
        if unsafe { py.PyObject_SetAttr(exception, name.as_ptr(), value.as_ptr()) } != 0 {
            return Err(Raised);
        }
    }
    if details.notes.is_empty() {
        return Ok(());
    }
    // SAFETY: promised by the caller; the other objects are alive.
    unsafe {
        let notes = notes_of(py, exception)?;
        for note in &details.notes {
            let note = py.text(note.as_str())?;
            // An exception of Python that is raised again has it already.
            match py.PySequence_Contains(notes.as_ptr(), note.as_ptr()) {
                0 if py.PyList_Append(notes.as_ptr(), note.as_ptr()) == 0 => {}
                1 => {}
                _ => return Err(Raised),
            }
        }
    }
    Ok(())
}

/// The list `__notes__` of an exception, which `add_note` creates since Python 3.11. Code of Python
/// may have set another object there, which an append rejects.
///
/// # Safety
/// `exception` is a live exception.
unsafe fn notes_of(py: Py, exception: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; a new list.
    unsafe {
        if let Some(notes) = py.attribute_if_any(exception, c"__notes__")? {
            return Ok(notes);
        }
        let notes = Owned::take(py, py.PyList_New(0))?;
        match py.PyObject_SetAttrString(exception, c"__notes__".as_ptr(), notes.as_ptr()) {
            0 => Ok(notes),
            _ => Err(Raised),
        }
    }
}
