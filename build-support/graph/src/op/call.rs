//! A call of an operator.

use kernpack::DataType;
use kernpack_compiler::collect_reported;
use kernpack_compiler::ir::{DataTypeExt, Expr, IterVar, Tensor};
use kernpack_compiler::te::placeholder;

use crate::attrs::Attrs;
use crate::constant::Constant;
use crate::error::{Fix, GraphError, Result, fail, require};

/// An input.
#[derive(Clone)]
pub struct Operand {
    /// The tensor that represents it.
    pub tensor: Tensor,
    /// Its extents.
    pub shape: Vec<i64>,
    /// The type of its elements in memory: their own, or bytes for types without arithmetic.
    pub dtype: DataType,
    /// Its element type.
    pub element: DataType,
    /// Its elements, if they are known.
    pub value: Option<Constant>,
}

/// A call of an operator.
pub struct Call<'a> {
    /// The operator.
    pub name: &'a str,
    /// The operator set version that the model requires.
    pub version: i64,
    /// The attributes.
    pub attrs: &'a Attrs,
    /// The inputs. Missing ones are `None`.
    pub inputs: Vec<Option<Operand>>,
    /// True for each output that is used.
    pub wanted: Vec<bool>,
}

/// Returns an element of a known value, of this type in memory.
pub(crate) fn known_element(value: &Constant, index: usize, dtype: DataType) -> Option<Expr> {
    if dtype.is_float() {
        return Some(Expr::float(dtype, *value.to_floats().ok()?.get(index)?));
    }
    let int = *value.to_int_bits().ok()?.get(index)?;
    Some(if dtype.is_bool() { Expr::bool(int != 0) } else { Expr::constant(dtype, int) })
}

impl Operand {
    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the element at these indices. A known element that is the same everywhere is a
    /// constant. If there are no elements, so that nothing is computed from them, a zero represents
    /// them, for its type.
    pub fn at(&self, indices: &[Expr]) -> Expr {
        match self.scalar() {
            Some(constant) => constant,
            None if self.shape.contains(&0) => zero(self.dtype),
            None => self.tensor.at(indices),
        }
    }

    /// Returns the only element of a known tensor with one element.
    fn scalar(&self) -> Option<Expr> {
        let value = self.value.as_ref().filter(|value| value.len() == 1)?;
        known_element(value, 0, self.dtype)
    }

    /// Checks that this input can be broadcast to a shape without changing the shape.
    ///
    /// # Errors
    /// Returns an error if it cannot.
    pub(super) fn fits(&self, shape: &[i64]) -> Result<()> {
        let is_broadcast = broadcast(&[&self.shape, shape]).is_ok_and(|both| both == shape);
        require!(is_broadcast, "an input {:?} is not broadcast to {shape:?}", self.shape);
        Ok(())
    }

    /// Returns the element for a position in a result that this input is broadcast to, by the rules
    /// of NumPy. It must match the result.
    pub fn broadcast_at(&self, position: &[Expr]) -> Expr {
        let skipped = position.len() - self.rank();
        let pairs = self.shape.iter().zip(&position[skipped..]);
        let indices: Vec<Expr> =
            pairs.map(|(extent, index)| if *extent == 1 { Expr::int(0) } else { index.clone() }).collect();
        self.at(&indices)
    }

    /// Returns an axis, which may be counted from the end.
    ///
    /// # Errors
    /// Returns an error for an axis that does not exist.
    pub fn axis(&self, axis: i64) -> Result<usize> {
        axis_of(axis, self.rank())
    }
}

fn zero(dtype: DataType) -> Expr {
    match () {
        () if dtype.is_float() => Expr::float(dtype, 0.0),
        () if dtype.is_bool() => Expr::bool(false),
        () => Expr::constant(dtype, 0),
    }
}

/// Returns an axis of a tensor with this rank. A negative one counts from the end.
///
/// # Errors
/// Returns an error for an axis that does not exist.
pub fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    let count = i64::try_from(rank).unwrap_or(i64::MAX);
    let index = if axis < 0 { axis + count } else { axis };
    require!((0..count).contains(&index), "axis {axis} is out of range: the tensor has {rank} dimensions");
    Ok(usize::try_from(index).expect("an axis of the tensor"))
}

