//! Identifiers: valid, unique, and not keywords.

use std::collections::HashSet;

/// Words that cannot be the name of a variable: keywords of C, C++ and GNU C, macros of the headers
/// that `kernel.h` includes, and the functions that the generated code calls.
const RESERVED: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast constexpr \
    continue decltype default delete do double dynamic_cast else enum errno explicit export extern false final float for friend goto if inline int \
    linux long main mutable namespace new noexcept not not_eq nullptr offsetof operator or or_eq override private protected public register \
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast stderr stdin stdout struct switch template this \
    thread_local throw true try typedef typeid typename typeof union unix unsigned using virtual void volatile wchar_t while xor xor_eq \
    char8_t char16_t char32_t co_await co_return co_yield consteval constinit typeof_unqual \
    L_ctermid L_tmpnam P_tmpdir nullptr_t kernpack_raise ptrdiff_t size_t intptr_t uintptr_t \
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t";

/// The libm functions that builtins become; `f` is appended for single precision.
pub(super) const LIBM: &[&str] = &[
    "acos", "asin", "atan", "atan2", "ceil", "copysign", "cos", "cosh", "erf", "exp", "exp2", "expm1", "fabs", "floor",
    "fma", "fmod", "log", "log10", "log1p", "log2", "pow", "rint", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
];

/// The names of one C file.
#[derive(Clone)]
pub(super) struct Names {
    used: HashSet<String>,
}

impl Names {
    pub(super) fn new() -> Self {
        let mut used: HashSet<String> = RESERVED.split_whitespace().map(str::to_owned).collect();
        used.extend(LIBM.iter().flat_map(|name| [(*name).to_owned(), format!("{name}f")]));
        Self { used }
    }

    /// Reserves a name, so that no variable gets it.
    pub(super) fn reserve(&mut self, name: &str) {
        self.used.insert(name.to_owned());
    }

    /// Returns a unique name similar to the requested one.
    pub(super) fn unique(&mut self, wanted: &str) -> String {
        let base = identifier(wanted);
        let mut name = base.clone();
        let mut count = 1;
        while !self.used.insert(name.clone()) {
            name = format!("{base}_{count}");
            count += 1;
        }
        name
    }
}

/// Converts a text to an identifier: other characters become `_`. Names that the file itself, the
/// headers or the compiler may use are avoided.
fn identifier(wanted: &str) -> String {
    let mut name: String =
        wanted.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).take(200).collect();
    let first = name.chars().next();
    let taken = ["kp_", "kernpack", "TVM", "DL", "kDL", "kTVM", "_"].iter().any(|prefix| name.starts_with(prefix));
    if taken || first.is_none_or(|c| c.is_ascii_digit()) {
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
    use super::Names;

    #[test]
    fn names_are_valid_and_unique() {
        let mut names = Names::new();
        for (wanted, expected) in [
            ("i", "i"),
            ("i", "i_1"),
            ("i.outer", "i_outer"),
            ("int", "int_1"),
            ("", "v"),
            ("0", "v0"),
            ("_x", "v_x"),
            ("N", "N"),
            ("NULL", "NULL_"),
            ("L_tmpnam", "L_tmpnam_1"),
            ("nullptr", "nullptr_1"),
            ("typeof_unqual", "typeof_unqual_1"),
            ("kp_add", "vkp_add"),
            ("sqrtf", "sqrtf_1"),
            ("größe", "gr__e"),
        ] {
            assert_eq!(names.unique(wanted), expected, "{wanted}");
        }
    }
}
