//! Models of a library: their own descriptions, and the times of their kernels.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kernpack::{Any, DataType, Device, Function, Module, Tensor};
use serde_json::{Value, json};

/// The duration for which each kernel is run repeatedly, and the one for the whole model.
const PATIENCE: Duration = Duration::from_millis(20);
const PATIENCE_OF_ALL: Duration = Duration::from_millis(300);

/// Returns the descriptions of the models of a library: the results of `NAME_info`, for functions
/// `NAME` with a function `NAME_steps`. With `time`, each kernel has its time in nanoseconds as
/// `time`, the shortest of many calls on zeros, and the whole model has `time`, too. `problem` is
/// the reason if there are no times.
pub(crate) fn describe(module: &Module, time: bool) -> Vec<Value> {
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
        if time && let Err(problem) = measure(module, name, &mut info) {
            info["problem"] = json!(problem.to_string());
        }
        models.push(info);
    }
    models
}

/// Measures the kernels of a model on zeros.
fn measure(module: &Module, name: &str, info: &mut Value) -> kernpack::Result<()> {
    let steps = module.function(&format!("{name}_steps"))?;
    let count = info["kernels"].as_array().map_or(0, Vec::len);
    let count = i64::try_from(count).unwrap_or(0);
    let state = info["state"].as_i64().unwrap_or(0);
    let mut arguments: Vec<Any> = vec![zeros(DataType::scalar(1, 8), &[state])?, Any::from(0_i64), Any::from(count)];
    for key in ["inputs", "outputs"] {
        for argument in info[key].as_array().into_iter().flatten() {
            let shape: Vec<i64> =
                argument["shape"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
            let dtype: DataType = Any::from(argument["dtype"].as_str().unwrap_or_default()).to()?;
            arguments.push(zeros(dtype, &shape)?);
        }
    }
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

fn zeros(dtype: DataType, shape: &[i64]) -> kernpack::Result<Any> {
    let count: i64 = shape.iter().product();
    if count == 0 {
        return Ok(Tensor::empty(dtype, shape, Device::CPU)?.into());
    }
    let bytes = Tensor::zeros::<u8>(&[count * i64::from(dtype.bits().div_ceil(8).max(1))])?;
    Ok(bytes.view_as(shape, dtype, 0)?.into())
}
