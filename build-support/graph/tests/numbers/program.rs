//! Runs one operator as a compiled program, and with the evaluator.

use std::sync::Arc;

use kernpack::{Module, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{F32, F64};
use kernpack_graph::{Attr, Attrs, Constant, Graph, LowerOptions, Value, build, op};

/// An operator of version 28 with its compiled code.
pub(crate) struct Program {
    module: Module,
    outputs: Vec<(kernpack::DataType, Vec<i64>)>,
}

pub(crate) fn attributes(attrs: &[(&str, Attr)]) -> Arc<Attrs> {
    let mut own = Attrs::default();
    for (name, value) in attrs {
        own.set(name, value.clone());
    }
    Arc::new(own)
}

/// A tensor with the bytes of a constant.
pub(crate) fn tensor(constant: &Constant) -> Tensor {
    let count = i64::try_from(constant.bytes().len()).unwrap();
    Tensor::from_slice(constant.bytes(), &[count]).unwrap().view_as(constant.shape(), constant.dtype(), 0).unwrap()
}

/// A tensor of floats of a type.
pub(crate) fn known(dtype: kernpack::DataType, shape: &[i64], values: &[f64]) -> Constant {
    let doubles: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let doubles = Constant::new(F64, shape, doubles).unwrap();
    if dtype == F64 {
        return doubles;
    }
    let mut graph = Graph::default();
    let id = graph.add_known("x", doubles);
    let to = attributes(&[("to", Attr::Int(if dtype == F32 { 1 } else { 10 }))]);
    let made = graph.add_node(op::find("Cast").unwrap(), "cast", to, 28, &[Some(id)], &["y".to_owned()]).unwrap();
    graph.values[made[0].unwrap()].known.clone().unwrap()
}

impl Program {
    /// Compiles an operator. Inputs with `true` are arguments of the program, and others are known.
    /// The first `outputs` of its results are computed.
    pub(crate) fn new(
        name: &str,
        attrs: &[(&str, Attr)],
        inputs: &[Option<(&Constant, bool)>],
        outputs: usize,
    ) -> Result<Self, String> {
        let mut graph = Graph::default();
        let mut ids = Vec::new();
        for (number, input) in inputs.iter().enumerate() {
            let Some((constant, is_argument)) = input else {
                ids.push(None);
                continue;
            };
            let name = format!("x{number}");
            let id = if *is_argument {
                let (dtype, shape) = (constant.dtype(), constant.shape().to_vec());
                let id = graph.add_value(Value { name: name.clone(), dtype, shape, known: None, producer: None });
                graph.inputs.push(id);
                id
            } else {
                graph.add_known(&name, (*constant).clone())
            };
            ids.push(Some(id));
        }
        let operator = op::find(name).ok_or("no such operator")?;
        let names: Vec<String> = (0..outputs).map(|number| format!("y{number}")).collect();
        let made =
            graph.add_node(operator, name, attributes(attrs), 28, &ids, &names).map_err(|error| error.to_string())?;
        for (name, id) in names.into_iter().zip(made) {
            graph.outputs.push((name, id.ok_or("an output is not computed")?));
        }
        Self::of(&graph)
    }

    /// Compiles a graph.
    pub(crate) fn of(graph: &Graph) -> Result<Self, String> {
        let kind = |(_, id): &(String, usize)| (graph.values[*id].dtype, graph.values[*id].shape.clone());
        let outputs = graph.outputs.iter().map(kind).collect();
        let (module, _) =
            build(graph, "program", &Target::host(), LowerOptions::default()).map_err(|error| error.to_string())?;
        Ok(Self { module, outputs })
    }

    /// Returns the results for these arguments.
    pub(crate) fn run(&self, arguments: &[&Constant]) -> Vec<Constant> {
        let mut tensors: Vec<Tensor> = arguments.iter().map(|constant| tensor(constant)).collect();
        let made: Vec<Tensor> = (self.outputs.iter())
            .map(|(dtype, shape)| {
                let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
                let bytes = vec![0; count * usize::from(dtype.bits()).div_ceil(8)];
                tensor(&Constant::new(*dtype, shape, bytes).unwrap())
            })
            .collect();
        tensors.extend(made.iter().cloned());
        self.call(&tensors);
        made.iter()
            .zip(&self.outputs)
            .map(|(tensor, (dtype, shape))| Constant::new(*dtype, shape, bytes_of(tensor)).unwrap())
            .collect()
    }

    pub(crate) fn call(&self, tensors: &[Tensor]) {
        let arguments: Vec<kernpack::Any> = tensors.iter().map(|tensor| kernpack::Any::from(tensor.clone())).collect();
        self.module.function("program").unwrap().call(&arguments[..]).unwrap();
    }
}

/// Returns the outputs of a graph. `argument` returns its arguments, by their name, shape and type.
pub(crate) fn run_graph(
    graph: &Graph,
    argument: impl Fn(&str, &[i64], kernpack::DataType) -> Constant,
) -> Vec<Constant> {
    let values = graph.inputs.iter().map(|id| &graph.values[*id]);
    let arguments: Vec<Constant> = values.map(|value| argument(&value.name, &value.shape, value.dtype)).collect();
    Program::of(graph).unwrap().run(&arguments.iter().collect::<Vec<_>>())
}

fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    let count = i64::try_from(tensor.size_in_bytes()).unwrap();
    tensor.view_as(&[count], kernpack_compiler::ir::U8, 0).unwrap().view::<u8>().unwrap().to_vec()
}
