//! Tensors with a single value.

use kernpack_compiler::ir::Tensor;
use kernpack_compiler::te;
use kernpack_graph::Result;
use kernpack_graph::op::element_tensor;
use linkme::distributed_slice;

use super::elementwise::{elementwise, map};
use super::infer::set;
use super::pattern;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Compute, Kind, Native, Param};

#[distributed_slice(OPERATORS)]
static INIT: fn(&mut Registrar) = register;

fn filled(call: &Compute, value: f64) -> Result<Vec<Tensor>> {
    let (shape, dtype) = (call.used.ints("shape")?, call.used.data_type("dtype")?);
    Ok(vec![element_tensor(&shape, |_| te::constant(value, dtype))])
}

/// Name, description, parameters, and the computation.
type Row<'a> = (&'a str, &'a str, &'a [Param], fn(&Compute) -> Result<Vec<Tensor>>);

fn register(operators: &mut Registrar) {
    let shape = Param::new("shape", Kind::Ints, "()");
    let dtype = Param::new("dtype", Kind::DataType, "float32");
    let value = Param::required("fill_value", Kind::Float);
    let all: [Row<'_>; 3] = [
        ("full", "a tensor of a shape, filled with a value", &[shape, value, dtype], |call| {
            filled(call, call.used.float("fill_value")?)
        }),
        ("ones", "a tensor of a shape, filled with 1", &[shape, dtype], |call| filled(call, 1.0)),
        ("zeros", "a tensor of a shape, filled with 0", &[shape, dtype], |call| filled(call, 0.0)),
    ];
    for (name, doc, params, compute) in all {
        let _ = operators
            .add(name)
            .describe(doc)
            .params(params)
            .level(4)
            .set(
                "FInferShape",
                Native::InferShape(|used, _, outs| {
                    let shape = used.ints("shape")?;
                    set(&mut outs[0], &shape)
                }),
            )
            .set(
                "FInferType",
                Native::InferType(|used, _, outs| {
                    outs[0] = Some(used.data_type("dtype")?);
                    Ok(())
                }),
            )
            .set("FTVMCompute", Native::Compute(compute))
            .value("TOpPattern", pattern::OUT_FUSABLE);
    }
    let full = operators.add("full_like").describe("a tensor like the data, filled with a value").arguments(&["data"]);
    let _ = elementwise(full.params(&[value]).level(4), |call| {
        let value = call.used.float("fill_value")?;
        map(call, |x| te::constant(value, x.dtype()))
    });
    let ones = operators.add("ones_like").describe("a tensor like the data, filled with 1").arguments(&["data"]);
    let _ = elementwise(ones.params(&[]).level(4), |call| map(call, |x| te::constant(1.0, x.dtype())));
    let zeros = operators.add("zeros_like").describe("a tensor like the data, filled with 0").arguments(&["data"]);
    let _ = elementwise(zeros.params(&[]).level(4), |call| map(call, |x| te::constant(0.0, x.dtype())));
}
