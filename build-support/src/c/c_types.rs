//! Types of plain C functions, as the text of a header tells them: its typedefs and enums, what is a truth value, and why something else is
//! not passed.

use std::collections::HashMap;

/// What a name of a type stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    /// Other words: `unsigned long`, `const float*`.
    Words(String),
    /// An integer that has names.
    Enum,
    Callback,
    Struct,
}

/// The names that a header gives to types.
pub(super) struct Typedefs(HashMap<String, Meaning>);

/// A parameter in words that are known without the header.
pub(super) struct Expanded {
    pub(super) text: String,
    /// Whether it is a truth value.
    pub(super) is_bool: bool,
    /// The type as the header has it, where it is not the one of `text`.
    pub(super) cast: Option<String>,
    /// How many elements an array parameter has, where the header says it.
    pub(super) size: Option<String>,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Words, and all other characters one by one.
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
    /// Those of a text without comments and lines of the preprocessor.
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
        // In C++ these names stand alone.
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

    /// A declaration with what its names of types stand for.
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
                // And its name.
                all.next();
                found = Some(Meaning::Enum);
                out.push("int".to_owned());
                continue;
            }
            match self.resolved(token) {
                // The last word is the name of the parameter, even where a type is called so.
                Some(_) if all.peek().is_none() && !out.is_empty() => out.push(token.to_owned()),
                Some(Meaning::Words(words)) => {
                    found.get_or_insert(Meaning::Words(String::new()));
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

    /// What a name stands for in the end: typedefs may lead to others.
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
                _ => break,
            };
        }
        Some(meaning)
    }

    /// A parameter.
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
        if is_pointer && meaning == Some(Meaning::Enum) {
            return refused("a pointer to an enum");
        }
        let is_text = names.iter().find(|word| !matches!(**word, "const" | "restrict" | "__restrict")) == Some(&"char");
        if is_pointer && is_text {
            return refused("text");
        }
        let is_bool = !is_pointer && names.iter().any(|word| matches!(*word, "bool" | "_Bool"));
        let text_of_type = if is_bool { renamed(&words, "int8_t") } else { words.replace("_Bool", "bool") };
        let cast = meaning.is_some().then(|| type_of(text)).filter(|_| !is_pointer).flatten();
        Ok(Expanded { text: text_of_type, is_bool, cast, size: size(text) })
    }

    /// A result, without the words that export a function; and whether it is a truth value.
    pub(super) fn result(&self, text: &str) -> (String, bool) {
        // A result has no name behind its type.
        let (words, _) = self.words(&format!("{text} result"));
        let words = words.strip_suffix("result").unwrap_or(&words).trim().to_owned();
        let is_bool = !words.contains('*') && tokens(&words).any(|word| matches!(word, "bool" | "_Bool"));
        if is_bool { (renamed(&words, "int8_t"), true) } else { (words, false) }
    }
}

fn replaced(words: &str, name: &str, by: &str) -> String {
    tokens(words).map(|token| if token == name { by } else { token }).collect::<Vec<_>>().join(" ")
}

fn renamed(words: &str, by: &str) -> String {
    replaced(&replaced(words, "bool", by), "_Bool", by)
}

/// The name that a typedef gives, and to what.
fn definition(words: &[&str]) -> Option<(String, Meaning)> {
    if let Some(star) = words.windows(2).position(|pair| pair == ["(", "*"]) {
        let name = words.get(star + 2).filter(|name| is_name(name))?;
        return Some(((*name).to_owned(), Meaning::Callback));
    }
    let (name, of) = words.split_last()?;
    if !is_name(name) {
        return None;
    }
    let meaning = match of.first() {
        Some(&"enum") => Meaning::Enum,
        Some(&("struct" | "union")) if !of.contains(&"*") => Meaning::Struct,
        Some(&("struct" | "union")) => Meaning::Words("struct opaque *".to_owned()),
        _ => Meaning::Words(of.join(" ")),
    };
    Some(((*name).to_owned(), meaning))
}

/// A parameter without its name.
fn type_of(text: &str) -> Option<String> {
    let all: Vec<&str> = tokens(text).collect();
    let (name, of) = all.split_last()?;
    match is_name(name) && !of.is_empty() && *of != ["enum"] && *of != ["const"] {
        true => Some(of.join(" ")),
        false => Some(all.join(" ")),
    }
}

/// How many elements `double x[4]` and `double x[static 4]` have.
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
        let cast = |text: &str| known.param(text).unwrap().cast;
        assert_eq!(cast("enum mode m"), Some("enum mode".to_owned()));
        assert_eq!(cast("mode_t_ m"), Some("mode_t_".to_owned()));
        assert_eq!((cast("int n"), cast("const sample* x")), (None, None));
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

    #[test]
    fn torn_headers_do_not_panic() {
        for end in 0..HEADER.len() {
            let known = Typedefs::of(&HEADER[..end]);
            let _ = known.param(&HEADER[end..]);
            let _ = known.result(&HEADER[end..]);
        }
        let _ = Typedefs::of("typedef a b; typedef b a;").param("a x");
    }
}
