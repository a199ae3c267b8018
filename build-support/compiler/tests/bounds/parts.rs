//! Intermediate results of which readers need a part, and whose other elements would read out of
//! bounds: schedules that compute more than the part skip those elements.

use kernpack_compiler::Kernel;
use kernpack_compiler::ir::F32;
use kernpack_compiler::te::{compute, placeholder, reduce_axis, reduce_max, scan, sum};

use super::rows::Fate::{Checked, Proved, Refused};
use super::rows::{Call, Row};

const TWO_LESS: &[Call] = &[
    (&[&[2], &[0]], true),
    (&[&[3], &[1]], true),
    (&[&[4], &[2]], true),
    (&[&[5], &[3]], true),
    (&[&[11], &[9]], true),
    (&[&[18], &[16]], true),
    (&[&[67], &[65]], true),
];

/// The attachment of an intermediate result of `n` elements, each of which reads the next two.
#[derive(Clone, Copy)]
enum Computed {
    /// As scheduled by the rules.
    ByRules,
    /// In separate loops.
    Apart,
    /// In each part of the result.
    InParts,
    /// In each vector of the result.
    InVectors,
    /// For each part, in separate vectors.
    AsVectors,
}

fn windows(k: &mut Kernel, computed: Computed) {
    let n = k.size("n");
    let a = k.input("a", [&n], F32);
    let r = reduce_axis(0, 3, "r");
    let windows = compute([&n], |[i]| reduce_max(a.at([&(&i + &r)]), &r)).named("windows");
    let out = compute([n.expr() - 2], |[i]| windows.at([&i]) * 2.0);
    schedule(k, computed, windows, out.clone());
    k.output("out", out);
}

fn neighbours(k: &mut Kernel, computed: Computed) {
    let n = k.size("n");
    let a = k.input("a", [&n], F32);
    let next = compute([&n], |[i]| a.at([&(&i + 2)]) * 2.0).named("next");
    let out = compute([n.expr() - 2], |[i]| next.at([&i]) + 1.0);
    schedule(k, computed, next, out.clone());
    k.output("out", out);
}

