//! Models in a build script: the function that they become, and what a build says of them.

use std::fs;
use std::path::Path;

use expect_test::expect;
use kernpack::{Module, Tensor};

use crate::package::Package;

/// relu(x w + b) u for any number of rows: `make.py` beside it wrote the file, and printed the results that are expected here.
fn package(name: &str, calls: &str) -> Package {
    let package = Package::new(name, calls);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("graph/tests/data/perceptron.onnx");
    fs::copy(file, package.dir.join("perceptron.onnx")).unwrap();
    package
}

#[test]
fn a_model_becomes_a_function_of_the_library() {
    let calls = ".model_with(\"perceptron.onnx\", |model| model.dim(\"batch\", 2)).multiversion([\"x86-64-v3\"])";
    let package = package("model", calls).file(
        "src/lib.rs",
        "kernpack::library!();\n\
         /// The model from Rust.\n\
         #[kernpack::packed_func]\n\
         fn typed(x: kernpack::Tensor, mut scores: kernpack::Tensor) -> kernpack::Result<()> {\n    \
             kernels::typed::perceptron(&x, &mut scores)\n\
         }\n",
    );
    let build = || {
        let built = package.cargo(&["build", "-v"], &[]);
        assert!(built.success, "{}", built.stderr);
        built
    };
    build();
    let module = Module::load(package.library_path("debug")).unwrap();
    for function in ["perceptron", "typed"] {
        let x = Tensor::from_slice(&[-3f32, -2., -1., 0., 1., 2., 3., 4.], &[2, 4]).unwrap();
        let scores = Tensor::from_slice(&[0f32; 6], &[2, 3]).unwrap();
        module.function(function).unwrap().call((&x, &scores)).unwrap();
        assert_eq!(scores.view::<f32>().unwrap().to_vec(), [10., -10., 66., -38., 72., 5.], "{function}");
        let wrong = Tensor::from_slice(&[0f32; 6], &[3, 2]).unwrap();
        let error = module.function(function).unwrap().call((&x, &wrong)).unwrap_err().to_string();
        assert!(error.contains("scores.shape[0] on argument #1"), "{error}");
    }
    let listing = fs::read_dir(package.out_dir().join("kernpack"))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with("perceptron.kernels.txt"))
        .unwrap();
    let listing = fs::read_to_string(listing).unwrap();
    assert!(listing.contains("perceptron.kernel0: Gemm + Relu\n"), "{listing}");
    // Nothing is compiled again.
    assert!(!build().did_work());
}

#[test]
fn mistakes_in_models_are_told_at_once() {
    let calls = "
        .model(\"perceptron.onnx\")
        .model_with(\"perceptron.onnx\", |model| model.name(\"other\").dim(\"batch\", 1).input(\"y\", [1]))
        .model(\"broken.onnx\")
        .model(\"absent.onnx\")";
    let package = package("model-mistakes", calls).file("broken.onnx", "this is text");
    expect![[r#"
        Error: 4 problems

        perceptron.onnx: input 'x': dimension 0 ('batch') is not known: say `.dim("name", extent)` for a dimension with a name, or `.input("x", [..])` with all extents

        perceptron.onnx: the model has no input 'y'; it has: x

        broken.onnx: the file cannot be read: a field of wire type 4: this is no ONNX model

        absent.onnx: no such file; paths are relative to the package, DIR
    "#]].assert_eq(&package.message(&[]));
}
