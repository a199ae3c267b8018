//! Generates the Rust file that `kernpack::library!()` includes: one item for each kernel, and one
//! function for each kernel with known types.

mod cpu;
mod device;
mod docs;
mod launches;
mod layout;
pub(crate) mod model;
mod names;
#[cfg(test)]
mod tests;
mod typed;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kernpack_formats::library_bin::FIRST_LIBRARY_BIN_SYMBOL;

use crate::cuda::ptx::PtxKernel;
use crate::cuda::{CudaOutcome, SkippedKernel};
use crate::describe::Descriptions;
use crate::describe::symbols::HostKernel;
use crate::opencl::OpenClImage;
use crate::{Error, Result};
use model::ModelItems;
use names::Names;

/// Generates the text of `kernpack_library.rs`, formatted like rustfmt.
///
/// `models` are functions among `host`.
pub(crate) fn generate(
    host: &[HostKernel],
    cuda: &CudaOutcome,
    opencl: &[OpenClImage],
    carried: &Carried,
    descriptions: &Descriptions,
    models: &[ModelItems],
) -> Result<String> {
    let mut device = device_kernels(cuda);
    let (generated, files): (Vec<&OpenClImage>, Vec<&OpenClImage>) =
        opencl.iter().partition(|image| image.generated.is_some());
    let launched: Vec<DeviceKernel<'_>> = generated.iter().flat_map(|image| opencl_kernels(image)).collect();
    device.extend(files.iter().flat_map(|image| opencl_kernels(image)));
    check_unique(host, device.iter().chain(&launched))?;
    let mut text = String::from("// Written by kernpack-build. `kernpack::library!()` includes it.\n\n");
    if host.is_empty() && device.is_empty() && carried.kinds.is_empty() && !needs_cuda(cuda) {
        text.push_str("/// Kernels that build.rs compiled into this library: none.\npub mod kernels {}\n");
        return Ok(text);
    }
    let mut names = Names::default();
    let mut parts = Parts::default();
    let mut identifiers = BTreeMap::new();
    for kernel in host {
        let own = names.take(&kernel.name);
        cpu::write(&mut parts, &own, kernel, descriptions.get(&kernel.name));
        identifiers.insert(kernel.name.as_str(), own);
    }
    let mut modules = Vec::new();
    for model in models {
        let steps = identifiers.get(format!("{}_steps", model.name).as_str());
        let (Some(own), Some(steps)) = (identifiers.get(model.name.as_str()), steps) else { continue };
        if own.item == "typed" {
            return Err(Error::new("a model cannot be called `typed`: say another `.name(..)`"));
        }
        let mut text = String::new();
        model::write(&mut text, own, steps, model);
        modules.push(text.trim_end().to_owned());
    }
    for kernel in &device {
        device::write(&mut parts, &names.take(kernel.name), kernel, descriptions.get(kernel.name));
    }
    launches::write(&mut parts.hidden, &generated);
    let mut used = Vec::new();
    used.extend((!device.is_empty()).then_some("DeviceKernel"));
    used.extend((!host.is_empty()).then_some("Kernel"));
    text.push_str(HEAD);
    match used.as_slice() {
        [] => text.push('\n'),
        [one] => text.push_str(&format!("    use super::__kernpack::{one};\n\n")),
        all => text.push_str(&format!("    use super::__kernpack::{{{}}};\n\n", all.join(", "))),
    }
    let mut blocks = vec![parts.items.trim_end().to_owned()];
    if !parts.typed.is_empty() {
        blocks.push(format!("{TYPED}{}\n    }}", parts.typed.trim_end()));
    }
    blocks.extend(modules);
    blocks.push(parts.hidden.trim_end().to_owned());
    let mut items = String::new();
    carried_kinds(&mut items, carried);
    if needs_cuda(cuda) {
        items.push_str(CUDA_FEATURE);
    }
    if !opencl.is_empty() {
        items.push_str(OPENCL_FEATURE);
    }
    blocks.push(items.trim_matches('\n').to_owned());
    blocks.retain(|block| !block.is_empty());
    text.push_str(&blocks.join("\n\n"));
    text.push_str("\n}\n");
    Ok(text)
}

/// The modules that a library carries.
#[derive(Default)]
pub(crate) struct Carried {
    /// Their kinds.
    pub(crate) kinds: Vec<String>,
    /// The symbol by which the crate finds them.
    pub(crate) symbol: String,
}

/// The parts of the generated module that each kernel writes to.
#[derive(Default)]
struct Parts {
    /// The items for users.
    items: String,
    /// The items as typed functions.
    typed: String,
    /// The items that the runtime and other languages look up.
    hidden: String,
}

