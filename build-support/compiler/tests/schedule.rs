//! Schedules: what primitives do to loops, that results stay the same (interpreter against reference evaluator), and every error.

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{
    Buffer, DataType, ExprNode, F32, ForKind, I32, I64, IterVar, OperationNode, Stmt, Tensor, Var,
};
use kernpack_compiler::pass::PassContext;
use kernpack_compiler::schedule::{
    Annotation, Argument, Attach, Relation, Schedule, Stage, StageId, Tail, TensorIntrin, create_schedule,
    lower_function,
};
use kernpack_compiler::te::eval::{Elements, Evaluator};
use kernpack_compiler::te::operation::input_tensors;
use kernpack_compiler::te::{self, compute, placeholder, reduce_axis, size, sum, thread_axis};
use kernpack_compiler::{CompileError, ErrorKind, Result, take_reported};

/// A graph: what it computes of which inputs, with sizes.
struct Graph {
    outputs: Vec<Tensor>,
    inputs: Vec<Tensor>,
    sizes: Vec<Var>,
}

impl Graph {
    fn new(outputs: &[&Tensor], inputs: &[&Tensor], sizes: &[&Var]) -> Self {
        take_reported().unwrap();
        Self {
            outputs: outputs.iter().map(|tensor| (*tensor).clone()).collect(),
            inputs: inputs.iter().map(|tensor| (*tensor).clone()).collect(),
            sizes: sizes.iter().map(|var| (*var).clone()).collect(),
        }
    }

    fn schedule(&self) -> Schedule {
        create_schedule(&self.outputs.iter().map(|tensor| tensor.op.clone()).collect::<Vec<_>>())
    }

    /// Runs the scheduled graph and compares each element with the evaluator's, for each list of sizes.
    fn check(&self, sizes: &[&[i64]], make: impl FnOnce(&mut Schedule) -> Result<()>) -> String {
        let mut schedule = self.schedule();
        make(&mut schedule).unwrap();
        let nest = schedule.loop_nest();
        let tensors = self.inputs.iter().chain(&self.outputs).map(Argument::from);
        let args: Vec<Argument> = tensors.chain(self.sizes.iter().map(Argument::from)).collect();
        let func = lower_function(&schedule, &args, "f", &PassContext::default())
            .unwrap_or_else(|error| panic!("{error}\n{nest}"));
        let machine = Machine::new(&func).unwrap();
        for sizes in sizes {
            self.run(&machine, sizes).unwrap_or_else(|error| panic!("sizes {sizes:?}: {error}\n{nest}\n{func}"));
        }
        nest
    }

    fn run(&self, machine: &Machine, sizes: &[i64]) -> Result<()> {
        let values: Vec<(Var, i64)> = self.sizes.iter().cloned().zip(sizes.iter().copied()).collect();
        let mut evaluator = Evaluator::new();
        for (var, value) in &values {
            evaluator = evaluator.scalar(var, *value as f64);
        }
        let mut args: Vec<Arg> = Vec::new();
        for (number, tensor) in self.inputs.iter().enumerate() {
            let shape = shape_of(tensor, &values);
            let count: i64 = shape.iter().product();
            let numbers: Vec<f64> = (0..count).map(|index| ((index * 7 + number as i64 * 3) % 11 - 5) as f64).collect();
            let block = Block::from_f64(tensor.dtype, &shape, &numbers);
            args.push((&block).into());
            let mut next = numbers.into_iter();
            let shape: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
            let elements = Elements::from_fn(tensor.dtype, &shape, |_| next.next().unwrap());
            evaluator = evaluator.input(tensor, elements);
        }
        let blocks: Vec<Block> =
            self.outputs.iter().map(|tensor| Block::uninit(tensor.dtype, &shape_of(tensor, &values))).collect();
        args.extend(blocks.iter().map(Arg::from));
        args.extend(values.iter().map(|(_, value)| Arg::from(*value)));
        machine.run("f", &args)?;
        for ((block, wanted), tensor) in blocks.iter().zip(evaluator.run(&self.outputs)?).zip(&self.outputs) {
            assert_eq!(block.to_f64()?, wanted.to_f64(), "{} for {sizes:?}", tensor.name());
        }
        Ok(())
    }
}

