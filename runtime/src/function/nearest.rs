//! "Did you mean": the names nearest to one that was not found.

/// `; did you mean 'add' or 'add_all'?`, or nothing when no name is near.
pub(crate) fn did_you_mean<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let limit = (wanted.chars().count() / 3).max(2);
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let distance = distance(wanted, name);
            let part = !wanted.is_empty() && (name.contains(wanted) || wanted.contains(name)) && !name.is_empty();
            (distance <= limit || part).then_some((distance, name))
        })
        .collect();
    near.sort();
    near.dedup();
    let mut text = String::new();
    for (i, (_, name)) in near.iter().take(3).enumerate() {
        text.push_str(if i == 0 { "; did you mean " } else { " or " });
        text.push('\'');
        text.push_str(name);
        text.push('\'');
    }
    if !text.is_empty() {
        text.push('?');
    }
    text
}

/// Number of single-character edits between two names (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_near() {
        let names = ["add", "to_gray", "blur", "histogram"];
        assert_eq!(did_you_mean("ad", names), "; did you mean 'add'?");
        assert_eq!(did_you_mean("histgram", names), "; did you mean 'histogram'?");
        assert_eq!(did_you_mean("gray", names), "; did you mean 'to_gray'?");
        assert_eq!(did_you_mean("zzzzzz", names), "");
        assert_eq!(did_you_mean("", names), "");
    }
}
