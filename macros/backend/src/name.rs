use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

/// Prefixes of function names whose symbols the ABI reserves, with their purpose.
const RESERVED: [(&str, &str); 3] =
    [("_metadata_", "metadata of functions"), ("_doc_", "documentation"), ("_library_", "the library's own data")];

/// The prefix of every exported symbol.
pub(crate) const SYMBOL_PREFIX: &str = "__tvm_ffi_";

/// Returns the problem with a packed function's exported name, if there is one.
pub(crate) fn function_name_fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("an empty name is not supported; write the name that callers use, as in `name = \"add\"`".into());
    }
    if let Some(fault) = character_fault(name) {
        return Some(fault);
    }
    if name.split('.').any(str::is_empty) {
        return Some(format!("`{name}` has an empty part; put one `.` between two parts, as in `imagekit.add`"));
    }
    let (prefix, use_) = RESERVED.iter().find(|(prefix, _)| name.starts_with(prefix))?;
    Some(format!(
        "names that begin with `{prefix}` are not supported: the symbols `{SYMBOL_PREFIX}{prefix}...` hold {use_}; \
         use another name"
    ))
}

/// Returns the problem with an object's type key, if there is one.
pub(crate) fn type_key_fault(key: &str) -> Option<String> {
    const EXAMPLE: &str = "write a namespace and a name, as in `imagekit.Histogram`";
    if key.is_empty() {
        return Some(format!("an empty type key is not supported; {EXAMPLE}"));
    }
    if let Some(fault) = character_fault(key) {
        return Some(fault);
    }
    let is_identifier = |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !key.split('.').all(is_identifier) {
        return Some(format!("the type key `{key}` is not identifiers joined by `.`; {EXAMPLE}"));
    }
    if !key.contains('.') {
        return Some(format!("the type key `{key}` has no namespace; {EXAMPLE}"));
    }
    if key.starts_with("ffi.") {
        return Some("type keys that begin with `ffi.` belong to the ABI; use your library's name instead".into());
    }
    None
}

/// Returns the problem with a field's exported name, if there is one.
pub(crate) fn field_name_fault(name: &str) -> Option<String> {
    let identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !identifier {
        return Some(format!(
            "`{name}` is not a name that every language can write; use letters A to Z, digits and `_`"
        ));
    }
    if name.starts_with("__") {
        return Some(format!(
            "names of fields that begin with `__` belong to the ABI and to Python; use another name than `{name}`"
        ));
    }
    None
}

fn character_fault(name: &str) -> Option<String> {
    let bad = name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.'))?;
    let shown = match bad {
        '\0' => "the NUL character".to_owned(),
        bad if bad.is_whitespace() => "white space".to_owned(),
        bad if bad.is_control() => "a control character".to_owned(),
        bad => format!("`{bad}`"),
    };
    Some(format!("{shown} in a name is not supported; use only letters A to Z, digits, `_` and `.`"))
}

/// The end of the name in the compiler's message: the advice.
const RENAME_FUNCTION: &str = "give_one_of_them_another_name";

/// Generates an item that makes the compiler reject a second function with this exported name in
/// the crate and show both: exported macros share one namespace per crate. The user reads its name
/// in the message. `kernpack-build` generates the same item for its kernels.
pub(crate) fn claim_function_name(name: &str, span: Span) -> TokenStream {
    if name.contains('.') {
        claim(&format!("packed_function_with_path_{}__{RENAME_FUNCTION}", escape(name)), span)
    } else {
        claim(&format!("packed_function_named_{name}__{RENAME_FUNCTION}"), span)
    }
}

/// Generates such an item for type keys.
pub(crate) fn claim_type_key(key: &str, span: Span) -> TokenStream {
    claim(&format!("object_type_with_key_{}__give_one_of_them_another_key", escape(key)), span)
}

fn claim(name: &str, span: Span) -> TokenStream {
    let name = Ident::new(name, span);
    quote_spanned! {span=>
        #[doc(hidden)]
        #[macro_export]
        #[allow(non_local_definitions)]
        macro_rules! #name { () => {}; }
    }
}

/// Escapes a dotted name. Different names give different identifiers.
fn escape(name: &str) -> String {
    name.replace('_', "__").replace('.', "_dot_")
}

