//! Kernels from plain C functions that a header declares: for each function, a C function that
//! checks the arguments and calls it.
//!
//! A declaration is parsed as text, like those of device kernels: numbers, booleans, enums,
//! pointers to numbers, and a number or nothing as the result, under the names that typedefs of the
//! header define. C does not state the number of elements behind a pointer, so build.rs does:
//! `"fft_run(samples[n], out[2*n], n)"`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::c::declaration::{Declared, declared, without_lines_of_the_preprocessor};
use crate::describe::device_source::without_comments;
use crate::describe::signature::{Param, Type};
use crate::session::Session;
use crate::{Error, Result};

/// The functions of one header that become kernels, as build.rs names them.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// The place in build.rs that names the header.
    pub(crate) at: String,
    pub(crate) path: PathBuf,
    pub(crate) functions: Vec<String>,
}

/// A function as build.rs names it: `run(samples[n], out[2*n], n)`, or the name alone.
struct Wanted<'a> {
    name: &'a str,
    /// Parameters, with the number of elements of each.
    sizes: Vec<(&'a str, Option<&'a str>)>,
}

/// Writes a C file for each header, and returns their paths.
pub(crate) fn write(session: &Session, headers: &[Header]) -> Result<Vec<PathBuf>> {
    let files = headers.iter().enumerate().map(|(index, header)| {
        let shown = session.name_of(&header.path);
        let path = find(session, &header.path).ok_or_else(|| {
            Error::new(format!(
                "{}: {shown}: there is no such header in the package, nor in a folder of .include(..)",
                header.at
            ))
        })?;
        session.tracker.file(&path);
        let text = fs::read_to_string(&path).map_err(|error| Error::new(format!("{shown}: {error}")))?;
        let is_cpp = path.extension().is_some_and(|extension| matches!(extension.to_str(), Some("hpp" | "hh" | "hxx")));
        let source = source(&format!("{}: {shown}", header.at), &shown, &path, is_cpp, &text, &header.functions)?;
        let file = session.work_dir.join(format!("bridge-{index}.{}", if is_cpp { "cc" } else { "c" }));
        if !fs::read_to_string(&file).is_ok_and(|written| written == source) {
            fs::write(&file, source).map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
        }
        // cargo reruns the script if an input is newer than its last run.
        if let Ok(time) = fs::metadata(&path).map(|metadata| filetime::FileTime::from_last_modification_time(&metadata))
        {
            let _ = filetime::set_file_mtime(&file, time);
        }
        Ok(file)
    });
    Error::collect(files)
}

fn find(session: &Session, path: &Path) -> Option<PathBuf> {
    let folders = std::iter::once(&session.package_dir).chain(&session.includes);
    folders.map(|folder| session.package_dir.join(folder).join(path)).find(|path| path.is_file())
}

/// The C code for a header's functions.
fn source(place: &str, shown: &str, path: &Path, is_cpp: bool, header: &str, functions: &[String]) -> Result<String> {
    let text = without_lines_of_the_preprocessor(&without_comments(header));
    let mut out = format!(
        "/* Kernels of the functions of {shown}, written by kernpack-build. */\n#include <kernpack/kernel.h>\n#include \"{}\"\n{HELPERS}",
        path.display()
    );
    let kernels = functions.iter().map(|function| {
        let wrong = |why: String| Error::new(format!("{place}: {function}: {why}"));
        let wanted = Wanted::parse(function).map_err(wrong)?;
        let declared = declared(&text, header, wanted.name, is_cpp).map_err(wrong)?;
        kernel(&wanted, &declared).map_err(wrong)
    });
    for kernel in Error::collect(kernels)? {
        out.push_str(&kernel);
    }
    Ok(out)
}

