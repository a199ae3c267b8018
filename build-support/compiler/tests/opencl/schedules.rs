//! Schedules of tensor expressions.

use kernpack::{Any, Device};
use kernpack_compiler::Result;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{DataType, F32, F64, I32, IrModule, Tensor, Var};
use kernpack_compiler::pass::pipeline::{DEVICE, run};
use kernpack_compiler::pass::{PassContext, PassOptions, Program};
use kernpack_compiler::schedule::{Argument, Schedule, create_schedule, lower_function};
use kernpack_compiler::te::{compute, math, placeholder, reduce_axis, reduce_max, size, sum, thread_axis};

use crate::machine::{
    Value, check, close, device, devices, elements, interpreted, numbers, on_device, part, source, tensor,
};

/// The program that the passes for a device make of a schedule; `args` are tensors and sizes.
fn lowered(args: &[Argument], outputs: &[&Tensor], make: impl FnOnce(&mut Schedule) -> Result<()>) -> IrModule {
    let ops: Vec<_> = outputs.iter().map(|tensor| tensor.op.clone()).collect();
    let mut schedule = create_schedule(&ops);
    make(&mut schedule).expect("a schedule");
    let context = PassContext::new(PassOptions { warp_size: 1, ..PassOptions::default() });
    let function = lower_function(&schedule, args, "f", &context).expect("loops");
    let passes = DEVICE.iter().map(|name| Any::from(*name)).collect();
    let program = run(function, &passes, &context).expect("passes");
    Program::of(&program).expect("a program").module()
}

/// Binds the elements of a stage to blocks of this many threads.
fn bind(s: &mut Schedule, tensor: &Tensor, threads: i64) -> Result<()> {
    let fused = s.stage(tensor).fuse_all(&[])?;
    let (outer, inner) = s.stage(tensor).split(&fused, threads)?;
    s.stage(tensor).bind(&outer, &thread_axis(None, "blockIdx.x"))?;
    s.stage(tensor).bind(&inner, &thread_axis(None, "threadIdx.x")).map(drop)
}

fn input(dtype: DataType, shape: &[i64], seed: u64) -> Value {
    Value::Tensor(dtype, shape.to_vec(), Some(numbers(seed, shape.iter().product())))
}

fn output(dtype: DataType, shape: &[i64]) -> Value {
    Value::Tensor(dtype, shape.to_vec(), None)
}

fn args(tensors: &[&Tensor], sizes: &[&Var]) -> Vec<Argument> {
    tensors.iter().map(|tensor| Argument::from(*tensor)).chain(sizes.iter().map(|size| Argument::from(*size))).collect()
}

#[test]
fn elements_are_computed_by_threads() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) * 2.0 + 1.0).named("b");
    let module = lowered(&args(&[&a, &b], &[]), &[&b], |s| bind(s, &b, 64));
    for n in [1, 63, 64, 1000] {
        check(&module, "f", &[input(F32, &[n], 1), output(F32, &[n])], 0.0);
    }
}

