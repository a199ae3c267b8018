use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::Error;

/// The mistakes found in one item, reported together so that the user sees all of them in one compile.
#[derive(Default)]
pub(crate) struct Mistakes {
    error: Option<Error>,
}

impl Mistakes {
    /// A mistake under all of `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// A mistake under one token, or under the whole macro call.
    pub(crate) fn at_span(&mut self, span: Span, message: impl Display) {
        self.push(Error::new(span, message));
    }

    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.error {
            Some(first) => first.combine(error),
            None => self.error = Some(error),
        }
    }

    /// The `compile_error!`s, if there was a mistake.
    pub(crate) fn into_compile_errors(self) -> Option<TokenStream> {
        self.error.map(|error| error.into_compile_error())
    }
}
