//! Repeated lookups of functions in modules: without an allocation, without stale results, by many
//! threads. Also trees of modules that are so deep or so wide that recursion or quadratic
//! algorithms would fail.

use std::ffi::c_long;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use kernpack::module::ModuleImpl;
use kernpack::module::library_bin::LibraryBinWriter;
use kernpack::{Bytes, Function, IntoAny, Module, Result};
use kernpack_tests::beside::test_again;
use kernpack_tests::chain_length;
use kernpack_tests::headers;

/// A module with one function, `name`, which returns a number.
struct Constant {
    name: &'static str,
    value: i64,
    alive: Arc<()>,
}

impl Constant {
    fn module(name: &'static str, value: i64) -> Module {
        Module::new(Self { name, value, alive: Arc::default() })
    }
}

impl ModuleImpl for Constant {
    fn kind(&self) -> &str {
        "test.constant"
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        let (value, alive) = (self.value, Arc::clone(&self.alive));
        let function = move || {
            let _ = &alive;
            value
        };
        Ok((name == self.name).then(|| Function::from_fn(function)))
    }
}

/// The result of a function of the tree; `None` if there is no such function.
fn ask(module: &Module, name: &str) -> Option<i64> {
    let function = module.find_function_in_tree(name).unwrap()?;
    Some(function.call_as(()).unwrap())
}

#[test]
fn changes_of_the_imports_are_seen() {
    let (root, middle) = (Constant::module("root", 1), Constant::module("middle", 2));
    let (first, second) = (Constant::module("leaf", 3), Constant::module("leaf", 4));
    root.import(&middle).unwrap();
    for _ in 0..2 {
        assert_eq!((ask(&root, "root"), ask(&root, "middle"), ask(&root, "leaf")), (Some(1), Some(2), None));
    }
    // Once a function is found further down, imports that are added later do not matter.
    middle.import(&first).unwrap();
    assert_eq!(ask(&root, "leaf"), Some(3));
    middle.import(&second).unwrap();
    assert_eq!(ask(&root, "leaf"), Some(3));
    middle.clear_imports().unwrap();
    assert_eq!(ask(&root, "leaf"), None);
    middle.import(&second).unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&root, "leaf"), Some(4));
    }
    root.clear_imports().unwrap();
    assert_eq!((ask(&root, "root"), ask(&root, "middle"), ask(&root, "leaf")), (Some(1), None, None));
    // A function in the imports is not one of the module itself.
    root.import(&middle).unwrap();
    assert_eq!(ask(&root, "leaf"), Some(4));
    assert!(root.find_function("leaf").unwrap().is_none());
}

/// A module whose only function may appear and disappear.
struct Changing {
    value: Arc<AtomicI64>,
}

impl ModuleImpl for Changing {
    fn kind(&self) -> &str {
        "test.changing"
    }

    fn has_fixed_functions(&self) -> bool {
        false
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        let value = self.value.load(Ordering::Relaxed);
        Ok((name == "leaf" && value != 0).then(|| Function::from_fn(move || value)))
    }
}

#[test]
fn a_module_whose_functions_change_is_asked_each_time() {
    let value = Arc::new(AtomicI64::new(0));
    let changing = Module::new(Changing { value: Arc::clone(&value) });
    let (root, leaf) = (Constant::module("root", 1), Constant::module("leaf", 2));
    root.import(&changing).unwrap();
    root.import(&leaf).unwrap();
    for (now, expected) in [(0, 2), (5, 5), (6, 6), (0, 2), (7, 7)] {
        value.store(now, Ordering::Relaxed);
        for _ in 0..2 {
            assert_eq!(ask(&root, "leaf"), Some(expected));
            assert_eq!(ask(&changing, "leaf"), (now != 0).then_some(now));
        }
    }
}

#[test]
fn what_is_remembered_goes_with_the_module() {
    let alive = Arc::new(());
    let new = |name| Module::new(Constant { name, value: 1, alive: Arc::clone(&alive) });
    let (root, leaf) = (new("root"), new("leaf"));
    root.import(&leaf).unwrap();
    assert_eq!((ask(&root, "root"), ask(&root, "leaf"), ask(&leaf, "leaf")), (Some(1), Some(1), Some(1)));
    let function = leaf.function("leaf").unwrap();
    drop((root, leaf));
    assert_eq!(Arc::strong_count(&alive), 2, "the function is alive, the modules are not");
    drop(function);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn many_threads_look_up_while_the_imports_change() {
    let root = Constant::module("root", 1);
    let leaves = [Constant::module("leaf", 10), Constant::module("leaf", 20)];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(ask(&root, "root"), Some(1));
                    assert!(matches!(ask(&root, "leaf"), None | Some(10 | 20)));
                }
            });
        }
        for step in 0..if cfg!(debug_assertions) { 500 } else { 5000 } {
            root.clear_imports().unwrap();
            let leaf = &leaves[step % 2];
            root.import(leaf).unwrap();
            assert_eq!(ask(&root, "leaf"), ask(leaf, "leaf"));
        }
        done.store(true, Ordering::Relaxed);
    });
}

const INSIDE: &str = "KERNPACK_TEST_COUNTS_ALLOCATIONS";

