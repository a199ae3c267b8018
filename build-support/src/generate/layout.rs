//! Formats generated code like rustfmt with its default options and edition 2024. A test runs
//! rustfmt over generated files.
//!
//! Lines have at most 100 characters. The arguments of a call and the elements of an array stay on
//! one line up to 60 characters.

use std::fmt::Write as _;

const LINE: usize = 100;
const ITEMS: usize = 60;
/// Array elements up to this width share lines.
const SHORT: usize = 10;

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Writes `head` and `tail` with items between them: on one line, or one item per line. `head` ends
/// with the opening bracket.
pub(super) fn array(out: &mut String, indent: usize, head: &str, items: &[String], tail: &str) {
    let space = " ".repeat(indent);
    let inner = items.join(", ");
    let fits = indent + width(head) + width(&inner) + width(tail) <= LINE;
    let is_literal = items.first().is_some_and(|item| item.starts_with('"') || !item.contains('('));
    if fits && (width(&inner) <= ITEMS || (items.len() == 1 && is_literal)) {
        let _ = writeln!(out, "{space}{head}{inner}{tail}");
        return;
    }
    if let [only] = items
        && !is_literal
        && let Some((call, argument)) = only.split_once('(')
        && let Some(argument) = argument.strip_suffix(')')
    {
        let _ = writeln!(out, "{space}{head}{call}(\n{space}    {argument},\n{space}){tail}");
        return;
    }
    let _ = writeln!(out, "{space}{head}");
    if items.iter().all(|item| width(item) <= SHORT) {
        let mut line = String::new();
        for item in items {
            if !line.is_empty() && indent + 4 + width(&line) + 1 + width(item) + 1 > LINE {
                let _ = writeln!(out, "{space}    {line}");
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            let _ = write!(line, "{item},");
        }
        let _ = writeln!(out, "{space}    {line}");
    } else {
        for item in items {
            match item.split_once('(').and_then(|(call, argument)| Some((call, argument.strip_suffix(')')?))) {
                Some((call, argument)) if indent + 4 + width(item) + 1 > LINE => {
                    let _ = writeln!(out, "{space}    {call}(\n{space}        {argument},\n{space}    ),");
                }
                _ => {
                    let _ = writeln!(out, "{space}    {item},");
                }
            }
        }
    }
    let _ = writeln!(out, "{space}{tail}");
}

/// Writes a call as the value of a block.
pub(super) fn call(out: &mut String, indent: usize, function: &str, args: &[String]) {
    let space = " ".repeat(indent);
    let inner = args.join(", ");
    if width(&inner) <= ITEMS && indent + width(function) + width(&inner) + 2 <= LINE {
        let _ = writeln!(out, "{space}{function}({inner})");
        return;
    }
    let _ = writeln!(out, "{space}{function}(");
    for arg in args {
        let _ = writeln!(out, "{space}    {arg},");
    }
    let _ = writeln!(out, "{space})");
}

/// Writes the head of a function, up to the opening brace of its body.
pub(super) fn function(out: &mut String, indent: usize, head: &str, params: &[String], result: &str) {
    let space = " ".repeat(indent);
    let inner = params.join(", ");
    let line = format!("{space}{head}({inner}) -> {result} {{");
    if width(&line) <= LINE {
        let _ = writeln!(out, "{line}");
        return;
    }
    let _ = writeln!(out, "{space}{head}(");
    for param in params {
        let _ = writeln!(out, "{space}    {param},");
    }
    let _ = writeln!(out, "{space}) -> {result} {{");
}

/// Writes `left = right;`, with the right side on its own line if one line would be too long.
pub(super) fn assignment(out: &mut String, indent: usize, left: &str, right: &str) {
    let space = " ".repeat(indent);
    let line = format!("{space}{left} = {right};");
    if width(&line) <= LINE {
        let _ = writeln!(out, "{line}");
    } else {
        let _ = writeln!(out, "{space}{left} =\n{space}    {right};");
    }
}

/// Writes `field: "text",`.
pub(super) fn text_field(out: &mut String, indent: usize, field: &str, text: &str) {
    let space = " ".repeat(indent);
    let _ = writeln!(out, "{space}{field}: {text:?},");
}
