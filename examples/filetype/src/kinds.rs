//! The kinds of files, and the interpretation of the network's scores.

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name, such as `python`.
    pub label: &'static str,
    /// The MIME type, such as `text/x-python`.
    pub mime_type: &'static str,
    /// The group, such as `code`.
    pub group: &'static str,
    /// The description, such as `Python source`.
    pub description: &'static str,
    /// True if files of the kind are text.
    pub is_text: bool,
}

/// A label that the network may return.
struct Label {
    /// The index of the label's kind in `KINDS`.
    guess: usize,
    /// The index of the resulting kind.
    kind: usize,
    /// The minimum score for the kind.
    threshold: f64,
}

include!(concat!(env!("OUT_DIR"), "/table.rs"));

impl Kind {
    /// Returns the kind with this name.
    pub fn named(label: &str) -> Option<&'static Self> {
        KINDS.binary_search_by(|kind| kind.label.cmp(label)).ok().map(|place| &KINDS[place])
    }
}

/// Returns all kinds, in the order of their names.
pub fn all() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter()
}

/// Interprets scores: the kind of the best label, the resulting kind, and the score. If the score
/// is below the threshold of the label, the result is text or unknown.
pub fn decide(scores: &[f32]) -> Option<(&'static Kind, &'static Kind, f32)> {
    // The first one of equal scores.
    let (best, score) =
        scores.iter().copied().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let label = LABELS.get(best)?;
    let kind = &KINDS[label.kind];
    let kind = match (f64::from(score) >= label.threshold, kind.is_text) {
        (true, _) => kind,
        (false, true) => Kind::named("txt")?,
        (false, false) => Kind::named("unknown")?,
    };
    Some((&KINDS[label.guess], kind, score))
}

#[cfg(all(test, has_model))]
mod tests {
    use super::*;

    fn decided(label: &str, score: f32) -> (&'static str, &'static str) {
        let place = LABELS.iter().position(|known| KINDS[known.guess].label == label).unwrap();
        let mut scores = vec![0.0; LABELS.len()];
        scores[place] = score;
        let (guess, kind, best) = decide(&scores).unwrap();
        assert_eq!(best, score);
        (guess.label, kind.label)
    }

    #[test]
    fn thresholds_and_other_names() {
        for (label, score, kind) in [
            ("python", 0.51, "python"),
            ("python", 0.49, "txt"),
            ("markdown", 0.74, "txt"),
            ("markdown", 0.75, "markdown"),
            ("png", 0.4, "unknown"),
            ("randombytes", 0.99, "unknown"),
            ("randomtxt", 0.99, "txt"),
        ] {
            assert_eq!(decided(label, score), (label, kind), "{label} {score}");
        }
        assert_eq!(LABELS.len(), 214);
        assert_eq!(decide(&[]), None);
    }
}
