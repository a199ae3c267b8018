//! Kernels from tensor expressions in a build script: error messages with the lines of the user,
//! the cache, and the files that are written for users.

use std::fs;
use std::path::Path;

use expect_test::expect;

use crate::caching::compiled;
use crate::other_machine::{TE_PROGRAM_PRINTS, te_program};
use crate::package::Package;

/// Returns a package whose build script begins with `use te::*` and adds these kernels.
fn package(name: &str, calls: &str) -> Package {
    let package = Package::new(name, calls);
    let script = fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &format!("use kernpack_build::te::*;\n{script}"));
    package
}

/// A kernel for one vector.
fn elementwise(name: &str, body: &str) -> String {
    format!(
        "
        .te(\"{name}\", |k| {{
            let n = k.size(\"n\");
            let x = k.input(\"x\", [&n], F32);
            k.output(\"out\", compute([&n], |[i]| {body}).named(\"out\"));
            Ok(())
        }})"
    )
}

#[test]
fn all_mistakes_of_a_build_come_at_once_with_their_lines() {
    let calls = "
        .te(\"first\", |k| {
            let x = k.input(\"x\", [8], F32);
            let y = k.input(\"y\", [8], I32);
            k.output(\"out\", compute([8], |[i]| x.at([&i]) + y.at([&i])));
            Ok(())
        })
        .te(\"good\", |k| {
            let x = k.input(\"x\", [8], F32);
            k.output(\"out\", compute([8], |[i]| x.at([&i]) * 2.0));
            Ok(())
        })
        .te(\"second\", |k| {
            let x = k.input(\"x\", [8, 4], F32);
            let out = compute([8, 4], |[i, j]| x.at([&i, &j]) * 2.0).named(\"out\");
            k.output(\"out\", out.clone());
            k.schedule(move |s, _| {
                let [i, _] = s.stage(&out).axes()?;
                s.stage(&out).split(&i, 4)?;
                s.stage(&out).vectorize(&i)?;
                Ok(())
            });
            Ok(())
        })
        .te(\"third\", |k| {
            let x = k.input(\"x\", [8], F32);
            let wrong = x.at([1, 2]);
            k.output(\"out\", compute([8], |_| &wrong + 1.0));
            Ok(())
        })
        .te(\"fourth\", |_| Ok(()))
        .te(\"fifth\", |k| {
            let x = k.input(\"x\", [8], F32);
            k.output(\"out\", compute([8], |[i]| x.at([&i]) + 1.0));
            k.schedule(|s, _| {
                let stage = s.stages().next_back().unwrap();
                let [i] = s.stage(stage).axes()?;
                s.stage(stage).split(&i, 0).map(drop)
            });
            Ok(())
        })
        ";
    let package = package("te-mistakes", calls);
    expect![[r#"
        Error: 5 problems

        TypeError: `+` of f32 and i32
          --> build.rs:7:48
           = operands have one type: write `.cast(F32)` on one of them

        ScheduleError: vectorize: `i` of stage `out` is no longer a loop
          --> build.rs:22:31
           = it was split into `i.outer` and `i.inner` at build.rs:21:31
           = loops of `out` now: i.outer, i.inner, j

        TypeError: `x` has 1 dimension, got 2 indices
          --> build.rs:29:27
           = write `.at` with 1 index

        TypeError: kernel `fourth` has no output
          --> build.rs:33:10
           = name what is computed: `k.output("out", tensor)`

        ScheduleError: split: the factor for `i` is 0
          --> build.rs:40:32
           = loops of `compute` now: i
           = it is 1 or more
    "#]]
    .assert_eq(&package.message(&[]));
}

#[test]
fn one_changed_kernel_is_compiled_alone() {
    let calls = format!(
        "{}{}.multiversion([\"x86-64-v3\"])",
        elementwise("one", "x.at([&i]) * 2.0"),
        elementwise("two", "exp(x.at([&i]))")
    );
    let package = package("te-cache", &calls);
    package.forget();
    let build = |variables: &[(&str, &str)]| compiled(&package, &package.cargo(&["build"], variables));
    let (one, two) = ("build.rs:4 (te `one`)", "build.rs:10 (te `two`)");
    let levels = |sources: &[&str]| -> Vec<String> {
        let mut all: Vec<String> =
            sources.iter().flat_map(|source| [(*source).to_owned(), format!("{source} (x86-64-v3)")]).collect();
        all.sort();
        all
    };
    assert_eq!(build(&[]).0, levels(&[one, two]));
    let script = package.dir.join("build.rs");
    let text = fs::read_to_string(&script).unwrap();
    // Another build script with the same kernels.
    fs::write(&script, format!("{text}// nothing\n")).unwrap();
    assert_eq!(build(&[]), (Vec::new(), 4));
    fs::write(&script, text.replace("* 2.0", "* 3.0")).unwrap();
    assert_eq!(build(&[]), (levels(&[one]), 2));
    fs::write(&script, &text).unwrap();
    assert_eq!(build(&[]), (Vec::new(), 4), "the old one is still in the cache");
    // Dumps do not cause a new compilation.
    assert_eq!(build(&[("KERNPACK_DUMP_PASSES", "1")]), (Vec::new(), 4));
    // The schedule is a part of the key of the cache.
    let scheduled = text.replacen(
        "            Ok(())",
        "            k.schedule(|s, _| {
                let stage = s.stages().next_back().unwrap();
                let [i] = s.stage(stage).axes()?;
                s.stage(stage).split(&i, 4).map(drop)
            });
            Ok(())",
        1,
    );
    fs::write(&script, scheduled).unwrap();
    let (sources, hits) = build(&[]);
    assert_eq!((sources.iter().filter(|source| source.contains("`one`")).count(), hits > 0), (2, true), "{sources:?}");
}

#[test]
fn notes_and_dumps_are_listed() {
    let calls = format!("{}.multiversion([\"x86-64-v3\"])", elementwise("one", "x.at([&i]) * 2.0"));
    let package = package("te-outputs", &calls);
    let listed = |variables: &[(&str, &str)]| -> Vec<(String, String)> {
        package.build_with(&["build"], variables);
        let list = fs::read_to_string(package.out_dir().join("kernpack/outputs.json")).unwrap();
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let outputs = list["outputs"].as_array().unwrap().iter();
        let of_kernel = outputs
            .filter(|output| output["kernels"].as_array().is_some_and(|kernels| kernels.contains(&"one".into())));
        of_kernel
            .map(|output| {
                let path = Path::new(output["path"].as_str().unwrap());
                assert_eq!(fs::metadata(path).unwrap().len(), output["bytes"].as_u64().unwrap(), "{}", path.display());
                assert_eq!(output["source"], "build.rs:4 (te `one`)");
                let inside = path.strip_prefix(package.out_dir().join("kernpack")).unwrap();
                (output["kind"].as_str().unwrap().to_owned(), inside.display().to_string())
            })
            .collect()
    };
    let kinds = |outputs: &[(String, String)], kind: &str| -> Vec<String> {
        outputs.iter().filter(|(of, _)| of == kind).map(|(_, path)| path.clone()).collect()
    };
    let plain = listed(&[]);
    assert_eq!(kinds(&plain, "notes"), ["one/baseline.notes.txt", "one/x86-64-v3.notes.txt"]);
    assert_eq!(kinds(&plain, "object"), ["te0_one.o", "te0_one.x86-64-v3.o"]);
    assert!(kinds(&plain, "kir").is_empty(), "{plain:?}");

    let dumped = listed(&[("KERNPACK_DUMP_PASSES", "1")]);
    let dumps = kinds(&dumped, "kir");
    for level in ["baseline", "x86-64-v3"] {
        let of_level: Vec<&String> = dumps.iter().filter(|path| path.starts_with(&format!("one/{level}."))).collect();
        assert!(of_level.len() > 5, "{dumps:?}");
        assert_eq!(of_level[0], &format!("one/{level}.00_Flat.kir"));
        let text = fs::read_to_string(package.out_dir().join("kernpack").join(of_level[0])).unwrap();
        assert!(text.starts_with("func one(x: f32[n] align 4, out: mut f32[n] align 4) {\n"), "{text}");
    }
    let notes = fs::read_to_string(package.out_dir().join("kernpack/one/baseline.notes.txt")).unwrap();
    assert!(notes.contains("stage `out`: rule `elementwise`\n"), "{notes}");
}

/// Without a loader that passes the address of the runtime to the code, the linker resolves the
/// functions for errors, threads and packed functions.
#[test]
fn kernels_run_in_a_program_too() {
    assert_eq!(te_program("te-in-program").run(&[]), TE_PROGRAM_PRINTS);
}
