//! Schedules for device threads, lowered to kernels and run by the interpreter, which finds races
//! and barriers that are not reached.

use kernpack::Any;
use kernpack_compiler::Result;
use kernpack_compiler::ir::verify::{Stage, verify_module};
use kernpack_compiler::ir::visit::{for_each_expr_in, for_each_stmt};
use kernpack_compiler::ir::{CallKind, ExprNode, F32, FuncKind, IrModule, LoweredFunc, Stmt, StmtNode, Tensor};
use kernpack_compiler::pass::pipeline::{DEVICE, run};
use kernpack_compiler::pass::{PassContext, PassOptions};
use kernpack_compiler::schedule::Schedule;
use kernpack_compiler::te::{argmax, compute, placeholder, reduce_axis, reduce_max, size, sum, thread_axis};

use crate::check::Graph;

/// The module that the device passes produce from a schedule, optionally without one of them.
fn kernels(
    graph: &Graph,
    without: &str,
    context: &PassContext,
    make: impl Fn(&mut Schedule) -> Result<()>,
) -> Result<IrModule> {
    let function = graph.lowered(make)?;
    let passes = DEVICE.iter().filter(|name| **name != without).map(|name| Any::from(*name)).collect();
    let program = run(function, &passes, context)?;
    let module = match program.to::<LoweredFunc>() {
        Ok(function) => IrModule::new([function]),
        Err(_) => program.to()?,
    };
    verify_module(&module, Stage::Vectorized)?;
    Ok(module)
}

fn calls(stmt: &Stmt, wanted: &str) -> usize {
    let mut found = 0;
    for_each_expr_in(stmt, |expr| {
        found += usize::from(matches!(&**expr, ExprNode::Call { name, .. } if name.as_str() == wanted));
    });
    found
}

fn barriers(module: &IrModule) -> usize {
    module.functions.iter().map(|function| calls(&function.body, "storage_sync")).sum()
}

/// Checks that no threads are left on the host, and no reductions across threads, and that every
/// launch has its kernel.
fn assert_split(module: &IrModule) {
    let mut launches = 0;
    for function in module.functions.iter() {
        for_each_stmt(&function.body, |stmt| {
            let threads = matches!(&**stmt, StmtNode::Attr { key, .. }
                if matches!(key.as_str(), "thread_extent" | "virtual_thread" | "reduce_scope"));
            assert!(!threads, "{function}");
        });
        assert_eq!(calls(&function.body, "thread_allreduce"), 0);
        for_each_expr_in(&function.body, |expr| {
            if let ExprNode::Call { kind: CallKind::Packed, name, args, .. } = &**expr {
                let kernel = module.functions.iter().find(|function| function.name == *name).expect("a kernel");
                assert_eq!(args.len(), kernel.params.len() + kernel.thread_axes.len());
                launches += 1;
            }
        });
    }
    let kernels = module.functions.iter().filter(|function| function.kind == FuncKind::Device).count();
    assert!(kernels > 0 && kernels == launches, "{kernels} kernels, {launches} launches");
}

/// `c[i] = b[i] + b[n - 1 - i] ` in blocks of 8: each thread reads an element that another one
/// computed in shared memory.
fn mirrored() -> (Graph, Tensor, Tensor) {
    let n = size("n");
    let a = placeholder([n.expr() * 8], F32, "a");
    let b = compute([n.expr() * 8], |[i]| a.at([&i]) * 2.0).named("b");
    let c = compute([n.expr() * 8], |[i]| {
        let row = i.floor_div(8) * 8;
        b.at([&i]) + b.at([row + 7 - i.floor_mod(8)])
    })
    .named("c");
    (Graph::new([&c], [&n]), b, c)
}

fn shared(s: &mut Schedule, b: &Tensor, c: &Tensor) -> Result<()> {
    let (block, thread) = (thread_axis(None, "blockIdx.x"), thread_axis(Some(8), "threadIdx.x"));
    let [i] = s.stage(c).axes()?;
    let (outer, inner) = s.stage(c).split(&i, 8)?;
    s.stage(c).bind(&outer, &block)?.bind(&inner, &thread)?;
    s.stage(b).compute_at(c, &outer)?.set_scope("shared")?;
    let [i] = s.stage(b).axes()?;
    s.stage(b).bind(&i, &thread).map(drop)
}

