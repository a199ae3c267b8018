use quote::ToTokens;
use syn::{Attribute, Data, DeriveInput, Field, Fields, GenericParam, Generics, Ident, Meta, Type, Visibility};

use super::attributes::{Attributes, check_representation};
use crate::doc::Doc;
use crate::mistakes::Mistakes;
use crate::name::plain;
use crate::options::CratePath;

/// A struct that can be an object type.
pub(super) struct Definition {
    pub(super) ident: Ident,
    pub(super) key: String,
    pub(super) krate: CratePath,
    pub(super) doc: Doc,
    pub(super) base: Option<Base>,
    /// The public fields, without the base.
    pub(super) fields: Vec<PublicField>,
    /// Tells definitions apart: a number made of the names and types of all fields, private ones too.
    pub(super) fingerprint: u64,
}

/// The first field, which is the parent type's value.
pub(super) struct Base {
    pub(super) ident: Ident,
    pub(super) ty: Type,
}

pub(super) struct PublicField {
    pub(super) ident: Ident,
    pub(super) name: String,
    pub(super) ty: Type,
    pub(super) doc: Doc,
}

impl Definition {
    /// Reads the item and reports everything that can not be an object. `None` only if a mistake was reported.
    pub(super) fn parse(item: DeriveInput, attributes: Attributes, mistakes: &mut Mistakes) -> Option<Self> {
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
        let mut public = Vec::new();
        let mut fingerprint = Fingerprint::new();
        for (index, field) in fields.into_iter().enumerate() {
            let is_base = check_field_attributes(&field.attrs, index, mistakes);
            let Field { ident: Some(ident), ty, vis, attrs, .. } = field else { continue };
            fingerprint.add(&ident);
            fingerprint.add(&ty);
            if is_base {
                base = Some(Base { ident, ty });
            } else if matches!(vis, Visibility::Public(_)) {
                public.push(PublicField { name: plain(&ident), ident, ty, doc: Doc::of(&attrs) });
            }
        }
        let key = attributes.key?.value();
        Some(Self {
            ident: item.ident,
            key,
            krate: attributes.krate,
            doc: Doc::of(&item.attrs),
            base,
            fields: public,
            fingerprint: fingerprint.0,
        })
    }
}

/// FNV-1a over tokens without their spacing, which differs between compilers.
struct Fingerprint(u64);

impl Fingerprint {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, tokens: &impl ToTokens) {
        let text = tokens.to_token_stream().to_string();
        for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()).chain([b';']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn check_generics(generics: &Generics, mistakes: &mut Mistakes) {
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

/// Whether the field is the base.
fn check_field_attributes(attributes: &[Attribute], index: usize, mistakes: &mut Mistakes) -> bool {
    let mut is_base = false;
    for attribute in attributes {
        if attribute.path().is_ident("object") {
            mistakes.at(attribute, "#[object(...)] is not supported on a field; the attribute of a field is #[base]");
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
        }
    }
    is_base
}
