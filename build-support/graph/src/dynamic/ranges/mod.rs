//! Models whose dynamic dimensions have any extents of a range, several of them at once: there is
//! one graph, and one set of kernels for all extents.
//!
//! The importer knows numbers only. So the model is read several times, each time with other
//! extents of the dimensions ([`readings`]), and the numbers of the graphs are compared: those that
//! differ are sums of products of the extents ([`Formula`]), or the model is rejected. The kernels
//! come from the expressions of all readings in the same way (`lower::symbolic`).

mod formula;
mod known;
mod least;
mod readings;
mod threshold;

use std::sync::Arc;

pub use formula::Formula;
pub(crate) use formula::whole;
pub(crate) use known::Hidden;
pub(crate) use threshold::Threshold;

use self::readings::readings;
use crate::error::{Fix, GraphError, Result, fail, require};
use crate::graph::{Graph, Node, RangeDim, Ranges, ValueId};
use crate::options::ModelOptions;

/// The maximum extent of a dimension.
const MOST: i64 = (1 << 31) - 1;
/// The maximum number of dimensions.
const DIMS: usize = 4;

impl Ranges {
    /// Returns the extents of all readings, and their graphs. `graph` is the one that has this.
    pub(crate) fn readings<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = (&'a [i64], &'a Graph)> + Clone {
        let others = self.others.iter().map(|(extents, graph)| (&extents[..], graph));
        core::iter::once((&self.extents[..], graph)).chain(others)
    }

    /// Returns the extents of all readings.
    pub(crate) fn extents(&self) -> Vec<Vec<i64>> {
        core::iter::once(&self.extents).chain(self.others.iter().map(|(extents, _)| extents)).cloned().collect()
    }

    /// Returns the steps of the dimensions.
    pub(crate) fn steps(&self) -> Vec<i64> {
        self.dims.iter().map(|dim| dim.step).collect()
    }

    /// Returns the formula of numbers of all readings. `of` are their names for the error.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub(crate) fn formula(&self, values: &[i64]) -> Result<Formula> {
        Formula::find(&self.extents(), &self.steps(), values).ok_or_else(|| {
            let readings = self.extents();
            let pairs = readings.iter().zip(values).map(|(at, value)| format!("{value} with {}", self.shown(at)));
            let pairs = pairs.collect::<Vec<_>>().join(", ");
            let what = format!("a number is not a sum of products of the dimensions: it is {pairs}");
            GraphError::new(what).fix(&Fix::Multiples(self.dims[0].name.clone()))
        })
    }

    /// Returns the text of all readings, in which numbers that differ are formulas. Without such a
    /// formula it is the text of the first reading.
    pub(crate) fn text(&self, texts: &[String]) -> String {
        let parts: Vec<Vec<&str>> = texts.iter().map(|text| numbers_apart(text)).collect();
        let names = self.names();
        let part = |index: usize| {
            let own: Vec<&str> = parts.iter().map(|parts| parts.get(index).copied()).collect::<Option<_>>()?;
            if own.iter().all(|other| *other == own[0]) {
                return Some(own[0].to_owned());
            }
            let values: Vec<i64> = own.iter().map(|part| part.parse().ok()).collect::<Option<_>>()?;
            self.formula(&values).ok().map(|formula| formula.text(&names))
        };
        let whole: Option<Vec<String>> = (0..parts[0].len()).map(part).collect();
        whole.map_or_else(|| texts[0].clone(), |parts| parts.concat())
    }

    /// Formats extents: `batch = 4, words = 7`.
    pub(crate) fn shown(&self, extents: &[i64]) -> String {
        shown(&self.dims, extents)
    }

    /// The names of the dimensions.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.dims.iter().map(|dim| dim.name.as_str()).collect()
    }

    /// Returns the largest number of a formula for the extents of the ranges, or a larger one.
    pub(crate) fn bound(&self, formula: &Formula) -> Option<i64> {
        let [least, most] = [|dim: &RangeDim| dim.least, |dim: &RangeDim| dim.most]
            .map(|of| self.dims.iter().map(of).collect::<Vec<_>>());
        formula.bound(&least, &most)
    }
}

/// Splits a text into numbers and the parts between them.
fn numbers_apart(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_number = first == '-' || first.is_ascii_digit();
        let end = rest.char_indices().skip(1).find(|(_, letter)| {
            if is_number { !letter.is_ascii_digit() } else { letter.is_ascii_digit() || *letter == '-' }
        });
        let (part, after) = rest.split_at(end.map_or(rest.len(), |(end, _)| end));
        parts.push(part);
        rest = after;
    }
    parts
}

fn shown(dims: &[RangeDim], extents: &[i64]) -> String {
    let pairs = dims.iter().zip(extents).map(|(dim, extent)| format!("{} = {extent}", dim.name));
    pairs.collect::<Vec<_>>().join(", ")
}