/// Returns true if two words differ by one missing, added or different letter, by two swapped
/// letters, or by an `s` at the end.
pub(crate) fn is_slip(written: &str, known: &str) -> bool {
    let (written, known) = (written.as_bytes(), known.as_bytes());
    let front = written.iter().zip(known).take_while(|(a, b)| a == b).count();
    let (written, known) = (&written[front..], &known[front..]);
    // The words have at least four letters, and have more in common than differs.
    front + written.len().max(known.len()) > 5
        && match written.len().abs_diff(known.len()) {
            0 => {
                let are_swapped = matches!((written, known), ([a, b, ..], [c, d, ..]) if (a, b) == (d, c));
                written.get(1..) == known.get(1..) || (are_swapped && written.get(2..) == known.get(2..))
            }
            1 if written.len() > known.len() => written.get(1..) == Some(known),
            1 => known.get(1..) == Some(written),
            _ => false,
        }
}

/// Returns the identifier's text without a leading `r#`.
pub(crate) fn plain(identifier: &Ident) -> String {
    let text = identifier.to_string();
    text.strip_prefix("r#").map(str::to_owned).unwrap_or(text)
}

/// Returns true if Python rejects a parameter of this name next to `self`.
pub(crate) fn is_reserved_parameter(name: &str) -> bool {
    const RESERVED: [&str; 36] = [
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
        "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
        "not", "or", "pass", "raise", "return", "self", "try", "while", "with", "yield",
    ];
    RESERVED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips() {
        for (written, known, expected) in [
            ("defualt", "default", true),
            ("defaults", "default", true),
            ("defalt", "default", true),
            ("propery", "property", true),
            ("operater", "operator", true),
            ("default", "default", true),
            ("fault", "default", false),
            ("cfg", "get", false),
            ("allow", "default", false),
            ("", "default", false),
        ] {
            assert_eq!(is_slip(written, known), expected, "{written}");
        }
    }

    #[test]
    fn function_names() {
        for good in ["add", "imagekit.to_gray", "_x", "__x", "A.b.C9", "0", "_doc", "_metadata", "type"] {
            assert_eq!(function_name_fault(good), None, "{good}");
        }
        for (bad, says) in [
            ("", "empty name"),
            ("a b", "white space"),
            ("a\0", "NUL"),
            ("a\u{1}", "control character"),
            ("größe", "`ö`"),
            ("a-b", "`-`"),
            ("a@b", "`@`"),
            (".a", "empty part"),
            ("a.", "empty part"),
            ("a..b", "empty part"),
            ("_metadata_x", "metadata of functions"),
            ("_doc_x", "documentation"),
            ("_library_bin", "library's own data"),
        ] {
            let fault = function_name_fault(bad).unwrap_or_default();
            assert!(fault.contains(says), "{bad:?}: {fault}");
        }
    }

    #[test]
    fn type_keys() {
        for good in ["imagekit.Histogram", "a.b.c", "_a._b"] {
            assert_eq!(type_key_fault(good), None, "{good}");
        }
        for (bad, says) in [
            ("", "empty type key"),
            ("Histogram", "no namespace"),
            ("ffi.Array", "belong to the ABI"),
            ("a..b", "not identifiers"),
            ("a.9", "not identifiers"),
            ("a b.c", "white space"),
        ] {
            let fault = type_key_fault(bad).unwrap_or_default();
            assert!(fault.contains(says), "{bad:?}: {fault}");
        }
    }

    #[test]
    fn field_names() {
        for good in ["x", "_x", "x9", "value_index", "type"] {
            assert_eq!(field_name_fault(good), None, "{good}");
        }
        for (bad, says) in [
            ("", "every language"),
            ("9", "every language"),
            ("a.b", "every language"),
            ("ö", "every language"),
            ("__init__", "belong to the ABI"),
        ] {
            let fault = field_name_fault(bad).unwrap_or_default();
            assert!(fault.contains(says), "{bad:?}: {fault}");
        }
    }

    #[test]
    fn identifiers() {
        assert_eq!(escape("a.b_c"), "a_dot_b__c");
        assert_ne!(escape("a.b"), escape("a_dot_b"));
        let claimed = claim_function_name("imagekit.to_gray", Span::call_site()).to_string();
        assert!(claimed.contains("packed_function_with_path_imagekit_dot_to__gray"), "{claimed}");
        assert_eq!(plain(&Ident::new_raw("type", Span::call_site())), "type");
    }
}
