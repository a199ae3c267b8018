//! The body of a function or kernel during generation: its lines, and the names of its variables.

use std::collections::{HashMap, HashSet};

use kernpack::DataType;

use super::names::Names;
use super::unit::Unit;
use crate::codegen::parts::IndexFacts;
use crate::error::{Result, fail};
use crate::ir::{Buffer, DataTypeExt, Expr, Var};

/// The address space of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    /// A tensor.
    Global,
    /// Memory of a block.
    Shared,
    /// Memory of a thread, or of the host.
    Private,
}

/// The representation of a variable.
#[derive(Clone)]
pub(crate) struct Local {
    /// Its name.
    pub(crate) name: String,
    /// For a pointer: its memory; `None` for `void*` of C.
    pub(crate) memory: Option<Memory>,
    /// True if nothing else in the function points to its memory.
    pub(crate) restrict: bool,
}

/// The memory of a pointer.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) space: Space,
    /// The type of the elements with which the pointer is declared.
    pub(crate) element: DataType,
    /// True if the pointer is declared for reads only.
    pub(crate) is_const: bool,
}

impl Memory {
    /// Memory of the host, or of a thread.
    pub(crate) fn private(element: DataType) -> Self {
        Self { space: Space::Private, element, is_const: false }
    }
}

/// The way in which errors leave a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// `return -1`.
    Status,
    /// Errors cannot be reported: the function returns nothing, or something else.
    None,
}

/// An expression.
pub(crate) struct Text {
    /// The text, which is valid in any context.
    pub(crate) text: String,
    /// The nesting depth of its parentheses.
    pub(crate) depth: usize,
}

impl Text {
    /// An expression without parentheses that matter.
    pub(crate) fn flat(text: String) -> Self {
        Self { text, depth: 0 }
    }
}

/// A condition in parentheses, which are not doubled: compilers warn about `((a == b))`.
fn condition(text: &str) -> String {
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

/// The function or kernel, its lines so far, and the surrounding file.
pub(crate) struct Body<'a> {
    pub(crate) unit: &'a mut Unit,
    /// Its name.
    pub(crate) function: String,
    pub(crate) names: Names,
    pub(crate) locals: HashMap<Var, Local>,
    pub(crate) lines: Vec<String>,
    /// Declarations at the beginning of the function.
    pub(crate) hoisted: Vec<String>,
    /// The cleanup before the function ends, in reverse order.
    pub(crate) cleanup: Vec<String>,
    pub(crate) indent: usize,
    pub(crate) exit: Exit,
    /// True if the arguments do not overlap.
    pub(crate) noalias: bool,
    /// True in a task of a parallel loop, which has the parameters `(task_id, group)`.
    pub(crate) in_task: bool,
    /// The number of surrounding loops.
    pub(crate) in_loop: usize,
    /// True if loads and calls of the statement have to run in order, because one of them changes
    /// memory.
    pub(crate) ordered: bool,
    /// The pointers through which the kernel writes.
    pub(crate) written: HashSet<Var>,
    /// True if a barrier has to order the memory of tensors.
    pub(crate) orders_global: bool,
    /// True while an index is written.
    pub(crate) in_index: bool,
    pub(crate) index_facts: IndexFacts,
    /// True if the parts of the sum around the next expression fit in its type; none: there is no
    /// sum.
    pub(crate) parts_fit: Option<bool>,
}

impl<'a> Body<'a> {
    /// An empty body.
    pub(crate) fn new(unit: &'a mut Unit, function: &str, noalias: bool) -> Self {
        Self {
            names: unit.names.clone(),
            unit,
            function: function.to_owned(),
            locals: HashMap::new(),
            lines: Vec::new(),
            hoisted: Vec::new(),
            cleanup: Vec::new(),
            indent: 1,
            exit: Exit::None,
            noalias,
            in_task: false,
            in_loop: 0,
            ordered: false,
            written: HashSet::new(),
            orders_global: false,
            in_index: false,
            index_facts: IndexFacts::default(),
            parts_fit: None,
        }
    }
}

