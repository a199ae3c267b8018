//! Loops.
//!
//! A loop with few iterations is unrolled: its iterations become nodes of the graph. So is one
//! whose iterations can all be computed at build time. With a condition that is only known at run
//! time, all iterations are computed if they are cheap and cannot fail, and each element of a state
//! is taken from the last valid iteration. Other loops, with more or an unknown number of
//! iterations, keep their body once: see `native_loop.rs`.

use kernpack_compiler::ir::I64;

use super::control::{Control, truth};
use super::native_loop::{Wanted, passes};
use super::{Importer, Item};
use crate::attrs::Attr;
use crate::constant::Constant;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::onnx::{self, AttributeValue, Dim, ValueType, dtype_of};
use crate::op;

/// The maximum number of iterations of an unrolled loop.
const ROUNDS: i64 = 4096;
/// The maximum number of unrolled iterations with nodes if the body can be compiled once instead.
const PATIENCE: usize = 64;
/// The reason why a loop is not unrolled.
const TOO_MANY: &str = "more than 4096 rounds are not written out one by one";

/// The reason why a loop is not unrolled.
const MAY_FAIL: &str = "a condition that depends on what the model is called with ends the loop, and rounds behind its end would be computed";

/// The result of unrolling a loop.
enum Written {
    /// Its states and rows.
    Items(Vec<Item>),
    /// It is not possible, or too expensive, with the reason.
    Not(&'static str),
}

impl<'a> Importer<'_, 'a> {
    /// Imports `Loop`. Inputs: the number of iterations, a condition, states. The body gets the
    /// index of the iteration, the condition and the states, and returns the condition, the states,
    /// and a row of each further output.
    pub(super) fn repeat(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
        let body = control.graph("body")?;
        let states = control.inputs_from(2)?;
        let given = body.outputs.len();
        require!(
            given > states.len(),
            "the body has {given} outputs, a condition and {} states are needed",
            states.len()
        );
        let (mut rounds, mut count) = (None, None);
        if let Some(item) = control.input(0) {
            let id = item.tensor("the number of rounds")?;
            let value = &self.graph.values[id];
            let elements: i64 = value.shape.iter().product();
            require!(
                value.dtype == I64 && elements == 1,
                "the number of rounds is {}{:?}, and has to be an int64 of one element",
                value.dtype,
                value.shape
            );
            rounds = self.emitter(control).known_int(id)?;
            count = rounds.is_none().then_some(id);
        }
        let condition = match control.input(1) {
            None => self.graph.add_known(control.name(), truth(true)?),
            Some(item) => self.condition(item, "the condition")?,
        };
        let holds = self.emitter(control).known_bool(condition)?;
        if holds == Some(false) {
            (rounds, count) = (Some(0), None);
        }
        let wanted = Wanted {
            operator: &op::LOOP,
            is_loop: true,
            rounds,
            count,
            condition: holds.is_none().then_some(condition),
            states: &states,
            slices: Vec::new(),
            rows_backwards: Vec::new(),
        };
        self.repeated(
            |importer, patience| importer.written_out(control, (rounds, count), condition, states.clone(), patience),
            |importer| importer.native_loop(control, &wanted),
        )
    }

    /// Imports a loop unrolled, or with its body once if there are many iterations. `write_out`
    /// gives up after this number of iterations that have nodes.
    fn repeated(
        &mut self,
        write_out: impl Fn(&mut Self, usize) -> Result<Written>,
        native: impl Fn(&mut Self) -> Result<Vec<Item>>,
    ) -> Result<Vec<Item>> {
        let mark = self.graph.mark();
        if let Written::Items(items) = write_out(self, PATIENCE)? {
            return Ok(items);
        }
        self.graph.take_back(mark);
        let error = match native(self) {
            Ok(items) => return Ok(items),
            Err(error) => error,
        };
        self.graph.take_back(mark);
        match write_out(self, usize::MAX)? {
            Written::Items(items) => Ok(items),
            Written::Not(why) => Err(error.within(why)),
        }
    }

