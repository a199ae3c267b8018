use proc_macro2::TokenStream;
use syn::{LitInt, LitStr};

use crate::mistakes::Mistakes;
use crate::name::function_name_fault;
use crate::options::{CratePath, Entry, entries};

const KNOWN: &str = "`name = \"...\"`, `signature = \"(x, /, *, key=None)\"`, `parallel`, `grain = 1`, `detach`, `global = false` and `crate = path`";

/// The options of `#[packed_func(...)]`.
pub(super) struct Options {
    /// The exported name. The default is the name of the function.
    pub(super) name: Option<LitStr>,
    /// The parameters in Python's syntax.
    pub(super) signature: Option<LitStr>,
    /// True if a global function is registered.
    pub(super) global: bool,
    /// True if the function is called for each element or row of its tensors.
    pub(super) parallel: bool,
    /// The minimum number of elements or rows for a thread.
    pub(super) grain: Option<LitInt>,
    /// True if the Python lock is released during a call. Without it, the parameters decide.
    pub(super) detach: Option<bool>,
    pub(super) krate: CratePath,
}

impl Options {
    pub(super) fn parse(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        Self::read(entries(tokens, KNOWN, mistakes), mistakes)
    }

    fn read(entries: Vec<Entry>, mistakes: &mut Mistakes) -> Self {
        let mut options = Self {
            name: None,
            signature: None,
            global: true,
            parallel: false,
            grain: None,
            detach: None,
            krate: CratePath(None),
        };
        for entry in entries {
            if entry.key == "name" {
                options.name = entry.string(mistakes);
            } else if entry.key == "signature" {
                options.signature = entry.string(mistakes);
            } else if entry.key == "global" {
                options.global = entry.boolean(mistakes).unwrap_or(true);
            } else if entry.key == "parallel" {
                entry.flag(mistakes);
                options.parallel = true;
            } else if entry.key == "grain" {
                options.grain = entry.integer(mistakes);
            } else if entry.key == "detach" {
                options.detach = Some(entry.flag_or_boolean(mistakes).unwrap_or(true));
            } else if entry.key == "crate" {
                options.krate.0 = entry.path(mistakes);
            } else {
                entry.unknown(KNOWN, mistakes);
            }
        }
        options.check_name(mistakes);
        options
    }

    /// Parses the options of `#[constant(...)]`.
    pub(super) fn parse_constant(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        const KNOWN: &str = "`name = \"...\"`, `global = false` and `crate = path`";
        let (allowed, other): (Vec<_>, Vec<_>) = entries(tokens, KNOWN, mistakes)
            .into_iter()
            .partition(|entry| ["name", "global", "crate"].iter().any(|known| entry.key == known));
        other.into_iter().for_each(|entry| entry.unknown(KNOWN, mistakes));
        Self::read(allowed, mistakes)
    }

    fn check_name(&self, mistakes: &mut Mistakes) {
        if let Some(name) = &self.name
            && let Some(fault) = function_name_fault(&name.value())
        {
            mistakes.at(name, fault);
        }
    }
}
