//! Rust's standard library for another target, built from Debian's source package: for machines
//! that reach Debian's and Rust's package servers, but not rustup's.
//!
//! cargo builds a standard library with `-Z build-std`. Here that is done once, and the result is
//! copied into a folder that rustc uses as its sysroot, so that later builds are like a user's:
//! stable, and without special options of cargo.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::environment::Environment;
use crate::step::{self, Show};

/// Source packages: the version of Rust, the file on Debian's server, and its SHA-256.
const SOURCES: [(&str, &str, &str); 1] = [(
    "1.95.0",
    "rust-src_1.95.0+dfsg1-2~bpo13+1_all.deb",
    "7b76db5b880a77f9e52975d2baa6209d2f76d2c9c2789515c3088cb960e2c83b",
)];

/// The folder of the package, below each mirror of Debian.
const POOL: &str = "pool/main/r/rustc/";

/// A program that downloads a file, and checks its digest.
const FETCH: &str = "import hashlib, sys, urllib.request
data = urllib.request.urlopen(sys.argv[1], timeout=120).read()
found = hashlib.sha256(data).hexdigest()
if found != sys.argv[2]: sys.exit(f'{sys.argv[1]} has the SHA-256 {found}, not {sys.argv[2]}')
open(sys.argv[3], 'wb').write(data)";

/// The sysroot with the target's libraries. Builds it if it is missing.
pub(crate) fn sysroot(environment: &Environment, target: &str) -> Result<PathBuf> {
    let workspace = &environment.workspace;
    let rustc = workspace.command("rustc").arg("--version").output();
    let rustc = rustc.map_err(|error| format!("rustc cannot be run: {error}"))?;
    let version = String::from_utf8_lossy(&rustc.stdout).split(' ').nth(1).unwrap_or_default().to_owned();
    let Some((_, file, sha256)) = SOURCES.iter().find(|(of, ..)| *of == version) else {
        return Err(format!("there is no known source package of Rust {version}").into());
    };
    let folder = workspace.folder(&format!("aarch64/rust-{version}"))?;
    let sysroot = folder.join("sysroot");
    let libraries = sysroot.join("lib/rustlib").join(target).join("lib");
    if libraries.join("complete").is_file() {
        return Ok(sysroot);
    }
    let (archive, source, build) = (folder.join("rust-src.deb"), folder.join("source"), folder.join("build"));
    let mut fetch = environment.command(environment.python.interpreter());
    fetch.args(["-c", FETCH, &format!("{}/{POOL}{file}", mirror(environment)?), sha256]).arg(&archive);
    step::run(&format!("fetch {file}"), &mut fetch, Show::Warnings)?;
    let mut unpack = workspace.command("dpkg-deb");
    step::run(&format!("unpack {file}"), unpack.arg("-x").arg(&archive).arg(&source), Show::Warnings)?;

    fs::create_dir_all(build.join("src"))?;
    fs::write(build.join("src/lib.rs"), "#![no_std]\n")?;
    fs::write(build.join("Cargo.toml"), "[package]\nname = \"nothing\"\nedition = \"2024\"\n\n[workspace]\n")?;
    let mut cargo = workspace.cargo("build");
    cargo.args(["--release", "--target", target, "-Zbuild-std=std,panic_unwind,proc_macro,test"]);
    cargo.current_dir(&build).env("CARGO_TARGET_DIR", folder.join("target")).env("RUSTC_BOOTSTRAP", "1");
    let library = source.join("usr/src").join(format!("rustc-{version}")).join("library");
    cargo.env("__CARGO_TESTS_ONLY_SRC_ROOT", library).env_remove("RUSTFLAGS");
    step::run(&format!("build the Rust standard library for {target}"), &mut cargo, Show::Warnings)?;

    fs::create_dir_all(&libraries)?;
    copy_libraries(&folder.join("target").join(target).join("release/deps"), &libraries)?;
    fs::write(libraries.join("complete"), file)?;
    for done in [&source, &build, &folder.join("target")] {
        let _ = fs::remove_dir_all(done);
    }
    let _ = fs::remove_file(archive);
    Ok(sysroot)
}

/// The mirror of Debian that apt is configured for, without a trailing slash.
fn mirror(environment: &Environment) -> Result<String> {
    const ADVICE: &str = "configure apt for a mirror of Debian, or install the target's standard library by rustup";
    let mut apt = environment.workspace.command("apt-get");
    apt.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let output = apt.output().map_err(|error| format!("apt-get cannot be run: {error}; {ADVICE}"))?;
    let mirrors = String::from_utf8_lossy(&output.stdout).into_owned();
    // Security updates come from a separate server, which does not have all packages.
    let mut mirrors = mirrors.lines().filter(|mirror| !mirror.contains("security"));
    let mirror = mirrors.next().ok_or_else(|| format!("apt knows no mirror of Debian; {ADVICE}"))?;
    Ok(mirror.trim_end_matches('/').to_owned())
}

fn copy_libraries(from: &Path, to: &Path) -> Result {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".rlib") && !name.starts_with("libnothing-") {
            fs::copy(&path, to.join(&name)).map_err(|error| format!("cannot copy {}: {error}", path.display()))?;
        }
    }
    Ok(())
}
