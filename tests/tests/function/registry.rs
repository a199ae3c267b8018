//! Functions and the global registry, from Rust alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernpack::{Any, Error, Function, Result, bail};

#[test]
fn registry() {
    let one = Function::from_fn(|| 1i64);
    let two = Function::from_fn(|| 2i64);
    Function::register_global("functions.number", &one).unwrap();
    let taken = Function::register_global("functions.number", &two).unwrap_err();
    assert_eq!(taken.kind(), "RuntimeError");
    assert_eq!(taken.message(), "Global Function `functions.number` is already registered");
    assert_eq!(Function::global("functions.number").unwrap().call_as::<i64>(()).unwrap(), 1);

    Function::register_global_override("functions.number", &two).unwrap();
    assert_eq!(Function::global("functions.number").unwrap().call_as::<i64>(()).unwrap(), 2);
    assert!(Function::list_global_names().unwrap().contains(&"functions.number".to_owned()));

    let missing = Function::global("functions.numbr").unwrap_err();
    assert_eq!(missing.kind(), "KeyError");
    assert_eq!(missing.message(), "no global function is named 'functions.numbr'; did you mean 'functions.number'?");

    let kept = Function::global("functions.number").unwrap();
    Function::remove_global("functions.number").unwrap();
    assert!(Function::find_global("functions.number").unwrap().is_none());
    assert!(Function::remove_global("functions.number").is_err());
    assert_eq!(kept.call_as::<i64>(()).unwrap(), 2, "a reference to a removed function stays valid");
}

#[test]
fn closures_own_what_they_capture() {
    let drops = Arc::new(AtomicUsize::new(0));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let counted = Counted(Arc::clone(&drops));
    let function = Function::from_fn(move |x: i64| {
        let _ = &counted;
        x + 1
    });
    let again: Function = Function::from_fn(|f: Function| f).call_as((&function,)).unwrap();
    assert_eq!(again, function, "a function comes back as itself");
    drop(function);
    assert_eq!(again.call_as::<i64>((41,)).unwrap(), 42);
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop(again);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn errors_cross_functions_intact() {
    let inner = Function::from_fn(|x: i64| -> Result<i64> { bail!(KeyError, "no entry {x}") });
    let outer = Function::from_fn(move |x: i64| -> Result<i64> { inner.call_as((x,)) });
    let error = outer.call((7,)).unwrap_err();
    assert_eq!((error.kind(), error.message()), ("KeyError", "no entry 7"));
    let frames: Vec<&str> = error.backtrace().lines().collect();
    assert!(frames[0].contains("registry.rs") && frames[0].ends_with("in closure"), "{frames:?}");

    let own = Function::from_fn(|| -> Result<(), MyError> { Err(MyError(3)) });
    let error = own.call(()).unwrap_err();
    assert_eq!((error.kind(), error.message()), ("imagekit.Broken", "part 3 is broken"));

    struct MyError(u32);
    impl From<MyError> for Error {
        fn from(error: MyError) -> Self {
            Error::new("imagekit.Broken", format!("part {} is broken", error.0))
        }
    }
}

#[test]
fn panics_become_errors_with_file_and_line() {
    let line = line!() + 1;
    let function = Function::from_fn(|x: i64| assert!(x > 0, "x is {x}"));
    let error = function.call((-1,)).unwrap_err();
    assert_eq!(error.kind(), "InternalError");
    assert_eq!(error.message(), format!("panicked at {}:{line}: x is -1", file!()));
    function.call((1,)).unwrap();
}

#[test]
fn typed_functions_check_at_the_call() {
    let concat = Function::from_packed(|args| {
        let parts: Result<Vec<String>> = args.iter().map(|arg| arg.get::<String>()).collect();
        Ok(Any::from(parts?.concat()))
    });
    let typed = concat.typed::<(&str, String), String>();
    assert_eq!(typed.call(("ab", "cd".to_owned())).unwrap(), "abcd");
    let wrong = concat.typed::<(&str,), i64>().call(("x",)).unwrap_err();
    assert_eq!(wrong.message(), "result of the call: expected int, got str");
    let wrong = concat.call((1,)).unwrap_err();
    assert_eq!((wrong.kind(), wrong.message()), ("TypeError", "expected str, got int"));
}

#[test]
fn functions_may_be_called_from_many_threads() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let function = Function::from_fn(move |n: usize| counter.fetch_add(n, Ordering::Relaxed));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    function.call((1usize,)).unwrap();
                    assert!(function.call(("one",)).is_err(), "each thread has its own error slot");
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 4000);
}
