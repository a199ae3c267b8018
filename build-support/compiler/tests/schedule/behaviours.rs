//! Behaviors that the unit tests of TVM v0.5 require of tensor expressions and schedules, as our
//! own tests.

use kernpack_compiler::ir::{Expr, F32, I32};
use kernpack_compiler::te::{self, compute, extern_op, placeholder, reduce_axis, size, sum, thread_axis};

use crate::graph::{Graph, SIZES};

#[test]
fn a_window_over_a_row() {
    let n = size("n");
    let a = placeholder((n.expr() + 2,), F32, "a");
    let k = reduce_axis(0, 3, "k");
    let b = compute([&n], |[i]| sum(a.at((&i + &k,)), &k)).named("b");
    Graph::new(&[&b], &[&a], &[&n]).check(&SIZES, |s| {
        let [i] = s.stage(&b).axes()?;
        let (outer, _) = s.stage(&b).split(&i, 4)?;
        let copy = s.cache_read(&a, "local", [&b])?;
        s.stage(&copy).compute_at(&b, &outer)?;
        Ok(())
    });
}

#[test]
fn a_reduction_over_two_axes_and_one_of_a_part() {
    let a = placeholder([5, 7, 3], F32, "a");
    let (p, q) = (reduce_axis(1, 6, "p"), reduce_axis(0, 3, "q"));
    let b = compute([5], |[i]| sum(a.at([&i, &p, &q]), [&p, &q]).only_where(p.less(5).and(q.differs(1)))).named("b");
    let graph = Graph::new(&[&b], &[&a], &[]);
    graph.check(&[&[]], |s| {
        let (po, pi) = s.stage(&b).split(&p, 4)?;
        let fused = s.stage(&b).fuse(&pi, &q)?;
        s.stage(&b).reorder([&fused, &po])?;
        Ok(())
    });
    graph.check(&[&[]], |s| {
        let fused = s.stage(&b).fuse(&p, &q)?;
        let (_, inner) = s.stage(&b).split(&fused, 4)?;
        let rf = s.rfactor_at(&b, &inner, -1)?;
        let [i] = s.stage(&b).axes()?;
        s.stage(&rf).compute_at(&b, &i)?;
        Ok(())
    });
}

#[test]
fn one_of_two_results_is_read() {
    let (a, b) = (placeholder([6, 4], F32, "a"), placeholder([6, 4], F32, "b"));
    let [x, y] = compute([6, 4], |[i, j]| [a.at([&i, &j]) * 2.0, b.at([&i, &j]) * 3.0]);
    let c = compute([6, 4], |[i, j]| x.at([&i, &j]) + 4.0).named("c");
    let graph = Graph::new(&[&c], &[&a, &b], &[]);
    graph.check(&[&[]], |s| {
        let [i, _] = s.stage(&c).axes()?;
        s.stage(&x).compute_at(&c, &i)?;
        Ok(())
    });
    graph.check(&[&[]], |s| {
        s.stage(&y).compute_inline()?;
        Ok(())
    });
    // Both are results.
    Graph::new(&[&x, &y], &[&a, &b], &[]).check(&[&[]], |s| {
        let cached = s.cache_write(&y, "global")?;
        let [i, j] = s.stage(&x).axes()?;
        s.stage(&x).reorder([&j, &i])?;
        s.stage(&cached).compute_at(&x, &j)?;
        Ok(())
    });
}

#[test]
fn a_scan_over_two_states_that_read_each_other() {
    let m = size("m");
    let (x, y) = (placeholder([&m], F32, "x"), placeholder([&m, &m], F32, "y"));
    let (p, q) = (placeholder([&m], F32, "p"), placeholder([&m, &m], F32, "q"));
    let init_p = compute([1], |[i]| x.at([&i])).named("init_p");
    let init_q = compute((1, &m), |[_, j]| y.at((0, &j))).named("init_q");
    let next_p = compute([&m], |[t]| p.at((&t - 1,)) + x.at([&t]) + q.at((&t - 1, 0))).named("next_p");
    let next_q = compute([&m, &m], |[t, j]| q.at((&t - 1, &j)) - p.at((&t - 1,)) + y.at([&t, &j])).named("next_q");
    let [a, b] = te::scan([&init_p, &init_q], [&next_p, &next_q], [&p, &q]);
    Graph::new(&[&a, &b], &[&x, &y], &[&m]).check(&[&[1], &[2], &[5]], |s| {
        let [_, j] = s.stage(&next_q).axes()?;
        s.stage(&next_q).split(&j, 2)?;
        Ok(())
    });
}

