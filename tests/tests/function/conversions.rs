//! The conversion rules of `tests/python/conversions.json`, from Rust.
//! `tests/python/test_conversions.py` runs the same rows from Python and documents their format.

use std::path::PathBuf;
use std::ptr;

use kernpack::sys::abi::{DLTensor, TVMFFIAny, device_type, type_index};
use kernpack::{Any, AnyView, Array, Bytes, DataType, Device, IntoAny, Map, Module, Result, Shape, Str, Tensor};
use serde_json::{Value, json};

/// Cargo builds the library as a dependency of this test, next to it.
fn library() -> Module {
    let path: PathBuf = std::env::current_exe().unwrap().with_file_name("libconversions.so");
    Module::load(path.to_str().unwrap()).unwrap()
}

fn rows() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/python/conversions.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_row() {
    let library = library();
    let (mut ran, mut failures) = (0, Vec::new());
    for row in rows() {
        if row.get("hosts").is_some_and(|hosts| !hosts.as_array().unwrap().contains(&json!("rust"))) {
            continue;
        }
        ran += 1;
        let (got, expected) = (run(&library, &row), plain(row.get("result").or(row.get("error")).unwrap()));
        if got != expected {
            failures.push(format!("{}\n  expected {expected}\n  got      {got}", row["rule"]));
        }
    }
    assert!(ran > 150, "only {ran} rows ran");
    assert!(failures.is_empty(), "{} of {ran} rows failed:\n{}", failures.len(), failures.join("\n"));
}

/// The result of a row as JSON, or its error as `[kind, message]`.
fn run(library: &Module, row: &Value) -> Value {
    let arguments: Vec<Argument> =
        row["args"].as_array().unwrap().iter().map(|argument| Argument::decode(argument, library)).collect();
    let views: Vec<AnyView<'_>> = arguments.iter().map(Argument::view).collect();
    let function = library.function(row["function"].as_str().unwrap()).unwrap();
    match function.call(views.as_slice()).and_then(|result| encode(&result)) {
        Ok(value) => value,
        Err(error) => json!([error.kind(), error.message()]),
    }
}

/// An argument and the data that it borrows.
enum Argument {
    Value(Any),
    Tensor(Box<BorrowedTensor>),
}

/// A tensor with any strides, offset and alignment, passed as a `DLTensor*`.
struct BorrowedTensor {
    tensor: DLTensor,
    _shape: Vec<i64>,
    _strides: Option<Vec<i64>>,
    _memory: Vec<u64>,
}

impl Argument {
    fn decode(value: &Value, library: &Module) -> Self {
        match value.get("tensor") {
            Some(tensor)
                if ["strides", "byte_offset", "misaligned", "device"].iter().any(|key| tensor.get(key).is_some()) =>
            {
                Self::Tensor(BorrowedTensor::decode(tensor))
            }
            _ => Self::Value(decode(value, library)),
        }
    }

    fn view(&self) -> AnyView<'_> {
        match self {
            Self::Value(value) => *value.as_view(),
            Self::Tensor(borrowed) => {
                let pointer = ptr::from_ref(&borrowed.tensor).cast_mut().cast();
                // SAFETY: the tensor and the data that it points to live as long as the view.
                unsafe { AnyView::from_raw(TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, pointer)) }
            }
        }
    }
}

impl BorrowedTensor {
    fn decode(tensor: &Value) -> Box<Self> {
        let dtype: DataType = tensor["dtype"].as_str().unwrap().parse().unwrap();
        let bytes: Vec<u8> = match tensor["dtype"].as_str().unwrap() {
            "int32" => integers(&tensor["data"]).iter().flat_map(|&x| (x as i32).to_ne_bytes()).collect(),
            "uint8" => integers(&tensor["data"]).iter().map(|&x| x as u8).collect(),
            other => panic!("no strided tensors of {other}"),
        };
        let start = usize::from(tensor.get("misaligned").is_some());
        let mut memory = vec![0_u64; (start + bytes.len()).div_ceil(8)];
        // SAFETY: the memory has room for `start + bytes.len()` bytes.
        let data = unsafe {
            let data = memory.as_mut_ptr().cast::<u8>().add(start);
            data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            data
        };
        let mut shape = integers(&tensor["shape"]);
        let mut strides = tensor.get("strides").map(integers);
        let tensor = DLTensor {
            data: data.cast(),
            device: tensor.get("device").map_or(Device::CPU, |name| device(name.as_str().unwrap())).as_raw(),
            ndim: shape.len() as i32,
            dtype: dtype.as_raw(),
            shape: shape.as_mut_ptr(),
            // NULL strides mean row-major, which is a separate rule.
            strides: strides.as_mut().map_or(ptr::null_mut(), Vec::as_mut_ptr),
            byte_offset: tensor.get("byte_offset").map_or(0, |offset| offset.as_u64().unwrap()),
        };
        Box::new(Self { tensor, _shape: shape, _strides: strides, _memory: memory })
    }
}

