use proc_macro2::Ident;
use syn::{Attribute, Expr, LitStr};

use crate::mistakes::Mistakes;
use crate::name::field_name_fault;
use crate::options::{Entry, attribute_options, entries};

const KNOWN: &str = "`writable`, `default = expr`, `default_factory = function`, `kw_only`, `init = false`, `repr = false`, \
                     `compare = false`, `hash = false`, `structural = \"ignore\"`, `name = \"...\"` and `skip`";

/// The options of `#[field(...)]` for one field of a struct or of an enum's variant.
#[derive(Default)]
pub(super) struct FieldOptions {
    /// True if the attribute is present, even without options.
    pub(super) present: bool,
    /// The field is hidden from other languages.
    pub(super) skip: bool,
    /// Other languages may set the field.
    pub(super) writable: bool,
    pub(super) default: Option<FieldDefault>,
    pub(super) kw_only: bool,
    /// The option that removes the field from the parameters of the generated constructor, for
    /// messages.
    pub(super) no_init: Option<Ident>,
    pub(super) no_repr: bool,
    pub(super) no_compare: bool,
    pub(super) no_hash: bool,
    pub(super) structural: Option<StructuralRule>,
    /// The name in other languages.
    pub(super) name: Option<LitStr>,
}

/// The initial value of a field that the caller does not set.
#[derive(Clone)]
pub(super) enum FieldDefault {
    /// An expression of the field's type.
    Value(Expr),
    /// A function or closure that returns the field's type.
    Factory(Expr),
}

/// The treatment of a field by structural equality and hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StructuralRule {
    Ignore,
    DefPattern,
    DefSimple,
}

impl FieldOptions {
    pub(super) fn parse(attributes: &[Attribute], mistakes: &mut Mistakes) -> Self {
        let (attribute, tokens) = attribute_options(attributes, "field", "", mistakes);
        let mut options = Self { present: attribute.is_some(), ..Self::default() };
        let mut skip = None;
        let mut kw_only = None;
        // Options that apply only to fields that other languages see.
        let mut visible = Vec::new();
        for entry in entries(tokens, KNOWN, mistakes) {
            let key = entry.key.clone();
            let word = key.to_string();
            if !matches!(word.as_str(), "skip" | "default" | "default_factory") {
                visible.push(key.clone());
            }
            match word.as_str() {
                "skip" => skip = Some(entry.flag(mistakes)),
                "writable" => {
                    entry.flag(mistakes);
                    options.writable = true;
                }
                "kw_only" => kw_only = Some(entry.flag(mistakes)),
                "default" => {
                    let default = entry.expression("0", mistakes).map(FieldDefault::Value);
                    options.set_default(&key, default, mistakes);
                }
                "default_factory" => {
                    let default = entry.expression("Vec::new", mistakes).map(FieldDefault::Factory);
                    options.set_default(&key, default, mistakes);
                }
                "init" => options.no_init = switched_off(entry, mistakes),
                "repr" => options.no_repr = switched_off(entry, mistakes).is_some(),
                "compare" => options.no_compare = switched_off(entry, mistakes).is_some(),
                "hash" => options.no_hash = switched_off(entry, mistakes).is_some(),
                "structural" => options.structural = structural_rule(entry, mistakes),
                "name" => options.name = field_name(entry, mistakes),
                _ => {
                    visible.pop();
                    entry.unknown(KNOWN, mistakes);
                }
            }
        }
        if skip.is_some() {
            for key in visible {
                mistakes.at(
                    &key,
                    format_args!(
                        "`{key}` is about a field that other languages see, and `skip` hides the field from them; \
                         remove one of the two"
                    ),
                );
            }
        } else if let (Some(kw_only), Some(_)) = (&kw_only, &options.no_init) {
            mistakes.at(
                kw_only,
                "`kw_only` says how the constructor takes the field, and `init = false` that it does not; \
                 remove one of the two",
            );
        }
        options.skip = skip.is_some();
        options.kw_only = kw_only.is_some();
        options
    }

    fn set_default(&mut self, key: &Ident, default: Option<FieldDefault>, mistakes: &mut Mistakes) {
        if self.default.is_some() {
            mistakes.at(
                key,
                "`default` and `default_factory` exclude each other: the one is evaluated once, the other for each object; \
                 keep one",
            );
        } else {
            self.default = default;
        }
    }

    /// Returns the ABI's flags for these options, except that of writable fields, as names in
    /// `abi::field_flag`.
    pub(super) fn flags(&self) -> Vec<&'static str> {
        let structural = match self.structural {
            Some(StructuralRule::Ignore) => "SEQ_HASH_IGNORE",
            Some(StructuralRule::DefPattern) => "SEQ_HASH_DEF_PATTERN",
            Some(StructuralRule::DefSimple) => "SEQ_HASH_DEF_SIMPLE",
            None => "",
        };
        [
            (self.no_repr, "REPR_OFF"),
            (self.no_compare, "COMPARE_OFF"),
            (self.no_hash, "HASH_OFF"),
            (self.no_init.is_some(), "INIT_OFF"),
            (self.kw_only, "KW_ONLY"),
            (self.structural.is_some(), structural),
        ]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect()
    }
}

/// Returns the option's name, if it is `false`.
fn switched_off(entry: Entry, mistakes: &mut Mistakes) -> Option<Ident> {
    let key = entry.key.clone();
    (!entry.boolean(mistakes)?).then_some(key)
}

fn structural_rule(entry: Entry, mistakes: &mut Mistakes) -> Option<StructuralRule> {
    let rule = entry.string(mistakes)?;
    match rule.value().as_str() {
        "ignore" => Some(StructuralRule::Ignore),
        "def" => Some(StructuralRule::DefPattern),
        "def_simple" => Some(StructuralRule::DefSimple),
        other => {
            mistakes.at(
                &rule,
                format_args!(
                    "unknown structural rule `{other}`; the rules for a field are `ignore` (left out of structural equality \
                     and hash), `def` and `def_simple` (the field defines variables)"
                ),
            );
            None
        }
    }
}

fn field_name(entry: Entry, mistakes: &mut Mistakes) -> Option<LitStr> {
    let name = entry.string(mistakes)?;
    if let Some(fault) = field_name_fault(&name.value()) {
        mistakes.at(&name, fault);
        return None;
    }
    Some(name)
}
