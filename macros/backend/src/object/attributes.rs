use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::{Attribute, LitStr, Meta};

use crate::mistakes::Mistakes;
use crate::name::type_key_fault;
use crate::options::{CratePath, Entry, attribute_options, entries};

const KNOWN: &str = "`key = \"...\"`, `structural = \"tree\"`, `child_slots = 8`, `final`, `init = false`, `create = false`, \
                     `enum = \"int\"`, `rename_all = \"UPPERCASE\"` and `crate = path`";

/// The parsed attributes of the item.
pub(super) struct Attributes {
    pub(super) key: Option<LitStr>,
    pub(super) krate: CratePath,
    pub(super) structural: StructuralKind,
    /// The number of type indices reserved after the type's own for its subtypes, if given.
    pub(super) child_slots: Option<i32>,
    pub(super) is_final: bool,
    /// True if an `__ffi_init__` is generated.
    pub(super) init: bool,
    /// True if other languages may create objects.
    pub(super) create: bool,
    /// `enum = "int"` or `"str"`, only for enums. The text is one of the two.
    pub(super) enumeration: Option<LitStr>,
    /// The case of the names of an enum's variants in other languages.
    pub(super) rename_all: Option<LitStr>,
    /// The options that were given, by name.
    given: Vec<Ident>,
}

/// The treatment of objects of a type by structural equality and hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StructuralKind {
    Tree,
    ConstTree,
    Dag,
    Var,
    Singleton,
    Unsupported,
}

impl Attributes {
    /// Reads `#[object(...)]`, which must give a key. `name` is the item's name, for the message.
    pub(super) fn parse(attributes: &[Attribute], name: &Ident, mistakes: &mut Mistakes) -> Self {
        let mut parsed = Self {
            key: None,
            krate: CratePath(None),
            structural: StructuralKind::Tree,
            child_slots: None,
            is_final: false,
            init: true,
            create: true,
            enumeration: None,
            rename_all: None,
            given: Vec::new(),
        };
        for attribute in attributes {
            for misplaced in ["base", "field"] {
                if attribute.path().is_ident(misplaced) {
                    let place = if misplaced == "base" { "the first field" } else { "a field" };
                    mistakes
                        .at(attribute, format_args!("#[{misplaced}] is not supported on a type; put it on {place}"));
                }
            }
        }
        let (attribute, options) = attribute_options(attributes, "object", "#[object(key = \"...\")]", mistakes);
        for entry in entries(options, KNOWN, mistakes) {
            parsed.given.push(entry.key.clone());
            parsed.take(entry, mistakes);
        }
        match &parsed.key {
            Some(key) => {
                if let Some(fault) = type_key_fault(&key.value()) {
                    mistakes.at(key, fault);
                }
            }
            None if parsed.given("key").is_some() => {}
            None => {
                let what = if attribute.is_some() {
                    "#[object(...)] has no key"
                } else {
                    "#[derive(Object)] needs a type key"
                };
                mistakes.at(name, format_args!("{what}; add #[object(key = \"your_library.{name}\")]"));
            }
        }
        parsed.check_contradictions(mistakes);
        parsed
    }

    fn take(&mut self, entry: Entry, mistakes: &mut Mistakes) {
        match entry.key.to_string().as_str() {
            "key" => self.key = entry.string(mistakes),
            "crate" => self.krate.0 = entry.path(mistakes),
            "structural" => self.structural = structural_kind(entry, mistakes).unwrap_or(StructuralKind::Tree),
            "child_slots" => self.child_slots = child_slots(entry, mistakes),
            "final" => {
                entry.flag(mistakes);
                self.is_final = true;
            }
            "init" => self.init = entry.boolean(mistakes).unwrap_or(true),
            "create" => self.create = entry.boolean(mistakes).unwrap_or(true),
            "enum" => self.enumeration = enumeration(entry, mistakes),
            "rename_all" => self.rename_all = entry.string(mistakes),
            _ => entry.unknown(KNOWN, mistakes),
        }
    }

