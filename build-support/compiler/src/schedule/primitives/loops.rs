//! Transformations of loops: split, tile, fuse, reorder.

use super::handle::{Context, StageHandle};
use crate::error::Result;
use crate::ir::{DataTypeExt, Expr, IterKind, IterVar, IterVarNode, OperationNode, Var};
use crate::schedule::relations::{Relation, Tail};
use crate::te::exprs::{as_index, describe};

fn made(name: &str, kind: IterKind, place: &str) -> IterVar {
    IterVar::from_node(IterVarNode {
        dom: None,
        var: Var::index(name),
        kind,
        thread_tag: "".into(),
        span: place.into(),
    })
}

fn kind_name(kind: IterKind) -> &'static str {
    match kind {
        IterKind::DataPar => "a dimension",
        IterKind::ThreadIndex => "a thread",
        IterKind::CommReduce => "an axis of a reduction",
        IterKind::Ordered => "time",
        IterKind::Opaque => "opaque",
    }
}

impl StageHandle<'_> {
    /// Splits a loop into parts of `factor` iterations: `(outer, inner)`, where inner runs from 0
    /// to `factor`. If the extent may not be a multiple, the tail is guarded.
    ///
    /// # Errors
    /// Returns an error if the axis is not a loop of the stage; if the factor is not an integer, or
    /// not positive; or if the loop is already bound or annotated, or a stage is computed in it.
    #[track_caller]
    pub fn split(&mut self, axis: &IterVar, factor: impl Into<Expr>) -> Result<(IterVar, IterVar)> {
        self.split_loop(&Context::new("split"), axis, Some(factor.into()), None, Tail::Guard)
    }

    /// Splits a loop into `parts` parts of equal size: `(outer, inner)`, where outer runs from 0 to
    /// `parts`.
    ///
    /// # Errors
    /// Returns the errors of [`split`](Self::split).
    #[track_caller]
    pub fn split_nparts(&mut self, axis: &IterVar, parts: impl Into<Expr>) -> Result<(IterVar, IterVar)> {
        self.split_loop(&Context::new("split_nparts"), axis, None, Some(parts.into()), Tail::Guard)
    }

    /// [`split`](Self::split) with an explicit treatment of the tail.
    ///
    /// # Errors
    /// Returns the errors of [`split`](Self::split), and an error for [`Tail::ShiftInwards`] of a
    /// reduction axis, of a tensor that is a reduction, or of an axis that is not the tensor's own.
    #[track_caller]
    pub fn split_tail(&mut self, axis: &IterVar, factor: impl Into<Expr>, tail: Tail) -> Result<(IterVar, IterVar)> {
        self.split_loop(&Context::new("split_tail"), axis, Some(factor.into()), None, tail)
    }

    fn split_loop(
        &mut self,
        context: &Context,
        axis: &IterVar,
        factor: Option<Expr>,
        nparts: Option<Expr>,
        tail: Tail,
    ) -> Result<(IterVar, IterVar)> {
        let (id, position) = self.leaf(context, axis)?;
        let stage = &self.schedule[id];
        if !matches!(axis.kind, IterKind::DataPar | IterKind::CommReduce | IterKind::Ordered) {
            let what = format!("`{}` of stage `{}` is {}", axis.name(), stage.name(), kind_name(axis.kind));
            return Err(context.stage_error(stage, what));
        }
        self.schedule.check_free(context, id, axis)?;
        let (factor, nparts) = (factor.map(as_index), nparts.map(as_index));
        let what = if factor.is_some() { "factor" } else { "number of parts" };
        let stage = &self.schedule[id];
        if let Some(given) = factor.as_ref().or(nparts.as_ref()) {
            let dtype = given.dtype();
            if !dtype.is_integer() || !dtype.is_scalar() {
                let what = format!("the {what} for `{}` is of type {}", axis.name(), dtype.short_name());
                return Err(context.stage_error(stage, what).note("it is an integer"));
            }
            if given.as_int().is_some_and(|value| value <= 0) {
                let what = format!("the {what} for `{}` is {}", axis.name(), describe(given));
                return Err(context.stage_error(stage, what).note("it is 1 or more"));
            }
        }
        if tail == Tail::ShiftInwards {
            let is_plain = matches!(&**stage.operation(), OperationNode::Compute { axes, reduce_axes, .. }
                if reduce_axes.is_empty() && axes.iter().any(|own| own == *axis));
            if !is_plain {
                let what = format!("`{}` of stage `{}` cannot be shifted inwards", axis.name(), stage.name());
                return Err(context
                    .stage_error(stage, what)
                    .note("elements are computed twice: only dimensions, before they are split, of tensors without a reduction"));
            }
        }
        let place = context.place();
        let outer = made(&format!("{}.outer", axis.name()), axis.kind, &place);
        let inner = made(&format!("{}.inner", axis.name()), axis.kind, &place);
        let stage = &mut self.schedule[id];
        stage.relations.push(Relation::Split {
            parent: axis.clone(),
            outer: outer.clone(),
            inner: inner.clone(),
            factor,
            nparts,
            tail,
        });
        stage.leaves.splice(position..=position, [outer.clone(), inner.clone()]);
        stage.all_axes.extend([outer.clone(), inner.clone()]);
        let how = format!("split into `{}` and `{}`{}", outer.name(), inner.name(), context.at_place());
        stage.consumed.insert(axis.clone(), how);
        Ok((outer, inner))
    }

    /// Splits two loops and reorders both outer parts outside:
    /// `(x_outer, y_outer, x_inner, y_inner)`.
    ///
    /// # Errors
    /// Returns the errors of [`split`](Self::split) and [`reorder`](Self::reorder).
    #[track_caller]
    pub fn tile(
        &mut self,
        x: &IterVar,
        y: &IterVar,
        x_factor: impl Into<Expr>,
        y_factor: impl Into<Expr>,
    ) -> Result<(IterVar, IterVar, IterVar, IterVar)> {
        let context = Context::new("tile");
        // If the second axis is invalid, nothing is changed.
        let (id, _) = self.leaf(&context, y)?;
        self.schedule.check_free(&context, id, y)?;
        if x == y {
            let stage = &self.schedule[id];
            return Err(context.stage_error(stage, format!("`{}` is given twice", x.name())));
        }
        let before = self.schedule[id].clone();
        let tiled = (|| {
            let (x_outer, x_inner) = self.split_loop(&context, x, Some(x_factor.into()), None, Tail::Guard)?;
            let (y_outer, y_inner) = self.split_loop(&context, y, Some(y_factor.into()), None, Tail::Guard)?;
            self.reorder_loops(&context, &[x_outer.clone(), y_outer.clone(), x_inner.clone(), y_inner.clone()])?;
            Ok((x_outer, y_outer, x_inner, y_inner))
        })();
        if tiled.is_err() {
            self.schedule[id] = before;
        }
        tiled
    }

    /// Fuses two adjacent loops into one; if they are given in the reverse order, they are swapped.
    ///
    /// # Errors
    /// Returns an error for axes that are not loops of the stage, loops that are not adjacent or of
    /// different kinds (a reduction axis and a data dimension), or loops that are bound or
    /// annotated, or in which a stage is computed.
    #[track_caller]
    pub fn fuse(&mut self, outer: &IterVar, inner: &IterVar) -> Result<IterVar> {
        self.fuse_two(&Context::new("fuse"), outer, inner)
    }

    /// Fuses adjacent loops, from the outermost to the innermost, into one. A single loop is
    /// unchanged; without loops, creates a loop with one iteration outside of all others.
    ///
    /// # Errors
    /// Returns the errors of [`fuse`](Self::fuse).
    #[track_caller]
    pub fn fuse_all(&mut self, axes: &[IterVar]) -> Result<IterVar> {
        let context = Context::new("fuse_all");
        let Some((first, rest)) = axes.split_first() else {
            let id = self.checked(&context)?;
            let axis = made("singleton", IterKind::DataPar, &context.place());
            let stage = &mut self.schedule[id];
            if stage.is_placeholder() || stage.op.is_none() {
                return Err(context.stage_error(stage, format!("`{}` is not computed here", stage.name())));
            }
            stage.relations.push(Relation::Singleton { axis: axis.clone() });
            stage.all_axes.push(axis.clone());
            stage.leaves.insert(0, axis.clone());
            return Ok(axis);
        };
        let (id, _) = self.leaf(&context, first)?;
        let before = self.schedule[id].clone();
        let mut fused = first.clone();
        for axis in rest {
            fused = self.fuse_two(&context, &fused, axis).inspect_err(|_| self.schedule[id] = before.clone())?;
        }
        Ok(fused)
    }

    fn fuse_two(&mut self, context: &Context, outer: &IterVar, inner: &IterVar) -> Result<IterVar> {
        let (id, mut at_outer) = self.leaf(context, outer)?;
        let (_, mut at_inner) = self.leaf(context, inner)?;
        let (mut outer, mut inner) = (outer, inner);
        if at_inner < at_outer {
            (outer, inner) = (inner, outer);
            (at_outer, at_inner) = (at_inner, at_outer);
        }
        let stage = &self.schedule[id];
        let pair = format!("`{}` and `{}` of stage `{}`", outer.name(), inner.name(), stage.name());
        if at_inner != at_outer + 1 {
            let what = if outer == inner {
                format!("`{}` is given twice", outer.name())
            } else {
                format!("{pair} are not adjacent")
            };
            return Err(context.stage_error(stage, what).note("`reorder` makes loops adjacent"));
        }
        for axis in [outer, inner] {
            if !matches!(axis.kind, IterKind::DataPar | IterKind::CommReduce | IterKind::Ordered) {
                let what = format!("`{}` of stage `{}` is {}", axis.name(), stage.name(), kind_name(axis.kind));
                return Err(context.stage_error(stage, what));
            }
        }
        if outer.kind != inner.kind {
            let what =
                format!("{pair} are of different kinds: {} and {}", kind_name(outer.kind), kind_name(inner.kind));
            return Err(context.stage_error(stage, what));
        }
        self.schedule.check_free(context, id, outer)?;
        self.schedule.check_free(context, id, inner)?;
        let place = context.place();
        let fused = made(&format!("{}.{}.fused", outer.name(), inner.name()), outer.kind, &place);
        let stage = &mut self.schedule[id];
        stage.relations.push(Relation::Fuse { outer: outer.clone(), inner: inner.clone(), fused: fused.clone() });
        stage.leaves.splice(at_outer..=at_inner, [fused.clone()]);
        stage.all_axes.push(fused.clone());
        let how = format!("fused into `{}`{}", fused.name(), context.at_place());
        stage.consumed.insert(outer.clone(), how.clone());
        stage.consumed.insert(inner.clone(), how);
        Ok(fused)
    }

    /// Reorders the given loops within the positions that they occupy.
    ///
    /// # Errors
    /// Returns an error for axes that are not loops of the stage, a loop that is given twice, or
    /// the time axis of a scan.
    #[track_caller]
    pub fn reorder<'b>(&mut self, order: impl IntoIterator<Item = &'b IterVar>) -> Result<&mut Self> {
        let order: Vec<IterVar> = order.into_iter().cloned().collect();
        self.reorder_loops(&Context::new("reorder"), &order)?;
        Ok(self)
    }

    fn reorder_loops(&mut self, context: &Context, order: &[IterVar]) -> Result<()> {
        let id = self.checked(context)?;
        let mut positions = Vec::with_capacity(order.len());
        for (index, axis) in order.iter().enumerate() {
            let position = self.schedule.leaf_of(context, id, axis)?;
            let stage = &self.schedule[id];
            if order[..index].contains(axis) {
                return Err(context.stage_error(stage, format!("`{}` is given twice", axis.name())));
            }
            if !matches!(axis.kind, IterKind::DataPar | IterKind::CommReduce | IterKind::ThreadIndex) {
                let what = format!("`{}` of stage `{}` is {}", axis.name(), stage.name(), kind_name(axis.kind));
                return Err(context.stage_error(stage, what));
            }
            positions.push(position);
        }
        positions.sort_unstable();
        let stage = &mut self.schedule[id];
        for (position, axis) in positions.into_iter().zip(order) {
            stage.leaves[position] = axis.clone();
        }
        Ok(())
    }
}
