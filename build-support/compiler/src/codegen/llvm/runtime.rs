//! The functions of the runtime that code calls, and the ways to access them.

use inkwell::attributes::AttributeLoc;
use inkwell::module::Linkage;
use inkwell::types::{BasicType, BasicTypeEnum, FunctionType};
use inkwell::values::{FunctionValue, GlobalValue, PointerValue};
use inkwell::{AddressSpace, DLLStorageClass};

use super::CodeGenLLVM;
use super::emit::Value;
use crate::codegen::RuntimeSymbols;
use crate::error::{Result, fail};

/// A function of the runtime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Runtime {
    /// `TVMFFIFunctionCall(function, args, num_args, result)`.
    FunctionCall,
    /// `TVMFFIErrorSetRaisedFromCStrParts(kind, parts, num_parts)`.
    RaiseParts,
    /// `TVMFFIErrorSetRaisedFromCStr(kind, message)`.
    Raise,
    /// `TVMFFIEnvModLookupFromImports(library_ctx, name, out)`.
    Lookup,
    /// `TVMFFIHandleInitOnce(handle, init)`.
    InitOnce,
    /// `TVMBackendAllocWorkspace(device_type, device_id, bytes, code, bits)`.
    AllocWorkspace,
    /// `TVMBackendFreeWorkspace(device_type, device_id, pointer)`.
    FreeWorkspace,
    /// `TVMBackendParallelLaunch(lambda, data, num_task)`.
    ParallelLaunch,
    /// `TVMBackendParallelBarrier(task_id, environment)`.
    ParallelBarrier,
    /// `TVMFFIEnvModRegisterSystemLibSymbol(name, address)`.
    RegisterSymbol,
}

