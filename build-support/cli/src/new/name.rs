//! Checks the name of a new crate.

use crate::Result;

/// Reserved words of Rust.
const KEYWORDS: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
    "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Crates that exist in every build, and folder names of cargo.
const RESERVED: &[&str] =
    &["alloc", "build", "core", "deps", "examples", "incremental", "proc-macro", "proc_macro", "std", "test"];

/// Names that Windows reserves for devices.
const DEVICES: &[&str] = &[
    "aux", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "con", "lpt1", "lpt2", "lpt3",
    "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9", "nul", "prn",
];

/// The dependencies of the new crate, or of its Python module.
const DEPENDENCIES: &[&str] = &["kernpack", "kernpack_build", "numpy", "pytest", "tvm_ffi"];

/// Checks a name as cargo does for a package, and as Python does for a module.
pub(crate) fn check(name: &str) -> Result<()> {
    let advice = "choose another name, or give the package one with --name";
    let refuse = |why: String| Err(format!("a crate cannot be called '{name}': {why}; {advice}"));
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() {
        return refuse("the name is empty".to_owned());
    }
    if let Some(other) = name.chars().find(|c| !inside(*c)) {
        return refuse(format!("'{}' is not an ASCII letter, digit, '-' or '_'", other.escape_debug()));
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return refuse("it begins with a digit".to_owned());
    }
    if name.starts_with('-') {
        return refuse("it begins with a '-'".to_owned());
    }
    let module = name.replace('-', "_");
    if KEYWORDS.contains(&module.as_str()) {
        return refuse("it is a keyword of Rust".to_owned());
    }
    if RESERVED.contains(&name) {
        return refuse("it is a name of the Rust tools".to_owned());
    }
    if DEVICES.contains(&name.to_ascii_lowercase().as_str()) {
        return refuse("Windows keeps that name for a device".to_owned());
    }
    if !crate::wheel::is_identifier(&module) {
        return refuse("it is a keyword of Python".to_owned());
    }
    if DEPENDENCIES.contains(&module.as_str()) {
        return refuse("it depends on a package of that name".to_owned());
    }
    if module.chars().all(|c| c == '_') {
        return refuse("it needs a letter".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["kit", "my-kit", "my_kit2", "Kit", "_kit"] {
            assert_eq!(check(name), Ok(()));
        }
        for (name, why) in [
            ("", "the name is empty"),
            ("my kit", "' ' is not an ASCII letter, digit, '-' or '_'"),
            ("k\u{ef}t", "'\u{ef}' is not an ASCII letter, digit, '-' or '_'"),
            ("../kit", "'.' is not an ASCII letter, digit, '-' or '_'"),
            ("3d", "it begins with a digit"),
            ("-kit", "it begins with a '-'"),
            ("async", "it is a keyword of Rust"),
            ("std", "it is a name of the Rust tools"),
            ("test", "it is a name of the Rust tools"),
            ("NUL", "Windows keeps that name for a device"),
            ("lambda", "it is a keyword of Python"),
            ("tvm-ffi", "it depends on a package of that name"),
            ("__", "it needs a letter"),
        ] {
            assert_eq!(
                check(name).unwrap_err(),
                format!(
                    "a crate cannot be called '{name}': {why}; choose another name, or give the package one with --name"
                )
            );
        }
    }
}
