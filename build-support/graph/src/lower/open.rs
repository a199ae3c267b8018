//! The public functions of a model with dynamic dimensions.
//!
//! Dimensions with ranges are arguments of the kernels ([`super::ranged`]).
//!
//! One of them may have a list of extents, with separate kernels for each: those for the extent of
//! the call are run. Along the other one the model is split: kernels run for one part after the
//! other.
//!
//! ```text
//! check that variant is one of the extents, and 1 <= n <= most
//! done = 0
//! while done < n:
//!     size = the largest part with size <= n and size <= 2 (n - done)
//!     start = min(done, n - size)
//!     run the kernels of this variant and this size for the indices from start on
//!     done = start + size
//! ```
//!
//! If the last part is longer than the rest, it begins earlier and computes some indices again: 7
//! rows are two parts of 4. The results are the same, so writing them twice is harmless.

use kernpack::Map;
use kernpack_compiler::ir::{Expr, FuncKind, I64, LoweredFunc, Param, Stmt, Var};

use super::argument_names;
use super::entry::{Linked, Own, arguments, behind, call, function, int, workspace};
use super::offsets::Offsets;
use super::ranged;
use crate::constant::element_bytes;
use crate::dynamic::{Extent, Extents, OpenDim};
use crate::graph::{Graph, Parts, RangeDim, Ranges};
use crate::op::statements::{Variable, as_long_as};

/// A model with dynamic dimensions.
pub(super) struct Open<'a> {
    graph: &'a Graph,
    name: &'a str,
    /// The function that runs the kernels.
    runner: &'a str,
    /// The number of bytes of temporary memory, for the largest extents.
    arena: usize,
    /// The places in temporary memory of a graph with ranges.
    offsets: Option<&'a Offsets>,
    /// The number of kernels for the largest extent and part.
    steps: usize,
    dims: Vec<OpenDim>,
    /// The allowed extents of one dimension, the largest first.
    variants: Vec<i64>,
    /// The extents of each argument.
    extents: Vec<Vec<Extent>>,
    /// The address of weights in a file.
    linked: Linked,
    /// The extent of the dimension that the model is split along, in a call.
    cut: Var,
    /// The extent of the dimension with several extents, in a call.
    variant: Var,
    /// The dimensions with ranges.
    ranged: Vec<Ranged>,
}

/// A dimension with a range.
struct Ranged {
    /// Its extent in a call.
    extent: Var,
    /// The number that divides all of its extents.
    step: i64,
    /// The quotient of both, which is what kernels get. It is the extent where the step is 1.
    units: Var,
}

impl Ranged {
    fn of(ranges: &Ranges) -> Vec<Self> {
        let pairs = ranges.dims.iter().zip(ranged::variables(ranges));
        let one = |(dim, units): (&RangeDim, Var)| {
            let extent = if dim.step == 1 { units.clone() } else { Var::size(super::identifier(&dim.name), I64) };
            Self { extent, step: dim.step, units }
        };
        pairs.map(one).collect()
    }

    /// Returns the quotient as an expression of the extent.
    fn quotient(&self) -> Expr {
        match self.step {
            1 => self.extent.expr().clone(),
            step => self.extent.expr().floor_div(step),
        }
    }
}

