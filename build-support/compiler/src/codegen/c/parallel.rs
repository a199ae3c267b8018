//! Parallel loops: the body becomes a function for one part of the iterations, which the thread
//! pool of the host calls for each part.

use std::collections::HashSet;

use super::runtime::LAUNCH;
use crate::codegen::source::body::{Body, Exit, Local};
use crate::error::Result;
use crate::ir::visit::{Visit, walk_expr, walk_stmt};
use crate::ir::{DataTypeExt, Expr, ExprNode, Stmt, StmtNode, Var};

impl Body<'_> {
    /// Writes the task as a separate function, and the launch.
    pub(crate) fn parallel(
        &mut self,
        var: &Var,
        min: &Expr,
        extent: &Expr,
        interleaved: bool,
        body: &Stmt,
    ) -> Result<()> {
        let used = self.captured(&[min, extent], body);
        let aliased = used.iter().any(|(var, local)| var.dtype().is_handle() && !local.restrict);
        self.unit.group();
        let launcher = self.unit.runtime(&LAUNCH);
        let task = self.unit.names.unique(&format!("{}_task", self.function));
        let data = self.unit.names.unique(&format!("{}_data", self.function));

        let mut fields = Vec::new();
        for (var, local) in &used {
            fields.push((self.type_of(var, local)?, local.clone()));
        }
        let mut structure = "typedef struct { ".to_owned();
        for (ty, local) in &fields {
            structure.push_str(&format!("{ty} {}; ", local.name));
        }
        structure.push_str(if fields.is_empty() { "char none; " } else { "" });
        self.unit.functions.push_str(&format!("{structure}}} {data};\n"));

        let text = self.task(&task, &data, &fields, aliased, (var, min, extent), interleaved, body)?;
        self.unit.functions.push_str(&text);

        let values: Vec<&str> = fields.iter().map(|(_, local)| local.name.as_str()).collect();
        let values = if values.is_empty() { "0".to_owned() } else { values.join(", ") };
        let count = self.index(extent)?;
        let exit = self.exit;
        self.block(&format!("if ({count} > 0) {{"), |inner| {
            let name = inner.names.unique("data");
            inner.line(format!("{data} {name} = {{{values}}};"));
            let launch = format!("{launcher}({task}, &{name}, 0)");
            inner.line(match exit {
                Exit::Status => format!("if ({launch} != 0) {}", inner.leave("-1")),
                Exit::None => format!("(void){launch};"),
            });
            Ok(())
        })
    }

    /// The function of a task: unpacks the captured variables, and runs its share of the
    /// iterations.
    #[expect(clippy::too_many_arguments, reason = "the parts of one loop")]
    fn task(
        &mut self,
        task: &str,
        data: &str,
        fields: &[(String, Local)],
        aliased: bool,
        (var, min, extent): (&Var, &Expr, &Expr),
        interleaved: bool,
        body: &Stmt,
    ) -> Result<String> {
        let names = self.names.clone();
        for name in ["task_id", "group", "data_", "count", "step", "begin", "end"] {
            self.names.reserve(name);
        }
        self.in_task = true;
        let inside = self.nested(task, |inner| {
            for (ty, local) in fields {
                let pointer = ty.strip_suffix('*').filter(|_| local.restrict && !aliased);
                let name = &local.name;
                inner.line(match pointer {
                    Some(element) => format!("{element}* KP_RESTRICT const {name} = ((const {data}*)data_)->{name};"),
                    None => format!("{ty} const {name} = ((const {data}*)data_)->{name};"),
                });
            }
            let ty = inner.unit.value_type(var.dtype())?;
            let (first, count) = (inner.index(min)?, inner.index(extent)?);
            let zero = min.is_int(0);
            inner.line(format!("{ty} const count = {count};"));
            let name = inner.names.unique(var.name());
            inner.locals.insert(var.clone(), Local { name: name.clone(), memory: None, restrict: false });
            let shift = if zero { String::new() } else { format!("{first} + ") };
            let head = if interleaved {
                format!("for ({ty} {name} = {shift}task_id; {name} < {shift}count; {name} += group->num_task) {{")
            } else {
                inner.line(format!("{ty} const step = (count + group->num_task - 1) / group->num_task;"));
                inner.line(format!("{ty} const begin = task_id * step < count ? task_id * step : count;"));
                inner.line(format!("{ty} const end = begin + step < count ? begin + step : count;"));
                format!("for ({ty} {name} = {shift}begin; {name} < {shift}end; ++{name}) {{")
            };
            inner.block(&head, |inner| inner.stmt(body))
        });
        self.in_task = false;
        self.names = names;
        Ok(format!("static int {task}(int task_id, kp_group* group, void* data_) {{\n{}}}\n\n", inside?))
    }

    /// The C type of a variable, for a field.
    pub(super) fn type_of(&mut self, var: &Var, local: &Local) -> Result<String> {
        match local.memory {
            Some(memory) => Ok(format!("{}*", self.unit.memory_type(memory.element)?)),
            None => self.unit.value_type(var.dtype()),
        }
    }

    /// The variables of the function that expressions and a statement use, in the order of their
    /// first use.
    pub(super) fn captured(&self, exprs: &[&Expr], body: &Stmt) -> Vec<(Var, Local)> {
        let mut uses = Uses::default();
        exprs.iter().for_each(|expr| uses.visit_expr(expr));
        uses.visit_stmt(body);
        uses.order.into_iter().filter_map(|var| self.locals.get(&var).cloned().map(|local| (var, local))).collect()
    }
}

/// Variables in the order of their first use.
#[derive(Default)]
struct Uses {
    seen: HashSet<Var>,
    order: Vec<Var>,
}

impl Uses {
    fn note(&mut self, var: &Var) {
        if self.seen.insert(var.clone()) {
            self.order.push(var.clone());
        }
    }
}

impl Visit for Uses {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Var { .. } => {
                if let Some(var) = Var::of(expr) {
                    self.note(&var);
                }
            }
            ExprNode::Load { buffer, .. } => self.note(&buffer.data),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let StmtNode::Store { buffer, .. } = &**stmt {
            self.note(&buffer.data);
        }
        walk_stmt(self, stmt);
    }
}