/// Code that the generated kernels share.
const HELPERS: &str = r#"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wignored-qualifiers"
#endif
/* kernpack-build reads the header as text, without #if and #define. The compiler compares what it read with what the header declares. */
#if defined(__cplusplus)
#include <type_traits>
#define kernpack_bridge_BOOL bool
#define kernpack_bridge_ASSERT static_assert
#define kernpack_bridge_SAME(A, B) (std::is_same<std::remove_cv<A>::type, B>::value)
#define kernpack_bridge_READ_ONLY(P) (std::is_const<__typeof__(*(P)0)>::value)
#define kernpack_bridge_NUMBER(T) (std::is_arithmetic<T>::value || std::is_enum<T>::value)
#else
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunknown-warning-option"
#pragma clang diagnostic error "-Wincompatible-pointer-types-discards-qualifiers"
#pragma clang diagnostic error "-Wincompatible-function-pointer-types"
#pragma clang diagnostic error "-Wincompatible-pointer-types"
#pragma clang diagnostic error "-Wint-conversion"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wdiscarded-qualifiers"
#pragma GCC diagnostic error "-Wint-conversion"
#endif
#define kernpack_bridge_BOOL _Bool
#define kernpack_bridge_ASSERT _Static_assert
#define kernpack_bridge_SAME(A, B) __builtin_types_compatible_p(A, B)
#define kernpack_bridge_READ_ONLY(P) __builtin_types_compatible_p(const __typeof__(*(P)0)*, P)
/* It does not compile for a pointer. */
#define kernpack_bridge_NUMBER(T) (sizeof((T)0 * 1) != 0)
#endif
#define kernpack_bridge_FLOATING(T) (kernpack_bridge_SAME(T, float) || kernpack_bridge_SAME(T, double))
#define kernpack_bridge_kDLBool(T) kernpack_bridge_SAME(T, kernpack_bridge_BOOL)
#define kernpack_bridge_kDLFloat(T) kernpack_bridge_FLOATING(T)
#define kernpack_bridge_WHOLE(T) (kernpack_bridge_NUMBER(T) && !kernpack_bridge_FLOATING(T))
#define kernpack_bridge_kDLInt(T) (kernpack_bridge_WHOLE(T) && (T)-1 < (T)1)
#define kernpack_bridge_kDLUInt(T) (kernpack_bridge_WHOLE(T) && !((T)-1 < (T)1))

/* A number of elements times or plus another; -1 when it is none. */
static int64_t kernpack_bridge_times(int64_t a, int64_t b) {
  return a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b) ? -1 : a * b;
}
static int64_t kernpack_bridge_plus(int64_t a, int64_t b) { return a < 0 || b < 0 || a > INT64_MAX - b ? -1 : a + b; }

static int kernpack_bridge_tensor(const char* function, const char* name, const DLTensor* t, int code, int bits, int64_t size) {
  if (t->device.device_type != kDLCPU) return kernpack_raisef("ValueError", "%s: argument '%s': expected a tensor in CPU memory", function, name);
  if (!kernpack_dtype_is(t, code, bits) || !kernpack_is_contiguous(t) || (uintptr_t)kernpack_data(t) % (uintptr_t)(bits / 8) != 0) {
    return kernpack_raisef("TypeError", "%s: argument '%s': expected contiguous, aligned elements of the type in the declaration", function, name);
  }
  if (size < 0) return kernpack_raisef("ValueError", "%s: argument '%s': the other arguments ask for a negative number of elements", function, name);
  if (kernpack_element_count(t) < size) {
    return kernpack_raisef("ValueError", "%s: argument '%s': expected at least %lld elements, got %lld", function, name, (long long)size,
                           (long long)kernpack_element_count(t));
  }
  return 0;
}
static int kernpack_bridge_bytes(const char* function, const char* name, const DLTensor* t, int64_t size) {
  int64_t bytes;
  if (t->device.device_type != kDLCPU) return kernpack_raisef("ValueError", "%s: argument '%s': expected a tensor in CPU memory", function, name);
  if (!kernpack_is_contiguous(t)) return kernpack_raisef("TypeError", "%s: argument '%s': expected contiguous elements", function, name);
  if (size < 0) return kernpack_raisef("ValueError", "%s: argument '%s': the other arguments ask for a negative number of bytes", function, name);
  bytes = kernpack_element_count(t) * (((int64_t)t->dtype.bits * t->dtype.lanes + 7) / 8);
  if (bytes < size) return kernpack_raisef("ValueError", "%s: argument '%s': expected at least %lld bytes, got %lld", function, name, (long long)size, (long long)bytes);
  return 0;
}
static int kernpack_bridge_range(const char* function, const char* name, int64_t value, int64_t lowest, int64_t highest) {
  if (value >= lowest && value <= highest) return 0;
  return kernpack_raisef("ValueError", "%s: argument '%s': %lld is out of range", function, name, (long long)value);
}
"#;

