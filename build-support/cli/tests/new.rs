//! `cargo kernpack new`: the generated crate builds and passes its tests, also with CUDA kernels on
//! a machine without CUDA.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

// The build script makes every program of this crate a host, which contains this crate.
use kernpack as _;
use kernpack_skip::skip;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// `target/<profile>/deps/new-...`: the folder above the profile's.
fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// Variables with which cargo builds a new crate: its target folder, and the amount of debug
/// information of this workspace, so that dependencies are not compiled again.
fn building() -> [(&'static str, PathBuf); 3] {
    let lines = || PathBuf::from("line-tables-only");
    [
        ("CARGO_TARGET_DIR", target()),
        ("CARGO_PROFILE_DEV_DEBUG", lines()),
        ("CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG", lines()),
    ]
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

/// Creates a git repository with the files of this workspace, committed or not. Returns its URL and
/// its commit, which is the same for the same files.
fn repository(folder: &Path) -> (String, String) {
    let repository = folder.join("kernpack.git");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=test", "-c", "user.email=test@localhost"]).args(words);
        for variable in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
            git.env(variable, "2026-01-01T00:00:00Z");
        }
        succeed(git.env("GIT_DIR", &repository).env("GIT_WORK_TREE", workspace()).current_dir(workspace()))
    };
    std::fs::remove_dir_all(&repository).ok();
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "everything"]);
    (format!("file://{}", repository.display()), git(&["rev-parse", "HEAD"]).trim().to_owned())
}

/// The workspace's Cargo.lock for a crate that uses Kernpack from a git repository.
fn lock_of((url, commit): &(String, String)) -> String {
    let lock = std::fs::read_to_string(workspace().join("Cargo.lock")).unwrap();
    let packages = lock.split("\n\n").map(|package| {
        let is_ours = package.contains("\nname = \"kernpack") && !package.contains("\nsource = ");
        match package.split_once("\nversion = \"0.1.0\"").filter(|_| is_ours) {
            Some((start, end)) => {
                format!("{start}\nversion = \"0.1.0\"\nsource = \"git+{url}#{commit}\"{end}")
            }
            None => package.to_owned(),
        }
    });
    packages.collect::<Vec<_>>().join("\n\n")
}

/// Creates a crate and runs its tests, with the packages that this workspace already has. Kernpack
/// itself is from the checkout, or from a git repository.
fn new_crate(name: &str, options: &[&str], from_git: bool) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new");
    std::fs::create_dir_all(&folder).unwrap();
    // The nearest settings are used, not those of this workspace, which may contain `target`.
    std::fs::write(folder.join("rustfmt.toml"), "").unwrap();
    let crate_folder = folder.join(name);
    std::fs::remove_dir_all(&crate_folder).ok();
    let root = workspace();
    let root = root.to_str().unwrap();
    let git = from_git.then(|| repository(&folder));
    let (from, shown, lock) = match &git {
        Some(git) => (["--kernpack-git", &git.0], git.0.clone(), lock_of(git)),
        None => (
            ["--kernpack-path", root],
            format!("the checkout {root}"),
            std::fs::read_to_string(workspace().join("Cargo.lock")).unwrap(),
        ),
    };
    let output = kernpack(&[&["new", name], &from[..], options].concat(), &folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("made {name} in {name}: kernpack of {shown}\n  next: cd {name} && cargo test\n")
    );
    std::fs::write(crate_folder.join("Cargo.lock"), lock).unwrap();
    if from_git {
        // Fetches the only missing dependency, which is on this machine.
        succeed(Command::new(env!("CARGO")).current_dir(&crate_folder).arg("fetch"));
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&crate_folder).args(["test", "--offline"]).envs(building());
    // Without a CUDA compiler, whether or not this machine has one.
    let text = succeed(cargo.env("KERNPACK_CUDA", "off"));
    assert!(!text.contains("warning"), "{text}");
    assert!(text.contains("test the_kernel_in_c ... ok"), "{text}");
    succeed(Command::new(env!("CARGO")).current_dir(&crate_folder).args(["fmt", "--check"]));
    crate_folder
}

#[test]
fn a_crate_builds_and_passes_its_tests() {
    let folder = new_crate("fresh-kit", &[], true);
    let again = kernpack(&["new", "fresh-kit"], folder.parent().unwrap());
    assert_eq!(again.status.code(), Some(1));
    let message = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        message.starts_with("error: fresh-kit exists already, with ") && message.contains("nothing is overwritten")
    );

    let Some(python) = std::env::var_os("KERNPACK_PYTHON") else {
        return skip("the Python test of a new crate: KERNPACK_PYTHON is not set (cargo xtask test sets it)");
    };
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider", "-rs", "python"]).current_dir(&folder);
    pytest.envs(building()).env("PYTHONDONTWRITEBYTECODE", "1");
    let text = succeed(&mut pytest);
    assert!(text.contains("3 passed"), "{text}");
    the_package_is_the_authors(&folder, Path::new(&python));
}

