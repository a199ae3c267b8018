//! Modules made in C++ with the stock headers (`c/modules.cc`), used by Rust, and modules made in
//! Rust, used by that C++ code: every virtual function, with errors, and import trees of both, in
//! processes with the stock library and with ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use kernpack::module::{ModuleImpl, ModuleProperties};
use kernpack::sys::provider::{Origin, origin};
use kernpack::{Any, Bytes, Function, Module, Result, Str, bail};
use kernpack_tests::beside::test_again;
use kernpack_tests::stock::stock_library;
use kernpack_tests::{headers, library};

const INSIDE: &str = "KERNPACK_TEST_INSIDE_HOST";

const CPP_LIBRARY: &str = "KERNPACK_TEST_CPP_LIBRARY";

/// The C++ library, or `None` without headers.
fn cpp_library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            let include_dirs = headers::include_dirs_or_skip()?;
            let library = headers::scratch_dir("cpp_modules").join("modules.so");
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/modules.cc");
            headers::compile("c++", &source, &library, &include_dirs, &["-std=c++17", "-shared", "-fPIC", "-O1"]);
            Some(library)
        })
        .as_deref()
}

/// Runs only this test in this program again, with a preloaded library.
fn run_inside(test: &str, preload: &Path) {
    let Some(library) = cpp_library() else { return };
    let output = test_again(module_path!(), test)
        .arg("--nocapture")
        .env("LD_PRELOAD", preload)
        .env(INSIDE, "1")
        .env(CPP_LIBRARY, library)
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}", output.status);
}

#[test]
fn with_the_stock_library() {
    if std::env::var_os(INSIDE).is_some() {
        return inside(true).unwrap();
    }
    let Some(stock) = stock_library() else { return };
    run_inside("with_the_stock_library", &stock);
}

/// Our own implementation as `libtvm_ffi.so`: Rust cannot throw there, and prints that on stderr.
#[test]
fn with_our_library() {
    if std::env::var_os(INSIDE).is_some() {
        return inside(false).unwrap();
    }
    run_inside("with_our_library", library::library());
}

/// A Rust program that exports the functions: by itself, and passing calls on.
#[test]
fn in_a_program_of_ours() {
    let Some(modules) = cpp_library() else { return };
    let programs = library::library().parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--package", "kernpack-loading-host", "--target-dir"]);
    cargo.arg(programs.parent().unwrap());
    match programs.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => _ = cargo.args(["--profile", profile]),
    }
    headers::run(&mut cargo);
    let run = |expected: &str, preload: Option<&Path>| {
        let mut host = Command::new(programs.join("kernpack-loading-host"));
        // cargo's value contains folders with a libtvm_ffi.so.
        host.env_remove("LD_LIBRARY_PATH").arg(expected).arg(modules);
        if let Some(preload) = preload {
            host.env("LD_PRELOAD", preload);
        }
        let output = headers::run(&mut host);
        assert_eq!(output.stdout, b"modules.so: all checks passed\n");
    };
    run("Embedded", None);
    // Rust's libLLVM contains a C++ runtime, whose symbols are found before those of the runtime
    // that throws. The toolchain's libLLVM is for the build machine: the program of tests/aarch64
    // has none.
    #[cfg(not(target_arch = "aarch64"))]
    run("Embedded", Some(Path::new(kernpack_llvm_link::LLVM_LIBRARY)));
    run("Process", Some(library::library()));
    if let Some(stock) = stock_library() {
        run("Process", Some(&stock));
    }
}

fn inside(throws: bool) -> Result<()> {
    assert_eq!(origin(), Origin::Process);
    let library = Module::load(Path::new(&std::env::var_os(CPP_LIBRARY).unwrap()))?;
    assert_eq!(library.function("offset_of_object")?.call_as::<i64>(())?, 8);
    cpp_modules_in_rust()?;
    cpp_errors_in_rust()?;
    rust_modules_in_cpp(throws)?;
    rust_errors_across_artifacts()?;
    mixed_trees(throws)?;
    assert_eq!(global::<i64>("cpp_modules.live", ())?, 0, "every C++ module is gone");
    assert_eq!(global::<i64>("cpp_modules.uncaught", ())?, 0, "every exception was caught");
    Ok(())
}

