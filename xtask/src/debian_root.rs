//! Roots of other releases of Debian below `target/debian`, for compilers and libraries that this
//! machine does not have.
//!
//! A program in a root sees the checkout and cargo's home at the same paths as outside, so that
//! paths in messages are right; the rest of the system is that of the release. The mounts exist
//! only for the program that `Root::command` starts: `target` can be removed at any time.
//!
//! ```text
//! let root = debian_root::make(&workspace, "trixie", &["cargo", "gcc", "libc6-dev", "rustc"])?;
//! step::run("cargo check", root.command("cargo").args(["check", "--package", "kernpack"]), Show::Warnings)?;
//! ```

use crate::step::{self, Show};
use crate::workspace::{Workspace, cargo_home, find_on_path};
use crate::{Result, debian};
use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A release of Debian, installed into a folder.
pub(crate) struct Root {
    folder: PathBuf,
    build_folder: PathBuf,
    checkout: PathBuf,
    cargo_home: PathBuf,
}

/// Mounts the required folders in a mount namespace of its own, and starts a program in the current
/// folder. The arguments are the root, the folders to show, `--`, and the command line. Commands in
/// cargo's home are hidden: cargo prefers them, such as rustup's `cargo-fmt`, to those of the
/// release.
const ENTER: &str = r#"
here=$(pwd -P)
root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
  mkdir -p "$root$1"
  mount --bind "$1" "$root$1"
  shift
done
shift
if [ -d "$root$CARGO_HOME/bin" ]; then mount -t tmpfs none "$root$CARGO_HOME/bin"; fi
if [ -e /etc/resolv.conf ]; then cat /etc/resolv.conf > "$root/etc/resolv.conf"; fi
exec chroot "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$here" "$@"
"#;

/// The folder of the certificates of authorities. A machine can have additional ones, for its
/// mirrors.
const CERTIFICATES: &str = "/etc/ssl/certs";

/// Variables of this machine that programs in a root inherit: settings of cargo, proxies and
/// certificates.
const PASSED: [&str; 12] = [
    "CARGO_BUILD_JOBS",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CURL_CA_BUNDLE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// The reason why a root cannot be made or entered on this machine, if there is one.
pub(crate) fn obstacle(workspace: &Workspace) -> Option<String> {
    if !debian::can_install(workspace) {
        return Some("only root can, on a machine with apt-get".to_string());
    }
    let entered = workspace.command("unshare").args(["--mount", "true"]).output();
    if !entered.is_ok_and(|output| output.status.success()) {
        return Some("this machine does not allow `unshare --mount`; containers need CAP_SYS_ADMIN for it".to_string());
    }
    mirror(workspace).err().map(|error| error.to_string())
}

/// Makes the root of a release such as `trixie` or `sid`, with at least these packages. An existing
/// root is reused, and missing packages are added.
pub(crate) fn make(workspace: &Workspace, suite: &str, packages: &[&str]) -> Result<Root> {
    if let Some(why) = obstacle(workspace) {
        return Err(format!("cannot make a root of Debian {suite}: {why}").into());
    }
    let folder = workspace.folder(&format!("debian/{suite}"))?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    let root = Root::at(workspace, &folder);
    let list = folder.join("packages");
    let mut installed: BTreeSet<String> =
        fs::read_to_string(&list).unwrap_or_default().lines().map(str::to_string).collect();
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !installed.contains(*package)).collect();
    if !list.exists() {
        root.install_base(workspace, suite, packages)?;
    } else if !missing.is_empty() {
        root.add(suite, &missing)?;
    } else {
        return Ok(root);
    }
    installed.extend(packages.iter().map(|package| package.to_string()));
    let text: Vec<String> = installed.into_iter().collect();
    fs::write(&list, text.join("\n")).map_err(|error| format!("cannot write {}: {error}", list.display()))?;
    Ok(root)
}

impl Root {
    fn at(workspace: &Workspace, folder: &Path) -> Root {
        Root {
            folder: folder.join("root"),
            build_folder: folder.join("target"),
            checkout: workspace.root().to_path_buf(),
            cargo_home: cargo_home(),
        }
    }

