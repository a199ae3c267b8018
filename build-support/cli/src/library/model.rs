//! Models of a library: their own descriptions, and the times of their kernels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kernpack::{Any, Array, BF16, DataType, Device, F16, Function, Module, Tensor};
use serde_json::{Value, json};

use super::shape::Shape;

/// The duration for which each kernel is run repeatedly, and the one for the whole model.
const PATIENCE: Duration = Duration::from_millis(20);
const PATIENCE_OF_ALL: Duration = Duration::from_millis(300);

/// Returns the descriptions of the models of a library: the results of `NAME_info`, for functions
/// `NAME` with a function `NAME_steps`. With `time`, which may set the extents of dynamic
/// dimensions, each kernel has its time in nanoseconds as `time`, the shortest of many calls on
/// random numbers, and the whole model has `time`, too. `problem` is the reason if there are no
/// times.
pub(crate) fn describe(module: &Module, time: Option<&Shape>) -> Vec<Value> {
    let names: BTreeSet<String> = module.function_names().into_iter().collect();
    let mut models = Vec::new();
    for name in &names {
        let beside = |suffix: &str| names.contains(&format!("{name}{suffix}"));
        if !beside("_info") || !beside("_steps") {
            continue;
        }
        let info = module.function(&format!("{name}_info")).and_then(|function| function.call_as::<String>(()));
        let info = info.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let Some(mut info) = info.filter(|info| info["name"] == **name && info["schema"].is_u64()) else { continue };
        if let Some(shape) = time
            && let Err(problem) = measure(module, name, &mut info, shape, beside("_run"))
        {
            info["problem"] = json!(problem.to_string());
        }
        models.push(info);
    }
    models
}

