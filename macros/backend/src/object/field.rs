use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, GenericArgument, PathArguments, Type};

use super::definition::name_self;
use super::field_options::{FieldDefault, FieldOptions};
use crate::doc::Doc;
use crate::mistakes::Mistakes;
use crate::name::{is_reserved_parameter, plain};

/// A field of a struct, or of an enum's variant.
pub(super) enum ObjectField {
    Registered(Box<RegisteredField>),
    Hidden(Box<HiddenField>),
}

/// A field that other languages see.
pub(super) struct RegisteredField {
    pub(super) ident: Ident,
    /// The name in other languages.
    pub(super) name: String,
    pub(super) ty: Type,
    pub(super) doc: Doc,
    pub(super) options: FieldOptions,
}

/// A field that only Rust can access.
pub(super) struct HiddenField {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    /// The default of the field when another language creates an object.
    pub(super) default: Option<FieldDefault>,
}

impl ObjectField {
    /// Reads one field of the item `owner`. `exposed` is true if the field is registered by
    /// default, as public fields of structs and all fields of variants are.
    pub(super) fn parse(
        owner: &Ident,
        ident: Ident,
        ty: Type,
        attributes: &[Attribute],
        exposed: bool,
        mistakes: &mut Mistakes,
    ) -> Self {
        let ty = name_self(ty, owner);
        let mut options = FieldOptions::parse(attributes, mistakes);
        options.default = options.default.map(|default| default.name_self(owner));
        let is_hidden = options.skip || !(exposed || options.present);
        if let Some(weak) = weak_reference(ty.to_token_stream()) {
            if !is_hidden {
                mistakes.at(
                    weak,
                    format_args!(
                        "other languages do not see weak references: equality, JSON and copies would follow them in circles; write \
                         `#[field(skip)]`, and show the object by a `#[getter]`, as in `fn {ident}(&self) -> Option<ObjRef<..>>`"
                    ),
                );
            }
            // A new object begins with an empty reference.
            if is_weak(&ty) && options.default.is_none() {
                options.default = Some(FieldDefault::Factory(syn::parse_quote!(::core::default::Default::default)));
            }
            return Self::Hidden(Box::new(HiddenField { ident, ty, default: options.default }));
        }
        if is_hidden {
            return Self::Hidden(Box::new(HiddenField { ident, ty, default: options.default }));
        }
        let name = options.name.as_ref().map_or_else(|| plain(&ident), |name| name.value());
        let doc = Doc::of(attributes);
        Self::Registered(Box::new(RegisteredField { ident, name, ty, doc, options }))
    }
}

/// Returns the identifier `WeakRef` if the type contains it.
fn weak_reference(ty: TokenStream) -> Option<Ident> {
    ty.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "WeakRef" => Some(ident),
        TokenTree::Group(group) => weak_reference(group.stream()),
        _ => None,
    })
}

/// Returns true if a type is a weak reference, also an optional one or one in a `Field`. All of
/// them have a default.
fn is_weak(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    match (last.ident.to_string().as_str(), &last.arguments) {
        ("WeakRef", _) => true,
        ("Field" | "Option", PathArguments::AngleBracketed(arguments)) => {
            arguments.args.iter().any(|argument| matches!(argument, GenericArgument::Type(inner) if is_weak(inner)))
        }
        _ => false,
    }
}

/// Reports fields of one type with the same name, and fields that the generated constructor, if
/// there is one, could not set.
pub(super) fn check_fields(fields: &[RegisteredField], generated_init: bool, mistakes: &mut Mistakes) {
    for (index, field) in fields.iter().enumerate() {
        if let Some(earlier) = fields[..index].iter().find(|earlier| earlier.name == field.name) {
            let at = match &field.options.name {
                Some(name) => name.to_token_stream(),
                None => field.ident.to_token_stream(),
            };
            let (name, other) = (&field.name, &earlier.ident);
            mistakes.at(at, format_args!("the field `{other}` is called `{name}`, too; give one of them another name"));
        }
        if generated_init && field.options.no_init.is_none() && is_reserved_parameter(&field.name) {
            let name = &field.name;
            mistakes.at(
                field.options.name.as_ref().map_or_else(|| field.ident.to_token_stream(), ToTokens::to_token_stream),
                format_args!(
                    "the generated constructor cannot have a parameter `{name}` in Python; give the field another name there, as in \
                     `#[field(name = \"{name}_\")]`"
                ),
            );
        }
        if let (true, Some(option), None) = (generated_init, &field.options.no_init, &field.options.default) {
            mistakes.at(
                option,
                "the generated constructor cannot make this field: it is not a parameter and has no default; \
                 add `default = ...` or `default_factory = ...`",
            );
        }
    }
}

