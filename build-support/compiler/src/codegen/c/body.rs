//! The body of one C function while it is written: its lines, and what its variables are called.

use std::collections::HashMap;

use kernpack::DataType;

use super::names::Names;
use super::unit::Unit;
use crate::codegen::parts::LoopBounds;
use crate::error::{Result, fail};
use crate::ir::{Buffer, Var};

/// What an IR variable is in C.
#[derive(Clone)]
pub(super) struct Local {
    /// Its name.
    pub(super) name: String,
    /// For a pointer: type of the elements that it is declared with; none: `void*`.
    pub(super) element: Option<DataType>,
    /// Nothing else in the function points to its memory.
    pub(super) restrict: bool,
}

/// How errors leave the function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// `return -1`.
    Status,
    /// There is no way: the function returns nothing, or something else.
    None,
}

/// An expression in C.
pub(super) struct Text {
    /// The text, which can stand anywhere.
    pub(super) text: String,
    /// How deep its parentheses are.
    pub(super) depth: usize,
}

/// Parentheses deeper than this are avoided: compilers allow 256, or 63.
const MAX_DEPTH: usize = 24;

/// The function, its lines so far, and the file around it.
pub(super) struct Body<'a> {
    pub(super) unit: &'a mut Unit,
    /// C names of the functions of the module.
    pub(super) functions: &'a HashMap<String, String>,
    /// Name of the C function.
    pub(super) function: String,
    pub(super) names: Names,
    pub(super) locals: HashMap<Var, Local>,
    pub(super) lines: Vec<String>,
    /// What is done before the function ends, last one first.
    pub(super) cleanup: Vec<String>,
    /// Declarations at the beginning of the function.
    pub(super) hoisted: Vec<String>,
    pub(super) indent: usize,
    pub(super) exit: Exit,
    /// The arguments do not overlap.
    pub(super) noalias: bool,
    /// `(task_id, group)` in a task of a parallel loop.
    pub(super) in_task: bool,
    /// How many loops are around.
    pub(super) in_loop: usize,
    /// Whether loads and calls of the statement are done one after the other, since one of them changes memory.
    pub(super) ordered: bool,
    /// Whether an index is being written.
    pub(super) in_index: bool,
    pub(super) loop_bounds: LoopBounds,
    /// Whether the parts of the sum around the next expression fit in its type; none: there is no
    /// sum.
    pub(super) parts_fit: Option<bool>,
}

impl Body<'_> {
    /// The inside of another function that returns a status, while this one is being written.
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

    /// Lines that some work writes, apart.
    pub(super) fn apart<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<(R, Vec<String>)> {
        let before = core::mem::take(&mut self.lines);
        let result = work(self);
        let lines = core::mem::replace(&mut self.lines, before);
        Ok((result?, lines))
    }

    /// A constant local with this value.
    pub(super) fn bind(&mut self, wanted: &str, dtype: DataType, value: &str) -> Result<String> {
        let ty = self.unit.value_type(dtype)?;
        let name = self.names.unique(wanted);
        self.line(format!("{ty} const {name} = {value};"));
        Ok(name)
    }

    /// The text, or a local with its value if it is deep.
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
