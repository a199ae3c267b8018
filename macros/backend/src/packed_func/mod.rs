//! `#[packed_func]`: exports a free function as a symbol, with metadata, documentation and
//! registration.

mod function;
mod generate;
mod options;
mod parallel;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ItemFn;

use crate::environment::Environment;
use crate::mistakes::Mistakes;
use crate::signature::default;
use function::PackedFunction;
use options::Options;

/// Expands `#[packed_func(options)] item`. The item itself, without `#[default(...)]`, is always
/// the first part of the output.
pub fn expand(options: TokenStream, item: TokenStream, environment: &Environment) -> TokenStream {
    let mut mistakes = Mistakes::default();
    if environment.in_impl
        && let Ok(function) = syn::parse2::<syn::ImplItemFn>(item.clone())
    {
        mistakes.at(
            &function.sig.ident,
            "#[packed_func] is supported only on free functions; put #[object_methods] on the impl of an object type, which exports its methods, or \
             move the function out",
        );
        let errors = mistakes.into_compile_errors();
        // An error, which is a macro call, is allowed wherever the function is.
        return quote!(#item #errors);
    }
    let options = Options::parse(options, &mut mistakes);
    let function = PackedFunction::parse(item.clone(), &options, &mut mistakes);
    let crate_name = environment.required_crate_name(&mut mistakes);
    let added = match (mistakes.into_compile_errors(), function, crate_name) {
        (None, Some(function), Some(crate_name)) => generate::generate(&function, &options, crate_name),
        (errors, ..) => errors.unwrap_or_default(),
    };
    let item = without_defaults(item);
    quote!(#item #added)
}

/// Expands `#[constant(options)] item`. The item itself is always the first part of the output.
pub fn expand_constant(options: TokenStream, item: TokenStream, environment: &Environment) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let options = Options::parse_constant(options, &mut mistakes);
    let constant = PackedFunction::parse_constant(item.clone(), &options, &mut mistakes);
    let crate_name = environment.required_crate_name(&mut mistakes);
    let added = match (mistakes.into_compile_errors(), constant, crate_name) {
        (None, Some(constant), Some(crate_name)) => generate::generate(&constant, &options, crate_name),
        (errors, ..) => errors.unwrap_or_default(),
    };
    quote!(#item #added)
}

/// Removes this macro's attributes from the parameters of the item.
fn without_defaults(item: TokenStream) -> TokenStream {
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else { return item };
    if default::strip(&mut function.sig.inputs) { function.into_token_stream() } else { item }
}
