//! Pooling: windows with a stride of 1 or 2 along the rows whose elements do not depend on the
//! position in the window. A window is first reduced along all dimensions except the last one, in
//! whole vectors of adjacent columns, which overlapping windows share. With a stride of 2, even and
//! odd columns are then deinterleaved in registers, so that each is loaded once.

use super::code::{Code, Inputs, Vectors, current, memory, serial};
use super::pattern::{Computed, computed, depends_on, extent_of, reads};
use super::reduction::source_of;
use super::{Outcome, TargetDescription, decline, elements_of, shared_kind};
use crate::arith::{Analyzer, detect_linear};
use crate::error::Result;
use crate::ir::visit::{for_each_expr, is_used_twice};
use crate::ir::{Buffer, Expr, ExprNode, ForKind, IterVar, Operation, Reducer, Stmt, Var, VarMap, substitute};
use crate::schedule::{Schedule, StageId};

/// The number of result vectors that are computed together: their columns, and the loaded columns,
/// stay in registers.
const GROUP: i64 = 4;
/// The size of the largest window that is unrolled, for each stride.
const UNROLLED: [i64; 2] = [32, 16];

/// A reduction over windows, as a function of columns.
struct Window {
    out: Operation,
    reducer: Reducer,
    /// All dimensions of the result except the last one, with their extents.
    outer: Vec<(Var, Expr)>,
    /// The number of results in a row.
    width: i64,
    /// The source, as a function of the column and of the values of the other reduced dimensions.
    source: Expr,
    column: Var,
    /// The other reduced dimensions, with their extents.
    others: Vec<(Var, i64)>,
    /// The number of columns of a window.
    columns: i64,
    /// The stride of windows, in columns: 1 or 2.
    stride: i64,
}

/// Returns true if a reduction of one value costs more than one instruction for each element, so
/// that sharing the columns of windows is profitable.
pub(crate) fn is_costly(body: &Expr) -> bool {
    let ExprNode::Reduce { reducer, .. } = &**body else { return false };
    let (Some(result), Some(element)) = (reducer.results.get(0), reducer.rhs.get(0)) else { return false };
    reducer.results.len() == 1 && is_used_twice(&result, &element)
}

/// Schedules a reduction over windows that start at every column or at every second one.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let normal = schedule.normalize()?;
    let op = schedule[id].operation().clone();
    let Some(parts) = computed(normal[id].operation()) else { decline!("`{}` has several results", op.name()) };
    let mut window = match describe(&parts, &op) {
        Ok(window) => window,
        Err(reason) => decline!("`{}`: {reason}", op.name()),
    };
    window.source = current(&window.source, schedule, &normal);
    let dtype = op.output(0).dtype;
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    if vectors.lanes < 4 || window.width < vectors.lanes {
        decline!("`{}` has rows of {} elements", op.name(), window.width);
    }
    let work = elements_of(parts.axes.iter().chain(&parts.reduce_axes));
    let operation = window.operation(vectors, shared_kind(target, work));
    schedule.replace(id, &operation)?;
    Ok(Outcome::Applied)
}

