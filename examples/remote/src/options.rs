use std::path::PathBuf;

use crate::Failure;

const USAGE: &str =
    "usage: remote --photo FILE.ppm [--board HOST:PORT] [--target TARGET] [--profile PROFILE] [--pictures FOLDER]";

/// The options of the command line.
pub(crate) struct Options {
    /// The photograph, a PPM file.
    pub(crate) photo: PathBuf,
    /// The address of a server. Without one, a server is started under qemu.
    pub(crate) board: Option<String>,
    /// The target triple of the board.
    pub(crate) target: String,
    /// cargo's profile.
    pub(crate) profile: String,
    /// The folder for the pictures.
    pub(crate) pictures: PathBuf,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut photo = None;
        let mut options = Self {
            photo: PathBuf::new(),
            board: None,
            target: "aarch64-unknown-linux-gnu".to_owned(),
            profile: "release".to_owned(),
            pictures: "target/remote".into(),
        };
        while let Some(name) = words.next() {
            let value = words.next().ok_or(USAGE)?;
            match name.as_str() {
                "--photo" => photo = Some(value.into()),
                "--board" => options.board = Some(value),
                "--target" => options.target = value,
                "--profile" => options.profile = value,
                "--pictures" => options.pictures = value.into(),
                _ => return Err(USAGE.into()),
            }
        }
        options.photo = photo.ok_or(USAGE)?;
        Ok(options)
    }
}
