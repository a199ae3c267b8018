//! Convolutions by Winograd's algorithm in two operators, so that the weight is transformed once.
//!
//! A tile of m x m results is computed from n = m + k - 1 rows and columns of the data. The
//! transforms are those of Toom and Cook for n - 1 points and infinity.

use kernpack_compiler::ir::{Expr, ForKind, Stmt, Tensor, Var};
use kernpack_compiler::te::{self, extern_op, reduce_axis};
use kernpack_graph::op::statements::{element, put, when};
use kernpack_graph::op::{element_tensor, flatten};
use kernpack_graph::{Result, require};
use linkme::distributed_slice;

use super::call::operand;
use super::conv::{Window, infer_with, layout, params};
use super::infer::{is_known, set};
use super::nn::{count_with_bias, with_bias};
use super::pattern;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Arity, Compute, Kind, Native, Param, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static WINOGRAD: fn(&mut Registrar) = register;

/// The points at which polynomials are evaluated, in addition to infinity: small numbers, since
/// errors grow with them.
const POINTS: [f64; 7] = [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5];

/// The transforms for one axis.
struct Transforms {
    /// The number of data elements of a tile along the axis.
    places: usize,
    /// From a window to places: `places` rows.
    weight: Vec<Vec<f64>>,
    /// From data to places: `places` rows.
    data: Vec<Vec<f64>>,
    /// From places to results: `results` rows.
    result: Vec<Vec<f64>>,
}

impl Transforms {
    fn new(tile: i64, kernel: i64) -> Result<Self> {
        let most = POINTS.len() + 1;
        let places = usize::try_from(tile + kernel - 1).unwrap_or(0);
        require!(
            tile >= 1 && kernel >= 1 && (2..=most).contains(&places),
            "tiles of {tile} results and windows of {kernel}: together 3 to {} are possible",
            most + 1
        );
        let (results, window) =
            (places + 1 - usize::try_from(kernel).unwrap_or(1), usize::try_from(kernel).unwrap_or(1));
        let points = &POINTS[..places - 1];
        let power = |point: f64, exponent: usize| point.powi(i32::try_from(exponent).unwrap_or(0));
        // The product of (x - point) over some points, by powers of x.
        let product = |without: Option<usize>| {
            let mut factors = vec![0.0; places];
            factors[0] = 1.0;
            for (_, point) in points.iter().enumerate().filter(|(index, _)| Some(*index) != without) {
                for exponent in (0..places).rev() {
                    let below = if exponent > 0 { factors[exponent - 1] } else { 0.0 };
                    factors[exponent] = below - point * factors[exponent];
                }
            }
            factors
        };
        let (mut weight, mut data) = (Vec::new(), Vec::new());
        for (index, point) in points.iter().enumerate() {
            let others = points.iter().enumerate().filter(|(other, _)| *other != index);
            let scale: f64 = others.map(|(_, other)| point - other).product();
            weight.push((0..window).map(|exponent| power(*point, exponent) / scale).collect());
            data.push(product(Some(index)));
        }
        weight.push((0..window).map(|exponent| f64::from(u8::from(exponent + 1 == window))).collect());
        data.push(product(None));
        let result = (0..results)
            .map(|row| {
                let last = f64::from(u8::from(row + 1 == results));
                points.iter().map(|point| power(*point, row)).chain([last]).collect()
            })
            .collect();
        Ok(Self { places, weight, data, result })
    }
}

/// Returns an unrolled product of a transform's row with elements.
fn weighted(row: &[f64], elements: impl Fn(usize) -> Expr) -> Expr {
    let parts = row.iter().enumerate().filter(|(_, factor)| **factor != 0.0);
    let terms = parts.map(|(index, factor)| {
        let element = elements(index);
        if *factor == 1.0 { element } else { &element * te::constant(*factor, element.dtype()) }
    });
    terms.reduce(|sum, term| sum + term).unwrap_or_else(|| te::constant(0.0, elements(0).dtype()))
}

/// Applies both transforms of a square tile: each step is bound to names, which the next one reads.
fn both(
    rows: &[Vec<f64>],
    columns: &[Vec<f64>],
    extent: usize,
    tile: impl Fn(usize, usize) -> Expr,
    stmts: &mut Vec<Stmt>,
) -> Vec<Vec<Expr>> {
    let mut bound = |name: String, value: Expr| {
        let var = Var::new(name, value.dtype());
        stmts.push(Stmt::bind(var.clone(), value));
        var.expr().clone()
    };
    let half: Vec<Vec<Expr>> = rows
        .iter()
        .enumerate()
        .map(|(i, row)| (0..extent).map(|j| bound(format!("t{i}_{j}"), weighted(row, |k| tile(k, j)))).collect())
        .collect();
    half.iter()
        .enumerate()
        .map(|(i, half)| {
            columns
                .iter()
                .enumerate()
                .map(|(j, row)| bound(format!("w{i}_{j}"), weighted(row, |k| half[k].clone())))
                .collect()
        })
        .collect()
}

