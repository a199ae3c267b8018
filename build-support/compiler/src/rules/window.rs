//! Windows: pooling, depthwise convolutions, and other reductions over a few neighbors of an
//! element. Partial results stay in a vector, the window is unrolled, and padding is computed plane
//! by plane.

use super::gemm::core_of;
use super::pattern::{computed, depends_on, extent_of, is_injective, producers, reads};
use super::{Outcome, TargetDescription, decline, elements_of, pays};
use crate::arith::{Analyzer, detect_linear};
use crate::error::Result;
use crate::ir::IterVar;
use crate::schedule::{Attach, Schedule, StageId, Tail};

/// The size of the largest window.
const LARGEST: i64 = 128;
/// The size of the largest window that is unrolled.
const UNROLLED: i64 = 16;
/// The maximum size of a plane on the stack, in bytes.
const STACK_BYTES: i64 = 16 << 10;

/// Schedules a reduction over a window.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let core = match core_of(schedule, id) {
        Ok(core) => core,
        Err(reason) => decline!("{reason}"),
    };
    let (out, op) = (schedule[id].operation().clone(), schedule[core].operation().clone());
    let (Some(parts), Some(out_parts)) = (computed(&op), computed(&out)) else {
        decline!("`{}` has several results", op.name())
    };
    let size = parts.reduce_axes.iter().try_fold(1i64, |size, axis| size.checked_mul(extent_of(axis)?));
    let Some(size) = size.filter(|size| (2..=LARGEST).contains(size)) else {
        decline!("`{}` has no window of at most {LARGEST} elements", op.name())
    };
    let Some((last, outer)) = parts.axes.split_last() else { decline!("`{}` is a single number", op.name()) };
    let is_window = |axis: &IterVar| {
        reads(&parts.body).iter().any(|(_, indices)| {
            indices.iter().any(|index| depends_on(index, axis) && parts.axes.iter().any(|data| depends_on(index, data)))
        })
    };
    if !parts.reduce_axes.iter().any(is_window) {
        decline!("`{}` reduces over no neighbours", op.name());
    }
    let lanes = target.lanes(op.output(0).dtype.bits());
    if lanes < 2 || extent_of(last).is_some_and(|extent| extent < lanes.min(4)) {
        decline!("`{}` has short rows", op.name());
    }
    let mut is_strided = false;
    for (tensor, indices) in reads(&parts.body) {
        for (place, index) in indices.iter().enumerate().filter(|(_, index)| depends_on(index, last)) {
            let form = detect_linear(index, core::slice::from_ref(&last.var), &Analyzer::new());
            let step = form.and_then(|form| form.coefficients[0].as_int());
            if place + 1 != indices.len() || !matches!(step, Some(1 | 2)) {
                decline!("`{}` is not read along its rows", tensor.name());
            }
            is_strided |= step == Some(2);
        }
    }
    // Leading dimensions whose axes are the indices of all reads: planes.
    let planes = outer
        .iter()
        .take_while(|axis| {
            reads(&parts.body).iter().all(|(tensor, indices)| {
                schedule.stage_of(&tensor.op).is_some_and(|stage| schedule[stage].is_placeholder())
                    || indices.iter().all(|index| !depends_on(index, axis) || axis.var.expr() == index)
            })
        })
        .count();
    let around: Vec<StageId> = producers(schedule, core)
        .into_iter()
        .filter(|&stage| {
            is_injective(schedule[stage].operation())
                && schedule[stage].attach == Attach::Root
                && !schedule[stage].is_output
                && schedule.consumers(stage) == [core]
        })
        .collect();
    // Windows share their common columns, if combining two elements is costly enough.
    if !is_strided
        && core == id
        && around.is_empty()
        && super::strided::is_costly(&parts.body)
        && let Outcome::Applied = super::strided::apply(schedule, id, target)?
    {
        return Ok(Outcome::Applied);
    }
    if is_strided && core == id {
        // If few elements are read twice, conditions replace a copy.
        for &producer in &around {
            schedule.stage(producer).compute_inline()?;
        }
        if let Outcome::Applied = super::strided::apply(schedule, id, target)? {
            return Ok(Outcome::Applied);
        }
        return super::reduction::apply(schedule, id, target);
    }
    let sums = if core == id {
        schedule.cache_write(&op.output(0), "local")?
    } else {
        schedule.stage(core).set_scope("local")?;
        op.output(0)
    };
    let out_axes = out_parts.axes;
    let mut stage = schedule.stage(id);
    // The last vector of a row overlaps with the previous one, which avoids a mask.
    let tail = |axis: &IterVar| {
        if extent_of(axis).is_some_and(|extent| extent >= lanes) { Tail::ShiftInwards } else { Tail::Guard }
    };
    let row = out_axes.last().expect("it has rows").clone();
    let (outside, inside) = stage.split_tail(&row, lanes, tail(&row))?;
    stage.vectorize(&inside)?;
    let can_fuse = planes > 0 && out_axes[1..planes].iter().all(|axis| extent_of(axis).is_some());
    let plane = match planes {
        0 => None,
        _ if can_fuse => Some(stage.fuse_all(&out_axes[..planes])?),
        _ => Some(out_axes[planes - 1].clone()),
    };
    if pays(target, elements_of(&out_axes).map(|elements| elements.saturating_mul(size))) && out_axes.len() > 1 {
        let shared = if can_fuse { plane.clone().expect("there are planes") } else { out_axes[0].clone() };
        stage.parallel(&shared)?;
    }
    let mut stage = schedule.stage(&sums);
    let own = stage.get()?.leaves.clone();
    let (data, reduce) = own.split_at(parts.axes.len());
    let (first, row) = data.split_at(data.len() - 1);
    let order: Vec<IterVar> = first.iter().chain(reduce).chain(row).cloned().collect();
    stage.reorder(&order)?;
    if size <= UNROLLED {
        for axis in reduce {
            stage.unroll(axis)?;
        }
    }
    stage.vectorize(&row[0])?;
    stage.compute_at(id, &outside)?;
    for producer in around {
        let Some(inner) = computed(schedule[producer].operation()) else { continue };
        let Some(plane) = &plane else { continue };
        let Some(last) = inner.axes.last().cloned() else { continue };
        let dtype = schedule[producer].operation().output(0).dtype;
        let mut stage = schedule.stage(producer);
        stage.compute_at(id, plane)?;
        if extent_of(&last).is_none_or(|extent| extent >= lanes) {
            let (_, lane) = stage.split_tail(&last, lanes, tail(&last))?;
            stage.vectorize(&lane)?;
        }
        let rest = &inner.axes[planes.min(inner.axes.len())..];
        let bytes =
            rest.iter().try_fold(i64::from(dtype.bits()) / 8, |bytes, axis| bytes.checked_mul(extent_of(axis)?));
        if bytes.is_some_and(|bytes| bytes <= STACK_BYTES) {
            stage.set_scope("local")?;
        }
    }
    Ok(Outcome::Applied)
}
