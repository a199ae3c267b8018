//! The crates that `cargo tree` lists, and their dependencies.

use std::collections::{BTreeMap, BTreeSet};

use crate::Result;

/// The format of a crate for `cargo tree`: `serde v1.0.0 (source)`, its license, its repository,
/// preceded by the depth.
pub(crate) const FORMAT: &str = "{p}\t{l}\t{r}";

/// A crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Crate {
    /// Its name in the bill: `name@version`, and a number if there are several with the same name
    /// and version.
    pub(crate) reference: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// The license as an SPDX expression.
    pub(crate) license: Option<String>,
    pub(crate) repository: Option<String>,
    /// The package URL, or `None` for a crate in a local folder.
    pub(crate) purl: Option<String>,
}

/// All crates of a library.
#[derive(Debug)]
pub(crate) struct Crates {
    root: String,
    /// The crates by reference.
    all: BTreeMap<String, Crate>,
    needed: BTreeMap<String, BTreeSet<String>>,
}

impl Crates {
    /// Parses the output of `cargo tree --prefix depth`.
    ///
    /// # Errors
    /// Returns an error with the line if a line is not in this format.
    pub(crate) fn parse(tree: &str) -> Result<Self> {
        let mut roots: Vec<String> = tree.lines().filter_map(root_of).map(str::to_owned).collect();
        if roots.len() > 1 {
            roots.sort();
            return Err(format!(
                "the workspace has several packages: name one with --package; they are {}",
                roots.join(", ")
            ));
        }
        let mut crates = Self { root: String::new(), all: BTreeMap::new(), needed: BTreeMap::new() };
        // By cargo's name for it, with its source.
        let mut references: BTreeMap<String, String> = BTreeMap::new();
        let mut way: Vec<String> = Vec::new();
        for line in tree.lines().filter(|line| !line.trim().is_empty()) {
            let wrong = || format!("cargo tree wrote a line that is not understood: {line}");
            let (depth, package, license, repository) = parts(line).ok_or_else(wrong)?;
            let reference = match references.get(package) {
                Some(reference) => reference.clone(),
                None => {
                    let mut one = described(package).ok_or_else(wrong)?;
                    one.license = license;
                    one.repository = repository;
                    let first = format!("{}@{}", one.name, one.version);
                    let others = references.values().filter(|known| known.split('#').next() == Some(&first)).count();
                    one.reference = if others == 0 { first } else { format!("{first}#{}", others + 1) };
                    references.insert(package.to_owned(), one.reference.clone());
                    crates.needed.entry(one.reference.clone()).or_default();
                    let reference = one.reference.clone();
                    crates.all.insert(reference.clone(), one);
                    reference
                }
            };
            if depth > way.len() {
                return Err(wrong());
            }
            way.truncate(depth);
            match way.last() {
                Some(parent) => _ = crates.needed.entry(parent.clone()).or_default().insert(reference.clone()),
                None => crates.root.clone_from(&reference),
            }
            way.push(reference);
        }
        match crates.all.is_empty() {
            true => Err("cargo tree names no crate".to_owned()),
            false => Ok(crates),
        }
    }

    /// The library's own crate.
    pub(crate) fn root(&self) -> &Crate {
        &self.all[&self.root]
    }

    /// Returns all crates, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Crate> {
        self.all.values()
    }

    /// Returns the crates other than the library's own.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Crate> {
        self.all().filter(|one| one.reference != self.root)
    }

    /// Returns the references of a crate's direct dependencies.
    pub(crate) fn needed_by(&self, one: &Crate) -> impl Iterator<Item = &str> {
        self.needed[&one.reference].iter().map(String::as_str)
    }
}

/// Returns the crate name of a line, if a tree begins there.
fn root_of(line: &str) -> Option<&str> {
    line.strip_prefix('0')?.split_once(' ').map(|(name, _)| name)
}

/// Parses depth, package, license and repository of a line.
fn parts(line: &str) -> Option<(usize, &str, Option<String>, Option<String>)> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (depth, rest) = line.split_at(digits);
    // Its dependencies follow the first line that names it.
    let rest = rest.strip_suffix(" (*)").unwrap_or(rest);
    let mut fields = rest.split('\t');
    let (package, license, repository) = (fields.next()?, fields.next()?, fields.next()?);
    let some = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
    // Names of crates do not begin with a digit.
    Some((depth.parse().ok()?, package, some(&license.replace('/', " OR ")), some(repository)))
}

/// Parses `serde v1.0.0`, followed by its source in parentheses if that is not the registry.
fn described(package: &str) -> Option<Crate> {
    let mut words = package.splitn(3, ' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let source = words.next().and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'));
    let purl = match source {
        None => Some(format!("pkg:cargo/{name}@{}", encoded(version))),
        Some(source) if source.contains("://") => {
            Some(format!("pkg:cargo/{name}@{}?vcs_url={}", encoded(version), encoded(&format!("git+{source}"))))
        }
        Some(_) => None,
    };
    let (name, version) = (name.to_owned(), version.to_owned());
    Some(Crate { name, version, purl, ..Crate::default() })
}

/// Encodes a text in a package URL.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_crates() {
        let purl = |package: &str| described(package).unwrap().purl;
        assert_eq!(purl("serde v1.0.0"), Some("pkg:cargo/serde@1.0.0".to_owned()));
        assert_eq!(purl("zlib v1.3.0+zlib-ng"), Some("pkg:cargo/zlib@1.3.0%2Bzlib-ng".to_owned()));
        assert_eq!(purl("kit v0.1.0 (/home/some one/kit)"), None);
        assert_eq!(
            purl("kit v0.1.0 (https://example.org/kit?branch=main#0123abcd)"),
            Some(
                "pkg:cargo/kit@0.1.0?vcs_url=git%2Bhttps%3A%2F%2Fexample.org%2Fkit%3Fbranch%3Dmain%230123abcd"
                    .to_owned()
            )
        );
        assert_eq!(described("serde"), None);
        assert_eq!(described("serde 1.0"), None);
    }

    #[test]
    fn trees() {
        let tree = "0a v1.0.0 (/a)\tMIT\t\n1b v1.0.0\t\t\n2c v1.0.0 (/c)\t\t\n1c v1.0.0\t\t\n1b v1.0.0\t\t (*)\n";
        let crates = Crates::parse(tree).unwrap();
        assert_eq!(crates.root().name, "a");
        // Two with the same name and version from different sources.
        let references: Vec<&str> = crates.all().map(|one| one.reference.as_str()).collect();
        assert_eq!(references, ["a@1.0.0", "b@1.0.0", "c@1.0.0", "c@1.0.0#2"]);
        let needed = |name: &str| crates.needed_by(&crates.all[name]).collect::<Vec<_>>();
        assert_eq!(needed("a@1.0.0"), ["b@1.0.0", "c@1.0.0#2"]);
        assert_eq!(needed("b@1.0.0"), ["c@1.0.0"]);
        assert_eq!(needed("c@1.0.0"), [""; 0]);
        for wrong in ["a v1\t\t", "0a\t\t", "0a v1.0.0", "0a v1.0.0\t\t\n2b v1.0.0\t\t"] {
            let error = Crates::parse(wrong).unwrap_err();
            assert!(error.starts_with("cargo tree wrote a line that is not understood: "), "{wrong}: {error}");
        }
        assert_eq!(Crates::parse("").unwrap_err(), "cargo tree names no crate");
        assert_eq!(
            Crates::parse("0b v1.0.0\t\t\n\n0a v1.0.0\t\t\n").unwrap_err(),
            "the workspace has several packages: name one with --package; they are a, b"
        );
    }
}
