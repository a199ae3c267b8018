//! Constant weights of convolutions, packed at compile time in the order in which kernels read
//! them: no call transposes or transforms them.
//!
//! One form serves all CPU levels: blocks of 16 or 32 output channels consist of whole vectors on
//! each level.

use super::{Spatial, few_pixels, winograd};
use crate::ir::{Expr, OperationNode, Tensor};
use crate::te::compute;

/// The attribute of the tensor that represents weights before their transformation: the number of
/// result pixels along one side of a tile.
pub(super) const TILES: &str = "winograd";

/// The output channels of a block.
const BLOCK: i64 = 16;

/// A convolution with one group over two dimensions, whose weights are constant `f32` values in the
/// layout `[output channel][input channel][y][x]`.
#[derive(Clone, Copy, Debug)]
pub struct Filters {
    /// The number of output channels.
    pub channels: i64,
    /// The number of input channels.
    pub depth: i64,
    /// The rows and columns of the result.
    pub pixels: [i64; 2],
    /// The rows and columns of the window.
    pub window: [i64; 2],
    /// The strides, in pixels of the source.
    pub strides: [i64; 2],
    /// The dilations, in pixels of the source.
    pub dilations: [i64; 2],
}

/// The memory layout of packed weights, and their transformation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterForm {
    /// `[output channel / 16][input channel][y][x][output channel % 16]`.
    Panels,
    /// Transformed for Winograd's algorithm with tiles of `result` x `result` pixels, where
    /// `result` is 2 or 4:
    /// `[output channel / width][place][input channel][output channel % width]`, where a tile has
    /// `(result + 2)^2` places.
    Tiles {
        /// The number of result pixels along one side of a tile.
        result: i64,
    },
}

/// Transforms three weights to the points 0, 1, -1, 2, -2 and infinity.
fn at_six_points([a, b, c]: [f64; 3]) -> [f64; 6] {
    let (outer, inner) = ((a + c) / -6.0, b / -6.0);
    let (far, near) = (a / 24.0 + c / 6.0, b / 12.0);
    [a / 4.0, outer + inner, outer - inner, far + near, far - near, c]
}

/// Transforms three weights to the points 0, 1, -1 and infinity.
fn at_four_points([a, b, c]: [f64; 3]) -> [f64; 4] {
    let (outer, inner) = ((a + c) / 2.0, b / 2.0);
    [a, outer + inner, outer - inner, c]
}

/// A function that transforms three weights to `PLACES` points.
type Points<const PLACES: usize> = fn([f64; 3]) -> [f64; PLACES];

impl Filters {
    /// The form that the rules read fastest; `None` if it is the unpacked weights.
    pub fn form(&self) -> Option<FilterForm> {
        let spatial = self.spatial()?;
        if self.depth % BLOCK == 0 {
            for result in [4, 2] {
                if winograd::pays(&spatial, self.channels, self.depth, result).is_ok() {
                    return Some(FilterForm::Tiles { result });
                }
            }
        }
        self.form_of_same_size()
    }

    /// The form that the rules read fastest among those that are not larger than the weights
    /// themselves.
    pub fn form_of_same_size(&self) -> Option<FilterForm> {
        let spatial = self.spatial()?;
        let terms = self.depth * self.window.iter().product::<i64>();
        let fits = winograd::pays(&spatial, self.channels, self.depth, 4).is_err()
            && few_pixels::fits(&spatial, self.channels, terms, BLOCK).is_ok();
        fits.then_some(FilterForm::Panels)
    }

    /// The form for images whose extents are known only when the kernel runs; `None` if it is the
    /// unpacked weights. It does not depend on the pixels.
    pub fn form_of_any_extents(&self) -> Option<FilterForm> {
        let spatial = self.spatial()?;
        let fits = self.depth % BLOCK == 0 && spatial.iter().all(Spatial::is_for_winograd);
        fits.then_some(FilterForm::Tiles { result: winograd::RESULT })
    }

    /// The dimensions of the image, if the channels form whole blocks and all extents are positive.
    fn spatial(&self) -> Option<[Spatial; 2]> {
        let spatial = [0, 1].map(|at| Spatial {
            extent: self.pixels[at],
            stride: self.strides[at],
            dilation: self.dilations[at],
            window: self.window[at],
        });
        let is_positive =
            |axis: &Spatial| [axis.extent, axis.stride, axis.dilation, axis.window].iter().all(|value| *value > 0);
        let fits = self.channels % BLOCK == 0 && self.channels > 0 && self.depth > 0 && spatial.iter().all(is_positive);
        fits.then_some(spatial)
    }

    /// The number of output channels that are adjacent in memory.
    fn width(&self, form: FilterForm) -> i64 {
        if form != FilterForm::Panels && self.channels % (2 * BLOCK) == 0 { 2 * BLOCK } else { BLOCK }
    }

    /// The extents of the weights in a form.
    pub fn shape(&self, form: FilterForm) -> Vec<i64> {
        let width = self.width(form);
        match form {
            FilterForm::Panels => vec![self.channels / width, self.depth, self.window[0], self.window[1], width],
            FilterForm::Tiles { result } => {
                vec![self.channels / width, (result + 2) * (result + 2), self.depth, width]
            }
        }
    }

