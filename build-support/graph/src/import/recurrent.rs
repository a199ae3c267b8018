//! RNN, GRU and LSTM as products and steps: the input is multiplied by its weights for all steps at
//! once, by the kernels of products. Weights are transposed, and biases added, at build time. The
//! steps only compute values that depend on the previous step.

use std::sync::Arc;

use super::emit::Emitter;
use super::{Importer, Item};
use crate::attrs::{Attr, Attrs};
use crate::error::{GraphError, Result, fail, require};
use crate::graph::ValueId;
use crate::onnx;
use crate::op::{Activation, GRU_STEPS, LSTM_STEPS, Operator, RNN_STEPS};

/// The operators.
pub(super) const NAMES: [&str; 3] = ["GRU", "LSTM", "RNN"];

/// A kind of recurrent network.
struct Kind {
    steps: &'static Operator,
    gates: i64,
    activations: &'static [&'static str],
}

fn kind_of(name: &str) -> Kind {
    match name {
        "LSTM" => Kind { steps: &LSTM_STEPS, gates: 4, activations: &["Sigmoid", "Tanh", "Tanh"] },
        "GRU" => Kind { steps: &GRU_STEPS, gates: 3, activations: &["Sigmoid", "Tanh"] },
        _ => Kind { steps: &RNN_STEPS, gates: 1, activations: &["Tanh"] },
    }
}

/// Returns the activations of the gates of all directions, with their two parameters. A given
/// parameter belongs to the next function that takes one.
fn activations(attrs: &Attrs, kind: &Kind, directions: usize) -> Result<Vec<(String, f32, f32)>> {
    let names: Vec<String> = match attrs.get("activations") {
        None => {
            let all = std::iter::repeat_n(kind.activations, directions).flatten();
            all.map(|name| (*name).to_owned()).collect()
        }
        Some(Attr::Texts(names)) => names.clone(),
        Some(_) => fail!("attribute `activations` is not a list of texts"),
    };
    let count = directions * kind.activations.len();
    require!(names.len() == count, "attribute `activations` has {} names, not {count}", names.len());
    let list = |name: &str| attrs.floats(name).map(Vec::into_iter);
    let (mut alphas, mut betas) = (list("activation_alpha")?, list("activation_beta")?);
    let mut all = Vec::new();
    for name in names {
        let (alpha, beta) = Activation::numbers(&name)?;
        #[expect(clippy::cast_possible_truncation, reason = "the defaults of ONNX are float32")]
        let next = |default: Option<f64>, given: &mut std::vec::IntoIter<f32>| {
            default.map_or(0.0, |default| given.next().unwrap_or(default as f32))
        };
        let (alpha, beta) = (next(alpha, &mut alphas), next(beta, &mut betas));
        all.push((name, alpha, beta));
    }
    Ok(all)
}

