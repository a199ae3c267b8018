//! An operator of another crate: registered, used, and computed.
//! `cargo run -p kernpack-nnvm --example own_operator`

use kernpack::Tensor;
use kernpack_compiler::{ir, te};
use kernpack_graph::op::element_tensor;
use kernpack_nnvm::symbol::registry::{OPERATORS, Registrar};
use kernpack_nnvm::symbol::{self, Compute, Kind, Native, Param, PartialShape, Use, Value};
use kernpack_nnvm::{self as nnvm, GraphError};

#[linkme::distributed_slice(OPERATORS)]
static OWN: fn(&mut Registrar) = |operators| {
    let _ = operators
        .add("own.swish")
        .describe("x * sigmoid(beta * x)")
        .arguments(&["data"])
        .params(&[Param::required("beta", Kind::Float)])
        .set("FInferShape", Native::InferShape(same_shape))
        .set("FTVMCompute", Native::Compute(swish))
        .value("TOpPattern", 0);
};

/// The output is as the input, and the other way round.
fn same_shape(_: &Use, inputs: &mut [PartialShape], outputs: &mut [PartialShape]) -> Result<(), GraphError> {
    if inputs[0].is_empty() {
        inputs[0].clone_from(&outputs[0]);
    }
    outputs[0].clone_from(&inputs[0]);
    Ok(())
}

fn swish(call: &Compute) -> Result<Vec<ir::Tensor>, GraphError> {
    let (x, beta) = (&call.inputs[0], call.used.float("beta")?);
    Ok(vec![element_tensor(&x.shape, |position| {
        let x = x.at(position);
        let beta = te::constant(beta, x.dtype());
        &x * te::sigmoid(&x * beta)
    })])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = [Value::variable("x")];
    if let Err(error) = symbol::apply("own.swish", "swish", &data, &[("beta", "much")]) {
        println!("{error}");
    }
    let swish = symbol::apply("own.swish", "swish", &data, &[("beta", "1.5")])?;
    // A graph whose variables are all known is computed at once.
    let known = [("x".to_owned(), Tensor::from_slice(&[-1.0_f32, 0.0, 2.0], &[3])?)].into();
    for result in nnvm::run_graph(&symbol::graph_of(&swish), &known, "llvm")? {
        println!("{:.4?}", result.view::<f32>()?.to_vec());
    }
    Ok(())
}
