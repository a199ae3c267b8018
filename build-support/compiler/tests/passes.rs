//! Passes: each program has the same semantics before and after, and has the form that the pass
//! guarantees.

#[path = "passes/errors.rs"]
mod errors;
#[path = "passes/kernels.rs"]
mod kernels;

use kernpack_compiler::error::Result;
use kernpack_compiler::interpret::{Arg, Block, Machine, NOTHING};
use kernpack_compiler::ir::visit::{for_each_expr_in, for_each_stmt};
use kernpack_compiler::ir::{
    Buffer, Expr, ExprNode, F32, ForKind, FuncKind, I64, LoweredFunc, LoweredFuncNode, Param, ParamNode, Stmt,
    StmtNode, Var,
};
use kernpack_compiler::pass::hoist_if::hoist_if;
use kernpack_compiler::pass::remove_no_op::remove_no_op;
use kernpack_compiler::pass::rewrite_unsafe_select::rewrite_unsafe_select;
use kernpack_compiler::pass::storage_rewrite::storage_rewrite;
use kernpack_compiler::pass::unroll_loop::unroll_loop;
use kernpack_compiler::pass::vectorize_loop::vectorize_loop;
use kernpack_compiler::pass::{PassContext, PassOptions, pipeline};

type Pass = fn(&LoweredFunc, &PassContext) -> Result<LoweredFunc>;

fn func(a: &Buffer, b: &Buffer, body: Stmt) -> LoweredFunc {
    let param = |buffer: &Buffer, output| {
        Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer.clone()), output })
    };
    LoweredFunc::from_node(LoweredFuncNode {
        name: "f".into(),
        params: [param(a, false), param(b, true)].into(),
        ret: NOTHING,
        kind: FuncKind::Mixed,
        thread_axes: Default::default(),
        body,
        attrs: Default::default(),
    })
}

/// The output for an input 1, 2, .. of `extent` elements: the bits of each element, or `None` where
/// it is not written.
fn result_of(function: &LoweredFunc, extent: i64, out: i64) -> Vec<Option<u64>> {
    let values: Vec<f32> = (1..=extent).map(|value| value as f32).collect();
    let (input, output) = (Block::from_f32(&values), Block::uninit(F32, &[out]));
    let machine = Machine::new(function).unwrap();
    machine.run("f", &[Arg::from(&input), Arg::from(&output)]).unwrap_or_else(|error| panic!("{error}"));
    output.known_lanes()
}

fn buffers(extent: i64, out: i64) -> (Buffer, Buffer) {
    (Buffer::new("a", F32, [Expr::int(extent)], "global"), Buffer::new("b", F32, [Expr::int(out)], "global"))
}

/// Runs a pass and checks that the result computes the same.
#[track_caller]
fn same(function: &LoweredFunc, extent: i64, out: i64, pass: Pass, context: &PassContext) -> LoweredFunc {
    let after = pass(function, context).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(result_of(function, extent, out), result_of(&after, extent, out));
    after
}

fn vectors(i: &Var, extent: i64, body: Stmt) -> Stmt {
    Stmt::for_loop(i.clone(), 0, extent, ForKind::Vectorized, body)
}

fn count(function: &LoweredFunc, is_wanted: impl Fn(&StmtNode) -> bool) -> usize {
    let mut found = 0;
    for_each_stmt(&function.body, |stmt| found += usize::from(is_wanted(stmt)));
    found
}

fn has_vectorized_loop(function: &LoweredFunc) -> bool {
    count(function, |stmt| matches!(stmt, StmtNode::For { kind: ForKind::Vectorized, .. })) > 0
}

fn loops(function: &LoweredFunc) -> usize {
    count(function, |stmt| matches!(stmt, StmtNode::For { .. }))
}

