use proc_macro2::TokenStream;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, FnArg, ForeignItemFn, GenericParam, Generics, Ident, Item, ItemFn, Pat, PatType, Receiver, ReturnType,
    Safety, Signature, Token, Type,
};

use super::options::Options;
use super::types;
use crate::doc::Doc;
use crate::mistakes::Mistakes;
use crate::name::{function_name_fault, plain};

/// The ABI counts arguments in an i32, but nobody reads a signature longer than this.
const MAX_PARAMETERS: usize = 64;

/// A function that can be exported.
pub(super) struct PackedFunction {
    pub(super) ident: Ident,
    pub(super) exported_name: String,
    pub(super) doc: Doc,
    /// `#[cfg]` attributes, which the generated items need as well.
    pub(super) conditions: Vec<Attribute>,
    pub(super) parameters: Vec<Parameter>,
    /// `None`: returns nothing.
    pub(super) result: Option<Type>,
}

pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) ty: Type,
}

impl PackedFunction {
    /// Reads the item and reports everything that can not be exported. `None` only if a mistake was reported.
    pub(super) fn parse(item: TokenStream, options: &Options, mistakes: &mut Mistakes) -> Option<Self> {
        let Ok(item) = syn::parse2::<ItemFn>(item.clone()) else {
            not_a_function(item, mistakes);
            return None;
        };
        check_qualifiers(&item.sig, mistakes);
        check_generics(&item.sig.generics, mistakes);
        check_attributes(&item.attrs, mistakes);
        let parameters = parameters(item.sig.inputs, mistakes);
        let result = match item.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, ty) => {
                types::check_result(&ty, mistakes);
                Some(*ty)
            }
        };
        let ident = item.sig.ident;
        let exported_name = match &options.name {
            Some(name) => name.value(),
            None => {
                let name = plain(&ident);
                if let Some(fault) = function_name_fault(&name) {
                    mistakes.at(&ident, format_args!("{fault}; `name = \"...\"` sets the exported name"));
                }
                name
            }
        };
        let conditions = item.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect();
        Some(Self { ident, exported_name, doc: Doc::of(&item.attrs), conditions, parameters, result })
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
            "unsafe functions are not supported: callers in other languages can not uphold a contract; \
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

fn check_generics(generics: &Generics, mistakes: &mut Mistakes) {
    for parameter in &generics.params {
        match parameter {
            GenericParam::Lifetime(_) => {}
            GenericParam::Type(parameter) => mistakes.at(
                parameter,
                format_args!(
                    "type parameters are not supported: an exported symbol has one signature; \
                     write one function for each `{}`, or take `Any`",
                    parameter.ident
                ),
            ),
            GenericParam::Const(parameter) => mistakes.at(
                parameter,
                format_args!(
                    "const parameters are not supported: an exported symbol has one signature; \
                     make `{}` an ordinary parameter",
                    parameter.ident
                ),
            ),
        }
    }
}

fn check_attributes(attributes: &[Attribute], mistakes: &mut Mistakes) {
    for attribute in attributes {
        if attribute.path().is_ident("target_feature") {
            mistakes.at(
                attribute,
                "functions with #[target_feature] are not supported: callers do not check the CPU; \
                 call it from a function that asks `is_x86_feature_detected!`",
            );
        }
        if attribute.path().segments.last().is_some_and(|segment| segment.ident == "packed_func") {
            mistakes.at(attribute, "a second #[packed_func] is not supported; keep one");
        }
    }
}

fn parameters(inputs: Punctuated<FnArg, Token![,]>, mistakes: &mut Mistakes) -> Vec<Parameter> {
    if let Some(first_too_many) = inputs.iter().nth(MAX_PARAMETERS) {
        mistakes.at(
            first_too_many,
            format_args!("more than {MAX_PARAMETERS} parameters are not supported; pass an Array, a Map or an object"),
        );
    }
    let mut parameters = Vec::new();
    for input in inputs {
        match input {
            FnArg::Receiver(receiver) => self_parameter(&receiver, mistakes),
            FnArg::Typed(parameter) => parameters.extend(typed_parameter(parameter, mistakes)),
        }
    }
    parameters
}

fn self_parameter(receiver: &Receiver, mistakes: &mut Mistakes) {
    mistakes.at(
        receiver,
        "`self` is not supported: methods are no packed functions yet; \
         use a function outside of the impl that takes an `ObjRef` of the type",
    );
}

fn typed_parameter(parameter: PatType, mistakes: &mut Mistakes) -> Option<Parameter> {
    for attribute in &parameter.attrs {
        if attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr") {
            mistakes.at(
                attribute,
                "conditional parameters are not supported: an exported symbol has one signature; \
                 write two functions and put #[cfg] on these",
            );
        }
    }
    types::check_parameter(&parameter.ty, mistakes);
    match *parameter.pat {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            Some(Parameter { name: plain(&pattern.ident), ty: *parameter.ty })
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

/// Says what to use for an item that is not a function with a body.
fn not_a_function(item: TokenStream, mistakes: &mut Mistakes) {
    if let Ok(function) = syn::parse2::<ForeignItemFn>(item.clone()) {
        mistakes.at(
            function.sig,
            "functions without a body are not supported; write a function that calls this one, \
             and for kernels in C use `kernpack_build::Library::c` in build.rs",
        );
        return;
    }
    const ONLY: &str = "#[packed_func] is supported only on free functions";
    match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Struct(item)) => mistakes.at(item.ident, format_args!("{ONLY}; use #[derive(Object)] on a struct")),
        Ok(Item::Impl(item)) => mistakes.at(
            item.self_ty,
            format_args!("{ONLY}: methods are no packed functions yet; write a function outside of the impl"),
        ),
        Ok(Item::Mod(item)) => mistakes.at(item.ident, format_args!("{ONLY}; put it on each function of the module")),
        Ok(Item::Enum(item)) => mistakes.at(item.ident, format_args!("{ONLY}; export functions that take integers")),
        Ok(Item::Trait(item)) => {
            mistakes.at(item.ident, format_args!("{ONLY}; write a function that calls the method"))
        }
        _ => mistakes.at(item, format_args!("{ONLY}; write `fn name(parameter: Type) -> Type {{ ... }}`")),
    }
}
