//! A plain function in C, as the text of a header declares it.

use crate::c::c_types::{Typedefs, type_of, without_attributes};
use crate::describe::c_params;
use crate::describe::device_source::declaration;
use crate::describe::signature::{Signature, Type};

/// Removes preprocessor directives from a header.
pub(super) fn without_lines_of_the_preprocessor(text: &str) -> String {
    let mut goes_on = false;
    let kept = text.lines().map(|line| {
        let is_command = goes_on || line.trim_start().starts_with('#');
        goes_on = is_command && line.trim_end().ends_with('\\');
        if is_command { ";" } else { line }
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// Returns true if a kernel can check the type of a parameter. Pointers to anything other than
/// numbers and `void` cannot be checked.
fn is_known(text: &str) -> bool {
    c_params::signature(&[text.to_owned()]).is_ok_and(|signature| match signature.params[0].ty {
        Type::Tensor { element: None, .. } => c_params::is_void_pointer(text),
        // `half` is not a C type.
        Type::Tensor { element: Some("float16" | "bfloat16"), .. } | Type::Float { bits: 16 } => false,
        _ => true,
    })
}

/// A function as a header declares it.
pub(super) struct Declared {
    pub(super) signature: Signature,
    /// For each parameter: its type as the header spells it, and the number of elements if the
    /// header gives it.
    pub(super) params: Vec<(String, Option<String>)>,
}

/// Finds the function with this name. `text` is the header without comments and preprocessor lines,
/// in C++ or C.
pub(super) fn declared(text: &str, header: &str, name: &str, is_cpp: bool) -> Result<Declared, String> {
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
        let result = without_attributes(&text[before..start]);
        if result.contains(['=', '(', ',']) || result.trim_end().ends_with("return") {
            continue;
        }
        let inner = text[at..].trim_start().trim_start_matches('(').trim_start();
        if let Some(after) = inner.strip_prefix(')')
            && !is_cpp
            && !after.trim_start().starts_with('{')
        {
            return Err(format!(
                "`{name}()` does not say in C which parameters it takes; declare `{name}(void)`, or write a kernel that calls it"
            ));
        }
        let params = match function.params.as_slice() {
            [only] if only.trim() == "void" => &[][..],
            params => params,
        };
        let known = params.iter().map(|param| typedefs.param(param)).collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<String> = known.iter().map(|param| param.text.clone()).collect();
        // One at a time, so that the message has the spelling of the header.
        if let Some((unknown, _)) = params.iter().zip(&texts).find(|(_, text)| !is_known(text)) {
            let unknown = unknown.trim();
            return Err(format!(
                "the type of its parameter `{unknown}` is not known from this header; write a kernel that calls it"
            ));
        }
        let mut signature = c_params::signature(&texts)?;
        for (param, _) in signature.params.iter_mut().zip(&known).filter(|(_, known)| known.is_bool) {
            param.ty = Type::Bool;
        }
        let (words, is_bool) = typedefs.result(&result);
        let number = c_params::result(&words).filter(|ty| *ty != Type::Float { bits: 16 });
        signature.result = number.ok_or_else(|| {
            let shown = result.trim();
            match words.contains('*') {
                true => format!("its result `{shown}` is a pointer; wrap it in an object type in Rust, or write a kernel that calls it"),
                false => format!("its result `{shown}` is neither a number nor void; write a kernel that calls it"),
            }
        })?;
        if is_bool {
            signature.result = Type::Bool;
        }
        let types = params.iter().zip(&signature.params).map(|(text, param)| type_of(text, &param.name));
        let params = types.zip(known).map(|(spelled, known)| (spelled, known.size)).collect();
        return Ok(Declared { signature, params });
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
