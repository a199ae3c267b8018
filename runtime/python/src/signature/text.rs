//! Functions as `help` and `inspect.signature` show them.

use std::borrow::Cow;

use kernpack_core::function::FunctionInfo;

/// The text that `help` shows, preceded by the line that `inspect.signature` parses. `first` is the
/// receiver, if there is one, which takes the first `skip` parameters.
pub(crate) fn documentation(name: &str, first: &str, info: &FunctionInfo, skip: usize) -> String {
    let mut text = format!("{name}({first}");
    let unnamed = info.params.iter().rposition(|param| is_keyword(param.name));
    for (index, parameter) in parameters(info).enumerate().skip(skip) {
        if !text.ends_with('(') {
            text.push_str(", ");
        }
        text.push_str(&parameter);
        if unnamed == Some(index) {
            text.push_str(", /");
        }
    }
    if first.starts_with('$') && info.params.len() <= skip {
        text.push_str(", /");
    }
    text.push_str(")\n--\n\n");
    text.push_str(info.doc);
    text
}

/// The parameters of a function as in its signature: `x`, `gain=0.5`.
pub(crate) fn parameters(info: &FunctionInfo) -> impl Iterator<Item = String> {
    let required = info.params.len().saturating_sub(info.defaults.len());
    info.params.iter().enumerate().map(move |(place, param)| {
        match place.checked_sub(required).and_then(|place| info.defaults.get(place)) {
            Some(default) => format!("{}={}", written(param.name), literal(default)),
            None => written(param.name).into_owned(),
        }
    })
}

/// A parameter's name in a signature: a Python keyword gets an underscore. It can only be passed by
/// position.
fn written(name: &str) -> Cow<'_, str> {
    if is_keyword(name) { Cow::Owned(format!("{name}_")) } else { Cow::Borrowed(name) }
}

fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &str = " False None True and as assert async await break class continue def del elif else except finally for from global \
                            if import in is lambda nonlocal not or pass raise return try while with yield ";
    name.bytes().all(|byte| byte.is_ascii_alphabetic()) && KEYWORDS.contains(&format!(" {name} "))
}

/// A default, which is JSON, in Python's syntax; `...` for a default that only a call can compute.
/// `inspect` parses ASCII only.
fn literal(default: &'static str) -> Cow<'static, str> {
    Cow::Borrowed(match default {
        "null" => "None",
        "true" => "True",
        "false" => "False",
        object if object.starts_with('{') => "...",
        value if value.is_ascii() => value,
        text => {
            let escaped = |c: char| match c.is_ascii() {
                true => c.to_string(),
                false => format!("\\U{:08x}", u32::from(c)),
            };
            return text.chars().map(escaped).collect();
        }
    })
}
