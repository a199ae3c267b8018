//! Frames of Rust in the traceback of an exception, if the environment variable
//! `KERNPACK_PYTHON_TRACEBACK` is 1.

use core::ptr;
use std::ffi::CString;
use std::sync::OnceLock;

use super::super::capi::Py;
use super::super::object::{Owned, PyResult, Raised};
use super::{put_back, take_exception};

/// The environment variable, which is read once.
const VARIABLE: &str = "KERNPACK_PYTHON_TRACEBACK";

/// Returns true if tracebacks have the frames.
pub(crate) fn is_shown() -> bool {
    static IS_SHOWN: OnceLock<bool> = OnceLock::new();
    *IS_SHOWN.get_or_init(|| std::env::var_os(VARIABLE).is_some_and(|value| value == "1"))
}

/// A line of a backtrace: file, line and function.
fn parsed(line: &str) -> Option<(&str, i32, &str)> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.rsplit_once("\", line ")?;
    let (number, function) = rest.split_once(", in ")?;
    Some((file, number.parse().ok()?, function))
}

/// Adds the frames of a backtrace, whose most recent call is first, to the traceback of an
/// exception. Frames for which there is no memory are left out.
#[cold]
pub(super) fn with_frames(py: Py, exception: Owned, backtrace: &str) -> PyResult<Owned> {
    let (Some(new_code), Some(new_frame), Some(enter)) =
        (py.PyCode_NewEmpty(), py.PyFrame_New(), py.PyTraceBack_Here())
    else {
        return Ok(exception);
    };
    let frame = |(file, line, function): (&str, i32, &str)| -> PyResult<Owned> {
        let name = |text| CString::new(text).map_err(|_| Raised);
        let (file, function) = (name(file)?, name(function)?);
        // SAFETY: the texts live for the call, which copies them; code and globals are alive, and
        // the thread holds the lock.
        unsafe {
            let code = Owned::take(py, new_code(file.as_ptr(), function.as_ptr(), line))?;
            let globals = Owned::take(py, py.PyDict_New())?;
            let frame = new_frame(py.PyThreadState_Get(), code.as_ptr(), globals.as_ptr(), ptr::null_mut());
            Owned::take(py, frame)
        }
    };
    let frames: Vec<Owned> = backtrace.lines().filter_map(parsed).filter_map(|line| frame(line).ok()).collect();
    // SAFETY: the exception that one of the calls above may have raised is dropped; each frame is
    // alive, and an exception is set.
    unsafe {
        py.PyErr_Clear();
        put_back(py, exception);
        for frame in &frames {
            enter(frame.as_ptr());
        }
    }
    take_exception(py).ok_or(Raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_backtraces() {
        assert_eq!(parsed("  File \"src/lib.rs\", line 7, in a.add"), Some(("src/lib.rs", 7, "a.add")));
        assert_eq!(parsed("  File \"a\", line b.rs\", line 8, in <rust>"), Some(("a\", line b.rs", 8, "<rust>")));
        for line in ["", "  File \"src/lib.rs\"", "  File \"a\", line x, in b", "  File \"a\", line 99999999999, in b"]
        {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}
