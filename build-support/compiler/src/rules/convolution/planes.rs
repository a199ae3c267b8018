//! A copy of a convolution's source in which the pixels that neighbours of the result read are beside each other: one plane for each remainder of the position by
//! the stride. What is around the image is in it.

use super::super::code::{Code, Inputs, Vectors, for_each, in_vectors, memory, serial};
use super::{Convolution, Spatial};
use crate::ir::{Buffer, Expr, ForKind, Stmt};

/// The planes of one dimension.
struct Planes {
    /// Remainders by the stride that the window has.
    remainders: Vec<i64>,
    /// For each position of the window: which plane, and how many pixels further.
    positions: Vec<(i64, i64)>,
    /// Pixels of a plane.
    extent: i64,
}

impl Planes {
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
        Self { remainders, positions, extent: spatial.extent + furthest }
    }

    /// Plane and offset as expressions of the position in the window.
    fn position(&self, spatial: &Spatial, window: &Expr) -> (Expr, Expr) {
        if let ([(plane, offset)], true) = (&self.positions[..], true) {
            return (Expr::int(*plane), Expr::int(*offset));
        }
        let at = window * spatial.dilation;
        if spatial.stride == 1 {
            return (Expr::int(0), at);
        }
        // Planes are in the order in which the window meets them: with gaps of 1 that is the remainder itself.
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

/// The copy: `[channel][plane of rows][plane of columns][y][x]`.
pub(super) struct Copied {
    rows: Planes,
    columns: Planes,
    depth: i64,
    pub(super) buffer: Buffer,
}

impl Copied {
    /// With so many elements behind the last plane.
    pub(super) fn of(convolution: &Convolution, behind: i64) -> Self {
        let [rows, columns] = &convolution.spatial;
        let mut copied = Self {
            rows: Planes::of(rows),
            columns: Planes::of(columns),
            depth: convolution.depth,
            buffer: memory("pixels", convolution.out.output(0).dtype, &[1], "global"),
        };
        copied.buffer = memory("pixels", copied.buffer.dtype, &[copied.size() + behind], "global");
        copied
    }

    /// Elements of all planes.
    pub(super) fn size(&self) -> i64 {
        self.depth * (self.rows.remainders.len() * self.columns.remainders.len()) as i64 * self.plane()
    }

    /// Pixels from one row of a plane to the next.
    pub(super) fn pitch(&self) -> i64 {
        self.columns.extent
    }

    fn plane(&self) -> i64 {
        self.rows.extent * self.columns.extent
    }

    /// Where the first plane of an input channel begins that has these remainders.
    fn base(&self, c: &Expr, row: impl Into<Expr>, column: impl Into<Expr>) -> Expr {
        let counts = [self.rows.remainders.len() as i64, self.columns.remainders.len() as i64];
        ((c * counts[0] + row.into()) * counts[1] + column.into()) * self.plane()
    }

    /// Where the first pixel of the result reads an input channel for a position of the window.
    pub(super) fn place(&self, convolution: &Convolution, c: &Expr, ky: &Expr, kx: &Expr) -> Expr {
        let [rows, columns] = &convolution.spatial;
        let (plane_y, offset_y) = self.rows.position(rows, ky);
        let (plane_x, offset_x) = self.columns.position(columns, kx);
        self.base(c, plane_y, plane_x) + offset_y * self.columns.extent + offset_x
    }

    /// Makes the copy.
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
                for (b, remainder_x) in planes_x.remainders.iter().enumerate() {
                    let base = self.base(c, a as i64, b as i64);
                    code.push(serial("y", planes_y.extent, |y, code| {
                        let at_y = y * rows.stride + *remainder_y;
                        code.push(in_vectors("x", planes_x.extent, vectors.lanes, |x| {
                            let at_x = x * columns.stride + *remainder_x;
                            let mut value = inputs.loads(&convolution.source(batch, c, &at_y, &at_x));
                            // Planes are as long as the longest: their ends can be outside of the source.
                            let ends =
                                [(rows, planes_y, *remainder_y, &at_y), (columns, planes_x, *remainder_x, &at_x)];
                            for (spatial, planes, remainder, at) in ends {
                                if (planes.extent - 1) * spatial.stride + remainder >= spatial.source() {
                                    let zero = Expr::float(vectors.dtype, 0.0);
                                    value = Expr::if_then_else(at.less(spatial.source()), value, zero);
                                }
                            }
                            Stmt::store(self.buffer.clone(), &base + y * planes_x.extent + x, value)
                        }));
                    }));
                }
            }
        }));
    }
}
