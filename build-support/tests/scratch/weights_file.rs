//! Weights in a file beside the library.

use std::fs;
use std::path::Path;

use kernpack::{Bytes, Module, Tensor};
use kernpack_graph::weights_file::{Recipe, lower_again, write};

use crate::package::Package;

/// Copies a model into a package.
fn with_model(package: Package, file: &str, name: &str) -> Package {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("graph/tests/data").join(file);
    fs::copy(source, package.dir.join(name)).unwrap();
    package
}

fn built(package: &Package) {
    let built = package.cargo(&["build"], &[]);
    assert!(built.success, "{}", built.stderr);
}

/// The model's output for the numbers from -3 to 4.
const EXPECTED: [f32; 6] = [10., -10., 66., -38., 72., 5.];

fn input() -> Tensor {
    Tensor::from_slice(&[-3f32, -2., -1., 0., 1., 2., 3., 4.], &[2, 4]).unwrap()
}

#[test]
fn hostile_files_are_refused_and_the_right_one_is_used() {
    let calls = "
        .model_with(\"perceptron.onnx\", |model| model.dim(\"batch\", 2).weights_file())
        .model_with(\"perceptron.onnx\", |model| model.name(\"rows\").dim_up_to(\"batch\", 20).weights_file())
        .multiversion([\"x86-64-v3\"])";
    let package = with_model(Package::new("weights-file", calls), "perceptron.onnx", "perceptron.onnx");
    built(&package);
    let folder = package.out_dir().join("kernpack");
    let (file, other) = (folder.join("perceptron.weights"), folder.join("rows.weights"));
    let module = Module::load(package.library_path("debug")).unwrap();
    let run = |name: &str| -> kernpack::Result<Vec<f32>> {
        let scores: Tensor = module.function(&format!("{name}_run"))?.call_as((&input(),))?;
        scores.view::<f32>().map(|view| view.to_vec())
    };
    let missing = run("perceptron").unwrap_err();
    let text = "perceptron: its weights are not loaded; call perceptron_weights with the file perceptron.weights first";
    assert_eq!((missing.kind(), missing.message()), ("RuntimeError", text));
    let missing = run("rows").unwrap_err();
    assert!(missing.message().starts_with("rows: its weights are not loaded"), "{missing}");
    let load = |path: &Path| {
        let path = path.to_str().unwrap();
        module.function("perceptron_weights").unwrap().call((path,)).map(drop)
    };
    let good = fs::read(&file).unwrap();
    let bad = package.dir.join("bad.weights");
    let refused = |bytes: &[u8]| {
        fs::write(&bad, bytes).unwrap();
        let error = load(&bad).unwrap_err();
        let start = format!("perceptron_weights: {}: ", bad.display());
        error.message().strip_prefix(&start).unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    let digest = |bytes: &[u8], at: usize| {
        let bytes: [u8; 16] = bytes[at..at + 16].try_into().unwrap();
        format!("{:032x}", u128::from_le_bytes(bytes))
    };
    let (code, content) = (digest(&good, 16), digest(&good, 32));
    let theirs = fs::read(&other).unwrap();
    let expected = format!(
        "for the model 'rows': its code digest is {}, and 'perceptron' in this library needs {code}",
        digest(&theirs, 16)
    );
    assert_eq!(refused(&theirs), expected);
    for end in [good.len() - 1, good.len() / 2] {
        let text = refused(&good[..end]);
        assert!(text.starts_with("truncated: ") && text.ends_with(&format!("has to be {content}")), "{text}");
    }
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    let text = refused(&changed);
    assert!(text.starts_with("damaged: ") && text.ends_with(&format!("has to be {content}")), "{text}");
    let text = refused(&[]);
    assert!(text.contains("it has 0 bytes") && text.ends_with(&code), "{text}");
    let text = refused(b"a text that is long enough for a header, but is not one: ..........................");
    assert!(text.contains("does not begin with KPWEIGHT"), "{text}");
    fs::remove_file(&bad).unwrap();
    let error = load(&bad).unwrap_err();
    assert_eq!(error.kind(), "FileNotFoundError");
    assert!(error.message().contains("bad.weights"), "{error}");
    let error = load(&package.dir).unwrap_err();
    assert_eq!(error.kind(), "IsADirectoryError", "{error}");
    let error = module.function("perceptron_weights").unwrap().call((1,)).unwrap_err();
    assert_eq!(error.kind(), "TypeError");
    // No refused file is used.
    run("perceptron").unwrap_err();
    load(&file).unwrap();
    assert_eq!(run("perceptron").unwrap(), EXPECTED);
    // The same file again, also from bytes.
    load(&file).unwrap();
    module.function("perceptron_weights").unwrap().call((Bytes::from(good.clone()),)).unwrap();
    assert_eq!(run("perceptron").unwrap(), EXPECTED);
    // Bytes that are not aligned.
    run("rows").unwrap_err();
    module.function("rows_weights").unwrap().call((Bytes::from(theirs),)).unwrap();
    assert_eq!(run("rows").unwrap(), EXPECTED);
    // A new file takes the place of the mapped one.
    fs::write(&bad, &changed).unwrap();
    fs::rename(&bad, &file).unwrap();
    assert_eq!(run("perceptron").unwrap(), EXPECTED);
}

/// A program that loads weights from bytes and files, and cancels runs.
const USE: &str = r#"//! Runs the model.

use kernpack::{Result, Tensor};
use weights_again::kernels::perceptron::{CODE_DIGEST, Canceller, State, WEIGHTS_FILE, run, weights};

static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernpack/perceptron.weights"));

fn main() -> Result<()> {
    let x = Tensor::from_slice(&[-3f32, -2., -1., 0., 1., 2., 3., 4.], &[2, 4])?;
    let mut state = State::new()?;
    for missing in [run(&x).unwrap_err(), state.run(&x).unwrap_err()] {
        assert!(missing.message().contains("its weights are not loaded"), "{missing}");
    }
    weights(BYTES)?;
    weights(WEIGHTS_FILE)?;
    weights(std::path::Path::new(WEIGHTS_FILE))?;
    weights(BYTES.to_vec())?;
    let wrong = weights(&BYTES[1..]).unwrap_err();
    assert!(wrong.message().contains(CODE_DIGEST), "{wrong}");
    assert_eq!(state.run(&x)?.scores.view::<f32>()?.to_vec(), run(&x)?.scores.view::<f32>()?.to_vec());
    // A request ends the next run, and only that one.
    let canceller = state.canceller();
    std::thread::spawn(move || canceller.cancel()).join().expect("no panic");
    let cancelled = state.run(&x).unwrap_err();
    assert_eq!((cancelled.kind(), cancelled.message()), ("CancelledError", "perceptron: the run was cancelled"));
    assert_eq!(cancelled.kind(), Canceller::KIND);
    state.run(&x)?;
    state.canceller().cancel();
    state.canceller().withdraw();
    state.run(&x)?;
    println!("{:?}", run(&x)?.scores.view::<f32>()?.to_vec());
    Ok(())
}
"#;

/// Returns the model with the last matrix doubled.
fn doubled(model: &[u8]) -> Vec<u8> {
    // The name `u`, then the raw data.
    let mark = [0x42, 1, b'u', 0x4a, 60];
    let start = model.windows(mark.len()).position(|window| window == mark).unwrap() + mark.len();
    let mut changed = model.to_vec();
    for number in changed[start..start + 60].chunks_exact_mut(4) {
        let value = f32::from_le_bytes(number.try_into().unwrap());
        number.copy_from_slice(&(value * 2.0).to_le_bytes());
    }
    changed
}

#[test]
fn other_weights_for_the_same_code() {
    let calls = "
        .model_with(\"perceptron.onnx\", |model| model.dim(\"batch\", 2).weights_file())
        .multiversion([\"x86-64-v3\"])";
    let package = with_model(Package::new("weights-again", calls), "perceptron.onnx", "perceptron.onnx");
    let package = package.file("src/bin/use.rs", USE);
    let ran = package.cargo(&["run", "--quiet", "--bin", "use"], &[]);
    assert!(ran.success, "{}", ran.stderr);
    assert_eq!(ran.stdout, format!("{EXPECTED:?}\n"));
    built(&package);
    let file = package.out_dir().join("kernpack/perceptron.weights");
    let library = package.dir.join("kept.so");
    fs::copy(package.library_path("debug"), &library).unwrap();
    let module = Module::load(&library).unwrap();
    let info: String = module.function("perceptron_info").unwrap().call_as(()).unwrap();
    let text = info.split_once("\"recipe\":\"").unwrap().1.split_once('"').unwrap().0;
    let recipe = Recipe::parse(&text.replace("\\n", "\n")).unwrap();
    // Another program makes the same file as the build.
    let original = fs::read(package.dir.join("perceptron.onnx")).unwrap();
    let new = package.dir.join("new.weights");
    let made = |model: Vec<u8>| {
        let (levels, _) = lower_again(&recipe, model, None).unwrap();
        let same = recipe.levels.iter().zip(&levels).all(|(known, level)| known.program == level.program);
        assert!(same && recipe.levels.len() == levels.len());
        write(&new, "perceptron", &levels).unwrap().to_string()
    };
    let first = made(original.clone());
    assert_eq!(fs::read(&new).unwrap(), fs::read(&file).unwrap());
    let second = made(doubled(&original));
    let load = |path: &Path| module.function("perceptron_weights").unwrap().call((path.to_str().unwrap(),)).map(drop);
    load(&new).unwrap();
    let scores: Tensor = module.function("perceptron_run").unwrap().call_as((&input(),)).unwrap();
    assert_eq!(scores.view::<f32>().unwrap().to_vec(), EXPECTED.map(|score| score * 2.0));
    let error = load(&file).unwrap_err();
    assert!(error.message().contains(&first) && error.message().contains(&second), "{error}");
    // Another graph is other code.
    let other = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("graph/tests/data/running.onnx")).unwrap();
    let (levels, _) = lower_again(&recipe, other, None).unwrap();
    assert!(recipe.levels.iter().zip(&levels).all(|(known, level)| known.program != level.program));
    assert!(lower_again(&recipe, b"text".to_vec(), None).is_err());
    // A build with other weights and another build script compiles nothing.
    fs::write(package.dir.join("perceptron.onnx"), doubled(&original)).unwrap();
    let script = fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &format!("// A comment.\n{script}"));
    built(&package);
    let kept = package.script_output();
    assert_eq!(kept.matches("the kernels are those of an earlier build").count(), 2, "{kept}");
    assert_eq!(fs::read(&file).unwrap(), fs::read(&new).unwrap());
}
