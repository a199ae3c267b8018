//! Loops whose body is compiled once: those with many iterations, or with a number of iterations
//! that is only known at run time.

use std::sync::Arc;

use kernpack_compiler::ir::{BOOLEAN, I64};

use super::captures::{Captures, is_read};
use super::control::{Control, truth};
use super::{Importer, Item, label};
use crate::attrs::Attrs;
use crate::constant::num_elements;
use crate::error::{Fix, GraphError, Result, fail, require};
use crate::graph::{Body as NodeBody, Given, Gives, Graph, NativeLoop, Node, Value, ValueId};
use crate::onnx;
use crate::op::Operator;

/// A loop as its node describes it.
pub(super) struct Wanted<'n> {
    /// The operator.
    pub(super) operator: &'static Operator,
    /// True if the body gets the index of the iteration and a condition first, and returns a
    /// condition first.
    pub(super) is_loop: bool,
    /// The number of iterations, if it is known.
    pub(super) rounds: Option<i64>,
    /// The number of iterations, as a value.
    pub(super) count: Option<ValueId>,
    /// The condition before the first iteration, if it is only known at run time.
    pub(super) condition: Option<ValueId>,
    /// The states before the first iteration.
    pub(super) states: &'n [Item],
    /// The inputs that are read slice by slice along the first axis, and true for those read from
    /// the end.
    pub(super) slices: Vec<(ValueId, bool)>,
    /// True for each output after the states whose rows are written from the end.
    pub(super) rows_backwards: Vec<bool>,
}

/// Returns true if an output of a graph is one of its inputs, unchanged.
pub(super) fn passes(graph: &onnx::Graph<'_>, output: &str, input: &str) -> bool {
    let mut name = output;
    for _ in 0..=graph.nodes.len() {
        if name == input {
            return true;
        }
        let is_source =
            |node: &&onnx::Node<'_>| node.op_type == "Identity" && node.outputs.iter().any(|own| own == name);
        match graph.nodes.iter().find(is_source).and_then(|node| node.inputs.first()) {
            Some(source) => name = source,
            None => return false,
        }
    }
    false
}

/// A body that is not in a node yet.
struct Body {
    graph: Graph,
    gives: Vec<Gives>,
    /// The values of the rows, by output. `None` for an unused one.
    rows: Vec<Option<ValueId>>,
    /// The indices of the states that change.
    changing: Vec<usize>,
    /// The meanings of the inputs of the body, without the captured outside values.
    given: Vec<(Given, ValueId)>,
    captures: Captures,
}

