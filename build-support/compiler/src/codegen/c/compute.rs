//! The computing part of a packed function as a separate function: `restrict` applies only to
//! parameters, and the data pointers are known at that point.

use super::body::{Body, Exit};
use crate::error::Result;
use crate::ir::{DataTypeExt, Stmt};

impl Body<'_> {
    /// Writes a scope as a function whose parameters are the variables that the scope uses, and the
    /// call.
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
}
