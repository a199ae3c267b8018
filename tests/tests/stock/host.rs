//! A Rust program in a process that has loaded the stock libtvm_ffi: all calls use that
//! implementation.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use kernpack::module::library_bin::LibraryBinWriter;
use kernpack::sys::provider::{Origin, origin};
use kernpack::{Bytes, Function, IntoAny, Module, ObjRef, Object, Result, Tensor, bail};
use kernpack_tests::beside::test_again;
use kernpack_tests::stock::stock_library;

const INSIDE: &str = "KERNPACK_TEST_INSIDE_STOCK_HOST";

#[derive(Object)]
#[object(key = "stock_host.Pair")]
#[repr(C)]
pub struct Pair {
    pub first: i64,
    pub second: f64,
}

/// Runs itself again with the stock library loaded first.
#[test]
fn joins_the_stock_library() {
    if std::env::var_os(INSIDE).is_some() {
        return inside().unwrap();
    }
    let Some(stock) = stock_library() else { return };
    let output = test_again(module_path!(), "joins_the_stock_library")
        .arg("--nocapture")
        .env("LD_PRELOAD", stock)
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// A library's payloads are read in place, as in a process without the stock library; the stock
/// loader copies them.
fn payloads_are_read_in_place() -> Result<()> {
    static ADDRESSES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let load = Function::from_fn(|bytes: Bytes| {
        ADDRESSES.lock().unwrap().push(bytes.as_ptr().addr());
        Module::c_source("", "c", &[])
    });
    Function::register_global("ffi.Module.load_from_bytes.stock_host.big", &load)?;
    let mut tree = LibraryBinWriter::new();
    let payload = vec![7; 1 << 20];
    let root = tree.add_library().unwrap();
    let big = tree.add_module("stock_host.big", &payload).unwrap();
    tree.import(root, big).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [blob, source, library] = ["bin", "s", "so"].map(|end| folder.join(format!("stock_host_big.{end}")));
    std::fs::write(&blob, tree.to_vec())?;
    let text = format!(
        ".section .rodata\n.globl __tvm_ffi__library_bin\n__tvm_ffi__library_bin:\n.incbin \"{}\"\n\
         .section .note.GNU-stack,\"\",%progbits\n",
        blob.display()
    );
    std::fs::write(&source, text)?;
    let status = Command::new("cc").args(["-shared", "-nostdlib", "-o"]).arg(&library).arg(&source).status()?;
    assert!(status.success());
    for _ in 0..2 {
        let module = Module::load(&library)?;
        assert_eq!((module.kind().as_str(), module.imports()[0].kind().as_str()), ("library", "c"));
    }
    let addresses = ADDRESSES.lock().unwrap();
    assert!(addresses.len() == 2 && addresses[0] == addresses[1], "{addresses:?}");
    // The stock loader, as Python calls it, loads the same library in its own way.
    drop(addresses);
    let module: Module = Function::global("ffi.ModuleLoadFromFile")?.call_as((library.to_str().unwrap(),))?;
    assert_eq!(module.imports()[0].kind(), "c");
    let addresses = ADDRESSES.lock().unwrap();
    assert!(addresses.len() == 3 && addresses[2] != addresses[0], "{addresses:?}");
    Ok(())
}

fn inside() -> Result<()> {
    assert_eq!(origin(), Origin::Process);
    payloads_are_read_in_place()?;
    let library = Module::load(std::env::current_exe().unwrap().with_file_name("libconversions.so"))?;
    assert_eq!(library.kind(), "library");
    assert_eq!(library.function("add")?.call_as::<i64>((40, 2))?, 42);
    assert_eq!(Function::global("conversions.add")?.call_as::<i64>((1, 2))?, 3);
    // Functions of the stock library itself.
    assert_eq!(Function::global("ffi.ArraySize")?.call_as::<i64>((vec![1, 2, 3],))?, 3);
    assert_eq!(
        Function::global("ffi.MapCount")?.call_as::<i64>((std::collections::BTreeMap::from([("a", 1)]), "a"))?,
        1
    );

    let error = library.function("ad").unwrap_err();
    assert_eq!(
        error.message(),
        "module of kind 'library' has no function 'ad'; did you mean 'add' or 'echo_address' or 'echo_address4'?"
    );
    let error = library.function("add")?.call(("x", 2)).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        ("TypeError", "add(a: int, b: int): argument 'a': expected int, got str")
    );
    let fails = Function::from_fn(|x: i64| -> Result<i64> { bail!(KeyError, "no {x}") });
    let error = library.function("apply")?.call((fails, 7)).unwrap_err();
    assert_eq!((error.kind(), error.message()), ("KeyError", "no 7"));

    // An object of ours, printed and read by the stock library's reflection.
    let pair = ObjRef::new(Pair { first: 3, second: 0.5 }).into_any();
    assert_eq!(Function::global("ffi.ReprPrint")?.call_as::<String>((&pair,))?, "stock_host.Pair(first=3, second=0.5)");
    assert_eq!(pair.field("second")?.to::<f64>()?, 0.5);

    let tensor = Tensor::from_vec(vec![1.0f32, 2.0, 4.0], &[3])?;
    assert_eq!(library.function("sum_f32")?.call_as::<f64>((&tensor,))?, 7.0);
    assert_eq!(u64::MAX.into_any().to::<u64>()?, u64::MAX);

    Function::register_global("stock_host.one", &Function::from_fn(|| 1i64))?;
    assert!(Function::list_global_names()?.iter().any(|name| name == "stock_host.one"));
    Function::remove_global("stock_host.one")?;
    assert!(Function::find_global("stock_host.one")?.is_none());
    Ok(())
}
