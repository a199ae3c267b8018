//! The builder that `build.rs` calls.

mod stages;

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::environment::Environment;
use crate::cargo::lines::Lines;
use crate::cuda::options::{CudaCompiler, CudaInputs, CudaLanguage, CudaOptions};
#[cfg(feature = "llvm")]
use crate::llvm::LlvmInput;
use crate::outputs::progress;
use crate::pack::module::Module;
use crate::session::{Session, check_defines};
use crate::{Error, Result};

/// The kernels of a crate, and how to compile them. See the [crate documentation](crate).
///
/// Paths are relative to the package. A failed kernel does not hide the others: [`Library::build`]
/// reports all errors.
#[derive(Default)]
#[must_use = "nothing is compiled before .build()"]
pub struct Library {
    c: Vec<PathBuf>,
    c_headers: Vec<crate::c::bridge::Header>,
    #[cfg(feature = "llvm")]
    llvm: Vec<LlvmInput>,
    #[cfg(not(feature = "llvm"))]
    llvm: Vec<PathBuf>,
    cuda: CudaInputs,
    opencl: Vec<PathBuf>,
    opencl_options: Vec<String>,
    cpu: Option<String>,
    levels: Option<Vec<String>>,
    includes: Vec<PathBuf>,
    defines: Vec<(String, Option<String>)>,
    flags: Vec<String>,
    imports: Vec<Module>,
    compress: bool,
    signatures: Vec<(String, String)>,
    compile_commands: Option<PathBuf>,
    #[cfg(feature = "compiler")]
    te: Vec<Result<kernpack_compiler::Kernel, kernpack_compiler::CompileError>>,
    #[cfg(feature = "compiler")]
    devices: Option<Vec<String>>,
    #[cfg(feature = "compiler")]
    dump_passes: bool,
    #[cfg(feature = "graph")]
    models: Vec<crate::models::Model>,
}

