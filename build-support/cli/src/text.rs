//! Names, sizes and lists as text for people.

use std::fmt::Write;

/// Escapes characters in a name from the file that a terminal would interpret.
pub(crate) fn shown(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Formats a size as `1.5 KiB`.
pub(crate) fn size(bytes: usize) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if value < 1024.0 || unit == "GiB" {
            let digits = usize::from(unit != "bytes");
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    unreachable!("the last unit returns")
}

/// Formats the first few names.
pub(crate) fn first_few(names: &[String]) -> String {
    let mut text = names.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 4 {
        let _ = write!(text, " and {} more", names.len() - 4);
    }
    text
}
