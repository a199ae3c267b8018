//! Kernels for any extents of dimensions with ranges. Their last arguments are the extents.

use std::collections::HashSet;

use kernpack::DataType;
use kernpack_compiler::Kernel;
use kernpack_compiler::ir::{
    DataTypeExt, Expr, FuncKind, IterVar, LoweredFunc, LoweredFuncNode, Operation, Tensor, Var,
};
use kernpack_compiler::te::{compute_dyn, operation::post_order};
use kernpack_compiler::text;

use super::kernel::{instantiate, places};
use super::symbolic::Symbolic;
use super::{Kernels, identifier};
use crate::constant::{Constant, stored};
use crate::dynamic::{Formula, Threshold};
use crate::error::{Fix, Result, fail, require};
use crate::fuse::Group;
use crate::graph::{Graph, RangeDim, Ranges, ValueId};
use crate::op::{extents as constants, known_element};

/// Known values of all readings with more elements are not computed by a kernel.
const LARGE: usize = 64;

/// Returns the results of a kernel in a reading, from those of its group.
type Make<'a> = dyn FnMut(&Graph, Vec<Tensor>) -> Result<Vec<Tensor>> + 'a;

/// Creates variables for the extents of the dimensions, divided by their steps.
pub(super) fn variables(ranges: &Ranges) -> Vec<Var> {
    let name = |dim: &RangeDim| match dim.step {
        1 => identifier(&dim.name),
        step => format!("{}_by_{step}", identifier(&dim.name)),
    };
    ranges.dims.iter().map(|dim| Var::size(name(dim), kernpack_compiler::ir::I64)).collect()
}

/// Like [`super::kernel::kernel`], for a graph with ranges. `make` gets the graph of the reading.
pub(super) fn ranged_kernel(
    (graph, ranges): (&Graph, &Ranges),
    group: &Group,
    outputs: &[ValueId],
    mut make: impl FnMut(&Graph, Vec<Tensor>) -> Result<Vec<Tensor>>,
    name: &str,
    kernels: &Kernels<'_>,
) -> Result<(LoweredFunc, Vec<ValueId>)> {
    let advice = Fix::Extents(ranges.dims[0].name.clone());
    lower_group((graph, ranges), group, outputs, &mut make, name, kernels).map_err(|error| {
        // Which of several nodes it is: the first one that has no kernel of its own.
        let alone = |node: &usize| {
            let own = Group::of_node(*node);
            let outputs: Vec<ValueId> = graph.nodes[*node].outputs.iter().flatten().copied().collect();
            let same = &mut |_: &Graph, results| Ok(results);
            lower_group((graph, ranges), &own, &outputs, same, name, kernels).err().map(|error| (own, error))
        };
        let first = if group.nodes.len() > 1 { group.nodes.iter().find_map(alone) } else { None };
        let (place, error) =
            first.map_or_else(|| (places(graph, group), error), |(group, error)| (places(graph, &group), error));
        error.within_once(&place).fix(&advice)
    })
}

