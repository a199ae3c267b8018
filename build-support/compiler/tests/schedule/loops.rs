//! Loops: splits, fusions, orders, annotations.

use crate::graph::{Graph, SIZES, chain, leaves, matmul};
use kernpack_compiler::ir::{DataType, ExprNode, F32, I32, I64, OperationNode, Tensor};
use kernpack_compiler::schedule::{Annotation, Relation, Tail};
use kernpack_compiler::te::{self, compute, placeholder, reduce_axis, size, sum, thread_axis};

#[test]
fn stages_are_in_order_and_outputs_known() {
    let (graph, [a, b, c]) = chain();
    let s = graph.schedule();
    let order: Vec<&str> = s.stages().map(|id| s[id].name()).collect();
    assert_eq!(order, ["a", "b", "c"]);
    let id = |tensor: &Tensor| s.stage_of(&tensor.op).unwrap();
    assert!(s[id(&c)].is_output && !s[id(&b)].is_output && s[id(&a)].is_placeholder());
    assert_eq!(s.consumers(id(&b)), [id(&c)]);
    assert!(s[id(&a)].leaves.is_empty());
}

#[test]
fn split_tile_reorder_fuse() {
    let a = placeholder([32, 48], F32, "a");
    let b = compute([32, 48], |[i, j]| a.at([&i, &j]) * 3.0).named("b");
    let graph = Graph::new(&[&b], &[&a], &[]);
    graph.check(&[&[]], |s| {
        let [i, j] = s.stage(&b).axes()?;
        let (io, ii) = s.stage(&b).split(&i, 10)?;
        assert_eq!(leaves(s, &b), ["i.outer", "i.inner", "j"]);
        s.stage(&b).reorder([&j, &io])?;
        assert_eq!(leaves(s, &b), ["j", "i.inner", "i.outer"], "only the positions of those given are permuted");
        s.stage(&b).reorder([&io, &ii, &j])?;
        let (_, jn) = s.stage(&b).split_nparts(&j, 5)?;
        s.stage(&b).unroll(&jn)?;
        Ok(())
    });
    let nest = graph.check(&[&[]], |s| {
        let [i, j] = s.stage(&b).axes()?;
        let (_, _, ii, ji) = s.stage(&b).tile(&i, &j, 8, 16)?;
        assert_eq!(leaves(s, &b), ["i.outer", "j.outer", "i.inner", "j.inner"]);
        let fused = s.stage(&b).fuse(&ji, &ii)?;
        assert_eq!(fused.name(), "i.inner.j.inner.fused", "swapped into the loops' order");
        Ok(())
    });
    assert_eq!(
        nest,
        "for i.outer in 0..4\n  for j.outer in 0..3\n    for i.inner.j.inner.fused in 0..128\n      compute b\n"
    );
    graph.check(&[&[]], |s| {
        let [i, j] = s.stage(&b).axes()?;
        let all = s.stage(&b).fuse_all(&[i, j])?;
        let (outer, inner) = s.stage(&b).split(&all, 20)?;
        s.stage(&b).parallel(&outer)?.vectorize(&inner)?;
        Ok(())
    });
}

#[test]
fn splits_of_symbolic_and_odd_extents() {
    let (graph, [_, b, c]) = chain();
    for factor in [1, 2, 3, 8, 64] {
        graph.check(&SIZES, |s| {
            let [i] = s.stage(&c).axes()?;
            let (outer, inner) = s.stage(&c).split(&i, factor)?;
            let (_, _) = s.stage(&c).split(&inner, 4)?;
            s.stage(&b).compute_at(&c, &outer)?;
            Ok(())
        });
        graph.check(&SIZES, |s| {
            let [i] = s.stage(&c).axes()?;
            let (outer, _) = s.stage(&c).split_nparts(&i, factor)?;
            s.stage(&b).compute_at(&c, &outer)?;
            Ok(())
        });
        graph.check(&SIZES, |s| {
            let [i] = s.stage(&c).axes()?;
            s.stage(&c).split_tail(&i, factor, Tail::ShiftInwards)?;
            Ok(())
        });
    }
    let m = size("m");
    let a = placeholder([&m], F32, "a");
    let d = compute([&m], |[i]| a.at([&i]) - 1.0).named("d");
    Graph::new(&[&d], &[&a], &[&m]).check(&SIZES, |s| {
        let [i] = s.stage(&d).axes()?;
        s.stage(&d).split(&i, &m.expr().floor_div(2) + 1)?;
        Ok(())
    });
}

