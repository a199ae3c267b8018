//! What the generator knows while it writes a function.

use std::collections::{HashMap, HashSet};

use inkwell::basic_block::BasicBlock;
use inkwell::debug_info::DISubprogram;
use inkwell::values::{FunctionValue, IntValue, PointerValue};
use kernpack::DataType;

use super::alias::Regions;
use super::emit::Value;
use super::many_checks::ManyChecks;
use super::modular::ModularFacts;
use crate::codegen::parts::LoopBounds;
use crate::ir::{Expr, Var};

/// How a function gives back its value, and says that it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Convention {
    /// Returns 0, or -1 with an error raised.
    #[default]
    Status,
    /// As `Status`; the value goes to the memory that the last parameter points to.
    StatusAndValue,
    /// A C function with this return type; without a value if there is none. It has no way to say that it failed but its value: -1 of an
    /// integer, 0 of other types.
    Plain(Option<DataType>),
}

/// Something to be done when a function ends before it comes there itself.
pub(super) struct Cleanup<'ctx> {
    /// A workspace: kind and number of its device.
    pub(super) device: (Value<'ctx>, Value<'ctx>),
    /// The memory; null if there was none.
    pub(super) pointer: PointerValue<'ctx>,
    /// The variable that stands for the memory.
    pub(super) var: Var,
    /// Where an error goes on: frees this one and those below it.
    pub(super) block: Option<BasicBlock<'ctx>>,
}

/// A loop around the current statement.
pub(super) struct LoopFrame<'ctx> {
    pub(super) break_to: BasicBlock<'ctx>,
    pub(super) continue_to: BasicBlock<'ctx>,
    /// How many clean-ups there were when it began.
    pub(super) cleanups: usize,
}

/// The task of a parallel launch that the current code belongs to.
#[derive(Clone, Copy)]
pub(super) struct Task<'ctx> {
    pub(super) id: IntValue<'ctx>,
    pub(super) count: IntValue<'ctx>,
    pub(super) environment: PointerValue<'ctx>,
    /// Iterations `id, id + count, ..` in place of a range of them.
    pub(super) is_strided: bool,
    /// Whether the loop that is split comes yet: inside of a launch point.
    pub(super) is_open: bool,
}

/// What the generator knows while it writes a function.
#[derive(Default)]
pub(super) struct State<'ctx> {
    /// The function in line tables, if there are any.
    pub(super) subprogram: Option<DISubprogram<'ctx>>,
    /// The line of the current statement.
    pub(super) line: u32,
    pub(super) function: Option<FunctionValue<'ctx>>,
    /// What messages and metadata call it.
    pub(super) name: String,
    /// Where allocations on the stack are made.
    pub(super) entry: Option<BasicBlock<'ctx>>,
    /// Where all returns meet, and what they return.
    pub(super) exit: Option<BasicBlock<'ctx>>,
    pub(super) returns: Vec<(Value<'ctx>, BasicBlock<'ctx>)>,
    /// Where errors return.
    pub(super) failure: Option<BasicBlock<'ctx>>,
    pub(super) convention: Convention,
    pub(super) vars: HashMap<Var, Value<'ctx>>,
    /// The table of errors of a function with very many checks.
    pub(super) many_checks: Option<ManyChecks<'ctx>>,
    pub(super) modular: ModularFacts,
    pub(super) regions: Regions<'ctx>,
    /// Integer variables whose values come from data.
    pub(super) data_vars: HashSet<Var>,
    pub(super) index_memo: HashMap<Expr, bool>,
    pub(super) in_index: bool,
    pub(super) loop_bounds: LoopBounds,
    /// Whether the parts of the sum around the next value fit in its type; none: there is no sum.
    pub(super) parts_fit: Option<bool>,
    pub(super) loops: Vec<LoopFrame<'ctx>>,
    pub(super) cleanups: Vec<Cleanup<'ctx>>,
    /// Places on the stack for values that are released when the function ends.
    pub(super) owned: Vec<PointerValue<'ctx>>,
    /// LLVM's flags for floating-point instructions.
    pub(super) fast_math: u32,
    /// Arguments do not overlap.
    pub(super) noalias: bool,
    /// What the data pointers of arguments are multiples of; 0: of their elements' size.
    pub(super) argument_alignment: u64,
    /// What is known of data pointers: alignment, and how many bytes there are.
    pub(super) pointers: HashMap<Var, PointerFacts>,
    pub(super) task: Option<Task<'ctx>>,
}

/// What is known of a data pointer.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PointerFacts {
    /// What its address is a multiple of; 0: of its elements' size.
    pub(super) align: u64,
    /// How many bytes there are at least; 0: it may be null.
    pub(super) bytes: u64,
}
