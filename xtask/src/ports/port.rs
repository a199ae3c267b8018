//! The description of a port: `tests/ports/NAME/port.json`.

use crate::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A package of PyPI that was moved to our extension module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// The name of its folder and of the package on PyPI.
    pub(super) name: String,
    /// The folder of our binding.
    pub(super) folder: PathBuf,
    /// The version that is compared.
    pub(super) version: String,
    /// The file name of the source archive.
    pub(super) sdist: String,
    /// The SHA-256 digest of the source archive.
    pub(super) sha256: String,
    /// The module that Python imports.
    pub(super) module: String,
    /// The files and folders with the tests, in the archive.
    pub(super) tests: Vec<String>,
    /// The files and folders of PyO3's binding, in the archive, whose lines are counted.
    pub(super) binding: Vec<String>,
    /// The tests that fail with our binding, by their ids, with the reasons.
    pub(super) failures: BTreeMap<String, String>,
    /// The calls whose times are compared.
    pub(super) calls: Vec<Call>,
}

/// A call whose time is measured.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The text of the row.
    pub(super) title: String,
    /// Python statements that run once.
    pub(super) setup: String,
    /// The measured statement.
    pub(super) call: String,
}

impl Port {
    /// Reads all ports of a folder, in the order of their names.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>> {
        let entries = fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        let mut ports = Vec::new();
        for entry in entries {
            let file = entry?.path().join("port.json");
            if file.is_file() {
                ports.push(Self::read(&file)?);
            }
        }
        ports.sort_by(|one: &Self, other| one.name.cmp(&other.name));
        if ports.is_empty() {
            Err(format!("{}: no port.json in its folders", folder.display()).into())
        } else {
            Ok(ports)
        }
    }

    fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let folder = file.parent().unwrap_or(Path::new("."));
        Self::parse(folder, &text).map_err(|error| format!("{}: {error}", file.display()).into())
    }

    fn parse(folder: &Path, text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let fields = value.as_object().ok_or("expected an object")?;
        const KNOWN: [&str; 8] = ["version", "sdist", "sha256", "module", "tests", "binding", "failures", "calls"];
        if let Some(unknown) = fields.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(format!("unknown field '{unknown}'; known are {}", KNOWN.join(", ")).into());
        }
        let calls = value["calls"].as_array().ok_or("'calls': expected a list")?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            name,
            folder: folder.to_path_buf(),
            version: text_of(&value, "version")?,
            sdist: text_of(&value, "sdist")?,
            sha256: text_of(&value, "sha256")?,
            module: text_of(&value, "module")?,
            tests: texts_of(&value, "tests")?,
            binding: texts_of(&value, "binding")?,
            failures: failures_of(&value)?,
            calls: calls.iter().map(Call::parse).collect::<Result<_>>()?,
        })
    }

    /// Package and version.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

impl Call {
    fn parse(value: &Value) -> Result<Self> {
        let text = |name| text_of(value, name).map_err(|error| format!("'calls': {error}"));
        Ok(Self { title: text("title")?, setup: text("setup")?, call: text("call")? })
    }
}

fn text_of(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str().filter(|text| !text.is_empty());
    Ok(text.ok_or_else(|| format!("'{name}': expected a text"))?.to_owned())
}

fn texts_of(value: &Value, name: &str) -> Result<Vec<String>> {
    let texts = value[name].as_array().filter(|texts| !texts.is_empty());
    let texts = texts.and_then(|texts| texts.iter().map(|text| text.as_str().map(str::to_owned)).collect());
    texts.ok_or_else(|| format!("'{name}': expected a list of texts").into())
}

fn failures_of(value: &Value) -> Result<BTreeMap<String, String>> {
    let failures = value["failures"].as_object().and_then(|failures| {
        let reasons = failures.iter().map(|(id, reason)| Some((id.clone(), reason.as_str()?.to_owned())));
        reasons.collect::<Option<BTreeMap<_, _>>>()
    });
    let failures = failures.filter(|failures| failures.values().all(|reason| !reason.is_empty()));
    failures.ok_or_else(|| "'failures': expected an object with a reason for the id of each test".into())
}

