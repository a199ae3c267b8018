//! Kernels from the closure to loops, by rules: evaluated by the interpreter.

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::F32;
use kernpack_compiler::te::{compute, reduce_axis, sum};
use kernpack_compiler::{Kernel, PassContext, TargetDescription};

fn targets() -> Vec<TargetDescription> {
    vec![
        TargetDescription::x86_64(),
        TargetDescription::x86_64_v3(),
        TargetDescription::x86_64_v4(),
        TargetDescription::aarch64(),
    ]
}

const SIZES: [i64; 10] = [0, 1, 2, 3, 7, 8, 9, 31, 33, 65];

#[test]
fn elementwise() {
    let mut k = Kernel::new("f");
    let (m, n) = (k.size("m"), k.size("n"));
    let x = k.input("x", [&m, &n], F32);
    let bias = k.input("bias", [&n], F32);
    k.output("out", compute([&m, &n], |[i, j]| (x.at([&i, &j]) * 2.0 + bias.at([&j])).max(0.0)));
    for target in targets() {
        let context = PassContext::default();
        let function = k.lower(&target, &context).unwrap();
        let machine = Machine::new(&function).unwrap();
        for (m, n) in SIZES.into_iter().zip(SIZES.into_iter().rev()) {
            let values: Vec<f32> = (0..m * n).map(|value| (value % 17 - 8) as f32).collect();
            let bias: Vec<f32> = (0..n).map(|value| value as f32).collect();
            let out = Block::uninit(F32, &[m, n]);
            let args = [
                Arg::from(&Block::from_f32(&values).reshaped(&[m, n])),
                Arg::from(&Block::from_f32(&bias)),
                Arg::from(&out),
            ];
            machine.run("f", &args).unwrap_or_else(|error| panic!("{}: {m} x {n}: {error}", target.name));
            let expected: Vec<f32> =
                values.iter().enumerate().map(|(at, x)| (x * 2.0 + bias[at % n as usize]).max(0.0)).collect();
            assert_eq!(out.to_f32().unwrap(), expected, "{}: {m} x {n}", target.name);
        }
    }
}

#[test]
fn product() {
    for (m, n, depth) in [(1, 1, 1), (2, 3, 4), (33, 17, 5), (14, 32, 7), (29, 70, 9)] {
        for symbolic in [false, true] {
            let mut k = Kernel::new("f");
            let rows = if symbolic { k.size("m").expr().clone() } else { m.into() };
            let a = k.input("a", (&rows, depth), F32);
            let b = k.input("b", (n, depth), F32);
            let r = reduce_axis(0, depth, "r");
            let c = compute((&rows, n), |[i, j]| sum(a.at([&i, &r]) * b.at([&j, &r]), &r)).named("c");
            k.output("out", compute((&rows, n), |[i, j]| c.at([&i, &j]) + 1.0));
            for target in targets() {
                let context = PassContext::default();
                let function = k.lower(&target, &context).unwrap();
                let machine = Machine::new(&function).unwrap();
                let values = |count: i64| (0..count).map(|value| (value % 7 - 3) as f32).collect::<Vec<_>>();
                let (left, right) = (values(m * depth), values(n * depth));
                let out = Block::uninit(F32, &[m, n]);
                let args = [
                    Arg::from(&Block::from_f32(&left).reshaped(&[m, depth])),
                    Arg::from(&Block::from_f32(&right).reshaped(&[n, depth])),
                    Arg::from(&out),
                ];
                machine.run("f", &args).unwrap_or_else(|error| panic!("{}: {m} {n} {depth}: {error}", target.name));
                let expected: Vec<f32> = (0..m * n)
                    .map(|at| {
                        let (i, j) = (at / n, at % n);
                        (0..depth)
                            .map(|k| left[(i * depth + k) as usize] * right[(j * depth + k) as usize])
                            .sum::<f32>()
                            + 1.0
                    })
                    .collect();
                assert_eq!(out.to_f32().unwrap(), expected, "{}: {m} {n} {depth}", target.name);
            }
        }
    }
}
