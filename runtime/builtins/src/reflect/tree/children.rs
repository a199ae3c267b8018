//! The content of an object, as lines: a visitor of its fields.

use core::ffi::c_void;

use super::Limits;
use super::tensor::tensor_text;
use crate::abi::{TVMFFIObject, type_index};
use crate::dataclass::enums::enum_name;
use crate::embedded::{list, map, shape};
use crate::engines::repr;
use crate::reflect::{AttrVisitor, TypeInfo, visit_object, visit_value};
use crate::value::{AnyView, DataType, Device};
use crate::{ObjRef, ObjectRoot, Result, Tensor};

/// A field or an element.
pub(super) struct Child {
    pub(super) label: String,
    pub(super) what: What,
}

/// The content of a line.
pub(super) enum What {
    /// A value without parts.
    Text(String),
    /// An object, whose parts follow.
    Object(ObjRef<ObjectRoot>),
}

/// Collects the fields of an object or the elements of a container.
pub(super) struct Children {
    limits: Limits,
    children: Vec<Child>,
}

impl Children {
    #[inline]
    pub(super) const fn new(limits: Limits) -> Self {
        Self { limits, children: Vec::new() }
    }

    #[inline]
    pub(super) fn into_vec(self) -> Vec<Child> {
        self.children
    }

    /// Adds one value.
    #[inline]
    pub(super) fn add_value(&mut self, label: &str, value: &AnyView<'_>) {
        let outcome = visit_value(value, label, self);
        self.add_error(outcome);
    }

    /// Adds the fields of an object, or the elements of a container.
    #[inline]
    pub(super) fn add_parts_of(&mut self, object: &ObjRef<ObjectRoot>) {
        let handle = object.as_ptr();
        let items = self.limits.items;
        // SAFETY: the reference keeps the container alive, and its elements are read at once.
        unsafe {
            match object.type_index() {
                type_index::ARRAY | type_index::LIST => {
                    for (at, element) in list::shared::elements(handle).iter().take(items).enumerate() {
                        self.add_value(&format!("[{at}]"), &AnyView::from_raw(*element));
                    }
                }
                type_index::MAP | type_index::DICT => {
                    for &[key, value] in map::shared::contents(handle).as_chunks().0.iter().take(items) {
                        let key = self.key(&AnyView::from_raw(key));
                        self.add_value(&key, &AnyView::from_raw(value));
                    }
                }
                _ => {
                    let outcome = visit_object(object, self);
                    self.add_error(outcome);
                }
            }
        }
        if let Some(more) = size_of(object).and_then(|size| size.checked_sub(items)).filter(|more| *more > 0) {
            self.children.push(Child { label: String::new(), what: What::Text(format!("... {more} more")) });
        }
    }

    /// Formats a map's key in one line.
    #[inline]
    fn key(&self, key: &AnyView<'_>) -> String {
        let mut children = Self::new(self.limits);
        children.add_value("", key);
        match children.children.pop().map(|child| child.what) {
            Some(What::Text(text)) => text,
            Some(What::Object(object)) => format!("<{}>", object.type_key()),
            None => String::new(),
        }
    }

    #[inline]
    fn add(&mut self, label: &str, text: String) -> Result<()> {
        self.children.push(Child { label: label.to_owned(), what: What::Text(text) });
        Ok(())
    }

    /// If a field fails, the error becomes the last line.
    #[inline]
    fn add_error(&mut self, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.children.push(Child { label: String::new(), what: What::Text(format!("! {error}")) });
        }
    }
}

impl AttrVisitor for Children {
    #[inline]
    fn visit_f64(&mut self, name: &str, value: f64) -> Result<()> {
        self.add(name, format!("{value:?}"))
    }

    #[inline]
    fn visit_i64(&mut self, name: &str, value: i64) -> Result<()> {
        self.add(name, value.to_string())
    }

