use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{GenericArgument, PathArguments, Type, TypePath};

use crate::mistakes::Mistakes;
use crate::signature::without_group;

/// The type of an impl block, and the ways in which signatures can name it.
pub(super) struct SelfType {
    pub(super) path: TypePath,
}

impl SelfType {
    /// Returns `None` if the type cannot be an object type, which was reported.
    pub(super) fn parse(ty: &Type, mistakes: &mut Mistakes) -> Option<Self> {
        match without_group(ty) {
            Type::Path(path) if path.qself.is_none() => Some(Self { path: path.clone() }),
            other => {
                mistakes.at(
                    other,
                    "#[object_methods] is supported only on the impl of a struct or enum with #[derive(Object)]; \
                     write `impl YourType { ... }`",
                );
                None
            }
        }
    }

    /// Returns true if a type is this one, as `Self` or by its name.
    pub(super) fn is(&self, ty: &Type) -> bool {
        let Type::Path(path) = without_group(ty) else { return false };
        let same =
            |one: &TypePath, other: &TypePath| one.to_token_stream().to_string() == other.to_token_stream().to_string();
        path.path.is_ident("Self") || same(path, &self.path)
    }

    /// Replaces `Self` in the tokens, for use outside the impl.
    pub(super) fn resolve(&self, tokens: TokenStream) -> TokenStream {
        tokens
            .into_iter()
            .flat_map(|token| match token {
                TokenTree::Ident(word) if word == "Self" => self
                    .path
                    .to_token_stream()
                    .into_iter()
                    .map(|mut token| {
                        token.set_span(word.span());
                        token
                    })
                    .collect(),
                TokenTree::Group(group) => {
                    let mut resolved = Group::new(group.delimiter(), self.resolve(group.stream()));
                    resolved.set_span(group.span());
                    TokenTree::from(resolved).into_token_stream()
                }
                other => other.into_token_stream(),
            })
            .collect()
    }

    /// The conversion of a function's result. Each `Self` becomes a new object.
    pub(super) fn result_shape(&self, ty: &Type) -> Shape {
        if self.is(ty) {
            return Shape::Object;
        }
        match wrapper(ty) {
            Some(("Option" | "Result", inner)) => match self.result_shape(inner) {
                Shape::AsIs => Shape::AsIs,
                shape => Shape::Inside(Box::new(shape)),
            },
            _ => Shape::AsIs,
        }
    }

    /// Returns true if a constructor may return this type: the type itself, a reference to it, or a
    /// `Result` of these.
    pub(super) fn is_constructed(&self, ty: &Type) -> bool {
        match wrapper(ty) {
            Some(("Result", inner)) => self.is(inner) || self.is_reference(inner),
            _ => self.is(ty) || self.is_reference(ty),
        }
    }

    /// Returns true if a type is `ObjRef<Self>`.
    pub(super) fn is_reference(&self, ty: &Type) -> bool {
        matches!(wrapper(ty), Some(("ObjRef", inner)) if self.is(inner))
    }
}

/// The steps that make a result convertible.
pub(super) enum Shape {
    AsIs,
    /// A value of the object type, which is moved into a new object.
    Object,
    /// The same for the value in an `Option` or `Result`.
    Inside(Box<Shape>),
}

impl Shape {
    /// Returns the type of the converted result.
    pub(super) fn ty(&self, ty: &Type) -> TokenStream {
        match self {
            Self::AsIs => ty.to_token_stream(),
            Self::Object => quote!(__k::ObjRef<#ty>),
            Self::Inside(shape) => {
                let mut ty = without_group(ty).clone();
                if let Some(inner) = first_argument_mut(&mut ty) {
                    *inner = Type::Verbatim(shape.ty(inner));
                }
                ty.into_token_stream()
            }
        }
    }

    /// Generates the converted result.
    pub(super) fn value(&self, value: TokenStream) -> TokenStream {
        match self {
            Self::AsIs => value,
            Self::Object => quote!(__k::ObjRef::new(#value)),
            Self::Inside(shape) => match &**shape {
                Self::Object => quote!(#value.map(__k::ObjRef::new)),
                shape => {
                    let inner = shape.value(quote!(value));
                    quote!(#value.map(|value| #inner))
                }
            },
        }
    }
}

/// Returns the name and first argument of a generic type that is relevant here.
pub(super) fn wrapper(ty: &Type) -> Option<(&'static str, &Type)> {
    let Type::Path(path) = without_group(ty) else { return None };
    let last = path.path.segments.last()?;
    let name = ["ObjRef", "Option", "Result"].into_iter().find(|name| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    Some((name, types.into_iter().next()?))
}

fn first_argument_mut(ty: &mut Type) -> Option<&mut Type> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(arguments) = &mut path.path.segments.last_mut()?.arguments else { return None };
    arguments.args.iter_mut().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}