fn global<R: for<'a> kernpack::FromAny<'a>>(name: &str, args: impl kernpack::Args) -> Result<R> {
    Function::global(name)?.call_as(args)
}

/// A module of the kind `cpp.counter` in which the virtual function with the name `fails` fails.
fn counter(start: i64, fails: &str) -> Result<Module> {
    global("cpp_modules.counter", (start, fails))
}

fn cpp_modules_in_rust() -> Result<()> {
    let module = counter(40, "")?;
    assert_eq!(module.kind(), "cpp.counter");
    assert_eq!(module.properties(), ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE);
    assert!(module.downcast_ref::<Told>().is_none());
    let count = module.function("count")?;
    assert_eq!(count.call_as::<i64>((2,))?, 42);
    // A C++ module is queried each time: its functions may change.
    for find in [Module::find_function, Module::find_function_in_tree] {
        assert!(find(&module, "later")?.is_none());
    }
    count.call((58,))?;
    for find in [Module::find_function, Module::find_function_in_tree] {
        assert_eq!(find(&module, "later")?.unwrap().call_as::<i64>(())?, 1);
    }
    count.call((-58,))?;
    assert!(module.find_function_in_tree("later")?.is_none());
    assert!(module.implements_function("virtual")? && !module.implements_function("later")?);
    assert_eq!(module.function("cuont").unwrap_err().message(), "module of kind 'cpp.counter' has no function 'cuont'");
    assert_eq!(module.doc("count")?.as_deref(), Some("Counts on, and says how far it is."));
    assert_eq!(module.metadata("count")?.as_deref(), Some(r#"{"type_schema":"counts"}"#));
    assert_eq!((module.doc("other")?, module.metadata("other")?), (None, None));
    assert_eq!(module.write_formats()?, ["txt", "counter"]);
    assert_eq!(
        (module.inspect_source("")?, module.inspect_source("c")?),
        ("counter at 42".into(), "counter at 42 as c".into())
    );
    let bytes = module.save_to_bytes()?;
    assert_eq!(*bytes, 42i64.to_le_bytes());
    let again: Module = global("ffi.Module.load_from_bytes.cpp.counter", (&bytes,))?;
    assert_eq!(again.function("count")?.call_as::<i64>((0,))?, 42);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_modules.txt");
    module.write_to_file(&file, "txt")?;
    assert_eq!(std::fs::read_to_string(file)?, "42");
    Ok(())
}

/// An exception of each virtual function is an error here, for every caller.
fn cpp_errors_in_rust() -> Result<()> {
    type Ask = fn(&Module) -> Result<()>;
    let asks: [(&str, Ask); 8] = [
        ("get_function", |module| module.find_function("count").map(drop)),
        ("implements", |module| module.implements_function("count").map(drop)),
        ("doc", |module| module.doc("count").map(drop)),
        ("metadata", |module| module.metadata("count").map(drop)),
        ("write_formats", |module| module.write_formats().map(drop)),
        ("write_to_file", |module| module.write_to_file("/nowhere", "txt")),
        ("save_to_bytes", |module| module.save_to_bytes().map(drop)),
        ("inspect_source", |module| module.inspect_source("").map(drop)),
    ];
    for (what, ask) in asks {
        let failing = counter(1, what)?;
        let error = ask(&failing).expect_err(what);
        assert_eq!((error.kind(), error.message()), ("KeyError", &*format!("{what} of a counter fails")));
        let error = ask(&counter(1, &format!("std {what}"))?).expect_err(what);
        assert_eq!((error.kind(), error.message()), ("InternalError", &*format!("{what} of a counter fails by std")));
        asks.iter()
            .filter(|(other, _)| *other != what && *other != "write_to_file")
            .try_for_each(|(_, ask)| ask(&failing))?;
    }
    // An exception that is not a std::exception, in the functions that the stock library does not
    // wrap.
    let error = counter(1, "int save_to_bytes")?.save_to_bytes().unwrap_err();
    assert_eq!(error.message(), "a virtual function of a module threw a C++ value of type i");
    let error = counter(1, "")?.write_to_file("/nowhere", "elf").unwrap_err();
    assert_eq!((error.kind(), error.message()), ("ValueError", "a counter is not written as elf"));
    let bare: Module = global("cpp_modules.bare", ())?;
    assert_eq!((bare.kind().as_str(), bare.properties().bits()), ("cpp.bare", 0));
    let error = bare.save_to_bytes().unwrap_err();
    assert_eq!(error.message(), "a module of kind 'cpp.bare' cannot be serialized");
    let error = bare.write_to_file("/nowhere", "txt").unwrap_err();
    assert_eq!(error.message(), "Module[cpp.bare] does not support WriteToFile");
    assert_eq!((bare.write_formats()?, bare.inspect_source("")?), (vec![], String::new()));

    // Found through a Rust module's imports.
    let root = Module::new(Told::default());
    root.import(&counter(1, "get_function")?)?;
    let error = root.find_function_in_tree("other").unwrap_err();
    assert_eq!(error.message(), "get_function of a counter fails");
    assert!(root.find_function_in_tree("twice")?.is_some(), "found before that");
    Ok(())
}

/// A module in Rust that fails in the named function.
#[derive(Default)]
struct Told {
    fails: &'static str,
}

impl Told {
    fn check(&self, what: &str) -> Result<()> {
        match self.fails.strip_prefix("panic ") {
            Some(panics) if panics == what => panic!("{what} of a module in Rust panics"),
            None if self.fails == what => bail!(ValueError, "{what} of a module in Rust fails"),
            _ => Ok(()),
        }
    }
}

impl ModuleImpl for Told {
    fn kind(&self) -> &str {
        "rust.told"
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::RUNNABLE | ModuleProperties::BINARY_SERIALIZABLE
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        self.check("get_function")?;
        Ok((name == "twice").then(|| Function::from_fn(|x: i64| 2 * x)))
    }

    fn implements_function(&self, name: &str) -> Result<bool> {
        self.check("implements")?;
        Ok(name == "twice")
    }

    fn function_metadata(&self, name: &str) -> Result<Option<Str>> {
        self.check("metadata")?;
        Ok((name == "twice").then(|| Str::new("{}")))
    }

    fn function_doc(&self, name: &str) -> Result<Option<Str>> {
        self.check("doc")?;
        Ok((name == "twice").then(|| Str::new("Doubles, with a text that is too long to be stored in place.")))
    }

    fn save_to_bytes(&self) -> Result<Bytes> {
        self.check("save_to_bytes")?;
        Ok(Bytes::from(vec![7; 100]))
    }

    fn write_to_file(&self, path: &str, format: &str) -> Result<()> {
        self.check("write_to_file")?;
        Ok(std::fs::write(path, format)?)
    }

    fn write_formats(&self) -> Vec<String> {
        vec!["one".to_owned(), "two".to_owned()]
    }

    fn inspect_source(&self, _format: &str) -> Result<String> {
        self.check("inspect_source")?;
        Ok("source".to_owned())
    }
}

/// The results that C++ code gets from a module in Rust.
fn rust_modules_in_cpp(throws: bool) -> Result<()> {
    let module = Module::new(Told::default());
    let describe = |module: &Module, name: &str| global::<String>("cpp_modules.describe", (module, name));
    let known = "kind: rust.told\nproperties: 3\nfunction: 1\nimplements: 1\ndoc: Doubles, with a text that is too long to be stored in \
                 place.\nmetadata: {}\nformats: one two \nbytes: 100\nsource: source\nimports: 0\n";
    assert_eq!(describe(&module, "twice")?, known);
    let unknown = "kind: rust.told\nproperties: 3\nfunction: 0\nimplements: 0\ndoc: none\nmetadata: none\nformats: one two \nbytes: \
                   100\nsource: source\nimports: 0\n";
    assert_eq!(describe(&module, "other")?, unknown);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_modules.rs.txt");
    global::<()>("cpp_modules.write", (&module, file.to_str().unwrap(), "format"))?;
    assert_eq!(std::fs::read_to_string(&file)?, "format");

    for (told, line) in [
        ("get_function", "function"),
        ("implements", "implements"),
        ("doc", "doc"),
        ("metadata", "metadata"),
        ("save_to_bytes", "bytes"),
        ("inspect_source", "source"),
    ] {
        let text = describe(&Module::new(Told { fails: told }), "twice")?;
        let said = text.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(": ")).unwrap();
        if throws {
            assert_eq!(said, format!("!ValueError: {told} of a module in Rust fails"));
            // All other lines are the same as before.
            assert_eq!(text.lines().filter(|line| !known.lines().any(|known| known == *line)).count(), 1, "{text}");
        } else {
            assert!(["0", "none", ""].contains(&said), "{text}");
        }
    }
    let failing = Module::new(Told { fails: "write_to_file" });
    let written = global::<()>("cpp_modules.write", (&failing, "/nowhere", "format"));
    let panicking = Module::new(Told { fails: "panic get_function" });
    let called = global::<i64>("cpp_modules.call_imported", (&panicking, "twice", 1));
    if throws {
        let error = written.unwrap_err();
        assert_eq!((error.kind(), error.message()), ("ValueError", "write_to_file of a module in Rust fails"));
        let error = called.unwrap_err();
        assert_eq!((error.kind(), error.message()), ("InternalError", "a function of the module panicked"));
    } else {
        written?;
        assert_eq!(called.unwrap_err().message(), "no function twice");
    }
    Ok(())
}

/// The functions of the serving implementation call our module like a foreign one; its errors are
/// still passed on.
fn rust_errors_across_artifacts() -> Result<()> {
    for (told, name, args) in [
        ("get_function", "ffi.ModuleGetFunction", 3),
        ("implements", "ffi.ModuleImplementsFunction", 3),
        ("doc", "ffi.ModuleGetFunctionDoc", 3),
        ("metadata", "ffi.ModuleGetFunctionMetadata", 3),
        ("inspect_source", "ffi.ModuleInspectSource", 2),
        ("write_to_file", "ffi.ModuleWriteToFile", 4),
    ] {
        let module = Module::new(Told { fails: told });
        let function = Function::global(name)?;
        let error = match args {
            2 => function.call((&module, "twice")),
            3 => function.call((&module, "twice", false)),
            _ => function.call((&module, "/nowhere", "one")),
        };
        let error = error.expect_err(name);
        assert_eq!((error.kind(), error.message()), ("ValueError", &*format!("{told} of a module in Rust fails")));
    }
    Ok(())
}

/// Trees of both kinds of modules, searched from both sides.
fn mixed_trees(throws: bool) -> Result<()> {
    let (rust, cpp, leaf) = (Module::new(Told::default()), counter(5, "")?, Module::new(Told::default()));
    // Rust imports C++ imports Rust; Rust makes the first import, C++ the second.
    rust.import(&cpp)?;
    assert_eq!(global::<i64>("cpp_modules.import", (&cpp, &leaf))?, 1);
    assert_eq!(rust.imports(), std::slice::from_ref(&cpp));
    assert_eq!(cpp.imports(), std::slice::from_ref(&leaf));
    assert_eq!(rust.find_function_in_tree("count")?.unwrap().call_as::<i64>((1,))?, 6);
    assert_eq!(cpp.find_function_in_tree("twice")?.unwrap().call_as::<i64>((4,))?, 8);
    assert!(rust.implements_function_in_tree("virtual")? && !rust.implements_function("virtual")?);
    assert_eq!(global::<i64>("cpp_modules.call_imported", (&rust, "count", 1))?, 7);
    assert_eq!(global::<i64>("cpp_modules.call_imported", (&cpp, "twice", 21))?, 42);

    // A cycle, closed from either side.
    for closes in [
        leaf.import(&rust),
        global::<Any>("cpp_modules.import", (&leaf, &rust)).map(drop),
        cpp.import(&rust),
        global::<Any>("cpp_modules.import", (&cpp, &rust)).map(drop),
        cpp.import(&cpp),
    ] {
        match closes {
            Err(error) => assert!(error.message().starts_with("Cyclic dependency detected during import"), "{error}"),
            // Printed on stderr.
            Ok(()) => assert!(!throws),
        }
    }
    assert_eq!((leaf.imports().len(), cpp.imports().len(), rust.imports().len()), (0, 1, 1));

    // Functions that were found in the imports are forgotten with them, whichever side clears them.
    global::<()>("cpp_modules.clear", (&rust,))?;
    assert!(rust.find_function_in_tree("count")?.is_none());
    global::<Any>("cpp_modules.import", (&rust, &cpp))?;
    assert!(rust.find_function_in_tree("count")?.is_some());
    cpp.clear_imports()?;
    assert!(cpp.find_function_in_tree("twice")?.is_none());
    Ok(())
}
