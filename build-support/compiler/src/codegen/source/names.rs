//! Identifiers: valid, unique, and not words of the language.

use std::collections::HashSet;

use super::vocabulary::Vocabulary;

/// Words of C and C++, and functions that the generated code calls.
const RESERVED: &str = "alignas alignof asm auto break case catch char class const constexpr const_cast continue decltype default \
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable \
    namespace new noexcept nullptr operator private protected public register reinterpret_cast restrict return short signed \
    sizeof static static_assert static_cast struct switch template this throw true try typedef typeid typename typeof union \
    unsigned using virtual void volatile wchar_t while and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq \
    size_t ptrdiff_t intptr_t uintptr_t linux unix \
    acos asin atan atan2 ceil copysign cos cosh erf exp exp2 expm1 fabs floor fma fmod ldexp log log10 log1p log2 pow rint sin sinh sqrt \
    tan tanh trunc";

/// The scalar types that have vectors, whose names are the type and the number of lanes.
const VECTORS: &[&str] = &[
    "char",
    "uchar",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "longlong",
    "ulonglong",
    "half",
    "float",
    "double",
    "bool",
    "quad",
];

/// The prefixes of names that the languages, their compilers or the generated code use.
const PREFIXES: &[&str] =
    &["_", "kp_", "as_", "convert_", "vload", "vstore", "image", "cl_", "intel_", "CLK_", "cuda", "cu_", "nv_"];

/// The names of one file, or of one function in it.
#[derive(Clone)]
pub(super) struct Names {
    used: HashSet<String>,
}

impl Names {
    pub(super) fn new(words: &Vocabulary) -> Self {
        let used = RESERVED.split_whitespace().chain(words.reserved.split_whitespace());
        Self { used: used.flat_map(|word| [word.to_owned(), format!("{word}f")]).collect() }
    }

    /// Takes a name; returns false if it is not available.
    pub(super) fn take(&mut self, name: &str) -> bool {
        identifier(name) == name && self.used.insert(name.to_owned())
    }

    /// Returns a unique name similar to the requested one.
    pub(super) fn unique(&mut self, wanted: &str) -> String {
        let mut base = identifier(wanted);
        base.truncate(100);
        let mut name = base.clone();
        let mut count = 1;
        while !self.used.insert(name.clone()) {
            name = format!("{base}_{count}");
            count += 1;
        }
        name
    }
}

/// Converts a text to an identifier that is not a word of a language: other characters become `_`.
pub(crate) fn identifier(wanted: &str) -> String {
    let mut name: String =
        wanted.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    let is_vector = || {
        let lanes = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        ["2", "3", "4", "8", "16"].contains(&lanes) && VECTORS.contains(&name.strip_suffix(lanes).unwrap_or_default())
    };
    let first = name.chars().next();
    if is_vector() || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || first.is_none_or(|c| c.is_ascii_digit())
    {
        name.insert(0, 'v');
    }
    // Macros are in upper case.
    if name.len() > 1 && !name.chars().any(|c| c.is_ascii_lowercase()) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::{CUDA, OPENCL};
    use super::Names;

    #[test]
    fn names_are_valid_and_unique() {
        for words in [&OPENCL, &CUDA] {
            let mut names = Names::new(words);
            for (wanted, expected) in [
                ("i", "i"),
                ("i", "i_1"),
                ("i.outer", "i_outer"),
                ("int", "int_1"),
                ("uint", "uint_1"),
                ("int4", "vint4"),
                ("double16", "vdouble16"),
                ("int5", "int5"),
                ("as_int", "vas_int"),
                ("convert_x", "vconvert_x"),
                ("M_PI", "M_PI_"),
                ("", "v"),
                ("0", "v0"),
                ("_x", "v_x"),
                ("N", "N"),
                ("exp", "exp_1"),
                ("rsqrt", "rsqrt_1"),
                ("größe", "gr__e"),
            ] {
                assert_eq!(names.unique(wanted), expected, "{wanted}");
            }
            assert!(names.take("f_kernel0") && !names.take("f_kernel0") && !names.take("a b") && !names.take("sin"));
            let long = "k".repeat(200);
            assert!(names.take(&long) && names.unique(&long) == long[..100]);
        }
        assert_eq!(Names::new(&OPENCL).unique("kernel"), "kernel_1");
        assert_eq!(Names::new(&CUDA).unique("threadIdx"), "threadIdx_1");
    }
}
