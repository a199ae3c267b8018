//! The little of JSON (RFC 8259) that is written and read here.

use std::fmt::Write as _;

/// A text as a JSON string.
pub(crate) fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The texts of the elements of an array; `None` for what is no whole array.
pub(crate) fn elements(array: &str) -> Option<Vec<String>> {
    let inner = array.trim().strip_prefix('[')?.strip_suffix(']')?;
    let (mut elements, mut depth, mut start, mut in_string, mut escaped) = (Vec::new(), 0usize, 0, false, false);
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                elements.push(inner[start..at].trim().to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 || in_string {
        return None;
    }
    let last = inner[start..].trim();
    if !last.is_empty() {
        elements.push(last.to_owned());
    }
    elements.iter().all(|element| !element.is_empty()).then_some(elements)
}

/// The value of an object's member that is a string.
pub(crate) fn member(object: &str, name: &str) -> Option<String> {
    let inner = object.trim().strip_prefix('{')?.strip_suffix('}')?;
    let members = elements(&format!("[{inner}]"))?;
    members.iter().find_map(|member| {
        let rest = member.strip_prefix(string(name).as_str())?.trim_start().strip_prefix(':')?.trim();
        unescaped(rest.strip_prefix('"')?.strip_suffix('"')?)
    })
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let digits: String = chars.by_ref().take(4).collect();
                char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
            }
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_objects() {
        assert_eq!(elements("[]"), Some(vec![]));
        assert_eq!(elements(" [ 1, {\"a\": [2, 3]}, \"x,]\\\"\" ] ").unwrap(), ["1", "{\"a\": [2, 3]}", "\"x,]\\\"\""]);
        for torn in ["", "[", "{}", "[1", "[{]", "[\"]", "[]]", "[1,,2]"] {
            assert_eq!(elements(torn), None, "{torn}");
        }
        let object = "{ \"n\": 1, \"text\" : \"a\\n\\\"\\u00e4\\\\\", \"o\": {\"text2\": \"no\"} }";
        assert_eq!(member(object, "text").unwrap(), "a\n\"ä\\");
        assert_eq!(member(object, "text2"), None);
        assert_eq!(member(object, "n"), None);
        let text = "a\n\"ä\\\u{1}";
        assert_eq!(member(&format!("{{\"t\":{}}}", string(text)), "t").unwrap(), text);
    }
}
