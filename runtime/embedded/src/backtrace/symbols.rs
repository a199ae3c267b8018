//! Names and source locations of the functions on this thread's stack.
//!
//! The Rust standard library reads debug information (and symbol tables) for its own backtraces,
//! but exposes it only as printed text, so that text is parsed here. Functions that it does not
//! know (of a library that was loaded after its first backtrace) are looked up with the dynamic
//! loader, which knows exported functions. C++ names are demangled by the C++ library, if the
//! process has one.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use std::backtrace::Backtrace;
use std::ffi::CString;

use super::native_frames::FrameLine;
use super::stack_walk::walk;
use crate::dynamic_linker::{cpp_runtime_symbol, symbol_at};

/// A function as printed by the standard library.
struct Printed<'a> {
    address: usize,
    symbol: Option<&'a str>,
    place: Option<(&'a str, u32)>,
}

/// Looks up all addresses on this thread's stack, each with its functions: inlined ones first.
pub(super) fn look_up_stack() -> Vec<(usize, Vec<FrameLine>)> {
    let mut addresses = Vec::new();
    walk(&mut |frame| {
        addresses.push(frame.address);
        true
    });
    let text = format!("{:#}", Backtrace::force_capture());
    let printed = read(&text);
    addresses.sort_unstable();
    addresses
        .chunk_by(|left, right| left == right)
        .map(|frames| {
            let address = frames[0];
            let mut there: Vec<_> = printed.iter().filter(|function| function.address == address).collect();
            // A recursive function is on the stack, and in the text, several times.
            there.truncate(there.len().div_ceil(frames.len()));
            let mut lines: Vec<_> = there.iter().map(|function| line_of(function)).collect();
            if lines.is_empty() {
                lines.push(line_of(&Printed { address, symbol: None, place: None }));
            }
            (address, lines)
        })
        .collect()
}

fn line_of(function: &Printed<'_>) -> FrameLine {
    let exported;
    let symbol = match function.symbol {
        None => {
            exported = exported_function(function.address);
            exported.as_deref()
        }
        known => known,
    };
    FrameLine::new(symbol.map(readable).as_deref(), function.place)
}

/// Parses `{:#}` of a backtrace: for each function a line `  7:     0x55b34165497b - name` and, if
/// its location is known, a line `      at path:line:column`.
fn read(text: &str) -> Vec<Printed<'_>> {
    let mut printed: Vec<Printed<'_>> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(place) = line.strip_prefix("at ") {
            if let Some(function) = printed.last_mut() {
                function.place = place_of(place);
            }
        } else if let Some(function) = function_of(line) {
            printed.push(function);
        }
    }
    printed
}

fn function_of(line: &str) -> Option<Printed<'_>> {
    let (_number, rest) = line.split_once(": ")?;
    let (address, symbol) = rest.trim_start().strip_prefix("0x")?.split_once(" - ")?;
    let address = usize::from_str_radix(address, 16).ok()?;
    Some(Printed { address, symbol: (symbol != "<unknown>").then_some(symbol), place: None })
}

/// The file and the line of `path:line:column` or `path:line`.
fn place_of(text: &str) -> Option<(&str, u32)> {
    let (front, last) = text.rsplit_once(':')?;
    let last = last.parse().ok()?;
    match front.rsplit_once(':') {
        Some((path, line)) if !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((path, line.parse().ok()?))
        }
        _ => Some((front, last)),
    }
}

/// The exported function that the address is in.
fn exported_function(address: usize) -> Option<String> {
    // The call may be a function's last instruction.
    let name = symbol_at(core::ptr::without_provenance::<c_void>(address.checked_sub(1)?))?;
    Some(name.to_string_lossy().into_owned())
}

/// Removes the parts of a name that only the linker needs.
fn readable(symbol: &str) -> String {
    if symbol.starts_with("_Z") {
        return cpp_name(symbol).unwrap_or_else(|| symbol.to_owned());
    }
    without_hashes(symbol)
}

fn cpp_name(symbol: &str) -> Option<String> {
    type Demangle = unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;
    let symbol = CString::new(symbol).ok()?;
    let demangle = cpp_runtime_symbol(c"__cxa_demangle");
    if demangle.is_null() {
        return None;
    }
    // SAFETY: the function's type is defined by the C++ ABI. Its result is from `malloc`, and ours.
    unsafe {
        let demangle = core::mem::transmute::<*mut c_void, Demangle>(demangle);
        let name = demangle(symbol.as_ptr(), null_mut(), null_mut(), null_mut());
        if name.is_null() {
            return None;
        }
        let text = CStr::from_ptr(name).to_string_lossy().into_owned();
        libc::free(name.cast());
        Some(text)
    }
}

/// Removes the hashes in Rust's names: `::h` and 16 digits at the end, `[...]` after the name of a
/// crate.
fn without_hashes(symbol: &str) -> String {
    let is_hash = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let symbol = match symbol.rsplit_once("::h") {
        Some((front, hash)) if hash.len() == 16 && is_hash(hash) => front,
        _ => symbol,
    };
    let mut name = String::with_capacity(symbol.len());
    let mut rest = symbol;
    while let Some((front, back)) = rest.split_once('[') {
        name.push_str(front);
        match back.split_once(']') {
            Some((hash, after))
                if is_hash(hash) && front.ends_with(|last: char| last.is_alphanumeric() || last == '_') =>
            {
                rest = after;
            }
            _ => {
                name.push('[');
                rest = back;
            }
        }
    }
    name + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn recursive(depth: u32) -> Vec<(usize, Vec<FrameLine>)> {
        if depth == 0 { look_up_stack() } else { core::hint::black_box(recursive(depth - 1)) }
    }

    #[test]
    fn the_standard_library_prints_what_is_read() {
        let found = recursive(5);
        let shown: Vec<_> = found.iter().flat_map(|(_, lines)| lines).map(|line| format!("{line:?}")).collect();
        // The two places where it calls itself or another function, each once, although one is on
        // the stack five times.
        let here: Vec<_> = shown.iter().filter(|line| line.contains("symbols::tests::recursive")).collect();
        assert_eq!(here.len(), 2, "{shown:#?}");
    }

    #[test]
    fn printed_lines() {
        let text =
            "   0:     0x55b3 - a::b\n              at /x:y/a.rs:33:14\n   1:     0x55b3 - c\n   2: 0x7f - <unknown>\n";
        let printed = read(text);
        assert_eq!(printed.len(), 3);
        assert_eq!(
            (printed[0].address, printed[0].symbol, printed[0].place),
            (0x55b3, Some("a::b"), Some(("/x:y/a.rs", 33)))
        );
        assert_eq!((printed[1].symbol, printed[1].place), (Some("c"), None));
        assert_eq!((printed[2].address, printed[2].symbol), (0x7f, None));
        assert_eq!(place_of("/a.c:7"), Some(("/a.c", 7)));
        assert_eq!(place_of("nonsense"), None);
    }

    #[test]
    fn hashes_are_removed() {
        for (symbol, name) in [
            ("a::cb::hf80b55881a0e30bc", "a::cb"),
            ("a::house", "a::house"),
            (
                "<std[e28293b1aa0f68bd]::backtrace::Backtrace>::create::<[f64], [u8; 3]>",
                "<std::backtrace::Backtrace>::create::<[f64], [u8; 3]>",
            ),
            ("plain", "plain"),
            ("operator[]", "operator[]"),
        ] {
            assert_eq!(readable(symbol), name);
        }
        assert_eq!(exported_function(1), None);
    }
}