fn schedule(
    k: &mut Kernel,
    computed: Computed,
    part: kernpack_compiler::ir::Tensor,
    out: kernpack_compiler::ir::Tensor,
) {
    if matches!(computed, Computed::ByRules) {
        return;
    }
    k.schedule(move |s, _| {
        if matches!(computed, Computed::Apart) {
            return Ok(());
        }
        let mut stage = s.stage(&out);
        let [i] = stage.axes()?;
        let (outer, inner) = stage.split(&i, 8)?;
        if matches!(computed, Computed::InVectors) {
            stage.vectorize(&inner)?;
        }
        let mut stage = s.stage(&part);
        stage.compute_at(&out, &outer)?;
        if matches!(computed, Computed::AsVectors) {
            let own = stage.get()?.leaves[0].clone();
            let (_, lanes) = stage.split(&own, 4)?;
            stage.vectorize(&lanes)?;
        }
        Ok(())
    });
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row { name: "windows, by rules", make: |k| windows(k, Computed::ByRules), fate: Proved, calls: TWO_LESS },
        Row { name: "windows, apart", make: |k| windows(k, Computed::Apart), fate: Proved, calls: TWO_LESS },
        Row { name: "windows, in parts", make: |k| windows(k, Computed::InParts), fate: Proved, calls: TWO_LESS },
        Row { name: "windows, in vectors", make: |k| windows(k, Computed::InVectors), fate: Proved, calls: TWO_LESS },
        Row { name: "neighbours, by rules", make: |k| neighbours(k, Computed::ByRules), fate: Proved, calls: TWO_LESS },
        Row { name: "neighbours, apart", make: |k| neighbours(k, Computed::Apart), fate: Proved, calls: TWO_LESS },
        Row { name: "neighbours, in parts", make: |k| neighbours(k, Computed::InParts), fate: Proved, calls: TWO_LESS },
        Row {
            name: "neighbours, in vectors",
            make: |k| neighbours(k, Computed::InVectors),
            fate: Proved,
            calls: TWO_LESS,
        },
        Row {
            name: "neighbours, as vectors",
            make: |k| neighbours(k, Computed::AsVectors),
            fate: Proved,
            calls: TWO_LESS,
        },
        Row {
            name: "some rows of a product",
            make: |k| {
                let (m, n, d) = (k.size("m"), k.size("n"), k.size("d"));
                let (a, b) = (k.input("a", [&m, &d], F32), k.input("b", [&d, &n], F32));
                let r = reduce_axis(0, d.expr(), "r");
                let product = compute([&m, &n], |[i, j]| sum(a.at((&i + 1, &r)) * b.at([&r, &j]), &r)).named("product");
                k.output("out", compute((m.expr() - 1, &n), |[i, j]| product.at([&i, &j]) + 1.0));
            },
            fate: Proved,
            calls: &[
                (&[&[1, 3], &[3, 5], &[0, 5]], true),
                (&[&[2, 3], &[3, 5], &[1, 5]], true),
                (&[&[8, 3], &[3, 17], &[7, 17]], true),
                (&[&[13, 4], &[4, 40], &[12, 40]], true),
            ],
        },
        Row {
            name: "some rows of a product in panels",
            make: |k| {
                let m = k.size("m");
                let (a, b) = (k.input("a", (&m, 3), F32), k.input("b", [2, 3, 16], F32));
                let r = reduce_axis(0, 3, "r");
                let product = compute((&m, 20), |[i, j]| {
                    let weight = b.at([j.expr().floor_div(16), r.expr(), j.expr().floor_mod(16)]);
                    sum(a.at((&i, &r)) * weight, &r)
                })
                .named("product");
                k.output("out", compute((m.expr() - 1, 18), |[i, j]| product.at([&i, &j]) + 1.0));
            },
            fate: Proved,
            calls: &[
                (&[&[1, 3], &[2, 3, 16], &[0, 18]], true),
                (&[&[2, 3], &[2, 3, 16], &[1, 18]], true),
                (&[&[16, 3], &[2, 3, 16], &[15, 18]], true),
            ],
        },
        Row {
            name: "some rows of a product of known extents",
            make: |k| {
                let (a, b) = (k.input("a", [64, 8], F32), k.input("b", [8, 256], F32));
                let r = reduce_axis(0, 8, "r");
                let product = compute([64, 256], |[i, j]| sum(a.at((&i, &r)) * b.at([&r, &j]), &r)).named("product");
                k.output("out", compute([63, 128], |[i, j]| product.at([&i, &j]) + 1.0));
            },
            fate: Proved,
            calls: &[(&[&[64, 8], &[8, 256], &[63, 128]], true)],
        },
        Row {
            name: "some steps of a scan",
            make: |k| {
                let (m, n) = (k.size("m"), k.size("n"));
                let x = k.input("x", [&m, &n], F32);
                let state = placeholder([&m, &n], F32, "state");
                let first = compute((1, &n), |[_, j]| x.at((0, &j))).named("first");
                let next = compute([&m, &n], |[t, j]| state.at((&t - 1, &j)) + x.at((&t + 1, &j))).named("next");
                let steps = scan([&first], [&next], [&state])[0].clone();
                k.output("out", compute((m.expr() - 1, &n), |[t, j]| steps.at([&t, &j])));
            },
            fate: Checked("Invalid x.shape[0]"),
            calls: &[(&[&[2, 5], &[1, 5]], true), (&[&[6, 5], &[5, 5]], true)],
        },
        Row {
            name: "an intermediate result that reads too far where it is needed",
            make: |k| {
                let n = k.size("n");
                let a = k.input("a", [&n], F32);
                let next = compute([&n], |[i]| a.at([&(&i + 2)]) * 2.0).named("next");
                k.output("out", compute([n.expr() - 1], |[i]| next.at([&i]) + 1.0));
            },
            fate: Refused("`next` reads `a`"),
            calls: &[],
        },
    ]
}
