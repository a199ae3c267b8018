//! The licences and the sources of dependencies, compared with `deny.toml`.
//!
//! `cargo xtask deny` checks the same, and more, with cargo-deny. The check here needs only cargo.

use super::list;
use crate::Result;
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns the problems, one line each: dependencies whose licence is not allowed or that do not
/// come from the crate registry, and licences in the list that no dependency needs.
pub(super) fn problems(metadata: &Value, deny: &str) -> Result<Vec<String>> {
    let allowed = allowed(deny)?;
    let mut problems = Vec::new();
    let mut expressions = BTreeSet::new();
    let mut registries = BTreeSet::new();
    for package in list(metadata, "packages") {
        let (name, version) = (text(package, "name"), text(package, "version"));
        // A package of this workspace.
        let Some(source) = package["source"].as_str() else { continue };
        if source.starts_with("registry+") {
            registries.insert(source);
        } else {
            problems.push(format!("{name} {version}: source: expected the crate registry, found {source}"));
        }
        let expression = text(package, "license");
        if expression.is_empty() {
            problems.push(format!("{name} {version}: license: the manifest has none; deny.toml cannot allow that"));
            continue;
        }
        expressions.insert(expression);
        match is_met(expression, &allowed) {
            Ok(true) => {}
            Ok(false) => problems.push(format!(
                "{name} {version}: license: '{expression}' is not met by the licences that deny.toml allows; \
                 use another crate, or add the licence there"
            )),
            Err(problem) => problems.push(format!("{name} {version}: license: '{expression}': {problem}")),
        }
    }
    if registries.len() > 1 {
        problems.push(format!("sources: expected one registry, found {}", Vec::from_iter(registries).join(", ")));
    }
    for license in &allowed {
        let others: Vec<String> = allowed.iter().filter(|other| *other != license).cloned().collect();
        let needs =
            |expression: &&str| is_met(expression, &allowed) == Ok(true) && is_met(expression, &others) != Ok(true);
        if !expressions.iter().any(needs) {
            problems.push(format!("deny.toml: allow: no dependency needs {license}; remove it"));
        }
    }
    Ok(problems)
}

fn text<'v>(package: &'v Value, name: &str) -> &'v str {
    package[name].as_str().unwrap_or_default()
}

/// The list `allow` of the section `licenses`.
fn allowed(deny: &str) -> Result<Vec<String>> {
    let mut lines = deny.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.find(|line| *line == "[licenses]").ok_or("deny.toml has no section [licenses]")?;
    let section = lines.take_while(|line| !line.starts_with('[') || line.starts_with("[\""));
    let section: String = section.collect::<Vec<_>>().join(" ");
    let list = section.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.ok_or("deny.toml: [licenses] has no list `allow`")?;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Returns true if an expression of SPDX is met by these licences. The older `/` means `OR`.
fn is_met(expression: &str, allowed: &[String]) -> std::result::Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { words: spaced.split_whitespace().collect(), at: 0, allowed };
    let met = words.any()?;
    match words.peek() {
        None => Ok(met),
        Some(word) => Err(format!("expected AND or OR, found '{word}'")),
    }
}

/// The words of an expression, and the place of the next one.
struct Words<'e> {
    words: Vec<&'e str>,
    at: usize,
    allowed: &'e [String],
}

