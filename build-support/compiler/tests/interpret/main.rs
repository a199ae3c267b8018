//! The interpreter: its results, and the errors that it detects.

mod calls;
mod compiled;
mod device;
mod pipeline;
mod statements;

use kernpack_compiler::interpret::{Arg, Block, Machine, NOTHING};
use kernpack_compiler::ir::builtin;
use kernpack_compiler::ir::{
    Buffer, Expr, F32, ForKind, FuncKind, I32, I64, IterKind, IterVar, LoweredFunc, LoweredFuncNode, Param, ParamNode,
    Stmt, Var,
};
use kernpack_compiler::text;

fn input(buffer: &Buffer) -> Param {
    Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer.clone()), output: false })
}

fn output(buffer: &Buffer) -> Param {
    Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer.clone()), output: true })
}

fn func(params: impl IntoIterator<Item = Param>, body: Stmt) -> LoweredFunc {
    LoweredFunc::from_node(LoweredFuncNode {
        name: "f".into(),
        params: params.into_iter().collect(),
        ret: NOTHING,
        kind: FuncKind::Mixed,
        thread_axes: Default::default(),
        body,
        attrs: Default::default(),
    })
}

fn run(func: &LoweredFunc, args: &[Arg]) -> Result<(), String> {
    let machine = Machine::new(func).map_err(|error| error.to_string())?;
    machine.run("f", args).map(|_| ()).map_err(|error| error.to_string())
}

fn buffer(name: &str, extent: i64) -> Buffer {
    Buffer::new(name, F32, [Expr::int(extent)], "global")
}

fn thread(tag: &str, extent: i64, body: impl FnOnce(&Var) -> Stmt) -> Stmt {
    let var = Var::index(tag.replace('.', "_"));
    let axis = IterVar::from_node(kernpack_compiler::ir::IterVarNode {
        dom: None,
        var: var.clone(),
        kind: IterKind::ThreadIndex,
        thread_tag: tag.into(),
        span: "".into(),
    });
    let body = body(&var);
    Stmt::attr("thread_extent", axis, extent, body)
}

fn sync(scope: &str) -> Stmt {
    Stmt::evaluate(Expr::builtin(builtin::STORAGE_SYNC, I32, [Expr::text(scope)]))
}

/// Runs the only function of a text with these arguments.
#[track_caller]
fn run_text(source: &str, args: &[Arg]) -> Result<Option<Arg>, String> {
    let module = text::parse(source).unwrap_or_else(|error| panic!("{error}"));
    let first = module.functions.get(0).expect("a function").name.to_string();
    let machine = Machine::of_module(&module).map_err(|error| error.to_string())?;
    machine.run(&first, args).map_err(|error| error.to_string())
}

#[track_caller]
fn fails<T: core::fmt::Debug>(result: Result<T, String>, parts: &[&str]) {
    let error = result.expect_err("an error is expected");
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in:\n{error}");
    }
}

#[test]
fn a_product_of_matrices_with_symbolic_shapes() {
    let [m, n, k] = ["m", "n", "k"].map(|name| Var::size(name, I64));
    let a = Buffer::new("a", F32, [m.expr().clone(), k.expr().clone()], "global");
    let b = Buffer::new("b", F32, [k.expr().clone(), n.expr().clone()], "global");
    let c = Buffer::new("c", F32, [m.expr().clone(), n.expr().clone()], "global");
    let [i, j, r] = ["i", "j", "r"].map(Var::index);
    let at = &i * &n + &j;
    let product = Expr::load(&a, &i * &k + &r) * Expr::load(&b, &r * &n + &j);
    let add = Stmt::store(c.clone(), &at, Expr::load(&c, &at) + product);
    let inner =
        Stmt::seq([Stmt::store(c.clone(), &at, Expr::float(F32, 0.0)), Stmt::for_loop(r, 0, &k, ForKind::Serial, add)]);
    let body = Stmt::for_loop(j, 0, &n, ForKind::Serial, inner);
    let f = func([input(&a), input(&b), output(&c)], Stmt::for_loop(i, 0, &m, ForKind::Parallel, body));
    let left = Block::from_f32(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).reshaped(&[2, 3]);
    let right = Block::from_f32(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]).reshaped(&[3, 2]);
    let result = Block::uninit(F32, &[2, 2]);
    run(&f, &[(&left).into(), (&right).into(), (&result).into()]).unwrap();
    assert_eq!(result.to_f32().unwrap(), [4.0, 5.0, 10.0, 11.0]);
    let wrong = Block::from_f32(&[0.0; 8]).reshaped(&[4, 2]);
    fails(run(&f, &[left.into(), wrong.into(), result.into()]), &["extent 0 of `b` is 4, expected 3"]);
}

#[test]
fn accesses_outside_of_a_buffer_name_it_and_the_index() {
    let (a, b, i) = (buffer("a", 4), buffer("b", 4), Var::index("i"));
    let body = Stmt::for_loop(i.clone(), 0, 4, ForKind::Serial, Stmt::store(b.clone(), &i, Expr::load(&a, &i + 1)));
    let f = func([input(&a), output(&b)], body);
    let args = [Block::from_f32(&[0.0; 4]).into(), Block::uninit(F32, &[4]).into()];
    fails(run(&f, &args), &["out of bounds: `a`[4] is not in 0..4", "i = 3"]);
}