fn integers(values: &Value) -> Vec<i64> {
    values.as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).collect()
}

/// Tags of values that have a class only in a Python extension module.
const PLAIN: [&str; 6] = ["path", "address", "set", "timedelta", "datetime", "complex"];

/// A JSON value without the tags of [`PLAIN`].
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(elements) => elements.iter().map(plain).collect(),
        Value::Object(object) => match object.iter().next() {
            Some((tag, content)) if PLAIN.contains(&tag.as_str()) => plain(content),
            _ => object.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        },
        value => value.clone(),
    }
}

/// The value that a JSON value stands for.
fn decode(value: &Value, library: &Module) -> Any {
    let object = match value {
        Value::Null => return Any::NONE,
        Value::Bool(bool) => return Any::from(*bool),
        Value::Number(number) => {
            let int = number.as_i64().map(Any::from).or(number.as_u64().map(Any::from));
            return int.unwrap_or_else(|| Any::from(number.as_f64().unwrap()));
        }
        Value::String(text) => return Any::from(text.as_str()),
        Value::Array(elements) => return array(elements, library),
        Value::Object(object) => object,
    };
    let (tag, content) = object.iter().next().unwrap();
    let text = || content.as_str().unwrap();
    match tag.as_str() {
        "bytes" => Any::from(unhex(text()).as_slice()),
        "float" => Any::from(text().parse::<f64>().unwrap()),
        "integer" => match text().parse::<i128>() {
            Ok(number) => number.into_any(),
            Err(_) => text().parse::<u128>().unwrap().into_any(),
        },
        tag if PLAIN.contains(&tag) => decode(content, library),
        "map" => {
            let pairs =
                content.as_array().unwrap().iter().map(|pair| (decode(&pair[0], library), decode(&pair[1], library)));
            pairs.collect::<Map<Any, Any>>().into_any()
        }
        "dtype" => Any::from(text().parse::<DataType>().unwrap()),
        "device" => Any::from(device(text())),
        "shape" => Shape::new(&integers(content)).into_any(),
        "tensor" => Any::from(tensor(content)),
        "function" => Any::from(library.function(text()).unwrap()),
        "module" => library.clone().into_any(),
        "point" | "place" => {
            let arguments: Vec<Any> =
                content.as_array().unwrap().iter().map(|argument| decode(argument, library)).collect();
            library.function(tag).unwrap().call(arguments.as_slice()).unwrap()
        }
        _ => panic!("unknown tag {tag}"),
    }
}

/// `cpu:0`, `cuda:1`.
fn device(name: &str) -> Device {
    match name.split_once(':') {
        Some(("cpu", index)) => Device::new(device_type::CPU, index.parse().unwrap()),
        Some(("cuda", index)) => Device::cuda(index.parse().unwrap()),
        _ => panic!("unknown device {name}"),
    }
}

fn array(elements: &[Value], library: &Module) -> Any {
    elements.iter().map(|element| decode(element, library)).collect::<Array<Any>>().into_any()
}

