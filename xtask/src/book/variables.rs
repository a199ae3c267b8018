//! Checks that the book names every environment variable that the sources read.

use super::Result;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The page that lists the variables.
const PAGE: &str = "docs/environment-variables.md";

/// Sources of programs and libraries that users run.
const SOURCES: &[&str] = &[
    "runtime/formats/src",
    "runtime/embedded/src",
    "runtime/core/src",
    "runtime/builtins/src",
    "runtime/src",
    "runtime/capi",
    "runtime/python/src",
    "runtime/rpc/src",
    "macros",
    "build-support/src",
    "build-support/llvm-find/src",
    "build-support/llvm-link",
    "build-support/cli/src",
];

/// Functions that read a variable.
const READERS: [&str; 8] =
    ["env::var(", "env::var_os(", ".user(", ".track(", ".variable(", ".path_variable(", ".cargo_optional(", "getenv("];

/// Compares the sources with the page.
///
/// # Errors
/// Each variable that the page does not name, with a file that reads it; and each variable that
/// only the page names.
pub(crate) fn check(root: &Path) -> Result {
    let page = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("cannot read {PAGE}: {error}"))?;
    let mut read = BTreeMap::new();
    for folder in SOURCES {
        collect(&root.join(folder), &mut read)?;
    }
    let mut problems: Vec<String> = Vec::new();
    for (name, file) in &read {
        if !page.contains(&format!("`{name}`")) {
            problems.push(format!("{PAGE} does not name {name}, which {file} reads"));
        }
    }
    for name in page.split('`').skip(1).step_by(2).filter(|name| is_ours(name)) {
        if !read.contains_key(name) {
            problems.push(format!("{PAGE} names {name}, which nothing reads"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

fn collect(path: &Path, read: &mut BTreeMap<String, String>) -> Result {
    if path.is_dir() {
        let is_test = path.file_name().is_some_and(|name| name == "tests");
        for entry in fs::read_dir(path)?.flatten().filter(|_| !is_test) {
            collect(&entry.path(), read)?;
        }
    } else if path.file_name().is_some_and(|name| name == "tests.rs") {
        return Ok(());
    } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "c") {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for name in variables(code) {
            read.entry(name.to_string()).or_insert_with(|| path.display().to_string());
        }
    }
    Ok(())
}

/// The variables that code reads: our variables in quotes, and arguments of functions that read a
/// variable.
fn variables(code: &str) -> impl Iterator<Item = &str> {
    let parts: Vec<&str> = code.split('"').collect();
    let quoted = (1..parts.len()).step_by(2).map(move |index| (parts[index - 1], parts[index]));
    quoted.filter_map(|(before, name)| {
        let is_name = name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let given_to_reader = READERS.iter().any(|reader| before.ends_with(reader));
        // Only cargo sets these, for build scripts.
        let of_cargo =
            name.starts_with("CARGO") || ["OUT_DIR", "HOST", "TARGET", "OPT_LEVEL", "DEBUG", "PROFILE"].contains(&name);
        (is_name && (is_ours(name) || (given_to_reader && !of_cargo))).then_some(name)
    })
}

/// Returns whether a name is a variable of ours. Names that end like a version are symbols, and one
/// is a macro of kernel.h.
fn is_ours(name: &str) -> bool {
    let known =
        ["KERNPACK_", "TVM_"].iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()));
    known && !name.ends_with("_V1") && name != "KERNPACK_KERNEL"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_code() {
        let code = r#"const A: &str = "KERNPACK_A"; env::var("CUDA_HOME"); env.user("NVCC")?; env::var("OUT_DIR"); f("TEXT"); s = "KERNPACK_B_V1"; "TVM_"; "#;
        assert_eq!(variables(code).collect::<Vec<_>>(), ["KERNPACK_A", "CUDA_HOME", "NVCC"]);
    }
}
