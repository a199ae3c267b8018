//! Runs node tests of ONNX: `node_tests FOLDER..`, each with `model.onnx` and `test_data_set_*/{input,output}_*.pb`. `cargo xtask onnx` calls it.
//!
//! For each test: a line `begin NAME`, and then `passed`, `unsupported REASON` or `failed REASON`. Inputs that operators need to know when a model is compiled
//! (shapes, axes) become constants, with the values that the test has; nothing else is promoted.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use kernpack::{Device, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{BF16, DataTypeExt, U8, U16};
use kernpack_graph::onnx::{self, Dim, ValueType};
use kernpack_graph::{Constant, LowerOptions, ModelOptions, build, import};

/// Inputs that have to be known, by operator.
const SHAPES: &[(&str, &[usize])] = &[
    ("Reshape", &[1]),
    ("Slice", &[1, 2, 3, 4]),
    ("Split", &[1]),
    ("Squeeze", &[1]),
    ("Unsqueeze", &[1]),
    ("Expand", &[1]),
    ("Tile", &[1]),
    ("Pad", &[1, 3]),
    ("CumSum", &[1]),
    ("OneHot", &[1]),
    ("Range", &[0, 1, 2]),
    ("ConstantOfShape", &[0]),
    ("Trilu", &[1]),
    ("Dropout", &[1, 2]),
    ("CenterCropPad", &[1]),
    ("ReduceSum", &[1]),
    ("ReduceMean", &[1]),
    ("ReduceMax", &[1]),
    ("ReduceMin", &[1]),
    ("ReduceProd", &[1]),
    ("ReduceL1", &[1]),
    ("ReduceL2", &[1]),
    ("ReduceLogSum", &[1]),
    ("ReduceLogSumExp", &[1]),
    ("ReduceSumSquare", &[1]),
    ("Resize", &[1, 2, 3]),
    ("TopK", &[1]),
    ("Upsample", &[1]),
    ("AffineGrid", &[1]),
    ("Col2Im", &[1, 2]),
    ("MaxUnpool", &[2]),
    ("DFT", &[1, 2]),
    ("STFT", &[1, 3]),
    ("BlackmanWindow", &[0]),
    ("HannWindow", &[0]),
    ("HammingWindow", &[0]),
    ("MelWeightMatrix", &[0, 1, 2, 3, 4]),
];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() {
    for folder in std::env::args().skip(1) {
        let folder = PathBuf::from(folder);
        println!("begin {}", folder.file_name().unwrap_or_default().to_string_lossy());
        match run(&folder) {
            Ok(()) => println!("passed"),
            Err(error) => {
                let reason = error.to_string().replace('\n', " | ");
                let short: String = reason.chars().take(300).collect();
                let is_unsupported = ["not supported", "has to be known", "has to be one number", "is not evaluated"];
                let word =
                    if is_unsupported.iter().any(|text| reason.contains(text)) { "unsupported" } else { "failed" };
                println!("{word} {short}");
            }
        }
    }
}

/// The tensors of a data set by their numbers.
fn tensors(set: &Path, prefix: &str) -> Outcome<Vec<Constant>> {
    let mut found = Vec::new();
    for number in 0.. {
        let file = set.join(format!("{prefix}_{number}.pb"));
        if !file.is_file() {
            break;
        }
        let bytes = fs::read(&file)?;
        let raw = onnx::read_tensor(&bytes)?;
        found.push(onnx::to_constant(&raw, &|_, _, _| Ok(Vec::new()))?);
    }
    Ok(found)
}

