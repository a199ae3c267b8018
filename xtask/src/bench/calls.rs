//! `cargo xtask bench calls`: the cost of one call, ours and the peers', in interleaved rounds.

use super::caller::Caller;
use super::figures::verdict;
use super::machine::Machine;
use super::programs::Programs;
use super::samples::Samples;
use super::threads;
use crate::Result;
use crate::python::Python;
use crate::workspace::Workspace;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// A batch takes about this many nanoseconds.
const BATCH: f64 = 10_000_000.0;

/// One row of the table: a caller and the function that it calls.
struct Case {
    key: &'static str,
    from: &'static str,
    to: &'static str,
    caller: usize,
    what: &'static str,
    library: &'static str,
}

const fn case(
    key: &'static str,
    from: &'static str,
    to: &'static str,
    caller: usize,
    what: &'static str,
    library: &'static str,
) -> Case {
    Case { key, from, to, caller, what, library }
}

impl Case {
    /// Our case that this one is compared with: the same job, from Python or from native code.
    fn ours(&self) -> &'static str {
        match (self.caller, self.what) {
            (PYTHON, "fail") => "raise ours",
            (PYTHON, "add") => "python ours",
            (_, "fail") => "error ours",
            (PYTHON, _) => self.key.strip_suffix(" cpp").unwrap_or(self.key),
            _ => "ours",
        }
    }

    /// The table that contains the case.
    fn table(&self) -> Table {
        match self.what {
            "fail" => Table::Errors,
            "add" | "typed" | "tuple" | "closure" => Table::Calls,
            "view" => Table::Tensors,
            _ => Table::Objects,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Calls,
    Errors,
    Objects,
    Tensors,
}

impl Table {
    const ALL: [Self; 4] = [Self::Calls, Self::Errors, Self::Objects, Self::Tensors];

    fn title(self) -> &'static str {
        match self {
            Self::Calls => "`add(int, int) -> int`: caller",
            Self::Errors => "`fail(int)`: an error with a formatted message: caller",
            Self::Objects => "an object `r` with the same fields and methods: Python does",
            Self::Tensors => "`f(TensorView) -> int`: caller",
        }
    }
}

/// The callers, by their place in [`start`].
const KERNPACK: usize = 0;
const CPP: usize = 1;
const CRATE: usize = 2;
const PYTHON: usize = 3;