    /// A command of the root, which starts in the checkout, or in the folder of it that
    /// `current_dir` names. Of this machine's variables, it inherits those of [`PASSED`].
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_seeing(&[], program)
    }

    /// A command that also sees these folders of this machine, at their own paths.
    pub(crate) fn command_seeing(&self, folders: &[&Path], program: impl AsRef<OsStr>) -> Command {
        let mut shown: Vec<&OsStr> = vec![self.checkout.as_os_str()];
        shown.extend(folders.iter().map(|folder| folder.as_os_str()));
        if self.cargo_home.is_dir() {
            shown.push(self.cargo_home.as_os_str());
        }
        if Path::new(CERTIFICATES).is_dir() {
            shown.push(OsStr::new(CERTIFICATES));
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "/bin/sh", "-ec", ENTER, "sh"]);
        command.arg(&self.folder).args(shown).arg("--").arg(program).current_dir(&self.checkout).env_clear();
        command.envs(PASSED.iter().filter_map(|name| Some((name, env::var_os(name)?))));
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", "/root").env("LANG", "C.UTF-8").env("DEBIAN_FRONTEND", "noninteractive");
        command.env("CARGO_HOME", &self.cargo_home).env("CARGO_TARGET_DIR", &self.build_folder);
        command.env("CARGO_TERM_COLOR", "never").env("NO_COLOR", "1");
        command
    }

    /// Installs the release with these packages into its folder, from scratch.
    fn install_base(&self, workspace: &Workspace, suite: &str, packages: &[&str]) -> Result {
        if find_on_path("debootstrap").is_none() {
            debian::install(workspace, "debootstrap")?;
        }
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)
                .map_err(|error| format!("cannot remove {}: {error}", self.folder.display()))?;
        }
        let mut debootstrap = workspace.command("debootstrap");
        debootstrap.arg("--variant=minbase").arg(format!("--include={}", packages.join(",")));
        debootstrap.arg(suite).arg(&self.folder).arg(mirror(workspace)?).env("LANG", "C.UTF-8");
        step::run(&format!("install Debian {suite} below target"), &mut debootstrap, Show::Warnings)?;
        // For debootstrap's own downloads: accepts lists that have expired on a mirror that is
        // behind.
        fs::write(self.folder.join("etc/apt/apt.conf.d/80kernpack"), "Acquire::Check-Valid-Until \"false\";\n")?;
        step::run("remove downloaded packages", self.command("apt-get").arg("clean"), Show::Warnings)?;
        Ok(())
    }

    /// Adds packages of its release.
    fn add(&self, suite: &str, packages: &[&str]) -> Result {
        let name = format!("install {} in Debian {suite} below target", packages.join(", "));
        step::run("apt-get update", self.command("apt-get").args(["-q", "update"]), Show::Warnings)?;
        let mut install = self.command("apt-get");
        install.args(["-q", "install", "-y", "--no-install-recommends"]).args(packages);
        step::run(&name, &mut install, Show::Warnings)?;
        step::run("remove downloaded packages", self.command("apt-get").arg("clean"), Show::Warnings)?;
        Ok(())
    }
}

/// The archive of Debian that this machine's apt is configured with.
fn mirror(workspace: &Workspace) -> Result<OsString> {
    let mut targets = workspace.command("apt-get");
    targets.args(["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"]);
    let output = targets.output().map_err(|error| format!("cannot start apt-get: {error}"))?;
    let text = String::from_utf8(output.stdout)?;
    let found = debian_mirror(&text).ok_or(
        "expected an archive of Debian in this machine's sources of apt, found none; add one, and run `apt-get update`",
    )?;
    Ok(found.into())
}

/// The first address after the label of Debian's main archive.
fn debian_mirror(targets: &str) -> Option<&str> {
    targets.lines().find_map(|line| line.strip_prefix("Debian "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_that_of_the_main_archive() {
        let targets = "Other file:/a/\nDebian-Security file:/b/\nDebian file:/c/\nDebian file:/d/\n";
        assert_eq!(debian_mirror(targets), Some("file:/c/"));
        assert_eq!(debian_mirror("Ubuntu file:/a/\n"), None);
    }

    #[test]
    fn a_program_of_a_root_sees_nothing_of_the_environment_of_cargo() {
        let workspace = Workspace::find().unwrap();
        let root = Root::at(&workspace, Path::new("/somewhere"));
        let command = root.command("cargo");
        let names: Vec<&str> = command.get_envs().filter_map(|(name, _)| name.to_str()).collect();
        assert!(!names.contains(&"CARGO") && !names.contains(&"CARGO_PKG_NAME"), "{names:?}");
        assert!(names.contains(&"CARGO_TARGET_DIR") && names.contains(&"PATH"), "{names:?}");
    }
}
