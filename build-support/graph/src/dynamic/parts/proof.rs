//! The proof that a model can be computed in parts: two graphs of it, for two extents of a
//! dimension, are compared node by node.
//!
//! Extents that differ are those of the dimension. The computation of a node at an index of it must
//! read its inputs at that index, wherever the index is in the shape after reshaping and
//! transposing, and must be the same expression otherwise, for each index and for both extents. The
//! position of the index in a merged axis ([`Open`]) follows from the node itself: it is the first
//! position with which the proof succeeds.

use std::collections::HashMap;

use kernpack_compiler::ir::{Operation, OperationNode, Tensor};
use kernpack_compiler::te::operation::{input_tensors, post_order};
use kernpack_compiler::te::placeholder;

use super::open::{EXTENT, OTHERS, Open, Outcome, STATEMENTS, places};
use super::rows::{Pairs, same_rows};
use super::statements;
use crate::constant::{Constant, stored};
use crate::error::{Fix, GraphError, Result};
use crate::graph::{Body, Graph, Node, Value, ValueId};
use crate::op::{extents, ml};

/// A graph, and the extent of the dimension in it.
type Sized<'a> = (&'a Graph, i64);

/// Returns, for each argument, inputs first, the number of indices of its first axis for one index
/// of the dimension; 0 if the argument does not have the dimension.
///
/// # Errors
/// Returns an error for a node that mixes indices of the dimension, and for an argument in which it
/// is not the first axis.
pub(super) fn shares(dim: &str, a: Sized, b: Sized) -> Result<Vec<i64>> {
    let fix = Fix::Extents(dim.to_owned());
    let refuse = |place: &str, why: &str| {
        let what = format!("{place}: {why}: the model cannot be computed for any extent of '{dim}'");
        GraphError::new(what).fix(&fix)
    };
    let first = a.0;
    let mut given = Vec::new();
    for (id, other) in first.inputs.iter().zip(&b.0.inputs) {
        let place = || format!("input '{}'", first.values[*id].name);
        let places = places(&first.values[*id].shape, a.1, &b.0.values[*other].shape, b.1);
        given.push(places.map_err(|why| refuse(&place(), why))?.first().copied());
    }
    let open = same_nodes(a, b, &given).map_err(|(place, why)| refuse(&place, why))?;
    let inputs = first.inputs.iter().map(|id| ("input", &first.values[*id].name, *id));
    let outputs = first.outputs.iter().map(|(name, id)| ("output", name, *id));
    let mut shares = Vec::new();
    for (kind, name, id) in inputs.chain(outputs) {
        shares.push(match open[id] {
            None => 0,
            Some(Open { axis: 0, outer: 1, inner }) if kind == "output" || inner == 1 => inner,
            Some(Open { axis, outer, .. }) => {
                let part = if outer == 1 { "" } else { "an inner part of " };
                let why = format!("the dimension is {part}axis {axis}, and has to be the first one");
                return Err(refuse(&format!("{kind} '{name}'"), &why));
            }
        });
    }
    Ok(shares)
}

