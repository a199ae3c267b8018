//! The machine: functions that are compiled for execution.

use std::collections::HashMap;

use super::block::Arg;
use super::code::{FunctionCode, Origin};
use super::compile::{self, Shared};
use super::memory::Memory;
use super::packed::{PackedCall, PackedValue};
use super::run::Run;
use crate::error::{Result, fail, require};
use crate::ir::{FuncKind, IrModule, LoweredFunc};

type Packed = Box<dyn Fn(&mut PackedCall<'_>) -> Result<PackedValue>>;

/// A machine that runs the functions of a module.
pub struct Machine {
    pub(super) functions: Vec<FunctionCode>,
    pub(super) kinds: Vec<FuncKind>,
    pub(super) names: HashMap<String, usize>,
    pub(super) origins: Vec<Origin>,
    pub(super) packed: HashMap<String, Packed>,
    pub(super) step_limit: u64,
}

/// The number of threads in a warp of a device.
pub(super) const WARP_SIZE: u32 = 32;

impl Machine {
    /// Creates a machine with one function.
    ///
    /// # Errors
    /// See [`of_module`](Self::of_module).
    pub fn new(func: &LoweredFunc) -> Result<Self> {
        Self::of_module(&IrModule::new([func.clone()]))
    }

    /// Creates a machine with the functions of a module.
    ///
    /// # Errors
    /// Returns an error for a program with tensors, unknown variables or builtins, or incompatible
    /// types.
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
        Ok(Self { functions, kinds, names, origins, packed: HashMap::new(), step_limit: 1 << 28 })
    }

    /// Provides a packed function, or a C function, by name.
    #[must_use]
    pub fn with_function(
        mut self,
        name: &str,
        function: impl Fn(&mut PackedCall<'_>) -> Result<PackedValue> + 'static,
    ) -> Self {
        self.packed.insert(name.to_owned(), Box::new(function));
        self
    }

    /// Sets the number of operations after which a run ends with an error; 2^28 by default.
    #[must_use]
    pub fn with_step_limit(mut self, steps: u64) -> Self {
        self.step_limit = steps;
        self
    }

    /// Calls a function. Blocks keep the values that it wrote, also after an error. The extents of
    /// a kernel's threads follow its arguments.
    ///
    /// # Errors
    /// Returns an error for an unknown name, invalid arguments, and all errors in the module's
    /// documentation.
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
