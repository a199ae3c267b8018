//! The rows of a product, whose number may be known only when the kernel runs, and their tiles.

use super::code::{Code, serial};
use crate::ir::{Expr, Stmt, Var, VarMap};

/// Axes of a result, from the outer to the inner one, with their extents. A row is an element of
/// their index space, numbered in row-major order.
#[derive(Clone, Default)]
pub(crate) struct Rows(pub(crate) Vec<(Var, Expr)>);

impl Rows {
    /// The number of rows, if it is known.
    pub(crate) fn count(&self) -> Option<i64> {
        self.0.iter().try_fold(1_i64, |count, (_, extent)| count.checked_mul(extent.as_int()?))
    }

    /// The number of rows.
    pub(crate) fn total(&self) -> Expr {
        let extents = self.0.iter().map(|(_, extent)| extent).filter(|extent| !extent.is_int(1));
        extents.cloned().reduce(|total, extent| total * extent).unwrap_or_else(|| Expr::int(1))
    }

    /// The number of tiles of this many rows, including a smaller one at the end.
    pub(crate) fn tiles(&self, height: i64) -> Expr {
        match self.count() {
            Some(rows) => Expr::int((rows + height - 1) / height),
            None => (self.total() + (height - 1)).floor_div(height),
        }
    }

    /// Emits a tile from its first row on, by `rows`.
    ///
    /// The last tile may have fewer rows, and code of its own. If their number is not known, they
    /// are computed in tiles of powers of two, the last one of which may repeat its last row: what
    /// all rows read, such as weights, is read once for up to eight of them.
    pub(crate) fn tile(&self, first: &Expr, height: i64, rows: impl Fn(&RowTile<'_>) -> Stmt) -> Stmt {
        let of =
            |first: &Expr, height: i64, count: Expr| rows(&RowTile { rows: self, first: first.clone(), height, count });
        let whole = |first: &Expr, height: i64| of(first, height, Expr::int(height));
        if let Some(count) = self.count() {
            let last = count - (count - 1) / height * height;
            return if last == height {
                whole(first, height)
            } else {
                Stmt::if_then(first.less(count - last), whole(first, height), Some(whole(first, last)))
            };
        }
        if height == 1 {
            return whole(first, 1);
        }
        let most = 1 << height.ilog2();
        let mut code = Code::default();
        let left = code.bind("left", self.total() - first);
        let tail = serial("part", left.ceil_div(most), |part, code| {
            let start = code.bind("start", first + part * most);
            let count = code.bind("count", (&left - part * most).min(most));
            let powers = (1..=height.ilog2()).map(|power| 1_i64 << power);
            code.push(powers.fold(whole(&start, 1), |fewer, power| {
                let own = if power == 2 { Expr::int(2) } else { count.clone() };
                Stmt::if_then(count.greater(power / 2), of(&start, power, own), Some(fewer))
            }));
        });
        code.push(Stmt::if_then(left.greater_equal(height), whole(first, height), Some(tail)));
        code.finish()
    }

    /// The values of the axes for a row.
    pub(crate) fn at(&self, number: &Expr) -> VarMap {
        let mut rest = number.clone();
        let mut values = VarMap::new();
        for (index, (var, extent)) in self.0.iter().enumerate().rev() {
            let is_first = self.0[..index].iter().all(|(_, extent)| extent.is_int(1));
            let value = match () {
                () if extent.is_int(1) => Expr::int(0),
                () if is_first => rest.clone(),
                () => rest.floor_mod(extent),
            };
            if !extent.is_int(1) && !is_first {
                rest = rest.floor_div(extent);
            }
            values.insert(var.clone(), value);
        }
        values
    }
}

/// The rows of a register tile.
pub(crate) struct RowTile<'a> {
    rows: &'a Rows,
    /// The first row.
    pub(crate) first: Expr,
    /// The number of rows that are computed.
    pub(crate) height: i64,
    /// The number of rows that exist, which is more than half of them.
    pub(crate) count: Expr,
}

impl RowTile<'_> {
    /// The number of a row that is computed. The last row of the result stands for those behind it.
    pub(crate) fn number(&self, row: i64) -> Expr {
        let number = &self.first + row;
        let exists = self.count.as_int().is_some() || row <= self.height / 2;
        if exists { number } else { number.min(self.rows.total() - 1) }
    }

    /// The values of the axes for a row that is computed.
    pub(crate) fn at(&self, row: i64) -> VarMap {
        self.rows.at(&self.number(row))
    }

    /// The values of the axes for a row that exists.
    pub(crate) fn existing(&self, row: &Expr) -> VarMap {
        self.rows.at(&(&self.first + row))
    }
}
