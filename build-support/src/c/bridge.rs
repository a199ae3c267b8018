//! Kernels made of plain C functions that a header declares: for each, a function in C that checks its arguments and calls it.
//!
//! A declaration is read as text, as those of device kernels are: numbers, truth values, enums, pointers to numbers, a number or nothing as the
//! result, under the names that typedefs of the header give them. How many elements a pointer leads to is nothing that C says, so build.rs does:
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
    /// Where build.rs names it.
    pub(crate) at: String,
    pub(crate) path: PathBuf,
    pub(crate) functions: Vec<String>,
}

/// A function as build.rs names it: `run(samples[n], out[2*n], n)`, or the name alone.
struct Wanted<'a> {
    name: &'a str,
    /// Parameters, with how many elements each has.
    sizes: Vec<(&'a str, Option<&'a str>)>,
}

/// Writes a C file for each header, and gives their paths.
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
        let source = source(&format!("{}: {shown}", header.at), &shown, &path, &text, &header.functions)?;
        let is_cpp = path.extension().is_some_and(|extension| matches!(extension.to_str(), Some("hpp" | "hh" | "hxx")));
        let file = session.work_dir.join(format!("bridge-{index}.{}", if is_cpp { "cc" } else { "c" }));
        if !fs::read_to_string(&file).is_ok_and(|written| written == source) {
            fs::write(&file, source).map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
        }
        // cargo runs the script again for inputs that are newer than its last run.
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
fn source(place: &str, shown: &str, path: &Path, header: &str, functions: &[String]) -> Result<String> {
    let text = without_lines_of_the_preprocessor(&without_comments(header));
    let mut out = format!(
        "/* Kernels of the functions of {shown}, written by kernpack-build. */\n#include <kernpack/kernel.h>\n#include \"{}\"\n{HELPERS}",
        path.display()
    );
    let kernels = functions.iter().map(|function| {
        let wrong = |why: String| Error::new(format!("{place}: {function}: {why}"));
        let wanted = Wanted::parse(function).map_err(wrong)?;
        let declared = declared(&text, header, wanted.name).map_err(wrong)?;
        kernel(&wanted, &declared).map_err(wrong)
    });
    for kernel in Error::collect(kernels)? {
        out.push_str(&kernel);
    }
    Ok(out)
}

/// What the kernels share.
const HELPERS: &str = r#"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#if defined(__cplusplus)
#define KERNPACK_BRIDGE_BOOL bool
#else
#define KERNPACK_BRIDGE_BOOL _Bool
#endif

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

    /// How many elements build.rs says a parameter has.
    fn size(&self, name: &str) -> Option<&'a str> {
        self.sizes.iter().find(|(own, _)| *own == name)?.1
    }
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// DLPack's code and bits of an element, and the type in C.
fn element(name: &str) -> Option<(&'static str, u8, &'static str)> {
    Some(match name {
        "int8" => ("kDLInt", 8, "int8_t"),
        "int16" => ("kDLInt", 16, "int16_t"),
        "int32" => ("kDLInt", 32, "int32_t"),
        "int64" => ("kDLInt", 64, "int64_t"),
        "uint8" => ("kDLUInt", 8, "uint8_t"),
        "uint16" => ("kDLUInt", 16, "uint16_t"),
        "uint32" => ("kDLUInt", 32, "uint32_t"),
        "uint64" => ("kDLUInt", 64, "uint64_t"),
        "float32" => ("kDLFloat", 32, "float"),
        "float64" => ("kDLFloat", 64, "double"),
        "bool" => ("kDLBool", 8, "KERNPACK_BRIDGE_BOOL"),
        _ => return None,
    })
}

