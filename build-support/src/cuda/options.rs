use std::path::PathBuf;

/// The compiler of CUDA C++ device code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CudaCompiler {
    /// nvcc if it is installed, else NVRTC (with the Cargo feature `nvrtc`), else the kernels are
    /// not compiled.
    #[default]
    Auto,
    /// nvcc of a CUDA toolkit, from `NVCC`, `CUDA_HOME`, `CUDA_PATH` or `PATH`.
    Nvcc,
    /// The library `libnvrtc`, which needs neither a toolkit nor a host compiler: the Python
    /// package `nvidia-cuda-nvrtc` is enough. The build script loads it from `CUDA_HOME`,
    /// `CUDA_PATH` or the system's library folders. It compiles only device code: a source for it
    /// cannot include headers of the C++ library.
    Nvrtc,
}

/// Options for compiling one CUDA kernel. See [`Library::cuda_with`](crate::Library::cuda_with).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "options are returned, not changed in place"]
pub struct CudaOptions {
    pub(crate) architectures: Vec<String>,
    pub(crate) ptx_floor: Option<String>,
    pub(crate) flags: Vec<String>,
    pub(crate) defines: Vec<(String, Option<String>)>,
}

impl CudaOptions {
    /// Compiles this kernel for a GPU architecture, such as `"sm_80"` or `"90a"`. The first call
    /// replaces the list of the library. Further calls add to it.
    pub fn arch(mut self, architecture: impl Into<String>) -> Self {
        self.architectures.push(architecture.into());
        self
    }

    /// Sets the architecture of this kernel's PTX. See
    /// [`Library::cuda_ptx_floor`](crate::Library::cuda_ptx_floor).
    pub fn ptx_floor(mut self, architecture: impl Into<String>) -> Self {
        self.ptx_floor = Some(architecture.into());
        self
    }

    /// Adds a compiler option, after those of the library.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Defines a preprocessor macro, after those of the library. `None` defines it without a value.
    pub fn define<'a>(mut self, name: impl Into<String>, value: impl Into<Option<&'a str>>) -> Self {
        self.defines.push((name.into(), value.into().map(str::to_owned)));
        self
    }
}

/// The language of a CUDA input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CudaLanguage {
    Cuda,
    LlvmIr,
}

/// A source of device code.
#[derive(Clone, Debug)]
pub(crate) struct CudaInput {
    pub(crate) path: PathBuf,
    pub(crate) language: CudaLanguage,
    pub(crate) options: CudaOptions,
}

/// All CUDA settings of a library.
#[derive(Clone, Debug, Default)]
pub(crate) struct CudaInputs {
    pub(crate) inputs: Vec<CudaInput>,
    /// The options of kernels that do not set their own.
    pub(crate) options: CudaOptions,
    pub(crate) compiler: CudaCompiler,
    pub(crate) detect_gpu: bool,
}

impl CudaInputs {
    pub(crate) fn add(&mut self, path: PathBuf, language: CudaLanguage, options: CudaOptions) {
        self.inputs.push(CudaInput { path, language, options });
    }
}
