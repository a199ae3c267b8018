//! Detection by single-shot networks (SSD): initial boxes, boxes that a network has moved, and the
//! selected ones.
//!
//! A box is (left, top, right, bottom), relative to the image. A row of a detection is (class,
//! score, box), with class -1 for an invalid row.

use kernpack::DataType;
use kernpack_compiler::ir::{Buffer, Expr, F32, I32, I64, Stmt, Tensor, Var};
use kernpack_compiler::te::{self, extern_op};
use kernpack_graph::op::statements::{Variable, each, element, memory, put, sort, when};
use kernpack_graph::op::{Operand, element_tensor};
use kernpack_graph::{Result, require};
use linkme::distributed_slice;

use super::infer::{is_known, set};
use super::pattern;
use crate::symbol::registry::{OPERATORS, Registrar};
use crate::symbol::{Compute, Kind, Native, Param, PartialShape, Use};

#[distributed_slice(OPERATORS)]
static BOXES: fn(&mut Registrar) = register;

/// The number of elements in a row of a detection.
const ROW: i64 = 6;

/// The boxes around each place of an image, for sizes and for ratios of width to height.
struct Prior {
    /// Half of the width and of the height of each box, relative to the image's height.
    halves: Vec<[f64; 2]>,
    steps: [f64; 2],
    offsets: [f64; 2],
    is_clipped: bool,
}

fn two(used: &Use, name: &str) -> Result<[f64; 2]> {
    let values = used.floats(name)?;
    require!(values.len() == 2, "attribute `{name}` has {} numbers, not 2", values.len());
    Ok([values[0], values[1]])
}

impl Prior {
    fn new(used: &Use) -> Result<Self> {
        let (sizes, ratios) = (used.floats("sizes")?, used.floats("ratios")?);
        require!(!sizes.is_empty() && !ratios.is_empty(), "attributes `sizes` and `ratios` need a number each");
        require!(ratios.iter().all(|ratio| *ratio > 0.0), "attribute `ratios` is {ratios:?}: each has to be above 0");
        // Every size with the first ratio, which means 1, and the first size with every other
        // ratio.
        let squares = sizes.iter().map(|size| [size / 2.0, size / 2.0]);
        let others = ratios[1..].iter().map(|ratio| [sizes[0] * ratio.sqrt() / 2.0, sizes[0] / ratio.sqrt() / 2.0]);
        Ok(Self {
            halves: squares.chain(others).collect(),
            steps: two(used, "steps")?,
            offsets: two(used, "offsets")?,
            is_clipped: used.flag("clip")?,
        })
    }

    /// Returns the number of boxes at one place.
    fn count(&self) -> i64 {
        i64::try_from(self.halves.len()).unwrap_or(i64::MAX)
    }
}

fn infer_prior(used: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let prior = Prior::new(used)?;
    if !is_known(&ins[0]) {
        return Ok(());
    }
    require!(ins[0].len() == 4, "expected images, got {:?}", ins[0]);
    set(&mut outs[0], &[1, ins[0][2] * ins[0][3] * prior.count(), 4])
}

fn prior(call: &Compute) -> Result<Vec<Tensor>> {
    let prior = Prior::new(&call.used)?;
    let x = call.input(0)?;
    let (rows, columns, count) = (x.shape[2], x.shape[3], prior.count());
    let made = element_tensor(&[1, rows * columns * count, 4], |p| {
        let (place, kind, side) = (p[1].floor_div(count), p[1].floor_mod(count), &p[2]);
        let constant = |value: f64| te::constant(value, x.dtype);
        let center = |index: Expr, axis: usize, extent: i64| {
            let step = if prior.steps[axis] > 0.0 { prior.steps[axis] } else { 1.0 / extent as f64 };
            (index.cast(x.dtype) + constant(prior.offsets[axis])) * constant(step)
        };
        let (down, along) = (center(place.floor_div(columns), 0, rows), center(place.floor_mod(columns), 1, columns));
        // Squares on the screen: widths are relative to the image's width.
        let narrow = rows as f64 / columns as f64;
        let half = |axis: usize, scale: f64| {
            let first = constant(prior.halves[0][axis] * scale);
            prior.halves.iter().zip(0_i64..).skip(1).fold(first, |other, (half, number)| {
                Expr::select(kind.equals(number), constant(half[axis] * scale), other)
            })
        };
        let is_vertical = side.floor_mod(2).equals(1);
        let middle = Expr::select(is_vertical.clone(), down, along);
        let half = Expr::select(is_vertical, half(1, 1.0), half(0, narrow));
        let value = Expr::select(side.less(2), &middle - &half, middle + half);
        if prior.is_clipped { te::clamp(value, constant(0.0), constant(1.0)) } else { value }
    });
    Ok(vec![made])
}

