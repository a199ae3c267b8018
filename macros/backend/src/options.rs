use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{LitBool, LitStr, Path};

use crate::mistakes::Mistakes;

/// One `key = value` of a macro's options.
pub(crate) struct Entry {
    pub(crate) key: Ident,
    value: TokenStream,
}

/// Splits options at their commas. A faulty entry is reported, and the others are still read.
pub(crate) fn entries(tokens: TokenStream, known: &str, mistakes: &mut Mistakes) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut rest = tokens.into_iter().peekable();
    while rest.peek().is_some() {
        let mut entry =
            rest.by_ref().take_while(|token| !matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','));
        let first = entry.next();
        let second = entry.next();
        let value: TokenStream = entry.collect();
        let key = match first {
            Some(TokenTree::Ident(key)) => key,
            Some(other) => {
                mistakes.at(other, format_args!("expected an option; the options are {known}"));
                continue;
            }
            None => continue,
        };
        match second {
            Some(TokenTree::Punct(equals)) if equals.as_char() == '=' => {}
            Some(other) => {
                mistakes.at(other, format_args!("expected `=` after `{key}`; the options are {known}"));
                continue;
            }
            None => {
                mistakes.at(&key, format_args!("`{key}` has no value; the options are {known}"));
                continue;
            }
        }
        if value.is_empty() {
            mistakes.at(&key, format_args!("`{key}` has no value; the options are {known}"));
        } else if found.iter().any(|earlier| earlier.key == key) {
            mistakes.at(&key, format_args!("the option `{key}` is given twice; keep one"));
        } else {
            found.push(Entry { key, value });
        }
    }
    found
}

impl Entry {
    pub(crate) fn string(self, mistakes: &mut Mistakes) -> Option<LitStr> {
        match syn::parse2::<LitStr>(self.value.clone()) {
            Ok(text) => Some(text),
            Err(_) => {
                let key = &self.key;
                mistakes.at(self.value, format_args!("`{key}` takes a string literal, as in `{key} = \"...\"`"));
                None
            }
        }
    }

    pub(crate) fn boolean(self, mistakes: &mut Mistakes) -> Option<bool> {
        match syn::parse2::<LitBool>(self.value.clone()) {
            Ok(value) => Some(value.value),
            Err(_) => {
                let key = &self.key;
                mistakes.at(self.value, format_args!("`{key}` takes `true` or `false`, as in `{key} = false`"));
                None
            }
        }
    }

    pub(crate) fn path(self, mistakes: &mut Mistakes) -> Option<Path> {
        match syn::parse2::<Path>(self.value.clone()) {
            Ok(path) => Some(path),
            Err(_) => {
                let key = &self.key;
                let message = format!("`{key}` takes a path without quotes, as in `{key} = ::my_reexports::kernpack`");
                mistakes.at(self.value, message);
                None
            }
        }
    }

    /// Reports an option that does not exist.
    pub(crate) fn unknown(self, known: &str, mistakes: &mut Mistakes) {
        let key = &self.key;
        mistakes.at(key, format_args!("unknown option `{key}`; the options are {known}"));
    }
}

/// Where generated code finds the `kernpack` crate: the option `crate = path`, else `::kernpack`.
pub(crate) struct CratePath(pub(crate) Option<Path>);

impl ToTokens for CratePath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match &self.0 {
            Some(path) => path.to_tokens(tokens),
            None => tokens.extend(quote::quote!(::kernpack)),
        }
    }
}
