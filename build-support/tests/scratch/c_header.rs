//! Kernels from plain C functions: a header in the style of real libraries, called from Rust, and
//! the declarations in it that do not become kernels.

use crate::package::Package;

const HEADER: &str = r#"#ifndef AWK_H
#define AWK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define AWK_API __attribute__((visibility("default")))
#define AWK_VERSION 3
typedef double real_t;
typedef real_t sample;
typedef enum awk_mode { AWK_FAST, AWK_SLOW = 7 } awk_mode;
typedef struct awk_plan awk_plan;
typedef struct { double re, im; } cpx;
typedef double (*awk_callback)(double x, void* user);

static inline double twice(double x) { return 2.0 * x; }
AWK_API real_t mean_r(const sample* x, size_t n);
int32_t sum32(const int32_t *__restrict v, int n);
double dot4(double x[4], const double y[4]);
bool is_even(int n);
int all_of(const bool* mask, size_t n, bool empty);
int mode_of(enum awk_mode mode, awk_mode other);
void raw(void* data, size_t bytes);
float
multi_line(
    float a, /* first */
    float b  // second
);

awk_plan* awk_create(size_t n);
void awk_destroy(awk_plan *plan);
void map(double* x, size_t n, awk_callback f, void* user);
int log_it(int level, ...);
double norm(cpx z);
const char* awk_name(void);
void fill2(float rows[][3], int n);
char last(const char* text);
int64_t unknown(other_t x);
#ifdef __cplusplus
}
#endif
#endif
"#;

const SOURCE: &str = r#"#define other_t int
#include "awk.h"
#include <string.h>
real_t mean_r(const sample* x, size_t n) { double s = 0; for (size_t i = 0; i < n; i++) s += x[i]; return s / (double)n; }
int32_t sum32(const int32_t* restrict v, int n) { int s = 0; for (int i = 0; i < n; i++) s += v[i]; return s; }
double dot4(double x[4], const double y[4]) { double s = 0; for (int i = 0; i < 4; i++) s += x[i] * y[i]; return s; }
bool is_even(int n) { return n % 2 == 0; }
int all_of(const bool* mask, size_t n, bool empty) { for (size_t i = 0; i < n; i++) if (!mask[i]) return 0; return n ? 1 : empty; }
int mode_of(enum awk_mode mode, awk_mode other) { return (int)mode * 10 + (int)other; }
void raw(void* data, size_t bytes) { memset(data, 1, bytes); }
float multi_line(float a, float b) { return a - b; }
"#;

const MAIN: &str = r#"
use awk_header::kernels::typed::*;
use kernpack::{DataType, Device, Result, Tensor};

fn main() -> Result<()> {
    let x = Tensor::from_slice(&[1.0f64, 2.0, 3.0, 6.0], &[4])?;
    println!("{} {} {} {}", twice(4.0)?, mean_r(&x, 4)?, dot4(&x, &x)?, multi_line(3.0, 1.0)?);
    println!("{} {:?} {:?}", sum32(&Tensor::from_slice(&[1i32, 2], &[2])?, 2)?, is_even(4)?, is_even(5)?);
    println!("{} {}", all_of(&Tensor::empty(DataType::BOOL, &[0], Device::CPU)?, 0, true)?, mode_of(7, 1)?);
    let short = Tensor::empty(DataType::INT16, &[2], Device::CPU)?;
    raw(&short, 4)?;
    println!("{:?}", short.view::<i16>()?.to_vec());
    println!("{}", raw(&short, 5).unwrap_err().message());
    println!("{}", dot4(&Tensor::from_slice(&[1.0f64], &[1])?, &x).unwrap_err().message());
    Ok(())
}
"#;

fn package(name: &str, functions: &str) -> Package {
    Package::new(name, &format!(".c([\"awk.c\"])\n        .c_header(\"awk.h\", [{functions}])\n        "))
        .file(
            "awk.h",
            &HEADER.replace(
                "int64_t unknown(other_t x);\n",
                if name == "awk-header" { "" } else { "int64_t unknown(other_t x);\n" },
            ),
        )
        .file("awk.c", SOURCE)
}

