//! Registered types as data: their fields, methods and attributes, in whatever language they are
//! defined, and visitors of fields.
//!
//! | to do | use | on |
//! |---|---|---|
//! | see each field of an object | [`visit_object`] with an [`AttrVisitor`] | objects of all languages |
//! | the same, without a look at registered data | [`VisitAttrs::visit_attrs`] | Rust types |
//! | change fields | [`VisitAttrs::visit_attrs_mut`] with an [`AttrVisitorMut`] | Rust values that are not shared |
//! | one field by name | [`Any::field`](kernpack_core::Any::field) | objects of all languages |
//! | save and load | [`to_json`], [`from_json`] | objects of all languages |
//! | print | [`repr`], [`Tree`] | values of all kinds |
//! | what a type has registered | [`TypeInfo`] | types of all languages |
//!
//! No operation recurses: a chain of a million objects is printed, saved, loaded and dropped on any
//! stack.
//!
//! A visitor that works on any object, here one that sums the memory of all tensors that a value
//! contains:
//!
//! ```
//! use kernpack::reflect::{AttrVisitor, visit_object};
//! use kernpack::{ObjRef, Object, ObjectRoot, Result, Tensor};
//!
//! #[derive(Default)]
//! struct Memory {
//!     bytes: usize,
//!     left: Vec<ObjRef<ObjectRoot>>,
//! }
//!
//! impl AttrVisitor for Memory {
//!     fn visit_tensor(&mut self, _name: &str, tensor: &Tensor) -> Result<()> {
//!         self.bytes += tensor.len() * tensor.dtype().size();
//!         Ok(())
//!     }
//!
//!     fn visit_object(&mut self, _name: &str, object: &ObjRef<ObjectRoot>) -> Result<()> {
//!         self.left.push(object.clone());
//!         Ok(())
//!     }
//! }
//!
//! fn memory_of<T: Object>(object: &ObjRef<T>) -> Result<usize> {
//!     let mut memory = Memory::default();
//!     visit_object(object, &mut memory)?;
//!     while let Some(object) = memory.left.pop() {
//!         visit_object(&object, &mut memory)?;
//!     }
//!     Ok(memory.bytes)
//! }
//!
//! #[derive(Object)]
//! #[object(key = "docs.reflect.Layer")]
//! #[repr(C)]
//! pub struct Layer {
//!     pub weights: Tensor,
//!     pub bias: Option<Tensor>,
//!     pub next: Option<ObjRef<Layer>>,
//! }
//!
//! let last = ObjRef::new(Layer { weights: Tensor::zeros::<f32>(&[10, 4])?, bias: None, next: None });
//! let bias = Some(Tensor::zeros::<f64>(&[4])?);
//! let first = ObjRef::new(Layer { weights: Tensor::zeros::<u8>(&[100])?, bias, next: Some(last) });
//! assert_eq!(memory_of(&first)?, 100 + 4 * 8 + 10 * 4 * 4);
//! # Ok::<(), kernpack::Error>(())
//! ```

mod json;
mod repr;
mod tree;

pub use json::{from_json, to_json};
pub use kernpack_core::reflect::*;
pub use repr::repr;
pub use tree::Tree;