impl Graph {
    /// Returns the extents of a value of a graph with ranges, as formulas.
    ///
    /// # Errors
    /// Returns an error if an extent is not a sum of products of the dimensions.
    pub(crate) fn formulas(&self, ranges: &Ranges, id: ValueId) -> Result<Vec<Formula>> {
        let shapes: Vec<&[i64]> = ranges.readings(self).map(|(_, graph)| &graph.values[id].shape[..]).collect();
        let rank = shapes[0].len();
        let place = || format!("value '{}'", self.values[id].name);
        require!(
            shapes.iter().all(|shape| shape.len() == rank),
            "{}: the number of its axes depends on the extents of the dimensions",
            place()
        );
        (0..rank)
            .map(|axis| {
                let values: Vec<i64> = shapes.iter().map(|shape| shape[axis]).collect();
                ranges.formula(&values).map_err(|error| error.within(&place()))
            })
            .collect()
    }
}

/// Reads a model for all extents of the ranges of the build script. `read` reads it with the
/// extents of its options.
///
/// # Errors
/// Returns the errors of `read`, errors for invalid dimensions and ranges, and an error for a node
/// that is not the same for all extents.
pub(crate) fn read<T>(
    options: &ModelOptions,
    named: &[String],
    read: impl Fn(&ModelOptions) -> Result<(Graph, T)>,
) -> Result<(Graph, T)> {
    let (single, dims): (Vec<RangeDim>, Vec<RangeDim>) =
        dims(options, named)?.into_iter().partition(|dim| dim.least == dim.most);
    let mut options = options.clone();
    options.ranges.clear();
    options.dims.extend(single.into_iter().map(|dim| (dim.name, dim.most)));
    if dims.is_empty() {
        return read(&options);
    }
    options.for_any_extents = true;
    let of = |extents: &[i64]| {
        let mut fixed = options.clone();
        fixed.dims.extend(dims.iter().zip(extents).map(|(dim, extent)| (dim.name.clone(), *extent)));
        read(&fixed)
    };
    let advice = Fix::Multiples(dims[0].name.clone());
    let told =
        |error: GraphError, extents: &[i64]| error.within(&format!("with {}", shown(&dims, extents))).fix(&advice);
    let least: Vec<i64> = dims.iter().map(|dim| dim.least).collect();
    let mut readings = readings(&dims).into_iter();
    let extents = readings.next().unwrap_or_default();
    let (mut graph, other) = of(&extents).map_err(|error| match of(&least) {
        // An error that does not depend on the extents.
        Err(other) if other == error => error,
        _ => told(error, &extents),
    })?;
    let mut others = Vec::new();
    for extents in readings {
        let (mut made, _) = of(&extents).map_err(|error| told(error, &extents))?;
        made.share_known(&graph);
        others.push((extents, made));
    }
    let ranges = Ranges { dims: dims.clone(), extents, others };
    for (extents, other) in &ranges.others {
        same_nodes(&ranges, (&graph, &ranges.extents), (other, extents))?;
    }
    supported(&graph, &dims)?;
    // The least extents show numbers that are the same only for large ones.
    let (smallest, _) = of(&least).map_err(|error| told(error, &least))?;
    same_graphs(&ranges, (&graph, &ranges.extents), (&smallest, &least))?;
    for id in 0..graph.values.len() {
        let value = &graph.values[id];
        let formulas = graph.formulas(&ranges, id).map_err(|error| match value.producer {
            Some(node) => error.within(&graph.nodes[node].place()),
            None => error,
        })?;
        let expected: Option<Vec<i64>> = formulas.iter().map(|formula| formula.at(&least)).collect();
        let found = &smallest.values[id].shape;
        if expected.as_ref() != Some(found) {
            let shape: Vec<String> = formulas.iter().map(|formula| formula.text(&ranges.names())).collect();
            let what = format!(
                "value '{}' is [{}] for large extents, and {found:?} with {}",
                value.name,
                shape.join(", "),
                ranges.shown(&least)
            );
            let error = GraphError::new(what).fix(&advice);
            return Err(value.producer.map_or(error.clone(), |node| error.within(&graph.nodes[node].place())));
        }
    }
    least::same_known(&graph, &ranges, (&smallest, &least)).map_err(|error| error.fix(&advice))?;
    graph.ranges = Some(Arc::new(ranges));
    Ok((graph, other))
}

