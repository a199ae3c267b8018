//! Attachment and memory of stages; groups, scans, instructions.

use crate::graph::{Graph, SIZES, chain};
use kernpack_compiler::ir::{Buffer, F32, ForKind, I32, Stmt, Tensor, Var};
use kernpack_compiler::schedule::{Attach, Relation, TensorIntrin, create_schedule};
use kernpack_compiler::te::operation::input_tensors;
use kernpack_compiler::te::{self, compute, placeholder, reduce_axis, size, sum, thread_axis};
use kernpack_compiler::{ErrorKind, take_reported};

#[test]
fn stages_are_inlined_through_others() {
    let (graph, [a, b, c]) = chain();
    let d = compute([&c.shape.get(0).unwrap()], |[i]| c.at([&i]) + b.at([&i])).named("d");
    let graph = Graph::new(&[&d], &[&a], &[&graph.sizes[0]]);
    let nest = graph.check(&SIZES, |s| {
        s.stage(&b).compute_inline()?;
        s.stage(&c).compute_inline()?;
        Ok(())
    });
    assert!(nest.starts_with("inline b\ninline c\nfor i in 0..n\n  compute d\n"), "{nest}");
    let mut s = graph.schedule();
    s.stage(&b).compute_inline().unwrap();
    s.stage(&c).compute_inline().unwrap();
    let normal = s.normalize().unwrap();
    let id = normal.stage_of(&d.op).unwrap();
    let inputs = input_tensors(normal[id].operation());
    assert!(inputs.len() == 1 && inputs[0].is(&a), "only the input is read");
    assert!(matches!(normal[id].relations[0], Relation::Rebase { .. }));
    assert!(normal[normal.stage_of(&b.op).unwrap()].attach == Attach::Inlined);
    // The schedule itself is unchanged.
    assert!(s[s.stage_of(&d.op).unwrap()].relations.is_empty());
}

#[test]
fn inlining_into_the_results_of_one_reduction() {
    let a = placeholder([6, 5], I32, "a");
    let b = compute([6, 5], |[i, j]| a.at([&i, &j]) * 2).named("b");
    let k = reduce_axis(0, 5, "k");
    let [at, value] = compute([6], |[i]| te::argmax(k.cast(I32), b.at([&i, &k]), &k));
    Graph::new(&[&at, &value], &[&a], &[]).check(&[&[]], |s| {
        s.stage(&b).compute_inline()?;
        let [k] = s.stage(&at).reduce_axes()?;
        s.stage(&at).split(&k, 2)?;
        Ok(())
    });
}

#[test]
fn groups_are_computed_together() {
    let (graph, [a, b, c]) = chain();
    let d = compute([&a.shape.get(0).unwrap()], |[i]| c.at([&i]) + 5.0).named("d");
    let graph = Graph::new(&[&d], &[&a], &[&graph.sizes[0]]);
    graph.check(&SIZES, |s| {
        let group = s.create_group(&[&c], &[&a], false)?;
        let ids = [&b, &c].map(|tensor| s.stage_of(&tensor.op).unwrap());
        assert!(ids.iter().all(|&id| s[id].group == Some(group)));
        assert_eq!((s[group].num_children, s.groups()), (2, &[group][..]));
        let [i] = s.stage(&d).axes()?;
        let (outer, _) = s.stage(&d).split(&i, 3)?;
        s.stage(group).compute_at(&d, &outer)?;
        Ok(())
    });
}