/// A number of elements as C that cannot overflow: sums of products of integers and parameters.
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
    let (mut declared, mut variables) = (Vec::new(), String::new());
    for (index, Param { name: param, ty }) in params.iter().enumerate() {
        let (kind, variable, passed, shown) = match ty {
            Type::Tensor { element: of, written } => {
                let known = of.and_then(element);
                if of.is_some() && known.is_none() {
                    return Err(format!(
                        "its parameter `{param}` is no pointer to numbers; write a kernel that calls it"
                    ));
                }
                let what = if known.is_some() { "elements" } else { "bytes" };
                let size = wanted.size(param).or(function.params[index].1.as_deref()).ok_or_else(|| {
                    format!("say how many {what} `{param}` leads to, as in \"{name}({param}[n], ...)\"; [0] where the function knows it")
                })?;
                let size = size_in_c(size, params)?;
                let _ = match known {
                    Some((code, bits, _)) => writeln!(
                        check,
                        "  if (kernpack_bridge_tensor(function, \"{param}\", a{index}, {code}, {bits}, {size}) != 0) return -1;"
                    ),
                    None => writeln!(
                        check,
                        "  if (kernpack_bridge_bytes(function, \"{param}\", a{index}, {size}) != 0) return -1;"
                    ),
                };
                let c_type = known.map_or("void", |(_, _, c_type)| c_type);
                let (constant, mutable) = if *written { ("", "mut ") } else { ("const ", "") };
                let shown = match of {
                    Some(of) => format!("{mutable}Tensor[{of}]"),
                    None => format!("{mutable}Tensor"),
                };
                (
                    "tensor",
                    format!("DLTensor* a{index};"),
                    format!("({constant}{c_type}*)kernpack_data(a{index})"),
                    shown,
                )
            }
            Type::Int { bits, signed } => {
                if let Some((lowest, highest)) = range(*bits, *signed) {
                    // The lowest number of 64 bits has no literal in C, and is none of these.
                    let _ = writeln!(
                        check,
                        "  if (kernpack_bridge_range(function, \"{param}\", a{index}, INT64_C({lowest}), INT64_C({highest})) != 0) return -1;"
                    );
                }
                let shown = format!("{}int{bits}", if *signed { "" } else { "u" });
                let cast = function.params[index].0.clone().unwrap_or_else(|| format!("{shown}_t"));
                ("int", format!("int64_t a{index};"), format!("({cast})a{index}"), shown)
            }
            Type::Bool => ("int", format!("int64_t a{index};"), format!("(a{index} != 0)"), "bool".to_owned()),
            Type::Float { bits } => {
                let c_type = if *bits == 32 { "float" } else { "double" };
                ("float", format!("double a{index};"), format!("({c_type})a{index}"), format!("float{bits}"))
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
    let declared = declared.join(", ");
    let (call, count) = (format!("{name}({})", pass.join(", ")), params.len());
    let shown = declared.replace("mut ", "");
    Ok(format!(
        "\n/* kernpack: {name}({declared}) -> {result} */\nKERNPACK_KERNEL({name}) {{\n  static const char function[] = \"{name}({shown})\";\n\
         {variables}  if (kernpack_arg_count(function, num_args, {count}) != 0) return -1;\n{read}{check}  {}{call}{};\n  return 0;\n}}\n",
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
#endif
";

    fn made(function: &str) -> Result<String, String> {
        let text = without_lines_of_the_preprocessor(&without_comments(HEADER));
        let wanted = Wanted::parse(function)?;
        kernel(&wanted, &declared(&text, HEADER, wanted.name)?)
    }

    #[test]
    fn kernels_check_and_call() {
        let kernel = made("fft_run(samples[n], out[2*n+1], n)").unwrap();
        for part in [
            "/* kernpack: fft_run(samples: Tensor[float32], out: mut Tensor[float64], n: uint64) -> int32 */",
            "kernpack_bridge_tensor(function, \"samples\", a0, kDLFloat, 32, a2)",
            "kDLFloat, 64, kernpack_bridge_plus(kernpack_bridge_times(INT64_C(2), a2), INT64_C(1))",
            "kernpack_bridge_range(function, \"n\", a2, INT64_C(0), INT64_C(9223372036854775807))",
            "kernpack_return_int(result, (int64_t)fft_run((const float*)kernpack_data(a0), (double*)kernpack_data(a1), (uint64_t)a2));",
        ] {
            assert!(kernel.contains(part), "{part} is not in\n{kernel}");
        }
        let kernel = made("scale(x[n])").unwrap();
        assert!(kernel.contains("scale((float*)kernpack_data(a0), (uint16_t)a1, (float)a2);"), "{kernel}");
        assert!(made("reset").unwrap().contains("num_args, 0) != 0) return -1;\n  reset();"));
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
            ("odd", "its result `long double` is no number and not void; write a kernel that calls it"),
            (
                "with_plan(p[0])",
                "its parameter `plan* p` is a pointer to a struct; wrap it in an object type in Rust, or write a kernel that calls it",
            ),
            ("text(name[0])", "its parameter `const char* name` is text; write a kernel that calls it"),
        ] {
            assert_eq!(made(function).unwrap_err(), expected, "{function}");
        }
        assert!(made("fft run").unwrap_err().starts_with("write the function's name, or its parameters"));
    }
}
