//! Tensors whose elements follow from their positions alone, such as the indices that exporters
//! compute from `Range`, and masks that compare such indices.
//!
//! An exporter writes `mask[arange(batch)[:, None], arange(length)]` as `GatherND` of a tensor of
//! indices: `Range`, `Unsqueeze`, `Expand` and `Concat`. The extents of these nodes are those of
//! the batch, and so are the elements. [`Places`] is the formula of such an element: `[i0, i1]`.

use std::collections::HashMap;

use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::ir::mutate::mutate_expr_parts;
use kernpack_compiler::ir::visit::uses_var;
use kernpack_compiler::ir::{
    DataTypeExt, Expr, ExprNode, Mutate, Operation, OperationNode, Range, Tensor, Var, VarMap, substitute,
};
use kernpack_compiler::te::eval::Evaluator;
use kernpack_compiler::with_reported;

use super::call::{flatten, tensor};
use crate::constant::{Constant, num_elements};

/// The maximum number of tensors that are read on the way to an element, and of parts of its
/// formula: others are computed when the model runs.
const MOST_READS: usize = 64;

/// The maximum number of elements that are computed when the model is imported.
const MOST_ELEMENTS: usize = 1 << 22;

/// The elements of a tensor, as a formula of their position.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    axes: Vec<Var>,
    element: Expr,
}

impl Places {
    /// Finds the formula of known elements: the first one, plus a step for each axis. `None` if
    /// they have another one.
    pub(crate) fn of_constant(known: &Constant) -> Option<Self> {
        let dtype = known.dtype();
        if known.is_empty() || dtype.is_float() && known.len() > 1 {
            return None;
        }
        let axes: Vec<Var> = (0..known.shape().len()).map(axis).collect();
        if dtype.is_float() {
            return Some(Self { axes, element: Expr::float(dtype, *known.to_floats().ok()?.first()?) });
        }
        if !dtype.is_integer() && !dtype.is_bool() {
            return None;
        }
        let values = known.to_int_bits().ok()?;
        let first = *values.first()?;
        let mut steps = vec![0_i64; axes.len()];
        let mut stride = 1;
        for (step, extent) in steps.iter_mut().zip(known.shape()).rev() {
            if *extent > 1 {
                *step = values[stride].checked_sub(first)?;
            }
            stride *= usize::try_from(*extent).ok()?;
        }
        let expected = |number: usize| -> Option<i64> {
            let (mut rest, mut value) = (i64::try_from(number).ok()?, first);
            for (step, extent) in steps.iter().zip(known.shape()).rev() {
                value = value.checked_add(step.checked_mul(rest % extent)?)?;
                rest /= extent;
            }
            Some(value)
        };
        if values.iter().enumerate().any(|(number, value)| expected(number) != Some(*value)) {
            return None;
        }
        if dtype.is_bool() {
            let is_same = steps.iter().all(|step| *step == 0);
            return is_same.then(|| Self { axes, element: Expr::bool(first != 0) });
        }
        let steps = axes.iter().zip(steps).filter(|(_, step)| *step != 0);
        let element = steps.fold(Expr::constant(dtype, first), |sum, (axis, step)| {
            sum + axis.expr().cast(dtype) * Expr::constant(dtype, step)
        });
        Some(Self { axes, element })
    }

    /// Finds the formula of the elements of a tensor that is computed from tensors with formulas.
    /// `None` if it reads others, or if it is more than a formula.
    pub(crate) fn of_tensor(tensor: &Tensor, given: &HashMap<Operation, Self>) -> Option<Self> {
        let axes: Vec<Var> = (0..tensor.shape.len()).map(axis).collect();
        let analyzer = Analyzer::new();
        for (axis, extent) in axes.iter().zip(tensor.shape.iter()) {
            analyzer.bind(axis, &Range::until(extent));
        }
        let indices: Vec<Expr> = axes.iter().map(|axis| axis.expr().clone()).collect();
        let mut inline = Inline { given, reads: 0, fails: false };
        let element = inline.element(tensor, &indices)?;
        (!inline.fails).then(|| Self { axes, element: analyzer.simplify(&element) })
    }

