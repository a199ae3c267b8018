//! The Rust file that `kernpack::library!()` includes: one item for each kernel, and one function for each whose types are known.

mod device;
mod docs;
mod host;
mod layout;
mod names;
mod typed;

use std::fmt::Write as _;

use crate::cuda::{CudaOutcome, SkippedKernel};
use crate::description::Descriptions;
use crate::opencl::OpenClImage;
use crate::ptx::PtxKernel;
use crate::symbols::HostKernel;
use crate::{Error, Result};
use names::Names;

/// The text of `kernpack_library.rs`, as rustfmt would write it.
///
/// `carried` are the kinds of the modules that the library carries.
pub(crate) fn generate(
    host: &[HostKernel],
    cuda: &CudaOutcome,
    opencl: &[OpenClImage],
    carried: &[String],
    descriptions: &Descriptions,
) -> Result<String> {
    let mut device = device_kernels(cuda);
    device.extend(opencl.iter().flat_map(opencl_kernels));
    check_unique(host, &device)?;
    let mut text = String::from("// Written by kernpack-build. `kernpack::library!()` includes it.\n\n");
    if host.is_empty() && device.is_empty() && carried.is_empty() && !needs_cuda(cuda) {
        text.push_str("/// Kernels that build.rs compiled into this library: none.\npub mod kernels {}\n");
        return Ok(text);
    }
    let mut names = Names::default();
    let mut parts = Parts::default();
    for kernel in host {
        host::write(&mut parts, &names.take(&kernel.name), kernel, descriptions.get(&kernel.name));
    }
    for kernel in &device {
        device::write(&mut parts, &names.take(kernel.name), kernel, descriptions.get(kernel.name));
    }
    let mut used = Vec::new();
    used.extend((!device.is_empty()).then_some("DeviceKernel"));
    used.extend((!host.is_empty()).then_some("Kernel"));
    text.push_str(HEAD);
    match used.as_slice() {
        [] => {}
        [one] => text.push_str(&format!("    use super::__kernpack::{one};\n\n")),
        all => text.push_str(&format!("    use super::__kernpack::{{{}}};\n\n", all.join(", "))),
    }
    let mut blocks = vec![parts.items.trim_end().to_owned()];
    if !parts.typed.is_empty() {
        blocks.push(format!("{TYPED}{}\n    }}", parts.typed.trim_end()));
    }
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

/// The places of the generated module that each kernel writes to.
#[derive(Default)]
struct Parts {
    /// What people use.
    items: String,
    /// The same as typed functions.
    typed: String,
    /// What the runtime and other languages find.
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
";

const TYPED: &str = "    /// The kernels as functions whose arguments have names and types.
    pub mod typed {
        use super::super::__kernpack::impl_ as __k;
        use super::super::__kernpack::module::LaunchConfig;
        use super::super::__kernpack::{Any, Bytes, DataType, Device, Function, Result, Tensor};

";

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
            out.push_str("\n    super::__kernpack::__has_compressed_modules!();\n");
        }
        let _ = write!(
            out,
            "
    mod carries_{number} {{
        use super::super::__kernpack::impl_ as __k;

        #[__k::linkme::distributed_slice(__k::KERNPACK_CARRIED_V1)]
        #[linkme(crate = __k::linkme)]
        static KIND: __k::CarriedKind = {};
    }}
",
            layout::struct_of_one(8, "__k::CarriedKind", &format!("kind: {kind:?}"))
        );
    }
}

