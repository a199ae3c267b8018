//! Runs every input of the corpus through its function, so that bugs that fuzzing found do not
//! return, on every machine.

#[cfg(feature = "models")]
#[path = "corpus/limits.rs"]
mod limits;

use std::fs;
use std::path::Path;

/// The limit for the peak memory of the process: no input of a few kilobytes justifies more.
const MOST_MEMORY: u64 = 512 << 20;

fn replay(target: &str) {
    let (_, check) = kernpack_fuzz::TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{} has only {} files", folder.display(), files.len());
    for file in &files {
        let input = fs::read(file).unwrap();
        // If a file fails, it is the last line here, or the panic's message names it.
        println!("{}", file.display());
        check(&input);
    }
    assert!(most_memory() <= MOST_MEMORY, "{target}: the process had {} bytes of memory", most_memory());
}

/// The peak memory of this process.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn json() {
    replay("json");
}

#[test]
fn json_graph() {
    replay("json_graph");
}

#[test]
fn dtype() {
    replay("dtype");
}

#[test]
fn dlpack() {
    replay("dlpack");
}

#[test]
fn library_bin() {
    replay("library_bin");
}

#[test]
fn device_image() {
    replay("device_image");
}

#[test]
fn module_tree() {
    replay("module_tree");
}

#[test]
fn rpc() {
    replay("rpc");
}

#[cfg(feature = "models")]
#[test]
fn onnx() {
    replay("onnx");
}
