//! Winograd's algorithm F(4 x 4, 3 x 3): computes 16 pixels of the result from 36 of the source
//! with 36 multiplications instead of 144.
//!
//! For images of 7 to 12 pixels there is F(2 x 2, 3 x 3), with 16 instead of 36 multiplications; a
//! transform of its weights in each call would cost as much as it saves, so this requires weights
//! that are already [transformed](super::FilterForm::Tiles).
//!
//! Weights and source are transformed to tiles; for each of their places there is a matrix product
//! over the channels, and the products are transformed back. Transforms work on vectors of
//! channels, so the source is copied with the channels innermost, and results are transposed when
//! they are written. A few rows of tiles go through all steps while they are in the L2 cache.

mod image;
mod laid_out;
pub(super) mod ranged;
mod transforms;

use super::super::TargetDescription;
use super::super::code::{Code, Inputs, Vectors, for_each, in_vectors, memory, serial};
use super::super::tile::tile;
use super::direct::over_batch;
use super::{Convolution, Spatial};
use crate::ir::{Buffer, Expr, F32, ForKind, Operation, Stmt, Var};
use image::Image;
use laid_out::{LaidOut, width_of};
use transforms::Transforms;

/// The number of result pixels along one side of a tile, if the weights are transformed in each
/// call.
pub(super) const RESULT: i64 = 4;

/// The number of padding elements between the memory of two places: otherwise their addresses would
/// often differ by a multiple of 4 KiB, and conflict in the L1 cache.
const GAP: i64 = 16;

/// The tiling of the work.
struct Plan {
    vectors: Vectors,
    transforms: Transforms,
    /// The number of input channels.
    depth: i64,
    /// The rows of tiles, and the tiles in a row.
    rows: i64,
    columns: i64,
    /// The kind of loops that can be distributed over threads.
    shared: ForKind,
    /// The number of rows of tiles that go through all steps together.
    block: i64,
    /// The number of output channels that are computed together.
    panel: i64,
    /// The number of pixels in a row of the source's copy.
    pitch: i64,
    /// The rows of a register tile.
    height: i64,
}

