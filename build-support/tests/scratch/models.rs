//! Models in a build script: the generated functions, and the listing of the build.

use std::fs;
use std::path::Path;
use std::process::Command;

use expect_test::expect;
use kernpack::{Module, Tensor};

use crate::library::BuiltLibrary;
use crate::package::Package;

/// Returns a package with the model `relu(x w + b) u` for any number of rows, and two more models.
/// `make.py` beside the first model wrote it and printed the expected results.
fn package(name: &str, calls: &str) -> Package {
    let package = Package::new(name, calls);
    for file in ["perceptron.onnx", "running.onnx", "attention.onnx"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("graph/tests/data").join(file);
        fs::copy(source, package.dir.join(file)).unwrap();
    }
    package
}

/// The model's output for the numbers from -3 to 4.
const EXPECTED: [f32; 6] = [10., -10., 66., -38., 72., 5.];

/// A program that counts the allocations of calls in all threads, and checks the results.
const COUNT: &str = r#"//! Counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use kernpack::{Result, Tensor};
use model::kernels::perceptron::{Outputs, State, run};
use model::kernels::{any, attention, rows, running};

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn counted(mut call: impl FnMut() -> Result<()>) -> Result<usize> {
    // What a thread keeps from its first call on.
    call()?;
    let before = COUNT.load(Ordering::Relaxed);
    for _ in 0..1000 {
        call()?;
    }
    Ok(COUNT.load(Ordering::Relaxed) - before)
}

