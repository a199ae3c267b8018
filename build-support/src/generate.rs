//! The Rust file that `kernpack::library!()` includes: one item per kernel.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::cuda::{CudaOutcome, SkippedKernel};
use crate::symbols::HostKernel;
use crate::{Error, Result};

/// The text of `kernpack_library.rs`.
pub(crate) fn generate(host: &[HostKernel], cuda: &CudaOutcome) -> Result<String> {
    let device = device_kernels(cuda);
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
    if items.is_empty() {
        text.push_str("/// Kernels that build.rs compiled into this library: none.\npub mod kernels {}\n");
        return Ok(text);
    }
    text.push_str("/// Kernels that build.rs compiled into this library.\n");
    text.push_str("#[allow(non_snake_case, non_upper_case_globals, unused_imports, unused_qualifications)]\n");
    text.push_str("pub mod kernels {\n");
    text.push_str("    use ::core::ffi::c_void;\n\n    use super::__kernpack::impl_ as __k;\n");
    text.push_str(&items);
    if !cuda.images.is_empty() {
        text.push_str(CUDA_LOADER);
    }
    text.push_str("}\n");
    Ok(text)
}

/// A library that carries CUDA images brings what loads them.
const CUDA_LOADER: &str = "
    #[__k::linkme::distributed_slice(__k::KERNPACK_CARRIED_V1)]
    #[linkme(crate = __k::linkme)]
    static CARRIES_CUDA: __k::CarriedKind = __k::CarriedKind { kind: \"cuda\" };
";

/// A kernel that runs on a device, or would.
struct DeviceKernel<'a> {
    name: &'a str,
    source: &'a str,
    /// Why it was not built.
    not_built: Option<String>,
}

fn device_kernels(cuda: &CudaOutcome) -> Vec<DeviceKernel<'_>> {
    let mut kernels = Vec::new();
    for image in &cuda.images {
        for kernel in &image.kernels {
            kernels.push(DeviceKernel { name: &kernel.name, source: &image.source, not_built: None });
        }
    }
    if let Some(skipped) = &cuda.skipped {
        for SkippedKernel { name, source } in &skipped.kernels {
            let not_built = Some(format!(
                "{source} was not compiled when this library was built: {}. Install the CUDA toolkit or set CUDA_HOME, and \
                 build again with KERNPACK_CUDA=require",
                skipped.reason
            ));
            kernels.push(DeviceKernel { name, source, not_built });
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
    let (comment, status) = match &kernel.not_built {
        None => ("It runs on a CUDA device.", "super::__kernpack::ImageStatus::Built".to_owned()),
        Some(reason) => (
            "It was not compiled: calling it is an error that says why.",
            format!("super::__kernpack::ImageStatus::NotBuilt(\n            {reason:?},\n        )"),
        ),
    };
    let _ = write!(
        out,
        r#"
    /// `{shown}`, from {source}. {comment}
    pub static {item}: super::__kernpack::DeviceKernel = super::__kernpack::DeviceKernel::new(
        {name:?},
        "cuda",
        {status},
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
    use crate::cuda::Skipped;

    fn host(name: &str, source: &str) -> HostKernel {
        HostKernel { name: name.to_owned(), source: source.to_owned() }
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
        let text = generate(&[], &CudaOutcome::default()).unwrap();
        assert!(text.ends_with("none.\npub mod kernels {}\n"), "{text}");
    }

    #[test]
    fn host_and_device_share_names() {
        let skipped = SkippedKernel { name: "sobel".to_owned(), source: "k.cu".to_owned() };
        let skipped = Skipped { reason: String::new(), sources: Vec::new(), is_wanted: false, kernels: vec![skipped] };
        let cuda = CudaOutcome { skipped: Some(skipped), ..CudaOutcome::default() };
        let error = generate(&[host("blur", "a.c"), host("sobel", "s.ll")], &cuda).unwrap_err();
        assert_eq!(error.to_string(), "kernel `sobel` is defined twice: by s.ll and by k.cu; rename one of them");
    }
}
