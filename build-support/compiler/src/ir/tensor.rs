//! The nodes of tensor expressions: ranges, iteration variables, operations, tensors.

use kernpack::{Any, Array, DataType, Map, Object, Str};

use super::buffer::Buffer;
use super::expr::{Expr, Var};
use super::handle::handle;
use super::stmt::Stmt;

handle! {
    /// A reference to a range.
    Range => RangeNode
}

/// The integers `min .. min + extent`.
#[derive(Object)]
#[object(key = "kernpack.ir.Range")]
#[repr(C)]
pub struct RangeNode {
    /// The first integer.
    pub min: Expr,
    /// The number of integers; never negative.
    pub extent: Expr,
}

impl Range {
    /// Creates the range `min .. min + extent`.
    pub fn new(min: impl Into<Expr>, extent: impl Into<Expr>) -> Self {
        Self::from_node(RangeNode { min: min.into(), extent: extent.into() })
    }

    /// Creates the range `0 .. extent`.
    pub fn until(extent: impl Into<Expr>) -> Self {
        Self::new(0, extent)
    }
}

handle! {
    /// A reference to an iteration variable.
    IterVar => IterVarNode
}

/// The kind of an iteration variable.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.IterKind", enum = "int")]
pub enum IterKind {
    /// A data axis: every value is a separate element.
    DataPar = 0,
    /// A thread of a device.
    ThreadIndex = 1,
    /// An axis of a commutative reduction.
    CommReduce = 2,
    /// An ordered axis: the time of a scan.
    Ordered = 3,
    /// An axis inside an extern operation, which is opaque to the compiler.
    Opaque = 4,
}

/// A loop variable with its range.
#[derive(Object)]
#[object(key = "kernpack.ir.IterVar")]
#[repr(C)]
pub struct IterVarNode {
    /// The range; `None` for a thread whose extent is not known, and for axes that a schedule
    /// created.
    pub dom: Option<Range>,
    /// The variable.
    #[field(structural = "def")]
    pub var: Var,
    /// The kind.
    pub kind: IterKind,
    /// `threadIdx.x` and so on for a thread; otherwise empty.
    pub thread_tag: Str,
    /// The place where the user created it: `file:line:column`, or empty.
    #[field(structural = "ignore")]
    pub span: Str,
}

impl IterVar {
    /// Creates an iteration variable without a place in the user's program.
    pub fn new(dom: Option<Range>, var: Var, kind: IterKind) -> Self {
        Self::from_node(IterVarNode { dom, var, kind, thread_tag: "".into(), span: "".into() })
    }
}

impl From<&IterVar> for Expr {
    fn from(axis: &IterVar) -> Self {
        axis.var.expr().clone()
    }
}

handle! {
    /// A reference to a tensor.
    Tensor => TensorNode
}

/// One result of an operation.
#[derive(Object)]
#[object(key = "kernpack.te.Tensor", structural = "dag")]
#[repr(C)]
pub struct TensorNode {
    /// The extents of the dimensions, in elements.
    pub shape: Array<Expr>,
    /// The type of an element.
    pub dtype: DataType,
    /// The operation that computes it.
    pub op: Operation,
    /// The index of the result of the operation.
    pub value_index: i64,
}

handle! {
    /// A reference to an operation.
    Operation => OperationNode
}

