//! A variant of an enum with data: its key, its fields, and its attributes.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, DeriveInput, Field, Fields, Type, Variant};

use super::super::attributes::{Attributes, StructuralKind, structural_kind};
use super::super::definition::name_self;
use super::super::field::{HiddenField, ObjectField, RegisteredField, check_fields};
use crate::doc::Doc;
use crate::mistakes::Mistakes;
use crate::name::{plain, type_key_fault};
use crate::options::{attribute_options, entries};

/// A variant, which is a separate object type.
pub(super) struct FamilyVariant {
    pub(super) ident: Ident,
    pub(super) key: String,
    pub(super) structural: StructuralKind,
    pub(super) doc: Doc,
    /// All fields, in declaration order.
    pub(super) layout: Vec<(Ident, Type)>,
    /// The fields that other languages see.
    pub(super) fields: Vec<RegisteredField>,
    /// The other fields.
    pub(super) hidden: Vec<HiddenField>,
}

impl FamilyVariant {
    /// Returns `None` only if an error was reported.
    pub(super) fn parse(
        item: &DeriveInput,
        variant: &Variant,
        key_of_family: &str,
        attributes: &Attributes,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let Variant { ident, attrs, fields, discriminant } = variant;
        if let Some((_, value)) = discriminant {
            mistakes.at(
                value,
                "a discriminant is not supported in an enum with data: the object's type tells which variant it is; remove it",
            );
        }
        let (key, structural) = variant_options(attrs, mistakes);
        let fields = match fields {
            Fields::Named(fields) => Some(&fields.named),
            Fields::Unit => None,
            Fields::Unnamed(fields) => {
                mistakes.at(
                    fields,
                    "tuple variants are not supported: other languages read fields by name; \
                     name the fields, as in `{ value: i64 }`",
                );
                return None;
            }
        };
        let (mut layout, mut registered, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
        for field in fields.into_iter().flatten() {
            check_field_attributes(&field.attrs, mistakes);
            let Field { ident: Some(ident), ty, attrs, .. } = field else { continue };
            layout.push((ident.clone(), name_self(ty.clone(), &item.ident)));
            match ObjectField::parse(&item.ident, ident.clone(), ty.clone(), attrs, true, mistakes) {
                ObjectField::Registered(field) => registered.push(*field),
                ObjectField::Hidden(field) => hidden.push(*field),
            }
        }
        check_fields(&registered, attributes.has_generated_init(), mistakes);
        let key = key.unwrap_or_else(|| format!("{key_of_family}.{}", plain(ident)));
        let structural = structural.unwrap_or(attributes.structural);
        Some(Self { ident: ident.clone(), key, structural, doc: Doc::of(attrs), layout, fields: registered, hidden })
    }

    /// Returns the variable of a field in a pattern.
    pub(super) fn binding(&self, field: &Ident) -> Ident {
        let at = self.layout.iter().position(|(ident, _)| ident == field).unwrap_or_default();
        format_ident!("__field{at}")
    }

    /// Returns a pattern's fields, each with its variable.
    pub(super) fn bindings(&self) -> TokenStream {
        let fields = self.layout.iter().map(|(field, _)| {
            let binding = self.binding(field);
            quote!(#field: #binding,)
        });
        quote!(#(#fields)*)
    }
}

/// Reads the key and the structural kind of a variant from
/// `#[object(key = "...", structural = "...")]`.
fn variant_options(attributes: &[Attribute], mistakes: &mut Mistakes) -> (Option<String>, Option<StructuralKind>) {
    const KNOWN: &str = "`key = \"...\"` and `structural = \"...\"`";
    for attribute in attributes {
        for misplaced in ["base", "field"] {
            if attribute.path().is_ident(misplaced) {
                mistakes.at(attribute, format_args!("#[{misplaced}] is not supported on a variant; put it on a field"));
            }
        }
    }
    let (_, options) = attribute_options(attributes, "object", "#[object(key = \"...\")]", mistakes);
    let (mut key, mut structural) = (None, None);
    for entry in entries(options, KNOWN, mistakes) {
        if entry.key == "key" {
            key = entry.string(mistakes);
        } else if entry.key == "structural" {
            structural = structural_kind(entry, mistakes);
        } else {
            entry.unknown(KNOWN, mistakes);
        }
    }
    if let Some(key) = &key
        && let Some(fault) = type_key_fault(&key.value())
    {
        mistakes.at(key, fault);
    }
    (key.map(|key| key.value()), structural)
}

fn check_field_attributes(attributes: &[Attribute], mistakes: &mut Mistakes) {
    for attribute in attributes {
        if attribute.path().is_ident("object") {
            mistakes.at(attribute, "#[object(...)] is not supported on a field; write #[field(...)]");
        }
        if attribute.path().is_ident("base") {
            mistakes.at(attribute, "#[base] is not supported in a variant, whose parent is the enum; remove it");
        }
    }
}
