//! Tensors that are computed by an expression for each element.

use core::panic::Location;
use std::collections::HashMap;

use kernpack::{Any, Array, Map, Str};

use super::axis::axis_of;
use super::exprs::{ExprArray, Exprs};
use super::placeholder::{checked_shape, counted};
use super::reduce::check_reduction_places;
use crate::error::{CompileError, ErrorKind, place, report};
use crate::ir::visit::uses_var;
use crate::ir::{DataTypeExt, Expr, ExprNode, F32, IterKind, IterVar, Operation, OperationNode, Range, Tensor, Var};

/// The result of the closure of [`compute`]: one expression for one tensor, several for several
/// tensors of one shape.
pub trait Bodies {
    /// The tensors.
    type Tensors;

    /// The expressions.
    fn into_bodies(self) -> Vec<Expr>;

    /// Converts the outputs, one for each expression.
    fn tensors(outputs: Vec<Tensor>) -> Self::Tensors;
}

macro_rules! one_body {
    ($($type:ty),*) => {$(
        impl Bodies for $type {
            type Tensors = Tensor;

            fn into_bodies(self) -> Vec<Expr> {
                vec![self.into()]
            }

            fn tensors(mut outputs: Vec<Tensor>) -> Tensor {
                outputs.swap_remove(0)
            }
        }
    )*};
}

one_body!(Expr, Var, IterVar, i32, i64, f32, f64, bool);

impl<const M: usize> Bodies for [Expr; M] {
    type Tensors = [Tensor; M];

    fn into_bodies(self) -> Vec<Expr> {
        self.into()
    }

    fn tensors(outputs: Vec<Tensor>) -> [Tensor; M] {
        core::array::from_fn(|index| outputs[index.min(outputs.len() - 1)].clone())
    }
}

impl Bodies for Vec<Expr> {
    type Tensors = Vec<Tensor>;

    fn into_bodies(self) -> Vec<Expr> {
        self
    }

    fn tensors(outputs: Vec<Tensor>) -> Vec<Tensor> {
        outputs
    }
}

/// Creates a tensor whose element at `[i, j, ..]` is the result of the closure.
///
/// An array or vector of expressions creates the same number of tensors of one shape.
/// [`Tensor::named`] sets the name.
///
/// A reduction has to be the whole expression; of several expressions, all have to be results of
/// one reduction. Anything else is reported.
///
/// ```
/// use kernpack_compiler::ir::F32;
/// use kernpack_compiler::te::{compute, placeholder};
///
/// let a = placeholder([4, 8], F32, "a");
/// let b = compute((8, 4), |[i, j]| a.at([&j, &i]) * 2.0).named("b");
/// assert_eq!(b.name(), "b");
/// ```
#[track_caller]
pub fn compute<const N: usize, B: Bodies>(
    shape: impl ExprArray<N>,
    body: impl FnOnce([IterVar; N]) -> B,
) -> B::Tensors {
    let here = Location::caller();
    let axes = axes_of(shape.into_exprs(), here);
    let array: [IterVar; N] = core::array::from_fn(|index| axes[index].clone());
    let bodies = body(array).into_bodies();
    B::tensors(checked_compute(axes, bodies, here))
}

/// [`compute`] with a number of dimensions that is not known at compile time.
#[track_caller]
pub fn compute_dyn<B: Bodies>(shape: impl Exprs, body: impl FnOnce(&[IterVar]) -> B) -> B::Tensors {
    let here = Location::caller();
    let axes = axes_of(shape.into_exprs(), here);
    let bodies = body(&axes).into_bodies();
    B::tensors(checked_compute(axes, bodies, here))
}

const NAMES: [&str; 6] = ["i", "j", "k", "l", "m", "n"];

fn axes_of(shape: Vec<Expr>, here: &Location<'_>) -> Vec<IterVar> {
    let shape = checked_shape("compute", "compute", shape, here);
    let axes = shape.iter().enumerate().map(|(index, extent)| {
        let name = NAMES.get(index).map_or_else(|| format!("i{index}"), |name| (*name).to_owned());
        axis_of(&name, Some(Range::until(extent)), IterKind::DataPar, "", here)
    });
    axes.collect()
}

/// The outputs of a new operation; invalid bodies are reported and replaced by zeros.
fn checked_compute(axes: Vec<IterVar>, mut bodies: Vec<Expr>, here: &Location<'_>) -> Vec<Tensor> {
    if let Err(error) = check_bodies(&axes, &bodies) {
        report(error.at(place(here)));
        let count = bodies.len().max(1);
        bodies = bodies
            .iter()
            .map(|body| if body.dtype().is_handle() { F32 } else { body.dtype().element() })
            .map(|dtype| Expr::constant(dtype, 0))
            .collect();
        bodies.resize(count, Expr::float(F32, 0.0));
    }
    let reduce_axes = match bodies.first().map(|body| &**body) {
        Some(ExprNode::Reduce { axes, .. }) => axes.clone(),
        _ => Array::default(),
    };
    let op = Operation::from_node(OperationNode::Compute {
        name: "compute".into(),
        span: place(here).into(),
        tag: "".into(),
        attrs: Map::default(),
        axes: axes.into(),
        reduce_axes,
        // A constant may have been written with more digits than its type can represent.
        bodies: bodies.into_iter().map(rounded).collect(),
    });
    op.outputs()
}

