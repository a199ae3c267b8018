//! Types of plain C functions, from the text of a header: its typedefs and enums, the boolean
//! types, and the reason why a type is not supported.

use std::collections::HashMap;

/// The meaning of a type name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    /// Other type words: `unsigned long`, `const float*`.
    Words(String),
    /// An integer with named values.
    Enum,
    EnumPointer,
    Callback,
    Struct,
}

/// The type names that a header defines.
pub(super) struct Typedefs(HashMap<String, Meaning>);

/// A parameter with all typedefs expanded.
pub(super) struct Expanded {
    pub(super) text: String,
    /// True if the parameter is a truth value.
    pub(super) is_bool: bool,
    /// The number of elements of an array parameter, if the header gives it.
    pub(super) size: Option<String>,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Splits text into words and single other characters.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let end = if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

impl Typedefs {
    /// Reads the typedefs of a text without comments and preprocessor lines.
    pub(super) fn of(header: &str) -> Self {
        let mut known = HashMap::new();
        let all: Vec<&str> = tokens(header).collect();
        for (start, _) in all.iter().enumerate().filter(|(_, token)| **token == "typedef") {
            let mut depth = 0;
            let end = all[start..].iter().position(|token| {
                depth += i32::from(*token == "{") - i32::from(*token == "}");
                *token == ";" && depth <= 0
            });
            let Some(end) = end else { continue };
            if let Some((name, meaning)) = definition(&all[start + 1..start + end]) {
                known.insert(name, meaning);
            }
        }
        // In C++ these names can be used without `struct` or `enum`.
        for (at, token) in all.iter().enumerate() {
            let meaning = match *token {
                "enum" => Meaning::Enum,
                "struct" | "union" => Meaning::Struct,
                "class" if at == 0 || all[at - 1] != "enum" => Meaning::Struct,
                _ => continue,
            };
            let name = all[at + 1..].iter().find(|token| **token != "class" && **token != "struct");
            if let Some(name) = name.filter(|name| is_name(name)) {
                known.entry((*name).to_owned()).or_insert(meaning);
            }
        }
        Self(known)
    }

    /// Returns a declaration with its type names expanded.
    fn words(&self, text: &str) -> (String, Option<Meaning>) {
        let (mut out, mut found) = (Vec::new(), None);
        let mut all = tokens(text).peekable();
        while let Some(token) = all.next() {
            if token == "std" && all.peek() == Some(&":") {
                all.next();
                all.next();
                continue;
            }
            if token == "enum" {
                // Skip its name, too.
                all.next();
                found = Some(Meaning::Enum);
                out.push("int".to_owned());
                continue;
            }
            match self.resolved(token) {
                // The last word is the name of the parameter, even if a type has the same name.
                Some(_) if all.peek().is_none() && !out.is_empty() => out.push(token.to_owned()),
                Some(Meaning::Words(words)) => {
                    found.get_or_insert(Meaning::Words(String::new()));
                    // `const` before the name of a pointer type makes the pointer constant, not the
                    // pointee.
                    if words.contains('*') {
                        out.retain(|word| word != "const");
                    }
                    out.push(words);
                }
                Some(Meaning::Enum) => {
                    found = Some(Meaning::Enum);
                    out.push("int".to_owned());
                }
                Some(meaning) => {
                    found = Some(meaning);
                    out.push(token.to_owned());
                }
                None => out.push(token.to_owned()),
            }
        }
        (out.join(" "), found)
    }

    /// Resolves a name to its final meaning, through typedefs of typedefs.
    fn resolved(&self, name: &str) -> Option<Meaning> {
        let mut meaning = self.0.get(name)?.clone();
        for _ in 0..self.0.len() {
            let Meaning::Words(words) = &meaning else { break };
            let next = tokens(words).find(|token| self.0.contains_key(*token));
            let Some(next) = next else { break };
            meaning = match &self.0[next] {
                Meaning::Words(inner) => Meaning::Words(replaced(words, next, inner)),
                other if words == next => other.clone(),
                Meaning::Struct => return Some(Meaning::Words("struct opaque *".to_owned())),
                Meaning::Enum | Meaning::EnumPointer if words.contains('*') => return Some(Meaning::EnumPointer),
                _ => break,
            };
        }
        Some(meaning)
    }

