//! The commands that install missing tools.

/// The command for each package source, or `None` if a source does not have it.
#[derive(Debug)]
pub(super) struct Install {
    pub(super) debian: Option<&'static str>,
    pub(super) fedora: Option<&'static str>,
    pub(super) macos: Option<&'static str>,
    pub(super) pip: Option<&'static str>,
    /// A command that works everywhere.
    pub(super) any: Option<&'static str>,
}

impl Install {
    const NONE: Install = Install { debian: None, fedora: None, macos: None, pip: None, any: None };

    /// Returns the name of each source, for people and for JSON, and the command.
    pub(super) fn ways(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        [
            ("everywhere", "any", self.any),
            ("Debian, Ubuntu", "debian", self.debian),
            ("Fedora", "fedora", self.fedora),
            ("macOS", "macos", self.macos),
            ("pip", "pip", self.pip),
        ]
        .into_iter()
        .filter_map(|(place, key, command)| Some((place, key, command?)))
    }
}

pub(super) static RUST: Install = Install {
    any: Some("curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh    (or: rustup update stable)"),
    ..Install::NONE
};

pub(super) static C: Install = Install {
    debian: Some("apt-get install gcc libc6-dev"),
    fedora: Some("dnf install gcc glibc-devel"),
    macos: Some("xcode-select --install"),
    ..Install::NONE
};

pub(super) static CPP: Install = Install {
    debian: Some("apt-get install g++"),
    fedora: Some("dnf install gcc-c++"),
    macos: Some("xcode-select --install"),
    ..Install::NONE
};

pub(super) static LLVM: Install = Install {
    any: Some("a Rust toolchain of rustup carries it, from 1.95 on: rustup update stable"),
    debian: Some("apt-get install llvm-22-dev    (or newer; older releases: https://apt.llvm.org)"),
    fedora: Some("dnf install llvm-devel    (where that is LLVM 22 or newer)"),
    macos: Some("brew install llvm; export KERNPACK_LLVM_PREFIX=$(brew --prefix llvm)"),
    ..Install::NONE
};

/// Without root and without a GPU. The pinned versions belong together.
pub(super) static NVCC: Install = Install {
    debian: Some("apt-get install nvidia-cuda-toolkit"),
    fedora: Some("dnf install cuda-toolkit    (from https://developer.download.nvidia.com/compute/cuda/repos)"),
    pip: Some(
        "pip install --target cuda --no-deps nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 \
         nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85; export CUDA_HOME=$PWD/cuda/nvidia/cu13",
    ),
    ..Install::NONE
};

pub(super) static CUDA_DRIVER: Install = Install {
    debian: Some("apt-get install nvidia-driver libcuda1    (Ubuntu: ubuntu-drivers install)"),
    fedora: Some("dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda    (from https://rpmfusion.org)"),
    ..Install::NONE
};

pub(super) static NVRTC: Install = Install {
    debian: Some("apt-get install libnvrtc12    (or nvidia-cuda-toolkit)"),
    fedora: Some("dnf install cuda-nvrtc-13-0    (from NVIDIA's repository)"),
    pip: Some("pip install nvidia-cuda-nvrtc==13.0.88; its folder nvidia/cu13/lib belongs into LD_LIBRARY_PATH"),
    ..Install::NONE
};

pub(super) static OPENCL: Install = Install {
    debian: Some(
        "apt-get install ocl-icd-libopencl1 pocl-opencl-icd    (a device on the CPU; GPUs bring their own driver)",
    ),
    fedora: Some("dnf install ocl-icd pocl"),
    ..Install::NONE
};

pub(super) static PYTHON: Install = Install {
    debian: Some("apt-get install python3 python3-venv"),
    fedora: Some("dnf install python3"),
    macos: Some("brew install python"),
    ..Install::NONE
};

pub(super) static TVM_FFI: Install =
    Install { pip: Some("pip install 'apache-tvm-ffi>=0.1.15,<0.2' numpy"), ..Install::NONE };
