//! Sums of indices whose parts may overflow where the sums do not.
//!
//! The simplifier writes `(i - j)*4 + j` as `i*4 - j*3`: the product `j*3` may leave its type
//! although the program computes nothing as large. Arithmetic of indices is emitted as arithmetic
//! that does not overflow (`nsw` in LLVM, signed operations in C) only where the parts of a sum
//! fit.

use std::collections::{HashMap, HashSet};

use crate::arith::may_be_data;
use crate::ir::visit::has_part;
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, Var, with_stack};

/// The smallest and the largest value.
type Bounds = (i128, i128);

/// Facts about the integer variables of a function: which are indices, and how large they are.
#[derive(Clone, Default)]
pub(crate) struct IndexFacts {
    /// Constant bounds.
    bounds: HashMap<Var, Bounds>,
    /// Indices that may be negative.
    negative: HashSet<Var>,
    /// Indices that are certainly not negative, other than sizes.
    natural: HashSet<Var>,
    /// Variables whose values are data, on which arithmetic wraps, and conditions on data.
    data: HashSet<Var>,
    /// Results of `is_index`.
    memo: HashMap<Expr, bool>,
}

impl IndexFacts {
    /// Records a parameter: numbers that are not sizes are data. Those of 64 bits may be the sizes
    /// and strides of an entry function.
    pub(super) fn note_param(&mut self, var: &Var) {
        if may_be_data(var) && var.dtype().bits() < 64 {
            self.data.insert(var.clone());
        }
    }

    /// Records the value of a variable.
    pub(super) fn note_value(&mut self, var: &Var, value: &Expr) {
        // The bounds are those of an earlier loop with the same variable.
        self.bounds.remove(var);
        self.natural.remove(var);
        if !may_be_data(var) {
            return;
        }
        if !self.is_index(value) {
            self.data.insert(var.clone());
            return;
        }
        if var.dtype().is_int() && self.may_be_negative(value) {
            self.negative.insert(var.clone());
        }
        if self.is_natural(value) {
            self.natural.insert(var.clone());
        }
    }

    /// Records the bounds of a loop. Those of another loop with the same variable are forgotten.
    pub(super) fn note_loop(&mut self, var: &Var, min: &Expr, extent: &Expr) {
        self.bounds.remove(var);
        self.negative.remove(var);
        self.natural.remove(var);
        if let (Some(min), Some(extent)) = (min.as_int(), extent.as_int()) {
            let (min, extent) = (i128::from(min), i128::from(extent));
            self.bounds.insert(var.clone(), (min, min + extent.max(1) - 1));
        }
        if self.may_be_negative(min) {
            self.negative.insert(var.clone());
        }
        if self.is_natural(min) {
            self.natural.insert(var.clone());
        }
    }

    /// Records the index of a thread, and the number of threads if it is constant.
    pub(super) fn note_thread(&mut self, var: &Var, extent: Option<i64>) {
        let extent = extent.map_or_else(|| var.expr().clone(), Expr::int);
        self.note_loop(var, &Expr::int(0), &extent);
    }

    /// Returns true if an integer consists of constants, extents, loop variables and values derived
    /// from them, so that it stays small. Values from data may be arbitrary.
    pub(super) fn is_index(&mut self, expr: &Expr) -> bool {
        is_index(expr, &self.data, &mut self.memo)
    }

    /// Returns true if the parts of a sum of indices do not overflow where the sum itself does not.
    ///
    /// They are no larger than the sum if no term is taken away from another one, and none may be
    /// negative. Otherwise, their bounds have to fit. Indices without known bounds are assumed to
    /// lie in the middle half of 32 bits, and below `2^47` in 64 bits, as `arith` assumes.
    pub(super) fn parts_fit(&self, sum: &Expr) -> bool {
        let mut signs = [false; 2];
        self.note_signs(sum, false, &mut signs);
        signs != [true; 2] || operands(sum).is_none_or(|(_, a, b)| self.part(a).is_some() && self.part(b).is_some())
    }

    /// The bounds of a part. None: it may overflow.
    fn part(&self, expr: &Expr) -> Option<Bounds> {
        with_stack(|| {
            let Some((op, a, b)) = operands(expr) else { return Some(self.index(expr)) };
            let ((a_min, a_max), (b_min, b_max)) = (self.part(a)?, self.part(b)?);
            let (min, max) = match op {
                BinaryOp::Add => (a_min + b_min, a_max + b_max),
                BinaryOp::Sub => (a_min - b_max, a_max - b_min),
                _ => {
                    let ends = [a_min * b_min, a_min * b_max, a_max * b_min, a_max * b_max];
                    (ends.into_iter().min()?, ends.into_iter().max()?)
                }
            };
            let most = 1i128 << (expr.dtype().bits() - 1);
            (-most <= min && max < most).then_some((min, max))
        })
    }

