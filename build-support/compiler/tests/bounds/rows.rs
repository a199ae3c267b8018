//! Kernels that read in bounds, and kernels that do not.

use kernpack_compiler::Kernel;
use kernpack_compiler::ir::{Expr, F32, I64};
use kernpack_compiler::te::{compute, placeholder, reduce_axis, reduce_max, scan, select, sum};

/// The expected result for a kernel.
pub(crate) enum Fate {
    /// It is built without checks.
    Proved,
    /// It is rejected, with a part of the message.
    Refused(&'static str),
    /// It is built with checks; the error of a call.
    Checked(&'static str),
}
use Fate::{Checked, Proved, Refused};

/// The extents of all arguments, and true if the call is valid.
pub(crate) type Call = (&'static [&'static [i64]], bool);

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&mut Kernel),
    pub(crate) fate: Fate,
    pub(crate) calls: &'static [Call],
}

/// `out[i] = a[index(i)]`, with extents `n` of `a` and `m` of the result.
fn reads(k: &mut Kernel, index: impl Fn(&Expr, &Expr, &Expr) -> Expr) {
    let (n, m) = (k.size("n"), k.size("m"));
    let a = k.input("a", [&n], F32);
    k.output("out", compute([&m], |[i]| a.at([&index(&i.expr(), &n, &m)])));
}

/// Like [`reads`], with one extent for both.
fn within(k: &mut Kernel, value: impl Fn(&dyn Fn(Expr) -> Expr, &Expr, &Expr) -> Expr) {
    let n = k.size("n");
    let a = k.input("a", [&n], F32);
    k.output("out", compute([&n], |[i]| value(&|index| a.at([&index]), &i.expr(), &n)));
}

/// `out[i] = a[at[i]]`, possibly under a condition on the index.
pub(crate) fn gathers(k: &mut Kernel, value: impl Fn(&dyn Fn(Expr) -> Expr, &Expr, &Expr) -> Expr) {
    let (n, m) = (k.size("n"), k.size("m"));
    let (a, at) = (k.input("a", [&n], F32), k.input("at", [&m], I64));
    k.output("out", compute([&m], |[i]| value(&|index| a.at([&index]), &at.at([&i]), &n)));
}

