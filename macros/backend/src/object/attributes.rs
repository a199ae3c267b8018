use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{Attribute, LitStr, Meta};

use crate::mistakes::Mistakes;
use crate::name::type_key_fault;
use crate::options::{CratePath, entries};

const KNOWN: &str = "`key = \"...\"` and `crate = path`";

/// What the attributes of the struct say.
pub(super) struct Attributes {
    pub(super) key: Option<LitStr>,
    pub(super) krate: CratePath,
}

impl Attributes {
    /// Reads `#[object(...)]`, which must give a key; `name` is the struct's, for the advice.
    pub(super) fn parse(attributes: &[Attribute], name: &syn::Ident, mistakes: &mut Mistakes) -> Self {
        let mut parsed = Self { key: None, krate: CratePath(None) };
        let mut options = TokenStream::new();
        let mut present = false;
        for attribute in attributes {
            if attribute.path().is_ident("base") {
                mistakes.at(attribute, "#[base] is not supported on a struct; put it on the first field");
            }
            if !attribute.path().is_ident("object") {
                continue;
            }
            present = true;
            match &attribute.meta {
                Meta::List(list) => {
                    if !options.is_empty() {
                        options.extend([TokenTree::Punct(proc_macro2::Punct::new(',', proc_macro2::Spacing::Alone))]);
                    }
                    options.extend(list.tokens.clone());
                }
                other => mistakes.at(other, "write #[object(key = \"...\")], with the options in parentheses"),
            }
        }
        let mut key_given = false;
        for entry in entries(options, KNOWN, mistakes) {
            if entry.key == "key" {
                key_given = true;
                parsed.key = entry.string(mistakes);
            } else if entry.key == "crate" {
                parsed.krate.0 = entry.path(mistakes);
            } else {
                entry.unknown(KNOWN, mistakes);
            }
        }
        match &parsed.key {
            Some(key) => {
                if let Some(fault) = type_key_fault(&key.value()) {
                    mistakes.at(key, fault);
                }
            }
            None if key_given => {}
            None => {
                let what = if present { "#[object(...)] has no key" } else { "#[derive(Object)] needs a type key" };
                mistakes.at(name, format_args!("{what}; add #[object(key = \"your_library.{name}\")]"));
            }
        }
        parsed
    }
}

/// Checks that the layout is the one that other languages assume: `#[repr(C)]` and no more.
pub(super) fn check_representation(attributes: &[Attribute], name: &syn::Ident, mistakes: &mut Mistakes) {
    let mut is_c = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let Meta::List(list) = &attribute.meta else { continue };
        for (word, span) in words(list.tokens.clone()) {
            match word.as_str() {
                "C" => is_c = true,
                "packed" => mistakes
                    .at_span(span, "repr(packed) is not supported: fields are read in place; use #[repr(C)] alone"),
                "align" => mistakes.at_span(
                    span,
                    "repr(align) is not supported: objects are aligned to 8 bytes; use #[repr(C)] alone",
                ),
                "transparent" => {
                    mistakes.at_span(span, "repr(transparent) is not supported; use #[repr(C)]");
                    is_c = true;
                }
                _ => {}
            }
        }
    }
    if !is_c {
        mistakes.at(name, "the fields of an object need a fixed layout; add #[repr(C)] to the struct");
    }
}

/// The identifiers at the top level of a `repr`, without their arguments.
fn words(tokens: TokenStream) -> impl Iterator<Item = (String, Span)> {
    tokens.into_iter().filter_map(|token| match token {
        TokenTree::Ident(ident) => Some((ident.to_string(), ident.span())),
        _ => None,
    })
}
