//! The Python sources of a package: modules of its author, which are next to the library in the
//! wheel.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::inside;
use super::names;
use super::package::Package;
use crate::Result;

/// Deeper folders are a mistake, or a cycle of links.
const DEPTH: usize = 32;

/// The files by their paths in the package, with `/` between folders.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The folder that is the package, if there is one.
    pub(crate) folder: Option<PathBuf>,
    files: BTreeMap<String, PathBuf>,
}

impl Sources {
    /// Finds the files of the package's folder `python/<module>`, or of the folder that its
    /// Cargo.toml names.
    ///
    /// # Errors
    /// Returns an error if a named folder does not exist, a name is reserved for the wheel, a file
    /// hides one of the library's `modules`, or a file cannot be read.
    pub(crate) fn find(package: &Package, own: &[String], modules: &[String]) -> Result<Self> {
        let (place, is_named) = package.settings.python();
        let folder = package.folder().join(&place).join(&package.library);
        if !folder.is_dir() {
            return match is_named {
                true => Err(format!(
                    "there is no folder {}: `python` of [package.metadata.kernpack.wheel] in Cargo.toml names the folder in which the \
                     folder {} has the Python sources of the package",
                    folder.display(),
                    package.library
                )),
                false => Ok(Self::default()),
            };
        }
        let mut files = BTreeMap::new();
        let target = package.target_directory.as_path();
        inside::check(package.folder(), &folder, target)?;
        // A folder outside the package is allowed because Cargo.toml names it.
        let all = if inside::is_named_in(package.folder(), &folder) {
            package.folder()
        } else {
            inside::check_named(package.folder(), &place.join(&package.library))?;
            &folder
        };
        collect(&Bounds { all, target }, &folder, "", DEPTH, &mut files)?;
        if files.is_empty() {
            return Ok(Self::default());
        }
        if let Some(taken) = own.iter().find(|name| files.contains_key(*name)) {
            return Err(format!(
                "{} has a file {taken}, which is the library's own name in the package; give it another name",
                folder.display()
            ));
        }
        // Without an `__init__.py` of the author, one is generated.
        let init = (!files.contains_key("__init__.py")).then(|| "__init__".to_owned());
        let modules: Vec<String> = modules.iter().cloned().chain(init).collect();
        if let Some((file, hidden)) = names::hiding(files.keys().map(String::as_str), &modules) {
            return Err(format!(
                "{} has a file {file}, which Python imports in place of the library's module {hidden}; give it another name",
                folder.display()
            ));
        }
        Ok(Self { folder: Some(folder), files })
    }

    /// Returns true if the file exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns the paths in the package, and the paths of the files.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file.as_path()))
    }
}

/// The limits for links: they must point into this folder, and not into the folder of build
/// outputs.
struct Bounds<'a> {
    all: &'a Path,
    target: &'a Path,
}