    /// Expands a parameter.
    pub(super) fn param(&self, text: &str) -> Result<Expanded, String> {
        let (words, meaning) = self.words(text);
        let is_pointer = words.contains(['*', '[']);
        let refused = |what: &str| Err(format!("its parameter `{text}` is {what}; write a kernel that calls it"));
        if text.trim() == "..." {
            return Err("it takes any number of arguments; write a kernel that calls it".to_owned());
        }
        if words.contains('(') || meaning == Some(Meaning::Callback) {
            return refused("a callback");
        }
        let names: Vec<&str> = tokens(&words).filter(|token| is_name(token)).collect();
        if names.first() == Some(&"struct") || names.contains(&"struct") || meaning == Some(Meaning::Struct) {
            let handle = "a pointer to a struct; wrap it in an object type in Rust, or";
            return match is_pointer {
                true => Err(format!("its parameter `{text}` is {handle} write a kernel that calls it")),
                false => refused("a struct"),
            };
        }
        if words.matches('*').count() + words.matches('[').count() > 1 {
            return refused("a pointer to pointers or arrays");
        }
        if (is_pointer && meaning == Some(Meaning::Enum)) || meaning == Some(Meaning::EnumPointer) {
            return refused("a pointer to an enum");
        }
        let is_text = names.iter().find(|word| !matches!(**word, "const" | "restrict" | "__restrict")) == Some(&"char");
        if is_pointer && is_text {
            return refused("text");
        }
        let is_bool = !is_pointer && names.iter().any(|word| matches!(*word, "bool" | "_Bool"));
        let text_of_type = if is_bool { renamed(&words, "int8_t") } else { words.replace("_Bool", "bool") };
        Ok(Expanded { text: text_of_type, is_bool, size: size(text) })
    }

