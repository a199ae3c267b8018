use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

/// Generates one entry of a function's parameter table. Errors about the type are shown at `place`.
pub(crate) fn parameter_info(name: &str, ty: &TokenStream, place: &impl Spanned) -> TokenStream {
    let schema = quote_spanned!(inside(place)=> __k::SchemaOf::<#ty>::TYPE);
    let access = quote_spanned!(inside(place)=> __k::SchemaOf::<#ty>::ACCESS);
    quote!(__k::ParamInfo { name: #name, ty: #schema, access: #access })
}

/// Returns the span of the user's tokens with the hygiene of generated ones, so that lints ignore
/// the code.
pub(crate) fn inside(tokens: &impl Spanned) -> Span {
    Span::mixed_site().located_at(tokens.span())
}