/// Compares all nodes of two graphs, and determines the position of the dimension in each value.
/// `given` contains it for the inputs. An error names a node.
fn same_nodes(
    a: Sized,
    b: Sized,
    given: &[Option<Open>],
) -> core::result::Result<Vec<Option<Open>>, (String, &'static str)> {
    let (first, second) = (a.0, b.0);
    let mut open = Vec::new();
    for (one, other) in first.values.iter().zip(&second.values) {
        let place = || one.producer.map_or_else(|| format!("value '{}'", one.name), |node| first.nodes[node].place());
        // For the result of a node, `compare` gives a more precise error.
        let places = places(&one.shape, a.1, &other.shape, b.1).map_err(|why| (place(), why))?;
        open.push(places.first().copied());
    }
    for (id, given) in first.inputs.iter().zip(given) {
        open[*id] = *given;
    }
    for (node, other) in first.nodes.iter().zip(&second.nodes) {
        let results = match (node.body.as_deref(), other.body.as_deref()) {
            (Some(Body::Choice(one)), Some(Body::Choice(two))) if node.inputs == other.inputs => {
                let mut all = Vec::new();
                for (one, two) in one.branches.iter().zip(&two.branches) {
                    if one.given != two.given {
                        return Err((node.place(), EXTENT));
                    }
                    let given = one.given.iter().map(|input| node.inputs[*input].and_then(|id| open[id]));
                    let within = same_nodes((&one.body, a.1), (&two.body, b.1), &given.collect::<Vec<_>>())?;
                    all.push(one.body.outputs.iter().map(|(_, id)| within[*id]).collect::<Vec<_>>());
                }
                if all.windows(2).any(|pair| pair[0] != pair[1]) {
                    return Err((node.place(), OTHERS));
                }
                all.pop().unwrap_or_default()
            }
            _ => compare((node, other), a, b, &open).map_err(|why| (node.place(), why))?,
        };
        for (id, result) in node.outputs.iter().zip(results) {
            if let Some(id) = id {
                open[*id] = result;
            }
        }
    }
    let same_counts = (first.values.len(), first.nodes.len()) == (second.values.len(), second.nodes.len());
    if !same_counts || first.inputs != second.inputs || first.outputs != second.outputs {
        return Err(("its nodes".to_owned(), EXTENT));
    }
    Ok(open)
}

/// Returns the possible positions of the dimension in the result of an operation.
fn places_in(first: &Tensor, a: i64, second: &Tensor, b: i64) -> Outcome<Vec<Open>> {
    let shape = |tensor: &Tensor| -> Outcome<Vec<i64>> {
        tensor.shape.iter().map(|extent| extent.as_int()).collect::<Option<_>>().ok_or(EXTENT)
    };
    places(&shape(first)?, a, &shape(second)?, b)
}

/// The results of a node, the operations that compute them, in order, and the tensors that
/// represent its inputs.
struct Computed {
    made: Vec<Tensor>,
    order: Vec<Operation>,
    inputs: HashMap<Operation, ValueId>,
}

fn computed(node: &Node, graph: &Graph) -> Outcome<Computed> {
    let mut stands: HashMap<ValueId, Tensor> = HashMap::new();
    let made = node.instantiate(graph, |id| {
        let value = &graph.values[id];
        let stand = || placeholder(extents(&value.shape), stored(value.dtype), &value.name);
        stands.entry(id).or_insert_with(stand).clone()
    });
    let made = made.map_err(|_| EXTENT)?;
    let order = post_order(&made.iter().map(|tensor| tensor.op.clone()).collect::<Vec<_>>());
    let inputs = stands.into_iter().map(|(id, tensor)| (tensor.op.clone(), id)).collect();
    Ok(Computed { made, order, inputs })
}

/// Compares two nodes. Returns the position of the dimension in each of their results.
fn compare((node, other): (&Node, &Node), a: Sized, b: Sized, open: &[Option<Open>]) -> Outcome<Vec<Option<Open>>> {
    let is_same = node.op.name() == other.op.name()
        && node.attrs == other.attrs
        && node.version == other.version
        && node.inputs == other.inputs
        && node.outputs == other.outputs;
    if !is_same {
        return Err(EXTENT);
    }
    if node.body.is_some() || other.body.is_some() {
        return Err(STATEMENTS);
    }
    if let Some(found) = statements::places(node, a.0, open) {
        for id in node.inputs.iter().flatten() {
            same_elements((&a.0.values[*id], a.1), (&b.0.values[*id], b.1), open[*id])?;
        }
        return found;
    }
    let (first, second) = (computed(node, a.0)?, computed(other, b.0)?);
    if first.order.len() != second.order.len() {
        return Err(EXTENT);
    }
    let mut pairs = Pairs { numbers: HashMap::new(), open: Vec::new() };
    for (number, (one, two)) in first.order.iter().zip(&second.order).enumerate() {
        pairs.numbers.insert(one.clone(), number);
        pairs.numbers.insert(two.clone(), number);
        let (id, other_id) = (first.inputs.get(one), second.inputs.get(two));
        if id != other_id {
            return Err(EXTENT);
        }
        if let Some(id) = id {
            same_elements((&a.0.values[*id], a.1), (&b.0.values[*id], b.1), open[*id])?;
            pairs.open.push(open[*id]);
            continue;
        }
        let places = places_in(&one.output(0), a.1, &two.output(0), b.1)?;
        match (&**one, &**two) {
            (OperationNode::Placeholder { .. }, OperationNode::Placeholder { .. }) => {
                pairs.open.push(places.first().copied());
            }
            (OperationNode::Compute { .. }, OperationNode::Compute { .. }) => {
                let own = place_of((one, a.1), (two, b.1), &places, &mut pairs)?;
                pairs.open.push(own);
            }
            _ if ml::is_by_row(&node.op) && same_known(node, a.0, b.0) => {
                pairs.open.push(row_of(one, &places, &pairs)?);
            }
            _ => {
                // The same statements, if none of their parts depends on the dimension.
                pairs.open.push(places.first().copied());
                let is_closed = pairs.open.iter().all(Option::is_none) && same_known(node, a.0, b.0);
                if !is_closed {
                    return Err(STATEMENTS);
                }
            }
        }
    }
    let of = |tensor: &Tensor| pairs.number(tensor).and_then(|number| pairs.open[number]);
    Ok(first.made.iter().map(of).collect())
}

