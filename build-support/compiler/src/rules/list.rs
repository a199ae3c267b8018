//! The list of rules: packed functions by name, in the order in which they are tried.
//!
//! A rule is a packed function `(schedule, stage, target) -> nothing or text`. Its arguments are a
//! `kernpack.schedule.Schedule`, the `kernpack.schedule.Stage` to schedule and a
//! `kernpack.TargetDescription`. It returns nothing if it scheduled the stage, and otherwise the
//! reason why it declined. In that case the schedule is restored, whatever the rule did.
//!
//! ```
//! use kernpack_compiler::rules::{self, Outcome};
//!
//! let never = rules::function(|schedule, stage, target| {
//!     Ok(Outcome::Declined(format!("`{}` is not for {}", schedule[stage].name(), target.name)))
//! });
//! let list = rules::insert(&rules::usual(), "before:gemm", "never", &never).unwrap();
//! assert_eq!(rules::names(&list).unwrap()[3..5], ["never", "gemm"]);
//! assert!(rules::insert(&list, "after:sparse", "never", &never).unwrap_err().what().contains("no rule `sparse`"));
//! ```

use kernpack::{Any, Array, Function, ObjRef, packed_func};

use super::{Outcome, TargetDescription};
use crate::error::{CompileError, ErrorKind, Result};
use crate::schedule::{Schedule, SharedSchedule, SharedStage, StageId};

/// The prefix of the names of built-in rules.
pub const PREFIX: &str = "kernpack.rule.";

/// The default rules, in order.
pub const USUAL: &[&str] = &[
    "winograd",
    "convolution",
    "depthwise",
    "gemm",
    "panels",
    "dot",
    "window",
    "rows",
    "reduction",
    "transpose",
    "elementwise",
];

/// The default rules for devices with threads, in order.
pub const DEVICE: &[&str] = &["threads"];

/// A rule with its name in notes.
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) function: Function,
}

/// Returns the list of the usual rules, which an empty `PassContext::rules` means.
#[packed_func(name = "kernpack.rules.usual")]
pub fn usual() -> Array<Any> {
    USUAL.iter().map(|name| Any::from(*name)).collect()
}

/// Returns the list of the usual rules for devices with threads, which an empty
/// `PassContext::rules` means for their targets.
#[packed_func(name = "kernpack.rules.device")]
pub fn device() -> Array<Any> {
    DEVICE.iter().map(|name| Any::from(*name)).collect()
}

/// Converts a closure to the packed function of a rule.
pub fn function<F>(rule: F) -> Function
where
    F: Fn(&mut Schedule, StageId, &TargetDescription) -> Result<Outcome> + Send + Sync + 'static,
{
    Function::from_fn(
        move |schedule: SharedSchedule,
              stage: SharedStage,
              target: ObjRef<TargetDescription>|
              -> kernpack::Result<Option<String>> {
            match rule(&mut schedule.lock(), stage.id(), &target)? {
                Outcome::Applied => Ok(None),
                Outcome::Declined(reason) => Ok(Some(reason)),
            }
        },
    )
}

/// Returns the list with one more rule. `place` is `first`, `last`, or `before:NAME`, `after:NAME`
/// or `instead:NAME` of a rule in the list.
///
/// # Errors
/// Returns an error for another place, or if no rule in the list has that name.
pub fn insert(list: &Array<Any>, place: &str, name: &str, rule: &Function) -> Result<Array<Any>> {
    let known = names(list)?;
    let find = |other: &str| {
        known.iter().position(|name| name == other).ok_or_else(|| {
            CompileError::new(ErrorKind::Schedule, format!("rule `{name}`: there is no rule `{other}` in the list"))
                .note(format!("the rules are {}", known.join(", ")))
        })
    };
    let (position, replaces) = match place.split_once(':') {
        None if place == "first" => (0, false),
        None if place == "last" => (known.len(), false),
        Some(("before", other)) => (find(other)?, false),
        Some(("after", other)) => (find(other)? + 1, false),
        Some(("instead", other)) => (find(other)?, true),
        _ => {
            return Err(CompileError::new(ErrorKind::Schedule, format!("rule `{name}`: unknown place `{place}`"))
                .note("a place is `first`, `last`, `before:NAME`, `after:NAME` or `instead:NAME`"));
        }
    };
    let mut entries: Vec<Any> = list.iter().collect();
    if replaces {
        entries.remove(position);
    }
    let entry: Array<Any> = [Any::from(name), Any::from(rule.clone())].into_iter().collect();
    entries.insert(position, entry.into());
    Ok(entries.into())
}

