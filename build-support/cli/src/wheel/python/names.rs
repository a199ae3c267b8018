//! Converts names of a library to names of Python.

/// Words that cannot be names. `print` and similar words can.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Returns true if the text is a Python identifier in ASCII. Python normalizes other letters
/// (NFKC).
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !KEYWORDS.contains(&text)
}

/// Removes the package's own name from the front of a library name.
pub(crate) fn own_name<'a>(name: &'a str, package: &str) -> &'a str {
    name.strip_prefix(package).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

/// Returns the name of a function or a type as an attribute of the package: without the package's
/// own name in front, and with underscores in place of dots. `None` if it is not a valid Python
/// name.
pub(crate) fn attribute(name: &str, package: &str) -> Option<String> {
    let text = own_name(name, package).replace('.', "_");
    // Names with two underscores belong to Python and to this module.
    Some(text).filter(|text| is_identifier(text) && !text.starts_with("__"))
}

/// Returns the place of a function or a type in an extension module: the inner module that contains
/// it, with dots (empty for the extension module itself), and its name in the module. `None` if it
/// is not a valid Python name.
pub(crate) fn place<'a>(name: &'a str, package: &str) -> Option<(&'a str, &'a str)> {
    let own = own_name(name, package);
    let is_name = |part: &str| is_identifier(part) && !part.starts_with("__");
    own.split('.').all(is_name).then(|| own.rsplit_once('.').unwrap_or(("", own)))
}

/// Formats a text as a Python literal.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() || !c.is_ascii() => match u32::from(c) {
                code @ ..0x1_0000 => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Formats a docstring as the lines of a block, with `indent` before each line.
pub(crate) fn docstring(text: &str, indent: &str) -> String {
    let text = text.trim();
    // Three quotes would end the docstring, and so would one at its end.
    let text = text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    let text = match text.strip_suffix('"').filter(|rest| !rest.ends_with('\\')) {
        Some(rest) => format!("{rest}\\\""),
        None => text,
    };
    let plain = |c: &char| !c.is_control() || *c == '\n' || *c == '\t';
    let text: String = text.chars().filter(plain).collect();
    let mut lines = text.lines();
    let mut out = format!("{indent}\"\"\"{}", lines.next().unwrap_or_default().trim_end());
    let mut several = false;
    for line in lines {
        several = true;
        out.push('\n');
        if !line.trim().is_empty() {
            out.push_str(indent);
            out.push_str(line.trim_end());
        }
    }
    if several {
        out.push('\n');
        out.push_str(indent);
    }
    out.push_str("\"\"\"\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes() {
        for (name, expected) in [
            ("crop", Some("crop")),
            ("kit.crop", Some("crop")),
            ("kit.Expr.Add", Some("Expr_Add")),
            ("kitchen.sink", Some("kitchen_sink")),
            ("colors.color", Some("colors_color")),
            ("lambda", None),
            ("kit.class", None),
            ("__init__", None),
            ("4x4", None),
            ("na\u{ef}ve", None),
            ("a-b", None),
        ] {
            assert_eq!(attribute(name, "kit").as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn places() {
        for (name, expected) in [
            ("crop", Some(("", "crop"))),
            ("kit.crop", Some(("", "crop"))),
            ("kit.Expr.Add", Some(("Expr", "Add"))),
            ("colors.dark.color", Some(("colors.dark", "color"))),
            ("colors.lambda", None),
            ("class.color", None),
            ("a..b", None),
        ] {
            assert_eq!(place(name, "kit"), expected, "{name}");
        }
    }

    #[test]
    fn texts() {
        assert_eq!(literal("a\"b\\c\nd\u{e9}\u{1f600}\u{1b}"), "\"a\\\"b\\\\c\\nd\\u00e9\\U0001f600\\u001b\"");
        assert_eq!(docstring("One line.", "  "), "  \"\"\"One line.\"\"\"\n");
        assert_eq!(
            docstring("A \"\"\"b\"\"\" \\n\n\nSays \"c\"", "  "),
            "  \"\"\"A \\\"\\\"\\\"b\\\"\\\"\\\" \\\\n\n\n  Says \"c\\\"\n  \"\"\"\n"
        );
    }
}
