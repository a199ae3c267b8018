//! Libraries that are exported at run time: every packer gives the same library, and our host, the
//! stock `tvm_ffi` and Apache TVM load and call it.

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::length::Length;
use kernpack::module::export::BLOB_ALIGNMENT;
use kernpack::module::{AssemblyPacker, CPacker, ExportOptions};
use kernpack::{Bytes, Module};
use kernpack_build::{LlvmPacker, ObjectPacker, llvm_module, llvm_module_for};
use kernpack_tests::skip::skip;
use kernpack_tests::stock::{apache_tvm, stock_python};

fn length(payload: Vec<u8>) -> Module {
    Module::new(Length { payload: Bytes::from(payload) })
}

/// C code of a packed function that returns a number.
fn constant(name: &str, value: i64) -> String {
    format!(
        "struct any {{ int type_index, padding; long long value; }};\n\
         int __tvm_ffi_{name}(void* self, const struct any* args, int num_args, struct any* result) {{\n\
         (void)self; (void)args; (void)num_args;\n\
         result->type_index = 1; result->padding = 0; result->value = {value};\n return 0;\n}}\n"
    )
}

/// LLVM IR of the same.
fn constant_ir(name: &str, value: i64) -> String {
    format!(
        "define i32 @__tvm_ffi_{name}(ptr %self, ptr %args, i32 %n, ptr %result) {{\n  store i64 1, ptr %result\n  \
         %value = getelementptr i64, ptr %result, i64 1\n  store i64 {value}, ptr %value\n  ret i32 0\n}}\n"
    )
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn call(module: &Module, name: &str) -> i64 {
    module.find_function_in_tree(name).unwrap().unwrap().call_as(()).unwrap()
}

/// The module of an object file that `cc` makes.
fn object(test: &str, name: &str, value: i64) -> Module {
    let [source, object] = ["c", "o"].map(|extension| folder().join(format!("{test}_{name}.{extension}")));
    std::fs::write(&source, constant(name, value)).unwrap();
    let compiled = Command::new("cc").args(["-c", "-fPIC", "-o"]).arg(&object).arg(&source).status().unwrap();
    assert!(compiled.success());
    Module::static_library_file(&object, &[name]).unwrap()
}

/// C, an object, an archive, C++ and LLVM IR, and two modules that are serialized, one of them
/// shared.
fn tree(test: &str, payload: Vec<u8>) -> Module {
    let root = Module::c_source(&constant("from_c", 1), "c", &["from_c"]);
    let shared = length(payload);
    let other = length(vec![7; 70_000]);
    other.import(&shared).unwrap();
    let cpp = format!("#include <string>\nextern \"C\" {{\n{}}}\nstd::string used(\"x\");\n", constant("from_cpp", 4));
    object(test, "in_archive", 3);
    let archive = folder().join(format!("{test}.a"));
    let _ = std::fs::remove_file(&archive);
    let archived = Command::new("ar")
        .arg("rcs")
        .arg(&archive)
        .arg(folder().join(format!("{test}_in_archive.o")))
        .status()
        .unwrap();
    assert!(archived.success());
    for import in [
        object(test, "from_object", 2),
        Module::static_library_file(&archive, &["in_archive"]).unwrap(),
        Module::c_source(&cpp, "cc", &["from_cpp"]),
        llvm_module(constant_ir("from_llvm", 5)).unwrap(),
        shared,
        other,
    ] {
        root.import(&import).unwrap();
    }
    root
}

fn export(module: &Module, name: &str, options: &ExportOptions) -> PathBuf {
    let path = folder().join(name);
    module.export_library(&path, options).unwrap();
    path
}

fn check_tree(module: &Module, length: i64) {
    assert_eq!(module.kind(), "library");
    let functions = ["from_c", "from_object", "in_archive", "from_cpp", "from_llvm"];
    assert_eq!(functions.map(|name| call(module, name)), [1, 2, 3, 4, 5]);
    let imports = module.imports();
    assert_eq!(imports.iter().map(Module::kind).collect::<Vec<_>>(), ["export.length"; 2]);
    assert_eq!([call(&imports[0], "length"), call(&imports[1], "length")], [70_000, length]);
    // The shared module is restored once.
    assert_eq!(imports[0].imports(), [imports[1].clone()]);
}

/// Address of a symbol in a library, loaded here.
fn symbol(path: &Path, name: &str) -> *const c_void {
    let (path, name) = (CString::new(path.to_str().unwrap()).unwrap(), CString::new(name).unwrap());
    // SAFETY: both are C strings; the library is never closed.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null());
        libc::dlsym(handle, name.as_ptr())
    }
}

