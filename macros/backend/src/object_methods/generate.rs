use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use super::block::Block;
use super::callable::{Callable, Entry};
use super::member::{Kind, Member};
use super::operator::{OF_ORDER, Operator};
use crate::options::CratePath;

/// Generates the items after the impl block.
///
/// Generated names have a prefix, because the user's own names are looked up in the same block. No
/// expression of the user is inside an `unsafe` block.
pub(super) fn generate(block: &Block, krate: &CratePath, crate_name: &str) -> TokenStream {
    let Block { self_type, conditions, members } = block;
    let path = &self_type.path;
    let here = path.span();
    let mut items = TokenStream::new();
    let mut rows = Vec::new();
    let mut number = 0;
    for member in members {
        for (entry, name) in entries(member, members) {
            let row = match &member.kind {
                Kind::Constant(ty) => {
                    items.extend(constant(member, &self_type.resolve(ty.clone()), block, krate, number));
                    constant_row(member, number)
                }
                Kind::Method(signature)
                | Kind::Init(signature)
                | Kind::Getter(signature)
                | Kind::Setter(signature)
                | Kind::Operator(_, signature)
                | Kind::Comparison(_, signature)
                | Kind::ClassMethod(signature)
                | Kind::ClassConstant(signature)
                | Kind::Hook(signature) => {
                    let callable = Callable { member, signature, entry, name, number };
                    items.extend(callable.items(self_type, krate, crate_name));
                    row(&callable)
                }
            };
            let conditions = &member.conditions;
            rows.push(quote!(#(#conditions)* #row));
            number += 1;
        }
    }
    let init = members.iter().find(|member| matches!(member.kind, Kind::Init(_))).map(|member| {
        let conditions = &member.conditions;
        // Two blocks of one type with a constructor each are two impls of this, which the compiler
        // rejects.
        quote_spanned!(member.ident.span()=> #(#conditions)* impl __k::HasConstructor for #path {})
    });
    let file = quote_spanned!(here=> ::core::file!());
    let line = quote_spanned!(here=> ::core::line!());
    quote! {
        #(#conditions)*
        #[allow(deprecated)]
        const _: () = {
            use #krate::__private_v0_1 as __k;
            #[allow(unused_imports)]
            use __k::NoSchema as _;

            const __KERNPACK_KEY: &::core::primitive::str = <#path as __k::Object>::TYPE_KEY;

            #items
            #init

            #[__k::linkme::distributed_slice(__k::KERNPACK_METHODS_V1)]
            #[linkme(crate = __k::linkme)]
            static __KERNPACK_METHODS: __k::MethodsDef = __k::MethodsDef {
                ty: <#path as __k::Object>::type_def,
                key: __KERNPACK_KEY,
                members: &[#(#rows),*],
                crate_name: #crate_name,
                file: #file,
                line: #line,
            };
        };
    }
}

/// The entry points of a member, with their names.
fn entries<'a>(member: &'a Member, members: &[Member]) -> Vec<(Entry, &'a str)> {
    let name = member.name.as_str();
    match member.kind {
        Kind::Method(_)
        | Kind::Setter(_)
        | Kind::Hook(_)
        | Kind::Constant(_)
        | Kind::ClassMethod(_)
        | Kind::ClassConstant(_) => vec![(Entry::Function, name)],
        Kind::Init(_) => vec![(Entry::Init, name)],
        Kind::Getter(_) => vec![(Entry::Getter, name)],
        Kind::Operator(Operator::Str, _) => {
            let has_repr = members.iter().any(|member| matches!(member.kind, Kind::Operator(Operator::Repr, _)));
            let method = (Entry::Function, "__str__");
            if has_repr { vec![method] } else { vec![method, (Entry::Hook(Operator::Str), name)] }
        }
        Kind::Operator(operator, _) => vec![(Entry::Hook(operator), name)],
        Kind::Comparison(Operator::Compare, _) => {
            let is_free = |operator: &Operator| !members.iter().any(|member| member.is_operator(*operator));
            let mut all: Vec<_> = OF_ORDER.into_iter().filter(is_free).map(method).collect();
            if is_free(&Operator::Eq) {
                all.extend(equality());
            }
            all
        }
        Kind::Comparison(Operator::Eq, _) => equality().into(),
        Kind::Comparison(operator, _) => vec![method(operator)],
    }
}

/// The entry point of a comparison for Python.
fn method(operator: Operator) -> (Entry, &'static str) {
    (Entry::Comparison(operator), operator.method())
}

/// The entry points of an equality for Python and for recursive comparison.
fn equality() -> [(Entry, &'static str); 2] {
    [method(Operator::Eq), (Entry::Hook(Operator::Eq), Operator::Eq.attribute())]
}

/// Generates the table entry of an entry point.
fn row(callable: &Callable<'_>) -> TokenStream {
    let (info, call, name) = (callable.info(), callable.call(), callable.name);
    match (callable.entry, &callable.member.kind) {
        (Entry::Getter, _) => quote!(__k::MethodDef::Property { name: #name, info: &#info, getter: #call }),
        (Entry::Init, _) => quote!(__k::MethodDef::Constructor { info: &#info }),
        (Entry::Hook(operator), _) => {
            let recursion = match operator {
                Operator::Repr | Operator::Str => quote!(::core::option::Option::None),
                _ => quote!(__k::RECURSION),
            };
            quote!(__k::MethodDef::Hook { attribute: #name, info: &#info, recursion: #recursion })
        }
        (_, Kind::Hook(_)) => {
            quote!(__k::MethodDef::Hook { attribute: #name, info: &#info, recursion: ::core::option::Option::None })
        }
        (Entry::Function | Entry::Comparison(_), _) => {
            let is_static = callable.signature.is_static();
            quote!(__k::MethodDef::Method { name: #name, info: &#info, is_static: #is_static })
        }
    }
}

fn constant(member: &Member, ty: &TokenStream, block: &Block, krate: &CratePath, number: usize) -> TokenStream {
    let Member { ident, conditions, .. } = member;
    let (path, value) = (&block.self_type.path, format_ident!("__kernpack_value_{number}"));
    quote! {
        #(#conditions)*
        fn #value() -> #krate::Any {
            <#ty as #krate::IntoAny>::into_any(#path::#ident)
        }
    }
}

fn constant_row(member: &Member, number: usize) -> TokenStream {
    let (name, value) = (&member.name, format_ident!("__kernpack_value_{number}"));
    quote!(__k::MethodDef::Constant { attribute: #name, value: #value })
}
