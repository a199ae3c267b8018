//! Statements. A body is a block, so that the declarations of a `Bind` or an `Alloc` end with it.

use super::body::{Body, Memory, Space};
use crate::error::{Result, fail};
use crate::ir::builtin::{self, Effect};
use crate::ir::visit::has_part;
use crate::ir::{Buffer, CallKind, DataType, DataTypeExt, Expr, ExprNode, ForKind, Stmt, StmtNode, Var, with_stack};

impl Body<'_> {
    /// Writes a statement.
    pub(crate) fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        with_stack(|| self.stmt_node(stmt))
    }

    fn stmt_node(&mut self, stmt: &Stmt) -> Result<()> {
        let (language, is_host) = (self.unit.words.name, self.unit.words.is_host);
        match &**stmt {
            StmtNode::Seq { stmts } => stmts.iter().try_for_each(|stmt| self.stmt(&stmt)),
            StmtNode::For { var, min, extent, kind: ForKind::Parallel, annotations, body }
                if is_host && !self.in_task =>
            {
                self.index_facts.note_loop(var, min, extent);
                let interleaved = annotations.get("parallel_stride_pattern").is_some();
                self.parallel(var, min, extent, interleaved, body)
            }
            StmtNode::For { var, min, extent, kind, body, .. } => self.serial(var, min, extent, *kind, body),
            StmtNode::Store { buffer, index, value, mask } => {
                self.note_order(&[value, index]);
                self.store(buffer, index, value, mask.as_ref())
            }
            StmtNode::Alloc { buffer, .. } => self.alloc(buffer),
            StmtNode::Alias { buffer, data } => self.alias(&buffer.data, Some(buffer.dtype.element()), data),
            StmtNode::Bind { var, value } if is_host && is_builtin(value, builtin::ALLOC_WORKSPACE) => {
                self.workspace(var, value)
            }
            StmtNode::Bind { var, value } if var.dtype().is_handle() && !is_host => self.alias(var, None, value),
            StmtNode::Bind { var, value } => {
                let text = self.statement_value(value)?;
                self.let_value(var, value, &text)
            }
            StmtNode::Attr { key, node, value, body } if is_host => self.host_attr(key.as_str(), node, value, body),
            StmtNode::Attr { key, body, .. } => match key.as_str() {
                "thread_extent" => {
                    fail!(Lower, "threads are left in kernel `{}`: run SplitHostDevice first", self.function)
                }
                "virtual_thread" => {
                    fail!(
                        Lower,
                        "virtual threads are left in kernel `{}`: run InjectVirtualThread first",
                        self.function
                    )
                }
                "reduce_scope" => fail!(
                    Lower,
                    "a reduction across threads is left in kernel `{}`: run LowerThreadAllreduce first",
                    self.function
                ),
                "pragma_import_c" => fail!(Target, "{language} does not include C source: `pragma_import_c`"),
                _ => self.block("{", |inner| inner.stmt(body)),
            },
            StmtNode::Assert { condition, kind, parts } if is_host => self.assert(condition, kind.as_str(), parts),
            StmtNode::Assert { kind, parts, .. } => {
                let message: String = parts.iter().map(|part| part.as_str().to_owned()).collect();
                fail!(
                    Target,
                    "{language}: kernel `{}` cannot raise an error, but it has the assertion `{}: {message}`",
                    self.function,
                    kind.as_str()
                )
            }
            StmtNode::If { condition, then_body, else_body } => {
                let text = self.guard(condition)?;
                self.line(format!("if {} {{", self.condition(&text)));
                self.indented(|body| body.stmt(then_body))?;
                if let Some(else_body) = else_body {
                    self.line("} else {");
                    self.indented(|body| body.stmt(else_body))?;
                }
                self.line("}");
                Ok(())
            }
            StmtNode::Evaluate { value } if matches!(**value, ExprNode::Int { .. } | ExprNode::Float { .. }) => Ok(()),
            StmtNode::Evaluate { value } if is_host => self.host_evaluate(value),
            StmtNode::Evaluate { value } => self.evaluate(value),
            StmtNode::While { condition, body } => self.block("for (;;) {", |inner| {
                let text = inner.guard(condition)?;
                inner.line(format!("if (!{}) break;", inner.condition(&text)));
                inner.looped(body)
            }),
            StmtNode::Return { value } if is_host => {
                let text = self.statement_value(value)?;
                let leave = self.leave(&text);
                self.line(leave);
                Ok(())
            }
            StmtNode::Return { .. } => {
                self.line("return;");
                Ok(())
            }
            StmtNode::TensorWrite { tensor, .. } => {
                fail!(Lower, "{language}: a write of tensor `{}` is left: run StorageFlatten first", tensor.op.name())
            }
            StmtNode::Realize { tensor, .. } | StmtNode::Prefetch { tensor, .. } => {
                fail!(Lower, "{language}: memory for tensor `{}` is left: run StorageFlatten first", tensor.op.name())
            }
        }
    }

    /// Notes whether expressions of a statement have to run in order. Those of kernels change no
    /// memory.
    pub(crate) fn note_order(&mut self, exprs: &[&Expr]) {
        self.ordered = self.unit.words.is_host && exprs.iter().any(|expr| has_part(expr, changes_memory));
    }

    /// Writes the value of a statement.
    pub(crate) fn statement_value(&mut self, value: &Expr) -> Result<String> {
        self.note_order(&[value]);
        self.value(value)
    }

    /// Writes a condition of sizes and indices. A `likely` has no meaning on a device.
    fn guard(&mut self, condition: &Expr) -> Result<String> {
        self.note_order(&[condition]);
        match self.unit.words.is_host {
            true => self.index(condition),
            false => self.index(&condition.without_likely().0),
        }
    }

    /// Writes the body of a loop.
    fn looped(&mut self, body: &Stmt) -> Result<()> {
        self.in_loop += 1;
        let written = self.stmt(body);
        self.in_loop -= 1;
        written
    }

    fn serial(&mut self, var: &Var, min: &Expr, extent: &Expr, kind: ForKind, body: &Stmt) -> Result<()> {
        let is_host = self.unit.words.is_host;
        match kind {
            ForKind::ThreadBinding if is_host => {
                fail!(Target, "C has no threads of a device: loop `{}` is bound to one", var.name())
            }
            ForKind::ThreadBinding => {
                fail!(
                    Lower,
                    "loop `{}` of kernel `{}` is bound to a thread: run SplitHostDevice first",
                    var.name(),
                    self.function
                )
            }
            ForKind::Vectorized if !is_host => {
                fail!(
                    Lower,
                    "loop `{}` of kernel `{}` is vectorized: run VectorizeLoop first",
                    var.name(),
                    self.function
                )
            }
            _ => {}
        }
        self.note_order(&[min, extent]);
        self.index_facts.note_loop(var, min, extent);
        let first = self.index(min)?;
        let end = if min.is_int(0) { extent.clone() } else { min + extent };
        let mut last = self.index(&end)?;
        if end.as_int().is_none() && Var::of(&end).is_none() {
            last = self.bind(&format!("{}_end", var.name()), end.dtype(), &last)?;
        }
        let ty = self.unit.value_type(var.dtype())?;
        match extent.as_int().filter(|_| kind == ForKind::Unrolled) {
            Some(count @ 2..=65534) if is_host => {
                self.lines.push(format!("#if defined(__GNUC__)\n#pragma GCC unroll {count}\n#endif"));
            }
            Some(2..=1024) if !is_host => self.line("#pragma unroll"),
            _ => {}
        }
        let name = self.define(var, None);
        self.block(&format!("for ({ty} {name} = {first}; {name} < {last}; ++{name}) {{"), |inner| inner.looped(body))
    }

    /// Declares memory. That of a block is declared at the beginning of the kernel.
    fn alloc(&mut self, buffer: &Buffer) -> Result<()> {
        let is_host = self.unit.words.is_host;
        let space = match buffer.scope.as_str().split('.').next().unwrap_or_default() {
            "shared" if !is_host => Space::Shared,
            "" | "local" | "global" => Space::Private,
            "warp" if !is_host => fail!(
                Lower,
                "`{}` is in memory of a warp in kernel `{}`: run LowerWarpMemory first",
                buffer.name.as_str(),
                self.function
            ),
            _ => fail!(
                Target,
                "{} has no memory of scope `{}` for `{}`",
                self.unit.words.name,
                buffer.scope.as_str(),
                buffer.name.as_str()
            ),
        };
        let mut count = i64::from(buffer.dtype.lanes());
        for extent in buffer.shape.iter() {
            let Some(extent) = extent.as_int() else {
                if is_host {
                    fail!(
                        Lower,
                        "C: the extents of `{}` are not constant: run LowerBuiltin first, which takes its memory from the workspace",
                        buffer.name.as_str()
                    )
                }
                fail!(
                    Target,
                    "{}: the extent `{extent}` of `{}` in kernel `{}` is not a constant: split by constants",
                    self.unit.words.name,
                    buffer.name.as_str(),
                    self.function
                )
            };
            count = count.saturating_mul(extent.max(0));
        }
        let element = buffer.dtype.element();
        let ty = self.unit.memory_type(element)?;
        let name = self.define_as(&buffer.data, Some(Memory { space, element, is_const: false }), true);
        let declaration = format!("{ty} {name}[{}];", count.max(1));
        if is_host {
            self.line(format!("KP_ALIGN({}) {declaration}", buffer.data_alignment.max(1)));
        } else if space == Space::Shared {
            let word = self.unit.words.shared;
            self.hoisted.push(format!("  {word}{declaration}"));
        } else {
            self.line(declaration);
        }
        Ok(())
    }

    /// Declares another pointer to memory; `element`: the type of its elements, or that of the
    /// other pointer's.
    pub(crate) fn alias(&mut self, var: &Var, element: Option<DataType>, data: &Expr) -> Result<()> {
        let (text, memory) = self.address(data)?;
        let memory = Memory { element: element.unwrap_or(memory.element), ..memory };
        let ty = self.pointer_type(memory)?;
        let name = self.define(var, Some(memory));
        self.line(format!("{ty} const {name} = ({ty}){text};"));
        Ok(())
    }

    /// A pointer, with its memory.
    fn address(&mut self, data: &Expr) -> Result<(String, Memory)> {
        if self.unit.words.is_host {
            return Ok((self.statement_value(data)?, Memory::private(crate::ir::U8)));
        }
        if let Some(var) = Var::of(data) {
            return self.memory(&var);
        }
        let ExprNode::Call { kind: CallKind::Builtin, name, args, .. } = &**data else {
            fail!(Target, "{}: `{data}` is not a pointer of kernel `{}`", self.unit.words.name, self.function)
        };
        match (name.as_str(), &args.to_vec()[..]) {
            (builtin::ADDRESS_OF, [load]) => {
                let ExprNode::Load { buffer, index, .. } = &**load else { fail!(Type, "`address_of` takes a load") };
                let (_, memory) = self.memory(&buffer.data)?;
                Ok((self.first_address(buffer, index)?, Memory { element: buffer.dtype.element(), ..memory }))
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

    /// The address of the first element of an index.
    pub(crate) fn first_address(&mut self, buffer: &Buffer, index: &Expr) -> Result<String> {
        let pointer = self.pointer(buffer)?;
        let first = match &**index {
            ExprNode::Ramp { base, .. } => base,
            _ => index,
        };
        Ok(format!("({})", self.element_address(&pointer, first, buffer.dtype.lanes())?))
    }

    fn evaluate(&mut self, value: &Expr) -> Result<()> {
        let (name, args) = match &**value {
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
            "warp" if !words.has_vectors() => "__syncwarp()",
            "warp" => fail!(
                Target,
                "{} has no barrier of a warp, in kernel `{}`: lower with the option `warp_size` = 1",
                words.name,
                self.function
            ),
            _ => fail!(Target, "{} has no barrier of scope `{scope}`", words.name),
        };
        self.line(format!("{text};"));
        Ok(())
    }
}

/// Returns true for a call of a builtin.
pub(crate) fn is_builtin(expr: &Expr, wanted: &str) -> bool {
    matches!(&**expr, ExprNode::Call { kind: CallKind::Builtin, name, .. } if name.as_str() == wanted)
}

/// Returns true if a node may change memory, so that the surrounding expressions have to run in
/// order.
pub(crate) fn changes_memory(part: &Expr) -> bool {
    matches!(&**part, ExprNode::Call { kind, name, .. } if builtin::effect(*kind, name.as_str()) >= Effect::Updates)
}