/// Builds a source distribution. A crate that only builds on this machine gives an error. One that
/// names the source of Kernpack contains the crate's files.
fn a_source_distribution(folder: &Path, python: &Path) -> PathBuf {
    let make = || {
        let program = "import kernpack_backend as backend\ntry: print(backend.build_sdist('.'))\nexcept SystemExit as problem: print(problem)";
        // The output of cargo follows.
        let text = succeed(Command::new(python).args(["-c", program]).current_dir(folder));
        text.lines().next().unwrap_or_default().to_owned()
    };
    let manifest = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let lines = text.lines().map(|line| match line.split_once(" = ") {
        Some(("kernpack", _)) => format!("kernpack = {{ path = \"{}/runtime\" }}", workspace().display()),
        _ => line.to_owned(),
    });
    std::fs::write(&manifest, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let problem = make();
    std::fs::write(&manifest, text).unwrap();
    assert!(problem.starts_with("kernpack: a source distribution is built on other machines"), "{problem}");
    let file = folder.join(make());
    assert!(file.ends_with("fresh_kit-0.1.0.tar.gz"), "{}", file.display());
    let listed = succeed(Command::new(python).args(["-m", "tarfile", "-l"]).arg(&file));
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
    file
}

#[test]
fn a_source_distribution_has_what_pip_needs_and_no_other_crate() {
    let Some(python) = std::env::var_os("KERNPACK_PYTHON") else {
        return skip("KERNPACK_PYTHON is not set (cargo xtask test sets it)");
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdist");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(folder.join("helper/src")).unwrap();
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let head = |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    let write = |file: &str, text: &str| std::fs::write(folder.join(file), text).unwrap();
    write("helper/Cargo.toml", &head("helper"));
    write("helper/src/lib.rs", "");
    write("src/lib.rs", "");
    write("pyproject.toml", "");
    write("kernpack_backend.py", include_str!("../templates/kernpack_backend.py.in"));
    let own = format!("{}include = [\"src/**\"]\n\n[workspace]\n", head("few-files"));
    let program = "import kernpack_backend as backend\ntry: print(backend.build_sdist('.'))\nexcept SystemExit as problem: print(problem)";
    let make = || {
        let text = succeed(Command::new(&python).args(["-c", program]).current_dir(&folder));
        text.lines().next().unwrap_or_default().to_owned()
    };

    // `cargo package` leaves out a folder with a Cargo.toml.
    write("Cargo.toml", &format!("{own}\n[dependencies]\nhelper = {{ path = \"helper\" }}\n"));
    let problem = make();
    assert!(
        problem.starts_with("helper: a source distribution is built on other machines and takes no other crate"),
        "{problem}"
    );

    write("Cargo.toml", &own);
    assert_eq!(make(), "few_files-0.1.0.tar.gz");
    let listed =
        succeed(Command::new(&python).args(["-m", "tarfile", "-l", "few_files-0.1.0.tar.gz"]).current_dir(&folder));
    let names: Vec<&str> = listed.lines().filter_map(|line| line.trim().strip_prefix("few_files-0.1.0/")).collect();
    assert_eq!(names, ["Cargo.toml", "kernpack_backend.py", "pyproject.toml", "src/lib.rs", "PKG-INFO"], "{listed}");

    std::fs::remove_file(folder.join("pyproject.toml")).unwrap();
    let problem = make();
    assert!(problem.starts_with("pyproject.toml: not a file in "), "{problem}");
}

/// If `cargo kernpack` is not installed, the backend builds it from the Kernpack that Cargo.toml
/// names. The cargo of this test only records its arguments, and puts the program in place.
#[cfg(unix)]
fn the_command_is_built_where_it_is_missing(folder: &Path, python: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let tools = folder.with_file_name("tools");
    std::fs::remove_dir_all(&tools).ok();
    std::fs::create_dir_all(tools.join("home")).unwrap();
    let real_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let real_home = real_home.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"));
    let script = format!(
        "#!/bin/sh\nexport CARGO_HOME='{}'\n[ \"$1\" = install ] || exec '{}' \"$@\"\necho \"$@\" > '{}/asked'\n\
         while [ \"$1\" != --root ]; do shift; done\nmkdir -p \"$2/bin\"\ncp '{}' \"$2/bin/cargo-kernpack\"\n",
        real_home.display(),
        env!("CARGO"),
        tools.display(),
        env!("CARGO_BIN_EXE_cargo-kernpack")
    );
    std::fs::write(tools.join("cargo"), script).unwrap();
    std::fs::set_permissions(tools.join("cargo"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let without = std::env::split_paths(&path).filter(|entry| !entry.join("cargo-kernpack").exists());
    let path = std::env::join_paths(std::iter::once(tools.clone()).chain(without)).unwrap();
    let program = "import kernpack_backend as backend, sys; print(backend.build_wheel(sys.argv[1], {'profile': 'dev', 'offline': ''}))";
    let mut build = Command::new(python);
    build
        .args(["-c", program])
        .arg(&tools)
        .current_dir(folder)
        .env("PATH", path)
        .env_remove("CARGO_KERNPACK")
        .env_remove("CARGO");
    build.env("CARGO_HOME", tools.join("home")).envs(building());
    // The toolchain's own, not a proxy that may be missing in the path.
    let text = succeed(build.env("RUSTC", Path::new(env!("CARGO")).with_file_name("rustc")));
    assert!(text.contains("fresh_kit-0.1.0-cp39-abi3-"), "{text}");
    let repository = folder.with_file_name("kernpack.git");
    let commit = succeed(Command::new("git").arg("--git-dir").arg(&repository).args(["rev-parse", "HEAD"]));
    let install =
        format!("install --locked --git file://{} --rev {} kernpack-cli", repository.display(), commit.trim());
    assert!(text.contains(&format!("installed once, it is not built again: cargo {install}\n")), "{text}");
    let asked = std::fs::read_to_string(tools.join("asked")).unwrap();
    assert_eq!(asked, format!("{install} --debug --quiet --root {}/kernpack-cli --offline\n", target().display()));
    std::fs::remove_dir_all(target().join("kernpack-cli")).unwrap();
}

/// Tests a module of the author next to the library, hidden items, and the ways of installing: pip
/// from a source distribution in an empty folder, from a git repository, from the folder, in
/// editable mode, and `cargo kernpack develop`.
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
    let sdist = a_source_distribution(folder, python);
    #[cfg(unix)]
    the_command_is_built_where_it_is_missing(folder, python);
    let environment = folder.join("environment");
    succeed(Command::new(python).args(["-m", "venv"]).arg(&environment));
    let installed = environment.join("bin/python");
    let pip = |from: &Path, words: &[&str]| {
        let mut pip = Command::new(&installed);
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-index", "-C", "offline="]).args(words);
        pip.current_dir(from).env("CARGO_KERNPACK", env!("CARGO_BIN_EXE_cargo-kernpack"));
        succeed(pip.envs(building()));
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
        // In another folder, so that only the installed package is found.
        succeed(Command::new(&installed).args(["-c", &program]).current_dir(std::env::temp_dir()));
    };
    let empty = folder.with_file_name("empty");
    std::fs::remove_dir_all(&empty).ok();
    std::fs::create_dir_all(&empty).unwrap();
    std::fs::rename(&sdist, empty.join("fresh_kit-0.1.0.tar.gz")).unwrap();
    pip(&empty, &["-C", "profile=dev", "fresh_kit-0.1.0.tar.gz"]);
    check(2, false);
    wrapper(5);
    let git = |words: &[&str]| {
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        succeed(Command::new("git").args(who).args(words).current_dir(folder));
    };
    git(&["init", "--quiet"]);
    git(&[
        "add",
        "Cargo.toml",
        "Cargo.lock",
        "pyproject.toml",
        "kernpack_backend.py",
        "build.rs",
        "kernels",
        "python",
        "src",
    ]);
    git(&["commit", "--quiet", "--message", "a package"]);
    pip(&empty, &["-C", "profile=dev", "--force-reinstall", &format!("git+file://{}", folder.display())]);
    check(5, false);
    std::fs::remove_dir_all(folder.join(".git")).unwrap();
    wrapper(2);
    let pip = |words: &[&str]| pip(folder, words);
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
    let text = succeed(develop.envs(building()));
    assert!(
        text.contains(&format!("installed for {}\n  import fresh_kit: 3 functions, 1 type\n", installed.display())),
        "{text}"
    );
    check(4, true);
}

#[test]
fn a_crate_with_a_cuda_kernel_builds_without_a_toolkit() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new/fresh-cuda");
    new_crate("fresh-cuda", &["--cuda"], false);
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains("one in CUDA in `kernels/double.cu`"), "{readme}");
}
