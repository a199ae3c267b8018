//! A copy of a convolution's source in which the pixels that adjacent results read are adjacent:
//! one plane for each remainder of the position by the stride. It includes the padding.

use super::super::code::{Code, Inputs, Vectors, for_each, in_vectors, memory, serial};
use super::{Convolution, Spatial};
use crate::ir::{Buffer, Expr, ForKind, Stmt, Var};

/// The number of vectors of a plane that are generated together, from twice as many vectors of the
/// source.
const GROUP: i64 = 4;

/// The planes of one dimension.
struct Planes {
    /// The start of each plane in the source: the remainders by the stride that occur in the
    /// window, or its positions.
    remainders: Vec<i64>,
    /// For each position of the window, the plane and the offset in pixels.
    positions: Vec<(i64, i64)>,
    /// The number of pixels of a plane.
    extent: i64,
    /// True if each position of the window has its own plane.
    is_apart: bool,
}

impl Planes {
    /// Creates a plane for each position of the window, with exactly one pixel for each pixel of
    /// the result.
    fn apart(spatial: &Spatial) -> Self {
        let remainders: Vec<i64> = (0..spatial.window).map(|window| window * spatial.dilation).collect();
        let positions = (0..spatial.window).map(|window| (window, 0)).collect();
        Self { remainders, positions, extent: spatial.extent, is_apart: true }
    }

    fn of(spatial: &Spatial) -> Self {
        let mut remainders = Vec::new();
        let mut positions = Vec::new();
        for window in 0..spatial.window {
            let at = window * spatial.dilation;
            let remainder = at % spatial.stride;
            let plane = remainders.iter().position(|other| *other == remainder).unwrap_or_else(|| {
                remainders.push(remainder);
                remainders.len() - 1
            });
            positions.push((plane as i64, at / spatial.stride));
        }
        let furthest = positions.iter().map(|(_, offset)| *offset).max().unwrap_or(0);
        Self { remainders, positions, extent: spatial.extent + furthest, is_apart: false }
    }

    /// The plane and the offset, as expressions of the position in the window.
    fn position(&self, spatial: &Spatial, window: &Expr) -> (Expr, Expr) {
        if let ([(plane, offset)], true) = (&self.positions[..], true) {
            return (Expr::int(*plane), Expr::int(*offset));
        }
        if self.is_apart {
            return (window.clone(), Expr::int(0));
        }
        let at = window * spatial.dilation;
        if spatial.stride == 1 {
            return (Expr::int(0), at);
        }
        // Planes are ordered by their first use in the window: with a dilation of 1, that is the
        // remainder itself.
        if spatial.dilation == 1 {
            return (at.floor_mod(spatial.stride), at.floor_div(spatial.stride));
        }
        let pick = |part: fn(&(i64, i64)) -> i64| {
            let last = Expr::int(self.positions.last().map_or(0, part));
            self.positions.iter().enumerate().rev().skip(1).fold(last, |rest, (index, position)| {
                Expr::select(window.equals(index as i64), Expr::int(part(position)), rest)
            })
        };
        (pick(|position| position.0), pick(|position| position.1))
    }
}

/// The row stride of a plane in pixels, where the positions of a window share planes.
pub(super) fn pitch_of(columns: &Spatial) -> i64 {
    Planes::of(columns).extent
}

/// The copy: `[channel][plane of rows][plane of columns][y][x]`.
pub(super) struct Copied {
    rows: Planes,
    columns: Planes,
    depth: i64,
    pub(super) buffer: Buffer,
}

impl Copied {
    /// Creates the layout of a copy with `behind` elements after the last plane. `is_apart`: each
    /// column of the window has its own plane, whose rows contain no unused pixels.
    pub(super) fn of(convolution: &Convolution, is_apart: bool, behind: i64) -> Self {
        let [rows, columns] = &convolution.spatial;
        let mut copied = Self {
            rows: Planes::of(rows),
            columns: if is_apart { Planes::apart(columns) } else { Planes::of(columns) },
            depth: convolution.depth,
            buffer: memory("pixels", convolution.out.output(0).dtype, &[1], "global"),
        };
        copied.buffer = memory("pixels", copied.buffer.dtype, &[copied.size() + behind], "global");
        copied
    }

    /// The number of elements of all planes.
    pub(super) fn size(&self) -> i64 {
        self.depth * (self.rows.remainders.len() * self.columns.remainders.len()) as i64 * self.plane()
    }

    /// The row stride of a plane, in pixels.
    pub(super) fn pitch(&self) -> i64 {
        self.columns.extent
    }

    fn plane(&self) -> i64 {
        self.rows.extent * self.columns.extent
    }

    /// The start of the first plane of an input channel with these remainders.
    fn base(&self, c: &Expr, row: impl Into<Expr>, column: impl Into<Expr>) -> Expr {
        let counts = [self.rows.remainders.len() as i64, self.columns.remainders.len() as i64];
        ((c * counts[0] + row.into()) * counts[1] + column.into()) * self.plane()
    }

