//! Running functions: their registers.

use super::code::{FunctionCode, Group, Reg, Value};
use super::grid::Thread;
use super::memory::Fault;
use super::value::lanes;
use crate::error::Result;

/// A running function.
pub(super) struct Frame {
    pub(super) function: usize,
    pub(super) pc: usize,
    pub(super) registers: Vec<Value>,
    pub(super) allocated: Vec<u64>,
    /// The caller's register for the value.
    pub(super) to: Reg,
    /// The number of levels of parallel work outside of it.
    pub(super) races: usize,
}

/// An execution context: the caller's thread, or a device thread.
pub(super) struct Context {
    pub(super) frames: Vec<Frame>,
    pub(super) thread: Option<Thread>,
}

/// The reason why a context is suspended.
pub(super) enum Stop {
    /// It has finished.
    Done(Option<Value>),
    /// It waits at a barrier.
    Sync(Group),
    /// It waits for a value of another lane.
    Shuffle,
    /// It waits in a reduction across threads.
    AllReduce,
    /// Copies of this thread run first.
    Fork { var: Reg, extent: i64, end: usize },
}

/// The continuation after an operation.
pub(super) enum Flow {
    Next,
    Jump(usize),
    Call { function: usize, args: Vec<Value>, to: Reg },
    Launch { end: usize },
    Return(Option<Value>),
    Stop(Stop),
}

impl Frame {
    pub(super) fn new(function: usize, code: &FunctionCode) -> Self {
        Self { function, pc: 0, registers: vec![Value::Unset; code.registers], allocated: Vec::new(), to: 0, races: 0 }
    }

    /// A copy of the registers, for a thread that starts at the next operation.
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

    pub(super) fn holds(&self, reg: Reg) -> Result<bool, Fault> {
        Ok(self.bits(reg)? != 0)
    }
}
