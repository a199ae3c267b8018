//! The state of the printer: the text so far, names, declarations.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Array, Map, Str};

use super::names::{Names, quoted, string};
use crate::ir::{
    Buffer, DEFAULT_ALIGNMENT, DataType, DataTypeExt, Expr, I64, IterKind, IterVar, Range, Reducer, Stmt, Tensor, Var,
    with_stack,
};

/// Prints nodes one after the other.
pub(super) struct Printer {
    pub(super) out: String,
    pub(super) indent: usize,
    pub(super) names: Names,
    /// The variables that were bound so far.
    pub(super) bound: HashSet<Var>,
    /// The variables that were bound or declared in this function.
    pub(super) here: HashSet<Var>,
    pub(super) buffers: HashSet<Buffer>,
    /// Declarations of free names; `None` if the reader knows them.
    pub(super) free: Option<Vec<String>>,
    /// Declarations of other nodes for bound memory, for the lines before the statement.
    pub(super) views: Vec<String>,
    /// The line on which each statement starts.
    pub(super) lines: HashMap<Stmt, usize>,
    pub(super) line: usize,
    /// The line of each function's head.
    pub(super) functions: Vec<(String, usize)>,
    /// True while an expression is printed.
    pub(super) in_expr: bool,
}

impl Printer {
    /// Creates a printer that does not declare free names.
    pub(super) fn new() -> Self {
        Self {
            out: String::new(),
            indent: 0,
            names: Names::default(),
            bound: HashSet::new(),
            here: HashSet::new(),
            buffers: HashSet::new(),
            free: None,
            views: Vec::new(),
            lines: HashMap::new(),
            line: 0,
            functions: Vec::new(),
            in_expr: false,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Starts a line.
    pub(super) fn start_line(&mut self) {
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
    }

    /// Ends a line.
    pub(super) fn end_line(&mut self) {
        self.out.push('\n');
        self.line += 1;
    }

    /// Returns the text that `print` writes, separately.
    pub(super) fn aside(&mut self, print: impl FnOnce(&mut Self)) -> String {
        let before = core::mem::take(&mut self.out);
        print(self);
        core::mem::replace(&mut self.out, before)
    }

    pub(super) fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut print: impl FnMut(&mut Self, T)) {
        for (position, item) in items.into_iter().enumerate() {
            if position > 0 {
                self.push(", ");
            }
            print(self, item);
        }
    }

    pub(super) fn exprs(&mut self, exprs: &Array<Expr>) {
        self.list(exprs.iter(), |this, expr| this.expr(&expr, 0));
    }

    /// Prints a use of a variable.
    pub(super) fn var(&mut self, var: &Var) {
        let name = self.names.var(var);
        if self.free.is_some() && self.here.insert(var.clone()) {
            let same = if self.bound.insert(var.clone()) { "" } else { "same " };
            let size = if var.is_size() { "size " } else { "" };
            let text = format!("var {same}{name}: {size}{}", var.dtype().short_name());
            self.free.iter_mut().for_each(|free| free.push(text.clone()));
        }
        self.push(&name);
    }

    /// Returns true if a variable is bound for the first time.
    pub(super) fn bind(&mut self, var: &Var) -> bool {
        self.here.insert(var.clone());
        self.bound.insert(var.clone())
    }

    /// Prints a variable where it gets its value; the type is printed if it is not `default`.
    pub(super) fn binder(&mut self, var: &Var, default: DataType) {
        let again = !self.bind(var);
        let name = self.names.var(var);
        if again {
            self.push("same ");
        }
        self.push(&name);
        if var.is_size() || var.dtype() != default {
            self.push(if var.is_size() { ": size " } else { ": " });
            self.push(&var.dtype().short_name());
        }
    }

    /// Prints the name of a buffer that is used. An undeclared buffer is declared before the
    /// statement if its pointer is bound, otherwise as free.
    pub(super) fn buffer(&mut self, buffer: &Buffer) {
        if self.free.is_some() && !self.buffers.contains(buffer) {
            let bound = self.here.contains(&buffer.data);
            let text = self.aside(|this| {
                this.push(if bound { "view " } else { "buffer " });
                this.buffer_name(buffer);
                this.push(": ");
                this.buffer_type(buffer);
                this.push(" = ");
                this.var(&buffer.data);
            });
            if bound {
                self.views.push(text);
            } else {
                self.free.iter_mut().for_each(|free| free.push(text.clone()));
            }
        }
        let name = self.names.buffer(buffer);
        self.push(&name);
    }

    /// Prints the name of a buffer that is declared.
    pub(super) fn buffer_name(&mut self, buffer: &Buffer) {
        self.buffers.insert(buffer.clone());
        let name = self.names.buffer(buffer);
        self.push(&name);
    }

    /// `f32[12, 32] @local strides [..] offset o align 64 factor 4`
    pub(super) fn buffer_type(&mut self, buffer: &Buffer) {
        self.buffer_type_with(buffer, |this, expr| this.expr(expr, 0));
    }

    pub(super) fn buffer_type_with(&mut self, buffer: &Buffer, mut extent: impl FnMut(&mut Self, &Expr)) {
        self.push(&buffer.dtype.short_name());
        self.push("[");
        self.list(buffer.shape.iter(), |this, expr| extent(this, &expr));
        self.push("]");
        if buffer.scope.as_str() != "global" {
            self.push(" @");
            self.push(&quoted(buffer.scope.as_str()));
        }
        if !buffer.strides.is_empty() {
            self.push(" strides [");
            self.list(buffer.strides.iter(), |this, expr| extent(this, &expr));
            self.push("]");
        }
        if !(buffer.elem_offset.is_int(0) && buffer.elem_offset.dtype() == I64) {
            self.push(" offset (");
            extent(self, &buffer.elem_offset);
            self.push(")");
        }
        if buffer.data_alignment != DEFAULT_ALIGNMENT {
            self.push(&format!(" align {}", buffer.data_alignment));
        }
        if buffer.offset_factor != 0 {
            self.push(&format!(" factor {}", buffer.offset_factor));
        }
    }

    pub(super) fn tensor(&mut self, tensor: &Tensor) {
        let (name, new) = self.names.tensor(tensor);
        if new && self.free.is_some() {
            let text = self.aside(|this| {
                this.push(&format!("tensor {name}: {}[", tensor.dtype.short_name()));
                this.exprs(&tensor.shape);
                this.push("]");
            });
            self.free.iter_mut().for_each(|free| free.push(text.clone()));
        }
        self.push(&name);
    }

    /// `0..n`, or `m..+n` for `n` values from `m`.
    pub(super) fn range(&mut self, min: &Expr, extent: &Expr) {
        if min.is_int(0) && min.dtype() == extent.dtype() {
            self.push("0..");
        } else {
            self.expr(min, 1);
            self.push("..+");
        }
        self.expr(extent, 1);
    }

    pub(super) fn region(&mut self, region: &Array<Range>) {
        self.push("[");
        self.list(region.iter(), |this, range| this.range(&range.min, &range.extent));
        self.push("]");
    }

    pub(super) fn iter_var(&mut self, axis: &IterVar) {
        self.push("axis ");
        self.binder(&axis.var, I64);
        self.push(match axis.kind {
            IterKind::DataPar => " data",
            IterKind::ThreadIndex => " thread",
            IterKind::CommReduce => " reduce",
            IterKind::Ordered => " ordered",
            IterKind::Opaque => " opaque",
        });
        if !axis.thread_tag.is_empty() {
            self.push(" ");
            self.push(&string(axis.thread_tag.as_str()));
        }
        if let Some(dom) = &axis.dom {
            self.push(" in ");
            self.range(&dom.min, &dom.extent);
        }
    }

    /// `reducer (x) (y) => (x + y) identity (0)`
    pub(super) fn reducer(&mut self, reducer: &Reducer) {
        self.push("reducer ");
        for side in [&reducer.lhs, &reducer.rhs] {
            self.push("(");
            self.list(side.iter(), |this, var| this.binder(&var, crate::ir::F32));
            self.push(") ");
        }
        self.push("=> (");
        self.exprs(&reducer.results);
        self.push(") identity (");
        self.exprs(&reducer.identity);
        self.push(")");
    }

    /// `#[key = value]` lines.
    pub(super) fn annotations(&mut self, map: &Map<Str, Any>) {
        for (key, value) in map.iter() {
            self.start_line();
            self.push("#[");
            self.push(&quoted(key.as_str()));
            self.push(" = ");
            self.any(&value);
            self.push("]");
            self.end_line();
        }
    }

    /// A value of any type.
    pub(super) fn any(&mut self, value: &Any) {
        match value.type_name().as_str() {
            "None" => self.push("none"),
            "bool" => {
                let value = value.to::<bool>().unwrap_or_default();
                self.push(if value { "true" } else { "false" });
            }
            "int" => {
                let value = value.to::<i64>().unwrap_or_default();
                self.push(&value.to_string());
            }
            "float" => {
                let value = value.to::<f64>().unwrap_or_default();
                self.push(&super::number::float(crate::ir::F64, value, true));
            }
            "str" => {
                let value = value.to::<String>().unwrap_or_default();
                self.push(&string(&value));
            }
            _ => with_stack(|| self.object(value)),
        }
    }

    fn object(&mut self, value: &Any) {
        if let Ok(dtype) = value.to::<DataType>() {
            self.push(&format!("dtype {}", dtype.short_name()));
        } else if let Ok(axis) = value.to::<IterVar>() {
            self.iter_var(&axis);
        } else if let Ok(expr) = value.to::<Expr>() {
            self.push("expr ");
            self.expr(&expr, 0);
        } else if let Ok(buffer) = value.to::<Buffer>() {
            self.push("buffer ");
            self.buffer(&buffer);
        } else if let Ok(tensor) = value.to::<Tensor>() {
            self.push("tensor ");
            self.tensor(&tensor);
        } else if let Ok(reducer) = value.to::<Reducer>() {
            self.reducer(&reducer);
        } else if let Ok(items) = value.to::<Array<Any>>() {
            self.push("[");
            self.list(items.iter(), |this, item| this.any(&item));
            self.push("]");
        } else if let Ok(map) = value.to::<Map<Str, Any>>() {
            self.push("{");
            self.list(map.iter(), |this, (key, item)| {
                this.push(&string(key.as_str()));
                this.push(": ");
                this.any(&item);
            });
            self.push("}");
        } else {
            // Objects of other types: their graph. Objects that cannot be serialized are
            // represented by their type.
            let json = kernpack::reflect::to_json(value).unwrap_or_else(|_| value.type_name());
            self.push("json ");
            self.push(&string(json.as_str()));
        }
    }
}
