//! Sequences and optional values: lists of tensors whose structure is known at build time, so that
//! they cost nothing at run time.

use super::emit::Emitter;
use super::{Importer, Item, place};
use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{Fix, GraphError, Result, fail, require};
use crate::graph::ValueId;
use crate::onnx;

/// The operators.
pub(super) const NAMES: [&str; 12] = [
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceAt",
    "SequenceInsert",
    "SequenceErase",
    "SequenceLength",
    "ConcatFromSequence",
    "SplitToSequence",
    "Optional",
    "OptionalHasElement",
    "OptionalGetElement",
    "Identity",
];

/// The maximum number of tensors of a sequence.
const LONGEST: i64 = 4096;

/// Returns a position in a sequence of length `count`. A negative one counts from the end.
fn position(at: i64, count: usize) -> Result<usize> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let index = if at < 0 { at + count } else { at };
    require!((0..count).contains(&index), "there is no position {at} among {count}");
    Ok(usize::try_from(index).expect("a position in the sequence"))
}

impl<'a> Importer<'_, 'a> {
    /// Imports a node of an operator on sequences and optional values.
    pub(super) fn sequence_node(
        &mut self,
        node: &onnx::Node<'a>,
        inputs: &[Option<Item>],
        attrs: &Attrs,
    ) -> Result<Vec<Option<Item>>> {
        let input = |index: usize| {
            let item = inputs.get(index).and_then(Option::as_ref);
            item.ok_or_else(|| GraphError::new(format!("input {index} is missing")))
        };
        let sequence = |index: usize| input(index)?.sequence(&format!("input {index}")).map(<[ValueId]>::to_vec);
        let name = node.outputs.first().map_or("", String::as_str);
        let mut emitter = Emitter { graph: &mut self.graph, name };
        let item = match node.op_type.as_str() {
            "SequenceConstruct" => {
                let mut ids = Vec::new();
                for (index, item) in inputs.iter().enumerate() {
                    let Some(item) = item else { fail!("input {index} is missing") };
                    ids.push(item.tensor(&format!("input {index}"))?);
                }
                Item::Sequence(ids)
            }
            "SequenceEmpty" => Item::Sequence(Vec::new()),
            "SequenceAt" => {
                let ids = sequence(0)?;
                let at = known_position(&emitter, input(1)?)?;
                Item::Tensor(ids[position(at, ids.len())?])
            }
            "SequenceInsert" => {
                let mut ids = sequence(0)?;
                let tensor = input(1)?.tensor("input 1")?;
                let at = match inputs.get(2).and_then(Option::as_ref) {
                    None => ids.len(),
                    // The position after the last one is valid, too.
                    Some(at) => match known_position(&emitter, at)? {
                        at if at == i64::try_from(ids.len()).unwrap_or(i64::MAX) => ids.len(),
                        at => position(at, ids.len())?,
                    },
                };
                ids.insert(at, tensor);
                Item::Sequence(ids)
            }
            "SequenceErase" => {
                let mut ids = sequence(0)?;
                let at = match inputs.get(1).and_then(Option::as_ref) {
                    None => -1,
                    Some(at) => known_position(&emitter, at)?,
                };
                ids.remove(position(at, ids.len())?);
                Item::Sequence(ids)
            }
            "SequenceLength" => {
                let count = i64::try_from(sequence(0)?.len()).unwrap_or(i64::MAX);
                Item::Tensor(emitter.int(count)?)
            }
            "ConcatFromSequence" => {
                let ids = sequence(0)?;
                require!(!ids.is_empty(), "the sequence is empty: the result would have no shape");
                let axis = attrs.needed_int("axis")?;
                Item::Tensor(if attrs.flag("new_axis", false)? {
                    emitter.stack(&ids, axis)?
                } else {
                    emitter.node("Concat", &[("axis", Attr::Int(axis))], &ids)?
                })
            }
            "SplitToSequence" => {
                let tensor = input(0)?.tensor("input 0")?;
                let parts = match inputs.get(1).and_then(Option::as_ref) {
                    None => None,
                    Some(item) => Some(item.tensor("input 1")?),
                };
                Item::Sequence(split(&mut emitter, tensor, parts, attrs)?)
            }
            "Optional" => inputs.first().cloned().flatten().unwrap_or(Item::Nothing),
            "OptionalHasElement" => {
                let is_there = inputs.first().and_then(Option::as_ref).is_some_and(|item| *item != Item::Nothing);
                let constant = Constant::new(kernpack_compiler::ir::BOOLEAN, &[], vec![u8::from(is_there)])?;
                Item::Tensor(emitter.graph.add_known(name, constant))
            }
            "OptionalGetElement" => match input(0)? {
                Item::Nothing => fail!("the optional value is not there"),
                item => item.clone(),
            },
            "Identity" => input(0)?.clone(),
            _ => fail!("{}: operator {} is not supported", place(node), node.op_type),
        };
        Ok(vec![Some(item)])
    }
}

fn known_position(emitter: &Emitter<'_>, item: &Item) -> Result<i64> {
    match emitter.known_int(item.tensor("the position")?)? {
        Some(at) => Ok(at),
        None => Err(GraphError::new(
            "the position has to be known when the model is compiled, and depends on what the model is called with",
        )
        .fix(&Fix::Constant)),
    }
}

/// Splits a tensor along an axis: into parts with known extents, with one extent except for the
/// last one, or of one element, by default without the axis.
fn split(emitter: &mut Emitter<'_>, tensor: ValueId, parts: Option<ValueId>, attrs: &Attrs) -> Result<Vec<ValueId>> {
    let axis = attrs.int("axis", 0)?;
    let shape = emitter.graph.values[tensor].shape.clone();
    let extent = shape[crate::op::axis_of(axis, shape.len())?];
    let check_length = |length: i64| {
        require!(length <= LONGEST, "a sequence of {length} tensors; at most {LONGEST} are supported");
        Ok(())
    };
    let Some(parts) = parts else {
        let keeps = attrs.flag("keepdims", true)?;
        check_length(extent)?;
        let mut slices = Vec::new();
        for index in 0..extent {
            let slice = emitter.slice(tensor, axis, index)?;
            let axes = emitter.ints(&[axis]);
            slices.push(if keeps { emitter.node("Unsqueeze", &[], &[slice, axes])? } else { slice });
        }
        return Ok(slices);
    };
    let Some(known) = emitter.graph.values[parts].known.clone() else {
        return Err(GraphError::new(
            "the split has to be known when the model is compiled, and depends on what the model is called with",
        )
        .fix(&Fix::Constant));
    };
    let values = known.to_ints()?;
    let extents: Vec<i64> = if known.shape().is_empty() {
        let part = values[0];
        require!(part > 0, "parts of {part} elements");
        check_length(extent / part)?;
        (0..extent).step_by(usize::try_from(part).unwrap_or(usize::MAX)).map(|at| part.min(extent - at)).collect()
    } else {
        values
    };
    let fits = extents.iter().all(|part| (0..=extent).contains(part))
        && extents.iter().map(|part| i128::from(*part)).sum::<i128>() == i128::from(extent);
    require!(fits, "parts of {extents:?} do not fill axis {axis} of {shape:?}");
    let axes = emitter.ints(&[axis]);
    let mut begin = 0;
    let mut slices = Vec::new();
    for part in extents {
        let (from, to) = (emitter.ints(&[begin]), emitter.ints(&[begin + part]));
        slices.push(emitter.node("Slice", &[], &[tensor, from, to, axes])?);
        begin += part;
    }
    Ok(slices)
}
