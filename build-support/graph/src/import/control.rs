//! Branches and loops.
//!
//! A loop is written out: its rounds are nodes of the graph. Where a condition depends on what the model is called with, both sides are computed, and each
//! element of the result is taken from one of them; nodes have no effects, so the result is the same.

use super::emit::Emitter;
use super::{Arguments, DEPTH, Importer, Item, Scope, place};
use crate::constant::Constant;
use crate::error::{Fix, GraphError, Result, fail, require};
use crate::graph::ValueId;
use crate::onnx::{self, AttributeValue, Dim, ValueType, dtype_of};

/// The operators with graphs in them.
pub(super) const NAMES: [&str; 4] = ["If", "Loop", "Scan", "SequenceMap"];

/// Rounds of a loop, at most.
const ROUNDS: i64 = 4096;
/// Nodes of a graph with loops written out, at most.
const NODES: usize = 200_000;

/// A node with graphs in it.
struct Control<'n, 'a> {
    node: &'n onnx::Node<'a>,
    inputs: &'n [Option<Item>],
    attributes: &'n [(&'n str, &'n AttributeValue<'a>)],
    version: i64,
    scope: &'n Scope,
    arguments: &'n Arguments<'a>,
}

impl<'n, 'a> Control<'n, 'a> {
    fn attribute(&self, name: &str) -> Option<&'n AttributeValue<'a>> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn graph(&self, name: &str) -> Result<&'n onnx::Graph<'a>> {
        match self.attribute(name) {
            Some(AttributeValue::Graph(graph)) => Ok(graph),
            _ => fail!("attribute `{name}` is missing"),
        }
    }

    fn ints(&self, name: &str, count: usize) -> Result<Vec<i64>> {
        let values = match self.attribute(name) {
            None => vec![0; count],
            Some(AttributeValue::Ints(values)) => values.clone(),
            Some(_) => fail!("attribute `{name}` is no list of integers"),
        };
        require!(values.len() == count, "attribute `{name}` has {} numbers, not {count}", values.len());
        Ok(values)
    }

    fn input(&self, index: usize) -> Option<&'n Item> {
        self.inputs.get(index).and_then(Option::as_ref)
    }

    fn needed(&self, index: usize) -> Result<&'n Item> {
        self.input(index).ok_or_else(|| GraphError::new(format!("input {index} is missing")))
    }

    /// The inputs from one on, all of which have to be there.
    fn inputs_from(&self, first: usize) -> Result<Vec<Item>> {
        (first..self.inputs.len()).map(|index| self.needed(index).cloned()).collect()
    }

    /// What the results are called.
    fn name(&self) -> &'n str {
        self.node.outputs.first().map_or("", String::as_str)
    }
}

