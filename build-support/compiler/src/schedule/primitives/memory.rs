//! The memory of stages: scope, alignment, double buffers, conditions of stores.

use super::handle::{Context, StageHandle};
use crate::error::Result;
use crate::ir::{DataTypeExt, Expr, IterVar, OperationNode};
use crate::schedule::stage::Attach;

/// Scopes of memory, without their tags.
const SCOPES: [&str; 4] = ["global", "shared", "warp", "local"];

/// Whether a scope is known; a tag may follow after a dot (`local.accumulator`).
pub(crate) fn check_scope(context: &Context, scope: &str) -> Result<()> {
    let base = scope.split_once('.').map_or(scope, |(base, _)| base);
    if SCOPES.contains(&base) {
        return Ok(());
    }
    Err(context.error(format!("unknown scope `{scope}`")).note("there are global, shared, warp and local"))
}

impl StageHandle<'_> {
    /// Where the memory of the tensor is: `global`, `shared`, `warp`, `local`; else it follows from the threads around the stage.
    ///
    /// # Errors
    /// An unknown scope; a tensor that is an argument in another scope than `global`.
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

    /// Only elements for which the condition holds are stored; whether that is right is up to the caller.
    ///
    /// # Errors
    /// Something that is no scalar truth value.
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

    /// The stride of a dimension in memory becomes a multiple of `factor` plus `offset`, in elements.
    ///
    /// # Errors
    /// An axis that is no dimension of the tensor, a factor below 1, a negative offset; an argument of the function.
    #[track_caller]
    pub fn storage_align(&mut self, axis: &IterVar, factor: i64, offset: i64) -> Result<&mut Self> {
        let context = Context::new("storage_align");
        let id = self.checked(&context)?;
        let stage = &self.schedule[id];
        let is_dimension = matches!(stage.op.as_deref(), Some(OperationNode::Compute { axes, .. }) if axes.iter().any(|own| own == *axis));
        if !is_dimension {
            let what = format!("`{}` is no dimension of `{}`", axis.name(), stage.name());
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

    /// Doubles the memory: the part for the next iteration of the loop around it is computed while this one's is read.
    ///
    /// # Errors
    /// An output, an input. That the stage is computed in a loop is checked when the schedule is normalized.
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
