//! Converts cargo versions to versions of Python packages (PEP 440).

use crate::Result;

/// Converts `1.2.3-alpha.1+build.5` to `1.2.3a1+build.5`.
///
/// # Errors
/// Returns an error for a pre-release that Python has no equivalent for.
pub(crate) fn python(version: &str) -> Result<String> {
    let (rest, local) = match version.split_once('+') {
        Some((rest, local)) => (rest, Some(local)),
        None => (version, None),
    };
    let (release, pre) = match rest.split_once('-') {
        Some((release, pre)) => (release, Some(pre)),
        None => (rest, None),
    };
    let mut text = release.to_owned();
    if let Some(pre) = pre {
        text.push_str(&suffix(pre).ok_or_else(|| {
            format!(
                "the version {version} has the pre-release '{pre}', which Python's versions (PEP 440) cannot say; use one of \
                 alpha.N, beta.N, rc.N, dev.N, post.N"
            )
        })?);
    }
    if let Some(local) = local {
        text.push('+');
        text.push_str(&local.to_ascii_lowercase().replace('-', "."));
    }
    Ok(text)
}

/// Converts the words that both support: `alpha`, `alpha.1`, `alpha1`, `rc-1`.
fn suffix(pre: &str) -> Option<String> {
    let pre = pre.to_ascii_lowercase();
    let end = pre.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(pre.len());
    let (word, number) = pre.split_at(end);
    let number = number.strip_prefix(['.', '-']).unwrap_or(number);
    let number = if number.is_empty() { 0 } else { number.parse::<u32>().ok()? };
    let word = match word {
        "alpha" | "a" => "a",
        "beta" | "b" => "b",
        "rc" | "pre" | "preview" | "c" => "rc",
        "dev" => ".dev",
        "post" => ".post",
        _ => return None,
    };
    Some(format!("{word}{number}"))
}

/// Returns true if the text is a Python version of two numbers, such as `3.10`.
pub(crate) fn is_python(text: &str) -> bool {
    let number = |part: &str| part.parse::<u32>().ok();
    text.split_once('.').is_some_and(|(major, minor)| number(major) == Some(3) && number(minor).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (cargo, expected) in [
            ("0.1.0", "0.1.0"),
            ("1.2.3-alpha.1", "1.2.3a1"),
            ("1.2.3-beta", "1.2.3b0"),
            ("1.2.3-rc1", "1.2.3rc1"),
            ("1.2.3-RC.2", "1.2.3rc2"),
            ("1.2.3-dev.20260101", "1.2.3.dev20260101"),
            ("1.2.3-post.1", "1.2.3.post1"),
            ("1.2.3+Build-5", "1.2.3+build.5"),
            ("1.2.3-rc.1+x", "1.2.3rc1+x"),
        ] {
            assert_eq!(python(cargo).as_deref(), Ok(expected));
        }
        for pre in ["nightly", "alpha.1.2", "1", "alpha.x"] {
            assert_eq!(
                python(&format!("1.0.0-{pre}")).unwrap_err(),
                format!(
                    "the version 1.0.0-{pre} has the pre-release '{pre}', which Python's versions (PEP 440) cannot say; use one of \
                     alpha.N, beta.N, rc.N, dev.N, post.N"
                )
            );
        }
        assert!(is_python("3.9") && !is_python("3") && !is_python("2.7") && !is_python("3.x"));
    }
}