fn shape_of(tensor: &Tensor, values: &[(Var, i64)]) -> Vec<i64> {
    let values = values.iter().map(|(var, value)| (var.clone(), (*value).into())).collect();
    let analyzer = kernpack_compiler::arith::Analyzer::new();
    let extents = tensor.shape.iter().map(|extent| {
        analyzer.simplify(&kernpack_compiler::ir::substitute(&extent, &values)).as_int().expect("a size is missing")
    });
    extents.collect()
}

fn names(stage: &Stage) -> Vec<&str> {
    stage.leaves.iter().map(|leaf| leaf.name()).collect()
}

fn leaves(s: &Schedule, tensor: &Tensor) -> Vec<String> {
    names(&s[s.stage_of(&tensor.op).unwrap()]).into_iter().map(str::to_owned).collect()
}

/// `c[i, j] = sum over k of a[i, k] * b[k, j]`.
fn matmul(m: i64, k: i64, n: i64) -> (Graph, Tensor, IterVar) {
    let (a, b) = (placeholder([m, k], F32, "a"), placeholder([k, n], F32, "b"));
    let r = reduce_axis(0, k, "k");
    let c = compute([m, n], |[i, j]| sum(a.at([&i, &r]) * b.at([&r, &j]), &r)).named("c");
    (Graph::new(&[&c], &[&a, &b], &[]), c, r)
}

/// `a`, `b = a + 1`, `c = b * 2` of `n` elements.
fn chain() -> (Graph, [Tensor; 3]) {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let c = compute([&n], |[i]| b.at([&i]) * 2.0).named("c");
    (Graph::new(&[&c], &[&a], &[&n]), [a, b, c])
}

const SIZES: [&[i64]; 9] = [&[0], &[1], &[2], &[3], &[7], &[8], &[9], &[31], &[33]];

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
    // The schedule itself is as it was.
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
    let s = &mut create_schedule(&[e.op.clone()]);
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
    s.stage(&result).env_threads(&[thread.clone()]).unwrap();
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

type Wrong = fn(&mut Setting) -> CompileError;

/// A schedule to make mistakes with.
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
    let mut s = create_schedule(&[d.op.clone()]);
    let [i, j] = s.stage(&c).axes().unwrap();
    Setting { s, a, b, c, d, i, j, k, group: None }
}

