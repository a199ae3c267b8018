//! Models for other languages: `kernpack.graph.from_onnx` reads one, and methods of
//! `kernpack.graph.Model` compile it.

use std::collections::BTreeMap;

use kernpack::{
    Any, Array, Bytes, DataType, Function, Map, ObjRef, Object, Result, Shape, Str, Tensor, error, object_methods,
    packed_func,
};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{self, IrModule};
use kernpack_compiler::{PassContext, TargetDescription};

use crate::attrs::Attr;
use crate::constant::{Constant, stored};
use crate::graph::{Graph, RangeDim, ValueId};
use crate::lower::{LowerOptions, argument_names, identifier, lower};
use crate::op::{Call, CustomOperator, Operand, Pattern};
use crate::options::ModelOptions;
use crate::print::print;
use crate::tensors::{bytes_of, tensor_of};

/// An input or output of a model: an argument of its function.
#[derive(Object)]
#[object(key = "kernpack.graph.Argument")]
#[repr(C)]
pub struct Argument {
    /// Its name in the function: the name in the model, as an identifier.
    pub name: Str,
    /// The element type of the tensor that is passed.
    pub dtype: DataType,
    /// The extents of the tensor. For dynamic dimensions, the largest ones that kernels are
    /// compiled for.
    pub shape: Shape,
    /// For an output with data-dependent extents: the output with the extents, an `int64` for each
    /// axis. The result is at the start of the tensor along each axis.
    #[field(default = None)]
    pub extents: Option<Str>,
}

/// A model with known shapes. It is immutable, so threads may share it.
#[derive(Object)]
#[object(key = "kernpack.graph.Model", structural = "singleton")]
#[repr(C)]
pub struct Model {
    /// The name of the graph in the file.
    pub name: Str,
    /// The arguments that the function takes first.
    pub inputs: Array<ObjRef<Argument>>,
    /// The arguments after the inputs, which it writes.
    pub outputs: Array<ObjRef<Argument>>,
    /// Incorrect declarations in the file.
    pub warnings: Array<Str>,
    #[field(skip, default = Graph::default())]
    graph: Graph,
}

impl Model {
    /// Wraps a graph for other languages.
    pub fn new(graph: Graph) -> ObjRef<Self> {
        let names = argument_names(&graph);
        let ranged = graph.ranges.as_ref().map(|_| graph.argument_extents());
        let of = |number: usize, id: ValueId, name: &str, extents: Option<&str>| {
            let value = &graph.values[id];
            let largest = ranged.as_ref().map(|all| all[number].iter().map(|extent| extent.by_size[0]).collect());
            let shape = Shape::new(&largest.unwrap_or_else(|| value.shape.clone()));
            ObjRef::new(Argument {
                name: name.into(),
                dtype: stored(value.dtype),
                shape,
                extents: extents.map(Str::from),
            })
        };
        let (taken, given) = names.split_at(graph.inputs.len());
        let inputs = graph.inputs.iter().zip(taken).enumerate();
        let inputs = inputs.map(|(number, (id, name))| of(number, *id, name, None)).collect();
        let outputs = graph.outputs.iter().zip(given).enumerate().map(|(number, ((_, id), name))| {
            // The extents of an output are the next one.
            let extents = graph.extents.contains_key(id).then(|| given.get(number + 1)).flatten();
            of(taken.len() + number, *id, name, extents.map(String::as_str))
        });
        ObjRef::new(Self {
            name: graph.name.as_str().into(),
            inputs,
            outputs: outputs.collect(),
            warnings: graph.warnings.iter().map(|warning| Str::from(warning.as_str())).collect(),
            graph,
        })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}

#[object_methods]
impl Model {
    /// Returns the kernels and the public functions, including `name`, as a program, which
    /// `kernpack.build` compiles for the same target.
    ///
    /// `opt_level`: 0 has plain loops on one thread, 1 schedules of rules, and from 2 on operators
    /// are fused. The actions of the rules, and the reasons why they did not apply, are notes of
    /// the context, which also has the pipeline and the rules.
    ///
    /// # Errors
    /// Returns an error if the name is not an identifier, for an unknown level or target, and for
    /// an error of the compiler in a kernel.
    pub fn lower(&self, name: &str, target: &str, context: PassContext, opt_level: i64) -> Result<IrModule> {
        if identifier(name) != name {
            return Err(error!(ValueError, "`{name}` is not a name of a function: take `{}`", identifier(name)));
        }
        let level = match u8::try_from(opt_level) {
            Ok(level @ 0..=3) => level,
            _ => return Err(error!(ValueError, "opt_level is {opt_level}, and has to be 0, 1, 2 or 3")),
        };
        let target = TargetDescription::of(&Target::parse(target)?);
        Ok(lower(&self.graph, name, &target, &context, LowerOptions::of_level(level))?.module)
    }