impl Library {
    /// Creates a library without kernels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds C (`.c`) and C++ (`.cc`, `.cpp`, `.cxx`, `.c++`, `.C`) files.
    ///
    /// The compiler that the `cc` crate finds compiles them with -O3. `CC`, `CFLAGS`, `CXX`,
    /// `CXXFLAGS` and their variants per target are respected. A file may contain no kernels and
    /// only define functions that other files use.
    pub fn c<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.c.extend(paths.into_iter().map(|path| path.as_ref().to_owned()));
        self
    }

    /// Adds kernels for plain C functions that a header declares, without handwritten kernels
    /// around them. The functions are in a file of [`Library::c`], or in a library that the build
    /// script links.
    ///
    /// ```no_run
    /// # fn main() -> kernpack_build::Result<()> {
    /// kernpack_build::Library::new()
    ///     .c(["vendor/fft.c"])
    ///     .c_header("vendor/fft.h", ["fft_init", "fft_run(samples[n], spectrum[2*n+2], n)"])
    ///     .build()
    /// # }
    /// ```
    ///
    /// A parameter is a number, a `bool`, an enum or a pointer to numbers, which becomes a tensor;
    /// the result is a number, a `bool` or nothing. The number of elements behind a pointer (bytes,
    /// for `void*`) is given in brackets: an integer, the name of an integer parameter, or products
    /// and sums of these. An array parameter (`double x[4]`) has its own size. The kernel checks
    /// the type, device and size of each tensor and the range of each integer before it calls the
    /// function. Callers must uphold all other requirements of the function.
    ///
    /// The header is searched for in the package and in the folders of [`Library::include`]. It is
    /// parsed as text, with its own typedefs. Types of other headers and types hidden by macros are
    /// reported as errors.
    #[track_caller]
    pub fn c_header<S: Into<String>>(mut self, path: impl AsRef<Path>, functions: impl IntoIterator<Item = S>) -> Self {
        let functions = functions.into_iter().map(Into::into).collect();
        let caller = std::panic::Location::caller();
        let at = format!("{}:{}", caller.file(), caller.line());
        self.c_headers.push(crate::c::bridge::Header { at, path: path.as_ref().to_owned(), functions });
        self
    }

    /// Adds files of LLVM IR, text or bitcode. LLVM verifies them, optimizes them with
    /// `default<O3>` and compiles them for the target. Their target triple and data layout are
    /// replaced.
    pub fn llvm_ir<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        let paths = paths.into_iter().map(|path| path.as_ref().to_owned());
        #[cfg(feature = "llvm")]
        self.llvm.extend(paths.map(LlvmInput::File));
        #[cfg(not(feature = "llvm"))]
        self.llvm.extend(paths);
        self
    }

    /// Adds a module that a closure builds with [`inkwell`]. It is treated like a file of LLVM IR.
    ///
    /// ```no_run
    /// use kernpack_build::inkwell::AddressSpace;
    ///
    /// # fn main() -> kernpack_build::Result<()> {
    /// kernpack_build::Library::new()
    ///     .llvm(|context, module| {
    ///         let (i32, ptr) = (context.i32_type(), context.ptr_type(AddressSpace::default()));
    ///         let packed = i32.fn_type(&[ptr.into(), ptr.into(), i32.into(), ptr.into()], false);
    ///         let function = module.add_function("__tvm_ffi_nothing", packed, None);
    ///         let builder = context.create_builder();
    ///         builder.position_at_end(context.append_basic_block(function, "entry"));
    ///         builder.build_return(Some(&i32.const_zero()))?;
    ///         Ok(())
    ///     })
    ///     .build()
    /// # }
    /// ```
    #[cfg(feature = "llvm")]
    #[track_caller]
    pub fn llvm<F>(mut self, build: F) -> Self
    where
        F: for<'ctx> FnOnce(&'ctx inkwell::context::Context, &inkwell::module::Module<'ctx>) -> Result<()> + 'static,
    {
        self.llvm.push(LlvmInput::Builder(Box::new(build), std::panic::Location::caller()));
        self
    }

    /// Adds a kernel that is written as tensor expressions: the computation of each element, in
    /// Rust. Its schedule follows from rules for the target, one for each level of
    /// [`Self::multiversion`], unless the closure sets one.
    ///
    /// ```no_run
    /// use kernpack_build::te::*;
    ///
    /// # fn main() -> kernpack_build::Result<()> {
    /// kernpack_build::Library::new()
    ///     .te("dense_relu", |k| {
    ///         let m = k.size("m");
    ///         let a = k.input("a", (&m, 784), F32);
    ///         let w = k.input("w", (512, 784), F32);
    ///         let r = reduce_axis(0, 784, "r");
    ///         let c = compute((&m, 512), |[i, j]| sum(a.at([&i, &r]) * w.at([&j, &r]), &r));
    ///         k.output("out", compute((&m, 512), |[i, j]| c.at([&i, &j]).max(0.0)));
    ///         Ok(())
    ///     })
    ///     .multiversion(["x86-64-v3", "x86-64-v4"])
    ///     .build()
    /// # }
    /// ```
    ///
    /// The library has a function `kernels::typed::dense_relu(&a, &w, &mut out)`, and the packed
    /// function `dense_relu(a, w, out)` for every other language. Each call checks types, shapes,
    /// strides and alignment of the arguments. Errors in the expressions and the schedule are
    /// errors of [`Self::build`], with their lines in the build script.
    #[cfg(feature = "compiler")]
    #[track_caller]
    pub fn te<F>(mut self, name: &str, build: F) -> Self
    where
        F: FnOnce(&mut kernpack_compiler::Kernel) -> kernpack_compiler::Result<()>,
    {
        let mut kernel = kernpack_compiler::Kernel::new(name);
        let made = build(&mut kernel);
        let checked = kernel.check();
        self.te.push(match (made, checked) {
            (Ok(()), Ok(())) => Ok(kernel),
            (Err(error), Ok(())) | (Ok(()), Err(error)) => Err(error),
            (Err(first), Err(second)) => {
                Err(kernpack_compiler::CompileError::all(vec![first, second]).expect("two errors"))
            }
        });
        self
    }

    /// Compiles each [`Self::te`] kernel also for these kinds of devices: `"opencl"`. Every kernel
    /// has a version for CPUs, `"cpu"`.
    ///
    /// ```no_run
    /// use kernpack_build::te::*;
    ///
    /// # fn main() -> kernpack_build::Result<()> {
    /// kernpack_build::Library::new()
    ///     .te("double", |k| {
    ///         let n = k.size("n");
    ///         let x = k.input("x", [&n], F32);
    ///         k.output("out", compute([&n], |[i]| x.at([&i]) * 2.0));
    ///         Ok(())
    ///     })
    ///     .devices(["opencl"])
    ///     .build()
    /// # }
    /// ```
    ///
    /// A call runs on the device of its tensors, in the current stream there, with the checks that
    /// it has on a CPU. Tensors on different devices, or on one that the kernel was not built for,
    /// are an error that lists the devices. One thread computes each element, and all elements of a
    /// reduction, unless the kernel has a schedule for the device (`k.schedule_for("opencl", ..)`).
    /// `k.devices([..])` selects the devices of one kernel.
    ///
    /// The crate needs kernpack's feature `opencl`. The library contains OpenCL C, which is checked
    /// while building like that of [`Self::opencl`], and compiled at the first call on a device.
    #[cfg(feature = "compiler")]
    pub fn devices<S: Into<String>>(mut self, kinds: impl IntoIterator<Item = S>) -> Self {
        self.devices.get_or_insert_default().extend(kinds.into_iter().map(Into::into));
        self
    }

    /// Writes the text of each [`Self::te`] kernel and of each model's graph after each pass to
    /// files that `cargo kernpack outputs` lists. The kernels are also verified after each pass. If
    /// a pass fails, the error names the folder with the texts before it.
    /// `KERNPACK_DUMP_PASSES=1` has the same effect.
    #[cfg(feature = "compiler")]
    pub fn dump_passes(mut self, yes: bool) -> Self {
        self.dump_passes = yes;
        self
    }

    /// Adds a model: an ONNX file, compiled with its weights into a function of the library that
    /// takes the inputs and then the outputs of the model. The function has the name of the file.
    ///
    /// ```no_run
    /// # fn main() -> kernpack_build::Result<()> {
    /// kernpack_build::Library::new().model("digits.onnx").multiversion(["x86-64-v3", "x86-64-v4"]).build()
    /// # }
    /// ```
    ///
    /// The library has a function `kernels::typed::digits(&image, &mut scores)`, and the packed
    /// function `digits(image, scores)` for every other language. Each call checks types and shapes
    /// of the arguments. The library does not need ONNX at run time.
    #[cfg(feature = "graph")]
    pub fn model(self, path: impl AsRef<Path>) -> Self {
        self.model_with(path, |model| model)
    }

    /// [`Self::model`] with options that are not in the file: extents of dimensions, constant
    /// inputs, the selection of outputs.
    ///
    /// ```no_run
    /// # fn main() -> kernpack_build::Result<()> {
    /// kernpack_build::Library::new()
    ///     .model_with("models/resnet18-v2.onnx", |model| model.name("resnet").dim("batch", 1))
    ///     .build()
    /// # }
    /// ```
    #[cfg(feature = "graph")]
    pub fn model_with(
        mut self,
        path: impl AsRef<Path>,
        options: impl FnOnce(crate::models::Model) -> crate::models::Model,
    ) -> Self {
        self.models.push(options(crate::models::Model::new(path.as_ref().to_owned())));
        self
    }

    /// Adds CUDA C++ files. Each becomes a fat binary inside the library; its kernels are the
    /// `extern "C" __global__` functions. The crate needs the feature `cuda` of kernpack: without
    /// it, compiling the crate is an error that names the feature, also on machines without nvcc.
    ///
    /// nvcc is taken from `NVCC`, `CUDA_HOME`, `CUDA_PATH` or `PATH`; [`Self::cuda_compiler`]
    /// selects another compiler. `KERNPACK_CUDA` determines the effect of a missing compiler:
    /// `auto` (the default) is a warning now and an error when the kernel is called, `require` is
    /// an error now, and `off` silently skips CUDA.
    pub fn cuda<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        for path in paths {
            self.cuda.add(path.as_ref().to_owned(), CudaLanguage::Cuda, CudaOptions::default());
        }
        self
    }

    /// Adds one CUDA C++ file with its own options; a file named `.ll` or `.bc` is LLVM IR, as in
    /// [`Self::cuda_llvm_ir`].
    ///
    /// ```no_run
    /// # fn main() -> kernpack_build::Result<()> {
    /// kernpack_build::Library::new()
    ///     .cuda(["kernels/blur.cu"])
    ///     .cuda_with("kernels/gemm.cu", |kernel| kernel.arch("90a").ptx_floor("80").flag("-use_fast_math"))
    ///     .build()
    /// # }
    /// ```
    pub fn cuda_with(mut self, path: impl AsRef<Path>, options: impl FnOnce(CudaOptions) -> CudaOptions) -> Self {
        let path = path.as_ref().to_owned();
        let is_ir = path.extension().is_some_and(|extension| extension == "ll" || extension == "bc");
        let language = if is_ir { CudaLanguage::LlvmIr } else { CudaLanguage::Cuda };
        self.cuda.add(path, language, options(CudaOptions::default()));
        self
    }

    /// Adds GPU kernels in LLVM IR, text or bitcode, which LLVM compiles without a CUDA toolkit.
    ///
    /// A kernel is a function `define ptx_kernel void @name(..)`, or one that `!nvvm.annotations`
    /// names. Functions of libdevice (`__nv_expf`) are linked from the toolkit, which is only
    /// needed for them. If ptxas and fatbinary are installed, the result is checked and becomes a
    /// fat binary with machine code for all architectures; otherwise it is PTX for the lowest
    /// architecture, which drivers compile for the installed GPU.
    pub fn cuda_llvm_ir<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        for path in paths {
            self.cuda.add(path.as_ref().to_owned(), CudaLanguage::LlvmIr, CudaOptions::default());
        }
        self
    }

    /// Selects the compiler of CUDA C++: nvcc or NVRTC.
    pub fn cuda_compiler(mut self, compiler: CudaCompiler) -> Self {
        self.cuda.compiler = compiler;
        self
    }

    /// Sets the architecture of the PTX, such as `"75"`: the oldest GPU that drivers can compile it
    /// for. The default is the lowest architecture of the kernel.
    pub fn cuda_ptx_floor(mut self, architecture: impl Into<String>) -> Self {
        self.cuda.options.ptx_floor = Some(architecture.into());
        self
    }

    /// Compiles CUDA kernels also for the GPUs of the build machine, as nvidia-smi reports them;
    /// only for them if no architecture is set. On a machine without a GPU, this prints a warning
    /// and has no other effect.
    ///
    /// The library then depends on the build machine. Without this call, nvidia-smi is not queried.
    pub fn cuda_detect_gpu(mut self) -> Self {
        self.cuda.detect_gpu = true;
        self
    }

    /// Sets the GPU architectures to compile for, such as `"sm_80"`, `"90"` or `"90a"`.
    ///
    /// Every architecture gets machine code. The lowest also gets PTX, the floor from which a
    /// driver compiles for newer GPUs. The default list is 75, 80, 90, 100 and 120 as far as the
    /// toolkit supports them, so the floor is Turing. Only [`Self::cuda_detect_gpu`] queries the
    /// GPU of the build machine.
    pub fn cuda_arch<S: Into<String>>(mut self, architectures: impl IntoIterator<Item = S>) -> Self {
        self.cuda.options.architectures.extend(architectures.into_iter().map(Into::into));
        self
    }

    /// Adds a CUDA compiler option for all kernels in CUDA C++.
    pub fn cuda_flag(mut self, flag: impl Into<String>) -> Self {
        self.cuda.options.flags.push(flag.into());
        self
    }

    /// Adds a module of any kind to the library, with its imports. A module that is imported more
    /// than once is stored once.
    ///
    /// The program that loads the library needs a loader of the kind. The crate itself can register
    /// one, as a packed function named `ffi.Module.load_from_bytes.<kind>`.
    ///
    /// ```no_run
    /// use kernpack_build::{Library, Module};
    ///
    /// # fn main() -> kernpack_build::Result<()> {
    /// Library::new().import(&Module::from_bytes("my.table", vec![1, 2, 3])).build()
    /// # }
    /// ```
    pub fn import(mut self, module: &Module) -> Self {
        self.imports.push(module.clone());
        self
    }

    /// Compresses the modules of the library, including device images, if that makes them smaller.
    /// This needs the feature `zstd` of `kernpack` and of this crate. The modules are decompressed
    /// when the library is loaded.
    pub fn compress(mut self, yes: bool) -> Self {
        self.compress = yes;
        self
    }

    /// Adds OpenCL C files. The library contains each as source, which is compiled for a device on
    /// the first call of one of its kernels there. Its kernels are the `__kernel` functions; their
    /// parameters are read from the text. A `__local` pointer may be the last parameter; the launch
    /// sets its size (`dynamic_shared_memory`).
    ///
    /// Building does not need OpenCL. With this crate's feature `opencl`, and if there is a device,
    /// its compiler also checks the sources, in a separate process. Errors of all sources are
    /// errors of the build, with file and line. If the compilers of only some devices reject a
    /// source, it is a warning. `KERNPACK_OPENCL` determines the effect of a missing device: `auto`
    /// (the default) ignores it, `require` is an error, and `off` checks no device.
    ///
    /// The crate needs kernpack's feature `opencl`. A device's compiler cannot read files, so the
    /// headers that a source includes (next to it, or in a folder of [`Library::include`]) and the
    /// macros of [`Library::define`] are stored in the text.
    pub fn opencl<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.opencl.extend(paths.into_iter().map(|path| path.as_ref().to_owned()));
        self
    }

    /// Adds an option for the compilers of OpenCL devices, such as `-cl-fast-relaxed-math`. It is
    /// stored with the code, in a comment in its first line.
    pub fn opencl_option(mut self, option: impl Into<String>) -> Self {
        self.opencl_options.push(option.into());
        self
    }

    /// Compiles CPU kernels for this CPU, by LLVM's name: `"x86-64-v3"`, `"skylake"`, `"native"`.
    ///
    /// The default is the CPU in rustc's flags (`-C target-cpu` in `RUSTFLAGS` or the cargo
    /// configuration), or else the target's baseline. `"native"` is an error if the target is
    /// another machine.
    pub fn cpu(mut self, name: impl Into<String>) -> Self {
        self.cpu = Some(name.into());
        self
    }

    /// Compiles every CPU kernel once more for each of these levels of x86-64: `"x86-64-v2"`,
    /// `"x86-64-v3"`, `"x86-64-v4"`, `"x86-64-v4-vnni"`. When the library is loaded, it selects the
    /// highest version that the CPU can run, once. The baseline ([`Self::cpu`]) is always included.
    ///
    /// ```no_run
    /// # fn main() -> kernpack_build::Result<()> {
    /// kernpack_build::Library::new().c(["kernels/blur.c"]).multiversion(["x86-64-v3", "x86-64-v4"]).build()
    /// # }
    /// ```
    ///
    /// Kernels keep their names, and a call costs one additional jump. Each version has its own
    /// copy of everything that the files define, including variables. For targets other than x86-64
    /// with ELF objects there is one version, and cargo's `-vv` shows a line about it.
    /// `KERNPACK_CPU_LEVEL` in the environment of the program that loads the library sets the
    /// highest version to select (`baseline`, or a level). `kernels::blur.cpu_level()` and the
    /// library's function `<crate>.cpu_level` return the selected version.
    pub fn multiversion<S: Into<String>>(mut self, levels: impl IntoIterator<Item = S>) -> Self {
        self.levels.get_or_insert_default().extend(levels.into_iter().map(Into::into));
        self
    }

    /// Adds a folder to the header search path of C, C++, CUDA and OpenCL C. The folder of
    /// `kernpack/kernel.h` is always included.
    pub fn include(mut self, folder: impl AsRef<Path>) -> Self {
        self.includes.push(folder.as_ref().to_owned());
        self
    }

    /// Defines a preprocessor macro for C, C++, CUDA and OpenCL C; `None` defines it without a
    /// value.
    pub fn define<'a>(mut self, name: impl Into<String>, value: impl Into<Option<&'a str>>) -> Self {
        self.defines.push((name.into(), value.into().map(str::to_owned)));
        self
    }

    /// Adds an option for the C and C++ compilers.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Declares the signature of a kernel whose source does not contain it. The kernel becomes a
    /// function of `kernels::typed`, and hosts get its types. A line in the comment before a kernel
    /// does the same:
    ///
    /// ```c
    /// /* Box blur.
    ///  *
    ///  * kernpack: blur(src: Tensor[float32], dst: mut Tensor[float32], radius: int) -> None
    ///  */
    /// KERNPACK_KERNEL(blur) { ... }
    /// ```
    ///
    /// Types are `int`, `int8` to `int64`, `uint8` to `uint64`, `float`, `float16` to `float64`,
    /// `bool`, `str`, `bytes`, `Tensor`, `Tensor[float32]` or another element type,
    /// `mut Tensor[..]` for a tensor that the kernel writes to, `Device`, `DataType`, `Function`,
    /// `Any`, and for a result `None`.
    ///
    /// Kernels in CUDA C++ and OpenCL C do not need a declaration: their parameters contain the
    /// types.
    ///
    /// ```no_run
    /// # fn main() -> kernpack_build::Result<()> {
    /// kernpack_build::Library::new()
    ///     .llvm_ir(["kernels/sobel.bc"])
    ///     .signature("sobel", "(src: Tensor[float32], dst: mut Tensor[float32])")
    ///     .build()
    /// # }
    /// ```
    pub fn signature(mut self, kernel: impl Into<String>, declaration: impl Into<String>) -> Self {
        self.signatures.push((kernel.into(), declaration.into()));
        self
    }

    /// Also writes the commands that compile C, C++ and CUDA C++ to a file of the package, as a
    /// [JSON Compilation Database](https://clang.llvm.org/docs/JSONCompilationDatabase.html), which
    /// clangd and clang-tidy read. By default it is only in `OUT_DIR`. `KERNPACK_COMPILE_COMMANDS`
    /// sets a file for all packages of a workspace.
    ///
    /// The path is relative to the package. Entries of other packages and of other tools are kept.
    /// The file is only written when it changes, and never makes cargo rebuild.
    pub fn compile_commands(mut self, path: impl AsRef<Path>) -> Self {
        self.compile_commands = Some(path.as_ref().to_owned());
        self
    }

    /// Compiles everything, writes the file that `kernpack::library!()` includes, and prints the
    /// link and tracking instructions for cargo.
    ///
    /// # Errors
    /// Returns all problems of all sources. cargo shows them before the other output of the build
    /// script, and the build fails even if the result is ignored.
    pub fn build(self) -> Result<()> {
        let outcome = self.build_all();
        if let Err(error) = &outcome {
            let mut lines = Lines::default();
            lines.errors(&error.to_string());
            print!("{lines}");
        }
        outcome
    }

    fn build_all(self) -> Result<()> {
        // It already ran before `main`, unless a linker left it out.
        #[cfg(feature = "opencl")]
        crate::opencl::answer_as_worker();
        let environment = Environment::of_process();
        // The output there does not affect the build, so cargo need not track the variable.
        progress::open(
            environment.cargo_optional("KERNPACK_PROGRESS").filter(|file| !file.is_empty()).map(PathBuf::from),
        )?;
        let mut session = Session::new(environment, self.cpu.as_deref())?;
        session.includes = self.includes.clone();
        session.includes.push(header_folder(&session)?);
        check_defines(&self.defines)?;
        session.defines = self.defines.clone();
        let lines = stages::run(self, &session);
        session.cache.trim();
        if session.cache.hits() > 0 {
            progress::line(&format!("{} results were in the cache", session.cache.hits()));
        }
        // Also after a failure, so that cargo knows the dependencies of the failure.
        print!("{}", tracking(&session));
        print!("{}", lines?);
        Ok(())
    }
}

/// Writes the headers of this crate into `out_dir`, so that no path of the registry is needed.
fn header_folder(session: &Session) -> Result<PathBuf> {
    let folder = session.work_dir.join("include");
    let header = folder.join("kernpack").join("kernel.h");
    let written = fs::create_dir_all(folder.join("kernpack"))
        .and_then(|()| fs::write(&header, include_str!("../../include/kernpack/kernel.h")));
    written.map_err(|e| Error::new(format!("{}: cannot be written: {e}", header.display())))?;
    Ok(folder)
}

/// The lines that make cargo rerun the build script.
fn tracking(session: &Session) -> Lines {
    let mut lines = Lines::default();
    for path in session.tracker.paths().into_iter().chain(session.watch.paths()) {
        lines.rerun_if_changed(&path);
    }
    for name in session.environment.tracked() {
        lines.rerun_if_env_changed(&name);
    }
    lines
}