impl<'a> Wanted<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        const FORM: &str = "write the function's name, or its parameters with the number of their elements, as in \"run(samples[n], out[2*n], n)\"";
        let (name, params) = match text.split_once('(') {
            Some((name, rest)) => (name.trim(), rest.trim_end().strip_suffix(')').ok_or(FORM)?),
            None => (text.trim(), ""),
        };
        if !is_identifier(name) {
            return Err(FORM.to_owned());
        }
        let params = params.split(',').map(str::trim).filter(|param| !param.is_empty());
        let sizes = params.map(|param| match param.split_once('[') {
            Some((name, size)) => Ok((name.trim(), Some(size.trim_end().strip_suffix(']').ok_or(FORM)?.trim()))),
            None => Ok((param, None)),
        });
        Ok(Self { name, sizes: sizes.collect::<Result<_, &str>>()? })
    }

    /// Returns the number of elements that build.rs gives for a parameter.
    fn size(&self, name: &str) -> Option<&'a str> {
        self.sizes.iter().find(|(own, _)| *own == name)?.1
    }
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// DLPack's code and bits of an element.
fn element(name: &str) -> Option<(&'static str, u8)> {
    Some(match name {
        "int8" => ("kDLInt", 8),
        "int16" => ("kDLInt", 16),
        "int32" => ("kDLInt", 32),
        "int64" => ("kDLInt", 64),
        "uint8" => ("kDLUInt", 8),
        "uint16" => ("kDLUInt", 16),
        "uint32" => ("kDLUInt", 32),
        "uint64" => ("kDLUInt", 64),
        "float32" => ("kDLFloat", 32),
        "float64" => ("kDLFloat", 64),
        "bool" => ("kDLBool", 8),
        _ => return None,
    })
}

/// Converts a number of elements to C code that cannot overflow: sums of products of integers and
/// parameters.
fn size_in_c(text: &str, params: &[Param]) -> Result<String, String> {
    let mut sum: Option<String> = None;
    for term in text.split('+') {
        let mut product: Option<String> = None;
        for factor in term.split('*') {
            let factor = factor.trim();
            let place = params.iter().position(|param| param.name == factor && matches!(param.ty, Type::Int { .. }));
            let value = match (place, factor.parse::<u32>()) {
                (Some(place), _) => format!("a{place}"),
                (None, Ok(number)) => format!("INT64_C({number})"),
                (None, Err(_)) => {
                    return Err(format!(
                        "`{factor}` in [{text}] is neither a number nor an integer parameter; + and * join these"
                    ));
                }
            };
            product = Some(match product {
                Some(product) => format!("kernpack_bridge_times({product}, {value})"),
                None => value,
            });
        }
        let product = product.unwrap_or_default();
        sum = Some(match sum {
            Some(sum) => format!("kernpack_bridge_plus({sum}, {product})"),
            None => product,
        });
    }
    Ok(sum.unwrap_or_default())
}

/// The lowest and the highest value of an integer that is narrower than the ABI's.
fn range(bits: u8, signed: bool) -> Option<(i64, i64)> {
    match (bits, signed) {
        (64.., true) => None,
        (64.., false) => Some((0, i64::MAX)),
        (bits, true) => Some((-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)),
        (bits, false) => Some((0, (1i64 << bits) - 1)),
    }
}

