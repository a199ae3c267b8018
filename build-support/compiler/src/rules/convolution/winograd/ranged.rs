//! Winograd's algorithm for images whose extents are known only when the kernel runs, with weights
//! that were transformed at compile time.
//!
//! A task computes a block of tiles of an image. The block has a fixed number of tiles at most, so
//! that the memory between the steps has known extents and stays in the L2 cache; its rows and
//! columns follow from the extents of the image.

use super::super::super::code::{Code, Vectors, for_each, memory, serial};
use super::super::super::row_tiles::Rows;
use super::super::super::tile::tile;
use super::super::super::{TargetDescription, shared_kind};
use super::super::{Convolution, Spatial};
use super::image::Image;
use super::laid_out::{LaidOut, width_of};
use super::transforms::Transforms;
use super::{GAP, RESULT};
use crate::ir::{Buffer, Expr, F32, Operation, Stmt, Tensor, Var, substitute};

/// The maximum number of tiles in a row of a block: with their borders, the source pixels of a row
/// are 62, which is whole vectors but for two pixels.
const ACROSS: i64 = 15;

/// The maximum number of tiles in a block.
const MOST: i64 = 4 * ACROSS;

/// The most rows of a register tile that are computed beyond the last tile of a block.
const BEHIND: i64 = 4;

/// The tiling of the work.
struct Plan<'a> {
    convolution: &'a Convolution,
    vectors: Vectors,
    transforms: Transforms,
    /// The number of output channels that are computed together.
    panel: i64,
    /// The rows of a register tile.
    height: i64,
    /// The maximum number of tiles of a block.
    most: i64,
}

/// A block of tiles.
struct Block<'a> {
    plan: &'a Plan<'a>,
    image: Image<'a>,
    /// The first row and column of the block, in tiles.
    first: [Expr; 2],
    /// The rows and columns of tiles.
    extents: [Expr; 2],
    /// The number of tiles.
    count: Expr,
}

/// Returns the operation, or the reason why the algorithm does not apply.
pub(in super::super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Result<Operation, String> {
    let Some((tensor, result)) = &convolution.tiles else {
        return Err("its weights were not transformed at compile time".into());
    };
    let dtype = convolution.out.output(0).dtype;
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let (depth, channels, lanes) = (convolution.depth, convolution.channels, vectors.lanes);
    if dtype != F32 || *result != RESULT || !convolution.spatial.iter().all(Spatial::is_for_winograd) {
        return Err("its window is not 3 x 3 with stride 1 in f32".into());
    }
    if depth % lanes != 0 || channels % lanes != 0 {
        return Err(format!("its channels are not multiples of {lanes}"));
    }
    let panel = if channels % (2 * lanes) == 0 { 2 * lanes } else { lanes };
    if width_of(tensor) % panel != 0 {
        return Err("its transformed weights are in blocks of fewer channels than a panel".into());
    }
    let transforms = Transforms { vectors, result: *result };
    let bytes = i64::from(dtype.bits()) / 8;
    let of_tile = transforms.places() * (depth + panel) * bytes;
    let most = (target.l2_bytes * 3 / 4 / of_tile).clamp(2 * ACROSS, MOST);
    let (height, _) = tile(target, None, Some(depth * bytes));
    let plan = Plan { convolution, vectors, transforms, panel, height, most };
    Ok(plan.operation(tensor, target))
}

impl Plan<'_> {
    fn operation(&self, tensor: &Tensor, target: &TargetDescription) -> Operation {
        let Self { convolution, vectors, transforms, panel, most, .. } = *self;
        let kind = shared_kind(target, None);
        // The tensor that represents transformed weights is not read.
        let weight = tensor.at([0, 0, 0, 0].map(Expr::int));
        convolution.operation_of(&weight, "winograd", |inputs, out| {
            let weights = LaidOut {
                buffer: inputs.buffer(tensor),
                width: width_of(tensor),
                panel,
                places: transforms.places(),
                depth: convolution.depth,
            };
            let mut code = Code::default();
            let [rows, columns] = convolution.image.each_ref().map(|extent| extent.ceil_div(transforms.result).max(1));
            let (rows, columns) = (code.bind("rows", rows), code.bind("columns", columns));
            // Blocks have about the same number of rows and columns of tiles.
            let evenly = |name: &str, extent: &Expr, most: &Expr, code: &mut Code| {
                let own = code.bind(name, extent.ceil_div(extent.ceil_div(most)));
                (code.bind("blocks", extent.ceil_div(&own)), own)
            };
            let (across, wide) = evenly("wide", &columns, &Expr::int(ACROSS), &mut code);
            let most_rows = code.bind("most", Expr::int(most).floor_div(&wide));
            let (down, high) = evenly("high", &rows, &most_rows, &mut code);
            let images = Rows(convolution.batch_vars.iter().cloned().zip(convolution.batch.iter().cloned()).collect());
            code.push(for_each("block", images.total() * &down * &across, kind, |number, code| {
                let rest = code.bind("rest", number.floor_div(&across));
                let values = images.at(&rest.floor_div(&down));
                let batch: Vec<Expr> = images.0.iter().map(|(var, _)| substitute(var.expr(), &values)).collect();
                let y = code.bind("first_y", rest.floor_mod(&down) * &high);
                let x = code.bind("first_x", number.floor_mod(&across) * &wide);
                let high = code.bind("own_rows", high.min(&rows - &y));
                let wide = code.bind("own_columns", wide.min(&columns - &x));
                let count = code.bind("count", &high * &wide);
                let image = Image { convolution, inputs, out, batch: &batch, vectors };
                let block = Block { plan: self, image, first: [y, x], extents: [high, wide], count };
                block.compute(&weights, code);
            }));
            code.finish()
        })
    }

    /// The number of pixels of a block's source for a vector of channels, at most.
    fn source_pixels(&self) -> i64 {
        let Transforms { result, .. } = self.transforms;
        let of_width = |wide: i64| (self.most / wide * result + 2) * self.whole(wide * result + 2);
        (1..=ACROSS).map(of_width).max().unwrap_or(0)
    }

    /// The number of elements of whole vectors.
    fn whole(&self, elements: i64) -> i64 {
        let lanes = self.vectors.lanes;
        (elements + lanes - 1) / lanes * lanes
    }
}

