//! The cost of simplification in an unoptimized build, because build scripts are not optimized.

use std::time::Instant;

use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::ir::{Expr, F32, Range, Var};
use kernpack_compiler::te::{compute, reduce_axis, sum};
use kernpack_compiler::{Kernel, PassContext, PassOptions, TargetDescription};

/// The indices and guards of a direct convolution whose output is tiled by 8 rows, 8 columns, 32
/// channels, and whose loops over them were split, fused and split again, as bound inference
/// substitutes them.
fn convolution() -> (Vec<(Var, Expr)>, Vec<Expr>) {
    let names = ["n", "yo", "xo", "co", "yi", "xi", "ci", "ry", "rx", "rco", "rci", "f"];
    let [n, yo, xo, co, yi, xi, ci, ry, rx, rco, rci, f] = names.map(Var::index);
    let extents = [4, 7, 7, 2, 8, 8, 32, 3, 3, 4, 16, 98];
    let mut loops = Vec::new();
    for (var, extent) in [&n, &yo, &xo, &co, &yi, &xi, &ci, &ry, &rx, &rco, &rci, &f].into_iter().zip(extents) {
        loops.push((var.clone(), Expr::int(extent)));
    }
    let y = &yo * 8 + &yi;
    let x = &xo * 8 + &xi;
    let c = &co * 32 + &ci;
    let k = &rco * 16 + &rci;
    let row = &y + &ry - 1;
    let column = &x + &rx - 1;
    let output = ((&n * 56 + &y) * 56 + &x) * 64 + &c;
    let input = ((&n * 56 + &row) * 56 + &column) * 64 + &k;
    let weight = ((&ry * 3 + &rx) * 64 + &k) * 64 + &c;
    let tile = ((&y - &yo * 8) * 8 + (&x - &xo * 8)) * 32 + (&c - &co * 32);
    let fused = f.floor_div(14) * 8 + f.floor_div(2).floor_mod(7) + f.floor_mod(2) * 32;
    let halo = (&row - (&yo * 8 - 1)) * 10 + (&column - (&xo * 8 - 1));
    let again = output.floor_div(64).floor_mod(56) * 64 + output.floor_mod(64);
    let guard = row.greater_equal(0).and(row.less(56)).and(column.greater_equal(0)).and(column.less(56));
    let bounds = y.less(56).and(x.less(56)).and(c.less(64));
    let expressions = vec![output, input, weight, tile, fused, halo, again, guard, bounds];
    (loops, expressions)
}

#[test]
fn a_tiled_convolution_is_cheap() {
    let (loops, expressions) = convolution();
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let analyzer = Analyzer::new();
        for (var, extent) in &loops {
            analyzer.bind(var, &Range::until(extent));
        }
        let begin = Instant::now();
        for expr in &expressions {
            let _ = analyzer.simplify(expr);
        }
        best = best.min(begin.elapsed().as_secs_f64());
    }
    let each = best / expressions.len() as f64;
    eprintln!("{:.1} us per expression", each * 1e6);
    // About 20 us on our machine; only an exponential step exceeds the limit.
    assert!(each < 2e-3, "{:.1} us per expression", each * 1e6);
}

#[test]
fn lowering_of_a_product_is_cheap() {
    let mut kernel = Kernel::new("product");
    let (a, b) = (kernel.input("a", [1024, 1024], F32), kernel.input("b", [1024, 1024], F32));
    let k = reduce_axis(0, 1024, "k");
    kernel.output("c", compute([1024, 1024], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), [&k])));
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let context = PassContext::new(PassOptions { verify: false, ..PassOptions::default() });
        let begin = Instant::now();
        kernel.lower(&TargetDescription::x86_64_v4(), &context).unwrap();
        best = best.min(begin.elapsed().as_secs_f64());
    }
    eprintln!("{:.1} ms", best * 1e3);
    // About 20 ms on our machine; the limit for a kernel is 150 ms in total.
    assert!(best < 0.15, "{:.1} ms", best * 1e3);
}
