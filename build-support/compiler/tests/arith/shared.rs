//! Graphs of depth 60 whose trees have 2^60 nodes: no code traverses the tree.

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

use kernpack::structural;
use kernpack_compiler::arith::{Analyzer, IntSet, deduce_bound, detect_linear};
use kernpack_compiler::interpret::{Block, Machine, NOTHING};
use kernpack_compiler::ir::refresh::fresh_copy;
use kernpack_compiler::ir::share::{bind_shared, tree_size};
use kernpack_compiler::ir::verify::{Stage, verify};
use kernpack_compiler::ir::{
    Buffer, CallKind, Expr, F32, ForKind, FuncKind, IrModule, LoweredFunc, LoweredFuncNode, Param, ParamNode, Range,
    Stmt, Var, VarMap, substitute, substitute_stmt, visit,
};
use kernpack_compiler::te::compute;
use kernpack_compiler::{Kernel, PassContext, TargetDescription, pass, text};

const DEPTH: i64 = 60;

/// Runs work that would not terminate if it traversed the tree.
fn within_time(what: &str, work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: not done after a minute"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn sums(x: &Expr) -> Expr {
    (0..DEPTH).fold(x.clone(), |x, step| if step % 2 == 0 { &x ^ &(&x + 1) } else { &x + &x.max(3) })
}

fn floats(x: &Expr) -> Expr {
    (0..DEPTH).fold(x.clone(), |x, _| (&x + &x) * 0.5)
}

fn choices(x: &Expr) -> Expr {
    (0..DEPTH).fold(x.clone(), |x, step| Expr::if_then_else(x.less(step as f32), &x + 1.0, &x * 1.0))
}

/// Both sides use nodes that are not evaluated before.
fn sides(x: &Expr, i: &Var) -> Expr {
    (0..DEPTH).fold(x.clone(), |x, step| {
        Expr::from_node(kernpack_compiler::ir::ExprNode::IfThenElse {
            condition: i.less(step),
            then_value: &x + 1.0,
            else_value: &x - 1.0,
        })
    })
}

fn vectors(x: &Expr) -> Expr {
    (0..DEPTH).fold(x.clone(), |x, _| Expr::select(x.less(2), &x & &(&x + 1), &x | &(&x * 3)))
}

/// `out[i] = value(in[i])` for 8 elements.
fn function(value: impl Fn(&Expr, &Var) -> Expr) -> LoweredFunc {
    let [input, output] = ["input", "output"].map(|name| Buffer::new(name, F32, [Expr::int(8)], "global"));
    let i = Var::index("i");
    let load = Expr::load(&input, &i);
    let store = Stmt::store(output.clone(), &i, value(&load, &i));
    let param =
        |buffer: Buffer, output| Param::from_node(ParamNode { var: buffer.data.clone(), buffer: Some(buffer), output });
    LoweredFunc::from_node(LoweredFuncNode {
        name: "shared".into(),
        params: [param(input, false), param(output, true)].into_iter().collect(),
        ret: NOTHING,
        kind: FuncKind::Mixed,
        thread_axes: Default::default(),
        body: Stmt::for_loop(i, 0, 8, ForKind::Serial, store),
        attrs: Default::default(),
    })
}

fn interpreted(function: &LoweredFunc) -> Vec<f32> {
    let input: Vec<f32> = (0..8).map(|x| x as f32).collect();
    let (input, output) = (Block::from_f32(&input), Block::uninit(F32, &[8]));
    Machine::new(function).unwrap().run("shared", &[(&input).into(), (&output).into()]).unwrap();
    output.to_f32().unwrap()
}

#[test]
fn analysis_looks_at_shared_parts_once() {
    within_time("simplify", || {
        let (x, f) = (Var::index("x"), Var::new("f", F32));
        let mut truth = x.less(1);
        for step in 0..DEPTH {
            truth = truth.and(x.less(step)).or(truth.negated().and(x.greater(step)));
        }
        let analyzer = Analyzer::new();
        for shared in [sums(&x), floats(&f), choices(&f), vectors(&x), vectors(&x.ramp(1, 4)), truth.clone()] {
            let _ = analyzer.simplify(&shared);
            let _ = analyzer.const_interval(&shared);
            let _ = analyzer.modular_set(&shared);
            let _ = analyzer.can_prove(&shared.equals(&shared));
        }
        let _ = analyzer.can_prove(&truth);
        analyzer.enter(&truth);
        analyzer.enter_negation(&truth.and(&truth));
        let _ = analyzer.can_prove(&x.less(0));
        let form = detect_linear(&sums(&x), &[Var::index("y")], &Analyzer::new()).unwrap();
        assert!(form.coefficients[0].is_int(0));
    });
    within_time("sets", || {
        let x = Var::index("x");
        let sets = HashMap::from([(x.clone(), IntSet::of_range(&Range::until(4)))]);
        let analyzer = Analyzer::new();
        for shared in [sums(&x), vectors(&x), (0..DEPTH).fold(x.expr().clone(), |x, _| x.max(5) + x.min(3))] {
            let _ = IntSet::evaluate(&shared, &sets, &analyzer);
        }
        let mut truth = x.less(1);
        for step in 0..DEPTH {
            truth = truth.and(x.less(step)).or(x.greater(step).and(&truth));
        }
        let _ = deduce_bound(&x, &truth, &HashMap::new(), &analyzer);
    });
}

