//! Transposes: adjacent elements of the result are read along another dimension than the last one.
//! Square blocks are transposed in registers.

use super::code::{Code, Inputs, Vectors, current, for_each, memory, serial};
use super::pattern::{axis_of, computed, depends_on, is_injective, reads};
use super::{Outcome, TargetDescription, decline, elements_of, shared_kind};
use crate::arith::Analyzer;
use crate::error::Result;
use crate::ir::builtin::{ADDRESS_OF, REINTERPRET};
use crate::ir::visit::{for_each_expr, uses_var};
use crate::ir::{Expr, ExprNode, ForKind, I64, IterVar, POINTER, Stmt, Var, VarMap, substitute};
use crate::schedule::{Schedule, StageId};

/// The size of a cache line, in bytes.
const LINE: i64 = 64;
/// The number of blocks of the outer loop that a thread processes in order. The first and the last
/// one can overlap with a neighbor, which must belong to the same thread.
const GROUP: i64 = 4;
/// The distance in bytes between lines of the L1 cache that share a set, or about half of them.
///
/// With such rows, blocks are processed along the rows of the result: written elements stay in the
/// cache until their line is complete. Otherwise they are processed along the rows of the source,
/// which are prefetched. Measured in microseconds with the one order and the other, 1024 x 1024:
/// 190 and 260, 1040 x 1040: 145 and 98, 1000 x 1000: 136 and 103.
const SET_STRIDE: i64 = 512;

/// Returns true if lines of adjacent rows share sets of the L1 cache.
fn share_sets(row: &Expr, bytes: i64) -> bool {
    row.as_int().is_some_and(|extent| extent * bytes % SET_STRIDE == 0)
}

/// Blocks along one dimension: as long as a cache line, and aligned to cache lines as far as
/// possible. The first and the last block overlap with their neighbors.
struct Blocks {
    extent: Expr,
    size: i64,
    /// The number of elements between the start of a cache line and the first element.
    shift: Expr,
    count: Expr,
}

impl Blocks {
    fn of(extent: &Expr, size: i64, shift: Expr, code: &mut Code) -> Self {
        let shift = if shift.as_int().is_some() { shift } else { code.bind("shift", shift) };
        let count = (extent + &shift).ceil_div(size);
        let count = if count.as_int().is_some() { count } else { code.bind("blocks", count) };
        Self { extent: extent.clone(), size, shift, count }
    }

    /// The start of a block.
    fn first(&self, block: &Expr) -> Expr {
        let first = block * self.size;
        let first = if self.shift.is_int(0) { first } else { (first - &self.shift).max(0) };
        let is_whole = self.shift.is_int(0) && self.extent.as_int().is_some_and(|extent| extent % self.size == 0);
        if is_whole { first } else { first.min(&self.extent - self.size) }
    }
}

/// The number of elements between the start of a cache line and the first one that `load` reads; 0
/// if it differs between rows, which are `pitch` elements apart.
fn shift(load: &Expr, pitch: &Expr, size: i64, bytes: i64) -> Expr {
    if pitch.as_int().is_none_or(|pitch| pitch % size != 0) {
        return Expr::int(0);
    }
    let address = Expr::builtin(REINTERPRET, I64, [Expr::builtin(ADDRESS_OF, POINTER, [load.clone()])]);
    address.floor_mod(size * bytes).floor_div(bytes)
}