#[test]
fn a_group_in_the_loop_of_a_scan() {
    // Two steps of work for each time, computed together in the scan's loop over columns.
    let (m, n) = (size("m"), size("n"));
    let x = placeholder([&m, &n], F32, "x");
    let state = placeholder([&m, &n], F32, "state");
    let init = compute((1, &n), |[_, i]| x.at((0, &i))).named("init");
    let one = compute([&m, &n], |[t, i]| state.at((&t - 1, &i)) + x.at([&t, &i])).named("one");
    let two = compute([&m, &n], |[t, i]| one.at([&t, &i]) * 2.0).named("two");
    let update = compute([&m, &n], |[t, i]| two.at([&t, &i]) - 1.0).named("update");
    let [result] = te::scan([&init], [&update], [&state]);
    Graph::new(&[&result], &[&x], &[&m, &n]).check(&[&[1, 1], &[3, 5], &[4, 8]], |s| {
        let group = s.create_group(&[&two], &[&state, &x], false)?;
        let [_, i] = s.stage(&update).axes()?;
        let (outer, _) = s.stage(&update).split(&i, 4)?;
        s.stage(group).compute_at(&update, &outer)?;
        let [_, i] = s.stage(&two).axes()?;
        s.stage(&one).compute_at(&two, &i)?;
        Ok(())
    });
}

#[test]
fn an_extern_operation_between_computed_tensors() {
    let n = size("n");
    let a = placeholder([&n], I32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1).named("b");
    let c = extern_op("reversed", [&b]).output([&n], I32).output([&n], I32).body(|inputs, outputs| {
        let i = kernpack_compiler::ir::Var::index("i");
        let back = inputs[0].read((n.expr() - 1 - &i,));
        let stores = [outputs[0].write([&i], &back), outputs[1].write([&i], back * 2)];
        let body = kernpack_compiler::ir::Stmt::seq(stores);
        kernpack_compiler::ir::Stmt::for_loop(i, 0, &n, kernpack_compiler::ir::ForKind::Serial, body)
    });
    let d = compute([&n], |[i]| c[0].at([&i]) * 100 + c[1].at([&i])).named("d");
    Graph::new(&[&d], &[&a], &[&n]).check(&SIZES, |s| {
        let [i] = s.stage(&d).axes()?;
        s.stage(&d).split(&i, 3)?;
        Ok(())
    });
}

#[test]
fn copies_of_copies_and_copies_in_the_middle() {
    let (m, n) = (size("m"), size("n"));
    let a = placeholder([&m, &n], F32, "a");
    let b = compute([&m, &n], |[i, j]| a.at([&i, &j]) * 2.0).named("b");
    let c = compute([&m, &n], |[i, j]| b.at([&i, &j]) + 1.0).named("c");
    let graph = Graph::new(&[&c], &[&a], &[&m, &n]);
    let sizes: [&[i64]; 5] = [&[1, 1], &[2, 9], &[5, 8], &[0, 3], &[7, 17]];
    graph.check(&sizes, |s| {
        let read = s.cache_read(&a, "global", [&b])?;
        let again = s.cache_read(&read, "local", [&b])?;
        let written = s.cache_write(&b, "local")?;
        let both = s.cache_read(&b, "local", [&c])?;
        let [i, j] = s.stage(&c).axes()?;
        let (io, jo, _, _) = s.stage(&c).tile(&i, &j, 2, 8)?;
        s.stage(&both).compute_at(&c, &jo)?;
        s.stage(&b).compute_at(&c, &io)?;
        let [bi, _] = s.stage(&b).axes()?;
        s.stage(&written).compute_at(&b, &bi)?;
        let [wi, _] = s.stage(&written).axes()?;
        s.stage(&again).compute_at(&written, &wi)?;
        Ok(())
    });
    // A copy of the result is computed inside the result's tiles, and reads an inlined tensor.
    graph.check(&sizes, |s| {
        s.stage(&b).compute_inline()?;
        let local = s.cache_write(&c, "local")?;
        let [i, j] = s.stage(&c).axes()?;
        let (_, jo, _, _) = s.stage(&c).tile(&i, &j, 4, 4)?;
        s.stage(&local).compute_at(&c, &jo)?;
        Ok(())
    });
}

