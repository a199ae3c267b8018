//! Reads names and parameter types of `__global__` functions from CUDA C++ without compiling it.

/// A `__global__` function with a body or declaration in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceKernel {
    pub(crate) name: String,
    /// The text of each parameter, without its default.
    pub(crate) params: Vec<String>,
    /// The position of the word that makes the function a kernel.
    pub(crate) position: usize,
}

/// Returns all `__global__` functions that are not templates, without duplicates, in order.
///
/// This parses text, not C++: kernels from macros are not found. It is used if nvcc is missing, and
/// to get the signedness of a parameter, which PTX does not contain.
pub(crate) fn kernels(source: &str) -> Vec<SourceKernel> {
    let text = without_comments(source);
    let mut kernels: Vec<SourceKernel> = Vec::new();
    let mut rest = text.as_str();
    while let Some(position) = rest.find("__global__") {
        let position = text.len() - rest.len() + position;
        let before = &text[..position];
        rest = &text[position + "__global__".len()..];
        let Some(kernel) = declaration(rest, position) else { continue };
        if !is_template(before) && kernels.iter().all(|known| known.name != kernel.name) {
            kernels.push(kernel);
        }
    }
    kernels
}

/// The names in `#include` directives, quoted or in angle brackets, even in comments. Names that
/// macros produce are not found.
#[cfg(feature = "nvrtc")]
pub(crate) fn includes(source: &str) -> Vec<String> {
    let names = source.lines().filter_map(|line| {
        let rest = line.split_once('#')?.1.trim_start().strip_prefix("include")?.trim_start();
        let (close, rest) = match rest.split_at_checked(1)? {
            ("\"", rest) => ('"', rest),
            ("<", rest) => ('>', rest),
            _ => return None,
        };
        Some(rest.split(close).next()?.to_owned())
    });
    names.collect()
}

/// Returns true if the text before `__global__` in its declaration opens a template.
fn is_template(before: &str) -> bool {
    let start = before.rfind([';', '}', '{']).map_or(0, |position| position + 1);
    before[start..].trim_start().starts_with("template")
}

/// Parses `void __launch_bounds__(256) name(params)`, which follows `__global__` (or `__kernel` of
/// OpenCL C) at `position`.
pub(crate) fn declaration(text: &str, position: usize) -> Option<SourceKernel> {
    let mut rest = text.trim_start();
    let mut last = "";
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('(') {
            let (inner, after) = parenthesized(after)?;
            if matches!(last, "__launch_bounds__" | "__attribute__" | "__cluster_dims__" | "__maxnreg__" | "alignas") {
                rest = after;
                last = "";
                continue;
            }
            let valid = last.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            return valid.then(|| SourceKernel { name: last.to_owned(), params: split_params(inner), position });
        }
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if end == 0 {
            return None;
        }
        (last, rest) = rest.split_at(end);
    }
}

/// Splits after the parenthesis that closes the one before `text`.
fn parenthesized(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (position, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..position], &text[position + 1..]));
        }
    }
    None
}

fn split_params(text: &str) -> Vec<String> {
    let mut params = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                params.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(param) = params.last_mut() {
            param.push(c);
        }
    }
    let without_default = |param: String| param.split('=').next().unwrap_or_default().trim().to_owned();
    let params: Vec<String> = params.into_iter().map(without_default).collect();
    if matches!(params.as_slice(), [only] if only.is_empty() || only == "void") { Vec::new() } else { params }
}

/// Replaces comments, and the contents of string and character literals, by the same number of
/// spaces. Line ends are kept.
pub(crate) fn without_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars().peekable();
    let blank = |out: &mut String, c: char| match c {
        '\n' => out.push(c),
        c => out.extend(std::iter::repeat_n(' ', c.len_utf8())),
    };
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('/', Some('/')) => {
                out.push(' ');
                while let Some(inner) = chars.next_if(|&c| c != '\n') {
                    blank(&mut out, inner);
                }
            }
            ('/', Some('*')) => {
                chars.next();
                out.push_str("  ");
                let mut last = ' ';
                for c in chars.by_ref() {
                    blank(&mut out, c);
                    if (last, c) == ('*', '/') {
                        break;
                    }
                    last = c;
                }
            }
            // A digit separator, as in 1'000, is not a character literal.
            ('\'', _) if out.ends_with(|c: char| c.is_ascii_hexdigit()) => out.push(c),
            ('"' | '\'', _) => {
                out.push(c);
                while let Some(inner) = chars.next_if(|&inner| inner != '\n') {
                    if inner == c {
                        out.push(c);
                        break;
                    }
                    blank(&mut out, inner);
                    if inner == '\\'
                        && let Some(escaped) = chars.next()
                    {
                        blank(&mut out, escaped);
                    }
                }
            }
            (c, _) => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "nvrtc")]
    #[test]
    fn headers_are_read_off_the_text() {
        let text =
            "#include \"a.h\"\n  # include <b/c.h> // d\n/* x */ #include \"e.h\"\n#include MACRO\n#if 1\n#include\n";
        assert_eq!(includes(text), ["a.h", "b/c.h", "e.h"]);
    }

    #[test]
    fn kernels_are_read_off_the_text() {
        type Row<'a> = (&'a str, &'a [(&'a str, &'a [&'a str])]);
        let rows: &[Row<'_>] = &[
            ("", &[]),
            ("extern \"C\" __global__ void f() {}", &[("f", &[])]),
            ("extern \"C\" __global__ void f(void);", &[("f", &[])]),
            (
                "extern \"C\" __global__ void\n__launch_bounds__(256, (2))\nscale(float* out, unsigned n = 3) {}",
                &[("scale", &["float* out", "unsigned n"])],
            ),
            (
                "extern \"C\" { __global__ void f(int); __global__ void g(A<int, 2> a, int b[2]) {} }",
                &[("f", &["int"]), ("g", &["A<int, 2> a", "int b[2]"])],
            ),
            ("__global__ void f(int); __global__ void f(int) {}", &[("f", &["int"])]),
            ("template <class T> __global__ void f(T* x) {}", &[]),
            ("template <class T> struct S {}; __global__ void f() {}", &[("f", &[])]),
            ("// __global__ void a() {}\n/* __global__ void b() {} */ __global__ void c() {}", &[("c", &[])]),
            ("const char* s = \"__global__ void a()\"; char q = '\"'; __global__ void c() {}", &[("c", &[])]),
            ("int n = 1'000; __global__ void c() {}", &[("c", &[])]),
            ("__global__", &[]),
            ("__global__ void f(int", &[]),
            ("__global__ void 1f()", &[]),
            ("\"", &[]),
            ("/*", &[]),
        ];
        for (source, expected) in rows {
            let found = kernels(source);
            let found: Vec<(&str, Vec<&str>)> =
                found.iter().map(|k| (k.name.as_str(), k.params.iter().map(String::as_str).collect())).collect();
            let expected: Vec<(&str, Vec<&str>)> = expected.iter().map(|(n, p)| (*n, p.to_vec())).collect();
            assert_eq!(found, expected, "{source:?}");
        }
    }
}