/// Transformed weights.
enum Weights<'a> {
    /// In temporary memory of the kernel, `[place][input channel][output channel]` of one panel,
    /// starting at an element.
    Own(&'a Buffer, Expr),
    /// Packed at compile time.
    LaidOut(&'a LaidOut),
}

/// Checks that tiles of `result` x `result` pixels are profitable for a convolution; otherwise
/// returns the reason.
pub(super) fn pays([rows, columns]: &[Spatial; 2], channels: i64, depth: i64, result: i64) -> Result<(), String> {
    if ![rows, columns].into_iter().all(Spatial::is_for_winograd) {
        return Err("its window is not 3 x 3 with stride 1".into());
    }
    let tiles = tiles_of([rows, columns], result);
    let count = tiles[0] * tiles[1];
    // The multiplications per pixel with and without the algorithm; the transforms and the cost of
    // the weights have to be profitable as well.
    let (before, after) = (rows.extent * columns.extent * 9, count * (result + 2) * (result + 2));
    let (least, saves) = if result == RESULT { (16, after * 2 <= before) } else { (128, after * 3 <= before * 2) };
    if !saves || channels < least || depth < least {
        return Err("the transforms cost more than they save".into());
    }
    // Transformed weights are up to four times larger: they must be used often.
    if count < 16 {
        return Err("there are too few pixels for the transformed weights".into());
    }
    Ok(())
}

/// The rows and columns of tiles.
fn tiles_of(spatial: [&Spatial; 2], result: i64) -> [i64; 2] {
    spatial.map(|spatial| (spatial.extent + result - 1) / result)
}

pub(super) fn operation(convolution: &Convolution, target: &TargetDescription) -> Result<Operation, String> {
    let [rows, columns] = &convolution.spatial;
    let shared = convolution.shared_kind(target);
    let dtype = convolution.out.output(0).dtype;
    if dtype != F32 {
        return Err("its elements are not f32".into());
    }
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let (depth, channels) = (convolution.depth, convolution.channels);
    if depth % vectors.lanes != 0 || channels % vectors.lanes != 0 {
        return Err(format!("its channels are not multiples of {}", vectors.lanes));
    }
    let result = convolution.tiles.as_ref().map_or(RESULT, |(_, result)| *result);
    pays(&convolution.spatial, channels, depth, result)?;
    let transforms = Transforms { vectors, result };
    let places = transforms.places();
    let tiles = tiles_of([rows, columns], result);
    let bytes = |elements: i64| elements * i64::from(dtype.bits()) / 8;
    let panel = if channels % (2 * vectors.lanes) == 0 { 2 * vectors.lanes } else { vectors.lanes };
    let laid_out = convolution.tiles.as_ref().map(|(tensor, _)| (tensor, width_of(tensor)));
    if laid_out.is_some_and(|(_, width)| width < panel || width % panel != 0) {
        return Err("its transformed weights are in blocks of fewer channels than a panel".into());
    }
    let memory_for = |block: i64| {
        let tiles = block * tiles[1];
        (bytes(places * tiles * depth), bytes(places * tiles * panel))
    };
    let traffic = |block: i64| {
        let blocks = tiles[0] / block;
        let (source, result) = memory_for(block);
        let spilled = if (source + result) * 4 > target.l2_bytes * 3 { source * (channels / panel) } else { 0 };
        blocks * (bytes(places * depth * channels) + spilled)
    };
    let block = (1..=tiles[0]).filter(|block| tiles[0] % block == 0).min_by_key(|block| traffic(*block)).unwrap_or(1);
    let in_block = block * tiles[1];
    let (height, _) = tile(target, Some(in_block), Some(bytes(depth)));
    let pitch = (tiles[1] * result + 2 + vectors.lanes - 1) / vectors.lanes * vectors.lanes;
    let (rows, columns) = (tiles[0], tiles[1]);
    let plan = Plan { vectors, transforms, depth, rows, columns, shared, block, panel, pitch, height };
    let is_single = convolution.batch.iter().all(|extent| extent.is_int(1));
    let blocks = plan.rows / plan.block;
    let is_fused = blocks == 1 && is_single;
    // The tensor that represents already transformed weights is not read.
    let weight = laid_out.map_or(convolution.weight.clone(), |(tensor, _)| tensor.at([0, 0, 0, 0].map(Expr::int)));
    Ok(convolution.operation_of(&weight, "winograd", |inputs, out| {
        let mut whole = Code::default();
        let weights = memory("weights", dtype, &[channels / panel, places, depth * panel + GAP], "global");
        let known =
            laid_out.map(|(tensor, width)| LaidOut { buffer: inputs.buffer(tensor), width, panel, places, depth });
        if !is_fused && known.is_none() {
            whole.alloc(&weights);
            whole.push(for_each("panel", channels / panel, shared, |at, code| {
                plan.weights(
                    convolution,
                    inputs,
                    &weights,
                    &(at * (places * (depth * panel + GAP))),
                    &(at * panel),
                    code,
                );
            }));
        }
        let image = |batch: &[Expr], code: &mut Code| {
            let own = Image { convolution, inputs, out, batch, vectors };
            let source = plan.copy(&own, code);
            let products = |at: &Expr, first: &Expr, tiles: &Buffer, code: &mut Code| {
                if let Some(laid_out) = &known {
                    plan.products(&own, (tiles, &Weights::LaidOut(laid_out)), (at, first), code);
                } else if is_fused {
                    let transformed = memory("weights", dtype, &[places, depth * panel + GAP], "global");
                    code.alloc(&transformed);
                    plan.weights(convolution, inputs, &transformed, &Expr::int(0), &(at * panel), code);
                    let weights = Weights::Own(&transformed, Expr::int(0));
                    plan.products(&own, (tiles, &weights), (at, first), code);
                } else {
                    let weights = Weights::Own(&weights, at * (places * (depth * panel + GAP)));
                    plan.products(&own, (tiles, &weights), (at, first), code);
                }
            };
            let transformed = memory("tiles", dtype, &[places, in_block * depth + GAP], "global");
            if blocks >= 4 {
                code.push(for_each("block", blocks, shared, |block, code| {
                    let first = block * plan.block;
                    code.alloc(&transformed);
                    code.push(serial("ty", plan.block, |row, code| {
                        plan.tiles(&source, &transformed, &first, row, code)
                    }));
                    code.push(serial("panel", channels / panel, |at, code| products(at, &first, &transformed, code)));
                }));
            } else {
                code.push(serial("block", blocks, |block, code| {
                    let first = block * plan.block;
                    code.alloc(&transformed);
                    code.push(for_each("ty", plan.block, shared, |row, code| {
                        plan.tiles(&source, &transformed, &first, row, code)
                    }));
                    code.push(for_each("panel", channels / panel, shared, |at, code| {
                        products(at, &first, &transformed, code)
                    }));
                }));
            }
        };
        whole.push(over_batch(&convolution.batch, &mut Vec::new(), &image));
        whole.finish()
    }))
}

impl Plan {
    /// Copies the source with its channels innermost, and zeros where tiles extend beyond its end:
    /// `[y][x][channel]`.
    fn copy(&self, image: &Image<'_>, code: &mut Code) -> Buffer {
        let Self { vectors, depth, pitch, shared, .. } = self;
        let lanes = vectors.lanes;
        let height = self.rows * self.transforms.result + 2;
        let extents = image.convolution.spatial.each_ref().map(|spatial| Expr::int(spatial.source()));
        let copied = memory("source", vectors.dtype, &[height, *pitch, *depth], "global");
        code.alloc(&copied);
        code.push(for_each("y", height, *shared, |y, code| {
            code.push(serial("c", depth / lanes, |group, code| {
                code.push(serial("x", pitch / lanes, |part, code| {
                    let write = |x: i64, channels: Expr| {
                        let index = (y * *pitch + part * lanes + x) * *depth + group * lanes;
                        vectors.store(&copied, index, channels)
                    };
                    image.read(&(group * lanes), (y, &(part * lanes)), &extents, write, code);
                }));
            }));
        }));
        copied
    }

    /// Emits the transformed weights of a panel of output channels:
    /// `[place][input channel][output channel]`.
    fn weights(
        &self,
        convolution: &Convolution,
        inputs: &Inputs,
        to: &Buffer,
        base: &Expr,
        first: &Expr,
        code: &mut Code,
    ) {
        let Self { vectors, transforms, depth, panel, .. } = self;
        let (lanes, side) = (vectors.lanes, transforms.side());
        let is_in_rows = convolution.weight_strides().is_some_and(|[_, c, y, x]| (c, y, x) == (9, 3, 1));
        code.push(serial("c", depth / lanes, |group, code| {
            code.push(serial("part", panel / lanes, |part, code| {
                let channel = first + part * lanes;
                // `[input channel, place of the window][output channel]`.
                let block = memory("block", vectors.dtype, &[lanes * 9, lanes], "global");
                code.alloc(&block);
                if is_in_rows {
                    code.push(serial("k", 9, |k, code| {
                        let place = k * lanes;
                        let at = |row: i64| {
                            // The nine weights of each input channel are consecutive.
                            let index = group * (lanes * 9) + &place;
                            let start = inputs.loads(&convolution.weight(
                                &(&channel + row),
                                &Expr::int(0),
                                &Expr::int(0),
                                &Expr::int(0),
                            ));
                            let crate::ir::ExprNode::Load { buffer, index: start, .. } = &*start else {
                                unreachable!("weights are read as they are")
                            };
                            vectors.load(buffer, start + index)
                        };
                        let rows = (0..lanes).map(|row| code.bind("row", at(row))).collect();
                        for (column, values) in vectors.transposed(rows, code).into_iter().enumerate() {
                            code.push(vectors.store(&block, (&place + column as i64) * lanes, values));
                        }
                    }));
                } else {
                    code.push(serial("channel", lanes, |own, code| {
                        code.push(serial("ky", 3, |ky, code| {
                            code.push(serial("kx", 3, |kx, code| {
                                let index = (own * 9 + ky * 3 + kx) * lanes;
                                code.push(in_vectors("o", lanes, lanes, |lane| {
                                    let weight = convolution.weight(&(&channel + lane), &(group * lanes + own), ky, kx);
                                    Stmt::store(block.clone(), &index + lane, inputs.loads(&weight))
                                }));
                            }));
                        }));
                    }));
                }
                code.push(serial("channel", lanes, |own, code| {
                    let weight = |y: i64, x: i64| vectors.load(&block, (own * 9 + (y * 3 + x)) * lanes);
                    let mut columns: Vec<Vec<Expr>> = Vec::new();
                    for x in 0..3 {
                        let values = [0, 1, 2].map(|y| code.bind("g", weight(y, x)));
                        columns.push(transforms.weight_places(values, code));
                    }
                    for y in 0..side {
                        let values = [0, 1, 2].map(|x: usize| columns[x][y as usize].clone());
                        for (x, value) in transforms.weight_places(values, code).into_iter().enumerate() {
                            let place = y * side + x as i64;
                            let index =
                                base + place * (depth * panel + GAP) + (group * lanes + own) * *panel + part * lanes;
                            code.push(vectors.store(to, index, value));
                        }
                    }
                }));
            }));
        }));
    }

    /// Emits the transformed tiles of one row of tiles: `[place][tile][channel]`.
    fn tiles(&self, source: &Buffer, to: &Buffer, first: &Expr, row: &Expr, code: &mut Code) {
        let Self { vectors, transforms, depth, pitch, columns, block, .. } = self;
        let (lanes, result) = (vectors.lanes, transforms.result);
        code.push(serial("tx", *columns, |tx, code| {
            code.push(serial("c", depth / lanes, |group, code| {
                let corner = (((first + row) * result) * *pitch + tx * result) * *depth + group * lanes;
                let tile = row * *columns + tx;
                transforms.source_tile(
                    |y, x| vectors.load(source, &corner + (y * pitch + x) * depth),
                    |place, value| {
                        let index = &tile * *depth + place * (block * columns * depth + GAP) + group * lanes;
                        vectors.store(to, index, value)
                    },
                    code,
                );
            }));
        }));
    }

    /// Emits the products of a panel of output channels, and its pixels.
    fn products(
        &self,
        image: &Image<'_>,
        (tiles, weights): (&Buffer, &Weights<'_>),
        (at, first): (&Expr, &Expr),
        code: &mut Code,
    ) {
        let Self { vectors, transforms, depth, panel, columns, block, height, .. } = self;
        let (lanes, places) = (vectors.lanes, transforms.places());
        let count = block * columns;
        let products = memory("products", vectors.dtype, &[places, count * panel + GAP], "global");
        code.alloc(&products);
        let parts = (count + height - 1) / height;
        let last = count - height * (parts - 1);
        code.push(serial("place", places, |place, code| {
            let rows = |part: &Expr, height: i64, code: &mut Code| {
                let c = Var::index("c");
                let start = part * self.height;
                let ahead = match weights {
                    Weights::Own(..) => None,
                    // Many tiles take long enough for the hardware prefetcher of the L1 cache.
                    Weights::LaidOut(..) if parts > 4 => None,
                    Weights::LaidOut(laid_out) => Some(laid_out.ahead((at, place), (part, parts), &c)),
                };
                vectors.tile(
                    (height, panel / lanes),
                    (&[(c.clone(), Expr::int(*depth))], ahead),
                    |row| Expr::load(tiles, place * (count * depth + GAP) + (&start + row) * *depth + &c),
                    |vector| match weights {
                        Weights::Own(buffer, base) => {
                            vectors.load(buffer, base + place * (depth * panel + GAP) + &c * *panel + vector * lanes)
                        }
                        Weights::LaidOut(laid_out) => {
                            vectors.load(&laid_out.buffer, laid_out.position(at, place, c.expr()) + vector * lanes)
                        }
                    },
                    |row, vector, (sums, at)| {
                        vectors.store(
                            &products,
                            place * (count * panel + GAP) + (&start + row) * *panel + vector * lanes,
                            vectors.load(sums, at),
                        )
                    },
                    code,
                );
            };
            let full = if last == *height { parts } else { parts - 1 };
            if full > 0 {
                code.push(serial("part", full, |part, code| rows(part, *height, code)));
            }
            if full < parts {
                code.push(serial("part", 1, |_, code| rows(&Expr::int(full), last, code)));
            }
        }));
        self.pixels(image, &products, (at, first), code);
    }

    /// Emits the pixels of a panel with the channels innermost, one row of tiles at a time, and
    /// writes them channel by channel.
    fn pixels(&self, image: &Image<'_>, products: &Buffer, (at, first): (&Expr, &Expr), code: &mut Code) {
        let Self { vectors, transforms, panel, columns, block, .. } = self;
        let (lanes, result) = (vectors.lanes, transforms.result);
        let count = block * columns;
        let width = (columns * result + lanes - 1) / lanes * lanes;
        let [rows_out, columns_out] = image.convolution.spatial.each_ref().map(|spatial| spatial.extent);
        code.push(serial("ty", *block, |row, code| {
            let pixels = memory("results", vectors.dtype, &[panel / lanes, result, width, lanes], "global");
            code.alloc(&pixels);
            code.push(serial("tx", *columns, |tx, code| {
                code.push(serial("part", panel / lanes, |part, code| {
                    let tile = (row * *columns + tx) * *panel + part * lanes;
                    transforms.result_tile(
                        |place| vectors.load(products, &tile + place * (count * panel + GAP)),
                        |y, x, value| {
                            let index = ((part * result + y) * width + tx * result + x) * lanes;
                            vectors.store(&pixels, index, value)
                        },
                        code,
                    );
                }));
            }));
            // Vectors after the last tile are also transposed, but not written.
            if width > columns * result {
                code.push(serial("part", panel / lanes * result, |part, code| {
                    for x in columns * result..width {
                        code.push(vectors.store(&pixels, (part * width + x) * lanes, vectors.splat(0.0)));
                    }
                }));
            }
            code.push(serial("part", panel / lanes, |part, code| {
                code.push(serial("y", result, |y, code| {
                    let at_y = (first + row) * result + y;
                    let mut inner = Code::default();
                    inner.push(serial("x", width / lanes, |group, code| {
                        let start = ((part * result + y) * width + group * lanes) * lanes;
                        let channel = at * *panel + part * lanes;
                        let limit = (columns_out < width).then(|| Expr::int(columns_out));
                        let place = (&at_y, &(group * lanes));
                        image.write((&pixels, &start), &channel, place, limit.as_ref(), code);
                    }));
                    let body = inner.finish();
                    let is_over = self.rows * result > rows_out;
                    code.push(if is_over { Stmt::if_then(at_y.less(rows_out), body, None) } else { body });
                }));
            }));
        }));
    }
}
