//! `cargo kernpack new`: creates a crate that builds and passes its tests immediately.

mod dependencies;
mod dimension;
mod model;
mod name;
mod onnx_file;
mod options;
mod template;

use std::path::Path;

pub(crate) use options::{HELP, Options, parse};

use crate::Result;
use dependencies::{Dependencies, Tool};
use model::Model;

/// Writes the crate and returns the next steps.
///
/// # Errors
/// Returns an error if the name is invalid, the folder already exists, or a file cannot be written.
pub(crate) fn make(options: &Options) -> Result<String> {
    let program = std::env::current_exe().ok();
    let root = program.as_deref().and_then(Path::parent).and_then(Path::parent);
    make_with(options, &Tool { sources: Path::new(env!("CARGO_MANIFEST_DIR")), root })
}

fn make_with(options: &Options, tool: &Tool<'_>) -> Result<String> {
    let folder = &options.path;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
    };
    name::check(&name)?;
    if let Ok(mut entries) = folder.read_dir() {
        if let Some(entry) = entries.next() {
            let first = entry.map(|entry| entry.file_name().to_string_lossy().into_owned()).unwrap_or_default();
            return Err(format!(
                "{} exists already, with {first} in it, and nothing is overwritten; choose another name, or an empty folder",
                folder.display()
            ));
        }
    } else if folder.symlink_metadata().is_ok() {
        return Err(format!("{} exists already and is not a folder; choose another name", folder.display()));
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = std::path::absolute(parent).map_err(|error| format!("cannot find {}: {error}", parent.display()))?;
    let dependencies = Dependencies::choose(options.kernpack.as_ref(), &parent, tool)?;
    let in_workspace = dependencies::is_below_workspace(&parent);
    let model = options.model.as_ref().map(|file| Model::read(file, &options.dims, options.has_weights_file));
    let model = model.transpose()?;
    let crate_files = match &model {
        Some(model) => template::model_files(&name, model, &dependencies, in_workspace),
        None => template::files(&name, options.cuda, &dependencies, in_workspace),
    };
    for (path, text) in crate_files {
        let path = folder.join(path);
        make_folder_of(&path)?;
        crate::write(&path, text.as_bytes())?;
    }
    let mut note = String::new();
    if let Some(model) = &model {
        copy(model, folder)?;
        note = model.about.iter().map(|line| format!("  {line}\n")).collect();
    }
    let shown = folder.display();
    Ok(format!("made {name} in {shown}: {}\n{note}  next: cd {shown} && cargo test\n", dependencies.shown()))
}

