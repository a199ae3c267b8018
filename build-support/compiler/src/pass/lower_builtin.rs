//! `LowerBuiltin`: stores the arguments of packed calls in memory, creates tensors for them, and
//! takes allocations from the workspace.

use kernpack::DataType;

use super::PassContext;
use super::tensor_data::{DEVICE_ID, DEVICE_TYPE};
use crate::error::{Result, fail, require};
use crate::ir::builtin::{self, StructField};
use crate::ir::mutate::{Mutate, mutate_expr_parts, mutate_stmt_parts};
use crate::ir::{
    Buffer, CallKind, DataTypeExt, Expr, ExprNode, F64, FuncKind, I32, I64, LoweredFunc, POINTER, Stmt, StmtNode, U8,
    U16, U64, Var,
};

/// Allocations of constant size below this number of bytes stay on the stack.
pub(crate) const STACK_BYTES: i64 = 1024;
/// The same limit for allocations of scope `local`; the threads of a pool have small stacks.
const LOCAL_BYTES: i64 = 128 * 1024;

/// The attribute of a function whose packed functions are linked: the prefix of their C symbols,
/// which their names follow. Without it, they are looked up by name.
pub const LINKED_CALLS: &str = "linked_calls";

/// Lowers packed calls, their tensors and allocations of a function to memory operations.
///
/// Memory whose extent is not a constant, memory of scope `global` of 1024 bytes or more, and
/// memory of scope `local` of 128 KiB or more comes from the workspace of the thread; a null
/// pointer ends the function with the error that was raised. The memory is freed at the end of its
/// body; code generators free it where the function ends earlier.
///
/// # Errors
/// Returns an error for a packed call in a place that is not always evaluated.
pub fn lower_builtin(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    if function.kind == FuncKind::Device {
        return Ok(function.clone());
    }
    let linked = function.attr(LINKED_CALLS).and_then(|prefix| prefix.to().ok());
    let mut lower = LowerBuiltin { linked, ..LowerBuiltin::default() };
    let body = lower.body(&function.body)?;
    Ok(function.with_body(body))
}

#[derive(Default)]
struct LowerBuiltin {
    /// The statements to insert before the current statement.
    before: Vec<Stmt>,
    /// True if the current expression is not always evaluated.
    is_lazy: bool,
    /// The kind and the index of the device of temporary memory; none for the CPU.
    device: [Option<Expr>; 2],
    /// The prefix of the C symbols of packed functions, if they are linked.
    linked: Option<String>,
}

fn number(value: i64) -> Expr {
    Expr::constant(I32, value)
}

fn set(pointer: &Expr, index: i64, field: StructField, value: Expr) -> Stmt {
    let args = [pointer.clone(), number(index), number(field as i64), value];
    Stmt::evaluate(Expr::builtin(builtin::STRUCT_SET, I32, args))
}

/// The type index and the payload of a value in an FFI value.
fn as_any(value: &Expr) -> Result<(Expr, Expr)> {
    let dtype = value.dtype();
    require!(dtype.is_scalar(), Lower, "a packed function takes no vectors, got {}", dtype.short_name());
    Ok(if dtype.is_bool() {
        (number(2), value.cast(I64))
    } else if dtype.is_integer() {
        (number(1), value.cast(I64))
    } else if dtype.is_float() {
        (number(3), value.cast(F64))
    } else {
        match &**value {
            ExprNode::Text { .. } => (number(8), value.clone()),
            ExprNode::Call { name, .. } if name.as_str() == builtin::MAKE_TENSOR => (number(7), value.clone()),
            // A null pointer is None.
            _ => {
                let is_null = Expr::builtin(builtin::ISNULLPTR, crate::ir::BOOLEAN, [value.clone()]);
                (Expr::select(is_null, number(0), number(4)), value.clone())
            }
        }
    })
}

impl LowerBuiltin {
    /// Lowers a body: its allocations are freed at its end.
    fn body(&mut self, body: &Stmt) -> Result<Stmt> {
        let mut stmts = Vec::new();
        let mut workspaces = Vec::new();
        for stmt in body.to_stmts() {
            if let StmtNode::Alloc { buffer, .. } = &*stmt {
                if self.needs_workspace(buffer) {
                    stmts.extend(self.workspace(buffer));
                    workspaces.push(buffer.data.clone());
                } else {
                    stmts.push(stmt.clone());
                }
                continue;
            }
            let lowered = self.mutate_stmt(&stmt)?;
            stmts.append(&mut self.before);
            stmts.push(lowered);
        }
        for data in workspaces.into_iter().rev() {
            let [kind, id] = self.device();
            let args = [kind, id, data.expr().clone()];
            stmts.push(Stmt::evaluate(Expr::builtin(builtin::FREE_WORKSPACE, I32, args)));
        }
        Ok(Stmt::seq(stmts))
    }