/// Returns (batch, classes, anchors) of a network's predictions.
fn sizes(ins: &[PartialShape]) -> Result<Option<[i64; 3]>> {
    if !is_known(&ins[0]) {
        return Ok(None);
    }
    let &[batch, classes, anchors] = &ins[0][..] else {
        kernpack_graph::fail!("expected scores as (batch, class, box), got {:?}", ins[0])
    };
    require!(classes >= 1, "there is no class");
    Ok(Some([batch, classes, anchors]))
}

fn infer_located(_: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    let Some([batch, _, anchors]) = sizes(ins)? else { return Ok(()) };
    set(&mut ins[1], &[batch, anchors * 4])?;
    set(&mut ins[2], &[1, anchors, 4])?;
    set(&mut outs[0], &[batch, anchors, ROW])?;
    match outs.get_mut(1) {
        Some(counts) => set(counts, &[batch]),
        None => Ok(()),
    }
}

/// All have the type of the first input, except the number of rows.
fn infer_types(count: Option<usize>) -> impl Fn(&mut [Option<DataType>], &mut [Option<DataType>]) -> Result<()> {
    move |ins, outs| {
        let known = ins[0].or(outs[0]);
        for (number, dtype) in ins.iter_mut().enumerate() {
            *dtype = dtype.or(if count == Some(number) { Some(I32) } else { known });
        }
        outs[0] = outs[0].or(known);
        if let Some(counts) = outs.get_mut(1) {
            *counts = counts.or(Some(I32));
        }
        Ok(())
    }
}

/// The box that a network has moved and scaled, from offsets and the anchor.
struct Located {
    variances: [f64; 4],
    threshold: f64,
    is_clipped: bool,
}

impl Located {
    fn new(used: &Use) -> Result<Self> {
        let values = used.floats("variances")?;
        require!(values.len() == 4, "attribute `variances` has {} numbers, not 4", values.len());
        Ok(Self {
            variances: [values[0], values[1], values[2], values[3]],
            threshold: used.float("threshold")?,
            is_clipped: used.flag("clip")?,
        })
    }

    fn corners(&self, dtype: DataType, moved: [Expr; 4], anchor: [Expr; 4]) -> [Expr; 4] {
        let constant = |value: f64| te::constant(value, dtype);
        let [dx, dy, dw, dh] = moved;
        let [left, top, right, bottom] = anchor;
        let middle = |low: &Expr, high: &Expr| (low + high) * constant(0.5);
        let x = dx * constant(self.variances[0]) * (&right - &left) + middle(&left, &right);
        let y = dy * constant(self.variances[1]) * (&bottom - &top) + middle(&top, &bottom);
        let half =
            |moved: Expr, variance: f64, extent: Expr| te::exp(moved * constant(variance)) * extent * constant(0.5);
        let wide = half(dw, self.variances[2], right - left);
        let high = half(dh, self.variances[3], bottom - top);
        let corners = [&x - &wide, &y - &high, x + wide, y + high];
        corners.map(|value| if self.is_clipped { te::clamp(value, constant(0.0), constant(1.0)) } else { value })
    }

