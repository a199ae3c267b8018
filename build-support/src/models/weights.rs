//! Objects with weights: one for each distinct content, shared by all models and CPU levels.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kernpack_formats::export::Target;
use kernpack_graph::Weights;

use crate::cache::digest::{Digest, Digester};
use crate::pack::data_object;
use crate::session::Session;
use crate::{Error, Result};

/// The prefix of the names of symbols and files.
const SYMBOL: &str = "__kernpack_weights_";

/// The address of the first byte in memory, and the number of bytes.
type Place = (usize, usize);

/// The objects of a library.
pub(super) struct Objects {
    folder: PathBuf,
    /// The target of the objects, or `None` if the weights are in the object of the code.
    target: Option<Target>,
    /// Fingerprints of tensors. Those of a model are hashed once for all levels, since hashing
    /// takes long in a build script, which is compiled without optimization. The models outlive
    /// this map.
    known: Mutex<HashMap<Place, Digest>>,
}

impl Objects {
    pub(super) fn new(session: &Session) -> Self {
        let target = &session.target;
        let is_known = ["x86_64", "aarch64"].contains(&target.arch.as_str()) && !target.triple.ends_with("x32");
        let target = Target::of_parts(&target.arch, &target.os).ok().filter(|_| is_known);
        Self { folder: session.work_dir.clone(), target, known: Mutex::default() }
    }

    /// Returns true if objects can be written for the target.
    pub(super) fn are_possible(&self) -> bool {
        self.target.is_some()
    }

    /// Returns the symbol of weights, which identifies their content.
    pub(super) fn symbol(&self, weights: &Weights) -> String {
        let mut digester = Digester::new("weights");
        for piece in weights.pieces() {
            digester.field(self.digest(piece).to_bytes());
        }
        format!("{SYMBOL}{}", digester.finish())
    }

    fn digest(&self, piece: &[u8]) -> Digest {
        let place = (piece.as_ptr().addr(), piece.len());
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&place) {
            return *known;
        }
        // Other threads continue in the meantime.
        let digest = Digest::of(piece);
        lock().insert(place, digest);
        digest
    }

    /// Returns the path of the object of a symbol.
    pub(super) fn path(&self, symbol: &str) -> PathBuf {
        self.folder.join(format!("{symbol}.o"))
    }

    /// Writes the object of a symbol, unless it exists.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(super) fn write(&self, source: &str, symbol: &str, weights: &Weights) -> Result<()> {
        let path = self.path(symbol);
        let Some(target) = self.target.as_ref().filter(|_| !path.exists()) else { return Ok(()) };
        // Levels may write the same object at the same time, and an existing file must be complete.
        let part = tempfile_beside(&path);
        let written = data_object::write(&part, symbol, weights.size(), weights.pieces(), target, 64)
            .and_then(|()| Ok(fs::rename(&part, &path)?));
        written.map_err(|error| {
            _ = fs::remove_file(&part);
            Error::new(format!("{source}: its weights cannot be written to {}: {error}", path.display()))
        })
    }

    /// Removes objects of earlier builds.
    pub(super) fn remove_all_but(&self, kept: &[PathBuf]) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let is_ours = entry.file_name().to_string_lossy().starts_with(SYMBOL);
            if is_ours && !kept.contains(&entry.path()) {
                // A file that is left behind only takes space.
                _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Returns a path next to a file that is unique to this thread.
fn tempfile_beside(path: &Path) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    path.with_extension(format!("{number}.part"))
}
