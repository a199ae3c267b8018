//! LLVM's code for the innermost loops that the rules generate: all sums stay in registers, and
//! there is one multiply-add for each vector of a tile. To measure the run time:
//! `cargo test [--release] -p kernpack-compiler --test microkernels -- --ignored --nocapture`, on
//! an idle machine.
#![cfg(all(feature = "llvm", target_arch = "x86_64"))]

use std::time::Instant;

use kernpack::{Any, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{Expr, F32};
use kernpack_compiler::rules::Filters;
use kernpack_compiler::te::{compute, reduce_axis, sum};
use kernpack_compiler::{Kernel, KernelParamKind, PassContext, TargetDescription, build};

/// A loop of the assembly without inner loops.
struct Loop<'a> {
    lines: Vec<&'a str>,
}

impl Loop<'_> {
    fn multiply_adds(&self) -> usize {
        self.lines.iter().filter(|line| line.starts_with("vfmadd") && !line.contains("ss\t")).count()
    }

    /// Moves of vectors to and from the stack.
    fn spills(&self) -> Vec<&str> {
        let is_vector = |line: &&str| line.contains("%xmm") || line.contains("%ymm") || line.contains("%zmm");
        self.lines.iter().copied().filter(is_vector).filter(|line| line.contains("(%rsp")).collect()
    }
}

/// The innermost loops of an assembly text.
fn innermost(assembly: &str) -> Vec<Loop<'_>> {
    let lines: Vec<&str> = assembly.lines().map(str::trim).collect();
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (end, line) in lines.iter().enumerate() {
        let Some(target) = line.strip_prefix('j').and_then(|line| line.split_whitespace().nth(1)) else { continue };
        let label = format!("{target}:");
        if let Some(start) = lines[..end].iter().rposition(|line| line.starts_with(&label)) {
            found.push((start, end));
        }
    }
    let is_inner = |(start, end): &(usize, usize)| {
        !found.iter().any(|other| other != &(*start, *end) && other.0 >= *start && other.1 <= *end)
    };
    found
        .iter()
        .filter(|range| is_inner(range))
        .map(|(start, end)| Loop { lines: lines[*start..=*end].to_vec() })
        .collect()
}

/// Checks that loops of which two fifths are multiply-adds have a whole number of tiles, of the
/// first size or of one of the others, and do not spill; one has to have the first size.
#[track_caller]
fn check(name: &str, kernel: &Kernel, cpu: &str, tiles: &[usize]) {
    let target = Target { cpu: cpu.into(), features: String::new(), ..Target::host() };
    let function = kernel.lower(&TargetDescription::of(&target), &PassContext::default()).unwrap();
    let module = build(&function, &target).unwrap();
    let assembly = module.inspect_source("s").unwrap();
    // Transforms also have multiply-adds, but among other arithmetic.
    let is_kernel = |inner: &Loop<'_>| inner.multiply_adds() >= 8 && inner.multiply_adds() * 5 >= inner.lines.len() * 2;
    let kernels: Vec<Loop<'_>> = innermost(&assembly).into_iter().filter(is_kernel).collect();
    for kernel in &kernels {
        let (count, shown) = (kernel.multiply_adds(), kernel.lines.join("\n"));
        assert!(
            tiles.iter().any(|tile| count.is_multiple_of(*tile)),
            "{name} on {cpu}: {count} multiply-adds, not a multiple of one of {tiles:?}\n{shown}"
        );
        assert!(kernel.spills().is_empty(), "{name} on {cpu} spills: {:#?}\n{shown}", kernel.spills());
    }
    let counts: Vec<usize> = kernels.iter().map(Loop::multiply_adds).collect();
    assert!(counts.iter().any(|count| count.is_multiple_of(tiles[0])), "{name} on {cpu}: {counts:?}, not {tiles:?}");
}

fn product(m: i64, depth: i64, n: i64) -> Kernel {
    let mut k = Kernel::new("f");
    let (a, b) = (k.input("a", [m, depth], F32), k.input("b", [depth, n], F32));
    let r = reduce_axis(0, depth, "r");
    k.output("c", compute([m, n], |[i, j]| sum(a.at([&i, &r]) * b.at([&r, &j]), &r)));
    k
}