/// The permissions of the memory at an address, as the system reports them: `r--p`.
fn permissions(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let has = |line: &&str| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        (usize::from_str_radix(start, 16).unwrap()..usize::from_str_radix(end, 16).unwrap()).contains(&address)
    };
    maps.lines().find(has).unwrap().split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn every_packer_gives_the_same_library() {
    let root = tree("packers", (0..200_000_u32).map(|i| (i * 31) as u8).collect());
    let expected = root.serialize().unwrap();
    let options = [
        ("default", ExportOptions::new()),
        ("c", ExportOptions::new().packer(CPacker)),
        ("assembly", ExportOptions::new().packer(AssemblyPacker)),
        ("object", ExportOptions::new().packer(ObjectPacker)),
        ("llvm", ExportOptions::new().packer(LlvmPacker)),
    ];
    for (name, options) in options {
        let path = export(&root, &format!("packer_{name}.so"), &options);
        let blob = symbol(&path, "__tvm_ffi__library_bin").cast::<u8>();
        assert!(!blob.is_null() && blob.addr().is_multiple_of(BLOB_ALIGNMENT as usize), "{name}: {blob:?}");
        // SAFETY: the library has that many bytes there: otherwise the comparison below would find
        // another size field first.
        let bytes = unsafe { std::slice::from_raw_parts(blob, expected.len()) };
        assert!(bytes == expected, "{name}");
        assert_eq!(permissions(blob.addr()), "r--p", "{name}");
        check_tree(&Module::load(&path).unwrap(), 200_000);
    }
}

#[test]
fn a_root_that_is_not_the_library() {
    let root = length(vec![1; 10]);
    root.import(&Module::c_source(&constant("below", 8), "c", &["below"])).unwrap();
    let loaded = Module::load(export(&root, "relax_like.so", &ExportOptions::new())).unwrap();
    assert_eq!((loaded.kind().as_str(), call(&loaded, "length"), call(&loaded, "below")), ("export.length", 10, 8));
    assert_eq!(loaded.imports()[0].kind(), "library");
}

#[test]
fn modules_are_compressed_when_asked_for() {
    let root = tree("compressed", vec![5; 1_000_000]);
    let plain = export(&root, "plain.so", &ExportOptions::new());
    let small = export(&root, "small.so", &ExportOptions::new().compress(true));
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&plain) > 1_000_000 && size(&small) < 100_000, "{} {}", size(&plain), size(&small));
    check_tree(&Module::load(&small).unwrap(), 1_000_000);
}

#[test]
fn modules_are_compiled_for_this_process() {
    let root = Module::c_source(&constant("compiled", 11), "c", &["compiled"]);
    let error = root.function("compiled").unwrap_err();
    assert!(error.message().contains("cannot be called before the module is compiled"), "{error}");
    let compiled = root.compile().unwrap();
    assert_eq!(call(&compiled, "compiled"), 11);
    assert_eq!(compiled.function_names(), ["compiled"], "though the file is gone");
    assert_eq!(call(&object("compiled", "linked", 12).compile().unwrap(), "linked"), 12);
    assert_eq!(call(&llvm_module(constant_ir("jitted", 13)).unwrap(), "jitted"), 13);
}

