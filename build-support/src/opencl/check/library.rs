//! Finds the OpenCL library.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::session::Session;

/// The folder where drivers register themselves for the loader.
const VENDORS: &str = "/etc/OpenCL/vendors";

/// Variables that the loader, or a common driver, reads.
const VARIABLES: [&str; 6] = [
    "OCL_ICD_VENDORS",
    "OPENCL_VENDOR_PATH",
    "OCL_ICD_FILENAMES",
    "POCL_DEVICES",
    "KERNPACK_OPENCL_LIBRARY",
    "KERNPACK_OPENCL_DEVICES",
];

/// Finds the OpenCL library: the one in `KERNPACK_OPENCL_LIBRARY`, or the one in the system's
/// library folders. Places without one are watched.
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

/// The search path of the dynamic linker, as far as it matters for OpenCL.
fn folders(session: &Session) -> Vec<PathBuf> {
    // Not tracked: cargo adds its own folders for build scripts, which do not contain OpenCL, and
    // so does a cargo started from cargo.
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
