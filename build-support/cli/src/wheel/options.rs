//! The command line of `cargo kernpack wheel`.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::version;
use crate::arguments::Parsed;

pub(crate) const HELP: &str = "\
Builds one Python wheel around a package's cdylib, for every Python 3: the library, a module that loads it, type stubs. A library with the
feature `python` of kernpack is imported as it is, and its wheel requires nothing; another is loaded by the package tvm_ffi.

Usage: cargo kernpack wheel [OPTIONS]

Options:
      --out DIR              where the wheel goes (default: target/wheels)
      --package NAME         the package, when the workspace has several
      --manifest-path FILE   its Cargo.toml
      --profile NAME         profile of the build (default: release)
      --features LIST        features to build with; may be given several times
      --no-default-features  build without the default features
      --target TRIPLE        build for another target; the library is built for this machine, too, for its stubs
      --strip                without symbols: smaller, but backtraces have no names; only the package itself is built again
      --editable             a wheel that leads to the package in this checkout, where changes of Python sources count at once
      --offline              cargo asks no registry
      --name NAME            name of the Python distribution (default: the package's; the module is named after the library)
      --python-version X.Y   oldest Python that may install it (default: 3.9)
      --tvm-ffi              load an extension module through the package tvm_ffi all the same, which the wheel then requires
      --platform TAG         platform tag, unchecked (default: read off the library)
      --json                 print JSON (the README of kernpack-cli describes it)
  -h, --help                 print this

The table [package.metadata.kernpack.wheel] of Cargo.toml has `name`, `features`, `python` (the folder of Python sources), `hidden` and `shown`.
";

pub(crate) const DEVELOP_HELP: &str = "\
Installs a package into a Python environment from where it is: builds its library, and tells Python where everything lies. A change of a Python
source counts at once, one of Rust code when this is run again.

Usage: cargo kernpack develop [OPTIONS]

Options:
      --python FILE          the Python to install for (default: that of the virtual environment that is active)
      --package NAME         the package, when the workspace has several
      --manifest-path FILE   its Cargo.toml
      --profile NAME         profile of the build (default: dev)
      --features LIST        features to build with; may be given several times
      --no-default-features  build without the default features
      --strip                without symbols
      --offline              cargo asks no registry
      --name NAME            name of the Python distribution (default: the package's)
      --tvm-ffi              load an extension module through the package tvm_ffi all the same
  -h, --help                 print this
";

/// The options of the build and of the wheel.
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
    pub(crate) editable: bool,
    /// For `develop`: the Python to install for.
    pub(crate) interpreter: Option<PathBuf>,
    pub(crate) offline: bool,
    pub(crate) name: Option<String>,
    pub(crate) python_version: Option<String>,
    pub(crate) tvm_ffi: bool,
    pub(crate) platform: Option<String>,
    pub(crate) json: bool,
}

/// Parses the words after `wheel`.
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    parse_into(Options { profile: "release".to_owned(), ..Options::default() }, parser, false)
}

/// Parses the words after `develop`, which installs an editable wheel.
pub(crate) fn parse_develop(parser: &mut Parser) -> Parsed<Options> {
    parse_into(Options { profile: "dev".to_owned(), editable: true, ..Options::default() }, parser, true)
}

fn parse_into(mut options: Options, parser: &mut Parser, develops: bool) -> Parsed<Options> {
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("python") if develops => options.interpreter = Some(parser.value()?.into()),
            Arg::Long("out" | "target" | "python-version" | "platform" | "editable" | "json") | Arg::Short('o')
                if develops =>
            {
                return Err(argument.unexpected());
            }
            Arg::Short('o') | Arg::Long("out") => options.out = Some(parser.value()?.into()),
            Arg::Short('p') | Arg::Long("package") => options.package = Some(parser.value()?.string()?),
            Arg::Long("manifest-path") => options.manifest_path = Some(parser.value()?.into()),
            Arg::Long("profile") => options.profile = parser.value()?.string()?,
            Arg::Short('F') | Arg::Long("features") => options.features.push(parser.value()?.string()?),
            Arg::Long("no-default-features") => options.no_default_features = true,
            Arg::Long("target") => options.target = Some(parser.value()?.string()?),
            Arg::Long("strip") => options.strip = true,
            Arg::Long("editable") => options.editable = true,
            Arg::Long("offline") => options.offline = true,
            Arg::Long("name") => options.name = Some(parser.value()?.string()?),
            Arg::Long("python-version") => {
                let python = parser.value()?.string()?;
                if !version::is_python(&python) {
                    return Err(
                        format!("--python-version is '{python}'; expected the oldest Python, such as 3.10").into()
                    );
                }
                options.python_version = Some(python);
            }
            Arg::Long("platform") => {
                let tag = parser.value()?.string()?;
                let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
                if tag.is_empty() || !tag.chars().all(is_allowed) {
                    return Err(
                        format!("--platform is '{tag}'; expected a platform tag, such as macosx_11_0_arm64").into()
                    );
                }
                options.platform = Some(tag);
            }
            Arg::Long("tvm-ffi") => options.tvm_ffi = true,
            Arg::Long("json") => options.json = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_line;

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse_line(parse, "wheel", line);
        let release = Options { profile: "release".to_owned(), ..Options::default() };
        assert_eq!(parse(""), Ok(Some(release)));
        assert_eq!(parse("--help"), Ok(None));
        let options =
            parse("--out=d -p kit --features a,b -F c --profile dev --python-version=3.10 --json --strip").unwrap();
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
            ("--out", "missing value for option `--out`; see wheel --help"),
            ("-p", "missing value for option `-p`; see wheel --help"),
            ("--python-version 2.7", "--python-version is '2.7'; expected the oldest Python, such as 3.10"),
            ("--platform a-b", "--platform is 'a-b'; expected a platform tag, such as macosx_11_0_arm64"),
            ("--platform=", "--platform is ''; expected a platform tag, such as macosx_11_0_arm64"),
            ("--fast", "unknown option `--fast`; see wheel --help"),
            ("--strip=yes", "option `--strip` takes no value; see wheel --help"),
            ("kit", "unexpected argument `kit`; see wheel --help"),
            ("-- --json", "unexpected argument `--json`; see wheel --help"),
        ] {
            assert_eq!(parse(line).unwrap_err(), problem);
        }
    }
}