fn convolution(channels: i64, size: i64, stride: i64) -> Kernel {
    let mut k = Kernel::new("f");
    let x = k.input("x", (1, channels, size + 2, size + 2), F32);
    let w = k.input("w", [channels, channels, 3, 3], F32);
    let [rc, ry, rx] = [channels, 3, 3].map(|extent| reduce_axis(0, extent, "r"));
    k.output(
        "out",
        compute((1, channels, size / stride, size / stride), |[n, o, y, x_]| {
            let pixel: Expr = x.at((&n, &rc, &y * stride + &ry, &x_ * stride + &rx));
            sum(pixel * w.at([&o, &rc, &ry, &rx]), [&rc, &ry, &rx])
        }),
    );
    k
}

#[test]
fn products() {
    let kernel = product(84, 100, 256);
    check("product", &kernel, "x86-64-v4", &[14 * 2]);
    check("product", &kernel, "x86-64-v3", &[6 * 2]);
    // Rows that are 4 KiB apart: no more of them than the L1 cache has ways.
    let kernel = product(64, 1024, 64);
    check("product with rows of 4 KiB", &kernel, "x86-64-v4", &[8 * 2]);
}

/// Products with extents that are known only when they run: their last tiles do not spill either.
#[test]
fn products_of_any_extents() {
    let attention = |is_transposed: bool| {
        let mut k = Kernel::new("f");
        let (n, m) = (k.size("n").expr().clone(), k.size("m").expr().clone());
        let (depth, columns) = if is_transposed { (Expr::int(32), m.clone()) } else { (m.clone(), Expr::int(64)) };
        let a = k.input("a", (&n, &m, &depth), F32);
        let b = if is_transposed { (&n, &m, &depth) } else { (&n, &m, &columns) };
        let b = k.input("b", b, F32);
        let r = reduce_axis(0, &depth, "r");
        k.output(
            "c",
            compute((&n, &m, &columns), |[n, i, j]| {
                let element = if is_transposed { b.at([&n, &j, &r]) } else { b.at([&n, &r, &j]) };
                sum(a.at([&n, &i, &r]) * element, &r)
            }),
        );
        k
    };
    let panels = {
        let mut k = Kernel::new("f");
        let (n, m) = (k.size("n").expr().clone(), k.size("m").expr().clone());
        let (a, b) = (k.input("a", (&n, &m, 384), F32), k.input("b", [24, 384, 16], F32));
        let r = reduce_axis(0, 384, "r");
        k.output(
            "c",
            compute((&n, &m, 384), |[n, i, j]| {
                sum(a.at([&n, &i, &r]) * b.at([j.expr().floor_div(16), r.expr(), j.expr().floor_mod(16)]), &r)
            }),
        );
        k
    };
    for (name, kernel) in
        [("queries and keys", attention(true)), ("weights and values", attention(false)), ("panels", panels)]
    {
        check(name, &kernel, "x86-64-v4", &[14 * 2, 8 * 2, 14, 8, 4 * 2]);
        check(name, &kernel, "x86-64-v3", &[6 * 2, 4 * 2]);
    }
}

#[test]
fn convolutions() {
    // 84 channels are 7 tiles of 12 rows or 14 of 6; 144 pixels have one vector more than whole
    // tiles of two.
    let strided = convolution(84, 24, 2);
    check("direct convolution", &strided, "x86-64-v4", &[12 * 2, 12]);
    check("direct convolution", &strided, "x86-64-v3", &[6 * 2]);
    // 32 tiles of pixels at a time are 3 tiles of 11 and 10 rows, or 6 of 6 and 2.
    let dense = convolution(64, 32, 1);
    check("Winograd's convolution", &dense, "x86-64-v4", &[11 * 2, 10 * 2]);
    check("Winograd's convolution", &dense, "x86-64-v3", &[6 * 2, 2 * 2]);
}

/// Convolutions of images of any extents: the last tiles of a block do not spill either.
#[test]
fn convolutions_of_any_extents() {
    let kernel = convolution_of_any_extents(64, 64, 3, true);
    check("Winograd's convolution of any extents", &kernel, "x86-64-v4", &[14 * 2, 8 * 2, 4 * 2]);
    check("Winograd's convolution of any extents", &kernel, "x86-64-v3", &[6 * 2, 4 * 2]);
    // 64 channels are 4 tiles of 13 rows and one of 12, or 16 of 4.
    let kernel = convolution_of_any_extents(64, 64, 1, false);
    check("single pixels of any extents", &kernel, "x86-64-v4", &[13 * 2, 12 * 2, 13, 12]);
    check("single pixels of any extents", &kernel, "x86-64-v3", &[4 * 2]);
}

