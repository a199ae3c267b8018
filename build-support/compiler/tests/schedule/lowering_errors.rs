//! Errors in scans and instructions, and errors that are detected when a schedule is lowered: the
//! stage, the axis, the user's line.

use kernpack_compiler::ir::{Buffer, Expr, F32, ForKind, Stmt, Tensor, Var};
use kernpack_compiler::pass::PassContext;
use kernpack_compiler::schedule::{
    Argument, Schedule, TensorIntrin, TensorIntrinNode, create_schedule, lower_function,
};
use kernpack_compiler::te::{compute, extern_op, placeholder, reduce_axis, scan, size, sum, thread_axis};
use kernpack_compiler::{CompileError, ErrorKind, Result};

#[track_caller]
fn assert_says(error: &CompileError, kind: ErrorKind, expected: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    for part in expected.split('|') {
        assert!(text.contains(part), "expected {part}\ngot {text}");
    }
    assert!(text.contains(&format!("\n  --> {}:", file!())), "the user's line is missing: {text}");
}

/// A recurrence: `state[t] = state[t - 1] + x[t]`.
struct Recurrence {
    s: Schedule,
    update: Tensor,
    steps: Tensor,
}

fn recurrence() -> Recurrence {
    let x = placeholder([8, 4], F32, "x");
    let state = placeholder([8, 4], F32, "state");
    let init = compute([1, 4], |[_, i]| x.at((0, &i))).named("init");
    let update = compute([8, 4], |[t, i]| state.at((&t - 1, &i)) + x.at([&t, &i])).named("update");
    let [steps] = scan([&init], [&update], [&state]);
    Recurrence { s: create_schedule([&steps]), update, steps }
}

#[test]
fn recurrences_keep_their_order() {
    type Wrong = fn(&mut Recurrence) -> CompileError;
    let rows: [(&str, Wrong); 8] = [
        ("parallel: `t` of stage `scan` cannot be made parallel\n|only dimensions are", |t| {
            let [time, ..] = t.s.stage(&t.steps).loops::<2>().unwrap();
            t.s.stage(&t.steps).parallel(&time).unwrap_err()
        }),
        ("reorder: `t` of stage `scan` is time", |t| {
            let [time, ..] = t.s.stage(&t.steps).loops::<2>().unwrap();
            t.s.stage(&t.steps).reorder([&time]).unwrap_err()
        }),
        ("bind: `t` of stage `scan` is neither a dimension nor an axis of a reduction", |t| {
            let [time, ..] = t.s.stage(&t.steps).loops::<2>().unwrap();
            t.s.stage(&t.steps).bind(&time, &thread_axis(None, "threadIdx.x")).unwrap_err()
        }),
        ("split: `s1` of stage `scan` is opaque", |t| {
            let [_, space] = t.s.stage(&t.steps).loops::<2>().unwrap();
            t.s.stage(&t.steps).split(&space, 2).unwrap_err()
        }),
        ("compute_at: `update` is what a scan updates itself with", |t| {
            let [time, ..] = t.s.stage(&t.steps).loops::<2>().unwrap();
            t.s.stage(&t.update).compute_at(&t.steps, &time).unwrap_err()
        }),
        ("compute_root: `update` is what a scan updates itself with", |t| {
            t.s.stage(&t.update).compute_root().unwrap_err()
        }),
        ("env_threads: `scan` has its threads already", |t| {
            let thread = thread_axis(Some(4), "threadIdx.x");
            t.s.stage(&t.steps).env_threads(&[thread]).unwrap();
            t.s.stage(&t.steps).env_threads(&[thread_axis(Some(4), "threadIdx.y")]).unwrap_err()
        }),
        ("env_threads: `t` is not a thread", |t| {
            let [time, ..] = t.s.stage(&t.steps).loops::<2>().unwrap();
            t.s.stage(&t.steps).env_threads(&[time]).unwrap_err()
        }),
    ];
    for (expected, wrong) in rows {
        assert_says(&wrong(&mut recurrence()), ErrorKind::Schedule, expected);
    }
}

/// An instruction that copies four elements.
fn copy_of_four() -> TensorIntrin {
    let a = placeholder([4], F32, "a");
    let b = compute([4], |[i]| a.at([&i])).named("b");
    let buffers = ["a", "b"].map(|name| Buffer::new(name, F32, [Expr::int(4)], "global"));
    let i = Var::index("i");
    let copy = Stmt::store(buffers[1].clone(), &i, Expr::load(&buffers[0], &i));
    TensorIntrin::from_node(TensorIntrinNode {
        name: "copy".into(),
        op: b.op.clone(),
        inputs: [a].into_iter().collect(),
        buffers: buffers.iter().cloned().collect(),
        body: Stmt::for_loop(i, 0, 4, ForKind::Serial, copy),
        reduce_init: None,
        reduce_update: None,
    })
}

#[test]
fn an_instruction_replaces_whole_loops() {
    let a = placeholder([8, 4], F32, "a");
    let b = compute([8, 4], |[i, j]| a.at([&i, &j])).named("b");
    let mut s = create_schedule([&b]);
    let [i, j] = s.stage(&b).axes().unwrap();
    s.stage(&b).vectorize(&j).unwrap();
    let error = s.stage(&b).tensorize(&i, &copy_of_four()).unwrap_err();
    assert_says(
        &error,
        ErrorKind::Schedule,
        "tensorize: `j` of stage `b` was vectorized at |it is inside the loop that the instruction replaces",
    );
    let error = s.stage(&b).tensorize(&j, &copy_of_four()).unwrap_err();
    assert_says(&error, ErrorKind::Schedule, "tensorize: `j` of stage `b` was vectorized at ");
    let mut s = create_schedule([&b]);
    s.stage(&b).tensorize(&j, &copy_of_four()).unwrap();
    let error = s.stage(&b).tensorize(&i, &copy_of_four()).unwrap_err();
    assert_says(
        &error,
        ErrorKind::Schedule,
        "tensorize: `j` of stage `b` was tensorized at |one loop of a stage is tensorized",
    );
}

