//! Statements. A body is a block, so that the declarations of a `Bind` or an `Alloc` end with it.

use super::body::{Body, Memory, Space, condition};
use crate::error::{Result, fail};
use crate::ir::builtin::{self, Effect};
use crate::ir::{Buffer, CallKind, DataType, DataTypeExt, Expr, ExprNode, ForKind, Stmt, StmtNode, Var, with_stack};

impl Body<'_> {
    /// Writes a statement.
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        with_stack(|| self.stmt_node(stmt))
    }

    fn stmt_node(&mut self, stmt: &Stmt) -> Result<()> {
        let language = self.unit.words.name;
        match &**stmt {
            StmtNode::Seq { stmts } => stmts.iter().try_for_each(|stmt| self.stmt(&stmt)),
            StmtNode::For { var, min, extent, kind, body, .. } => self.serial(var, min, extent, *kind, body),
            StmtNode::Store { buffer, index, value, mask } => self.store(buffer, index, value, mask.as_ref()),
            StmtNode::Alloc { buffer, .. } => self.alloc(buffer),
            StmtNode::Alias { buffer, data } => self.alias(&buffer.data, Some(buffer.dtype.element()), data),
            StmtNode::Bind { var, value } => self.let_value(var, value),
            StmtNode::Attr { key, body, .. } => match key.as_str() {
                "thread_extent" => {
                    fail!(Lower, "threads are left in kernel `{}`: run SplitHostDevice first", self.kernel)
                }
                "virtual_thread" => {
                    fail!(Lower, "virtual threads are left in kernel `{}`: run InjectVirtualThread first", self.kernel)
                }
                "reduce_scope" => fail!(
                    Lower,
                    "a reduction across threads is left in kernel `{}`: run LowerThreadAllreduce first",
                    self.kernel
                ),
                "pragma_import_c" => fail!(Target, "{language} does not include C source: `pragma_import_c`"),
                _ => self.block("{", |inner| inner.stmt(body)),
            },
            StmtNode::Assert { kind, parts, .. } => {
                let message: String = parts.iter().map(|part| part.as_str().to_owned()).collect();
                fail!(
                    Target,
                    "{language}: kernel `{}` cannot raise an error, but it has the assertion `{}: {message}`",
                    self.kernel,
                    kind.as_str()
                )
            }
            StmtNode::If { condition: guard, then_body, else_body } => {
                let text = self.guard(guard)?;
                self.line(format!("if {} {{", condition(&text)));
                self.indented(|body| body.stmt(then_body))?;
                if let Some(else_body) = else_body {
                    self.line("} else {");
                    self.indented(|body| body.stmt(else_body))?;
                }
                self.line("}");
                Ok(())
            }
            StmtNode::Evaluate { value } => self.evaluate(value),
            StmtNode::While { condition: guard, body } => self.block("for (;;) {", |inner| {
                let text = inner.guard(guard)?;
                inner.line(format!("if (!{}) break;", condition(&text)));
                inner.stmt(body)
            }),
            StmtNode::Return { .. } => {
                self.line("return;");
                Ok(())
            }
            StmtNode::TensorWrite { tensor, .. } => {
                fail!(Lower, "a write of tensor `{}` is left: run StorageFlatten first", tensor.op.name())
            }
            StmtNode::Realize { tensor, .. } | StmtNode::Prefetch { tensor, .. } => {
                fail!(Lower, "memory for tensor `{}` is left: run StorageFlatten first", tensor.op.name())
            }
        }
    }

    /// Writes a condition. A `likely` has no meaning here.
    fn guard(&mut self, condition: &Expr) -> Result<String> {
        self.index(&condition.without_likely().0)
    }

    fn serial(&mut self, var: &Var, min: &Expr, extent: &Expr, kind: ForKind, body: &Stmt) -> Result<()> {
        match kind {
            ForKind::ThreadBinding => {
                fail!(
                    Lower,
                    "loop `{}` of kernel `{}` is bound to a thread: run SplitHostDevice first",
                    var.name(),
                    self.kernel
                )
            }
            ForKind::Vectorized => {
                fail!(Lower, "loop `{}` of kernel `{}` is vectorized: run VectorizeLoop first", var.name(), self.kernel)
            }
            ForKind::Serial | ForKind::Parallel | ForKind::Unrolled => {}
        }
        self.index_facts.note_loop(var, min, extent);
        let first = self.index(min)?;
        let end = if min.is_int(0) { extent.clone() } else { min + extent };
        let mut last = self.index(&end)?;
        if end.as_int().is_none() && Var::of(&end).is_none() {
            last = self.bind(&format!("{}_end", var.name()), end.dtype(), &last)?;
        }
        let ty = self.unit.value_type(var.dtype())?;
        if kind == ForKind::Unrolled && extent.as_int().is_some_and(|count| (2..=1024).contains(&count)) {
            self.line("#pragma unroll");
        }
        let name = self.define(var, None);
        self.block(&format!("for ({ty} {name} = {first}; {name} < {last}; ++{name}) {{"), |inner| inner.stmt(body))
    }

    /// Declares memory. That of a block is declared at the beginning of the kernel.
    fn alloc(&mut self, buffer: &Buffer) -> Result<()> {
        let space = match buffer.scope.as_str().split('.').next().unwrap_or_default() {
            "shared" => Space::Shared,
            "" | "local" | "global" => Space::Private,
            "warp" => fail!(
                Lower,
                "`{}` is in memory of a warp in kernel `{}`: run LowerWarpMemory first",
                buffer.name.as_str(),
                self.kernel
            ),
            scope => fail!(
                Target,
                "{} has no memory of scope `{scope}` for `{}`",
                self.unit.words.name,
                buffer.name.as_str()
            ),
        };
        let mut count = i64::from(buffer.dtype.lanes());
        for extent in buffer.shape.iter() {
            let Some(extent) = extent.as_int() else {
                fail!(
                    Target,
                    "{}: the extent `{extent}` of `{}` in kernel `{}` is not a constant: split by constants",
                    self.unit.words.name,
                    buffer.name.as_str(),
                    self.kernel
                )
            };
            count = count.saturating_mul(extent.max(0));
        }
        let element = buffer.dtype.element();
        let ty = self.unit.memory_type(element)?;
        let name = self.define(&buffer.data, Some(Memory { space, element, is_const: false }));
        let declaration = format!("{ty} {name}[{}];", count.max(1));
        if space == Space::Shared {
            let word = self.unit.words.shared;
            self.hoisted.push(format!("  {word}{declaration}"));
        } else {
            self.line(declaration);
        }
        Ok(())
    }

    /// Declares another pointer to memory; `element`: the type of its elements, or that of the
    /// other pointer's.
    pub(super) fn alias(&mut self, var: &Var, element: Option<DataType>, data: &Expr) -> Result<()> {
        let (text, memory) = self.address(data)?;
        let memory = Memory { element: element.unwrap_or(memory.element), ..memory };
        let ty = self.pointer_type(memory)?;
        let name = self.define(var, Some(memory));
        self.line(format!("{ty} const {name} = ({ty}){text};"));
        Ok(())
    }

    /// A pointer, with its memory.
    fn address(&mut self, data: &Expr) -> Result<(String, Memory)> {
        if let Some(var) = Var::of(data) {
            return self.memory(&var);
        }
        let ExprNode::Call { kind: CallKind::Builtin, name, args, .. } = &**data else {
            fail!(Target, "{}: `{data}` is not a pointer of kernel `{}`", self.unit.words.name, self.kernel)
        };
        match (name.as_str(), &args.to_vec()[..]) {
            (builtin::ADDRESS_OF, [load]) => {
                let ExprNode::Load { buffer, index, .. } = &**load else { fail!(Type, "`address_of` takes a load") };
                let (_, memory) = self.memory(&buffer.data)?;
                let pointer = self.pointer(buffer)?;
                let first = match &**index {
                    ExprNode::Ramp { base, .. } => base.clone(),
                    _ => index.clone(),
                };
                let index = self.index(&first)?;
                let lanes = buffer.dtype.lanes();
                let scale = if lanes > 1 { format!(" * {lanes}") } else { String::new() };
                Ok((format!("({pointer} + {index}{scale})"), Memory { element: buffer.dtype.element(), ..memory }))
            }
            (builtin::HANDLE_ADD_BYTE_OFFSET, [pointer, bytes]) => {
                let (text, memory) = self.address(pointer)?;
                let byte = Memory { element: crate::ir::U8, ..memory };
                let (ty, bytes) = (self.pointer_type(byte)?, self.index(bytes)?);
                Ok((format!("(({ty}){text} + {bytes})"), byte))
            }
            (other, _) => fail!(Target, "{} has no pointer from `{other}`", self.unit.words.name),
        }
    }

    fn evaluate(&mut self, value: &Expr) -> Result<()> {
        let (name, args) = match &**value {
            ExprNode::Int { .. } | ExprNode::Float { .. } => return Ok(()),
            ExprNode::Call { kind: CallKind::Builtin, name, args, .. } => (name.as_str().to_owned(), args.to_vec()),
            _ => (String::new(), Vec::new()),
        };
        match name.as_str() {
            builtin::ASSUME | builtin::PREFETCH => Ok(()),
            builtin::STORAGE_SYNC => self.barrier(args.first()),
            builtin::BREAK_LOOP => {
                self.line("break;");
                Ok(())
            }
            builtin::CONTINUE_LOOP => {
                self.line("continue;");
                Ok(())
            }
            _ if builtin::effect_of_builtin(&name) == Some(Effect::Pure) => Ok(()),
            _ => {
                let text = self.value(value)?;
                self.line(format!("{text};"));
                Ok(())
            }
        }
    }

    /// Writes a barrier of the threads that share memory of a scope.
    fn barrier(&mut self, scope: Option<&Expr>) -> Result<()> {
        let scope = match scope.map(|scope| &**scope) {
            Some(ExprNode::Text { value }) => value.as_str(),
            _ => "",
        };
        let words = self.unit.words;
        let text = match scope {
            "shared" if self.orders_global => words.full_barrier,
            "shared" => words.barrier,
            "warp" if !words.has_vectors => "__syncwarp()",
            "warp" => fail!(
                Target,
                "{} has no barrier of a warp, in kernel `{}`: lower with the option `warp_size` = 1",
                words.name,
                self.kernel
            ),
            _ => fail!(Target, "{} has no barrier of scope `{scope}`", words.name),
        };
        self.line(format!("{text};"));
        Ok(())
    }
}