    /// The bounds of an index that is not a sum.
    fn index(&self, expr: &Expr) -> Bounds {
        let bits = expr.dtype().bits();
        let most = match bits {
            64.. => 1i128 << 47,
            32.. => i128::from(i32::MAX / 2),
            _ => 1i128 << (bits - 1),
        };
        let assumed = (-most, most);
        match &**expr {
            ExprNode::Int { value, .. } => (i128::from(*value), i128::from(*value)),
            ExprNode::Var { .. } => Var::of(expr).and_then(|var| self.bounds.get(&var).copied()).unwrap_or(assumed),
            ExprNode::Binary { op, a, b, .. } => match (op, b.as_int().map(i128::from)) {
                (BinaryOp::FloorDiv, Some(divisor @ 1..)) => {
                    let bounds = self.part(a).map(|(min, max)| (min.div_euclid(divisor), max.div_euclid(divisor)));
                    bounds.filter(|(min, max)| -most <= *min && *max <= most).unwrap_or(assumed)
                }
                (BinaryOp::FloorMod, Some(divisor @ 1..)) => (0, divisor - 1),
                (BinaryOp::Mod, Some(divisor @ 1..)) => (1 - divisor, divisor - 1),
                (BinaryOp::BitAnd, Some(mask @ 0..)) => (0, mask),
                _ => assumed,
            },
            ExprNode::Cast { value, .. } if value.dtype().is_int() && value.dtype().bits() <= bits => {
                with_stack(|| self.index(value))
            }
            ExprNode::Broadcast { value, .. } => with_stack(|| self.index(value)),
            _ => assumed,
        }
    }

    /// Notes whether terms are added (`signs[0]`) and subtracted (`signs[1]`); constants are no
    /// terms. A term that may be negative counts as both.
    fn note_signs(&self, expr: &Expr, is_negative: bool, signs: &mut [bool; 2]) {
        let negative = |factor: &Expr| is_negative != factor.as_int().is_some_and(|factor| factor < 0);
        with_stack(|| match operands(expr) {
            _ if expr.as_int().is_some() => {}
            Some((BinaryOp::Mul, a, b)) if b.as_int().is_some() => self.note_signs(a, negative(b), signs),
            Some((BinaryOp::Mul, a, b)) if a.as_int().is_some() => self.note_signs(b, negative(a), signs),
            Some((op @ (BinaryOp::Add | BinaryOp::Sub), a, b)) => {
                self.note_signs(a, is_negative, signs);
                self.note_signs(b, is_negative != (op == BinaryOp::Sub), signs);
            }
            _ => {
                signs[usize::from(is_negative)] = true;
                if self.takes_both_signs(expr) {
                    *signs = [true; 2];
                }
            }
        });
    }

    /// Returns true if a term may be negative: what is made of a difference, as a quotient, a
    /// choice or a cast of one, or of an index that may be negative. A product of sizes does not
    /// count as negative if one of them is taken away from another one, as in `(n - k + 1)*i`.
    fn takes_both_signs(&self, term: &Expr) -> bool {
        let is_negative = |part: &Expr| Var::of(part).is_some_and(|var| self.negative.contains(&var));
        let is_product = matches!(operands(term), Some((BinaryOp::Mul, ..)));
        let has_difference = |part: &Expr| is_difference(part) && !(is_product && is_of_sizes(part));
        Var::of(term).is_none() && has_part(term, has_difference)
            || !self.negative.is_empty() && has_part(term, is_negative)
    }

    /// Returns true if an index is certainly not negative, so that a division rounds it down.
    /// Unlike [`Self::may_be_negative`], this does not ignore constants that are taken away.
    pub(super) fn is_natural(&self, value: &Expr) -> bool {
        self.part(value).is_some_and(|(min, _)| min >= 0) || self.is_of_naturals(value)
    }

