//! The compilers of CUDA images other than nvcc, and the options of single kernels.

use std::env;
use std::fs;
use std::path::PathBuf;

use expect_test::expect;
use kernpack::module::device_image::{ArgType, DeviceImage};
use kernpack::module::library_bin::LibraryBin;
use kernpack_skip::skip;

use crate::cuda_kernels::{fake_cuda_home, real_cuda_home};
use crate::library::BuiltLibrary;
use crate::package::Package;

const SCALE: &str = "
define ptx_kernel void @scale(ptr %out, ptr %in, float %factor, i32 %n) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %from = getelementptr float, ptr %in, i32 %thread
  %value = load float, ptr %from
  %scaled = fmul float %value, %factor
  %to = getelementptr float, ptr %out, i32 %thread
  store float %scaled, ptr %to
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
";

/// A kernel that is marked by an annotation, as nvcc and older compilers do.
const ANNOTATED: &str = "
define void @fill(ptr %out, i64 %value) {
  store i64 %value, ptr %out
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @fill, !\"kernel\", i32 1}
";

const EXP: &str = "
define ptx_kernel void @exponential(ptr %x) {
  %value = load float, ptr %x
  %result = call float @__nv_expf(float %value)
  store float %result, ptr %x
  ret void
}
declare float @__nv_expf(float)
";

/// The names of kernels and their argument types.
type Kernels = Vec<(String, Vec<ArgType>)>;

/// Returns the format, the code and the kernels of the images that contain these kernels.
fn images(library: &BuiltLibrary, names: &[&str]) -> Vec<(String, Vec<u8>, Kernels)> {
    let bytes = library.import_tree().expect("exported");
    let tree = LibraryBin::parse(&bytes).unwrap();
    let modules = tree.modules().iter().filter(|module| module.kind().ends_with("cuda"));
    let image = |payload: &[u8]| {
        let image = DeviceImage::parse(payload).unwrap();
        let kernels = image.kernels().iter().map(|kernel| (kernel.name.to_string(), kernel.arg_types.to_vec()));
        (image.format().to_string(), image.code().to_vec(), kernels.collect::<Kernels>())
    };
    let mut images: Vec<_> = modules.map(|module| image(module.payload().unwrap())).collect();
    assert_eq!(images.len(), names.len());
    images.sort_by_key(|(_, _, kernels)| names.iter().position(|name| *name == kernels[0].0));
    images
}

fn text(code: &[u8]) -> String {
    String::from_utf8_lossy(code).into_owned()
}

#[test]
fn llvm_needs_no_toolkit() {
    let package = Package::new("ptx-only", ".cuda_llvm_ir([\"scale.ll\", \"fill.ll\"]).cuda_arch([\"90\", \"80\"])")
        .file("scale.ll", SCALE)
        .file("fill.ll", ANNOTATED);
    let found = images(&package.build_with(&["build"], &[("KERNPACK_CUDA", "require")]), &["scale", "fill"]);
    use ArgType as T;
    let [(format, scale, kernels), (_, fill, fill_kernels)] = &found[..] else { panic!("{}", found.len()) };
    assert_eq!(format, "ptx");
    assert_eq!(*kernels, [("scale".to_owned(), vec![T::POINTER, T::POINTER, T::FLOAT32, T::INT32])]);
    assert_eq!(*fill_kernels, [("fill".to_owned(), vec![T::POINTER, T::INT64])]);
    let scale = text(scale);
    assert!(scale.contains(".target sm_80\n") && scale.contains(".visible .entry scale("), "{scale}");
    assert!(text(fill).contains(".visible .entry fill("), "{}", text(fill));
    assert!(!package.cargo(&["build", "-v"], &[("KERNPACK_CUDA", "require")]).did_work());

    package.write(
        "build.rs",
        &fs::read_to_string(package.dir.join("build.rs"))
            .unwrap()
            .replace("build()", "cuda_ptx_floor(\"sm_75\").build()"),
    );
    let found = images(&package.build(), &["scale", "fill"]);
    assert!(text(&found[0].1).contains(".target sm_75\n"));
    // Without CUDA, the library still has the names.
    let library = package.build_with(&["build"], &[("KERNPACK_CUDA", "off")]);
    assert_eq!(library.packed_functions(), ["fill", "scale"]);
    assert_eq!(library.import_tree(), None);
}

#[test]
fn mistakes_in_device_ir_are_all_named() {
    let calls = ".cuda_llvm_ir([\"text.ll\", \"open.ll\", \"host.ll\", \"exp.ll\", \"value.ll\", \"good.ll\"])\
                 .cuda_with(\"arch.ll\", |kernel| kernel.arch(\"sm_91\"))";
    let package = Package::new("device-mistakes", calls)
        .file("text.ll", "define void @f(nothing) {\n")
        .file("open.ll", "define ptx_kernel void @open(ptr %x) {\n  %a = add i32 %b, 1\n  ret void\n}\n")
        .file("host.ll", "define void @scale(ptr %x) {\n  ret void\n}\n")
        .file("exp.ll", EXP)
        .file("value.ll", "define ptx_kernel i32 @value() {\n  ret i32 1\n}\n")
        .file("good.ll", SCALE)
        .file("arch.ll", SCALE);
    let expected = "\
Error: 6 problems

text.ll: LLVM cannot read it
    text.ll:1:16: error: expected type
    define void @f(nothing) {
                   ^

open.ll: LLVM cannot read it
    open.ll:2:16: error: use of undefined value '%b'
      %a = add i32 %b, 1
                   ^

host.ll: defines no kernel; a kernel is a function `define ptx_kernel void @<name>(..)`; it defines `scale`: is that the kernel?

exp.ll: calls `__nv_expf`, a function of libdevice, which was not found: CUDA_HOME and CUDA_PATH are not set, and no nvcc is in PATH. Install the CUDA toolkit or the Python package nvidia-nvvm, and set CUDA_HOME to its folder

value.ll: the kernel `value` returns a value; a kernel returns void

arch.ll: LLVM does not know the GPU architecture 91; it knows 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 90a, 100, 100a, 100f, 101, 101a, 101f, 103, 103a, 103f, 110, 110a, 110f, 120, 120a, 120f, 121, 121a, 121f";
    assert_eq!(package.failure(&[]), expected);

    let calls = ".cuda_with(\"good.ll\", |kernel| kernel.flag(\"-O3\")).cuda_with(\"gone.cu\", |kernel| kernel)";
    let package = Package::new("device-options", calls).file("good.ll", SCALE);
    let expected = format!(
        "Error: 2 problems\n\ngood.ll: LLVM IR takes no options and no macros, only architectures\n\n\
         gone.cu: no such file; paths are relative to the package, {}",
        package.dir.display()
    );
    assert_eq!(package.failure(&[]), expected);
    let rows = [
        (".cuda_with(\"k.cu\", |kernel| kernel.arch(\"ampere\"))", "k.cu: .arch(..): \"ampere\""),
        (".cuda_with(\"k.cu\", |kernel| kernel.ptx_floor(\"8\"))", "k.cu: .ptx_floor(..): \"8\""),
        (".cuda([\"k.cu\"]).cuda_ptx_floor(\"x\")", ".cuda_ptx_floor(..): \"x\""),
    ];
    for (calls, start) in rows {
        let message = Package::new("device-arch", calls).file("k.cu", "").failure(&[]);
        let end = " is not a GPU architecture; write it as \"sm_80\", \"80\" or \"90a\"";
        assert_eq!(message, format!("Error: {start}{end}"));
    }
    let calls = ".cuda([\"k.cu\"]).cuda_compiler(kernpack_build::CudaCompiler::Nvrtc)";
    let message = Package::new("no-nvrtc-feature", calls).file("k.cu", "").failure(&[]);
    let expected = ".cuda_compiler(CudaCompiler::Nvrtc): kernpack-build was built without its feature `nvrtc`";
    assert_eq!(message, format!("Error: {expected}"));
}

#[cfg(unix)]
#[test]
fn kernels_have_options_of_their_own() {
    let calls = ".cuda([\"kernels/fill.cu\"]).cuda_arch([\"80\"]).cuda_flag(\"-all\")\
                 .cuda_with(\"kernels/scale.cu\", |kernel| {\n    \
                     kernel.arch(\"90a\").arch(\"100\").ptx_floor(\"75\").flag(\"-use_fast_math\").define(\"N\", \"4\")\n})";
    let package = Package::new("own-options", calls)
        .file("kernels/fill.cu", "\n")
        .file("kernels/scale.cu", "\n")
        .file("kernels/include/factor.h", "");
    let home = fake_cuda_home(&package);
    // It must not be called.
    let asked = package.dir.join("asked");
    let smi = |body: &str| package.script("bin/nvidia-smi", &format!("echo > '{}'\n{body}\n", asked.display()));
    smi("echo 8.6; echo 9.0");
    let path = format!("{}:{}", package.dir.join("bin").display(), env::var("PATH").unwrap());
    let variables = [("CUDA_HOME", home.to_str().unwrap()), ("PATH", path.as_str())];
    let found = images(&package.build_with(&["build"], &variables), &["fill", "scale"]);
    let (fill, scale) = (text(&found[0].1), text(&found[1].1));
    let wanted = "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_80,code=compute_80 -o";
    assert!(fill.contains(wanted) && fill.contains(" -all ") && !fill.contains("fast"), "{fill}");
    let wanted = "-gencode=arch=compute_90a,code=sm_90a -gencode=arch=compute_100,code=sm_100 -gencode=arch=compute_75,code=compute_75 -o";
    assert!(scale.contains(wanted) && scale.contains(" -all -use_fast_math -DN=4 "), "{scale}");
    assert!(!asked.exists(), "build.rs does not say .cuda_detect_gpu()");

    let script = fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &script.replace(".cuda_arch([\"80\"])", ".cuda_detect_gpu()"));
    let found = images(&package.build_with(&["build"], &variables), &["fill", "scale"]);
    let wanted = "-gencode=arch=compute_86,code=sm_86 -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_86,code=compute_86";
    assert!(asked.exists() && text(&found[0].1).contains(wanted), "{}", text(&found[0].1));
    // A machine without a working driver.
    smi("echo 'no devices were found' >&2; exit 6");
    let built = package.cargo(&["build"], &variables);
    let warning = ".cuda_detect_gpu() found no GPU: .cuda_detect_gpu(): nvidia-smi failed (exit status: 6)";
    assert!(built.success && built.stderr.contains(warning), "{}", built.stderr);
    let found = images(&package.library("debug"), &["fill", "scale"]);
    assert!(text(&found[0].1).contains("code=sm_75 -gencode=arch=compute_80,code=sm_80"), "{}", text(&found[0].1));
}

#[cfg(unix)]
#[test]
fn nvcc_that_appears_later_is_noticed() {
    let package = Package::new("later-nvcc", ".cuda([\"kernels/fill.cu\"])")
        .file("kernels/fill.cu", "__global__ void fill(int* out, int value);\n")
        .file("kernels/include/factor.h", "")
        .file("bin/other", "");
    let bin = package.dir.join("bin");
    let path = env::var("PATH").unwrap();
    let path: Vec<PathBuf> = env::split_paths(&path).filter(|folder| !folder.join("nvcc").exists()).collect();
    let path = env::join_paths(std::iter::once(bin.clone()).chain(path)).unwrap().into_string().unwrap();
    let variables = [("PATH", path.as_str())];
    let build = || {
        let built = package.cargo(&["build", "-v"], &variables);
        assert!(built.success, "{}", built.stderr);
        let is_compiled = package.library("debug").import_tree().is_some();
        (is_compiled, built.did_work())
    };
    assert!(!build().0);
    // Cargo runs the script again if one of these changes. The tests pass `CUDA_HOME` under
    // another name.
    let output = package.script_output();
    for name in ["NVCC", "CUDA_HOME", "CUDA_PATH"] {
        assert!(output.lines().any(|line| line == format!("cargo::rerun-if-env-changed={name}")), "{name}: {output}");
    }
    assert_eq!(build(), (false, false));
    // As installed from a package of the system, with an old modification time.
    let home = fake_cuda_home(&package);
    let nvcc = home.join("bin/nvcc");
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::options().append(true).open(&nvcc).unwrap().set_modified(old).unwrap();
    fs::rename(&nvcc, bin.join("nvcc")).unwrap();
    assert_eq!(build(), (true, true));
    assert_eq!(build(), (true, false));
}

#[test]
fn a_real_toolkit_assembles_device_ir() {
    let Some(home) = real_cuda_home() else {
        return skip("no ptxas; set KERNPACK_TEST_CUDA_HOME or CUDA_HOME");
    };
    let calls =
        ".cuda_llvm_ir([\"exp.ll\", \"scale.ll\"]).cuda_with(\"tuned.ll\", |kernel| kernel.arch(\"90a\").arch(\"80\"))";
    let package = Package::new("real-ir", calls)
        .file("exp.ll", EXP)
        .file("scale.ll", &format!("target triple = \"nvptx64-nvidia-cuda\"\n{SCALE}"))
        .file("tuned.ll", &SCALE.replace("@scale", "@tuned"));
    package.forget();
    let variables = [("CUDA_HOME", home.to_str().unwrap())];
    let found = images(&package.build_with(&["build"], &variables), &["exponential", "scale", "tuned"]);
    assert_eq!(found.len(), 3);
    for (format, code, _) in &found {
        assert_eq!((format.as_str(), &code[..4]), ("fatbin", &[0x50, 0xed, 0x55, 0xba][..]));
    }
    let output = package.script_output();
    for line in [
        "exp.ll compiled by ptxas for sm_75",
        "exp.ll compiled by ptxas for sm_120",
        "tuned.ll compiled by ptxas for sm_90a",
    ] {
        assert!(output.contains(line), "{output}");
    }
    // All architectures that LLVM and this ptxas support. ptxas accepts only PTX of the right
    // version.
    let all = "\"75\", \"80\", \"86\", \"87\", \"88\", \"89\", \"90\", \"90a\", \"100\", \"100a\", \"100f\", \"103\", \"103a\", \"103f\", \"110\", \"110a\", \"110f\", \"120\", \"120a\", \"120f\", \"121\", \"121a\", \"121f\"";
    let script = fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &script.replace(").build()", &format!(").cuda_arch([{all}]).build()")));
    package.build_with(&["build"], &variables);
}

