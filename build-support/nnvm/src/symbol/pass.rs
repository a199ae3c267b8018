//! Passes by name, with the attributes of graphs that they require and provide.
//!
//! A pass is a function from a graph to a graph. Native passes are registered in a distributed
//! slice, and those of other languages with `kernpack.graph.pass_register`. Each is also a packed
//! function `kernpack.graph.pass.<name>`.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use kernpack::Function;
use kernpack_graph::{GraphError, Result, fail, require};
use linkme::distributed_slice;

use super::node::GraphRef;

/// The prefix of the packed functions of passes, followed by the name.
pub const PREFIX: &str = "kernpack.graph.pass.";

/// A pass.
#[derive(Clone, Copy)]
pub struct PassInfo {
    /// Its name.
    pub name: &'static str,
    /// The description, in one sentence.
    pub doc: &'static str,
    /// The attributes that a graph must have.
    pub requires: &'static [&'static str],
    /// The attributes that the pass adds.
    pub provides: &'static [&'static str],
    /// The function.
    pub run: fn(&GraphRef) -> Result<GraphRef>,
}

/// The passes of all crates.
#[distributed_slice]
pub static PASSES: [PassInfo];

/// A pass of another language.
#[derive(Clone)]
struct Foreign {
    function: Function,
    requires: Vec<String>,
    provides: Vec<String>,
}

static FOREIGN: RwLock<BTreeMap<String, Foreign>> = RwLock::new(BTreeMap::new());

fn foreign(name: &str) -> Option<Foreign> {
    FOREIGN.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}

fn ours(name: &str) -> Option<&'static PassInfo> {
    PASSES.iter().find(|pass| pass.name == name)
}

/// Returns the names of all passes, sorted.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = PASSES.iter().map(|pass| pass.name.to_owned()).collect();
    names.extend(FOREIGN.read().unwrap_or_else(PoisonError::into_inner).keys().cloned());
    names.sort();
    names
}

/// Returns the attributes that a pass requires and provides.
///
/// # Errors
/// Returns an error for an unknown pass.
pub fn describe(name: &str) -> Result<(Vec<String>, Vec<String>)> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    match (ours(name), foreign(name)) {
        (Some(pass), _) => Ok((owned(pass.requires), owned(pass.provides))),
        (None, Some(pass)) => Ok((pass.requires, pass.provides)),
        (None, None) => Err(unknown(name)),
    }
}

/// Returns a pass that provides an attribute.
pub fn giver(attr: &str) -> Option<String> {
    let own = PASSES
        .iter()
        .find(|pass| pass.provides.contains(&attr) && !pass.requires.contains(&attr))
        .map(|pass| pass.name.to_owned());
    own.or_else(|| {
        let foreign = FOREIGN.read().unwrap_or_else(PoisonError::into_inner);
        let found = foreign.iter().find(|(_, pass)| pass.provides.iter().any(|provided| provided == attr));
        found.map(|(name, _)| name.clone())
    })
}

fn unknown(name: &str) -> GraphError {
    let near: Vec<String> =
        names().into_iter().filter(|known| known.to_lowercase() == name.to_lowercase().replace('_', "")).collect();
    let hint = if near.is_empty() {
        format!("the passes are {}", names().join(", "))
    } else {
        format!("is it {}?", near.join(" or "))
    };
    GraphError::new(format!("unknown pass `{name}`: {hint}"))
}

/// Registers a pass in any language.
///
/// # Errors
/// Returns an error if the name is taken.
pub fn register(name: &str, function: &Function, requires: Vec<String>, provides: Vec<String>) -> Result<()> {
    require!(!name.is_empty() && ours(name).is_none(), "there is a pass `{name}` already, or it has no name");
    let mut foreign = FOREIGN.write().unwrap_or_else(PoisonError::into_inner);
    require!(!foreign.contains_key(name), "there is a pass `{name}` already");
    Function::register_global(&format!("{PREFIX}{name}"), function)?;
    foreign.insert(name.to_owned(), Foreign { function: function.clone(), requires, provides });
    Ok(())
}

/// Applies passes in order.
///
/// # Errors
/// Returns an error for an unknown pass, for a missing attribute, with the pass that provides it,
/// and the errors of passes, with their names.
pub fn apply(graph: &GraphRef, passes: &[&str]) -> Result<GraphRef> {
    let mut graph = graph.clone();
    for name in passes {
        let (requires, provides) = describe(name)?;
        for attr in &requires {
            if graph.attrs.get(attr.as_str()).is_some() {
                continue;
            }
            match giver(attr) {
                Some(giver) => fail!("pass {name} needs graph attribute `{attr}`: apply {giver} before it"),
                None => {
                    fail!("pass {name} needs graph attribute `{attr}`: set it before, with `kernpack.graph.set_attr`")
                }
            }
        }
        let within = |error: GraphError| error.within(&format!("pass {name}"));
        graph = match (ours(name), foreign(name)) {
            (Some(pass), _) => (pass.run)(&graph).map_err(within)?,
            (None, Some(pass)) => pass.function.call_as::<GraphRef>((&graph,)).map_err(|error| within(error.into()))?,
            (None, None) => return Err(unknown(name)),
        };
        for attr in &provides {
            require!(graph.attrs.get(attr.as_str()).is_some(), "pass {name} leaves no graph attribute `{attr}`");
        }
    }
    Ok(graph)
}
