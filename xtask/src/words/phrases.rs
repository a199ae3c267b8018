//! Phrases for which there is a usual term.

/// Phrases in lower case, and what to write. Each was wrong wherever it stood in this repository.
const PHRASES: [(&str, &str); 14] = [
    ("to be had", "'available'"),
    ("at hand", "'available' or 'present'"),
    ("whoever", "the name of the one: 'the caller', 'the client', 'a process that'"),
    ("has none of", "'does not have'"),
    ("that nothing reads", "'unused' or 'dead'"),
    ("call tells", "'a dynamic dimension', 'passed at each call'"),
    ("brings along", "'passes', 'includes' or 'contains'"),
    ("bring along", "'pass', 'include' or 'contain'"),
    ("that is none", "'that is not a ...'"),
    ("that are none", "'that are not ...'"),
    ("that is no", "'that is not a'"),
    ("it is no", "'it is not a'"),
    ("that are no", "'that are not'"),
    ("they are no", "'they are not'"),
];

/// Words that may follow "is no".
const COMPARATIVES: [&str; 12] = [
    "longer", "more", "less", "greater", "larger", "smaller", "longer,", "longer.", "better", "worse", "faster",
    "slower",
];

/// The phrases in a paragraph: the index of the line on which each begins, and what to write.
pub(super) fn find(lines: &[&str]) -> Vec<(usize, &'static str, &'static str)> {
    let text = without_code(&lines.join("\n"));
    let mut found = Vec::new();
    for (phrase, instead) in PHRASES {
        for (at, _) in text.match_indices(phrase) {
            let after = &text[at + phrase.len()..];
            let next = after.trim_start().split(' ').next().unwrap_or_default();
            let is_word = !text[..at].ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
            if is_word && !(phrase.ends_with(" no") && COMPARATIVES.contains(&next)) {
                // Each line of `starts` begins in the text where the one before it has ended.
                let index = lines.iter().scan(0, |end, line| Some(std::mem::replace(end, *end + line.len() + 1)));
                found.push((index.take_while(|start| *start <= at).count() - 1, phrase, instead));
            }
        }
    }
    found
}

/// The text in lower case, of the same length, with spaces for line ends and for code in backticks.
fn without_code(text: &str) -> String {
    let mut is_code = false;
    let blank = |c: char| {
        is_code ^= c == '`';
        if is_code && c.is_ascii() || c == '\n' { ' ' } else { c.to_ascii_lowercase() }
    };
    text.chars().map(blank).collect()
}