#[test]
fn nvrtc_is_a_compiler_too() {
    let Some(home) = nvrtc_home() else {
        return skip(
            "no libnvrtc; set KERNPACK_TEST_NVRTC_HOME to a folder with lib/libnvrtc.so.13 (pip install nvidia-cuda-nvrtc)",
        );
    };
    let source = "#include \"factor.h\"\nextern \"C\" __global__ void scale(float* out, unsigned n) {\n  if (threadIdx.x < n) out[threadIdx.x] *= FACTOR;\n}\n";
    let calls = ".cuda([\"kernels/scale.cu\", \"kernels/more.cu\"]).include(\"include\").cuda_arch([\"80\", \"90\"])\
                 .cuda_compiler(kernpack_build::CudaCompiler::Nvrtc)";
    let package = Package::new("through-nvrtc", calls)
        .file("kernels/scale.cu", source)
        .file("kernels/more.cu", &source.replace("scale", "more").replace("factor.h", "own.h"))
        .file("kernels/own.h", "#define FACTOR 1.0f\n")
        .file("include/factor.h", "#include \"value.h\"\n")
        .file("include/value.h", "#define FACTOR 2.0f\n");
    let manifest = fs::read_to_string(package.dir.join("Cargo.toml")).unwrap();
    let manifest = manifest.replace("build-support' }", "build-support', features = ['nvrtc'] }");
    assert!(manifest.contains("nvrtc"), "{manifest}");
    package.write("Cargo.toml", &manifest);
    package.forget();
    let variables = [("CUDA_HOME", home.to_str().unwrap()), ("KERNPACK_CUDA", "require")];
    let found = images(&package.build_with(&["build"], &variables), &["scale", "more"]);
    use ArgType as T;
    assert_eq!(found[0].2, [("scale".to_owned(), vec![T::POINTER, T::UINT32])]);
    // The image is a fat binary if the program fatbinary is found, otherwise PTX.
    match found[0].0.as_str() {
        "ptx" => assert!(text(&found[0].1).contains(".target sm_80\n")),
        format => assert_eq!((format, &found[0].1[..4]), ("fatbin", &[0x50, 0xed, 0x55, 0xba][..])),
    }
    assert!(!package.cargo(&["build", "-v"], &variables).did_work());
    // A header that is included by a header.
    package.write("include/value.h", "#define FACTOR 3.0f\n");
    let built = package.cargo(&["build", "-v"], &variables);
    assert!(built.success && built.did_work(), "{}", built.stderr);
    let output = package.script_output();
    assert!(output.contains("scale.cu compiled by NVRTC") && !output.contains("more.cu compiled"), "{output}");

    package.write("kernels/scale.cu", &source.replace("FACTOR", "unknown"));
    package.write("kernels/more.cu", &source.replace("extern \"C\"", ""));
    expect![[r#"
        Error: 2 problems

        kernels/scale.cu: NVRTC failed (NVRTC_ERROR_COMPILATION)
          command: nvrtc --gpu-architecture=compute_80 -I include -I OUT/kernpack/include -IDIR/kernels/ -I$CUDA_HOME/include kernels/scale.cu
          output:
            kernels/scale.cu(3): error: identifier "unknown" is undefined
                if (threadIdx.x < n) out[threadIdx.x] *= unknown;
                                                         ^

            1 error detected in the compilation of "kernels/scale.cu".

        kernels/more.cu: the kernel `scale` has the C++ name `_Z5scalePfj`, which no one can call; declare it extern "C"
    "#]].assert_eq(&package.message(&variables));
    // No library can be loaded.
    let require = [("KERNPACK_CUDA", "require"), ("LD_LIBRARY_PATH", "")];
    let end =
        ". Install the CUDA toolkit or the Python package nvidia-cuda-nvrtc, or set CUDA_HOME to the folder of one";
    let why = "no libnvrtc was found in CUDA_HOME, CUDA_PATH or where the system keeps libraries";
    let expected = format!("Error: kernels/scale.cu: KERNPACK_CUDA=require, but {why}{end}");
    assert_eq!(package.failure(&require), expected);
    let script = fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &script.replace(".cuda_compiler(kernpack_build::CudaCompiler::Nvrtc)", ""));
    let why = "neither nvcc (in NVCC, CUDA_HOME, CUDA_PATH or PATH) nor libnvrtc (in CUDA_HOME, CUDA_PATH or where the \
               system keeps libraries) was found";
    let expected = format!("Error: kernels/scale.cu: KERNPACK_CUDA=require, but {why}{end}");
    assert_eq!(package.failure(&require), expected);
}

/// Returns a folder with NVRTC, and possibly a whole toolkit.
fn nvrtc_home() -> Option<PathBuf> {
    let homes = env::var_os("KERNPACK_TEST_NVRTC_HOME").map(PathBuf::from).into_iter().chain(real_cuda_home());
    homes.into_iter().find(|home| home.join("lib/libnvrtc.so.13").is_file())
}
