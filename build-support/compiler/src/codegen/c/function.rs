//! Functions: parameters, linkage, and the order of the file.

use std::collections::HashSet;

use crate::codegen::RuntimeSymbols;
use crate::codegen::source::body::{Body, Exit, Local, Memory};
use crate::codegen::source::expr::is_void;
use crate::codegen::source::unit::Unit;
use crate::codegen::source::vocabulary::C;
use crate::error::{Result, fail};
use crate::ir::{CallKind, DataTypeExt, ExprNode, FuncKind, I32, IrModule, LoweredFunc, Stmt, StmtNode, visit};

/// The C file of a module.
pub(super) fn module(module: &IrModule, runtime: &RuntimeSymbols) -> Result<String> {
    let mut unit = Unit::new(&C);
    unit.symbols = runtime.clone();
    for function in module.functions.iter() {
        for_each_symbol(&function.body, |symbol| unit.names.reserve(symbol));
    }
    for function in module.functions.iter() {
        let symbol = symbol(&function)?;
        unit.names.reserve(&symbol);
        unit.callees.insert(function.name.as_str().to_owned(), symbol);
    }
    let mut prototypes = String::new();
    let mut written = String::new();
    for function in module.functions.iter() {
        let (head, text) = one(&mut unit, &function)?;
        prototypes.push_str(&format!("{head};\n"));
        written.push_str(&core::mem::take(&mut unit.functions));
        written.push_str(&text);
    }
    unit.functions = format!("{prototypes}\n{written}");
    Ok(unit.finish())
}

/// The C name of a function.
fn symbol(function: &LoweredFunc) -> Result<String> {
    let name = function.name.as_str();
    let symbol = match function.attr("global_symbol") {
        Some(symbol) => symbol.to::<kernpack::Str>()?.as_str().to_owned(),
        None if function.kind == FuncKind::Host => format!("__tvm_ffi_{name}"),
        None => name.to_owned(),
    };
    let valid = symbol.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && symbol.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if !valid {
        fail!(Target, "function `{name}` has the symbol `{symbol}`, which is not an identifier of C");
    }
    Ok(symbol)
}

/// Visits the symbols of C functions that a body calls: variables need other names.
fn for_each_symbol(body: &Stmt, mut found: impl FnMut(&str)) {
    visit::for_each_expr_in(body, |expr| {
        if let ExprNode::Call { kind: CallKind::Extern | CallKind::PureExtern, name, .. } = &**expr {
            found(name.as_str());
        }
    });
}

/// The head and the whole of one function; the definitions that it needs before it are in
/// `unit.functions`.
fn one(unit: &mut Unit, function: &LoweredFunc) -> Result<(String, String)> {
    let name = function.name.as_str();
    if function.kind == FuncKind::Device {
        fail!(Target, "`{name}` is a kernel of a device; C is code for the host");
    }
    let symbol = unit.callees[name].clone();
    let exit = if function.ret == I32 { Exit::Status } else { Exit::None };
    let ret = if is_void(function.ret) { "void".to_owned() } else { unit.value_type(function.ret)? };
    let noalias = function.attr("noalias").is_none_or(|value| value.to::<i64>().unwrap_or(1) != 0);
    let mut body = Body::new(unit, &symbol, noalias);
    body.exit = exit;
    let mut params = Vec::new();
    let mut pointers = HashSet::new();
    for param in function.params.iter() {
        match &param.buffer {
            // Before MakePackedAPI, a parameter is the tensor; here it is its data.
            Some(buffer) => {
                let memory = body.unit.memory_type(buffer.dtype)?;
                let restrict = noalias && pointers.insert(buffer.data.clone());
                let element = Some(Memory::private(buffer.dtype.element()));
                let local = body.define_as(&buffer.data, element, restrict);
                if param.var != buffer.data {
                    let alias = Local { name: local.clone(), memory: element, restrict: false };
                    body.locals.insert(param.var.clone(), alias);
                }
                params.push(format!("{memory}* {}const {local}", if restrict { "KP_RESTRICT " } else { "" }));
            }
            None => {
                body.index_facts.note_param(&param.var);
                let ty = body.unit.value_type(param.var.dtype())?;
                let restrict = noalias && function.kind == FuncKind::Internal && param.var.dtype().is_handle();
                let local = body.define_as(&param.var, None, restrict);
                params.push(format!("{ty} {}const {local}", if restrict { "KP_RESTRICT " } else { "" }));
            }
        }
    }
    let linkage = match (function.kind, function.attr("global_symbol").is_some()) {
        (FuncKind::Host, _) | (_, true) => "KERNPACK_EXTERN_C KERNPACK_EXPORT ",
        (FuncKind::Internal, false) => "static KERNPACK_UNUSED ",
        _ => "",
    };
    let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
    let head = format!("{linkage}{ret} {symbol}({params})");
    body.stmt(&function.body)?;
    let returns =
        matches!(function.body.to_stmts().last().map(|last| matches!(**last, StmtNode::Return { .. })), Some(true));
    let lines = core::mem::take(&mut body.lines);
    let ret = (!is_void(function.ret)).then_some(ret.as_str());
    let falls = exit == Exit::Status && !returns;
    let inside = body.finish(ret, lines, falls);
    Ok((head.clone(), format!("{head} {{\n{inside}}}\n\n")))
}
