//! The Rust file that `kernpack::library!()` includes: one item per kernel.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kernpack_formats::device_image::{ArgType, DeviceFunction};

use crate::cuda::{CudaOutcome, SkippedKernel};
use crate::opencl::OpenClImage;
use crate::ptx::PtxKernel;
use crate::symbols::HostKernel;
use crate::{Error, Result};

/// The text of `kernpack_library.rs`.
///
/// `carried` are the kinds of the modules that the library carries.
pub(crate) fn generate(
    host: &[HostKernel],
    cuda: &CudaOutcome,
    opencl: &[OpenClImage],
    carried: &[String],
) -> Result<String> {
    let mut device = device_kernels(cuda);
    device.extend(opencl.iter().flat_map(opencl_kernels));
    check_unique(host, &device)?;
    let mut names = Names::default();
    let mut items = String::new();
    for kernel in host {
        host_kernel(&mut items, &names.take(&kernel.name), kernel);
    }
    for kernel in &device {
        device_kernel(&mut items, &names.take(kernel.name), kernel);
    }
    let mut text = String::from("// Written by kernpack-build. `kernpack::library!()` includes it.\n\n");
    carried_kinds(&mut items, carried);
    if items.is_empty() {
        text.push_str("/// Kernels that build.rs compiled into this library: none.\npub mod kernels {}\n");
        return Ok(text);
    }
    text.push_str("/// Kernels that build.rs compiled into this library.\n");
    text.push_str("#[allow(non_snake_case, non_upper_case_globals, unused_imports, unused_qualifications)]\n");
    text.push_str("pub mod kernels {\n");
    text.push_str("    use ::core::ffi::c_void;\n\n    use super::__kernpack::impl_ as __k;\n");
    text.push_str(&items);
    if needs_cuda(cuda) {
        text.push_str(CUDA_FEATURE);
    }
    if !opencl.is_empty() {
        text.push_str(OPENCL_FEATURE);
    }
    text.push_str("}\n");
    Ok(text)
}

/// Whether the crate has CUDA kernels, compiled on this machine or not: what a crate needs does not depend on the machine.
fn needs_cuda(cuda: &CudaOutcome) -> bool {
    !cuda.images.is_empty() || cuda.skipped.as_ref().is_some_and(|skipped| !skipped.is_wanted)
}

/// A compile error that says what to add, when kernpack lacks what runs the kernels.
const CUDA_FEATURE: &str = "\n    super::__kernpack::__has_cuda_kernels!();\n";

/// The same for OpenCL.
const OPENCL_FEATURE: &str = "\n    super::__kernpack::__has_opencl_kernels!();\n";

/// A library that carries modules of a kind that kernpack knows brings what loads them; of other kinds, their loaders are the
/// crate's own.
fn carried_kinds(out: &mut String, kinds: &[String]) {
    for (number, kind) in kinds.iter().enumerate() {
        if kind == "kernpack.zstd" {
            out.push_str(
                "
    super::__kernpack::__has_compressed_modules!();
",
            );
        }
        let _ = write!(
            out,
            "
    #[__k::linkme::distributed_slice(__k::KERNPACK_CARRIED_V1)]
    #[linkme(crate = __k::linkme)]
    static CARRIES_{number}: __k::CarriedKind = __k::CarriedKind {{ kind: {kind:?} }};
"
        );
    }
}

/// A kernel that runs on a device, or would.
struct DeviceKernel<'a> {
    name: &'a str,
    source: &'a str,
    /// Kind of its module, and what people call it.
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
    /// Why not.
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

