//! Computes NNVM's operators with the operators of models.

use kernpack_compiler::ir::Tensor;
use kernpack_compiler::te::placeholder;
use kernpack_graph::op::{self, Call, Operand, extents};
use kernpack_graph::{Attr, Attrs, Constant, GraphError, Result};

use crate::symbol::Compute;

/// The operator set version of models that is used.
const VERSION: i64 = 23;

impl Compute<'_> {
    /// An input.
    pub(crate) fn input(&self, index: usize) -> Result<&Operand> {
        self.inputs.get(index).ok_or_else(|| GraphError::new(format!("input {index} is missing")))
    }

    /// Returns the result of an operator of models.
    pub(crate) fn run(&self, name: &str, attrs: &[(&str, Attr)], inputs: &[Operand]) -> Result<Tensor> {
        let mut made = self.run_all(name, attrs, inputs, 1)?;
        Ok(made.swap_remove(0))
    }

    /// Returns the results of an operator of models with several results.
    pub(crate) fn run_all(
        &self,
        name: &str,
        attrs: &[(&str, Attr)],
        inputs: &[Operand],
        outputs: usize,
    ) -> Result<Vec<Tensor>> {
        let operator = op::find(name).ok_or_else(|| GraphError::new(format!("there is no operator {name}")))?;
        let mut own = Attrs::default();
        for (key, value) in attrs {
            own.set(key, value.clone());
        }
        let inputs = inputs.iter().cloned().map(Some).collect();
        let made = (operator.make)(&Call { name, version: VERSION, attrs: &own, inputs, wanted: vec![true; outputs] })?;
        if made.len() < outputs {
            return Err(GraphError::new(format!("{name} has {} results, not {outputs}", made.len())));
        }
        Ok(made)
    }

    /// Returns the result of an operator of models with the same inputs and without attributes.
    pub(crate) fn plain(&self, name: &str) -> Result<Vec<Tensor>> {
        Ok(vec![self.run(name, &[], &self.inputs)?])
    }
}

/// Converts a tensor to an input.
pub(crate) fn operand(tensor: &Tensor) -> Operand {
    let shape = tensor.shape.iter().map(|extent| extent.as_int().unwrap_or(-1)).collect();
    Operand { tensor: tensor.clone(), shape, dtype: tensor.dtype, element: tensor.dtype, value: None }
}

/// Converts known integers to an input.
pub(crate) fn known(values: &[i64]) -> Operand {
    let value = Constant::of_ints(values);
    let tensor = placeholder(extents(value.shape()), value.dtype(), "known");
    Operand { tensor, shape: value.shape().to_vec(), dtype: value.dtype(), element: value.dtype(), value: Some(value) }
}

/// Returns the same elements in another shape.
pub(crate) fn reshaped(x: &Operand, shape: &[i64]) -> Tensor {
    op::element_tensor(shape, |position| {
        if shape == x.shape { x.at(position) } else { x.at(&op::unflatten(&op::flatten(position, shape), &x.shape)) }
    })
}
