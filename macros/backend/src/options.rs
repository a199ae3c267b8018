use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Expr, LitBool, LitInt, LitStr, Meta, Path, Token};

use crate::mistakes::Mistakes;

/// One `key = value` of a macro's options, or a `key` alone.
pub(crate) struct Entry {
    pub(crate) key: Ident,
    /// Empty for a single key.
    value: TokenStream,
    known: &'static str,
}

/// Returns the options of all attributes named `name`, joined, and the first of these attributes.
/// `example` is shown in the error if the options are not in parentheses.
pub(crate) fn attribute_options<'a>(
    attributes: &'a [Attribute],
    name: &str,
    example: &str,
    mistakes: &mut Mistakes,
) -> (Option<&'a Attribute>, TokenStream) {
    let mut first = None;
    let mut options = TokenStream::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
        first.get_or_insert(attribute);
        match &attribute.meta {
            Meta::List(list) => {
                if !options.is_empty() {
                    <Token![,]>::default().to_tokens(&mut options);
                }
                options.extend(list.tokens.clone());
            }
            Meta::Path(_) if example.is_empty() => {}
            other => {
                let example = if example.is_empty() { format!("#[{name}(...)]") } else { example.to_owned() };
                mistakes.at(other, format_args!("write {example}, with the options in parentheses"));
            }
        }
    }
    (first, options)
}

/// Splits options at their commas. A faulty entry is reported, and the others are still parsed.
pub(crate) fn entries(tokens: TokenStream, known: &'static str, mistakes: &mut Mistakes) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let read = |input: ParseStream<'_>| {
        while !input.is_empty() {
            let Some(entry) = read_entry(input, known, mistakes)? else { continue };
            if found.iter().any(|earlier| earlier.key == entry.key) {
                mistakes.at(&entry.key, format_args!("the option `{}` is given twice; keep one", entry.key));
            } else {
                found.push(entry);
            }
        }
        Ok(())
    };
    if let Err(error) = read.parse2(tokens) {
        mistakes.push(error);
    }
    found
}

/// Reads the next entry, with the comma after it. Returns `None` for a faulty one, which was
/// reported.
fn read_entry(input: ParseStream<'_>, known: &'static str, mistakes: &mut Mistakes) -> syn::Result<Option<Entry>> {
    if input.parse::<Option<Token![,]>>()?.is_some() {
        return Ok(None);
    }
    if !input.peek(Ident::peek_any) {
        mistakes.at(input.parse::<TokenTree>()?, format_args!("expected an option; the options are {known}"));
        until_comma(input)?;
        return Ok(None);
    }
    let key = input.call(Ident::parse_any)?;
    let at_end = |input: ParseStream<'_>| input.is_empty() || input.peek(Token![,]);
    let mut value = TokenStream::new();
    if input.parse::<Option<Token![=]>>()?.is_some() {
        if at_end(input) {
            mistakes.at(&key, format_args!("`{key}` has no value; the options are {known}"));
            return Ok(None);
        }
        // Parsed as an expression, which may contain commas: `a::<B, C>()`.
        let ahead = input.fork();
        match ahead.parse::<Expr>() {
            Ok(expression) if at_end(&ahead) => {
                input.advance_to(&ahead);
                value = expression.into_token_stream();
            }
            _ => value = until_comma(input)?,
        }
    } else if !at_end(input) {
        let other: TokenTree = input.parse()?;
        mistakes.at(other, format_args!("expected `=` after `{key}`; the options are {known}"));
        until_comma(input)?;
        return Ok(None);
    }
    Ok(Some(Entry { key, value, known }))
}

fn until_comma(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut skipped = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?.to_tokens(&mut skipped);
    }
    Ok(skipped)
}

impl Entry {
    pub(crate) fn string(self, mistakes: &mut Mistakes) -> Option<LitStr> {
        self.value("a string literal", "\"...\"", mistakes)
    }

    pub(crate) fn boolean(self, mistakes: &mut Mistakes) -> Option<bool> {
        self.value("`true` or `false`", "false", mistakes).map(|value: LitBool| value.value)
    }

    pub(crate) fn integer(self, mistakes: &mut Mistakes) -> Option<LitInt> {
        self.value("an integer literal", "8", mistakes)
    }

    pub(crate) fn path(self, mistakes: &mut Mistakes) -> Option<Path> {
        self.value("a path without quotes", "::my_reexports::kernpack", mistakes)
    }

    pub(crate) fn expression(self, example: &str, mistakes: &mut Mistakes) -> Option<Expr> {
        self.value("a Rust expression", example, mistakes)
    }

    /// Reads an option without a value, and returns its key, for messages about it.
    pub(crate) fn flag(self, mistakes: &mut Mistakes) -> Ident {
        if !self.value.is_empty() {
            let key = &self.key;
            mistakes.at(&self.value, format_args!("`{key}` takes no value; write `{key}`, or leave it away"));
        }
        self.key
    }

    /// Reads an option without a value, which means `true`, or with a boolean.
    pub(crate) fn flag_or_boolean(self, mistakes: &mut Mistakes) -> Option<bool> {
        if self.value.is_empty() { Some(true) } else { self.boolean(mistakes) }
    }

    fn value<T: syn::parse::Parse>(self, what: &str, example: &str, mistakes: &mut Mistakes) -> Option<T> {
        let Self { key, value, known } = self;
        if value.is_empty() {
            mistakes.at(&key, format_args!("`{key}` has no value; the options are {known}"));
            return None;
        }
        let parsed = syn::parse2(value.clone()).ok();
        if parsed.is_none() {
            mistakes.at(value, format_args!("`{key}` takes {what}, as in `{key} = {example}`"));
        }
        parsed
    }

    /// Reports an option that does not exist.
    pub(crate) fn unknown(self, known: &str, mistakes: &mut Mistakes) {
        let key = &self.key;
        mistakes.at(key, format_args!("unknown option `{key}`; the options are {known}"));
    }
}

/// The path of the `kernpack` crate in generated code: the option `crate = path`, or `::kernpack`.
pub(crate) struct CratePath(pub(crate) Option<Path>);

impl ToTokens for CratePath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match &self.0 {
            Some(path) => path.to_tokens(tokens),
            None => tokens.extend(quote::quote!(::kernpack)),
        }
    }
}
