//! Error objects.

use core::fmt::Write;
use std::sync::Mutex;

use crate::abi::{TVMFFIByteArray, TVMFFIErrorCell, TVMFFIObject, TVMFFIObjectHandle, backtrace_update, type_index};

use super::object::{ObjectCell, dec_ref, inc_ref, new_object_with_tail};

/// The ABI's cell, which points into the object's tail: `kind NUL message NUL backtrace NUL`.
#[repr(C)]
struct ErrorBody {
    cell: TVMFFIErrorCell,
    // Later backtraces; the cell points to the last one. Readers may still hold the earlier ones,
    // so they are kept.
    backtraces: Mutex<Vec<Vec<u8>>>,
    // Unused bytes after the backtrace and its NUL in the object's tail, for a longer name in its
    // only frame.
    spare: usize,
    // The length of the name in a frame that is not named yet, at the end of the backtrace, with
    // its line break; else 0.
    unnamed: usize,
}

// SAFETY: everything that can change is behind the mutex; the cell's `backtrace` is written while
// it is held, and the ABI leaves it to callers not to update a backtrace while another thread reads
// it.
unsafe impl Send for ErrorBody {}
// SAFETY: as above.
unsafe impl Sync for ErrorBody {}

impl Drop for ErrorBody {
    fn drop(&mut self) {
        for handle in [self.cell.cause_chain, self.cell.extra_context] {
            if !handle.is_null() {
                // SAFETY: the cell owns these references.
                unsafe { dec_ref(handle) };
            }
        }
    }
}

/// Creates an error. `cause` and `extra` may be NULL; the error takes a new reference to each.
///
/// # Safety
/// `cause` and `extra` are NULL or live objects.
pub unsafe fn new_error(
    kind: &[u8],
    message: &[u8],
    backtrace: &[u8],
    cause: TVMFFIObjectHandle,
    extra: TVMFFIObjectHandle,
) -> *mut TVMFFIObject {
    for handle in [cause, extra] {
        if !handle.is_null() {
            // SAFETY: promised by the caller.
            unsafe { inc_ref(handle) };
        }
    }
    // SAFETY: the new references are the error's.
    unsafe { store(kind, message, Backtrace::Text(backtrace), cause, extra) }
}

/// Creates an error whose backtrace is one frame: the same as [`backtrace_frame`]'s, without a
/// separate text. [`name_frame`] may rename the frame; the new name usually fits into the same
/// memory.
pub fn new_error_at(kind: &[u8], message: &[u8], file: &str, line: u32, function: &str) -> *mut TVMFFIObject {
    let mut digits = [0; 10];
    let frame = Frame { file, line: decimal(line, &mut digits), function };
    // SAFETY: no cause and no extra context.
    unsafe { store(kind, message, Backtrace::Frame(frame), core::ptr::null_mut(), core::ptr::null_mut()) }
}

/// Room after a frame for a longer name.
const SPARE: usize = 48;

/// The initial backtrace of an error.
enum Backtrace<'a> {
    Text(&'a [u8]),
    Frame(Frame<'a>),
}

/// A line of a backtrace.
struct Frame<'a> {
    file: &'a str,
    line: &'a [u8],
    function: &'a str,
}

impl Backtrace<'_> {
    const FILE: [u8; 8] = *b"  File \"";
    const LINE: [u8; 8] = *b"\", line ";
    const IN: [u8; 5] = *b", in ";

    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Frame(Frame { file, line, function }) => {
                Self::FILE.len() + file.len() + Self::LINE.len() + line.len() + Self::IN.len() + function.len() + 1
            }
        }
    }

    /// The number of bytes after it for a longer name, and the length of its present name with the
    /// line break.
    fn spare(&self) -> (usize, usize) {
        match self {
            Self::Text(_) => (0, 0),
            Self::Frame(frame) => (SPARE, frame.function.len() + 1),
        }
    }

    /// Writes it; returns the end.
    ///
    /// # Safety
    /// There is room for it.
    unsafe fn write(&self, end: *mut u8) -> *mut u8 {
        // SAFETY: promised by the caller.
        unsafe {
            match self {
                Self::Text(text) => append(end, text),
                Self::Frame(Frame { file, line, function }) => {
                    // The fixed parts are inline moves, whereas a copy of variable length is a
                    // call.
                    let end = append_fixed(end, Self::FILE);
                    let end = append_fixed(append(end, file.as_bytes()), Self::LINE);
                    let end = append_fixed(append(end, line), Self::IN);
                    append_fixed(append(end, function.as_bytes()), *b"\n")
                }
            }
        }
    }
}

