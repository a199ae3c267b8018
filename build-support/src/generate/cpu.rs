//! Kernels that run on the CPU.

use std::fmt::Write as _;

use super::names::Identifiers;
use super::{Parts, docs, layout, typed};
use crate::describe::Description;
use crate::describe::signature::{Signature, Type};
use crate::describe::symbols::{HostKernel, PREFIX};

pub(super) fn write(parts: &mut Parts, names: &Identifiers, kernel: &HostKernel, description: Option<&Description>) {
    let Identifiers { item, base } = names;
    let doc = description.map_or("", |description| description.doc.as_str());
    let signature = description.and_then(|description| description.signature.as_ref().ok());
    let about = format!("`{}`, from {}.", docs::quoted(&kernel.name), kernel.source);

    let mut text = docs::markdown(doc);
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&about);
    match signature {
        Some(signature) => {
            let _ = write!(text, " Takes `{}`, also as a function: [`typed::{item}`].", signature.shown());
            typed::function(&mut parts.typed, names, &typed::Of::Host, doc, &about, signature);
            parts.typed.push('\n');
        }
        None => {
            let _ = write!(
                text,
                " It is not a function of `typed`: nothing declares its arguments. A line `kernpack: {}(..) -> ..` in the comment in \
                 front of it does, or `.signature(..)` in build.rs.",
                docs::quoted(&kernel.name)
            );
        }
    }
    docs::comment(&mut parts.items, 4, &text);
    layout::assignment(&mut parts.items, 4, &format!("pub static {item}: Kernel"), &format!("{base}_parts::KERNEL"));
    parts.items.push('\n');
    hidden(&mut parts.hidden, base, kernel, doc, signature);
}

/// Writes the items that the runtime and other languages look up. Metadata and documentation come
/// from the object if it defines them.
fn hidden(out: &mut String, base: &str, kernel: &HostKernel, doc: &str, signature: Option<&Signature>) {
    let HostKernel { name, source, has_metadata, has_doc } = kernel;
    let _ = write!(
        out,
        r#"    mod {base}_parts {{
        use super::super::__kernpack::__private_v0_1 as __k;
        use super::super::__kernpack::Kernel;

        __k::foreign_entry_point!({symbol:?} symbol);

        #[__k::linkme::distributed_slice(__k::KERNPACK_KERNELS_V1)]
        #[linkme(crate = __k::linkme)]
        static INFO: __k::KernelInfo = __k::KernelInfo {{
"#,
        symbol = format!("{PREFIX}{name}"),
    );
    layout::text_field(out, 12, "name", name);
    out.push_str("            call: symbol,\n");
    layout::text_field(out, 12, "source", source);
    layout::text_field(out, 12, "doc", doc);
    match signature {
        None => out.push_str("            types: None,\n"),
        Some(signature) => {
            out.push_str("            types: Some(__k::HostKernelTypes {\n");
            let texts = |text: fn(&(String, Type)) -> String| -> Vec<String> {
                let params = signature.params.iter().map(|param| (param.name.clone(), param.ty.clone()));
                params.map(|param| format!("{:?}", text(&param))).collect()
            };
            layout::array(out, 16, "names: &[", &texts(|(name, _)| name.clone()), "],");
            layout::array(out, 16, "keys: &[", &texts(|(_, ty)| ty.key().to_owned()), "],");
            layout::array(out, 16, "elements: &[", &texts(|(_, ty)| element(ty).to_owned()), "],");
            layout::text_field(out, 16, "result", signature.result.key());
            out.push_str("            }),\n");
        }
    }
    out.push_str(
        r#"            crate_name: ::core::env!("CARGO_CRATE_NAME"),
            register: __k::register_kernel,
        };

        pub(super) const KERNEL: Kernel = __k::host_kernel!(INFO);
"#,
    );
    if !doc.is_empty() && !has_doc {
        super::text_symbol(out, &format!("{PREFIX}_doc_{name}"), "doc", "kernel_doc(INFO.doc)");
    }
    if signature.is_some() && !has_metadata {
        let call = "host_kernel_metadata(&INFO)";
        super::text_symbol(out, &format!("{PREFIX}_metadata_{name}"), "metadata", call);
    }
    super::claim(out, name, &kernel.source);
    out.push_str("    }\n\n");
}

/// Returns the required element type of a tensor. Empty if any type is allowed, and for types other
/// than tensors.
pub(super) fn element(ty: &Type) -> &'static str {
    match ty {
        Type::Tensor { element: Some(element), .. } => element,
        _ => "",
    }
}
