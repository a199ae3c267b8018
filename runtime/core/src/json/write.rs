//! Writer of JSON text.

use std::collections::HashSet;

use super::number::{write_float, write_integer};
use super::shared::SharedTexts;
use super::text::end_of_unescaped;
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::embedded::list::shared::{self, Contents};
use crate::embedded::map::{self, Entries};
use crate::embedded::text_of;
use crate::reflect::TypeInfo;
use crate::value::{Any, AnyView};
use crate::{Result, embedded, error};

/// Writes a value as text, on one line, or with an indentation on several lines.
///
/// # Errors
/// Returns a ValueError for a value of a type without a JSON form, a key that is not a string, a
/// list that contains itself, or shared parts whose text is repeated to more than 256 MiB.
#[inline]
pub fn write(value: &Any, indent: i32) -> Result<Vec<u8>> {
    let mut writer = Writer {
        out: Vec::new(),
        indent,
        margin: 0,
        levels: Vec::new(),
        deep_lists: HashSet::new(),
        shared: SharedTexts::default(),
    };
    // SAFETY: the value is valid and kept alive by the caller.
    unsafe { writer.value(value.as_view().as_raw())? };
    Ok(writer.out)
}

/// Nesting depth from which lists are tracked in a set.
const DEEP: usize = 32;

/// A container that is being written.
struct Level {
    object: *mut TVMFFIObject,
    /// Start of its text in the output, if the text may be repeated.
    start: Option<usize>,
    parts: Parts,
}

