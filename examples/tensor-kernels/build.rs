//! Defines the computations of the kernels. The rules choose the schedule for each CPU level.

use kernpack_build::te::*;

fn main() -> kernpack_build::Result<()> {
    kernpack_build::Library::new()
        .te("dense_gelu", dense_gelu)
        .te("conv2d", conv2d)
        .te("softmax", softmax)
        .te("layer_norm", layer_norm)
        .te("attention", attention)
        .te("heat_step", heat_step)
        .te("running_sum", running_sum)
        .te("row_argmax", row_argmax)
        .te("histogram", histogram)
        .te("resize", resize)
        .c(["kernels/count_bins.c"])
        .multiversion(["x86-64-v3", "x86-64-v4"])
        .build()
}

/// out = gelu(a w^T + bias)
fn dense_gelu(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("A dense layer with bias and gelu (the exact one).");
    let (m, n, depth) = (k.size("m"), 512, 256);
    let a = k.input("a", (&m, depth), F32);
    let w = k.input("w", (n, depth), F32);
    let bias = k.input("bias", [n], F32);
    let r = reduce_axis(0, depth, "r");
    let product = compute((&m, n), |[i, j]| sum(a.at([&i, &r]) * w.at([&j, &r]), &r)).named("product");
    let out = compute((&m, n), |[i, j]| {
        let x = product.at([&i, &j]) + bias.at([&j]);
        &x * 0.5 * (erf(&x * std::f64::consts::FRAC_1_SQRT_2) + 1.0)
    });
    k.output("out", out);
    Ok(())
}

/// A 3x3 convolution with padding, NHWC.
fn conv2d(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("A 3x3 convolution with padding 1: input NHWC, weights HWIO.");
    let (n, h, w, ic, oc) = (1, 56, 56, 64, 64);
    let x = k.input("x", [n, h, w, ic], F32);
    let weights = k.input("weights", [3, 3, ic, oc], F32);
    let padded = compute([n, h + 2, w + 2, ic], |[n, y, x_, c]| {
        let inside = y.greater(0).and(y.less(h + 1)).and(x_.greater(0)).and(x_.less(w + 1));
        Expr::if_then_else(inside, x.at((&n, &y - 1, &x_ - 1, &c)), 0.0)
    })
    .named("padded");
    let (ry, rx, rc) = (reduce_axis(0, 3, "ry"), reduce_axis(0, 3, "rx"), reduce_axis(0, ic, "rc"));
    let out = compute([n, h, w, oc], |[n, y, x, o]| {
        sum(padded.at((&n, &y + &ry, &x + &rx, &rc)) * weights.at([&ry, &rx, &rc, &o]), [&ry, &rx, &rc])
    });
    k.output("out", out);
    Ok(())
}

/// Softmax of each row.
fn softmax(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("Softmax of each row.");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let (r, s) = (reduce_axis(0, &n, "r"), reduce_axis(0, &n, "s"));
    let largest = compute([&m], |[i]| reduce_max(x.at([&i, &r]), &r)).named("largest");
    let powers = compute([&m, &n], |[i, j]| exp(x.at([&i, &j]) - largest.at([&i]))).named("powers");
    let total = compute([&m], |[i]| sum(powers.at([&i, &s]), &s)).named("total");
    k.output("out", compute([&m, &n], |[i, j]| powers.at([&i, &j]) / total.at([&i])));
    Ok(())
}

/// Layer normalization of each row.
fn layer_norm(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("Layer normalization of each row, with scale and shift; epsilon is 1e-5.");
    let (m, n) = (k.size("m"), 1024);
    let x = k.input("x", (&m, n), F32);
    let scale = k.input("scale", [n], F32);
    let shift = k.input("shift", [n], F32);
    let (r, s) = (reduce_axis(0, n, "r"), reduce_axis(0, n, "s"));
    let total = compute([&m], |[i]| sum(x.at([&i, &r]), &r)).named("total");
    let centred = compute((&m, n), |[i, j]| x.at([&i, &j]) - total.at([&i]) / f64::from(n)).named("centred");
    let squares = compute([&m], |[i]| sum(centred.at([&i, &s]) * centred.at([&i, &s]), &s)).named("squares");
    let out = compute((&m, n), |[i, j]| {
        centred.at([&i, &j]) * rsqrt(squares.at([&i]) / f64::from(n) + 1e-5) * scale.at([&j]) + shift.at([&j])
    });
    k.output("out", out);
    Ok(())
}

