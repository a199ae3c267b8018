//! The native frames of a backtrace: the selection of shown frames, and a cache of their texts.
//!
//! The walk stops where a frontend takes over (Python prints its own frames) and leaves out
//! irrelevant frames. Environment variable `TVM_TRACEBACK_LIMIT` is the maximum number of lines in
//! a backtrace (512 by default). Looking up an address is slow, so the results are cached.

use core::ffi::CStr;
use std::sync::RwLock;

use super::stack_walk::{Frame, unload_count, walk};
use super::symbols;
use super::{Extent, is_hidden, push_frame};

/// The default limit on lines of a backtrace.
const DEFAULT_LIMIT: usize = 512;
/// The largest number of cached addresses; beyond it, the cache is cleared.
const MAX_KNOWN: usize = 8192;

/// The effect of a frame's symbol on the backtrace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The frame is shown.
    Shown,
    /// The frame is left out.
    Hidden,
    /// A frontend takes over: the walk stops, unless it has to cross the boundary.
    Boundary,
}

/// A frame of a backtrace: a function at an address, or one that was inlined there.
#[derive(Clone, Debug)]
pub(super) struct FrameLine {
    kind: Kind,
    /// With the newline; also for a boundary, which may be crossed.
    text: String,
}

impl FrameLine {
    /// `file` and `line` are known only where there is debug information. A frame without a symbol
    /// is hidden.
    pub(super) fn new(symbol: Option<&str>, place: Option<(&str, u32)>) -> Self {
        const BOUNDARIES: [&str; 5] =
            ["TVMFFIFunctionCall", "slot_tp_call", "object_is_not_callable", "_Py", "PyObject"];
        let kind = match symbol {
            Some(symbol) if BOUNDARIES.iter().any(|name| symbol.starts_with(name)) => Kind::Boundary,
            Some(symbol) if !is_hidden(symbol.as_bytes(), place.map_or("", |(file, _)| file).as_bytes()) => Kind::Shown,
            _ => Kind::Hidden,
        };
        let (file, line) = place.unwrap_or(("<unknown>", 0));
        let mut text = Vec::new();
        push_frame(&mut text, file.as_bytes(), line.into(), symbol.unwrap_or_default().as_bytes());
        Self { kind, text: String::from_utf8(text).unwrap_or_default() }
    }
}

/// The lines of the addresses that were looked up, sorted by address.
struct Known {
    entries: Vec<(usize, Vec<FrameLine>)>,
    /// The number of libraries that had been unloaded at the last lookup: after another unload, a
    /// different library may be at the same address.
    unloads: u64,
}

static KNOWN: RwLock<Known> = RwLock::new(Known { entries: Vec::new(), unloads: 0 });

impl Known {
    fn lines(&self, address: usize) -> Option<&[FrameLine]> {
        let place = self.entries.binary_search_by_key(&address, |(address, _)| *address).ok()?;
        Some(&self.entries[place].1)
    }

    fn insert(&mut self, address: usize, lines: Vec<FrameLine>) {
        if self.entries.len() >= MAX_KNOWN {
            self.entries.clear();
        }
        if let Err(place) = self.entries.binary_search_by_key(&address, |(address, _)| *address) {
            self.entries.insert(place, (address, lines));
        }
    }
}

/// Appends the native frames to `text`, which already has `lines` lines.
pub(super) fn push_native_frames(text: &mut Vec<u8>, lines: usize, extent: &Extent) {
    let start = text.len();
    let limit = limit();
    let unloads = unload_count();
    if let Ok(known) = KNOWN.read()
        && known.unloads == unloads
        && push_known_frames(text, lines, limit, extent, &known)
    {
        return;
    }
    text.truncate(start);
    let found = symbols::look_up_stack();
    let Ok(mut known) = KNOWN.write() else { return };
    if known.unloads != unloads {
        known.entries.clear();
        known.unloads = unloads;
    }
    for (address, lines) in found {
        known.insert(address, lines);
    }
    push_known_frames(text, lines, limit, extent, &known);
}

