//! Differences between an optimized model and the definitions of its nodes, or values from another
//! source.
//!
//! Each node of the model is computed by plain loops, and each kernel of the optimized model is run
//! separately. Its output is compared with the value of the same name. So the first difference is
//! the cause of the following ones.

use std::collections::{BTreeMap, BTreeSet};

use kernpack::{Any, Device, Tensor};
pub use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{DataTypeExt, U8};
use kernpack_compiler::te::eval::Elements;
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};

use crate::constant::{Constant, element_bytes, num_elements, stored};
use crate::error::{Result, fail, require};
use crate::graph::{Graph, ValueId};
use crate::lower::{LowerOptions, Place, arena_place, lower, state_bytes};

/// Values by their names.
pub type Values = BTreeMap<String, Constant>;

/// A value that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The value.
    pub value: String,
    /// The kernel that computes it: its index, and its nodes for messages.
    pub kernel: (usize, String),
    /// The position of the largest difference.
    pub position: Vec<i64>,
    /// The actual number.
    pub got: f64,
    /// The expected number.
    pub expected: f64,
    /// The largest difference, relative to the largest expected number of the value.
    pub relative: f64,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The number of values that were compared.
    pub compared: usize,
    /// The first value that differs by more than the tolerance.
    pub first: Option<Difference>,
    /// The value with the largest relative difference.
    pub largest: Option<Difference>,
}

/// A value that a kernel wrote.
struct Written<'a> {
    kernel: usize,
    /// `node 'a' (Conv) + node 'b' (Relu)`.
    nodes: &'a str,
    name: &'a str,
    constant: Constant,
}

/// Returns inputs for a model without test data: seeded numbers between -1 and 1, and integers that
/// are 0 or 1, which are valid indices.
pub fn random_inputs(graph: &Graph, seed: u64) -> Result<Values> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    let mut inputs = Values::new();
    for id in &graph.inputs {
        let value = &graph.values[*id];
        let dtype = stored(value.dtype);
        let count = num_elements(&value.shape)?;
        let is_float = value.dtype.is_float();
        #[expect(clippy::cast_precision_loss, reason = "24 bits")]
        let number = |bits: u64| if is_float { bits as f64 / f64::from(1 << 23) - 1.0 } else { (bits >> 23) as f64 };
        let numbers = Elements::from_fn(dtype, &[count], |_| number(next()));
        inputs.insert(value.name.clone(), Constant::new(dtype, &value.shape, numbers.bytes())?);
    }
    Ok(inputs)
}

fn tensor_of(constant: &Constant) -> Result<Tensor> {
    if constant.is_empty() {
        return Ok(Tensor::empty(constant.dtype(), constant.shape(), Device::CPU)?);
    }
    let count = i64::try_from(constant.bytes().len()).unwrap_or(i64::MAX);
    Ok(Tensor::from_slice(constant.bytes(), &[count])?.view_as(constant.shape(), constant.dtype(), 0)?)
}

/// Runs a model kernel by kernel, and passes on the values that each writes.
fn step_through(
    graph: &Graph,
    inputs: &Values,
    target: &Target,
    options: LowerOptions,
    mut seen: impl FnMut(Written<'_>) -> Result<()>,
) -> Result<()> {
    let context = PassContext::new(PassOptions::default());
    let lowered = lower(graph, "model", &TargetDescription::of(target), &context, options)?;
    let function = kernpack_compiler::build(&lowered.module, target)?.function("model_steps")?;
    let bytes = i64::try_from(state_bytes(lowered.arena)).unwrap_or(i64::MAX);
    let memory = Tensor::zeros::<u8>(&[bytes])?;
    let mut arguments: Vec<Any> = vec![memory.clone().into(), 0_i64.into(), 0_i64.into()];
    for id in &graph.inputs {
        let value = &graph.values[*id];
        let Some(given) = inputs.get(&value.name) else { fail!("there is no value for the input '{}'", value.name) };
        require!(
            given.shape() == value.shape && stored(given.dtype()) == stored(value.dtype),
            "the value for the input '{}' is {given:?}, and the model takes {}{:?}",
            value.name,
            value.dtype,
            value.shape
        );
        arguments.push(tensor_of(&given.retyped(stored(given.dtype()))?)?.into());
    }
    let mut outputs: Vec<Tensor> = Vec::new();
    for (_, id) in &graph.outputs {
        let value = &graph.values[*id];
        let constant = vec![0; num_elements(&value.shape)? * element_bytes(value.dtype)];
        outputs.push(tensor_of(&Constant::new(stored(value.dtype), &value.shape, constant)?)?);
    }
    arguments.extend(outputs.iter().map(|output| Any::from(output.clone())));
    let places: BTreeMap<ValueId, Place> = lowered.values.iter().map(|value| (value.id, value.place)).collect();
    for (number, kernel) in lowered.kernels.iter().enumerate() {
        let first = i64::try_from(number).unwrap_or(i64::MAX);
        arguments[1] = first.into();
        arguments[2] = (first + 1).into();
        function.call(&arguments[..])?;
        let nodes: Vec<String> = kernel
            .nodes
            .iter()
            .zip(&kernel.operators)
            .map(|(name, operator)| format!("node '{name}' ({operator})"))
            .collect();
        let nodes = nodes.join(" + ");
        for id in &kernel.outputs {
            let value = &graph.values[*id];
            let (dtype, count) = (stored(value.dtype), num_elements(&value.shape)? * element_bytes(value.dtype));
            let constant = match places.get(id) {
                Some(Place::Arena(offset)) => {
                    let view = memory.view::<u8>()?;
                    let all = view.as_slice()?;
                    let start = arena_place(all.as_ptr().addr()) + offset;
                    Constant::new(dtype, &value.shape, &all[start..start + count])?
                }
                Some(Place::Argument(number)) => {
                    let output = &outputs[number - graph.inputs.len()];
                    let plain = output.view_as(&[i64::try_from(count).unwrap_or(0)], U8, 0)?;
                    Constant::new(dtype, &value.shape, plain.view::<u8>()?.to_vec())?
                }
                _ => continue,
            };
            seen(Written { kernel: number, nodes: &nodes, name: &value.name, constant })?;
        }
    }
    Ok(())
}

/// Returns names of several values, and names of unused memory. They are not compared.
fn ambiguous(graph: &Graph) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let computed = graph.values.iter().filter(|value| value.producer.is_some());
    computed.filter(|value| !names.insert(value.name.as_str())).map(|value| value.name.as_str()).collect()
}