#[test]
fn a_library_is_replaced_while_it_is_loaded() {
    let path =
        export(&Module::c_source(&constant("version", 1), "c", &["version"]), "replaced.so", &ExportOptions::new());
    let old = Module::load(&path).unwrap();
    export(&Module::c_source(&constant("version", 2), "c", &["version"]), "replaced.so", &ExportOptions::new());
    assert_eq!(call(&old, "version"), 1);
    let copy = folder().join("replaced_copy.so");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(call(&Module::load(copy).unwrap(), "version"), 2);
}

#[test]
fn objects_and_flags_are_added() {
    object("added", "extra", 21);
    let code = "int __tvm_ffi_extra(void*, const void*, int, void*);\n\
                int __tvm_ffi_doubled(void* self, const void* args, int n, long long* result) {\n\
                int rc = __tvm_ffi_extra(self, args, n, result); result[1] *= FACTOR; return rc;\n}\n";
    let options =
        ExportOptions::new().link(folder().join("added_extra.o")).flag("-DFACTOR=2").folder(folder().join("kept"));
    let path = export(&Module::c_source(code, "c", &["doubled"]), "extra.so", &options);
    assert_eq!(call(&Module::load(path).unwrap(), "doubled"), 42);
    assert_eq!(std::fs::read_to_string(folder().join("kept/lib0.c")).unwrap(), code);
}