impl Call<'_> {
    /// Returns a required input.
    ///
    /// # Errors
    /// Returns an error if it is missing.
    pub fn input(&self, index: usize) -> Result<&Operand> {
        self.optional(index).ok_or_else(|| GraphError::new(format!("input {index} is missing")))
    }

    /// Returns an optional input.
    pub fn optional(&self, index: usize) -> Option<&Operand> {
        self.inputs.get(index)?.as_ref()
    }

    /// Returns true if an output is used.
    pub fn wants(&self, index: usize) -> bool {
        self.wanted.get(index).copied().unwrap_or(false)
    }

    /// Returns the integers of an optional input that must be known at compile time.
    ///
    /// # Errors
    /// Returns an error if they are not known.
    pub fn optional_ints(&self, index: usize) -> Result<Option<Vec<i64>>> {
        let Some(operand) = self.optional(index) else { return Ok(None) };
        let Some(value) = &operand.value else {
            let what = "has to be known when the model is compiled, and depends on what the model is called with";
            return Err(GraphError::new(format!("input {index} {what}")).fix(&Fix::Constant));
        };
        value.to_ints().map(Some)
    }

    /// Returns the integers of an input that must be known at compile time.
    ///
    /// # Errors
    /// Returns an error if they are not known.
    pub fn ints(&self, index: usize) -> Result<Vec<i64>> {
        self.optional_ints(index)?.ok_or_else(|| GraphError::new(format!("input {index} is missing")))
    }

    /// Returns the axes of an attribute of old versions, or of an input of newer ones.
    ///
    /// # Errors
    /// Returns an error for an input that is not known.
    pub fn ints_or_attr(&self, index: usize, attribute: &str) -> Result<Option<Vec<i64>>> {
        match self.attrs.ints(attribute)? {
            Some(values) => Ok(Some(values)),
            None => self.optional_ints(index),
        }
    }
}

/// Returns extents as expressions.
pub fn extents(shape: &[i64]) -> Vec<Expr> {
    shape.iter().map(|extent| Expr::int(*extent)).collect()
}

/// Creates a tensor of this shape. The closure returns the element at a position.
pub fn tensor(shape: &[i64], body: impl FnOnce(&[Expr]) -> Expr) -> Tensor {
    if shape.contains(&0) {
        // Nothing is computed; only the type matters. The expressions, and errors in them, are
        // discarded.
        let (dtype, _) = collect_reported(|| body(&vec![Expr::int(0); shape.len()]).dtype());
        return placeholder(extents(shape), dtype, "nothing");
    }
    kernpack_compiler::te::compute_dyn(extents(shape), |axes: &[IterVar]| {
        let position: Vec<Expr> = axes.iter().map(IterVar::expr).collect();
        body(&position)
    })
}

/// Creates a tensor of zeros.
pub(super) fn zeros(shape: &[i64], dtype: DataType) -> Tensor {
    tensor(shape, |_| zero(dtype))
}

/// Returns the shape that shapes are broadcast to, by the rules of NumPy.
///
/// # Errors
/// Returns an error for shapes that cannot be broadcast.
pub fn broadcast(shapes: &[&[i64]]) -> Result<Vec<i64>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut result = vec![1; rank];
    for shape in shapes {
        for (to, extent) in result[rank - shape.len()..].iter_mut().zip(*shape) {
            if *to == 1 {
                *to = *extent;
            } else if *extent != 1 && extent != to {
                fail!(
                    "shapes {} do not fit",
                    shapes.iter().map(|shape| format!("{shape:?}")).collect::<Vec<_>>().join(" and ")
                );
            }
        }
    }
    Ok(result)
}

/// Returns the position of element `flat` of a tensor of this shape, in row-major order.
pub fn unflatten(flat: &Expr, shape: &[i64]) -> Vec<Expr> {
    let mut rest = flat.clone();
    let mut position = vec![Expr::int(0); shape.len()];
    for (index, extent) in shape.iter().enumerate().rev() {
        position[index] = if index == 0 { rest.clone() } else { rest.floor_mod(*extent) };
        rest = rest.floor_div(*extent);
    }
    position
}

/// Returns the index of the element at a position of a tensor of this shape, in row-major order.
pub fn flatten(position: &[Expr], shape: &[i64]) -> Expr {
    position.iter().zip(shape).fold(Expr::int(0), |flat, (index, extent)| flat * *extent + index)
}
