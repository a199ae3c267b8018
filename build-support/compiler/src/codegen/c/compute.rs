//! The computing part of a packed function as a function of its own: `restrict` holds for parameters only, and the data pointers are known by then.

use super::body::{Body, Exit};
use crate::error::Result;
use crate::ir::{DataTypeExt, Stmt};

impl Body<'_> {
    /// Writes a scope as a function that takes what the scope uses, and the call.
    pub(super) fn compute_scope(&mut self, wanted: &str, body: &Stmt) -> Result<()> {
        let used = self.captured(&[], body);
        let symbol = self.unit.names.unique(wanted);
        let (mut params, mut args) = (Vec::new(), Vec::new());
        let locals = self.locals.clone();
        for (var, local) in &used {
            let ty = self.type_of(var, local)?;
            let restrict = self.noalias && var.dtype().is_handle();
            params.push(format!("{ty} {}const {}", if restrict { "KP_RESTRICT " } else { "" }, local.name));
            args.push(local.name.clone());
            if let Some(inner) = self.locals.get_mut(var) {
                inner.restrict |= restrict;
            }
        }
        let outer_exit = core::mem::replace(&mut self.exit, Exit::Status);
        let outer_indent = core::mem::replace(&mut self.indent, 1);
        let outer_hoisted = core::mem::take(&mut self.hoisted);
        let outer_function = core::mem::replace(&mut self.function, symbol.clone());
        let names = self.names.clone();
        let written = self.apart(|inner| inner.stmt(body));
        self.names = names;
        self.locals = locals;
        self.function = outer_function;
        let hoisted = core::mem::replace(&mut self.hoisted, outer_hoisted);
        self.indent = outer_indent;
        self.exit = outer_exit;
        let ((), lines) = written?;
        let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
        let lines: Vec<String> = hoisted.into_iter().chain(lines).collect();
        self.unit.functions.push_str(&format!(
            "static KP_NOINLINE int32_t {symbol}({params}) {{\n{}\n  return 0;\n}}\n\n",
            lines.join("\n")
        ));
        let call = format!("{symbol}({})", args.join(", "));
        self.line(match self.exit {
            Exit::Status => format!("if ({call} != 0) return -1;"),
            Exit::None => format!("(void){call};"),
        });
        Ok(())
    }
}