fn describe(parts: &Computed, op: &Operation) -> core::result::Result<Window, String> {
    let ExprNode::Reduce { reducer, sources, condition, init, .. } = &*parts.body else {
        return Err("it is not a reduction".into());
    };
    if reducer.results.len() != 1 || sources.len() != 1 || !condition.is_true() || !init.is_empty() {
        return Err("it is not a plain reduction with one result".into());
    }
    let source = source_of(&parts.body).expect("a reduction has a source");
    if source.dtype() != op.output(0).dtype {
        return Err("it is reduced in another type".into());
    }
    let (Some((last, outer)), Some(width)) = (parts.axes.split_last(), parts.axes.last().and_then(extent_of)) else {
        return Err("its rows have no constant extent".into());
    };
    let is_from_zero = |axis: &IterVar| axis.dom.as_ref().is_some_and(|dom| dom.min.is_int(0));
    if !parts.axes.iter().chain(&parts.reduce_axes).all(is_from_zero) {
        return Err("its axes do not begin at 0".into());
    }
    // The dimension of the window along the rows: columns are `stride * last + along`.
    let along = parts.reduce_axes.iter().find_map(|reduce| {
        reads(&source).iter().filter_map(|(_, indices)| indices.last()).find_map(|index| {
            let vars = [last.var.clone(), reduce.var.clone()];
            let factors = detect_linear(index, &vars, &Analyzer::new()).map(|form| form.coefficients)?;
            let stride = factors.first()?.as_int().filter(|stride| matches!(stride, 1 | 2))?;
            factors.get(1)?.is_int(1).then_some((reduce, stride))
        })
    });
    let Some((along, stride)) = along else { return Err("its windows are not along rows".into()) };
    let Some(columns) = extent_of(along) else { return Err("its windows have no constant extent".into()) };
    let others: Option<Vec<(Var, i64)>> = parts
        .reduce_axes
        .iter()
        .filter(|axis| *axis != along)
        .map(|axis| Some((axis.var.clone(), extent_of(axis)?)))
        .collect();
    let Some(others) = others else { return Err("its windows have no constant extent".into()) };
    let rows: i64 = others.iter().map(|(_, extent)| extent).product();
    let most = UNROLLED[usize::from(stride == 2)];
    if rows * columns > most || rows < 1 || columns < 1 {
        return Err(format!("its windows are larger than {most} elements"));
    }
    let column = Var::index("column");
    let solved = column.expr() - last.var.expr() * stride;
    let moved = VarMap::from_iter([(along.var.clone(), solved)]);
    let source = Analyzer::new().simplify(&substitute(&source, &moved));
    if depends_on(&source, last) {
        return Err("what it reduces depends on the place in the window".into());
    }
    let extent = |axis: &IterVar| axis.dom.as_ref().map_or_else(|| Expr::int(1), |dom| dom.extent.clone());
    Ok(Window {
        out: op.clone(),
        reducer: reducer.clone(),
        outer: outer.iter().map(|axis| (axis.var.clone(), extent(axis))).collect(),
        width,
        source,
        column,
        others,
        columns,
        stride,
    })
}

impl Window {
    fn operation(&self, vectors: Vectors, shared: ForKind) -> Operation {
        Inputs::of([&self.source]).operation(&format!("{}.strided", self.out.name()), &self.out, |inputs, out| {
            // The first dimension with more than one iteration is distributed over threads.
            let first = self.outer.iter().position(|(_, extent)| !extent.is_int(1));
            let mut places = VarMap::new();
            self.over(0, first, shared, &mut places, &|places, code| self.row(vectors, inputs, out, places, code))
        })
    }

    /// Emits loops over the dimensions from `place` on. The first and the last row have separate
    /// code: only they read padding.
    fn over(
        &self,
        place: usize,
        first: Option<usize>,
        shared: ForKind,
        places: &mut VarMap,
        body: &dyn Fn(&VarMap, &mut Code),
    ) -> Stmt {
        let Some((var, extent)) = self.outer.get(place) else {
            let mut code = Code::default();
            body(places, &mut code);
            return Stmt::if_then(true, code.finish(), None);
        };
        let mut at = |index: Expr| {
            places.insert(var.clone(), index);
            let inner = self.over(place + 1, first, shared, places, body);
            places.remove(var);
            inner
        };
        if extent.is_int(1) {
            return at(Expr::int(0));
        }
        let kind = if first == Some(place) { shared } else { ForKind::Serial };
        let index = Var::index(var.name());
        match extent.as_int() {
            Some(rows)
                if place + 1 == self.outer.len() && kind == ForKind::Serial && rows > 2 && self.has_conditions() =>
            {
                let middle = at(index.expr().clone());
                Stmt::seq([at(Expr::int(0)), Stmt::for_loop(index, 1, rows - 2, kind, middle), at(Expr::int(rows - 1))])
            }
            _ => {
                let inner = at(index.expr().clone());
                Stmt::for_loop(index, 0, extent, kind, inner)
            }
        }
    }

    fn has_conditions(&self) -> bool {
        let mut found = false;
        for_each_expr(&self.source, |part| {
            found |= matches!(&**part, ExprNode::Compare { .. });
        });
        found
    }

    /// Emits a row of results.
    fn row(&self, vectors: Vectors, inputs: &Inputs, out: &Buffer, places: &VarMap, code: &mut Code) {
        let part = GROUP * vectors.lanes;
        let whole = self.width / part;
        if whole > 0 {
            code.push(serial("part", whole, |at, code| {
                self.part(vectors, (inputs, out), places, (&(at * part), part), code);
            }));
        }
        let rest = self.width - whole * part;
        if rest > 0 {
            self.part(vectors, (inputs, out), places, (&Expr::int(whole * part), rest), code);
        }
    }