fn main() -> Result<()> {
    const EXPECTED: [f32; 6] = [10., -10., 66., -38., 72., 5.];
    let x = Tensor::from_slice(&[-3f32, -2., -1., 0., 1., 2., 3., 4.], &[2, 4])?;
    let (mut state, mut outputs) = (State::new()?, Outputs::new()?);
    let with_state = counted(|| state.run_into(&x, &mut outputs))?;
    assert_eq!(outputs.scores.view::<f32>()?.to_vec(), EXPECTED);
    let outputs = Outputs::new()?;
    let without = counted(|| model::kernels::typed::perceptron(&x, &outputs.scores))?;
    assert_eq!(outputs.scores.view::<f32>()?.to_vec(), EXPECTED);
    assert_eq!(run(&x)?.scores.view::<f32>()?.to_vec(), EXPECTED);
    // A state goes to another thread.
    let (sent, there) = (state, x.clone());
    let scores = std::thread::spawn(move || {
        let mut sent = sent;
        sent.run(&there).map(|outputs| outputs.scores)
    });
    assert_eq!(scores.join().expect("no panic")?.view::<f32>()?.to_vec(), EXPECTED);
    let other = run(&Tensor::from_slice(&[0f32; 4], &[4])?).unwrap_err().to_string();
    assert!(other.contains("Mismatched x.ndim on argument #0"), "{other}");
    // Any number of rows up to 20: each is what the model for two rows gives.
    let mut state = rows::State::new()?;
    for count in [1, 2, 7, 16, 19, 20] {
        let numbers: Vec<f32> = (0..count * 4).map(|place| (place % 8) as f32 - 3.0).collect();
        let x = Tensor::from_slice(&numbers, &[count, 4])?;
        let expected: Vec<f32> = (0..count as usize * 3).map(|place| EXPECTED[place % 6]).collect();
        let mut outputs = rows::Outputs::new(count)?;
        assert_eq!(counted(|| state.run_into(&x, &mut outputs))?, 0);
        assert_eq!(outputs.scores.view::<f32>()?.to_vec(), expected);
        assert_eq!(rows::run(&x)?.scores.shape(), [count, 3]);
        assert_eq!(state.run(&x)?.scores.view::<f32>()?.to_vec(), expected);
    }
    let many = rows::run(&Tensor::zeros::<f32>(&[21, 4])?).unwrap_err().to_string();
    assert!(many.contains("rows: the dimension 'batch' is 21, and has to be 1 to 20"), "{many}");
    let flat = rows::run(&Tensor::zeros::<f32>(&[4])?).unwrap_err().to_string();
    assert!(flat.contains("Mismatched x.ndim on argument #0"), "{flat}");
    // Texts of some lengths in batches of any size: words that are all alike look at each other alike.
    let mut state = attention::State::new()?;
    for (batch, words) in [(1, 4), (5, 6), (3, 4)] {
        let x = Tensor::from_slice(&vec![1f32; (batch * words * 2) as usize], &[batch, words, 2])?;
        let mut outputs = attention::Outputs::new(batch, words)?;
        assert_eq!(counted(|| state.run_into(&x, &mut outputs))?, 0);
        let shares = outputs.shares.view::<f32>()?.to_vec();
        assert!(shares.iter().all(|share| (share * words as f32 - 1.0).abs() < 1e-6), "{shares:?}");
        assert_eq!(attention::run(&x)?.shares.shape(), [batch, words, words]);
    }
    for (shape, problem) in [
        ([1, 5, 2], "attention: the dimension 'words' is 5, and has to be 4 or 6"),
        ([6, 4, 2], "attention: the dimension 'batch' is 6, and has to be 1 to 5"),
    ] {
        let other = attention::run(&Tensor::zeros::<f32>(&shape)?).unwrap_err().to_string();
        assert!(other.contains(problem), "{other}");
    }
    // Any number of texts of any even length, by the same kernels.
    let mut state = any::State::new()?;
    for (batch, words) in [(1, 2), (5, 8), (3, 4), (1, 8), (5, 2)] {
        let x = Tensor::from_slice(&vec![1f32; (batch * words * 2) as usize], &[batch, words, 2])?;
        let mut outputs = any::Outputs::new(batch, words)?;
        assert_eq!(counted(|| state.run_into(&x, &mut outputs))?, 0);
        let shares = outputs.shares.view::<f32>()?.to_vec();
        assert!(shares.iter().all(|share| (share * words as f32 - 1.0).abs() < 1e-6), "{shares:?}");
        assert_eq!(any::run(&x)?.shares.shape(), [batch, words, words]);
    }
    for (shape, problem) in [
        ([1, 10, 2], "any: the dimension 'words' is 10, and has to be a multiple of 2 from 2 to 8"),
        ([1, 3, 2], "any: the dimension 'words' is 3, and has to be a multiple of 2 from 2 to 8"),
        ([0, 4, 2], "any: the dimension 'batch' is 0, and has to be 1 to 5"),
    ] {
        let other = any::run(&Tensor::zeros::<f32>(&shape)?).unwrap_err().to_string();
        assert!(other.contains(problem), "{other}");
    }
    // What a state keeps from call to call.
    let x = Tensor::from_slice(&[1f32, 2., 4.], &[3])?;
    let mut state = running::State::new()?;
    assert_eq!(state.run(&x)?.sum.view::<f32>()?.to_vec(), [1., 2., 4.]);
    assert_eq!(state.run(&x)?.sum.view::<f32>()?.to_vec(), [1.5, 3., 6.]);
    assert_eq!(state.run(&x)?.sum.view::<f32>()?.to_vec(), [1.75, 3.5, 7.]);
    state.reset()?;
    assert_eq!(state.run(&x)?.sum.view::<f32>()?.to_vec(), [1., 2., 4.]);
    println!("{with_state} allocations in 1000 calls with a state, {without} without");
    Ok(())
}
"#;

