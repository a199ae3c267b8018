//! Loads and stores that are checked at run time, by the option `instrument_bound_checkers`.

use kernpack::{Any, Array, Tensor};
use kernpack_compiler::build;
use kernpack_compiler::codegen::{Target, c};
use kernpack_compiler::ir::{
    Buffer, Expr, F32, ForKind, I64, IrModule, LoweredFunc, Stmt, StmtNode, Var, visit::for_each_stmt,
};
use kernpack_compiler::pass::{PassContext, PassOptions, pipeline};
use kernpack_compiler::te::{compute, reduce_axis, sum};
use kernpack_compiler::{Kernel, TargetDescription};

use crate::{function, tensor};

fn checked() -> PassContext {
    PassContext::new(PassOptions { instrument_bound_checkers: true, ..PassOptions::default() })
}

fn lowered(function: LoweredFunc, context: &PassContext) -> LoweredFunc {
    pipeline::run(function, &pipeline::of(context), context).unwrap().to().unwrap()
}

fn asserts(function: &LoweredFunc) -> usize {
    let mut found = 0;
    for_each_stmt(&function.body, |stmt| found += usize::from(matches!(**stmt, StmtNode::Assert { .. })));
    found
}

/// `out[i] = a[at[i]]`, guarded by `where_` if `is_guarded`.
fn gather(kind: ForKind, lanes: i64, is_guarded: bool) -> LoweredFunc {
    let n = Var::size("n", I64);
    let m = Var::size("m", I64);
    let (at, out) =
        (Buffer::new("at", I64, [n.expr().clone()], "global"), Buffer::new("out", F32, [n.expr().clone()], "global"));
    let a = Buffer::new("a", F32, [m.expr().clone()], "global");
    let (i, lane) = (Var::index("i"), Var::index("lane"));
    let place = if lanes == 1 { i.expr().clone() } else { &i * lanes + &lane };
    let from = Expr::load(&at, &place);
    let value = if is_guarded {
        Expr::if_then_else(from.greater_equal(0).and(from.less(&m)), Expr::load(&a, &from), Expr::float(F32, -1.0))
    } else {
        Expr::load(&a, &from)
    };
    let store = Stmt::store(out.clone(), &place, value);
    let body = if lanes == 1 {
        Stmt::for_loop(i, 0, &n, kind, store)
    } else {
        let guarded = Stmt::if_then(place.less(&n).likely(), store, None);
        let inner = Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, guarded);
        Stmt::for_loop(i, 0, n.expr().ceil_div(lanes), kind, inner)
    };
    function("gather", [&a, &at, &out].map(tensor), body)
}

#[test]
fn an_index_outside_is_an_error() {
    for (kind, lanes) in [(ForKind::Serial, 1), (ForKind::Parallel, 1), (ForKind::Serial, 8)] {
        for is_guarded in [false, true] {
            let plain = lowered(gather(kind, lanes, is_guarded), &PassContext::default());
            assert_eq!(asserts(&plain), 0);
            let function = lowered(gather(kind, lanes, is_guarded), &checked());
            assert!(asserts(&function) >= 2, "{function}");
            let module = build(&function, &Target::host()).unwrap();
            let gather = module.function("gather").unwrap();
            let a = Tensor::from_slice(&[5f32, 6.0, 7.0], &[3]).unwrap();
            let run = |places: &[i64]| {
                let at = Tensor::from_slice(places, &[places.len() as i64]).unwrap();
                let out = Tensor::from_slice(&vec![0f32; places.len()], &[places.len() as i64]).unwrap();
                let done = gather.call((&a, &at, &out)).map(drop);
                done.map(|()| out.view::<f32>().unwrap().to_vec()).map_err(|error| error.to_string())
            };
            // Nine elements: the last vector has a mask, and masked lanes are not checked.
            assert_eq!(run(&[0, 1, 2, 0, 1, 2, 0, 1, 2]).unwrap(), [5.0, 6.0, 7.0, 5.0, 6.0, 7.0, 5.0, 6.0, 7.0]);
            for wrong in [3, -1, i64::MIN, i64::MAX] {
                let mut places = [0i64; 9];
                places[8] = wrong;
                let result = run(&places);
                if is_guarded {
                    assert_eq!(result.unwrap_or_else(|error| panic!("{error}\n{function}"))[8], -1.0);
                    continue;
                }
                let error = result.unwrap_err();
                assert!(error.starts_with("RuntimeError: `a` is read at index `") && error.contains("at["), "{error}");
                assert!(error.contains("which is outside of its m elements"), "{error}");
            }
        }
    }
}

