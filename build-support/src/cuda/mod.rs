//! Device code for NVIDIA GPUs: CUDA C++ compiled by nvcc or NVRTC, and LLVM IR compiled by LLVM.

pub(crate) mod architecture;
#[cfg(any(feature = "llvm", feature = "nvrtc"))]
mod assembler;
mod gpu;
mod nvcc;
#[cfg(feature = "llvm")]
mod nvptx;
#[cfg(feature = "nvrtc")]
mod nvrtc;
pub(crate) mod options;
pub(crate) mod ptx;
mod toolkit;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cuda::architecture::{Architecture, Architectures};
#[cfg(any(feature = "llvm", feature = "nvrtc"))]
use crate::cuda::assembler::{Assembler, Piece};
use crate::cuda::gpu::Gpus;
use crate::cuda::nvcc::Nvcc;
#[cfg(feature = "llvm")]
use crate::cuda::nvptx::Nvptx;
#[cfg(feature = "nvrtc")]
use crate::cuda::nvrtc::Nvrtc;
use crate::cuda::options::{CudaCompiler, CudaInput, CudaInputs, CudaLanguage};
use crate::cuda::ptx::PtxKernel;
use crate::cuda::toolkit::Toolkit;
use crate::describe::device_source;
use crate::session::Session;
use crate::tool::policy::Policy;
use crate::{Error, Result, tool};

/// A compiled CUDA input.
pub(crate) struct CudaImage {
    pub(crate) source: String,
    /// The format of the code: `fatbin` or `ptx`.
    pub(crate) format: &'static str,
    /// The code, in the working folder.
    pub(crate) code: PathBuf,
    pub(crate) kernels: Vec<PtxKernel>,
}

/// The result of compiling the CUDA inputs.
#[derive(Default)]
pub(crate) struct CudaOutcome {
    pub(crate) images: Vec<CudaImage>,
    pub(crate) skipped: Option<Skipped>,
    /// Warnings that are printed during a build.
    pub(crate) warnings: String,
}

/// Inputs that were not compiled.
pub(crate) struct Skipped {
    /// A sentence for callers of the kernels.
    pub(crate) reason: String,
    /// The inputs by name.
    pub(crate) sources: Vec<String>,
    /// True if the user asked to skip them.
    pub(crate) is_wanted: bool,
    pub(crate) kernels: Vec<SkippedKernel>,
}

/// A kernel of an input that was not compiled, found in the source.
pub(crate) struct SkippedKernel {
    pub(crate) name: String,
    pub(crate) source: String,
}

/// The available compilers.
struct Compilers<'a> {
    /// The compiler, or the reason why there is none.
    cuda: Result<CudaCompilers<'a>, String>,
    #[cfg(feature = "llvm")]
    llvm: Option<Nvptx>,
    #[cfg(any(feature = "llvm", feature = "nvrtc"))]
    assembler: Option<Assembler>,
}

/// The compilers of CUDA C++.
enum CudaCompilers<'a> {
    Nvcc(Nvcc<'a>),
    #[cfg(feature = "nvrtc")]
    Nvrtc(Nvrtc),
}

