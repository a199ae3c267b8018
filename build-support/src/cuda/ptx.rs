//! Reads names and argument types of kernels from the PTX that nvcc wrote.

use std::collections::BTreeSet;

use kernpack_formats::device_image::ArgType;

use crate::describe::device_source::SourceKernel;
use crate::{Error, Result};

/// A kernel as its PTX declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PtxKernel {
    pub(crate) name: String,
    pub(crate) arg_types: Vec<ArgType>,
    /// True if the kernel uses an `extern __shared__` array, directly or through functions that it
    /// calls.
    pub(crate) dynamic_shared_memory: bool,
}

/// A function or kernel: head and body.
struct Function<'a> {
    name: &'a str,
    is_kernel: bool,
    params: &'a str,
    body: &'a str,
}

/// Returns all kernels of a PTX text, in order. `declared` are the declarations in the CUDA source,
/// and `source` is its name.
pub(crate) fn kernels(ptx: &str, declared: &[SourceKernel], source: &str) -> Result<Vec<PtxKernel>> {
    let functions = functions(ptx);
    let shared = uses_dynamic_shared_memory(ptx, &functions);
    let kernels = functions.iter().filter(|function| function.is_kernel).map(|function| {
        let name = function.name;
        if name.starts_with("_Z") {
            return Err(Error::new(format!(
                "{source}: the kernel `{}` has the C++ name `{name}`, which no one can call; declare it extern \"C\"",
                readable(name)
            )));
        }
        let declared = declared.iter().find(|kernel| kernel.name == name);
        let arg_types = arg_types(function, declared, ptx.contains(".ptr"))
            .map_err(|problem| Error::new(format!("{source}: the kernel `{name}`: {problem}")))?;
        Ok(PtxKernel { name: name.to_owned(), arg_types, dynamic_shared_memory: shared.contains(name) })
    });
    Error::collect(kernels)
}

/// Splits the text into functions. PTX from nvcc has one directive per line and no comments inside
/// a head.
fn functions(ptx: &str) -> Vec<Function<'_>> {
    let mut functions = Vec::new();
    let mut rest = ptx;
    while let Some((position, keyword)) =
        [".entry ", ".func "].iter().filter_map(|keyword| Some((rest.find(keyword)?, *keyword))).min()
    {
        let mut head = rest[position + keyword.len()..].trim_start();
        rest = head;
        let is_kernel = keyword == ".entry ";
        // A function's result is in parentheses before its name.
        if let Some(result) = head.strip_prefix('(') {
            let Some(end) = result.find(')') else { break };
            head = result[end + 1..].trim_start();
        }
        let end = head.find(|c: char| c == '(' || c == '{' || c == ';' || c.is_whitespace()).unwrap_or(head.len());
        let (name, after) = head.split_at(end);
        let after = after.trim_start();
        let (params, after) = match after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            Some((params, after)) => (params, after),
            None => ("", after),
        };
        // A declaration ends before any body. Performance directives may appear between head and
        // body.
        let Some(open) = after.find(['{', ';']).filter(|&open| after[open..].starts_with('{')) else { continue };
        let body = braced(&after[open + 1..]);
        functions.push(Function { name, is_kernel, params, body });
        rest = &after[open + 1 + body.len()..];
    }
    functions
}

/// Returns the text up to the brace that closes the one before it.
fn braced(text: &str) -> &str {
    let mut depth = 1;
    for (position, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..position];
        }
    }
    text
}

/// Returns the names of the functions that use an `extern .shared` array, directly or indirectly.
fn uses_dynamic_shared_memory<'a>(ptx: &str, functions: &[Function<'a>]) -> BTreeSet<&'a str> {
    let declarations = ptx.lines().filter(|line| line.trim_start().starts_with(".extern .shared"));
    let arrays: BTreeSet<&str> =
        declarations.filter_map(|line| line.split('[').next()?.split_whitespace().last()).collect();
    let mut using = BTreeSet::new();
    loop {
        let before = using.len();
        for function in functions {
            let mut words = function.body.split(|c: char| !(c.is_ascii_alphanumeric() || "_$".contains(c)));
            if words.any(|word| arrays.contains(word) || (word != function.name && using.contains(word))) {
                using.insert(function.name);
            }
        }
        if using.len() == before {
            return using;
        }
    }
}

