//! Lowered modules from Apache TVM's own tests, compiled by our code generator: their results are
//! compared with recorded results of TVM's generator, and calls that must be refused give errors of
//! the same kinds and texts.
//!
//! The data is not part of the project: without it the test prints a line and passes. Tests that
//! need the package (stand-ins that fill tensors, the relax VM's registers) are in
//! `differential.py`; see `../generator.py`.

mod arguments;
mod base64;
mod compare;
mod corpus;
mod stand_ins;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernpack::Module;
use kernpack_skip::skip_anywhere;
use kernpack_tvm_corpus::{module, target};
use serde_json::Value;

/// C functions that modules of the corpus call and that exist only in processes with Apache TVM.
const ABSENT: [&str; 5] = ["TVMBackendAnyList", " Dave", " Eve", " Fred", " consume"];

/// The number of comparisons, and the differences.
#[derive(Default)]
struct Report {
    entries: AtomicUsize,
    calls: AtomicUsize,
    left_out: AtomicUsize,
    checks: AtomicUsize,
    problems: Mutex<Vec<String>>,
}

impl Report {
    fn problem(&self, entry: &Value, what: String) {
        let text =
            format!("{} ({}): {what}", entry["id"].as_str().unwrap_or("?"), entry["suite"].as_str().unwrap_or("?"));
        self.problems.lock().unwrap().push(text);
    }
}

#[test]
fn modules_of_apache_tvm_do_what_its_own_code_does() {
    let Some(folder) = corpus::folder() else {
        return skip_anywhere("there is no ../shared/data/tvm-ir");
    };
    let entries = corpus::lines(&folder.join("corpus.jsonl.gz"));
    let mut expected: HashMap<String, Vec<Value>> = HashMap::new();
    for line in corpus::lines(&folder.join("expected.jsonl.gz")) {
        expected.entry(line["id"].as_str().unwrap_or_default().to_owned()).or_default().push(line);
    }
    let report = Report::default();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let rows = expected.get(entry["id"].as_str().unwrap_or_default());
                    check(entry, rows.map_or(&[], Vec::as_slice), &report);
                }
            });
        }
    });
    let count = |number: &AtomicUsize| number.load(Ordering::Relaxed);
    println!(
        "{} modules compiled, {} calls compared ({} left out), {} refused calls",
        count(&report.entries),
        count(&report.calls),
        count(&report.left_out),
        count(&report.checks)
    );
    let problems = report.problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(count(&report.entries) > 500 && count(&report.calls) > 900 && count(&report.checks) > 20_000);
}

fn check(entry: &Value, expected: &[Value], report: &Report) {
    let built = target(&entry["target"])
        .and_then(|target| Ok((module(&entry["ir"])?, target)))
        .and_then(|(module, target)| kernpack_compiler::build(module, &target));
    report.entries.fetch_add(1, Ordering::Relaxed);
    let module = match (built, entry["build_error"].is_null()) {
        (Ok(module), true) => module,
        (Ok(_), false) => return report.problem(entry, "should be refused".to_owned()),
        (Err(error), true) => return report.problem(entry, error.to_string()),
        (Err(_), false) => return,
    };
    if !corpus::runs_here(&entry["target"]) {
        return;
    }
    for name in entry["stand_ins"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        stand_ins::register(name);
    }
    let functions = entry["functions"].as_array().map_or(&[][..], Vec::as_slice);
    for function in functions {
        if function["convention"] == "packed" {
            check_function(entry, function, &module, expected, report);
        }
    }
}

fn check_function(entry: &Value, function: &Value, module: &Module, expected: &[Value], report: &Report) {
    let symbol = function["symbol"].as_str().unwrap_or_default();
    let name = symbol.strip_prefix("__tvm_ffi_").unwrap_or(symbol);
    let found = match module.function(name) {
        Ok(found) => found,
        // C functions of Apache TVM's runtime and of its tests do not exist in this process.
        Err(error) if ABSENT.iter().any(|absent| error.message().contains(absent)) => {
            report.left_out.fetch_add(
                expected.iter().filter(|row| row["function"] == function["name"]).count(),
                Ordering::Relaxed,
            );
            return;
        }
        Err(error) => return report.problem(entry, error.to_string()),
    };
    let calls = function["calls"].as_array().map_or(&[][..], Vec::as_slice);
    for row in expected.iter().filter(|row| row["function"] == function["name"]) {
        let call = usize::try_from(row["call"].as_u64().unwrap_or(0)).unwrap_or(0);
        let Some(call) = calls.get(call) else { continue };
        match compare::call(&found, &call["args"], row) {
            Some(None) => {
                report.calls.fetch_add(1, Ordering::Relaxed);
            }
            Some(Some(problem)) => report.problem(entry, format!("{name}, call {}: {problem}", row["call"])),
            None => {
                report.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    let base = &function["base"]["args"];
    for check in function["checks"].as_array().into_iter().flatten() {
        report.checks.fetch_add(1, Ordering::Relaxed);
        if let Some(problem) = compare::refusal(&found, base, check) {
            report.problem(entry, format!("{name}, {}: {problem}", check["what"]));
        }
    }
}
