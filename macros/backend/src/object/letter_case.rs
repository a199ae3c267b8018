use syn::LitStr;

use crate::mistakes::Mistakes;

/// The case of variant names in other languages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LetterCase {
    Lower,
    Upper,
    Snake,
    ScreamingSnake,
    Kebab,
}

impl LetterCase {
    const ALL: [(&'static str, Self); 5] = [
        ("lowercase", Self::Lower),
        ("UPPERCASE", Self::Upper),
        ("snake_case", Self::Snake),
        ("SCREAMING_SNAKE_CASE", Self::ScreamingSnake),
        ("kebab-case", Self::Kebab),
    ];

    /// Parses the case of `rename_all`.
    pub(super) fn parse(name: &LitStr, mistakes: &mut Mistakes) -> Option<Self> {
        let case = Self::ALL.iter().find(|(known, _)| *known == name.value()).map(|(_, case)| *case);
        if case.is_none() {
            let known: Vec<String> = Self::ALL.iter().map(|(known, _)| format!("`{known}`")).collect();
            mistakes.at(name, format_args!("unknown case `{}`; the cases are {}", name.value(), known.join(", ")));
        }
        case
    }

    /// Returns a variant's name in this case.
    pub(super) fn apply(self, name: &str) -> String {
        let separator = match self {
            Self::Lower | Self::Upper => "",
            Self::Snake | Self::ScreamingSnake => "_",
            Self::Kebab => "-",
        };
        let joined = words(name).join(separator);
        match self {
            Self::Upper | Self::ScreamingSnake => joined.to_uppercase(),
            Self::Lower | Self::Snake | Self::Kebab => joined.to_lowercase(),
        }
    }
}

/// Splits `HTTPServer_v2` into words: `HTTP`, `Server`, `v2`.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()));
        if *letter == '_' || begins {
            words.push(String::new());
        }
        if let (true, Some(word)) = (*letter != '_', words.last_mut()) {
            word.push(*letter);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        for (name, snake) in [
            ("Red", "red"),
            ("DarkRed", "dark_red"),
            ("HTTPServer", "http_server"),
            ("Float16x2", "float16x2"),
            ("A", "a"),
            ("AB", "ab"),
            ("Dark_Red", "dark_red"),
            ("X86Only", "x86_only"),
        ] {
            assert_eq!(LetterCase::Snake.apply(name), snake);
            assert_eq!(LetterCase::ScreamingSnake.apply(name), snake.to_uppercase());
            assert_eq!(LetterCase::Kebab.apply(name), snake.replace('_', "-"));
            assert_eq!(LetterCase::Lower.apply(name), snake.replace('_', ""));
            assert_eq!(LetterCase::Upper.apply(name), snake.replace('_', "").to_uppercase());
        }
    }
}
