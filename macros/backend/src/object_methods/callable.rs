use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Expr;

use super::argument::Argument;
use super::member::{Kind, Member, Signature};
use super::operator::{Operator, is_option};
use super::self_type::{SelfType, wrapper};
use crate::lifetime;
use crate::options::CratePath;
use crate::signature::role::FunctionRole;
use crate::signature::{default, inside, parameter_info};

/// The entry point of a function, and the conversion of its result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Function,
    /// A constructor: arguments by position and by name.
    Init,
    /// The getter of a property.
    Getter,
    /// The hook of an operator, which gets an additional argument that the user's function may
    /// omit.
    Hook(Operator),
    /// A comparison as a method of Python, whose result is None if it does not apply to the other
    /// operand.
    Comparison(Operator),
}

/// One entry point: the description of its parameters, the function that converts arguments and
/// result, and the function with the C ABI.
pub(super) struct Callable<'a> {
    pub(super) member: &'a Member,
    pub(super) signature: &'a Signature,
    pub(super) entry: Entry,
    /// The name in messages.
    pub(super) name: &'a str,
    /// The number that distinguishes the entry points of a block.
    pub(super) number: usize,
}

impl Callable<'_> {
    /// Returns the name of the static that describes the function.
    pub(super) fn info(&self) -> Ident {
        format_ident!("__KERNPACK_METHOD_{}", self.number)
    }

    /// Returns the name of the function with the C ABI.
    pub(super) fn call(&self) -> Ident {
        format_ident!("__kernpack_call_{}", self.number)
    }

    fn body(&self) -> Ident {
        format_ident!("__kernpack_body_{}", self.number)
    }

    fn arguments(&self) -> &[Argument] {
        &self.signature.arguments
    }

    /// Returns the operator whose hook has one parameter more than the user's function.
    fn callback(&self) -> Option<Operator> {
        match self.entry {
            Entry::Hook(operator) if self.arguments().len() == operator.objects() => Some(operator),
            _ => None,
        }
    }

    fn count(&self) -> usize {
        self.arguments().len() + usize::from(self.callback().is_some())
    }

    fn defaults(&self) -> impl Iterator<Item = Option<&Expr>> {
        self.arguments().iter().map(|argument| argument.default.as_ref())
    }

    /// Returns a bit mask of the parameters with a default.
    fn optional(&self) -> u64 {
        default::optional(self.defaults())
    }

    /// Returns true for a constant of the class, which is exported as a function that returns it.
    fn is_constant(&self) -> bool {
        self.role() == FunctionRole::Constant
    }

    fn role(&self) -> FunctionRole {
        match self.member.kind {
            Kind::ClassConstant(_) => FunctionRole::Constant,
            Kind::ClassMethod(_) => FunctionRole::ClassMethod,
            Kind::Setter(_) => FunctionRole::Setter,
            _ if self.is_operator() => FunctionRole::Operator,
            _ => FunctionRole::Function,
        }
    }

    /// Returns true if callers may omit arguments or name them.
    fn is_bound(&self) -> bool {
        self.entry == Entry::Init || self.optional() != 0
    }

    /// Generates the items of the entry point.
    pub(super) fn items(&self, self_type: &SelfType, krate: &CratePath, crate_name: &str) -> TokenStream {
        let Member { ident, doc, conditions, .. } = self.member;
        let (info, name) = (self.info(), self.name);
        let here = ident.span();
        let callback = self.callback().map(|operator| {
            let name = operator.callback();
            quote!(__k::ParamInfo { name: #name, ty: __k::SchemaOf::<#krate::Function>::TYPE, access: __k::Access::Keeps })
        });
        let parameters = self.arguments().iter().map(|argument| {
            let ty = self_type.resolve(lifetime::elide(argument.ty.clone()));
            parameter_info(&argument.name, &ty, &argument.written)
        });
        let parameters = parameters.chain(callback);
        let defaults = default::fields(self.defaults(), self.signature.kinds.as_deref(), self.role());
        let result = self.returned(self_type);
        let call = match self.entry {
            Entry::Getter => quote!(__k::no_entry_point),
            _ => self.call().into_token_stream(),
        };
        let file = quote_spanned!(here=> ::core::file!());
        let line = quote_spanned!(here=> ::core::line!());
        let detach = match self.member.detach {
            Some(detach) => quote!(::core::option::Option::Some(#detach)),
            None => quote!(::core::option::Option::None),
        };
        let body = self.body_function(self_type, krate);
        let entry_point = self.entry_point();
        quote! {
            #(#conditions)*
            static #info: __k::FunctionInfo = __k::FunctionInfo {
                name: __k::method_name!(__KERNPACK_KEY, #name),
                global_name: ::core::option::Option::None,
                doc: #doc,
                params: &[#(#parameters),*],
                #defaults
                ret: <#result as __k::IntoReturn>::TYPE,
                call: #call,
                detach: #detach,
                crate_name: #crate_name,
                file: #file,
                line: #line,
            };

            #(#conditions)*
            #body

            #(#conditions)*
            #entry_point
        }
    }

    fn entry_point(&self) -> TokenStream {
        let (call, body, info, count) = (self.call(), self.body(), self.info(), self.count());
        if self.entry == Entry::Getter {
            return quote!(__k::getter!(#call = call_getter(&#info; #body)););
        }
        match self.is_bound() {
            true => {
                let optional = self.optional();
                quote!(__k::entry_point!(#call = call_bound::<#count>(&#info, #optional; #body));)
            }
            false => quote!(__k::entry_point!(#call = call_packed::<#count>(&#info; #body));),
        }
    }

    /// Returns the type that the entry point returns to its caller.
    fn returned(&self, self_type: &SelfType) -> TokenStream {
        match (self.entry, &self.member.kind) {
            (Entry::Comparison(_), _) => quote!(::core::option::Option<::core::primitive::bool>),
            (Entry::Hook(_), Kind::Comparison(..)) => quote!(::core::primitive::bool),
            (Entry::Hook(Operator::Hash | Operator::Lt | Operator::Compare), _) => quote!(::core::primitive::i64),
            _ => self.special_result(self_type).unwrap_or_else(|| self.converted_result(self_type)),
        }
    }

    /// Generates the result of a comparison, from an expression of type `Option<bool>`.
    fn answered(&self, answer: TokenStream, place: &Ident) -> TokenStream {
        match self.entry {
            Entry::Hook(_) => quote! {
                <::core::primitive::bool as __k::IntoReturn>::into_return_at(
                    #answer == ::core::option::Option::Some(true),
                    #place,
                )
            },
            _ => quote! {
                <::core::option::Option<::core::primitive::bool> as __k::IntoReturn>::into_return_at(#answer, #place)
            },
        }
    }

    /// Generates the conversion of the second operand of a comparison.
    fn operand(&self, ty: &TokenStream, written: &TokenStream, names: [&Ident; 3]) -> TokenStream {
        let [local, args, place] = names;
        let converted = quote_spanned!(inside(written)=> <#ty as __k::FromAny<'_>>::from_any(&#args[1]));
        let otherwise = self.answered(quote!(::core::option::Option::None), place);
        quote!(let ::core::result::Result::Ok(#local) = #converted else { return #otherwise; };)
    }

    /// Generates the answer of a comparison, of type `Option<bool>`, from the user's result.
    fn answer(&self, declared: Operator, value: TokenStream) -> TokenStream {
        let operator = match self.entry {
            Entry::Comparison(operator) | Entry::Hook(operator) => operator,
            _ => declared,
        };
        let is_option = self.signature.result.as_ref().is_some_and(is_option);
        let test = Ident::new(operator.test(), Span::call_site());
        match (declared == Operator::Compare, is_option) {
            (true, true) => {
                quote!(::core::option::Option::Some(#value.is_some_and(::core::cmp::Ordering::#test)))
            }
            (true, false) => quote!(::core::option::Option::Some(::core::cmp::Ordering::#test(#value))),
            (false, true) => value,
            (false, false) => quote!(::core::option::Option::Some(#value)),
        }
    }

    /// Generates the user's result, with new objects in place of values of the type.
    fn converted_result(&self, self_type: &SelfType) -> TokenStream {
        let Some(ty) = &self.signature.result else { return quote!(()) };
        self_type.resolve(lifetime::elide(self.signature.shape.ty(ty)))
    }

    /// Generates the safe function that converts the arguments, calls the user's function and
    /// converts its result.
    fn body_function(&self, self_type: &SelfType, krate: &CratePath) -> TokenStream {
        let (body, count, info) = (self.body(), self.count(), self.info());
        let args = Ident::new("args", Span::mixed_site());
        let given = Ident::new("given", Span::mixed_site());
        let place = Ident::new("place", Span::mixed_site());
        let locals: Vec<Ident> = self
            .arguments()
            .iter()
            .enumerate()
            .map(|(index, argument)| Ident::new(&format!("__arg{index}"), inside(&argument.written)))
            .collect();
        let conversions = self.arguments().iter().zip(&locals).enumerate().map(|(index, (argument, local))| {
            let ty = self_type.resolve(lifetime::elide(argument.ty.clone()));
            if index == 1 && matches!(self.member.kind, Kind::Comparison(..)) {
                return self.operand(&ty, &argument.written, [local, &args, &place]);
            }
            let convert = match self.member.kind {
                Kind::Setter(_) if index == 1 => format_ident!("value_to_set"),
                _ => format_ident!("arg"),
            };
            // Errors about the type are shown at the type.
            let converted = quote_spanned! {inside(&argument.written)=>
                // SAFETY: each argument is converted once, and the result lives in this call.
                unsafe { __k::#convert::<#ty>(&#info, #args, #index) }
            };
            let converted = match index > 0 && self.is_operator() {
                true => self.checked_operand(converted, &place),
                false => quote_spanned!(inside(&argument.written)=> #converted?),
            };
            match &argument.default {
                None => quote!(let #local = #converted;),
                Some(default) => {
                    let default = self_type.resolve(default.to_token_stream());
                    quote!(let #local: #ty = if #given & (1u64 << #index) != 0 { #converted } else { #default };)
                }
            }
        });
        let finish = self.finish(self_type, krate, &locals, [&args, &place]);
        let given = self.is_bound().then(|| quote!(, #given: ::core::primitive::u64));
        quote! {
            #[inline]
            fn #body<'a>(#args: &'a [#krate::AnyView<'a>; #count], #place: __k::ResultPlace #given) -> #krate::Result<__k::TVMFFIAny> {
                #(#conversions)*
                #finish
            }
        }
    }

    /// Generates the call of the user's function with these local variables.
    fn user_call(&self, self_type: &SelfType, locals: &[TokenStream]) -> TokenStream {
        let (path, ident) = (&self_type.path, &self.member.ident);
        if self.is_constant() {
            return quote!(#path::#ident);
        }
        quote!(#path::#ident(#(#locals),*))
    }

    /// Generates the call and the conversion of its result.
    fn finish(
        &self,
        self_type: &SelfType,
        krate: &CratePath,
        locals: &[Ident],
        [args, place]: [&Ident; 2],
    ) -> TokenStream {
        let passed: Vec<TokenStream> =
            self.arguments().iter().zip(locals).map(|(argument, local)| argument.passing.pass(local)).collect();
        let call = self.user_call(self_type, &passed);
        let is_result = self.signature.result.as_ref().and_then(wrapper).is_some_and(|(name, _)| name == "Result");
        let value = if is_result { quote!(#call?) } else { call.clone() };
        if let Kind::Comparison(declared, _) = self.member.kind {
            return self.answered(self.answer(declared, value), place);
        }
        match self.entry {
            Entry::Hook(Operator::Hash | Operator::Compare) => {
                quote!(::core::result::Result::Ok(__k::TVMFFIAny::int(#value as ::core::primitive::i64)))
            }
            Entry::Hook(Operator::Lt) => {
                let reversed: Vec<TokenStream> = self
                    .arguments()
                    .iter()
                    .zip(locals.iter().rev())
                    .map(|(argument, local)| argument.passing.pass(local))
                    .collect();
                let reversed = self.user_call(self_type, &reversed);
                let reversed = if is_result { quote!(#reversed?) } else { reversed };
                quote! {
                    let order = if #value { -1 } else if #reversed { 1 } else { 0 };
                    #krate::Result::Ok(__k::TVMFFIAny::int(order))
                }
            }
            _ => {
                let shaped = self.signature.shape.value(call);
                let value = if is_result { quote!(#shaped?) } else { shaped.clone() };
                if let Some(special) = self.special_value(self_type, krate, value, [args, place]) {
                    return special;
                }
                let result = self.converted_result(self_type);
                quote!(<#result as __k::IntoReturn>::into_return_at(#shaped, #place))
            }
        }
    }
}
