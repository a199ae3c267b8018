//! Visits objects of any language through the fields that their type registered.

use super::dispatch::{visit_integer, visit_value};
use super::{AttrVisitor, Field, TypeInfo};
use crate::abi::{TVMFFIObject, type_index};
use crate::{ObjRef, Object, Result, error};

/// The end of the metadata of fields that are unsigned integers of 32 bits or more; see
/// `Schema::IS_UNSIGNED`.
const UNSIGNED: &[u8] = b"\"kernpack.unsigned\":true}";

/// Passes each registered field of an object to a visitor, those of the type's ancestors first.
///
/// The object may come from any language. For a Rust type, the calls are the same as those of its
/// [`visit_attrs`](super::VisitAttrs::visit_attrs). A field that refers to another object is one
/// call of [`AttrVisitor::visit_object`]. The visitor decides whether to visit that object too;
/// chains of objects may be long, so it should keep a list of the remaining objects rather than
/// recurse. Containers and functions do not have fields.
///
/// # Errors
/// Returns the first error of a field's getter or of the visitor.
///
/// ```
/// use kernpack::reflect::{AttrVisitor, visit_object};
/// use kernpack::{AnyView, ObjRef, Object, ObjectRoot, Result};
///
/// #[derive(Object)]
/// #[object(key = "docs.visitor.Item")]
/// #[repr(C)]
/// pub struct Item {
///     pub name: String,
///     pub price: f64,
///     pub next: Option<ObjRef<Item>>,
/// }
///
/// /// All objects that can be reached and the text of their fields.
/// #[derive(Default)]
/// struct Texts {
///     left: Vec<ObjRef<ObjectRoot>>,
///     texts: Vec<String>,
/// }
///
/// impl AttrVisitor for Texts {
///     fn visit_str(&mut self, name: &str, value: &str) -> Result<()> {
///         self.texts.push(format!("{name}={value}"));
///         Ok(())
///     }
///
///     fn visit_object(&mut self, _name: &str, value: &ObjRef<ObjectRoot>) -> Result<()> {
///         self.left.push(value.clone());
///         Ok(())
///     }
/// }
///
/// let pen = ObjRef::new(Item { name: "pen".into(), price: 2.5, next: None });
/// let ink = ObjRef::new(Item { name: "ink".into(), price: 7.0, next: Some(pen) });
///
/// let mut texts = Texts { left: vec![ink.upcast()], ..Texts::default() };
/// while let Some(object) = texts.left.pop() {
///     visit_object(&object, &mut texts)?;
/// }
/// assert_eq!(texts.texts, ["name=ink", "name=pen"]);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[inline]
pub fn visit_object<T: Object>(object: &ObjRef<T>, visitor: &mut dyn AttrVisitor) -> Result<()> {
    // SAFETY: the reference keeps the object alive.
    unsafe { visit_fields(object.as_ptr(), visitor) }
}

/// # Safety
/// The object is alive and stays alive during the call.
#[inline]
unsafe fn visit_fields(object: *mut TVMFFIObject, visitor: &mut dyn AttrVisitor) -> Result<()> {
    // SAFETY: promised by the caller; the fields are those of the object's own type.
    unsafe {
        let index = (*object).type_index;
        let Some(info) = TypeInfo::find(index) else {
            return Err(error!(InternalError, "an object has type index {index}, which is not registered"));
        };
        info.fields().try_for_each(|field| visit_field_of(object, field, visitor))
    }
}

/// Passes one field of an object to a visitor.
///
/// # Safety
/// The object is alive, and its type has this field.
#[inline]
pub(super) unsafe fn visit_field_of(
    object: *mut TVMFFIObject,
    field: Field,
    visitor: &mut dyn AttrVisitor,
) -> Result<()> {
    // SAFETY: promised by the caller.
    let value = unsafe { field.get(object) }?;
    let name = field.name();
    let raw = field.as_raw();
    let is_unsigned = matches!(raw.size, 4 | 8) && field.metadata_bytes().ends_with(UNSIGNED);
    if value.type_index() == type_index::INT && (raw.field_static_type_index == type_index::INT || is_unsigned) {
        // SAFETY: the type index says that the payload is an integer.
        let value = unsafe { value.as_view().as_raw().payload.v_int64 };
        return visit_integer(value, raw.size, is_unsigned, &name, visitor);
    }
    visit_value(value.as_view(), &name, visitor)
}