impl Block<'_> {
    /// Emits all steps.
    fn compute(&self, weights: &LaidOut, code: &mut Code) {
        let Plan { convolution, vectors, transforms, panel, most, .. } = *self.plan;
        let (dtype, places) = (vectors.dtype, transforms.places());
        let source = memory("source", dtype, &[self.plan.source_pixels(), vectors.lanes], "global");
        let tiles = memory("tiles", dtype, &[places, most * convolution.depth + GAP], "global");
        let products = memory("products", dtype, &[places, (most + BEHIND) * panel + GAP], "global");
        let pixels = [panel / vectors.lanes, transforms.result, self.plan.whole(ACROSS * transforms.result)];
        let pixels = memory("results", dtype, &[pixels[0], pixels[1], pixels[2], vectors.lanes], "global");
        for buffer in [&source, &tiles, &products, &pixels] {
            code.alloc(buffer);
        }
        code.push(serial("c", convolution.depth / vectors.lanes, |group, code| {
            self.source(&source, &tiles, group, code);
        }));
        code.push(serial("panel", convolution.channels / panel, |at, code| {
            code.push(serial("place", places, |place, code| {
                self.products(&tiles, weights, &products, (at, place), code);
            }));
            code.push(serial("ty", self.extents[0].clone(), |row, code| {
                self.pixels(&products, &pixels, (at, row), code);
            }));
        }));
    }

    /// Emits the transformed tiles of a vector of channels: `[place][tile][channel]`.
    fn source(&self, source: &Buffer, to: &Buffer, group: &Expr, code: &mut Code) {
        let Plan { convolution, vectors, transforms, most, .. } = *self.plan;
        let (lanes, result, depth) = (vectors.lanes, transforms.result, convolution.depth);
        let [first_y, first_x] = self.first.each_ref().map(|first| first * result);
        let [rows, columns] = &self.extents;
        let parts = code.bind("parts", (columns * result + 2).ceil_div(lanes));
        let extents = convolution.image.each_ref().map(|extent| extent + 2);
        code.push(serial("y", rows * result + 2, |y, code| {
            code.push(serial("x", parts.clone(), |part, code| {
                let start = code.bind("start", (y * &parts + part) * (lanes * lanes));
                let write = |x: i64, channels: Expr| vectors.store(source, &start + x * lanes, channels);
                let place = (&(&first_y + y), &(&first_x + part * lanes));
                self.image.read(&(group * lanes), place, &extents, write, code);
            }));
        }));
        code.push(serial("ty", rows.clone(), |row, code| {
            code.push(serial("tx", columns.clone(), |column, code| {
                let corner = |y: i64| (row * result + y) * (&parts * lanes) + column * result;
                let tile = code.bind("tile", (row * columns + column) * depth + group * lanes);
                transforms.source_tile(
                    |y, x| vectors.load(source, (corner(y) + x) * lanes),
                    |place, value| vectors.store(to, &tile + place * (most * depth + GAP), value),
                    code,
                );
            }));
        }));
    }

    /// Emits the products of a panel of output channels for a place: `[place][tile][channel]`.
    fn products(
        &self,
        tiles: &Buffer,
        weights: &LaidOut,
        products: &Buffer,
        (at, place): (&Expr, &Expr),
        code: &mut Code,
    ) {
        let Plan { convolution, vectors, panel, height, most, .. } = *self.plan;
        let (lanes, depth) = (vectors.lanes, convolution.depth);
        let rows = Rows(vec![(Var::index("tile"), self.count.clone())]);
        code.push(serial("part", rows.tiles(height), |part, code| {
            let first = code.bind("first", part * height);
            code.push(rows.tile(&first, height, |own| {
                let mut code = Code::default();
                let c = Var::index("c");
                let written = |row: i64| place * ((most + BEHIND) * panel + GAP) + (&own.first + row) * panel;
                vectors.tile(
                    (own.height, panel / lanes),
                    (&[(c.clone(), Expr::int(depth))], None),
                    |row| Expr::load(tiles, place * (most * depth + GAP) + own.number(row) * depth + &c),
                    |vector| vectors.load(&weights.buffer, weights.position(at, place, c.expr()) + vector * lanes),
                    |row, vector, (sums, at)| {
                        vectors.store(products, written(row) + vector * lanes, vectors.load(sums, at))
                    },
                    &mut code,
                );
                code.finish()
            }));
        }));
    }

    /// Emits the pixels of a row of tiles for a panel of output channels.
    fn pixels(&self, products: &Buffer, pixels: &Buffer, (at, row): (&Expr, &Expr), code: &mut Code) {
        let Plan { convolution, vectors, transforms, panel, most, .. } = *self.plan;
        let (lanes, result) = (vectors.lanes, transforms.result);
        let whole = self.plan.whole(ACROSS * result);
        let (columns, [height, width]) = (&self.extents[1], &convolution.image);
        let tile = code.bind("tile", row * columns);
        code.push(serial("tx", columns.clone(), |column, code| {
            code.push(serial("part", panel / lanes, |part, code| {
                let tile = (&tile + column) * panel + part * lanes;
                transforms.result_tile(
                    |place| vectors.load(products, &tile + place * ((most + BEHIND) * panel + GAP)),
                    |y, x, value| {
                        let index = ((part * result + y) * whole + column * result + x) * lanes;
                        vectors.store(pixels, index, value)
                    },
                    code,
                );
            }));
        }));
        // Vectors after the last tile are also transposed, but not written.
        let parts = code.bind("parts", (columns * result).ceil_div(lanes));
        code.push(serial("part", panel / lanes * result, |part, code| {
            code.push(serial("x", &parts * lanes - columns * result, |x, code| {
                let index = (part * whole + columns * result + x) * lanes;
                code.push(vectors.store(pixels, index, vectors.splat(0.0)));
            }));
        }));
        let [first_y, first_x] = self.first.each_ref().map(|first| first * result);
        let limit = code.bind("limit", width.min(&first_x + columns * result));
        code.push(serial("part", panel / lanes, |part, code| {
            code.push(serial("y", result, |y, code| {
                let at_y = code.bind("y", &first_y + row * result + y);
                let written = serial("x", parts.clone(), |group, code| {
                    let start = ((part * result + y) * whole + group * lanes) * lanes;
                    let place = (&at_y, &(&first_x + group * lanes));
                    self.image.write((pixels, &start), &(at * panel + part * lanes), place, Some(&limit), code);
                });
                code.push(Stmt::if_then(at_y.less(height), written, None));
            }));
        }));
    }
}
