//! `#[derive(Object)]`: a struct as an object type, with reflection of its public fields and
//! registration.

mod attributes;
mod definition;
mod enum_item;
mod family;
mod field;
mod field_options;
mod generate;
mod letter_case;
mod value_enum;

use proc_macro2::TokenStream;

use crate::environment::Environment;
use crate::mistakes::Mistakes;
use attributes::Attributes;
use definition::Definition;

/// Expands `#[derive(Object)] item`. A faulty struct still gets an `Object` impl, so that its uses
/// elsewhere are not additional errors.
pub fn expand(item: TokenStream, environment: &Environment) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let item = match syn::parse2::<syn::DeriveInput>(item) {
        Ok(item) => item,
        Err(error) => return error.into_compile_error(),
    };
    let attributes = Attributes::parse(&item.attrs, &item.ident, &mut mistakes);
    if let syn::Data::Enum(data) = &item.data {
        return enum_item::expand(&item, data, attributes, environment, mistakes);
    }
    let stand_in = generate::stand_in(&item, &attributes.krate);
    let definition = Definition::parse(item, attributes, &mut mistakes);
    let crate_name = environment.required_crate_name(&mut mistakes);
    match (mistakes.into_compile_errors(), definition, crate_name) {
        (None, Some(definition), Some(crate_name)) => generate::generate(&definition, crate_name),
        (errors, ..) => {
            let mut output = errors.unwrap_or_default();
            output.extend(stand_in);
            output
        }
    }
}