#[test]
fn a_header_as_libraries_have_it() {
    let functions = "\"twice\", \"mean_r(x[n], n)\", \"sum32(v[n], n)\", \"dot4\", \"is_even\", \"all_of(mask[n], n)\", \"mode_of\", \
                     \"raw(data[bytes], bytes)\", \"multi_line\"";
    let package = package("awk-header", functions).file("src/main.rs", MAIN);
    package.build();
    assert_eq!(
        package.run(&[]),
        "8 3 50 2\n3 true false\n1 71\n[257, 257]\n\
         raw(data: Tensor, bytes: uint64): argument 'data': expected at least 5 bytes, got 4\n\
         dot4(x: Tensor[float64], y: Tensor[float64]): argument 'x': expected at least 4 elements, got 1\n"
    );
    // The library does not depend on the folder of the build.
    let out = package.out_dir();
    let generated = std::fs::read_to_string(out.join("kernpack_library.rs")).unwrap();
    assert!(
        generated.contains("\"OUT_DIR/kernpack/bridge-0.c\"") && !generated.contains(out.to_str().unwrap()),
        "{generated}"
    );
}

/// Overloads, enum types without the keyword `enum`, and `extern "C"`.
#[test]
fn a_header_in_cpp() {
    let header = "#pragma once\n#include <cstddef>\nextern \"C\" {\nenum color { RED, BLUE = 5 };\nint paint(color c, bool twice);\n}\n\
                  double sum(const double* x, std::size_t n);\nfloat sum(const float* x);\n";
    let source = "#include \"plus.hpp\"\nint paint(color c, bool twice) { return twice ? 2 * c : c; }\n\
                  double sum(const double* x, std::size_t n) { return n ? x[n - 1] : 0; }\n";
    let package = Package::new("cpp-header", ".c([\"plus.cc\"]).c_header(\"plus.hpp\", [\"paint\", \"sum(x[n], n)\"])")
        .file("plus.hpp", header)
        .file("plus.cc", source)
        .file(
            "src/main.rs",
            "use cpp_header::kernels::typed::*;\nfn main() -> kernpack::Result<()> {\n    let x = kernpack::Tensor::from_slice(&[1.0f64, 2.0], \
             &[2])?;\n    println!(\"{} {}\", paint(5, true)?, sum(&x, 2)?);\n    Ok(())\n}\n",
        );
    package.build();
    assert_eq!(package.run(&[]), "10 2\n");
}

#[test]
fn what_does_not_become_a_kernel_says_why() {
    let rows = [
        (
            "awk_create",
            "its result `awk_plan*` is a pointer; wrap it in an object type in Rust, or write a kernel that calls it",
        ),
        (
            "awk_destroy",
            "its parameter `awk_plan *plan` is a pointer to a struct; wrap it in an object type in Rust, or write a kernel that calls it",
        ),
        ("map(x[n], n)", "its parameter `awk_callback f` is a callback; write a kernel that calls it"),
        ("log_it", "it takes any number of arguments; write a kernel that calls it"),
        ("norm", "its parameter `cpx z` is a struct; write a kernel that calls it"),
        (
            "awk_name",
            "its result `const char*` is a pointer; wrap it in an object type in Rust, or write a kernel that calls it",
        ),
        (
            "fill2(rows[3*n])",
            "its parameter `float rows[][3]` is a pointer to pointers or arrays; write a kernel that calls it",
        ),
        ("last(text[0])", "its parameter `const char* text` is text; write a kernel that calls it"),
        (
            "unknown",
            "the type of its parameter `other_t x` is not known from this header; write a kernel that calls it",
        ),
        ("raw", "say how many bytes `data` leads to, as in \"raw(data[n], ...)\"; [0] where the function knows it"),
        ("AWK_VERSION", "`AWK_VERSION` is a macro; write a kernel that uses it"),
        ("memcpy", "the header declares no such function; headers that it includes are not read"),
    ];
    let names: Vec<String> = rows.iter().map(|(function, _)| format!("{function:?}")).collect();
    let package = package("awk-mistakes", &names.join(", "));
    let expected: Vec<String> =
        rows.iter().map(|(function, why)| format!("build.rs:3: awk.h: {function}: {why}")).collect();
    assert_eq!(package.failure(&[]), format!("Error: {} problems\n\n{}", rows.len(), expected.join("\n\n")));
    // An error of the C compiler in the header is reported with the line in the header.
    package.write("awk.h", "double twice(double x);\nint broken(;\n");
    package.write(
        "build.rs",
        &std::fs::read_to_string(package.dir.join("build.rs")).unwrap().replace(&names.join(", "), "\"twice\""),
    );
    let message = package.failure(&[]);
    assert!(message.contains("awk.h:2:12: error: "), "{message}");
    package.write(
        "build.rs",
        &std::fs::read_to_string(package.dir.join("build.rs")).unwrap().replace("\"awk.h\"", "\"awl.h\""),
    );
    assert_eq!(
        package.failure(&[]),
        "Error: build.rs:3: awl.h: there is no such header in the package, nor in a folder of .include(..)"
    );
}

