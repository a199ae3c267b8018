//! Packed functions: calls by name, and the release of their results.

use inkwell::AtomicOrdering;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Linkage;
use inkwell::values::{FunctionValue, GlobalValue, IntValue, PointerValue};
use inkwell::{AtomicRMWBinOp, IntPredicate};
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::Value;
use super::function::is_void;
use super::runtime::Runtime;
use crate::error::{Result, fail};
use crate::ir::{DataTypeExt, F64, I32, I64};

/// The first type index of objects.
const OBJECTS: u64 = 64;
/// The type index of floats.
const FLOAT: u64 = 3;
/// The reference counts of an object with one strong reference, and the weak one that all strong
/// ones share.
const BOTH_ONE: u64 = (1 << 32) | 1;

/// The callee of a packed call.
#[derive(Clone, Copy)]
pub(super) enum Callee<'a> {
    /// A function by its global name, or by its name in the imports of the library.
    Name(&'a str),
    /// A function by its C symbol.
    Symbol(&'a str),
}

/// The result of a successful call.
pub(super) struct Returned<'ctx> {
    pub(super) type_index: IntValue<'ctx>,
    pub(super) value: Value<'ctx>,
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Calls a packed function. The arguments are the values `begin .. end` of `stack`, the result
    /// is number `end`. On an error, ends the function with it.
    pub(super) fn call_packed(
        &mut self,
        callee: Callee<'_>,
        stack: PointerValue<'ctx>,
        (begin, end): (IntValue<'ctx>, IntValue<'ctx>),
        dtype: DataType,
    ) -> Result<Returned<'ctx>> {
        let (args, result) = (self.any_at(stack, begin)?, self.any_at(stack, end)?);
        let int = self.context.i32_type();
        let (ty, value) = (result, self.bytes_behind(result, 8)?);
        self.builder.build_store(ty, self.context.i64_type().const_zero())?;
        self.builder.build_store(value, self.context.i64_type().const_zero())?;
        let count = self.builder.build_int_sub(end, begin, "")?;
        let count = self.builder.build_int_cast_sign_flag(count, int, true, "")?;
        let status = match callee {
            Callee::Name(name) => {
                let function = self.packed_handle(name)?;
                self.call_runtime(Runtime::FunctionCall, &[function.into(), args.into(), count.into(), result.into()])?
            }
            Callee::Symbol(symbol) => {
                let none = self.pointer_type().const_null();
                self.external(symbol, &[none.into(), args.into(), count.into(), result.into()], I32, false)?
            }
        };
        self.check_status(status)?;
        let type_index = self.builder.build_load(int, ty, "")?.into_int_value();
        let value = self.returned(dtype, type_index, result)?;
        Ok(Returned { type_index, value })
    }

    /// Converts the result to a type; an object that is not itself the result is released.
    fn returned(
        &mut self,
        dtype: DataType,
        type_index: IntValue<'ctx>,
        result: PointerValue<'ctx>,
    ) -> Result<Value<'ctx>> {
        let payload = self.bytes_behind(result, 8)?;
        let wide = self.context.i64_type();
        if dtype.is_handle() && !is_void(dtype) {
            let value = self.builder.build_load(self.pointer_type(), payload, "")?;
            self.own(type_index, value.into_pointer_value())?;
            return Ok(value);
        }
        let whole: Value<'ctx> = self.builder.build_load(wide, payload, "")?;
        let value = if is_void(dtype) {
            self.context.i32_type().const_zero().into()
        } else if dtype.is_float() {
            let float = self.builder.build_load(self.context.f64_type(), payload, "")?;
            let converted = self.cast(I64, F64, whole)?;
            let index = self.context.i32_type().const_int(FLOAT, false);
            let is_float = self.builder.build_int_compare(IntPredicate::EQ, type_index, index, "")?;
            let value = self.select(is_float.into(), float, converted)?;
            self.cast(F64, dtype, value)?
        } else {
            self.cast(I64, dtype, whole)?
        };
        let Value::IntValue(address) = whole else { fail!(Internal, "a payload that is not an integer") };
        let object = self.builder.build_int_to_ptr(address, self.pointer_type(), "")?;
        let releaser = self.releaser()?;
        self.builder.build_direct_call(releaser, &[type_index.into(), object.into()], "")?;
        Ok(value)
    }

    /// Keeps a result until the function ends, or until the same call returns another one.
    fn own(&mut self, type_index: IntValue<'ctx>, object: PointerValue<'ctx>) -> Result<()> {
        let any = self.any_type();
        let place = self.stack_array(any, 1, 8, "result")?;
        self.clear_at_entry(place)?;
        self.release_at(place)?;
        self.builder.build_store(place, type_index)?;
        let payload = self.bytes_behind(place, 8)?;
        self.builder.build_store(payload, object)?;
        self.state.owned.push(place);
        Ok(())
    }

    /// Stores None to a location at the start of the function.
    fn clear_at_entry(&self, place: PointerValue<'ctx>) -> Result<()> {
        let here = self.current_block()?;
        let Some(end) = self.state.entry.and_then(|entry| entry.get_terminator()) else {
            fail!(Internal, "a result outside of a function")
        };
        self.builder.position_before(&end);
        self.builder.build_store(place, self.context.i64_type().const_zero())?;
        let payload = self.bytes_behind(place, 8)?;
        self.builder.build_store(payload, self.context.i64_type().const_zero())?;
        self.builder.position_at_end(here);
        self.mark_line();
        Ok(())
    }

    fn release_at(&mut self, place: PointerValue<'ctx>) -> Result<()> {
        let type_index = self.builder.build_load(self.context.i32_type(), place, "")?;
        let payload = self.bytes_behind(place, 8)?;
        let object = self.builder.build_load(self.pointer_type(), payload, "")?;
        let releaser = self.releaser()?;
        self.builder.build_direct_call(releaser, &[type_index.into(), object.into()], "")?;
        Ok(())
    }

    /// Releases the results of calls, at the end of the function.
    pub(super) fn release_owned(&mut self) -> Result<()> {
        for place in core::mem::take(&mut self.state.owned) {
            self.release_at(place)?;
        }
        Ok(())
    }

    /// The type of an FFI value in memory.
    pub(super) fn any_type(&self) -> inkwell::types::BasicTypeEnum<'ctx> {
        let (int, wide) = (self.context.i32_type(), self.context.i64_type());
        self.context.struct_type(&[int.into(), int.into(), wide.into()], false).into()
    }

    fn any_at(&self, stack: PointerValue<'ctx>, index: IntValue<'ctx>) -> Result<PointerValue<'ctx>> {
        // SAFETY: the program's slots are within the memory that it has taken.
        Ok(unsafe { self.builder.build_in_bounds_gep(self.any_type(), stack, &[index], "")? })
    }

    pub(super) fn bytes_behind(&self, pointer: PointerValue<'ctx>, bytes: u64) -> Result<PointerValue<'ctx>> {
        if bytes == 0 {
            return Ok(pointer);
        }
        let offset = self.context.i64_type().const_int(bytes, false);
        // SAFETY: a field of the struct that the pointer points to.
        Ok(unsafe { self.builder.build_in_bounds_gep(self.context.i8_type(), pointer, &[offset], "")? })
    }

    /// The handle of a packed function, which is looked up at its first call.
    fn packed_handle(&mut self, name: &str) -> Result<PointerValue<'ctx>> {
        let (handle, init) = self.handle_of(name)?;
        let place = handle.as_pointer_value();
        let known = self.builder.build_load(self.pointer_type(), place, "")?;
        if let Some(load) = super::emit::instruction(known) {
            // A thread that reads the handle also sees the function behind it.
            let ordered = load.set_atomic_ordering(AtomicOrdering::Acquire).and_then(|()| load.set_alignment(8));
            if let Err(error) = ordered {
                fail!(Internal, "an atomic load: {error}");
            }
        }
        let known = known.into_pointer_value();
        let (look_up, found) = (self.new_block("look_up"), self.new_block("found"));
        let before = self.current_block()?;
        let is_known = self.builder.build_is_not_null(known, "")?;
        self.branch_if(is_known, found, look_up, true)?;
        self.builder.position_at_end(look_up);
        let init = init.as_global_value().as_pointer_value();
        let status = self.call_runtime(Runtime::InitOnce, &[place.into(), init.into()])?;
        self.check_status(status)?;
        let new = self.builder.build_load(self.pointer_type(), place, "")?;
        let after = self.jump(found)?;
        self.builder.position_at_end(found);
        let phi = self.builder.build_phi(self.pointer_type(), "function")?;
        phi.add_incoming(&[(&known, before), (&new, after)]);
        Ok(phi.as_basic_value().into_pointer_value())
    }

    /// The variable for a packed function, and the function that initializes it.
    fn handle_of(&mut self, name: &str) -> Result<(GlobalValue<'ctx>, FunctionValue<'ctx>)> {
        if let Some(known) = self.handles.get(name) {
            return Ok(*known);
        }
        let here = self.current_block()?;
        let pointer = self.pointer_type();
        let handle = self.module.add_global(pointer, None, &format!(".tvm_func.{name}"));
        handle.set_linkage(Linkage::Internal);
        handle.set_initializer(&pointer.const_null());
        handle.set_alignment(8);
        let ty = self.context.i32_type().fn_type(&[pointer.into()], false);
        let init = self.module.add_function(&format!(".tvm_init.{name}"), ty, Some(Linkage::Internal));
        self.set_function_attributes(init);
        self.set_attribute(init, AttributeLoc::Function, "cold", 0);
        self.builder.position_at_end(self.context.append_basic_block(init, "entry"));
        self.unmark_line();
        let variable = self.library_variable();
        let context = self.builder.build_load(pointer, variable.as_pointer_value(), "")?;
        let text = self.string(name);
        let Some(out) = init.get_first_param() else { fail!(Internal, "a function without its parameter") };
        let status = self.call_runtime(Runtime::Lookup, &[context, text.into(), out])?;
        self.builder.build_return(Some(&status))?;
        self.builder.position_at_end(here);
        self.mark_line();
        self.handles.insert(name.to_owned(), (handle, init));
        Ok((handle, init))
    }

    /// `void release(i32 type_index, ptr object)`: releases a value if it is an object reference.
    /// The reference counts of objects are part of the ABI.
    fn releaser(&mut self) -> Result<FunctionValue<'ctx>> {
        const NAME: &str = "__kernpack_release";
        if let Some(function) = self.module.get_function(NAME) {
            return Ok(function);
        }
        let here = self.current_block()?;
        let (pointer, int, wide) = (self.pointer_type(), self.context.i32_type(), self.context.i64_type());
        let ty = self.context.void_type().fn_type(&[int.into(), pointer.into()], false);
        let function = self.module.add_function(NAME, ty, Some(Linkage::Internal));
        self.set_function_attributes(function);
        let params = function.get_params();
        let [Value::IntValue(type_index), Value::PointerValue(object)] = params[..] else {
            fail!(Internal, "the parameters of `{NAME}`")
        };
        let block = |name: &str| self.context.append_basic_block(function, name);
        let (entry, give_up, last, both, strong, weak, done) = (
            block("entry"),
            block("give_up"),
            block("last"),
            block("both"),
            block("strong"),
            block("weak"),
            block("done"),
        );
        let (strong_delete, weak_check) = (block("strong_delete"), block("weak_check"));
        let builder = &self.builder;
        let deleter_type = self.context.void_type().fn_type(&[pointer.into(), int.into()], false);
        let delete = |flags: u64, then: inkwell::basic_block::BasicBlock<'ctx>| -> Result<()> {
            builder.build_fence(AtomicOrdering::Acquire, false, "")?;
            let place = self.bytes_behind(object, 16)?;
            let deleter = builder.build_load(pointer, place, "")?.into_pointer_value();
            let call = block("call");
            let is_null = builder.build_is_null(deleter, "")?;
            builder.build_conditional_branch(is_null, then, call)?;
            builder.position_at_end(call);
            let flags = int.const_int(flags, false);
            builder.build_indirect_call(deleter_type, deleter, &[object.into(), flags.into()], "")?;
            builder.build_unconditional_branch(then)?;
            Ok(())
        };
        let give_up_counts = |amount: u64| {
            let amount = wide.const_int(amount, false);
            builder.build_atomicrmw(AtomicRMWBinOp::Sub, object, amount, AtomicOrdering::Release)
        };
        builder.position_at_end(entry);
        self.unmark_line();
        let first = int.const_int(OBJECTS, false);
        let is_object = builder.build_int_compare(IntPredicate::SGE, type_index, first, "")?;
        builder.build_conditional_branch(is_object, give_up, done)?;

        builder.position_at_end(give_up);
        let old = give_up_counts(1)?;
        let low = builder.build_int_truncate(old, int, "")?;
        let is_last = builder.build_int_compare(IntPredicate::EQ, low, int.const_int(1, false), "")?;
        builder.build_conditional_branch(is_last, last, done)?;

        builder.position_at_end(last);
        let alone = builder.build_int_compare(IntPredicate::EQ, old, wide.const_int(BOTH_ONE, false), "")?;
        builder.build_conditional_branch(alone, both, strong)?;
        builder.position_at_end(both);
        delete(3, done)?;

        builder.position_at_end(strong);
        builder.build_unconditional_branch(strong_delete)?;
        builder.position_at_end(strong_delete);
        delete(1, weak_check)?;
        builder.position_at_end(weak_check);
        let old = give_up_counts(1 << 32)?;
        let is_last = builder.build_int_compare(IntPredicate::EQ, old, wide.const_int(1 << 32, false), "")?;
        builder.build_conditional_branch(is_last, weak, done)?;
        builder.position_at_end(weak);
        delete(2, done)?;

        builder.position_at_end(done);
        builder.build_return(None)?;
        builder.position_at_end(here);
        self.mark_line();
        Ok(function)
    }
}