fn infer_weight(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    if !is_known(&ins[0]) {
        return Ok(());
    }
    let &[outputs, depth, rows, columns] = &ins[0][..] else {
        kernpack_graph::fail!("expected a weight as (channels, channels of the data, rows, columns), got {:?}", ins[0])
    };
    let tile = used.int("tile_size")?;
    require!((1..=8).contains(&tile), "attribute `tile_size` is {tile}");
    set(&mut outs[0], &[tile + rows - 1, tile + columns - 1, outputs, depth])
}

fn weight(call: &Compute) -> Result<Vec<Tensor>> {
    let (x, tile) = (call.input(0)?, call.used.int("tile_size")?);
    let (rows, columns) = (Transforms::new(tile, x.shape[2])?, Transforms::new(tile, x.shape[3])?);
    let factor = |table: &[Vec<f64>], place: &Expr, exponent: usize| {
        let first = te::constant(table[0][exponent], x.dtype);
        table.iter().zip(0_i64..).skip(1).fold(first, |other, (row, number)| {
            Expr::select(place.equals(number), te::constant(row[exponent], x.dtype), other)
        })
    };
    let shape = [rows.weight.len() as i64, columns.weight.len() as i64, x.shape[0], x.shape[1]];
    Ok(vec![element_tensor(&shape, |p| {
        let mut sum = te::constant(0.0, x.dtype);
        for (i, y) in (0..rows.weight[0].len()).zip(0_i64..) {
            for (j, z) in (0..columns.weight[0].len()).zip(0_i64..) {
                let element = x.at(&[p[2].clone(), p[3].clone(), Expr::int(y), Expr::int(z)]);
                sum = sum + element * factor(&rows.weight, &p[0], i) * factor(&columns.weight, &p[1], j);
            }
        }
        sum
    })])
}

fn infer(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let ins_depth = ins[1].get(3).copied().filter(|depth| *depth > 0);
    infer_with(used, ins, outs, ins_depth, |window, [channels, depth]| {
        let tile = used.int("tile_size")?;
        require!((1..=8).contains(&tile), "attribute `tile_size` is {tile}");
        Ok(vec![tile + window.kernel[0] - 1, tile + window.kernel[1] - 1, channels, depth])
    })
}

