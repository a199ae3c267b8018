//! Kernels that run on devices.

use std::fmt::Write as _;

use kernpack_formats::device_image::{ArgType, DeviceFunction};

use super::cpu::element;
use super::names::Identifiers;
use super::{DeviceKernel, Parts, State, docs, layout, typed};
use crate::cuda::ptx::PtxKernel;
use crate::describe::Description;
use crate::describe::signature::Signature;
use crate::describe::symbols::PREFIX;

pub(super) fn write(
    parts: &mut Parts,
    names: &Identifiers,
    kernel: &DeviceKernel<'_>,
    description: Option<&Description>,
) {
    let Identifiers { item, base } = names;
    let doc = description.map_or("", |description| description.doc.as_str());
    let signature = description.map(|description| &description.signature);
    let about = format!("`{}`, {} from {}.", docs::quoted(kernel.name), kernel.kind[1], kernel.source);

    let mut text = docs::markdown(doc);
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&about);
    text.push_str("\n\n");
    let mut call_doc = about;
    match &kernel.state {
        State::Built(built) => text.push_str(&launch_doc(item, built, signature.and_then(|known| known.as_ref().ok()))),
        State::NotBuilt(_) => {
            text.push_str("It was not compiled: calling it is an error that says why.\n");
            call_doc.push_str(" It was not compiled: calling it is an error that says why.");
        }
    }
    match signature {
        Some(Ok(signature)) => {
            let dynamic_shared_memory = matches!(kernel.state, State::Built(built) if built.dynamic_shared_memory);
            let of = typed::Of::Device { dynamic_shared_memory };
            let _ = write!(text, "\nAs a function: [`typed::{item}`].");
            typed::function(&mut parts.typed, names, &of, doc, &call_doc, signature);
            parts.typed.push('\n');
        }
        other => {
            let why = other.and_then(|signature| signature.as_ref().err());
            let why = why.map_or("its declaration was not found in its source", String::as_str);
            let _ = write!(
                text,
                "\nIt is not a function of `typed`: {why}. A line `kernpack: {}(..)` in the comment before it declares what it takes, \
                 or `.signature(..)` in build.rs.",
                docs::quoted(kernel.name)
            );
        }
    }
    docs::comment(&mut parts.items, 4, text.trim_end());
    layout::assignment(
        &mut parts.items,
        4,
        &format!("pub static {item}: DeviceKernel"),
        &format!("{base}_parts::KERNEL"),
    );
    parts.items.push('\n');
    hidden(&mut parts.hidden, names, kernel, doc, signature.and_then(|signature| signature.as_ref().ok()));
}

/// Writes the items that the runtime and other languages look up.
fn hidden(out: &mut String, names: &Identifiers, kernel: &DeviceKernel<'_>, doc: &str, signature: Option<&Signature>) {
    let Identifiers { item, base } = names;
    let name = kernel.name;
    let _ = write!(
        out,
        "    mod {base}_parts {{
        use super::super::__kernpack::__private_v0_1 as __k;
        use super::super::__kernpack::{{DeviceKernel, ImageStatus}};

        use super::{item} as kernel;

        static INFO: __k::DeviceKernelInfo = __k::DeviceKernelInfo {{
"
    );
    layout::text_field(out, 12, "name", name);
    layout::text_field(out, 12, "kind", kernel.kind[0]);
    match &kernel.state {
        State::Built(_) => out.push_str("            status: ImageStatus::Built,\n"),
        State::NotBuilt(why) => {
            let _ =
                writeln!(out, "            status: ImageStatus::NotBuilt(\n                {why:?},\n            ),");
        }
    }
    layout::text_field(out, 12, "doc", doc);
    let built = match &kernel.state {
        State::Built(built) => Some(*built),
        State::NotBuilt(_) => None,
    };
    let texts = |texts: Vec<String>| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>();
    let params = signature.map_or(&[][..], |signature| &signature.params);
    let arg_types = built.map_or(&[][..], |built| &built.arg_types);
    let launch = built.map_or(Vec::new(), |built| {
        let entry = DeviceFunction::new(&built.name, built.arg_types.clone(), built.dynamic_shared_memory);
        entry.launch_params.iter().map(|tag| (*tag).to_owned()).collect()
    });
    layout::array(out, 12, "arg_names: &[", &texts(params.iter().map(|param| param.name.clone()).collect()), "],");
    layout::array(out, 12, "arg_types: &[", &arg_types.iter().map(arg_type).collect::<Vec<_>>(), "],");
    let elements = params.iter().map(|param| element(&param.ty).to_owned()).collect();
    layout::array(out, 12, "elements: &[", &texts(elements), "],");
    layout::array(out, 12, "launch_params: &[", &texts(launch), "],");
    let _ = write!(
        out,
        r#"        }};

        pub(super) const KERNEL: DeviceKernel = DeviceKernel::new(&INFO);

        // Other languages find the kernel under its name in the library itself.
        __k::entry_point!({symbol:?} call = call_device_kernel(&kernel));
"#,
        symbol = format!("{PREFIX}{name}"),
    );
    if !doc.is_empty() {
        super::text_symbol(out, &format!("{PREFIX}_doc_{name}"), "doc", "kernel_doc(INFO.doc)");
    }
    if built.is_some() {
        let call = "device_kernel_metadata(&kernel)";
        super::text_symbol(out, &format!("{PREFIX}_metadata_{name}"), "metadata", call);
    }
    super::claim(out, name, kernel.source);
    out.push_str("    }\n\n");
}

/// The documentation of how to launch a kernel.
fn launch_doc(item: &str, kernel: &PtxKernel, signature: Option<&Signature>) -> String {
    let names = signature.map(|signature| signature.params.iter().map(|param| param.name.clone()).collect::<Vec<_>>());
    let names = names.filter(|names| names.len() == kernel.arg_types.len());
    let named = names.is_some();
    let names = names.unwrap_or_else(|| (0..kernel.arg_types.len()).map(|index| format!("a{index}")).collect());
    let types = kernel.arg_types.iter().zip(&names).map(|(ty, name)| match named {
        true => format!("`{name}` ({})", type_name(*ty)),
        false => type_name(*ty),
    });
    let types: Vec<String> = types.collect();
    let args = if let [name] = &names[..] { format!("{name},") } else { names.join(", ") };
    let (call, more) = if kernel.dynamic_shared_memory {
        (
            format!("kernels::{item}.launch_with(&config, ({args}))?"),
            "It uses dynamic shared memory: set `dynamic_shared_memory` in `let config = LaunchConfig { .. }`.\n",
        )
    } else {
        (format!("kernels::{item}.launch(grid, block, ({args}))?"), "")
    };
    let types = if types.is_empty() { "none".to_owned() } else { types.join(", ") };
    format!("Arguments: {types}. Launch it with `{call}`.\n{more}")
}

/// The name of a type in the documentation.
fn type_name(ty: ArgType) -> String {
    let kind = match ty.code {
        0 => "i",
        1 => "u",
        ArgType::POINTER_CODE => return "tensor".to_owned(),
        _ => "f",
    };
    format!("`{kind}{}`", ty.bits)
}

/// A type of the function table, as Rust code.
fn arg_type(ty: &ArgType) -> String {
    let name = match ty.code {
        0 => format!("INT{}", ty.bits),
        1 => format!("UINT{}", ty.bits),
        ArgType::POINTER_CODE => "POINTER".to_owned(),
        _ => format!("FLOAT{}", ty.bits),
    };
    format!("__k::ArgType::{name}")
}
