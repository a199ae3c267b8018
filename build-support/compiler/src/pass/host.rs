//! The final passes before CPU code generation.

use kernpack::{Any, Array};

use super::{PassContext, lower_builtin, lower_intrin, make_packed_api};
use crate::codegen::Target;
use crate::error::{Result, with_reported};
use crate::ir::share::bind_shared;
use crate::ir::{FuncKind, IrModule, IrModuleNode, LoweredFunc};

/// Lowers functions for the host completely: packed functions, builtins and intrinsics become
/// operations that code generators support. Functions that are already lowered are unchanged.
///
/// # Errors
/// Returns the errors of the passes.
pub fn lower_for_host(module: &IrModule, target: &Target) -> Result<IrModule> {
    with_reported(|| lower_functions(module, target))
}

fn lower_functions(module: &IrModule, target: &Target) -> Result<IrModule> {
    let context = PassContext::default();
    let mut functions = Vec::new();
    for function in module.functions.iter() {
        if function.kind == FuncKind::Device {
            functions.push(function);
            continue;
        }
        let function = function.with_body(bind_shared(&function.body)?);
        let packed = make_packed_api::make_packed_api(&function, &context)?;
        let lowered = lower_builtin::lower_builtin(&packed, &context)?;
        functions.push(lower_intrin::lower_intrin(&lowered, target)?);
    }
    let functions: Array<LoweredFunc> = functions.into_iter().collect();
    let attrs: kernpack::Map<kernpack::Str, Any> = module.attrs.clone();
    Ok(IrModule::from_node(IrModuleNode { functions, attrs }))
}