/// Blocks are transposed by instructions with two operands and no others: four steps of 16 for
/// AVX-512, three of 8 for AVX2.
#[test]
fn transposes() {
    let kernel = transpose(64, 96);
    for (cpu, steps) in [("x86-64-v4", [32, 32, 0]), ("x86-64-v3", [16, 8, 0])] {
        let target = Target { cpu: cpu.into(), features: String::new(), ..Target::host() };
        let function = kernel.lower(&TargetDescription::of(&target), &PassContext::default()).unwrap();
        let assembly = build(&function, &target).unwrap().inspect_source("s").unwrap();
        let count = |start: &str| assembly.lines().filter(|line| line.trim().starts_with(start)).count();
        let moves = count("vshuff") + count("vperm2f128") + count("vinsertf");
        let found = [count("vunpck"), moves, count("vpermt2") + count("vpermi2") + count("vshufps")];
        assert!(found[0] > 0 && found[0].is_multiple_of(steps[0]), "{cpu}: {found:?}\n{assembly}");
        assert_eq!(found, steps.map(|step| step * (found[0] / steps[0])), "{cpu}\n{assembly}");
    }
}

/// A convolution with padding, as in models.
fn padded_convolution([depth, channels, size, window, stride]: [i64; 5]) -> Kernel {
    let (around, out) = (window / 2, (size + 2 * (window / 2) - window) / stride + 1);
    let mut k = Kernel::new("f");
    let x = k.input("x", [1, depth, size, size], F32);
    let w = k.input("w", [channels, depth, window, window], F32);
    let padded = compute([1, depth, size + 2 * around, size + 2 * around], |[n, c, y, x_]| {
        let inside = y.greater_equal(around).and(y.less(size + around));
        let inside = inside.and(x_.greater_equal(around)).and(x_.less(size + around));
        Expr::if_then_else(inside, x.at((&n, &c, &y - around, &x_ - around)), 0.0)
    });
    let [rc, ry, rx] = [depth, window, window].map(|extent| reduce_axis(0, extent, "r"));
    k.output(
        "out",
        compute([1, channels, out, out], |[n, o, y, x_]| {
            let pixel = padded.at((&n, &rc, &y * stride + &ry, &x_ * stride + &rx));
            sum(pixel * w.at([&o, &rc, &ry, &rx]), [&rc, &ry, &rx])
        }),
    );
    k
}

/// A convolution with padding of an image of any extents; with `transformed`, its weights are
/// transformed for Winograd's algorithm.
fn convolution_of_any_extents(depth: i64, channels: i64, window: i64, transformed: bool) -> Kernel {
    let around = window / 2;
    let mut k = Kernel::new("f");
    let (h, w) = (k.size("h").expr().clone(), k.size("w").expr().clone());
    let x = k.input("x", (1, depth, &h, &w), F32);
    let filters = Filters { channels, depth, pixels: [1, 1], window: [window; 2], strides: [1, 1], dilations: [1, 1] };
    let form = filters.form_of_any_extents().filter(|_| transformed);
    let shape = form.map_or(vec![channels, depth, window, window], |form| filters.shape(form));
    let weights = k.input("w", shape.into_iter().map(Expr::int).collect::<Vec<_>>(), F32);
    let padded = compute((1, depth, &h + 2 * around, &w + 2 * around), |[n, c, y, x_]| {
        let inside = y.greater_equal(around).and(y.less(&h + around));
        let inside = inside.and(x_.greater_equal(around)).and(x_.less(&w + around));
        Expr::if_then_else(inside, x.at((&n, &c, &y - around, &x_ - around)), 0.0)
    });
    let axes = [depth, window, window].map(|extent| reduce_axis(0, extent, "r"));
    let reads = form.map(|form| filters.reads(form, &weights));
    k.output(
        "out",
        compute((1, channels, &h, &w), |[n, o, y, x_]| {
            let [c, ky, kx] = axes.each_ref().map(|axis| axis.expr());
            let pixels = if around == 0 { &x } else { &padded };
            let pixel = pixels.at((&n, &c, &y + &ky, &x_ + &kx));
            let at = [o.expr().clone(), c, ky, kx];
            sum(pixel * reads.as_ref().map_or_else(|| weights.at(&at), |reads| reads(&at)), &axes[..])
        }),
    );
    k
}

