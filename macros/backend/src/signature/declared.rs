//! The option `signature = "(data, /, *, key=None, **options)"`: the kinds of the parameters in
//! Python's syntax, and their defaults. The names and their order are those of the Rust function.

use std::fmt::Display;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Expr, GenericArgument, Lit, LitStr, PathArguments, PathSegment, Token, Type, UnOp, parenthesized};

use super::default::{Defaulted, json};
use super::types::without_group;
use crate::mistakes::Mistakes;
use crate::name::{is_reserved_parameter, plain};

/// The kinds of parameters, in the order in which a signature has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ParameterKind {
    PositionalOnly,
    PositionalOrKeyword,
    VarPositional,
    KeywordOnly,
    VarKeyword,
}

impl ParameterKind {
    /// Returns the name of the kind in the metadata, which is that of Python's `inspect`.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::PositionalOnly => "positional_only",
            Self::PositionalOrKeyword => "positional_or_keyword",
            Self::VarPositional => "var_positional",
            Self::KeywordOnly => "keyword_only",
            Self::VarKeyword => "var_keyword",
        }
    }

    /// Returns the empty value of `*args` or `**kwargs` as JSON; `None` for other kinds.
    pub(crate) fn empty(self) -> Option<&'static str> {
        match self {
            Self::VarPositional => Some("[]"),
            Self::VarKeyword => Some("{}"),
            _ => None,
        }
    }
}

/// Generates the variant of the runtime's enum.
impl ToTokens for ParameterKind {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let variant = format_ident!("{self:?}");
        tokens.extend(quote!(__k::ParamKind::#variant));
    }
}

/// One parameter of a signature.
struct Item {
    name: String,
    kind: ParameterKind,
    default: Option<TokenStream>,
}

/// Applies a signature to the parameters of a function: gives them their defaults, and returns
/// their kinds. With `has_self`, the first parameter is the object of a method, which the signature
/// does not name. Returns `None` if an error was reported.
pub(crate) fn apply<P: Defaulted>(
    text: &LitStr,
    parameters: &mut [P],
    has_self: bool,
    mistakes: &mut Mistakes,
) -> Option<Vec<ParameterKind>> {
    let (object, parameters) = parameters.split_at_mut(usize::from(has_self));
    let items = items(text, mistakes)?;
    let mut is_right = have_same_names(text, &items, parameters, mistakes);
    if is_right {
        for (item, parameter) in items.iter().zip(parameters.iter_mut()) {
            if let Err(problem) = give_default(item, parameter) {
                mistakes.at(text, problem);
                is_right = false;
            }
        }
        is_right &= have_defaults_last(text, &items, parameters, mistakes);
    }
    let kinds = object.iter().map(|_| ParameterKind::PositionalOnly).chain(items.iter().map(|item| item.kind));
    is_right.then(|| kinds.collect())
}

/// Reads the text. Returns `None` if an error was reported.
fn items(text: &LitStr, mistakes: &mut Mistakes) -> Option<Vec<Item>> {
    // The tokens are read with the place of the literal, which is where errors are shown.
    let read_as = LitStr::new(&double_quoted(&text.value()), text.span());
    if read_as.value().parse::<TokenStream>().is_err() {
        mistakes.at(text, "a signature is written as in Python, such as `(data, /, *, key=None, **options)`");
        return None;
    }
    match read_as.parse_with(read) {
        Ok(items) => Some(items),
        Err(error) => {
            mistakes.at(text, error);
            None
        }
    }
}

/// Replaces the single quotes around texts by double ones, as Rust has them.
fn double_quoted(text: &str) -> String {
    let (mut out, mut quote) = (String::new(), None);
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', Some(_)) => {
                out.push(c);
                out.extend(characters.next());
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                out.push('"');
            }
            (c, Some(end)) if c == end => {
                quote = None;
                out.push('"');
            }
            ('"', Some(_)) => out.push_str("\\\""),
            _ => out.push(c),
        }
    }
    out
}

/// An error at the next token, without syn's words about the end of the input.
fn wrong(input: ParseStream<'_>, problem: impl Display) -> syn::Error {
    syn::Error::new(input.span(), problem)
}

fn read(input: ParseStream<'_>) -> syn::Result<Vec<Item>> {
    if !input.peek(syn::token::Paren) {
        return Err(wrong(input, "a signature is in parentheses, as in `(data, /, *, key=None, **options)`"));
    }
    let content;
    parenthesized!(content in input);
    if !input.is_empty() {
        return Err(wrong(input, "a signature ends with its parenthesis; the result is that of the Rust function"));
    }
    let (mut items, mut kind): (Vec<Item>, ParameterKind) = (Vec::new(), ParameterKind::PositionalOrKeyword);
    let mut has_bare_star = false;
    while !content.is_empty() {
        if kind == ParameterKind::VarKeyword {
            return Err(wrong(&content, "`**` with a name is the last parameter"));
        }
        if content.parse::<Option<Token![/]>>()?.is_some() {
            read_slash(&mut items, kind).map_err(|problem| wrong(&content, problem))?;
        } else if content.parse::<Option<Token![*]>>()?.is_some() {
            let before = items.len();
            kind = read_stars(&content, &mut items, kind)?;
            has_bare_star = items.len() == before || has_bare_star;
        } else {
            let name = content.call(Ident::parse_any)?;
            let default = content.parse::<Option<Token![=]>>()?.map(|_| until_comma(&content)).transpose()?;
            items.push(Item { name: plain(&name), kind, default });
            has_bare_star = false;
        }
        if !content.is_empty() && content.parse::<Option<Token![,]>>()?.is_none() {
            return Err(wrong(&content, "expected `,` after a parameter; annotations are those of the Rust function"));
        }
    }
    if has_bare_star {
        return Err(wrong(input, "`*` is followed by a parameter that is passed by name"));
    }
    Ok(items)
}

