//! Errors of passes keep their structure, and each built-in pass is also a global function.

use kernpack::{Any, Function};
use kernpack_compiler::ir::{F32, IrModule, LoweredFunc};
use kernpack_compiler::pass::program::PASSES;
use kernpack_compiler::pass::{Pass, PassContext, PassOptions, pipeline};
use kernpack_compiler::te::{compute, placeholder, thread_axis};
use kernpack_compiler::text::{parse_func, print};
use kernpack_compiler::{CompileError, ErrorKind, Kernel, TargetDescription, take_reported};

fn program() -> LoweredFunc {
    parse_func("func f(a: f32[4], b: mut f32[4]) {\n b[0] = a[0]\n}").unwrap()
}

/// A function for devices: the host accesses no tensor.
fn launches() -> LoweredFunc {
    let body = "attr thread_extent(axis t thread \"threadIdx.x\") = 4 {\n b[t] = a[t]\n }";
    parse_func(&format!("func f(a: f32[4], b: mut f32[4]) {{\n {body}\n}}")).unwrap()
}

/// Two errors: the second has a text that is not one of a single line.
fn errors() -> CompileError {
    let first = CompileError::new(ErrorKind::Bound, "first").at("a.rs:1:2").at("b.rs:3:4").note("because").note("or");
    let second = CompileError::new(ErrorKind::Target, "second\nline").note("a note\n\nwith a gap");
    CompileError::all(vec![first, second]).unwrap()
}

#[test]
fn errors_of_functions_are_what_they_were() {
    let function = Function::from_fn(|| -> kernpack::Result<()> { Err(errors().into()) });
    assert_eq!(CompileError::from(function.call(()).unwrap_err()), errors());
    let foreign =
        Function::from_fn(|| -> kernpack::Result<()> { Err(kernpack::error!(KeyError, "BoundError of\n\nx")) });
    let foreign = CompileError::from(foreign.call(()).unwrap_err());
    assert_eq!((foreign.kind(), foreign.what()), (ErrorKind::Lower, "KeyError: BoundError of\n\nx"));
}

#[test]
fn errors_in_a_pass_of_the_user_are_what_they_were() {
    let own = Function::from_fn(|_: Any, _: PassContext| -> kernpack::Result<Any> { Err(errors().into()) });
    let error = pipeline::run(program(), &[Any::from(own)].into(), &PassContext::default()).unwrap_err();
    assert_eq!(error, errors().note("in pass function"));
    assert_eq!((error.kind(), error.problems().len()), (ErrorKind::Bound, 2), "{error}");
}

#[test]
fn functions_of_passes_return_reported_errors() {
    let reports = |function: &LoweredFunc, _: &PassContext| {
        placeholder([-1], F32, "in the pass");
        Ok(function.clone())
    };
    let error = pipeline::on_functions(&program().into(), &PassContext::default(), reports).unwrap_err();
    assert!(error.message().contains("`in the pass`"), "{error}");
    take_reported().unwrap();
}

#[test]
fn dumps_end_with_the_input_of_the_pass_that_fails() {
    let own = Function::from_fn(|_: Any, _: PassContext| -> kernpack::Result<Any> { Err(errors().into()) });
    let context = PassContext::new(PassOptions { dump: true, ..PassOptions::default() });
    let passes = [Any::from("Simplify"), Any::from(own), Any::from("Simplify")].into();
    pipeline::run(program(), &passes, &context).unwrap_err();
    let dumps = context.take_dumps();
    assert_eq!(dumps.iter().map(|(pass, _)| pass.as_str()).collect::<Vec<_>>(), ["Flat", "Simplify"]);
}

#[test]
fn pipelines_of_kernels_return_a_function() {
    let mut kernel = Kernel::new("k");
    let x = kernel.input("x", [4], F32);
    kernel.output("y", compute([4], |[i]| x.at([&i]) * 2.0));
    let own = Function::from_fn(|function: LoweredFunc, _: PassContext| IrModule::new([function]));
    let context = PassContext::default();
    context.pipeline.set([Any::from(own)].into());
    let error = kernel.lower(&TargetDescription::x86_64(), &context).unwrap_err();
    assert_eq!((error.kind(), error.what()), (ErrorKind::Lower, "kernel `k`: the passes gave kernpack.ir.IrModule"));
}

