//! The memory of stages: scope, alignment, double buffers, store predicates.

use super::handle::{Context, StageHandle};
use crate::error::Result;
use crate::ir::{DataTypeExt, Expr, IterVar, OperationNode};
use crate::schedule::stage::Attach;

/// Memory scopes, without their tags.
const SCOPES: [&str; 4] = ["global", "shared", "warp", "local"];

/// Checks that a scope is known; a tag may follow after a dot (`local.accumulator`).
pub(crate) fn check_scope(context: &Context, scope: &str) -> Result<()> {
    let base = scope.split_once('.').map_or(scope, |(base, _)| base);
    if SCOPES.contains(&base) {
        return Ok(());
    }
    Err(context.error(format!("unknown scope `{scope}`")).note("there are global, shared, warp and local"))
}

impl StageHandle<'_> {
    /// Sets the memory scope of the tensor: `global`, `shared`, `warp`, `local`. By default it is
    /// derived from the threads around the stage.
    ///
    /// # Errors
    /// Returns an error for an unknown scope, or for a tensor that is an argument in another scope
    /// than `global`.
    #[track_caller]
    pub fn set_scope(&mut self, scope: &str) -> Result<&mut Self> {
        let context = Context::new("set_scope");
        let id = self.checked(&context)?;
        check_scope(&context, scope)?;
        let stage = &mut self.schedule[id];
        if stage.op.is_none() {
            return Err(context.error("a group has no memory of its own").note("set the scope of its stages"));
        }
        if (stage.is_output || stage.is_placeholder()) && scope != "global" {
            let what = format!("`{}` is an argument of the function: its memory is the caller's", stage.name());
            return Err(context.error(what).note("`cache_read` and `cache_write` make a copy in another scope"));
        }
        scope.clone_into(&mut stage.scope);
        Ok(self)
    }

    /// Sets a condition for stores: only elements for which it holds are stored. The caller is
    /// responsible for the correctness of that.
    ///
    /// # Errors
    /// Returns an error if the condition is not a scalar truth value.
    #[track_caller]
    pub fn set_store_predicate(&mut self, condition: impl Into<Expr>) -> Result<&mut Self> {
        let context = Context::new("set_store_predicate");
        let id = self.checked(&context)?;
        let condition = condition.into();
        if !condition.dtype().is_bool() || !condition.dtype().is_scalar() {
            return Err(context.error(format!("a condition of type {}", condition.dtype().short_name())));
        }
        let stage = &mut self.schedule[id];
        if stage.op.is_none() {
            return Err(context.error("a group stores nothing itself").note("set the condition of its stages"));
        }
        stage.store_predicate = Some(condition);
        Ok(self)
    }

    /// Aligns the stride of a dimension in memory to a multiple of `factor`, plus `offset`, in
    /// elements.
    ///
    /// # Errors
    /// Returns an error for an axis that is not a dimension of the tensor, a factor below 1, a
    /// negative offset, or a tensor that is an argument of the function.
    #[track_caller]
    pub fn storage_align(&mut self, axis: &IterVar, factor: i64, offset: i64) -> Result<&mut Self> {
        let context = Context::new("storage_align");
        let id = self.checked(&context)?;
        let stage = &self.schedule[id];
        let is_dimension = matches!(stage.op.as_deref(), Some(OperationNode::Compute { axes, .. }) if axes.iter().any(|own| own == *axis));
        if !is_dimension {
            let what = format!("`{}` is not a dimension of `{}`", axis.name(), stage.name());
            return Err(context
                .stage_error(stage, what)
                .note("the axes of the tensor itself have strides, not the loops made of them"));
        }
        if factor < 1 || offset < 0 {
            let what = format!("a stride of `{}` that is a multiple of {factor} plus {offset}", axis.name());
            return Err(context.stage_error(stage, what).note("the factor is 1 or more, the offset 0 or more"));
        }
        if stage.is_output {
            let what = format!("`{}` is an argument of the function: its strides are the caller's", stage.name());
            return Err(context.error(what).note("`cache_write` makes a copy with strides of its own"));
        }
        self.attr(id, axis).align = Some((factor, offset));
        Ok(self)
    }

    /// Doubles the memory: the part for the next iteration of the loop around it is computed while
    /// that of the current one is read.
    ///
    /// # Errors
    /// Returns an error for an output or an input. Normalization of the schedule checks that the
    /// stage is computed in a loop.
    #[track_caller]
    pub fn double_buffer(&mut self) -> Result<&mut Self> {
        let context = Context::new("double_buffer");
        let id = self.checked(&context)?;
        let stage = &mut self.schedule[id];
        if stage.op.is_none() {
            return Err(context.error("a group has no memory of its own").note("double the memory of its stages"));
        }
        if stage.is_output || stage.is_placeholder() {
            let what = format!("`{}` is an argument of the function", stage.name());
            return Err(context.error(what).note("only memory inside the function is doubled"));
        }
        if matches!(stage.attach, Attach::Inline) {
            return Err(context.error(format!("`{}` is inlined: it has no memory", stage.name())));
        }
        stage.double_buffer = true;
        stage.double_buffer_place = context.place();
        Ok(self)
    }
}