fn make_folder_of(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

/// Copies a model and the files with its weights.
fn copy(model: &Model, folder: &Path) -> Result<()> {
    let from = model.file.parent().unwrap_or(Path::new(""));
    let own = model.file.file_name().map(Path::new).into_iter();
    for name in own.chain(model.beside.iter().map(|path| path.as_path())) {
        let (from, to) = (from.join(name), folder.join(template::MODELS).join(name));
        make_folder_of(&to)?;
        std::fs::copy(&from, &to)
            .map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::dependencies::Asked;
    use super::dimension::Extents;
    use super::*;
    use std::path::PathBuf;

    fn temporary(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kernpack-new-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn options(path: PathBuf) -> Options {
        Options { path, ..Options::default() }
    }

    #[test]
    fn nothing_is_overwritten() {
        let folder = temporary("taken");
        std::fs::write(folder.join("notes.txt"), "mine").unwrap();
        let shown = folder.display();
        assert_eq!(
            make(&Options { name: Some("kit".to_owned()), ..options(folder.clone()) }).unwrap_err(),
            format!(
                "{shown} exists already, with notes.txt in it, and nothing is overwritten; choose another name, or an empty folder"
            )
        );
        let file = folder.join("notes.txt");
        assert_eq!(
            make(&Options { name: Some("kit".to_owned()), ..options(file.clone()) }).unwrap_err(),
            format!("{} exists already and is not a folder; choose another name", file.display())
        );
        assert_eq!(std::fs::read(file).unwrap(), b"mine");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_crate_outside_of_a_checkout_depends_on_the_checkout_of_the_tool() {
        let folder = temporary("paths");
        let path = folder.join("my-kit");
        let text = make(&options(path.clone())).unwrap();
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().display();
        assert_eq!(
            text,
            format!(
                "made my-kit in {0}: kernpack of the checkout {checkout}\n  next: cd {0} && cargo test\n",
                path.display()
            )
        );
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
        assert!(
            manifest.contains(&format!("kernpack = {{ path = \"{checkout}/runtime\", features = [\"python\"] }}\n")),
            "{manifest}"
        );
        assert!(
            manifest.contains(&format!("kernpack-build = {{ path = \"{checkout}/build-support\" }}\n")),
            "{manifest}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_crate_of_a_released_tool_names_versions() {
        let folder = temporary("versions");
        // The layout of cargo: `registry/src/INDEX/kernpack-cli-VERSION`.
        let text = make_with(&options(folder.join("my-kit")), &Tool { sources: &folder, root: None }).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let path = folder.join("my-kit");
        assert_eq!(
            text,
            format!("made my-kit in {0}: kernpack {version}\n  next: cd {0} && cargo test\n", path.display())
        );
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
        assert!(
            manifest.contains(&format!("kernpack = {{ version = \"{version}\", features = [\"python\"] }}\n")),
            "{manifest}"
        );
        assert!(!manifest.contains("[workspace]") && !manifest.contains("{{"), "{manifest}");
        let mut files = Vec::new();
        for folder in ["", "src", "kernels", "tests", "python"] {
            for entry in std::fs::read_dir(path.join(folder)).unwrap().flatten().filter(|entry| entry.path().is_file())
            {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                assert!(!text.contains("{{") || !text.contains("}}"), "{text}");
                files.push(format!("{folder}/{}", entry.file_name().to_string_lossy()));
            }
        }
        files.sort();
        assert_eq!(
            files,
            [
                "/.gitignore",
                "/Cargo.toml",
                "/README.md",
                "/build.rs",
                "/kernpack_backend.py",
                "/pyproject.toml",
                "kernels/scale.c",
                "python/test_my_kit.py",
                "src/lib.rs",
                "tests/library.rs"
            ]
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_crate_with_a_model() {
        let folder = temporary("model");
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../graph/tests/data/perceptron.onnx");
        let path = folder.join("scores");
        let options = Options { model: Some(model.clone()), ..options(path.clone()) };
        let text = make(&options).unwrap();
        let about = "\n  input x: float32[batch, 4]\n  batch: 1, unless --dim or --dim-range sets it; the line is in build.rs\n  next: cd ";
        assert!(text.contains(about), "{text}");
        assert_eq!(std::fs::read(path.join("models/perceptron.onnx")).unwrap(), std::fs::read(model).unwrap());
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
        let build = read("build.rs");
        assert!(
            build.contains(".model_with(\"models/perceptron.onnx\", |model| model.dim(\"batch\", 1))\n"),
            "{build}"
        );
        assert!(read("Cargo.toml").contains("features = [\"graph\"]"));
        let test = read("tests/library.rs");
        assert!(test.contains("    check(&[zeros(DataType::scalar(2, 32), &[1, 4])]);\n"), "{test}");
        no_slots(&path);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Checks that the templates of a crate with a model are filled.
    fn no_slots(path: &Path) {
        for file in ["Cargo.toml", "README.md", "build.rs", "src/lib.rs", "tests/library.rs", "python/test_scores.py"] {
            let text = std::fs::read_to_string(path.join(file)).unwrap();
            assert!(!text.contains("{{"), "{file}: {text}");
        }
    }

    #[test]
    fn a_crate_with_a_model_of_any_extents() {
        let folder = temporary("ranges");
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../graph/tests/data/perceptron.onnx");
        let path = folder.join("scores");
        let dims = [("batch".to_owned(), Extents::Range { least: 1, most: 64, step: 1 })].into();
        let options = Options { model: Some(model), dims, has_weights_file: true, ..options(path.clone()) };
        let text = make(&options).unwrap();
        assert!(text.contains("\n  input x: float32[batch, 4]\n  batch: 1 to 64\n  next: cd "), "{text}");
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
        for (file, line) in [
            ("build.rs", "|model| {\n            model.dim_range(\"batch\", 1..=64).weights_file()\n        })"),
            ("tests/library.rs", "    check(&[zeros(DataType::scalar(2, 32), &[1, 4])]);\n"),
            ("tests/library.rs", "    check(&[zeros(DataType::scalar(2, 32), &[3, 4])]);\n"),
            ("tests/library.rs", "concat!(env!(\"OUT_DIR\"), \"/kernpack/perceptron.weights\")"),
            ("python/test_scores.py", "    [np.zeros([3, 4], \"float32\")],\n"),
            ("python/test_scores.py", "scores.perceptron_weights(str(max(WEIGHTS"),
            ("README.md", "perceptron_weights(\"perceptron.weights\")"),
        ] {
            assert!(read(file).contains(line), "{file}: {line}\n{}", read(file));
        }
        no_slots(&path);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_a_checkout() {
        let folder = temporary("elsewhere");
        let kernpack = Some(Asked::Checkout(folder.clone()));
        let error = make(&Options { kernpack, ..options(folder.join("kit")) }).unwrap_err();
        let shown = folder.display();
        assert_eq!(
            error,
            format!(
                "--kernpack-path {shown} is not a checkout of Kernpack: {shown}/runtime/Cargo.toml is missing or not of the package kernpack"
            )
        );
        assert!(!folder.join("kit").exists());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
