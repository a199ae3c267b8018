use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{DeriveInput, Type};

use super::definition::{Base, Definition};
use super::field::RegisteredField;
use crate::name::claim_type_key;
use crate::options::CratePath;

/// Generates the impls, the reflection data and the registration.
pub(super) fn generate(definition: &Definition, crate_name: &str) -> TokenStream {
    let Definition { ident, key, attributes, base, .. } = definition;
    let krate = &attributes.krate;
    let here = ident.span();
    let claim = claim_type_key(key, here);
    let parent = match base {
        Some(Base { ty, .. }) => quote!(#ty),
        None => quote!(__k::ObjectRoot),
    };
    let layout = quote_spanned!(here=> const _: () = __k::assert_object_layout::<#ident>(););
    let base_layout = base.as_ref().map(|base| base_layout(definition, base));
    let base_access = base.as_ref().map(|base| base_access(definition, base));
    let threads = thread_safety(ident, definition.types());
    let markers = markers(definition);
    let type_def = type_def(definition, crate_name);
    let creatable = creatable(definition);
    let duplicate = duplicate(definition);
    let is_final = attributes.is_final;
    let names = field_names(definition);
    let visits = visits(definition);
    let conversions = conversions(ident, key);
    quote! {
        #claim
        #[allow(deprecated)]
        const _: () = {
            use #krate::__private_v0_1 as __k;
            #[allow(unused_imports)]
            use __k::{NoClone as _, NoConvert as _, NoSchema as _, NoSetter as _, NoVisit as _, NotThreadSafe as _};

            #layout
            #base_layout
            #threads
            #markers

            #[__k::linkme::distributed_slice(__k::KERNPACK_TYPES_V1)]
            #[linkme(crate = __k::linkme)]
            static __KERNPACK_TYPE: __k::TypeDef = #type_def;

            // SAFETY: the definition is made of this type's fields.
            unsafe impl __k::Defined for #ident {
                type Body = #ident;

                #[inline]
                fn type_def() -> &'static __k::TypeDef {
                    &__KERNPACK_TYPE
                }
            }

            // SAFETY: `#[repr(C)]`, alignment and the place of the base are checked above; the
            // index is that of the definition above, which describes this layout.
            unsafe impl #krate::Object for #ident {
                const TYPE_KEY: &'static ::core::primitive::str = #key;
                type Parent = #parent;
                const CREATABLE: ::core::primitive::bool = #creatable;
                const FINAL: ::core::primitive::bool = #is_final;
                const FIELD_NAMES: __k::FieldNames = #names;
                const DUPLICATE: ::core::option::Option<fn(&#ident) -> #ident> = #duplicate;

                #[inline]
                fn type_index() -> ::core::primitive::i32 {
                    __k::type_index_of(&__KERNPACK_TYPE)
                }

                fn type_def() -> ::core::option::Option<&'static __k::TypeDef> {
                    ::core::option::Option::Some(&__KERNPACK_TYPE)
                }
            }

            // SAFETY: a struct; the impl above leaves the rest as provided.
            unsafe impl __k::ObjectStruct for #ident {}

            #conversions
            #base_access
            #visits
        };
    }
}

/// Generates conversions: a returned value of the type becomes a new object.
pub(super) fn conversions(ident: &Ident, key: &str) -> TokenStream {
    quote! {
        impl __k::Schema for #ident {
            const TYPE: __k::TypeSchema = __k::TypeSchema::new(#key);
        }

        impl __k::IntoAny for #ident {
            fn into_any(self) -> __k::Any {
                __k::IntoAny::into_any(__k::ObjRef::new(self))
            }
        }
    }
}

