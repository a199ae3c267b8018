//! Kernels without schedules: the benchmark measures the schedules that the rules choose.

use kernpack_build::te::*;

fn main() -> kernpack_build::Result<()> {
    let mut library = kernpack_build::Library::new();
    for (m, k, n) in
        [(1024, 1024, 1024), (128, 1024, 256), (128, 256, 1024), (197, 768, 768), (33, 65, 127), (1, 784, 512)]
    {
        library = library.te(&format!("matmul_{m}_{k}_{n}"), move |kernel| matmul(kernel, m, k, n));
    }
    for (depth, channels, size, window, stride, padding) in [
        (64, 64, 56, 3, 1, 1),
        (128, 128, 28, 3, 1, 1),
        (256, 256, 14, 3, 1, 1),
        (512, 512, 7, 3, 1, 1),
        (3, 64, 224, 7, 2, 3),
        (64, 128, 56, 3, 2, 1),
        (64, 128, 56, 1, 2, 0),
        (256, 64, 56, 1, 1, 0),
    ] {
        let of = Conv { depth, channels, size, window, stride, padding };
        library =
            library.te(&format!("conv_{depth}_{channels}_{size}_{window}_{stride}"), move |kernel| conv(kernel, of));
    }
    library
        .te("depthwise", depthwise)
        .te("max_pool", max_pool)
        .te("softmax", softmax)
        .te("layer_norm", layer_norm)
        .te("cheap_chain", cheap_chain)
        .te("tanh_sigmoid", tanh_sigmoid)
        .te("sum_rows", sum_rows)
        .te("sum_columns", sum_columns)
        .te("row_argmax", row_argmax)
        .te("column_argmax", column_argmax)
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

/// A convolution of a model, with NCHW input and output.
#[derive(Clone, Copy)]
struct Conv {
    depth: i64,
    channels: i64,
    size: i64,
    window: i64,
    stride: i64,
    padding: i64,
}

fn conv(kernel: &mut Kernel, of: Conv) -> Result<(), CompileError> {
    let Conv { depth, channels, size, window, stride, padding } = of;
    let (whole, out) = (size + 2 * padding, (size + 2 * padding - window) / stride + 1);
    let x = kernel.input("x", [1, depth, size, size], F32);
    let w = kernel.input("w", [channels, depth, window, window], F32);
    let padded = compute([1, depth, whole, whole], |[n, c, y, x_]| {
        let inside = y.greater_equal(padding).and(y.less(size + padding));
        let inside = inside.and(x_.greater_equal(padding)).and(x_.less(size + padding));
        Expr::if_then_else(inside, x.at((&n, &c, &y - padding, &x_ - padding)), 0.0)
    });
    let (rc, ry, rx) = (reduce_axis(0, depth, "rc"), reduce_axis(0, window, "ry"), reduce_axis(0, window, "rx"));
    kernel.output(
        "out",
        compute([1, channels, out, out], |[n, o, y, x]| {
            sum(padded.at((&n, &rc, &y * stride + &ry, &x * stride + &rx)) * w.at([&o, &rc, &ry, &rx]), [&rc, &ry, &rx])
        }),
    );
    Ok(())
}

/// A convolution of each channel separately.
fn depthwise(kernel: &mut Kernel) -> Result<(), CompileError> {
    let (channels, size) = (128, 56);
    let x = kernel.input("x", [1, channels, size, size], F32);
    let w = kernel.input("w", [channels, 1, 3, 3], F32);
    let padded = compute([1, channels, size + 2, size + 2], |[n, c, y, x_]| {
        let inside = y.greater(0).and(y.less(size + 1)).and(x_.greater(0)).and(x_.less(size + 1));
        Expr::if_then_else(inside, x.at((&n, &c, &y - 1, &x_ - 1)), 0.0)
    });
    let (ry, rx) = (reduce_axis(0, 3, "ry"), reduce_axis(0, 3, "rx"));
    kernel.output(
        "out",
        compute([1, channels, size, size], |[n, c, y, x]| {
            sum(padded.at((&n, &c, &y + &ry, &x + &rx)) * w.at((&c, 0, &ry, &rx)), [&ry, &rx])
        }),
    );
    Ok(())
}

/// The maximum of 3 x 3 pixels, with stride 2.
fn max_pool(kernel: &mut Kernel) -> Result<(), CompileError> {
    let (channels, size) = (64, 112);
    let x = kernel.input("x", [1, channels, size, size], F32);
    let padded = compute([1, channels, size + 1, size + 1], |[n, c, y, x_]| {
        Expr::if_then_else(y.greater(0).and(x_.greater(0)), x.at((&n, &c, &y - 1, &x_ - 1)), f64::from(f32::MIN))
    });
    let (ry, rx) = (reduce_axis(0, 3, "ry"), reduce_axis(0, 3, "rx"));
    kernel.output(
        "out",
        compute([1, channels, size / 2, size / 2], |[n, c, y, x]| {
            reduce_max(padded.at((&n, &c, &y * 2 + &ry, &x * 2 + &rx)), [&ry, &rx])
        }),
    );
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

/// The index of the largest element of each row, as a float.
fn row_argmax(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1024;
    let x = kernel.input("x", [n, n], F32);
    let r = reduce_axis(0, n, "r");
    let [index, _] = compute([n], |[i]| argmax(&r, x.at([&i, &r]), &r));
    kernel.output("out", compute([n], |[i]| index.at([&i]).cast(F32)));
    Ok(())
}

/// The index of the largest element of each column, as a float.
fn column_argmax(kernel: &mut Kernel) -> Result<(), CompileError> {
    let n = 1024;
    let x = kernel.input("x", [n, n], F32);
    let r = reduce_axis(0, n, "r");
    let [index, _] = compute([n], |[j]| argmax(&r, x.at([&r, &j]), &r));
    kernel.output("out", compute([n], |[j]| index.at([&j]).cast(F32)));
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
