//! Runs node tests of ONNX: `node_tests FOLDER..`, each with `model.onnx` and
//! `test_data_set_*/{input,output}_*.pb`. `cargo xtask onnx` calls it.
//!
//! For each test it prints a line `begin NAME`, and then `passed`, `unsupported REASON` or
//! `failed REASON`. Inputs that operators must know at compile time (shapes, axes) become constants
//! with the values of the test; so do the values that such an input is computed from. No other
//! input is promoted. Sequences have the lengths of the test, and optional values are present or
//! missing as in the test.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use kernpack::{DataType, Device, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{BF16, DataTypeExt, U8, U16};
use kernpack_graph::onnx::{self, Dim, ValueType};
use kernpack_graph::text::{TextModel, TextValue, has_texts};
use kernpack_graph::{Constant, LowerOptions, ModelOptions, build, import, stored};

/// Inputs that must be known at compile time, by operator.
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
    ("CumProd", &[1]),
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
    ("Loop", &[0, 1]),
    ("SequenceAt", &[1]),
    ("SequenceErase", &[1]),
    ("SequenceInsert", &[2]),
    ("SplitToSequence", &[1]),
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

/// Operators that only read the structure of a tensor.
const STRUCTURE: [&str; 4] = ["Shape", "Size", "SequenceLength", "OptionalHasElement"];

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

/// An input or output of a test.
enum Data {
    Tensor(Constant),
    Sequence(Vec<Constant>),
    Nothing,
}

/// Reads the contents of a test file.
fn data(bytes: &[u8], ty: &ValueType) -> Outcome<Data> {
    let constant = |raw| onnx::to_constant(raw, &|_, _, _| Ok(Vec::new()));
    Ok(match ty {
        ValueType::Optional(ty) => match onnx::read_optional(bytes)? {
            Some(inner) => data(inner, ty)?,
            None => Data::Nothing,
        },
        ValueType::Sequence(_) => {
            let tensors = onnx::read_sequence(bytes)?;
            Data::Sequence(tensors.iter().map(constant).collect::<Result<_, _>>()?)
        }
        // Data of bfloat16 is written as uint16.
        ty => Data::Tensor(as_declared(ty, constant(&onnx::read_tensor(bytes)?)?)?),
    })
}

