//! Lowering of schedules to loops: for any schedule, the function computes the values of the graph.

#[path = "lower/check.rs"]
mod check;
#[path = "lower/choices.rs"]
mod choices;
#[path = "lower/copies_and_halves.rs"]
mod copies_and_halves;
#[path = "lower/devices.rs"]
mod devices;
#[path = "lower/fuzz.rs"]
mod fuzz;
#[path = "lower/opencl.rs"]
mod opencl;

use check::Graph;
use expect_test::expect;
use kernpack_compiler::Result;
use kernpack_compiler::interpret::{Block, Machine};
use kernpack_compiler::ir::verify::{Stage, verify};
use kernpack_compiler::ir::{Buffer, BufferNode, Expr, F32, ForKind, IterVar, Stmt, StmtNode, Tensor, Var};
use kernpack_compiler::pass::PassContext;
use kernpack_compiler::pass::simplify::simplify;
use kernpack_compiler::schedule::{
    Argument, Schedule, Tail, TensorIntrin, TensorIntrinNode, create_schedule, lower_function,
};
use kernpack_compiler::te::{
    argmax, compute, extern_op, placeholder, reduce_axis, reduce_max, scan, size, sum, thread_axis,
};

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

/// The loops, guards and masked stores of a function after the usual passes.
fn shape_of(function: &kernpack_compiler::ir::LoweredFunc) -> [usize; 3] {
    let context = PassContext::default();
    let passes = kernpack_compiler::pass::pipeline::of(&context);
    let program = kernpack_compiler::pass::pipeline::run(function.clone(), &passes, &context).unwrap();
    let mut counts = [0; 3];
    let lowered: kernpack_compiler::ir::LoweredFunc = program.to().unwrap();
    kernpack_compiler::ir::visit::for_each_stmt(&lowered.body, |stmt| {
        counts[0] += usize::from(matches!(**stmt, StmtNode::For { .. }));
        counts[1] += usize::from(matches!(**stmt, StmtNode::If { .. }));
        counts[2] += usize::from(matches!(**stmt, StmtNode::Store { mask: Some(_), .. }));
    });
    counts
}

#[test]
fn rests_of_splits() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) * 2.0 + 1.0).named("b");
    let graph = Graph::new([&b], [&n]).through_passes();
    let vectors = |s: &mut Schedule, tail: Tail| -> Result<()> {
        let [i] = s.stage(&b).axes()?;
        let (_, inner) = s.stage(&b).split_tail(&i, 8, tail)?;
        s.stage(&b).vectorize(&inner).map(drop)
    };
    for tail in [Tail::Guard, Tail::Predicate] {
        graph.check_sizes("vectors", &AWKWARD, |s| vectors(s, tail));
        graph.check_sizes("nested", &AWKWARD, |s| {
            let [i] = s.stage(&b).axes()?;
            let (outer, inner) = s.stage(&b).split_tail(&i, 6, tail)?;
            s.stage(&b).split_tail(&inner, 4, tail)?;
            s.stage(&b).split_tail(&outer, 2, tail).map(drop)
        });
    }
    // A loop without masks and a tail, or one loop whose vectors all have masks.
    assert_eq!(shape_of(&graph.lowered(|s| vectors(s, Tail::Guard)).unwrap())[0], 2);
    assert_eq!(shape_of(&graph.lowered(|s| vectors(s, Tail::Predicate)).unwrap()), [1, 0, 1]);
    // An axis of a reduction.
    let k = reduce_axis(0, &n, "k");
    let total = compute([3], |[i]| sum(a.at([&k]) * i.cast(F32), &k)).named("total");
    let graph = Graph::new([&total], [&n]).through_passes();
    graph.check_sizes("reduction", &AWKWARD, |s| {
        let (_, inner) = s.stage(&total).split_tail(&k, 4, Tail::Predicate)?;
        let [i] = s.stage(&total).axes()?;
        s.stage(&total).reorder([&inner, &i])?.unroll(&inner).map(drop)
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
}

#[test]
fn producers_in_loops_of_their_readers() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) * 3.0).named("b");
    let c = compute([n.expr() - 1], |[i]| b.at([&i]) + b.at([&i + 1])).named("c");
    let graph = Graph::new([&c], [&n]);
    let sizes = &AWKWARD[1..];
    graph.check_sizes("root", sizes, |_| Ok(()));
    graph.check_sizes("inline", sizes, |s| {
        s.stage(&b).compute_inline()?;
        Ok(())
    });
    graph.check_sizes("at outer", sizes, |s| {
        let [i] = s.stage(&c).axes()?;
        let (outer, _) = s.stage(&c).split(&i, 8)?;
        s.stage(&b).compute_at(&c, &outer)?;
        Ok(())
    });
    graph.check_sizes("at inner", sizes, |s| {
        let [i] = s.stage(&c).axes()?;
        let (_, inner) = s.stage(&c).split(&i, 8)?;
        s.stage(&b).compute_at(&c, &inner)?;
        Ok(())
    });
    graph.check_sizes("split producer at outer", sizes, |s| {
        let [i] = s.stage(&c).axes()?;
        let (outer, _) = s.stage(&c).split(&i, 8)?;
        let [bi] = s.stage(&b).axes()?;
        s.stage(&b).compute_at(&c, &outer)?;
        let (_, inner) = s.stage(&b).split(&bi, 4)?;
        s.stage(&b).vectorize(&inner)?;
        s.stage(&c).parallel(&outer)?;
        Ok(())
    });
    graph.check_sizes("shifted in", &[9, 10, 33, 64], |s| {
        let [i] = s.stage(&c).axes()?;
        let (outer, _) = s.stage(&c).split_tail(&i, 8, Tail::ShiftInwards)?;
        s.stage(&b).compute_at(&c, &outer)?;
        Ok(())
    });
    graph.check_sizes("shifted in, maybe too short", sizes, |s| {
        let [i] = s.stage(&c).axes()?;
        s.stage(&c).split_tail(&i, 8, Tail::ShiftInwards)?;
        Ok(())
    });
}