/// A transposed matrix.
fn transpose(rows: i64, columns: i64) -> Kernel {
    let mut k = Kernel::new("f");
    let x = k.input("x", [rows, columns], F32);
    k.output("out", compute([columns, rows], |[i, j]| x.at([&j, &i])));
    k
}

/// The run time of kernels that transpose blocks, in microseconds on one thread: the minimum of 300
/// runs.
#[test]
#[ignore = "a benchmark"]
fn run_times() {
    for (name, kernel, image) in [
        ("Winograd 64@56", padded_convolution([64, 64, 56, 3, 1]), [0; 2]),
        ("Winograd 128@28", padded_convolution([128, 128, 28, 3, 1]), [0; 2]),
        ("Winograd 64@56, any extents", convolution_of_any_extents(64, 64, 3, true), [56; 2]),
        ("Winograd 128@28, any extents", convolution_of_any_extents(128, 128, 3, true), [28; 2]),
        ("transpose 512x512", transpose(512, 512), [0; 2]),
        ("transpose 1040x1040", transpose(1040, 1040), [0; 2]),
    ] {
        for cpu in ["x86-64-v4", "x86-64-v3"] {
            let target = Target { cpu: cpu.into(), features: String::new(), ..Target::host() };
            let tuned = TargetDescription { parallel_work: i64::MAX, ..TargetDescription::of(&target) };
            let function = kernel.lower(&tuned, &PassContext::default()).unwrap();
            let module = build(&function, &target).unwrap();
            let tensors: Vec<Tensor> = (kernel.params().iter())
                .map(|param| match &param.kind {
                    KernelParamKind::Input(tensor) | KernelParamKind::Output(tensor) => {
                        let unknown = tensor.shape.len().saturating_sub(image.len());
                        let extent =
                            |(axis, extent): (usize, Expr)| extent.as_int().unwrap_or_else(|| image[axis - unknown]);
                        let shape: Vec<i64> = tensor.shape.iter().enumerate().map(extent).collect();
                        let values: Vec<f32> = (0..shape.iter().product()).map(|at: i64| (at % 13) as f32).collect();
                        Tensor::from_slice(&values, &shape).unwrap()
                    }
                    KernelParamKind::Scalar(_) => unreachable!("these kernels have tensors only"),
                })
                .collect();
            let args: Vec<Any> = tensors.into_iter().map(Any::from).collect();
            let run = module.function("f").unwrap();
            let mut best = f64::MAX;
            for _ in 0..300 {
                let start = Instant::now();
                run.call(&args[..]).unwrap();
                best = best.min(start.elapsed().as_secs_f64() * 1e6);
            }
            println!("{name} for {cpu}: {best:.1}");
        }
    }
}

/// The compile time of kernels with much code, in milliseconds: rules and passes, and LLVM. The
/// minimum of ten runs.
#[test]
#[ignore = "a benchmark"]
fn compile_times() {
    for (name, kernel) in [
        ("Winograd 64@56", padded_convolution([64, 64, 56, 3, 1])),
        ("Winograd 128@28", padded_convolution([128, 128, 28, 3, 1])),
        ("Winograd 256@14", padded_convolution([256, 256, 14, 3, 1])),
        ("512@7", padded_convolution([512, 512, 7, 3, 1])),
        ("7x7 stem", padded_convolution([3, 64, 224, 7, 2])),
        ("3x3, stride 2", padded_convolution([64, 128, 56, 3, 2])),
        ("1x1", padded_convolution([256, 64, 56, 1, 1])),
        ("product", product(1024, 1024, 1024)),
    ] {
        for cpu in ["x86-64-v4", "x86-64-v3"] {
            let target = Target { cpu: cpu.into(), features: String::new(), ..Target::host() };
            let (mut ours, mut llvm) = (f64::MAX, f64::MAX);
            for _ in 0..10 {
                let start = Instant::now();
                let function = kernel.lower(&TargetDescription::of(&target), &PassContext::default()).unwrap();
                let lowered = Instant::now();
                drop(build(&function, &target).unwrap());
                ours = ours.min((lowered - start).as_secs_f64() * 1e3);
                llvm = llvm.min(lowered.elapsed().as_secs_f64() * 1e3);
            }
            println!("{name} for {cpu}: {ours:.1} + {llvm:.1}");
        }
    }
}