/// Returns the dimensions with ranges.
fn dims(options: &ModelOptions, named: &[String]) -> Result<Vec<RangeDim>> {
    let mut dims: Vec<RangeDim> = Vec::new();
    for RangeDim { name, least, most, step } in &options.ranges {
        require!(least <= most, "the range of the dimension '{name}' is empty: {least} to {most}");
        require!(
            *least >= 0 && *most >= 1 && *most <= MOST,
            "the range of the dimension '{name}' is {least} to {most}, and has to be within 0 to {MOST}"
        );
        require!(*step >= 1, "the step of the dimension '{name}' is {step}, and has to be at least 1");
        if let Some(extent) = [least, most].into_iter().find(|extent| *extent % step != 0) {
            fail!("the dimension '{name}' is given multiples of {step}, and {extent} is not one");
        }
        require!(
            !options.dims.contains_key(name)
                && !options.up_to.contains_key(name)
                && !options.dims_in.contains_key(name),
            "the dimension '{name}' is given a range, and one extent, a bound or a list of extents: one of them is enough"
        );
        if let Some(other) = dims.iter().find(|dim| dim.name == *name) {
            fail!(
                "the dimension '{name}' is given two ranges, {} to {} and {least} to {most}: one of them is enough",
                other.least,
                other.most
            );
        }
        require!(
            named.contains(name),
            "the model has no dimension '{name}' that is open; it has: {}",
            crate::dynamic::listed(named)
        );
        dims.push(RangeDim { name: name.clone(), least: *least, most: *most, step: *step });
    }
    if let (Some(dim), Some(other)) = (dims.first(), options.up_to.keys().chain(options.dims_in.keys()).next()) {
        fail!(
            "the dimension '{}' is given a range, and '{other}' a bound or a list of extents: give both a range",
            dim.name
        );
    }
    require!(dims.len() <= DIMS, "{} dimensions are given ranges, and at most {DIMS} can be", dims.len());
    Ok(dims)
}

/// Checks that a graph has only nodes that are supported with ranges.
fn supported(graph: &Graph, dims: &[RangeDim]) -> Result<()> {
    let advice = Fix::Extents(dims[0].name.clone());
    if let Some(node) = graph.nodes.iter().find(|node| node.body.is_some()) {
        let what = format!("{}: loops and branches are not supported with ranges of extents", node.place());
        return Err(GraphError::new(what).fix(&advice));
    }
    if let Some(id) = graph.extents.keys().next() {
        let value = &graph.values[*id];
        let what = format!("value '{}': data-dependent extents are not supported with ranges of extents", value.name);
        let error = GraphError::new(what).fix(&advice);
        return Err(value.producer.map_or(error.clone(), |node| error.within(&graph.nodes[node].place())));
    }
    Ok(())
}

/// Checks that two readings have the same nodes, values and arguments, except their extents, and
/// that the nodes read the same values.
pub(crate) fn same_nodes(ranges: &Ranges, (a, at): (&Graph, &[i64]), (b, other_at): (&Graph, &[i64])) -> Result<()> {
    same_graphs(ranges, (a, at), (b, other_at))?;
    let Some((node, _)) = a.nodes.iter().zip(&b.nodes).find(|(node, other)| node.reads != other.reads) else {
        return Ok(());
    };
    let (first, second) = (ranges.shown(at), ranges.shown(other_at));
    let what = format!("{}: it reads other inputs with {first} than with {second}", node.place());
    Err(GraphError::new(what).fix(&Fix::Multiples(ranges.dims[0].name.clone())))
}

/// Checks that two readings have the same nodes, values and arguments, except their extents. A node
/// does not read a known input of one element.
fn same_graphs(ranges: &Ranges, (a, at): (&Graph, &[i64]), (b, other_at): (&Graph, &[i64])) -> Result<()> {
    let refused = |what: String| Err(GraphError::new(what).fix(&Fix::Multiples(ranges.dims[0].name.clone())));
    let differs = |node: &Node| {
        refused(format!("{}: it differs between {} and {}", node.place(), ranges.shown(at), ranges.shown(other_at)))
    };
    for (node, other) in a.nodes.iter().zip(&b.nodes) {
        let is_same = node.op.name() == other.op.name()
            && node.name == other.name
            && node.inputs == other.inputs
            && node.outputs == other.outputs
            && node.body.is_some() == other.body.is_some();
        if !is_same {
            return differs(node);
        }
    }
    if let Some(node) = a.nodes.get(b.nodes.len()).or_else(|| b.nodes.get(a.nodes.len())) {
        return differs(node);
    }
    let fits = a.values.len() == b.values.len() && a.inputs == b.inputs && a.outputs == b.outputs;
    let fits = fits && a.extents == b.extents;
    let same_value = |id: usize| {
        let (value, other) = (&a.values[id], &b.values[id]);
        value.dtype == other.dtype
            && value.shape.len() == other.shape.len()
            && value.known.is_some() == other.known.is_some()
    };
    if !fits {
        return refused(format!(
            "the model has other values with {} than with {}",
            ranges.shown(at),
            ranges.shown(other_at)
        ));
    }
    if let Some(id) = (0..a.values.len()).find(|id| !same_value(*id)) {
        let value = &a.values[id];
        if let Some(node) = value.producer {
            return differs(&a.nodes[node]);
        }
        return refused(format!(
            "value '{}': it differs between {} and {}",
            value.name,
            ranges.shown(at),
            ranges.shown(other_at)
        ));
    }
    Ok(())
}