#[test]
fn convolution_with_padding() {
    let (h, w) = (size("h"), size("w"));
    let (x, f) = (placeholder((&h, &w, 3), F32, "x"), placeholder([3, 3, 3, 4], F32, "f"));
    let padded = compute((h.expr() + 2, w.expr() + 2, 3), |[i, j, c]| {
        let inside = i.greater_equal(1).and(i.less(h.expr() + 1)).and(j.greater_equal(1)).and(j.less(w.expr() + 1));
        Expr::if_then_else(inside, x.at((&i - 1, &j - 1, &c)), 0.0)
    })
    .named("padded");
    let (r, s, k) = (reduce_axis(0, 3, "r"), reduce_axis(0, 3, "s"), reduce_axis(0, 3, "k"));
    let y = compute((h.expr().ceil_div(2), w.expr().ceil_div(2), 4), |[i, j, c]| {
        sum(padded.at((&i * 2 + &r, &j * 2 + &s, &k)) * f.at((&r, &s, &k, &c)), [&r, &s, &k])
    })
    .named("y");
    let relu =
        compute((h.expr().ceil_div(2), w.expr().ceil_div(2), 4), |[i, j, c]| y.at((&i, &j, &c)).max(0.0)).named("relu");
    let graph = Graph::new([&relu], [&h, &w]);
    let sizes = [[0, 3], [1, 1], [2, 7], [9, 8], [5, 13]];
    graph.check_all("root", &sizes, |_| Ok(()));
    graph.check_all("padding inlined", &sizes, |s| {
        s.stage(&padded).compute_inline()?;
        Ok(())
    });
    graph.check_all("tile", &sizes, |sch| {
        let [i, j, _] = sch.stage(&relu).axes()?;
        let (_, jo, _, _) = sch.stage(&relu).tile(&i, &j, 2, 3)?;
        sch.stage(&y).compute_at(&relu, &jo)?;
        sch.stage(&padded).compute_at(&relu, &jo)?;
        Ok(())
    });
    graph.check_all("padding at the reduction", &sizes, |sch| {
        let [i, j, _] = sch.stage(&relu).axes()?;
        let (_, jo, _, _) = sch.stage(&relu).tile(&i, &j, 2, 3)?;
        sch.stage(&y).compute_at(&relu, &jo)?;
        let [yi, yj, yc] = sch.stage(&y).axes()?;
        sch.stage(&y).reorder([&k, &r, &yi, &yj, &s, &yc])?;
        sch.stage(&padded).compute_at(&y, &r)?;
        Ok(())
    });
    graph.check_all("fused rows", &sizes, |sch| {
        let [i, j, c] = sch.stage(&relu).axes()?;
        let rows = sch.stage(&relu).fuse_all(&[i, j, c])?;
        let (outer, _) = sch.stage(&relu).split(&rows, 16)?;
        sch.stage(&y).compute_at(&relu, &outer)?;
        sch.stage(&relu).parallel(&outer)?;
        Ok(())
    });
}

#[test]
fn readers_with_different_windows() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let at = |index: Expr| {
        let inside = index.greater_equal(0).and(index.less(&n));
        Expr::if_then_else(inside, b.at([&index]), 0.0)
    };
    let c = compute([&n], |[i]| at(&i - 1) + at(&i + 2)).named("c");
    let d = compute([&n], |[i]| at(&i * 2) - at(&i - 4)).named("d");
    let e = compute([&n], |[i]| c.at([&i]) * d.at([&i])).named("e");
    let graph = Graph::new([&e], [&n]);
    graph.check_sizes("root", &AWKWARD, |_| Ok(()));
    for factor in [1, 3, 4, 8] {
        graph.check_sizes("all in one loop", &AWKWARD, |s| {
            let [i] = s.stage(&e).axes()?;
            let (outer, _) = s.stage(&e).split(&i, factor)?;
            for stage in [&b, &c, &d] {
                s.stage(stage).compute_at(&e, &outer)?;
            }
            Ok(())
        });
        graph.check_sizes("one inside the other", &AWKWARD, |s| {
            let [i] = s.stage(&e).axes()?;
            let (outer, inner) = s.stage(&e).split(&i, factor)?;
            s.stage(&d).compute_at(&e, &outer)?;
            s.stage(&c).compute_at(&e, &inner)?;
            s.stage(&b).compute_at(&e, &outer)?;
            Ok(())
        });
    }
}

#[test]
fn reductions_in_loops() {
    let (m, n) = (size("m"), size("n"));
    let a = placeholder([&m, &n], F32, "a");
    let (k, l) = (reduce_axis(0, &n, "k"), reduce_axis(0, &n, "l"));
    let top = compute([&m], |[i]| reduce_max(a.at([&i, &k]), &k)).named("top");
    let low = compute([&m, &n], |[i, j]| a.at([&i, &j]) - top.at([&i])).named("low");
    let total = compute([&m], |[i]| sum(low.at([&i, &l]), &l)).named("total");
    let out = compute([&m, &n], |[i, j]| low.at([&i, &j]) * total.at([&i])).named("out");
    let graph = Graph::new([&out], [&m, &n]);
    let sizes = [[0, 0], [1, 0], [0, 1], [1, 1], [3, 9], [8, 4], [5, 7]];
    graph.check_all("root", &sizes, |_| Ok(()));
    graph.check_all("rows", &sizes, |s| {
        let [i, j] = s.stage(&out).axes()?;
        let (io, _) = s.stage(&out).split(&i, 4)?;
        for stage in [&top, &low, &total] {
            s.stage(stage).compute_at(&out, &io)?;
        }
        let (_, jv) = s.stage(&out).split(&j, 8)?;
        s.stage(&out).vectorize(&jv)?.parallel(&io)?;
        let [ti] = s.stage(&total).axes()?;
        let (lo, li) = s.stage(&total).split(&l, 4)?;
        s.stage(&total).reorder([&lo, &ti, &li])?;
        Ok(())
    });
    graph.check_all("inlined and at the reduction", &sizes, |s| {
        let [i, _] = s.stage(&out).axes()?;
        s.stage(&low).compute_inline()?;
        s.stage(&total).compute_at(&out, &i)?;
        s.stage(&top).compute_at(&out, &i)?;
        Ok(())
    });
    let problem = graph.problem(|s| {
        let [i, _] = s.stage(&out).axes()?;
        s.stage(&low).compute_inline()?;
        s.stage(&total).compute_at(&out, &i)?;
        s.stage(&top).compute_at(&total, &l)?;
        Ok(())
    });
    assert!(
        problem.contains(
            "BoundError: cannot find the producer `top` along the loop nest specified by compute_at of consumer `out`"
        ),
        "{problem}"
    );
    assert!(problem.contains("`out` is computed in the loops out.j, out.i"), "{problem}");
}

#[test]
fn tensors_without_dimensions() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let k = reduce_axis(0, &n, "k");
    let total = compute((), |[]| sum(a.at([&k]), &k)).named("total");
    let twice = compute((), |[]| total.at(()) * 2.0).named("twice");
    let out = compute([&n], |[i]| a.at([&i]) - twice.at(())).named("out");
    let graph = Graph::new([&out, &twice], [&n]);
    graph.check_sizes("root", &AWKWARD, |_| Ok(()));
    graph.check_sizes("at", &AWKWARD, |s| {
        let [i] = s.stage(&out).axes()?;
        let (outer, _) = s.stage(&out).split(&i, 4)?;
        s.stage(&out).parallel(&outer)?;
        let (_, inner) = s.stage(&total).split(&k, 4)?;
        s.stage(&total).unroll(&inner)?;
        let one = s.stage(&twice).fuse_all(&[])?;
        s.stage(&total).compute_at(&twice, &one)?;
        Ok(())
    });
}

