//! Calls that only the host has: C functions, packed functions, the runtime.

use kernpack::DataType;

use super::runtime::{ALLOC_WORKSPACE, BARRIER, CALL, FREE_WORKSPACE, INIT_ONCE, LOOK_UP};
use crate::codegen::source::body::{Body, Exit};
use crate::codegen::source::expr::{DONE, is_void};
use crate::codegen::source::{literal, scalar};
use crate::error::{Result, fail, require};
use crate::ir::builtin::{self, StructField};
use crate::ir::{CallKind, DataTypeExt, Expr, ExprNode, I64};

impl Body<'_> {
    /// Writes a call of a function.
    pub(crate) fn host_call(&mut self, kind: CallKind, name: &str, args: &[Expr], dtype: DataType) -> Result<String> {
        match kind {
            CallKind::Extern | CallKind::PureExtern => self.external(name, args, dtype),
            CallKind::Function => {
                let Some(symbol) = self.unit.callees.get(name).cloned() else {
                    fail!(Lower, "function `{name}` is called, but the module has none of that name")
                };
                let args = self.values(args)?;
                Ok(format!("{symbol}({})", args.join(", ")))
            }
            _ => fail!(Lower, "C: a call of packed function `{name}` is left: run LowerBuiltin first"),
        }
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

    /// Writes a builtin that only code of the host has; returns `None` for another one.
    pub(crate) fn host_builtin(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Option<String>> {
        let arg = |index: usize| match args.get(index) {
            Some(arg) => Ok(arg),
            None => fail!(Type, "builtin `{name}` has {} arguments, which are too few", args.len()),
        };
        Ok(Some(match name {
            builtin::ADDRESS_OF | builtin::ACCESS_PTR => match &**arg(0)? {
                ExprNode::Load { buffer, index, .. } => format!("((void*){})", self.first_address(buffer, index)?),
                _ => fail!(Type, "`{name}` takes a load"),
            },
            builtin::ISNULLPTR => format!("({} == NULL)", self.value(arg(0)?)?),
            builtin::HANDLE_ADD_BYTE_OFFSET => {
                let (pointer, bytes) = (self.value(arg(0)?)?, self.index(arg(1)?)?);
                format!("((void*)((char*){pointer} + {bytes}))")
            }
            builtin::STRUCT_GET => {
                let place = self.field(arg(0)?, arg(1)?, arg(2)?, dtype)?;
                format!("(({}){place})", self.unit.words.scalar(dtype))
            }
            builtin::STRUCT_SET => {
                let value = arg(3)?;
                let from = value.dtype();
                let text = self.value(value)?;
                let place = self.field(arg(0)?, arg(1)?, arg(2)?, from)?;
                match arg(2)?.as_int().and_then(StructField::of) {
                    Some(StructField::DeviceType) => format!("({place} = (DLDeviceType){text})"),
                    _ => format!("({place} = {text})"),
                }
            }
            builtin::STACK_ALLOCA => self.stack(arg(0)?, arg(1)?)?,
            builtin::PREFETCH => {
                let address = self.value(arg(0)?)?;
                let hint = |index: usize| args.get(index).and_then(|hint| hint.as_int()).unwrap_or(0);
                format!("KP_PREFETCH({address}, {}, {})", hint(1).clamp(0, 1), hint(2).clamp(0, 3))
            }
            builtin::ASSUME => DONE.to_owned(),
            builtin::ALLOC_WORKSPACE | builtin::FREE_WORKSPACE => {
                let is_alloc = name == builtin::ALLOC_WORKSPACE;
                let function = self.unit.runtime(if is_alloc { &ALLOC_WORKSPACE } else { &FREE_WORKSPACE });
                let args = self.values(args)?;
                format!("{function}({})", args.join(", "))
            }
            builtin::STATIC_HANDLE => {
                let handle = self.unit.names.unique("static_handle");
                self.unit.functions.push_str(&format!("static void* {handle};\n"));
                format!("((void*)&{handle})")
            }
            builtin::CALL_PACKED_LOWERED | builtin::CALL_TRACE_PACKED_LOWERED => self.packed(args, dtype)?,
            builtin::THROW_LAST_ERROR => {
                require!(
                    self.exit == Exit::Status,
                    Target,
                    "`{}` returns no status, so it has no way to end with an error",
                    self.function
                );
                let leave = self.leave("-1");
                self.line(leave);
                DONE.to_owned()
            }
            builtin::BREAK_LOOP | builtin::CONTINUE_LOOP => {
                self.line(if name == builtin::BREAK_LOOP { "break;" } else { "continue;" });
                DONE.to_owned()
            }
            builtin::PARALLEL_BARRIER => {
                require!(self.in_task, Lower, "parallel_barrier outside of a parallel loop");
                let barrier = self.unit.runtime(&BARRIER);
                self.line(format!("if ({barrier}(task_id, group) != 0) {}", self.leave("-1")));
                DONE.to_owned()
            }
            _ => return Ok(None),
        }))
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