/// Computes the results of each node of a graph with plain loops. Returns them by the names of the
/// values.
///
/// # Errors
/// Returns an error for missing or mismatched inputs, and errors of the compiler.
pub fn plain_values(graph: &Graph, inputs: &Values, target: &Target) -> Result<Values> {
    let skipped = ambiguous(graph);
    let mut values = Values::new();
    step_through(graph, inputs, target, LowerOptions::of_level(0), |written| {
        if !skipped.contains(written.name) {
            values.insert(written.name.to_owned(), written.constant);
        }
        Ok(())
    })?;
    // Outputs have separate names.
    for (name, id) in &graph.outputs {
        if let Some(known) = values.get(&graph.values[*id].name).cloned() {
            values.entry(name.clone()).or_insert(known);
        }
    }
    Ok(values)
}

/// Compares the results of the kernels of a graph with values of the same names. `tolerance` is
/// relative to the largest number of a value. Integers must be equal.
///
/// # Errors
/// Returns an error for missing or mismatched inputs, and errors of the compiler.
pub fn compare(
    graph: &Graph,
    inputs: &Values,
    expected: &Values,
    target: &Target,
    options: LowerOptions,
    tolerance: f64,
) -> Result<Comparison> {
    let skipped = ambiguous(graph);
    let names: BTreeMap<&str, &str> =
        graph.outputs.iter().map(|(name, id)| (graph.values[*id].name.as_str(), name.as_str())).collect();
    let mut found = Comparison::default();
    step_through(graph, inputs, target, options, |written| {
        let by_name = expected.get(written.name).filter(|_| !skipped.contains(written.name));
        let by_output = || names.get(written.name).and_then(|name| expected.get(*name));
        let Some(expected) = by_name.or_else(by_output) else { return Ok(()) };
        found.compared += 1;
        let Some(difference) = difference(&written, expected)? else { return Ok(()) };
        let is_wrong = !expected.dtype().is_float() || difference.relative > tolerance;
        if is_wrong && found.first.is_none() {
            found.first = Some(difference.clone());
        }
        if found.largest.as_ref().is_none_or(|largest| difference.relative > largest.relative) {
            found.largest = Some(difference);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns the largest difference, or `None` if all elements are equal.
fn difference(written: &Written<'_>, expected: &Constant) -> Result<Option<Difference>> {
    let got = &written.constant;
    let expected = &expected.retyped(stored(expected.dtype()))?;
    require!(
        got.shape() == expected.shape() && got.dtype() == expected.dtype(),
        "{}: the value '{}' is {got:?}, and {expected:?} is expected",
        written.nodes,
        written.name
    );
    let (ours, theirs) = (got.to_floats()?, expected.to_floats()?);
    let most = theirs.iter().filter(|number| number.is_finite()).fold(0.0, |most: f64, number| most.max(number.abs()));
    let apart = |(one, other): (&f64, &f64)| match (one.is_nan(), other.is_nan()) {
        (true, true) => 0.0,
        (false, false) if one == other => 0.0,
        (false, false) => (one - other).abs(),
        _ => f64::INFINITY,
    };
    let mut largest: Option<(usize, f64)> = None;
    for (index, pair) in ours.iter().zip(&theirs).enumerate() {
        let apart = apart(pair);
        if apart > largest.map_or(0.0, |(_, largest)| largest) {
            largest = Some((index, apart));
        }
    }
    let Some((index, apart)) = largest else { return Ok(None) };
    let mut position = Vec::new();
    let mut rest = index;
    for extent in got.shape().iter().rev() {
        let extent = usize::try_from(*extent).unwrap_or(1).max(1);
        position.insert(0, i64::try_from(rest % extent).unwrap_or(0));
        rest /= extent;
    }
    Ok(Some(Difference {
        value: written.name.to_owned(),
        kernel: (written.kernel, written.nodes.to_owned()),
        position,
        got: ours[index],
        expected: theirs[index],
        relative: apart / most.max(f64::MIN_POSITIVE),
    }))
}