#[test]
fn tensors_without_dimensions_get_a_loop() {
    let a = placeholder([4], F32, "a");
    let r = reduce_axis(0, 4, "r");
    let total = compute([] as [i64; 0], |[]| sum(a.at([&r]), &r)).named("total");
    let nest = Graph::new(&[&total], &[&a], &[]).check(&[&[]], |s| {
        let one = s.stage(&total).fuse_all(&[])?;
        let stage = &s[s.stage_of(&total.op).unwrap()];
        assert_eq!(stage.leaves[0], one);
        assert!(matches!(stage.relations[0], Relation::Singleton { .. }));
        Ok(())
    });
    assert!(nest.starts_with("for singleton in 0..1\n"), "{nest}");
}

#[test]
fn annotations_are_kept_and_shown() {
    let (graph, c, k) = matmul(16, 8, 32);
    let nest = graph.check(&[&[]], |s| {
        let [i, j] = s.stage(&c).axes()?;
        let (io, jo, ii, ji) = s.stage(&c).tile(&i, &j, 4, 16)?;
        s.stage(&c).reorder([&io, &jo, &k, &ii, &ji])?;
        s.stage(&c).parallel(&io)?.unroll(&ii)?.vectorize(&ji)?.pragma(&jo, "auto_unroll_max_step", 16)?;
        let stage = s.stage(&c).get()?.clone();
        assert_eq!(stage.attr(&io).unwrap().annotation, Some(Annotation::Parallel));
        assert_eq!(stage.attr(&jo).unwrap().pragmas[0].0, "auto_unroll_max_step");
        Ok(())
    });
    let expected = "\
parallel i.outer in 0..4
  for j.outer in 0..2, auto_unroll_max_step = 16
    begin c over i.inner, j.inner
    for k in 0..8
      unrolled i.inner in 0..4
        vectorized j.inner in 0..16
          update c
";
    assert_eq!(nest, expected);
    let s = &mut graph.schedule();
    let [i, j] = s.stage(&c).axes().unwrap();
    s.stage(&c).pragma(&i, "unroll", 1).unwrap().pragma(&j, "vectorize", 1).unwrap();
    assert_eq!(s.stage(&c).get().unwrap().attr(&j).unwrap().annotation, Some(Annotation::Vectorized));
}

#[test]
fn threads_are_bound() {
    let (graph, [_, _, c]) = chain();
    let (block, thread) = (thread_axis(None, "blockIdx.x"), thread_axis(Some(4), "threadIdx.x"));
    let nest = graph.check(&SIZES, |s| {
        let [i] = s.stage(&c).axes()?;
        let (outer, inner) = s.stage(&c).split(&i, 4)?;
        s.stage(&c).bind(&outer, &block)?.bind(&inner, &thread)?;
        let b = s.stages().nth(1).unwrap();
        s.stage(b).compute_at(&c, &inner)?;
        Ok(())
    });
    assert!(nest.contains("threads i.inner in 0..4 (threadIdx.x)"), "{nest}");
}

#[test]
fn copies_of_schedules_are_independent() {
    let (graph, [_, _, c]) = chain();
    let mut one = graph.schedule();
    let [i] = one.stage(&c).axes().unwrap();
    let mut two = one.clone();
    one.stage(&c).split(&i, 4).unwrap();
    two.stage(&c).split(&i, 8).unwrap();
    assert_eq!(leaves(&one, &c), leaves(&two, &c));
    assert!(one.loop_nest().contains("in 0..4") && two.loop_nest().contains("in 0..8"));
}

#[test]
fn types_of_all_kinds_go_through_a_schedule() {
    let dtypes: [DataType; 2] = [I32, I64];
    for dtype in dtypes {
        let a = placeholder([9], dtype, "a");
        let b = compute([9], |[i]| te::select((a.at([&i]) % 2).equals(0), a.at([&i]), i.cast(dtype))).named("b");
        assert!(
            matches!(&*b.op, OperationNode::Compute { bodies, .. } if matches!(*bodies.get(0).unwrap(), ExprNode::Select { .. }))
        );
        Graph::new(&[&b], &[&a], &[]).check(&[&[]], |s| {
            let [i] = s.stage(&b).axes()?;
            s.stage(&b).split(&i, 4)?;
            Ok(())
        });
    }
}