#[test]
fn groups_nest_and_do_not_cross() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let make = |from: &Tensor, name: &str| compute([&n], |[i]| from.at([&i]) + 1.0).named(name);
    let b = make(&a, "b");
    let c = make(&b, "c");
    let d = make(&c, "d");
    let e = make(&d, "e");
    let s = &mut create_schedule([&e]);
    let inner = s.create_group(&[&c], &[&a], false).unwrap();
    let outer = s.create_group(&[&d], &[&a], false).unwrap();
    assert_eq!(s[inner].group, Some(outer), "all of the inner group is in the outer one");
    assert_eq!(s[s.stage_of(&d.op).unwrap()].group, Some(outer));
    assert_eq!(s[outer].num_children, 2);
    let single = s.create_group(&[&c], &[&b], false).unwrap();
    assert_eq!((s[single].group, s[inner].num_children), (Some(inner), 2), "a group inside a group");
    let crossing = s.create_group(&[&e], &[&c], false).unwrap_err();
    assert_eq!(crossing.kind(), ErrorKind::Schedule);
    assert!(crossing.what().contains("are in different groups"), "{crossing}");
    let with_input = s.create_group(&[&e], &[&e], true).unwrap();
    assert_eq!(s[s.stage_of(&e.op).unwrap()].group, Some(with_input));
}

#[test]
fn scans_and_what_they_update_themselves_with() {
    let (m, n) = (size("m"), size("n"));
    let x = placeholder([&m, &n], F32, "x");
    let state = placeholder([&m, &n], F32, "state");
    let init = compute((1, &n), |[_, i]| x.at((0, &i))).named("init");
    let doubled = compute([&m, &n], |[t, i]| state.at((&t - 1, &i)) * 2.0).named("doubled");
    let update = compute([&m, &n], |[t, i]| doubled.at([&t, &i]) + x.at([&t, &i])).named("update");
    let [result] = te::scan([&init], [&update], [&state]);
    let graph = Graph::new(&[&result], &[&x], &[&m, &n]);
    graph.check(&[&[1, 3], &[4, 5], &[3, 0]], |s| {
        let id = s.stage_of(&update.op).unwrap();
        assert!(matches!(s[id].attach, Attach::ScanUpdate { .. }));
        let [_, i] = s.stage(&update).axes()?;
        s.stage(&doubled).compute_at(&update, &i)?;
        let error = s.stage(&update).compute_root().unwrap_err();
        assert_eq!(error.what(), "compute_root: `update` is what a scan updates itself with");
        Ok(())
    });
    let s = &mut graph.schedule();
    let thread = thread_axis(Some(32), "threadIdx.x");
    s.stage(&result).env_threads(std::slice::from_ref(&thread)).unwrap();
    let again = s.stage(&result).env_threads(&[thread]).unwrap_err();
    assert_eq!(again.what(), "env_threads: `scan` has its threads already");
}

#[test]
fn memory_as_asked_for() {
    let a = placeholder([8, 8], F32, "a");
    let b = compute([8, 8], |[i, j]| a.at([&i, &j]) + 1.0).named("b");
    let c = compute([8, 8], |[i, j]| b.at([&j, &i]) * 2.0).named("c");
    Graph::new(&[&c], &[&a], &[]).check(&[&[]], |s| {
        let [i, _] = s.stage(&b).axes()?;
        s.stage(&b).storage_align(&i, 16, 3)?;
        let [i, j] = s.stage(&c).axes()?;
        s.stage(&c).prefetch(&b, &j, 1)?;
        s.stage(&b).compute_at(&c, &i)?.double_buffer()?.set_scope("global")?;
        let stage = s.stage(&b).get()?.clone();
        assert!(stage.double_buffer && stage.scope == "global");
        Ok(())
    });
}

/// `c[i] = sum over k of a[i, k] * b[k]` of `rows` by `columns` as an instruction.
fn gemv_instruction(rows: i64, columns: i64) -> TensorIntrin {
    let (a, b) = (placeholder([rows, columns], F32, "a"), placeholder([columns], F32, "b"));
    let k = reduce_axis(0, columns, "k");
    let c = compute([rows], |[i]| sum(a.at([&i, &k]) * b.at([&k]), &k)).named("c");
    let over = |var: &Var, extent: i64, body: Stmt| Stmt::for_loop(var.clone(), 0, extent, ForKind::Serial, body);
    let zero = move |outputs: &[Buffer]| {
        let i = Var::index("i");
        over(&i, rows, outputs[0].write([&i], 0.0))
    };
    let add = move |inputs: &[Buffer], outputs: &[Buffer]| {
        let (i, k) = (Var::index("i"), Var::index("k"));
        let sum = outputs[0].read([&i]) + inputs[0].read([&i, &k]) * inputs[1].read([&k]);
        over(&i, rows, over(&k, columns, outputs[0].write([&i], sum)))
    };
    TensorIntrin::declare("gemv", &c, |inputs, outputs| Stmt::seq([zero(outputs), add(inputs, outputs)]))
        .with_update(zero, add)
}

