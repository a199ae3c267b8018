//! The models of the corpus with one integer at a limit.

use std::panic::catch_unwind;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use kernpack_fuzz::limits::{LIMITS, integers, with_integer};

use super::*;

/// The time limit for one model, on a machine with other load.
const MOST_TIME: Duration = Duration::from_secs(20);

/// Checks each model of the corpus with each of its integers at each limit. Returns the inputs that
/// panicked.
fn at_limits(begun: &Sender<String>) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/onnx");
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut faults, mut count) = (Vec::new(), 0);
    for file in &files {
        let model = fs::read(file).unwrap();
        for (index, integer) in integers(&model).unwrap_or_default().iter().enumerate() {
            for limit in LIMITS {
                let name = file.file_name().unwrap().display();
                let case = format!("{name}: integer {index}, {} {} -> {limit}", integer.path, integer.value);
                begun.send(case.clone()).unwrap();
                let changed = with_integer(&model, index, limit).unwrap();
                if let Err(panic) = catch_unwind(|| kernpack_fuzz::onnx::check(&changed)) {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
                    faults.push(format!("{case}: {text}"));
                }
                count += 1;
            }
        }
    }
    assert!(count > 1000, "{} has only {count} integers at limits", folder.display());
    faults
}

/// A model with an integer at a limit gives an error or a graph, within the time limit and with
/// little memory.
#[test]
fn onnx() {
    let (begun, cases) = channel();
    let worker = thread::spawn(move || at_limits(&begun));
    let mut current = String::new();
    loop {
        match cases.recv_timeout(MOST_TIME) {
            Ok(case) => current = case,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("{current}: no result in {MOST_TIME:?}"),
        }
    }
    let faults = worker.join().unwrap();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(most_memory() <= MOST_MEMORY, "the process had {} bytes of memory", most_memory());
}