    fn workspace(&self, buffer: &Buffer) -> Vec<Stmt> {
        let lanes = (buffer.dtype.lane_bytes() * usize::from(buffer.dtype.lanes())) as i64;
        let bytes = buffer.shape.iter().fold(Expr::int(lanes), |bytes, extent| bytes * extent.cast(I64));
        let dtype = buffer.dtype.as_raw();
        let [kind, id] = self.device();
        let args = [kind, id, bytes.max(1).cast(U64), number(i64::from(dtype.code)), number(i64::from(dtype.bits))];
        let taken = Expr::builtin(builtin::ALLOC_WORKSPACE, POINTER, args);
        let is_null = Expr::builtin(builtin::ISNULLPTR, crate::ir::BOOLEAN, [buffer.data.expr().clone()]);
        let fail = Stmt::evaluate(Expr::builtin(builtin::THROW_LAST_ERROR, I32, []));
        vec![Stmt::bind(buffer.data.clone(), taken), Stmt::if_then(is_null, fail, None)]
    }

    /// The kind and the index of the device of temporary memory.
    fn device(&self) -> [Expr; 2] {
        let [kind, id] = &self.device;
        [kind.clone().unwrap_or_else(|| number(1)), id.clone().unwrap_or_else(|| number(0))]
    }

    /// Returns true if an allocation is too large for the stack, of unknown size, or memory of a
    /// device.
    fn needs_workspace(&self, buffer: &Buffer) -> bool {
        let is_global = buffer.scope.as_str().split('.').next() == Some("global");
        self.device[0].is_some() && is_global || needs_workspace(buffer)
    }

    /// Binds a value before the current statement.
    fn bind(&mut self, name: &str, value: Expr) -> Expr {
        let var = Var::new(name, value.dtype());
        self.before.push(Stmt::bind(var.clone(), value));
        var.into()
    }

    fn packed(&mut self, name: &str, args: &[Expr], dtype: DataType) -> Result<Expr> {
        require!(
            !self.is_lazy,
            Lower,
            "the packed function `{name}` is called in a part of an expression that is not always evaluated: bind its value first"
        );
        let mut values = Vec::new();
        for arg in args {
            let (index, value) = as_any(arg)?;
            values.push((index, self.mutate_expr(&value)?));
        }
        let count = args.len() as i64;
        let size = [Expr::text("any"), number(count + 1)];
        let stack = self.bind("stack", Expr::builtin(builtin::STACK_ALLOCA, POINTER, size));
        for (slot, (index, value)) in values.into_iter().enumerate() {
            let slot = slot as i64;
            self.before.push(set(&stack, slot, StructField::AnyTypeIndex, index));
            self.before.push(set(&stack, slot, StructField::AnyPadding, number(0)));
            self.before.push(set(&stack, slot, StructField::AnyValue, value));
        }
        let (kind, callee) = match &self.linked {
            Some(prefix) => (builtin::CALL_CPACKED_LOWERED, Expr::text(&format!("{prefix}{name}"))),
            None => (builtin::CALL_PACKED_LOWERED, Expr::text(name)),
        };
        Ok(Expr::builtin(kind, dtype, [callee, stack, number(0), number(count)]))
    }

    /// Creates a `DLTensor` on the stack.
    fn tensor(&mut self, args: &[Expr]) -> Result<Expr> {
        let (Some(load), true) = (args.first(), args.len() >= 2 && args.len().is_multiple_of(2)) else {
            fail!(Lower, "make_tensor takes a load, a number, extents and strides")
        };
        let ExprNode::Load { buffer, .. } = &**load else { fail!(Lower, "make_tensor takes a load") };
        let rank = (args.len() - 2) / 2;
        let mut sizes = Vec::new();
        for arg in &args[2..] {
            sizes.push(self.mutate_expr(arg)?.cast(I64));
        }
        let first = Expr::builtin(builtin::ADDRESS_OF, POINTER, [self.mutate_expr(load)?]);
        let alloca =
            |kind: &str, count: i64| Expr::builtin(builtin::STACK_ALLOCA, POINTER, [Expr::text(kind), number(count)]);
        let tensor = self.bind("tensor", alloca("array", 1));
        let shape = self.bind("shape", alloca("shape", (2 * rank) as i64));
        for (index, size) in sizes.into_iter().enumerate() {
            self.before.push(set(&shape, index as i64, StructField::Int64Element, size));
        }
        let strides = Expr::builtin(builtin::HANDLE_ADD_BYTE_OFFSET, POINTER, [shape.clone(), number(8 * rank as i64)]);
        let dtype = buffer.dtype.as_raw();
        let fields = [
            (StructField::Data, first),
            (StructField::DeviceType, number(1)),
            (StructField::DeviceId, number(0)),
            (StructField::Ndim, number(rank as i64)),
            (StructField::TypeCode, Expr::constant(U8, i64::from(dtype.code))),
            (StructField::TypeBits, Expr::constant(U8, i64::from(dtype.bits))),
            (StructField::TypeLanes, Expr::constant(U16, i64::from(dtype.lanes))),
            (StructField::Shape, shape),
            (StructField::Strides, strides),
            (StructField::ByteOffset, Expr::constant(U64, 0)),
        ];
        for (field, value) in fields {
            self.before.push(set(&tensor, 0, field, value));
        }
        Ok(tensor)
    }

