//! The body of a C function during generation: its lines, and the names of its variables.

use std::collections::HashMap;

use kernpack::DataType;

use super::names::Names;
use super::unit::Unit;
use crate::codegen::parts::IndexFacts;
use crate::error::{Result, fail};
use crate::ir::{Buffer, Var};

/// The C representation of an IR variable.
#[derive(Clone)]
pub(super) struct Local {
    /// Its name.
    pub(super) name: String,
    /// For a pointer: the type of the elements with which it is declared; `None` for `void*`.
    pub(super) element: Option<DataType>,
    /// True if nothing else in the function points to its memory.
    pub(super) restrict: bool,
}

/// The way in which errors leave the function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// `return -1`.
    Status,
    /// Errors cannot be reported: the function returns nothing, or something else.
    None,
}

/// A C expression.
pub(super) struct Text {
    /// The text, which is valid in any context.
    pub(super) text: String,
    /// The nesting depth of its parentheses.
    pub(super) depth: usize,
}

/// The maximum depth of parentheses: compilers allow 256, or 63.
const MAX_DEPTH: usize = 24;

/// The function, its lines so far, and the surrounding file.
pub(super) struct Body<'a> {
    pub(super) unit: &'a mut Unit,
    /// The C names of the functions of the module.
    pub(super) functions: &'a HashMap<String, String>,
    /// The name of the C function.
    pub(super) function: String,
    pub(super) names: Names,
    pub(super) locals: HashMap<Var, Local>,
    pub(super) lines: Vec<String>,
    /// The cleanup before the function ends, in reverse order.
    pub(super) cleanup: Vec<String>,
    /// Declarations at the beginning of the function.
    pub(super) hoisted: Vec<String>,
    pub(super) indent: usize,
    pub(super) exit: Exit,
    /// True if the arguments do not overlap.
    pub(super) noalias: bool,
    /// True in a task of a parallel loop, which has the parameters `(task_id, group)`.
    pub(super) in_task: bool,
    /// The number of surrounding loops.
    pub(super) in_loop: usize,
    /// True if loads and calls of the statement have to run in order, because one of them changes
    /// memory.
    pub(super) ordered: bool,
    /// True while an index is written.
    pub(super) in_index: bool,
    pub(super) index_facts: IndexFacts,
    /// True if the parts of the sum around the next expression fit in its type; none: there is no
    /// sum.
    pub(super) parts_fit: Option<bool>,
}

impl Body<'_> {
    /// Writes the body of another function that returns a status, in the middle of this one.
    pub(super) fn nested(&mut self, symbol: &str, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<String> {
        let exit = core::mem::replace(&mut self.exit, Exit::Status);
        let indent = core::mem::replace(&mut self.indent, 1);
        let hoisted = core::mem::take(&mut self.hoisted);
        let cleanup = core::mem::take(&mut self.cleanup);
        let function = core::mem::replace(&mut self.function, symbol.to_owned());
        let (names, locals) = (self.names.clone(), self.locals.clone());
        let written = self.apart(work);
        let text = written.map(|((), lines)| self.finish(Some("int32_t"), lines, true));
        self.names = names;
        self.locals = locals;
        self.function = function;
        self.cleanup = cleanup;
        self.hoisted = hoisted;
        self.indent = indent;
        self.exit = exit;
        text
    }

    /// Adds a line.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        let indent = "  ".repeat(self.indent);
        self.lines.push(format!("{indent}{}", text.as_ref()));
    }

    /// Writes lines between braces; `open` ends with one.
    pub(super) fn block(&mut self, open: &str, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.line(open);
        self.indent += 1;
        let result = work(self);
        self.indent -= 1;
        self.line("}");
        result
    }

    /// Returns the lines that `work` writes, separately.
    pub(super) fn apart<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<(R, Vec<String>)> {
        let before = core::mem::take(&mut self.lines);
        let result = work(self);
        let lines = core::mem::replace(&mut self.lines, before);
        Ok((result?, lines))
    }

    /// Declares a constant local with this value.
    pub(super) fn bind(&mut self, wanted: &str, dtype: DataType, value: &str) -> Result<String> {
        let ty = self.unit.value_type(dtype)?;
        let name = self.names.unique(wanted);
        self.line(format!("{ty} const {name} = {value};"));
        Ok(name)
    }

    /// Returns the text, or a local with its value if it is nested too deeply.
    pub(super) fn shallow(&mut self, text: String, depth: usize, dtype: DataType) -> Result<Text> {
        if depth < MAX_DEPTH {
            return Ok(Text { text, depth });
        }
        Ok(Text { text: self.bind("t", dtype, &text)?, depth: 0 })
    }

    /// The C name of a variable.
    pub(super) fn local(&self, var: &Var) -> Result<Local> {
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

    /// Gives a variable a C name.
    pub(super) fn define(&mut self, var: &Var, element: Option<DataType>, restrict: bool) -> String {
        let name = self.names.unique(var.name());
        self.locals.insert(var.clone(), Local { name: name.clone(), element, restrict });
        name
    }

    /// The data pointer of a buffer, as a pointer to its elements.
    pub(super) fn pointer(&mut self, buffer: &Buffer) -> Result<String> {
        let local = self.local(&buffer.data)?;
        let memory = self.unit.memory_type(buffer.dtype)?;
        let same = local.element.is_some_and(|element| element == element_of(buffer));
        Ok(if same { local.name } else { format!("(({memory}*){})", local.name) })
    }
}

/// The scalar type of a buffer's elements.
pub(super) fn element_of(buffer: &Buffer) -> DataType {
    use crate::ir::DataTypeExt;
    buffer.dtype.element()
}
