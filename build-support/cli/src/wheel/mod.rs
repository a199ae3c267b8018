//! `cargo kernpack wheel`: builds one wheel of a package's cdylib, for every Python 3.
//!
//! A library that is an extension module is imported directly (`cp39-abi3-<platform>`), and needs
//! no other package. Python loads any other library as C code through `tvm_ffi`, so it does not
//! depend on Python's version (`py3-none-<platform>`).

mod archive;
mod contents;
mod editable;
mod inside;
mod metadata;
mod names;
mod options;
mod package;
mod platform;
mod policy;
mod python;
mod settings;
mod sources;
mod version;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

pub(crate) use options::{DEVELOP_HELP, HELP, Options, parse, parse_develop};
use python::Host;
pub(crate) use python::is_identifier;

use crate::library::file::LibraryFile;
use crate::library::inspection::Inspection;
use crate::library::{file, loaded};
use crate::{Result, sbom, text};
use archive::Archive;
use contents::{Content, Contents, Library};
use metadata::Distribution;
use package::Package;
use platform::Platform;

/// A wheel that was written.
pub(crate) struct Made {
    path: PathBuf,
    package: Package,
    size: usize,
    platform: Platform,
    functions: usize,
    types: usize,
    nameless: Vec<String>,
    files: Vec<String>,
    requires: Option<&'static str>,
}

/// Builds the library and writes the wheel.
///
/// # Errors
/// Returns the errors of cargo, the reason why the library cannot be distributed, or an error if a
/// file cannot be written.
pub(crate) fn make(options: &Options) -> Result<Made> {
    package::check_flags(&package::flags())?;
    let package = Package::find(options)?;
    let name = options.name.as_ref().or(package.settings.name.as_ref()).unwrap_or(&package.name).clone();
    metadata::check_name(&name)?;
    if !is_identifier(&package.library) {
        return Err(format!(
            "the library is called '{}', which Python cannot import; give it another name in Cargo.toml:\n[lib]\nname = \"...\"",
            package.library
        ));
    }
    let version = version::python(&package.version)?;
    let epoch = std::env::var_os("SOURCE_DATE_EPOCH").map(|value| value.to_string_lossy().into_owned());
    let epoch = archive::epoch(epoch.as_deref())?;

    let library = package.build(options, options.target.as_deref())?;
    let bytes = file::read(&library)?;
    let named = |problem: String| format!("{}: {problem}", library.display());
    let platform = match &options.platform {
        Some(tag) => Platform { tag: tag.clone(), because: None },
        None => Platform::of(&bytes).map_err(named)?,
    };
    // A library for another machine cannot be loaded here: its API is read from the build for this
    // machine.
    let described = match &options.target {
        Some(_) => package.build(options, None)?,
        None => library.clone(),
    };
    let described_bytes = file::read(&described)?;
    let mut inspection = Inspection::read(&described_bytes).map_err(named)?;
    let loaded = loaded::load(&described, None)?;
    if let Some(problem) = loaded.problem() {
        return Err(format!("{}: it does not load, so nothing is known for its stubs: {problem}", described.display()));
    }
    inspection.loaded = Some(loaded);
    let host = host(&described_bytes, &package.library, options).map_err(named)?;
    let mut api = python::Api::of(&inspection, &package.library, host).map_err(named)?;
    if api.counts() == (0, 0) {
        return Err(named(
            "it has no packed functions and no types; is kernpack::library!() in its crate root?".to_owned(),
        ));
    }

    let settings = &package.settings;
    api.hide(&settings.hidden, &settings.shown, host, &package.library).map_err(|problem| {
        format!("{problem} ([package.metadata.kernpack.wheel] in {})", package.manifest.display())
    })?;
    let (functions, types) = api.counts();
    let nameless = std::mem::take(&mut api.nameless);
    let library_name = match host {
        // The name that every CPython looks for, whatever its version.
        Host::Extension => format!("{}.so", package.library),
        Host::TvmFfi => file_name(&library),
    };
    let about = package.description.clone().unwrap_or_else(|| format!("The library {name}."));
    let folder = &package.library;
    let dist_info = format!("{}-{version}.dist-info", metadata::file_name(&name));
    let python = options.python_version.as_deref().unwrap_or(metadata::OLDEST_PYTHON);
    let tag = match host {
        Host::Extension => format!("cp{}-abi3-{}", python.replace('.', ""), platform.tag),
        Host::TvmFfi => format!("py3-none-{}", platform.tag),
    };
    let parts = Library { api, host, file: &library_name, version: &version, about: &about };
    let contents = Contents::of(&package, parts)?;
    let mut archive = Archive::default();
    if options.editable {
        names::check(contents.files.iter().map(|(path, _)| path.as_str()))?;
        let place = package.target_directory.join("kernpack/develop").join(metadata::file_name(&name));
        let place = editable::write(&place, folder, &contents, &bytes)?;
        // Python treats each line as a folder of its search path, or as code.
        let place =
            place.to_str().ok_or_else(|| format!("the folder of the package {} is not UTF-8", place.display()))?;
        inside::one_line("the folder of the package", place)?;
        archive.add(format!("__editable__.{}.pth", metadata::file_name(&name)), format!("{place}\n"));
    } else {
        for (path, content) in &contents.files {
            let place = format!("{folder}/{path}");
            match content {
                Content::Library => archive.add_library(place, bytes.clone()),
                other => archive.add(place, other.bytes(&bytes)?),
            }
        }
    }
    let licenses = add_licenses(&mut archive, &package, &dist_info)?;
    let readme = readme(&package)?;
    let distribution = Distribution {
        name: &name,
        version: &version,
        python,
        requires: (host == Host::TvmFfi).then_some(metadata::TVM_FFI),
        readme: readme.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
        licenses: &licenses,
    };
    archive.add(format!("{dist_info}/METADATA"), metadata::metadata(&package, &distribution)?);
    archive.add(format!("{dist_info}/WHEEL"), metadata::wheel(&tag)?);
    // PEP 770.
    let bill = sbom::bill(&package.selected(options, options.target.as_deref()))?;
    archive.add(format!("{dist_info}/sboms/{}.cdx.json", metadata::file_name(&name)), bill);
    let content = archive.to_vec(&dist_info, epoch)?;
    let out = options.out.clone().unwrap_or_else(|| package.target_directory.join("wheels"));
    let path = out.join(format!("{}-{version}-{tag}.whl", metadata::file_name(&name)));
    std::fs::create_dir_all(&out).map_err(|error| format!("cannot make {}: {error}", out.display()))?;
    crate::write(&path, &content)?;
    let files = archive.paths().map(str::to_owned).collect();
    let requires = (host == Host::TvmFfi).then_some(metadata::TVM_FFI);
    Ok(Made { path, package, size: content.len(), platform, functions, types, nameless, files, requires })
}

