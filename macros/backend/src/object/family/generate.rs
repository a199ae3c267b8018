//! Code generation for an enum with data: the layout, the definitions of the parent and of each
//! variant, and the impls.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use super::super::attributes::StructuralKind;
use super::super::definition::Fingerprint;
use super::super::generate::{conversions, thread_safety};
use super::{Family, FamilyVariant};
use crate::doc::Doc;
use crate::name::claim_type_key;

impl Family {
    /// Generates the impls, the reflection data and the registration.
    pub(in super::super) fn generate(&self, crate_name: &str) -> TokenStream {
        let Self { ident, key, attributes, variants, .. } = self;
        let conversions = conversions(ident, key);
        let krate = &attributes.krate;
        let here = ident.span();
        let claims = variants.iter().map(|variant| claim_type_key(&variant.key, variant.ident.span()));
        let claims = [claim_type_key(key, here)].into_iter().chain(claims);
        let object_layout = quote_spanned!(here=> const _: () = __k::assert_object_layout::<#ident>(););
        let threads = thread_safety(ident, variants.iter().flat_map(|variant| &variant.layout).map(|(_, ty)| ty));
        let layout = self.layout();
        let parent = self.parent_definition(crate_name);
        let definitions = (0..variants.len()).map(|at| self.variant_definition(at, crate_name));
        let statics: Vec<Ident> = (0..variants.len()).map(static_of).collect();
        let names: Vec<&Ident> = variants.iter().map(|variant| &variant.ident).collect();
        let duplicate = self.duplicate();
        let visits = self.visits();
        quote! {
            #(#claims)*
            #[allow(deprecated)]
            const _: () = {
                use #krate::__private_v0_1 as __k;
                #[allow(unused_imports)]
                use __k::{NoClone as _, NoConvert as _, NoSchema as _, NoSetter as _, NotThreadSafe as _};

                #object_layout
                #threads
                #layout

                #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
                #[linkme(crate = __k::linkme)]
                static __KERNPACK_TYPE: __k::TypeDef = #parent;

                #(#definitions)*

                // SAFETY: layout and alignment are checked above. An object's index is that of its
                // variant's definition, which describes the layout of that variant; the definitions
                // are those of all variants.
                unsafe impl #krate::Object for #ident {
                    const TYPE_KEY: &'static ::core::primitive::str = #key;
                    type Parent = __k::ObjectRoot;
                    const CREATABLE: ::core::primitive::bool = false;
                    const FINAL: ::core::primitive::bool = true;
                    const DUPLICATE: ::core::option::Option<fn(&#ident) -> #ident> = #duplicate;
                    const VARIANTS: ::core::option::Option<&'static [&'static __k::TypeDef]> =
                        ::core::option::Option::Some(&[#(&#statics),*]);

                    #[inline]
                    fn type_index() -> ::core::primitive::i32 {
                        __k::type_index_of(&__KERNPACK_TYPE)
                    }

                    fn type_def() -> ::core::option::Option<&'static __k::TypeDef> {
                        ::core::option::Option::Some(&__KERNPACK_TYPE)
                    }

                    #[inline]
                    fn index_of(&self) -> ::core::primitive::i32 {
                        match self {
                            #(Self::#names { .. } => __k::type_index_of(&#statics),)*
                        }
                    }
                }

                #conversions
                #visits
            };
        }
    }

    /// Generates the layout that Rust gives an enum with `#[repr(C, u32)]`, as structs whose
    /// offsets can be computed.
    fn layout(&self) -> TokenStream {
        let ident = &self.ident;
        let structs = self.variants.iter().enumerate().map(|(at, variant)| {
            let name = struct_of(at);
            let (fields, types): (Vec<_>, Vec<_>) = variant.layout.iter().map(|(field, ty)| (field, ty)).unzip();
            quote! {
                #[repr(C)]
                #[allow(dead_code)]
                struct #name {
                    #(#fields: #types,)*
                }
            }
        });
        let members = (0..self.variants.len()).map(|at| (format_ident!("variant{at}"), struct_of(at)));
        let members = members.map(|(member, ty)| quote!(#member: ::core::mem::ManuallyDrop<#ty>));
        quote! {
            #(#structs)*

            #[repr(C)]
            #[allow(dead_code)]
            union __KernpackVariants {
                #(#members,)*
            }

            #[repr(C)]
            #[allow(dead_code)]
            struct __KernpackLayout {
                tag: ::core::primitive::u32,
                variants: __KernpackVariants,
            }

            const _: () = ::core::assert!(
                ::core::mem::size_of::<__KernpackLayout>() == ::core::mem::size_of::<#ident>()
                    && ::core::mem::align_of::<__KernpackLayout>() == ::core::mem::align_of::<#ident>()
            );
        }
    }

    fn parent_definition(&self, crate_name: &str) -> TokenStream {
        let Self { ident, key, attributes, doc, fingerprint, .. } = self;
        let child_slots = self.variants.len() as i32;
        let parts = Parts {
            key,
            doc,
            at: ident.span(),
            parent: quote!(parent: __k::parent_index::<#ident>, parent_def: __k::parent_def::<#ident>),
            child_slots,
            structural: attributes.structural,
            is_final: false,
            content: quote!(fields: &[], hidden: &[], tensor_hooks: ::core::option::Option::None),
            create: quote!(create: ::core::option::Option::None, copy: ::core::option::Option::None),
            init: false,
            fingerprint,
        };
        self.definition(&parts, crate_name)
    }

    /// Generates the registration of one variant, and the types that represent it and its fields.
    fn variant_definition(&self, at: usize, crate_name: &str) -> TokenStream {
        let Self { ident, attributes, variants, .. } = self;
        let FamilyVariant { ident: variant, key, doc, fields, hidden, .. } = &variants[at];
        let (name, definition) = (variant_of(at), static_of(at));
        let mut markers = TokenStream::new();
        for (index, field) in fields.iter().enumerate() {
            markers.extend(field.marker(&marker_of(at, index), &name, index, &offset_of(at, &field.ident)));
        }
        let tag = at as u32;
        let types = fields.iter().map(|field| &field.ty);
        let fields = fields.iter().enumerate().map(|(index, field)| field.definition(&marker_of(at, index)));
        // Objects created by other languages must not lack hidden fields.
        let create = attributes.create && hidden.iter().all(|field| field.default.is_some());
        let mut fingerprint = Fingerprint::new();
        for (field, ty) in &variants[at].layout {
            fingerprint.add(field);
            fingerprint.add(ty);
        }
        let creator = quote!(__k::create_of::<#name>(#create));
        let copy = match attributes.create {
            true => quote!(__k::copy_of::<#ident>()),
            false => quote!(::core::option::Option::None),
        };
        let hidden = hidden.iter().map(|field| field.definition(&offset_of(at, &field.ident)));
        let parts = Parts {
            key,
            doc,
            at: variant.span(),
            parent: quote!(parent: __k::family_index::<#ident>, parent_def: __k::family_def::<#ident>),
            child_slots: 0,
            structural: variants[at].structural,
            is_final: true,
            content: quote! {
                fields: &[#(#fields),*],
                hidden: &[__k::tag_def::<#tag>(), #(#hidden),*],
                tensor_hooks: __k::tensor_hooks(&[#(__k::SchemaOf::<#types>::TYPE),*])
            },
            create: quote!(create: #creator, copy: #copy),
            init: attributes.has_generated_init(),
            fingerprint: &fingerprint,
        };
        let type_def = self.definition(&parts, crate_name);
        quote! {
            struct #name;

            // SAFETY: the definition is made of the fields of this variant of the enum.
            unsafe impl __k::Defined for #name {
                type Body = #ident;

                #[inline]
                fn type_def() -> &'static __k::TypeDef {
                    &#definition
                }
            }

            #markers

            #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
            #[linkme(crate = __k::linkme)]
            static #definition: __k::TypeDef = #type_def;
        }
    }

    fn definition(&self, parts: &Parts<'_>, crate_name: &str) -> TokenStream {
        let Self { ident, .. } = self;
        let Parts { key, doc, at, parent, child_slots, structural, is_final, content, create, init, fingerprint } =
            parts;
        let structural = structural.constant();
        let file = quote_spanned!(*at=> ::core::file!());
        let line = quote_spanned!(*at=> ::core::line!());
        quote! {
            __k::TypeDef {
                key: #key,
                #parent,
                doc: #doc,
                size: ::core::mem::size_of::<__k::ObjectCell<#ident>>(),
                child_slots: #child_slots,
                structural_kind: __k::seq_hash_kind::#structural,
                is_final: #is_final,
                #content,
                #create,
                generated_init: __k::generated_init(#init),
                fingerprint: #fingerprint,
                index: __k::TypeIndexCell::new(),
                crate_name: #crate_name,
                file: #file,
                line: #line,
            }
        }
    }

    /// Generates the code that copies a value: `Clone` if the enum has it, otherwise field by
    /// field.
    fn duplicate(&self) -> TokenStream {
        let ident = &self.ident;
        let arms = self.variants.iter().enumerate().map(|(at, variant)| {
            let name = &variant.ident;
            let bindings = variant.bindings();
            let registered = variant.fields.iter().enumerate().map(|(index, field)| {
                let (field, marker, binding) = (&field.ident, marker_of(at, index), variant.binding(&field.ident));
                quote!(#field: __k::duplicate_field::<#marker>(#binding))
            });
            let hidden = variant.hidden.iter().map(|field| {
                let (ty, field, binding) = (&field.ty, &field.ident, variant.binding(&field.ident));
                quote! {
                    #field: match __k::CloneOf::<#ty>::FN {
                        ::core::option::Option::Some(clone) => clone(#binding),
                        ::core::option::Option::None => ::core::unreachable!(),
                    }
                }
            });
            quote!(#ident::#name { #bindings } => #ident::#name { #(#registered,)* #(#hidden,)* })
        });
        let hidden = self.variants.iter().flat_map(|variant| &variant.hidden).map(|field| &field.ty);
        quote! {{
            fn by_fields(value: &#ident) -> #ident {
                match value {
                    #(#arms,)*
                }
            }
            __k::duplicate_of(__k::CloneOf::<#ident>::FN, true #(&& __k::CloneOf::<#hidden>::FN.is_some())*, by_fields)
        }}
    }

    fn visits(&self) -> TokenStream {
        let Self { ident, attributes, .. } = self;
        let krate = &attributes.krate;
        let (shared, exclusive): (Vec<_>, Vec<_>) = self
            .variants
            .iter()
            .enumerate()
            .map(|(at, variant)| {
                let name = &variant.ident;
                let bindings = variant.bindings();
                let (shared, exclusive): (Vec<_>, Vec<_>) = variant
                    .fields
                    .iter()
                    .enumerate()
                    .map(|(index, field)| {
                        let binding = variant.binding(&field.ident);
                        let binding = quote!(#binding);
                        field.visits(&marker_of(at, index), &binding, &binding)
                    })
                    .unzip();
                (
                    quote!(Self::#name { #bindings } => { #(#shared)* }),
                    quote!(Self::#name { #bindings } => { #(#exclusive)* }),
                )
            })
            .unzip();
        quote! {
            #[allow(unused_variables)]
            impl __k::VisitAttrs for #ident {
                fn visit_attrs(&self, visitor: &mut dyn __k::AttrVisitor) -> #krate::Result<()> {
                    match self {
                        #(#shared)*
                    }
                    ::core::result::Result::Ok(())
                }

                fn visit_attrs_mut(&mut self, visitor: &mut dyn __k::AttrVisitorMut) -> #krate::Result<()> {
                    match self {
                        #(#exclusive)*
                    }
                    ::core::result::Result::Ok(())
                }
            }
        }
    }
}

/// The parts that differ between the definitions of a family.
struct Parts<'a> {
    key: &'a str,
    doc: &'a Doc,
    at: Span,
    parent: TokenStream,
    child_slots: i32,
    structural: StructuralKind,
    is_final: bool,
    content: TokenStream,
    create: TokenStream,
    init: bool,
    fingerprint: &'a Fingerprint,
}

fn struct_of(variant: usize) -> Ident {
    format_ident!("__KernpackFields{variant}")
}

fn variant_of(variant: usize) -> Ident {
    format_ident!("__KernpackVariant{variant}")
}

fn static_of(variant: usize) -> Ident {
    format_ident!("__KERNPACK_TYPE_{variant}")
}

fn marker_of(variant: usize, field: usize) -> Ident {
    format_ident!("__F{variant}_{field}")
}

fn offset_of(variant: usize, field: &Ident) -> TokenStream {
    let fields = struct_of(variant);
    quote!(::core::mem::offset_of!(__KernpackLayout, variants) + ::core::mem::offset_of!(#fields, #field))
}