/// # Safety
/// There is room for the text.
#[inline]
unsafe fn append(end: *mut u8, text: &[u8]) -> *mut u8 {
    // SAFETY: promised by the caller.
    unsafe {
        end.copy_from_nonoverlapping(text.as_ptr(), text.len());
        end.add(text.len())
    }
}

/// # Safety
/// There is room for the text.
#[inline]
unsafe fn append_fixed<const N: usize>(end: *mut u8, text: [u8; N]) -> *mut u8 {
    // SAFETY: promised by the caller.
    unsafe {
        end.cast::<[u8; N]>().write_unaligned(text);
        end.add(N)
    }
}

/// The digits of a number.
fn decimal(mut number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        // Unrolled ten times, this would take half a kilobyte in every artifact.
        number = core::hint::black_box(number / 10);
        if number == 0 {
            break;
        }
    }
    &digits[start..]
}

/// Writes texts and cell into a new object.
///
/// # Safety
/// `cause` and `extra` are NULL, or references to live objects that the error takes over.
#[inline(never)]
unsafe fn store(
    kind: &[u8],
    message: &[u8],
    backtrace: Backtrace<'_>,
    cause: TVMFFIObjectHandle,
    extra: TVMFFIObjectHandle,
) -> *mut TVMFFIObject {
    let cell = TVMFFIErrorCell {
        kind: TVMFFIByteArray::EMPTY,
        message: TVMFFIByteArray::EMPTY,
        backtrace: TVMFFIByteArray::EMPTY,
        update_backtrace: Some(update_backtrace),
        cause_chain: cause,
        extra_context: extra,
    };
    let (spare, unnamed) = backtrace.spare();
    let size = kind.len() + message.len() + backtrace.len() + 3 + spare;
    let body = ErrorBody { cell, backtraces: Mutex::new(Vec::new()), spare, unnamed };
    let object = new_object_with_tail(type_index::ERROR, body, size);
    // SAFETY: the object is new and ours; its tail has room for the texts and their NULs.
    unsafe {
        let error = object.cast::<ObjectCell<ErrorBody>>();
        let mut end = error.add(1).cast::<u8>();
        let mut finish = |behind: *mut u8| {
            behind.write(0);
            let start = core::mem::replace(&mut end, behind.add(1));
            (TVMFFIByteArray { data: start, size: behind.addr() - start.addr() }, end)
        };
        let cell = &mut (*error).body.cell;
        let mut place = error.add(1).cast::<u8>();
        (cell.kind, place) = finish(append(place, kind));
        (cell.message, place) = finish(append(place, message));
        (cell.backtrace, _) = finish(backtrace.write(place));
    }
    object
}

/// Renames the only frame of an error of [`new_error_at`], in place, once. Returns false without
/// any effect if it is already named, there is no room, the backtrace was changed since, or the
/// error is of another library.
///
/// # Safety
/// `object` is a live error to which nothing else refers.
pub unsafe fn name_frame(object: *mut TVMFFIObject, function: &str) -> bool {
    // SAFETY: promised by the caller: an error's cell follows its header. An error with this
    // function is one that `store` made, which has its texts in its tail, the backtrace last,
    // unless there are later ones.
    unsafe {
        let error = object.cast::<ObjectCell<ErrorBody>>();
        let own: unsafe extern "C" fn(TVMFFIObjectHandle, *const TVMFFIByteArray, i32) = update_backtrace;
        let is_own = (*error).body.cell.update_backtrace.is_some_and(|update| core::ptr::fn_addr_eq(update, own));
        if !is_own {
            return false;
        }
        let body = &mut (*error).body;
        let (len, new) = (body.unnamed, function.len() + 1);
        let is_first = body.backtraces.get_mut().is_ok_and(|later| later.is_empty());
        if len == 0 || !is_first || new > len + body.spare {
            return false;
        }
        body.unnamed = 0;
        let backtrace = &mut body.cell.backtrace;
        let start = backtrace.data.cast_mut().add(backtrace.size - len);
        start.copy_from_nonoverlapping(function.as_ptr(), function.len());
        start.add(function.len()).cast::<[u8; 2]>().write(*b"\n\0");
        backtrace.size = backtrace.size - len + new;
        body.spare = body.spare + len - new;
    }
    true
}

