//! Tests that too many references for a count end the process, whichever safe operation adds them.
//!
//! `cells/too_many.rs` of kernpack-embedded tests the C functions and the functions of the provider
//! in the same way. Both are needed: the types of this crate add most references without the
//! provider, by its counting functions. The tests share no code, since code of unit tests is not
//! visible in another crate.

use core::mem::forget;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::abi::{TVMFFIModuleCell, TVMFFIObject};
use crate::embedded;
use crate::module::ModuleImpl;
use crate::{
    Any, Array, Bytes, Dict, Error, FromAny, Function, IntoAny, List, Map, Module, ObjRef, ObjectRoot, Result, Shape,
    Str, Tensor, WeakRef,
};

/// The environment variables that pass to a child process the operation to try, and the initial
/// counts.
const WAY: &str = "TEST_OF_TOO_MANY_REFERENCES";
const COUNTS: &str = "TEST_OF_TOO_MANY_REFERENCES_COUNTS";

/// A way to add a reference to an object that has these counts.
type Way = (&'static str, fn(u64));

/// Each way to add a strong reference.
const STRONG: [Way; 37] = [
    ("Any::clone", |counts| clone(counts, Any::from(function()))),
    ("Function::clone", |counts| clone(counts, function())),
    ("Error::clone", |counts| clone(counts, error())),
    ("Tensor::clone", |counts| clone(counts, tensor())),
    ("Array::clone", |counts| clone(counts, Array::from_iter([1i64]))),
    ("List::clone", |counts| clone(counts, List::<i64>::new())),
    ("Map::clone", |counts| clone(counts, Map::from_iter([(1i64, 2i64)]))),
    ("Dict::clone", |counts| clone(counts, Dict::<i64, i64>::new())),
    ("Shape::clone", |counts| clone(counts, Shape::new(&[1]))),
    ("Module::clone", |counts| clone(counts, Module::new(Nothing))),
    ("ObjRef::clone", |counts| clone(counts, ObjRef::<ObjectRoot>::from(function()))),
    ("Str::clone", |counts| clone(counts, Str::from(TEXT))),
    ("Bytes::clone", |counts| clone(counts, Bytes::from(TEXT.as_bytes()))),
    ("Any to Any", |counts| convert(counts, Any::from(function()))),
    ("Any to Function", |counts| convert(counts, function())),
    ("Any to Error", |counts| convert(counts, error())),
    ("Any to Tensor", |counts| convert(counts, tensor())),
    ("Any to Array", |counts| convert(counts, Array::from_iter([1i64]))),
    ("Any to List", |counts| convert(counts, List::<i64>::new())),
    ("Any to Map", |counts| convert(counts, Map::from_iter([(1i64, 2i64)]))),
    ("Any to Dict", |counts| convert(counts, Dict::<i64, i64>::new())),
    ("Any to Shape", |counts| convert(counts, Shape::new(&[1]))),
    ("Any to Module", |counts| convert(counts, Module::new(Nothing))),
    ("Any to ObjRef", |counts| convert(counts, ObjRef::<ObjectRoot>::from(function()))),
    ("Any to Str", |counts| convert(counts, Str::from(TEXT))),
    ("Any to Bytes", |counts| convert(counts, Bytes::from(TEXT.as_bytes()))),
    ("AnyView::try_to_owned", |counts| add(counts, Any::from(function()), |any| any.as_view().try_to_owned().unwrap())),
    ("WeakRef::upgrade", |counts| {
        let object = ObjRef::<ObjectRoot>::from(function());
        let weak = object.downgrade();
        add(counts, object, |_| weak.upgrade().unwrap());
        forget(weak);
    }),
    ("Array::get", |counts| {
        let array = Array::from_iter([function()]);
        add(counts, array.get(0).unwrap(), |_| array.get(0).unwrap());
        forget(array);
    }),
    ("Map::get", |counts| {
        let map = Map::from_iter([(1i64, function())]);
        add(counts, map.get(&1).unwrap(), |_| map.get(&1).unwrap());
        forget(map);
    }),
    ("Error::cause", |counts| {
        let error = error().caused_by(error());
        add(counts, error.cause().unwrap(), |_| error.cause().unwrap());
        forget(error);
    }),
    ("Error::caused_by", |counts| {
        add(counts, error(), |cause| {
            // SAFETY: the reference is released once, since `add` forgets the one that it has.
            error().caused_by(unsafe { Error::from_raw(cause.as_ptr()) })
        });
    }),
    ("Tensor::to_dlpack", |counts| add(counts, tensor(), |tensor| tensor.to_dlpack().unwrap())),
    ("Function::register_global", |counts| {
        add(counts, function(), |function| Function::register_global(NAME, function).unwrap());
    }),
    ("Function::global", |counts| {
        let function = function();
        Function::register_global(NAME, &function).unwrap();
        add(counts, function, |_| Function::global(NAME).unwrap());
    }),
    ("Module::find_function", |counts| {
        let module = Module::new(Nothing);
        let function = module.function(NAME).unwrap();
        add(counts, function, |_| module.function(NAME).unwrap());
        forget(module);
    }),
    ("Module::new", |counts| {
        // SAFETY: a module begins with its cell, whose imports are those of all new modules.
        let imports = unsafe { embedded::body::<TVMFFIModuleCell>(Module::new(Nothing).as_ptr()).imports };
        set_counts(imports, counts);
        forget(Module::new(Nothing));
    }),
];

/// Each way to add a weak reference.
const WEAK: [Way; 2] = [
    ("ObjRef::downgrade", |counts| add(counts, ObjRef::<ObjectRoot>::from(function()), ObjRef::downgrade)),
    ("WeakRef::clone", |counts| {
        let object = ObjRef::<ObjectRoot>::from(function());
        let weak = object.downgrade();
        add(counts, object, |_| WeakRef::clone(&weak));
        forget(weak);
    }),
];

const NAME: &str = "test.too_many";

/// Too long to be stored in a value.
const TEXT: &str = "a text that is an object";

fn function() -> Function {
    Function::from_fn(|| 1i64)
}

fn error() -> Error {
    Error::value_error("too many")
}

fn tensor() -> Tensor {
    Tensor::from_slice(&[1.0f32], &[1]).unwrap()
}

/// A module that has a function of every name.
struct Nothing;

impl ModuleImpl for Nothing {
    fn kind(&self) -> &'static str {
        "test.too_many"
    }

    fn find_function(&self, _: &str) -> Result<Option<Function>> {
        Ok(Some(function()))
    }
}