/// Returns the loader of the library: CPython itself if the library exports the entry point, unless
/// the options request tvm_ffi.
fn host(library: &[u8], name: &str, options: &Options) -> Result<Host> {
    let entry = format!("PyInit_{name}");
    let is_extension = LibraryFile::parse(library)?.symbols.iter().any(|(symbol, _)| *symbol == entry);
    Ok(if is_extension && !options.tvm_ffi { Host::Extension } else { Host::TvmFfi })
}

/// Adds the license files: `license-file` of Cargo.toml, and files next to it with the usual names.
fn add_licenses(archive: &mut Archive, package: &Package, dist_info: &str) -> Result<Vec<String>> {
    let folder = package.folder();
    let mut files: Vec<PathBuf> = package.license_file.iter().map(|file| folder.join(file)).collect();
    let beside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let usual = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_uppercase()).unwrap_or_default();
        path.is_file() && ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|start| name.starts_with(start))
    };
    files.extend(beside.filter(usual));
    let mut names = Vec::new();
    for file in files {
        inside::check(&package.root, &file, &package.target_directory)?;
        let Some(name) = file.file_name() else { continue };
        let name = name.to_str().ok_or_else(|| format!("the name of the license {} is not UTF-8", file.display()))?;
        let name = name.to_owned();
        if names.contains(&name) {
            continue;
        }
        archive.add(format!("{dist_info}/licenses/{name}"), file::read(&file)?);
        names.push(name);
    }
    names.sort();
    Ok(names)
}

fn readme(package: &Package) -> Result<Option<(String, String)>> {
    let Some(readme) = &package.readme else { return Ok(None) };
    let path = package.folder().join(readme);
    inside::check(&package.root, &path, &package.target_directory)?;
    let text =
        String::from_utf8(file::read(&path)?).map_err(|_| format!("the readme {} is not UTF-8", path.display()))?;
    Ok(Some((file_name(&path), text)))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Made {
    /// Returns the path of the wheel.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The Python package that the wheel requires.
    pub(crate) fn requires(&self) -> Option<&'static str> {
        self.requires
    }

    /// A summary of the Python module: `import my_kit: 4 functions, 1 type`.
    pub(crate) fn offer(&self) -> String {
        let counted = |count, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (functions, types) = (counted(self.functions, "function"), counted(self.types, "type"));
        format!("import {}: {functions}, {types}", self.package.library)
    }

    /// A report on the wheel, as text or as JSON (the README of kernpack-cli describes it).
    pub(crate) fn report(&self, as_json: bool) -> String {
        if as_json {
            let because = self.platform.because.as_ref();
            let value = json!({
                "schema": 1,
                "wheel": self.path,
                "size": self.size,
                "package": self.package.name,
                "module": self.package.library,
                "platform": self.platform.tag,
                "platform_needs": because.map(|(version, symbols)| json!({ "version": version, "symbols": symbols })),
                "functions": self.functions,
                "types": self.types,
                "nameless": self.nameless,
                "files": self.files,
            });
            return format!("{value:#}\n");
        }
        let mut out = format!("wrote {} ({})\n", self.path.display(), text::size(self.size));
        // Writing to a String does not fail.
        let _ = writeln!(out, "  {}", self.offer());
        let _ = write!(out, "  runs on {}", self.platform.tag);
        if let Some((version, symbols)) = &self.platform.because {
            let _ = write!(out, ": needs {version} for {}", text::first_few(symbols));
        }
        out.push('\n');
        if !self.nameless.is_empty() {
            let names = text::first_few(&self.nameless);
            let _ =
                writeln!(out, "  without a name in Python, so only in {}.__library__: {names}", self.package.library);
        }
        out
    }
}
