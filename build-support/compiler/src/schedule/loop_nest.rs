//! The loops of a schedule as human-readable text.

use core::fmt::Write as _;

use super::attach::Attachments;
use super::infer_bound::infer_bound;
use super::pass_down::{RangeMap, loops, made_of, thread_of};
use super::stage::{Annotation, Attach, Schedule, Stage, StageId};
use crate::ir::{IterVar, OperationNode};

impl Schedule {
    /// Returns the current loops as text, from the outermost to the innermost, with the stages that
    /// are computed in each. The text is for people: its form may change.
    ///
    /// Ranges are left out if bound inference fails; the last line then gives the reason.
    ///
    /// ```
    /// use kernpack_compiler::ir::F32;
    /// use kernpack_compiler::schedule::create_schedule;
    /// use kernpack_compiler::te::{compute, placeholder};
    ///
    /// let a = placeholder([64], F32, "a");
    /// let b = compute([64], |[i]| a.at([&i]) * 2.0).named("b");
    /// let mut s = create_schedule([&b]);
    /// let [i] = s.stage(&b).axes()?;
    /// let (_, inner) = s.stage(&b).split(&i, 8)?;
    /// s.stage(&b).vectorize(&inner)?;
    /// assert_eq!(s.loop_nest(), "\
    /// for i.outer in 0..8
    ///   vectorized i.inner in 0..8
    ///     compute b
    /// ");
    /// # Ok::<(), kernpack_compiler::CompileError>(())
    /// ```
    pub fn loop_nest(&self) -> String {
        let normalized = self.normalize();
        let schedule = normalized.as_ref().unwrap_or(self);
        let bounds = normalized.as_ref().map_err(Clone::clone).and_then(infer_bound);
        let attachments = Attachments::of(schedule);
        let mut text = Text {
            schedule,
            attachments: attachments.as_ref().ok(),
            ranges: bounds.as_ref().ok(),
            lines: String::new(),
        };
        for id in schedule.stages() {
            if schedule[id].attach == Attach::Inlined {
                text.line(0, &format!("inline {}", schedule[id].name()));
            } else if text.point(id).is_none() {
                text.stage(id, 0);
            }
        }
        if let Err(error) = &bounds {
            text.line(0, &format!("no ranges: {}", error.what()));
        }
        text.lines
    }
}

struct Text<'a> {
    schedule: &'a Schedule,
    attachments: Option<&'a Attachments>,
    ranges: Option<&'a RangeMap>,
    lines: String,
}

impl Text<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.lines, "{:indent$}{text}", "", indent = 2 * depth);
    }

    /// The attach point of a stage, if it is inside a loop.
    fn point(&self, id: StageId) -> Option<(StageId, IterVar)> {
        match self.attachments {
            Some(attachments) => attachments.point(id).map(|point| (point.stage, point.axis.clone())),
            None => self.schedule[id].attach.point().map(|(stage, axis)| (stage, axis.clone())),
        }
    }

    fn stage(&mut self, id: StageId, depth: usize) {
        let stage = &self.schedule[id];
        if stage.is_placeholder() {
            return;
        }
        let leaves: Vec<IterVar> = loops(stage).cloned().collect();
        let of_reduction = match &**stage.operation() {
            OperationNode::Compute { reduce_axes, .. } => made_of(stage, reduce_axes.iter()),
            _ => Default::default(),
        };
        let mut depth = depth;
        for thread in &stage.env_threads {
            self.line(depth, &format!("threads {}", thread.thread_tag));
            depth += 1;
        }
        let mut is_begun = false;
        for (position, leaf) in leaves.iter().enumerate() {
            if of_reduction.contains(leaf) && !is_begun {
                is_begun = true;
                let rest: Vec<&str> = leaves[position..]
                    .iter()
                    .filter(|leaf| !of_reduction.contains(*leaf))
                    .map(|leaf| leaf.name())
                    .collect();
                let over = if rest.is_empty() { String::new() } else { format!(" over {}", rest.join(", ")) };
                self.line(depth, &format!("begin {}{over}", stage.name()));
            }
            self.line(depth, &self.header(stage, leaf));
            depth += 1;
            for inner in self.schedule.stages() {
                if self.point(inner).is_some_and(|(at, axis)| at == id && axis == *leaf) {
                    self.stage(inner, depth);
                }
            }
        }
        let verb = match &**stage.operation() {
            OperationNode::Extern { .. } => "call",
            OperationNode::Scan { .. } => "step",
            _ if is_begun => "update",
            _ => "compute",
        };
        let scope = if stage.scope.is_empty() { String::new() } else { format!(" in {} memory", stage.scope) };
        let double = if stage.double_buffer { ", double buffered" } else { "" };
        self.line(depth, &format!("{verb} {}{scope}{double}", stage.name()));
    }

    fn header(&self, stage: &Stage, leaf: &IterVar) -> String {
        let attr = stage.attr(leaf);
        let kind = match attr.and_then(|attr| attr.annotation) {
            _ if thread_of(stage, leaf).is_some() => "threads",
            Some(Annotation::Unrolled) => "unrolled",
            Some(Annotation::Vectorized) => "vectorized",
            Some(Annotation::Parallel) => "parallel",
            Some(Annotation::Tensorized) => "tensorized",
            None => "for",
        };
        let mut header = format!("{kind} {}", leaf.name());
        if let Some(range) = self.ranges.and_then(|ranges| ranges.get(leaf)) {
            let end = &range.min + &range.extent;
            let _ = write!(header, " in {}..{end}", range.min);
        }
        if let Some(thread) = stage.thread_of(leaf) {
            let _ = write!(header, " ({})", thread.thread_tag);
        }
        if let Some(attr) = attr {
            for (tensor, ahead) in &attr.prefetch {
                let _ = write!(header, ", prefetch {} {ahead} ahead", tensor.name());
            }
            for (key, value) in &attr.pragmas {
                let _ = write!(header, ", {key} = {value}");
            }
        }
        header
    }
}
