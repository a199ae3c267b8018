//! Reads in selects whose conditions read memory themselves, and which share their parts.

use kernpack_compiler::ir::{Expr, F32, I64};
use kernpack_compiler::te::compute;

use super::rows::Fate::Checked;
use super::rows::{Row, gathers};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "a choice by an element that may not exist",
            make: |k| {
                let (n, m) = (k.size("n"), k.size("m"));
                let (a, at) = (k.input("a", [&n], F32), k.input("at", [&m], I64));
                k.output(
                    "out",
                    compute([&m], |[i]| {
                        let index = at.at([&i]);
                        Expr::if_then_else(a.at([&index]).greater(0.0), a.at([&(&index - 1)]), 0.0)
                    }),
                );
            },
            fate: Checked("outside of its extent"),
            calls: &[
                (&[&[9], &[9], &[9]], true),
                (&[&[1], &[1], &[1]], true),
                (&[&[4], &[5], &[5]], false),
                (&[&[0], &[1], &[1]], false),
                (&[&[0], &[0], &[0]], true),
            ],
        },
        Row {
            name: "an element of an element",
            make: |k| {
                let (n, m) = (k.size("n"), k.size("m"));
                let (a, at) = (k.input("a", [&n], F32), k.input("at", [&m], I64));
                k.output("out", compute([&m], |[i]| a.at([&at.at([&at.at([&i])])])));
            },
            fate: Checked("outside of its extent"),
            calls: &[(&[&[9], &[9], &[9]], true), (&[&[4], &[5], &[5]], false)],
        },
        Row {
            name: "sixty choices, each of which has the one before on both sides",
            make: |k| {
                gathers(k, |a, at, _| {
                    let mut value = a(at.clone());
                    for step in 0..60 {
                        value = Expr::if_then_else(at.greater(step), &value + 1.0, &value - 1.0);
                    }
                    value
                })
            },
            fate: Checked("outside of its extent"),
            calls: &[(&[&[9], &[9], &[9]], true), (&[&[4], &[5], &[5]], false), (&[&[0], &[0], &[0]], true)],
        },
        Row {
            name: "a choice of which one side reads",
            make: |k| gathers(k, |a, at, _| Expr::if_then_else(at.less(4), a(at.clone()), -1.0) + 1.0),
            fate: Checked("outside of its extent"),
            calls: &[(&[&[4], &[9], &[9]], true), (&[&[3], &[9], &[9]], false), (&[&[0], &[0], &[0]], true)],
        },
    ]
}