fn run(folder: &Path) -> Outcome<()> {
    let bytes = fs::read(folder.join("model.onnx"))?;
    let model = onnx::read_model(&bytes)?;
    for value in model.graph.inputs.iter().chain(&model.graph.outputs) {
        if let ValueType::Other(what) = &value.ty {
            return Err(format!("'{}' is {what}, which is not supported", value.name).into());
        }
    }
    let set = folder.join("test_data_set_0");
    let (inputs, outputs) = (tensors(&set, "input")?, tensors(&set, "output")?);
    let is_shape = |model: &onnx::Model<'_>, name: &str| {
        model.graph.nodes.iter().any(|node| {
            let indices = SHAPES.iter().find(|(op, _)| *op == node.op_type).map_or(&[][..], |(_, indices)| indices);
            indices.iter().any(|index| node.inputs.get(*index).is_some_and(|input| input == name))
        })
    };
    // A function written out has the inputs of the operator.
    let whole = folder.to_string_lossy().split_once("_expanded").map(|(whole, _)| PathBuf::from(whole));
    let whole = whole.and_then(|whole| fs::read(whole.join("model.onnx")).ok()).unwrap_or_default();
    let whole = onnx::read_model(&whole).ok();
    let promoted = |name: &str| is_shape(&model, name) || whole.as_ref().is_some_and(|whole| is_shape(whole, name));
    // Data of bfloat16 is written as uint16.
    let inputs: Vec<Constant> = model
        .graph
        .inputs
        .iter()
        .zip(inputs)
        .map(|(input, constant)| as_declared(&input.ty, constant))
        .collect::<Outcome<_>>()?;
    let outputs: Vec<Constant> = model
        .graph
        .outputs
        .iter()
        .zip(outputs)
        .map(|(output, constant)| as_declared(&output.ty, constant))
        .collect::<Outcome<_>>()?;
    let mut options = ModelOptions::default();
    let mut given: BTreeMap<&str, &Constant> = BTreeMap::new();
    for (input, constant) in model.graph.inputs.iter().zip(&inputs) {
        given.insert(&input.name, constant);
        if promoted(&input.name) {
            options.constants.insert(input.name.clone(), constant.clone());
        } else if let ValueType::Tensor(_, Some(dims)) = &input.ty
            && dims.iter().any(|dim| matches!(dim, Dim::Named(_)))
        {
            options.inputs.insert(input.name.clone(), constant.shape().to_vec());
        } else if matches!(&input.ty, ValueType::Tensor(_, None)) {
            options.inputs.insert(input.name.clone(), constant.shape().to_vec());
        }
    }
    let imported = import(&bytes, Some(folder), &options)?;
    let graph = &imported.graph;
    let (module, _) = build(graph, "model", &Target::host(), LowerOptions::default())?;
    let mut arguments = Vec::new();
    for id in &graph.inputs {
        let constant = given.get(graph.values[*id].name.as_str()).ok_or("an input without data")?;
        arguments.push(tensor(constant)?);
    }
    for (_, id) in &graph.outputs {
        let value = &graph.values[*id];
        arguments.push(Tensor::empty(value.dtype, &value.shape, Device::CPU)?);
    }
    let packed: Vec<kernpack::Any> = arguments.iter().map(|tensor| tensor.clone().into()).collect();
    module.function("model")?.call(&packed[..])?;
    for (number, (expected, result)) in outputs.iter().zip(&arguments[graph.inputs.len()..]).enumerate() {
        compare(expected, result).map_err(|error| format!("output {number}: {error}"))?;
    }
    if graph.outputs.len() < outputs.len() {
        return Err("outputs are missing".into());
    }
    Ok(())
}

fn as_declared(ty: &ValueType, constant: Constant) -> Outcome<Constant> {
    Ok(match ty {
        ValueType::Tensor(element, _) if onnx::dtype_of(*element)? == BF16 && constant.dtype() == U16 => {
            Constant::new(BF16, constant.shape(), constant.bytes())?
        }
        _ => constant,
    })
}

fn tensor(constant: &Constant) -> Outcome<Tensor> {
    if constant.is_empty() {
        return Ok(Tensor::empty(constant.dtype(), constant.shape(), Device::CPU)?);
    }
    let count = i64::try_from(constant.bytes().len())?;
    Ok(Tensor::from_slice(constant.bytes(), &[count])?.view_as(constant.shape(), constant.dtype(), 0)?)
}

/// As ONNX's own runner: relative 1e-3, absolute 1e-7; integers exactly.
fn compare(expected: &Constant, result: &Tensor) -> Outcome<()> {
    if expected.dtype() != result.dtype() || expected.shape() != result.shape() {
        let (dtype, shape) = (result.dtype(), result.shape());
        return Err(format!("expected {expected:?}, got {dtype}{shape:?}").into());
    }
    if expected.is_empty() {
        return Ok(());
    }
    let count = i64::try_from(expected.bytes().len())?;
    let bytes = result.view_as(&[count], U8, 0)?;
    let got = Constant::new(expected.dtype(), expected.shape(), bytes.view::<u8>()?.to_vec())?;
    if !expected.dtype().is_float() {
        let (expected, got) = (expected.to_ints()?, got.to_ints()?);
        return match expected.iter().zip(&got).position(|(expected, got)| expected != got) {
            Some(index) => Err(format!("element {index}: expected {}, got {}", expected[index], got[index]).into()),
            None => Ok(()),
        };
    }
    for (index, (expected, got)) in expected.to_floats()?.into_iter().zip(got.to_floats()?).enumerate() {
        let is_equal = expected == got
            || expected.is_nan() && got.is_nan()
            || (expected - got).abs() <= 1e-7 + 1e-3 * expected.abs();
        if !is_equal {
            return Err(format!("element {index}: expected {expected}, got {got}").into());
        }
    }
    Ok(())
}
