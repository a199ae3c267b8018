//! What the macros accept (`ui/pass_*.rs`) and what the compiler says about each mistake (the other files, each beside
//! the text that is expected).
//!
//! `TRYBUILD=overwrite cargo test -p kernpack-tests --test ui` writes the expected texts anew; read the difference.

use std::path::PathBuf;

#[test]
fn ui() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ui");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    let cases = trybuild::TestCases::new();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        if name.starts_with("pass_") {
            cases.pass(format!("ui/{name}"));
        } else {
            cases.compile_fail(format!("ui/{name}"));
        }
    }
}
