use syn::{
    GenericArgument, Lifetime, Path, PathArguments, ReturnType, Type, TypeParamBound, TypePath, TypeReference,
    TypeTraitObject,
};

use crate::mistakes::Mistakes;

/// The position of a type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Parameter,
    Result,
}

/// Reports types that are known to be unsupported without type information. The trait solver checks
/// the rest.
pub(crate) fn check_parameter(ty: &Type, mistakes: &mut Mistakes) {
    check(ty, Place::Parameter, mistakes);
}

/// The same for a result. Only the `T` of `Result<T, E>` crosses the ABI as a value.
pub(crate) fn check_result(ty: &Type, mistakes: &mut Mistakes) {
    let ty = without_group(ty);
    if let Type::Path(path) = ty
        && let Some(last) = path.path.segments.last()
        && last.ident == "Result"
        && let PathArguments::AngleBracketed(arguments) = &last.arguments
    {
        if let Some(GenericArgument::Type(value)) = arguments.args.first() {
            check(value, Place::Result, mistakes);
        }
        return;
    }
    if let Type::Never(never) = ty {
        mistakes.at(never, "functions that never return are not supported; return nothing, or a `Result`");
        return;
    }
    check(ty, Place::Result, mistakes);
}

fn check(ty: &Type, place: Place, mistakes: &mut Mistakes) {
    match ty {
        Type::Reference(reference) => check_reference(reference, place, mistakes),
        Type::FnPtr(_) => {
            mistakes
                .at(ty, "function pointers are not supported; use `Function`, or `TypedFunction` with this signature");
        }
        Type::ImplTrait(_) => match place {
            Place::Parameter => mistakes.at(
                ty,
                "`impl Trait` is not supported: an exported symbol has one signature; \
                 name the type, and use `Function` for a callback",
            ),
            Place::Result => mistakes.at(
                ty,
                "`impl Trait` is not supported; name the type, and return a closure as `Function::from_fn(...)`",
            ),
        },
        Type::TraitObject(object) => check_trait_object(object, mistakes),
        Type::Path(path) => check_path(path, place, mistakes),
        Type::Tuple(tuple) => {
            tuple.elems.iter().for_each(|element| check_element("a tuple", element, place, mistakes));
        }
        Type::Array(array) => check_element("an array", &array.elem, place, mistakes),
        Type::Slice(slice) => check(&slice.elem, place, mistakes),
        Type::Paren(inner) => check(&inner.elem, place, mistakes),
        Type::Group(inner) => check(&inner.elem, place, mistakes),
        _ => {}
    }
}

fn check_reference(reference: &TypeReference, place: Place, mistakes: &mut Mistakes) {
    if reference.mutability.is_some() {
        mistakes.at(
            reference,
            "mutable references are not supported; take `TensorViewMut<T>` to write to a tensor, or return the new value",
        );
        return;
    }
    if let Some(lifetime) = &reference.lifetime {
        check_lifetime(lifetime, place, mistakes);
    }
    check(&reference.elem, place, mistakes);
}

fn check_lifetime(lifetime: &Lifetime, place: Place, mistakes: &mut Mistakes) {
    if place == Place::Parameter && lifetime.ident == "static" {
        mistakes.at(
            lifetime,
            "`'static` is not supported in a parameter: arguments live as long as the call; \
             leave it out, or take an owned type such as `String`",
        );
    }
}

fn check_trait_object(object: &TypeTraitObject, mistakes: &mut Mistakes) {
    let is_callable = object.bounds.iter().any(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return false };
        bound.path.segments.last().is_some_and(|last| matches!(last.arguments, PathArguments::Parenthesized(_)))
    });
    if is_callable {
        mistakes.at(object, "boxed closures are not supported; use `Function`, or `TypedFunction` with this signature");
    } else {
        mistakes.at(object, "trait objects are not supported; use an `ObjRef` of a type with #[derive(Object)]");
    }
}

