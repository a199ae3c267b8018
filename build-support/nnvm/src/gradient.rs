//! Pass Gradient, and the gradients of operators.
//!
//! Attribute `grad_ys` contains the entries to differentiate, `grad_xs` the entries to
//! differentiate by, and `grad_ys_out_grad`, if it is present, the gradients of `grad_ys`; the
//! default is 1. The outputs of the new graph are the gradients of `grad_xs` in order.

use std::collections::HashMap;

use kernpack::{Array, ObjRef};
use kernpack_graph::{Result, fail, require};
use linkme::distributed_slice;

use super::make::{Make, op};
use crate::symbol::registry::{Cell, OPERATORS, Registrar};
use crate::symbol::{Entry, Gradient, Graph, GraphRef, IndexedGraph, Native, NodeEntry, NodeRef, Use, Value};

#[distributed_slice(OPERATORS)]
static GRADIENTS: fn(&mut Registrar) = register;

/// Adds gradients.
pub(super) fn gradient(graph: &GraphRef) -> Result<GraphRef> {
    let entries = |name: &str| -> Result<Vec<Value>> {
        let entries: Array<ObjRef<NodeEntry>> = graph.attr(name)?;
        Ok(entries.iter().map(|entry| Value::from(&*entry)).collect())
    };
    let (ys, xs) = (entries("grad_ys")?, entries("grad_xs")?);
    let heads = if graph.attrs.get("grad_ys_out_grad").is_some() {
        let heads = entries("grad_ys_out_grad")?;
        require!(heads.len() == ys.len(), "there are {} gradients for {} entries `grad_ys`", heads.len(), ys.len());
        heads
    } else {
        ys.iter().map(|y| op("ones_like", &format!("{}_grad", y.node.name), &[y], &[])).collect::<Result<Vec<_>>>()?
    };
    let all: Vec<Value> = ys.iter().chain(&xs).cloned().collect();
    let index = IndexedGraph::of_values(&all)?;
    let number = |value: &Value| {
        index.number(&value.node).map(|node| index.entry_id(Entry { node, index: value.index, version: 0 }))
    };
    // Only nodes that lead to one of `grad_xs` are differentiated.
    let mut leads = vec![false; index.nodes.len()];
    for x in &xs {
        if let Some(node) = index.number(&x.node) {
            leads[node] = true;
        }
    }
    for (place, node) in index.nodes.iter().enumerate() {
        leads[place] = leads[place] || node.inputs.iter().any(|entry| leads[entry.node]);
    }
    let mut parts: HashMap<usize, Vec<Value>> = HashMap::new();
    for (y, head) in ys.iter().zip(heads) {
        if let Some(id) = number(y) {
            parts.entry(id).or_default().push(head);
        }
    }
    for place in (0..index.nodes.len()).rev() {
        let node = &index.nodes[place];
        if node.node.is_variable() || !leads[place] {
            continue;
        }
        let own: Vec<usize> = (0..node.num_outputs).map(|output| index.row_ptr[place] + output).collect();
        if own.iter().all(|id| !parts.contains_key(id)) {
            continue;
        }
        let first = Value::of(node.node.clone());
        let mut head = Vec::new();
        for (output, id) in own.iter().enumerate() {
            head.push(match parts.get(id) {
                Some(values) => total(&node.node, values)?,
                None => op("zeros_like", &format!("{}_no_grad", node.node.name), &[&first.output(output)], &[])?,
            });
            // Read again if an entry of `grad_xs` is inside the graph.
            parts.insert(*id, vec![head[output].clone()]);
        }
        let inputs: Vec<Value> = node.node.input_values();
        let gradients = of_node(&node.node, inputs, head)?;
        for (entry, gradient) in node.inputs.iter().zip(gradients) {
            if leads[entry.node] {
                parts.entry(index.entry_id(*entry)).or_default().push(gradient);
            }
        }
    }
    let mut outputs = Vec::new();
    for x in &xs {
        let known = number(x).and_then(|id| parts.get(&id));
        outputs.push(match known {
            Some(values) => total(&x.node, values)?,
            None => op("zeros_like", &format!("{}_grad", x.node.name), &[x], &[])?,
        });
    }
    Ok(Graph::with(
        &outputs,
        graph.without_attrs(&["grad_ys", "grad_xs", "grad_ys_out_grad", "shape", "dtype"]).attrs.clone(),
    ))
}

