//! `#[packed_func(parallel)]`: turns a function for one element or row into a packed function for
//! whole tensors.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{GenericArgument, LitInt, PathArguments, Type, TypeReference};

use super::options::Options;
use crate::lifetime;
use crate::mistakes::Mistakes;
use crate::options::CratePath;
use crate::signature::{self, Parameter, inside};

/// The maximum number of operands of a loop.
const MAX_TENSORS: usize = 8;

/// Types that are allowed behind `&` and are not elements: each call gets the whole value.
const NO_ELEMENTS: [&str; 12] =
    ["str", "String", "Tensor", "Function", "Module", "Any", "AnyView", "Str", "Bytes", "Shape", "DataType", "Device"];

/// The loop in the packed function.
pub(super) struct ParallelLoop {
    /// The role of each parameter in the loop.
    roles: Vec<Role>,
    /// The minimum number of items for a thread. 0 means that it is determined by measuring time.
    grain: TokenStream,
    /// True if the function's results become a tensor.
    returns_elements: bool,
}

/// The role of a parameter in the loop.
enum Role {
    /// The argument is the same in each call.
    Value,
    /// The same, by reference.
    Shared(Type),
    /// The argument is a tensor, and each call gets one of its elements or rows.
    Tensor { element: Type, writes: bool, is_row: bool },
}

impl ParallelLoop {
    /// Reads the parameters of a function, and reports those that are not supported in a loop.
    /// Returns `None` for a function that is not supported.
    pub(super) fn parse(
        ident: &Ident,
        parameters: &[Parameter],
        result: Option<&Type>,
        options: &Options,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        if !options.parallel {
            if let Some(grain) = &options.grain {
                mistakes.at(grain, "`grain` is how a parallel function is shared out; write `parallel, grain = ...`");
            }
            return None;
        }
        let roles: Vec<Role> = parameters.iter().map(|parameter| Role::of(&parameter.ty, mistakes)).collect();
        for (role, parameter) in roles.iter().zip(parameters) {
            if let (Role::Tensor { .. } | Role::Shared(_), Some(default)) = (role, &parameter.default) {
                mistakes.at(
                    default,
                    "only a parameter that each call gets by value has a default in a parallel function; remove #[default(...)]",
                );
            }
        }
        let is_tensor = |role: &Role| matches!(role, Role::Tensor { .. });
        let tensors = roles.iter().filter(|role| is_tensor(role)).count();
        if tensors == 0 {
            mistakes.at(
                ident,
                "a parallel function is called for each element or row of tensors, and this one takes none; take `&f32` (an \
                 element) or `&[f32]` (a row), with `&mut` to write",
            );
        }
        if let Some((_, parameter)) = roles.iter().zip(parameters).filter(|(role, _)| is_tensor(role)).nth(MAX_TENSORS)
        {
            mistakes.at(
                &parameter.ty,
                format_args!("more than {MAX_TENSORS} tensors are not supported in a parallel function"),
            );
        }
        let value = result.and_then(value_type);
        let writes = roles.iter().any(|role| matches!(role, Role::Tensor { writes: true, .. }));
        if tensors > 0 && result.is_none() && !writes {
            mistakes.at(ident, "this parallel function has no result; take `&mut f32` or `&mut [f32]` to write to a tensor, or return an element");
        }
        let grain = match &options.grain {
            None => quote!(0),
            Some(grain) => grain_value(grain, mistakes),
        };
        Some(Self { roles, grain, returns_elements: value.is_some() })
    }

