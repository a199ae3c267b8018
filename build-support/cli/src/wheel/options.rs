//! The command line of `cargo kernpack wheel`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::version;
use crate::Result;

pub(crate) const HELP: &str = "\
Builds one Python wheel around a package's cdylib, for every Python 3: the library, a module that loads it, type stubs.

Usage: cargo kernpack wheel [OPTIONS]

Options:
      --out DIR              where the wheel goes (default: target/wheels)
      --package NAME         the package, when the workspace has several
      --manifest-path FILE   its Cargo.toml
      --profile NAME         profile of the build (default: release)
      --features LIST        features to build with; may be given several times
      --no-default-features  build without the default features
      --target TRIPLE        build for another target; the library is built for this machine, too, for its stubs
      --strip                build without symbols: smaller, but backtraces have no names
      --offline              cargo asks no registry
      --name NAME            name of the Python distribution (default: the package's; the module is named after the library)
      --python-version X.Y   oldest Python that may install it (default: 3.9)
      --platform TAG         platform tag, unchecked (default: read off the library)
      --json                 print JSON (the README of kernpack-cli describes it)
  -h, --help                 print this
";

/// What to build, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) out: Option<PathBuf>,
    pub(crate) package: Option<String>,
    pub(crate) manifest_path: Option<PathBuf>,
    pub(crate) profile: String,
    pub(crate) features: Vec<String>,
    pub(crate) no_default_features: bool,
    pub(crate) target: Option<String>,
    pub(crate) strip: bool,
    pub(crate) offline: bool,
    pub(crate) name: Option<String>,
    pub(crate) python_version: Option<String>,
    pub(crate) platform: Option<String>,
    pub(crate) json: bool,
}

/// The words after `wheel`; `None` asks for help.
pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>> {
    let mut options = Options { profile: "release".to_owned(), ..Options::default() };
    while let Some(argument) = arguments.next() {
        let argument = argument.to_string_lossy().into_owned();
        let (option, given) = match argument.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(OsString::from(value))),
            _ => (argument.as_str(), None),
        };
        let mut value = || {
            let value = given.clone().or_else(|| arguments.next());
            value.ok_or_else(|| format!("{option} needs a value; see cargo kernpack wheel --help"))
        };
        let mut text = || {
            let value = value()?.into_string();
            value.map_err(|_| format!("the value of {option} is no UTF-8"))
        };
        match option {
            "-h" | "--help" => return Ok(None),
            "--out" | "-o" => options.out = Some(value()?.into()),
            "--package" | "-p" => options.package = Some(text()?),
            "--manifest-path" => options.manifest_path = Some(value()?.into()),
            "--profile" => options.profile = text()?,
            "--features" | "-F" => options.features.push(text()?),
            "--no-default-features" => options.no_default_features = true,
            "--target" => options.target = Some(text()?),
            "--strip" => options.strip = true,
            "--offline" => options.offline = true,
            "--name" => options.name = Some(text()?),
            "--python-version" => {
                let python = text()?;
                if !version::is_python(&python) {
                    return Err(format!("--python-version is '{python}'; expected the oldest Python, such as 3.10"));
                }
                options.python_version = Some(python);
            }
            "--platform" => {
                let tag = text()?;
                let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
                if tag.is_empty() || !tag.chars().all(sound) {
                    return Err(format!("--platform is '{tag}'; expected a platform tag, such as macosx_11_0_arm64"));
                }
                options.platform = Some(tag);
            }
            "--json" => options.json = true,
            _ => return Err(format!("wheel has no option {argument}; see cargo kernpack wheel --help")),
        }
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse(line.split_whitespace().map(OsString::from));
        let release = Options { profile: "release".to_owned(), ..Options::default() };
        assert_eq!(parse(""), Ok(Some(release)));
        assert_eq!(parse("--help"), Ok(None));
        let options =
            parse("--out=d -p kit --features a,b -F c --profile dev --python-version 3.10 --json --strip").unwrap();
        assert_eq!(
            options,
            Some(Options {
                out: Some("d".into()),
                package: Some("kit".to_owned()),
                features: vec!["a,b".to_owned(), "c".to_owned()],
                profile: "dev".to_owned(),
                python_version: Some("3.10".to_owned()),
                json: true,
                strip: true,
                ..Options::default()
            })
        );
        for (line, problem) in [
            ("--out", "--out needs a value; see cargo kernpack wheel --help"),
            ("--python-version 2.7", "--python-version is '2.7'; expected the oldest Python, such as 3.10"),
            ("--platform a-b", "--platform is 'a-b'; expected a platform tag, such as macosx_11_0_arm64"),
            ("--fast", "wheel has no option --fast; see cargo kernpack wheel --help"),
            ("kit", "wheel has no option kit; see cargo kernpack wheel --help"),
        ] {
            assert_eq!(parse(line).unwrap_err(), problem);
        }
    }
}
