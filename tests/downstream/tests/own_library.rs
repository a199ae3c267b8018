//! Loads this crate's own library, as an independent host does. This program does not link the
//! crate, and does not refer to it.

use kernpack::{Function, Module, Tensor};
use std::path::PathBuf;

/// cargo puts the library beside this test program.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a test program has a path");
    let name = format!("{}downstream{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    program.parent().expect("a program lies in a folder").join(name)
}

fn module() -> Module {
    Module::load(library()).expect("the library loads")
}

#[test]
fn functions_and_kernels() {
    let module = module();
    let int = |name: &str, args: (i64,)| module.function(name).unwrap().call_as::<i64>(args).unwrap();
    assert_eq!(module.function("add").unwrap().call_as::<i64>((2, 3)).unwrap(), 5);
    assert_eq!(int("scale", (7,)), 21);
    assert_eq!(int("negate", (7,)), -7);
}

#[test]
fn names_are_registered_with_the_crate_name() {
    let _module = module();
    for name in ["downstream.add", "downstream.make_point", "downstream.scale", "downstream.negate"] {
        assert!(Function::find_global(name).unwrap().is_some(), "{name}");
    }
}

#[test]
fn objects_cross() {
    let module = module();
    let point = module.function("downstream.make_point").unwrap().call((3.0, 4.0)).unwrap();
    assert_eq!(point.type_name(), "downstream.Point");
    assert_eq!(module.function("length").unwrap().call_as::<f64>((&point,)).unwrap(), 5.0);
}

#[test]
fn tensors_cross() {
    let tensor = Tensor::from_vec(vec![1.0f32, 2.0, 3.5, 4.0], &[2, 2]).unwrap();
    assert_eq!(module().function("sum").unwrap().call_as::<f64>((&tensor,)).unwrap(), 10.5);
}

#[test]
fn errors_name_what_was_wrong() {
    let module = module();
    let error = module.function("parse").unwrap().call(("seven",)).unwrap_err();
    assert_eq!((error.kind(), error.message()), ("ValueError", "'seven' is not a number"));
    let error = module.function("add").unwrap().call((1, "two")).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        ("TypeError", "add(a: int, b: int): argument 'b': expected int, got str")
    );
    let error = module.function("scale").unwrap().call(("two",)).unwrap_err();
    assert_eq!((error.kind(), error.message()), ("TypeError", "scale(x: int): expected one int"));
}

#[test]
fn the_library_carries_no_builtins() {
    // A library adds its functions to its host's global functions; those of the runtime need the
    // feature `builtins`, which this crate does not enable.
    let bytes = std::fs::read(library()).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(
        has(b"ffi.FunctionListGlobalNamesFunctor"),
        "the list of its own functions is there, for a host that has nothing"
    );
    // This library does not load others.
    for name in [
        "ffi.ModuleLoadFromFile",
        "ffi.StructuralEqual",
        "ffi.json.Parse",
        "ffi.ReprPrint",
        "ffi.MakeObjectFromPackedArgs",
    ] {
        assert!(!has(name.as_bytes()), "{name} is in the library");
    }
}

/// A C program with this library as its runtime looks up the loader: it is missing, and the C
/// function returns NULL.
#[test]
fn a_c_program_finds_no_loader() {
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let program = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_loader");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(format!("{checkout}/tests/c/loader.c"));
    cc.arg("-I").arg(format!("{checkout}/build-support/include")).arg("-ldl");
    assert!(cc.status().expect("a C compiler named cc is needed").success());
    let output = std::process::Command::new(program).args([library(), library()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ffi.ModuleLoadFromFile: none\n");
}