/// Returns the sum of parts of a gradient.
fn total(node: &NodeRef, values: &[Value]) -> Result<Value> {
    match values {
        [one] => Ok(one.clone()),
        _ => {
            let inputs: Vec<&Value> = values.iter().collect();
            op("elemwise_sum", &format!("{}_grad_sum", node.name), &inputs, &[("num_args", &values.len().to_string())])
        }
    }
}

fn of_node(node: &NodeRef, inputs: Vec<Value>, head: Vec<Value>) -> Result<Vec<Value>> {
    let operator = node.operator()?;
    let count = inputs.len();
    let made = match operator.cell("FGradient") {
        Some(Cell::Native(Native::Gradient(gradient))) => gradient(&Gradient { node, inputs, head }),
        // A function of another language: from the node and graphs of the gradients of its outputs
        // to graphs of those of its inputs.
        Some(Cell::Value(value)) => {
            let function: kernpack::Function = value.to()?;
            let heads: Array<GraphRef> = head.iter().map(|value| Graph::new(core::slice::from_ref(value))).collect();
            let made: Vec<GraphRef> = function.call_as((node, heads))?;
            Ok(made.iter().flat_map(|graph| graph.values()).collect())
        }
        _ => fail!(
            "{}: operator `{}` has no FGradient, and lies between `grad_ys` and `grad_xs`",
            node.place(),
            operator.name
        ),
    };
    let made = made.map_err(|error| error.within(&node.place()))?;
    require!(made.len() == count, "{}: FGradient gave {} gradients for {count} inputs", node.place(), made.len());
    Ok(made)
}

impl Gradient<'_> {
    fn make(&self) -> Make<'_> {
        Make::new(&self.node.name)
    }

    fn output(&self) -> Value {
        Value::of(self.node.clone())
    }

    /// Returns the node's own attributes.
    fn attrs(&self) -> Vec<(String, String)> {
        self.node.attrs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    fn text(&self, name: &str) -> Result<String> {
        Use::new(&self.node.operator()?, self.node).text(name)
    }

    /// Returns the node's attributes of a reduction, with their defaults.
    fn axes(&self) -> Result<[(String, String); 2]> {
        Ok([("axis".to_owned(), self.text("axis")?), ("exclude".to_owned(), self.text("exclude")?)])
    }
}

