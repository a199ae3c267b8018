//! Operators that write to variables.

use kernpack_graph::op::element_tensor;
use linkme::distributed_slice;

use super::infer::same_shape;
use super::pattern;
use crate::symbol::Native;
use crate::symbol::registry::{OPERATORS, Registrar};

#[distributed_slice(OPERATORS)]
static STATE: fn(&mut Registrar) = |operators| {
    let _ = operators
        .add("_assign")
        .describe("writes the second input to the variable that is the first one")
        .arguments(&["lhs", "rhs"])
        .params(&[])
        .set("FMutateInputs", Native::Indices(|_| Ok(vec![0])))
        .set("FInferShape", Native::InferShape(same_shape))
        .set(
            "FTVMCompute",
            Native::Compute(|call| {
                let x = call.input(1)?;
                Ok(vec![element_tensor(&x.shape, |position| x.at(position))])
            }),
        )
        .value("TOpPattern", pattern::OPAQUE);
};