    /// Returns the type that the argument of a parameter is converted to.
    pub(super) fn argument(&self, index: usize, parameter: &Parameter) -> TokenStream {
        match &self.roles[index] {
            Role::Value => lifetime::elide(parameter.ty.to_token_stream()),
            Role::Shared(ty) => lifetime::elide(ty.to_token_stream()),
            Role::Tensor { element, writes, .. } => {
                let element = lifetime::elide(element.to_token_stream());
                let place = inside(&parameter.ty);
                let view = Ident::new(if *writes { "TensorViewMut" } else { "TensorView" }, place);
                quote_spanned!(place=> __k::#view<'_, #element>)
            }
        }
    }

    /// Generates the conversion of an argument, an `unsafe` call that returns a `Result`.
    pub(super) fn conversion(&self, index: usize, parameter: &Parameter, args: &Ident) -> TokenStream {
        let place = inside(&parameter.ty);
        let (function, ty) = match &self.roles[index] {
            Role::Value | Role::Shared(_) => ("arg", self.argument(index, parameter)),
            Role::Tensor { element, writes, .. } => {
                let function = if *writes { "written_tensor" } else { "read_tensor" };
                (function, lifetime::elide(element.to_token_stream()))
            }
        };
        let function = Ident::new(function, place);
        quote_spanned!(place=> __k::#function::<#ty>(&__KERNPACK_FUNCTION, #args, #index))
    }

    /// Returns the result type of the packed function.
    pub(super) fn result(&self, krate: &CratePath) -> TokenStream {
        if self.returns_elements { quote!(#krate::Tensor) } else { quote!(()) }
    }

    /// The documentation that is added to that of the function: the tensors that the loop iterates
    /// over.
    pub(super) fn doc(&self, parameters: &[Parameter]) -> String {
        let mut elements = Vec::new();
        let mut written = Vec::new();
        for (role, parameter) in self.roles.iter().zip(parameters) {
            let Role::Tensor { element, writes, is_row } = role else { continue };
            let name = &parameter.name;
            let ty = element.to_token_stream().to_string().replace(' ', "");
            let items = if *is_row { "rows" } else { "elements" };
            elements.push(format!("{items} of `{name}` ({ty})"));
            if *writes {
                written.push(format!("`{name}`"));
            }
        }
        let mut text = format!("Runs in parallel over {}", elements.join(", "));
        if !written.is_empty() {
            text.push_str(&format!("; writes to {}", written.join(", ")));
        }
        if self.returns_elements {
            text.push_str("; returns a new tensor");
        }
        text.push('.');
        text
    }

    /// Generates the statements after the conversion of the arguments, which are in `locals`: the
    /// loop, and the conversion of its result.
    pub(super) fn run(
        &self,
        ident: &Ident,
        parameters: &[Parameter],
        locals: &[Ident],
        result: Option<&Type>,
        result_place: &Ident,
    ) -> TokenStream {
        let mut preparations = TokenStream::new();
        let (mut operands, mut indices, mut items) = (Vec::new(), Vec::new(), Vec::new());
        let mut arguments = Vec::new();
        for (index, ((role, parameter), local)) in self.roles.iter().zip(parameters).zip(locals).enumerate() {
            let place = inside(&parameter.ty);
            match role {
                Role::Value => {
                    preparations.extend(quote_spanned!(place=> let #local = __k::for_each_call(#local);));
                    arguments.push(local.clone());
                }
                Role::Shared(_) => {
                    preparations.extend(quote_spanned!(place=> let #local = &#local;));
                    arguments.push(local.clone());
                }
                Role::Tensor { writes, is_row, .. } => {
                    let operand = match (is_row, writes) {
                        (false, false) => quote!(ReadTensor::elements),
                        (false, true) => quote!(WrittenTensor::elements_mut),
                        (true, false) => quote!(ReadTensor::rows),
                        (true, true) => quote!(WrittenTensor::rows_mut),
                    };
                    let view = if *writes {
                        preparations.extend(quote_spanned!(place=> let mut #local = #local;));
                        quote_spanned!(place=> &mut #local)
                    } else {
                        quote_spanned!(place=> &#local)
                    };
                    operands.push(quote_spanned!(place=> __k::#operand(#view)));
                    indices.push(index);
                    let item = Ident::new(&format!("__item{index}"), place);
                    items.push(item.clone());
                    arguments.push(item);
                }
            }
        }
        let grain = &self.grain;
        let (run, outcome) = match (self.returns_elements, result) {
            (true, Some(ty)) => ("parallel_map", lifetime::elide(ty.to_token_stream())),
            (false, Some(ty)) => ("parallel_for_each", lifetime::elide(ty.to_token_stream())),
            _ => ("parallel_for_each", quote!(())),
        };
        let place = result.map_or_else(Span::mixed_site, inside);
        let run = Ident::new(run, place);
        // Errors about the result are shown at its type.
        let run = quote_spanned!(place=> __k::#run::<_, #outcome>);
        quote! {
            #preparations
            let __looped = #run(
                &__KERNPACK_FUNCTION,
                &[#(#indices),*],
                #grain,
                (#(#operands,)*),
                move |(#(#items,)*)| #ident(#(#arguments),*),
            );
            __k::IntoReturn::into_return_at(__looped, #result_place)
        }
    }
}

impl Role {
    fn of(ty: &Type, mistakes: &mut Mistakes) -> Self {
        match signature::without_group(ty) {
            Type::Reference(reference) => Self::of_reference(ty, reference, mistakes),
            ty => {
                signature::check_parameter(ty, mistakes);
                Self::Value
            }
        }
    }

    fn of_reference(ty: &Type, reference: &TypeReference, mistakes: &mut Mistakes) -> Self {
        let writes = reference.mutability.is_some();
        // A type from a macro fragment (`$t:ty`) is a group.
        match signature::without_group(&reference.elem) {
            Type::Slice(slice) => Self::Tensor { element: (*slice.elem).clone(), writes, is_row: true },
            Type::Path(path) if is_element(&path.path) => {
                Self::Tensor { element: (*reference.elem).clone(), writes, is_row: false }
            }
            _ if writes => {
                mistakes.at(ty, "a parallel function writes to an element, `&mut f32`, or to a row, `&mut [f32]`: calls at the same time share everything else");
                Self::Value
            }
            Type::Path(path) if path.path.is_ident("str") => {
                signature::check_parameter(ty, mistakes);
                Self::Value
            }
            shared => {
                signature::check_parameter(ty, mistakes);
                Self::Shared(shared.clone())
            }
        }
    }
}

/// Returns true if a type behind `&` is treated as the type of an element: a name without arguments
/// that is not a type of Kernpack.
fn is_element(path: &syn::Path) -> bool {
    path.segments
        .last()
        .is_some_and(|last| last.arguments.is_none() && NO_ELEMENTS.iter().all(|known| last.ident != known))
}

/// Returns the type of the value that a function returns, directly or in a `Result`. `None` for
/// nothing.
fn value_type(result: &Type) -> Option<&Type> {
    let value = match signature::without_group(result) {
        Type::Path(path) => match path.path.segments.last() {
            Some(last) if last.ident == "Result" => match &last.arguments {
                PathArguments::AngleBracketed(arguments) => arguments.args.iter().find_map(|argument| match argument {
                    GenericArgument::Type(ty) => Some(ty),
                    _ => None,
                }),
                _ => None,
            },
            _ => Some(result),
        },
        other => Some(other),
    };
    value.map(signature::without_group).filter(|ty| !matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty()))
}

fn grain_value(grain: &LitInt, mistakes: &mut Mistakes) -> TokenStream {
    match grain.base10_parse::<usize>() {
        Ok(1..) => grain.to_token_stream(),
        _ => {
            mistakes.at(grain, "a grain is 1 or more: how many elements or rows a thread takes at a time, at least");
            quote!(0)
        }
    }
}
