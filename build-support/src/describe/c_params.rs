//! Parameters of CUDA C++ and OpenCL C kernels, and of kernels in LLVM IR, from their text: names
//! and well-known types.
//!
//! Types that only a compiler knows (typedefs, templates, macros) are not guessed: a kernel with
//! such a type has no typed function, unless it is declared. So the generated code does not depend
//! on the installed compiler.

use crate::describe::signature::{Param, Signature, Type};

/// Words that do not affect the type of a value.
const QUALIFIERS: [&str; 17] = [
    "const",
    "volatile",
    "restrict",
    "__restrict",
    "__restrict__",
    "__global",
    "global",
    "__constant",
    "constant",
    "__private",
    "private",
    "__grid_constant__",
    "struct",
    "register",
    "read_only",
    "__read_only",
    "__local",
];

/// Words that form number types.
const NUMBERS: [&str; 7] = ["signed", "unsigned", "char", "short", "int", "long", "double"];

/// Returns the signature of a kernel with these parameters, or the reason why there is none.
pub(crate) fn signature(params: &[String]) -> Result<Signature, String> {
    let params = params.iter().map(|text| {
        param(text).ok_or_else(|| format!("the type of its parameter `{text}` is known to the compiler only"))
    });
    Ok(Signature { params: params.collect::<Result<_, _>>()?, result: Type::None }.name_all())
}

/// Returns the type of a result, from the words before a function's name. `None` if it is neither a
/// number nor `void`.
pub(crate) fn result(text: &str) -> Option<Type> {
    // Macros that export a function are upper-case.
    let is_macro =
        |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let text = text.replace("\"C\"", "");
    let words: Vec<&str> = words(&text)
        .into_iter()
        .filter(|word| {
            !QUALIFIERS.contains(word) && !matches!(*word, "extern" | "static" | "inline" | "__inline" | "__inline__")
        })
        .filter(|word| !is_macro(word))
        .collect();
    match words[..] {
        _ if text.contains('*') => None,
        ["void"] => Some(Type::None),
        // `long double` is wider than any supported type.
        ["long", "double"] => None,
        _ => number(&words),
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).collect()
}

/// Returns true if a pointer points to bytes of any kind: `const void*`.
pub(crate) fn is_void_pointer(text: &str) -> bool {
    let base = words(text.split('*').next().unwrap_or_default());
    text.contains('*') && base.into_iter().filter(|word| !QUALIFIERS.contains(word)).eq(["void"])
}

fn param(text: &str) -> Option<Param> {
    let is_pointer = text.contains(['*', '[']);
    if text.contains('&') || (!is_pointer && text.contains(['<', '(', ':'])) {
        return None;
    }
    let end = text.find('[').unwrap_or(text.len());
    let (base, rest) = match text[..end].rfind('*') {
        Some(star) => (&text[..text.find('*').unwrap_or(star)], &text[star + 1..end]),
        None => (&text[..end], ""),
    };
    let base_words = words(base);
    let of_type: Vec<&str> = base_words.iter().copied().filter(|word| !QUALIFIERS.contains(word)).collect();
    if text.contains('*') {
        let name = words(rest).into_iter().rfind(|word| !QUALIFIERS.contains(word)).unwrap_or_default();
        let is_constant = base_words.iter().any(|word| matches!(*word, "const" | "__constant" | "constant"));
        // A tensor cannot be passed for a pointer to a pointer, but its address fits.
        let element = if text.matches('*').count() == 1 { element(&of_type) } else { None };
        return Some(Param { name: name.to_owned(), ty: Type::Tensor { element, written: !is_constant } });
    }
    // The last word is the name, if there is one.
    let (name, of_type) = match of_type.split_last() {
        Some((name, rest)) if !rest.is_empty() && !NUMBERS.contains(name) && number(&of_type).is_none() => {
            (*name, rest.to_vec())
        }
        _ => ("", of_type),
    };
    // `double _Complex` without a name.
    if matches!(name, "_Complex" | "_Imaginary") {
        return None;
    }
    if is_pointer {
        let is_constant = base_words.iter().any(|word| matches!(*word, "const" | "__constant" | "constant"));
        let ty = Type::Tensor { element: element(&of_type), written: !is_constant };
        return Some(Param { name: name.to_owned(), ty });
    }
    Some(Param { name: name.to_owned(), ty: number(&of_type)? })
}

/// Returns the element type of a pointer to these words.
fn element(words: &[&str]) -> Option<&'static str> {
    Some(match words {
        // The signedness of `char` depends on the compiler, and untyped bytes are passed as
        // `char*`.
        ["char"] | ["void"] => return None,
        ["bool"] => "bool",
        ["half" | "__half"] => "float16",
        ["__nv_bfloat16" | "nv_bfloat16"] => "bfloat16",
        words => match number(words)? {
            Type::Int { bits: 8, signed: true } => "int8",
            Type::Int { bits: 16, signed: true } => "int16",
            Type::Int { bits: 32, signed: true } => "int32",
            Type::Int { bits: 64, signed: true } => "int64",
            Type::Int { bits: 8, signed: false } => "uint8",
            Type::Int { bits: 16, signed: false } => "uint16",
            Type::Int { bits: 32, signed: false } => "uint32",
            Type::Int { bits: 64, signed: false } => "uint64",
            Type::Float { bits: 32 } => "float32",
            Type::Float { bits: 64 } => "float64",
            _ => return None,
        },
    })
}

