//! Programs of real kernels parse to the same program after every pass.

use kernpack::structural::Options;
use kernpack_compiler::ir::{Expr, F32, IrModule};
use kernpack_compiler::pass::PassOptions;
use kernpack_compiler::te::{compute, exp, max, reduce_axis, reduce_max, sum};
use kernpack_compiler::{Kernel, PassContext, TargetDescription, text};

fn product() -> Kernel {
    let mut k = Kernel::new("product");
    let (m, n) = (k.size("m"), k.size("n"));
    let a = k.input("a", [&m, &n], F32);
    let w = k.input("w", [Expr::from(&n), Expr::int(40)], F32);
    let r = reduce_axis(0, &n, "r");
    let c = compute([Expr::from(&m), Expr::int(40)], |[i, j]| sum(a.at([&i, &r]) * w.at([&r, &j]), &r));
    k.output("out", compute([Expr::from(&m), Expr::int(40)], |[i, j]| max(c.at([&i, &j]), 0.0)));
    k
}

fn softmax() -> Kernel {
    let mut k = Kernel::new("softmax");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let (r, s) = (reduce_axis(0, &n, "r"), reduce_axis(0, &n, "s"));
    let most = compute([&m], |[i]| reduce_max(x.at([&i, &r]), &r));
    let powers = compute([&m, &n], |[i, j]| exp(x.at([&i, &j]) - most.at([&i])));
    let total = compute([&m], |[i]| sum(powers.at([&i, &s]), &s));
    k.output("out", compute([&m, &n], |[i, j]| powers.at([&i, &j]) / total.at([&i])));
    k
}

fn stencil() -> Kernel {
    let mut k = Kernel::new("stencil");
    let (h, w) = (k.size("h"), k.size("w"));
    let x = k.input("x", [&h, &w], F32);
    let out = compute([&h, &w], |[i, j]| {
        let inside = i.greater(0).and(i.less(&h - 1)).and(j.greater(0)).and(j.less(&w - 1));
        let here = x.at([&i, &j]);
        Expr::if_then_else(inside, x.at((&i - 1, &j)) + x.at((&i, &j + 1)) - &here, here)
    });
    k.output("out", out);
    k
}

#[test]
fn programs_read_back_after_each_pass() {
    for kernel in [product(), softmax(), stencil()] {
        for target in [TargetDescription::x86_64_v3(), TargetDescription::x86_64_v4()] {
            let context = PassContext::new(PassOptions { dump: true, ..PassOptions::default() });
            let function = kernel.lower(&target, &context).unwrap();
            let module = IrModule::new([function]);
            let last = text::parse(&text::print(&module)).unwrap();
            let difference = Options::new().first_mismatch(&module, &last).unwrap();
            assert!(difference.is_none(), "{difference:?} in\n{}", text::print(&module));
            let dumps = context.take_dumps();
            assert!(dumps.len() > 5, "{} dumps", dumps.len());
            for (pass, printed) in dumps {
                let again = text::parse(&printed).unwrap_or_else(|error| panic!("{pass}: {error}\n{printed}"));
                assert_eq!(text::print(&again), printed, "{pass}");
            }
        }
    }
}