    /// Returns true if the parts of an index are not negative, and none is taken away.
    fn is_of_naturals(&self, value: &Expr) -> bool {
        with_stack(|| match &**value {
            ExprNode::Int { value, .. } => *value >= 0,
            ExprNode::Var { .. } => Var::of(value).is_some_and(|var| var.is_size() || self.natural.contains(&var)),
            ExprNode::Cast { dtype, value } => {
                let from = value.dtype();
                from.is_integer() && dtype.bits() >= from.bits() && self.is_of_naturals(value)
            }
            ExprNode::Binary { op, a, b, .. } => match op {
                BinaryOp::Add | BinaryOp::Mul | BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Min => {
                    self.is_of_naturals(a) && self.is_of_naturals(b)
                }
                BinaryOp::Max => self.is_of_naturals(a) || self.is_of_naturals(b),
                BinaryOp::Mod | BinaryOp::ShiftRight => self.is_of_naturals(a),
                BinaryOp::FloorMod => self.is_of_naturals(b),
                _ => false,
            },
            ExprNode::Select { true_value: a, false_value: b, .. }
            | ExprNode::IfThenElse { then_value: a, else_value: b, .. } => {
                self.is_of_naturals(a) && self.is_of_naturals(b)
            }
            _ => false,
        })
    }

    /// Returns true if the value of a variable may be negative. The difference of two sizes is not.
    fn may_be_negative(&self, value: &Expr) -> bool {
        with_stack(|| match &**value {
            ExprNode::Int { value, .. } => *value < 0,
            ExprNode::Binary { op: BinaryOp::Max, a, b, .. } => self.may_be_negative(a) && self.may_be_negative(b),
            ExprNode::Binary { op: BinaryOp::Min, a, b, .. } => self.may_be_negative(a) || self.may_be_negative(b),
            _ => {
                let mut signs = [false; 2];
                self.note_signs(value, false, &mut signs);
                signs[1] && !(signs[0] && is_of_sizes(value))
            }
        })
    }
}

/// Returns true if an integer or a condition consists of constants, extents, loop variables and
/// values derived from them, so that it stays small. Values from data, as in `data`, may be
/// arbitrary, and so is what data chooses. Arithmetic on integers of 8 and 16 bits may overflow.
fn is_index(expr: &Expr, data: &HashSet<Var>, memo: &mut HashMap<Expr, bool>) -> bool {
    if let Some(known) = memo.get(expr) {
        return *known;
    }
    let mut part = |part: &Expr| with_stack(|| is_index(part, data, memo));
    let is_index = match &**expr {
        ExprNode::Int { .. } => true,
        ExprNode::Var { .. } => Var::of(expr).is_some_and(|var| !data.contains(&var)),
        ExprNode::Cast { dtype, value } => {
            dtype.is_int() && value.dtype().is_integer() && dtype.bits() >= value.dtype().bits() && part(value)
        }
        ExprNode::Binary { a, b, .. } => expr.dtype().bits() >= 32 && part(a) && part(b),
        ExprNode::Compare { a, b, .. } | ExprNode::Logic { a, b, .. } => part(a) && part(b),
        ExprNode::Not { value } => part(value),
        ExprNode::Call { .. } if expr.without_likely().1 => part(&expr.without_likely().0),
        ExprNode::Select { condition, true_value: a, false_value: b }
        | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => part(condition) && part(a) && part(b),
        ExprNode::Ramp { base, stride, .. } => part(base) && part(stride),
        ExprNode::Broadcast { value, .. } => part(value),
        _ => false,
    } && (expr.dtype().is_int() || expr.dtype().is_bool());
    memo.insert(expr.clone(), is_index);
    is_index
}

/// Returns true if a node is a part of the sum around it: a sum, a difference, or a multiple.
pub(super) fn is_linear(expr: &Expr) -> bool {
    operands(expr).is_some_and(|(op, a, b)| op != BinaryOp::Mul || a.as_int().is_some() || b.as_int().is_some())
}

/// The operands of a sum, a difference or a product.
fn operands(expr: &Expr) -> Option<(BinaryOp, &Expr, &Expr)> {
    match &**expr {
        ExprNode::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b, .. } => Some((*op, a, b)),
        _ => None,
    }
}

/// Returns true if a value that is not constant is taken away from another one.
fn is_difference(expr: &Expr) -> bool {
    matches!(operands(expr), Some((BinaryOp::Sub, _, b)) if b.as_int().is_none())
}

/// Returns true if all variables of an expression are sizes.
fn is_of_sizes(expr: &Expr) -> bool {
    !has_part(expr, |part| Var::of(part).is_some_and(|var| !var.is_size()))
}