    fn written_out(
        &mut self,
        control: &Control<'_, 'a>,
        (rounds, count): (Option<i64>, Option<ValueId>),
        mut condition: ValueId,
        mut states: Vec<Item>,
        patience: usize,
    ) -> Result<Written> {
        const OPEN: &str = "the number of rounds depends on what the model is called with";
        if count.is_some() {
            return Ok(Written::Not(OPEN));
        }
        let body = control.graph("body")?;
        let holds = self.emitter(control).known_bool(condition)? == Some(true);
        let stays = body.inputs.get(1).is_some_and(|input| passes(body, &body.outputs[0].name, &input.name));
        if holds && stays && rounds.is_none_or(|rounds| rounds > ROUNDS) {
            return Ok(Written::Not(TOO_MANY));
        }
        let count = states.len();
        let mut rows: Vec<Vec<ValueId>> = vec![Vec::new(); body.outputs.len() - 1 - count];
        // The condition as the body sees it, and the run-time condition, if there is one.
        let mut is_active: Option<ValueId> = None;
        let (mut round, mut with_nodes) = (0, 0);
        while rounds.is_none_or(|rounds| round < rounds) {
            match self.emitter(control).known_bool(condition)? {
                Some(false) => break,
                Some(true) => {}
                None => {
                    if rounds.is_none() || !rows.is_empty() {
                        return Ok(Written::Not(OPEN));
                    }
                    is_active = Some(match is_active {
                        None => condition,
                        Some(before) => self.emitter(control).node("And", &[], &[before, condition])?,
                    });
                }
            }
            if round >= ROUNDS || with_nodes >= patience {
                return Ok(Written::Not(TOO_MANY));
            }
            let nodes = self.graph.nodes.len();
            let mut inputs = vec![Item::Tensor(self.emitter(control).int(round)?), Item::Tensor(condition)];
            inputs.extend(states.iter().cloned());
            let around = self.graph.is_conditional;
            self.graph.is_conditional |= is_active.is_some();
            let outputs = self.inside(control, body, inputs);
            self.graph.is_conditional = around;
            let mut outputs = outputs?.into_iter();
            if is_active.is_some() {
                // Without an alternative they may cost more.
                let is_last = patience == usize::MAX;
                let graph = &self.graph;
                if !(if is_last { graph.is_safe_from(nodes)? } else { graph.is_harmless_from(nodes)? }) {
                    return Ok(Written::Not(MAY_FAIL));
                }
            }
            if let Some(item) = outputs.next() {
                condition = self.condition(&item, "the condition of the body")?;
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
            with_nodes += usize::from(self.graph.nodes.len() > nodes);
        }
        for (index, row) in rows.iter().enumerate() {
            let declared = &body.outputs[1 + count + index];
            states.push(Item::Tensor(self.stacked(control, row, 0, declared)?));
        }
        Ok(Written::Items(states))
    }

    /// Stacks the rows of a loop to one tensor. Without rows, the body determines the shape of one.
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
        shape.insert(op::axis_of(axis, shape.len() + 1)?, 0);
        Ok(self.graph.add_known(control.name(), Constant::new(dtype_of(*element)?, &shape, Vec::new())?))
    }

    /// Imports `Scan`. Inputs: states, then tensors that are read slice by slice.
    pub(super) fn scan(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
        let inputs = control.inputs_from(0)?;
        self.scan_slices(control, inputs, "scan_input_directions")
    }