/// The remaining parts of a container.
enum Parts {
    Array { elements: Contents<'static>, next: usize },
    List { elements: Contents<'static>, next: usize },
    Map { entries: Entries, is_first: bool },
}

struct Writer {
    out: Vec<u8>,
    indent: i32,
    /// Indentation of the current line.
    margin: i32,
    levels: Vec<Level>,
    /// The lists among the levels at depth [`DEEP`] and below.
    deep_lists: HashSet<*mut TVMFFIObject>,
    shared: SharedTexts,
}

// SAFETY of the methods: the values are valid and stay alive while they are written: arrays and
// maps do not change, and a level owns a copy of a list's elements.

impl Writer {
    #[inline]
    unsafe fn value(&mut self, value: &TVMFFIAny) -> Result<()> {
        // SAFETY: see above.
        unsafe {
            if self.scalar(value)? {
                return Ok(());
            }
            self.open(value, 1)?;
            while let Some(Level { object, start, parts }) = self.levels.pop() {
                let level = |parts| Level { object, start, parts };
                match parts {
                    Parts::Array { elements, next } => match self.elements(&elements, next)? {
                        Some((next, inner)) => self.enter(level(Parts::Array { elements, next }), &inner, 1)?,
                        None => self.close(object, start, b']')?,
                    },
                    Parts::List { elements, next } => match self.elements(&elements, next)? {
                        // The elements are a copy with its own references.
                        Some((next, inner)) => self.enter(level(Parts::List { elements, next }), &inner, 2)?,
                        None => {
                            if self.levels.len() >= DEEP {
                                self.deep_lists.remove(&object);
                            }
                            self.close(object, start, b']')?;
                        }
                    },
                    Parts::Map { mut entries, is_first } => match self.entries(&mut entries, is_first)? {
                        Some(inner) => self.enter(level(Parts::Map { entries, is_first: false }), &inner, 1)?,
                        None => self.close(object, start, b'}')?,
                    },
                }
            }
        }
        Ok(())
    }

    /// Pushes a level back and opens the container that was found in it.
    #[inline]
    unsafe fn enter(&mut self, level: Level, container: &TVMFFIAny, references: u32) -> Result<()> {
        self.levels.push(level);
        // SAFETY: see above.
        unsafe { self.open(container, references) }
    }

    /// Closes a container after its last part.
    #[inline]
    unsafe fn close(&mut self, object: *mut TVMFFIObject, start: Option<usize>, closing: u8) -> Result<()> {
        if self.indent != 0 {
            self.margin = self.margin.wrapping_sub(self.indent);
            self.new_line()?;
        }
        self.out.push(closing);
        if let Some(start) = start {
            // SAFETY: see above.
            unsafe { self.shared.note(object, self.margin, start..self.out.len()) };
        }
        Ok(())
    }

    /// Writes elements starting at index `from`, up to the next container. Returns the index after
    /// the container, and the container; `None` at the end.
    #[inline]
    unsafe fn elements(&mut self, elements: &[TVMFFIAny], from: usize) -> Result<Option<(usize, TVMFFIAny)>> {
        // SAFETY: see above.
        unsafe {
            for (index, element) in elements.iter().enumerate().skip(from) {
                if index != 0 {
                    self.out.push(b',');
                }
                self.new_line_if_indented()?;
                if !self.scalar(element)? {
                    return Ok(Some((index + 1, *element)));
                }
            }
        }
        Ok(None)
    }

    /// Writes entries up to the next one whose value is a container. Returns that value; `None` at
    /// the end.
    #[inline]
    unsafe fn entries(&mut self, entries: &mut Entries, mut is_first: bool) -> Result<Option<TVMFFIAny>> {
        for (key, value) in entries {
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            self.new_line_if_indented()?;
            if !matches!(key.type_index, type_index::SMALL_STR | type_index::STR) {
                // SAFETY: see above.
                let key = unsafe { key_of(&key) };
                return Err(error!(ValueError, "Expect key to be string, got `{key}`"));
            }
            // SAFETY: see above.
            unsafe { self.string(&key) };
            self.out.push(b':');
            if self.indent != 0 {
                self.out.push(b' ');
            }
            // SAFETY: see above.
            if !unsafe { self.scalar(&value)? } {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Writes a value that is not a container; returns false for a container.
    #[inline]
    unsafe fn scalar(&mut self, value: &TVMFFIAny) -> Result<bool> {
        match value.type_index {
            type_index::NONE => self.out.extend_from_slice(b"null"),
            type_index::BOOL if value.bits() != 0 => self.out.extend_from_slice(b"true"),
            type_index::BOOL => self.out.extend_from_slice(b"false"),
            type_index::INT => write_integer(&mut self.out, value.bits().cast_signed()),
            type_index::FLOAT => write_float(&mut self.out, f64::from_bits(value.bits())),
            // SAFETY: see above.
            type_index::SMALL_STR | type_index::STR => unsafe { self.string(value) },
            type_index::ARRAY | type_index::LIST | type_index::MAP => return Ok(false),
            _ => {
                // SAFETY: see above.
                let key = unsafe { key_of(value) };
                return Err(error!(ValueError, "Unsupported type: `{key}`"));
            }
        }
        Ok(true)
    }

    #[inline]
    unsafe fn string(&mut self, value: &TVMFFIAny) {
        // SAFETY: see above.
        write_string(&mut self.out, unsafe { text_of(value) }.unwrap_or_default());
    }

    /// Opens a container, or repeats its text. The container is shared if it has more than
    /// `references` references.
    #[inline]
    unsafe fn open(&mut self, container: &TVMFFIAny, references: u32) -> Result<()> {
        // SAFETY: see above; the caller passes a container.
        unsafe {
            let object = container.payload.v_obj;
            let is_shared = embedded::strong_count(object) > references;
            if is_shared && self.shared.repeat(object, self.margin, &mut self.out)? {
                return Ok(());
            }
            let (opening, parts) = match container.type_index {
                type_index::MAP => (b'{', Parts::Map { entries: map::iter(object), is_first: true }),
                type_index::ARRAY => (b'[', Parts::Array { elements: shared::elements(object), next: 0 }),
                _ => {
                    self.check_cycle(object)?;
                    (b'[', Parts::List { elements: shared::elements(object), next: 0 })
                }
            };
            let start = is_shared.then_some(self.out.len());
            self.out.push(opening);
            self.levels.push(Level { object, start, parts });
        }
        self.margin = self.margin.wrapping_add(self.indent);
        Ok(())
    }

    /// Checks that a list does not contain itself. Arrays and maps are immutable once they are
    /// shared, so only lists can be part of a cycle.
    #[inline]
    fn check_cycle(&mut self, list: *mut TVMFFIObject) -> Result<()> {
        let is_list = |level: &Level| level.object == list;
        let is_deep = self.levels.len() >= DEEP;
        let near = if is_deep { &self.levels[..DEEP] } else { &self.levels[..] };
        if near.iter().any(is_list) || is_deep && !self.deep_lists.insert(list) {
            return Err(error!(ValueError, "Cycle detected: List contains itself"));
        }
        Ok(())
    }

    #[inline]
    fn new_line_if_indented(&mut self) -> Result<()> {
        if self.indent == 0 { Ok(()) } else { self.new_line() }
    }

    #[inline]
    fn new_line(&mut self) -> Result<()> {
        let margin = usize::try_from(self.margin).unwrap_or(0);
        if self.out.try_reserve(margin + 1).is_err() {
            return Err(error!(InternalError, "std::bad_alloc"));
        }
        self.out.push(b'\n');
        self.out.resize(self.out.len() + margin, b' ');
        Ok(())
    }
}

/// Appends a text in quotes, escaping the characters that JSON does not allow in strings.
#[inline]
pub fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let mut from = 0;
    loop {
        let end = end_of_unescaped(text, from);
        out.extend_from_slice(&text[from..end]);
        let Some(byte) = text.get(end) else { break };
        escape(out, *byte);
        from = end + 1;
    }
    out.push(b'"');
}

#[inline]
fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' | b'/' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// Returns the type key of a valid value.
#[inline]
unsafe fn key_of(value: &TVMFFIAny) -> String {
    // SAFETY: promised by the caller.
    let view = unsafe { AnyView::from_raw(*value) };
    match TypeInfo::find(view.type_index()) {
        Some(info) => info.key().into_owned(),
        None => format!("<unknown type {}>", view.type_index()),
    }
}
