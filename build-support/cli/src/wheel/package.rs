//! The package that a wheel is built from: its `cargo metadata`, and the output of `cargo build`.

use std::path::{Path, PathBuf};

use cargo_metadata::{Message, Metadata, MetadataCommand, TargetKind};

use super::Options;
use super::settings::Settings;
use crate::{Result, cargo, sbom};

/// A package with a cdylib.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The version in Cargo.toml.
    pub(crate) version: String,
    pub(crate) manifest: PathBuf,
    /// The name of the cdylib's crate, which is the name of the Python package.
    pub(crate) library: String,
    pub(crate) description: Option<String>,
    /// The license as an SPDX expression.
    pub(crate) license: Option<String>,
    pub(crate) authors: Vec<String>,
    pub(crate) keywords: Vec<String>,
    /// The path relative to the package's folder.
    pub(crate) readme: Option<PathBuf>,
    pub(crate) license_file: Option<PathBuf>,
    /// Labels and addresses.
    pub(crate) urls: Vec<(&'static str, String)>,
    /// The folder of its workspace.
    pub(crate) root: PathBuf,
    /// The folder where cargo puts build outputs.
    pub(crate) target_directory: PathBuf,
    /// The wheel settings in its Cargo.toml.
    pub(crate) settings: Settings,
}

impl Package {
    /// Finds the package of `--manifest-path` and `--package`, or else that of the current folder.
    pub(crate) fn find(options: &Options) -> Result<Self> {
        let root = match &options.manifest_path {
            Some(manifest) => {
                manifest.canonicalize().map_err(|error| format!("cannot read {}: {error}", manifest.display()))?
            }
            None => cargo::manifest_here()?,
        };
        let metadata = MetadataCommand::new().manifest_path(&root).no_deps().exec().map_err(|error| match error {
            cargo_metadata::Error::CargoMetadata { stderr } => {
                format!("cargo metadata failed: {}", stderr.trim().trim_start_matches("error: "))
            }
            error => format!("cannot run cargo metadata: {error}"),
        })?;
        select(&metadata, &root, options.package.as_deref())
    }

    /// The folder of its Cargo.toml.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new("."))
    }

    /// Builds the cdylib and returns its path. The output of cargo and rustc goes to standard
    /// error.
    pub(crate) fn build(&self, options: &Options, target: Option<&str>) -> Result<PathBuf> {
        let mut cargo = if options.strip { cargo::rustc() } else { cargo::build() };
        cargo.args(["--lib", "--profile", &options.profile]);
        self.selected(options, target).select(&mut cargo);
        if options.json {
            cargo.arg("--quiet");
        }
        if options.strip {
            // For this crate alone: a setting of the profile would rebuild every dependency.
            cargo.args(["--", "-C", "strip=symbols"]);
        }
        let name = format!("cargo build of {}", self.name);
        let messages = cargo::messages(cargo, &name)?;
        shared_library(&messages, &self.manifest).ok_or_else(|| format!("{name} made no shared library"))
    }

    /// Returns the package and its build as options for cargo commands.
    pub(crate) fn selected(&self, options: &Options, target: Option<&str>) -> sbom::Options {
        sbom::Options {
            package: Some(self.name.clone()),
            manifest_path: Some(self.manifest.clone()),
            features: options.features.iter().chain(&self.settings.features).cloned().collect(),
            no_default_features: options.no_default_features,
            target: target.map(str::to_owned),
            offline: options.offline,
        }
    }
}

/// Rejects flags that restrict a library to one machine.
pub(crate) fn check_flags(flags: &[String]) -> Result<()> {
    match flags.iter().any(|flags| flags.replace(['\x1f', '='], " ").contains("target-cpu native")) {
        false => Ok(()),
        true => Err("RUSTFLAGS asks for -C target-cpu=native: the wheel would end with an illegal instruction on machines with \
                     another CPU; remove it, or name the oldest CPU that users have, such as -C target-cpu=x86-64-v2"
            .to_owned()),
    }
}

/// Reads the variables that may contain flags.
pub(crate) fn flags() -> Vec<String> {
    let names = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"];
    names.iter().filter_map(|name| std::env::var(name).ok()).collect()
}

/// Returns the name of the target that makes a cdylib.
fn cdylib(package: &cargo_metadata::Package) -> Option<&str> {
    let target = package.targets.iter().find(|target| target.kind.contains(&TargetKind::CDyLib))?;
    Some(&target.name)
}

