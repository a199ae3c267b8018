//! Schedules to loops: whatever the schedule, the function computes what the graph says.

#[path = "lower/check.rs"]
mod check;

use check::Graph;
use kernpack_compiler::ir::{Expr, F32};
use kernpack_compiler::te::{compute, placeholder, reduce_axis, size, sum};

/// Sizes around the factors of the schedules.
const AWKWARD: [i64; 9] = [0, 1, 2, 3, 7, 8, 9, 31, 33];

#[test]
fn elementwise_splits() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) * 2.0 + 1.0).named("b");
    let graph = Graph::new([&b], [&n]);
    graph.check_sizes("plain", &AWKWARD, |_| Ok(()));
    graph.check_sizes("split", &AWKWARD, |s| {
        let [i] = s.stage(&b).axes()?;
        s.stage(&b).split(&i, 8)?;
        Ok(())
    });
    graph.check_sizes("split twice", &AWKWARD, |s| {
        let [i] = s.stage(&b).axes()?;
        let (_, inner) = s.stage(&b).split(&i, 8)?;
        s.stage(&b).split(&inner, 4)?;
        Ok(())
    });
    graph.check_sizes("split outer", &AWKWARD, |s| {
        let [i] = s.stage(&b).axes()?;
        let (outer, inner) = s.stage(&b).split(&i, 3)?;
        let (outest, middle) = s.stage(&b).split(&outer, 2)?;
        s.stage(&b).reorder([&inner, &middle, &outest])?;
        Ok(())
    });
    graph.check_sizes("nparts", &AWKWARD, |s| {
        let [i] = s.stage(&b).axes()?;
        s.stage(&b).split_nparts(&i, 5)?;
        Ok(())
    });
}

#[test]
fn matmul_tiles() {
    let (m, n, l) = (size("m"), size("n"), size("l"));
    let (a, b) = (placeholder([&m, &l], F32, "a"), placeholder([&l, &n], F32, "b"));
    let k = reduce_axis(0, &l, "k");
    let c = compute([&m, &n], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let graph = Graph::new([&c], [&m, &n, &l]);
    let sizes = [[0, 3, 2], [3, 0, 2], [3, 2, 0], [1, 1, 1], [7, 9, 8], [8, 8, 4], [9, 17, 5], [2, 31, 3]];
    graph.check_all("plain", &sizes, |_| Ok(()));
    graph.check_all("tile", &sizes, |s| {
        let [i, j] = s.stage(&c).axes()?;
        let (_, _, ii, ji) = s.stage(&c).tile(&i, &j, 4, 8)?;
        let (ko, ki) = s.stage(&c).split(&k, 3)?;
        s.stage(&c).reorder([&ko, &ii, &ki, &ji])?;
        Ok(())
    });
    graph.check_all("fuse", &sizes, |s| {
        let [i, j] = s.stage(&c).axes()?;
        let fused = s.stage(&c).fuse(&i, &j)?;
        let (outer, inner) = s.stage(&c).split(&fused, 5)?;
        s.stage(&c).reorder([&outer, &k, &inner])?.parallel(&outer)?.vectorize(&inner)?;
        Ok(())
    });
    graph.check_all("k outermost", &sizes, |s| {
        let [i, j] = s.stage(&c).axes()?;
        s.stage(&c).reorder([&k, &j, &i])?;
        Ok(())
    });
    let _: Option<Expr> = None;
}
