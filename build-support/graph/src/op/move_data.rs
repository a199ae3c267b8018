//! The same elements at other places.

use kernpack_compiler::ir::{Expr, Tensor};
use kernpack_compiler::te;

use super::call::{broadcast, tensor};
use super::{Call, Operator, Pattern, bounds};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "Transpose", pattern: Pattern::Injective, make: transpose },
    Operator { name: "Concat", pattern: Pattern::Injective, make: concat },
    Operator { name: "Split", pattern: Pattern::Opaque, make: split },
    Operator { name: "Slice", pattern: Pattern::Injective, make: slice },
    Operator { name: "Expand", pattern: Pattern::Injective, make: expand },
    Operator { name: "Tile", pattern: Pattern::Injective, make: tile },
    Operator { name: "Pad", pattern: Pattern::Injective, make: pad },
    Operator { name: "CenterCropPad", pattern: Pattern::Injective, make: center_crop_pad },
    Operator { name: "DepthToSpace", pattern: Pattern::Injective, make: depth_to_space },
    Operator { name: "SpaceToDepth", pattern: Pattern::Injective, make: space_to_depth },
];

/// Converts a count to an extent.
fn extent(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn transpose(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let order = match call.attrs.ints("perm")? {
        Some(order) => order.into_iter().map(|axis| x.axis(axis)).collect::<Result<Vec<usize>>>()?,
        None => (0..x.rank()).rev().collect(),
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    require!(sorted == (0..x.rank()).collect::<Vec<_>>(), "{order:?} is not an order of {} axes", x.rank());
    let shape: Vec<i64> = order.iter().map(|axis| x.shape[*axis]).collect();
    Ok(vec![tensor(&shape, |position| {
        let mut at = position.to_vec();
        for (to, from) in order.iter().enumerate() {
            at[*from] = position[to].clone();
        }
        x.at(&at)
    })])
}

fn concat(call: &Call) -> Result<Vec<Tensor>> {
    let inputs: Vec<_> = (0..call.inputs.len()).map(|index| call.input(index)).collect::<Result<_>>()?;
    let Some(&first) = inputs.first() else { fail!("there is no input") };
    let axis = first.axis(call.attrs.needed_int("axis")?)?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for input in &inputs {
        let fits = input.rank() == first.rank()
            && (0..first.rank()).all(|other| other == axis || input.shape[other] == first.shape[other]);
        require!(fits, "{:?} and {:?} cannot be joined along axis {axis}", first.shape, input.shape);
        require!(input.dtype == first.dtype, "the inputs have different types: {} and {}", first.dtype, input.dtype);
        shape[axis] += input.shape[axis];
    }
    let parts: Vec<_> = inputs.into_iter().filter(|input| input.shape[axis] != 0).collect();
    Ok(vec![tensor(&shape, |position| {
        let mut begin = shape[axis];
        let mut value: Option<Expr> = None;
        for input in parts.iter().rev() {
            begin -= input.shape[axis];
            let mut at = position.to_vec();
            at[axis] = &position[axis] - begin;
            let here = input.at(&at);
            value = Some(match value {
                None => here,
                Some(behind) => Expr::if_then_else(position[axis].less(begin + input.shape[axis]), here, behind),
            });
        }
        value.unwrap_or_else(|| te::constant(0.0, first.dtype))
    })])
}

fn split(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = x.axis(call.attrs.int("axis", 0)?)?;
    let parts = match call.ints_or_attr(1, "split")? {
        Some(parts) => bounds::all_bounded("`split`", parts)?,
        None => {
            let count = call.attrs.int("num_outputs", extent(call.wanted.len()))?;
            require!(count > 0, "it has no outputs");
            let given = extent(call.wanted.len());
            require!(count == given, "attribute `num_outputs` is {count}, and there are {given} outputs");
            let part = (x.shape[axis] + count - 1) / count;
            (0..count).map(|index| (x.shape[axis] - index * part).clamp(0, part)).collect()
        }
    };
    require!(
        parts.iter().map(|part| i128::from(*part)).sum::<i128>() == i128::from(x.shape[axis])
            && parts.iter().all(|part| *part >= 0),
        "parts of {parts:?} are not the {} elements of axis {axis}",
        x.shape[axis]
    );
    let mut begin = 0;
    Ok(parts
        .iter()
        .map(|part| {
            let mut shape = x.shape.clone();
            shape[axis] = *part;
            let from = begin;
            begin += part;
            tensor(&shape, |position| {
                let mut at = position.to_vec();
                at[axis] = &position[axis] + from;
                x.at(&at)
            })
        })
        .collect())
}

fn slice(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (Some(starts), Some(ends)) = (call.ints_or_attr(1, "starts")?, call.ints_or_attr(2, "ends")?) else {
        fail!("the starts or the ends are missing")
    };
    let axes = match call.ints_or_attr(3, "axes")? {
        Some(axes) => axes,
        None => (0..extent(starts.len())).collect(),
    };
    let steps = call.optional_ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    require!(
        starts.len() == ends.len() && starts.len() == axes.len() && starts.len() == steps.len(),
        "there are {} starts, {} ends, {} axes and {} steps",
        starts.len(),
        ends.len(),
        axes.len(),
        steps.len()
    );
    let mut shape = x.shape.clone();
    let mut moves = vec![(0, 1); x.rank()];
    for (((start, end), axis), step) in starts.into_iter().zip(ends).zip(axes).zip(steps) {
        let axis = x.axis(axis)?;
        let all = x.shape[axis];
        require!(step != 0, "the step along axis {axis} is 0");
        let absolute = |value: i64| if value < 0 { value.saturating_add(all) } else { value };
        let (start, end) = if step > 0 {
            (absolute(start).clamp(0, all), absolute(end).clamp(0, all))
        } else {
            (absolute(start).clamp(-1, all - 1), absolute(end).clamp(-1, all - 1))
        };
        let distance = if step > 0 { end - start } else { start - end };
        let step_size = i64::try_from(step.unsigned_abs()).unwrap_or(i64::MAX);
        shape[axis] = if distance <= 0 { 0 } else { (distance - 1) / step_size + 1 };
        // With one element the step does not matter, and may be too large for a multiplication.
        moves[axis] = (start, if shape[axis] > 1 { step } else { 1 });
    }
    Ok(vec![tensor(&shape, |position| {
        let at: Vec<Expr> = position.iter().zip(&moves).map(|(index, (start, step))| index * *step + *start).collect();
        x.at(&at)
    })])
}

fn expand(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let shape = broadcast(&[&x.shape, &call.ints(1)?])?;
    Ok(vec![tensor(&shape, |position| x.broadcast_at(position))])
}

fn tile(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let repeats = call.ints(1)?;
    require!(repeats.len() == x.rank(), "{} repeats for {:?}", repeats.len(), x.shape);
    require!(repeats.iter().all(|times| *times >= 0), "repeats {repeats:?} of {:?} are below 0", x.shape);
    let shape: Vec<i64> = x.shape.iter().zip(&repeats).map(|(extent, times)| extent.saturating_mul(*times)).collect();
    Ok(vec![tensor(&shape, |position| {
        let at: Vec<Expr> = position.iter().zip(&x.shape).map(|(index, extent)| index.floor_mod(*extent)).collect();
        x.at(&at)
    })])
}

fn pad(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let Some(pads) = call.ints_or_attr(1, "pads")? else { fail!("the pads are missing") };
    let pads = bounds::all_bounded("`pads`", pads)?;
    let axes = match call.optional_ints(3)? {
        Some(axes) => axes.into_iter().map(|axis| x.axis(axis)).collect::<Result<Vec<usize>>>()?,
        None => (0..x.rank()).collect(),
    };
    require!(pads.len() == 2 * axes.len(), "{} pads for {} axes", pads.len(), axes.len());
    let value = match call.optional(2) {
        Some(value) => value.at(&vec![Expr::int(0); value.rank()]),
        None => te::constant(call.attrs.float("value", 0.0)?, x.dtype),
    };
    let mode = call.attrs.text("mode", "constant")?;
    let mut shape = x.shape.clone();
    let mut before = vec![0; x.rank()];
    for (number, axis) in axes.iter().enumerate() {
        before[*axis] = pads[number];
        shape[*axis] += pads[number] + pads[axes.len() + number];
    }
    require!(["constant", "edge", "reflect", "wrap"].contains(&mode), "mode `{mode}` is unknown");
    let count_all = crate::constant::num_elements(&shape)?;
    require!(mode == "constant" || count_all == 0 || !x.shape.contains(&0), "{:?} has nothing to pad with", x.shape);
    Ok(vec![tensor(&shape, |position| {
        let mut inside = Vec::new();
        let at: Vec<Expr> = (0..x.rank())
            .map(|axis| {
                let all = x.shape[axis];
                let index = &position[axis] - before[axis];
                if shape[axis] == all && before[axis] == 0 {
                    return position[axis].clone();
                }
                match mode {
                    "edge" => index.max(0).min(all - 1),
                    "wrap" => index.floor_mod(all),
                    "reflect" if all == 1 => Expr::int(0),
                    "reflect" => {
                        let period = 2 * (all - 1);
                        let turned = index.floor_mod(period);
                        turned.min(period - &turned)
                    }
                    _ => {
                        inside.push(index.greater_equal(0));
                        inside.push(index.less(all));
                        index
                    }
                }
            })
            .collect();
        match inside.into_iter().reduce(|all, one| all.and(one)) {
            Some(inside) if !x.shape.contains(&0) => Expr::if_then_else(inside, x.at(&at), value),
            Some(_) => value,
            None => x.at(&at),
        }
    })])
}

fn center_crop_pad(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let wanted = bounds::known(call, 1)?;
    let axes = match call.attrs.ints("axes")? {
        Some(axes) => axes.into_iter().map(|axis| x.axis(axis)).collect::<Result<Vec<usize>>>()?,
        None => (0..x.rank()).collect(),
    };
    require!(axes.len() == wanted.len(), "{} extents for {} axes", wanted.len(), axes.len());
    let mut shape = x.shape.clone();
    let mut offset = vec![0; x.rank()];
    for (axis, wanted) in axes.into_iter().zip(wanted) {
        let have = x.shape[axis];
        offset[axis] = if wanted <= have { (have - wanted) / 2 } else { -((wanted - have) / 2) };
        shape[axis] = wanted;
    }
    Ok(vec![tensor(&shape, |position| {
        let at: Vec<Expr> = position.iter().zip(&offset).map(|(index, offset)| index + *offset).collect();
        let inside = (0..x.rank())
            .filter(|axis| shape[*axis] > x.shape[*axis])
            .map(|axis| at[axis].greater_equal(0).and(at[axis].less(x.shape[axis])))
            .reduce(|all, one| all.and(one));
        match inside {
            Some(inside) => Expr::if_then_else(inside, x.at(&at), te::constant(0.0, x.dtype)),
            None => x.at(&at),
        }
    })])
}

fn blocks(call: &Call) -> Result<(i64, [i64; 4])> {
    let x = call.input(0)?;
    let block = bounds::bounded("attribute `blocksize`", call.attrs.needed_int("blocksize")?)?;
    let Ok(shape) = <[i64; 4]>::try_from(&x.shape[..]) else { fail!("expected four dimensions, got {:?}", x.shape) };
    require!(block > 0, "the block size is {block}");
    require!(block < 1 << 20, "attribute `blocksize` is {block}: a block has more than 2^40 elements");
    Ok((block, shape))
}

fn depth_to_space(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (block, [n, c, h, w]) = blocks(call)?;
    require!(c % (block * block) == 0, "{c} channels are not divided by {block} x {block}");
    let depth = c / (block * block);
    let mode = call.attrs.text("mode", "DCR")?;
    require!(["DCR", "CRD"].contains(&mode), "mode is `DCR` or `CRD`, not `{mode}`");
    Ok(vec![tensor(&[n, depth, h * block, w * block], |p| {
        let (row, column) = (p[2].floor_mod(block), p[3].floor_mod(block));
        let channel =
            if mode == "DCR" { (row * block + column) * depth + &p[1] } else { (&p[1] * block + row) * block + column };
        x.at(&[p[0].clone(), channel, p[2].floor_div(block), p[3].floor_div(block)])
    })])
}

fn space_to_depth(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (block, [n, c, h, w]) = blocks(call)?;
    require!(h % block == 0 && w % block == 0, "{h} x {w} is not divided by {block}");
    let mode = call.attrs.text("mode", "DCR")?;
    require!(["DCR", "CRD"].contains(&mode), "mode is `DCR` or `CRD`, not `{mode}`");
    let depth =
        bounds::product(&[c, block, block], || format!("the channels of the result, for `blocksize` {block},"))?;
    Ok(vec![tensor(&[n, depth, h / block, w / block], |p| {
        let (channel, part) = if mode == "DCR" {
            (p[1].floor_mod(c), p[1].floor_div(c))
        } else {
            (p[1].floor_div(block * block), p[1].floor_mod(block * block))
        };
        let row = &p[2] * block + part.floor_div(block);
        let column = &p[3] * block + part.floor_mod(block);
        x.at(&[p[0].clone(), channel, row, column])
    })])
}
