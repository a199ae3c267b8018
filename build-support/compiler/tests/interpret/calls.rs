//! Calls: of the same module, of the test's functions, of packed functions with FFI values in
//! memory.

use kernpack_compiler::interpret::{Arg, Block, Machine, PackedValue};
use kernpack_compiler::ir::{F32, I64};
use kernpack_compiler::text;

use crate::{fails, run_text};

#[test]
fn functions_of_a_module_call_each_other() {
    let source = "func f(o: mut f32[2], n: i64) {
        o[1] = function \"power\"::<f32>(2.0, n)
        function \"clear\"::<i32>(o.data)
    }
    internal func power(x: f32, n: i64) -> f32 {
        if n == 0 { return 1.0 }
        return x * function \"power\"::<f32>(x, n - 1)
    }
    internal func clear(p: ptr) {
        alias a: f32[1] align 4 = p
        a[0] = 0.0
    }";
    let out = Block::uninit(F32, &[2]);
    run_text(source, &[(&out).into(), 10.into()]).unwrap();
    assert_eq!(out.to_f32().unwrap(), [0.0, 1024.0]);
    fails(run_text(source, &[out.into(), Arg::Int(-1)]), &["calls are more than 1000 deep"]);
}

#[test]
fn the_test_gives_functions() {
    let func = text::parse_func(
        "func f(o: mut f32[2]) {
            o[0] = packed \"twice\"::<f32>(\"name\", 21)
            o[1] = extern \"expf\"::<f32>(0.0) + pure_extern \"own\"::<f32>(1.5)
        }",
    )
    .unwrap();
    let machine = Machine::new(&func)
        .unwrap()
        .with_function("twice", |call| match call.args() {
            [PackedValue::Text(name), PackedValue::Int(value)] if name == "name" => {
                Ok(PackedValue::Float(*value as f64 * 2.0))
            }
            other => panic!("{other:?}"),
        })
        .with_function("own", |call| Ok(call.args()[0].clone()));
    let out = Block::uninit(F32, &[2]);
    machine.run("f", &[(&out).into()]).unwrap();
    assert_eq!(out.to_f32().unwrap(), [42.0, 2.5]);
}

#[test]
fn tensors_reach_packed_functions() {
    let func = text::parse_func(
        "func f(a: f32[n, 2] handle h, b: mut f32[n, 2] handle g) {\n packed \"add_one\"::<i32>(h, g)\n}",
    );
    let machine = Machine::new(&func.unwrap()).unwrap().with_function("add_one", |call| {
        let (dtype, shape, _) = call.tensor(0)?;
        assert_eq!((dtype, &shape[..]), (F32, &[2, 2][..]));
        let sum: Vec<f64> = call.read_tensor(0)?.to_f64()?.iter().map(|value| value + 1.0).collect();
        call.write_tensor(1, &Block::from_f64(F32, &[2, 2], &sum))?;
        Ok(PackedValue::Nothing)
    });
    let (a, b) = (Block::from_f32(&[1.0, 2.0, 3.0, 4.0]).reshaped(&[2, 2]), Block::uninit(F32, &[2, 2]));
    machine.run("f", &[a.into(), (&b).into()]).unwrap();
    assert_eq!(b.to_f32().unwrap(), [2.0, 3.0, 4.0, 5.0]);
}

/// `MakePackedAPI` and the resulting program: arguments are FFI values and `DLTensor`s in memory.
#[test]
fn packed_functions_take_values_in_memory() {
    let func = text::parse_func(
        "func scale(a: f32[n], b: mut f32[n], k: f32) {
            parallel i in 0..n { b[i] = a[i] * k }
        }",
    )
    .unwrap();
    let context = kernpack_compiler::pass::PassContext::default();
    let host = kernpack_compiler::pass::make_packed_api::make_packed_api(&func, &context).unwrap();
    let machine = Machine::new(&host).unwrap();
    let (a, b) = (Block::from_f32(&[1.0, 2.0, 3.0]), Block::uninit(F32, &[3]));
    machine.run("scale", &[(&a).into(), (&b).into(), Arg::Float(0.5)]).unwrap();
    assert_eq!(b.to_f32().unwrap(), [0.5, 1.0, 1.5]);
    for (args, message) in [
        (vec![Arg::from(&a), (&Block::uninit(F32, &[4])).into(), Arg::Float(0.5)], "ValueError"),
        (vec![Arg::from(&a), (&Block::uninit(I64, &[3])).into(), Arg::Float(0.5)], "TypeError"),
        (vec![Arg::from(&a), (&b).into()], "TypeError"),
    ] {
        let error = machine.run("scale", &args).expect_err(message).to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
}

/// After the final passes before CPU code generation, calls and tensors as memory operations
/// compute the same.
#[test]
fn programs_for_the_host_run() {
    let source = "func f(a: f32[n, 4], o: mut f32[n]) {
        alloc t: f32[n, 4]
        packed \"scale\"::<i32>(make_tensor::<ptr>(a[0], 1, n, 4, 4, 1), make_tensor::<ptr>(t[0], 2, n, 4, 4, 1), 3.0)
        for i in 0..n {
            o[i] = packed \"sum\"::<f32>(make_tensor::<ptr>(t[i * 4], 1, 4, 1), \"name\")
        }
    }";
    let module = text::parse(source).unwrap();
    let lowered = kernpack_compiler::pass::lower_for_host(&module, &kernpack_compiler::codegen::Target::c());
    let lowered = lowered.unwrap();
    let printed = text::print(&lowered);
    let again = text::parse(&printed).unwrap();
    assert!(kernpack::structural::equal(&lowered, &again).unwrap(), "{printed}");
    for module in [&module, &lowered, &again] {
        let machine = Machine::of_module(module)
            .unwrap()
            .with_function("scale", |call| {
                let PackedValue::Float(by) = call.args()[2] else { panic!("{:?}", call.args()) };
                let scaled: Vec<f64> = call.read_tensor(0)?.to_f64()?.iter().map(|value| value * by).collect();
                call.write_tensor(1, &Block::from_f64(F32, &[3, 4], &scaled))?;
                Ok(PackedValue::Nothing)
            })
            .with_function("sum", |call| Ok(PackedValue::Float(call.read_tensor(0)?.to_f64()?.iter().sum())));
        let a = Block::from_f32(&(0..12).map(|value| value as f32).collect::<Vec<_>>()).reshaped(&[3, 4]);
        let o = Block::uninit(F32, &[3]);
        machine.run("f", &[a.into(), (&o).into()]).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(o.to_f32().unwrap(), [18.0, 66.0, 114.0]);
    }
}
