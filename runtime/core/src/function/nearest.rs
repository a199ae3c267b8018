//! "Did you mean" suggestions: the names nearest to one that was not found.

/// Returns `; did you mean 'add' or 'add_all'?`, or an empty string if no name is near.
#[doc(hidden)]
pub fn did_you_mean(wanted: &str, names: &mut dyn Iterator<Item = &str>) -> String {
    let limit = (wanted.chars().count() / 3).max(2);
    // The three nearest names, nearest first.
    let mut near: Vec<(usize, &str)> = Vec::new();
    for name in names {
        let distance = distance(wanted, name);
        let part = contains(name, wanted) || contains(wanted, name);
        if (distance <= limit || part)
            && let Err(position) = near.binary_search(&(distance, name))
        {
            near.insert(position, (distance, name));
            near.truncate(3);
        }
    }
    let mut text = String::new();
    for (i, (_, name)) in near.iter().enumerate() {
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

/// Returns whether `part`, which is not empty, is in `whole`. Names are short, so a simple search
/// suffices.
fn contains(whole: &str, part: &str) -> bool {
    !part.is_empty() && whole.as_bytes().windows(part.len()).any(|window| window == part.as_bytes())
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
        assert_eq!(did_you_mean("ad", &mut names.into_iter()), "; did you mean 'add'?");
        assert_eq!(did_you_mean("histgram", &mut names.into_iter()), "; did you mean 'histogram'?");
        assert_eq!(did_you_mean("gray", &mut names.into_iter()), "; did you mean 'to_gray'?");
        assert_eq!(did_you_mean("zzzzzz", &mut names.into_iter()), "");
        assert_eq!(did_you_mean("", &mut names.into_iter()), "");
    }
}
