//! The folders in which pages are checked: outside of the checkout, where crates are built as a
//! user's are, and the commands that start there.

use super::Result;
use super::page::Page;
use crate::environment::Environment;
use crate::node::Node;
use crate::python;
use crate::step::{self, Show};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of all pages, and the tools that pages call.
pub(crate) struct Places<'e> {
    environment: &'e Environment,
    root: PathBuf,
    target: PathBuf,
    node: Option<Node>,
    /// The interpreter without tvm_ffi, for readers who have only an extension module.
    bare: PathBuf,
}

impl<'e> Places<'e> {
    /// Makes the folder of all pages, and builds `cargo kernpack`.
    pub(crate) fn prepare(environment: &'e Environment) -> Result<Self> {
        let checkout = environment.workspace.root();
        // The same folder each time, so that cargo reuses its builds; a separate one for each
        // checkout.
        let mut hasher = DefaultHasher::new();
        checkout.hash(&mut hasher);
        let root = std::env::temp_dir().join(format!("kernpack-book-{:016x}", hasher.finish()));
        let target = environment.workspace.cargo_target().join("book");
        for folder in [&root.join(".cargo"), &target] {
            fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        }
        let config = format!(
            // Not optimized: pages build many small libraries, and the output does not depend on
            // it.
            "[net]\noffline = true\n[profile.release]\nopt-level = 0\ncodegen-units = 16\nlto = false\nstrip = \"none\"\n[patch.crates-io]\nkernpack = {{ path = '{0}/runtime' }}\nkernpack-build = {{ path = '{0}/build-support' }}\nkernpack-rpc = {{ path = '{0}/runtime/rpc' }}\n",
            checkout.display()
        );
        fs::write(root.join(".cargo/config.toml"), config)?;
        // The features of all members and, because of `--test`, of development dependencies: the
        // build of the tests is reused.
        let mut cargo = environment.cargo("build");
        cargo.args(["--workspace", "--bin", "cargo-kernpack", "--test", "new"]);
        step::run("build cargo kernpack", &mut cargo, Show::Warnings)?;
        let node = Node::prepare(environment).map_err(|error| println!("no Node.js: {error}")).ok();
        let bare = python::without_tvm_ffi(&environment.workspace)?;
        Ok(Self { environment, root, target, node, bare })
    }

    /// The prepared environment.
    pub(crate) fn environment(&self) -> &Environment {
        self.environment
    }

    /// The root of the checkout.
    pub(crate) fn checkout(&self) -> &Path {
        self.environment.workspace.root()
    }

    /// The folder of one page.
    pub(crate) fn page_folder(&self, page: &Page) -> PathBuf {
        self.root.join(page.name())
    }

    /// A command with the environment of a reader's terminal, with all programs installed that the
    /// pages name. Its target folder is that of its crate.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.environment.command(Path::new(program));
        let mut paths = vec![
            self.environment.python.programs().to_path_buf(),
            self.environment.workspace.cargo_target().join("debug"),
        ];
        if let Some(node) = &self.node {
            paths.extend(node.program().parent().map(Path::to_path_buf));
            command.env("NODE_PATH", node.host().join("node_modules"));
        }
        paths.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        if let Ok(paths) = std::env::join_paths(paths) {
            command.env("PATH", paths);
        }
        command
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("RUST_BACKTRACE")
            .env("CARGO_TERM_COLOR", "never")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("KERNPACK_CHECKOUT", self.checkout());
        command
    }

    /// Python, as pages call it.
    pub(crate) fn python(&self) -> Command {
        let interpreter = self.environment.python.interpreter();
        self.command(&interpreter.to_string_lossy())
    }

    /// Python without tvm_ffi.
    pub(crate) fn bare_python(&self) -> Command {
        let mut command = self.command(&self.bare.to_string_lossy());
        command.env_remove("PYTHONPATH");
        command
    }

    /// Gives each crate in a page's folder the common target folder, and the versions of the
    /// checkout's lock file.
    pub(crate) fn adopt_crates(&self, folder: &Path) -> Result {
        let mut folders = vec![folder.to_path_buf()];
        for entry in fs::read_dir(folder)?.flatten() {
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
        for folder in folders.iter().filter(|folder| folder.join("Cargo.toml").is_file()) {
            let (target, lock) = (folder.join("target"), folder.join("Cargo.lock"));
            if !target.exists() {
                symlink(&self.target, &target).map_err(|error| format!("cannot link {}: {error}", target.display()))?;
            }
            if !lock.exists() {
                fs::copy(self.checkout().join("Cargo.lock"), &lock)?;
            }
        }
        Ok(())
    }

    /// An output without cargo's warnings about our patches, which readers do not have.
    pub(crate) fn without_patches(&self, output: &str) -> String {
        let mut kept = String::new();
        let mut remark = false;
        for line in output.lines() {
            let begins = line.to_lowercase().starts_with("warning: patch `kernpack");
            remark = begins || (remark && (line.starts_with("help:") || line.starts_with("      ")));
            if !remark {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        kept
    }
}
