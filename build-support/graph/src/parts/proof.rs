//! Tells whether a model can be computed in parts: two graphs of it, for two extents of a dimension, are compared node by node.
//!
//! Extents that differ are those of the dimension. What a node computes at an index of it has to read its inputs at that index, wherever the index stands in the shape after
//! reshaping and transposing, and has to be the same expression otherwise, for each index and for both extents.

use std::collections::HashMap;

use kernpack_compiler::arith::{Analyzer, same};
use kernpack_compiler::ir::mutate::mutate_expr_parts;
use kernpack_compiler::ir::visit::uses_var;
use kernpack_compiler::ir::{Expr, ExprNode, IterVar, Mutate, Operation, OperationNode, Range, Tensor, Var, VarMap};
use kernpack_compiler::te::operation::post_order;
use kernpack_compiler::te::placeholder;

use crate::constant::{Constant, stored};
use crate::error::{Fix, GraphError, Result};
use crate::graph::{Body, Graph, Node, Value, ValueId};
use crate::op::extents;

/// A graph, and the extent of the dimension that it was made for.
type Sized<'a> = (&'a Graph, i64);

/// The place of the dimension in a shape: an axis, and how many of its indices belong to one of the dimension.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Open {
    axis: usize,
    share: i64,
}

/// A result, or the reason of a node that keeps a model from being cut.
type Outcome<T = ()> = core::result::Result<T, &'static str>;

const OTHERS: &str = "what it gives for one index of the dimension depends on more than the inputs at that index";
const EXTENT: &str = "what it computes depends on the extent of the dimension itself";
const STATEMENTS: &str = "it is computed as a whole, by statements";

/// For each argument, inputs first, how many indices of its first axis belong to one of the dimension; 0 if it is no axis of the argument.
///
/// # Errors
/// A node that mixes indices of the dimension; an argument in which it is no first axis.
pub(super) fn shares(dim: &str, a: Sized, b: Sized) -> Result<Vec<i64>> {
    let fix = Fix::Extents(dim.to_owned());
    let refuse = |place: &str, why: &str| {
        let what = format!("{place}: {why}: the model cannot be computed for any extent of '{dim}'");
        GraphError::new(what).fix(&fix)
    };
    let first = a.0;
    let open = same_nodes(a, b).map_err(|(place, why)| refuse(&place, why))?;
    let inputs = first.inputs.iter().map(|id| ("input", &first.values[*id].name, *id));
    let outputs = first.outputs.iter().map(|(name, id)| ("output", name, *id));
    let mut shares = Vec::new();
    for (kind, name, id) in inputs.chain(outputs) {
        shares.push(match open[id] {
            None => 0,
            Some(Open { axis: 0, share }) if kind == "output" || share == 1 => share,
            Some(Open { axis, .. }) => {
                let why = format!("the dimension is axis {axis}, and has to be the first one");
                return Err(refuse(&format!("{kind} '{name}'"), &why));
            }
        });
    }
    Ok(shares)
}

/// Compares all nodes of two graphs: where the dimension is in each value. An error names a node.
fn same_nodes(a: Sized, b: Sized) -> core::result::Result<Vec<Option<Open>>, (String, &'static str)> {
    let (first, second) = (a.0, b.0);
    let mut open = Vec::new();
    for (one, other) in first.values.iter().zip(&second.values) {
        let place = || one.producer.map_or_else(|| format!("value '{}'", one.name), |node| first.nodes[node].place());
        open.push(open_of(&one.shape, a.1, &other.shape, b.1).map_err(|why| (place(), why))?);
    }
    for (node, other) in first.nodes.iter().zip(&second.nodes) {
        match (node.body.as_deref(), other.body.as_deref()) {
            (Some(Body::Choice(one)), Some(Body::Choice(two))) if node.inputs == other.inputs => {
                for (one, two) in one.branches.iter().zip(&two.branches) {
                    if one.given != two.given {
                        return Err((node.place(), EXTENT));
                    }
                    same_nodes((&one.body, a.1), (&two.body, b.1))?;
                }
            }
            _ => compare((node, other), a, b, &open).map_err(|why| (node.place(), why))?,
        }
    }
    let same_counts = (first.values.len(), first.nodes.len()) == (second.values.len(), second.nodes.len());
    if !same_counts || first.inputs != second.inputs || first.outputs != second.outputs {
        return Err(("its nodes".to_owned(), EXTENT));
    }
    Ok(open)
}