fn set_counts(object: *mut TVMFFIObject, counts: u64) {
    // SAFETY: the object is alive. This has the same effect as creating and forgetting references
    // to it.
    unsafe { AtomicU64::from_ptr(&raw mut (*object).combined_ref_count) }.store(counts, Ordering::Relaxed);
}

/// Adds a reference to the object of `value`, after setting its counts to these.
fn add<T: Clone + IntoAny, R>(counts: u64, value: T, add: impl FnOnce(&T) -> R) {
    let any = value.clone().into_any();
    // SAFETY: the value is an object.
    set_counts(unsafe { any.as_raw().payload.v_obj }, counts);
    forget(any);
    forget(add(&value));
    forget(value);
}

fn clone<T: Clone + IntoAny>(counts: u64, value: T) {
    add(counts, value, T::clone);
}

fn convert<T: Clone + IntoAny + for<'a> FromAny<'a>>(counts: u64, value: T) {
    let any = value.into_any();
    add(counts, any, |any| any.to::<T>().unwrap());
}

#[test]
fn end_the_process() {
    if let Ok(chosen) = std::env::var(WAY) {
        no_core_files();
        let counts = std::env::var(COUNTS).unwrap().parse().unwrap();
        let (_, add) = STRONG.iter().chain(&WEAK).find(|(name, _)| *name == chosen).unwrap();
        add(counts);
        println!("added");
        return;
    }
    let strong = STRONG.iter().map(|(name, _)| (*name, (1 << 32) | ((1 << 31) - 1), (1 << 32) | (1 << 31)));
    let weak = WEAK.iter().map(|(name, _)| (*name, (((1 << 30) - 1) << 32) | 1, (1 << 62) | 1));
    for (name, below, limit) in strong.chain(weak) {
        assert_eq!(outcome(name, below), (None, true), "{name}: one below the limit is allowed");
        assert_eq!(outcome(name, limit), (Some(libc::SIGABRT), false), "{name}");
    }
}

/// Keeps this process from writing a core file to the source folder when it aborts.
fn no_core_files() {
    let nothing = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &nothing) }, 0);
}

/// Runs a process that adds a reference to these counts. Returns the signal that ended it after it
/// printed the reason, and whether it added the reference.
fn outcome(name: &str, counts: u64) -> (Option<i32>, bool) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "too_many::end_the_process", "--nocapture"]);
    let output = child.env(WAY, name).env(COUNTS, counts.to_string()).output().unwrap();
    let [text, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let said = errors.lines().any(|line| line == "kernpack: too many references to an object");
    let added = output.status.success() && text.lines().any(|line| line == "added");
    if !said && !added {
        println!("{name}: {text}{errors}");
    }
    (output.status.signal().filter(|_| said), added)
}
