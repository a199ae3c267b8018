//! Operators whose results have a data-dependent number of elements.
//!
//! A result is at the start of a buffer of the largest possible shape, along each axis. Its extents
//! follow after the outputs of the operator. The rest of the buffer is 0.

use kernpack_compiler::ir::{Buffer, DataTypeExt, Expr, F32, I64, Stmt, Tensor, Var};
use kernpack_compiler::te::{self, extern_op};

use super::call::{Operand, extents, tensor};
use super::statements::{Variable, as_long_as, at, count_of, each, element, fill, memory, nest, put, when};
use super::{Call, Operator, Pattern};
use crate::error::{Result, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "NonZero", pattern: Pattern::Opaque, make: non_zero },
    Operator { name: "Compress", pattern: Pattern::Opaque, make: compress },
    Operator { name: "NonMaxSuppression", pattern: Pattern::Opaque, make: non_max_suppression },
];

/// Returns true for an element that is not 0, or is true.
fn is_set(value: &Expr) -> Expr {
    if value.dtype().is_bool() { value.clone() } else { value.differs(Expr::constant(value.dtype(), 0)) }
}

fn rank_of(shape: &[i64]) -> i64 {
    i64::try_from(shape.len()).unwrap_or(i64::MAX)
}

fn non_zero(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let count = count_of(&x.shape);
    let rank = rank_of(&x.shape);
    if count == 0 || rank == 0 {
        // A scalar has no index: as in NumPy, there is none, or an empty one.
        let found = if count == 0 {
            tensor(&[2], |position| Expr::select(position[0].equals(0), Expr::int(rank), Expr::int(0)))
        } else {
            let set = Expr::select(is_set(&x.at(&[])), Expr::int(1), Expr::int(0));
            tensor(&[2], |position| Expr::select(position[0].equals(0), Expr::int(0), set))
        };
        return Ok(vec![tensor(&[rank, count], |_| Expr::int(0)), found]);
    }
    let op = extern_op("non_zero", [&x.tensor]).output([rank, count], I64).output([2], I64);
    Ok(op.body(|inputs, outputs| {
        let found = Variable::index("found");
        let search = nest("i", &x.shape, |position| {
            let axes = position.iter().zip(0i64..);
            let places =
                Stmt::seq(axes.map(|(index, axis)| put(&outputs[0], found.get() + axis * count, index.clone())));
            when(is_set(&at(&inputs[0], position)), Stmt::seq([places, found.add(1)]))
        });
        Stmt::seq([
            found.begin(0),
            fill(&outputs[0], rank * count, &Expr::int(0)),
            search,
            put(&outputs[1], 0, Expr::int(rank)),
            put(&outputs[1], 1, found.get()),
        ])
    }))
}

fn compress(call: &Call) -> Result<Vec<Tensor>> {
    let (x, condition) = (call.input(0)?, call.input(1)?);
    require!(condition.rank() == 1, "the condition has the shape {:?}, not one dimension", condition.shape);
    let axis = match call.attrs.find_int("axis")? {
        Some(axis) => Some(x.axis(axis)?),
        None => None,
    };
    // Without an axis the elements are in order.
    let (outer, length, inner) = match axis {
        Some(axis) => (count_of(&x.shape[..axis]), x.shape[axis], count_of(&x.shape[axis + 1..])),
        None => (1, count_of(&x.shape), 1),
    };
    let conditions = condition.shape[0];
    require!(conditions <= length, "{conditions} conditions for {length} elements");
    let mut shape = if axis.is_some() { x.shape.clone() } else { vec![length] };
    let place = axis.unwrap_or(0);
    shape[place] = conditions;
    let rank = rank_of(&shape);
    if shape.contains(&0) {
        let sizes = tensor(&[rank], |position| {
            let pairs = shape.iter().zip(0i64..);
            pairs.fold(Expr::int(0), |value, (extent, axis)| {
                let extent = if i64::try_from(place) == Ok(axis) { 0 } else { *extent };
                Expr::select(position[0].equals(axis), Expr::int(extent), value)
            })
        });
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, x.dtype)), sizes]);
    }
    let op = extern_op("compress", [&x.tensor, &condition.tensor]).output(extents(&shape), x.dtype).output([rank], I64);
    Ok(op.body(|inputs, outputs| {
        let found = Variable::index("found");
        let pick = each("number", conditions, |number| {
            let slices = each("outer", outer, |outer| {
                each("inner", inner, |index| {
                    let from = (outer * length + number) * inner + index;
                    put(&outputs[0], (outer * conditions + found.get()) * inner + index, element(&inputs[0], from))
                })
            });
            when(is_set(&element(&inputs[1], number.clone())), Stmt::seq([slices, found.add(1)]))
        });
        let sizes = shape.iter().zip(0i64..).map(|(extent, index)| {
            let is_picked = i64::try_from(place) == Ok(index);
            put(&outputs[1], index, if is_picked { found.get() } else { Expr::int(*extent) })
        });
        let sizes = Stmt::seq(sizes);
        Stmt::seq([found.begin(0), fill(&outputs[0], count_of(&shape), &Expr::constant(x.dtype, 0)), pick, sizes])
    }))
}

