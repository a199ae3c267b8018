//! Helpers for graphs in one line, and their results.

use kernpack::{DataType, Tensor};
use kernpack_nnvm as nnvm;
use kernpack_nnvm::symbol::{self, GraphRef, Value};
use kernpack_nnvm::{BuildOptions, Built, GraphExecutor};

/// Attributes of a node.
pub(crate) type Attrs<'a> = &'a [(&'a str, &'a str)];

/// A variable.
pub(crate) fn var(name: &str) -> Value {
    Value::variable(name)
}

/// The first output of an operator.
pub(crate) fn op(name: &str, inputs: &[&Value], attrs: &[(&str, &str)]) -> Value {
    named(name, "", inputs, attrs)
}

/// The same with a name.
pub(crate) fn named(op: &str, name: &str, inputs: &[&Value], attrs: &[(&str, &str)]) -> Value {
    let inputs: Vec<Value> = inputs.iter().map(|value| (*value).clone()).collect();
    symbol::apply(op, name, &inputs, attrs).unwrap_or_else(|error| panic!("{op}: {error}")).swap_remove(0)
}

/// A graph of values.
pub(crate) fn graph(values: &[&Value]) -> GraphRef {
    symbol::graph_of(&values.iter().map(|value| (*value).clone()).collect::<Vec<_>>())
}

/// A tensor of floats.
pub(crate) fn floats(shape: &[i64], values: &[f32]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

/// Floats that are all different, and the same in each run.
pub(crate) fn ramp(shape: &[i64]) -> Tensor {
    let count = shape.iter().product::<i64>();
    let values: Vec<f32> = (0..count).map(|index| ((index * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
    floats(shape, &values)
}

/// The elements of a tensor of floats.
pub(crate) fn elements(tensor: &Tensor) -> Vec<f32> {
    tensor.view::<f32>().unwrap().to_vec()
}

/// Builds for this machine. The executor sets all variables, and none is a parameter.
pub(crate) fn built(graph: &GraphRef, inputs: &[(&str, &Tensor)], opt_level: i64) -> Built {
    let mut options = BuildOptions { opt_level: Some(opt_level), ..BuildOptions::default() };
    for (name, tensor) in inputs {
        options.shapes.insert((*name).to_owned(), tensor.shape().to_vec());
        options.types.insert((*name).to_owned(), tensor.dtype());
    }
    options.dtype = Some(DataType::FLOAT32);
    nnvm::build(graph, "llvm", &options).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the outputs of a graph for these inputs.
pub(crate) fn run(graph: &GraphRef, inputs: &[(&str, &Tensor)], opt_level: i64) -> Vec<Tensor> {
    execute(&built(graph, inputs, opt_level), inputs)
}

/// Runs a compiled graph.
pub(crate) fn execute(built: &Built, inputs: &[(&str, &Tensor)]) -> Vec<Tensor> {
    let executor = GraphExecutor::new(&built.graph, &built.module).unwrap();
    for (name, tensor) in &built.params {
        executor.set_input(executor.input_number(name).unwrap(), tensor, true).unwrap();
    }
    for (name, tensor) in inputs {
        if let Ok(number) = executor.input_number(name) {
            executor.set_input(number, tensor, true).unwrap();
        }
    }
    executor.run().unwrap_or_else(|error| panic!("{error}"));
    let count = built.graph.outputs.len();
    (0..count).map(|number| executor.output(number).unwrap().to(kernpack::Device::CPU).unwrap()).collect()
}

/// Checks that floats are equal up to the rounding of sums.
pub(crate) fn assert_near(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!(
            (got - expected).abs() <= 1e-4 * expected.abs().max(1.0),
            "element {index}: {got}, expected {expected}"
        );
    }
}