fn arg_types(
    function: &Function<'_>,
    declared: Option<&SourceKernel>,
    pointers_are_marked: bool,
) -> std::result::Result<Vec<ArgType>, String> {
    let params: Vec<&str> = function.params.split(',').map(str::trim).filter(|param| !param.is_empty()).collect();
    let declared = declared.filter(|kernel| kernel.params.len() == params.len());
    let types = params.iter().enumerate().map(|(index, param)| {
        let text = declared.map(|kernel| kernel.params[index].as_str());
        let shown = || text.map(|text| format!(" (`{text}`)")).unwrap_or_default();
        arg_type(param, text, pointers_are_marked)
            .ok_or_else(|| format!("argument {index}{} is passed by value as `{param}`; kernels take pointers, float, double, and integers of 32 or 64 bits", shown()))
    });
    types.collect()
}

/// Parses one `.param`. PTX does not contain the signedness of integers, and before LLVM 21's NVPTX
/// it does not mark pointers. The text of the source has both.
fn arg_type(param: &str, text: Option<&str>, pointers_are_marked: bool) -> Option<ArgType> {
    if param.contains('[') {
        return None;
    }
    let words: Vec<&str> = param.split_whitespace().collect();
    let unsigned = text.is_some_and(is_unsigned);
    let ptx_type = words
        .iter()
        .find(|word| matches!(**word, ".u32" | ".s32" | ".b32" | ".u64" | ".s64" | ".b64" | ".f32" | ".f64"))?;
    Some(match (*ptx_type, unsigned) {
        (".f32", _) => ArgType::FLOAT32,
        (".f64", _) => ArgType::FLOAT64,
        (".u32" | ".s32" | ".b32", true) => ArgType::UINT32,
        (".u32" | ".s32" | ".b32", false) => ArgType::INT32,
        _ if words.contains(&".ptr") => ArgType::POINTER,
        _ if !pointers_are_marked && !text.is_some_and(is_integer) => ArgType::POINTER,
        (_, true) => ArgType::UINT64,
        (_, false) => ArgType::INT64,
    })
}

fn type_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

fn is_unsigned(text: &str) -> bool {
    !text.contains('*')
        && type_words(text).any(|word| {
            matches!(
                word,
                "unsigned" | "size_t" | "uint" | "ulong" | "uint32_t" | "uint64_t" | "uintptr_t" | "ulonglong"
            )
        })
}

/// Returns true if the text of a parameter is a well-known integer type. Any other 64-bit type may
/// be a pointer.
fn is_integer(text: &str) -> bool {
    let known = ["int", "long", "int64_t", "ptrdiff_t", "ssize_t", "intptr_t", "longlong", "int_fast64_t"];
    !text.contains(['*', '[']) && (is_unsigned(text) || type_words(text).any(|word| known.contains(&word)))
}

