//! Messages: the problem, its statement, and the values of variables.

use std::collections::HashSet;

use super::code::{Origin, Reg, Value};
use super::number;
use crate::error::{CompileError, ErrorKind};
use crate::ir::{DataTypeExt, Expr, Stmt, StmtNode, Var, visit};
use crate::text::headline;

/// The variables of a statement's own expressions, not those of its bodies, in order.
fn variables(stmt: &Stmt) -> Vec<Var> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    let mut look = |expr: &Expr| {
        visit::for_each_expr(expr, |part| {
            if let Some(var) = Var::of(part)
                && seen.insert(var.clone())
            {
                found.push(var);
            }
        });
    };
    match &**stmt {
        StmtNode::For { min, extent, .. } => {
            look(min);
            look(extent);
        }
        StmtNode::Store { index, value, mask, .. } => {
            look(index);
            look(value);
            mask.iter().for_each(look);
        }
        StmtNode::Alloc { buffer, .. } => buffer.shape.iter().for_each(|extent| look(&extent)),
        StmtNode::Alias { data: value, .. }
        | StmtNode::Bind { value, .. }
        | StmtNode::Attr { value, .. }
        | StmtNode::Assert { condition: value, .. }
        | StmtNode::If { condition: value, .. }
        | StmtNode::Evaluate { value }
        | StmtNode::While { condition: value, .. }
        | StmtNode::Return { value } => look(value),
        StmtNode::Seq { .. } | StmtNode::TensorWrite { .. } | StmtNode::Realize { .. } | StmtNode::Prefetch { .. } => {}
    }
    found
}

fn show(value: &Value, var: &Var) -> Option<String> {
    let dtype = var.dtype().element();
    if dtype.is_handle() {
        return None;
    }
    let text = match value {
        Value::Unset => return None,
        Value::One(bits) => number::show(dtype, *bits),
        Value::Many(lanes) => {
            let lanes: Vec<String> = lanes.iter().map(|bits| number::show(dtype, *bits)).collect();
            format!("[{}]", lanes.join(", "))
        }
    };
    Some(format!("{} = {text}", var.name()))
}

/// The error of a fault in a statement, with the registers of the frame that ran it.
pub(super) fn error(what: impl Into<String>, origin: &Origin, registers: &[Value]) -> CompileError {
    let mut error = CompileError::new(ErrorKind::Run, what);
    let Some(stmt) = &origin.stmt else {
        return error.note(format!("in function `{}`", origin.function));
    };
    error = error.note(format!("in `{}` of function `{}`", headline(stmt), origin.function));
    let wanted: HashSet<Var> = variables(stmt).into_iter().collect();
    let mut values = Vec::new();
    let mut at = origin.visible.clone();
    while let Some(visible) = at {
        let reg: Reg = visible.reg;
        if wanted.contains(&visible.var)
            && let Some(text) = registers.get(reg).and_then(|value| show(value, &visible.var))
        {
            values.push(text);
        }
        at = visible.outer.clone();
    }
    values.reverse();
    if values.is_empty() { error } else { error.note(format!("with {}", values.join(", "))) }
}
