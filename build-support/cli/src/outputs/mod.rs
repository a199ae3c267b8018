//! `cargo kernpack outputs`: lists the files that the build scripts of a workspace's packages made
//! from their kernels.

mod options;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::Message;
use serde_json::Value;

pub(crate) use options::{HELP, Options, parse};

use crate::{Result, cargo};

/// Builds, and returns the list of outputs.
pub(crate) fn show(options: &Options) -> Result<String> {
    let mut found = Vec::new();
    for folder in out_dirs(options)? {
        let file = folder.join("kernpack").join("outputs.json");
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let mut list: Value =
            serde_json::from_str(&text).map_err(|error| format!("{} is not JSON: {error}", file.display()))?;
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

/// Returns `OUT_DIR` of each package that has a build script, in the order of the build.
fn out_dirs(options: &Options) -> Result<Vec<PathBuf>> {
    let mut command = cargo::build();
    command.args(&options.cargo);
    let messages = cargo::messages(command, "cargo build")?;
    let folders = messages.into_iter().filter_map(|message| match message {
        Message::BuildScriptExecuted(script) => Some(script.out_dir.into()),
        _ => None,
    });
    Ok(folders.collect())
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

/// Formats the outputs of one package for people.
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
}