/// Makes the parameters before `/` positional.
fn read_slash(items: &mut [Item], kind: ParameterKind) -> Result<(), &'static str> {
    if kind != ParameterKind::PositionalOrKeyword || items.iter().any(|item| item.kind == ParameterKind::PositionalOnly)
    {
        return Err("`/` occurs once, before `*`");
    }
    if items.is_empty() {
        return Err("`/` follows the parameters that are passed by position only");
    }
    items.iter_mut().for_each(|item| item.kind = ParameterKind::PositionalOnly);
    Ok(())
}

/// Reads what follows a first `*`: a second one and a name, a name, or nothing. Returns the kind of
/// the parameters that follow.
fn read_stars(content: ParseStream<'_>, items: &mut Vec<Item>, kind: ParameterKind) -> syn::Result<ParameterKind> {
    let read = if content.parse::<Option<Token![*]>>()?.is_some() {
        ParameterKind::VarKeyword
    } else if kind == ParameterKind::KeywordOnly {
        return Err(wrong(content, "`*` occurs once"));
    } else if content.is_empty() || content.peek(Token![,]) {
        return Ok(ParameterKind::KeywordOnly);
    } else {
        ParameterKind::VarPositional
    };
    let name = plain(&content.call(Ident::parse_any)?);
    if content.peek(Token![=]) {
        return Err(wrong(content, format_args!("`{name}` is empty without arguments; it has no default")));
    }
    items.push(Item { name, kind: read, default: None });
    Ok(if read == ParameterKind::VarKeyword { ParameterKind::VarKeyword } else { ParameterKind::KeywordOnly })
}

fn until_comma(content: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !content.is_empty() && !content.peek(Token![,]) {
        content.parse::<TokenTree>()?.to_tokens(&mut tokens);
    }
    if tokens.is_empty() { Err(wrong(content, "expected a default after `=`")) } else { Ok(tokens) }
}

/// Reports a difference between the names of a signature and those of the function.
fn have_same_names<P: Defaulted>(text: &LitStr, items: &[Item], parameters: &[P], mistakes: &mut Mistakes) -> bool {
    if let Some(item) = items.iter().find(|item| is_reserved_parameter(&item.name)) {
        let name = &item.name;
        mistakes.at(
            text,
            match name.as_str() {
                "self" => "the signature of a method begins after `self`".to_owned(),
                _ => format!("`{name}` is a keyword of Python; give the parameter another name"),
            },
        );
        return false;
    }
    let names = |index: usize| (items.get(index).map(|item| &*item.name), parameters.get(index).map(P::name));
    let differs = (0..items.len().max(parameters.len())).map(names).find(|(named, own)| named != own);
    let problem = match differs {
        None => return true,
        Some((Some(named), Some(own))) => {
            format!(
                "the signature has `{named}` where the function has `{own}`: the names and their order are the same in both"
            )
        }
        Some((Some(named), None)) => format!("the signature has `{named}`, which is not a parameter of the function"),
        Some((None, own)) => format!("the signature lacks the parameter `{}` of the function", own.unwrap_or_default()),
    };
    mistakes.at(text, problem);
    false
}

/// Reports a required parameter that a call cannot reach by position.
fn have_defaults_last<P: Defaulted>(
    text: &LitStr,
    items: &[Item],
    parameters: &mut [P],
    mistakes: &mut Mistakes,
) -> bool {
    let mut has_default = false;
    for (item, parameter) in
        items.iter().zip(parameters).filter(|(item, _)| item.kind <= ParameterKind::PositionalOrKeyword)
    {
        let (name, is_required) = (&item.name, parameter.default().is_none());
        if has_default && is_required {
            mistakes.at(
                text,
                format_args!(
                    "`{name}` without a default follows one with a default; write `*` before it, or a default"
                ),
            );
            return false;
        }
        has_default = !is_required;
    }
    true
}

