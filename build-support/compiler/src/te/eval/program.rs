//! Expressions compiled to numbered nodes, which are evaluated for one element after another.

use std::collections::HashMap;
use std::rc::Rc;

use kernpack::{DataType, Str};

use super::math;
use super::values::{Value, binary, cast, compare};
use crate::error::{Result, fail};
use crate::ir::{BinaryOp, CallKind, CompareOp, DataTypeExt, Expr, ExprNode, LogicOp, Tensor, Var, with_stack};

/// The number of a node.
pub(super) type NodeId = usize;

/// One operation on the values of other nodes.
enum Node {
    Constant(Value),
    Slot(usize),
    Cast { from: DataType, to: DataType, value: NodeId },
    Binary { op: BinaryOp, dtype: DataType, a: NodeId, b: NodeId },
    Compare { op: CompareOp, dtype: DataType, a: NodeId, b: NodeId },
    Logic { op: LogicOp, a: NodeId, b: NodeId },
    Not { value: NodeId },
    Choice { condition: NodeId, a: NodeId, b: NodeId },
    Let { slot: usize, value: NodeId, body: NodeId },
    Read { source: usize, indices: Vec<NodeId> },
    Call { name: Str, from: DataType, dtype: DataType, args: Vec<NodeId> },
}

impl Node {
    /// The operands of the node.
    fn parts(&self) -> impl Iterator<Item = NodeId> {
        let (few, many): (&[NodeId], &[NodeId]) = match self {
            Self::Constant(_) | Self::Slot(_) => (&[], &[]),
            Self::Cast { value, .. } | Self::Not { value } => (core::slice::from_ref(value), &[]),
            Self::Binary { a, b, .. } | Self::Compare { a, b, .. } | Self::Logic { a, b, .. } => {
                (core::slice::from_ref(a), core::slice::from_ref(b))
            }
            Self::Choice { a, b, .. } => (core::slice::from_ref(a), core::slice::from_ref(b)),
            Self::Let { value, body, .. } => (core::slice::from_ref(value), core::slice::from_ref(body)),
            Self::Read { indices: many, .. } | Self::Call { args: many, .. } => (many, &[]),
        };
        let condition = if let Self::Choice { condition, .. } = self { Some(*condition) } else { None };
        few.iter().chain(many).copied().chain(condition)
    }
}

/// Properties of a node for the evaluation.
#[derive(Clone, Copy)]
struct Info {
    /// The number of nodes on the longest path to a leaf.
    depth: u32,
    /// True if several nodes use it: its value is then memoized.
    is_shared: bool,
}

/// The number of levels between two checks of the stack.
const LEVELS: u32 = 32;

/// The nodes of several expressions; shared parts are one node.
pub(super) struct Program {
    nodes: Vec<Node>,
    info: Vec<Info>,
    by_expr: HashMap<Expr, NodeId>,
    slots: HashMap<Var, usize>,
    /// The tensors that are read, in the order of their numbers.
    pub(super) reads: Vec<Tensor>,
    source_of: HashMap<(usize, i64), usize>,
    scalars: Rc<HashMap<Var, Value>>,
}

/// Variables, and memoized values of nodes.
pub(super) struct Frame {
    slots: Vec<Value>,
    /// For each node, its value and the state of the variables for which it was computed.
    memo: Vec<(u64, Value)>,
    state: u64,
}

impl Frame {
    pub(super) fn set(&mut self, slot: usize, value: Value) {
        self.slots[slot] = value;
        self.state += 1;
    }
}

/// The tensors from which a program reads.
pub(super) trait Sources {
    /// Reads an element of a tensor in `Program::reads`.
    fn read(&self, source: usize, indices: &[i64]) -> Result<Value>;
}

impl Program {
    pub(super) fn new(scalars: Rc<HashMap<Var, Value>>) -> Self {
        Self {
            nodes: Vec::new(),
            info: Vec::new(),
            by_expr: HashMap::new(),
            slots: HashMap::new(),
            reads: Vec::new(),
            source_of: HashMap::new(),
            scalars,
        }
    }

    /// The slot of a variable in frames.
    pub(super) fn slot(&mut self, var: &Var) -> usize {
        let next = self.slots.len();
        *self.slots.entry(var.clone()).or_insert(next)
    }

    /// Creates a frame. Must be called after all expressions are added.
    pub(super) fn frame(&self) -> Frame {
        Frame {
            slots: vec![Value::Int(0); self.slots.len()],
            memo: vec![(0, Value::Int(0)); self.nodes.len()],
            state: 1,
        }
    }

    /// Adds an expression of known variables.
    pub(super) fn add(&mut self, expr: &Expr) -> Result<NodeId> {
        if let Some(&known) = self.by_expr.get(expr) {
            self.info[known].is_shared = true;
            return Ok(known);
        }
        let node = with_stack(|| self.node(expr))?;
        let depth = node.parts().map(|part| self.info[part].depth).max().map_or(0, |depth| depth + 1);
        self.nodes.push(node);
        self.info.push(Info { depth, is_shared: false });
        self.by_expr.insert(expr.clone(), self.nodes.len() - 1);
        Ok(self.nodes.len() - 1)
    }

