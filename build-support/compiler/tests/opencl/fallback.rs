//! Kernels without a schedule for devices, where the rules bind each element to a thread, compared
//! with their versions for CPUs.

use kernpack::{Any, Tensor as Array};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{DataType, F32, ForKind, I64, IrModule, Stmt, Var};
use kernpack_compiler::pass::{PassContext, PassOptions, pipeline};
use kernpack_compiler::te::{argmax, compute, extern_op, math, placeholder, reduce_axis, reduce_max, scan, sum};
use kernpack_compiler::{Kernel, TargetDescription, build};

use crate::machine::{Value, close, device, elements, interpreted, numbers, on_device, source, tensor};

/// The program that the rules and passes for a device make of a kernel.
fn lowered(kernel: &Kernel) -> IrModule {
    let context = PassContext::new(PassOptions { warp_size: 1, ..PassOptions::default() });
    context.pipeline.set(pipeline::device(true));
    kernel.lower_program(&TargetDescription::opencl(), &context).unwrap_or_else(|error| panic!("{error}")).module()
}

fn on_cpu(kernel: &Kernel, values: &[Value]) -> Vec<Vec<f64>> {
    let target = Target::host();
    let function = kernel.lower(&TargetDescription::of(&target), &PassContext::default()).expect("loops");
    let module = build(&function, &target).expect("code");
    let (mut args, mut outputs): (Vec<Any>, Vec<(DataType, Array)>) = (Vec::new(), Vec::new());
    for value in values {
        match value {
            Value::Int(value) => args.push(Any::from(*value)),
            Value::Tensor(dtype, shape, values) => {
                let zeros = || vec![0.0; shape.iter().product::<i64>() as usize];
                let here = tensor(*dtype, shape, &values.clone().unwrap_or_else(zeros));
                if values.is_none() {
                    outputs.push((*dtype, here.clone()));
                }
                args.push(here.into());
            }
        }
    }
    module.function(kernel.name()).expect("it is there").call(&args[..]).expect("a call");
    outputs.iter().map(|(dtype, here)| elements(*dtype, here)).collect()
}

/// Checks that a kernel computes on a device, and in the interpreter, what it computes on the CPU.
fn check(make: impl FnOnce(&mut Kernel), kernels: usize, calls: &[Vec<Value>], tolerance: f64) {
    let mut kernel = Kernel::new("f");
    make(&mut kernel);
    kernel.check().unwrap_or_else(|error| panic!("{error}"));
    let module = lowered(&kernel);
    assert_eq!(source(&module).matches("__kernel").count(), kernels, "{module}");
    for values in calls {
        let wanted = on_cpu(&kernel, values);
        let found = [interpreted(&module, "f", values)].into_iter();
        let device = device().map(|device| on_device(&module, "f", device, values));
        for found in found.chain(device) {
            wanted.iter().zip(&found).for_each(|(wanted, found)| close(wanted, found, tolerance));
        }
    }
}

fn input(dtype: DataType, shape: &[i64], seed: u64) -> Value {
    Value::Tensor(dtype, shape.to_vec(), Some(numbers(seed, shape.iter().product())))
}

fn output(dtype: DataType, shape: &[i64]) -> Value {
    Value::Tensor(dtype, shape.to_vec(), None)
}

#[test]
fn a_product_is_a_loop_of_each_thread() {
    let make = |k: &mut Kernel| {
        let m = k.size("m");
        let (a, w) = (k.input("a", (&m, 40), F32), k.input("w", (24, 40), F32));
        let r = reduce_axis(0, 40, "r");
        let c = compute((&m, 24), |[i, j]| sum(a.at([&i, &r]) * w.at([&j, &r]), &r)).named("c");
        k.output("out", compute((&m, 24), |[i, j]| c.at([&i, &j]).max(0.0)));
    };
    let call = |m| vec![input(F32, &[m, 40], 1), input(F32, &[24, 40], 2), output(F32, &[m, 24])];
    check(make, 2, &[call(0), call(1), call(13)], 0.0);
}