/// Gives a parameter the default that the signature has for it.
fn give_default<P: Defaulted>(item: &Item, parameter: &mut P) -> Result<(), String> {
    let name = &item.name;
    let ty = syn::parse2::<Type>(parameter.written()).map_err(|error| error.to_string())?;
    match item.kind {
        ParameterKind::VarPositional if !is_list(&ty) => {
            return Err(format!("`*{name}` is a `Vec<T>` of the function"));
        }
        ParameterKind::VarKeyword if !is_map(&ty) => {
            return Err(format!("`**{name}` is a `HashMap<String, T>` of the function"));
        }
        _ => {}
    }
    let is_variadic = item.kind.empty().is_some();
    let own = parameter.default();
    match (&item.default, own) {
        (_, Some(_)) if is_variadic => {
            return Err(format!("`{name}` is empty without arguments; remove #[default(...)]"));
        }
        (_, own) if is_variadic => *own = Some(parse(quote!(::core::default::Default::default()))?),
        (None, None) => {}
        (None, Some(_)) => return Err(format!("`{name}` has #[default(...)]; write `{name}=...` in the signature")),
        (Some(default), own) if default.to_string().replace(' ', "") == "..." => {
            if own.is_none() {
                return Err(format!("`{name}=...` needs #[default(...)] on the parameter"));
            }
        }
        (Some(default), own) => {
            let read = expression(default, &ty).ok_or_else(|| {
                format!(
                    "the default of `{name}` is not None, True, False, a number, a text or [] of its type; write `{name}=...`, and \
                     #[default(...)] on the parameter"
                )
            })?;
            match own {
                Some(own) if json(own) != json(&read) => {
                    return Err(format!("`{name}` has another #[default(...)]; write `{name}=...` in the signature"));
                }
                Some(_) => {}
                None => *own = Some(read),
            }
        }
    }
    Ok(())
}

fn parse(tokens: TokenStream) -> Result<Expr, String> {
    syn::parse2(tokens).map_err(|error| error.to_string())
}

/// Converts a Python literal to a Rust expression of this type; `None` for anything else.
fn expression(default: &TokenStream, ty: &Type) -> Option<Expr> {
    let read: Expr = syn::parse2(default.clone()).ok()?;
    let is_any = last(ty).is_some_and(|last| last.ident == "Any");
    if matches!(&read, Expr::Path(path) if path.path.is_ident("None")) {
        let none = if is_any { quote!(<#ty>::NONE) } else { quote!(::core::option::Option::None) };
        return parse(none).ok();
    }
    if let Some(inner) = last(ty).filter(|last| last.ident == "Option").and_then(|last| argument(last, 0)) {
        let value = expression(default, inner)?;
        return parse(quote!(::core::option::Option::Some(#value))).ok();
    }
    let is_float = last(ty).is_some_and(|last| last.ident == "f64" || last.ident == "f32");
    let number = |value: &Lit| match value {
        Lit::Int(digits) if !digits.suffix().is_empty() => None,
        Lit::Int(digits) if is_float => format!("{}.0", digits.base10_digits()).parse().ok(),
        Lit::Int(digits) if is_any => format!("{}i64", digits.base10_digits()).parse().ok(),
        Lit::Int(_) => Some(value.to_token_stream()),
        Lit::Float(digits) if digits.suffix().is_empty() => Some(value.to_token_stream()),
        _ => None,
    };
    let tokens = match &read {
        Expr::Path(path) if path.path.is_ident("True") => quote!(true),
        Expr::Path(path) if path.path.is_ident("False") => quote!(false),
        // A value of any type does not say what the elements are.
        Expr::Array(array) if array.elems.is_empty() && !is_any => match last(ty) {
            Some(last) if last.ident == "Vec" => quote!(::std::vec::Vec::new()),
            _ => quote!(::core::default::Default::default()),
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => match &*unary.expr {
            Expr::Lit(value) => number(&value.lit).map(|number| quote!(-#number))?,
            _ => return None,
        },
        Expr::Lit(value) => match &value.lit {
            Lit::Str(text) => text_of_type(&text.value(), ty),
            value => number(value)?,
        },
        _ => return None,
    };
    parse(if is_any { quote!(::core::convert::From::from(#tokens)) } else { tokens }).ok()
}

fn text_of_type(text: &str, ty: &Type) -> TokenStream {
    match without_group(ty) {
        Type::Reference(_) => quote!(#text),
        _ if last(ty).is_some_and(|last| last.ident == "Any") => quote!(#text),
        _ => quote!(::core::convert::Into::into(#text)),
    }
}

/// The last part of a type's path, behind references.
fn last(ty: &Type) -> Option<&PathSegment> {
    match without_group(ty) {
        Type::Reference(reference) => last(&reference.elem),
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// The argument of a generic type at this index.
fn argument(segment: &PathSegment, index: usize) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.nth(index)
}

fn is_list(ty: &Type) -> bool {
    last(ty).is_some_and(|last| last.ident == "Vec" || last.ident == "Array")
}

fn is_map(ty: &Type) -> bool {
    last(ty).is_some_and(|map| {
        let key = argument(map, 0).and_then(last);
        ["HashMap", "BTreeMap", "Map"].iter().any(|name| map.ident == name)
            && key.is_some_and(|key| key.ident == "String" || key.ident == "Str")
    })
}
