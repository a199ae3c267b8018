//! Calls: builtins, C functions, packed functions.

use kernpack::DataType;

use super::body::{Body, Exit};
use super::expr::{DONE, is_void};
use super::runtime::{ALLOC_WORKSPACE, BARRIER, CALL, FREE_WORKSPACE, INIT_ONCE, LOOK_UP};
use super::types::scalar as scalar_type;
use super::{literal, scalar, vector};
use crate::error::{Result, fail, require};
use crate::ir::builtin::{self, StructField};
use crate::ir::{CallKind, DataTypeExt, Expr, ExprNode, I64};

impl Body<'_> {
    /// Writes a call.
    pub(super) fn call(&mut self, kind: CallKind, name: &str, args: &[Expr], dtype: DataType) -> Result<String> {
        match kind {
            CallKind::Builtin => self.builtin(name, args, dtype),
            CallKind::Extern | CallKind::PureExtern => self.external(name, args, dtype),
            CallKind::LlvmIntrinsic => self.intrinsic(name, args, dtype),
            CallKind::Function => {
                let Some(symbol) = self.functions.get(name).cloned() else {
                    fail!(Lower, "function `{name}` is called, but the module has none of that name")
                };
                let args = self.values(args)?;
                Ok(format!("{symbol}({})", args.join(", ")))
            }
            CallKind::Packed => fail!(Lower, "C: a call of packed function `{name}` is left: run LowerBuiltin first"),
        }
    }

    fn values(&mut self, args: &[Expr]) -> Result<Vec<String>> {
        args.iter().map(|arg| self.value(arg)).collect()
    }

    /// Calls a C function by its symbol; the declaration is derived from the call.
    fn external(&mut self, symbol: &str, args: &[Expr], dtype: DataType) -> Result<String> {
        let texts = self.values(args)?;
        let ret = if is_void(dtype) { "void".to_owned() } else { self.unit.value_type(dtype)? };
        let mut params = Vec::new();
        for arg in args {
            params.push(match **arg {
                ExprNode::Text { .. } => "const char*".to_owned(),
                _ => self.unit.value_type(arg.dtype())?,
            });
        }
        self.unit.external(symbol, &ret, &params)?;
        Ok(format!("{symbol}({})", texts.join(", ")))
    }

    /// Writes the LLVM intrinsics that are builtins under another name.
    fn intrinsic(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<String> {
        let builtin = match name.strip_prefix("llvm.").unwrap_or(name) {
            "fabs" | "abs" => "abs",
            "fmuladd" => {
                let [a, b, c] = args else { fail!(Type, "`{name}` takes 3 arguments, got {}", args.len()) };
                let text = self.value(&(a * b + c))?;
                return Ok(text);
            }
            "rint" | "nearbyint" | "roundeven" => "round",
            "minimum" => "nanmin",
            "maximum" => "nanmax",
            "ctpop" => "popcount",
            "ctlz" => "clz",
            "cttz" => "ctz",
            other => other,
        };
        // The flag for an undefined result of 0 is irrelevant here.
        let args = if matches!(builtin, "clz" | "ctz" | "abs") { &args[..args.len().min(1)] } else { args };
        require!(
            builtin::math_arity(builtin) == Some(args.len()) || matches!(builtin, "popcount" | "clz" | "ctz"),
            Target,
            "C has no intrinsic `{name}`"
        );
        self.builtin(builtin, args, dtype)
    }

    fn builtin(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<String> {
        let arg = |index: usize| match args.get(index) {
            Some(arg) => Ok(arg),
            None => fail!(Type, "builtin `{name}` has {} arguments, which are too few", args.len()),
        };
        match name {
            builtin::LIKELY => {
                let condition = self.value(arg(0)?)?;
                Ok(if dtype.lanes() > 1 { condition } else { format!("KP_LIKELY({condition})") })
            }
            builtin::REINTERPRET => {
                let from = arg(0)?.dtype();
                let value = self.value(arg(0)?)?;
                let bits = |dtype: DataType| usize::from(dtype.bits()) * usize::from(dtype.lanes());
                require!(
                    bits(from) == bits(dtype),
                    Type,
                    "reinterpret of {} as {}: they have different numbers of bits",
                    from.short_name(),
                    dtype.short_name()
                );
                match () {
                    () if from.lanes() > 1 || dtype.lanes() > 1 => vector::reinterpret(self.unit, from, dtype, &value),
                    () if from.is_handle() != dtype.is_handle() => {
                        let (step, from) = if dtype.is_handle() {
                            (scalar::reinterpret(self.unit, from, I64, &value), I64)
                        } else {
                            (value, from)
                        };
                        let cast = scalar::cast(self.unit, from, if dtype.is_handle() { dtype } else { I64 }, &step)?;
                        Ok(if dtype.is_handle() { cast } else { scalar::reinterpret(self.unit, I64, dtype, &cast) })
                    }
                    () => Ok(scalar::reinterpret(self.unit, from, dtype, &value)),
                }
            }
            builtin::ADDRESS_OF | builtin::ACCESS_PTR => match &**arg(0)? {
                ExprNode::Load { buffer, index, .. } => {
                    let pointer = self.pointer(buffer)?;
                    let first = match &**index {
                        ExprNode::Ramp { base, .. } => base.clone(),
                        _ => index.clone(),
                    };
                    let index = self.index(&first)?;
                    let lanes = buffer.dtype.lanes();
                    let scale = if lanes > 1 { format!(" * {lanes}") } else { String::new() };
                    Ok(format!("((void*)({pointer} + {index}{scale}))"))
                }
                _ => fail!(Type, "`{name}` takes a load"),
            },
            builtin::DOT => {
                let types = [arg(0)?.dtype(), arg(1)?.dtype(), arg(2)?.dtype()];
                let texts = self.values(args)?;
                vector::dot(self.unit, types, &texts)
            }
            builtin::ISNULLPTR => Ok(format!("({} == NULL)", self.value(arg(0)?)?)),
            builtin::HANDLE_ADD_BYTE_OFFSET => {
                let (pointer, bytes) = (self.value(arg(0)?)?, self.index(arg(1)?)?);
                Ok(format!("((void*)((char*){pointer} + {bytes}))"))
            }
            builtin::STRUCT_GET => {
                let place = self.field(arg(0)?, arg(1)?, arg(2)?, dtype)?;
                Ok(if dtype.is_handle() {
                    format!("((void*){place})")
                } else {
                    format!("(({}){place})", scalar_type(dtype))
                })
            }
            builtin::STRUCT_SET => {
                let value = arg(3)?;
                let from = value.dtype();
                let text = self.value(value)?;
                let place = self.field(arg(0)?, arg(1)?, arg(2)?, from)?;
                let kind = arg(2)?.as_int().and_then(StructField::of);
                Ok(match kind {
                    Some(StructField::DeviceType) => format!("({place} = (DLDeviceType){text})"),
                    _ => format!("({place} = {text})"),
                })
            }
            builtin::STACK_ALLOCA => self.stack(arg(0)?, arg(1)?),
            builtin::PREFETCH => {
                let address = self.value(arg(0)?)?;
                let hint = |index: usize| args.get(index).and_then(|hint| hint.as_int()).unwrap_or(0);
                Ok(format!("KP_PREFETCH({address}, {}, {})", hint(1).clamp(0, 1), hint(2).clamp(0, 3)))
            }
            builtin::ASSUME => Ok(DONE.to_owned()),
            builtin::ALLOC_WORKSPACE | builtin::FREE_WORKSPACE => {
                let is_alloc = name == builtin::ALLOC_WORKSPACE;
                let function = self.unit.runtime(if is_alloc { &ALLOC_WORKSPACE } else { &FREE_WORKSPACE });
                let args = self.values(args)?;
                Ok(format!("{function}({})", args.join(", ")))
            }
            builtin::STATIC_HANDLE => {
                let handle = self.unit.names.unique("static_handle");
                self.unit.functions.push_str(&format!("static void* {handle};\n"));
                Ok(format!("((void*)&{handle})"))
            }
            builtin::ANY_LANE => {
                let mask = arg(0)?.dtype();
                let value = self.value(arg(0)?)?;
                if mask.lanes() > 1 { vector::any(self.unit, mask, &value) } else { Ok(value) }
            }
            builtin::CALL_PACKED_LOWERED | builtin::CALL_TRACE_PACKED_LOWERED => self.packed(args, dtype),
            builtin::THROW_LAST_ERROR => {
                require!(
                    self.exit == Exit::Status,
                    Target,
                    "`{}` returns no status, so it has no way to end with an error",
                    self.function
                );
                let leave = self.leave("-1");
                self.line(leave);
                Ok(DONE.to_owned())
            }
            builtin::BREAK_LOOP | builtin::CONTINUE_LOOP => {
                self.line(if name == builtin::BREAK_LOOP { "break;" } else { "continue;" });
                Ok(DONE.to_owned())
            }
            builtin::PARALLEL_BARRIER => {
                require!(self.in_task, Lower, "parallel_barrier outside of a parallel loop");
                let barrier = self.unit.runtime(&BARRIER);
                self.line(format!("if ({barrier}(task_id, group) != 0) {}", self.leave("-1")));
                Ok(DONE.to_owned())
            }
            "vectorlow" | "vectorhigh" | "vectorcombine" => {
                let source = if name == "vectorcombine" {
                    vec![arg(0)?.clone(), arg(1)?.clone()]
                } else {
                    vec![arg(0)?.clone()]
                };
                let first = if name == "vectorhigh" { i64::from(arg(0)?.lanes()) / 2 } else { 0 };
                let indices: kernpack::Array<i64> = (first..first + i64::from(dtype.lanes())).collect();
                let shuffle = Expr::from_node(ExprNode::Shuffle { vectors: source.into_iter().collect(), indices });
                self.value(&shuffle)
            }
            _ if builtin::effect_of_builtin(name) == Some(builtin::Effect::Pure) && !name.starts_with("warp_") => {
                let texts = self.values(args)?;
                let params: Vec<DataType> = args.iter().map(|arg| arg.dtype()).collect();
                arg(0)?;
                if dtype.lanes() > 1 {
                    return vector::builtin(self.unit, name, dtype, &params, &texts);
                }
                scalar::builtin(self.unit, name, dtype, params[0], &texts)
            }
            _ => fail!(Target, "C has no builtin `{name}`"),
        }
    }

    /// A field of a `DLTensor`, an FFI value or an array, by the number of its kind.
    fn field(&mut self, pointer: &Expr, index: &Expr, kind: &Expr, dtype: DataType) -> Result<String> {
        let Some(field) = kind.as_int().and_then(StructField::of) else { fail!(Type, "unknown kind of a field") };
        let (pointer, index) = (self.value(pointer)?, self.index(index)?);
        let tensor = format!("((DLTensor*){pointer})[{index}]");
        let value = format!("((TVMFFIAny*){pointer})[{index}]");
        Ok(match field {
            StructField::Address => format!("(&{tensor})"),
            StructField::Data => format!("{tensor}.data"),
            StructField::Shape => format!("{tensor}.shape"),
            StructField::Strides => format!("{tensor}.strides"),
            StructField::Ndim => format!("{tensor}.ndim"),
            StructField::TypeCode => format!("{tensor}.dtype.code"),
            StructField::TypeBits => format!("{tensor}.dtype.bits"),
            StructField::TypeLanes => format!("{tensor}.dtype.lanes"),
            StructField::ByteOffset => format!("{tensor}.byte_offset"),
            StructField::DeviceId => format!("{tensor}.device.device_id"),
            StructField::DeviceType => format!("{tensor}.device.device_type"),
            StructField::AnyTypeIndex => format!("{value}.type_index"),
            StructField::AnyPadding => format!("{value}.zero_padding"),
            StructField::AnyValue if dtype.is_float() => format!("{value}.v_float64"),
            StructField::AnyValue if dtype.is_handle() => format!("{value}.v_ptr"),
            StructField::AnyValue => format!("{value}.v_int64"),
            StructField::Int64Element => format!("((int64_t*){pointer})[{index}]"),
        })
    }

    /// Zeroed memory on the stack, until the end of the function: its declaration is hoisted.
    fn stack(&mut self, kind: &Expr, count: &Expr) -> Result<String> {
        let ExprNode::Text { value } = &**kind else { fail!(Type, "stack_alloca takes its kind as text") };
        let (ty, wanted) = match value.as_str() {
            "any" => ("TVMFFIAny", "values"),
            "shape" => ("int64_t", "shape"),
            "array" => ("DLTensor", "tensors"),
            other => fail!(Type, "stack_alloca: unknown kind `{other}`; there are any, shape, array"),
        };
        let Some(count) = count.as_int().filter(|count| *count >= 0) else {
            fail!(Type, "stack_alloca takes a constant count")
        };
        let name = self.names.unique(wanted);
        self.hoisted.push(format!("  {ty} {name}[{}];", count.max(1)));
        Ok(format!("((void*){name})"))
    }

    /// Calls a packed function by its global name, which is looked up once; the arguments are the
    /// slots `begin .. end` of a stack, the result is slot `end`.
    fn packed(&mut self, args: &[Expr], dtype: DataType) -> Result<String> {
        let [name, stack, begin, end, traced @ ..] = args else {
            fail!(Type, "call_packed_lowered takes a name, a stack, a beginning and an end")
        };
        let ExprNode::Text { value: name } = &**name else { fail!(Type, "call_packed_lowered takes its name as text") };
        require!(
            self.exit == Exit::Status,
            Target,
            "`{}` returns no status, so it cannot call a packed function",
            self.function
        );
        let (stack, begin, end) = (self.value(stack)?, self.index(begin)?, self.index(end)?);
        let (call, init) = (self.unit.runtime(&CALL), self.unit.runtime(&INIT_ONCE));
        let (look_up, library) = (self.unit.runtime(&LOOK_UP), self.unit.library());
        let handle = self.unit.names.unique(&format!("packed_{}", name.as_str()));
        let text = literal::text(name.as_str());
        self.unit.functions.push_str(&format!(
            "static void* {handle};\nstatic int {handle}_init(void** function) {{\n  return {look_up}({library}, {text}, function);\n}}\n\n"
        ));
        let values = self.names.unique("slots");
        let slot = format!("{values}[{end}]");
        self.line(format!("TVMFFIAny* const {values} = (TVMFFIAny*){stack};"));
        self.line(format!("{slot}.type_index = kTVMFFINone, {slot}.zero_padding = 0, {slot}.v_int64 = 0;"));
        self.line(format!("if ({init}(&{handle}, {handle}_init) != 0 ||"));
        self.line(format!(
            "    {call}({handle}, &{values}[{begin}], (int32_t)({end} - {begin}), &{slot}) != 0) {}",
            self.leave("-1")
        ));
        let release = self.unit.releaser();
        let result = if is_void(dtype) {
            self.line(format!("{release}(&{slot});"));
            return Ok(DONE.to_owned());
        } else if dtype.is_handle() {
            // It is kept until the function ends, or until the same call returns another object.
            let owned = self.names.unique("owned");
            self.hoisted.push(format!("  TVMFFIAny {owned} = {{0}};"));
            self.cleanup.push(format!("{release}(&{owned});"));
            self.line(format!("{release}(&{owned});"));
            self.line(format!("{owned} = {slot};"));
            format!("{slot}.v_ptr")
        } else if dtype.is_float() {
            // An integer is converted where a float is expected.
            let whole = format!("({slot}.type_index == kTVMFFIFloat ? {slot}.v_float64 : (double){slot}.v_int64)");
            self.line(format!("{release}(&{slot});"));
            scalar::cast(self.unit, crate::ir::F64, dtype, &whole)?
        } else {
            self.line(format!("{release}(&{slot});"));
            scalar::cast(self.unit, I64, dtype, &format!("{slot}.v_int64"))?
        };
        match traced {
            [] => Ok(result),
            [traced, ..] => {
                let traced = self.value(traced)?;
                Ok(format!("({slot}.type_index == kTVMFFINone ? {traced} : {result})"))
            }
        }
    }
}