    /// Returns the element at a position.
    pub(crate) fn at(&self, position: &[Expr]) -> Expr {
        let values: VarMap = self.axes.iter().cloned().zip(position.iter().cloned()).collect();
        substitute(&self.element, &values)
    }

    /// Computes the elements once along each axis that they do not depend on. `None` if they depend
    /// on all axes of this shape, or if they are too many.
    pub(crate) fn once(&self, shape: &[i64]) -> Option<Constant> {
        let own = |(axis, extent): (&Var, &i64)| if uses_var(&self.element, |var| var == axis) { *extent } else { 1 };
        let narrow: Vec<i64> = self.axes.iter().zip(shape).map(own).collect();
        if narrow == shape || shape.contains(&0) || num_elements(&narrow).ok()? > MOST_ELEMENTS {
            return None;
        }
        let made = tensor(&narrow, |position| self.at(position));
        let results = with_reported(|| Evaluator::new().run(core::slice::from_ref(&made))).ok()?;
        Constant::from_elements(results.first()?).ok()
    }

    /// Returns the axes from `from` on whose positions the elements count, in row-major order: the
    /// axis of `arange(n)[:, None]`, or both of `arange(n)[:, None] * m + arange(m)`. They have to
    /// have `extent` positions. `shape` is that of the tensor, or its shape without the last axis
    /// if only the elements at the index `column` of it count.
    pub(crate) fn counted_axes(
        &self,
        shape: &[i64],
        column: Option<i64>,
        from: usize,
        extent: i64,
    ) -> Option<Vec<usize>> {
        let axes: Vec<Var> = (0..shape.len()).map(axis).collect();
        let analyzer = Analyzer::new();
        for (axis, extent) in axes.iter().zip(shape) {
            analyzer.bind(axis, &Range::until(Expr::int(*extent)));
        }
        let mut position: Vec<Expr> = axes.iter().map(|axis| axis.expr().clone()).collect();
        position.extend(column.map(Expr::int));
        let element = analyzer.simplify(&self.at(&position));
        let used: Vec<usize> =
            (0..axes.len()).filter(|number| uses_var(&element, |var| *var == axes[*number])).collect();
        let (extents, indices): (Vec<i64>, Vec<Expr>) =
            used.iter().map(|number| (shape[*number], axes[*number].expr().cast(element.dtype()))).unzip();
        let is_all = used.iter().all(|number| *number >= from) && extents.iter().product::<i64>() == extent;
        let number = flatten(&indices, &extents).cast(element.dtype());
        (is_all && analyzer.can_prove_equal(&element, &number)).then_some(used)
    }
}

fn axis(number: usize) -> Var {
    Var::index(format!("axis{number}"))
}

/// Replaces what is read by its formula.
struct Inline<'a> {
    given: &'a HashMap<Operation, Places>,
    reads: usize,
    fails: bool,
}

impl Inline<'_> {
    fn element(&mut self, tensor: &Tensor, indices: &[Expr]) -> Option<Expr> {
        self.reads += 1;
        if self.reads > MOST_READS {
            return None;
        }
        if let Some(places) = self.given.get(&tensor.op) {
            return Some(places.at(indices));
        }
        let OperationNode::Compute { axes, reduce_axes, bodies, .. } = &*tensor.op else { return None };
        if !reduce_axes.is_empty() || bodies.len() != 1 || axes.len() != indices.len() {
            return None;
        }
        let values: VarMap = axes.iter().map(|axis| axis.var.clone()).zip(indices.iter().cloned()).collect();
        self.mutate_expr(&substitute(&bodies.get(0)?, &values)).ok()
    }
}

impl Mutate for Inline<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> kernpack_compiler::Result<Expr> {
        let ExprNode::TensorRead { tensor, indices } = &**expr else { return mutate_expr_parts(self, expr) };
        let indices = indices.iter().map(|index| self.mutate_expr(&index)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.element(tensor, &indices).unwrap_or_else(|| {
            self.fails = true;
            expr.clone()
        }))
    }
}
