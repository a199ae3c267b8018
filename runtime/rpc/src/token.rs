//! Tokens: secrets that a peer must prove to know.

/// Returns true if a token can be sent, and cannot be guessed at once.
pub(crate) fn is_good(token: &str) -> bool {
    token.len() >= 8 && !token.contains(char::is_whitespace)
}

/// Returns true if a token is the expected one; the time that this takes does not depend on where
/// they differ.
pub(crate) fn is_same(expected: &str, given: &str) -> bool {
    let (expected, given) = (expected.as_bytes(), given.as_bytes());
    let mut differences = u8::from(expected.len() != given.len());
    for (index, byte) in given.iter().enumerate() {
        // The length of the expected token is not revealed either: the number of steps is the
        // length of the given one.
        let other = expected.get(index % expected.len().max(1)).copied().unwrap_or(0);
        differences |= std::hint::black_box(byte ^ other);
    }
    std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_as_a_whole() {
        assert!(is_same("secret", "secret"));
        for given in ["", "s", "secre", "secret1", "secretsecret", "Secret"] {
            assert!(!is_same("secret", given), "{given}");
        }
        assert!(!is_same("", "a"));
        assert!(is_same("", ""));
    }
}
