//! Fallbacks for functions that the loader did not provide.
//!
//! The variables with functions of the runtime are set by the loaders of Apache TVM and of
//! kernpack; the stock libtvm_ffi alone sets none. Then the functions that it exports are found by
//! name. It has neither a thread pool nor workspaces: loops run in one thread, and memory comes
//! from the C library.

use inkwell::AddressSpace;
use inkwell::module::Linkage;
use inkwell::values::{FunctionValue, PointerValue};

use super::CodeGenLLVM;
use super::emit::Value;
use super::runtime::Runtime;
use crate::error::{Result, fail};

/// The alignment of workspaces, in bytes.
const ALIGNMENT: u64 = 64;

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// The function in a variable of the loader, or its fallback while that variable is null.
    pub(super) fn or_stand_in(&mut self, told: PointerValue<'ctx>, function: Runtime) -> Result<PointerValue<'ctx>> {
        let stand_in = self.stand_in(function)?;
        let is_missing = self.builder.build_is_null(told, "")?;
        let address = stand_in.as_global_value().as_pointer_value();
        Ok(self.builder.build_select(is_missing, address, told, "")?.into_pointer_value())
    }

    fn stand_in(&mut self, function: Runtime) -> Result<FunctionValue<'ctx>> {
        let write = match function {
            Runtime::ParallelLaunch => Self::launch_alone,
            Runtime::ParallelBarrier => Self::no_barrier,
            Runtime::AllocWorkspace => Self::alloc_alone,
            Runtime::FreeWorkspace => Self::free_alone,
            _ => {
                let exported = self.direct(function, "");
                exported.set_linkage(Linkage::ExternalWeak);
                return Ok(exported);
            }
        };
        let name = format!("__kernpack_alone.{}", function.name());
        if let Some(known) = self.module.get_function(&name) {
            return Ok(known);
        }
        let here = self.current_block()?;
        let made = self.module.add_function(&name, self.runtime_type(function), Some(Linkage::Private));
        self.set_function_attributes(made);
        self.builder.position_at_end(self.context.append_basic_block(made, "entry"));
        write(self, &made.get_params())?;
        self.builder.position_at_end(here);
        Ok(made)
    }

    /// Runs all iterations in one task.
    fn launch_alone(&mut self, params: &[Value<'ctx>]) -> Result<()> {
        let &[Value::PointerValue(lambda), data, _] = params else { fail!(Internal, "the parameters of a launch") };
        let (pointer, int) = (self.pointer_type(), self.context.i32_type());
        let environment = self.context.struct_type(&[pointer.into(), int.into()], false);
        let place = self.builder.build_alloca(environment, "environment")?;
        self.builder.build_store(place, pointer.const_null())?;
        let count = self.bytes_behind(place, 8)?;
        self.builder.build_store(count, int.const_int(1, false))?;
        let ty = int.fn_type(&[int.into(), pointer.into(), pointer.into()], false);
        let args = [int.const_zero().into(), place.into(), data.into()];
        let call = self.builder.build_indirect_call(ty, lambda, &args, "")?;
        self.builder.build_return(call.try_as_basic_value().basic().as_ref().map(|status| status as _))?;
        Ok(())
    }

    /// With one task, there is nothing to wait for.
    fn no_barrier(&mut self, _: &[Value<'ctx>]) -> Result<()> {
        self.builder.build_return(Some(&self.context.i32_type().const_zero()))?;
        Ok(())
    }

    fn alloc_alone(&mut self, params: &[Value<'ctx>]) -> Result<()> {
        let &[_, _, Value::IntValue(bytes), ..] = params else { fail!(Internal, "the parameters of a workspace") };
        let (pointer, wide) = (self.pointer_type(), self.context.i64_type());
        let function = self.module.get_function("aligned_alloc").unwrap_or_else(|| {
            let ty = pointer.fn_type(&[wide.into(), wide.into()], false);
            self.module.add_function("aligned_alloc", ty, Some(Linkage::External))
        });
        // The size has to be a multiple of the alignment.
        let rounded = self.builder.build_int_add(bytes, wide.const_int(ALIGNMENT - 1, false), "")?;
        let rounded = self.builder.build_and(rounded, wide.const_int(!(ALIGNMENT - 1), false), "")?;
        let args = [wide.const_int(ALIGNMENT, false).into(), rounded.into()];
        let call = self.builder.build_direct_call(function, &args, "")?;
        let Some(Value::PointerValue(memory)) = call.try_as_basic_value().basic() else {
            fail!(Internal, "memory that is not a pointer")
        };
        let current = self.builder.get_insert_block().and_then(|block| block.get_parent());
        let Some(current) = current else { fail!(Internal, "memory outside of a function") };
        let (none, done) =
            (self.context.append_basic_block(current, "none"), self.context.append_basic_block(current, "done"));
        let is_null = self.builder.build_is_null(memory, "")?;
        self.builder.build_conditional_branch(is_null, none, done)?;
        self.builder.position_at_end(none);
        let kind = self.string("MemoryError");
        let message = self.string("out of memory for a workspace of a kernel");
        self.call_runtime(Runtime::Raise, &[kind.into(), message.into()])?;
        self.builder.build_unconditional_branch(done)?;
        self.builder.position_at_end(done);
        self.builder.build_return(Some(&memory))?;
        Ok(())
    }

    fn free_alone(&mut self, params: &[Value<'ctx>]) -> Result<()> {
        let &[_, _, pointer] = params else { fail!(Internal, "the parameters of a workspace") };
        let function = self.module.get_function("free").unwrap_or_else(|| {
            let ty = self.context.void_type().fn_type(&[self.context.ptr_type(AddressSpace::default()).into()], false);
            self.module.add_function("free", ty, Some(Linkage::External))
        });
        self.builder.build_direct_call(function, &[pointer.into()], "")?;
        self.builder.build_return(Some(&self.context.i32_type().const_zero()))?;
        Ok(())
    }
}
