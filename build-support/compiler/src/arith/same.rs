//! Comparison of two expressions up to the order of operands.

use kernpack::Array;

use crate::ir::builtin::{Effect, effect};
use crate::ir::{BinaryOp, CompareOp, DataTypeExt, Expr, ExprNode, with_stack};

/// Chains of more operands are compared in order.
const LONGEST_CHAIN: usize = 32;

/// The number of nodes that one comparison examines.
const MOST_STEPS: u32 = 1024;

/// Returns true if two expressions have the same value because they have the same structure: the
/// same operations on the same variables, with operands of commutative operations in any order.
///
/// Calls with side effects are the same only if they are one node. For large expressions the result
/// may be false although they are the same.
pub fn same(a: &Expr, b: &Expr) -> bool {
    Comparison { steps: MOST_STEPS }.same(a, b)
}

/// A comparison with a limit on its steps: with operands in any order it could take exponential
/// time.
struct Comparison {
    steps: u32,
}

impl Comparison {
    fn same(&mut self, a: &Expr, b: &Expr) -> bool {
        if a.same_as(b) {
            return true;
        }
        match (&**a, &**b) {
            (ExprNode::Var { .. }, _) | (_, ExprNode::Var { .. }) => false,
            (ExprNode::Int { dtype, value }, ExprNode::Int { dtype: dtype_b, value: value_b }) => {
                value == value_b && dtype == dtype_b
            }
            (ExprNode::Float { dtype, value }, ExprNode::Float { dtype: dtype_b, value: value_b }) => {
                value.to_bits() == value_b.to_bits() && dtype == dtype_b
            }
            (ExprNode::Int { .. } | ExprNode::Float { .. }, _) | (_, ExprNode::Int { .. } | ExprNode::Float { .. }) => {
                false
            }
            _ if self.steps == 0 => false,
            _ => {
                self.steps -= 1;
                with_stack(|| self.same_parts(a, b))
            }
        }
    }

