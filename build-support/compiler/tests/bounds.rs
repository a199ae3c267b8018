//! Reads of te kernels: proved reads cost nothing, reads that are certainly out of bounds are build
//! errors, reads that depend on sizes are checked at the entry, and reads that depend on data are
//! errors of the call. In each case the interpreter, which finds every read that is out of bounds,
//! and compiled code agree.

#[path = "bounds/choices.rs"]
mod choices;
#[path = "bounds/parts.rs"]
mod parts;
#[path = "bounds/rows.rs"]
mod rows;

use kernpack::Tensor as Array;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::visit::for_each_stmt;
use kernpack_compiler::ir::{Expr, F32, I64, LoweredFunc, StmtNode};
use kernpack_compiler::te::compute;
use kernpack_compiler::{Kernel, KernelParamKind, PassContext, TargetDescription, build};

use rows::{
    Fate::{Checked, Refused},
    Row, gathers, rows,
};

fn asserts(function: &LoweredFunc) -> usize {
    let mut found = 0;
    for_each_stmt(&function.body, |stmt| found += usize::from(matches!(**stmt, StmtNode::Assert { .. })));
    found
}

/// The elements of an argument: 0, 1, 2, .. which gathers use as indices.
fn elements(count: i64) -> Vec<i64> {
    (0..count).collect()
}

#[test]
fn each_read_is_proved_or_checked() {
    for Row { name, make, fate, calls } in rows().into_iter().chain(parts::rows()).chain(choices::rows()) {
        let mut kernel = Kernel::new("f");
        make(&mut kernel);
        let lowered = kernel.lower(&TargetDescription::of(&Target::host()), &PassContext::default());
        let function = match (lowered, &fate) {
            (Err(error), Refused(part)) => {
                let error = error.to_string();
                assert!(error.contains(part) && error.contains("outside of its extent"), "{name}: {error}");
                continue;
            }
            (Ok(function), Refused(_)) => panic!("{name} is built\n{function}"),
            (function, _) => function.unwrap_or_else(|error| panic!("{name}: {error}")),
        };
        assert_eq!(asserts(&function) > 0, matches!(fate, Checked(_)), "{name}\n{function}");
        let machine = Machine::new(&function).unwrap();
        let module = build(&function, &Target::host()).unwrap();
        let compiled = module.function("f").unwrap();
        for (shapes, is_right) in calls {
            let mut sizes = Vec::new();
            let (mut blocks, mut arrays) = (Vec::new(), Vec::new());
            for (param, shape) in kernel.params().iter().zip(*shapes) {
                let count: i64 = shape.iter().product();
                let tensor = match &param.kind {
                    KernelParamKind::Input(tensor) | KernelParamKind::Output(tensor) => tensor,
                    KernelParamKind::Scalar(_) => unreachable!("tensors only"),
                };
                for (extent, own) in tensor.shape.iter().zip(*shape) {
                    sizes.push((extent, *own));
                }
                let values = elements(count);
                if tensor.dtype == I64 {
                    blocks.push(Block::from_i64(I64, shape, &values));
                    arrays.push(Array::from_slice(&values, shape).unwrap());
                } else {
                    let values: Vec<f64> = values.into_iter().map(|value| value as f64).collect();
                    blocks.push(Block::from_f64(F32, shape, &values));
                    let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
                    arrays.push(Array::from_slice(&values, shape).unwrap());
                }
            }
            let args: Vec<Arg> = blocks.iter().map(Arg::from).collect();
            let interpreted = machine.run("f", &args).map(drop).map_err(|error| error.to_string());
            let args: Vec<kernpack::Any> = arrays.iter().map(|array| kernpack::Any::from(array.clone())).collect();
            let called = compiled.call(args.as_slice()).map(drop).map_err(|error| error.to_string());
            for (by, done) in [("interpreter", &interpreted), ("compiled", &called)] {
                match (&fate, done) {
                    (_, Ok(())) => assert!(is_right, "{name}, {by}: {shapes:?} is no error\n{function}"),
                    (Checked(part), Err(error)) if !is_right => {
                        assert!(error.contains(part), "{name}, {by}: {error}");
                    }
                    (_, Err(error)) => panic!("{name}, {by}: {shapes:?}: {error}\n{function}"),
                }
            }
            if let (true, Some(last), Some(array)) = (*is_right, blocks.last(), arrays.last()) {
                let computed: Vec<f64> = array.view::<f32>().unwrap().to_vec().into_iter().map(f64::from).collect();
                assert_eq!(last.to_f64().unwrap(), computed, "{name}: {shapes:?}");
            }
        }
    }
}

