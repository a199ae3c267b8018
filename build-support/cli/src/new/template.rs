//! The files of a new crate.

use super::dependencies::Dependencies;
use super::model::{Model, Zeros};

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
const PYPROJECT: &str = include_str!("../../templates/pyproject.toml.in");
const BACKEND: &str = include_str!("../../templates/kernpack_backend.py.in");

const MODEL_CARGO_TOML: &str = include_str!("../../templates/model/Cargo.toml.in");
const MODEL_BUILD: &str = include_str!("../../templates/model/build.rs.in");
const MODEL_LIB: &str = include_str!("../../templates/model/lib.rs.in");
const MODEL_TEST: &str = include_str!("../../templates/model/library.rs.in");
const MODEL_PYTHON_TEST: &str = include_str!("../../templates/model/test.py.in");
const MODEL_README: &str = include_str!("../../templates/model/README.md.in");

/// Loads the weights from their file: in the test in Rust, in the test in Python, in the README.
const MODEL_WEIGHTS_IN_RUST: &str = include_str!("../../templates/model/weights.rs.in");
const MODEL_WEIGHTS_IN_PYTHON: &str = include_str!("../../templates/model/weights.py.in");
const MODEL_WEIGHTS_IN_README: &str = include_str!("../../templates/model/weights.md.in");

/// The folder with the model of a crate.
pub(super) const MODELS: &str = "models";

/// The comment above an empty `[workspace]`, which keeps cargo from searching for another one.
const WORKSPACE: &str = "\n# A workspace of its own, though it lies in the folder of another one.\n[workspace]\n";

/// Returns the paths, relative to the crate's folder, and texts of the files.
pub(crate) fn files(name: &str, cuda: bool, dependencies: &Dependencies, in_workspace: bool) -> Vec<(String, String)> {
    let crate_name = name.replace('-', "_");
    let features: &[&str] = if cuda { &["cuda", "python"] } else { &["python"] };
    let inputs = match cuda {
        true => "        .c([\"kernels/scale.c\"])\n        .cuda([\"kernels/double.cu\"])\n",
        false => "        .c([\"kernels/scale.c\"])\n",
    };
    let fill = |text: &str, more: &[(&str, &str)]| fill(text, name, &crate_name, more);
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
        ("pyproject.toml".to_owned(), PYPROJECT.to_owned()),
        ("kernpack_backend.py".to_owned(), BACKEND.to_owned()),
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

/// Fills the slots of a template.
fn fill(text: &str, name: &str, crate_name: &str, more: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (key, value) in more.iter().chain(&[("{{name}}", name), ("{{crate}}", crate_name)]) {
        text = text.replace(key, value);
    }
    // Whitespace that an empty slot leaves at the end.
    format!("{}\n", text.trim_end())
}

/// Returns the files of a crate with a model, except the model.
pub(super) fn model_files(
    name: &str,
    model: &Model,
    dependencies: &Dependencies,
    in_workspace: bool,
) -> Vec<(String, String)> {
    let crate_name = name.replace('-', "_");
    let file_name = model.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let path = format!("{MODELS}/{file_name}");
    let kernpack = dependencies.entry("runtime", &["python"]);
    let build = dependencies.entry("build-support", &["graph"]);
    let call = model.call(&path);
    let library = format!("target/release/lib{crate_name}.so");
    let slots = [
        ("{{kernpack}}", kernpack.as_str()),
        ("{{kernpack_build}}", &build),
        ("{{workspace}}", if in_workspace { WORKSPACE } else { "" }),
        ("{{function}}", &model.function),
        ("{{call}}", &call),
        ("{{model}}", &file_name),
        ("{{calls}}", &rust_calls(model)),
        ("{{python_calls}}", &python_calls(model)),
        ("{{inputs}}", &python_list(model.calls.first().map_or(&[], Vec::as_slice))),
        ("{{weights}}", if model.has_weights_file { MODEL_WEIGHTS_IN_RUST } else { "" }),
        ("{{python_weights}}", if model.has_weights_file { MODEL_WEIGHTS_IN_PYTHON } else { "" }),
        ("{{load_weights}}", if model.has_weights_file { MODEL_WEIGHTS_IN_README } else { "" }),
        ("{{file}}", &library),
        // In the texts that fill other slots.
        ("{{function}}", &model.function),
    ];
    let fill = |text: &str| fill(text, name, &crate_name, &slots);
    vec![
        ("Cargo.toml".to_owned(), fill(MODEL_CARGO_TOML)),
        (".gitignore".to_owned(), "/target\n__pycache__/\n".to_owned()),
        ("build.rs".to_owned(), fill(MODEL_BUILD)),
        ("src/lib.rs".to_owned(), fill(MODEL_LIB)),
        ("tests/library.rs".to_owned(), fill(MODEL_TEST)),
        (format!("python/test_{crate_name}.py"), fill(MODEL_PYTHON_TEST)),
        ("pyproject.toml".to_owned(), PYPROJECT.to_owned()),
        ("kernpack_backend.py".to_owned(), BACKEND.to_owned()),
        ("README.md".to_owned(), fill(MODEL_README)),
    ]
}

/// Formats the calls of the test in Rust.
fn rust_calls(model: &Model) -> String {
    let calls = model.calls.iter().map(|inputs| {
        let zeros: Vec<String> = inputs.iter().map(Zeros::in_rust).collect();
        match &zeros[..] {
            [one] if one.len() < 60 => format!("    check(&[{one}]);\n"),
            zeros => format!("    check(&[\n        {},\n    ]);\n", zeros.join(",\n        ")),
        }
    });
    calls.collect()
}

/// Formats the calls of the test in Python.
fn python_calls(model: &Model) -> String {
    model.calls.iter().map(|inputs| format!("    {},\n", python_list(inputs))).collect()
}

/// Formats inputs as a list of arrays in Python.
fn python_list(inputs: &[Zeros]) -> String {
    format!("[{}]", inputs.iter().map(Zeros::in_python).collect::<Vec<_>>().join(", "))
}
