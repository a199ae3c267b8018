//! Device threads: blocks run one after the other, the threads of a block in turns from barrier to
//! barrier.

use std::collections::HashMap;

use super::code::{Axis, Group, Op, Value};
use super::frame::{Context, Frame, Stop};
use super::machine::WARP_SIZE;
use super::memory::Fault;
use super::run::Run;
use crate::error::{CompileError, Result};

/// The tags of a grid's dimensions; x is the innermost.
const BLOCK_TAGS: [&str; 3] = ["blockIdx.x", "blockIdx.y", "blockIdx.z"];

/// The tags of a block's dimensions.
pub(super) const THREAD_TAGS: [&str; 3] = ["threadIdx.x", "threadIdx.y", "threadIdx.z"];

/// A limit that is larger than a block of any device.
const THREAD_LIMIT: i64 = 1 << 14;

/// The position of a context among the threads of a kernel.
#[derive(Clone)]
pub(super) struct Thread {
    pub(super) block: [i64; 3],
    pub(super) index: [i64; 3],
    /// The position in the block.
    pub(super) linear: u32,
    pub(super) warp: u32,
    /// The copies of virtual threads: the statement and the index of each.
    pub(super) path: Vec<(usize, i64)>,
}

/// The key of memory that threads share: the statement, the warp, the copies of virtual threads.
pub(super) type AllocationKey = (u32, u32, Vec<(usize, i64)>);

/// Memory that the threads of the running block share.
#[derive(Default)]
pub(super) struct BlockState {
    pub(super) shared: HashMap<AllocationKey, u64>,
}

impl Thread {
    pub(super) fn index(&self, tag: &str) -> Result<u64, Fault> {
        let position = |tags: [&str; 3]| tags.iter().position(|known| *known == tag);
        match (position(BLOCK_TAGS), position(THREAD_TAGS)) {
            (Some(axis), _) => Ok(self.block[axis] as u64),
            (_, Some(axis)) => Ok(self.index[axis] as u64),
            _ => Err(format!("unknown thread tag `{tag}`")),
        }
    }

    pub(super) fn allocation_key(&self, stmt: u32, group: Group) -> AllocationKey {
        let warp = if group == Group::Warp { self.warp } else { u32::MAX };
        (stmt, warp, self.path.clone())
    }

    pub(super) fn describe(&self) -> String {
        let [bx, by, bz] = self.block;
        let [tx, ty, tz] = self.index;
        let mut text = format!("thread ({tx}, {ty}, {tz}) of block ({bx}, {by}, {bz})");
        if !self.path.is_empty() {
            let copies: Vec<String> = self.path.iter().map(|(_, copy)| copy.to_string()).collect();
            text.push_str(&format!(", copy {}", copies.join(", ")));
        }
        text
    }
}

pub(super) enum State {
    Ready,
    Waiting(Stop),
    /// Its copies are running.
    Forked {
        children: usize,
    },
    Done,
}

pub(super) struct Member {
    pub(super) context: Context,
    pub(super) state: State,
    pub(super) parent: Option<usize>,
}

fn thread_of(context: &Context) -> &Thread {
    context.thread.as_ref().expect("a member is a thread")
}

impl Member {
    pub(super) fn thread(&self) -> &Thread {
        thread_of(&self.context)
    }

    /// Returns true if it is ready or waiting.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, State::Ready | State::Waiting(_))
    }

    pub(super) fn frame(&self) -> &Frame {
        self.context.frames.last().expect("a context has a frame")
    }
}

