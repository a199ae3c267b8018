//! Functions that are running: their registers.

use super::code::{FunctionCode, Group, Reg, Value};
use super::grid::Thread;
use super::memory::Fault;
use super::value::lanes;
use crate::error::Result;

/// A function that is running.
pub(super) struct Frame {
    pub(super) function: usize,
    pub(super) pc: usize,
    pub(super) registers: Vec<Value>,
    pub(super) allocated: Vec<u64>,
    /// Where the caller wants the value.
    pub(super) to: Reg,
    /// Levels of parallel work outside of it.
    pub(super) races: usize,
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

/// What an operation leads to.
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

    pub(super) fn holds(&self, reg: Reg) -> Result<bool, Fault> {
        Ok(self.bits(reg)? != 0)
    }
}