/// Selects one package of a workspace.
fn select(metadata: &Metadata, root: &Path, wanted: Option<&str>) -> Result<Package> {
    let packages = &metadata.packages;
    let shippable: Vec<_> = packages.iter().filter(|package| cdylib(package).is_some()).collect();
    let names = || match shippable.as_slice() {
        [] => "no package of the workspace makes a cdylib".to_owned(),
        list => {
            let mut names: Vec<&str> = list.iter().map(|package| package.name.as_str()).collect();
            names.sort();
            format!("packages with a cdylib are {}", names.join(", "))
        }
    };
    let package = match wanted {
        Some(wanted) => packages
            .iter()
            .find(|package| package.name == wanted)
            .ok_or_else(|| format!("unknown package `{wanted}`; {}", names()))?,
        None => match (packages.iter().find(|package| package.manifest_path == root), shippable.as_slice()) {
            (Some(package), _) => package,
            (None, [package]) => package,
            (None, _) => {
                return Err(format!("{} is a workspace: name the package with --package; {}", root.display(), names()));
            }
        },
    };
    let library = cdylib(package).ok_or_else(|| {
        format!(
            "package '{}' makes no cdylib, which is what a wheel carries; add to its Cargo.toml:\n[lib]\ncrate-type = \
             [\"cdylib\", \"rlib\"]",
            package.name
        )
    })?;
    // Cargo accepts a value of spaces; METADATA has no field for it.
    let text =
        |value: &Option<String>| value.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let urls = [
        ("Homepage", &package.homepage),
        ("Repository", &package.repository),
        ("Documentation", &package.documentation),
    ];
    Ok(Package {
        name: package.name.to_string(),
        version: package.version.to_string(),
        manifest: package.manifest_path.clone().into(),
        library: library.replace('-', "_"),
        description: text(&package.description),
        license: text(&package.license),
        authors: package.authors.clone(),
        keywords: package.keywords.clone(),
        readme: package.readme.clone().map(PathBuf::from),
        license_file: package.license_file.clone().map(PathBuf::from),
        urls: urls.into_iter().filter_map(|(label, url)| Some((label, text(url)?))).collect(),
        settings: Settings::of(&package.metadata)?,
        root: metadata.workspace_root.clone().into(),
        target_directory: metadata.target_directory.clone().into(),
    })
}

/// Finds the shared library of a package in the messages of `cargo build`.
fn shared_library(messages: &[Message], manifest: &Path) -> Option<PathBuf> {
    let artifacts = messages.iter().filter_map(|message| match message {
        Message::CompilerArtifact(artifact) if artifact.manifest_path == manifest => Some(artifact),
        _ => None,
    });
    let mut files = artifacts.flat_map(|artifact| &artifact.filenames);
    files.find(|file| matches!(file.extension(), Some("so" | "dylib" | "dll"))).map(|file| file.clone().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn target(name: &str, kind: &str) -> Value {
        json!({ "name": name, "kind": [kind, "rlib"], "crate_types": [kind, "rlib"], "src_path": "/w/lib.rs" })
    }

    fn package(name: &str, kind: &str) -> Value {
        json!({
            "name": name, "id": name, "version": "0.1.0", "manifest_path": format!("/w/{name}/Cargo.toml"), "authors": [],
            "description": " ", "homepage": "https://example.org", "targets": [target(name, kind)], "dependencies": [],
            "features": {},
        })
    }

    fn workspace(packages: &[Value]) -> Metadata {
        let metadata = json!({
            "packages": packages, "target_directory": "/w/target", "workspace_root": "/w", "workspace_members": [],
            "resolve": null, "version": 1,
        });
        serde_json::from_value(metadata).unwrap()
    }

    #[test]
    fn packages_are_selected() {
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
                "/w/Cargo.toml is a workspace: name the package with --package; packages with a cdylib are my-kit, other",
            ),
            (&two, Some("kit"), "unknown package `kit`; packages with a cdylib are my-kit, other"),
            (
                &two,
                Some("tool"),
                "package 'tool' makes no cdylib, which is what a wheel carries; add to its Cargo.toml:\n[lib]\ncrate-type = \
                 [\"cdylib\", \"rlib\"]",
            ),
            (
                &workspace(&[]),
                None,
                "/w/Cargo.toml is a workspace: name the package with --package; no package of the workspace makes a cdylib",
            ),
        ] {
            assert_eq!(select(metadata, root, wanted).unwrap_err(), message);
        }
    }

    #[test]
    fn the_library_is_in_the_messages() {
        let message = |manifest: &str, file: &str| {
            let message = json!({
                "reason": "compiler-artifact", "package_id": "a", "manifest_path": manifest, "target": target("a", "cdylib"),
                "profile": { "opt_level": "3", "debug_assertions": false, "overflow_checks": false, "test": false },
                "features": [], "filenames": ["/t/liba.rlib", file], "executable": null, "fresh": true,
            });
            serde_json::from_value::<Message>(message).unwrap()
        };
        let messages = [
            message("/other/Cargo.toml", "/t/libother.so"),
            Message::TextLine("no JSON".to_owned()),
            message("/a/Cargo.toml", "/t/liba.so"),
        ];
        assert_eq!(shared_library(&messages, Path::new("/a/Cargo.toml")), Some("/t/liba.so".into()));
        assert_eq!(shared_library(&messages[..2], Path::new("/a/Cargo.toml")), None);
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
