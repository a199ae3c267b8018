//! The places of values in temporary memory for any extents of dimensions with ranges.
//!
//! The lives of values do not depend on the extents, so the order in which they are placed is
//! fixed, and each value lies behind all earlier ones that live at the same time. Offsets are
//! computed in each call from the sizes for its extents.

use std::collections::HashMap;

use kernpack_compiler::ir::{Expr, I64, Stmt, Var};

use super::entry::{int, most_bytes};
use crate::constant::element_bytes;
use crate::dynamic::Formula;
use crate::error::Result;
use crate::graph::{Graph, Ranges, ValueId};
use crate::plan::{ALIGNMENT, Need, aligned};

/// A value in temporary memory.
struct Row {
    id: ValueId,
    /// Its extents.
    shape: Vec<Formula>,
    /// The number of bytes of an element.
    element: usize,
    /// Earlier rows whose values live at the same time.
    below: Vec<usize>,
    /// The offset for the largest extents.
    most: usize,
}

/// The places of values in temporary memory.
pub(super) struct Offsets {
    rows: Vec<Row>,
    /// The number of bytes before the values.
    start: usize,
    /// The number of bytes for the largest extents.
    pub(super) arena: usize,
}

/// The variables with the places in a call.
pub(super) struct Bound {
    /// The statements that compute them.
    pub(super) stmts: Vec<Stmt>,
    /// The offset of each value.
    pub(super) offsets: HashMap<ValueId, Var>,
    /// The number of bytes of temporary memory.
    pub(super) arena: Expr,
}

impl Offsets {
    /// Places values with these lives behind the first `start` bytes, large ones first.
    pub(super) fn new(
        (graph, ranges): (&Graph, &Ranges),
        values: &[ValueId],
        needs: &[Need],
        start: usize,
    ) -> Result<Self> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|index| (core::cmp::Reverse(needs[*index].bytes), needs[*index].first));
        let mut rows: Vec<Row> = Vec::new();
        let mut ends: Vec<usize> = Vec::new();
        for (place, index) in order.iter().enumerate() {
            let (id, need) = (values[*index], needs[*index]);
            let overlaps = |other: &usize| {
                let other = needs[order[*other]];
                other.first <= need.last && need.first <= other.last
            };
            let below: Vec<usize> = (0..place).filter(overlaps).collect();
            let most = below.iter().map(|row| ends[*row]).max().unwrap_or(start);
            ends.push(most.saturating_add(aligned(most_bytes(graph, id)?)));
            let (shape, element) = (graph.formulas(ranges, id)?, element_bytes(graph.values[id].dtype));
            rows.push(Row { id, shape, element, below, most });
        }
        Ok(Self { rows, start, arena: ends.into_iter().max().unwrap_or(start) })
    }

    /// Returns the offsets for the largest extents.
    pub(super) fn largest(&self) -> impl Iterator<Item = (ValueId, usize)> {
        self.rows.iter().map(|row| (row.id, row.most))
    }

    /// Returns the places for the extents of a call.
    pub(super) fn bind(&self, extents: &[Var]) -> Bound {
        let (mut stmts, mut offsets, mut ends): (Vec<Stmt>, HashMap<ValueId, Var>, Vec<Var>) = Default::default();
        let highest = |ends: &mut dyn Iterator<Item = &Var>| {
            let highest = ends.fold(None, |highest: Option<Expr>, end| {
                Some(highest.map_or_else(|| end.expr().clone(), |highest| highest.max(end)))
            });
            highest.unwrap_or_else(|| int(self.start))
        };
        let mask = i64::try_from(ALIGNMENT - 1).unwrap_or(0);
        for (number, row) in self.rows.iter().enumerate() {
            let offset = Var::new(format!("offset{number}"), I64);
            stmts.push(Stmt::bind(offset.clone(), highest(&mut row.below.iter().map(|below| &ends[*below]))));
            let bytes = row.shape.iter().fold(int(row.element), |bytes, extent| bytes * extent.expr(extents));
            let end = Var::new(format!("end{number}"), I64);
            stmts.push(Stmt::bind(end.clone(), offset.expr() + ((bytes + mask) & !mask)));
            offsets.insert(row.id, offset);
            ends.push(end);
        }
        let arena = Var::new("bytes", I64);
        stmts.push(Stmt::bind(arena.clone(), highest(&mut ends.iter()).max(1)));
        Bound { stmts, offsets, arena: arena.expr().clone() }
    }
}
