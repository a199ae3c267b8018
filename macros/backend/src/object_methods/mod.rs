//! `#[object_methods]`: exports the functions of an inherent impl as methods, constructor,
//! properties, operators and type attributes of an object type.

mod argument;
mod attributes;
mod block;
mod callable;
mod generate;
mod member;
mod operator;
mod self_type;
mod special;

use proc_macro2::TokenStream;
use quote::quote;

use crate::environment::Environment;
use crate::mistakes::Mistakes;
use crate::options::{CratePath, entries};
use block::Block;

const KNOWN: &str = "`crate = path`";

/// Expands `#[object_methods(options)] impl Type { ... }`. The block without the attributes of this
/// macro is always the first part of the output.
pub fn expand(options: TokenStream, item: TokenStream, environment: &Environment) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let mut krate = CratePath(None);
    for entry in entries(options, KNOWN, &mut mistakes) {
        if entry.key == "crate" {
            krate.0 = entry.path(&mut mistakes);
        } else {
            entry.unknown(KNOWN, &mut mistakes);
        }
    }
    let (item, block) = Block::parse(item, &mut mistakes);
    let crate_name = environment.required_crate_name(&mut mistakes);
    let added = match (mistakes.into_compile_errors(), block, crate_name) {
        (None, Some(block), Some(crate_name)) => generate::generate(&block, &krate, crate_name),
        (errors, ..) => errors.unwrap_or_default(),
    };
    quote!(#item #added)
}