/// Generates checks that a type's fields may be in an object, at their types.
pub(super) fn thread_safety<'a>(ident: &Ident, types: impl Iterator<Item = &'a Type>) -> TokenStream {
    let checks = types.map(|ty| quote!(__k::assert_object_part::<#ty, { __k::ThreadSafety::<#ident>::HOLDS }>();));
    quote!(const _: () = { #(#checks)* };)
}

fn base_layout(definition: &Definition, base: &Base) -> TokenStream {
    let ident = &definition.ident;
    let Base { ident: field, ty } = base;
    let at_type = syn::spanned::Spanned::span(ty);
    let open = quote_spanned!(at_type=> const _: () = __k::assert_open_parent::<#ident>(););
    let new_names = definition.fields.iter().map(|field| {
        let name = &field.name;
        let at_name = field.options.name.as_ref().map_or_else(|| field.ident.span(), |name| name.span());
        quote_spanned!(at_name=> const _: () = __k::assert_new_name::<#ident>(#name);)
    });
    quote! {
        const _: () = ::core::assert!(::core::mem::offset_of!(#ident, #field) == 0);
        #open
        #(#new_names)*
    }
}

/// Generates the names of the fields of the type and its ancestors, as a constant expression.
fn field_names(definition: &Definition) -> TokenStream {
    let Definition { ident, base, fields, .. } = definition;
    let own = fields.iter().map(|field| &field.name);
    let base = match base {
        Some(_) => quote!(Some(__k::parent_names::<#ident>())),
        None => quote!(None),
    };
    quote!(__k::FieldNames { own: &[#(#own),*], base: ::core::option::Option::#base })
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

/// Returns the name of the marker type of a registered field.
pub(super) fn marker(index: usize, field: &RegisteredField) -> Ident {
    format_ident!("__F{index}", span = syn::spanned::Spanned::span(&field.ty))
}

fn markers(definition: &Definition) -> TokenStream {
    let owner = &definition.ident;
    let mut markers = TokenStream::new();
    for (index, field) in definition.fields.iter().enumerate() {
        let offset = offset_of(owner, &field.ident);
        markers.extend(field.marker(&marker(index, field), owner, index, &offset));
    }
    markers
}

fn offset_of(owner: &Ident, field: &Ident) -> TokenStream {
    quote!(::core::mem::offset_of!(#owner, #field))
}

fn type_def(definition: &Definition, crate_name: &str) -> TokenStream {
    let Definition { ident, key, attributes, doc, fields, hidden, fingerprint, .. } = definition;
    let structural = attributes.structural.constant();
    let child_slots = attributes.child_slots.unwrap_or(0);
    let is_final = attributes.is_final;
    let copy = match attributes.create {
        true => quote!(__k::copy_of::<#ident>()),
        false => quote!(::core::option::Option::None),
    };
    let init = attributes.has_generated_init();
    let types = fields.iter().map(|field| &field.ty);
    let fields = fields.iter().enumerate().map(|(index, field)| field.definition(&marker(index, field)));
    let hidden = hidden.iter().map(|field| field.definition(&offset_of(ident, &field.ident)));
    let here = ident.span();
    let file = quote_spanned!(here=> ::core::file!());
    let line = quote_spanned!(here=> ::core::line!());
    quote! {
        __k::TypeDef {
            key: #key,
            parent: __k::parent_index::<#ident>,
            parent_def: __k::parent_def::<#ident>,
            doc: #doc,
            size: ::core::mem::size_of::<__k::ObjectCell<#ident>>(),
            child_slots: #child_slots,
            structural_kind: __k::seq_hash_kind::#structural,
            is_final: #is_final,
            fields: &[#(#fields),*],
            hidden: &[#(#hidden),*],
            create: __k::create_of::<#ident>(__k::is_creatable::<#ident>()),
            copy: #copy,
            generated_init: __k::generated_init(#init),
            tensor_hooks: __k::tensor_hooks(&[#(__k::SchemaOf::<#types>::TYPE),*]),
            fingerprint: #fingerprint,
            index: __k::TypeIndexCell::new(),
            crate_name: #crate_name,
            file: #file,
            line: #line,
        }
    }
}

/// Generates a constant expression that is true if another language can create an object.
fn creatable(definition: &Definition) -> TokenStream {
    // Objects created by other languages must not lack hidden fields.
    if !definition.attributes.create || definition.hidden.iter().any(|field| field.default.is_none()) {
        return quote!(false);
    }
    let ident = &definition.ident;
    let read_only = definition.fields.iter().enumerate().filter(|(_, field)| !field.options.writable);
    let set = read_only.map(|(index, field)| marker(index, field));
    quote! {
        __k::is_parent_creatable::<#ident>()
            #(&& __k::SetterOf::<#set>::FN.is_some())*
    }
}

/// Generates the code that copies a value: `Clone` if the type has it, otherwise field by field.
fn duplicate(definition: &Definition) -> TokenStream {
    let Definition { ident, base, fields, hidden, .. } = definition;
    // The parts that may not support copying: the base and the hidden fields.
    let (mut ways, mut variables, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let optional = base.iter().map(|base| (&base.ident, quote!(__k::parent_duplicate::<#ident>())));
    let optional = optional.chain(hidden.iter().map(|field| {
        let ty = &field.ty;
        (&field.ident, quote!(__k::CloneOf::<#ty>::FN))
    }));
    for (index, (field, way)) in optional.enumerate() {
        let variable = format_ident!("__way{index}");
        values.push(quote!(#field: #variable(&value.#field)));
        ways.push(way);
        variables.push(variable);
    }
    for (index, field) in fields.iter().enumerate() {
        let (marker, field) = (marker(index, field), &field.ident);
        values.push(quote!(#field: __k::duplicate_field::<#marker>(&value.#field)));
    }
    let result = quote!(#ident { #(#values),* });
    let body = if ways.is_empty() {
        result
    } else {
        quote! {
            match (#(#ways,)*) {
                (#(::core::option::Option::Some(#variables),)*) => #result,
                _ => ::core::unreachable!(),
            }
        }
    };
    let all_fields = if ways.is_empty() { quote!(true) } else { quote!(#(#ways.is_some())&&*) };
    quote! {{
        #[allow(unused_variables)]
        fn by_fields(value: &#ident) -> #ident {
            #body
        }
        __k::duplicate_of(__k::CloneOf::<#ident>::FN, #all_fields, by_fields)
    }}
}

fn visits(definition: &Definition) -> TokenStream {
    let Definition { ident, attributes, base, fields, .. } = definition;
    let krate = &attributes.krate;
    let base = base.as_ref().map(|base| {
        let Base { ident: field, ty } = base;
        [
            quote!(__k::visit_base::<#ident>(__k::VisitOf::<#ty>::SHARED, &self.#field, visitor)?;),
            quote!(__k::visit_base_mut::<#ident>(__k::VisitOf::<#ty>::EXCLUSIVE, &mut self.#field, visitor)?;),
        ]
    });
    let [base, base_mut] = base.unwrap_or_default();
    let (shared, exclusive): (Vec<_>, Vec<_>) = fields
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let marker = marker(index, field);
            let ident = &field.ident;
            field.visits(&marker, &quote!(&self.#ident), &quote!(&mut self.#ident))
        })
        .unzip();
    quote! {
        #[allow(unused_variables)]
        impl __k::VisitAttrs for #ident {
            fn visit_attrs(&self, visitor: &mut dyn __k::AttrVisitor) -> #krate::Result<()> {
                #base
                #(#shared)*
                ::core::result::Result::Ok(())
            }

            fn visit_attrs_mut(&mut self, visitor: &mut dyn __k::AttrVisitorMut) -> #krate::Result<()> {
                #base_mut
                #(#exclusive)*
                ::core::result::Result::Ok(())
            }
        }
    }
}

/// Generates the impls of a faulty struct. They never run, because they come with a
/// `compile_error!`.
pub(super) fn stand_in(item: &DeriveInput, krate: &CratePath) -> TokenStream {
    if !item.generics.params.is_empty() {
        return TokenStream::new();
    }
    let ident = &item.ident;
    quote! {
        // SAFETY: a program that holds this does not compile.
        unsafe impl #krate::Object for #ident {
            const TYPE_KEY: &'static ::core::primitive::str = "";
            type Parent = #krate::__private_v0_1::ObjectRoot;

            fn type_index() -> ::core::primitive::i32 {
                -1
            }
        }

        // SAFETY: as above.
        unsafe impl #krate::__private_v0_1::ObjectStruct for #ident {}

        impl #krate::__private_v0_1::VisitAttrs for #ident {
            fn visit_attrs(&self, _: &mut dyn #krate::__private_v0_1::AttrVisitor) -> #krate::Result<()> {
                ::core::result::Result::Ok(())
            }

            fn visit_attrs_mut(&mut self, _: &mut dyn #krate::__private_v0_1::AttrVisitorMut) -> #krate::Result<()> {
                ::core::result::Result::Ok(())
            }
        }
    }
}