#[test]
fn mistakes_are_named() {
    let path = folder().join("mistake.so");
    let _ = std::fs::remove_file(&path);
    let message = |module: &Module, options: &ExportOptions| {
        let error = module.export_library(&path, options).unwrap_err().to_string();
        assert!(!path.exists());
        let start = format!("RuntimeError: cannot export {}: ", path.display());
        error.strip_prefix(&start).unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    let broken = Module::c_source("int nonsense(", "c", &[]);
    let error = message(&broken, &ExportOptions::new().flag("-Wall"));
    let first_lines: Vec<&str> = error.lines().take(3).collect();
    assert_eq!((first_lines[0], first_lines[2]), ("cc failed (exit status: 1)", "  output:"), "{error}");
    assert!(first_lines[1].starts_with("  command: cc -shared -fPIC -O2 -o ") && first_lines[1].ends_with(" -Wall"));
    assert!(error.contains("error: "), "{error}");

    let error = message(&broken, &ExportOptions::new().compiler("/no/such/cc"));
    assert!(
        error
            .starts_with("/no/such/cc cannot be run: No such file or directory (os error 2) (ExportOptions says so); ")
    );
    if std::env::var_os("CC").is_none() {
        let error = message(&broken, &ExportOptions::new().target("riscv64gc-unknown-plan9-gnu"));
        assert!(error.contains("riscv64gc-plan9-gnu-gcc cannot be run"), "{error}");
    }

    let loaded = Module::c_source(&constant("loaded", 1), "c", &["loaded"]).compile().unwrap();
    assert_eq!(
        message(&loaded, &ExportOptions::new()),
        "the module library was loaded from a library file, and its code cannot be written out again; export the modules that \
         the file was made of, or import the loaded library again where this tree is loaded"
    );
    assert_eq!(
        message(&length(Vec::new()), &ExportOptions::new()),
        "the module export.length has an empty payload, which the stock library cannot load; its kind must save at least one byte"
    );
    let nowhere = Path::new("/no/such/folder/x.so");
    let fine = Module::c_source(&constant("fine", 1), "c", &["fine"]);
    assert!(fine.export_library(nowhere, &ExportOptions::new()).unwrap_err().message().contains("/no/such/folder/"));
    // No unfinished file is left behind.
    let left = std::fs::read_dir(folder()).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert_eq!(left.filter(|name| name.starts_with(".mistake.so")).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn code_for_another_machine_is_exported_by_its_compiler() {
    let compiler = Command::new("aarch64-linux-gnu-gcc").arg("--version").output();
    if !compiler.is_ok_and(|output| output.status.success()) {
        return skip(
            "no aarch64-linux-gnu-gcc (Debian and Ubuntu: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)",
        );
    }
    let module = llvm_module_for(constant_ir("far", 1), "aarch64-unknown-linux-gnu").unwrap();
    module.import(&length(vec![1; 100_000])).unwrap();
    let path = export(&module, "far.so", &ExportOptions::new().target("aarch64-unknown-linux-gnu"));
    let error = Module::load(path).unwrap_err();
    assert!(cfg!(target_arch = "aarch64") || error.message().contains("it is for AArch64"), "{error}");
}

/// Runs `python/exported.py`, which loads the files that this test exports.
fn check_in(python: &Path, name: &str) {
    let root = Module::c_source(&constant("from_c", 1), "c", &["from_c"]);
    root.import(&object(name, "from_object", 2)).unwrap();
    root.import(&llvm_module(constant_ir("from_llvm", 5)).unwrap()).unwrap();
    // A kind for which the Python program has a loader of its own.
    let image = length(vec![9; 100_000]);
    root.import(&image).unwrap();
    let library = export(&root, &format!("{name}.so"), &ExportOptions::new());
    let compressed = export(&root, &format!("{name}_compressed.so"), &ExportOptions::new().compress(true));
    let system = Module::c_source(&constant("kp_system", 6), "c", &["kp_system"]);
    system.import(&image).unwrap();
    let options = ExportOptions::new().system_library("kp_");
    let system = export(&system, &format!("{name}_system.so"), &options);
    let c = Module::c_source("int x;", "cc", &["f", "g"]).save_to_bytes().unwrap();
    let object = Module::static_library(b"OBJ".to_vec(), &["f"]).save_to_bytes().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/exported.py");
    let output = Command::new(python)
        .arg(program)
        .args([name.into(), library, compressed, system])
        .args([write(&format!("{name}_c.bin"), &c), write(&format!("{name}_object.bin"), &object)])
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.ends_with("ok\n"), "{text}");
}

#[test]
fn the_stock_library_loads_it() {
    if let Some(python) = stock_python() {
        check_in(&python, "tvm_ffi");
    }
}

#[test]
fn apache_tvm_loads_it() {
    if let Some(python) = apache_tvm() {
        check_in(&python, "tvm");
    }
}

#[test]
fn a_static_library_registers_itself() {
    // Also a name that is not valid in C.
    let dotted = "int dotted(void* self, const void* args, int num_args, void* result) __asm__(\"__tvm_ffi_kps.dotted\");\n\
                  int dotted(void* self, const void* args, int num_args, void* result) { return 0; }\n";
    let code = format!("{}{dotted}", constant("kps_inside", 17));
    let root = Module::c_source(&code, "c", &["kps_inside", "kps.dotted"]);
    root.import(&length(vec![3; 1_000])).unwrap();
    let path = export(&root, "static.a", &ExportOptions::new().system_library("kps_"));
    // A program that records the registrations.
    let program = "#include <stdio.h>\n#include <string.h>\n\
                   static unsigned size;\nstatic long long value;\n\
                   int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol) {\n\
                     if (!strcmp(name, \"kps___tvm_ffi__library_bin\")) memcpy(&size, symbol, sizeof size);\n\
                     if (!strcmp(name, \"__tvm_ffi_kps_inside\")) {\n\
                       long long any[2];\n\
                       ((int (*)(void*, const void*, int, void*))symbol)(0, 0, 0, any);\n\
                       value += any[1];\n\
                     }\n\
                     if (!strcmp(name, \"__tvm_ffi_kps.dotted\")) value += 100;\n\
                     return 0;\n\
                   }\n\
                   int main(void) { printf(\"%u %lld\\n\", size, value); return 0; }\n";
    let (source, binary) = (folder().join("main.c"), folder().join("static_main"));
    std::fs::write(&source, program).unwrap();
    let linked = Command::new("cc")
        .arg("-o")
        .args([&binary, &source])
        .arg("-Wl,--whole-archive")
        .arg(path)
        .arg("-Wl,--no-whole-archive")
        .status();
    assert!(linked.unwrap().success());
    let output = Command::new(binary).output().unwrap();
    let expected = format!("{} 117\n", root.serialize().unwrap().len() - 8);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
