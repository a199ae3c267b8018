//! The transforms of Winograd's algorithm, on vectors of channels.

use super::super::super::code::{Code, Vectors};
use crate::ir::{Expr, Stmt};

/// The transforms of tiles of some size.
#[derive(Clone, Copy)]
pub(super) struct Transforms {
    pub(super) vectors: Vectors,
    /// The number of result pixels along one side of a tile: 4 or 2.
    pub(super) result: i64,
}

impl Transforms {
    /// The number of source pixels along one side of a tile.
    pub(super) fn side(self) -> i64 {
        self.result + 2
    }

    /// The number of places of a tile.
    pub(super) fn places(self) -> i64 {
        self.side() * self.side()
    }

    /// Transforms three weights to the points 0, 1, -1, 2, -2 and infinity.
    pub(super) fn weight_places(self, [a, b, c]: [Expr; 3], code: &mut Code) -> Vec<Expr> {
        let by = |value: &Expr, factor: f64| value * &self.vectors.splat(factor);
        let outer = code.bind("even", by(&(&a + &c), -1.0 / 6.0));
        let inner = code.bind("odd", by(&b, -1.0 / 6.0));
        let far = code.bind("even", by(&a, 1.0 / 24.0) + by(&c, 1.0 / 6.0));
        let near = code.bind("odd", by(&b, 1.0 / 12.0));
        let values = [by(&a, 0.25), &outer + &inner, &outer - &inner, &far + &near, &far - &near, c];
        values.into_iter().map(|value| code.bind("u", value)).collect()
    }

    /// Emits the transform of a tile of the source; `pixel` loads row `y` and column `x`, `write`
    /// stores a place.
    pub(super) fn source_tile(
        self,
        pixel: impl Fn(i64, i64) -> Expr,
        write: impl Fn(i64, Expr) -> Stmt,
        code: &mut Code,
    ) {
        let side = self.side();
        let mut columns: Vec<Vec<Expr>> = Vec::new();
        for x in 0..side {
            let values = (0..side).map(|y| code.bind("d", pixel(y, x))).collect();
            columns.push(self.source_places(values, code));
        }
        for y in 0..side {
            let values = columns.iter().map(|column| column[y as usize].clone()).collect();
            for (x, value) in self.source_places(values, code).into_iter().enumerate() {
                code.push(write(y * side + x as i64, value));
            }
        }
    }

    /// Emits the transform of a tile of products; `product` loads a place, `write` stores row `y`
    /// and column `x` of the result.
    pub(super) fn result_tile(
        self,
        product: impl Fn(i64) -> Expr,
        write: impl Fn(i64, i64, Expr) -> Stmt,
        code: &mut Code,
    ) {
        let side = self.side();
        let mut half: Vec<Vec<Expr>> = Vec::new();
        for x in 0..side {
            let values = (0..side).map(|y| code.bind("m", product(y * side + x))).collect();
            half.push(self.result_pixels(values, code));
        }
        for y in 0..self.result {
            let values = half.iter().map(|column| column[y as usize].clone()).collect();
            for (x, value) in self.result_pixels(values, code).into_iter().enumerate() {
                code.push(write(y, x as i64, value));
            }
        }
    }

    /// Transforms six pixels of the source, or four, to factors of the products.
    fn source_places(self, d: Vec<Expr>, code: &mut Code) -> Vec<Expr> {
        if self.result == 2 {
            let values = [&d[0] - &d[2], &d[1] + &d[2], &d[2] - &d[1], &d[3] - &d[1]];
            return values.into_iter().map(|value| code.bind("v", value)).collect();
        }
        let by = |value: &Expr, factor: f64| value * &self.vectors.splat(factor);
        let far_even = code.bind("e", &d[4] - by(&d[2], 4.0));
        let far_odd = code.bind("o", &d[3] - by(&d[1], 4.0));
        let near_even = code.bind("e", &d[4] - &d[2]);
        let near_odd = code.bind("o", by(&(&d[3] - &d[1]), 2.0));
        let values = [
            by(&d[0], 4.0) + (&d[4] - by(&d[2], 5.0)),
            &far_even + &far_odd,
            &far_even - &far_odd,
            &near_even + &near_odd,
            &near_even - &near_odd,
            by(&d[1], 4.0) + (&d[5] - by(&d[3], 5.0)),
        ];
        values.into_iter().map(|value| code.bind("v", value)).collect()
    }

    /// Transforms six products to four pixels of the result, or four to two.
    fn result_pixels(self, m: Vec<Expr>, code: &mut Code) -> Vec<Expr> {
        if self.result == 2 {
            let values = [&m[0] + &m[1] + &m[2], &m[1] - &m[2] + &m[3]];
            return values.into_iter().map(|value| code.bind("y", value)).collect();
        }
        let by = |value: &Expr, factor: f64| value * &self.vectors.splat(factor);
        let (a, b) = (code.bind("s", &m[1] + &m[2]), code.bind("d", &m[1] - &m[2]));
        let (c, d) = (code.bind("s", &m[3] + &m[4]), code.bind("d", &m[3] - &m[4]));
        let values = [&m[0] + &a + &c, &b + by(&d, 2.0), &a + by(&c, 4.0), &b + by(&d, 8.0) + &m[5]];
        values.into_iter().map(|value| code.bind("y", value)).collect()
    }
}