/// The bodies of a vectorized loop over `i` in 0..8, from `a[16]` to `b[16]`, and the number of
/// remaining loops.
#[test]
fn loops_become_vectors() {
    let (a, b) = buffers(16, 16);
    let i = Var::index("i");
    let x = |at: Expr| Expr::load(&a, at);
    let store = |at: Expr, value: Expr| Stmt::store(b.clone(), at, value);
    let k = Var::index("k");
    let local = Buffer::new("t", F32, [Expr::int(2)], "local");
    let t = Var::new("t", F32);
    let serial = |extent: Expr, body: Stmt| Stmt::for_loop(k.clone(), 0, extent, ForKind::Serial, body);
    let rows: Vec<(&str, Stmt, usize)> = vec![
        ("unit stride", store(i.expr().clone(), x(&i + 1) * 2.0), 0),
        ("other strides", store(&i * 2, x(15 - (&i * 2).cast(I64))), 0),
        ("a broadcast", store(i.expr().clone(), x(Expr::int(3)) + i.cast(F32)), 0),
        ("the same place for all, the same value", Stmt::seq([store(Expr::int(0), x(Expr::int(1)))]), 0),
        ("the same place for all lanes", store(Expr::int(0), x(i.expr().clone())), 1),
        ("a guard", Stmt::if_then((&i + 3).less(9).likely(), store(i.expr().clone(), x(i.expr().clone())), None), 0),
        (
            "a condition with two sides",
            Stmt::if_then(
                (&i % 2).equals(0),
                store(i.expr().clone(), x(i.expr().clone())),
                Some(store(i.expr().clone(), x(&i + 8))),
            ),
            0,
        ),
        (
            "a choice that reads out of bounds where it is not taken",
            store(i.expr().clone(), Expr::if_then_else(i.less(4), x(&i + 12), 0.5)),
            0,
        ),
        (
            "one place under a guard that never holds",
            Stmt::if_then(i.greater(9), store(i.expr().clone(), x(Expr::int(99))), None),
            0,
        ),
        (
            "a uniform guard",
            Stmt::if_then(Expr::load(&a, 0).less(5.0), store(i.expr().clone(), x(i.expr().clone())), None),
            0,
        ),
        ("a loop inside", serial(Expr::int(2), store(&i * 2 + &k, x(&i + &k))), 1),
        ("a loop whose bounds differ", serial(i.expr().clone(), store(&k + 8, x(i.expr().clone()))), 2),
        (
            "memory inside",
            Stmt::seq([
                Stmt::alloc(local.clone()),
                Stmt::store(local.clone(), 0, x(i.expr().clone())),
                Stmt::store(local.clone(), 1, x(&i + 1)),
                store(i.expr().clone(), Expr::load(&local, 0) + Expr::load(&local, 1)),
            ]),
            0,
        ),
        ("a name", Stmt::seq([Stmt::bind(t.clone(), x(&i + 2)), store(i.expr().clone(), &t * &t)]), 0),
        (
            "a name, then a statement lane by lane",
            Stmt::seq([
                Stmt::bind(k.clone(), &i + 8),
                store(i.expr().clone(), x(i.expr().clone())),
                store(Expr::int(9), x(k.expr().clone())),
            ]),
            1,
        ),
        (
            "a let",
            store(
                i.expr().clone(),
                Expr::from_node(ExprNode::Let { var: t.clone(), value: x(&i + 1), body: &t * &t - &t }),
            ),
            0,
        ),
        (
            "a division by what lanes that are off do not load",
            Stmt::if_then(
                i.less(4),
                store(i.expr().clone(), Expr::int(100).floor_div(x(&i + 12).cast(I64)).cast(F32)),
                None,
            ),
            0,
        ),
        (
            "memory inside that some lanes do not fill",
            Stmt::if_then(
                i.less(5),
                Stmt::seq([
                    Stmt::alloc(local.clone()),
                    Stmt::store(local.clone(), 0, x(i.expr().clone())),
                    store(i.expr().clone(), Expr::load(&local, 0) * 3.0),
                ]),
                None,
            ),
            0,
        ),
        ("math", store(i.expr().clone(), Expr::math("sqrt", [x(i.expr().clone())])), 0),
    ];
    for (name, body, expected) in rows {
        let f = func(&a, &b, vectors(&i, 8, body));
        let context = PassContext::default();
        let after = same(&f, 16, 16, vectorize_loop, &context);
        assert!(!has_vectorized_loop(&after), "{name}");
        assert_eq!(loops(&after), expected, "{name}");
    }
}

