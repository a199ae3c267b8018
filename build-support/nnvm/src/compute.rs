//! The computation of a node, by its operator's `FTVMCompute`.

use kernpack::{Any, Array, DataType, Function};
use kernpack_compiler::ir::Tensor;
use kernpack_compiler::{te, with_reported};
use kernpack_graph::op::{Operand, extents};
use kernpack_graph::{Result, fail, require};

use crate::symbol::registry::Cell;
use crate::symbol::{Compute, Native, Use};

/// Returns the tensors of a node. `outputs` are shapes and types of its outputs.
///
/// # Errors
/// Returns an error for an operator without a computation, errors of the operator, and an error if
/// the results do not match.
pub(crate) fn compute(used: &Use, inputs: Vec<Operand>, outputs: &[(Vec<i64>, DataType)]) -> Result<Vec<Tensor>> {
    let made = with_reported(|| make(used, inputs, outputs))?;
    require!(made.len() == outputs.len(), "it computes {} results, and has {}", made.len(), outputs.len());
    for (index, (tensor, (shape, dtype))) in made.iter().zip(outputs).enumerate() {
        let own: Vec<i64> = tensor.shape.iter().map(|extent| extent.as_int().unwrap_or(-1)).collect();
        require!(
            own == *shape && tensor.dtype == *dtype,
            "output {index} is computed as {}{own:?}, and inferred as {dtype}{shape:?}",
            tensor.dtype
        );
    }
    Ok(made)
}

fn make(used: &Use, inputs: Vec<Operand>, outputs: &[(Vec<i64>, DataType)]) -> Result<Vec<Tensor>> {
    match used.op.cell("FTVMCompute") {
        Some(Cell::Native(Native::Compute(compute))) => {
            compute(&Compute { used: used.clone(), inputs, outputs: outputs.to_vec() })
        }
        Some(Cell::Value(value)) => foreign(used, &value.to()?, &inputs, outputs),
        _ => fail!(
            "operator `{}` has no FTVMCompute: `kernpack.graph.op_set_attr` gives it one, or a pass has to replace it (SimplifyInference)",
            used.op.name
        ),
    }
}

/// Computes with a function of another language, from the attributes, the inputs, and tensors that
/// represent the outputs.
fn foreign(
    used: &Use,
    function: &Function,
    inputs: &[Operand],
    outputs: &[(Vec<i64>, DataType)],
) -> Result<Vec<Tensor>> {
    let attrs = used.op.all_attrs(used.attrs)?;
    let inputs: Array<Tensor> = inputs.iter().map(|input| input.tensor.clone()).collect();
    let stand = |(shape, dtype): &(Vec<i64>, DataType)| te::placeholder(extents(shape), *dtype, "out");
    let outs: Array<Tensor> = outputs.iter().map(stand).collect();
    let made: Any = function.call((attrs, inputs, outs))?;
    if let Ok(one) = made.to::<Tensor>() {
        return Ok(vec![one]);
    }
    Ok(made.to::<Array<Tensor>>()?.to_vec())
}