#[test]
fn errors_name_stage_axis_line_and_fix() {
    let rows: Vec<(&str, Wrong)> = vec![
        (
            "split: `i` of stage `c` is no loop any more\n|it was split into `i.outer` and `i.inner` at |loops of `c` now: i.outer, i.inner, j, k",
            |t| {
                t.s.stage(&t.c).split(&t.i, 4).unwrap();
                t.s.stage(&t.c).split(&t.i, 2).unwrap_err()
            },
        ),
        ("unroll: `j` of stage `c` is no loop any more\n|it was fused into `i.j.fused` at ", |t| {
            t.s.stage(&t.c).fuse(&t.i, &t.j).unwrap();
            t.s.stage(&t.c).unroll(&t.j).unwrap_err()
        }),
        ("split: `i` is no axis of stage `b`\n|it is an axis of stage `c`", |t| {
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
            let mut s = create_schedule(&[t.c.op.clone()]);
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
        ("bind: `j` is no thread\n|make one with `thread_axis", |t| t.s.stage(&t.c).bind(&t.i, &t.j).unwrap_err()),
        ("bind: `i` of stage `c` has the thread `threadIdx.x` already", |t| {
            let thread = thread_axis(None, "threadIdx.x");
            t.s.stage(&t.c).bind(&t.i, &thread).unwrap();
            t.s.stage(&t.c).bind(&t.j, &thread).unwrap_err()
        }),
        ("bind: `i` of stage `c` was bound to threadIdx.x at ", |t| {
            t.s.stage(&t.c).bind(&t.i, &thread_axis(None, "threadIdx.x")).unwrap();
            t.s.stage(&t.c).bind(&t.i, &thread_axis(None, "threadIdx.y")).unwrap_err()
        }),
        ("env_threads: `c` is no scan\n|bind loops to threads with `bind`", |t| {
            t.s.stage(&t.c).env_threads(&[]).unwrap_err()
        }),
        ("pragma: an empty key for `i`", |t| t.s.stage(&t.c).pragma(&t.i, "", 1).unwrap_err()),
        ("prefetch: stage `c` does not read `a`", |t| t.s.stage(&t.c).prefetch(&t.a, &t.k, 1).unwrap_err()),
        ("prefetch: the distance for `k` is no integer", |t| t.s.stage(&t.c).prefetch(&t.b, &t.k, 1.0).unwrap_err()),
        ("compute_at: `d` is an output", |t| t.s.stage(&t.d).compute_at(&t.c, &t.i).unwrap_err()),
        ("compute_at: `b` inside a loop of its own", |t| t.s.stage(&t.b).compute_at(&t.b, &t.i).unwrap_err()),
        ("compute_at: `a` is an input: it is not computed", |t| t.s.stage(&t.a).compute_at(&t.c, &t.i).unwrap_err()),
        ("compute_at: `k` is no axis of stage `d`\n|it is an axis of stage `c`", |t| {
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
            create_schedule(&[f[0].op.clone()]).stage(&t.b).compute_inline().unwrap_err()
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
        ("storage_align: `k` is no dimension of `c`", |t| t.s.stage(&t.c).storage_align(&t.k, 8, 0).unwrap_err()),
        ("storage_align: a stride of `i` that is a multiple of 0 plus 1", |t| {
            t.s.stage(&t.c).storage_align(&t.i, 0, 1).unwrap_err()
        }),
        ("double_buffer: `d` is an argument of the function", |t| t.s.stage(&t.d).double_buffer().unwrap_err()),
        ("double_buffer: `b` is inlined: it has no memory", |t| {
            t.s.stage(&t.b).compute_inline().unwrap();
            t.s.stage(&t.b).double_buffer().unwrap_err()
        }),
        ("cache_read: stage `c` does not read `a`", |t| t.s.cache_read(&t.a, "local", [&t.c]).unwrap_err()),
        ("cache_read: no stage to read the copy of `a`", |t| {
            t.s.cache_read(&t.a, "local", [] as [&Tensor; 0]).unwrap_err()
        }),
        ("cache_read: unknown scope ``", |t| t.s.cache_read(&t.a, "", [&t.b]).unwrap_err()),
        ("cache_write: `a` is not computed by an expression", |t| t.s.cache_write(&t.a, "local").unwrap_err()),
        ("cache_write: `k.outer` of stage `c` is no loop over dimensions\n|only dimensions make a layout", |t| {
            t.s.stage(&t.c).split(&t.k, 4).unwrap();
            t.s.cache_write(&t.c, "local").unwrap_err()
        }),
        ("cache_write: `i` of stage `c` was unrolled at ", |t| {
            t.s.stage(&t.c).unroll(&t.i).unwrap();
            t.s.cache_write(&t.c, "local").unwrap_err()
        }),
        ("rfactor: `i` of stage `c` is no axis of a reduction", |t| t.s.rfactor(&t.c, &t.i).unwrap_err()),
        ("rfactor: `k` of stage `c` was unrolled at ", |t| {
            t.s.stage(&t.c).unroll(&t.k).unwrap();
            t.s.rfactor(&t.c, &t.k).unwrap_err()
        }),
        ("rfactor_at: dimension 4 of `c.rf`, which has 3", |t| t.s.rfactor_at(&t.c, &t.k, 4).unwrap_err()),
        ("rfactor: `r` of stage `shifted` does not begin with 0\n|`split` it first", |t| {
            let r = reduce_axis(2, 4, "r");
            let shifted = compute([1], |[_]| sum(t.a.at([&r, &r]), &r)).named("shifted");
            create_schedule(&[shifted.op.clone()]).rfactor(&shifted, &r).unwrap_err()
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
fn bound_errors_name_who_reads_outside_of_the_loop() {
    let t = &mut setting();
    t.s.stage(&t.b).compute_at(&t.c, &t.i).unwrap();
    let normal = t.s.normalize().unwrap();
    let error = kernpack_compiler::schedule::infer_bound(&normal).err().unwrap().to_string();
    assert!(error.contains("`b`") && error.contains("`d`"), "{error}");
    assert!(t.s.loop_nest().contains("no ranges: "), "{}", t.s.loop_nest());
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

/// A global function, called with arguments of any kind.
fn global(name: &str, args: &[kernpack::Any]) -> kernpack::Result<kernpack::Any> {
    let function = kernpack::Function::find_global(name)?.unwrap_or_else(|| panic!("no function {name}"));
    function.call(args)
}

#[test]
fn other_languages_build_and_schedule_with_global_functions() {
    use kernpack::{Any, Array, Function};
    use kernpack_compiler::ir::Expr;
    use kernpack_compiler::schedule::SharedSchedule;

    let call = |name: &str, args: &[Any]| global(name, args).unwrap_or_else(|error| panic!("{name}: {error}"));
    let n: Var = call("kernpack.te.size", &["n".into()]).to().unwrap();
    let shape: Array<Any> = [Any::from(Expr::from(&n)), Any::from(16)].into_iter().collect();
    let a: Tensor = call("kernpack.te.placeholder", &[shape.into(), F32.into(), "a".into()]).to().unwrap();
    let k: IterVar = call("kernpack.te.reduce_axis", &[0.into(), 16.into(), "k".into()]).to().unwrap();
    let (tensor, axis) = (a.clone(), k.clone());
    let body = Function::from_fn(move |axes: Array<IterVar>| -> kernpack::Result<Array<Expr>> {
        let indices: Array<Any> = [Any::from(axes.get(0).unwrap()), Any::from(axis.clone())].into_iter().collect();
        let element = global("kernpack.te.at", &[tensor.clone().into(), indices.into()])?;
        let doubled = global("kernpack.te.binary", &["Mul".into(), element, 2.into()])?;
        let values: Array<Any> = [doubled].into_iter().collect();
        let axes: Array<IterVar> = [axis.clone()].into_iter().collect();
        global("kernpack.te.reduce", &["sum".into(), values.into(), axes.into()])?.to()
    });
    let shape: Array<Any> = [Any::from(Expr::from(&n))].into_iter().collect();
    let made = call("kernpack.te.compute", &[shape.into(), body.into(), "rows".into(), "".into()]);
    let rows = made.to::<Array<Tensor>>().unwrap().get(0).unwrap();
    assert_eq!(rows.name(), "rows");

    let outputs: Array<kernpack_compiler::ir::Operation> = [rows.op.clone()].into_iter().collect();
    let s = call("kernpack.schedule.create", &[outputs.into()]);
    let stage = call("kernpack.schedule.stage", &[s.clone(), rows.clone().into()]);
    let parts: Array<IterVar> =
        call("kernpack.schedule.split", &[stage.clone(), k.clone().into(), 4.into()]).to().unwrap();
    let inner = parts.get(1).unwrap();
    call("kernpack.schedule.unroll", &[stage.clone(), inner.clone().into()]);
    let nest: String = call("kernpack.schedule.loop_nest", &[s.clone()]).to().unwrap();
    assert_eq!(
        nest,
        "for i in 0..n\n  begin rows\n  for k.outer in 0..4\n    unrolled k.inner in 0..4\n      update rows\n"
    );

    let error = global("kernpack.schedule.split", &[stage.clone(), k.into(), 2.into()]).unwrap_err().to_string();
    assert!(error.contains("split: `k` of stage `rows` is no loop any more"), "{error}");
    assert!(error.contains("it was split into `k.outer` and `k.inner`\n"), "no line of ours: {error}");
    assert!(!error.contains(".rs:"), "{error}");
    let error = global("kernpack.schedule.split", &[stage, inner.into(), "x".into()]).unwrap_err().to_string();
    assert!(error.contains("argument 'factor': expected Union["), "{error}");
    let error = global(
        "kernpack.te.reduce",
        &["median".into(), Array::<Any>::default().into(), Array::<IterVar>::default().into()],
    );
    assert!(error.unwrap_err().to_string().contains("no reduction `median` of 0 values"));

    let shared: SharedSchedule = s.to().unwrap();
    let graph = Graph::new(&[&rows], &[&a], &[&n]);
    let copy = shared.lock().clone();
    graph.check(&SIZES, |own| {
        *own = copy;
        Ok(())
    });
}

#[test]
fn every_primitive_has_a_global_function() {
    let primitives = [
        "bind",
        "cache_read",
        "cache_write",
        "compute_at",
        "compute_inline",
        "compute_root",
        "copy",
        "create",
        "create_group",
        "current",
        "double_buffer",
        "env_threads",
        "fuse",
        "infer_bound",
        "loop_nest",
        "normalize",
        "parallel",
        "pragma",
        "prefetch",
        "reorder",
        "rfactor",
        "set_scope",
        "set_store_predicate",
        "split",
        "split_nparts",
        "split_tail",
        "stage",
        "storage_align",
        "tensorize",
        "tile",
        "unroll",
        "vectorize",
    ];
    for name in primitives {
        assert!(kernpack::Function::find_global(&format!("kernpack.schedule.{name}")).unwrap().is_some(), "{name}");
    }
    let te = [
        "at",
        "binary",
        "cast",
        "comm_reducer",
        "compute",
        "constant",
        "extern_op",
        "math",
        "not",
        "output",
        "placeholder",
        "pointer_argument",
        "reduce",
        "reduce_axis",
        "reduce_with",
        "scan",
        "select",
        "size",
        "tensor_argument",
        "thread_axis",
        "var",
        "with_attrs",
    ];
    for name in te {
        assert!(kernpack::Function::find_global(&format!("kernpack.te.{name}")).unwrap().is_some(), "{name}");
    }
}

#[test]
fn stages_show_their_state_to_other_languages() {
    use kernpack::Any;
    use kernpack_compiler::schedule::{SharedSchedule, SharedStage};

    let (graph, [_, b, c]) = chain();
    let mut s = graph.schedule();
    let [i] = s.stage(&c).axes().unwrap();
    let (outer, inner) = s.stage(&c).split(&i, 4).unwrap();
    s.stage(&c).vectorize(&inner).unwrap();
    s.stage(&b).compute_at(&c, &outer).unwrap().set_scope("local").unwrap();
    let shared = Any::from(SharedSchedule::new(s));
    let stage = |tensor: &Tensor| global("kernpack.schedule.stage", &[shared.clone(), tensor.clone().into()]).unwrap();
    let get = |object: &Any, name: &str| -> Any {
        let info = kernpack::reflect::TypeInfo::by_key(b"kernpack.schedule.Stage").unwrap();
        let field = info.own_fields().find(|field| field.name() == name).unwrap();
        assert!(object.to::<SharedStage>().is_ok());
        // SAFETY: the object is alive, and of the type that the field is of.
        unsafe { field.get(object.as_view().as_raw().payload.v_obj) }.unwrap()
    };
    let (b, c) = (stage(&b), stage(&c));
    assert_eq!(get(&b, "attach_type").to::<String>().unwrap(), "at");
    assert_eq!(get(&b, "scope").to::<String>().unwrap(), "local");
    assert!(get(&b, "attach_ivar").to::<IterVar>().unwrap() == outer);
    assert_eq!(get(&get(&b, "attach_stage"), "name").to::<String>().unwrap(), "c");
    let annotations: kernpack::Array<kernpack::Str> = get(&c, "annotations").to().unwrap();
    assert_eq!(annotations.iter().map(|text| text.as_str().to_owned()).collect::<Vec<_>>(), ["", "vectorized"]);
    assert!(get(&c, "is_output").to::<bool>().unwrap());
}
