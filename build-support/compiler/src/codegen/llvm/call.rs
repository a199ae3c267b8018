//! Calls: builtins, C functions, LLVM intrinsics, functions of the module.

use inkwell::module::Linkage;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{IntValue, PointerValue};
use inkwell::{AtomicOrdering, IntPredicate};
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::{Value, confused};
use super::fields::TENSOR;
use super::packed::Callee;
use super::runtime::Runtime;
use crate::error::{Result, fail};
use crate::ir::builtin::{self};
use crate::ir::{CallKind, DataTypeExt, Expr, ExprNode, I64};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Emits a call; the value is 0 if the call has none.
    pub(super) fn call(&mut self, kind: CallKind, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        match kind {
            CallKind::Builtin => self.builtin(name, args, dtype),
            CallKind::Extern => {
                let args = self.values(args)?;
                self.external(name, &args, dtype, false)
            }
            CallKind::PureExtern => self.pure_external(name, args, dtype),
            CallKind::LlvmIntrinsic => self.llvm_intrinsic(name, args, dtype),
            CallKind::Function => self.call_function(name, args, dtype),
            CallKind::Packed => {
                fail!(Lower, "the packed function `{name}` is called with values: run LowerBuiltin first")
            }
        }
    }

    pub(super) fn values(&mut self, args: &[Expr]) -> Result<Vec<Value<'ctx>>> {
        args.iter().map(|arg| self.data_value(arg)).collect()
    }

    pub(super) fn nothing(&self) -> Value<'ctx> {
        self.context.i32_type().const_zero().into()
    }

    fn builtin(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        let arg = |index: usize| match args.get(index) {
            Some(arg) => Ok(arg),
            None => fail!(Type, "builtin `{name}` has {} arguments, which are too few", args.len()),
        };
        match name {
            builtin::LIKELY => self.value(arg(0)?),
            builtin::REINTERPRET => self.reinterpret(arg(0)?, dtype),
            builtin::DOT => self.dot(arg(0)?, arg(1)?, arg(2)?),
            builtin::ADDRESS_OF | builtin::ACCESS_PTR => self.address_of(arg(0)?),
            builtin::ISNULLPTR => {
                let pointer = self.pointer(arg(0)?)?;
                Ok(self.builder.build_is_null(pointer, "")?.into())
            }
            builtin::HANDLE_ADD_BYTE_OFFSET => {
                let pointer = self.pointer(arg(0)?)?;
                let offset = self.integer(arg(1)?)?;
                let ty = self.context.i8_type();
                // SAFETY: the program's offset is within the memory that the pointer points to.
                Ok(unsafe { self.builder.build_in_bounds_gep(ty, pointer, &[offset], "")? }.into())
            }
            builtin::STRUCT_GET => self.struct_get(arg(0)?, arg(1)?, arg(2)?, dtype),
            builtin::STRUCT_SET => self.struct_set(arg(0)?, arg(1)?, arg(2)?, arg(3)?),
            builtin::STACK_ALLOCA => self.stack_alloca(arg(0)?, arg(1)?),
            builtin::CALL_PACKED_LOWERED | builtin::CALL_TRACE_PACKED_LOWERED | builtin::CALL_CPACKED_LOWERED => {
                self.packed(name, args, dtype)
            }
            builtin::THROW_LAST_ERROR => {
                self.fail_here()?;
                Ok(self.nothing())
            }
            builtin::BREAK_LOOP | builtin::CONTINUE_LOOP => {
                self.leave_loop(name == builtin::BREAK_LOOP)?;
                Ok(self.nothing())
            }
            builtin::ALLOC_WORKSPACE => {
                let values = self.values(args)?;
                self.call_runtime(Runtime::AllocWorkspace, &values)
            }
            builtin::FREE_WORKSPACE => {
                let values = self.values(args)?;
                let status = self.call_runtime(Runtime::FreeWorkspace, &values)?;
                self.forget_workspace(arg(2)?);
                Ok(status)
            }
            builtin::PARALLEL_BARRIER => {
                self.barrier()?;
                Ok(self.nothing())
            }
            builtin::STATIC_HANDLE => {
                let name = format!(".tvm_static_handle.{}", self.unique());
                let handle = self.module.add_global(self.pointer_type(), None, &name);
                handle.set_linkage(Linkage::Internal);
                handle.set_initializer(&self.pointer_type().const_null());
                Ok(handle.as_pointer_value().into())
            }
            builtin::CONSTANT_DATA => {
                let ExprNode::Text { value: key } = &**arg(0)? else { fail!(Type, "`{name}` takes its name as text") };
                let Some(data) = self.constants.get(key.as_str()) else {
                    fail!(
                        Lower,
                        "data `{}` is asked for, but no function of the module has it in its attribute `constants`",
                        key.as_str()
                    )
                };
                Ok(data.as_pointer_value().into())
            }
            builtin::LINKED_POINTER => {
                let ExprNode::Text { value: symbol } = &**arg(0)? else {
                    fail!(Type, "`{name}` takes its symbol as text")
                };
                self.linked_pointer(symbol.as_str())
            }
            builtin::RELAXED_LOAD => {
                let address = self.pointer(arg(0)?)?;
                self.atomic_load(self.context.i64_type().into(), address, AtomicOrdering::Monotonic)
            }
            builtin::PREFETCH => {
                let address = self.value(arg(0)?)?;
                let number = |index: usize, default: i64, most: i64| {
                    let value = args.get(index).and_then(|arg| arg.as_int()).unwrap_or(default);
                    self.context.i32_type().const_int(value.clamp(0, most).unsigned_abs(), false)
                };
                let values = [address, number(1, 0, 1).into(), number(2, 3, 3).into(), number(3, 1, 1).into()];
                self.intrinsic_effect("llvm.prefetch", &[address.get_type()], &values)?;
                Ok(self.nothing())
            }
            builtin::ASSUME => {
                let (condition, _) = self.condition(arg(0)?)?;
                self.intrinsic_effect("llvm.assume", &[], &[condition.into()])?;
                Ok(self.nothing())
            }
            builtin::ANY_LANE => {
                let mask = self.value(arg(0)?)?;
                match mask {
                    Value::VectorValue(_) => {
                        let bit = self.context.bool_type().into();
                        self.intrinsic("llvm.vector.reduce.or", &[mask.get_type()], bit, &[mask])
                    }
                    scalar => Ok(scalar),
                }
            }
            "bitnot" => {
                let value = self.value(arg(0)?)?;
                self.not(value)
            }
            "vectorlow" | "vectorhigh" | "vectorcombine" => {
                let mut lanes = Vec::new();
                for arg in args {
                    let value = self.value(arg)?;
                    for lane in 0..arg.lanes() {
                        lanes.push(self.lane(value, lane)?);
                    }
                }
                let wanted = usize::from(dtype.lanes());
                let from = if name == "vectorhigh" { lanes.len().saturating_sub(wanted) } else { 0 };
                match lanes.get(from..from + wanted) {
                    Some(lanes) => self.vector_of(lanes),
                    None => fail!(Type, "`{name}` of {} lanes has no {wanted}", lanes.len()),
                }
            }
            "popcount" | "clz" | "ctz" => {
                let value = self.value(arg(0)?)?;
                let from = arg(0)?.dtype();
                let ty = value.get_type();
                let no = self.context.bool_type().const_zero().into();
                let counted = match name {
                    "popcount" => self.intrinsic("llvm.ctpop", &[ty], ty, &[value])?,
                    "clz" => self.intrinsic("llvm.ctlz", &[ty], ty, &[value, no])?,
                    _ => self.intrinsic("llvm.cttz", &[ty], ty, &[value, no])?,
                };
                self.cast(from, dtype, counted)
            }
            "isnan" | "isinf" | "isfinite" => self.classify(name, arg(0)?),
            builtin::CALL_PACKED | builtin::MAKE_TENSOR => {
                fail!(Lower, "`{name}` reached code generation: run LowerBuiltin first")
            }
            builtin::STORAGE_SYNC | builtin::THREAD_ALLREDUCE => {
                fail!(Target, "`{name}` needs threads of a device; this code runs on the cpu")
            }
            _ if builtin::math_arity(name).is_some() => self.math(name, args, dtype),
            _ => fail!(Target, "LLVM code has no builtin `{name}`"),
        }
    }

    /// Emits a pointer.
    pub(super) fn pointer(&mut self, expr: &Expr) -> Result<PointerValue<'ctx>> {
        match self.data_value(expr)? {
            Value::PointerValue(pointer) => Ok(pointer),
            other => Err(confused("a pointer", other)),
        }
    }

    /// Emits a 64-bit integer.
    pub(super) fn integer(&mut self, expr: &Expr) -> Result<IntValue<'ctx>> {
        let value = self.index_value(expr)?;
        match self.cast(expr.dtype(), I64, value)? {
            Value::IntValue(value) => Ok(value),
            other => Err(confused("an integer", other)),
        }
    }

    fn reinterpret(&mut self, value: &Expr, dtype: DataType) -> Result<Value<'ctx>> {
        let bits = |dtype: DataType| usize::from(dtype.bits()) * usize::from(dtype.lanes());
        let from = value.dtype();
        if bits(from) != bits(dtype) {
            fail!(
                Type,
                "reinterpret of {} as {}: they have different numbers of bits",
                from.short_name(),
                dtype.short_name()
            );
        }
        let value = self.data_value(value)?;
        if from.is_bool() || dtype.is_bool() {
            return self.cast(from, dtype, value);
        }
        let ty = self.value_type(dtype)?;
        match (value, ty) {
            (Value::FloatValue(_), BasicTypeEnum::PointerType(_)) => {
                let whole = self.bit_cast(value, self.context.i64_type().into())?;
                self.bit_cast(whole, ty)
            }
            (Value::PointerValue(_), BasicTypeEnum::FloatType(_)) => {
                let whole = self.bit_cast(value, self.context.i64_type().into())?;
                self.bit_cast(whole, ty)
            }
            _ => self.bit_cast(value, ty),
        }
    }

    /// The address from which a load would read.
    fn address_of(&mut self, load: &Expr) -> Result<Value<'ctx>> {
        match &**load {
            ExprNode::Load { buffer, index, .. } => {
                let first = match &**index {
                    ExprNode::Ramp { base, .. } => base.clone(),
                    ExprNode::Broadcast { value, .. } => value.clone(),
                    _ => index.clone(),
                };
                Ok(self.element_address(buffer, &first)?.into())
            }
            _ => fail!(Type, "the address of what is not a load"),
        }
    }

    fn stack_alloca(&mut self, kind: &Expr, count: &Expr) -> Result<Value<'ctx>> {
        let ExprNode::Text { value: kind } = &**kind else { fail!(Type, "stack_alloca takes its kind as text") };
        let wide = self.context.i64_type();
        let (ty, align): (BasicTypeEnum<'ctx>, u32) = match kind.as_str() {
            "any" | "tvm_ffi_any" => (self.any_type(), 16),
            "shape" => (wide.into(), 8),
            "array" => (wide.array_type((TENSOR / 8) as u32).into(), 8),
            // A 128-byte descriptor for the copy engine of a device.
            "tensormap" => (wide.array_type(16).into(), 64),
            other => fail!(Type, "stack_alloca: unknown kind `{other}`; there are any, shape, array"),
        };
        let Some(count) = count.as_int().and_then(|count| u64::try_from(count).ok()) else {
            fail!(Type, "stack_alloca takes a constant count")
        };
        Ok(self.stack_array(ty, count, align, "stack")?.into())
    }

    fn packed(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        let [function, stack, begin, end, traced @ ..] = args else {
            fail!(Type, "`{name}` takes a name, a stack, a beginning and an end")
        };
        let ExprNode::Text { value: function } = &**function else { fail!(Type, "`{name}` takes its name as text") };
        let function = function.as_str().to_owned();
        let stack = self.pointer(stack)?;
        let slots = (self.integer(begin)?, self.integer(end)?);
        let callee =
            if name == builtin::CALL_CPACKED_LOWERED { Callee::Symbol(&function) } else { Callee::Name(&function) };
        let returned = self.call_packed(callee, stack, slots, dtype)?;
        match traced {
            [] => Ok(returned.value),
            [traced, ..] => {
                let traced = self.data_value(traced)?;
                let none = self.context.i32_type().const_zero();
                let is_none = self.builder.build_int_compare(IntPredicate::EQ, returned.type_index, none, "")?;
                self.select(is_none.into(), traced, returned.value)
            }
        }
    }
}
