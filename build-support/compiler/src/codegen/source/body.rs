//! The body of a kernel during generation: its lines, and the names of its variables.

use std::collections::{HashMap, HashSet};

use kernpack::DataType;

use super::names::Names;
use super::unit::Unit;
use crate::codegen::parts::IndexFacts;
use crate::error::{Result, fail};
use crate::ir::{Buffer, DataTypeExt, Var};

/// The address space of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Space {
    /// A tensor.
    Global,
    /// Memory of a block.
    Shared,
    /// Memory of a thread.
    Private,
}

/// The representation of a variable.
#[derive(Clone)]
pub(super) struct Local {
    /// Its name.
    pub(super) name: String,
    /// For a pointer: its memory.
    pub(super) memory: Option<Memory>,
}

/// The memory of a pointer.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) space: Space,
    /// The type of the elements with which the pointer is declared.
    pub(super) element: DataType,
    /// True if the pointer is declared for reads only.
    pub(super) is_const: bool,
}

/// An expression.
pub(super) struct Text {
    /// The text, which is valid in any context.
    pub(super) text: String,
    /// The nesting depth of its parentheses.
    pub(super) depth: usize,
}

impl Text {
    /// An expression without parentheses that matter.
    pub(super) fn flat(text: String) -> Self {
        Self { text, depth: 0 }
    }
}

/// A condition in parentheses, which are not doubled: compilers warn about `((a == b))`.
pub(super) fn condition(text: &str) -> String {
    let mut depth = 0;
    let closes = text.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    });
    let is_closed = text.starts_with('(') && closes.is_some_and(|(place, _)| place + 1 == text.len());
    if is_closed { text.to_owned() } else { format!("({text})") }
}

/// The maximum depth of parentheses: compilers allow 256, or 63.
const MAX_DEPTH: usize = 24;

/// The kernel, its lines so far, and the surrounding file.
pub(super) struct Body<'a> {
    pub(super) unit: &'a mut Unit,
    /// The name of the kernel.
    pub(super) kernel: String,
    pub(super) names: Names,
    pub(super) locals: HashMap<Var, Local>,
    pub(super) lines: Vec<String>,
    /// Declarations at the beginning of the kernel.
    pub(super) hoisted: Vec<String>,
    pub(super) indent: usize,
    /// The pointers through which the kernel writes.
    pub(super) written: HashSet<Var>,
    /// True if a barrier has to order the memory of tensors.
    pub(super) orders_global: bool,
    /// True while an index is written.
    pub(super) in_index: bool,
    pub(super) index_facts: IndexFacts,
    /// True if the parts of the sum around the next expression fit in its type; none: there is no
    /// sum.
    pub(super) parts_fit: Option<bool>,
}

impl Body<'_> {
    /// Adds a line.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        let indent = "  ".repeat(self.indent);
        self.lines.push(format!("{indent}{}", text.as_ref()));
    }

    /// Writes lines with one more level of indentation.
    pub(super) fn indented(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.indent += 1;
        let result = work(self);
        self.indent -= 1;
        result
    }

    /// Writes lines between braces; `open` ends with one.
    pub(super) fn block(&mut self, open: &str, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.line(open);
        self.indented(work)?;
        self.line("}");
        Ok(())
    }

    /// Returns the lines that `work` writes, separately.
    pub(super) fn apart<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<(R, Vec<String>)> {
        let before = core::mem::take(&mut self.lines);
        let result = work(self);
        let lines = core::mem::replace(&mut self.lines, before);
        Ok((result?, lines))
    }

    /// Declares a constant local with this value, unless the value is a local already.
    pub(super) fn bind(&mut self, wanted: &str, dtype: DataType, value: &str) -> Result<String> {
        if !value.starts_with(|c: char| c.is_ascii_digit())
            && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            return Ok(value.to_owned());
        }
        let ty = self.unit.value_type(dtype)?;
        let name = self.names.unique(wanted);
        self.line(format!("const {ty} {name} = {value};"));
        Ok(name)
    }

    /// Returns the text, or a local with its value if it is nested too deeply.
    pub(super) fn shallow(&mut self, text: Text, dtype: DataType) -> Result<Text> {
        if text.depth < MAX_DEPTH || dtype.lanes() == 0 {
            return Ok(text);
        }
        Ok(Text::flat(self.bind("t", dtype, &text.text)?))
    }

    /// The representation of a variable.
    pub(super) fn local(&self, var: &Var) -> Result<Local> {
        match self.locals.get(var) {
            Some(local) => Ok(local.clone()),
            None => {
                fail!(Internal, "variable `{}` of kernel `{}` is used where it is not defined", var.name(), self.kernel)
            }
        }
    }

    /// Gives a variable a name.
    pub(super) fn define(&mut self, var: &Var, memory: Option<Memory>) -> String {
        let name = self.names.unique(var.name());
        self.locals.insert(var.clone(), Local { name: name.clone(), memory });
        name
    }

    /// The memory of a pointer variable.
    pub(super) fn memory(&self, var: &Var) -> Result<(String, Memory)> {
        let Local { name, memory } = self.local(var)?;
        match memory {
            Some(memory) => Ok((name, memory)),
            None => fail!(Type, "`{name}` of kernel `{}` is used as memory, but it is a number", self.kernel),
        }
    }

    /// The words of a pointer type: address space, element, constness.
    pub(super) fn pointer_type(&mut self, memory: Memory) -> Result<String> {
        let element = self.unit.memory_type(memory.element)?;
        let constant = if memory.is_const { "const " } else { "" };
        let space = match memory.space {
            Space::Global => self.unit.words.global,
            // Only declarations of memory have the word of CUDA C++.
            Space::Shared if self.unit.words.has_vectors => self.unit.words.shared,
            Space::Shared | Space::Private => "",
        };
        Ok(format!("{constant}{space}{element}*"))
    }

    /// The data pointer of a buffer, as a pointer to its elements.
    pub(super) fn pointer(&mut self, buffer: &Buffer) -> Result<String> {
        let (name, memory) = self.memory(&buffer.data)?;
        let element = buffer.dtype.element();
        if memory.element == element {
            return Ok(name);
        }
        let ty = self.pointer_type(Memory { element, ..memory })?;
        Ok(format!("(({ty}){name})"))
    }
}