    /// The position at which the first pixel of the result reads an input channel, for a position
    /// of the window.
    pub(super) fn place(&self, convolution: &Convolution, c: &Expr, ky: &Expr, kx: &Expr) -> Expr {
        let [rows, columns] = &convolution.spatial;
        let (plane_y, offset_y) = self.rows.position(rows, ky);
        let (plane_x, offset_x) = self.columns.position(columns, kx);
        self.base(c, plane_y, plane_x) + offset_y * self.columns.extent + offset_x
    }

    /// Emits the copy.
    pub(super) fn fill(
        &self,
        (convolution, inputs, batch): (&Convolution, &Inputs, &[Expr]),
        vectors: Vectors,
        shared: ForKind,
        code: &mut Code,
    ) {
        let [rows, columns] = &convolution.spatial;
        let (planes_y, planes_x) = (&self.rows, &self.columns);
        code.alloc(&self.buffer);
        code.push(for_each("c", self.depth, shared, |c, code| {
            for (a, remainder_y) in planes_y.remainders.iter().enumerate() {
                // All planes are as long as the longest one: their ends can be outside of the
                // source.
                let ends_outside = (planes_y.extent - 1) * rows.stride + remainder_y >= rows.source();
                let pixel = |y: &Expr, x: &Expr| {
                    let value = inputs.loads(&convolution.source(batch, c, y, x));
                    if !ends_outside {
                        return value;
                    }
                    Expr::if_then_else(y.less(rows.source()), value, Expr::float(vectors.dtype, 0.0))
                };
                code.push(serial("y", planes_y.extent, |y, code| {
                    let at_y = y * rows.stride + *remainder_y;
                    let row = |plane: usize| self.base(c, a as i64, plane as i64) + y * planes_x.extent;
                    if columns.stride == 2 && planes_x.extent >= vectors.lanes {
                        self.strided_row((columns, vectors), |x| pixel(&at_y, x), row, code);
                        return;
                    }
                    for (b, remainder_x) in planes_x.remainders.iter().enumerate() {
                        code.push(in_vectors("x", planes_x.extent, vectors.lanes, |x| {
                            let at_x = x * columns.stride + *remainder_x;
                            let mut value = pixel(&at_y, &at_x);
                            if (planes_x.extent - 1) * columns.stride + remainder_x >= columns.source() {
                                let zero = Expr::float(vectors.dtype, 0.0);
                                value = Expr::if_then_else(at_x.less(columns.source()), value, zero);
                            }
                            Stmt::store(self.buffer.clone(), row(b) + x, value)
                        }));
                    }
                }));
            }
        }));
    }

    /// Emits a row of all column planes with a stride of 2: adjacent source pixels are loaded, and
    /// deinterleaved in registers.
    fn strided_row(
        &self,
        (columns, vectors): (&Spatial, Vectors),
        pixel: impl Fn(&Expr) -> Expr,
        row: impl Fn(usize) -> Expr,
        code: &mut Code,
    ) {
        let Planes { remainders, extent, .. } = &self.columns;
        let lanes = vectors.lanes;
        let furthest = remainders.iter().max().expect("a window has columns");
        let part = |first: &Expr, count: i64, code: &mut Code| {
            let needed = 2 * (count - 1) + furthest + 1;
            let loaded = (needed + lanes - 1) / lanes;
            let source = memory("row", vectors.dtype, &[loaded * lanes], "local");
            code.alloc(&source);
            for vector in 0..loaded {
                let lane = Var::index("lane");
                let at = lane.expr() + vector * lanes;
                let x = first * 2 + &at;
                let mut value = pixel(&x);
                if first.as_int().is_none_or(|first| 2 * first + (vector + 1) * lanes > columns.source()) {
                    value = Expr::if_then_else(x.less(columns.source()), value, Expr::float(vectors.dtype, 0.0));
                }
                let store = Stmt::store(source.clone(), at, value);
                code.push(Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store));
            }
            let loaded: Vec<Expr> = (0..loaded)
                .map(|vector| code.bind("pixels", vectors.load(&source, Expr::int(vector * lanes))))
                .collect();
            let apart = vectors.apart(&loaded, code);
            for (plane, remainder) in remainders.iter().enumerate() {
                for vector in 0..(count + lanes - 1) / lanes {
                    let from = vector * lanes + remainder / 2;
                    let values = vectors.at_lane(&apart[(remainder % 2) as usize], from, code);
                    let at = row(plane) + first + vector * lanes;
                    code.push(vectors.store_first(&self.buffer, at, values, count - vector * lanes));
                }
            }
        };
        let (whole, size) = (extent / (GROUP * lanes), GROUP * lanes);
        if whole > 0 {
            code.push(serial("part", whole, |at, code| part(&(at * size), size, code)));
        }
        if extent % size > 0 {
            part(&Expr::int(whole * size), extent % size, code);
        }
    }
}
