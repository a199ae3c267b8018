//! The rows of a product, whose number may be known only when the kernel runs, and their tiles.

use super::code::Code;
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

    /// Emits a tile by `rows`, which gets the first row and the number of rows.
    ///
    /// The last tile may have fewer rows, and code of its own. If the number of rows is not known,
    /// it is divided into tiles of powers of two, so that it costs little more than what it
    /// computes.
    pub(crate) fn tile(&self, first: &Expr, height: i64, rows: impl Fn(&Expr, i64) -> Stmt) -> Stmt {
        if let Some(count) = self.count() {
            let last = count - (count - 1) / height * height;
            return if last == height {
                rows(first, height)
            } else {
                Stmt::if_then(first.less(count - last), rows(first, height), Some(rows(first, last)))
            };
        }
        let mut code = Code::default();
        let left = code.bind("left", self.total() - first);
        let mut tail = Code::default();
        let powers: Vec<i64> = (0..i64::BITS).map(|power| 1 << power).take_while(|power| *power < height).collect();
        for power in powers.into_iter().rev() {
            // The tiles of larger powers are in front.
            let start = first + left.floor_div(2 * power) * (2 * power);
            let is_there = left.floor_div(power).floor_mod(2).equals(1);
            tail.push(Stmt::if_then(is_there, rows(&start, power), None));
        }
        let (whole, tail) = (rows(first, height), tail.finish());
        code.push(Stmt::if_then(left.greater_equal(height), whole, (height > 1).then_some(tail)));
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