#[test]
fn built_in_passes_are_functions_too() {
    // The verifier knows the stages of pipelines only.
    let context = PassContext::new(PassOptions { verify: false, ..PassOptions::default() });
    let text = |function: LoweredFunc| print(&IrModule::new([function]));
    for pass in PASSES {
        let global = format!("{}{}", pipeline::PREFIX, pass.name);
        assert!(core::ptr::eq(Pass::find(&global).unwrap(), pass));
        let function = pipeline::find(pass.name).unwrap();
        let program = || if pass.name == "VerifyMemory" { launches() } else { program() };
        let from_function = function.call((program(), &context)).unwrap().to::<LoweredFunc>().unwrap();
        let passes = [Any::from(pass.name)].into();
        let from_pipeline: LoweredFunc = pipeline::run(program(), &passes, &context).unwrap().to().unwrap();
        assert_eq!(text(from_function), text(from_pipeline), "{global}");
        // Pipelines call the built-in pass whatever the global function is.
        let other = Function::from_fn(|_: Any, _: PassContext| -> kernpack::Result<Any> {
            Err(kernpack::error!(RuntimeError, "of another library"))
        });
        Function::register_global_override(&global, &other).unwrap();
        assert!(pipeline::find(pass.name).unwrap().call((program(), &context)).is_err());
        pipeline::run(program(), &passes, &context).unwrap();
        Function::register_global_override(&global, &function).unwrap();
    }
    let names = Function::list_global_names().unwrap();
    assert_eq!(names.iter().filter(|name| name.starts_with(pipeline::PREFIX)).count(), PASSES.len());
    for name in pipeline::USUAL.iter().chain(pipeline::DEVICE) {
        assert!(Pass::find(name).is_some(), "{name}");
    }
    assert!(Pass::find("Vectorise").is_none());
}

#[test]
fn the_host_accesses_no_memory_of_the_device() {
    let passes: kernpack::Array<Any> = [Any::from("VerifyMemory")].into();
    let run = |function: LoweredFunc| pipeline::run(function, &passes, &PassContext::default());
    run(launches()).unwrap();
    let error = run(program()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lower);
    assert!(error.what().contains("`f` accesses memory of the device from the host: `"), "{error}");
    // Memory between two kernels is memory of the device.
    let loops = "for i in 0..4 {\n m[i] = 1.0\n }";
    let kernel = "attr thread_extent(axis t thread \"threadIdx.x\") = 4 {\n b[t] = m[t]\n }";
    let function = format!("func f(b: mut f32[4]) {{\n alloc m: f32[4] @global\n {loops}\n {kernel}\n}}");
    let error = run(parse_func(&function).unwrap()).unwrap_err();
    assert!(error.what().contains("from the host: `m`"), "{error}");
    // A view of a tensor, and a number of threads that is an element of a tensor.
    let rows = [
        ("alias v: f32[2] align 4 = handle_add_byte_offset::<ptr>(b.data, 4i64)\n v[0] = 1.0", "from the host: `v`"),
        ("attr thread_extent(axis t thread \"threadIdx.x\") = n[0] {\n b[t] = 1.0\n }", "from the host: `n`"),
        (
            "alloc s: f32[4] @shared\n attr thread_extent(axis t thread \"threadIdx.x\") = 4 {\n s[t] = b[t]\n }",
            "`f` allocates `s` of scope `shared` outside of the kernel that uses it",
        ),
    ];
    for (body, expected) in rows {
        let function = parse_func(&format!("func f(n: i64[1], b: mut f32[4]) {{\n {body}\n}}")).unwrap();
        let error = run(function).unwrap_err();
        assert!(error.what().contains(expected), "{error}");
    }
}

#[test]
fn pipelines_for_devices_return_a_module() {
    let mut kernel = Kernel::new("k");
    let x = kernel.input("x", [4], F32);
    kernel.output("y", compute([4], |[i]| x.at([&i]) * 2.0));
    kernel.schedule(|s, _| {
        let tensor = s.outputs[0].output(0);
        let [i] = s.stage(&tensor).axes()?;
        s.stage(&tensor).bind(&i, &thread_axis(None, "threadIdx.x")).map(drop)
    });
    let context = PassContext::default();
    context.pipeline.set(pipeline::DEVICE.iter().map(|name| Any::from(*name)).collect());
    let program = kernel.lower_program(&TargetDescription::x86_64(), &context).unwrap();
    let names: Vec<String> = program.module().functions.iter().map(|function| function.name.to_string()).collect();
    assert_eq!(names, ["k", "k_kernel0"]);
}
