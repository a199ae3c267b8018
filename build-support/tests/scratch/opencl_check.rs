//! OpenCL C sources, which the build compiles as a check if the machine has a device.

use kernpack_skip::skip;

use crate::package::Package;

fn package(name: &str, files: &[(&str, &str)]) -> Package {
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let mut package = Package::new(name, &format!(".opencl({names:?})")).with_opencl();
    for (name, text) in files {
        package = package.file(name, text);
    }
    package
}

/// Returns the lines about compilers in the last output of the build script.
fn compiled(package: &Package) -> Vec<String> {
    let lines = package.script_output();
    let lines = lines.lines().filter_map(|line| line.strip_prefix("kernpack: "));
    lines.filter(|line| line.contains("compiled by") || line.contains("not checked")).map(str::to_owned).collect()
}

/// Returns the name of the device in the last output of the build script. Without a device, prints
/// a line about the skipped test and returns `None`.
pub(crate) fn device(package: &Package) -> Option<String> {
    let line = compiled(package).into_iter().find(|line| line.contains("OpenCL")).unwrap_or_default();
    let device = line.split_once("compiled by OpenCL on ").and_then(|(_, rest)| rest.rsplit_once(" in "));
    if device.is_none() {
        assert!(std::env::var("KERNPACK_OPENCL").as_deref() != Ok("require"), "{line}");
        skip(&line);
    }
    device.map(|(device, _)| device.to_owned())
}

const GOOD: &str = "__kernel void good(__global float* a) { a[0] = 1; }\n";

#[test]
fn mistakes_of_all_sources_are_errors_of_the_build() {
    let package = package("opencl-check", &[("kernels/a.cl", GOOD), ("kernels/b.cl", &GOOD.replace("good", "b"))]);
    package.build();
    let Some(device) = device(&package) else { return };
    assert_eq!(compiled(&package).len(), 2);
    let again = package.cargo(&["build", "-v"], &[]);
    assert!(again.success && !again.did_work(), "{}", again.stderr);
    // One changed source is compiled again; the other is a cache hit.
    package.write("kernels/a.cl", &GOOD.replace("= 1", "= 2"));
    package.build();
    let [line] = &compiled(&package)[..] else { panic!("{:?}", compiled(&package)) };
    assert!(line.starts_with("kernels/a.cl compiled by OpenCL on "), "{line}");

    package.write("kernels/a.cl", "__kernel void good(__global float* a) {\n  a[0] = nothing;\n}\n");
    package.write("kernels/b.cl", "__kernel void b(__global float* a) {\n  int x = 1\n}\n");
    let message = package.failure(&[]);
    // The compiler of PoCL is clang; other drivers have other messages.
    if device.contains("Portable Computing Language") {
        let said = |file: &str, status: &str, place: &str| {
            let name = device.split(" (").next().unwrap_or_default();
            // The name of the device itself contains parentheses.
            let name = device.rsplit_once(" (").map_or(name, |(name, _)| name);
            format!(
                "{file}: OpenCL C for {device}: clBuildProgram failed ({status})\n    error: {file}:{place}\n    Device {name} failed \
                 to build the program"
            )
        };
        assert_eq!(
            message,
            format!(
                "Error: 2 problems\n\n{}\n\n{}",
                said("kernels/a.cl", "-11", "2:10: use of undeclared identifier 'nothing'"),
                said("kernels/b.cl", "-11", "2:12: expected ';' at end of declaration")
            )
        );
    } else {
        assert!(message.contains("kernels/a.cl") && message.contains("kernels/b.cl"), "{message}");
    }
    // Without the check, the library builds.
    package.build_with(&["build"], &[("KERNPACK_OPENCL", "off")]);
    assert_eq!(compiled(&package), Vec::<String>::new());
}

#[test]
fn a_machine_without_opencl_builds_it_too() {
    let package = package("no-opencl", &[("a.cl", GOOD)]);
    let library = package.dir.join("libs").join("libOpenCL.so.1");
    let absent = [("KERNPACK_OPENCL_LIBRARY", library.to_str().unwrap()), ("KERNPACK_OPENCL", "auto")];
    package.build_with(&["build"], &absent);
    let reason = "there is no OpenCL library (libOpenCL.so.1) on this machine; install the loader (Debian and Ubuntu: ocl-icd-libopencl1) \
                  and the driver of a device (for the CPU: pocl-opencl-icd)";
    assert_eq!(compiled(&package), [format!("OpenCL C is not checked: {reason}")]);
    let again = package.cargo(&["build", "-v"], &absent);
    assert!(again.success && !again.did_work(), "{}", again.stderr);
    let required = [absent[0], ("KERNPACK_OPENCL", "require")];
    assert_eq!(package.failure(&required), format!("Error: a.cl: KERNPACK_OPENCL=require, but {reason}"));
    assert_eq!(
        package.failure(&[("KERNPACK_OPENCL", "maybe")]),
        "Error: KERNPACK_OPENCL is \"maybe\"; it may be auto, require or off"
    );
    // A library that is installed later is noticed.
    package.build_with(&["build"], &absent);
    package.write("libs/libOpenCL.so.1", "no library");
    package.build_with(&["build"], &absent);
    let name = library.display();
    assert_eq!(
        compiled(&package),
        [format!(
            "OpenCL C is not checked: the OpenCL drivers of this machine cannot be asked for their devices: {name} cannot be loaded"
        )]
    );
}

