//! The printer: a stack of the objects that are being printed, and texts that grow at the end.
//!
//! The printer, as a visitor, writes values without parts directly. Every text is written once, in
//! its final place. When an object occurs again, that part of the text is copied; an object that is
//! still being printed is `...`. Only objects with other references can occur again, and only those
//! are recorded, unless a hook is called: it may print any object. A graph with shared parts has as
//! many paths as a tree of exponential size, so copies of long texts are limited; beyond the limit,
//! a repeated object is `<ffi.Array, shown before>`.

use core::ffi::c_void;

use super::leaf::name_of_marker;
use super::number::push_address;
use crate::abi::{TVMFFIAny, TVMFFIObject, field_flag, type_index};
use crate::dataclass::enums;
use crate::definition::signature::{ANY_VIEW, STRING, Signature};
use crate::embedded;
use crate::embedded::release::{retain, to_owned};
use crate::value::{Any, AnyView};
use crate::walker::address_map::AddressMap;
use crate::walker::children::Children;
use crate::walker::field_value::{Read, give_up, read};
use crate::walker::reentry::{Reentry, call_hook};
use crate::walker::stack::check_depth;
use crate::{Result, bail, error};
use kernpack_core::reflect::{AttrColumn, TypeInfo, dispatch};

static REPR: AttrColumn = AttrColumn::new("__ffi_repr__");

/// If this environment variable is `1`, objects are printed with their addresses.
const WITH_ADDRESSES: &str = "TVM_FFI_REPR_WITH_ADDR";

/// The initial capacity, for a short text.
const CAPACITY: usize = 64;

/// The flag of fields that are not printed.
const NOT_PRINTED: i64 = field_flag::REPR_OFF;

/// The longest text that is copied every time its object occurs again.
const SHORT: usize = 1024;

/// The limit on bytes that are copied from longer texts.
const MOST_COPIED: usize = 4 << 20;

/// The entry of an object that is being printed; the entry of another one is the index of its text.
const IN_PROGRESS: u64 = u64::MAX;

/// Prints one value with its parts.
pub(super) struct Printer {
    /// The current text.
    pub(super) text: Vec<u8>,
    /// Its index among the texts: outer texts that wait for a hook's, and finished texts that hooks
    /// requested.
    current: usize,
    /// The other texts; the entry of the current one is empty, or does not exist.
    texts: Vec<Vec<u8>>,
    frames: Vec<Frame>,
    /// The number of texts that `seen` refers to.
    kept_texts: usize,
    /// The number of frames whose objects are in `seen`, whether or not there are other references
    /// to them.
    remembered: usize,
    seen: AddressMap,
    done: Vec<Done>,
    /// Bytes of long texts that were copied so far.
    copied: usize,
    /// The objects in `seen`: no other object gets the address of one of them meanwhile.
    kept: Vec<Any>,
    /// True if the last visited value is an object whose parts have to be printed.
    pub(super) has_parts: bool,
    /// True if objects are printed with their addresses; `None` before the first one.
    with_addresses: Option<bool>,
    /// The function that hooks get for printing the parts of their object.
    callback: Option<Reentry>,
}

/// An object that is being printed.
struct Frame {
    object: *mut TVMFFIObject,
    info: TypeInfo,
    children: Children,
    /// Number of children so far.
    count: usize,
    /// The offset at which its text begins.
    start: usize,
    /// The object again, if no other reference is certain to keep it alive.
    _kept: Any,
}

/// The text of an object: the index of the text, and the part of it.
#[derive(Clone, Copy)]
struct Done {
    text: usize,
    start: usize,
    end: usize,
}