/// An operation that computes tensors. The four kinds share the name, the tag, the attributes and
/// the place in the user's program.
#[derive(Object)]
#[object(key = "kernpack.te.Operation")]
#[repr(C, u32)]
pub enum OperationNode {
    /// An input.
    #[object(key = "kernpack.te.Placeholder", structural = "singleton")]
    Placeholder {
        /// The name.
        name: Str,
        /// The place where the user created it.
        span: Str,
        /// The extents of the dimensions, in elements.
        shape: Array<Expr>,
        /// The type of an element.
        dtype: DataType,
    },
    /// A computation of an expression for each element.
    #[object(key = "kernpack.te.Compute", structural = "dag")]
    Compute {
        /// The name.
        name: Str,
        /// The place where the user created it.
        span: Str,
        /// A class of operations for which a rule may search.
        tag: Str,
        /// Arbitrary attributes for rules.
        attrs: Map<Str, Any>,
        /// The dimensions of the results, from 0.
        axes: Array<IterVar>,
        /// The reduction axes, if the body is a reduction.
        reduce_axes: Array<IterVar>,
        /// The body of each result; either all are `Reduce` and differ only in the index, or none
        /// is.
        bodies: Array<Expr>,
    },
    /// A recurrence along the first dimension.
    #[object(key = "kernpack.te.Scan", structural = "dag")]
    Scan {
        /// The name.
        name: Str,
        /// The place where the user created it.
        span: Str,
        /// A class of operations for which a rule may search.
        tag: Str,
        /// Arbitrary attributes for rules.
        attrs: Map<Str, Any>,
        /// The time axis: from the first step that `update` computes to the end.
        scan_axis: IterVar,
        /// The first steps of the state, one tensor for each state.
        init: Array<Tensor>,
        /// The state at a time, computed from earlier times.
        update: Array<Tensor>,
        /// The placeholders that `update` reads for the state.
        state: Array<Tensor>,
        /// Other tensors that `update` reads.
        inputs: Array<Tensor>,
        /// An axis for each dimension except the first, state by state.
        spatial_axes: Array<IterVar>,
    },
    /// Statements from the user: a call of a C function, or code that is not an expression for each
    /// element.
    #[object(key = "kernpack.te.Extern", structural = "dag")]
    Extern {
        /// The name.
        name: Str,
        /// The place where the user created it.
        span: Str,
        /// A class of operations for which a rule may search.
        tag: Str,
        /// Arbitrary attributes for rules.
        attrs: Map<Str, Any>,
        /// The tensors that it reads, compact in memory.
        inputs: Array<Tensor>,
        /// The buffers of the inputs in `body`.
        input_buffers: Array<Buffer>,
        /// The buffers of the results in `body`.
        output_buffers: Array<Buffer>,
        /// The statements.
        body: Stmt,
    },
}

impl OperationNode {
    /// The name of the operation.
    pub fn name(&self) -> &str {
        match self {
            Self::Placeholder { name, .. }
            | Self::Compute { name, .. }
            | Self::Scan { name, .. }
            | Self::Extern { name, .. } => name.as_str(),
        }
    }

    /// The place where the user created it: `file:line:column`, or empty.
    pub fn span(&self) -> &str {
        match self {
            Self::Placeholder { span, .. }
            | Self::Compute { span, .. }
            | Self::Scan { span, .. }
            | Self::Extern { span, .. } => span.as_str(),
        }
    }

    /// The class of operations for which a rule may search.
    pub fn tag(&self) -> &str {
        match self {
            Self::Placeholder { .. } => "",
            Self::Compute { tag, .. } | Self::Scan { tag, .. } | Self::Extern { tag, .. } => tag.as_str(),
        }
    }

    /// The number of tensors that it computes.
    pub fn num_outputs(&self) -> usize {
        match self {
            Self::Placeholder { .. } => 1,
            Self::Compute { bodies, .. } => bodies.len(),
            Self::Scan { update, .. } => update.len(),
            Self::Extern { output_buffers, .. } => output_buffers.len(),
        }
    }
}

impl Operation {
    /// Returns one of its results, as a tensor; each call creates a new node for the same tensor,
    /// see [`Tensor::is`].
    pub fn output(&self, index: usize) -> Tensor {
        let (shape, dtype) = match &**self {
            OperationNode::Placeholder { shape, dtype, .. } => (shape.clone(), *dtype),
            OperationNode::Compute { axes, bodies, .. } => {
                let shape =
                    axes.iter().map(|axis| axis.dom.as_ref().map_or_else(|| Expr::int(1), |dom| dom.extent.clone()));
                (shape.collect(), bodies.get(index).map_or(super::dtype::F32, |body| body.dtype()))
            }
            OperationNode::Scan { state, .. } => {
                let state = state.get(index).expect("one state for each output");
                (state.shape.clone(), state.dtype)
            }
            OperationNode::Extern { output_buffers, .. } => {
                let buffer = output_buffers.get(index).expect("one buffer for each output");
                (buffer.shape.clone(), buffer.dtype)
            }
        };
        Tensor::from_node(TensorNode { shape, dtype, op: self.clone(), value_index: index as i64 })
    }

    /// Returns all of its results.
    pub fn outputs(&self) -> Vec<Tensor> {
        (0..self.num_outputs()).map(|index| self.output(index)).collect()
    }
}

impl Tensor {
    /// Returns true if both are the same result of the same operation, which is the equality of
    /// tensors.
    pub fn is(&self, other: &Self) -> bool {
        self.op == other.op && self.value_index == other.value_index
    }

    /// The identity as a key: the operation's address and the index of the result.
    pub fn key(&self) -> (usize, i64) {
        (self.op.address(), self.value_index)
    }

    /// The name of the operation, with `.v1` and so on for further results.
    pub fn name(&self) -> String {
        match (self.op.num_outputs(), self.value_index) {
            (1, _) => self.op.name().to_owned(),
            (_, index) => format!("{}.v{index}", self.op.name()),
        }
    }
}