impl<'a> Open<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        name: &'a str,
        runner: &'a str,
        (arena, offsets): (usize, Option<&'a Offsets>),
        steps: usize,
        linked: Linked,
    ) -> Self {
        let var = |dim: Option<&String>, other: &str| {
            Var::size(dim.map_or(other.to_owned(), |dim| super::identifier(dim)), I64)
        };
        Self {
            graph,
            name,
            runner,
            arena,
            offsets,
            steps,
            linked,
            dims: graph.open_dims(),
            variants: graph.variants().iter().map(|(size, _)| *size).collect(),
            extents: graph.argument_extents(),
            cut: var(graph.parts.as_ref().map(|parts| &parts.dim), "extent"),
            variant: var(graph.sizes.as_ref().map(|sizes| &sizes.dim), "variant"),
            ranged: graph.ranges.as_ref().map_or_else(Vec::new, |ranges| Ranged::of(ranges)),
        }
    }

    /// Builds the public function: inputs, then outputs. Its temporary memory is the thread's
    /// workspace.
    pub(super) fn entry(&self) -> LoweredFunc {
        let (params, addresses) = self.arguments();
        // Only as much as the call needs.
        let units: Vec<Var> = self.ranged.iter().map(|dim| dim.units.clone()).collect();
        let bound = self.offsets.map(|offsets| offsets.bind(&units));
        let (stmts, bytes) = bound.map_or_else(|| (Vec::new(), int(self.arena)), |bound| (bound.stmts, bound.arena));
        let (memory, address) = workspace(bytes);
        let all = self.run([address, Expr::int(0), Expr::int(i64::MAX)], &addresses);
        let checks = self.checks().chain(stmts).chain(self.linked.statements.iter().cloned());
        let body = Stmt::seq(checks.chain(memory).chain([all]).collect::<Vec<_>>());
        function(self.name, FuncKind::Mixed, params, body, Map::default())
    }

    /// Builds `NAME_steps`: all kernels, or some of them if there is only one part.
    pub(super) fn part(&self) -> LoweredFunc {
        let Self { name, steps, .. } = *self;
        let (params, addresses) = self.arguments();
        let own = Own::of(name, self.arena, steps);
        let is_whole = own.first.equals(0).and(own.end.equals(int(steps)));
        let mut checks: Vec<Stmt> = self.checks().collect();
        if let Some(parts) = &self.graph.parts {
            let sizes: Vec<i64> = parts.sizes().collect();
            let is_one = sizes.iter().fold(is_whole.clone(), |any, size| any.or(self.cut.equals(*size)));
            let text = format!(
                "{name}_steps: some of the kernels run for {} indices of '{}' alone, which are one part",
                list(&sizes),
                parts.dim
            );
            checks.push(Stmt::assert(is_one, "ValueError", [text.as_str().into()]));
        }
        checks.extend(self.linked.statements.iter().cloned());
        // Smaller extents and parts may have more kernels.
        let end = Expr::select(is_whole, Expr::int(i64::MAX), own.end.expr().clone());
        let run = self.run([own.address.clone(), own.first.expr().clone(), end], &addresses);
        own.function(name, params, Stmt::seq(checks.into_iter().chain([run]).collect::<Vec<_>>()))
    }

    fn arguments(&self) -> (Vec<Param>, Vec<Expr>) {
        arguments(self.graph, |number, _| self.extents[number].iter().map(|extent| self.extent(extent)).collect())
    }

    /// Returns an extent of an argument in a call.
    fn extent(&self, extent: &Extent) -> Expr {
        if let Some(formula) = &extent.formula {
            if let Some(dim) = formula.dim() {
                return self.ranged[dim].extent.expr().clone();
            }
            return formula.expr_of(&self.ranged.iter().map(Ranged::quotient).collect::<Vec<_>>());
        }
        let size = self.chosen(&extent.by_size);
        match (extent.is_cut, size.as_int()) {
            (false, _) => size,
            (true, Some(1)) => self.cut.expr().clone(),
            (true, _) => self.cut.expr() * size,
        }
    }

    /// Returns the number for the extent of the call.
    fn chosen(&self, by_variant: &[i64]) -> Expr {
        if by_variant == self.variants && self.variants.len() > 1 {
            return self.variant.expr().clone();
        }
        let all = self.variants.iter().zip(by_variant).rev();
        let chosen = all.fold(None, |other: Option<Expr>, (variant, number)| {
            Some(match other {
                None => Expr::int(*number),
                Some(other) if other.is_int(*number) => other,
                Some(other) => Expr::select(self.variant.equals(*variant), Expr::int(*number), other),
            })
        });
        chosen.unwrap_or_else(|| Expr::int(0))
    }

    /// Builds the checks of the extents, and what follows from them.
    fn checks(&self) -> impl Iterator<Item = Stmt> {
        let names = argument_names(self.graph);
        let quotients = self.ranged.iter().filter(|dim| dim.step != 1);
        let quotients = quotients.map(|dim| Stmt::bind(dim.units.clone(), dim.quotient()));
        let checks =
            self.dims.iter().enumerate().map(move |(number, OpenDim { name: dim, extents, at: (input, axis) })| {
                let (argument, name) = (&names[*input], self.name);
                let text = format!("{name}: {argument}.shape[{axis}], the dimension '{dim}', has to be {extents}");
                let fits = match extents {
                    Extents::UpTo(most) => self.cut.greater_equal(1).and(self.cut.less_equal(*most)),
                    Extents::Range(least, most, step) => {
                        let extent = &self.ranged[number].extent;
                        let is_inside = extent.greater_equal(*least).and(extent.less_equal(*most));
                        if *step == 1 { is_inside } else { is_inside.and(extent.floor_mod(*step).equals(0)) }
                    }
                    Extents::OneOf(sizes) => {
                        let any = sizes.iter().map(|size| self.variant.equals(*size)).reduce(|any, one| any.or(one));
                        any.unwrap_or_else(|| Expr::bool(false))
                    }
                };
                Stmt::assert(fits, "ValueError", [text.as_str().into()])
            });
        checks.chain(quotients)
    }

    /// Builds the calls of the kernels: temporary memory, the first kernel and one past the last,
    /// and the addresses of the arguments.
    fn run(&self, [memory, first, end]: [Expr; 3], addresses: &[Expr]) -> Stmt {
        let variant = (self.variants.len() > 1).then(|| self.variant.expr().clone());
        let ranged = self.ranged.iter().map(|dim| dim.units.expr().clone());
        let linked = self.linked.address.clone();
        let own = [memory, first, end].into_iter().chain(linked).chain(variant).chain(ranged);
        match &self.graph.parts {
            None => call(self.runner, own.chain(addresses.iter().cloned())),
            Some(parts) => self.run_parts(parts, own.collect(), addresses),
        }
    }

    /// Builds the calls of the kernels for one part after the other.
    fn run_parts(&self, parts: &Parts, own: Vec<Expr>, addresses: &[Expr]) -> Stmt {
        let done = Variable::index("done");
        let (size, start) = (Var::new("size", I64), Var::new("start", I64));
        let rest = self.cut.expr() - done.get();
        let sizes: Vec<i64> = parts.sizes().collect();
        let (least, larger) = sizes.split_last().map_or((1, &[][..]), |(least, larger)| (*least, larger));
        let chosen = larger.iter().rev().fold(Expr::int(least), |smaller, size| {
            let fits = self.cut.greater_equal(*size).and((&rest * 2).greater_equal(*size));
            Expr::select(fits, Expr::int(*size), smaller)
        });
        let graph = self.graph;
        let ids = graph.inputs.iter().chain(graph.outputs.iter().map(|(_, id)| id));
        let at = ids.zip(addresses).zip(&self.extents).map(|((id, address), extents)| {
            if !extents.first().is_some_and(|extent| extent.is_cut) {
                return address.clone();
            }
            // The number of bytes for one index.
            let element = i64::try_from(element_bytes(graph.values[*id].dtype)).unwrap_or(1);
            let bytes =
                extents.iter().map(|extent| self.chosen(&extent.by_size)).fold(Expr::int(element), |bytes, extent| {
                    match (bytes.as_int(), extent.as_int()) {
                        (Some(bytes), Some(extent)) => Expr::int(bytes * extent),
                        _ => bytes * extent,
                    }
                });
            behind(address.clone(), start.expr() * bytes)
        });
        let which = (sizes.len() > 1).then(|| size.expr().clone());
        let all = own.into_iter().chain(which).chain(at);
        let body = Stmt::seq([
            Stmt::bind(size.clone(), chosen),
            Stmt::bind(start.clone(), done.get().min(self.cut.expr() - &size)),
            call(self.runner, all),
            done.set(start.expr() + &size),
        ]);
        Stmt::seq([done.begin(0), as_long_as(done.get().less(&self.cut), body)])
    }
}

/// Formats `64, 16, 4 or 1`.
fn list(sizes: &[i64]) -> String {
    let texts: Vec<String> = sizes.iter().map(i64::to_string).collect();
    match texts.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => texts.concat(),
    }
}