#[test]
fn several_outputs_and_results() {
    let (m, n) = (size("m"), size("n"));
    let a = placeholder([&m, &n], F32, "a");
    let [sum_ab, diff] = compute([&m, &n], |[i, j]| [a.at([&i, &j]) + 1.0, a.at([&i, &j]) - 2.0]);
    let k = reduce_axis(0, &n, "k");
    let [position, value] = compute([&m], |[i]| argmax(k.expr(), sum_ab.at([&i, &k]) * diff.at([&i, &k]), &k));
    let graph = Graph::new([&position, &value], [&m, &n]);
    let sizes = [[0, 0], [1, 1], [3, 9], [8, 4], [5, 33]];
    graph.check_all("root", &sizes, |_| Ok(()));
    graph.check_all("split", &sizes, |s| {
        let [i] = s.stage(&value).axes()?;
        let (_, ii) = s.stage(&value).split(&i, 4)?;
        let (ko, ki) = s.stage(&value).split(&k, 4)?;
        s.stage(&value).reorder([&ko, &ii, &ki])?;
        s.stage(&diff).compute_at(&value, &ko)?;
        Ok(())
    });
}

#[test]
fn recurrences() {
    let (m, n) = (size("m"), size("n"));
    let x = placeholder([&m, &n], F32, "x");
    let state = placeholder([&m, &n], F32, "state");
    let init = compute((1, &n), |[_, i]| x.at((0, &i))).named("init");
    let scaled = compute([&m, &n], |[t, i]| state.at((&t - 1, &i)) * 2.0).named("scaled");
    let update = compute([&m, &n], |[t, i]| scaled.at([&t, &i]) + x.at([&t, &i])).named("update");
    let [steps] = scan([&init], [&update], [&state]);
    let out = compute([&m, &n], |[t, i]| steps.at([&t, &i]) - 1.0).named("out");
    let graph = Graph::new([&out], [&m, &n]);
    let sizes = [[1, 0], [1, 3], [2, 7], [4, 9]];
    graph.check_all("root", &sizes, |_| Ok(()));
    graph.check_all("inline", &sizes, |s| {
        s.stage(&scaled).compute_inline()?;
        let [_, i] = s.stage(&update).axes()?;
        let (_, inner) = s.stage(&update).split(&i, 4)?;
        s.stage(&update).vectorize(&inner)?;
        Ok(())
    });
    graph.check_all("in the update", &sizes, |s| {
        let [_, i] = s.stage(&update).axes()?;
        let (outer, _) = s.stage(&update).split(&i, 4)?;
        s.stage(&scaled).compute_at(&update, &outer)?;
        let [_, i] = s.stage(&init).axes()?;
        s.stage(&init).split(&i, 4)?;
        Ok(())
    });
    graph.check_all("columns of a reader", &sizes, |s| {
        let [t, i] = s.stage(&out).axes()?;
        let (outer, inner) = s.stage(&out).split(&i, 4)?;
        s.stage(&out).reorder([&outer, &t, &inner])?;
        s.stage(&steps).compute_at(&out, &outer)?;
        Ok(())
    });
    // The first steps are an input, and a step reads its neighbors.
    let first = placeholder((2, &n), F32, "first");
    let state = placeholder([&m, &n], F32, "state");
    let update = compute([&m, &n], |[t, i]| {
        let left = Expr::if_then_else(i.greater_equal(1), state.at((&t - 2, &i - 1)), 0.0);
        left + state.at((&t - 1, &i))
    })
    .named("update");
    let [steps] = scan([&first], [&update], [&state]);
    let out = compute([&m, &n], |[t, i]| steps.at([&t, &i]) * 2.0).named("out");
    let graph = Graph::new([&out], [&m, &n]);
    let sizes = [[2, 3], [3, 7], [5, 9]];
    graph.check_all("root", &sizes, |_| Ok(()));
    graph.check_all("columns of a reader", &sizes, |s| {
        let [t, i] = s.stage(&out).axes()?;
        let (outer, inner) = s.stage(&out).split(&i, 4)?;
        s.stage(&out).reorder([&outer, &t, &inner])?;
        s.stage(&steps).compute_at(&out, &outer)?;
        Ok(())
    });
    let graph = Graph::new([&steps], [&m, &n]);
    graph.check_all("output", &sizes, |_| Ok(()));
}

#[test]
fn threads_of_a_device() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let c = compute([&n], |[i]| {
        let index = &i + 1;
        b.at([&i]) * Expr::if_then_else(index.less(&n), b.at([&index]), 2.0)
    })
    .named("c");
    let graph = Graph::new([&c], [&n]);
    let sizes = &AWKWARD[1..];
    graph.check_sizes("two kernels", sizes, |s| {
        let (block, thread) = (thread_axis(None, "blockIdx.x"), thread_axis(Some(8), "threadIdx.x"));
        for stage in [&b, &c] {
            let [i] = s.stage(stage).axes()?;
            let (outer, inner) = s.stage(stage).split(&i, 8)?;
            s.stage(stage).bind(&outer, &block)?.bind(&inner, &thread)?;
        }
        Ok(())
    });
    graph.check_sizes("local", sizes, |s| {
        let (block, thread) = (thread_axis(None, "blockIdx.x"), thread_axis(Some(8), "threadIdx.x"));
        let [i] = s.stage(&c).axes()?;
        let (outer, inner) = s.stage(&c).split(&i, 8)?;
        s.stage(&c).bind(&outer, &block)?.bind(&inner, &thread)?;
        s.stage(&b).compute_at(&c, &inner)?;
        Ok(())
    });
    graph.check_sizes("virtual threads", sizes, |s| {
        let (block, thread) = (thread_axis(None, "blockIdx.x"), thread_axis(Some(4), "threadIdx.x"));
        let copies = thread_axis(Some(2), "vthread");
        let [i] = s.stage(&c).axes()?;
        let (outer, inner) = s.stage(&c).split(&i, 8)?;
        let (v, inner) = s.stage(&c).split(&inner, 4)?;
        s.stage(&c).bind(&outer, &block)?.bind(&v, &copies)?.bind(&inner, &thread)?;
        s.stage(&b).compute_at(&c, &inner)?;
        Ok(())
    });
    let problem = graph.problem(|s| {
        let thread = thread_axis(None, "threadIdx.x");
        for (stage, factor) in [(&b, 4), (&c, 8)] {
            let [i] = s.stage(stage).axes()?;
            let (_, inner) = s.stage(stage).split(&i, factor)?;
            s.stage(stage).bind(&inner, &thread)?;
        }
        Ok(())
    });
    assert!(
        problem.contains("domain of `threadIdx.x` already inferred, cannot prove their extents are the same"),
        "{problem}"
    );
}

