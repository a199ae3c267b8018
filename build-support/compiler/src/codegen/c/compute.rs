//! The computing part of a packed function as a separate function: `restrict` applies only to
//! parameters, and the data pointers are known at that point.

use crate::codegen::source::body::{Body, Exit};
use crate::error::Result;
use crate::ir::{DataTypeExt, Stmt};

impl Body<'_> {
    /// Writes a scope as a function whose parameters are the variables that the scope uses, and the
    /// call.
    pub(crate) fn compute_scope(&mut self, wanted: &str, body: &Stmt) -> Result<()> {
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
        let inside = self.nested(&symbol, |inner| inner.stmt(body));
        self.locals = locals;
        let inside = inside?;
        let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
        self.unit.functions.push_str(&format!("static KP_NOINLINE int32_t {symbol}({params}) {{\n{inside}}}\n\n"));
        let call = format!("{symbol}({})", args.join(", "));
        self.line(match self.exit {
            Exit::Status => format!("if ({call} != 0) {}", self.leave("-1")),
            Exit::None => format!("(void){call};"),
        });
        Ok(())
    }

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
}