/// Compiles every input, even if one fails.
pub(crate) fn compile(session: &Session, cuda: &CudaInputs) -> Result<CudaOutcome> {
    let policy = Policy::of(&session.environment, "KERNPACK_CUDA")?;
    if cuda.inputs.is_empty() {
        return Ok(CudaOutcome::default());
    }
    // Errors in the build script are reported on every machine, with or without a compiler.
    Error::collect(cuda.inputs.iter().map(|input| check(session, input)))?;
    let mut wanted = parse(&cuda.options.architectures, ".cuda_arch(..)")?;
    for input in &cuda.inputs {
        parse(&input.options.architectures, &format!("{}: .arch(..)", session.name_of(&input.path)))?;
        floor(session, cuda, input)?;
    }
    if policy == Policy::Off {
        let all: Vec<&CudaInput> = cuda.inputs.iter().collect();
        let skipped = Some(skip(session, &all, "KERNPACK_CUDA=off was set".to_owned(), true)?);
        return Ok(CudaOutcome { skipped, ..CudaOutcome::default() });
    }
    let mut outcome = CudaOutcome::default();
    if cuda.detect_gpu {
        match gpu::detect(session)? {
            Gpus::Found(found) => wanted.extend(found),
            Gpus::None(reason) => {
                outcome.warnings = format!(".cuda_detect_gpu() found no GPU: {reason}\n");
            }
        }
    }
    let toolkit = Toolkit::find(session)?;
    let has = |language: CudaLanguage| cuda.inputs.iter().any(|input| input.language == language);
    let found = match has(CudaLanguage::Cuda) {
        true => find_compiler(session, &toolkit, cuda.compiler)?,
        false => Err("no source needs one".to_owned()),
    };
    // nvcc includes its own assembler.
    #[cfg(any(feature = "llvm", feature = "nvrtc"))]
    let needs_assembler =
        has(CudaLanguage::LlvmIr) || matches!(&found, Ok(found) if !matches!(found, CudaCompilers::Nvcc(_)));
    let compilers = Compilers {
        cuda: found,
        #[cfg(feature = "llvm")]
        llvm: has(CudaLanguage::LlvmIr).then(|| Nvptx::new(session, &toolkit)),
        #[cfg(any(feature = "llvm", feature = "nvrtc"))]
        assembler: if needs_assembler { Assembler::find(session, &toolkit)? } else { None },
    };
    let mut inputs: Vec<(usize, &CudaInput)> = cuda.inputs.iter().enumerate().collect();
    if let Err(reason) = &compilers.cuda {
        let (left_out, rest) = inputs.into_iter().partition(|(_, input)| input.language == CudaLanguage::Cuda);
        inputs = rest;
        let left_out: Vec<(usize, &CudaInput)> = left_out;
        if let Some((_, first)) = left_out.first() {
            let name = session.name_of(&first.path);
            if policy == Policy::Require {
                return Err(Error::new(format!("{name}: KERNPACK_CUDA=require, but {}", required(reason))));
            }
            let left_out: Vec<&CudaInput> = left_out.into_iter().map(|(_, input)| input).collect();
            outcome.skipped = Some(skip(session, &left_out, reason.clone(), false)?);
        }
    }
    let images = tool::in_parallel(session.jobs, inputs, |(index, input): (usize, &CudaInput)| {
        let source = session.name_of(&input.path);
        let own = parse(&input.options.architectures, &source)?;
        let machine = if own.is_empty() { wanted.clone() } else { own };
        let floor = floor(session, cuda, input)?;
        let machine = match machine.is_empty() {
            true => compilers.default_architectures(session, input.language)?,
            false => machine,
        };
        compilers.image(session, cuda, index, input, &Architectures::new(machine, floor, &source)?)
    });
    for (image, warnings) in Error::collect(images)? {
        outcome.images.push(image);
        outcome.warnings.push_str(&warnings);
    }
    Ok(outcome)
}

/// Checks that an input exists and that its options are valid.
fn check(session: &Session, input: &CudaInput) -> Result<()> {
    session.input(&input.path)?;
    let source = session.name_of(&input.path);
    if input.language != CudaLanguage::LlvmIr {
        return Ok(());
    }
    if !cfg!(feature = "llvm") {
        return Err(Error::new(format!(
            "{source}: kernpack-build was built without its feature `llvm`, so it cannot compile LLVM IR"
        )));
    }
    if !input.options.flags.is_empty() || !input.options.defines.is_empty() {
        return Err(Error::new(format!("{source}: LLVM IR takes no options and no macros, only architectures")));
    }
    Ok(())
}

fn parse(texts: &[String], origin: &str) -> Result<Vec<Architecture>> {
    Error::collect(texts.iter().map(|text| Architecture::parse(text, origin)))
}

/// Returns the requested PTX architecture of an input.
fn floor(session: &Session, cuda: &CudaInputs, input: &CudaInput) -> Result<Option<Architecture>> {
    let source = session.name_of(&input.path);
    let own = input.options.ptx_floor.as_ref().map(|text| (text, format!("{source}: .ptx_floor(..)")));
    let all = cuda.options.ptx_floor.as_ref().map(|text| (text, ".cuda_ptx_floor(..)".to_owned()));
    own.or(all).map(|(text, origin)| Architecture::parse(text, &origin)).transpose()
}

/// The error of `KERNPACK_CUDA=require` if nothing is found.
fn required(reason: &str) -> String {
    if let Some(what) = reason.strip_suffix(" in NVCC, CUDA_HOME, CUDA_PATH or PATH") {
        return format!(
            "{what}; looked at NVCC, CUDA_HOME, CUDA_PATH and PATH. Install the CUDA toolkit, or set CUDA_HOME to its folder"
        );
    }
    format!(
        "{reason}. Install the CUDA toolkit or the Python package nvidia-cuda-nvrtc, or set CUDA_HOME to the folder of one"
    )
}

