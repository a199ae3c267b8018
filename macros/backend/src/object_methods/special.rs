//! The special methods of Python whose entry point differs from that of other methods: operators
//! with two operands, their in-place forms, and `__next__`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::Type;

use super::callable::{Callable, Entry};
use super::member::Kind;
use super::operator::is_option;
use super::self_type::{SelfType, wrapper};
use crate::options::CratePath;
use crate::signature::without_group;

/// The operators that have a reflected form, such as `__radd__`, and all but one an in-place form,
/// such as `__iadd__`.
const BINARY: [&str; 14] = [
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "xor",
    "or",
];

/// Returns true if the name is `__<form><operator>__` with an operator of the table.
fn has_form(name: &str, form: &str) -> bool {
    let inside = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    inside.and_then(|inside| inside.strip_prefix(form)).is_some_and(|operator| BINARY.contains(&operator))
}

/// Returns true for an operator that stores its result in its left operand.
fn is_in_place(name: &str) -> bool {
    name != "__idivmod__" && has_form(name, "i")
}

/// Returns true for an operator with two operands, in any form.
pub(super) fn is_binary(name: &str) -> bool {
    has_form(name, "") || has_form(name, "r") || is_in_place(name)
}

impl Callable<'_> {
    fn is_bound_method(&self) -> bool {
        self.entry == Entry::Function && matches!(self.member.kind, Kind::Method(_)) && !self.signature.is_static()
    }

    /// Returns true for an operator with two operands, which does not apply if one of them cannot
    /// be converted.
    pub(super) fn is_operator(&self) -> bool {
        self.is_bound_method() && is_binary(self.name) && self.signature.arguments.len() > 1
    }

    /// Returns true for an in-place operator without a result, which gives the object itself.
    fn gives_object(&self) -> bool {
        let is_empty = match &self.signature.result {
            None => true,
            Some(ty) => matches!(wrapper(ty), Some(("Result", Type::Tuple(unit))) if unit.elems.is_empty()),
        };
        self.is_operator() && is_in_place(self.name) && is_empty
    }

    /// Returns the type of the elements, as the user wrote it, if `None` ends an iteration.
    fn element(&self) -> Option<&Type> {
        let ty = self.signature.result.as_ref()?;
        if !self.is_bound_method() || self.name != "__next__" || !is_option(ty) {
            return None;
        }
        let ty = match wrapper(ty) {
            Some(("Result", inner)) => inner,
            _ => ty,
        };
        wrapper(ty).map(|(_, element)| without_group(element))
    }

    /// Returns the type that a special method returns to its caller; `None` if it is the user's.
    pub(super) fn special_result(&self, self_type: &SelfType) -> Option<TokenStream> {
        if self.gives_object() {
            let path = &self_type.path;
            return Some(quote!(__k::ObjRef<#path>));
        }
        let element = self.element()?;
        Some(self_type.resolve(self_type.result_shape(element).ty(element)))
    }

    /// Generates the result of a special method from the user's, which is not a `Result`; `None` if
    /// it is the user's own.
    pub(super) fn special_value(
        &self,
        self_type: &SelfType,
        krate: &CratePath,
        value: TokenStream,
        [args, place]: [&Ident; 2],
    ) -> Option<TokenStream> {
        let result = self.special_result(self_type)?;
        if self.gives_object() {
            let info = self.info();
            return Some(quote! {
                #value;
                // SAFETY: a reference to an object gives no access to memory.
                let this = unsafe { __k::arg::<#result>(&#info, #args, 0) }?;
                <#result as __k::IntoReturn>::into_return_at(this, #place)
            });
        }
        Some(quote! {
            match #value {
                ::core::option::Option::Some(element) => {
                    <#result as __k::IntoReturn>::into_return_at(element, #place)
                }
                ::core::option::Option::None => #krate::Result::Err(__k::end_of_iteration()),
            }
        })
    }

    /// Generates the value of an operand from the expression that converts it. The operator does
    /// not apply to an operand of another type.
    pub(super) fn checked_operand(&self, converted: TokenStream, place: &Ident) -> TokenStream {
        quote! {
            match #converted {
                ::core::result::Result::Ok(operand) => operand,
                ::core::result::Result::Err(error) => return #place.inapplicable(error),
            }
        }
    }
}