#[test]
fn shared_memory_has_barriers() {
    let (graph, b, c) = mirrored();
    let sizes = [vec![0], vec![1], vec![3]];
    let module = kernels(&graph, "", &PassContext::default(), |s| shared(s, &b, &c)).unwrap();
    assert_split(&module);
    assert_eq!(barriers(&module), 1);
    graph.check_module("with barriers", &module, &sizes).unwrap();
    let module = kernels(&graph, "ThreadSync", &PassContext::default(), |s| shared(s, &b, &c)).unwrap();
    let problem = graph.check_module("without", &module, &sizes).unwrap_err();
    assert!(problem.contains("is there a barrier between?") || problem.contains("without a barrier"), "{problem}");
}

#[test]
fn elements_of_one_thread_have_no_barriers() {
    let n = size("n");
    let a = placeholder([n.expr() * 8], F32, "a");
    let b = compute([n.expr() * 8], |[i]| a.at([&i]) * 2.0).named("b");
    let c = compute([n.expr() * 8], |[i]| b.at([&i]) + 1.0).named("c");
    let graph = Graph::new([&c], [&n]);
    let module = kernels(&graph, "", &PassContext::default(), |s| shared(s, &b, &c)).unwrap();
    assert_eq!(barriers(&module), 0, "{module}");
    graph.check_module("own elements", &module, &[vec![2]]).unwrap();
}

