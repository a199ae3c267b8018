//! The functions of `kernels::typed`: a kernel's arguments with their names and types.

use super::docs;
use super::layout;
use super::names::{Identifiers, Names};
use crate::describe::signature::{Signature, Type};

/// The kind of kernel that a function calls.
pub(super) enum Of {
    Host,
    /// The launch sets the size of dynamic shared memory, if there is any.
    Device {
        dynamic_shared_memory: bool,
    },
}

/// Writes the function of one kernel. `about` describes the kernel in one sentence.
pub(super) fn function(out: &mut String, names: &Identifiers, of: &Of, doc: &str, about: &str, signature: &Signature) {
    let mut params = Names::default();
    let own: Vec<String> = signature.params.iter().map(|param| params.take(&param.name).item).collect();
    let mut text = docs::markdown(doc);
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(about);
    text.push_str("\n\n");
    let mut typed = Vec::new();
    let mut args = vec![format!("&super::{}", names.item)];
    if let Of::Device { dynamic_shared_memory } = of {
        let config = params.take("config").item;
        text.push_str(&format!("- `{config}`: `(grid, block)`, or a `LaunchConfig`"));
        if *dynamic_shared_memory {
            text.push_str(", whose `dynamic_shared_memory` says how many bytes the kernel uses");
        }
        text.push('\n');
        typed.push(format!("{config}: impl Into<LaunchConfig>"));
        args.push(config);
    }
    for (param, name) in signature.params.iter().zip(&own) {
        let written = if matches!(param.ty, Type::Tensor { written: true, .. }) { ", may be written to" } else { "" };
        text.push_str(&format!("- `{name}`: `{}`{written}\n", param.ty.shown()));
        typed.push(format!("{name}: {}", param.ty.rust(false)));
    }
    docs::comment(out, 8, text.trim_end());
    let (result, call) = match of {
        Of::Host => (signature.result.rust(true), "__k::call_kernel"),
        Of::Device { .. } => ("()", "__k::launch_kernel"),
    };
    let head = format!("pub fn {}", names.item);
    layout::function(out, 8, &head, &typed, &format!("Result<{result}>"));
    let values: Vec<String> = own.iter().map(|name| format!("__k::kernel_arg(&{name})")).collect();
    layout::array(out, 12, "let args = [", &values, "];");
    args.push("args".to_owned());
    layout::call(out, 12, call, &args);
    out.push_str("        }\n");
}