    /// Packs the weights into a form. Transforms are computed in `f64` and rounded once. Returns
    /// `None` if the number of weights is wrong, or if the blocks of the form do not divide the
    /// output channels.
    pub fn laid_out(&self, form: FilterForm, weights: &[f32]) -> Option<Vec<f32>> {
        let all = [self.channels, self.depth, self.window[0], self.window[1]];
        let [channels, depth, rows, columns] = all.map(|extent| usize::try_from(extent).unwrap_or(0));
        let width = usize::try_from(self.width(form)).unwrap_or(1);
        if weights.len() != channels * depth * rows * columns || channels % width != 0 {
            return None;
        }
        match form {
            FilterForm::Panels => {
                let terms = depth * rows * columns;
                let mut to = vec![0.0; weights.len()];
                for (channel, own) in weights.chunks_exact(terms.max(1)).enumerate() {
                    let first = channel / width * terms * width + channel % width;
                    for (place, weight) in to[first..].iter_mut().step_by(width).zip(own) {
                        *place = *weight;
                    }
                }
                Some(to)
            }
            FilterForm::Tiles { result: 4 } => Some(transformed(weights, [channels, depth, width], at_six_points)),
            FilterForm::Tiles { result: 2 } => Some(transformed(weights, [channels, depth, width], at_four_points)),
            FilterForm::Tiles { .. } => None,
        }
    }

    /// Returns a closure that reads the weight of an output channel, an input channel, a row and a
    /// column of the window from packed weights. The rules recognize convolutions with such
    /// weights.
    ///
    /// # Panics
    /// The closure panics if the number of indices is not four.
    pub fn reads(&self, form: FilterForm, laid_out: &Tensor) -> impl Fn(&[Expr]) -> Expr + use<> {
        let width = self.width(form);
        let tensor = match form {
            FilterForm::Panels => laid_out.clone(),
            FilterForm::Tiles { result } => {
                let side = result + 2;
                compute([self.channels, self.depth, 3, 3], |[channel, depth, y, x]| {
                    let (block, lane) = (channel.expr().floor_div(width), channel.expr().floor_mod(width));
                    let place = |y: i64, x: i64| laid_out.at([&block, &Expr::int(y * side + x), &depth.expr(), &lane]);
                    of_points(side, &y.expr(), |y| of_points(side, &x.expr(), |x| place(y, x)))
                })
                .named("weights")
                .with_attr(TILES, result)
            }
        };
        move |at: &[Expr]| match form {
            FilterForm::Panels => {
                let (block, lane) = (at[0].floor_div(width), at[0].floor_mod(width));
                tensor.at([&block, &at[1], &at[2], &at[3], &lane])
            }
            FilterForm::Tiles { .. } => tensor.at(at),
        }
    }
}

/// One of three weights, from their values at this number of points.
fn of_points(count: i64, at: &Expr, value: impl Fn(i64) -> Expr) -> Expr {
    let [first, middle] =
        if count == 6 { [value(0) * 4.0, (value(2) - value(1)) * 3.0] } else { [value(0), value(1) - value(2)] };
    Expr::select(at.equals(0), first, Expr::select(at.equals(1), middle, value(count - 1)))
}

