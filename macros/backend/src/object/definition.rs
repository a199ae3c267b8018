use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::Parse;
use syn::{Attribute, Data, DeriveInput, Field, Fields, GenericParam, Generics, Ident, Meta, Type, Visibility};

use super::attributes::{Attributes, check_representation};
use super::field::{HiddenField, ObjectField, RegisteredField, check_fields};
use crate::doc::Doc;
use crate::mistakes::Mistakes;

/// A struct that can be an object type.
pub(super) struct Definition {
    pub(super) ident: Ident,
    pub(super) key: String,
    pub(super) attributes: Attributes,
    pub(super) doc: Doc,
    pub(super) base: Option<Base>,
    /// The fields that other languages see, without the base.
    pub(super) fields: Vec<RegisteredField>,
    /// The other fields, without the base.
    pub(super) hidden: Vec<HiddenField>,
    pub(super) fingerprint: Fingerprint,
}

/// The first field, which is the parent type's value.
pub(super) struct Base {
    pub(super) ident: Ident,
    pub(super) ty: Type,
}

impl Definition {
    /// The types of all fields.
    pub(super) fn types(&self) -> impl Iterator<Item = &Type> {
        let base = self.base.iter().map(|base| &base.ty);
        base.chain(self.fields.iter().map(|field| &field.ty)).chain(self.hidden.iter().map(|field| &field.ty))
    }

    /// Reads the item and reports everything that is not supported in an object. Returns `None`
    /// only if an error was reported.
    pub(super) fn parse(item: DeriveInput, attributes: Attributes, mistakes: &mut Mistakes) -> Option<Self> {
        if let Some(option) = attributes.given("enum") {
            mistakes.at(option, "`enum` is an option of enums whose variants have no fields; remove it");
        }
        let fields = match item.data {
            Data::Struct(data) => data.fields,
            Data::Enum(data) => {
                mistakes.at(
                    data.enum_token,
                    "enums are not supported by #[derive(Object)]; use a struct, with an integer field for the variant",
                );
                return None;
            }
            Data::Union(data) => {
                mistakes.at(data.union_token, "unions are not supported by #[derive(Object)]; use a struct");
                return None;
            }
        };
        check_representation(&item.attrs, &item.ident, mistakes);
        check_generics(&item.generics, mistakes);
        let fields = match fields {
            Fields::Named(fields) => fields.named,
            Fields::Unnamed(fields) => {
                mistakes.at(
                    fields,
                    "tuple structs are not supported: other languages read fields by name; name the fields",
                );
                return None;
            }
            Fields::Unit => {
                mistakes.at(&item.ident, "unit structs are not supported; write `{}` or fields after the name");
                return None;
            }
        };
        let mut base = None;
        let mut registered = Vec::new();
        let mut hidden = Vec::new();
        let mut fingerprint = Fingerprint::new();
        for (index, field) in fields.into_iter().enumerate() {
            let is_base = check_field_attributes(&field.attrs, index, mistakes);
            let Field { ident: Some(ident), ty, vis, attrs, .. } = field else { continue };
            fingerprint.add(&ident);
            fingerprint.add(&ty);
            if is_base {
                base = Some(Base { ident, ty });
                continue;
            }
            let exposed = matches!(vis, Visibility::Public(_));
            match ObjectField::parse(&item.ident, ident, ty, &attrs, exposed, mistakes) {
                ObjectField::Registered(field) => registered.push(*field),
                ObjectField::Hidden(field) => hidden.push(*field),
            }
        }
        check_fields(&registered, attributes.has_generated_init(), mistakes);
        let key = attributes.key.as_ref()?.value();
        Some(Self {
            ident: item.ident,
            key,
            attributes,
            doc: Doc::of(&item.attrs),
            base,
            fields: registered,
            hidden,
            fingerprint,
        })
    }
}

/// A fingerprint that distinguishes definitions, from the names and types of all fields, including
/// private ones.
///
/// FNV-1a over tokens without their spacing, which differs between compilers.
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn add(&mut self, tokens: &impl ToTokens) {
        let text = tokens.to_token_stream().to_string();
        for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()).chain([b';']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl ToTokens for Fingerprint {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

/// Replaces `Self` in the type or expression by the item's name, for use outside the item.
pub(super) fn name_self<T: Parse + ToTokens>(tokens: T, item: &Ident) -> T {
    syn::parse2(replace_self(tokens.to_token_stream(), item)).unwrap_or(tokens)
}

fn replace_self(tokens: TokenStream, item: &Ident) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Ident(word) if word == "Self" => Ident::new(&item.to_string(), word.span()).into(),
        TokenTree::Group(group) => {
            let mut replaced = Group::new(group.delimiter(), replace_self(group.stream(), item));
            replaced.set_span(group.span());
            replaced.into()
        }
        other => other,
    };
    tokens.into_iter().map(replace).collect()
}

/// Reports generic parameters.
pub(super) fn check_generics(generics: &Generics, mistakes: &mut Mistakes) {
    for parameter in &generics.params {
        match parameter {
            GenericParam::Type(parameter) => mistakes.at(
                parameter,
                format_args!(
                    "type parameters are not supported: a type key names one layout; \
                     write one struct for each `{}`, or use `Any` or `ObjRef<ObjectRoot>`",
                    parameter.ident
                ),
            ),
            GenericParam::Const(parameter) => mistakes.at(
                parameter,
                "const parameters are not supported: a type key names one layout; use `Array<T>` for a varying length",
            ),
            GenericParam::Lifetime(parameter) => mistakes.at(
                parameter,
                "lifetime parameters are not supported: other languages keep an object as long as they like; \
                 own the data, as in `String`, `Array<T>` or `ObjRef<T>`",
            ),
        }
    }
}

/// Returns true if the field is the base.
fn check_field_attributes(attributes: &[Attribute], index: usize, mistakes: &mut Mistakes) -> bool {
    let mut is_base = false;
    let field = attributes.iter().find(|attribute| attribute.path().is_ident("field"));
    for attribute in attributes {
        if attribute.path().is_ident("object") {
            mistakes.at(
                attribute,
                "#[object(...)] is not supported on a field; write #[field(...)], or #[base] on the parent's value",
            );
        }
        if !attribute.path().is_ident("base") {
            continue;
        }
        if !matches!(attribute.meta, Meta::Path(_)) {
            mistakes.at(attribute, "#[base] takes no arguments; write #[base]");
        }
        if index > 0 {
            mistakes.at(
                attribute,
                "#[base] is supported only on the first field: a parent's fields come first; move the field up",
            );
        } else if is_base {
            mistakes.at(attribute, "#[base] is given twice; keep one");
        } else {
            is_base = true;
            if let Some(field) = field {
                mistakes.at(
                    field,
                    "#[field(...)] is not supported on the base: its fields are registered by its own type; remove it",
                );
            }
        }
    }
    is_base
}