#[test]
fn rows_are_normalized_in_several_kernels() {
    let make = |k: &mut Kernel| {
        let (m, n) = (k.size("m"), k.size("n"));
        let x = k.input("x", (&m, &n), F32);
        let (r, t) = (reduce_axis(0, &n, "r"), reduce_axis(0, &n, "t"));
        let most = compute([&m], |[i]| reduce_max(x.at([&i, &r]), &r)).named("most");
        let e = compute((&m, &n), |[i, j]| math::exp(x.at([&i, &j]) - most.at([&i]))).named("e");
        let total = compute([&m], |[i]| sum(e.at([&i, &t]), &t)).named("total");
        k.output("out", compute((&m, &n), |[i, j]| e.at([&i, &j]) / total.at([&i])));
    };
    let call = |m, n| vec![input(F32, &[m, n], 1), output(F32, &[m, n])];
    check(make, 4, &[call(1, 1), call(5, 100), call(70, 3)], 1e-6);
}

#[test]
fn a_tensor_without_dimensions_is_computed_by_one_thread() {
    let make = |k: &mut Kernel| {
        let n = k.size("n");
        let a = k.input("a", [&n], F32);
        let r = reduce_axis(0, &n, "r");
        let total = compute((), |[]| sum(a.at([&r]), &r)).named("total");
        k.output("total", total.clone());
        k.output("parts", compute([&n], |[i]| a.at([&i]) - total.at(())));
    };
    let call = |n| vec![input(F32, &[n], 1), output(F32, &[]), output(F32, &[n])];
    check(make, 2, &[call(0), call(100)], 0.0);
}

#[test]
fn a_reduction_has_several_results() {
    let make = |k: &mut Kernel| {
        let (m, n) = (k.size("m"), k.size("n"));
        let x = k.input("x", (&m, &n), F32);
        let r = reduce_axis(0, &n, "r");
        let [index, value] = compute([&m], |[i]| argmax(r.var.expr(), x.at([&i, &r]), &r));
        k.output("index", index);
        k.output("value", value);
    };
    let call = |m, n| vec![input(F32, &[m, n], 3), output(I64, &[m]), output(F32, &[m])];
    check(make, 1, &[call(1, 1), call(67, 10)], 0.0);
}

#[test]
fn steps_of_a_scan_are_kernels() {
    let make = |k: &mut Kernel| {
        let (m, n) = (k.size("m"), k.size("n"));
        let x = k.input("x", (&m, &n), F32);
        let state = placeholder((&m, &n), F32, "state");
        let init = compute((1, &n), |[_, i]| x.at((0, &i))).named("init");
        let update = compute((&m, &n), |[t, i]| state.at((&t - 1, &i)) + x.at([&t, &i])).named("update");
        let [sums] = scan([&init], [&update], [&state]);
        k.output("out", compute((&m, &n), |[t, i]| sums.at([&t, &i]) * 2.0));
    };
    let call = |m, n| vec![input(F32, &[m, n], 1), output(F32, &[m, n])];
    check(make, 3, &[call(1, 5), call(6, 70)], 0.0);
}

/// Statements of the user run in one thread, between kernels of many.
#[test]
fn statements_run_in_one_thread() {
    let make = |k: &mut Kernel| {
        let n = k.size("n");
        let a = k.input("a", [&n], F32);
        let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
        let c = extern_op("reversed", [&b]).output([&n], F32).body(|inputs, outputs| {
            let i = Var::index("i");
            let back = inputs[0].read((n.expr() - 1 - &i,));
            Stmt::for_loop(i.clone(), 0, &n, ForKind::Serial, outputs[0].write([&i], back))
        });
        k.output("out", compute([&n], |[i]| c[0].at([&i]) * 100.0 + a.at([&i])));
    };
    let call = |n| vec![input(F32, &[n], 1), output(F32, &[n])];
    check(make, 3, &[call(1), call(100)], 0.0);
}

