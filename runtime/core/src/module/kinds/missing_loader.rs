//! The providers of the loaders of module kinds, for the message about a library with a module that
//! no registered loader can restore.

/// A part of Kernpack or of Apache TVM that restores modules of a kind.
enum Provider {
    /// A Cargo feature of this crate, and a file of Apache TVM if there is one.
    Feature(&'static str, Option<&'static str>),
    /// A file of Apache TVM's package, and a description of the kind.
    ApacheTvm(&'static str, &'static str),
}

/// The kinds with known providers; Apache TVM's are those of its version 0.27.
static PROVIDERS: &[(&str, Provider)] = &[
    ("cuda", Provider::Feature("cuda", Some("libtvm_runtime_cuda.so"))),
    ("opencl", Provider::Feature("opencl", Some("libtvm_runtime_opencl.so"))),
    ("kernpack.cuda", Provider::Feature("cuda", None)),
    ("kernpack.opencl", Provider::Feature("opencl", None)),
    ("kernpack.zstd", Provider::Feature("zstd", None)),
    ("relax.VMExecutable", Provider::ApacheTvm("libtvm_runtime.so", "a program for the relax virtual machine")),
    ("const_loader", Provider::ApacheTvm("libtvm_runtime.so", "constants of compiled functions")),
    ("static_library", Provider::ApacheTvm("libtvm_runtime.so", "an object file")),
    ("c", Provider::ApacheTvm("libtvm_compiler.so", "C source code")),
    ("hip", Provider::ApacheTvm("libtvm_runtime_rocm.so", "code for AMD GPUs")),
    ("rocm", Provider::ApacheTvm("libtvm_runtime_rocm.so", "code for AMD GPUs")),
    ("metal", Provider::ApacheTvm("libtvm_runtime_metal.so", "code for Apple GPUs")),
    ("vulkan", Provider::ApacheTvm("libtvm_runtime_vulkan.so", "Vulkan shaders")),
    ("webgpu", Provider::ApacheTvm("web runtime", "WebGPU shaders")),
];

/// Advice for getting a loader of the kind, as the end of a message.
#[inline]
pub(in crate::module) fn advice(kind: &str) -> String {
    match PROVIDERS.iter().find(|(known, _)| *known == kind).map(|(_, provider)| provider) {
        Some(Provider::Feature(feature, None)) => {
            format!("build this program with the feature '{feature}' of kernpack")
        }
        Some(Provider::Feature(feature, Some(file))) => format!(
            "build this program with the feature '{feature}' of kernpack, or preload {file} of Apache TVM (LD_PRELOAD)"
        ),
        Some(Provider::ApacheTvm(file, what)) => {
            format!("it is {what}; Apache TVM's {file} provides the loader: preload that (LD_PRELOAD)")
        }
        None => format!("load the runtime that registers ffi.Module.load_from_bytes.{kind} first"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_provider_and_one_message() {
        for (index, (kind, _)) in PROVIDERS.iter().enumerate() {
            assert!(!PROVIDERS[..index].iter().any(|(other, _)| other == kind), "{kind}");
        }
        for (kind, expected) in [
            (
                "opencl",
                "build this program with the feature 'opencl' of kernpack, or preload libtvm_runtime_opencl.so of Apache TVM \
                 (LD_PRELOAD)",
            ),
            ("kernpack.zstd", "build this program with the feature 'zstd' of kernpack"),
            (
                "relax.VMExecutable",
                "it is a program for the relax virtual machine; Apache TVM's libtvm_runtime.so provides the loader: preload that \
                 (LD_PRELOAD)",
            ),
            ("martian", "load the runtime that registers ffi.Module.load_from_bytes.martian first"),
        ] {
            assert_eq!(advice(kind), expected);
        }
    }
}