    fn check_contradictions(&self, mistakes: &mut Mistakes) {
        if let (true, Some(1..), Some(key)) = (self.is_final, self.child_slots, self.given("child_slots")) {
            mistakes
                .at(key, "`child_slots` keeps room for subtypes, and a `final` type has none; remove one of the two");
        }
        if let (true, false, Some(key)) = (self.init, self.create, self.given("init")) {
            mistakes.at(
                key,
                "a generated constructor needs a creator, and `create = false` says that only Rust makes objects; \
                 remove one of the two",
            );
        }
    }

    /// Returns the option, if it was given.
    pub(super) fn given(&self, option: &str) -> Option<&Ident> {
        self.given.iter().find(|key| *key == option)
    }

    /// Returns true if other languages get a constructor with a parameter for each field.
    pub(super) fn has_generated_init(&self) -> bool {
        self.init && self.create
    }
}

impl StructuralKind {
    /// Returns its name in `abi::seq_hash_kind`.
    pub(super) fn constant(self) -> Ident {
        let name = match self {
            Self::Tree => "TREE_NODE",
            Self::ConstTree => "CONST_TREE_NODE",
            Self::Dag => "DAG_NODE",
            Self::Var => "FREE_VAR",
            Self::Singleton => "UNIQUE_INSTANCE",
            Self::Unsupported => "UNSUPPORTED",
        };
        Ident::new(name, Span::call_site())
    }
}

pub(super) fn structural_kind(entry: Entry, mistakes: &mut Mistakes) -> Option<StructuralKind> {
    let kind = entry.string(mistakes)?;
    Some(match kind.value().as_str() {
        "tree" => StructuralKind::Tree,
        "const_tree" => StructuralKind::ConstTree,
        "dag" => StructuralKind::Dag,
        "var" => StructuralKind::Var,
        "singleton" => StructuralKind::Singleton,
        "unsupported" => StructuralKind::Unsupported,
        other => {
            mistakes.at(
                &kind,
                format_args!(
                    "unknown structural kind `{other}`; the kinds are `tree`, `const_tree`, `dag`, `var`, `singleton` and \
                     `unsupported`"
                ),
            );
            return None;
        }
    })
}

fn child_slots(entry: Entry, mistakes: &mut Mistakes) -> Option<i32> {
    let slots = entry.integer(mistakes)?;
    let count = slots.base10_parse().ok().filter(|count| (0..=1 << 16).contains(count));
    if count.is_none() {
        mistakes.at(&slots, "`child_slots` is how many subtypes to keep room for: a number from 0 to 65536");
    }
    count
}

fn enumeration(entry: Entry, mistakes: &mut Mistakes) -> Option<LitStr> {
    let kind = entry.string(mistakes)?;
    if !matches!(kind.value().as_str(), "int" | "str") {
        mistakes.at(
            &kind,
            format_args!("unknown kind of enum `{}`; write `enum = \"int\"` or `enum = \"str\"`", kind.value()),
        );
        return None;
    }
    Some(kind)
}

/// Checks that the layout is the one that other languages assume: exactly `#[repr(C)]`.
pub(super) fn check_representation(attributes: &[Attribute], name: &Ident, mistakes: &mut Mistakes) {
    let mut is_c = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let Meta::List(list) = &attribute.meta else { continue };
        for (word, span) in words(list.tokens.clone()) {
            match word.as_str() {
                "C" => is_c = true,
                "packed" => mistakes
                    .at_span(span, "repr(packed) is not supported: fields are read in place; use #[repr(C)] alone"),
                "align" => mistakes.at_span(
                    span,
                    "repr(align) is not supported: objects are aligned to 8 bytes; use #[repr(C)] alone",
                ),
                "transparent" => {
                    mistakes.at_span(span, "repr(transparent) is not supported; use #[repr(C)]");
                    is_c = true;
                }
                _ => {}
            }
        }
    }
    if !is_c {
        mistakes.at(name, "the fields of an object need a fixed layout; add #[repr(C)] to the struct");
    }
}

/// Returns the identifiers at the top level of a `repr`, without their arguments.
pub(super) fn words(tokens: TokenStream) -> impl Iterator<Item = (String, Span)> {
    tokens.into_iter().filter_map(|token| match token {
        TokenTree::Ident(ident) => Some((ident.to_string(), ident.span())),
        _ => None,
    })
}
