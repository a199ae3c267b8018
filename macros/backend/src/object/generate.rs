use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::DeriveInput;

use super::definition::{Base, Definition, PublicField};
use crate::name::claim_type_key;
use crate::options::CratePath;

/// The impl, the reflection data and the registration.
pub(super) fn generate(definition: &Definition, crate_name: &str) -> TokenStream {
    let Definition { ident, key, krate, doc, base, fields, fingerprint } = definition;
    let here = ident.span();
    let claim = claim_type_key(key, here);
    let parent = match base {
        Some(Base { ty, .. }) => quote!(#ty),
        None => quote!(__k::ObjectRoot),
    };
    let layout = quote_spanned!(here=> const _: () = __k::assert_object_layout::<#ident>(););
    let base_layout = base.as_ref().map(|base| base_layout(definition, base));
    let base_access = base.as_ref().map(|base| base_access(definition, base));
    let fields = fields.iter().map(|field| field_definition(definition, field));
    let file = quote_spanned!(here=> ::core::file!());
    let line = quote_spanned!(here=> ::core::line!());
    quote! {
        #claim
        #[allow(deprecated, unsafe_code)]
        const _: () = {
            use #krate::impl_ as __k;
            #[allow(unused_imports)]
            use __k::NoSchema as _;

            #layout
            #base_layout

            #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
            #[linkme(crate = __k::linkme)]
            static __KERNPACK_TYPE: __k::TypeDef = __k::TypeDef {
                key: #key,
                parent: __kernpack_parent_index::<#ident>,
                doc: #doc,
                size: ::core::mem::size_of::<__k::ObjectCell<#ident>>(),
                fields: &[#(#fields),*],
                fingerprint: #fingerprint,
                index: __k::TypeIndexCell::new(),
                crate_name: #crate_name,
                file: #file,
                line: #line,
            };

            // Through the impl, so that a base which is no object is one error, not two.
            fn __kernpack_parent_index<T: #krate::Object>() -> ::core::primitive::i32 {
                <T::Parent as #krate::Object>::type_index()
            }

            // SAFETY: `#[repr(C)]`, alignment and the place of the base are checked above; the index is that of the
            // definition above, which describes this layout.
            unsafe impl #krate::Object for #ident {
                const TYPE_KEY: &'static ::core::primitive::str = #key;
                type Parent = #parent;

                #[inline]
                fn type_index() -> ::core::primitive::i32 {
                    __k::type_index_of(&__KERNPACK_TYPE)
                }
            }

            #base_access
        };
    }
}

fn base_layout(definition: &Definition, base: &Base) -> TokenStream {
    let ident = &definition.ident;
    let field = &base.ident;
    quote! {
        const _: () = ::core::assert!(::core::mem::offset_of!(#ident, #field) == 0);
    }
}

fn base_access(definition: &Definition, base: &Base) -> TokenStream {
    let ident = &definition.ident;
    let Base { ident: field, ty } = base;
    quote! {
        impl ::core::ops::Deref for #ident {
            type Target = #ty;

            #[inline]
            fn deref(&self) -> &Self::Target {
                &self.#field
            }
        }
    }
}

fn field_definition(definition: &Definition, field: &PublicField) -> TokenStream {
    let ident = &definition.ident;
    let PublicField { ident: field, name, ty, doc } = field;
    quote! {
        __k::FieldDef {
            name: #name,
            doc: #doc,
            ty: __k::SchemaOf::<#ty>::TYPE,
            offset: __k::OBJECT_HEADER_SIZE + ::core::mem::offset_of!(#ident, #field),
            size: ::core::mem::size_of::<#ty>(),
            align: ::core::mem::align_of::<#ty>(),
            getter: __k::field_getter::<#ty>,
        }
    }
}

/// An `Object` impl for a faulty struct. It never runs, because it comes with a `compile_error!`.
pub(super) fn stand_in(item: &DeriveInput, krate: &CratePath) -> TokenStream {
    if !item.generics.params.is_empty() {
        return TokenStream::new();
    }
    let ident = &item.ident;
    quote! {
        #[allow(unsafe_code)]
        // SAFETY: a program that holds this does not compile.
        unsafe impl #krate::Object for #ident {
            const TYPE_KEY: &'static ::core::primitive::str = "";
            type Parent = #krate::impl_::ObjectRoot;

            fn type_index() -> ::core::primitive::i32 {
                -1
            }
        }
    }
}
