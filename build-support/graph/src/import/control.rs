//! Nodes that contain graphs. Branches are in `choice.rs`, loops in `loops.rs`.

use super::emit::Emitter;
use super::{Arguments, DEPTH, Importer, Item, Scope, place};
use crate::constant::Constant;
use crate::error::{Fix, GraphError, Result, fail, require};
use crate::graph::ValueId;
use crate::onnx::{self, AttributeValue};

/// The operators that contain graphs.
pub(super) const NAMES: [&str; 5] = ["FlexAttention", "If", "Loop", "Scan", "SequenceMap"];

/// The maximum number of nodes of a graph with unrolled loops.
const NODES: usize = 200_000;

/// A node that contains graphs.
#[derive(Clone, Copy)]
pub(super) struct Control<'n, 'a> {
    pub(super) node: &'n onnx::Node<'a>,
    pub(super) inputs: &'n [Option<Item>],
    pub(super) attributes: &'n [(&'n str, &'n AttributeValue<'a>)],
    pub(super) version: i64,
    pub(super) scope: &'n Scope,
    pub(super) arguments: &'n Arguments<'a>,
}

impl<'n, 'a> Control<'n, 'a> {
    pub(super) fn attribute(&self, name: &str) -> Option<&'n AttributeValue<'a>> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub(super) fn graph(&self, name: &str) -> Result<&'n onnx::Graph<'a>> {
        match self.attribute(name) {
            Some(AttributeValue::Graph(graph)) => Ok(graph),
            _ => fail!("attribute `{name}` is missing"),
        }
    }

    pub(super) fn ints(&self, name: &str, count: usize) -> Result<Vec<i64>> {
        let values = match self.attribute(name) {
            None => vec![0; count],
            Some(AttributeValue::Ints(values)) => values.clone(),
            Some(_) => fail!("attribute `{name}` is not a list of integers"),
        };
        require!(values.len() == count, "attribute `{name}` has {} numbers, not {count}", values.len());
        Ok(values)
    }

    pub(super) fn input(&self, index: usize) -> Option<&'n Item> {
        self.inputs.get(index).and_then(Option::as_ref)
    }

    pub(super) fn needed(&self, index: usize) -> Result<&'n Item> {
        self.input(index).ok_or_else(|| GraphError::new(format!("input {index} is missing")))
    }

    /// Returns the inputs from `first` on, all of which are required.
    pub(super) fn inputs_from(&self, first: usize) -> Result<Vec<Item>> {
        (first..self.inputs.len()).map(|index| self.needed(index).cloned()).collect()
    }

    /// The name of the results.
    pub(super) fn name(&self) -> &'n str {
        self.node.outputs.first().map_or("", String::as_str)
    }
}

impl<'a> Importer<'_, 'a> {
    /// Imports a node that contains graphs. Returns the items for its outputs.
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
            "FlexAttention" => self.flex_attention(&control),
            "Loop" => self.repeat(&control),
            "Scan" if version < 9 => self.scan_batches(&control),
            "Scan" => self.scan(&control),
            _ => self.map(&control),
        };
        Ok(made.map_err(|error| error.within_once(&place(node)))?.into_iter().map(Some).collect())
    }

    /// Imports the nodes of an inner graph for inputs. Returns the items for its outputs.
    pub(super) fn inside(
        &mut self,
        control: &Control<'_, 'a>,
        graph: &onnx::Graph<'a>,
        inputs: Vec<Item>,
    ) -> Result<Vec<Item>> {
        require!(self.depth < DEPTH, "graphs in graphs, more than {DEPTH} deep");
        require!(
            graph.inputs.len() == inputs.len(),
            "the graph inside has {} inputs, and gets {}",
            graph.inputs.len(),
            inputs.len()
        );
        // Names of the enclosing graph are visible. Its own names are local.
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

    pub(super) fn emitter<'g>(&'g mut self, control: &Control<'g, 'a>) -> Emitter<'g> {
        Emitter { graph: &mut self.graph, name: control.name() }
    }

    /// Selects one of two items by a condition at run time.
    pub(super) fn chosen(
        &mut self,
        control: &Control<'_, 'a>,
        condition: ValueId,
        yes: &Item,
        no: &Item,
    ) -> Result<Item> {
        let name = control.name();
        let pick = |importer: &mut Self, yes: ValueId, no: ValueId| -> Result<ValueId> {
            if yes == no {
                return Ok(yes);
            }
            let values = &importer.graph.values;
            let (a, b) = (&values[yes], &values[no]);
            let sized = [yes, no].into_iter().find(|id| importer.graph.extents.contains_key(id));
            if let Some(id) = sized {
                let what = format!(
                    "the condition depends on what the model is called with, and so do the extents of the result '{}'",
                    values[id].name
                );
                return Err(GraphError::new(what).fix(&Fix::Constant));
            }
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

    /// Runs the body for each tensor of the first sequence. Further inputs are sequences of the
    /// same length, or tensors.
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

/// Returns a boolean without dimensions.
pub(super) fn truth(holds: bool) -> Result<Constant> {
    Constant::new(kernpack_compiler::ir::BOOLEAN, &[], vec![u8::from(holds)])
}
