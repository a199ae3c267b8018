//! `cargo xtask api`: the public API of the crates that users name, as text files beside their
//! manifests. A change of the API is a difference in those files; `cargo xtask api --write` updates
//! them.
//!
//! rustdoc describes each crate as JSON, and `public-api` converts the JSON to lines. The JSON does
//! not follow re-exports of items of our other crates: their lines are added under the names that
//! `kernpack` gives them.

use crate::workspace::Workspace;
use crate::{Result, step};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Crates that users name, with the file that has their API.
const PUBLIC: [(&str, &str); 3] = [
    ("kernpack", "runtime/api.txt"),
    ("kernpack_macros", "macros/api.txt"),
    ("kernpack_build", "build-support/api.txt"),
];

/// Crates whose items those re-export. `kernpack::sys::embedded` is left out: it may change with
/// every release.
const BEHIND: [&str; 3] = ["kernpack_core", "kernpack_builtins", "kernpack_formats"];

const HEAD: &str =
    "# The public API with default features, without hidden items. Written by `cargo xtask api --write`.\n";

/// Compares the files with the sources, or writes them.
pub(crate) fn run(write: bool) -> Result {
    let workspace = Workspace::find()?;
    let folder = document(&workspace)?;
    let mut apis = HashMap::new();
    for name in PUBLIC.iter().map(|(name, _)| *name).chain(BEHIND) {
        apis.insert(name, Api::read(&folder, name)?);
    }
    let mut changed = Vec::new();
    for (name, file) in PUBLIC {
        let path = workspace.root().join(file);
        let text = format!("{HEAD}{}\n", lines_of(name, &apis).join("\n"));
        let before = fs::read_to_string(&path).unwrap_or_default();
        if write {
            fs::write(&path, &text)?;
            println!("{file}: {} lines{}", text.lines().count(), if before == text { "" } else { ", changed" });
        } else if before != text {
            changed.push(format!("{file}:\n{}", difference(&before, &text)));
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    Err(format!("the public API has changed; `cargo xtask api --write` accepts that\n{}", changed.join("\n")).into())
}

/// Runs rustdoc to write the JSON of all crates, and returns its folder.
fn document(workspace: &Workspace) -> Result<PathBuf> {
    // Only rustdoc may use unstable options: with the variable set for all programs, cargo would
    // rebuild crates that check for it.
    let rustdoc = workspace.folder("api")?.join("rustdoc");
    fs::write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n")?;
    fs::set_permissions(&rustdoc, fs::Permissions::from_mode(0o755))?;
    let mut command = workspace.cargo("doc");
    command.arg("--no-deps");
    for name in PUBLIC.iter().map(|(name, _)| *name).chain(BEHIND) {
        command.args(["--package", &name.replace('_', "-")]);
    }
    command
        .env("RUSTDOC", &rustdoc)
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --document-hidden-items --cap-lints allow");
    step::run("cargo doc, as JSON", &mut command, step::Show::Warnings)?;
    Ok(workspace.cargo_target().join("doc"))
}

/// A crate as rustdoc describes it.
struct Api {
    name: String,
    /// One line for each item, of its kind, name and types.
    lines: Vec<String>,
    /// Items re-exported from other crates: the path there, and the path here.
    imports: Vec<(String, String)>,
}

impl Api {
    fn read(folder: &Path, name: &str) -> Result<Self> {
        let path = folder.join(format!("{name}.json"));
        let mut json: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        let root = json["root"].to_string();
        hide(&mut json, &root);
        let shown = path.with_extension("public.json");
        fs::write(&shown, json.to_string())?;
        let api = public_api::Builder::from_rustdoc_json(&shown)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .sorted(true)
            .build()
            .map_err(|error| format!("{}: {error}", shown.display()))?;
        let mut imports = Vec::new();
        collect_imports(&json, &root, name, &mut imports);
        let lines = without_items_of_traits(api.items().map(ToString::to_string));
        Ok(Self { name: name.to_owned(), lines, imports })
    }
}

/// The lines without items of trait implementations, which the trait defines.
fn without_items_of_traits(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut implementor = None;
    for line in lines {
        if line.starts_with("impl") {
            let of = line.rsplit_once(" for ").map(|(_, of)| of.split(" where ").next().unwrap_or(of));
            implementor = of.map(|of| format!(" {of}::"));
        } else if implementor.as_ref().is_some_and(|of| line.contains(of)) {
            continue;
        } else {
            implementor = None;
        }
        kept.push(line);
    }
    kept
}

/// Removes hidden items. A hidden module stays, without its items, because they may be re-exported
/// from a public module.
fn hide(json: &mut Value, root: &str) {
    let Some(index) = json["index"].as_object_mut() else { return };
    index.retain(|id, item| {
        let is_hidden = item["attrs"].as_array().is_some_and(|attributes| {
            attributes
                .iter()
                .any(|attribute| attribute["other"].as_str().is_some_and(|text| text.contains("doc(hidden)")))
        });
        if is_hidden && let Some(items) = item.pointer_mut("/inner/module/items").and_then(Value::as_array_mut) {
            items.clear();
        }
        id == root || !is_hidden || item.pointer("/inner/module").is_some()
    });
}

/// Collects the re-exports of a module and of its child modules.
fn collect_imports(json: &Value, module: &str, path: &str, imports: &mut Vec<(String, String)>) {
    for id in json["index"][module]["inner"]["module"]["items"].as_array().into_iter().flatten() {
        let id = id.to_string();
        let item = &json["index"][&id];
        if let (Some(import), true) = (item["inner"]["use"].as_object(), item["visibility"] == "public") {
            let source = import["source"].as_str().unwrap_or_default();
            let name = import["name"].as_str().unwrap_or_default();
            // Items of the same crate have lines of their own.
            if !source.starts_with("kernpack_") {
                continue;
            }
            let here = if import["is_glob"] == true { path.to_owned() } else { format!("{path}::{name}") };
            imports.push((source.to_owned(), here));
        } else if item["inner"]["module"].is_object() {
            let name = item["name"].as_str().unwrap_or_default();
            collect_imports(json, &id, &format!("{path}::{name}"), imports);
        }
    }
}

/// The lines of a crate, with the lines of its re-exports.
fn lines_of(name: &str, apis: &HashMap<&str, Api>) -> Vec<String> {
    let own = &apis[name];
    let mut lines: Vec<String> = own.lines.iter().filter(|line| !line.starts_with("pub use ")).cloned().collect();
    let mut pending = own.imports.clone();
    let mut done = BTreeSet::new();
    while let Some((source, here)) = pending.pop() {
        if !done.insert((source.clone(), here.clone())) {
            continue;
        }
        let Some(api) = source.split("::").next().and_then(|name| apis.get(name)) else {
            lines.push(format!("pub use {here}"));
            continue;
        };
        if let Some((_, next)) =
            api.imports.iter().find(|(_, there)| *there == source).map(|(next, there)| (there, next))
        {
            pending.push((next.clone(), here));
            continue;
        }
        lines.extend(api.under(&source, &here));
        for (next, there) in &api.imports {
            if let Some(rest) = there.strip_prefix(&source)
                && (rest.is_empty() || rest.starts_with("::"))
            {
                pending.push((next.clone(), format!("{here}{rest}")));
            }
        }
    }
    let lines = lines.into_iter().map(|line| short_paths(&line, name));
    let lines: BTreeSet<(String, String)> = lines.map(|line| (item_of(&line, name), line)).collect();
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    // A module without visible items is hidden.
    let is_shown = |line: &String| {
        let inside = line.strip_prefix("pub mod ").map(|module| format!("{module}::"));
        inside.is_none_or(|inside| lines.iter().any(|line| line.contains(&inside)))
    };
    lines.iter().filter(|line| is_shown(line)).cloned().collect()
}

impl Api {
    /// The lines of an item and of its contents, under another name.
    fn under(&self, source: &str, here: &str) -> Vec<String> {
        let prefix = format!("{}::", self.name);
        let mut lines = Vec::new();
        let mut is_inside = false;
        for line in self.lines.iter().filter(|line| !line.starts_with("pub use ")) {
            // An `impl` and its items come after the type; they may belong to a type of another
            // crate.
            if !line.starts_with("impl")
                && let Some(start) = line.find(&prefix)
            {
                let path = &line[start..];
                is_inside = path.strip_prefix(source).is_some_and(|rest| !rest.starts_with(is_in_name));
            }
            if is_inside {
                lines.push(line.replace(source, here));
            }
        }
        lines
    }
}

fn is_in_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The line with paths of our crates cut to their last name, except for the item's own: the path
/// inside a crate may name private modules.
fn short_paths(line: &str, name: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    let mut is_first = true;
    while let Some(start) = rest.find(is_in_name) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_in_name(c) && c != ':').unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches(':');
        rest = &rest[path.len()..];
        let is_ours = path.starts_with("kernpack") || path.starts_with("crate::") || path.starts_with("super::");
        if path.contains("::") && is_ours && !(is_first && path.starts_with(name)) {
            out.push_str(path.rsplit("::").next().unwrap_or(path));
        } else {
            out.push_str(path);
        }
        is_first &= !path.contains("::");
    }
    out + rest
}

/// The item that a line describes, as the key to sort by.
fn item_of(line: &str, name: &str) -> String {
    let start = line.find(&format!("{name}::")).unwrap_or(0);
    let end = line[start..].find(|c| !is_in_name(c) && c != ':').map_or(line.len(), |end| start + end);
    line[start..end].to_owned()
}

/// The lines that only one of the two texts has.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), after.lines().collect());
    let gone = old.difference(&new).map(|line| format!("  - {line}\n"));
    let come = new.difference(&old).map(|line| format!("  + {line}\n"));
    gone.chain(come).collect()
}
