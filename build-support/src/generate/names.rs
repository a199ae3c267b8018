//! Rust identifiers from the names of kernels and of their parameters.

use std::collections::BTreeSet;

/// The identifiers of one kernel.
pub(super) struct Identifiers {
    /// The public item: `blur`, `r#type`.
    pub(super) item: String,
    /// The name as a part of other identifiers: `blur`, `type`.
    pub(super) base: String,
}

/// Creates unique identifiers from names.
#[derive(Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    pub(super) fn take(&mut self, name: &str) -> Identifiers {
        let mut base: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if base.starts_with(|c: char| c.is_ascii_digit()) {
            base.insert(0, '_');
        }
        // These cannot be raw identifiers.
        if matches!(base.as_str(), "" | "_" | "self" | "Self" | "super" | "crate") {
            base.push('_');
        }
        let stem = base.clone();
        let mut number = 2;
        while !self.taken.insert(base.clone()) {
            base = format!("{stem}_{number}");
            number += 1;
        }
        let item = if KEYWORDS.contains(&base.as_str()) { format!("r#{base}") } else { base.clone() };
        Identifiers { item, base }
    }
}

/// Keywords of all editions, including reserved ones.
const KEYWORDS: [&str; 49] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "union",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        let mut names = Names::default();
        #[rustfmt::skip]
        let rows = [
            ("blur", "blur"), ("image.blur", "image_blur"), ("image_blur", "image_blur_2"), ("type", "r#type"),
            ("self", "self_"), ("2d", "_2d"), ("_", "__"), ("größe", "gr__e"), ("union", "r#union"), ("a-b", "a_b"),
        ];
        for (name, expected) in rows {
            assert_eq!(names.take(name).item, expected);
        }
    }
}