/// The process that queries the drivers runs the executable of the build script, too, but not the
/// code of the user.
#[test]
fn main_of_the_build_script_runs_once() {
    let package = package("opencl-once", &[("a.cl", GOOD)]);
    let script = std::fs::read_to_string(package.dir.join("build.rs")).unwrap();
    let mark = "{\n    std::fs::write(format!(\"main-{}\", std::process::id()), \"\").unwrap();\n";
    package.write("build.rs", &script.replacen("{\n", mark, 1));
    package.build();
    let files = std::fs::read_dir(&package.dir).unwrap().map(|entry| entry.unwrap().file_name());
    let runs = files.filter(|name| name.to_string_lossy().starts_with("main-")).count();
    assert_eq!(runs, 1);
    // Prints a line if there was no device to query.
    let _ = device(&package);
}

#[test]
fn the_check_is_a_feature() {
    let package = package("opencl-feature", &[("a.cl", GOOD)]);
    let manifest = std::fs::read_to_string(package.dir.join("Cargo.toml")).unwrap();
    let without = manifest.replace("/build-support', features = [\"opencl\"] }", "/build-support' }");
    assert_ne!(without, manifest);
    package.write("Cargo.toml", &without);
    let reason = "kernpack-build was built without its feature `opencl`";
    assert_eq!(
        package.failure(&[("KERNPACK_OPENCL", "require")]),
        format!("Error: a.cl: KERNPACK_OPENCL=require, but {reason}")
    );
    package.build_with(&["build"], &[("KERNPACK_OPENCL", "auto")]);
    assert_eq!(compiled(&package), [format!("OpenCL C is not checked: {reason}")]);
}

/// Drivers that crash, hang or find nothing.
#[cfg(target_os = "linux")]
#[test]
fn drivers_that_end_their_process() {
    let package = package("opencl-crash", &[("a.cl", GOOD)]);
    let library = package.dir.join("libcrash.so");
    let compile = |text: &str| {
        package.write("crash.c", text);
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg("crash.c");
        assert!(compiler.current_dir(&package.dir).status().unwrap().success());
    };
    let variables = |policy| [("KERNPACK_OPENCL_LIBRARY", library.to_str().unwrap()), ("KERNPACK_OPENCL", policy)];
    let asked = "the OpenCL drivers of this machine cannot be asked for their devices: ";
    // The driver aborts while it is queried.
    compile(
        "#include <stdio.h>\n#include <stdlib.h>\nint clGetPlatformIDs(unsigned n, void** p, unsigned* c) { fprintf(stderr, \"out of luck\\n\"); abort(); }\n",
    );
    let end = "the driver ended its process (signal: 6 (SIGABRT) (core dumped)); it said last: out of luck";
    let message = package.failure(&variables("require")).replace("(SIGABRT))", "(SIGABRT) (core dumped))");
    assert_eq!(message, format!("Error: a.cl: KERNPACK_OPENCL=require, but {asked}{end}"));
    package.build_with(&["build"], &variables("auto"));
    // The driver has no platform.
    compile("int clGetPlatformIDs(unsigned n, void** p, unsigned* c) { return -1001; }\n");
    let message = package.failure(&variables("require"));
    assert_eq!(
        message,
        "Error: a.cl: KERNPACK_OPENCL=require, but no OpenCL platform of this machine has a device with a compiler"
    );
    // The driver ends its process while it compiles.
    compile(
        "#include <stdlib.h>\n#include <string.h>\n\
         int clGetPlatformIDs(unsigned n, void** p, unsigned* c) { if (c) *c = 1; if (p) *p = p; return 0; }\n\
         int clGetDeviceIDs(void* f, unsigned long t, unsigned n, void** p, unsigned* c) { if (c) *c = 1; if (p) *p = p; return 0; }\n\
         int clGetPlatformInfo(void* o, unsigned w, size_t s, void* v, size_t* n) { if (n) *n = 4; if (v) memcpy(v, \"Bad\", 4); return 0; }\n\
         int clGetDeviceInfo(void* o, unsigned w, size_t s, void* v, size_t* n) { if (n) *n = 4; if (v) memcpy(v, \"Dev\", 4); return 0; }\n\
         void* clCreateContext(void) { abort(); }\n\
         void* clCreateProgramWithSource(void) { return 0; }\nint clBuildProgram(void) { return 0; }\nint clGetProgramBuildInfo(void) { return -1; }\n",
    );
    let problem = "a.cl: the OpenCL driver of Dev (Bad Dev) did not compile it: the driver ended its process (signal: 6 (SIGABRT) (core \
                   dumped)). KERNPACK_OPENCL=off leaves this check out";
    let message = package.failure(&variables("require")).replace("(SIGABRT))", "(SIGABRT) (core dumped))");
    assert_eq!(message, format!("Error: {problem}"));
    let built = package.cargo(&["build"], &variables("auto"));
    let warned = built.stderr.replace("(SIGABRT))", "(SIGABRT) (core dumped))");
    assert!(built.success && warned.contains(&format!("warning: opencl-crash@0.1.0: {problem}\n")), "{warned}");
}