/// Like [`push_native_frames`]. Returns false, with an undefined text, if an address is not cached
/// yet.
fn push_known_frames(text: &mut Vec<u8>, mut lines: usize, limit: usize, extent: &Extent, known: &Known) -> bool {
    let mut skip = extent.skip;
    let mut complete = true;
    let mut visit = |frame: Frame| {
        if frame.stack_pointer <= extent.below {
            return true;
        }
        let Some(symbols) = known.lines(frame.address) else {
            complete = false;
            return false;
        };
        for symbol in symbols {
            if lines >= limit || (symbol.kind == Kind::Boundary && !extent.cross_boundary) {
                return false;
            }
            if skip > 0 {
                // Our own entry point does not count as a frame of the caller.
                if !symbol.text.ends_with(", in TVMFFIBacktrace\n") {
                    skip -= 1;
                }
            } else if symbol.kind != Kind::Hidden {
                text.extend_from_slice(symbol.text.as_bytes());
                lines += 1;
            }
        }
        true
    };
    walk(&mut visit);
    complete
}

fn limit() -> usize {
    // SAFETY: the name is NUL-terminated; the value is read at once.
    let value = unsafe {
        let value = libc::getenv(c"TVM_TRACEBACK_LIMIT".as_ptr());
        if value.is_null() { None } else { CStr::from_ptr(value).to_str().ok() }
    };
    let limit = value.and_then(|value| value.trim_ascii_start().parse::<i32>().ok());
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backtrace::here;

    #[inline(never)]
    fn innermost(skip: usize, cross_boundary: bool) -> String {
        let mut text = Vec::new();
        push_native_frames(&mut text, 0, &Extent { below: here(), skip, cross_boundary });
        String::from_utf8(text).unwrap()
    }

    #[unsafe(export_name = "_PyKernpackTestFrame")]
    #[inline(never)]
    fn in_a_frame_of_python(run: &mut dyn FnMut()) {
        run();
        core::hint::black_box(run);
    }

    #[test]
    fn native_frames_up_to_the_boundary() {
        let (mut inside, mut across) = (String::new(), String::new());
        in_a_frame_of_python(&mut || {
            for _ in 0..2 {
                // The second time all addresses are cached.
                inside = innermost(0, false);
                across = innermost(0, true);
            }
        });
        assert_eq!(inside.matches("_PyKernpackTestFrame").count(), 0, "{inside}");
        assert_eq!(across.matches("_PyKernpackTestFrame").count(), 1, "{across}");
        assert!(across.starts_with(&inside) && across.len() > inside.len(), "{across}");
        for line in across.lines() {
            assert!(line.starts_with("  File \"") && line.contains("\", line ") && line.contains(", in "), "{line}");
        }
    }

    #[test]
    fn frames_that_say_nothing_are_hidden() {
        for (symbol, file, kind) in [
            (Some("ns::f(int)"), "a.cc", Kind::Shown),
            (Some("tvm::ffi::Function::operator()() const"), "a.cc", Kind::Hidden),
            (Some("void tvm::ffi::Function::f()"), "a.cc", Kind::Shown),
            (Some("f()"), "/usr/include/c++/12/vector", Kind::Hidden),
            (Some("f()"), "x/include/tvm/ffi/function.h", Kind::Hidden),
            (Some("std::panic::catch_unwind::<f>"), "/rustc/5980/library/std/src/panic.rs", Kind::Hidden),
            (Some("__libc_start_main"), "", Kind::Hidden),
            (Some("PyObject_Call"), "", Kind::Boundary),
            (Some("TVMFFIFunctionCall"), "", Kind::Boundary),
            (None, "a.cc", Kind::Hidden),
        ] {
            assert_eq!(FrameLine::new(symbol, Some((file, 1))).kind, kind, "{symbol:?} {file}");
        }
        assert_eq!(FrameLine::new(Some("f"), None).text, "  File \"<unknown>\", line 0, in f\n");
    }
}
