//! What LLVM makes of the innermost loops that the rules write: all sums stay in registers, and there is one multiply-add for each vector of a tile.
#![cfg(all(feature = "llvm", target_arch = "x86_64"))]

use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{Expr, F32};
use kernpack_compiler::te::{compute, reduce_axis, sum};
use kernpack_compiler::{Kernel, PassContext, TargetDescription, build};

/// A loop of the assembly without other loops in it.
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

/// Loops of which two fifths are multiply-adds have a whole number of tiles, of the first size or of one of the others, and do not spill; one has the first size.
#[track_caller]
fn check(name: &str, kernel: &Kernel, cpu: &str, tiles: &[usize]) {
    let target = Target { cpu: cpu.into(), features: String::new(), ..Target::host() };
    let function = kernel.lower(&TargetDescription::of(&target), &PassContext::default()).unwrap();
    let module = build(&function, &target).unwrap();
    let assembly = module.inspect_source("s").unwrap();
    // Transforms have multiply-adds as well, but among other arithmetic.
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
    // Rows that are 4 KiB apart: no more of them than the first cache has ways.
    let kernel = product(64, 1024, 64);
    check("product with rows of 4 KiB", &kernel, "x86-64-v4", &[8 * 2]);
}

#[test]
fn convolutions() {
    // 84 channels are 7 tiles of 12 rows or 14 of 6; 144 pixels have one vector more than whole tiles of two.
    let strided = convolution(84, 24, 2);
    check("direct convolution", &strided, "x86-64-v4", &[12 * 2, 12]);
    check("direct convolution", &strided, "x86-64-v3", &[6 * 2]);
    // 32 tiles of pixels at a time are 3 tiles of 11 and 10 rows, or 6 of 6 and 2.
    let dense = convolution(64, 32, 1);
    check("Winograd's convolution", &dense, "x86-64-v4", &[11 * 2, 10 * 2]);
    check("Winograd's convolution", &dense, "x86-64-v3", &[6 * 2, 2 * 2]);
}
