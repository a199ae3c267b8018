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
    Lt,
    Compare,
}

const ALL: [(&str, Operator); 6] = [
    ("repr", Operator::Repr),
    ("str", Operator::Str),
    ("hash", Operator::Hash),
    ("eq", Operator::Eq),
    ("lt", Operator::Lt),
    ("compare", Operator::Compare),
];

pub(super) const KNOWN: &str = "`repr`, `str`, `hash`, `eq`, `lt` and `compare`";

impl Operator {
    pub(super) fn named(name: &Ident) -> Option<Self> {
        ALL.iter().find(|(known, _)| name == known).map(|(_, operator)| *operator)
    }

    /// Returns the type attribute that runtimes look up.
    pub(super) fn attribute(self) -> &'static str {
        match self {
            Self::Repr | Self::Str => "__ffi_repr__",
            Self::Hash => "__ffi_hash__",
            Self::Eq => "__ffi_eq__",
            Self::Lt | Self::Compare => "__ffi_compare__",
        }
    }

    /// The number of objects that are passed to the hook.
    pub(super) fn objects(self) -> usize {
        match self {
            Self::Repr | Self::Str | Self::Hash => 1,
            Self::Eq | Self::Lt | Self::Compare => 2,
        }
    }

    /// The name of the hook's last parameter, a function for nested values.
    pub(super) fn callback(self) -> &'static str {
        match self {
            Self::Repr | Self::Str => "print",
            Self::Hash => "hash",
            Self::Eq => "equal",
            Self::Lt | Self::Compare => "compare",
        }
    }

    /// Returns true if the user's function may take the hook's last parameter.
    fn takes_callback(self) -> bool {
        !matches!(self, Self::Str | Self::Lt)
    }

    /// Returns the signature, for messages.
    fn example(self) -> &'static str {
        match self {
            Self::Repr => "fn repr(&self) -> String",
            Self::Str => "fn str(&self) -> String",
            Self::Hash => "fn hash(&self) -> u64",
            Self::Eq => "fn eq(&self, other: &Self) -> bool",
            Self::Lt => "fn lt(&self, other: &Self) -> bool",
            Self::Compare => "fn compare(&self, other: &Self) -> Ordering",
        }
    }

    fn results(self) -> &'static [&'static str] {
        match self {
            Self::Repr | Self::Str => &["String", "str", "Str"],
            Self::Hash => &["u64", "i64"],
            Self::Eq | Self::Lt => &["bool"],
            Self::Compare => &["Ordering"],
        }
    }

    /// Checks the visible parts of a signature.
    pub(super) fn check(self, name: &Ident, arguments: &[Argument], result: Option<&Type>, mistakes: &mut Mistakes) {
        let example = self.example();
        let most = self.objects() + usize::from(self.takes_callback());
        let fits = arguments.first().is_some_and(Argument::is_self)
            && (self.objects()..=most).contains(&arguments.len())
            && arguments[..self.objects()].iter().all(|argument| argument.is_object);
        if !fits {
            let callback = match self.takes_callback() {
                true => format!(", if wanted with `{}: Function` for nested values", self.callback()),
                false => String::new(),
            };
            mistakes.at(name, format_args!("this operator has another signature: `{example}`{callback}"));
        }
        if !result.is_some_and(|ty| self.results().contains(&result_name(ty).as_str())) {
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

/// Returns the last word of a result's type, without `Result` and `&` around it.
fn result_name(ty: &Type) -> String {
    match without_group(ty) {
        Type::Reference(reference) => result_name(&reference.elem),
        Type::Path(path) => match wrapper(ty) {
            Some(("Result", inner)) => result_name(inner),
            _ => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
        },
        _ => String::new(),
    }
}
