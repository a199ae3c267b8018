//! The package that a wheel is made of: what `cargo metadata` says about it, and what `cargo build` makes of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Options;
use crate::Result;

/// A package with a cdylib.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// As in Cargo.toml.
    pub(crate) version: String,
    pub(crate) manifest: PathBuf,
    /// Name of the cdylib's crate: the Python package's name.
    pub(crate) library: String,
    pub(crate) description: Option<String>,
    /// SPDX expression.
    pub(crate) license: Option<String>,
    pub(crate) authors: Vec<String>,
    pub(crate) keywords: Vec<String>,
    /// Path from the package's folder.
    pub(crate) readme: Option<PathBuf>,
    pub(crate) license_file: Option<PathBuf>,
    /// Label and address.
    pub(crate) urls: Vec<(&'static str, String)>,
    /// Where cargo puts what it builds.
    pub(crate) target_directory: PathBuf,
}

impl Package {
    /// The package of `--manifest-path` and `--package`, else that of the current folder.
    pub(crate) fn find(options: &Options) -> Result<Self> {
        let root = root_manifest(options)?;
        let mut cargo = cargo();
        cargo.args(["metadata", "--format-version=1", "--no-deps", "--manifest-path"]).arg(&root);
        let text = output(cargo, "cargo metadata")?;
        let metadata: Value =
            serde_json::from_str(&text).map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
        select(&metadata, &root, options.package.as_deref())
    }

    /// The folder of its Cargo.toml.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new("."))
    }

    /// Builds the cdylib and says where it is. What cargo and rustc have to say goes to the standard error.
    pub(crate) fn build(&self, options: &Options, target: Option<&str>) -> Result<PathBuf> {
        let mut cargo = cargo();
        cargo.args(["build", "--lib", "--message-format=json-render-diagnostics", "--manifest-path"]);
        cargo.arg(&self.manifest).args(["--package", &self.name, "--profile", &options.profile]);
        for features in &options.features {
            cargo.args(["--features", features]);
        }
        if options.no_default_features {
            cargo.arg("--no-default-features");
        }
        if let Some(target) = target {
            cargo.args(["--target", target]);
        }
        if options.strip {
            cargo.args(["--config", &format!("profile.{}.strip=true", options.profile)]);
        }
        if options.offline {
            cargo.arg("--offline");
        }
        if options.json {
            cargo.arg("--quiet");
        }
        let output = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cannot run cargo build: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo build of {} failed ({}); its messages are above", self.name, output.status));
        }
        artifact(&String::from_utf8_lossy(&output.stdout), &self.manifest)
            .ok_or_else(|| format!("cargo build of {} made no shared library", self.name))
    }
}

/// Says no to flags that make a library for one machine only.
pub(crate) fn check_flags(flags: &[String]) -> Result<()> {
    match flags.iter().any(|flags| flags.replace(['\x1f', '='], " ").contains("target-cpu native")) {
        false => Ok(()),
        true => Err("RUSTFLAGS asks for -C target-cpu=native: the wheel would end with an illegal instruction on machines with \
                     another CPU; remove it, or name the oldest CPU that users have, such as -C target-cpu=x86-64-v2"
            .to_owned()),
    }
}

/// The variables in which flags may stand.
pub(crate) fn flags() -> Vec<String> {
    let names = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"];
    names.iter().filter_map(|name| std::env::var(name).ok()).collect()
}

fn cargo() -> Command {
    // cargo says where it is when it runs a subcommand.
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn output(mut command: Command, name: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed: {}", said.trim().trim_start_matches("error: ")))
}

fn root_manifest(options: &Options) -> Result<PathBuf> {
    if let Some(manifest) = &options.manifest_path {
        return manifest.canonicalize().map_err(|error| format!("cannot read {}: {error}", manifest.display()));
    }
    let mut cargo = cargo();
    cargo.args(["locate-project", "--message-format=plain"]);
    Ok(PathBuf::from(output(cargo, "cargo locate-project")?.trim()))
}

/// The cdylib's crate name, if the package has one.
fn cdylib(package: &Value) -> Option<&str> {
    let is_cdylib = |target: &&Value| {
        let kinds = target.get("kind").and_then(Value::as_array);
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "cdylib"))
    };
    package.get("targets")?.as_array()?.iter().find(is_cdylib)?.get("name")?.as_str()
}

