//! Texts and comparisons of lists and dicts of the library. The interpreter goes from one to the
//! nested ones and calls this module for each, so the intermediate results are thread-local: a
//! repeated list is neither printed nor compared again.

use core::cell::RefCell;
use core::ffi::c_int;
use std::collections::{HashMap, HashSet};

use kernpack_core::abi::{TVMFFIObject, type_index};
use kernpack_core::{Any, embedded};

use crate::cpython::capi::Py;
use crate::cpython::object::{Owned, PyResult};

/// `Py_EQ`.
pub(crate) const EQUAL: c_int = 2;
/// `Py_NE`.
pub(crate) const UNEQUAL: c_int = 3;

/// The longest text that is repeated every time its list occurs again.
const SHORT: usize = 1024;
/// The limit on repeated bytes of longer texts.
const MOST_REPEATED: usize = 4 << 20;

#[derive(Default)]
struct Walk {
    /// The number of running calls of this file.
    depth: usize,
    /// The lists and dicts that are being printed.
    open: Vec<usize>,
    /// The texts of the printed ones, and their lengths.
    texts: HashMap<usize, (Owned, usize)>,
    repeated: usize,
    /// Pairs that are equal.
    equal: HashSet<(usize, usize)>,
    /// All of these objects: no other object gets the address of one of them meanwhile.
    kept: Vec<Any>,
}

thread_local! {
    static WALK: RefCell<Walk> = RefCell::default();
}

/// A scope of one call; the outermost one drops the results.
struct Level;

impl Level {
    fn enter() -> Self {
        WALK.with_borrow_mut(|walk| walk.depth += 1);
        Self
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        let done = WALK.with_borrow_mut(|walk| {
            walk.depth -= 1;
            (walk.depth == 0).then(|| core::mem::take(walk))
        });
        // Destructors may call this module again.
        drop(done);
    }
}

/// Returns true if there are other references to an object than its Python object and the container
/// in which it was found.
///
/// # Safety
/// `object` is alive.
unsafe fn is_shared(object: *mut TVMFFIObject) -> bool {
    // SAFETY: promised by the caller.
    unsafe { embedded::strong_count(object) > 2 }
}

/// A reference that keeps an object.
///
/// # Safety
/// `object` is alive.
unsafe fn kept(object: *mut TVMFFIObject) -> Any {
    // SAFETY: promised by the caller; the new reference is transferred to the value.
    unsafe {
        embedded::inc_ref(object);
        Any::from_object(object)
    }
}

/// The text of a list or dict: `[...]` or `{...}` inside itself, as the interpreter prints its own,
/// and `<kernpack.List, shown before>` if repeating it would make the whole too long.
///
/// # Safety
/// `object` is a live list or dict.
pub(crate) unsafe fn text(
    py: Py,
    object: *mut TVMFFIObject,
    print: impl FnOnce() -> PyResult<Owned>,
) -> PyResult<Owned> {
    let _level = Level::enter();
    let address = object.addr();
    // SAFETY: promised by the caller.
    let is_dict = unsafe { (*object).type_index } == type_index::DICT;
    let known = WALK.with_borrow_mut(|walk| {
        if walk.open.contains(&address) {
            return Some(Err(if is_dict { "{...}" } else { "[...]" }));
        }
        let Some((text, size)) = walk.texts.get(&address) else {
            walk.open.push(address);
            return None;
        };
        if *size > SHORT {
            if *size > MOST_REPEATED - walk.repeated {
                let mark = if is_dict { "<kernpack.Dict, shown before>" } else { "<kernpack.List, shown before>" };
                return Some(Err(mark));
            }
            walk.repeated += size;
        }
        // SAFETY: the text is alive.
        Some(Ok(unsafe { Owned::share(py, text.as_ptr()) }))
    });
    match known {
        Some(Ok(text)) => return Ok(text),
        Some(Err(mark)) => return py.text(mark),
        None => {}
    }
    let printed = print();
    // SAFETY: promised by the caller; the text is alive.
    let noted = printed.as_ref().ok().filter(|_| unsafe { is_shared(object) }).and_then(|text| unsafe {
        let size = py.utf8(text.as_ptr()).map(<[u8]>::len);
        match size {
            Ok(size) => Some((kept(object), Owned::share(py, text.as_ptr()), size)),
            // A text with surrogates, which is printed again.
            Err(_) => {
                py.PyErr_Clear();
                None
            }
        }
    });
    WALK.with_borrow_mut(|walk| {
        walk.open.pop();
        if let Some((kept, text, size)) = noted {
            walk.kept.push(kept);
            walk.texts.insert(address, (text, size));
        }
    });
    printed
}

/// `==` or `!=` of two lists or dicts.
///
/// # Safety
/// Both are live lists or dicts, and the operation is one of these two.
pub(crate) unsafe fn comparison(
    py: Py,
    objects: [*mut TVMFFIObject; 2],
    operation: c_int,
    compare: impl FnOnce() -> PyResult<Owned>,
) -> PyResult<Owned> {
    let pair: (usize, usize) = objects.map(<*mut _>::addr).into();
    // SAFETY: the lock is held.
    let answer =
        |is_equal: bool| unsafe { Owned::take(py, py.PyBool_FromLong((is_equal == (operation == EQUAL)).into())) };
    if pair.0 == pair.1 {
        return answer(true);
    }
    let _level = Level::enter();
    if WALK.with_borrow(|walk| walk.equal.contains(&pair)) {
        return answer(true);
    }
    let compared = compare()?;
    let of_equal = if operation == EQUAL { py._Py_TrueStruct() } else { py._Py_FalseStruct() };
    if compared.as_ptr() == of_equal {
        // A pair that occurs again is below one of which either side is shared.
        // SAFETY: promised by the caller.
        if objects.into_iter().any(|object| unsafe { is_shared(object) }) {
            // SAFETY: promised by the caller.
            let both = objects.map(|object| unsafe { kept(object) });
            WALK.with_borrow_mut(|walk| {
                walk.kept.extend(both);
                walk.equal.insert(pair);
            });
        }
    }
    Ok(compared)
}
