//! Parameters that a caller may omit: those with `#[default(...)]`, and an `Option` that is only
//! followed by such parameters.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, FnArg, GenericArgument, Lit, Meta, PatType, PathArguments, Token, Type, UnOp};

use super::declared::ParameterKind;
use super::role::FunctionRole;
use crate::mistakes::Mistakes;
use crate::name::is_slip;

/// A parameter with the properties that defaults depend on.
pub(crate) trait Defaulted {
    /// Its name.
    fn name(&self) -> &str;
    /// Its type as the user wrote it.
    fn written(&self) -> TokenStream;
    /// Returns true if the type is an `Option`.
    fn is_option(&self) -> bool;
    /// The value of an omitted argument.
    fn default(&mut self) -> &mut Option<Expr>;
}

/// Returns true if an attribute of a parameter is `#[default]`, or a misspelling of it.
fn is_meant(attribute: &Attribute) -> bool {
    attribute.path().get_ident().is_some_and(|ident| is_slip(&ident.to_string(), "default"))
}

/// Parses the expression of `#[default(...)]`.
pub(crate) fn default(input: &PatType, mistakes: &mut Mistakes) -> Option<Expr> {
    let mut found = None;
    for attribute in input.attrs.iter().filter(|attribute| is_meant(attribute)) {
        if !attribute.path().is_ident("default") {
            mistakes.at(attribute, "a parameter has no such attribute; write #[default(...)]");
        }
    }
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("default")) {
        if found.is_some() {
            mistakes.at(attribute, "#[default(...)] is given twice; keep one");
            continue;
        }
        let Meta::List(list) = &attribute.meta else {
            mistakes.at(attribute, "write the default in parentheses, as in #[default(0)]");
            continue;
        };
        match syn::parse2::<Expr>(list.tokens.clone()) {
            Ok(expression) => found = Some(expression),
            Err(_) => mistakes.at(attribute, "#[default(...)] takes a Rust expression, as in #[default(0)]"),
        }
    }
    if let (Some(default), Some(view)) = (&found, view(&input.ty)) {
        mistakes.at(
            default,
            format_args!("a `{view}` has no default: it is a view of the caller's tensor; take an `Option<{view}<...>>`, which may be left out"),
        );
        return None;
    }
    found
}

/// Removes `#[default(...)]` from the parameters. Returns true if there was one.
pub(crate) fn strip(inputs: &mut Punctuated<FnArg, Token![,]>) -> bool {
    let mut found = false;
    for input in inputs {
        if let FnArg::Typed(input) = input {
            let before = input.attrs.len();
            input.attrs.retain(|attribute| !is_meant(attribute));
            found |= input.attrs.len() < before;
        }
    }
    found
}

/// Gives an `Option` at the end the default `None`, and then runs [`check`].
pub(crate) fn complete<P: Defaulted>(parameters: &mut [P], mistakes: &mut Mistakes) {
    for parameter in parameters.iter_mut().rev() {
        if parameter.default().is_none() {
            if !parameter.is_option() {
                break;
            }
            *parameter.default() = syn::parse2(quote!(::core::option::Option::None)).ok();
        }
    }
    check(parameters, mistakes);
}

/// Reports a parameter without a default that follows one with a default, because callers pass
/// arguments by position.
pub(crate) fn check<P: Defaulted>(parameters: &mut [P], mistakes: &mut Mistakes) {
    let mut has_default = false;
    for parameter in parameters {
        if parameter.default().is_some() {
            has_default = true;
        } else if has_default {
            mistakes.at(
                parameter.written(),
                format_args!(
                    "parameter `{}` follows one with a default, so it needs #[default(...)] as well",
                    parameter.name()
                ),
            );
        }
    }
}

/// Returns the name of a tensor view type, which cannot be created from nothing.
fn view(ty: &Type) -> Option<&'static str> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    ["TensorView", "TensorViewMut"].into_iter().find(|view| last.ident == view)
}

/// Returns true if a type is written as an `Option`.
pub(crate) fn is_option(ty: &Type) -> bool {
    match ty {
        Type::Paren(inner) => is_option(&inner.elem),
        Type::Group(inner) => is_option(&inner.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let has_type = |arguments: &PathArguments| {
                matches!(arguments, PathArguments::AngleBracketed(list)
                    if matches!(list.args.first(), Some(GenericArgument::Type(_))))
            };
            last.ident == "Option" && has_type(&last.arguments)
        }),
        _ => false,
    }
}

/// Returns a bit mask of the parameters with a default.
pub(crate) fn optional<'a>(defaults: impl Iterator<Item = Option<&'a Expr>>) -> u64 {
    defaults.enumerate().filter(|(_, default)| default.is_some()).map(|(index, _)| 1 << index).sum()
}