#[test]
fn reductions_across_threads() {
    let (m, n) = (size("m"), size("n"));
    let a = placeholder([&m, &n], F32, "a");
    let k = reduce_axis(0, &n, "k");
    let rows = compute([&m], |[i]| sum(a.at([&i, &k]), &k)).named("rows");
    let graph = Graph::new([&rows], [&m, &n]);
    let sizes = [[1, 1], [3, 8], [5, 8], [2, 7]];
    graph.check_all("one value for each thread", &sizes, |s| {
        let [i] = s.stage(&rows).axes()?;
        let (block, thread) = (thread_axis(None, "blockIdx.x"), thread_axis(None, "threadIdx.x"));
        s.stage(&rows).bind(&i, &block)?.bind(&k, &thread)?;
        Ok(())
    });
    let problem = graph.problem(|s| {
        let (_, inner) = s.stage(&rows).split(&k, 8)?;
        s.stage(&rows).bind(&inner, &thread_axis(None, "threadIdx.x"))?;
        Ok(())
    });
    assert!(problem.contains("no thread runs this axis of the reduction"), "{problem}");
    assert!(problem.contains("use rfactor"), "{problem}");
}

#[test]
fn extern_operations() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let outputs = extern_op("reversed", [&b]).output([&n], F32).body(|inputs, outputs| {
        let i = Var::index("i");
        let value = Expr::load(&inputs[0], n.expr() - 1 - &i);
        Stmt::for_loop(i.clone(), 0, &n, ForKind::Serial, Stmt::store(outputs[0].clone(), &i, value))
    });
    let c = compute([&n], |[i]| outputs[0].at([&i]) * a.at([&i])).named("c");
    let graph = Graph::new([&c], [&n]);
    graph.check_sizes("root", &AWKWARD, |_| Ok(()));
    graph.check_sizes("split", &AWKWARD, |s| {
        for stage in [&b, &c] {
            let [i] = s.stage(stage).axes()?;
            let (_, inner) = s.stage(stage).split(&i, 8)?;
            s.stage(stage).vectorize(&inner)?;
        }
        Ok(())
    });
    let graph = Graph::new([&outputs[0]], [&n]);
    graph.check_sizes("output", &AWKWARD, |_| Ok(()));
}

#[test]
fn memory_as_asked_for() {
    let (m, n) = (size("m"), size("n"));
    let a = placeholder([&m, &n], F32, "a");
    let b = compute([&m, &n], |[i, j]| a.at([&i, &j]) * 2.0).named("b");
    let c = compute([&n, &m], |[i, j]| b.at([&j, &i]) + 1.0).named("c");
    let graph = Graph::new([&c], [&m, &n]);
    let sizes = [[0, 3], [1, 1], [9, 7], [8, 16]];
    graph.check_all("aligned rows", &sizes, |s| {
        let [i, j] = s.stage(&b).axes()?;
        s.stage(&b).storage_align(&i, 16, 3)?.storage_align(&j, 2, 0)?;
        Ok(())
    });
    graph.check_all("prefetch", &sizes, |s| {
        let [i, j] = s.stage(&c).axes()?;
        let (_, inner) = s.stage(&c).split(&i, 4)?;
        s.stage(&c).reorder([&j, &inner])?.prefetch(&b, &j, 2)?;
        let [bi, _] = s.stage(&b).axes()?;
        s.stage(&b).prefetch(&a, &bi, 1)?;
        Ok(())
    });
    graph.check_all("predicate", &sizes, |s| {
        s.stage(&b).set_store_predicate(Expr::bool(true))?;
        Ok(())
    });
}

