//! The state of the generator during a function.

use std::collections::HashMap;

use inkwell::basic_block::BasicBlock;
use inkwell::debug_info::DISubprogram;
use inkwell::values::{FunctionValue, IntValue, PointerValue};
use kernpack::DataType;

use super::alias::Regions;
use super::emit::Value;
use super::many_checks::ManyChecks;
use super::modular::ModularFacts;
use crate::codegen::parts::IndexFacts;
use crate::ir::Var;

/// The way in which a function returns its value and reports errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Convention {
    /// Returns 0, or -1 with an error raised.
    #[default]
    Status,
    /// Like `Status`; the value is stored to the memory that the last parameter points to.
    StatusAndValue,
    /// A C function with this return type, or without a value for `None`. It can report errors only
    /// through its value: -1 of an integer, 0 of other types.
    Plain(Option<DataType>),
}

/// A cleanup for a function that ends early.
pub(super) struct Cleanup<'ctx> {
    /// The kind and the number of the workspace's device.
    pub(super) device: (Value<'ctx>, Value<'ctx>),
    /// The memory; null if the allocation failed.
    pub(super) pointer: PointerValue<'ctx>,
    /// The variable of the memory.
    pub(super) var: Var,
    /// The block for errors: frees this workspace and those below it.
    pub(super) block: Option<BasicBlock<'ctx>>,
}

/// A loop around the current statement.
pub(super) struct LoopFrame<'ctx> {
    pub(super) break_to: BasicBlock<'ctx>,
    pub(super) continue_to: BasicBlock<'ctx>,
    /// The number of cleanups at its start.
    pub(super) cleanups: usize,
}

/// The task of a parallel launch that the current code belongs to.
#[derive(Clone, Copy)]
pub(super) struct Task<'ctx> {
    pub(super) id: IntValue<'ctx>,
    pub(super) count: IntValue<'ctx>,
    pub(super) environment: PointerValue<'ctx>,
    /// True if the task runs the iterations `id, id + count, ..` instead of a range of them.
    pub(super) is_strided: bool,
    /// True before the loop that is split, inside of a launch point.
    pub(super) is_open: bool,
}

/// The state of the generator during a function.
#[derive(Default)]
pub(super) struct State<'ctx> {
    /// The function's entry in line tables, if there are any.
    pub(super) subprogram: Option<DISubprogram<'ctx>>,
    /// The line of the current statement.
    pub(super) line: u32,
    pub(super) function: Option<FunctionValue<'ctx>>,
    /// The function's name in messages and metadata.
    pub(super) name: String,
    /// The block of stack allocations.
    pub(super) entry: Option<BasicBlock<'ctx>>,
    /// The block where all returns join, and the values that they return.
    pub(super) exit: Option<BasicBlock<'ctx>>,
    pub(super) returns: Vec<(Value<'ctx>, BasicBlock<'ctx>)>,
    /// The block where errors return.
    pub(super) failure: Option<BasicBlock<'ctx>>,
    pub(super) convention: Convention,
    pub(super) vars: HashMap<Var, Value<'ctx>>,
    /// The table of errors of a function with very many checks.
    pub(super) many_checks: Option<ManyChecks<'ctx>>,
    pub(super) modular: ModularFacts,
    pub(super) regions: Regions<'ctx>,
    pub(super) in_index: bool,
    pub(super) index_facts: IndexFacts,
    /// True if the parts of the sum around the next value fit in its type. `None` if the value is
    /// not a part of a sum.
    pub(super) parts_fit: Option<bool>,
    pub(super) loops: Vec<LoopFrame<'ctx>>,
    pub(super) cleanups: Vec<Cleanup<'ctx>>,
    /// The stack slots of values that are released when the function ends.
    pub(super) owned: Vec<PointerValue<'ctx>>,
    /// LLVM's flags for floating-point instructions.
    pub(super) fast_math: u32,
    /// True if arguments do not overlap.
    pub(super) noalias: bool,
    /// The alignment of the data pointers of arguments; 0 for the size of their elements.
    pub(super) argument_alignment: u64,
    /// The facts about data pointers: alignment, and number of bytes.
    pub(super) pointers: HashMap<Var, PointerFacts>,
    pub(super) task: Option<Task<'ctx>>,
}

/// The facts about a data pointer.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PointerFacts {
    /// The alignment of its address; 0 for the size of its elements.
    pub(super) align: u64,
    /// The minimum number of bytes; 0 if it may be null.
    pub(super) bytes: u64,
}