/// Finds the dimension in a shape, of which two extents of it are known.
fn open_of(first: &[i64], a: i64, second: &[i64], b: i64) -> Outcome<Option<Open>> {
    if first.len() != second.len() {
        return Err(EXTENT);
    }
    let mut axes = (0..first.len()).filter(|axis| first[*axis] != second[*axis]);
    let Some(axis) = axes.next() else { return Ok(None) };
    let share = second[axis] / b;
    if axes.next().is_some() || share == 0 || second[axis] != share * b || first[axis] != share * a {
        return Err(EXTENT);
    }
    Ok(Some(Open { axis, share }))
}

/// Finds the dimension in what an operation computes.
fn open_tensor(first: &Tensor, a: i64, second: &Tensor, b: i64) -> Outcome<Option<Open>> {
    let shape = |tensor: &Tensor| -> Outcome<Vec<i64>> {
        tensor.shape.iter().map(|extent| extent.as_int()).collect::<Option<_>>().ok_or(EXTENT)
    };
    open_of(&shape(first)?, a, &shape(second)?, b)
}

/// The operations of a node, in the order in which it is computed, and which operations stand for its inputs.
fn computed(node: &Node, graph: &Graph) -> Outcome<(Vec<Operation>, HashMap<Operation, ValueId>)> {
    let mut stands: HashMap<ValueId, Tensor> = HashMap::new();
    let made = node.instantiate(graph, |id| {
        let value = &graph.values[id];
        let stand = || placeholder(extents(&value.shape), stored(value.dtype), &value.name);
        stands.entry(id).or_insert_with(stand).clone()
    });
    let made = made.map_err(|_| EXTENT)?;
    let order = post_order(&made.iter().map(|tensor| tensor.op.clone()).collect::<Vec<_>>());
    Ok((order, stands.into_iter().map(|(id, tensor)| (tensor.op.clone(), id)).collect()))
}

fn compare((node, other): (&Node, &Node), a: Sized, b: Sized, open: &[Option<Open>]) -> Outcome {
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
    let ((order, inputs), (other_order, other_inputs)) = (computed(node, a.0)?, computed(other, b.0)?);
    if order.len() != other_order.len() {
        return Err(EXTENT);
    }
    let mut pairs = Pairs { numbers: HashMap::new(), open: Vec::new() };
    for (number, (one, two)) in order.iter().zip(&other_order).enumerate() {
        pairs.numbers.insert(one.clone(), number);
        pairs.numbers.insert(two.clone(), number);
        let (id, other_id) = (inputs.get(one), other_inputs.get(two));
        if id != other_id {
            return Err(EXTENT);
        }
        if let Some(id) = id {
            same_elements((&a.0.values[*id], a.1), (&b.0.values[*id], b.1), open[*id])?;
            pairs.open.push(open[*id]);
            continue;
        }
        pairs.open.push(open_tensor(&one.output(0), a.1, &two.output(0), b.1)?);
        match (&**one, &**two) {
            (OperationNode::Placeholder { .. }, OperationNode::Placeholder { .. }) => {}
            (OperationNode::Compute { .. }, OperationNode::Compute { .. }) => same_rows(one, a.1, two, b.1, &pairs)?,
            _ => {
                // The same statements, if nothing that they are made of depends on the dimension.
                let is_closed = pairs.open.iter().all(Option::is_none) && same_known(node, a.0, b.0);
                if !is_closed {
                    return Err(STATEMENTS);
                }
            }
        }
    }
    Ok(())
}

fn same_known(node: &Node, a: &Graph, b: &Graph) -> bool {
    node.inputs.iter().flatten().all(|id| a.values[*id].known == b.values[*id].known)
}

