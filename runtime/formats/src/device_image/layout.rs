use crate::OWN_KIND_PREFIX;

/// The payload layout of a kind of device module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Format, kernels, one piece of code.
    Whole,
    /// Format, kernels, the code of each kernel.
    Each,
    /// Kernels, the code of each kernel: `webgpu`, whose format is always WGSL.
    EachWgsl,
}

/// The format of webgpu images, which is not stored in their bytes.
pub(super) const WGSL: &str = "wgsl";

impl Layout {
    /// The layout of a module kind; `None` for kinds that are not device images.
    pub(super) fn of(kind: &str) -> Option<Self> {
        match kind.strip_prefix(OWN_KIND_PREFIX).unwrap_or(kind) {
            "cuda" | "hip" | "rocm" | "opencl" => Some(Self::Whole),
            "vulkan" | "metal" => Some(Self::Each),
            "webgpu" => Some(Self::EachWgsl),
            _ => None,
        }
    }
}