    /// Expands a result type without the words that export a function, and returns whether it is a
    /// boolean.
    pub(super) fn result(&self, text: &str) -> (String, bool) {
        // A result has no name after its type.
        let (words, _) = self.words(&format!("{text} result"));
        let words = words.strip_suffix("result").unwrap_or(&words).trim().to_owned();
        let is_bool = !words.contains('*') && tokens(&words).any(|word| matches!(word, "bool" | "_Bool"));
        if is_bool { (renamed(&words, "int8_t"), true) } else { (words, false) }
    }
}

fn replaced(words: &str, name: &str, by: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    for token in tokens(words) {
        if token == name && by.contains('*') {
            out.retain(|word| *word != "const");
        }
        out.push(if token == name { by } else { token });
    }
    out.join(" ")
}

fn renamed(words: &str, by: &str) -> String {
    replaced(&replaced(words, "bool", by), "_Bool", by)
}

/// Returns the name that a typedef defines, and its meaning.
fn definition(words: &[&str]) -> Option<(String, Meaning)> {
    if let Some(star) = words.windows(2).position(|pair| pair == ["(", "*"]) {
        let name = words.get(star + 2).filter(|name| is_name(name))?;
        return Some(((*name).to_owned(), Meaning::Callback));
    }
    let (name, of) = words.split_last()?;
    let mut depth = 0;
    let has_many_names = of.iter().any(|token| {
        depth += i32::from(*token == "{") - i32::from(*token == "}");
        *token == "," && depth == 0
    });
    // In `typedef double *vec, real;` no name is recognized.
    if !is_name(name) || has_many_names {
        return None;
    }
    let meaning = match of.first() {
        Some(&"enum") if !of.contains(&"*") => Meaning::Enum,
        Some(&"enum") => Meaning::EnumPointer,
        Some(&("struct" | "union")) if !of.contains(&"*") => Meaning::Struct,
        Some(&("struct" | "union")) => Meaning::Words("struct opaque *".to_owned()),
        _ => Meaning::Words(of.join(" ")),
    };
    Some(((*name).to_owned(), meaning))
}

/// Returns the type of a parameter as the header spells it: without its name, an array as a
/// pointer.
pub(super) fn type_of(text: &str, name: &str) -> String {
    let (before, star) = text.split_once('[').map_or((text, ""), |(before, _)| (before, "*"));
    let before = before.trim();
    let of = before.strip_suffix(name).filter(|of| !of.ends_with(is_word)).unwrap_or(before);
    let words = of.split_whitespace().filter(|word| *word != "register").chain((!star.is_empty()).then_some(star));
    words.collect::<Vec<_>>().join(" ")
}

/// Removes attributes: `__attribute__((..))`, `__declspec(..)`, `[[..]]`.
pub(super) fn without_attributes(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = ["__attribute__", "__declspec", "[["].iter().filter_map(|mark| rest.find(mark)).min() {
        let mut depth = 0;
        let end = rest[start..].find(|c: char| {
            depth += i32::from("([".contains(c)) - i32::from(")]".contains(c));
            depth == 0 && ")]".contains(c)
        });
        let Some(end) = end else { break };
        out.push_str(&rest[..start]);
        out.push(' ');
        rest = &rest[start + end + 1..];
    }
    out + rest
}

/// Returns the number of elements of `double x[4]` or `double x[static 4]`.
fn size(text: &str) -> Option<String> {
    let inner = text.split_once('[')?.1.split_once(']')?.0.trim();
    let number = inner.strip_prefix("static").unwrap_or(inner).trim();
    number.parse::<u32>().ok().map(|number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "typedef double real_t; typedef real_t sample; typedef const float* row; typedef enum mode { FAST, SLOW = 7 } mode_t_;
        typedef struct plan plan; typedef struct { double re, im; } cpx; typedef plan* handle; typedef double (*callback)(double, void*);
        typedef unsigned long long word; enum class color { RED }; class shape {};";

    #[test]
    fn names_of_types_are_known() {
        let known = Typedefs::of(HEADER);
        let rows = [
            ("const sample* x", "const double * x"),
            ("sample x", "double x"),
            ("row values", "const float * values"),
            ("word n", "unsigned long long n"),
            ("mode_t_ m", "int m"),
            ("enum mode m", "int m"),
            ("color c", "int c"),
            ("std::size_t n", "size_t n"),
            ("int plan", "int plan"),
            ("bool yes", "int8_t yes"),
            ("_Bool* all", "bool * all"),
            ("float x[4]", "float x [ 4 ]"),
        ];
        for (text, expected) in rows {
            assert_eq!(known.param(text).map(|expanded| expanded.text), Ok(expected.to_owned()), "{text}");
        }
        let rows = [
            ("enum mode m", "m", "enum mode"),
            ("const sample *x", "x", "const sample *"),
            ("register int\n n", "n", "int"),
            ("const double y[static 4]", "y", "const double *"),
            ("std::size_t n", "n", "std::size_t"),
            ("unsigned long", "arg0", "unsigned long"),
            ("maxn", "n", "maxn"),
        ];
        for (text, name, expected) in rows {
            assert_eq!(type_of(text, name), expected, "{text}");
        }
        assert_eq!(known.param("double x[static 4]").unwrap().size.as_deref(), Some("4"));
        assert_eq!(known.result("real_t"), ("double".to_owned(), false));
        assert_eq!(known.result("static inline bool"), ("static inline int8_t".to_owned(), true));
    }

    #[test]
    fn what_is_not_passed_says_why() {
        let known = Typedefs::of(HEADER);
        let struct_pointer =
            "a pointer to a struct; wrap it in an object type in Rust, or write a kernel that calls it";
        let rows = [
            ("callback f", "a callback; write a kernel that calls it"),
            ("double (*f)(double)", "a callback; write a kernel that calls it"),
            ("plan* p", struct_pointer),
            ("const struct other* p", struct_pointer),
            ("handle h", struct_pointer),
            ("cpx z", "a struct; write a kernel that calls it"),
            ("shape s", "a struct; write a kernel that calls it"),
            ("const char* name", "text; write a kernel that calls it"),
            ("float rows[][3]", "a pointer to pointers or arrays; write a kernel that calls it"),
            ("float** rows", "a pointer to pointers or arrays; write a kernel that calls it"),
            ("mode_t_* m", "a pointer to an enum; write a kernel that calls it"),
        ];
        for (text, expected) in rows {
            let error = known.param(text).err();
            assert_eq!(error, Some(format!("its parameter `{text}` is {expected}")));
        }
        assert!(known.param("...").is_err_and(|why| why.starts_with("it takes any number of arguments")));
    }

    /// `const` before such a name does not apply to the numbers.
    #[test]
    fn pointers_with_names() {
        let known = Typedefs::of(
            "typedef double* vec; typedef const vec fixed; typedef double *const held; typedef vec again; typedef const float* row;
             typedef enum mode *mode_ptr; typedef enum kind { A, B } kind; typedef kind *kind_ptr;
             typedef enum level { LOW, HIGH } level, *level_ptr; typedef double *many, real; typedef double fn(double);",
        );
        for (text, expected) in [
            ("const vec x", "double * x"),
            ("vec const x", "double * const x"),
            ("fixed x", "double * x"),
            ("const held x", "double * const x"),
            ("const again x", "double * x"),
            ("const row x", "const float * x"),
            // Typedefs that are not parsed keep their names.
            ("level_ptr x", "level_ptr x"),
            ("real x", "real x"),
            ("many x", "many x"),
            ("fn* f", "fn * f"),
        ] {
            assert_eq!(known.param(text).map(|expanded| expanded.text), Ok(expected.to_owned()), "{text}");
        }
        for text in ["mode_ptr m", "const mode_ptr m", "kind_ptr m", "kind* m"] {
            let expected = format!("its parameter `{text}` is a pointer to an enum; write a kernel that calls it");
            assert_eq!(known.param(text).err(), Some(expected));
        }
    }

    #[test]
    fn attributes_are_left_out() {
        for (text, expected) in [
            ("__attribute__((format(printf, 1, 2))) int", "int"),
            ("[[nodiscard]] static __declspec(dllexport) int", "static int"),
            ("__attribute__((", "__attribute__(("),
            ("double", "double"),
        ] {
            let words = without_attributes(text);
            assert_eq!(words.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
        }
    }

    #[test]
    fn torn_headers_do_not_panic() {
        for end in 0..HEADER.len() {
            let known = Typedefs::of(&HEADER[..end]);
            let _ = known.param(&HEADER[end..]);
            let _ = known.result(&HEADER[end..]);
            let _ = without_attributes(&HEADER[end..]);
        }
        let _ = Typedefs::of("typedef a b; typedef b a;").param("a x");
    }
}