fn lower_group(
    (graph, ranges): (&Graph, &Ranges),
    group: &Group,
    outputs: &[ValueId],
    make: &mut Make<'_>,
    name: &str,
    kernels: &Kernels<'_>,
) -> Result<(LoweredFunc, Vec<ValueId>)> {
    let (mut all_stands, mut all_results) = (Vec::new(), Vec::new());
    for (_, graph) in ranges.readings(graph) {
        let mut stands: Vec<(ValueId, Tensor)> = Vec::new();
        let results = instantiate(graph, group, outputs, |id, stand| {
            stands.push((id, stand()));
            stands[stands.len() - 1].1.clone()
        })?;
        all_results.push(make(graph, results)?);
        all_stands.push(stands);
    }
    let order = post_order(&all_results[0].iter().map(|result| result.op.clone()).collect::<Vec<_>>());
    let read: HashSet<&Operation> = order.iter().collect();
    let mut kernel = Kernel::new(name);
    if group.nodes.iter().all(|&node| graph.nodes[node].op.listed().is_some()) {
        kernel.trust_reads();
    }
    if !kernels.options.schedule {
        kernel.schedule(|_, _| Ok(()));
    }
    let sizes = variables(ranges);
    let formulas = |id: ValueId| -> Result<Vec<Expr>> {
        Ok(graph.formulas(ranges, id)?.iter().map(|formula| formula.expr(&sizes)).collect())
    };
    let (mut inputs, mut replaced): (Vec<ValueId>, Vec<(ValueId, Operation)>) = Default::default();
    for (id, _) in all_stands[0].iter().filter(|(_, tensor)| read.contains(&tensor.op)) {
        let value = &graph.values[*id];
        let dtype = stored(value.dtype);
        let shape = match known(graph, ranges, *id)? {
            Known::No => formulas(*id)?,
            Known::Corner => constants(&value.shape),
            Known::Places(first, factors) => {
                let shape: Vec<Expr> = formulas(*id)?;
                let tensor = compute_dyn(shape, |axes: &[IterVar]| {
                    let pairs = axes.iter().zip(&factors);
                    pairs
                        .fold(first.expr(&sizes), |sum, (axis, factor)| sum + axis.expr() * factor.expr(&sizes))
                        .cast(dtype)
                });
                replaced.push((*id, tensor.op.clone()));
                continue;
            }
            Known::Threshold(numbers, [inside, outside]) => {
                let tensor = compute_dyn(formulas(*id)?, |axes: &[IterVar]| {
                    let pairs = axes.iter().zip(&numbers[1..]);
                    let count = pairs
                        .fold(numbers[0].expr(&sizes), |sum, (axis, factor)| sum + axis.expr() * factor.expr(&sizes));
                    let last = axes.last().map_or_else(|| Expr::int(0), |axis| axis.expr().clone());
                    Expr::select(last.less(count), inside.clone(), outside.clone())
                });
                replaced.push((*id, tensor.op.clone()));
                continue;
            }
            Known::Computed(elements) => {
                replaced.push((*id, computed(&value.shape, &elements, &sizes, dtype).op.clone()));
                continue;
            }
        };
        let input = kernel.input(&format!("x{}", inputs.len()), shape, dtype);
        inputs.push(*id);
        replaced.push((*id, input.op.clone()));
    }
    let results = Symbolic::tensors(ranges, &sizes, &all_results, |ops| {
        let ids: Vec<Option<ValueId>> = ops
            .iter()
            .zip(&all_stands)
            .map(|(op, stands)| stands.iter().find(|(_, tensor)| tensor.op == *op).map(|(id, _)| *id))
            .collect();
        match ids[0] {
            Some(id) if ids.iter().all(|other| *other == Some(id)) => {
                let found = replaced.iter().find(|(other, _)| *other == id);
                found.map_or_else(
                    || fail!("value '{}' is not an input", graph.values[id].name),
                    |(_, op)| Ok(op.clone()),
                )
            }
            _ => {
                let shown =
                    |op: &Operation| op.output(0).shape.iter().map(|extent| text::print(&extent)).collect::<Vec<_>>();
                require!(
                    ops.iter().all(|op| shown(op) == shown(&ops[0])),
                    "a value without elements has other extents"
                );
                Ok(ops[0].clone())
            }
        }
    })?;
    for (number, result) in results.into_iter().enumerate() {
        kernel.output(&if number == 0 { "y".to_owned() } else { format!("y{number}") }, result);
    }
    for size in &sizes {
        kernel.size_argument(size);
    }
    let function = kernel.lower(kernels.target, kernels.context)?;
    let function = LoweredFunc::from_node(LoweredFuncNode { kind: FuncKind::Internal, ..function.to_node() });
    Ok((function, inputs))
}

/// The elements of a value in all readings.
enum Known {
    /// They are not known.
    No,
    /// Those of each reading are at the start of each axis of those of the first one, which has the
    /// largest extents.
    Corner,
    /// A few integers that follow from the extents.
    Computed(Vec<Formula>),
    /// Integers that are sums of the indices of their place, each with a factor: the first element,
    /// and the factors.
    Places(Formula, Vec<Formula>),
    /// Rows along the last axis begin with one element and continue with another one: the
    /// number of elements at the beginning of the first row, and what is added to it for each step
    /// along the other axes; and the two elements.
    Threshold(Vec<Formula>, [Expr; 2]),
}