/// Returns the names in a list of rules.
///
/// # Errors
/// Returns an error for an entry that is not a rule.
pub fn names(list: &Array<Any>) -> Result<Vec<String>> {
    list.iter().map(|entry| named(&entry).map(|(name, _)| name)).collect()
}

/// Resolves the rules of a list.
pub(crate) fn resolve(list: &Array<Any>) -> Result<Vec<Rule>> {
    let resolve = |entry: Any| {
        let (name, function) = named(&entry)?;
        let function = match function {
            Some(function) => function,
            None => find(&name)?,
        };
        Ok(Rule { name: name.strip_prefix(PREFIX).unwrap_or(&name).to_owned(), function })
    };
    list.iter().map(resolve).collect()
}

/// The name and, if it has its own, the function of an entry: a name, a function, or both.
fn named(entry: &Any) -> Result<(String, Option<Function>)> {
    if let Ok(name) = entry.to::<String>() {
        return Ok((name, None));
    }
    if let Ok(function) = entry.to::<Function>() {
        return Ok(("function".to_owned(), Some(function)));
    }
    if let Ok(pair) = entry.to::<Array<Any>>()
        && pair.len() == 2
        && let (Some(name), Some(function)) = (pair.get(0), pair.get(1))
        && let (Ok(name), Ok(function)) = (name.to::<String>(), function.to::<Function>())
    {
        return Ok((name, Some(function)));
    }
    let what = format!("a list of rules has names, functions, and pairs of both, got {}", entry.type_name());
    Err(CompileError::new(ErrorKind::Schedule, what))
}

fn find(name: &str) -> Result<Function> {
    for global in [&format!("{PREFIX}{name}"), name] {
        if let Some(function) = Function::find_global(global)? {
            return Ok(function);
        }
    }
    Err(CompileError::new(ErrorKind::Schedule, format!("unknown rule `{name}`"))
        .note(format!("a rule is a global function of that name, or of `{PREFIX}{name}`")))
}

impl Rule {
    /// Tries the rule on a stage. If it declines, the schedule is restored.
    pub(crate) fn apply(
        &self,
        schedule: &SharedSchedule,
        id: StageId,
        target: &ObjRef<TargetDescription>,
    ) -> Result<Outcome> {
        let before = schedule.lock().clone();
        let said = self
            .function
            .call((schedule, schedule.shared(id), target))
            .map_err(|error| CompileError::from(error).note(format!("in rule `{}`", self.name)))?;
        let reason = if said.is_none() || said.to::<bool>().is_ok_and(|applied| applied) {
            return Ok(Outcome::Applied);
        } else if let Ok(reason) = said.to::<String>() {
            reason
        } else if said.to::<bool>().is_ok() {
            "it gave no reason".to_owned()
        } else {
            let what = format!("rule `{}` gave {}", self.name, said.type_name());
            return Err(CompileError::new(ErrorKind::Schedule, what)
                .note("a rule gives nothing back if it scheduled the stage, and else the reason why not"));
        };
        *schedule.lock() = before;
        Ok(Outcome::Declined(reason))
    }
}

#[packed_func(name = "kernpack.rules.insert")]
fn insert_packed(list: Array<Any>, place: &str, name: &str, rule: Function) -> kernpack::Result<Array<Any>> {
    Ok(insert(&list, place, name, &rule)?)
}

/// Defines the packed functions of built-in rules.
macro_rules! packed {
    ($($name:literal $rule:ident = $module:ident::$apply:ident),* $(,)?) => { $(
        #[packed_func(name = $name)]
        fn $rule(
            schedule: SharedSchedule,
            stage: SharedStage,
            target: ObjRef<TargetDescription>,
        ) -> kernpack::Result<Option<String>> {
            match super::$module::$apply(&mut schedule.lock(), stage.id(), &target)? {
                Outcome::Applied => Ok(None),
                Outcome::Declined(reason) => Ok(Some(reason)),
            }
        }
    )* };
}

packed! {
    "kernpack.rule.winograd" winograd = convolution::apply_winograd,
    "kernpack.rule.convolution" convolution = convolution::apply,
    "kernpack.rule.depthwise" depthwise = convolution::apply_depthwise,
    "kernpack.rule.gemm" gemm = gemm::apply,
    "kernpack.rule.panels" panels = panels::apply,
    "kernpack.rule.dot" dot = dot::apply,
    "kernpack.rule.window" window = window::apply,
    "kernpack.rule.rows" rows = rows::apply,
    "kernpack.rule.reduction" reduction = reduction::apply,
    "kernpack.rule.transpose" transpose = transpose::apply,
    "kernpack.rule.elementwise" elementwise = elementwise::apply,
    "kernpack.rule.threads" threads = threads::apply,
}