/// Elements that are known are the same: those of each index of the dimension, if it is in the shape.
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
        Some(Open { axis: 0, .. }) => row(first, a)? == row(second, b)?,
        Some(_) => return Err(OTHERS),
    };
    if is_same { Ok(()) } else { Err(EXTENT) }
}

/// The operations of two nodes, and where the dimension is in what they compute.
struct Pairs {
    numbers: HashMap<Operation, usize>,
    open: Vec<Option<Open>>,
}

impl Pairs {
    fn number(&self, tensor: &Tensor) -> Option<usize> {
        self.numbers.get(&tensor.op).copied()
    }
}

/// Both operations compute the same at each index of the dimension, from what lies at that index.
fn same_rows(one: &Operation, a: i64, other: &Operation, b: i64, pairs: &Pairs) -> Outcome {
    let own = pairs.open.last().copied().flatten();
    let mut names = Names::default();
    let first = Rows::of(one, a, own, pairs, &mut names)?;
    let second = Rows::of(other, b, own, pairs, &mut names)?;
    let same_counts = first.reads.len() == second.reads.len() && first.bodies.len() == second.bodies.len();
    if !same_counts || first.reduced != second.reduced {
        return Err(EXTENT);
    }
    let equal = |x: &Expr, y: &Expr| same(x, y) || first.analyzer.can_prove_equal(x, y);
    for ((number, indices), (other_number, other_indices)) in first.reads.iter().zip(&second.reads) {
        let is_same = number == other_number && indices.iter().zip(other_indices).all(|(x, y)| equal(x, y));
        if !is_same {
            return Err(EXTENT);
        }
    }
    let mut bodies = first.bodies.iter().zip(&second.bodies);
    // What is too large for the former is compared with each shared part once.
    let alike = |x: &Expr, y: &Expr| same(x, y) || kernpack::structural::equal(x, y).unwrap_or(false);
    if bodies.all(|(x, y)| alike(x, y)) { Ok(()) } else { Err(EXTENT) }
}

/// Variables that have the same meaning in both operations.
#[derive(Default)]
struct Names {
    /// The index of the dimension.
    index: Option<Var>,
    axes: Vec<Var>,
    /// Elements that are read.
    elements: Vec<Var>,
}

impl Names {
    fn index(&mut self) -> Var {
        self.index.get_or_insert_with(|| Var::index("index")).clone()
    }

    fn axis(&mut self, number: usize) -> Var {
        while self.axes.len() <= number {
            self.axes.push(Var::index(format!("axis{}", self.axes.len())));
        }
        self.axes[number].clone()
    }
}

/// The computation of an operation at an index of the dimension.
struct Rows<'a> {
    analyzer: Analyzer,
    /// The index of the dimension.
    index: Var,
    /// Axes by the variables of the operation.
    axes: VarMap,
    pairs: &'a Pairs,
    names: &'a mut Names,
    /// The elements that are read, by the number of the operation: places without the index of the dimension.
    reads: Vec<(usize, Vec<Expr>)>,
    /// The results for expressions: parts that are shared are looked at once.
    done: HashMap<Expr, Expr>,
    problem: Option<&'static str>,
}

/// The findings of [`Rows`].
struct Found {
    analyzer: Analyzer,
    /// The extents of the axes of a reduction.
    reduced: Vec<Option<i64>>,
    reads: Vec<(usize, Vec<Expr>)>,
    bodies: Vec<Expr>,
}