/// Returns the first identifier inside an Itanium name: `_Z7mangledPf` is `mangled`.
fn readable(mangled: &str) -> &str {
    let digits_at = mangled.find(|c: char| c.is_ascii_digit()).unwrap_or(mangled.len());
    let digits = &mangled[digits_at..];
    let digits_end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let len: usize = digits[..digits_end].parse().unwrap_or(0);
    digits.get(digits_end..digits_end.saturating_add(len)).filter(|name| !name.is_empty()).unwrap_or(mangled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::device_source;

    /// The output of nvcc 13.0 for compute_75, with shortened bodies.
    const PTX: &str = "\
.version 9.0
.target sm_75
.extern .shared .align 16 .b8 s[];
.func  (.param .b32 func_retval0) _Z6helperf(
\t.param .b32 _Z6helperf_param_0
)
{
\tmov.u32 \t%r4, s;
\tret;
}
.visible .entry scale(
\t.param .u64 scale_param_0,
\t.param .u64 scale_param_1,
\t.param .f32 scale_param_2,
\t.param .u32 scale_param_3
)
.maxntid 256, 1, 1
{
\t{ .reg .b32 temp; }
\tret;
}
.visible .entry dyn(
\t.param .u64 dyn_param_0,
\t.param .u32 dyn_param_1,
\t.param .u64 dyn_param_2,
\t.param .f64 dyn_param_3,
\t.param .u64 dyn_param_4
)
{
\tcall.uni (retval0), _Z6helperf, (param0);
}
.visible .entry empty()
{
\tret;
}
";
    const SOURCE: &str = "
extern \"C\" __global__ void scale(float* out, const float* __restrict__ in, float k, int n) {}
extern \"C\" __global__ void dyn(unsigned char* out, unsigned n, long long m, double d, uint64_t q) {}
extern \"C\" __global__ void empty() {}";

    #[test]
    fn kernels_are_read_with_their_types() {
        let found = kernels(PTX, &device_source::kernels(SOURCE), "k.cu").unwrap();
        let kernel = |name: &str, arg_types: &[ArgType], dynamic_shared_memory| PtxKernel {
            name: name.to_owned(),
            arg_types: arg_types.to_vec(),
            dynamic_shared_memory,
        };
        use ArgType as T;
        assert_eq!(
            found,
            [
                kernel("scale", &[T::POINTER, T::POINTER, T::FLOAT32, T::INT32], false),
                kernel("dyn", &[T::POINTER, T::UINT32, T::INT64, T::FLOAT64, T::UINT64], true),
                kernel("empty", &[], false),
            ]
        );
    }

    #[test]
    fn marked_pointers_need_no_source() {
        let ptx = ".visible .entry f(\n.param .u64 .ptr .align 1 f_param_0,\n.param .u64 f_param_1\n)\n{\nret;\n}";
        assert_eq!(kernels(ptx, &[], "k.cu").unwrap()[0].arg_types, [ArgType::POINTER, ArgType::INT64]);
        let unmarked = ptx.replace(".ptr .align 1 ", "");
        assert_eq!(kernels(&unmarked, &[], "k.cu").unwrap()[0].arg_types, [ArgType::POINTER, ArgType::POINTER]);
    }

    #[test]
    fn mistakes_name_the_kernel() {
        let ptx = "
.visible .entry _Z7mangledPf(.param .u64 _Z7mangledPf_param_0) { ret; }
.visible .entry byval(.param .align 4 .b8 byval_param_0[12], .param .u64 byval_param_1) { ret; }
.visible .entry narrow(.param .u16 narrow_param_0) { ret; }";
        let error = kernels(ptx, &device_source::kernels("__global__ void narrow(short s) {}"), "k.cu").unwrap_err();
        assert_eq!(
            error.problems(),
            [
                "k.cu: the kernel `mangled` has the C++ name `_Z7mangledPf`, which no one can call; declare it extern \"C\"",
                "k.cu: the kernel `byval`: argument 0 is passed by value as `.param .align 4 .b8 byval_param_0[12]`; kernels take pointers, float, double, and integers of 32 or 64 bits",
                "k.cu: the kernel `narrow`: argument 0 (`short s`) is passed by value as `.param .u16 narrow_param_0`; kernels take pointers, float, double, and integers of 32 or 64 bits",
            ]
        );
    }

    #[test]
    fn torn_text_does_not_panic() {
        for end in 0..PTX.len() {
            let _ = kernels(&PTX[..end], &[], "k.cu");
        }
    }
}
