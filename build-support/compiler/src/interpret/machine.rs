//! The machine: frames of registers, one operation after the other.

use std::collections::HashMap;
use std::rc::Rc;

use super::block::{Arg, Block};
use super::code::{Allocation, BufferCode, FunctionCode, Group, Op, Operand, Origin, Place, Quick, Reg, Value};
use super::compile::{self, Shared};
use super::grid::{BlockState, Thread};
use super::memory::{Fault, Memory};
use super::number::{self, Lane};
use super::packed::{PackedCall, PackedValue, compact, tensor};
use super::report;
use crate::error::{CompileError, ErrorKind, Result, fail, require};
use crate::ir::{
    BinaryOp, CompareOp, DataType, DataTypeExt, F64, FuncKind, I32, I64, IrModule, LoweredFunc, U8, U16, U64,
};

type Packed = Box<dyn Fn(&mut PackedCall<'_>) -> Result<PackedValue>>;

/// Runs the functions of a module.
pub struct Machine {
    pub(super) functions: Vec<FunctionCode>,
    pub(super) kinds: Vec<FuncKind>,
    pub(super) names: HashMap<String, usize>,
    pub(super) origins: Vec<Origin>,
    packed: HashMap<String, Packed>,
    step_limit: u64,
    pub(super) warp_size: u32,
}

/// How deep functions call each other.
const CALL_LIMIT: usize = 1000;

/// A function that is running.
pub(super) struct Frame {
    pub(super) function: usize,
    pub(super) pc: usize,
    pub(super) registers: Vec<Value>,
    allocated: Vec<u64>,
    /// Where the caller wants the value.
    to: Reg,
    /// Levels of parallel work outside of it.
    races: usize,
}

/// What runs: the caller's thread, or a thread of a device.
pub(super) struct Context {
    pub(super) frames: Vec<Frame>,
    pub(super) thread: Option<Thread>,
}

/// Why a context does not go on.
pub(super) enum Stop {
    /// It is at its end.
    Done(Option<Value>),
    /// A barrier.
    Sync(Group),
    /// A value of another lane.
    Shuffle,
    /// A reduction across threads.
    AllReduce,
    /// Copies of this thread run first.
    Fork { var: Reg, extent: i64, end: usize },
}

enum Flow {
    Next,
    Jump(usize),
    Call { function: usize, args: Vec<Value>, to: Reg },
    Launch { end: usize },
    Return(Option<Value>),
    Stop(Stop),
}

/// One run.
pub(super) struct Run<'m> {
    pub(super) machine: &'m Machine,
    pub(super) memory: Memory,
    steps: u64,
    /// Pointer variables of the code, by statement.
    pub(super) handles: HashMap<u32, u64>,
    /// The block of threads that runs.
    pub(super) block: Option<BlockState>,
}

impl Machine {
    /// A machine with one function.
    ///
    /// # Errors
    /// See [`of_module`](Self::of_module).
    pub fn new(func: &LoweredFunc) -> Result<Self> {
        Self::of_module(&IrModule::new([func.clone()]))
    }

