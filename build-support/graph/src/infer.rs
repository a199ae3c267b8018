//! Adds nodes to a graph: their computations determine their types, shapes and, if all inputs are
//! known, their values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kernpack_compiler::ir::{Operation, OperationNode, Tensor};
use kernpack_compiler::te::eval::Evaluator;
use kernpack_compiler::te::operation::{input_tensors, post_order};
use kernpack_compiler::te::placeholder;
use kernpack_compiler::with_reported;

use crate::attrs::Attrs;
use crate::constant::{Constant, num_elements, stored};
use crate::effort::{MOST_EFFORT, SMALL_EFFORT, effort};
use crate::error::{GraphError, Result, require};
use crate::fold_layout_moves::fold_layout_move;
use crate::graph::{Graph, Node, Value, ValueId};
use crate::op::{NodeOp, Pattern, beside, classic, extents, is_by_position, narrow};

/// A known tensor with more bytes is not computed at build time if it is also this many times
/// larger than its inputs.
const LARGE: usize = 1 << 20;
const GROWS: usize = 4;

/// Returns the shape of a tensor with constant extents.
fn shape_of(tensor: &Tensor) -> Vec<i64> {
    tensor.shape.iter().map(|extent| extent.as_int().unwrap_or(-1)).collect()
}

/// Returns the results of a view after the first one that are computed without inputs: no kernel
/// would write them.
fn of_nothing(node: &Node, made: &[Tensor]) -> Result<Vec<Option<Constant>>> {
    let mut known = vec![None; made.len()];
    for (known, tensor) in known.iter_mut().zip(made).skip(1).filter(|_| node.op.pattern() == Pattern::View) {
        if input_tensors(&tensor.op).is_empty() && num_elements(&shape_of(tensor))? <= LARGE {
            let results = with_reported(|| Evaluator::new().run(core::slice::from_ref(tensor)));
            let results = results.map_err(|error| GraphError::from(error).within(&node.place()))?;
            *known = results.first().map(Constant::from_elements).transpose()?;
        }
    }
    Ok(known)
}

/// Checks that no tensor of these operations has too many elements, including intermediate tensors
/// of an operator.
fn check_sizes(order: &[Operation], results: &[Operation]) -> Result<()> {
    for op in order {
        // Results of other operations are those of the node.
        let OperationNode::Compute { name, axes, .. } = &**op else { continue };
        let extent = |axis: kernpack_compiler::ir::IterVar| axis.dom.as_ref().and_then(|dom| dom.extent.as_int());
        let shape: Vec<i64> = axes.iter().map(|axis| extent(axis).unwrap_or(1)).collect();
        let place = format!("the tensor '{name}' on the way to the result");
        let told = |error: GraphError| if results.contains(op) { error } else { error.within(&place) };
        num_elements(&shape).map_err(told)?;
    }
    Ok(())
}