    /// Writes rows above the threshold, followed by -1. `counts` gets their number.
    fn body(&self, inputs: &[Buffer], rows: &Buffer, counts: &Buffer, [batch, classes, anchors]: [i64; 3]) -> Stmt {
        let dtype = rows.dtype;
        let constant = |value: f64| te::constant(value, dtype);
        let (best, class, count) = (Variable::new("best", dtype), Variable::index("class"), Variable::index("count"));
        let of_batch = each("batch", batch, |batch| {
            let of_anchor = each("anchor", anchors, |anchor| {
                // Class 0 is the background.
                let search = each("other", classes - 1, |other| {
                    let score = element(&inputs[0], (batch * classes + other + 1) * anchors + anchor);
                    let found = Stmt::seq([best.set(score.clone()), class.set(other + 1)]);
                    when(score.greater(best.get()), found)
                });
                let moved = |side: i64| element(&inputs[1], (batch * anchors + anchor) * 4 + side);
                let fixed = |side: i64| element(&inputs[2], anchor * 4 + side);
                let corners = self.corners(
                    dtype,
                    core::array::from_fn(|side| moved(side as i64)),
                    core::array::from_fn(|side| fixed(side as i64)),
                );
                let row = (batch * anchors + count.get()) * ROW;
                let mut take =
                    vec![put(rows, row.clone(), (class.get() - 1).cast(dtype)), put(rows, &row + 1, best.get())];
                take.extend(corners.into_iter().zip(2_i64..).map(|(corner, side)| put(rows, &row + side, corner)));
                take.push(count.add(1));
                let is_wanted = class.get().greater(0).and(best.get().greater_equal(constant(self.threshold)));
                Stmt::seq([best.set(constant(-1.0)), class.set(0), search, when(is_wanted, Stmt::seq(take))])
            });
            let rest = each("rest", (anchors - count.get()) * ROW, |index| {
                put(rows, (batch * anchors + count.get()) * ROW + index, constant(-1.0))
            });
            Stmt::seq([count.set(0), of_anchor, rest, put(counts, batch, count.get().cast(I32))])
        });
        Stmt::seq([best.begin(constant(-1.0)), class.begin(0), count.begin(0), of_batch])
    }
}

fn shape_of(call: &Compute) -> Result<[i64; 3]> {
    let shape = &call.input(0)?.shape;
    Ok([shape[0], shape[1], shape[2]])
}

fn floats_only(inputs: &[Operand]) -> Result<()> {
    require!(
        inputs[0].dtype == F32 || inputs[0].dtype.bits() == 64,
        "elements are {}, not float32 or float64",
        inputs[0].dtype
    );
    Ok(())
}

fn located(call: &Compute) -> Result<Vec<Tensor>> {
    floats_only(&call.inputs)?;
    let (located, shape) = (Located::new(&call.used)?, shape_of(call)?);
    let tensors: Vec<Tensor> = call.inputs.iter().map(|input| input.tensor.clone()).collect();
    let op =
        extern_op("located", &tensors).output([shape[0], shape[2], ROW], call.inputs[0].dtype).output([shape[0]], I32);
    Ok(op.body(|inputs, outputs| located.body(inputs, &outputs[0], &outputs[1], shape)))
}

/// The detections that are kept among overlapping ones.
struct Kept {
    threshold: f64,
    is_of_all_classes: bool,
    most: i64,
}

impl Kept {
    fn new(used: &Use) -> Result<Self> {
        Ok(Self {
            threshold: used.float("nms_threshold")?,
            is_of_all_classes: used.flag("force_suppress")?,
            most: used.int("nms_topk")?,
        })
    }