fn pairs(attrs: &[(String, String)]) -> Vec<(&str, &str)> {
    attrs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

type GradientFn = fn(&Gradient) -> Result<Vec<Value>>;

/// Returns the gradients of two inputs that are broadcast: summed over the axes that they are
/// broadcast along.
fn broadcast(call: &Gradient, make: &Make, left: &Value, right: &Value) -> Result<Vec<Value>> {
    Ok(vec![
        make.apply("collapse_sum", &[left, &call.inputs[0]], &[])?,
        make.apply("collapse_sum", &[right, &call.inputs[1]], &[])?,
    ])
}

fn register(operators: &mut Registrar) {
    let all: &[(&str, GradientFn)] = &[
        ("copy", |call| Ok(vec![call.head[0].clone()])),
        ("negative", |call| Ok(vec![call.make().apply("negative", &[&call.head[0]], &[])?])),
        ("block_grad", zero),
        ("zeros_like", zero),
        ("ones_like", zero),
        ("full_like", zero),
        ("greater", zero),
        ("less", zero),
        ("clip", |call| {
            // 1 where the data is within the limits.
            let make = call.make();
            let data = &call.inputs[0];
            let limit = |key: &str| make.apply("full_like", &[data], &[("fill_value", &call.text(key)?)]);
            let below = make.apply("less", &[data, &limit("a_min")?], &[])?;
            let above = make.apply("greater", &[data, &limit("a_max")?], &[])?;
            let outside = make.apply("elemwise_add", &[&below, &above], &[])?;
            let within = make.apply("__rsub_scalar__", &[&outside], &[("scalar", "1")])?;
            Ok(vec![make.apply("elemwise_mul", &[&call.head[0], &within], &[])?])
        }),
        ("reshape_like", |call| {
            let mut gradients = reshaped(call)?;
            gradients.push(call.make().apply("zeros_like", &[&call.inputs[1]], &[])?);
            Ok(gradients)
        }),
        ("expand_like", |call| {
            let make = call.make();
            let sum = make.apply("sum", &[&call.head[0]], &pairs(&call.axes()?))?;
            let first = make.apply("reshape_like", &[&sum, &call.inputs[0]], &[])?;
            Ok(vec![first, make.apply("zeros_like", &[&call.inputs[1]], &[])?])
        }),
        ("exp", |call| Ok(vec![call.make().apply("elemwise_mul", &[&call.head[0], &call.output()], &[])?])),
        ("log", |call| Ok(vec![call.make().apply("elemwise_div", &[&call.head[0], &call.inputs[0]], &[])?])),
        ("sqrt", |call| {
            let make = call.make();
            let twice = make.apply("__mul_scalar__", &[&call.output()], &[("scalar", "2")])?;
            Ok(vec![make.apply("elemwise_div", &[&call.head[0], &twice], &[])?])
        }),
        ("tanh", |call| {
            let make = call.make();
            let square = make.apply("elemwise_mul", &[&call.output(), &call.output()], &[])?;
            let slope = make.apply("__rsub_scalar__", &[&square], &[("scalar", "1")])?;
            Ok(vec![make.apply("elemwise_mul", &[&call.head[0], &slope], &[])?])
        }),
        ("sigmoid", |call| {
            let make = call.make();
            let rest = make.apply("__rsub_scalar__", &[&call.output()], &[("scalar", "1")])?;
            let slope = make.apply("elemwise_mul", &[&call.output(), &rest], &[])?;
            Ok(vec![make.apply("elemwise_mul", &[&call.head[0], &slope], &[])?])
        }),
        ("relu", |call| {
            let make = call.make();
            let zero = make.apply("zeros_like", &[&call.inputs[0]], &[])?;
            let mask = make.apply("greater", &[&call.inputs[0], &zero], &[])?;
            Ok(vec![make.apply("elemwise_mul", &[&call.head[0], &mask], &[])?])
        }),
        ("leaky_relu", |call| {
            let make = call.make();
            let zero = make.apply("zeros_like", &[&call.inputs[0]], &[])?;
            let above = make.apply("greater", &[&call.inputs[0], &zero], &[])?;
            let rest = make.apply("__rsub_scalar__", &[&above], &[("scalar", "1")])?;
            let below = make.apply("__mul_scalar__", &[&rest], &[("scalar", &call.text("alpha")?)])?;
            let slope = make.apply("elemwise_add", &[&above, &below], &[])?;
            Ok(vec![make.apply("elemwise_mul", &[&call.head[0], &slope], &[])?])
        }),
        ("abs", |call| {
            let make = call.make();
            let zero = make.apply("zeros_like", &[&call.inputs[0]], &[])?;
            let above = make.apply("greater", &[&call.inputs[0], &zero], &[])?;
            let below = make.apply("less", &[&call.inputs[0], &zero], &[])?;
            let sign = make.apply("elemwise_sub", &[&above, &below], &[])?;
            Ok(vec![make.apply("elemwise_mul", &[&call.head[0], &sign], &[])?])
        }),
        ("elemwise_add", |call| Ok(vec![call.head[0].clone(), call.head[0].clone()])),
        ("elemwise_sub", |call| Ok(vec![call.head[0].clone(), call.make().apply("negative", &[&call.head[0]], &[])?])),
        ("elemwise_mul", |call| {
            let make = call.make();
            let left = make.apply("elemwise_mul", &[&call.head[0], &call.inputs[1]], &[])?;
            Ok(vec![left, make.apply("elemwise_mul", &[&call.head[0], &call.inputs[0]], &[])?])
        }),
        ("elemwise_div", |call| {
            let make = call.make();
            let left = make.apply("elemwise_div", &[&call.head[0], &call.inputs[1]], &[])?;
            let quotient = make.apply("elemwise_div", &[&call.output(), &call.inputs[1]], &[])?;
            let right = make.apply("elemwise_mul", &[&call.head[0], &quotient], &[])?;
            Ok(vec![left, make.apply("negative", &[&right], &[])?])
        }),
        ("elemwise_sum", |call| Ok(vec![call.head[0].clone(); call.inputs.len()])),
        ("broadcast_add", |call| broadcast(call, &call.make(), &call.head[0], &call.head[0])),
        ("broadcast_sub", |call| {
            let make = call.make();
            let negative = make.apply("negative", &[&call.head[0]], &[])?;
            broadcast(call, &make, &call.head[0], &negative)
        }),
        ("broadcast_mul", |call| {
            let make = call.make();
            let left = make.apply("broadcast_mul", &[&call.head[0], &call.inputs[1]], &[])?;
            let right = make.apply("broadcast_mul", &[&call.head[0], &call.inputs[0]], &[])?;
            broadcast(call, &make, &left, &right)
        }),
        ("broadcast_div", |call| {
            let make = call.make();
            let left = make.apply("broadcast_div", &[&call.head[0], &call.inputs[1]], &[])?;
            let quotient = make.apply("broadcast_div", &[&call.output(), &call.inputs[1]], &[])?;
            let product = make.apply("elemwise_mul", &[&call.head[0], &quotient], &[])?;
            let right = make.apply("negative", &[&product], &[])?;
            broadcast(call, &make, &left, &right)
        }),
        ("__add_scalar__", |call| Ok(vec![call.head[0].clone()])),
        ("__sub_scalar__", |call| Ok(vec![call.head[0].clone()])),
        ("__rsub_scalar__", |call| Ok(vec![call.make().apply("negative", &[&call.head[0]], &[])?])),
        ("__mul_scalar__", |call| {
            let scalar = call.text("scalar")?;
            Ok(vec![call.make().apply("__mul_scalar__", &[&call.head[0]], &[("scalar", &scalar)])?])
        }),
        ("__div_scalar__", |call| {
            let scalar = call.text("scalar")?;
            Ok(vec![call.make().apply("__div_scalar__", &[&call.head[0]], &[("scalar", &scalar)])?])
        }),
        ("__rdiv_scalar__", |call| {
            let make = call.make();
            let quotient = make.apply("elemwise_div", &[&call.output(), &call.inputs[0]], &[])?;
            let product = make.apply("elemwise_mul", &[&call.head[0], &quotient], &[])?;
            Ok(vec![make.apply("negative", &[&product], &[])?])
        }),
        ("__rpow_scalar__", |call| {
            let make = call.make();
            let base = crate::symbol::attr::float(&call.text("scalar")?)?;
            // The logarithm of 0 is infinite, and 0 to any positive power is 0.
            if base == 0.0 {
                return zero(call);
            }
            let product = make.apply("elemwise_mul", &[&call.head[0], &call.output()], &[])?;
            Ok(vec![make.apply("__mul_scalar__", &[&product], &[("scalar", &base.ln().to_string())])?])
        }),
        ("__pow_scalar__", |call| {
            let make = call.make();
            let exponent = crate::symbol::attr::float(&call.text("scalar")?)?;
            // The result is 1 everywhere. 0 * x^-1 is NaN at 0.
            if exponent == 0.0 {
                return zero(call);
            }
            let power =
                make.apply("__pow_scalar__", &[&call.inputs[0]], &[("scalar", &(exponent - 1.0).to_string())])?;
            let slope = make.apply("__mul_scalar__", &[&power], &[("scalar", &exponent.to_string())])?;
            Ok(vec![make.apply("elemwise_mul", &[&call.head[0], &slope], &[])?])
        }),
        ("reshape", reshaped),
        ("flatten", reshaped),
        ("expand_dims", reshaped),
        ("squeeze", reshaped),
        ("transpose", |call| {
            let axes = crate::symbol::attr::ints(&call.text("axes")?)?;
            let mut back = axes.clone();
            for (to, from) in axes.iter().enumerate() {
                let rank = i64::try_from(axes.len()).unwrap_or(0);
                let from = usize::try_from(if *from < 0 { from + rank } else { *from }).unwrap_or(0);
                if let Some(slot) = back.get_mut(from) {
                    *slot = i64::try_from(to).unwrap_or(0);
                }
            }
            let axes = crate::symbol::attr::ints_text(&back);
            Ok(vec![call.make().apply("transpose", &[&call.head[0]], &[("axes", &axes)])?])
        }),
        ("sum", |call| Ok(vec![spread(call, &call.make(), &call.head[0])?])),
        ("max", |call| chosen(call, "_max_mask")),
        ("min", |call| chosen(call, "_min_mask")),
        ("mean", |call| {
            // The number of elements of a mean: the sum of the same number of ones.
            let make = call.make();
            let ones = make.apply("ones_like", &[&call.inputs[0]], &[])?;
            let attrs = [
                ("axis", call.text("axis")?),
                ("keepdims", call.text("keepdims")?),
                ("exclude", call.text("exclude")?),
            ];
            let attrs: Vec<(&str, &str)> = attrs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let count = make.apply("sum", &[&ones], &attrs)?;
            let part = make.apply("elemwise_div", &[&call.head[0], &count], &[])?;
            Ok(vec![spread(call, &make, &part)?])
        }),
        ("matmul", |call| {
            require!(
                call.text("transpose_a")? == "False" && call.text("transpose_b")? == "False",
                "the gradient of a transposed product is not supported: transpose the factor before it"
            );
            let make = call.make();
            let left = make.apply("matmul", &[&call.head[0], &call.inputs[1]], &[("transpose_b", "True")])?;
            Ok(vec![left, make.apply("matmul", &[&call.inputs[0], &call.head[0]], &[("transpose_a", "True")])?])
        }),
        ("dense", |call| {
            // The data has any number of axes, and the weight is transposed.
            let make = call.make();
            let head = &call.head[0];
            let data = make.apply("matmul", &[head, &call.inputs[1]], &[])?;
            let weight = make.apply("_dense_weight_grad", &[head, &call.inputs[0]], &[])?;
            let mut gradients = vec![data, weight];
            if call.inputs.len() == 3 {
                gradients.push(make.apply("sum", &[head], &[("axis", "(-1,)"), ("exclude", "True")])?);
            }
            Ok(gradients)
        }),
        ("conv2d", |call| {
            let attrs = call.attrs();
            let inputs = [&call.head[0], &call.inputs[0], &call.inputs[1]];
            let first = call.make().apply("_conv2d_grad", &inputs, &pairs(&attrs))?;
            Ok((0..call.inputs.len()).map(|index| first.output(index)).collect())
        }),
        ("max_pool2d", |call| {
            let attrs = call.attrs();
            let inputs = [&call.head[0], &call.inputs[0], &call.output()];
            Ok(vec![call.make().apply("_max_pool2d_grad", &inputs, &pairs(&attrs))?])
        }),
        ("softmax", |call| {
            let make = call.make();
            let axis = format!("({},)", call.text("axis")?);
            let product = make.apply("elemwise_mul", &[&call.head[0], &call.output()], &[])?;
            let sum = make.apply("sum", &[&product], &[("axis", &axis), ("keepdims", "True")])?;
            let scaled = make.apply("broadcast_mul", &[&call.output(), &sum], &[])?;
            Ok(vec![make.apply("elemwise_sub", &[&product, &scaled], &[])?])
        }),
        ("log_softmax", |call| {
            let make = call.make();
            let axis = format!("({},)", call.text("axis")?);
            let sum = make.apply("sum", &[&call.head[0]], &[("axis", &axis), ("keepdims", "True")])?;
            let share = make.apply("exp", &[&call.output()], &[])?;
            let scaled = make.apply("broadcast_mul", &[&share, &sum], &[])?;
            Ok(vec![make.apply("elemwise_sub", &[&call.head[0], &scaled], &[])?])
        }),
    ];
    for (name, gradient) in all {
        let _ = operators.add(name).set("FGradient", Native::Gradient(*gradient));
    }
}

/// The gradients of a result that does not change with its inputs.
fn zero(call: &Gradient) -> Result<Vec<Value>> {
    let make = call.make();
    call.inputs.iter().map(|input| make.apply("zeros_like", &[input], &[])).collect()
}

fn reshaped(call: &Gradient) -> Result<Vec<Value>> {
    Ok(vec![call.make().apply("reshape_like", &[&call.head[0], &call.inputs[0]], &[])?])
}

/// Broadcasts a value for each result of a reduction to the elements that it came from.
fn spread(call: &Gradient, make: &Make, value: &Value) -> Result<Value> {
    make.apply("expand_like", &[value, &call.inputs[0]], &pairs(&call.axes()?))
}

/// Returns the gradient masked by the places where the data is the maximum or minimum.
fn chosen(call: &Gradient, mask: &str) -> Result<Vec<Value>> {
    let make = call.make();
    let mask = make.apply(mask, &[&call.inputs[0], &call.output()], &pairs(&call.axes()?))?;
    let spread = spread(call, &make, &call.head[0])?;
    Ok(vec![make.apply("elemwise_mul", &[&spread, &mask], &[])?])
}