    fn lazily(&mut self, expr: &Expr) -> Result<Expr> {
        let outer = core::mem::replace(&mut self.is_lazy, true);
        let lowered = self.mutate_expr(expr);
        self.is_lazy = outer;
        lowered
    }
}

/// Returns true if an allocation is too large for the stack, or of unknown size.
fn needs_workspace(buffer: &Buffer) -> bool {
    // Memory that is intended for registers stays on the stack while it fits there.
    let most = match buffer.scope.as_str().split('.').next() {
        Some("global") => STACK_BYTES,
        Some("local") => LOCAL_BYTES,
        _ => return false,
    };
    let lanes = (buffer.dtype.lane_bytes() * usize::from(buffer.dtype.lanes())) as i64;
    let bytes = buffer.shape.iter().try_fold(lanes, |bytes, extent| Some(bytes.saturating_mul(extent.as_int()?)));
    bytes.is_none_or(|bytes| bytes >= most)
}

impl Mutate for LowerBuiltin {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        match &**expr {
            ExprNode::IfThenElse { condition, then_value, else_value } => {
                let condition = self.mutate_expr(condition)?;
                let (then_value, else_value) = (self.lazily(then_value)?, self.lazily(else_value)?);
                Ok(Expr::from_node(ExprNode::IfThenElse { condition, then_value, else_value }))
            }
            ExprNode::Let { .. } => {
                let outer = core::mem::replace(&mut self.is_lazy, true);
                let lowered = mutate_expr_parts(self, expr);
                self.is_lazy = outer;
                lowered
            }
            ExprNode::Call { kind: CallKind::Packed, name, args, dtype } => {
                let call = self.packed(name.as_str(), &args.to_vec(), *dtype)?;
                Ok(if dtype.lanes() == 0 { call } else { self.bind("returned", call) })
            }
            ExprNode::Call { kind: CallKind::Builtin, name, args, dtype } => match name.as_str() {
                builtin::CALL_PACKED => {
                    let args = args.to_vec();
                    let Some(ExprNode::Text { value: callee }) = args.first().map(|name| &**name) else {
                        fail!(Lower, "call_packed takes the name of a function first")
                    };
                    let call = self.packed(callee.as_str(), &args[1..], *dtype)?;
                    Ok(if dtype.lanes() == 0 { call } else { self.bind("returned", call) })
                }
                builtin::MAKE_TENSOR => self.tensor(&args.to_vec()),
                _ => mutate_expr_parts(self, expr),
            },
            _ => mutate_expr_parts(self, expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::Seq { .. } => self.body(stmt),
            StmtNode::For { var, min, extent, kind, annotations, body } => {
                let (min, extent) = (self.mutate_expr(min)?, self.mutate_expr(extent)?);
                let before = core::mem::take(&mut self.before);
                let body = crate::ir::with_stack(|| self.body(body))?;
                self.before = before;
                Ok(Stmt::for_with(var.clone(), min, extent, *kind, annotations.clone(), body))
            }
            StmtNode::If { condition, then_body, else_body } => {
                let condition = self.mutate_expr(condition)?;
                let before = core::mem::take(&mut self.before);
                let then_body = crate::ir::with_stack(|| self.body(then_body))?;
                let else_body = else_body.as_ref().map(|body| self.body(body)).transpose()?;
                self.before = before;
                Ok(Stmt::if_then(condition, then_body, else_body))
            }
            StmtNode::While { condition, body } => {
                // Evaluated before each iteration: no statement can be inserted before it.
                let condition = self.lazily(condition)?;
                let before = core::mem::take(&mut self.before);
                let body = crate::ir::with_stack(|| self.body(body))?;
                self.before = before;
                Ok(Stmt::from_node(StmtNode::While { condition, body }))
            }
            StmtNode::Attr { key, value, body, .. } if matches!(key.as_str(), DEVICE_TYPE | DEVICE_ID) => {
                let place = usize::from(key.as_str() == DEVICE_ID);
                let outer = self.device[place].replace(value.clone());
                let body = self.body(body);
                self.device[place] = outer;
                body
            }
            StmtNode::Attr { key, node, value, body } => {
                let value = self.mutate_expr(value)?;
                let before = core::mem::take(&mut self.before);
                let body = crate::ir::with_stack(|| self.body(body))?;
                self.before = before;
                Ok(Stmt::from_node(StmtNode::Attr { key: key.clone(), node: node.clone(), value, body }))
            }
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}