    fn add_all<'a>(&mut self, exprs: impl IntoIterator<Item = Expr> + 'a) -> Result<Vec<NodeId>> {
        exprs.into_iter().map(|expr| self.add(&expr)).collect()
    }

    fn node(&mut self, expr: &Expr) -> Result<Node> {
        if expr.dtype().lanes() != 1 {
            fail!(Run, "an expression of type {}", expr.dtype().short_name());
        }
        Ok(match &**expr {
            ExprNode::Int { value, .. } => Node::Constant(Value::Int(*value)),
            ExprNode::Float { value, .. } => Node::Constant(Value::Float(*value)),
            ExprNode::Var { name, .. } => {
                let var = Var::of(expr).unwrap_or_else(|| unreachable!("it is a variable"));
                if let Some(&slot) = self.slots.get(&var) {
                    Node::Slot(slot)
                } else if let Some(&value) = self.scalars.get(&var) {
                    Node::Constant(value)
                } else {
                    fail!(Run, "`{name}` has no value; give it one with `.scalar(&{name}, value)`");
                }
            }
            ExprNode::Cast { dtype, value } => Node::Cast { from: value.dtype(), to: *dtype, value: self.add(value)? },
            ExprNode::Binary { op, a, b, dtype } => {
                Node::Binary { op: *op, dtype: *dtype, a: self.add(a)?, b: self.add(b)? }
            }
            ExprNode::Compare { op, a, b } => {
                Node::Compare { op: *op, dtype: a.dtype(), a: self.add(a)?, b: self.add(b)? }
            }
            ExprNode::Logic { op, a, b } => Node::Logic { op: *op, a: self.add(a)?, b: self.add(b)? },
            ExprNode::Not { value } => Node::Not { value: self.add(value)? },
            // A tensor may be read outside its shape on the side that is not selected, also by a
            // select: lowering then makes it lazy.
            ExprNode::Select { condition, true_value: a, false_value: b }
            | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
                Node::Choice { condition: self.add(condition)?, a: self.add(a)?, b: self.add(b)? }
            }
            ExprNode::Let { var, value, body } => {
                let value = self.add(value)?;
                Node::Let { slot: self.slot(var), value, body: self.add(body)? }
            }
            ExprNode::TensorRead { tensor, indices } => {
                let next = self.reads.len();
                let source = *self.source_of.entry(tensor.key()).or_insert(next);
                if source == next {
                    self.reads.push(tensor.clone());
                }
                Node::Read { source, indices: self.add_all(indices.iter())? }
            }
            ExprNode::Call { kind: CallKind::Builtin, name, args, dtype } => {
                let from = args.get(0).map_or(*dtype, |first| first.dtype());
                Node::Call { name: name.clone(), from, dtype: *dtype, args: self.add_all(args.iter())? }
            }
            ExprNode::Call { name, .. } => fail!(Run, "a call of `{name}`, which is outside the compiler"),
            ExprNode::Reduce { .. } => fail!(Run, "a reduction inside an expression"),
            ExprNode::Text { .. }
            | ExprNode::Ramp { .. }
            | ExprNode::Broadcast { .. }
            | ExprNode::Shuffle { .. }
            | ExprNode::Load { .. } => fail!(Run, "text, a vector or a load inside a tensor expression"),
        })
    }

    /// Evaluates a node with the variables of the frame.
    pub(super) fn value(&self, id: NodeId, frame: &mut Frame, sources: &dyn Sources) -> Result<Value> {
        match &self.nodes[id] {
            Node::Constant(value) => return Ok(*value),
            Node::Slot(slot) => return Ok(frame.slots[*slot]),
            _ => {}
        }
        let Info { depth, is_shared } = self.info[id];
        if is_shared && frame.memo[id].0 == frame.state {
            return Ok(frame.memo[id].1);
        }
        let value = if depth % LEVELS == LEVELS - 1 {
            with_stack(|| self.computed(id, frame, sources))?
        } else {
            self.computed(id, frame, sources)?
        };
        if is_shared {
            frame.memo[id] = (frame.state, value);
        }
        Ok(value)
    }

    fn computed(&self, id: NodeId, frame: &mut Frame, sources: &dyn Sources) -> Result<Value> {
        Ok(match &self.nodes[id] {
            Node::Constant(value) => *value,
            Node::Slot(slot) => frame.slots[*slot],
            Node::Cast { from, to, value } => cast(*from, *to, self.value(*value, frame, sources)?),
            Node::Binary { op, dtype, a, b } => {
                let (a, b) = (self.value(*a, frame, sources)?, self.value(*b, frame, sources)?);
                binary(*op, *dtype, a, b)?
            }
            Node::Compare { op, dtype, a, b } => {
                let (a, b) = (self.value(*a, frame, sources)?, self.value(*b, frame, sources)?);
                compare(*op, *dtype, a, b)
            }
            Node::Logic { op, a, b } => {
                let (a, b) = (self.value(*a, frame, sources)?, self.value(*b, frame, sources)?);
                let holds = match op {
                    LogicOp::And => a.is_true() && b.is_true(),
                    LogicOp::Or => a.is_true() || b.is_true(),
                };
                Value::Int(holds.into())
            }
            Node::Not { value } => Value::Int((!self.value(*value, frame, sources)?.is_true()).into()),
            Node::Choice { condition, a, b } => {
                let holds = self.value(*condition, frame, sources)?.is_true();
                self.value(if holds { *a } else { *b }, frame, sources)?
            }
            Node::Let { slot, value, body } => {
                let value = self.value(*value, frame, sources)?;
                frame.set(*slot, value);
                self.value(*body, frame, sources)?
            }
            Node::Read { source, indices } => {
                let mut at = [0; 8];
                if let Some(at) = at.get_mut(..indices.len()) {
                    for (place, index) in at.iter_mut().zip(indices) {
                        *place = self.value(*index, frame, sources)?.int();
                    }
                    return sources.read(*source, at);
                }
                let at: Result<Vec<i64>> =
                    indices.iter().map(|index| Ok(self.value(*index, frame, sources)?.int())).collect();
                sources.read(*source, &at?)?
            }
            Node::Call { name, from, dtype, args } => {
                let args: Result<Vec<Value>> = args.iter().map(|arg| self.value(*arg, frame, sources)).collect();
                math::call(name.as_str(), *from, *dtype, &args?)?
            }
        })
    }
}