/// Transforms windows of 3 x 3 to tiles: `[channel / width][place][depth][channel % width]`. The
/// blocks of channels are distributed over threads, because build scripts are compiled without
/// optimization, and a model has millions of weights.
fn transformed<const SIDE: usize>(
    weights: &[f32],
    [channels, depth, width]: [usize; 3],
    points: Points<SIDE>,
) -> Vec<f32> {
    let mut to = vec![0.0; channels * depth * SIDE * SIDE];
    let (own, tiles) = (width * depth * 9, width * depth * SIDE * SIDE);
    if own == 0 {
        return to;
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(channels / width);
    let blocks = (channels / width).div_ceil(threads);
    std::thread::scope(|scope| {
        for (weights, to) in weights.chunks(own * blocks).zip(to.chunks_mut(tiles * blocks)) {
            scope.spawn(move || {
                for (weights, to) in weights.chunks_exact(own).zip(to.chunks_exact_mut(tiles)) {
                    transform_block(weights, to, [depth, width], points);
                }
            });
        }
    });
    to
}

/// Transforms a block of channels. Loops over few elements are written in the form that is fastest
/// without optimization.
fn transform_block<const SIDE: usize>(
    weights: &[f32],
    to: &mut [f32],
    [depth, width]: [usize; 2],
    points: Points<SIDE>,
) {
    for (number, own) in weights.chunks_exact(9).enumerate() {
        let (channel, c) = (number / depth, number % depth);
        let column = |x: usize| points([f64::from(own[x]), f64::from(own[3 + x]), f64::from(own[6 + x])]);
        let columns = [column(0), column(1), column(2)];
        let (mut place, mut y) = (c * width + channel, 0);
        while y < SIDE {
            let row = points([columns[0][y], columns[1][y], columns[2][y]]);
            let mut x = 0;
            while x < SIDE {
                #[expect(clippy::cast_possible_truncation, reason = "rounded once")]
                let rounded = row[x] as f32;
                to[place] = rounded;
                place += depth * width;
                x += 1;
            }
            y += 1;
        }
    }
}

/// The transformed weights that a tensor represents, with the number of pixels along one side of a
/// tile.
pub(super) fn tiles_of(weights: &Tensor) -> Option<(Tensor, i64)> {
    let OperationNode::Compute { attrs, .. } = &*weights.op else { return None };
    let result = attrs.get(TILES)?.to::<i64>().ok()?;
    let [laid_out] = &crate::te::operation::input_tensors(&weights.op)[..] else { return None };
    let shape: Option<Vec<i64>> = laid_out.shape.iter().map(|extent| extent.as_int()).collect();
    let is_known = matches!(shape?[..], [_, places, ..] if places == (result + 2) * (result + 2));
    is_known.then(|| (laid_out.clone(), result))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(channels: i64, depth: i64, side: i64, window: i64, stride: i64) -> Filters {
        Filters {
            channels,
            depth,
            pixels: [side, side],
            window: [window, window],
            strides: [stride, stride],
            dilations: [1, 1],
        }
    }

    #[test]
    fn forms_of_usual_networks() {
        for (filters, form) in [
            (of(64, 64, 56, 3, 1), Some(FilterForm::Tiles { result: 4 })),
            (of(256, 256, 14, 3, 1), Some(FilterForm::Tiles { result: 4 })),
            (of(512, 512, 7, 3, 1), Some(FilterForm::Tiles { result: 2 })),
            (of(512, 256, 7, 3, 2), Some(FilterForm::Panels)),
            (of(512, 256, 7, 1, 2), Some(FilterForm::Panels)),
            (of(64, 3, 112, 7, 2), None),
            (of(512, 256, 7, 1, 1), Some(FilterForm::Panels)),
            (of(512, 256, 14, 1, 1), None),
            (of(20, 64, 56, 3, 1), None),
            (of(64, 64, 0, 3, 1), None),
        ] {
            assert_eq!(filters.form(), form, "{filters:?}");
        }
        assert_eq!(of(256, 256, 14, 3, 1).form_of_same_size(), None);
        assert_eq!(of(512, 512, 7, 3, 1).form_of_same_size(), Some(FilterForm::Panels));
    }

    #[test]
    fn forms_for_any_extents() {
        for (filters, form) in [
            (of(64, 64, 56, 3, 1), Some(FilterForm::Tiles { result: 4 })),
            (of(512, 512, 1, 3, 1), Some(FilterForm::Tiles { result: 4 })),
            (of(64, 64, 56, 3, 2), None),
            (of(64, 64, 56, 1, 1), None),
            (of(64, 24, 56, 3, 1), None),
            (of(24, 64, 56, 3, 1), None),
        ] {
            assert_eq!(filters.form_of_any_extents(), form, "{filters:?}");
        }
    }

    #[test]
    fn weights_are_laid_out() {
        let filters = of(32, 2, 7, 3, 1);
        let weights: Vec<f32> = (0..32 * 2 * 9).map(|place| ((place * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let weight = |o: usize, c: usize, y: usize, x: usize| weights[((o * 2 + c) * 3 + y) * 3 + x];
        let panels = filters.laid_out(FilterForm::Panels, &weights).unwrap();
        assert_eq!((filters.shape(FilterForm::Panels), panels.len()), (vec![2, 2, 3, 3, 16], weights.len()));
        for (o, c, y, x) in [(0, 0, 0, 0), (5, 1, 2, 1), (31, 1, 0, 2)] {
            assert_eq!(panels[(((o / 16 * 2 + c) * 3 + y) * 3 + x) * 16 + o % 16], weight(o, c, y, x));
        }
        for (result, side) in [(2, 4), (4, 6)] {
            let form = FilterForm::Tiles { result };
            assert_eq!(filters.shape(form), [1, side as i64 * side as i64, 2, 32]);
            let tiles = filters.laid_out(form, &weights).unwrap();
            let value = |o: usize, c: usize, y: usize, x: usize| tiles[((y * side + x) * 2 + c) * 32 + o];
            for (o, c) in [(0, 0), (7, 1), (31, 0)] {
                // Corners are the corners of the window, except for the factor of the point 0.
                let factor = if result == 4 { 0.25 } else { 1.0 };
                assert_eq!(value(o, c, 0, 0), factor * factor * weight(o, c, 0, 0));
                assert_eq!(value(o, c, side - 1, side - 1), weight(o, c, 2, 2));
                // At the point 1 in both directions: the sum of all weights, with the factor of the
                // point.
                let sum: f32 = (0..9).map(|at| weight(o, c, at / 3, at % 3)).sum();
                let factor = if result == 4 { 1.0 / 36.0 } else { 0.25 };
                assert!((value(o, c, 1, 1) - sum * factor).abs() < 1e-6);
            }
        }
        assert!(filters.laid_out(FilterForm::Panels, &weights[1..]).is_none());
    }
}
