//! Programs of the build: their paths and versions.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::cache::digest::Digester;
use crate::session::Session;
use crate::tool;
use crate::{Error, Result};

/// A program that was found.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The path of the program.
    pub(crate) path: PathBuf,
}

impl Program {
    /// A program at a known path. Cargo reruns the build script when it changes.
    pub(crate) fn at(session: &Session, path: &Path) -> Self {
        session.tracker.file(path);
        if let Ok(real) = path.canonicalize() {
            session.tracker.file(&real);
        }
        Self { path: path.to_owned() }
    }

    /// Finds a program by name on `PATH`, or by path. Cargo reruns the build script when it
    /// changes, and when a program appears that takes precedence.
    pub(crate) fn find(session: &Session, name: &str) -> Result<Option<Self>> {
        if Path::new(name).components().count() > 1 {
            let path = session.package_dir.join(name);
            if path.is_file() {
                return Ok(Some(Self::at(session, &path)));
            }
            session.watch.missing(&path);
            return Ok(None);
        }
        let path = session.environment.user("PATH")?.unwrap_or_default();
        let file = match name {
            name if name.ends_with(env::consts::EXE_SUFFIX) => name.to_owned(),
            name => format!("{name}{}", env::consts::EXE_SUFFIX),
        };
        Ok(Self::first(session, env::split_paths(&path).map(|folder| folder.join(&file)).collect()))
    }

    /// Returns the first of these places that has a file. The others are watched.
    pub(crate) fn first(session: &Session, places: Vec<PathBuf>) -> Option<Self> {
        let found = places.iter().position(|place| place.is_file());
        for place in &places[..found.unwrap_or(places.len())] {
            match found {
                Some(_) => session.watch.passed(place),
                None => session.watch.missing(place),
            }
        }
        found.map(|index| Self::at(session, &places[index]))
    }

    /// Adds everything that distinguishes this program to a recipe: its path, its file, and its
    /// version output.
    pub(crate) fn describe(&self, digester: &mut Digester, version: &str) {
        let real = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        digester.field(self.path.as_os_str().as_encoded_bytes()).field(real.as_os_str().as_encoded_bytes());
        digester.field(stamp(&real)).field(version);
    }

    /// Runs the program with these arguments and returns its output.
    pub(crate) fn output(&self, session: &Session, arguments: &[&str], tool: &str, source: &str) -> Result<String> {
        let _permit = session.permits.acquire();
        let mut command = Command::new(&self.path);
        command.args(arguments);
        tool::run(command, tool, source)
    }
}

/// Returns the size and time of a file, as text.
pub(crate) fn stamp(path: &Path) -> String {
    let Ok(metadata) = fs::metadata(path) else { return "none".to_owned() };
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    format!("{} {}", metadata.len(), modified.unwrap_or_default().as_nanos())
}

/// The error for a tool that was specified but does not exist.
pub(crate) fn no_such_file(variable: &str, value: &str) -> Error {
    Error::new(format!("{variable} is \"{value}\", but there is no such file"))
}
