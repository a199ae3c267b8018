use proc_macro2::TokenStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, FnArg, ForeignItemFn, Ident, Item, ItemFn, Receiver, Token, Type};

use super::options::Options;
use super::parallel::ParallelLoop;
use crate::doc::Doc;
use crate::mistakes::Mistakes;
use crate::name::{function_name_fault, plain};
use crate::signature::declared::{self, ParameterKind};
use crate::signature::{self, Parameter, Subject, default};

/// A function to export.
pub(super) struct PackedFunction {
    pub(super) ident: Ident,
    pub(super) exported_name: String,
    pub(super) doc: Doc,
    /// `#[cfg]` attributes, which the generated items need as well.
    pub(super) conditions: Vec<Attribute>,
    pub(super) parameters: Vec<Parameter>,
    /// The kinds of the parameters, if a signature declares them.
    pub(super) kinds: Option<Vec<ParameterKind>>,
    /// The result type, or `None` if the function returns nothing.
    pub(super) result: Option<Type>,
    /// The loop of a function that is called for each element or row.
    pub(super) parallel: Option<ParallelLoop>,
    /// True for a constant, which is exported as a function that returns it.
    pub(super) is_constant: bool,
}

impl PackedFunction {
    pub(super) fn defaults(&self) -> impl Iterator<Item = Option<&Expr>> {
        self.parameters.iter().map(|parameter| parameter.default.as_ref())
    }

    /// Reads the item and reports everything that cannot be exported. Returns `None` only if an
    /// error was reported.
    pub(super) fn parse(item: TokenStream, options: &Options, mistakes: &mut Mistakes) -> Option<Self> {
        let Ok(item) = syn::parse2::<ItemFn>(item.clone()) else {
            not_a_function(item, mistakes);
            return None;
        };
        signature::check_signature(&item.sig, Subject::Function, mistakes);
        check_attributes(&item.attrs, mistakes);
        let mut parameters = parameters(&item.sig.inputs, options, mistakes);
        let kinds = kinds(&mut parameters, options, mistakes);
        let result = signature::result(&item.sig.output, mistakes);
        let ident = item.sig.ident;
        let parallel = ParallelLoop::parse(&ident, &parameters, result.as_ref(), options, mistakes);
        let exported_name = exported_name(&ident, options, mistakes);
        let conditions = item.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect();
        Some(Self {
            ident,
            exported_name,
            doc: Doc::of(&item.attrs),
            conditions,
            parameters,
            kinds,
            result,
            parallel,
            is_constant: false,
        })
    }
}

impl PackedFunction {
    /// Reads a constant, which other languages get from a function without parameters. Returns
    /// `None` only if an error was reported.
    pub(super) fn parse_constant(item: TokenStream, options: &Options, mistakes: &mut Mistakes) -> Option<Self> {
        let (ident, ty, attributes) = match syn::parse2::<Item>(item.clone()) {
            Ok(Item::Const(item)) => (item.ident, *item.ty, item.attrs),
            _ => {
                mistakes.at(item, "#[constant] is supported only on `const NAME: Type = value;`");
                return None;
            }
        };
        signature::check_result(&ty, mistakes);
        if ident == "_" {
            mistakes.at(&ident, "a constant needs a name for callers to see");
        }
        let exported_name = exported_name(&ident, options, mistakes);
        let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect();
        let doc = Doc::of(&attributes);
        let (parameters, kinds, result, parallel) = (Vec::new(), None, Some(ty), None);
        Some(Self { ident, exported_name, doc, conditions, parameters, kinds, result, parallel, is_constant: true })
    }
}

fn exported_name(ident: &Ident, options: &Options, mistakes: &mut Mistakes) -> String {
    if let Some(name) = &options.name {
        return name.value();
    }
    let name = plain(ident);
    if let Some(fault) = function_name_fault(&name) {
        mistakes.at(ident, format_args!("{fault}; `name = \"...\"` sets the exported name"));
    }
    name
}

fn check_attributes(attributes: &[Attribute], mistakes: &mut Mistakes) {
    signature::check_attributes(attributes, mistakes);
    for attribute in attributes {
        if attribute.path().segments.last().is_some_and(|segment| segment.ident == "packed_func") {
            mistakes.at(attribute, "a second #[packed_func] is not supported; keep one");
        }
    }
}

fn parameters(inputs: &Punctuated<FnArg, Token![,]>, options: &Options, mistakes: &mut Mistakes) -> Vec<Parameter> {
    signature::check_count(inputs, mistakes);
    let mut parameters = Vec::new();
    for input in inputs {
        match input {
            FnArg::Receiver(receiver) => self_parameter(receiver, mistakes),
            FnArg::Typed(parameter) => {
                // The parameters of a parallel function are checked by their roles in its loop.
                if !options.parallel {
                    signature::check_parameter(&parameter.ty, mistakes);
                }
                parameters.extend(signature::parameter(parameter, Subject::Function, mistakes));
            }
        }
    }
    parameters
}

/// Returns the kinds of the parameters, if a signature declares them, and completes their defaults.
fn kinds(parameters: &mut [Parameter], options: &Options, mistakes: &mut Mistakes) -> Option<Vec<ParameterKind>> {
    let Some(signature) = &options.signature else {
        default::complete(parameters, mistakes);
        return None;
    };
    let kinds = declared::apply(signature, parameters, false, mistakes)?;
    if options.parallel && kinds.iter().any(|kind| kind.empty().is_some()) {
        mistakes.at(signature, "a parallel function does not take `*args` or `**kwargs`");
    }
    Some(kinds)
}

fn self_parameter(receiver: &Receiver, mistakes: &mut Mistakes) {
    mistakes.at(
        receiver,
        "`self` is not supported on a packed function; put #[object_methods] on the impl of the type, \
         or use a function outside of it that takes an `ObjRef` of the type",
    );
}

/// Reports an item that is not a function with a body, with advice.
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
        Ok(Item::Impl(item)) => {
            mistakes.at(item.self_ty, format_args!("{ONLY}; use #[object_methods] on the impl of an object type"))
        }
        Ok(Item::Mod(item)) => mistakes.at(item.ident, format_args!("{ONLY}; put it on each function of the module")),
        Ok(Item::Enum(item)) => mistakes.at(item.ident, format_args!("{ONLY}; export functions that take integers")),
        Ok(Item::Trait(item)) => {
            mistakes.at(item.ident, format_args!("{ONLY}; write a function that calls the method"))
        }
        _ => mistakes.at(item, format_args!("{ONLY}; write `fn name(parameter: Type) -> Type {{ ... }}`")),
    }
}
