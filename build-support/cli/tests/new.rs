//! `cargo kernpack new`: what it writes builds and passes its tests, and so does what it writes for CUDA where there is no CUDA.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

// The build script makes every program of this crate a host, and this is what one consists of.
use kernpack as _;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// `target/<profile>/deps/new-...`: the folder above the profile's.
fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

fn kernpack(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kernpack"));
    command.current_dir(folder).arg("kernpack").args(arguments).output().unwrap()
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{text}");
    text
}

/// Makes a crate and runs its tests, with the packages that this workspace has already.
fn new_crate(name: &str, options: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new");
    std::fs::create_dir_all(&folder).unwrap();
    // The nearest settings count: not those of this workspace, in whose folder `target` may be.
    std::fs::write(folder.join("rustfmt.toml"), "").unwrap();
    let crate_folder = folder.join(name);
    std::fs::remove_dir_all(&crate_folder).ok();
    let root = workspace();
    let root = root.to_str().unwrap();
    let output = kernpack(&[&["new", name, "--kernpack-path", root], options].concat(), &folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("made {name} in {name}: kernpack of the checkout {root}\n  next: cd {name} && cargo test\n")
    );
    std::fs::copy(workspace().join("Cargo.lock"), crate_folder.join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&crate_folder).args(["test", "--offline"]).env("CARGO_TARGET_DIR", target());
    // Without a CUDA compiler, whether or not this machine has one.
    let text = succeed(cargo.env("KERNPACK_CUDA", "off"));
    assert!(!text.contains("warning"), "{text}");
    assert!(text.contains("test the_kernel_in_c ... ok"), "{text}");
    succeed(Command::new(env!("CARGO")).current_dir(&crate_folder).args(["fmt", "--check"]));
    crate_folder
}

#[test]
fn a_crate_builds_and_passes_its_tests() {
    let folder = new_crate("fresh-kit", &[]);
    let again = kernpack(&["new", "fresh-kit"], folder.parent().unwrap());
    assert_eq!(again.status.code(), Some(1));
    let message = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        message.starts_with("error: fresh-kit exists already, with ") && message.contains("nothing is overwritten")
    );

    let Some(python) = std::env::var_os("KERNPACK_PYTHON") else {
        eprintln!("skipped: the Python test of a new crate: KERNPACK_PYTHON is not set (cargo xtask test sets it)");
        return;
    };
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider", "-rs", "python"]).current_dir(&folder);
    pytest.env("CARGO_TARGET_DIR", target()).env("PYTHONDONTWRITEBYTECODE", "1");
    let text = succeed(&mut pytest);
    assert!(text.contains("3 passed"), "{text}");
    the_package_is_the_authors(&folder, Path::new(&python));
}

/// A source distribution: not of a crate that only builds here; of one that names where Kernpack is, it has the crate's files.
fn a_source_distribution(folder: &Path, python: &Path) {
    let make = || {
        let program = "import kernpack_backend as backend\ntry: print(backend.build_sdist('.'))\nexcept SystemExit as problem: print(problem)";
        // What cargo says follows.
        let text = succeed(Command::new(python).args(["-c", program]).current_dir(folder));
        text.lines().next().unwrap_or_default().to_owned()
    };
    let problem = make();
    assert!(
        problem.starts_with("kernpack, kernpack-build: a source distribution is built on other machines"),
        "{problem}"
    );
    let manifest = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let lines = text.lines().map(|line| match line.split_once(" = ") {
        Some((name @ ("kernpack" | "kernpack-build"), _)) => {
            format!("{name} = {{ git = \"https://example.invalid/kernpack\" }}")
        }
        _ => line.to_owned(),
    });
    std::fs::write(&manifest, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let name = make();
    std::fs::write(&manifest, text).unwrap();
    let listed = succeed(Command::new(python).args(["-m", "tarfile", "-l", &name]).current_dir(folder));
    std::fs::remove_file(folder.join(&name)).unwrap();
    for file in [
        "/Cargo.toml",
        "/Cargo.lock",
        "/kernpack_backend.py",
        "/src/lib.rs",
        "/python/fresh_kit/wrappers.py",
        "/PKG-INFO",
    ] {
        assert!(listed.contains(file), "{file} is not in\n{listed}");
    }
}

/// A module of the author beside the library, what is hidden, and the ways of installing: pip from the folder, pip from where it is,
/// `cargo kernpack develop`.
fn the_package_is_the_authors(folder: &Path, python: &Path) {
    let manifest = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let hidden = "\n[package.metadata.kernpack.wheel]\nhidden = [\"scale\"]\n";
    std::fs::write(&manifest, text + hidden).unwrap();
    let sources = folder.join("python/fresh_kit");
    std::fs::create_dir_all(&sources).unwrap();
    let wrapper = |factor: u32| {
        let text = format!(
            "from .fresh_kit import scale, scaled\n\n\ndef stretched(values):\n    return memoryview(scaled(values, {factor})).tolist()\n"
        );
        std::fs::write(sources.join("wrappers.py"), text).unwrap();
    };
    wrapper(2);
    a_source_distribution(folder, python);
    let environment = folder.join("environment");
    succeed(Command::new(python).args(["-m", "venv"]).arg(&environment));
    let installed = environment.join("bin/python");
    let pip = |words: &[&str]| {
        let mut pip = Command::new(&installed);
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-index", "-C", "offline="]).args(words);
        pip.current_dir(folder).env("CARGO_KERNPACK", env!("CARGO_BIN_EXE_cargo-kernpack"));
        succeed(pip.env("CARGO_TARGET_DIR", target()));
    };
    let check = |factor: u32, is_here: bool| {
        let program = format!(
            "import array, os, fresh_kit\n\
             from fresh_kit import wrappers\n\
             assert wrappers.stretched(array.array('f', [1, 2])) == [{factor}, {}]\n\
             assert fresh_kit.Point(3.0, 4.0).distance(fresh_kit.Point(0.0, 0.0)) == 5\n\
             assert not hasattr(fresh_kit, 'scale') and fresh_kit.add.__doc__.startswith('Adds two')\n\
             assert fresh_kit.__all__ == ['Point', 'add', 'middle', 'scaled'], fresh_kit.__all__\n\
             assert fresh_kit.__version__ == '0.1.0' and os.path.exists(fresh_kit.__library__)\n\
             assert ('site-packages' in fresh_kit.__file__) != {}\n",
            2 * factor,
            if is_here { "True" } else { "False" },
        );
        // Elsewhere, so that nothing but what was installed is found.
        succeed(Command::new(&installed).args(["-c", &program]).current_dir(std::env::temp_dir()));
    };
    pip(&["--editable", "."]);
    check(2, true);
    wrapper(3);
    check(3, true);
    pip(&["-C", "profile=dev", "."]);
    check(3, false);
    wrapper(4);
    check(3, false);
    let mut develop = Command::new(env!("CARGO_BIN_EXE_cargo-kernpack"));
    develop.args(["kernpack", "develop", "--offline", "--python"]).arg(&installed).current_dir(folder);
    let text = succeed(develop.env("CARGO_TARGET_DIR", target()));
    assert!(
        text.contains(&format!("installed for {}\n  import fresh_kit: 3 functions, 1 type\n", installed.display())),
        "{text}"
    );
    check(4, true);
}

#[test]
fn a_crate_with_a_cuda_kernel_builds_without_a_toolkit() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new/fresh-cuda");
    new_crate("fresh-cuda", &["--cuda"]);
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains("one in CUDA in `kernels/double.cu`"), "{readme}");
}