#[test]
fn layouts_of_products() {
    let (a, b) = (placeholder([10, 6], F32, "a"), placeholder([6, 12], F32, "b"));
    let k = reduce_axis(0, 6, "k");
    let c = compute([10, 12], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let d = compute([10, 12], |[i, j]| c.at([&i, &j]) + 1.0).named("d");
    let graph = Graph::new(&[&d], &[&a, &b], &[]);
    // Panels of the product, of an intermediate result, with both dimensions split and fused.
    graph.check(&[&[]], |s| {
        let [i, j] = s.stage(&c).axes()?;
        let (io, jo, ii, ji) = s.stage(&c).tile(&i, &j, 4, 8)?;
        s.stage(&c).reorder([&jo, &io, &ii, &ji])?;
        let outer = s.stage(&c).fuse(&jo, &io)?;
        let packed = s.cache_write(&c, "global")?;
        assert_eq!(packed.shape.iter().map(|extent| extent.as_int()).collect::<Vec<_>>(), [Some(6), Some(4), Some(8)]);
        assert!(s.stage(&c).unroll(&outer).is_err(), "the loops of the copy begin anew");
        let [tile, _, _] = s.stage(&packed).axes()?;
        s.stage(&packed).parallel(&tile)?;
        let [row, _] = s.stage(&d).axes()?;
        s.stage(&c).compute_at(&d, &row)?;
        Ok(())
    });
    // A transposed copy of the right matrix, which is read in panels.
    graph.check(&[&[]], |s| {
        let copy = s.cache_read(&b, "global", [&c])?;
        let [kk, j] = s.stage(&copy).axes()?;
        let (jo, ji) = s.stage(&copy).split(&j, 8)?;
        s.stage(&copy).reorder([&jo, &kk, &ji])?;
        let panels = s.cache_write(&copy, "global")?;
        assert_eq!(panels.shape.iter().map(|extent| extent.as_int()).collect::<Vec<_>>(), [Some(2), Some(6), Some(8)]);
        s.stage(&copy).compute_inline()?;
        Ok(())
    });
}

#[test]
fn conditions_on_what_is_read_stay_inside() {
    // Reads one element before the start and one after the end, under a condition.
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let at = |index: Expr| te::if_then_else(index.greater_equal(0).and(index.less(&n)), b.at([&index]), 0.0);
    let c = compute([&n], |[i]| at(&i - 1) + at(i.expr()) + at(&i + 1)).named("c");
    Graph::new(&[&c], &[&a], &[&n]).check(&SIZES, |s| {
        let [i] = s.stage(&c).axes()?;
        let (outer, inner) = s.stage(&c).split(&i, 5)?;
        s.stage(&b).compute_at(&c, &outer)?;
        s.stage(&c).unroll(&inner)?;
        Ok(())
    });
}

#[test]
fn threads_share_what_is_read() {
    let a = placeholder([32], F32, "a");
    let b = compute([32], |[i]| a.at([&i]) * 2.0).named("b");
    let r = reduce_axis(0, 32, "r");
    let c = compute([32], |[i]| sum(b.at([&r]) * te::select(r.less_equal(&i), 1.0, 0.0), &r)).named("c");
    Graph::new(&[&c], &[&a], &[]).check(&[&[]], |s| {
        let (block, thread) = (thread_axis(None, "blockIdx.x"), thread_axis(Some(8), "threadIdx.x"));
        let [i] = s.stage(&c).axes()?;
        let (outer, inner) = s.stage(&c).split(&i, 8)?;
        s.stage(&c).bind(&outer, &block)?.bind(&inner, &thread)?;
        s.stage(&b).compute_at(&c, &inner)?;
        s.stage(&b).set_scope("local")?;
        Ok(())
    });
}