#[test]
fn a_model_becomes_a_function_of_the_library() {
    let calls = "
        .model_with(\"perceptron.onnx\", |model| model.dim(\"batch\", 2))
        .model_with(\"perceptron.onnx\", |model| model.name(\"rows\").dim_up_to(\"batch\", 20))
        .model_with(\"attention.onnx\", |model| model.dim_up_to(\"batch\", 5).dim_in(\"words\", [4, 6]))
        .model_with(\"attention.onnx\", |model| model.name(\"any\").dim_range(\"batch\", 1..=5).dim_range(\"words\", (2..=9).step_by(2)))
        .model_with(\"running.onnx\", |model| model.state(\"total\", \"next\"))
        .multiversion([\"x86-64-v3\"])";
    let package = package("model", calls).file(
        "src/lib.rs",
        "kernpack::library!();\n\
         /// The model from Rust.\n\
         #[kernpack::packed_func]\n\
         fn typed(x: kernpack::Tensor, mut scores: kernpack::Tensor) -> kernpack::Result<()> {\n    \
             kernels::typed::perceptron(&x, &mut scores)\n\
         }\n",
    );
    let package = package.file("src/bin/count.rs", COUNT);
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
        assert_eq!(scores.view::<f32>().unwrap().to_vec(), EXPECTED, "{function}");
        let wrong = Tensor::from_slice(&[0f32; 6], &[3, 2]).unwrap();
        let error = module.function(function).unwrap().call((&x, &wrong)).unwrap_err().to_string();
        assert!(error.contains("scores.shape[0] on argument #1"), "{error}");
    }
    // The function for other languages, which allocates its outputs.
    let x = Tensor::from_slice(&[-3f32, -2., -1., 0., 1., 2., 3., 4.], &[2, 4]).unwrap();
    let scores: Tensor = module.function("perceptron_run").unwrap().call_as((&x,)).unwrap();
    assert_eq!((scores.shape(), scores.view::<f32>().unwrap().to_vec()), (&[2, 3][..], EXPECTED.to_vec()));
    let info: String = module.function("perceptron_info").unwrap().call_as(()).unwrap();
    assert!(info.starts_with("{\"schema\":1,\"name\":\"perceptron\""), "{info}");
    // Any number of rows.
    for count in [1, 3, 20] {
        let x = Tensor::zeros::<f32>(&[count, 4]).unwrap();
        let scores: Tensor = module.function("rows_run").unwrap().call_as((&x,)).unwrap();
        assert_eq!(scores.shape(), [count, 3]);
    }
    for (count, problem) in [(0, "the dimension 'batch' is 0"), (21, "the dimension 'batch' is 21")] {
        let x = Tensor::zeros::<f32>(&[count, 4]).unwrap();
        let error = module.function("rows_run").unwrap().call((&x,)).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        let scores = Tensor::zeros::<f32>(&[count, 3]).unwrap();
        let error = module.function("rows").unwrap().call((&x, &scores)).unwrap_err().to_string();
        assert!(error.contains("rows: x.shape[0], the dimension 'batch', has to be 1 to 20"), "{error}");
    }
    let info: String = module.function("rows_info").unwrap().call_as(()).unwrap();
    assert!(info.contains("\"parts\":{\"dimension\":\"batch\",\"most\":20,\"sizes\":[16, 4, 1]}"), "{info}");
    let x = Tensor::zeros::<f32>(&[2, 6, 2]).unwrap();
    let shares: Tensor = module.function("attention_run").unwrap().call_as((&x,)).unwrap();
    assert_eq!(shares.shape(), [2, 6, 6]);
    let info: String = module.function("attention_info").unwrap().call_as(()).unwrap();
    let extents = "\"extents\":[\"batch\",\"words\",\"2\"]}";
    assert!(
        info.contains("\"sizes\":{\"dimension\":\"words\",\"extents\":[6, 4]}") && info.contains(extents),
        "{info}"
    );
    let x = Tensor::zeros::<f32>(&[3, 6, 2]).unwrap();
    let shares: Tensor = module.function("any_run").unwrap().call_as((&x,)).unwrap();
    assert_eq!(shares.shape(), [3, 6, 6]);
    let info: String = module.function("any_info").unwrap().call_as(()).unwrap();
    let ranges = "\"ranges\":[{\"dimension\":\"batch\",\"least\":1,\"most\":5},{\"dimension\":\"words\",\"least\":2,\"most\":8,\"step\":2}]";
    assert!(info.contains(ranges) && info.contains(extents), "{info}");
    // The library needs only the C library and the unwinder of the system, nothing of the compiler.
    let needed = BuiltLibrary::open(&package.library_path("debug")).needed();
    let usual = ["libc.so.6", "libgcc_s.so.1", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
    assert!(needed.iter().all(|name| usual.contains(&name.as_str())), "{needed:?}");
    // The program counts its allocations.
    let ran = package.cargo(&["run", "--quiet", "--bin", "count"], &[]);
    assert!(ran.success, "{}", ran.stderr);
    assert_eq!(ran.stdout, "0 allocations in 1000 calls with a state, 0 without\n");
    a_program_in_c(&package);
    let header = fs::read_to_string(package.out_dir().join("kernpack/rows.h")).unwrap();
    let arguments = " * input x: float32[batch, 4]\n * output scores: float32[batch, 3]\n * batch is 1 to 20\n";
    assert!(header.contains(arguments), "{header}");
    let header = fs::read_to_string(package.out_dir().join("kernpack/attention.h")).unwrap();
    let arguments = " * input x: float32[batch, words, 2]\n * output shares: float32[batch, words, words]\n * batch is 1 to 5\n * words is 4 or 6\n";
    assert!(header.contains(arguments), "{header}");
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

/// A program that writes words with a decoder: all at once, one after the other, and in batches.
const DECODE: &str = r#"//! Decodes.

use decoder::kernels::decoder::{Outputs, State};
use kernpack::{Result, Tensor};

const WORDS: i64 = 31;

/// The places of the largest scores of the last word of each row.
fn next(outputs: &Outputs) -> Result<Vec<i64>> {
    let scores = outputs.logits.view::<f32>()?.to_vec();
    let rows = outputs.logits.shape()[0] as usize;
    let last = |row: usize| &scores[(row + 1) * (scores.len() / rows) - WORDS as usize..][..WORDS as usize];
    Ok((0..rows).map(|row| (0..WORDS).max_by(|a, b| last(row)[*a as usize].total_cmp(&last(row)[*b as usize])).unwrap()).collect())
}

/// Calls the decoder with words of some rows.
fn call(state: &mut State, rows: &[&[i64]]) -> Result<Outputs> {
    let (batch, tokens) = (rows.len() as i64, rows[0].len() as i64);
    let ids = Tensor::from_slice(&rows.concat(), &[batch, tokens])?;
    let seen = (state.past() + tokens) * batch;
    let mask = Tensor::from_slice(&vec![1i64; seen as usize], &[batch, state.past() + tokens])?;
    state.run(&ids, &mask)
}

fn main() -> Result<()> {
    let start = [5i64, 17, 2, 11];
    let mut state = State::new()?;
    assert_eq!(state.past(), 0);
    let mut words = start.to_vec();
    let mut outputs = call(&mut state, &[&start])?;
    assert_eq!((state.past(), outputs.logits.shape()), (4, &[1, 4, WORDS][..]));
    for _ in 0..20 {
        let word = next(&outputs)?[0];
        words.push(word);
        outputs = call(&mut state, &[&[word]])?;
    }
    assert_eq!(state.past(), 24);
    println!("{:?}", &words[4..]);
    // All words at once, in another state: the same word follows.
    let mut whole = State::new()?;
    let all = call(&mut whole, &[&words[..16]])?;
    assert_eq!(next(&all)?[0], words[16]);
    let rest = call(&mut whole, &[&words[16..]])?;
    assert_eq!((next(&rest)?, whole.past()), (next(&outputs)?, 24));
    // Another batch needs another state, or a reset.
    let other = call(&mut whole, &[&[1], &[2]]).unwrap_err().to_string();
    assert!(other.contains("decoder: the state has past_0_key [1, 2, 24, 8], and the call needs [2, 2, 24, 8]; call `reset`"), "{other}");
    whole.reset()?;
    let both = call(&mut whole, &[&start, &words[2..6]])?;
    assert_eq!((next(&both)?[0], whole.past()), (words[4], 4));
    // More than the range allows.
    let mut far = State::new()?;
    for _ in 0..3 {
        call(&mut far, &[&[1; 16]])?;
    }
    let other = call(&mut far, &[&[1]]).unwrap_err().to_string();
    assert!(other.contains("the dimension 'past', has to be 0 to 40"), "{other}");
    assert_eq!(far.past(), 48);
    // An error changes nothing.
    let ids = Tensor::from_slice(&[99i64], &[1, 1])?;
    let mask = Tensor::from_slice(&[1i64; 25], &[1, 25])?;
    let wrong = state.run(&ids, &mask).unwrap_err().to_string();
    assert!(wrong.contains("an element of input 1 ('input_ids') is not in the range"), "{wrong}");
    assert_eq!((next(&call(&mut state, &[&[words[23]]])?)?.len(), state.past()), (1, 25));
    Ok(())
}
"#;

#[test]
fn a_state_grows() {
    let calls = "
        .model_with(\"decoder.onnx\", |model| model
            .dim_range(\"batch\", 1..=2)
            .dim_range(\"tokens\", 1..=16)
            .dim_range(\"past\", 0..=40)
            .state(\"past.0.key\", \"present.0.key\")
            .state(\"past.0.value\", \"present.0.value\"))";
    let package = Package::new("decoder", calls).file("src/bin/decode.rs", DECODE);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("graph/tests/data/decoder.onnx");
    fs::copy(source, package.dir.join("decoder.onnx")).unwrap();
    let ran = package.cargo(&["run", "--quiet", "--bin", "decode"], &[]);
    assert!(ran.success, "{}", ran.stderr);
    // As `make_decoder.py` has printed it, from onnxruntime.
    assert_eq!(ran.stdout, "[26, 25, 18, 22, 2, 13, 29, 24, 29, 24, 3, 25, 18, 22, 29, 4, 30, 18, 22, 29]\n");
}

/// Compiles and runs a C program that uses the generated header and links the library.
fn a_program_in_c(package: &Package) {
    let library = package.library_path("debug");
    let program = package.dir.join("caller");
    fs::write(program.with_extension("c"), CALLER).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(program.with_extension("c"));
    compiler.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
    compiler.arg("-I").arg(package.out_dir().join("kernpack")).arg(&library);
    assert!(compiler.status().unwrap().success());
    let ran = Command::new(&program).env("LD_LIBRARY_PATH", library.parent().unwrap()).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "10 -10 66 -38 72 5\n10 -10 66 -38 72 5\n-1\n");
}

/// Calls the model with the memory of the thread, with its own, and with a wrong input shape.
const CALLER: &str = r#"#include "perceptron.h"
#include <stdio.h>

static DLTensor matrix(float* data, int64_t* shape) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 2;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

static char memory[KERNPACK_PERCEPTRON_STATE_BYTES];

int main(void) {
  float numbers[8] = {-3, -2, -1, 0, 1, 2, 3, 4}, results[6];
  int64_t shape[2] = {2, 4}, of_results[2] = {2, 3};
  DLTensor x = matrix(numbers, shape), scores = matrix(results, of_results);
  for (int with_state = 0; with_state < 2; ++with_state) {
    memset(results, 0, sizeof results);
    int status = with_state ? kernpack_perceptron_with(memory, &x, &scores) : kernpack_perceptron(&x, &scores);
    if (status != 0) return 1;
    for (int i = 0; i < 6; ++i) printf("%g%c", results[i], i == 5 ? '\n' : ' ');
  }
  printf("%d\n", kernpack_perceptron(&scores, &x));
  return 0;
}
"#;

#[test]
fn mistakes_in_models_are_told_at_once() {
    let calls = "
        .c([\"absent.c\"])
        .model(\"perceptron.onnx\")
        .model_with(\"perceptron.onnx\", |model| model.name(\"other\").dim(\"batch\", 1).input(\"y\", [1]))
        .model(\"broken.onnx\")
        .model(\"absent.onnx\")";
    let states = "
        .model_with(\"running.onnx\", |model| model.state(\"total\", \"last\"))
        .model_with(\"perceptron.onnx\", |model| model.name(\"other\").dim(\"batch\", 1).state(\"x\", \"scores\"))
        .model_with(\"perceptron.onnx\", |model| model.name(\"rows\").dim_up_to(\"batch\", 8).state(\"x\", \"scores\"))";
    let package = package("model-mistakes", calls).file("broken.onnx", "this is text");
    expect![[r#"
        Error: 5 problems

        absent.c: no such file; paths are relative to the package, DIR

        perceptron.onnx: input 'x': dimension 0 ('batch') is not known: say `.dim("batch", extent)`, or `.input("x", [..])` with all extents

        perceptron.onnx: the model has no input 'y'; it has: x

        broken.onnx: the file cannot be read: a field of wire type 4: this is not an ONNX model

        absent.onnx: no such file; paths are relative to the package, DIR
    "#]].assert_eq(&package.message(&[]));
    let package = self::package("model-states", states);
    expect![[r#"
        Error: 3 problems

        running.onnx: state 'last': the model has no output of this name

        perceptron.onnx: state 'x' is float32[1, 4], and 'scores', which is to take its place, float32[1, 3]

        perceptron.onnx: state 'x' has the dimension 'batch', which each call tells: say one extent, `.dim("batch", extent)`, or a range, `.dim_range("batch", 1..=extent)`
    "#]]
    .assert_eq(&package.message(&[]));
}