/// One head of attention.
fn attention(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("One head of attention: softmax(q k^T / sqrt(d)) v.");
    let (length, d) = (128, 64);
    let q = k.input("q", [length, d], F32);
    let keys = k.input("k", [length, d], F32);
    let v = k.input("v", [length, d], F32);
    let r = reduce_axis(0, d, "r");
    let scores = compute([length, length], |[i, j]| sum(q.at([&i, &r]) * keys.at([&j, &r]), &r)).named("scores");
    let scaled = compute([length, length], |[i, j]| scores.at([&i, &j]) * (1.0 / f64::from(d).sqrt())).named("scaled");
    let (s, t, u) = (reduce_axis(0, length, "s"), reduce_axis(0, length, "t"), reduce_axis(0, length, "u"));
    let largest = compute([length], |[i]| reduce_max(scaled.at([&i, &s]), &s)).named("largest");
    let powers = compute([length, length], |[i, j]| exp(scaled.at([&i, &j]) - largest.at([&i]))).named("powers");
    let total = compute([length], |[i]| sum(powers.at([&i, &t]), &t)).named("total");
    let weighted = compute([length, d], |[i, j]| sum(powers.at([&i, &u]) * v.at([&u, &j]), &u)).named("weighted");
    k.output("out", compute([length, d], |[i, j]| weighted.at([&i, &j]) / total.at([&i])));
    Ok(())
}

/// One step of the heat equation: a stencil that keeps the border.
fn heat_step(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("One step of the heat equation on a grid; the border keeps its values.");
    let (h, w) = (k.size("h"), k.size("w"));
    let x = k.input("x", [&h, &w], F32);
    let rate = k.scalar("rate", F32);
    let out = compute([&h, &w], |[i, j]| {
        let inside = i.greater(0).and(i.less(&h - 1)).and(j.greater(0)).and(j.less(&w - 1));
        let here = x.at([&i, &j]);
        let around = x.at((&i - 1, &j)) + x.at((&i + 1, &j)) + x.at((&i, &j - 1)) + x.at((&i, &j + 1));
        Expr::if_then_else(inside, &here + (around - &here * 4.0) * &rate, here)
    });
    k.output("out", out);
    Ok(())
}

/// Running sums down the columns.
fn running_sum(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("Running sums down each column.");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let state = placeholder([&m, &n], F32, "state");
    let first = compute((1, &n), |[_, j]| x.at((0, &j))).named("first");
    let next = compute([&m, &n], |[t, j]| state.at((&t - 1, &j)) + x.at([&t, &j])).named("next");
    k.output("out", scan([&first], [&next], [&state])[0].clone());
    Ok(())
}

/// The index of the largest element of each row.
fn row_argmax(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("Index and value of the largest element of each row; the first one of several.");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let r = reduce_axis(0, &n, "r");
    let [index, value] = compute([&m], |[i]| argmax(&r, x.at([&i, &r]), &r));
    k.output("index", index);
    k.output("value", value);
    Ok(())
}

/// Counts each of 256 values with a C function.
fn histogram(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("How often each of 256 values occurs.");
    let n = k.size("n");
    let x = k.input("x", [&n], U8);
    let counts = extern_op("counts", [&x]).output([256], I32).call_c("count_bins", [&n]);
    k.output("counts", counts[0].clone());
    Ok(())
}

/// An image at twice its size, bilinear.
fn resize(k: &mut Kernel) -> Result<(), CompileError> {
    k.doc("An image at twice its height and width, by bilinear interpolation between the centres of pixels.");
    let (h, w, c) = (k.size("h"), k.size("w"), 3);
    let image = k.input("image", (&h, &w, c), F32);
    let out = compute((&h * 2, &w * 2, c), |[y, x, c]| {
        // The pixels that a pixel is between, and its distance from the first one.
        let place = |at: &IterVar, size: &Var| {
            let before = (at - 1).floor_div(2);
            let near = Expr::select((at % 2).equals(0), Expr::float(F32, 0.75), Expr::float(F32, 0.25));
            (before.max(0), (&before + 1).min(size - 1), near)
        };
        let ((y0, y1, fy), (x0, x1, fx)) = (place(&y, &h), place(&x, &w));
        let row = |y: &Expr| image.at((y, &x0, &c)) * (1.0 - &fx) + image.at((y, &x1, &c)) * &fx;
        row(&y0) * (1.0 - &fy) + row(&y1) * &fy
    });
    k.output("out", out);
    Ok(())
}