unsafe extern "C" fn update_backtrace(this: TVMFFIObjectHandle, backtrace: *const TVMFFIByteArray, mode: i32) {
    if this.is_null() || backtrace.is_null() {
        return;
    }
    // SAFETY: this function is only reachable through an error that `new_error` made; the caller
    // passes valid bytes.
    unsafe {
        let error = &raw mut (*this.cast::<ObjectCell<ErrorBody>>()).body;
        let addition = (*backtrace).as_slice();
        let Ok(mut backtraces) = (*error).backtraces.lock() else { return };
        let kept = match mode {
            backtrace_update::REPLACE => &[],
            _ => (*error).cell.backtrace.as_slice(),
        };
        let mut next = Vec::with_capacity(kept.len() + addition.len() + 1);
        next.extend_from_slice(kept);
        next.extend_from_slice(addition);
        next.push(0);
        (&raw mut (*error).cell.backtrace).write(TVMFFIByteArray::new(&next[..next.len() - 1]));
        backtraces.push(next);
    }
}

/// One line of a backtrace in the ABI's format.
pub fn backtrace_frame(file: &str, line: u32, function: &str) -> String {
    let mut frame = String::with_capacity(file.len() + function.len() + 32);
    // Writing to a string cannot fail.
    let _ = writeln!(frame, "  File \"{file}\", line {line}, in {function}");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::body;

    #[test]
    fn the_frame_of_a_new_error_gets_another_name() {
        let texts = |error| {
            // SAFETY: a live error.
            let cell = unsafe { body::<TVMFFIErrorCell>(error) };
            // SAFETY: as above; each text has a NUL behind it.
            unsafe {
                for text in [&cell.kind, &cell.message, &cell.backtrace] {
                    assert_eq!(*text.data.add(text.size), 0);
                }
                [cell.kind, cell.message, cell.backtrace]
                    .map(|text| String::from_utf8(text.as_slice().to_vec()).unwrap())
            }
        };
        let short = "a.b";
        let (fits, long) = ("x".repeat(54), "x".repeat(55));
        for (name, is_named) in [(short, true), (fits.as_str(), true), (long.as_str(), false)] {
            let error = new_error_at(b"ValueError", b"too big", "src/lib.rs", 4_294_967_295, "<rust>");
            let frame = |name: &str| backtrace_frame("src/lib.rs", 4_294_967_295, name);
            assert_eq!(texts(error), ["ValueError", "too big", &frame("<rust>")]);
            // SAFETY: a live error that only this has, whose backtrace ends so.
            unsafe {
                assert_eq!(name_frame(error, name), is_named);
                assert_eq!(texts(error)[2], frame(if is_named { name } else { "<rust>" }));
                if is_named {
                    assert!(!name_frame(error, "again"), "a frame is named once");
                    assert_eq!(texts(error)[2], frame(name));
                }
                let more = TVMFFIByteArray::new(b"more\n");
                update_backtrace(error, &more, backtrace_update::APPEND);
                assert!(!name_frame(error, "late"), "later backtraces are elsewhere");
                dec_ref(error);
            }
        }
        assert_eq!(decimal(0, &mut [0; 10]), b"0");
    }

    #[test]
    fn cell_points_at_own_copies_and_updates() {
        // SAFETY: no cause and no extra context; the one reference is released at the end.
        unsafe {
            let error = new_error(b"ValueError", b"too big", b"a\n", core::ptr::null_mut(), core::ptr::null_mut());
            let cell = body::<TVMFFIErrorCell>(error);
            assert_eq!(cell.kind.as_slice(), b"ValueError");
            assert_eq!(cell.message.as_slice(), b"too big");
            assert_eq!(*cell.message.data.add(cell.message.size), 0, "what() needs the NUL");
            let more = TVMFFIByteArray::new(b"b\n");
            (cell.update_backtrace.unwrap())(error, &more, backtrace_update::APPEND);
            assert_eq!(body::<TVMFFIErrorCell>(error).backtrace.as_slice(), b"a\nb\n");
            (cell.update_backtrace.unwrap())(error, &more, backtrace_update::REPLACE);
            assert_eq!(body::<TVMFFIErrorCell>(error).backtrace.as_slice(), b"b\n");
            dec_ref(error);
        }
    }
}