fn rounded(body: Expr) -> Expr {
    match &*body {
        ExprNode::Float { dtype, value } => Expr::float(*dtype, *value),
        _ => body,
    }
}

fn check_bodies(axes: &[IterVar], bodies: &[Expr]) -> Result<(), CompileError> {
    let fail = |text: String| Err(CompileError::new(ErrorKind::Type, text));
    if bodies.is_empty() {
        return fail("compute: no expression".to_owned());
    }
    for body in bodies {
        let dtype = body.dtype();
        if !dtype.is_scalar() || dtype.is_handle() {
            return fail(format!("compute: an element of type {}", dtype.short_name()));
        }
        check_reduction_places(body)?;
    }
    let reductions = bodies.iter().filter(|body| matches!(***body, ExprNode::Reduce { .. })).count();
    if reductions == 0 {
        return Ok(());
    }
    if reductions != bodies.len() {
        return fail("compute: some of several expressions are reductions and some are not".to_owned())
            .map_err(|error| error.note("compute the reductions as tensors of their own"));
    }
    if let Some(ExprNode::Reduce { axes: reduced, .. }) = bodies.first().map(|body| &**body) {
        check_ranges(axes, reduced)?;
    }
    let mut seen = HashMap::new();
    for (index, body) in bodies.iter().enumerate() {
        let ExprNode::Reduce { reducer, sources, axes, value_index, .. } = &**body else { unreachable!("counted") };
        let first = seen.entry("reducer").or_insert_with(|| (reducer.clone(), sources.clone(), axes.clone()));
        let same = first.0 == *reducer
            && first.1.iter().eq(sources.iter())
            && first.2.iter().eq(axes.iter())
            && *value_index == index as i64;
        if !same || sources.len() != bodies.len() {
            let error = CompileError::new(
                ErrorKind::Type,
                format!(
                    "compute: {} of one tensor operation are not the results of one reduction in order",
                    counted(bodies.len(), "expression")
                ),
            );
            return Err(error.note("a reduction of several values gives all of them: return its array as it is"));
        }
    }
    Ok(())
}

/// Checks that the ranges of reduction axes do not depend on the element.
fn check_ranges(axes: &[IterVar], reduced: &Array<IterVar>) -> Result<(), CompileError> {
    for axis in reduced.iter() {
        let Some(dom) = &axis.dom else { continue };
        for own in axes {
            if uses_var(&dom.min, |var| *var == own.var) || uses_var(&dom.extent, |var| *var == own.var) {
                let what = format!("compute: the range of `{}` depends on the element `{}`", axis.name(), own.name());
                return Err(CompileError::new(ErrorKind::Type, what)
                    .at(&axis.span)
                    .note("reduce over the largest range, and leave elements out with `.only_where(condition)`"));
            }
        }
    }
    Ok(())
}

impl Tensor {
    /// The same computation with a name, for messages, loop nests and symbols. Must be called
    /// before the tensor is used: tensors that read this one read the unnamed one.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.rebuilt(|old_name, _| *old_name = name.into())
    }

    /// The same computation with an attribute for rules. Must be called before the tensor is used.
    #[must_use]
    pub fn with_attr(self, key: &str, value: impl Into<Any>) -> Self {
        let value = value.into();
        self.rebuilt(|_, attrs| {
            let entries = attrs.iter().filter(|(old, _)| old.as_str() != key);
            *attrs = entries.chain([(Str::from(key), value)]).collect();
        })
    }

    fn rebuilt(self, change: impl FnOnce(&mut Str, &mut Map<Str, Any>)) -> Self {
        let op = super::operation::with_names(&self.op, |name, _, attrs| change(name, attrs));
        op.output(usize::try_from(self.value_index).unwrap_or(0))
    }
}

/// Names for several tensors of one operation.
pub trait Named: Sized {
    /// The same operation with a name; see [`Tensor::named`].
    #[must_use]
    fn all_named(self, name: &str) -> Self;
}

impl<const M: usize> Named for [Tensor; M] {
    fn all_named(self, name: &str) -> Self {
        let Some(first) = self.first() else { return self };
        let op = super::operation::with_names(&first.op, |old, _, _| *old = name.into());
        self.map(|tensor| op.output(usize::try_from(tensor.value_index).unwrap_or(0)))
    }
}