impl<'a> Importer<'_, 'a> {
    /// Adds a node that contains its body. Returns the states after the last iteration, then rows
    /// of each further output of the body.
    ///
    /// # Errors
    /// Returns an error for a body that cannot be repeated: states whose shape changes, or states
    /// other than tensors; rows without a bound.
    pub(super) fn native_loop(&mut self, control: &Control<'_, 'a>, wanted: &Wanted<'_>) -> Result<Vec<Item>> {
        let Body { graph, gives, rows, changing, given, mut captures } = self.body(control, wanted)?;
        let has_condition = wanted.condition.is_some() || gives.contains(&Gives::Condition);
        let limit = self.limit(control, wanted, has_condition, rows.iter().any(Option::is_some))?;
        let mut inputs: Vec<ValueId> = Vec::new();
        let mut input = |id: ValueId| {
            inputs.push(id);
            inputs.len() - 1
        };
        let count = limit.count.map(&mut input);
        let condition = wanted.condition.map(&mut input);
        let mut states = Vec::new();
        for state in &changing {
            states.push(input(wanted.states[*state].tensor("a state")?));
        }
        let first_slice = inputs.len();
        inputs.extend(wanted.slices.iter().map(|(id, _)| *id));
        let is_read = |id: &ValueId| is_read(&graph, *id);
        let (mut all, mut ids) = (Vec::new(), Vec::new());
        for (given, id) in given.into_iter().filter(|(_, id)| is_read(id)) {
            all.push(match given {
                Given::Slice { input, backwards } => Given::Slice { input: first_slice + input, backwards },
                given => given,
            });
            ids.push(id);
        }
        for (outside, inside) in captures.taken.drain(..).filter(|(_, inside)| is_read(inside)) {
            all.push(Given::Whole(inputs.len()));
            inputs.push(outside);
            ids.push(inside);
        }
        let mut body = graph;
        body.inputs = ids;

        let number = self.graph.nodes.len();
        let names = &control.node.outputs;
        let name_of = |output: usize| names.get(output).map_or("", String::as_str).to_owned();
        let mut outputs = Vec::new();
        let mut output = |graph: &mut Graph, name: String, like: &Value, shape: Vec<i64>| {
            let value = Value { name, dtype: like.dtype, shape, known: None, producer: Some(number) };
            outputs.push(graph.add_value(value));
            outputs[outputs.len() - 1]
        };
        let mut items: Vec<Item> = wanted.states.to_vec();
        for (place, state) in changing.iter().enumerate() {
            let like = &self.graph.values[inputs[states[place]]].clone();
            items[*state] = Item::Tensor(output(&mut self.graph, name_of(*state), like, like.shape.clone()));
        }
        let mut sized = Vec::new();
        for (row, id) in rows.iter().enumerate() {
            let Some(id) = id else {
                items.push(Item::Nothing);
                continue;
            };
            let like = &body.values[*id];
            let shape: Vec<i64> = [limit.most].into_iter().chain(like.shape.iter().copied()).collect();
            num_elements(&shape)?;
            let name = name_of(wanted.states.len() + row);
            let made = output(&mut self.graph, name.clone(), like, shape);
            items.push(Item::Tensor(made));
            if limit.is_exact {
                continue;
            }
            sized.push((name, made, i64::try_from(like.shape.len() + 1).unwrap_or(1)));
        }
        let (mut extents, first_row) = (Vec::new(), changing.len());
        let ints = Value { name: String::new(), dtype: I64, shape: Vec::new(), known: None, producer: None };
        let rows_count = rows.iter().flatten().count();
        for (place, (name, rows, rank)) in sized.into_iter().enumerate() {
            let tells = output(&mut self.graph, format!("{name}_extents"), &ints, vec![rank]);
            self.graph.extents.insert(rows, tells);
            extents.push((first_row + place, first_row + rows_count + place));
        }
        let native = NativeLoop {
            body,
            given: all,
            gives,
            states,
            count,
            condition,
            most: limit.most,
            is_bounded: limit.is_bounded,
            extents,
        };
        self.graph.nodes.push(Node {
            name: label(control.node).to_owned(),
            op: wanted.operator.into(),
            attrs: Arc::new(Attrs::default()),
            version: control.version,
            reads: vec![true; inputs.len()],
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: outputs.into_iter().map(Some).collect(),
            body: Some(Arc::new(NodeBody::Loop(native))),
        });
        Ok(items)
    }

    /// Imports the graph of the body. The enclosing one is set aside in the meantime.
    fn body(&mut self, control: &Control<'_, 'a>, wanted: &Wanted<'_>) -> Result<Body> {
        let onnx = control.graph("body")?;
        let own = if wanted.is_loop { 2 } else { 0 };
        let outputs_before = usize::from(wanted.is_loop);
        let states = wanted.states.len();
        let expected = own + states + wanted.slices.len();
        require!(
            onnx.inputs.len() == expected,
            "the graph inside has {} inputs, and gets {expected}",
            onnx.inputs.len()
        );
        let mut body = Graph::default();
        let is_certain = wanted.rounds.is_some_and(|rounds| rounds > 0) && wanted.condition.is_none();
        body.is_conditional = self.graph.is_conditional || !is_certain;
        let mut captures = Captures::default();
        let scope = captures.scope(&self.graph, &mut body, onnx, control.scope)?;
        let add = |body: &mut Graph, name: &str, like: &Value, shape: &[i64]| {
            let (name, shape) = (name.to_owned(), shape.to_vec());
            body.add_value(Value { name, dtype: like.dtype, shape, known: None, producer: None })
        };
        let (mut items, mut given, mut changing) = (Vec::new(), Vec::new(), Vec::new());
        if wanted.is_loop {
            let round = Value { name: String::new(), dtype: I64, shape: Vec::new(), known: None, producer: None };
            let id = add(&mut body, &onnx.inputs[0].name, &round, &[]);
            given.push((Given::Round, id));
            items.push(Item::Tensor(id));
            // The condition is true while an iteration runs.
            items.push(Item::Tensor(body.add_known(&onnx.inputs[1].name, truth(true)?)));
        }
        for (number, item) in wanted.states.iter().enumerate() {
            let (input, output) = (&onnx.inputs[own + number].name, &onnx.outputs[outputs_before + number].name);
            if passes(onnx, output, input) {
                items.push(captures.item(&self.graph, &mut body, item)?);
                continue;
            }
            let id = match item {
                Item::Tensor(id) => *id,
                other => fail!("the state '{input}' is {}, which cannot be kept from round to round", other.kind()),
            };
            require!(
                !self.graph.extents.contains_key(&id),
                "the extents of the state '{input}' depend on what the model is called with"
            );
            let like = &self.graph.values[id];
            let inside = add(&mut body, input, like, &like.shape);
            given.push((Given::State(changing.len()), inside));
            changing.push(number);
            items.push(Item::Tensor(inside));
        }
        for (number, (id, backwards)) in wanted.slices.iter().enumerate() {
            let like = &self.graph.values[*id];
            require!(
                !self.graph.extents.contains_key(id),
                "the extents of '{}', which is read slice by slice, depend on what the model is called with",
                like.name
            );
            let inside = add(&mut body, &onnx.inputs[own + states + number].name, like, &like.shape[1..]);
            given.push((Given::Slice { input: number, backwards: *backwards }, inside));
            items.push(Item::Tensor(inside));
        }
        let inner = Control { scope: &scope, ..*control };
        let (gives, rows) = self.within(&mut body, |importer| {
            let made = importer.inside(&inner, onnx, items)?;
            importer.body_outputs(&inner, wanted, &changing, &given, made)
        })?;
        let graph = body;
        Ok(Body { graph, gives, rows, changing, given, captures })
    }

    /// Returns the purposes of the outputs of the body, which is the current graph, and the value
    /// of a row for each output of the node after the states.
    fn body_outputs(
        &mut self,
        control: &Control<'_, 'a>,
        wanted: &Wanted<'_>,
        changing: &[usize],
        given: &[(Given, ValueId)],
        made: Vec<Item>,
    ) -> Result<(Vec<Gives>, Vec<Option<ValueId>>)> {
        let (mut gives, mut rows) = (Vec::new(), Vec::new());
        let states = wanted.states.len();
        let mut made = made.into_iter();
        let version = control.version;
        if wanted.is_loop
            && let Some(item) = made.next()
        {
            let id = self.condition(&item, "the condition of the body")?;
            if self.known_bool(id)? != Some(true) {
                gives.push(Gives::Condition);
                self.body_output(id, version)?;
            }
        }
        for (place, number) in changing.iter().enumerate() {
            let item = made.clone().nth(*number);
            let Some(item) = item else { fail!("the body does not give state {number}") };
            let id = item.tensor("what a state becomes")?;
            let before = given.iter().find(|(given, _)| *given == Given::State(place)).map_or(id, |(_, id)| *id);
            let (old, new) = (&self.graph.values[before], &self.graph.values[id]);
            require!(
                old.dtype == new.dtype && old.shape == new.shape,
                "the state '{}' is {}{:?}, and becomes {}{:?}",
                old.name,
                old.dtype,
                old.shape,
                new.dtype,
                new.shape
            );
            gives.push(Gives::State(place));
            self.body_output(id, version)?;
        }
        for (row, item) in made.skip(states).enumerate() {
            let name = control.node.outputs.get(states + row).map_or("", String::as_str);
            if name.is_empty() {
                rows.push(None);
                continue;
            }
            let id = item.tensor("what a round gives")?;
            let output = changing.len() + rows.iter().flatten().count();
            let backwards = wanted.rows_backwards.get(row).copied().unwrap_or(false);
            gives.push(Gives::Row { output, backwards });
            rows.push(Some(self.body_output(id, version)?));
        }
        Ok((gives, rows))
    }

    pub(super) fn body_output(&mut self, id: ValueId, version: i64) -> Result<ValueId> {
        let name = self.graph.values[id].name.clone();
        require!(
            !self.graph.extents.contains_key(&id),
            "the extents of '{name}', which the body gives, depend on what the model is called with"
        );
        let id = self.as_output(&name, id, version)?;
        self.graph.outputs.push((name, id));
        Ok(id)
    }

    /// Determines the number of iterations.
    fn limit(
        &mut self,
        control: &Control<'_, 'a>,
        wanted: &Wanted<'_>,
        has_condition: bool,
        has_rows: bool,
    ) -> Result<Limit> {
        let name = label(control.node);
        let bound = self.options.bounds.get(name).copied();
        match (wanted.rounds, bound) {
            (Some(rounds), None) => {
                Ok(Limit { most: rounds.max(0), is_exact: !has_condition, is_bounded: false, count: None })
            }
            (Some(rounds), Some(bound)) if !has_condition || rounds <= bound => {
                Ok(Limit { most: rounds.max(0), is_exact: !has_condition, is_bounded: false, count: None })
            }
            (rounds, Some(bound)) => {
                let count = match rounds {
                    Some(rounds) => Some(self.emitter(control).int(rounds)?),
                    None => wanted.count,
                };
                Ok(Limit { most: bound, is_exact: false, is_bounded: true, count })
            }
            (None, None) => {
                require!(
                    has_condition || wanted.count.is_some(),
                    "the loop has no number of rounds, and its condition always holds"
                );
                if has_rows {
                    let what = "there is no bound for the memory of what the rounds give";
                    return Err(GraphError::new(what).fix(&Fix::Bound(name.to_owned())));
                }
                Ok(Limit { most: i64::MAX, is_exact: false, is_bounded: false, count: wanted.count })
            }
        }
    }

    /// Checks a condition: a bool with one element.
    pub(super) fn condition(&self, item: &Item, what: &str) -> Result<ValueId> {
        let id = item.tensor(what)?;
        let value = &self.graph.values[id];
        let count: i64 = value.shape.iter().product();
        require!(
            value.dtype == BOOLEAN && count == 1,
            "{what} is {}{:?}, and has to be a bool of one element",
            value.dtype,
            value.shape
        );
        Ok(id)
    }

    fn known_bool(&self, id: ValueId) -> Result<Option<bool>> {
        match &self.graph.values[id].known {
            Some(known) => Ok(known.to_ints()?.first().map(|value| *value != 0)),
            None => Ok(None),
        }
    }
}

/// The number of iterations of a loop.
struct Limit {
    /// The maximum.
    most: i64,
    /// True if the number is always the maximum.
    is_exact: bool,
    /// True if more iterations are an error.
    is_bounded: bool,
    /// The value with the number.
    count: Option<ValueId>,
}