#[test]
fn masked_lanes_touch_nothing() {
    let (a, b, n) = (buffer("a", 5), buffer("b", 8), Var::index("n"));
    let ramp = Expr::int(0).ramp(1, 8);
    let mask = ramp.less(&n);
    let load = Expr::load_masked(&a, &ramp, Some(mask.clone()));
    let f = func(
        [input(&a), output(&b), Param::from_node(ParamNode { var: n, buffer: None, output: false })],
        Stmt::store_masked(b.clone(), &ramp, load * 2.0, Some(mask)),
    );
    let (x, y) = (Block::from_f32(&[1.0, 2.0, 3.0, 4.0, 5.0]), Block::uninit(F32, &[8]));
    run(&f, &[(&x).into(), (&y).into(), 5.into()]).unwrap();
    let known: Vec<Option<f32>> =
        y.known_lanes().into_iter().map(|bits| bits.map(|bits| f32::from_bits(bits as u32))).collect();
    assert_eq!(known[..5], [2.0, 4.0, 6.0, 8.0, 10.0].map(Some));
    assert_eq!(known[5..], [None; 3]);
    fails(run(&f, &[x.into(), y.into(), 6.into()]), &["`a`[5] is not in 0..5", "n = 6"]);
}

#[test]
fn memory_without_a_value_is_found() {
    let (b, t) = (buffer("b", 2), Buffer::new("t", F32, [Expr::int(2)], "local"));
    let body = Stmt::seq([
        Stmt::alloc(t.clone()),
        Stmt::store(t.clone(), 0, Expr::float(F32, 1.0)),
        Stmt::store(b.clone(), 0, Expr::load(&t, 0)),
        Stmt::store(b.clone(), 1, Expr::load(&t, 1)),
    ]);
    let result = Block::uninit(F32, &[2]);
    fails(run(&func([output(&b)], body), &[(&result).into()]), &["`t` is read at byte 4, which has no value"]);
    assert_eq!(result.known_lanes()[0], Some(u64::from(1f32.to_bits())));
}

#[test]
fn races_between_iterations_are_found() {
    let (a, i) = (buffer("a", 8), Var::index("i"));
    let cases: [(Stmt, &str); 3] = [
        (Stmt::store(a.clone(), 0, Expr::float(F32, 1.0)), "iteration 1 writes what iteration 0 writes"),
        (Stmt::store(a.clone(), &i, Expr::load(&a, &i + 1)), "iteration 1 writes what iteration 0 read"),
        (Stmt::store(a.clone(), &i + 1, Expr::load(&a, &i)), "iteration 1 reads what iteration 0 writes"),
    ];
    for (store, message) in cases {
        let parallel = Stmt::for_loop(i.clone(), 0, 4, ForKind::Parallel, store.clone());
        let x = Block::from_f32(&[0.0; 8]);
        fails(run(&func([output(&a)], parallel), &[(&x).into()]), &[message, "the other access is in"]);
        let serial = Stmt::for_loop(i.clone(), 0, 4, ForKind::Serial, store);
        run(&func([output(&a)], serial), &[x.into()]).unwrap();
    }
    let own = Stmt::store(a.clone(), &i * 2, Expr::load(&a, &i * 2 + 1));
    let f = func([output(&a)], Stmt::for_loop(i, 0, 4, ForKind::Parallel, own));
    run(&f, &[Block::from_f32(&[0.0; 8]).into()]).unwrap();
}

/// Each of 8 threads of 2 blocks writes its element to shared memory and reads its neighbour's.
fn reversed(with_barrier: bool) -> LoweredFunc {
    let (a, b) = (buffer("a", 16), buffer("b", 16));
    let s = Buffer::new("s", F32, [Expr::int(8)], "shared");
    let body = thread("blockIdx.x", 2, |block| {
        thread("threadIdx.x", 8, |thread| {
            let mut stmts =
                vec![Stmt::alloc(s.clone()), Stmt::store(s.clone(), thread, Expr::load(&a, block * 8 + thread))];
            if with_barrier {
                stmts.push(sync("shared"));
            }
            stmts.push(Stmt::store(b.clone(), block * 8 + thread, Expr::load(&s, 7 - thread.expr())));
            Stmt::seq(stmts)
        })
    });
    func([input(&a), output(&b)], body)
}

#[test]
fn threads_share_memory_between_barriers() {
    let x: Vec<f32> = (0..16).map(|value| value as f32).collect();
    let (input, output) = (Block::from_f32(&x), Block::uninit(F32, &[16]));
    run(&reversed(true), &[(&input).into(), (&output).into()]).unwrap();
    let expected: Vec<f32> = (0..8).rev().chain((8..16).rev()).map(|value| value as f32).collect();
    assert_eq!(output.to_f32().unwrap(), expected);
    fails(run(&reversed(false), &[input.into(), output.into()]), &["`s`"]);
}

#[test]
fn barriers_have_to_be_reached_by_all() {
    let b = buffer("b", 8);
    let body = thread("threadIdx.x", 8, |thread| {
        Stmt::seq([
            Stmt::if_then(thread.less(4), sync("shared"), None),
            Stmt::store(b.clone(), thread, Expr::float(F32, 0.0)),
        ])
    });
    let f = func([output(&b)], body);
    fails(run(&f, &[Block::uninit(F32, &[8]).into()]), &["divergent barrier", "thread (4, 0, 0)"]);
}
