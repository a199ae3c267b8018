use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use super::function::PackedFunction;
use super::options::Options;
use crate::lifetime;
use crate::name::{SYMBOL_PREFIX, claim_function_name};
use crate::options::CratePath;
use crate::signature::role::FunctionRole;
use crate::signature::{self, default, inside, passing};

/// Generates the items after the function.
///
/// Generated names have a prefix, because the user's own names are looked up in the same block. No
/// expression of the user is inside an `unsafe` block.
pub(super) fn generate(function: &PackedFunction, options: &Options, crate_name: &str) -> TokenStream {
    let PackedFunction { ident, exported_name, doc, conditions, .. } = function;
    let krate = &options.krate;
    let here = ident.span();
    let claim = claim_function_name(exported_name, here);
    let global_name = global_name(function, options, crate_name);
    let parameters = function.parameters.iter().enumerate().map(|(index, parameter)| {
        signature::parameter_info(&parameter.name, &argument_type(function, index), &parameter.ty)
    });
    let result = match &function.parallel {
        Some(parallel) => parallel.result(krate),
        None => function.result.as_ref().map_or_else(|| quote!(()), |ty| lifetime::elide(ty.to_token_stream())),
    };
    let file = quote_spanned!(here=> ::core::file!());
    let line = quote_spanned!(here=> ::core::line!());
    let count = function.parameters.len();
    let role = if function.is_constant { FunctionRole::Constant } else { FunctionRole::Function };
    let defaults = default::fields(function.defaults(), function.kinds.as_deref(), role);
    let bits = default::optional(function.defaults());
    let optional = (bits != 0).then(|| quote!(, #bits));
    let body = body(function, krate, &result);
    let call_symbol = format!("{SYMBOL_PREFIX}{exported_name}");
    let metadata_symbol = format!("{SYMBOL_PREFIX}_metadata_{exported_name}");
    let has_doc = !doc.is_empty() || function.parallel.is_some();
    let doc = match &function.parallel {
        Some(parallel) => doc.with_paragraph(&parallel.doc(&function.parameters)),
        None => doc.to_token_stream(),
    };
    let doc_symbol = has_doc.then(|| format!("{SYMBOL_PREFIX}_doc_{exported_name}"));
    let detach = match options.detach.or(options.parallel.then_some(true)) {
        Some(detach) => quote!(::core::option::Option::Some(#detach)),
        None => quote!(::core::option::Option::None),
    };
    let symbols = [call_symbol, metadata_symbol].into_iter().chain(doc_symbol);
    quote! {
        #(#conditions)*
        #claim
        #(#conditions)*
        #[allow(deprecated)]
        const _: () = {
            use #krate::__private_v0_1 as __k;
            #[allow(unused_imports)]
            use __k::NoSchema as _;

            #[__k::linkme::distributed_slice(__k::KERNPACK_FUNCTIONS_V1)]
            #[linkme(crate = __k::linkme)]
            static __KERNPACK_FUNCTION: __k::FunctionInfo = __k::FunctionInfo {
                name: #exported_name,
                global_name: #global_name,
                doc: #doc,
                params: &[#(#parameters),*],
                #defaults
                ret: <#result as __k::IntoReturn>::TYPE,
                call: __kernpack_call,
                detach: #detach,
                crate_name: #crate_name,
                file: #file,
                line: #line,
            };

            #body

            __k::packed_function!(__KERNPACK_FUNCTION, __kernpack_call = __kernpack_body(#count #optional) #(, #symbols)*);
        };
    }
}

/// Returns `<crate>.<name>`, or the exported name itself if it already has a namespace.
fn global_name(function: &PackedFunction, options: &Options, crate_name: &str) -> TokenStream {
    if !options.global {
        return quote!(::core::option::Option::None);
    }
    let exported_name = &function.exported_name;
    let name = match exported_name.contains('.') {
        true => exported_name.clone(),
        false => format!("{crate_name}.{exported_name}"),
    };
    quote!(::core::option::Option::Some(#name))
}

/// Returns the type that an argument is converted to.
fn argument_type(function: &PackedFunction, index: usize) -> TokenStream {
    let parameter = &function.parameters[index];
    match &function.parallel {
        Some(parallel) => parallel.argument(index, parameter),
        None => lifetime::elide(passing::converted(&parameter.ty, parameter.default.is_some()).0),
    }
}

/// Generates the safe function that converts the arguments, calls the user's function and converts
/// its result.
fn body(function: &PackedFunction, krate: &CratePath, result: &TokenStream) -> TokenStream {
    let ident = &function.ident;
    let count = function.parameters.len();
    let args = Ident::new("args", Span::mixed_site());
    let given = Ident::new("given", Span::mixed_site());
    let place = Ident::new("place", Span::mixed_site());
    let locals: Vec<Ident> = function
        .parameters
        .iter()
        .enumerate()
        .map(|(index, parameter)| Ident::new(&format!("__arg{index}"), inside(&parameter.ty)))
        .collect();
    let conversions = function.parameters.iter().zip(&locals).enumerate().map(|(index, (parameter, local))| {
        let conversion = match &function.parallel {
            Some(parallel) => parallel.conversion(index, parameter, &args),
            None => {
                let ty = argument_type(function, index);
                quote_spanned!(inside(&parameter.ty)=> __k::arg::<#ty>(&__KERNPACK_FUNCTION, #args, #index))
            }
        };
        // Errors about the type are shown at the type.
        let converted = quote_spanned! {inside(&parameter.ty)=>
            // SAFETY: each argument is converted once, and the result lives in this call.
            unsafe { #conversion }?
        };
        match &parameter.default {
            None => quote!(let #local = #converted;),
            Some(default) => {
                let ty = argument_type(function, index);
                quote!(let #local: #ty = if #given & (1u64 << #index) != 0 { #converted } else { #default };)
            }
        }
    });
    let call = match &function.parallel {
        None if function.is_constant => quote!(<#result as __k::IntoReturn>::into_return_at(#ident, #place)),
        Some(parallel) => parallel.run(ident, &function.parameters, &locals, function.result.as_ref(), &place),
        None => {
            let passed = function.parameters.iter().zip(&locals).map(|(parameter, local)| {
                let (_, passing) = passing::converted(&parameter.ty, parameter.default.is_some());
                let local = quote_spanned!(inside(&parameter.ty)=> #local);
                passing.pass(&local)
            });
            quote!(<#result as __k::IntoReturn>::into_return_at(#ident(#(#passed),*), #place))
        }
    };
    let has_defaults = function.defaults().any(|default| default.is_some());
    let given = has_defaults.then(|| quote!(, #given: ::core::primitive::u64));
    quote! {
        #[inline]
        fn __kernpack_body<'a>(#args: &'a [#krate::AnyView<'a>; #count], #place: __k::ResultPlace #given) -> #krate::Result<__k::TVMFFIAny> {
            #(#conversions)*
            #call
        }
    }
}
