//! Runs of programs by the interpreter, with arguments and results as text.

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{DataType, DataTypeExt, F32, F64, IrModule, Param};

/// The elements of a tensor in order; `-` for an element that was not written. Equal texts mean
/// equal bits.
fn elements(block: &Block) -> String {
    let element = |dtype: DataType, bits: u64| match dtype {
        F32 if !f32::from_bits(bits as u32).is_nan() => format!("{:?}", f32::from_bits(bits as u32)),
        F64 if !f64::from_bits(bits).is_nan() => format!("{:?}", f64::from_bits(bits)),
        dtype if dtype.is_float() => format!("{bits:#x}"),
        _ => (bits as i64).to_string(),
    };
    let dtype = block.dtype().element();
    let lanes = block.known_lanes();
    let texts: Vec<String> =
        lanes.into_iter().map(|lane| lane.map_or_else(|| "-".to_owned(), |bits| element(dtype, bits))).collect();
    texts.join(" ")
}

/// The values `a, b, ..`, or one after the other from 1.
fn numbers<T: core::str::FromStr>(text: &str) -> Result<Vec<T>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_err(|_| format!("`{part}` is not a number of the type"))).collect()
}

/// The argument for a parameter: a number for a scalar, and for a tensor `[1,2,3]`, its values;
/// `4x5`, a shape with the values 1, 2, ..; or `4x5?`, a shape without values.
fn argument(param: &Param, text: &str) -> Result<Arg, String> {
    let Some(buffer) = &param.buffer else {
        let is_float = param.var.dtype().is_float();
        let first = if is_float { numbers(text)?.pop().map(Arg::Float) } else { numbers(text)?.pop().map(Arg::Int) };
        return first.ok_or_else(|| "a number is expected".to_owned());
    };
    let dtype = buffer.dtype;
    if let Some(values) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        if dtype.is_float() {
            let values: Vec<f64> = numbers(values)?;
            return Ok(Block::from_f64(dtype, &[values.len() as i64], &values).into());
        }
        let values: Vec<i64> = numbers(values)?;
        return Ok(Block::from_i64(dtype, &[values.len() as i64], &values).into());
    }
    let shape: Vec<i64> = numbers(&text.trim_end_matches('?').replace('x', ","))?;
    if text.ends_with('?') {
        return Ok(Block::uninit(dtype, &shape).into());
    }
    let values: Vec<f64> = (1..=shape.iter().product::<i64>()).map(|value| value as f64).collect();
    Ok(Block::from_f64(dtype, &shape, &values).into())
}

/// Runs the first function of a module: returns the elements of its tensors, a line for each, or
/// the error of the interpreter. The outer error is one of the arguments.
pub(super) fn run(module: &IrModule, arguments: &str) -> Result<Result<String, String>, String> {
    let function = module.functions.iter().next().ok_or("a module without functions")?;
    let texts: Vec<&str> = arguments.split_whitespace().collect();
    if texts.len() != function.params.len() {
        return Err(format!("run {arguments}: `{}` takes {} arguments", function.name, function.params.len()));
    }
    let args: Result<Vec<Arg>, String> =
        function.params.iter().zip(texts).map(|(param, text)| argument(&param, text)).collect();
    let args = args.map_err(|problem| format!("run {arguments}: {problem}"))?;
    let machine = Machine::of_module(module).map_err(|error| error.to_string())?;
    if let Err(error) = machine.run(function.name.as_str(), &args) {
        return Ok(Err(error.to_string()));
    }
    let mut lines = String::new();
    for (param, arg) in function.params.iter().zip(&args) {
        if let (Some(buffer), Arg::Block(block)) = (&param.buffer, arg) {
            lines.push_str(&format!("{} = {}\n", buffer.name, elements(block)));
        }
    }
    if lines.is_empty() {
        return Err(format!("run {arguments}: `{}` has no tensor to compare", function.name));
    }
    Ok(Ok(lines))
}