/// Blocks of 64 by 64 elements of a product, with 16 by 16 threads of 4 by 4 elements, and operands
/// in shared memory. Sizes that are not multiples of the blocks need guards.
#[test]
fn a_product_in_tiles_is_computed_in_shared_memory() {
    let n = 200;
    let (a, b) = (placeholder([n, n], F32, "a"), placeholder([n, n], F32, "b"));
    let k = reduce_axis(0, n, "k");
    let c = compute([n, n], |[i, j]| sum(a.at([&i, &k]) * b.at([&k, &j]), &k)).named("c");
    let module = lowered(&args(&[&a, &b, &c], &[]), &[&c], |s| {
        let cl = s.cache_write(&c, "local")?;
        let (ashared, bshared) = (s.cache_read(&a, "shared", [&cl])?, s.cache_read(&b, "shared", [&cl])?);
        let blocks = [thread_axis(None, "blockIdx.y"), thread_axis(None, "blockIdx.x")];
        let threads = [thread_axis(Some(16), "threadIdx.y"), thread_axis(Some(16), "threadIdx.x")];
        let [i, j] = s.stage(&c).axes()?;
        let (io, jo, ii, ji) = s.stage(&c).tile(&i, &j, 64, 64)?;
        let (it, ii) = s.stage(&c).split(&ii, 4)?;
        let (jt, ji) = s.stage(&c).split(&ji, 4)?;
        s.stage(&c).reorder([&io, &jo, &it, &jt, &ii, &ji])?;
        s.stage(&c).bind(&io, &blocks[0])?.bind(&jo, &blocks[1])?;
        s.stage(&c).bind(&it, &threads[0])?.bind(&jt, &threads[1])?;
        s.stage(&cl).compute_at(&c, &jt)?;
        let [r] = s.stage(&cl).reduce_axes()?;
        let (ko, ki) = s.stage(&cl).split(&r, 8)?;
        let [x, y] = s.stage(&cl).axes()?;
        s.stage(&cl).reorder([&ko, &ki, &x, &y])?;
        for copy in [&ashared, &bshared] {
            s.stage(copy).compute_at(&cl, &ko)?;
            let fused = s.stage(copy).fuse_all(&[])?;
            let (rest, tx) = s.stage(copy).split(&fused, 16)?;
            let (_, ty) = s.stage(copy).split(&rest, 16)?;
            s.stage(copy).bind(&tx, &threads[1])?.bind(&ty, &threads[0])?;
        }
        Ok(())
    });
    let Some(device) = device() else { return };
    let (a, b) = (numbers(1, n * n), numbers(2, n * n));
    let values = [input(F32, &[n, n], 1), input(F32, &[n, n], 2), output(F32, &[n, n])];
    let found = on_device(&module, "f", device, &values);
    let size = n as usize;
    let mut wanted = vec![0.0; size * size];
    for i in 0..size {
        for (k, x) in a[i * size..(i + 1) * size].iter().enumerate() {
            for (wanted, y) in wanted[i * size..(i + 1) * size].iter_mut().zip(&b[k * size..(k + 1) * size]) {
                *wanted += x * y;
            }
        }
    }
    // All values and sums are small integers.
    close(&wanted, &found[0], 0.0);
}

#[test]
fn threads_of_a_block_reduce_a_row() {
    let (rows, columns) = (5, 300);
    let x = placeholder([rows, columns], F32, "x");
    let (k, k2) = (reduce_axis(0, columns, "k"), reduce_axis(0, columns, "k2"));
    let largest = compute([rows], |[i]| reduce_max(x.at([&i, &k]), &k)).named("largest");
    let total = compute([rows], |[i]| sum(math::exp(x.at([&i, &k2]) - largest.at([&i])), &k2)).named("total");
    let y = compute([rows, columns], |[i, j]| math::exp(x.at([&i, &j]) - largest.at([&i])) / total.at([&i])).named("y");
    let module = lowered(&args(&[&x, &y], &[]), &[&y], |s| {
        let (block, thread) = (thread_axis(None, "blockIdx.x"), thread_axis(Some(32), "threadIdx.x"));
        let [i, j] = s.stage(&y).axes()?;
        let (jo, ji) = s.stage(&y).split(&j, 32)?;
        s.stage(&y).reorder([&i, &ji, &jo])?.bind(&i, &block)?.bind(&ji, &thread)?;
        for (row, axis) in [(&largest, &k), (&total, &k2)] {
            let (_, inner) = s.stage(row).split(axis, 32)?;
            let part = s.rfactor(row, &inner)?;
            s.stage(row).compute_at(&y, &i)?.set_scope("shared")?;
            let [own] = s.stage(row).reduce_axes()?;
            s.stage(row).bind(&own, &thread)?;
            s.stage(&part).compute_at(row, &own)?;
        }
        Ok(())
    });
    check(&module, "f", &[input(F32, &[rows, columns], 1), output(F32, &[rows, columns])], 1e-6);
}

