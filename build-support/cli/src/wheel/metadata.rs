//! `METADATA` and `WHEEL` (<https://packaging.python.org/en/latest/specifications/core-metadata/>,
//! binary distribution format).

use super::inside::one_line;
use super::package::Package;
use crate::Result;

/// The required version of `tvm_ffi`.
///
/// At least 0.1.15: older versions lack the functions for big integers, and the schemas and
/// attributes that a library registers are those that this version reads. Below 0.2: the C ABI is
/// stable within 0.1 (according to the package), and a change of it would be a new minor version.
/// Post-releases such as 0.1.15.post2 are in the range.
pub(crate) const TVM_FFI: &str = "apache-tvm-ffi>=0.1.15,<0.2";

/// The oldest Python version that `tvm_ffi` has wheels for.
pub(crate) const OLDEST_PYTHON: &str = "3.9";

/// The metadata of the wheel that does not come from Cargo.toml.
pub(crate) struct Distribution<'a> {
    pub(crate) name: &'a str,
    /// The version according to PEP 440.
    pub(crate) version: &'a str,
    pub(crate) python: &'a str,
    /// The required Python package.
    pub(crate) requires: Option<&'a str>,
    /// The readme's file name and text.
    pub(crate) readme: Option<(&'a str, &'a str)>,
    /// Names of the license files in `licenses/`.
    pub(crate) licenses: &'a [String],
}

/// The fields, one per line.
#[derive(Default)]
struct Fields {
    text: String,
}

impl Fields {
    /// Adds a field.
    fn add(&mut self, field: &str, value: &str) -> Result<()> {
        one_line(&format!("the field {field} of the wheel"), value)?;
        self.text.push_str(&format!("{field}: {value}\n"));
        Ok(())
    }
}

/// Returns the text of `METADATA`.
///
/// # Errors
/// Returns an error for a value that is not one line.
pub(crate) fn metadata(package: &Package, distribution: &Distribution<'_>) -> Result<String> {
    let mut out = Fields::default();
    // 2.4 is the first version with license expressions.
    out.add("Metadata-Version", "2.4")?;
    out.add("Name", distribution.name)?;
    out.add("Version", distribution.version)?;
    if let Some(description) = &package.description {
        out.add("Summary", &unbroken(description))?;
    }
    if !package.keywords.is_empty() {
        out.add("Keywords", &unbroken(&package.keywords.join(",")))?;
    }
    for author in &package.authors {
        // Author-email takes `Name <address>`, the format of Cargo.toml.
        out.add(if author.contains('<') { "Author-email" } else { "Author" }, &unbroken(author))?;
    }
    if let Some(license) = &package.license {
        // cargo still accepts the slash that used to mean OR.
        out.add("License-Expression", &unbroken(&license.replace('/', " OR ")))?;
    }
    for license in distribution.licenses {
        out.add("License-File", license)?;
    }
    for (label, url) in &package.urls {
        out.add("Project-URL", &format!("{label}, {}", unbroken(url)))?;
    }
    out.add("Requires-Python", &format!(">={}", distribution.python))?;
    if let Some(requires) = distribution.requires {
        out.add("Requires-Dist", requires)?;
    }
    if let Some((name, text)) = distribution.readme {
        let kind = match name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref() {
            Some("md" | "markdown") => "text/markdown",
            Some("rst") => "text/x-rst",
            _ => "text/plain",
        };
        out.add("Description-Content-Type", &format!("{kind}; charset=UTF-8"))?;
        out.text.push('\n');
        out.text.push_str(text.trim_end());
        out.text.push('\n');
    }
    Ok(out.text)
}

/// Returns the text of `WHEEL`.
///
/// # Errors
/// Returns an error for a tag that is not one line.
pub(crate) fn wheel(tag: &str) -> Result<String> {
    let mut out = Fields::default();
    out.add("Wheel-Version", "1.0")?;
    out.add("Generator", concat!("cargo-kernpack ", env!("CARGO_PKG_VERSION")))?;
    out.add("Root-Is-Purelib", "false")?;
    out.add("Tag", tag)?;
    Ok(out.text)
}

/// Normalizes a name for the file names of wheels: lower case, runs of `-`, `_` and `.` as one
/// underscore.
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

/// Replaces the line breaks of a text by spaces, because texts in Cargo.toml may have them.
fn unbroken(text: &str) -> String {
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
            metadata(&package, &distribution).unwrap(),
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
            metadata(&Package::default(), &bare).unwrap(),
            "Metadata-Version: 2.4\nName: my-kit\nVersion: 1.0rc1\nRequires-Python: >=3.10\n"
        );
    }

    #[test]
    fn every_field_is_one_line() {
        type Change<'a> = &'a dyn Fn(&mut Package);
        let evil = "a\nRequires-Dist: evil\u{1b}";
        let with = |change: &dyn Fn(&mut Package)| {
            let mut package = Package::default();
            change(&mut package);
            let bare =
                Distribution { name: "kit", version: "1", python: "3.9", requires: None, readme: None, licenses: &[] };
            metadata(&package, &bare)
        };
        // Line breaks of Cargo.toml become spaces. No other control character is accepted.
        let changes: [(&str, Change<'_>); 5] = [
            ("Summary", &|package| package.description = Some(evil.to_owned())),
            ("Keywords", &|package| package.keywords = vec![evil.to_owned()]),
            ("Author", &|package| package.authors = vec![evil.to_owned()]),
            ("License-Expression", &|package| package.license = Some(evil.to_owned())),
            ("Project-URL", &|package| package.urls = vec![("Homepage", evil.to_owned())]),
        ];
        for (field, change) in changes {
            let message = with(change).unwrap_err();
            assert!(message.starts_with(&format!("the field {field} of the wheel is ")), "{message}");
        }
        let named = ["name", "version", "python", "requires", "license"].map(|field| {
            let of = |own: &str| if field == own { evil } else { "1" };
            let licenses = [of("license").to_owned()];
            let (name, version, python, requires) = (of("name"), of("version"), of("python"), Some(of("requires")));
            let distribution = Distribution { name, version, python, requires, readme: None, licenses: &licenses };
            metadata(&Package::default(), &distribution).unwrap_err()
        });
        for (message, field) in
            named.iter().zip(["Name", "Version", "Requires-Python", "Requires-Dist", "License-File"])
        {
            assert!(message.starts_with(&format!("the field {field} of the wheel is ")), "{message}");
        }
        assert!(wheel(evil).unwrap_err().starts_with("the field Tag of the wheel is "));
        assert!(wheel("py3-none-any").unwrap().ends_with("Root-Is-Purelib: false\nTag: py3-none-any\n"));
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
