//! Files that are not libraries, and libraries with a broken import tree: each is rejected with one
//! clear message.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernpack::module::device_image::DeviceImage;
use kernpack::module::library_bin::LibraryBinWriter;
use kernpack::{Error, Function, IntoAny, Module};

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Compiles `c/hostile.c`.
fn compile(name: &str, options: &[String]) -> PathBuf {
    let library = folder().join(format!("loading_{name}.so"));
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&library)
        .args(options)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("c/hostile.c"))
        .status()
        .expect("a C compiler named cc is needed");
    assert!(status.success());
    library
}

/// A library with `blob` as its import tree.
fn with_tree(name: &str, blob: &[u8]) -> PathBuf {
    let bytes: Vec<String> = blob.iter().map(u8::to_string).collect();
    compile(name, &["-DTREE=1".to_owned(), format!("-DBLOB={}", bytes.join(","))])
}

/// A file with this content.
fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn message(path: impl AsRef<Path>) -> String {
    let error: Error = Module::load(path).expect_err("the file cannot be loaded");
    error.to_string()
}

#[track_caller]
fn check(path: impl AsRef<Path>, problem: &str) {
    let path = path.as_ref();
    assert_eq!(message(path), format!("RuntimeError: cannot load {}: {problem}", path.display()));
}

/// The bytes of the numbers of a blob.
fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A blob: its size, then `content`.
fn blob(content: &[u8]) -> Vec<u8> {
    let mut blob = (content.len() as u64).to_le_bytes().to_vec();
    blob.extend_from_slice(content);
    blob
}

#[test]
fn files_that_are_no_library() {
    let plain = compile("plain", &[]);
    let library = std::fs::read(&plain).unwrap();
    let patched = |name: &str, patches: &[(usize, u8)]| {
        let mut bytes = library.clone();
        for &(at, byte) in patches {
            bytes[at] = byte;
        }
        file(name, &bytes)
    };
    let missing = folder().join("loading_no_such_file.so");
    let folder_so = folder().join("loading_folder.so");
    std::fs::create_dir_all(&folder_so).unwrap();
    let own = "this process is x86-64; build the library for this machine";

    check(missing, "there is no such file");
    check(folder_so, "it is a folder");
    check(file("loading_empty.so", b""), "it is not a shared library (no ELF header)");
    check(file("loading_text.so", b"hello, world\n"), "it is not a shared library (no ELF header)");
    check(file("loading_magic.so", b"\x7fELF"), "it is not a shared library (no ELF header)");
    check(patched("loading_32.so", &[(4, 1)]), "it is a 32-bit library, this process is 64-bit little-endian");
    check(patched("loading_big.so", &[(5, 2)]), "it is a big-endian library, this process is 64-bit little-endian");
    if cfg!(target_arch = "x86_64") {
        check(patched("loading_arm.so", &[(18, 183), (19, 0)]), &format!("it is for AArch64, {own}"));
        check(patched("loading_none.so", &[(18, 0x34), (19, 0x12)]), &format!("it is for machine 4660, {own}"));
    }
}

#[test]
fn a_library_that_is_cut_off_is_refused_before_it_is_mapped() {
    let plain = std::fs::read(compile("whole", &[])).unwrap();
    let number = |at: usize| u64::from_le_bytes(plain[at..at + 8].try_into().unwrap()) as usize;
    for keep in [30, 100, 4000, plain.len() / 2] {
        let path = file(&format!("loading_cut_{keep}.so"), &plain[..keep]);
        let message = message(&path);
        let start = format!("RuntimeError: cannot load {}: it is cut off: ", path.display());
        let rest = message.strip_prefix(&start).unwrap_or_else(|| panic!("{message}"));
        let missing = rest.strip_suffix(" bytes are missing at its end; copy or build it again").unwrap();
        let missing: usize = missing.parse().unwrap();
        assert!(keep + missing <= plain.len(), "{message}");
    }
    // Parts that the loader does not map may be missing: section headers are for debuggers.
    let section_headers = number(0x28);
    let stripped = file("loading_without_sections.so", &plain[..section_headers]);
    let module = Module::load(stripped).unwrap();
    assert_eq!(module.function("one").unwrap().call_as::<i64>(()).unwrap(), 1);
}

