//! The files that a build writes for users: the list of its outputs, and the compiler commands.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::package::{Package, c_kernel, ir_kernel};

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn package(name: &str, folder: &str) -> Package {
    let calls = ".c([\"a.c\", \"b.cpp\"]).llvm_ir([\"d.ll\"]).include(\"more headers\").define(\"X\", Some(\"a b\"))\
                 .import(&kernpack_build::Module::from_bytes(\"my.kind\", vec![1, 2])).compile_commands(\"../compile_commands.json\")";
    Package::in_folder(folder, name, calls)
        .file("a.c", &c_kernel(&format!("{name}_a"), "A").replacen('\n', "\n#include \"a.h\"\n", 1))
        .file("b.cpp", &c_kernel(&format!("{name}_b"), "1"))
        .file("d.ll", &ir_kernel(&format!("{name}_d")))
        .file("more headers/a.h", "#define A 1\n")
}

#[test]
fn everything_is_listed_and_every_command_runs() {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernpack-build/outputs/compile_commands.json");
    let _ = fs::remove_file(&shared);
    let first = package("first", "outputs/first");
    first.build();
    let list = read(&first.out_dir().join("kernpack/outputs.json"));
    assert_eq!(list["package"], "first");
    let shown: Vec<String> = list["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| {
            let path = text(&output["path"]);
            assert_eq!(fs::metadata(&path).unwrap().len(), output["bytes"].as_u64().unwrap(), "{path}");
            let path = Path::new(&path).strip_prefix(first.out_dir()).unwrap().display().to_string();
            format!("{} {path} {} {}", text(&output["kind"]), output["source"], output["kernels"])
        })
        .collect();
    assert_eq!(
        shown,
        [
            "object kernpack/c0_a.o \"a.c\" [\"first_a\"]",
            "object kernpack/c1_b.o \"b.cpp\" [\"first_b\"]",
            "object kernpack/llvm0_d.o \"d.ll\" [\"first_d\"]",
            "blob kernpack/devc.o null null",
            "archive libkernpack_first_kernels.a null null",
            "rust kernpack_library.rs null null",
            "compile_commands kernpack/compile_commands.json null null",
        ]
    );
    // `cargo build -vv` shows the same.
    let line = format!(
        "kernpack: made object {}/kernpack/c0_a.o ({} bytes) of a.c: first_a",
        first.out_dir().display(),
        list["outputs"][0]["bytes"]
    );
    assert!(first.script_output().lines().any(|other| other == line), "{line}\n{}", first.script_output());

    // The commands of two packages in one file. A second build does no work.
    let second = package("second", "outputs/second");
    second.build();
    for package in [&first, &second] {
        let again = package.cargo(&["build", "-v"], &[]);
        assert!(again.success && !again.did_work(), "{}", again.stderr);
    }
    let commands = read(&shared);
    let files: Vec<String> = commands.as_array().unwrap().iter().map(|command| text(&command["file"])).collect();
    let file = |package: &Package, name: &str| package.dir.join(name).display().to_string();
    let expected = [file(&first, "a.c"), file(&first, "b.cpp"), file(&second, "a.c"), file(&second, "b.cpp")];
    assert_eq!(files, expected);
    for command in commands.as_array().unwrap() {
        let output = text(&command["output"]);
        fs::remove_file(&output).unwrap();
        let words: Vec<String> = command["arguments"].as_array().unwrap().iter().map(text).collect();
        let ran = Command::new(&words[0]).args(&words[1..]).current_dir(text(&command["directory"])).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(fs::metadata(&output).unwrap().len() > 0, "{output}");
    }
    // A changed package replaces its own entries.
    let script = fs::read_to_string(first.dir.join("build.rs")).unwrap();
    first.write("build.rs", &script.replace("\"a.c\", ", ""));
    first.build();
    let commands = read(&shared);
    let files: Vec<String> = commands.as_array().unwrap().iter().map(|command| text(&command["file"])).collect();
    assert_eq!(files, [file(&second, "a.c"), file(&second, "b.cpp"), file(&first, "b.cpp")]);
    // The variable does the same for packages that do not request the file.
    let own = shared.with_file_name("own.json");
    let log = shared.with_file_name("log");
    let _ = fs::remove_file(&log);
    let variables =
        [("KERNPACK_COMPILE_COMMANDS", own.to_str().unwrap()), ("KERNPACK_PROGRESS", log.to_str().unwrap())];
    first.build_with(&["build"], &variables);
    assert_eq!(read(&own).as_array().unwrap().len(), 1);
    // The file has the lines that `cargo build -vv` shows.
    let lines = fs::read_to_string(&log).unwrap();
    let own_lines = first.script_output();
    assert!(lines.lines().count() > 3 && lines.lines().all(|line| own_lines.contains(line)), "{lines}");
    assert_eq!(
        first.failure(&[("KERNPACK_PROGRESS", "log"), ("KERNPACK_COMPILE_COMMANDS", "")]),
        "Error: KERNPACK_PROGRESS is \"log\"; it must be the absolute path of a file or a terminal"
    );
    assert_eq!(
        first.failure(&[("KERNPACK_COMPILE_COMMANDS", "own.json")]),
        "Error: KERNPACK_COMPILE_COMMANDS is \"own.json\"; it must be an absolute path, since all packages of a workspace share it"
    );
}
