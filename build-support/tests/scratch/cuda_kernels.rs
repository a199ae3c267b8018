//! CUDA kernels, compiled by nvcc if it is installed, and by a script that replaces it.

use std::env;
use std::path::{Path, PathBuf};

use expect_test::expect;
use kernpack::module::device_image::{ArgType, DeviceImage, GRID_AND_BLOCK};
use kernpack::module::library_bin::LibraryBin;
use kernpack_skip::skip;

use crate::package::{ALL_FEATURES, Package};

const SCALE: &str = "
#include \"factor.h\"
extern \"C\" __global__ void scale(float* out, const float* in, unsigned n, long long stride) {
  extern __shared__ float line[];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  line[threadIdx.x] = i < n ? in[i * stride] : 0.0f;
  __syncthreads();
  if (i < n) out[i] = line[threadIdx.x] * FACTOR;
}
";
const FILL: &str = "extern \"C\" __global__ void fill(int* out, int value) { out[threadIdx.x] = value; }\n";

fn package(name: &str, calls: &str) -> Package {
    Package::new(name, &format!(".cuda([\"kernels/scale.cu\", \"kernels/fill.cu\"]).include(\"kernels/include\"){calls}"))
        .file("kernels/scale.cu", SCALE)
        .file("kernels/fill.cu", FILL)
        .file("kernels/include/factor.h", "#define FACTOR 2.0f\n")
        .file(
            "src/main.rs",
            &format!(
                "fn main() {{\n    println!(\"{{:?}}\", {0}::kernels::scale.status());\n    println!(\"{{}}\", {0}::kernels::fill.call(()).unwrap_err().message());\n    println!(\"{{}}\", {0}::kernels::scale.launch(1, (2, 3), ()).unwrap_err().message());\n}}\n",
                name.replace('-', "_")
            ),
        )
}

/// Checks the import tree of a library of [`package`], and returns the code of both images.
fn check_images(bytes: &[u8]) -> [Vec<u8>; 2] {
    let tree = LibraryBin::parse(bytes).unwrap();
    assert_eq!(
        tree.modules().iter().map(|module| module.kind()).collect::<Vec<_>>(),
        ["_lib", "kernpack.cuda", "kernpack.cuda"]
    );
    assert_eq!(tree.imports(0).collect::<Vec<_>>(), [1, 2]);
    let mut images = [1, 2].map(|index| DeviceImage::parse(tree.modules()[index].payload().unwrap()).unwrap());
    // The modules of an import tree are not in the order of the sources.
    images.sort_by_key(|image| core::cmp::Reverse(image.kernels()[0].name));
    assert!(images.iter().all(|image| image.format() == "fatbin"));
    let scale = &images[0].kernels()[0];
    assert_eq!(scale.name, "scale");
    assert_eq!(scale.arg_types, [ArgType::POINTER, ArgType::POINTER, ArgType::UINT32, ArgType::INT64]);
    assert_eq!(scale.launch_params, [&GRID_AND_BLOCK[..], &["tirx.use_dyn_shared_memory"]].concat());
    let fill = &images[1].kernels()[0];
    assert_eq!((fill.name, fill.arg_types.as_slice()), ("fill", &[ArgType::POINTER, ArgType::INT32][..]));
    assert_eq!(fill.launch_params, GRID_AND_BLOCK);
    images.map(|image| image.code().to_vec())
}

#[test]
fn without_nvcc_the_library_says_why() {
    let package = package("without-nvcc", "");
    let built = package.cargo(&["build"], &[]);
    assert!(built.success, "{}", built.stderr);
    let warning = "warning: without-nvcc@0.1.0: kernels/scale.cu, kernels/fill.cu: not compiled: no nvcc was found in NVCC, CUDA_HOME, \
                   CUDA_PATH or PATH. The kernels will say so when they are called; KERNPACK_CUDA=off hides this warning, \
                   KERNPACK_CUDA=require makes it an error\n";
    assert!(built.stderr.contains(warning), "{}", built.stderr);
    let library = package.library("debug");
    assert_eq!(library.packed_functions(), ["fill", "scale"], "stand-ins that raise an error");
    assert_eq!(library.import_tree(), None);
    let output = package.run(&[]);
    let why = |source: &str| {
        format!(
            "{source} was not compiled when this library was built: no nvcc was found in NVCC, CUDA_HOME, CUDA_PATH or PATH. Install the \
             CUDA toolkit or set CUDA_HOME, and build again with KERNPACK_CUDA=require"
        )
    };
    assert_eq!(
        output,
        format!(
            "NotBuilt({:?})\ncuda kernel 'fill' is not in this library: {}\ncuda kernel 'scale' is not in this library: {}\n",
            why("kernels/scale.cu"),
            why("kernels/fill.cu"),
            why("kernels/scale.cu")
        )
    );
}