#[test]
fn paths() {
    let invalid = folder().join(OsStr::from_bytes(b"loading_\xff.so"));
    assert_eq!(message(&invalid), format!("ValueError: the path {} is not valid UTF-8", invalid.display()));
    assert_eq!(
        message("/tmp/loading\0.so"),
        "RuntimeError: cannot load /tmp/loading\0.so: file name contained an unexpected NUL byte"
    );
    assert_eq!(
        message("loading_no_such_library.so"),
        "RuntimeError: cannot load loading_no_such_library.so: loading_no_such_library.so: cannot open shared object file: No \
         such file or directory"
    );
    let no_extension = file("loading_no_extension", b"text");
    assert_eq!(
        message(&no_extension),
        format!("RuntimeError: Failed to get file format from {}: it has no extension", no_extension.display())
    );
    assert_eq!(
        message(file("loading_other.xyz", b"text")),
        "RuntimeError: Loader for `.xyz` files is not registered, resolved to (ffi.Module.load_from_file.xyz) in the global \
         registry. Load the library that provides it first."
    );
    let unreadable = file("loading_unreadable.so", b"");
    let nobody = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(&unreadable, nobody).unwrap();
    // The superuser may read all files.
    if std::fs::File::open(&unreadable).is_err() {
        check(&unreadable, "Permission denied (os error 13)");
    }
}

#[test]
fn a_loader_in_place_of_ours_is_called() {
    const NAME: &str = "ffi.Module.load_from_file.so";
    let library = compile("other_loader", &[]);
    let ours = Function::global(NAME).unwrap();
    let pass_on = ours.clone();
    // Other tests load libraries at the same time.
    let theirs = Function::from_fn(move |path: String, format: String| -> kernpack::Result<Module> {
        kernpack::ensure!(!path.ends_with("loading_other_loader.so"), ValueError, "not a '{format}' of mine");
        pass_on.call_as((path, format))
    });
    Function::register_global_override(NAME, &theirs).unwrap();
    let refused = message(&library);
    Function::register_global_override(NAME, &ours).unwrap();
    assert_eq!(refused, "ValueError: not a 'so' of mine");
    assert!(Module::load(library).is_ok());
}

#[test]
fn broken_import_trees() {
    let check = |name: &str, tree: &[u8], problem: &str| {
        let path = with_tree(name, tree);
        let corrupt = format!("its __tvm_ffi__library_bin is corrupt: library_bin: {problem}");
        check(&path, &corrupt);
    };
    check(
        "endless",
        &words(&[u64::MAX]),
        "size at byte 0x0: claims 18446744073709551615 bytes, more than an address space",
    );
    check(
        "empty_tree",
        &blob(&[]),
        "row pointers at byte 0x8: needs 8 bytes, but only 0 are left; the data is cut off",
    );
    check(
        "many_rows",
        &blob(&words(&[u64::MAX, 0])),
        "row pointers at byte 0x8: claims 18446744073709551615 items of 8 bytes or more, but only 8 bytes follow",
    );
    check("no_module", &blob(&words(&[1, 0, 0])), "row pointers at byte 0x10: no module, so no root");
    check(
        "cycle",
        &blob(&words(&[2, 0, 1, 1, 0])),
        "import list at byte 0x28: module 0 imports module 0: a cycle; imports must come later",
    );
    check(
        "dangling",
        &blob(&words(&[2, 0, 1, 1, 7])),
        "import list at byte 0x28: module 0 imports module 7, but there are only 1 modules",
    );
    check(
        "long_kind",
        &blob(&words(&[2, 0, 0, 0, u64::MAX])),
        "kind of module 0 at byte 0x28: claims 18446744073709551615 bytes, but only 0 follow",
    );
    let mut binary_kind = words(&[2, 0, 0, 0, 2]);
    binary_kind.extend_from_slice(b"\xff\xfe");
    check("binary_kind", &blob(&binary_kind), "kind of module 0 at byte 0x28: is not UTF-8");
}

