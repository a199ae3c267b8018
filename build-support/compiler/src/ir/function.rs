//! Functions and modules of lowered code.

use kernpack::{Any, Array, DataType, Map, Object, Str};

use super::buffer::Buffer;
use super::expr::Var;
use super::handle::handle;
use super::stmt::Stmt;
use super::tensor::IterVar;

/// The attribute of an internal function that all tasks of a launch call together, each once: parallel loops in it are split among them, and it may have barriers.
/// Memory that it allocates outside of parallel loops is a task's own.
pub const PARALLEL_TASK: &str = "parallel_task";

/// The attribute of a function that says what it computes, for messages: a text with the nodes of a model.
pub const NODES: &str = "nodes";

handle! {
    /// A reference to a parameter.
    Param => ParamNode
}

/// A parameter: a value, or memory with a shape.
#[derive(Object)]
#[object(key = "kernpack.ir.Param")]
#[repr(C)]
pub struct ParamNode {
    /// The argument: a scalar, or the handle of a tensor.
    #[field(structural = "def")]
    pub var: Var,
    /// The tensor, if it is one. Sizes that occur first in its shape are defined here.
    #[field(structural = "def")]
    pub buffer: Option<Buffer>,
    /// Whether the function writes to the tensor.
    pub output: bool,
}

/// Where a function runs, and how it is called.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.FuncKind", enum = "int")]
pub enum FuncKind {
    /// Not yet split into a host and device part; takes its parameters by name.
    Mixed = 0,
    /// A packed function: `i32 (ptr self, ptr args, i32 num_args, ptr result)`.
    Host = 1,
    /// A kernel of a device.
    Device = 2,
    /// A plain C function with these parameters, called from the same module.
    Internal = 3,
}

handle! {
    /// A reference to a lowered function.
    LoweredFunc => LoweredFuncNode
}

/// A function of loops, loads and stores.
#[derive(Object)]
#[object(key = "kernpack.ir.LoweredFunc")]
#[repr(C)]
pub struct LoweredFuncNode {
    /// What it is called, in other languages as well.
    pub name: Str,
    /// What it takes.
    pub params: Array<Param>,
    /// Type of the value that it returns; `int32` for packed functions (0, or -1 for an error); lanes 0: nothing.
    pub ret: DataType,
    /// Where it runs.
    pub kind: FuncKind,
    /// The threads of a kernel, in the order of its launch parameters.
    pub thread_axes: Array<IterVar>,
    /// What it does.
    pub body: Stmt,
    /// Hints by name: `noalias` (int, default 1), `fastmath` (text), `global_symbol` (text), `doc` (text), `noinline` (int), ..
    pub attrs: Map<Str, Any>,
}

impl LoweredFunc {
    /// The fields of this function, to make a changed one of.
    pub fn to_node(&self) -> LoweredFuncNode {
        LoweredFuncNode {
            name: self.name.clone(),
            params: self.params.clone(),
            ret: self.ret,
            kind: self.kind,
            thread_axes: self.thread_axes.clone(),
            body: self.body.clone(),
            attrs: self.attrs.clone(),
        }
    }

    /// The same function with another body.
    pub fn with_body(&self, body: Stmt) -> Self {
        Self::from_node(LoweredFuncNode { body, ..self.to_node() })
    }

    /// An attribute.
    pub fn attr(&self, name: &str) -> Option<Any> {
        self.attrs.get(name)
    }
}

handle! {
    /// A reference to a module.
    IrModule => IrModuleNode
}

/// Functions that are compiled together.
#[derive(Object)]
#[object(key = "kernpack.ir.IrModule")]
#[repr(C)]
pub struct IrModuleNode {
    /// In order; names are unique.
    pub functions: Array<LoweredFunc>,
    /// Hints by name: `system_lib_prefix` (text), ..
    pub attrs: Map<Str, Any>,
}

impl IrModule {
    /// The same functions with one more attribute.
    #[must_use]
    pub fn with_attr(&self, name: &str, value: impl Into<Any>) -> Self {
        let value = value.into();
        let others = self.attrs.iter().filter(|(key, _)| key.as_str() != name);
        let attrs = others.chain([(name.into(), value)]).collect();
        Self::from_node(IrModuleNode { functions: self.functions.clone(), attrs })
    }

    /// A module of functions.
    pub fn new(functions: impl IntoIterator<Item = LoweredFunc>) -> Self {
        Self::from_node(IrModuleNode { functions: functions.into_iter().collect(), attrs: Map::default() })
    }
}