#[test]
fn cuda_kernels_need_the_feature() {
    let package = package("no-cuda-feature", "");
    let manifest = std::fs::read_to_string(package.dir.join("Cargo.toml")).unwrap();
    assert!(manifest.contains(ALL_FEATURES));
    package.write("Cargo.toml", &manifest.replace(ALL_FEATURES, ""));
    let built = package.cargo(&["build"], &[]);
    let error = "error: build.rs compiles CUDA kernels (`.cuda(..)`), which needs kernpack's feature `cuda` to run them; write `kernpack \
                 = { features = [\"cuda\"], .. }` in Cargo.toml, or set KERNPACK_CUDA=off to build without them";
    assert!(!built.success && built.stderr.contains(error), "{}", built.stderr);
    package.build_with(&["build"], &[("KERNPACK_CUDA", "off")]);
}

#[test]
fn off_is_silent() {
    let package = package("cuda-off", "");
    package.build_with(&["build"], &[("KERNPACK_CUDA", "off")]);
}

#[test]
fn require_needs_nvcc() {
    let message = package("cuda-required", "").failure(&[("KERNPACK_CUDA", "require")]);
    assert_eq!(
        message,
        "Error: kernels/scale.cu: KERNPACK_CUDA=require, but no nvcc was found; looked at NVCC, CUDA_HOME, CUDA_PATH and \
         PATH. Install the CUDA toolkit, or set CUDA_HOME to its folder"
    );
    let message = package("wrong-nvcc", "").failure(&[("NVCC", "/no/such/nvcc")]);
    assert_eq!(message, "Error: NVCC is \"/no/such/nvcc\", but there is no such file");
    let message = package("wrong-arch", ".cuda_arch([\"ampere\"])").failure(&[]);
    assert_eq!(
        message,
        "Error: .cuda_arch(..): \"ampere\" is not a GPU architecture; write it as \"sm_80\", \"80\" or \"90a\""
    );
}

/// A replacement of nvcc that writes the same output files, with its arguments as the image.
#[cfg(unix)]
const FAKE_NVCC: &str = r#"#!/bin/sh
if [ "$1" = --list-gpu-arch ]; then echo compute_75; echo compute_80; exit 0; fi
arguments="$*"
while [ $# -gt 0 ]; do
  case "$1" in
    -o) out="$2"; shift ;;
    -MF) depfile="$2"; shift ;;
    --ptx) ptx=1 ;;
    *.cu) source="$1" ;;
  esac
  shift
done
if grep -q FAIL "$source"; then echo "$source(1): error: FAIL is not defined" >&2; exit 2; fi
echo "kernel: $source kernels/include/factor.h" > "$depfile"
if [ -z "$ptx" ]; then printf '%s' "$arguments" > "$out"; exit 0; fi
case "$source" in
  *scale*) cat > "$out" <<'PTX'
.extern .shared .align 16 .b8 line[];
.visible .entry scale(
	.param .u64 scale_param_0,
	.param .u64 scale_param_1,
	.param .u32 scale_param_2,
	.param .u64 scale_param_3
)
{
	mov.u32 	%r4, line;
}
PTX
  ;;
  *mangled*) echo '.visible .entry _Z7mangledPf( .param .u64 _Z7mangledPf_param_0 ) { ret; }' > "$out" ;;
  *empty*) : > "$out" ;;
  *) echo '.visible .entry fill( .param .u64 fill_param_0, .param .u32 fill_param_1 ) { ret; }' > "$out" ;;
esac
"#;

#[cfg(unix)]
pub(crate) fn fake_cuda_home(package: &Package) -> PathBuf {
    package.script("cuda home/bin/nvcc", FAKE_NVCC);
    package.dir.join("cuda home")
}

#[cfg(unix)]
#[test]
fn images_travel_in_the_library() {
    let package = package("fake-cuda", ".cuda_flag(\"-lineinfo\").define(\"X\", None)");
    let home = fake_cuda_home(&package);
    let variables = [("CUDA_HOME", home.to_str().unwrap())];
    let library = package.build_with(&["build"], &variables);
    // The library itself exports each kernel under its name, too.
    assert_eq!(library.packed_functions(), ["fill", "scale"]);
    assert_eq!(library.exported("__tvm_ffi__metadata_"), ["__tvm_ffi__metadata_fill", "__tvm_ffi__metadata_scale"]);
    let [scale, _] = check_images(&library.import_tree().expect("exported"));
    let command = String::from_utf8(scale).unwrap();
    let architectures = "-gencode=arch=compute_75,code=sm_75 -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_75,code=compute_75";
    assert!(
        command.starts_with("-O3 -I kernels/include ") && command.contains(" -DX -lineinfo --fatbin "),
        "{command}"
    );
    assert!(command.contains(architectures), "{command}");

    let again = package.cargo(&["build", "-v"], &variables);
    assert!(again.success && !again.did_work(), "{}", again.stderr);
    package.write("kernels/include/factor.h", "#define FACTOR 3.0f\n");
    assert!(package.cargo(&["build", "-v"], &variables).did_work(), "the header is tracked");
}

