//! Memory with a shape.

use kernpack::{Array, DataType, Object, Str};

use super::dtype::POINTER;
use super::expr::{Expr, Var};
use super::handle::handle;

handle! {
    /// A reference to a buffer.
    Buffer => BufferNode
}

/// Memory that loads and stores name: a pointer, and how the elements lie there.
///
/// Two buffers with the same `data` are views of the same memory.
#[derive(Object)]
#[object(key = "kernpack.ir.Buffer")]
#[repr(C)]
pub struct BufferNode {
    /// The pointer to the first element; a variable of type [`POINTER`].
    #[field(structural = "def")]
    pub data: Var,
    /// What it is called.
    #[field(structural = "ignore")]
    pub name: Str,
    /// Type of an element, which may have lanes.
    pub dtype: DataType,
    /// Elements along each dimension.
    #[field(structural = "def")]
    pub shape: Array<Expr>,
    /// Elements between neighbours along each dimension; empty means compact, row by row.
    #[field(structural = "def")]
    pub strides: Array<Expr>,
    /// Elements between `data` and the first one.
    #[field(structural = "def")]
    pub elem_offset: Expr,
    /// `global`, `local`, `shared`, `warp`, with a tag after a dot.
    pub scope: Str,
    /// Bytes that the address of `data` is a multiple of.
    pub data_alignment: i64,
    /// What `elem_offset` is a multiple of; 0: there is no offset.
    pub offset_factor: i64,
}

/// Alignment of tensors and allocations in bytes, unless something else is said.
pub const DEFAULT_ALIGNMENT: i64 = 64;

impl Buffer {
    /// A compact buffer with a data pointer of its own.
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

    /// The fields of this buffer, to make a changed one of.
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

    /// The strides, computed where the buffer is compact.
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

    /// Index of an element, counted from `data`.
    pub fn flat_index(&self, indices: &[Expr]) -> Expr {
        let mut index = self.elem_offset.clone();
        for (position, stride) in indices.iter().zip(self.full_strides()) {
            index = index + position * &stride;
        }
        index
    }
}