    /// Copies rows, the best `nms_topk` sorted and before the others. A row that overlaps with an
    /// earlier one loses its class.
    fn body(&self, rows: &Buffer, counts: &Buffer, kept: &Buffer, batch: i64, anchors: i64) -> Stmt {
        let dtype = rows.dtype;
        let constant = |value: f64| te::constant(value, dtype);
        let order = memory("order", I64, anchors);
        let (count, sorted) = (Variable::index("count"), Variable::index("sorted"));
        let of_batch = each("batch", batch, |batch| {
            let row = |number: Expr| (batch * anchors + number) * ROW;
            let copied = |name: &str, begin: Expr, extent: Expr, from: &dyn Fn(&Expr) -> Expr| {
                each(name, extent, |number| {
                    let number = &begin + number;
                    each("column", ROW, |column| {
                        put(kept, row(number.clone()) + column, element(rows, row(from(&number)) + column))
                    })
                })
            };
            let in_order = sort(&order, anchors, |one, other| {
                // Invalid rows come last.
                let score = |number: &Expr| {
                    Expr::select(
                        number.less(count.get()),
                        element(rows, row(number.clone()) + 1),
                        constant(f64::NEG_INFINITY),
                    )
                };
                (Stmt::seq([]), score(one).greater(score(other)))
            });
            let suppress = each("one", count.get(), |one| {
                let of_one = |number: &Expr, column: i64| element(kept, row(number.clone()) + column);
                let others = each("step", count.get() - 1 - one, |step| {
                    let other = one + 1 + step;
                    let (wide, high, both, all) = (
                        Var::new("wide", dtype),
                        Var::new("high", dtype),
                        Var::new("both", dtype),
                        Var::new("all", dtype),
                    );
                    let shared = |low: i64, high: i64| {
                        let end = of_one(one, high).min(of_one(&other, high));
                        (end - of_one(one, low).max(of_one(&other, low))).max(constant(0.0))
                    };
                    let area = |number: &Expr| {
                        (of_one(number, 4) - of_one(number, 2)) * (of_one(number, 5) - of_one(number, 3))
                    };
                    let overlap =
                        Expr::select(all.expr().greater(constant(0.0)), both.expr() / all.expr(), constant(0.0));
                    let mut is_rival = of_one(&other, 0).greater_equal(constant(0.0));
                    if !self.is_of_all_classes {
                        is_rival = is_rival.and(of_one(&other, 0).equals(of_one(one, 0)));
                    }
                    let is_gone = overlap.greater_equal(constant(self.threshold));
                    when(
                        is_rival,
                        Stmt::seq([
                            Stmt::bind(wide.clone(), shared(2, 4)),
                            Stmt::bind(high.clone(), shared(3, 5)),
                            Stmt::bind(both.clone(), wide.expr() * high.expr()),
                            Stmt::bind(all.clone(), area(one) + area(&other) - both.expr()),
                            when(is_gone, put(kept, row(other.clone()), constant(-1.0))),
                        ]),
                    )
                });
                when(of_one(one, 0).greater_equal(constant(0.0)), others)
            });
            let most = if self.most > 0 { count.get().min(self.most) } else { count.get() };
            let is_asked = self.threshold > 0.0 && self.threshold < 1.0;
            let mut stmts = vec![
                count.set(element(counts, batch).cast(I64).max(0).min(anchors)),
                sorted.set(if is_asked { most } else { Expr::int(0) }),
            ];
            if is_asked {
                stmts.push(in_order);
                stmts.push(copied("best", Expr::int(0), sorted.get(), &|number| element(&order, number)));
            }
            stmts.push(copied("other", sorted.get(), count.get() - sorted.get(), &Expr::clone));
            if is_asked {
                stmts.push(suppress);
            }
            stmts.push(each("rest", (anchors - count.get()) * ROW, |index| {
                put(kept, row(count.get()) + index, constant(-1.0))
            }));
            Stmt::seq(stmts)
        });
        Stmt::seq([Stmt::alloc(order.clone()), count.begin(0), sorted.begin(0), of_batch])
    }
}

fn infer_kept(_: &Use, ins: &mut [PartialShape], outs: &mut [PartialShape]) -> Result<()> {
    if !is_known(&ins[0]) {
        return Ok(());
    }
    let shape = ins[0].clone();
    require!(shape.len() == 3 && shape[2] == ROW, "expected rows as (batch, box, {ROW}), got {shape:?}");
    set(&mut ins[1], &[shape[0]])?;
    set(&mut outs[0], &shape)
}