#[test]
fn vectors_are_loaded_and_stored_whole() {
    for (dtype, lanes) in [(F32, 4), (F64, 2), (I32, 8), (DataType::INT8, 16), (F32, 3)] {
        let n = size("n");
        let a = placeholder([n.expr() * lanes], dtype, "a");
        let b = compute([n.expr() * lanes], |[i]| (a.at([&i]) + a.at([&i])).max(a.at([&i]) * a.at([&i]))).named("b");
        let module = lowered(&args(&[&a, &b], &[&n]), &[&b], |s| {
            let [i] = s.stage(&b).axes()?;
            let (outer, inner) = s.stage(&b).split(&i, lanes)?;
            let (block, thread) = s.stage(&b).split(&outer, 8)?;
            s.stage(&b).bind(&block, &thread_axis(None, "blockIdx.x"))?;
            s.stage(&b).bind(&thread, &thread_axis(None, "threadIdx.x"))?.vectorize(&inner).map(drop)
        });
        for n in [1, 8, 19] {
            let shape = [n * lanes];
            check(&module, "f", &[input(dtype, &shape, 1), output(dtype, &shape), Value::Int(n)], 0.0);
        }
        let source = source(&module);
        assert!(source.contains(&format!("vload{lanes}(0, a + ")), "{source}");
        assert!(source.contains(&format!("vstore{lanes}(")), "{source}");
    }
}

#[test]
fn kernels_pass_tensors_on_in_memory_of_the_device() {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) * 2.0).named("b");
    let c = compute([&n], |[i]| b.at([n.expr() - 1 - i.expr()]) + a.at([&i])).named("c");
    let module = lowered(&args(&[&a, &c], &[]), &[&c], |s| {
        bind(s, &b, 16)?;
        bind(s, &c, 32)
    });
    assert_eq!(source(&module).matches("__kernel").count(), 2);
    for n in [1, 40] {
        check(&module, "f", &[input(F32, &[n], 1), output(F32, &[n])], 0.0);
    }
    // Launches and temporary memory are on the device of the tensors.
    let values = [input(F32, &[40], 1), output(F32, &[40])];
    let wanted = interpreted(&module, "f", &values);
    for device in devices() {
        close(&wanted[0], &on_device(&module, "f", device, &values)[0], 0.0);
    }
}

#[test]
fn a_view_begins_anywhere_in_its_memory() {
    let n = size("n");
    let (a, x) = (placeholder([&n], F32, "a"), kernpack_compiler::te::var("x", F32));
    let b = compute([&n], |[i]| a.at([&i]) * &x).named("b");
    let arguments: Vec<Argument> = [Argument::from(&a), Argument::from(&b), Argument::from(&x)].into();
    let module = lowered(&arguments, &[&b], |s| bind(s, &b, 8));
    let Some(device) = device() else { return };
    let built = kernpack_compiler::build_device(&module, &Target::parse("opencl").unwrap()).unwrap();
    let function = built.function("f").unwrap();
    let whole = tensor(F32, &[12], &numbers(1, 12)).to(device).unwrap();
    let result = tensor(F32, &[12], &[0.0; 12]).to(device).unwrap();
    // An odd number of elements: no sub-buffer begins there.
    let (from, into) = (part(&whole, 3, 5), part(&result, 5, 5));
    function.call((&from, &into, 2.0)).unwrap();
    let found = elements(F32, &result.to(Device::CPU).unwrap());
    let mut wanted = vec![0.0; 12];
    for (wanted, value) in wanted[5..10].iter_mut().zip(&numbers(1, 12)[3..8]) {
        *wanted = value * 2.0;
    }
    close(&wanted, &found, 0.0);
    // Parts of one block of memory overlap by their offsets.
    function.call((&part(&whole, 0, 6), &part(&whole, 6, 6), 1.0)).unwrap();
    let error = function.call((&part(&whole, 0, 6), &part(&whole, 5, 6), 1.0)).unwrap_err();
    assert!(error.message().contains("b overlaps another argument on argument #1"), "{error}");
    // Tensors of the host are not on the device.
    let here = tensor(F32, &[12], &numbers(1, 12));
    let error = function.call((&here, &result, 1.0)).unwrap_err();
    assert!(error.message().contains("Mismatched a.device_type on argument #0"), "{error}");
    assert!(error.message().contains("expected opencl"), "{error}");
}