    /// A machine with the functions of a module.
    ///
    /// # Errors
    /// A program with tensors, unknown variables or builtins, types that do not fit.
    pub fn of_module(module: &IrModule) -> Result<Self> {
        let names: HashMap<String, usize> =
            module.functions.iter().enumerate().map(|(index, func)| (func.name.to_string(), index)).collect();
        require!(names.len() == module.functions.len(), Run, "two functions have one name");
        let (mut origins, mut reducers, mut functions, mut kinds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for func in module.functions.iter() {
            let mut shared = Shared { names: &names, origins: &mut origins, reducers: &mut reducers };
            functions.push(compile::compile(&func, &mut shared)?);
            kinds.push(func.kind);
        }
        functions.extend(reducers);
        Ok(Self { functions, kinds, names, origins, packed: HashMap::new(), step_limit: 1 << 28, warp_size: 32 })
    }

    /// Gives it a packed function, or a C function, by name.
    #[must_use]
    pub fn with_function(
        mut self,
        name: &str,
        function: impl Fn(&mut PackedCall<'_>) -> Result<PackedValue> + 'static,
    ) -> Self {
        self.packed.insert(name.to_owned(), Box::new(function));
        self
    }

    /// Ends a run with an error after this many operations; 2^28 unless said.
    #[must_use]
    pub fn with_step_limit(mut self, steps: u64) -> Self {
        self.step_limit = steps;
        self
    }

    /// Threads in a warp of a device, 1 to 64; 32 unless said.
    #[must_use]
    pub fn with_warp_size(mut self, threads: u32) -> Self {
        self.warp_size = threads.clamp(1, 64);
        self
    }

    /// Calls a function. Blocks keep what it wrote, with an error as well. Extents of a kernel's threads follow its arguments.
    ///
    /// # Errors
    /// An unknown name, arguments that do not fit, and everything that the module's documentation names.
    pub fn run(&self, name: &str, args: &[Arg]) -> Result<Option<Arg>> {
        let Some(function) = self.names.get(name).copied() else { fail!(Run, "the module has no function `{name}`") };
        let mut run = Run { machine: self, memory: Memory::default(), steps: 0, handles: HashMap::new(), block: None };
        let mut blocks = Vec::new();
        let result = run.call(function, args, &mut blocks);
        for (block, address) in blocks {
            let (bytes, known) = run.memory.take(address);
            let mut content = block.0.borrow_mut();
            (content.bytes, content.known) = (bytes, known);
        }
        result
    }
}

/// One word for each lane.
pub(super) fn lanes(value: &Value) -> &[u64] {
    match value {
        Value::Unset => &[],
        Value::One(bits) => core::slice::from_ref(bits),
        Value::Many(lanes) => lanes,
    }
}

fn of_lanes(lanes: Vec<u64>) -> Value {
    match lanes[..] {
        [only] => Value::One(only),
        _ => Value::Many(lanes.into()),
    }
}

fn map(value: &Value, mut change: impl FnMut(u64) -> u64) -> Value {
    match value {
        Value::Unset => Value::Unset,
        Value::One(bits) => Value::One(change(*bits)),
        Value::Many(lanes) => Value::Many(lanes.iter().map(|bits| change(*bits)).collect()),
    }
}

fn map_two(
    a: &Value,
    b: &Value,
    mut combine: impl FnMut(usize, u64, u64) -> Result<u64, Fault>,
) -> Result<Value, Fault> {
    if let (Value::One(a), Value::One(b)) = (a, b) {
        return Ok(Value::One(combine(0, *a, *b)?));
    }
    let (a, b) = (lanes(a), lanes(b));
    if a.len() != b.len() {
        return Err(format!("an operation on vectors of {} and {} lanes", a.len(), b.len()));
    }
    let values: Result<Vec<u64>, Fault> =
        a.iter().zip(b).enumerate().map(|(lane, (a, b))| combine(lane, *a, *b)).collect();
    Ok(of_lanes(values?))
}

fn element_bytes(dtype: DataType) -> i64 {
    (dtype.lane_bytes() * usize::from(dtype.lanes())) as i64
}

impl Frame {
    pub(super) fn new(function: usize, code: &FunctionCode) -> Self {
        Self { function, pc: 0, registers: vec![Value::Unset; code.registers], allocated: Vec::new(), to: 0, races: 0 }
    }

    /// The same registers, for a thread that begins at the next operation.
    pub(super) fn copy(&self) -> Self {
        Self {
            function: self.function,
            pc: self.pc,
            registers: self.registers.clone(),
            allocated: Vec::new(),
            to: 0,
            races: self.races,
        }
    }

    pub(super) fn get(&self, reg: Reg) -> Result<&Value, Fault> {
        match &self.registers[reg] {
            Value::Unset => {
                Err("a value that is not known here: a size that only the shape of an argument gives".to_owned())
            }
            value => Ok(value),
        }
    }

    pub(super) fn bits(&self, reg: Reg) -> Result<u64, Fault> {
        match self.get(reg)? {
            Value::One(bits) => Ok(*bits),
            other => Err(format!("a vector of {} lanes in place of a scalar", lanes(other).len())),
        }
    }

    fn holds(&self, reg: Reg) -> Result<bool, Fault> {
        Ok(self.bits(reg)? != 0)
    }
}

impl<'m> Run<'m> {
    /// Binds arguments and runs a function.
    fn call(&mut self, function: usize, args: &[Arg], blocks: &mut Vec<(Block, u64)>) -> Result<Option<Arg>> {
        let code = &self.machine.functions[function];
        self.insert_blocks(code, args, blocks)?;
        if self.machine.kinds[function] == FuncKind::Host {
            return self.call_host(function, args, blocks);
        }
        let expected = code.params.len() + code.launch.len();
        require!(args.len() == expected, Run, "`{}` takes {expected} arguments, got {}", code.name, args.len());
        let mut frame = Frame::new(function, code);
        for (position, (param, arg)) in code.params.iter().zip(args).enumerate() {
            let bound = match (arg, &param.buffer) {
                (Arg::Block(block), Some(buffer)) => self.bind_buffer(&mut frame, block, param.var, buffer, blocks),
                (Arg::Block(block), None) if param.dtype.is_handle() => {
                    frame.registers[param.var] = Value::One(address_of(block, blocks));
                    Ok(())
                }
                (_, Some(_)) => Err("a tensor is expected".to_owned()),
                (arg, None) => scalar(arg, param.dtype).map(|bits| frame.registers[param.var] = Value::One(bits)),
            };
            bound.map_err(|fault| {
                CompileError::new(ErrorKind::Run, format!("argument {position} (`{}`): {fault}", param.name))
                    .note(format!("in a call of `{}`", code.name))
            })?;
        }
        for (axis, arg) in code.launch.iter().zip(&args[code.params.len()..]) {
            let bits = scalar(arg, I64)
                .map_err(|fault| CompileError::new(ErrorKind::Run, format!("extent of {}: {fault}", axis.tag)))?;
            frame.registers[axis.extent] = Value::One(bits);
        }
        let value = self.execute_all(frame)?;
        Ok(match (value, code.ret) {
            (Some(Value::One(bits)), Some(dtype)) if dtype.is_float() => Some(Arg::Float(number::to_f64(dtype, bits))),
            (Some(Value::One(bits)), Some(_)) => Some(Arg::Int(bits as i64)),
            _ => None,
        })
    }

    /// Puts the arguments' memory into the machine: one region for each block, even if it is given twice.
    fn insert_blocks(&mut self, code: &FunctionCode, args: &[Arg], blocks: &mut Vec<(Block, u64)>) -> Result<()> {
        for (position, arg) in args.iter().enumerate() {
            let Arg::Block(block) = arg else { continue };
            if blocks.iter().any(|(known, _)| Rc::ptr_eq(&known.0, &block.0)) {
                continue;
            }
            let same = args
                .iter()
                .enumerate()
                .filter(|(_, other)| matches!(other, Arg::Block(other) if Rc::ptr_eq(&other.0, &block.0)));
            let writable = same
                .map(|(at, _)| code.params.get(at))
                .any(|param| param.and_then(|param| param.buffer.as_ref()).is_none_or(|buffer| buffer.output));
            let name = match code.params.get(position).and_then(|param| param.buffer.as_ref()) {
                Some(buffer) => buffer.name.clone(),
                None => format!("argument {position}"),
            };
            let mut content = block.0.borrow_mut();
            let (bytes, known) = (core::mem::take(&mut content.bytes), core::mem::take(&mut content.known));
            let misalignment = content.misalignment;
            let address = self
                .memory
                .insert(&name, bytes, known, misalignment, writable, false)
                .map_err(|fault| CompileError::new(ErrorKind::Run, fault))?;
            drop(content);
            blocks.push((block.clone(), address));
        }
        Ok(())
    }

    fn bind_buffer(
        &mut self,
        frame: &mut Frame,
        block: &Block,
        var: Reg,
        buffer: &BufferCode,
        blocks: &[(Block, u64)],
    ) -> Result<(), Fault> {
        let address = address_of(block, blocks);
        let content = block.0.borrow();
        if content.dtype != buffer.dtype {
            return Err(format!(
                "elements of {} are expected, got {}",
                buffer.dtype.short_name(),
                content.dtype.short_name()
            ));
        }
        if content.shape.len() != buffer.shape.len() {
            return Err(format!("{} dimensions are expected, got {}", buffer.shape.len(), content.shape.len()));
        }
        if buffer.alignment > 0 && !address.is_multiple_of(buffer.alignment as u64) {
            return Err(format!("the address is no multiple of {}, which the function promises", buffer.alignment));
        }
        let strides = content.full_strides();
        let empty = content.shape.contains(&0);
        if buffer.strides.is_empty() && !empty && !same_strides(&content.shape, &strides, &compact(&content.shape)) {
            return Err("a compact tensor is expected".to_owned());
        }
        for (reg, extent) in buffer.shape.iter().zip(&content.shape) {
            frame.registers[*reg] = Value::One(*extent as u64);
        }
        for (reg, stride) in buffer.strides.iter().zip(&strides) {
            frame.registers[*reg] = Value::One(*stride as u64);
        }
        frame.registers[buffer.offset] = Value::One(content.offset as u64);
        frame.registers[buffer.data] = Value::One(address);
        if var != buffer.data {
            let size = element_bytes(content.dtype);
            let tensor = self.make_tensor(address, content.dtype, &content.shape, &strides, content.offset * size)?;
            frame.registers[var] = Value::One(tensor);
        }
        Ok(())
    }

    /// A `DLTensor` in memory.
    pub(super) fn make_tensor(
        &mut self,
        data: u64,
        dtype: DataType,
        shape: &[i64],
        strides: &[i64],
        byte_offset: i64,
    ) -> Result<u64, Fault> {
        let memory = &mut self.memory;
        let at = memory.allocate("DLTensor", tensor::SIZE as usize, false)?;
        let mut array = |values: &[i64]| -> Result<u64, Fault> {
            let at = memory.allocate("shape", values.len() * 8, false)?;
            for (value, address) in values.iter().zip((at..).step_by(8)) {
                memory.write(address, I64, *value as u64, 0)?;
            }
            Ok(at)
        };
        let (shape_at, strides_at) = (array(shape)?, array(strides)?);
        for (field, kind, value) in [
            (tensor::DATA, U64, data),
            (tensor::DEVICE_TYPE, I32, 1),
            (tensor::DEVICE_ID, I32, 0),
            (tensor::NDIM, I32, shape.len() as u64),
            (tensor::CODE, U8, u64::from(dtype.code())),
            (tensor::BITS, U8, u64::from(dtype.bits())),
            (tensor::LANES, U16, u64::from(dtype.lanes())),
            (tensor::SHAPE, U64, shape_at),
            (tensor::STRIDES, U64, strides_at),
            (tensor::BYTE_OFFSET, U64, byte_offset as u64),
        ] {
            memory.write(at + field, kind, value, 0)?;
        }
        Ok(at)
    }

    /// A packed function, called with FFI values in memory.
    fn call_host(&mut self, function: usize, args: &[Arg], blocks: &[(Block, u64)]) -> Result<Option<Arg>> {
        let code = &self.machine.functions[function];
        require!(
            code.params.len() == 4,
            Run,
            "packed function `{}` has {} parameters, not handle, arguments, number and result",
            code.name,
            code.params.len()
        );
        let mut stack = || -> Result<(u64, u64), Fault> {
            let stack = self.memory.allocate("arguments", args.len() * 16, false)?;
            for (arg, at) in args.iter().zip((stack..).step_by(16)) {
                let (kind, bits) = match arg {
                    Arg::Int(value) => (1, *value as u64),
                    Arg::Float(value) => (3, value.to_bits()),
                    Arg::Block(block) => {
                        let (address, content) = (address_of(block, blocks), block.0.borrow());
                        let offset = content.offset * element_bytes(content.dtype);
                        let strides = content.full_strides();
                        (7, self.make_tensor(address, content.dtype, &content.shape, &strides, offset)?)
                    }
                };
                self.memory.write(at, I32, kind, 0)?;
                self.memory.write(at + 4, I32, 0, 0)?;
                self.memory.write(at + 8, U64, bits, 0)?;
            }
            let result = self.memory.allocate("result", 16, false)?;
            for half in [result, result + 8] {
                self.memory.write(half, U64, 0, 0)?;
            }
            Ok((stack, result))
        };
        let internal = |fault| CompileError::new(ErrorKind::Run, fault);
        let (stack, result) = stack().map_err(internal)?;
        let mut frame = Frame::new(function, code);
        for (param, value) in code.params.iter().zip([0, stack, args.len() as u64, result]) {
            frame.registers[param.var] = Value::One(value);
        }
        let status = self.execute_all(frame)?;
        if let Some(Value::One(status)) = status
            && status as u32 != 0
        {
            fail!(Run, "`{}` returned {}", code.name, status as i32);
        }
        let mut read = |at, dtype| self.memory.read(at, dtype, 0).map_err(internal);
        Ok(match read(result, I32)? {
            0 => None,
            3 => Some(Arg::Float(f64::from_bits(read(result + 8, F64)?))),
            _ => Some(Arg::Int(read(result + 8, I64)? as i64)),
        })
    }

    fn execute_all(&mut self, frame: Frame) -> Result<Option<Value>> {
        let mut context = Context { frames: vec![frame], thread: None };
        match self.execute(&mut context)? {
            Stop::Done(value) => Ok(value),
            _ => fail!(Run, "a barrier outside of a kernel"),
        }
    }

    /// The error of a fault where a context is.
    pub(super) fn error(&self, context: &Context, fault: Fault) -> CompileError {
        let Some(frame) = context.frames.last() else { return CompileError::new(ErrorKind::Run, fault) };
        let code = &self.machine.functions[frame.function];
        let origin = &self.machine.origins[code.origins[frame.pc.min(code.origins.len() - 1)] as usize];
        let mut error = report::error(fault, origin, &frame.registers);
        if let Some(stmt) = self.memory.races.other.and_then(|other| self.machine.origins[other as usize].stmt.as_ref())
        {
            error = error.note(format!("the other access is in `{}`", crate::text::headline(stmt)));
        }
        if let Some(thread) = &context.thread {
            error = error.note(format!("by {}", thread.describe()));
        }
        error
    }

    /// Runs a context until it stops. After a stop the next operation is the one behind.
    pub(super) fn execute(&mut self, context: &mut Context) -> Result<Stop> {
        loop {
            self.steps += 1;
            if self.steps > self.machine.step_limit {
                let limit = self.machine.step_limit;
                return Err(self.error(context, format!("the limit of {limit} operations is reached")));
            }
            let thread = context.thread.as_ref();
            let frame = context.frames.last_mut().expect("a context has a frame");
            let flow = match self.step(frame, thread) {
                Ok(flow) => flow,
                Err(fault) => return Err(self.error(context, fault)),
            };
            match flow {
                Flow::Next => frame.pc += 1,
                Flow::Jump(target) => frame.pc = target,
                Flow::Stop(stop) => {
                    frame.pc += 1;
                    return Ok(stop);
                }
                Flow::Launch { end } => {
                    if thread.is_some() {
                        return Err(self.error(context, "a kernel is launched inside a kernel".to_owned()));
                    }
                    self.launch(context)?;
                    context.frames.last_mut().expect("a context has a frame").pc = end;
                }
                Flow::Call { function, args, to } => {
                    if context.frames.len() >= CALL_LIMIT {
                        return Err(self.error(context, format!("calls are more than {CALL_LIMIT} deep")));
                    }
                    match self.enter(function, args) {
                        Ok(mut called) => {
                            called.to = to;
                            context.frames.push(called);
                        }
                        Err(fault) => return Err(self.error(context, fault)),
                    }
                }
                Flow::Return(value) => {
                    let frame = context.frames.pop().expect("a context has a frame");
                    for address in frame.allocated {
                        self.memory.free(address).map_err(|fault| self.error(context, fault))?;
                    }
                    if thread_is_none(context) {
                        self.memory.races.truncate(frame.races);
                    }
                    let Some(caller) = context.frames.last_mut() else { return Ok(Stop::Done(value)) };
                    caller.registers[frame.to] = value.unwrap_or(Value::One(0));
                    caller.pc += 1;
                }
            }
        }
    }

    /// Runs operations up to one, which is not run.
    pub(super) fn execute_to(&mut self, context: &mut Context, end: usize) -> Result<()> {
        while context.frames[0].pc < end {
            let frame = &mut context.frames[0];
            match self.step(frame, None) {
                Ok(Flow::Next) => frame.pc += 1,
                Ok(Flow::Jump(target)) => frame.pc = target,
                Ok(_) => return Err(self.error(context, "a call in the combiner of a reduction".to_owned())),
                Err(fault) => return Err(self.error(context, fault)),
            }
        }
        Ok(())
    }

    fn enter(&self, function: usize, args: Vec<Value>) -> Result<Frame, Fault> {
        let code = &self.machine.functions[function];
        if args.len() != code.params.len() {
            return Err(format!("`{}` takes {} arguments, got {}", code.name, code.params.len(), args.len()));
        }
        let mut frame = Frame::new(function, code);
        // Shapes are not known in a call by pointers: there is nothing to compare.
        frame.pc = code.body;
        frame.races = self.memory.races.depth();
        for (param, value) in code.params.iter().zip(args) {
            if let Some(buffer) = &param.buffer {
                frame.registers[buffer.data] = value.clone();
                frame.registers[buffer.offset] = Value::One(0);
            }
            frame.registers[param.var] = value;
        }
        Ok(frame)
    }

    /// One operation.
    fn step(&mut self, frame: &mut Frame, thread: Option<&Thread>) -> Result<Flow, Fault> {
        let machine = self.machine;
        let code = &machine.functions[frame.function];
        let stmt = code.origins[frame.pc];
        let (to, value) = match &code.ops[frame.pc] {
            Op::Constant { to, value } => (*to, value.clone()),
            Op::Copy { to, from } => (*to, frame.get(*from)?.clone()),
            Op::Cast { to, from, old, new } => (*to, map(frame.get(*from)?, |bits| number::cast(*old, *new, bits))),
            Op::Binary { to, op, lane, a, b, checked, active } => {
                let active = active.map(|active| frame.get(active)).transpose()?;
                let value = map_two(frame.get(*a)?, frame.get(*b)?, |position, x, y| {
                    if active.is_some_and(|active| lanes(active)[position] == 0) {
                        return Ok(0);
                    }
                    number::binary(*op, *lane, x, y, *checked).map_err(|fault| operands(fault, *lane, x, y))
                })?;
                (*to, value)
            }
            Op::Quick { to, quick, a, b } => {
                let (Value::One(x), Value::One(y)) = (&frame.registers[*a], &frame.registers[*b]) else {
                    return Err(frame.get(*a).and_then(|_| frame.get(*b)).err().unwrap_or_default());
                };
                let bits = quick_value(*quick, *x, *y)?;
                (*to, Value::One(bits))
            }
            Op::Compare { to, op, lane, a, b } => {
                let compare = |_, x, y| Ok(u64::from(number::compare(*op, *lane, x, y)));
                (*to, map_two(frame.get(*a)?, frame.get(*b)?, compare)?)
            }
            Op::Logic { to, op, a, b } => {
                let value = map_two(frame.get(*a)?, frame.get(*b)?, |_, x, y| {
                    Ok(match op {
                        crate::ir::LogicOp::And => x & y,
                        crate::ir::LogicOp::Or => x | y,
                    })
                })?;
                (*to, value)
            }
            Op::Not { to, from } => (*to, map(frame.get(*from)?, |bits| bits ^ 1)),
            Op::Any { to, from } => {
                let any = lanes(frame.get(*from)?).iter().any(|bits| *bits != 0);
                (*to, Value::One(any.into()))
            }
            Op::Select { to, condition, a, b } => {
                let (a, b) = (frame.get(*a)?, frame.get(*b)?);
                let value = match frame.get(*condition)? {
                    Value::One(bits) => if *bits != 0 { a } else { b }.clone(),
                    chosen => {
                        let chosen = lanes(chosen);
                        map_two(a, b, |lane, x, y| Ok(if chosen[lane] != 0 { x } else { y }))?
                    }
                };
                (*to, value)
            }
            Op::Ramp { to, dtype, base, stride, lanes, checked } => {
                let (base, stride, lane) = (frame.bits(*base)?, frame.bits(*stride)?, Lane::Integer(*dtype));
                let (add, multiply) = (BinaryOp::Add, BinaryOp::Mul);
                let value = |position: u64| {
                    let step = number::binary(multiply, lane, stride, position, *checked)?;
                    number::binary(add, lane, base, step, *checked)
                };
                let values: Result<Vec<u64>, _> = (0..u64::from(*lanes)).map(value).collect();
                (*to, of_lanes(values.map_err(|fault| operands(fault, lane, base, stride))?))
            }
            Op::Broadcast { to, from, lanes } => {
                let bits = frame.bits(*from)?;
                (*to, of_lanes(vec![bits; usize::from(*lanes)]))
            }
            Op::Shuffle { to, vectors, indices } => {
                let mut all = Vec::new();
                for vector in vectors {
                    all.extend_from_slice(lanes(frame.get(*vector)?));
                }
                (*to, of_lanes(indices.iter().map(|index| all[*index]).collect()))
            }
            Op::Address { to, place, index } => {
                let offset = (frame.bits(*index)? as i64).wrapping_mul(element_bytes(place.dtype));
                (*to, Value::One(frame.bits(place.data)?.wrapping_add(offset as u64)))
            }
            Op::MakeTensor { to, data, dtype, shape, strides } => {
                let read = |regs: &[Reg]| -> Result<Vec<i64>, Fault> {
                    regs.iter().map(|reg| frame.bits(*reg).map(|bits| bits as i64)).collect()
                };
                let (shape, strides) = (read(shape)?, read(strides)?);
                (*to, Value::One(self.make_tensor(frame.bits(*data)?, *dtype, &shape, &strides, 0)?))
            }
            Op::Load { to, place, index, mask } => (*to, self.load(frame, place, *index, *mask, stmt)?),
            Op::Store { place, index, value, mask } => {
                self.store(frame, place, *index, *value, *mask, stmt)?;
                return Ok(Flow::Next);
            }
            Op::Math { to, name, dtype, args, active } => {
                let args = args.iter().map(|arg| frame.get(*arg)).collect::<Result<Vec<_>, _>>()?;
                let active = active.map(|active| frame.get(active)).transpose()?;
                (*to, math(name, *dtype, &args, active)?)
            }
            Op::Builtin { to, name, dtype, args } => {
                let value = self.builtin(frame, name, *dtype, args, stmt)?;
                if name == crate::ir::builtin::STACK_ALLOCA {
                    frame.allocated.push(lanes(&value)[0]);
                }
                (*to, value)
            }
            Op::Packed { to, name, dtype, args } => {
                let args = args.iter().map(|arg| packed_value(frame, arg)).collect::<Result<Vec<_>, _>>()?;
                let value = self.packed(name, &args, stmt)?;
                (*to, from_packed(value, *dtype)?)
            }
            Op::Extern { to, name, dtype, args } => (*to, self.call_extern(frame, name, *dtype, args, stmt)?),
            Op::Call { to, function, args } => {
                let args = args.iter().map(|arg| frame.get(*arg).cloned()).collect::<Result<Vec<_>, _>>()?;
                return Ok(Flow::Call { function: *function, args, to: *to });
            }
            Op::Alloc(allocation) => {
                let address = self.alloc(frame, allocation, thread, stmt)?;
                (allocation.data, Value::One(address))
            }
            Op::Free { data } => {
                let address = frame.bits(*data)?;
                self.memory.free(address)?;
                if let Some(at) = frame.allocated.iter().rposition(|known| *known == address) {
                    frame.allocated.swap_remove(at);
                }
                return Ok(Flow::Next);
            }
            Op::View { to, place, shape, strides, offset, alignment } => {
                (*to, self.view(frame, place, shape, strides, *offset, *alignment)?)
            }
            Op::Jump { target } => return Ok(Flow::Jump(*target)),
            Op::JumpUnless { condition, target } => {
                return Ok(if frame.holds(*condition)? { Flow::Next } else { Flow::Jump(*target) });
            }
            Op::Loop { var, end, lane, signed, target } => {
                if let (true, Value::One(var), Value::One(end)) =
                    (signed, &frame.registers[*var], &frame.registers[*end])
                {
                    return Ok(if (*var as i64) < *end as i64 { Flow::Next } else { Flow::Jump(*target) });
                }
                let goes_on = number::compare(CompareOp::Lt, *lane, frame.bits(*var)?, frame.bits(*end)?);
                return Ok(if goes_on { Flow::Next } else { Flow::Jump(*target) });
            }
            Op::EnterParallel => {
                let newer = self.memory.count();
                self.memory.races.enter_tasks(newer, "iteration");
                return Ok(Flow::Next);
            }
            Op::NextParallel => {
                self.memory.races.next_task();
                return Ok(Flow::Next);
            }
            Op::LeaveParallel => {
                self.memory.races.leave();
                return Ok(Flow::Next);
            }
            Op::Launch { end, .. } => return Ok(Flow::Launch { end: *end }),
            Op::ThreadIndex { to, tag } => {
                let Some(thread) = thread else { return Err(format!("{tag} outside of a kernel")) };
                (*to, Value::One(thread.index(tag)?))
            }
            Op::Fork { var, extent, end } => {
                let extent = frame.bits(*extent)? as i64;
                return Ok(Flow::Stop(Stop::Fork { var: *var, extent, end: *end }));
            }
            Op::EndThread => return Ok(Flow::Stop(Stop::Done(None))),
            Op::Sync(group) => return Ok(Flow::Stop(Stop::Sync(*group))),
            Op::WarpShuffle { .. } => return Ok(Flow::Stop(Stop::Shuffle)),
            Op::AllReduce(_) => return Ok(Flow::Stop(Stop::AllReduce)),
            Op::Assert { condition, kind, message } => {
                if !frame.holds(*condition)? {
                    return Err(format!("{kind}: {message}"));
                }
                return Ok(Flow::Next);
            }
            Op::Assume { condition } => {
                if !frame.holds(*condition)? {
                    return Err("what `assume` says does not hold".to_owned());
                }
                return Ok(Flow::Next);
            }
            Op::CheckArgument { given, expected, what } => {
                let (given, expected) = (frame.bits(*given)? as i64, frame.bits(*expected)? as i64);
                if given != expected {
                    return Err(format!("{what} is {given}, expected {expected}"));
                }
                return Ok(Flow::Next);
            }
            Op::Return { value } => {
                let value = value.map(|value| frame.get(value).cloned()).transpose()?;
                return Ok(Flow::Return(value));
            }
        };
        frame.registers[to] = value;
        Ok(Flow::Next)
    }

    /// The address of an element, inside of an alias if the buffer is one.
    fn element(&self, frame: &Frame, place: &Place, index: i64) -> Result<u64, Fault> {
        let data = frame.bits(place.data)?;
        let address = data.wrapping_add(index.wrapping_mul(element_bytes(place.dtype)) as u64);
        let out = |range: &str| format!("out of bounds: `{}`[{index}] {range}", place.name);
        if let Some(view) = place.view {
            let [start, end] = lanes(frame.get(view)?) else { unreachable!("a view has two ends") };
            if address < *start || address >= *end {
                let size = element_bytes(place.dtype) as u64;
                let first = start.wrapping_sub(data) as i64 / size as i64;
                let last = end.wrapping_sub(data) as i64 / size as i64;
                return Err(out(&format!("is not in {first}..{last}")));
            }
        } else if let Some((_, offset)) = self.memory.describe(data) {
            let size = self.memory.size_at(data).unwrap_or(0) as i64;
            let (bytes, at) = (
                element_bytes(place.dtype),
                i128::from(offset) + i128::from(index) * i128::from(element_bytes(place.dtype)),
            );
            // Memory that is gone has no size; that error is better.
            if size > 0 && !(0..=i128::from(size - bytes)).contains(&at) {
                return Err(out(&format!("is not in {}..{}", -offset / bytes, (size - offset) / bytes)));
            }
        }
        Ok(address)
    }

    /// The data pointer, if the element is inside of the alias that the buffer may be.
    fn quick_data(frame: &Frame, place: &Place, index: i64) -> Option<u64> {
        let Value::One(data) = &frame.registers[place.data] else { return None };
        if let Some(view) = place.view {
            let Value::Many(ends) = &frame.registers[view] else { return None };
            let address = data.wrapping_add(index.wrapping_mul(place.plain as i64) as u64);
            if address < ends[0] || address >= ends[1] {
                return None;
            }
        }
        Some(*data)
    }

    /// A plain element: the quick way, and if there is something wrong the way that says what.
    fn load_one(&mut self, frame: &Frame, place: &Place, index: i64, stmt: u32) -> Result<u64, Fault> {
        if let Some(data) = Self::quick_data(frame, place, index)
            && let Some(bits) = self.memory.quick_read(data, index, place.plain, stmt)
        {
            return Ok(bits);
        }
        let address = self.element(frame, place, index)?;
        self.memory.read(address, place.dtype, stmt)
    }

    fn store_one(&mut self, frame: &Frame, place: &Place, index: i64, bits: u64, stmt: u32) -> Result<(), Fault> {
        if let Some(data) = Self::quick_data(frame, place, index)
            && self.memory.quick_write(data, index, place.plain, bits, stmt).is_some()
        {
            return Ok(());
        }
        let address = self.element(frame, place, index)?;
        self.memory.write(address, place.dtype, bits, stmt)
    }

    fn load(&mut self, frame: &Frame, place: &Place, index: Reg, mask: Option<Reg>, stmt: u32) -> Result<Value, Fault> {
        if let (Value::One(index), None) = (&frame.registers[index], mask)
            && place.plain > 0
        {
            return Ok(Value::One(self.load_one(frame, place, *index as i64, stmt)?));
        }
        let element = place.dtype.element();
        let size = element.lane_bytes() as u64;
        let indices = lanes(frame.get(index)?);
        let mask = mask.map(|mask| frame.get(mask)).transpose()?.map(lanes);
        let width = usize::from(place.dtype.lanes());
        let mut values = Vec::with_capacity(indices.len() * width);
        for (position, index) in indices.iter().enumerate() {
            for lane in 0..width {
                if is_masked(mask, indices.len(), position, lane, width)? {
                    values.push(0);
                    continue;
                }
                if place.plain > 0 {
                    values.push(self.load_one(frame, place, *index as i64, stmt)?);
                    continue;
                }
                let address = self.element(frame, place, *index as i64)? + lane as u64 * size;
                values.push(self.memory.read(address, element, stmt)?);
            }
        }
        Ok(of_lanes(values))
    }

    fn store(
        &mut self,
        frame: &Frame,
        place: &Place,
        index: Reg,
        value: Reg,
        mask: Option<Reg>,
        stmt: u32,
    ) -> Result<(), Fault> {
        if let (Value::One(index), Value::One(value), None) = (&frame.registers[index], &frame.registers[value], mask)
            && place.plain > 0
        {
            return self.store_one(frame, place, *index as i64, *value, stmt);
        }
        let element = place.dtype.element();
        let size = element.lane_bytes() as u64;
        let indices = lanes(frame.get(index)?);
        let values = lanes(frame.get(value)?);
        let mask = mask.map(|mask| frame.get(mask)).transpose()?.map(lanes);
        let width = usize::from(place.dtype.lanes());
        if values.len() != indices.len() * width {
            return Err(format!("{} lanes are stored at {} places", values.len(), indices.len()));
        }
        for (position, index) in indices.iter().enumerate() {
            for lane in 0..width {
                if is_masked(mask, indices.len(), position, lane, width)? {
                    continue;
                }
                let value = values[position * width + lane];
                if place.plain > 0 {
                    self.store_one(frame, place, *index as i64, value, stmt)?;
                    continue;
                }
                let address = self.element(frame, place, *index as i64)? + lane as u64 * size;
                self.memory.write(address, element, value, stmt)?;
            }
        }
        Ok(())
    }

    fn alloc(
        &mut self,
        frame: &mut Frame,
        allocation: &Allocation,
        thread: Option<&Thread>,
        stmt: u32,
    ) -> Result<u64, Fault> {
        let mut bytes = element_bytes(allocation.dtype);
        for extent in &allocation.shape {
            let extent = frame.bits(*extent)? as i64;
            if extent < 0 {
                return Err(format!("`{}` has a negative extent of {extent}", allocation.name));
            }
            bytes = bytes
                .checked_mul(extent)
                .filter(|bytes| *bytes < 1 << 32)
                .ok_or_else(|| format!("`{}` is larger than the 4 GiB that the interpreter gives", allocation.name))?;
        }
        if allocation.alignment > 0 && !(allocation.alignment as u64).is_power_of_two() {
            return Err(format!("an alignment of {} is no power of two", allocation.alignment));
        }
        if let (Some(group), Some(thread), Some(block)) = (allocation.shared, thread, &mut self.block) {
            // The same memory each time that a thread of the group comes by.
            let key = thread.allocation_key(stmt, group);
            if let Some(address) = block.shared.get(&key) {
                return Ok(*address);
            }
            let address = self.memory.allocate(&allocation.name, bytes as usize, false)?;
            block.shared.insert(key, address);
            return Ok(address);
        }
        let address = self.memory.allocate(&allocation.name, bytes as usize, thread.is_some())?;
        frame.allocated.push(address);
        Ok(address)
    }

    /// First address and end of an alias.
    fn view(
        &mut self,
        frame: &Frame,
        place: &Place,
        shape: &[Reg],
        strides: &[Reg],
        offset: Reg,
        alignment: i64,
    ) -> Result<Value, Fault> {
        let data = frame.bits(place.data)?;
        if alignment > 0 && !data.is_multiple_of(alignment as u64) {
            return Err(format!("`{}` is not at a multiple of {alignment}, which it promises", place.name));
        }
        let read = |reg: &Reg| frame.bits(*reg).map(|bits| bits as i64);
        let shape = shape.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let strides = if strides.is_empty() {
            compact(&shape)
        } else {
            strides.iter().map(read).collect::<Result<Vec<_>, _>>()?
        };
        let offset = read(&offset)?;
        let (mut low, mut high) = (offset, offset);
        for (extent, stride) in shape.iter().zip(&strides) {
            let last = (extent - 1) * stride;
            if last < 0 { low += last } else { high += last }
        }
        if shape.iter().any(|extent| *extent <= 0) {
            return Ok(Value::Many([data, data].into()));
        }
        let size = element_bytes(place.dtype);
        let address = |index: i64| data.wrapping_add((index * size) as u64);
        Ok(Value::Many([address(low), address(high + 1)].into()))
    }

    /// A packed function, or a kernel of the module.
    pub(super) fn packed(&mut self, name: &str, args: &[PackedValue], stmt: u32) -> Result<PackedValue, Fault> {
        let machine = self.machine;
        if let Some(function) = machine.packed.get(name) {
            let mut call = PackedCall { memory: &mut self.memory, args, stmt };
            return function(&mut call).map_err(|error| format!("`{name}`: {}", error.what()));
        }
        let Some(function) = machine.names.get(name).copied() else {
            return Err(format!("unknown packed function `{name}`: give it with `Machine::with_function`"));
        };
        let code = &machine.functions[function];
        if machine.kinds[function] != FuncKind::Device || args.len() != code.params.len() + code.launch.len() {
            return Err(format!("`{name}` is called as a kernel with {} arguments", args.len()));
        }
        let mut values = Vec::new();
        for (arg, dtype) in args.iter().zip(code.params.iter().map(|param| param.dtype).chain([I64; 16])) {
            values.push(from_packed(arg.clone(), dtype)?);
        }
        let extents = values.split_off(code.params.len());
        let mut frame = self.enter(function, values)?;
        for (axis, extent) in code.launch.iter().zip(extents) {
            frame.registers[axis.extent] = extent;
        }
        match self.execute_all(frame) {
            Ok(_) => Ok(PackedValue::Nothing),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn thread_is_none(context: &Context) -> bool {
    context.thread.is_none()
}

fn address_of(block: &Block, blocks: &[(Block, u64)]) -> u64 {
    blocks.iter().find(|(known, _)| Rc::ptr_eq(&known.0, &block.0)).map_or(0, |(_, address)| *address)
}

fn same_strides(shape: &[i64], a: &[i64], b: &[i64]) -> bool {
    shape.iter().zip(a.iter().zip(b)).all(|(extent, (a, b))| *extent == 1 || a == b)
}

fn scalar(arg: &Arg, dtype: DataType) -> Result<u64, Fault> {
    match arg {
        Arg::Int(value) if dtype.is_float() => Ok(number::cast(I64, dtype, *value as u64)),
        Arg::Int(value) => {
            if !dtype.can_hold(*value) && dtype != U64 && !dtype.is_handle() {
                return Err(format!("{value} is no {}", dtype.short_name()));
            }
            Ok(*value as u64)
        }
        Arg::Float(value) if dtype.is_float() => Ok(number::from_f64(dtype, *value)),
        Arg::Float(value) => Err(format!("{value} is no {}", dtype.short_name())),
        Arg::Block(_) => Err(format!("a tensor for a parameter of {}", dtype.short_name())),
    }
}

#[inline]
fn quick_value(quick: Quick, x: u64, y: u64) -> Result<u64, Fault> {
    match quick {
        Quick::Index(op, checked) => {
            let (a, b) = (x as i64, y as i64);
            let (value, overflows) = match op {
                BinaryOp::Add => a.overflowing_add(b),
                BinaryOp::Sub => a.overflowing_sub(b),
                _ => a.overflowing_mul(b),
            };
            if overflows && checked {
                return Err(format!("overflow of index arithmetic: {a} and {b}"));
            }
            Ok(value as u64)
        }
        Quick::Single(op) => {
            let (a, b) = (f32::from_bits(x as u32), f32::from_bits(y as u32));
            let value = match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                _ => a * b,
            };
            Ok(u64::from(value.to_bits()))
        }
        Quick::Compare(op) => {
            let (a, b) = (x as i64, y as i64);
            Ok(u64::from(match op {
                CompareOp::Eq => a == b,
                CompareOp::Ne => a != b,
                CompareOp::Lt => a < b,
                CompareOp::Le => a <= b,
                CompareOp::Gt => a > b,
                CompareOp::Ge => a >= b,
            }))
        }
    }
}

fn operands(fault: &str, lane: Lane, a: u64, b: u64) -> Fault {
    match lane {
        Lane::Integer(dtype) => format!("{fault}: {} and {}", number::show(dtype, a), number::show(dtype, b)),
        _ => fault.to_owned(),
    }
}

/// Whether a mask leaves a lane out; it has a lane for each place, or for each lane of the value.
fn is_masked(mask: Option<&[u64]>, places: usize, position: usize, lane: usize, width: usize) -> Result<bool, Fault> {
    let Some(mask) = mask else { return Ok(false) };
    match mask.len() {
        count if count == places => Ok(mask[position] == 0),
        count if count == places * width => Ok(mask[position * width + lane] == 0),
        count => Err(format!("a mask of {count} lanes for {places} places")),
    }
}

fn math(name: &str, dtype: DataType, args: &[&Value], active: Option<&Value>) -> Result<Value, Fault> {
    let lane = Lane::of(dtype).map_err(|error| error.what().to_owned())?;
    let count = lanes(args[0]).len();
    let mut values = Vec::with_capacity(count);
    for position in 0..count {
        if active.is_some_and(|active| lanes(active)[position] == 0) {
            values.push(0);
            continue;
        }
        let mut words = [0; 3];
        for (word, arg) in words.iter_mut().zip(args) {
            *word = *lanes(arg).get(position).ok_or("arguments with different numbers of lanes")?;
        }
        values.push(match name {
            "fma" => number::fma(lane, words[0], words[1], words[2])?,
            _ => number::math(name, dtype, &words[..args.len()]).ok_or_else(|| format!("unknown function `{name}`"))?,
        });
    }
    Ok(of_lanes(values))
}

pub(super) fn packed_value(frame: &Frame, operand: &Operand) -> Result<PackedValue, Fault> {
    Ok(match operand {
        Operand::Text(text) => PackedValue::Text(text.clone()),
        Operand::Value(reg, dtype) if dtype.is_float() => PackedValue::Float(number::to_f64(*dtype, frame.bits(*reg)?)),
        Operand::Value(reg, dtype) if dtype.is_handle() => match frame.bits(*reg)? {
            0 => PackedValue::Nothing,
            address => PackedValue::Pointer(address),
        },
        Operand::Value(reg, _) => PackedValue::Int(frame.bits(*reg)? as i64),
    })
}

pub(super) fn from_packed(value: PackedValue, dtype: DataType) -> Result<Value, Fault> {
    if dtype.lanes() == 0 {
        return Ok(Value::One(0));
    }
    Ok(Value::One(match value {
        PackedValue::Nothing => 0,
        PackedValue::Pointer(address) => address,
        PackedValue::Int(value) => number::cast(I64, dtype, value as u64),
        PackedValue::Float(value) => number::cast(F64, dtype, value.to_bits()),
        PackedValue::Text(text) => return Err(format!("text \"{text}\" in place of {}", dtype.short_name())),
    }))
}
