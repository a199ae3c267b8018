//! Instructions that compute a whole tile.

use kernpack::{Array, Object, Str};

use crate::ir::handle::handle;
use crate::ir::{Buffer, BufferNode, Expr, Operation, Stmt, Tensor, Var};
use crate::te::operation::input_tensors;

handle! {
    /// A reference to a tensor intrinsic.
    TensorIntrin => TensorIntrinNode
}

/// The operation that an instruction computes, and the statements that compute it.
#[derive(Object)]
#[object(key = "kernpack.te.TensorIntrin", structural = "dag")]
#[repr(C)]
pub struct TensorIntrinNode {
    /// The name of the instruction.
    pub name: Str,
    /// The operation that it computes.
    pub op: Operation,
    /// The tensors that `op` reads.
    pub inputs: Array<Tensor>,
    /// A buffer for each input, then one for each output, as used by the statements.
    pub buffers: Array<Buffer>,
    /// The statements of the whole computation.
    pub body: Stmt,
    /// The statements that set the output to the identity; used with `reduce_update` instead of
    /// `body` where a part of the reduction is outside.
    pub reduce_init: Option<Stmt>,
    /// The statements that add to the output.
    pub reduce_update: Option<Stmt>,
}

impl TensorIntrin {
    /// Creates an instruction that computes a tensor expression of a tile. The closure gets a
    /// buffer for each input that the expression reads, in the order of first use, and one for each
    /// result, and returns the statements: loads and stores by [`Buffer::read`] and
    /// [`Buffer::write`], calls with [`pointer_argument`](crate::te::pointer_argument).
    ///
    /// The buffers represent parts of tensors: their strides and offsets are variables, which get
    /// their values where the instruction is inserted.
    ///
    /// ```
    /// use kernpack_compiler::ir::{F32, ForKind, Stmt, Var};
    /// use kernpack_compiler::schedule::TensorIntrin;
    /// use kernpack_compiler::te::{compute, placeholder};
    ///
    /// let (a, b) = (placeholder([16], F32, "a"), placeholder([16], F32, "b"));
    /// let c = compute([16], |[i]| a.at([&i]) + b.at([&i])).named("c");
    /// let add = TensorIntrin::declare("add16", &c, |inputs, outputs| {
    ///     let i = Var::index("i");
    ///     let sum = inputs[0].read([&i]) + inputs[1].read([&i]);
    ///     Stmt::for_loop(i.clone(), 0, 16, ForKind::Vectorized, outputs[0].write([&i], sum))
    /// });
    /// assert_eq!(add.buffers.len(), 3);
    /// ```
    pub fn declare(name: &str, output: &Tensor, body: impl FnOnce(&[Buffer], &[Buffer]) -> Stmt) -> Self {
        let op = output.op.clone();
        let inputs = input_tensors(&op);
        let buffers: Vec<Buffer> = inputs.iter().cloned().chain(op.outputs()).map(|tensor| part_of(&tensor)).collect();
        let (sources, results) = buffers.split_at(inputs.len());
        let body = body(sources, results);
        Self::from_node(TensorIntrinNode {
            name: name.into(),
            op,
            inputs: inputs.into(),
            buffers: buffers.into(),
            body,
            reduce_init: None,
            reduce_update: None,
        })
    }

    /// Adds the statements to start and to continue a reduction: `init` sets the results to the
    /// identity, `update` combines them with the contribution of the inputs. They are needed where
    /// a part of the reduction is outside of the instruction.
    #[must_use]
    pub fn with_update(
        &self,
        init: impl FnOnce(&[Buffer]) -> Stmt,
        update: impl FnOnce(&[Buffer], &[Buffer]) -> Stmt,
    ) -> Self {
        let buffers = self.buffers.to_vec();
        let (sources, results) = buffers.split_at(self.inputs.len().min(buffers.len()));
        Self::from_node(TensorIntrinNode {
            name: self.name.clone(),
            op: self.op.clone(),
            inputs: self.inputs.clone(),
            buffers: self.buffers.clone(),
            body: self.body.clone(),
            reduce_init: Some(init(results)),
            reduce_update: Some(update(sources, results)),
        })
    }
}

/// A buffer for a part of a tensor: any strides, any offset.
fn part_of(tensor: &Tensor) -> Buffer {
    let name = tensor.name();
    let strides = (0..tensor.shape.len()).map(|dimension| Expr::from(Var::index(format!("{name}.stride{dimension}"))));
    Buffer::from_node(BufferNode {
        strides: strides.collect(),
        elem_offset: Var::index(format!("{name}.offset")).into(),
        offset_factor: 1,
        ..Buffer::new(&name, tensor.dtype, tensor.shape.iter(), "global").to_node()
    })
}
