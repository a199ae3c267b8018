//! An inspection as text.

use std::fmt::Write;

use serde_json::Value;

use super::models;
use crate::library::inspection::Inspection;
use crate::library::loaded::Loaded;
use crate::library::signature;
use crate::library::tree::{Module, Tree};
use crate::text::{shown, size};

/// Modules at a greater depth are not indented further.
const DEEPEST: usize = 24;

pub(crate) fn write(file: &str, inspection: &Inspection<'_>) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = try_write(&mut out, file, inspection);
    out
}

fn try_write(out: &mut String, file: &str, inspection: &Inspection<'_>) -> std::fmt::Result {
    writeln!(out, "{}", shown(file))?;
    writeln!(out, "  made by {}, for {}, {}", inspection.maker, inspection.machine, size(inspection.size))?;
    if !inspection.needed.is_empty() {
        writeln!(out, "  needs {}", shown(&inspection.needed.join(", ")))?;
    }
    if !inspection.context_symbols.is_empty() {
        writeln!(out, "  calls back {}", shown(&inspection.context_symbols.join(", ")))?;
    }
    let loaded = inspection.loaded.as_ref();
    if let Some(problem) = loaded.and_then(|loaded| loaded.problem()) {
        writeln!(out, "  did not load: {}", shown(problem))?;
    }
    writeln!(out, "\nfunctions ({})", inspection.functions.len())?;
    for function in &inspection.functions {
        let signature = loaded.and_then(|loaded| signature::of_function(loaded.metadata(function.name)?));
        writeln!(out, "  {}{}", shown(function.name), shown(&signature.unwrap_or_default()))?;
        let doc = loaded.and_then(|loaded| loaded.doc(function.name)).unwrap_or_default();
        for line in doc.trim_end().lines() {
            writeln!(out, "      {}", shown(line))?;
        }
    }
    let described = inspection.functions.iter().any(|function| function.has_metadata || function.has_doc);
    if loaded.is_none() && described {
        writeln!(out, "  (signatures, documentation and types: --load, which runs code of the library)")?;
    }
    if let Some(loaded) = loaded {
        writeln!(out, "\ntypes ({})", loaded.types().len())?;
        for ty in loaded.types() {
            write_type(out, ty)?;
        }
        if !loaded.global_functions().is_empty() {
            writeln!(out, "\nglobal functions ({})", loaded.global_functions().len())?;
            for name in loaded.global_functions() {
                writeln!(out, "  {}", shown(name.as_str().unwrap_or_default()))?;
            }
        }
    }
    models::write(out, loaded.map(Loaded::models).unwrap_or_default())?;
    match &inspection.tree {
        Some(tree) => write_tree(out, tree),
        None => writeln!(out, "\nno import tree: the library is the only module"),
    }
}

fn write_type(out: &mut String, ty: &Value) -> std::fmt::Result {
    let text = |value: &Value, key: &str| shown(value.get(key).and_then(Value::as_str).unwrap_or_default());
    let parent = text(ty, "parent");
    let parent = if parent.is_empty() || parent == "ffi.Object" { String::new() } else { format!(" : {parent}") };
    writeln!(out, "  {}{parent}", text(ty, "key"))?;
    for line in ty.get("doc").and_then(Value::as_str).unwrap_or_default().trim_end().lines() {
        writeln!(out, "      {}", shown(line))?;
    }
    let list = |key: &str| ty.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let metadata = |value: &Value| value.get("metadata").and_then(Value::as_str).unwrap_or_default().to_owned();
    for field in list("fields") {
        let ty = signature::of_field(&metadata(field)).unwrap_or_else(|| "Any".to_owned());
        writeln!(out, "    {}: {}", text(field, "name"), shown(&ty))?;
    }
    for method in list("methods") {
        let signature = signature::of_function(&metadata(method)).unwrap_or_else(|| "(...)".to_owned());
        let name = text(method, "name");
        let is_setter = signature::schema_of_function(&metadata(method)).is_some_and(|schema| schema.is_setter);
        let note = match name.strip_prefix("set_").filter(|_| is_setter) {
            Some(attribute) => format!("  (sets {attribute})"),
            None => String::new(),
        };
        writeln!(out, "    {name}{}{note}", shown(&signature))?;
    }
    Ok(())
}

fn write_tree(out: &mut String, tree: &Tree<'_>) -> std::fmt::Result {
    writeln!(out, "\nimport tree ({} modules, {})", tree.modules.len(), size(tree.size))?;
    let mut written = vec![false; tree.modules.len()];
    // Modules without an importer come after the root's tree, so that none is left out.
    for start in 0..tree.modules.len() {
        let mut open = if written[start] { vec![] } else { vec![(start, 0)] };
        while let Some((index, depth)) = open.pop() {
            let module = &tree.modules[index];
            let indent = "  ".repeat(1 + depth.min(DEEPEST));
            if written[index] {
                writeln!(out, "{indent}{index} {} (shared, see above)", shown(module.kind))?;
                continue;
            }
            written[index] = true;
            write_module(out, &indent, index, module)?;
            open.extend(module.imports.iter().rev().map(|&child| (child, depth + 1)));
        }
    }
    Ok(())
}

fn write_module(out: &mut String, indent: &str, index: usize, module: &Module<'_>) -> std::fmt::Result {
    writeln!(out, "{indent}{index} {}", summary(module))?;
    if let Some(problem) = &module.problem {
        writeln!(out, "{indent}    cannot be read: {}", shown(problem))?;
    }
    for kernel in module.image.iter().flat_map(|image| image.kernels()) {
        let types: Vec<String> = kernel.arg_types.iter().map(|ty| arg_type(ty.code, ty.bits, ty.lanes)).collect();
        let launch = shown(&kernel.launch_params.join(", "));
        writeln!(out, "{indent}    kernel {}({}) over {launch}", shown(kernel.name), types.join(", "))?;
    }
    Ok(())
}

/// Formats a module as `cuda fatbin, 2.0 KiB: sm_80`.
pub(crate) fn summary(module: &Module<'_>) -> String {
    let Some(payload) = module.payload else { return "the library itself".to_owned() };
    let mut text = shown(module.kind);
    if let Some(image) = &module.image {
        text.push(' ');
        text.push_str(&shown(image.format()));
        let _ = write!(text, ", {} of code", size(image.code().len()));
    } else {
        let _ = write!(text, ", {}", size(payload.len()));
    }
    if let Some((kind, length)) = module.inside {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let _ = write!(text, ": {} of {}, compressed", shown(kind), size(length));
    }
    if !module.architectures.is_empty() {
        text.push_str(": ");
        text.push_str(&shown(&module.architectures.join(", ")));
    }
    text
}

/// Formats an argument type as `float32`, `int8x4`, `pointer`.
pub(crate) fn arg_type(code: u8, bits: u8, lanes: u16) -> String {
    let name = match code {
        0 => "int",
        1 => "uint",
        2 => "float",
        3 => return "pointer".to_owned(),
        4 => "bfloat",
        6 => return "bool".to_owned(),
        other => return format!("type{other}_{bits}x{lanes}"),
    };
    if lanes == 1 { format!("{name}{bits}") } else { format!("{name}{bits}x{lanes}") }
}