#[test]
fn what_is_not_vectorized_is_said() {
    let (a, b) = buffers(16, 16);
    let i = Var::index("i");
    let f = func(&a, &b, vectors(&i, 8, Stmt::store(b.clone(), 0, Expr::load(&a, &i))));
    let context = PassContext::default();
    vectorize_loop(&f, &context).unwrap();
    assert_eq!(context.take_warnings(), ["loop `i` is not vectorized: all lanes store to the same place of `b`"]);
    let n = Var::size("n", I64);
    for (extent, expected) in [
        (n.expr().clone(), "LowerError: vectorize: the extent of loop `i` is not a constant"),
        (Expr::int(2000), "LowerError: vectorize: loop `i` has 2000 iterations, more than 1024"),
    ] {
        let body = Stmt::store(b.clone(), &i, Expr::load(&a, &i));
        let f = func(&a, &b, Stmt::for_loop(i.clone(), 0, extent, ForKind::Vectorized, body));
        let error = vectorize_loop(&f, &context).err().unwrap().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn loops_are_written_out() {
    let (a, b) = buffers(16, 16);
    let [i, j] = ["i", "j"].map(Var::index);
    let t = Var::new("t", F32);
    let body =
        Stmt::seq([Stmt::bind(t.clone(), Expr::load(&a, &i * 2 + &j)), Stmt::store(b.clone(), &i * 2 + &j, &t * 2.0)]);
    let nest = |kind: ForKind| {
        Stmt::for_loop(i.clone(), 0, 8, ForKind::Serial, Stmt::for_loop(j.clone(), 0, 2, kind, body.clone()))
    };
    let context = PassContext::default();
    let after = same(&func(&a, &b, nest(ForKind::Unrolled)), 16, 16, unroll_loop, &context);
    assert_eq!(loops(&after), 1);
    // Copies define their own names.
    let mut names = std::collections::HashSet::new();
    for_each_stmt(&after.body, |stmt| {
        if let StmtNode::Bind { var, .. } = &**stmt {
            assert!(names.insert(var.address()));
        }
    });
    assert_eq!(names.len(), 2);
    let serial = func(&a, &b, nest(ForKind::Serial));
    for (steps, expected) in [(0, 2), (2, 1), (15, 1), (16, 0)] {
        let context = PassContext::new(PassOptions { auto_unroll_max_step: steps, ..PassOptions::default() });
        assert_eq!(loops(&same(&serial, 16, 16, unroll_loop, &context)), expected, "{steps} steps");
    }
    let n = Var::size("n", I64);
    let open = func(&a, &b, Stmt::for_loop(i.clone(), 0, &n, ForKind::Unrolled, body));
    let error = unroll_loop(&open, &context).err().unwrap().to_string();
    assert!(error.starts_with("LowerError: unroll: the extent of loop `i` is not a constant"), "{error}");
}

#[test]
fn what_has_no_effect_goes() {
    let (a, b) = buffers(16, 16);
    let [i, unused, chain] = ["i", "unused", "chain"].map(Var::index);
    let memory = Buffer::new("t", F32, [Expr::int(64)], "global");
    let f = func(
        &a,
        &b,
        Stmt::seq([
            Stmt::alloc(memory),
            Stmt::bind(unused.clone(), 3),
            Stmt::bind(chain, &unused + 1),
            Stmt::for_loop(i.clone(), 0, 4, ForKind::Serial, Stmt::nothing()),
            Stmt::if_then(
                Expr::load(&a, 0).less(9.0),
                Stmt::nothing(),
                Some(Stmt::store(b.clone(), 0, Expr::load(&a, 0))),
            ),
            Stmt::if_then(Expr::load(&a, 0).less(9.0), Stmt::nothing(), None),
            Stmt::store(b.clone(), 1, Expr::load(&a, 1)),
        ]),
    );
    let after = same(&f, 16, 16, remove_no_op, &PassContext::default());
    assert_eq!(loops(&after), 0);
    assert_eq!(count(&after, |stmt| matches!(stmt, StmtNode::Bind { .. } | StmtNode::Alloc { .. })), 0);
    assert_eq!(count(&after, |stmt| matches!(stmt, StmtNode::If { .. })), 1);
}

#[test]
fn conditions_leave_loops() {
    let (a, b) = buffers(16, 16);
    let i = Var::index("i");
    let n = Expr::load(&a, 3).cast(I64);
    let k = Var::index("k");
    let store = Stmt::store(b.clone(), &i, Expr::load(&a, &i));
    let guarded = Stmt::if_then(k.less(9).and(i.less(7)), store.clone(), None);
    let f =
        func(&a, &b, Stmt::seq([Stmt::bind(k.clone(), n), Stmt::for_loop(i.clone(), 0, 8, ForKind::Serial, guarded)]));
    let after = same(&f, 16, 16, hoist_if, &PassContext::default());
    let mut around = 0;
    for_each_stmt(&after.body, |stmt| {
        if let StmtNode::If { then_body, .. } = &**stmt {
            around += usize::from(matches!(**then_body, StmtNode::For { .. }));
        }
    });
    assert_eq!(around, 1);
    // The memory that the condition reads may change.
    let reads = Stmt::if_then(Expr::load(&b, 0).less(9.0), store, None);
    let f = func(
        &a,
        &b,
        Stmt::seq([
            Stmt::store(b.clone(), 0, Expr::load(&a, 7)),
            Stmt::for_loop(i.clone(), 0, 8, ForKind::Serial, reads),
        ]),
    );
    let after = same(&f, 16, 16, hoist_if, &PassContext::default());
    assert!(matches!(*after.body.to_stmts()[1], StmtNode::For { .. }));
}

#[test]
fn selects_do_not_read_out_of_bounds() {
    let (a, b) = buffers(16, 16);
    let i = Var::index("i");
    let lanes = Expr::int(8).ramp(1, 16);
    let context = PassContext::default();
    // Scalar: the select becomes conditional.
    let scalar = Stmt::store(b.clone(), &i, Expr::select((&i + 8).less(16), Expr::load(&a, &i + 8), 0.0));
    let f = func(&a, &b, Stmt::for_loop(i.clone(), 0, 16, ForKind::Serial, scalar));
    assert!(
        Machine::new(&f)
            .unwrap()
            .run("f", &[Arg::from(&Block::from_f32(&[1.0; 16])), Arg::from(&Block::uninit(F32, &[16]))])
            .is_err()
    );
    let after = rewrite_unsafe_select(&f, &context).unwrap();
    let expected: Vec<Option<u64>> =
        (0..16).map(|at| Some(u64::from(if at < 8 { (at + 9) as f32 } else { 0.0 }.to_bits()))).collect();
    assert_eq!(result_of(&after, 16, 16), expected);
    // Vectors: the load is masked.
    let choice = Expr::select(
        lanes.less(Expr::int(16).broadcast(16)),
        Expr::load(&a, lanes),
        Expr::float(F32, 0.0).broadcast(16),
    );
    let f = func(&a, &b, Stmt::store(b.clone(), Expr::int(0).ramp(1, 16), choice));
    let after = rewrite_unsafe_select(&f, &context).unwrap();
    assert_eq!(result_of(&after, 16, 16), expected);
    let mut masked = 0;
    for_each_expr_in(&after.body, |expr| masked += usize::from(matches!(**expr, ExprNode::Load { mask: Some(_), .. })));
    assert_eq!(masked, 1);
}

/// A chain `a -> t0 -> t1 -> .. -> b`, each twice the previous one, and the amount of memory that
/// is left.
#[test]
fn memory_is_used_again() {
    let (a, b) = buffers(16, 16);
    let chain = |shift: i64, extents: &[i64]| {
        let memory: Vec<Buffer> = extents
            .iter()
            .enumerate()
            .map(|(index, extent)| Buffer::new(&format!("t{index}"), F32, [Expr::int(*extent)], "global"))
            .collect();
        let mut stmts: Vec<Stmt> = memory.iter().map(|buffer| Stmt::alloc(buffer.clone())).collect();
        let all: Vec<&Buffer> = [&a].into_iter().chain(&memory).chain([&b]).collect();
        for pair in all.windows(2) {
            let i = Var::index("i");
            let at = if shift == 0 { i.expr().clone() } else { (&i + shift).floor_mod(16) };
            let from = Expr::load(pair[0], at);
            stmts.push(Stmt::for_loop(i.clone(), 0, 16, ForKind::Serial, Stmt::store(pair[1].clone(), &i, from * 2.0)));
        }
        func(&a, &b, Stmt::seq(stmts))
    };
    let allocations = |function: &LoweredFunc| count(function, |stmt| matches!(stmt, StmtNode::Alloc { .. }));
    let rows: [(i64, &[i64], usize); 5] = [
        (0, &[16, 16, 16, 16], 1),  // Works in place.
        (1, &[16, 16, 16, 16], 2),  // Two allocations alternate.
        (0, &[16, 64, 16], 1),      // The memory is as large as the largest.
        (0, &[16, 16 * 17, 16], 2), // Too large to be shared.
        (0, &[8 * 2], 1),
    ];
    for (shift, extents, expected) in rows {
        let after = same(&chain(shift, extents), 16, 16, storage_rewrite, &PassContext::default());
        assert_eq!(allocations(&after), expected, "{shift} {extents:?}");
    }
}

#[test]
fn memory_with_a_second_name_is_used_until_that_is() {
    let (a, b) = buffers(16, 16);
    let memory = |name: &str| Buffer::new(name, F32, [Expr::int(16)], "global");
    let (first, second, next) = (memory("first"), memory("second"), memory("next"));
    let each = |body: &dyn Fn(&Expr) -> Stmt| {
        let i = Var::index("i");
        Stmt::for_loop(i.clone(), 0, 16, ForKind::Serial, body(i.expr()))
    };
    let body = Stmt::seq([
        Stmt::alloc(first.clone()),
        Stmt::alloc(next.clone()),
        each(&|i| Stmt::store(first.clone(), i, Expr::load(&a, i))),
        Stmt::from_node(StmtNode::Alias { buffer: second.clone(), data: first.data.expr().clone() }),
        each(&|i| Stmt::store(next.clone(), i, Expr::float(F32, 1.0))),
        each(&|i| Stmt::store(next.clone(), i, Expr::load(&next, i) + Expr::load(&second, Expr::int(15) - i))),
        each(&|i| Stmt::store(b.clone(), i, Expr::load(&next, i))),
    ]);
    same(&func(&a, &b, body), 16, 16, storage_rewrite, &PassContext::default());
}

#[test]
fn pipelines_are_lists_of_names_and_functions() {
    let (a, b) = buffers(16, 16);
    let i = Var::index("i");
    let f = func(&a, &b, vectors(&i, 8, Stmt::store(b.clone(), &i, Expr::load(&a, &i))));
    let context = PassContext::default();
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = seen.clone();
    let own = kernpack::Function::from_fn(move |program: LoweredFunc, _: PassContext| -> LoweredFunc {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        program
    });
    let passes = [kernpack::Any::from("VectorizeLoop"), own.into(), "kernpack.pass.RemoveNoOp".into()].into();
    let after: LoweredFunc = pipeline::run(f.clone(), &passes, &context).unwrap().to().unwrap();
    assert!(!has_vectorized_loop(&after));
    assert_eq!(seen.load(std::sync::atomic::Ordering::Relaxed), 1);
    let unknown = pipeline::run(f, &[kernpack::Any::from("Vectorise")].into(), &context).err().unwrap().to_string();
    assert!(unknown.starts_with("LowerError: unknown pass `Vectorise`"), "{unknown}");
}
