//! A plain function in C, as the text of a header declares it.

use crate::c::c_types::Typedefs;
use crate::describe::c_params;
use crate::describe::device_source::declaration;
use crate::describe::signature::{Signature, Type};

/// A header without its directives.
pub(super) fn without_lines_of_the_preprocessor(text: &str) -> String {
    let mut goes_on = false;
    let kept = text.lines().map(|line| {
        let is_command = goes_on || line.trim_start().starts_with('#');
        goes_on = is_command && line.trim_end().ends_with('\\');
        if is_command { ";" } else { line }
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// A function as a header declares it.
pub(super) struct Declared {
    pub(super) signature: Signature,
    /// For each parameter: its type in the header where that has a name, and how many elements the header says it has.
    pub(super) params: Vec<(Option<String>, Option<String>)>,
}

/// The function of this name; `text` is the header without comments and lines of the preprocessor.
pub(super) fn declared(text: &str, header: &str, name: &str) -> Result<Declared, String> {
    let typedefs = Typedefs::of(text);
    let mut at = 0;
    while let Some(found) = text[at..].find(name) {
        let start = at + found;
        at = start + name.len();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if text[..start].ends_with(is_word) || !text[at..].trim_start().starts_with('(') {
            continue;
        }
        let Some(function) = declaration(&text[start..], start) else { continue };
        let before = text[..start].rfind([';', '{', '}']).map_or(0, |end| end + 1);
        let result = &text[before..start];
        if result.contains(['=', '(', ',']) || result.trim_end().ends_with("return") {
            continue;
        }
        let params = match function.params.as_slice() {
            [only] if only.trim() == "void" => &[][..],
            params => params,
        };
        let known = params.iter().map(|param| typedefs.param(param)).collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<String> = known.iter().map(|param| param.text.clone()).collect();
        let mut signature = c_params::signature(&texts).map_err(|_| {
            // One by one, so that the message has the header's words.
            let unknown = params.iter().zip(&texts).find(|(_, text)| c_params::signature(&[(*text).clone()]).is_err());
            let unknown = unknown.map_or("", |(param, _)| param.trim());
            format!("the type of its parameter `{unknown}` is not known from this header; write a kernel that calls it")
        })?;
        for (param, _) in signature.params.iter_mut().zip(&known).filter(|(_, known)| known.is_bool) {
            param.ty = Type::Bool;
        }
        let (words, is_bool) = typedefs.result(result);
        signature.result = c_params::result(&words).ok_or_else(|| {
            let shown = result.trim();
            match words.contains('*') {
                true => format!("its result `{shown}` is a pointer; wrap it in an object type in Rust, or write a kernel that calls it"),
                false => format!("its result `{shown}` is no number and not void; write a kernel that calls it"),
            }
        })?;
        if is_bool {
            signature.result = Type::Bool;
        }
        return Ok(Declared { signature, params: known.into_iter().map(|param| (param.cast, param.size)).collect() });
    }
    let is_macro =
        header.lines().filter_map(|line| line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define"));
    let mut is_macro = is_macro.filter_map(|rest| {
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).find(|word| !word.is_empty())
    });
    Err(match is_macro.any(|defined| defined == name) {
        true => format!("`{name}` is a macro; write a kernel that uses it"),
        false => "the header declares no such function; headers that it includes are not read".to_owned(),
    })
}