/// Reads the data of a test for inputs or outputs of a model.
fn data_of(set: &Path, prefix: &str, values: &[onnx::ValueInfo]) -> Outcome<Vec<Data>> {
    let mut found = Vec::new();
    for (number, value) in values.iter().enumerate() {
        let file = set.join(format!("{prefix}_{number}.pb"));
        // Inputs with default values come last, and have no data.
        if !file.is_file() {
            break;
        }
        found.push(data(&fs::read(&file)?, &value.ty).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(found)
}

/// Returns the values that must be known, and those that they are computed from.
fn promoted(model: &onnx::Model<'_>) -> BTreeSet<String> {
    let nodes = &model.graph.nodes;
    let mut names: BTreeSet<String> = BTreeSet::new();
    for node in nodes {
        let mut indices = SHAPES.iter().find(|(op, _)| *op == node.op_type).map_or(&[][..], |(_, indices)| indices);
        // Branches whose results have different structures.
        let has_structure = |value: &onnx::ValueInfo| !matches!(value.ty, ValueType::Tensor(..));
        if node.op_type == "If" && model.graph.outputs.iter().any(has_structure) {
            indices = &[0];
        }
        names.extend(indices.iter().filter_map(|index| node.inputs.get(*index)).cloned());
    }
    loop {
        let before = names.len();
        for node in nodes.iter().filter(|node| !STRUCTURE.contains(&node.op_type.as_str())) {
            if node.outputs.iter().any(|output| names.contains(output)) {
                names.extend(node.inputs.iter().cloned());
            }
        }
        if names.len() == before {
            return names;
        }
    }
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
    if has_texts(&model) {
        return run_texts(&bytes, &set);
    }
    let inputs = data_of(&set, "input", &model.graph.inputs)?;
    let outputs = data_of(&set, "output", &model.graph.outputs)?;
    // An inlined function has the inputs of the operator.
    let whole = folder.to_string_lossy().split_once("_expanded").map(|(whole, _)| PathBuf::from(whole));
    let whole = whole.and_then(|whole| fs::read(whole.join("model.onnx")).ok());
    let mut promoted = promoted(&model);
    if let Some(whole) = &whole {
        promoted.extend(self::promoted(&onnx::read_model(whole)?));
    }
    let mut options = ModelOptions::default();
    let mut given: BTreeMap<String, Constant> = BTreeMap::new();
    for (input, data) in model.graph.inputs.iter().zip(inputs) {
        let name = input.name.clone();
        match data {
            Data::Nothing => _ = options.absent.insert(name),
            Data::Sequence(constants) => {
                let shapes = constants.iter().map(|constant| constant.shape().to_vec()).collect();
                options.sequences.insert(name.clone(), shapes);
                given.extend(constants.into_iter().enumerate().map(|(index, one)| (format!("{name}_{index}"), one)));
            }
            Data::Tensor(constant) if promoted.contains(&name) => _ = options.constants.insert(name, constant),
            Data::Tensor(constant) => {
                let ty = match &input.ty {
                    ValueType::Optional(ty) => ty,
                    ty => ty,
                };
                let is_open = match ty {
                    ValueType::Tensor(_, Some(dims)) => dims.iter().any(|dim| matches!(dim, Dim::Named(_))),
                    _ => true,
                };
                if is_open {
                    options.inputs.insert(name.clone(), constant.shape().to_vec());
                }
                given.insert(name, constant);
            }
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
        arguments.push(Tensor::empty(stored(value.dtype), &value.shape, Device::CPU)?);
    }
    let packed: Vec<kernpack::Any> = arguments.iter().map(|tensor| tensor.clone().into()).collect();
    module.function("model")?.call(&packed[..])?;
    let mut results = graph.outputs.iter().zip(&arguments[graph.inputs.len()..]);
    let expected = outputs.into_iter().flat_map(|data| match data {
        Data::Tensor(constant) => vec![constant],
        Data::Sequence(constants) => constants,
        Data::Nothing => Vec::new(),
    });
    for (number, expected) in expected.enumerate() {
        let Some(((_, id), result)) = results.next() else { return Err("outputs are missing".into()) };
        let mut got = constant_of(result)?.retyped(graph.values[*id].dtype)?;
        if graph.extents.contains_key(id) {
            let Some((_, extents)) = results.next() else { return Err("extents are missing".into()) };
            got = got.corner(&constant_of(extents)?.to_ints()?)?;
        }
        compare(&expected, &got).map_err(|error| format!("output {number}: {error}"))?;
    }
    match results.next() {
        Some(((name, _), _)) => Err(format!("there is another output '{name}'").into()),
        None => Ok(()),
    }
}

/// Runs a model of texts step by step.
fn run_texts(bytes: &[u8], set: &Path) -> Outcome<()> {
    let model = TextModel::read(bytes)?;
    let values = |prefix: &str, count: usize| -> Outcome<Vec<TextValue>> {
        let value = |number| -> Outcome<TextValue> {
            let bytes = fs::read(set.join(format!("{prefix}_{number}.pb")))?;
            Ok(TextValue::from_raw(&onnx::read_tensor(&bytes)?)?)
        };
        (0..count).map(value).collect()
    };
    let results = model.run(&values("input", model.inputs().count())?)?;
    for (number, (expected, got)) in values("output", results.len())?.iter().zip(&results).enumerate() {
        let outcome = match (expected, got) {
            (TextValue::Numbers(expected), TextValue::Numbers(got)) => compare(expected, got),
            (expected, got) if expected == got => Ok(()),
            (expected, got) => Err(format!("expected {expected:?}, got {got:?}").into()),
        };
        outcome.map_err(|error| format!("output {number}: {error}"))?;
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
    let constant = &constant.retyped(stored(constant.dtype()))?;
    if constant.is_empty() {
        return Ok(Tensor::empty(constant.dtype(), constant.shape(), Device::CPU)?);
    }
    let count = i64::try_from(constant.bytes().len())?;
    Ok(Tensor::from_slice(constant.bytes(), &[count])?.view_as(constant.shape(), constant.dtype(), 0)?)
}

/// Returns the elements of a result.
fn constant_of(result: &Tensor) -> Outcome<Constant> {
    let (dtype, shape) = (result.dtype(), result.shape().to_vec());
    let count = kernpack_graph::num_elements(&shape)? * kernpack_graph::element_bytes(dtype);
    if count == 0 {
        return Ok(Constant::new(dtype, &shape, Vec::new())?);
    }
    let bytes = result.view_as(&[i64::try_from(count)?], U8, 0)?;
    Ok(Constant::new(dtype, &shape, bytes.view::<u8>()?.to_vec())?)
}

/// Returns true if a code of an 8-bit float is NaN.
fn is_nan(dtype: DataType, code: i64) -> bool {
    match dtype.to_string().as_str() {
        "float8_e4m3fn" => code & 0x7f == 0x7f,
        "float8_e4m3fnuz" | "float8_e5m2fnuz" => code == 0x80,
        "float8_e5m2" => code & 0x7f > 0x7c,
        "float8_e8m0fnu" => code == 0xff,
        _ => false,
    }
}

/// Compares like ONNX's own runner: relative 1e-3, absolute 1e-7; integers exactly.
fn compare(expected: &Constant, got: &Constant) -> Outcome<()> {
    if expected.dtype() != got.dtype() || expected.shape() != got.shape() {
        return Err(format!("expected {expected:?}, got {got:?}").into());
    }
    if expected.dtype() == BF16 {
        // The runner reads the numbers as 16-bit integers, and compares these with the same
        // tolerance.
        let (expected, got) = (expected.retyped(U16)?.to_ints()?, got.retyped(U16)?.to_ints()?);
        let is_equal = |(expected, got): (&i64, &i64)| {
            expected == got || expected.abs_diff(*got) <= expected.unsigned_abs() / 1000
        };
        return match expected.iter().zip(&got).position(|pair| !is_equal(pair)) {
            Some(index) => {
                Err(format!("element {index}: expected bits {}, got {}", expected[index], got[index]).into())
            }
            None => Ok(()),
        };
    }
    // Types without arithmetic are compared by their bits.
    let element = expected.dtype();
    let (expected, got) = (&expected.retyped(stored(expected.dtype()))?, &got.retyped(stored(got.dtype()))?);
    if !expected.dtype().is_float() {
        let (expected, got) = (expected.to_ints()?, got.to_ints()?);
        // There are several codes for NaN.
        let is_nan = |code: i64| is_nan(element, code);
        let is_equal = |expected: i64, got: i64| expected == got || is_nan(expected) && is_nan(got);
        return match expected.iter().zip(&got).position(|(expected, got)| !is_equal(*expected, *got)) {
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
