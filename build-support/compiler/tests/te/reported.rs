//! Errors of operators belong to the work that made them: they are not lost, and are no errors of
//! other work.

use kernpack::{Any, Array, Function};
use kernpack_compiler::ir::{F32, I64, Tensor};
use kernpack_compiler::te::{compute, placeholder};
use kernpack_compiler::{
    CompileError, ErrorKind, Kernel, PassContext, Result, TargetDescription, collect_reported, take_reported,
    with_reported,
};

/// Uses an operator wrongly: the error contains the name.
fn wrong(name: &str) {
    placeholder([-1], F32, name);
}

/// The number of reported errors; each contains the name.
#[track_caller]
fn count(reported: Result<()>, name: &str) -> usize {
    let problems = reported.err().map_or_else(Vec::new, |error| error.problems());
    assert!(problems.iter().all(|problem| problem.contains(&format!("`{name}`"))), "{name}: {problems:?}");
    problems.len()
}

fn kernel(name: &str) -> Kernel {
    let mut k = Kernel::new(name);
    let x = k.input("x", [4], F32);
    k.output("y", compute([4], |[i]| x.at([&i]) * 2.0));
    k
}

fn lower(kernel: &Kernel) -> Result<()> {
    kernel.lower(&TargetDescription::x86_64(), &PassContext::default()).map(drop)
}

#[test]
fn each_work_has_its_own() {
    wrong("outer");
    let (value, inner) = collect_reported(|| {
        wrong("inner");
        let ((), innermost) = collect_reported(|| wrong("innermost"));
        assert_eq!(count(innermost, "innermost"), 1);
        7
    });
    assert_eq!((value, count(inner, "inner"), count(take_reported(), "outer")), (7, 1, 1));
    take_reported().unwrap();
}

#[test]
fn a_panic_keeps_those_of_the_work_around() {
    wrong("outer");
    let panicked = std::panic::catch_unwind(|| {
        collect_reported(|| {
            wrong("inner");
            panic!("of the test");
        })
    });
    assert!(panicked.is_err());
    assert_eq!(count(take_reported(), "outer"), 1);
}

#[test]
fn errors_of_the_work_come_before_those_of_its_operators() {
    let both = with_reported::<(), _>(|| {
        wrong("inner");
        Err(CompileError::new(ErrorKind::Schedule, "first"))
    });
    let both = both.unwrap_err();
    assert_eq!((both.kind(), both.problems().len()), (ErrorKind::Schedule, 2), "{both}");
    assert_eq!(with_reported::<_, CompileError>(|| Ok(3)).unwrap(), 3);
}

#[test]
fn functions_of_other_languages_keep_those_of_their_callers() {
    wrong("outer");
    let function = Function::global("kernpack.te.placeholder").unwrap();
    let good: Tensor = function.call_as((2i64, I64, "good")).unwrap();
    assert_eq!(good.name(), "good");
    assert_eq!(count(take_reported(), "outer"), 1);
}

/// A Rust function that reports, and a caller in another language that lowers the result.
#[test]
fn functions_that_lower_return_those_of_the_expressions() {
    let x = placeholder([4], F32, "x");
    let y = compute([4], |[i]| x.at([&i]) * 2.0);
    let call = |name: &str| {
        let outputs = [Any::from(Array::from([y.clone()]))];
        let schedule = Function::global("kernpack.schedule.create").unwrap().call(&outputs[..]).unwrap();
        let arguments = Array::from([Any::from(x.clone()), Any::from(y.clone())]);
        Function::global(name).unwrap().call((schedule, arguments, "f", PassContext::default()))
    };
    for name in ["kernpack.schedule.lower", "kernpack.pipeline.lower"] {
        wrong("before");
        let error = call(name).map(drop).unwrap_err();
        assert!(error.message().contains("`before`"), "{name}: {error}");
        call(name).unwrap();
    }
}

/// A kernel whose schedule fails, then one that is sound, on the same thread.
#[test]
fn an_error_of_one_kernel_is_none_of_another() {
    let mut broken = kernel("broken");
    broken.schedule(|_, _| {
        wrong("schedule");
        Err(CompileError::new(ErrorKind::Schedule, "of the schedule"))
    });
    let error = lower(&broken).unwrap_err();
    assert_eq!(error.problems().len(), 2, "{error}");
    lower(&kernel("sound")).unwrap();
}

/// The same with a pass of the user, whose error was also one of the next kernel only.
#[test]
fn an_error_in_a_pass_is_one_of_its_kernel() {
    let own = Function::from_fn(|program: Any, _: PassContext| -> Any {
        wrong("pass");
        program
    });
    let context = PassContext::default();
    context.pipeline.set([Any::from(own)].into());
    let error = kernel("broken").lower(&TargetDescription::x86_64(), &context).unwrap_err().to_string();
    assert!(error.contains("`pass`") && error.contains("in pass function"), "{error}");
    lower(&kernel("sound")).unwrap();
}