/// Generates the fields of a function's description that contain the defaults, from the first
/// parameter with a default on, the kinds of the parameters, if a signature declares them, and the
/// role of the function.
pub(crate) fn fields<'a>(
    defaults: impl Iterator<Item = Option<&'a Expr>>,
    kinds: Option<&[ParameterKind]>,
    role: FunctionRole,
) -> TokenStream {
    let kind = |index: usize| kinds.and_then(|kinds| kinds.get(index)).copied();
    let value = |(index, default): (usize, Option<&Expr>)| match kind(index).and_then(ParameterKind::empty) {
        Some(empty) => empty.to_owned(),
        None => default.map(json).unwrap_or_default(),
    };
    let defaults: Vec<String> = defaults.enumerate().map(value).skip_while(String::is_empty).collect();
    let mut members = String::new();
    if !defaults.is_empty() {
        // A required parameter among them is an object, like a default that only a call computes.
        let values: Vec<&str> =
            defaults.iter().map(|value| if value.is_empty() { "{\"required\":true}" } else { value }).collect();
        members = format!(",\"arg_defaults\":[{}]", values.join(","));
    }
    members.push_str(role.member());
    let kinds = match kinds {
        Some(kinds) => {
            let names: Vec<String> = kinds.iter().map(|kind| format!("\"{}\"", kind.text())).collect();
            members.push_str(&format!(",\"arg_kinds\":[{}]", names.join(",")));
            quote!(::core::option::Option::Some(&[#(#kinds),*]))
        }
        None => quote!(::core::option::Option::None),
    };
    quote! {
        defaults: &[#(#defaults),*],
        more_metadata: #members,
        kinds: #kinds,
        role: #role,
    }
}

/// Converts a default to JSON: the value in the source, or `{"rust":"..."}` if only a call can
/// compute it.
pub(super) fn json(default: &Expr) -> String {
    literal(default).unwrap_or_else(|| {
        // Spaces are not removed from the tokens, because they would also be before dots.
        let source = default.to_token_stream().to_string().replace(" :: ", "::").replace(" (", "(").replace(" ! ", "!");
        format!("{{\"rust\":{}}}", text(&source))
    })
}

fn literal(default: &Expr) -> Option<String> {
    match default {
        Expr::Paren(inner) => literal(&inner.expr),
        Expr::Group(inner) => literal(&inner.expr),
        Expr::Reference(inner) if inner.mutability.is_none() => literal(&inner.expr),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => match &*unary.expr {
            Expr::Lit(number) => self::number(number).map(|number| format!("-{number}")),
            _ => None,
        },
        Expr::Lit(value) => match &value.lit {
            Lit::Bool(value) => Some(value.value.to_string()),
            Lit::Str(value) => Some(text(&value.value())),
            _ => number(value),
        },
        Expr::Path(path) => path
            .path
            .segments
            .last()
            .filter(|last| last.ident == "None" || path.qself.is_some() && last.ident == "NONE")
            .map(|_| "null".to_owned()),
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else { return None };
            let mut names = function.path.segments.iter().rev().map(|segment| segment.ident.to_string());
            match (names.next()?.as_str(), names.next().as_deref(), call.args.first()) {
                ("Some", _, Some(value)) => literal(value),
                ("from" | "new", Some("String" | "Str"), Some(value))
                | ("into", Some("Into"), Some(value))
                | ("from", Some("From"), Some(value)) => literal(value),
                ("new", Some("String"), None) => Some("\"\"".to_owned()),
                ("new", Some("Vec"), None) => Some("[]".to_owned()),
                _ => None,
            }
        }
        // A text that is converted to an owned one.
        Expr::MethodCall(call)
            if call.args.is_empty() && ["to_owned", "to_string", "into"].iter().any(|name| call.method == name) =>
        {
            literal(&call.receiver).filter(|value| value.starts_with('"'))
        }
        Expr::Macro(call) if call.mac.path.is_ident("vec") && call.mac.tokens.is_empty() => Some("[]".to_owned()),
        _ => None,
    }
}

fn number(value: &ExprLit) -> Option<String> {
    match &value.lit {
        Lit::Int(value) => Some(value.base10_digits().to_owned()),
        Lit::Float(value) => {
            let digits = value.base10_digits();
            // JSON requires a digit after the dot.
            Some(if digits.ends_with('.') { format!("{digits}0") } else { digits.replace(".e", ".0e") })
        }
        _ => None,
    }
}

/// Formats a text as JSON, which is also valid Python.
fn text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn defaults_as_json() {
        for (source, expected) in [
            ("0.5", "0.5"),
            ("1.", "1.0"),
            ("-1_000i64", "-1000"),
            ("0xff", "255"),
            ("true", "true"),
            ("None", "null"),
            ("::core::option::Option::None", "null"),
            ("Some(2)", "2"),
            ("\"a\\\"b\\n\"", "\"a\\\"b\\n\""),
            ("\"auto\".to_owned()", "\"auto\""),
            ("String::from(\"x\")", "\"x\""),
            ("Vec::new()", "[]"),
            ("Mode::Fast", "{\"rust\":\"Mode::Fast\"}"),
            ("f64::powi(2.0, 3)", "{\"rust\":\"f64::powi(2.0 , 3)\"}"),
            ("5.to_string()", "{\"rust\":\"5 . to_string()\"}"),
        ] {
            assert_eq!(json(&syn::parse_str(source).unwrap()), expected, "{source}");
        }
    }
}
