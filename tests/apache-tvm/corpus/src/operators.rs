//! Calls of operators.

use kernpack_compiler::Result;
use kernpack_compiler::ir::{CallKind, Expr, I64, builtin};

use crate::graph::{Graph, problem};

/// The intrinsics of the corpus, by their numbers in the package's LLVM.
const INTRINSICS: &[(i64, &str)] = &[
    (16, "llvm.assume"),
    (70, "llvm.cos"),
    (72, "llvm.ctlz"),
    (73, "llvm.ctpop"),
    (95, "llvm.exp"),
    (178, "llvm.fabs"),
    (180, "llvm.floor"),
    (182, "llvm.fmuladd"),
    (226, "llvm.log"),
    (295, "llvm.pow"),
    (297, "llvm.prefetch"),
    (338, "llvm.sin"),
    (348, "llvm.sqrt"),
];

/// Operators that are builtins of Kernpack with the same arguments.
const BUILTINS: &[(&str, &str)] = &[
    ("tirx.isnullptr", builtin::ISNULLPTR),
    ("tirx.tvm_struct_get", builtin::STRUCT_GET),
    ("tirx.tvm_struct_set", builtin::STRUCT_SET),
    ("tirx.reinterpret", builtin::REINTERPRET),
    ("tirx.handle_add_byte_offset", builtin::HANDLE_ADD_BYTE_OFFSET),
    ("tirx.address_of", builtin::ADDRESS_OF),
    ("tirx.tvm_stack_alloca", builtin::STACK_ALLOCA),
    ("tirx.tvm_call_packed_lowered", builtin::CALL_PACKED_LOWERED),
    ("tirx.tvm_call_trace_packed_lowered", builtin::CALL_TRACE_PACKED_LOWERED),
    ("tirx.tvm_throw_last_error", builtin::THROW_LAST_ERROR),
    ("tirx.TVMBackendAllocWorkspace", builtin::ALLOC_WORKSPACE),
    ("tirx.TVMBackendFreeWorkspace", builtin::FREE_WORKSPACE),
    ("tirx.tvm_static_handle", builtin::STATIC_HANDLE),
    ("tirx.break_loop", builtin::BREAK_LOOP),
    ("tirx.continue_loop", builtin::CONTINUE_LOOP),
    ("tirx.assume", builtin::ASSUME),
];

/// Operators that are C functions of the same name.
const FUNCTIONS: &[(&str, &str)] = &[
    ("tirx.TVMBackendAnyListSetPackedArg", "TVMBackendAnyListSetPackedArg"),
    ("tirx.TVMBackendAnyListMoveFromPackedReturn", "TVMBackendAnyListMoveFromPackedReturn"),
    ("tirx.TVMBackendAnyListResetItem", "TVMBackendAnyListResetItem"),
];

fn found<'a>(table: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    table.iter().find(|(known, _)| *known == name).map(|(_, ours)| *ours)
}

impl Graph<'_> {
    /// A call.
    pub(crate) fn call(&mut self, index: usize) -> Result<Expr> {
        let op = self.field(index, "op")?;
        let list = self.field(index, "args")?;
        let dtype = self.type_of(index)?;
        match self.key(op)? {
            "ir.GlobalVar" => {
                let name = self.text(op)?;
                return Ok(Expr::call(CallKind::Function, &name, dtype, self.exprs(list)?));
            }
            "ir.Op" => {}
            key => return Err(problem(format!("a call of a {key}"))),
        }
        let name = self.text(op)?;
        if name == "tirx.buffer_data" {
            let buffer = self.array(list)?.first().copied().ok_or_else(|| problem("buffer_data of nothing"))?;
            return Ok(self.var(buffer)?.into());
        }
        let args = self.exprs(list)?;
        if let Some(ours) = found(BUILTINS, &name) {
            return Ok(Expr::builtin(ours, dtype, args));
        }
        if let Some(symbol) = found(FUNCTIONS, &name) {
            return Ok(Expr::call(CallKind::Extern, symbol, dtype, args));
        }
        let first_text = || match args.first().map(|first| &**first) {
            Some(kernpack_compiler::ir::ExprNode::Text { value }) => Ok(value.as_str().to_owned()),
            _ => Err(problem(format!("{name} without a name"))),
        };
        match name.as_str() {
            "prim.if_then_else" => match args.as_slice() {
                [condition, a, b] => Ok(Expr::from_node(kernpack_compiler::ir::ExprNode::IfThenElse {
                    condition: condition.clone(),
                    then_value: a.clone(),
                    else_value: b.clone(),
                })),
                _ => Err(problem("if_then_else takes three arguments")),
            },
            "tirx.call_extern" => Ok(Expr::call(CallKind::Extern, &first_text()?, dtype, args[1..].to_vec())),
            "tirx.call_pure_extern" => Ok(Expr::call(CallKind::PureExtern, &first_text()?, dtype, args[1..].to_vec())),
            "tirx.tvm_call_cpacked_lowered" => {
                let symbol = format!("__tvm_ffi_{}", first_text()?);
                let mut rest = args;
                rest[0] = Expr::text(&symbol);
                rest.truncate(4);
                Ok(Expr::builtin(builtin::CALL_CPACKED_LOWERED, dtype, rest))
            }
            "tirx.call_llvm_pure_intrin" | "tirx.call_llvm_intrin" => {
                let number = args.first().and_then(|number| number.as_int()).unwrap_or(-1);
                let Some((_, intrinsic)) = INTRINSICS.iter().find(|(known, _)| *known == number) else {
                    return Err(problem(format!("unknown intrinsic number {number}")));
                };
                match *intrinsic {
                    "llvm.assume" => Ok(Expr::builtin(builtin::ASSUME, dtype, args[1..].to_vec())),
                    "llvm.prefetch" => Ok(Expr::builtin(builtin::PREFETCH, I64, args[1..].to_vec())),
                    _ => Ok(Expr::call(CallKind::LlvmIntrinsic, intrinsic, dtype, args[1..].to_vec())),
                }
            }
            _ => Err(problem(format!("unknown operator {name}"))),
        }
    }
}