impl Graph {
    /// Adds a node. Values that can be computed now become known values without a node. `names` are
    /// those of the outputs, "" for an unused one.
    ///
    /// # Errors
    /// Returns an error for inputs that do not match the operator.
    pub fn add_node(
        &mut self,
        op: impl Into<NodeOp>,
        name: &str,
        attrs: Arc<Attrs>,
        version: i64,
        inputs: &[Option<ValueId>],
        names: &[String],
    ) -> Result<Vec<Option<ValueId>>> {
        let op: NodeOp = op.into();
        let tables = match op.listed() {
            Some(op) => beside::check(op.name, &attrs, inputs)
                .and_then(|()| classic::tables(op.name, &attrs))
                .map_err(|error| error.within(&format!("node '{name}' ({})", op.name)))?,
            None => Vec::new(),
        };
        let mut inputs = inputs.to_vec();
        inputs.extend(tables.into_iter().map(|table| Some(self.add_known(&format!("{name} (table)"), table))));
        let inputs = &inputs;
        let wanted: Vec<Option<ValueId>> = names.iter().map(|name| (!name.is_empty()).then_some(0)).collect();
        let mut node = Node {
            name: name.to_owned(),
            op,
            attrs,
            version,
            inputs: inputs.to_vec(),
            reads: vec![false; inputs.len()],
            outputs: wanted,
            body: None,
        };
        for value in node.inputs.iter().flatten().map(|id| &self.values[*id]) {
            num_elements(&value.shape).map_err(|error| error.within(&node.place()))?;
        }
        let mut stands: HashMap<ValueId, Tensor> = HashMap::new();
        let made = node.instantiate(self, |id| {
            let value = &self.values[id];
            let stand = || placeholder(extents(&value.shape), stored(value.dtype), &value.name);
            stands.entry(id).or_insert_with(stand).clone()
        });
        // A zero divisor is reported with its name, if the inputs are such that there are checks.
        let made = made.map_err(|error| {
            let misfit = self.checks(&node).ok().and_then(|_| self.fits_known(&node).err());
            misfit.unwrap_or(error)
        })?;
        require!(
            made.len() >= node.outputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1),
            "{}: output {} is not supported",
            node.place(),
            made.len()
        );
        let outputs: Vec<_> = made.iter().map(|tensor| tensor.op.clone()).collect();
        let order = post_order(&outputs);
        check_sizes(&order, &outputs).map_err(|error| error.within(&node.place()))?;
        let computed_of: HashSet<&Operation> = order.iter().collect();
        let is_read = |id: &ValueId| stands.get(id).is_some_and(|tensor| computed_of.contains(&tensor.op));
        node.reads = inputs.iter().map(|id| id.as_ref().is_some_and(is_read)).collect();
        // Checked values are read, also if the results do not depend on them.
        for check in self.checks(&node)? {
            node.reads[check.input] |= inputs[check.input].is_some_and(|id| self.values[id].known.is_none());
        }
        // The same applies to values of nodes that may fail, if an identity such as `x * 0` drops
        // them.
        if is_by_position(&node.op) {
            for (index, id) in inputs.iter().enumerate() {
                if let Some(id) = id.filter(|id| !node.reads[index] && self.values[*id].known.is_none()) {
                    node.reads[index] = self.is_of_failing(id)?;
                }
            }
        }
        let read: Vec<ValueId> =
            inputs.iter().zip(&node.reads).filter_map(|(id, reads)| id.filter(|_| *reads)).collect();
        let types: Vec<_> = inputs.iter().map(|id| id.map(|id| self.values[id].dtype)).collect();
        let narrow =
            narrow::result_type(node.op.name(), &node.attrs, &types).map_err(|error| error.within(&node.place()))?;
        let may_be_known = self.may_be_known(&node, made.iter().map(|tensor| tensor.dtype));
        let known = match self.fits_known(&node)? && may_be_known {
            true => self.evaluate(&node, &made, &read, &stands, &order)?,
            false => None,
        };
        let known = match known {
            Some(known) => known.into_iter().map(Some).collect(),
            None => of_nothing(&node, &made)?,
        };
        let number = self.nodes.len();
        let mut is_computed = false;
        let mut ids = Vec::new();
        for (index, name) in names.iter().enumerate() {
            if name.is_empty() {
                ids.push(None);
                continue;
            }
            let (tensor, known) = (&made[index], known[index].clone());
            is_computed |= known.is_none();
            let shape = shape_of(tensor);
            num_elements(&shape).map_err(|error| error.within(&node.place()))?;
            let producer = known.is_none().then_some(number);
            let dtype = narrow.unwrap_or(tensor.dtype);
            let known = known.map(|known| known.retyped(dtype)).transpose()?;
            ids.push(Some(self.add_value(Value { name: name.clone(), dtype, shape, known, producer })));
        }
        self.keep_bytes(&node, &ids)?;
        self.trace(&node, &ids);
        if is_computed {
            node.outputs.clone_from(&ids);
            // One operation writes all of its results, so unused ones need memory for that time,
            // too.
            for (index, tensor) in made.iter().enumerate() {
                let is_wanted = |index: usize| ids.get(index).is_some_and(Option::is_some);
                let has_other = (0..made.len()).any(|other| is_wanted(other) && made[other].op == tensor.op);
                if is_wanted(index) || !has_other {
                    continue;
                }
                let (dtype, shape) = (tensor.dtype, shape_of(tensor));
                let name = format!("{} (not wanted)", node.name);
                let scratch = Value { name, dtype, shape, known: None, producer: Some(number) };
                if node.outputs.len() <= index {
                    node.outputs.resize(index + 1, None);
                }
                node.outputs[index] = Some(self.add_value(scratch));
            }
            self.nodes.push(node);
        }
        Ok(ids)
    }

    /// Returns true if a node depends on indices or divisors that are unknown or invalid.
    ///
    /// # Errors
    /// Returns an error for attributes of another type.
    pub(crate) fn may_fail(&self, node: &Node) -> Result<bool> {
        for check in self.checks(node)? {
            let is_known = node.inputs[check.input].is_some_and(|id| self.values[id].known.is_some());
            if !is_known || self.known_misfit(node, &check)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a value is computed by nodes of which one may fail. Each value is visited
    /// once.
    ///
    /// # Errors
    /// As for [`Graph::may_fail`].
    fn is_of_failing(&mut self, id: ValueId) -> Result<bool> {
        self.of_failing.resize(self.values.len(), None);
        // A value is visited a second time after all its inputs.
        let mut left = vec![(id, false)];
        while let Some((id, is_second)) = left.pop() {
            #[cfg(test)]
            looked::add();
            if self.of_failing[id].is_some() {
                continue;
            }
            let Some(node) = self.values[id].producer.map(|number| &self.nodes[number]) else {
                self.of_failing[id] = Some(false);
                continue;
            };
            let read = node.inputs.iter().zip(&node.reads).filter(|(_, reads)| **reads).filter_map(|(id, _)| *id);
            if is_second {
                let fails = read.into_iter().any(|id| self.of_failing[id] == Some(true));
                self.of_failing[id] = Some(fails);
            } else if node.body.is_some() || self.may_fail(node)? {
                self.of_failing[id] = Some(true);
            } else {
                left.push((id, true));
                left.extend(read.map(|id| (id, false)));
            }
        }
        Ok(self.of_failing[id] == Some(true))
    }

    /// Checks known inputs: a node must accept divisors and indices. Returns false if it does not
    /// and may never be run.
    ///
    /// # Errors
    /// Returns an error if it does not and is certain to be run.
    fn fits_known(&self, node: &Node) -> Result<bool> {
        for check in self.checks(node)? {
            if let Some(found) = self.known_misfit(node, &check)? {
                let name = node.inputs[check.input].map_or("", |id| &self.values[id].name);
                require!(self.is_conditional, "{}: {}", node.place(), check.message(name, Some(found)));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the values of all outputs, if all inputs are known and the values are not too large
    /// to keep.
    fn evaluate(
        &mut self,
        node: &Node,
        made: &[Tensor],
        read: &[ValueId],
        stands: &HashMap<ValueId, Tensor>,
        order: &[Operation],
    ) -> Result<Option<Vec<Constant>>> {
        let bytes = |tensor: &Tensor| -> Result<usize> {
            Ok(num_elements(&shape_of(tensor))?.saturating_mul(crate::constant::element_bytes(tensor.dtype)))
        };
        let given: usize =
            read.iter().map(|id| self.values[*id].known.as_ref().map_or(0, |known| known.bytes().len())).sum();
        let mut total = 0_usize;
        let mut is_empty = true;
        for tensor in made {
            let own = bytes(tensor).map_err(|error| error.within(&node.place()))?;
            total = total.saturating_add(own);
            is_empty &= own == 0;
        }
        let all_known = read.iter().all(|id| self.values[*id].known.is_some());
        // With ranges of extents, a value without elements may have some for other extents. It
        // reads nothing here.
        let is_fixed = || node.inputs.iter().flatten().all(|id| self.values[*id].known.is_some());
        if is_empty && self.traces.is_some() && !is_fixed() {
            return Ok(None);
        }
        if is_empty {
            let nothing = made.iter().map(|tensor| Constant::new(tensor.dtype, &shape_of(tensor), Vec::new()));
            return nothing.collect::<Result<Vec<_>>>().map(Some);
        }
        if !all_known || total > LARGE && total / GROWS > given {
            return Ok(None);
        }
        // The same elements in another shape.
        if node.op.pattern() == Pattern::View
            && made.len() == 1
            && let Some(Some(known)) = node.inputs.first().map(|id| id.and_then(|id| self.values[id].known.as_ref()))
        {
            return Ok(Some(vec![known.reshaped(&shape_of(&made[0]))?]));
        }
        if let Some(known) = self.dequantized_bytes(node)? {
            return Ok(Some(vec![known]));
        }
        if let ([made], [source]) = (made, read)
            && let (Some(tensor), Some(known)) = (stands.get(source), &self.values[*source].known)
            && let Some(known) = fold_layout_move(made, tensor, known)?
        {
            return Ok(Some(vec![known]));
        }
        let effort = effort(order);
        if effort > SMALL_EFFORT {
            if self.effort.saturating_add(effort) > MOST_EFFORT {
                return Ok(None);
            }
            self.effort += effort;
        }
        let mut evaluator = Evaluator::new();
        let mut done = Vec::new();
        for id in read {
            if done.contains(id) {
                continue;
            }
            done.push(*id);
            if let (Some(tensor), Some(known)) = (stands.get(id), &self.values[*id].known) {
                evaluator = evaluator.input(tensor, known.to_elements()?);
            }
        }
        let results = with_reported(|| evaluator.run(made));
        let results = results.map_err(|error| GraphError::from(error).within(&node.place()))?;
        results.iter().map(Constant::from_elements).collect::<Result<Vec<_>>>().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op;
    use kernpack_compiler::take_reported;

    /// A node without elements, and one that is evaluated: an error that was reported before is
    /// neither lost nor theirs.
    #[test]
    fn errors_of_others_stay() {
        let _ = placeholder([-1], kernpack_compiler::ir::F32, "of another");
        let mut graph = Graph::default();
        let dtype = kernpack_compiler::ir::I64;
        let value = |shape| Value { name: "x".to_owned(), dtype, shape, known: None, producer: None };
        let empty = graph.add_value(value(vec![0, 2]));
        let one = graph.add_known("one", Constant::of_ints(&[1]));
        for (a, b) in [(empty, one), (one, one)] {
            let inputs = [Some(a), Some(b)];
            graph.add_node(op::find("Add").unwrap(), "sum", Arc::default(), 23, &inputs, &["y".to_owned()]).unwrap();
        }
        let reported = take_reported().unwrap_err();
        assert!(reported.to_string().contains("`of another`"), "{reported}");
    }

    /// Links `t = t + t * 0` after a division that may fail: each product visits all values before
    /// it.
    #[test]
    fn each_value_is_looked_at_once() {
        const LINKS: usize = 600;
        for (divides, fails) in [("Div", true), ("Mul", false)] {
            let mut graph = Graph::default();
            let add = |graph: &mut Graph, op: &str, inputs: [ValueId; 2]| {
                let inputs = inputs.map(Some);
                let made =
                    graph.add_node(op::find(op).unwrap(), op, Arc::default(), 23, &inputs, &["y".to_owned()]).unwrap();
                made[0].unwrap()
            };
            let [a, b] = ["a", "b"].map(|name| {
                let dtype = kernpack_compiler::ir::I64;
                graph.add_value(Value { name: name.to_owned(), dtype, shape: vec![2], known: None, producer: None })
            });
            let zero = graph.add_known("zero", Constant::of_ints(&[0]));
            let mut value = add(&mut graph, divides, [a, b]);
            looked::take();
            for _ in 0..LINKS {
                let product = add(&mut graph, "Mul", [value, zero]);
                assert_eq!(graph.values[product].known.is_none(), fails);
                value = add(&mut graph, "Add", [value, product]);
            }
            let steps = looked::take();
            assert!((LINKS..8 * LINKS).contains(&steps), "{divides}: {steps} steps for {LINKS} links");
        }
    }
}

/// Counts the visits of values.
#[cfg(test)]
mod looked {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<usize> = const { Cell::new(0) });

    pub(super) fn add() {
        STEPS.set(STEPS.get() + 1);
    }

    pub(super) fn take() -> usize {
        STEPS.replace(0)
    }
}