/// Pointers to 64-bit integers in both spellings, typedefs of pointers, attributes; in C and C++.
#[test]
fn pointers_in_the_words_of_the_header() {
    let header = "#pragma once\n#include <stddef.h>\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\ntypedef double* vec;\n\
                  __attribute__((nonnull)) long long PREFIXwide(const long long* x, unsigned long long* y, int64_t* z, size_t n);\n\
                  void PREFIXfill(const vec x, int n);\n#ifdef __cplusplus\n}\n#endif\n";
    let source = "#include \"words.HEADER\"\nlong long PREFIXwide(const long long* x, unsigned long long* y, int64_t* z, size_t n) {\n\
                  y[0] = 7; z[0] = 8; return x[n - 1]; }\nvoid PREFIXfill(const vec x, int n) { for (int i = 0; i < n; i++) x[i] = 5; }\n";
    let made = |text: &str, prefix: &str, ending: &str| text.replace("PREFIX", prefix).replace("HEADER", ending);
    let package = Package::new(
        "header-words",
        ".c([\"words.c\", \"words.cc\"]).c_header(\"words.h\", [\"wide(x[n], y[1], z[1], n)\", \"fill(x[n], n)\"])\n\
         .c_header(\"words.hpp\", [\"cc_wide(x[n], y[1], z[1], n)\", \"cc_fill(x[n], n)\"])",
    )
    .file("words.h", &made(header, "", "h"))
    .file("words.hpp", &made(header, "cc_", "hpp"))
    .file("words.c", &made(source, "", "h"))
    .file("words.cc", &made(source, "cc_", "hpp"))
    .file(
        "src/main.rs",
        r#"
use header_words::kernels::typed::*;
use kernpack::{Result, Tensor};

fn main() -> Result<()> {
    let x = Tensor::from_slice(&[1i64, 2], &[2])?;
    let (y, z) = (Tensor::from_slice(&[0u64], &[1])?, Tensor::from_slice(&[0i64], &[1])?);
    println!("{} {}", wide(&x, &y, &z, 2)?, cc_wide(&x, &y, &z, 2)?);
    println!("{:?} {:?}", y.view::<u64>()?.to_vec(), z.view::<i64>()?.to_vec());
    let values = Tensor::from_slice(&[0.0f64, 0.0], &[2])?;
    fill(&values, 1)?;
    cc_fill(&values, 2)?;
    println!("{:?}", values.view::<f64>()?.to_vec());
    Ok(())
}
"#,
    );
    package.build();
    assert_eq!(package.run(&[]), "2 2\n[7] [8]\n[5.0, 5.0]\n");
}

/// The header is parsed without evaluating `#if`. If the compiler chooses another alternative, it
/// reports an error.
#[test]
fn alternatives_that_were_not_read_do_not_compile() {
    let another = "of another type than kernpack-build read in the header";
    let rows = [
        // The parser takes the last typedef.
        (
            "#if 1\ntypedef double real;\n#else\ntypedef float real;\n#endif\nvoid f(const real* x);\n",
            "f(x[1])",
            another,
        ),
        ("#if 1\ntypedef int item;\n#else\ntypedef float item;\n#endif\nvoid f(const item* x);\n", "f(x[1])", another),
        (
            "#if 1\ntypedef double *rows;\n#else\ntypedef const double *rows;\n#endif\nvoid f(rows x);\n",
            "f(x[1])",
            another,
        ),
        ("#if 1\ntypedef double real;\n#else\ntypedef int real;\n#endif\nreal f(void);\n", "f", another),
        // The parser takes the first declaration.
        ("#if 0\nvoid f(const float* x);\n#else\nvoid f(const double* x);\n#endif\n", "f(x[1])", "incompatible"),
        ("#if 0\nvoid f(const float* x);\n#else\nvoid f(float* x);\n#endif\n", "f(x[1])", "incompatible"),
        (
            "#if 0\nvoid f(const float* x, long n);\n#else\nvoid f(const float* x, short n);\n#endif\n",
            "f(x[n], n)",
            "incompatible",
        ),
    ];
    let package = Package::new("header-alternatives", ".c_header(\"f.h\", [FUNCTION])");
    let script = std::fs::read_to_string(package.dir.join("build.rs")).unwrap();
    for (header, function, expected) in rows {
        package.write("f.h", header);
        package.write("build.rs", &script.replace("FUNCTION", &format!("{function:?}")));
        let message = package.failure(&[]);
        assert!(message.contains(expected), "{header}{message}");
    }
}
