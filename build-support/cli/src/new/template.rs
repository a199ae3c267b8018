//! The files of a new crate.

use super::dependencies::Dependencies;

const CARGO_TOML: &str = include_str!("../../templates/Cargo.toml.in");
const BUILD: &str = include_str!("../../templates/build.rs.in");
const LIB: &str = include_str!("../../templates/lib.rs.in");
const LIB_CUDA: &str = include_str!("../../templates/cuda.rs.in");
const KERNEL: &str = include_str!("../../templates/scale.c.in");
const KERNEL_CUDA: &str = include_str!("../../templates/double.cu.in");
const TEST: &str = include_str!("../../templates/library.rs.in");
const TEST_CUDA: &str = include_str!("../../templates/cuda_test.rs.in");
const PYTHON_TEST: &str = include_str!("../../templates/test.py.in");
const README: &str = include_str!("../../templates/README.md.in");

/// Above an empty `[workspace]`, which keeps cargo from looking for another one.
const WORKSPACE: &str = "\n# A workspace of its own, though it lies in the folder of another one.\n[workspace]\n";

/// Paths from the crate's folder, with their texts.
pub(crate) fn files(name: &str, cuda: bool, dependencies: &Dependencies, in_workspace: bool) -> Vec<(String, String)> {
    let crate_name = name.replace('-', "_");
    let features: &[&str] = if cuda { &["cuda"] } else { &[] };
    let inputs = match cuda {
        true => "        .c([\"kernels/scale.c\"])\n        .cuda([\"kernels/double.cu\"])\n",
        false => "        .c([\"kernels/scale.c\"])\n",
    };
    let fill = |text: &str, more: &[(&str, &str)]| {
        let mut text = text.to_owned();
        for (key, value) in more.iter().chain(&[("{{name}}", name), ("{{crate}}", crate_name.as_str())]) {
            text = text.replace(key, value);
        }
        // What a slot without text leaves at the end.
        format!("{}\n", text.trim_end())
    };
    let only_cuda = |text: &'static str| if cuda { text } else { "" };
    let kernpack = dependencies.entry("runtime", features);
    let build = dependencies.entry("build-support", &[]);
    let workspace = if in_workspace { WORKSPACE } else { "" };
    let file = format!("target/release/lib{crate_name}.so");
    let mut files = vec![
        (
            "Cargo.toml".to_owned(),
            fill(
                CARGO_TOML,
                &[("{{kernpack}}", &kernpack), ("{{kernpack_build}}", &build), ("{{workspace}}", workspace)],
            ),
        ),
        (".gitignore".to_owned(), "/target\n__pycache__/\n".to_owned()),
        ("build.rs".to_owned(), fill(BUILD, &[("{{inputs}}", inputs)])),
        (
            "src/lib.rs".to_owned(),
            fill(LIB, &[("{{cuda}}", only_cuda(LIB_CUDA)), ("{{and_cuda}}", only_cuda(", a kernel in CUDA"))]),
        ),
        ("kernels/scale.c".to_owned(), KERNEL.to_owned()),
        ("tests/library.rs".to_owned(), fill(TEST, &[("{{cuda}}", only_cuda(TEST_CUDA))])),
        (format!("python/test_{crate_name}.py"), fill(PYTHON_TEST, &[])),
        (
            "README.md".to_owned(),
            fill(README, &[("{{cuda}}", only_cuda(", one in CUDA in `kernels/double.cu`")), ("{{file}}", &file)]),
        ),
    ];
    if cuda {
        files.push(("kernels/double.cu".to_owned(), KERNEL_CUDA.to_owned()));
    }
    files
}