fn tensor(tensor: &Value) -> Tensor {
    let shape = integers(&tensor["shape"]);
    let floats = || tensor["data"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap());
    match tensor["dtype"].as_str().unwrap() {
        "float32" => Tensor::from_vec(floats().map(|value| value as f32).collect(), &shape).unwrap(),
        "float64" => Tensor::from_vec(floats().collect::<Vec<f64>>(), &shape).unwrap(),
        "int32" => Tensor::from_vec(integers(&tensor["data"]).iter().map(|&x| x as i32).collect(), &shape).unwrap(),
        "int16" => Tensor::from_vec(integers(&tensor["data"]).iter().map(|&x| x as i16).collect(), &shape).unwrap(),
        "uint8" => Tensor::from_vec(integers(&tensor["data"]).iter().map(|&x| x as u8).collect(), &shape).unwrap(),
        other => panic!("no tensors of {other}"),
    }
}

/// The JSON value that stands for a result.
fn encode(value: &Any) -> Result<Value> {
    Ok(match value.type_index() {
        type_index::NONE => Value::Null,
        type_index::BOOL => json!(value.to::<bool>()?),
        type_index::INT => json!(value.to::<i64>()?),
        type_index::BIG_INT => match (value.to::<u64>(), value.to::<i128>()) {
            (Ok(number), _) => json!(number),
            (_, Ok(number)) => json!({"integer": number.to_string()}),
            _ => json!({"integer": value.to::<u128>()?.to_string()}),
        },
        type_index::FLOAT => match value.to::<f64>()? {
            special if !special.is_finite() => json!({"float": special.to_string().to_lowercase()}),
            finite => json!(finite),
        },
        type_index::SMALL_STR | type_index::STR => json!(value.to::<String>()?),
        type_index::SMALL_BYTES | type_index::BYTES => json!({"bytes": hex(&value.to::<Bytes>()?)}),
        type_index::DATA_TYPE => json!({"dtype": value.to::<DataType>()?.to_string()}),
        type_index::DEVICE => json!({"device": value.to::<Device>()?.to_string()}),
        type_index::SHAPE => json!({"shape": value.to::<Shape>()?.to_vec()}),
        type_index::ARRAY => {
            json!(value.to::<Array<Any>>()?.iter().map(|element| encode(&element)).collect::<Result<Vec<_>>>()?)
        }
        type_index::MAP => {
            let entry = |(key, value)| Ok(json!([encode(&key)?, encode(&value)?]));
            let mut entries = value.to::<Map<Any, Any>>()?.iter().map(entry).collect::<Result<Vec<_>>>()?;
            // A HashMap has no order.
            entries.sort_by(|a, b| (a[0].as_i64(), a[0].as_str()).cmp(&(b[0].as_i64(), b[0].as_str())));
            json!({"map": entries})
        }
        type_index::TENSOR => encode_tensor(&value.to()?)?,
        type_index::FUNCTION => json!({"function": true}),
        _ => encode_object(value)?,
    })
}

fn encode_tensor(tensor: &Tensor) -> Result<Value> {
    let dtype = tensor.dtype().to_string();
    let data = match dtype.as_str() {
        "float32" => json!(tensor.view::<f32>()?.to_vec()),
        _ => json!(tensor.view::<i32>()?.to_vec()),
    };
    Ok(json!({"tensor": {"dtype": dtype, "shape": tensor.shape(), "data": data}}))
}

fn encode_object(value: &Any) -> Result<Value> {
    let key = value.type_name();
    let mut object = json!({"object": key, "x": value.field("x")?.to::<i64>()?, "y": value.field("y")?.to::<i64>()?});
    if key == "conversions.Place" {
        object["name"] = json!(value.field("name")?.to::<Str>()?.to_string());
    }
    Ok(object)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn writes_in_place_and_only_into_memory_of_its_own() {
    let library = library();
    let tensor = Tensor::from_vec(vec![1_i32, 2, 3], &[3]).unwrap();
    library.function("increase_i32").unwrap().call((&tensor, 10)).unwrap();
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [11, 12, 13]);

    let copy = library.function("copy_i32").unwrap();
    let target = Tensor::zeros::<i32>(&[3]).unwrap();
    copy.call((&tensor, &target)).unwrap();
    assert_eq!(target.view::<i32>().unwrap().to_vec(), [11, 12, 13]);
    let error = copy.call((&target, &target)).unwrap_err();
    assert_eq!(error.kind(), "ValueError");
    assert!(error.message().contains("arguments 'src' and 'dst' share memory"), "{error}");
}
