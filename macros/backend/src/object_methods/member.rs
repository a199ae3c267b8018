use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, Ident, ImplItemConst, ImplItemFn, LitStr, Type};

use super::argument::Argument;
use super::attributes::{Role, method_name_fault};
use super::operator::Operator;
use super::self_type::{SelfType, Shape, wrapper};
use crate::doc::Doc;
use crate::mistakes::Mistakes;
use crate::name::plain;
use crate::signature::declared::{self, ParameterKind};
use crate::signature::{self, Subject, default, without_group};

/// A function or constant that is exported to other languages.
pub(super) struct Member {
    pub(super) ident: Ident,
    /// The name in other languages.
    pub(super) name: String,
    pub(super) doc: Doc,
    /// `#[cfg]` attributes, which the generated items need as well.
    pub(super) conditions: Vec<Attribute>,
    /// True if Python's lock is released for the duration of a call; `None` if the parameters
    /// decide.
    pub(super) detach: Option<bool>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Method(Signature),
    Init(Signature),
    Getter(Signature),
    /// A method that writes an attribute.
    Setter(Signature),
    Operator(Operator, Signature),
    /// A comparison that is exported as methods of Python.
    Comparison(Operator, Signature),
    /// A type attribute that is a function.
    Hook(Signature),
    /// A type attribute that is a value of this type.
    Constant(TokenStream),
    /// A function that returns an object of the class that it is called on.
    ClassMethod(Signature),
    /// A constant of the class.
    ClassConstant(Signature),
}

/// The arguments and the result of a function.
pub(super) struct Signature {
    pub(super) arguments: Vec<Argument>,
    /// The kinds of the arguments, if a signature declares them.
    pub(super) kinds: Option<Vec<ParameterKind>>,
    /// The type as the user wrote it. `None` if the function returns nothing.
    pub(super) result: Option<Type>,
    pub(super) shape: Shape,
}

impl Signature {
    pub(super) fn is_static(&self) -> bool {
        !self.arguments.first().is_some_and(Argument::is_self)
    }
}

impl Member {
    /// Reads a function. Returns `None` if it is not supported, which was reported.
    pub(super) fn function(
        item: &ImplItemFn,
        role: Role,
        self_type: &SelfType,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let signature = &item.sig;
        signature::check_signature(signature, Subject::Method, mistakes);
        signature::check_attributes(&item.attrs, mistakes);
        signature::check_count(&signature.inputs, mistakes);
        let mut arguments = Vec::new();
        let mut complete = true;
        for (index, input) in signature.inputs.iter().enumerate() {
            match Argument::parse(input, index, self_type, mistakes) {
                Some(argument) => arguments.push(argument),
                None => complete = false,
            }
        }
        let result = signature::result(&signature.output, mistakes);
        if !complete {
            return None;
        }
        let kinds = kinds(&mut arguments, &role, mistakes);
        let shape = result.as_ref().map_or(Shape::AsIs, |ty| self_type.result_shape(ty));
        let read = Signature { arguments, kinds, result, shape };
        let ident = signature.ident.clone();
        let detach = match &role {
            Role::Method { detach, .. } | Role::Init { detach, .. } | Role::Setter { detach, .. } => *detach,
            _ => None,
        };
        let (name, kind) = match role {
            Role::Method { name, is_class: false, .. } => {
                (member_name(&ident, name, "method", mistakes), Kind::Method(read))
            }
            Role::Method { name, .. } => {
                check_class_method(item, &read, self_type, mistakes);
                (member_name(&ident, name, "method", mistakes), Kind::ClassMethod(read))
            }
            Role::Getter { name } => {
                check_getter(item, &read, mistakes);
                (member_name(&ident, name, "getter", mistakes), Kind::Getter(read))
            }
            Role::Setter { name, .. } => {
                check_setter(item, &read, mistakes);
                (setter_name(&ident, name, mistakes), Kind::Setter(read))
            }
            Role::Init { .. } => {
                check_init(item, &read, self_type, mistakes);
                ("__ffi_init__".to_owned(), Kind::Init(read))
            }
            Role::Operator(operator) => {
                operator.check(&ident, &read.arguments, read.result.as_ref(), mistakes);
                match operator.is_method(&read.arguments, read.result.as_ref()) {
                    true => (operator.method().to_owned(), Kind::Comparison(operator, read)),
                    false => (operator.attribute().to_owned(), Kind::Operator(operator, read)),
                }
            }
            Role::TypeAttr { name } => (name.value(), Kind::Hook(read)),
            Role::Constant { .. } => {
                mistakes
                    .at(&ident, "#[constant] is for a `const`; a value that is computed is a function or a #[getter]");
                return None;
            }
            Role::Skip => return None,
        };
        Some(Self { ident, name, doc: Doc::of(&item.attrs), conditions: conditions(&item.attrs), detach, kind })
    }