impl Body<'_> {
    /// Adds a line.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        let indent = "  ".repeat(self.indent);
        self.lines.push(format!("{indent}{}", text.as_ref()));
    }

    /// Writes lines with one more level of indentation.
    pub(crate) fn indented(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.indent += 1;
        let result = work(self);
        self.indent -= 1;
        result
    }

    /// Writes lines between braces; `open` ends with one.
    pub(crate) fn block(&mut self, open: &str, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.line(open);
        self.indented(work)?;
        self.line("}");
        Ok(())
    }

    /// Returns the lines that `work` writes, separately, for a block that is opened after it.
    pub(crate) fn apart_inside<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<(R, Vec<String>)> {
        self.indent += 1;
        let result = self.apart(work);
        self.indent -= 1;
        result
    }

    /// Writes a block after `open`, which ends with a brace: lines, and a last one.
    pub(crate) fn block_of(&mut self, open: &str, lines: Vec<String>, last: &str) {
        self.line(open);
        self.lines.extend(lines);
        self.line(format!("  {last}"));
    }

    /// Returns the lines that `work` writes, separately.
    pub(crate) fn apart<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<(R, Vec<String>)> {
        let before = core::mem::take(&mut self.lines);
        let result = work(self);
        let lines = core::mem::replace(&mut self.lines, before);
        Ok((result?, lines))
    }

    /// A condition in parentheses. C compilers get the parentheses that they expect to be doubled.
    pub(crate) fn condition(&self, text: &str) -> String {
        if self.unit.words.is_host { format!("({text})") } else { condition(text) }
    }

    /// Declares a constant local with this value; of a kernel, unless the value is a local already.
    pub(crate) fn bind(&mut self, wanted: &str, dtype: DataType, value: &str) -> Result<String> {
        if !self.unit.words.is_host
            && !value.starts_with(|c: char| c.is_ascii_digit())
            && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            return Ok(value.to_owned());
        }
        let ty = self.unit.value_type(dtype)?;
        let name = self.names.unique(wanted);
        let constant = self.unit.words.constant(&ty, &name);
        self.line(format!("{constant} = {value};"));
        Ok(name)
    }

    /// Returns the text, or a local with its value if it is nested too deeply.
    pub(crate) fn shallow(&mut self, text: Text, dtype: DataType) -> Result<Text> {
        if text.depth < MAX_DEPTH || dtype.lanes() == 0 {
            return Ok(text);
        }
        Ok(Text::flat(self.bind("t", dtype, &text.text)?))
    }

    /// The representation of a variable.
    pub(crate) fn local(&self, var: &Var) -> Result<Local> {
        match self.locals.get(var) {
            Some(local) => Ok(local.clone()),
            None => fail!(
                Internal,
                "variable `{}` of function `{}` is used where it is not defined",
                var.name(),
                self.function
            ),
        }
    }

    /// Gives a variable a name.
    pub(crate) fn define(&mut self, var: &Var, memory: Option<Memory>) -> String {
        self.define_as(var, memory, false)
    }

    /// Gives a variable a name; `restrict`: nothing else points to its memory.
    pub(crate) fn define_as(&mut self, var: &Var, memory: Option<Memory>, restrict: bool) -> String {
        let name = self.names.unique(var.name());
        self.locals.insert(var.clone(), Local { name: name.clone(), memory, restrict });
        name
    }

    /// Declares a named value.
    pub(crate) fn let_value(&mut self, var: &Var, value: &Expr, text: &str) -> Result<()> {
        self.index_facts.note_value(var, value);
        let ty = self.unit.value_type(var.dtype())?;
        let name = self.define(var, None);
        let constant = self.unit.words.constant(&ty, &name);
        self.line(format!("{constant} = {text};"));
        Ok(())
    }

    /// The memory of a pointer variable.
    pub(crate) fn memory(&self, var: &Var) -> Result<(String, Memory)> {
        let Local { name, memory, .. } = self.local(var)?;
        match memory {
            Some(memory) => Ok((name, memory)),
            None => fail!(Type, "`{name}` of kernel `{}` is used as memory, but it is a number", self.function),
        }
    }

    /// The words of a pointer type: address space, element, constness.
    pub(crate) fn pointer_type(&mut self, memory: Memory) -> Result<String> {
        let element = self.unit.memory_type(memory.element)?;
        let constant = if memory.is_const { "const " } else { "" };
        let space = match memory.space {
            Space::Global => self.unit.words.global,
            // Only declarations of memory have the word of CUDA C++.
            Space::Shared if self.unit.words.has_vectors() => self.unit.words.shared,
            Space::Shared | Space::Private => "",
        };
        Ok(format!("{constant}{space}{element}*"))
    }

    /// The data pointer of a buffer, as a pointer to its elements.
    pub(crate) fn pointer(&mut self, buffer: &Buffer) -> Result<String> {
        let element = buffer.dtype.element();
        let (name, memory) = match self.local(&buffer.data)? {
            Local { name, memory: None, .. } if self.unit.words.is_host => (name, None),
            _ => self.memory(&buffer.data).map(|(name, memory)| (name, Some(memory)))?,
        };
        let ty = self.pointer_type(Memory { element, ..memory.unwrap_or(Memory::private(element)) })?;
        Ok(if memory.is_some_and(|memory| memory.element == element) { name } else { format!("(({ty}){name})") })
    }
}