/// A symbol whose function gives a text.
fn text_symbol(out: &mut String, symbol: &str, function: &str, call: &str) {
    let _ = write!(
        out,
        r#"
        #[unsafe(export_name = {symbol:?})]
        unsafe extern "C" fn {function}(
            _this: *mut __k::c_void,
            _args: *const __k::TVMFFIAny,
            _num_args: i32,
            result: *mut __k::TVMFFIAny,
        ) -> i32 {{
            // SAFETY: the caller follows the packed calling convention.
            unsafe {{ {call} }}
        }}
"#
    );
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

#[cfg(test)]
mod tests {
    use kernpack_formats::device_image::ArgType;

    use super::*;
    use crate::cuda::{CudaImage, Skipped};
    use crate::description::Description;
    use crate::signature::Signature;

    fn host(name: &str, source: &str) -> HostKernel {
        HostKernel { name: name.to_owned(), source: source.to_owned(), has_metadata: false, has_doc: false }
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
    fn no_kernels() {
        let text = generate(&[], &CudaOutcome::default(), &[], &[], &Descriptions::new()).unwrap();
        assert!(text.ends_with("none.\npub mod kernels {}\n"), "{text}");
    }

    /// A library with every kind of kernel; all names and texts contain `word`.
    fn with_everything(word: &str) -> String {
        let kernel = |name: &str, arg_types: &[ArgType], dynamic_shared_memory| PtxKernel {
            name: format!("{name}{word}"),
            arg_types: arg_types.to_vec(),
            dynamic_shared_memory,
        };
        let all = [
            ArgType::POINTER,
            ArgType::INT8,
            ArgType::UINT16,
            ArgType::FLOAT16,
            ArgType::FLOAT64,
            ArgType::INT64,
            ArgType::UINT32,
        ];
        let cuda_kernels = vec![
            kernel("scale", &[ArgType::POINTER, ArgType::FLOAT32, ArgType::UINT64], false),
            kernel("sum", &[ArgType::POINTER], true),
            kernel("nothing", &[], false),
            kernel("unknown", &all, false),
        ];
        let image = CudaImage {
            source: format!("{word}.cu"),
            format: "fatbin",
            code: "k.fatbin".into(),
            kernels: cuda_kernels,
        };
        let cuda = CudaOutcome { images: vec![image], ..skipped(&format!("skipped{word}"), false) };
        let opencl = vec![OpenClImage::of_kernels("k.cl", vec![kernel("cl", &all, true)])];
        let hosts = ["type", "self", "2d", "a.b", "a_b", "größe", "args", "bare"];
        let hosts: Vec<HostKernel> = hosts.iter().map(|name| host(&format!("{name}{word}"), "a \"b\".c")).collect();
        let described = |signature: &str| Description {
            doc: format!("First line {word}.  \n\n    code\n\nLast <line> [x]."),
            signature: Signature::parse(signature).map_err(|error| error.to_string()),
            declared: true,
        };
        let mut descriptions = Descriptions::new();
        let mut describe = |name: &str, signature: &str| {
            descriptions.insert(format!("{name}{word}"), described(signature));
        };
        describe("scale", &format!("(out{word}: mut Tensor[float32], in: float32, n: uint64)"));
        describe("sum", &format!("(out{word}: Tensor)"));
        describe("nothing", "()");
        describe("cl", "(a: Tensor, b: int8, c: uint16, d: float16, e: float64, f: int64, g: uint32)");
        describe("skipped", "(config: Tensor, self: int)");
        describe("type", &format!("(type: int, self: str, match{word}: bytes) -> Tensor"));
        describe("self", "() -> Any");
        describe("2d", "(a: Function, b: Any, c: Device, d: DataType, e: bool) -> str");
        describe("args", &format!("(args: int, result: mut Tensor[bool], a_name_that_is_long{word}: float) -> bytes"));
        let carried = ["my.kind".to_owned(), "kernpack.zstd".to_owned()];
        generate(&hosts, &cuda, &opencl, &carried, &descriptions).unwrap()
    }

    /// rustfmt with its default options has nothing to say.
    #[test]
    fn what_is_generated_is_formatted() {
        let folder = std::env::temp_dir().join(format!("kernpack-generated-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let lengths = [0, 1, 2, 3, 5, 8, 10, 12, 14, 16, 18, 20, 23, 26, 29, 31, 34, 38, 42, 47, 53, 60];
        let mut files = Vec::new();
        for length in lengths {
            let file = folder.join(format!("{length}.rs"));
            std::fs::write(&file, with_everything(&"x".repeat(length))).unwrap();
            files.push(file);
        }
        let none = folder.join("none.rs");
        std::fs::write(&none, generate(&[], &CudaOutcome::default(), &[], &[], &Descriptions::new()).unwrap()).unwrap();
        files.push(none);
        let mut rustfmt = std::process::Command::new("rustfmt");
        let output = rustfmt.args(["--check", "--edition", "2024"]).args(&files).current_dir(&folder).output();
        let output = output.expect("rustfmt is a part of the toolchain");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_file_of_a_small_library() {
        let image = CudaImage {
            source: "k.cu".to_owned(),
            format: "fatbin",
            code: "k.fatbin".into(),
            kernels: vec![PtxKernel {
                name: "sum".to_owned(),
                arg_types: vec![ArgType::POINTER, ArgType::UINT32],
                dynamic_shared_memory: true,
            }],
        };
        let cuda = CudaOutcome { images: vec![image], ..CudaOutcome::default() };
        let mut descriptions = Descriptions::new();
        let described = |doc: &str, signature: &str| Description {
            doc: doc.to_owned(),
            signature: Signature::parse(signature).map_err(|error| error.to_string()),
            declared: true,
        };
        let signature = "(src: Tensor[float32], dst: mut Tensor[float32], radius: int)";
        descriptions.insert("blur".to_owned(), described("Box blur.", signature));
        descriptions.insert("sum".to_owned(), described("Adds all.", "(out: mut Tensor[float32], n: uint32)"));
        let carried = ["kernpack.cuda".to_owned()];
        let text = generate(&[host("blur", "blur.c")], &cuda, &[], &carried, &descriptions).unwrap();
        let expected = include_str!("generate/small_library.rs");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/generate/small_library.rs");
            std::fs::write(file, &text).unwrap();
        } else {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn what_is_needed_does_not_depend_on_the_machine() {
        let skipped = |is_wanted| skipped("f", is_wanted);
        assert!(
            generate(&[], &skipped(false), &[], &[], &Descriptions::new()).unwrap().contains("__has_cuda_kernels!()")
        );
        let text = generate(&[], &skipped(true), &[], &[], &Descriptions::new()).unwrap();
        assert!(!text.contains("__has_cuda_kernels!()") && !text.contains("metadata"), "{text}");
    }

    #[test]
    fn host_and_device_share_names() {
        let cuda = skipped("sobel", false);
        let error =
            generate(&[host("blur", "a.c"), host("sobel", "s.ll")], &cuda, &[], &[], &Descriptions::new()).unwrap_err();
        assert_eq!(error.to_string(), "kernel `sobel` is defined twice: by s.ll and by k.cu; rename one of them");
    }
}