/// Returns the dynamic dimensions of a model, each with its largest extent.
pub(crate) fn dimensions(info: &Value) -> Vec<(&str, i64)> {
    let list = |key: &str| info[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let ranges = list("ranges").iter().map(|dim| (&dim["dimension"], dim["most"].as_i64()));
    let parts = Some(&info["parts"]).filter(|dim| dim.is_object());
    let parts = parts.into_iter().map(|dim| (&dim["dimension"], dim["most"].as_i64()));
    let sizes = Some(&info["sizes"]).filter(|dim| dim.is_object());
    let largest = |dim: &Value| dim["extents"].as_array()?.iter().filter_map(Value::as_i64).max();
    let sizes = sizes.into_iter().map(|dim| (&dim["dimension"], largest(dim)));
    ranges.chain(parts).chain(sizes).filter_map(|(name, most)| Some((name.as_str()?, most?))).collect()
}

/// Measures a model and its kernels on random numbers. With other extents than the largest ones,
/// only the kernels of a model with ranges are measured: others have kernels for each extent.
fn measure(module: &Module, name: &str, info: &mut Value, shape: &Shape, has_run: bool) -> kernpack::Result<()> {
    let extents: Vec<(String, i64)> =
        dimensions(info).into_iter().map(|(name, most)| (name.to_owned(), shape.get(name).unwrap_or(most))).collect();
    let chosen = extents.iter().any(|(name, _)| shape.get(name).is_some());
    // Without them, the extents of the description are those of its kernels.
    let given = if chosen { &extents[..] } else { &[] };
    let inputs: Vec<Tensor> = arguments(info, "inputs", given, random)?;
    let outputs: Vec<Tensor> = if chosen && has_run {
        let args: Vec<Any> = inputs.iter().cloned().map(Any::from).collect();
        let outputs = module.function(&format!("{name}_run"))?.call(&args[..])?;
        outputs
            .to::<Tensor>()
            .map_or_else(|_| outputs.to::<Array<Tensor>>().map(|all| all.to_vec()), |one| Ok(vec![one]))?
    } else {
        arguments(info, "outputs", &[], zeros)?
    };
    let tensors = inputs.into_iter().chain(outputs).map(Any::from);
    if chosen {
        let extents: BTreeMap<String, i64> = extents.into_iter().collect();
        info["timed"] = json!(extents);
        if !info["ranges"].is_array() {
            let whole = shortest(&module.function(name)?, &tensors.collect::<Vec<_>>(), PATIENCE_OF_ALL)?;
            info["time"] = json!(whole);
            return Ok(());
        }
    }
    let steps = module.function(&format!("{name}_steps"))?;
    let count = info["kernels"].as_array().map_or(0, Vec::len);
    let count = i64::try_from(count).unwrap_or(0);
    let state = zeros(DataType::scalar(1, 8), &[info["state"].as_i64().unwrap_or(0)])?;
    let mut arguments: Vec<Any> = vec![state.into(), Any::from(0_i64), Any::from(count)];
    arguments.extend(tensors);
    let mut shortest = |first: i64, end: i64, patience: Duration| -> kernpack::Result<u64> {
        arguments[1] = Any::from(first);
        arguments[2] = Any::from(end);
        shortest(&steps, &arguments, patience)
    };
    // The first kernels write values that the others read.
    let whole = shortest(0, count, PATIENCE_OF_ALL)?;
    let mut times = Vec::new();
    for step in 0..count {
        times.push(shortest(step, step + 1, PATIENCE)?);
    }
    info["time"] = json!(whole);
    for (kernel, time) in info["kernels"].as_array_mut().into_iter().flatten().zip(times) {
        kernel["time"] = json!(time);
    }
    Ok(())
}

/// Makes the inputs or outputs of a model. Extents that are names of dimensions are those of
/// `extents`.
fn arguments(
    info: &Value,
    key: &str,
    extents: &[(String, i64)],
    make: fn(DataType, &[i64]) -> kernpack::Result<Tensor>,
) -> kernpack::Result<Vec<Tensor>> {
    let one = |argument: &Value| {
        let largest = argument["shape"].as_array().into_iter().flatten().filter_map(Value::as_i64);
        let shape = largest.enumerate().map(|(axis, largest)| {
            let name = argument["extents"][axis].as_str();
            extents.iter().find(|(own, _)| Some(own.as_str()) == name).map_or(largest, |(_, extent)| *extent)
        });
        let dtype: DataType = Any::from(argument["dtype"].as_str().unwrap_or_default()).to()?;
        make(dtype, &shape.collect::<Vec<_>>())
    };
    info[key].as_array().into_iter().flatten().map(one).collect()
}

fn shortest(function: &Function, arguments: &[Any], patience: Duration) -> kernpack::Result<u64> {
    let (mut shortest, begin) = (Duration::MAX, Instant::now());
    let mut calls = 0;
    while calls < 2 || begin.elapsed() < patience {
        let start = Instant::now();
        function.call(arguments)?;
        shortest = shortest.min(start.elapsed());
        calls += 1;
    }
    Ok(u64::try_from(shortest.as_nanos()).unwrap_or(u64::MAX))
}

/// Makes a tensor of random numbers: floats between -1 and 1, and integers that are 0 or 1, which
/// are also indices and masks. Types of fewer than 16 bits that are not integers are zeros.
fn random(dtype: DataType, shape: &[i64]) -> kernpack::Result<Tensor> {
    let count: i64 = shape.iter().product();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // The generator xorshift64.
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let count = usize::try_from(count).unwrap_or(0);
    let float = |bits: u64| (bits >> 40) as f32 / (1_u64 << 23) as f32 - 1.0;
    let mut bytes: Vec<u8> = Vec::new();
    for _ in 0..count {
        let bits = next();
        match (dtype.code(), dtype.bits()) {
            (2, 16) => bytes.extend(F16::from(float(bits)).to_bits().to_ne_bytes()),
            (2, 32) => bytes.extend(float(bits).to_ne_bytes()),
            (2, 64) => bytes.extend(f64::from(float(bits)).to_ne_bytes()),
            (4, 16) => bytes.extend(BF16::from(float(bits)).to_bits().to_ne_bytes()),
            (0 | 1 | 6, width @ (8 | 16 | 32 | 64)) => {
                let one = (bits >> 63).to_le_bytes();
                bytes.extend(&one[..usize::from(width / 8)]);
            }
            _ => return zeros(dtype, shape),
        }
    }
    if count == 0 {
        return Tensor::empty(dtype, shape, Device::CPU);
    }
    Tensor::from_slice(&bytes, &[bytes.len() as i64])?.view_as(shape, dtype, 0)
}

fn zeros(dtype: DataType, shape: &[i64]) -> kernpack::Result<Tensor> {
    let count: i64 = shape.iter().product();
    if count == 0 {
        return Tensor::empty(dtype, shape, Device::CPU);
    }
    let bytes = Tensor::zeros::<u8>(&[count * i64::from(dtype.bits().div_ceil(8).max(1))])?;
    bytes.view_as(shape, dtype, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_the_chosen_extents() {
        let info = json!({
            "ranges": [{"dimension": "batch", "least": 1, "most": 8}, {"dimension": "words", "least": 1, "most": 32}],
            "inputs": [
                {"name": "x", "dtype": "float32", "shape": [8, 32, 2], "extents": ["batch", "words", "2"]},
                {"name": "ids", "dtype": "int64", "shape": [8, 4], "extents": ["batch", "4"]},
                {"name": "half", "dtype": "float16", "shape": [3]},
            ],
        });
        assert_eq!(dimensions(&info), [("batch", 8), ("words", 32)]);
        let inputs = arguments(&info, "inputs", &[("batch".to_owned(), 7), ("words".to_owned(), 5)], random).unwrap();
        let shapes: Vec<&[i64]> = inputs.iter().map(Tensor::shape).collect();
        assert_eq!(shapes, [&[7, 5, 2][..], &[7, 4], &[3]]);
        let x = inputs[0].view::<f32>().unwrap().to_vec();
        assert!(x.iter().all(|value| value.abs() <= 1.0) && x.iter().any(|value| *value < 0.0), "{x:?}");
        let ids = inputs[1].view::<i64>().unwrap().to_vec();
        assert!(ids.iter().all(|id| [0, 1].contains(id)) && ids.contains(&1), "{ids:?}");
        let parts = json!({"parts": {"dimension": "n", "most": 64}, "sizes": {"dimension": "m", "extents": [16, 32]}});
        assert_eq!(dimensions(&parts), [("n", 64), ("m", 32)]);
    }
}
