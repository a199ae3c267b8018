//! The command line of `cargo kernpack sbom`.

use std::path::PathBuf;
use std::process::Command;

use lexopt::{Arg, Parser, ValueExt};

use crate::arguments::Parsed;

pub(crate) const HELP: &str = "\
Prints the bill of materials of a package's library: which crates are in it, in which versions and under which licenses, as CycloneDX 1.6 in
JSON. Procedural macros and what build scripts use are not in the library, so they are not in the bill. A wheel has its bill in it.

Usage: cargo kernpack sbom [OPTIONS]

Options:
      --package NAME         the package, when the workspace has several
      --manifest-path FILE   its Cargo.toml
      --features LIST        features that it is built with; may be given several times
      --no-default-features  it is built without the default features
      --target TRIPLE        it is built for another target
      --offline              cargo asks no registry
  -h, --help                 print this
";

/// The build that the bill describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) package: Option<String>,
    pub(crate) manifest_path: Option<PathBuf>,
    pub(crate) features: Vec<String>,
    pub(crate) no_default_features: bool,
    pub(crate) target: Option<String>,
    pub(crate) offline: bool,
}

impl Options {
    /// Adds the options that select the package and its build to a cargo command.
    pub(crate) fn select(&self, cargo: &mut Command) {
        if let Some(manifest) = &self.manifest_path {
            cargo.arg("--manifest-path").arg(manifest);
        }
        if let Some(package) = &self.package {
            cargo.args(["--package", package]);
        }
        for features in &self.features {
            cargo.args(["--features", features]);
        }
        if self.no_default_features {
            cargo.arg("--no-default-features");
        }
        if let Some(target) = &self.target {
            cargo.args(["--target", target]);
        }
        if self.offline {
            cargo.arg("--offline");
        }
    }
}

/// Parses the words after `sbom`.
pub(crate) fn parse(parser: &mut Parser) -> Parsed<Options> {
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Short('p') | Arg::Long("package") => options.package = Some(parser.value()?.string()?),
            Arg::Long("manifest-path") => options.manifest_path = Some(parser.value()?.into()),
            Arg::Short('F') | Arg::Long("features") => options.features.push(parser.value()?.string()?),
            Arg::Long("no-default-features") => options.no_default_features = true,
            Arg::Long("target") => options.target = Some(parser.value()?.string()?),
            Arg::Long("offline") => options.offline = true,
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
        let parse = |line: &str| parse_line(parse, "sbom", line);
        assert_eq!(parse(""), Ok(Some(Options::default())));
        assert_eq!(parse("-h"), Ok(None));
        let expected = Options {
            package: Some("kit".to_owned()),
            manifest_path: Some("k/Cargo.toml".into()),
            features: vec!["a,b".to_owned(), "c".to_owned()],
            no_default_features: true,
            target: Some("t".to_owned()),
            offline: true,
        };
        let line = "-p kit --manifest-path=k/Cargo.toml -F a,b --features c --no-default-features --target t --offline";
        assert_eq!(parse(line), Ok(Some(expected)));
        assert_eq!(parse("--json").unwrap_err(), "unknown option `--json`; see sbom --help");
        assert_eq!(parse("kit").unwrap_err(), "unexpected argument `kit`; see sbom --help");
    }
}
