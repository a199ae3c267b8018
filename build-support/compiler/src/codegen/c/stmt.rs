//! Statements that only the host has: workspaces, assertions, returned values, C source.

use kernpack::{Any, Array, Str};

use super::runtime::{FREE_WORKSPACE, RAISE};
use crate::codegen::source::body::{Body, Exit};
use crate::codegen::source::expr::{DONE, is_void};
use crate::codegen::source::literal;
use crate::codegen::source::stmt::is_builtin;
use crate::error::{Result, fail, require};
use crate::ir::builtin;
use crate::ir::{Expr, ExprNode, Stmt, Var};

impl Body<'_> {
    /// Writes an assertion.
    pub(crate) fn assert(&mut self, condition: &Expr, kind: &str, parts: &Array<Str>) -> Result<()> {
        require!(
            self.exit == Exit::Status,
            Target,
            "`{}` returns no status, so its assertions have no way to fail",
            self.function
        );
        let condition = self.statement_value(condition)?;
        let message: String = parts.iter().map(|part| part.as_str().to_owned()).collect();
        let (kind, message) = (literal::text(kind), literal::text(&message));
        let raise = self.unit.runtime(&RAISE);
        let leave = self.leave("-1");
        self.line(format!("if (!KP_LIKELY({condition})) {{ {raise}({kind}, {message}); {leave} }}"));
        Ok(())
    }

    /// Writes a call as a statement.
    pub(crate) fn host_evaluate(&mut self, value: &Expr) -> Result<()> {
        let text = self.statement_value(value)?;
        if let ExprNode::Call { args, .. } = &**value
            && is_builtin(value, builtin::FREE_WORKSPACE)
            && let Some(pointer) = args.get(2)
            && Var::of(&pointer).is_some()
        {
            let pointer = self.value(&pointer)?;
            self.line(format!("(void){text};"));
            self.line(format!("{pointer} = NULL;"));
        } else if text != DONE {
            self.line(if is_void(value.dtype()) { format!("{text};") } else { format!("(void){text};") });
        }
        Ok(())
    }

    /// Allocates a workspace, which is freed where the program frees it, or when the function ends
    /// earlier.
    pub(crate) fn workspace(&mut self, var: &Var, value: &Expr) -> Result<()> {
        let text = self.statement_value(value)?;
        let free = self.unit.runtime(&FREE_WORKSPACE);
        let name = self.define_as(var, None, true);
        let device = match &**value {
            ExprNode::Call { args, .. } => {
                [0, 1].map(|at| args.get(at).and_then(|arg| arg.as_int()).unwrap_or(1 - at as i64))
            }
            _ => [1, 0],
        };
        let give_back = format!("if ({name} != NULL) (void){free}({}, {}, {name});", device[0], device[1]);
        self.hoisted.push(format!("  void* {name} = NULL;"));
        // It is allocated again if an iteration has ended early.
        if self.in_loop > 0 {
            self.line(&give_back);
        }
        self.line(format!("{name} = {text};"));
        self.cleanup.push(give_back);
        Ok(())
    }

    /// Writes a body with an attribute.
    pub(crate) fn host_attr(&mut self, key: &str, node: &Any, value: &Expr, body: &Stmt) -> Result<()> {
        match (key, &**value) {
            ("thread_extent" | "virtual_thread", _) => {
                fail!(Target, "C has no threads of a device: `{key}` is left in `{}`", self.function)
            }
            ("pragma_import_c", ExprNode::Text { value }) => {
                let text = format!("{}\n", value.as_str());
                self.unit.functions.push_str(&text);
                self.stmt(body)
            }
            ("compute_scope", _) if !self.in_task => {
                let name = node.to::<Str>().map_or_else(|_| "compute".to_owned(), |name| name.as_str().to_owned());
                self.compute_scope(&name, body)
            }
            _ => self.block("{", |inner| inner.stmt(body)),
        }
    }
}