/// A known number, or the first element of an input of an extern operation.
struct Number {
    known: Option<Expr>,
    input: usize,
}

impl Number {
    /// Returns its value, or `absent` if the input is missing.
    fn of(operand: Option<&Operand>, absent: Expr, tensors: &mut Vec<Tensor>) -> Result<Self> {
        let Some(operand) = operand else { return Ok(Self { known: Some(absent), input: 0 }) };
        require!(operand.shape.iter().all(|extent| *extent == 1), "expected one number, got {:?}", operand.shape);
        if operand.value.is_some() {
            return Ok(Self { known: Some(operand.at(&vec![Expr::int(0); operand.rank()])), input: 0 });
        }
        tensors.push(operand.tensor.clone());
        Ok(Self { known: None, input: tensors.len() - 1 })
    }

    fn get(&self, inputs: &[Buffer]) -> Expr {
        self.known.clone().unwrap_or_else(|| element(&inputs[self.input], 0))
    }
}

/// Returns the corners of box `number` of a batch, with names: lower and upper y, lower and upper
/// x.
fn corners(boxes: &Buffer, base: &Expr, number: &Expr, centered: bool, name: &str) -> ([Expr; 4], Vec<Stmt>) {
    let part = |index: i64| element(boxes, (base + number) * 4 + index);
    let half = || Expr::float(F32, 0.5);
    let values = if centered {
        let (x, y, width, height) = (part(0), part(1), part(2) * half(), part(3) * half());
        [&y - &height, y + height, &x - &width, x + width]
    } else {
        [part(0).min(part(2)), part(0).max(part(2)), part(1).min(part(3)), part(1).max(part(3))]
    };
    let vars: Vec<Var> = (0..4).map(|index| Var::new(format!("{name}{index}"), F32)).collect();
    let binds = vars.iter().zip(values).map(|(var, value)| Stmt::bind(var.clone(), value)).collect();
    (core::array::from_fn(|index| vars[index].expr().clone()), binds)
}

