//! The headers, macros and options of OpenCL C sources, which are used in the build and again in
//! the process that loads the library.

use crate::opencl_check::device;
use crate::package::Package;

/// A kernel that uses a header of the include folder, one beside the source and one that only hosts
/// have, two macros of build.rs and two options.
const KERNEL: &str = r#"#include <area.h>
#include "beside.h"
#include "beside.h"

/* Fills a vector. */
__kernel void fill_all(__global float* out, float x) {
  out[get_global_id(0)] = AREA(x) + BESIDE + OFFSET + (__OPENCL_C_VERSION__ == 120 ? 0.5f : 0.25f) + SWITCH;
}
"#;

const AREA: &str = r#"#ifndef AREA_H
#define AREA_H
#ifndef __OPENCL_VERSION__
#include <stdint.h>
#endif
#include "inner.h" /* which includes this one */
#define AREA(x) (SQUARE(x))
#endif
"#;

const MAIN: &str = r#"
fn main() -> kernpack::Result<()> {
    let out = kernpack::Tensor::empty(kernpack::DataType::FLOAT32, &[2], "opencl:0".parse()?)?;
    NAME::kernels::fill_all.launch(1, 2, (&out, 3.0))?;
    println!("{:?}", out.to(kernpack::Device::CPU)?.view::<f32>()?.to_vec());
    Ok(())
}
"#;

fn package(name: &str, calls: &str) -> Package {
    Package::new(name, &format!(".opencl([\"kernels/fill.cl\"]).include(\"include\"){calls}"))
        .with_opencl()
        .file("kernels/fill.cl", KERNEL)
        .file("kernels/beside.h", "#pragma once\n/* A type can be defined once only. */\ntypedef struct { int a; } beside;\n#define BESIDE 1000\n")
        .file("include/area.h", AREA)
        .file("include/inner.h", "#pragma once\n#include \"area.h\"\n#define SQUARE(x) ((x) * (x))\n")
        .file("src/main.rs", &MAIN.replace("NAME", &name.replace('-', "_")))
}

const GOOD: &str =
    ".define(\"OFFSET\", \"100\").define(\"SWITCH\", None).opencl_option(\"-cl-std=CL1.2\").opencl_option(\"-Werror\")";

#[test]
fn headers_macros_and_options_travel() {
    let package = package("opencl-text", GOOD);
    package.build();
    let Some(_) = device(&package) else { return };
    assert_eq!(package.run(&[]), "[1110.5, 1110.5]\n");
    let again = package.cargo(&["build", "-v"], &[]);
    assert!(again.success && !again.did_work(), "{}", again.stderr);
    // A header that is included by a header.
    package.write("include/inner.h", "#define SQUARE(x) ((x) * (x) * (x))\n");
    assert_eq!(package.run(&[]), "[1128.5, 1128.5]\n");
    // A macro with a new value in the build script.
    let script = std::fs::read_to_string(package.dir.join("build.rs")).unwrap();
    package.write("build.rs", &script.replace("\"100\"", "\"200\"").replace("CL1.2", "CL1.1"));
    assert_eq!(package.run(&[]), "[1228.25, 1228.25]\n");
}

#[test]
fn mistakes_are_told_where_they_are() {
    let package = package("opencl-text-mistakes", GOOD);
    let script = std::fs::read_to_string(package.dir.join("build.rs")).unwrap();
    let failure = |file: &str, text: &str| {
        let before = std::fs::read_to_string(package.dir.join(file)).unwrap();
        package.write(file, text);
        let message = package.failure(&[]);
        package.write(file, &before);
        message
    };
    assert_eq!(
        failure("kernels/fill.cl", &KERNEL.replace("<area.h>", "<aera.h>")),
        "Error: kernels/fill.cl:1: there is no header `aera.h` beside the file, nor in a folder of .include(..); OpenCL C has none of its own, and \
         what is included travels in the library"
    );
    assert_eq!(
        failure("include/inner.h", "#include \"nested.h\"\n"),
        "Error: include/inner.h:1: there is no header `nested.h` beside the file, nor in a folder of .include(..); OpenCL C has none of its own, and \
         what is included travels in the library"
    );
    assert_eq!(
        failure("kernels/beside.h", "#define BESIDE 1\n#include \"beside.h\"\n"),
        "Error: kernels/beside.h:2: `beside.h` includes itself; write `#pragma once` into it"
    );
    assert_eq!(
        failure("kernels/fill.cl", &KERNEL.replace("fill_all", "mix")),
        "Error: kernels/fill.cl: the kernel `mix`: OpenCL C has a function `mix`, so that drivers do not find the kernel; give it another name, as in \
         `mix_kernel`"
    );
    assert_eq!(
        failure(
            "build.rs",
            &script.replace(".define(\"SWITCH\", None)", ".define(\"SWITCH 1\", None).define(\"2\", \"3\")")
        ),
        "Error: 2 problems\n\n.define(\"SWITCH 1\", ..): a macro's name has letters, digits and `_`, and begins with no digit; its value is the second \
         argument, as in .define(\"N\", \"16\")\n\n.define(\"2\", ..): a macro's name has letters, digits and `_`, and begins with no digit; its \
         value is the second argument, as in .define(\"N\", \"16\")"
    );
    assert_eq!(
        failure("build.rs", &script.replace("-Werror", "-Iinclude")),
        "Error: .opencl_option(\"-Iinclude\"): a device's compiler sees no folders; `.include(..)` names those of headers, which travel in the code"
    );
    package.build();
    let Some(device) = device(&package) else { return };
    let refused = |message: &str, words: &[&str]| {
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    let unknown = failure("build.rs", &script.replace("-Werror", "-cl-fast-math"));
    refused(&unknown, &["Error: kernels/fill.cl: OpenCL C for ", "-cl-std=CL1.2 -cl-fast-math"]);
    // The clang of PoCL reports the positions of errors.
    if device.contains("Portable Computing Language") {
        let header = failure("include/inner.h", "#pragma once\n\n#define SQUARE(x) ((x) * (y))\nint broken( {\n");
        refused(&header, &["error: include/inner.h:4:13: expected parameter declarator"]);
        let kernel = failure("kernels/fill.cl", &KERNEL.replace("SWITCH", "SWICH"));
        refused(&kernel, &["error: kernels/fill.cl:7:", "use of undeclared identifier 'SWICH'"]);
        let option_only =
            failure("build.rs", &script.replace(".define(\"OFFSET\", \"100\").define(\"SWITCH\", None)", ""));
        refused(&option_only, &["error: kernels/fill.cl:7:", "use of undeclared identifier 'OFFSET'"]);
    }
}
