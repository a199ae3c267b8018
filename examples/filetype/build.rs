//! Compiles Magika's model into the library, and the table of its labels.
//!
//! The model is in the package `magika` on PyPI, not in this repository. Without it the crate still
//! compiles, so that commands for the whole workspace work on a fresh checkout; its functions then
//! return an error with advice.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

/// The folder where `cargo xtask filetype` puts the files of the package, relative to this one.
const FOLDER: &str = "../../target/magika";

/// The files: the network, its labels and thresholds, and the description of each label.
const MODEL: &str = "model.onnx";
const CONFIG: &str = "config.min.json";
const KINDS: &str = "content_types_kb.min.json";

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result {
    println!("cargo::rustc-check-cfg=cfg(has_model)");
    println!("cargo::rerun-if-env-changed=FILETYPE_MODEL");
    let folder = env::var_os("FILETYPE_MODEL").map_or_else(|| PathBuf::from(FOLDER), PathBuf::from);
    // A missing file is watched, too: cargo runs this again when it appears.
    println!("cargo::rerun-if-changed={}", folder.join(MODEL).display());
    let library = kernpack_build::Library::new();
    let out = Path::new(&env::var("OUT_DIR")?).join("table.rs");
    if !folder.join(MODEL).is_file() {
        println!(
            "cargo::warning=no model in {}: this build of filetype can classify nothing; run `cargo xtask filetype`, which installs it, or set FILETYPE_MODEL to a folder with it",
            folder.display()
        );
        fs::write(out, table(&[], &[])?)?;
        return Ok(library.build()?);
    }
    println!("cargo::rustc-cfg=has_model");
    let config = read(&folder.join(CONFIG))?;
    let labels = labels(&config)?;
    let kinds = kinds(&read(&folder.join(KINDS))?)?;
    fs::write(out, table(&labels, &kinds)?)?;
    library
        .model_with(folder.join(MODEL), |model| model.name("magika").input("bytes", [1, 2048]))
        .multiversion(["x86-64-v3", "x86-64-v4"])
        .build()?;
    Ok(())
}

fn read(path: &Path) -> Result<Value> {
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// A label of the network, as a line of the table: its name, its name in results, and its
/// threshold.
type Label = (String, String, f64);

fn labels(config: &Value) -> Result<Vec<Label>> {
    // The assumptions of the code.
    for (name, value) in [
        ("beg_size", 1024),
        ("end_size", 1024),
        ("block_size", 4096),
        ("padding_token", 256),
        ("min_file_size_for_dl", 8),
    ] {
        if config[name] != value {
            return Err(format!("{CONFIG}: {name} is {}, and this crate is written for {value}", config[name]).into());
        }
    }
    let usual = config["medium_confidence_threshold"].as_f64().ok_or("no medium_confidence_threshold")?;
    let names = config["target_labels_space"].as_array().ok_or("no target_labels_space")?;
    let names = names.iter().map(|name| name.as_str().ok_or("a label that is not a text"));
    let label = |name: &str| {
        let output = config["overwrite_map"][name].as_str().unwrap_or(name);
        (name.to_owned(), output.to_owned(), config["thresholds"][name].as_f64().unwrap_or(usual))
    };
    names.map(|name| Ok(label(name?))).collect()
}

/// A kind of file, as a line of the table: its name, its MIME type, its group, its description, and
/// whether it is text.
type Kind = (String, [String; 3], bool);

fn kinds(known: &Value) -> Result<Vec<Kind>> {
    let known = known.as_object().ok_or_else(|| format!("{KINDS}: no object"))?;
    let kind = |(name, about): (&String, &Value)| {
        let is_text = about["is_text"].as_bool().unwrap_or_default();
        let text = |key: &str, otherwise: &str| about[key].as_str().unwrap_or(otherwise).to_owned();
        let mime_type = text("mime_type", if is_text { "text/plain" } else { "application/octet-stream" });
        let words = [mime_type, text("group", "unknown"), text("description", name)];
        (name.clone(), words, is_text)
    };
    let mut kinds: Vec<Kind> = known.iter().map(kind).collect();
    kinds.sort();
    Ok(kinds)
}

/// Generates the table as Rust code: `LABELS` in the order of the network's scores, and `KINDS` in
/// the order of their names.
fn table(labels: &[Label], kinds: &[Kind]) -> Result<String> {
    let place = |name: &str| {
        let found = kinds.binary_search_by(|kind| kind.0.as_str().cmp(name));
        found.map_err(|_| format!("{KINDS} knows no kind '{name}'"))
    };
    let mut text = "static LABELS: &[Label] = &[\n".to_owned();
    for (name, output, threshold) in labels {
        let (guess, kind) = (place(name)?, place(output)?);
        text += &format!("    Label {{ guess: {guess}, kind: {kind}, threshold: {threshold:?} }},\n");
    }
    text += "];\n\nstatic KINDS: &[Kind] = &[\n";
    for (name, [mime_type, group, description], is_text) in kinds {
        text += &format!(
            "    Kind {{ label: {name:?}, mime_type: {mime_type:?}, group: {group:?}, description: {description:?}, is_text: {is_text} }},\n"
        );
    }
    text += "];\n";
    Ok(text)
}