/// Returns the number type that these words name.
fn number(words: &[&str]) -> Option<Type> {
    let int = |bits, signed| Some(Type::Int { bits, signed });
    let known = match words {
        ["float"] => Some(Type::Float { bits: 32 }),
        ["double"] => Some(Type::Float { bits: 64 }),
        ["half" | "__half"] => Some(Type::Float { bits: 16 }),
        ["int8_t"] => int(8, true),
        ["int16_t"] => int(16, true),
        ["int32_t"] => int(32, true),
        ["int64_t" | "ptrdiff_t" | "ssize_t" | "intptr_t"] => int(64, true),
        ["uint8_t" | "uchar"] => int(8, false),
        ["uint16_t" | "ushort"] => int(16, false),
        ["uint32_t" | "uint"] => int(32, false),
        ["uint64_t" | "size_t" | "uintptr_t" | "ulong"] => int(64, false),
        _ => None,
    };
    if known.is_some() || words.is_empty() {
        return known;
    }
    if !words.iter().all(|word| matches!(*word, "signed" | "unsigned" | "char" | "short" | "int" | "long")) {
        return None;
    }
    let signed = !words.contains(&"unsigned");
    match (words.contains(&"char"), words.contains(&"short"), words.contains(&"long")) {
        (true, ..) => int(8, signed),
        (_, true, _) => int(16, signed),
        (.., true) => int(64, signed),
        _ => int(32, signed),
    }
}

/// Parses parameters of an LLVM IR kernel: `ptr noalias %out, float %by, i32 %n`.
pub(crate) fn ir_signature(params: &str) -> Result<Signature, String> {
    let params: Vec<&str> = params.split(',').map(str::trim).filter(|param| !param.is_empty()).collect();
    let params = params.into_iter().map(|text| {
        let ty = match text.split([' ', '(']).next().unwrap_or_default() {
            "ptr" => Type::Tensor { element: None, written: true },
            "float" => Type::Float { bits: 32 },
            "double" => Type::Float { bits: 64 },
            "i32" => Type::Int { bits: 32, signed: true },
            "i64" => Type::Int { bits: 64, signed: true },
            _ => return Err(format!("its parameter `{text}` is of a type that is not known")),
        };
        let name = text.rsplit_once('%').map_or("", |(_, name)| name.trim());
        let is_name = !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        Ok(Param { name: if is_name { name.to_owned() } else { String::new() }, ty })
    });
    Ok(Signature { params: params.collect::<Result<_, _>>()?, result: Type::None }.name_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_names_and_types() {
        #[rustfmt::skip]
        let rows = [
            ("float* out", "out: mut Tensor[float32]"), ("const float* __restrict__ in", "in: Tensor[float32]"),
            ("float const *in", "in: Tensor[float32]"), ("__global const float * restrict a", "a: Tensor[float32]"),
            ("__constant uint k[4]", "k: Tensor[uint32]"), ("int b[2]", "b: mut Tensor[int32]"), ("void* p", "p: mut Tensor"),
            ("const unsigned char*", "arg0: Tensor[uint8]"), ("char* text", "text: mut Tensor"), ("float4* v", "v: mut Tensor"),
            ("my::Type<int, 2>* t", "t: mut Tensor"), ("float** rows", "rows: mut Tensor"), ("__half* h", "h: mut Tensor[float16]"),
            ("unsigned n", "n: uint32"), ("unsigned long long int m", "m: uint64"), ("long", "arg0: int64"), ("size_t", "arg0: uint64"),
            ("const int n", "n: int32"), ("uint64_t q", "q: uint64"), ("double d", "d: float64"), ("half h", "h: float16"),
            ("short s", "s: int16"), ("unsigned char c", "c: uint8"), ("signed", "arg0: int32"), ("float", "arg0: float32"),
            ("bool* mask", "mask: mut Tensor[bool]"),
        ];
        for (text, expected) in rows {
            let signature = signature(&[text.to_owned()]).unwrap_or_else(|why| panic!("{why}"));
            let Param { name, ty } = &signature.params[0];
            let written = if matches!(ty, Type::Tensor { written: true, .. }) { "mut " } else { "" };
            assert_eq!(format!("{name}: {written}{}", ty.shown()), expected, "{text}");
        }
        for text in
            ["index_t n", "A<int> a", "float3 v", "int& r", "Foo", "dim3 d", "", "double _Complex", "float (*f)"]
        {
            let found = signature(&[text.to_owned()]);
            if text == "float (*f)" {
                assert!(found.is_ok());
                continue;
            }
            assert_eq!(found, Err(format!("the type of its parameter `{text}` is known to the compiler only")));
        }
    }

    #[test]
    fn pointers_to_void() {
        for (text, expected) in [
            ("void* p", true),
            ("const void *restrict p", true),
            ("FILE* f", false),
            ("std::vector<void>* v", false),
            ("float* x", false),
            ("void", false),
        ] {
            assert_eq!(is_void_pointer(text), expected, "{text}");
        }
    }

    #[test]
    fn parameters_of_ir() {
        let signature = ir_signature("ptr noalias nocapture %out, float %by, i32 %0, ptr align(4) %in").unwrap();
        assert_eq!(signature.shown(), "(out: Tensor, by: float32, arg2: int32, in: Tensor)");
        assert_eq!(ir_signature("i8 %x").unwrap_err(), "its parameter `i8 %x` is of a type that is not known");
        assert_eq!(ir_signature(" ").unwrap().params, []);
    }
}
