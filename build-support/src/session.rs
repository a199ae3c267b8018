use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::cache::Cache;
use crate::cache::digest::Digester;
use crate::cargo::environment::Environment;
use crate::cargo::permits::Permits;
use crate::cargo::target::Target;
use crate::cargo::track::Tracker;
use crate::cargo::watch::Watch;
use crate::outputs::compile_commands::CompileCommands;
use crate::tool;
use crate::{Error, Result};

/// Changes whenever this crate produces different output from the same source, compiler and flags.
const RECIPES: &str = "1";

/// One run of a build script: its folders, its target, and the inputs that it read.
pub(crate) struct Session {
    pub(crate) environment: Environment,
    pub(crate) tracker: Tracker,
    pub(crate) watch: Watch,
    pub(crate) cache: Cache,
    pub(crate) commands: CompileCommands,
    pub(crate) permits: Permits,
    pub(crate) target: Target,
    pub(crate) package_name: String,
    pub(crate) package_dir: PathBuf,
    pub(crate) out_dir: PathBuf,
    /// The folder of objects and images, inside `out_dir`, empty at the start.
    pub(crate) work_dir: PathBuf,
    /// The number of threads that may wait for tools. `permits` limits the number of running tools.
    pub(crate) jobs: usize,
    /// The folders for `#include`, in every language.
    pub(crate) includes: Vec<PathBuf>,
    pub(crate) defines: Vec<(String, Option<String>)>,
}

impl Session {
    pub(crate) fn new(environment: Environment, cpu: Option<&str>) -> Result<Self> {
        let package_dir = environment.cargo_path("CARGO_MANIFEST_DIR")?;
        let out_dir = environment.cargo_path("OUT_DIR")?;
        let started = SystemTime::now();
        let work_dir = out_dir.join("kernpack");
        let fresh = || -> std::io::Result<()> {
            if work_dir.exists() {
                fs::remove_dir_all(&work_dir)?;
            }
            fs::create_dir_all(&work_dir)
        };
        fresh().map_err(|e| Error::new(format!("{}: cannot be created: {e}", work_dir.display())))?;
        let jobs = environment.cargo_optional("NUM_JOBS").and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
        Ok(Self {
            tracker: Tracker::new(&package_dir, &out_dir),
            watch: Watch::new(&out_dir),
            cache: Cache::new(&package_dir, &out_dir, &work_dir, started)?,
            commands: CompileCommands::default(),
            permits: Permits::of_process(jobs),
            target: Target::new(&environment, cpu)?,
            package_name: environment.cargo("CARGO_PKG_NAME")?,
            jobs,
            includes: Vec::new(),
            defines: Vec::new(),
            environment,
            package_dir,
            out_dir,
            work_dir,
        })
    }

    /// The name of an input in messages and generated documentation.
    pub(crate) fn name_of(&self, path: &Path) -> String {
        tool::display_path(path, &self.package_dir)
    }

    /// Tracks an input, which must be a file.
    pub(crate) fn input(&self, path: &Path) -> Result<()> {
        let full = self.package_dir.join(path);
        match fs::metadata(&full) {
            Ok(metadata) if metadata.is_file() => {
                self.tracker.file(path);
                Ok(())
            }
            Ok(_) => Err(Error::new(format!("{}: is not a file", self.name_of(path)))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::new(format!(
                "{}: no such file; paths are relative to the package, {}",
                self.name_of(path),
                self.package_dir.display()
            ))),
            Err(error) => Err(Error::new(format!("{}: cannot be read: {error}", self.name_of(path)))),
        }
    }

    /// A file of the working folder for the input with index `index`.
    pub(crate) fn product(&self, prefix: &str, index: usize, path: &Path, extension: &str) -> PathBuf {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        self.work_dir.join(format!("{prefix}{index}_{stem}.{extension}"))
    }

    /// A recipe for the cache with the name of this package and these values of variables.
    pub(crate) fn recipe(&self, kind: &str, variables: &[&str]) -> Digester {
        let mut digester = Digester::new(kind);
        digester.field(env!("CARGO_PKG_VERSION")).field(RECIPES).field(self.package_dir.as_os_str().as_encoded_bytes());
        digester.field(&self.target.triple);
        for name in variables {
            self.environment.track(name);
            digester.field(name).list(self.environment.cargo_optional(name));
        }
        digester
    }

    /// `-I` and `-D` options, in the syntax of C compilers and nvcc.
    pub(crate) fn preprocessor_flags(&self) -> Vec<std::ffi::OsString> {
        let mut flags = Vec::new();
        for folder in &self.includes {
            flags.extend(["-I".into(), folder.clone().into_os_string()]);
        }
        for (name, value) in &self.defines {
            flags.push(match value {
                Some(value) => format!("-D{name}={value}").into(),
                None => format!("-D{name}").into(),
            });
        }
        flags
    }
}

/// Checks that every compiler accepts these macros. Errors then name the call in build.rs instead
/// of the error of each compiler.
pub(crate) fn check_defines(defines: &[(String, Option<String>)]) -> Result<()> {
    Error::collect(defines.iter().map(|(name, value)| match define_problem(name, value.as_deref()) {
        Some(problem) => Err(Error::new(format!(".define({name:?}, ..): {problem}"))),
        None => Ok(()),
    }))
    .map(drop)
}

fn define_problem(name: &str, value: Option<&str>) -> Option<&'static str> {
    // `SQUARE(x)` is a macro with parameters.
    let (word, parameters) = name.split_at(name.find('(').unwrap_or(name.len()));
    let is_word = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_word || !(parameters.is_empty() || parameters.ends_with(')')) {
        return Some(
            "a macro's name has letters, digits and `_`, and begins with no digit; its value is the second argument, as in .define(\"N\", \"16\")",
        );
    }
    if value.is_some_and(|value| value.contains(['\n', '\r', '\0'])) {
        return Some("a macro's value is one line of text");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_have_names() {
        let check = |name: &str, value: Option<&str>| {
            check_defines(&[(name.to_owned(), value.map(str::to_owned))]).map_err(|error| error.to_string())
        };
        for (name, value) in [("N", Some("16")), ("_x1", None), ("SQUARE(x)", Some("((x) * (x))")), ("EMPTY", Some(""))]
        {
            assert_eq!(check(name, value), Ok(()), "{name}");
        }
        let words = "a macro's name has letters, digits and `_`, and begins with no digit; its value is the second argument, as in .define(\"N\", \
                     \"16\")";
        for name in ["2N", "", "N=16", "A B", "F(x", "-DN", "ä"] {
            assert_eq!(check(name, None), Err(format!(".define({name:?}, ..): {words}")));
        }
        assert_eq!(
            check("N", Some("1\n#include \"x\"")),
            Err(".define(\"N\", ..): a macro's value is one line of text".to_owned())
        );
    }
}
