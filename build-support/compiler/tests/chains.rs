//! Expressions and tensors whose parts are used twice, 60 and 300 levels deep: the compile time is
//! proportional to their number.
#![cfg(feature = "llvm")]

use std::time::{Duration, Instant};

use kernpack::Tensor as Data;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{Expr, F32, Tensor};
use kernpack_compiler::te::{compute, max, select};
use kernpack_compiler::{Kernel, PassContext, TargetDescription, build};

/// Far above the time for a chain, and far below the time if it doubles with each level.
const LIMIT: Duration = Duration::from_secs(30);

/// The next value, which uses the previous one twice, as an expression and as a function.
type Link = (&'static str, fn(&Expr) -> Expr, fn(f32) -> f32);

const LINKS: &[Link] = &[
    ("square", |x| x * x, |x| x * x),
    ("sum", |x| (x + x) * Expr::float(F32, 0.5), |x| (x + x) * 0.5),
    (
        "choice",
        |x| select(x.less(Expr::float(F32, 0.4)), x + Expr::float(F32, 0.125), x * x),
        |x| if x < 0.4 { x + 0.125 } else { x * x },
    ),
    (
        "lazy choice",
        |x| Expr::if_then_else(x.less(Expr::float(F32, 0.4)), x + Expr::float(F32, 0.125), x * x),
        |x| if x < 0.4 { x + 0.125 } else { x * x },
    ),
    ("maximum", |x| max(x.clone(), x * x), |x| x.max(x * x)),
];

fn values() -> Vec<f32> {
    (0..64).map(|place| place as f32 / 64.0).collect()
}

#[track_caller]
fn check(name: &str, expected: &[f32], chain: impl FnOnce(&Tensor) -> Tensor) {
    let mut kernel = Kernel::new("chain");
    let x = kernel.input("x", [64], F32);
    kernel.output("y", chain(&x));
    let target = Target::host();
    let start = Instant::now();
    let function = kernel.lower(&TargetDescription::of(&target), &PassContext::default());
    let function = function.unwrap_or_else(|error| panic!("{name}: {error}"));
    let module = build(&function, &target).unwrap();
    let took = start.elapsed();
    println!("{name}: {took:.1?}");
    assert!(took < LIMIT, "{name}: {took:?}");
    let (x, y) = (Data::from_slice(&values(), &[64]).unwrap(), Data::zeros::<f32>(&[64]).unwrap());
    module.function("chain").unwrap().call((&x, &y)).unwrap();
    for (got, expected) in y.view::<f32>().unwrap().to_vec().iter().zip(expected) {
        assert!((got - expected).abs() < 1e-5, "{name}: {got} is not {expected}");
    }
}

#[test]
fn expressions_that_use_a_part_twice() {
    for (name, link, number) in LINKS {
        let expected: Vec<f32> = values().into_iter().map(|x| (0..60).fold(x, |x, _| number(x))).collect();
        check(name, &expected, |x| compute([64], |[i]| (0..60).fold(x.at([&i]), |value, _| link(&value))));
    }
}

#[test]
fn tensors_that_read_a_tensor_twice() {
    for (name, link, number) in LINKS {
        let expected: Vec<f32> = values().into_iter().map(|x| (0..300).fold(x, |x, _| number(x))).collect();
        check(name, &expected, |x| (0..300).fold(x.clone(), |last, _| compute([64], |[i]| link(&last.at([&i])))));
    }
}

#[test]
fn tensors_that_read_a_tensor_at_two_places() {
    let step = |last: Vec<f32>, _: i32| (0..64).map(|at| (last[at] + last[(at + 1) % 64]) * 0.5).collect();
    let expected: Vec<f32> = (0..300).fold(values(), step);
    check("neighbours", &expected, |x| {
        (0..300).fold(x.clone(), |last, _| {
            compute([64], |[i]| {
                let next = select((i.expr() + 1).less(64), i.expr() + 1, 0);
                (last.at([i.expr().clone()]) + last.at([next])) * Expr::float(F32, 0.5)
            })
        })
    });
}