impl Runtime {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FunctionCall => "TVMFFIFunctionCall",
            Self::RaiseParts => "TVMFFIErrorSetRaisedFromCStrParts",
            Self::Raise => "TVMFFIErrorSetRaisedFromCStr",
            Self::Lookup => "TVMFFIEnvModLookupFromImports",
            Self::InitOnce => "TVMFFIHandleInitOnce",
            Self::AllocWorkspace => "TVMBackendAllocWorkspace",
            Self::FreeWorkspace => "TVMBackendFreeWorkspace",
            Self::ParallelLaunch => "TVMBackendParallelLaunch",
            Self::ParallelBarrier => "TVMBackendParallelBarrier",
            Self::RegisterSymbol => "TVMFFIEnvModRegisterSystemLibSymbol",
        }
    }

    /// Returns true if loaders set a variable with its address.
    fn has_variable(self) -> bool {
        !matches!(self, Self::RaiseParts | Self::RegisterSymbol)
    }
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    pub(super) fn runtime_type(&self, function: Runtime) -> FunctionType<'ctx> {
        let pointer: BasicTypeEnum<'ctx> = self.pointer_type().into();
        let int: BasicTypeEnum<'ctx> = self.context.i32_type().into();
        let wide: BasicTypeEnum<'ctx> = self.context.i64_type().into();
        let of = |result: Option<BasicTypeEnum<'ctx>>, params: &[BasicTypeEnum<'ctx>]| {
            let params: Vec<_> = params.iter().map(|param| (*param).into()).collect();
            match result {
                Some(result) => result.fn_type(&params, false),
                None => self.context.void_type().fn_type(&params, false),
            }
        };
        match function {
            Runtime::FunctionCall => of(Some(int), &[pointer, pointer, int, pointer]),
            Runtime::RaiseParts => of(None, &[pointer, pointer, int]),
            Runtime::Raise => of(None, &[pointer, pointer]),
            Runtime::Lookup => of(Some(int), &[pointer, pointer, pointer]),
            Runtime::InitOnce => of(Some(int), &[pointer, pointer]),
            Runtime::AllocWorkspace => of(Some(pointer), &[int, int, wide, int, int]),
            Runtime::FreeWorkspace => of(Some(int), &[int, int, pointer]),
            Runtime::ParallelLaunch => of(Some(int), &[pointer, pointer, int]),
            Runtime::ParallelBarrier => of(Some(int), &[int, pointer]),
            Runtime::RegisterSymbol => of(Some(int), &[pointer, pointer]),
        }
    }

    /// A pointer variable that the loader of the library sets.
    pub(super) fn context_variable(&self, name: &str) -> GlobalValue<'ctx> {
        if let Some(global) = self.module.get_global(name) {
            return global;
        }
        let global = self.module.add_global(self.pointer_type(), Some(AddressSpace::default()), name);
        global.set_linkage(Linkage::WeakAny);
        global.set_dll_storage_class(DLLStorageClass::Export);
        global.set_initializer(&self.pointer_type().const_null());
        global.set_alignment(8);
        global
    }

    /// The variable with the handle of the library that contains the code: its own, or the
    /// runtime's if the runtime is linked into it.
    pub(super) fn library_variable(&self) -> GlobalValue<'ctx> {
        let name = format!("{}_library_ctx", super::PREFIX);
        if !matches!(self.target.runtime, RuntimeSymbols::Prefixed(_)) {
            return self.context_variable(&name);
        }
        self.module.get_global(&name).unwrap_or_else(|| self.module.add_global(self.pointer_type(), None, &name))
    }

    /// A function of the runtime by its symbol.
    pub(super) fn direct(&self, function: Runtime, prefix: &str) -> FunctionValue<'ctx> {
        let symbol = format!("{prefix}{}", function.name());
        self.module.get_function(&symbol).unwrap_or_else(|| {
            let declared = self.module.add_function(&symbol, self.runtime_type(function), Some(Linkage::External));
            self.set_attribute(declared, AttributeLoc::Function, "nounwind", 0);
            declared
        })
    }

    /// Calls a function of the runtime. The result is 0 if the function returns none.
    pub(super) fn call_runtime(&mut self, function: Runtime, args: &[Value<'ctx>]) -> Result<Value<'ctx>> {
        let prefix = match &self.target.runtime {
            // A system library is linked with the runtime.
            _ if self.target.system_lib => String::new(),
            RuntimeSymbols::Direct => String::new(),
            RuntimeSymbols::Prefixed(prefix) => prefix.clone(),
            RuntimeSymbols::Context if function.has_variable() => {
                let variable = self.context_variable(&format!("__{}", function.name()));
                let pointer = self.builder.build_load(self.pointer_type(), variable.as_pointer_value(), "")?;
                let pointer = self.or_stand_in(pointer.into_pointer_value(), function)?;
                return self.call_pointer(pointer, function, args);
            }
            RuntimeSymbols::Context if function == Runtime::RaiseParts => return self.raise_parts(args),
            RuntimeSymbols::Context => String::new(),
        };
        let declared = self.direct(function, &prefix);
        let args: Vec<_> = args.iter().map(|arg| (*arg).into()).collect();
        let call = self.builder.build_direct_call(declared, &args, "")?;
        Ok(call.try_as_basic_value().basic().unwrap_or(self.context.i32_type().const_zero().into()))
    }

    fn call_pointer(
        &self,
        pointer: PointerValue<'ctx>,
        function: Runtime,
        args: &[Value<'ctx>],
    ) -> Result<Value<'ctx>> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).into()).collect();
        let call = self.builder.build_indirect_call(self.runtime_type(function), pointer, &args, "")?;
        Ok(call.try_as_basic_value().basic().unwrap_or(self.context.i32_type().const_zero().into()))
    }

    /// Raises an error in a library. Loaders set no variable for the function that takes parts, and
    /// the dynamic linker finds it only where the process has a single shared libtvm_ffi: otherwise
    /// the parts are joined here, for the function that takes a message.
    fn raise_parts(&mut self, args: &[Value<'ctx>]) -> Result<Value<'ctx>> {
        let &[kind, Value::PointerValue(parts), Value::IntValue(count)] = args else {
            fail!(Internal, "an error of {} values", args.len())
        };
        let function = self.builder.get_insert_block().and_then(|block| block.get_parent());
        let Some(function) = function else { fail!(Internal, "an error outside of a function") };
        let direct = self.direct(Runtime::RaiseParts, "");
        direct.set_linkage(Linkage::ExternalWeak);
        let block = |name: &str| self.context.append_basic_block(function, name);
        let (here, joined, after) = (block("direct"), block("joined"), block("raised"));
        let is_missing = self.builder.build_is_null(direct.as_global_value().as_pointer_value(), "")?;
        self.builder.build_conditional_branch(is_missing, joined, here)?;

        self.builder.position_at_end(here);
        let plain: Vec<_> = args.iter().map(|arg| (*arg).into()).collect();
        self.builder.build_direct_call(direct, &plain, "")?;
        self.builder.build_unconditional_branch(after)?;

        self.builder.position_at_end(joined);
        let joiner = self.joiner()?;
        let none = self.pointer_type().const_null();
        // Computes the length, then writes.
        let length = self.builder.build_direct_call(joiner, &[none.into(), parts.into(), count.into()], "")?;
        let Some(Value::IntValue(length)) = length.try_as_basic_value().basic() else {
            fail!(Internal, "a length that is not an integer")
        };
        let message = self.builder.build_array_alloca(self.context.i8_type(), length, "message")?;
        self.builder.build_direct_call(joiner, &[message.into(), parts.into(), count.into()], "")?;
        self.call_runtime(Runtime::Raise, &[kind, message.into()])?;
        self.builder.build_unconditional_branch(after)?;
        self.builder.position_at_end(after);
        Ok(self.context.i32_type().const_zero().into())
    }

    /// `i64 join(char* message, const char** parts, i32 count)`: returns the length of the joined
    /// parts, including the terminating NUL byte; writes them to `message` unless it is null. Parts
    /// may be null.
    fn joiner(&mut self) -> Result<FunctionValue<'ctx>> {
        const NAME: &str = "__kernpack_join_parts";
        if let Some(function) = self.module.get_function(NAME) {
            return Ok(function);
        }
        let here = self.current_block()?;
        let (pointer, int, wide, byte) =
            (self.pointer_type(), self.context.i32_type(), self.context.i64_type(), self.context.i8_type());
        let ty = wide.fn_type(&[pointer.into(), pointer.into(), int.into()], false);
        let function = self.module.add_function(NAME, ty, Some(Linkage::Internal));
        self.set_function_attributes(function);
        for name in ["cold", "noinline"] {
            self.set_attribute(function, AttributeLoc::Function, name, 0);
        }
        let params = function.get_params();
        let [Value::PointerValue(message), Value::PointerValue(parts), Value::IntValue(count)] = params[..] else {
            fail!(Internal, "the parameters of `{NAME}`")
        };
        let block = |name: &str| self.context.append_basic_block(function, name);
        let (entry, part_head, part, text, byte_block) =
            (block("entry"), block("parts"), block("part"), block("text"), block("byte"));
        let (write, count_up, next, end, terminate, done) =
            (block("write"), block("count"), block("next"), block("end"), block("terminate"), block("done"));
        let builder = &self.builder;
        builder.position_at_end(entry);
        self.unmark_line();
        builder.build_unconditional_branch(part_head)?;

        builder.position_at_end(part_head);
        let index = builder.build_phi(int, "index")?;
        let length = builder.build_phi(wide, "length")?;
        let number = index.as_basic_value().into_int_value();
        let more = builder.build_int_compare(inkwell::IntPredicate::SLT, number, count, "")?;
        builder.build_conditional_branch(more, part, end)?;

        builder.position_at_end(part);
        // SAFETY: `index` is below the number of parts.
        let place = unsafe { builder.build_in_bounds_gep(pointer, parts, &[number], "")? };
        let start = builder.build_load(pointer, place, "")?.into_pointer_value();
        let is_null = builder.build_is_null(start, "")?;
        builder.build_conditional_branch(is_null, next, text)?;

        builder.position_at_end(text);
        let from = builder.build_phi(pointer, "from")?;
        let at = builder.build_phi(wide, "at")?;
        let (from_value, at_value) = (from.as_basic_value().into_pointer_value(), at.as_basic_value().into_int_value());
        let character = builder.build_load(byte, from_value, "")?.into_int_value();
        let ends = builder.build_int_compare(inkwell::IntPredicate::EQ, character, byte.const_zero(), "")?;
        builder.build_conditional_branch(ends, next, byte_block)?;

        builder.position_at_end(byte_block);
        let is_measuring = builder.build_is_null(message, "")?;
        builder.build_conditional_branch(is_measuring, count_up, write)?;

        builder.position_at_end(write);
        // SAFETY: the message has as many bytes as were measured.
        let to = unsafe { builder.build_in_bounds_gep(byte, message, &[at_value], "")? };
        builder.build_store(to, character)?;
        builder.build_unconditional_branch(count_up)?;

        builder.position_at_end(count_up);
        let one = wide.const_int(1, false);
        let further = builder.build_int_nuw_add(at_value, one, "")?;
        // SAFETY: the character was not the NUL byte at the end.
        let following = unsafe { builder.build_in_bounds_gep(byte, from_value, &[one], "")? };
        builder.build_unconditional_branch(text)?;
        let length_value = length.as_basic_value();
        from.add_incoming(&[(&start, part), (&following, count_up)]);
        at.add_incoming(&[(&length_value, part), (&further, count_up)]);

        builder.position_at_end(next);
        let so_far = builder.build_phi(wide, "")?;
        so_far.add_incoming(&[(&length_value, part), (&at_value, text)]);
        let following = builder.build_int_nsw_add(number, int.const_int(1, false), "")?;
        builder.build_unconditional_branch(part_head)?;
        index.add_incoming(&[(&int.const_zero(), entry), (&following, next)]);
        length.add_incoming(&[(&wide.const_zero(), entry), (&so_far.as_basic_value(), next)]);

        builder.position_at_end(end);
        let is_measuring = builder.build_is_null(message, "")?;
        builder.build_conditional_branch(is_measuring, done, terminate)?;
        builder.position_at_end(terminate);
        // SAFETY: one byte more than the text was measured.
        let last = unsafe { builder.build_in_bounds_gep(byte, message, &[length_value.into_int_value()], "")? };
        builder.build_store(last, byte.const_zero())?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        let total = builder.build_int_nuw_add(length_value.into_int_value(), one, "")?;
        builder.build_return(Some(&total))?;
        builder.position_at_end(here);
        self.mark_line();
        Ok(function)
    }

    /// Frees a workspace. The status is ignored, because it is of no use at this point.
    pub(super) fn free_workspace(
        &mut self,
        device: (Value<'ctx>, Value<'ctx>),
        pointer: PointerValue<'ctx>,
    ) -> Result<()> {
        self.call_runtime(Runtime::FreeWorkspace, &[device.0, device.1, pointer.into()])?;
        Ok(())
    }

    /// The constructor of a system library: registers its symbols with the runtime.
    pub(super) fn register_symbols(&mut self) -> Result<()> {
        let ty = self.context.void_type().fn_type(&[], false);
        let function = self.module.add_function("__tvm_module_startup", ty, Some(Linkage::Internal));
        self.set_function_attributes(function);
        self.builder.position_at_end(self.context.append_basic_block(function, "entry"));
        for (symbol, address) in self.registered.clone() {
            let name = self.string(&symbol);
            let address = address.as_global_value().as_pointer_value();
            self.call_runtime(Runtime::RegisterSymbol, &[name.into(), address.into()])?;
        }
        self.builder.build_return(None)?;
        let pointer = self.pointer_type();
        let entry = self.context.struct_type(&[self.context.i32_type().into(), pointer.into(), pointer.into()], false);
        let constructor = self.context.const_struct(
            &[
                self.context.i32_type().const_int(65535, false).into(),
                function.as_global_value().as_pointer_value().into(),
                pointer.const_null().into(),
            ],
            false,
        );
        let list = entry.const_array(&[constructor]);
        let global = self.module.add_global(list.get_type(), None, "llvm.global_ctors");
        global.set_linkage(Linkage::Appending);
        global.set_initializer(&list);
        Ok(())
    }
}
