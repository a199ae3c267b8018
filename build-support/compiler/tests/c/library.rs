//! Kernels as C in a shared library that is loaded: rules, masks, vectors, threads of the pool,
//! errors.

use std::path::Path;
use std::process::Command;

use kernpack::{Module, Tensor};
use kernpack_compiler::codegen::{Target, c};
use kernpack_compiler::ir::{Expr, F32, IrModule};
use kernpack_compiler::te::{compute, exp, max, reduce_axis, reduce_max, sum};
use kernpack_compiler::{Kernel, PassContext, TargetDescription};

use crate::compile::WARNINGS;

/// Vectors of 4, 8 and 16 lanes. Wide ones take long to optimize for a CPU without them.
fn ways() -> [(TargetDescription, &'static [&'static str]); 3] {
    [
        (TargetDescription::x86_64(), &["-O2"]),
        (TargetDescription::x86_64_v3(), &["-O0", "-DKP_VECTORS=0"]),
        (TargetDescription::x86_64_v4(), &["-O0"]),
    ]
}

/// `relu(a b + bias)`.
fn product() -> Kernel {
    let mut k = Kernel::new("product");
    let (m, n, depth) = (k.size("m"), k.size("n"), k.size("depth"));
    let a = k.input("a", [&m, &depth], F32);
    let b = k.input("b", [&depth, &n], F32);
    let bias = k.input("bias", [&n], F32);
    let r = reduce_axis(0, depth.expr(), "r");
    let c = compute([&m, &n], |[i, j]| sum(a.at([&i, &r]) * b.at([&r, &j]), &r)).named("c");
    k.output("out", compute([&m, &n], |[i, j]| max(c.at([&i, &j]) + bias.at([&j]), 0.0)));
    k
}

fn softmax() -> Kernel {
    let mut k = Kernel::new("softmax");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let (r, s) = (reduce_axis(0, n.expr(), "r"), reduce_axis(0, n.expr(), "s"));
    let top = compute([&m], |[i]| reduce_max(x.at([&i, &r]), &r)).named("top");
    let e = compute([&m, &n], |[i, j]| exp(x.at([&i, &j]) - top.at([&i]))).named("e");
    let total = compute([&m], |[i]| sum(e.at([&i, &s]), &s)).named("total");
    k.output("out", compute([&m, &n], |[i, j]| e.at([&i, &j]) / total.at([&i])));
    k
}

fn gelu() -> Kernel {
    let mut k = Kernel::new("gelu");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let half = |x: Expr| (Expr::math("tanh", [x.clone() * 0.75]) + 1.0) * x * 0.5;
    k.output("out", compute([&m, &n], |[i, j]| half(x.at([&i, &j]))));
    k
}

/// Loads the kernels as a library.
fn library(target: &TargetDescription, options: &[&str]) -> Module {
    let context = PassContext::default();
    let functions = [product(), softmax(), gelu()].map(|kernel| kernel.lower(target, &context).unwrap());
    let source = c::build(&IrModule::new(functions), &Target::c()).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c").join("library");
    std::fs::create_dir_all(&folder).unwrap();
    let (file, output) = (folder.join(format!("{}.c", target.name)), folder.join(format!("{}.so", target.name)));
    std::fs::write(&file, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include");
    let mut command = Command::new(compiler);
    command.arg("-I").arg(include).args(c::FLAGS).args(options).args(WARNINGS).args(["-shared", "-fPIC"]);
    let result = command.arg(&file).arg("-o").arg(&output).arg("-lm").output().unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    Module::load(output.to_str().unwrap()).unwrap()
}

fn values(count: i64, seed: i64) -> Vec<f32> {
    (0..count).map(|at| ((at * 37 + seed * 11).rem_euclid(29) - 14) as f32 / 4.0).collect()
}

fn tensor(values: &[f32], shape: &[i64]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

#[track_caller]
fn near(what: &str, out: &Tensor, expected: &[f64]) {
    let found = out.view::<f32>().unwrap().to_vec();
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= 1e-5 * expected.abs().max(1.0), "{what}: element {at} is {found}, not {expected}");
    }
}

#[test]
fn kernels_run_from_a_library() {
    for (target, options) in ways() {
        let library = library(&target, options);
        for (m, n, depth) in [(1, 1, 1), (3, 17, 5), (16, 64, 32), (0, 4, 4), (29, 33, 40), (70, 130, 9)] {
            let what = |name: &str| format!("{name} {m}x{n}x{depth} for {}", target.name);
            let (a, b, bias) = (values(m * depth, 1), values(depth * n, 2), values(n, 3));
            let out = tensor(&vec![f32::NAN; (m * n) as usize], &[m, n]);
            let inputs = (&tensor(&a, &[m, depth]), &tensor(&b, &[depth, n]), &tensor(&bias, &[n]), &out);
            library.function("product").unwrap().call(inputs).unwrap();
            let (n_usize, depth_usize) = (n as usize, depth as usize);
            let expected: Vec<f64> = (0..(m * n) as usize)
                .map(|at| {
                    let (i, j) = (at / n_usize, at % n_usize);
                    let dot: f64 = (0..depth_usize)
                        .map(|r| f64::from(a[i * depth_usize + r]) * f64::from(b[r * n_usize + j]))
                        .sum();
                    (dot + f64::from(bias[j])).max(0.0)
                })
                .collect();
            near(&what("product"), &out, &expected);

            let x = values(m * n, 4);
            let out = tensor(&vec![f32::NAN; (m * n) as usize], &[m, n]);
            library.function("gelu").unwrap().call((&tensor(&x, &[m, n]), &out)).unwrap();
            let expected: Vec<f64> =
                x.iter().map(|x| f64::from(*x)).map(|x| ((x * 0.75).tanh() + 1.0) * x * 0.5).collect();
            near(&what("gelu"), &out, &expected);

            let out = tensor(&vec![f32::NAN; (m * n) as usize], &[m, n]);
            library.function("softmax").unwrap().call((&tensor(&x, &[m, n]), &out)).unwrap();
            let mut expected = Vec::new();
            for row in x.chunks(n_usize) {
                let total: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
                expected.extend(row.iter().map(|x| f64::from(*x).exp() / total));
            }
            near(&what("softmax"), &out, &expected);
        }
        let error = library.function("gelu").unwrap().call((1, 2)).unwrap_err().to_string();
        assert!(error.contains("Mismatched type on argument #0"), "{error}");
    }
}
