//! Packages of Debian and Ubuntu, for software that is not available elsewhere.

use crate::Result;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;

/// Returns whether this process may install packages, and has the program for it.
pub(crate) fn can_install(workspace: &Workspace) -> bool {
    let is_root = workspace.command("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    is_root && find_on_path("apt-get").is_some()
}

/// Installs one package. Only root can do so. Package lists that cannot be updated are not an
/// error.
pub(crate) fn install(workspace: &Workspace, package: &str) -> Result {
    let _alone = alone(workspace)?;
    update(workspace)?;
    let mut install = workspace.command("apt-get");
    install.args(["-q", "install", "-y", "--no-install-recommends", package]).env("DEBIAN_FRONTEND", "noninteractive");
    step::run(&format!("apt-get install {package}"), &mut install, Show::Warnings)?;
    Ok(())
}

/// Programs that single tests start, and the package that has each.
const OF_TESTS: [(&str, &str); 4] =
    [("gdb", "gdb"), ("ip", "iproute2"), ("objdump", "binutils"), ("qemu-x86_64", "qemu-user")];

/// Installs missing programs that single tests start, as far as possible here. A test without its
/// program says so, and fails on CI.
pub(crate) fn install_for_tests(workspace: &Workspace) {
    if let Err(error) = install_missing(workspace, &OF_TESTS, &[]) {
        println!("programs of single tests: {error}");
    }
}

/// Installs the packages of those programs that are not on PATH; if there are any, also the
/// packages `with` them. Only root can do so.
pub(crate) fn install_missing(workspace: &Workspace, programs: &[(&str, &str)], with: &[&str]) -> Result {
    let missing: Vec<&str> =
        programs.iter().filter(|(program, _)| find_on_path(program).is_none()).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = [&missing[..], with].concat();
    if !can_install(workspace) {
        return Err(format!("apt-get install {}", packages.join(" ")).into());
    }
    packages.iter().try_for_each(|package| install(workspace, package))
}

/// Unpacks one package, without its dependencies, into a folder. This does not need root, and does
/// not change the machine.
pub(crate) fn unpack(workspace: &Workspace, package: &str, folder: &Path) -> Result {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let _alone = alone(workspace)?;
    let download = || {
        let mut download = workspace.command("apt-get");
        download.args(["-q", "download", package]).current_dir(folder);
        step::watch(&format!("apt-get download {package}"), &mut download, Show::Warnings)
    };
    let mut downloaded = download()?.success;
    if !downloaded && can_install(workspace) {
        update(workspace)?;
        downloaded = download()?.success;
    }
    let archive = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension() == Some(OsStr::new("deb")));
    let Some(archive) = archive.filter(|_| downloaded) else {
        return Err(format!("apt-get could not download {package}").into());
    };
    let mut extract = workspace.command("dpkg-deb");
    extract.arg("-x").arg(&archive).arg(folder);
    step::run(&format!("unpack {}", archive.display()), &mut extract, Show::Warnings)?;
    Ok(())
}

/// Waits for another process of ours that uses `apt-get`, which fails if another one runs. When the
/// result is dropped, the next process continues.
fn alone(workspace: &Workspace) -> Result<File> {
    let file = File::create(workspace.folder("debian")?.join("lock"))?;
    file.lock()?;
    Ok(file)
}

fn update(workspace: &Workspace) -> Result {
    let mut update = workspace.command("apt-get");
    step::watch("apt-get update", update.args(["-q", "update"]), Show::Warnings)?;
    Ok(())
}
