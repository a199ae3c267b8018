//! Where OpenCL is, and the program that asks it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::digest::Digest;
use crate::session::Session;
use crate::{Error, Result};

/// The program's text.
const TEXT: &str = include_str!("program.rs");

/// Where drivers announce themselves to the loader.
const VENDORS: &str = "/etc/OpenCL/vendors";

/// Variables that the loader, or a driver that is often there, reads.
const VARIABLES: [&str; 6] = [
    "OCL_ICD_VENDORS",
    "OPENCL_VENDOR_PATH",
    "OCL_ICD_FILENAMES",
    "POCL_DEVICES",
    "KERNPACK_OPENCL_LIBRARY",
    "KERNPACK_OPENCL_DEVICES",
];

/// The OpenCL library: what `KERNPACK_OPENCL_LIBRARY` names, else where the system keeps libraries. Places without one are watched.
pub(super) fn library(session: &Session) -> Result<Option<PathBuf>> {
    for name in VARIABLES {
        session.environment.track(name);
    }
    let found = match session.environment.user("KERNPACK_OPENCL_LIBRARY")? {
        Some(path) => {
            let path = session.package_dir.join(path);
            let is_there = path.is_file();
            if !is_there {
                session.watch.missing(&path);
            }
            is_there.then_some(path)
        }
        None => {
            let places: Vec<PathBuf> = folders(session).iter().map(|folder| folder.join("libOpenCL.so.1")).collect();
            let found = places.iter().find(|place| place.is_file()).cloned();
            if found.is_none() {
                places.iter().for_each(|place| session.watch.missing(place));
            }
            found
        }
    };
    let Some(library) = found else { return Ok(None) };
    session.tracker.file(&library);
    let vendors = session.environment.user("OCL_ICD_VENDORS")?.unwrap_or_else(|| VENDORS.to_owned());
    let vendors = Path::new(&vendors);
    for entry in fs::read_dir(vendors).into_iter().flatten().flatten() {
        session.tracker.file(&entry.path());
    }
    // A driver that is installed later puts a file there.
    session.watch.missing(&vendors.join("kernpack.icd"));
    Ok(Some(library))
}

/// Where the dynamic linker looks, as far as it matters for OpenCL.
fn folders(session: &Session) -> Vec<PathBuf> {
    // Not tracked: cargo adds folders of its own for build scripts, where no OpenCL is, and so does whoever starts cargo from cargo.
    let own = session.environment.cargo_optional("LD_LIBRARY_PATH").unwrap_or_default();
    let own = own.split(':').filter(|folder| folder.starts_with('/')).map(PathBuf::from);
    let own = own.filter(|folder| !folder.starts_with(session.out_dir.ancestors().nth(4).unwrap_or(&session.out_dir)));
    let mut folders: Vec<PathBuf> = own.collect();
    let arch = session.target.host.split('-').next().unwrap_or_default();
    folders.push(format!("/usr/lib/{arch}-linux-gnu").into());
    folders.extend(["/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from));
    for entry in fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        folders.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    let mut seen = Vec::new();
    folders.retain(|folder| {
        let is_new = !seen.contains(folder);
        seen.push(folder.clone());
        is_new
    });
    folders
}

/// The program, and the library that it is to load.
pub(super) struct Checker {
    program: PathBuf,
    library: PathBuf,
}

impl Checker {
    /// Has rustc make the program, unless it is there; else why it cannot be made.
    pub(super) fn make(session: &Session, library: PathBuf) -> Result<Result<Self, String>> {
        if !cfg!(unix) {
            return Ok(Err("it is only checked on Unix systems".to_owned()));
        }
        let rustc = session.environment.cargo("RUSTC")?;
        let folder = session.out_dir.join("kernpack-opencl");
        let name = Digest::of(format!("{rustc}\n{TEXT}").as_bytes());
        let program = folder.join(format!("check-{name}"));
        if !program.is_file() {
            let source = folder.join("check.rs");
            let made = folder.join(format!("check-{name}.part"));
            let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&source, TEXT));
            written.map_err(|e| Error::new(format!("{}: cannot be written: {e}", source.display())))?;
            let _permit = session.permits.acquire();
            let mut command = Command::new(&rustc);
            command.args(["--edition", "2024", "--crate-name", "check", "-Copt-level=1", "-Cstrip=symbols", "-o"]);
            command.arg(&made).arg(&source).current_dir(&folder);
            // What is set for the package is not meant for this.
            for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
                command.env_remove(variable);
            }
            if let Err(problem) = crate::tool::run(command, "rustc", "the program that compiles OpenCL C") {
                return Ok(Err(problem.to_string()));
            }
            fs::rename(&made, &program)
                .map_err(|e| Error::new(format!("{}: cannot be written: {e}", program.display())))?;
        }
        Ok(Ok(Self { program, library }))
    }

    /// The program with a command and its further arguments.
    pub(super) fn command(&self, session: &Session, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let (first, rest) = words.split_first().unwrap_or((&"", &[]));
        command.arg(first).arg(&self.library).args(rest).current_dir(&session.package_dir);
        // PoCL keeps what it compiles; not in the home folder, unless someone says so.
        if session.environment.cargo_optional("POCL_CACHE_DIR").is_none() {
            command.env("POCL_CACHE_DIR", session.out_dir.join("kernpack-opencl").join("pocl"));
        }
        command
    }
}
