//! Kinds of device images that are kept, saved and restored byte for byte, but do not run here.

use super::image_module::kept_image_module;
use super::{KindInfo, Module};
use crate::Result;
use crate::function::Function;
use crate::value::Bytes;

/// The kinds, and what runs them.
macro_rules! kept_kinds {
    ($($item:ident $kind:literal $why:literal;)*) => {$(
        #[linkme::distributed_slice(crate::registration::KERNPACK_KINDS_V1)]
        static $item: KindInfo = KindInfo {
            kind: $kind,
            loader: || Function::from_fn(|payload: Bytes| -> Result<Module> { kept_image_module($kind, payload, $why) }),
        };
    )*};
}

#[cfg(feature = "embedded")]
kept_kinds! {
    HIP "hip" "it needs an AMD GPU with ROCm, and Kernpack has no code for these; load the library with an Apache TVM that was built \
        with USE_ROCM=ON";
    ROCM "rocm" "it needs an AMD GPU with ROCm, and Kernpack has no code for these; load the library with an Apache TVM that was \
        built with USE_ROCM=ON";
    VULKAN "vulkan" "it needs a Vulkan device, and Kernpack has no code for these; load the library with an Apache TVM that was built \
        with USE_VULKAN=ON";
    METAL "metal" "it needs a GPU of Apple's, and Kernpack has no code for these; load the library with an Apache TVM that was built \
        with USE_METAL=ON on macOS";
    WEBGPU "webgpu" "it needs a web browser, and Kernpack has no code for these; load the library with Apache TVM's runtime for the \
        web (tvmjs)";
}

#[cfg(not(feature = "cuda"))]
kept_kinds! {
    CUDA "cuda" "the kernpack that loaded it was built without its feature `cuda`; build the program, or the library, that loads it with this feature";
}

#[cfg(not(feature = "opencl"))]
kept_kinds! {
    OPENCL "opencl" "the kernpack that loaded it was built without its feature `opencl`; build the program, or the library, that loads it with this feature";
}
