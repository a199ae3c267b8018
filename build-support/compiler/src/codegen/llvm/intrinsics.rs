//! Calls of LLVM's intrinsics, by name.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{CallSiteValue, FunctionValue, InstructionValue, ValueKind};

use super::CodeGenLLVM;
use super::emit::Value;
use crate::error::{Result, fail};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// The declaration of an intrinsic; `overloads` are the types that its name carries. LLVM's verifier checks it.
    fn intrinsic_function(
        &self,
        name: &str,
        overloads: &[BasicTypeEnum<'ctx>],
        result: Option<BasicTypeEnum<'ctx>>,
        args: &[Value<'ctx>],
    ) -> FunctionValue<'ctx> {
        let mut full = name.to_owned();
        for ty in overloads {
            full.push('.');
            full.push_str(&self.mangled(*ty));
        }
        if let Some(function) = self.module.get_function(&full) {
            return function;
        }
        let params: Vec<_> = args.iter().map(|arg| arg.get_type().into()).collect();
        let ty = match result {
            Some(result) => result.fn_type(&params, false),
            None => self.context.void_type().fn_type(&params, false),
        };
        self.module.add_function(&full, ty, None)
    }

    /// The value of an intrinsic.
    pub(super) fn intrinsic(
        &self,
        name: &str,
        overloads: &[BasicTypeEnum<'ctx>],
        result: BasicTypeEnum<'ctx>,
        args: &[Value<'ctx>],
    ) -> Result<Value<'ctx>> {
        let function = self.intrinsic_function(name, overloads, Some(result), args);
        let args: Vec<_> = args.iter().map(|arg| (*arg).into()).collect();
        let call = self.builder.build_direct_call(function, &args, "")?;
        match call.try_as_basic_value().basic() {
            Some(value) => Ok(value),
            None => fail!(Internal, "`{name}` has no value"),
        }
    }

    /// An intrinsic without a value.
    pub(super) fn intrinsic_effect(
        &self,
        name: &str,
        overloads: &[BasicTypeEnum<'ctx>],
        args: &[Value<'ctx>],
    ) -> Result<()> {
        let function = self.intrinsic_function(name, overloads, None, args);
        let args: Vec<_> = args.iter().map(|arg| (*arg).into()).collect();
        self.builder.build_direct_call(function, &args, "")?;
        Ok(())
    }

    /// An intrinsic of a masked memory access. The alignment is an attribute of the pointer, the argument at `position`.
    pub(super) fn masked_call(
        &self,
        name: &str,
        overloads: &[BasicTypeEnum<'ctx>],
        result: Option<BasicTypeEnum<'ctx>>,
        (position, align): (u32, u32),
        args: &[Value<'ctx>],
    ) -> Result<CallSiteValue<'ctx>> {
        let function = self.intrinsic_function(name, overloads, result, args);
        let args: Vec<_> = args.iter().map(|arg| (*arg).into()).collect();
        let call = self.builder.build_direct_call(function, &args, "")?;
        let kind = Attribute::get_named_enum_kind_id("align");
        call.add_attribute(AttributeLoc::Param(position), self.context.create_enum_attribute(kind, u64::from(align)));
        Ok(call)
    }
}

/// The instruction of a call.
pub(super) fn call_instruction(call: CallSiteValue<'_>) -> Option<InstructionValue<'_>> {
    match call.try_as_basic_value() {
        ValueKind::Basic(value) => super::emit::instruction(value),
        ValueKind::Instruction(call) => Some(call),
    }
}