/// The error when a wrong schedule is lowered: `b = a + 1`, `c = b * 2` over `n` elements.
fn lowered(make: impl FnOnce(&mut Schedule, &Tensor, &Tensor) -> Result<()>) -> CompileError {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let c = compute([&n], |[i]| b.at([&i]) * 2.0).named("c");
    let mut s = create_schedule([&c]);
    make(&mut s, &b, &c).unwrap();
    let args = [Argument::from(&a), Argument::from(&c)];
    lower_function(&s, &args, "f", &PassContext::default()).expect_err("the schedule is wrong")
}

#[test]
fn what_bounds_tell_is_an_error_with_the_line() {
    type Wrong = fn(&mut Schedule, &Tensor, &Tensor) -> Result<()>;
    let rows: [(ErrorKind, &str, Wrong); 8] = [
        (
            ErrorKind::Lower,
            "loop `i` of stage `c` cannot be vectorized: its extent n is not a constant\n|split the axis by a constant factor",
            |s, _, c| {
                let [i] = s.stage(c).axes()?;
                s.stage(c).vectorize(&i).map(drop)
            },
        ),
        (ErrorKind::Lower, "loop `i` of stage `c` cannot be unrolled: its extent n is not a constant", |s, _, c| {
            let [i] = s.stage(c).axes()?;
            s.stage(c).unroll(&i).map(drop)
        }),
        (ErrorKind::Lower, "loop `i` of stage `c` cannot be run as virtual threads: its extent n is no", |s, _, c| {
            let [i] = s.stage(c).axes()?;
            s.stage(c).bind(&i, &thread_axis(None, "vthread")).map(drop)
        }),
        (
            ErrorKind::Bound,
            "stage `b`: domain of `threadIdx.x` already inferred, cannot prove their extents are the same: |split by the thread's extent",
            |s, b, c| {
                let thread = thread_axis(None, "threadIdx.x");
                for (stage, factor) in [(c, 8), (b, 4)] {
                    let [i] = s.stage(stage).axes()?;
                    let (_, inner) = s.stage(stage).split(&i, factor)?;
                    s.stage(stage).bind(&inner, &thread)?;
                }
                Ok(())
            },
        ),
        (
            ErrorKind::Schedule,
            "double_buffer: `b` is not computed in a loop of another stage\n|say in which loop with `compute_at`",
            |s, b, _| s.stage(b).double_buffer().map(drop),
        ),
        (ErrorKind::Schedule, "double_buffer: `b` is inlined: it has no memory", |s, b, _| {
            s.stage(b).double_buffer()?.compute_inline().map(drop)
        }),
        (
            ErrorKind::Bound,
            "stage `b` is in local memory, and `c` reads it in `threadIdx.x`, outside of which it is computed",
            |s, b, c| {
                let [i] = s.stage(c).axes()?;
                let (outer, inner) = s.stage(c).split(&i, 8)?;
                s.stage(c).bind(&outer, &thread_axis(None, "blockIdx.x"))?;
                s.stage(c).bind(&inner, &thread_axis(None, "threadIdx.x"))?;
                s.stage(b).compute_at(c, &outer)?.set_scope("local").map(drop)
            },
        ),
        (ErrorKind::Schedule, "`i` of stage `b` is inside `i.outer` of stage `c`, and both are parallel", |s, b, c| {
            let [i] = s.stage(c).axes()?;
            let (outer, _) = s.stage(c).split(&i, 8)?;
            s.stage(c).parallel(&outer)?;
            let [i] = s.stage(b).axes()?;
            s.stage(b).compute_at(c, &outer)?.parallel(&i).map(drop)
        }),
    ];
    for (kind, expected, make) in rows {
        assert_says(&lowered(make), kind, expected);
    }
}

#[test]
fn known_extents_are_positive() {
    let a = placeholder([4, 0], F32, "a");
    let k = reduce_axis(0, 0, "k");
    let line = line!() + 1;
    let rows = compute([4], |[i]| sum(a.at([&i, &k]), &k)).named("rows");
    let none = compute([0, 4], |[_, j]| rows.at([&j])).named("none");
    let called = extern_op("called", [&none]).output([0], F32).call_packed("f");
    let error = lower_function(&create_schedule([&called[0]]), &[], "f", &PassContext::default()).err().unwrap();
    assert_eq!(error.problems().len(), 4, "{error}");
    assert_says(&error, ErrorKind::Type, "`a`: the extent of dimension 1 is 0, less than 1\n|`te::size`");
    assert_says(&error, ErrorKind::Type, "`rows`: the extent of axis `k` is 0, less than 1\n");
    assert_says(&error, ErrorKind::Type, "`none`: the extent of axis `i` is 0, less than 1\n");
    assert_says(&error, ErrorKind::Type, "`called`: the extent of dimension 0 of output 0 is 0, less than 1\n");
    assert!(error.to_string().contains(&format!("{}:{line}:", file!())), "{error}");
    // A negative extent is an error at its place.
    let below = compute([-1], |[i]| i.cast(F32)).named("below");
    let error = lower_function(&create_schedule([&below]), &[], "f", &PassContext::default()).err().unwrap();
    assert_says(&error, ErrorKind::Type, "dimension 0 is -1, less than 0");
}