fn check_unique(host: &[HostKernel], device: &[DeviceKernel<'_>]) -> Result<()> {
    let all = host.iter().map(|kernel| (kernel.name.as_str(), kernel.source.as_str()));
    let all = all.chain(device.iter().map(|kernel| (kernel.name, kernel.source)));
    let mut seen = std::collections::BTreeMap::new();
    let checked = all.map(|(name, source)| match seen.insert(name, source) {
        Some(first) => {
            Err(Error::new(format!("kernel `{name}` is defined twice: by {first} and by {source}; rename one of them")))
        }
        None => Ok(()),
    });
    Error::collect(checked).map(drop)
}

fn host_kernel(out: &mut String, names: &Identifiers, kernel: &HostKernel) {
    let HostKernel { name, source } = kernel;
    let Identifiers { item, base } = names;
    let (shown, global) = (doc(name), global_name(name));
    // Writing to a String does not fail.
    let _ = write!(
        out,
        r#"
    unsafe extern "C" {{
        #[link_name = {symbol:?}]
        fn symbol_{base}(this: *mut c_void, args: *const __k::TVMFFIAny, num_args: i32, result: *mut __k::TVMFFIAny) -> i32;
    }}

    #[__k::linkme::distributed_slice(__k::KERNPACK_KERNELS_V1)]
    #[linkme(crate = __k::linkme)]
    static info_{base}: __k::KernelInfo = __k::KernelInfo {{
        name: {name:?},
        global_name: ::core::option::Option::Some({global}),
        call: symbol_{base},
        source: {source:?},
        crate_name: ::core::env!("CARGO_CRATE_NAME"),
    }};

    /// `{shown}`, from {source}.
    // SAFETY: the name says that the symbol follows the packed calling convention.
    pub static {item}: super::__kernpack::Kernel = unsafe {{ super::__kernpack::Kernel::new(&info_{base}) }};
"#,
        symbol = format!("{}{name}", crate::symbols::PREFIX),
        source = source,
    );
}

fn device_kernel(out: &mut String, names: &Identifiers, kernel: &DeviceKernel<'_>) {
    let Identifiers { item, base } = names;
    let (name, source, shown) = (kernel.name, kernel.source, doc(kernel.name));
    let [kind, what] = kernel.kind;
    let (comment, status, types) = match &kernel.state {
        State::Built(kernel) => {
            (launch_doc(item, kernel), "super::__kernpack::ImageStatus::Built".to_owned(), kernel_types(kernel))
        }
        State::NotBuilt(reason) => (
            "    /// It was not compiled: calling it is an error that says why.\n".to_owned(),
            format!("super::__kernpack::ImageStatus::NotBuilt(\n            {reason:?},\n        )"),
            "__k::KernelTypes { args: &[], launch: &[] }".to_owned(),
        ),
    };
    let _ = write!(
        out,
        r#"
    /// `{shown}`, {what} from {source}.
    ///
{comment}    pub static {item}: super::__kernpack::DeviceKernel = super::__kernpack::DeviceKernel::new(
        {name:?},
        {kind:?},
        {status},
        {types},
    );

    // Other languages find the kernel under its name in the library itself.
    #[unsafe(export_name = {symbol:?})]
    unsafe extern "C" fn call_{base}(
        _this: *mut c_void,
        args: *const __k::TVMFFIAny,
        num_args: i32,
        result: *mut __k::TVMFFIAny,
    ) -> i32 {{
        // SAFETY: the caller follows the packed calling convention.
        unsafe {{ __k::call_device_kernel(&{item}, args, num_args, result) }}
    }}
"#,
        symbol = format!("{}{name}", crate::symbols::PREFIX),
    );
    if let State::Built(_) = kernel.state {
        let _ = write!(
            out,
            r#"
    #[unsafe(export_name = {symbol:?})]
    unsafe extern "C" fn metadata_{base}(
        _this: *mut c_void,
        _args: *const __k::TVMFFIAny,
        _num_args: i32,
        result: *mut __k::TVMFFIAny,
    ) -> i32 {{
        // SAFETY: the caller follows the packed calling convention.
        unsafe {{ __k::device_kernel_metadata(&{item}, result) }}
    }}
"#,
            symbol = format!("{}_metadata_{name}", crate::symbols::PREFIX),
        );
    }
}

/// How to launch a kernel, as lines of documentation.
fn launch_doc(item: &str, kernel: &PtxKernel) -> String {
    let args: Vec<String> = (0..kernel.arg_types.len()).map(|index| format!("a{index}")).collect();
    let types: Vec<String> = kernel.arg_types.iter().map(|ty| type_name(*ty)).collect();
    let args = if let [arg] = &args[..] { format!("{arg},") } else { args.join(", ") };
    let (call, more) = if kernel.dynamic_shared_memory {
        (
            format!("kernels::{item}.launch_with(&config, ({args}))?"),
            "    /// It uses dynamic shared memory: set `dynamic_shared_memory` in `let config = LaunchConfig { .. }`.\n",
        )
    } else {
        (format!("kernels::{item}.launch(grid, block, ({args}))?"), "")
    };
    let types = if types.is_empty() { "none".to_owned() } else { types.join(", ") };
    format!("    /// Arguments: {types}. Launch it with `{call}`.\n{more}")
}

/// A type as the documentation names it.
fn type_name(ty: ArgType) -> String {
    let kind = match ty.code {
        0 => "i",
        1 => "u",
        ArgType::POINTER_CODE => return "tensor".to_owned(),
        _ => "f",
    };
    format!("`{kind}{}`", ty.bits)
}

/// The kernel's entry of the function table, as Rust code.
fn kernel_types(kernel: &PtxKernel) -> String {
    let mut text = "__k::KernelTypes {\n            args: &[".to_owned();
    for (index, ArgType { code, bits, lanes }) in kernel.arg_types.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}__k::ArgType {{ code: {code}, bits: {bits}, lanes: {lanes} }}");
    }
    let entry = DeviceFunction::new(&kernel.name, kernel.arg_types.clone(), kernel.dynamic_shared_memory);
    let _ = write!(text, "],\n            launch: &{:?},\n        }}", entry.launch_params);
    text
}