/// Returns the compiler of CUDA C++, or the reason why there is none.
fn find_compiler<'a>(
    session: &Session,
    toolkit: &'a Toolkit,
    compiler: CudaCompiler,
) -> Result<Result<CudaCompilers<'a>, String>> {
    if let (CudaCompiler::Auto | CudaCompiler::Nvcc, Some(nvcc)) = (compiler, &toolkit.nvcc) {
        return Ok(Ok(CudaCompilers::Nvcc(Nvcc::new(session, nvcc)?)));
    }
    #[cfg(feature = "nvrtc")]
    if let CudaCompiler::Auto | CudaCompiler::Nvrtc = compiler
        && let Some(nvrtc) = Nvrtc::load(session, toolkit)?
    {
        return Ok(Ok(CudaCompilers::Nvrtc(nvrtc)));
    }
    let reason = match compiler {
        CudaCompiler::Nvrtc if !cfg!(feature = "nvrtc") => {
            return Err(Error::new(
                ".cuda_compiler(CudaCompiler::Nvrtc): kernpack-build was built without its feature `nvrtc`",
            ));
        }
        CudaCompiler::Nvrtc => "no libnvrtc was found in CUDA_HOME, CUDA_PATH or where the system keeps libraries",
        CudaCompiler::Auto if cfg!(feature = "nvrtc") => {
            "neither nvcc (in NVCC, CUDA_HOME, CUDA_PATH or PATH) nor libnvrtc (in CUDA_HOME, CUDA_PATH or where the system \
             keeps libraries) was found"
        }
        CudaCompiler::Auto | CudaCompiler::Nvcc => "no nvcc was found in NVCC, CUDA_HOME, CUDA_PATH or PATH",
    };
    Ok(Err(reason.to_owned()))
}

fn skip(session: &Session, inputs: &[&CudaInput], reason: String, is_wanted: bool) -> Result<Skipped> {
    let mut kernels = Vec::new();
    let mut sources = Vec::new();
    for input in inputs {
        let source = session.name_of(&input.path);
        for name in kernel_names(session, input)? {
            kernels.push(SkippedKernel { name, source: source.clone() });
        }
        sources.push(source);
    }
    Ok(Skipped { reason, sources, is_wanted, kernels })
}

fn kernel_names(session: &Session, input: &CudaInput) -> Result<Vec<String>> {
    #[cfg(feature = "llvm")]
    if input.language == CudaLanguage::LlvmIr {
        return nvptx::kernel_names(session, &input.path);
    }
    let declared = device_source::kernels(&read(session, &input.path)?);
    Ok(declared.into_iter().map(|kernel| kernel.name).collect())
}