    /// Imports `Scan` of version 8: an optional tensor of lengths comes first, and all inputs have
    /// a batch axis first.
    pub(super) fn scan_batches(&mut self, control: &Control<'_, 'a>) -> Result<Vec<Item>> {
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
        let (axes, backwards) = (control.ints("scan_input_axes", count)?, control.ints(directions, count)?);
        let rows_count = body.outputs.len() - states_count;
        let (row_axes, rows_backwards) =
            (control.ints("scan_output_axes", rows_count)?, control.ints("scan_output_directions", rows_count)?);
        let mut scanned = Vec::new();
        let mut length = None;
        for (item, axis) in inputs[states_count..].iter().zip(&axes) {
            let id = item.tensor("what is read slice by slice")?;
            let shape = &self.graph.values[id].shape;
            let axis = op::axis_of(*axis, shape.len())?;
            require!(
                length.is_none_or(|length| length == shape[axis]),
                "the inputs that are read slice by slice have different lengths"
            );
            length = Some(shape[axis]);
            scanned.push((id, axis));
        }
        let length = length.unwrap_or(0);
        let write_out = |importer: &mut Self, patience| -> Result<Written> {
            if length > ROUNDS {
                return Ok(Written::Not(TOO_MANY));
            }
            let mut states = inputs[..states_count].to_vec();
            let mut rows: Vec<Vec<ValueId>> = vec![Vec::new(); rows_count];
            let mut with_nodes = 0;
            for round in 0..length {
                if with_nodes >= patience {
                    return Ok(Written::Not(TOO_MANY));
                }
                let nodes = importer.graph.nodes.len();
                let mut inputs = states.clone();
                for ((id, axis), backwards) in scanned.iter().zip(&backwards) {
                    let index = if *backwards == 0 { round } else { length - 1 - round };
                    let axis = i64::try_from(*axis).unwrap_or(0);
                    inputs.push(Item::Tensor(importer.emitter(control).slice(*id, axis, index)?));
                }
                let mut outputs = importer.inside(control, body, inputs)?.into_iter();
                states = outputs.by_ref().take(states_count).collect();
                for (row, item) in rows.iter_mut().zip(outputs) {
                    row.push(item.tensor("what a round gives")?);
                }
                with_nodes += usize::from(importer.graph.nodes.len() > nodes);
            }
            for (index, mut row) in rows.into_iter().enumerate() {
                if rows_backwards[index] != 0 {
                    row.reverse();
                }
                let declared = &body.outputs[states_count + index];
                states.push(Item::Tensor(importer.stacked(control, &row, row_axes[index], declared)?));
            }
            Ok(Written::Items(states))
        };
        let native = |importer: &mut Self| -> Result<Vec<Item>> {
            let mut slices = Vec::new();
            for ((id, axis), backwards) in scanned.iter().zip(&backwards) {
                slices.push((importer.with_axis(control, *id, *axis, 0)?, *backwards != 0));
            }
            let wanted = Wanted {
                operator: &op::SCAN,
                is_loop: false,
                rounds: Some(length),
                count: None,
                condition: None,
                states: &inputs[..states_count],
                slices,
                rows_backwards: rows_backwards.iter().map(|backwards| *backwards != 0).collect(),
            };
            let mut items = importer.native_loop(control, &wanted)?;
            for (item, axis) in items.iter_mut().skip(states_count).zip(&row_axes) {
                if let Item::Tensor(id) = item {
                    let axis = op::axis_of(*axis, importer.graph.values[*id].shape.len())?;
                    *id = importer.with_axis(control, *id, 0, axis)?;
                }
            }
            Ok(items)
        };
        self.repeated(write_out, native)
    }

    /// Moves an axis of a value to another position.
    fn with_axis(&mut self, control: &Control<'_, 'a>, id: ValueId, from: usize, to: usize) -> Result<ValueId> {
        if from == to {
            return Ok(id);
        }
        let mut order: Vec<usize> = (0..self.graph.values[id].shape.len()).collect();
        let axis = order.remove(from);
        order.insert(to, axis);
        let order = order.into_iter().map(|axis| i64::try_from(axis).unwrap_or(0)).collect();
        self.emitter(control).node("Transpose", &[("perm", Attr::Ints(order))], &[id])
    }
}