#[rustfmt::skip]
const CASES: [Case; 44] = [
    case("closure",       "Rust",                      "`Box<dyn Fn>` in process (floor)", KERNPACK, "closure", "kernpack"),
    case("ours",          "Kernpack, typed",           "Kernpack library",        KERNPACK, "typed", "kernpack"),
    case("ours tuple",    "Kernpack, untyped",         "Kernpack library",        KERNPACK, "tuple", "kernpack"),
    case("cpp to ours",   "C++ `Function`",            "Kernpack library",        CPP,      "add",   "kernpack"),
    case("cpp inside",    "C++ `Function`",            "C++ lambda in process",   CPP,      "add",   "in-process"),
    case("cpp",           "C++ `Function`",            "C++ library",             CPP,      "add",   "cpp"),
    case("cpp to crate",  "C++ `Function`",            "tvm-ffi crate library",   CPP,      "add",   "crate"),
    case("crate",         "tvm-ffi crate, typed",      "tvm-ffi crate library",   CRATE,    "typed", "crate"),
    case("crate tuple",   "tvm-ffi crate, untyped",    "tvm-ffi crate library",   CRATE,    "tuple", "crate"),
    case("python ours",   "Python",                    "Kernpack library",        PYTHON,   "add",   "kernpack"),
    case("python cpp",    "Python",                    "C++ library",             PYTHON,   "add",   "cpp"),
    case("python crate",  "Python",                    "tvm-ffi crate library",   PYTHON,   "add",   "crate"),
    case("error ours",    "Kernpack, typed",           "Kernpack library",        KERNPACK, "fail",  "kernpack"),
    case("error crate",   "tvm-ffi crate, typed",      "tvm-ffi crate library",   CRATE,    "fail",  "crate"),
    case("error c++/our", "C++ `Function`",            "Kernpack library",        CPP,      "fail",  "kernpack"),
    case("error cpp",     "C++ `Function`",            "C++ library",             CPP,      "fail",  "cpp"),
    case("error c++/crt", "C++ `Function`",            "tvm-ffi crate library",   CPP,      "fail",  "crate"),
    case("raise ours",    "Python",                    "Kernpack library",        PYTHON,   "fail",  "kernpack"),
    case("raise cpp",     "Python",                    "C++ library",             PYTHON,   "fail",  "cpp"),
    case("raise crate",   "Python",                    "tvm-ffi crate library",   PYTHON,   "fail",  "crate"),
    case("int",           "`r.count`",                         "Kernpack library",       PYTHON,   "int", "kernpack"),
    case("int cpp",       "`r.count`",                         "C++ library",            PYTHON,   "int", "cpp"),
    case("float",         "`r.scale`",                         "Kernpack library",       PYTHON,   "float", "kernpack"),
    case("float cpp",     "`r.scale`",                         "C++ library",            PYTHON,   "float", "cpp"),
    case("text",          "`r.label`, 5 characters",           "Kernpack library",       PYTHON,   "text", "kernpack"),
    case("text cpp",      "`r.label`, 5 characters",           "C++ library",            PYTHON,   "text", "cpp"),
    case("long text",     "`r.label`, 39 characters",          "Kernpack library",       PYTHON,   "long_text", "kernpack"),
    case("long text cpp", "`r.label`, 39 characters",          "C++ library",            PYTHON,   "long_text", "cpp"),
    case("object",        "`r.next`",                          "Kernpack library",       PYTHON,   "object", "kernpack"),
    case("object cpp",    "`r.next`",                          "C++ library",            PYTHON,   "object", "cpp"),
    case("none",          "`r.next`, none there",              "Kernpack library",       PYTHON,   "none", "kernpack"),
    case("none cpp",      "`r.next`, none there",              "C++ library",            PYTHON,   "none", "cpp"),
    case("call 0",        "`r.get()`",                         "Kernpack library",       PYTHON,   "call_0", "kernpack"),
    case("call 0 cpp",    "`r.get()`",                         "C++ library",            PYTHON,   "call_0", "cpp"),
    case("call 1",        "`r.plus(1)`",                       "Kernpack library",       PYTHON,   "call_1", "kernpack"),
    case("call 1 cpp",    "`r.plus(1)`",                       "C++ library",            PYTHON,   "call_1", "cpp"),
    case("call 2",        "`r.plus_two(1, 2)`",                "Kernpack library",       PYTHON,   "call_2", "kernpack"),
    case("call 2 cpp",    "`r.plus_two(1, 2)`",                "C++ library",            PYTHON,   "call_2", "cpp"),
    case("create",        "`Record(7, 2.5, 'label', None)`",   "Kernpack library",       PYTHON,   "create", "kernpack"),
    case("create cpp",    "`Record(7, 2.5, 'label', None)`",   "C++ library",            PYTHON,   "create", "cpp"),
    case("copy",          "`copy.copy(r)`",                    "Kernpack library",       PYTHON,   "copy", "kernpack"),
    case("copy cpp",      "`copy.copy(r)`",                    "C++ library",            PYTHON,   "copy", "cpp"),
    case("view",          "Python",                            "Kernpack library",       PYTHON,   "view", "kernpack"),
    case("view cpp",      "Python",                            "C++ library",            PYTHON,   "view", "cpp"),
];

/// A goal: a ratio of two cases and its limit.
struct Goal {
    text: &'static str,
    ours: &'static str,
    theirs: &'static str,
    limit: f64,
}

