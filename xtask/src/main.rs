//! The tasks of this project: `cargo xtask demo | test | ci | differential | conformance | rpc |
//! ray | races | fuzz | valgrind | asan | pythons | bench calls | build | compiler | runtime |
//! models | modules | parallel | python | rpc | plots`.
//!
//! Everything that a command needs beyond Rust, a C compiler and Python 3.9 is installed below
//! `target/`, once. Packages that only Debian has (PoCL, a C compiler for another machine,
//! valgrind) are installed into the system if root runs the command.

mod aarch64;
mod again;
mod apache_tvm;
mod api;
mod artifacts;
mod asan;
mod bench;
mod beside;
mod book;
mod ci;
mod compilers;
mod conformance;
mod cross_compiler;
mod cuda;
mod debian;
mod debian_root;
mod demo;
mod deny;
mod differential;
mod environment;
mod extension;
mod floors;
mod fuzz;
mod gpu;
mod gpu_kit;
mod imagenet;
mod llvm_functions;
mod magika;
mod msrv;
mod node;
mod onnx;
mod opencl;
mod other_systems;
mod ports;
mod proved;
mod pytest;
mod python;
mod pythons;
mod quick;
mod races;
mod ray;
mod release;
mod reports;
mod reproducible;
mod rpc;
mod rpc_server;
mod runner;
mod rust_source;
mod rust_target;
mod scoreboard;
mod step;
mod times;
mod tool;
mod toolchains;
mod torch;
mod totals;
mod valgrind;
mod words;
mod workspace;

use proved::Choice;
use std::process::ExitCode;

