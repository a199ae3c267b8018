//! Our `libtvm_ffi.so` compared with the stock one: a C++ program calls all functions of the ABI,
//! with valid and invalid arguments, and prints the results. It runs once with each library, and
//! the lines must be the same.
//!
//! Calls that crash the stock library must not crash ours. Other differences are listed in
//! [`INTENDED`]. A second program compares backtraces.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernpack_tests::skip::skip;
use kernpack_tests::{headers, library};

/// Steps where ours differs from a stock library that does not crash, and our output.
const INTENDED: &[(&str, &str)] = &[
    // Only functions are registered. The stock library registers any value, and crashes when it is
    // called.
    ("FunctionSetGlobalFromMethodInfo of 0", "-1 \"TypeError\": \"Cannot convert from type `None` to `ffi.Function`\""),
    ("FunctionSetGlobal of an error", "-1 \"TypeError\": \"Cannot convert from type `ffi.Error` to `ffi.Function`\""),
    ("FunctionSetGlobal of NULL", "-1 \"TypeError\": \"Cannot convert from type `None` to `ffi.Function`\""),
    // A negative index is not a type. The stock library writes before the start of the column.
    (
        "TypeRegisterAttr -1",
        "-1 \"InternalError\": \"Check failed: (entry != nullptr) is false: Cannot find type info for type_index=-1\"",
    ),
    (
        "TypeRegisterAttr INT32_MIN",
        "-1 \"InternalError\": \"Check failed: (entry != nullptr) is false: Cannot find type info for type_index=-2147483648\"",
    ),
    // Impossible tensors are refused.
    (
        "TensorFromDLPack of -1 dimensions",
        "-1 \"ValueError\": \"FromDLPack: a tensor cannot have -1 dimensions\" given back 0",
    ),
    (
        "TensorCreateUnsafeView of -1 dimensions",
        "-1 \"ValueError\": \"TensorCreateUnsafeView: a tensor cannot have -1 dimensions\"",
    ),
    ("TensorCreateUnsafeView(NULL, ...)", "-1 \"ValueError\": \"the argument `source` is NULL\""),
];

/// The folder of the stock library: `KERNPACK_TVM_FFI_LIB`, else the folder beside the headers.
fn stock_folder(include_dirs: &[PathBuf]) -> Option<PathBuf> {
    let named = std::env::var_os("KERNPACK_TVM_FFI_LIB").map(PathBuf::from);
    let beside = include_dirs.iter().filter_map(|dir| Some(dir.parent()?.join("lib")));
    named.into_iter().chain(beside).find(|folder| folder.join("libtvm_ffi.so").is_file())
}

/// The headers and the folder of the stock library; without them, prints a line with the reason for
/// skipping the test.
fn stock_or_skip() -> Option<(Vec<PathBuf>, PathBuf)> {
    let include_dirs = headers::include_dirs_or_skip()?;
    let stock = stock_folder(&include_dirs);
    if stock.is_none() {
        skip("set KERNPACK_TVM_FFI_LIB to the folder of the stock libtvm_ffi.so");
    }
    Some((include_dirs, stock?))
}

/// The output of a program with a library.
fn printed(program: &Path, library_folder: &Path) -> String {
    printed_for(program, library_folder, &[])
}