#[test]
fn caches_and_factored_reductions() {
    let (m, n, l) = (size("m"), size("n"), size("l"));
    let (a, b) = (placeholder([&m, &l], F32, "a"), placeholder([&l, &n], F32, "b"));
    let k = reduce_axis(0, &l, "k");
    let c = compute([&m, &n], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let relu = compute([&m, &n], |[i, j]| c.at([&i, &j]).max(0.0)).named("relu");
    let graph = Graph::new([&relu], [&m, &n, &l]);
    let sizes = [[0, 3, 2], [3, 2, 0], [1, 1, 1], [7, 9, 8], [8, 8, 4], [9, 17, 5], [2, 31, 3]];
    graph.check_all("tile in local memory", &sizes, |s| {
        let [i, j] = s.stage(&relu).axes()?;
        let (_, jo, ii, ji) = s.stage(&relu).tile(&i, &j, 4, 8)?;
        s.stage(&relu).unroll(&ii)?.vectorize(&ji)?;
        let tile = s.cache_write(&c, "local")?;
        s.stage(&c).compute_inline()?;
        s.stage(&tile).compute_at(&relu, &jo)?;
        let [ci, cj] = s.stage(&tile).axes()?;
        s.stage(&tile).reorder([&k, &ci, &cj])?.unroll(&ci)?.vectorize(&cj)?;
        let rows = s.cache_read(&a, "local", [&tile])?;
        s.stage(&rows).compute_at(&tile, &k)?;
        let columns = s.cache_read(&b, "local", [&tile])?;
        s.stage(&columns).compute_at(&relu, &jo)?;
        Ok(())
    });
    graph.check_all("packed panels", &sizes, |s| {
        let [i, j] = s.stage(&relu).axes()?;
        let (_, jo, _, _) = s.stage(&relu).tile(&i, &j, 4, 8)?;
        s.stage(&c).compute_at(&relu, &jo)?;
        let (ko, ki) = s.stage(&c).split(&k, 3)?;
        let [ci, cj] = s.stage(&c).axes()?;
        s.stage(&c).reorder([&ko, &ci, &ki, &cj])?;
        let packed = s.cache_read(&b, "global", [&c])?;
        let [_, pj] = s.stage(&packed).axes()?;
        let (po, _) = s.stage(&packed).split(&pj, 8)?;
        s.stage(&packed).parallel(&po).map(|_| ())
    });
    graph.check_all("panels of another layout", &sizes, |s| {
        let packed = s.cache_read(&b, "global", [&c])?;
        let [pk, pj] = s.stage(&packed).axes()?;
        let (po, pi) = s.stage(&packed).split(&pj, 8)?;
        s.stage(&packed).reorder([&po, &pk, &pi])?;
        s.cache_write(&packed, "global")?;
        s.stage(&packed).compute_inline().map(|_| ())
    });
    graph.check_all("blocks of the reduction", &sizes, |s| {
        let [i, j] = s.stage(&relu).axes()?;
        let (_, jo, _, _) = s.stage(&relu).tile(&i, &j, 4, 8)?;
        s.stage(&c).compute_at(&relu, &jo)?;
        let (ko, _) = s.stage(&c).split(&k, 3)?;
        let part = s.rfactor(&c, &ko)?;
        let [k] = s.stage(&c).reduce_axes()?;
        let [ci, cj] = s.stage(&c).axes()?;
        s.stage(&c).reorder([&k, &ci, &cj])?;
        s.stage(&part).compute_at(&c, &k)?;
        s.stage(&part).set_scope("local").map(|_| ())
    });
    graph.check_all("reduced by threads", &[[2, 3, 7], [3, 2, 9]], |s| {
        let (_, ki) = s.stage(&c).split(&k, 4)?;
        let part = s.rfactor(&c, &ki)?;
        let [ci, cj] = s.stage(&c).axes()?;
        let [k] = s.stage(&c).reduce_axes()?;
        let thread = thread_axis(Some(4), "threadIdx.x");
        s.stage(&c).bind(&ci, &thread_axis(None, "blockIdx.y"))?;
        s.stage(&c).bind(&cj, &thread_axis(None, "blockIdx.x"))?;
        s.stage(&c).bind(&k, &thread)?;
        s.stage(&part).compute_at(&c, &k)?;
        let [i, j] = s.stage(&relu).axes()?;
        s.stage(&relu).bind(&i, &thread_axis(None, "blockIdx.y"))?;
        s.stage(&relu).bind(&j, &thread_axis(None, "blockIdx.x")).map(|_| ())
    });
    graph.check_all("tiles in shared memory", &[[3, 5, 4], [4, 4, 4], [9, 7, 5]], |s| {
        let [i, j] = s.stage(&relu).axes()?;
        let (block_y, block_x) = (thread_axis(None, "blockIdx.y"), thread_axis(None, "blockIdx.x"));
        let (thread_y, thread_x) = (thread_axis(Some(2), "threadIdx.y"), thread_axis(Some(4), "threadIdx.x"));
        let (io, jo, ii, ji) = s.stage(&relu).tile(&i, &j, 2, 4)?;
        s.stage(&relu).bind(&io, &block_y)?.bind(&jo, &block_x)?.bind(&ii, &thread_y)?.bind(&ji, &thread_x)?;
        s.stage(&c).compute_at(&relu, &ji)?;
        Ok(())
    });
}

#[test]
fn a_factored_part_of_an_axis_whose_rest_is_fused_with_another() {
    let n = size("n");
    let a = placeholder((&n, 5, 7), F32, "a");
    let (r, t) = (reduce_axis(0, 5, "r"), reduce_axis(0, 7, "t"));
    let b = compute([&n], |[i]| sum(a.at((&i, &r, &t)), [&r, &t])).named("b");
    Graph::new([&b], [&n]).check_sizes("factored", &[0, 1, 3], |s| {
        let (outer, inner) = s.stage(&b).split(&t, 2)?;
        s.stage(&b).fuse(&r, &outer)?;
        s.rfactor(&b, &inner).map(|_| ())
    });
}

/// A tile of 4 by 4 as an instruction: `c = a * b` and `c += a * b`.
fn tile_intrinsic(adds: bool) -> TensorIntrin {
    let (a, b) = (placeholder([4, 4], F32, "a"), placeholder([4, 4], F32, "b"));
    let k = reduce_axis(0, 4, "k");
    let c = compute([4, 4], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let buffers: Vec<Buffer> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            let strides = ["rows", "columns"].map(|stride| Var::index(format!("{name}.{stride}")).expr().clone());
            Buffer::from_node(BufferNode {
                strides: strides.into_iter().collect(),
                elem_offset: Var::index(format!("{name}.offset")).into(),
                offset_factor: 1,
                ..Buffer::new(name, F32, [Expr::int(4), Expr::int(4)], "global").to_node()
            })
        })
        .collect();
    let at = |buffer: &Buffer, i: &Var, j: &Var| buffer.flat_index(&[i.expr().clone(), j.expr().clone()]);
    let over = |vars: &[&Var], body: Stmt| {
        let unrolled = |body, var: &&Var| Stmt::for_loop((*var).clone(), 0, 4, ForKind::Serial, body);
        vars.iter().rev().fold(body, unrolled)
    };
    let zero = || {
        let (i, j) = (Var::index("i"), Var::index("j"));
        over(&[&i, &j], Stmt::store(buffers[2].clone(), at(&buffers[2], &i, &j), Expr::float(F32, 0.0)))
    };
    let add = || {
        let (i, j, k) = (Var::index("i"), Var::index("j"), Var::index("k"));
        let product =
            Expr::load(&buffers[0], at(&buffers[0], &i, &k)) * Expr::load(&buffers[1], at(&buffers[1], &k, &j));
        let place = at(&buffers[2], &i, &j);
        over(&[&i, &j, &k], Stmt::store(buffers[2].clone(), place.clone(), Expr::load(&buffers[2], place) + product))
    };
    TensorIntrin::from_node(TensorIntrinNode {
        name: "tile".into(),
        op: c.op.clone(),
        inputs: [a, b].into_iter().collect(),
        buffers: buffers.iter().cloned().collect(),
        body: Stmt::seq([zero(), add()]),
        reduce_init: adds.then(zero),
        reduce_update: adds.then(add),
    })
}