#[cfg(unix)]
#[test]
fn architectures_are_the_ones_asked_for() {
    let package = package("fake-arch", ".cuda_arch([\"90a\", \"sm_90\", \"8.6\", \"90\"])");
    let home = fake_cuda_home(&package);
    let library = package.build_with(&["build"], &[("CUDA_HOME", home.to_str().unwrap())]);
    let [scale, _] = check_images(&library.import_tree().expect("exported"));
    let architectures = "-gencode=arch=compute_86,code=sm_86 -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_90a,code=sm_90a -gencode=arch=compute_86,code=compute_86 -o";
    assert!(String::from_utf8_lossy(&scale).contains(architectures), "{}", String::from_utf8_lossy(&scale));
}

#[cfg(unix)]
#[test]
fn every_kernel_that_fails_is_shown() {
    let calls = ".cuda([\"a.cu\", \"b.cu\", \"mangled.cu\", \"empty.cu\", \"good.cu\"])";
    let package = Package::new("fake-failures", calls)
        .file("a.cu", "FAIL\n")
        .file("b.cu", "FAIL\n")
        .file("mangled.cu", "__global__ void mangled(float* x) {}\n")
        .file("empty.cu", "\n")
        .file("good.cu", FILL);
    let home = fake_cuda_home(&package);
    expect![[r#"
        Error: 4 problems

        a.cu: nvcc failed (exit status: 2)
          command: '$CUDA_HOME/bin/nvcc' -O3 -I OUT/kernpack/include --ptx -MD -MT kernel -MF OUT/kernpack/cuda0_a.ptx.d -arch=compute_75 -o OUT/kernpack/cuda0_a.ptx a.cu
          output:
            a.cu(1): error: FAIL is not defined

        b.cu: nvcc failed (exit status: 2)
          command: '$CUDA_HOME/bin/nvcc' -O3 -I OUT/kernpack/include --ptx -MD -MT kernel -MF OUT/kernpack/cuda1_b.ptx.d -arch=compute_75 -o OUT/kernpack/cuda1_b.ptx b.cu
          output:
            b.cu(1): error: FAIL is not defined

        mangled.cu: the kernel `mangled` has the C++ name `_Z7mangledPf`, which no one can call; declare it extern "C"

        empty.cu: defines no kernel; a kernel is a function `extern "C" __global__ void <name>(..)`
    "#]].assert_eq(&package.message(&[("CUDA_HOME", home.to_str().unwrap())]));
}

/// Returns the folder of a CUDA toolkit with nvcc: the value of `KERNPACK_TEST_CUDA_HOME`,
/// `CUDA_HOME` or `CUDA_PATH`.
pub(crate) fn real_cuda_home() -> Option<PathBuf> {
    let homes = ["KERNPACK_TEST_CUDA_HOME", "CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    homes.map(PathBuf::from).find(|home| home.join("bin").join("nvcc").is_file())
}

#[test]
fn a_real_nvcc_makes_fat_binaries() {
    let Some(home) = real_cuda_home() else {
        return skip("no nvcc; set KERNPACK_TEST_CUDA_HOME or CUDA_HOME to the folder of a CUDA toolkit");
    };
    let variables = [("CUDA_HOME", home.to_str().unwrap()), ("KERNPACK_CUDA", "require")];
    let package = package("real-cuda", ".cuda_arch([\"sm_80\", \"90\"])");
    let library = package.build_with(&["build"], &variables);
    let codes = check_images(&library.import_tree().expect("exported"));
    for code in &codes {
        assert_eq!(code[..4], [0x50, 0xed, 0x55, 0xba], "the magic number of a fat binary");
    }
    let again = package.cargo(&["build", "-v"], &variables);
    assert!(again.success && !again.did_work(), "{}", again.stderr);
    package.write("kernels/fill.cu", &FILL.replace("extern \"C\"", "").replace(" value) {", " value) { undefined();"));
    let message = package.failure(&variables);
    assert!(message.starts_with("Error: kernels/fill.cu: nvcc failed (exit status: "), "{message}");
    package.write("kernels/fill.cu", &FILL.replace("extern \"C\"", ""));
    assert_eq!(
        package.failure(&variables),
        "Error: kernels/fill.cu: the kernel `fill` has the C++ name `_Z4fillPii`, which no one can call; declare it extern \"C\""
    );
    let missing = Path::new("kernels/include/factor.h");
    std::fs::remove_file(package.dir.join(missing)).unwrap();
    assert!(package.failure(&variables).contains("factor.h"));
}
