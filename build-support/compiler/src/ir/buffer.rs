//! Buffers: memory with a shape.

use kernpack::{Array, DataType, Object, Str};

use super::dtype::POINTER;
use super::expr::{Expr, Var};
use super::handle::handle;

handle! {
    /// A reference to a buffer.
    Buffer => BufferNode
}

/// Memory that loads and stores refer to: a pointer, and the layout of the elements.
///
/// Two buffers with the same `data` are views of the same memory.
#[derive(Object)]
#[object(key = "kernpack.ir.Buffer")]
#[repr(C)]
pub struct BufferNode {
    /// The pointer to the first element; a variable of type [`POINTER`].
    #[field(structural = "def")]
    pub data: Var,
    /// The name.
    #[field(structural = "ignore")]
    pub name: Str,
    /// The type of an element, which may have lanes.
    pub dtype: DataType,
    /// The extents of the dimensions, in elements.
    #[field(structural = "def")]
    pub shape: Array<Expr>,
    /// The strides of the dimensions, in elements; if empty, the buffer is compact and row-major.
    #[field(structural = "def")]
    pub strides: Array<Expr>,
    /// The offset of the first element from `data`, in elements.
    #[field(structural = "def")]
    pub elem_offset: Expr,
    /// The memory scope: `global`, `local`, `shared`, `warp`, with an optional tag after a dot.
    pub scope: Str,
    /// The alignment of the address of `data`, in bytes.
    pub data_alignment: i64,
    /// A number of which `elem_offset` is a multiple; 0 if there is no offset.
    pub offset_factor: i64,
}

/// The default alignment of tensors and allocations, in bytes.
pub const DEFAULT_ALIGNMENT: i64 = 64;

impl Buffer {
    /// Creates a compact buffer with its own data pointer.
    pub fn new(name: &str, dtype: DataType, shape: impl IntoIterator<Item = Expr>, scope: &str) -> Self {
        Self::from_node(BufferNode {
            data: Var::new(name, POINTER),
            name: name.into(),
            dtype,
            shape: shape.into_iter().collect(),
            strides: Array::default(),
            elem_offset: Expr::int(0),
            scope: scope.into(),
            data_alignment: DEFAULT_ALIGNMENT,
            offset_factor: 0,
        })
    }

    /// Returns a copy of the fields, for creating a changed buffer.
    pub fn to_node(&self) -> BufferNode {
        BufferNode {
            data: self.data.clone(),
            name: self.name.clone(),
            dtype: self.dtype,
            shape: self.shape.clone(),
            strides: self.strides.clone(),
            elem_offset: self.elem_offset.clone(),
            scope: self.scope.clone(),
            data_alignment: self.data_alignment,
            offset_factor: self.offset_factor,
        }
    }

    /// The strides; they are computed if the buffer is compact.
    pub fn full_strides(&self) -> Vec<Expr> {
        if !self.strides.is_empty() {
            return self.strides.to_vec();
        }
        let shape = self.shape.to_vec();
        let mut strides = vec![Expr::int(1); shape.len()];
        for axis in (0..shape.len().saturating_sub(1)).rev() {
            strides[axis] = &strides[axis + 1] * &shape[axis + 1];
        }
        strides
    }

    /// The index of an element, relative to `data`.
    pub fn flat_index(&self, indices: &[Expr]) -> Expr {
        let mut index = self.elem_offset.clone();
        for (position, stride) in indices.iter().zip(self.full_strides()) {
            index = index + position * &stride;
        }
        index
    }
}
