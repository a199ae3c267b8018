//! The compiler's messages for each mistake: the files of `ui/`, each beside the expected text.
//! Code that the macros accept is there, too (`pass_*.rs`): each of these files is a test program
//! of its own.
//!
//! `TRYBUILD=overwrite cargo test -p kernpack-tests --test ui` writes the expected texts; review
//! the difference.

use std::path::PathBuf;

/// The files of `ui/` that must compile, or those that must not.
fn files(accepted: bool) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ui");
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> =
        names.filter(|name| name.ends_with(".rs") && name.starts_with("pass_") == accepted).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    files(false).iter().for_each(|file| cases.compile_fail(format!("ui/{file}")));
}

#[test]
fn what_is_accepted_is_built_and_run() {
    let manifest = include_str!("../Cargo.toml");
    for file in files(true) {
        let name = file.trim_end_matches(".rs");
        let target = format!("[[test]]\nname = \"{name}\"\npath = \"ui/{file}\"\nharness = false\n");
        assert!(manifest.contains(&target), "tests/Cargo.toml lacks\n{target}");
    }
}