impl<'a> Importer<'_, 'a> {
    /// A node with graphs in it: what its outputs stand for.
    pub(super) fn control(
        &mut self,
        node: &onnx::Node<'a>,
        inputs: &[Option<Item>],
        attributes: &[(&str, &AttributeValue<'a>)],
        version: i64,
        scope: &Scope,
        arguments: &Arguments<'a>,
    ) -> Result<Vec<Option<Item>>> {
        let control = Control { node, inputs, attributes, version, scope, arguments };
        let made = match node.op_type.as_str() {
            "If" => self.branch(&control),
            "Loop" => self.repeat(&control),
            "Scan" if version < 9 => self.scan_batches(&control),
            "Scan" => self.scan(&control),
            _ => self.map(&control),
        };
        Ok(made.map_err(|error| error.within_once(&place(node)))?.into_iter().map(Some).collect())
    }

    /// The nodes of a graph inside of the model's, for inputs: what its outputs stand for.
    fn inside(&mut self, control: &Control<'_, 'a>, graph: &onnx::Graph<'a>, inputs: Vec<Item>) -> Result<Vec<Item>> {
        require!(self.depth < DEPTH, "graphs in graphs, more than {DEPTH} deep");
        require!(
            graph.inputs.len() == inputs.len(),
            "the graph inside has {} inputs, and gets {}",
            graph.inputs.len(),
            inputs.len()
        );
        // Names of the graph around it are seen; its own stay its own.
        let mut scope = control.scope.clone();
        for node in &graph.nodes {
            for name in &node.outputs {
                scope.remove(name);
            }
        }
        self.initializers(graph, &mut scope)?;
        scope.extend(graph.inputs.iter().map(|input| input.name.clone()).zip(inputs));
        self.depth += 1;
        let outcome = self.nodes(&graph.nodes, control.version, &mut scope, control.arguments);
        self.depth -= 1;
        outcome?;
        require!(
            self.graph.nodes.len() < NODES,
            "the graph has more than {NODES} nodes: loops are written out, and their rounds are too many"
        );
        let outputs = graph.outputs.iter().map(|output| match scope.get(&output.name) {
            Some(item) => Ok(item.clone()),
            None => fail!("no node computes the output '{}' of the graph inside", output.name),
        });
        outputs.collect()
    }

    fn emitter<'g>(&'g mut self, control: &Control<'g, 'a>) -> Emitter<'g> {
        Emitter { graph: &mut self.graph, name: control.name() }
    }

    /// One of two items, by a condition that is known when the model runs.
    fn chosen(&mut self, control: &Control<'_, 'a>, condition: ValueId, yes: &Item, no: &Item) -> Result<Item> {
        let name = control.name();
        let pick = |importer: &mut Self, yes: ValueId, no: ValueId| -> Result<ValueId> {
            if yes == no {
                return Ok(yes);
            }
            let values = &importer.graph.values;
            let (a, b) = (&values[yes], &values[no]);
            if a.shape != b.shape || a.dtype != b.dtype {
                let what = format!(
                    "the condition depends on what the model is called with, and the results are {}{:?} or {}{:?}, which have to be of one shape",
                    a.dtype, a.shape, b.dtype, b.shape
                );
                return Err(GraphError::new(what).fix(&Fix::Constant));
            }
            Emitter { graph: &mut importer.graph, name }.node("Where", &[], &[condition, yes, no])
        };
        Ok(match (yes, no) {
            (Item::Nothing, Item::Nothing) => Item::Nothing,
            (Item::Tensor(yes), Item::Tensor(no)) => Item::Tensor(pick(self, *yes, *no)?),
            (Item::Sequence(yes), Item::Sequence(no)) if yes.len() == no.len() => {
                let pairs = yes.iter().zip(no);
                Item::Sequence(pairs.map(|(yes, no)| pick(self, *yes, *no)).collect::<Result<_>>()?)
            }
            _ => {
                let what = format!(
                    "the condition depends on what the model is called with, and the results are {} or {}, of another structure",
                    yes.kind(),
                    no.kind()
                );
                return Err(GraphError::new(what).fix(&Fix::Constant));
            }
        })
    }

    fn branch(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
        let condition = control.needed(0)?.tensor("the condition")?;
        let (yes, no) = (control.graph("then_branch")?, control.graph("else_branch")?);
        if let Some(holds) = self.emitter(control).known_bool(condition)? {
            return self.inside(control, if holds { yes } else { no }, Vec::new());
        }
        let (yes, no) = (self.inside(control, yes, Vec::new())?, self.inside(control, no, Vec::new())?);
        require!(yes.len() == no.len(), "the branches have {} and {} outputs", yes.len(), no.len());
        yes.iter().zip(&no).map(|(yes, no)| self.chosen(control, condition, yes, no)).collect()
    }

    /// Inputs: the number of rounds, a condition, states. The body gets the number of the round, the condition and the states, and gives the condition, the
    /// states, and a row of each further output.
    fn repeat(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
        let body = control.graph("body")?;
        let rounds = match control.input(0) {
            None => None,
            Some(item) => {
                let id = item.tensor("the number of rounds")?;
                let Some(rounds) = self.emitter(control).known_int(id)? else {
                    return Err(GraphError::new(
                        "the number of rounds has to be known when the model is compiled, and depends on what the model is called with",
                    )
                    .fix(&Fix::Constant));
                };
                Some(rounds)
            }
        };
        let mut states = control.inputs_from(2)?;
        let count = states.len();
        require!(
            body.outputs.len() > count,
            "the body has {} outputs, a condition and {count} states are needed",
            body.outputs.len()
        );
        let mut rows: Vec<Vec<ValueId>> = vec![Vec::new(); body.outputs.len() - 1 - count];
        let always = self.graph.add_known(control.name(), truth(true)?);
        // The condition as the body sees it, and as one that is known when the model runs, if it is.
        let mut condition = match control.input(1) {
            Some(item) => item.tensor("the condition")?,
            None => always,
        };
        let mut is_active: Option<ValueId> = None;
        let mut round = 0;
        while rounds.is_none_or(|rounds| round < rounds) {
            match self.emitter(control).known_bool(condition)? {
                Some(false) => break,
                Some(true) => {}
                None => {
                    require!(
                        rounds.is_some(),
                        "the number of rounds depends on what the model is called with, and has no bound"
                    );
                    if !rows.is_empty() {
                        return Err(GraphError::new(
                            "the number of rounds depends on what the model is called with, so does the size of what the rounds give",
                        )
                        .fix(&Fix::Constant));
                    }
                    is_active = Some(match is_active {
                        None => condition,
                        Some(before) => self.emitter(control).node("And", &[], &[before, condition])?,
                    });
                }
            }
            require!(round < ROUNDS, "more than {ROUNDS} rounds, which are written out one by one");
            let mut inputs = vec![Item::Tensor(self.emitter(control).int(round)?), Item::Tensor(condition)];
            inputs.extend(states.iter().cloned());
            let mut outputs = self.inside(control, body, inputs)?.into_iter();
            if let Some(item) = outputs.next() {
                condition = item.tensor("the condition of the body")?;
            }
            let new: Vec<Item> = outputs.by_ref().take(count).collect();
            states = match is_active {
                None => new,
                Some(active) => {
                    let pairs = new.iter().zip(&states);
                    pairs.map(|(new, old)| self.chosen(control, active, new, old)).collect::<Result<_>>()?
                }
            };
            for (row, item) in rows.iter_mut().zip(outputs) {
                row.push(item.tensor("what a round gives")?);
            }
            round += 1;
        }
        for (index, row) in rows.iter().enumerate() {
            let declared = &body.outputs[1 + count + index];
            states.push(Item::Tensor(self.stacked(control, row, 0, declared)?));
        }
        Ok(states)
    }

    /// Rows of a loop as one tensor; without rows the body has to tell the shape of one.
    fn stacked(
        &mut self,
        control: &Control<'_, 'a>,
        rows: &[ValueId],
        axis: i64,
        declared: &onnx::ValueInfo,
    ) -> Result<ValueId> {
        if !rows.is_empty() {
            return self.emitter(control).stack(rows, axis);
        }
        let ValueType::Tensor(element, Some(dims)) = &declared.ty else {
            fail!("there is no round, and the shape of '{}' is not told", declared.name)
        };
        let mut shape = Vec::new();
        for dim in dims {
            match dim {
                Dim::Known(extent) => shape.push(*extent),
                Dim::Named(_) => fail!("there is no round, and the shape of '{}' is not told", declared.name),
            }
        }
        shape.insert(crate::op::axis_of(axis, shape.len() + 1)?, 0);
        Ok(self.graph.add_known(control.name(), Constant::new(dtype_of(*element)?, &shape, Vec::new())?))
    }

    /// Inputs: states, then tensors that are read slice by slice.
    fn scan(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
        let inputs = control.inputs_from(0)?;
        self.scan_slices(control, inputs, "scan_input_directions")
    }

    /// Version 8: an optional tensor of lengths first, and all have a first axis of batches.
    fn scan_batches(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
        require!(control.input(0).is_none(), "lengths of sequences are not supported in Scan of version 8");
        let mut ids = Vec::new();
        for item in control.inputs_from(1)? {
            ids.push(item.tensor("an input")?);
        }
        let batches = ids.first().and_then(|id| self.graph.values[*id].shape.first().copied()).unwrap_or(0);
        require!(batches > 0, "there is no batch");
        let mut columns: Vec<Vec<ValueId>> = Vec::new();
        for batch in 0..batches {
            let mut inputs = Vec::new();
            for id in &ids {
                inputs.push(Item::Tensor(self.emitter(control).slice(*id, 0, batch)?));
            }
            for (index, item) in self.scan_slices(control, inputs, "directions")?.iter().enumerate() {
                if index == columns.len() {
                    columns.push(Vec::new());
                }
                columns[index].push(item.tensor("a result")?);
            }
        }
        columns.iter().map(|column| Ok(Item::Tensor(self.emitter(control).stack(column, 0)?))).collect()
    }

    fn scan_slices(&mut self, control: &Control<'_, 'a>, inputs: Vec<Item>, directions: &str) -> Result<Vec<Item>> {
        let body = control.graph("body")?;
        let count = match control.attribute("num_scan_inputs") {
            Some(AttributeValue::Int(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
            _ => fail!("attribute `num_scan_inputs` is missing"),
        };
        require!((1..=inputs.len()).contains(&count), "{count} of {} inputs are read slice by slice", inputs.len());
        let states_count = inputs.len() - count;
        require!(
            body.outputs.len() >= states_count,
            "the body has {} outputs, {states_count} states are needed",
            body.outputs.len()
        );
        let mut states: Vec<Item> = inputs[..states_count].to_vec();
        let (axes, backwards) = (control.ints("scan_input_axes", count)?, control.ints(directions, count)?);
        let rows_count = body.outputs.len() - states_count;
        let (row_axes, rows_backwards) =
            (control.ints("scan_output_axes", rows_count)?, control.ints("scan_output_directions", rows_count)?);
        let mut scanned = Vec::new();
        let mut length = None;
        for (item, axis) in inputs[states_count..].iter().zip(&axes) {
            let id = item.tensor("what is read slice by slice")?;
            let shape = &self.graph.values[id].shape;
            let extent = shape[crate::op::axis_of(*axis, shape.len())?];
            require!(
                length.is_none_or(|length| length == extent),
                "the inputs that are read slice by slice have different lengths"
            );
            length = Some(extent);
            scanned.push(id);
        }
        let length = length.unwrap_or(0);
        require!(length <= ROUNDS, "{length} rounds, which are written out one by one; at most {ROUNDS} are supported");
        let mut rows: Vec<Vec<ValueId>> = vec![Vec::new(); rows_count];
        for round in 0..length {
            let mut inputs = states.clone();
            for ((id, axis), backwards) in scanned.iter().zip(&axes).zip(&backwards) {
                let index = if *backwards == 0 { round } else { length - 1 - round };
                inputs.push(Item::Tensor(self.emitter(control).slice(*id, *axis, index)?));
            }
            let mut outputs = self.inside(control, body, inputs)?.into_iter();
            states = outputs.by_ref().take(states_count).collect();
            for (row, item) in rows.iter_mut().zip(outputs) {
                row.push(item.tensor("what a round gives")?);
            }
        }
        for (index, mut row) in rows.into_iter().enumerate() {
            if rows_backwards[index] != 0 {
                row.reverse();
            }
            let declared = &body.outputs[states_count + index];
            states.push(Item::Tensor(self.stacked(control, &row, row_axes[index], declared)?));
        }
        Ok(states)
    }

    /// The body for each tensor of the first sequence; further inputs are sequences of the same length, or tensors.
    fn map(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
        let body = control.graph("body")?;
        let inputs = control.inputs_from(0)?;
        let Some(Item::Sequence(first)) = inputs.first() else { fail!("input 0 is not a sequence") };
        let mut columns: Vec<Vec<ValueId>> = vec![Vec::new(); body.outputs.len()];
        for index in 0..first.len() {
            let mut elements = Vec::new();
            for item in &inputs {
                elements.push(match item {
                    Item::Sequence(ids) => match ids.get(index) {
                        Some(id) => Item::Tensor(*id),
                        None => fail!("the sequences have {} and {} tensors", first.len(), ids.len()),
                    },
                    item => item.clone(),
                });
            }
            for (column, item) in columns.iter_mut().zip(self.inside(control, body, elements)?) {
                column.push(item.tensor("what the body gives")?);
            }
        }
        Ok(columns.into_iter().map(Item::Sequence).collect())
    }
}

/// A truth value without dimensions.
fn truth(holds: bool) -> Result<Constant> {
    Constant::new(kernpack_compiler::ir::BOOLEAN, &[], vec![u8::from(holds)])
}
