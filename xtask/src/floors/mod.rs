//! `cargo xtask floors`: a room imports only from floors below it, and a crate depends only on
//! crates below it.
//!
//! The order is defined in ARCHITECTURE.md, section Floors, in tables with the header
//! `| of | floors |`:
//!
//! - `| crates | formats < core < capi |`: an order of crates, by the names in their manifests. Of
//!   the crates of the workspace, a crate in such a row may depend only on those to the left of it
//!   in a row.
//! - `` | `kernpack-core` | a < b, c < d + e | ``: the rooms of a crate (the modules of its root),
//!   or of a module (`` `kernpack-core::module` ``), from the lowest floor to the highest. Rooms
//!   separated by a comma are on one floor and must not use each other; rooms joined by a plus sign
//!   may use each other. Each room is in the row once.
//! - `` | exception | `from` -> `to` | reason | ``: a room (or a crate) that may use a higher one,
//!   and the reason. An unused exception is an error.
//!
//! The check covers the paths that begin with `crate`, `super` or `self`: in `use` lines, in code
//! and in macros. A path is resolved to the definition of the item, through `use` lines. The root
//! of a crate, or of a module, may import all of its rooms. The body of an exported macro is
//! exempt, because it is code of the crate that calls it. Code under `#[cfg(test)]` is exempt,
//! because a unit test may construct its inputs with higher rooms. Dependencies for development are
//! exempt for the same reason.

mod crates;
mod modules;
mod order;

#[cfg(test)]
mod tests;

use self::crates::Crates;
use self::modules::Modules;
use self::order::{Order, Tables};
use crate::Result;
use crate::workspace::Workspace;
use std::path::Path;

/// Checks the whole workspace, and prints the problems, one line each.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    let problems = check(workspace.root())?;
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err("floors: 1 import goes up".into()),
        count => Err(format!("floors: {count} imports go up").into()),
    }
}

/// The problems in the workspace of this folder.
fn check(root: &Path) -> Result<Vec<String>> {
    let tables = Tables::read(&std::fs::read_to_string(root.join("ARCHITECTURE.md"))?)?;
    let crates = Crates::of_workspace(root)?;
    let mut used = vec![false; tables.exceptions.len()];
    let mut problems = crates.against(&tables.crates, &tables.exceptions, &mut used);
    for order in &tables.rooms {
        let Some(folder) = crates.folder(order.crate_name()) else {
            return Err(format!("ARCHITECTURE.md: no crate {} in the workspace", order.crate_name()).into());
        };
        let modules = Modules::read(root, &folder.join("src/lib.rs"))?;
        problems.extend(against(&modules, order, &tables, &mut used)?);
    }
    for (exception, _) in tables.exceptions.iter().zip(used).filter(|(_, used)| !used) {
        problems.push(format!("ARCHITECTURE.md: nothing needs the exception {} -> {}", exception.from, exception.to));
    }
    Ok(problems)
}

/// The imports that violate an order of rooms, and rooms that exist only in the order or only in
/// the sources.
fn against(modules: &Modules, order: &Order, tables: &Tables, used: &mut [bool]) -> Result<Vec<String>> {
    let within = order.path();
    let mut problems = Vec::new();
    let Some(rooms) = modules.children(&within) else {
        return Err(format!("ARCHITECTURE.md: no module {} in the sources", order.name).into());
    };
    for room in rooms.iter().filter(|room| order.place(room).is_none()) {
        problems.push(format!("ARCHITECTURE.md: the row of {} lacks the room {room}", order.name));
    }
    for room in order.rooms().filter(|room| !rooms.contains(*room)) {
        problems
            .push(format!("ARCHITECTURE.md: the row of {} has a room {room}, which is not in the sources", order.name));
    }
    for import in modules.imports() {
        let (Some(from), Some(to)) = (import.from.get(within.len()), import.to.get(within.len())) else { continue };
        let is_within = import.from.starts_with(&within) && import.to.starts_with(&within);
        if !is_within || from == to || order.allows(from, to) {
            continue;
        }
        let exception = tables.exceptions.iter().position(|exception| {
            exception.from == format!("{}::{from}", order.name) && exception.to == format!("{}::{to}", order.name)
        });
        if let Some(exception) = exception {
            used[exception] = true;
            continue;
        }
        let floor = |room| order.place(room).map_or(String::new(), |floor| format!(" (floor {})", floor + 1));
        problems.push(format!(
            "{}:{}: {from}{} reaches up to {to}{}: {}",
            import.file.display(),
            import.line,
            floor(from),
            floor(to),
            import.path
        ));
    }
    Ok(problems)
}
