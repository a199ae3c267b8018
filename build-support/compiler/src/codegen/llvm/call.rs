//! Calls: builtins, C functions, intrinsics of LLVM, functions of the module.

use inkwell::attributes::AttributeLoc;
use inkwell::module::Linkage;
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{InstructionOpcode, IntValue, PointerValue};
use inkwell::{FloatPredicate, IntPredicate};
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::{Value, confused};
use super::function::{Declared, is_void};
use super::packed::Callee;
use super::runtime::Runtime;
use super::state::Convention;
use crate::error::{Result, fail};
use crate::ir::builtin::{self, StructField};
use crate::ir::{CallKind, DataTypeExt, Expr, ExprNode, F32, F64, I64};

/// Bytes of a `DLTensor`.
const TENSOR: u64 = 48;
/// Bytes of an FFI value.
const ANY: u64 = 16;

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// The value of a call; 0 if it has none.
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

    fn values(&mut self, args: &[Expr]) -> Result<Vec<Value<'ctx>>> {
        args.iter().map(|arg| self.data_value(arg)).collect()
    }

    fn nothing(&self) -> Value<'ctx> {
        self.context.i32_type().const_zero().into()
    }

    /// A C function by its symbol.
    pub(super) fn external(
        &mut self,
        symbol: &str,
        args: &[Value<'ctx>],
        dtype: DataType,
        is_pure: bool,
    ) -> Result<Value<'ctx>> {
        let mut plain = Vec::with_capacity(args.len());
        for arg in args {
            // A truth value is a byte for C.
            plain.push(match arg {
                Value::IntValue(value) if value.get_type().get_bit_width() == 1 => {
                    self.builder.build_int_z_extend(*value, self.context.i8_type(), "")?.into()
                }
                other => *other,
            });
        }
        let params: Vec<_> = plain.iter().map(|arg| arg.get_type().into()).collect();
        let returns_bool = dtype.is_bool() && dtype.is_scalar();
        let ty = if is_void(dtype) {
            self.context.void_type().fn_type(&params, false)
        } else if returns_bool {
            self.context.i8_type().fn_type(&params, false)
        } else {
            self.value_type(dtype)?.fn_type(&params, false)
        };
        let function = match self.module.get_function(symbol) {
            Some(known) if known.get_type() == ty => known,
            Some(known) => {
                // One symbol with two types: the call says which one it means.
                let pointer = known.as_global_value().as_pointer_value();
                let plain: Vec<_> = plain.iter().map(|arg| (*arg).into()).collect();
                let call = self.builder.build_indirect_call(ty, pointer, &plain, "")?;
                return self.external_value(call.try_as_basic_value().basic(), returns_bool);
            }
            None => {
                let declared = self.module.add_function(symbol, ty, Some(Linkage::External));
                self.set_attribute(declared, AttributeLoc::Function, "nounwind", 0);
                if is_pure {
                    self.set_attribute(declared, AttributeLoc::Function, "willreturn", 0);
                    // No effect on memory of any kind.
                    self.set_attribute(declared, AttributeLoc::Function, "memory", 0);
                }
                declared
            }
        };
        let plain: Vec<_> = plain.iter().map(|arg| (*arg).into()).collect();
        let call = self.builder.build_direct_call(function, &plain, "")?;
        self.external_value(call.try_as_basic_value().basic(), returns_bool)
    }

    fn external_value(&self, value: Option<Value<'ctx>>, returns_bool: bool) -> Result<Value<'ctx>> {
        match value {
            Some(Value::IntValue(byte)) if returns_bool => {
                let zero = byte.get_type().const_zero();
                Ok(self.builder.build_int_compare(IntPredicate::NE, byte, zero, "")?.into())
            }
            Some(value) => Ok(value),
            None => Ok(self.nothing()),
        }
    }

    /// A C function of scalars, for each lane.
    fn pure_external(&mut self, symbol: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        let args = self.values(args)?;
        self.for_each_lane(&args, dtype.lanes(), |this, args| this.external(symbol, args, dtype.element(), true))
    }

    /// Applies a function of scalars to each lane.
    fn for_each_lane(
        &mut self,
        args: &[Value<'ctx>],
        lanes: u16,
        mut apply: impl FnMut(&mut Self, &[Value<'ctx>]) -> Result<Value<'ctx>>,
    ) -> Result<Value<'ctx>> {
        if lanes <= 1 {
            return apply(self, args);
        }
        let mut results = Vec::with_capacity(usize::from(lanes));
        for lane in 0..lanes {
            let scalars: Result<Vec<_>> = args.iter().map(|arg| self.lane(*arg, lane)).collect();
            results.push(apply(self, &scalars?)?);
        }
        self.vector_of(&results)
    }

    /// An intrinsic of LLVM by its name without types.
    fn llvm_intrinsic(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
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
            // Those of a target have no types in their names.
            _ if name.starts_with("llvm.x86.") || name.starts_with("llvm.aarch64.") => Vec::new(),
            _ => result.into_iter().collect(),
        };
        // The last argument of these is a constant truth value.
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

    fn set_fast_math_call(&self, value: Value<'ctx>) {
        let is_float = match value {
            Value::FloatValue(_) => true,
            Value::VectorValue(vector) => vector.get_type().get_element_type().is_float_type(),
            _ => false,
        };
        if is_float {
            self.set_fast_math(value);
        }
    }

    /// Another function of the module.
    fn call_function(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        let Some(Declared { function, convention }) = self.functions.get(name).copied() else {
            fail!(Lower, "function `{name}` is called, but the module has none of that name")
        };
        let mut values = self.values(args)?;
        let wanted = function.count_params() as usize - usize::from(convention == Convention::StatusAndValue);
        if values.len() != wanted {
            fail!(Lower, "function `{name}` takes {wanted} arguments, got {}", values.len());
        }
        for (param, value) in function.get_param_iter().zip(&values) {
            if param.get_type() != value.get_type() {
                fail!(Lower, "function `{name}` gets an argument of another type than its parameter's");
            }
        }
        let place = match convention {
            Convention::StatusAndValue => {
                let place = self.stack_array(self.value_type(dtype)?, 1, 16, "value")?;
                values.push(place.into());
                Some(place)
            }
            _ => None,
        };
        let values: Vec<_> = values.into_iter().map(Into::into).collect();
        let call = self.builder.build_direct_call(function, &values, "")?;
        let value = call.try_as_basic_value().basic();
        match (convention, value) {
            (Convention::Plain(_), value) => Ok(value.unwrap_or(self.nothing())),
            (_, Some(status)) => {
                self.check_status(status)?;
                match place {
                    Some(place) => Ok(self.builder.build_load(self.value_type(dtype)?, place, "")?),
                    None => Ok(self.nothing()),
                }
            }
            (_, None) => fail!(Internal, "function `{name}` has no status"),
        }
    }

    fn builtin(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        let arg = |index: usize| match args.get(index) {
            Some(arg) => Ok(arg),
            None => fail!(Type, "builtin `{name}` has {} arguments, which are too few", args.len()),
        };
        match name {
            builtin::LIKELY => self.value(arg(0)?),
            builtin::REINTERPRET => self.reinterpret(arg(0)?, dtype),
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

    /// A pointer.
    fn pointer(&mut self, expr: &Expr) -> Result<PointerValue<'ctx>> {
        match self.data_value(expr)? {
            Value::PointerValue(pointer) => Ok(pointer),
            other => Err(confused("a pointer", other)),
        }
    }

    /// An integer of 64 bits.
    fn integer(&mut self, expr: &Expr) -> Result<IntValue<'ctx>> {
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

    /// The address of what a load would read.
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
            _ => fail!(Type, "the address of what is no load"),
        }
    }

    /// The place of a field, and the type that it has in memory.
    fn field(
        &mut self,
        pointer: &Expr,
        index: &Expr,
        kind: &Expr,
        dtype: DataType,
    ) -> Result<(PointerValue<'ctx>, BasicTypeEnum<'ctx>)> {
        let Some(field) = kind.as_int().and_then(StructField::of) else {
            fail!(Type, "unknown kind of a field: {:?}", kind.as_int())
        };
        let context = self.context;
        let (int, wide, pointer_type) = (context.i32_type(), context.i64_type(), self.pointer_type());
        let (stride, offset, ty): (u64, u64, BasicTypeEnum<'ctx>) = match field {
            StructField::Address => (TENSOR, 0, pointer_type.into()),
            StructField::Data => (TENSOR, 0, pointer_type.into()),
            StructField::DeviceType => (TENSOR, 8, int.into()),
            StructField::DeviceId => (TENSOR, 12, int.into()),
            StructField::Ndim => (TENSOR, 16, int.into()),
            StructField::TypeCode => (TENSOR, 20, context.i8_type().into()),
            StructField::TypeBits => (TENSOR, 21, context.i8_type().into()),
            StructField::TypeLanes => (TENSOR, 22, context.i16_type().into()),
            StructField::Shape => (TENSOR, 24, pointer_type.into()),
            StructField::Strides => (TENSOR, 32, pointer_type.into()),
            StructField::ByteOffset => (TENSOR, 40, wide.into()),
            StructField::AnyTypeIndex => (ANY, 0, int.into()),
            StructField::AnyPadding => (ANY, 4, int.into()),
            StructField::AnyValue if dtype.is_float() => (ANY, 8, context.f64_type().into()),
            StructField::AnyValue if dtype.is_handle() => (ANY, 8, pointer_type.into()),
            StructField::AnyValue => (ANY, 8, wide.into()),
            StructField::Int64Element => (8, 0, wide.into()),
        };
        let base = self.pointer(pointer)?;
        let element = match index.as_int() {
            Some(index) => wide.const_int((index as u64).wrapping_mul(stride).wrapping_add(offset), false),
            None => {
                let index = self.integer(index)?;
                let scaled = self.builder.build_int_nsw_mul(index, wide.const_int(stride, false), "")?;
                self.builder.build_int_nsw_add(scaled, wide.const_int(offset, false), "")?
            }
        };
        // SAFETY: a field of an element that the program says is there.
        let place = unsafe { self.builder.build_in_bounds_gep(context.i8_type(), base, &[element], "")? };
        Ok((place, ty))
    }

    fn struct_get(&mut self, pointer: &Expr, index: &Expr, kind: &Expr, dtype: DataType) -> Result<Value<'ctx>> {
        let (place, ty) = self.field(pointer, index, kind, dtype)?;
        if kind.is_int(StructField::Address as i64) {
            return Ok(place.into());
        }
        let value = self.builder.build_load(ty, place, "")?;
        self.field_as(value, kind, dtype)
    }

    /// A field's value as the type of the call.
    fn field_as(&mut self, value: Value<'ctx>, kind: &Expr, dtype: DataType) -> Result<Value<'ctx>> {
        match value {
            Value::PointerValue(_) if dtype.is_handle() => Ok(value),
            Value::PointerValue(_) => fail!(Type, "a pointer of a struct read as {}", dtype.short_name()),
            Value::FloatValue(_) => self.cast(F64, dtype, value),
            Value::IntValue(int) => {
                let bits = int.get_type().get_bit_width() as u8;
                let is_signed = !matches!(kind.as_int(), Some(5..=8));
                let from = if is_signed { I64 } else { crate::ir::U64 };
                let from = DataType::scalar(from.code(), bits);
                if dtype.is_handle() {
                    return self.bit_cast(value, self.pointer_type().into());
                }
                self.cast(from, dtype, value)
            }
            other => Err(confused("a field", other)),
        }
    }

    fn struct_set(&mut self, pointer: &Expr, index: &Expr, kind: &Expr, value: &Expr) -> Result<Value<'ctx>> {
        let dtype = value.dtype();
        let (place, ty) = self.field(pointer, index, kind, dtype)?;
        let value = self.data_value(value)?;
        let stored = match ty {
            BasicTypeEnum::PointerType(_) => value,
            BasicTypeEnum::FloatType(_) => self.cast(dtype, F64, value)?,
            BasicTypeEnum::IntType(int) => {
                let to = DataType::scalar(I64.code(), int.get_bit_width() as u8);
                self.cast(dtype, to, value)?
            }
            _ => return Err(confused("a field", value)),
        };
        self.builder.build_store(place, stored)?;
        Ok(self.nothing())
    }

    fn stack_alloca(&mut self, kind: &Expr, count: &Expr) -> Result<Value<'ctx>> {
        let ExprNode::Text { value: kind } = &**kind else { fail!(Type, "stack_alloca takes its kind as text") };
        let wide = self.context.i64_type();
        let (ty, align): (BasicTypeEnum<'ctx>, u32) = match kind.as_str() {
            "any" | "tvm_ffi_any" => (self.any_type(), 16),
            "shape" => (wide.into(), 8),
            "array" => (wide.array_type((TENSOR / 8) as u32).into(), 8),
            // A descriptor of 128 bytes for the copy engine of a device.
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

    fn classify(&mut self, name: &str, value: &Expr) -> Result<Value<'ctx>> {
        let dtype = value.dtype();
        let value = self.value(value)?;
        if !dtype.is_float() {
            let truth = i64::from(name == "isfinite");
            return self.constant(crate::ir::BOOLEAN.with_lanes(dtype.lanes()), truth);
        }
        let (dtype, value) = match dtype.is_bfloat() {
            true => (F32.with_lanes(dtype.lanes()), self.bfloat_value(value)?),
            false => (dtype, value),
        };
        if name == "isnan" {
            return self.compare_float(FloatPredicate::UNO, value, value);
        }
        let magnitude = self.intrinsic("llvm.fabs", &[value.get_type()], value.get_type(), &[value])?;
        let infinity = self.float_constant(dtype.element(), f64::INFINITY)?;
        let infinity = self.splat(infinity, dtype.lanes())?;
        let predicate = if name == "isinf" { FloatPredicate::OEQ } else { FloatPredicate::OLT };
        self.compare_float(predicate, magnitude, infinity)
    }

    /// A math function. Those that are an instruction, or nearly, and the rest as C functions for each lane: what LowerIntrin has not made
    /// plain arithmetic of.
    fn math(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        let values: Result<Vec<_>> = args.iter().map(|arg| self.value(arg)).collect();
        let values = values?;
        if dtype.is_bfloat() {
            let value = self.in_single(&values, dtype, |this, values, wide| this.math_of(name, values, wide))?;
            return Ok(value);
        }
        self.math_of(name, &values, dtype)
    }

    /// Computes with bfloat16 in single precision.
    fn in_single(
        &mut self,
        values: &[Value<'ctx>],
        dtype: DataType,
        compute: impl FnOnce(&mut Self, &[Value<'ctx>], DataType) -> Result<Value<'ctx>>,
    ) -> Result<Value<'ctx>> {
        let wide: Result<Vec<_>> = values.iter().map(|value| self.bfloat_value(*value)).collect();
        let value = compute(self, &wide?, F32.with_lanes(dtype.lanes()))?;
        self.to_bfloat(value)
    }

    fn math_of(&mut self, name: &str, values: &[Value<'ctx>], dtype: DataType) -> Result<Value<'ctx>> {
        let ty = self.value_type(dtype)?;
        if dtype.is_integer() {
            return match (name, values) {
                ("abs", [value]) => {
                    let no = self.context.bool_type().const_zero().into();
                    self.intrinsic("llvm.abs", &[ty], ty, &[*value, no])
                }
                _ => fail!(Type, "`{name}` of {}", dtype.short_name()),
            };
        }
        let intrinsic = match name {
            "sqrt" => "llvm.sqrt",
            "abs" => "llvm.fabs",
            "floor" => "llvm.floor",
            "ceil" => "llvm.ceil",
            "trunc" => "llvm.trunc",
            "round" => "llvm.roundeven",
            "copysign" => "llvm.copysign",
            "nanmin" => "llvm.minimum",
            "nanmax" => "llvm.maximum",
            // Without the instruction it would be a call for each lane.
            "fma" if self.target.has_fma() => "llvm.fma",
            "fma" => "llvm.fmuladd",
            "rsqrt" => {
                let root = self.intrinsic("llvm.sqrt", &[ty], ty, values)?;
                let one = self.constant(dtype, 1)?;
                return self.float_op(InstructionOpcode::FDiv, one, root);
            }
            _ => return self.libm(name, values, dtype),
        };
        self.intrinsic(intrinsic, &[ty], ty, values)
    }

    fn libm(&mut self, name: &str, values: &[Value<'ctx>], dtype: DataType) -> Result<Value<'ctx>> {
        if dtype.bits() == 16 {
            let wide = F32.with_lanes(dtype.lanes());
            let values: Result<Vec<_>> = values.iter().map(|value| self.cast(dtype, wide, *value)).collect();
            let value = self.libm(name, &values?, wide)?;
            return self.cast(wide, dtype, value);
        }
        if name == "sigmoid" {
            let one = self.constant(dtype, 1)?;
            let negated = self.float_op(InstructionOpcode::FSub, self.constant(dtype, 0)?, values[0])?;
            let exponential = self.libm("exp", &[negated], dtype)?;
            let sum = self.float_op(InstructionOpcode::FAdd, one, exponential)?;
            return self.float_op(InstructionOpcode::FDiv, one, sum);
        }
        let symbol = if dtype.bits() == 32 { format!("{name}f") } else { name.to_owned() };
        self.for_each_lane(values, dtype.lanes(), |this, args| this.external(&symbol, args, dtype.element(), true))
    }
}
