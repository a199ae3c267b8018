//! An inspection as JSON. The crate's README describes it.

use serde_json::{Value, json};

use crate::inspect::report;
use crate::library::inspection::Inspection;
use crate::library::signature;
use crate::library::tree::{Module, Tree};

pub(crate) fn write(file: &str, inspection: &Inspection<'_>) -> String {
    let loaded = inspection.loaded.as_ref();
    let functions = inspection.functions.iter().map(|function| {
        let metadata = loaded.and_then(|loaded| loaded.metadata(function.name));
        json!({
            "name": function.name,
            "has_metadata": function.has_metadata,
            "has_doc": function.has_doc,
            "signature": metadata.and_then(signature::of_function),
            "metadata": metadata,
            "doc": loaded.and_then(|loaded| loaded.doc(function.name)),
        })
    });
    let value = json!({
        "schema": 1,
        "file": file,
        "size": inspection.size,
        "machine": inspection.machine,
        "made_by": inspection.maker,
        "needs": inspection.needed,
        "context_symbols": inspection.context_symbols,
        "functions": functions.collect::<Vec<_>>(),
        "import_tree": inspection.tree.as_ref().map(tree),
        "loaded": loaded.map(|loaded| json!({
            "problem": loaded.problem(),
            "models": loaded.models(),
            "types": loaded.types(),
            "global_functions": loaded.global_functions(),
        })),
    });
    format!("{value:#}\n")
}

fn tree(tree: &Tree<'_>) -> Value {
    json!({ "size": tree.size, "modules": tree.modules.iter().map(module).collect::<Vec<_>>() })
}

fn module(module: &Module<'_>) -> Value {
    let image = module.image.as_ref().map(|image| {
        let kernels = image.kernels().iter().map(|kernel| {
            let types = kernel.arg_types.iter().map(|ty| report::arg_type(ty.code, ty.bits, ty.lanes));
            json!({
                "name": kernel.name,
                "arguments": types.collect::<Vec<_>>(),
                "launch_parameters": kernel.launch_params,
            })
        });
        json!({
            "format": image.format(),
            "size": image.code().len(),
            "architectures": module.architectures,
            "kernels": kernels.collect::<Vec<_>>(),
        })
    });
    json!({
        "kind": module.kind,
        "size": module.payload.map(<[u8]>::len),
        "imports": module.imports,
        "image": image,
        "inside": module.inside.map(|(kind, size)| json!({ "kind": kind, "size": size })),
        "problem": module.problem,
    })
}