/// Runs itself again with allocations counted.
#[test]
fn a_later_lookup_allocates_nothing() {
    if std::env::var_os(INSIDE).is_some() {
        return count_allocations();
    }
    let counter = headers::scratch_dir("module_lookup").join("count_malloc.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/count_malloc.c");
    headers::compile("cc", &source, &counter, &[], &["-shared", "-fPIC", "-O1"]);
    let mut again = test_again(module_path!(), "a_later_lookup_allocates_nothing");
    again.env("LD_PRELOAD", counter).env(INSIDE, "1");
    let output = headers::run(&mut again);
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

fn count_allocations() {
    // SAFETY: this is the preloaded library's variable; only other threads of the test harness
    // could change it, and they wait.
    let counter = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"kernpack_test_allocations".as_ptr()) }.cast::<c_long>();
    assert!(!counter.is_null());
    // SAFETY: as above.
    let count = || unsafe { counter.read_volatile() };
    let library = Module::load(std::env::current_exe().unwrap().with_file_name("libconversions.so")).unwrap();
    let (root, leaf) = (Constant::module("root", 1), Constant::module("leaf", 2));
    root.import(&leaf).unwrap();
    root.import(&library).unwrap();
    type Find = fn(&Module, &str) -> Result<Option<Function>>;
    let (own, in_tree): (Find, Find) = (Module::find_function, Module::find_function_in_tree);
    for (module, name, find) in [
        (&root, "root", own),
        (&root, "root", in_tree),
        (&root, "leaf", in_tree),
        (&root, "add", in_tree),
        (&library, "add", own),
    ] {
        let before = count();
        drop(find(module, name).unwrap().unwrap());
        let first = count() - before;
        let before = count();
        for _ in 0..100 {
            drop(find(module, name).unwrap().unwrap());
        }
        let later = count() - before;
        assert_eq!(later, 0, "{name}: {first} allocations at the first lookup, {later} at 100 later ones");
    }
}

/// A library with a tree, which the assembler reads from a file.
fn library_with(name: &str, blob: &[u8]) -> PathBuf {
    let folder = headers::scratch_dir(name);
    let (bytes, source, library) = (folder.join("tree.bin"), folder.join("tree.s"), folder.join("tree.so"));
    std::fs::write(&bytes, blob).unwrap();
    let text = format!(
        ".section .rodata\n.globl __tvm_ffi__library_bin\n.type __tvm_ffi__library_bin, %object\n.balign 16\n\
         __tvm_ffi__library_bin:\n.incbin \"{}\"\n.size __tvm_ffi__library_bin, . - __tvm_ffi__library_bin\n\
         .section .note.GNU-stack,\"\",%progbits\n",
        bytes.display()
    );
    std::fs::write(&source, text).unwrap();
    headers::compile("cc", &source, &library, &[], &["-shared", "-nostdlib"]);
    library
}

fn register_loader() {
    let load = Function::from_fn(|bytes: Bytes| Constant::module("leaf", i64::from(bytes[0])));
    // Only some test runners start a process for each test.
    if Function::find_global("ffi.Module.load_from_bytes.test.tree").unwrap().is_none() {
        let _ = Function::register_global("ffi.Module.load_from_bytes.test.tree", &load);
    }
}

/// A chain in which every module imports the next one: loaded, searched, printed and dropped on a
/// small stack.
#[test]
fn a_long_chain_needs_no_deep_stack() {
    register_loader();
    let length = chain_length();
    let mut tree = LibraryBinWriter::new();
    for index in 0..length {
        let module = tree.add_module("test.tree", b"\x07").unwrap();
        if index > 0 {
            tree.import(module - 1, module).unwrap();
        }
    }
    let library = library_with("chain", &tree.to_vec());
    let chain = std::thread::Builder::new().stack_size(256 * 1024).spawn(move || {
        let root = Module::load(library).unwrap();
        assert_eq!(format!("{root:?}"), "Module(test.constant, 1 imports)");
        assert_eq!(ask(&root, "leaf"), Some(7));
        assert_eq!(ask(&root, "nothing"), None);
        // This import would close the cycle.
        let mut last = root.clone();
        while let Some(next) = last.imports().pop() {
            last = next;
        }
        let error = last.import(&root).unwrap_err();
        assert!(error.message().starts_with("Cyclic dependency detected during import"), "{error}");
        // With the Cargo feature `builtins`, which a test of the whole workspace enables.
        if let Some(print) = Function::find_global("ffi.ReprPrint").unwrap() {
            // We have the stock library's limit: beyond it, printing is an error.
            match print.call_as::<String>((&root,)) {
                Ok(printed) => assert!(printed.starts_with("ffi.Module("), "{}", &printed[..printed.len().min(100)]),
                Err(error) => {
                    assert_eq!(error.message(), "ObjectGraphDFS: maximum stack depth (1048576) exceeded");
                    assert!(length > 500_000, "{length}");
                }
            }
        }
        drop(last);
        drop(root);
    });
    chain.unwrap().join().unwrap();
}

/// A root with very many imports, and modules that share them.
#[test]
fn a_wide_tree_is_not_quadratic() {
    register_loader();
    let width = chain_length() / 10;
    let mut tree = LibraryBinWriter::new();
    for index in 0..width {
        let module = tree.add_module("test.tree", b"a").unwrap();
        if index > 0 {
            tree.import(0, module).unwrap();
        }
    }
    let root = Module::load(library_with("wide", &tree.to_vec())).unwrap();
    assert_eq!(root.imports().len(), width - 1);
    assert_eq!(ask(&root, "nothing"), None);
    let other = Constant::module("other", 1);
    other.import(&root).unwrap();
    assert_eq!(ask(&other, "leaf"), Some(i64::from(b'a')));
    assert_eq!(root.clone().into_any().to::<Module>().unwrap(), root);
}
