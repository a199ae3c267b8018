//! The contents of the folder of the Python package: the library, its loader, stubs, and the
//! author's own modules.

use std::path::PathBuf;

use super::package::Package;
use super::python::{self, Api, Host, Place};
use super::sources::Sources;
use crate::Result;
use crate::library::file;

/// A file of the package.
#[derive(Debug)]
pub(crate) enum Content {
    /// Generated text.
    Text(String),
    /// The library.
    Library,
    /// A file of the author.
    Source(PathBuf),
}

/// The files of the package by their paths in its folder.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) files: Vec<(String, Content)>,
    /// The folder of the author's sources, if there is one.
    pub(crate) sources: Option<PathBuf>,
}

/// The library and the facts that the package is generated from.
pub(crate) struct Library<'a> {
    pub(crate) api: Api,
    pub(crate) host: Host,
    /// The library's file in the package.
    pub(crate) file: &'a str,
    pub(crate) version: &'a str,
    /// A description of the package.
    pub(crate) about: &'a str,
}

impl Contents {
    /// Without sources of the author, `__init__.py` is the only module. With them, a module with
    /// the library's name contains the library's items, so that other modules of the package can
    /// import it: the extension module, or one that loads the library with tvm_ffi. An
    /// `__init__.py` of the author is used unchanged.
    pub(crate) fn of(package: &Package, library: Library<'_>) -> Result<Self> {
        let Library { mut api, host, file, version, about } = library;
        let module = &package.library;
        let text = |name: String, text: String| (name, Content::Text(text));
        let own = ["so", "py", "pyi"].map(|suffix| format!("{module}.{suffix}"));
        let inside = api.modules().into_iter().map(|inner| inner.replace('.', "/")).flat_map(|inner| {
            ["", "/__init__"].into_iter().flat_map(move |end| [format!("{inner}{end}.py"), format!("{inner}{end}.pyi")])
        });
        let inside: Vec<String> = inside.collect();
        let own = [&own[..], &[file.to_owned(), format!("{module}/__init__.py")], &inside].concat();
        let modules = api.modules().into_iter().map(|inner| inner.replace('.', "/"));
        let modules: Vec<String> = std::iter::once(module.clone()).chain(modules).collect();
        let sources = Sources::find(package, &own, &modules)?;
        let mut files = vec![(file.to_owned(), Content::Library)];
        if sources.folder.is_none() {
            let init = match host {
                Host::Extension => python::package(&api, host, module, version, about),
                Host::TvmFfi => {
                    api.forget_hidden();
                    python::loader(&api, file, version, about)
                }
            };
            api.forget_hidden();
            files.push(text("__init__.py".to_owned(), init));
            files.push(text("__init__.pyi".to_owned(), python::stub(&api, host, Place::Package, module, about)));
        } else {
            if host == Host::TvmFfi {
                files.push(text(format!("{module}.py"), python::loader(&api, file, version, about)));
            }
            files.push(text(format!("{module}.pyi"), python::stub(&api, host, Place::Library, module, about)));
            if !sources.has("__init__.py") {
                files.push(text("__init__.py".to_owned(), python::package(&api, host, module, version, about)));
                if !sources.has("__init__.pyi") {
                    files.push(text("__init__.pyi".to_owned(), python::package_stub(host, module, about)));
                }
            }
        }
        let place = if sources.folder.is_none() { Place::Package } else { Place::Library };
        files.extend(python::inner_stubs(&api, host, place, module).into_iter().map(|(path, stub)| text(path, stub)));
        if !sources.has("py.typed") {
            files.push(text("py.typed".to_owned(), String::new()));
        }
        files.extend(sources.files().map(|(path, file)| (path.to_owned(), Content::Source(file.to_owned()))));
        Ok(Self { files, sources: sources.folder })
    }
}

impl Content {
    /// Returns the bytes of the file. `library` is the content of the library.
    pub(crate) fn bytes(&self, library: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::Library => Ok(library.to_vec()),
            Self::Source(path) => file::read(path),
        }
    }
}
