//! The number of problems that each crate may have: it only goes down.

use super::problems::{Kind, Problem};
use crate::Result;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Numbers of problems by the folder of the crate and the kind; `.` is the root. None is 0.
#[derive(Default)]
pub(super) struct Counts(BTreeMap<(String, Kind), usize>);

impl Counts {
    /// Counts problems by the innermost crate that each is in.
    pub(super) fn of(problems: &[Problem], crates: &[&str]) -> Counts {
        let mut counts = Counts::default();
        for problem in problems {
            *counts.0.entry((crate_of(&problem.path, crates).to_string(), problem.kind)).or_default() += 1;
        }
        counts
    }

    /// Reads lines like `runtime/core long 12`.
    pub(super) fn read(text: &str) -> Result<Counts> {
        let mut counts = Counts::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let [folder, name, count] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(format!("expected 'folder kind count', found '{line}'").into());
            };
            let kind = Kind::ALL.into_iter().find(|kind| kind.1 == name).ok_or(format!("no kind '{name}'"))?.0;
            counts.0.insert((folder.to_string(), kind), count.parse()?);
        }
        Ok(counts)
    }

    /// Returns whether there are no problems.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, folder: &str, kind: Kind) -> usize {
        self.0.get(&(folder.to_string(), kind)).copied().unwrap_or(0)
    }

    /// Returns whether the crate of this problem has more of its kind than are allowed.
    pub(super) fn is_exceeded(&self, counts: &Counts, problem: &Problem) -> bool {
        // The folders of `counts` are all that matter: the problem was counted in one of them.
        let folders: Vec<&str> = counts.0.keys().map(|(folder, _)| folder.as_str()).collect();
        let folder = crate_of(&problem.path, &folders);
        counts.get(folder, problem.kind) > self.get(folder, problem.kind)
    }

    /// The counts that differ from the allowed ones, and what to do.
    pub(super) fn differences(&self, counts: &Counts) -> Vec<String> {
        let mut keys: Vec<_> = self.0.keys().chain(counts.0.keys()).collect();
        keys.sort();
        keys.dedup();
        let difference = |(folder, kind): &(String, Kind)| {
            let (allowed, count) = (self.get(folder, *kind), counts.get(folder, *kind));
            let name = Kind::ALL[*kind as usize].1;
            match count.cmp(&allowed) {
                std::cmp::Ordering::Greater => {
                    Some(format!("{folder}: {name}: {count}, at most {allowed} are allowed"))
                }
                std::cmp::Ordering::Equal => None,
                std::cmp::Ordering::Less => Some(format!(
                    "{folder}: {name}: {count}, below the {allowed} in the table: lower it with `cargo xtask words --bless`"
                )),
            }
        };
        keys.into_iter().filter_map(difference).collect()
    }

    /// The smaller number of both, of each crate and kind.
    pub(super) fn lowered_to(&self, counts: &Counts) -> Counts {
        let lower = |(key, allowed): (&(String, Kind), &usize)| (key.clone(), counts.get(&key.0, key.1).min(*allowed));
        Counts(self.0.iter().map(lower).filter(|(_, count)| *count > 0).collect())
    }

    /// A line for each crate, and one for the sum.
    pub(super) fn summary(&self) -> String {
        let mut rows: BTreeMap<&str, [usize; Kind::ALL.len()]> = BTreeMap::new();
        let mut sum = [0; Kind::ALL.len()];
        for ((folder, kind), count) in &self.0 {
            rows.entry(folder).or_default()[*kind as usize] += count;
            sum[*kind as usize] += count;
        }
        let mut summary = String::new();
        for (folder, counts) in rows.into_iter().chain([("all", sum)]) {
            let counts = Kind::ALL.map(|(kind, name)| format!("{name} {}", counts[kind as usize]));
            // Writing to a text does not fail.
            let _ = writeln!(summary, "words: {folder}: {}", counts.join(", "));
        }
        summary
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Problems that `cargo xtask words` still allows: crate, kind, count. `--bless` lowers them.")?;
        self.0
            .iter()
            .try_for_each(|((folder, kind), count)| writeln!(f, "{folder} {} {count}", Kind::ALL[*kind as usize].1))
    }
}

/// The innermost of these folders that has this file; `.` if none has it.
fn crate_of<'a>(path: &str, folders: &[&'a str]) -> &'a str {
    let has = |folder: &&&str| path.strip_prefix(**folder).is_some_and(|rest| rest.starts_with('/'));
    folders.iter().filter(has).max_by_key(|folder| folder.len()).copied().unwrap_or(".")
}
