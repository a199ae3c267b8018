//! Instructions that compute a whole tile.

use kernpack::{Array, Object, Str};

use crate::ir::handle::handle;
use crate::ir::{Buffer, Operation, Stmt, Tensor};

handle! {
    /// A reference to a tensor intrinsic.
    TensorIntrin => TensorIntrinNode
}

/// What an instruction computes, as an operation of its own, and the statements that do it.
#[derive(Object)]
#[object(key = "kernpack.te.TensorIntrin", structural = "dag")]
#[repr(C)]
pub struct TensorIntrinNode {
    /// What it is called.
    pub name: Str,
    /// What it computes.
    pub op: Operation,
    /// The tensors that `op` reads.
    pub inputs: Array<Tensor>,
    /// A buffer for each input, then one for each output, as the statements name them.
    pub buffers: Array<Buffer>,
    /// The whole computation.
    pub body: Stmt,
    /// Sets the output to the identity; with `reduce_update` in place of `body` where a part of the reduction is outside.
    pub reduce_init: Option<Stmt>,
    /// Adds to the output.
    pub reduce_update: Option<Stmt>,
}
