//! Copies in other memory and layouts, and two-step reductions.

use crate::graph::{Graph, SIZES, chain, leaves, matmul};
use kernpack_compiler::ir::{F32, I32, OperationNode, Tensor};
use kernpack_compiler::schedule::Schedule;
use kernpack_compiler::te::operation::input_tensors;
use kernpack_compiler::te::{self, compute, placeholder, reduce_axis, size, sum};

#[test]
fn cache_read_copies_for_the_readers_named() {
    let (graph, [a, b, c]) = chain();
    let d = compute([&b.shape.get(0).unwrap()], |[i]| b.at([&i]) - a.at([&i])).named("d");
    let graph = Graph::new(&[&c, &d], &[&a], &[&graph.sizes[0]]);
    graph.check(&SIZES, |s| {
        let copy = s.cache_read(&b, "local", [&c])?;
        assert_eq!(copy.name(), "b.local");
        let order: Vec<&str> = s.stages().map(|id| s[id].name()).collect();
        assert_eq!(order, ["a", "b", "b.local", "c", "d"]);
        let reads = |s: &Schedule, tensor: &Tensor| {
            let op = s[s.stage_of(&tensor.op).unwrap()].operation().clone();
            input_tensors(&op).iter().map(Tensor::name).collect::<Vec<_>>()
        };
        assert_eq!((reads(s, &c), reads(s, &d)), (vec!["b.local".to_owned()], vec!["b".to_owned(), "a".to_owned()]));
        let [i] = s.stage(&c).axes()?;
        let (outer, _) = s.stage(&c).split(&i, 4)?;
        s.stage(&copy).compute_at(&c, &outer)?;
        Ok(())
    });
    // An input, twice.
    graph.check(&SIZES, |s| {
        let one = s.cache_read(&a, "global", [&b, &d])?;
        let two = s.cache_read(&one, "local", [&d])?;
        assert_eq!(two.name(), "a.global.local");
        s.stage(&two).compute_inline()?;
        Ok(())
    });
}

#[test]
fn cache_write_computes_in_other_memory() {
    let (graph, c, k) = matmul(16, 8, 32);
    let nest = graph.check(&[&[]], |s| {
        let local = s.cache_write(&c, "local")?;
        assert_eq!(local.name(), "c.local");
        let [i, j] = s.stage(&c).axes()?;
        let (_, jo, _, ji) = s.stage(&c).tile(&i, &j, 4, 16)?;
        s.stage(&c).vectorize(&ji)?;
        s.stage(&local).compute_at(&c, &jo)?;
        let [i, j] = s.stage(&local).axes()?;
        let [r] = s.stage(&local).reduce_axes()?;
        assert!(r == k, "the axis of the reduction is the user's");
        s.stage(&local).reorder([&r, &i, &j])?.unroll(&i)?.vectorize(&j)?;
        Ok(())
    });
    assert!(nest.contains("unrolled i.c in 0..4"), "{nest}");
    assert!(nest.contains("update c.local in local memory"), "{nest}");
}

#[test]
fn cache_write_in_another_layout() {
    // The copy has the loops' order: j.outer, i, j.inner, with 17 columns in parts of 8.
    let (graph, c, k) = matmul(6, 5, 17);
    graph.check(&[&[]], |s| {
        let [i, j] = s.stage(&c).axes()?;
        let (jo, ji) = s.stage(&c).split(&j, 8)?;
        s.stage(&c).reorder([&jo, &i, &ji, &k])?;
        let packed = s.cache_write(&c, "global")?;
        let extents: Vec<Option<i64>> = packed.shape.iter().map(|extent| extent.as_int()).collect();
        assert_eq!(extents, [Some(3), Some(6), Some(8)]);
        assert_eq!(leaves(s, &c), ["i", "j"], "the loops of the copy begin anew");
        let error = s.stage(&c).unroll(&ji).unwrap_err().to_string();
        assert!(error.contains("it was computed by `c.global` since cache_write at "), "{error}");
        let [jo, ..] = s.stage(&packed).axes::<3>()?;
        s.stage(&packed).parallel(&jo)?;
        Ok(())
    });
    // Elements, fused.
    let a = placeholder([5, 7], F32, "a");
    let b = compute([5, 7], |[i, j]| a.at([&i, &j]) + 2.0).named("b");
    Graph::new(&[&b], &[&a], &[]).check(&[&[]], |s| {
        let [i, j] = s.stage(&b).axes()?;
        let fused = s.stage(&b).fuse(&i, &j)?;
        s.stage(&b).split(&fused, 4)?;
        let copy = s.cache_write(&b, "global")?;
        let extents: Vec<Option<i64>> = copy.shape.iter().map(|extent| extent.as_int()).collect();
        assert_eq!(extents, [Some(9), Some(4)]);
        Ok(())
    });
}