/// Collects the files of a folder and its subfolders, except those that Python and editors
/// generate.
fn collect(
    bounds: &Bounds<'_>,
    folder: &Path,
    prefix: &str,
    depth: usize,
    files: &mut BTreeMap<String, PathBuf>,
) -> Result<()> {
    let problem = |what: String| format!("cannot take the Python sources in {}: {what}", folder.display());
    if depth == 0 {
        return Err(problem(format!("folders are more than {DEPTH} deep")));
    }
    for entry in fs::read_dir(folder).map_err(|error| problem(error.to_string()))? {
        let entry = entry.map_err(|error| problem(error.to_string()))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            return Err(problem(format!("the name {} is not UTF-8", name.display())));
        };
        let is_left = name.starts_with('.') || name == "__pycache__" || name.ends_with(".pyc") || name.ends_with('~');
        if is_left {
            continue;
        }
        let path = entry.path();
        // The author may link to other parts of the package. A target elsewhere is not part of it.
        inside::check(bounds.all, &path, bounds.target)?;
        // The metadata of the target of a link.
        let kind = fs::metadata(&path).map_err(|error| problem(format!("{name}: {error}")))?;
        let place = format!("{prefix}{name}");
        if kind.is_dir() {
            collect(bounds, &path, &format!("{place}/"), depth - 1, files)?;
        } else {
            files.insert(place, path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::settings::Settings;
    use serde_json::json;

    fn package(name: &str) -> (PathBuf, Package) {
        let folder = std::env::temp_dir().join(format!("kernpack-sources-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let package = Package { manifest: folder.join("Cargo.toml"), library: "kit".to_owned(), ..Package::default() };
        (folder, package)
    }

    fn names(sources: &Sources) -> Vec<&str> {
        sources.files().map(|(path, _)| path).collect()
    }

    #[test]
    fn files_of_the_module() {
        let (folder, mut package) = package("files");
        assert!(Sources::find(&package, &[], &[]).unwrap().folder.is_none());
        let module = folder.join("python/kit");
        for file in ["__init__.py", "filters/__init__.py", "data/table.csv", "__pycache__/a.pyc", ".cache/b", "old.py~"]
        {
            let file = module.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        fs::write(folder.join("python/test_kit.py"), "").unwrap();
        let sources = Sources::find(&package, &["kit.so".to_owned()], &["kit".to_owned()]).unwrap();
        assert_eq!(names(&sources), ["__init__.py", "data/table.csv", "filters/__init__.py"]);
        assert!(sources.has("__init__.py") && !sources.has("test_kit.py"));
        fs::write(module.join("kit.pyi"), "").unwrap();
        let shown = module.display();
        assert_eq!(
            Sources::find(&package, &["kit.so".to_owned(), "kit.pyi".to_owned()], &[]).unwrap_err(),
            format!("{shown} has a file kit.pyi, which is the library's own name in the package; give it another name")
        );
        fs::write(module.join("kit.abi3.so"), "").unwrap();
        assert_eq!(
            Sources::find(&package, &[], &["kit".to_owned()]).unwrap_err(),
            format!(
                "{shown} has a file kit.abi3.so, which Python imports in place of the library's module kit; give it another name"
            )
        );
        package.settings = Settings::of(&json!({ "kernpack": { "wheel": { "python": "src/py" } } })).unwrap();
        assert_eq!(
            Sources::find(&package, &[], &[]).unwrap_err(),
            format!(
                "there is no folder {}/src/py/kit: `python` of [package.metadata.kernpack.wheel] in Cargo.toml names the folder in which the \
                 folder kit has the Python sources of the package",
                folder.display()
            )
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_circle() {
        let (folder, package) = package("circle");
        let module = folder.join("python/kit");
        fs::create_dir_all(&module).unwrap();
        std::os::unix::fs::symlink(&module, module.join("again")).unwrap();
        let problem = Sources::find(&package, &[], &[]).unwrap_err();
        assert!(problem.ends_with(": folders are more than 32 deep"), "{problem}");
        fs::remove_dir_all(folder).unwrap();
    }
    #[cfg(unix)]
    #[test]
    fn links_out_of_the_package() {
        use std::os::unix::fs::symlink;
        let (folder, package) = package("links");
        let module = folder.join("python/kit");
        fs::create_dir_all(&module).unwrap();
        fs::write(folder.join("notes.txt"), "").unwrap();
        fs::write(module.join("own.txt"), "").unwrap();
        symlink("own.txt", module.join("again.txt")).unwrap();
        symlink("../../notes.txt", module.join("notes.txt")).unwrap();
        assert_eq!(names(&Sources::find(&package, &[], &[]).unwrap()), ["again.txt", "notes.txt", "own.txt"]);
        for target in ["../../../../../../etc/passwd", "/etc", "/dev/zero"] {
            symlink(target, module.join("out")).unwrap();
            let problem = Sources::find(&package, &[], &[]).unwrap_err();
            assert!(problem.contains("python/kit/out is, or lies behind, a link to "), "{problem}");
            fs::remove_file(module.join("out")).unwrap();
        }
        // An outside folder that Cargo.toml names, and a link to it that Cargo.toml does not name.
        let outside = folder.with_extension("outside");
        fs::create_dir_all(outside.join("real/kit")).unwrap();
        fs::write(outside.join("real/kit/own.txt"), "").unwrap();
        symlink("real", outside.join("link")).unwrap();
        let named = |place: &str| {
            let place = format!("../{}/{place}", outside.file_name().unwrap().to_str().unwrap());
            let settings = json!({ "kernpack": { "wheel": { "python": place } } });
            let manifest = package.manifest.clone();
            let settings = Settings::of(&settings).unwrap();
            Sources::find(&Package { manifest, library: "kit".to_owned(), settings, ..Package::default() }, &[], &[])
        };
        assert_eq!(names(&named("real").unwrap()), ["own.txt"]);
        assert!(named("link").unwrap_err().contains("link is a link to "));
        fs::write(outside.join("real/kit/__init__.abi3.so"), "").unwrap();
        assert!(named("real").unwrap_err().contains("__init__.abi3.so, which Python imports in place of"));
        fs::remove_dir_all(&outside).unwrap();
        // The folder itself.
        fs::remove_dir_all(&module).unwrap();
        symlink(std::env::temp_dir(), &module).unwrap();
        let problem = Sources::find(&package, &[], &[]).unwrap_err();
        assert!(problem.contains("python/kit is, or lies behind, a link to "), "{problem}");
        fs::remove_dir_all(folder).unwrap();
    }
}