/// The result of a command. An error ends it; its text names the problem and the remedy.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "usage: cargo xtask <command>

  demo          build examples/imagekit into one library, run its Rust and Python hosts on a photograph
  test          every test: Rust, documentation, compile-fail, C, C++, Python, the crate outside the workspace; the suites aarch64 and
                profiles are left out where they have passed with the same inputs (tests/passed), but with --all
  test --gpu    only the tests that launch CUDA kernels, and what a launch costs; without a GPU they say so
  gpu-kit       target/gpu-kit, a folder that a machine with a GPU runs without Rust, cargo or a network (tests/gpu/README.md);
                gpu-kit --check builds it and runs it here, against the stand-in for the driver
  test --aarch64  only the tests that build for 64-bit ARM, and run what they built under qemu
  ci            formatting, lints and documentation, then test, demo, races, fuzz for a minute, conformance, valgrind and asan; suites
                that have passed with the same inputs (tests/passed) are left out, but with --all
  ci --quick    before a commit, at most 8 minutes: formatting, lints, floors, words, msrv, API, links of the book, and the tests of xtask and of packages that changed
  floors        check that each room imports only from floors below it, as ARCHITECTURE.md orders them
  words         check comments and Markdown: first words, 100 columns, terms; words PATH.. lists the problems of these files,
                words --wrap [PATH..] wraps comments of Rust files
  compilers     GCC and Clang of Debian sid on all C and C++: headers, examples, tests, the book, what kernpack-compiler generates
  msrv          check that published crates need no newer Rust than their manifests name, nor more than docs/supported-rust.md promises
  systems       check that runtime, macros and build helper compile for macOS and Windows; nothing is linked or run
  api           compare the public API with runtime/api.txt, macros/api.txt and build-support/api.txt; api --write writes them anew
  deny          check licences, versions and sources in every lock file with cargo-deny, by deny.toml
  llvm-functions  compare the functions of LLVM that we call with the list of kernpack-llvm-find; --write writes it anew
  toolchains    compiler, build helper, graphs and `cargo kernpack new` with Rust, compilers and LLVM 22 and 23 of Debian unstable, in a root that
                it makes: toolchains [22 | 23]..; part of ci --all
  book          build the book of docs/ with mdBook into target/book, and check its links and its list of environment variables
  book blocks   compile or run every block of every page: book blocks [PAGE...]
  conformance   the reference suites with our libtvm_ffi.so: conformance [python | rust | cpp] (--stock, --library FILE, --filter TEXT)
  races         loom on the lock-free protocols, ThreadSanitizer on threads that register and look up
  extension     tests/python_extension in four environments: beside tvm_ffi, with PyTorch and JAX, without tvm_ffi, and with the standard library alone
  pythons       the extension module under Pythons of Debian unstable (3.13, 3.14, 3.15), PyPy, which refuses it, and 3.13 without the interpreter's
                lock, built from Debian's source (a quarter of an hour): pythons [3.13 | 3.14 | 3.15 | pypy3 | 3.13t | 3.13t-tsan]..
  ports         packages of PyPI that are made with PyO3, moved to our extension module and judged by their own tests, beside PyPI's wheels
                (tests/ports/README.md): ports [NAME]..; part of ci --all
  filetype      install the model of examples/filetype, build it, and say what kinds of files these are: filetype [PATH..];
                filetype --wheel makes the wheel filetype-kernpack of it, and tries it in a fresh environment
  imagenet      make a ResNet-18 with seeded weights, build examples/imagenet with it, say what is in photographs, and compare that with
                onnxruntime: imagenet [PATH..]
  onnx          the node tests of ONNX 1.23.2, beside the list of those that pass (WORD.. runs those with a word in their names, --write writes the list);
                onnx --scoreboard runs those of ONNX's backend scoreboard through its Python interface, and writes target/onnx-scoreboard/report.json
  differential  random operators, graphs and near misses of rewritten patterns beside onnxruntime and ONNX's reference evaluator, for 5 minutes;
                findings go to target/differential: differential [--seconds N | --cases N] [--seed N] [--kind KIND] [--word WORD] [--replay NAME..]
  accuracy      the models of bench models beside onnxruntime without its optimizations: at most ten times its own difference with them
  rpc           the tests of runtime/rpc with the server and client of Apache TVM: rpc [WORD..] runs those with a word in their names, rpc --soak
                those that show that nothing is left behind, with the whole amount (minutes, 9 GiB of memory)
  rpc-server    kernpack-rpc-server as one file for boards, at most 2 MB: rpc-server [--target TARGET] (x86-64 and AArch64)
  ray           the batch job of examples/ray on a cluster of two Ray nodes on this machine, with a worker killed in the middle
  fuzz          libFuzzer on the readers of foreign data: fuzz [json | json_graph | dtype | dlpack | library_bin | device_image | module_tree | rpc | onnx] (--seconds N, --merge)
  valgrind      the reference Rust suite and the C host under memcheck, with our libtvm_ffi.so
  asan          the reference Python and C++ suites with our libtvm_ffi.so built under AddressSanitizer; asan extension: the tests of the extension
                module that take memory away while it is used, with threads that do so for 5 seconds
  release       what a release uploads, without uploading it: manifests and licences checked, each crate packed and built from its package, in
                order, and what is left to do by hand
  reproducible  libraries and wheels of five examples, built from copies in two folders, are the same byte for byte
  bench calls   what a call costs, beside the C++ headers and the tvm-ffi crate (--rounds N, default 31)
  bench runtime our libtvm_ffi.so beside the stock one, from C and from Python (--rounds N, default 15)
  bench modules loading, looking up and serializing modules, beside the stock loader and Apache TVM (--rounds N, default 11)
  bench compiler kernels from tensor expressions, beside NumPy, onnxruntime and PyTorch, with 1 and 2 threads (--rounds N, default 9);
                PyPI's PyTorch takes 5 GB below target/: --without-torch leaves it out, --torch-compile measures torch.compile as well; --rows WORD,.. measures
                rows with one of these words in their names; --through 'PROGRAM ARGUMENT..' has the measurements run by a program
  bench models  whole models beside onnxruntime, with 1 and 2 threads, and tract, if it was built; writes its section of docs/performance.md (--rounds N, default 9)
  bench tract   builds tract for bench models, a quarter of an hour
  bench build   what compiling a model costs in a build script: time for ResNet-18, memory for a model of 500 MB; writes its section of docs/performance.md
  bench parallel loops over slices and tensors on all CPUs, beside rayon (--rounds N, default 31)
  bench python  a library that Python imports, beside PyO3, nanobind and tvm_ffi; writes its section of docs/performance.md (--rounds N, default 15)
  bench rpc     calls and copies with RPC servers, ours and Apache TVM's, each with each (--rounds N, default 3)
  bench size    what a library weighs, by room of the runtime; bench size --check, a part of ci, compares the smallest one with
                tests/bench/size-budgets.txt
  bench plots   draws the tables of docs/performance.md into docs/plots
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["demo"] => demo::run(),
        ["test"] => runner::run(Choice::Changed),
        ["test", "--all"] => runner::run(Choice::Every),
        ["test", "--gpu"] => gpu::run(),
        ["gpu-kit", ref rest @ ..] => gpu_kit::run(rest),
        ["test", "--aarch64"] => aarch64::run(),
        ["ci"] => ci::run(Choice::ChangedAndRecord),
        ["ci", "--all"] => ci::run(Choice::EveryAndRecord),
        ["ci", "--quick"] => quick::run(),
        ["floors"] => floors::run(),
        ["words", ref rest @ ..] => words::run(rest),
        ["systems"] => environment::Environment::prepare().and_then(|environment| other_systems::run(&environment)),
        ["msrv"] => msrv::run(),
        ["compilers"] => compilers::run(),
        ["api"] => api::run(false),
        ["api", "--write"] => api::run(true),
        ["deny"] => deny::run(),
        ["llvm-functions"] => llvm_functions::run(false),
        ["llvm-functions", "--write"] => llvm_functions::run(true),
        ["toolchains", ref majors @ ..] => toolchains::run(majors),
        ["extension"] => extension::run(),
        ["book", ref rest @ ..] => book::run(rest),
        ["conformance", ref rest @ ..] => conformance::Run::parse(rest).and_then(|run| conformance::run(&run)),
        ["filetype", ref rest @ ..] => magika::run(rest),
        ["imagenet", ref paths @ ..] => imagenet::run(paths),
        ["onnx", ref rest @ ..] => onnx::run(rest),
        ["differential", ref rest @ ..] => differential::run(rest),
        ["accuracy"] => bench::models::accuracy(),
        ["races"] => races::run(),
        ["release"] => release::run(),
        ["reproducible"] => reproducible::run(),
        ["ports", ref names @ ..] => ports::run(names),
        ["pythons", ref versions @ ..] => pythons::run(versions),
        ["ray"] => ray::run(),
        ["rpc", ref words @ ..] => rpc::run(words),
        ["rpc-server", ref rest @ ..] => rpc_server::run(rest),
        ["fuzz", ref rest @ ..] => fuzz::Run::parse(rest).and_then(|run| fuzz::run(&run)),
        ["asan", "extension"] => asan::extension(),
        ["asan", ref rest @ ..] => asan::run(rest),
        ["valgrind", ref rest @ ..] => valgrind::run(rest),
        ["bench", "calls"] => bench::calls::run(31),
        ["bench", "runtime"] => bench::runtime::run(15),
        ["bench", "build"] => bench::build::run(),
        ["bench", "models"] => bench::models::run(9),
        ["bench", "tract"] => bench::models::build_tract(),
        ["bench", "modules"] => bench::modules::run(11),
        ["bench", "compiler", ref words @ ..] => bench::compiler::run(words),
        ["bench", "parallel"] => bench::parallel::run(31),
        ["bench", "python"] => bench::extension::run(15),
        ["bench", "rpc"] => bench::rpc::run(3),
        ["bench", "plots"] => bench::plots::run(),
        ["bench", "size"] => bench::size::run(),
        ["bench", "size", "--check"] => bench::size::check(),
        [
            "bench",
            what @ ("calls" | "runtime" | "models" | "modules" | "parallel" | "python" | "rpc"),
            "--rounds",
            rounds,
        ] => match rounds.parse() {
            Ok(rounds @ 1..) if what == "calls" => bench::calls::run(rounds),
            Ok(rounds @ 1..) if what == "runtime" => bench::runtime::run(rounds),
            Ok(rounds @ 1..) if what == "models" => bench::models::run(rounds),
            Ok(rounds @ 1..) if what == "modules" => bench::modules::run(rounds),
            Ok(rounds @ 1..) if what == "python" => bench::extension::run(rounds),
            Ok(rounds @ 1..) if what == "rpc" => bench::rpc::run(rounds),
            Ok(rounds @ 1..) => bench::parallel::run(rounds),
            _ => Err(format!("--rounds: expected a positive number, got '{rounds}'").into()),
        },
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => Err(format!("unknown command '{}'\n{USAGE}", arguments.join(" ")).into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