/// Selects boxes in order of score, and drops those that overlap with a better one. The results are
/// rows of batch, class and box.
fn non_max_suppression(call: &Call) -> Result<Vec<Tensor>> {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let fits = boxes.rank() == 3 && scores.rank() == 3 && boxes.shape[2] == 4;
    let fits = fits && boxes.shape[0] == scores.shape[0] && boxes.shape[1] == scores.shape[2];
    require!(fits, "boxes {:?} and scores {:?} do not fit", boxes.shape, scores.shape);
    require!(boxes.dtype == F32 && scores.dtype == F32, "boxes and scores have to be float32");
    let (batches, classes, count) = (scores.shape[0], scores.shape[1], boxes.shape[1]);
    let mut tensors = vec![boxes.tensor.clone(), scores.tensor.clone()];
    let most = Number::of(call.optional(2), Expr::int(0), &mut tensors)?;
    let overlap = Number::of(call.optional(3), Expr::float(F32, 0.0), &mut tensors)?;
    let threshold = Number::of(call.optional(4), Expr::float(F32, f64::NEG_INFINITY), &mut tensors)?;
    let centered = call.attrs.flag("center_point_box", false)?;
    let known = most.known.as_ref().and_then(|most| most.as_int());
    let rows = batches * classes * known.map_or(count, |most| most.clamp(0, count));
    if rows == 0 {
        let sizes = tensor(&[2], |position| Expr::select(position[0].equals(0), Expr::int(0), Expr::int(3)));
        return Ok(vec![tensor(&[0, 3], |_| Expr::int(0)), sizes]);
    }
    let has_threshold = call.optional(4).is_some();
    let op = extern_op("selected", &tensors).output([rows, 3], I64).output([2], I64);
    Ok(op.body(|inputs, outputs| {
        let limit = most.get(inputs).cast(I64).min(count);
        let gone = memory("gone", I64, count);
        let (total, chosen, best) = (Variable::index("total"), Variable::index("chosen"), Variable::index("best"));
        let class = each("batch", batches, |batch| {
            each("class", classes, |class| {
                let base = (batch * classes + class) * count;
                let score = |number: Expr| element(&inputs[1], &base + number);
                let search = each("number", count, |number| {
                    let is_there = element(&gone, number.clone()).equals(0);
                    let is_better = best.get().less(0).or(score(number.clone()).greater(score(best.get().max(0))));
                    let mut wanted = is_there.and(is_better);
                    if has_threshold {
                        wanted = wanted.and(score(number.clone()).greater(threshold.get(inputs)));
                    }
                    when(wanted, best.set(number.clone()))
                });
                let suppress = each("other", count, |other| {
                    let start = batch * count;
                    let (one, bound_one) = corners(&inputs[0], &start, &best.get(), centered, "a");
                    let (two, bound_two) = corners(&inputs[0], &start, other, centered, "b");
                    let height = one[1].min(&two[1]) - one[0].max(&two[0]);
                    let width = one[3].min(&two[3]) - one[2].max(&two[2]);
                    let (high, wide) = (Var::new("high", F32), Var::new("wide", F32));
                    let area = |corners: &[Expr; 4]| (&corners[1] - &corners[0]) * (&corners[3] - &corners[2]);
                    let both = high.expr() * wide.expr();
                    let union = area(&one) + area(&two) - &both;
                    let zero = || Expr::float(F32, 0.0);
                    let overlaps = high.expr().greater(zero()).and(wide.expr().greater(zero()));
                    let overlaps = overlaps.and(area(&one).greater(zero())).and(area(&two).greater(zero()));
                    let overlaps = overlaps.and((both / union).greater(overlap.get(inputs)));
                    let mut stmts = bound_one;
                    stmts.extend(bound_two);
                    stmts.push(Stmt::bind(high.clone(), height));
                    stmts.push(Stmt::bind(wide.clone(), width));
                    stmts.push(when(overlaps, put(&gone, other.clone(), Expr::int(1))));
                    Stmt::seq(stmts)
                });
                let row = |column: i64, value: Expr| put(&outputs[0], total.get() * 3 + column, value);
                let take = Stmt::seq([
                    put(&gone, best.get(), Expr::int(1)),
                    row(0, batch.clone()),
                    row(1, class.clone()),
                    row(2, best.get()),
                    suppress,
                    total.add(1),
                    chosen.add(1),
                ]);
                // The last result is not a box, which ends the search.
                let round = Stmt::seq([
                    best.set(-1),
                    search,
                    Stmt::if_then(best.get().greater_equal(0), take, Some(chosen.set(count))),
                ]);
                Stmt::seq([
                    fill(&gone, count, &Expr::int(0)),
                    chosen.set(0),
                    as_long_as(chosen.get().less(&limit), round),
                ])
            })
        });
        Stmt::seq([
            Stmt::alloc(gone.clone()),
            total.begin(0),
            chosen.begin(0),
            best.begin(0),
            fill(&outputs[0], rows * 3, &Expr::int(0)),
            class,
            put(&outputs[1], 0, total.get()),
            put(&outputs[1], 1, Expr::int(3)),
        ])
    }))
}