fn kept(call: &Compute) -> Result<Vec<Tensor>> {
    floats_only(&call.inputs)?;
    let kept = Kept::new(&call.used)?;
    let (x, counts) = (call.input(0)?, call.input(1)?);
    let op =
        extern_op("kept", &[x.tensor.clone(), counts.tensor.clone()]).output([x.shape[0], x.shape[1], ROW], x.dtype);
    Ok(op.body(|inputs, outputs| kept.body(&inputs[0], &inputs[1], &outputs[0], x.shape[0], x.shape[1])))
}

fn detection(call: &Compute) -> Result<Vec<Tensor>> {
    let rows = located(call)?;
    let kept = Kept::new(&call.used)?;
    let [batch, _, anchors] = shape_of(call)?;
    let op = extern_op("kept", &rows).output([batch, anchors, ROW], call.inputs[0].dtype);
    Ok(op.body(|inputs, outputs| kept.body(&inputs[0], &inputs[1], &outputs[0], batch, anchors)))
}

fn register(operators: &mut Registrar) {
    let floats = |name, value| Param::new(name, Kind::Floats, value);
    let _ = operators
        .add("multibox_prior")
        .describe("boxes to begin with, around each place of an image")
        .arguments(&["data"])
        .params(&[
            floats("sizes", "(1.0,)"),
            floats("ratios", "(1.0,)"),
            floats("steps", "(-1.0, -1.0)"),
            floats("offsets", "(0.5, 0.5)"),
            Param::new("clip", Kind::Bool, "False"),
        ])
        .level(5)
        .set("FInferShape", Native::InferShape(infer_prior))
        .set("FTVMCompute", Native::Compute(prior))
        .value("TOpPattern", pattern::OPAQUE);
    let of_boxes = [
        Param::new("clip", Kind::Bool, "True"),
        Param::new("threshold", Kind::Float, "0.01"),
        floats("variances", "(0.1, 0.1, 0.2, 0.2)"),
    ];
    let of_rows = [
        Param::new("nms_threshold", Kind::Float, "0.5"),
        Param::new("force_suppress", Kind::Bool, "False"),
        Param::new("nms_topk", Kind::Int, "-1"),
    ];
    let _ = operators
        .add("multibox_transform_loc")
        .describe("boxes that a network has moved, as rows (class, score, left, top, right, bottom) and their number")
        .arguments(&["cls_prob", "loc_pred", "anchor"])
        .params(&of_boxes)
        .outputs(crate::symbol::Arity::Fixed(2))
        .level(5)
        .set("FListOutputNames", Native::Names(|_| Ok(vec!["rows".to_owned(), "valid_count".to_owned()])))
        .set("FInferShape", Native::InferShape(infer_located))
        .set("FInferType", Native::InferType(|_, ins, outs| infer_types(None)(ins, outs)))
        .set("FTVMCompute", Native::Compute(located))
        .value("TOpPattern", pattern::OPAQUE);
    let _ = operators
        .add("nms")
        .describe("detections without those that overlap with a better one; their class becomes -1")
        .arguments(&["data", "valid_count"])
        .params(&of_rows)
        .level(5)
        .set("FInferShape", Native::InferShape(infer_kept))
        .set("FInferType", Native::InferType(|_, ins, outs| infer_types(Some(1))(ins, outs)))
        .set("FTVMCompute", Native::Compute(kept))
        .value("TOpPattern", pattern::OPAQUE);
    let both: Vec<Param> = of_boxes.into_iter().chain(of_rows).collect();
    let _ = operators
        .add("multibox_detection")
        .describe("multibox_transform_loc and nms")
        .arguments(&["cls_prob", "loc_pred", "anchor"])
        .params(&both)
        .level(5)
        .set("FInferShape", Native::InferShape(infer_located))
        .set("FInferType", Native::InferType(|_, ins, outs| infer_types(None)(ins, outs)))
        .set("FTVMCompute", Native::Compute(detection))
        .value("TOpPattern", pattern::OPAQUE);
}