#[test]
fn instructions_in_place_of_loops() {
    let (m, n) = (size("m"), size("n"));
    let extents = [m.expr() * 4, n.expr() * 3];
    let (a, b) = (placeholder([&extents[0], &extents[1]], F32, "a"), placeholder([&extents[1]], F32, "b"));
    let k = reduce_axis(0, &extents[1], "k");
    let c = compute([&extents[0]], |[i]| sum(a.at([&i, &k]) * b.at([&k]), &k)).named("c");
    let graph = Graph::new(&[&c], &[&a, &b], &[&m, &n]);
    let nest = graph.check(&[&[1, 1], &[2, 3], &[3, 0], &[0, 2]], |s| {
        let [i] = s.stage(&c).axes()?;
        let (io, ii) = s.stage(&c).split(&i, 4)?;
        let (ko, ki) = s.stage(&c).split(&k, 3)?;
        s.stage(&c).reorder([&io, &ko, &ii, &ki])?.tensorize(&ii, &gemv_instruction(4, 3))?;
        Ok(())
    });
    assert!(nest.contains("tensorized i.inner in 0..4"), "{nest}");

    let s = &mut graph.schedule();
    let [i] = s.stage(&c).axes().unwrap();
    let (_, ii) = s.stage(&c).split(&i, 4).unwrap();
    let (_, ki) = s.stage(&c).split(&k, 3).unwrap();
    s.stage(&c).tensorize(&ki, &gemv_instruction(4, 3)).unwrap();
    let second = s.stage(&c).tensorize(&ii, &gemv_instruction(4, 3)).unwrap_err().to_string();
    assert!(second.contains("tensorize: `k.inner` of stage `c` was tensorized at "), "{second}");
    assert!(second.contains("one loop of a stage is tensorized, with all loops inside"), "{second}");
    let split = s.stage(&c).split(&ki, 2).unwrap_err().to_string();
    assert!(split.contains("split: `k.inner` of stage `c` was tensorized at "), "{split}");
    let mut s = graph.schedule();
    let (_, ki) = s.stage(&c).split(&k, 3).unwrap();
    s.stage(&c).unroll(&ki).unwrap();
    let inside = s.stage(&c).tensorize(&i, &gemv_instruction(4, 3)).unwrap_err().to_string();
    assert!(inside.contains("it is inside the loop that the instruction replaces"), "{inside}");

    let buffer = Buffer::new("x", F32, [4.into(), 4.into()], "global");
    drop((buffer.read([1]), buffer.write([1, 1], k.expr())));
    let error = take_reported().unwrap_err().to_string();
    assert!(error.contains("buffer `x` has 2 dimensions, got 1 index"), "{error}");
    assert!(error.contains("`x` has elements of type f32, got i64"), "{error}");
}

#[test]
fn long_chains_are_inlined_in_one_pass() {
    let a = placeholder([4], F32, "a");
    let mut stages = vec![a.clone()];
    for _ in 0..300 {
        let before = stages.last().unwrap().clone();
        stages.push(compute([4], |[i]| before.at([&i]) + 1.0));
    }
    let last = stages.last().unwrap();
    let started = std::time::Instant::now();
    Graph::new(&[last], &[&a], &[]).check(&[&[]], |s| {
        for stage in &stages[1..300] {
            s.stage(stage).compute_inline()?;
        }
        Ok(())
    });
    // One second in a debug build on an idle machine; with a pass for each stage it took hours.
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
