use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::Error;

/// The errors in one item, reported together so that the user sees all of them in one compilation.
#[derive(Default)]
pub(crate) struct Mistakes {
    error: Option<Error>,
}

impl Mistakes {
    /// Reports an error at all of `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// Reports an error at one token, or at the whole macro call.
    pub(crate) fn at_span(&mut self, span: Span, message: impl Display) {
        self.push(Error::new(span, message));
    }

    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.error {
            Some(first) => first.combine(error),
            None => self.error = Some(error),
        }
    }

    /// Returns the `compile_error!`s, if there were errors.
    pub(crate) fn into_compile_errors(self) -> Option<TokenStream> {
        self.error.map(|error| error.into_compile_error())
    }
}
