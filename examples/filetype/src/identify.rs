//! The kind of a file, or of bytes in memory.

use std::fs;
use std::path::Path;

use kernpack::{Error, ObjRef, Object, Result, Str, packed_func};

use crate::classifier;
use crate::features::{self, Blocks, LEAST, TOKENS};
use crate::kinds::{self, Kind};

/// The identified kind of a file.
#[derive(Object)]
#[object(key = "filetype.Identification")]
#[repr(C)]
pub struct Identification {
    /// The kind, such as `python`; `txt` or `unknown` if the network is not sure.
    pub label: Str,
    /// The kind with the best score, or `undefined` if the network was not run.
    pub guess: Str,
    /// The score of the guess, from 0 to 1; 1 if the network was not run.
    pub score: f64,
    /// The MIME type of the kind.
    pub mime_type: Str,
    /// The group of the kind, such as `code`.
    pub group: Str,
    /// A description of the kind.
    pub description: Str,
    /// True if files of the kind are text.
    pub is_text: bool,
}

impl Identification {
    fn new(kind: &Kind, guess: &str, score: f64) -> ObjRef<Self> {
        ObjRef::new(Self {
            label: kind.label.into(),
            guess: guess.into(),
            score,
            mime_type: kind.mime_type.into(),
            group: kind.group.into(),
            description: kind.description.into(),
            is_text: kind.is_text,
        })
    }

    /// The result for a kind that is determined without the network.
    fn certain(label: &str) -> ObjRef<Self> {
        // A library without the model has no table, either.
        let plain = Kind {
            label: "unknown",
            mime_type: "application/octet-stream",
            group: "unknown",
            description: "Unknown binary data",
            is_text: false,
        };
        Self::new(Kind::named(label).unwrap_or(&plain), "undefined", 1.0)
    }
}

fn identify(blocks: &Blocks<'_>) -> Result<ObjRef<Identification>> {
    if blocks.begin.is_empty() {
        return Ok(Identification::certain("empty"));
    }
    let mut tokens = [0; TOKENS];
    if blocks.begin.len() < LEAST || !features::extract(blocks, &mut tokens) {
        let is_text = std::str::from_utf8(blocks.begin).is_ok();
        return Ok(Identification::certain(if is_text { "txt" } else { "unknown" }));
    }
    let decided = classifier::with_scores(&tokens, kinds::decide)?;
    let (guess, kind, score) =
        decided.ok_or_else(|| Error::runtime_error("the network's scores are not those of the labels"))?;
    Ok(Identification::new(kind, guess.label, f64::from(score)))
}

/// The kind of the content of a file in memory.
///
/// # Errors
/// RuntimeError if the library was built without the model.
#[packed_func]
pub fn identify_bytes(content: &[u8]) -> Result<ObjRef<Identification>> {
    identify(&Blocks::of(content))
}

/// The kind of a file. Links are followed. A folder is a `directory`. A path that is neither a file
/// nor a folder is `unknown`, and is not read.
///
/// # Errors
/// RuntimeError if the file cannot be read, or if the library was built without the model.
#[packed_func]
pub fn identify_path(path: &str) -> Result<ObjRef<Identification>> {
    let failed = |error: std::io::Error| Error::runtime_error(format!("{path}: {error}"));
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    if !kind.is_file() {
        return Ok(Identification::certain(if kind.is_dir() { "directory" } else { "unknown" }));
    }
    let mut buffer = Vec::new();
    identify(&features::read(Path::new(path), &mut buffer).map_err(failed)?)
}

/// The names of the kinds that the library knows, in alphabetical order.
#[packed_func]
pub fn kinds() -> Vec<Str> {
    kinds::all().map(|kind| kind.label.into()).collect()
}
