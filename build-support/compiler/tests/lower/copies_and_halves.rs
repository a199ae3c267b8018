//! Virtual threads and double buffers through the passes: the results stay the same, and neither is
//! left.

use kernpack_compiler::Result;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::visit::for_each_stmt;
use kernpack_compiler::ir::{Expr, F32, LoweredFunc, StmtNode, Tensor};
use kernpack_compiler::pass::inject_double_buffer::inject_double_buffer;
use kernpack_compiler::pass::inject_virtual_thread::inject_virtual_thread;
use kernpack_compiler::pass::{PassContext, PassOptions, pipeline};
use kernpack_compiler::schedule::{Schedule, create_schedule, lower_function};
use kernpack_compiler::te::{compute, placeholder, reduce_axis, size, sum, thread_axis};

use crate::AWKWARD;
use crate::check::Graph;

fn count(function: &LoweredFunc, is_wanted: impl Fn(&StmtNode) -> bool) -> usize {
    let mut found = 0;
    for_each_stmt(&function.body, |stmt| found += usize::from(is_wanted(stmt)));
    found
}

fn is_virtual(stmt: &StmtNode) -> bool {
    matches!(stmt, StmtNode::Attr { key, .. } if key.as_str() == "virtual_thread")
}

fn is_doubled(stmt: &StmtNode) -> bool {
    matches!(stmt, StmtNode::Alloc { annotations, .. } if annotations.get("double_buffer").is_some())
}

#[test]
fn virtual_threads_on_the_cpu() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let c = compute([&n], |[i]| {
        let next = &i + 1;
        b.at([&i]) * Expr::if_then_else(next.less(&n), b.at([&next]), 2.0)
    })
    .named("c");
    let graph = Graph::new([&c], [&n]).through_passes();
    let copies = |s: &mut Schedule, at: usize| -> Result<()> {
        let [i] = s.stage(&c).axes()?;
        let (outer, inner) = s.stage(&c).split(&i, 8)?;
        let (v, inner) = s.stage(&c).split(&inner, 4)?;
        s.stage(&c).bind(&v, &thread_axis(None, "vthread"))?;
        if let Some(place) = [&outer, &v, &inner].get(at) {
            s.stage(&b).compute_at(&c, place)?;
        }
        Ok(())
    };
    for at in 0..4 {
        graph.check_sizes(&format!("b at loop {at}"), &AWKWARD, |s| copies(s, at));
    }
    let function = graph.lowered(|s| copies(s, 1)).unwrap();
    assert_eq!(count(&function, is_virtual), 1);
    let after = inject_virtual_thread(&function, &PassContext::default()).unwrap();
    assert_eq!(count(&after, is_virtual), 0);
    // Nested ones, around a reduction.
    let k = reduce_axis(0, &n, "k");
    let d = compute([8, 6], |[i, j]| sum(a.at([&k]) * (i.cast(F32) - j.cast(F32)), &k)).named("d");
    let graph = Graph::new([&d], [&n]).through_passes();
    graph.check_sizes("nested", &AWKWARD, |s| {
        let [i, j] = s.stage(&d).axes()?;
        let (io, ii) = s.stage(&d).split(&i, 2)?;
        let (jo, ji) = s.stage(&d).split(&j, 4)?;
        s.stage(&d).reorder([&ii, &jo, &k, &io, &ji])?;
        s.stage(&d).bind(&ii, &thread_axis(None, "vthread"))?.bind(&jo, &thread_axis(None, "vthread.y"))?;
        Ok(())
    });
}

/// Found by `random_schedules_for_long`, seed 771124000043: the part of `b` that a copy needs
/// depends on the copy.
#[test]
fn virtual_threads_with_memory_of_different_sizes() {
    let n = size("n");
    let a = placeholder([&n + 9], F32, "a");
    let b = compute([&n + 9], |[i]| a.at([&i]) + 1.0).named("b");
    let c = compute((9, &n), |[i, j]| b.at([&i]) * b.at([&j])).named("c");
    Graph::new([&c], [&n]).through_passes().check_sizes("parts of b", &AWKWARD, |s| {
        let [_, j] = s.stage(&c).axes()?;
        let (outer, inner) = s.stage(&c).split_nparts(&j, 3)?;
        let (_, v) = s.stage(&c).split(&outer, 8)?;
        s.stage(&c).bind(&v, &thread_axis(None, "vthread"))?;
        s.stage(&b).compute_at(&c, &inner).map(|_| ())
    });
}

/// Doubles `b` in a loop of `c`, for each way to split the loop.
fn halves(graph: &Graph, b: &Tensor, c: &Tensor, factor: i64) {
    graph.check_sizes("double buffer", &AWKWARD, |s| {
        let [i] = s.stage(c).axes()?;
        let (outer, inner) = s.stage(c).split(&i, factor)?;
        s.stage(b).compute_at(c, &outer)?.double_buffer()?;
        if factor > 2 {
            s.stage(c).vectorize(&inner)?;
        }
        Ok(())
    });
}

#[test]
fn double_buffers() {
    let n = size("n");
    for extent in [n.expr().clone(), 8.into(), 9.into(), 3.into(), 33.into()] {
        let a = placeholder([&extent + 2], F32, "a");
        let b = compute([&extent + 1], |[i]| a.at([&i]) + a.at([&i + 1])).named("b");
        let c = compute([&extent], |[i]| b.at([&i]) * b.at([&i + 1])).named("c");
        let graph = Graph::new([&c], [&n]).through_passes();
        for factor in [1, 2, 4] {
            halves(&graph, &b, &c, factor);
        }
    }
}