/// A scalar of the caller shifts the reads: the sums wrap where it is large.
#[test]
fn offsets_of_the_caller_are_checked_at_the_entry() {
    let mut k = Kernel::new("f");
    let (n, m) = (k.size("n"), k.size("m"));
    let a = k.input("a", [&n], F32);
    let by = k.scalar("by", I64);
    k.output("out", compute([&m], |[i]| a.at([&(&i + &by)])));
    let function = k.lower(&TargetDescription::of(&Target::host()), &PassContext::default()).unwrap();
    let mut in_loops = 0;
    for_each_stmt(&function.body, |stmt| {
        let StmtNode::For { body, .. } = &**stmt else { return };
        for_each_stmt(body, |part| in_loops += usize::from(matches!(**part, StmtNode::Assert { .. })));
    });
    assert_eq!(in_loops, 0, "{function}");
    let module = build(&function, &Target::host()).unwrap();
    let a = Array::from_slice(&[0f32, 1.0, 2.0, 3.0], &[4]).unwrap();
    for m in [0, 1, 2, 4, 5] {
        for by in [0, 1, 2, 3, 4, -1, -2, i64::MAX, i64::MAX - 1, i64::MIN, i64::MIN + 1, i64::MIN + 3] {
            let out = Array::from_slice(&vec![-1f32; m as usize], &[m]).unwrap();
            let done = module.function("f").unwrap().call((&a, by, &out));
            let inside = m == 0 || by >= 0 && by.checked_add(m).is_some_and(|end| end <= 4);
            assert_eq!(done.is_ok(), inside, "{m} from {by}: {done:?}\n{function}");
            if let Err(error) = done {
                assert!(error.to_string().contains("ValueError: Invalid a.shape[0]"), "{error}");
            } else {
                let expected: Vec<f32> = (0..m).map(|i| (i + by) as f32).collect();
                assert_eq!(out.view::<f32>().unwrap().to_vec(), expected);
            }
        }
    }
}

/// Indices at the limits of their type, in serial, vectorized and parallel loops, and under a
/// condition.
#[test]
fn an_index_from_data_is_an_error_of_the_call() {
    for parallel_work in [0, i64::MAX] {
        for guarded in [false, true] {
            let mut k = Kernel::new("f");
            gathers(&mut k, |a, at, n| {
                let inside = at.greater_equal(0).and(at.less(n));
                if guarded { Expr::if_then_else(inside, a(at.clone()), -1.0) } else { a(at.clone()) }
            });
            let target = TargetDescription { parallel_work, ..TargetDescription::of(&Target::host()) };
            let function = k.lower(&target, &PassContext::default()).unwrap();
            assert_eq!(asserts(&function) > 0, !guarded, "{function}");
            let module = build(&function, &Target::host()).unwrap();
            let a = Array::from_slice(&[5f32, 6.0, 7.0], &[3]).unwrap();
            for (position, wrong) in [3, -1, 4, i64::MIN, i64::MAX, 1 << 32, 1 << 61].into_iter().enumerate() {
                let mut at = [0i64; 40];
                at[position * 5] = wrong;
                let out = Array::from_slice(&[0f32; 40], &[40]).unwrap();
                let done = module.function("f").unwrap().call((&a, &Array::from_slice(&at, &[40]).unwrap(), &out));
                match done {
                    Ok(_) => assert!(guarded && out.view::<f32>().unwrap().to_vec()[position * 5] == -1.0),
                    Err(error) => {
                        let error = error.to_string();
                        assert!(!guarded && error.contains("`f`: `a` is read at index `at["), "{error}");
                    }
                }
            }
        }
    }
}