/// The host checks sizes before it launches; what depends on data cannot be checked there.
#[test]
fn reads_are_checked_where_they_can_be() {
    let mut by_size = Kernel::new("by_size");
    let (m, n) = (by_size.size("m"), by_size.size("n"));
    let a = by_size.input("a", [&m], F32);
    by_size.output("out", compute([&n], |[i]| a.at([&i]) * 2.0));
    let module = lowered(&by_size);
    if let Some(device) = device() {
        let call = |m: i64, n: i64| on_device(&module, "by_size", device, &[input(F32, &[m], 1), output(F32, &[n])]);
        assert_eq!(call(5, 3)[0].len(), 3);
        let failed = std::panic::catch_unwind(|| call(3, 5)).expect_err("an error");
        let failed = failed.downcast_ref::<String>().expect("its text");
        assert!(failed.contains("ValueError"), "{failed}");
    }

    let mut by_data = Kernel::new("by_data");
    let (m, n) = (by_data.size("m"), by_data.size("n"));
    let (a, at) = (by_data.input("a", [&m], F32), by_data.input("at", [&n], I64));
    by_data.output("out", compute([&n], |[i]| a.at([&at.at([&i])])));
    let context = PassContext::default();
    context.pipeline.set(pipeline::device(true));
    let Err(error) = by_data.lower_program(&TargetDescription::opencl(), &context) else { panic!("it is not checked") };
    let error = error.to_string();
    let expected = "LowerError: `by_data`: `a` is read at index `at[";
    assert!(error.starts_with(expected) && error.contains("k.devices([\"cpu\"])"), "{error}");
    // A limited index needs no check but that of the size.
    let mut limited = Kernel::new("limited");
    let (m, n) = (limited.size("m"), limited.size("n"));
    let (a, at) = (limited.input("a", [&m], F32), limited.input("at", [&n], I64));
    limited.output("out", compute([&n], |[i]| a.at([at.at([&i]).max(0).min(&m - 1)])));
    assert!(!source(&lowered(&limited)).is_empty());
}

/// A user's schedule is for the devices that it names.
#[test]
fn schedules_are_for_their_devices() {
    let mut k = Kernel::new("double");
    let n = k.size("n");
    let x = k.input("x", [&n], F32);
    let y = compute([&n], |[i]| x.at([&i]) * 2.0).named("y");
    k.output("y", y.clone());
    let (cpu, opencl) = (TargetDescription::x86_64_v3(), TargetDescription::opencl());
    k.schedule(|_, target| {
        assert!(target.is_cpu());
        Ok(())
    });
    assert!(k.is_scheduled_for(&cpu) && !k.is_scheduled_for(&opencl));
    k.schedule_for("opencl", move |s, target| {
        assert_eq!(target.device.as_str(), "opencl");
        let [i] = s.stage(&y).axes()?;
        let (block, thread) = s.stage(&y).split(&i, 16)?;
        s.stage(&y).bind(&block, &kernpack_compiler::te::thread_axis(None, "blockIdx.x"))?;
        s.stage(&y).bind(&thread, &kernpack_compiler::te::thread_axis(None, "threadIdx.x")).map(drop)
    });
    assert!(k.is_scheduled_for(&opencl));
    k.lower(&cpu, &PassContext::default()).expect("loops");
    let source = source(&lowered(&k));
    assert!(source.contains("reqd_work_group_size(16, 1, 1)"), "{source}");

    k.schedule_for("openc1", |_, _| Ok(()));
    k.devices(["cpu", "metal"]);
    let error = k.check().expect_err("unknown devices").to_string();
    assert!(error.contains("schedule_for: kernel `double`: unknown device `openc1`"), "{error}");
    assert!(error.contains("devices: kernel `double`: unknown device `metal`"), "{error}");
    assert!(error.contains("kernels are compiled for cpu, opencl"), "{error}");
}