/// Returns the first position with which both operations compute the same at each index of the
/// dimension. The error is that of the first one.
fn place_of(
    one: (&Operation, i64),
    two: (&Operation, i64),
    places: &[Open],
    pairs: &mut Pairs,
) -> Outcome<Option<Open>> {
    let Some((first, others)) = places.split_first() else {
        same_rows(one, two, None, pairs)?;
        return Ok(None);
    };
    let Err(why) = same_rows(one, two, Some(*first), pairs) else { return Ok(Some(*first)) };
    let found = others.iter().find(|place| same_rows(one, two, Some(**place), pairs).is_ok());
    found.map(|place| Some(*place)).ok_or(why)
}

/// Returns the position of the dimension in the result of statements that compute each row from
/// this row of the first input, and from other inputs without the dimension.
fn row_of(op: &Operation, places: &[Open], pairs: &Pairs) -> Outcome<Option<Open>> {
    const ROWS: Open = Open { axis: 0, outer: 1, inner: 1 };
    let inputs = input_tensors(op);
    let open = |tensor: &Tensor| pairs.number(tensor).and_then(|number| pairs.open[number]);
    let (first, others) = inputs.split_first().ok_or(STATEMENTS)?;
    let result = match open(first) {
        None if places.is_empty() => None,
        Some(ROWS) if places.contains(&ROWS) => Some(ROWS),
        _ => return Err(STATEMENTS),
    };
    if others.iter().all(|other| open(other).is_none()) { Ok(result) } else { Err(STATEMENTS) }
}

fn same_known(node: &Node, a: &Graph, b: &Graph) -> bool {
    node.inputs.iter().flatten().all(|id| a.values[*id].known == b.values[*id].known)
}

/// Checks that known elements are the same: those of each index of the dimension, if it is in the
/// shape.
fn same_elements((one, a): (&Value, i64), (other, b): (&Value, i64), open: Option<Open>) -> Outcome {
    let (first, second) = match (&one.known, &other.known) {
        (None, None) => return Ok(()),
        (Some(first), Some(second)) => (first, second),
        _ => return Err(EXTENT),
    };
    let row = |known: &Constant, count: i64| -> Outcome<Vec<u8>> {
        let bytes = known.bytes();
        let length = bytes.len() / usize::try_from(count).unwrap_or(1);
        let row = &bytes[..length];
        let is_repeated = length == 0 || bytes.chunks(length).all(|other| other == row);
        if is_repeated { Ok(row.to_vec()) } else { Err(OTHERS) }
    };
    let is_same = match open {
        None => first == second,
        Some(Open { axis: 0, outer: 1, .. }) => row(first, a)? == row(second, b)?,
        Some(_) => return Err(OTHERS),
    };
    if is_same { Ok(()) } else { Err(EXTENT) }
}