impl<'a> Importer<'_, 'a> {
    /// Imports a node of a recurrent network.
    pub(super) fn recurrent(
        &mut self,
        node: &onnx::Node<'a>,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
        version: i64,
    ) -> Result<Vec<Option<Item>>> {
        let kind = kind_of(&node.op_type);
        let input = |index: usize| inputs.get(index).copied().flatten();
        let needed = |index: usize| input(index).ok_or_else(|| GraphError::new(format!("input {index} is missing")));
        let name = node.outputs.iter().find(|name| !name.is_empty()).map_or("", String::as_str);
        let mut emitter = Emitter { graph: &mut self.graph, name };
        let (mut x, weights, recurrence) = (needed(0)?, needed(1)?, needed(2)?);
        let batch_first = attrs.flag("layout", false)?;
        let turned = |emitter: &mut Emitter<'_>, id: Option<ValueId>| match id {
            Some(id) if batch_first => {
                emitter.node("Transpose", &[("perm", Attr::Ints(vec![1, 0, 2]))], &[id]).map(Some)
            }
            id => Ok(id),
        };
        let rank = emitter.graph.values[x].shape.len();
        require!(rank == 3, "the input has {rank} dimensions, not 3");
        x = turned(&mut emitter, Some(x))?.unwrap_or(x);
        let (first_state, first_cells) = (turned(&mut emitter, input(5))?, turned(&mut emitter, input(6))?);
        let shape = emitter.graph.values[x].shape.clone();
        let own = emitter.graph.values[recurrence].shape.clone();
        let [directions, columns, hidden] = own[..] else { fail!("the weights of the state are {own:?}") };
        let wanted: &[bool] = match attrs.text("direction", "forward")? {
            "forward" => &[false],
            "reverse" => &[true],
            "bidirectional" => &[false, true],
            other => fail!("attribute `direction` is '{other}'"),
        };
        let fits = usize::try_from(directions) == Ok(wanted.len()) && columns == kind.gates * hidden;
        let fits = fits && emitter.graph.values[weights].shape == [directions, columns, shape[2]];
        require!(
            fits,
            "weights {:?} and {own:?} do not fit an input {shape:?} and {} directions",
            emitter.graph.values[weights].shape,
            wanted.len()
        );
        if let Some(size) = attrs.find_int("hidden_size")? {
            require!(size == hidden, "attribute `hidden_size` is {size}, the weights are {own:?}");
        }
        let functions = activations(attrs, &kind, wanted.len())?;
        let is_lstm = node.op_type == "LSTM";
        let resets_after = attrs.flag("linear_before_reset", false)?;
        // All steps of all sequences as the rows of one product. There may be none.
        let allow_zero = [("allowzero", Attr::Int(1))];
        let rows = emitter.ints(&[shape[0] * shape[1], shape[2]]);
        let rows = emitter.node("Reshape", &allow_zero, &[x, rows])?;
        let mut outputs: Vec<Vec<Option<ValueId>>> = Vec::new();
        for (direction, backwards) in (0..).zip(wanted) {
            let own = |emitter: &mut Emitter<'_>, id: Option<ValueId>| {
                id.map(|id| emitter.slice(id, 0, direction)).transpose()
            };
            let turn = |emitter: &mut Emitter<'_>, id: ValueId| {
                let own = emitter.slice(id, 0, direction)?;
                emitter.node("Transpose", &[("perm", Attr::Ints(vec![1, 0]))], &[own])
            };
            let (own_weights, own_recurrence) = (turn(&mut emitter, weights)?, turn(&mut emitter, recurrence)?);
            let mut products = emitter.node("MatMul", &[], &[rows, own_weights])?;
            let mut late_bias = None;
            if let Some(bias) = own(&mut emitter, input(3))? {
                let axes = emitter.ints(&[0]);
                let mut part = |from: i64, to: i64| {
                    let (from, to) = (emitter.ints(&[from * hidden]), emitter.ints(&[to * hidden]));
                    emitter.node("Slice", &[], &[bias, from, to, axes])
                };
                let all = if node.op_type == "GRU" && resets_after {
                    // The last one is added to a product before the product is reset.
                    late_bias = Some(part(5, 6)?);
                    let (now, then, last) = (part(0, 2)?, part(3, 5)?, part(2, 3)?);
                    let both = emitter.node("Add", &[], &[now, then])?;
                    emitter.node("Concat", &[("axis", Attr::Int(0))], &[both, last])?
                } else {
                    let (now, then) = (part(0, kind.gates)?, part(kind.gates, 2 * kind.gates)?);
                    emitter.node("Add", &[], &[now, then])?
                };
                products = emitter.node("Add", &[], &[products, all])?;
            }
            let blocks = emitter.ints(&[shape[0], shape[1], columns]);
            let products = emitter.node("Reshape", &allow_zero, &[products, blocks])?;
            let mut given =
                vec![Some(products), Some(own_recurrence), own(&mut emitter, first_state)?, input(4), late_bias, None];
            if is_lstm {
                given[4] = own(&mut emitter, first_cells)?;
                given[5] = own(&mut emitter, input(7))?;
            }
            let mut all = Attrs::default();
            for key in ["clip", "input_forget", "linear_before_reset"] {
                if let Some(value) = attrs.get(key) {
                    all.set(key, value.clone());
                }
            }
            all.set("reverse", Attr::Int((*backwards).into()));
            let count = kind.activations.len();
            let first = usize::try_from(direction).unwrap_or(0) * count;
            let functions = &functions[first..first + count];
            all.set("activations", Attr::Texts(functions.iter().map(|(name, ..)| name.clone()).collect()));
            all.set("activation_alpha", Attr::Floats(functions.iter().map(|(_, alpha, _)| *alpha).collect()));
            all.set("activation_beta", Attr::Floats(functions.iter().map(|(.., beta)| *beta).collect()));
            let names: Vec<String> = node.outputs.iter().take(if is_lstm { 3 } else { 2 }).cloned().collect();
            outputs.push(emitter.graph.add_node(
                kind.steps,
                super::label(node),
                Arc::new(all),
                version,
                &given,
                &names,
            )?);
        }
        // Directions are stacked: axis 1 of all states, axis 0 of the last ones.
        let mut made = Vec::new();
        for output in 0..outputs[0].len() {
            let parts: Vec<ValueId> = outputs.iter().filter_map(|own| own[output]).collect();
            let joined = match parts[..] {
                [] => None,
                [part] => Some(part),
                _ => {
                    let axis = i64::from(output == 0);
                    Some(emitter.node("Concat", &[("axis", Attr::Int(axis))], &parts)?)
                }
            };
            let perm = if output == 0 { vec![2, 0, 1, 3] } else { vec![1, 0, 2] };
            let joined = match joined {
                Some(id) if batch_first => Some(emitter.node("Transpose", &[("perm", Attr::Ints(perm))], &[id])?),
                id => id,
            };
            made.push(joined.map(Item::Tensor));
        }
        Ok(made)
    }
}