/// `name` as global function: itself if it has a dot, else with the crate in front.
fn global_name(name: &str) -> String {
    if name.contains('.') {
        format!("{name:?}")
    } else {
        format!("::core::concat!(::core::env!(\"CARGO_CRATE_NAME\"), {:?})", format!(".{name}"))
    }
}

/// A name inside a documentation comment.
fn doc(name: &str) -> String {
    name.replace(['`', '\n', '\r'], "?")
}

/// The identifiers of one kernel.
struct Identifiers {
    /// The public item: `blur`, `r#type`.
    item: String,
    /// The same as part of other identifiers: `blur`, `type`.
    base: String,
}

/// Makes identifiers of kernel names, each once.
#[derive(Default)]
struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    fn take(&mut self, name: &str) -> Identifiers {
        let mut base: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if base.starts_with(|c: char| c.is_ascii_digit()) {
            base.insert(0, '_');
        }
        // These can not be raw identifiers.
        if matches!(base.as_str(), "" | "_" | "self" | "Self" | "super" | "crate") {
            base.push('_');
        }
        let stem = base.clone();
        let mut number = 2;
        while !self.taken.insert(base.clone()) {
            base = format!("{stem}_{number}");
            number += 1;
        }
        let item = if KEYWORDS.contains(&base.as_str()) { format!("r#{base}") } else { base.clone() };
        Identifiers { item, base }
    }
}

