//! Calls of C functions and of other functions of the module.

use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Linkage;
use inkwell::types::BasicType;
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::Value;
use super::function::{Declared, is_void};
use super::state::Convention;
use crate::error::{Result, fail};
use crate::ir::{DataTypeExt, Expr};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Calls a C function by its symbol.
    pub(super) fn external(
        &mut self,
        symbol: &str,
        args: &[Value<'ctx>],
        dtype: DataType,
        is_pure: bool,
    ) -> Result<Value<'ctx>> {
        let mut plain = Vec::with_capacity(args.len());
        for arg in args {
            // A truth value is a byte in C.
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
                // If one symbol has two types, the call uses its own.
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
                    // The function has no effect on memory of any kind.
                    self.set_attribute(declared, AttributeLoc::Function, "memory", 0);
                }
                declared
            }
        };
        let plain: Vec<_> = plain.iter().map(|arg| (*arg).into()).collect();
        let call = self.builder.build_direct_call(function, &plain, "")?;
        self.external_value(call.try_as_basic_value().basic(), returns_bool)
    }

    pub(super) fn external_value(&self, value: Option<Value<'ctx>>, returns_bool: bool) -> Result<Value<'ctx>> {
        match value {
            Some(Value::IntValue(byte)) if returns_bool => {
                let zero = byte.get_type().const_zero();
                Ok(self.builder.build_int_compare(IntPredicate::NE, byte, zero, "")?.into())
            }
            Some(value) => Ok(value),
            None => Ok(self.nothing()),
        }
    }

    /// Calls a C function of scalars for each lane.
    pub(super) fn pure_external(&mut self, symbol: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        let args = self.values(args)?;
        self.for_each_lane(&args, dtype.lanes(), |this, args| this.external(symbol, args, dtype.element(), true))
    }

    /// Applies a function of scalars to each lane.
    pub(super) fn for_each_lane(
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

    /// Calls another function of the module.
    pub(super) fn call_function(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Value<'ctx>> {
        let Some(Declared { function, convention, is_task }) = self.functions.get(name).copied() else {
            fail!(Lower, "function `{name}` is called, but the module has none of that name")
        };
        let mut values = self.values(args)?;
        let hidden = usize::from(convention == Convention::StatusAndValue) + 2 * usize::from(is_task);
        let wanted = function.count_params() as usize - hidden;
        if values.len() != wanted {
            fail!(Lower, "function `{name}` takes {wanted} arguments, got {}", values.len());
        }
        for (param, value) in function.get_param_iter().zip(&values) {
            if param.get_type() != value.get_type() {
                fail!(Lower, "function `{name}` gets an argument of another type than its parameter's");
            }
        }
        if is_task {
            let Some(task) = self.state.task.filter(|task| task.is_open) else {
                fail!(
                    Lower,
                    "function `{name}` is called by the tasks of a launch, and this is not a place where all of them are"
                )
            };
            values.push(task.id.into());
            values.push(task.environment.into());
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
}
