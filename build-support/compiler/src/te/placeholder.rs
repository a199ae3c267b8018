//! The inputs of a graph: tensors and sizes.

use core::fmt;
use core::panic::Location;

use kernpack::DataType;

use super::axis::checked_extent;
use super::exprs::Exprs;
use crate::error::{CompileError, ErrorKind, place, report};
use crate::ir::{DataTypeExt, Expr, I64, Operation, OperationNode, Tensor, Var};

/// Creates a size that is known at run time: a 64-bit integer, never negative.
pub fn size(name: &str) -> Var {
    Var::size(name, I64)
}

/// Creates a scalar argument.
pub fn var(name: &str, dtype: DataType) -> Var {
    Var::new(name, dtype)
}

/// Creates an input tensor. Without dimensions, it has one element.
///
/// An extent that is not an integer, or is a negative constant, is reported, and so is an element
/// type with lanes or without values.
#[track_caller]
pub fn placeholder(shape: impl Exprs, dtype: DataType, name: &str) -> Tensor {
    let here = Location::caller();
    let shape = checked_shape("placeholder", name, shape.into_exprs(), here);
    let defined = dtype.is_integer() || dtype.is_float() || dtype.is_bool();
    if !defined || !dtype.is_scalar() {
        let error = format!("placeholder `{name}`: elements of type {}", dtype.short_name());
        report(
            CompileError::new(ErrorKind::Type, error)
                .at(place(here))
                .note("elements are integers, floats or truth values of one lane"),
        );
    }
    let op = Operation::from_node(OperationNode::Placeholder {
        name: name.into(),
        span: place(here).into(),
        shape: shape.into(),
        dtype,
    });
    op.output(0)
}

/// Converts extents to 64 bits; an invalid extent is reported, and replaced by 1.
pub(crate) fn checked_shape(what: &str, name: &str, shape: Vec<Expr>, here: &Location<'_>) -> Vec<Expr> {
    let dimensions = shape.into_iter().enumerate();
    dimensions
        .map(|(dimension, extent)| checked_extent(&format!("{what} `{name}`: dimension {dimension}"), extent, 0, here))
        .collect()
}

impl Tensor {
    /// The element at these indices: `a.at([&i, &j])`, `a.at((&i, j + 1, 0))`,
    /// `a.at(&indices[..])`.
    ///
    /// A wrong number of indices, and indices that are not integers, are reported.
    #[track_caller]
    pub fn at(&self, indices: impl Exprs) -> Expr {
        let here = Location::caller();
        let mut indices: Vec<Expr> = indices.into_exprs().into_iter().map(super::exprs::as_index).collect();
        let rank = self.shape.len();
        if indices.len() != rank {
            let error = format!(
                "`{}` has {}, got {}",
                self.name(),
                counted(rank, "dimension"),
                counted(indices.len(), "index")
            );
            report(
                CompileError::new(ErrorKind::Type, error)
                    .at(place(here))
                    .note(format!("write `.at` with {}", counted(rank, "index"))),
            );
            indices.resize(rank, Expr::int(0));
        }
        for (position, index) in indices.iter_mut().enumerate() {
            if index.dtype() != I64 {
                let dtype = index.dtype().short_name();
                let error = format!("`{}`: index {position} is of type {dtype}, not an integer", self.name());
                report(CompileError::new(ErrorKind::Type, error).at(place(here)));
                *index = Expr::int(0);
                continue;
            }
            let Some(value) = index.as_int() else { continue };
            let extent = self.shape.get(position).and_then(|extent| extent.as_int());
            if value < 0 || extent.is_some_and(|extent| value >= extent) {
                let extent = extent.map_or_else(|| "its extent".to_owned(), |extent| extent.to_string());
                let error = format!("`{}`: index {position} is {value}, not in 0..{extent}", self.name());
                report(CompileError::new(ErrorKind::Type, error).at(place(here)));
            }
        }
        Expr::from_node(crate::ir::ExprNode::TensorRead { tensor: self.clone(), indices: indices.into() })
    }
}

pub(crate) fn counted(count: usize, what: &str) -> String {
    match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "index") => format!("{count} indices"),
        (_, "axis") => format!("{count} axes"),
        _ => format!("{count} {what}s"),
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor {}", self.name())
    }
}