fn kernel(wanted: &Wanted<'_>, function: &Declared) -> Result<String, String> {
    let (name, signature) = (wanted.name, &function.signature);
    let params = &signature.params;
    if let Some((unknown, _)) = wanted.sizes.iter().find(|(size, _)| params.iter().all(|param| param.name != *size)) {
        let own: Vec<_> = params.iter().map(|param| param.name.as_str()).collect();
        return Err(format!("there is no parameter `{unknown}`; they are ({})", own.join(", ")));
    }
    let (mut read, mut check, mut pass) = (String::new(), String::new(), Vec::new());
    let (mut declared, mut variables, mut compare) = (Vec::new(), String::new(), String::new());
    for (index, Param { name: param, ty }) in params.iter().enumerate() {
        let spelled = &function.params[index].0;
        let not_as_read = format!(
            "\"{param} is of another type than kernpack-build read in the header; write a kernel that calls {name}\""
        );
        let (kind, variable, passed, shown) = match ty {
            Type::Tensor { element: of, written } => {
                let known = of.and_then(element);
                if of.is_some() && known.is_none() {
                    return Err(format!(
                        "its parameter `{param}` is not a pointer to numbers; write a kernel that calls it"
                    ));
                }
                let what = if known.is_some() { "elements" } else { "bytes" };
                let size = wanted.size(param).or(function.params[index].1.as_deref()).ok_or_else(|| {
                    format!("say how many {what} `{param}` leads to, as in \"{name}({param}[n], ...)\"; [0] where the function knows it")
                })?;
                let size = size_in_c(size, params)?;
                let _ = match known {
                    Some((code, bits)) => writeln!(
                        check,
                        "  if (kernpack_bridge_tensor(function, \"{param}\", a{index}, {code}, {bits}, {size}) != 0) return -1;"
                    ),
                    None => writeln!(
                        check,
                        "  if (kernpack_bridge_bytes(function, \"{param}\", a{index}, {size}) != 0) return -1;"
                    ),
                };
                if let Some((code, bits)) = known {
                    let element = format!("__typeof__(*({spelled})0)");
                    let _ = writeln!(
                        compare,
                        "  kernpack_bridge_ASSERT(sizeof({element}) == {bits} / 8 && kernpack_bridge_{code}({element}), {not_as_read});"
                    );
                }
                if !*written {
                    let _ = writeln!(
                        compare,
                        "  kernpack_bridge_ASSERT(kernpack_bridge_READ_ONLY({spelled}), {not_as_read});"
                    );
                }
                let mutable = if *written { "mut " } else { "" };
                let shown = match of {
                    Some(of) => format!("{mutable}Tensor[{of}]"),
                    None => format!("{mutable}Tensor"),
                };
                ("tensor", format!("DLTensor* a{index};"), format!("({spelled})kernpack_data(a{index})"), shown)
            }
            Type::Int { bits, signed } => {
                if let Some((lowest, highest)) = range(*bits, *signed) {
                    // The lowest 64-bit integer has no literal in C, and is not one of these
                    // values.
                    let _ = writeln!(
                        check,
                        "  if (kernpack_bridge_range(function, \"{param}\", a{index}, INT64_C({lowest}), INT64_C({highest})) != 0) return -1;"
                    );
                }
                let shown = format!("{}int{bits}", if *signed { "" } else { "u" });
                let _ =
                    writeln!(compare, "  kernpack_bridge_ASSERT(kernpack_bridge_NUMBER({spelled}), {not_as_read});");
                let _ = writeln!(
                    check,
                    "  if ((int64_t)({spelled})a{index} != a{index}) return kernpack_bridge_range(function, \"{param}\", a{index}, 1, 0);"
                );
                ("int", format!("int64_t a{index};"), format!("({spelled})a{index}"), shown)
            }
            Type::Bool => {
                let _ =
                    writeln!(compare, "  kernpack_bridge_ASSERT(kernpack_bridge_NUMBER({spelled}), {not_as_read});");
                ("int", format!("int64_t a{index};"), format!("({spelled})(a{index} != 0)"), "bool".to_owned())
            }
            Type::Float { bits } => {
                ("float", format!("double a{index};"), format!("({spelled})a{index}"), format!("float{bits}"))
            }
            _ => {
                return Err(format!(
                    "its parameter `{param}` is of a type that is not passed; write a kernel that calls it"
                ));
            }
        };
        let _ = writeln!(variables, "  {variable}");
        let _ = writeln!(read, "  if (kernpack_arg_{kind}(function, args, {index}, &a{index}) != 0) return -1;");
        pass.push(passed);
        declared.push(format!("{param}: {shown}"));
    }
    let (result, give) = match signature.result {
        Type::Int { bits, signed } => {
            (format!("{}int{bits}", if signed { "" } else { "u" }), ("kernpack_return_int(result, (int64_t)", ")"))
        }
        Type::Float { bits } => (format!("float{bits}"), ("kernpack_return_float(result, (double)", ")")),
        Type::Bool => ("bool".to_owned(), ("kernpack_return_bool(result, (int)", ")")),
        _ => ("None".to_owned(), ("", "")),
    };
    let types: Vec<&str> = function.params.iter().map(|(spelled, _)| spelled.as_str()).collect();
    // Not 0, because some pointers must not be null.
    let ones: Vec<String> = types.iter().map(|spelled| format!("({spelled})1")).collect();
    let types = if types.is_empty() { "void".to_owned() } else { types.join(", ") };
    // A pointer to the function accepts only these parameters. In C++ it selects the overload that
    // was parsed.
    let _ = writeln!(
        compare,
        "  typedef __typeof__({name}({})) kernpack_result;\n  kernpack_result (*const as_read)({types}) = {name};",
        ones.join(", ")
    );
    let is_as_read = match signature.result {
        Type::Int { .. } | Type::Bool => Some("WHOLE"),
        Type::Float { .. } => Some("FLOATING"),
        _ => None,
    };
    if let Some(kind) = is_as_read {
        let _ = writeln!(
            compare,
            "  kernpack_bridge_ASSERT(kernpack_bridge_{kind}(kernpack_result), \"the result is of another type than kernpack-build read in the header; \
             write a kernel that calls {name}\");"
        );
    }
    let declared = declared.join(", ");
    let (call, count) = (format!("{name}({})", pass.join(", ")), params.len());
    let shown = declared.replace("mut ", "");
    Ok(format!(
        "\n/* kernpack: {name}({declared}) -> {result} */\nKERNPACK_KERNEL({name}) {{\n  static const char function[] = \"{name}({shown})\";\n\
         {compare}{variables}  (void)as_read;\n  if (kernpack_arg_count(function, num_args, {count}) != 0) return -1;\n{read}{check}  {}{call}{};\n  return 0;\n}}\n",
        give.0, give.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "
#ifndef FFT_H
#define FFT_API \\
  extern
/* int fft_old(int); */
typedef struct plan plan;
#ifdef __cplusplus
extern \"C\" {
#endif
FFT_API int fft_run(const float* samples, double *out, size_t n);
static inline void scale(float x[], unsigned short n, float by) { x[0] = by * n; }
void reset(void);
long double odd(int a);
int with_plan(plan* p), other(int);
void text(const char* name);
__attribute__((visibility(\"default\"), const)) int marked(int n);
static int nothing() { return 0; }
int open();
void dump(FILE* f);
double mean(const sample_t* x, size_t n);
double width(const long double* x);
double half_of(half h);
half made_half(int n);
double norm(double _Complex);
#endif
";

    fn made(function: &str) -> Result<String, String> {
        let text = without_lines_of_the_preprocessor(&without_comments(HEADER));
        let wanted = Wanted::parse(function)?;
        kernel(&wanted, &declared(&text, HEADER, wanted.name, false)?)
    }

    #[test]
    fn kernels_check_and_call() {
        let kernel = made("fft_run(samples[n], out[2*n+1], n)").unwrap();
        for part in [
            "/* kernpack: fft_run(samples: Tensor[float32], out: mut Tensor[float64], n: uint64) -> int32 */",
            "kernpack_bridge_tensor(function, \"samples\", a0, kDLFloat, 32, a2)",
            "kDLFloat, 64, kernpack_bridge_plus(kernpack_bridge_times(INT64_C(2), a2), INT64_C(1))",
            "kernpack_bridge_range(function, \"n\", a2, INT64_C(0), INT64_C(9223372036854775807))",
            "kernpack_return_int(result, (int64_t)fft_run((const float*)kernpack_data(a0), (double *)kernpack_data(a1), (size_t)a2));",
            "sizeof(__typeof__(*(const float*)0)) == 32 / 8 && kernpack_bridge_kDLFloat(__typeof__(*(const float*)0))",
            "kernpack_bridge_ASSERT(kernpack_bridge_READ_ONLY(const float*), ",
            "(*const as_read)(const float*, double *, size_t) = fft_run;",
        ] {
            assert!(kernel.contains(part), "{part} is not in\n{kernel}");
        }
        let kernel = made("scale(x[n])").unwrap();
        assert!(kernel.contains("scale((float *)kernpack_data(a0), (unsigned short)a1, (float)a2);"), "{kernel}");
        assert!(made("reset").unwrap().contains("num_args, 0) != 0) return -1;\n  reset();"));
        assert!(made("marked").unwrap().contains("/* kernpack: marked(n: int32) -> int32 */"));
        assert!(made("nothing").unwrap().contains("(int64_t)nothing());"));
    }

    #[test]
    fn what_cannot_be_one_is_told() {
        for (function, expected) in [
            ("fft_old", "the header declares no such function; headers that it includes are not read"),
            ("FFT_API", "`FFT_API` is a macro; write a kernel that uses it"),
            (
                "fft_run",
                "say how many elements `samples` leads to, as in \"fft_run(samples[n], ...)\"; [0] where the function knows it",
            ),
            (
                "fft_run(samples[n], out[k])",
                "`k` in [k] is neither a number nor an integer parameter; + and * join these",
            ),
            ("fft_run(samples[n], output[n])", "there is no parameter `output`; they are (samples, out, n)"),
            ("odd", "its result `long double` is neither a number nor void; write a kernel that calls it"),
            (
                "with_plan(p[0])",
                "its parameter `plan* p` is a pointer to a struct; wrap it in an object type in Rust, or write a kernel that calls it",
            ),
            (
                "open",
                "`open()` does not say in C which parameters it takes; declare `open(void)`, or write a kernel that calls it",
            ),
            (
                "dump(f[0])",
                "the type of its parameter `FILE* f` is not known from this header; write a kernel that calls it",
            ),
            (
                "mean(x[n])",
                "the type of its parameter `const sample_t* x` is not known from this header; write a kernel that calls it",
            ),
            (
                "width(x[1])",
                "the type of its parameter `const long double* x` is not known from this header; write a kernel that calls it",
            ),
            (
                "half_of",
                "the type of its parameter `half h` is not known from this header; write a kernel that calls it",
            ),
            ("made_half", "its result `half` is neither a number nor void; write a kernel that calls it"),
            (
                "norm",
                "the type of its parameter `double _Complex` is not known from this header; write a kernel that calls it",
            ),
            ("text(name[0])", "its parameter `const char* name` is text; write a kernel that calls it"),
        ] {
            assert_eq!(made(function).unwrap_err(), expected, "{function}");
        }
        assert!(made("fft run").unwrap_err().starts_with("write the function's name, or its parameters"));
    }
}