    /// Emits `count` results starting at `start`.
    fn part(
        &self,
        vectors: Vectors,
        (inputs, out): (&Inputs, &Buffer),
        places: &VarMap,
        (start, count): (&Expr, i64),
        code: &mut Code,
    ) {
        let lanes = vectors.lanes;
        let needed = self.stride * (count - 1) + self.columns;
        let loaded = (needed + lanes - 1) / lanes;
        // The window rows, reduced to one row.
        let row = memory("columns", vectors.dtype, &[loaded * lanes], "local");
        code.alloc(&row);
        for vector in 0..loaded {
            let lane = Var::index("lane");
            let at = lane.expr() + vector * lanes;
            let mut values = places.clone();
            values.insert(self.column.clone(), start * self.stride + &at);
            let mut value = self.reduced(0, &mut values, None).expect("a window has elements");
            if (vector + 1) * lanes > needed {
                value = Expr::if_then_else(at.less(needed), value, Expr::constant(vectors.dtype, 0.into()));
            }
            let store = Stmt::store(row.clone(), at, inputs.loads(&value));
            code.push(Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store));
        }
        let columns: Vec<Expr> =
            (0..loaded).map(|vector| code.bind("column", vectors.load(&row, Expr::int(vector * lanes)))).collect();
        let [even, odd] = if self.stride == 2 { vectors.apart(&columns, code) } else { [columns, Vec::new()] };
        for vector in 0..(count + lanes - 1) / lanes {
            let window: Vec<Buffer> = (0..self.columns)
                .map(|column| {
                    let from = if column % self.stride == 0 { &even } else { &odd };
                    let values = vectors.at_lane(from, vector * lanes + column / self.stride, code);
                    let place = memory("part", vectors.dtype, &[lanes], "local");
                    code.alloc(&place);
                    code.push(vectors.store(&place, Expr::int(0), values));
                    place
                })
                .collect();
            let lane = Var::index("lane");
            let mut elements = window.iter().map(|place| Expr::load(place, &lane));
            let first = elements.next().expect("a window has columns");
            let value = elements.fold(first, |left, right| self.combined(&left, &right));
            let at = start + vector * lanes + &lane;
            let mut indices: Vec<Expr> = self.outer.iter().map(|(var, _)| substitute(var.expr(), places)).collect();
            indices.push(at);
            let mut store = Stmt::store(out.clone(), out.flat_index(&indices), value);
            if (vector + 1) * lanes > count {
                store = Stmt::if_then(lane.expr().less(count - vector * lanes), store, None);
            }
            code.push(Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store));
        }
    }

    /// The reduction over the other dimensions of the window from `place` on, combined with
    /// `before`.
    fn reduced(&self, place: usize, values: &mut VarMap, before: Option<Expr>) -> Option<Expr> {
        let Some((var, extent)) = self.others.get(place) else {
            let value = substitute(&self.source, values);
            return Some(match before {
                Some(before) => self.combined(&before, &value),
                None => value,
            });
        };
        let mut result = before;
        for at in 0..*extent {
            values.insert(var.clone(), Expr::int(at));
            result = self.reduced(place + 1, values, result);
        }
        values.remove(var);
        result
    }

    fn combined(&self, left: &Expr, right: &Expr) -> Expr {
        let result = self.reducer.results.get(0).expect("a reducer has a result");
        let mut values = VarMap::default();
        // A value with several uses is computed once.
        let mut bound = Vec::new();
        for (vars, value) in [(&self.reducer.lhs, left), (&self.reducer.rhs, right)] {
            let var = vars.get(0).expect("a reducer has variables");
            let value = if is_used_twice(&result, &var) {
                let name = Var::new(var.name(), value.dtype());
                bound.push((name.clone(), value.clone()));
                name.into()
            } else {
                value.clone()
            };
            values.insert(var, value);
        }
        let result = substitute(&result, &values);
        bound.into_iter().rev().fold(result, |body, (var, value)| Expr::from_node(ExprNode::Let { var, value, body }))
    }
}
