//! A run: executes operations until a context is suspended.

use std::collections::HashMap;

use super::code::Value;
use super::frame::{Context, Flow, Frame, Stop};
use super::grid::BlockState;
use super::machine::Machine;
use super::memory::{Fault, Memory};
use super::packed::{PackedCall, PackedValue};
use super::report;
use super::value::from_packed;
use crate::error::{CompileError, ErrorKind, Result, fail};
use crate::ir::{FuncKind, I64};

/// The maximum depth of calls.
const CALL_LIMIT: usize = 1000;

/// One run.
pub(super) struct Run<'m> {
    pub(super) machine: &'m Machine,
    pub(super) memory: Memory,
    pub(super) steps: u64,
    /// The pointer variables of the code, by statement.
    pub(super) handles: HashMap<u32, u64>,
    /// The running block of threads.
    pub(super) block: Option<BlockState>,
}

impl Run<'_> {
    pub(super) fn execute_all(&mut self, frame: Frame) -> Result<Option<Value>> {
        let mut context = Context { frames: vec![frame], thread: None };
        match self.execute(&mut context)? {
            Stop::Done(value) => Ok(value),
            _ => fail!(Run, "a barrier outside of a kernel"),
        }
    }

    /// The error of a fault at the position of a context.
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

    /// Runs a context until it is suspended. It continues with the following operation.
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
                    if context.thread.is_none() {
                        self.memory.races.truncate(frame.races);
                    }
                    let Some(caller) = context.frames.last_mut() else { return Ok(Stop::Done(value)) };
                    caller.registers[frame.to] = value.unwrap_or(Value::One(0));
                    caller.pc += 1;
                }
            }
        }
    }

    /// Runs operations up to `end`, which is not run.
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

    pub(super) fn enter(&self, function: usize, args: Vec<Value>) -> Result<Frame, Fault> {
        let code = &self.machine.functions[function];
        if args.len() != code.params.len() {
            return Err(format!("`{}` takes {} arguments, got {}", code.name, code.params.len(), args.len()));
        }
        let mut frame = Frame::new(function, code);
        // Shapes are not known in a call with pointers: there is nothing to compare.
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

    /// Calls a packed function, or a kernel of the module.
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