    #[inline]
    fn visit_u64(&mut self, name: &str, value: u64) -> Result<()> {
        self.add(name, value.to_string())
    }

    #[inline]
    fn visit_bool(&mut self, name: &str, value: bool) -> Result<()> {
        self.add(name, value.to_string())
    }

    #[inline]
    fn visit_str(&mut self, name: &str, value: &str) -> Result<()> {
        let text = match value.char_indices().nth(self.limits.text) {
            None => format!("{value:?}"),
            Some((end, _)) => format!("{:?}... {} characters", &value[..end], value.chars().count()),
        };
        self.add(name, text)
    }

    #[inline]
    fn visit_bytes(&mut self, name: &str, value: &[u8]) -> Result<()> {
        let text = match value.get(..self.limits.text) {
            Some(start) if start.len() < value.len() => {
                format!("b\"{}\"... {} bytes", start.escape_ascii(), value.len())
            }
            _ => format!("b\"{}\"", value.escape_ascii()),
        };
        self.add(name, text)
    }

    #[inline]
    fn visit_opaque(&mut self, name: &str, value: *mut c_void) -> Result<()> {
        self.add(name, format!("{value:?}"))
    }

    #[inline]
    fn visit_data_type(&mut self, name: &str, value: DataType) -> Result<()> {
        self.add(name, value.to_string())
    }

    #[inline]
    fn visit_device(&mut self, name: &str, value: Device) -> Result<()> {
        self.add(name, value.to_string())
    }

    #[inline]
    fn visit_tensor(&mut self, name: &str, value: &Tensor) -> Result<()> {
        self.add(name, tensor_text(value, self.limits.items))
    }

    #[inline]
    fn visit_object(&mut self, name: &str, value: &ObjRef<ObjectRoot>) -> Result<()> {
        let object = value.as_ptr();
        // SAFETY: the reference keeps the object alive; by its type index it is a shape.
        let text = unsafe {
            if value.type_index() == type_index::SHAPE {
                Some(format!("Shape{:?}", shape::dimensions(object)))
            } else {
                name_in_enum(object)
            }
        };
        if let Some(text) = text {
            return self.add(name, text);
        }
        self.children.push(Child { label: name.to_owned(), what: What::Object(value.clone()) });
        Ok(())
    }

    #[inline]
    fn visit_none(&mut self, name: &str) -> Result<()> {
        self.add(name, "None".to_owned())
    }

    #[inline]
    fn visit_other(&mut self, name: &str, value: &AnyView<'_>) -> Result<()> {
        let text = repr::text_of(value)?;
        self.add(name, String::from_utf8_lossy(&text).into_owned())
    }
}

/// The name of an enum's instance, such as `demo.Color.RED`.
///
/// # Safety
/// The object is alive.
#[inline]
unsafe fn name_in_enum(object: *mut TVMFFIObject) -> Option<String> {
    // SAFETY: promised by the caller.
    unsafe {
        let info = TypeInfo::find((*object).type_index)?;
        let name = enum_name(object, info)?;
        Some(format!("{}.{}", info.key(), String::from_utf8_lossy(name)))
    }
}

/// The number of elements of a container; `None` for other objects.
#[inline]
pub(super) fn size_of(object: &ObjRef<ObjectRoot>) -> Option<usize> {
    // SAFETY: the reference keeps the container alive; the type index determines its type.
    unsafe {
        match object.type_index() {
            type_index::ARRAY | type_index::LIST => Some(list::shared::len(object.as_ptr())),
            type_index::MAP | type_index::DICT => Some(map::shared::len(object.as_ptr())),
            _ => None,
        }
    }
}

/// Returns true if an object has something to show below its own line.
#[inline]
pub(super) fn has_any(object: &ObjRef<ObjectRoot>) -> bool {
    match size_of(object) {
        Some(size) => size > 0,
        None => TypeInfo::find(object.type_index()).is_some_and(|info| info.fields().next().is_some()),
    }
}
