//! Functions: signatures, attributes, beginning and end.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::module::Linkage;
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{BasicValue, FunctionValue, PointerValue};
use inkwell::{AtomicOrdering, GlobalVisibility};
use kernpack::{Any, Bytes, DataType, Map, Str};

use super::emit::Value;
use super::loop_cost;
use super::state::{Convention, PointerFacts, State};
use super::{CodeGenLLVM, PREFIX};
use crate::error::{Result, fail, require};
use crate::ir::{Buffer, DataTypeExt, ExprNode, FuncKind, LoweredFunc, PARALLEL_TASK, Stmt};

/// A function that can be called by name.
#[derive(Clone, Copy)]
pub(super) struct Declared<'ctx> {
    pub(super) function: FunctionValue<'ctx>,
    pub(super) convention: Convention,
    /// True if all tasks of a launch call it together: the number of the task and its environment
    /// follow the parameters.
    pub(super) is_task: bool,
}

/// LLVM's flags for floating-point instructions.
const FLAGS: &[(&str, u32)] =
    &[("reassoc", 1), ("nnan", 2), ("ninf", 4), ("nsz", 8), ("arcp", 16), ("contract", 32), ("afn", 64), ("fast", 127)];

/// Returns true for the type of no value.
pub(super) fn is_void(dtype: DataType) -> bool {
    dtype.lanes() == 0 || dtype.bits() == 0
}

