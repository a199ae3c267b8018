//! `METADATA` and `WHEEL` (<https://packaging.python.org/en/latest/specifications/core-metadata/>, binary distribution format).

use std::fmt::Write;

use super::package::Package;
use crate::Result;

/// Which `tvm_ffi` the package needs.
///
/// Not older than 0.1.15: a library of ours binds to every function of that version's table at load, and the schemas and
/// attributes that it registers are those that this version reads. Older than 0.2: the C ABI is stable within 0.1 (the package
/// says so), and a change of it would be a new minor version. Post-releases such as 0.1.15.post2 are in the range.
pub(crate) const TVM_FFI: &str = "apache-tvm-ffi>=0.1.15,<0.2";

/// Python versions that `tvm_ffi` has wheels for begin here.
pub(crate) const OLDEST_PYTHON: &str = "3.9";

/// What the wheel's metadata says besides what Cargo.toml does.
pub(crate) struct Distribution<'a> {
    pub(crate) name: &'a str,
    /// After PEP 440.
    pub(crate) version: &'a str,
    pub(crate) python: &'a str,
    /// What it requires.
    pub(crate) requires: Option<&'a str>,
    /// The readme's file name and text.
    pub(crate) readme: Option<(&'a str, &'a str)>,
    /// Names of the license files in `licenses/`.
    pub(crate) licenses: &'a [String],
}

/// The text of `METADATA`.
pub(crate) fn metadata(package: &Package, distribution: &Distribution<'_>) -> String {
    let mut out = String::new();
    // Writing into a String does not fail.
    let _ = try_metadata(&mut out, package, distribution);
    out
}

fn try_metadata(out: &mut String, package: &Package, distribution: &Distribution<'_>) -> std::fmt::Result {
    // 2.4 is the first with license expressions.
    writeln!(out, "Metadata-Version: 2.4")?;
    writeln!(out, "Name: {}", distribution.name)?;
    writeln!(out, "Version: {}", distribution.version)?;
    if let Some(description) = &package.description {
        writeln!(out, "Summary: {}", one_line(description))?;
    }
    if !package.keywords.is_empty() {
        writeln!(out, "Keywords: {}", one_line(&package.keywords.join(",")))?;
    }
    for author in &package.authors {
        // `Name <address>`, as Cargo.toml has it, is what Author-email takes.
        let field = if author.contains('<') { "Author-email" } else { "Author" };
        writeln!(out, "{field}: {}", one_line(author))?;
    }
    if let Some(license) = &package.license {
        // cargo still takes the slash that stood for OR.
        writeln!(out, "License-Expression: {}", one_line(&license.replace('/', " OR ")))?;
    }
    for license in distribution.licenses {
        writeln!(out, "License-File: {license}")?;
    }
    for (label, url) in &package.urls {
        writeln!(out, "Project-URL: {label}, {}", one_line(url))?;
    }
    writeln!(out, "Requires-Python: >={}", distribution.python)?;
    if let Some(requires) = distribution.requires {
        writeln!(out, "Requires-Dist: {requires}")?;
    }
    if let Some((name, text)) = distribution.readme {
        let kind = match name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref() {
            Some("md" | "markdown") => "text/markdown",
            Some("rst") => "text/x-rst",
            _ => "text/plain",
        };
        writeln!(out, "Description-Content-Type: {kind}; charset=UTF-8\n")?;
        out.push_str(text.trim_end());
        out.push('\n');
    }
    Ok(())
}

/// The text of `WHEEL`.
pub(crate) fn wheel(tag: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("Wheel-Version: 1.0\nGenerator: cargo-kernpack {version}\nRoot-Is-Purelib: false\nTag: {tag}\n")
}

/// A name as wheels have it in file names: lower case, runs of `-`, `_` and `.` as one underscore.
pub(crate) fn file_name(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('_') => {}
            '-' | '_' | '.' => out.push('_'),
            c => out.push(c.to_ascii_lowercase()),
        }
    }
    out
}

/// Checks a distribution's name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let end = |c: char| c.is_ascii_alphanumeric();
    match name.chars().all(inside) && name.starts_with(end) && name.ends_with(end) {
        true => Ok(()),
        false => Err(format!(
            "'{name}' is not a valid name of a Python package: ASCII letters, digits, '-', '_' and '.', with a letter or digit at both ends"
        )),
    }
}

/// A header's value: without line breaks, which would end it.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_of_cargo_toml() {
        let package = Package {
            description: Some("Filters\n  for images".to_owned()),
            license: Some("MIT/Apache-2.0".to_owned()),
            authors: vec!["Ada <ada@example.org>".to_owned(), "Grace".to_owned()],
            keywords: vec!["image".to_owned(), "filter".to_owned()],
            urls: vec![("Homepage", "https://example.org".to_owned())],
            ..Package::default()
        };
        let distribution = Distribution {
            name: "my-kit",
            version: "1.0rc1",
            python: "3.10",
            requires: Some(TVM_FFI),
            readme: Some(("README.md", "# Kit\n\nText\n\n")),
            licenses: &["LICENSE-MIT".to_owned()],
        };
        assert_eq!(
            metadata(&package, &distribution),
            "Metadata-Version: 2.4
Name: my-kit
Version: 1.0rc1
Summary: Filters for images
Keywords: image,filter
Author-email: Ada <ada@example.org>
Author: Grace
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-MIT
Project-URL: Homepage, https://example.org
Requires-Python: >=3.10
Requires-Dist: apache-tvm-ffi>=0.1.15,<0.2
Description-Content-Type: text/markdown; charset=UTF-8

# Kit

Text
"
        );
        let bare = Distribution { readme: None, licenses: &[], requires: None, ..distribution };
        assert_eq!(
            metadata(&Package::default(), &bare),
            "Metadata-Version: 2.4\nName: my-kit\nVersion: 1.0rc1\nRequires-Python: >=3.10\n"
        );
    }

    #[test]
    fn names() {
        assert_eq!(file_name("My-Kit._2"), "my_kit_2");
        assert_eq!(check_name("My-Kit.2"), Ok(()));
        for name in ["", "-kit", "kit_", "k\u{ef}t", "a b"] {
            assert_eq!(
                check_name(name).unwrap_err(),
                format!(
                    "'{name}' is not a valid name of a Python package: ASCII letters, digits, '-', '_' and '.', with a letter or digit at \
                     both ends"
                )
            );
        }
    }
}
