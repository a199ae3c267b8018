//! Tests that need no GPU: the kernels' image is in the library, is saved and restored byte for
//! byte, and its PTX is accepted by NVIDIA's assembler.

mod library;

use std::path::{Path, PathBuf};
use std::process::Command;

use kernpack::module::device_image::DeviceImage;
use kernpack::{Bytes, Function, Module};
use kernpack_skip::skip;

/// The image of the library, if nvcc was available.
fn images() -> Option<Vec<Module>> {
    let images: Vec<Module> = library::load().imports().into_iter().filter(|module| module.kind() == "cuda").collect();
    if images.is_empty() {
        skip("the library was built without nvcc, so it carries no CUDA image; see its build's warning");
        return None;
    }
    Some(images)
}

#[test]
fn images_are_kept_byte_for_byte() {
    let Some(images) = images() else { return };
    let mut names = Vec::new();
    for image in images {
        let bytes: Bytes = image.save_to_bytes().unwrap();
        let parsed = DeviceImage::parse(&bytes).unwrap();
        assert_eq!(parsed.format(), "fatbin");
        assert_eq!(parsed.to_vec(), &bytes[..]);
        names.extend(parsed.kernels().iter().map(|kernel| kernel.name.to_owned()));
        let restored: Module =
            Function::global("ffi.Module.load_from_bytes.kernpack.cuda").unwrap().call_as((bytes.clone(),)).unwrap();
        assert_eq!(restored.save_to_bytes().unwrap(), bytes);
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("image-{}.fatbin", std::process::id()));
        restored.write_to_file(file.to_str().unwrap(), "fatbin").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), parsed.code());
        std::fs::remove_file(file).unwrap();
    }
    names.sort();
    assert_eq!(
        names,
        [
            "add_bytes",
            "count_above",
            "daxpy_values",
            "matmul_dynamic_tiles",
            "matmul_tiled",
            "mix_longs",
            "mix_words",
            "saxpy_values",
            "softmax_rows",
            "transpose_tiles",
            "work_cycles",
            "write_far_away",
        ]
    );
}

/// A program of the CUDA toolkit that the build scripts use.
fn tool(name: &str) -> Option<PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let wheels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda/nvidia/cu13");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = homes.chain([wheels, PathBuf::from("/usr/local/cuda")]).map(|home| home.join("bin"));
    folders.chain(std::env::split_paths(&path)).map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn ptx_is_accepted_by_ptxas() {
    let (Some(nvcc), Some(ptxas)) = (tool("nvcc"), tool("ptxas")) else {
        return skip("no nvcc and ptxas in CUDA_HOME, target/cuda (where cargo xtask installs them) or PATH");
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ptx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let sources =
        ["kernels/matmul.cu", "kernels/softmax.cu", "kernels/elements.cu", "../../examples/imagekit/kernels/sobel.cu"];
    std::thread::scope(|scope| {
        for (number, source) in sources.into_iter().enumerate() {
            let (nvcc, ptxas, ptx) = (&nvcc, &ptxas, folder.join(format!("{number}.ptx")));
            scope.spawn(move || {
                let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
                run(Command::new(nvcc).args(["--ptx", "-arch=compute_75", "-o"]).arg(&ptx).arg(source));
                for architecture in ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"] {
                    let cubin = ptx.with_extension(architecture);
                    run(Command::new(ptxas).arg(format!("-arch={architecture}")).arg(&ptx).arg("-o").arg(cubin));
                }
            });
        }
    });
    std::fs::remove_dir_all(folder).unwrap();
}
