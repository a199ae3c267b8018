use std::collections::HashMap;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, DataEnum, DeriveInput, Expr, ExprLit, ExprUnary, Lit, LitStr, UnOp, Variant};

use super::attributes::Attributes;
use super::definition::check_generics;
use super::letter_case::LetterCase;
use crate::doc::Doc;
use crate::mistakes::Mistakes;
use crate::name::{claim_type_key, field_name_fault, plain};
use crate::options::{CratePath, attribute_options, entries};

/// An enum without data: an enum of integers or of strings of the ABI.
pub(super) struct ValueEnum {
    ident: Ident,
    key: String,
    attributes: Attributes,
    kind: Kind,
    doc: Doc,
    variants: Vec<ValueVariant>,
}

/// The type of a variant's value in other languages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Str,
}

struct ValueVariant {
    ident: Ident,
    /// The name in other languages.
    name: String,
    doc: Doc,
    discriminant: Option<Expr>,
}

impl ValueEnum {
    /// Reads the item and reports everything that is not supported in an enum of the ABI. Returns
    /// `None` only if an error was reported.
    pub(super) fn parse(
        item: &DeriveInput,
        data: &DataEnum,
        attributes: Attributes,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        check_generics(&item.generics, mistakes);
        for option in ["structural", "child_slots", "final", "init", "create"] {
            if let Some(key) = attributes.given(option) {
                mistakes.at(
                    key,
                    format_args!(
                        "`{option}` is not an option of enums without data: their objects are one for each variant; remove it"
                    ),
                );
            }
        }
        let kind = match attributes.enumeration.as_ref().map(LitStr::value).as_deref() {
            Some("int") => Some(Kind::Int),
            Some(_) => Some(Kind::Str),
            None => {
                if attributes.given("enum").is_none() && !data.variants.is_empty() {
                    mistakes.at(
                        &item.ident,
                        "#[object(...)] does not say what other languages take for the value of a variant; \
                         add `enum = \"int\"` for the discriminant, or `enum = \"str\"` for the name",
                    );
                }
                None
            }
        };
        if data.variants.is_empty() {
            mistakes.at(&item.ident, "an enum without variants has no values; add a variant");
        }
        let case = attributes.rename_all.as_ref().and_then(|case| LetterCase::parse(case, mistakes));
        let variants: Vec<ValueVariant> =
            data.variants.iter().map(|variant| ValueVariant::parse(variant, kind, case, mistakes)).collect();
        check_names(&variants, mistakes);
        Some(Self {
            ident: item.ident.clone(),
            key: attributes.key.as_ref()?.value(),
            attributes,
            kind: kind?,
            doc: Doc::of(&item.attrs),
            variants,
        })
    }

