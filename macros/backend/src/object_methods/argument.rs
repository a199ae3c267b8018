use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Expr, FnArg, Receiver, ReceiverKind, Type};

use super::self_type::{SelfType, wrapper};
use crate::mistakes::Mistakes;
use crate::signature::default::Defaulted;
use crate::signature::passing;
pub(super) use crate::signature::passing::Passing;
use crate::signature::{self, Subject, without_group};

/// A parameter of a method, including `self`.
pub(super) struct Argument {
    pub(super) name: String,
    /// The type that the argument is converted to.
    pub(super) ty: TokenStream,
    /// The type as the user wrote it.
    pub(super) written: TokenStream,
    pub(super) passing: Passing,
    /// True if the type is a reference to an object of the impl's type: `&Self` or `&ObjRef<Self>`.
    pub(super) is_object: bool,
    /// True if the type is written as an `Option`.
    is_option: bool,
    pub(super) default: Option<Expr>,
}

impl Defaulted for Argument {
    fn name(&self) -> &str {
        &self.name
    }

    fn written(&self) -> TokenStream {
        self.written.clone()
    }

    fn is_option(&self) -> bool {
        self.is_option
    }

    fn default(&mut self) -> &mut Option<Expr> {
        &mut self.default
    }
}

impl Argument {
    /// Reads the parameter at `index`. Returns `None` if it is not supported, which was reported.
    pub(super) fn parse(input: &FnArg, index: usize, self_type: &SelfType, mistakes: &mut Mistakes) -> Option<Self> {
        let input = match input {
            FnArg::Receiver(receiver) => return receiver_argument(receiver, self_type, mistakes),
            FnArg::Typed(input) => input,
        };
        let has_default = input.attrs.iter().any(|attribute| attribute.path().is_ident("default"));
        let (ty, passing) = converted(&input.ty, has_default, self_type);
        if passing == Passing::Value {
            signature::check_parameter(&input.ty, mistakes);
        }
        let parameter = signature::parameter(input, Subject::Method, mistakes)?;
        let is_this = index == 0 && parameter.name == "this";
        let is_object = is_object(&input.ty, self_type);
        if is_this && !(is_object || self_type.is_reference(&input.ty)) {
            mistakes.at(
                &input.ty,
                "a first parameter called `this` is the object that the method is called on: write `this: &ObjRef<Self>`, or use \
                 another name",
            );
            return None;
        }
        let name = if is_this { "self".to_owned() } else { parameter.name };
        let default = parameter.default;
        if is_this && default.is_some() {
            mistakes.at(input, "the object that a method is called on has no default; remove #[default(...)]");
        }
        let is_option = signature::default::is_option(&input.ty);
        Some(Self { name, ty, written: input.ty.to_token_stream(), passing, is_object, is_option, default })
    }

    /// Returns true if this argument is the receiver. No other parameter can be named `self`.
    pub(super) fn is_self(&self) -> bool {
        self.name == "self"
    }
}

/// The type that a parameter is converted to, and the way it is passed. A default value is stored
/// in a counted reference.
fn converted(ty: &Type, has_default: bool, self_type: &SelfType) -> (TokenStream, Passing) {
    if let Type::Reference(reference) = without_group(ty)
        && reference.mutability.is_none()
    {
        let content = without_group(&reference.elem);
        match wrapper(content) {
            _ if self_type.is(content) && has_default => {
                return (quote!(__k::ObjRef<#content>), Passing::CountedObject);
            }
            _ if self_type.is(content) => return (quote!(__k::Borrowed<'_, #content>), Passing::Object),
            Some(("ObjRef", inner)) if self_type.is(inner) && !has_default => {
                return (quote!(__k::Borrowed<'_, #inner>), Passing::Reference);
            }
            Some(("ObjRef", _)) => return (content.to_token_stream(), Passing::CountedReference),
            _ => {}
        }
    }
    passing::converted(ty, has_default)
}

/// Returns true if a type is `&Self` or `&ObjRef<Self>`.
fn is_object(ty: &Type, self_type: &SelfType) -> bool {
    matches!(without_group(ty), Type::Reference(reference) if reference.mutability.is_none()
        && (self_type.is(&reference.elem) || self_type.is_reference(&reference.elem)))
}

fn receiver_argument(receiver: &Receiver, self_type: &SelfType, mistakes: &mut Mistakes) -> Option<Argument> {
    const READ_ONLY: &str = "others hold references to the object, so a method takes `&self`; to change a field, make it a \
                             `Field<T>` or an atomic; #[skip] keeps the function for Rust alone";
    const NO_REFERENCE: &str =
        "stable Rust has no `self` of this type; write `this: &ObjRef<Self>` as the first parameter";
    match &receiver.kind {
        ReceiverKind::Reference(_, _, None) => {}
        ReceiverKind::Reference(..) => {
            mistakes.at(receiver, format_args!("`&mut self` is not supported: {READ_ONLY}"));
            return None;
        }
        ReceiverKind::Typed(_, ty) => match without_group(ty) {
            Type::Reference(reference) if reference.mutability.is_none() && self_type.is(&reference.elem) => {}
            Type::Reference(reference) if self_type.is_reference(&reference.elem) => {
                mistakes.at(receiver, NO_REFERENCE);
                return None;
            }
            ty if self_type.is_reference(ty) => {
                mistakes.at(receiver, NO_REFERENCE);
                return None;
            }
            _ => {
                mistakes.at(receiver, format_args!("this kind of `self` is not supported: {READ_ONLY}"));
                return None;
            }
        },
        _ => {
            mistakes.at(receiver, format_args!("`self` by value is not supported: {READ_ONLY}"));
            return None;
        }
    }
    let path = &self_type.path;
    Some(Argument {
        name: "self".to_owned(),
        ty: quote!(__k::Borrowed<'_, #path>),
        written: receiver.self_token.to_token_stream(),
        passing: Passing::Object,
        is_object: true,
        is_option: false,
        default: None,
    })
}