const HEAD: &str = "\
/// Kernels that build.rs compiled into this library.
///
/// Each takes any arguments, which it checks when it is called. Those whose arguments are known are also functions, in the module `typed`.
#[allow(
    non_snake_case,
    non_upper_case_globals,
    unused_imports,
    unused_qualifications,
    clippy::all,
    rustdoc::all
)]
pub mod kernels {
    use super::__kernpack::__private_v0_1 as _; // not found: kernpack and kernpack-build need the same version in Cargo.toml (0.1)
";

const TYPED: &str = "    /// The kernels as functions whose arguments have names and types.
    pub mod typed {
        use super::super::__kernpack::__private_v0_1 as __k;
        use super::super::__kernpack::module::LaunchConfig;
        use super::super::__kernpack::{Any, Bytes, DataType, Device, Function, Result, Tensor};

";

/// Returns true if the crate has CUDA kernels, compiled on this machine or not. The dependencies of
/// a crate must not depend on the machine.
fn needs_cuda(cuda: &CudaOutcome) -> bool {
    !cuda.images.is_empty() || cuda.skipped.as_ref().is_some_and(|skipped| !skipped.is_wanted)
}

/// A compile error that names the missing feature of kernpack if it cannot run the kernels.
const CUDA_FEATURE: &str = "\n    super::__kernpack::__private_v0_1::has_cuda_kernels!();\n";

/// The same for OpenCL.
const OPENCL_FEATURE: &str = "\n    super::__kernpack::__private_v0_1::has_opencl_kernels!();\n";

/// Writes the loaders of the modules that a library carries, for the kinds that kernpack knows. For
/// other kinds the crate itself defines the loaders.
fn carried_kinds(out: &mut String, carried: &Carried) {
    let mut library_bin = format!("library_bin: __k::library_bin!({:?}),", carried.symbol);
    if library_bin.len() > 88 {
        library_bin = format!("library_bin: __k::library_bin!(\n                {:?}\n            ),", carried.symbol);
    }
    for (number, kind) in carried.kinds.iter().enumerate() {
        if kind == "kernpack.zstd" {
            out.push_str("\n    super::__kernpack::__private_v0_1::has_compressed_modules!();\n");
        }
        let _ = write!(
            out,
            "
    mod carries_{number} {{
        use super::super::__kernpack::__private_v0_1 as __k;

        #[__k::linkme::distributed_slice(__k::KERNPACK_CARRIED_V1)]
        #[linkme(crate = __k::linkme)]
        static KIND: __k::CarriedKind = __k::CarriedKind {{
            kind: {kind:?},
            register: __k::register_carried,
            {library_bin}
            shown: __k::library_bin!({FIRST_LIBRARY_BIN_SYMBOL:?}),
        }};
    }}
",
        );
    }
}

/// Writes a symbol whose function returns a text. `call` is a function of kernpack with its first
/// argument.
fn text_symbol(out: &mut String, symbol: &str, function: &str, call: &str) {
    let _ = writeln!(out, "\n        __k::text_symbol!({symbol:?} {function} = {call});");
}

/// Writes an item that makes the compiler reject a Rust function with the kernel's name, and show
/// both. `#[packed_func]` generates the same item. The line contains the origin of the kernel.
fn claim(out: &mut String, name: &str, source: &str) {
    if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let _ = write!(
            out,
            "
        #[doc(hidden)]
        #[macro_export]
        #[rustfmt::skip]
        macro_rules! packed_function_named_{name}__give_one_of_them_another_name {{ // the kernel of {source}
            () => {{}};
        }}
"
        );
    }
}

/// A kernel that runs on a device, or would run there if it were built.
struct DeviceKernel<'a> {
    name: &'a str,
    source: &'a str,
    /// The kind of its module, and the name of the kind for users.
    kind: [&'static str; 2],
    state: State<'a>,
}

const CUDA: [&str; 2] = ["cuda", "a CUDA kernel"];
const OPENCL: [&str; 2] = ["opencl", "an OpenCL kernel"];

fn opencl_kernels(image: &OpenClImage) -> impl Iterator<Item = DeviceKernel<'_>> {
    let kernel = |kernel| (kernel, State::Built(kernel));
    image.kernels.iter().map(kernel).map(|(kernel, state)| DeviceKernel {
        name: &kernel.name,
        source: &image.source,
        kind: OPENCL,
        state,
    })
}

enum State<'a> {
    Built(&'a PtxKernel),
    /// The reason why the kernel was not built.
    NotBuilt(String),
}

fn device_kernels(cuda: &CudaOutcome) -> Vec<DeviceKernel<'_>> {
    let mut kernels = Vec::new();
    for image in &cuda.images {
        for kernel in &image.kernels {
            kernels.push(DeviceKernel {
                name: &kernel.name,
                source: &image.source,
                kind: CUDA,
                state: State::Built(kernel),
            });
        }
    }
    if let Some(skipped) = &cuda.skipped {
        for SkippedKernel { name, source } in &skipped.kernels {
            let state = State::NotBuilt(format!(
                "{source} was not compiled when this library was built: {}. Install the CUDA toolkit or set CUDA_HOME, and \
                 build again with KERNPACK_CUDA=require",
                skipped.reason
            ));
            kernels.push(DeviceKernel { name, source, kind: CUDA, state });
        }
    }
    kernels
}

fn check_unique<'a>(host: &[HostKernel], device: impl Iterator<Item = &'a DeviceKernel<'a>>) -> Result<()> {
    let all = host.iter().map(|kernel| (kernel.name.as_str(), kernel.source.as_str()));
    let all = all.chain(device.map(|kernel| (kernel.name, kernel.source)));
    let mut seen = BTreeMap::new();
    let checked = all.map(|(name, source)| match seen.insert(name, source) {
        Some(first) => {
            Err(Error::new(format!("kernel `{name}` is defined twice: by {first} and by {source}; rename one of them")))
        }
        None => Ok(()),
    });
    Error::collect(checked).map(drop)
}
