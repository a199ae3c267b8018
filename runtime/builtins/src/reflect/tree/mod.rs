//! Values as text over several lines, for human readers.

mod children;
mod tensor;

use core::fmt;
use std::collections::HashMap;
use std::vec::IntoIter;

use self::children::{Child, Children, What};
use crate::value::{AnyView, Arg, ToArg};
use crate::{ObjRef, ObjectRoot, provider};

/// A value and the objects that it contains, one line for each field; made for inspecting objects
/// of any language.
///
/// An object that occurs again gets a number, and its fields are shown once. Long texts, containers
/// and tensors are truncated, with their total size. Very deep lines are not indented further, but
/// have their depth instead.
///
/// ```
/// use kernpack::reflect::Tree;
/// use kernpack::{ObjRef, Object, Tensor};
///
/// #[derive(Object)]
/// #[object(key = "docs.tree.Point")]
/// #[repr(C)]
/// pub struct Point {
///     pub x: f64,
///     pub y: f64,
/// }
///
/// #[derive(Object)]
/// #[object(key = "docs.tree.Line")]
/// #[repr(C)]
/// pub struct Line {
///     pub name: String,
///     pub start: ObjRef<Point>,
///     pub end: ObjRef<Point>,
///     pub weights: Tensor,
///     pub tags: Vec<String>,
/// }
///
/// let origin = ObjRef::new(Point { x: 0.0, y: 0.5 });
/// let line = ObjRef::new(Line {
///     name: "loop".into(),
///     start: origin.clone(),
///     end: origin,
///     weights: Tensor::from_vec(vec![1.0_f32; 1000], &[10, 100])?,
///     tags: (0..100).map(|tag| tag.to_string()).collect(),
/// });
///
/// assert_eq!(
///     Tree::of(&line).items(2).to_string(),
///     r#"docs.tree.Line
///   name: "loop"
///   start: docs.tree.Point #1
///     x: 0.0
///     y: 0.5
///   end: docs.tree.Point #1, see above
///   weights: float32[10, 100] on cpu:0, 1.0, 1.0, ... 998 more
///   tags: ffi.Array of 100
///     [0]: "0"
///     [1]: "1"
///     ... 98 more
/// "#
/// );
/// # Ok::<(), kernpack::Error>(())
/// ```
#[must_use = "it is printed by `Display`"]
pub struct Tree<'a> {
    value: Arg<'a>,
    limits: Limits,
}

/// The limits of the output.
#[derive(Clone, Copy)]
struct Limits {
    /// Levels of objects below the value.
    depth: usize,
    /// Elements of a container or a tensor.
    items: usize,
    /// Characters of a text, bytes of bytes.
    text: usize,
}

impl<'a> Tree<'a> {
    /// The tree of a value.
    #[inline]
    pub fn of<T: ToArg + ?Sized>(value: &'a T) -> Self {
        Self { value: value.to_arg(), limits: Limits { depth: usize::MAX, items: 16, text: 120 } }
    }

    /// Shows at most this many levels below the value itself; all of them by default.
    #[inline]
    pub const fn depth(mut self, levels: usize) -> Self {
        self.limits.depth = levels;
        self
    }

    /// Shows at most this many elements of a container or tensor; 16 by default.
    #[inline]
    pub const fn items(mut self, items: usize) -> Self {
        self.limits.items = items;
        self
    }

    /// Shows at most this many characters of a text; 120 by default.
    #[inline]
    pub const fn text(mut self, characters: usize) -> Self {
        self.limits.text = characters;
        self
    }
}

impl fmt::Display for Tree<'_> {
    /// Writes all lines, each with a line end. An error of a field's getter is a line, too.
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        provider::api();
        // SAFETY: the argument lives as long as `self`.
        let value = unsafe { AnyView::from_raw(self.value.as_raw()) };
        let mut writer = Writer::new(self.limits);
        writer.write(&value);
        writer.finish(f)
    }
}

impl fmt::Debug for Tree<'_> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The levels that are indented.
const INDENTED: usize = 24;

/// The lines so far, and the rest of the value.
struct Writer {
    limits: Limits,
    text: String,
    /// The places in the text of objects that occur again, or may occur again, in order.
    marks: Vec<Mark>,
    /// The number of the mark at which an object is shown, by address.
    shown: HashMap<usize, usize>,
    /// The objects in `shown`: no other object gets the address of one of them meanwhile.
    kept: Vec<ObjRef<ObjectRoot>>,
    /// The children of the objects on the path; the innermost last.
    frames: Vec<IntoIter<Child>>,
}

/// A place in the text for an object.
struct Mark {
    position: usize,
    /// The mark at which the object is shown; itself for that one.
    shown_at: usize,
    /// True if the object occurs again, for the mark at which it is shown.
    comes_again: bool,
}

impl Writer {
    #[inline]
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            text: String::new(),
            marks: Vec::new(),
            shown: HashMap::new(),
            kept: Vec::new(),
            frames: Vec::new(),
        }
    }

    #[inline]
    fn write(&mut self, value: &AnyView<'_>) {
        let mut root = Children::new(self.limits);
        root.add_value("", value);
        for child in root.into_vec() {
            self.line(child);
        }
        while let Some(children) = self.frames.last_mut() {
            match children.next() {
                Some(child) => self.line(child),
                None => drop(self.frames.pop()),
            }
        }
    }

    /// Writes the line of a child, and enters it when it is an object that has not been shown.
    #[inline]
    fn line(&mut self, child: Child) {
        let depth = self.frames.len();
        for _ in 0..depth.min(INDENTED) {
            self.text.push_str("  ");
        }
        if depth > INDENTED {
            self.text.push_str(&format!("({depth}) "));
        }
        self.text.push_str(&child.label);
        if !child.label.is_empty() {
            self.text.push_str(": ");
        }
        match child.what {
            What::Text(text) => self.text.push_str(&text),
            What::Object(object) => self.object(object),
        }
        self.text.push('\n');
    }

    #[inline]
    fn object(&mut self, object: ObjRef<ObjectRoot>) {
        self.text.push_str(&object.type_key());
        let address = object.as_ptr().addr();
        if let Some(&shown_at) = self.shown.get(&address) {
            self.marks[shown_at].comes_again = true;
            self.marks.push(Mark { position: self.text.len(), shown_at, comes_again: false });
            return;
        }
        if let Some(size) = children::size_of(&object) {
            self.text.push_str(&format!(" of {size}"));
        }
        let mark = self.marks.len();
        self.marks.push(Mark { position: self.text.len(), shown_at: mark, comes_again: false });
        if self.frames.len() >= self.limits.depth {
            if children::has_any(&object) {
                self.text.push_str(" ...");
            }
            return;
        }
        let mut children = Children::new(self.limits);
        children.add_parts_of(&object);
        self.shown.insert(address, mark);
        self.kept.push(object);
        self.frames.push(children.into_vec().into_iter());
    }

    /// Writes the whole text, with the numbers of objects that occur again.
    #[inline]
    fn finish(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = vec![0_usize; self.marks.len()];
        let mut last = 0;
        let mut written = 0;
        for (at, mark) in self.marks.iter().enumerate() {
            if mark.comes_again {
                last += 1;
                numbers[at] = last;
            }
            let number = numbers[mark.shown_at];
            if number == 0 {
                continue;
            }
            f.write_str(&self.text[written..mark.position])?;
            written = mark.position;
            write!(f, " #{number}{}", if mark.shown_at == at { "" } else { ", see above" })?;
        }
        f.write_str(&self.text[written..])
    }
}