#[test]
fn tiles_of_a_product_are_doubled() {
    let (m, n, l) = (size("m"), size("n"), size("l"));
    let (a, b) = (placeholder([&m, &l], F32, "a"), placeholder([&l, &n], F32, "b"));
    let k = reduce_axis(0, &l, "k");
    let c = compute([&m, &n], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let graph = Graph::new([&c], [&m, &n, &l]).through_passes();
    let sizes = [[0, 3, 2], [3, 2, 0], [1, 1, 1], [7, 9, 8], [4, 4, 16], [9, 5, 31]];
    let tiled = |s: &mut Schedule| -> Result<()> {
        let (ac, bc) = (s.cache_read(&a, "global", [&c])?, s.cache_read(&b, "global", [&c])?);
        let [i, j] = s.stage(&c).axes()?;
        let (_, jo, ii, ji) = s.stage(&c).tile(&i, &j, 4, 4)?;
        let (ko, ki) = s.stage(&c).split(&k, 4)?;
        s.stage(&c).reorder([&jo, &ko, &ki, &ii, &ji])?;
        for copy in [&ac, &bc] {
            s.stage(copy).compute_at(&c, &ko)?.double_buffer()?;
        }
        Ok(())
    };
    graph.check_all("both operands", &sizes, tiled);
    let function = graph.lowered(tiled).unwrap();
    for split in [0, 1, 2, 3] {
        let options = PassOptions { double_buffer_split_loop: split, ..PassOptions::default() };
        let context = PassContext::new(options);
        let after = inject_double_buffer(&function, &context).unwrap();
        assert_eq!(count(&after, is_doubled), 0);
        assert_eq!(context.take_warnings(), [] as [String; 0], "{after}");
        let halves = count(&after, |stmt| matches!(stmt, StmtNode::Alloc { buffer, .. } if buffer.shape.len() == 3));
        assert_eq!(halves, 2, "{after}");
        graph.check_function("split", &after, &sizes.map(Vec::from));
    }
}

#[test]
fn a_double_buffer_without_a_serial_loop_is_said() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let c = compute([&n], |[i]| b.at([&i]) * 2.0).named("c");
    let graph = Graph::new([&c], [&n]).through_passes();
    let parallel = |s: &mut Schedule| -> Result<()> {
        let [i] = s.stage(&c).axes()?;
        let (outer, _) = s.stage(&c).split(&i, 4)?;
        s.stage(&c).parallel(&outer)?;
        s.stage(&b).compute_at(&c, &outer)?.double_buffer().map(drop)
    };
    graph.check_sizes("parallel", &AWKWARD, parallel);
    let context = PassContext::default();
    inject_double_buffer(&graph.lowered(parallel).unwrap(), &context).unwrap();
    assert_eq!(context.take_warnings(), ["`b` is not double buffered: no serial loop is around it"]);
}

/// The result of the schedule compiled for this machine: `c[i] = b[i] * b[i + 1]` with
/// `b[i] = a[i] + a[i + 1]`.
fn compiled(count: usize, make: impl Fn(&mut Schedule, &Tensor, &Tensor) -> Result<()>) -> Vec<f32> {
    let n = size("n");
    let a = placeholder([n.expr() + 2], F32, "a");
    let b = compute([n.expr() + 1], |[i]| a.at([&i]) + a.at([&i + 1])).named("b");
    let c = compute([&n], |[i]| b.at([&i]) * b.at([&i + 1])).named("c");
    let mut s = create_schedule([&c]);
    make(&mut s, &b, &c).unwrap();
    let context = PassContext::default();
    let function = lower_function(&s, &[(&a).into(), (&c).into(), (&n).into()], "f", &context).unwrap();
    let passes = pipeline::of(&context);
    let lowered: LoweredFunc = pipeline::run(function, &passes, &context).unwrap().to().unwrap();
    let module = kernpack_compiler::build(&lowered, &Target::host()).unwrap();
    let values: Vec<f32> = (0..count + 2).map(|index| (index * 5 % 7) as f32).collect();
    let input = kernpack::Tensor::from_slice(&values, &[count as i64 + 2]).unwrap();
    let output = kernpack::Tensor::from_slice(&vec![0f32; count], &[count as i64]).unwrap();
    module.function("f").unwrap().call((&input, &output, count as i64)).unwrap();
    let sum = |at: usize| values[at] + values[at + 1];
    let found = output.view::<f32>().unwrap().to_vec();
    assert_eq!(found, (0..count).map(|at| sum(at) * sum(at + 1)).collect::<Vec<_>>());
    found
}

#[test]
fn compiled_code_has_copies_and_halves() {
    for count in [1, 2, 7, 8, 9, 31, 64, 100] {
        compiled(count, |s, b, c| {
            let [i] = s.stage(c).axes()?;
            let (outer, inner) = s.stage(c).split(&i, 8)?;
            let (v, inner) = s.stage(c).split(&inner, 4)?;
            s.stage(c).bind(&v, &thread_axis(None, "vthread"))?.vectorize(&inner)?;
            s.stage(b).compute_at(c, &outer)?.double_buffer().map(drop)
        });
        // Memory of each copy whose size is not known before, found by a run of random schedules.
        compiled(count, |s, b, c| {
            let [i] = s.stage(c).axes()?;
            let (v, _) = s.stage(c).split_nparts(&i, 2)?;
            s.stage(c).bind(&v, &thread_axis(None, "vthread"))?;
            s.stage(b).compute_at(c, &v).map(drop)
        });
        compiled(count, |s, b, c| {
            let [i] = s.stage(c).axes()?;
            let (outer, inner) = s.stage(c).split(&i, 16)?;
            let (middle, inner) = s.stage(c).split(&inner, 4)?;
            s.stage(c).parallel(&outer)?.vectorize(&inner)?;
            s.stage(b).compute_at(c, &middle)?.double_buffer().map(drop)
        });
    }
}
