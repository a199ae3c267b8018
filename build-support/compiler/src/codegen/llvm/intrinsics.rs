//! Calls of LLVM's intrinsics, by name.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{CallSiteValue, FunctionValue, InstructionValue, ValueKind};
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::Value;
use super::function::is_void;
use crate::error::{Result, fail};
use crate::ir::{DataTypeExt, Expr};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Calls an LLVM intrinsic by its name without types.
    pub(super) fn llvm_intrinsic(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        if inkwell::intrinsics::Intrinsic::find(name).is_none() {
            fail!(
                Target,
                "LLVM has no intrinsic `{name}`: a name is that of its manual, without types, such as `llvm.sqrt`"
            );
        }
        let values = self.values(args)?;
        if dtype.is_bfloat() && args.iter().all(|arg| arg.dtype().is_bfloat()) {
            let full = name.to_owned();
            return self.in_single(&values, dtype, |this, values, wide| {
                let ty = this.value_type(wide)?;
                this.intrinsic(&full, &[ty], ty, values)
            });
        }
        let first = || values.first().map(|value| value.get_type());
        let result = if is_void(dtype) { None } else { Some(self.value_type(dtype)?) };
        let overloads: Vec<BasicTypeEnum<'ctx>> = match name {
            "llvm.assume" | "llvm.trap" | "llvm.debugtrap" | "llvm.donothing" => Vec::new(),
            "llvm.prefetch" => first().into_iter().collect(),
            "llvm.ldexp" | "llvm.powi" | "llvm.fptosi.sat" | "llvm.fptoui.sat" | "llvm.lrint" | "llvm.lround" => {
                let second = if name == "llvm.ldexp" || name == "llvm.powi" { values.get(1) } else { values.first() };
                result.into_iter().chain(second.map(|value| value.get_type())).collect()
            }
            _ if name.starts_with("llvm.vector.reduce") => match values.last() {
                Some(vector) => vec![vector.get_type()],
                None => Vec::new(),
            },
            // Intrinsics of a target have no types in their names.
            _ if name.starts_with("llvm.x86.") || name.starts_with("llvm.aarch64.") => Vec::new(),
            _ => result.into_iter().collect(),
        };
        // The last argument of these intrinsics is a constant truth value.
        let mut values = values;
        if matches!(name, "llvm.ctlz" | "llvm.cttz" | "llvm.abs") {
            let flag = args.get(1).and_then(|flag| flag.as_int()).unwrap_or(0);
            values.truncate(1);
            values.push(self.context.bool_type().const_int(u64::from(flag != 0), false).into());
        }
        match result {
            Some(result) => {
                let value = self.intrinsic(name, &overloads, result, &values)?;
                self.set_fast_math_call(value);
                Ok(value)
            }
            None => {
                self.intrinsic_effect(name, &overloads, &values)?;
                Ok(self.nothing())
            }
        }
    }

    pub(super) fn set_fast_math_call(&self, value: Value<'ctx>) {
        let is_float = match value {
            Value::FloatValue(_) => true,
            Value::VectorValue(vector) => vector.get_type().get_element_type().is_float_type(),
            _ => false,
        };
        if is_float {
            self.set_fast_math(value);
        }
    }

    /// The declaration of an intrinsic; `overloads` are the types in its name. LLVM's verifier
    /// checks it.
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

    /// Calls an intrinsic and returns its value.
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

    /// Calls an intrinsic without a value.
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

    /// Calls an intrinsic of a masked memory access. The alignment is an attribute of the pointer,
    /// which is the argument at `position`.
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
