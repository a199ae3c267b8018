//! Loads libraries and calls their functions; `tests/tests/hosts/context_symbols.rs` runs it, in
//! several processes.
//!
//! The first argument is the implementation that must serve the process, by its name in
//! `kernpack::sys::provider::Origin`; the others are libraries: `tests/c/generated.c`,
//! `tests/c/modules.cc`, or one of ours.

use std::thread;

use kernpack::module::ModuleImpl;
use kernpack::sys::provider::origin;
use kernpack::{Error, Function, Module, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let expected = arguments.next().unwrap_or_default();
    for library in arguments {
        let module = Module::load(&library)?;
        if module.find_function("sum_of_squares")?.is_some() {
            generated(&module)?;
        } else if module.find_function("offset_of_object")?.is_some() {
            cpp_modules()?;
        } else {
            ours(&module)?;
        }
        println!("{}: all checks passed", library.rsplit('/').next().unwrap_or_default());
    }
    assert_eq!(format!("{:?}", origin()), expected);
    Ok(())
}

/// Checks the functions of `tests/c/generated.c`.
fn generated(library: &Module) -> Result<()> {
    let int = |name: &str, args: &[i64]| -> Result<i64> {
        let args: Vec<_> = args.iter().map(|arg| kernpack::Any::from(*arg)).collect();
        library.function(name)?.call_as(args.as_slice())
    };
    for num_task in [0, 1, 2, 3, 16, 100] {
        assert_eq!(int("sum_of_squares", &[1000, num_task])?, (0..1000).map(|i| i * i).sum());
    }
    assert_eq!(int("tasks", &[5])?, 5);
    if let Some(threads) = std::env::var("TVM_NUM_THREADS").ok().and_then(|threads| threads.parse().ok()) {
        assert_eq!(int("tasks", &[0])?, threads);
    }
    assert_eq!(int("nested", &[])?, 3);
    for task in 0..4 {
        check_error(int("failing", &[task]), "ValueError", "Assert fail: task must not run");
    }
    assert_eq!(int("failing", &[4])?, 0);

    assert_eq!(int("workspaces", &[])?, 40);
    let error = int("free_stranger", &[]).unwrap_err();
    assert!(
        error.message().ends_with("is not a workspace that this thread has allocated and not yet freed"),
        "{error}"
    );
    assert_eq!(int("workspace_on", &[1])?, 1);
    // 8 is Metal.
    let problem =
        "no library in this process provides metal devices; load a library that brings them (kernpack::device_api!)";
    check_error(int("workspace_on", &[8]), "RuntimeError", problem);

    let wrong = library.function("tasks")?.call_as::<i64>(("five",));
    check_error(wrong, "TypeError", "Mismatched type on argument #0 when calling: `tasks`, expected int");
    if Function::find_global("test.context.twice")?.is_none() {
        assert!(int("call_twice", &[1]).is_err());
        Function::register_global("test.context.twice", &Function::from_fn(|x: i64| 2 * x))?;
    }
    assert_eq!(int("call_twice", &[21])?, 42);

    // Many threads at the same time.
    thread::scope(|scope| {
        for caller in 0..6 {
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(int("sum_of_squares", &[100, caller]).unwrap(), 328_350);
                }
            });
        }
    });
    Ok(())
}

/// Checks the modules that `tests/c/modules.cc` registers: modules in C++ beside modules in Rust.
/// `tests/tests/module/cpp.rs` has more checks.
fn cpp_modules() -> Result<()> {
    let counter = |start: i64, fails: &str| -> Result<Module> {
        Function::global("cpp_modules.counter")?.call_as((start, fails))
    };
    let module = counter(40, "")?;
    assert_eq!((module.kind().as_str(), module.function("count")?.call_as::<i64>((2,))?), ("cpp.counter", 42));
    assert_eq!(*module.save_to_bytes()?, 42i64.to_le_bytes());
    for (fails, kind, message) in [
        ("save_to_bytes", "KeyError", "save_to_bytes of a counter fails"),
        ("std save_to_bytes", "InternalError", "save_to_bytes of a counter fails by std"),
        ("int save_to_bytes", "InternalError", "a virtual function of a module threw a C++ value of type i"),
    ] {
        check_error(counter(1, fails)?.save_to_bytes().map(|_| 0), kind, message);
    }
    assert_eq!(Function::global("cpp_modules.uncaught")?.call_as::<i64>(())?, 0);
    let wrong = module.write_to_file("/nowhere", "elf").map(|()| 0);
    check_error(wrong, "ValueError", "a counter is not written as elf");

    let root = Module::new(Root);
    let importer = counter(1, "")?;
    importer.import(&root)?;
    assert_eq!(importer.imports(), std::slice::from_ref(&root));
    let cycle = importer.import(&importer).map(|()| 0).unwrap_err();
    assert!(cycle.message().starts_with("Cyclic dependency detected during import"), "{cycle}");
    importer.clear_imports()?;
    assert!(importer.imports().is_empty());
    root.import(&module)?;
    let call: Function = Function::global("cpp_modules.call_imported")?;
    assert_eq!(call.call_as::<i64>((&root, "count", 1))?, 43);
    assert_eq!(call.call_as::<i64>((&root, "twice", 4))?, 8);
    let describe = Function::global("cpp_modules.describe")?.call_as::<String>((&root, "twice"))?;
    assert!(describe.starts_with("kind: rust.root\nproperties: 2\nfunction: 1\nimplements: 1\n"), "{describe}");
    Ok(())
}

/// A module in Rust.
struct Root;

impl ModuleImpl for Root {
    fn kind(&self) -> &str {
        "rust.root"
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        Ok((name == "twice").then(|| Function::from_fn(|x: i64| 2 * x)))
    }
}

/// Checks the functions of `tests/conversions-lib`, which uses this program's tables.
fn ours(library: &Module) -> Result<()> {
    assert_eq!(library.function("add")?.call_as::<i64>((40, 2))?, 42);
    assert_eq!(Function::global("conversions.add")?.call_as::<i64>((1, 2))?, 3);
    let error = library.function("add")?.call(("x", 2)).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        ("TypeError", "add(a: int, b: int): argument 'a': expected int, got str")
    );
    Ok(())
}

fn check_error(result: Result<i64>, kind: &str, message: &str) {
    let error: Error = result.expect_err(message);
    assert_eq!((error.kind(), error.message()), (kind, message));
}