/// Keywords of all editions, reserved ones too.
const KEYWORDS: [&str; 49] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "union",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{CudaImage, Skipped};

    fn host(name: &str, source: &str) -> HostKernel {
        HostKernel { name: name.to_owned(), source: source.to_owned() }
    }

    /// A kernel of k.cu that was not compiled.
    fn skipped(name: &str, is_wanted: bool) -> CudaOutcome {
        let skipped = Skipped {
            reason: "because".to_owned(),
            sources: vec!["k.cu".to_owned()],
            is_wanted,
            kernels: vec![SkippedKernel { name: name.to_owned(), source: "k.cu".to_owned() }],
        };
        CudaOutcome { skipped: Some(skipped), ..CudaOutcome::default() }
    }

    #[test]
    fn names_become_identifiers() {
        let mut names = Names::default();
        #[rustfmt::skip]
        let rows = [
            ("blur", "blur"), ("image.blur", "image_blur"), ("image_blur", "image_blur_2"), ("type", "r#type"),
            ("self", "self_"), ("2d", "_2d"), ("_", "__"), ("größe", "gr__e"), ("union", "r#union"), ("a-b", "a_b"),
        ];
        for (name, expected) in rows {
            assert_eq!(names.take(name).item, expected);
        }
    }

    #[test]
    fn no_kernels() {
        let text = generate(&[], &CudaOutcome::default(), &[], &[]).unwrap();
        assert!(text.ends_with("none.\npub mod kernels {}\n"), "{text}");
    }

    #[test]
    fn device_kernels_know_their_types() {
        let kernel = |name: &str, arg_types: &[ArgType], dynamic_shared_memory| PtxKernel {
            name: name.to_owned(),
            arg_types: arg_types.to_vec(),
            dynamic_shared_memory,
        };
        let kernels = vec![
            kernel("scale", &[ArgType::POINTER, ArgType::FLOAT32, ArgType::UINT64], false),
            kernel("sum", &[ArgType::POINTER], true),
            kernel("nothing", &[], false),
        ];
        let image = CudaImage { source: "k.cu".to_owned(), format: "fatbin", code: "k.fatbin".into(), kernels };
        let cuda = CudaOutcome { images: vec![image], ..CudaOutcome::default() };
        let text = generate(&[], &cuda, &[], &["cuda".to_owned()]).unwrap();
        for part in [
            "    /// `scale`, a CUDA kernel from k.cu.\n    ///\n    /// Arguments: tensor, `f32`, `u64`. Launch it with \
             `kernels::scale.launch(grid, block, (a0, a1, a2))?`.\n    pub static scale:",
            "            args: &[__k::ArgType { code: 3, bits: 64, lanes: 1 }, __k::ArgType { code: 2, bits: 32, lanes: 1 }, \
             __k::ArgType { code: 1, bits: 64, lanes: 1 }],\n            launch: &[\"blockIdx.x\", \"blockIdx.y\", \"blockIdx.z\", \
             \"threadIdx.x\", \"threadIdx.y\", \"threadIdx.z\"],\n",
            "    /// Arguments: tensor. Launch it with `kernels::sum.launch_with(&config, (a0,))?`.\n    /// It uses dynamic shared \
             memory: set `dynamic_shared_memory` in `let config = LaunchConfig { .. }`.\n",
            "\"threadIdx.z\", \"tirx.use_dyn_shared_memory\"],\n",
            "    /// Arguments: none. Launch it with `kernels::nothing.launch(grid, block, ())?`.\n",
            "#[unsafe(export_name = \"__tvm_ffi__metadata_scale\")]",
            "super::__kernpack::__has_cuda_kernels!();",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }

    #[test]
    fn what_is_needed_does_not_depend_on_the_machine() {
        let skipped = |is_wanted| skipped("f", is_wanted);
        assert!(generate(&[], &skipped(false), &[], &[]).unwrap().contains("__has_cuda_kernels!()"));
        let text = generate(&[], &skipped(true), &[], &[]).unwrap();
        assert!(!text.contains("__has_cuda_kernels!()") && !text.contains("metadata_f"), "{text}");
    }

    #[test]
    fn host_and_device_share_names() {
        let cuda = skipped("sobel", false);
        let error = generate(&[host("blur", "a.c"), host("sobel", "s.ll")], &cuda, &[], &[]).unwrap_err();
        assert_eq!(error.to_string(), "kernel `sobel` is defined twice: by s.ll and by k.cu; rename one of them");
    }
}