    /// Generates the impls and the registration.
    pub(super) fn generate(&self, crate_name: &str) -> TokenStream {
        let Self { ident, key, attributes, kind, doc, variants } = self;
        let krate = &attributes.krate;
        let here = ident.span();
        let claim = claim_type_key(key, here);
        let kind_name = match kind {
            Kind::Int => quote!(Int),
            Kind::Str => quote!(Str),
        };
        let count = variants.len();
        let definitions = variants.iter().enumerate().map(|(position, variant)| {
            let ValueVariant { ident: variant, name, doc, .. } = variant;
            let value = match kind {
                Kind::Int => quote!(#ident::#variant as ::core::primitive::i64),
                Kind::Str => (position as i64).to_token_stream(),
            };
            quote!(__k::VariantDef { name: #name, value: #value, doc: #doc })
        });
        let range = self.check_range();
        let idents = variants.iter().map(|variant| &variant.ident);
        let (to, from) = (idents.clone().zip(0usize..), idents.zip(0usize..));
        let to = to.map(|(variant, position)| quote!(Self::#variant => #position));
        let from = from.map(|(variant, position)| quote!(#position => ::core::option::Option::Some(Self::#variant)));
        let conversions = conversions(ident, krate);
        let file = quote_spanned!(here=> ::core::file!());
        let line = quote_spanned!(here=> ::core::line!());
        quote! {
            #claim
            #[allow(deprecated)]
            const _: () = {
                use #krate::__private_v0_1 as __k;

                #range

                static __KERNPACK_VARIANTS: [__k::VariantDef; #count] = [#(#definitions),*];

                #[__k::linkme::distributed_slice(__k::KERNPACK_ENUMS_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_ENUM: __k::EnumDef = __k::EnumDef {
                    key: #key,
                    doc: #doc,
                    kind: __k::EnumKind::#kind_name,
                    variants: &__KERNPACK_VARIANTS,
                    register: __k::register_enum,
                    instances: __k::EnumInstances::new(),
                    crate_name: #crate_name,
                    file: #file,
                    line: #line,
                };

                impl #krate::EnumType for #ident {
                    const TYPE_KEY: &'static ::core::primitive::str = #key;

                    #[inline]
                    fn enum_def() -> &'static __k::EnumDef {
                        &__KERNPACK_ENUM
                    }

                    #[inline]
                    fn at_position(position: ::core::primitive::usize) -> ::core::option::Option<Self> {
                        match position {
                            #(#from,)*
                            _ => ::core::option::Option::None,
                        }
                    }

                    #[inline]
                    fn position(&self) -> ::core::primitive::usize {
                        match self {
                            #(#to,)*
                        }
                    }
                }
                #conversions
            };
        }
    }

    /// Generates an item that compiles only if all discriminants fit, if this cannot be checked
    /// here.
    fn check_range(&self) -> Option<TokenStream> {
        let computed =
            |variant: &ValueVariant| variant.discriminant.as_ref().is_some_and(|value| literal(value).is_none());
        if self.kind != Kind::Int || !self.variants.iter().any(computed) {
            return None;
        }
        let checks = self.variants.iter().map(|variant| {
            let (ident, name) = (&self.ident, &variant.ident);
            let at = variant.discriminant.as_ref().map_or(name.span(), Spanned::span);
            quote_spanned! {at=>
                ::core::assert!(
                    #ident::#name as ::core::primitive::i128 <= ::core::primitive::i64::MAX as ::core::primitive::i128,
                    "the integers of the ABI have 64 bits with a sign; use a smaller discriminant",
                );
            }
        });
        Some(quote!(const _: () = { #(#checks)* };))
    }
}

impl ValueVariant {
    fn parse(variant: &Variant, kind: Option<Kind>, case: Option<LetterCase>, mistakes: &mut Mistakes) -> Self {
        let Variant { ident, attrs, fields, discriminant, .. } = variant;
        if !fields.is_empty() {
            mistakes.at(
                fields,
                "a variant with fields is not supported in an enum of integers or strings; remove `enum = ...`, \
                 and each variant becomes an object type of its own, with the enum as their parent",
            );
        }
        let given = name_option(attrs, mistakes);
        let name = match (&given, case) {
            (Some(name), _) => name.value(),
            (None, Some(case)) => case.apply(&plain(ident)),
            (None, None) => plain(ident),
        };
        let at = given.map_or_else(|| ident.to_token_stream(), ToTokens::into_token_stream);
        match kind {
            Some(Kind::Int) => {
                if let Some(fault) = field_name_fault(&name) {
                    mistakes.at(at, fault);
                }
            }
            _ if name.is_empty() => mistakes.at(at, "an empty name is not supported; write the name that callers use"),
            _ => {}
        }
        let discriminant = discriminant.as_ref().map(|(_, value)| value.clone());
        if let (Some(Kind::Int), Some(value)) = (kind, &discriminant)
            && literal(value).is_some_and(|value| i64::try_from(value).is_err())
        {
            mistakes.at(
                value,
                "the integers of the ABI have 64 bits with a sign; use a discriminant between -2^63 and 2^63 - 1",
            );
        }
        Self { ident: ident.clone(), name, doc: Doc::of(attrs), discriminant }
    }
}

/// Reads the name of a variant from `#[object(name = "...")]`.
fn name_option(attributes: &[Attribute], mistakes: &mut Mistakes) -> Option<LitStr> {
    const KNOWN: &str = "`name = \"...\"`";
    for attribute in attributes {
        for misplaced in ["base", "field"] {
            if attribute.path().is_ident(misplaced) {
                mistakes.at(
                    attribute,
                    format_args!(
                        "#[{misplaced}] is not supported on a variant; its option is #[object(name = \"...\")]"
                    ),
                );
            }
        }
    }
    let (_, options) = attribute_options(attributes, "object", "#[object(name = \"...\")]", mistakes);
    let mut name = None;
    for entry in entries(options, KNOWN, mistakes) {
        if entry.key == "name" {
            name = entry.string(mistakes);
        } else {
            entry.unknown(KNOWN, mistakes);
        }
    }
    name
}

fn check_names(variants: &[ValueVariant], mistakes: &mut Mistakes) {
    let mut seen: HashMap<&str, &Ident> = HashMap::new();
    for variant in variants {
        if let Some(earlier) = seen.insert(&variant.name, &variant.ident) {
            mistakes.at(
                &variant.ident,
                format_args!(
                    "the variant `{earlier}` is called `{}`, too; give one of them another name with \
                     #[object(name = \"...\")]",
                    variant.name
                ),
            );
        }
    }
}

/// Returns the value of an integer literal. A value beyond 128 bits counts as the largest.
fn literal(value: &Expr) -> Option<i128> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(value), .. }) => Some(value.base10_parse().unwrap_or(i128::MAX)),
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => literal(expr).map(|value| -value),
        Expr::Paren(inner) => literal(&inner.expr),
        Expr::Group(inner) => literal(&inner.expr),
        _ => None,
    }
}

/// Generates the implementations that make the enum a value of the ABI, from its `EnumType`.
fn conversions(ident: &Ident, krate: &CratePath) -> TokenStream {
    quote! {
        impl #krate::Schema for #ident {
            const TYPE: #krate::TypeSchema = #krate::TypeSchema::new(<Self as #krate::EnumType>::TYPE_KEY);
        }

        impl<'a> #krate::FromAny<'a> for #ident {
            #[inline]
            fn from_any(value: &'a #krate::AnyView<'a>) -> ::core::result::Result<Self, #krate::Mismatch> {
                #krate::__private_v0_1::enum_from_any(value)
            }
        }

        impl #krate::IntoAny for #ident {
            #[inline]
            fn into_any(self) -> #krate::Any {
                #krate::__private_v0_1::enum_into_any(&self)
            }
        }

        impl #krate::ToArg for #ident {
            #[inline]
            fn to_arg(&self) -> #krate::Arg<'_> {
                #krate::__private_v0_1::enum_to_arg(self)
            }
        }

        impl ::core::convert::From<#ident> for #krate::Any {
            #[inline]
            fn from(variant: #ident) -> Self {
                #krate::__private_v0_1::enum_into_any(&variant)
            }
        }
    }
}

/// Generates the impls of a faulty enum, so that its uses elsewhere are not additional errors. They
/// never run, because they come with a `compile_error!`.
pub(super) fn stand_in(item: &DeriveInput, krate: &CratePath) -> TokenStream {
    if !item.generics.params.is_empty() {
        return TokenStream::new();
    }
    let ident = &item.ident;
    let conversions = conversions(ident, krate);
    quote! {
        impl #krate::EnumType for #ident {
            const TYPE_KEY: &'static ::core::primitive::str = "";

            fn enum_def() -> &'static #krate::__private_v0_1::EnumDef {
                ::core::unreachable!()
            }

            fn at_position(_: ::core::primitive::usize) -> ::core::option::Option<Self> {
                ::core::option::Option::None
            }

            fn position(&self) -> ::core::primitive::usize {
                0
            }
        }
        #conversions
    }
}
