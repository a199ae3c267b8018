//! Kinds of device images that are stored, saved and restored byte for byte, but do not run here.

use super::KindInfo;
use super::image_module::stored_image_module;
use crate::Result;
use crate::function::Function;
use crate::module::Module;
use crate::value::Bytes;

/// The kinds, and the runtimes that run them.
macro_rules! stored_kinds {
    ($($kind:literal $why:literal;)*) => {
        &[$(KindInfo {
            kind: $kind,
            loader: || Function::from_fn(|payload: Bytes| -> Result<Module> { stored_image_module($kind, payload, $why) }),
        }),*]
    };
}

/// Kinds that this crate does not have code for.
#[cfg(feature = "embedded")]
pub(in crate::module) const FOREIGN: &[KindInfo] = stored_kinds! {
    "hip" "it needs an AMD GPU with ROCm, and Kernpack has no code for these; load the library with an Apache TVM that was built with \
        USE_ROCM=ON";
    "rocm" "it needs an AMD GPU with ROCm, and Kernpack has no code for these; load the library with an Apache TVM that was built \
        with USE_ROCM=ON";
    "vulkan" "it needs a Vulkan device, and Kernpack has no code for these; load the library with an Apache TVM that was built with \
        USE_VULKAN=ON";
    "metal" "it needs a GPU of Apple's, and Kernpack has no code for these; load the library with an Apache TVM that was built with \
        USE_METAL=ON on macOS";
    "webgpu" "it needs a web browser, and Kernpack has no code for these; load the library with Apache TVM's runtime for the web \
        (tvmjs)";
};

/// The substitute for the kind `cuda` without the Cargo feature.
#[cfg(not(feature = "cuda"))]
pub(in crate::module) const CUDA: &[KindInfo] = stored_kinds! {
    "cuda" "the kernpack that loaded it was built without its feature `cuda`; build the program, or the library, that loads it with this feature";
};

/// The substitute for the kind `opencl` without the Cargo feature.
#[cfg(not(feature = "opencl"))]
pub(in crate::module) const OPENCL: &[KindInfo] = stored_kinds! {
    "opencl" "the kernpack that loaded it was built without its feature `opencl`; build the program, or the library, that loads it with this feature";
};
