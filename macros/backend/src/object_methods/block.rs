use std::collections::HashMap;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, ItemImpl, Visibility};

use super::attributes::{Role, take};
use super::member::{Kind, Member, Place};
use super::operator::OF_ORDER;
use super::self_type::SelfType;
use crate::mistakes::Mistakes;
use crate::signature::default;

/// An impl block and its members for other languages.
pub(super) struct Block {
    pub(super) self_type: SelfType,
    /// `#[cfg]` attributes of the block.
    pub(super) conditions: Vec<Attribute>,
    pub(super) members: Vec<Member>,
}

impl Block {
    /// Returns the item without this macro's attributes, and the parsed block. `None` only if an
    /// error was reported.
    pub(super) fn parse(item: TokenStream, mistakes: &mut Mistakes) -> (TokenStream, Option<Self>) {
        let mut block = match syn::parse2::<ItemImpl>(item.clone()) {
            Ok(block) => block,
            Err(error) => {
                not_an_impl(item.clone(), error, mistakes);
                return (item, None);
            }
        };
        let self_type = Self::self_type(&block, mistakes);
        let mut members = Vec::new();
        for item in &mut block.items {
            let Some(role) = role_of(item, mistakes) else { continue };
            if let Some(self_type) = &self_type {
                members.extend(match &*item {
                    ImplItem::Fn(item) => Member::function(item, role, self_type, mistakes),
                    ImplItem::Const(item) => Member::constant(item, role, self_type, mistakes),
                    _ => None,
                });
            }
        }
        if OF_ORDER[1..].iter().any(|operator| members.iter().any(|member| member.is_operator(*operator))) {
            members = members.into_iter().map(Member::into_method).collect();
        }
        check_names(&members, mistakes);
        check_setters(&members, mistakes);
        block.items.iter_mut().for_each(strip);
        let conditions = block.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect();
        (block.to_token_stream(), self_type.map(|self_type| Self { self_type, conditions, members }))
    }

    fn self_type(block: &ItemImpl, mistakes: &mut Mistakes) -> Option<SelfType> {
        if let Some((path, _)) = &block.trait_ {
            mistakes.at(
                path,
                "#[object_methods] is not supported on the impl of a trait; write methods that call the trait's in \
                 `impl YourType { ... }`",
            );
            return None;
        }
        if !block.generics.params.is_empty() {
            mistakes.at(
                &block.generics,
                "an impl with parameters is not supported: an object type has none; write `impl YourType { ... }`",
            );
            return None;
        }
        SelfType::parse(&block.self_ty, mistakes)
    }
}

/// Returns the role of an item, or `None` if it is not exported or has an error that was reported.
fn role_of(item: &mut ImplItem, mistakes: &mut Mistakes) -> Option<Role> {
    match item {
        ImplItem::Fn(item) => {
            let is_public = matches!(item.vis, Visibility::Public(_));
            let role = take(&mut item.attrs, mistakes).ok()?;
            role.or_else(|| {
                is_public.then_some(Role::Method { name: None, signature: None, is_class: false, detach: None })
            })
            .filter(|role| !matches!(role, Role::Skip))
        }
        ImplItem::Const(item) => take(&mut item.attrs, mistakes).ok()?,
        ImplItem::Type(item) => {
            if let Ok(Some(_)) = take(&mut item.attrs, mistakes) {
                mistakes.at(&item.ident, "this attribute is for functions and constants; remove it");
            }
            None
        }
        _ => None,
    }
}

/// Removes `#[default(...)]` from the parameters.
fn strip(item: &mut ImplItem) {
    let ImplItem::Fn(item) = item else { return };
    default::strip(&mut item.sig.inputs);
}

/// Reports members with the same name. With `#[cfg]` on one of them, only the registration can
/// detect it.
fn check_names(members: &[Member], mistakes: &mut Mistakes) {
    let mut seen: HashMap<(Place, &str), &Member> = HashMap::new();
    for member in members.iter().filter(|member| member.conditions.is_empty()) {
        let (place, name) = member.place();
        let Some(earlier) = seen.insert((place, name), member) else { continue };
        let earlier = &earlier.ident;
        match (&member.kind, place) {
            (Kind::Init(_), _) => {
                mistakes.at(
                    &member.ident,
                    format_args!("a type has one constructor, and `{earlier}` is it; remove one #[init]"),
                );
            }
            (_, Place::Name) => mistakes.at(
                &member.ident,
                format_args!("`{earlier}` is called `{name}` as well; give one of them another name"),
            ),
            (_, Place::Operator) => mistakes
                .at(&member.ident, format_args!("`{earlier}` is the operator `{name}` as well; remove one of them")),
            (_, Place::Attribute) => mistakes.at(
                &member.ident,
                format_args!("`{earlier}` is registered as the type attribute `{name}` as well; remove one of them"),
            ),
        }
    }
}

/// Reports setters of an attribute that is a method or a constant. As for names, members with
/// `#[cfg]` are left to the registration.
fn check_setters(members: &[Member], mistakes: &mut Mistakes) {
    let unconditional = || members.iter().filter(|member| member.conditions.is_empty());
    for setter in unconditional() {
        let Some(written) = setter.written_attribute() else { continue };
        let taken = unconditional().find(|member| {
            !matches!(member.kind, Kind::Getter(_)) && matches!(member.place(), (Place::Name, name) if name == written)
        });
        if let Some(Member { ident, .. }) = taken {
            mistakes.at(
                &setter.ident,
                format_args!(
                    "`{written}` is the method or constant `{ident}`, and a setter writes a #[getter] or a field; use another name"
                ),
            );
        }
    }
}

/// Reports an item that is not an impl, with advice.
fn not_an_impl(item: TokenStream, error: syn::Error, mistakes: &mut Mistakes) {
    const ONLY: &str = "#[object_methods] is supported only on `impl YourType { ... }`";
    match syn::parse2::<Item>(item) {
        Ok(Item::Struct(item)) => {
            mistakes.at(item.ident, format_args!("{ONLY}; on the struct itself use #[derive(Object)]"));
        }
        Ok(Item::Enum(item)) => {
            mistakes.at(item.ident, format_args!("{ONLY}; on the enum itself use #[derive(Object)]"));
        }
        Ok(Item::Fn(item)) => {
            mistakes.at(item.sig.ident, format_args!("{ONLY}; use #[packed_func] on a free function"));
        }
        Ok(other) => mistakes.at(other, ONLY),
        Err(_) => mistakes.push(error),
    }
}