#[test]
fn nested_minima_are_compared_in_reasonable_time() {
    within_time("compare", || {
        let analyzer = Analyzer::new();
        let z = Var::index("z");
        let mut nested = Var::index("v").expr().clone();
        for step in 0..60 {
            let (v, w) = (Var::index("v"), Var::index("w"));
            nested = if step % 2 == 0 { (&nested + &w).min(&v) } else { (&nested - &w).max(&v) };
        }
        let condition = (&nested + &z).less(&Var::index("u") * 2);
        let simple = analyzer.simplify(&condition);
        assert!(matches!(*simple, kernpack_compiler::ir::ExprNode::Compare { .. }), "{simple}");
        assert!(analyzer.can_prove(&nested.less_equal(&nested)));
    });
}

#[test]
fn rewrites_keep_parts_shared() {
    within_time("rewrites", || {
        let (f, g) = (Var::new("f", F32), Var::new("g", F32));
        let shared = choices(&floats(&f));
        assert_eq!(tree_size(&shared), u64::MAX);
        let mut count = 0;
        visit::for_each_expr(&shared, |_| count += 1);
        assert!(count < 20 * DEPTH, "{count} parts");
        let values: VarMap = [(f.clone(), g.expr().clone())].into_iter().collect();
        let replaced = substitute(&shared, &values);
        assert!(visit::uses_var(&replaced, |var| *var == g) && !visit::uses_var(&replaced, |var| *var == f));
        let mut again = 0;
        visit::for_each_expr(&replaced, |_| again += 1);
        assert_eq!(count, again);
        let stmt = Stmt::evaluate(shared);
        let copies = [substitute_stmt(&stmt, &values), fresh_copy(&stmt, values)];
        assert_eq!(structural::hash(&copies[0]).unwrap(), structural::hash(&copies[1]).unwrap());
        let named = copies.map(|copy| bind_shared(&copy).unwrap());
        assert!(structural::equal(&named[0], &named[1]).unwrap());
    });
}

#[test]
fn text_has_names_for_shared_parts() {
    within_time("text", || {
        for function in [function(|x, _| floats(x)), function(|x, _| choices(x)), function(sides)] {
            let printed = text::print(&function);
            assert!(printed.len() < 20_000 && printed.contains("(let shared"), "{} characters", printed.len());
            let parsed = text::parse_func(&printed).unwrap();
            assert_eq!(text::print(&parsed), printed);
            verify(&parsed, Stage::Flat).unwrap();
            assert_eq!(interpreted(&parsed), interpreted(&function));
            let named = bind_shared(&function.body).unwrap();
            let mut count = 0;
            visit::for_each_expr_in(&named, |part| count += tree_size(part).min(u64::from(u32::MAX)));
            assert!(count < 1 << 20);
        }
    });
    within_time("text of what cannot be named", || {
        // A side effect occurs once for each use.
        let call = Expr::call(CallKind::Extern, "next", F32, []);
        let printed = text::print(&Stmt::evaluate(floats(&call)));
        assert!(printed.contains("shared so often"), "{printed}");
        // Reads that are executed only on some paths.
        let a = Buffer::new("a", F32, [Expr::int(8)], "global");
        let i = Var::index("i");
        let mut read = Expr::load(&a, &i);
        for step in 0..DEPTH {
            let inner = Expr::if_then_else(i.less(step), &read * 2.0, 0.0);
            read = Expr::if_then_else(i.greater(step * 2), &read + 1.0, inner);
        }
        let error = bind_shared(&Stmt::evaluate(read)).unwrap_err().to_string();
        assert!(error.contains("give parts that several sides of conditions use a name"), "{error}");
    });
}

#[test]
fn interpreter_passes_and_generators_finish() {
    within_time("functions", || {
        let input: Vec<f32> = (0..8).map(|x| x as f32).collect();
        let floats = function(|x, _| floats(x));
        verify(&floats, Stage::Flat).unwrap();
        assert_eq!(interpreted(&floats), input);
        for function in [floats, function(|x, _| choices(x)), function(sides)] {
            let expected = interpreted(&function);
            let context = PassContext::default();
            let passes = pass::pipeline::of(&context);
            let lowered: LoweredFunc = pass::pipeline::run(function.clone(), &passes, &context).unwrap().to().unwrap();
            assert_eq!(interpreted(&lowered), expected);
            #[cfg(feature = "llvm")]
            for function in [&function, &lowered] {
                use kernpack::Tensor;
                use kernpack_compiler::{build, codegen::Target};
                let module = build(function, &Target::host()).unwrap();
                let a = Tensor::from_slice(&input, &[8]).unwrap();
                let b = Tensor::from_slice(&[0f32; 8], &[8]).unwrap();
                module.function("shared").unwrap().call((&a, &b)).unwrap();
                assert_eq!(b.view::<f32>().unwrap().to_vec(), expected);
            }
            let target = kernpack_compiler::codegen::Target::c();
            let source = kernpack_compiler::codegen::c::build(&IrModule::new([function]), &target);
            assert!(source.unwrap().len() < 200_000);
        }
    });
}

#[test]
fn inlined_stages_stay_a_graph() {
    within_time("te", || {
        let mut kernel = Kernel::new("chain");
        let mut last = kernel.input("a", [8], F32);
        for _ in 0..DEPTH {
            last = compute([8], |[i]| {
                let x = last.at([&i]);
                (&x + &x) * 0.5
            });
        }
        kernel.output("out", last);
        let function = kernel.lower(&TargetDescription::x86_64(), &PassContext::default()).unwrap();
        let input: Vec<f32> = (0..8).map(|x| x as f32).collect();
        let (block, out) = (Block::from_f32(&input), Block::uninit(F32, &[8]));
        Machine::new(&function).unwrap().run("chain", &[(&block).into(), (&out).into()]).unwrap();
        assert_eq!(out.to_f32().unwrap(), input);
    });
}