#[test]
fn instructions_in_place_of_loops() {
    let (m, n, l) = (size("m"), size("n"), size("l"));
    let extents = [m.expr() * 4, n.expr() * 4, l.expr() * 4];
    let a = placeholder([&extents[0], &extents[2]], F32, "a");
    let b = placeholder([&extents[2], &extents[1]], F32, "b");
    let k = reduce_axis(0, &extents[2], "k");
    let c = compute([&extents[0], &extents[1]], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let graph = Graph::new([&c], [&m, &n, &l]);
    let sizes = [[1, 1, 1], [2, 3, 1], [1, 2, 3], [3, 0, 2], [2, 2, 0]];
    let tiles = |s: &mut Schedule, order: fn([&IterVar; 3]) -> [&IterVar; 3], adds: bool| {
        let [i, j] = s.stage(&c).axes()?;
        let (io, jo, ii, ji) = s.stage(&c).tile(&i, &j, 4, 4)?;
        let (ko, ki) = s.stage(&c).split(&k, 4)?;
        let [x, y, z] = order([&io, &jo, &ko]);
        s.stage(&c).reorder([x, y, z, &ii, &ji, &ki])?;
        s.stage(&c).tensorize(&ii, &tile_intrinsic(adds)).map(|_| ())
    };
    graph.check_all("reduction inside out", &sizes, |s| tiles(s, |[i, j, k]| [i, j, k], true));
    graph.check_all("reduction outermost", &sizes, |s| tiles(s, |[i, j, k]| [k, i, j], true));
    let problem = graph.problem(|s| tiles(s, |[i, j, k]| [i, j, k], false));
    assert!(
        problem.contains("tensorize: `tile` does not fit stage `c`: the reduction goes over `k.outer` outside of it"),
        "{problem}"
    );
    let problem = graph.problem(|s| {
        let [i, _] = s.stage(&c).axes()?;
        let (_, ii) = s.stage(&c).split(&i, 4)?;
        s.stage(&c).tensorize(&ii, &tile_intrinsic(true)).map(|_| ())
    });
    assert!(
        problem.contains("tensorize: `tile` does not fit stage `c`: `j` goes over n * 4 inside, its `j` over 4"),
        "{problem}"
    );

    let other = compute([&extents[0], &extents[1]], |[i, j]| sum(a.at([&i, &k]) + b.at([&k, &j]), &k)).named("other");
    let graph = Graph::new([&other], [&m, &n, &l]);
    let problem = graph.problem(|s| {
        let [i, j] = s.stage(&other).axes()?;
        let (_, _, ii, ji) = s.stage(&other).tile(&i, &j, 4, 4)?;
        let (ko, ki) = s.stage(&other).split(&k, 4)?;
        s.stage(&other).reorder([&ko, &ii, &ji, &ki])?;
        s.stage(&other).tensorize(&ii, &tile_intrinsic(true)).map(|_| ())
    });
    assert!(problem.contains("tensorize: `tile` does not fit stage `other`: it computes "), "{problem}");

    let (m, n, l) = (size("m"), size("n"), size("l"));
    let (a, b) = (placeholder([&m, &l], F32, "a"), placeholder([&l, &n], F32, "b"));
    let k = reduce_axis(0, &l, "k");
    let c = compute([&m, &n], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let graph = Graph::new([&c], [&m, &n, &l]);
    let problem = graph.problem(|s| {
        let [i, j] = s.stage(&c).axes()?;
        let (_, _, ii, ji) = s.stage(&c).tile(&i, &j, 4, 4)?;
        let (ko, ki) = s.stage(&c).split(&k, 4)?;
        s.stage(&c).reorder([&ko, &ii, &ji, &ki])?;
        s.stage(&c).tensorize(&ii, &tile_intrinsic(true)).map(|_| ())
    });
    assert!(problem.contains("relies on a variable inside it"), "{problem}");
}

#[test]
fn arguments_with_strides() {
    let n = size("n");
    let (a, b) = (placeholder([&n], F32, "a"), placeholder([&n], F32, "b"));
    let c = compute([&n], |[i]| a.at([&i]) + b.at([&i])).named("c");
    let mut s = create_schedule(std::slice::from_ref(&c.op));
    let [i] = s.stage(&c).axes().unwrap();
    let (_, inner) = s.stage(&c).split(&i, 4).unwrap();
    s.stage(&c).vectorize(&inner).unwrap();
    // One element for all of them, every element, every second one, reversed.
    let buffer = |tensor: &Tensor| {
        let node = Buffer::new(&tensor.name(), F32, tensor.shape.iter(), "global").to_node();
        let (stride, offset) = (Var::index("stride"), Var::index("offset"));
        let strides = [stride.expr().clone()].into_iter().collect();
        Buffer::from_node(BufferNode { strides, elem_offset: offset.into(), offset_factor: 1, ..node })
    };
    let (a_buffer, b_buffer) = (buffer(&a), buffer(&b));
    let args = [(&a, &a_buffer).into(), (&b, &b_buffer).into(), (&c).into(), (&n).into()];
    let func = lower_function(&s, &args, "f", &PassContext::default()).unwrap();
    verify(&func, Stage::Flat).unwrap();
    let machine = Machine::new(&func).unwrap();
    for (stride, offset) in [(0, 0), (1, 0), (2, 1), (-1, 6)] {
        let values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        let at = |index: i64| values[usize::try_from(index * stride + offset).unwrap()];
        let count = 3;
        let one = Block::from_f64(F32, &[7], &values).strided(&[count], &[stride], offset);
        let other = Block::from_f64(F32, &[3], &[100.0, 200.0, 300.0]);
        let result = Block::uninit(F32, &[3]);
        machine.run("f", &[(&one).into(), (&other).into(), (&result).into(), count.into()]).unwrap();
        let wanted: Vec<f64> = (0..count).map(|index| at(index) + 100.0 * (index + 1) as f64).collect();
        assert_eq!(result.to_f64().unwrap(), wanted, "stride {stride}");
    }
}

#[test]
fn arguments_that_do_not_fit() {
    let (n, m) = (size("n"), size("m"));
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let c = compute([&m], |[i]| b.at([&i]) + 1.0).named("c");
    let other = compute([&n], |[i]| i.cast(F32)).named("other");
    let s = create_schedule(std::slice::from_ref(&c.op));
    let problem = |args: &[Argument]| lower_function(&s, args, "f", &PassContext::default()).unwrap_err().to_string();
    let cases: [(&[Argument], &str); 5] = [
        (&[(&c).into()], "LowerError: input `a` is not an argument"),
        (&[(&a).into()], "LowerError: output `c` is not an argument"),
        (&[(&a).into(), (&b).into(), (&c).into()], "LowerError: argument `b` is neither an input nor an output"),
        (&[(&a).into(), (&other).into()], "LowerError: argument `other` is not a tensor of the schedule"),
        (&[(&a).into(), (&c).into(), (&n).into()], ""),
    ];
    for (args, wanted) in cases {
        if wanted.is_empty() {
            lower_function(&s, args, "f", &PassContext::default()).unwrap();
        } else {
            let problem = problem(args);
            assert!(problem.starts_with(wanted), "{problem}");
            assert!(problem.contains("tests/lower.rs:"), "{problem}");
        }
    }
    let half = compute((n.expr().ceil_div(2),), |[i]| i.cast(F32)).named("half");
    let s = create_schedule(std::slice::from_ref(&half.op));
    let problem = lower_function(&s, &[(&half).into()], "f", &PassContext::default()).unwrap_err().to_string();
    assert!(problem.starts_with("LowerError: `f`: no argument tells the size `n`"), "{problem}");
    let mut s = create_schedule(std::slice::from_ref(&half.op));
    let [i] = s.stage(&half).axes().unwrap();
    s.stage(&half).vectorize(&i).unwrap();
    let problem =
        lower_function(&s, &[(&half).into(), (&n).into()], "f", &PassContext::default()).unwrap_err().to_string();
    assert!(
        problem.starts_with(
            "LowerError: loop `i` of stage `half` cannot be vectorized: its extent floordiv(n + 1, 2) is not a constant"
        ),
        "{problem}"
    );
}

/// The lowered function of a schedule, simplified.
fn text_of(graph: &Graph, make: impl Fn(&mut Schedule) -> Result<()>) -> String {
    let func = graph.lowered(make).unwrap();
    simplify(&func, &PassContext::default()).unwrap().to_string()
}

#[test]
fn loops_of_a_region_with_a_window() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) * 3.0).named("b");
    let c = compute([n.expr() - 1], |[i]| b.at([&i]) + b.at([&i + 1])).named("c");
    let text = text_of(&Graph::new([&c], [&n]), |s| {
        let [i] = s.stage(&c).axes()?;
        let (outer, _) = s.stage(&c).split(&i, 8)?;
        s.stage(&b).compute_at(&c, &outer).map(|_| ())
    });
    expect![[r#"
        func f(a: f32[n], c: mut f32[n - 1], same n: size i64) {
          for i.outer in 0..floordiv(n + 6, 8) {
            alloc b: f32[9]
            for i in 0..9 {
              if likely(i.outer * 8 + i < n) {
                b[i] = a[i.outer * 8 + i] * 3.0
              }
            }
            for i.inner in 0..8 {
              if likely(i.outer * 8 + i.inner + 1 < n) {
                c[i.outer * 8 + i.inner] = b[i.inner] + b[i.inner + 1]
              }
            }
          }
        }
    "#]]
    .assert_eq(&text);
}

#[test]
fn splits_that_divide_have_no_guards() {
    let m = size("m");
    let extent = m.expr() * 16;
    let a = placeholder([&extent], F32, "a");
    let b = compute([&extent], |[i]| a.at([&i]) * 3.0).named("b");
    let text = text_of(&Graph::new([&b], [&m]), |s| {
        let [i] = s.stage(&b).axes()?;
        let (outer, inner) = s.stage(&b).split(&i, 8)?;
        let (x, y) = s.stage(&b).split(&inner, 4)?;
        let all = s.stage(&b).fuse_all(&[outer, x, y])?;
        s.stage(&b).split(&all, 2).map(|_| ())
    });
    expect![[r#"
        var m: size i64
        func f(a: f32[m * 16], b: mut f32[m * 16], same m: size i64) {
          for i.outer.i.inner.outer.fused.i.inner.inner.fused.outer in 0..m * 8 {
            for i.outer.i.inner.outer.fused.i.inner.inner.fused.inner in 0..2 {
              b[i.outer.i.inner.outer.fused.i.inner.inner.fused.outer * 2 + i.outer.i.inner.outer.fused.i.inner.inner.fused.inner] = a[i.outer.i.inner.outer.fused.i.inner.inner.fused.outer * 2 + i.outer.i.inner.outer.fused.i.inner.inner.fused.inner] * 3.0
            }
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn guards_stand_outside_of_what_they_do_not_depend_on() {
    let (m, n, l) = (size("m"), size("n"), size("l"));
    let (a, b) = (placeholder([&m, &l], F32, "a"), placeholder([&l, &n], F32, "b"));
    let k = reduce_axis(0, &l, "k");
    let c = compute([&m, &n], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let text = text_of(&Graph::new([&c], [&m, &n, &l]), |s| {
        let [i, j] = s.stage(&c).axes()?;
        let (_, _, ii, ji) = s.stage(&c).tile(&i, &j, 4, 8)?;
        s.stage(&c).reorder([&ii, &k, &ji])?.vectorize(&ji).map(|_| ())
    });
    expect![[r#"
        func f(a: f32[m, l], b: f32[l, n], c: mut f32[m, n], same m: size i64, same n: size i64, same l: size i64) {
          for i.outer in 0..floordiv(m + 3, 4) {
            for j.outer in 0..floordiv(n + 7, 8) {
              for i.inner in 0..4 {
                if likely(i.outer * 4 + i.inner < m) {
                  vectorized j.inner.init in 0..8 {
                    if likely(j.outer * 8 + j.inner.init < n) {
                      c[j.outer * 8 + (i.outer * 4 + i.inner) * n + j.inner.init] = 0.0
                    }
                  }
                  for k in 0..l {
                    vectorized j.inner in 0..8 {
                      if likely(j.outer * 8 + j.inner < n) {
                        c[j.outer * 8 + (i.outer * 4 + i.inner) * n + j.inner] = c[j.outer * 8 + (i.outer * 4 + i.inner) * n + j.inner] + a[(i.outer * 4 + i.inner) * l + k] * b[j.outer * 8 + k * n + j.inner]
                      }
                    }
                  }
                }
              }
            }
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn memory_of_regions_is_constant() {
    let (h, w) = (size("h"), size("w"));
    let x = placeholder([&h, &w], F32, "x");
    let padded = compute((h.expr() + 2, w.expr() + 2), |[i, j]| {
        let inside = i.greater_equal(1).and(i.less(h.expr() + 1)).and(j.greater_equal(1)).and(j.less(w.expr() + 1));
        Expr::if_then_else(inside, x.at((&i - 1, &j - 1)), 0.0)
    })
    .named("padded");
    let (r, s) = (reduce_axis(0, 3, "r"), reduce_axis(0, 3, "s"));
    let y = compute((h.expr().ceil_div(2), w.expr().ceil_div(2)), |[i, j]| {
        sum(padded.at((&i * 2 + &r, &j * 2 + &s)), [&r, &s])
    })
    .named("y");
    let text = text_of(&Graph::new([&y], [&h, &w]), |sch| {
        let [i, j] = sch.stage(&y).axes()?;
        let (_, jo, _, _) = sch.stage(&y).tile(&i, &j, 2, 3)?;
        sch.stage(&padded).compute_at(&y, &jo).map(|_| ())
    });
    expect![[r#"
        func f(x: f32[h, w], y: mut f32[floordiv(h + 1, 2), floordiv(w + 1, 2)], same h: size i64, same w: size i64) {
          for i.outer in 0..floordiv(h + 3, 4) {
            for j.outer in 0..floordiv(w + 5, 6) {
              alloc padded: f32[5, 7]
              for i in 0..5 {
                if likely(i.outer * 4 + i < h + 2) {
                  for j in 0..7 {
                    if likely(j.outer * 6 + j < w + 2) {
                      padded[i * 7 + j] = if_then_else(0 < i.outer * 4 + i && i.outer * 4 + i <= h && 0 < j.outer * 6 + j && j.outer * 6 + j <= w, x[j.outer * 6 + (i.outer * 4 + i - 1) * w + j - 1], 0.0)
                    }
                  }
                }
              }
              for i.inner in 0..2 {
                if likely(i.outer * 2 + i.inner < floordiv(h + 1, 2)) {
                  for j.inner in 0..3 {
                    if likely(j.outer * 3 + j.inner < floordiv(w + 1, 2)) {
                      y[j.outer * 3 + (i.outer * 2 + i.inner) * floordiv(w + 1, 2) + j.inner] = 0.0
                      for r in 0..3 {
                        for s in 0..3 {
                          y[j.outer * 3 + (i.outer * 2 + i.inner) * floordiv(w + 1, 2) + j.inner] = y[j.outer * 3 + (i.outer * 2 + i.inner) * floordiv(w + 1, 2) + j.inner] + padded[i.inner * 14 + r * 7 + j.inner * 2 + s]
                        }
                      }
                    }
                  }
                }
              }
            }
          }
        }
    "#]].assert_eq(&text);

    // Rows of a fused loop, and every second column of them.
    let b = compute((&h, 12), |[i, j]| x.at((&i, &j)) + 1.0).named("b");
    let c = compute((&h, 6), |[i, j]| b.at((&i, &j * 2))).named("c");
    let text = text_of(&Graph::new([&c], [&h, &w]), |s| {
        let [i, j] = s.stage(&c).axes()?;
        let fused = s.stage(&c).fuse(&i, &j)?;
        let (outer, _) = s.stage(&c).split(&fused, 8)?;
        s.stage(&b).compute_at(&c, &outer).map(|_| ())
    });
    expect![[r#"
        func f(x: f32[h, w], c: mut f32[h, 6], same h: size i64, same w: size i64) {
          for i.j.fused.outer in 0..floordiv(h * 3 + 3, 4) {
            alloc b: f32[3, 11]
            for i in 0..3 {
              if likely(i + floordiv(i.j.fused.outer * 4, 3) < h) {
                for j in 0..11 {
                  b[i * 11 + j] = x[(i + floordiv(i.j.fused.outer * 4, 3)) * w + j] + 1.0
                }
              }
            }
            for i.j.fused.inner in 0..8 {
              if likely(i.j.fused.outer * 8 + i.j.fused.inner < h * 6) {
                c[i.j.fused.outer * 8 + i.j.fused.inner] = b[floordiv(i.j.fused.outer * 8 + i.j.fused.inner, 6) * 11 + floormod(i.j.fused.outer * 8 + i.j.fused.inner, 6) * 2 - floordiv(i.j.fused.outer * 4, 3) * 11]
              }
            }
          }
        }
    "#]].assert_eq(&text);
}

/// The problem of a schedule from random decisions, with a description of the schedule; `None` if
/// there is none or the schedule was rejected.
fn random_problem(choices: &mut choices::Choices, to_the_end: bool) -> Option<String> {
    let mut random = fuzz::Random::graph(choices);
    if to_the_end {
        random.graph = random.graph.through_everything();
    }
    problem_of(&random, choices)
}

/// The problem of a schedule of a graph from random decisions.
fn problem_of(random: &fuzz::Random, choices: &choices::Choices) -> Option<String> {
    let decisions = std::cell::RefCell::new(choices.clone());
    let log = std::cell::RefCell::new(Vec::new());
    let sizes: Vec<Vec<i64>> = fuzz::SIZES.iter().map(|size| vec![*size]).collect();
    let result = random.graph.try_lists(&sizes, |s| {
        let words = random.schedule(s, &mut decisions.borrow_mut())?;
        *log.borrow_mut() = words;
        Ok(())
    });
    match result {
        Ok(()) => None,
        // Rejected, or with so much redundant computation that it takes too long.
        Err(problem) if problem.starts_with("schedule:") || problem.contains("the limit of") => None,
        // Threads that may need a barrier which not all of them reach: the opposite is not proven.
        Err(problem) if problem.starts_with("ThreadSync: LowerError") => None,
        // Private memory of a thread that other threads would have to read.
        Err(problem)
            if problem.starts_with("lowering: BoundError") && problem.contains(" is in local memory, and ") =>
        {
            None
        }
        Err(problem) => Some(format!("{}\n{}\n{problem}", random.words.join("\n"), log.borrow().join("\n"))),
    }
}

/// Schedules for device threads, run on an OpenCL device of this machine.
#[test]
fn random_schedules_on_opencl() {
    let Some(device) = opencl::device() else { return };
    // Not every schedule has threads around all stages.
    let launched = opencl::fuzz(0..48, device, 12);
    assert!(launched >= 12, "{launched} programs ran");
}

fn fuzz(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let choices = choices::Choices::of_seed(seed);
        let to_the_end = seed % 4 == 0;
        if let Some(problem) = random_problem(&mut choices.clone(), to_the_end) {
            let again = |numbers: &[u32]| random_problem(&mut choices::Choices::of(numbers), to_the_end);
            let (numbers, problem) = choices::shrunk(choices, problem, again);
            panic!("seed {seed}, shrunk to {numbers:?}:\n{problem}");
        }
    }
}

#[test]
fn random_schedules() {
    fuzz(0..100);
}

/// A long run: every schedule through all passes, and compiled if it is for the CPU.
///
/// Run it with `KERNPACK_FUZZ_SECONDS=900` in the environment:
/// `nice cargo test -p kernpack-compiler --test lower -- --ignored random --nocapture`.
/// Seeds start at the clock, or at `KERNPACK_FUZZ_SEEDS` (`5000` or `5000..6000`), until the time
/// is over. Failures are shrunk and printed immediately; the run ends after eight.
#[test]
#[ignore = "as long as KERNPACK_FUZZ_SECONDS says, a minute if it says nothing"]
fn random_schedules_for_long() {
    let number = |text: &str| text.parse::<u64>().expect("KERNPACK_FUZZ_SECONDS and KERNPACK_FUZZ_SEEDS are numbers");
    let of = |name: &str| std::env::var(name).ok();
    let seconds = of("KERNPACK_FUZZ_SECONDS").map_or(60, |text| number(&text));
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seeds = of("KERNPACK_FUZZ_SEEDS").unwrap_or_else(|| (clock * 1000).to_string());
    let (first, last) = match seeds.split_once("..") {
        Some((first, last)) => (number(first), number(last)),
        None => (number(&seeds), u64::MAX),
    };
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut found = 0;
    let mut seed = first;
    while seed < last && found < 8 && std::time::Instant::now() < end {
        let choices = choices::Choices::of_seed(seed);
        if let Some(problem) = random_problem(&mut choices.clone(), true) {
            let again = |numbers: &[u32]| random_problem(&mut choices::Choices::of(numbers), true);
            let (numbers, problem) = choices::shrunk(choices, problem, again);
            println!("seed {seed}, shrunk to {numbers:?}:\n{problem}\n");
            found += 1;
        }
        seed += 1;
    }
    println!("seeds {first}..{seed}: {found} problems");
    assert_eq!(found, 0, "see above");
}