impl RegisteredField {
    /// Generates the flags, as an expression.
    fn flags(&self) -> TokenStream {
        let flags = self.options.flags().into_iter().map(|name| Ident::new(name, proc_macro2::Span::call_site()));
        let flags = flags.map(|name| quote!(__k::field_flag::#name));
        let mut sum = TokenStream::new();
        for (index, flag) in flags.enumerate() {
            if index > 0 {
                sum.extend(quote!(|));
            }
            sum.extend(flag);
        }
        if sum.is_empty() { quote!(0) } else { sum }
    }

    /// Generates the default as an `Option<DefaultDef>`.
    fn default(&self, marker: &Ident) -> TokenStream {
        let Some(default) = &self.options.default else { return quote!(::core::option::Option::None) };
        let kind = match default {
            FieldDefault::Value(_) => quote!(Value),
            FieldDefault::Factory(_) => quote!(Factory),
        };
        let value = default.value(&self.ty);
        quote! {
            ::core::option::Option::Some(__k::DefaultDef::#kind({
                fn __kernpack_default() -> __k::Any {
                    #value
                    __k::default_of::<#marker>(&value)
                }
                __kernpack_default
            }))
        }
    }

    /// Generates the marker type of the field, which identifies its place. `owner` is the type that
    /// the field is registered for, `index` its index among the owner's registered fields, and
    /// `offset` an expression for the offset from the start of the body.
    pub(super) fn marker(
        &self,
        marker: &Ident,
        owner: &impl ToTokens,
        index: usize,
        offset: &TokenStream,
    ) -> TokenStream {
        let ty = &self.ty;
        quote! {
            struct #marker;
            // SAFETY: the compiler's own offset of a field of this type, which the owner's
            // definition has at this place.
            unsafe impl __k::FieldAt for #marker {
                type Owner = #owner;
                type Value = #ty;
                const INDEX: ::core::primitive::usize = #index;
                const OFFSET: ::core::primitive::usize = #offset;
            }
        }
    }

    /// Generates the `FieldDef`, as a constant expression.
    pub(super) fn definition(&self, marker: &Ident) -> TokenStream {
        let Self { name, doc, .. } = self;
        let (flags, default) = (self.flags(), self.default(marker));
        if self.options.writable {
            return quote!(__k::writable_field_def::<#marker>(#name, #doc, #flags, #default));
        }
        quote!(__k::field_def::<#marker>(#name, #doc, #flags, #default, __k::SetterOf::<#marker>::FN))
    }

    /// Generates statements that pass the field to a `visitor`, and that lend it. The arguments are
    /// references to it.
    pub(super) fn visits(
        &self,
        marker: &Ident,
        shared: &TokenStream,
        exclusive: &TokenStream,
    ) -> (TokenStream, TokenStream) {
        let Self { name, ty, .. } = self;
        (
            quote!(__k::visit_field::<#marker>(#shared, #name, visitor)?;),
            quote!(__k::visit_field_mut::<#marker>(#exclusive, #name, visitor, __k::ConvertOf::<#ty>::SET)?;),
        )
    }
}

impl HiddenField {
    /// Generates the `HiddenDef`, as a constant expression.
    pub(super) fn definition(&self, offset: &TokenStream) -> TokenStream {
        let ty = &self.ty;
        let make = match &self.default {
            None => quote!(::core::option::Option::None),
            Some(default) => {
                let value = default.value(ty);
                quote! {
                    ::core::option::Option::Some({
                        // The author's expression is not unsafe code, and does not see the place.
                        fn __kernpack_value() -> #ty {
                            #value
                            value
                        }
                        unsafe fn __kernpack_make(place: *mut ::core::ffi::c_void) {
                            let value = __kernpack_value();
                            // SAFETY: the caller gives the place of the field.
                            unsafe { place.cast::<#ty>().write(value) }
                        }
                        __kernpack_make
                    })
                }
            }
        };
        let name = plain(&self.ident);
        quote!(__k::hidden_def::<#ty>(#name, #offset, #make))
    }
}

impl FieldDefault {
    fn name_self(self, owner: &Ident) -> Self {
        match self {
            Self::Value(expression) => Self::Value(name_self(expression, owner)),
            Self::Factory(function) => Self::Factory(name_self(function, owner)),
        }
    }

    /// Generates a statement that defines a variable `value` of the type `ty`. A type mismatch is
    /// an error at the expression.
    fn value(&self, ty: &Type) -> TokenStream {
        match self {
            Self::Value(expression) => quote!(let value: #ty = #expression;),
            Self::Factory(function) => {
                let pointer = quote_spanned!(ty.span()=> fn() -> #ty);
                quote! {
                    let make: #pointer = #function;
                    let value = make();
                }
            }
        }
    }
}
