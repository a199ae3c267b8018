//! Functions and the global registry, used from Rust only.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernpack::{Any, Error, Function, Result, Tensor, bail, packed_func};

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

/// A weighted sum.
#[packed_func(name = "functions.weighted")]
fn weighted(x: f64, #[default(0.5)] gain: f64, #[default("sum")] name: &str, offset: Option<f64>) -> String {
    format!("{name} {}", x * gain + offset.unwrap_or_default())
}

#[packed_func(name = "functions.scaled", parallel)]
fn scaled(x: &f64, #[default(2.0)] factor: f64) -> f64 {
    x * factor
}

#[test]
fn parameters_with_defaults_may_be_left_away() -> Result<()> {
    assert_eq!(weighted(8.0, 1.0, "typed", None), "typed 8");
    let function = Function::global("functions.weighted")?;
    assert_eq!(function.call_as::<String>((8,))?, "sum 4");
    assert_eq!(function.call_as::<String>((8, 1))?, "sum 8");
    assert_eq!(function.call_as::<String>((8, 1, "all", 0.5))?, "all 8.5");
    assert_eq!(function.call_as::<String>((8, 1, "all", Any::NONE))?, "all 8");
    let signature = "functions.weighted(x: float, gain: float, name: str, offset: Optional[float])";
    let message = |error: Error| error.message().to_owned();
    assert_eq!(message(function.call(()).unwrap_err()), format!("{signature}: argument 'x' is missing"));
    assert_eq!(
        message(function.call((1, 2, "3", 4, 5)).unwrap_err()),
        format!("{signature}: expected at most 4 arguments, got 5")
    );
    assert_eq!(
        message(function.call((1, "2")).unwrap_err()),
        format!("{signature}: argument 'gain': expected float, got str")
    );
    assert!(function.call((1, Any::NONE)).is_err(), "None is an argument, not one that is left away");
    let x = Tensor::from_vec(vec![1.0f64, 2.0], &[2])?;
    let doubled: Tensor = Function::global("functions.scaled")?.call_as((&x,))?;
    assert_eq!(doubled.view::<f64>()?.to_vec(), [2.0, 4.0]);
    let metadata: String = Function::global("ffi.GetGlobalFuncMetadata")?.call_as(("functions.weighted",))?;
    let expected = r#","arg_names":["x","gain","name","offset"],"arg_defaults":[0.5,"sum",null]}"#;
    assert!(metadata.ends_with(expected), "{metadata}");
    Ok(())
}

/// Lists what it gets.
#[packed_func(name = "functions.signed", signature = "(data, /, *rest, key, level=3, **options)")]
fn signed(data: i64, rest: Vec<i64>, key: &str, level: i64, options: HashMap<String, f64>) -> String {
    let mut options: Vec<_> = options.into_iter().collect();
    options.sort_by(|one, other| one.0.cmp(&other.0));
    format!("{data} {rest:?} {key} {level} {options:?}")
}

#[test]
fn a_declared_signature_keeps_the_calling_convention() -> Result<()> {
    let function = Function::global("functions.signed")?;
    let options = HashMap::from([("x".to_owned(), 0.5)]);
    let expected = r#"1 [2, 3] k 4 [("x", 0.5)]"#;
    assert_eq!(signed(1, vec![2, 3], "k", 4, options.clone()), expected);
    assert_eq!(function.call_as::<String>((1, vec![2, 3], "k", 4, options))?, expected);
    assert_eq!(function.call_as::<String>((1, Vec::<i64>::new(), "k"))?, "1 [] k 3 []");
    let missing = function.call((1, vec![2])).unwrap_err();
    assert!(missing.message().ends_with(": argument 'key' is missing"), "{missing}");
    let marker = Function::global("ffi.GetKwargsObject")?.call(())?;
    assert_eq!(function.call_as::<String>((1, marker, "key", "k"))?, "1 [] k 3 []");
    let metadata: String = Function::global("ffi.GetGlobalFuncMetadata")?.call_as(("functions.signed",))?;
    for expected in [
        r#""arg_defaults":[[],{"required":true},3,{}]"#,
        r#""arg_kinds":["positional_only","var_positional","keyword_only","keyword_only","var_keyword"]"#,
    ] {
        assert!(metadata.contains(expected), "{expected} in {metadata}");
    }
    Ok(())
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
