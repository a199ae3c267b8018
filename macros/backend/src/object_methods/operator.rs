use syn::{Ident, Type};

use super::argument::Argument;
use super::self_type::wrapper;
use crate::mistakes::Mistakes;
use crate::signature::without_group;

/// The operations that other languages perform on an object without naming a method.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Repr,
    Str,
    Hash,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Compare,
}

const ALL: [(&str, Operator); 10] = [
    ("repr", Operator::Repr),
    ("str", Operator::Str),
    ("hash", Operator::Hash),
    ("compare", Operator::Compare),
    ("eq", Operator::Eq),
    ("ne", Operator::Ne),
    ("lt", Operator::Lt),
    ("le", Operator::Le),
    ("gt", Operator::Gt),
    ("ge", Operator::Ge),
];

pub(super) const KNOWN: &str = "`repr`, `str`, `hash`, `compare`, `eq`, `ne`, `lt`, `le`, `gt` and `ge`";

/// The operators that an order answers.
pub(super) const OF_ORDER: [Operator; 4] = [Operator::Lt, Operator::Le, Operator::Gt, Operator::Ge];

impl Operator {
    pub(super) fn named(name: &Ident) -> Option<Self> {
        ALL.iter().find(|(known, _)| name == known).map(|(_, operator)| *operator)
    }

    /// Returns the type attribute that runtimes look up.
    pub(super) fn attribute(self) -> &'static str {
        match self {
            Self::Repr | Self::Str => "__ffi_repr__",
            Self::Hash => "__ffi_hash__",
            Self::Eq | Self::Ne => "__ffi_eq__",
            Self::Lt | Self::Le | Self::Gt | Self::Ge | Self::Compare => "__ffi_compare__",
        }
    }

    /// Returns the method that Python looks up, for a comparison.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Eq => "__eq__",
            Self::Ne => "__ne__",
            Self::Lt => "__lt__",
            Self::Le => "__le__",
            Self::Gt => "__gt__",
            Self::Ge => "__ge__",
            Self::Repr | Self::Str | Self::Hash | Self::Compare => self.attribute(),
        }
    }

    /// Returns the method of `Ordering` that answers the operator.
    pub(super) fn test(self) -> &'static str {
        match self {
            Self::Lt => "is_lt",
            Self::Le => "is_le",
            Self::Gt => "is_gt",
            Self::Ge => "is_ge",
            Self::Ne => "is_ne",
            _ => "is_eq",
        }
    }

    /// Returns true if the operator is exported as a method, which may not apply to the other
    /// operand: hooks of the type compare two objects of it, and their order is a total one.
    pub(super) fn is_method(self, arguments: &[Argument], result: Option<&Type>) -> bool {
        match self {
            Self::Repr | Self::Str | Self::Hash => false,
            Self::Ne | Self::Le | Self::Gt | Self::Ge => true,
            Self::Eq | Self::Lt | Self::Compare => {
                arguments.get(1).is_some_and(|operand| !operand.is_object) || result.is_some_and(is_option)
            }
        }
    }

    /// The number of objects that are passed to the hook.
    pub(super) fn objects(self) -> usize {
        match self {
            Self::Repr | Self::Str | Self::Hash => 1,
            _ => 2,
        }
    }

    /// The name of the hook's last parameter, a function for nested values.
    pub(super) fn callback(self) -> &'static str {
        match self {
            Self::Repr | Self::Str => "print",
            Self::Hash => "hash",
            Self::Eq | Self::Ne => "equal",
            Self::Lt | Self::Le | Self::Gt | Self::Ge | Self::Compare => "compare",
        }
    }

    /// Returns true if the user's function may take the hook's last parameter.
    fn takes_callback(self) -> bool {
        matches!(self, Self::Repr | Self::Hash | Self::Eq | Self::Compare)
    }

    /// Returns the signature, for messages.
    fn example(self) -> &'static str {
        match self {
            Self::Repr => "fn repr(&self) -> String",
            Self::Str => "fn str(&self) -> String",
            Self::Hash => "fn hash(&self) -> u64",
            Self::Eq => "fn eq(&self, other: &Self) -> bool",
            Self::Ne => "fn ne(&self, other: &Self) -> bool",
            Self::Lt => "fn lt(&self, other: &Self) -> bool",
            Self::Le => "fn le(&self, other: &Self) -> bool",
            Self::Gt => "fn gt(&self, other: &Self) -> bool",
            Self::Ge => "fn ge(&self, other: &Self) -> bool",
            Self::Compare => "fn compare(&self, other: &Self) -> Ordering",
        }
    }

    fn results(self) -> &'static [&'static str] {
        match self {
            Self::Repr | Self::Str => &["String", "str", "Str"],
            Self::Hash => &["u64", "i64"],
            Self::Compare => &["Ordering"],
            _ => &["bool"],
        }
    }

    /// Checks the visible parts of a signature.
    pub(super) fn check(self, name: &Ident, arguments: &[Argument], result: Option<&Type>, mistakes: &mut Mistakes) {
        let example = self.example();
        let is_method = self.is_method(arguments, result);
        let takes_callback = self.takes_callback() && !is_method;
        let most = self.objects() + usize::from(takes_callback);
        let fits = arguments.first().is_some_and(Argument::is_self)
            && (self.objects()..=most).contains(&arguments.len())
            && (is_method || arguments[..self.objects()].iter().all(|argument| argument.is_object));
        if !fits {
            let callback = match takes_callback {
                true => format!(", if wanted with `{}: Function` for nested values", self.callback()),
                false => String::new(),
            };
            mistakes.at(name, format_args!("this operator has another signature: `{example}`{callback}"));
        }
        let word = |ty| if is_method { word(inside_option(ty)) } else { word(bare(ty)) };
        if !result.is_some_and(|ty| self.results().contains(&word(ty).as_str())) {
            match result {
                Some(ty) => mistakes.at(ty, format_args!("this operator has another result: `{example}`")),
                None => mistakes.at(name, format_args!("this operator has a result: `{example}`")),
            }
        }
        if let Some(argument) = arguments.iter().find(|argument| argument.default.is_some()) {
            mistakes.at(&argument.default, "parameters of operators have no default; remove #[default(...)]");
        }
    }
}

/// Returns a result's type without `Result` and `&` around it.
fn bare(ty: &Type) -> &Type {
    match (without_group(ty), wrapper(ty)) {
        (Type::Reference(reference), _) => bare(&reference.elem),
        (_, Some(("Result", inner))) => bare(inner),
        (ty, _) => ty,
    }
}

/// Returns true if a result is an `Option`, or a `Result` of one.
pub(super) fn is_option(ty: &Type) -> bool {
    matches!(wrapper(bare(ty)), Some(("Option", _)))
}

/// Returns a result's type without `Result`, `&` and `Option` around it.
fn inside_option(ty: &Type) -> &Type {
    match wrapper(bare(ty)) {
        Some(("Option", inner)) => without_group(inner),
        _ => bare(ty),
    }
}

/// Returns the last word of a type.
fn word(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
        _ => String::new(),
    }
}
