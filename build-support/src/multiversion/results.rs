//! The results of compiling every version of every source: all products, or each problem once.

use crate::multiversion::Version;
use crate::multiversion::level::list;
use crate::{Error, Result};

/// Groups the products by version, each in the order of the sources. `rows` has a row for each
/// source, with one result for each version, or one error for all of them.
///
/// A problem of all versions is reported without version names. A problem of some versions names
/// them.
pub(crate) fn by_version<T>(
    versions: &[Version],
    sources: &[String],
    rows: Vec<Vec<Result<T>>>,
) -> Result<Vec<Vec<T>>> {
    let mut products: Vec<Vec<T>> = versions.iter().map(|_| Vec::new()).collect();
    let mut problems = Vec::new();
    for (source, row) in sources.iter().zip(rows) {
        let is_for_all = row.len() < versions.len();
        let mut found: Vec<Problem> = Vec::new();
        for (index, result) in row.into_iter().enumerate() {
            match result {
                Ok(product) => products[index].push(product),
                Err(error) => error.problems().iter().for_each(|text| note(&mut found, text, versions[index])),
            }
        }
        problems.extend(found.into_iter().map(|problem| {
            let is_everywhere = is_for_all || problem.versions.len() == versions.len();
            Error::new(if is_everywhere { problem.text } else { problem.named(source) })
        }));
    }
    Error::collect(problems.into_iter().map(Err::<(), _>)).map(|_| products)
}

/// The warnings of all versions of a source, each text once.
pub(crate) fn warnings_once<'a>(source: &str, texts: impl Iterator<Item = (Version, &'a str)>) -> String {
    let mut shown: Vec<&str> = Vec::new();
    let mut all = String::new();
    for (version, text) in texts.filter(|(_, text)| !text.trim().is_empty()) {
        if shown.contains(&text) {
            continue;
        }
        shown.push(text);
        if version.level.is_some() {
            all.push_str(&format!("{}:\n", version.source(source)));
        }
        all.push_str(text);
    }
    all
}

struct Problem {
    text: String,
    /// The text without the parts that differ between versions for the same problem.
    key: String,
    versions: Vec<Version>,
}

impl Problem {
    /// Adds the versions after the source's name.
    fn named(&self, source: &str) -> String {
        let versions = list(self.versions.iter().map(Version::to_string), "and");
        match self.text.strip_prefix(source) {
            Some(rest) => format!("{source} ({versions}){rest}"),
            None => format!("({versions}) {}", self.text),
        }
    }
}

fn note(found: &mut Vec<Problem>, text: &str, version: Version) {
    let key = key(text);
    match found.iter_mut().find(|problem| problem.key == key) {
        Some(problem) => problem.versions.push(version),
        None => found.push(Problem { text: text.to_owned(), key, versions: vec![version] }),
    }
}

/// The command contains the version, and messages of the assembler contain the name of a temporary
/// file.
fn key(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("  command: "));
    lines.map(without_temporary_names).collect::<Vec<_>>().join("\n")
}

/// GCC calls its assembly file `ccXXXXXX.s`, with random letters and digits.
fn without_temporary_names(line: &str) -> String {
    let is_temporary = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        let chance = name.strip_prefix("cc").and_then(|name| name.split_once(".s")).map(|(chance, _)| chance);
        chance.is_some_and(|chance| chance.len() == 6 && chance.chars().all(|c| c.is_ascii_alphanumeric()))
    };
    line.split(':').map(|word| if is_temporary(word.trim()) { "" } else { word }).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiversion::level::Level;

    const VERSIONS: [Version; 3] =
        [Version::BASELINE, Version { level: Some(Level::V2) }, Version { level: Some(Level::V4) }];

    fn failed(what: &str, command: &str) -> Result<u8> {
        Err(Error::new(format!("a.c: the C compiler failed\n  command: {command}\n  output:\n    {what}")))
    }

    fn problems(row: Vec<Result<u8>>) -> Vec<String> {
        let sources = ["a.c".to_owned()];
        by_version(&VERSIONS, &sources, vec![row]).err().map(|error| error.problems().to_vec()).unwrap_or_default()
    }

    #[test]
    fn products_are_in_order() {
        let sources = ["a.c".to_owned(), "b.c".to_owned()];
        let rows = vec![vec![Ok(1), Ok(2), Ok(3)], vec![Ok(4), Ok(5), Ok(6)]];
        assert_eq!(by_version(&VERSIONS, &sources, rows).unwrap(), [[1, 4], [2, 5], [3, 6]]);
    }

    #[test]
    fn a_problem_of_all_versions_is_shown_once() {
        let same = problems(vec![failed("x", "cc"), failed("x", "cc -march=2"), failed("x", "cc -march=4")]);
        assert_eq!(same, ["a.c: the C compiler failed\n  command: cc\n  output:\n    x"]);
        let assembler = |name: &str| failed(&format!("/tmp/{name}.s:12: Error: no such instruction"), "cc");
        assert_eq!(problems(vec![assembler("ccAbCd12"), assembler("ccXyZ345"), assembler("cc000000")]).len(), 1);
        assert_eq!(problems(vec![failed("x", "cc")]), ["a.c: the C compiler failed\n  command: cc\n  output:\n    x"]);
    }

    #[test]
    fn a_problem_of_some_versions_names_them() {
        let some = problems(vec![Ok(1), failed("x", "cc -march=2"), failed("x", "cc -march=4")]);
        assert_eq!(
            some,
            ["a.c (x86-64-v2 and x86-64-v4): the C compiler failed\n  command: cc -march=2\n  output:\n    x"]
        );
        let different = problems(vec![failed("x", "cc"), Ok(2), failed("y", "cc")]);
        let expected = |version: &str, what: &str| {
            format!("a.c ({version}): the C compiler failed\n  command: cc\n  output:\n    {what}")
        };
        assert_eq!(different, [expected("baseline", "x"), expected("x86-64-v4", "y")]);
    }

    #[test]
    fn warnings_are_shown_once() {
        let shown = |texts: [&str; 3]| warnings_once("a.c", VERSIONS.into_iter().zip(texts));
        assert_eq!(shown(["w\n", "w\n", "w\n"]), "w\n");
        assert_eq!(shown(["", "w\n", "w\n"]), "a.c (x86-64-v2):\nw\n");
        assert_eq!(shown(["v\n", "v\n", "w\n"]), "v\na.c (x86-64-v4):\nw\n");
    }
}
