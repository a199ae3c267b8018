//! Every error: the message, the line and the fix.

use crate::graph::{chain, leaves};
use kernpack_compiler::ir::{F32, IterVar, Tensor};
use kernpack_compiler::schedule::{Schedule, StageId, Tail, create_schedule};
use kernpack_compiler::te::{self, compute, placeholder, reduce_axis, sum, thread_axis};
use kernpack_compiler::{CompileError, ErrorKind};

type Wrong = fn(&mut Setting) -> CompileError;

/// A schedule for testing errors.
struct Setting {
    s: Schedule,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    d: Tensor,
    i: IterVar,
    j: IterVar,
    k: IterVar,
    group: Option<StageId>,
}

/// `b = a + 1`, `c = product of b and b`, `d = c - b`; `c` has the axes `i`, `j`, `k`.
fn setting() -> Setting {
    let a = placeholder([8, 8], F32, "a");
    let b = compute([8, 8], |[i, j]| a.at([&i, &j]) + 1.0).named("b");
    let k = reduce_axis(0, 8, "k");
    let c = compute([8, 8], |[i, j]| sum(b.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let d = compute([8, 8], |[i, j]| c.at([&i, &j]) - b.at([&i, &j])).named("d");
    let mut s = create_schedule([&d]);
    let [i, j] = s.stage(&c).axes().unwrap();
    Setting { s, a, b, c, d, i, j, k, group: None }
}

#[test]
fn errors_name_stage_axis_line_and_fix() {
    let rows: Vec<(&str, Wrong)> = vec![
        (
            "split: `i` of stage `c` is no longer a loop\n|it was split into `i.outer` and `i.inner` at |loops of `c` now: i.outer, i.inner, j, k",
            |t| {
                t.s.stage(&t.c).split(&t.i, 4).unwrap();
                t.s.stage(&t.c).split(&t.i, 2).unwrap_err()
            },
        ),
        ("unroll: `j` of stage `c` is no longer a loop\n|it was fused into `i.j.fused` at ", |t| {
            t.s.stage(&t.c).fuse(&t.i, &t.j).unwrap();
            t.s.stage(&t.c).unroll(&t.j).unwrap_err()
        }),
        ("split: `i` is not an axis of stage `b`\n|it is an axis of stage `c`", |t| {
            t.s.stage(&t.b).split(&t.i, 4).unwrap_err()
        }),
        ("split: the factor for `i` is 0\n|it is 1 or more", |t| t.s.stage(&t.c).split(&t.i, 0).unwrap_err()),
        ("split_nparts: the number of parts for `i` is -2", |t| t.s.stage(&t.c).split_nparts(&t.i, -2).unwrap_err()),
        ("split: the factor for `i` is of type f32\n|it is an integer", |t| {
            t.s.stage(&t.c).split(&t.i, 1.5).unwrap_err()
        }),
        ("split: `i` of stage `c` was vectorized at |apply `split` before that", |t| {
            t.s.stage(&t.c).vectorize(&t.i).unwrap();
            t.s.stage(&t.c).split(&t.i, 4).unwrap_err()
        }),
        ("split: `b` is computed at `i` of stage `c`\n|that was said at |apply `split` before `compute_at`", |t| {
            t.s.stage(&t.b).compute_root().unwrap();
            let mut s = create_schedule([&t.c]);
            s.stage(&t.b).compute_at(&t.c, &t.i).unwrap();
            s.stage(&t.c).split(&t.i, 4).unwrap_err()
        }),
        ("split_tail: `k` of stage `c` cannot be shifted inwards", |t| {
            t.s.stage(&t.c).split_tail(&t.k, 3, Tail::ShiftInwards).unwrap_err()
        }),
        ("split_tail: `i` of stage `c` cannot be shifted inwards", |t| {
            t.s.stage(&t.c).split_tail(&t.i, 3, Tail::ShiftInwards).unwrap_err()
        }),
        ("fuse: `i` and `k` of stage `c` are not adjacent\n|`reorder` makes loops adjacent", |t| {
            t.s.stage(&t.c).fuse(&t.i, &t.k).unwrap_err()
        }),
        ("fuse: `j` and `k` of stage `c` are of different kinds: a dimension and an axis of a reduction", |t| {
            t.s.stage(&t.c).fuse(&t.j, &t.k).unwrap_err()
        }),
        ("fuse: `i` is given twice", |t| t.s.stage(&t.c).fuse(&t.i, &t.i).unwrap_err()),
        ("tile: `i` is given twice", |t| t.s.stage(&t.c).tile(&t.i, &t.i, 2, 2).unwrap_err()),
        ("tile: the factor for `j` is 0", |t| {
            let error = t.s.stage(&t.c).tile(&t.i, &t.j, 2, 0).unwrap_err();
            assert_eq!(leaves(&t.s, &t.c), ["i", "j", "k"], "nothing is done");
            error
        }),
        ("fuse_all: `a` is not computed here\n|`a` has no loops", |t| t.s.stage(&t.a).fuse_all(&[]).unwrap_err()),
        ("reorder: `i` is given twice", |t| t.s.stage(&t.c).reorder([&t.i, &t.i]).unwrap_err()),
        (
            "parallel: `k` of stage `c` cannot be made parallel\n|threads would write the same element: `rfactor` it first",
            |t| t.s.stage(&t.c).parallel(&t.k).unwrap_err(),
        ),
        ("vectorize: `k` of stage `c` cannot be vectorized\n|`rfactor` it first", |t| {
            t.s.stage(&t.c).vectorize(&t.k).unwrap_err()
        }),
        ("parallel: `j` is in one nest with `i`, which is parallel already\n|fuse them", |t| {
            t.s.stage(&t.c).parallel(&t.i).unwrap();
            t.s.stage(&t.c).parallel(&t.j).unwrap_err()
        }),
        ("unroll: `i` of stage `c` was made parallel at ", |t| {
            t.s.stage(&t.c).parallel(&t.i).unwrap();
            t.s.stage(&t.c).unroll(&t.i).unwrap_err()
        }),
        ("bind: `j` is not a thread\n|make one with `thread_axis", |t| t.s.stage(&t.c).bind(&t.i, &t.j).unwrap_err()),
        ("bind: `i` of stage `c` has the thread `threadIdx.x` already", |t| {
            let thread = thread_axis(None, "threadIdx.x");
            t.s.stage(&t.c).bind(&t.i, &thread).unwrap();
            t.s.stage(&t.c).bind(&t.j, &thread).unwrap_err()
        }),
        ("bind: `i` of stage `c` was bound to threadIdx.x at ", |t| {
            t.s.stage(&t.c).bind(&t.i, &thread_axis(None, "threadIdx.x")).unwrap();
            t.s.stage(&t.c).bind(&t.i, &thread_axis(None, "threadIdx.y")).unwrap_err()
        }),
        ("env_threads: `c` is not a scan\n|bind loops to threads with `bind`", |t| {
            t.s.stage(&t.c).env_threads(&[]).unwrap_err()
        }),
        ("pragma: an empty key for `i`", |t| t.s.stage(&t.c).pragma(&t.i, "", 1).unwrap_err()),
        ("prefetch: stage `c` does not read `a`", |t| t.s.stage(&t.c).prefetch(&t.a, &t.k, 1).unwrap_err()),
        ("prefetch: the distance for `k` is not an integer", |t| {
            t.s.stage(&t.c).prefetch(&t.b, &t.k, 1.0).unwrap_err()
        }),
        ("compute_at: `d` is an output", |t| t.s.stage(&t.d).compute_at(&t.c, &t.i).unwrap_err()),
        ("compute_at: `b` inside a loop of its own", |t| t.s.stage(&t.b).compute_at(&t.b, &t.i).unwrap_err()),
        ("compute_at: `a` is an input: it is not computed", |t| t.s.stage(&t.a).compute_at(&t.c, &t.i).unwrap_err()),
        ("compute_at: `k` is not an axis of stage `d`\n|it is an axis of stage `c`", |t| {
            t.s.stage(&t.c).compute_at(&t.d, &t.k).unwrap_err()
        }),
        ("compute_at: `c` is computed in a loop of `b` itself", |t| {
            let [i, _] = t.s.stage(&t.b).axes().unwrap();
            t.s.stage(&t.c).compute_at(&t.b, &i).unwrap();
            t.s.stage(&t.b).compute_at(&t.c, &t.i).unwrap_err()
        }),
        ("compute_at: `b` and `d` are in different groups", |t| {
            t.group = Some(t.s.create_group(&[&t.c], &[&t.a], false).unwrap());
            let [i, _] = t.s.stage(&t.d).axes().unwrap();
            t.s.stage(&t.b).compute_at(&t.d, &i).unwrap_err()
        }),
        ("compute_inline: `c` is a reduction\n|with `compute_at`", |t| t.s.stage(&t.c).compute_inline().unwrap_err()),
        ("compute_inline: `d` is an output\n|only tensors that are read by others are inlined", |t| {
            t.s.stage(&t.d).compute_inline().unwrap_err()
        }),
        ("compute_inline: `a` is an input", |t| t.s.stage(&t.a).compute_inline().unwrap_err()),
        ("compute_inline: `b` is read by `f`, which is not computed by an expression", |t| {
            let f = te::extern_op("f", [&t.b]).output([1], F32).call_packed("f");
            create_schedule([&f[0]]).stage(&t.b).compute_inline().unwrap_err()
        }),
        ("set_scope: unknown scope `register`\n|there are global, shared, warp and local", |t| {
            t.s.stage(&t.b).set_scope("register").unwrap_err()
        }),
        ("set_scope: `d` is an argument of the function|`cache_write`", |t| {
            t.s.stage(&t.d).set_scope("local").unwrap_err()
        }),
        ("set_scope: a group has no memory of its own", |t| {
            let group = t.s.create_group(&[&t.c], &[&t.a], false).unwrap();
            t.s.stage(group).set_scope("local").unwrap_err()
        }),
        ("set_store_predicate: a condition of type i64", |t| t.s.stage(&t.b).set_store_predicate(1).unwrap_err()),
        ("storage_align: `k` is not a dimension of `c`", |t| t.s.stage(&t.c).storage_align(&t.k, 8, 0).unwrap_err()),
        ("storage_align: a stride of `i` that is a multiple of 0 plus 1", |t| {
            t.s.stage(&t.c).storage_align(&t.i, 0, 1).unwrap_err()
        }),
        ("double_buffer: `d` is an argument of the function", |t| t.s.stage(&t.d).double_buffer().unwrap_err()),
        ("double_buffer: `b` is inlined: it has no memory", |t| {
            t.s.stage(&t.b).compute_inline().unwrap();
            t.s.stage(&t.b).double_buffer().unwrap_err()
        }),
        ("bind: `k` of stage `c` is an axis of a reduction, and `vthread` is not a thread of its own", |t| {
            t.s.stage(&t.c).bind(&t.k, &thread_axis(Some(2), "vthread")).unwrap_err()
        }),
        ("bind: `i` of stage `c` was vectorized at ", |t| {
            t.s.stage(&t.c).vectorize(&t.i).unwrap();
            t.s.stage(&t.c).bind(&t.i, &thread_axis(None, "threadIdx.x")).unwrap_err()
        }),
        ("vectorize: `i` of stage `c` was bound to threadIdx.x at ", |t| {
            t.s.stage(&t.c).bind(&t.i, &thread_axis(None, "threadIdx.x")).unwrap();
            t.s.stage(&t.c).vectorize(&t.i).unwrap_err()
        }),
        ("set_store_predicate: a group stores nothing itself", |t| {
            let group = t.s.create_group(&[&t.c], &[&t.a], false).unwrap();
            t.s.stage(group).set_store_predicate(true).unwrap_err()
        }),
        ("storage_align: a stride of `i` that is a multiple of 8 plus -1", |t| {
            t.s.stage(&t.c).storage_align(&t.i, 8, -1).unwrap_err()
        }),
        ("storage_align: `d` is an argument of the function|`cache_write`", |t| {
            let [i, _] = t.s.stage(&t.d).axes().unwrap();
            t.s.stage(&t.d).storage_align(&i, 8, 0).unwrap_err()
        }),
        ("double_buffer: `a` is an argument of the function", |t| t.s.stage(&t.a).double_buffer().unwrap_err()),
        ("double_buffer: a group has no memory of its own", |t| {
            let group = t.s.create_group(&[&t.c], &[&t.a], false).unwrap();
            t.s.stage(group).double_buffer().unwrap_err()
        }),
        ("split: `i` of stage `c` was given a prefetch at ", |t| {
            t.s.stage(&t.c).prefetch(&t.b, &t.i, 1).unwrap();
            t.s.stage(&t.c).split(&t.i, 2).unwrap_err()
        }),
        ("rfactor: `i` of stage `b` is not an axis of a reduction", |t| {
            let [i, _] = t.s.stage(&t.b).axes().unwrap();
            t.s.rfactor(&t.b, &i).unwrap_err()
        }),
        ("cache_read: `a` is not computed by this schedule", |t| {
            let other = placeholder([8, 8], F32, "a");
            t.s.cache_read(&other, "local", [&t.b]).unwrap_err()
        }),
        ("cache_read: stage `c` does not read `a`", |t| t.s.cache_read(&t.a, "local", [&t.c]).unwrap_err()),
        ("cache_read: no stage to read the copy of `a`", |t| {
            t.s.cache_read(&t.a, "local", [] as [&Tensor; 0]).unwrap_err()
        }),
        ("cache_read: unknown scope ``", |t| t.s.cache_read(&t.a, "", [&t.b]).unwrap_err()),
        ("cache_write: `a` is not computed by an expression", |t| t.s.cache_write(&t.a, "local").unwrap_err()),
        ("cache_write: `k.outer` of stage `c` is not a loop over dimensions\n|only dimensions make a layout", |t| {
            t.s.stage(&t.c).split(&t.k, 4).unwrap();
            t.s.cache_write(&t.c, "local").unwrap_err()
        }),
        ("cache_write: `i` of stage `c` was unrolled at ", |t| {
            t.s.stage(&t.c).unroll(&t.i).unwrap();
            t.s.cache_write(&t.c, "local").unwrap_err()
        }),
        ("rfactor: `i` of stage `c` is not an axis of a reduction", |t| t.s.rfactor(&t.c, &t.i).unwrap_err()),
        ("rfactor: `k` of stage `c` was unrolled at ", |t| {
            t.s.stage(&t.c).unroll(&t.k).unwrap();
            t.s.rfactor(&t.c, &t.k).unwrap_err()
        }),
        ("rfactor_at: dimension 4 of `c.rf`, which has 3", |t| t.s.rfactor_at(&t.c, &t.k, 4).unwrap_err()),
        ("rfactor: `r` of stage `shifted` does not begin with 0\n|`split` it first", |t| {
            let r = reduce_axis(2, 4, "r");
            let shifted = compute([1], |[_]| sum(t.a.at([&r, &r]), &r)).named("shifted");
            create_schedule([&shifted]).rfactor(&shifted, &r).unwrap_err()
        }),
        ("create_group: no stage is between the outputs and the inputs", |t| {
            t.s.create_group(&[&t.b], &[&t.c], false).unwrap_err()
        }),
        ("create_group: `a` is an input of the schedule", |t| t.s.create_group(&[&t.c], &[&t.a], true).unwrap_err()),
        ("axes: `c` has 2 dimensions, not 3", |t| t.s.stage(&t.c).axes::<3>().unwrap_err()),
        ("reduce_axes: `d` has 0 axes of reduction, not 1", |t| t.s.stage(&t.d).reduce_axes::<1>().unwrap_err()),
        ("loops: `c` has 3 loops, not 2\n|loops of `c` now: i, j, k", |t| t.s.stage(&t.c).loops::<2>().unwrap_err()),
        ("split: `other` is not computed by this schedule\n|stages: `a`, `b`, `c`, `d`", |t| {
            let other = compute([4], |[i]| i.cast(F32)).named("other");
            t.s.stage(&other).split(&t.i, 4).unwrap_err()
        }),
    ];
    for (expected, wrong) in rows {
        let mut setting = setting();
        let error = wrong(&mut setting);
        assert_eq!(error.kind(), ErrorKind::Schedule, "{error}");
        let text = error.to_string();
        for part in expected.split('|') {
            assert!(text.contains(part), "expected {part}\ngot {text}");
        }
        assert!(text.contains(&format!("\n  --> {}:", file!())), "the user's line is missing: {text}");
    }
}

#[test]
fn the_line_is_that_of_the_primitive() {
    let mut t = setting();
    let split = line!() + 1;
    t.s.stage(&t.c).split(&t.i, 4).unwrap();
    let again = line!() + 1;
    let error = t.s.stage(&t.c).split(&t.i, 2).unwrap_err().to_string();
    assert!(error.contains(&format!("\n  --> {}:{again}:", file!())), "{error}");
    assert!(error.contains(&format!("at {}:{split}:", file!())), "{error}");
}

#[test]
fn parallel_loops_do_not_nest_through_other_stages() {
    let (graph, [_, b, c]) = chain();
    let s = &mut graph.schedule();
    let [i] = s.stage(&c).axes().unwrap();
    let (outer, _) = s.stage(&c).split(&i, 8).unwrap();
    s.stage(&c).parallel(&outer).unwrap();
    let [i] = s.stage(&b).axes().unwrap();
    s.stage(&b).compute_at(&c, &outer).unwrap().parallel(&i).unwrap();
    let error = s.normalize().err().unwrap().to_string();
    assert!(error.contains("`i` of stage `b` is inside `i.outer` of stage `c`, and both are parallel"), "{error}");
    assert_eq!(error.matches("was made parallel at ").count(), 2, "{error}");
}

#[test]
fn bound_errors_name_who_reads_outside_of_the_loop() {
    let t = &mut setting();
    t.s.stage(&t.b).compute_at(&t.c, &t.i).unwrap();
    let normal = t.s.normalize().unwrap();
    let error = kernpack_compiler::schedule::infer_bound(&normal).err().unwrap().to_string();
    assert!(error.contains("`b`") && error.contains("`d`"), "{error}");
    assert!(t.s.loop_nest().contains("no ranges: "), "{}", t.s.loop_nest());
}

#[test]
fn variables_without_a_value_are_the_users_mistake() {
    use kernpack_compiler::ir::Var;
    use kernpack_compiler::pass::PassContext;
    use kernpack_compiler::schedule::{Argument, lower_function};

    let a = placeholder([8, 8], F32, "a");
    let (k, by) = (reduce_axis(0, 8, "k"), Var::new("by", F32));
    let line = line!() + 1;
    let b = compute([8], |[i]| a.at([&i, &k]) * &by).named("b");
    let lower = |args: &[Argument]| lower_function(&create_schedule([&b]), args, "f", &PassContext::default());
    let error = lower(&[(&a).into(), (&b).into()]).err().unwrap();
    assert_eq!(error.problems().len(), 2, "{error}");
    let text = error.to_string();
    assert!(text.contains("TypeError: `b`: `k` has no value here"), "{text}");
    assert!(text.contains("`b`: `by` has no value here"), "{text}");
    assert!(text.contains(&format!("{}:{line}:", file!())) && text.contains("as in `sum(.., &k)`"), "{text}");
    let error = lower(&[(&a).into(), (&b).into(), (&by).into()]).err().unwrap();
    assert_eq!(error.problems().len(), 1, "{error}");
}
