//! Every model of the folder that KERNPACK_BENCH_MODELS names; none without it.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed=KERNPACK_BENCH_MODELS");
    let mut library = kernpack_build::Library::new().multiversion(["x86-64-v3", "x86-64-v4", "x86-64-v4-vnni"]);
    if let Some(folder) = std::env::var_os("KERNPACK_BENCH_MODELS") {
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            files.push(entry?.path());
        }
        files.retain(|file| file.extension().is_some_and(|extension| extension == "onnx"));
        files.sort();
        for file in files {
            let is = |name: &str| file.file_stem().is_some_and(|stem| stem == name);
            let (is_magika, is_mlp) = (is("magika"), is("mlp"));
            if is_mlp {
                library = library.model_with(&file, |model| model.name("mlp_f16").weights(kernpack_build::te::F16));
            }
            library = library.model_with(file, |model| if is_magika { model.input("bytes", [1, 2048]) } else { model });
        }
    }
    Ok(library.build()?)
}