    /// Returns the shapes of the outputs of a call with inputs of these shapes. Without dynamic
    /// dimensions they are always the same.
    ///
    /// # Errors
    /// Returns an error for shapes that no call can have, with the input or the dimension.
    pub fn output_shapes(&self, inputs: Array<Shape>) -> Result<Array<Shape>> {
        let inputs: Vec<Vec<i64>> = inputs.iter().map(|shape| shape.to_vec()).collect();
        Ok(self.graph.output_shapes(&inputs)?.iter().map(|shape| Shape::new(shape)).collect())
    }

    /// Returns the weights and other values that are known before run time, by their names.
    ///
    /// # Errors
    /// Returns an error if memory cannot be allocated.
    pub fn known_values(&self) -> Result<Map<Str, Tensor>> {
        let known = self.graph.values.iter().filter_map(|value| Some((&value.name, value.known.as_ref()?)));
        let tensor = |known: &Constant| tensor_of(stored(known.dtype()), known.shape(), known.bytes());
        known.map(|(name, known)| Ok((Str::from(name.as_str()), tensor(known)?))).collect()
    }

    /// Formats the graph for people: a line for each node, with its results, the operator, and its
    /// inputs. Weights are `name: f32[2, 3]`.
    #[operator(str)]
    fn text(&self) -> String {
        print(&self.graph)
    }
}

/// Reads a model of ONNX: the path of a file, or its bytes. Options set the properties that the
/// file does not contain, like the build script does:
///
/// | option | |
/// |---|---|
/// | `dims` | extents by the names of dimensions |
/// | `dims_up_to` | the largest extent of a dynamic dimension, by its name: a batch |
/// | `dims_in` | a list of extents of a dynamic dimension, by its name |
/// | `dims_range` | the least and the largest extent of dynamic dimensions, by their names |
/// | `dims_sum` | dimensions that follow from others, by their names: `"past + tokens"` |
/// | `inputs` | shapes by the names of inputs |
/// | `constants` | tensors by the names of inputs that always have these values |
/// | `sequences` | for each input that is a sequence, the shapes of its tensors |
/// | `bounds` | for each loop whose number of iterations is only known at run time, the maximum, by
/// the names of nodes |
/// | `absent` | names of missing optional inputs |
/// | `outputs` | names of the values to return |
/// | `allow_nan` | true if weights may have NaN elements |
/// | `plain` | true to keep the nodes of the model instead of replacing them with faster
/// equivalents |
/// | `operators` | computations of operators that ONNX does not have: functions by `domain.name`,
/// see below |
/// | `weights` | the type in which weights of matrix products and convolutions are stored:
/// `"float16"` or `"bfloat16"` |
///
/// The function of an operator takes the attributes of a node and its inputs, which are tensors of
/// `kernpack.te` with known shapes (missing ones are `None`), and returns a tensor or a list of
/// them. A pair of a function and a text sets the fusion pattern: `"elementwise"`, `"injective"`,
/// `"reduction"`, `"heavy"`. The default is `"opaque"`.
#[packed_func(name = "kernpack.graph.from_onnx")]
fn from_onnx(source: Any, options: Map<Str, Any>) -> Result<ObjRef<Model>> {
    let options = read(&options)?;
    let imported = match (source.to::<Bytes>(), source.to::<String>()) {
        (Ok(bytes), _) => crate::import(bytes.as_ref(), None, &options)?,
        (_, Ok(path)) => {
            let path = std::path::Path::new(&path);
            let failed = |error: std::io::Error| error!(RuntimeError, "{}: cannot be read: {error}", path.display());
            let bytes = std::fs::read(path).map_err(failed)?;
            crate::import_owned(bytes, path.parent(), &options)
                .map_err(|error| error.within(&path.display().to_string()))?
        }
        _ => {
            let found = source.type_name();
            return Err(error!(TypeError, "a model is the path of a file or its bytes, got {found}"));
        }
    };
    Ok(Model::new(imported.graph))
}

fn read(options: &Map<Str, Any>) -> Result<ModelOptions> {
    let mut all = ModelOptions::default();
    for (name, value) in options.iter() {
        match name.as_str() {
            "dims" => all.dims = value.to()?,
            "dims_up_to" => all.up_to = value.to()?,
            "dims_in" => all.dims_in = value.to()?,
            "dims_range" => {
                let ranges: BTreeMap<String, Vec<i64>> = value.to()?;
                for (name, range) in ranges {
                    let ([least, most] | [least, most, _]) = range[..] else {
                        return Err(error!(
                            ValueError,
                            "dims_range: the dimension '{name}' is given {range:?}, and needs its least and its largest extent, and may have a step"
                        ));
                    };
                    let step = range.get(2).copied().unwrap_or(1);
                    all.ranges.push(RangeDim { name, least, most, step });
                }
            }
            "dims_sum" => all.sums = value.to()?,
            "inputs" => {
                let shapes: BTreeMap<String, Shape> = value.to()?;
                all.inputs = shapes.into_iter().map(|(name, shape)| (name, shape.to_vec())).collect();
            }
            "constants" => {
                let tensors: BTreeMap<String, Tensor> = value.to()?;
                let constants = tensors.into_iter().map(|(name, tensor)| Ok((name, constant(&tensor)?)));
                all.constants = constants.collect::<Result<_>>()?;
            }
            "sequences" => {
                let lists: BTreeMap<String, Vec<Shape>> = value.to()?;
                let extents = |shapes: Vec<Shape>| shapes.iter().map(|shape| shape.to_vec()).collect();
                all.sequences = lists.into_iter().map(|(name, shapes)| (name, extents(shapes))).collect();
            }
            "absent" => all.absent = value.to::<Vec<String>>()?.into_iter().collect(),
            "operators" => {
                let operators: BTreeMap<String, Any> = value.to()?;
                all.operators =
                    operators.into_iter().map(|(name, value)| operator(&name, &value)).collect::<Result<_>>()?;
            }
            "bounds" => all.bounds = value.to()?,
            "outputs" => all.outputs = value.to()?,
            "allow_nan" => all.allow_nan = value.to()?,
            "plain" => all.plain = value.to()?,
            "weights" => all.weights = Some(value.to()?),
            other => {
                return Err(error!(
                    ValueError,
                    "unknown option `{other}`: the options are dims, dims_up_to, dims_in, dims_range, dims_sum, inputs, constants, sequences, bounds, absent, outputs, operators, allow_nan, plain and weights"
                ));
            }
        }
    }
    Ok(all)
}

/// Reads an operator from another language: its function, or a pair of the function and a pattern.
fn operator(full_name: &str, value: &Any) -> Result<CustomOperator> {
    let (domain, name) = full_name.rsplit_once('.').unwrap_or(("", full_name));
    let (function, pattern): (Function, Pattern) = match value.to::<Function>() {
        Ok(function) => (function, Pattern::Opaque),
        Err(_) => {
            let (function, pattern): (Function, String) = value.to()?;
            let found = PATTERNS.iter().find(|(name, _)| *name == pattern);
            let Some((_, known)) = found else {
                let names: Vec<&str> = PATTERNS.iter().map(|(name, _)| *name).collect();
                return Err(error!(ValueError, "unknown pattern `{pattern}`: the patterns are {}", names.join(", ")));
            };
            (function, *known)
        }
    };
    let make = move |call: &Call| {
        let attrs: Map<Str, Any> =
            call.attrs.iter().map(|(name, value)| Ok((name.into(), any(value)?))).collect::<crate::Result<_>>()?;
        let tensor = |input: &Option<Operand>| match input {
            Some(input) => Any::from(input.tensor.clone()),
            None => Any::NONE,
        };
        let inputs: Array<Any> = call.inputs.iter().map(tensor).collect();
        let made: Any = function.call((attrs, inputs))?;
        match made.to::<ir::Tensor>() {
            Ok(one) => Ok(vec![one]),
            Err(_) => Ok(made.to::<Array<ir::Tensor>>()?.to_vec()),
        }
    };
    Ok(CustomOperator::new(domain, name, make).pattern(pattern))
}

/// The patterns by their names in other languages.
const PATTERNS: [(&str, Pattern); 5] = [
    ("elementwise", Pattern::Elementwise),
    ("injective", Pattern::Injective),
    ("reduction", Pattern::Reduction),
    ("heavy", Pattern::Heavy),
    ("opaque", Pattern::Opaque),
];

/// Converts an attribute for other languages.
fn any(value: &Attr) -> crate::Result<Any> {
    Ok(match value {
        Attr::Float(value) => f64::from(*value).into(),
        Attr::Int(value) => (*value).into(),
        Attr::Text(value) => Str::from(value.as_str()).into(),
        Attr::Tensor(value) => tensor_of(stored(value.dtype()), value.shape(), value.bytes())?.into(),
        Attr::Floats(values) => values.iter().map(|value| f64::from(*value)).collect::<Array<f64>>().into(),
        Attr::Ints(values) => values.iter().copied().collect::<Array<i64>>().into(),
        Attr::Texts(values) => values.iter().map(|value| Str::from(value.as_str())).collect::<Array<Str>>().into(),
    })
}

fn constant(tensor: &Tensor) -> Result<Constant> {
    Ok(Constant::new(tensor.dtype(), tensor.shape(), bytes_of(tensor)?)?)
}