const GOALS: [Goal; 14] = [
    Goal {
        text: "our native call / C++ header `Function`, in process",
        ours: "ours",
        theirs: "cpp inside",
        limit: 0.7,
    },
    Goal {
        text: "our native call to our library / C++ header `Function` to a C++ library",
        ours: "ours",
        theirs: "cpp",
        limit: 0.7,
    },
    Goal { text: "our native call / tvm-ffi crate, typed", ours: "ours", theirs: "crate", limit: 0.4 },
    Goal { text: "our error in Python / tvm-ffi crate's", ours: "raise ours", theirs: "raise crate", limit: 0.3 },
    Goal { text: "Python, Rust type / C++ type: reading an integer", ours: "int", theirs: "int cpp", limit: 1.0 },
    Goal { text: "Python, Rust type / C++ type: reading a number", ours: "float", theirs: "float cpp", limit: 1.0 },
    Goal { text: "Python, Rust type / C++ type: reading a short text", ours: "text", theirs: "text cpp", limit: 1.0 },
    Goal {
        text: "Python, Rust type / C++ type: reading a long text",
        ours: "long text",
        theirs: "long text cpp",
        limit: 1.0,
    },
    Goal { text: "Python, Rust type / C++ type: reading an object", ours: "object", theirs: "object cpp", limit: 1.0 },
    Goal { text: "Python, Rust type / C++ type: reading none", ours: "none", theirs: "none cpp", limit: 1.0 },
    Goal {
        text: "Python, Rust type / C++ type: a method without arguments",
        ours: "call 0",
        theirs: "call 0 cpp",
        limit: 1.0,
    },
    Goal {
        text: "Python, Rust type / C++ type: a method with one argument",
        ours: "call 1",
        theirs: "call 1 cpp",
        limit: 1.0,
    },
    Goal {
        text: "Python, Rust type / C++ type: a method with two arguments",
        ours: "call 2",
        theirs: "call 2 cpp",
        limit: 1.0,
    },
    Goal {
        text: "Python, `TensorView` of a Kernpack library / of a C++ library",
        ours: "view",
        theirs: "view cpp",
        limit: 1.05,
    },
];

/// The limit for the largest stripped library without kernels, in bytes.
const SIZE_LIMIT: u64 = 400_000;

/// Builds everything, measures, prints the tables and writes them to `target/bench/calls.md`.
pub(crate) fn run(rounds: usize) -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let programs = Programs::build(&workspace, &python)?;
    let mut callers = start(&workspace, &python, &programs)?;
    let samples = measure(&mut callers, rounds)?;
    let rows = threads::measure(&mut callers[KERNPACK], rounds)?;
    let machine = Machine::find(&workspace)
        .program("rustc")
        .program("c++")
        .packages(python.interpreter(), &["apache-tvm-ffi"])?
        .crates("tests/bench/crate-peer/Cargo.lock", "crate-peer-caller", &["tvm-ffi"])?
        .to_string();
    let mut report = report(&samples, &programs.sizes, rounds, &machine);
    report.push_str(&threads::report(&rows));
    println!("\n{report}");
    let file = workspace.folder("bench")?.join("calls.md");
    std::fs::write(&file, report).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("written to {}", file.display());
    Ok(())
}

/// Starts the four callers, each with the libraries that it loads.
fn start(workspace: &Workspace, python: &Python, programs: &Programs) -> Result<[Caller; 4]> {
    let kernpack = ("kernpack", programs.kernpack_library.as_path());
    let cpp = ("cpp", programs.cpp_library.as_path());
    let krate = ("crate", programs.crate_library.as_path());
    let command = |program: &Path, script: Option<&Path>, libraries: &[(&str, &Path)]| {
        let mut command: Command = workspace.command(program);
        command.args(script);
        command.args(libraries.iter().map(|(name, path)| format!("{name}={}", path.display())));
        // The crate's programs have no search path for the library that they link.
        command.env("LD_LIBRARY_PATH", python.tvm_ffi_library_folder());
        command
    };
    // Our own host needs no library: it gets no search path.
    let mut ours = command(&programs.kernpack_caller, None, &[kernpack]);
    ours.env_remove("LD_LIBRARY_PATH");
    let all = [kernpack, cpp, krate];
    Ok([
        Caller::start("the Kernpack caller", &mut ours)?,
        Caller::start("the C++ caller", &mut command(&programs.cpp_caller, None, &all))?,
        Caller::start("the tvm-ffi crate's caller", &mut command(&programs.crate_caller, None, &[krate]))?,
        Caller::start("the Python caller", &mut command(python.interpreter(), Some(&programs.python_caller), &all))?,
    ])
}

/// Finds each case's batch size, then runs the rounds. Each round starts with another case, so that
/// no case always follows the same one.
fn measure(callers: &mut [Caller; 4], rounds: usize) -> Result<Vec<Samples>> {
    println!("> measure {} cases in {rounds} rounds", CASES.len());
    let start = Instant::now();
    let mut iterations = Vec::new();
    for case in &CASES {
        let caller = &mut callers[case.caller];
        caller.measure(case.what, case.library, 100)?;
        let estimate = caller.measure(case.what, case.library, 200)?;
        iterations.push(((BATCH / estimate) as u64).clamp(50, 10_000_000));
    }
    let mut samples = vec![Samples::default(); CASES.len()];
    let mut last_print = Instant::now();
    for round in 0..rounds {
        for place in 0..CASES.len() {
            let index = (place + round) % CASES.len();
            let case = &CASES[index];
            samples[index].push(callers[case.caller].measure(case.what, case.library, iterations[index])?);
        }
        if last_print.elapsed().as_secs() >= 10 {
            println!("  ... round {} of {rounds}, {} s", round + 1, start.elapsed().as_secs());
            last_print = Instant::now();
        }
    }
    println!("  done in {:.1} s", start.elapsed().as_secs_f64());
    Ok(samples)
}

