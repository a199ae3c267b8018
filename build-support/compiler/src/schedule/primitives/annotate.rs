//! Annotations of loops: vectorize, unroll, parallel, bind, and hints.

use super::handle::{Context, StageHandle};
use crate::error::Result;
use crate::ir::{Expr, I64, IterKind, IterVar, OperationNode, Tensor};
use crate::schedule::stage::{Annotation, AxisAttr, StageId};
use crate::schedule::tensorize::TensorIntrin;
use crate::te::exprs::as_index;

fn done(annotation: Annotation) -> &'static str {
    match annotation {
        Annotation::Unrolled => "unrolled",
        Annotation::Vectorized => "vectorized",
        Annotation::Parallel => "made parallel",
        Annotation::Tensorized => "tensorized",
    }
}

impl StageHandle<'_> {
    /// Vectorizes a loop: the iterations become vector lanes. The extent has to be constant when
    /// the loop is lowered.
    ///
    /// # Errors
    /// Returns an error if the axis is not a loop of the stage, is not a data dimension, or has
    /// another annotation.
    #[track_caller]
    pub fn vectorize(&mut self, axis: &IterVar) -> Result<&mut Self> {
        self.annotate(&Context::new("vectorize"), axis, Annotation::Vectorized)
    }

    /// Unrolls a loop. The extent has to be constant when the loop is lowered.
    ///
    /// # Errors
    /// Returns an error if the axis is not a loop of the stage, or has another annotation.
    #[track_caller]
    pub fn unroll(&mut self, axis: &IterVar) -> Result<&mut Self> {
        self.annotate(&Context::new("unroll"), axis, Annotation::Unrolled)
    }

    /// Parallelizes a loop: CPU threads run the iterations, in any order.
    ///
    /// # Errors
    /// Returns an error if the axis is not a loop of the stage, is not a data dimension, or has
    /// another annotation, or if the stage has another parallel loop.
    #[track_caller]
    pub fn parallel(&mut self, axis: &IterVar) -> Result<&mut Self> {
        self.annotate(&Context::new("parallel"), axis, Annotation::Parallel)
    }

    fn annotate(&mut self, context: &Context, axis: &IterVar, annotation: Annotation) -> Result<&mut Self> {
        let (id, _) = self.leaf(context, axis)?;
        self.check_annotation(context, id, axis, annotation)?;
        let stage = &self.schedule[id];
        let name = axis.name();
        if annotation != Annotation::Unrolled && axis.kind != IterKind::DataPar {
            let why = match (axis.kind, annotation) {
                (IterKind::CommReduce, Annotation::Parallel) => {
                    "threads would write the same element: `rfactor` it first"
                }
                (IterKind::CommReduce, _) => "lanes would write the same element: `rfactor` it first",
                _ => "only dimensions are",
            };
            let what = format!("`{name}` of stage `{}` cannot be {}", stage.name(), done(annotation));
            return Err(context.stage_error(stage, what).note(why));
        }
        if annotation == Annotation::Parallel {
            let other = stage.leaves.iter().find(|leaf| {
                *leaf != axis && stage.attr(leaf).is_some_and(|attr| attr.annotation == Some(Annotation::Parallel))
            });
            if let Some(other) = other {
                let what = format!("`{name}` is in one nest with `{}`, which is parallel already", other.name());
                return Err(context
                    .stage_error(stage, what)
                    .note("a nested parallel loop is not supported: fuse them"));
            }
        }
        let attr = self.attr(id, axis);
        attr.annotation = Some(annotation);
        attr.note = format!("{}{}", done(annotation), context.at_place());
        Ok(self)
    }

    fn check_annotation(&self, context: &Context, id: StageId, axis: &IterVar, wanted: Annotation) -> Result<()> {
        let stage = &self.schedule[id];
        let Some(attr) = stage.attr(axis) else { return Ok(()) };
        if attr.annotation.is_some_and(|annotation| annotation != wanted) || attr.thread.is_some() {
            let what = format!("`{}` of stage `{}` was {}", axis.name(), stage.name(), attr.note);
            return Err(context.stage_error(stage, what));
        }
        Ok(())
    }

    pub(crate) fn attr(&mut self, id: StageId, axis: &IterVar) -> &mut AxisAttr {
        self.schedule[id].attrs.entry(axis.clone()).or_default()
    }

    /// Binds a loop to threads of a device:
    /// `s.stage(&c).bind(&i, &thread_axis(None, "threadIdx.x"))?`. Stages that share a thread share
    /// its extent.
    ///
    /// # Errors
    /// Returns an error if the axis is not a loop of the stage, is the time axis of a scan, or has
    /// another annotation; if `thread` is not a thread, or is bound to another loop of the stage;
    /// or if a reduction axis is bound to a virtual thread.
    #[track_caller]
    pub fn bind(&mut self, axis: &IterVar, thread: &IterVar) -> Result<&mut Self> {
        let context = Context::new("bind");
        let (id, _) = self.leaf(&context, axis)?;
        let stage = &self.schedule[id];
        if thread.kind != IterKind::ThreadIndex {
            let what = format!("`{}` is not a thread", thread.name());
            return Err(context.stage_error(stage, what).note("make one with `thread_axis(None, \"threadIdx.x\")`"));
        }
        if !matches!(axis.kind, IterKind::DataPar | IterKind::CommReduce) {
            let what = format!(
                "`{}` of stage `{}` is neither a dimension nor an axis of a reduction",
                axis.name(),
                stage.name()
            );
            return Err(context.stage_error(stage, what));
        }
        if let Some(attr) = stage.attr(axis)
            && (attr.annotation.is_some() || attr.thread.is_some())
        {
            let what = format!("`{}` of stage `{}` was {}", axis.name(), stage.name(), attr.note);
            return Err(context.stage_error(stage, what));
        }
        let is_virtual = thread.thread_tag.starts_with("vthread") || thread.thread_tag == "cthread";
        if is_virtual && axis.kind == IterKind::CommReduce {
            let what = format!(
                "`{}` of stage `{}` is an axis of a reduction, and `{}` is not a thread of its own",
                axis.name(),
                stage.name(),
                thread.thread_tag
            );
            return Err(context.stage_error(stage, what).note("copies of one thread do not reduce: leave it a loop"));
        }
        let other = stage.leaves.iter().find(|leaf| stage.thread_of(leaf) == Some(thread));
        if let Some(other) = other {
            let what =
                format!("`{}` of stage `{}` has the thread `{}` already", other.name(), stage.name(), thread.name());
            return Err(context.stage_error(stage, what));
        }
        let attr = self.attr(id, axis);
        attr.thread = Some(thread.clone());
        attr.note = format!("bound to {}{}", thread.thread_tag, context.at_place());
        Ok(self)
    }

    /// Launches threads around all steps of a scan.
    ///
    /// # Errors
    /// Returns an error if the stage is not a scan, if an element is not a thread, or on a second
    /// call.
    #[track_caller]
    pub fn env_threads(&mut self, threads: &[IterVar]) -> Result<&mut Self> {
        let context = Context::new("env_threads");
        let id = self.checked(&context)?;
        let stage = &self.schedule[id];
        let is_scan = stage.op.as_ref().is_some_and(|op| matches!(**op, OperationNode::Scan { .. }));
        if !is_scan {
            return Err(context
                .error(format!("`{}` is not a scan", stage.name()))
                .note("bind loops to threads with `bind`"));
        }
        if !stage.env_threads.is_empty() {
            return Err(context.error(format!("`{}` has its threads already", stage.name())));
        }
        if let Some(other) = threads.iter().find(|axis| axis.kind != IterKind::ThreadIndex) {
            return Err(context.error(format!("`{}` is not a thread", other.name())));
        }
        let stage = &mut self.schedule[id];
        stage.env_threads = threads.to_vec();
        stage.all_axes.extend_from_slice(threads);
        Ok(self)
    }

    /// Adds a hint to a loop: `auto_unroll_max_step`, `unroll_explicit`, `parallel_launch_point`,
    /// `parallel_stride_pattern`, `parallel_barrier_when_finish`, `import_llvm`, `import_c`,
    /// `debug_skip_region`, or any key that a user-defined pass reads; `unroll` and `vectorize` are
    /// the primitives.
    ///
    /// # Errors
    /// Returns an error if the axis is not a loop of the stage, and the errors of the primitives.
    #[track_caller]
    pub fn pragma(&mut self, axis: &IterVar, key: &str, value: impl Into<Expr>) -> Result<&mut Self> {
        let context = Context::new("pragma");
        match key {
            "unroll" => return self.annotate(&context, axis, Annotation::Unrolled),
            "vectorize" => return self.annotate(&context, axis, Annotation::Vectorized),
            _ => {}
        }
        let (id, _) = self.leaf(&context, axis)?;
        let stage = &self.schedule[id];
        if key.is_empty() {
            return Err(context.stage_error(stage, format!("an empty key for `{}`", axis.name())));
        }
        let value = value.into();
        let attr = self.attr(id, axis);
        attr.pragmas.retain(|(old, _)| old != key);
        attr.pragmas.push((key.to_owned(), value));
        if attr.annotation.is_none() && attr.thread.is_none() {
            attr.note = format!("given the pragma `{key}`{}", context.at_place());
        }
        Ok(self)
    }

    /// Prefetches the elements that the stage reads from a tensor, or writes to its own, `ahead`
    /// iterations of the loop in advance.
    ///
    /// # Errors
    /// Returns an error if the axis is not a loop of the stage, if the stage neither reads nor
    /// computes the tensor, or if the distance is not an integer.
    #[track_caller]
    pub fn prefetch(&mut self, tensor: &Tensor, axis: &IterVar, ahead: impl Into<Expr>) -> Result<&mut Self> {
        let context = Context::new("prefetch");
        let (id, _) = self.leaf(&context, axis)?;
        let tensor = self.schedule.current(tensor);
        let stage = &self.schedule[id];
        let is_read = crate::te::operation::input_tensors(stage.operation()).iter().any(|input| input.is(&tensor));
        if !is_read && tensor.op != *stage.operation() {
            let what = format!("stage `{}` does not read `{}`", stage.name(), tensor.name());
            return Err(context.stage_error(stage, what));
        }
        let ahead = as_index(ahead.into());
        if ahead.dtype() != I64 {
            return Err(context.stage_error(stage, format!("the distance for `{}` is not an integer", axis.name())));
        }
        let attr = self.attr(id, axis);
        attr.prefetch.push((tensor, ahead));
        if attr.annotation.is_none() && attr.thread.is_none() {
            attr.note = format!("given a prefetch{}", context.at_place());
        }
        Ok(self)
    }

    /// Replaces a loop and all loops inside it by an instruction. Lowering verifies that the loops
    /// and the instruction compute the same.
    ///
    /// # Errors
    /// Returns an error if the axis is not a loop of the stage or has another annotation, if
    /// another loop of the stage is tensorized, or if inner loops are bound or annotated.
    #[track_caller]
    pub fn tensorize(&mut self, axis: &IterVar, intrin: &TensorIntrin) -> Result<&mut Self> {
        let context = Context::new("tensorize");
        let (id, position) = self.leaf(&context, axis)?;
        self.check_annotation(&context, id, axis, Annotation::Tensorized)?;
        let stage = &self.schedule[id];
        for (index, leaf) in stage.leaves.iter().enumerate().filter(|(_, leaf)| *leaf != axis) {
            let Some(attr) = stage.attr(leaf) else { continue };
            let other = attr.annotation == Some(Annotation::Tensorized);
            let inside = index > position && (attr.annotation.is_some() || attr.thread.is_some());
            if other || inside {
                let what = format!("`{}` of stage `{}` was {}", leaf.name(), stage.name(), attr.note);
                let note = if other {
                    "one loop of a stage is tensorized, with all loops inside"
                } else {
                    "it is inside the loop that the instruction replaces"
                };
                return Err(context.stage_error(stage, what).note(note));
            }
        }
        let attr = self.attr(id, axis);
        attr.annotation = Some(Annotation::Tensorized);
        attr.intrin = Some(intrin.clone());
        attr.note = format!("tensorized{}", context.at_place());
        Ok(self)
    }
}