    /// Reads a constant. Returns `None` if it is not a member, or is not supported, which was
    /// reported.
    pub(super) fn constant(
        item: &ImplItemConst,
        role: Role,
        self_type: &SelfType,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let ident = item.ident.clone();
        let (name, kind) = match role {
            Role::TypeAttr { name } => (name.value(), Kind::Constant(item.ty.to_token_stream())),
            Role::Constant { name } => {
                let shape = self_type.result_shape(&item.ty);
                if !matches!(shape, Shape::AsIs) {
                    mistakes
                        .at(&item.ty, "a constant is not an object of its own class; write a function that returns it");
                }
                let result = Some(item.ty.clone());
                let read = Signature { arguments: Vec::new(), kinds: None, result, shape };
                (member_name(&ident, name, "constant", mistakes), Kind::ClassConstant(read))
            }
            Role::Skip => return None,
            _ => {
                const ADVICE: &str = "write #[constant] for a constant of the class, or #[type_attr(name = \"...\")] for a type attribute";
                mistakes.at(&ident, format_args!("this attribute is for functions; {ADVICE}"));
                return None;
            }
        };
        signature::check_result(&item.ty, mistakes);
        let (doc, conditions) = (Doc::of(&item.attrs), conditions(&item.attrs));
        Some(Self { ident, name, doc, conditions, detach: None, kind })
    }

    /// Returns the name that no second member may be registered under, with its namespace.
    pub(super) fn place(&self) -> (Place, &str) {
        let place = match self.kind {
            // An equality is a type attribute, too; two orders would contradict each other.
            Kind::Comparison(operator @ (Operator::Eq | Operator::Compare), _) => {
                return (Place::Attribute, operator.attribute());
            }
            Kind::Comparison(..) => Place::Operator,
            Kind::Method(_) | Kind::Getter(_) | Kind::Setter(_) | Kind::ClassMethod(_) | Kind::ClassConstant(_) => {
                Place::Name
            }
            Kind::Init(_) | Kind::Operator(..) | Kind::Hook(_) | Kind::Constant(_) => Place::Attribute,
        };
        (place, &self.name)
    }

    /// Returns the attribute that the member writes, if it is a setter.
    pub(super) fn written_attribute(&self) -> Option<&str> {
        match self.kind {
            Kind::Setter(_) => self.name.strip_prefix(SETTER),
            _ => None,
        }
    }

    /// Returns true if the member is this operator.
    pub(super) fn is_operator(&self, wanted: Operator) -> bool {
        matches!(&self.kind, Kind::Operator(operator, _) | Kind::Comparison(operator, _) if *operator == wanted)
    }

    /// Turns a `<` that is a hook of the type into a method of Python.
    pub(super) fn into_method(self) -> Self {
        match self.kind {
            Kind::Operator(Operator::Lt, signature) => {
                Self { name: Operator::Lt.method().to_owned(), kind: Kind::Comparison(Operator::Lt, signature), ..self }
            }
            _ => self,
        }
    }
}

/// The prefix of the method that writes an attribute.
const SETTER: &str = "set_";

/// The namespaces of exported names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Name,
    Operator,
    Attribute,
}

/// Returns the kinds of the arguments, if a signature declares them, and completes their defaults.
fn kinds(arguments: &mut [Argument], role: &Role, mistakes: &mut Mistakes) -> Option<Vec<ParameterKind>> {
    match role {
        Role::Method { signature: Some(text), .. } | Role::Init { signature: Some(text), .. } => {
            let has_self = arguments.first().is_some_and(Argument::is_self);
            return declared::apply(text, arguments, has_self, mistakes);
        }
        Role::Method { .. } | Role::Init { .. } => default::complete(arguments, mistakes),
        _ => default::check(arguments, mistakes),
    }
    None
}