/// The output of a program with a library and arguments.
fn printed_for(program: &Path, library_folder: &Path, arguments: &[&str]) -> String {
    let output = headers::run(Command::new(program).args(arguments).env("LD_LIBRARY_PATH", library_folder));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The name and the result of the step of each line.
fn steps(program: &Path, library_folder: &Path) -> Vec<(String, String)> {
    printed(program, library_folder)
        .lines()
        .map(|line| {
            let (step, outcome) = line.split_once(" -> ").unwrap_or_else(|| panic!("no step: {line}"));
            (step.to_owned(), outcome.to_owned())
        })
        .collect()
}

#[test]
fn all_functions_do_what_those_of_the_stock_library_do() {
    let Some((include_dirs, stock)) = stock_or_skip() else { return };
    let program = headers::scratch_dir("same_as_stock").join("all_calls");
    library::compile_cpp("all_calls.cc", &program, &include_dirs, &[]);
    let theirs = steps(&program, &stock);
    let ours = steps(&program, library::library().parent().unwrap());

    let mut died = 0;
    let mut used = BTreeSet::new();
    let mut differences = Vec::new();
    for ((step, theirs), (our_step, ours)) in theirs.iter().zip(&ours) {
        assert_eq!(step, our_step, "the program took another way");
        died += u32::from(theirs == "died");
        if ours == "died" {
            differences.push(format!("{step}: ours dies, stock: {theirs}"));
        } else if theirs != "died" && theirs != ours {
            match INTENDED.iter().position(|(name, expected)| name == step && expected == ours) {
                Some(number) => _ = used.insert(number),
                None => differences.push(format!("{step}:\n  stock: {theirs}\n  ours:  {ours}")),
            }
        }
    }
    for (number, (step, _)) in INTENDED.iter().enumerate() {
        if !used.contains(&number) {
            differences.push(format!("{step}: listed as different, but is not"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(theirs.len(), ours.len());
    assert!(died > 50, "is this the stock library? It survived nearly all bad calls: {}", stock.display());
}

#[test]
fn backtraces_are_those_of_the_stock_library() {
    let Some((include_dirs, stock)) = stock_or_skip() else { return };
    for level in ["-O0", "-O1"] {
        let program = headers::scratch_dir("same_backtraces").join("throws");
        // With debug information, so that backtraces contain source places and inlined functions.
        library::compile_cpp("throws.cc", &program, &include_dirs, &["-g", level]);
        let theirs = printed(&program, &stock);
        let ours = printed(&program, library::library().parent().unwrap());
        // The stock library reports the end of the stack as a frame.
        let theirs: Vec<&str> = theirs.lines().filter(|line| !line.ends_with("in 0xffffffffffffffff")).collect();
        assert_eq!(ours.lines().collect::<Vec<_>>(), theirs, "{level}");
    }
}

#[test]
fn graphs_of_objects_are_compared_hashed_and_serialized_alike() {
    let Some((include_dirs, stock)) = stock_or_skip() else { return };
    let program = headers::scratch_dir("same_graphs").join("graphs");
    library::compile_cpp("graphs.cc", &program, &include_dirs, &[]);
    let ours = library::library().parent().unwrap();
    let both = |arguments: &[&str]| [&*stock, ours].map(|folder| printed_for(&program, folder, arguments));

    let [theirs, ours] = both(&["values", "0", "2000"]);
    assert!(theirs.lines().count() > 60_000);
    for (theirs, ours) in theirs.lines().zip(ours.lines()) {
        assert_eq!(theirs, ours);
    }
    assert_eq!(theirs.len(), ours.len());

    // Where the stock library recurses until it crashes, ours reports that a node is a part of
    // itself.
    let [theirs, ours] = both(&["hostile", "0", "800"]);
    for (theirs, ours) in theirs.lines().zip(ours.lines()) {
        if theirs == " -> died" {
            assert!(ours.ends_with("is a part of itself"), "{ours}");
        } else {
            // In the stock library, a text with escapes is never a small one, which shows only in
            // messages.
            let message = |line: &str| line.replace("ffi.SmallStr", "ffi.String");
            assert_eq!(message(theirs), message(ours));
        }
    }
    assert_eq!(theirs.lines().count(), ours.lines().count());
}

#[test]
fn errors_in_graphs_of_objects_are_the_same() {
    let Some((include_dirs, stock)) = stock_or_skip() else { return };
    let program = headers::scratch_dir("same_graph_errors").join("graph_errors");
    library::compile_cpp("graph_errors.cc", &program, &include_dirs, &[]);
    let (theirs, ours) = (steps(&program, &stock), steps(&program, library::library().parent().unwrap()));
    assert!(theirs.len() > 100);
    assert_eq!(theirs, ours);
}