#[test]
fn a_size_beyond_the_library_is_not_believed() {
    for (name, path) in
        [("terabyte", with_tree("terabyte", &words(&[1 << 40]))), ("code", compile("code", &["-DTREE=2".to_owned()]))]
    {
        let message = message(&path);
        let start = format!(
            "RuntimeError: cannot load {}: its __tvm_ffi__library_bin is corrupt: it says that it has ",
            path.display()
        );
        assert!(message.starts_with(&start), "{name}: {message}");
        assert!(message.contains(" bytes, but the library holds ") && message.ends_with(" from there"), "{message}");
    }
    let path = compile("thread_local", &["-DTREE=3".to_owned()]);
    check(&path, "its __tvm_ffi__library_bin is corrupt: the symbol points outside the library");
}

#[test]
fn modules_of_the_tree() {
    let mut tree = LibraryBinWriter::new();
    let root = tree.add_library().unwrap();
    let child = tree.add_module("loading_martian", b"payload").unwrap();
    tree.import(root, child).unwrap();
    check(
        with_tree("martian", &tree.to_vec()),
        "it carries a module of kind 'loading_martian', but no loader of that kind is registered; load the runtime that \
         registers ffi.Module.load_from_bytes.loading_martian first",
    );

    let mut tree = LibraryBinWriter::new();
    tree.add_module("cuda", b"short").unwrap();
    check(
        with_tree("corrupt_cuda", &tree.to_vec()),
        "corrupt cuda module: device image: format at byte 0x0: needs 8 bytes, but only 5 are left; the data is cut off",
    );

    // A loader that does not return a module.
    let wrong = Function::from_fn(|_bytes: kernpack::Bytes| 7i64);
    Function::register_global("ffi.Module.load_from_bytes.loading_wrong", &wrong).unwrap();
    let mut tree = LibraryBinWriter::new();
    tree.add_module("loading_wrong", b"payload").unwrap();
    let path = with_tree("wrong_loader", &tree.to_vec());
    let problem = "result of the call: expected Module, got int";
    assert_eq!(message(&path), format!("TypeError: cannot load {}: {problem}", path.display()));

    // The library is not necessarily the root.
    let payload = DeviceImage::new("ptx", Vec::new(), b"// nothing").to_vec();
    let mut tree = LibraryBinWriter::new();
    let root = tree.add_module("cuda", &payload).unwrap();
    let library = tree.add_library().unwrap();
    tree.import(root, library).unwrap();
    let module = Module::load(with_tree("root_is_cuda", &tree.to_vec())).unwrap();
    assert_eq!(module.kind(), "cuda");
    assert_eq!(module.imports().iter().map(Module::kind).collect::<Vec<_>>(), ["library"]);
    assert!(module.find_function("one").unwrap().is_none());
    assert_eq!(module.find_function_in_tree("one").unwrap().unwrap().call_as::<i64>(()).unwrap(), 1);
}

/// The address of a module object.
fn address(module: &Module) -> usize {
    // SAFETY: the value of a module is an object.
    unsafe { module.clone().into_any().as_view().as_raw().payload.v_obj.addr() }
}

#[test]
fn a_library_with_a_context_keeps_no_more_modules_than_were_in_use_at_once() {
    let path = compile("again", &["-DCONTEXT".to_owned()]);
    let other = Module::load(compile("imported", &[])).unwrap();
    let (first, second) = (Module::load(&path).unwrap(), Module::load(&path).unwrap());
    assert!(first != second);
    first.import(&other).unwrap();
    assert_eq!((first.imports().len(), second.imports().len()), (1, 0));
    let function = first.function("one").unwrap();
    let addresses = [address(&first), address(&second)];
    drop(first);
    for _ in 0..3 {
        let again = Module::load(&path).unwrap();
        assert_eq!(address(&again), addresses[0], "the one without a reference");
        assert!(again.imports().is_empty(), "as new");
        again.import(&other).unwrap();
    }
    assert_eq!(function.call_as::<i64>(()).unwrap(), 1);
    drop(second);
    let mut again = [Module::load(&path).unwrap(), Module::load(&path).unwrap()].map(|module| address(&module));
    again.sort_unstable();
    let mut known = addresses;
    known.sort_unstable();
    assert_eq!(again, known);
}

#[test]
fn data_under_the_name_of_a_function_is_not_called() {
    let path = compile("data", &[]);
    let module = Module::load(&path).unwrap();
    assert_eq!(module.function("one").unwrap().call_as::<i64>(()).unwrap(), 1);
    let error = module.function("number").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("TypeError: symbol '__tvm_ffi_number' of {} is not a function", path.display())
    );
}