#[test]
fn stores_and_strides_are_checked() {
    let n = Var::size("n", I64);
    let out = Buffer::new("out", F32, [n.expr().clone()], "global");
    let rows = [(1u16, 0i64, 8i64, true), (1, 0, 9, false), (1, -1, 8, false), (1, -5, -5, true)];
    for (lanes, first, last, is_right) in rows.into_iter().chain([(4, 0, 2, true), (4, 0, 3, false), (4, -1, 1, false)])
    {
        let i = Var::index("i");
        let (index, value) = match lanes {
            1 => (i.expr().clone(), Expr::float(F32, 1.0)),
            // Reversed: the last lane is the first element.
            _ => ((&i * 4 + 3).ramp(-1, 4), Expr::float(F32, 1.0).broadcast(4)),
        };
        let store = Stmt::store(out.clone(), index, value);
        let body = Stmt::for_loop(i, first, last - first, ForKind::Serial, store);
        let module = build(&lowered(function("f", [tensor(&out)], body), &checked()), &Target::host()).unwrap();
        let out = Tensor::from_slice(&[0f32; 8], &[8]).unwrap();
        let done = module.function("f").unwrap().call((&out,));
        match done {
            Ok(_) => assert!(is_right, "{first}..{last} by {lanes}"),
            Err(error) => {
                assert!(!is_right, "{first}..{last} by {lanes}: {error}");
                assert!(error.to_string().starts_with("RuntimeError: `out` is written at index `"), "{error}");
            }
        }
    }
}

/// Kernels of the rules pass their checks, and C has the same checks.
#[test]
fn kernels_stay_inside() {
    let mut k = Kernel::new("product");
    let (m, n, depth) = (k.size("m"), k.size("n"), k.size("depth"));
    let (a, b) = (k.input("a", [&m, &depth], F32), k.input("b", [&depth, &n], F32));
    let r = reduce_axis(0, depth.expr(), "r");
    k.output("out", compute([&m, &n], |[i, j]| sum(a.at([&i, &r]) * b.at([&r, &j]), &r)));
    let function = k.lower(&TargetDescription::of(&Target::host()), &checked()).unwrap();
    assert!(asserts(&function) > 3, "{function}");
    let module = build(&function, &Target::host()).unwrap();
    for (m, n, depth) in [(1i64, 1i64, 1i64), (13, 37, 5), (30, 70, 9), (0, 3, 2)] {
        let numbers = |count: i64| (0..count).map(|at| (at % 7) as f32).collect::<Vec<_>>();
        let (x, y) = (numbers(m * depth), numbers(depth * n));
        let (a, b) = (Tensor::from_slice(&x, &[m, depth]).unwrap(), Tensor::from_slice(&y, &[depth, n]).unwrap());
        let out = Tensor::from_slice(&vec![0f32; (m * n) as usize], &[m, n]).unwrap();
        module.function("product").unwrap().call((&a, &b, &out)).unwrap();
        let expected = (0..m * n).map(|at| {
            let (i, j) = (at / n, at % n);
            (0..depth).map(|r| x[(i * depth + r) as usize] * y[(r * n + j) as usize]).sum::<f32>()
        });
        assert_eq!(out.view::<f32>().unwrap().to_vec(), expected.collect::<Vec<_>>());
    }
    let source = c::build(&IrModule::new([gather_checked()]), &Target::c()).unwrap();
    assert!(source.contains("`a` is read at index `at["), "{source}");
    let passes: Array<Any> = pipeline::of(&PassContext::default());
    assert_eq!(passes.iter().last().unwrap().to::<String>().unwrap(), "InstrumentBoundCheckers");
}

fn gather_checked() -> LoweredFunc {
    lowered(gather(ForKind::Serial, 1, false), &checked())
}