const SAME: &[Call] = &[(&[&[0], &[0]], true), (&[&[1], &[1]], true), (&[&[9], &[9]], true)];

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row { name: "the same element", make: |k| within(k, |a, i, _| a(i.clone())), fate: Proved, calls: SAME },
        Row { name: "reversed", make: |k| within(k, |a, i, n| a(n - 1 - i)), fate: Proved, calls: SAME },
        Row {
            name: "reversed, one too far",
            make: |k| within(k, |a, i, n| a(n - i)),
            fate: Refused("`n - i`"),
            calls: &[],
        },
        Row { name: "shifted up", make: |k| within(k, |a, i, _| a(i + 1)), fate: Refused("`i + 1`"), calls: &[] },
        Row { name: "shifted down", make: |k| within(k, |a, i, _| a(i - 1)), fate: Refused("`i - 1`"), calls: &[] },
        Row {
            name: "shifted up, padded",
            make: |k| within(k, |a, i, n| Expr::if_then_else((i + 1).less(n), a(i + 1), -1.0)),
            fate: Proved,
            calls: SAME,
        },
        Row {
            name: "shifted down, padded by a select",
            make: |k| within(k, |a, i, _| select(i.greater(0), a(i - 1), -1.0)),
            fate: Proved,
            calls: SAME,
        },
        Row {
            name: "padded on the wrong side",
            make: |k| within(k, |a, i, n| Expr::if_then_else((i + 1).less(n), -1.0, a(i + 1))),
            fate: Checked("outside of its extent"),
            calls: &[(&[&[0], &[0]], true), (&[&[1], &[1]], false), (&[&[9], &[9]], false)],
        },
        Row {
            name: "clamped at both ends",
            make: |k| within(k, |a, i, n| a((i + 3).min(n - 1)) + a((i - 3).max(0))),
            fate: Proved,
            calls: SAME,
        },
        Row {
            name: "wrapped around",
            make: |k| within(k, |a, i, n| a((i + 1).floor_mod(n))),
            fate: Proved,
            calls: SAME,
        },
        Row {
            name: "extents of their own",
            make: |k| reads(k, |i, _, _| i.clone()),
            fate: Checked("expected `m - 1 < n`"),
            calls: &[
                (&[&[4], &[4]], true),
                (&[&[4], &[0]], true),
                (&[&[0], &[0]], true),
                (&[&[5], &[4]], true),
                (&[&[4], &[5]], false),
                (&[&[0], &[1]], false),
            ],
        },
        Row {
            name: "every second element",
            make: |k| reads(k, |i, _, _| i * 2),
            fate: Checked("a.shape[0]"),
            calls: &[
                (&[&[9], &[5]], true),
                (&[&[10], &[5]], true),
                (&[&[8], &[5]], false),
                (&[&[0], &[0]], true),
                (&[&[0], &[1]], false),
            ],
        },
        Row {
            name: "every element twice",
            make: |k| reads(k, |i, _, _| i.floor_div(2)),
            fate: Checked("a.shape[0]"),
            calls: &[
                (&[&[3], &[6]], true),
                (&[&[3], &[5]], true),
                (&[&[3], &[7]], false),
                (&[&[0], &[0]], true),
                (&[&[0], &[1]], false),
            ],
        },
        Row {
            name: "the last element",
            make: |k| reads(k, |_, n, _| n - 1),
            fate: Checked("a.shape[0]"),
            calls: &[(&[&[3], &[6]], true), (&[&[0], &[0]], true), (&[&[0], &[1]], false)],
        },
        Row {
            name: "the first element",
            make: |k| reads(k, |_, _, _| Expr::int(0)),
            fate: Checked("a.shape[0]"),
            calls: &[(&[&[3], &[6]], true), (&[&[0], &[0]], true), (&[&[0], &[1]], false)],
        },
        Row {
            name: "clamped, in another extent",
            make: |k| reads(k, |i, n, _| i.min(n - 1).max(0)),
            fate: Checked("a.shape[0]"),
            calls: &[(&[&[3], &[6]], true), (&[&[0], &[0]], true), (&[&[0], &[1]], false)],
        },
        Row {
            name: "transposed",
            make: |k| {
                let (n, m) = (k.size("n"), k.size("m"));
                let a = k.input("a", [&n, &m], F32);
                k.output("out", compute([&m, &n], |[i, j]| a.at([&j, &i])));
            },
            fate: Proved,
            calls: &[(&[&[3, 5], &[5, 3]], true), (&[&[0, 5], &[5, 0]], true)],
        },
        Row {
            name: "not transposed, though the result is",
            make: |k| {
                let (n, m) = (k.size("n"), k.size("m"));
                let a = k.input("a", [&n, &m], F32);
                k.output("out", compute([&m, &n], |[i, j]| a.at([&i, &j])));
            },
            fate: Checked("when calling `f`"),
            calls: &[
                (&[&[4, 4], &[4, 4]], true),
                (&[&[3, 5], &[5, 3]], false),
                (&[&[5, 3], &[3, 5]], false),
                (&[&[0, 5], &[5, 0]], true),
            ],
        },
        Row {
            name: "constant extents",
            make: |k| {
                let a = k.input("a", [4], F32);
                k.output("out", compute([4], |[i]| a.at([&(&i * 2)])));
            },
            fate: Refused("`i * 2` of dimension 0, which is `0` to `6`, outside of its extent `4`"),
            calls: &[],
        },
        Row {
            name: "a window",
            make: |k| {
                let n = k.size("n");
                let a = k.input("a", [n.expr() + 2], F32);
                let same = k.input("same", [&n], F32);
                let r = reduce_axis(0, 3, "r");
                let windows = compute([&n], |[i]| reduce_max(a.at([&(&i + &r)]), &r)).named("windows");
                k.output("out", compute([&n], |[i]| windows.at([&i]) + same.at([&i])));
            },
            fate: Proved,
            calls: &[(&[&[7], &[5], &[5]], true), (&[&[2], &[0], &[0]], true)],
        },
        Row {
            name: "a window that is too wide",
            make: |k| {
                let n = k.size("n");
                let a = k.input("a", [&n], F32);
                let r = reduce_axis(0, 3, "r");
                k.output("out", compute([&n], |[i]| sum(a.at([&(&i + &r)]), &r)));
            },
            fate: Refused("is `0` to `n + 1`"),
            calls: &[],
        },
        Row {
            name: "a sum over another extent",
            make: |k| {
                let (n, m, d) = (k.size("n"), k.size("m"), k.size("d"));
                let (a, b) = (k.input("a", [&n], F32), k.input("b", [&d], F32));
                let r = reduce_axis(0, d.expr(), "r");
                k.output("out", compute([&m], |[_]| sum(a.at([&r]) * b.at([&r]), &r)));
            },
            fate: Checked("expected `d - 1 < n`"),
            calls: &[
                (&[&[4], &[4], &[2]], true),
                (&[&[4], &[5], &[2]], false),
                (&[&[0], &[0], &[2]], true),
                (&[&[4], &[5], &[0]], true),
            ],
        },
        Row {
            name: "a sum where a condition holds",
            make: |k| {
                let n = k.size("n");
                let a = k.input("a", [&n], F32);
                let r = reduce_axis(0, n.expr() * 2, "r");
                k.output("out", compute([1], |[_]| sum(Expr::if_then_else(r.less(&n), a.at([&r]), 0.0), &r)));
            },
            fate: Proved,
            calls: &[(&[&[4], &[1]], true), (&[&[0], &[1]], true)],
        },
        Row {
            name: "a stencil",
            make: |k| {
                let (h, w) = (k.size("h"), k.size("w"));
                let a = k.input("a", [&h, &w], F32);
                let out = compute([&h, &w], |[i, j]| {
                    let inside = i.greater(0).and(i.less(&h - 1)).and(j.greater(0)).and(j.less(&w - 1));
                    let around = a.at((&i - 1, &j)) + a.at((&i + 1, &j)) + a.at((&i, &j - 1)) + a.at((&i, &j + 1));
                    Expr::if_then_else(inside, around, a.at([&i, &j]))
                });
                k.output("out", out);
            },
            fate: Proved,
            calls: &[(&[&[3, 5], &[3, 5]], true), (&[&[1, 1], &[1, 1]], true), (&[&[0, 5], &[0, 5]], true)],
        },
        Row {
            name: "twice the size",
            make: |k| {
                let n = k.size("n");
                let a = k.input("a", [&n], F32);
                let out = compute([n.expr() * 2], |[i]| {
                    let before = (&i - 1).floor_div(2);
                    a.at([&before.max(0)]) + a.at([&(&before + 1).min(&n - 1)])
                });
                k.output("out", out);
            },
            fate: Proved,
            calls: &[(&[&[3], &[6]], true), (&[&[0], &[0]], true)],
        },
        Row {
            name: "two tensors side by side",
            make: |k| {
                let (n, m) = (k.size("n"), k.size("m"));
                let (a, b) = (k.input("a", [&n], F32), k.input("b", [&m], F32));
                let out = compute([&n + &m], |[i]| Expr::if_then_else(i.less(&n), a.at([&i]), b.at([&(&i - &n)])));
                k.output("out", out);
            },
            fate: Proved,
            calls: &[(&[&[3], &[4], &[7]], true), (&[&[0], &[2], &[2]], true), (&[&[2], &[0], &[2]], true)],
        },
        Row {
            name: "running sums, which begin with the first element",
            make: |k| {
                let (m, n) = (k.size("m"), k.size("n"));
                let x = k.input("x", [&m, &n], F32);
                let state = placeholder([&m, &n], F32, "state");
                let first = compute((1, &n), |[_, j]| x.at((0, &j))).named("first");
                let next = compute([&m, &n], |[t, j]| state.at((&t - 1, &j)) + x.at([&t, &j])).named("next");
                k.output("out", scan([&first], [&next], [&state])[0].clone());
            },
            fate: Checked("Invalid x.shape[0]"),
            calls: &[
                (&[&[3, 5], &[3, 5]], true),
                (&[&[1, 5], &[1, 5]], true),
                (&[&[0, 5], &[0, 5]], false),
                (&[&[0, 0], &[0, 0]], true),
            ],
        },
        Row {
            name: "a scan that reads the next step",
            make: |k| {
                let (m, n) = (k.size("m"), k.size("n"));
                let x = k.input("x", [&m, &n], F32);
                let state = placeholder([&m, &n], F32, "state");
                let first = compute((1, &n), |[_, j]| x.at((0, &j))).named("first");
                let next = compute([&m, &n], |[t, j]| state.at((&t - 1, &j)) + x.at((&t + 1, &j))).named("next");
                k.output("out", scan([&first], [&next], [&state])[0].clone());
            },
            fate: Refused("which is `2` to `m`"),
            calls: &[],
        },
        Row {
            name: "a part of an intermediate result",
            make: |k| {
                let n = k.size("n");
                let a = k.input("a", [&n], F32);
                let next = compute([&n], |[i]| a.at([&(&i + 1)]) * 2.0).named("next");
                k.output("out", compute([n.expr() - 1], |[i]| next.at([&i])));
                k.output("all", compute([&n], |[i]| a.at([&i])));
            },
            fate: Proved,
            calls: &[(&[&[4], &[3], &[4]], true), (&[&[1], &[0], &[1]], true)],
        },
        Row {
            name: "an intermediate result that reads too far",
            make: |k| {
                let n = k.size("n");
                let a = k.input("a", [&n], F32);
                let next = compute([&n], |[i]| a.at([&(&i + 1)]) * 2.0).named("next");
                k.output("out", compute([&n], |[i]| next.at([&i]) + 1.0));
            },
            fate: Refused("`next` reads `a`"),
            calls: &[],
        },
        Row {
            name: "gather",
            make: |k| gathers(k, |a, at, _| a(at.clone())),
            fate: Checked("outside of its extent"),
            calls: &[
                (&[&[9], &[9], &[9]], true),
                (&[&[1], &[1], &[1]], true),
                (&[&[1], &[2], &[2]], false),
                (&[&[0], &[1], &[1]], false),
                (&[&[0], &[0], &[0]], true),
            ],
        },
        Row {
            name: "gather where the index is right",
            make: |k| {
                gathers(k, |a, at, n| Expr::if_then_else(at.greater_equal(0).and(at.less(n)), a(at.clone()), -1.0))
            },
            fate: Proved,
            calls: &[(&[&[9], &[9], &[9]], true), (&[&[0], &[1], &[1]], true), (&[&[0], &[0], &[0]], true)],
        },
        Row {
            name: "gather, clamped",
            make: |k| gathers(k, |a, at, n| a(at.min(n - 1).max(0))),
            fate: Checked("expected `n >= 1`"),
            calls: &[(&[&[3], &[9], &[9]], true), (&[&[0], &[1], &[1]], false), (&[&[0], &[0], &[0]], true)],
        },
        Row {
            name: "gather of rows",
            make: |k| {
                let (n, m) = (k.size("n"), k.size("m"));
                let (a, at) = (k.input("a", (&n, 5), F32), k.input("at", [&m], I64));
                let rows = compute((&m, 5), |[i, j]| a.at((at.at([&i]), &j))).named("rows");
                k.output("out", compute((&m, 5), |[i, j]| rows.at([&i, &j]) * 2.0));
            },
            fate: Checked("`a` is read at index `at["),
            calls: &[(&[&[9, 5], &[9], &[9, 5]], true), (&[&[4, 5], &[5], &[5, 5]], false)],
        },
        Row {
            name: "gather of an intermediate result",
            make: |k| {
                let (n, m) = (k.size("n"), k.size("m"));
                let (a, at) = (k.input("a", [&n], F32), k.input("at", [&m], I64));
                let twice = compute([&n], |[i]| a.at([&i]) * 2.0).named("twice");
                k.output("out", compute([&m], |[i]| twice.at([&at.at([&i])]) + 1.0));
            },
            fate: Checked("outside of its extent"),
            calls: &[(&[&[9], &[9], &[9]], true), (&[&[4], &[5], &[5]], false)],
        },
    ]
}