/// A string attribute of a function.
fn text(function: &LoweredFunc, name: &str) -> Option<String> {
    Some(function.attr(name)?.to::<Str>().ok()?.as_str().to_owned())
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Declares a function.
    pub(super) fn declare_function(&mut self, function: &LoweredFunc) -> Result<()> {
        let name = function.name.as_str();
        require!(!self.functions.contains_key(name), Lower, "two functions of the module are called `{name}`");
        let symbol = text(function, "global_symbol");
        let (convention, linkage, symbol) = match (function.kind, symbol) {
            (FuncKind::Host, Some(symbol)) => (Convention::Status, Linkage::External, symbol),
            (FuncKind::Host, None) => (Convention::Status, Linkage::External, format!("{PREFIX}{}{name}", self.prefix)),
            (FuncKind::Mixed, symbol) | (FuncKind::Internal, symbol @ Some(_)) => {
                let ret = (!is_void(function.ret)).then_some(function.ret);
                (Convention::Plain(ret), Linkage::External, symbol.unwrap_or_else(|| name.to_owned()))
            }
            _ if is_void(function.ret) => (Convention::Status, Linkage::Internal, name.to_owned()),
            _ => (Convention::StatusAndValue, Linkage::Internal, name.to_owned()),
        };
        let mut params = Vec::new();
        for param in function.params.iter() {
            let dtype = param.buffer.as_ref().map_or(param.var.dtype(), |_| crate::ir::POINTER);
            params.push(self.value_type(dtype)?.into());
        }
        let is_task = function.attr(PARALLEL_TASK).is_some();
        if is_task {
            let fits = function.kind == FuncKind::Internal && convention == Convention::Status;
            require!(fits, Lower, "`{name}` is called by the tasks of a launch, so it is internal and returns nothing");
            params.push(self.context.i32_type().into());
            params.push(self.pointer_type().into());
        }
        if convention == Convention::StatusAndValue {
            params.push(self.pointer_type().into());
        }
        let ty = match convention {
            Convention::Plain(None) => self.context.void_type().fn_type(&params, false),
            Convention::Plain(Some(dtype)) => self.value_type(dtype)?.fn_type(&params, false),
            _ => self.context.i32_type().fn_type(&params, false),
        };
        let declared = self.module.add_function(&symbol, ty, Some(linkage));
        if linkage == Linkage::External {
            self.registered.push((symbol, declared));
        }
        self.functions.insert(name.to_owned(), Declared { function: declared, convention, is_task });
        self.declare_constants(function)
    }

    /// Declares the data in the attribute `constants` of a function, by name: bytes, or the symbol
    /// that another object defines, hidden and aligned to 64 bytes.
    fn declare_constants(&mut self, function: &LoweredFunc) -> Result<()> {
        let Some(constants) = function.attr("constants") else { return Ok(()) };
        let name = function.name.as_str();
        let Ok(constants) = constants.to::<Map<Str, Any>>() else {
            fail!(Type, "attribute `constants` of `{name}` is not a map from texts to bytes or symbols")
        };
        for (key, data) in constants.iter() {
            let global = if let Ok(symbol) = data.to::<Str>() {
                let global = self.module.add_global(self.context.i8_type(), None, symbol.as_str());
                global.set_linkage(Linkage::External);
                global.set_visibility(GlobalVisibility::Hidden);
                global
            } else if let Ok(bytes) = data.to::<Bytes>() {
                let content = self.context.const_string(bytes.as_ref(), false);
                let global = self.module.add_global(content.get_type(), None, key.as_str());
                global.set_initializer(&content);
                global.set_linkage(Linkage::Private);
                global
            } else {
                fail!(Type, "data `{}` of `{name}` is neither bytes nor a symbol", key.as_str())
            };
            global.set_constant(true);
            global.set_alignment(64);
            let before = self.constants.insert(key.as_str().to_owned(), global);
            require!(before.is_none(), Lower, "two functions of the module have data called `{}`", key.as_str());
        }
        Ok(())
    }

    /// Reads the pointer variable with a symbol that another object defines.
    pub(super) fn linked_pointer(&self, symbol: &str) -> Result<Value<'ctx>> {
        let ty = self.pointer_type();
        let variable = self.module.get_global(symbol).unwrap_or_else(|| {
            let variable = self.module.add_global(ty, None, symbol);
            variable.set_linkage(Linkage::External);
            variable.set_visibility(GlobalVisibility::Hidden);
            variable
        });
        // Code of the library writes it with `Release`.
        self.atomic_load(ty.into(), variable.as_pointer_value(), AtomicOrdering::Acquire)
    }

    /// Loads eight bytes atomically.
    pub(super) fn atomic_load(
        &self,
        ty: BasicTypeEnum<'ctx>,
        address: PointerValue<'ctx>,
        ordering: AtomicOrdering,
    ) -> Result<Value<'ctx>> {
        let read = self.builder.build_load(ty, address, "")?;
        if let Some(load) = super::emit::instruction(read) {
            let ordered = load.set_atomic_ordering(ordering).and_then(|()| load.set_alignment(8));
            if let Err(error) = ordered {
                fail!(Internal, "an atomic load: {error}");
            }
        }
        Ok(read)
    }

    /// Sets the attributes of every function with code.
    pub(super) fn set_function_attributes(&self, function: FunctionValue<'ctx>) {
        let target = &self.target;
        let text = |key: &str, value: &str| {
            let attribute = self.context.create_string_attribute(key, value);
            function.add_attribute(AttributeLoc::Function, attribute);
        };
        if !target.cpu.is_empty() {
            text("target-cpu", &target.cpu);
        }
        if !target.features.is_empty() {
            text("target-features", &target.features);
        }
        // Without it, LLVM prefers half of the width on some CPUs.
        text("prefer-vector-width", &target.vector_bits().to_string());
        for name in ["nounwind", "mustprogress"] {
            self.set_attribute(function, AttributeLoc::Function, name, 0);
        }
    }

    pub(super) fn set_attribute(&self, function: FunctionValue<'ctx>, place: AttributeLoc, name: &str, value: u64) {
        let kind = Attribute::get_named_enum_kind_id(name);
        function.add_attribute(place, self.context.create_enum_attribute(kind, value));
    }

    /// Writes a declared function.
    pub(super) fn define_function(&mut self, function: &LoweredFunc) -> Result<()> {
        let Some(Declared { function: code, convention, is_task }) =
            self.functions.get(function.name.as_str()).copied()
        else {
            fail!(Internal, "`{}` is not declared", function.name.as_str())
        };
        let noalias = function.attr("noalias").is_none_or(|value| value.to::<i64>().unwrap_or(1) != 0);
        let argument_alignment = function.attr("data_alignment").and_then(|value| value.to::<i64>().ok()).unwrap_or(0);
        let argument_alignment = u64::try_from(argument_alignment).ok().filter(|align| align.is_power_of_two());
        self.state = State {
            noalias,
            fast_math: self.fast_math(function)?,
            argument_alignment: argument_alignment.unwrap_or(0),
            ..State::default()
        };
        self.is_large = loop_cost::is_large(&function.body);
        self.begin_function(code, function.name.as_str(), convention, 0)?;
        for (param, value) in function.params.iter().zip(code.get_param_iter()) {
            value.set_name(param.var.name());
            self.state.vars.insert(param.var.clone(), value);
            self.state.index_facts.note_param(&param.var);
            if let Some(buffer) = &param.buffer {
                self.state.vars.insert(buffer.data.clone(), value);
                self.note_pointer(buffer, true);
                if noalias && self.state.regions.of(&buffer.data).is_none() {
                    let region = self.new_region(buffer.name.as_str());
                    self.state.regions.set(&buffer.data, Some(region));
                }
            }
        }
        if function.attr("noinline").is_some_and(|value| value.to::<i64>().unwrap_or(0) != 0) {
            self.set_attribute(code, AttributeLoc::Function, "noinline", 0);
        }
        // The computation of a packed function is a separate function.
        if function.kind == FuncKind::Host && loop_cost::has_many_checks(&function.body) {
            for name in ["noinline", "optnone"] {
                self.set_attribute(code, AttributeLoc::Function, name, 0);
            }
            self.begin_many_checks()?;
        }
        if is_task {
            self.begin_task(code)?;
        }
        for (position, param) in function.params.iter().enumerate() {
            if param.buffer.is_some() || param.var.dtype().is_handle() {
                let data = param.buffer.as_ref().map_or(param.var.clone(), |buffer| buffer.data.clone());
                self.set_pointer_attributes(code, position as u32, &data);
            }
        }
        self.body(&function.body)?;
        self.end_function()
    }

    fn fast_math(&self, function: &LoweredFunc) -> Result<u32> {
        // Products and sums may be fused into one instruction; this flag changes no other results.
        let mut flags = 32;
        for flag in text(function, "fastmath").unwrap_or_default().split([',', ' ']).filter(|flag| !flag.is_empty()) {
            match FLAGS.iter().find(|(name, _)| *name == flag) {
                Some((_, bit)) => flags |= bit,
                None if flag == "off" => flags = 0,
                None => fail!(
                    Target,
                    "unknown fast-math flag `{flag}` of `{}`; there are {}, off",
                    function.name.as_str(),
                    FLAGS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
                ),
            }
        }
        Ok(flags)
    }

    /// Records the facts about a buffer's data pointer. `is_argument`: the whole shape exists, and
    /// the address comes from the caller.
    pub(super) fn note_pointer(&mut self, buffer: &Buffer, is_argument: bool) {
        let own = u64::try_from(buffer.data_alignment).ok().filter(|align| align.is_power_of_two()).unwrap_or(0);
        let align = match self.state.pointers.get(&buffer.data) {
            Some(known) => known.align,
            None if is_argument => self.state.argument_alignment,
            None => own,
        };
        let mut facts = PointerFacts { align, bytes: 0 };
        let extents: Option<Vec<i64>> = buffer.shape.iter().map(|extent| extent.as_int()).collect();
        if let Some(extents) = extents.filter(|_| is_argument && buffer.strides.is_empty()) {
            let lanes = i64::from(buffer.dtype.lanes()) * buffer.dtype.lane_bytes() as i64;
            let bytes = extents.iter().fold(lanes, |product, extent| product.saturating_mul(*extent));
            facts.bytes = u64::try_from(bytes).unwrap_or(0);
        }
        self.state.pointers.insert(buffer.data.clone(), facts);
    }

    /// Sets the attributes of a pointer parameter.
    pub(super) fn set_pointer_attributes(&self, function: FunctionValue<'ctx>, position: u32, data: &crate::ir::Var) {
        let place = AttributeLoc::Param(position);
        self.set_attribute(function, place, "noundef", 0);
        // After a barrier, memory contains values that other tasks wrote through the same pointers:
        // the attribute would allow moving loads across it.
        if self.state.regions.of(data).is_some() && self.state.task.is_none() {
            self.set_attribute(function, place, "noalias", 0);
        }
        let Some(facts) = self.state.pointers.get(data) else { return };
        if facts.align > 1 {
            self.set_attribute(function, place, "align", facts.align);
        }
        if facts.bytes > 0 {
            self.set_attribute(function, place, "nonnull", 0);
            self.set_attribute(function, place, "dereferenceable", facts.bytes);
        }
    }

    /// Creates the blocks that every function has.
    pub(super) fn begin_function(
        &mut self,
        function: FunctionValue<'ctx>,
        name: &str,
        convention: Convention,
        outer_line: u32,
    ) -> Result<()> {
        self.set_function_attributes(function);
        name.clone_into(&mut self.state.name);
        self.state.function = Some(function);
        self.state.convention = convention;
        let entry = self.context.append_basic_block(function, "entry");
        let body = self.context.append_basic_block(function, "body");
        self.state.entry = Some(entry);
        self.state.failure = Some(self.context.append_basic_block(function, "failure"));
        self.state.exit = Some(self.context.append_basic_block(function, "exit"));
        self.builder.position_at_end(entry);
        self.begin_lines(function, name, outer_line);
        self.builder.build_unconditional_branch(body)?;
        self.builder.position_at_end(body);
        Ok(())
    }

    /// Completes the current function: the exit without an error, the exit with an error, and the
    /// cleanup at both.
    pub(super) fn end_function(&mut self) -> Result<()> {
        let zero: Value<'ctx> = self.context.i32_type().const_zero().into();
        let (fine, failed) = match self.state.convention {
            Convention::Status | Convention::StatusAndValue => {
                (Some(zero), Some(self.context.i32_type().const_all_ones().into()))
            }
            Convention::Plain(None) => (None, None),
            Convention::Plain(Some(dtype)) => {
                let failed = if dtype.is_integer() { -1 } else { 0 };
                (Some(self.constant(dtype, 0)?), Some(self.constant(dtype, failed)?))
            }
        };
        self.leave_scope(0)?;
        self.leave_function(fine)?;
        let (Some(failure), Some(exit)) = (self.state.failure, self.state.exit) else {
            fail!(Internal, "the end of a function that has not begun")
        };
        self.end_many_checks(failure)?;
        self.builder.position_at_end(failure);
        self.leave_function(failed)?;
        self.builder.position_at_end(exit);
        let value = match fine {
            Some(value) => {
                let phi = self.builder.build_phi(value.get_type(), "result")?;
                let returns: Vec<_> =
                    self.state.returns.iter().map(|(value, from)| (value as &dyn BasicValue<'ctx>, *from)).collect();
                phi.add_incoming(&returns);
                Some(phi.as_basic_value())
            }
            None => None,
        };
        self.release_owned()?;
        match &value {
            Some(value) => self.builder.build_return(Some(value as &dyn BasicValue<'ctx>))?,
            None => self.builder.build_return(None)?,
        };
        self.state = State::default();
        self.unmark_line();
        Ok(())
    }

    /// Emits a body of a loop, a condition, or a function: its own workspaces are freed at its end.
    pub(super) fn body(&mut self, body: &Stmt) -> Result<()> {
        let cleanups = self.state.cleanups.len();
        self.stmt(body)?;
        self.leave_scope(cleanups)
    }

    /// Returns true if a buffer's memory is that of an argument, so that its whole shape exists.
    pub(super) fn is_argument(data: &crate::ir::Expr) -> bool {
        match &**data {
            ExprNode::Call { name, args, .. } => match name.as_str() {
                "struct_get" => true,
                "reinterpret" | "handle_add_byte_offset" => args.get(0).is_some_and(|value| Self::is_argument(&value)),
                _ => false,
            },
            _ => false,
        }
    }
}
