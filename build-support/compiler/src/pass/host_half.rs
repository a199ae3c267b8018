//! The host's half of a module whose kernels run on a device: the functions that launch them, in
//! the form that `MakePackedAPI` expects.
//!
//! A kernel takes two arguments for each pointer: the data pointer of DLPack, which may be an
//! object without arithmetic, and the offset of the first element in bytes.

use std::collections::{HashMap, HashSet};

use kernpack::{Any, Str};

use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::builtin::HANDLE_ADD_BYTE_OFFSET;
use crate::ir::mutate::{Mutate, mutate_expr_parts, mutate_stmt_parts};
use crate::ir::{
    BufferNode, CallKind, DataTypeExt, Expr, ExprNode, FuncKind, I64, IrModule, LoweredFunc, LoweredFuncNode, Param,
    ParamNode, Stmt, StmtNode, Var,
};

/// Returns the functions of the host, without the kernels. Functions that launch kernels take
/// tensors of this kind of device, by its number in DLPack.
///
/// # Errors
/// Returns an error for a launch inside of a function that is a packed function already.
pub fn host_half(module: &IrModule, device_type: i64) -> Result<IrModule> {
    half(module, device_type, false)
}

/// Like [`host_half`], for versions of functions for a device: all functions take its tensors, also
/// those without kernels.
///
/// # Errors
/// Returns the errors of [`host_half`].
pub fn host_versions(module: &IrModule, device_type: i64) -> Result<IrModule> {
    half(module, device_type, true)
}

fn half(module: &IrModule, device_type: i64, of_device: bool) -> Result<IrModule> {
    let kernels: HashSet<Str> = module
        .functions
        .iter()
        .filter(|function| function.kind == FuncKind::Device)
        .map(|function| function.name.clone())
        .collect();
    let mut functions = Vec::new();
    for function in module.functions.iter().filter(|function| function.kind != FuncKind::Device) {
        functions.push(host_function(&function, &kernels, device_type, of_device)?);
    }
    let half = IrModule::new(functions);
    Ok(module.attrs.iter().fold(half, |half, (name, value)| half.with_attr(name.as_str(), value)))
}

fn host_function(
    function: &LoweredFunc,
    kernels: &HashSet<Str>,
    device_type: i64,
    of_device: bool,
) -> Result<LoweredFunc> {
    let mut offsets = HashMap::new();
    let params: Vec<Param> = function.params.iter().map(|param| with_offset(&param, &mut offsets)).collect();
    let mut launches = Launches { kernels, offsets, found: false };
    let body = launches.mutate_stmt(&function.body)?;
    if !launches.found && !of_device {
        return Ok(function.clone());
    }
    if function.kind != FuncKind::Mixed {
        let what = format!("function `{}` launches kernels, but it is a {:?} function", function.name, function.kind);
        return Err(CompileError::new(ErrorKind::Lower, what)
            .note("build the module before MakePackedAPI, which needs the kind of the device"));
    }
    let attrs = function.attrs.iter().filter(|(key, _)| key.as_str() != "device_type");
    Ok(LoweredFunc::from_node(LoweredFuncNode {
        params: params.into_iter().collect(),
        body,
        attrs: attrs.chain([("device_type".into(), Any::from(device_type))]).collect(),
        ..function.to_node()
    }))
}

/// A tensor parameter whose offset is a variable: `MakePackedAPI` binds it. The offset in bytes is
/// added to `offsets`; a buffer that has an offset already adds it to its indices.
fn with_offset(param: &Param, offsets: &mut HashMap<Var, Expr>) -> Param {
    let Some(buffer) = &param.buffer else { return param.clone() };
    if !buffer.elem_offset.is_int(0) {
        offsets.insert(buffer.data.clone(), Expr::int(0));
        return param.clone();
    }
    let offset = Var::new(format!("{}.elem_offset", buffer.name), I64);
    offsets.insert(buffer.data.clone(), offset.expr() * (buffer.dtype.size() as i64));
    let buffer = crate::ir::Buffer::from_node(BufferNode {
        elem_offset: offset.expr().clone(),
        offset_factor: 1,
        ..buffer.to_node()
    });
    Param::from_node(ParamNode { var: param.var.clone(), buffer: Some(buffer), output: param.output })
}

/// Adds offsets to the arguments of launches.
struct Launches<'a> {
    kernels: &'a HashSet<Str>,
    /// The offset in bytes of each pointer to memory of the device.
    offsets: HashMap<Var, Expr>,
    found: bool,
}

impl Launches<'_> {
    /// The block of a pointer to memory of the device, and the offset in it in bytes.
    fn place(&self, data: &Expr) -> Option<(Expr, Expr)> {
        if let Some(var) = Var::of(data) {
            return Some((data.clone(), self.offsets.get(&var)?.clone()));
        }
        let ExprNode::Call { kind: CallKind::Builtin, name, args, .. } = &**data else { return None };
        match (name.as_str(), &args.to_vec()[..]) {
            (HANDLE_ADD_BYTE_OFFSET, [pointer, bytes]) => {
                let (block, offset) = self.place(pointer)?;
                Some((block, offset + bytes.cast(I64)))
            }
            _ => None,
        }
    }
}

impl Mutate for Launches<'_> {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::Alloc { buffer, .. } if buffer.scope.as_str() == "global" => {
                self.offsets.insert(buffer.data.clone(), Expr::int(0));
            }
            // A view is in the block of its tensor.
            StmtNode::Alias { buffer, data } => {
                if let Some((block, offset)) = self.place(data) {
                    self.offsets.insert(buffer.data.clone(), offset);
                    return Ok(Stmt::from_node(StmtNode::Alias { buffer: buffer.clone(), data: block }));
                }
            }
            _ => {}
        }
        mutate_stmt_parts(self, stmt)
    }

    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        let ExprNode::Call { kind: CallKind::Packed, name, args, dtype } = &**expr else {
            return mutate_expr_parts(self, expr);
        };
        if !self.kernels.contains(name) {
            return mutate_expr_parts(self, expr);
        }
        self.found = true;
        let mut all = Vec::new();
        for arg in args.iter() {
            let is_pointer = arg.dtype().is_handle();
            let offset = Var::of(&arg).and_then(|var| self.offsets.get(&var).cloned());
            all.push(arg);
            if is_pointer {
                all.push(offset.unwrap_or_else(|| Expr::int(0)));
            }
        }
        Ok(Expr::call(CallKind::Packed, name.as_str(), *dtype, all))
    }
}