impl Run<'_> {
    /// Runs a kernel from the operation after the launch of a context.
    pub(super) fn launch(&mut self, context: &Context) -> Result<()> {
        let frame = context.frames.last().expect("a context has a frame");
        let machine = self.machine;
        let Op::Launch { axes, .. } = &machine.functions[frame.function].ops[frame.pc] else {
            unreachable!("a context that launches is at a launch")
        };
        let (grid, block) = extents(frame, axes).map_err(|fault| self.error(context, fault))?;
        if grid.contains(&0) || block.contains(&0) {
            return Ok(());
        }
        let newer = self.memory.count();
        self.memory.races.enter_tasks(newer, "block");
        let depth = self.memory.races.depth();
        for z in 0..grid[2] {
            for y in 0..grid[1] {
                for x in 0..grid[0] {
                    self.memory.races.next_task();
                    self.block = Some(BlockState::default());
                    self.run_block(frame, [x, y, z], block)?;
                    self.memory.races.truncate(depth);
                    let state = self.block.take().unwrap_or_default();
                    for address in state.shared.into_values() {
                        self.memory.free(address).map_err(|fault| self.error(context, fault))?;
                    }
                }
            }
        }
        self.memory.races.leave();
        Ok(())
    }

    pub(super) fn run_block(&mut self, frame: &Frame, block: [i64; 3], extents: [i64; 3]) -> Result<()> {
        let mut members = Vec::new();
        for z in 0..extents[2] {
            for y in 0..extents[1] {
                for x in 0..extents[0] {
                    let linear = members.len() as u32;
                    let mut copy = frame.copy();
                    copy.pc += 1;
                    let thread = Thread { block, index: [x, y, z], linear, warp: linear / WARP_SIZE, path: Vec::new() };
                    members.push(Member {
                        context: Context { frames: vec![copy], thread: Some(thread) },
                        state: State::Ready,
                        parent: None,
                    });
                }
            }
        }
        self.memory.races.enter_threads(members.len() as u32, WARP_SIZE);
        loop {
            let mut progress = false;
            let mut at = 0;
            while at < members.len() {
                if matches!(members[at].state, State::Ready) {
                    progress = true;
                    self.run_member(&mut members, at)?;
                }
                at += 1;
            }
            progress |= self.resolve(&mut members)?;
            if !progress {
                break;
            }
        }
        match members.iter().find(|member| matches!(member.state, State::Waiting(_))) {
            Some(waiting) => Err(self.divergence(&members, waiting)),
            None => Ok(()),
        }
    }

    pub(super) fn run_member(&mut self, members: &mut Vec<Member>, at: usize) -> Result<()> {
        let linear = members[at].thread().linear;
        self.memory.races.run_thread(linear);
        match self.execute(&mut members[at].context)? {
            Stop::Done(_) => {
                members[at].state = State::Done;
                if let Some(parent) = members[at].parent
                    && let State::Forked { children } = &mut members[parent].state
                {
                    *children -= 1;
                    if *children == 0 {
                        members[parent].state = State::Ready;
                        // It precedes this member: it runs in the next turn.
                    }
                }
            }
            Stop::Fork { var, extent, end } => {
                let frame = members[at].context.frames.last_mut().expect("a context has a frame");
                let begin = frame.pc;
                frame.pc = end;
                for copy in 0..extent.max(0) {
                    let mut thread = members[at].thread().clone();
                    thread.path.push((begin, copy));
                    let mut frame = members[at].frame().copy();
                    frame.pc = begin;
                    frame.registers[var] = Value::One(copy as u64);
                    members.push(Member {
                        context: Context { frames: vec![frame], thread: Some(thread) },
                        state: State::Ready,
                        parent: Some(at),
                    });
                }
                let children = extent.max(0) as usize;
                members[at].state = if children == 0 { State::Ready } else { State::Forked { children } };
            }
            stop => members[at].state = State::Waiting(stop),
        }
        Ok(())
    }

    /// The operation at which a member waits.
    pub(super) fn waits_at(&self, member: &Member) -> (usize, usize) {
        let frame = member.frame();
        (frame.function, frame.pc - 1)
    }

    /// Resumes the threads whose partners have all arrived.
    pub(super) fn resolve(&mut self, members: &mut [Member]) -> Result<bool> {
        let mut progress = false;
        let warps = members.iter().map(|member| member.thread().warp).max().unwrap_or(0);
        for warp in 0..=warps {
            let group: Vec<usize> =
                (0..members.len()).filter(|at| members[*at].is_live() && members[*at].thread().warp == warp).collect();
            let Some(first) = group.first() else { continue };
            let place = self.waits_at(&members[*first]);
            let together = |this: &Self, wanted: fn(&Stop) -> bool| {
                group.iter().all(|at| match &members[*at].state {
                    State::Waiting(stop) => wanted(stop) && this.waits_at(&members[*at]) == place,
                    _ => false,
                })
            };
            let any_done = members.iter().any(|member| {
                member.parent.is_none() && member.thread().warp == warp && matches!(member.state, State::Done)
            });
            if together(self, |stop| matches!(stop, Stop::Sync(Group::Warp))) && !any_done {
                self.memory.races.warp_barrier(warp as usize);
                for at in group.iter().copied() {
                    members[at].state = State::Ready;
                }
                progress = true;
            }
            progress |= self.shuffles(members, &group)?;
        }
        let live: Vec<usize> = (0..members.len()).filter(|at| members[*at].is_live()).collect();
        let Some(first) = live.first() else { return Ok(progress) };
        if members.iter().any(|member| member.parent.is_none() && matches!(member.state, State::Done)) {
            return Ok(progress);
        }
        let place = self.waits_at(&members[*first]);
        let together = |this: &Self, members: &[Member], wanted: fn(&Stop) -> bool| {
            live.iter().all(|at| match &members[*at].state {
                State::Waiting(stop) => wanted(stop) && this.waits_at(&members[*at]) == place,
                _ => false,
            })
        };
        if together(self, members, |stop| matches!(stop, Stop::Sync(Group::Block))) {
            self.memory.races.barrier();
            for at in live {
                members[at].state = State::Ready;
            }
            progress = true;
        } else if together(self, members, |stop| matches!(stop, Stop::AllReduce)) {
            self.all_reduce(members, &live)?;
            progress = true;
        }
        Ok(progress)
    }

    pub(super) fn divergence(&self, members: &[Member], waiting: &Member) -> CompileError {
        let what = match waiting.state {
            State::Waiting(Stop::Sync(_)) => "barrier",
            State::Waiting(Stop::Shuffle) => "shuffle",
            _ => "reduction across threads",
        };
        let (function, pc) = self.waits_at(waiting);
        let other = members.iter().find(|member| match member.state {
            State::Waiting(_) => self.waits_at(member) != (function, pc),
            State::Done => member.parent.is_none(),
            _ => false,
        });
        let mut at = Context { frames: vec![waiting.frame().copy()], thread: waiting.context.thread.clone() };
        at.frames[0].pc = pc;
        let error = self.error(&at, format!("divergent {what}: it is not reached by all threads"));
        match other {
            Some(other) if matches!(other.state, State::Done) => {
                error.note(format!("the kernel is at its end for {}", other.thread().describe()))
            }
            Some(other) => error.note(format!("{} waits elsewhere", other.thread().describe())),
            None => error,
        }
    }

    pub(super) fn fault_at(&self, member: &Member, fault: Fault) -> CompileError {
        let mut at = Context { frames: vec![member.frame().copy()], thread: member.context.thread.clone() };
        at.frames[0].pc -= 1;
        self.error(&at, fault)
    }
}

/// The extents of the grid and of a block.
fn extents(frame: &Frame, axes: &[Axis]) -> Result<([i64; 3], [i64; 3]), Fault> {
    let (mut grid, mut block) = ([1; 3], [1; 3]);
    for axis in axes {
        let extent = frame.bits(axis.extent)? as i64;
        if extent < 0 {
            return Err(format!("{} has an extent of {extent}", axis.tag));
        }
        let position = |tags: [&str; 3]| tags.iter().position(|tag| *tag == axis.tag);
        match (position(BLOCK_TAGS), position(THREAD_TAGS)) {
            (Some(at), _) => grid[at] = extent,
            (_, Some(at)) => block[at] = extent,
            _ => return Err(format!("unknown thread tag `{}`: blockIdx.x to threadIdx.z", axis.tag)),
        }
    }
    let threads = block.iter().try_fold(1i64, |all, extent| all.checked_mul(*extent));
    match threads {
        Some(threads) if threads <= THREAD_LIMIT => Ok((grid, block)),
        _ => Err(format!("a block of {block:?} threads; devices have at most 1024")),
    }
}