fn text(package: &Value, key: &str) -> Option<String> {
    package.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(package: &Value, key: &str) -> Vec<String> {
    let list = package.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// One package out of what `cargo metadata` lists.
fn select(metadata: &Value, root: &Path, wanted: Option<&str>) -> Result<Package> {
    let packages = metadata.get("packages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let name = |package: &Value| text(package, "name").unwrap_or_default();
    let shippable: Vec<&Value> = packages.iter().filter(|package| cdylib(package).is_some()).collect();
    let names = || match shippable.as_slice() {
        [] => "no package of the workspace makes a cdylib".to_owned(),
        list => {
            let mut names: Vec<String> = list.iter().map(|package| name(package)).collect();
            names.sort();
            format!("packages with a cdylib are {}", names.join(", "))
        }
    };
    let here = |package: &&Value| text(package, "manifest_path").is_some_and(|path| Path::new(&path) == root);
    let package = match wanted {
        Some(wanted) => packages
            .iter()
            .find(|package| name(package) == wanted)
            .ok_or_else(|| format!("there is no package '{wanted}'; {}", names()))?,
        None => match (packages.iter().find(here), shippable.as_slice()) {
            (Some(package), _) => package,
            (None, [package]) => package,
            (None, _) => {
                return Err(format!("{} is a workspace: say which with --package; {}", root.display(), names()));
            }
        },
    };
    let name = name(package);
    let library = cdylib(package).ok_or_else(|| {
        format!(
            "package '{name}' makes no cdylib, which is what a wheel carries; add to its Cargo.toml:\n[lib]\ncrate-type = \
             [\"cdylib\", \"rlib\"]"
        )
    })?;
    let urls = [("Homepage", "homepage"), ("Repository", "repository"), ("Documentation", "documentation")];
    Ok(Package {
        version: text(package, "version").unwrap_or_default(),
        manifest: text(package, "manifest_path").unwrap_or_default().into(),
        library: library.replace('-', "_"),
        description: text(package, "description"),
        license: text(package, "license"),
        authors: texts(package, "authors"),
        keywords: texts(package, "keywords"),
        readme: text(package, "readme").map(PathBuf::from),
        license_file: text(package, "license_file").map(PathBuf::from),
        urls: urls.into_iter().filter_map(|(label, key)| Some((label, text(package, key)?))).collect(),
        target_directory: text(metadata, "target_directory").unwrap_or_default().into(),
        name,
    })
}

/// The shared library in the messages of `cargo build`.
fn artifact(messages: &str, manifest: &Path) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = messages.filter(|message| {
        message.get("reason").is_some_and(|reason| reason == "compiler-artifact")
            && text(message, "manifest_path").is_some_and(|path| Path::new(&path) == manifest)
    });
    let mut files = ours.flat_map(|message| texts(&message, "filenames"));
    let is_shared = |file: &String| [".so", ".dylib", ".dll"].iter().any(|suffix| file.ends_with(suffix));
    files.find(is_shared).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, kind: &str) -> Value {
        json!({
            "name": name, "version": "0.1.0", "manifest_path": format!("/w/{name}/Cargo.toml"), "authors": [],
            "description": " ", "homepage": "https://example.org", "targets": [{ "kind": [kind, "rlib"], "name": name }],
        })
    }

    #[test]
    fn packages_are_selected() {
        let workspace = |packages: &[Value]| json!({ "packages": packages, "target_directory": "/w/target" });
        let two = workspace(&[package("my-kit", "cdylib"), package("other", "cdylib"), package("tool", "bin")]);
        let root = Path::new("/w/Cargo.toml");
        let chosen = select(&two, Path::new("/w/my-kit/Cargo.toml"), None).unwrap();
        assert_eq!((chosen.name.as_str(), chosen.library.as_str()), ("my-kit", "my_kit"));
        assert_eq!((chosen.description, chosen.urls), (None, vec![("Homepage", "https://example.org".to_owned())]));
        assert_eq!(select(&two, root, Some("other")).unwrap().folder(), Path::new("/w/other"));
        assert_eq!(select(&workspace(&[package("one", "cdylib")]), root, None).unwrap().name, "one");
        for (metadata, wanted, message) in [
            (
                &two,
                None,
                "/w/Cargo.toml is a workspace: say which with --package; packages with a cdylib are my-kit, other",
            ),
            (&two, Some("kit"), "there is no package 'kit'; packages with a cdylib are my-kit, other"),
            (
                &two,
                Some("tool"),
                "package 'tool' makes no cdylib, which is what a wheel carries; add to its Cargo.toml:\n[lib]\ncrate-type = \
                 [\"cdylib\", \"rlib\"]",
            ),
            (
                &workspace(&[]),
                None,
                "/w/Cargo.toml is a workspace: say which with --package; no package of the workspace makes a cdylib",
            ),
        ] {
            assert_eq!(select(metadata, root, wanted).unwrap_err(), message);
        }
    }

    #[test]
    fn the_library_is_in_the_messages() {
        let message = |manifest: &str, file: &str| {
            json!({ "reason": "compiler-artifact", "manifest_path": manifest, "filenames": ["/t/liba.rlib", file] })
                .to_string()
        };
        let text =
            [message("/other/Cargo.toml", "/t/libother.so"), "no JSON".into(), message("/a/Cargo.toml", "/t/liba.so")];
        assert_eq!(artifact(&text.join("\n"), Path::new("/a/Cargo.toml")), Some("/t/liba.so".into()));
        assert_eq!(artifact(&text[0], Path::new("/a/Cargo.toml")), None);
    }

    #[test]
    fn flags_for_one_machine() {
        for flags in ["-C target-cpu=native", "-Ctarget-cpu=native", "-C\x1ftarget-cpu=native"] {
            let message = check_flags(&[String::new(), flags.to_owned()]).unwrap_err();
            assert!(message.starts_with("RUSTFLAGS asks for -C target-cpu=native: "), "{message}");
        }
        assert_eq!(check_flags(&["-C target-cpu=x86-64-v3".to_owned()]), Ok(()));
    }
}
