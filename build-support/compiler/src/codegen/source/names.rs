//! Identifiers: valid, unique, and not words of the language.

use std::collections::HashSet;

use super::vocabulary::{Vectors, Vocabulary};

/// Words that cannot be the name of a variable: keywords of C, C++ and GNU C, and macros of the
/// headers that `kernel.h` includes.
const RESERVED: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast constexpr \
    continue decltype default delete do double dynamic_cast else enum errno explicit export extern false final float for friend goto if inline int \
    linux long main mutable namespace new noexcept not not_eq nullptr offsetof operator or or_eq override private protected public register \
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast stderr stdin stdout struct switch template this \
    thread_local throw true try typedef typeid typename typeof union unix unsigned using virtual void volatile wchar_t while xor xor_eq \
    char8_t char16_t char32_t co_await co_return co_yield consteval constinit typeof_unqual \
    L_ctermid L_tmpnam P_tmpdir nullptr_t kernpack_raise ptrdiff_t size_t intptr_t uintptr_t \
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t";

/// The functions that builtins become; `f` is appended for single precision.
const MATH: &str = "acos asin atan atan2 ceil copysign cos cosh erf exp exp2 expm1 fabs floor fma fmod ldexp log log10 \
    log1p log2 pow rint sin sinh sqrt tan tanh trunc";

/// The scalar types that have vectors, whose names are the type and the number of lanes.
const VECTORS: &str = "char uchar short ushort int uint long ulong longlong ulonglong half float double bool quad";

/// The maximum length of a name, without the number that makes it unique.
const MAX_LENGTH: usize = 200;

/// The names of one file, or of one function in it.
#[derive(Clone)]
pub(crate) struct Names {
    words: &'static Vocabulary,
    used: HashSet<String>,
}

impl Names {
    pub(crate) fn new(words: &'static Vocabulary) -> Self {
        let mut used: HashSet<String> = RESERVED.split_whitespace().map(str::to_owned).collect();
        let functions = MATH.split_whitespace().chain(words.reserved.split_whitespace());
        used.extend(functions.flat_map(|word| [word.to_owned(), format!("{word}f")]));
        Self { words, used }
    }

    /// Reserves a name, so that no variable gets it.
    pub(crate) fn reserve(&mut self, name: &str) {
        self.used.insert(name.to_owned());
    }

    /// Takes a name; returns false if it is not available.
    pub(crate) fn take(&mut self, name: &str) -> bool {
        self.words.identifier(name) == name && self.used.insert(name.to_owned())
    }

    /// Returns a unique name similar to the requested one.
    pub(crate) fn unique(&mut self, wanted: &str) -> String {
        let mut base = self.words.identifier(wanted);
        base.truncate(MAX_LENGTH);
        let mut name = base.clone();
        let mut count = 1;
        while !self.used.insert(name.clone()) {
            name = format!("{base}_{count}");
            count += 1;
        }
        name
    }
}

impl Vocabulary {
    /// Converts a text to an identifier: other characters become `_`. Names that the file itself,
    /// headers, libraries or the compiler may use are avoided.
    pub(crate) fn identifier(&self, wanted: &str) -> String {
        let mut name: String =
            wanted.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        let is_vector = || {
            let lanes = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            let element = name.strip_suffix(lanes).unwrap_or_default();
            ["2", "3", "4", "8", "16"].contains(&lanes) && VECTORS.split_whitespace().any(|known| known == element)
        };
        let is_taken = self.prefixes.iter().any(|prefix| name.starts_with(prefix))
            || self.vectors != Vectors::Extension && is_vector();
        if is_taken || name.chars().next().is_none_or(|c| c.is_ascii_digit()) {
            name.insert(0, 'v');
        }
        // Macros are in upper case.
        if name.len() > 1 && !name.chars().any(|c| c.is_ascii_lowercase()) {
            name.push('_');
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::{C, CUDA, OPENCL};
    use super::Names;

    #[test]
    fn names_are_valid_and_unique() {
        for words in [&C, &OPENCL, &CUDA] {
            let mut names = Names::new(words);
            for (wanted, expected) in [
                ("i", "i"),
                ("i", "i_1"),
                ("i.outer", "i_outer"),
                ("int", "int_1"),
                ("int5", "int5"),
                ("", "v"),
                ("0", "v0"),
                ("_x", "v_x"),
                ("N", "N"),
                ("M_PI", "M_PI_"),
                ("NULL", "NULL_"),
                ("L_tmpnam", "L_tmpnam_1"),
                ("nullptr", "nullptr_1"),
                ("typeof_unqual", "typeof_unqual_1"),
                ("kp_add", "vkp_add"),
                ("exp", "exp_1"),
                ("sqrtf", "sqrtf_1"),
                ("größe", "gr__e"),
            ] {
                assert_eq!(names.unique(wanted), expected, "{wanted}");
            }
            assert!(names.take("f_kernel0") && !names.take("f_kernel0") && !names.take("a b") && !names.take("sin"));
            let long = "k".repeat(300);
            assert!(names.take(&long) && names.unique(&long) == long[..200]);
        }
        for words in [&OPENCL, &CUDA] {
            let mut names = Names::new(words);
            for (wanted, expected) in [
                ("uint", "uint_1"),
                ("int4", "vint4"),
                ("double16", "vdouble16"),
                ("as_int", "vas_int"),
                ("convert_x", "vconvert_x"),
                ("rsqrt", "rsqrt_1"),
            ] {
                assert_eq!(names.unique(wanted), expected, "{wanted}");
            }
        }
        assert_eq!(Names::new(&C).unique("image"), "image");
        assert_eq!(Names::new(&OPENCL).unique("kernel"), "kernel_1");
        assert_eq!(Names::new(&CUDA).unique("threadIdx"), "threadIdx_1");
    }
}
