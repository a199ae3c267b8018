use proc_macro2::TokenStream;
use syn::{DataEnum, DeriveInput};

use super::attributes::Attributes;
use super::family::Family;
use super::generate;
use super::value_enum::{self, ValueEnum};
use crate::environment::Environment;
use crate::mistakes::Mistakes;

/// Expands `#[derive(Object)]` on an enum. An enum without data is an enum of the ABI, and an enum
/// with data is a family of object types.
pub(super) fn expand(
    item: &DeriveInput,
    data: &DataEnum,
    attributes: Attributes,
    environment: &Environment,
    mut mistakes: Mistakes,
) -> TokenStream {
    let has_data = data.variants.iter().any(|variant| !variant.fields.is_empty());
    let crate_name = environment.required_crate_name(&mut mistakes);
    let (stand_in, code) = if has_data && attributes.given("enum").is_none() {
        let stand_in = generate::stand_in(item, &attributes.krate);
        let family = Family::parse(item, data, attributes, &mut mistakes);
        (stand_in, family.zip(crate_name).map(|(family, crate_name)| family.generate(crate_name)))
    } else {
        let stand_in = value_enum::stand_in(item, &attributes.krate);
        let definition = ValueEnum::parse(item, data, attributes, &mut mistakes);
        (stand_in, definition.zip(crate_name).map(|(definition, crate_name)| definition.generate(crate_name)))
    };
    match (mistakes.into_compile_errors(), code) {
        (None, Some(code)) => code,
        (errors, _) => {
            let mut output = errors.unwrap_or_default();
            output.extend(stand_in);
            output
        }
    }
}
