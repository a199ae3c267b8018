//! Blocks, branches, loops, and exits of a function.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::llvm_sys::core::{LLVMMDNodeInContext2, LLVMMetadataAsValue, LLVMSetMetadata, LLVMValueAsMetadata};
use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use inkwell::values::{AsValueRef, InstructionValue, IntValue, MetadataValue};

use super::CodeGenLLVM;
use super::emit::Value;
use super::state::{Cleanup, Convention, LoopFrame};
use crate::error::{CompileError, ErrorKind, Result, fail};
use crate::ir::{DataTypeExt, Expr, Var};

/// LLVM metadata of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LoopHints {
    /// Prevents unrolling.
    pub(super) no_unroll: bool,
    /// Requests full unrolling.
    pub(super) unroll: bool,
    /// The unroll factor.
    pub(super) unroll_count: Option<i64>,
    /// Prevents vectorization, because the schedule has decided on vectors.
    pub(super) no_vectorize: bool,
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Appends a block to the current function.
    pub(super) fn new_block(&self, name: &str) -> BasicBlock<'ctx> {
        match (self.state.function, self.builder.get_insert_block()) {
            (Some(function), _) => self.context.append_basic_block(function, name),
            (None, Some(block)) => self.context.insert_basic_block_after(block, name),
            (None, None) => unreachable!("blocks are made inside of functions"),
        }
    }

    /// The block to which instructions are added.
    pub(super) fn current_block(&self) -> Result<BasicBlock<'ctx>> {
        self.builder
            .get_insert_block()
            .ok_or_else(|| CompileError::new(ErrorKind::Internal, "an instruction outside of a function"))
    }

    /// Ends the current block with a branch, and returns the block.
    pub(super) fn jump(&self, to: BasicBlock<'ctx>) -> Result<BasicBlock<'ctx>> {
        let from = self.current_block()?;
        self.builder.build_unconditional_branch(to)?;
        Ok(from)
    }

    /// Ends the current block with a conditional branch. `is_likely`: the condition nearly always
    /// holds.
    pub(super) fn branch_if(
        &self,
        condition: IntValue<'ctx>,
        then_block: BasicBlock<'ctx>,
        else_block: BasicBlock<'ctx>,
        is_likely: bool,
    ) -> Result<()> {
        let branch = self.builder.build_conditional_branch(condition, then_block, else_block)?;
        if is_likely {
            let weight = |weight: u64| self.context.i32_type().const_int(weight, false).into();
            let name = self.context.metadata_string("branch_weights");
            let node = self.context.metadata_node(&[name.into(), weight(1 << 20), weight(1)]);
            let _ = branch.set_metadata(node, self.context.get_kind_id("prof"));
        }
        Ok(())
    }

    /// Starts an unreachable block for the following code, which LLVM removes.
    pub(super) fn after_jump(&self) {
        let dead = self.new_block("dead");
        self.builder.position_at_end(dead);
    }

    /// Emits a loop over `begin, begin + step, ..` below `end`; the body gets the variable's value.
    pub(super) fn for_range(
        &mut self,
        var: &Var,
        (begin, end, step): (IntValue<'ctx>, IntValue<'ctx>, IntValue<'ctx>),
        hints: LoopHints,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let (head, inside) = (self.new_block(&format!("for_{}", var.name())), self.new_block("body"));
        let (latch, after) = (self.new_block("next"), self.new_block("end"));
        let before = self.jump(head)?;
        self.builder.position_at_end(head);
        let phi = self.builder.build_phi(begin.get_type(), var.name())?;
        let index = phi.as_basic_value().into_int_value();
        let predicate = if var.dtype().is_uint() { IntPredicate::ULT } else { IntPredicate::SLT };
        let more = self.builder.build_int_compare(predicate, index, end, "")?;
        self.branch_if(more, inside, after, true)?;
        self.builder.position_at_end(inside);
        self.state.vars.insert(var.clone(), index.into());
        let cleanups = self.state.cleanups.len();
        self.state.loops.push(LoopFrame { break_to: after, continue_to: latch, cleanups });
        let done = body(self);
        self.state.loops.pop();
        self.leave_scope(cleanups)?;
        done?;
        self.jump(latch)?;
        self.builder.position_at_end(latch);
        let next = self.builder.build_int_nsw_add(index, step, "")?;
        let back = self.builder.build_unconditional_branch(head)?;
        self.annotate_loop(back, hints);
        phi.add_incoming(&[(&begin, before), (&next, latch)]);
        self.builder.position_at_end(after);
        Ok(())
    }

    /// Attaches loop metadata to the backward branch.
    pub(super) fn annotate_loop(&self, back: InstructionValue<'ctx>, hints: LoopHints) {
        let context = self.context;
        let flag = |name: &str| context.metadata_node(&[context.metadata_string(name).into()]);
        let mut properties = vec![flag("llvm.loop.mustprogress")];
        if hints.no_unroll {
            properties.push(flag("llvm.loop.unroll.disable"));
        }
        if hints.unroll {
            properties.push(flag("llvm.loop.unroll.full"));
        }
        if let Some(count) = hints.unroll_count {
            let name = context.metadata_string("llvm.loop.unroll.count");
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let count = context.i32_type().const_int(u64::from(count), false);
            properties.push(context.metadata_node(&[name.into(), count.into()]));
        }
        if hints.no_vectorize {
            let name = context.metadata_string("llvm.loop.vectorize.enable");
            let no = context.bool_type().const_zero();
            properties.push(context.metadata_node(&[name.into(), no.into()]));
        }
        self.set_loop_id(back, &properties);
    }

    /// Sets the metadata node of a loop, whose first operand is the node itself to make it
    /// distinct.
    fn set_loop_id(&self, back: InstructionValue<'ctx>, properties: &[MetadataValue<'ctx>]) {
        let kind = self.context.get_kind_id("llvm.loop");
        let raw = self.context.raw();
        // SAFETY: all nodes live in this context. The temporary node is replaced by the node that
        // contains it, which frees the temporary one.
        unsafe {
            let mut nodes = vec![LLVMTemporaryMDNode(raw, core::ptr::null_mut(), 0)];
            nodes.extend(properties.iter().map(|property| LLVMValueAsMetadata(property.as_value_ref())));
            let temporary = nodes[0];
            let node = LLVMMDNodeInContext2(raw, nodes.as_mut_ptr(), nodes.len());
            LLVMMetadataReplaceAllUsesWith(temporary, node);
            LLVMSetMetadata(back.as_value_ref(), kind, LLVMMetadataAsValue(raw, node));
        }
    }

    /// Ends the current iteration, or the loop.
    pub(super) fn leave_loop(&mut self, is_break: bool) -> Result<()> {
        let Some(frame) = self.state.loops.last() else {
            fail!(Lower, "`{}` outside of a loop", if is_break { "break_loop" } else { "continue_loop" })
        };
        let (to, cleanups) = (if is_break { frame.break_to } else { frame.continue_to }, frame.cleanups);
        self.free_down_to(cleanups)?;
        self.jump(to)?;
        self.after_jump();
        Ok(())
    }

    /// Frees the workspaces above a number of them, but keeps their records.
    fn free_down_to(&mut self, count: usize) -> Result<()> {
        for index in (count..self.state.cleanups.len()).rev() {
            let cleanup = &self.state.cleanups[index];
            let (device, pointer) = (cleanup.device, cleanup.pointer);
            self.free_workspace(device, pointer)?;
        }
        Ok(())
    }

    /// Frees the workspaces that a body allocated and did not free, at its end.
    pub(super) fn leave_scope(&mut self, count: usize) -> Result<()> {
        if self.state.cleanups.len() > count {
            self.free_down_to(count)?;
            self.state.cleanups.truncate(count);
        }
        Ok(())
    }

    /// Records a workspace that has to be freed on errors.
    pub(super) fn note_workspace(
        &mut self,
        var: &Var,
        device: (Value<'ctx>, Value<'ctx>),
        pointer: inkwell::values::PointerValue<'ctx>,
    ) {
        self.state.cleanups.push(Cleanup { device, pointer, var: var.clone(), block: None });
    }

    /// Removes the record of a workspace that the program frees itself.
    pub(super) fn forget_workspace(&mut self, pointer: &Expr) {
        if let Some(var) = Var::of(pointer)
            && let Some(index) = self.state.cleanups.iter().rposition(|cleanup| cleanup.var == var)
        {
            self.state.cleanups.remove(index);
            // The blocks of later workspaces would free it again.
            self.state.cleanups.iter_mut().skip(index).for_each(|cleanup| cleanup.block = None);
        }
    }

    /// The block for errors at this point: frees all workspaces, then returns.
    pub(super) fn failure_block(&mut self) -> Result<BasicBlock<'ctx>> {
        let count = self.state.cleanups.len();
        let mut next = match self.state.failure {
            Some(block) => block,
            None => fail!(Internal, "an error outside of a function"),
        };
        let here = self.current_block()?;
        for index in 0..count {
            if let Some(block) = self.state.cleanups[index].block {
                next = block;
                continue;
            }
            let block = self.new_block("clean_up");
            self.builder.position_at_end(block);
            let cleanup = &self.state.cleanups[index];
            let (device, pointer) = (cleanup.device, cleanup.pointer);
            let (free, freed) = (self.new_block("free"), next);
            let is_null = self.builder.build_is_null(pointer, "")?;
            self.builder.build_conditional_branch(is_null, freed, free)?;
            self.builder.position_at_end(free);
            self.free_workspace(device, pointer)?;
            self.builder.build_unconditional_branch(freed)?;
            self.state.cleanups[index].block = Some(block);
            next = block;
        }
        self.builder.position_at_end(here);
        Ok(next)
    }

    /// Ends the function with an error that is already raised.
    pub(super) fn fail_here(&mut self) -> Result<()> {
        let failure = self.failure_block()?;
        self.jump(failure)?;
        self.after_jump();
        Ok(())
    }

    /// Continues if a status is 0; otherwise ends the function with the error that was raised.
    pub(super) fn check_status(&mut self, status: Value<'ctx>) -> Result<()> {
        let Value::IntValue(status) = status else { fail!(Internal, "a status that is not an integer") };
        let zero = status.get_type().const_zero();
        let fine = self.builder.build_int_compare(IntPredicate::EQ, status, zero, "")?;
        let failure = self.failure_block()?;
        let next = self.new_block("called");
        self.branch_if(fine, next, failure, true)?;
        self.builder.position_at_end(next);
        Ok(())
    }

    /// Returns a value from the function.
    pub(super) fn return_value(&mut self, value: &Expr) -> Result<()> {
        let returned = self.data_value(value)?;
        let returned = match (self.state.convention, returned) {
            (Convention::Plain(None), _) => None,
            (Convention::Plain(Some(dtype)), value) if value.get_type() == self.value_type(dtype)? => Some(value),
            (Convention::Status, Value::IntValue(status)) if status.get_type().get_bit_width() == 32 => {
                Some(status.into())
            }
            (Convention::StatusAndValue, value) => {
                let function = self.state.function;
                let Some(Value::PointerValue(place)) = function.and_then(|function| function.get_last_param()) else {
                    fail!(Internal, "a function without a place for its value")
                };
                self.builder.build_store(place, value)?;
                Some(self.context.i32_type().const_zero().into())
            }
            _ => fail!(Lower, "`{}` returns {}, which is not its type", self.state.name, value.dtype().short_name()),
        };
        self.free_down_to(0)?;
        self.leave_function(returned)?;
        self.after_jump();
        Ok(())
    }

    /// Branches to the end of the function.
    pub(super) fn leave_function(&mut self, value: Option<Value<'ctx>>) -> Result<()> {
        let Some(exit) = self.state.exit else { fail!(Internal, "a return outside of a function") };
        let from = self.jump(exit)?;
        if let Some(value) = value {
            self.state.returns.push((value, from));
        }
        Ok(())
    }
}
