//! The functions that callers see of a model with a dimension that each call tells: they run the kernels for one part after the other.
//!
//! ```text
//! check 1 <= n <= most
//! done = 0
//! while done < n:
//!     size = the largest part with size <= n and size <= 2 (n - done)
//!     start = min(done, n - size)
//!     run the kernels of this size for the indices from start on
//!     done = start + size
//! ```
//!
//! A last part that goes beyond what is left begins earlier, and computes some indices again: 7 rows are two parts of 4. The results are the same, so it does not matter that they are
//! written twice.

use kernpack::Map;
use kernpack_compiler::ir::builtin::ADDRESS_OF;
use kernpack_compiler::ir::{Buffer, Expr, FuncKind, I64, LoweredFunc, POINTER, Param, Stmt, U8, Var};

use super::argument_names;
use super::entry::{Own, arguments, behind, call, function, int};
use crate::constant::element_bytes;
use crate::graph::{Graph, Parts};
use crate::op::extents;
use crate::op::statements::{Variable, as_long_as};

/// A model that is computed in parts.
pub(super) struct Cut<'a> {
    pub(super) graph: &'a Graph,
    pub(super) parts: &'a Parts,
    pub(super) name: &'a str,
    /// The function with the kernels.
    pub(super) runner: &'a str,
    /// Bytes of temporary memory.
    pub(super) arena: usize,
    /// The number of kernels for the largest part.
    pub(super) steps: usize,
}

impl Cut<'_> {
    /// The function that a caller sees: inputs, then outputs. Its temporary memory is the thread's workspace.
    pub(super) fn entry(&self) -> LoweredFunc {
        let extent = Var::size(super::identifier(&self.parts.dim), I64);
        let (params, addresses) = self.arguments(&extent);
        let memory = Buffer::new("arena", U8, [int(self.arena.max(1))], "global");
        let address = Expr::builtin(ADDRESS_OF, POINTER, [Expr::load(&memory, Expr::int(0))]);
        let all = self.run(&extent, [address, Expr::int(0), Expr::int(i64::MAX)], &addresses);
        let body = Stmt::seq([self.in_range(&extent), Stmt::alloc(memory), all]);
        function(self.name, FuncKind::Mixed, params, body, Map::default())
    }

    /// `NAME_steps`: all kernels, or some of them if there is one part only.
    pub(super) fn part(&self) -> LoweredFunc {
        let Self { name, steps, .. } = *self;
        let extent = Var::size(super::identifier(&self.parts.dim), I64);
        let (params, addresses) = self.arguments(&extent);
        let own = Own::of(name, self.arena, steps);
        let is_whole = own.first.equals(0).and(own.end.equals(int(steps)));
        let sizes: Vec<i64> = self.parts.sizes().collect();
        let is_one = sizes.iter().fold(is_whole.clone(), |any, size| any.or(extent.equals(*size)));
        let text = format!(
            "{name}_steps: some of the kernels run for {} indices of '{}' alone, which are one part",
            list(&sizes),
            self.parts.dim
        );
        let is_one = Stmt::assert(is_one, "ValueError", [text.as_str().into()]);
        // Smaller parts may have more kernels.
        let end = Expr::select(is_whole, Expr::int(i64::MAX), own.end.expr().clone());
        let run = self.run(&extent, [own.address.clone(), own.first.expr().clone(), end], &addresses);
        let run = Stmt::seq([self.in_range(&extent), is_one, run]);
        own.function(name, params, run)
    }

    fn arguments(&self, extent: &Var) -> (Vec<Param>, Vec<Expr>) {
        arguments(self.graph, |number, shape| {
            let mut all = extents(shape);
            match self.parts.shares[number] {
                0 => {}
                1 => all[0] = extent.expr().clone(),
                share => all[0] = extent.expr() * share,
            }
            all
        })
    }

    fn in_range(&self, extent: &Var) -> Stmt {
        let Self { name, parts: Parts { dim, most, .. }, .. } = self;
        let first = self.parts.shares.iter().position(|share| *share == 1).unwrap_or(0);
        let argument = &argument_names(self.graph)[first];
        let text = format!("{name}: {argument}.shape[0], the dimension '{dim}', has to be 1 to {most}");
        let fits = extent.greater_equal(1).and(extent.less_equal(*most));
        Stmt::assert(fits, "ValueError", [text.as_str().into()])
    }

    /// One part after the other: temporary memory, the first kernel and one behind the last, and the addresses of the arguments.
    fn run(&self, extent: &Var, [memory, first, end]: [Expr; 3], addresses: &[Expr]) -> Stmt {
        let done = Variable::index("done");
        let (size, start) = (Var::new("size", I64), Var::new("start", I64));
        let rest = extent.expr() - done.get();
        let sizes: Vec<i64> = self.parts.sizes().collect();
        let (least, larger) = sizes.split_last().map_or((1, &[][..]), |(least, larger)| (*least, larger));
        let chosen = larger.iter().rev().fold(Expr::int(least), |smaller, size| {
            let fits = extent.greater_equal(*size).and((&rest * 2).greater_equal(*size));
            Expr::select(fits, Expr::int(*size), smaller)
        });
        let graph = self.graph;
        let ids = graph.inputs.iter().chain(graph.outputs.iter().map(|(_, id)| id));
        let at = ids.zip(addresses).zip(&self.parts.shares).map(|((id, address), share)| {
            let value = &graph.values[*id];
            if *share == 0 {
                return address.clone();
            }
            let elements: i64 = value.shape[1..].iter().product();
            let bytes = elements * share * i64::try_from(element_bytes(value.dtype)).unwrap_or(1);
            behind(address.clone(), start.expr() * bytes)
        });
        let own = (sizes.len() > 1).then(|| size.expr().clone());
        let all = [memory, first, end].into_iter().chain(own).chain(at);
        let body = Stmt::seq([
            Stmt::bind(size.clone(), chosen),
            Stmt::bind(start.clone(), done.get().min(extent.expr() - &size)),
            call(self.runner, all),
            done.set(start.expr() + &size),
        ]);
        Stmt::seq([done.begin(0), as_long_as(done.get().less(extent), body)])
    }
}

/// `64, 16, 4 or 1`.
fn list(sizes: &[i64]) -> String {
    let texts: Vec<String> = sizes.iter().map(i64::to_string).collect();
    match texts.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => texts.concat(),
    }
}
