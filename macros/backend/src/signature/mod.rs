//! Signatures of functions that other languages call, both free functions and methods: reports
//! types that cannot cross the ABI, and generates the conversions of arguments.

mod conversion;
pub(crate) mod declared;
pub(crate) mod default;
pub(crate) mod passing;
pub(crate) mod role;
mod types;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, FnArg, GenericParam, Generics, Pat, PatType, ReturnType, Safety, Signature, Token, Type};

use crate::mistakes::Mistakes;
use crate::name::plain;
pub(crate) use conversion::{inside, parameter_info};
pub(crate) use types::{check_parameter, check_result, without_group};

/// The ABI counts arguments in an i32, but a longer signature is not readable.
const MAX_PARAMETERS: usize = 64;

/// The kind of the exported item, for messages.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    Function,
    Method,
}

impl Subject {
    fn noun(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Method => "method",
        }
    }

    /// A suggestion for a function that cannot be exported.
    fn otherwise(self) -> &'static str {
        match self {
            Self::Function => "",
            Self::Method => "; #[skip] keeps the function for Rust alone",
        }
    }

    /// Returns the reason why a signature cannot be generic.
    fn one_signature(self) -> &'static str {
        match self {
            Self::Function => "an exported symbol has one signature",
            Self::Method => "a method has one signature for all languages",
        }
    }
}

/// A parameter that a caller in another language passes.
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// The value of an omitted argument.
    pub(crate) default: Option<Expr>,
}

impl default::Defaulted for Parameter {
    fn name(&self) -> &str {
        &self.name
    }

    fn written(&self) -> TokenStream {
        self.ty.to_token_stream()
    }

    fn is_option(&self) -> bool {
        default::is_option(&self.ty)
    }

    fn default(&mut self) -> &mut Option<Expr> {
        &mut self.default
    }
}

/// Reports everything before and after the parameters that cannot be exported.
pub(crate) fn check_signature(signature: &Signature, subject: Subject, mistakes: &mut Mistakes) {
    check_qualifiers(signature, mistakes);
    check_generics(&signature.generics, subject, mistakes);
}

/// Returns the checked type of the result. `None` if the function returns nothing.
pub(crate) fn result(output: &ReturnType, mistakes: &mut Mistakes) -> Option<Type> {
    match output {
        ReturnType::Default => None,
        ReturnType::Type(_, ty) => {
            check_result(ty, mistakes);
            Some((**ty).clone())
        }
    }
}

/// Reports a signature that is too long.
pub(crate) fn check_count(inputs: &Punctuated<FnArg, Token![,]>, mistakes: &mut Mistakes) {
    if let Some(first_too_many) = inputs.iter().nth(MAX_PARAMETERS) {
        mistakes.at(
            first_too_many,
            format_args!("more than {MAX_PARAMETERS} parameters are not supported; pass an Array, a Map or an object"),
        );
    }
}

fn check_qualifiers(signature: &Signature, mistakes: &mut Mistakes) {
    if let Some(token) = &signature.asyncness {
        mistakes
            .at(token, "async functions are not supported; wait for the result inside of a function that is not async");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        mistakes.at(
            token,
            "unsafe functions are not supported: callers in other languages cannot uphold a contract; \
             check the arguments and make the function safe",
        );
    }
    if let Some(abi) = &signature.abi {
        mistakes
            .at(abi, "extern functions are not supported: the entry point with the C ABI is generated; remove this");
    }
    if let Some(variadic) = &signature.variadic {
        mistakes.at(
            variadic,
            "variadic functions are not supported; take a `Vec<Any>`, or register a `Function::from_packed` closure",
        );
    }
}

fn check_generics(generics: &Generics, subject: Subject, mistakes: &mut Mistakes) {
    let (reason, noun, otherwise) = (subject.one_signature(), subject.noun(), subject.otherwise());
    for parameter in &generics.params {
        match parameter {
            GenericParam::Lifetime(_) => {}
            GenericParam::Type(parameter) => mistakes.at(
                parameter,
                format_args!(
                    "type parameters are not supported: {reason}; write one {noun} for each `{}`, or take `Any`{otherwise}",
                    parameter.ident
                ),
            ),
            GenericParam::Const(parameter) => mistakes.at(
                parameter,
                format_args!(
                    "const parameters are not supported: {reason}; make `{}` an ordinary parameter{otherwise}",
                    parameter.ident
                ),
            ),
        }
    }
}

/// Reports attributes that change how a function may be called.
pub(crate) fn check_attributes(attributes: &[Attribute], mistakes: &mut Mistakes) {
    for attribute in attributes {
        if attribute.path().is_ident("target_feature") {
            mistakes.at(
                attribute,
                "functions with #[target_feature] are not supported: callers do not check the CPU; \
                 call it from a function that asks `is_x86_feature_detected!`",
            );
        }
    }
}

/// Reads a parameter other than `self`. Returns `None` if it has no name, which was reported.
/// [`check_parameter`] checks its type.
pub(crate) fn parameter(parameter: &PatType, subject: Subject, mistakes: &mut Mistakes) -> Option<Parameter> {
    for attribute in &parameter.attrs {
        if attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr") {
            mistakes.at(
                attribute,
                format_args!(
                    "conditional parameters are not supported: {}; write two {}s and put #[cfg] on these",
                    subject.one_signature(),
                    subject.noun()
                ),
            );
        }
    }
    let default = default::default(parameter, mistakes);
    match &*parameter.pat {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            Some(Parameter { name: plain(&pattern.ident), ty: (*parameter.ty).clone(), default })
        }
        Pat::Wild(pattern) => {
            mistakes.at(pattern, "parameters need a name for callers to see; write a name, as in `_unused`");
            None
        }
        pattern => {
            mistakes.at(pattern, "patterns are not supported as parameters; write a name and take it apart inside");
            None
        }
    }
}
