//! Functions as `help` and `inspect.signature` show them.

use std::borrow::Cow;

use kernpack_core::function::{FunctionInfo, ParamKind};

/// The text that `help` shows, preceded by the line that `inspect.signature` parses. `first` is the
/// receiver, if there is one, which takes the first `skip` parameters.
pub(crate) fn documentation(name: &str, first: &str, info: &FunctionInfo, skip: usize) -> String {
    format!("{name}({})\n--\n\n{}", parameters(info, first, skip).join(", "), info.doc)
}

/// The parameters of a function as in its signature, behind `first`: `x`, `/`, `*`, `gain=0.5`.
pub(crate) fn parameters(info: &FunctionInfo, first: &str, skip: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut before = ParamKind::PositionalOrKeyword;
    if !first.is_empty() {
        all.push(first.to_owned());
        if first.starts_with('$') && (info.kinds.is_some() || info.params.len() <= skip) {
            before = ParamKind::PositionalOnly;
        }
    }
    let unnamed = info.params.iter().rposition(|param| is_keyword(param.name));
    for (index, param) in info.params.iter().enumerate().skip(skip) {
        let kind = match info.kinds.and_then(|kinds| kinds.get(index)) {
            Some(kind) => *kind,
            None if Some(index) <= unnamed => ParamKind::PositionalOnly,
            None => ParamKind::PositionalOrKeyword,
        };
        if before == ParamKind::PositionalOnly && kind != before {
            all.push("/".to_owned());
        }
        if kind == ParamKind::KeywordOnly && before < ParamKind::VarPositional {
            all.push("*".to_owned());
        }
        all.push(match (kind, default(info, index)) {
            (ParamKind::VarPositional, _) => format!("*{}", param.name),
            (ParamKind::VarKeyword, _) => format!("**{}", param.name),
            (_, Some(default)) => format!("{}={}", written(param.name), literal(default)),
            (_, None) => written(param.name).into_owned(),
        });
        before = kind;
    }
    if before == ParamKind::PositionalOnly {
        all.push("/".to_owned());
    }
    all
}

/// The default of the parameter at this index, as JSON.
pub(crate) fn default(info: &FunctionInfo, index: usize) -> Option<&'static str> {
    let required = info.params.len().saturating_sub(info.defaults.len());
    let default = info.defaults.get(index.checked_sub(required)?)?;
    (!default.is_empty()).then_some(*default)
}

/// A parameter's name in a signature: a Python keyword gets an underscore. It can only be passed by
/// position.
pub(crate) fn written(name: &str) -> Cow<'_, str> {
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