/// Schedules a tensor whose elements are expressions of elements that are adjacent along another
/// dimension.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let op = schedule[id].operation().clone();
    if !is_injective(&op) || computed(&op).is_none() {
        decline!("`{}` is not computed element by element", op.name());
    }
    let normal = schedule.normalize()?;
    let Some(parts) = computed(normal[id].operation()) else { decline!("`{}` has several results", op.name()) };
    let body = current(&parts.body, schedule, &normal);
    let Some((last, outer)) = parts.axes.split_last() else { decline!("`{}` is a single number", op.name()) };
    let mut along: Option<IterVar> = None;
    let found = reads(&body);
    for (tensor, indices) in &found {
        let Some(index) = indices.last() else { continue };
        if depends_on(index, last) {
            decline!("`{}` is read along the last dimension of `{}`", tensor.name(), op.name());
        }
        match axis_of(index, outer) {
            Some(axis) if along.as_ref().is_none_or(|known| known == axis) => along = Some(axis.clone()),
            None if !outer.iter().any(|axis| depends_on(index, axis)) => {}
            _ => decline!("`{}` is read along no dimension of `{}`", tensor.name(), op.name()),
        }
    }
    let Some(along) = along else { decline!("`{}` reads nothing along another dimension", op.name()) };
    if !found.iter().any(|(_, indices)| indices.iter().any(|index| depends_on(index, last))) {
        decline!("`{}` reads nothing along its last dimension", op.name());
    }
    let dtype = op.output(0).dtype;
    let same = found.iter().all(|(tensor, _)| tensor.dtype == dtype);
    if !same || !matches!(dtype.bits(), 32 | 64) || dtype.lanes() > 1 {
        decline!("`{}` has elements that are not all of 32 or of 64 bits", op.name());
    }
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let (lanes, bytes) = (vectors.lanes, i64::from(dtype.bits()) / 8);
    if lanes < 4 {
        decline!("vectors of {} have {lanes} elements", target.name);
    }
    let extent = |axis: &IterVar| axis.dom.as_ref().map_or_else(|| Expr::int(1), |dom| dom.extent.clone());
    let (rows, columns) = (extent(&along), extent(last));
    let others: Vec<IterVar> = outer.iter().filter(|axis| **axis != along).cloned().collect();
    let operation = Inputs::of([&body]).operation(&format!("{}.transpose", op.name()), &op, |inputs, out| {
        let value = inputs.loads(&body);
        let place = out.flat_index(&parts.axes.iter().map(|axis| axis.var.expr().clone()).collect::<Vec<_>>());
        // The statement for one element, with other names for rows and columns.
        let at = |expr: &Expr, row: Expr, column: Expr| {
            substitute(expr, &[(along.var.clone(), row), (last.var.clone(), column)].into_iter().collect::<VarMap>())
        };
        let size = lanes.max(LINE / bytes);
        // A block of as many rows as columns, in registers.
        let square = |first_row: &Expr, first_column: &Expr| -> Stmt {
            let mut whole = Code::default();
            let turned = memory("block", dtype, &[lanes, lanes], "local");
            whole.alloc(&turned);
            for column in 0..lanes {
                let lane = Var::index("row");
                let element = at(&value, first_row + &lane, first_column + column);
                let store = Stmt::store(turned.clone(), lane.expr() + column * lanes, element);
                whole.push(Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store));
            }
            let loaded =
                (0..lanes).map(|row| whole.bind("row", vectors.load(&turned, Expr::int(row * lanes)))).collect();
            for (row, values) in vectors.transposed(loaded, &mut whole).into_iter().enumerate() {
                whole.push(vectors.store(out, at(&place, first_row + row as i64, first_column.clone()), values));
            }
            whole.finish()
        };
        // Several of them where a line consists of several vectors.
        let block = |row: &Expr, column: &Expr, code: &mut Code| {
            let (row, column) = (code.bind("row", row.clone()), code.bind("column", column.clone()));
            code.push(serial("across", size / lanes, |across, code| {
                code.push(serial("along", size / lanes, |along, code| {
                    code.push(square(&(&row + along * lanes), &(&column + across * lanes)));
                }));
            }));
        };
        let work = elements_of(&parts.axes).map(|elements| elements.saturating_mul(4));
        let shared = shared_kind(target, work);
        let kind = if others.is_empty() { shared } else { ForKind::Serial };
        let mut whole = Code::default();
        let zero = Expr::int(0);
        let own_shift = shift(&Expr::load(out, at(&place, zero.clone(), zero.clone())), &columns, size, bytes);
        let source = turned_load(&value, &along.var, &last.var)
            .map(|load| (at(&load, zero.clone(), zero.clone()), at(&load, zero.clone(), Expr::int(1))));
        let row_shift = match &source {
            Some((first, next)) => shift(first, &distance(first, next), size, bytes),
            None => zero,
        };
        let along_rows = Blocks::of(&rows, size, row_shift, &mut whole);
        let along_columns = Blocks::of(&columns, size, own_shift, &mut whole);
        let is_by_rows = share_sets(&rows, bytes) || share_sets(&columns, bytes);
        let (outer, inner) = if is_by_rows { (&along_rows, &along_columns) } else { (&along_columns, &along_rows) };
        let groups = outer.count.floor_div(GROUP).max(1);
        whole.push(for_each("group", groups.clone(), kind, |group, code| {
            let first = group * GROUP;
            // The last group contains the rest.
            let count = Expr::select(group.less(&groups - 1), Expr::int(GROUP), &outer.count - &first);
            code.push(serial("outer", count, |block_of, code| {
                let outer_first = code.bind("first", outer.first(&(&first + block_of)));
                code.push(serial("inner", inner.count.clone(), |block_of, code| {
                    let inner_first = inner.first(block_of);
                    if is_by_rows {
                        block(&outer_first, &inner_first, code);
                    } else {
                        block(&inner_first, &outer_first, code);
                    }
                }));
            }));
        }));
        let few = for_each("row", rows.clone(), kind, |row, code| {
            code.push(serial("column", columns.clone(), |column, code| {
                let element = at(&value, row.clone(), column.clone());
                code.push(Stmt::store(out.clone(), at(&place, row.clone(), column.clone()), element));
            }));
        });
        let fits = rows.greater_equal(size).and(columns.greater_equal(size));
        let body = match fits.as_int() {
            Some(0) => few,
            Some(_) => whole.finish(),
            None => Stmt::if_then(fits, whole.finish(), Some(few)),
        };
        others.iter().enumerate().rev().fold(body, |body, (index, axis)| {
            let kind = if index == 0 { shared } else { ForKind::Serial };
            Stmt::for_loop(axis.var.clone(), 0, extent(axis), kind, body)
        })
    });
    schedule.replace(id, &operation)?;
    Ok(Outcome::Applied)
}

/// The first load whose index depends on both variables.
fn turned_load(value: &Expr, row: &Var, column: &Var) -> Option<Expr> {
    let mut found = None;
    for_each_expr(value, |part| {
        if let (None, ExprNode::Load { index, .. }) = (&found, &**part)
            && [row, column].into_iter().all(|own| uses_var(index, |var| var == own))
        {
            found = Some(part.clone());
        }
    });
    found
}

/// The distance in elements between two loads of the same buffer.
fn distance(first: &Expr, next: &Expr) -> Expr {
    match (&**first, &**next) {
        (ExprNode::Load { index, .. }, ExprNode::Load { index: next, .. }) => Analyzer::new().simplify(&(next - index)),
        _ => unreachable!("both are loads"),
    }
}
