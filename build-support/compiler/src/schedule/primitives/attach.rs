//! Attachment of stages: in a loop of a reader, inlined into the readers, or separately.

use super::handle::{Context, StageHandle, StageKey};
use crate::error::Result;
use crate::ir::{ExprNode, IterVar, OperationNode};
use crate::schedule::stage::{Attach, Schedule, StageId};

impl StageHandle<'_> {
    /// Computes the part of the tensor that one iteration of a loop of another stage needs, at the
    /// beginning of that iteration.
    ///
    /// # Errors
    /// Returns an error if the axis is not a loop of that stage; for a stage that is an output, an
    /// input or an update of a scan; for a stage of another group; or for stages that would be
    /// computed in each other. Readers outside of that loop are an error of bound inference.
    #[track_caller]
    pub fn compute_at(&mut self, parent: impl Into<StageKey>, axis: &IterVar) -> Result<&mut Self> {
        let context = Context::new("compute_at");
        let id = self.checked(&context)?;
        let parent = self.schedule.find(&parent.into()).map_err(|error| context.wrap(&error))?;
        let schedule = &mut *self.schedule;
        schedule.check_movable(&context, id)?;
        let name = schedule[id].name().to_owned();
        if parent == id {
            return Err(context.error(format!("`{name}` inside a loop of its own")));
        }
        schedule.leaf_of(&context, parent, axis)?;
        if schedule[id].is_output {
            let what = format!(
                "`{name}` is an output: all of it is computed, whatever the loop of `{}` needs",
                schedule[parent].name()
            );
            return Err(context
                .error(what)
                .note(format!("compute a copy of the part there: `cache_write(&{name}, \"global\")`")));
        }
        let mut next = Some(parent);
        while let Some(stage) = next {
            if stage == id || schedule.is_in_group(stage, id) {
                let what = format!("`{}` is computed in a loop of `{name}` itself", schedule[parent].name());
                return Err(context.error(what).note("of two stages one is computed in a loop of the other"));
            }
            next = schedule.point_of(stage).map(|(stage, _)| stage);
        }
        let group = schedule[id].group;
        let mut outer = Some(parent);
        let is_inside = loop {
            match outer {
                Some(stage) if schedule[stage].group == group => break true,
                Some(stage) => outer = schedule[stage].group,
                None => break false,
            }
        };
        if !is_inside {
            let what = format!("`{name}` and `{}` are in different groups", schedule[parent].name());
            return Err(context
                .error(what)
                .note("a stage is computed in loops of its own group and of groups inside it"));
        }
        let stage = &mut schedule[id];
        stage.attach = Attach::At { stage: parent, axis: axis.clone() };
        stage.attach_place = context.place();
        Ok(self)
    }

    /// Inlines the expression into every reader of the tensor.
    ///
    /// # Errors
    /// Returns an error for a stage that is an output, an input, a reduction, a scan or an extern
    /// operation, or for a reader that is not computed by an expression.
    #[track_caller]
    pub fn compute_inline(&mut self) -> Result<&mut Self> {
        let context = Context::new("compute_inline");
        let id = self.checked(&context)?;
        let schedule = &mut *self.schedule;
        schedule.check_movable(&context, id)?;
        schedule.check_inline(id).map_err(|error| context.wrap(&error))?;
        let stage = &mut schedule[id];
        stage.attach = Attach::Inline;
        stage.attach_place = context.place();
        Ok(self)
    }

    /// Computes the whole tensor separately, before its first reader.
    ///
    /// # Errors
    /// Returns an error for an update of a scan.
    #[track_caller]
    pub fn compute_root(&mut self) -> Result<&mut Self> {
        let context = Context::new("compute_root");
        let id = self.checked(&context)?;
        self.schedule.check_movable(&context, id)?;
        let stage = &mut self.schedule[id];
        stage.attach = Attach::Root;
        stage.attach_place = context.place();
        Ok(self)
    }
}

impl Schedule {
    /// Returns true if a stage is a part of a group, or of a group inside it.
    fn is_in_group(&self, stage: StageId, group: StageId) -> bool {
        let mut around = self[stage].group;
        while let Some(id) = around {
            if id == group {
                return true;
            }
            around = self[id].group;
        }
        false
    }

    fn check_movable(&self, context: &Context, id: StageId) -> Result<()> {
        let stage = &self[id];
        if matches!(stage.attach, Attach::ScanUpdate { .. }) {
            let what = format!("`{}` is what a scan updates itself with", stage.name());
            return Err(context.error(what).note("it is computed in the scan's loop over time"));
        }
        if stage.is_placeholder() {
            return Err(context.error(format!("`{}` is an input: it is not computed", stage.name())));
        }
        Ok(())
    }

    /// Checks that the expression of a stage can be inlined into its readers.
    pub(crate) fn check_inline(&self, id: StageId) -> Result<()> {
        use crate::error::{CompileError, ErrorKind};
        let stage = &self[id];
        let name = stage.name();
        let error = |what: String| CompileError::new(ErrorKind::Schedule, what).at(&stage.attach_place);
        let Some(OperationNode::Compute { bodies, .. }) = stage.op.as_deref() else {
            return Err(error(format!("`{name}` is not computed by an expression")));
        };
        if stage.is_output {
            return Err(
                error(format!("`{name}` is an output")).note("only tensors that are read by others are inlined")
            );
        }
        if bodies.iter().any(|body| matches!(*body, ExprNode::Reduce { .. })) {
            return Err(
                error(format!("`{name}` is a reduction")).note("compute it in a loop of its reader with `compute_at`")
            );
        }
        for reader in self.consumers(id) {
            if !matches!(&**self[reader].operation(), OperationNode::Compute { .. }) {
                let reader = self[reader].name();
                return Err(error(format!("`{name}` is read by `{reader}`, which is not computed by an expression")));
            }
        }
        Ok(())
    }
}