/// A product in blocks of 8 by 8, with 4 by 4 threads of 2 by 2 elements each and operands in
/// shared memory; optionally with virtual threads and double buffers.
fn product(copies: bool, doubled: bool) -> (Graph, impl Fn(&mut Schedule) -> Result<()>) {
    let (m, n, l) = (size("m"), size("n"), size("l"));
    let (a, b) = (placeholder([&m, &l], F32, "a"), placeholder([&l, &n], F32, "b"));
    let k = reduce_axis(0, &l, "k");
    let c = compute([&m, &n], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let graph = Graph::new([&c], [&m, &n, &l]);
    let make = move |s: &mut Schedule| -> Result<()> {
        let cl = s.cache_write(&c, "local")?;
        let (ashared, bshared) = (s.cache_read(&a, "shared", [&cl])?, s.cache_read(&b, "shared", [&cl])?);
        let blocks = [thread_axis(None, "blockIdx.y"), thread_axis(None, "blockIdx.x")];
        let threads = [thread_axis(Some(4), "threadIdx.y"), thread_axis(Some(4), "threadIdx.x")];
        let virtuals = [thread_axis(Some(2), "vthread.y"), thread_axis(Some(2), "vthread.x")];
        let [i, j] = s.stage(&c).axes()?;
        let (io, jo, ii, ji) = s.stage(&c).tile(&i, &j, 8, 8)?;
        let (inner, last) = if copies {
            let (iv, ii) = s.stage(&c).split(&ii, 4)?;
            let (jv, ji) = s.stage(&c).split(&ji, 4)?;
            s.stage(&c).reorder([&io, &jo, &iv, &jv, &ii, &ji])?;
            s.stage(&c).bind(&iv, &virtuals[0])?.bind(&jv, &virtuals[1])?;
            (ii, ji)
        } else {
            let (it, ii) = s.stage(&c).split(&ii, 2)?;
            let (jt, ji) = s.stage(&c).split(&ji, 2)?;
            s.stage(&c).reorder([&io, &jo, &it, &jt, &ii, &ji])?;
            (it, jt)
        };
        s.stage(&c).bind(&io, &blocks[0])?.bind(&jo, &blocks[1])?;
        s.stage(&c).bind(&inner, &threads[0])?.bind(&last, &threads[1])?;
        s.stage(&cl).compute_at(&c, &last)?;
        let [r] = s.stage(&cl).reduce_axes()?;
        let (ko, ki) = s.stage(&cl).split(&r, 4)?;
        let [x, y] = s.stage(&cl).axes()?;
        s.stage(&cl).reorder([&ko, &ki, &x, &y])?;
        for copy in [&ashared, &bshared] {
            s.stage(copy).compute_at(&cl, &ko)?;
            let [x, y] = s.stage(copy).axes()?;
            let fused = s.stage(copy).fuse(&x, &y)?;
            let (rest, tx) = s.stage(copy).split(&fused, 4)?;
            let (_, ty) = s.stage(copy).split(&rest, 4)?;
            s.stage(copy).bind(&tx, &threads[1])?.bind(&ty, &threads[0])?;
            if doubled {
                s.stage(copy).double_buffer()?;
            }
        }
        Ok(())
    };
    (graph, make)
}

#[test]
fn products_in_shared_memory() {
    let sizes = [vec![1, 1, 1], vec![8, 8, 4], vec![9, 5, 7], vec![16, 8, 12], vec![3, 17, 9], vec![4, 4, 0]];
    for copies in [false, true] {
        for doubled in [false, true] {
            let (graph, make) = product(copies, doubled);
            let context = PassContext::default();
            let module = kernels(&graph, "", &context, &make).unwrap();
            assert_eq!(context.take_warnings(), [] as [String; 0], "{module}");
            assert_split(&module);
            let what = format!("copies {copies}, doubled {doubled}");
            graph.check_module(&what, &module, &sizes).unwrap_or_else(|problem| panic!("{what}: {problem}"));
            let module = kernels(&graph, "ThreadSync", &context, &make).unwrap();
            let problem = graph.check_module(&what, &module, &sizes).unwrap_err();
            assert!(problem.contains("barrier between"), "{problem}");
            for split in [0, 1, 3].into_iter().filter(|_| doubled) {
                let context =
                    PassContext::new(PassOptions { double_buffer_split_loop: split, ..PassOptions::default() });
                let module = kernels(&graph, "", &context, &make).unwrap();
                graph.check_module(&what, &module, &sizes[2..4]).unwrap_or_else(|problem| panic!("{what}: {problem}"));
            }
        }
    }
}

#[test]
fn doubled_memory_needs_one_barrier_for_each_part() {
    let body = |doubled: bool| {
        let (graph, make) = product(false, doubled);
        let context = PassContext::new(PassOptions { double_buffer_split_loop: 0, ..PassOptions::default() });
        barriers(&kernels(&graph, "", &context, &make).unwrap())
    };
    // In a loop without guards and one for the tail: before and after the reads, or once before the
    // loop and once in it.
    assert_eq!([body(false), body(true)], [4, 4]);
}

/// Rows of `extent` elements reduced by `threads` threads, several rows in a block.
fn reduced(extent: i64, rows: i64, is_argmax: bool, warp_size: i64) {
    let m = size("m");
    let a = placeholder([m.expr().clone(), extent.into()], F32, "a");
    let k = reduce_axis(0, extent, "k");
    let outputs: Vec<Tensor> = if is_argmax {
        compute([&m], |[i]| argmax(&k, a.at([&i, &k]), &k)).to_vec()
    } else {
        vec![compute([&m], |[i]| sum(a.at([&i, &k]), &k))]
    };
    let graph = Graph::new(&outputs, [&m]);
    let first = outputs[0].clone();
    let context = PassContext::new(PassOptions { warp_size, ..PassOptions::default() });
    let module = kernels(&graph, "", &context, |s| {
        let [i] = s.stage(&first).axes()?;
        let (outer, inner) = s.stage(&first).split(&i, rows)?;
        s.stage(&first).bind(&outer, &thread_axis(None, "blockIdx.x"))?;
        s.stage(&first).bind(&inner, &thread_axis(None, "threadIdx.y"))?;
        let [k] = s.stage(&first).reduce_axes()?;
        s.stage(&first).bind(&k, &thread_axis(None, "threadIdx.x")).map(drop)
    })
    .unwrap();
    assert_split(&module);
    let what = format!("{extent} in {rows} rows, argmax {is_argmax}, warps of {warp_size}");
    let sizes = [vec![1], vec![rows], vec![2 * rows + 1]];
    graph.check_module(&what, &module, &sizes).unwrap_or_else(|problem| panic!("{what}: {problem}"));
    let shuffles: usize = module.functions.iter().map(|function| calls(&function.body, "warp_shuffle_down")).sum();
    let in_warps = warp_size > 1 && (extent % warp_size == 0 || extent < warp_size && extent.count_ones() == 1);
    assert_eq!(shuffles > 0, in_warps && extent > 1, "{what}");
}

#[test]
fn threads_reduce_together() {
    for warp_size in [1, 32] {
        for is_argmax in [false, true] {
            for (extent, rows) in [(1, 2), (2, 3), (5, 2), (8, 4), (32, 2), (33, 1), (64, 2), (96, 1), (256, 1)] {
                reduced(extent, rows, is_argmax, warp_size);
            }
        }
    }
}

#[test]
fn parts_of_a_row_are_reduced_by_threads() {
    // Each thread reduces its elements first.
    let (m, n) = (size("m"), size("n"));
    let a = placeholder([&m, &n], F32, "a");
    let k = reduce_axis(0, &n, "k");
    let largest = compute([&m], |[i]| reduce_max(a.at([&i, &k]), &k)).named("largest");
    let graph = Graph::new([&largest], [&m, &n]);
    let make = |s: &mut Schedule| -> Result<()> {
        let (_, inner) = s.stage(&largest).split(&k, 16)?;
        let part = s.rfactor(&largest, &inner)?;
        let [i] = s.stage(&largest).axes()?;
        let [own] = s.stage(&largest).reduce_axes()?;
        s.stage(&largest).bind(&i, &thread_axis(None, "blockIdx.x"))?;
        s.stage(&largest).bind(&own, &thread_axis(None, "threadIdx.x"))?;
        s.stage(&part).compute_at(&largest, &own).map(drop)
    };
    let module = kernels(&graph, "", &PassContext::default(), make).unwrap();
    assert_split(&module);
    let sizes = [vec![1, 1], vec![2, 16], vec![3, 40], vec![2, 7], vec![0, 5]];
    graph.check_module("parts", &module, &sizes).unwrap();
}

#[test]
fn conditions_of_threads_stand_inside_of_them() {
    // The reduction's loop is outside of the threads: the initial values and the sums have separate
    // threads.
    let n = size("n");
    let a = placeholder([&n, &n], F32, "a");
    let k = reduce_axis(0, &n, "k");
    let rows = compute([&n], |[i]| sum(a.at([&i, &k]), &k)).named("rows");
    let out = compute([&n], |[i]| rows.at([&i]) * 2.0).named("out");
    let graph = Graph::new([&out], [&n]);
    let make = |s: &mut Schedule| -> Result<()> {
        let thread = thread_axis(Some(4), "threadIdx.x");
        let [i] = s.stage(&out).axes()?;
        let (outer, inner) = s.stage(&out).split(&i, 6)?;
        let (_, last) = s.stage(&out).split(&inner, 4)?;
        s.stage(&out).bind(&outer, &thread_axis(None, "blockIdx.x"))?.bind(&last, &thread)?;
        s.stage(&rows).compute_at(&out, &outer)?.set_scope("shared")?;
        let [i] = s.stage(&rows).axes()?;
        let (rest, inner) = s.stage(&rows).split(&i, 4)?;
        s.stage(&rows).reorder([&k, &rest, &inner])?.bind(&inner, &thread).map(drop)
    };
    let module = kernels(&graph, "", &PassContext::default(), make).unwrap();
    assert_split(&module);
    let sizes = [vec![1], vec![5], vec![6], vec![13]];
    graph.check_module("rows", &module, &sizes).unwrap_or_else(|problem| panic!("{problem}"));
}