fn conditions(attributes: &[Attribute]) -> Vec<Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect()
}

/// Returns the name of a member, which an option of this attribute may set.
fn member_name(ident: &Ident, name: Option<LitStr>, attribute: &str, mistakes: &mut Mistakes) -> String {
    let text = name.as_ref().map_or_else(|| plain(ident), LitStr::value);
    if let Some(fault) = method_name_fault(&text) {
        match name {
            Some(name) => mistakes.at(name, fault),
            None => mistakes.at(ident, format_args!("{fault}; #[{attribute}(name = \"...\")] sets the name")),
        }
    }
    text
}

/// Returns the name of the method that a setter is exported as: the attribute, which an option may
/// set, behind the prefix.
fn setter_name(ident: &Ident, name: Option<LitStr>, mistakes: &mut Mistakes) -> String {
    let plain = plain(ident);
    let written = name.as_ref().map_or_else(|| plain.strip_prefix(SETTER).unwrap_or(&plain).to_owned(), LitStr::value);
    if let Some(fault) = method_name_fault(&written) {
        match name {
            Some(name) => mistakes.at(name, fault),
            None => mistakes.at(ident, format_args!("{fault}; #[setter(name = \"...\")] sets the name")),
        }
    }
    format!("{SETTER}{written}")
}

fn check_setter(item: &ImplItemFn, signature: &Signature, mistakes: &mut Mistakes) {
    const FORM: &str = "write `fn set_size(&self, value: i64)`, with or without a result `Result<()>`";
    let ident = &item.sig.ident;
    if signature.is_static() || signature.arguments.len() != 2 {
        mistakes.at(ident, format_args!("a setter takes `&self` and the value; {FORM}"));
    }
    if let Some(argument) = signature.arguments.iter().find(|argument| argument.default.is_some()) {
        mistakes.at(&argument.default, "a setter always gets its value; remove #[default(...)]");
    }
    let is_nothing = |ty: &Type| matches!(without_group(ty), Type::Tuple(tuple) if tuple.elems.is_empty());
    if let Some(ty) = &signature.result
        && !is_nothing(ty)
        && !matches!(wrapper(ty), Some(("Result", inner)) if is_nothing(inner))
    {
        mistakes.at(ty, format_args!("a setter returns nothing; {FORM}"));
    }
}

fn check_getter(item: &ImplItemFn, signature: &Signature, mistakes: &mut Mistakes) {
    let ident = &item.sig.ident;
    if signature.is_static() {
        mistakes.at(ident, "a property belongs to an object; take `&self`");
    } else if signature.arguments.len() > 1 {
        mistakes.at(ident, "a property takes `&self` alone; make it a method: remove #[getter]");
    }
    if signature.result.is_none() {
        mistakes.at(ident, "a property has a value; return it, or make it a method: remove #[getter]");
    }
}

fn check_class_method(item: &ImplItemFn, signature: &Signature, self_type: &SelfType, mistakes: &mut Mistakes) {
    let is_made = signature.result.as_ref().is_some_and(|ty| self_type.is_constructed(ty));
    if !signature.is_static() || !is_made {
        mistakes.at(
            &item.sig.ident,
            "a class method makes an object: it has no `self`, and returns `Self`, `ObjRef<Self>` or a `Result` of one of these",
        );
    }
    if let Some(argument) = signature.arguments.iter().find(|argument| argument.name == "cls") {
        mistakes.at(
            &argument.written,
            "`cls` is the class that a class method is called on; give the parameter another name",
        );
    }
}

fn check_init(item: &ImplItemFn, signature: &Signature, self_type: &SelfType, mistakes: &mut Mistakes) {
    const RESULTS: &str = "a constructor returns `Self`, `ObjRef<Self>` or a `Result` of one of these";
    if !signature.is_static() {
        mistakes
            .at(&item.sig.ident, "a constructor makes the object, so it has no `self`; take the values of the fields");
    }
    match &signature.result {
        Some(ty) if self_type.is_constructed(ty) => {}
        Some(ty) => mistakes.at(ty, RESULTS),
        None => mistakes.at(&item.sig.ident, RESULTS),
    }
}
