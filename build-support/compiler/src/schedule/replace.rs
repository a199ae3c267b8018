//! Replacement of the operation of a tensor by an equivalent one.

use std::collections::HashMap;

use super::primitives::Context;
use super::stage::{Schedule, Stage, StageId};
use crate::error::Result;
use crate::ir::Operation;
use crate::te::operation::input_tensors;

impl Schedule {
    /// Like [`replace`](Self::replace), with an operation that reads the results of others, which
    /// become stages before it, in this order. Returns those stages.
    #[track_caller]
    pub(crate) fn replace_through(
        &mut self,
        id: StageId,
        steps: &[Operation],
        operation: &Operation,
    ) -> Result<Vec<StageId>> {
        self.check_unused(&Context::new("replace"), id)?;
        let before = steps.iter().map(|step| self.insert_stage(Stage::of(step), id, false)).collect();
        self.replace(id, operation)?;
        Ok(before)
    }

    /// Makes a stage compute its tensors by another operation with the same values. The operation
    /// reads tensors of this schedule; stages without readers are then removed. The loops of the
    /// stage are reset.
    ///
    /// # Errors
    /// Returns an error for an operation with other results or with inputs that the schedule does
    /// not compute, and for loops that are annotated, or in which a stage is computed.
    #[track_caller]
    pub fn replace(&mut self, id: StageId, operation: &Operation) -> Result<()> {
        let context = Context::new("replace");
        self.check_unused(&context, id)?;
        let old = self[id].operation().clone();
        let (before, after) = (old.outputs(), operation.outputs());
        let is_same = before.len() == after.len()
            && before.iter().zip(&after).all(|(a, b)| {
                a.dtype == b.dtype
                    && a.shape.len() == b.shape.len()
                    && a.shape
                        .iter()
                        .zip(b.shape.iter())
                        .all(|(a, b)| kernpack::structural::equal(&a, &b).unwrap_or(false))
            });
        if !is_same {
            return Err(context.error(format!("`{}` has other results than `{}`", operation.name(), old.name())));
        }
        for input in input_tensors(operation) {
            let computed = self.stage_of(&input.op).filter(|stage| self.order.contains(stage));
            if computed.is_none_or(|stage| self[stage].operation() != &input.op) {
                return Err(context
                    .error(format!("`{}` reads `{}`", operation.name(), input.name()))
                    .note("an operation that is put into a schedule reads tensors as the schedule computes them now"));
            }
        }
        let why = format!("replaced by `{}`{}", operation.name(), context.at_place());
        self.restart(id, operation, &why);
        self.redirect(&mut HashMap::from([(old, operation.clone())]));
        // In reverse order: stages that only removed stages read are also removed.
        for unused in self.order.clone().into_iter().rev() {
            let stage = &self[unused];
            if !stage.is_output && !stage.is_placeholder() && self.consumers(unused).is_empty() {
                if let Some(group) = stage.group {
                    self[group].num_children -= 1;
                }
                self.order.retain(|other| *other != unused);
            }
        }
        Ok(())
    }
}