/// Selects ports by their names; without names, all.
pub(super) fn chosen<'a>(all: &'a [Port], names: &[&str]) -> Result<Vec<&'a Port>> {
    if names.is_empty() {
        return Ok(all.iter().collect());
    }
    let known = || all.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |name: &&str| {
        let port = all.iter().find(|port| port.name == *name);
        port.ok_or_else(|| format!("ports: unknown port '{name}'; known are {}", known()).into())
    };
    names.iter().map(find).collect()
}

/// The number of lines of code of our binding: its Rust and Python files, without empty lines and
/// lines of comments.
pub(super) fn lines(folder: &Path) -> Result<usize> {
    let mut sum = 0;
    let mut folders = vec![folder.join("src"), folder.join("python")];
    while let Some(folder) = folders.pop() {
        // A binding may be without Python files.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let comment = match path.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => "//",
                Some("py") => "#",
                _ => continue,
            };
            sum += code_lines(&fs::read_to_string(&path)?, comment);
        }
    }
    Ok(sum)
}

fn code_lines(text: &str, comment: &str) -> usize {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(comment)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    const TEXT: &str = r#"{
        "version": "1.2", "sdist": "kit-1.2.tar.gz", "sha256": "00ff", "module": "kit", "tests": ["tests"],
        "binding": ["src"], "failures": {"tests/test_a.py::test_b": "texts differ"},
        "calls": [{"title": "`f()`", "setup": "f = kit.f", "call": "f()"}]
    }"#;

    #[test]
    fn everything_in_it() {
        let port = Port::parse(Path::new("ports/kit"), TEXT).unwrap();
        assert_eq!((port.title().as_str(), port.module.as_str()), ("kit 1.2", "kit"));
        assert_eq!((port.tests.as_slice(), port.failures.len()), (["tests".to_owned()].as_slice(), 1));
        assert_eq!(port.calls[0].call, "f()");
    }

    #[test]
    fn mistakes() {
        for (from, to, expected) in [
            ("\"version\": \"1.2\",", "", "'version': expected a text"),
            ("\"1.2\"", "\"\"", "'version': expected a text"),
            ("[\"tests\"]", "[]", "'tests': expected a list of texts"),
            ("[\"src\"]", "[1]", "'binding': expected a list of texts"),
            ("\"texts differ\"", "\"\"", "'failures': expected an object with a reason for the id of each test"),
            ("\"call\": \"f()\"", "\"call\": 1", "'calls': 'call': expected a text"),
            (
                "\"version\"",
                "\"versoin\"",
                "unknown field 'versoin'; known are version, sdist, sha256, module, tests, binding, failures, calls",
            ),
        ] {
            let error = Port::parse(Path::new("kit"), &TEXT.replacen(from, to, 1)).unwrap_err().to_string();
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn ports_are_selected_by_name() {
        let ports = ["kit", "other"].map(|name| Port::parse(Path::new(name), TEXT).unwrap());
        let names = |names: &[&str]| {
            chosen(&ports, names).map(|ports| ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["kit", "other"]);
        assert_eq!(names(&["other"]).unwrap(), ["other"]);
        let error = names(&["kit", "kid"]).unwrap_err().to_string();
        assert_eq!(error, "ports: unknown port 'kid'; known are kit, other");
    }

    #[test]
    fn comments_and_empty_lines_do_not_count() {
        assert_eq!(code_lines("//! A\n\nfn a() {\n    // B\n}\n", "//"), 2);
    }

    #[test]
    fn every_port_has_a_description_and_a_readme() {
        let workspace = Workspace::find().unwrap();
        for port in Port::all(&workspace.root().join(super::super::FOLDER)).unwrap() {
            let readme = fs::read_to_string(port.folder.join("README.md")).unwrap();
            let unexplained = port.failures.keys().find(|id| !readme.contains(id.rsplit("::").next().unwrap_or(id)));
            assert_eq!(unexplained, None, "{}: its README does not explain a failure", port.name);
            assert!(lines(&port.folder).unwrap() > 10, "{}", port.name);
        }
    }
}
