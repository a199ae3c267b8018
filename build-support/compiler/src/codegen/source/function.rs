//! Kernels: parameters, threads, and the order of the file.

use std::collections::{HashMap, HashSet};

use kernpack::module::device_image::ArgType;

use super::Kernel;
use super::body::{Body, Memory, Space};
use super::half;
use super::unit::Unit;
use super::vocabulary::{Vocabulary, is_half};
use crate::error::{Result, fail, require};
use crate::ir::visit::{for_each_expr_in, for_each_stmt};
use crate::ir::{DataType, DataTypeExt, Expr, ExprNode, FuncKind, IrModule, LoweredFunc, StmtNode, U8, Var};

/// The source of the kernels of a module, with their parameters.
pub(crate) fn module(words: &'static Vocabulary, module: &IrModule) -> Result<(String, Vec<Kernel>)> {
    let mut unit = Unit::new(words);
    let functions: Vec<LoweredFunc> =
        module.functions.iter().filter(|function| function.kind == FuncKind::Device).collect();
    for function in &functions {
        let name = function.name.as_str();
        require!(
            unit.names.take(name),
            Target,
            "kernel `{name}` cannot have this name in {}: it is not an identifier, it is a word of the language, or another kernel has it",
            words.name
        );
    }
    let mut kernels = Vec::new();
    for function in &functions {
        let (text, kernel) =
            one(&mut unit, function).map_err(|error| error.note(format!("in kernel `{}`", function.name)))?;
        let gap = if kernels.is_empty() { "" } else { "\n" };
        unit.functions.push_str(&format!("{gap}{text}"));
        kernels.push(kernel);
    }
    Ok((unit.finish(), kernels))
}

/// The accesses to memory in a kernel, by pointer.
#[derive(Default)]
struct Accesses {
    /// The type of the elements of the first access.
    elements: HashMap<Var, DataType>,
    /// The pointers that each view refers to.
    views: HashMap<Var, Var>,
    read: HashSet<Var>,
    written: HashSet<Var>,
}

impl Accesses {
    fn of(function: &LoweredFunc) -> Self {
        let mut found = Self::default();
        for_each_stmt(&function.body, |stmt| match &**stmt {
            StmtNode::Alias { buffer, data } => found.view(&buffer.data, Some(buffer.dtype.element()), data),
            StmtNode::Bind { var, value } if var.dtype().is_handle() => found.view(var, None, value),
            StmtNode::Store { buffer, .. } => {
                found.elements.entry(buffer.data.clone()).or_insert(buffer.dtype.element());
                found.written.insert(buffer.data.clone());
            }
            _ => {}
        });
        for_each_expr_in(&function.body, |expr| {
            if let ExprNode::Load { buffer, .. } = &**expr {
                found.elements.entry(buffer.data.clone()).or_insert(buffer.dtype.element());
                found.read.insert(buffer.data.clone());
            }
        });
        for list in [&mut found.read, &mut found.written] {
            let mut waiting: Vec<Var> = list.iter().cloned().collect();
            while let Some(var) = waiting.pop() {
                if let Some(pointer) = found.views.get(&var)
                    && list.insert(pointer.clone())
                {
                    waiting.push(pointer.clone());
                }
            }
        }
        found
    }

    /// Notes a view; `element`: the type of its elements, if it is known.
    fn view(&mut self, view: &Var, element: Option<DataType>, data: &Expr) {
        if let Some(pointer) = pointer_of(data) {
            if let Some(element) = element {
                self.elements.entry(pointer.clone()).or_insert(element);
            }
            self.views.insert(view.clone(), pointer);
        }
    }
}

/// The pointer to the memory of an address.
fn pointer_of(address: &Expr) -> Option<Var> {
    match &**address {
        ExprNode::Var { .. } => Var::of(address),
        ExprNode::Load { buffer, .. } => Some(buffer.data.clone()),
        // `address_of` or `handle_add_byte_offset`.
        ExprNode::Call { args, .. } => pointer_of(args.to_vec().first()?),
        _ => None,
    }
}

