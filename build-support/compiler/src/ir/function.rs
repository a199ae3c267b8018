//! Functions and modules of lowered code.

use kernpack::{Any, Array, DataType, Map, Object, Str};

use super::buffer::Buffer;
use super::expr::Var;
use super::handle::handle;
use super::stmt::Stmt;
use super::tensor::IterVar;

/// The attribute of an internal function that all tasks of a launch call together, each once.
/// Parallel loops in it are split among the tasks, and it may contain barriers. Memory that it
/// allocates outside of parallel loops is private to a task.
pub const PARALLEL_TASK: &str = "parallel_task";

/// The attribute of a function that describes its computation, for messages: a text with the nodes
/// of a model.
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
    /// The buffer of a tensor parameter. Sizes that occur first in its shape are defined here.
    #[field(structural = "def")]
    pub buffer: Option<Buffer>,
    /// True if the function writes to the tensor.
    pub output: bool,
}

/// The place where a function runs, and its calling convention.
#[derive(Object, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[object(key = "kernpack.ir.FuncKind", enum = "int")]
pub enum FuncKind {
    /// Not yet split into a host and a device part; the parameters are accessed by name.
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
    /// The name, which other languages also use.
    pub name: Str,
    /// The parameters.
    pub params: Array<Param>,
    /// The type of the return value; `int32` for packed functions (0, or -1 for an error). A type
    /// with 0 lanes means no value.
    pub ret: DataType,
    /// The kind of the function.
    pub kind: FuncKind,
    /// The threads of a kernel, in the order of its launch parameters.
    pub thread_axes: Array<IterVar>,
    /// The statements of the function.
    pub body: Stmt,
    /// Hints by name: `noalias` (int, default 1), `fastmath` (text), `global_symbol` (text), `doc`
    /// (text), `noinline` (int), ..
    pub attrs: Map<Str, Any>,
}

impl LoweredFunc {
    /// Returns a copy of the fields, for creating a changed function.
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

    /// Returns the same function with another body.
    pub fn with_body(&self, body: Stmt) -> Self {
        Self::from_node(LoweredFuncNode { body, ..self.to_node() })
    }

    /// Returns the same function with one more attribute.
    #[must_use]
    pub fn with_attr(&self, name: &str, value: impl Into<Any>) -> Self {
        let value = value.into();
        let others = self.attrs.iter().filter(|(key, _)| key.as_str() != name);
        let attrs = others.chain([(name.into(), value)]).collect();
        Self::from_node(LoweredFuncNode { attrs, ..self.to_node() })
    }

    /// Returns an attribute.
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
    /// The functions, in order, with unique names.
    pub functions: Array<LoweredFunc>,
    /// Hints by name: `system_lib_prefix` (text), ..
    pub attrs: Map<Str, Any>,
}

impl IrModule {
    /// Returns the same functions with one more attribute.
    #[must_use]
    pub fn with_attr(&self, name: &str, value: impl Into<Any>) -> Self {
        let value = value.into();
        let others = self.attrs.iter().filter(|(key, _)| key.as_str() != name);
        let attrs = others.chain([(name.into(), value)]).collect();
        Self::from_node(IrModuleNode { functions: self.functions.clone(), attrs })
    }

    /// Creates a module of functions.
    pub fn new(functions: impl IntoIterator<Item = LoweredFunc>) -> Self {
        Self::from_node(IrModuleNode { functions: functions.into_iter().collect(), attrs: Map::default() })
    }
}
