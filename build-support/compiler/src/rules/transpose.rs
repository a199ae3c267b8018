//! Transposes: what is beside each other in the result is read along another dimension than the last one. Square blocks are turned in registers.

use super::code::{Code, Inputs, Vectors, current, memory, serial};
use super::pattern::{axis_of, computed, depends_on, is_injective, reads};
use super::{Outcome, TargetDescription, decline, elements_of, shared_kind};
use crate::error::Result;
use crate::ir::{Expr, ForKind, IterVar, Stmt, Var, VarMap, substitute};
use crate::schedule::{Schedule, StageId};

/// Vectors of a row of the source that are read before the next row is.
const GROUP: i64 = 4;
/// Vectors of a row of the result that are written one after the other where [rows share sets](share_sets): a tile is turned in memory of its own then.
const RUN: i64 = 4;

/// Bytes between lines of the first cache that share a set, or half of them or so do: stores that wait for more lines than a set has ways push each
/// other out. Measured, 256 x 256 and 1024 x 1024: 0.6 to 0.75 of the time with tiles of 4 x 4 blocks; 1001 x 1000, whose rows are in different sets: 1.15.
/// Asking for lines 4 to 16 blocks ahead gained nothing.
const SET_STRIDE: i64 = 512;

/// Whether lines of neighbouring rows share sets of the first cache.
fn share_sets(row: &Expr, bytes: i64) -> bool {
    row.as_int().is_some_and(|extent| extent * bytes % SET_STRIDE == 0)
}

/// Schedules a tensor whose elements are expressions of elements that lie along another dimension.
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
        let group = lanes * GROUP;
        // A block of as many rows as columns, in registers; what becomes of its rows is said by the closure.
        let square = |first_row: &Expr, first_column: &Expr, done: &dyn Fn(i64, Expr) -> Stmt| -> Stmt {
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
                whole.push(done(row as i64, values));
            }
            whole.finish()
        };
        let block = |first_row: &Expr, first_column: &Expr| -> Stmt {
            let whole = square(first_row, first_column, &|row, values| {
                vectors.store(out, at(&place, first_row + row, first_column.clone()), values)
            });
            let edge = serial("row", (&rows - first_row).min(lanes), |row, code| {
                code.push(serial("column", (&columns - first_column).min(lanes), |column, code| {
                    let (row, column) = (first_row + row, first_column + column);
                    let element = at(&value, row.clone(), column.clone());
                    code.push(Stmt::store(out.clone(), at(&place, row, column), element));
                }));
            });
            let fits = (first_row + lanes).less_equal(&rows).and((first_column + lanes).less_equal(&columns));
            Stmt::if_then(fits, whole, Some(edge))
        };
        let (strip, column) = (Var::index("strip"), Var::index("column"));
        let run = lanes * RUN;
        let is_tiled = share_sets(&rows, bytes) || share_sets(&columns, bytes);
        let (tile_row, tile_column) = (strip.expr() * group, column.expr() * run);
        // Blocks go along a row of the source first.
        let blocks = |part: &dyn Fn(&Expr, &Expr) -> Stmt| {
            serial("across", RUN, |across, code| {
                code.push(serial("part", GROUP, |part_of, code| {
                    code.push(part(&(part_of * lanes), &(across * lanes)))
                }));
            })
        };
        let edge = blocks(&|row, column| {
            let (row, column) = (&tile_row + row, &tile_column + column);
            Stmt::if_then(row.less(&rows).and(column.less(&columns)), block(&row, &column), None)
        });
        let tile = memory("tile", dtype, &[group, run], "local");
        let mut whole = Code::default();
        whole.alloc(&tile);
        whole.push(blocks(&|row, column| {
            square(&(&tile_row + row), &(&tile_column + column), &|inner, values| {
                vectors.store(&tile, (row + inner) * run + column, values)
            })
        }));
        whole.push(serial("row", group, |row, code| {
            for vector in 0..RUN {
                let values = vectors.load(&tile, row * run + vector * lanes);
                let index = at(&place, &tile_row + row, &tile_column + vector * lanes);
                code.push(vectors.store(out, index, values));
            }
        }));
        let fits = (&tile_row + group).less_equal(&rows).and((&tile_column + run).less_equal(&columns));
        let body = if is_tiled { Stmt::if_then(fits, whole.finish(), Some(edge)) } else { edge };
        let body = Stmt::for_loop(column, 0, columns.ceil_div(run), ForKind::Serial, body);
        let shared = shared_kind(target, elements_of(&parts.axes).map(|elements| elements.saturating_mul(4)));
        let kind = if others.is_empty() { shared } else { ForKind::Serial };
        let body = Stmt::for_loop(strip, 0, rows.ceil_div(group), kind, body);
        others.iter().enumerate().rev().fold(body, |body, (index, axis)| {
            let kind = if index == 0 { shared } else { ForKind::Serial };
            Stmt::for_loop(axis.var.clone(), 0, extent(axis), kind, body)
        })
    });
    schedule.replace(id, &operation)?;
    Ok(Outcome::Applied)
}