impl<'e> Words<'e> {
    fn peek(&self) -> Option<&'e str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        self.at += usize::from(is_next);
        is_next
    }

    /// Terms with OR between them.
    fn any(&mut self) -> std::result::Result<bool, String> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Ok(met)
    }

    /// Terms with AND between them.
    fn all(&mut self) -> std::result::Result<bool, String> {
        let mut met = self.term()?;
        while self.take("AND") {
            met &= self.term()?;
        }
        Ok(met)
    }

    /// A licence, a licence with an exception, or an expression in parentheses.
    fn term(&mut self) -> std::result::Result<bool, String> {
        if self.take("(") {
            let met = self.any()?;
            return if self.take(")") { Ok(met) } else { Err("a parenthesis is not closed".to_owned()) };
        }
        let mut license = self.name()?.to_owned();
        if self.take("WITH") {
            license = format!("{license} WITH {}", self.name()?);
        }
        Ok(self.allowed.contains(&license))
    }

    fn name(&mut self) -> std::result::Result<&'e str, String> {
        match self.peek() {
            Some(word) if !["AND", "OR", "WITH", "(", ")"].contains(&word) => {
                self.at += 1;
                Ok(word)
            }
            Some(word) => Err(format!("expected a licence, found '{word}'")),
            None => Err("expected a licence at its end".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DENY: &str = "[graph]\nall-features = true\n[licenses]\nallow = [\n    # \"GPL-3.0\"\n    \"MIT\", # first\n    \"A WITH B\",\n]\n[bans]\nallow = [\"other\"]\n";

    #[test]
    fn expressions() {
        let allowed = ["MIT", "ISC", "A WITH B"].map(str::to_owned);
        for (expression, expected) in [
            ("MIT", Ok(true)),
            ("GPL-3.0", Ok(false)),
            ("MIT/GPL-3.0", Ok(true)),
            ("GPL-3.0 OR MIT", Ok(true)),
            ("GPL-3.0 AND MIT", Ok(false)),
            ("(GPL-3.0 OR ISC) AND MIT", Ok(true)),
            ("GPL-3.0 OR ISC AND MIT", Ok(true)),
            ("GPL-3.0 AND ISC OR MIT", Ok(true)),
            ("MIT AND (GPL-3.0 OR X)", Ok(false)),
            ("A WITH B", Ok(true)),
            ("A", Ok(false)),
            ("MIT WITH B", Ok(false)),
            ("MIT ISC", Err("expected AND or OR, found 'ISC'")),
            ("(MIT", Err("a parenthesis is not closed")),
            ("MIT OR", Err("expected a licence at its end")),
            ("AND MIT", Err("expected a licence, found 'AND'")),
        ] {
            assert_eq!(is_met(expression, &allowed), expected.map_err(str::to_owned), "{expression}");
        }
    }

    #[test]
    fn the_list_of_licences() {
        assert_eq!(allowed(DENY).unwrap(), ["MIT", "A WITH B"]);
        assert!(allowed("[bans]\nallow = [\"x\"]\n").unwrap_err().to_string().contains("no section [licenses]"));
        assert!(allowed("[licenses]\n[bans]\nallow = [\"x\"]\n").unwrap_err().to_string().contains("no list `allow`"));
    }

    #[test]
    fn each_problem_of_a_dependency_is_named() {
        let metadata = json!({ "packages": [
            { "name": "ours", "version": "0.1.0", "source": null, "license": "Ours" },
            { "name": "good", "version": "1.0.0", "source": "registry+r", "license": "GPL-3.0 OR MIT" },
            { "name": "copyleft", "version": "1.1.0", "source": "registry+r", "license": "GPL-3.0" },
            { "name": "bare", "version": "1.2.0", "source": "registry+r", "license": null },
            { "name": "fetched", "version": "1.3.0", "source": "git+https://example.com/x", "license": "MIT" },
            { "name": "elsewhere", "version": "1.4.0", "source": "registry+s", "license": "MIT" },
        ] });
        assert_eq!(
            problems(&metadata, DENY).unwrap(),
            [
                "copyleft 1.1.0: license: 'GPL-3.0' is not met by the licences that deny.toml allows; use another crate, or add the licence there",
                "bare 1.2.0: license: the manifest has none; deny.toml cannot allow that",
                "fetched 1.3.0: source: expected the crate registry, found git+https://example.com/x",
                "sources: expected one registry, found registry+r, registry+s",
                "deny.toml: allow: no dependency needs A WITH B; remove it",
            ]
        );
    }
}