fn convolution(call: &Compute) -> Result<Vec<Tensor>> {
    let window = Window::new(&call.used)?;
    for (name, wanted) in [("layout", "NCHW"), ("out_layout", "NCHW")] {
        let own = layout(&call.used, name)?.to_string();
        require!(own == wanted, "{name} {own} is not supported here: {wanted} is");
    }
    require!(
        window.strides == [1, 1] && window.dilation == [1, 1] && window.groups == 1,
        "Winograd's algorithm is for strides and dilation of 1 and one group: use conv2d"
    );
    let tile = call.used.int("tile_size")?;
    let transforms = [Transforms::new(tile, window.kernel[0])?, Transforms::new(tile, window.kernel[1])?];
    let (x, weight) = (call.input(0)?, call.input(1)?);
    let (batch, depth, channels) = (x.shape[0], x.shape[1], window.channels);
    let [rows, columns] = window.results([x.shape[2], x.shape[3]])?;
    let (down, along) = ((rows + tile - 1) / tile, (columns + tile - 1) / tile);
    let (tiles, places) = (batch * down * along, (transforms[0].places * transforms[1].places) as i64);
    let dtype = x.dtype;
    // Data by place, tile and channel.
    let op = extern_op("places", core::slice::from_ref(&x.tensor)).output([places, tiles, depth], dtype);
    let made = op.body(|inputs, outputs| {
        let extents = [batch, down, along, depth];
        loops("t", &extents, |p| {
            let mut stmts = Vec::new();
            let corner = |axis: usize| &p[1 + axis] * tile - window.padding[axis];
            let mut read = Vec::new();
            for i in 0..transforms[0].places {
                let mut line = Vec::new();
                for j in 0..transforms[1].places {
                    let (y, z) = (corner(0) + i as i64, corner(1) + j as i64);
                    let inside = |index: &Expr, extent: i64| index.greater_equal(0).and(index.less(extent));
                    let is_inside = inside(&y, x.shape[2]).and(inside(&z, x.shape[3]));
                    let at = flatten(&[p[0].clone(), p[3].clone(), y, z], &x.shape);
                    let var = Var::new(format!("d{i}_{j}"), dtype);
                    let value = te::if_then_else(is_inside, element(&inputs[0], at), te::constant(0.0, dtype));
                    stmts.push(Stmt::bind(var.clone(), value));
                    line.push(var.expr().clone());
                }
                read.push(line);
            }
            let made = both(
                &transforms[0].data,
                &transforms[1].data,
                transforms[1].places,
                |i, j| read[i][j].clone(),
                &mut stmts,
            );
            let number = flatten(&p[..3], &extents[..3]);
            for (place, value) in made.into_iter().flatten().zip(0_i64..).map(|(value, place)| (place, value)) {
                stmts.push(put(
                    &outputs[0],
                    flatten(&[Expr::int(place), number.clone(), p[3].clone()], &[places, tiles, depth]),
                    value,
                ));
            }
            Stmt::seq(stmts)
        })
    });
    let data = operand(&made[0]);
    // A matrix product for each place.
    let k = reduce_axis(0, depth, "k");
    let across = transforms[1].places as i64;
    let products = element_tensor(&[places, tiles, channels], |p| {
        let at_weight = [p[0].floor_div(across), p[0].floor_mod(across), p[2].clone(), k.expr()];
        te::sum(data.at(&[p[0].clone(), p[1].clone(), k.expr()]) * weight.at(&at_weight), &k)
    });
    let mut tensors = vec![products];
    tensors.extend(call.inputs.get(2).map(|bias| bias.tensor.clone()));
    let op = extern_op("winograd", &tensors).output([batch, channels, rows, columns], dtype);
    Ok(op.body(|inputs, outputs| {
        let extents = [batch, channels, down, along];
        loops("t", &extents, |p| {
            let mut stmts = Vec::new();
            let number = flatten(&[p[0].clone(), p[2].clone(), p[3].clone()], &[batch, down, along]);
            let read = |i: usize, j: usize| {
                let place = (i * transforms[1].places + j) as i64;
                element(
                    &inputs[0],
                    flatten(&[Expr::int(place), number.clone(), p[1].clone()], &[places, tiles, channels]),
                )
            };
            let made = both(&transforms[0].result, &transforms[1].result, transforms[1].places, read, &mut stmts);
            for (i, line) in made.into_iter().enumerate() {
                for (j, mut value) in line.into_iter().enumerate() {
                    let (y, z) = (&p[2] * tile + i as i64, &p[3] * tile + j as i64);
                    if let Some(bias) = inputs.get(1) {
                        value = value + element(bias, p[1].clone());
                    }
                    let is_inside = y.less(rows).and(z.less(columns));
                    let at = flatten(&[p[0].clone(), p[1].clone(), y, z], &[batch, channels, rows, columns]);
                    stmts.push(when(is_inside, put(&outputs[0], at, value)));
                }
            }
            Stmt::seq(stmts)
        })
    }))
}

/// Loops over all positions. The first two are parallel.
fn loops(name: &str, extents: &[i64; 4], body: impl FnOnce(&[Expr]) -> Stmt) -> Stmt {
    let both = Var::index(format!("{name}_outer"));
    let (c, d) = (Var::index(format!("{name}2")), Var::index(format!("{name}3")));
    let position =
        [both.expr().floor_div(extents[1]), both.expr().floor_mod(extents[1]), c.expr().clone(), d.expr().clone()];
    let inner = Stmt::for_loop(d, 0, extents[3], ForKind::Serial, body(&position));
    let middle = Stmt::for_loop(c, 0, extents[2], ForKind::Serial, inner);
    Stmt::for_loop(both, 0, extents[0] * extents[1], ForKind::Parallel, middle)
}

fn register(operators: &mut Registrar) {
    let tile = Param::required("tile_size", Kind::Int);
    let _ = operators
        .add("_contrib_conv2d_winograd_weight_transform")
        .describe("a weight (channels, channels of the data, rows, columns) as (places, places, channels, channels of the data)")
        .arguments(&["weight"])
        .params(&[tile])
        .level(5)
        .set("FInferShape", Native::InferShape(infer_weight))
        .set("FTVMCompute", Native::Compute(weight))
        .value("TOpPattern", pattern::OUT_FUSABLE);
    let all: Vec<Param> = params().into_iter().chain([tile]).collect();
    let _ = operators
        .add("_contrib_conv2d_winograd_without_weight_transform")
        .describe("a conv2d whose weight is transformed: _contrib_conv2d_winograd_weight_transform does it")
        .arguments(&["data", "weight", "bias"])
        .params(&all)
        .inputs(Arity::Native(count_with_bias))
        .level(5)
        .set("FListInputNames", Native::Names(with_bias))
        .set("FInferShape", Native::InferShape(infer))
        .set("FTVMCompute", Native::Compute(convolution))
        .value("TOpPattern", pattern::OPAQUE);
}
