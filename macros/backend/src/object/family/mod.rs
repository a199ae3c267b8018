//! An enum with data as a family of object types: the enum is the parent, and each variant is a
//! subtype.

mod generate;
mod variant;

use proc_macro2::Ident;
use syn::{Attribute, DataEnum, DeriveInput, LitStr, Meta};

use super::attributes::{Attributes, words};
use super::definition::{Fingerprint, check_generics};
use crate::doc::Doc;
use crate::mistakes::Mistakes;
use variant::FamilyVariant;

/// An enum with data: one object type for each variant, and the enum as their parent.
pub(super) struct Family {
    ident: Ident,
    key: String,
    attributes: Attributes,
    doc: Doc,
    variants: Vec<FamilyVariant>,
    /// The fingerprint of all variants.
    fingerprint: Fingerprint,
}

impl Family {
    /// Reads the item and reports everything that is not supported in a family of object types.
    /// Returns `None` only if an error was reported.
    pub(super) fn parse(
        item: &DeriveInput,
        data: &DataEnum,
        attributes: Attributes,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        check_representation(&item.attrs, &item.ident, mistakes);
        check_generics(&item.generics, mistakes);
        for (option, why) in [
            ("child_slots", "a family has one subtype for each variant"),
            ("final", "a family has its variants for subtypes, and no others"),
            ("rename_all", "it is about the names of variants of an enum without data"),
        ] {
            if let Some(key) = attributes.given(option) {
                mistakes.at(key, format_args!("`{option}` is not supported on an enum with data: {why}; remove it"));
            }
        }
        let key = attributes.key.as_ref().map(LitStr::value);
        let mut fingerprint = Fingerprint::new();
        let mut variants: Vec<FamilyVariant> = Vec::new();
        for variant in &data.variants {
            fingerprint.add(&variant.ident);
            let key_of_family = key.as_deref().unwrap_or_default();
            let Some(variant) = FamilyVariant::parse(item, variant, key_of_family, &attributes, mistakes) else {
                continue;
            };
            for (ident, ty) in &variant.layout {
                fingerprint.add(ident);
                fingerprint.add(ty);
            }
            let earlier = variants.iter().find(|earlier| earlier.key == variant.key).map(|earlier| &earlier.ident);
            if let Some(other) = earlier.or((variant.key == key_of_family).then_some(&item.ident)) {
                let (at, key) = (&variant.ident, &variant.key);
                mistakes
                    .at(at, format_args!("the type key `{key}` is that of `{other}`, too; give one of them another"));
            }
            variants.push(variant);
        }
        Some(Self {
            ident: item.ident.clone(),
            key: key?,
            attributes,
            doc: Doc::of(&item.attrs),
            variants,
            fingerprint,
        })
    }
}

/// Checks that the layout is the one that the generated code assumes.
fn check_representation(attributes: &[Attribute], name: &Ident, mistakes: &mut Mistakes) {
    let mut given = attributes.iter().filter(|attribute| attribute.path().is_ident("repr"));
    let Some(first) = given.next() else {
        mistakes.at(name, "the objects of an enum with data need a fixed layout; add #[repr(C, u32)] to the enum");
        return;
    };
    let all = [first].into_iter().chain(given).filter_map(|attribute| match &attribute.meta {
        Meta::List(list) => Some(list.tokens.clone()),
        _ => None,
    });
    let mut words: Vec<String> = all.flat_map(words).map(|(word, _)| word).collect();
    words.sort_unstable();
    if words != ["C", "u32"] {
        mistakes.at(first, "the layout of an enum with data is #[repr(C, u32)], and nothing else; write that");
    }
}