    fn all_same(&mut self, a: &Array<Expr>, b: &Array<Expr>) -> bool {
        a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| self.same(&a, &b))
    }

    fn same_option(&mut self, a: &Option<Expr>, b: &Option<Expr>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => self.same(a, b),
            (None, None) => true,
            _ => false,
        }
    }

    fn same_parts(&mut self, a: &Expr, b: &Expr) -> bool {
        match (&**a, &**b) {
            (ExprNode::Binary { op, dtype, .. }, ExprNode::Binary { op: op_b, dtype: dtype_b, .. }) => {
                dtype == dtype_b && self.same_binary(*op, a, *op_b, b)
            }
            (ExprNode::Compare { op, a, b }, ExprNode::Compare { op: op_b, a: x, b: y }) => {
                op == op_b && self.same(a, x) && self.same(b, y)
                    || mirrored(*op) == *op_b && self.same(a, y) && self.same(b, x)
            }
            (ExprNode::Logic { op, a, b }, ExprNode::Logic { op: op_b, a: x, b: y }) => {
                op == op_b && (self.same(a, x) && self.same(b, y) || self.same(a, y) && self.same(b, x))
            }
            (ExprNode::Cast { dtype, value }, ExprNode::Cast { dtype: dtype_b, value: value_b }) => {
                dtype == dtype_b && self.same(value, value_b)
            }
            (ExprNode::Not { value }, ExprNode::Not { value: other }) => self.same(value, other),
            (
                ExprNode::Select { condition, true_value, false_value },
                ExprNode::Select { condition: c, true_value: x, false_value: y },
            )
            | (
                ExprNode::IfThenElse { condition, then_value: true_value, else_value: false_value },
                ExprNode::IfThenElse { condition: c, then_value: x, else_value: y },
            ) => self.same(condition, c) && self.same(true_value, x) && self.same(false_value, y),
            (ExprNode::Ramp { base, stride, lanes }, ExprNode::Ramp { base: x, stride: y, lanes: other }) => {
                lanes == other && self.same(base, x) && self.same(stride, y)
            }
            (ExprNode::Broadcast { value, lanes }, ExprNode::Broadcast { value: x, lanes: other }) => {
                lanes == other && self.same(value, x)
            }
            (ExprNode::Shuffle { vectors, indices }, ExprNode::Shuffle { vectors: x, indices: y }) => {
                indices.iter().eq(y.iter()) && self.all_same(vectors, x)
            }
            (
                ExprNode::Load { buffer, index, mask, .. },
                ExprNode::Load { buffer: other, index: index_b, mask: mask_b, .. },
            ) => buffer == other && self.same(index, index_b) && self.same_option(mask, mask_b),
            (ExprNode::TensorRead { tensor, indices }, ExprNode::TensorRead { tensor: other, indices: x }) => {
                (tensor == other || tensor.op == other.op && tensor.value_index == other.value_index)
                    && self.all_same(indices, x)
            }
            (
                ExprNode::Call { kind, name, args, dtype },
                ExprNode::Call { kind: kind_b, name: name_b, args: args_b, dtype: dtype_b },
            ) => {
                kind == kind_b
                    && dtype == dtype_b
                    && name.as_str() == name_b.as_str()
                    && effect(*kind, name.as_str()) <= Effect::Reads
                    && self.all_same(args, args_b)
            }
            (ExprNode::Text { value }, ExprNode::Text { value: other }) => value.as_str() == other.as_str(),
            _ => false,
        }
    }

    fn same_binary(&mut self, op: BinaryOp, a: &Expr, op_b: BinaryOp, b: &Expr) -> bool {
        let (ExprNode::Binary { a: a0, b: a1, dtype, .. }, ExprNode::Binary { a: b0, b: b1, .. }) = (&**a, &**b) else {
            return false;
        };
        let linear = |op| matches!(op, BinaryOp::Add | BinaryOp::Sub);
        let commutes = matches!(
            op,
            BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max | BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor
        );
        if dtype.is_float() {
            // Sums and products of floats commute; the result of min and max depends on the order
            // if one is NaN.
            let swaps = matches!(op, BinaryOp::Add | BinaryOp::Mul);
            return op == op_b
                && (self.same(a0, b0) && self.same(a1, b1) || swaps && self.same(a0, b1) && self.same(a1, b0));
        }
        let chains = linear(op) && linear(op_b) || commutes && op == op_b;
        let (mut left, mut right) = (Chain::default(), Chain::default());
        if !chains || !left.collect(a, op) || !right.collect(b, op_b) {
            return op == op_b && self.same(a0, b0) && self.same(a1, b1);
        }
        if left.operands.len() != right.operands.len() || left.constant != right.constant {
            return false;
        }
        for (operand, negative) in &left.operands {
            let found = right.operands.iter().position(|(other, sign)| sign == negative && self.same(operand, other));
            let Some(found) = found else { return false };
            right.operands.swap_remove(found);
        }
        true
    }
}

/// The relation with its sides exchanged.
pub(crate) fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq | CompareOp::Ne => op,
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
    }
}

/// The operands of a chain of one operation.
#[derive(Default)]
struct Chain {
    /// The operands, each with true if it is subtracted.
    operands: Vec<(Expr, bool)>,
    /// Constants of a sum: `x - 1` is `x + -1`.
    constant: i64,
}

impl Chain {
    /// Collects the operands; returns false if there are too many.
    fn collect(&mut self, expr: &Expr, op: BinaryOp) -> bool {
        let sum = matches!(op, BinaryOp::Add | BinaryOp::Sub);
        let mut open = vec![(expr.clone(), false)];
        let mut steps = 0;
        while let Some((expr, negative)) = open.pop() {
            steps += 1;
            if steps > 4 * LONGEST_CHAIN || self.operands.len() > LONGEST_CHAIN {
                return false;
            }
            match &*expr {
                ExprNode::Binary { op: own, a, b, .. }
                    if *own == op || sum && matches!(own, BinaryOp::Add | BinaryOp::Sub) =>
                {
                    open.push((b.clone(), negative != (*own == BinaryOp::Sub)));
                    open.push((a.clone(), negative));
                }
                ExprNode::Int { value, .. } if sum => {
                    let value = if negative { value.wrapping_neg() } else { *value };
                    self.constant = self.constant.wrapping_add(value);
                }
                _ => self.operands.push((expr.clone(), negative)),
            }
        }
        true
    }
}