impl<'a> Rows<'a> {
    fn of(op: &Operation, extent: i64, own: Option<Open>, pairs: &'a Pairs, names: &'a mut Names) -> Outcome<Found> {
        let OperationNode::Compute { axes, reduce_axes, bodies, .. } = &**op else { return Err(STATEMENTS) };
        let index = names.index();
        let mut rows = Rows {
            analyzer: Analyzer::new(),
            index: index.clone(),
            axes: VarMap::new(),
            pairs,
            names,
            reads: Vec::new(),
            done: HashMap::new(),
            problem: None,
        };
        rows.analyzer.bind(&index, &Range::until(Expr::int(extent)));
        for (number, axis) in axes.iter().chain(reduce_axes.iter()).enumerate() {
            rows.axis(number, &axis, own.filter(|open| open.axis == number))?;
        }
        let mut parts = Vec::new();
        for body in bodies.iter() {
            match &*body {
                ExprNode::Reduce { sources, condition, init, .. } => {
                    parts.extend(sources.iter().chain([condition.clone()]).chain(init.iter()));
                }
                _ => parts.push(body),
            }
        }
        let mut made = Vec::new();
        for part in parts {
            let part = rows.mutate_expr(&part).map_err(|_| OTHERS)?;
            if let Some(problem) = rows.problem {
                return Err(problem);
            }
            if uses_var(&part, |var| *var == index) {
                return Err(OTHERS);
            }
            made.push(part);
        }
        let extent = |axis: IterVar| axis.extent().and_then(|extent| extent.as_int());
        let reduced = reduce_axes.iter().map(extent).collect();
        Ok(Found { analyzer: rows.analyzer, reduced, reads: rows.reads, bodies: made })
    }

    /// An axis: that of the dimension counts its indices, and what belongs to one of them.
    fn axis(&mut self, number: usize, axis: &IterVar, open: Option<Open>) -> Outcome {
        let var = self.names.axis(number);
        let dom = axis.dom.as_ref().filter(|dom| dom.min.is_int(0)).ok_or(EXTENT)?;
        let (extent, value) = match open {
            None => (dom.extent.clone(), var.expr().clone()),
            Some(Open { share: 1, .. }) => (Expr::int(1), self.index.expr().clone()),
            Some(Open { share, .. }) => (Expr::int(share), self.index.expr() * share + &var),
        };
        self.analyzer.bind(&var, &Range::until(extent));
        self.axes.insert(axis.var.clone(), value);
        Ok(())
    }

    /// An element that is read: a variable of its own.
    fn read(&mut self, tensor: &Tensor, indices: Vec<Expr>) -> Outcome<Expr> {
        let number = self.pairs.number(tensor).ok_or(EXTENT)?;
        let open = self.pairs.open.get(number).copied().ok_or(EXTENT)?;
        let mut places = Vec::new();
        for (axis, place) in indices.into_iter().enumerate() {
            let place = match open.filter(|open| open.axis == axis) {
                None => place,
                Some(Open { share, .. }) => {
                    let rest = self.analyzer.simplify(&(place - self.index.expr() * share));
                    let fits =
                        self.analyzer.can_prove(&rest.greater_equal(0)) && self.analyzer.can_prove(&rest.less(share));
                    if !fits {
                        return Err(OTHERS);
                    }
                    rest
                }
            };
            let uses_index = |place: &Expr| uses_var(place, |var| *var == self.index);
            let place = if uses_index(&place) { self.analyzer.simplify(&place) } else { place };
            if uses_index(&place) {
                return Err(OTHERS);
            }
            places.push(place);
        }
        let element = self.reads.len();
        self.reads.push((number, places));
        if self.names.elements.len() == element {
            self.names.elements.push(Var::new(format!("element{element}"), tensor.dtype));
        }
        let var = &self.names.elements[element];
        if var.dtype() == tensor.dtype { Ok(var.expr().clone()) } else { Err(EXTENT) }
    }
}

impl Mutate for Rows<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> kernpack_compiler::Result<Expr> {
        if let Some(done) = self.done.get(expr) {
            return Ok(done.clone());
        }
        let made = match &**expr {
            ExprNode::Var { .. } => {
                Ok(Var::of(expr).and_then(|var| self.axes.get(&var).cloned()).unwrap_or_else(|| expr.clone()))
            }
            ExprNode::TensorRead { tensor, indices } => {
                let indices = indices.iter().map(|index| self.mutate_expr(&index)).collect::<Result<_, _>>()?;
                match self.read(tensor, indices) {
                    Ok(element) => Ok(element),
                    Err(problem) => {
                        self.problem.get_or_insert(problem);
                        Ok(expr.clone())
                    }
                }
            }
            _ => mutate_expr_parts(self, expr),
        }?;
        self.done.insert(expr.clone(), made.clone());
        Ok(made)
    }
}
