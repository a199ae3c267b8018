//! What tensor expressions are made of: ranges, iteration variables, operations, tensors.

use kernpack::{Any, Array, DataType, Map, Object, Str};

use super::buffer::Buffer;
use super::expr::{Expr, Var};
use super::handle::handle;
use super::stmt::Stmt;

handle! {
    /// A reference to a range.
    Range => RangeNode
}

/// The integers from `min`, `extent` of them.
#[derive(Object)]
#[object(key = "kernpack.ir.Range")]
#[repr(C)]
pub struct RangeNode {
    /// The first one.
    pub min: Expr,
    /// How many; never negative.
    pub extent: Expr,
}

impl Range {
    /// From `min`, `extent` of them.
    pub fn new(min: impl Into<Expr>, extent: impl Into<Expr>) -> Self {
        Self::from_node(RangeNode { min: min.into(), extent: extent.into() })
    }

    /// From 0.
    pub fn until(extent: impl Into<Expr>) -> Self {
        Self::new(0, extent)
    }
}

handle! {
    /// A reference to an iteration variable.
    IterVar => IterVarNode
}

/// What an iteration variable is for.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.IterKind", enum = "int")]
pub enum IterKind {
    /// Every value gives an element of its own.
    DataPar = 0,
    /// A thread of a device.
    ThreadIndex = 1,
    /// Over what a commutative reduction goes.
    CommReduce = 2,
    /// Values in order: the time of a scan.
    Ordered = 3,
    /// Inside an operation that the compiler does not look into.
    Opaque = 4,
}

/// A variable of a loop, with its range.
#[derive(Object)]
#[object(key = "kernpack.ir.IterVar")]
#[repr(C)]
pub struct IterVarNode {
    /// Its values; open for a thread whose extent is not known, and for axes that a schedule made.
    pub dom: Option<Range>,
    /// The variable.
    #[field(structural = "def")]
    pub var: Var,
    /// What it is for.
    pub kind: IterKind,
    /// `threadIdx.x` and so on, for a thread; else empty.
    pub thread_tag: Str,
    /// Where the user made it: `file:line:column`, or empty.
    #[field(structural = "ignore")]
    pub span: Str,
}

impl IterVar {
    /// An iteration variable without a place in the user's program.
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
    /// Elements along each dimension.
    pub shape: Array<Expr>,
    /// Type of an element.
    pub dtype: DataType,
    /// What computes it.
    pub op: Operation,
    /// Which result of the operation.
    pub value_index: i64,
}

handle! {
    /// A reference to an operation.
    Operation => OperationNode
}

/// What computes tensors. The four kinds share name, tag, attributes and the place in the user's program.
#[derive(Object)]
#[object(key = "kernpack.te.Operation")]
#[repr(C, u32)]
pub enum OperationNode {
    /// An input.
    #[object(key = "kernpack.te.Placeholder", structural = "singleton")]
    Placeholder {
        /// What it is called.
        name: Str,
        /// Where the user made it.
        span: Str,
        /// Elements along each dimension.
        shape: Array<Expr>,
        /// Type of an element.
        dtype: DataType,
    },
    /// An expression for each element.
    #[object(key = "kernpack.te.Compute", structural = "dag")]
    Compute {
        /// What it is called.
        name: Str,
        /// Where the user made it.
        span: Str,
        /// A class of operations that a rule may look for.
        tag: Str,
        /// Anything that rules read.
        attrs: Map<Str, Any>,
        /// The dimensions of the results, from 0.
        axes: Array<IterVar>,
        /// The axes of the reduction, if the body is one.
        reduce_axes: Array<IterVar>,
        /// One for each result; all are `Reduce`, equal but for the index, or none is.
        bodies: Array<Expr>,
    },
    /// A recurrence along the first dimension.
    #[object(key = "kernpack.te.Scan", structural = "dag")]
    Scan {
        /// What it is called.
        name: Str,
        /// Where the user made it.
        span: Str,
        /// A class of operations that a rule may look for.
        tag: Str,
        /// Anything that rules read.
        attrs: Map<Str, Any>,
        /// Time: from the first step that `update` computes to the end.
        scan_axis: IterVar,
        /// The state's first steps, one tensor for each state.
        init: Array<Tensor>,
        /// The state at a time from earlier times.
        update: Array<Tensor>,
        /// What `update` reads in place of the state.
        state: Array<Tensor>,
        /// Other tensors that `update` reads.
        inputs: Array<Tensor>,
        /// An axis for each dimension but the first, state by state.
        spatial_axes: Array<IterVar>,
    },
    /// Statements of the user's: a call of a C function, code that is not an expression for each element.
    #[object(key = "kernpack.te.Extern", structural = "dag")]
    Extern {
        /// What it is called.
        name: Str,
        /// Where the user made it.
        span: Str,
        /// A class of operations that a rule may look for.
        tag: Str,
        /// Anything that rules read.
        attrs: Map<Str, Any>,
        /// What it reads, compact in memory.
        inputs: Array<Tensor>,
        /// The inputs in `body`.
        input_buffers: Array<Buffer>,
        /// The results in `body`.
        output_buffers: Array<Buffer>,
        /// What is done.
        body: Stmt,
    },
}

impl OperationNode {
    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            Self::Placeholder { name, .. }
            | Self::Compute { name, .. }
            | Self::Scan { name, .. }
            | Self::Extern { name, .. } => name.as_str(),
        }
    }

    /// Where the user made it: `file:line:column`, or empty.
    pub fn span(&self) -> &str {
        match self {
            Self::Placeholder { span, .. }
            | Self::Compute { span, .. }
            | Self::Scan { span, .. }
            | Self::Extern { span, .. } => span.as_str(),
        }
    }

    /// A class of operations that a rule may look for.
    pub fn tag(&self) -> &str {
        match self {
            Self::Placeholder { .. } => "",
            Self::Compute { tag, .. } | Self::Scan { tag, .. } | Self::Extern { tag, .. } => tag.as_str(),
        }
    }

    /// How many tensors it computes.
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
    /// One of its results, as a tensor; each call makes a new node for the same tensor, see [`Tensor::is`].
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

    /// All of its results.
    pub fn outputs(&self) -> Vec<Tensor> {
        (0..self.num_outputs()).map(|index| self.output(index)).collect()
    }
}

impl Tensor {
    /// Whether both are the same result of the same operation: what makes tensors equal.
    pub fn is(&self, other: &Self) -> bool {
        self.op == other.op && self.value_index == other.value_index
    }

    /// Identity as a key: the operation's address and the index of the result.
    pub fn key(&self) -> (usize, i64) {
        (self.op.address(), self.value_index)
    }

    /// What it is called: the operation's name, with `.v1` and so on for further results.
    pub fn name(&self) -> String {
        match (self.op.num_outputs(), self.value_index) {
            (1, _) => self.op.name().to_owned(),
            (_, index) => format!("{}.v{index}", self.op.name()),
        }
    }
}
