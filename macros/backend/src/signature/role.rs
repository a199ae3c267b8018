//! The item that Python makes of a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};

/// The item that Python makes of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FunctionRole {
    Function,
    Constant,
    ClassMethod,
    Setter,
    Operator,
}

impl FunctionRole {
    /// Returns the member of the metadata, preceded by a comma.
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::Function | Self::Operator => "",
            Self::Constant => ",\"constant\":true",
            Self::ClassMethod => ",\"class_method\":true",
            Self::Setter => ",\"setter\":true",
        }
    }
}

/// Generates the variant of the runtime's enum.
impl ToTokens for FunctionRole {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let variant = format_ident!("{self:?}");
        tokens.extend(quote!(__k::FunctionRole::#variant));
    }
}