fn known(graph: &Graph, ranges: &Ranges, id: ValueId) -> Result<Known> {
    let all: Vec<&Constant> = ranges.readings(graph).filter_map(|(_, graph)| graph.values[id].known.as_ref()).collect();
    let Some(first) = all.first() else { return Ok(Known::No) };
    if all.iter().all(|other| other == first) {
        return Ok(Known::Corner);
    }
    let name = &graph.values[id].name;
    if all.iter().all(|other| other.shape() == first.shape()) {
        let is_small = first.dtype().is_integer() && first.len() <= LARGE;
        require!(is_small, "the known value '{name}' has other elements for other extents of the dimensions");
        let elements: Vec<Vec<i64>> = all.iter().map(|known| known.to_ints()).collect::<Result<_>>()?;
        let formula = |index: usize| {
            let values: Vec<i64> = elements.iter().map(|elements| elements[index]).collect();
            ranges.formula(&values).map_err(|error| error.within(&format!("the known value '{name}'")))
        };
        return (0..first.len()).map(formula).collect::<Result<_>>().map(Known::Computed);
    }
    if all[1..].iter().all(|other| first.corner(other.shape()).is_ok_and(|corner| corner == **other)) {
        return Ok(Known::Corner);
    }
    let places: Option<Vec<Vec<i64>>> = all.iter().map(|known| linear(known)).collect();
    let Some(places) = places else {
        if let Some((numbers, form)) = Threshold::of_readings(ranges, &all)
            && let Some(elements) = form.elements(first)
        {
            let element = |index| known_element(&elements, index, stored(first.dtype()));
            if let (Some(inside), Some(outside)) = (element(0), element(1)) {
                return Ok(Known::Threshold(numbers, [inside, outside]));
            }
        }
        fail!("the known value '{name}' has other elements for other extents of the dimensions");
    };
    let formula = |index: usize| {
        let values: Vec<i64> = places.iter().map(|numbers| numbers[index]).collect();
        ranges.formula(&values).map_err(|error| error.within(&format!("the known value '{name}'")))
    };
    let factors = (1..=first.shape().len()).map(formula).collect::<Result<_>>()?;
    Ok(Known::Places(formula(0)?, factors))
}

/// Returns the first element of integers and the factor of each index, if each element is the sum
/// of the first one and the products of its indices and their factors.
fn linear(known: &Constant) -> Option<Vec<i64>> {
    let values = if known.dtype().is_integer() { known.to_ints().ok()? } else { return None };
    let first = *values.first()?;
    let mut found = vec![first];
    let mut stride = values.len();
    for extent in known.shape() {
        let extent = usize::try_from(*extent).ok()?;
        stride /= extent.max(1);
        found.push(if extent > 1 { values.get(stride)?.checked_sub(first)? } else { 0 });
    }
    let is_sum = |(number, value): (usize, &i64)| {
        let (mut rest, mut sum) = (i64::try_from(number).unwrap_or(0), first);
        for (extent, factor) in known.shape().iter().zip(&found[1..]).rev() {
            sum = sum.wrapping_add((rest % extent).wrapping_mul(*factor));
            rest /= extent;
        }
        sum == *value
    };
    values.iter().enumerate().all(is_sum).then_some(found)
}

/// Returns a tensor with these elements, which follow from the extents.
fn computed(shape: &[i64], elements: &[Formula], sizes: &[Var], dtype: DataType) -> Tensor {
    compute_dyn(constants(shape), |axes: &[IterVar]| {
        let place = axes.iter().zip(shape).fold(Expr::int(0), |place, (axis, extent)| place * *extent + axis.expr());
        let element = |index: usize| elements[index].expr(sizes).cast(dtype);
        let last = elements.len() - 1;
        (0..last).rev().fold(element(last), |others, index| {
            Expr::select(place.equals(i64::try_from(index).unwrap_or(0)), element(index), others)
        })
    })
}