fn check_path(ty: &TypePath, place: Place, mistakes: &mut Mistakes) {
    if let Some(advice) = ty.qself.is_none().then(|| primitive_advice(&ty.path)).flatten() {
        mistakes.at(ty, advice);
        return;
    }
    for segment in &ty.path.segments {
        match &segment.arguments {
            PathArguments::None => {}
            PathArguments::AngleBracketed(arguments) => {
                for argument in &arguments.args {
                    match argument {
                        GenericArgument::Type(ty) => check_argument(&segment.ident, ty, place, mistakes),
                        GenericArgument::Lifetime(lifetime) => check_lifetime(lifetime, place, mistakes),
                        _ => {}
                    }
                }
            }
            PathArguments::Parenthesized(arguments) => {
                arguments.inputs.iter().for_each(|input| check(&input.ty, place, mistakes));
                if let ReturnType::Type(_, output) = &arguments.output {
                    check(output, place, mistakes);
                }
            }
        }
    }
}

/// Checks a type argument. The signature of a `TypedFunction` may contain types that a parameter
/// may not.
fn check_argument(of: &syn::Ident, ty: &Type, place: Place, mistakes: &mut Mistakes) {
    match CONTAINERS.iter().find(|(name, _)| of == name) {
        Some((_, container)) => check_element(container, ty, place, mistakes),
        None if of != "TypedFunction" => check(ty, place, mistakes),
        None => {}
    }
}

/// Types whose elements are converted one by one, with their names in messages.
const CONTAINERS: [(&str, &str); 9] = [
    ("Vec", "`Vec`"),
    ("HashMap", "`HashMap`"),
    ("BTreeMap", "`BTreeMap`"),
    ("HashSet", "`HashSet`"),
    ("BTreeSet", "`BTreeSet`"),
    ("Array", "`Array`"),
    ("Map", "`Map`"),
    ("List", "`List`"),
    ("Dict", "`Dict`"),
];

/// Checks an element of a container. In a parameter it must be owned: the argument may be a list
/// that changes during the call.
fn check_element(container: &str, ty: &Type, place: Place, mistakes: &mut Mistakes) {
    match borrowed_advice(ty).filter(|_| place == Place::Parameter) {
        Some(advice) => {
            mistakes.at(ty, format_args!("elements that borrow are not supported in {container}; {advice}"));
        }
        None => check(ty, place, mistakes),
    }
}

/// The replacement for a type that borrows from its argument, or `None` if the type does not
/// borrow.
fn borrowed_advice(ty: &Type) -> Option<&'static str> {
    match without_group(ty) {
        Type::Reference(reference) if reference.mutability.is_none() => match without_group(&reference.elem) {
            Type::Path(path) => match path.path.segments.last()?.ident.to_string().as_str() {
                "str" => Some("use `String`"),
                "Path" => Some("use `PathBuf`"),
                "OsStr" => Some("use `OsString`"),
                _ => None,
            },
            Type::Slice(_) => Some("use `Bytes` for bytes, or `Tensor` for numbers"),
            _ => None,
        },
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            match last.ident.to_string().as_str() {
                "TensorView" => Some("use `Tensor`, and `tensor.view::<f32>()?` for each of them"),
                "TensorViewMut" => Some("take each tensor to write to as a parameter of its own"),
                "AnyView" => Some("use `Any`"),
                "Cow" => Some("use an owned type such as `String`"),
                "Option" => match &last.arguments {
                    PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                        Some(GenericArgument::Type(inner)) => borrowed_advice(inner),
                        _ => None,
                    },
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns `ty` without the invisible or written parentheses around it.
pub(crate) fn without_group(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => without_group(&group.elem),
        Type::Paren(paren) => without_group(&paren.elem),
        ty => ty,
    }
}

/// The replacement for a primitive type that the ABI does not support.
fn primitive_advice(path: &Path) -> Option<&'static str> {
    let ident = path.get_ident()?;
    matches!(ident.to_string().as_str(), "f16" | "f128")
        .then_some("this floating-point type is not supported: an FFI float has 64 bits; use `f32` or `f64`")
}
