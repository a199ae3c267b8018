//! Collective operations of threads: shuffles in a warp, reductions across a block.

use std::collections::HashMap;

use super::code::{AllReduce, Exchange, Op, Reg, Value};
use super::frame::{Context, Frame, Stop};
use super::grid::{Member, State, THREAD_TAGS};
use super::machine::WARP_SIZE;
use super::memory::Fault;
use super::run::Run;
use super::value::lanes;
use crate::error::Result;
use crate::ir::DataTypeExt;

/// The threads that are combined: their position with the reduced axes set to 0, and the copies of
/// virtual threads.
type ReductionKey = ([i64; 3], Vec<(usize, i64)>);

/// The contribution of a waiting thread to a reduction across threads.
struct Part {
    member: usize,
    linear: u32,
    values: Vec<Value>,
}

/// The contribution of a thread: no values if its condition is false.
fn part(member: &Member, at: usize, reduce: &AllReduce) -> Result<Part, Fault> {
    let frame = member.frame();
    let mut values = Vec::new();
    if frame.bits(reduce.condition)? != 0 {
        for source in &reduce.sources {
            values.push(frame.get(*source)?.clone());
        }
    }
    Ok(Part { member: at, linear: member.thread().linear, values })
}

impl Run<'_> {
    /// Runs the shuffles of a warp for which all lanes in their masks have arrived.
    pub(super) fn shuffles(&mut self, members: &mut [Member], warp: &[usize]) -> Result<bool> {
        let machine = self.machine;
        let mut progress = false;
        let mut waiting: Vec<usize> =
            warp.iter().copied().filter(|at| matches!(members[*at].state, State::Waiting(Stop::Shuffle))).collect();
        while let Some(first) = waiting.first() {
            let place = self.waits_at(&members[*first]);
            let (group, rest): (Vec<usize>, Vec<usize>) =
                waiting.iter().partition(|at| self.waits_at(&members[**at]) == place);
            waiting = rest;
            let Op::WarpShuffle { mask, .. } = &machine.functions[place.0].ops[place.1] else {
                unreachable!("a member that waits for a shuffle is at one")
            };
            let lane = |at: usize| members[at].thread().linear % WARP_SIZE;
            let arrived = group.iter().fold(0u64, |arrived, at| arrived | 1 << lane(*at));
            let number = members[group[0]].thread().warp;
            let present = members.iter().filter(|member| member.thread().warp == number);
            let present = present.fold(0u64, |lanes, member| lanes | 1 << (member.thread().linear % WARP_SIZE));
            let mut complete = true;
            for at in &group {
                let mask = members[*at].frame().bits(*mask);
                let mask = mask.map_err(|fault| self.fault_at(&members[*at], fault))?;
                complete &= mask & present & !arrived == 0;
            }
            if complete {
                self.shuffle(members, &group)?;
                progress = true;
            }
        }
        Ok(progress)
    }

    /// Exchanges values between the lanes of a warp.
    pub(super) fn shuffle(&mut self, members: &mut [Member], group: &[usize]) -> Result<()> {
        let machine = self.machine;
        let (function, pc) = self.waits_at(&members[group[0]]);
        let Op::WarpShuffle { to, exchange, mask, value, lane, width } = &machine.functions[function].ops[pc] else {
            unreachable!("a member that waits for a shuffle is at one")
        };
        let mut results = Vec::new();
        for at in group {
            let source = self.source(members, group, *at, *exchange, [*mask, *lane, *width]);
            let result = source.and_then(|source| members[source].frame().get(*value).cloned());
            results.push(result.map_err(|fault| self.fault_at(&members[*at], fault))?);
        }
        for (at, result) in group.iter().zip(results) {
            let frame = members[*at].context.frames.last_mut().expect("a context has a frame");
            frame.registers[*to] = result;
            members[*at].state = State::Ready;
        }
        Ok(())
    }

    /// The member whose value a lane gets.
    pub(super) fn source(
        &self,
        members: &[Member],
        group: &[usize],
        at: usize,
        exchange: Exchange,
        [mask, lane, width]: [Reg; 3],
    ) -> Result<usize, Fault> {
        let frame = members[at].frame();
        let (mask, by, width) = (frame.bits(mask)?, frame.bits(lane)? as i64, frame.bits(width)? as i64);
        let warp_size = i64::from(WARP_SIZE);
        if width <= 0 || width > warp_size || width & (width - 1) != 0 {
            return Err(format!("a width of {width} is not a power of two up to {warp_size}"));
        }
        let own = i64::from(members[at].thread().linear) % warp_size;
        let base = own & !(width - 1);
        let source = match exchange {
            Exchange::Index => base + (by & (width - 1)),
            Exchange::Up if own - by < base => own,
            Exchange::Up => own - by,
            Exchange::Down if own + by >= base + width => own,
            Exchange::Down => own + by,
            Exchange::Xor if own ^ by >= base + width => own,
            Exchange::Xor => own ^ by,
        };
        if mask >> source & 1 == 0 || mask >> own & 1 == 0 {
            return Err(format!("lane {own} reads lane {source}, and the mask {mask:#x} leaves one of them out"));
        }
        let found: Vec<usize> = group
            .iter()
            .copied()
            .filter(|other| i64::from(members[*other].thread().linear) % warp_size == source)
            .collect();
        match found[..] {
            [one] => Ok(one),
            [] => Err(format!("lane {own} reads lane {source}, which does not take part")),
            _ => Err("a shuffle inside a virtual thread".to_owned()),
        }
    }

    /// Combines values of the threads that differ only in the given axes.
    pub(super) fn all_reduce(&mut self, members: &mut [Member], live: &[usize]) -> Result<()> {
        let machine = self.machine;
        let (function, pc) = self.waits_at(&members[live[0]]);
        let Op::AllReduce(reduce) = &machine.functions[function].ops[pc] else {
            unreachable!("a member that waits for a reduction is at one")
        };
        let mut groups: HashMap<ReductionKey, Vec<Part>> = HashMap::new();
        for at in live {
            let part = part(&members[*at], *at, reduce).map_err(|fault| self.fault_at(&members[*at], fault))?;
            let thread = members[*at].thread();
            let mut key = thread.index;
            for (axis, tag) in THREAD_TAGS.iter().enumerate() {
                if reduce.tags.iter().any(|known| known == tag) {
                    key[axis] = 0;
                }
            }
            groups.entry((key, thread.path.clone())).or_default().push(part);
        }
        // In a fixed order, so that a run is reproducible.
        let mut groups: Vec<Vec<Part>> = groups.into_values().collect();
        groups.sort_by_key(|parts| parts.iter().map(|part| part.linear).min());
        for mut parts in groups {
            parts.sort_by_key(|part| part.linear);
            let count = reduce.sources.len();
            let identity = self.combine(reduce, None)?[count..].to_vec();
            let mut total = identity.clone();
            for part in &parts {
                let values = if part.values.is_empty() { &identity } else { &part.values };
                total = self.combine(reduce, Some((&total, values)))?[..count].to_vec();
            }
            for part in &parts {
                self.memory.races.run_thread(part.linear);
                let mut store = || -> Result<(), Fault> {
                    for (place, value) in reduce.results.iter().zip(&total) {
                        let address = members[part.member].frame().bits(place.data)?;
                        let size = place.dtype.lane_bytes() as u64;
                        for (bits, address) in lanes(value).iter().zip((address..).step_by(size as usize)) {
                            self.memory.write(address, place.dtype.element(), *bits, 0)?;
                        }
                    }
                    Ok(())
                };
                let stored = store();
                stored.map_err(|fault| self.fault_at(&members[part.member], fault))?;
                members[part.member].state = State::Ready;
            }
        }
        self.memory.races.barrier();
        Ok(())
    }

    /// Returns the results and identities of the combiner; without operands, only the identities.
    pub(super) fn combine(&mut self, reduce: &AllReduce, operands: Option<(&[Value], &[Value])>) -> Result<Vec<Value>> {
        let code = &self.machine.functions[reduce.reducer];
        let mut frame = Frame::new(reduce.reducer, code);
        let count = reduce.sources.len();
        match operands {
            Some((left, right)) => {
                for (reg, value) in left.iter().chain(right).enumerate() {
                    frame.registers[reg] = value.clone();
                }
            }
            // The identities do not depend on them.
            None => frame.registers[..2 * count].fill(Value::One(0)),
        }
        let mut context = Context { frames: vec![frame], thread: None };
        // The frame is needed after its end.
        let Some(last) = code.ops.len().checked_sub(1) else { return Ok(Vec::new()) };
        self.execute_to(&mut context, last)?;
        Ok(context.frames[0].registers[2 * count..4 * count].to_vec())
    }
}