#[test]
fn cache_write_of_several_results() {
    let a = placeholder([6, 5], I32, "a");
    let k = reduce_axis(0, 5, "k");
    let [at, value] = compute([6], |[i]| te::argmin(k.cast(I32), a.at([&i, &k]), &k));
    Graph::new(&[&at, &value], &[&a], &[]).check(&[&[]], |s| {
        let cached = s.cache_write(&value, "local")?;
        assert_eq!((cached.value_index, cached.op.num_outputs()), (1, 2));
        let [i] = s.stage(&at).axes()?;
        s.stage(&cached).compute_at(&at, &i)?;
        Ok(())
    });
}

#[test]
fn rfactor_reduces_in_two_steps() {
    let n = size("n");
    let a = placeholder((3, &n), F32, "a");
    let k = reduce_axis(0, &n, "k");
    let rows = compute([3], |[i]| sum(a.at([&i, &k]), &k)).named("rows");
    let graph = Graph::new(&[&rows], &[&a], &[&n]);
    for (position, extents) in [(0, "outer first"), (-1, "last"), (1, "second")] {
        graph.check(&SIZES, |s| {
            let (_, inner) = s.stage(&rows).split(&k, 4)?;
            let rf = s.rfactor_at(&rows, &inner, position)?;
            assert_eq!(rf.name(), "rows.rf");
            let factored = usize::from(position != 0);
            assert_eq!(rf.shape.get(factored).unwrap().as_int(), Some(4), "{extents}");
            let [v] = s.stage(&rows).reduce_axes()?;
            assert_eq!(v.name(), "k.inner.v");
            let [outer] = s.stage(&rf).reduce_axes()?;
            let axes = s.stage(&rf).axes::<2>()?;
            s.stage(&rf).reorder([&outer, &axes[1 - factored], &axes[factored]])?.vectorize(&axes[factored])?;
            let [i] = s.stage(&rows).axes()?;
            s.stage(&rf).compute_at(&rows, &i)?;
            Ok(())
        });
    }
    graph.check(&SIZES, |s| {
        // The whole axis: nothing is left to reduce in the first step.
        let rf = s.rfactor(&rows, &k)?;
        assert!(matches!(&*s.stage(&rf).get()?.operation().clone(), OperationNode::Compute { reduce_axes, .. } if reduce_axes.is_empty()));
        Ok(())
    });
}

#[test]
fn rfactor_keeps_loops_over_dimensions_and_blocks_a_product() {
    let (graph, c, k) = matmul(12, 10, 16);
    let nest = graph.check(&[&[]], |s| {
        let [i, j] = s.stage(&c).axes()?;
        let (_, jo, ii, ji) = s.stage(&c).tile(&i, &j, 4, 8)?;
        let (ko, _) = s.stage(&c).split(&k, 4)?;
        s.stage(&c).reorder([&jo, &ko, &ii, &ji])?;
        let rf = s.rfactor(&c, &ko)?;
        assert_eq!(leaves(s, &c), ["i.outer", "j.outer", "k.outer.v", "i.inner", "j.inner"]);
        let [v] = s.stage(&c).reduce_axes()?;
        s.stage(&rf).compute_at(&c, &v)?.set_scope("local")?;
        Ok(())
    });
    assert!(nest.contains("update c.rf in local memory"), "{nest}");
    let (graph, c, k) = matmul(4, 10, 4);
    let error = {
        let s = &mut graph.schedule();
        let (ko, ki) = s.stage(&c).split(&k, 4).unwrap();
        s.rfactor(&c, &ki).unwrap();
        s.stage(&c).unroll(&ko).unwrap_err().to_string()
    };
    assert!(error.contains("it was taken into `c.rf` by rfactor at "), "{error}");
}

#[test]
fn rfactor_of_positions_and_with_what_it_begins_with() {
    let a = placeholder([11], I32, "a");
    let bias = placeholder([1], I32, "bias");
    let (k, l) = (reduce_axis(0, 11, "k"), reduce_axis(0, 11, "l"));
    let [at, value] = compute([1], |[_]| te::argmax(k.cast(I32), a.at([&k]), &k));
    Graph::new(&[&at, &value], &[&a], &[]).check(&[&[]], |s| {
        let (ko, _) = s.stage(&at).split(&k, 3)?;
        let rf = s.rfactor(&at, &ko)?;
        assert_eq!(rf.op.num_outputs(), 2);
        Ok(())
    });
    let begun = compute([1], |[i]| sum(a.at([&l]), &l).beginning_with(bias.at([&i])));
    Graph::new(&[&begun], &[&a, &bias], &[]).check(&[&[]], |s| {
        let (_, li) = s.stage(&begun).split(&l, 4)?;
        s.rfactor(&begun, &li)?;
        Ok(())
    });
}
