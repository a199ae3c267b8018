//! The cache of compiled sources: cache hits, and changes that cause a new compilation.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::package::{Built, Package, c_kernel, ir_kernel};

/// Returns the sources that the last run of the build script compiled, and its cache hits.
pub(crate) fn compiled(package: &Package, built: &Built) -> (Vec<String>, usize) {
    assert!(built.success, "{}", built.stderr);
    let (mut sources, mut hits) = (Vec::new(), 0);
    for line in package.script_output().lines().filter_map(|line| line.strip_prefix("kernpack: ")) {
        match line.split_once(" compiled by ") {
            Some((source, _)) => sources.push(source.to_owned()),
            None => hits = line.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0),
        }
    }
    sources.sort();
    (sources, hits)
}

fn package(name: &str) -> Package {
    let calls = ".c([\"a.c\", \"b.c\", \"c.cpp\"]).llvm_ir([\"d.ll\"]).llvm(|context, module| {\n    \
                 kernpack_build_test(context, module)\n}).include(\"include\").include(\"more\")";
    let header = |text: String, name: &str| text.replacen('\n', &format!("\n#include \"{name}\"\n"), 1);
    let package = Package::new(name, calls)
        .file("a.c", &header(c_kernel("a", "A"), "a.h"))
        .file("b.c", &header(c_kernel("b", "B"), "b.h"))
        .file("c.cpp", &c_kernel("c", "1"))
        .file("d.ll", &ir_kernel("d"))
        .file("include/b.h", "#define B 1\n")
        .file("more/a.h", "#define A 1\n");
    let script = fs::read_to_string(package.dir.join("build.rs")).unwrap();
    let builder = "
use kernpack_build::inkwell::{AddressSpace, context::Context, module::Module};
fn kernpack_build_test<'ctx>(context: &'ctx Context, module: &Module<'ctx>) -> kernpack_build::Result<()> {
    let (i32, ptr) = (context.i32_type(), context.ptr_type(AddressSpace::default()));
    let packed = i32.fn_type(&[ptr.into(), ptr.into(), i32.into(), ptr.into()], false);
    let function = module.add_function(\"__tvm_ffi_e\", packed, None);
    let builder = context.create_builder();
    builder.position_at_end(context.append_basic_block(function, \"entry\"));
    builder.build_return(Some(&i32.const_zero()))?;
    Ok(())
}
";
    package.write("build.rs", &format!("{script}{builder}"));
    package.forget();
    package
}

#[test]
fn one_change_compiles_one_kernel() {
    let package = package("cache");
    let build = |variables: &[(&str, &str)]| compiled(&package, &package.cargo(&["build"], variables));
    let none: [&str; 0] = [];
    assert_eq!(build(&[]).0, ["a.c", "b.c", "build.rs:2", "c.cpp", "d.ll"]);

    // Only a new modification time.
    for file in ["a.c", "more/a.h", "d.ll"] {
        let file = fs::File::options().append(true).open(package.dir.join(file)).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
        assert_eq!(build(&[]), (none.map(str::to_owned).to_vec(), 5));
    }
    // One kernel, one header, and back again.
    package.write("b.c", &fs::read_to_string(package.dir.join("b.c")).unwrap().replace("{ return", "{  return"));
    assert_eq!(build(&[]), (vec!["b.c".to_owned()], 4));
    package.write("include/b.h", "#define B 2\n");
    assert_eq!(build(&[]), (vec!["b.c".to_owned()], 4));
    package.write("include/b.h", "#define B 1\n");
    assert_eq!(build(&[]), (Vec::new(), 5));
    package.write("d.ll", &ir_kernel("d").replace("ret i32 0", "ret i32 1"));
    assert_eq!(build(&[]), (vec!["d.ll".to_owned()], 4));
    // A header in a folder that is searched earlier is noticed the next time the build script runs.
    package.write("include/a.h", "#define A 7\n");
    package.write("d.ll", &ir_kernel("d"));
    assert_eq!(build(&[]), (vec!["a.c".to_owned()], 4));
    // Options for the C and C++ compilers; the cc crate passes CFLAGS to both.
    assert_eq!(build(&[("CFLAGS", "-DX=1")]).0, ["a.c", "b.c", "c.cpp"]);
    assert_eq!(build(&[]), (Vec::new(), 5));
    // Environment variables that compilers read.
    let more = package.dir.join("more").display().to_string();
    assert_eq!(build(&[("C_INCLUDE_PATH", &more)]).0, ["a.c", "b.c", "c.cpp"]);
    assert_eq!(package.build().packed_functions(), ["a", "b", "c", "d", "e"]);

    // Damaged, truncated and leftover files of the cache are ignored.
    let cache = package.out_dir().join("kernpack-cache");
    for (index, file) in files(&cache).into_iter().enumerate() {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, if index % 2 == 0 { &bytes[..bytes.len() / 2] } else { b"noise" }).unwrap();
        fs::write(file.with_extension("1-1.part"), &bytes).unwrap();
    }
    package.write("d.ll", &ir_kernel("d2"));
    assert_eq!(build(&[]).0, ["a.c", "b.c", "build.rs:2", "c.cpp", "d.ll"]);
    assert_eq!(package.build().packed_functions(), ["a", "b", "c", "d2", "e"]);
    assert!(!package.cargo(&["build", "-v"], &[]).did_work());
}

fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The warnings of the compiler are shown again on a cache hit.
#[test]
fn warnings_come_out_of_the_cache() {
    let package = Package::new("cached-warning", ".c([\"a.c\", \"b.c\"])")
        .file("a.c", &format!("{}static int unused;\n", c_kernel("a", "1")))
        .file("b.c", &c_kernel("b", "1"));
    package.forget();
    for value in ["1", "2"] {
        package.write("b.c", &c_kernel("b", value));
        let built = package.cargo(&["build"], &[]);
        assert!(built.success && built.stderr.contains("'unused' defined but not used"), "{}", built.stderr);
    }
    assert_eq!(compiled(&package, &package.cargo(&["build"], &[])), (vec!["b.c".to_owned()], 1));
}

#[cfg(unix)]
#[test]
fn no_more_compilers_than_cargo_allows() {
    let files: Vec<String> = (0..6).map(|number| format!("k{number}.c")).collect();
    let package = Package::new("jobs", &format!(".c({files:?})"));
    package.forget();
    let log = package.dir.join("log");
    let running = package.dir.join("running");
    fs::create_dir_all(&running).unwrap();
    // A compiler that logs the number of its running processes.
    package.script(
        "cc",
        &format!(
            "touch '{0}'/$$\nls '{0}' | wc -l >> '{1}'\nsleep 0.1\n/usr/bin/cc \"$@\"\ncode=$?\nrm '{0}'/$$\nexit $code\n",
            running.display(),
            log.display()
        ),
    );
    let compiler = package.dir.join("cc");
    for (jobs, most) in [("1", 1), ("3", 3)] {
        for (number, file) in files.iter().enumerate() {
            package.write(file, &c_kernel(&format!("k{number}"), jobs));
        }
        let built = package.cargo(&["build", "--jobs", jobs], &[("CC", compiler.to_str().unwrap())]);
        assert!(built.success, "{}", built.stderr);
        let counts = fs::read_to_string(&log).unwrap();
        assert!(counts.lines().count() >= 6);
        for count in counts.lines() {
            assert!(count.trim().parse::<usize>().unwrap() <= most, "{count} at a time with --jobs {jobs}");
        }
        fs::remove_file(&log).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_compiler_that_appears_later_is_noticed() {
    use std::os::unix::fs::PermissionsExt as _;

    let package = Package::new("new-compiler", ".c([\"a.c\"])").file("a.c", &c_kernel("a", "1"));
    package.forget();
    let places = ["flat", "deep/inner", "deep"].map(|folder| package.dir.join("places").join(folder));
    places.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    let later = package.dir.join("places/later/bin");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{}:{path}", places[0].display(), places[2].display(), later.display());
    let variables = [("PATH", path.as_str())];
    let build = || package.cargo(&["build", "-v"], &variables);
    assert_eq!(compiled(&package, &build()).0, ["a.c"]);
    for _ in 0..2 {
        let again = build();
        assert!(again.success && !again.did_work(), "{}", again.stderr);
    }
    // Writes a compiler that reports another version and runs the original compiler.
    let write = |path: PathBuf, version: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = format!(
            "#!/bin/sh\nfor a in \"$@\"; do if [ \"$a\" = --version ]; then echo {version}; exit 0; fi; done\nexec /usr/bin/cc \"$@\"\n"
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    // Each one precedes the last used compiler on PATH. The first folder does not exist yet.
    for (place, version) in [(later.join("cc"), "3"), (places[2].join("cc"), "4"), (places[0].join("cc"), "5")] {
        write(place, version);
        assert_eq!(compiled(&package, &build()).0, ["a.c"], "{version}");
        let again = build();
        assert!(again.success && !again.did_work(), "{}", again.stderr);
    }
    // Another version at the same path.
    write(places[0].join("cc"), "6");
    assert_eq!(compiled(&package, &build()).0, ["a.c"]);
}