/// The samples of the case with this key.
fn find<'a>(samples: &'a [Samples], key: &str) -> &'a Samples {
    let index = CASES.iter().position(|case| case.key == key).unwrap_or_default();
    &samples[index]
}

/// The tables in Markdown.
fn report(samples: &[Samples], sizes: &[(&str, u64)], rounds: usize, machine: &str) -> String {
    let mut text = format!("What one call costs: medians of {rounds} interleaved rounds, one run ({machine}).\n");
    for table in Table::ALL {
        let title = table.title();
        let _ = write!(text, "\n| {title} | library | ns | 10 % to 90 % | ours / this |\n|---|---|---:|---:|---:|\n");
        for (case, numbers) in CASES.iter().zip(samples).filter(|(case, _)| case.table() == table) {
            let [median, low, high] = [numbers.median(), numbers.at(0.1), numbers.at(0.9)].map(nanoseconds);
            let ratio = find(samples, case.ours()).ratio(numbers);
            let _ = writeln!(text, "| {} | {} | {median} | {low} to {high} | {ratio:.2} |", case.from, case.to);
        }
    }
    let _ = write!(text, "\n| goal | limit | measured | |\n|---|---:|---:|---|\n");
    for Goal { text: goal, ours, theirs, limit } in GOALS {
        let ratio = find(samples, ours).ratio(find(samples, theirs));
        // The printed, rounded value decides: noise of half a percent does not break a goal of
        // 1.00.
        let printed = (ratio * 100.0).round() / 100.0;
        let _ = writeln!(text, "| {goal} | {limit:.2} | {printed:.2} | {} |", verdict(printed <= limit));
    }
    for (how, size) in sizes {
        let (limit, kilobytes) = (SIZE_LIMIT / 1000, size.div_ceil(1000));
        let verdict = verdict(*size <= SIZE_LIMIT);
        let _ = writeln!(
            text,
            "| a library like imagekit without kernels, {how} | {limit} KB | {kilobytes} KB | {verdict} |"
        );
    }
    text.push_str("\nRatios are medians of each round's ratio; \"ours / this\" compares with our call of the same kind, from native code or from Python. Repeat with `cargo xtask bench calls`.\n");
    text
}

/// Three significant digits.
fn nanoseconds(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_goals_name_them() {
        let mut keys: Vec<&str> = CASES.iter().map(|case| case.key).collect();
        for goal in &GOALS {
            assert!(keys.contains(&goal.ours) && keys.contains(&goal.theirs), "{}", goal.text);
        }
        for case in &CASES {
            assert!(keys.contains(&case.ours()), "{}", case.key);
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), CASES.len());
    }

    #[test]
    fn the_report_holds_ratios_and_verdicts() {
        let mut samples = vec![Samples::default(); CASES.len()];
        for (case, samples) in CASES.iter().zip(&mut samples) {
            let value = match case.key {
                "ours" => 4.0,
                "cpp inside" => 8.0,
                "crate" => 9.0,
                _ => 1000.0,
            };
            samples.push(value);
        }
        let report = report(&samples, &[("one way", 401_000), ("another", 399_001)], 1, "a machine");
        for expected in [
            "| our native call / C++ header `Function`, in process | 0.70 | 0.50 | met |",
            "| our native call / tvm-ffi crate, typed | 0.40 | 0.44 | missed |",
            "| Kernpack, typed | Kernpack library | 4.0 | 4.0 to 4.0 | 1.00 |",
            "| C++ `Function` | C++ lambda in process | 8.0 | 8.0 to 8.0 | 0.50 |",
            "| a library like imagekit without kernels, one way | 400 KB | 401 KB | missed |",
            "| a library like imagekit without kernels, another | 400 KB | 400 KB | met |",
        ] {
            assert!(report.contains(expected), "{expected}\n{report}");
        }
    }
}