impl Printer {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            text: Vec::with_capacity(CAPACITY),
            current: 0,
            texts: Vec::new(),
            frames: Vec::new(),
            kept_texts: 0,
            remembered: 0,
            seen: AddressMap::default(),
            done: Vec::new(),
            copied: 0,
            kept: Vec::new(),
            has_parts: false,
            with_addresses: None,
            callback: None,
        }
    }

    /// The text.
    #[inline]
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the text and consumes the printer.
    #[inline]
    pub(super) fn into_text(self) -> Vec<u8> {
        self.text
    }

    /// Appends a value to the current text.
    ///
    /// # Safety
    /// The value is valid and stays so for the call.
    #[inline]
    pub(super) unsafe fn print(&mut self, value: &TVMFFIAny) -> Result<()> {
        let depth = self.frames.len();
        // SAFETY: promised by the caller; children are alive as long as the frame that they come
        // from.
        unsafe {
            if self.print_leaf(value)? {
                return Ok(());
            }
            self.enter(value, 1, Any::NONE)?;
            while self.frames.len() > depth {
                check_depth(self.frames.len() - depth - 1)?;
                self.advance()?;
            }
        }
        Ok(())
    }

    /// Prints a value into a separate text, which is returned: for a hook.
    ///
    /// # Safety
    /// As for [`Printer::print`].
    #[inline]
    pub(super) unsafe fn print_apart(&mut self, value: &TVMFFIAny) -> Result<TVMFFIAny> {
        let (depth, outer) = (self.frames.len(), self.current);
        self.keep_text();
        self.current = self.texts.len();
        // SAFETY: promised by the caller.
        let printed = unsafe { self.print(value) }.map(|()| embedded::new_string(&self.text));
        self.abandon(depth);
        // Objects that occur again are copied from the text.
        if self.kept_texts > self.current {
            self.keep_text();
        } else {
            self.texts.truncate(self.current);
        }
        self.text = core::mem::take(&mut self.texts[outer]);
        self.current = outer;
        printed
    }

    /// Drops the frames above a depth, after an error. Their objects stay in `seen`.
    #[inline]
    fn abandon(&mut self, depth: usize) {
        // SAFETY: the objects of frames are alive.
        self.kept.extend(self.frames.drain(depth..).map(|frame| unsafe { shared(frame.object) }));
        self.remembered = self.remembered.min(depth);
    }

    #[inline]
    fn keep_text(&mut self) {
        if self.texts.len() == self.current {
            self.texts.push(Vec::new());
        }
        self.texts[self.current] = core::mem::take(&mut self.text);
    }

    /// Prints children of the innermost object, up to one that has children itself, or to the end.
    #[inline]
    unsafe fn advance(&mut self) -> Result<()> {
        let top = self.frames.len() - 1;
        loop {
            // SAFETY: the object of a frame is alive, and its children are as long as it does not
            // change.
            unsafe {
                let (value, owned) = match self.frames[top].children {
                    Children::Fields(..) => match self.next_field(top)? {
                        Some(Read { value, owned }) => (value, owned),
                        None => break,
                    },
                    _ => match self.next_value(top) {
                        Some(value) => (value, false),
                        None => break,
                    },
                };
                match self.print_leaf(&value) {
                    Ok(false) => return self.enter_child(top, value, owned),
                    outcome => {
                        give_up(Read { value, owned });
                        outcome?;
                    }
                }
            }
        }
        self.leave();
        Ok(())
    }

    /// Writes the separator before the next element, key or value, and returns the value.
    #[inline]
    fn next_value(&mut self, top: usize) -> Option<TVMFFIAny> {
        let frame = &mut self.frames[top];
        let value = frame.children.next_value()?;
        let in_pairs = matches!(frame.info.index(), type_index::MAP | type_index::DICT);
        if in_pairs && frame.count % 2 == 1 {
            self.text.extend_from_slice(b": ");
        } else if frame.count > 0 {
            self.text.extend_from_slice(b", ");
        }
        frame.count += 1;
        Some(value)
    }

    /// Writes the name of the next field and returns its value.
    #[inline]
    unsafe fn next_field(&mut self, top: usize) -> Result<Option<Read>> {
        let frame = &mut self.frames[top];
        loop {
            let Some(field) = frame.children.next_field() else { return Ok(None) };
            // Of two fields with the same name, the ancestor's is printed.
            let is_second = frame.info.depth() > 1
                && (frame.info.fields())
                    .take_while(|other| !core::ptr::eq(other.as_raw(), field.as_raw()))
                    .any(|other| !other.has(NOT_PRINTED) && other.name_bytes() == field.name_bytes());
            if is_second {
                continue;
            }
            // SAFETY: promised by the caller.
            let value = unsafe { read(field, frame.object)? };
            let out = &mut self.text;
            out.extend_from_slice(if frame.count == 0 { b"(" } else { b", " });
            out.extend_from_slice(field.name_bytes());
            out.push(b'=');
            frame.count += 1;
            return Ok(Some(value));
        }
    }

    /// Begins to print a child of the innermost object.
    #[inline]
    unsafe fn enter_child(&mut self, top: usize, child: TVMFFIAny, owned: bool) -> Result<()> {
        // SAFETY: the caller passes a live child; it is retained unless an immutable object keeps
        // it alive.
        unsafe {
            let kept = match self.frames[top].children {
                Children::Fields(..) if owned => Any::from_raw(child),
                Children::Fields(..) => Any::from_raw(retain(&child)),
                _ => Any::NONE,
            };
            let references = 1 + u32::from(!kept.is_none() || self.frames[top].children.are_owned());
            self.enter(&child, references, kept)
        }
    }

    /// Begins to print an object that has children. If it has more than `references` references,
    /// others refer to it, too.
    #[inline]
    unsafe fn enter(&mut self, value: &TVMFFIAny, references: u32, kept: Any) -> Result<()> {
        // SAFETY: the caller passes a live object.
        unsafe {
            let object = value.payload.v_obj;
            let Some(info) = TypeInfo::find((*object).type_index) else {
                bail!(InternalError, "Cannot find type info for type_index={}", (*object).type_index);
            };
            if embedded::strong_count(object) > references {
                self.seen.insert(object, IN_PROGRESS);
            }
            let start = self.text.len();
            match info.index() {
                type_index::ARRAY => self.text.push(b'('),
                type_index::LIST => self.text.push(b'['),
                type_index::MAP | type_index::DICT => self.text.push(b'{'),
                _ => {
                    self.text.extend_from_slice(info.key_bytes());
                    self.push_address_of(object);
                }
            }
            let children = Children::of(object, info, NOT_PRINTED);
            self.frames.push(Frame { object, info, children, count: 0, start, _kept: kept });
        }
        Ok(())
    }

    #[inline]
    fn shows_addresses(&mut self) -> bool {
        *self.with_addresses.get_or_insert_with(|| std::env::var_os(WITH_ADDRESSES).is_some_and(|value| value == "1"))
    }

    /// Prints the key of a type whose values are not printed.
    #[inline]
    pub(super) fn push_key(&mut self, index: i32) -> Result<()> {
        let Some(info) = TypeInfo::find(index) else {
            bail!(InternalError, "Cannot find type info for type_index={index}");
        };
        self.text.extend_from_slice(info.key_bytes());
        Ok(())
    }

    #[inline]
    pub(super) fn push_address_of(&mut self, object: *mut TVMFFIObject) {
        if self.shows_addresses() {
            self.text.push(b'@');
            push_address(&mut self.text, object);
        }
    }

    /// Ends the innermost object.
    #[inline]
    fn leave(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        self.remembered = self.remembered.min(self.frames.len());
        let end: &[u8] = match frame.info.index() {
            type_index::ARRAY if frame.count == 1 => b",)",
            type_index::ARRAY => b")",
            type_index::LIST => b"]",
            type_index::MAP | type_index::DICT => b"}",
            _ if frame.count > 0 => b")",
            _ => b"",
        };
        self.text.extend_from_slice(end);
        if matches!(frame.info.index(), type_index::ARRAY | type_index::LIST | type_index::MAP | type_index::DICT) {
            self.push_address_of(frame.object);
        }
        if self.seen.get(frame.object).is_some() {
            // SAFETY: the object of a frame is alive.
            self.kept.push(unsafe { shared(frame.object) });
            self.remember(frame.object, frame.start);
        }
    }

    /// Records the finished text of an object.
    #[inline]
    fn remember(&mut self, object: *mut TVMFFIObject, start: usize) {
        self.seen.insert(object, self.done.len() as u64);
        self.done.push(Done { text: self.current, start, end: self.text.len() });
        self.kept_texts = self.kept_texts.max(self.current + 1);
    }

    /// Prints a value without parts; returns false for the others.
    #[inline]
    unsafe fn print_leaf(&mut self, value: &TVMFFIAny) -> Result<bool> {
        self.has_parts = false;
        // SAFETY: the caller passes a valid value, which is not an rvalue reference.
        dispatch(&unsafe { AnyView::from_raw(*value) }, "", self)?;
        Ok(!self.has_parts)
    }

    /// Prints an object that is already printed, is being printed, has a hook, or has a name of its
    /// own; returns false for the others.
    #[inline]
    pub(super) unsafe fn print_again(&mut self, value: &TVMFFIAny) -> Result<bool> {
        // SAFETY: the caller passes a live object.
        let (object, index) = unsafe { (value.payload.v_obj, value.type_index) };
        match self.seen.get(object) {
            Some(IN_PROGRESS) => {
                self.text.extend_from_slice(b"...");
                self.push_address_of(object);
                return Ok(true);
            }
            Some(done) => {
                let Done { text, start, end } = self.done[done as usize];
                let counted = if end - start > SHORT { end - start } else { 0 };
                if counted > MOST_COPIED - self.copied {
                    self.text.push(b'<');
                    self.push_key(index)?;
                    self.text.extend_from_slice(b", shown before>");
                    return Ok(true);
                }
                self.copied += counted;
                if text == self.current {
                    self.text.extend_from_within(start..end);
                } else {
                    self.text.extend_from_slice(&self.texts[text][start..end]);
                }
                return Ok(true);
            }
            None => {}
        }
        if index == type_index::OBJECT
            && let Some(name) = name_of_marker(object)
        {
            self.text.extend_from_slice(name);
            return Ok(true);
        }
        if let Some(hook) = REPR.get(index) {
            // SAFETY: as above.
            unsafe { self.print_with_hook(value, hook.as_raw())? };
            return Ok(true);
        }
        if let Some(info) = TypeInfo::find(index)
            && enums::is_enum(info)
        {
            // SAFETY: an instance of an enum.
            let name = unsafe { enums::name_of(object) };
            let out = &mut self.text;
            out.extend_from_slice(info.key_bytes());
            out.push(b'.');
            out.extend_from_slice(name);
            self.push_address_of(object);
            return Ok(true);
        }
        Ok(false)
    }

    /// Prints the text that the hook of the object's type returns.
    #[inline]
    unsafe fn print_with_hook(&mut self, value: &TVMFFIAny, hook: &TVMFFIAny) -> Result<()> {
        if hook.type_index != type_index::FUNCTION {
            let key = TypeInfo::find(hook.type_index).map(TypeInfo::key).unwrap_or_default();
            bail!(TypeError, "Cannot treat type `{key}` as type `(0: ffi.Object, 1: ffi.Function) -> str`");
        }
        // SAFETY: the caller passes a live object, which is retained: the hook may change the
        // objects that refer to it.
        let object = unsafe { value.payload.v_obj };
        // SAFETY: as above.
        self.kept.push(unsafe { shared(object) });
        for frame in &self.frames[self.remembered..] {
            self.seen.insert(frame.object, IN_PROGRESS);
        }
        self.remembered = self.frames.len();
        self.seen.insert(object, IN_PROGRESS);
        let callback = self.callback.get_or_insert_with(|| Reentry::new(&CALLBACK, print_for_hook)).function();
        let operation = core::ptr::from_mut(self).cast();
        // SAFETY: as above; the column keeps the hook. The printer is not touched while the hook
        // has it.
        let text = unsafe { call_hook(hook.payload.v_obj, [*value, TVMFFIAny::NONE], callback, operation)? };
        let start = self.text.len();
        let is_text = matches!(text.type_index(), type_index::SMALL_STR | type_index::STR);
        // SAFETY: the text is an owned value, which lives to the end of the block.
        let Some(text) = (unsafe { embedded::text_of(text.as_view().as_raw()) }).filter(|_| is_text) else {
            let key = TypeInfo::find(text.type_index()).map(TypeInfo::key).unwrap_or_default();
            return Err(error!(TypeError, "Cannot convert from type `{key}` to `str`"));
        };
        self.text.extend_from_slice(text);
        if matches!(value.type_index, type_index::ARRAY | type_index::LIST | type_index::MAP | type_index::DICT) {
            self.push_address_of(object);
        }
        self.remember(object, start);
        Ok(())
    }
}

/// Takes another reference to an object.
#[inline]
unsafe fn shared(object: *mut TVMFFIObject) -> Any {
    // SAFETY: the caller passes a live object.
    unsafe {
        embedded::inc_ref(object);
        Any::from_object(object)
    }
}

static CALLBACK: Signature = Signature::Typed(&[&ANY_VIEW], &STRING);

/// The implementation of the function that hooks get.
#[inline]
unsafe fn print_for_hook(printer: *mut c_void, args: &[AnyView<'_>]) -> Result<Any> {
    // SAFETY: the operation is the printer, which nothing else uses while its hook runs; the
    // argument is a valid view.
    unsafe {
        let printer = &mut *printer.cast::<Printer>();
        if args[0].is_rvalue_ref() {
            let value = Any::from_raw(to_owned(args[0].as_raw())?);
            return Ok(Any::from_raw(printer.print_apart(value.as_view().as_raw())?));
        }
        Ok(Any::from_raw(printer.print_apart(args[0].as_raw())?))
    }
}
