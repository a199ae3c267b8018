//! Reference parameters: the type that the argument is converted to, and the way it is passed to
//! the function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{GenericArgument, PathArguments, Type};

use super::types::without_group;
use crate::lifetime;

/// The way in which the converted argument is passed to the function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passing {
    Value,
    /// Borrowed for the call; passed as a reference to the object's value.
    Object,
    /// Borrowed for the call; passed as `&ObjRef<T>`.
    Reference,
    /// Converted to a counted reference; passed as a reference to the object's value.
    CountedObject,
    /// Converted to an owned value; passed as a reference to it.
    CountedReference,
}

impl Passing {
    /// Generates the expression that passes the local variable.
    pub(crate) fn pass(self, local: &impl ToTokens) -> TokenStream {
        match self {
            Self::Value => quote!(#local),
            Self::Object => quote!(&**#local),
            Self::Reference | Self::CountedObject => quote!(&*#local),
            Self::CountedReference => quote!(&#local),
        }
    }
}

/// Types that are converted as a whole, and then borrowed.
const WHOLE: [&str; 18] = [
    "Any",
    "Array",
    "BTreeMap",
    "Bytes",
    "DataType",
    "Device",
    "Dict",
    "HashMap",
    "List",
    "Map",
    "Module",
    "Option",
    "Shape",
    "Str",
    "String",
    "Tensor",
    "TypedFunction",
    "Vec",
];

/// The type that a parameter is converted to, and the way it is passed. A default value is stored
/// in a counted reference.
pub(crate) fn converted(ty: &Type, has_default: bool) -> (TokenStream, Passing) {
    if let Type::Reference(reference) = without_group(ty)
        && reference.mutability.is_none()
        && let content = without_group(&reference.elem)
        && let Type::Path(path) = content
        && let Some(last) = path.path.segments.last()
        && last.ident != "str"
    {
        let inner = match &last.arguments {
            PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                Some(GenericArgument::Type(inner)) if last.ident == "ObjRef" => Some(inner),
                _ => None,
            },
            _ => None,
        };
        let content = lifetime::elide(content.to_token_stream());
        return match inner {
            Some(_) if has_default => (content, Passing::CountedReference),
            Some(inner) => (quote!(__k::Borrowed<'_, #inner>), Passing::Reference),
            None if WHOLE.iter().any(|name| last.ident == name) => (content, Passing::CountedReference),
            None if has_default => (quote!(__k::ObjRef<#content>), Passing::CountedObject),
            // The conversion itself borrows an object.
            None => (ty.to_token_stream(), Passing::Value),
        };
    }
    (ty.to_token_stream(), Passing::Value)
}
