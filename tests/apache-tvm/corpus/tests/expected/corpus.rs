//! The files of the corpus.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folder of the corpus, if it is present.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/tvm-ir");
    folder.join("corpus.jsonl.gz").exists().then_some(folder)
}

/// The lines of a compressed file.
pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let output = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip can be run");
    assert!(output.status.success(), "gzip: {}", String::from_utf8_lossy(&output.stderr));
    output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("a line of JSON"))
        .collect()
}

/// Returns whether this CPU has the features of a target's CPU.
pub(crate) fn runs_here(target: &Value) -> bool {
    let flag = match target["mcpu"].as_str() {
        None => return true,
        Some("core-avx2" | "skylake") => "avx2",
        Some("skylake-avx512") => "avx512f",
        Some(_) => return false,
    };
    let features = target["mattr"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let wanted = core::iter::once(flag).chain(features.filter_map(|feature| feature.strip_prefix('+')));
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    wanted.into_iter().all(|flag| known.split_whitespace().any(|word| word == flag))
}