/// A kernel, with its parameters.
fn one(unit: &mut Unit, function: &LoweredFunc) -> Result<(String, Kernel)> {
    let accesses = Accesses::of(function);
    let params: Vec<Var> = function.params.iter().map(|param| param.var.clone()).collect();
    let orders_global = params.iter().any(|var| accesses.read.contains(var) && accesses.written.contains(var));
    let noalias = function.attr("noalias").is_none_or(|value| value.to::<i64>().unwrap_or(1) != 0);
    let mut body = Body::new(unit, function.name.as_str(), noalias);
    body.written = accesses.written.clone();
    body.orders_global = orders_global;
    let (mut heads, mut arg_types) = (Vec::new(), Vec::new());
    for var in params {
        if var.dtype().is_handle() {
            let element = accesses.elements.get(&var).copied().unwrap_or(U8);
            let is_const = !body.written.contains(&var);
            heads.extend(body.tensor(&var, element, is_const)?);
            arg_types.extend([ArgType::POINTER, ArgType::INT64]);
        } else {
            heads.push(body.number(&var)?);
            arg_types.push(arg_type(var.dtype()));
        }
    }
    let (tags, block) = body.threads(function)?;
    body.stmt(&function.body)?;
    let (words, name) = (body.unit.words, function.name.as_str());
    let size = block.map(|block| words.block_size(block)).unwrap_or_default();
    let lines = body.hoisted.iter().chain(&body.lines).map(|line| format!("{line}\n")).collect::<String>();
    let (before, after) = if words.has_vectors() { (size.as_str(), "") } else { ("", size.as_str()) };
    let text = format!("{before}{} {after}{name}({}) {{\n{lines}}}\n", words.kernel, heads.join(", "));
    Ok((text, Kernel { name: name.to_owned(), arg_types, tags }))
}

/// The type of a number in the table of kernels.
fn arg_type(dtype: DataType) -> ArgType {
    ArgType { code: dtype.code(), bits: dtype.bits(), lanes: 1 }
}

impl Body<'_> {
    /// The parameters of a tensor: its block, and the offset of its first element in bytes.
    fn tensor(&mut self, var: &Var, element: DataType, is_const: bool) -> Result<[String; 2]> {
        let [block, offset] = ["block", "offset"].map(|part| self.names.unique(&format!("{}_{part}", var.name())));
        let byte = self.pointer_type(Memory { space: Space::Global, element: U8, is_const })?;
        let memory = Memory { space: Space::Global, element, is_const };
        let ty = self.pointer_type(memory)?;
        let name = self.define(var, Some(memory));
        self.line(format!("{ty} const {name} = ({ty})({block} + {offset});"));
        let restrict = if self.noalias { format!(" {}", self.unit.words.restrict) } else { String::new() };
        Ok([format!("{byte}{restrict} {block}"), format!("const {} {offset}", self.unit.words.scalar(crate::ir::I64))])
    }

    /// The parameter of a number. Truth values and half precision are passed as in memory.
    fn number(&mut self, var: &Var) -> Result<String> {
        let dtype = var.dtype();
        require!(dtype.is_scalar(), Target, "parameter `{}` is a {}", var.name(), dtype.short_name());
        self.index_facts.note_param(var);
        let ty = self.unit.value_type(dtype)?;
        if !dtype.is_bool() && !is_half(dtype) {
            return Ok(format!("const {ty} {}", self.define(var, None)));
        }
        let stored = self.unit.memory_type(dtype)?;
        let bits = self.names.unique(&format!("{}_bits", var.name()));
        let value = half::from_memory(self.unit, dtype, bits.clone())?;
        let name = self.define(var, None);
        self.line(format!("const {ty} {name} = {value};"));
        Ok(format!("const {stored} {bits}"))
    }

    /// Declares the indices of the threads. Returns the tags of a launch, and the extents of a
    /// block if they are constants.
    fn threads(&mut self, function: &LoweredFunc) -> Result<(Vec<String>, Option<[i64; 3]>)> {
        let (mut tags, mut block) = (Vec::new(), Some([1; 3]));
        for axis in function.thread_axes.iter() {
            let tag = axis.thread_tag.as_str();
            let Some(index) = self.unit.words.thread(tag) else {
                fail!(Target, "{} has no threads `{tag}`", self.unit.words.name)
            };
            let extent = axis.dom.as_ref().and_then(|dom| dom.extent.as_int());
            self.index_facts.note_thread(&axis.var, extent);
            if let Some(axis) = ["threadIdx.x", "threadIdx.y", "threadIdx.z"].iter().position(|known| *known == tag) {
                block = block.zip(extent).map(|(mut block, extent)| {
                    block[axis] = extent;
                    block
                });
            }
            let ty = self.unit.value_type(axis.var.dtype())?;
            let name = self.define(&axis.var, None);
            self.line(format!("const {ty} {name} = ({ty}){index};"));
            tags.push(tag.to_owned());
        }
        // An empty block is never launched, but the compiler rejects its size.
        Ok((tags, block.filter(|block| block.iter().all(|extent| *extent > 0))))
    }
}
