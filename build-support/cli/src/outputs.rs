//! `cargo kernpack outputs`: what the build scripts of a workspace's packages made of their kernels, and where it is.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Result;

pub(crate) const HELP: &str = "\
What the build scripts made of kernels, and where it is: objects, PTX, fat binaries, the packed modules, the generated Rust file and the
compile commands. Builds first, as cargo build does; cargo runs nothing when nothing changed.

Usage: cargo kernpack outputs [OPTIONS] [OPTIONS OF CARGO BUILD]

Options:
      --json                 print JSON: an array of what each package's OUT_DIR/kernpack/outputs.json says, with its out_dir
      --kind KIND            only outputs of this kind (object, ptx, cubin, fatbin, opencl, blob, archive, rust, compile_commands), a path on each line
  -h, --help                 print this

All other options go to cargo build: --package, --release, --target, --features, --manifest-path, ...
";

#[derive(Debug, Default)]
pub(crate) struct Options {
    json: bool,
    kind: Option<String>,
    cargo: Vec<OsString>,
}

/// `None` asks for the help text.
pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("-h" | "--help") => return Ok(None),
            Some("--json") => options.json = true,
            Some("--kind") => {
                let kind = arguments.next().and_then(|kind| kind.into_string().ok());
                options.kind = Some(kind.ok_or("--kind needs a value; see cargo kernpack outputs --help")?);
            }
            _ => options.cargo.push(argument),
        }
    }
    if options.json && options.kind.is_some() {
        return Err("--json and --kind do not go together".to_owned());
    }
    Ok(Some(options))
}

/// Builds, and says what there is.
pub(crate) fn show(options: &Options) -> Result<String> {
    let mut found = Vec::new();
    for folder in out_dirs(options)? {
        let file = folder.join("kernpack").join("outputs.json");
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let mut list: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: is no JSON: {error}", file.display()))?;
        list["out_dir"] = folder.to_string_lossy().into();
        found.push(list);
    }
    if found.is_empty() {
        return Err("no package that was built has a build.rs with kernpack_build::Library".to_owned());
    }
    if options.json {
        return Ok(format!("{:#}\n", Value::Array(found)));
    }
    match &options.kind {
        Some(kind) => paths(&found, kind),
        None => Ok(found.iter().map(report).collect()),
    }
}

/// `OUT_DIR` of each package that has a build script, in the order of the build.
fn out_dirs(options: &Options) -> Result<Vec<PathBuf>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--message-format=json-render-diagnostics"]).args(&options.cargo);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo build failed ({})", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executed = messages.filter(|message| message["reason"] == "build-script-executed");
    Ok(executed.filter_map(|message| Some(PathBuf::from(message["out_dir"].as_str()?))).collect())
}

fn outputs(list: &Value) -> &[Value] {
    list["outputs"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn paths(found: &[Value], kind: &str) -> Result<String> {
    let all = found.iter().flat_map(outputs);
    let paths: Vec<&str> =
        all.filter(|output| output["kind"] == kind).filter_map(|output| output["path"].as_str()).collect();
    match paths.is_empty() {
        true => Err(format!("nothing of the kind '{kind}' was made; see cargo kernpack outputs")),
        false => Ok(paths.join("\n") + "\n"),
    }
}

/// The outputs of one package as people read them.
fn report(list: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let folder = text(&list["out_dir"]);
    let mut out = format!("{} for {}, in {folder}\n", text(&list["package"]), text(&list["target"]));
    for output in outputs(list) {
        let path = text(&output["path"]);
        let shown = Path::new(&path).strip_prefix(&folder).map_or(path.clone(), |path| path.display().to_string());
        let bytes = output["bytes"].as_u64().unwrap_or_default();
        let _ = write!(out, "  {:<16} {bytes:>10}  {shown}", text(&output["kind"]));
        if let Some(source) = output["source"].as_str() {
            let _ = write!(out, "  of {source}");
        }
        let kernels = output["kernels"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let kernels: Vec<&str> = kernels.collect();
        if !kernels.is_empty() {
            let _ = write!(out, ": {}", kernels.join(", "));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_paths() {
        let list = serde_json::json!({
            "package": "kit", "target": "t", "out_dir": "/t/out",
            "outputs": [
                { "kind": "object", "path": "/t/out/kernpack/c0_a.o", "bytes": 120, "source": "a.c", "kernels": ["a", "b"] },
                { "kind": "opencl", "path": "/p/k.cl", "bytes": 7, "source": "k.cl", "kernels": [] },
                { "kind": "rust", "path": "/t/out/kernpack_library.rs", "bytes": 9000 },
            ],
        });
        let expected = "\
kit for t, in /t/out
  object                  120  kernpack/c0_a.o  of a.c: a, b
  opencl                    7  /p/k.cl  of k.cl
  rust                   9000  kernpack_library.rs
";
        assert_eq!(report(&list), expected);
        let found = [list];
        assert_eq!(paths(&found, "object").unwrap(), "/t/out/kernpack/c0_a.o\n");
        assert_eq!(
            paths(&found, "cubin").unwrap_err(),
            "nothing of the kind 'cubin' was made; see cargo kernpack outputs"
        );
    }

    #[test]
    fn command_lines() {
        let parse = |line: &str| parse(line.split_whitespace().map(OsString::from));
        assert!(parse("--help").unwrap().is_none());
        let options = parse("--kind ptx --release -p kit").unwrap().unwrap();
        assert_eq!(
            (options.kind.as_deref(), options.cargo),
            (Some("ptx"), ["--release", "-p", "kit"].map(OsString::from).to_vec())
        );
        assert_eq!(parse("--kind").unwrap_err(), "--kind needs a value; see cargo kernpack outputs --help");
        assert_eq!(parse("--kind ptx --json").unwrap_err(), "--json and --kind do not go together");
    }
}
