//! Kernels without schedules: what the rules make of them is what is timed.

use kernpack_build::te::*;

fn main() -> kernpack_build::Result<()> {
    let mut library = kernpack_build::Library::new();
    for (m, k, n) in
        [(1024, 1024, 1024), (128, 1024, 256), (128, 256, 1024), (197, 768, 768), (33, 65, 127), (1, 784, 512)]
    {
        library = library.te(&format!("matmul_{m}_{k}_{n}"), move |kernel| matmul(kernel, m, k, n));
    }
    for (channels, size) in [(64, 56), (128, 28), (256, 14), (512, 7)] {
        library = library.te(&format!("conv3x3_{channels}_{size}"), move |kernel| conv3x3(kernel, channels, size));
    }
    library
        .te("softmax", softmax)
        .te("layer_norm", layer_norm)
        .te("cheap_chain", cheap_chain)
        .te("tanh_sigmoid", tanh_sigmoid)
        .te("sum_rows", sum_rows)
        .te("sum_columns", sum_columns)
        .te("transpose", transpose)
        .te("copy", copy)
        .multiversion(["x86-64-v3", "x86-64-v4"])
        .build()
}

fn matmul(kernel: &mut Kernel, m: i64, k: i64, n: i64) -> Result<(), CompileError> {
    let a = kernel.input("a", [m, k], F32);
    let b = kernel.input("b", [k, n], F32);
    let r = reduce_axis(0, k, "r");
    kernel.output("c", compute([m, n], |[i, j]| sum(a.at([&i, &r]) * b.at([&r, &j]), &r)));
    Ok(())
}

/// NCHW in and out, as the models have it.
fn conv3x3(kernel: &mut Kernel, channels: i64, size: i64) -> Result<(), CompileError> {
    let x = kernel.input("x", [1, channels, size, size], F32);
    let w = kernel.input("w", [channels, channels, 3, 3], F32);
    let padded = compute([size + 2, size + 2, channels], |[y, x_, c]| {
        let inside = y.greater(0).and(y.less(size + 1)).and(x_.greater(0)).and(x_.less(size + 1));
        Expr::if_then_else(inside, x.at((0, &c, &y - 1, &x_ - 1)), 0.0)
    })
    .named("padded");
    let (ry, rx, rc) = (reduce_axis(0, 3, "ry"), reduce_axis(0, 3, "rx"), reduce_axis(0, channels, "rc"));
    let conv = compute([size, size, channels], |[y, x, o]| {
        sum(padded.at((&y + &ry, &x + &rx, &rc)) * w.at([&o, &rc, &ry, &rx]), [&ry, &rx, &rc])
    })
    .named("conv");
    kernel.output("out", compute([1, channels, size, size], |[_, o, y, x]| conv.at([&y, &x, &o])));
    Ok(())
}

fn softmax(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1024;
    let x = kernel.input("x", [n, n], F32);
    let (r, s) = (reduce_axis(0, n, "r"), reduce_axis(0, n, "s"));
    let largest = compute([n], |[i]| reduce_max(x.at([&i, &r]), &r)).named("largest");
    let powers = compute([n, n], |[i, j]| exp(x.at([&i, &j]) - largest.at([&i]))).named("powers");
    let total = compute([n], |[i]| sum(powers.at([&i, &s]), &s)).named("total");
    kernel.output("out", compute([n, n], |[i, j]| powers.at([&i, &j]) / total.at([&i])));
    Ok(())
}

fn layer_norm(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1024;
    let x = kernel.input("x", [n, n], F32);
    let (scale, shift) = (kernel.input("scale", [n], F32), kernel.input("shift", [n], F32));
    let (r, s) = (reduce_axis(0, n, "r"), reduce_axis(0, n, "s"));
    let total = compute([n], |[i]| sum(x.at([&i, &r]), &r)).named("total");
    let centred = compute([n, n], |[i, j]| x.at([&i, &j]) - total.at([&i]) / 1024.0).named("centred");
    let squares = compute([n], |[i]| sum(centred.at([&i, &s]) * centred.at([&i, &s]), &s)).named("squares");
    let factor = compute([n], |[i]| rsqrt(squares.at([&i]) / 1024.0 + 1e-5)).named("factor");
    kernel.output(
        "out",
        compute([n, n], |[i, j]| centred.at([&i, &j]) * factor.at([&i]) * scale.at([&j]) + shift.at([&j])),
    );
    Ok(())
}

/// Five cheap operations on 4 M elements.
fn cheap_chain(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1 << 22;
    let x = kernel.input("x", [n], F32);
    kernel.output("out", compute([n], |[i]| max(x.at([&i]) * 2.0 + 1.0, 0.0).min(6.0) - 3.0));
    Ok(())
}

fn tanh_sigmoid(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1 << 20;
    let x = kernel.input("x", [n], F32);
    kernel.output("out", compute([n], |[i]| x.at([&i]) * sigmoid(tanh(x.at([&i])) + 1.0)));
    Ok(())
}

fn sum_rows(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1024;
    let x = kernel.input("x", [n, n], F32);
    let r = reduce_axis(0, n, "r");
    kernel.output("out", compute([n], |[i]| sum(x.at([&i, &r]), &r)));
    Ok(())
}

fn sum_columns(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1024;
    let x = kernel.input("x", [n, n], F32);
    let r = reduce_axis(0, n, "r");
    kernel.output("out", compute([n], |[j]| sum(x.at([&r, &j]), &r)));
    Ok(())
}

fn transpose(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1024;
    let x = kernel.input("x", [n, n], F32);
    kernel.output("out", compute([n, n], |[i, j]| x.at([&j, &i])));
    Ok(())
}

fn copy(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1 << 20;
    let x = kernel.input("x", [n], F32);
    kernel.output("out", compute([n], |[i]| x.at([&i]) + 0.0));
    Ok(())
}
