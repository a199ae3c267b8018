//! Programs, and the built-in passes on them.

use kernpack::Any;

use super::PassContext;
use super::pipeline::PREFIX;
use super::{
    common_subexpr_elim, hoist_if, inject_double_buffer, inject_virtual_thread, instrument_bound_checkers, launch_rest,
    loop_partition, lower_thread_allreduce, lower_warp_memory, make_packed_api, narrow_index, remove_no_op,
    rewrite_unsafe_select, simplify, split_host_device, storage_rewrite, thread_sync, unroll_loop, vectorize_loop,
    verify_memory,
};
use crate::error::Result;
use crate::ir::verify::Stage;
use crate::ir::{IrModule, IrModuleNode, LoweredFunc};

/// The input and the result of a pass.
#[derive(Clone)]
pub enum Program {
    /// A lowered function.
    Function(LoweredFunc),
    /// Several functions.
    Module(IrModule),
}

impl Program {
    /// Returns the program that a value is; `None` if it is another value.
    pub fn of(value: &Any) -> Option<Self> {
        value.to::<LoweredFunc>().map(Self::Function).or_else(|_| value.to::<IrModule>().map(Self::Module)).ok()
    }

    /// Returns the program that the first argument of a pass is.
    ///
    /// # Errors
    /// Returns an error for another value.
    pub(super) fn of_argument(value: &Any) -> kernpack::Result<Self> {
        Self::of(value).ok_or_else(|| {
            kernpack::error!(
                TypeError,
                "a pass takes a kernpack.ir.LoweredFunc or kernpack.ir.IrModule, got {}",
                value.type_name()
            )
        })
    }

    /// Applies a change to the function, or to each function of the module.
    ///
    /// # Errors
    /// Returns the errors of the change.
    pub fn map(&self, change: impl Fn(&LoweredFunc) -> Result<LoweredFunc>) -> Result<Self> {
        match self {
            Self::Function(function) => change(function).map(Self::Function),
            Self::Module(module) => {
                let functions: Result<Vec<_>> = module.functions.iter().map(|function| change(&function)).collect();
                let attrs = module.attrs.clone();
                Ok(Self::Module(IrModule::from_node(IrModuleNode { functions: functions?.into(), attrs })))
            }
        }
    }

    /// The module; for a function, one that contains only it.
    pub fn module(&self) -> IrModule {
        match self {
            Self::Function(function) => IrModule::new([function.clone()]),
            Self::Module(module) => module.clone(),
        }
    }
}

impl From<Program> for Any {
    fn from(program: Program) -> Self {
        match program {
            Program::Function(function) => function.into(),
            Program::Module(module) => module.into(),
        }
    }
}

/// A built-in pass. Other languages call it as the global function `kernpack.pass.` and its name.
pub struct Pass {
    /// The name in pipelines.
    pub name: &'static str,
    /// Returns the changed program.
    pub run: fn(&Program, &PassContext) -> Result<Program>,
    /// The stage that programs reach by it; `None` if they stay at theirs.
    pub leaves: Option<Stage>,
}

impl Pass {
    const fn new(name: &'static str, run: fn(&Program, &PassContext) -> Result<Program>) -> Self {
        Self { name, run, leaves: None }
    }

    const fn leaving(mut self, stage: Stage) -> Self {
        self.leaves = Some(stage);
        self
    }

    /// Returns the built-in pass of a name, with or without [`PREFIX`].
    pub fn find(name: &str) -> Option<&'static Self> {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        PASSES.iter().find(|pass| pass.name == name)
    }
}

/// A pass on each function.
macro_rules! each {
    ($name:literal, $pass:path) => {
        Pass::new($name, |program, context| program.map(|function| $pass(function, context)))
    };
}

/// The built-in passes.
pub static PASSES: &[Pass] = &[
    each!("CommonSubexprElim", common_subexpr_elim::common_subexpr_elim),
    each!("HoistIf", hoist_if::hoist_if),
    each!("InjectDoubleBuffer", inject_double_buffer::inject_double_buffer),
    each!("InjectVirtualThread", inject_virtual_thread::inject_virtual_thread),
    each!("InstrumentBoundCheckers", instrument_bound_checkers::instrument_bound_checkers),
    each!("LaunchRest", launch_rest::launch_rest),
    each!("LoopPartition", loop_partition::loop_partition).leaving(Stage::Partitioned),
    each!("LowerThreadAllreduce", lower_thread_allreduce::lower_thread_allreduce),
    each!("LowerWarpMemory", lower_warp_memory::lower_warp_memory),
    each!("MakePackedAPI", make_packed_api::make_packed_api),
    each!("NarrowIndex", narrow_index::narrow_index),
    each!("RemoveNoOp", remove_no_op::remove_no_op),
    each!("RewriteUnsafeSelect", rewrite_unsafe_select::rewrite_unsafe_select),
    each!("Simplify", simplify::simplify),
    Pass::new("SplitHostDevice", split_host_device::split_program),
    each!("StorageRewrite", storage_rewrite::storage_rewrite),
    each!("ThreadSync", thread_sync::thread_sync),
    each!("UnrollLoop", unroll_loop::unroll_loop),
    each!("VectorizeLoop", vectorize_loop::vectorize_loop).leaving(Stage::Vectorized),
    each!("VerifyMemory", verify_memory::verify_memory),
];