fn read(session: &Session, path: &Path) -> Result<String> {
    let bytes = fs::read(session.package_dir.join(path))
        .map_err(|e| Error::new(format!("{}: cannot be read: {e}", session.name_of(path))))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Compilers<'_> {
    fn default_architectures(&self, session: &Session, language: CudaLanguage) -> Result<Vec<Architecture>> {
        match (language, &self.cuda) {
            (CudaLanguage::Cuda, Ok(CudaCompilers::Nvcc(nvcc))) => nvcc.default_architectures(session),
            #[cfg(feature = "nvrtc")]
            (CudaLanguage::Cuda, Ok(CudaCompilers::Nvrtc(nvrtc))) => nvrtc.default_architectures(),
            (CudaLanguage::Cuda, Err(reason)) => Err(Error::new(reason.clone())),
            #[cfg(feature = "llvm")]
            (CudaLanguage::LlvmIr, _) => match &self.assembler {
                Some(assembler) => {
                    architecture::defaults(&assembler.known, &assembler.ptxas.path.display().to_string())
                }
                None => parse(&architecture::DEFAULTS.map(str::to_owned), ".cuda_arch(..)"),
            },
            #[cfg(not(feature = "llvm"))]
            (CudaLanguage::LlvmIr, _) => Err(Error::new("LLVM IR needs the feature `llvm`")),
        }
    }

    /// Compiles one input. Returns the image and the warnings of the compiler.
    fn image(
        &self,
        session: &Session,
        cuda: &CudaInputs,
        index: usize,
        input: &CudaInput,
        architectures: &Architectures,
    ) -> Result<(CudaImage, String)> {
        let path = &input.path;
        let source = session.name_of(path);
        #[cfg(feature = "llvm")]
        if let (CudaLanguage::LlvmIr, Some(llvm)) = (input.language, &self.llvm) {
            Nvptx::check(architectures, &source)?;
            let ptx = llvm.ptx(session, index, path, &architectures.floor)?;
            let made = self.assembled(session, index, path, &ptx, architectures, |arch, cubin| {
                let ptx = llvm.ptx(session, index, path, arch)?;
                self.assembler
                    .as_ref()
                    .map_or(Ok(String::new()), |assembler| assembler.assemble(session, &source, &ptx, arch, cubin))
            })?;
            return finish(session, path, &ptx, &[], made);
        }
        let declared = device_source::kernels(&read(session, path)?);
        crate::session::check_defines(&input.options.defines)?;
        let mut flags: Vec<String> = cuda.options.flags.iter().chain(&input.options.flags).cloned().collect();
        flags.extend(input.options.defines.iter().map(|(name, value)| match value {
            Some(value) => format!("-D{name}={value}"),
            None => format!("-D{name}"),
        }));
        match &self.cuda {
            Ok(CudaCompilers::Nvcc(nvcc)) => {
                let flags: Vec<OsString> = flags.into_iter().map(OsString::from).collect();
                let made = nvcc.image(session, architectures, &flags, index, path)?;
                let kernels = kernels(&made.ptx, &declared, &source)?;
                Ok((CudaImage { source, format: "fatbin", code: made.fatbin, kernels }, made.printed))
            }
            #[cfg(feature = "nvrtc")]
            Ok(CudaCompilers::Nvrtc(nvrtc)) => {
                let ptx = session.product("cuda", index, path, "ptx");
                let warnings = nvrtc.compile(session, path, &architectures.floor, true, &flags, &ptx)?;
                let mut made = self.assembled(session, index, path, &ptx, architectures, |arch, cubin| {
                    nvrtc.compile(session, path, arch, false, &flags, cubin)
                })?;
                made.warnings.insert_str(0, &warnings);
                finish(session, path, &ptx, &declared, made)
            }
            Err(reason) => Err(Error::new(format!("{source}: {reason}"))),
        }
    }

    /// Combines PTX and the machine code of `machine_code` for each architecture into one image.
    /// Without fatbinary, the image is the PTX alone.
    #[cfg(any(feature = "llvm", feature = "nvrtc"))]
    fn assembled(
        &self,
        session: &Session,
        index: usize,
        path: &Path,
        ptx: &Path,
        architectures: &Architectures,
        machine_code: impl Fn(&Architecture, &Path) -> Result<String>,
    ) -> Result<Assembled> {
        let mut warnings = String::new();
        let source = session.name_of(path);
        let Some(assembler) = self.assembler.as_ref().filter(|assembler| assembler.can_combine()) else {
            // PTX runs on every GPU from its floor on.
            if let Some(assembler) = &self.assembler {
                let checked = session.product("cuda", index, path, "checked");
                warnings = assembler.assemble(session, &source, ptx, &architectures.floor, &checked)?;
            }
            return Ok(Assembled { format: "ptx", code: ptx.to_owned(), warnings });
        };
        let mut pieces = vec![Piece { architecture: architectures.floor.clone(), file: ptx.to_owned(), is_ptx: true }];
        for arch in &architectures.machine {
            let cubin = session.product("cuda", index, path, &format!("sm_{arch}.cubin"));
            warnings.push_str(&machine_code(arch, &cubin)?);
            pieces.push(Piece { architecture: arch.clone(), file: cubin, is_ptx: false });
        }
        let fatbin = session.product("cuda", index, path, "fatbin");
        assembler.combine(session, &source, &pieces, &fatbin)?;
        Ok(Assembled { format: "fatbin", code: fatbin, warnings })
    }
}

/// An image without its kernels.
#[cfg(any(feature = "llvm", feature = "nvrtc"))]
struct Assembled {
    format: &'static str,
    code: PathBuf,
    warnings: String,
}

/// Reads the kernels from the PTX.
#[cfg(any(feature = "llvm", feature = "nvrtc"))]
fn finish(
    session: &Session,
    path: &Path,
    ptx: &Path,
    declared: &[device_source::SourceKernel],
    made: Assembled,
) -> Result<(CudaImage, String)> {
    let source = session.name_of(path);
    let text = fs::read_to_string(ptx).map_err(|e| Error::new(format!("{source}: its PTX {}: {e}", ptx.display())))?;
    let kernels = kernels(&text, declared, &source)?;
    Ok((CudaImage { source, format: made.format, code: made.code, kernels }, made.warnings))
}

/// Returns the kernels of PTX, at least one.
fn kernels(ptx: &str, declared: &[device_source::SourceKernel], source: &str) -> Result<Vec<PtxKernel>> {
    let kernels = ptx::kernels(ptx, declared, source)?;
    if kernels.is_empty() {
        return Err(Error::new(format!(
            "{source}: defines no kernel; a kernel is a function `extern \"C\" __global__ void <name>(..)`"
        )));
    }
    Ok(kernels)
}
